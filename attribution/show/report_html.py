"""A report as one HTML file: no script, no request, its style inside; readable from disk on a phone and on a wide screen.

In: a `Report`.  Out: the text of the page.
Names come from files: every text passes `escape`, and the page forbids itself all scripts and all addresses besides.
Misuse: no text may be put into the page around `_e`; figures are the only markup that is taken as it is.
"""

from __future__ import annotations

from html import escape
from importlib import resources

from attribution.show.report_blocks import Block, Claim, Claims, Column, Figure, Report, Section, Table, Text

NARROW = 4
"""Columns up to which a table without prose is only as wide as its cells."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
GOOD = ("supported", "closes", "agree", "survives", "measured")
BAD = ("refuted", "void", "does not close", "witnesses disagree", "disagree")
TONES = {"faster": "faster", "slower": "slower", **dict.fromkeys(GOOD, "good"), **dict.fromkeys(BAD, "bad")}
"""The colour of a verdict; the word itself always stands there too."""


def html(report: Report) -> str:
    """The whole page."""
    style = resources.files("attribution.show").joinpath("report.css").read_text(encoding="utf-8")
    facts = "".join(f"<div><dt>{_e(name)}</dt><dd>{_e(value)}</dd></div>" for name, value in report.facts)
    links = "".join(f'<a href="#{_e(s.anchor)}">{_e(s.title)}</a>' for s in report.sections)
    body = "".join(_section(section) for section in report.sections)
    return (
        f'<!doctype html>\n<!-- {_e(report.command)} -->\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{_e(report.title)} · attribution</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header><p class="kicker">Attribution report</p><h1>{_e(report.title)}</h1>'
        f'<p class="sentence">{_e(report.sentence)}</p><dl class="facts">{facts}</dl></header>\n'
        f'<nav aria-label="Sections">{links}</nav>\n<main>\n{body}</main>\n'
        f"<footer><p>Made by {_e(report.stamp)} with <code>{_e(report.command)}</code>. Every number is computed from the "
        "recording.</p></footer>\n</body>\n</html>\n"
    )


def _e(text: str) -> str:
    return escape(text, quote=True)


def _section(section: Section) -> str:
    blocks = "".join(_block(block) for block in section.blocks)
    head = f'<h2>{_e(section.title)}</h2><p class="lead">{_e(section.lead)}</p>'
    return f'<section id="{_e(section.anchor)}">{head}{blocks}</section>\n'


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f'<p class="{"missing" if block.missing else "plain"}">{_e(block.text)}</p>'
    if isinstance(block, Figure):
        return f"<figure><figcaption>{_e(block.title)}</figcaption>{block.svg}</figure>"
    return _table(block) if isinstance(block, Table) else _claims(block)


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col" class="{c.kind}">{_e(c.head)}</th>' for c in table.columns)
    rows = "".join(
        "<tr>" + "".join(_cell(c, v) for c, v in zip(table.columns, row, strict=True)) + "</tr>" for row in table.rows
    )
    note = f'<p class="note">{_e(table.note)}</p>' if table.note else ""
    scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="{_e(table.title)}">'
    body = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    size = "table" if any(c.kind == "prose" for c in table.columns) or len(table.columns) > NARROW else "table narrow"
    return f'<div class="{size}"><h3>{_e(table.title)}</h3>{scroll}{body}</div>{note}</div>'


def _cell(column: Column, value: str) -> str:
    if column.kind == "verdict":
        return f'<td class="verdict">{_verdict(value)}</td>'
    text = f"<code>{_e(value)}</code>" if column.kind == "code" and value else _e(value)
    return f'<td class="{column.kind}">{text}</td>'


def _verdict(word: str) -> str:
    return f'<span class="badge {TONES.get(word, "open")}">{_e(word)}</span>' if word else ""


def _claims(claims: Claims) -> str:
    rows = "".join(_claim(claim) for claim in claims.rows)
    head = f"<h3>Time against <code>{_e(claims.base)}</code></h3>"
    return f'<div class="claims">{head}<div class="claim-axis"><span></span>{claims.axis}</div>{rows}</div>'


def _claim(claim: Claim) -> str:
    checks = "".join(f"<div><dt>{_e(label)}</dt><dd>{_e(value)}</dd></div>" for label, value in claim.checks)
    expected = f"expected {_e(claim.expected)}: {_verdict(claim.expectation)}" if claim.expected else ""
    return (
        f'<details class="claim"><summary><span class="arm"><code>{_e(claim.arm)}</code><small>{_e(claim.where)}</small></span>'
        f'<span class="plot">{claim.svg}</span><span class="ratio">{_e(claim.ratio)}</span>'
        f'<span class="says">{_verdict(claim.verdict)}{_verdict(claim.expectation)}</span></summary>'
        f'<p class="asks">{_e(claim.asks)}</p><p class="expects">{expected}</p><dl class="checks">{checks}</dl></details>'
    )
