"""`attr tails PATH`: rows, busy and finish time of every SM, and which quantity explains the time of the last one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attribution.cli.options import Json, Point, Scope, open_point
from attribution.cli.output import print_json, print_rows
from attribution.errors import DataError
from attribution.tables import records


def tails(
    path: Annotated[Path, typer.Argument(help="A recording.")],
    arm: Annotated[str | None, typer.Option("--arm", help="Arm whose SMs are shown; the base when not given.")] = None,
    base: Annotated[
        str | None, typer.Option("--base", help="Base of the interventions; the first question's when not given.")
    ] = None,
    intervention: Annotated[
        list[str] | None, typer.Option("--intervention", help="Arm to fit the law on; may be repeated.")
    ] = None,
    scope: Scope = None,
    point: Point = None,
    json: Json = False,
) -> None:
    """Show who finishes last, and test T = a + b x rows on the busiest SM against its rivals on held-out interventions.

    Interventions are arms that change only launch knobs or BLOCK_Q.
    """
    from attribution.analyze import interventions as moved
    from attribution.analyze.clock import clock_sentence
    from attribution.analyze.tails import summary
    from attribution.analyze.traced import traced, traced_runs
    from attribution.claim import scope_sentence

    recording = open_point(path, point)
    top = moved.check_known(recording, base)
    trace = traced(recording, arm or top) if arm or len(traced_runs(recording, top, top)) else None
    sms = trace.sm_rows() if trace else []
    whole = records(summary(trace.per_sm))[0] if trace and not trace.left_out else {}
    label = moved.choose_scope(recording.table("times"), scope)
    found = moved.interventions(recording, top, intervention or (), scope=label)
    table, rivals, refused, apart = records(found.table), [], "", records(found.apart)
    alone = records(found.tail_alone())
    try:
        rivals = records(found.compare())
    except DataError as error:
        refused = str(error)
    if json:
        print_json(
            {
                "scope": found.rounds.scope,
                "summary": whole,
                "sms": sms,
                "interventions": table,
                "clock_mhz": found.clock_mhz,
                "tail_alone": alone,
                "explanations": rivals,
                "refused": refused,
                "apart": apart,
            }
        )
        return
    if trace and trace.left_out:
        print(trace.left_out)
    elif trace:
        _print_sms(trace.arm, trace.run, sms, whole)
    print(f"\nInterventions of {top} ({found.rounds.scope}, {len(found.rounds.rounds)} paired rounds)")
    print_rows(
        [{**r, "time_ns": r["time_ns"] / 1e6} for r in table],
        {**{k: k.replace("_", " ") for k in table[0]}, "time_ns": "ms"},
    )
    if sentence := clock_sentence(top, found.clock_mhz, recording.manifest["machine"]["kind"], found.rounds.scope):
        print(sentence)
    _print_alone(alone)
    if refused:
        print(f"\nNo law: {refused}")
    else:
        _print_law(rivals)
        _print_apart(apart)
    print(f"\n{scope_sentence(recording, found.rounds.scope)}")


def _print_sms(arm: str, run: int, sms: list[dict[str, Any]], whole: dict[str, Any]) -> None:
    print(f"SMs of {arm}, run {run}")
    shown = [{**r, "busy_ns": r["busy_ns"] / 1e6, "finish_ns": r["finish_ns"] / 1e6} for r in sms]
    print_rows(shown, {"sm": "SM", "ctas": "CTAs", "rows": "rows", "busy_ns": "busy, ms", "finish_ns": "finish, ms"})
    last, mean = whole["finish_ns"] / 1e6, whole["mean_finish_ns"] / 1e6
    print(
        f"\nbusiest SM: {whole['busiest_sm_rows']} rows ({whole['sms_with_it']} SMs with as many), "
        f"mean {whole['mean_rows']:.3f}, {whole['idle_sms']} SMs without rows, {whole['waves']} CTAs on the fullest SM; "
        f"last finish {last:.3f} ms, mean {mean:.3f}: tail {1 - mean / last:.1%}"
    )


def _print_alone(alone: list[dict[str, Any]]) -> None:
    if not alone:
        return
    print("\nThe tail alone: if time went as rows on the busiest SM")
    shown = [
        {
            **r,
            **{k: f"{r[k]:.4f} [{r[f'{k}_low']:.4f}, {r[f'{k}_high']:.4f}]" for k in ("measured", "unexplained")},
            "predicted": f"{r['predicted']:.4f}",
        }
        for r in alone
    ]
    heads = {"arm": "arm", "predicted": "time ratio by rows", "measured": "measured [95 %]"}
    print_rows(shown, {**heads, "unexplained": "left over, a factor [95 %]"})


def _print_law(rivals: list[dict[str, Any]]) -> None:
    print("\nExplanations T = a + b x, tested on interventions that were held out")
    rows = [
        {
            "x": r["explanation"],
            "a": _number(r["intercept_ns"] / 1e6),
            "b": _slope(r),
            "error": "-" if r["error_max"] != r["error_max"] else f"{r['error_max']:.1%}",
            "verdict": r["verdict"],
            "reason": r["reason"],
        }
        for r in rivals
    ]
    heads = {"x": "x", "a": "a, ms", "b": "b, ms [95 %]", "error": "largest error"}
    print_rows(rows, {**heads, "verdict": "verdict", "reason": "reason"})


def _print_apart(apart: list[dict[str, Any]]) -> None:
    if not apart:
        return
    print("\nStarted in waves: the clock rises when most SMs are done, so these have no one clock, and stand apart")
    heads = {
        "arm": "arm",
        "ms": "ms",
        "busiest_sm_rows": "busiest sm rows",
        "waves": "waves",
        "error": "the law misses by [95 %]",
    }
    rows = [
        {**r, "ms": r["time_ns"] / 1e6, "error": f"{r['error']:.1%} [{r['error_low']:.1%}, {r['error_high']:.1%}]"}
        for r in apart
    ]
    print_rows(rows, heads)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.4g}"


def _slope(row: dict[str, Any]) -> str:
    parts = [_number(row[f"slope{end}_ns"] / 1e6) for end in ("", "_low", "_high")]
    return parts[0] if parts[1] == "-" else f"{parts[0]} [{parts[1]}, {parts[2]}]"
