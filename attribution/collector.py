"""Python's garbage collector, made to wait.

In: nothing.  Out: a context in which it does not run, and as it was afterwards, however the context is left.
Misuse: what only it could free is held as long.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No collection inside; one that was off before stays off."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
