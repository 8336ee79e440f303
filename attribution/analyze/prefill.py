"""What a prefill recording says: the indexer's share, what the fused one saves of it, and where the product goes wrong.

In: recordings of `attr prefill`, one an input length.  Out: an `Account` for each length that uses the fused indexer, an
`AdapterCost` for each that never does.
Times are paired by round.  The share comes from the kernels' trace under a named rule, or with rule `timed` from the range's
own timing over time to first token; then there are no kernels to sum and the terms about them are absent.
Misuse: an adapter's cost is carried over between lengths of one machine and one configuration only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attribution.analyze.account import Account, Floats, account, over_rounds, terms_of
from attribution.analyze.reconcile import Interval
from attribution.analyze.shares import Share, share_by_request
from attribution.errors import DataError
from attribution.ingest.ranges import RULES as TRACE_RULES
from attribution.recording import Recording

TIMED = "timed"
RULES = (*TRACE_RULES, TIMED)


@dataclass(frozen=True)
class AdapterCost:
    """Where the fused path is never used: what its adapter adds to a request, ns, and to each of its calls."""

    name: str
    request_ns: Interval
    calls: int

    @property
    def half_ns(self) -> float:
        """Half-width of the interval of one call."""
        return (self.request_ns[2] - self.request_ns[0]) / 2 / self.calls

    @property
    def call_ns(self) -> float:
        return self.request_ns[1] / self.calls

    def __str__(self) -> str:
        low, value, high = (ns / 1e6 for ns in self.request_ns)
        return (
            f"{self.name}: all {self.calls} indexer calls of a request fell back; the adapter added {value:.3f} ms "
            f"[{low:.3f}, {high:.3f}] to a request"
        )


@dataclass(frozen=True)
class Requests:
    """One recording by round: time to first token of each arm, and each arm's indexer time by chunk; ns.

    ttft: arm -> [rounds]; part: arm -> [rounds, chunks]; fell_back, calls: [chunks] of arm `fused`.
    """

    name: str
    ttft: dict[str, Floats]
    part: dict[str, Floats]
    calls: Floats
    fell_back: Floats

    @property
    def eligible(self) -> np.ndarray:
        """bool [chunks]: no call of it fell back."""
        return np.asarray(self.fell_back == 0)


def requests(recording: Recording) -> Requests:
    """Raises DataError for a recording that is not one of `attr prefill`, or lacks an arm in some round."""
    if "prefill" not in recording.manifest:
        raise DataError(f"{recording.path.name} is no recording of `attr prefill`: measure one, or give a table (.csv)")
    part = str(recording.manifest["prefill"]["part"])
    runs = recording.table("runs")[["run", "round", "arm", "status"]].astype({"arm": str})
    times = recording.table("times").merge(runs[runs["status"] == "ok"], on="run").astype({"stage": str})
    whole = times[times["stage"] == "ttft"].pivot_table(
        index="round", columns="arm", values="time_ns", aggfunc="median"
    )
    if missing := {"native", "fused"} - set(whole.columns) or whole[["native", "fused"]].isna().any().any():
        raise DataError(f"{recording.path.name}: not every round has native and fused ({missing}): measure again")
    chunks = times[times["stage"].str.startswith(f"{part}_")]
    by_arm = {
        str(arm): here.pivot_table(index="round", columns="stage", values="time_ns").sort_index(axis=1)
        for arm, here in chunks.groupby("arm")
    }
    counted = recording.table("counters").merge(runs[runs["arm"] == "fused"], on="run").astype({"stage": str})
    seen = counted.pivot_table(index="stage", columns="metric", values="value", aggfunc=["min", "max"], observed=True)
    if not (seen["min"] == seen["max"]).all().all():
        raise DataError(
            f"{recording.path.name}: the number of calls that fell back differs between rounds: measure again"
        )
    return Requests(
        recording.path.name,
        {str(arm): whole[arm].to_numpy(float) for arm in whole},
        {arm: frame.to_numpy(float) for arm, frame in by_arm.items()},
        seen["max"]["calls"].to_numpy(float),
        seen["max"]["fell_back_calls"].to_numpy(float),
    )


def adapter_cost(recording: Recording) -> AdapterCost | None:
    """The adapter's cost, or None for a length that uses the fused indexer.  Raises DataError."""
    seen = requests(recording)
    if seen.eligible.any():
        return None
    return AdapterCost(seen.name, over_rounds(seen.ttft["fused"] - seen.ttft["native"]), int(seen.calls.sum()))


