"""Scope cupti: the kernels' own begin and end, as CUPTI records them for torch.profiler.

In: the profiler's trace of executions whose steps lie in named ranges.  Out: rows of the table `times`.
A kernel belongs to the range in which its launching call began, on the thread that opened it, by correlation id and never
by its name.  A launch that was made and not seen is an error, never a time of zero.
Misuse: the profiler stays attached to its process: these samples are taken in a worker of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from attribution.errors import DataError

RULE = "launched_by_thread"
TRACE = "cupti-trace.json"


def range_name(sample: int, step: int) -> str:
    """The range of one step of one sample."""
    return f"attr sample={sample} step={step}"


def rows(trace: Path, samples: int, steps: Sequence[tuple[str, bool]]) -> list[tuple[str, str, int, float, float]]:
    """(scope, stage, sample, time_ns, clock_mhz) of every stage and of the operator: the union of their kernels' intervals.

    `steps`: (stage, whether it is exactly one launch).  Raises DataError for a launch that is missing or was not ours.
    """
    from attribution.ingest import kineto
    from attribution.ingest.ranges import owners
    from attribution.ingest.timeline import union_ns

    read = kineto.load(trace)
    kernels, ranges = read.table("kernels"), read.table("ranges")
    names = ranges["range_name"].astype(str)
    mine = ranges[names.str.startswith("attr sample=")]
    owned = owners(kernels, mine, RULE)
    place = mine.set_index("range")["range_name"].astype(str)
    found = kernels.assign(step=owned["range"].map(place).to_numpy())
    out = []
    for sample in range(samples):
        parts: dict[str, list[int]] = {}
        for number, (stage, single) in enumerate(steps):
            name = range_name(sample, number)
            at = found.index[found["step"] == name].tolist()
            if not at or (single and len(at) != 1):
                raise DataError(
                    f"cupti: range {name} ({stage}) holds {len(at)} kernels, expected {'1' if single else 'at least 1'}: "
                    "the profiler lost records, or a launch was not made"
                )
            parts.setdefault(stage, []).extend(at)
        parts["operator"] = [i for some in parts.values() for i in some]
        for stage, at in parts.items():
            busy = union_ns(found.loc[at, "begin_ns"].to_numpy(), found.loc[at, "end_ns"].to_numpy())
            out.append(("cupti", stage, sample, float(busy), math.nan))
    return out
