"""What the committed recordings say of small effects, recomputed; and that the same counting sees a bias."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from attribution.analyze import stats
from attribution.analyze.carry_over import carry_over
from attribution.analyze.noise import Blocks, block_rounds, blocks, log_ratios, noise, planted_effect
from attribution.errors import InputError
from attribution.recording import Recording, open_recording

TRACES = Path(__file__).parents[2] / "traces"
KINDS = (
    "128k",
    "128k-moved",
    "8k",
    "hello",
    "128k-one-rest",
    "128k-two-rests",
    "128k-shared-memory",
    "8k-shared-memory",
)
PRECISION = [f"h200-precision-{name}" for name in KINDS]
PLANTED, OTHER_CARD = "h200-precision-128k", "h200-precision-128k-moved"
OWN_MEMORY, TODAY = "h200-precision-128k-two-rests", "h200-precision-128k-shared-memory"


@pytest.fixture(scope="module")
def nulls() -> pd.DataFrame:
    return pd.concat([noise(open_recording(TRACES / name)) for name in PRECISION])


def rested() -> list[Recording]:
    """Every recording of a GPU whose arms took turns with rests."""
    found = [open_recording(p.parent) for p in sorted(TRACES.glob("*/manifest.json"))]
    return [r for r in found if r.manifest.get("measuring", {}).get("rest", 0) > 0]


def test_equal_arms_are_rarely_called_over_200_disjoint_blocks_and_several_shapes(nulls: pd.DataFrame) -> None:
    shapes = {str(open_recording(TRACES / name).manifest["plan"]["shape"]) for name in PRECISION}
    assert len(shapes) >= 3
    assert nulls["blocks"].sum() >= 200
    assert nulls["called"].sum() <= 16


def test_the_same_blocks_are_called_when_an_arm_is_slower() -> None:
    """Planted: every arm of the null blocks 2 % slower."""
    count = called = holding = still = 0
    for name in PRECISION:
        recording = open_recording(TRACES / name)
        base = recording.manifest["plan"]["questions"][0]["base"]
        slow = blocks(*log_ratios(recording, base, "null", "operator", "graph"), 4).slowed(np.log(1.02))
        count, called = count + len(slow.ratios), called + slow.called()
        holding, still = holding + slow.holding(0.02), still + slow.holding(0.0)
    assert called > 0.8 * count
    assert holding > 0.9 * count
    assert still < 0.2 * count


def test_blocks_are_disjoint_whole_and_drawn_by_the_seed() -> None:
    rounds = np.arange(26.0)
    for seed in range(8):
        found = blocks(rounds, 0.0, 6, seed).ratios
        assert found.shape == (4, 6)
        assert np.unique(found).size == 24
        assert (np.diff(found.ravel()) == 1).all()
    assert len({float(blocks(rounds, 0.0, 6, seed).ratios[0, 0]) for seed in range(8)}) > 1
    assert blocks(rounds[:5], 0.0, 6).ratios.size == 0
    assert [block_rounds(arms) for arms in (2, 3, 4, 5)] == [4, 3, 4, 5]


def test_an_interval_holds_an_effect_between_its_ends_only() -> None:
    wave = 0.001 * np.sin(np.arange(40.0)).reshape(4, 10)
    for log_ratio in (-0.02, 0.02):
        moved = Blocks(wave, 0.0).slowed(log_ratio)
        assert [moved.holding(effect) for effect in (-0.03, 0.0, 0.03)] == [0, 0, 0]
        assert moved.holding(float(np.expm1(log_ratio))) == 4
        assert moved.called() == 4


def two_arms(**flags: tuple[object, object]) -> Any:
    """Of rounds of 1 ms at 1000 MHz, the second arm 1 % slower; in the last round the base failed and its time is wrong."""
    runs = pd.DataFrame({"run": range(12), "round": [i // 2 for i in range(12)], "arm": ["full", "slow"] * 6})
    runs = runs.assign(question="full", status=["ok"] * 10 + ["failed", "ok"], inputs="")
    times = pd.DataFrame({"run": runs["run"], "time_ns": [1e6, 1.01e6] * 5 + [7e6, 1.01e6], "clock_mhz": 1000.0})
    times = times.assign(scope="graph", cache="warm", clock="as-found", stage="operator", flags="")
    arms = [
        {"name": name, "flags": {flag: both[i] for flag, both in flags.items()}}
        for i, name in enumerate(("full", "slow"))
    ]
    manifest = {"machine": {"tick_ns": 500.0}, "plan": {"questions": [{"base": "full", "arms": arms}]}}
    tables = {"runs": runs, "times": times}
    return SimpleNamespace(table=tables.__getitem__, manifest=manifest, path=Path("planted"))


def test_a_round_that_failed_has_no_ratio_and_the_tick_is_that_of_both_times() -> None:
    ratios, tick = log_ratios(two_arms(), "full", "slow", "operator", "graph")
    assert ratios == pytest.approx([np.log(1.01)] * 5)
    assert tick == pytest.approx(2 * 500 / 1e6)
    none, tick = log_ratios(two_arms(), "full", "slow", "main", "graph")
    assert (len(none), tick) == (0, 0.0)


@pytest.mark.parametrize("flag", ["PLANT", "DELAY", "MATH_CYCLES"])
def test_cycles_that_hold_a_cta_up_are_an_effect_by_the_bases_own(flag: str) -> None:
    recording = two_arms(**{flag: (1000, 4000)})
    (question,) = recording.manifest["plan"]["questions"]
    times = recording.table("times").iloc[:10]
    assert planted_effect(recording, question, "slow", flag, "operator", times) == pytest.approx(3000 / 1e6)
    for both in ((True, 4000), (1000, True), (1000.0, 4000)):
        wrong = two_arms(**{flag: both})
        with pytest.raises(InputError, match="no cycles that a CTA is held up"):
            planted_effect(wrong, wrong.manifest["plan"]["questions"][0], "slow", flag, "operator", times)


@pytest.mark.parametrize("name", [PLANTED, OWN_MEMORY, TODAY])
def test_a_slow_down_of_0_3_percent_in_the_kernel_is_found_in_every_run(name: str) -> None:
    (row,) = noise(open_recording(TRACES / name), "planted", 6, "PLANT").to_dict("records")
    assert 0.0025 < row["effect"] < 0.0035
    assert row["blocks"] == 20
    assert row["slower"] == 20
    assert row["holding"] >= 17


def test_all_rounds_at_equal_clock_hold_what_was_planted_and_as_found_they_lack_what_the_clock_gave(attr: Any) -> None:
    """The card was at its power limit, and let the clock of the arm that is held up run higher."""
    recording = open_recording(TRACES / OWN_MEMORY)
    rows = [noise(recording, "planted", 6, "PLANT", equal).iloc[0] for equal in (False, True)]
    held = [row["ratio_low"] - 1 <= row["effect"] <= row["ratio_high"] - 1 for row in rows]
    assert held == [False, True]
    clocks = recording.table("times").merge(recording.table("runs")[["run", "arm"]], on="run").astype({"arm": str})
    mhz = clocks.groupby("arm")["clock_mhz"].mean()
    assert abs(mhz["null"] / mhz["full"] - 1) < 0.0002 < 0.0005 < mhz["planted"] / mhz["full"] - 1
    assert rows[0]["ratio"] < rows[1]["ratio"]
    said = [
        attr("noise", OWN_MEMORY, "--arm", "planted", "--planted", "PLANT", *more).out
        for more in ([], ["--equal-clock"])
    ]
    assert ["which holds" in text for text in said] == held
    assert "all 120 rounds: " not in attr("noise", OWN_MEMORY).out


def test_with_one_memory_all_rounds_hold_what_was_planted() -> None:
    recording = open_recording(TRACES / TODAY)
    for equal in (False, True):
        row = noise(recording, "planted", 6, "PLANT", equal).iloc[0]
        assert row["ratio_low"] - 1 <= row["effect"] <= row["ratio_high"] - 1


def test_arms_with_memory_of_their_own_are_called_unequal_and_with_one_memory_they_are_not() -> None:
    """The same question on two days: what the places of an arm's tensors did is in every round of the first one."""
    own, shared = (
        noise(open_recording(TRACES / f"h200-precision-8k-{how}-memory")).iloc[0] for how in ("own", "shared")
    )
    assert own["called"] > 0.3 * own["blocks"]
    assert own["slower"] == 0
    assert own["ratio_high"] < 0.996
    assert shared["called"] <= 0.08 * shared["blocks"]
    assert abs(shared["ratio"] - 1) < 0.0005


