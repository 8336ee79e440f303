"""Claims: every expectation that was written before measuring, against what its recording says, with every check.

In: opened recordings.  Out: a frame with one row for each expectation, scope and quantity: supported, refuted or undecided.
A void or doubtful contrast, a voided recording, or a machine or size that the expectation does not speak of decides nothing.
Misuse: `supported` is about one interval on one machine, shape and distribution; it is no law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from attribution.analyze.verdict import AT_BEST, judge, stated_for
from attribution.claim import answers
from attribution.claim.void import LIST
from attribution.errors import InputError
from attribution.plan import NULL
from attribution.recording import Recording, contents
from attribution.tables import records

MEASURED = {
    "time_ratio": ("time_ratio", "time_ratio_low", "time_ratio_high"),
    "exposed_ns": ("exposed_ns", "exposed_low_ns", "exposed_high_ns"),
}
"""Quantity that can be expected -> value and 95 % interval among the fields of an answer."""

MISSING = {"rounds-lost", "rounds-missing"}
"""Flags of a contrast that lacks pairs, or rounds that were planned."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at before judging; `passed` None is "not known"."""

    check: str
    passed: bool | None
    detail: str

    def __str__(self) -> str:
        return f"{self.check}: {self.detail}"


def claims(
    recordings: Sequence[Recording], progress: Callable[[int, int, str], None] = lambda done, total, name: None
) -> pd.DataFrame:
    """A row for each expectation in each scope, in the order of the recordings and their plans.

    Columns: COLUMNS; value, low and high are of the 95 % interval, verdict is the contrast's, checks is a list of mappings.
    Raises InputError, DataError.
    """
    for done, recording in enumerate(recordings):
        progress(done, len(recordings), recording.path.name)
        if (key := _contents(recording)) not in _judged_before:
            _judged_before[key] = list(_rows(recording))
    return pd.DataFrame([row for r in recordings for row in _judged_before[_contents(r)]], columns=COLUMNS)


_judged_before: dict[tuple[object, ...], list[dict[str, Any]]] = {}
"""A recording never changes, and one process may be asked of it by many documents."""


def _contents(recording: Recording) -> tuple[object, ...]:
    """What tells a recording, or the void list beside it, from one that was put in its place."""
    beside = recording.path.resolve().parent / LIST
    listed = ((s := beside.stat()).st_mtime_ns, s.st_size, s.st_ino) if beside.exists() else ()
    return *contents(recording.path), listed


COLUMNS = [
    "recording", "machine", "kernel", "shape", "distribution", "question", "arm", "stage", "scope", "asks", "quantity",
    "expected_low", "expected_high", "value", "low", "high", "pairs", "verdict", "claim", "reason", "checks",
]  # fmt: skip


def overturned(found: pd.DataFrame) -> pd.DataFrame:
    """The claims that were refuted: what the authors had believed and the measurement did not bear out."""
    return found[found["claim"] == "refuted"].reset_index(drop=True)


def _rows(recording: Recording) -> Iterator[dict[str, Any]]:
    manifest = recording.manifest
    variants, machine = manifest["variants"], manifest["machine"]["expects"]
    for answer in records(answers(recording)):
        stated = variants.get(answer["arm"], {}).get("expects", {})
        if answer["arm"] == NULL or not stated:
            continue
        # What is expected of other machines is shown where nothing is expected of this one, and then decides nothing.
        for of in [machine] if machine in stated else list(stated):
            quantities, beyond = stated_for(stated[of], answer["shape"])
            for quantity, (low, high) in quantities.items():
                yield _judged(recording, answer, of, quantity, (float(low), float(high)), beyond)


