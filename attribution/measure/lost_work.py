"""A control that has lost its work before it ran: its machine code lacks what its base's has.

In: builds of a base and an arm, and which counters must be equal, as ncu metrics.  Out: a sentence, '' when nothing is missing.
What nothing uses the compiler removes, and a control without its matrix work is fast for the wrong reason.  Static counts
only tell that an instruction is gone altogether; whether it ran as often is for the dynamic counts to say.
Misuse: an empty answer does not mean equal work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attribution.build import Build

PER_OPCODE = "sass__inst_executed_per_opcode["


def opcodes_of(same: Sequence[str], metrics: Mapping[str, str]) -> dict[str, str]:
    """Of the counters that must be equal those that count one opcode: meaning -> opcode."""
    named = {meaning: metrics.get(meaning, "") for meaning in same}
    return {m: n.removeprefix(PER_OPCODE).rstrip("]") for m, n in named.items() if n.startswith(PER_OPCODE)}


def lost_work(base: Build, arm: Build, opcodes: Mapping[str, str]) -> str:
    """Which of the opcodes an entry of the arm lacks although the base's has it."""
    theirs = {entry.name: entry.opcodes for entry in arm.entries}
    for entry in base.entries:
        for meaning, opcode in opcodes.items():
            count = entry.opcodes.get(opcode, 0)
            if count and entry.name in theirs and not theirs[entry.name].get(opcode, 0):
                return (
                    f"its work is lost: {meaning} must be equal, and {entry.name} has no {opcode} in its machine code where "
                    f"its base has {count}: nothing uses the results, so the compiler removed them; keep one value alive"
                )
    return ""
