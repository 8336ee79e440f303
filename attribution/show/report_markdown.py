"""A report as Markdown between two markers, for a README: tables and sentences, figures by their text alternatives.

In: a `Report`.  Out: a text that begins with `<!-- COMMAND -->` and ends with `<!-- end -->`.
Misuse: names come from files; a text that could be markup, a marker or a table's border is escaped.
"""

from __future__ import annotations

import re

from attribution.show.report_blocks import Block, Claims, Column, Figure, Report, Section, Table, Text

SPECIAL = re.compile(r"([\\`*\[\]|~])")
OUTER_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
CLAIM_COLUMNS = (
    Column("arm", "code"), Column("stage · scope"), Column("time ratio [95 %]", "number"), Column("verdict"),
    Column("expected"), Column("so it is"), Column("question"),
)  # fmt: skip


def markdown(report: Report) -> str:
    """The whole report, headings from the second level on."""
    facts = " · ".join(f"{_m(name)} {_m(value)}" for name, value in report.facts)
    parts = [f"**{_m(report.title)}** · {facts}" if facts else f"**{_m(report.title)}**", _m(report.sentence)]
    parts += [_section(section) for section in report.sections]
    return f"<!-- {report.command} --markdown -->\n" + "\n\n".join(parts) + "\n<!-- end -->\n"


def _m(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    flat = " ".join(text.split())
    safe = SPECIAL.sub(r"\\\1", flat)
    safe = OUTER_UNDERSCORE.sub(r"\\_", safe)
    return safe.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _section(section: Section) -> str:
    return "\n\n".join([f"## {_m(section.title)}", _m(section.lead), *(_block(block) for block in section.blocks)])


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f"*{_m(block.text)}*" if block.missing else _m(block.text)
    if isinstance(block, Figure):
        return f"Figure: {_m(block.title)}. {_m(block.alt)}"
    return _table(block) if isinstance(block, Table) else _claims(block)


def _claims(claims: Claims) -> str:
    rows = tuple(
        (c.arm, c.where, c.ratio, c.verdict, c.expected, c.expectation, c.asks) for c in claims.rows
    )  # fmt: skip
    return _table(Table(f"Time against {claims.base}", CLAIM_COLUMNS, rows))


def _table(table: Table) -> str:
    heads = "| " + " | ".join(_m(c.head) for c in table.columns) + " |"
    rule = "|" + "|".join("---:" if c.kind == "number" else "---" for c in table.columns) + "|"
    rows = ["| " + " | ".join(_m(v) for v in row) + " |" for row in table.rows]
    lines = [f"**{_m(table.title)}**", "", heads, rule, *rows]
    return "\n".join([*lines, "", _m(table.note)] if table.note else lines)
