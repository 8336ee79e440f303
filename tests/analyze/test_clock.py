"""Arms that ran at unlike clocks: what is scaled, to what, and what is left as it was."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import planted_gpu
import pytest

from attribution.analyze import clock, law

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
