"""What happens when a stage of index_topk's ring is read by two warpgroups in turn: docs/findings/0006.

    python -m bench.two_readers_gpu FILE.json

In: a Hopper GPU.  Out: for each configuration how many launches of the main kernel ended well, how often each result came, and
how it ended.  The rule that refuses such a ring is taken out of a copy of the kernel.  Each configuration is launched in a process
of its own, again and again for SECONDS at most: one that loses its context, or hangs, costs the others nothing.
Misuse: it provokes launch failures; not beside something that is being measured.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from attribution.build import build
from attribution.declare import Kernel
from attribution.load import load_kernel, module_of, shipped_root
from bench.gpu import normal

ROWS, KEYS, SEED, SECONDS, LIMIT_S = 4096, 32768, 36965, 12.0, 60
H20 = {"BLOCK_Q": 2, "TOPK_WARPS": 3, "MATH_WARPGROUPS": 2, "SCHEDULE": "rows", "REDUCE_MATH": "f32"}
MATH_ONLY = dict.fromkeys(("REDUCE", "FILTER", "SELECT", "EMIT"), False)
CASES: list[dict[str, Any]] = [
    {"stages": 4, "pingpong": False, "rung": "math_only", "launches": 1500},
    {"stages": 3, "pingpong": True, "rung": "math_only", "launches": 1500},
    {"stages": 3, "pingpong": False, "rung": "full", "launches": 300},
    {"stages": 3, "pingpong": False, "rung": "math_only", "launches": 1500},
    {"stages": 3, "pingpong": False, "rung": "math_only", "launches": 1500},
]
RULES = (
    ("shape.cuh", "static_assert(flag::KV_STAGES % flag::MATH_WARPGROUPS == 0 && flag::MATH_WARPGROUPS <= 2);", ""),
    ("sizes.py", 'if int(flags["KV_STAGES"]) % warpgroups:', "if False:"),
)


def unruled(home: Path) -> Kernel:
    """A copy of index_topk under `home` that lets a stage have two readers."""
    folder = home / "kernels" / "index_topk"
    shutil.copytree(shipped_root() / "kernels" / "index_topk", folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in RULES:
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, (name, old)
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")
    return load_kernel(home, "index_topk")


def flags_of(case: dict[str, Any]) -> dict[str, Any]:
    more = MATH_ONLY if case["rung"] == "math_only" else {}
    return {**H20, "KV_STAGES": case["stages"], "PINGPONG": case["pingpong"], **more}


def launched(home: Path, case: dict[str, Any]) -> dict[str, Any]:
    """In a process of its own: launch until the count, the time or an error ends it."""
    import torch

    from attribution.measure.prepared import Module, Prepared

    kernel = load_kernel(home, "index_topk")
    flags = kernel.resolve_flags(flags_of(case))
    made = module_of(kernel, "operator").make(normal(ROWS, KEYS, SEED), flags, {})
    ready = Prepared(kernel, made.steps(), Module(build(kernel, flags)))
    seen: Counter[int] = Counter()
    ended, began = "well", time.monotonic()
    try:
        while seen.total() < case["launches"] and time.monotonic() - began < SECONDS:
            ready.run()
            torch.cuda.synchronize()
            result = made.checksum if case["rung"] == "math_only" else made.output.sort(1).values.long().sum(0)
            seen[int((result * torch.arange(1, len(result) + 1, device="cuda")).sum().item())] += 1
    except Exception as error:
        ended = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return {**case, "launches": seen.total(), "results": sorted(seen.values(), reverse=True), "ended": ended}


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--one"]:
        print(json.dumps(launched(Path(arguments[1]), json.loads(arguments[2]))))
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        kernel = unruled(Path(scratch))
        for number, case in enumerate(CASES, 1):
            build(kernel, kernel.resolve_flags(flags_of(case)))
            command = [sys.executable, "-m", "bench.two_readers_gpu", "--one", scratch, json.dumps(case)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
                said = done.stdout.strip().splitlines()
                rows.append(json.loads(said[-1]) if said else {**case, "launches": 0, "ended": done.stderr[-200:]})
            except subprocess.TimeoutExpired:
                rows.append({**case, "launches": 0, "results": [], "ended": f"hang: {LIMIT_S} s"})
            rows[-1] = {"number": number, **rows[-1]}
            print(rows[-1], flush=True)
    Path(arguments[0]).write_text(json.dumps({"rows": ROWS, "keys": KEYS, "cases": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
