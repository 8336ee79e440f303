"""Scope cupti: replays of the operator's CUDA Graph as CUPTI records their kernels for torch.profiler: one timeline each.

In: the profiler's trace of one eager execution, each step in a named range, and of replays, each in one.  Out: rows of `times`.
A kernel belongs to the range in which its launching call began, on the thread that opened it, by correlation id.  A replay is
one such call; which step each of its kernels is, the eager execution says: a replay must hold the same kernels in the same
order.  So names only verify.  Copies and fills in a replay count to the stage of the torch call that they lie beside or within.
Every ns has one owner: where launches are stamped as at work at once, the one that began first.  How long is kept beside it:
in a graph whose nodes are a chain, where no two can be, that is the error of the stamps; in another one it may be what happened.
Misuse: gaps here are those of a graph whose nodes the profiler stamps; the profiler stays attached to its process, and these
samples are taken in a worker of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from attribution.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from attribution.ingest.ingested import Ingested
    from attribution.recording import Recording

RULE = "launched_by_thread"
TRACE = "cupti-trace.json"
STAMPS_NS = 64.0
"""What two stamps cannot tell, ns: they come in steps of 32 ns on an H200, and each may be a step off."""
OVERLAP = "stages-overlap"
"""Flag of a sample in which two stages, of a graph not known for a chain, were at work at once for longer than STAMPS_NS: who
owns that time is our choice."""
STAGES_OVERLAP, CHAIN = "stages_overlap", "chain_nodes"
"""Counters: the longest overlap of two stages (in a chain: of two launches) in any sample of an arm, ns; and the nodes of its
graph where they are a chain, 0 where they are none, absent where that is not known."""


class Step(NamedTuple):
    """A step's stage, and whether it is one launch and nothing else."""

    stage: str
    single: bool


class Row(NamedTuple):
    """One row of the table `times`, but for its run and its policies of cache and clock, and what its replay overlaps."""

    scope: str
    stage: str
    sample: int
    time_ns: float
    clock_mhz: float
    flags: str
    overlap_ns: float
    """Of its replay: the longest that a launch was stamped as at work beside an earlier one (of another stage, if no chain)."""
    chain: int | None
    """Of its graph: the counter CHAIN."""


class _Kernel(NamedTuple):
    """What one launch is known by."""

    name: str
    grid: str
    block: str

    def __str__(self) -> str:
        return f"{self.name} (grid {self.grid or '?'}, block {self.block or '?'})"


def step_range(place: int) -> str:
    """The range of one step of the eager execution."""
    return f"attr step={place}"


def replay_range(sample: int) -> str:
    """The range of one replay."""
    return f"attr replay={sample}"


def rows(trace: Ingested | Recording, samples: int, steps: Sequence[Step], chain: int | None) -> list[Row]:
    """Of every replay its stages, each what its kernels own of the timeline, and the operator, first begin to last end.

    `chain`: nodes of the graph if they are a chain, else 0; not known (None) where replays hold another number of launches.
    Raises DataError for a launch that is missing or was not ours, and for a replay that is not the eager execution again.
    """
    from attribution.ingest.ranges import owners

    kernels, ranges = trace.table("kernels"), trace.table("ranges")
    mine = ranges[ranges["range_name"].astype(str).str.startswith("attr ")]
    place = mine.set_index("range")["range_name"].astype(str)
    kernels = kernels.assign(place=owners(kernels, mine, RULE)["range"].map(place).to_numpy())
    launched = list(_launched(kernels, steps))
    replays = [_replay(kernels, trace.table("copies"), sample) for sample in range(samples)]
    if chain and {len(replay) for replay in replays} != {chain}:
        chain = None
    out = []
    for sample, replay in enumerate(replays):
        _check_same(sample, launched, replay, replays[0], steps)
        out += _times(sample, replay.assign(stage=_stages(sample, launched, replay, steps)), chain)
    return out


def _launched(kernels: pd.DataFrame, steps: Sequence[Step]) -> Iterator[tuple[int, _Kernel]]:
    """(step, kernel) of every launch of the eager execution, in order.  Raises DataError."""
    for number, step in enumerate(steps):
        mine = kernels[kernels["place"] == step_range(number)]
        if mine.empty or (step.single and len(mine) != 1):
            raise DataError(
                f"cupti: step {number} ({step.stage}) launched {len(mine)} kernels, expected "
                f"{'1' if step.single else 'at least 1'}: the profiler lost records, or a launch was not made"
            )
        yield from ((number, kernel) for kernel in _known(mine))


def _known(kernels: pd.DataFrame) -> list[_Kernel]:
    columns = (kernels[c].astype(str).tolist() for c in ("kernel_name", "grid", "block"))
    return [_Kernel(*one) for one in zip(*columns, strict=True)]


