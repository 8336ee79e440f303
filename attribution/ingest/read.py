"""One entrance for a profiler's file of any kind, by its content and not by its name.

In: a path.  Out: `Ingested`.  A file that is not understood is refused with a sentence that says what it looks like.
Misuse: options belong to formats; one that the file's kind does not have is an error, not ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attribution.errors import DataError, InputError
from attribution.ingest import bounded
from attribution.ingest.ingested import Ingested

KINDS = ("ncu-rep", "ncu-csv", "nsys-sqlite", "chrome-json")
OPTIONS = {
    "ncu-rep": {"sass"},
    "ncu-csv": {"decimal", "keep_unknown_units", "max_bytes"},
    "nsys-sqlite": {"max_rows"},
    "chrome-json": {"time_unit", "max_bytes"},
}
_REFUSED = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself; run `git lfs pull`"),
    (b"PAR1", "a parquet table, not a profiler's file; `attr show` takes the recording's folder"),
    (b"\x7fELF", "a program or cubin, not a profiler's file; `attr build` prints what a cubin holds"),
    (b"PK\x03\x04", "a zip archive; unpack it and give the file inside"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; decompress it first"),
    (b"BZh", "compressed with bzip2; decompress it first"),
    (b"\xfd7zXZ", "compressed with xz; decompress it first"),
)


def kind_of(path: Path) -> str:
    """One of `KINDS`.  Raises DataError for anything else, with what it looks like."""
    path = Path(path)
    bounded.check_file(path)
    start = bounded.head(path)
    with path.open("rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    for magic, kind in ((b"NVR\0", "ncu-rep"), (b"SQLite format 3\0", "nsys-sqlite")):
        if start.startswith(magic):
            if compressed:
                raise DataError(f"{path.name}: {kind} inside gzip; decompress it first with `gunzip`")
            return kind
    for magic, what in _REFUSED:
        if start.startswith(magic):
            raise DataError(f"{path.name}: {what}")
    return _kind_of_text(path.name, start)


def _kind_of_text(name: str, start: bytes) -> str:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "ncu-csv"
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        raise DataError(f"{name}: nothing but white space; the profiler or the copy did not finish")
    if text[:1] == b"{" or (text[:1] == b"[" and text[1:].lstrip()[:1] in (b"{", b"]")):
        return "chrome-json"
    if b"\0" in start:
        raise DataError(
            f"{name}: a binary file of no kind known here ({start[:8].hex(' ')}); a .nsys-rep is read after "
            "`nsys export --type sqlite FILE`, an .ncu-rep begins with NVR"
        )
    return "ncu-csv"


def read(path: Path | str, kind: str | None = None, **options: Any) -> Ingested:
    """Read a profiler's file.

    `kind` (one of `KINDS`) is for a file that is known better than its content shows.  Options: `sass` (ncu-rep);
    `decimal`, `keep_unknown_units`, `max_bytes` (ncu-csv); `max_rows` (nsys-sqlite); `time_unit`, `max_bytes`
    (chrome-json).  Raises DataError for the file, InputError for an option or kind.
    """
    path = Path(path)
    if kind is not None and kind not in KINDS:
        raise InputError(f"kind {kind!r} is not known; allowed are {', '.join(KINDS)}")
    kind = kind or kind_of(path)
    if wrong := set(options) - OPTIONS[kind]:
        raise InputError(
            f"{path.name} is {kind}, which has no option {sorted(wrong)[0]!r}; it has {', '.join(sorted(OPTIONS[kind]))}"
        )
    return _loader(kind)(path, **options)


def _loader(kind: str) -> Callable[..., Ingested]:
    """The reader of a kind, imported only when it is needed."""
    from attribution.ingest import kineto, ncu, ncu_csv, nsys

    loaders: dict[str, Callable[..., Ingested]] = {
        "ncu-rep": ncu.load,
        "ncu-csv": ncu_csv.load,
        "nsys-sqlite": nsys.load,
        "chrome-json": kineto.load,
    }
    return loaders[kind]
