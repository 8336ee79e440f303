"""What the README shows is what the program prints from the committed recording, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"<!-- attr show (\S+) -->\n(.*?)<!-- end -->", re.S)


def printed(attr, recording: str) -> str:
    """The answers that `attr show` prints, up to the sentence on what kind of time it is, as a block of text."""
    lines = attr("show", ROOT / recording).out.splitlines()
    last = next(i for i, line in enumerate(lines) if line.startswith(("Virtual time", "Measured on")))
    return "\n".join(["```", *(line.rstrip() for line in lines[1 : last + 1]), "```", ""])


def test_the_table_is_what_the_program_prints(attr, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks
    for recording, text in blocks:
        assert text == printed(attr, recording)


def test_a_changed_digit_is_noticed(attr, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    recording, text = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    digit = re.search(r"\d", text)
    assert digit
    changed = text[: digit.start()] + str((int(digit.group()) + 1) % 10) + text[digit.end() :]
    assert changed != printed(attr, recording)


def test_every_link_and_make_target_exists() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make (\w+)", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target