def _judged(
    recording: Recording,
    answer: Mapping[str, Any],
    of: str,
    quantity: str,
    expected: tuple[float, float],
    beyond: str,
) -> dict[str, Any]:
    manifest = recording.manifest
    if quantity not in MEASURED:
        raise InputError(
            f"{recording.path.name}: {answer['arm']} expects {quantity!r}; allowed are {', '.join(MEASURED)}"
        )
    value, low, high = (answer[field] for field in MEASURED[quantity])
    checks = [_machine(of, manifest["machine"]["expects"]), *_contrast(answer, quantity, expected)]
    checks += [Check("sizes", False, beyond)] if beyond else []
    # What spoils a contrast (work, clocks) is among its own reasons already.
    doubts = [c.detail for c in checks if c.passed is False and c.check in ("machine", "modes", "contrast", "sizes")]
    claim = "undecided" if doubts else judge(low, high, expected)
    interval = _interval(quantity, low, high, expected)
    return {
        "recording": recording.path.name, "machine": manifest["machine"]["name"], "kernel": manifest["plan"]["kernel"],
        **{k: answer[k] for k in ("shape", "distribution", "question", "arm", "stage", "scope", "asks")},
        "quantity": quantity, "expected_low": expected[0], "expected_high": expected[1],
        "value": value, "low": low, "high": high, "pairs": answer["pairs"],
        "verdict": answer["verdict"], "claim": claim, "reason": "; ".join(doubts) or interval.detail,
        "checks": [asdict(c) for c in (*checks, interval)],
    }  # fmt: skip


def _machine(of: str, here: str) -> Check:
    same = of == here
    return Check("machine", same, here if same else f"the expectation speaks of {of}, this was measured on {here}")


def _contrast(answer: Mapping[str, Any], quantity: str, expected: tuple[float, float]) -> Iterator[Check]:
    """Equal work, clocks and modes by name; then whatever else made the contrast void or doubtful."""
    work = answer["equal_work"]
    passed = {"equal": True, "none asked": None}.get(work, False)
    yield Check("equal work", passed, answer["work"] or f"{work} by {answer['arm']}")
    limited = "clock-limited" in answer["flags"].split(",")
    yield Check("clocks", not limited, "samples were clock-limited" if limited else "no sample was clock-limited")
    yield _modes(answer, quantity, expected)
    reasons = answer["reasons"].split("; ")
    whole = not MISSING & set(answer["flags"].split(","))
    lacking = [r for r in reasons if "rounds" in r.split()]
    yield Check("rounds", whole, f"{answer['pairs']} pairs" if whole else "; ".join(lacking))
    spoiled = reasons if answer["verdict"] == "void" else [r for r in reasons if r.startswith(AT_BEST)]
    believed = answer["verdict"] != "void" and not answer["blocked"]
    told = "; ".join(dict.fromkeys(r.removeprefix(AT_BEST) for r in spoiled))
    yield Check("contrast", believed, answer["reasons"] if believed else told)


def _modes(answer: Mapping[str, Any], quantity: str, expected: tuple[float, float]) -> Check:
    """Passed when the claim would be the same in whichever mode each arm is."""
    if not answer["modes"]:
        return Check("modes", True, "one mode an arm")
    _, low, high = (answer[field] for field in MEASURED[quantity])
    least, most = (answer[f"modes_{field}"] for field in MEASURED[quantity][1:])
    same = judge(least, most, expected) == judge(low, high, expected)
    spanned = "one has no interval" if math.isnan(least) else f"{shown(quantity, least, most)} over all of them"
    return Check("modes", same, f"{answer['modes']}: {spanned}")


def shown(quantity: str, *values: float) -> str:
    """`0.9110` or `[0.9102, 0.9120]`: a ratio, or ns as ms, with as many digits as the other tables show."""
    texts = [f"{v:.4f}" if quantity == "time_ratio" else f"{v / 1e6:.3f} ms" for v in values]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _interval(quantity: str, low: float, high: float, expected: tuple[float, float]) -> Check:
    """Where the measured interval lies, in words; passed when inside."""
    seen, meant = shown(quantity, low, high), shown(quantity, *expected)
    if math.isnan(low) or math.isnan(high):
        return Check("interval", None, "there is no interval")
    word = judge(low, high, expected)
    place = {"supported": "lies inside", "refuted": "lies outside", "undecided": "reaches across an end of"}[word]
    return Check("interval", {"supported": True, "refuted": False}.get(word), f"{seen} {place} {meant}")
