"""Goes through a measurement with workers; an arm that ends them becomes a failed row, and the rest goes on in the next.

In: plans, options, the command of a worker.  Out: a Recording, or one sentence.
A worker that is silent for `timeout_s` hangs and is killed.  An arm that also ends a worker when it runs alone is not tried
again (blame.py): its remaining runs are skipped with the reason.  Ceilings that end one are left out at once, and no arm is
blamed for it.  Profilers run in workers of their own behind the timed rounds.
Misuse: nothing here touches a GPU or imports what does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attribution.declare import Kernel, Variant
from attribution.measure import ncu, stopping, timing
from attribution.measure.beside import Beside
from attribution.measure.blame import Blame
from attribution.measure.jobfile import Options, Order
from attribution.measure.machine import CEILINGS, Progress
from attribution.measure.manifest import declared, manifest, source_hash
from attribution.measure.points import Files, points
from attribution.measure.process import Ended, run_worker
from attribution.measure.scopes import Skip
from attribution.measure.worker import MACHINE
from attribution.partial import Partial
from attribution.plan import Plan
from attribution.recording import Recording, check_free

WORKER = (sys.executable, "-m", "attribution.measure.cuda")
RULE = "rule.json"
"""What precision was asked for last, for a measurement that is stopped before its rule ends it."""


def execute(
    plan: Plan,
    kernel: Kernel,
    variants: Mapping[str, Variant],
    path: Path,
    progress: Progress,
    options: Options,
    resume: bool = False,
    overwrite: bool = False,
    rule: stopping.Rule | None = None,
    command: Sequence[str] = WORKER,
    skipped: Sequence[Skip] = (),
) -> Recording:
    """Measure `plan` with workers into a recording at `path`; `skipped` are scopes that were left out before.

    Raises InputError, MeasureError, DataError.
    """
    check_free(path, overwrite)
    own = {"machine": {"kind": "cuda"}, "source": source_hash(kernel), "options": asdict(options)}
    whole = as_json({**plan.facts(), **own, "variants": declared(plan, variants)})
    partial = Partial(path, whole, resume)
    (partial.folder / RULE).unlink(missing_ok=True)
    if rule is not None:
        asked = {"precision": rule.precision, "scope": "/".join(options.primary)}
        (partial.folder / RULE).write_text(json.dumps(asked), encoding="utf-8")
    done = go_through([plan], kernel, variants, partial, whole, progress, options, rule, command=command)
    facts = manifest(replace(plan, rounds=done.rounds), kernel, variants, done.machine)
    facts |= {"measuring": done.measuring(skipped), "cost": done.cost}
    if done.stopping:
        facts["stopping"] = done.stopping
    return partial.publish(facts, overwrite)


@dataclass(frozen=True)
class Done:
    """What workers leave beside the runs: facts for the manifest."""

    machine: Mapping[str, Any]
    options: Options
    rounds: int
    stopping: Mapping[str, Any] | None
    lost: Sequence[tuple[int, str, str, str]]
    skips: Sequence[Skip]
    cost: Mapping[str, float]
    builds: Mapping[str, str]
    ncu: str

    def measuring(self, skipped: Sequence[Skip] = ()) -> dict[str, Any]:
        """How it was measured, and what was not."""
        return {
            **as_json(asdict(self.options)),
            "warm_ups": {"least": 1, "most": timing.WARM_UPS, "within_ns": timing.WARM_UP_NS, "rounds": 1},
            "builds": dict(self.builds),
            "ncu": self.ncu,
            "lost": [[question, arm, reason] for _, question, arm, reason in self.lost],
            "skipped": [asdict(skip) for skip in (*skipped, *self.skips)],
        }


def go_through(
    plans: Sequence[Plan],
    kernel: Kernel,
    variants: Mapping[str, Variant],
    partial: Partial,
    identity: Mapping[str, Any],
    progress: Progress,
    options: Options,
    rule: stopping.Rule | None = None,
    files: Files | None = None,
    command: Sequence[str] = WORKER,
) -> Done:
    """Measure all plans, then profile their arms.  Raises InputError, MeasureError, DataError."""
    began_s = time.monotonic()
    todo = points(partial, plans, options.traced_rounds)
    arms = {arm.variant for question in plans[0].questions for arm in question.arms}
    order = Order(
        root=str(kernel.folder.parent.parent),
        plans=tuple(plan.facts() for plan in plans),
        identity=identity,
        options=options,
        rule=rule,
        files=files or {},
        same={name: list(variants[name].same) for name in sorted(arms) if name in variants},
    )

    def start(asked: Order, wrapped: Sequence[str] = command, wait: bool = False) -> Ended:
        return run_worker(asked, partial.path, partial.folder, wrapped, options.timeout_s, progress, wait)

    blame = Blame(todo, partial, lambda arm: start(replace(order, mode="alone", alone=arm)))
    lost: list[tuple[int, str, str, str]] = []
    while (ended := start(order)).kind != "finished":
        if (ended.kind, ended.run) == ("lost", CEILINGS):
            lost, order = [(0, "", "ceilings", ended.reason)], replace(order, ceilings=False)
        elif (out := blame.of(ended)) is not None:
            order = replace(order, refused=(*order.refused, out))
    assert ended.values is not None
    timed_s = time.monotonic() - began_s
    beside = Beside(todo, partial, command, options, blame.refused)
    skips = beside.add(lambda mode, wrapped: start(replace(order, mode=mode), wrapped, wait=True))
    told = ended.values
    cost = {"wall_s": time.monotonic() - began_s, "timed_worker_s": timed_s} | {
        n: told[n] for n in ("runs_s", "checks_s")
    }
    return Done(
        machine=json.loads((partial.folder / MACHINE).read_text(encoding="utf-8")),
        options=options,
        **{name: told[name] for name in ("rounds", "stopping", "builds")},
        lost=(*order.refused, *lost),
        skips=skips,
        ncu=ncu.version() if "ncu" in options.scopes else "",
        cost={name: round(seconds, 3) for name, seconds in cost.items()},
    )


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back, so that a plan on disk equals the one in memory."""
    return dict(json.loads(json.dumps(values)))
