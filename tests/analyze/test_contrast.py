"""Verdicts on planted recordings: right when nothing is wrong, void or undecided otherwise."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted import FLAGS, measured, noise

from attribution.analyze import work
from attribution.analyze.contrast import Contrast, contrast, contrasts
from attribution.analyze.estimate import estimate
from attribution.analyze.verdict import VERDICTS, decide
from attribution.errors import DataError, InputError
from attribution.tables import conform

Tables = dict[str, pd.DataFrame]
ARMS = {"base": "full", "arm": "math_only"}


def judged(tables: Tables, **options: object) -> Contrast:
    return contrast(**tables, **{**ARMS, "same": ("mma", "rows"), **options})  # type: ignore[arg-type]


def runs_of(tables: Tables, arm: str) -> pd.Series:
    return tables["runs"].loc[tables["runs"]["arm"] == arm, "run"]


def test_a_planted_difference_is_faster_and_covered() -> None:
    found = judged(measured({"full": 1.0, "math_only": 0.8, "null": 1.0}))
    assert found.verdict == "faster"
    assert found.time_ratio_low < 0.8 < found.time_ratio_high
    assert found.exposed_low_ns < 0.2 * found.base_ns < found.exposed_high_ns
    assert found.exposed_ns == pytest.approx(found.base_ns - found.arm_ns, rel=0.05)
    assert found.pairs == 20
    assert 0 < found.detectable < 0.01
    assert 0 < found.null_floor < 0.01
    assert [c.equal for c in found.work] == [True, True]
    assert "math_only / full" in str(found)


def test_the_reciprocal_is_slower() -> None:
    found = judged(measured({"full": 1.0, "math_only": 1.25, "null": 1.0}))
    assert found.verdict == "slower"
    assert found.exposed_high_ns < 0


def test_counters_and_ratio_are_those_of_a_row() -> None:
    row = judged(measured()).row()
    assert row["equal_work"] == "equal"
    assert row["work"] == "mma: 1000 = 1000; rows: 64 = 64"
    assert all(isinstance(v, str | int | float | bool) for v in row.values())


def verdicts(ratio: float, sd: float, phi: float, seeds: int = 400) -> list[str]:
    """Verdicts of `seeds` planted contrasts over 20 rounds, with a null arm; without the tables."""
    rng = np.random.default_rng(11)
    logs = sd * noise(rng, (3 * seeds, 20), phi)
    out = []
    for base, arm, null in np.split(np.exp(logs), seeds):
        found = estimate(
            pd.DataFrame({"base_ns": base, "arm_ns": ratio * arm}),
            pd.DataFrame({"base_ns": base, "arm_ns": null}),
            math.nan,
        )
        out.append(decide(*found["log"], found["null_floor"])[0])
    return out


@pytest.mark.parametrize("sd", [0.003, 0.012, 0.05])
@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6])
def test_null_verdicts_on_host_like_noise(sd: float, phi: float) -> None:
    """Over 400 seeds at most 7 % may be faster or slower; the design is 2 %."""
    words = verdicts(1.0, sd, phi)
    assert words.count("faster") + words.count("slower") <= 0.07 * len(words)


def test_a_planted_percent_is_found() -> None:
    """At 0.3 % noise of each run, 0.42 % of a pair; autocorrelation costs some of the power."""
    assert verdicts(0.99, 0.003, 0.0).count("faster") >= 0.95 * 400
    assert verdicts(1.01, 0.003, 0.0).count("slower") >= 0.95 * 400
    assert verdicts(0.99, 0.003, 0.3).count("faster") >= 0.85 * 400


def test_the_same_holds_from_the_tables() -> None:
    """End to end; the full size is `python -m bench verdicts`."""
    for seed in range(8):
        null = {"full": 1.0, "math_only": 1.0, "null": 1.0}
        assert judged(measured(null, seed=seed)).verdict == "same"
        percent = {"full": 1.0, "math_only": 0.988, "null": 1.0}
        assert judged(measured(percent, seed=seed)).verdict == "faster"


def test_two_arms_drawn_from_one_list_are_the_same() -> None:
    """Case 27."""
    rng = np.random.default_rng(0)
    pool = 1e6 * (1 + 0.003 * rng.normal(size=200))
    same = 0
    for seed in range(40):
        tables = measured({"full": 1.0, "math_only": 1.0, "null": 1.0}, seed=seed)
        tables["times"]["time_ns"] = rng.choice(pool, len(tables["times"]))
        same += judged(tables, same=()).verdict == "same"
    assert same >= 38


def test_one_round_or_constant_readings_decide_nothing() -> None:
    """Case 27: one sample, or [5, 5, 5]."""
    for tables in (measured(rounds=1), measured(rounds=3)):
        tables["times"]["time_ns"] = 5.0
        found = judged(tables)
        assert found.verdict == "undecided"
        assert math.isnan(found.time_ratio_low)
    known = measured(rounds=3)
    known["times"]["time_ns"] = 5.0
    found = judged(known, tick_ns=0.5)
    assert found.time_ratio_low < 1 < found.time_ratio_high
    assert found.verdict == "undecided"


def test_a_control_that_lost_its_matrix_work_is_void() -> None:
    found = judged(measured(work={"math_only": {"mma": 0.0}}))
    assert found.verdict == "void"
    assert "unequal work: mma: 1000 != 0" in found.reasons
    assert found.row()["equal_work"] == "unequal"


def test_unequal_work_in_one_round_only_is_void() -> None:
    tables = measured()
    run = runs_of(tables, "math_only").iloc[7]
    counters = tables["counters"]
    counters.loc[(counters["run"] == run) & (counters["metric"] == "mma"), "value"] = 999.0
    assert judged(tables).verdict == "void"


def test_a_counter_that_is_absent_never_passes() -> None:
    """Case 13: absent is not zero, and not equal."""
    both = {"math_only": {"mma": np.nan}, "full": {"mma": np.nan}}
    for tables in (measured(work={"math_only": {"mma": np.nan}}), measured(work=both)):
        found = judged(tables)
        assert found.verdict == "undecided"
        assert found.work[0].equal is None
        assert any("mma: not checked" in reason for reason in found.reasons)
    found = judged(measured(), same=("mma", "barriers"))
    assert found.verdict == "undecided"
    assert found.row()["equal_work"] == "not checked"


@pytest.mark.parametrize("count", [0.0, -1.0])
def test_work_that_nobody_counted_is_not_equal_work(count: float) -> None:
    found = judged(measured(work={"math_only": {"mma": count}, "full": {"mma": count}}))
    assert found.verdict == "undecided"
    assert "mma: not checked (nothing counted against nothing counted)" in " ".join(found.reasons)


def test_a_null_arm_with_wrong_output_decides_nothing() -> None:
    """It is the base's own build."""
    tables = measured()
    checks = tables["checks"]
    checks.loc[checks["run"].isin(runs_of(tables, "null")), "passed"] = False
    found = judged(tables)
    assert found.verdict == "undecided"
    assert found.expectation("time_ratio", (0.6, 0.95)) == "undecided"
    assert "wrong output: null failed" in found.reasons[0]


