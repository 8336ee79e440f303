"""The table of goals of index_topk on the card of this machine: ratios inside one run, paired rounds, graph replays.

In: a Hopper GPU, torch, and DeepGEMM's wheel for the ratios against its scorer.  Out: (what, ratio, target) rows; all samples
in milliseconds as JSON in the folder that `ATTR_BENCH_OUT` names, if it is set.
Arms of a shape run in a fresh random order every round, the complete operator twice (the null pair).  Nothing is tuned here.
Misuse: a ratio of two medians of different runs; the card's clock follows its power.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import os
import random
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attribution.build import build
from attribution.declare import load_kernel, shipped_root

ROUNDS, SEED = 21, 101
LONG = [(4096, n) for n in (8192, 16384, 32768, 65536, 131072)]
OTHERS = [(8192, 131072, "1.00"), (512, 131072, "1.00"), (64, 131072, "0.80"), (8, 131072, "0.80")]
SCORE_ONLY = {"FILTER": False, "SELECT": False, "EMIT": False}
MATH_ONLY = {"REDUCE": False, **SCORE_ONLY}
KEPT: list[Any] = []
"""Operators whose graphs are replayed: a graph does not keep its tensors alive."""


def operator(inputs: dict[str, Any], **overrides: Any) -> Any:
    """An Operator of index_topk under these flags, kept."""
    kernel = load_kernel(shipped_root(), "index_topk")
    module = importlib.import_module(f"{kernel.inputs.__module__.rsplit('.', 1)[0]}.operator")
    flags = kernel.resolve_flags(overrides)
    made = module.launch(inputs, flags, {}, module.load(build(kernel, flags).cubin))
    made.run()
    KEPT.append(made)
    return made


def normal(rows: int, keys: int) -> dict[str, Any]:
    import torch

    g = torch.Generator("cuda").manual_seed(SEED + rows + keys)
    fp8 = torch.float8_e4m3fn
    return {
        "q": torch.randn(rows, 64, 128, device="cuda", generator=g).to(fp8),
        "k": torch.randn(keys, 128, device="cuda", generator=g).to(fp8),
        "k_scale": torch.rand(keys, device="cuda", generator=g) + 0.5,
        "w": torch.randn(rows, 64, device="cuda", generator=g) / 8,
        "k_start": torch.zeros(rows, device="cuda", dtype=torch.int32),
        "k_end": (torch.arange(rows, device="cuda") + keys - rows + 1).int(),
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
    """Milliseconds of every round by arm."""
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


def ratio(times: dict[str, list[float]], top: str, bottom: str) -> float:
    """Median of the paired ratios."""
    return statistics.median(a / b for a, b in zip(times[top], times[bottom], strict=True))


def shape_arms(rows: int, keys: int) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    inputs = normal(rows, keys)
    full = operator(inputs)
    before_repair = tuple(s.stage for s in full.launches if s.stage != "repair")
    arms = {
        "full": graph(full.run),
        "full_again": graph(full.run),
        "without_repair": graph(lambda: full.run(before_repair)),
        "main": graph(lambda: full.run(("main",))),
    }
    try:
        import deep_gemm

        def scorer() -> Any:
            pair = (inputs["k"], inputs["k_scale"])
            bounds = inputs["k_start"], inputs["k_end"]
            return deep_gemm.fp8_mqa_logits(inputs["q"], pair, inputs["w"], *bounds, clean_logits=False)

        arms["scorer"] = graph(scorer)
    except ImportError:
        print("deep_gemm is not installed: no ratios against its scorer")
    return arms, full, inputs


def ceiling() -> Callable[[], Any]:
    """The practical fp8 ceiling: torch._scaled_mm of 8192^3 with fast accumulation."""
    import torch

    a, b = (torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    KEPT.append((a, b, one))
    return lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)


def ratios() -> Iterator[tuple[str, float, str]]:
    import torch

    kept: dict[str, Any] = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rounds": ROUNDS,
        "shapes": {},
    }
    against: list[float] = []
    for rows, keys, target in [*((q, n, "1.15") for q, n in LONG), *OTHERS]:
        arms, full, inputs = shape_arms(rows, keys)
        largest = (rows, keys) == LONG[-1]
        if largest:
            for name, flags in (("score_only", SCORE_ONLY), ("math_only", MATH_ONLY)):
                arms[name] = graph(functools.partial(operator(inputs, **flags).run, ("main",)))
            arms["ceiling"] = graph(ceiling())
        times = paired(arms)
        kept["shapes"][f"{rows}x{keys}"] = times
        what = f"Q {rows} N {keys}"
        if "scorer" in times:
            value = ratio(times, "full", "scorer")
            wins = sum(a < b for a, b in zip(times["full"], times["scorer"], strict=True))
            yield f"{what}: operator / DeepGEMM's scorer alone, faster in {wins} of {ROUNDS}", value, target
            if (rows, keys) in LONG:
                against.append(value)
        yield f"{what}: null pair", ratio(times, "full_again", "full"), "1.00"
        if largest:
            pairs = float((inputs["k_end"] - inputs["k_start"]).double().sum())
            rate = statistics.median(
                (pairs * 16384 / m) / (2 * 8192**3 / c) for m, c in zip(times["main"], times["ceiling"], strict=True)
            )
            yield f"{what}: main kernel's rate / practical fp8 ceiling", rate, ">= 0.75"
            yield f"{what}: score_only / main", ratio(times, "score_only", "main"), "> 0.97"
            yield f"{what}: math_only / main", ratio(times, "math_only", "main"), "reported"
            yield f"{what}: without repair / with", ratio(times, "without_repair", "full"), "> 0.995"
            yield f"{what}: MiB of scratch / 200", full.scratch_bytes / 2**20 / 200, "< 1"
        KEPT.clear()
        torch.cuda.empty_cache()
    if against:
        yield "geometric mean over Q 4096", math.exp(statistics.fmean(map(math.log, against))), "1.00"
    if folder := os.environ.get("ATTR_BENCH_OUT"):
        Path(folder, "index_topk_goals.json").write_text(json.dumps(kept), encoding="utf-8")