@pytest.mark.parametrize("name", [PLANTED, OWN_MEMORY, TODAY])
def test_a_third_of_what_is_detectable_is_not_claimed_and_three_times_as_much_is(name: str) -> None:
    (row,) = noise(open_recording(TRACES / name), rounds=6).to_dict("records")
    assert row["blocks"] == 20
    assert row["called_at_third"] <= 3
    equal = blocks(*log_ratios(open_recording(TRACES / name), "full", "null", "operator", "graph"), 6)
    assert equal.slowed(3 * equal.detectable()[:, None]).called() >= 17


def test_an_answer_of_a_third_of_a_percent_needs_a_margin_below_it(attr: Any) -> None:
    """Within 1 % both arms are the same; within 0.1 % the planted one is slower, and the null arm is still the same."""

    def verdicts(*margin: str) -> dict[str, str]:
        return {
            row["arm"]: row["verdict"] for row in json.loads(attr("show", OWN_MEMORY, "--json", *margin).out)["answers"]
        }

    assert verdicts() == {"null": "same", "planted": "same"}
    assert verdicts("--margin", "0.1%") == {"null": "same", "planted": "slower"}
    for text in ("0", "x", "-1%", "nan"):
        done = attr("show", OWN_MEMORY, f"--margin={text}")
        assert (done.code, f"--margin {text}: allowed is a share" in done.err) == (2, True), done.err


