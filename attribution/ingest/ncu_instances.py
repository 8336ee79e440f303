"""Instances of a report's metrics, each kind into the table that fits its correlation ids.

In: metrics with instances.  Out: `opcodes` (ids are texts), `pcs` (ids are addresses of instructions), `samples`
(ids are stamps in ns since the epoch), and rows of `metrics` for the rest (a table over block sizes, a value per unit).
Misuse: stamps of two pass groups have different origins: their times are never subtracted.  Ids do not fit a double.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attribution.errors import DataError
from attribution.ingest import frames, units
from attribution.ingest.frames import Coded, coded
from attribution.ingest.ingested import Note

_EPOCH_NS = 10**17
"""Ids above this (1973 in ns since the epoch) are stamps; addresses of code lie below (2^47)."""
_NOT_PC = ("launch__", "derived__pct_occupancy", "derived_tempMetric", "profiler__", "nvlink__", "c2clink__", "numa__")


@dataclass(frozen=True)
class _Series:
    """All instances of one metric of one launch."""

    launch: int
    metric: str
    unit: str
    ids: list[Any]
    values: list[Any]


class Instances:
    """Series by table, and where the instructions come from."""

    def __init__(self, sass: bool) -> None:
        self._sass = sass
        self._opcodes: list[_Series] = []
        self._by_pc: list[_Series] = []
        self._samples: list[_Series] = []
        self._rest: list[_Series] = []
        self._places: dict[tuple[int, int], tuple[str, int, str]] = {}

    def add(self, launch: int, name: str, metric: Any, read: dict[int, Callable[..., Any]]) -> None:
        """Take the instances of one metric."""
        count = metric.num_instances()
        get = read.get(metric.kind(0))
        values = [get(metric, i) for i in range(count)] if get else [float("nan")] * count
        ids: list[Any] = [f"#{i}" for i in range(count)]
        if metric.has_correlation_ids():
            named = metric.correlation_ids()
            get = read.get(named.kind(0))
            if get is not None and named.num_instances() == count:
                ids = [get(named, i) for i in range(count)]
        series = _Series(launch, name, metric.unit(), ids, values)
        self._table_of(series).append(series)

    def _table_of(self, series: _Series) -> list[_Series]:
        first = series.ids[0]
        numeric = not isinstance(series.values[0], str)
        if isinstance(first, str):
            return self._opcodes if "per_opcode" in series.metric and numeric else self._rest
        if not numeric or series.metric.startswith(_NOT_PC) or not isinstance(first, int):
            return self._rest
        if first > _EPOCH_NS:
            return self._samples
        return self._by_pc if first > 0xFFFF or len(series.ids) > 1 else self._rest

    def locate(self, launch: int, action: Any) -> None:
        """Look up source lines, and instructions where asked, of this launch's addresses."""
        own = [s for s in self._by_pc if s.launch == launch]
        known = {pc for s in own if s.metric.startswith(("smsp__pcsamp", "inst_executed")) for pc in s.ids}
        if known:  # tables over small numbers can look like addresses: keep those that share the code's
            self._rest += [s for s in own if s.ids[0] not in known]
            self._by_pc = [s for s in self._by_pc if s.launch != launch or s.ids[0] in known]
        for pc in {pc for s in self._by_pc if s.launch == launch for pc in s.ids}:
            info = action.source_info(pc)
            text = " ".join(action.sass_by_pc(pc).split()) if self._sass else ""
            place = (info.file_name(), int(info.line())) if info is not None else ("", -1)
            self._places[launch, pc] = (*place, text)

    def notes(self) -> list[Note]:
        """What is missing."""
        lineless = sum(not file for file, _, _ in self._places.values())
        if not lineless:
            return []
        what = f"{lineless} of {len(self._places)} instructions have no source line: build with -lineinfo"
        return [Note("rows", lineless, what)]

    def tables(self, file: str, kernels: list[str]) -> dict[str, pd.DataFrame]:
        """`metrics` (further rows), `opcodes`, `pcs`, `samples`."""
        return {
            "metrics": self._rest_table(file, kernels),
            "opcodes": self._opcode_table(file, kernels),
            "pcs": self._pc_table(file, kernels),
            "samples": self._sample_table(file, kernels),
        }

    def _opcode_table(self, file: str, kernels: list[str]) -> pd.DataFrame:
        series = self._opcodes
        opcodes = coded([i for s in series for i in s.ids])
        return frames.table("opcodes", len(opcodes.codes), file=file, opcode=opcodes, **_common(series, kernels))

    def _pc_table(self, file: str, kernels: list[str]) -> pd.DataFrame:
        series = self._by_pc
        pcs = _int64(series, file)
        launch = _repeat(series, [s.launch for s in series])
        where = list(self._places)
        row_of = {key: row for row, key in enumerate(where)}
        rows = np.fromiter((row_of[s.launch, pc] for s in series for pc in s.ids), np.int64, len(pcs))
        lowest = {k: min(pc for s in series if s.launch == k for pc in s.ids) for k in {s.launch for s in series}}
        base = np.array([lowest[int(k)] for k in launch], np.int64) if len(launch) else pcs
        files, lines, texts = zip(*self._places.values(), strict=True) if where else ((), (), ())
        line_of = np.array(lines, np.int64)
        return frames.table(
            "pcs", len(pcs), file=file, pc=pcs, offset_bytes=pcs - base, source_file=Coded(rows, files),
            source_line=line_of[rows] if where else [], sass=Coded(rows, texts), **_common(series, kernels),
        )  # fmt: skip

    def _sample_table(self, file: str, kernels: list[str]) -> pd.DataFrame:
        """A pass group is the set of series of one launch that have the same stamps."""
        series = self._samples
        stamps = [np.array(s.ids, np.int64) for s in series]
        origins = sorted({(s.launch, int(t[0]), len(t)) for s, t in zip(series, stamps, strict=True)})
        within: dict[int, int] = {}
        group_of = {}
        for key in origins:
            group_of[key] = within.setdefault(key[0], 0)
            within[key[0]] += 1
        groups = [group_of[s.launch, int(t[0]), len(t)] for s, t in zip(series, stamps, strict=True)]
        return frames.table(
            "samples", sum(map(len, stamps)), file=file, pass_group=_repeat(series, groups),
            origin_ns=_repeat(series, [int(t[0]) for t in stamps]),
            sample=np.concatenate([np.arange(len(t)) for t in stamps]) if stamps else [],
            time_ns=np.concatenate([t - t[0] for t in stamps]) if stamps else [], **_common(series, kernels),
        )  # fmt: skip

    def _rest_table(self, file: str, kernels: list[str]) -> pd.DataFrame:
        series = self._rest
        common = _common([_Series(s.launch, s.metric, s.unit, s.ids, _numbers(s.values)) for s in series], kernels)
        texts = [v if isinstance(v, str) else _long(v) for s in series for v in s.values]
        value = common["value"]
        state = np.where(np.isnan(value), np.where([bool(t) for t in texts], 0, 2), np.where(value == 0, 1, 0))
        return frames.table(
            "metrics", len(value), file=file, section="", instance=[str(i) for s in series for i in s.ids],
            unit_stated=_names(series, [s.unit for s in series]), state=Coded(state, ["value", "zero", "absent"]),
            text=texts, pass_group=-1, source="report", **common,
        )  # fmt: skip


