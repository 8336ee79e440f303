"""A sweep of delays whose whole time is known from the pipeline: what was injected, the knee, and a prediction put to the test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import planted_gpu
import pytest

from attribution.analyze import injected
from attribution.analyze.injected import prediction_test, sweep
from attribution.errors import InputError
from attribution.recording import Recording

MATH, BATCHES = 80e3, 4
TOPK = {"full": 20e3, "d1": 40e3, "d2": 60e3, "d3": 90e3, "d4": 140e3, "faster": 15e3, "undelayed": 20e3}


def whole(topk: float) -> float:
    """Four batches a CTA, one CTA an SM, two slots: the slower role sets the pace, the other is fill or drain."""
    return BATCHES * max(MATH, topk) + min(MATH, topk)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    flags = {
        a: {"DELAY_ROLE": "topk", "DELAY_CYCLES": i}
        if a.startswith("d")
        else {"DELAY_ROLE": "none", "DELAY_CYCLES": 0, "ARM": a}
        for i, a in enumerate(TOPK)
    }
    for name in [a for a in flags if a.startswith("d")]:
        flags[name]["ARM"] = "full"
    tables = planted_gpu.measured({"full": {a: whole(t) for a, t in TOPK.items()}}, flags=flags)
    runs = tables["runs"]
    parts = [
        planted_gpu.trace(list(runs.loc[runs["arm"] == a, "run"])[:5], MATH, t, batches=3 * BATCHES, sd=0.0)
        for a, t in TOPK.items()
        if a != "undelayed"
    ]
    traced = {n: pd.concat([p[n] for p in parts], ignore_index=True) for n in parts[0]}
    variants = {a: planted_gpu.variant(None if a == "full" else "full", flags[a]) for a in TOPK}
    return planted_gpu.recording(tmp_path_factory.mktemp("sweep") / "rec", {**tables, **traced}, variants)


def test_what_was_injected_is_what_the_role_grew_by(recording: Recording) -> None:
    found = sweep(recording, "full", "topk")
    assert list(found.table["arm"]) == ["full", "d1", "d2", "d3", "d4"]
    assert found.table["delay_ns"].tolist() == pytest.approx(
        [BATCHES * (TOPK[a] - TOPK["full"]) for a in found.table["arm"]]
    )
    assert found.processing_ns == pytest.approx(BATCHES * TOPK["full"])


def test_knee_drain_and_criticality_are_those_of_the_pipeline(recording: Recording) -> None:
    fitted = sweep(recording, "full", "topk").fit()
    assert fitted.verdict == "slack"
    # Others wait from topk = math on; until then one batch in four shows, as drain.
    assert fitted.knee_low_ns < BATCHES * (MATH - TOPK["full"]) < fitted.knee_high_ns
    assert fitted.before_low < 1 / BATCHES < fitted.before_high
    assert fitted.slope_low < 1 < fitted.slope_high


def test_a_prediction_is_put_to_the_test(recording: Recording) -> None:
    found = sweep(recording, "full", "topk")
    fitted = found.fit()
    tested = prediction_test(recording, "full", "faster", found, fitted)
    assert tested["faster"] == pytest.approx(0.25)
    assert tested["verdict"] == "as predicted"
    truth = whole(TOPK["faster"]) / whole(TOPK["full"]) - 1
    assert float(str(tested["measured_low"])) < truth < float(str(tested["measured_high"]))
    # The same role, far slower than its slack: what holds before the knee no longer does.
    assert prediction_test(recording, "full", "d4", found, fitted)["verdict"] == "not as predicted"
    for arm, reason in (("undelayed", "must be traced"), ("full", "--test-arm full: measured"), ("d5", "nearest: d4")):
        with pytest.raises(InputError, match=reason):
            prediction_test(recording, "full", arm, found, fitted)


def test_a_prediction_that_one_round_meets_or_misses_is_undecided(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sweep(recording, "full", "topk")
    fitted = found.fit()
    monkeypatch.setattr(injected, "ratio_interval", lambda *_: (np.nan, 0.5, np.nan))
    assert prediction_test(recording, "full", "faster", found, fitted)["verdict"] == "undecided"


def test_processing_that_hides_waits_is_no_measure_of_a_delay(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waits that this trace's level left out are inside the work, which then grows with the whole: everything would be critical."""
    events = [{**e, "level": 2 if e["name"] == "slot_ready" else 1} for e in planted_gpu.EVENTS]
    monkeypatch.setitem(recording.manifest["kernels"]["planted"], "events", events)
    assert sweep(recording, "full", "topk").processing_ns == pytest.approx(BATCHES * TOPK["full"])
    monkeypatch.setattr("attribution.analyze.injected.ALL_LEVELS", 1)
    with pytest.raises(InputError, match="no trace that holds all waits of topk"):
        sweep(recording, "full", "topk")
    found = sweep(recording, "full", "topk", items=4).table
    assert found["source"].iloc[1] == "1 cycles x 4 items at 1755 MHz"


def test_the_reference_machine_traces_every_wait_whatever_its_flag_says(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [{**e, "level": 2} for e in planted_gpu.EVENTS]
    monkeypatch.setitem(recording.manifest["kernels"]["planted"], "events", events)
    table = type(recording).table
    runs = recording.table("runs").astype({"flags": str})
    runs["flags"] = [flags.replace("{", '{"TRACE": 0, ', 1) for flags in runs["flags"]]
    monkeypatch.setattr(type(recording), "table", lambda self, name: runs if name == "runs" else table(self, name))
    with pytest.raises(InputError, match="no trace that holds all waits"):
        sweep(recording, "full", "topk")
    monkeypatch.setitem(recording.manifest["machine"], "kind", "host")
    assert sweep(recording, "full", "topk").processing_ns == pytest.approx(BATCHES * TOPK["full"])


def test_key_tiles_tell_how_often_tma_and_math_work(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = {"BLOCK_Q": 4, "SCHEDULE": "shares", "SELECT_TILES": 100, "STORE_SCORES": False, "MATH_WARPGROUPS": 2}
    monkeypatch.setitem(recording.manifest["plan"], "shape", {"q": 4096, "n": 12288})
    monkeypatch.setitem(recording.manifest["machine"], "kind", "cuda")
    found = {role: injected._items(recording, flags, 132, role) for role in ("tma", "math", "topk")}
    assert found == {"tma": 1246, "math": 623, "topk": None}
    # Short rows: a batch's selection counts for more than its tiles, so a share is none of tiles.
    assert injected._items(recording, {**flags, "SELECT_TILES": 200}, 132, "tma") is None
    assert injected._items(recording, {"BLOCK_Q": 4}, 132, "tma") is None
    assert injected._items(recording, flags, None, "tma") is None
    monkeypatch.setitem(recording.manifest["machine"], "kind", "host")
    assert injected._items(recording, flags, 132, "tma") is None
