"""What a worker is asked to do, and how it is to measure, as a file.

In: plans, options, what was refused.  Out: `Order`, written and read as JSON.
Misuse: a plan is the same in the order and in the partial recording's identity; they are made together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attribution.errors import DataError
from attribution.measure import stopping
from attribution.measure.points import Files
from attribution.plan import NULL

REST = 2
"""Rest of the card after each arm's turn, as a multiple of the turn's work.

Seen at Q 4096, N 131072 with a rest of 1 (turns of 23 ms, an H200 at its power limit, 2026-11-29): behind that rest the clock of
a turn scattered by 10.5 MHz and its time by 0.6 %, behind twice as long a pause by 2.4 MHz and 0.13 %.
"""
Key = tuple[int, str, str]
"""(number of the point, question, arm)."""


TUPLES = ("scopes", "stages", "profiled_stages", "profiled_arms")
"""Fields of `Options` that JSON turns into lists."""


@dataclass(frozen=True)
class Options:
    """How a GPU is to measure.

    `traced_rounds`: rounds in which every arm runs once more with TRACE on.  `timeout_s`: silence that counts as a hang.
    `keep_s`: how long a finished run may wait to be written with others; a worker that dies takes those along, and they are
    measured again.
    """

    scopes: tuple[str, ...] = ("event", "graph")
    cache: str = "warm"
    samples: int = 10
    traced_rounds: int = 6
    timeout_s: float = 120.0
    keep_s: float = 2.0
    stages: tuple[str, ...] = ("main", "operator")
    """What scope graph replays, and ncu profiles where `profiled_stages` does not say; `operator` is all of them."""
    profiled_stages: tuple[str, ...] = ()
    profiled_arms: tuple[str, ...] = ()
    """What ncu and cupti profile; none named is all of them."""
    base_turns: int = 3
    """Times that ncu profiles a base: how far counters of equal launches differ is their interval."""
    rest: float = REST

    @property
    def primary(self) -> tuple[str, str]:
        """Scope and stage whose interval a stopping rule looks at."""
        return "graph" if "graph" in self.scopes else self.scopes[0], "operator"

    def profiles(self, arm: str) -> bool:
        """Whether a profiler is to run this arm; the null arm is the base again, and would say nothing new."""
        return arm != NULL and arm in (self.profiled_arms or (arm,))


@dataclass(frozen=True)
class Order:
    """What a worker is asked to do."""

    root: str
    plans: tuple[Mapping[str, Any], ...]
    """One a point, as `Plan.facts`."""
    identity: Mapping[str, Any]
    options: Options = field(default_factory=Options)
    rule: stopping.Rule | None = None
    files: Files = field(default_factory=dict)
    refused: tuple[tuple[int, str, str, str], ...] = ()
    """(point, question, arm, reason): runs of these are skipped."""
    ceilings: bool = True
    """Whether the machine's ceilings are measured between rounds."""
    same: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Variant -> counters that it must share with its base."""
    mode: str = "time"
    """`time` runs the jobs; `alone` runs one arm (`alone`); ncu and cupti run every arm inside named ranges."""
    alone: Key | None = None

    def refused_at(self, point: int) -> dict[tuple[str, str], str]:
        """(question, arm) -> reason of what is skipped at a point."""
        return {(q, a): reason for p, q, a, reason in self.refused if p == point}

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Order:
        """Raises DataError."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            options = raw.pop("options")
            options |= {name: tuple(options[name]) for name in TUPLES}
            rule, alone = raw.pop("rule"), raw.pop("alone")
            return cls(
                plans=tuple(raw.pop("plans")),
                options=Options(**options),
                rule=None if rule is None else stopping.Rule(**rule),
                refused=tuple((p, q, a, r) for p, q, a, r in raw.pop("refused")),
                alone=None if alone is None else (alone[0], alone[1], alone[2]),
                **raw,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is no job file: {type(error).__name__}: {error}") from error
