"""Ladders with known steps: order, intervals, interactions, and what makes a step void."""

from __future__ import annotations

import numpy as np
import pandas as pd
import planted_gpu
import pytest

from attribution.analyze import interactions, ladder
from attribution.errors import DataError, InputError

ORDER = ["load_only", "math_only", "score_only", "filter_only", "select_only", "full"]
STEPS = np.diff([0.0] + [planted_gpu.TIMES[r] for r in ORDER])
VARIANTS = planted_gpu.ladder_variants()


def test_rungs_in_order_with_what_each_adds() -> None:
    found = ladder.ladder(planted_gpu.full_ladder(), VARIANTS, "full")
    assert list(found["rung"]) == ORDER
    assert list(found["adds"]) == ["load_only", "+ MMA", "+ REDUCE", "+ FILTER", "+ SELECT", "+ EMIT"]
    assert found["step_ns"].sum() == pytest.approx(found["time_ns"].iloc[-1])
    assert set(found["verdict"]) == {"measured"}
    assert found["step_share"].sum() == pytest.approx(1)


def test_other_switches_and_factors_are_no_rungs() -> None:
    more = VARIANTS | {"no_spill": planted_gpu.variant("full", {"SPILL": False})}
    assert ladder.rungs(more, "full", [*more]) == ORDER
    twice = VARIANTS | {"again": planted_gpu.variant("full", {"EMIT": False})}
    with pytest.raises(InputError, match="no order"):
        ladder.rungs(twice, "full", [*twice])
    with pytest.raises(InputError, match="no ladder below"):
        ladder.rungs(VARIANTS, "full", ["full", "null", "serial"])


def covered(seed: int) -> list[bool]:
    tables = planted_gpu.full_ladder(seed=seed, rounds=14)
    found = ladder.ladder(tables, VARIANTS, "full")
    return list((found["step_low_ns"] <= STEPS) & (found["step_high_ns"] >= STEPS))


def test_intervals_cover_the_planted_steps() -> None:
    hits = np.array([covered(seed) for seed in range(10)])
    assert hits.mean() >= 0.9


def test_unequal_work_voids_the_steps_that_should_share_it() -> None:
    lost = planted_gpu.full_ladder(work={"math_only": {"tensor_instructions": 0.0}})
    found = ladder.ladder(lost, VARIANTS, "full").set_index("rung")
    assert found.loc["score_only", "verdict"] == "void"
    assert "tensor_instructions: 0 != 4096" in found.loc["score_only", "reason"]
    # load_only does not share tensor instructions, so its step to math_only is not void for them.
    assert found.loc["math_only", "verdict"] == "measured"
    assert found.loc["full", "verdict"] == "measured"


def test_work_that_was_not_counted_leaves_a_step_undecided() -> None:
    gone = planted_gpu.full_ladder(work={"filter_only": {"candidates": np.nan}})
    found = ladder.ladder(gone, VARIANTS, "full").set_index("rung")
    assert found.loc["select_only", "verdict"] == "undecided"
    assert "candidates: not checked" in found.loc["select_only", "reason"]


def test_wrong_output_and_limited_clocks() -> None:
    tables = planted_gpu.full_ladder()
    run = tables["runs"].loc[tables["runs"]["arm"] == "score_only", "run"].iloc[0]
    tables["checks"].loc[tables["checks"]["run"] == run, "passed"] = False
    assert set(
        ladder.ladder(tables, VARIANTS, "full").set_index("rung").loc[["score_only", "filter_only"], "verdict"]
    ) == {"void"}
    tables = planted_gpu.full_ladder()
    tables["times"]["flags"] = "clock-limited"
    assert set(ladder.ladder(tables, VARIANTS, "full")["verdict"]) == {"undecided"}


def test_a_rung_that_waited_for_the_host_decides_nothing_and_another_scope_is_not_blamed() -> None:
    tables = planted_gpu.full_ladder()
    mine = tables["times"]["run"].isin(tables["runs"].loc[tables["runs"]["arm"] == "score_only", "run"])
    late = tables["times"].assign(flags=["host-bound" if own else "" for own in mine])
    found = ladder.ladder({**tables, "times": late}, VARIANTS, "full").set_index("rung")
    assert {r for r in found.index if "host-bound" in found.loc[r, "reason"]} == {"score_only", "filter_only"}
    assert set(found.loc[["score_only", "filter_only"], "verdict"]) == {"undecided"}
    both = pd.concat([tables["times"], late.assign(scope="event")], ignore_index=True)
    scope = str(tables["times"]["scope"].iloc[0])
    found = ladder.ladder({**tables, "times": both}, VARIANTS, "full", scope=scope)
    assert not found["reason"].str.contains("host-bound").any()


def test_two_scopes_are_refused() -> None:
    tables = planted_gpu.full_ladder()
    tables["times"] = pd.concat([tables["times"], tables["times"].assign(scope="event")], ignore_index=True)
    with pytest.raises(DataError, match="two scopes"):
        ladder.ladder(tables, VARIANTS, "full")
    assert set(ladder.ladder(tables, VARIANTS, "full", scope="event")["scope"]) == {"event/warm/as-found"}


def serial(term: float, seed: int = 0) -> dict[str, pd.DataFrame]:
    """OVERLAP x SELECT: without overlap, selection costs `term` ns more than the 50,000 that it costs with it."""
    times = {"full": 1.0e6, "filter_only": 0.95e6, "serial": 1.1e6, "null": 1.0e6}
    below = {"serial": 1.1e6, "serial_filter_only": 1.05e6 - term, "null": 1.1e6}
    return planted_gpu.measured({"full": times, "serial": below}, seed=seed)


def test_interaction_of_a_declared_pair() -> None:
    found = interactions.interactions(serial(80_000.0), VARIANTS).iloc[0]
    assert found["factors"] == "OVERLAP x SELECT"
    assert found["off"] == "filter_only and serial_filter_only"
    assert found["verdict"] == "measured"
    assert found["term_ns"] == pytest.approx(80_000, rel=0.05)
    for term in (0.0, 80_000.0):
        hits = [interactions.interactions(serial(term, seed), VARIANTS).iloc[0] for seed in range(10)]
        assert sum(h["low_ns"] < term < h["high_ns"] for h in hits) >= 8


def test_an_interaction_that_lacks_an_arm_is_a_row() -> None:
    found = interactions.interactions(planted_gpu.full_ladder(), VARIANTS).iloc[0]
    assert found["verdict"] == "not measured"
    assert "each of them without SELECT" in found["reason"]
