"""Whether a document says what the recordings say: every marker recomputed, and no measured number outside of one.

In: documents and the sources.  Out: what was looked at, one `Found` each; documents with their markers filled in again.
Misuse: this says that a number is the recording's, not that the sentence around it is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attribution.errors import AttrError
from attribution.verify import figures, pages
from attribution.verify.documents import Document
from attribution.verify.markers import Marker, Parsed, parse
from attribution.verify.numbers import unmarked
from attribution.verify.sources import Sources, is_hash

FAILURES = ("differs", "no source", "malformed", "unmarked", "damaged")
"""States that make a document, or a recording, wrong; the others are `same` and `typed`."""


@dataclass(frozen=True)
class Found:
    """One marker, number or recording: where, its state, what is stated there, and what should be or why it cannot."""

    document: str
    place: str
    line: int
    state: str
    marker: str
    stated: str
    detail: str

    def __str__(self) -> str:
        where = ", ".join(p for p in (self.place, f"line {self.line}" if self.line else "") if p)
        return f"{self.document}{', ' + where if where else ''}: {self.state}: {self.detail}"


def verify(document: Document, sources: Sources) -> Iterator[Found]:
    """Everything in one document that is a marker, or should be in one; of a report's page, the page as a whole."""
    if document.path.suffix in pages.ENDINGS:
        yield _page(document, sources)
        return
    for place, text in document.texts:
        parsed = parse(text)
        at = (str(document.path), place)
        for fault in parsed.faults:
            yield Found(*at, fault.line, "malformed", "", "", fault.reason)
        for marker in parsed.markers:
            state, detail = _state(marker, document, sources)
            yield Found(*at, marker.line, state, str(marker), marker.body.strip(), detail)
        for line, number in [*unmarked(text, parsed), *_unmarked_figures(text, parsed, document)]:
            yield Found(*at, line, "unmarked", "", number, f"{number} is in no marker")


def _page(document: Document, sources: Sources) -> Found:
    text = document.texts[0][1]
    source = f"attr {pages.command(text)}"
    try:
        state, detail = _compared(text, pages.page(text, sources), source)
    except AttrError as error:
        state, detail = "no source", str(error)
    return Found(str(document.path), "", 0, state, source, "", detail)


def _unmarked_figures(text: str, parsed: Parsed, document: Document) -> Iterator[tuple[int, str]]:
    """Images outside markers that show a measured number, or may: only the text of an SVG can be read."""
    for line, file in figures.images(text, parsed):
        path = document.path.parent / file
        if not path.is_file():
            yield line, f"the image {file}, which is not there,"
        elif path.suffix != ".svg" or any(unmarked(shown, parse(shown)) for shown in figures.texts(path)):
            yield line, f"the figure {file}"


def damaged(sources: Sources) -> Iterator[Found]:
    """Recordings that are not what was written."""
    for name, reason in sources.damaged():
        yield Found(f"{sources.traces.name}/{name}", "", 0, "damaged", "", "", reason)


def update(document: Document, sources: Sources) -> int:
    """Fill in every marker that has a source and differs from it; the number of such.  The file is written only then.

    A hash that is stated stays: another file in that place is a failure, which nobody may wave through with the numbers.
    """
    if document.path.suffix in pages.ENDINGS:
        changed = int(_page(document, sources).state == "differs")
        if changed:
            document.texts = [("", pages.page(document.texts[0][1], sources))]
    else:
        changed = sum(_filled(document, place, sources) for place in range(len(document.texts)))
    if changed:
        document.write()
    return changed


def _filled(document: Document, place: int, sources: Sources) -> int:
    """Fill in one text of the document; the number of markers that were filled in."""
    name, text = document.texts[place]
    markers = [m for m in parse(text).markers if not (is_hash(m) and m.body.strip())]
    differing = [m for m in markers if _state(m, document, sources)[0] == "differs"]
    # From the end, so that the places of the others stay what they are.
    for marker in reversed(differing):
        if figures.is_figure(marker):
            figures.redraw(marker, document.path.parent, sources)
        else:
            text = text[: marker.start] + sources.text(marker) + text[marker.end :]
    document.texts[place] = (name, text)
    return len(differing)


def _state(marker: Marker, document: Document, sources: Sources) -> tuple[str, str]:
    """State and detail of one marker."""
    if marker.kind == "typed:":
        return "typed", marker.spec
    try:
        if figures.is_figure(marker):
            drawn = figures.difference(marker, document.path.parent, sources)
            return ("differs", f"{marker}: {drawn}") if drawn else ("same", "")
        expected = sources.text(marker)
    except AttrError as error:
        return "no source", f"{marker}: {error}"
    # Prose is wrapped where it pleases; a table is not.
    block = expected.startswith("\n")
    stated, meant = (t if block else " ".join(t.split()) for t in (marker.body, expected))
    state, detail = _compared(stated, meant, str(marker))
    changed = state == "differs" and stated and is_hash(marker)
    return (
        state,
        f"{detail}: another file; put the old one back, or describe this one and empty the marker"
        if changed
        else detail,
    )


def _compared(stated: str, meant: str, source: str) -> tuple[str, str]:
    """State and detail of a text that should be `meant`."""
    return ("same", "") if stated == meant else ("differs", f"{source}: {_difference(stated, meant)}")


def _difference(stated: str, meant: str) -> str:
    """The first line that differs, as stated and as it should be."""
    pairs = zip((*stated.split("\n"), ""), (*meant.split("\n"), ""), strict=False)
    one, other = next(((a, b) for a, b in pairs if a != b), ("", "more lines"))
    return f"stated is {one.strip()!r}, recomputed is {other.strip()!r}"
