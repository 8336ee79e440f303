"""The same source without its trace calls, to compare machine code with."""

from __future__ import annotations

import re

_LANE = re.compile(r"attr::Lane<[^>]*>\s*(&?)\s*(\w+)")
_TEMPORARY = re.compile(r",\s*attr::Lane<[^>]*>\s*[({]")


def untraced(text: str) -> str:
    """`text` with lanes, their calls, and their passing as arguments taken out; line numbers stay.

    Knows lanes as local variables, as members, as reference parameters, and as temporaries among
    initializers.  The trace pointer stays among a kernel's parameters, unused.
    """
    marker = '#line 1 "kernels/'
    parts = text.split(marker)
    # A lane that is a member of a struct in one file is closed through an object of it in another.
    lanes = sorted({lane for part in parts[1:] for lane in _LANE.findall(part)})
    return marker.join([parts[0], *(_strip(part, lanes) for part in parts[1:])])


def _strip(text: str, lanes: list[tuple[str, str]]) -> str:
    for reference, name in lanes:
        text = re.sub(rf"(?:\[\[no_unique_address\]\]\s*)?attr::Lane<[^>]*>\s+{name}\s*(?:\([^;]*\))?;", ";", text)
        text = re.sub(rf"\b{name}\.(?:template\s+)?(?:begin|end)<[^>]*>\s*\([^;]*\);", ";", text)
        text = re.sub(rf"(?:\b\w+\.)?\b{name}\.close\(\);", ";", text)
        if reference:
            text = re.sub(rf",\s*attr::Lane<[^>]*>\s*&\s*{name}\b", "", text)
            text = re.sub(rf",\s*{name}\b(?=\s*[,)])", "", text)
        text = re.sub(rf"\busing \w+<\w+>::{name};", ";", text)  # a lane of the base
    while match := _TEMPORARY.search(text):
        text = text[: match.start()] + text[_closing(text, match.end() - 1) + 1 :]
    return text


def _closing(text: str, opening: int) -> int:
    """Where the bracket at `opening` is closed."""
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] in "({[") - (text[i] in ")}]")
        if depth == 0:
            return i
    raise AssertionError(f"no closing bracket after {text[opening : opening + 40]!r}")
