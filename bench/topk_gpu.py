"""The standalone selector on the card of this machine: its share of the copy bandwidth, and against other selectors.

In: a GPU and torch.  Out: (what, ratio, target) rows; all samples in milliseconds as JSON in the folder that `ATTR_BENCH_OUT`
names, if it is set.  Q 4096, K 2048, causal rows of normal scores; graph replays (the copy: a call) in a fresh random order
every round, the selector twice (the null pair).  Every output is checked before it is timed and behind the last replay.
The others are torch.topk and those of kernels/selectors that are installed.
DeepSelect's figures are another run's on the same model of card: they are compared as multiples of that run's copy, and say
nothing finer than their two digits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attribution.load import load_kernel, module_of, shipped_root
from attribution.measure.probe import Gpu, find
from bench.gpu import graph, paired, ratio

K = 2048
WIDE = (131072, 163840)
WIDTHS = (8192, 16384, 32768, 65536, *WIDE)
FEW_ROWS = ((512, 131072), (64, 131072), (8, 131072), (1, 131072), (1, 8192))
GOALS = [(4096, n) for n in (8192, 16384, 32768, 65536)]
COPY_BYTES = 1 << 30
DEEPSELECT_COPY_BYTE_PER_S = 4.24e12
DEEPSELECT_MS = {
    8192: (0.184, 0.161),
    16384: (0.449, 0.325),
    32768: (0.776, 0.511),
    65536: (1.116, 0.672),
    131072: (1.499, 0.984),
}
"""Columns -> as its authors ship it for this K, and the same body with 512 threads."""


def module(name: str, kernel: str = "topk") -> Any:
    return module_of(load_kernel(shipped_root(), kernel), name)


def others(inputs: Any, arch: str) -> dict[str, Any]:
    """Selectors of other projects that can be used here, each made for these inputs."""
    known, made = module("known", "selectors"), module("gpu_selectors", "selectors")
    problem = made.Problem(inputs["scores"], inputs["start"], inputs["end"], K)
    there = [n for n, one in known.GPU.items() if one.module not in ("", "torch") and not known.missing(n, arch)]
    return {name: made.SELECTORS[name](problem) for name in there}


class Copy:
    """A copy of COPY_BYTES within the card's memory, replayed by an ordinary call: as a node of a graph it is slower."""

    def __init__(self) -> None:
        import torch

        self.source = torch.randint(0, 255, (COPY_BYTES,), dtype=torch.uint8, device="cuda")
        self.target = torch.empty_like(self.source)

    def replay(self) -> None:
        self.target.copy_(self.source)


def checked(inputs: Any, out: Any) -> None:
    """Raises AssertionError for a wrong row."""
    gpu, shape = module("gpu"), dict(zip(("q", "n"), inputs["scores"].shape, strict=True))
    flags = load_kernel(shipped_root(), "topk").resolve_flags({"K": K})
    bad = [
        c
        for c in gpu.check(inputs, {"indices": out}, gpu.reference(inputs, shape, flags), shape, flags)
        if not c.passed
    ]
    assert not bad, bad


def measured(rows: int, columns: int, copying: Copy, arch: str) -> dict[str, list[float]]:
    """Milliseconds of every round: the selector twice, others on the same matrix, and the copy."""
    import torch

    topk = module("operator").topk
    inputs = module("gpu").inputs({"q": rows, "n": columns}, "normal", 11)
    out = topk(inputs["scores"], inputs["start"], inputs["end"], K)
    checked(inputs, out)
    arms = {
        name: graph(lambda: topk(inputs["scores"], inputs["start"], inputs["end"], K, out))
        for name in ("topk", "again")
    }
    places, values = torch.topk(inputs["scores"], K, 1, sorted=False)[::-1]
    arms["torch"] = graph(lambda: torch.topk(inputs["scores"], K, 1, sorted=False, out=(values, places)))
    beside = others(inputs, arch)
    for name, made in beside.items():
        arms[name] = graph(made.run)
        made.output["indices"].fill_(-7)
    arms["copy"] = copying
    out.fill_(-7)
    times = paired(arms)
    for indices in (out, *(made.output["indices"] for made in beside.values())):
        checked(inputs, indices)
    return times


def compared(rows: int, columns: int, times: dict[str, list[float]]) -> Iterator[tuple[str, float, str]]:
    """What the samples of one shape say, measured now or kept."""
    what = f"topk Q {rows} N {columns}"
    yield f"{what}: torch.topk / topk", ratio(times, "torch", "topk"), ">= 1.2" if rows == 4096 else "> 1"
    for name in (n for n in times if n not in ("topk", "again", "torch", "copy")):
        yield (
            f"{what}: {name} / topk",
            ratio(times, name, "topk"),
            ">= 1.2" if (rows, columns) in GOALS else "reported",
        )
    yield f"{what}: null pair", ratio(times, "again", "topk"), "1.00"
    if rows == 4096:
        matrix = 4 * rows * columns / (2 * COPY_BYTES)  # one read of it, in copies
        share = matrix * ratio(times, "copy", "topk")
        yield (
            f"{what}: one read of the matrix, of the copy bandwidth",
            share,
            ">= 0.55" if columns in WIDE else "reported",
        )
        for tier, ms in zip(("as shipped", "512 threads"), DEEPSELECT_MS.get(columns, ()), strict=False):
            copies = ms * 1e-3 * DEEPSELECT_COPY_BYTE_PER_S / (2 * COPY_BYTES)
            yield f"{what}: DeepSelect {tier} / topk, both in copies", copies * ratio(times, "copy", "topk"), "> 1"


def ratios() -> Iterator[tuple[str, float, str]]:
    found = find()
    if not isinstance(found, Gpu):
        raise SystemExit(f"topk_gpu measures on a GPU, and here is {found}")
    import torch

    copying, kept = Copy(), {}
    for rows, columns in (*((4096, n) for n in WIDTHS), *FEW_ROWS):
        times = measured(rows, columns, copying, found.arch)
        kept[f"{rows}x{columns}"] = times
        yield from compared(rows, columns, times)
        torch.cuda.empty_cache()
    if folder := os.environ.get("ATTR_BENCH_OUT"):
        facts = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "k": K, "milliseconds": kept}
        Path(folder, "topk_goals.json").write_text(json.dumps(facts), encoding="utf-8")
