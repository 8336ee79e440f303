"""Parts of the benchmarks on a GPU: builds, inputs, a captured graph, paired rounds of replays, the practical FP8 ceiling.

In: torch and a GPU.  Out: milliseconds by arm and round, and ratios of the same round.
Arms of a round run in a fresh random order.
Misuse: a ratio of two medians of different runs (the card's clock follows its power); letting go of the tensors whose graphs
are replayed: a graph does not keep them alive.
"""

from __future__ import annotations

import math
import os
import random
import statistics
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from attribution.build import build
from attribution.declare import Flags, Kernel
from attribution.plan import json_text

ROUNDS = 21
KEPT: list[Any] = []
"""Tensors of `ceiling`'s graph."""


def compiled(kernel: Kernel, wanted: Iterable[Flags]) -> int:
    """Compile what is wanted on all cores, so that who runs it does not; returns how many builds there are.  Raises BuildError."""
    flags = {json_text(one): one for one in wanted}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return len({made.identity for made in pool.map(lambda one: build(kernel, one), flags.values())})


def normal(rows: int, keys: int, seed: int = 0) -> dict[str, Any]:
    """Inputs of index_topk: normal queries, keys and weights, causal bounds; with fewer keys than rows the first rows are empty."""
    import torch

    g = torch.Generator("cuda").manual_seed(seed)
    fp8 = torch.float8_e4m3fn
    return {
        "q": torch.randn(rows, 64, 128, device="cuda", generator=g).to(fp8),
        "k": torch.randn(keys, 128, device="cuda", generator=g).to(fp8),
        "k_scale": torch.rand(keys, device="cuda", generator=g) + 0.5,
        "w": torch.randn(rows, 64, device="cuda", generator=g) / 8,
        "k_start": torch.zeros(rows, device="cuda", dtype=torch.int32),
        "k_end": (torch.arange(rows, device="cuda") + keys - rows + 1).clamp(min=0).int(),
    }


def graph(function: Callable[[], Any]) -> Any:
    import torch

    for _ in range(3):
        function()
    torch.cuda.synchronize()
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        function()
    made.replay()
    torch.cuda.synchronize()
    return made


def paired(arms: dict[str, Any]) -> dict[str, list[float]]:
    """Milliseconds of every round by arm; the card is idle before each replay."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in arms}
    order, shuffle = list(arms), random.Random(0)
    for _ in range(ROUNDS):
        shuffle.shuffle(order)
        for name in order:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            arms[name].replay()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
    return times


def ratios(times: dict[str, list[float]], top: str, bottom: str) -> list[float]:
    """Of each round."""
    return [a / b for a, b in zip(times[top], times[bottom], strict=True)]


def ratio(times: dict[str, list[float]], top: str, bottom: str) -> float:
    """Median of the paired ratios."""
    return statistics.median(ratios(times, top, bottom))


def median_interval(values: list[float]) -> tuple[float, float] | None:
    """Two of `values` between which the median they are drawn around lies in 95 of 100 cases; None where they are too few.

    By order alone: each value is as likely above that median as below it, whatever its distribution.
    """
    n, outside, below = len(values), 0, 0.0
    while (below := below + math.comb(n, outside) / 2**n) <= 0.025:
        outside += 1
    ordered = sorted(values)
    return (ordered[outside - 1], ordered[-outside]) if outside else None


def ceiling() -> Callable[[], Any]:
    """The practical fp8 ceiling: torch._scaled_mm of 8192^3 with fast accumulation."""
    import torch

    a, b = (torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    KEPT.append((a, b, one))
    return lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
