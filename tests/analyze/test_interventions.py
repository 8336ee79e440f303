"""Which arms a law of rows is tested on: those that run at one clock, and what it says of those that do not."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import planted_gpu
import pytest

from attribution.analyze.interventions import interventions
from attribution.recording import Recording
from attribution.tables import conform

CTAS = {"full": 3, "ctas_2": 2, "ctas_1": 1, "ctas_4": 4}
ROWS = {"full": 22, "ctas_2": 32, "ctas_1": 64, "ctas_4": 32}
"""64 rows on three SMs, by the model of the schedule; four CTAs start in two waves."""


def planted(path: Path, clock: float = 1755.0, **slower: float) -> Recording:
    """T = 10 us + 10 us a row, times what is given for an arm."""
    arms = {arm: (1e4 + 1e4 * rows) * slower.get(arm, 1.0) for arm, rows in ROWS.items()}
    knobs = {arm: {"ctas": ctas} for arm, ctas in CTAS.items()}
    flags = {arm: {"BLOCK_Q": 1} for arm in CTAS}
    tables = planted_gpu.measured({"full": arms}, knobs=knobs, flags=flags, scope=planted_gpu.EVENT)
    tables["times"] = tables["times"].assign(clock_mhz=clock)
    held = pd.DataFrame({"run": tables["runs"]["run"], "metric": "residency", "value": 1.0})
    both = [tables["counters"].astype(object), planted_gpu.counted(held, scope="launch").astype(object)]
    tables["counters"] = conform("counters", pd.concat(both, ignore_index=True))
    variants = {arm: planted_gpu.variant(None if arm == "full" else "full", {}) for arm in CTAS}
    for arm, ctas in CTAS.items():
        variants[arm]["knobs"] = {"ctas": ctas}
    return planted_gpu.recording(path / "rec", tables, variants)


def test_arms_that_start_in_waves_stand_apart_with_their_miss(tmp_path: Path) -> None:
    found = interventions(planted(tmp_path, ctas_4=1.04), "full")
    assert set(found.table["arm"]) == {"full", "ctas_1", "ctas_2"}
    assert found.compare().set_index("quantity").loc["busiest_sm_rows", "verdict"] == "survives"
    (late,) = found.apart.to_dict("records")
    assert (late["arm"], late["waves"]) == ("ctas_4", 2)
    assert late["error_low"] <= 1 / 1.04 - 1 <= late["error_high"] < -0.03


def test_a_law_that_fails_within_one_wave_is_refuted_all_the_same(tmp_path: Path) -> None:
    found = interventions(planted(tmp_path, ctas_2=1.2), "full")
    assert found.compare().set_index("quantity").loc["busiest_sm_rows", "verdict"] == "refuted"


@pytest.mark.parametrize("named", [True, False])
def test_arms_that_were_named_or_have_no_clock_are_all_tested(tmp_path: Path, named: bool) -> None:
    recording = planted(tmp_path, clock=1755.0 if named else float("nan"), ctas_4=1.2)
    found = interventions(recording, "full", ("ctas_2", "ctas_1", "ctas_4") if named else ())
    assert set(found.table["arm"]) == set(CTAS)
    assert found.apart.empty
    assert found.compare().set_index("quantity").loc["busiest_sm_rows", "verdict"] == "refuted"
