"""How much delay each arm of a sweep really injected into a role, on the SM that finishes last.

In: an opened recording with arms that differ from the base in DELAY_ROLE and DELAY_CYCLES only.  Out: delays in ns and times
per round, ready for `slack.fit`.
Where both are traced with all of the role's waits, the delay is its measured longer processing on that SM; else cycles x
items over the clock: processing that hides waits grows with the whole, and would make every role critical.
Misuse: what was asked for is not what was injected: a role that spins also loses what it would have waited for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attribution.analyze import believable, lastsm, overlap, slack, spans, tiles
from attribution.analyze.clock import at_clock_of
from attribution.analyze.in_part import in_part
from attribution.analyze.ladder import Rounds, paired, ratio_interval
from attribution.analyze.traced import events_of, traced_runs
from attribution.declare import nearest
from attribution.errors import InputError
from attribution.measured import TRACED
from attribution.recording import Recording

DELAYS = {"DELAY_ROLE", "DELAY_CYCLES"}
TILE_ROLES = ("tma", "math")
ALL_LEVELS = 2
"""Of waits; the reference machine's trace has every one, whatever its flag TRACE says."""


@dataclass(frozen=True)
class Sweep:
    """`table`: arm, cycles, delay_ns, time_ns, source; `rounds` the paired times; `processing_ns` the base's, NaN untraced.

    clock_mhz: the base's, at which all times are given; NaN where the times are as measured.
    """

    role: str
    table: pd.DataFrame
    rounds: Rounds
    processing_ns: float
    clock_mhz: float = math.nan

    def fit(self) -> slack.Slack:
        """The hinge over this sweep.  Raises DataError."""
        return slack.fit(self.table["delay_ns"].to_numpy(float), self.rounds.time_ns, self.role)


def sweep(
    recording: Recording,
    base: str,
    role: str,
    stage: str = "main",
    scope: str | None = None,
    items: int | None = None,
) -> Sweep:
    """The base and all arms that delay `role`.  `items`: how often the role works on the busiest SM, where no trace tells what was
    injected; None: as the key tiles of the shape say (`_items`).

    Raises InputError when no arm delays it, or the delay cannot be known; DataError.
    """
    runs = recording.table("runs")
    flags, ctas = _ran(runs, base)
    arms = [
        a for a in flags if a != "null" and flags[a].get("DELAY_ROLE") == role and _only_delay(flags[base], flags[a])
    ]
    if not arms:
        others = sorted({str(f.get("DELAY_ROLE")) for f in flags.values()} - {"none", "None"})
        raise InputError(
            f"no arm of {base} delays {role!r}; delayed are: {', '.join(others) or 'none'}: measure variants with DELAY_ROLE"
        )
    names = [base, *sorted(arms, key=lambda a: flags[a]["DELAY_CYCLES"])]
    tick = float(recording.manifest["machine"]["tick_ns"])
    times, mhz = at_clock_of(runs, recording.table("times"), base, stage, scope)
    found = paired(runs, times, base, names, stage, scope, tick)
    if items is None:
        items = _items(recording, flags[base], ctas, role)
    worked = {a: _processing(recording, traced_runs(recording, base, a), role, mhz) for a in names}
    rows = []
    for arm in names:
        cycles = int(flags[arm].get("DELAY_CYCLES", 0))
        if not math.isnan(worked[arm]) and not math.isnan(worked[base]):
            delay, source = max(worked[arm] - worked[base], 0.0), "trace: longer processing on the last SM"
        elif items is not None and not math.isnan(mhz):
            delay, source = cycles * items * 1e3 / mhz, f"{cycles} cycles x {items} items at {mhz:.0f} MHz"
        else:
            raise InputError(
                f"arm {arm} has no trace that holds all waits of {role}, so its delay is not known: give --items, how often "
                f"{role} works on the busiest SM"
            )
        rows.append((arm, cycles, 0.0 if arm == base else delay, float(found.of(arm).mean()), source))
    table = pd.DataFrame(rows, columns=["arm", "cycles", "delay_ns", "time_ns", "source"])
    return Sweep(role, table, found, worked[base], mhz)


def _ran(runs: pd.DataFrame, base: str) -> tuple[dict[str, dict[str, Any]], int | None]:
    """Flags of each arm of a question, and how many CTAs its base was launched with (None: no knob of it)."""
    here = runs[(runs["question"] == base) & (runs["status"] == "ok")].astype({"arm": str, "flags": str, "knobs": str})
    first = here.drop_duplicates("arm").set_index("arm")
    knobs = json.loads(first["knobs"].get(base, "{}"))
    return {str(a): json.loads(f) for a, f in first["flags"].items()}, knobs.get("ctas")


