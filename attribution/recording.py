"""Recordings: folders of tidy tables and a manifest, written whole or not at all, never changed afterwards.

In: frames that conform to `attribution.tables`, and facts for the manifest.  Out: a `Recording` that reads them back.
A recording appears by one rename; while it is being measured its finished runs wait in `NAME.partial/`, from which a
stopped measurement goes on.  Every table's sha256 is in the manifest and is checked on reading; opening runs no code.
Misuse: never edit a file of a recording; measure again, or ingest into a new one.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution.errors import DataError, InputError
from attribution.manifest import check_manifest
from attribution.measured import ONCE, check_once, check_runs, check_times
from attribution.stored import published, read_parquet, unchanged, write_parquet
from attribution.tables import TABLES, conform

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1
PROTOCOL_VERSION = 4
"""Raised when the way of measuring changes, so that older recordings can be told apart and voided.

1: the samples of one arm in all scopes, then the next arm.  2: in each scope the arms of a round right behind one another,
and graphs instantiated anew for every round.  3: on a GPU all arms have their tensors in one memory, and scope cupti replays
the operator's graph; before, its steps ran eagerly, and its operator was their union, without gaps.  4: in scope graph a stage
that is timed alone follows an execution of its own operator; before, it read what another arm had left in the memory they share.
"""

KEPT_ROWS = 50_000
"""Rows of a table that stays in memory once it was read: reading a small one costs more than it does."""

MUST_AGREE = (
    *((key,) for key in ("schema", "protocol", "kind", "kernels")),
    *(("machine", key) for key in ("kind", "name", "sms", "driver", "compiler", "torch")),
    *(("measuring", key) for key in ("rest", "warm_ups")),
)
"""Places in two manifests that must hold the same values before their rows may stand in one table."""


@dataclass(frozen=True)
class Recording:
    """One opened recording."""

    path: Path
    manifest: Mapping[str, Any]
    _read: dict[str, pd.DataFrame] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __str__(self) -> str:
        rows = {name: facts["rows"] for name, facts in self.manifest["tables"].items()}
        return f"{self.path.name}: {self.manifest['kind']}, " + ", ".join(f"{n} {name}" for name, n in rows.items())

    @property
    def table_names(self) -> list[str]:
        return list(self.manifest["tables"])

    def table(self, name: str) -> pd.DataFrame:
        """The table `name`, after its hash was checked; an empty one where the recording has none.  Raises DataError.

        What was measured must be such as can have been, and be there once.  A small table is kept: what a caller does to its
        frame does not reach the next one's.
        """
        if name not in self._read:
            frame = self._checked(name)
            if len(frame) > KEPT_ROWS:
                return frame
            self._read[name] = frame
        return self._read[name].copy(deep=False)

    def _checked(self, name: str) -> pd.DataFrame:
        frame = self._stored(name)
        if self.manifest["kind"] == "run":
            if name == "runs":
                check_runs(frame, self.manifest)
            elif name == "times" and len(frame):
                check_times(frame, self.table("runs"))
            elif name in ONCE:
                check_once(name, frame, ONCE[name])
        return frame

    def _stored(self, name: str) -> pd.DataFrame:
        import pandas as pd

        if name not in TABLES:
            raise DataError(f"no table {name!r}; the schema has: {', '.join(TABLES)}")
        if name not in self.manifest["tables"]:
            return conform(name, pd.DataFrame({column: [] for column in TABLES[name]}))
        return conform(name, read_parquet(self.path, name, self.manifest["tables"][name]))

    def verify(self) -> None:
        """Check every file against its hash, and read every small table.  Raises DataError for the first that is not as written."""
        for name, facts in self.manifest["tables"].items():
            if facts["rows"] > KEPT_ROWS:
                unchanged(self.path, name, facts)
            else:
                self.table(name)


_opened: dict[Path, tuple[object, Recording]] = {}


def open_recording(path: Path | str) -> Recording:
    """Open `path`; the same object as before while its files are those of before.

    Raises InputError when there is none, DataError when its manifest is damaged or from a later version.
    """
    path = Path(path)
    if path in _opened and _opened[path][0] == contents(path):
        return _opened[path][1]
    recording = _open(path)
    _opened[path] = contents(path), recording
    return recording


def contents(path: Path) -> tuple[object, ...]:
    """What tells the files in a folder from others that were put in their place; () where there is none."""
    if not path.is_dir():
        return ()
    return tuple((str(f.resolve()), (s := f.stat()).st_mtime_ns, s.st_size, s.st_ino) for f in sorted(path.iterdir()))


def _open(path: Path) -> Recording:
    file = path / "manifest.json"
    if not file.is_file():
        hint = f"; of a profiler's file `attr ingest {path} --out NAME` makes one" if path.is_file() else ""
        if partial_path(path).is_dir():
            hint = f"; {partial_path(path).name} is an unfinished one: go on with `attr run ... --out {path} --resume`"
        for kept in sorted(path.parent.glob(f".{glob.escape(path.name)}.old.*/{glob.escape(path.name)}")):
            hint = f"; the one that was being replaced when something stopped is in {kept}: move it back"
        lack = "it has no manifest.json" if path.exists() or hint else "nothing is there"
        raise InputError(f"{path} is not a recording: {lack}{hint}")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        stated = manifest.pop("manifest_sha256")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, OSError) as error:
        raise DataError(f"{file} is damaged: {type(error).__name__}: {error}") from error
    if _manifest_hash(manifest) != stated:
        raise DataError(f"{file} was changed after it was written: its hash differs from the one it states")
    # A later schema may state other things, so its number is looked at before all else; `true` is no number.
    if isinstance(schema := manifest.get("schema"), int) and schema is not True and schema != SCHEMA_VERSION:
        raise DataError(
            f"{path} has schema {schema}; this version reads {SCHEMA_VERSION}: use the attribution that wrote it"
        )
    check_manifest(manifest, str(file), PROTOCOL_VERSION)
    return Recording(path, manifest)


def write_tables(
    path: Path,
    kind: str,
    tables: Mapping[str, pd.DataFrame],
    manifest_extra: Mapping[str, Any],
    overwrite: bool = False,
) -> Recording:
    """Write a recording of `kind` ("run" or "ingest") and open it.

    Raises InputError when `path` exists, DataError when a table does not conform, MeasureError when the disk refuses.
    """
    check_free(path, overwrite)
    frames = {name: conform(name, frame) for name, frame in tables.items()}
    with published(path, overwrite) as folder:
        facts = {name: write_parquet(folder, name, frame) for name, frame in frames.items()}
        manifest = {
            "schema": SCHEMA_VERSION,
            "protocol": PROTOCOL_VERSION,
            "kind": kind,
            **manifest_extra,
            "tables": facts,
        }
        check_manifest(manifest, str(path / "manifest.json"), PROTOCOL_VERSION)
        manifest["manifest_sha256"] = _manifest_hash(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return _open(path)


def check_free(path: Path, overwrite: bool = False) -> None:
    """Raises InputError when `path` is inside a recording, when something is there, or when what is to be overwritten is none."""
    for folder in path.absolute().parents:
        if (folder / "manifest.json").is_file() and any(folder.glob("*.parquet")):
            raise InputError(
                f"{path} lies inside the recording {folder}, which holds its own tables only: choose another --out"
            )
    if not path.exists():
        return
    if not overwrite:
        raise InputError(f"{path} exists and is never overwritten unasked: choose another --out, or add --overwrite")
    if not (path / "manifest.json").is_file():
        raise InputError(f"{path} exists and is not a recording: --overwrite replaces recordings only")


def check_alike(first: Recording, second: Recording) -> None:
    """Raises DataError, naming both values, when the two may not be put into one table or compared."""
    for key in MUST_AGREE:
        values = []
        for recording in (first, second):
            value: Any = recording.manifest
            for part in key:
                value = value.get(part) if isinstance(value, Mapping) else None
            values.append(value)
        if values[0] != values[1]:
            name, shown = ".".join(key), [json.dumps(v, sort_keys=True) for v in values]
            if max(map(len, shown)) > 80:
                shown = [hashlib.sha256(s.encode()).hexdigest()[:12] for s in shown]
            raise DataError(
                f"{first.path.name} and {second.path.name} are unlike: {name} is {shown[0]} and {shown[1]}; "
                "compare runs of one machine, protocol and source only"
            )


def each_once(recordings: Sequence[Recording]) -> None:
    """Raises InputError for a recording that is there twice, under whatever name: what it says would count twice."""
    for one, other in itertools.combinations(recordings, 2):
        if one.manifest == other.manifest:
            raise InputError(f"{other.path} is {one.path} again: its rounds would count twice; leave one of them out")


def merge(recordings: Sequence[Recording], path: Path) -> Recording:
    """One recording with the rows of several alike ones; rounds and runs are numbered on.  Raises DataError, InputError."""
    import pandas as pd

    for other in recordings[1:]:
        check_alike(recordings[0], other)
    parts: dict[str, list[pd.DataFrame]] = {}
    next_run = next_round = 0
    for recording in recordings:
        runs = recording.table("runs")
        for name in recording.table_names:
            frame = recording.table(name)
            shifted = frame.assign(run=frame["run"] + next_run) if "run" in frame else frame
            parts.setdefault(name, []).append(
                shifted.assign(round=frame["round"] + next_round) if name == "runs" else shifted
            )
        next_run += int(runs["run"].max()) + 1
        next_round += int(runs["round"].max()) + 1
    extra = {k: v for k, v in recordings[0].manifest.items() if k not in ("schema", "kind", "tables")}
    extra["merged_from"] = [r.path.name for r in recordings]
    tables = {name: pd.concat([f.astype(object) for f in frames]) for name, frames in parts.items()}
    return write_tables(path, recordings[0].manifest["kind"], tables, extra)


def partial_path(path: Path) -> Path:
    return path.with_name(path.name + ".partial") if path.name else path / ".partial"


def _manifest_hash(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
