"""Builds on disk: one folder per identity, published whole by one rename.

In: identity, cubin, facts (JSON values).  Out: the folder and the facts, verified.
A folder that is damaged (missing file, other bytes, unknown format) is never used: it is moved away
and built again.  Several processes may publish the same identity; the first one wins.
Misuse: the cache may be deleted at any time; keep nothing else in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from attribution.errors import BuildError

CUBIN, FACTS = "kernel.cubin", "facts.json"
FORMAT = 2
"""Changes when the facts do, so that an older entry is not found rather than misread."""


def root(cache: Path | str | None = None) -> Path:
    """`cache`, or the user's cache folder."""
    if cache is not None:
        return Path(cache)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "attribution" / "builds"


def load(cache: Path, identity: str) -> tuple[Path, dict[str, Any]] | None:
    """Folder and facts of `identity`; None if it is not there or any byte of it was changed."""
    folder = cache / identity
    try:
        cubin = (folder / CUBIN).read_bytes()
        stored = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        facts: dict[str, Any] = stored["facts"]
        whole = stored["sha256"] == _digest(cubin, facts) and facts["identity"] == identity
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (folder, facts) if whole else None


def publish(cache: Path, identity: str, cubin: bytes, facts: dict[str, Any]) -> Path:
    """Write an entry beside the cache's others and rename it into place.  Raises BuildError."""
    folder = cache / identity
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".new-") as scratch:
            new = Path(scratch) / identity
            new.mkdir()
            (new / CUBIN).write_bytes(cubin)
            stored = {"sha256": _digest(cubin, facts), "facts": facts}
            (new / FACTS).write_text(json.dumps(stored, indent=1), encoding="utf-8")
            if folder.exists() and load(cache, identity) is None:
                with contextlib.suppress(FileNotFoundError):
                    folder.rename(Path(scratch) / "damaged")
            try:
                new.rename(folder)
            except OSError:
                if load(cache, identity) is None:  # not another process that was faster
                    raise
    except OSError as error:
        raise BuildError(
            f"the build cache {cache} cannot be written: {error.strerror or error}; "
            "set XDG_CACHE_HOME or pass --cache DIR"
        ) from error
    return folder


def _digest(cubin: bytes, facts: dict[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(hashlib.sha256(cubin).digest() + text.encode()).hexdigest()
