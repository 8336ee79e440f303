"""`attr overlap PATH`: what each role does while the others work, and the path that holds up the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attribution.cli.options import Json, Point, open_point
from attribution.cli.output import print_json, print_rows
from attribution.errors import InputError
from attribution.tables import records


def overlap(
    path: Annotated[Path, typer.Argument(help="A recording with a trace.")],
    arm: Annotated[str | None, typer.Option("--arm", help="Arm; the first question's base when not given.")] = None,
    run: Annotated[
        int | None, typer.Option("--run", min=0, help="Run; the arm's first traced one when not given.")
    ] = None,
    point: Point = None,
    json: Json = False,
) -> None:
    """Show per role: processing, waiting for whom, hidden, exposed, fill and drain; and the critical path of the last SM."""
    from attribution.analyze import critical, lastsm, steady
    from attribution.analyze import overlap as analyze
    from attribution.analyze.traced import traced

    recording = open_point(path, point)
    trace = traced(recording, arm, run)
    if trace is None:
        raise InputError(f"{path} has no trace: measure with --flag TRACE=1")
    roles = [_with_steady(row) for row in trace.role_rows()]
    waits = records(analyze.waits(trace.spans))
    way = critical.path(trace.spans)
    sums = records(critical.summary(way))
    last = records(lastsm.account(trace.spans))[0] if len(roles) > 1 else {}
    consumer = str(trace.spans["role"].cat.categories[-1])
    hidden = steady.hidden(trace.spans, consumer) if (trace.spans["role"] == consumer).any() else None
    if json:
        print_json(
            {
                "arm": trace.arm,
                "run": trace.run,
                "roles": roles,
                "waits": waits,
                "critical_path": sums,
                "last_sm": last,
                "hidden": vars(hidden) if hidden else None,
                "stretches": records(way),
            }
        )
        return
    if trace.left_out:
        print(f"{trace.left_out}\n")
    print(f"Roles of {trace.arm}, run {trace.run}: sums over its CTAs, ms")
    heads = {k: k.removesuffix("_ns").replace("_", " ") for k in roles[0]}
    print_rows([{k: v / 1e6 if k.endswith("_ns") else v for k, v in r.items()} for r in roles], heads)
    awaited = [f"{w['role']} for {w['waits_for'] or 'nobody in particular'} {w['time_ns'] / 1e6:.4g}" for w in waits]
    print(f"exposed = fill + steady + drain; waits, ms: {', '.join(awaited) or 'none'}")
    print(
        "busy fraction = processing / (processing + wait ready): a role that is seldom busy has slack.  Not known where no wait\n"
        "for data was traced (TRACE = 1 leaves out those for single tiles): they count as processing."
    )
    whose = "which finishes last" if not trace.left_out else "the last of these to finish"
    print(f"\nCritical path on SM {way['sm'].iloc[0]}, {whose}: {len(way)} stretches")
    rows = [
        {"role": s["role"], "kind": s["kind"], "ms": s["time_ns"] / 1e6, "share": f"{s['share']:.1%}"} for s in sums
    ]
    print_rows(rows)
    if last:
        shares = ", ".join(f"{k.replace('_', ' ')} {last[k]:.1%}" for k in lastsm.SHARES)
        print(f"\nSM {last['sm']}, of its {last['total_ns'] / 1e6:.3f} ms: {shares}")
    if hidden:
        behind = f"{hidden.without_last:.1%} of the {hidden.steady}" if hidden.steady else "none of them is"
        print(
            f"{consumer} hidden: {hidden.with_last:.1%} of {hidden.intervals} intervals, {behind} in steady state "
            "(each CTA's last, which nothing can hide, left out)"
        )
    print("Durations of a traced build locate; hidden work that is made faster turns into waiting.")


def _with_steady(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `overlap.roles` with what is exposed in neither fill nor drain, between the two."""
    steady = row["exposed_ns"] - row["fill_ns"] - row["drain_ns"]
    names = list(row)
    names.insert(names.index("drain_ns"), "steady_ns")
    return {name: steady if name == "steady_ns" else row[name] for name in names}
