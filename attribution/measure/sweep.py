"""A sweep: plans of one kernel with the same arms, one point after another, into one recording.

In: plans that differ in shape and distribution only.  Out: a Recording whose runs are numbered through; its manifest's
`points` say what was measured, its `plan` is the first point's.
Each point is a `Job` of its own: checked before it is timed, each run's output checked, checked again at its end.
Misuse: rounds pair arms inside a point; two points were measured at different times and are never paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from attribution.declare import Kernel, Variant
from attribution.errors import InputError
from attribution.measure import watch
from attribution.measure.host_machine import HostMachine
from attribution.measure.job import Job
from attribution.measure.jobfile import Options
from attribution.measure.machine import Progress
from attribution.measure.manifest import declared, manifest, source_hash
from attribution.measure.points import Files, points, use_files
from attribution.partial import Partial
from attribution.plan import Plan
from attribution.recording import Recording, check_free


def on_gpu(
    plans: Sequence[Plan],
    kernel: Kernel,
    variants: Mapping[str, Variant],
    path: Path,
    progress: Progress,
    options: Options,
    files: Files,
    extra: Mapping[str, Any],
    resume: bool = False,
    overwrite: bool = False,
    command: Sequence[str] = watch.WORKER,
) -> Recording:
    """Measure with workers into a recording at `path`; `extra` joins its manifest.  Raises InputError, MeasureError, DataError."""
    check_free(path, overwrite)
    identity = _identity(plans, kernel, variants, files, {"kind": "cuda"}) | {"options": watch.as_json(asdict(options))}
    partial = Partial(path, identity, resume)
    done = watch.go_through(plans, kernel, variants, partial, identity, progress, options, files=files, command=command)
    facts = facts_of(plans, kernel, variants, done.machine) | dict(extra)
    return partial.publish(facts | {"measuring": done.measuring(), "cost": done.cost}, overwrite)


def _identity(
    plans: Sequence[Plan],
    kernel: Kernel,
    variants: Mapping[str, Variant],
    files: Files,
    machine: Mapping[str, Any],
) -> dict[str, Any]:
    """What a sweep must have in common with the one that it goes on with."""
    facts = {"plans": [p.facts() for p in plans], "machine": machine, "source": source_hash(kernel), "files": [*files]}
    return watch.as_json(facts | {"variants": declared(plans[0], variants)})


def on_host(
    plans: Sequence[Plan],
    kernel: Kernel,
    variants: Mapping[str, Variant],
    path: Path,
    progress: Progress,
    files: Files,
    extra: Mapping[str, Any],
    resume: bool = False,
    overwrite: bool = False,
) -> Recording:
    """The same on the reference machine, in this process.  Raises InputError, MeasureError, DataError."""
    check_free(path, overwrite)
    use_files(kernel, files)
    machine = HostMachine(kernel, plans[0])
    partial = Partial(path, _identity(plans, kernel, variants, files, machine.facts()), resume)
    todo = points(partial, plans)
    last = todo[-1].first_run + len(todo[-1].runs)
    try:
        for point in todo:
            label = f"point {point.number + 1}, {point.plan.distribution} "
            Job(point.plan, kernel, HostMachine(kernel, point.plan), point).execute(
                lambda done, _, what, at=point.first_run, label=label: progress(at + done, last, label + what)  # type: ignore[misc]
            )
    except InputError:
        partial.drop_if_empty()
        raise
    return partial.publish(facts_of(plans, kernel, variants, machine.facts()) | dict(extra), overwrite)


def facts_of(
    plans: Sequence[Plan], kernel: Kernel, variants: Mapping[str, Variant], machine: Mapping[str, Any]
) -> dict[str, Any]:
    """A manifest of all points; its plan is the first one, with the names of all distributions."""
    names = ", ".join(dict.fromkeys(plan.distribution for plan in plans))
    facts = manifest(replace(plans[0], distribution=names), kernel, variants, machine)
    return facts | {"points": [{"shape": dict(p.shape), "distribution": p.distribution} for p in plans]}
