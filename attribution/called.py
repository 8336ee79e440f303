"""A kernel's own code, called: what it raises becomes one sentence with its place.

In: a kernel's name, what is called, the call.  Out: its value.
Misuse: an `AttrError` that the code raises is its own sentence, and is passed on as it is.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from attribution.errors import AttrError, InputError

PACKAGE = "attribution_kernel_"
"""Modules of kernels' folders are imported under names that begin so (see load.py)."""
T = TypeVar("T")


def called(kernel: str, what: str, function: Callable[..., T], *args: Any, error: type[AttrError] = InputError) -> T:
    """The value of `function(*args)`.  Raises `error` with the place in the kernel's folder for whatever the function raises."""
    try:
        return function(*args)
    except AttrError:
        raise
    except Exception as seen:
        raise error(f"kernel {kernel}: {what} failed: {described(seen)}") from seen


def described(error: BaseException) -> str:
    """`kernel.py:24: KeyError: 'y'`: the innermost line in a kernel's folder, where there is one, and the error."""
    frames = [
        f"{Path(frame.f_code.co_filename).name}:{line}: "
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).startswith(PACKAGE)
    ]
    return f"{frames[-1] if frames else ''}{type(error).__name__}: {str(error).strip()}"
