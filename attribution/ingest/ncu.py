"""A report of Nsight Compute (.ncu-rep) as tables, read through NVIDIA's own `ncu_report`.

In: a report of any version since 2019.  Out: `launches`, `metrics`, `opcodes`, `pcs`, `samples`, `rules`.
The container is walked first: `ncu_report` opens damaged files without a word and gives what lies before the damage.
Misuse: the rollup of an instanced metric can be meaningless (a sum over a table); read its instances.  Many public
reports profiled another kernel than their name says: look at `kernel_name` before any number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from attribution.errors import DataError
from attribution.ingest import frames, ncu_container, units
from attribution.ingest.ingested import Ingested, Note, ingested
from attribution.ingest.ncu_instances import Instances

_FAULTS = (TypeError, ValueError, RuntimeError, AttributeError, OverflowError, SystemError, MemoryError, LookupError)
"""What `ncu_report` raises on damaged content (seen: TypeError for a metric name that is not text)."""
_TWO_53 = 1 << 53
_TYPES = {"MsgType_OK": "INF", "MsgType_OPTIMIZATION": "OPT", "MsgType_WARNING": "WRN", "MsgType_ERR": "ERR"}
_SPEEDUPS = {"SpeedupType_GLOBAL": "global", "SpeedupType_LOCAL": "local"}
"""Names of the constants in `ncu_report` -> the words that the CSV uses."""


def load(path: Path, *, sass: bool = False) -> Ingested:
    """Read one report.

    `sass` also disassembles every sampled instruction, which takes longer than all the rest.
    Raises DataError for a file that is not a report, is cut or damaged, or holds no launch.
    """
    path = Path(path)
    announced = ncu_container.announced_results(path)
    ncu_report = _library(path)
    try:
        context = ncu_report.load_report(str(path))
        ranges = [context.range_by_idx(i) for i in range(context.num_ranges())]
        actions = [r.action_by_idx(i) for r in ranges for i in range(r.num_actions())]
        if not actions:
            raise DataError(f"{path.name}: a report without a profiled launch; was the kernel's name filtered out?")
        if len(actions) < announced:
            raise DataError(
                f"{path.name}: announces {announced} results and {len(actions)} can be read; it is damaged: copy it again"
            )
        reader = _Reader(path.name, ncu_report, sass)
        for action in actions:
            reader.launch(action)
        return ingested(path, "ncu-rep", reader.tables(), reader.notes(), tool=_tool(path), gpu=reader.gpus())
    except _FAULTS as error:
        raise DataError(f"{path.name}: damaged report: {type(error).__name__}: {str(error)[:200]}") from error


def _library(path: Path) -> ModuleType:
    try:
        import ncu_report
    except ImportError as error:
        raise DataError(
            f"{path.name}: a report needs the package ncu-report ({error}); `pip install ncu-report`, or export it as "
            "CSV with `ncu --import FILE --csv` and read that"
        ) from error
    return ncu_report  # type: ignore[no-any-return]


def _tool(path: Path) -> str:
    """`NVIDIA Nsight Compute`, with the version where the report's text states it."""
    import re

    with path.open("rb") as stream:
        found = re.search(rb"(20\d\d\.\d{1,2}\.\d{1,2}\.\d{1,2}) \(build (\d+)\)", stream.read(1 << 26))
    return f"Nsight Compute {found[1].decode()} (build {found[2].decode()})" if found else "Nsight Compute"


