"""Effects of place and predecessor: estimated from the recording, found where one is planted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attribution.analyze.carry_over import carry_over
from attribution.recording import Recording, open_recording

TRACES = Path(__file__).parents[2] / "traces"


@pytest.fixture(scope="module")
def recording() -> Recording:
    return open_recording(TRACES / "h200-precision-128k-moved")


def test_every_place_and_every_predecessor_has_a_row(recording: Recording) -> None:
    found = carry_over(recording)
    assert set(found["scope"]) == {"graph/warm/as-found"}
    levels = {by: list(part["level"]) for by, part in found.groupby("by")}
    assert levels == {"position": [0, 1, 2], "predecessor": ["(first)", "full", "null", "planted"]}
    assert ((found["low"] <= found["ratio"]) & (found["ratio"] <= found["high"])).all()
    # Turns with rests: whatever the order does is small.
    assert (found["ratio"] - 1).abs().max() < 0.01


def test_a_planted_carry_over_is_found_and_named(recording: Recording) -> None:
    """Planted: whatever runs behind `null` takes 1 % longer."""
    runs, times = recording.table("runs"), recording.table("times")
    behind = times["run"].isin(runs.loc[runs["predecessor"] == "null", "run"])
    slow = times.assign(time_ns=times["time_ns"] * np.where(behind, 1.01, 1.0))
    tables = {"runs": runs, "times": slow}
    planted: Any = SimpleNamespace(table=tables.__getitem__)
    found = carry_over(planted).query("by == 'predecessor'").set_index("level")
    assert found.loc["null", "ratio"] / found.loc["full", "ratio"] == pytest.approx(1.01, abs=0.002)
    assert found["p_value"].iloc[0] < 1e-6


def test_the_verb_prints_them(attr: Any) -> None:
    done = attr("noise", "h200-precision-128k", "--order")
    assert done.code == 0
    assert "predecessor" in done.out