def _items(recording: Recording, flags: Mapping[str, Any], ctas: int | None, role: str) -> int | None:
    """How often TMA or Math works on the busiest SM of a GPU, from the key tiles of the shape; None where that is not known.

    A tile is one item of TMA, and of one of Math's warpgroups, which take turns.
    """
    shape = recording.manifest["plan"]["shape"]
    known = {"q", "n"} <= set(shape) and {
        "BLOCK_Q",
        "SCHEDULE",
        "SELECT_TILES",
        "STORE_SCORES",
        "MATH_WARPGROUPS",
    } <= set(flags)
    if not known or ctas is None or role not in TILE_ROLES or recording.manifest["machine"]["kind"] == "host":
        return None
    found = tiles.of_busiest_cta(shape["q"], shape["n"], flags, ctas)
    return found and round(found / (flags["MATH_WARPGROUPS"] if role == "math" else 1))


def _only_delay(base: dict[str, object], arm: dict[str, object]) -> bool:
    return {f for f in {*base, *arm} if base.get(f) != arm.get(f)} <= DELAYS


def _processing(recording: Recording, runs: pd.DataFrame, role: str, mhz: float) -> float:
    """Mean processing of the role on the SM that finishes last, over `runs` that were wholly traced.

    NaN without any, or with waits untraced.  ns, at a clock of `mhz` where clocks are known.  Raises InputError for a role
    that is not there.
    """
    runs = runs[~runs["run"].isin(in_part(recording).index)]
    if runs.empty:
        return math.nan
    events = recording.table("events")
    events = events[events["run"].isin(runs["run"])]
    roles, declared = events_of(recording, str(runs["kernel"].iloc[0]))
    if role not in roles:
        raise InputError(f"role {role!r}: the kernel has {', '.join(roles)}")
    host = recording.manifest["machine"]["kind"] == "host"
    level = ALL_LEVELS if host else json.loads(str(runs["flags"].iloc[0])).get("TRACE", ALL_LEVELS)
    if any(e.role == role and e.waits_for is not None and e.level > level for e in declared):
        return math.nan
    lanes = recording.table("lanes")
    lanes = lanes[lanes["run"].isin(runs["run"])]
    spans.check_complete(lanes, roles)
    believable.check_records(events, lanes, roles)
    found = overlap.roles(lastsm.on_last_sm(spans.spans(events, lanes, roles, declared)))
    mine = found[found["role"] == role]
    times = recording.table("times")
    clock = times[times["scope"] == "trace"].groupby("run")["clock_mhz"].median().reindex(mine["run"]).to_numpy(float)
    # A traced launch runs alone, at a clock of its own.
    scale = np.where(np.isnan(clock) | math.isnan(mhz), 1.0, clock / mhz)
    return float((mine["processing_ns"] * scale).mean())


def prediction_test(recording: Recording, base: str, arm: str, found: Sweep, fitted: slack.Slack) -> dict[str, object]:
    """What the sweep predicts of an arm in which the role became faster (or slower), against what was measured of it.

    Out: faster (relative, by the role's processing on the last SM), predicted_low, predicted_high, measured, measured_low,
    measured_high (relative changes of the whole) and verdict `as predicted`, `not as predicted`, or `undecided` where one round
    has no interval.  Raises InputError for the base, an arm that was not run, or a role that was not traced in both.
    """
    runs = recording.table("runs")
    others = sorted({str(a) for a in runs.loc[runs["question"] == base, "arm"] if not str(a).endswith(TRACED)} - {base})
    if arm not in others:
        raise InputError(f"--test-arm {arm}: measured against {base} are {', '.join(others)}{nearest(arm, others)}")
    processing = _processing(recording, traced_runs(recording, base, arm), found.role, found.clock_mhz)
    if math.isnan(processing) or math.isnan(found.processing_ns):
        raise InputError(
            f"arm {arm}: role {found.role} must be traced in it and in {base} to say how much faster it became"
        )
    faster = 1 - processing / found.processing_ns
    bounds = sorted(slack.speedup(fitted, found.processing_ns, fitted.base_ns, faster))
    label = found.rounds.scope
    times, _ = at_clock_of(runs, recording.table("times"), base, found.rounds.stage, label)
    both = paired(runs, times, base, [base, arm], found.rounds.stage, label, found.rounds.tick_ns)
    low, value, high = ratio_interval(both.of(arm) - both.of(base), both.of(base))
    holds = "as predicted" if low <= bounds[1] and bounds[0] <= high else "not as predicted"
    return {
        "arm": arm,
        "faster": faster,
        "predicted_low": bounds[0],
        "predicted_high": bounds[1],
        "measured": value,
        "measured_low": low,
        "measured_high": high,
        "verdict": "undecided" if math.isnan(low) else holds,
    }
