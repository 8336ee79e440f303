"""A recording that a void list names supports nothing, whatever its interval says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from attribution.claim import answers
from attribution.claim.expectations import claims
from attribution.claim.void import LIST, Void, read_list, void_lines, void_reasons, voided
from attribution.errors import DataError
from attribution.recording import PROTOCOL_VERSION, open_recording

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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[void]", "cannot be read"),
        ("void = 3", r"void is 3; allowed are tables \[\[void\]\]"),
        ("void = [3]", r"entry 1 is 3; allowed are protocol, reason, recording, scope"),
        (
            '[[void]]\nprotocol = 1\nscope = "graph"\nreason = "a"\n[[void]]\nprotocol = 1',
            "entry 2 is .*reason must say why",
        ),
        ('[[void]]\nprotocol = 1\nscope = "graph"\nreason = 3', "needs recording = HASH or protocol = NUMBER"),
        ('[[void]]\nprotocol = 1\nscope = 3\nreason = "a"', "needs recording = HASH or protocol = NUMBER"),
        ('[[void]]\nprotocol = true\nscope = "graph"\nreason = "a"', "needs recording = HASH or protocol = NUMBER"),
        (f'[[void]]\nprotocol = {PROTOCOL_VERSION}\nreason = "a"', "raise PROTOCOL_VERSION first"),
    ],
)
def test_each_fault_of_a_list_is_said(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / LIST).write_text(text)
    with pytest.raises(DataError, match=sentence):
        read_list(tmp_path / LIST)


def test_what_is_no_file_cannot_be_read_and_what_is_not_there_lists_nothing(tmp_path: Path) -> None:
    assert read_list(tmp_path / LIST) == ()
    (tmp_path / LIST).mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_list(tmp_path / LIST)


def test_an_entry_names_a_hash_or_a_protocol_and_all_before_it(tmp_path: Path) -> None:
    before = PROTOCOL_VERSION - 1
    (tmp_path / LIST).write_text(
        f'[[void]]\nprotocol = {before}\nreason = "ä"\n[[void]]\nrecording = "x"\nscope = "graph"\nreason = "b"',
        encoding="utf-8",
    )
    old, one = read_list(tmp_path / LIST)
    assert (old, one) == (Void("ä", protocol=before), Void("b", recording="x", scope="graph"))
    assert [old.names("x", protocol, scope) for protocol in (before - 1, before, before + 1) for scope in ("", "graph")] == [
        True, True, True, True, False, False,
    ]  # fmt: skip
    # Of one scope only; and no protocol makes up for another hash.
    assert [one.names(digest, before, scope) for digest in "xy" for scope in ("graph", "event", "")] == [True] + [
        False
    ] * 5


def test_only_the_scopes_that_are_meant_are_void_and_said(copy: Path) -> None:
    found = pd.DataFrame(
        {
            "scope": ["graph/warm/as-found", "event/warm/as-found", "event/warm/as-found"],
            "verdict": "faster",
            "reasons": "the interval excludes 1",
            "expected": ["time_ratio in [0.5, 0.9]", "time_ratio in [0.5, 0.9]", ""],
            "expectation": ["supported", "supported", ""],
        }
    )
    listed(copy.parent, f'recording = "{digest(SHIPPED)}"\nscope = "event"')
    recording = open_recording(copy)
    out = voided(found, recording)
    assert out["verdict"].tolist() == ["faster", "void", "void"]
    assert out["expectation"].tolist() == ["supported", "undecided", ""]
    said = "voided: the timer was read twice; the interval excludes 1"
    assert out["reasons"].tolist() == ["the interval excludes 1", said, said]
    assert found["verdict"].tolist() == ["faster"] * 3  # its own rows
    assert void_lines(recording, ["graph", "event/cold/as-found"]) == [
        "void: event/cold/as-found: the timer was read twice"
    ]