def test_an_arm_of_which_runs_failed_decides_nothing() -> None:
    tables = measured()
    runs = tables["runs"].astype({"status": str, "reason": str})
    lost = runs["run"].isin(runs_of(tables, "math_only").iloc[3:5])
    tables["runs"] = runs.assign(
        status=runs["status"].mask(lost, "failed"), reason=runs["reason"].mask(lost, "illegal address")
    )
    found = judged(tables)
    assert found.verdict == "undecided"
    assert "2 of 20 runs of math_only failed, first: illegal address" in found.reasons[0]


def test_rounds_that_were_planned_and_are_not_there_are_said() -> None:
    short, whole = (judged(measured(), planned_rounds=rounds) for rounds in (24, 20))
    assert "20 of 24 planned rounds are there" in short.reasons
    assert "rounds-missing" in short.flags
    assert not any("planned" in reason for reason in whole.reasons)
    assert "rounds-missing" not in whole.flags


def test_swapped_variant_labels_are_void() -> None:
    tables = measured()
    runs = tables["runs"]
    swap = {"full": "math_only", "math_only": "full"}
    swapped = [swap.get(a, a) for a in runs["arm"].astype(str)]
    tables["runs"] = runs.assign(arm=swapped, variant=[swap.get(a, "full") for a in swapped])
    tables["runs"]["variant"] = [("full" if a == "null" else a) for a in swapped]
    found = judged(tables, declared=FLAGS)
    assert found.verdict == "void"
    assert any("ran with REDUCE = False and is declared with True" in r for r in found.reasons)
    assert judged(measured(), declared=FLAGS).verdict == "faster"
    # Without the declarations the null arm still tells: its flags are no longer the base's.
    assert any("null arm null has other flags than full" in r for r in judged(tables).reasons)


