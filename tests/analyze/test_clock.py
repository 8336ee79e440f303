"""Arms that ran at unlike clocks: what is scaled, to what, and what is left as it was."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import planted_gpu
import pytest

from attribution.analyze import clock, contrast, ladder, law

CTAS = {"full": 4, "three": 3, "two": 2, "one": 1}


def swept(mhz: dict[str, float]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Arms of 1e5 + 1e4 x rows cycles at 1000 MHz, each run at the clock that is given."""
    times = {a: 1e5 + 1e6 / c for a, c in CTAS.items()}
    tables = planted_gpu.measured({"full": times}, sd=0.0005)
    arm = tables["runs"].set_index("run")["arm"].astype(str).reindex(tables["times"]["run"])
    tables["times"]["clock_mhz"] = arm.map(mhz).to_numpy(float)
    tables["times"]["time_ns"] *= 1000.0 / tables["times"]["clock_mhz"]
    return tables["runs"], tables["times"]


def table(times: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    mean = times.merge(runs[["run", "arm"]].astype({"arm": str}), on="run").groupby("arm")["time_ns"].mean()
    rows = [1 / c for c in CTAS.values()]
    return pd.DataFrame({"busiest_sm_rows": rows, "time_ns": mean.reindex(list(CTAS)).to_numpy()})


def test_a_law_of_cycles_survives_clocks_that_differ() -> None:
    """Fewer CTAs draw less power and run faster: in time the law bends, at one clock it holds."""
    runs, times = swept({"full": 1000.0, "three": 1040.0, "two": 1090.0, "one": 1200.0})
    as_measured = table(times, runs)
    scaled, mhz = clock.at_clock_of(runs, times, "full", "main", None)
    assert mhz == 1000.0
    at_one_clock = table(scaled, runs)
    for found, holds in ((as_measured, False), (at_one_clock, True)):
        errors = law.predict(found.iloc[:3], found.iloc[3:])
        assert bool(np.abs(errors).max() <= law.LIMIT) == holds
    assert at_one_clock["time_ns"].iloc[3] == pytest.approx(1.1e6, rel=0.002)
    assert "1000 MHz" in clock.clock_sentence("full", mhz, "cuda")
    by_scope = [clock.clock_sentence("full", mhz, "cuda", s) for s in ("graph/warm/as-found", "event/warm/as-found")]
    assert ["overstates" in sentence for sentence in by_scope] == [False, True]


def test_without_a_clock_times_are_left_alone() -> None:
    runs, times = swept(dict.fromkeys(CTAS, 1000.0))
    times.loc[times.index[-1], "clock_mhz"] = math.nan
    same, mhz = clock.at_clock_of(runs, times, "full", "main", None)
    assert same is times
    assert math.isnan(mhz)
    assert clock.in_cycles(times, "main", None) is None
    assert clock.clock_sentence("full", mhz, "cuda") == ""
    assert clock.clock_sentence("full", 1000.0, "host") == ""


def power(clock_of_control: float) -> dict[str, pd.DataFrame]:
    """A control that executes 2 % fewer cycles than its base, at a clock of its own; the base has 1500 MHz."""
    tables = planted_gpu.measured({"full": {"full": 1e6, "null": 1e6, "control": 0.98e6}}, sd=0.0005)
    arm = tables["runs"].set_index("run")["arm"].astype(str).reindex(tables["times"]["run"])
    tables["times"]["clock_mhz"] = np.where(arm == "control", clock_of_control, 1500.0)
    tables["times"]["time_ns"] *= 1500.0 / tables["times"]["clock_mhz"]
    return tables


def contrasted(tables: dict[str, pd.DataFrame], scope: str = "graph") -> contrast.Contrast:
    times = tables["times"].assign(scope=scope)
    return contrast.contrast(
        tables["runs"], times, tables["checks"], tables["counters"], base="full", arm="control", stage="main"
    )


def test_a_contrast_says_what_of_its_time_is_cycles_and_what_the_clock() -> None:
    """Planted: the control is 10 % faster, 2 % of it in cycles."""
    found = contrasted(power(1500.0 * 0.98 / 0.90))
    assert found.time_ratio == pytest.approx(0.90, abs=0.001)
    assert found.cycles_ratio_low < 0.98 < found.cycles_ratio_high
    assert (found.base_mhz, round(found.arm_mhz)) == (1500.0, 1633)
    (told,) = (reason for reason in found.reasons if "SM cycles" in reason)
    assert "in SM cycles 0.980 [0.9" in told
    assert told.endswith("at 1633 MHz against 1500")


def test_where_clocks_are_alike_or_not_the_stages_own_nothing_is_told() -> None:
    alike = contrasted(power(1502.0))
    assert alike.cycles_ratio == pytest.approx(0.98, abs=0.001)
    of_all = contrasted(power(1633.0), scope="event")  # in it the clock is that of all stages
    assert math.isnan(of_all.cycles_ratio)
    assert not any("SM cycles" in reason for found in (alike, of_all) for reason in found.reasons)


def test_a_ladder_has_its_steps_in_cycles_too() -> None:
    """Planted: below `full` a step of 10 % in time is one of 2 % in cycles; without a clock it is not known."""
    tables = power(1500.0 * 0.98 / 0.90)
    off = {"base": "full", "flags": {"A": False}, "knobs": {}, "same": [], "factors": []}
    variants = {"full": {**off, "base": "", "flags": {"A": True}}, "control": off}
    lowest, top = ladder.ladder(tables, variants, "full", scope="graph").to_dict("records")
    assert top["step_share"] == pytest.approx(0.10, abs=0.001)
    assert top["cycles_share_low"] < 0.02 < top["cycles_share_high"]
    assert (top["clock_mhz"], round(lowest["clock_mhz"])) == (1500.0, 1633)
    tables["times"].loc[tables["times"].index[-1], "clock_mhz"] = math.nan
    assert ladder.ladder(tables, variants, "full", scope="graph")[["clock_mhz", "cycles_share"]].isna().all(axis=None)
