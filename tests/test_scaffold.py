"""A new kernel runs at once, and nothing that exists is touched."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import numpy as np
import pytest

from attribution.declare import Kernel
from attribution.errors import InputError, MeasureError
from attribution.load import load_kernel
from attribution.measure.host import measure, one_thread
from attribution.scaffold import new_kernel


def test_a_new_kernel_is_listed_and_measured_at_once(attr, tmp_path: Path) -> None:
    made = json.loads(attr("new", "mine", "--root", tmp_path, "--json").out)
    assert {Path(f).name for f in made["files"]} >= {"kernel.py", "mine.cu", "mine.toml"}
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
    assert len(lines) < 100
    assert sum(bool(line.strip()) for line in lines) < 110


@pytest.mark.parametrize(
    "name",
    ["Mine", "1st", "a-b", "", "class", "../x", "event", "float", "std", "size_t", "printf", "norm", "expf", "a" * 60],
)
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


SMALL = {"rows": 8, "columns": 1024}


def run(kernel: Kernel, **flags: int):  # type: ignore[no-untyped-def]
    inputs = kernel.inputs(SMALL, kernel.distributions[0], 3)
    with one_thread():
        knobs = {"sms": 2, "ctas": 4}
        return inputs, measure(kernel, inputs, SMALL, kernel.resolve_flags(flags), knobs)


def test_the_new_kernels_check_catches_one_element_left_out(tmp_path: Path) -> None:
    new_kernel(tmp_path, "mine")
    kernel = load_kernel(tmp_path, "mine")
    inputs, measured = run(kernel, VECTOR=1)
    expected = kernel.reference(inputs, SMALL)
    assert kernel.check(inputs, measured.output, expected, SMALL, {})[0].passed
    left_out = inputs["x"][5][inputs["x"][5] != 0][0]
    wrong = measured.output - left_out * (np.arange(SMALL["rows"]) == 5)
    check = kernel.check(inputs, wrong, expected, SMALL, {})[0]
    assert (check.passed, "1 rows differ" in check.detail) == (False, True)


def test_the_new_kernel_traces_every_row(tmp_path: Path) -> None:
    new_kernel(tmp_path, "mine")
    _, measured = run(load_kernel(tmp_path, "mine"), TRACE=1)
    assert len(measured.tables["events"]) == 2 * SMALL["rows"]
    assert measured.tables["rows"]["rows"].sum() == SMALL["rows"]


def test_the_new_kernel_builds(tmp_path: Path) -> None:
    pytest.importorskip("cuda.core", reason='needs `pip install "attribution[cuda]"`')
    from attribution.build import build

    new_kernel(tmp_path, "mine")
    made = build(load_kernel(tmp_path, "mine"), {}, cache=tmp_path / "cache")
    assert [entry.name for entry in made.entries] == ["mine"]


def test_a_root_that_cannot_be_written_is_a_sentence_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("a file")
    with pytest.raises(MeasureError, match="cannot write"):
        new_kernel(tmp_path, "mine")
    assert [p.name for p in tmp_path.rglob("*")] == ["kernels"]


def test_a_root_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a file")
    with pytest.raises(MeasureError, match="Not a directory; nothing was left behind"):
        new_kernel(tmp_path / "README.md", "mine")
    assert (tmp_path / "README.md").read_text() == "a file"


def test_the_python_of_the_page_on_your_kernel_runs(tmp_path: Path, root: Path, monkeypatch) -> None:
    pytest.importorskip("cuda.core", reason='needs `pip install "attribution[cuda]"`')
    page = (root / "docs" / "your-kernel.md").read_text()
    block = page.split("From Python:")[1].split("\n## ")[0]
    new_kernel(tmp_path, "rowsum")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    namespace: dict[str, object] = {}
    exec(compile(textwrap.dedent(block), "docs/your-kernel.md", "exec"), namespace)
    assert "16 CTAs/SM" in str(namespace["entry"].residency("sm_90a"))  # type: ignore[attr-defined]
    assert "17 CTAs at <= 24 registers" in page
