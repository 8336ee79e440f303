"""The same source without its trace calls, to compare machine code with."""

from __future__ import annotations

import re

_LANE = re.compile(r"attr::Lane<[^>]*>\s*(?:&\s*)?(\w+)")


def untraced(text: str) -> str:
    """`text` with lanes, their calls, and their passing as arguments taken out; line numbers stay.

    The trace pointer stays among a kernel's parameters: unused, as in a build with TRACE = 0.
    """
    marker = '#line 1 "kernels/'
    parts = text.split(marker)
    return marker.join([parts[0], *(_strip(part) for part in parts[1:])])


def _strip(text: str) -> str:
    for name in sorted(set(_LANE.findall(text))):
        text = re.sub(rf",\s*attr::Lane<[^>]*>\s*&\s*{name}\b", "", text)
        text = re.sub(rf"attr::Lane<[^>]*>\s+{name}\s*\([^;]*\);", ";", text)
        text = re.sub(rf"\b{name}\.(?:template\s+)?(?:begin|end)<[^>]*>\s*\([^;]*\);", ";", text)
        text = re.sub(rf"\b{name}\.close\(\);", ";", text)
        text = re.sub(rf",\s*{name}\b(?=\s*[,)])", "", text)
    return text
