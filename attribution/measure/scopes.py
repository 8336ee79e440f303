"""What a time was measured with, as a type: values of two scopes never meet in one sum or ratio.

In: an instrument, a cache policy, a clock policy.  Out: `Scope`, `Time`, and what each includes.
The same kernel reads 1.00 under an instrument that flushes caches and 0.80 without the flush:
their difference is a difference of instruments, and is refused.
Misuse: do not take `.ns` out of two values to subtract them; the type is there to stop that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attribution.declare import nearest
from attribution.errors import DataError, InputError, MeasureError

INSTRUMENTS: Mapping[str, str] = {
    "event": "CUDA events around eager launches on a stream that was kept full: kernels and the gaps between them",
    "graph": "CUDA events around one replay of a CUDA Graph: kernels and the gaps inside the graph",
    "cupti": "kernels' own begin and end in one replay of the operator's CUDA Graph, as CUPTI records them: of a stage their "
    "union, of the operator first begin to last end; the profiler is attached",
    "ncu": "one launch alone under Nsight Compute: serialized, replayed for each pass",
    "trace": "first to last stamp that the kernel's own lanes wrote, in a build with TRACE on",
    "host-virtual": "virtual time of the reference machine",
}
"""Instrument -> what a value of it includes."""

CACHES = ("warm", "cold", "none")
CLOCKS = ("as-found", "equal-clock", "none")
"""`equal-clock`: as found and brought to one SM clock afterwards (analyze/equal_clock.py)."""


@dataclass(frozen=True)
class Scope:
    """Instrument, cache and clock policy; raises InputError for a name that does not exist."""

    instrument: str
    cache: str = "warm"
    clock: str = "as-found"

    def __post_init__(self) -> None:
        for what, value, known in (
            ("scope", self.instrument, tuple(INSTRUMENTS)),
            ("cache policy", self.cache, CACHES),
            ("clock policy", self.clock, CLOCKS),
        ):
            if value not in known:
                raise InputError(f"{what} {value!r}{nearest(value, known)}; allowed are {', '.join(known)}")

    def __str__(self) -> str:
        return f"{self.instrument}/{self.cache}/{self.clock}"


@dataclass(frozen=True)
class Time:
    """A duration in ns with its scope and stage.  Arithmetic and order raise across scopes."""

    ns: float
    scope: Scope
    stage: str

    def __str__(self) -> str:
        return f"{self.ns:.0f} ns ({self.stage}, {self.scope})"

    def __add__(self, other: Time) -> Time:
        self._like(other, "add")
        return Time(self.ns + other.ns, self.scope, f"{self.stage} + {other.stage}")

    def __sub__(self, other: Time) -> Time:
        self._like(other, "subtract")
        return Time(self.ns - other.ns, self.scope, f"{self.stage} - {other.stage}")

    def __truediv__(self, other: Time) -> float:
        self._like(other, "divide")
        return self.ns / other.ns

    def __lt__(self, other: Time) -> bool:
        self._like(other, "order")
        return self.ns < other.ns

    def _like(self, other: Time, verb: str) -> None:
        if not isinstance(other, Time):
            raise TypeError(f"cannot {verb} a Time and a {type(other).__name__}: it has no scope")
        if self.scope != other.scope:
            raise DataError(f"cannot {verb} times of two scopes: {self} and {other}; measure both in one scope")


@dataclass(frozen=True)
class Skip:
    """A scope that was not measured, and why: kept in the recording."""

    scope: str
    reason: str


def choose(
    asked: Sequence[str], defaults: Sequence[str], missing: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[Skip, ...]]:
    """Instruments to use, and those of the defaults that are left out with their reasons.

    `missing`: instrument -> why it is not available here.  What was asked for and is not there is
    an error, never silently another instrument.  Raises InputError, MeasureError.
    """
    for name in asked:
        Scope(name)
        if name in missing:
            raise MeasureError(f"scope {name} is not available: {missing[name]}")
    wanted = tuple(dict.fromkeys(asked or defaults))
    skips = tuple(Skip(name, missing[name]) for name in wanted if name in missing)
    return tuple(name for name in wanted if name not in missing), skips
