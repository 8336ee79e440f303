"""Executes a plan on a machine and leaves a recording: checks first, then the rounds, then checks again.

In: a Plan, its Kernel, a `Machine`, a path.  Out: a Recording; every run that failed or was skipped is a row with its reason.
An arm whose output is wrong on fresh inputs before timing is not timed.  Each timed run's own output is checked as well,
and each arm once more on fresh inputs at the end.
Misuse: do not call a machine from elsewhere; what is timed here is what the checks saw.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attribution import __version__
from attribution.declare import Check, Inputs, Kernel, Variant
from attribution.errors import AttrError, InputError
from attribution.measure import host
from attribution.plan import Arm, Plan, PlannedRun, json_text, shape_text
from attribution.recording import Partial, Recording, check_free

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int, str], None]
"""done, total, what is running now."""


class Machine(Protocol):
    """Where arms run."""

    def facts(self) -> dict[str, Any]:
        """kind, name, sms, tick_ns and what else identifies it."""

    def measure(self, arm: Arm, inputs: Inputs) -> host.Measured:
        """Run one arm once on these inputs."""


class HostMachine:
    """The reference machine as a Machine."""

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        if kernel.host is None:
            raise InputError(f"kernel {kernel.name} has no host algorithm: it runs on a GPU only")
        self.kernel, self.shape = kernel, plan.shape
        self.sms = sorted({a.knobs["sms"] for q in plan.questions for a in q.arms})

    def facts(self) -> dict[str, Any]:
        import platform

        import numpy

        return {
            "kind": "host",
            "name": "reference machine",
            "expects": "host",
            "sms": self.sms[0] if len(self.sms) == 1 else self.sms,
            "tick_ns": time.get_clock_info("thread_time").resolution * 1e9,
            "cpu": _cpu_name(),
            "python": platform.python_version(),
            "numpy": numpy.__version__,
        }

    def measure(self, arm: Arm, inputs: Inputs) -> host.Measured:
        with host.one_thread():
            return host.measure(self.kernel, inputs, self.shape, arm.flags, arm.knobs)


class _Case:
    """Inputs of one seed and their reference, made once."""

    def __init__(self, kernel: Kernel, plan: Plan, seed: int) -> None:
        self.kernel, self.shape, self.seed = kernel, plan.shape, seed
        self.inputs = kernel.inputs(plan.shape, plan.distribution, seed)
        with host.one_thread():
            self.reference = kernel.reference(self.inputs, plan.shape)
        digest = hashlib.sha256()
        for name in sorted(self.inputs):
            digest.update(self.inputs[name].tobytes())
        self.hash = digest.hexdigest()[:16]

    def check(self, arm: Arm, output: Any) -> list[Check]:
        return self.kernel.check(self.inputs, output, self.reference, self.shape, arm.flags)


class Job:
    """One measurement under way."""

    def __init__(self, plan: Plan, kernel: Kernel, machine: Machine, partial: Partial) -> None:
        self.plan, self.kernel, self.machine, self.partial = plan, kernel, machine, partial
        self.case = _Case(kernel, plan, plan.seed)
        self.refused: dict[tuple[str, str], str] = {}

    def execute(self, progress: Progress) -> None:
        """All runs that are not done yet, in order."""
        runs, done = list(self.plan.runs()), self.partial.done()
        last = {(r.question, r.arm.name): r.run for r in runs}
        first: dict[tuple[str, str], int] = {}
        for run in runs:
            first.setdefault((run.question, run.arm.name), run.run)
        before, after = (_Case(self.kernel, self.plan, self.plan.seed + i) for i in (1, 2))
        for count, run in enumerate(runs):
            key = run.question, run.arm.name
            progress(count, len(runs), f"{run.arm.name}, round {run.round + 1} of {self.plan.rounds}")
            checks: list[tuple[str, Check]] = []
            # A resumed job checks its arms again: what was true before the stop need not be true now.
            if key not in self.refused and (first[key] == run.run or (run.run not in done and first[key] in done)):
                self.refused[key] = self._fresh(before, run.arm, "before", checks)
                first[key] = -1
            if run.run in done:
                continue
            self.partial.add(run.run, self._run(run, checks, after if last[key] == run.run else None))
        progress(len(runs), len(runs), "done")

    def _fresh(self, case: _Case, arm: Arm, when: str, into: list[tuple[str, Check]]) -> str:
        """Check the arm on fresh inputs.  Returns the reason to refuse it, or ''."""
        try:
            checks = case.check(arm, self.machine.measure(arm, case.inputs).output)
        except (AttrError, ArithmeticError, ValueError, LookupError, MemoryError) as error:
            checks = [Check("runs", False, f"{type(error).__name__}: {error}")]
        into.extend((when, c) for c in checks)
        return _reason(checks, f"wrong output on fresh inputs (seed {case.seed}) {when} timing")

    def _run(self, run: PlannedRun, checks: list[tuple[str, Check]], after: _Case | None) -> dict[str, pd.DataFrame]:
        """Measure one run and return its tables."""
        begin_ns = time.time_ns()
        status, reason = "ok", self.refused[run.question, run.arm.name]
        tables: dict[str, pd.DataFrame] = {}
        if reason:
            status = "skipped"
        else:
            try:
                measured = self.machine.measure(run.arm, self.case.inputs)
                tables = dict(measured.tables)
                seen = self.case.check(run.arm, measured.output)
                checks += [("after", c) for c in seen]
                reason = _reason(seen, "wrong output of the timed run")
                if after is not None and not reason:
                    reason = self._fresh(after, run.arm, "after", checks)
            except (AttrError, ArithmeticError, ValueError, LookupError, MemoryError) as error:
                reason = f"{type(error).__name__}: {error}"
            status = "failed" if reason else "ok"
        return self._tables(run, status, reason, begin_ns, tables, checks)

    def _tables(
        self,
        run: PlannedRun,
        status: str,
        reason: str,
        begin_ns: int,
        tables: Mapping[str, pd.DataFrame],
        checks: list[tuple[str, Check]],
    ) -> dict[str, pd.DataFrame]:
        import pandas as pd

        row = {
            "question": run.question,
            "round": run.round,
            "position": run.position,
            "predecessor": run.predecessor,
            "arm": run.arm.name,
            "kernel": self.plan.kernel,
            "variant": run.arm.variant,
            "shape": shape_text(self.plan.shape),
            "distribution": self.plan.distribution,
            "seed": self.plan.seed,
            "flags": json_text(run.arm.flags),
            "knobs": json_text(run.arm.knobs),
            "build": "",
            "inputs": self.case.hash,
            "status": status,
            "reason": reason,
            "begin_ns": begin_ns,
        }
        looked = [{"when": w, "check": c.name, "passed": c.passed, "detail": c.detail} for w, c in checks]
        out = {"runs": pd.DataFrame([row]), **tables, "checks": pd.DataFrame(looked)}
        return {name: frame.assign(run=run.run) for name, frame in out.items() if len(frame)}


def _reason(checks: list[Check], what: str) -> str:
    bad = [f"{c.name}: {c.detail}" for c in checks if not c.passed]
    return f"{what}: {bad[0]}" if bad else ""


def execute(
    plan: Plan,
    kernel: Kernel,
    variants: Mapping[str, Variant],
    path: Path,
    progress: Progress,
    resume: bool = False,
    overwrite: bool = False,
) -> Recording:
    """Measure `plan` on the reference machine into a recording at `path`.  Raises InputError, MeasureError, DataError."""
    check_free(path, overwrite)
    machine = HostMachine(kernel, plan)
    identity = {**plan.facts(), "machine": machine.facts(), "source": source_hash(kernel)}
    partial = Partial(path, identity, resume)
    Job(plan, kernel, machine, partial).execute(progress)
    named = {a.variant for q in plan.questions for a in q.arms}
    facts = {
        "attribution": __version__,
        "created_ns": time.time_ns(),
        "machine": machine.facts(),
        "kernels": {kernel.name: kernel_facts(kernel)},
        "variants": {n: _variant_facts(variants[n]) for n in sorted(named)},
        "plan": plan.facts(),
    }
    return partial.publish(facts, overwrite)


def kernel_facts(kernel: Kernel) -> dict[str, Any]:
    """What reading a recording needs to know of its kernel, as JSON values."""
    return {
        "roles": list(kernel.roles),
        "events": [asdict(e) for e in kernel.events],
        "same": dict(kernel.same),
        "source": source_hash(kernel),
    }


def _variant_facts(variant: Variant) -> dict[str, Any]:
    return {
        "base": variant.base,
        "asks": variant.asks,
        "flags": dict(variant.flags),
        "knobs": dict(variant.knobs),
        "same": list(variant.same),
        "expects": {m: {q: list(b) for q, b in e.items()} for m, e in variant.expects.items()},
        "factors": list(variant.factors) if variant.factors else None,
        "stage": variant.stage,
    }


def source_hash(kernel: Kernel) -> str:
    """sha256 over the kernel's folder: names and contents of all its source files, first 16 digits."""
    digest = hashlib.sha256()
    for file in sorted(kernel.folder.rglob("*")):
        if file.suffix in (".py", ".cu", ".cuh"):
            digest.update(f"{file.relative_to(kernel.folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        "unknown",
    )