@pytest.mark.parametrize("name", [OTHER_CARD, OWN_MEMORY, TODAY])
def test_the_detectable_effect_at_131072_keys_is_small_enough(name: str) -> None:
    (row,) = noise(open_recording(TRACES / name)).to_dict("records")
    assert row["detectable_all"] <= 0.0015


def test_and_todays_protocol_needs_less_than_60_s_of_gpu_time_for_it() -> None:
    made = open_recording(TRACES / TODAY)
    assert made.manifest["plan"]["shape"] == {"q": 4096, "n": 131072}
    assert (made.manifest["measuring"]["scopes"], made.manifest["measuring"]["rest"]) == (["graph"], 2)
    assert 0 < made.manifest["cost"]["runs_s"] < made.manifest["cost"]["wall_s"] < 60
    times = made.table("times")
    assert set(times["scope"].astype(str)) == {"graph"}
    assert times["clock_mhz"].notna().all()


def test_one_turn_behind_the_set_up_is_half_of_the_noise_of_a_recording_that_counted_it() -> None:
    """What the round that does not count is for: the first turn ran at 1650 MHz, all others at 1729 and more."""
    ratios, _ = log_ratios(open_recording(TRACES / PLANTED), "full", "null", "operator", "graph")
    whole, rest = (float(stats.detectable_effect(part)[0]) for part in (ratios, ratios[1:]))
    assert whole > 0.0017
    assert rest < 0.0011
    assert np.abs(ratios).argmax() == 0


def test_a_rest_that_was_too_short_shows_in_the_order() -> None:
    """A round's first turn had a longer pause before it.  Where every rest is twice the work, little or nothing of that is left."""
    effects = {name: carry_over(open_recording(TRACES / name)).query("by == 'position'") for name in PRECISION}
    assert effects["h200-precision-128k-one-rest"]["p_value"].iloc[0] < 1e-5
    assert effects[PLANTED]["p_value"].iloc[0] > 0.05
    spread = {name: float(np.ptp(found["ratio"])) for name, found in effects.items()}
    assert spread[TODAY] < 0.001 < 0.002 < spread["h200-precision-128k-one-rest"]


