"""Whether a stage that a user names was timed at all.

In: an opened recording and the name.  Out: nothing, or one sentence with what there is.
Misuse: that a stage was timed somewhere does not say that it was timed of every arm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attribution.errors import InputError

if TYPE_CHECKING:
    from attribution.recording import Recording


def check_timed(recording: Recording, stage: str) -> None:
    """Raises InputError for a stage that has no time."""
    stages = sorted(recording.table("times")["stage"].astype(str).unique())
    if stage not in stages:
        raise InputError(f"{recording.path.name} has no time of stage {stage!r}; it has: {', '.join(stages) or 'none'}")
