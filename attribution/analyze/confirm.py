"""The terms of a ledger beside their second witnesses, from one recording: which instruments, and in which unit.

In: an opened recording, its tables, a base, ceilings.  Out: `witness.Pair` values.
Controls and traces are compared as shares of SM cycles where both have a clock: two builds of unlike power draw run at unlike
clocks, and a single traced launch at yet another.  A trace belongs to its traced build, so where the traced builds were timed
too, they are a pair of their own, and what tracing costs stands beside the plain one.
Misuse: a pair of the traced builds confirms the instruments; for the plain build it speaks as far as tracing costs little.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze import believable, lastsm, ledger, roofline, spans, tails, tiles, witness
from attribution.analyze.clock import in_cycles
from attribution.analyze.in_part import in_part
from attribution.analyze.interventions import rounds_of, tail_law
from attribution.analyze.ladder import paired
from attribution.analyze.traced import events_of, traced_runs
from attribution.errors import DataError
from attribution.measured import TRACED
from attribution.recording import Recording

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Where:
    """Stage and scope of the times, and the timer's tick in ns."""

    stage: str
    scope: str | None
    tick_ns: float


def accounts(recording: Recording, base: str, arm: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`lastsm.account` and `lastsm.tail_parts` of all traced runs of an arm, with `round` and `clock_mhz`.

    Empty where no run has a trace of all its CTAs.

    Raises DataError for a trace that lost records, or whose SM labels contradict each other.
    """
    mine = traced_runs(recording, base, arm)
    mine = mine[~mine["run"].isin(in_part(recording).index)]
    if mine.empty:
        return pd.DataFrame(), pd.DataFrame()
    events, lanes, rows = (t[t["run"].isin(mine["run"])] for t in map(recording.table, ("events", "lanes", "rows")))
    roles, declared = events_of(recording, str(mine["kernel"].iloc[0]))
    sms = sms_of(recording, mine)
    spans.check_complete(lanes, roles)
    believable.check_records(events, lanes, roles)
    believable.check_placement(lanes, rows, sms)
    found = spans.spans(events, lanes, roles, declared)
    finish = lastsm.tail_parts(tails.per_sm(found, rows, sms)) if len(rows) else pd.DataFrame()
    account = rounds_of(mine, lastsm.account(found)) if len(roles) > 1 else pd.DataFrame()
    if len(account):
        times = recording.table("times")
        clock = times[times["scope"] == "trace"].groupby("run")["clock_mhz"].median()
        account["clock_mhz"] = clock.reindex(account["run"]).to_numpy(float)
    return account, rounds_of(mine, finish) if len(finish) else finish


def sms_of(recording: Recording, runs: pd.DataFrame) -> int:
    """SMs of the device; on the reference machine the knob of these runs."""
    machine = recording.manifest["machine"]
    return int(json.loads(str(runs["knobs"].iloc[0]))["sms"] if machine["kind"] == "host" else machine["sms"])


def exposed(
    recording: Recording, tables: Tables, base: str, chain: Sequence[str], account: pd.DataFrame, where: Where
) -> list[witness.Pair]:
    """A pair for each rung in which only the consumer, or everything behind the scores, is taken away.

    account: of the base's traced runs, see `accounts`.
    """
    runs, cycles = tables["runs"], in_cycles(tables["times"], where.stage, where.scope)
    unclocked = len(account) > 0 and bool(account["clock_mhz"].isna().any())
    unit, times = ("time", tables["times"]) if cycles is None or unclocked else ("cycles", cycles)
    total = float(paired(runs, tables["times"], base, [base], where.stage, where.scope).time_ns.mean())
    own = where.tick_ns / float(account["total_ns"].mean()) if len(account) else 0.0
    timed = set(runs.loc[(runs["question"] == base) & runs["run"].isin(times["run"]), "arm"].astype(str))
    pairs = []
    for lower in (rung for rung in ("filter_only", "score_only") if rung in chain):
        below = accounts(recording, base, lower)[0]
        both = [arm for arm in (base, lower) if arm + TRACED in timed]
        costs = [f"{_cost_of_tracing(runs, times, base, arm, where):+.1%} of {arm}" for arm in both]
        notes = [f"tracing costs {', '.join(costs)}"] if costs else []
        if below.empty:
            notes.append(f"waits and drain only: {lower} has no trace")
        for build in ("", TRACED):
            if build and (account.empty or not {lower + build, base + build} <= timed):
                continue
            share = ledger.control_share({**tables, "times": times}, base, lower, where.stage, where.scope, build)
            names, ticks = (base + build, lower + build, unit), (where.tick_ns / total, 2 * own)
            pairs.append(witness.exposed(share, account, below, names, ticks, "" if build else "; ".join(notes)))
    return pairs


def _cost_of_tracing(runs: pd.DataFrame, times: pd.DataFrame, base: str, arm: str, where: Where) -> float:
    """How much longer the traced build of an arm takes; below 0 the compiler's other choices outweigh the trace."""
    both = paired(runs, times, base, [arm, arm + TRACED], where.stage, where.scope)
    return float(both.of(arm + TRACED).mean() / both.of(arm).mean() - 1)


def tail(recording: Recording, base: str, finish: pd.DataFrame, where: Where) -> witness.Pair:
    """Finish times of the SMs against the law of rows.  finish: `lastsm.tail_parts` of the base's traced runs."""
    try:
        law, source = tail_law(recording, base, where.stage, where.scope)
    except DataError as error:
        # No law of rows: the finish times then have nobody beside them, whatever they are made of.
        alone = None
        if len(finish):
            tick = 2 * where.tick_ns / float(finish["finish_ns"].mean())
            alone = witness.measured("trace: last finish minus mean finish", finish["tail"].to_numpy(), tick)
        return witness.Pair("tail by rows", alone, None, str(error))
    return witness.tail(finish, law, source, where.tick_ns)


def tensor(
    recording: Recording, tables: Tables, base: str, flop: float, flop_per_cycle_sm: float, where: Where
) -> witness.Pair:
    """Tensor time as a share of all cycles: from counters over their own cycles, and from arithmetic over ours.

    flop: useful FLOP of the stage; flop_per_cycle_sm: what an SM's tensor cores do in a cycle; NaN: not known.
    """
    runs = tables["runs"][(tables["runs"]["question"] == base) & (tables["runs"]["arm"] == base)]
    cycles = in_cycles(tables["times"][tables["times"]["run"].isin(runs["run"])], where.stage, where.scope)
    lacking = [n for n, v in (("useful FLOP", flop), ("peak FLOP per cycle", flop_per_cycle_sm)) if math.isnan(v)]
    if cycles is None:
        lacking.append("SM clock")
    if lacking or cycles is None:
        return witness.Pair("tensor time", None, None, f"not known: {', '.join(lacking)}")
    found = paired(tables["runs"], cycles, base, [base], where.stage, where.scope)
    rate = flop_per_cycle_sm * sms_of(recording, runs)
    share = witness.measured("", flop / (rate * found.of(base)))
    rounding = _tile_rounding(recording, json.loads(str(runs["flags"].iloc[0])))
    counters = tables["counters"]
    mine = counters[counters["run"].isin(runs["run"]) & (counters["stage"] == where.stage)]
    counted, source = _counted(mine, rate)
    return witness.tensor(counted, (share.low, share.value, share.high), source, share.value * rounding)


def _tile_rounding(recording: Recording, flags: Mapping[str, object]) -> float:
    """Share of the products that whole key tiles add to the useful ones; 0 for a kernel without q, n and BLOCK_Q."""
    shape = recording.manifest["plan"]["shape"]
    if not {"q", "n"} <= set(shape) or "BLOCK_Q" not in flags:
        return 0.0
    q, n, block_q = shape["q"], shape["n"], int(str(flags["BLOCK_Q"]))
    keys = tiles.tile_keys(block_q, str(recording.manifest["machine"]["kind"]))
    return tiles.pairs(q, n, block_q, keys) / roofline.causal_pairs(q, n) - 1


def _counted(counters: pd.DataFrame, flop_per_cycle: float) -> tuple[NDArray[np.float64], str]:
    """The counters' share of peak, one value a run: tensor pipes' cycles, Nsight's percentage, or counted FLOP over cycles."""
    rollup = counters[(counters["instance"] == "") & (counters["state"] == "value")]
    names = rollup["metric"].astype(str)

    def per_run(metrics: Sequence[str]) -> pd.Series:
        return rollup[names.isin(list(metrics))].groupby("run")["value"].max()

    pipes = (per_run(["tensor_cycles_active"]) / (roofline.TENSOR_PIPES * per_run(["sm_cycles_elapsed"]))).dropna()
    if len(pipes):
        return pipes.to_numpy(float), "counters: cycles of the tensor pipes / elapsed cycles"
    own = sorted(set(names[names.str.fullmatch(r"sm__(inst_executed_)?pipe_tensor\S*\.pct_of_peak_sustained_elapsed")]))
    if len(own):
        return (per_run(own) / 100).to_numpy(float), f"counters: {own[0]}"
    cycles = per_run(["sm__cycles_elapsed.max", "sm__cycles_elapsed.avg"])
    both = (per_run(["mma_flop"]) / (flop_per_cycle * cycles)).dropna()
    return both.to_numpy(float), "counters: matrix FLOP / peak / elapsed cycles"
