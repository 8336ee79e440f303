"""The whole ledger of a recording: both accounts, the last SM, and every term beside its second witness.

In: an opened recording, a base, a scope; ceilings where the recording holds none.  Out: a `Book` of frames.
Misuse: a term without a second witness is not confirmed, and the frames say so; nothing is averaged over witnesses.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attribution.analyze import believable, lastsm, ledger, roofline, spans, tails, witness
from attribution.analyze.interventions import choose_scope, rounds_of, tail_law
from attribution.analyze.ladder import paired, rungs
from attribution.analyze.stats import intervals
from attribution.analyze.traced import events_of
from attribution.errors import DataError
from attribution.recording import Recording


@dataclass(frozen=True)
class Peak:
    """Ceilings given by the user: FLOP/s practical and of the data sheet, and matrix FLOP per cycle and SM; NaN: not known."""

    practical_flop_per_s: float = math.nan
    spec_flop_per_s: float = math.nan
    flop_per_cycle_sm: float = math.nan


@dataclass(frozen=True)
class Book:
    """Frames of `ledger`, `lastsm` (per run), `lastsm.tail_parts` (per run) and `witness`; empty where there is no trace."""

    base: str
    scope: str
    operator: pd.DataFrame
    main: pd.DataFrame
    last_sm: pd.DataFrame
    finish: pd.DataFrame
    witnesses: pd.DataFrame
    tick_ns: float

    @property
    def beside(self) -> pd.DataFrame:
        """Shares of the last SM's own total, and the tail, with intervals over runs: item, share, low, high.

        `by rows` and `spread` are the two parts of `tail`.
        """
        if self.last_sm.empty:
            return pd.DataFrame(columns=["item", "share", "low", "high"])
        columns = {s: self.last_sm[s].to_numpy(float) for s in lastsm.SHARES}
        columns |= {
            p.replace("_", " "): self.finish[p].to_numpy(float)
            for p in ("tail", "by_rows", "spread")
            if p in self.finish
        }
        # A share of 0 in every run is known to a stamp at each end.
        tick = 2 * self.tick_ns / float(self.last_sm["total_ns"].mean())
        found = {k: intervals(v, resolution=tick) for k, v in columns.items()}
        rows = [(k, float(f.center[0]), float(f.low[0]), float(f.high[0])) for k, f in found.items()]
        return pd.DataFrame(rows, columns=["item", "share", "low", "high"])


def book(
    recording: Recording, base: str, scope: str | None = None, peak: Peak | None = None, stage: str = "main"
) -> Book:
    """Everything about one base.  Raises InputError, DataError."""
    tables = {n: recording.table(n) for n in ("runs", "times", "counters", "checks")}
    variants, tick = recording.manifest["variants"], float(recording.manifest["machine"]["tick_ns"])
    label = choose_scope(tables["times"], scope, stage)
    known = peak or Peak()
    main = ledger.main_account(tables, variants, base, _floor(recording, tables, known), stage, label, tick)
    traced = {base: accounts(recording, base, base)}
    runs = tables["runs"]
    measured = sorted(set(runs.loc[runs["question"] == base, "arm"].astype(str)))
    chain = rungs(variants, base, measured)
    pairs = _exposed(recording, tables, base, chain, traced, (stage, label, tick))
    finish = traced[base][1]
    pairs.append(_tail(recording, base, finish, (stage, label, tick)))
    pairs.append(_tensor(recording, tables, base, known, (stage, label)))
    operator = _operator(tables, base, label, tick)
    return Book(base, str(main["scope"].iloc[0]), operator, main, traced[base][0], finish, witness.table(pairs), tick)


def accounts(recording: Recording, base: str, arm: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`lastsm.account` and `lastsm.tail_parts` of all traced runs of an arm, with their rounds; empty frames without a trace.

    Raises DataError for a trace that lost records, or whose SM labels contradict each other.
    """
    runs, events = recording.table("runs"), recording.table("events")
    mine = runs[(runs["question"] == base) & (runs["arm"] == arm) & (runs["status"] == "ok")]
    events = events[events["run"].isin(mine["run"])]
    if events.empty:
        return pd.DataFrame(), pd.DataFrame()
    roles, declared = events_of(recording, str(mine["kernel"].iloc[0]))
    lanes, rows = (t[t["run"].isin(mine["run"])] for t in (recording.table("lanes"), recording.table("rows")))
    spans.check_complete(lanes, roles)
    believable.check_records(events, lanes, roles)
    believable.check_placement(lanes, rows, _sms(recording, mine))
    found = spans.spans(events, lanes, roles, declared)
    finish = lastsm.tail_parts(tails.per_sm(found, rows, _sms(recording, mine))) if len(rows) else pd.DataFrame()
    account = rounds_of(runs, lastsm.account(found)) if len(roles) > 1 else pd.DataFrame()
    return account, rounds_of(runs, finish) if len(finish) else finish


def _sms(recording: Recording, mine: pd.DataFrame) -> int:
    machine = recording.manifest["machine"]
    return int(json.loads(str(mine["knobs"].iloc[0]))["sms"] if machine["kind"] == "host" else machine["sms"])


