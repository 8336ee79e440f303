"""`make pairs`: every pair of flag values of every shipped kernel is refused with a reason or compiles.

In: nothing; NVRTC as a wheel, no GPU.  Out: a line for each pair that does not compile; exit 1 if there is one.
A pair is completed by what its values need (a rung's lower rungs, a delay's length, a tile's room): `NEEDS`.
Compiled to PTX only, which is where `if constexpr` and static assertions speak: machine code takes three times as long, and
`attr build --all` makes it for every variant.
Misuse: minutes of every core; it is no part of the tests, which compile a few pairs.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from attribution.build import target
from attribution.cli.output import progress_bar
from attribution.declare import FlagValue, Kernel
from attribution.errors import InputError
from attribution.load import kernel_names, load_kernel, shipped_root

Overrides = dict[str, FlagValue]
RUNGS = ("MMA", "REDUCE", "FILTER", "SELECT", "EMIT")
NEEDS: dict[str, dict[tuple[str, FlagValue], Overrides]] = {
    "index_topk": {
        **{(low, False): dict.fromkeys(RUNGS[i + 1 :], False) for i, low in enumerate(RUNGS)},
        ("STORE_SCORES", True): dict.fromkeys(RUNGS[2:], False),
        ("LAYOUT", "shared"): {"SEGMENT_CAPACITY": 5888},
        **{("KV_STAGES", odd): {"MATH_WARPGROUPS": 1} for odd in (1, 3, 5)},
        ("BLOCK_Q", 1): {"KV_STAGES": 4},
        ("BLOCK_Q", 2): {"KV_STAGES": 4},
        ("SELECTOR", "topk"): {"STORE_SCORES": True, **dict.fromkeys(RUNGS[2:], False)},
        ("SCORER", "deep_gemm"): {"STORE_SCORES": True, **dict.fromkeys(RUNGS[2:], False)},
        **{("DELAY_ROLE", role): {"DELAY_CYCLES": 1000} for role in ("tma", "math", "topk")},
    },
    "topk": {("ALGORITHM", a): {"CANDIDATE_CAPACITY": 8192} for a in ("online", "heap")},
}


def completed(kernel: Kernel, chosen: Overrides) -> Overrides:
    """`chosen` and what it needs; a value that was chosen stays."""
    needed: Overrides = {}
    for item in chosen.items():
        needed |= NEEDS.get(kernel.name, {}).get(item, {})
    return {**needed, **chosen}


def pairs(kernel: Kernel) -> Iterator[Overrides]:
    """Every pair of values of two flags that are not their defaults, completed."""
    values = [
        (name, value)
        for name, flag in kernel.flags.items()
        for value in ((False, True) if isinstance(flag.default, bool) else flag.choices or ())
        if value != flag.default
    ]
    for one, other in itertools.combinations(values, 2):
        if one[0] != other[0]:
            yield completed(kernel, dict((one, other)))


def errors(text: str) -> str:
    """What the compiler's front end has against the text of a unit; '' when it compiles."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"unit.cu", 0, None, None)
    options = [b"-arch=compute_90a", b"-std=c++20"]
    (failed,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = b""
    if int(failed):
        # Written in place, so it must be nobody else's: of one byte (no words), it would be Python's only `b" "`.
        log = b" " * (nvrtc.nvrtcGetProgramLogSize(program)[1] + 1)
        nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(program)
    return log.decode().rstrip("\0 ")


def judged(name: str, overrides: Overrides) -> str:
    """`compiles`, `refused`, or the compiler's words."""
    kernel = load_kernel(shipped_root(), name)
    try:
        text = target(kernel, overrides).unit.text
    except InputError as error:
        return "refused" if "flags refused: " in str(error) else f"refused without a reason: {error}"
    return errors(text) or "compiles"


def main() -> int:
    kernels = [load_kernel(shipped_root(), n) for n in kernel_names(shipped_root())]
    todo = [(k.name, pair) for k in kernels if k.source for pair in pairs(k)]
    counted: dict[str, int] = {}
    wrong = []
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        # Before the bar, whose thread no process should be forked beside.
        found = pool.map(judged, *zip(*todo, strict=True), chunksize=4)
        with progress_bar(quiet=False) as progress:
            for done, ((name, pair), said) in enumerate(zip(todo, found, strict=True), 1):
                known = said if said in ("compiles", "refused") else "wrong"
                counted[known] = counted.get(known, 0) + 1
                if known == "wrong":
                    wrong.append(f"{name} {described(pair)}:\n{said[:600]}")
                progress(done, len(todo), f"{name}, {len(wrong)} wrong")
    for line in wrong:
        print(line)
    print(f"{len(todo)} pairs of flag values: " + ", ".join(f"{n} {what}" for what, n in sorted(counted.items())))
    return int(bool(wrong))


def described(pair: dict[str, Any]) -> str:
    return ", ".join(f"{n} = {v}" for n, v in pair.items())


if __name__ == "__main__":
    sys.exit(main())
