"""The markers of a Markdown text: what stands between two comments is recomputed from a named source.

    <!-- attr VERB NAME... -->            the whole output of the command, as a block
    <!-- attr VERB NAME... :: PATH :: FORMAT -->1.807 ms<!-- end -->      one value of its JSON
    <!-- file NAME.json :: PATH :: FORMAT -->1.12 x<!-- end -->           one value of a file beside the recordings
    <!-- code MODULE.NAME :: FORMAT -->1 %<!-- end -->                    a constant of the program
    <!-- typed: REASON -->78 SMs at 1.83 GHz<!-- end -->                  not measured here, and why it stands here
    <!-- let CASE = attr VERB NAME... -->                                  from here on `CASE` stands for what is behind `=`

In: a text.  Out: its markers, its code, its comments, and what is wrong with them.
Misuse: inside code a marker is only text, so that it can be shown; nothing is recomputed there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = ("attr", "file", "code", "typed:")
END = re.compile(r"<!--\s*end\s*-->")
_BEGINS = re.compile(r"<!--\s*(\S+)\s")
_LET = re.compile(rf"let (?P<name>[A-Za-z][\w-]*) = (?P<stands_for>(?:{'|'.join(KINDS[:3])}) .+)")
_PIECE = re.compile(
    r"(?P<fence>^[ >]*(?P<ticks>`{3,}|~{3,})[^\n]*\n.*?(?:^[ >]*(?P=ticks)[^\n]*$|\Z))"
    r"|(?P<indented>(?:\A|(?<=\n\n))(?: {4}[^\n]*(?:\n|\Z)|\n(?= {4}))+)"
    r"|(?P<span>(?<!`)(?P<tick>`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)(?P=tick)(?!`))"
    r"|(?P<comment><!--(?P<inside>.*?)-->)",
    re.S | re.M,
)


@dataclass(frozen=True)
class Marker:
    """`kind` is one of KINDS; `spec` the rest of the comment; `body` is `text[start:end]`, what stands between."""

    kind: str
    spec: str
    body: str
    start: int
    end: int
    line: int

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}"


@dataclass(frozen=True)
class Fault:
    """Something that is no well-formed marker."""

    line: int
    reason: str


@dataclass(frozen=True)
class Parsed:
    """Markers and faults in order; `code` and `hidden` (comments, and markers with their bodies) are ranges of the text."""

    markers: tuple[Marker, ...]
    faults: tuple[Fault, ...]
    code: tuple[tuple[int, int], ...]
    hidden: tuple[tuple[int, int], ...]


def parse(text: str) -> Parsed:
    """All markers of `text`; what is wrong is a fault and never an error."""
    markers: list[Marker] = []
    faults: list[Fault] = []
    code: list[tuple[int, int]] = []
    hidden: list[tuple[int, int]] = []
    names: dict[str, str] = {}
    place = 0
    while piece := _PIECE.search(text, place):
        place, line = piece.end(), text.count("\n", 0, piece.start()) + 1
        if piece["comment"] is None:
            code.append(piece.span())
            continue
        first, _, rest = " ".join(piece["inside"].split()).partition(" ")
        kind, _, spec = f"{names.get(first, first)} {rest}".strip().partition(" ")
        if kind == "let":
            fault = _let(f"{kind} {spec}", names, line)
            faults += [fault] if fault else []
        elif kind in KINDS:
            found = _marker(text, kind, spec, names, piece.end(), line)
            if isinstance(found, Marker):
                markers.append(found)
                place = END.match(text, found.end).end()  # type: ignore[union-attr]
            else:
                faults.append(found)
        elif kind == "end":
            faults.append(Fault(line, "an end without a beginning: a marker above is misspelt or was ended twice"))
        hidden.append((piece.start(), place))
    return Parsed(tuple(markers), tuple(faults), tuple(code), tuple(hidden))


def _let(said: str, names: dict[str, str], line: int) -> Fault | None:
    """Adds a name to `names`, or says why not."""
    match = _LET.fullmatch(said)
    if match is None:
        return Fault(line, f"{said}: a name is given as: let NAME = attr VERB NAME..., or file or code instead of attr")
    if match["name"] in (*KINDS, "let", "end", *names):
        return Fault(line, f"{said}: {match['name']} has a meaning already; take another name")
    names[match["name"]] = match["stands_for"]
    return None


def _marker(text: str, kind: str, spec: str, names: dict[str, str], start: int, line: int) -> Marker | Fault:
    end = END.search(text, start)
    if end is None:
        return Fault(line, f"{kind} {spec}: is never ended; write <!-- end --> behind it")
    body = text[start : end.start()]
    if any(first in (*KINDS, *names) for first in _BEGINS.findall(body)):
        return Fault(line, f"{kind} {spec}: another marker begins before this one ends")
    if not spec:
        return Fault(line, f"{kind} says nothing more: name its source, or for typed: its reason")
    if kind == "typed:" and "\n\n" in body:
        return Fault(line, f"typed: {spec}: reaches over a blank line; an exemption is for one paragraph")
    return Marker(kind, spec, body, start, end.start(), line)
