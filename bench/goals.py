"""`make bench-gpu`: the goals of index_topk against what this machine's card does, from one run.

In: a Hopper GPU with torch; DeepGEMM's wheel and ncu where they are installed (else their rows say what is missing).
Out: a table (what, measured, goal, met); all samples in milliseconds as JSON in the file that is named on the command line.
A ratio is the median of the rounds' ratios (bench/pipelines.py times them), which meets a goal or not: where the goal lies inside
the interval beside it, these rounds alone do not tell.  The interval supposes rounds alike; where a ratio has a trend, the medians
of its first and last rounds are printed, and the interval is too narrow.
Seeds and, in `UNSEEN`, shapes are not those that the kernel was tuned on.
Misuse: without a GPU it says so and exits with 1; nothing is estimated.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribution.measure.probe import Gpu, find
from bench.gpu import ROUNDS, ceiling, graph, median_interval, ratio, ratios
from bench.pipelines import SCORE_ONLY, Arm, Shape, Times, main_alone, pipeline_of, whole

HEAD_FLOP, NCU_S = 2 * 64 * 128, 120
LONG = [(4096, n) for n in (8192, 16384, 32768, 65536, 131072)]
OTHERS = [(8192, 131072, 1.0), (512, 131072, 1.0), (64, 131072, 0.8), (8, 131072, 0.8)]
UNSEEN = [(3001, 20480), (777, 98304), (2048, 49152)]
LARGEST, TRACED = (4096, 131072), (4096, 32768)
MATH_ONLY: dict[str, Any] = {"REDUCE": False, **SCORE_ONLY}
TREND = 0.01
"""How often rounds that are alike may be said to have a trend."""


@dataclass(frozen=True)
class Row:
    """One line of the table; `met` is None where the goal is not a goal or was not measured.

    interval: of that median, 95 %.  drift: see `drift`.
    """

    what: str
    measured: str
    goal: str
    met: bool | None
    interval: str = ""
    drift: str = ""


def below(what: str, values: list[float], most: float) -> Row:
    """The median of `values`, one a round, against a goal."""
    value, around = statistics.median(values), median_interval(values)
    interval = f"[{around[0]:.3f}, {around[1]:.3f}]" if around else ""
    return Row(what, f"{value:.3f}", f"<= {most:.3f}", value <= most, interval, drift(values))


def drift(values: list[float]) -> str:
    """`0.792 to 0.682`: medians of the first and the last third of the rounds; '' where Kendall's tau sees no trend in them."""
    from scipy.stats import kendalltau

    third = len(values) // 3
    if third < 2 or not kendalltau(range(len(values)), values).pvalue < TREND:
        return ""
    return f"{statistics.median(values[:third]):.3f} to {statistics.median(values[-third:]):.3f}"


def against_scorer(what: str, times: Times, most: float) -> Row:
    if "scorer" not in times:
        return Row(f"{what}: operator / scorer", "not measured: deep_gemm is not installed", f"<= {most:.2f}", None)
    wins = sum(a < b for a, b in zip(times["full"], times["scorer"], strict=True))
    return below(f"{what}: operator / scorer, faster in {wins} of {ROUNDS}", ratios(times, "full", "scorer"), most)


def largest(shape: Shape) -> dict[str, Arm]:
    peak = graph(ceiling())
    return {
        "score_only": main_alone(shape.arm(**SCORE_ONLY)),
        "math_only": main_alone(shape.arm(**MATH_ONLY)),
        "without_repair": whole(shape.arm("repair")),
        "ceiling": Arm(lambda: peak.replay()),
    }


def largest_rows(what: str, shape: Shape, times: Times) -> Iterator[Row]:
    pairs = float((shape.inputs["k_end"] - shape.inputs["k_start"]).double().sum())
    rate = statistics.median(
        (pairs * HEAD_FLOP / m) / (2 * 8192**3 / c) for m, c in zip(times["main"], times["ceiling"], strict=True)
    )
    yield Row(f"{what}: main kernel / practical fp8 ceiling", f"{rate:.3f}", ">= 0.750", rate >= 0.75)
    yield below(f"{what}: exposed selection, of main", [1 - r for r in ratios(times, "score_only", "main")], 0.03)
    yield Row(f"{what}: math_only / main", f"{ratio(times, 'math_only', 'main'):.3f}", "reported", None)
    yield repair(what, shape.failed_rows(), times)
    yield below(f"{what}: MiB beyond inputs and output", [shape.scratch_bytes() / 2**20], 200)