def _common(series: list[_Series], kernels: list[str]) -> dict[str, Any]:
    """Columns that every table of instances has."""
    launch = _repeat(series, [s.launch for s in series])
    scaled = [_base(s.unit) for s in series]
    value = np.array([v for s in series for v in s.values], np.float64)
    factors = _repeat(series, [factor for _, factor in scaled])
    return {
        "launch": launch,
        "kernel_name": Coded(launch.astype(np.int32), kernels),
        "metric": _names(series, [s.metric for s in series]),
        "unit": _names(series, [unit for unit, _ in scaled]),
        "value": value * factors if len(value) else value,
    }


def _base(stated: str) -> tuple[str, float]:
    try:
        unit, factor = units.base_unit(stated)
        return unit, float(factor)
    except DataError:
        return stated, 1.0


def _repeat(series: list[_Series], per_series: list[Any]) -> np.ndarray:
    kind = np.float64 if per_series and isinstance(per_series[0], float) else np.int64
    return np.repeat(np.array(per_series, kind), [len(s.ids) for s in series]) if series else np.empty(0, kind)


def _names(series: list[_Series], per_series: list[str]) -> Coded:
    return Coded(_repeat(series, list(range(len(series)))).astype(np.int32), per_series)


def _int64(series: list[_Series], file: str) -> np.ndarray:
    try:
        return np.array([pc for s in series for pc in s.ids], np.int64)
    except OverflowError as error:
        raise DataError(f"{file}: an instruction's address does not fit 63 bits; the report is damaged") from error


def _numbers(values: list[Any]) -> list[float]:
    return [float("nan") if isinstance(v, str) else v for v in values]


def _long(value: Any) -> str:
    return str(value) if value.__class__ is int and value > 1 << 53 else ""
