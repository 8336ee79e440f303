"""A recording that a void list names supports nothing, whatever its interval says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from attribution.claim import answers
from attribution.claim.expectations import claims
from attribution.claim.void import LIST, read_list, void_reasons
from attribution.errors import DataError
from attribution.recording import open_recording

NAME = "host-math-only"
SHIPPED = Path(__file__).parents[2] / "traces" / NAME


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(SHIPPED, tmp_path / "copied")
    return tmp_path / "copied"


def digest(path: Path) -> str:
    return str(json.loads((path / "manifest.json").read_text())["manifest_sha256"])


def listed(folder: Path, text: str) -> None:
    (folder / LIST).write_text(f'[[void]]\nreason = "the timer was read twice"\n{text}\n')


def test_the_shipped_list_can_be_read() -> None:
    read_list(SHIPPED.parent / LIST)


def test_unlisted_it_is_believed(copy: Path) -> None:
    assert void_reasons(open_recording(copy)) == []
    assert set(claims([open_recording(copy)])["claim"]) == {"supported"}


@pytest.mark.parametrize("scope", ["", 'scope = "host-virtual"'], ids=["whole recording", "its scope"])
def test_a_listed_recording_claims_nothing_under_any_name(copy: Path, scope: str) -> None:
    listed(copy.parent, f'recording = "{digest(SHIPPED)}"\n{scope}')
    row = claims([open_recording(copy)]).iloc[0]
    assert (row["claim"], row["reason"].split(";")[0]) == ("undecided", "voided: the timer was read twice")
    found = answers(open_recording(copy))
    assert set(found["verdict"]) == {"void"}


def test_another_recording_or_scope_is_not_meant(copy: Path) -> None:
    listed(copy.parent, f'recording = "{digest(SHIPPED)}"\nscope = "graph"')
    assert claims([open_recording(copy)])["claim"].tolist() == ["supported"]
    listed(copy.parent, f'recording = "{"0" * 64}"')
    assert claims([open_recording(copy)])["claim"].tolist() == ["supported"]


def test_a_protocol_is_void_by_scope(copy: Path) -> None:
    protocol = json.loads((SHIPPED / "manifest.json").read_text(encoding="utf-8"))["protocol"]
    listed(copy.parent, f'protocol = {protocol}\nscope = "host-virtual"')
    assert claims([open_recording(copy)])["claim"].tolist() == ["undecided"]


@pytest.mark.parametrize(
    "text",
    ["", 'recording = "a"\nprotocol = 1', "protocol = 99", "why = 3", 'protocol = "1"', "recording = 3"],
    ids=["neither", "both", "the protocol of today", "unknown key", "text for a number", "number for a text"],
)
def test_a_bad_list_is_refused_with_a_sentence(copy: Path, text: str) -> None:
    listed(copy.parent, text)
    with pytest.raises(DataError, match="correct it|PROTOCOL_VERSION"):
        answers(open_recording(copy))


def test_a_reason_is_needed(tmp_path: Path) -> None:
    (tmp_path / LIST).write_text('[[void]]\nprotocol = 1\nscope = "graph"\nreason = " "\n')
    with pytest.raises(DataError, match="reason must say why"):
        read_list(tmp_path / LIST)
