"""Ratios that moved: which part, and which counters may not be divided at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import planted_gpu
import pytest
from scipy import stats

from attribution.analyze import denominators
from attribution.errors import DataError, InputError

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
NAME = "sm__pipe_tensor.sum.pct_of_peak_sustained_active"
UP, DOWN = "sm__pipe_tensor.sum", "sm__cycles_active.avg"


def published() -> pd.DataFrame:
    return pd.read_csv(PUBLISHED / "counters_block_q.csv").set_index("metric")[["block_q_2", "block_q_1"]]


def test_published_tensor_activity_rose_because_the_denominator_fell() -> None:
    table = published()
    rate, active, ms = (tuple(table.loc[m]) for m in ("tensor_activity", "tensor_active_cycles", "complete_operator"))
    found = denominators.split_implied(rate, active, ("tensor activity", "tensor-active cycles", "cycles"))
    assert found.moved == "denominator"
    assert found.implied == "cycles"
    assert "only the denominator moved" in found.sentence
    assert found.ratio_factor == pytest.approx(91.4 / 79.6)
    # The cycles that the percentage implies fell as the measured time did, which no part of the percentage knows.
    assert found.denominator_factor == pytest.approx(ms[1] / ms[0], rel=0.015)


def test_a_numerator_that_did_move_is_not_called_a_denominator() -> None:
    rate = tuple(published().loc["tensor_activity"])
    found = denominators.split_implied(rate, (1.0, 1.1483), ("activity", "active", "cycles"))
    assert found.moved == "numerator"
    assert "only the denominator" not in found.sentence


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ((90, 100), (90, 80), "denominator"),
        ((90, 100), (45, 100), "numerator"),
        ((90, 100), (45, 50), "both"),
        ((90, 100), (90.1, 100), "neither"),
    ],
)
def test_split(before: tuple[float, float], after: tuple[float, float], moved: str) -> None:
    found = denominators.split(before, after)
    assert found.moved == moved
    assert found.ratio_factor == pytest.approx((after[0] / after[1]) / (before[0] / before[1]))
    assert np.log(found.ratio_factor) == pytest.approx(
        np.log(found.numerator_factor) - np.log(found.denominator_factor)
    )


def test_a_part_of_zero_has_no_factor() -> None:
    with pytest.raises(DataError, match="numerator is 0 before"):
        denominators.split((0, 1), (1, 1))
    with pytest.raises(DataError, match="denominator is 0 after"):
        denominators.split((1, 1), (1, 0))


def counters(values: dict[str, tuple[float, float]], passes: dict[str, int] | None = None) -> pd.DataFrame:
    rows = [(run, m, v[run]) for run in (0, 1) for m, v in values.items()]
    frame = pd.DataFrame(rows, columns=["run", "metric", "value"])
    return planted_gpu.counted(frame.assign(pass_group=[(passes or {}).get(m, 0) for m in frame["metric"]]))


def arms(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    return table[table["run"] == 0], table[table["run"] == 1]


def covered(seed: int) -> list[bool]:
    """A ratio whose denominator moved, each part counted with noise: is it told, and do both intervals hold the planted factors?"""
    rng = np.random.default_rng(seed)
    runs = {0: 3, 1: 1 + seed % 3}  # a base is counted three times, an arm once or more
    rows = [
        (10 * arm + turn, name, value * np.exp(rng.normal(scale=0.003)))
        for arm, turns in runs.items()
        for turn in range(turns)
        for name, value in ((UP, 800.0), (DOWN, 1000.0 if arm == 0 else 870.0))
    ]
    table = planted_gpu.counted(pd.DataFrame(rows, columns=["run", "metric", "value"]))
    found = denominators.explain(table, (table[table["run"] < 10], table[table["run"] >= 10]), NAME)
    both = found.numerator_low <= 1 <= found.numerator_high, found.denominator_low <= 0.87 <= found.denominator_high
    return [found.moved == "denominator", *both]


def test_intervals_cover_the_planted_factors() -> None:
    assert np.array([covered(seed) for seed in range(20)]).sum(axis=0).min() >= 17


def test_a_change_that_the_launches_do_not_tell_has_not_moved() -> None:
    noisy = denominators.factor_range(np.array([90.0, 110, 100]), np.array([85.0, 105]))
    assert denominators.split((100, 100), (95, 80), ranges=(noisy, (0.79, 0.81))).moved == "denominator"
    assert denominators.split((100, 100), (95, 80)).moved == "both"
    for known in (([100.0], [90.0]), ([0.0, 1.0], [1.0])):
        assert np.isnan(denominators.factor_range(*map(np.array, known))).all()


def test_explain_from_counters() -> None:
    table = counters({UP: (800, 800), DOWN: (1000, 870)})
    found = denominators.explain(table, arms(table), NAME)
    assert (found.numerator, found.denominator, found.moved, found.implied) == (UP, DOWN, "denominator", "")


def test_explain_with_one_part_implied() -> None:
    table = counters({UP: (800, 800), NAME: (79.6, 91.4)})
    found = denominators.explain(table, arms(table), NAME)
    assert found.moved == "denominator"
    assert found.implied == DOWN


def test_explain_with_the_numerator_implied() -> None:
    table = counters({DOWN: (1000, 870), NAME: (80.0, 92.0)})
    found = denominators.explain(table, arms(table), NAME)
    assert (found.implied, found.moved) == (UP, "denominator")
    assert found.numerator_factor == pytest.approx(92 * 870 / (80 * 1000))
    assert found.sentence == (
        f"{NAME}: 80 -> 92 (x 1.1500) = {UP} x 1.0005 over {DOWN} x 0.8700: only the denominator moved: no more work was "
        f"done, the same work is divided by less or more ({UP} is implied by the ratio, not counted)"
    )


def test_intervals_are_said_where_they_are_known() -> None:
    found = denominators.split((100, 100), (95, 80), ("r", "n", "d"), ranges=((0.9, 1.0), (0.79, 0.81)))
    assert found.moved == "denominator"  # an interval that ends at no change holds it
    assert "= n x 0.9500 [0.9000, 1.0000] over d x 0.8000 [0.7900, 0.8100]: " in found.sentence
    narrow = denominators.split((100, 100), (95, 80), ("r", "n", "d"), ranges=((0.95, 0.95), denominators.UNKNOWN))
    assert "= n x 0.9500 over d x 0.8000: numerator and denominator moved" in narrow.sentence


def test_the_interval_of_a_factor_has_one_variance_for_both_sides() -> None:
    low, high = denominators.factor_range(np.array([90.0, 110]), np.array([100.0]))
    width = stats.t.ppf(0.975, 1) * np.sqrt((np.log(110 / 90) ** 2 / 2) * (1 / 2 + 1))
    assert (np.log(low), np.log(high)) == pytest.approx((-width, width))
    low, high = denominators.factor_range(np.array([100.0]), np.array([180.0, 220]))
    assert np.sqrt(low * high) == pytest.approx(2.0)
    width = stats.t.ppf(0.975, 1) * np.sqrt((np.log(220 / 180) ** 2 / 2) * (1 / 2 + 1))
    assert np.log(high / 2) == pytest.approx(width)
    assert np.isnan(denominators.factor_range(np.array([1.0, 2, 3]), np.array([]))).all()


@pytest.mark.parametrize(
    ("metric", "parts"),
    [
        ("sm__x.sum.pct_of_peak_sustained_active", ("sm__x.sum", "sm__cycles_active.avg")),
        ("sm__x.avg.pct_of_peak_sustained_elapsed", ("sm__x.avg", "sm__cycles_elapsed.avg")),
        ("lts__t.sum.per_cycle_active", ("lts__t.sum", "lts__cycles_active.avg")),
        ("smsp__x.sum.per_cycle_elapsed", ("smsp__x.sum", "smsp__cycles_elapsed.avg")),
        ("gpu__x.avg.per_cycle_elapsed", ("gpu__x.avg", "sm__cycles_elapsed.avg")),
        ("dram__bytes.sum.per_second", ("dram__bytes.sum", "gpu__time_duration.sum")),
    ],
)
def test_a_name_says_the_parts(metric: str, parts: tuple[str, str]) -> None:
    assert denominators.parts_of(metric) == parts


@pytest.mark.parametrize(
    ("up", "down", "named"),
    [((1, 2), (2, 2), (1, 2)), ((1, 1), (1, 2), (1, 2)), ((1, 2), (1, 1), (2, 1)), ((3, 3), (4, 4), (3, 4))],
)
def test_the_passes_that_differ_are_named(up: tuple[int, int], down: tuple[int, int], named: tuple[int, int]) -> None:
    rows = [
        (run, name, str(i), 50.0, passes[i])
        for run in (0, 1)
        for name, passes in ((UP, up), (DOWN, down))
        for i in (0, 1)
    ]
    table = planted_gpu.counted(pd.DataFrame(rows, columns=["run", "metric", "instance", "value", "pass_group"]))
    with pytest.raises(DataError, match=f"{UP} was counted in pass {named[0]}, {DOWN} in pass {named[1]}, on"):
        denominators.explain(table, arms(table), NAME)


def test_counters_of_two_passes_are_refused_where_work_depends_on_data() -> None:
    table = counters({UP: (207, 207), DOWN: (100, 100)}, {UP: 3, DOWN: 1})
    with pytest.raises(DataError, match="inconsistent passes"):
        denominators.explain(table, arms(table), NAME)
    assert denominators.explain(table, arms(table), NAME, data_dependent=False).moved == "neither"


def test_passes_that_the_file_does_not_tell_are_said() -> None:
    table = counters({UP: (800, 800), DOWN: (1000, 870)}, {UP: -1, DOWN: -1})
    assert "does not say in which replay passes" in denominators.explain(table, arms(table), NAME).sentence
    assert denominators.explain(table, arms(table), NAME, data_dependent=False).note == ""
    half = counters({UP: (800, 800), NAME: (79.6, 91.4)}, {UP: -1, NAME: -1})
    assert "does not say in which replay passes" in denominators.explain(half, arms(half), NAME).note
    told = counters({UP: (800, 800), DOWN: (1000, 870), NAME: (79.6, 91.4)}, {UP: 3, DOWN: -1, NAME: -1})
    rest = told[told["metric"] != DOWN]
    assert denominators.explain(rest, arms(rest), NAME, data_dependent=False).note == ""
    for table in (told, rest):  # one pass is known and the other is not: they may not be one
        with pytest.raises(DataError, match="inconsistent passes"):
            denominators.explain(table, arms(table), NAME)
    known = counters({UP: (800, 800), DOWN: (1000, 870)})
    assert denominators.explain(known, arms(known), NAME).note == ""


def test_sums_over_instances_not_means_of_ratios() -> None:
    rows = pd.DataFrame(
        {"run": 0, "metric": [UP, UP, DOWN, DOWN], "instance": ["0", "1", "0", "1"], "value": [90.0, 10, 100, 1000]}
    )
    more = rows.assign(run=1, value=rows["value"] * [1, 1, 2, 2])
    table = planted_gpu.counted(pd.concat([rows, more], ignore_index=True))
    found = denominators.explain(table, arms(table), NAME)
    assert found.before == pytest.approx(100 / 1100)


def test_what_was_not_collected_is_said_and_absent_is_not_zero() -> None:
    table = counters({UP: (800, np.nan), "other": (1, 1), "sm__pipe_tensor.avg": (1, 1)})
    with pytest.raises(InputError, match=f"not collected in both arms: {UP}, {DOWN}; nearest: sm__pipe_tensor.avg"):
        denominators.explain(table, arms(table), NAME)
    marked = counters({UP: (800, 800), DOWN: (1000, 870)})
    marked = marked.assign(state=np.where(marked["metric"] == UP, "absent", "value"))
    with pytest.raises(InputError, match=f"not collected in both arms: {UP}; "):
        denominators.explain(marked, arms(marked), NAME)
    for count, end in ((6, "m5"), (7, "m5, ...")):
        far = counters({f"m{i}": (1, 1) for i in range(count)})
        with pytest.raises(InputError, match=f"; collected are m0, m1, m2, m3, m4, {end}$"):
            denominators.explain(far, arms(far), NAME)
    with pytest.raises(InputError, match="not known as a ratio"):
        denominators.explain(table, arms(table), "warps")
