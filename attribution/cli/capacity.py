"""`attr capacity PATH...`: which limit of the candidate lists fails, how often, what that costs, and layout against layout."""

from __future__ import annotations

from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attribution.cli.options import Json, Scope, open_each
from attribution.cli.output import print_json, print_rows
from attribution.cli.timed import check_timed
from attribution.errors import InputError
from attribution.measured import TRACED
from attribution.plan import NULL
from attribution.show.cells import interval_ratio
from attribution.tables import records

if TYPE_CHECKING:
    from attribution.recording import Recording

REPAIR = "repair"


def capacity(
    paths: Annotated[list[Path], typer.Argument(help="Recordings that counted failing rows; one or more.")],
    scope: Scope = None,
    stage: Annotated[str, typer.Option("--stage", help="Stage that takes failed rows.")] = REPAIR,
    json: Json = False,
) -> None:
    """Show failing rows by limit, distribution and sampling seed, the exception path, and the layouts' times.

    Rates have intervals: no failure in n rows still leaves about 3.7 in n possible.
    """
    from attribution.claim import scope_sentence

    opened = open_each(paths)
    found = [_account(recording, scope, stage) for recording in opened]
    names = [recording.path.name for recording in opened]
    parts = {k: [{"recording": n, **r} for n, f in zip(names, found, strict=True) for r in f[k]] for k in found[0]}
    if json:
        print_json(parts)
        return
    _print(parts, stage, len(opened) > 1)
    for sentence in dict.fromkeys(scope_sentence(recording) for recording in opened):
        print(f"\n{sentence}")


def _account(recording: Recording, scope: str | None, stage: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of the three tables.  Raises InputError for a recording without them, DataError."""
    from attribution.analyze import capacity as limits
    from attribution.analyze.interventions import check_known, choose_scope
    from attribution.analyze.versions import computes_all

    check_known(recording, None)
    tables = {n: recording.table(n) for n in ("runs", "times", "checks", "counters", "capacity")}
    if tables["capacity"].empty:
        raise InputError(f"{recording.path.name} counted no failing rows: measure a kernel that names its limits")
    # A kernel without an exception path has no time of the stage that is looked at unasked.
    if stage != REPAIR:
        check_timed(recording, stage)
    runs = tables["runs"]
    runs = runs[(runs["status"] == "ok") & ~runs["arm"].astype(str).str.endswith(TRACED)]
    if runs.empty:
        raise InputError(
            f"{recording.path.name} has no run that ended well: `attr show {recording.path.name}` says why"
        )
    # A control that selects nothing cannot fail.
    runs = runs[[computes_all(loads(str(flags)), "operator") for flags in runs["flags"]]]
    counted = tables["capacity"][tables["capacity"]["run"].isin(runs["run"])]
    failed = limits.by_layout(runs, limits.failures(runs, counted))
    label = choose_scope(tables["times"], scope, stage) or choose_scope(tables["times"], None, "operator")
    path = limits.exception_path({**tables, "runs": runs}, stage, label)
    against = limits.against_base(recording, {**tables, "runs": runs}, label)
    frames = {"failures": failed, "exception_path": path, "against_base": against}
    return {k: [r for r in records(f) if r["arm"] != NULL] for k, f in frames.items()}


def _print(parts: dict[str, list[dict[str, Any]]], stage: str, several: bool) -> None:
    where = {"recording": "recording"} if several else {}
    # An arm of two questions is measured in each.
    asked = {(r["recording"], r["question"]) for r in parts["failures"]}
    where |= {"question": "base"} if len(asked) > len({recording for recording, _ in asked}) else {}
    where |= {"arm": "arm", "shape": "shape", "distribution": "distribution"}
    limits = [k for r in parts["failures"][:1] for k in r if k not in NOT_LIMITS]
    print("Failing rows, by limit; a row fails once\n")
    heads = {**where, "sample_seed": "sampling seed", "layout": "layout", "entries": "entries", "spill": "spill"}
    heads |= {limit: limit for limit in limits} | {"of": "of rows", "rate": "rate [95 %]"}
    print_rows([{**r, "rate": _rate(r)} for r in parts["failures"]], heads)
    print(f"\nThe exception path (stage {stage})\n")
    heads = {
        **where,
        "failing_rows": "failing rows a run",
        "ms": "ms",
        "share": "of the operator",
        "launches": "launches",
    }
    heads |= {"idle": "ms when nothing fails", "each": "us a failing row [95 %]"}
    rows = [
        {
            **r, "ms": f"{r['time_ns'] / 1e6:.4f}", "share": f"{r['share']:.2%}",
            "idle": "-" if r["idle_ns"] != r["idle_ns"] else f"{r['idle_ns'] / 1e6:.4f}", "each": _each(r),
        }
        for r in parts["exception_path"]
    ]  # fmt: skip
    print_rows(rows, heads) if rows else print(f"no time of stage {stage}")
    if not parts["against_base"]:
        return
    print("\nComplete operator against the base\n")
    heads = {
        **{k: v for k, v in where.items() if k != "question"},
        "base": "base",
        "ratio": "time ratio [95 %]",
        "verdict": "verdict",
        "reasons": "reasons",
    }
    print_rows([{**r, "ratio": interval_ratio(r)} for r in parts["against_base"]], heads)


NOT_LIMITS = {
    *("recording", "question", "arm", "layout", "entries", "spill", "shape", "distribution", "sample_seed"),
    *("failures", "of", "rate", "rate_low", "rate_high"),
}


def _rate(row: dict[str, Any]) -> str:
    return f"{row['rate']:.2%} [{row['rate_low']:.2%}, {row['rate_high']:.2%}]"


def _each(row: dict[str, Any]) -> str:
    value, low, high = (row[f"per_failure{end}_ns"] / 1e3 for end in ("", "_low", "_high"))
    if value != value:
        return "-"
    return f"{value:.2f}" if low != low else f"{value:.2f} [{low:.2f}, {high:.2f}]"
