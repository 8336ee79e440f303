"""What a report is made of, as values: sections of texts, tables, figures and claims, all still plain text.

In: nothing.  Out: frozen dataclasses that `report_html` and `report_markdown` write, each with its own escaping.
Misuse: every string here is text as it stands in a file, never markup; only `Figure.svg` and `Claim.svg` are markup, and
`report_svg` alone makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["text", "prose", "number", "verdict", "code"]


@dataclass(frozen=True)
class Column:
    """One column of a table; numbers go to the right, verdicts are marked, code has one width, prose is given room."""

    head: str
    kind: Kind = "text"


NUMBER: Final = "number"
VERDICT, REASON = Column("verdict", "verdict"), Column("reason", "prose")


@dataclass(frozen=True)
class Table:
    """Cells are the texts that a reader sees, a row as long as `columns`; `note` stands below."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A drawing with its text alternative: what somebody must know who does not see it."""

    title: str
    alt: str
    svg: str


@dataclass(frozen=True)
class Text:
    """A paragraph; `missing` says that something was not recorded or was refused, and why."""

    text: str
    missing: bool = False


@dataclass(frozen=True)
class Claim:
    """One answer: the question, the ratio with its interval, what was expected, and the checks as (label, text)."""

    arm: str
    where: str
    asks: str
    ratio: str
    verdict: str
    expected: str
    expectation: str
    svg: str
    checks: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Claims:
    """All claims about one base, with the axis that their intervals share."""

    base: str
    axis: str
    rows: tuple[Claim, ...]


Block = Table | Figure | Text | Claims


@dataclass(frozen=True)
class Section:
    """`anchor` names it in the page's address; `lead` says in one or two sentences how to read it."""

    anchor: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Report:
    """A whole report; `command` is what makes it again, `facts` stand under the title as (label, text)."""

    title: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    command: str
    stamp: str