def repair(what: str, failed_rows: int, times: Times) -> Row:
    """What the exception path costs; no answer where a row met it."""
    what = f"{what}: repair without a failing row, of operator"
    if failed_rows:
        return Row(what, f"not measured: {failed_rows} rows failed", "<= 0.005", None)
    return below(what, [1 - r for r in ratios(times, "without_repair", "full")], 0.005)


def instructions(rows: int, keys: int) -> Row:
    """Thread-instructions a pair of the complete main kernel, counted by ncu in a process of its own."""
    what, goal = f"Q {rows} N {keys}: thread-instructions a pair", "<= 220"
    if shutil.which("ncu") is None:
        return Row(what, "not measured: ncu is not installed", goal, None)
    metric = "smsp__thread_inst_executed.sum"
    command = ["ncu", "--clock-control", "none", "-k", "index_main", "-c", "1", "--metrics", metric, "--csv"]
    command += ["--print-units", "base", sys.executable, "-m", "bench.goals", "--once", str(rows), str(keys)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=NCU_S, check=False)
    except subprocess.TimeoutExpired:
        return Row(what, f"not measured: ncu took more than {NCU_S} s", goal, None)
    line = next((x for x in done.stdout.splitlines() if metric in x), None)
    if line is None:
        return Row(what, f"not measured: ncu exited with {done.returncode}", goal, None)
    counted = float(line.rsplit('","', 1)[1].strip('"').replace(",", ""))
    each = counted / sum(keys - rows + 1 + r for r in range(rows))
    return Row(what, f"{each:.0f}", goal, each <= 220)


def table(kept: dict[str, Any]) -> Iterator[Row]:
    import torch

    long: list[float] = []
    sizes = [*((q, n, 1.15) for q, n in LONG), *OTHERS, *((q, n, 1.15) for q, n in UNSEEN)]
    for rows, keys, most in sizes:
        shape = Shape(rows, keys)
        what = f"Q {rows} N {keys}" + (" (unseen)" if (rows, keys) in UNSEEN else "")
        more = largest(shape) if (rows, keys) == LARGEST else {}
        if (rows, keys) == TRACED:
            more["traced"] = main_alone(shape.arm(TRACE=1))
        times = shape.times(more)
        kept["milliseconds"][f"{rows}x{keys}"] = times
        yield against_scorer(what, times, most)
        yield Row(f"{what}: null pair", f"{ratio(times, 'again', 'full'):.3f}", "reported", None)
        for arm in (name for name in times if name.startswith("unfused_")):
            pipeline = pipeline_of(arm)
            yield Row(f"{what}: operator / {pipeline}", f"{ratio(times, 'full', arm):.3f}", "reported", None)
        if (rows, keys) in LONG and "scorer" in times:
            long.append(ratio(times, "full", "scorer"))
        if (rows, keys) == LARGEST:
            yield from largest_rows(what, shape, times)
        if (rows, keys) == TRACED:
            yield below(f"{what}: TRACE = 1 / TRACE = 0, main", ratios(times, "traced", "main"), 1.01)
        for wrong in shape.wrong:
            yield Row(f"{what}: output", wrong, "right", False)
        del shape, more
        torch.cuda.empty_cache()
    if long:
        mean = math.exp(statistics.fmean(map(math.log, long)))
        yield below("geometric mean over Q 4096: operator / scorer", [mean], 1)
    yield instructions(*TRACED)


def main(arguments: list[str]) -> int:
    found = find()
    if not isinstance(found, Gpu):
        print(f"bench-gpu measures on a Hopper GPU, and here is {found}", file=sys.stderr)
        return 1
    if arguments[:1] == ["--once"]:
        Shape(int(arguments[1]), int(arguments[2]))
        return 0
    kept: dict[str, Any] = {"card": found.name, "rounds": ROUNDS, "scope": "graph", "milliseconds": {}}
    rows = []
    for row in table(kept):
        rows.append(row)
        mark = {True: "met", False: "missed", None: ""}[row.met]
        print(f"{row.measured:>10}  {row.interval:>16}  {row.goal:>10}  {mark:6}  {row.what}", flush=True)
        if row.drift:
            print(f"{'':>10}  the rounds are not alike: from the first third to the last {row.drift}", flush=True)
        if arguments:  # after every row: what was measured stays when the run is stopped
            Path(arguments[0]).write_text(json.dumps({**kept, "rows": [vars(r) for r in rows]}), encoding="utf-8")
    goals = [r for r in rows if r.met is not None]
    print(f"{sum(r.met is True for r in goals)} of {len(goals)} goals met on {found.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
