"""How small an effect the committed GPU recordings can tell: false calls between equal arms, planted slow-downs found.

In: recordings under traces/ that were measured with rests (see docs/method.md).  Out: (what, value, target) rows.
Rounds are cut into disjoint blocks and each block is judged as a measurement of its own; where blocks begin is drawn by a seed.
Known effects are planted twice: in the kernel (flag PLANT), and in the recorded times of the null arm.
Misuse: blocks of one recording share its card and its day.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attribution.analyze import stats
from attribution.analyze.pairing import pair_rounds, scoped
from attribution.analyze.verdict import decide
from attribution.declare import shipped_root
from attribution.order import williams
from attribution.recording import Recording, open_recording

SEED = 17
LEAST_ROUNDS = 3
STAGES = ("main", "operator")
SCOPES = ("event", "graph")
PLANTED, OTHER_CARD = "h200-precision-128k", "h200-precision-128k-moved"


@dataclass(frozen=True)
class Blocks:
    """log(arm / base) of paired rounds, [blocks, rounds of a block], and the tick relative to a time."""

    ratios: np.ndarray
    tick: float

    def called(self) -> int:
        """Blocks that would be called faster or slower."""
        found = stats.intervals(self.ratios, stats.VERDICT_LEVEL, self.tick)
        bounds = zip(found.center, found.low, found.high, strict=True)
        verdicts = [decide(float(center), float(low), float(high), margin=0.0)[0] for center, low, high in bounds]
        return sum(word in ("faster", "slower") for word in verdicts)

    def holding(self, effect: float) -> int:
        """Blocks whose 95 % interval holds log(1 + effect)."""
        found = stats.intervals(self.ratios, stats.REPORT_LEVEL, self.tick)
        return int(((found.low <= np.log1p(effect)) & (np.log1p(effect) <= found.high)).sum())


def rested(folder: Path) -> list[Recording]:
    """Recordings of a GPU whose arms took turns with rests."""
    found = [open_recording(p.parent) for p in sorted(folder.glob("*/manifest.json"))]
    return [r for r in found if r.manifest.get("measuring", {}).get("rest", 0) > 0]


def log_ratios(recording: Recording, base: str, arm: str, stage: str, scope: str) -> tuple[np.ndarray, float]:
    """log(arm / base) of every round in order, and the tick of both; empty where it was not timed."""
    runs, times = recording.table("runs"), recording.table("times")
    mine = runs[(runs["question"] == base) & (runs["status"] == "ok")]
    timed = scoped(times[(times["stage"] == stage) & times["run"].isin(mine["run"])], scope)
    pairs = pair_rounds(mine[mine["arm"].isin([base, arm])], timed, base, arm)
    tick = 2 * float(recording.manifest["machine"]["tick_ns"]) / float(pairs["base_ns"].median() if len(pairs) else 1)
    return np.log(pairs["arm_ns"].to_numpy(float) / pairs["base_ns"].to_numpy(float)), tick


def blocks(ratios: np.ndarray, tick: float, size: int, seed: int = SEED) -> Blocks:
    """Disjoint blocks of `size` neighbouring rounds; what does not fill one is left out, at an end that the seed draws."""
    count = len(ratios) // size
    first = int(np.random.default_rng(seed).integers(0, len(ratios) - count * size + 1)) if count else 0
    return Blocks(ratios[first : first + count * size].reshape(count, size), tick)


def null_blocks(recordings: list[Recording]) -> Iterator[tuple[str, Blocks]]:
    """(recording, shape, scope and stage; blocks) of every null arm, each block positions-balanced."""
    for recording in recordings:
        for question in recording.manifest["plan"]["questions"]:
            square = len(williams(len(question["arms"]))) // (1 + len(question["arms"]) % 2)
            size = -(-LEAST_ROUNDS // square) * square
            shape = ", ".join(f"{k} {v}" for k, v in recording.manifest["plan"]["shape"].items())
            for scope in SCOPES:
                for stage in STAGES:
                    found = blocks(*log_ratios(recording, question["base"], "null", stage, scope), size)
                    if len(found.ratios):
                        yield f"{recording.path.name}: {shape}, {scope}, {stage}, {size} rounds", found


def planted_effect(recording: Recording) -> float:
    """What was planted, relative: cycles of PLANT beyond the base's, over the cycles of the base's operator."""
    arms = {arm["name"]: arm["flags"] for q in recording.manifest["plan"]["questions"] for arm in q["arms"]}
    runs, times = recording.table("runs"), recording.table("times")
    mine = times[times["run"].isin(runs.loc[runs["arm"] == "full", "run"]) & (times["stage"] == "operator")]
    cycles = float((mine["time_ns"] * mine["clock_mhz"]).median()) / 1e3
    return float(arms["planted"]["PLANT"] - arms["full"]["PLANT"]) / cycles


def _work_s(recording: Recording) -> float:
    """Seconds that the timed samples of base and null arm took."""
    runs = recording.table("runs")
    pair = runs.loc[runs["arm"].isin(["full", "null"]), "run"]
    times = recording.table("times")
    return float(times.loc[times["run"].isin(pair), "time_ns"].sum()) / 1e9


def ratios() -> Iterator[tuple[str, float, str]]:
    """All that the precision recordings say."""
    folder = shipped_root() / "traces"
    count = called = 0
    for what, found in null_blocks(rested(folder)):
        mine = found.called()
        count, called = count + len(found.ratios), called + mine
        yield f"{what}: equal arms called of {len(found.ratios)}", mine, "few"
    yield f"equal arms called faster or slower, of {count}", called, f"<= {count * 8 // 100}"
    for name in (OTHER_CARD, PLANTED):
        recording = open_recording(folder / name)
        null, tick = log_ratios(recording, "full", "null", "operator", "graph")
        detectable = 100 * float(stats.detectable_effect(null)[0])
        yield f"{name}: detectable, {len(null)} rounds, {_work_s(recording):.0f} s of work, %", detectable, "<= 0.15"
    effect = planted_effect(recording)
    slow = blocks(*log_ratios(recording, "full", "planted", "operator", "graph"), 6)
    yield (
        f"slow-down of {effect:.2%} in the kernel, sign right of {len(slow.ratios)}",
        int((slow.ratios.mean(1) > 0).sum()),
        "20",
    )
    yield f"the same, intervals that hold it of {len(slow.ratios)}", slow.holding(effect), ">= 17"
    equal = blocks(null, tick, 6)
    small = Blocks(equal.ratios + stats.detectable_effect(equal.ratios)[:, None] / 3, tick)
    yield f"a third of each run's detectable effect in the times, called of {len(small.ratios)}", small.called(), "<= 3"


def main() -> None:
    print(json.dumps([{"what": w, "value": v, "target": t} for w, v, t in ratios()], indent=1))


if __name__ == "__main__":
    main()
