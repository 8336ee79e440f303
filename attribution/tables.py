"""The tables of a recording: every column with its type and meaning, written once.

In: nothing.  Out: `TABLES`, and `conform` which gives a frame exactly the declared columns and types.
Tables are long: one row per observation.  Samples are kept; statistics are computed when reading.
Misuse: do not add a column to a frame that is not declared here; `conform` refuses it.

Types: int8..int64, float64 (NaN is "not known"), bool, str (never null), category (a str with few values).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attribution.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Column:
    """One column: type, and a meaning that names the unit."""

    type: str
    doc: str


def _table(**columns: tuple[str, str]) -> dict[str, Column]:
    return {name: Column(*typed) for name, typed in columns.items()}


TABLES: dict[str, dict[str, Column]] = {
    "runs": _table(
        run=("int32", "number of this run in the recording: the key of all other tables"),
        question=("category", "the question: name of the base that the arms of one group share"),
        round=("int32", "round, from 0; arms of one round are paired"),
        position=("int16", "place of the arm in its round, from 0"),
        predecessor=("category", "arm that ran just before in this question, '' for the first"),
        arm=("category", "variant's name, or `null`: the base again under another name"),
        kernel=("category", "kernel"),
        variant=("category", "variant that was run; for the null arm its base"),
        shape=("category", "shape as `q=128,n=8192`, in declared order"),
        distribution=("category", "distribution of the inputs"),
        seed=("int64", "seed of the inputs"),
        flags=("category", "all flags, resolved, as JSON with sorted keys"),
        knobs=("category", "all launch knobs, resolved, as JSON with sorted keys"),
        build=("category", "identity of the build, '' on the host machine"),
        inputs=("category", "sha256 of the inputs' bytes, first 16 digits"),
        status=("category", "ok, failed or skipped"),
        reason=("str", "why it failed or was skipped, else ''"),
        begin_ns=("int64", "wall clock at the start, ns since the epoch"),
    ),
    "times": _table(
        run=("int32", "run"),
        scope=(
            "category",
            "event, graph, cupti, ncu, trace, host-virtual, wall (the host's clock) or cpu (CPU time): "
            "values of two scopes are never combined",
        ),
        stage=("category", "what was timed: operator (all), main, or a stage's name"),
        cache=("category", "cache policy: warm, cold, none (host)"),
        clock=("category", "clock policy: as-found, none (host)"),
        sample=("int32", "sample within the run, from 0"),
        time_ns=("float64", "duration, ns"),
        clock_mhz=("float64", "SM clock during the sample, MHz"),
        flags=("category", "comma-separated: clock-limited, shared-gpu, ...; '' for none"),
    ),
    "counters": _table(
        run=("int32", "run"),
        scope=("category", "ncu or host-virtual"),
        stage=("category", "stage the value belongs to, `operator` for the whole"),
        kernel_name=(
            "str",
            "full demangled name of the launch it was read from; '' on the host machine",
        ),
        launch=("int32", "ordinal of that launch in its process, -1 where there is none"),
        metric=("category", "name of the metric"),
        instance=("str", "instance (opcode, PC, warp state), '' for the rollup"),
        unit=("category", "unit"),
        state=("category", "value, zero or absent: absent is not zero"),
        value=("float64", "value; NaN where absent"),
        pass_group=("int32", "replay pass, -1 where not known"),
        source=("category", "where it comes from: host, launch, ptxas, sass, kernel, events, or the file"),
    ),
    "lanes": _table(
        run=("int32", "run"),
        cta=("int32", "CTA"),
        role=("int8", "index into the manifest's roles of this kernel"),
        sm_begin=("int16", "SM id when the lane began"),
        sm_end=("int16", "SM id when it ended; another one means that it migrated"),
        attempts=("int64", "records that the lane tried to write"),
        capacity=("int64", "records that it could hold: attempts above it were lost"),
    ),
    "events": _table(
        run=("int32", "run"),
        cta=("int32", "CTA"),
        role=("int8", "index into the manifest's roles of this kernel"),
        event=("int8", "index into the manifest's events of this kernel"),
        edge=("int8", "0 begin, 1 end"),
        arg=("int32", "first row of the query batch, or what the event declares"),
        time_ns=("int64", "ns from the start of the run's stage; on a GPU from %globaltimer"),
    ),
    "rows": _table(
        run=("int32", "run"),
        cta=("int32", "CTA"),
        sm=("int16", "SM that ran it"),
        rows=("int32", "rows of output it worked on"),
    ),
    "checks": _table(
        run=("int32", "run"),
        when=("category", "before or after timing"),
        check=("category", "name of the check"),
        passed=("bool", "whether it held"),
        detail=("str", "what was seen"),
    ),
    "conditions": _table(
        run=("int32", "run"),
        when=("category", "before or after the run's timing"),
        sm_clock_mhz=("float64", "SM clock as the driver tells it, MHz; NaN where not known"),
        temperature_c=("float64", "GPU temperature, degrees C; NaN where not known"),
        power_w=("float64", "power drawn, W; NaN where not known"),
        throttle=("category", "reasons for a lower clock, comma-separated; '' for none, or unknown"),
        others=("int32", "other processes on the GPU, -1 where not known"),
    ),
    "capacity": _table(
        run=("int32", "run"),
        limit=("category", "segment, row, underflow, or what else the kernel names"),
        failures=("int64", "rows (or segments) that hit the limit"),
        of=("int64", "rows (or segments) that could have"),
    ),
    "files": _table(
        file=("category", "name of the profiler file, without its folder"),
        kind=("category", "ncu-rep, ncu-csv, nsys-sqlite or chrome-json"),
        tool=("str", "tool and version that wrote it, '' when the file does not say"),
        gpu=("str", "GPUs named in it, comma-separated, '' when the file does not say"),
        size_bytes=("int64", "size on disk, bytes"),
        sha256=("str", "sha256 of its bytes"),
    ),
    "notes": _table(
        file=("category", "profiler file"),
        subject=("category", "what the note is about: rows, units, time, ranges, kernels, file"),
        count=("int64", "how many things it concerns"),
        note=("str", "one sentence: what was dropped, flagged or could not be known"),
    ),
    "launches": _table(
        file=("category", "profiler file"),
        launch=("int32", "ordinal of the profiled launch in the file, from 0"),
        kernel_name=("category", "kernel function, as the file names it"),
        demangled_name=(
            "category",
            "with arguments and templates, '' when not in the file",
        ),
        id_in_file=("int64", "the file's own ID (ncu csv), else the ordinal"),
        process=("int64", "process id, -1 where not known"),
        context=("int64", "CUDA context, -1 where not known"),
        stream=("int64", "CUDA stream, -1 where not known"),
        gpu=("category", "device name or id, '' where not known"),
        cc=("category", "compute capability as `9.0`, '' where not known"),
        grid=("category", "grid as 8192,1,1; '' where not known"),
        block=("category", "block as 256,1,1; '' where not known"),
        time_ns=("float64", "duration under the profiler, ns; NaN where the file has none"),
        passes=("int32", "replay passes, -1 where not known"),
        replay=("category", "replay mode, '' where the file does not say"),
        cache_control=("category", "cache policy between passes, '' where the file does not say"),
        clock_control=("category", "clock policy, '' where the file does not say"),
        nvtx=("category", "open push/pop ranges, outermost first, joined by ' > '; '' for none"),
        nvtx_start_end=("category", "open start/end ranges, joined by ' | '; '' for none"),
    ),
    "metrics": _table(
        file=("category", "profiler file"),
        launch=("int32", "row of `launches`"),
        kernel_name=("category", "kernel function"),
        section=("category", "section (ncu csv): a label is unique only within it; '' in a report"),
        metric=("category", "name of the metric"),
        instance=("category", "correlation id or #ordinal of an instance, '' for the rollup"),
        unit=("category", "unit of value, scaled to base: ns, byte, hz, ...; '' for none"),
        unit_stated=("category", "unit as the file states it"),
        state=("category", "value, zero or absent: absent is not zero"),
        value=("float64", "value; NaN where absent or where the metric is a text"),
        text=("category", "text of a text metric; an integer that a double cannot hold; else ''"),
        pass_group=("int32", "replay pass, -1 where the file does not say"),
        source=("category", "report or csv"),
    ),
    "opcodes": _table(
        file=("category", "profiler file"),
        launch=("int32", "row of `launches`"),
        kernel_name=("category", "kernel function"),
        metric=("category", "name of the metric, such as sass__inst_executed_per_opcode"),
        opcode=("category", "opcode, with modifiers where the metric has them"),
        unit=("category", "unit"),
        value=("float64", "count over the launch"),
    ),
    "pcs": _table(
        file=("category", "profiler file"),
        launch=("int32", "row of `launches`"),
        kernel_name=("category", "kernel function"),
        metric=("category", "name of the metric"),
        pc=("int64", "address of the instruction"),
        offset_bytes=("int32", "address minus the lowest one seen in this launch"),
        source_file=("category", "source file, '' when the report has no line information"),
        source_line=("int32", "line, -1 when not known"),
        sass=("category", "the instruction, '' when not in the report"),
        unit=("category", "unit"),
        value=(
            "float64",
            "count here; an instruction without a row was not reported",
        ),
    ),
    "samples": _table(
        file=("category", "profiler file"),
        launch=("int32", "row of `launches`"),
        kernel_name=("category", "kernel function"),
        metric=("category", "name of the PM-sampled metric"),
        pass_group=("int32", "series with one time base; times of two groups are not comparable"),
        origin_ns=("int64", "first stamp of the group, ns since the epoch"),
        sample=("int32", "ordinal within the series, from 0"),
        time_ns=("int64", "ns since the group's origin"),
        unit=("category", "unit"),
        value=("float64", "sampled value; NaN where not a number"),
    ),
    "rules": _table(
        file=("category", "profiler file"),
        launch=("int32", "row of `launches`"),
        kernel_name=("category", "kernel function"),
        section=("category", "section"),
        rule=("category", "rule"),
        type=("category", "OPT, INF, WRN, ... as in the file; '' where it has none"),
        message=("str", "the profiler's text"),
        speedup_type=("category", "global or local, '' for none"),
        speedup_pct=("float64", "the profiler's own estimate, %; NaN for none"),
    ),
    "kernels": _table(
        file=("category", "profiler file"),
        kernel=("int32", "ordinal by begin time, from 0"),
        kernel_name=("category", "kernel"),
        begin_ns=("int64", "begin, ns on the file's clock"),
        end_ns=("int64", "end, ns on the file's clock"),
        dur_ns=("int64", "end - begin, ns"),
        device=("int32", "device, -1 where not known"),
        context=("int32", "CUDA context, -1 where not known"),
        stream=("int64", "stream, -1 where not known"),
        process=("int64", "process that launched it, -1 where not known"),
        correlation=("int64", "id shared with the launching call, -1 for none"),
        launch_begin_ns=("int64", "begin of the launching call; -1 when launched is false"),
        launch_thread=(
            "category",
            "process/thread of that call, '' when launched is false",
        ),
        launched=("bool", "whether the launching call is in the file"),
        graph=("int64", "graph node (nsys), -1 for none"),
        grid=("category", "grid as 32,1,2; '' where not known"),
        block=("category", "block as 128,1,1; '' where not known"),
        flags=("category", "runs-over-successors, negative-duration, ...; '' for none"),
    ),
    "copies": _table(
        file=("category", "profiler file"),
        kind=("category", "memcpy or memset"),
        name=("category", "direction or kind, as the file names it"),
        begin_ns=("int64", "begin, ns on the file's clock"),
        end_ns=("int64", "end, ns on the file's clock"),
        dur_ns=("int64", "end - begin, ns"),
        device=("int32", "device, -1 where not known"),
        stream=("int64", "stream, -1 where not known"),
        correlation=("int64", "id shared with the calling API, -1 for none"),
        size_bytes=("int64", "bytes moved, -1 where not known"),
    ),
    "ranges": _table(
        file=("category", "profiler file"),
        range=("int32", "ordinal by begin time, from 0"),
        range_name=("category", "text of the NVTX range or annotation"),
        occurrence=("int32", "ordinal among the ranges of this name, from 0"),
        domain=("category", "NVTX domain, '' for the default one"),
        kind=("category", "push_pop, start_end or user_annotation"),
        thread=("category", "process/thread that opened it"),
        begin_ns=("int64", "begin, ns on the file's clock"),
        end_ns=("int64", "end, ns on the file's clock"),
        dur_ns=("int64", "end - begin, ns (host time, not kernel time)"),
    ),
    "range_times": _table(
        file=("category", "profiler file"),
        range=("int32", "row of `ranges`"),
        range_name=("category", "text of the range"),
        occurrence=("int32", "ordinal among the ranges of this name"),
        rule=("category", "launched_by_thread, launched_by_any_thread or running_in"),
        kernels=(
            "int64",
            "kernels the rule gives to it; nested ranges count them again",
        ),
        time_ns=("int64", "sum of their durations, ns"),
        busy_ns=("int64", "union of their intervals, ns"),
        contested=("int64", "of these kernels, those that a crossing range claims too"),
        outside=("int64", "kernels of the file that the rule cannot place: no launching call"),
    ),
    "slices": _table(
        file=("category", "profiler file"),
        slice=("int32", "ordinal in the file, from 0"),
        category=("category", "the event's `cat`, '' for none"),
        name=("category", "name"),
        lane=("category", "process/thread"),
        begin_ns=("int64", "begin, ns on the file's clock"),
        dur_ns=("int64", "duration, ns"),
    ),
}
"""Table name -> column name -> Column, in stored order."""

_PANDAS = {"category": "category", "str": "string", "bool": "bool"}


CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""In a text from a file: what moves a terminal's cursor, colours it, or turns the direction in which it is read."""


