"""`attr run`: measure variants against their base and a null arm, and print what that answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attribution.cli.answers import answer_rows, print_answers
from attribution.cli.options import (
    Json,
    Out,
    Overwrite,
    Root,
    find_kernel,
    flag_values,
    integers,
    root_folder,
)
from attribution.cli.output import print_json, progress_bar
from attribution.errors import InputError, MeasureError

if TYPE_CHECKING:
    from attribution.recording import Recording


def run(
    variant: Annotated[list[str], typer.Option("--variant", "-v", help="Variant to measure; may be repeated.")],
    kernel: Annotated[str | None, typer.Option("--kernel", help="Kernel, where several have the variant.")] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", help="q=512,n=8192: sizes that differ from the kernel's."),
    ] = None,
    distribution: Annotated[str, typer.Option("--distribution", help="Distribution of the inputs.")] = "",
    flag: Annotated[
        list[str] | None,
        typer.Option("--flag", help="BLOCK_Q=1: a flag of the base, and so of every arm."),
    ] = None,
    knob: Annotated[list[str] | None, typer.Option("--knob", help="ctas=64,sms=16: launch knobs of every arm.")] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", help="Rounds; whole Williams designs balance best.")] = None,
    machine: Annotated[
        str, typer.Option("--machine", help="auto (a GPU where there is one that can be used), host, or cuda.")
    ] = "auto",
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="event, graph, cupti, ncu: instruments on a GPU; may be repeated."),
    ] = None,
    cache: Annotated[str, typer.Option("--cache", help="warm, or cold: rotate over more than the L2.")] = "warm",
    precision: Annotated[
        str | None, typer.Option("--precision", help="0.2%: go on until every ratio is known to that (half-width).")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="90s or 240: seconds or rounds that --precision may take.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds without progress after which a GPU run counts as hung.")
    ] = 120.0,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**62, help="Seed of the inputs.")] = 1,
    order_seed: Annotated[int, typer.Option("--order-seed", min=0, max=2**62, help="Seed of the order of arms.")] = 0,
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished measurement at --out.")] = False,
    overwrite: Overwrite = False,
    root: Root = None,
    json: Json = False,
) -> None:
    """Measure variants in balanced rounds, check every output, record, and say what it answers.

    Each variant's base, a null arm (the base again) and the variants that it names as `beside` run in the same rounds.
    """
    from attribution.measure.start import ask, measure
    from attribution.plan import Overrides, plan

    folder = root_folder(root)
    found, variants = find_kernel(folder, kernel, variant)
    if rounds is not None and rounds < 1:
        raise InputError(f"--rounds {rounds}: allowed is an integer >= 1")
    if resume and out is None:
        raise InputError("--resume needs --out: the recording whose .partial folder is to go on")
    asked = ask(found, machine, scope or [], cache, precision, budget, rounds, timeout)
    knobs = asked.knobs(found, integers("--knob", knob or []))
    overrides = Overrides(
        asked.shape(found, integers("--shape", shape or [])),
        flag_values(found, flag or []),
        knobs,
        distribution,
        seed,
        asked.rounds,
        order_seed,
    )
    planned = plan(found, variants, variant, overrides)
    path = out or Path("recordings") / f"{found.name}-{'-'.join(variant)}-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        with progress_bar(quiet=json) as progress:
            recording = measure(asked, planned, found, variants, path, progress, resume, overwrite)
    except KeyboardInterrupt:
        print(f"attr: stopped; finished runs are kept: go on with --out {path} --resume", file=sys.stderr)
        raise typer.Exit(130) from None
    rows = [row for row in answer_rows(recording, None) if answers_question(recording, row)]
    if json:
        print_json({"recording": str(path), "answers": rows})
    else:
        print_answers(recording, rows)
        for line in remarks(recording):
            print(line)
        print(f"recording: {path}")
    check_measured(recording)


def check_measured(recording: Recording) -> None:
    """Raises MeasureError when no arm was measured: the recording then holds reasons only."""
    runs = recording.table("runs")
    if not (runs["status"] == "ok").any():
        raise MeasureError(f"no arm was measured: {runs['reason'].iloc[0]}")


def answers_question(recording: Recording, row: Mapping[str, Any]) -> bool:
    """On a GPU every scope has its own row; the question is answered in the one that a stopping rule would look at."""
    if recording.manifest["machine"]["kind"] == "host":
        return True
    from attribution.measure.jobfile import Options

    primary, _ = Options(scopes=tuple(recording.manifest["measuring"]["scopes"])).primary
    return str(row["scope"]).split("/")[0] == primary


def remarks(recording: Recording) -> list[str]:
    """What a reader of the table must know beside it: scopes left out, arms that ended a worker, order, precision, cost."""
    from attribution.analyze.carry_over import unbalanced

    facts = recording.manifest
    lines = [f"not measured: scope {s['scope']}: {s['reason']}" for s in facts.get("measuring", {}).get("skipped", [])]
    lines += [f"lost: {arm}: {reason}" for _, arm, reason in facts.get("measuring", {}).get("lost", [])]
    lines += unbalanced(recording)
    if "stopping" in facts:
        word = "reached" if facts["stopping"]["reached"] else "not reached"
        lines.append(f"precision {word}: {facts['stopping']['reason']}")
    if cost := facts.get("cost"):
        timed_s = cost.get("timed_worker_s", cost["wall_s"])
        rest_s = timed_s - cost["runs_s"] - cost["checks_s"]
        lines.append(
            f"{cost['wall_s']:.1f} s in all: {cost['runs_s']:.1f} s in timed runs with their rests, {cost['checks_s']:.1f} s "
            f"checking outputs, {cost['wall_s'] - timed_s:.1f} s under profilers; {100 * rest_s / cost['wall_s']:.0f} % was not "
            "measuring (imports, builds, set-up)"
        )
    return lines
