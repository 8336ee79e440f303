"""The runs of a plan on a machine: numbered, and with traced builds behind the timed ones.

In: a Plan.  Out: `PlannedRun` values in the order of execution; what the table `runs` knows of each before it ran.
Misuse: numbers belong to a plan and a number of traced rounds; with another one they mean other runs.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from attribution.measured import TRACED
from attribution.plan import NULL, Plan, PlannedRun, json_text, shape_text


def run_facts(plan: Plan, run: PlannedRun) -> dict[str, Any]:
    """The columns of `runs` that are known before a run."""
    return {
        "question": run.question,
        "round": run.round,
        "position": run.position,
        "predecessor": run.predecessor,
        "arm": run.arm.name,
        "kernel": plan.kernel,
        "variant": run.arm.variant,
        "shape": shape_text(plan.shape),
        "distribution": plan.distribution,
        "seed": plan.seed,
        "flags": json_text(run.arm.flags),
        "knobs": json_text(run.arm.knobs),
    }


def planned_runs(plan: Plan, traced_rounds: int) -> list[PlannedRun]:
    """The plan's runs, and behind each of the first `traced_rounds` rounds the arms again with TRACE = 1."""
    runs = list(plan.runs())
    if not traced_rounds:
        return runs
    out: list[PlannedRun] = []
    for number, mine in itertools.groupby(runs, key=lambda run: run.round):
        timed = list(mine)
        extra = [r for r in timed if r.arm.name != NULL and r.arm.flags.get("TRACE") == 0]
        out += timed
        for run in extra if number < traced_rounds else []:
            name, flags = run.arm.name + TRACED, {**run.arm.flags, "TRACE": 1}
            arm = replace(run.arm, name=name, variant=run.arm.variant + TRACED, flags=flags)
            before = out[-1].arm.name if out[-1].question == run.question else ""
            out.append(replace(run, arm=arm, position=len(timed) + extra.index(run), predecessor=before))
    return [replace(run, run=i) for i, run in enumerate(out)]
