"""Whether two recordings say the same of each arm: ratios are compared, never times.

In: two opened recordings.  Out: a frame with one row an arm that both have.
Recordings of unlike machines, ways of measuring or sources, and arms that are not the same in both, are refused, and both
values are named.
Misuse: agreement of two wide intervals says little.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from attribution.claim import answers
from attribution.errors import DataError
from attribution.recording import Recording, check_alike

KEY = ["question", "arm", "shape", "distribution"]
MADE_OF = ("flags", "knobs", "build", "inputs")
"""What an arm is made of and works on: columns of `runs`."""


def compare_answers(first: Recording, second: Recording, stage: str | None = None) -> pd.DataFrame:
    """One row an arm that both have: both ratios with intervals, and whether they agree.

    `agree` when the intervals of the two log-ratios, taken as independent, leave room for no difference:
    |difference| <= sqrt(half-width^2 + half-width^2).  Raises DataError for unlike recordings or arms, or no common arm.
    """
    check_alike(first, second)
    check_same_arms(first, second)
    key = [*KEY, "scope", "stage"]
    fields = ["time_ratio", "time_ratio_low", "time_ratio_high", "verdict"]
    both = answers(first, stage)[key + fields].merge(
        answers(second, stage)[key + fields], on=key, suffixes=("_first", "_second")
    )
    if both.empty:
        raise DataError(
            f"{first.path.name} and {second.path.name} have no arm in common at one shape, distribution and stage"
        )
    logs = {end: np.log(both[[f"{f}_{end}" for f in fields[:3]]].to_numpy(float)) for end in ("first", "second")}
    half = {end: (v[:, 2] - v[:, 1]) / 2 for end, v in logs.items()}
    apart = np.abs(logs["first"][:, 0] - logs["second"][:, 0])
    room = np.hypot(half["first"], half["second"])
    both["agree"] = np.where(np.isnan(apart) | np.isnan(room), "unknown", np.where(apart <= room, "yes", "no"))
    return both


def check_same_arms(first: Recording, second: Recording) -> None:
    """Raises DataError, naming both values, for an arm that has other flags, knobs, machine code or inputs in the other one."""
    one, other = _made_of(first), _made_of(second)
    for key in [key for key in one if key in other]:
        for column, here, there in zip(MADE_OF, one[key], other[key], strict=True):
            if here != there:
                raise DataError(
                    f"{first.path.name} and {second.path.name} are unlike: of arm {key[1]} ({key[2]}) "
                    f"{_unlike(column, here, there)}; compare arms of one build on the same inputs only"
                )


def _made_of(recording: Recording) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """KEY -> the values of each of MADE_OF in the runs that ended well."""
    runs = recording.table("runs")
    runs = runs[runs["status"] == "ok"].astype(dict.fromkeys([*KEY, *MADE_OF], str))
    return {
        tuple(map(str, key)): [tuple(sorted(set(here[column]))) for column in MADE_OF]
        for key, here in runs.groupby(KEY, sort=False)
    }


def _unlike(column: str, here: tuple[str, ...], there: tuple[str, ...]) -> str:
    """`flag BLOCK_Q is 4 and 1`: where two values of one column differ, in words; a hash by its first digits."""
    if column in ("flags", "knobs") and len(here) == len(there) == 1:
        mine, theirs = json.loads(here[0]), json.loads(there[0])
        name = next(n for n in (*mine, *theirs) if mine.get(n) != theirs.get(n))
        return f"{column.removesuffix('s')} {name} is {mine.get(name)} and {theirs.get(name)}"
    return f"{column} is " + " and ".join(", ".join(text[:16] or "none" for text in values) for values in (here, there))