def _replay(kernels: pd.DataFrame, copies: pd.DataFrame, sample: int) -> pd.DataFrame:
    """What the device did in one replay, in order of begin: its kernels, and copies and fills of the same launching call.

    Columns of `kernels`; `kind` is kernel, memcpy or memset.
    """
    import pandas as pd

    mine = kernels[kernels["place"] == replay_range(sample)].assign(kind="kernel")
    also = copies[copies["correlation"].isin(mine["correlation"])].rename(columns={"name": "kernel_name"})
    return pd.concat([mine.astype(object), also.astype(object)]).sort_values("begin_ns", kind="stable")


def _check_same(
    sample: int,
    launched: Sequence[tuple[int, _Kernel]],
    replay: pd.DataFrame,
    first: pd.DataFrame,
    steps: Sequence[Step],
) -> None:
    """Raises DataError for a replay that does not hold the launches of the eager execution, or other copies than the first."""
    held = _known(replay[replay["kind"] == "kernel"])
    for place, (eager, kernel) in enumerate(zip_longest(launched, held)):
        if eager is None:
            raise DataError(
                f"cupti: replay {sample} holds {len(held)} kernels and the eager execution launched {len(launched)}: "
                f"kernel {place}, {kernel}, is one more"
            )
        number, expected = eager
        if kernel != expected:
            raise DataError(
                f"cupti: kernel {place} of replay {sample} is {kernel or 'missing'}, and step {number} "
                f"({steps[number].stage}) launched {expected}: a record was lost, or the graph does something else"
            )
    if replay["kind"].tolist() != first["kind"].tolist():
        raise DataError(f"cupti: replay {sample} holds other copies or fills than replay 0: the profiler lost records")


def _stages(
    sample: int, launched: Sequence[tuple[int, _Kernel]], replay: pd.DataFrame, steps: Sequence[Step]
) -> list[str]:
    """The stage of each row of a replay.  Raises DataError for a copy that may be of two stages.

    A copy or fill is made by a torch call, and by one whose kernel stands right before or behind it.
    """
    out: list[str] = []
    done = 0
    for kind in replay["kind"]:
        if kind == "kernel":
            out.append(steps[launched[done][0]].stage)
            done += 1
            continue
        near = {steps[number] for number, _ in launched[max(done - 1, 0) : done + 1]}
        stages = sorted({step.stage for step in near if not step.single})
        if len(stages) != 1:
            raise DataError(
                f"cupti: a {kind} behind kernel {done - 1} of replay {sample} lies beside "
                f"{' and '.join(stages) or 'launches only'}: its stage cannot be told"
            )
        out += stages
    return out


def _times(sample: int, replay: pd.DataFrame, chain: int | None) -> list[Row]:
    """Rows of one replay, with columns begin_ns, end_ns and stage, in order of begin."""
    import numpy as np

    begin, end = (replay[c].to_numpy("int64") for c in ("begin_ns", "end_ns"))
    names = replay["stage"].to_numpy(str)
    reach = np.maximum.accumulate(np.concatenate([begin[:1], end]))
    owned = np.diff(reach) - np.maximum(begin - reach[:-1], 0)
    busy = {str(s): int(owned[names == s].sum()) for s in dict.fromkeys(names)}
    overlap = float(_beside(begin, end, np.arange(chain) if chain else names))
    flags = ",".join(["clock-unknown", *([OVERLAP] if overlap > STAMPS_NS and not chain else [])])
    whole = {**busy, "operator": int(reach[-1] - begin[0])}
    return [Row("cupti", stage, sample, float(ns), math.nan, flags, overlap, chain) for stage, ns in whole.items()]


def _beside(begin: np.ndarray, end: np.ndarray, parts: np.ndarray) -> int:
    """The longest that a launch was at work beside an earlier one of another part, ns; in order of begin."""
    import numpy as np

    at_once = np.minimum(end[:, None], end) - begin[:, None]
    earlier = np.tri(len(begin), k=-1, dtype=bool) & (parts[:, None] != parts)
    return int(at_once.max(where=earlier, initial=0))


def tables(rows: Sequence[Sequence[Any]], cache: str) -> dict[str, pd.DataFrame]:
    """`times` of one arm and, as rows of `counters`, STAGES_OVERLAP and CHAIN; without the column `run`."""
    import pandas as pd

    times = pd.DataFrame(rows, columns=list(Row._fields)).assign(cache=cache, clock="as-found")
    overlap_ns, chain = float(times.pop("overlap_ns").max()), times.pop("chain").iloc[0]
    read = {STAGES_OVERLAP: (overlap_ns, "ns"), CHAIN: (math.nan if chain is None else float(chain), "1")}
    counters = [
        {
            "scope": "cupti", "stage": "operator", "kernel_name": "", "launch": -1, "metric": metric, "instance": "",
            "unit": unit, "state": "absent" if math.isnan(value) else "value" if value else "zero", "value": value,
            "pass_group": -1, "source": "cupti",
        }
        for metric, (value, unit) in read.items()
    ]  # fmt: skip
    return {"times": times, "counters": pd.DataFrame(counters)}
