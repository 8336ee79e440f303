"""What a recording can tell apart: its rounds cut into disjoint blocks, each judged as a measurement of its own.

In: an opened recording, an arm (the null arm by default).  Out: `Blocks`, and a frame with one row a scope and stage.
Equal arms should hardly ever be called; an arm with a known effect should be called, and the intervals should hold the effect.
Which rounds are left out, where blocks do not fill a recording, is drawn by a seed.
Misuse: blocks of one recording share its card and its hour; several recordings say more than many blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attribution.analyze import stats
from attribution.analyze.carry_over import BESIDE
from attribution.analyze.equal_clock import equal_clock
from attribution.analyze.pairing import pair_rounds, scoped, scopes
from attribution.analyze.verdict import decide
from attribution.declare import nearest
from attribution.errors import InputError
from attribution.order import williams
from attribution.plan import NULL
from attribution.recording import Recording

SEED = 17
LEAST_ROUNDS = 3
STAGES = ("main", "operator")
POINT = ("shape", "distribution")
HOLDING = {"CYCLES", "DELAY", "PLANT"}
"""Words in the name of a flag that holds a CTA up for so many cycles."""


@dataclass(frozen=True)
class Blocks:
    """log(arm / base) of paired rounds, [blocks, rounds of a block], and the tick relative to a time."""

    ratios: np.ndarray
    tick: float

    def called(self) -> int:
        """Blocks that would be called faster or slower, however small the difference."""
        found = stats.intervals(self.ratios, stats.VERDICT_LEVEL, self.tick)
        bounds = zip(found.center, found.low, found.high, strict=True)
        verdicts = [decide(float(center), float(low), float(high), margin=0.0)[0] for center, low, high in bounds]
        return sum(word in ("faster", "slower") for word in verdicts)

    def holding(self, effect: float) -> int:
        """Blocks whose 95 % interval holds log(1 + effect)."""
        found = stats.intervals(self.ratios, stats.REPORT_LEVEL, self.tick)
        return int(((found.low <= np.log1p(effect)) & (np.log1p(effect) <= found.high)).sum())

    def detectable(self) -> np.ndarray:
        """Detectable effect of each block, as a log-ratio."""
        return stats.detectable_effect(self.ratios)

    def slowed(self, log_ratio: Any) -> Blocks:
        """The same with the arm slower by so much in every round."""
        return Blocks(self.ratios + np.asarray(log_ratio), self.tick)


def log_ratios(
    recording: Recording, base: str, arm: str, stage: str, scope: str, times: pd.DataFrame | None = None
) -> tuple[np.ndarray, float]:
    """log(arm / base) of every round in order, and the tick of both relative to the base; empty where it was not timed.

    `times` stands in for the recording's own.
    """
    runs, times = recording.table("runs"), recording.table("times") if times is None else times
    mine = runs[(runs["question"] == base) & (runs["status"] == "ok") & runs["arm"].isin([base, arm])]
    timed = scoped(times[(times["stage"] == stage) & times["run"].isin(mine["run"])], scope)
    pairs = pair_rounds(mine[mine["run"].isin(timed["run"])], timed, base, arm)
    if pairs.empty:
        return np.empty(0), 0.0
    tick = 2 * float(recording.manifest["machine"]["tick_ns"]) / float(pairs["base_ns"].median())
    return np.log(pairs["arm_ns"].to_numpy(float) / pairs["base_ns"].to_numpy(float)), tick


def blocks(ratios: np.ndarray, tick: float, size: int, seed: int = SEED) -> Blocks:
    """Disjoint blocks of `size` neighbouring rounds; what does not fill one is left out, at an end that the seed draws."""
    count = len(ratios) // size
    first = int(np.random.default_rng(seed).integers(0, len(ratios) - count * size + 1)) if count else 0
    return Blocks(ratios[first : first + count * size].reshape(count, size), tick)


def block_rounds(arms: int) -> int:
    """The fewest rounds, LEAST_ROUNDS at least, in which each of so many arms is at every place equally often."""
    square = len(williams(arms)) // (1 + arms % 2)
    return -(-LEAST_ROUNDS // square) * square


def planted_effect(
    recording: Recording, question: Mapping[str, Any], arm: str, flag: str, stage: str, times: pd.DataFrame
) -> float:
    """Relative effect of a flag that holds every CTA up for so many cycles: those beyond the base's over the base's own."""
    held = _held_cycles(recording, question, arm, flag)
    runs = recording.table("runs")
    mine = times[times["run"].isin(runs.loc[runs["arm"] == question["base"], "run"]) & (times["stage"] == stage)]
    cycles = float((mine["time_ns"] * mine["clock_mhz"]).median()) / 1e3
    return held / cycles


def _held_cycles(recording: Recording, question: Mapping[str, Any], arm: str, flag: str) -> int:
    """The arm's cycles beyond the base's, of a flag that says cycles and is all that the arm changes.  Raises InputError."""
    flags, base = {a["name"]: a["flags"] for a in question["arms"]}, question["base"]
    if arm not in flags or flag not in flags[arm]:
        raise InputError(f"arm {arm} of {recording.path.name} has no flag {flag}: name the flag that was planted")
    own, planted = flags[base].get(flag), flags[arm][flag]
    # A bool is an int; it is no number of cycles.
    if not HOLDING & set(flag.split("_")) or type(own) is not int or type(planted) is not int:
        raise InputError(
            f"--planted {flag}: it is {own} in {base} and {planted} in {arm}, no cycles that a CTA is held up; "
            f"name a flag with an integer in both and {', '.join(sorted(HOLDING))} in its name"
        )
    if others := sorted(f for f in {*flags[arm], *flags[base]} - {flag} if flags[arm].get(f) != flags[base].get(f)):
        raise InputError(
            f"--planted {flag}: arm {arm} also changes {', '.join(others)}, so its effect is not that of {flag}; "
            "name an arm that differs from its base by the planted flag alone"
        )
    return int(planted - own)


def noise(
    recording: Recording,
    arm: str = NULL,
    rounds: int | None = None,
    planted: str | None = None,
    at_one_clock: bool = False,
) -> pd.DataFrame:
    """One row a point, question, scope and stage that has a whole block: how its blocks come out.

    `rounds` of a block (default: `block_rounds`); `planted`: see planted_effect.  Columns: shape, distribution, blocks, called,
    slower (estimates above 0), effect, holding it, detectable (median of the blocks), detectable_all (all rounds together),
    called_at_third, called once the effect is a third of each block's own detectable one, and ratio with its 95 % interval, of all
    rounds together.  `at_one_clock`: see equal_clock.py.  Raises InputError.
    """
    times = recording.table("times")
    if at_one_clock:
        times = equal_clock(recording.table("runs"), times)
    found = [
        {"recording": recording.path.name, **dict(zip(POINT, point, strict=True)), **row}
        for point, mine in recording.table("runs").astype(dict.fromkeys(POINT, str)).groupby(list(POINT), sort=False)
        for question in recording.manifest["plan"]["questions"]
        if question["base"] != arm
        for row in _question(recording, times[times["run"].isin(mine["run"])], question, arm, rounds, planted)
    ]
    if not found:
        if any(question["base"] == arm for question in recording.manifest["plan"]["questions"]):
            raise InputError(f"{recording.path.name}: {arm} is the base; name an arm that is compared with it")
        if not times.empty and not (stages := set(times["stage"].astype(str))) & set(STAGES):
            raise InputError(
                f"{recording.path.name} has no time of stage {' or '.join(STAGES)}, which noise is asked of; "
                f"it has: {', '.join(sorted(stages))}"
            )
        questions = recording.manifest["plan"]["questions"]
        if arm not in (
            known := sorted({a["name"] for q in questions for a in q["arms"]} - {q["base"] for q in questions})
        ):
            raise InputError(f"{recording.path.name}: no arm {arm}{nearest(arm, known)}; there are: {', '.join(known)}")
        size = rounds or min(block_rounds(len(q["arms"])) for q in questions)
        raise InputError(
            f"{recording.path.name}: arm {arm} has no block of {size} rounds that its base finished as well, of the "
            f"{recording.manifest['plan']['rounds']} rounds that were planned; --rounds makes other blocks"
        )
    return pd.DataFrame(found)


def _question(
    recording: Recording,
    times: pd.DataFrame,
    question: Mapping[str, Any],
    arm: str,
    rounds: int | None,
    planted: str | None,
) -> Iterator[dict[str, Any]]:
    size = rounds or block_rounds(len(question["arms"]))
    for scope in sorted(label for label in scopes(times) if label.split("/")[0] not in BESIDE):
        for stage in STAGES:
            ratios, tick = log_ratios(recording, question["base"], arm, stage, scope, times)
            if len(ratios) < size:
                continue
            found = blocks(ratios, tick, size)
            effect = planted_effect(recording, question, arm, planted, stage, times) if planted else 0.0
            each, whole = found.detectable(), stats.intervals(ratios, stats.REPORT_LEVEL, tick)
            bounds = (("ratio", whole.center), ("ratio_low", whole.low), ("ratio_high", whole.high))
            yield {
                "question": question["base"], "arm": arm, "scope": scope, "stage": stage, "all_rounds": len(ratios), "rounds": size,
                "blocks": len(found.ratios), "called": found.called(), "slower": int((found.ratios.mean(axis=1) > 0).sum()),
                "effect": effect, "holding": found.holding(effect), "detectable": float(np.expm1(np.nanmedian(each))),
                "detectable_all": float(np.expm1(stats.detectable_effect(ratios)[0])),
                "called_at_third": found.slowed(each[:, None] / 3 - np.log1p(effect)).called(),
                **{name: float(np.exp(value[0])) for name, value in bounds},
            }  # fmt: skip