def conform(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """A new frame with exactly the columns and types of table `name`.  Raises DataError."""
    import pandas as pd

    columns = TABLES[name]
    if extra := [c for c in frame.columns if c not in columns]:
        raise DataError(f"table {name}: column {extra[0]!r} is not declared; declared are: {', '.join(columns)}")
    if missing := [c for c in columns if c not in frame.columns]:
        raise DataError(f"table {name}: column {missing[0]!r} is missing")
    out = {}
    for column, declared in columns.items():
        kind = declared.type
        values = frame[column]
        if kind in ("str", "category") and len(values) and values.isna().any():
            raise DataError(f"table {name}: column {column} has {int(values.isna().sum())} nulls: a str is never null")
        try:
            if kind == "category":
                out[column] = values.astype("string").astype("category")
            else:
                out[column] = values.astype(_PANDAS.get(kind, kind))  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"table {name}: column {column} is not {kind}: {error}") from error
        if kind.startswith("int") and len(values) and not (out[column] == values).all():
            raise DataError(f"table {name}: column {column} does not fit {kind}")
    return pd.DataFrame(out, columns=list(columns)).reset_index(drop=True)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """One mapping a row of any frame, columns by name: what tables on a terminal and JSON are made of."""
    return [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]


def markdown() -> str:
    """The schema as the text of `docs/recording-format.md` has it."""
    parts = []
    for name, columns in TABLES.items():
        rows = [f"| `{column}` | {c.type} | {c.doc} |" for column, c in columns.items()]
        parts.append("\n".join([f"### `{name}`", "", "| column | type | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"
