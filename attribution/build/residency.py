"""How many CTAs of a kernel an SM holds, what caps the number, and how far the next threshold is.

In: threads per CTA, registers per thread, shared memory per CTA.  Out: `Residency`.
Pure arithmetic by the hardware's allocation rules (registers per warp and sub-partition, shared
memory in units with a reserve), so it needs no GPU; checked against what ncu reports.
Misuse: the number is what fits when shared memory has its largest carve-out (a driver may choose a
smaller one), not what a grid fills; a launch of fewer CTAs holds fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WARP = 32


@dataclass(frozen=True)
class Limits:
    """What one SM of a compute capability has, and the units it is handed out in."""

    capability: str
    threads: int
    ctas: int
    smem_bytes: int
    smem_cta_bytes: int
    smem_reserved_bytes: int = 1024
    smem_unit_bytes: int = 128
    registers: int = 65536
    register_unit: int = 256  # registers, per warp
    partitions: int = 4


KIB = 1024
LIMITS: Mapping[str, Limits] = {
    limits.capability: limits
    for limits in (
        Limits("7.5", 1024, 16, 64 * KIB, 64 * KIB, smem_reserved_bytes=0, smem_unit_bytes=256),
        Limits("8.0", 2048, 32, 164 * KIB, 163 * KIB),
        Limits("8.6", 1536, 16, 100 * KIB, 99 * KIB),
        Limits("8.9", 1536, 24, 100 * KIB, 99 * KIB),
        Limits("9.0", 2048, 32, 228 * KIB, 227 * KIB),
    )
}
"""Compute capability -> limits of one SM."""

SMS: Mapping[str, tuple[str, int]] = {
    "H20": ("9.0", 78),
    "H100": ("9.0", 132),
    "H200": ("9.0", 132),
}
"""Chip -> its compute capability and number of SMs (H100: SXM5)."""


def limits_of(arch: str) -> Limits | None:
    """Limits of `sm_90a` and the like, or None where the rules are not known here."""
    digits = arch.removeprefix("sm_").rstrip("af")
    return LIMITS.get(f"{digits[:-1]}.{digits[-1:]}")


@dataclass(frozen=True)
class Threshold:
    """The most of one resource at which `ctas` CTAs fit, against what is used of it now."""

    resource: str
    ctas: int
    at_most: int
    used: int

    @property
    def excess(self) -> int:
        return self.used - self.at_most

    def __str__(self) -> str:
        unit = {"smem": "B of shared memory", "registers": "registers", "threads": "threads"}
        return f"{self.ctas} CTAs at <= {self.at_most} {unit[self.resource]}: {self.excess} too many"


@dataclass(frozen=True)
class Residency:
    """CTAs per SM; by which resources it is capped; what each would have to shrink to for one more.

    `fits` holds the CTAs that each resource alone would allow: threads, registers, smem, slots.
    """

    ctas: int
    fits: Mapping[str, int]
    caps: tuple[str, ...]
    next: tuple[Threshold, ...]

    def __str__(self) -> str:
        steps = "; ".join(map(str, self.next)) or "no further step"
        return f"{self.ctas} CTAs/SM, capped by {' and '.join(self.caps)}; {steps}"


def residency(limits: Limits, threads: int, registers: int, smem_bytes: int) -> Residency:
    """What an SM holds of CTAs with `threads`, `registers` a thread, static + dynamic `smem_bytes`.

    Zero CTAs means that it cannot be launched.
    """
    warps = -(-threads // WARP)
    fits = {
        "threads": limits.threads // (warps * WARP),
        "registers": _fit_registers(limits, warps, registers),
        "smem": _fit_smem(limits, smem_bytes),
        "slots": limits.ctas,
    }
    ctas = min(fits.values())
    caps = tuple(name for name, fit in fits.items() if fit == ctas)
    used = {"threads": threads, "registers": registers, "smem": smem_bytes}
    next_ = tuple(
        Threshold(name, ctas + 1, most, used[name])
        for name in caps
        if name != "slots" and (most := _most(limits, name, ctas + 1, warps)) > 0
    )
    return Residency(ctas, fits, caps, next_)


def _fit_registers(limits: Limits, warps: int, registers: int) -> int:
    """Warps live in one sub-partition; a warp's registers are rounded up to the unit."""
    per_warp = max(1, -(-registers * WARP // limits.register_unit)) * limits.register_unit
    per_partition = limits.registers // limits.partitions // per_warp
    spread = -(-warps // limits.partitions) * limits.partitions
    if per_warp * spread > limits.registers:
        return 0
    return per_partition * limits.partitions // warps


def _fit_smem(limits: Limits, smem_bytes: int) -> int:
    if smem_bytes > limits.smem_cta_bytes:
        return 0
    unit = limits.smem_unit_bytes
    taken = -(-(smem_bytes + limits.smem_reserved_bytes) // unit) * unit
    return limits.smem_bytes // taken if taken else limits.ctas


def _most(limits: Limits, resource: str, ctas: int, warps: int) -> int:
    """The most of `resource` at which `ctas` CTAs of `warps` warps fit; 0 where none does."""
    if resource == "threads":
        return limits.threads // WARP // ctas * WARP
    if resource == "registers":
        per_partition = -(-ctas * warps // limits.partitions)
        per_warp = limits.registers // limits.partitions // per_partition
        return min(255, per_warp // limits.register_unit * limits.register_unit // WARP)
    unit = limits.smem_unit_bytes
    room = limits.smem_bytes // ctas // unit * unit - limits.smem_reserved_bytes
    return max(0, min(room, limits.smem_cta_bytes))
