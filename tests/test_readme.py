"""What the documents show is what the program prints from the committed recordings, and the README's commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"<!-- attr (.+?) -->\n(.*?)<!-- end -->", re.S)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs" / "findings").glob("*.md"))]


def printed(attr, command: str) -> str:
    """What the command prints, as a block; of `show`, the answers up to the sentence on what kind of time it is."""
    lines = attr(*command.split()).out.splitlines()
    if command.startswith("show "):
        last = next(i for i, line in enumerate(lines) if line.startswith(("Virtual time", "Measured on")))
        lines = lines[1 : last + 1]
    return "\n".join(["```", *(line.rstrip() for line in lines), "```", ""])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_the_tables_are_what_the_program_prints(attr, path: Path) -> None:
    blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
    assert blocks
    for command, text in blocks:
        assert text == printed(attr, command), command


def test_a_changed_digit_is_noticed(attr) -> None:
    command, text = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    digit = re.search(r"\d", text)
    assert digit
    changed = text[: digit.start()] + str((int(digit.group()) + 1) % 10) + text[digit.end() :]
    assert changed != printed(attr, command)


def test_every_link_and_make_target_exists() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make (\w+)", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target
