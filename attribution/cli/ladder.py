"""`attr ladder PATH`: what each rung adds, with intervals, and how declared factor pairs interact; of a sweep at all points."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attribution.cli.options import Json, Point, Scope, open_named
from attribution.cli.output import print_json, print_rows
from attribution.cli.timed import check_timed
from attribution.plan import NULL
from attribution.show.cells import account_ms, interval_ms, short_ratio, short_share
from attribution.tables import records

if TYPE_CHECKING:
    from attribution.recording import Recording


def ladder(
    path: Annotated[Path, typer.Argument(help="A recording.")],
    base: Annotated[
        str | None, typer.Option("--base", help="Top rung; the first question's base when not given.")
    ] = None,
    stage: Annotated[str, typer.Option("--stage", help="Stage that is compared.")] = "main",
    scope: Scope = None,
    point: Point = None,
    json: Json = False,
) -> None:
    """Show the cumulative rungs below a base: what each adds, paired round by round, and the interactions.

    A step whose rungs did unequal work that they should share is void. Of a sweep without --point: all points side by side, and
    the other arms of the same base.
    """
    from attribution.analyze import point as points
    from attribution.analyze.clock import UNLIKE
    from attribution.analyze.interventions import check_known, choose_scope
    from attribution.claim import scope_sentence

    recording = open_named(path)
    top = check_known(recording, base)
    check_timed(recording, stage)
    label = choose_scope(recording.table("times"), scope, stage)
    if point is None and len(names := points.names(recording)) > 1:
        _side_by_side(recording, {name: points.at(recording, name) for name in names}, (top, stage, label), json)
        return
    recording = points.at(recording, point)
    found = _of(recording, top, stage, label)
    if json:
        print_json(found)
        return
    steps = found["steps"]
    print(f"Ladder below {top}, stage {stage}, {steps[0]['scope']}, {steps[0]['rounds']} paired rounds\n")
    shown = [
        {**s, "ms": f"{s['time_ns'] / 1e6:.3f}", "step": interval_ms(s, "step"), "share": f"{s['step_share']:.1%}"}
        | {"clock": f"{s['clock_mhz']:.0f}", "cycles": short_share(s, "cycles_share")}
        for s in steps
    ]
    heads = {"rung": "rung", "adds": "adds", "ms": "ms", "step": "step, ms [95 %]", "share": f"of {top}"}
    clocks = [s["clock_mhz"] for s in steps]
    if clocked := max(clocks) > min(clocks) * (1 + UNLIKE):
        heads |= {"clock": "MHz", "cycles": f"in cycles, of {top}"}
    print_rows(shown, {**heads, "verdict": "verdict", "reason": "reason"})
    if clocked:
        print("\nA step of time is one of cycles and one of the clock, which falls with the power that a rung draws.")
    for pair in found["interactions"]:
        print(f"\n{pair['factors']} ({pair['variant']}): {pair['verdict']}; {pair['reason']}")
        if pair["rounds"]:
            alone, changed = pair["alone_ns"] / 1e6, pair["changed_ns"] / 1e6
            print(
                f"    {pair['off']}: {alone:.3f} ms alone, {changed:.3f} ms with {pair['variant']}; interaction {_term(pair)} ms"
            )
    print(f"\n{scope_sentence(recording, label)}")


def _of(recording: Recording, top: str, stage: str, scope: str | None) -> dict[str, Any]:
    """Rungs and interactions of one point.  Raises InputError, DataError."""
    from attribution.analyze import interactions as terms
    from attribution.analyze import ladder as rungs

    tables = {n: recording.table(n) for n in ("runs", "times", "counters", "checks")}
    variants, tick = recording.manifest["variants"], float(recording.manifest["machine"]["tick_ns"])
    steps = records(rungs.ladder(tables, variants, top, stage, scope, tick))
    return {
        "base": top,
        "steps": steps,
        "interactions": records(terms.interactions(tables, variants, stage, scope, tick)),
    }


def _side_by_side(whole: Recording, at: dict[str, Recording], where: tuple[str, str, str | None], json: bool) -> None:
    """Rungs as shares of the base and the other arms as ratios to it: a row each, a column a point."""
    from attribution.claim import answers, scope_sentence

    top, stage, scope = where
    found = {name: _of(one, *where) for name, one in at.items()}
    for name, each in found.items():
        rungs = {NULL, *(step["rung"] for step in each["steps"])}
        mine = records(answers(at[name], None, scope))
        each["beside"] = [r for r in mine if r["question"] == top and r["arm"] not in rungs]
    if json:
        print_json({"base": top, "points": [{"point": name, **each} for name, each in found.items()]})
        return
    first = next(iter(found.values()))["steps"][0]
    print(
        f"Ladder below {top}, stage {stage}, {first['scope']}, {first['rounds']} paired rounds: shares of {top} [95 %]\n"
    )
    rows: dict[str, dict[str, str]] = {}
    for name, each in found.items():
        for step in each["steps"]:
            rows.setdefault(step["adds"], {})[name] = short_share(step, "step_share")
        rows.setdefault(f"{top}, ms", {})[name] = f"{each['steps'][-1]['time_ns'] / 1e6:.3f}"
        for pair in each["interactions"]:
            rows.setdefault(f"{pair['factors']}, ms", {})[name] = _term(pair)
    _print(rows, "adds", at)
    print(f"\nOther arms: time ratio to {top} [95 %], of the stage that each asks about\n")
    rows = {}
    for name, each in found.items():
        for arm in each["beside"]:
            of = "" if arm["stage"] == stage else f" ({arm['stage']})"
            rows.setdefault(arm["arm"] + of, {})[name] = short_ratio(arm)
    _print(rows, "arm", at)
    print("\n? undecided: `--point` says why.  Points were measured one after another, and are no pairs.")
    print(scope_sentence(whole, first["scope"]))


def _print(rows: dict[str, dict[str, str]], head: str, points: Iterable[str]) -> None:
    """A table of what -> point -> cell, wide enough for six points."""
    print_rows(
        [{head: what, **cells} for what, cells in rows.items()], {head: head, **{p: p for p in points}}, room=190
    )


def _term(pair: dict[str, Any]) -> str:
    """An interaction in ms with its interval."""
    return account_ms({**pair, "time_ns": pair["term_ns"]})