def prefill_account(recording: Recording, rule: str, adapter: AdapterCost | None = None) -> Account:
    """The account of one length.  Raises DataError, also where no chunk uses the fused indexer."""
    seen = requests(recording)
    if not seen.eligible.any():
        raise DataError(
            f"{seen.name}: no call used the fused indexer, so it has no saving; it measures the adapter's cost"
        )
    native, fused = seen.ttft["native"], seen.ttft["fused"]
    mine, theirs = seen.part["native"][:, seen.eligible].sum(1), seen.part["fused"][:, seen.eligible].sum(1)
    part = seen.part["native"].sum(1)
    saving = 100 * (1 - theirs / mine)
    share, shares = _share(recording, rule, part / native)
    estimate = share[1] * saving / 100 if shares else 100 * part / native * saving / 100
    summed, busy = (
        float(np.mean([getattr(s, f) for s in shares])) if shares else math.nan for f in ("whole_ns", "busy_ns")
    )
    part_ns = float(np.mean([s.part_ns for s in shares])) if shares else part
    exposed = native - seen.ttft["given"] if "given" in seen.ttft else math.nan
    added = math.nan if adapter is None else adapter.call_ns * float(seen.fell_back.sum())
    terms = terms_of(estimate, mine / part, native, summed, busy, exposed, part_ns, added)
    outside = {"estimate": (share[2] - share[0]) / 2 * float(saving.mean()) / 100 if shares else 0.0}
    if adapter is not None:
        outside["adapter"] = 100 * adapter.half_ns * float(seen.fell_back.sum()) / float(native.mean())
    # With the critical path measured the share cancels out of the remainder; without it, its width is there too.
    known = [outside.get("adapter", 0.0), 0.0 if "critical path" in terms else outside["estimate"]]
    outside["remainder"] = math.hypot(*known)
    notes = _notes(recording, seen, shares, rule, part, adapter)
    measured = 100 * (1 - fused / native)
    return account(seen.name, share, over_rounds(saving), estimate, measured, terms, outside, notes)


def _share(recording: Recording, rule: str, timed: Floats) -> tuple[Interval, list[Share]]:
    """The share in percent with its interval, and the trace's shares by request; none under rule `timed`."""
    if rule == TIMED:
        return over_rounds(100 * timed), []
    kernels, ranges = recording.table("kernels"), recording.table("ranges")
    if kernels.empty:
        raise DataError(f"{recording.path.name} has no trace of kernels: rule {TIMED} takes the range's own timing")
    shares = share_by_request(kernels, ranges, str(recording.manifest["prefill"]["part"]), rule)
    spread = over_rounds(np.array([s.share_pct for s in shares]))
    # Kernels that no range could be given may all be the part's.
    unplaced = max(s.high_pct - s.share_pct for s in shares)
    low = spread[1] if math.isnan(spread[0]) else spread[0]
    return (low, spread[1], (spread[1] if math.isnan(spread[2]) else spread[2]) + unplaced), shares


def _notes(
    recording: Recording, seen: Requests, shares: Sequence[Share], rule: str, part: Floats, adapter: AdapterCost | None
) -> tuple[str, ...]:
    """What a reader of the numbers must know beside them."""
    facts = recording.manifest["prefill"]
    saved = 100 * (part - seen.part["fused"].sum(1)) / seen.ttft["native"]
    rest = 100 * (1 - seen.ttft["fused"] / seen.ttft["native"]) - saved
    out = [
        f"{int(seen.fell_back.sum())} of {int(seen.calls.sum())} indexer calls of a request fell back ({facts['falls_back']})",
        f"native: {facts['native']['scorer']} + {facts['native']['selector']}; fused: {facts['fused']}",
        f"timed in place, the part saved {_pct(over_rounds(saved))} of the whole and everything else {_pct(over_rounds(rest))}",
    ]
    if "null" in seen.ttft:
        out.append(f"the null arm saved {_pct(over_rounds(100 * (1 - seen.ttft['null'] / seen.ttft['native'])))}")
    if shares:
        lost = sum(s.unplaced_ns for s in shares) / sum(s.whole_ns for s in shares)
        out.append(
            f"share: rule {rule}, {len(shares)} profiled requests of {shares[0].kernels} kernels that are no communication; "
            f"{100 * lost:.3f} % of their time has no range"
        )
    else:
        out.append(f"share: rule {TIMED}: of time to first token, not of kernel time")
    if adapter is None:
        out.append("adapter: not measured; add the recording of a length that never uses the fused indexer")
    return tuple(out)


def _pct(interval: Interval) -> str:
    low, value, high = interval
    return f"{value:.3f} % [{low:.3f}, {high:.3f}]"


def check_together(recordings: Sequence[Recording]) -> None:
    """Raises DataError for recordings of unlike machines, configurations or sources: an adapter's cost is not carried over."""
    keys: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "machine": lambda m: m["machine"]["name"],
        "source": lambda m: m["kernels"],
        "configuration": lambda m: {k: v for k, v in m["prefill"]["sizes"].items() if k != "layers"},
        "native indexer": lambda m: m["prefill"]["native"],
        "fused indexer": lambda m: m["prefill"]["fused"],
    }
    for other in recordings[1:]:
        for what, key in keys.items():
            one, two = key(recordings[0].manifest), key(other.manifest)
            if one != two:
                raise DataError(
                    f"{recordings[0].path.name} and {other.path.name} differ in {what}: {str(one)[:60]} and {str(two)[:60]}; "
                    "give recordings of one measurement"
                )


def frame(accounts: Sequence[Account]) -> pd.DataFrame:
    """One row an account: intervals as columns; NaN where a term was not measured."""
    return pd.DataFrame([a.row() for a in accounts])
