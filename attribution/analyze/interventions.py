"""Interventions of a recording: the arms that move rows between SMs without changing the kernel's work, as a table.

In: an opened recording.  Out: one row an arm with its time and the candidate quantities of `analyze.law`, and times per round.
Rows per SM come from measured SM ids where the arm has them, else from the schedule model, and the table says which.
Misuse: an arm that also changes what is computed is no intervention of the row law; name arms only when you know that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from attribution.analyze import law
from attribution.analyze.clock import at_clock_of
from attribution.analyze.in_part import rows_of_whole_traces
from attribution.analyze.ladder import Rounds, paired, ratio_interval
from attribution.analyze.pairing import scopes
from attribution.analyze.stats import intervals
from attribution.analyze.traced import traced_runs
from attribution.errors import DataError, InputError
from attribution.recording import Recording
from attribution.schedule import rows_per_sm

MOVES = ("BLOCK_Q",)
"""Flags that regroup rows and leave the arithmetic as it is."""
SHARES = "shares"
"""Value of the flag SCHEDULE with which every CTA takes an equal part of all work, whole rows or not."""
INSTRUCTIONS = ("instructions", "smsp__inst_executed.sum", "sm__inst_executed.sum")


@dataclass(frozen=True)
class Interventions:
    """`table`: arm, time_ns, quantities of `law.RIVALS`, `rows_from` (trace, schedule, equal shares); `rounds`: paired times.

    clock_mhz: the base's, at which all times are given; NaN where the times are as measured.  Where there is one, arms that start
    in waves stand in `apart` with the error of the law of rows that is fitted on the others: most SMs are done while the last
    wave goes on, the clock rises meanwhile, and such a launch has no one clock.
    """

    table: pd.DataFrame
    rounds: Rounds
    clock_mhz: float = math.nan
    apart: pd.DataFrame = field(default_factory=pd.DataFrame)

    def compare(self, limit: float = law.LIMIT) -> pd.DataFrame:
        """`law.compare`, arms of one CTA count held out together where there are three counts, else arms one by one."""
        ctas = list(self.table["ctas"])
        groups = ctas if len(set(ctas)) > 2 else None
        return law.compare(self.table, rounds=self._times(), groups=groups, limit=limit, tick_ns=self.rounds.tick_ns)

    def tail_alone(self) -> pd.DataFrame:
        """What rows on the busiest SM alone predict of each arm, T being proportional to them, and what they leave.

        Columns: arm, predicted (rows over the base's), measured (time over the base's) and unexplained (measured / predicted), the
        last two with _low and _high (95 %).  Empty where no arm moves rows.
        """
        rows = self.table["busiest_sm_rows"] / self.table["busiest_sm_rows"].iloc[0]
        base, out = self.rounds.of(str(self.table["arm"].iloc[0])), []
        for arm, predicted in list(zip(self.table["arm"], rows, strict=True))[1:]:
            low, value, high = ratio_interval(self.rounds.of(arm), base)
            measured = {"measured": value, "measured_low": low, "measured_high": high}
            left = {name.replace("measured", "unexplained"): v / predicted for name, v in measured.items()}
            out.append({"arm": arm, "predicted": predicted, **measured, **left})
        return pd.DataFrame(out if (rows != 1).any() else [])

    def fit(self) -> law.Fit:
        """The row law on all of them."""
        return law.fit(self.table["busiest_sm_rows"].to_numpy(float), self._times(), self.rounds.tick_ns)

    def _times(self) -> law.Floats:
        """Of `table`'s arms, ns [rounds, arms]."""
        return np.stack([self.rounds.of(arm) for arm in self.table["arm"]], axis=1)


