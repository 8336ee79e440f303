"""`attr selectors`: a small sweep on the host machine, read again, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attribution.errors import InputError
from attribution.load import shipped_root
from attribution.measure import selectors as sides

SMALL = ["--machine", "host", "--rows", "2", "--columns", "256,1024", "--k", "64", "--rounds", "4"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("captured") / "mine.npy"
    np.save(path, np.random.default_rng(0).standard_normal((4, 512), np.float32))
    return path


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, file: Path) -> Path:
    path = tmp_path_factory.mktemp("swept") / "s"
    axes = sides.Axes((256, 1024), (2,), (64,), ("normal", "ties", "mine"), {"mine": file}, rounds=4)
    asked = sides.ask(shipped_root(), "host", axes)
    sides.measure(asked, path, lambda *_: None, sides.options(asked, None, "warm", 60.0))
    return path


def test_a_sweep_says_everything_it_measured(attr: Callable[..., Any], recording: Path) -> None:
    found = json.loads(attr("selectors", recording, "--json").out)
    pair = [c for c in found["cells"] if (c["first"], c["second"]) == ("numpy_partition", "numpy_sort")]
    assert len(found["cells"]) == 6 * len(pair)
    assert [(c["distribution"], c["columns"]) for c in pair] == [
        ("normal", 256), ("normal", 1024), ("ties", 256), ("ties", 1024), ("mine", 256),
    ]  # fmt: skip
    assert {c["pairs"] for c in found["cells"]} == {4}
    assert found["claims"][0].startswith(f"Random inputs would have claimed that {found['pair'][1]} is")
    assert "mine" in found["claims"][0]
    assert [rule["distributions"] for rule in found["rules"]] == [["normal", "ties", "mine"], ["mine"]]
    assert {f["name"] for f in found["selectors"]} >= {"numpy_partition", "numpy_sort", "numpy_histogram"}


def test_the_table_names_what_was_not_measured(attr: Callable[..., Any], recording: Path) -> None:
    shown = attr("selectors", recording).out
    assert "mine: not measured: mine.npy has 512 columns and 1024 were asked for" in shown
    assert "Exact top-k, host-virtual/none/none, 4 paired rounds a point" in shown
    assert "By real width, over normal, ties, mine:" in shown
    assert shown.rstrip().endswith("says nothing about a GPU's speed.")


def test_the_manifest_states_the_file_and_the_points(recording: Path, file: Path) -> None:
    import hashlib

    facts = json.loads((recording / "manifest.json").read_text())
    assert facts["files"] == {"mine": {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "label": ""}}
    assert len(facts["points"]) == 5
    assert facts["skipped"][0]["shape"] == {"rows": 2, "columns": 1024, "k": 64}
    assert str(file.parent) not in json.dumps(facts)


def test_a_sweep_is_shown_as_any_recording(attr: Callable[..., Any], recording: Path) -> None:
    rows = json.loads(attr("show", recording, "--json").out)["answers"]
    assert len(rows) == 4 * 5
    assert not any(row["verdict"] == "void" for row in rows)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("selectors", [], "selectors is []; allowed is at least 1 entry"),
        ("selectors", [{"name": "a", "version": "", "needs": "none", "missing": ""}], "needs is"),
        ("files", None, "files is null"),
        ("skipped", [{"distribution": "mine", "shape": {}, "reason": ""}], "skipped[0].shape"),
        ("points", [1], "points[0] is 1"),
    ],
    ids=["none", "needs", "files", "skipped", "points"],
)
def test_a_damaged_manifest_is_a_sentence(
    attr: Callable[..., Any], recording: Path, tmp_path: Path, key: str, value: Any, words: str
) -> None:
    import hashlib
    import shutil

    shutil.copytree(recording, tmp_path / "s")
    facts = json.loads((recording / "manifest.json").read_text())
    facts[key] = value
    del facts["manifest_sha256"]
    facts["manifest_sha256"] = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    (tmp_path / "s" / "manifest.json").write_text(json.dumps(facts))
    done = attr("selectors", tmp_path / "s")
    assert (done.code, words in done.err) == (1, True), done.err


def test_measuring_and_reading_from_the_command_line(attr: Callable[..., Any], tmp_path: Path, file: Path) -> None:
    done = attr("selectors", *SMALL, "--distribution", "normal", "--out", tmp_path / "s")
    assert done.code == 0
    assert "Random inputs would have claimed" in done.out
    assert attr("selectors", *SMALL, "--distribution", "normal", "--out", tmp_path / "s").code == 2
    assert not (tmp_path / "s.partial").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--columns", "8x"], 2, "--columns '8x': allowed are whole numbers above 0"),
        (["--columns", "100"], 2, "a multiple of 128"),
        (["--columns", "128", "--k", "200"], 2, "k = 200 of columns = 128: allowed is k <= columns"),
        (["--file", "there/is/none.npy"], 2, "is not there"),
        (["--file", "a.npy", "--file", "b/a.npy"], 2, "the name 'a' is used twice"),
        (["--file", "ties=a.npy"], 2, "ties is a distribution already"),
        (["--selector", "numpy_srot"], 2, "nearest: numpy_sort"),
        (["--selector", "deepselect"], 2, "here there are: numpy_partition, numpy_sort, numpy_threshold"),
        (["--distribution", "norml"], 2, "nearest: normal"),
        (["--scope", "ncu"], 2, "is measured in graph or event"),
        (["--machine", "tpu"], 2, "allowed are auto, host and cuda"),
        (["--scope", "graph"], 2, "--scope graph: the host machine has scope host-virtual only"),
        (["--cache", "cold"], 2, "--cache cold: the host machine has no cache policy"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_is_refused(
    attr: Callable[..., Any], tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    base = ["--machine", "host", "--rows", "2", "--rounds", "2", "--out", tmp_path / "s"]
    done = attr("selectors", *base, *arguments)
    assert done.code == code
    assert words in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--columns", "8"], "--columns belongs to measuring"),
        (["--rows", "8"], "--rows belongs to measuring"),
        (["--k", "8"], "--k belongs to measuring"),
        (["--distribution", "ties"], "--distribution belongs to measuring"),
        (["--selector", "numpy_sort"], "--selector belongs to measuring"),
        (["--rounds", "8"], "--rounds belongs to measuring"),
        (["--machine", "cuda"], "--machine belongs to measuring"),
        (["--first", "numpy_sort"], "--first and --second belong together"),
        (["--first", "numpy_sort", "--second", "deepselect"], "were not measured side by side"),
        (["--random", "captured"], "--random captured: there are: normal, ties, mine"),
        (["--scope", "graph"], "in scope 'graph'; there are: host-virtual"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else None,
)
def test_what_a_recording_cannot_answer_is_said(
    attr: Callable[..., Any], recording: Path, arguments: list[str], words: str
) -> None:
    done = attr("selectors", recording, *arguments)
    assert done.code in (1, 2)
    assert words in done.err


def test_another_recording_is_no_sweep(attr: Callable[..., Any]) -> None:
    done = attr("selectors", "h200-hello")
    assert (done.code, "no sweep of selectors" in done.err) == (2, True)


def test_the_list_says_what_can_be_used_here(attr: Callable[..., Any]) -> None:
    rows = {row["selector"]: row for row in json.loads(attr("selectors", "--list", "--json").out)}
    assert rows["numpy_sort"]["usable"] == "installed"
    assert {"torch_topk", "our_topk", "flashinfer", "deepselect", "vllm_per_row"} <= set(rows)
    assert "column zero" in rows["deepselect"]["needs"]


def test_the_base_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    table = [{"name": "torch_topk", "version": "", "needs": [], "missing": "torch is not installed"}]
    with pytest.raises(InputError, match="torch_topk is what the others are compared with, and torch is not installed"):
        sides._chosen(table, (), "torch_topk")


def test_resume_belongs_to_a_sweep_with_a_name(attr: Callable[..., Any]) -> None:
    assert "--resume needs --out" in attr("selectors", "--resume").err
    assert "--resume belongs to measuring" in attr("selectors", "host-selectors", "--resume").err