def test_no_recording_with_rests_calls_equal_arms_unequal_more_often_than_it_may() -> None:
    plans = [(r, r.manifest["plan"]) for r in rested()]
    single = [(r, plan["rounds"], plan["questions"][0]["arms"]) for r, plan in plans if len(plan["questions"]) == 1]
    found = [noise(r) for r, rounds, arms in single if rounds >= block_rounds(len(arms))]
    assert len(found) >= 5
    whole = pd.concat(found)
    assert whole["called"].sum() <= 0.08 * whole["blocks"].sum()


def test_what_was_not_planted_or_measured_is_a_sentence() -> None:
    recording = open_recording(TRACES / PLANTED)
    with pytest.raises(InputError, match="has no flag DELAY"):
        noise(recording, "planted", 6, "DELAY")
    with pytest.raises(InputError, match="no arm serial; there are: null, planted"):
        noise(recording, "serial")


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        pytest.param("host-math-only", ["--rounds", "9" * 23], "of the 24 rounds that were planned", id="rounds"),
        pytest.param("host-math-only", ["--arm", "full"], "full is the base", id="base"),
        pytest.param("host-math-only", ["--arm", "math_only", "--planted", "DELAY_ROLE"], "no cycles", id="word"),
        pytest.param("host-math-only", ["--arm", "math_only", "--planted", "BLOCK_Q"], "no cycles", id="rows"),
        pytest.param("h200-hello", ["--arm", "scalar", "--planted", "VECTOR"], "no cycles", id="width"),
        pytest.param(
            "host-math-only", ["--arm", "math_only", "--planted", "DELAY_CYCLES"], "also changes", id="others"
        ),
    ],
)
def test_what_says_nothing_about_noise_is_refused(attr: Any, name: str, arguments: list[str], reason: str) -> None:
    done = attr("noise", name, *arguments)
    assert (done.code, reason in done.err) == (2, True), done.err


def test_a_recording_that_is_named_twice_is_not_counted_twice(attr: Any, tmp_path: Path) -> None:
    shutil.copytree(TRACES / PLANTED, tmp_path / "copy")
    for again in (PLANTED, tmp_path / "copy"):
        done = attr("noise", PLANTED, OTHER_CARD, again)
        assert (done.code, "its rounds would count twice" in done.err) == (2, True), done.err


def test_a_planted_effect_is_scaled_to_a_third_of_what_is_detectable() -> None:
    """Adding a third to an arm that is slow already would count the planted effect as well."""
    recording = open_recording(TRACES / PLANTED)
    (row,) = noise(recording, "planted", 6, "PLANT").to_dict("records")
    assert row["called_at_third"] <= 3
    (plain,) = noise(recording, "planted", 6).to_dict("records")
    assert plain["called_at_third"] > row["called_at_third"]


def test_points_of_a_sweep_are_judged_each_on_its_own(attr: Any) -> None:
    found = noise(open_recording(TRACES / "host-selectors"), rounds=2)
    points = open_recording(TRACES / "host-selectors").manifest["points"]
    assert len(found[["shape", "distribution"]].drop_duplicates()) == len(points) > 1
    done = attr("noise", "host-selectors", "--rounds", 2)
    assert done.code == 0
    assert "distribution" in done.out


def test_a_recording_without_times_has_no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Recording.table
    monkeypatch.setattr(Recording, "table", lambda self, name: whole(self, name)[: 0 if name == "times" else None])
    with pytest.raises(InputError, match=r"arm null has no block of \d+ rounds"):
        noise(open_recording(TRACES / "host-math-only"))


def test_a_recording_of_other_stages_is_no_unfinished_one(attr: Any) -> None:
    done = attr("noise", "cpu-prefill-1k")
    assert (done.code, "has no time of stage main or operator" in done.err) == (2, True), done.err


def test_the_verb_counts_over_recordings(attr: Any) -> None:
    done = attr("noise", *PRECISION)
    assert done.code == 0
    assert "of 390 blocks called faster or slower" in done.out
    done = attr("noise", PLANTED, "--arm", "planted", "--rounds", 6, "--planted", "PLANT")
    assert "effect: 0.30%" in done.out


def test_ticks_count() -> None:
    coarse = Blocks(np.zeros((3, 4)) + 1e-5, 1e-3)
    assert coarse.called() == 0
