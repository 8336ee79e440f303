"""A new kernel runs at once, and nothing that exists is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attribution.errors import InputError
from attribution.scaffold import new_kernel


def test_a_new_kernel_is_listed_and_measured_at_once(attr, tmp_path: Path) -> None:
    made = json.loads(attr("new", "mine", "--root", tmp_path, "--json").out)
    assert sorted(Path(f).name for f in made["files"]) == ["kernel.py", "mine.cu", "mine.toml"]
    assert json.loads(attr("list", "--root", tmp_path, "--json").out)[0]["kernel"] == "mine"
    out = tmp_path / "rec"
    small = ("--shape", "rows=16,columns=4096", "--knob", "sms=2", "--rounds", "2")
    done = attr("run", "--root", tmp_path, "--variant", "scalar", *small, "--out", out, "--json")
    assert done.code == 0
    answers = {a["arm"]: a for a in json.loads(done.out)["answers"]}
    assert answers["scalar"]["equal_work"] == "equal"


def test_hello_stays_a_template_that_can_be_read(root: Path) -> None:
    """Two files, under 100 lines together, and every occurrence of its name is one that may be replaced."""
    files = [root / "kernels" / "hello" / n for n in ("kernel.py", "hello.cu")]
    lines = [line for f in files for line in f.read_text().splitlines()]
    assert len(lines) <= 130
    assert sum(bool(line.strip()) for line in lines) < 110


@pytest.mark.parametrize("name", ["Mine", "1st", "a-b", "", "class", "../x", "event", "a" * 60])
def test_names_that_cannot_be_identifiers_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="kernel name"):
        new_kernel(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_left_alone(tmp_path: Path) -> None:
    new_kernel(tmp_path, "mine")
    before = {p: p.read_text() for p in tmp_path.rglob("*.*") if p.is_file()}
    with pytest.raises(InputError, match="exists: choose another name"):
        new_kernel(tmp_path, "mine")
    assert {p: p.read_text() for p in tmp_path.rglob("*.*") if p.is_file()} == before
