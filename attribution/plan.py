"""From what was asked to what will run: questions, arms, and the order of every round.

In: a kernel, its variants, the names asked for, and overrides.  Out: a frozen `Plan`, the same for the same arguments.
A variant never travels alone: its base runs in the same rounds, a null arm, which is the base again under another name, and
what the variant names as `beside`.
An override applies to the base and so to every arm; what a variant itself changes against its base stays changed.
Misuse: a plan runs nothing and knows no machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attribution import order
from attribution.called import called
from attribution.declare import FlagValue, Kernel, Variant, nearest
from attribution.errors import DataError, InputError

NULL = "null"
"""Name of the arm that is the base again."""
LEAST_ROUNDS = 12
"""Rounds where no number is given: so many, or more to make whole designs."""


@dataclass(frozen=True)
class Arm:
    """One side of a question, with everything resolved."""

    name: str
    variant: str
    flags: Mapping[str, FlagValue]
    knobs: Mapping[str, int]

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "variant": self.variant,
            "flags": dict(self.flags),
            "knobs": dict(self.knobs),
        }


@dataclass(frozen=True)
class Question:
    """A base, its null arm, and the variants that are compared with it."""

    base: str
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class PlannedRun:
    """One execution: its number, place and arm.  `predecessor` is the arm before it in the same round, '' for the first."""

    run: int
    question: str
    round: int
    position: int
    predecessor: str
    arm: Arm


@dataclass(frozen=True)
class Plan:
    """What will be measured, in which order."""

    kernel: str
    shape: Mapping[str, int]
    distribution: str
    seed: int
    rounds: int
    order_seed: int
    questions: tuple[Question, ...]

    def __str__(self) -> str:
        arms = ", ".join(a.name for q in self.questions for a in q.arms)
        return f"{self.kernel} {shape_text(self.shape)} {self.distribution}: {arms}; {self.rounds} rounds"

    def runs(self) -> Iterator[PlannedRun]:
        """Every run in the order of execution: the rounds of all questions interleaved."""
        orders = [order.rounds(len(q.arms), self.rounds, self.order_seed + i) for i, q in enumerate(self.questions)]
        number = 0
        for round_number in range(self.rounds):
            for question, orders_of in zip(self.questions, orders, strict=True):
                before = ""
                for position, which in enumerate(orders_of[round_number]):
                    arm = question.arms[which]
                    yield PlannedRun(number, question.base, round_number, position, before, arm)
                    before, number = arm.name, number + 1

    def facts(self) -> dict[str, Any]:
        """The plan as JSON values; equal for equal plans."""
        return {
            "kernel": self.kernel,
            "shape": dict(self.shape),
            "distribution": self.distribution,
            "seed": self.seed,
            "rounds": self.rounds,
            "order": {"design": "williams", "seed": self.order_seed},
            "questions": [{"base": q.base, "arms": [a.facts() for a in q.arms]} for q in self.questions],
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Plan:
        """The plan whose `facts()` these are.  Raises DataError."""
        try:
            questions = tuple(Question(q["base"], tuple(Arm(**arm) for arm in q["arms"])) for q in facts["questions"])
            plan = cls(
                facts["kernel"],
                facts["shape"],
                facts["distribution"],
                facts["seed"],
                facts["rounds"],
                facts["order"]["seed"],
                questions,
            )
        except (KeyError, TypeError) as error:
            raise DataError(f"these are no facts of a plan: {type(error).__name__}: {error}") from error
        if plan.facts() != facts:
            raise DataError(f"a plan with design {facts['order']} is not known: use the attribution that wrote it")
        return plan


@dataclass(frozen=True)
class Overrides:
    """What the user sets for this measurement; empty means as declared."""

    shape: Mapping[str, int]
    flags: Mapping[str, FlagValue]
    knobs: Mapping[str, int]
    distribution: str = ""
    seed: int = 1
    rounds: int = 0
    order_seed: int = 0


def plan(kernel: Kernel, variants: Mapping[str, Variant], names: Sequence[str], overrides: Overrides) -> Plan:
    """The plan for these variants.  Raises InputError for every name or value that is not allowed."""
    for name in names:
        if name not in variants:
            raise InputError(
                f"kernel {kernel.name} has no variant {name}{nearest(name, variants)}; `attr list {kernel.name}` shows all"
            )
    distribution = overrides.distribution or kernel.distributions[0]
    if distribution not in kernel.distributions:
        raise InputError(
            f"distribution {distribution!r}{nearest(distribution, kernel.distributions)}; "
            f"{kernel.name} has: {', '.join(kernel.distributions)}"
        )
    shape = kernel.resolve_axes("shape", overrides.shape)
    bases: dict[str, list[str]] = {}
    for name in dict.fromkeys(each for asked in names for each in (asked, *variants[asked].beside)):
        base = variants[name].base or name
        bases.setdefault(base, [])
        if name != base:
            bases[base].append(name)
    questions = tuple(_question(kernel, variants, base, arms, overrides) for base, arms in bases.items())
    for question in questions:
        for arm in question.arms:
            called(kernel.name, "illegal_shape", kernel.illegal_shape, shape, arm.flags, arm.knobs)
    rounds = overrides.rounds or whole_rounds(max(len(q.arms) for q in questions))
    if rounds < 1:
        raise InputError(f"rounds = {rounds}: allowed is an integer >= 1")
    return Plan(kernel.name, shape, distribution, overrides.seed, rounds, overrides.order_seed, questions)


def whole_rounds(arms: int) -> int:
    """The least number of rounds, LEAST_ROUNDS or more, that is whole Williams designs of so many arms."""
    design = len(order.williams(arms))
    return -(-LEAST_ROUNDS // design) * design


def _question(
    kernel: Kernel,
    variants: Mapping[str, Variant],
    base: str,
    names: Sequence[str],
    overrides: Overrides,
) -> Question:
    ground = variants[base]
    arms = [
        _arm(kernel, base, ground, ground, overrides),
        _arm(kernel, NULL, ground, ground, overrides),
    ]
    arms += [_arm(kernel, name, variants[name], ground, overrides) for name in names]
    for arm in arms[2:]:
        if (arm.flags, arm.knobs) == (arms[0].flags, arms[0].knobs):
            raise InputError(
                f"variant {arm.name} equals its base {base} under these overrides: nothing is changed, so nothing would be "
                "answered; leave out the --flag or --knob that the variant itself sets"
            )
    return Question(base, tuple(arms))


def _arm(kernel: Kernel, name: str, variant: Variant, base: Variant, overrides: Overrides) -> Arm:
    """The override applies on top of the base; the variant's own differences on top of that."""
    own_flags = {k: v for k, v in variant.flags.items() if base.flags.get(k) != v or k not in base.flags}
    own_knobs = {k: v for k, v in variant.knobs.items() if base.knobs.get(k) != v or k not in base.knobs}
    flags = kernel.resolve_flags({**base.flags, **overrides.flags, **own_flags})
    knobs = kernel.resolve_axes("knobs", {**base.knobs, **overrides.knobs, **own_knobs})
    return Arm(name, variant.name, flags, knobs)


def shape_text(shape: Mapping[str, int]) -> str:
    """`q=128,n=8192`."""
    return ",".join(f"{k}={v}" for k, v in shape.items())


def json_text(values: Mapping[str, Any]) -> str:
    """One spelling for flags and knobs in tables: JSON with sorted keys."""
    return json.dumps(dict(values), sort_keys=True)
