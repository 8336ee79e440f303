"""What the README points to exists; its numbers, and those of every other document, are those of the recordings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attribution.cli.verify import printed
from attribution.verify import FAILURES, verify
from attribution.verify.documents import documents
from attribution.verify.sources import Sources

ROOT = Path(__file__).parents[1]
DOCUMENTS = documents(ROOT)
SOURCES = Sources(ROOT / "traces", printed)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.path.name)
def test_every_number_is_that_of_its_source(document) -> None:
    assert [str(found) for found in verify(document, SOURCES) if found.state in FAILURES] == []


def test_the_numbers_are_there() -> None:
    (readme,) = documents(ROOT, [ROOT / "README.md"])
    assert any(found.state == "same" for found in verify(readme, SOURCES))


def test_every_finding_is_listed_under_its_title() -> None:
    listed = (ROOT / "docs" / "findings" / "README.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs" / "findings").glob("0*.md")):
        number, _, title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").partition(" ")
        assert f"- [{number}]({path.name}) {title}\n" in listed


def test_every_link_and_make_target_exists() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make (\w+)", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_verb_of_the_readme_exists(attr) -> None:
    verbs = attr("--help").out
    for verb in re.findall(r"`attr (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^\s+{verb}\s", verbs, re.M), verb
