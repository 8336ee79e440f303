"""A measurement that nobody can go on with becomes a recording of its whole rounds, and says that it was stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attribution.claim import answers
from attribution.declare import Kernel, Variant
from attribution.errors import DataError, InputError
from attribution.measure import finish as finishing
from attribution.measure import stopping, watch
from attribution.measure.finish import finish
from attribution.measure.jobfile import Options
from attribution.plan import Overrides, plan
from attribution.recording import PROTOCOL_VERSION

FAKE = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))


def stopped(
    hello: Kernel,
    variants: dict[str, Variant],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
    resume: bool = False,
    rule: stopping.Rule | None = None,
) -> None:
    """Stop as a user does, in the middle of a round."""
    monkeypatch.setenv("FAKE", ":")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    asked = plan(hello, variants, ["scalar"], Overrides({"rows": 8, "columns": 512}, {}, {}, rounds=60))

    def progress(done: int, total: int, label: str) -> None:
        if done >= at:
            raise KeyboardInterrupt

    options = Options(scopes=("graph", "ncu"), traced_rounds=2, keep_s=0.0)
    with pytest.raises(KeyboardInterrupt):
        watch.execute(asked, hello, variants, path, progress, options, resume, rule=rule, command=FAKE)


def test_whole_rounds_are_a_recording_that_says_what_it_lacks(
    hello: Kernel, variants: dict[str, Variant], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(hello, variants, tmp_path / "a", monkeypatch, at=30)
    made = finish(tmp_path / "a", root)
    runs = made.table("runs")
    rounds = made.manifest["plan"]["rounds"]
    assert 2 <= rounds < 60
    assert runs["round"].max() == rounds - 1
    assert (runs[~runs["arm"].astype(str).str.contains("trace")].groupby("round").size() == 3).all()
    assert made.manifest["measuring"]["stopped"].startswith(f"{rounds} of 60 rounds")
    assert [skip["scope"] for skip in made.manifest["measuring"]["skipped"]] == ["ncu"]
    assert set(made.table("times")["run"]) <= set(runs["run"])
    assert answers(made, "operator").set_index("arm").loc["scalar", "pairs"] == rounds
    assert not (tmp_path / "a.partial").exists()


def test_a_precision_that_was_asked_for_and_not_reached_decides_nothing(
    hello: Kernel, variants: dict[str, Variant], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, rule in (("asked", stopping.Rule(1e-9)), ("not", None)):
        stopped(hello, variants, tmp_path / name, monkeypatch, at=30, rule=rule)
    asked, plain = (finish(tmp_path / name, root) for name in ("asked", "not"))
    assert "stopping" not in plain.manifest
    assert (asked.manifest["stopping"]["precision"], asked.manifest["stopping"]["reached"]) == (1e-9, False)
    reasons = [answers(made, "operator").set_index("arm").loc["scalar", "reasons"] for made in (asked, plain)]
    assert ["+-1e-07 % was asked" in why for why in reasons] == [True, False]


def test_other_sources_too_few_rounds_and_nothing_at_all_are_refused(
    hello: Kernel, variants: dict[str, Variant], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="nothing was stopped"):
        finish(tmp_path / "none", root)
    stopped(hello, variants, tmp_path / "a", monkeypatch, at=1)
    with pytest.raises(InputError, match="go on with --resume"):
        finish(tmp_path / "a", root)
    stopped(hello, variants, tmp_path / "b", monkeypatch, at=30)
    file = tmp_path / "b.partial" / "plan.json"
    began = json.loads(file.read_text())
    file.write_text(json.dumps({**began, "protocol": PROTOCOL_VERSION - 1}))
    with pytest.raises(DataError, match=f"protocol was {PROTOCOL_VERSION - 1} and is now {PROTOCOL_VERSION}"):
        finish(tmp_path / "b", root)
    file.write_text(json.dumps({**began, "source": "0" * 16}))
    with pytest.raises(DataError, match="is not what was measured"):
        finish(tmp_path / "b", root)


def test_what_is_expected_was_written_before_and_is_not_what_the_variants_say_now(
    hello: Kernel, variants: dict[str, Variant], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the expectation is moved to where the numbers are, once half of them are there."""
    before = {"f200": {"time_ratio": (0.5, 0.9)}}
    moved = {"f200": {"time_ratio": (1.04, 1.06)}}
    declared = variants | {"scalar": replace(variants["scalar"], expects=before)}
    stopped(hello, declared, tmp_path / "a", monkeypatch, at=30)
    now = variants | {"scalar": replace(variants["scalar"], expects=moved)}
    with pytest.raises(DataError, match="was started with another plan: variants was"):
        stopped(hello, now, tmp_path / "a", monkeypatch, at=40, resume=True)
    monkeypatch.setattr(finishing, "load_variants", lambda *_: now)
    made = finish(tmp_path / "a", root)
    assert made.manifest["variants"]["scalar"]["expects"] == {"f200": {"time_ratio": [0.5, 0.9]}}


def test_a_measurement_under_way_is_not_finished_by_another(
    hello: Kernel, variants: dict[str, Variant], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(hello, variants, tmp_path / "a", monkeypatch, at=30)
    plan_file = tmp_path / "a.partial" / "plan.json"
    lines = (
        "import fcntl, time",
        f"f = open({str(plan_file)!r})",
        "fcntl.flock(f, fcntl.LOCK_EX)",
        "print('held', flush=True)",
    )
    code = "\n".join([*lines, "time.sleep(600)"])
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(InputError, match="another process is measuring"):
                finish(tmp_path / "a", root)
        finally:
            other.kill()


@pytest.mark.parametrize("name", ["plan.json", "machine.json", "runs-*/kept.json"])
@pytest.mark.parametrize("text", ["{", "[1]"], ids=["broken", "no-object"])
def test_damaged_files_are_named_and_left(
    hello: Kernel, variants: dict[str, Variant], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    name: str, text: str,
) -> None:  # fmt: skip
    stopped(hello, variants, tmp_path / "a", monkeypatch, at=30)
    file = min((tmp_path / "a.partial").glob(name))
    file.write_text(text)
    with pytest.raises(DataError, match=f"{file.name} is damaged"):
        finish(tmp_path / "a", root)
    assert [p.name for p in tmp_path.iterdir()] == ["a.partial"]


def test_the_verb(attr: Any, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    done = attr("finish", tmp_path / "there")
    assert (done.code, "is there already" in done.err, "--" in done.err) == (2, True, False)
    done = attr("finish", tmp_path / "none")
    assert done.code == 2
    assert "nothing was stopped under this name" in done.err
