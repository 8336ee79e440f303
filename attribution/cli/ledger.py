"""`attr ledger PATH`: every microsecond with its owner, each term beside its second witness, and what has no owner."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribution.cli.options import Json, Point, Scope, open_point
from attribution.cli.output import print_json, print_rows
from attribution.show.cells import account_ms, interval_share, witness
from attribution.tables import records

if TYPE_CHECKING:
    from attribution.analyze.book import Book


def ledger(
    path: Annotated[Path, typer.Argument(help="A recording.")],
    base: Annotated[
        str | None, typer.Option("--base", help="Top rung; the first question's base when not given.")
    ] = None,
    scope: Scope = None,
    practical_tflops: Annotated[
        float | None,
        typer.Option("--practical-tflops", min=0, help="Measured ceiling, where the recording holds none."),
    ] = None,
    spec_tflops: Annotated[
        float | None, typer.Option("--spec-tflops", min=0, help="Data sheet's ceiling, for a chip that is not known.")
    ] = None,
    flop_per_cycle: Annotated[
        float | None, typer.Option("--flop-per-cycle", min=0, help="Peak matrix FLOP per cycle and SM.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the waterfall into this .svg or .png file.")] = None,
    point: Point = None,
    json: Json = False,
) -> None:
    """Close the account of a recording: operator = stages + gaps, main = floor + ladder + remainder.

    The operator's account is of scope cupti where that was measured and no other is named: stages and gaps of one timeline. The
    remainder is measured apart, by the null arm. Witnesses that disagree are shown with both values, never averaged.
    """
    from attribution.analyze.book import Peak, book
    from attribution.analyze.interventions import check_known
    from attribution.claim import scope_sentence

    recording = open_point(path, point)
    top = check_known(recording, base)
    peak = Peak(_or_nan(practical_tflops, 1e12), _or_nan(spec_tflops, 1e12), _or_nan(flop_per_cycle, 1.0))
    found = book(recording, top, scope, peak)
    if plot is not None:
        from attribution.show.waterfall import draw_waterfall

        draw_waterfall(found.main, plot, f"{recording.path.name}: main kernel of {top}")
    if json:
        parts = ("operator", "main", "beside", "witnesses")
        print_json({"base": top, "scope": found.scope, **{p: records(getattr(found, p)) for p in parts}})
        return
    _print(found)
    print(f"\n{scope_sentence(recording, found.scope)}")
    if plot is not None:
        print(f"figure: {plot}")


def _or_nan(value: float | None, unit: float) -> float:
    return math.nan if value is None else value * unit


def _print(found: Book) -> None:
    heads = {"item": "item", "ms": "ms [95 %]", "share": "share", "verdict": "verdict", "reason": "reason"}
    for title, frame in (("Operator = stages + gaps", found.operator), ("Main kernel", found.main)):
        scope = frame["scope"].iloc[0] if len(frame) else found.scope
        print(f"{title} ({found.base}, {scope})\n")
        rows = [
            {
                "item": r["item"], "ms": account_ms(r),
                "share": f"{r['share']:.2%}", "verdict": r["verdict"], "reason": r["reason"],
            }
            for r in records(frame)
        ]  # fmt: skip
        print_rows(rows or [{"item": "-", "reason": "no scope has both the operator and its stages"}], heads)
        print()
    print("Second witnesses, each as a share of its own total\n")
    rows = [
        {
            "term": r["term"],
            "first": witness(r, "first"), "second": witness(r, "second"),
            "apart": interval_share(r["difference"]),
            "allowed": interval_share(r["tolerance"]),
            "verdict": "; ".join(t for t in (r["verdict"], r["note"]) if t),
        }
        for r in records(found.witnesses)
    ]  # fmt: skip
    print_rows(rows)
    beside = records(found.beside)
    if beside:
        print(
            "\nThe SM that finishes last, shares of its own time in the traced build; tail = last - mean finish = by rows + spread"
        )
        print_rows([{"item": r["item"], "share": interval_share(r["share"], r["low"], r["high"])} for r in beside])
