"""One file, written whole or not at all.

In: the path that it is to have.  Out: a draft beside it, to be written under the `with`; it becomes the file by one rename.
Misuse: an error under the `with` leaves neither the draft nor a changed file behind; do not rename or remove the draft there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from attribution.errors import MeasureError


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """The draft of `path`, with the same ending.  Raises MeasureError when the disk refuses."""
    draft = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield draft
        draft.rename(path)
    except OSError as error:
        raise MeasureError(f"cannot write {path}: {error.strerror}; nothing was written") from error
    finally:
        # Where the folder is a file, or gone, there is no draft either, and the first error is the one to show.
        with contextlib.suppress(OSError):
            draft.unlink()
