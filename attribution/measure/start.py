"""From what the user asked for to a measurement: which machine, which scopes, when to stop.

In: texts of the command line.  Out: `Asked`, and the Recording that `measure` makes of it.
Misuse: the machine is chosen once, before the plan, because the number of SMs is a knob of many plans.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attribution.declare import Kernel, Variant
from attribution.errors import InputError
from attribution.measure import job, ncu, probe, scopes, stopping, watch
from attribution.measure.jobfile import Options
from attribution.measure.machine import Progress
from attribution.plan import Plan
from attribution.recording import Recording

SCOPES = ("event", "graph", "cupti", "ncu")
"""What can be asked for on a GPU.  Traced runs belong to each of them."""
DEFAULTS = ("event", "graph", "ncu")
"""What a GPU run measures unless told otherwise; ncu is left out, with the reason, where it is not there."""
MOST_ROUNDS = 600
"""Rounds that --precision may take when no number is given."""


@dataclass(frozen=True)
class Asked:
    """The machine (None is the host), options, the stopping rule, and rounds (0: as the plan has it)."""

    gpu: probe.Gpu | None
    options: Options
    rule: stopping.Rule | None
    rounds: int
    skips: tuple[scopes.Skip, ...] = ()

    def shape(self, kernel: Kernel, given: Mapping[str, int]) -> dict[str, int]:
        """The sizes that were given, and on a GPU the kernel's defaults for one."""
        return {**({} if self.gpu is None else kernel.gpu_shape()), **given}

    def knobs(self, kernel: Kernel, given: Mapping[str, int]) -> dict[str, int]:
        """The knobs with the GPU's own number of SMs, where the kernel has that knob.  Raises InputError."""
        if self.gpu is None or "sms" not in kernel.knobs:
            return dict(given)
        if given.get("sms", self.gpu.sms) != self.gpu.sms:
            raise InputError(
                f"--knob sms={given['sms']}: {self.gpu.name} has {self.gpu.sms} SMs; choose --knob ctas, or --machine host"
            )
        return {**given, "sms": self.gpu.sms}


def ask(
    kernel: Kernel,
    machine: str,
    scope: Sequence[str],
    cache: str,
    precision: str | None,
    budget: str | None,
    rounds: int | None,
    timeout_s: float,
) -> Asked:
    """Check what was asked for, and look for a GPU.  Raises InputError, MeasureError."""
    for name in scope:
        scopes.Scope(name)
        if name not in SCOPES:
            raise InputError(
                f"--scope {name}: `attr run` measures {', '.join(SCOPES)}; a traced run belongs to each of them"
            )
    scopes.Scope("event", cache)
    rule, most = _rule(precision, budget, rounds)
    gpu = probe.choose(machine, kernel.gpu, kernel.name)
    if gpu is None:
        if scope:
            raise InputError(
                f"--scope {scope[0]}: the host machine has scope host-virtual only; --machine cuda needs a GPU"
            )
        if cache != "warm":
            raise InputError(f"--cache {cache}: the host machine has no cache policy; --machine cuda needs a GPU")
        return Asked(None, Options(), rule, most)
    missing = {"ncu": reason} if (reason := ncu.missing()) else {}
    # A profiler's runs stand beside timed rounds: those are in scope graph when no other was named.
    timed = [] if not scope or {"event", "graph"} & set(scope) else ["graph"]
    used, skips = scopes.choose([*timed, *scope], DEFAULTS, missing)
    return Asked(gpu, Options(scopes=used, cache=cache, timeout_s=timeout_s), rule, most, skips)


def _rule(precision: str | None, budget: str | None, rounds: int | None) -> tuple[stopping.Rule | None, int]:
    """The stopping rule, and the most rounds there may be."""
    if precision is None:
        if budget is not None:
            raise InputError(f"--budget {budget}: is a limit for --precision; add --precision 0.2%")
        return None, rounds or 0
    wanted = stopping.share("--precision", precision)
    seconds, most = math.inf, rounds or MOST_ROUNDS
    if budget is not None:
        try:
            number = float(budget.removesuffix("s"))
        except ValueError:
            number = 0.0
        if not number > 0 or (not budget.endswith("s") and number != int(number)):
            raise InputError(f"--budget {budget}: allowed are seconds (90s) or a whole number of rounds (240)")
        if budget.endswith("s"):
            seconds = number
        else:
            most = int(number)
    return stopping.Rule(wanted, seconds), most


def measure(
    asked: Asked,
    plan: Plan,
    kernel: Kernel,
    variants: Mapping[str, Variant],
    path: Path,
    progress: Progress,
    resume: bool,
    overwrite: bool,
) -> Recording:
    """Run the plan on the machine that was chosen.  Raises InputError, MeasureError, DataError."""
    if asked.gpu is None:
        return job.execute(plan, kernel, variants, path, progress, resume, overwrite, asked.rule)
    return watch.execute(
        plan, kernel, variants, path, progress, asked.options, resume, overwrite, asked.rule, skipped=asked.skips
    )
