"""Reasons not to believe a contrast: what leaves nothing to compare, and what only raises doubt.

In: the runs of one point, the times of one scope, the checks.  Out: sentences, flags, and the modes of each arm.
Misuse: a contrast without reasons here can still be too noisy; that is for the interval to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from attribution.analyze import work
from attribution.analyze.modes import Modes, modes_of

BLOCKING: Mapping[str, float] = {"clock-limited": 0.0, "host-bound": 0.1, "stages-overlap": 0.0}
"""Flags that leave an arm's times at best undecided where more than this share of its samples has them; else they are reported.

A run's time is the median of its samples: a tenth of them, all too long, moves it by a tenth of their spread.
"""


def flagged(samples: pd.Series) -> Counter[str]:
    """Flag -> samples that have it, from the column `flags` of `times`."""
    return Counter(mark for text in samples.tolist() for mark in text.split(",") if mark)


def blocking(samples: pd.Series, arm: str = "") -> dict[str, str]:
    """Of the flags of one arm's samples those that allow no verdict, each with what it says."""
    marks = flagged(samples).most_common()
    return {mark: _told(mark, n, samples, arm) for mark, n in marks if n > BLOCKING.get(mark, 1.0) * len(samples)}


def _told(mark: str, count: int, samples: pd.Series, arm: str = "") -> str:
    """`clock-limited: 3 of 12 samples of full`."""
    return f"{mark}: {count} of {len(samples)} samples" + (f" of {arm}" if arm else "")


def void_reasons(
    here: pd.DataFrame,
    times: pd.DataFrame,
    timed: pd.DataFrame,
    checks: pd.DataFrame,
    base: str,
    arm: str,
    null_arm: str | None,
    stage: str,
    declared: Mapping[str, Mapping[str, Any]] | None,
) -> list[str]:
    """Reasons that leave nothing to compare."""
    reasons, ended, there = [], _runs(here), set(timed["run"].tolist())
    for name in dict.fromkeys((base, arm)):
        mine = ended.get(name, {})
        if not mine:
            reasons.append(f"missing arm: {name} was not run")
        elif "ok" not in mine.values():
            reasons.append(f"missing arm: no run of {name} ended ok: {_first_reason(here, mine)}")
        elif there.isdisjoint(mine):
            others = times[times["run"].isin(list(mine))]
            labels = others[["stage", "scope", "cache", "clock"]].astype(str)
            known = sorted({f"{x[0]} in {'/'.join(x[1:])}" for x in labels.to_numpy().tolist()})
            kind = "unlike scope" if (others["stage"] == stage).any() else "missing arm"
            reasons.append(f"{kind}: {name} has times of {', '.join(known) or 'no kind'} only")
        reasons += work.failed_outputs(checks, here, name)
    return reasons + work.wrong_labels(here, base, arm, null_arm, declared)


def doubts(
    here: pd.DataFrame,
    timed: pd.DataFrame,
    checks: pd.DataFrame,
    equal: Sequence[work.WorkCheck],
    pairs: pd.DataFrame,
    base: str,
    arm: str,
    null_arm: str | None,
    tick_ns: float,
    planned: int,
) -> tuple[list[str], list[str], tuple[str, ...], dict[str, Modes]]:
    """What blocks a verdict, what only needs saying, all sample flags, and the modes of each arm that was timed."""
    blocked = [f"{check}" for check in equal if check.equal is None]
    notes: list[str] = []
    flags: set[str] = set()
    modes: dict[str, Modes] = {}
    if null_arm is not None:  # the base's own build: wrong there, it gives no floor and casts doubt on the base
        blocked += work.failed_outputs(checks, here, null_arm)
    ended = _runs(here)
    for name in dict.fromkeys((base, arm)):
        mine = ended.get(name, {})
        samples = timed[timed["run"].isin(list(mine))]
        blocked += work.unchecked_output(checks, here, name)
        if lost := {run: status for run, status in mine.items() if status != "ok"}:
            reason = _first_reason(here, lost) or "no reason kept"
            blocked.append(f"{len(lost)} of {len(mine)} runs of {name} failed, first: {reason}")
        block = blocking(samples["flags"])
        for mark, count in flagged(samples["flags"]).most_common():
            flags.add(mark)
            (blocked if mark in block else notes).append(_told(mark, count, samples["flags"], name))
        if len(samples) and samples["clock_mhz"].isna().all() and (samples["clock"] != "none").any():
            flags.add("clock-unknown")
        if len(samples):
            modes[name] = modes_of(samples["time_ns"], tick_ns)
            flags |= {"two-modes"} if len(modes[name].values) == 2 else set()
    rounds = zip(here["arm"].tolist(), here["round"].tolist(), strict=True)
    there = len({number for name, number in rounds if name in (base, arm)})
    if len(pairs) < there:
        notes.append(f"{there - len(pairs)} of {there} rounds have no pair")
        flags.add("rounds-lost")
    if there < planned:
        notes.append(f"{there} of {planned} planned rounds are there")
        flags.add("rounds-missing")
    return blocked, notes, tuple(sorted(flags)), modes


def _runs(here: pd.DataFrame) -> dict[str, dict[int, str]]:
    """Arm -> run -> how it ended.  Plain values: a frame for each arm of each contrast takes longer than everything else."""
    out: dict[str, dict[int, str]] = {}
    for name, run, status in zip(*(here[c].tolist() for c in ("arm", "run", "status")), strict=True):
        out.setdefault(name, {})[run] = status
    return out


def _first_reason(here: pd.DataFrame, runs: Mapping[int, str]) -> str:
    return str(here.loc[here["run"].isin(list(runs)), "reason"].iloc[0])
