"""What a machine is to a measurement: a card or the reference machine, behind one interface.

In: arms, inputs of a seed.  Out: `Measured` runs, outputs and checks of them; `MachineLost` when it cannot go on.
Misuse: a machine is called by a `Job` only; what is timed there is what the checks see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from attribution.declare import Check
from attribution.errors import AttrError
from attribution.plan import Arm

if TYPE_CHECKING:
    import pandas as pd

Table: TypeAlias = "pd.DataFrame | list[dict[str, Any]]"
"""Rows of one table without their `run` column, as a frame or as mappings."""
CEILINGS = -1
"""What runs when no arm does, in place of a run's number: the machine's ceilings."""
Progress = Callable[[int, int, str], None]
"""done, total, what is running now."""
FAULTS = (AttrError, ArithmeticError, ValueError, LookupError, MemoryError)
"""What an arm may raise without ending the job."""


class MachineLost(Exception):
    """The machine cannot go on in this process: its context is poisoned.  Who started the process starts another."""


@dataclass(frozen=True)
class Measured:
    """One run: what it left behind, and its tables."""

    output: Any
    tables: Mapping[str, Table]


class Case(Protocol):
    """Inputs of one seed and what is needed to judge an output on them."""

    @property
    def seed(self) -> int: ...
    @property
    def hash(self) -> str:
        """sha256 of the inputs' bytes, first 16 digits."""

    def check(self, arm: Arm, output: Any) -> list[Check]:
        """Judge one output."""


class Machine(Protocol):
    """Where arms run.  `primary` is the scope and stage whose width a stopping rule looks at."""

    primary: tuple[str, str]
    traced_rounds: int
    """Rounds in which each arm but the null arm runs once more, built with TRACE on."""
    together: bool
    """Whether the arms of a round are measured in one go, with nothing else between them."""

    def facts(self) -> dict[str, Any]:
        """kind, name, sms, tick_ns and what else identifies it."""

    def case(self, seed: int) -> Case:
        """Inputs of this seed."""

    def build(self, arm: Arm) -> str:
        """Identity of the arm's build, '' where nothing is built.  Raises BuildError."""

    def builds(self) -> dict[str, str]:
        """Identity -> hash of the machine code, of every build so far."""

    def lost_work(self, base: Arm, arm: Arm, same: Sequence[str]) -> str:
        """What of `same` the arm's build lacks altogether, in a sentence; '' when nothing is missing or nothing is built."""

    def output(self, arm: Arm, case: Case) -> Any:
        """One execution, not timed."""

    def static(self, arm: Arm) -> Sequence[Mapping[str, Any]]:
        """What a measured arm launches and what that is made of: rows of `counters` without `run`; none where nothing is built."""

    def ceilings(self) -> Sequence[Mapping[str, Any]]:
        """Rates of pure work on this machine now: rows of `counters` without `run`; none where it has no ceilings."""

    def measure(self, arms: Sequence[Arm], case: Case, began: Callable[[int], None]) -> Iterable[Measured]:
        """One run of each arm, in this order; `began(i)` is called when arm i is next.

        All are timed before the first one is given; the output of one holds until the next one is taken.
        """
