"""Ceilings as counters: every sample a row, and one that cannot be measured is absent with its reason."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from attribution.launch import Ceiling
from attribution.measure import ceilings, timing


def test_a_rate_is_work_over_time_and_a_failure_is_absent_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(function: Any, stamps: Any, samples: int) -> list[timing.Sample]:
        """Planted: in the last sample the card waited for the host."""
        function()
        return [timing.Sample([ns], 1500.0, ns > 3000.0) for ns in (1000.0, 2000.0, 4000.0)][:samples]

    def broken() -> None:
        raise RuntimeError("out of memory\nlong story")

    monkeypatch.setattr(timing, "call_samples", timed)
    named = (
        Ceiling("copy_byte_per_s", "byte/s", 4e6, lambda: None),
        Ceiling("practical_flop_per_s", "flop/s", 1.0, broken),
    )
    found = pd.DataFrame(ceilings.counters(named, None))  # type: ignore[arg-type]
    copied = found[found["metric"] == "copy_byte_per_s"]
    assert copied["value"].tolist()[:2] == [4e12, 2e12]
    assert copied["state"].tolist() == ["value", "value", "absent"]
    assert copied["source"].tolist() == ["events", "events", "host-bound"]
    (lost,) = found[found["metric"] == "practical_flop_per_s"].to_dict("records")
    assert math.isnan(lost["value"])
    assert lost["state"] == "absent"
    assert lost["source"] == "RuntimeError: out of memory"
    assert set(found["stage"]) == {"ceiling"}
