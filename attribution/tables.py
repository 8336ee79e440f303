"""The tables of a recording: every column with its type and meaning, written once.

In: nothing.  Out: `TABLES`, and `conform` which gives a frame exactly the declared columns and types.
Tables are long: one row per observation.  Samples are kept; statistics are computed when reading.
Misuse: do not add a column to a frame that is not declared here; `conform` refuses it.

Types: int8..int64, float64 (NaN is "not known"), bool, str (never null), category (a str with few values).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
        scope=("category", "event, graph, cupti, ncu, trace or host-virtual: values of two scopes are never combined"),
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
        kernel_name=("str", "full demangled name of the launch it was read from; '' on the host machine"),
        launch=("int32", "ordinal of that launch in its process, -1 where there is none"),
        metric=("category", "name of the metric"),
        instance=("str", "instance (opcode, PC, warp state), '' for the rollup"),
        unit=("category", "unit"),
        state=("category", "value, zero or absent: absent is not zero"),
        value=("float64", "value; NaN where absent"),
        pass_group=("int32", "replay pass, -1 where not known"),
        source=("category", "where it comes from: host, sass, or the file"),
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
    "capacity": _table(
        run=("int32", "run"),
        limit=("category", "segment, row, spill or underflow"),
        failures=("int64", "rows (or segments) that hit the limit"),
        of=("int64", "rows (or segments) that could have"),
    ),
}
"""Table name -> column name -> Column, in stored order."""

_PANDAS = {"category": "category", "str": "string", "bool": "bool"}


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
                out[column] = values.astype(_PANDAS.get(kind, kind))
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"table {name}: column {column} is not {kind}: {error}") from error
        if kind.startswith("int") and len(values) and not (out[column] == values).all():
            raise DataError(f"table {name}: column {column} does not fit {kind}")
    return pd.DataFrame(out, columns=list(columns)).reset_index(drop=True)
