"""Measured numbers that stand outside markers.

In: a Markdown text and its markers.  Out: each such number with its line.
A number counts as measured when it has a unit of time, rate, frequency or power, a %, a factor (1.4 x), or decimals.  In code
decimals alone count in blocks only, and not behind `=` or an option: those are declared, not printed.  In a column whose
heading has a unit, every number counts.  Sizes, counts, names and links do not.
Misuse: of numbers in words only shares are seen ("a few percent"); do not write other measurements in words ("half").
"""

from __future__ import annotations

import re

from attribution.verify.markers import Parsed

_SIGN = r"(?:[-+]|[−±~]\s?)?"
_GAP = r"(?:\s|\*\*|&\w+;|&#\w+;){0,3}"
_NAMED = (
    r"[nuµμm]?s(?:ecs?)?|(?:nano|micro|milli)?seconds?|min(?:ute)?s?|hours?|[kMGT]?Hz|[kMGTP]?FLOPS|[kMGTP]?FLOP/s"
    r"|[kMGTP]?i?B/s|bytes/s|W|watts?|°C|percent"
)
_UNIT = (
    rf"(?:{_NAMED})(?:(?![\w/])|(?=/[a-z]))"
    r"|%|×|-fold\b|[xX](?![\w/])(?!\s*[\dA-Z`])|times (?=faster|slower|as |more |less |the )"
)
WITH_UNIT = re.compile(rf"(?<!\w){_SIGN}(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?{_GAP}(?:{_UNIT})")
# The one without a unit is no part of a name, a path or a version.
DECIMAL = re.compile(rf"(?<![\w./])(?<!\w-){_SIGN}(?:\d[\d,]*)?\.\d+(?!\w*\.\d)")
# A share in words is a measurement in disguise.
IN_WORDS = re.compile(r"(?:\w+ )?(?:\bper ?cent\b|\bper mille\b|‰|\bin a (?:hundred|thousand)\b)")
_ANY = re.compile(r"(?<![\w.])\d[\d,.]*")
_LINK = re.compile(r"(?<=\])\([^)\s]*\)|<?https?://[^\s>)]+>?")
_HEADED = re.compile(rf"(?:^|[\s(,[/])(?:{_NAMED}|%|×|x|X|ratios?|factors?|speed-?ups?)(?=$|[\s),\]/[])")
_DECLARED = re.compile(r"=|(?:^|\s)--?[a-z][\w-]*\s+$")
"""Before a number on its line of code: what makes it one that was typed in."""


def unmarked(text: str, parsed: Parsed) -> list[tuple[int, str]]:
    """(line, number) of everything measured that no marker covers, in order of the text."""
    code = _blank(text, [*parsed.hidden, *_outside(parsed.code, len(text))])
    prose = _blank(text, [*parsed.hidden, *parsed.code])
    prose = _LINK.sub(lambda m: " " * len(m.group()), prose)
    found = {m.span(): m.group() for m in WITH_UNIT.finditer(code)}
    found |= _printed(code, parsed)
    found |= {m.span(): m.group() for m in DECIMAL.finditer(prose)}
    found |= {m.span(): m.group() for pattern in (IN_WORDS, WITH_UNIT) for m in pattern.finditer(prose)}
    found |= _in_columns(prose)
    out: list[tuple[int, str]] = []
    covered = -1
    # Of two readings of one number the longer one is told: 1.8 ms, not 1.8.
    for (start, end), number in sorted(found.items(), key=lambda f: (f[0][0], -f[0][1])):
        if start >= covered:
            out.append((text.count("\n", 0, start) + 1, " ".join(number.split())))
            covered = end
    return out


def _printed(code: str, parsed: Parsed) -> dict[tuple[int, int], str]:
    """Decimals in blocks of code that are neither declared nor an option's."""
    found = {}
    for start, end in parsed.code:
        if "\n" in code[start:end]:
            for m in DECIMAL.finditer(code, start, end):
                before = code[max(start, code.rfind("\n", start, m.start()) + 1) : m.start()]
                if not _DECLARED.search(before):
                    found[m.span()] = m.group()
    return found


def _blank(text: str, ranges: list[tuple[int, int]]) -> str:
    """The text with these ranges overwritten, lines kept, by what joins no number on its left to one on its right."""
    for start, end in ranges:
        text = text[:start] + re.sub(r"[^\n]", "\0", text[start:end]) + text[end:]
    return text


def _outside(ranges: tuple[tuple[int, int], ...], size: int) -> list[tuple[int, int]]:
    edges = [0, *(edge for pair in ranges for edge in pair), size]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _in_columns(prose: str) -> dict[tuple[int, int], str]:
    """Numbers of table columns whose heading has a unit."""
    found: dict[tuple[int, int], str] = {}
    units: list[bool] = []
    start = 0
    lines = prose.split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        cells = list(_cells(line, start))
        if not cells:
            units = []
        elif re.fullmatch(r"[\s|:-]+", following) and "-" in following and not units:
            units = [bool(_HEADED.search(cell)) for _, cell in cells]
        else:
            for (at, cell), has_unit in zip(cells, units, strict=False):
                if has_unit:
                    found |= {(at + m.start(), at + m.end()): m.group() for m in _ANY.finditer(cell)}
        start += len(line) + 1
    return found


def _cells(line: str, start: int) -> list[tuple[int, str]]:
    """(place in the text, content) of the cells of a table's row, which need not begin with a bar; none when the line is no row."""
    if "|" not in line:
        return []
    out, at = [], start
    for cell in re.split(r"(?<!\\)\|", line):
        out.append((at, cell))
        at += len(cell) + 1
    return out[1:] if line.lstrip().startswith("|") else out
