"""Reads a report of Nsight Compute in a process of its own: the library that does it can end the process it runs in.

In: a report, what the worker launched, the metrics.  Out: tables of each profiled arm, as report.frames makes them.
Every reader that is installed is tried, each in a child; a crash is a sentence, and the report stays for another one.
Misuse: never read a report in the process that holds the measurement (seen: SIGSEGV after all times were taken).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution import errors
from attribution.errors import AttrError, MeasureError
from attribution.measure import report

if TYPE_CHECKING:
    import pandas as pd

CHILD = (sys.executable, "-m", "attribution.measure.reading")
LIMIT_S = 120.0

Profiled = tuple[Mapping[str, Any], int, "dict[str, pd.DataFrame]"]
"""Arm, run, tables."""


def apart(
    file: Path,
    arms: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, str],
    first_run: int,
    cache: str = "warm",
    child: Sequence[str] = CHILD,
) -> list[Profiled]:
    """What report.frames says of `file`, from the first reader that lives.  Raises MeasureError, DataError."""
    import pandas as pd

    lost = []
    with tempfile.TemporaryDirectory(prefix="attr-report-") as scratch:
        asked, answer = Path(scratch) / "asked.json", Path(scratch) / "answer.json"
        for place in report.readers():
            values = {"file": str(file), "place": place, "arms": arms, "metrics": dict(metrics), "first_run": first_run}
            values["cache"] = cache
            asked.write_text(json.dumps(values), encoding="utf-8")
            if reason := _ended(child, asked, answer):
                lost.append(
                    f"ncu_report ({Path(place).parents[1].name if place != report.PACKAGE else place}) {reason}"
                )
                continue
            told = json.loads(answer.read_text(encoding="utf-8"))
            if "error" in told:
                raise getattr(errors, told["kind"])(told["error"])
            return [
                (arms[i], run, {name: pd.DataFrame(columns) for name, columns in tables.items()})
                for i, run, tables in told["arms"]
            ]
    raise MeasureError("; ".join(lost) or "the module ncu_report is missing: `pip install ncu-report`")


def _ended(child: Sequence[str], asked: Path, answer: Path) -> str:
    """How the child ended, when it left no answer."""
    answer.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [*child, str(asked), str(answer)], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"did not finish within {LIMIT_S:g} s"
    if answer.is_file():
        return ""
    if done.returncode < 0:
        return f"died of {signal.Signals(-done.returncode).name}"
    words = done.stderr.strip().splitlines() or ["it said nothing"]
    return f"ended with code {done.returncode}: {words[-1][:200]}"


def _main(asked: Path, answer: Path) -> None:
    """The child."""
    values = json.loads(asked.read_text(encoding="utf-8"))
    try:
        seen = report.read(Path(values["file"]), values["place"])
        arms = values["arms"]
        made = [
            (arms.index(arm), run, {name: frame.to_dict("list") for name, frame in tables.items()})
            for arm, run, tables in report.frames(arms, seen, values["metrics"], values["first_run"], values["cache"])
        ]
        told: dict[str, Any] = {"arms": made}
    except AttrError as error:
        told = {"kind": type(error).__name__, "error": str(error)}
    part = answer.with_suffix(".part")
    part.write_text(json.dumps(told), encoding="utf-8")
    part.rename(answer)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
