"""Ceilings as counters: every sample a row, and one that cannot be measured is absent with its reason."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from attribution.launch import Ceiling
from attribution.measure import ceilings, timing


def test_a_rate_is_work_over_time_and_a_failure_is_absent_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(function: Any, stamps: Any, samples: int) -> list[float]:
        function()
        return [1000.0, 2000.0, 4000.0][:samples]

    def broken() -> None:
        raise RuntimeError("out of memory\nlong story")

    monkeypatch.setattr(timing, "call_times_ns", times)
    named = (
        Ceiling("copy_byte_per_s", "byte/s", 4e6, lambda: None),
        Ceiling("practical_flop_per_s", "flop/s", 1.0, broken),
    )
    found = pd.DataFrame(ceilings.counters(named, None))  # type: ignore[arg-type]
    copied = found[found["metric"] == "copy_byte_per_s"]
    assert copied["value"].tolist() == [4e12, 2e12, 1e12]
    assert set(copied["state"]) == {"value"}
    (lost,) = found[found["metric"] == "practical_flop_per_s"].to_dict("records")
    assert math.isnan(lost["value"])
    assert lost["state"] == "absent"
    assert lost["source"] == "RuntimeError: out of memory"
    assert set(found["stage"]) == {"ceiling"}
