"""One worker: started, watched to its end, and ended when it is silent for too long.

In: an order, the recording's path, the command of a worker.  Out: `Ended`.
It leads its own process group, which is killed with it; what it prints goes to a log, and its last line into the reason.
Misuse: nothing here touches a GPU or imports what does; that a worker ended says nothing yet of whose fault it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribution.measure.jobfile import Order
from attribution.measure.machine import Progress
from attribution.measure.worker import LOG, PROGRESS

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


def run_worker(
    order: Order,
    path: Path,
    folder: Path,
    command: Sequence[str],
    timeout_s: float,
    progress: Progress,
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


def _watch(process: subprocess.Popen[bytes], folder: Path, timeout_s: float, progress: Progress) -> Ended:
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
    """The last line that the worker or its profiler printed, for a reason; the profiler's last error if it named one."""
    lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    told = [line for line in lines if line.startswith("==ERROR==")] or lines
    return f": {told[-1][:300]}" if told else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the worker and all that it started; it leads its own process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