def test_labels_swapped_in_one_round_are_void() -> None:
    tables = measured()
    runs = tables["runs"]
    first = runs["round"] == 3
    runs.loc[first, "flags"] = json.dumps(FLAGS["full"], sort_keys=True)
    assert any("arm math_only has 2 flags" in r for r in judged(tables).reasons)


def test_a_wrong_output_is_void_even_when_it_comes_late() -> None:
    """Case 25: right before timing and wrong after it."""
    tables = measured()
    checks = tables["checks"]
    run = runs_of(tables, "math_only").iloc[-1]
    checks.loc[(checks["run"] == run) & (checks["when"] == "after"), "passed"] = False
    found = judged(tables)
    assert found.verdict == "void"
    assert "wrong output: math_only failed 1 of 40 checks" in found.reasons[0]


def test_outputs_that_were_not_checked_after_timing_decide_nothing() -> None:
    tables = measured()
    tables["checks"] = tables["checks"][tables["checks"]["when"] == "before"]
    found = judged(tables)
    assert found.verdict == "undecided"
    assert "output of full was not checked after its timing" in found.reasons[0]


def test_unequal_inputs_are_void() -> None:
    tables = measured()
    runs = tables["runs"]
    inputs = runs["inputs"].astype(str)
    tables["runs"] = runs.assign(inputs=inputs.where(runs["run"] != runs_of(tables, "full").iloc[0], "x"))
    assert "unequal inputs in 1 of 20 rounds" in " ".join(judged(tables).reasons)


def test_two_scopes_raise_and_both_are_named() -> None:
    tables = measured()
    arm = tables["times"]["run"].isin(runs_of(tables, "math_only"))
    mixed = tables["times"].astype({"scope": str, "cache": str})
    mixed.loc[arm, ["scope", "cache"]] = ["event", "warm"]
    with pytest.raises(DataError, match=r"event/warm/none and host-virtual/none/none"):
        judged({**tables, "times": mixed})
    found = judged({**tables, "times": mixed}, scope="host-virtual")
    assert found.verdict == "void"
    assert "unlike scope: math_only has times of operator in event/warm/none only" in found.reasons
    cold = tables["times"].astype({"cache": str})
    cold.loc[arm, "cache"] = "cold"
    with pytest.raises(DataError, match=r"host-virtual/cold/none and host-virtual/none/none"):
        judged({**tables, "times": cold}, scope="host-virtual")


def test_what_was_not_measured_is_no_number() -> None:
    row = judged(measured(), arm="other").row()
    numbers = {name: value for name, value in row.items() if isinstance(value, float) and name != "margin"}
    assert {"base_ns", "exposed_low_ns", "modes_time_ratio_high", "detectable", "null_floor"} <= set(numbers)
    assert all(math.isnan(value) for value in numbers.values())
    assert (row["pairs"], row["scope"]) == (0, "host-virtual/none/none")
    assert judged(measured(), scope="event").scope == "event"  # as it was asked for
    tables = measured()
    none = judged({**tables, "runs": tables["runs"].iloc[:0]})
    assert (none.verdict, none.question, none.shape) == ("void", "full", "")


def test_a_null_arm_is_no_floor_of_its_own() -> None:
    found = judged(measured({"full": 1.0, "math_only": 0.8, "null": 1.04}), arm="null")
    assert (found.verdict, math.isnan(found.null_floor)) == ("slower", True)
    assert judged(measured(), null_arm=None).reasons[-1] == "no null arm: the noise floor is not known"
    assert not any("null arm" in reason for reason in judged(measured()).reasons)


