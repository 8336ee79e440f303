"""Opening files of unknown origin: what they are, and no more of them than was allowed.

In: a path.  Out: its first bytes, its kind, and a stream that stops at `max_bytes` after
decompression.  A file of 1 MB can be a gzip stream of 1 GB, so the limit is on what comes out.
Misuse: never call `read()` of a gzip file directly; never trust a file's name for its kind.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attribution.errors import DataError, InputError

HEAD_BYTES = 4096
"""What tells the kind of a file."""
MAX_BYTES = 1 << 30
"""Limit on a file after decompression, where the caller states no other; tables take up to about ten times of it."""

_GZIP_FAULTS = (gzip.BadGzipFile, EOFError, zlib.error)


class Limited(io.RawIOBase):
    """A readable stream that raises DataError past `max_bytes` and on damaged gzip."""

    def __init__(self, inner: io.BufferedIOBase, path: Path, max_bytes: int) -> None:
        self._inner, self._path, self._max, self._seen = inner, path, max_bytes, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._inner.read(len(buffer))
        except _GZIP_FAULTS as error:
            raise DataError(
                f"{self._path.name}: damaged or truncated gzip after {self._seen:,} bytes ({error}); "
                "copy the file again"
            ) from error
        except OSError as error:
            raise DataError(f"{self._path.name}: cannot be read: {error.strerror}") from error
        self._seen += len(data)
        if self._seen > self._max:
            raise DataError(
                f"{self._path.name}: more than {self._max:,} bytes after decompression; "
                "if the file is sound, allow more with max_bytes"
            )
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def opened(path: Path, max_bytes: int = MAX_BYTES) -> Iterator[io.BufferedReader]:
    """The bytes of a file, decompressed where it is gzip.  Raises DataError, InputError."""
    if max_bytes < 1:
        raise InputError(f"max_bytes is {max_bytes}; allowed is 1 or more")
    check_file(path)
    try:
        raw = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    with raw:
        inner: io.BufferedIOBase = raw
        if raw.peek(2)[:2] == b"\x1f\x8b":
            inner = gzip.GzipFile(fileobj=raw, mode="rb")
        yield io.BufferedReader(Limited(inner, path, max_bytes), 1 << 20)


def check_file(path: Path) -> None:
    """Raise DataError where there is no file, or one that is empty."""
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder, not a profiler file; give the files inside it")
        if not path.exists():
            raise DataError(f"{path} does not exist; check the path")
        if not path.is_file():
            raise DataError(f"{path} is not a plain file; copy its content to one first")
        if path.stat().st_size == 0:
            raise DataError(f"{path.name}: empty, 0 bytes; the profiler or the copy did not finish")
    except (OSError, ValueError) as error:
        raise DataError(f"{str(path)[:200]!r}: cannot be read: {error}") from error


def head(path: Path) -> bytes:
    """The first bytes, after decompression.  Raises DataError."""
    with opened(path, 1 << 24) as stream:
        return stream.peek(HEAD_BYTES)[:HEAD_BYTES] or stream.read(HEAD_BYTES)


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The whole file as text: UTF-8 with or without mark, or UTF-16 with one.  Raises DataError."""
    with opened(path, max_bytes) as stream:
        data = stream.read()
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path.name}: byte {error.start:,} is not {encoding} text; the file is damaged or binary"
        ) from error
