"""Makes a recording of what a stopped measurement has finished, where nobody can go on with it: the card is gone.

In: the recording's path, whose `.partial` folder is there; the kernel and variants that were measured, unchanged.
Out: a Recording of the rounds that every arm finished; what was cut off is stated in it, as are profilers that never ran.
Misuse: where the card is still there, go on with --resume: it also checks every arm once more at the end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from attribution.declare import Kernel
from attribution.errors import DataError, InputError
from attribution.load import load_kernel, load_variants
from attribution.measure.manifest import manifest, source_hash
from attribution.measure.runs import planned_runs
from attribution.measure.scopes import Skip
from attribution.measure.watch import RULE
from attribution.measure.worker import MACHINE
from attribution.partial import KEPT, PLAN, Partial
from attribution.plan import Plan
from attribution.recording import Recording, partial_path

LEAST_ROUNDS = 2
_PLAN = ("kernel", "shape", "distribution", "seed", "rounds", "order", "questions")


def finish(path: Path, root: Path) -> Recording:
    """Publish the whole rounds of `path`'s partial folder and remove it.  Raises InputError, DataError, MeasureError."""
    if path.exists():
        raise InputError(f"{path} is there already, and finish replaces nothing: move it away, or give another name")
    folder = partial_path(path)
    if not (folder / PLAN).is_file():
        raise InputError(f"{folder} is not there: nothing was stopped under this name")
    identity = _facts(folder / PLAN)
    if any(key not in identity for key in (*_PLAN, "options", "variants")) or not (folder / MACHINE).is_file():
        raise InputError(f"{folder} holds no measurement on a GPU that came as far as a run: go on with --resume")
    machine = _facts(folder / MACHINE)
    for file in sorted(folder.glob(f"runs-*/{KEPT}")):
        _facts(file)
    plan = Plan.from_facts({key: identity[key] for key in _PLAN})
    kernel = _unchanged(load_kernel(root, plan.kernel), identity["source"], root)
    partial = Partial(path, identity, resume=True)
    runs = planned_runs(plan, identity["options"]["traced_rounds"])
    kept, rounds = _whole_rounds(runs, partial.done(), plan.rounds)
    if rounds < LEAST_ROUNDS:
        raise InputError(f"{folder} has {rounds} whole rounds: too few to say anything; go on with --resume")
    facts = manifest(replace(plan, rounds=rounds), kernel, load_variants(root, kernel), machine)
    # As they were when it began: what is expected must not be written after what was measured.
    facts["variants"] = identity["variants"]
    facts["measuring"] = {**identity["options"], "lost": [], "skipped": _never_ran(identity["options"])}
    facts["measuring"]["stopped"] = f"{rounds} of {plan.rounds} rounds; arms were not checked once more at the end"
    if (folder / RULE).is_file():
        why = "stopped before the precision that was asked for was reached"
        facts["stopping"] = {
            **_facts(folder / RULE),
            "budget_s": None,
            "reached": False,
            "reason": why,
            "half_widths": {},
        }
    return partial.publish(facts, overwrite=False, only=kept)


def _facts(file: Path) -> dict[str, Any]:
    """What a file of the folder states.  Raises DataError when it is no JSON object."""
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} is damaged, so nothing was made of it: {type(error).__name__}: {error}") from error
    if not isinstance(facts, dict):
        raise DataError(f"{file} is damaged, so nothing was made of it: it holds no JSON object")
    return facts


def _unchanged(kernel: Kernel, source: str, root: Path) -> Kernel:
    if (now := source_hash(kernel)) != source:
        raise DataError(
            f"kernel {kernel.name} under {root} is not what was measured: its source is {now}, it was {source}; "
            "give the checkout that was measured as --root"
        )
    return kernel


def _whole_rounds(runs: list[Any], done: set[int], planned: int) -> tuple[set[int], int]:
    """Runs of the rounds before the first that lacks one, and how many rounds those are."""
    missing = [run.round for run in runs if run.run not in done]
    rounds = min(missing, default=planned)
    return {run.run for run in runs if run.round < rounds}, rounds


def _never_ran(options: Mapping[str, Any]) -> list[dict[str, str]]:
    """Profilers run after the timed rounds: what was stopped before cannot have them."""
    reason = "the measurement was stopped before its profiled runs were whole"
    return [asdict(Skip(scope, reason)) for scope in ("cupti", "ncu") if scope in options["scopes"]]
