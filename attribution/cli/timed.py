"""Whether a stage and a scope that a user names were timed at all.

In: an opened recording and the names.  Out: nothing, or one sentence with what there is.
Misuse: that a stage was timed somewhere does not say that it was timed of every arm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attribution.errors import InputError

if TYPE_CHECKING:
    from attribution.recording import Recording


def check_timed(recording: Recording, stage: str | None, scope: str | None) -> None:
    """Raises InputError for a stage or a scope (instrument, or instrument/cache/clock) that has no time; None is not asked."""
    times = recording.table("times").astype({"stage": str, "scope": str, "cache": str, "clock": str})
    stages = sorted(times["stage"].unique())
    if stage is not None and stage not in stages:
        raise InputError(f"{recording.path.name} has no time of stage {stage!r}; it has: {', '.join(stages) or 'none'}")
    labels = sorted(set(times["scope"] + "/" + times["cache"] + "/" + times["clock"]))
    if scope is not None and scope not in (*labels, *times["scope"].unique()):
        raise InputError(f"{recording.path.name} has no time in scope {scope!r}; it has: {', '.join(labels) or 'none'}")
