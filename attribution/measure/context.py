"""Errors on a card, told apart: one that fails an arm, and one after which the context is lost.

In: an action that enqueues work.  Out: its value, once the card has done it.
Misuse: work that is enqueued outside `guarded` fails at whatever waits next, and that gets the blame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attribution.called import described
from attribution.errors import AttrError, MeasureError
from attribution.measure.machine import MachineLost

T = TypeVar("T")


def guarded(action: Callable[[], T]) -> T:
    """The action's value; its errors as MeasureError, or MachineLost when the context does not survive."""
    import torch

    try:
        value = action()
        torch.cuda.synchronize()
        return value
    except (AttrError, MachineLost) as error:
        _check_alive(error)
        raise
    except Exception as error:
        _check_alive(error)
        raise MeasureError(described(error).splitlines()[0]) from error


def _check_alive(error: Exception) -> None:
    """Raises MachineLost when the context can no longer be used."""
    import torch

    try:
        torch.cuda.synchronize()
    except Exception as poisoned:
        words = str(poisoned).strip().splitlines() or [""]
        raise MachineLost(f"{words[0]} (the context is lost; seen after {type(error).__name__})") from error