def interventions(
    recording: Recording,
    base: str,
    arms: Sequence[str] = (),
    stage: str = "main",
    scope: str | None = None,
) -> Interventions:
    """The base and `arms` (default: those that change only launch knobs or MOVES).  Raises InputError, DataError."""
    runs = recording.table("runs")
    variants = recording.manifest["variants"]
    measured = [a for a in runs.loc[runs["question"] == base, "arm"].astype(str).unique() if a in variants]
    chosen = list(arms) or [a for a in measured if a != base and _moves(variants[base], variants[a])]
    names = [base, *dict.fromkeys(a for a in chosen if a != base)]
    tick = float(recording.manifest["machine"]["tick_ns"])
    times, mhz = at_clock_of(runs, recording.table("times"), base, stage, scope)
    found = paired(runs, times, base, names, stage, scope, tick)
    rows = [_quantities(recording, runs, base, name) for name in names]
    table = pd.DataFrame(rows)
    table.insert(1, "time_ns", found.time_ns.mean(axis=0))
    late = table["waves"] > 1
    if arms or math.isnan(mhz) or not late.any() or (~late).sum() < 3:
        return Interventions(table, found, mhz)
    kept = Interventions(table[~late].reset_index(drop=True), found, mhz)
    return replace(kept, apart=_missed(kept, table[late].reset_index(drop=True)))


def _missed(kept: Interventions, late: pd.DataFrame) -> pd.DataFrame:
    """`late` with what the law of rows of the others predicts: error (predicted over measured, less 1), error_low, error_high."""
    rows, at = (table["busiest_sm_rows"].to_numpy(float) for table in (kept.table, late))
    measured = np.stack([kept.rounds.of(arm) for arm in late["arm"]], axis=1)
    found = intervals((law.predicted(rows, kept._times(), at) / measured - 1).T)
    return late.assign(error=found.center, error_low=found.low, error_high=found.high)


def _moves(base: Mapping[str, Any], variant: Mapping[str, Any]) -> bool:
    flags = {f for f in {*base["flags"], *variant["flags"]} if base["flags"].get(f) != variant["flags"].get(f)}
    knobs = {k for k in {*base["knobs"], *variant["knobs"]} if base["knobs"].get(k) != variant["knobs"].get(k)}
    return bool(flags | knobs) and flags <= set(MOVES)