def test_a_missing_arm_or_stage_is_void() -> None:
    assert "missing arm: other was not run" in judged(measured(), arm="other").reasons
    assert judged(measured(), stage="main").verdict == "void"
    tables = measured()
    mine = tables["runs"]["arm"] == "math_only"
    tables["runs"] = tables["runs"].astype({"status": str})
    tables["runs"].loc[mine, ["status", "reason"]] = ["failed", "out of memory"]
    assert "no run of math_only ended ok: out of memory" in judged(tables).reasons[0]


def test_two_points_or_a_repeated_round_raise() -> None:
    tables = measured()
    runs = tables["runs"].astype({"shape": str})
    runs.loc[runs["round"] == 0, "shape"] = "q=1,n=1"
    with pytest.raises(DataError, match="one shape"):
        judged({**tables, "runs": runs})
    twice = tables["runs"].assign(round=0)
    with pytest.raises(DataError, match="more than once in round 0"):
        judged({**tables, "runs": twice})


def test_throttled_samples_are_flagged_rows_and_no_verdict() -> None:
    """Case 26: every sample at 59 % of the default clock."""
    tables = measured()
    tables["times"] = tables["times"].assign(
        scope="event", cache="warm", clock="as-found", clock_mhz=0.59 * 1980, flags="clock-limited"
    )
    found = judged(tables)
    assert found.verdict == "undecided"
    assert found.blocked
    assert found.flags == ("clock-limited",)
    assert "at best undecided: clock-limited: 20 of 20 samples of full" in found.reasons
    assert found.time_ratio == pytest.approx(0.8, rel=0.01)
    assert found.expectation("time_ratio", (0.0, 1.0)) == "undecided"
    unknown = tables["times"].assign(clock_mhz=np.nan, flags="")
    assert judged({**tables, "times": unknown}).flags == ("clock-unknown",)


