"""What Nsight Compute saw of the arms: its report, matched to the launches, as rows of a recording.

In: a report and the worker's list of what it launched.  Out: frames for each profiled arm.
Every value keeps the full name of the launch it was read from.  Absent is not zero: a metric that the report lacks is a
row with state `absent`.
Misuse: these runs stand beside the timed ones and are never paired with them.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution.errors import MeasureError
from attribution.measure.ncu import PASSES, RANGE, Expected, Seen, match

if TYPE_CHECKING:
    import pandas as pd


INSTALLED = Path("/opt/nvidia/nsight-compute")
PACKAGE = "package"


def readers() -> list[str]:
    """Where NVIDIA's module ncu_report can be had: `package`, and the folders of each Nsight Compute that is installed."""
    found = [PACKAGE] if importlib.util.find_spec("ncu_report") else []
    tool = shutil.which("ncu")
    beside = [folder / "extras" / "python" for folder in Path(tool).resolve().parents] if tool else []
    # The `ncu` on the PATH may be a script that starts another one.
    places = (*beside, *sorted(INSTALLED.glob("*/extras/python"), reverse=True))
    return found + list(dict.fromkeys(str(p) for p in places if (p / "ncu_report.py").is_file()))


def reader(place: str = "") -> Any:
    """The module ncu_report from one of `readers()`, the first by default.  Raises MeasureError."""
    place = place or next(iter(readers()), "")
    if not place:
        raise MeasureError("the module ncu_report is missing: `pip install ncu-report`")
    if place != PACKAGE:
        sys.path.insert(0, place)
    return importlib.import_module("ncu_report")


def read(path: Path, place: str = "") -> list[Seen]:
    """All launches of a report, in order, with their push/pop ranges.  It may end the process: see reading.py."""
    if not path.is_file():
        raise MeasureError(f"{path} is not there: ncu made no report")
    context = reader(place).load_report(str(path))
    out = []
    for i in range(context.num_ranges()):
        part = context.range_by_idx(i)
        # An action points into its report: without the context it is a dangling pointer.
        out += [replace(_seen(part.action_by_idx(k)), owner=(context, part)) for k in range(part.num_actions())]
    return out


def _seen(action: Any) -> Seen:
    state = action.nvtx_state()
    ranges: list[str] = []
    if state is not None:
        for domain in state.domains():
            ranges += state.domain_by_id(domain).push_pop_ranges()
    grid = tuple(int(action.metric_by_name(f"launch__grid_dim_{axis}").value()) for axis in "xyz")
    return Seen(tuple(ranges), str(action.name(action.NameBase_DEMANGLED)), grid, action)  # type: ignore[arg-type]


def expected_of(arms: Sequence[Mapping[str, Any]], seen: Sequence[Seen], first_run: int) -> list[Expected]:
    """Launches that must be in the report.  A step of a library may be several: then all of its range are its own."""
    out = []
    for number, arm in enumerate(arms):
        for step in arm["steps"]:
            count = 1 if step["kernel_name"] else sum(step["range"] in s.ranges for s in seen)
            grid = tuple(step["grid"])
            out += [
                Expected(step["range"], step["kernel_name"], grid, i, first_run + number, step["stage"])
                for i in range(count)
            ]
    return out


def frames(
    arms: Sequence[Mapping[str, Any]],
    seen: Sequence[Seen],
    metrics: Mapping[str, str],
    first_run: int,
    cache: str = "warm",
) -> Iterator[tuple[Mapping[str, Any], int, dict[str, pd.DataFrame]]]:
    """(arm, run, tables `counters`, `times` and `checks`) for every profiled arm.  Raises DataError for a wrong match."""
    import pandas as pd

    ours = [s for s in seen if RANGE in s.ranges]
    pairs = match(expected_of(arms, ours, first_run), ours)
    order = {id(launch): i for i, launch in enumerate(ours)}
    for number, arm in enumerate(arms):
        run = first_run + number
        mine = [(want, got) for want, got in pairs if want.run == run]
        rows = [row for want, got in mine for row in counter_rows(want, got, metrics, order[id(got)])]
        counters = pd.DataFrame(rows, columns=["stage", "kernel_name", "launch", *COLUMNS])
        looked = [{"when": "after", "check": n, "passed": p, "detail": d} for n, p, d in arm["checks"]]
        tables = {
            "counters": counters.assign(scope="ncu", source="ncu kernel-replay cache=none clock=none"),
            "times": _times(mine).assign(cache=cache),
            "checks": pd.DataFrame(looked),
        }
        yield arm, run, {name: frame.assign(run=run) for name, frame in tables.items() if len(frame)}


COLUMNS = ("metric", "instance", "unit", "state", "value", "pass_group")


def counter_rows(want: Expected, got: Seen, metrics: Mapping[str, str], launch: int) -> Iterator[tuple[Any, ...]]:
    """Rows of one launch: how many passes it took, and each metric.

    Where there was one pass every value is of it, pass 0; among several the report does not say which (-1).
    """
    head = (want.stage, got.kernel_name, launch)
    counted = got.action.metric_by_name(PASSES)
    passes = math.nan if counted is None else float(counted.value())
    group = 0 if passes == 1 else -1
    yield (*head, "passes", "", "1", _state(passes), passes, group)
    for meaning, name in metrics.items():
        for row in _metric(got.action, meaning, name):
            yield (*head, *row, group)


def _metric(action: Any, meaning: str, name: str) -> Iterator[tuple[Any, ...]]:
    """Metric, instance, unit, state, value: the rollup, then its instances, or the members of a metric group."""
    name, _, instance = name.removesuffix("]").partition("[")
    metric = action.metric_by_name(name)
    if metric is None:
        yield meaning, "", "", "absent", math.nan
    elif instance:
        # The metric lists every instance that occurred: one that is not listed is zero, not absent.
        ids = metric.correlation_ids()
        occurred = {str(ids.value(i)): float(metric.value(i)) for i in range(metric.num_instances())}
        value = occurred.get(instance, 0.0)
        yield meaning, "", "inst", _state(value), value
    elif name.startswith("group:"):
        for member in str(metric.value()).split(","):
            part = action.metric_by_name(member)
            value = math.nan if part is None else float(part.value())
            yield meaning, member.rsplit("stalled_", 1)[-1], "warp-sample", _state(value), value
    else:
        value, unit = float(metric.value()), str(metric.unit())
        yield meaning, "", unit, _state(value), value
        if metric.num_instances() and metric.has_correlation_ids():
            ids = metric.correlation_ids()
            for i in range(metric.num_instances()):
                each = float(metric.value(i))
                yield meaning, str(ids.value(i)), unit or "inst", _state(each), each


def _state(value: float) -> str:
    return "absent" if math.isnan(value) else "value" if value else "zero"


def _times(mine: Sequence[tuple[Expected, Seen]]) -> pd.DataFrame:
    """Time of each stage under ncu, a scope of its own: one launch alone, nothing beside it."""
    import pandas as pd

    total: dict[str, float] = {}
    for want, got in mine:
        metric = got.action.metric_by_name("gpu__time_duration.sum")
        if metric is not None:
            total[want.stage] = total.get(want.stage, 0.0) + float(metric.value())
    frame = pd.DataFrame({"stage": list(total), "time_ns": list(total.values())})
    return frame.assign(scope="ncu", clock="as-found", sample=0, clock_mhz=math.nan, flags="")
