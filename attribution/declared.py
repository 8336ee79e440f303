"""Whether a declaration is one: every field of a Kernel has its type, its names can be names, its defaults are allowed.

In: a Kernel as `kernel.py` made it.  Out: nothing, or one sentence on the first field that is wrong.
Misuse: what the functions do is not looked at; that shows when they are called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from attribution.declare import Axis, Entry, Event, Flag, Kernel
from attribution.errors import InputError

TEXTS = {"name": str, "summary": str, "gpu": str | None, "source": str | None}
LISTS = {"roles": str, "events": Event, "distributions": str, "entries": Entry}
MAPS = {"flags": Flag, "shape": Axis, "knobs": Axis, "same": str}
FUNCTIONS = ("inputs", "reference", "check", "host", "illegal", "illegal_shape")
"""Field of a Kernel -> the type of its value, or of what its value holds."""


def check_declared(kernel: Kernel) -> None:
    """Raises InputError for the first field that is no such thing."""
    _check_types(kernel)
    _check_names(kernel)
    for name, flag in kernel.flags.items():
        _check_flag(kernel, name, flag)
    for axes in (kernel.shape, kernel.knobs):
        for name, axis in axes.items():
            _check_axis(kernel, name, axis, axes)
    for name, axis in kernel.knobs.items():
        if axis.gpu is not None:
            _refuse(
                kernel, f"gpu of knob {name}", axis.gpu, "left out: sizes of the shape only have a default for a GPU"
            )
    if kernel.host is not None and "sms" not in kernel.knobs:
        _refuse(kernel, "knobs", list(kernel.knobs), "with sms, over which the reference machine places tasks")
    for entry in kernel.entries:
        for part in ("threads", "smem_bytes"):
            if not callable(value := getattr(entry, part)):
                _refuse(kernel, f"{part} of entry {entry.name}", value, "a function of the flags")


def _check_types(kernel: Kernel) -> None:
    for field, kind in TEXTS.items():
        if not isinstance(value := getattr(kernel, field), kind):
            _refuse(kernel, field, value, "a text")
    for field in FUNCTIONS:
        if not callable(value := getattr(kernel, field)) and not (field == "host" and value is None):
            _refuse(kernel, field, value, "a function")
    for field, of in LISTS.items():
        if not isinstance(value := getattr(kernel, field), tuple | list):
            _refuse(kernel, field, value, f"a tuple of {of.__name__}, of one too: (one,)")
        _check_all(kernel, field, of, enumerate(value))
    for field, of in MAPS.items():
        if not isinstance(value := getattr(kernel, field), Mapping):
            _refuse(kernel, field, value, f"a mapping of names to {of.__name__}")
        _check_all(kernel, field, of, value.items())


def _check_all(kernel: Kernel, field: str, of: type, values: Iterable[tuple[Any, Any]]) -> None:
    for key, value in values:
        if not isinstance(value, of):
            _refuse(kernel, f"{field}[{key!r}]", value, f"of type {of.__name__}")


def _check_names(kernel: Kernel) -> None:
    """Flags, roles and events become names of C++; an event belongs to a role; none is there twice."""
    groups = {"flags": tuple(kernel.flags), "roles": kernel.roles, "events": tuple(e.name for e in kernel.events)}
    for field, names in groups.items():
        for name in names:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                _refuse(kernel, f"a name of {field}", name, "of letters, digits and _, a letter first")
        if len(set(names)) != len(names):
            raise InputError(f"kernel {kernel.name}: {field} are not unique: {', '.join(names)}")
    for event in kernel.events:
        if event.role not in kernel.roles:
            raise InputError(
                f"kernel {kernel.name}: event {event.name} has role {event.role}: declared are {', '.join(kernel.roles)}"
            )
    if not kernel.distributions:
        _refuse(kernel, "distributions", kernel.distributions, "one name at least")


def _check_flag(kernel: Kernel, name: str, flag: Flag) -> None:
    if flag.choices is not None and not isinstance(flag.choices, tuple | list):
        _refuse(kernel, f"choices of flag {name}", flag.choices, "a tuple of values, or left out for any integer >= 0")
    for value in (flag.default, *(flag.choices or ())):
        if type(value) not in (bool, int, str):
            _refuse(kernel, f"a value of flag {name}", value, "true or false, an integer, or a text")
    flag.check(f"{name} of kernel {kernel.name}, default", flag.default)


def _check_axis(kernel: Kernel, name: str, axis: Axis, axes: Mapping[str, Axis]) -> None:
    for part in ("default", "least", "multiple", "most"):
        if type(value := getattr(axis, part)) is not int:
            _refuse(kernel, f"{part} of {name}", value, "an integer")
    if axis.times is not None and axis.times not in axes:
        _refuse(kernel, f"times of {name}", axis.times, f"one of: {', '.join(axes)}")
    if axis.gpu is not None:
        axis.check(f"kernel {kernel.name}: on a GPU {name}", axis.gpu)


def _refuse(kernel: Kernel, field: str, value: object, allowed: str) -> NoReturn:
    raise InputError(f"kernel {kernel.name}: {field} is {value!r}: must be {allowed}")
