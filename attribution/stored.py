"""Parquet files with their hashes, and folders that appear whole or not at all.

In: frames that conform to `attribution.tables`; paths.  Out: files, facts about them for a manifest, frames read back.
Every file's sha256 and number of rows are checked on reading; a folder is filled beside its place and put there by one rename.
Misuse: nothing here knows what a recording is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution.errors import DataError, MeasureError
from attribution.tables import TABLES

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def published(path: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary folder beside `path` that becomes `path` by one rename, or disappears."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise MeasureError(f"cannot write beside {path}: {error.strerror}; nothing was written") from error
    try:
        yield folder
        for file in folder.iterdir():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
        folder.chmod(0o755)
        if overwrite and path.exists():
            _replace(folder, path)
        else:
            folder.rename(path)
    except OSError as error:
        raise MeasureError(f"cannot write {path}: {error.strerror or error}; nothing was left half-written") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _replace(folder: Path, path: Path) -> None:
    """Put `folder` where `path` is; when that fails, `path` is back where it was."""
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    try:
        path.rename(old / path.name)
        try:
            folder.rename(path)
        except BaseException:
            (old / path.name).rename(path)
            raise
    except BaseException:
        # Only when it is empty: what could not be put back stays where it is.
        with suppress(OSError):
            old.rmdir()
        raise
    shutil.rmtree(old)


def write_parquet(folder: Path, name: str, frame: pd.DataFrame) -> dict[str, Any]:
    """zstd, integers as deltas: ten million trace events take 12 MB instead of 59."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    integers = [c for c, d in TABLES[name].items() if d.type.startswith("int")]
    others = [c for c in TABLES[name] if c not in integers]
    file = folder / f"{name}.parquet"
    pq.write_table(
        pa.Table.from_pandas(frame, preserve_index=False),
        file,
        compression="zstd",
        use_dictionary=others,
        column_encoding=dict.fromkeys(
            [c for c in integers if TABLES[name][c].type in ("int32", "int64")],
            "DELTA_BINARY_PACKED",
        ),
    )
    return {"rows": len(frame), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def unchanged(folder: Path, name: str, facts: Mapping[str, Any]) -> bytes:
    """The bytes of a table's file, after its hash was checked.  Raises DataError."""
    file = folder / f"{name}.parquet"
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{file} is missing, but the manifest lists {facts['rows']} rows of it") from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}; copy the recording again") from error
    if (digest := hashlib.sha256(content).hexdigest()) != facts["sha256"]:
        raise DataError(
            f"{file} was changed after it was written: sha256 {digest[:12]}..., the manifest says {facts['sha256'][:12]}..."
        )
    return content


def read_parquet(folder: Path, name: str, facts: Mapping[str, Any]) -> pd.DataFrame:
    """The frame, after its hash and its number of rows were checked.  Raises DataError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file, content = folder / f"{name}.parquet", unchanged(folder, name, facts)
    try:
        # Arrow's threads would call back into a Python file, and abort the process where that ends meanwhile (seen: 40 of 240).
        frame: pd.DataFrame = pq.read_table(pa.BufferReader(content)).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} is not a parquet file: {error}") from error
    if len(frame) != facts["rows"]:
        raise DataError(f"{file} has {len(frame)} rows, the manifest says {facts['rows']}")
    return frame
