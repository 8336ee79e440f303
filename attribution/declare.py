"""What a kernel and its variants are, as values: the left end of the flow.

In: what a `kernel.py` or a `variants/NAME.toml` says.  Out: frozen `Kernel` and `Variant` values.
Misuse: nothing here runs, builds or reads inputs; a kernel's own callables are only carried.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attribution.called import called
from attribution.errors import InputError

FlagValue = bool | int | str
Flags = Mapping[str, FlagValue]
Shape = Mapping[str, int]
Knobs = Mapping[str, int]
Inputs = Mapping[str, Any]
"""Inputs by name: numpy arrays, read-only; FP8 is `ml_dtypes.float8_e4m3fn`."""

EXPECTED = ("time_ratio", "exposed_ns")
"""Quantities of a contrast that can be expected."""


@dataclass(frozen=True)
class Flag:
    """A build-time constant: its default, what it may be (`choices`, or any positive int when None), and its meaning."""

    default: FlagValue
    doc: str
    choices: tuple[FlagValue, ...] | None = None

    def check(self, name: str, value: object) -> FlagValue:
        """Return `value` if this flag may have it.  Raises InputError."""
        allowed = (False, True) if isinstance(self.default, bool) else self.choices
        if allowed is not None:
            if any(value == a and type(value) is type(a) for a in allowed):
                return value  # type: ignore[return-value]
            raise InputError(f"flag {name} = {value!r}: allowed are {', '.join(map(str, allowed))}")
        if type(value) is int and value >= 0:
            return value
        raise InputError(f"flag {name} = {value!r}: allowed is an integer >= 0")


@dataclass(frozen=True)
class Axis:
    """One number of a shape or one launch knob: default, least value, and what it must be a multiple of.

    With `times`, the default is that many times the value of another axis (2 CTAs for each of `sms`).  `gpu`, of a shape: the
    default on a GPU, where the reference machine's would be too small to say anything.
    """

    default: int
    doc: str
    least: int = 1
    multiple: int = 1
    times: str | None = None
    most: int = 2**31 - 1
    gpu: int | None = None

    def check(self, name: str, value: object) -> int:
        """Return `value` if it is allowed.  Raises InputError."""
        number = value if type(value) is int else None
        if number is not None and self.least <= number <= self.most and number % self.multiple == 0:
            return number
        rule = f"an integer >= {self.least}" + (f" and <= {self.most}" if (number or 0) > self.most else "")
        if self.multiple > 1:
            rule += f" and a multiple of {self.multiple}"
        raise InputError(f"{name} = {value!r}: allowed is {rule}")


@dataclass(frozen=True)
class Event:
    """A kind of span.  `wait` spans name whom they wait for; `work` spans do not.

    `level` is the least value of flag TRACE at which it is recorded (1 per batch, 2 per tile).
    """

    name: str
    role: str
    waits_for: str | None = None
    level: int = 1

    @property
    def kind(self) -> str:
        return "work" if self.waits_for is None else "wait"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what, whether it held, and what was seen."""

    name: str
    passed: bool
    detail: str

    @classmethod
    def of_rows(cls, name: str, right: Any) -> Check:
        """Whether every row is right.  right: bool [rows] of numpy or torch, which is read back."""
        rows = right.tolist()
        wrong = [row for row, fine in enumerate(rows) if not fine]
        what = f"{len(wrong)} of {len(rows)} rows wrong, first {wrong[0]}" if wrong else f"all {len(rows)} rows"
        return cls(name, not wrong, what)


@dataclass(frozen=True)
class Entry:
    """One `__global__` function of the kernel's source: what `attr build` reports residency for.

    `threads` per CTA and dynamic `smem_bytes` follow from the flags.
    """

    name: str
    threads: Callable[[Flags], int]
    smem_bytes: Callable[[Flags], int]


def _no_rule(flags: Flags) -> str | None:
    return None


def _no_shape_rule(shape: Shape, flags: Flags, knobs: Knobs) -> None:
    return None


