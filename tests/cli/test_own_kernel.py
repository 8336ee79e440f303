"""A kernel of the user's own that is broken is told with its line, by exit code and without a traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attribution.recording import open_recording
from attribution.scaffold import new_kernel

RUN = ("run", "--kernel", "mine", "--variant", "scalar", "--shape", "rows=4,columns=512", "--rounds", "1")
BUILD = ("build", "--kernel", "mine")
KERNEL, TOML, SOURCE = "kernels/mine/kernel.py", "variants/mine.toml", "kernels/mine/mine.cu"
REFUSED = {
    "reference": (RUN, KERNEL, 'inputs["x"].sum(', 'inputs["y"].sum(', 1, r"reference failed: kernel.py:\d+: KeyError"),
    "inputs": (RUN, KERNEL, 'shape["rows"], shape', 'shape["row"], shape', 1, r"inputs failed: kernel.py:\d+: KeyError"),
    "list": (RUN, KERNEL, "astype(np.float32)}", "tolist()}", 1, "inputs gave .* must be {name: array of numpy}"),
    "illegal": (RUN, KERNEL, "host=host", "host=host, illegal=lambda f: f['X']", 2, r"illegal failed: kernel.py:\d+: KeyError"),
    "field": (RUN, KERNEL, "    check=check,\n", "", 2, r"does not run: kernel.py:\d+: TypeError.*'check'"),
    "null": (RUN, TOML, "[scalar]", "[null]", 2, "null is the null arm's"),
    "name": (RUN, TOML, "[scalar]", '["../scalar"]', 2, "a variant's name has letters"),
    "no quantity": (RUN, TOML, "time_ratio = [1.00, 3.00]", "rows = [1, 2]", 2, "names no quantity"),
    "threads": (BUILD, KERNEL, "lambda flags: THREADS", "lambda flags: flags['X']", 1, r"threads of entry mine failed: kernel.py"),
    "text": (BUILD, KERNEL, "lambda flags: THREADS", "lambda flags: '128'", 1, "threads of entry mine is '128': must be"),
    "bytes": (BUILD, SOURCE, "// mine", "\udcff mine", 1, "is no UTF-8 text"),
    "nothing": (BUILD, TOML, None, "", 2, "no variant is declared"),
}  # fmt: skip
UNMEASURED = {
    "host raises": ('flags["VECTOR"], np', 'flags["VECTO"], np', r"host failed: kernel.py:\d+: KeyError: 'VECTO'"),
    "host returns": ("return HostRun", "HostRun", "host gave NoneType: must be a HostRun"),
    "other role": ('task("main", "sum"', 'task("main", "sun"', "a task of main/sun, which is no role of a stage"),
    "other batch": ('"sum", row)', '"sum", row + 1)', "for batch 4: allowed are 0 to 3"),
    "no main": ('"main"', '"first"', "no stage `main`"),
    "check raises": ("    wrong = ", "    1 / 0\n    wrong = ", r"check failed: kernel.py:\d+: ZeroDivisionError"),
    "check returns": ("return [Check", "return Check and ['fine'] or [Check", r"check gave \['fine'\]: must be a list of Check"),
}  # fmt: skip


def edit(root: Path, file: str, old: str | None, new: str) -> None:
    """Plant one fault into a fresh kernel."""
    new_kernel(root, "mine")
    text = (root / file).read_text(encoding="utf-8")
    assert old is None or old in text
    (root / file).write_text(new if old is None else text.replace(old, new), "utf-8", "surrogateescape")


@pytest.mark.parametrize("fault", list(REFUSED))
def test_a_fault_is_a_sentence_and_leaves_nothing(tmp_path: Path, attr, fault: str) -> None:
    command, file, old, new, code, sentence = REFUSED[fault]
    edit(tmp_path, file, old, new)
    out = ("--out", tmp_path / "rec") if command is RUN else ("--cache", tmp_path / "cache")
    done = attr(*command, "--root", tmp_path, *out)
    assert done.code == code
    assert re.search(sentence, done.err), done.err
    assert not list(tmp_path.glob("rec*"))


@pytest.mark.parametrize("fault", list(UNMEASURED))
def test_where_no_arm_could_be_measured_the_reason_is_said_and_kept(tmp_path: Path, attr, fault: str) -> None:
    old, new, sentence = UNMEASURED[fault]
    edit(tmp_path, KERNEL, old, new)
    done = attr(*RUN, "--root", tmp_path, "--out", tmp_path / "rec")
    assert done.code == 1
    assert re.search("no arm was measured: .*" + sentence, done.err), done.err
    assert open_recording(tmp_path / "rec").table("runs")["reason"].str.contains(sentence).all()
