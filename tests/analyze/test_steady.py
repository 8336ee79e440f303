"""The published pipeline: overlap with and without the interval that the window cuts off, and both denominators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attribution.analyze import steady
from attribution.errors import DataError, InputError

PUBLISHED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "published" / "pipeline_overlap.json").read_text()
)
ROLES = ["tma", "math", "topk"]


def published() -> pd.DataFrame:
    """One CTA's five intervals; its cycles of one SM stand in for ns."""
    rows = []
    for pair in PUBLISHED["trace"]["representative_intervals_cycles"]:
        for role, key in (("tma", "tma_issue"), ("math", "math"), ("topk", "topk")):
            rows.append((role, False, "", *pair[key]))
        rows.append(("tma", True, "math", *pair["tma_wait"]))
    frame = pd.DataFrame(rows, columns=["role", "wait", "waits_for", "begin_ns", "end_ns"]).assign(run=0, cta=81, sm=0)
    frame["role"] = pd.Categorical(frame["role"], categories=ROLES)
    frame["waits_for"] = frame["waits_for"].astype("category")
    return frame.sort_values(["role", "begin_ns"], ignore_index=True)


def test_published_overlap_with_and_without_the_censored_interval() -> None:
    found = steady.hidden(published(), "topk")
    assert (found.intervals, found.steady) == (5, 4)
    assert found.without_last > 0.999
    # The window ends with the last Math: what follows is cut off, and one in five intervals then looks exposed.
    assert found.with_last == pytest.approx(0.789, abs=0.001)
    whole = PUBLISHED["trace"]["topk_time_overlapped_by_tma_or_math_fraction"]
    assert found.with_last < whole < found.without_last
    # Over the whole trace one interval of each CTA has nothing left to hide behind, and all others are hidden.
    trace = PUBLISHED["trace"]
    assert whole == pytest.approx(1 - trace["ctas"] / trace["pairs"], abs=0.005)


def test_published_exposed_share_over_both_denominators() -> None:
    for fixture in PUBLISHED["latency"]["fixtures"]:
        found = steady.exposed(fixture["fused_ms"] * 1e6, fixture["math_only_ms"] * 1e6)
        assert found["of_full"] == pytest.approx(fixture["exposed_fraction"], rel=1e-9)
        assert found["exposed_ns"] == pytest.approx(fixture["exposed_ms"] * 1e6, rel=1e-9)
        assert found["of_control"] == pytest.approx(fixture["exposed_ms"] / fixture["math_only_ms"], rel=1e-9)
        assert found["of_control"] > found["of_full"]
    with pytest.raises(DataError, match="not defined"):
        steady.exposed(0, 1)


def test_published_math_only_gain_is_ambiguous_by_its_two_readings() -> None:
    table = pd.read_csv(Path(__file__).parents[1] / "data" / "published" / "math_only.csv")
    gain = float(table.loc[(table["q"] == 512) & (table["history"] == 8192), "speedup_pct"].iloc[0])
    as_less, as_speed = 1 - gain / 100, 1 / (1 + gain / 100)
    assert steady.exposed(1.0, as_less)["of_full"] == pytest.approx(gain / 100)
    assert steady.exposed(1.0, as_speed)["of_control"] == pytest.approx(gain / 100)
    assert (round(as_less, 4), round(as_speed, 4)) == (0.7825, 0.8214)


def test_what_is_left_out_is_counted() -> None:
    assert steady.hidden(published(), "topk", skip=2).intervals == 3
    none = steady.hidden(published(), "topk", skip=4)
    assert (none.intervals, none.steady) == (1, 0)
    assert none.without_last != none.without_last
    with pytest.raises(InputError, match="no work here; roles are tma, math, topk"):
        steady.hidden(published(), "load")