def _quantities(recording: Recording, runs: pd.DataFrame, base: str, arm: str) -> dict[str, Any]:
    mine = runs[(runs["question"] == base) & (runs["arm"] == arm) & (runs["status"] == "ok")]
    flags, knobs = (json.loads(str(mine[c].iloc[0])) for c in ("flags", "knobs"))
    machine = recording.manifest["machine"]
    sms = int(knobs["sms"] if machine["kind"] == "host" else machine["sms"])
    rows = rows_of_whole_traces(recording)
    rows = rows[rows["run"].isin(traced_runs(recording, base, arm)["run"])]
    per_batch, ctas = flags.get("BLOCK_Q", math.nan), knobs.get("ctas", math.nan)
    if machine["kind"] != "host" and flags.get("SCHEDULE") == SHARES and not math.isnan(ctas):
        # Rows that two CTAs share are counted by both; what a CTA has to do is its equal part.
        total = int(recording.manifest["plan"]["shape"]["q"])
        busiest, mean, source = total / ctas * -(-ctas // sms), total / sms, "equal shares"
    elif len(rows):
        per_run = rows.groupby(["run", "sm"])["rows"].sum()
        busiest, mean, source = per_run.groupby("run").max().mean(), per_run.groupby("run").sum().mean() / sms, "trace"
    else:
        q = recording.manifest["plan"]["shape"].get("q")
        if q is None or math.isnan(per_batch) or math.isnan(ctas):
            raise DataError(
                f"arm {arm} has neither a trace nor what the schedule model needs (q, BLOCK_Q, ctas): no rows per SM"
            )
        placed = rows_per_sm(int(q), int(per_batch), int(ctas), sms)
        busiest, mean, source = float(placed.max()), float(placed.mean()), "schedule"
    return {
        "arm": arm, "busiest_sm_rows": float(busiest), "mean_rows": float(mean), "rows_per_batch": float(per_batch),
        "ctas": float(ctas), "instructions": _instructions(recording, mine), "rows_from": source,
        "waves": _waves(recording, mine, float(ctas), sms),
    }  # fmt: skip


def _waves(recording: Recording, mine: pd.DataFrame, ctas: float, sms: int) -> float:
    """In how many turns the CTAs of stage main start, as many at once as the SMs hold; NaN where that is not known."""
    counters = recording.table("counters")
    here = counters[counters["run"].isin(mine["run"]) & (counters["metric"] == "residency")]
    here = here[here["stage"] == "main"]
    return float(np.ceil(ctas / (sms * here["value"].iloc[0]))) if len(here) else math.nan


def _instructions(recording: Recording, mine: pd.DataFrame) -> float:
    """Executed instructions of a run of stage main; NaN where none were counted."""
    counters = recording.table("counters")
    counters = counters[
        counters["run"].isin(mine["run"]) & (counters["instance"] == "") & (counters["state"] == "value")
    ]
    for name in INSTRUCTIONS:
        found = counters[counters["metric"] == name]
        if len(found):
            return float(found.groupby("run")["value"].sum().mean())
    return math.nan


def tail_law(
    recording: Recording, base: str, stage: str = "main", scope: str | None = None
) -> tuple[tuple[float, float, float], str]:
    """The row law's share of the tail (low, value, high) and where it comes from.  Raises DataError where it has none.

    Fitted where interventions vary the busiest SM's rows, else T proportional to those rows, which has no interval of its own.
    """
    found = interventions(recording, base, (), stage, scope)
    first = found.table.iloc[0]
    busiest, mean = float(first["busiest_sm_rows"]), float(first["mean_rows"])
    if first["rows_from"] == "equal shares" and busiest == mean:
        raise DataError("every SM has an equal share of all work by design: a law of rows has no tail to explain")
    if len(set(found.table["busiest_sm_rows"])) > 1:
        source = f"row law fitted on {len(found.table)} interventions"
        if len(found.table) > 2:
            row = found.compare().set_index("quantity").loc["busiest_sm_rows"]
            # A law that its own interventions refute is still shown, and is not hidden by a friendlier one.
            source += "" if row["verdict"] == "survives" else f", {row['verdict']}: {row['reason']}"
        return law.tail_share(busiest, mean, found.fit()), source
    share = 1 - mean / busiest
    return (share, share, share), "rows alone, T taken as proportional to them: no intervention varies the busiest SM's"


def check_known(recording: Recording, base: str | None) -> str:
    """`base`, or the first question's.  Raises InputError for one that the recording does not have."""
    if recording.manifest["kind"] != "run":
        raise InputError(f"{recording.path} holds ingested files, not measured arms: use `attr show`")
    bases = [str(q["base"]) for q in recording.manifest["plan"]["questions"]]
    if base is None:
        return bases[0]
    if base not in bases:
        raise InputError(f"--base {base}: {recording.path.name} has questions about {', '.join(bases)}")
    return base


def choose_scope(times: pd.DataFrame, scope: str | None, stage: str = "main") -> str | None:
    """`scope`, or the full label of the one to use when there are several: graph before event before others, warm before cold.

    Raises InputError for a scope (instrument, or instrument/cache/clock) that has no time at all.
    """
    if scope is not None:
        if not scopes(times, scope):
            raise InputError(f"no time in scope {scope!r}; there are: {', '.join(sorted(scopes(times))) or 'none'}")
        return scope
    here = times[times["stage"] == stage][["scope", "cache", "clock"]].drop_duplicates().astype(str)
    order = ["graph", "event", "cupti", "host-virtual"]
    known = [r for r in here.to_numpy().tolist() if r[0] in order]
    if not known:
        return None
    best = min(known, key=lambda r: (order.index(r[0]), r[1] != "warm"))
    return "/".join(best)


def rounds_of(runs: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """`table` (a row a run) with the column `round` of its runs."""
    of = runs.set_index("run")["round"]
    return table.assign(round=of.reindex(table["run"]).to_numpy()).sort_values("round", ignore_index=True)
