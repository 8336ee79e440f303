"""Every recording under traces/ is whole, readable, described, small, and answers what it was made for."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribution.claim import answers
from attribution.claim.void import void_reasons
from attribution.recording import open_recording

TRACES = Path(__file__).parents[1] / "traces"
RECORDINGS = sorted(p.parent for p in TRACES.glob("*/manifest.json"))


def test_everything_under_traces_is_a_recording_or_described() -> None:
    assert RECORDINGS
    text = (TRACES / "README.md").read_text(encoding="utf-8")
    for entry in TRACES.iterdir():
        if entry.name != "README.md":
            assert f"`{entry.name}`" in text, f"{entry.name} is not described in traces/README.md"
        # Recordings hash themselves; of anything else the description must have the hash, which is verified.
        if entry.is_file() and entry.name not in ("README.md", "VOID.toml"):
            assert f"<!-- file {entry.name} :: sha256 :: text -->" in text, f"{entry.name} has no hash in traces/README.md"
    size = sum(f.stat().st_size for f in TRACES.rglob("*") if f.is_file())
    assert size < 30e6


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.name)
def test_loads_and_answers(path: Path) -> None:
    recording = open_recording(path)
    recording.verify()
    found = answers(recording)
    assert len(found)
    listed = [bool(void_reasons(recording, scope.split("/")[0])) for scope in found["scope"]]
    assert (found["verdict"] == "void").tolist() == listed, found[["arm", "scope", "verdict", "reasons"]]


def test_the_published_answer_of_the_host_recording_still_holds() -> None:
    found = answers(open_recording(TRACES / "host-math-only")).set_index("arm")
    assert found.loc["math_only", ["verdict", "equal_work", "expectation"]].tolist() == ["faster", "equal", "supported"]
    assert found.loc["null", "verdict"] in ("same", "undecided")
