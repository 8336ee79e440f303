"""A figure in a document is the one that its recording draws today, and none with numbers stands outside a marker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attribution.cli.verify import printed
from attribution.verify import FAILURES, update, verify
from attribution.verify.documents import read_document
from attribution.verify.figures import texts
from attribution.verify.sources import Sources

SOURCES = Sources(Path(__file__).parents[2] / "traces", printed)
MARKER = "<!-- attr show h200-hello --plot a.svg -->\n![times](a.svg)\n<!-- end -->\n"


@pytest.fixture(scope="module")
def drawn() -> str:
    """The figure as it should be."""
    return SOURCES.drawn("show h200-hello").read_text(encoding="utf-8")


def document(folder: Path, text: str, figure: str | None) -> Path:
    if figure is not None:
        (folder / "a.svg").write_text(figure, encoding="utf-8")
    (folder / "a.md").write_text(text)
    return folder / "a.md"


def failures(path: Path) -> list[str]:
    return [f"{f.state}: {f.detail}" for f in verify(read_document(path), SOURCES) if f.state in FAILURES]


def test_the_figure_of_today_is_the_same(tmp_path: Path, drawn: str) -> None:
    path = document(tmp_path, MARKER, drawn)
    assert any("%" in text for text in texts(tmp_path / "a.svg"))
    assert failures(path) == []
    assert update(read_document(path), SOURCES) == 0


def test_one_digit_changed_in_a_figure_is_noticed_and_redrawn(tmp_path: Path, drawn: str) -> None:
    value = re.search(r"<!-- [+-]\d+\.\d(\d) % ", drawn)
    changed = drawn[: value.start(1)] + str((int(value[1]) + 1) % 10) + drawn[value.end(1) :]
    path = document(tmp_path, MARKER, changed)
    (told,) = failures(path)
    assert told.startswith("differs: attr show h200-hello --plot a.svg: stated is")
    assert update(read_document(path), SOURCES) == 1
    assert failures(path) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (MARKER.replace("(a.svg)", "(b.svg)"), "the image between the markers must be a.svg"),
        (MARKER.replace("a.svg", "a.png"), "figures of other kinds cannot be compared"),
        (MARKER.replace("--plot a.svg", "--plot a.svg --stage main"), "ends in --plot FILE.svg"),
        (MARKER.replace("h200-hello", "h300-nowhere"), "names no recording"),
        ("![times](a.svg)\n", "unmarked: the figure a.svg is in no marker"),
        ("![times](gone.svg)\n", "the image gone.svg, which is not there,"),
    ],
    ids=["another image", "png", "order", "no recording", "no marker", "no marker, no file"],
)  # fmt: skip
def test_a_figure_that_is_not_accounted_for_is_noticed(tmp_path: Path, drawn: str, text: str, reason: str) -> None:
    (told,) = failures(document(tmp_path, text, drawn))
    assert reason in told


def test_a_figure_that_is_not_there_yet_is_drawn(tmp_path: Path) -> None:
    path = document(tmp_path, MARKER, None)
    assert [told.split(":")[0] for told in failures(path)] == ["differs"]
    assert update(read_document(path), SOURCES) == 1
    assert failures(path) == []


def test_a_drawing_without_numbers_needs_no_marker(tmp_path: Path) -> None:
    path = document(
        tmp_path, "![flow](a.svg) and `![code](b.png)`\n", "<svg><text>declare</text><text>132 SMs</text></svg>"
    )
    assert failures(path) == []
    (tmp_path / "a.svg").write_text("<svg><text>declare</text><text>takes 3 ms</text></svg>")
    assert failures(path) == ["unmarked: the figure a.svg is in no marker"]


def test_a_picture_that_cannot_be_read_needs_a_reason(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    assert failures(document(tmp_path, "![photo](a.png)\n", None)) == ["unmarked: the figure a.png is in no marker"]
    assert failures(document(tmp_path, "<!-- typed: a photo -->![photo](a.png)<!-- end -->\n", None)) == []
