"""Versions side by side: planted times and counters with known rates, steps and intensities; controls are no versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import planted_gpu
import pytest

from attribution.analyze import roofline
from attribution.analyze.versions import SECTOR_BYTES, versions
from attribution.errors import DataError, InputError
from attribution.recording import Recording

Q, N = 64, 8192
USEFUL = roofline.useful_flop(Q, N)
FLAGS: dict[str, dict[str, Any]] = {
    "full": {"BLOCK_Q": 1, "K": 2048},
    "wide": {"BLOCK_Q": 4, "K": 2048},
    "score_only": {"BLOCK_Q": 1, "K": 2048, "FILTER": False},
}
NS = {"full": 1e6, "wide": 0.8e6, "score_only": 0.7e6, "null": 1e6}


def planted(tmp_path: Path, chip: str = "NVIDIA H200", speed: float = 1.0, q: int = Q) -> Recording:
    tables = planted_gpu.measured({"full": {a: t / speed for a, t in NS.items()}}, flags=FLAGS)
    first = tables["runs"].astype({"arm": str}).drop_duplicates("arm").set_index("arm")["run"]
    counted = [
        (first["full"], m, v) for m, v in (("dram_read_bytes", 3e6), ("dram_write_bytes", 1e6), ("l2_sectors", 1e6))
    ]
    counted.append((first["full"], "tensor_cycles_active", 1.5 * USEFUL / (8192 / 4)))
    counters = planted_gpu.counted(pd.DataFrame(counted, columns=["run", "metric", "value"]))
    rates = pd.DataFrame({"run": tables["runs"]["run"][:1], "metric": "practical_flop_per_s", "value": 1.4e15})
    ceiling = planted_gpu.counted(rates, stage="ceiling", scope="event")
    tables["counters"] = pd.concat([t.astype(object) for t in (counters, ceiling)], ignore_index=True)
    recording = planted_gpu.recording(
        tmp_path / "rec", tables, {a: planted_gpu.variant(None if a == "full" else "full", f) for a, f in FLAGS.items()}
    )
    recording.manifest["machine"]["name"] = chip  # type: ignore[index]
    recording.manifest["plan"]["shape"] = {"q": q, "n": N}  # type: ignore[index]
    return recording


def test_rates_steps_and_intensities_are_the_planted_ones(tmp_path: Path) -> None:
    found = versions(planted(tmp_path)).set_index("arm")
    assert list(found.index) == ["full", "wide"], "a control is no version"
    full, wide = found.loc["full"], found.loc["wide"]
    assert full["tflops_low"] < USEFUL / 1e6 / 1e3 < full["tflops_high"]
    assert full["practical_share"] == pytest.approx(full["tflops"] / 1400)
    assert wide["step_low"] < 0.8 < wide["step_high"]
    assert full["dram_intensity_counted"] == pytest.approx(USEFUL / 4e6)
    assert full["l2_intensity_counted"] == pytest.approx(USEFUL / (1e6 * SECTOR_BYTES))
    assert full["matrix_overhead"] == pytest.approx(1.5)
    # Four rows a batch read each key tile a quarter as often; what was not counted is not known.
    assert wide["l2_intensity"] / full["l2_intensity"] == pytest.approx(4, rel=0.02)
    assert wide[["dram_intensity_counted", "matrix_overhead", "dram_bytes"]].isna().all()


def test_a_rate_above_the_data_sheet_is_refused_and_a_stage_that_was_not_timed_too(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not all was computed"):
        versions(planted(tmp_path, speed=300.0))
    with pytest.raises(InputError, match="no arm that computes everything has a time of stage 'operator'"):
        versions(planted(tmp_path / "b"), stage="operator")


def test_a_kernel_without_queries_and_keys_has_no_roofline(tmp_path: Path) -> None:
    recording = planted(tmp_path)
    tables = {n: recording.table(n) for n in recording.table_names}
    tables["runs"] = tables["runs"].astype({"flags": str}).assign(flags=json.dumps({"VECTOR": 1}))
    other = planted_gpu.recording(tmp_path / "other", tables, recording.manifest["variants"])
    with pytest.raises(InputError, match="needs shape q and n, and flags K and BLOCK_Q"):
        versions(other)