class _Reader:
    """Columns of the tables under construction, launch by launch."""

    def __init__(self, file: str, library: ModuleType, sass: bool) -> None:
        self._file, self._library = file, library
        self._kernels: list[str] = []
        self._about: list[dict[str, Any]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._rules: list[tuple[Any, ...]] = []
        self._instances = Instances(sass)
        self._unknown_units: set[str] = set()
        self._nan = 0

    def launch(self, action: Any) -> None:
        """Add one profiled launch."""
        ordinal = len(self._kernels)
        self._kernels.append(action.name())
        read = _accessors(self._library.IMetric)
        metrics = {}
        for name in action.metric_names():
            metric = action.metric_by_name(name)
            if metric is None:
                continue
            metrics[name] = metric
            kind = metric.kind()
            self._rollup(ordinal, name, metric, read.get(kind))
            if metric.num_instances():
                self._instances.add(ordinal, name, metric, read)
        self._instances.locate(ordinal, action)
        self._about.append(_about(action, metrics, read))
        self._add_rules(ordinal, action)

    def _rollup(self, launch: int, name: str, metric: Any, read: Callable[..., Any] | None) -> None:
        stated = metric.unit()
        value, said, state = math.nan, "", "absent"
        unit, factor = self._unit(stated)
        if read is not None and metric.has_value(metric.ValueKind_ANY):
            raw = read(metric)
            if raw is None:  # seen: a text metric of 2022 that has the value kind and no text
                pass
            elif isinstance(raw, str):
                state, said = "value", raw
            elif raw != raw:
                said = "nan"
                self._nan += 1
            else:
                value = raw * factor
                state = "zero" if raw == 0 else "value"
                if raw.__class__ is int and raw > _TWO_53:
                    said = str(raw)
        self._rows.append((launch, name, unit, stated, state, value, said))

    def _unit(self, stated: str) -> tuple[str, float]:
        try:
            unit, factor = units.base_unit(stated)
            return unit, float(factor) if factor != 1 else 1
        except DataError:
            self._unknown_units.add(stated)
            return stated, 1

    def _add_rules(self, launch: int, action: Any) -> None:
        for rule in action.rule_results_as_dicts():
            said = rule.get("rule_message") or {}
            gain = rule.get("speedup_estimation") or {}
            self._rules.append((
                launch, rule.get("section_identifier", ""), rule.get("rule_identifier", ""),
                self._word(_TYPES, said.get("type")), str(said.get("message", "")),
                self._word(_SPEEDUPS, gain.get("type")),
                float(gain.get("speedup", math.nan)),
            ))  # fmt: skip

    def _word(self, words: dict[str, str], value: Any) -> str:
        """The word of a constant; '' for none and for one that this version does not know."""
        found = (word for name, word in words.items() if getattr(self._library, name, None) == value)
        return "" if value is None else next(found, "")

    def gpus(self) -> str:
        """The devices of all launches."""
        return ", ".join(sorted({a["gpu"] for a in self._about if a["gpu"]}))

    def notes(self) -> list[Note]:
        """What could not be known."""
        out = self._instances.notes()
        for unit in sorted(self._unknown_units):
            out.append(Note("units", 1, f"unit {unit!r} is not known: values are as stored, not scaled"))
        if self._nan:
            out.append(Note("rows", self._nan, f"{self._nan} metrics are NaN in the report: absent, text 'nan'"))
        absent = sum(row[4] == "absent" for row in self._rows) - self._nan
        if absent:
            out.append(Note("rows", absent, f"{absent} metrics are named in the report without a value: absent"))
        return out

    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables."""
        n = len(self._about)
        about = {key: [a[key] for a in self._about] for key in self._about[0]}
        ordinals = list(range(n))
        launches = frames.table(
            "launches", n, file=self._file, launch=ordinals, kernel_name=self._kernels, id_in_file=ordinals, replay="",
            cache_control="", clock_control="", **about,
        )  # fmt: skip
        launch, metric, unit, stated, state, value, said = zip(*self._rows, strict=True)
        metrics = frames.table(
            "metrics", len(launch), file=self._file, launch=launch, kernel_name=frames.Coded(_codes(launch), self._kernels),
            section="", metric=metric, instance="", unit=unit, unit_stated=stated, state=state, value=value, text=said,
            pass_group=-1, source="report",
        )  # fmt: skip
        columns = list(zip(*self._rules, strict=True)) or [()] * 7
        rules = frames.table(
            "rules", len(self._rules), file=self._file, launch=list(columns[0]),
            kernel_name=[self._kernels[i] for i in columns[0]],
            **dict(zip(("section", "rule", "type", "message", "speedup_type", "speedup_pct"),
                       map(list, columns[1:]), strict=True)),
        )  # fmt: skip
        more = self._instances.tables(self._file, self._kernels)
        metrics = frames.concat("metrics", [metrics, more.pop("metrics")])
        return {"launches": launches, "metrics": metrics, **more, "rules": rules}


def _codes(launch: tuple[int, ...]) -> Any:
    import numpy as np

    return np.asarray(launch, np.int32)


def _accessors(metric: Any) -> dict[int, Callable[..., Any]]:
    """Value kind -> the method that reads it; `IMetric.value` would look this up for every value."""
    whole, real = metric.as_uint64, metric.as_double
    return {
        metric.ValueKind_DOUBLE: real,
        metric.ValueKind_FLOAT: real,
        metric.ValueKind_STRING: metric.as_string,
        metric.ValueKind_UINT32: whole,
        metric.ValueKind_UINT64: whole,
    }


def _about(action: Any, metrics: dict[str, Any], read: dict[int, Callable[..., Any]]) -> dict[str, Any]:
    """Columns of `launches` that come from metrics and NVTX."""

    def of(name: str) -> Any:
        metric = metrics.get(name)
        if metric is None or not metric.has_value(metric.ValueKind_ANY) or metric.kind() not in read:
            return None
        value = read[metric.kind()](metric)
        return None if value != value else value

    def whole(name: str) -> int:
        value = of(name)
        return int(value) if isinstance(value, (int, float)) and abs(value) < 1 << 62 else -1

    def size(name: str) -> str:
        sides = [whole(f"launch__{name}_dim_{axis}") for axis in "xyz"]
        if min(sides) >= 0:
            return ",".join(map(str, sides))
        total = whole(f"launch__{name}_size")  # 2019: only the number of blocks or threads
        return str(total) if total >= 0 else ""

    major, minor = (whole(f"device__attribute_compute_capability_{part}") for part in ("major", "minor"))
    push_pop, start_end = _nvtx(action)
    time = of("gpu__time_duration.sum")
    return {
        "demangled_name": action.name(action.NameBase_DEMANGLED),
        "process": -1,
        "context": whole("launch__context_id"),
        "stream": whole("launch__stream_id"),
        "gpu": str(of("device__attribute_display_name") or ""),
        "cc": f"{major}.{minor}" if min(major, minor) >= 0 else "",
        "grid": size("grid"),
        "block": size("block"),
        "time_ns": float(time) if isinstance(time, (int, float)) else math.nan,
        "passes": min(whole("profiler__replayer_passes"), 2**31 - 1),
        "nvtx": push_pop,
        "nvtx_start_end": start_end,
    }


def _nvtx(action: Any) -> tuple[str, str]:
    """Open ranges at the launch; a domain other than the default stands before the name."""
    state = action.nvtx_state()
    push_pop: list[str] = []
    start_end: list[str] = []
    if state is None:
        return "", ""
    for number in state.domains():
        domain = state.domain_by_id(number)
        prefix = "" if domain.name() in ("", "<default domain>") else f"{domain.name()}:"
        push_pop += [prefix + text for text in domain.push_pop_ranges()]
        start_end += [prefix + text for text in domain.start_end_ranges()]
    return " > ".join(push_pop), " | ".join(start_end)
