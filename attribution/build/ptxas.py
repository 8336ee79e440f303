"""What ptxas says about a build: registers, spills, shared memory, and what must fail it.

In: the log of `ptxas -v`, the kernel's declaration, the disassembly.  Out: `EntryFacts`, warnings.
Misuse: registers are those at launch; setmaxnreg moves them between warpgroups later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from attribution.build import sass
from attribution.build.residency import Residency, limits_of, residency
from attribution.declare import Flags, Kernel
from attribution.errors import BuildError


@dataclass(frozen=True)
class EntryFacts:
    """Static facts of one `__global__` function.

    `threads` and `smem_dynamic_bytes` come from the kernel's declaration; None if it is undeclared.
    `opcodes`: static instruction counts, opcode without suffixes; `opcodes_by_role`: those of which the role is known.
    """

    name: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    smem_static_bytes: int
    barriers: int
    threads: int | None
    smem_dynamic_bytes: int | None
    opcodes: Mapping[str, int] = field(default_factory=dict)
    opcodes_by_role: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def smem_bytes(self) -> int:
        """Static and dynamic shared memory of a CTA."""
        return self.smem_static_bytes + (self.smem_dynamic_bytes or 0)

    def residency(self, arch: str) -> Residency | None:
        """CTAs per SM, or None where threads or the architecture's rules are not known."""
        limits = limits_of(arch)
        if limits is None or self.threads is None:
            return None
        return residency(limits, self.threads, self.registers, self.smem_bytes)


_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>[^']+)' for '[^']+'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)


def read_entries(kernel: Kernel, flags: Flags, log: str, listing: str) -> tuple[EntryFacts, ...]:
    """Facts of every entry from ptxas -v, the disassembly and the declared launch.  Raises BuildError."""
    opcodes, by_role = sass.opcode_counts(listing), sass.role_counts(listing, kernel.roles)
    declared = {entry.name: entry for entry in kernel.entries}
    entries = []
    for match in _ENTRY.finditer(log):
        name, rest = match["name"], match["rest"]
        entry = declared.get(name)
        entries.append(
            EntryFacts(
                name=name,
                registers=int(match["registers"]),
                spill_store_bytes=int(match["stores"]),
                spill_load_bytes=int(match["loads"]),
                stack_bytes=int(match["stack"]),
                smem_static_bytes=_number(rest, r"(\d+) bytes smem"),
                barriers=_number(rest, r"used (\d+) barriers"),
                threads=entry.threads(flags) if entry else None,
                smem_dynamic_bytes=entry.smem_bytes(flags) if entry else None,
                opcodes=opcodes.get(name, {}),
                opcodes_by_role=by_role.get(name, {}),
            )
        )
    there = [entry.name for entry in entries]
    for name in declared:
        if name not in there:
            raise BuildError(
                f"kernel {kernel.name}: entry {name} is declared in kernel.py but is not in "
                f'{kernel.source}; there are: {", ".join(there) or "none"} (write extern "C")'
            )
    return tuple(entries)


def _number(text: str, pattern: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0


_CHANGED = re.compile(r"\(C7508\)|\(C7517\)|Potential Performance Loss")
"""C7508: setmaxnreg ignored; C7517: a wait was injected; a loss is also wgmma made serial."""
_WARNING = re.compile(r"\bwarning\b(?!s)|\(C\d+\)")


def read_warnings(kernel: Kernel, arch: str, log: str, entries: tuple[EntryFacts, ...]) -> list[str]:
    """Warnings worth showing.  Raises BuildError for a fact that makes the build unusable."""
    warnings = []
    for line in log.splitlines():
        if _CHANGED.search(line):
            raise BuildError(
                f"kernel {kernel.name}: the assembler changed the mechanism: {line.strip()}. "
                "This is no build of what the source says: give every warpgroup role its own "
                "branch, cap registers with __launch_bounds__(threads, 1), and touch accumulators "
                "only behind their wait"
            )
        if _WARNING.search(line):
            warnings.append(line.strip())
    for entry in entries:
        warnings += _judge(kernel, arch, entry)
    return warnings


def _judge(kernel: Kernel, arch: str, entry: EntryFacts) -> list[str]:
    """Warnings about one entry.  Raises BuildError if no CTA of it can run."""
    warnings = []
    limits = limits_of(arch)
    if entry.spill_store_bytes or entry.spill_load_bytes:
        warnings.append(
            f"{entry.name} spills registers: {entry.spill_store_bytes} bytes stored, {entry.spill_load_bytes} loaded"
        )
    if entry.threads is None:
        warnings.append(f"{entry.name} has no declare.Entry: its residency is not known")
    elif limits and entry.smem_bytes > limits.smem_cta_bytes:
        raise BuildError(
            f"kernel {kernel.name}: {entry.name} needs {entry.smem_bytes} B of shared memory: "
            f"a CTA on {arch} has at most {limits.smem_cta_bytes}"
        )
    elif (held := entry.residency(arch)) and held.ctas == 0:
        raise BuildError(
            f"kernel {kernel.name}: {entry.name} cannot be launched with {entry.threads} threads "
            f"of {entry.registers} registers: no CTA fits an SM of {arch}"
        )
    return warnings
