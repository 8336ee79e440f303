"""`attr claim` prints what the analysis found, as a table and as JSON."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import planted_gpu as planted
import pytest


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder with one recording that supports one expectation, refutes one, and lacks what a third one needs."""
    record(tmp_path / "planted", seed=3)
    return tmp_path


def record(path: Path, seed: int) -> None:
    arms = {name: planted.TIMES[name] for name in ("full", "score_only", "math_only", "load_only")}
    work = {"math_only": {"tensor_instructions": math.nan}}
    variants = planted.ladder_variants()
    for name, bounds in {"score_only": [0.7, 0.9], "load_only": [0.5, 1.0], "math_only": [0.5, 0.9]}.items():
        variants[name]["expects"] = {"planted": {"time_ratio": bounds}}
    tables = planted.measured({"full": {**arms, "null": planted.TIMES["full"]}}, work=work, seed=seed)
    planted.recording(path, tables, variants)


def test_every_expectation_with_its_checks(attr: Callable[..., Any], traces: Path) -> None:
    done = attr("claim", "planted", "--traces", traces)
    assert done.code == 0
    assert "supported: [0.7" in done.out
    assert (
        "passed: machine, equal work (tma_loads: 512 = 512; tensor_instructions: 4096 = 4096), clocks, modes"
        in done.out
    )
    assert "tensor_instructions: not checked (4096 against absent)" in done.out
    assert "not: equal work" in done.out
    assert "Expectations: 3; supported 1, refuted 1, undecided 1. Recordings: 1." in done.out
    assert attr("claim", "--traces", traces).out == done.out


def test_only_those_that_were_overturned(attr: Callable[..., Any], traces: Path) -> None:
    told = json.loads(attr("claim", "--overturned", "--traces", traces, "--json").out)
    assert [(c["arm"], c["claim"]) for c in told["claims"]] == [("load_only", "refuted")]
    assert (told["supported"], told["refuted"], told["undecided"]) == (1, 1, 1)
    text = attr("claim", "--overturned", "--traces", traces).out
    assert "[0.5000, 1.0000]" in text
    assert "planted?" in text
    assert "score_only" not in text


def test_many_recordings_are_judged_as_one_by_one(attr: Callable[..., Any], traces: Path) -> None:
    for seed, name in enumerate(("second", "third")):
        record(traces / name, seed)
    names = ("planted", "second", "third")
    one_by_one = [json.loads(attr("claim", n, "--traces", traces, "--json").out)["claims"] for n in names]
    all_of_them = json.loads(attr("claim", "--traces", traces, "--json").out)["claims"]
    assert all_of_them == [claim for claims in one_by_one for claim in claims]
    assert one_by_one[0] != [{**claim, "recording": "planted"} for claim in one_by_one[1]]
    assert ["3/3" in attr("claim", *name, "--traces", traces).err for name in ((), ("second",))] == [True, False]
    (traces / "second" / "times.parquet").write_bytes(b"")
    done = attr("claim", "--traces", traces)
    assert (done.code, "was changed after it was written" in done.err) == (1, True)


def test_one_recording_counts_once_under_whatever_name(attr: Callable[..., Any], traces: Path) -> None:
    shutil.copytree(traces / "planted", traces / "copied")
    for words in (("planted", "planted"), ("planted", traces / "planted"), ("copied", "planted"), ()):
        done = attr("claim", *words, "--traces", traces)
        assert (done.code, done.out) == (2, "")
        assert "planted again: its rounds would count twice" in done.err or "copied again" in done.err
    assert attr("compare", traces / "planted", traces / "copied").code == 2


def test_a_misspelt_name_is_told_the_nearest(attr: Callable[..., Any], traces: Path) -> None:
    for words in (("claim", "plantd", "--traces", traces), ("ladder", traces / "plantd")):
        done = attr(*words)
        assert done.code == 2
        assert done.err.endswith("plantd is not a recording: nothing is there; nearest: planted\n")
    assert "nearest: host-capacity" in attr("capacity", "host-capacty").err
    assert "nearest" not in attr("show", traces).err


def test_two_modes_are_told_once_and_in_ms(attr: Callable[..., Any], tmp_path: Path) -> None:
    tables = planted.measured({"full": {"full": 1e6, "null": 1e6, "score_only": 8e5}})
    tables["times"]["time_ns"] *= np.where(tables["times"]["run"] % 5 == 0, 1.5, 1.0)
    planted.recording(tmp_path / "modes", tables, planted.ladder_variants())
    lines = [line for line in attr("show", tmp_path / "modes").out.splitlines() if "undecided: " in line]
    assert len(lines) == 2
    for line in lines:
        assert line.count("full: two modes: 1.") == 1, line
        assert line.count(" ms") == line.count("two modes")
        assert "at best" not in line  # `undecided` stands before it already


def test_modes_that_turn_nothing_are_told_beside_the_verdict(attr: Callable[..., Any], tmp_path: Path) -> None:
    tables = planted.measured({"full": {"full": 1e6, "null": 1e6, "score_only": 5e5}})
    slow = tables["runs"].loc[tables["runs"]["arm"] == "score_only", "run"].iloc[::3]
    tables["times"].loc[tables["times"]["run"].isin(slow), "time_ns"] *= 1.3
    planted.recording(tmp_path / "modes", tables, planted.ladder_variants())
    (line,) = (line for line in attr("show", tmp_path / "modes").out.splitlines() if line.startswith("    faster: "))
    assert line.startswith("    faster: the interval excludes 1, in each mode too; ")
    assert line.count("score_only: two modes: 0.") == 1, line


def test_what_voids_a_contrast_is_told_once_and_beside_it_what_was_equal(
    attr: Callable[..., Any], tmp_path: Path
) -> None:
    work = {"score_only": {"tensor_instructions": 7.0, "tma_loads": math.nan}}
    tables = planted.measured({"full": {"full": 1e6, "null": 1e6, "score_only": 8e5}}, work=work)
    planted.recording(tmp_path / "unequal", tables, planted.ladder_variants())
    (line,) = (line for line in attr("show", tmp_path / "unequal").out.splitlines() if line.startswith("    void: "))
    assert [line.count(f"{name}: ") for name in ("tensor_instructions", "tma_loads")] == [1, 1], line


def test_what_cannot_be_judged_is_a_sentence(attr: Callable[..., Any], tmp_path: Path) -> None:
    done = attr("claim", "h300-nowhere")
    assert (done.code, "is not a recording" in done.err) == (2, True)
    done = attr("claim", "--traces", tmp_path)
    assert (done.code, "holds no measured recording" in done.err) == (2, True)


def test_points_of_a_sweep_are_one_line_with_the_farthest() -> None:
    from attribution.cli.claim import _overturned

    row = {
        "recording": "sweep", "question": "base", "arm": "a", "quantity": "time_ratio", "distribution": "normal", "scope": "event",
        "expected_low": 0.5, "expected_high": 1.0, "low": 0.0, "high": 9.0, "pairs": 8, "asks": "?",
    }  # fmt: skip
    every = [{**row, "shape": f"n={n}", "value": value} for n, value in ((1, 1.2), (2, 0.1), (3, 0.7), (4, 1.5))]
    (line,) = _overturned([r for r in every if not 0.5 <= r["value"] <= 1], every)
    assert line["measured"].splitlines() == [
        "0.1000 [0.0000, 9.0000]", "3 of 4 points, this one", "farthest off: normal, n=2",
    ]  # fmt: skip
    (single,) = _overturned(every[:1], every[:1])
    assert single["measured"] == "1.2000 [0.0000, 9.0000]"
