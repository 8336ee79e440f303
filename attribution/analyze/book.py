"""The whole ledger of a recording: both accounts, the last SM, and every term beside its second witness.

In: an opened recording, a base, a scope; ceilings where the recording holds none.  Out: a `Book` of frames.
Misuse: a term without a second witness is not confirmed, and the frames say so; nothing is averaged over witnesses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from attribution.analyze import confirm, lastsm, ledger, roofline, witness
from attribution.analyze.interventions import choose_scope
from attribution.analyze.ladder import rungs
from attribution.analyze.pairing import means
from attribution.analyze.stats import intervals
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


def book(recording: Recording, base: str, scope: str | None = None, peak: Peak | None = None) -> Book:
    """Everything about one base.  Raises InputError, DataError.

    Where no scope is named the operator's account is of scope cupti, if that was measured: one timeline.  Main's never is, also
    where cupti is named: under the profiler no arm ran in rounds.
    """
    tables = {n: recording.table(n) for n in ("runs", "times", "counters", "checks")}
    variants, tick = recording.manifest["variants"], float(recording.manifest["machine"]["tick_ns"])
    chosen = choose_scope(tables["times"], scope, "main")
    if scope is not None and means(ledger.ONE_TIMELINE, scope):
        chosen = choose_scope(tables["times"], None, "main")
    where = confirm.Where("main", chosen, tick)
    known = _ceilings(recording, tables, peak or Peak())
    flop = useful_flop(recording, tables["counters"])
    floor = ledger.Floor(flop, known.practical_flop_per_s, known.spec_flop_per_s)
    main = ledger.main_account(tables, variants, base, floor, where.scope, tick)
    account, finish = confirm.accounts(recording, base, base)
    runs = tables["runs"]
    chain = rungs(variants, base, sorted(set(runs.loc[runs["question"] == base, "arm"].astype(str))))
    pairs = [
        *confirm.exposed(recording, tables, base, chain, account, where),
        confirm.tail(recording, base, finish, where),
        confirm.tensor(recording, tables, base, flop, known.flop_per_cycle_sm, where),
    ]
    operator = _operator(recording, tables, base, scope, where)
    return Book(base, str(main["scope"].iloc[0]), operator, main, account, finish, witness.table(pairs), tick)


def _operator(
    recording: Recording, tables: dict[str, pd.DataFrame], base: str, scope: str | None, where: confirm.Where
) -> pd.DataFrame:
    """The operator's account in `scope`, else on one timeline, else in main's, else in the first scope that has all stages."""
    times = ledger.of_base(tables, base)
    everything = {"operator", *ledger.stages_of(times)}
    labels = times[["scope", "cache", "clock"]].astype(str).agg("/".join, axis=1)
    stages = times["stage"].astype(str).groupby(labels).agg(set)
    whole = [str(k) for k, found in stages.items() if everything <= found]
    if scope is None and recording.manifest["protocol"] < ledger.SINCE:
        whole = [k for k in whole if not means(ledger.ONE_TIMELINE, k)]
    for label in sorted(whole, key=lambda k: (not means(scope or ledger.ONE_TIMELINE, k), k != where.scope)):
        return ledger.operator_account(tables, base, label, where.tick_ns)
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


def _ceilings(recording: Recording, tables: dict[str, pd.DataFrame], given: Peak) -> Peak:
    """What the recording measured and the data sheet of its chip says, else what was given."""
    practical = ledger.practical_ceiling(tables["counters"])
    chip = roofline.CHIPS.get(str(recording.manifest["machine"]["name"]))
    return Peak(
        given.practical_flop_per_s if math.isnan(practical) else practical,
        chip.fp8_flop_per_s if chip else given.spec_flop_per_s,
        given.flop_per_cycle_sm if chip is None or math.isnan(chip.flop_per_cycle_sm) else chip.flop_per_cycle_sm,
    )
