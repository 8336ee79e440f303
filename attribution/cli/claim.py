"""`attr claim [RECORDING...]`: what was expected before measuring, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from attribution.cli.options import Json, Traces, open_each, recordings_in
from attribution.cli.output import print_json, print_rows, progress_bar
from attribution.show.cells import harmless, point_names
from attribution.tables import records

COLUMNS = {
    "recording": "recording",
    "arm": "arm",
    "stage": "stage",
    "scope": "scope",
    "quantity": "quantity",
    "expected": "expected",
    "measured": "measured [95 %]",
    "claim": "so it is",
}
OVERTURNED = {k: COLUMNS[k] for k in ("recording", "arm", "expected", "scope", "measured")} | {"asks": "question"}


def claim(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Recordings; all of the shipped ones when none is given.")
    ] = None,
    overturned: Annotated[
        bool, typer.Option("--overturned", help="Only the expectations that were refuted, as one table.")
    ] = False,
    traces: Traces = None,
    json: Json = False,
) -> None:
    """Judge every expectation: supported, refuted or undecided, with each check and the reason.

    A void or doubtful contrast, a voided recording, or another machine than the expectation speaks of decides nothing.
    """
    from attribution.claim import expectations

    recordings = open_each(paths, traces) if paths else recordings_in(traces)
    with progress_bar(quiet=json or len(recordings) == 1) as progress:
        found = expectations.claims(recordings, progress)
        progress(len(recordings), len(recordings), "done")
    rows = records(expectations.overturned(found) if overturned else found)
    counts = {word: int((found["claim"] == word).sum()) for word in ("supported", "refuted", "undecided")}
    if json:
        print_json({"claims": rows, **counts})
        return
    if overturned:
        print_rows(_overturned(rows, records(found)), OVERTURNED)
    else:
        _print(rows)
    told = ", ".join(f"{word} {n}" for word, n in counts.items())
    print(f"\nExpectations: {len(found)}; {told}. Recordings: {len(recordings)}.")


def _print(rows: list[dict[str, Any]]) -> None:
    swept = len({(row["recording"], _point(row)) for row in rows}) > len({row["recording"] for row in rows})
    points = point_names(rows) if swept else [""] * len(rows)
    heads = {"recording": "recording", **({"point": "point"} if swept else {}), **COLUMNS}
    print_rows([{**_shown(row), "point": point} for row, point in zip(rows, points, strict=True)], heads)
    if rows:
        print()
    for row in rows:
        print(f"{row['arm']} ({row['recording']}, {row['scope']}, {row['shape']}): {row['asks']}")
        print(harmless(f"    {row['claim']}: {row['reason']}"))
        print(harmless("    " + _checked(row["checks"])))


def _overturned(rows: list[dict[str, Any]], every: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each expectation, with every scope that refuted it; of a sweep the point that is farthest off."""
    lines: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        lines.setdefault(_asked(row), []).append(row)
    asked: dict[tuple[str, ...], set[str]] = {}
    for row in every:
        asked.setdefault(_asked(row), set()).add(_point(row))
    return [_line(refuted, len(asked[key])) for key, refuted in lines.items()]


def _asked(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[key] for key in ("recording", "question", "arm", "quantity"))


def _point(row: Mapping[str, Any]) -> str:
    return f"{row['distribution']}, {row['shape']}"


def _line(refuted: list[dict[str, Any]], points: int) -> dict[str, Any]:
    """The line of one expectation that was asked at so many points."""
    worst = max(refuted, key=_off)
    shown = [_shown(row) for row in refuted if _point(row) == _point(worst)]
    line = {**shown[0], "scope": "\n".join(row["scope"] for row in shown)}
    line["measured"] = "\n".join(row["measured"] for row in shown)
    if points > 1:
        there = len({_point(row) for row in refuted})
        line["measured"] += f"\n{there} of {points} points, this one\nfarthest off: {_point(worst)}"
    return line


def _off(row: Mapping[str, Any]) -> float:
    """How far a value lies outside of what was expected, as a share of the end that it passed."""
    low, high = row["expected_low"], row["expected_high"]
    return float(max(row["value"] / high - 1 if high > 0 else 0.0, 1 - row["value"] / low if low > 0 else 0.0))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    from attribution.claim.expectations import shown

    q = row["quantity"]
    known = row["pairs"] > 0
    # One round has a value and no interval.
    interval = "" if row["low"] != row["low"] else f" {shown(q, row['low'], row['high'])}"
    measured = shown(q, row["value"]) + interval if known else "-"
    expected = shown(q, row["expected_low"], row["expected_high"])
    return {**row, "scope": row["scope"].split("/")[0], "expected": expected, "measured": measured}


def _checked(checks: list[dict[str, Any]]) -> str:
    """The checks by name, in two groups; equal work with what was counted."""
    named = [c for c in checks if c["check"] not in ("interval", "contrast")]
    passed = [
        f"{c['check']} ({c['detail']})" if c["check"] == "equal work" else c["check"] for c in named if c["passed"]
    ]
    others = [
        f"{c['check']} ({c['detail']})" if c["check"] == "rounds" else c["check"] for c in named if not c["passed"]
    ]
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in (("passed", passed), ("not", others)) if names)
