"""Starts workers, watches them, and turns what ends one into a failed row; the rest goes on in the next.

In: a plan, options, the command of a worker.  Out: a Recording, or one sentence.
A worker that is silent for `timeout_s` hangs: its process group is killed.  An arm that ended a worker is not tried
again: its remaining runs are skipped with the reason, so there are at most as many workers as arms and one.
Misuse: nothing here touches a GPU or imports what does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attribution import errors
from attribution.declare import Kernel, Variant
from attribution.errors import MeasureError
from attribution.measure import job, stopping
from attribution.measure.beside import Beside
from attribution.measure.manifest import manifest, source_hash
from attribution.measure.runs import planned_runs, run_facts
from attribution.measure.scopes import Skip
from attribution.measure.worker import LOG, MACHINE, PROGRESS, Options, Order, Written
from attribution.partial import Partial
from attribution.plan import Plan, PlannedRun
from attribution.recording import Recording, check_free

WORKER = (sys.executable, "-m", "attribution.measure.cuda")
POLL_S = 0.05
START_S = 60.0
"""What a worker may be silent for before its first run at least: torch may be on a cold disk."""


@dataclass(frozen=True)
class Ended:
    """How a worker ended: `finished`, `lost` (with the run and the reason), or `error` (with a sentence)."""

    kind: str
    run: int | None = None
    reason: str = ""
    values: Mapping[str, Any] | None = None


def execute(
    plan: Plan,
    kernel: Kernel,
    variants: Mapping[str, Variant],
    path: Path,
    progress: job.Progress,
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
    began_s = time.monotonic()
    source = source_hash(kernel)
    identity = {**plan.facts(), "machine": {"kind": "cuda"}, "source": source, "options": as_json(asdict(options))}
    partial = Partial(path, identity, resume)
    same = {
        v: list(variants[v].same) for v in sorted({a.variant for q in plan.questions for a in q.arms}) if v in variants
    }
    order = Order(str(kernel.folder.parent.parent), plan.facts(), identity, options, rule, same=same)
    runs = {run.run: run for run in planned_runs(plan, options.traced_rounds)}
    while True:
        ended = run_worker(order, path, partial.folder, command, options.timeout_s, progress)
        if ended.kind == "finished":
            break
        order = replace(order, refused=(*order.refused, refuse(ended, runs, plan, partial)))
    assert ended.values is not None
    timed_s = time.monotonic() - began_s

    def start(mode: str, wrapped: Sequence[str]) -> Ended:
        asked = replace(order, mode=mode)
        return run_worker(asked, path, partial.folder, wrapped, options.timeout_s, progress, wait=True)

    refused = {(0, question, arm) for question, arm, _ in order.refused}
    skips = Beside([(plan, runs)], path, partial, command, options, refused).add(options.scopes, start)
    machine = json.loads((partial.folder / MACHINE).read_text(encoding="utf-8"))
    facts = manifest(replace(plan, rounds=ended.values["rounds"]), kernel, variants, machine)
    facts["measuring"] = {**as_json(asdict(options)), "lost": [list(r) for r in order.refused]}
    facts["measuring"]["skipped"] = [asdict(s) for s in (*skipped, *skips)]
    facts["cost"] = {
        "wall_s": round(time.monotonic() - began_s, 3),
        "timed_worker_s": round(timed_s, 3),
        "runs_s": ended.values["runs_s"],
        "checks_s": ended.values["checks_s"],
    }
    if ended.values["stopping"]:
        facts["stopping"] = ended.values["stopping"]
    return partial.publish(facts, overwrite)


def refuse(ended: Ended, runs: Mapping[int, PlannedRun], plan: Plan, partial: Partial) -> tuple[str, str, str]:
    """Write the failed row of the run that ended the worker.  Raises what an `error` says."""
    if ended.kind == "error":
        kind = getattr(errors, str((ended.values or {}).get("kind")), MeasureError)
        raise kind(ended.reason)
    if ended.run is None:
        raise MeasureError(f"the worker ended before its first run: {ended.reason}")
    import pandas as pd

    run = runs[ended.run]
    row = {**run_facts(plan, run), "build": "", "inputs": "", "status": "failed", "reason": ended.reason}
    row |= {"begin_ns": time.time_ns(), "run": run.run}
    if run.run not in partial.done():
        partial.add([run.run], {"runs": pd.DataFrame([row])})
    return run.question, run.arm.name, f"run {run.run} ended its worker: {ended.reason}"


def run_worker(
    order: Written,
    path: Path,
    folder: Path,
    command: Sequence[str],
    timeout_s: float,
    progress: job.Progress,
    wait: bool = False,
) -> Ended:
    """Start one worker and watch it to its end; with `wait`, give it time to leave by itself (ncu writes its report then)."""
    (folder / PROGRESS).write_text("", encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="attr-job-") as scratch, (folder / LOG).open("ab") as log:
        job_file = Path(scratch) / "job.json"
        order.write(job_file)
        process = subprocess.Popen(
            [*command, str(job_file), str(path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            ended = _watch(process, folder, timeout_s, progress)
            if wait and ended.kind == "finished":
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout_s)
            return ended
        finally:
            _kill(process)


def _watch(process: subprocess.Popen[bytes], folder: Path, timeout_s: float, progress: job.Progress) -> Ended:
    """Read events until the worker has ended, or was silent for too long."""
    run: int | None = None
    quiet_since, label, limit_s = time.monotonic(), "starting", max(timeout_s, START_S)
    with (folder / PROGRESS).open(encoding="utf-8") as file:
        rest = ""
        while True:
            gone = process.poll() is not None  # before reading, so that nothing it wrote last is missed
            text = rest + file.read()
            *lines, rest = text.split("\n")
            for line in lines:
                values = json.loads(line)
                quiet_since = time.monotonic()
                match values["event"]:
                    case "began":
                        run = values["run"]
                    case "progress":
                        label = values["label"]
                        limit_s = timeout_s
                        progress(values["done"], values["total"], label)
                    case "doing":
                        label = values["label"]
                    case "finished":
                        return Ended("finished", values=values)
                    case "lost":
                        return Ended("lost", values["run"], values["reason"])
                    case "error":
                        return Ended("error", run, values["message"], values)
            if gone:
                return Ended("lost", run, f"{_how(process.returncode)}{_last_words(folder)}")
            if time.monotonic() - quiet_since > limit_s:
                return Ended("lost", run, f"hang: no progress for {limit_s:g} s ({label}); the worker was killed")
            time.sleep(POLL_S)


def _how(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"crash: the worker died of {signal.Signals(-code).name}"
    return f"crash: the worker ended with code {code} and did not say why"


def _last_words(folder: Path) -> str:
    """The last line that the worker printed, for a reason."""
    lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f": {lines[-1][:300]}" if lines else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the worker and all that it started; it leads its own process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back, so that a plan on disk equals the one in memory."""
    return dict(json.loads(json.dumps(values)))
