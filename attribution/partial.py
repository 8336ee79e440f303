"""Finished runs of a measurement that is under way, in `NAME.partial/`, until they are published as one recording.

In: tables of runs as they are finished.  Out: a `Recording`, by one rename; or what a stopped measurement goes on from.
Runs that were measured together are kept together: one folder, put there by one rename.
Misuse: it is no recording and nothing reads numbers from it but the measurement that goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution.errors import DataError, InputError
from attribution.recording import PROTOCOL_VERSION, Recording, partial_path, write_tables
from attribution.stored import published, read_parquet, write_parquet
from attribution.tables import TABLES, conform

if TYPE_CHECKING:
    import pandas as pd

PLAN, KEPT = "plan.json", "kept.json"
BUSY = "another process is measuring into {folder}: wait until it ends, or choose another --out"


class Partial:
    """Finished runs of a measurement that is under way, in `NAME.partial/`."""

    def __init__(self, path: Path, plan: Mapping[str, Any], resume: bool, lock: bool = True) -> None:
        """Start one, or go on with the one that is there.  Raises InputError, DataError when plans or ways of measuring differ.

        One process at a time measures into it; a worker of the one that does so passes `lock=False`.
        """
        self.path = path
        self.folder = partial_path(path)
        plan_file = self.folder / PLAN
        text = json.dumps({**plan, "protocol": PROTOCOL_VERSION}, sort_keys=True, indent=1)
        if not self.folder.exists():
            with published(self.folder, False) as folder:
                (folder / PLAN).write_text(text, encoding="utf-8")
        elif lock and plan_file.is_file() and self.held():
            raise InputError(BUSY.format(folder=self.folder))
        elif not resume:
            raise InputError(
                f"{self.folder} holds an unfinished measurement: go on with --resume, or delete that folder"
            )
        elif differs := _plan_difference(plan_file, json.loads(text)):
            raise DataError(f"{self.folder} {differs}; resume as it was, or delete it")
        if lock:
            self._lock(plan_file)

    def _lock(self, plan_file: Path) -> None:
        """Hold the folder until this object or its process ends, however it ends.  Raises InputError."""
        import fcntl

        handle = os.open(plan_file, os.O_RDONLY)
        weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(BUSY.format(folder=self.folder)) from None

    def drop_if_empty(self) -> None:
        """Remove the folder when no run is finished in it: there is nothing to go on from."""
        if not self.done():
            shutil.rmtree(self.folder)

    def held(self) -> bool:
        """Whether the process that measures into the folder is still there."""
        import fcntl

        handle = os.open(self.folder / PLAN, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def done(self) -> set[int]:
        """Numbers of the runs that are finished."""
        return {run for _, kept in self._kept() for run in kept["runs"]}

    def add(self, runs: Sequence[int], tables: Mapping[str, pd.DataFrame]) -> None:
        """Keep the tables (with their `run` column) of runs that were measured together."""
        with published(self.folder / f"runs-{runs[0]:06d}", False) as folder:
            facts = {n: write_parquet(folder, n, conform(n, f)) for n, f in tables.items() if len(f)}
            text = json.dumps({"runs": list(runs), "tables": facts})
            (folder / KEPT).write_text(text, encoding="utf-8")

    def _kept(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        for folder in sorted(self.folder.glob("runs-*")):
            yield folder, json.loads((folder / KEPT).read_text(encoding="utf-8"))

    def table(self, name: str) -> pd.DataFrame:
        """What there is of one table so far; an empty frame when there is nothing.  Raises DataError."""
        import pandas as pd

        parts = [
            read_parquet(folder, name, kept["tables"][name]).astype(object)
            for folder, kept in self._kept()
            if name in kept["tables"]
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(TABLES[name]))

    def publish(
        self, manifest_extra: Mapping[str, Any], overwrite: bool, only: Collection[int] | None = None
    ) -> Recording:
        """Put all runs, or `only` those, into one recording and drop the partial folder."""
        tables = {name: frame for name in TABLES if len(frame := self.table(name))}
        if only is not None:
            tables = {n: f[f["run"].isin(only)] if "run" in f else f for n, f in tables.items()}
        if "runs" in tables:
            # Runs that were started again after a crash lie behind those of later numbers.
            tables = {n: f.sort_values("run", kind="stable") if "run" in f else f for n, f in tables.items()}
        recording = write_tables(self.path, "run", tables, manifest_extra, overwrite)
        shutil.rmtree(self.folder)
        return recording


def _plan_difference(file: Path, new: dict[str, Any]) -> str:
    """How the plan in `file` is not `new`, '' when it is, however it is spelled."""
    try:
        old = dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        return f"has no plan that can be read: {type(error).__name__}: {error}"
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            then, now = (json.dumps(plan.get(key))[:120] for plan in (old, new))
            return f"was started with another plan: {key} was {then} and is now {now}"
    return ""
