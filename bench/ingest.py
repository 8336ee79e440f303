"""Reading profilers' files, as ratios within one run.

Kineto: events per second against HolisticTraceAnalysis on the same file, where HTA_PYTHON names an interpreter that
has it.  Report: to tables against `ncu_report.load_report` and reading the same metrics and instances.
In: files of ATTR_CORPUS where it is set; else a trace made here, and the project's own report where it is delivered.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CORPUS = Path(os.environ.get("ATTR_CORPUS") or ROOT / ".." / "shared" / "corpus")
_RUNS = 5


def ratios() -> list[tuple[str, float, str]]:
    """(what, ratio, target): medians of alternating runs."""
    return [*_kineto(), *_report()]


def _medians(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(_RUNS):
        for call, into in zip((ours, theirs), seconds, strict=True):
            into.append(_seconds(call))
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def _kineto() -> list[tuple[str, float, str]]:
    from attribution.ingest.kineto import load

    with tempfile.TemporaryDirectory() as folder:
        path = CORPUS / "kineto" / "hta_nccl_data.json.gz"
        if not path.exists():
            path = _made(Path(folder) / "made.json")
        events = len(load(path).table("slices"))
        out = []
        mine, plain = _medians(lambda: load(path), lambda: _plain_json(path))
        out.append((f"Kineto load / json.loads of the same {path.name} ({events} slices)", mine / plain, "(no target)"))
        again, theirs = [], []
        for _ in range(_RUNS):
            again.append(_seconds(lambda: load(path)))
            theirs.append(_hta_seconds(path))
        if None in theirs:
            print("HolisticTraceAnalysis is not installed (name its interpreter in HTA_PYTHON): not compared with it")
            return out
        for place, (what, target) in enumerate(_HTA_WAYS):
            seconds = statistics.median(pair[place] for pair in theirs if pair is not None)
            out.append(
                (f"events/s of Kineto load / of {what}, {path.name}", seconds / statistics.median(again), target)
            )
        return out


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


_HTA_WAYS = (
    ("HolisticTraceAnalysis' TraceAnalysis(trace_files=...)", ">= 3"),
    ("its parse_trace_dataframe alone, which links no kernel to its launch", "(no target)"),
)
_HTA = """
import inspect, logging, sys, time
logging.disable(logging.CRITICAL)
from hta.common.trace_parser import parse_trace_dataframe
from hta.trace_analysis import TraceAnalysis
more = []
if len(inspect.signature(parse_trace_dataframe).parameters) > 1:  # since 0.5
    from hta.configs.parser_config import ParserConfig
    more = [ParserConfig.get_default_cfg()]
def best(call):
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)
path = sys.argv[1]
print("seconds", best(lambda: TraceAnalysis(trace_files={0: path})), best(lambda: parse_trace_dataframe(path, *more)))
"""


def _hta_seconds(path: Path) -> tuple[float, float] | None:
    """The better of two readings in a fresh process, either way, by the interpreter that HTA_PYTHON names or by this one."""
    python = os.environ.get("HTA_PYTHON") or sys.executable
    done = subprocess.run([python, "-c", _HTA, str(path)], capture_output=True, text=True)
    said = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("seconds ")]
    return (float(said[0][0]), float(said[0][1])) if said else None


def _plain_json(path: Path) -> Any:
    import gzip

    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as stream:
        return json.load(stream)


def _made(path: Path, launches: int = 10_000) -> Path:
    """A trace of launches and kernels with an operator around each."""
    rows: list[dict[str, Any]] = []
    for i in range(launches):
        about = {"correlation": i, "External id": i}
        kernel = about | {"device": 0, "context": 1, "stream": 7, "grid": [8, 1, 1], "block": [128, 1, 1]}
        common = {"ph": "X", "pid": 1, "tid": 1}
        rows.append(common | {"cat": "cpu_op", "name": f"op{i % 50}", "ts": 1e9 + i * 9.125, "dur": 8.5, "args": about})
        rows.append(
            common
            | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1e9 + i * 9.125 + 1, "dur": 3, "args": about}
        )
        rows.append(
            common
            | {
                "cat": "kernel",
                "name": f"k{i % 20}",
                "pid": 0,
                "tid": 7,
                "ts": 1e9 + i * 9.125 + 20,
                "dur": 4.001,
                "args": kernel,
            }
        )
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
    return path


def _report() -> list[tuple[str, float, str]]:
    from attribution.ingest.ncu import load

    candidates = [CORPUS / "ncu-rep" / "h100_rmsnorm_v1.ncu-rep", *sorted((ROOT / "traces").glob("**/*.ncu-rep"))]
    found = [path for path in candidates if path.exists()]
    if not found:
        print("no report here: set ATTR_CORPUS, or record one with ncu")
        return []
    path = found[0]
    mine, theirs = _medians(lambda: load(path), lambda: _only_read(path))
    size = path.stat().st_size / 1e6
    return [(f"{size:.1f} MB report to tables / load_report and reading the same", mine / theirs, "<= 3")]


def _only_read(path: Path) -> int:
    """What `ncu_report` alone needs for every metric and every instance with its id."""
    import ncu_report

    context, count = ncu_report.load_report(str(path)), 0
    for number in range(context.num_ranges()):
        held = context.range_by_idx(number)
        for action in (held.action_by_idx(i) for i in range(held.num_actions())):
            for metric in (action.metric_by_name(name) for name in action.metric_names()):
                metric.value()
                metric.unit()
                ids = metric.correlation_ids() if metric.has_correlation_ids() else None
                for i in range(metric.num_instances()):
                    metric.value(i)
                    count += 1
                    if ids is not None:
                        ids.value(i)
    return count
