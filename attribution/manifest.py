"""What a manifest must state: every key that anything reads, with its type and range, checked once on opening.

In: the JSON value of a manifest.json, its hash already compared.  Out: nothing, or a DataError naming the key and value.
Misuse: a key that is read anywhere belongs into the rules below, else a damaged manifest ends in a traceback.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attribution.errors import DataError
from attribution.tables import CONTROL, TABLES

MOST_SMS = 2**15
"""SM ids are int16 in every table."""


@dataclass(frozen=True)
class Rule:
    """A test of one value and what it allows, in words."""

    words: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Each:
    """A mapping with any keys, or a list when `listed`, whose values all follow `rule`; `least` of them."""

    rule: Any
    listed: bool = False
    least: int = 0


def _whole(least: int, most: int) -> Rule:
    # bool is an int in Python, and `true` is no version.
    return Rule(
        f"an integer from {least} to {most}",
        lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v <= most,
    )


def _number(words: str, holds: Callable[[float], bool]) -> Rule:
    return Rule(words, lambda v: isinstance(v, int | float) and not isinstance(v, bool) and _fits(v, holds))


def _fits(value: float, holds: Callable[[float], bool]) -> bool:
    try:
        return math.isfinite(value) and holds(float(value))
    except OverflowError:
        return False


def _one_of(*names: str) -> Rule:
    return Rule(" or ".join(names), lambda v: isinstance(v, str) and v in names)


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


TEXT = Rule("a text", lambda v: isinstance(v, str))
NAME = Rule("a text that is not empty", lambda v: isinstance(v, str) and v != "")
TEXT_OR_NULL = Rule("a text or null", lambda v: v is None or isinstance(v, str))
SCALAR = Rule("a text, a number, true or false", lambda v: isinstance(v, str | int | float))
SMS = _whole(1, MOST_SMS)
SMS_OR_LIST = Rule(
    f"{SMS.words}, or a list of such",
    lambda v: SMS.holds(v) or (isinstance(v, list) and bool(v) and all(SMS.holds(n) for n in v)),
)
NUMBER = _number("a finite number", lambda v: True)
BOUNDS = Rule(
    "two numbers, the lower first",
    lambda v: isinstance(v, list) and len(v) == 2 and all(NUMBER.holds(b) for b in v) and v[0] <= v[1],
)
FACTORS = Rule(
    "null or a list of texts",
    lambda v: v is None or (isinstance(v, list) and all(isinstance(x, str) for x in v)),
)

VERSIONS = {"schema": _whole(1, 2**31), "protocol": _whole(1, 2**31), "kind": _one_of("run", "ingest")}
FILES = {
    "tables": Each(
        {"rows": _whole(0, 2**62), "sha256": Rule("the 64 digits of a sha256", _is_hash)},
    )
}
_EVENT = {"name": NAME, "role": NAME, "waits_for": TEXT_OR_NULL, "level": _whole(1, 127)}
_ARM = {"name": NAME, "variant": NAME, "flags": Each(SCALAR), "knobs": Each(_whole(-(2**63), 2**63))}
_VARIANT = {
    "base": TEXT_OR_NULL,
    "asks": TEXT,
    "flags": Each(SCALAR),
    "knobs": Each(_whole(-(2**63), 2**63)),
    "same": Each(NAME, listed=True),
    "expects": Each(Each(BOUNDS)),
    "factors": FACTORS,
    "stage": NAME,
}
MEASURED = {
    "machine": {
        "kind": _one_of("host", "cuda"),
        "name": NAME,
        "expects": TEXT,
        "sms": SMS_OR_LIST,
        "tick_ns": _number("a finite number above 0", lambda v: v > 0),
    },
    "kernels": Each(
        {"roles": Each(NAME, listed=True), "events": Each(_EVENT, listed=True), "same": Each(TEXT), "source": TEXT},
        least=1,
    ),
    "variants": Each(_VARIANT, least=1),
    "plan": {
        "kernel": NAME,
        "shape": Each(_whole(0, 2**62), least=1),
        "distribution": TEXT,
        "rounds": _whole(1, 2**31),
        "questions": Each({"base": NAME, "arms": Each(_ARM, listed=True, least=1)}, listed=True, least=1),
    },
}
"""Key -> rule, of recordings of kind `run`."""

_WIDTH = _number("a finite number above 0", lambda v: v > 0)
STOPPED = {
    "stopping": {
        "precision": _WIDTH,
        "scope": NAME,
        "reached": Rule("true or false", lambda v: isinstance(v, bool)),
        "reason": TEXT,
        "half_widths": Each(Rule(f"{_WIDTH.words}, or null", lambda v: v is None or _WIDTH.holds(v))),
    },
}
"""Key -> rule, where a stopping rule ended it."""
_SHAPE = Each(_whole(0, 2**62), least=1)
COMPARED = {
    "points": Each({"shape": _SHAPE, "distribution": NAME}, listed=True, least=1),
    "selectors": Each(
        {"name": NAME, "version": TEXT, "needs": Each(TEXT, listed=True), "missing": TEXT}, listed=True, least=1
    ),
    "files": Each({"sha256": Rule("the 64 digits of a sha256", _is_hash), "label": TEXT}),
    "skipped": Each({"distribution": NAME, "shape": _SHAPE, "reason": TEXT}, listed=True),
}
"""Key -> rule, of sweeps of selectors."""


def check_manifest(manifest: Any, where: str, protocol: int) -> None:
    """Everything that reading a recording needs is there and of its type.  Raises DataError; `where` names the file.

    `protocol` is the newest way of measuring that this version knows.
    """
    _check(manifest, VERSIONS, "", where)
    _check_texts(manifest, "", where)
    if manifest["protocol"] > protocol:
        raise DataError(
            f"{where}: protocol is {manifest['protocol']}; this version knows 1 to {protocol}: "
            "use the attribution that wrote it"
        )
    _check(manifest, FILES, "", where)
    for name in manifest["tables"]:
        if name not in TABLES:
            raise DataError(f"{where}: tables names {name[:80]!r}, which is no table; there are: {', '.join(TABLES)}")
    if manifest["kind"] == "run":
        _check(manifest, MEASURED, "", where)
        if "stopping" in manifest:
            _check(manifest, STOPPED, "", where)
        if "selectors" in manifest:
            _check(manifest, COMPARED, "", where)
        if manifest["machine"]["kind"] == "host":  # no virtual time supports what was expected of a GPU
            _check(manifest["machine"]["expects"], _one_of("host", "cpu"), "machine.expects", where)
        # Only arms of the reference machine can have had devices of several sizes.
        if manifest["machine"]["kind"] == "cuda":
            _check(manifest["machine"]["sms"], SMS, "machine.sms", where)
        _check_names(manifest, where)


def _check_texts(value: Any, key: str, where: str) -> None:
    """No name or text can make a terminal show something else than it says."""
    if isinstance(value, str) and CONTROL.search(value):
        _refuse(where, key, value, "text without control characters")
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _check_texts(str(name), f"a key of {key or 'the manifest'}", where)
            _check_texts(inner, f"{key}.{name}" if key else str(name), where)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            _check_texts(inner, f"{key}[{place}]", where)


def _check(value: Any, rule: Any, key: str, where: str) -> None:
    if isinstance(rule, Rule):
        if not rule.holds(value):
            _refuse(where, key, value, rule.words)
        return
    listed = isinstance(rule, Each) and rule.listed
    if not isinstance(value, list if listed else Mapping):
        _refuse(where, key or "the manifest", value, "a list" if listed else "an object")
    if isinstance(rule, Each):
        if len(value) < rule.least:
            _refuse(where, key, value, f"at least {rule.least} entry")
        for name, inner in enumerate(value) if listed else value.items():
            _check(inner, rule.rule, f"{key}[{name}]" if listed else f"{key}.{name}", where)
        return
    for name, inner in rule.items():
        path = f"{key}.{name}" if key else name
        if name not in value:
            raise DataError(f"{where}: {path} is missing: measure or ingest again")
        _check(value[name], inner, path, where)


def _refuse(where: str, key: str, value: Any, allowed: str) -> None:
    raise DataError(f"{where}: {key} is {json.dumps(value)[:80]}; allowed is {allowed}: measure or ingest again")


def _check_names(manifest: Mapping[str, Any], where: str) -> None:
    """Names that lead from one part of the manifest to another lead somewhere."""
    plan, variants = manifest["plan"], manifest["variants"]
    used = [("plan.kernel", plan["kernel"], manifest["kernels"], "kernels")]
    for question in plan["questions"]:
        used.append(("plan.questions", question["base"], variants, "variants"))
        used += [("plan.questions", arm["variant"], variants, "variants") for arm in question["arms"]]
    for kernel, facts in manifest["kernels"].items():
        used += [(f"kernels.{kernel}.events", e["role"], facts["roles"], "its roles") for e in facts["events"]]
    for key, name, known, of in used:
        if name not in known:
            raise DataError(f"{where}: {key} names {name!r}, which is not among {of}: {', '.join(known) or 'none'}")