@dataclass(frozen=True)
class Kernel:
    """What is plugged in.  A `kernel.py` builds one and calls it KERNEL.

    inputs(shape, distribution, seed) -> Inputs; fresh arrays for a seed, the same ones for the same seed.
    reference(inputs, shape) -> Any; an independent answer, computed once per case, handed to `check`.
    check(inputs, output, reference, shape, flags) -> list[Check]; must reject every wrong output of every rung.
    host(inputs, shape, flags, knobs, clock) -> attribution.measure.host.HostRun; runs the algorithm for real on the CPU.
    gpu: name of the module in the kernel's folder that says how to run it on a GPU (see attribution/launch.py), or None.
    illegal(flags) -> the reason why this combination cannot be built, or None.
    illegal_shape(shape, flags, knobs) raises InputError for what the axes alone cannot say.
    same: counters that may be named in a variant's `same`, with one line of meaning each.
    """

    name: str
    summary: str
    flags: Mapping[str, Flag]
    shape: Mapping[str, Axis]
    knobs: Mapping[str, Axis]
    roles: tuple[str, ...]
    events: tuple[Event, ...]
    distributions: tuple[str, ...]
    same: Mapping[str, str]
    inputs: Callable[[Shape, str, int], Inputs]
    reference: Callable[[Inputs, Shape], Any]
    check: Callable[[Inputs, Any, Any, Shape, Flags], list[Check]]
    host: Callable[[Inputs, Shape, Flags, Knobs, Any], Any] | None = None
    gpu: str | None = None
    source: str | None = None
    entries: tuple[Entry, ...] = ()
    illegal: Callable[[Flags], str | None] = _no_rule
    illegal_shape: Callable[[Shape, Flags, Knobs], None] = _no_shape_rule
    folder: Path = Path()

    def __str__(self) -> str:
        return f"{self.name}: {self.summary} ({len(self.flags)} flags, roles {'/'.join(self.roles)})"

    def resolve_flags(self, overrides: Flags) -> dict[str, FlagValue]:
        """All flags with `overrides` applied and checked, in declared order.  Raises InputError."""
        for name in overrides:
            if name not in self.flags:
                raise InputError(
                    f"kernel {self.name} has no flag {name}{nearest(name, self.flags)}; "
                    f"`attr list {self.name}` shows them"
                )
        flags = {n: f.check(n, overrides.get(n, f.default)) for n, f in self.flags.items()}
        if reason := called(self.name, "illegal", self.illegal, flags):
            raise InputError(f"kernel {self.name}: flags refused: {reason}")
        return flags

    def gpu_shape(self) -> dict[str, int]:
        """Sizes whose default on a GPU is another one than on the reference machine, with that default."""
        return {name: axis.gpu for name, axis in self.shape.items() if axis.gpu is not None}

    def resolve_axes(self, what: str, given: Mapping[str, int]) -> dict[str, int]:
        """All axes of `what` ("shape" or "knobs") with `given` applied and checked.  Raises InputError."""
        axes = self.shape if what == "shape" else self.knobs
        for name in given:
            if name not in axes:
                raise InputError(f"kernel {self.name} has no {what.rstrip('s')} {name}{nearest(name, axes)}")
        values = {n: a.check(n, given.get(n, a.default)) for n, a in axes.items()}
        for n, a in axes.items():
            if a.times is not None and n not in given:
                values[n] = a.default * values[a.times]
        return values


@dataclass(frozen=True)
class Variant:
    """A controlled change of one kernel: what it overrides, what it asks, what must stay the same, what was expected."""

    kernel: str
    name: str
    asks: str
    base: str | None = None
    flags: Flags = field(default_factory=dict)
    knobs: Knobs = field(default_factory=dict)
    same: tuple[str, ...] = ()
    expects: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """Machine ("host", "h200", ...) -> quantity (EXPECTED), or size that it speaks of ("q") -> closed interval."""
    factors: tuple[str, str] | None = None
    """The declared factor pair of an interaction term, names of two flags."""
    beside: tuple[str, ...] = ()
    """Variants of the same base that are always measured with this one, because its answer is read against theirs."""
    stage: str = "main"
    """The stage that the question and the expectation are about; `operator` is all of them."""

    def __str__(self) -> str:
        change = ", ".join(f"{k}={v}" for k, v in {**self.flags, **self.knobs}.items()) or "as declared"
        return f"{self.kernel}/{self.name}: {change}; asks: {self.asks}"


def nearest(name: str, known: Iterable[str]) -> str:
    """`; nearest: a, b` for an error message, or nothing when no name is close."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.4)
    return f"; nearest: {', '.join(close)}" if close else ""