def test_samples_that_waited_for_the_host_are_named_and_many_allow_no_verdict() -> None:
    """Planted: every second sample of the arm is the host's; of one in twenty it is only said."""
    tables = measured()
    mine = tables["times"]["run"].isin(tables["runs"].loc[tables["runs"]["arm"] == "math_only", "run"])
    for every, blocked in ((2, True), (20, False)):
        flags = ["host-bound" if own and i // 3 % every == 0 else "" for i, own in enumerate(mine)]
        marked = sum(map(bool, flags))
        found = judged({**tables, "times": tables["times"].assign(scope="event", flags=flags)})
        assert found.blocked == blocked
        assert found.verdict == ("undecided" if blocked else "faster")
        assert found.flags == ("host-bound",)
        assert (
            f"{'at best undecided: ' * blocked}host-bound: {marked} of {mine.sum()} samples of math_only"
            in found.reasons
        )


def in_modes(slowed: dict[str, float], every: int = 4, ratio: float = 0.5, **options: Any) -> Tables:
    """24 rounds of arms that take `ratio` and 1; of each arm in `slowed` every so many runs take that much longer."""
    tables = measured({"full": 1.0, "math_only": ratio, "null": 1.0}, rounds=24, **options)
    for arm, factor in slowed.items():
        tables["times"].loc[tables["times"]["run"].isin(runs_of(tables, arm).iloc[::every]), "time_ns"] *= factor
    return tables


@pytest.mark.parametrize(
    ("slowed", "ratio", "verdict", "counts"),
    [
        ({"math_only": 1.3}, 0.5, "faster", ""),
        ({"full": 1.3}, 0.5, "faster", ""),
        ({"math_only": 1.3, "full": 1.3}, 0.5, "faster", ""),
        ({"math_only": 1.3}, 1.5, "slower", ""),
        ({"math_only": 1.8}, 0.6, "undecided", "faster over the rounds, but of 2 combinations of modes 1 faster, 1 slower"),
        ({"full": 1.7}, 1.5, "undecided", "slower over the rounds, but of 2 combinations of modes 1 slower, 1 undecided"),
        ({"math_only": 1.8, "full": 1.3}, 0.6, "undecided", "of 4 combinations of modes 3 faster, 1 undecided"),
        ({"null": 1.001}, 0.5, "faster", ""),
    ],
    ids=["arm", "base", "both", "slower", "arm-turned", "base-turned", "both-turned", "null only"],
)  # fmt: skip
def test_a_verdict_stands_where_no_mode_turns_it(
    slowed: dict[str, float], ratio: float, verdict: str, counts: str
) -> None:
    """Case 8 inside a contrast; of every fourth run planted in another mode."""
    found = judged(in_modes(slowed, ratio=ratio))
    in_two = sorted({*slowed} - {"null"})
    assert found.verdict == verdict
    assert not found.blocked
    assert found.flags == (("two-modes",) if in_two else ())
    assert sorted(text.split(": two modes: ")[0] for text in found.modes) == in_two
    assert all(" x 18 and" in text and text.endswith(" x 6 ms") for text in found.modes)
    if counts:
        assert found.reasons == (f"{'; '.join(found.modes)}: {found.reasons[0].rpartition(' ms: ')[2]}",)
        assert found.reasons[0].endswith(counts)
    else:
        assert found.reasons == ("the interval excludes 1" + ", in each mode too" * bool(in_two),)


def test_same_stands_where_all_combinations_lie_inside_the_margin() -> None:
    tables = in_modes({"math_only": 1.1}, ratio=1.0)
    assert judged(tables, margin=0.2).verdict == "same"
    turned = judged(tables, margin=0.06)
    assert turned.verdict == "undecided"
    assert turned.reasons[0].endswith("same over the rounds, but of 2 combinations of modes 1 same, 1 slower")


def test_a_mode_of_too_few_samples_has_no_interval_and_decides_nothing() -> None:
    found = judged(in_modes({"math_only": 1.3}, every=6))
    assert found.verdict == "undecided"
    assert found.reasons[0].endswith("of 2 combinations of modes 1 faster, 1 without an interval")
    assert found.expectation("time_ratio", (0.0, 5.0)) == "undecided"
    assert math.isnan(found.modes_time_ratio_low)


def test_an_expectation_must_hold_in_each_mode() -> None:
    found = judged(in_modes({"math_only": 1.3}))
    assert found.modes_time_ratio_low < 0.5 < found.time_ratio_low < 0.55 < found.time_ratio_high < 0.65
    assert found.modes_time_ratio_high > 0.65
    assert found.modes_exposed_low_ns < 0.35 * found.base_ns < found.exposed_low_ns
    assert found.modes_exposed_high_ns > 0.5 * found.base_ns > found.exposed_high_ns
    for expected, word in (((0.4, 0.8), "supported"), ((0.7, 0.8), "refuted"), ((0.4, 0.6), "undecided")):
        assert found.expectation("time_ratio", expected) == word
    assert found.expectation("exposed_ns", (0.4e6, 0.48e6)) == "undecided"
    plain = judged(measured())
    assert (plain.modes_time_ratio_low, plain.modes_exposed_high_ns) == (plain.time_ratio_low, plain.exposed_high_ns)


def told_by_modes(seed: int) -> list[bool]:
    """Faster in both modes is found; equal in one of them, and equal in both, are not called faster or slower."""
    arm, both = {"math_only": 1.3}, {"math_only": 1.3, "full": 1.3}
    cases = ((arm, 0.5), (arm, 1 / 1.3), (both, 1.0))
    words = [judged(in_modes(slow, 3, ratio, seed=seed, samples=10, sd=0.012)).verdict for slow, ratio in cases]
    return [words[0] == "faster", *(word not in ("faster", "slower") for word in words[1:])]


def test_modes_are_told_on_many_seeds() -> None:
    assert np.array([told_by_modes(seed) for seed in range(20)]).sum(axis=0).min() >= 18


def test_below_the_noise_floor_is_undecided() -> None:
    found = judged(measured({"full": 1.0, "math_only": 0.97, "null": 1.04}))
    assert found.verdict == "undecided"
    assert "below the noise floor" in found.reasons[0]
    missing = measured()
    missing["runs"] = missing["runs"][missing["runs"]["arm"] != "null"]
    assert judged(missing).verdict == "undecided"
    assert judged(missing, null_arm=None).verdict == "faster"
    assert "no null arm" in judged(missing, null_arm=None).reasons[-1]


def test_lost_rounds_are_said() -> None:
    tables = measured()
    tables["times"] = tables["times"][tables["times"]["run"] != runs_of(tables, "full").iloc[0]]
    found = judged(tables)
    assert found.pairs == 19
    assert "1 of 20 rounds have no pair" in found.reasons
    assert "rounds-lost" in found.flags


def test_expectations_are_supported_refuted_or_open() -> None:
    found = judged(measured())
    assert found.expectation("time_ratio", (0.6, 0.95)) == "supported"
    assert found.expectation("time_ratio", (0.9, 0.95)) == "refuted"
    assert found.expectation("time_ratio", (0.8, 0.95)) == "undecided"
    assert found.expectation("exposed_ns", (0.0, 1e6)) == "supported"
    with pytest.raises(InputError, match=r"'energy'.*time_ratio and exposed_ns"):
        found.expectation("energy", (0.0, 1.0))


def test_contrasts_has_a_row_for_each_arm_and_scope() -> None:
    tables = measured({"full": 1.0, "math_only": 0.8, "score_only": 0.9, "null": 1.0})
    second = tables["times"].assign(scope="event", cache="warm", clock="as-found", clock_mhz=1980.0)
    tables["times"] = conform("times", pd.concat([tables["times"], second]))
    found = contrasts(
        **tables,
        same={"math_only": ["mma"]},
        expects={"math_only": {"time_ratio": (0.9, 1.0)}},
        declared=FLAGS,
    )
    assert len(found) == 6
    assert set(found["verdict"]) <= set(VERDICTS)
    by_arm = found.set_index(["arm", "scope"])
    scope = "event/warm/as-found"
    assert by_arm.loc[("math_only", scope), "expectation"] == "refuted"
    assert by_arm.loc[("math_only", scope), "expected"] == "time_ratio in [0.9, 1]"
    assert by_arm.loc[("score_only", scope), "verdict"] == "faster"
    assert by_arm.loc[("null", scope), "verdict"] == "same"
    assert by_arm.loc[("score_only", scope), "equal_work"] == "none asked"
    assert contrasts(**tables, scope="event")["scope"].unique().tolist() == [scope]
    assert set(contrasts(**tables, only_arms=["math_only"])["arm"]) == {"math_only"}


def test_contrasts_pairs_equal_knobs() -> None:
    one, two = measured(), measured({"full": 1.0, "math_only": 0.5, "null": 1.0}, seed=9)
    for name in two:
        two[name] = two[name].assign(run=two[name]["run"] + len(one["runs"]))
    two["runs"] = two["runs"].assign(knobs='{"ctas": 32}')
    both = {name: pd.concat([one[name], two[name]], ignore_index=True) for name in one}
    found = contrasts(**both)
    assert found.loc[found["arm"] == "math_only", "time_ratio"].round(1).tolist() == [0.8, 0.5]
    with pytest.raises(DataError, match="more than once"):
        judged(both)


def test_an_arm_of_other_knobs_is_paired_with_the_base_of_its_rounds() -> None:
    tables = measured()
    knobs = np.where(tables["runs"]["arm"] == "math_only", '{"ctas": 64}', '{"ctas": 32}')
    found = contrasts(**{**tables, "runs": tables["runs"].assign(knobs=knobs)}).set_index("arm")
    assert found["pairs"].to_dict() == {"math_only": 20, "null": 20}


@pytest.mark.parametrize("ns", [math.inf, math.nan, 0.0, -1.0])
def test_a_time_that_cannot_be_is_refused_and_drops_no_pair(ns: float) -> None:
    tables = measured()
    run = int(runs_of(tables, "math_only").iloc[3])
    tables["times"].loc[tables["times"]["run"] == run, "time_ns"] = ns
    if math.isnan(ns):
        # The median of a run would leave a NaN out of several samples, never out of one.
        assert len(tables["times"][tables["times"]["run"] == run]) == 1
    with pytest.raises(DataError, match=rf"run {run} \(arm math_only, round \d+\) took {ns:g} ns"):
        judged(tables)


def test_times_below_a_nanosecond_are_times() -> None:
    tables = measured()
    tables["times"]["time_ns"] *= 1e-7
    assert judged(tables).pairs == 20


def test_an_effect_as_large_as_the_floor_is_below_it() -> None:
    assert decide(-0.05, -0.06, -0.04, floor=0.05)[0] == "undecided"
    assert decide(0.05, 0.04, 0.06, floor=0.05)[0] == "undecided"
    assert decide(0.05, 0.04, 0.06, floor=0.0499)[0] == "slower"


def test_an_empty_table_of_checks_is_as_good_as_unchecked() -> None:
    tables = measured()
    tables["checks"] = tables["checks"].iloc[:0]
    found = judged(tables)
    assert found.verdict == "undecided"
    assert found.reasons[0] == "at best undecided: output of full was not checked after its timing"


@pytest.mark.parametrize(("knobs", "equal"), [('{"ctas": 8}', True), ('{"ctas": 9}', False), ("{}", None)])
def test_a_knob_that_nobody_counted_is_read_off_the_runs(knobs: str, equal: bool | None) -> None:
    """A launch's facts are counters of one run of a build; in another question the same arm has none of its own."""
    rows = [("full", 1, "i", '{"ctas": 8}'), ("x", 2, "i", knobs), ("x", 3, "i", knobs)]
    runs = pd.DataFrame(rows, columns=["arm", "run", "inputs", "knobs"])
    columns = ["metric", "run", "stage", "scope", "instance", "state", "value"]
    counters = pd.DataFrame([("ctas", 2, "main", "launch", "", "value", 8.0)], columns=columns)
    (found,) = work.equal_work(runs, counters, "full", "x", ["ctas"])
    assert found.equal is equal


@pytest.mark.parametrize(
    ("cycles", "equal", "text"),
    [
        (1000.0, True, "1000 = 1000"),
        (1016.0, True, "1000 ~ 1016"),
        (1030.0, False, "1000 != 1030"),
        (970.0, False, "1000 != 970"),
        (0.0, False, "1000 != 0"),
        (np.nan, None, "not checked (1000 against absent)"),
    ],
)
def test_matrix_work_that_only_pipes_counted_is_equal_up_to_whole_tiles(
    cycles: float, equal: bool | None, text: str
) -> None:
    tables = measured(work={"full": {work.PIPE_CYCLES: 1000.0}, "math_only": {work.PIPE_CYCLES: cycles}})
    (found,) = judged(tables, same=("mma_flop",)).work
    assert (found.equal, text in str(found)) == (equal, True)
    # A kernel that counts FLOP is judged by them, and exactly.
    both = {arm: {"mma_flop": value, work.PIPE_CYCLES: 1.0} for arm, value in (("full", 1000.0), ("math_only", 1001.0))}
    assert [c.equal for c in judged(measured(work=both), same=("mma_flop",)).work] == [False]


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        ({"main": 9.0, "select": 0.0}, True),
        ({"main": 9.0, "select": 1.0}, False),
        ({"main": 8.0, "select": 1.0}, False),
    ],
)
def test_operators_of_unlike_stages_are_equal_where_the_others_do_none_of_the_work(
    other: dict[str, float], equal: bool
) -> None:
    """A fused operator samples, an unfused one selects from a matrix; grids of stages add up to nothing."""
    runs = pd.DataFrame([("full", 1, "i", "{}"), ("x", 2, "i", "{}")], columns=["arm", "run", "inputs", "knobs"])
    columns = ["metric", "run", "stage", "scope", "instance", "state", "value"]
    work_of = {1: {"main": 9.0, "sample": 0.0}, 2: other}
    rows = [("tma_loads", run, stage, "host", "", "value", n) for run, of in work_of.items() for stage, n in of.items()]
    rows += [("ctas", run, stage, "host", "", "value", 16.0 + 7 * run * (stage != "main")) for run, stage, *_ in
             ((1, "main"), (1, "sample"), (2, "main"), (2, "select"))]  # fmt: skip
    found = work.equal_work(runs, pd.DataFrame(rows, columns=columns), "full", "x", ["tma_loads", "ctas"], "operator")
    assert [check.equal for check in found] == [equal, True]
    assert str(found[1]) == "ctas: 16 = 16"