def _exposed(
    recording: Recording, tables: dict[str, pd.DataFrame], base: str, chain: list[str],
    traced: dict[str, Any], where: tuple[str, str | None, float],
) -> list[witness.Pair]:  # fmt: skip
    """A pair for each rung in which only the consumer, or everything behind the scores, is taken away."""
    stage, label, tick = where
    total = float(paired(tables["runs"], tables["times"], base, [base], stage, label).time_ns.mean())
    pairs = []
    for lower in ("filter_only", "score_only"):
        if lower not in chain:
            continue
        control = ledger.control_share(tables, base, lower, stage, label)
        below, note = None, ""
        # The consumer's own rung needs no second trace: what it takes away is waits and drain.
        if lower != "filter_only":
            below = accounts(recording, base, lower)[0]
            note = f"waits and drain only: {lower} has no trace" if below.empty else ""
        account = traced[base][0]
        own = tick / float(account["total_ns"].mean()) if len(account) else 0.0
        pairs.append(witness.exposed(control, account, below, (base, lower), (tick / total, 2 * own), note))
    return pairs


def _tail(recording: Recording, base: str, finish: pd.DataFrame, where: tuple[str, str | None, float]) -> witness.Pair:
    stage, label, tick = where
    try:
        law, source = tail_law(recording, base, stage, label)
    except DataError as error:
        # No rows per SM: the finish times then have nobody beside them.
        alone = witness.tail(finish, (math.nan,) * 3, "", tick) if len(finish) else None
        return witness.Pair("tail by rows", alone.first if alone else None, None, str(error))
    return witness.tail(finish, law, source, tick)


def _operator(tables: dict[str, pd.DataFrame], base: str, label: str | None, tick: float) -> pd.DataFrame:
    """The operator's account in the scope of the ledger, else in the first other one that has both operator and stages."""
    runs, times = tables["runs"], tables["times"]
    mine = times[times["run"].isin(runs.loc[(runs["question"] == base) & (runs["arm"] == base), "run"])]
    labels = mine[["scope", "cache", "clock"]].astype(str).agg("/".join, axis=1)
    stages = mine["stage"].astype(str).groupby(labels).agg(set)
    both = [str(k) for k, found in stages.items() if "operator" in found and found - {"operator", "ceiling"}]
    for candidate in sorted(both, key=lambda k: k != label):
        return ledger.operator_account(tables, base, candidate, tick)
    return pd.DataFrame(columns=["item", "time_ns", "low_ns", "high_ns", "share", "verdict", "reason", "scope"])


def useful_flop(recording: Recording, counters: pd.DataFrame) -> float:
    """Counter `useful_flop` of stage main where the kernel has it, else the causal scorer's for shapes with q and n; else NaN."""
    mine = counters[(counters["metric"] == "useful_flop") & (counters["state"] == "value")]
    if len(mine):
        return float(mine["value"].median())
    plan = recording.manifest["plan"]
    same = recording.manifest["kernels"][plan["kernel"]]["same"]
    shape = plan["shape"]
    if "mma_flop" in same and {"q", "n"} <= set(shape):
        return float(roofline.useful_flop(shape["q"], shape["n"]))
    return math.nan


def _floor(recording: Recording, tables: dict[str, pd.DataFrame], peak: Peak) -> ledger.Floor | None:
    practical = ledger.practical_ceiling(tables["counters"])
    practical = peak.practical_flop_per_s if math.isnan(practical) else practical
    chip = roofline.CHIPS.get(str(recording.manifest["machine"]["name"]))
    spec = chip.fp8_flop_per_s if chip else peak.spec_flop_per_s
    flop = useful_flop(recording, tables["counters"])
    return None if math.isnan(flop) else ledger.Floor(flop, practical, spec)


def _tensor(
    recording: Recording, tables: dict[str, pd.DataFrame], base: str, peak: Peak, where: tuple[str, str | None]
) -> witness.Pair:
    """Tensor time as a share of the peak's cycles: from counters in their own scope, and from arithmetic in ours."""
    found = paired(tables["runs"], tables["times"], base, [base], *where)
    runs = tables["runs"][(tables["runs"]["question"] == base) & (tables["runs"]["arm"] == base)]
    sms = _sms(recording, runs)
    times = tables["times"][tables["times"]["run"].isin(runs["run"])]
    clock = float(times["clock_mhz"].median())
    flop = useful_flop(recording, tables["counters"])
    rate = peak.flop_per_cycle_sm * sms
    if math.isnan(flop) or math.isnan(rate) or math.isnan(clock):
        lacking = [
            n for n, v in (("useful FLOP", flop), ("peak FLOP per cycle", rate), ("SM clock", clock)) if math.isnan(v)
        ]
        return witness.Pair("tensor time", None, None, f"not known: {', '.join(lacking)}")
    shares = flop / (rate * clock * 1e-3 * found.of(base))
    share = witness.measured("", shares)
    counted, source = _counted(tables["counters"][tables["counters"]["run"].isin(runs["run"])], rate)
    return witness.tensor(counted, (share.low, share.value, share.high), source)


def _counted(counters: pd.DataFrame, flop_per_cycle: float) -> tuple[np.ndarray, str]:
    """The counters' share of peak, one value a run: Nsight's own percentage, else counted FLOP over counted cycles."""
    rollup = counters[(counters["instance"] == "") & (counters["state"] == "value")]
    names = rollup["metric"].astype(str)
    own = names.str.fullmatch(r"sm__(inst_executed_)?pipe_tensor\S*\.pct_of_peak_sustained_elapsed")
    if own.any():
        return (rollup[own].groupby("run")["value"].max() / 100).to_numpy(float), f"counters: {names[own].iloc[0]}"
    flop = rollup[names == "mma_flop"].groupby("run")["value"].sum()
    cycles = rollup[names.isin(["sm__cycles_elapsed.max", "sm__cycles_elapsed.avg"])].groupby("run")["value"].max()
    both = (flop / (flop_per_cycle * cycles)).dropna()
    return both.to_numpy(float), "counters: matrix FLOP / peak / elapsed cycles"
