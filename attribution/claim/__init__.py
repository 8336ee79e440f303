"""What a recording answers: each arm's question, contrast and expectation in one row.

In: an opened recording (the declarations are in its manifest: what was expected was written before).
Out: frames with one row an arm; the sentence that says what kind of numbers they are.
Misuse: a verdict belongs to one stage and one scope; it is not carried to another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attribution.analyze.contrast import contrasts
from attribution.analyze.in_part import rows_of_whole_traces
from attribution.analyze.traced import check_traces
from attribution.analyze.verdict import MARGIN, stated_for
from attribution.claim.unreached import unreached
from attribution.claim.void import void_lines, voided
from attribution.errors import InputError
from attribution.measured import TRACED
from attribution.plan import NULL
from attribution.recording import Recording

TABLES = ("runs", "times", "checks", "counters")
ROW = ("question", "arm", "shape", "expected")


def answers(
    recording: Recording, stage: str | None = None, scope: str | None = None, margin: float = MARGIN
) -> pd.DataFrame:
    """One row an arm but the base: the contrast's fields, its question, expectation and rows on the busiest SM.

    `stage` None takes the one that each variant declares; ratios within `margin` of 1 (0.01 is 1 %) are the same.
    Raises InputError for an unknown stage, DataError.
    """
    if recording.manifest["kind"] != "run":
        raise InputError(f"{recording.path} holds ingested files, not measured arms: use `attr show`")
    tables = {name: recording.table(name) for name in TABLES}
    # A traced build locates, under ncu each launch runs alone, under cupti no arm ran in rounds: none of them is paired.
    tables["times"] = tables["times"][~tables["times"]["scope"].isin(["trace", "ncu", "cupti"])]
    known = sorted(set(tables["times"]["stage"].astype(str)))
    if stage is not None and stage not in known:
        raise InputError(f"stage {stage!r}: {recording.path.name} has {', '.join(known) or 'none'}")
    check_traces(recording)
    asked = _asked(recording)
    for (_, arm), facts in asked.items():
        # The null arm asks in what was timed; a variant's own question is asked where it says, or not at all.
        if arm == NULL and facts["stage"] not in known and "operator" in known:
            facts["stage"] = "operator"
    declared = {arm["variant"]: arm["flags"] for q in recording.manifest["plan"]["questions"] for arm in q["arms"]}
    parts = []
    for name in dict.fromkeys(stage or facts["stage"] for facts in asked.values()):
        mine = {arm: f for (_, arm), f in asked.items() if stage is not None or f["stage"] == name}
        judged = {arm: f["expects"] for arm, f in mine.items() if f["stage"] == name}
        found = contrasts(
            *tables.values(),
            stage=name,
            scope=scope,
            same={arm: f["same"] for arm, f in mine.items()},
            expects=judged,
            only_arms=mine,
            declared=declared,
            tick_ns=float(recording.manifest["machine"]["tick_ns"]),
            planned_rounds=int(recording.manifest["plan"]["rounds"]),
            margin=margin,
        )
        parts.append(found)
    out = voided(unreached(pd.concat(parts, ignore_index=True), recording), recording)
    places = {key: i for i, key in enumerate(asked)}
    planned = [places[q, a] for q, a in zip(out["question"], out["arm"], strict=True)]
    out = out.iloc[np.argsort(planned, kind="stable")].reset_index(drop=True)
    busiest = busiest_rows(recording)
    out["asks"] = [asked[q, a]["asks"] for q, a in zip(out["question"], out["arm"], strict=True)]
    bands = [_band(asked[q, a]["expects"] if e else {}, s) for q, a, s, e in zip(*(out[c] for c in ROW), strict=True)]
    out["expected_ratio_low"], out["expected_ratio_high"] = zip(*bands, strict=True)
    out["busiest_sm_rows"] = [busiest.get(arm, math.nan) for arm in out["arm"]]
    return out


def _band(expects: Mapping[str, Sequence[float]], shape: str) -> tuple[float, float]:
    """The ratio of times that was expected at this shape; NaN where none was."""
    quantities, beyond = stated_for(expects, shape)
    low, high = (math.nan, math.nan) if beyond else quantities.get("time_ratio", (math.nan, math.nan))
    return float(low), float(high)


def _asked(recording: Recording) -> dict[tuple[str, str], dict[str, Any]]:
    """(question, arm) -> asks, stage, same and this machine's expectations; the null arm asks for the noise."""
    variants, machine = recording.manifest["variants"], recording.manifest["machine"]["expects"]
    out: dict[tuple[str, str], dict[str, Any]] = {}
    for question in recording.manifest["plan"]["questions"]:
        for arm in question["arms"][1:]:
            null = arm["name"] == NULL
            facts = variants[question["base"] if null else arm["variant"]]
            out[question["base"], arm["name"]] = {
                "asks": "How far do two equal arms differ here?" if null else facts["asks"],
                "stage": facts["stage"],
                "same": () if null else facts["same"],
                "expects": {} if null else facts["expects"].get(machine, {}),
            }
    return out


def busiest_rows(recording: Recording) -> dict[str, float]:
    """Arm -> rows of output on the busiest SM of its first traced run, or of that of its traced build."""
    rows = rows_of_whole_traces(recording)
    if rows.empty:
        return {}
    arms = recording.table("runs").set_index("run")["arm"]
    named = arms.reindex(rows["run"]).astype(str).str.removesuffix(TRACED)
    first = rows.assign(arm=named.to_numpy())
    first = first[first["run"] == first.groupby("arm")["run"].transform("min")]
    return {str(k): float(v) for k, v in first.groupby(["arm", "sm"])["rows"].sum().groupby("arm").max().items()}


def scope_sentence(recording: Recording, *scopes: str | None) -> str:
    """A line that says what the times are and what they are not; before it one for each of `scopes` that is void."""
    return "\n".join([*void_lines(recording, [scope for scope in scopes if scope]), _machine_sentence(recording)])


def _machine_sentence(recording: Recording) -> str:
    machine = recording.manifest["machine"]
    if machine["kind"] == "host" and "prefill" in recording.manifest:
        return "CPU time of torch on one thread: it shows how the account works and says nothing about a GPU's speed."
    if machine["kind"] == "host":
        return (
            f"Virtual time of the reference machine ({machine['sms']} virtual SMs, scope host-virtual): "
            "it shows mechanisms and says nothing about a GPU's speed."
        )
    return f"Measured on {machine['name']} ({machine['sms']} SMs)."
