"""Figures of documents: drawn again from their recordings, and compared by every text in them (ticks, labels, values).

In: a marker `attr VERB NAME... --plot FILE.svg` around the image FILE.svg, and the folder of its document.
Out: whether the file shows what is drawn today.
Misuse: lines and colours are not compared, since another version of the drawing library places them differently.
"""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path

from attribution.errors import DataError, InputError
from attribution.show.whole import whole_file
from attribution.verify.markers import Marker, Parsed
from attribution.verify.sources import Sources

_PLOT = re.compile(r"(?P<command>.*?) --plot (?P<file>\S+)")
IMAGE = re.compile(r"!\[[^\]]*\]\((?P<file>[^)\s]+)[^)]*\)")
# Text that is drawn as outlines is named in a comment before them.
_TEXTS = re.compile(r"<!--(.*?)-->|<(?:text|tspan|title|desc)\b[^>]*>([^<]*)<", re.S)


def is_figure(marker: Marker) -> bool:
    """Whether the marker is about a figure."""
    return marker.kind == "attr" and "--plot" in marker.spec.split()


def texts(figure: Path) -> list[str]:
    """Every text in an SVG file, sorted.  Raises DataError."""
    try:
        content = figure.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DataError(f"{figure} cannot be read: {error}") from error
    found = (html.unescape(" ".join((a or b).split())) for a, b in _TEXTS.findall(content))
    return sorted(text for text in found if text)


def difference(marker: Marker, folder: Path, sources: Sources) -> str:
    """What the figure shows and should not, or the other way round; '' when it is the one drawn today.  Raises AttrError."""
    figure, drawn = _drawn(marker, folder, sources)
    stated, meant = texts(figure) if figure.exists() else [], texts(drawn)
    only = [sorted(set(a) - set(b)) for a, b in ((stated, meant), (meant, stated))]
    if stated == meant:
        return ""
    return f"stated is {', '.join(only[0]) or 'less'!r}, recomputed is {', '.join(only[1]) or 'less'!r}"


def redraw(marker: Marker, folder: Path, sources: Sources) -> None:
    """Put what is drawn today in place of the figure.  Raises AttrError."""
    figure, drawn = _drawn(marker, folder, sources)
    with whole_file(figure) as draft:
        shutil.copyfile(drawn, draft)


def _drawn(marker: Marker, folder: Path, sources: Sources) -> tuple[Path, Path]:
    match = _PLOT.fullmatch(marker.spec)
    image = IMAGE.search(marker.body)
    if match is None or not match["file"].endswith(".svg"):
        raise InputError(f"{marker}: ends in --plot FILE.svg; figures of other kinds cannot be compared")
    if image is None or image["file"] != match["file"]:
        raise InputError(f"{marker}: the image between the markers must be {match['file']}")
    return folder / match["file"], sources.drawn(match["command"])


def images(text: str, parsed: Parsed) -> list[tuple[int, str]]:
    """(line, file) of every local image that no marker covers."""
    covered = [*parsed.hidden, *parsed.code]
    found = [m for m in IMAGE.finditer(text) if "://" not in m["file"]]
    return [
        (text.count("\n", 0, m.start()) + 1, m["file"])
        for m in found
        if not any(a <= m.start() < b for a, b in covered)
    ]
