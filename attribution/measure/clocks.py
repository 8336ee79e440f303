"""The state of the card while it was measured: clock, heat, power, throttling, who else was there.

In: NVML (package nvidia-ml-py, when there) and stamps of clock64 beside %globaltimer.
Out: `Reading` values, SM clocks in MHz, sample flags.  Nothing here changes a setting of the card.
A sample is flagged, never dropped; what is not known is NaN or '', never "fine".
Misuse: clock64 of two SMs are never subtracted: `sm_clock_mhz` pairs stamps by SM.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LIMITED = 0.75
"""Below this share of the highest SM clock a sample is clock-limited (measured: tensor work that
draws the whole power budget of an H200 runs at 0.8 to 1.0 of it)."""

REASONS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "applications-clocks",
    0x4: "power-cap",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "hw-power-brake",
    0x100: "display-clocks",
}
"""Bits of NVML's clock event reasons."""
LIMITING = ("hw-slowdown", "sw-thermal", "hw-thermal", "hw-power-brake")
"""Reasons that limit the clock whatever its value; a power cap is only named."""


@dataclass(frozen=True)
class Reading:
    """One look at the card: MHz, degrees C, W; NaN is not known, `reasons` None is not known.

    `others`: processes on the card besides this one, -1 when not known.
    """

    sm_clock_mhz: float = math.nan
    highest_mhz: float = math.nan
    temperature_c: float = math.nan
    power_w: float = math.nan
    reasons: tuple[str, ...] | None = None
    others: int = -1

    def row(self) -> dict[str, Any]:
        """Columns of the table `conditions`, without `run` and `when`."""
        return {
            "sm_clock_mhz": self.sm_clock_mhz,
            "temperature_c": self.temperature_c,
            "power_w": self.power_w,
            "throttle": "unknown" if self.reasons is None else ",".join(self.reasons),
            "others": self.others,
        }


def reason_names(bits: int) -> tuple[str, ...]:
    """Names of NVML's bits; a bit without a name here is kept as a number."""
    known = [name for bit, name in REASONS.items() if bits & bit]
    rest = bits & ~sum(REASONS)
    return tuple(known + ([f"bit-{rest:#x}"] if rest else []))


def flags(clock_mhz: float, reading: Reading) -> str:
    """Flags of one sample: comma-separated, '' for none.

    `clock_mhz` is the sample's own SM clock; where it is NaN the reading's is used, and where that
    is not known either the flag says so.
    """
    found = []
    clock = reading.sm_clock_mhz if math.isnan(clock_mhz) else clock_mhz
    if math.isnan(clock) or math.isnan(reading.highest_mhz):
        found.append("clock-unknown")
    elif clock < LIMITED * reading.highest_mhz:
        found.append("clock-limited")
    reasons = reading.reasons or ()
    if any(r in LIMITING for r in reasons) and "clock-limited" not in found:
        found.append("clock-limited")
    if "power-cap" in reasons:
        found.append("power-cap")
    if reading.others > 0:
        found.append("shared-gpu")
    return ",".join(found)


class Nvml:
    """The card's readings; every one is unknown where NVML or the value is missing."""

    def __init__(self, module: Any = None, pci_bus_id: str | None = None) -> None:
        """`module` stands in for pynvml in tests."""
        self.handle: Any = None
        self.reason = ""
        try:
            self.nvml = importlib.import_module("pynvml") if module is None else module
            self.nvml.nvmlInit()
            self.handle = (
                self.nvml.nvmlDeviceGetHandleByIndex(0)
                if pci_bus_id is None
                else self.nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
            )
        except Exception as error:  # its errors are made at run time, one class for each code
            self.reason = f"{type(error).__name__}: {error}"

    def _ask(self, name: str, *arguments: Any) -> Any:
        """The value of one NVML call, None where it is not to be had."""
        if self.handle is None:
            return None
        try:
            return getattr(self.nvml, name)(self.handle, *arguments)
        except Exception:
            return None

    def read(self) -> Reading:
        """One look; takes some 0.1 ms."""
        sm = 1  # NVML_CLOCK_SM

        def number(value: Any, scale: float = 1.0) -> float:
            return math.nan if value is None else float(value) * scale

        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        running = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return Reading(
            number(self._ask("nvmlDeviceGetClockInfo", sm)),
            number(self._ask("nvmlDeviceGetMaxClockInfo", sm)),
            number(self._ask("nvmlDeviceGetTemperature", 0)),
            number(self._ask("nvmlDeviceGetPowerUsage"), 1e-3),
            None if bits is None else reason_names(int(bits)),
            _others(running),
        )

    def driver(self) -> str:
        """Version of the driver, '' where not known."""
        try:
            return str(self.nvml.nvmlSystemGetDriverVersion()) if self.handle is not None else ""
        except Exception:
            return ""

    def facts(self) -> dict[str, Any]:
        """Limits that identify the card's settings; None where not known."""
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        return {
            "nvml": self.reason or "present",
            "power_limit_w": None if limit is None else limit / 1e3,
            "highest_sm_mhz": self._ask("nvmlDeviceGetMaxClockInfo", 1),
            "memory_mhz": self._ask("nvmlDeviceGetClockInfo", 2),
        }


def _others(running: Sequence[Any] | None) -> int:
    """Processes besides this one, which is on the card itself: a list that does not even show one process is blind, -1.

    In a container the ids are another namespace's: this process is then one of those listed.
    """
    return len({int(p.pid) for p in running}) - 1 if running else -1


def tick_ns(stamps: Sequence[int] | NDArray[np.int64]) -> float:
    """The timer's step in ns: the greatest common divisor of all its non-zero steps; NaN if none.

    Cases: {0, 1024, 1024, 3072, 4096} -> 1024.
    """
    import numpy as np

    steps = np.diff(np.asarray(stamps, np.int64))
    steps = np.abs(steps[steps != 0])
    return float(np.gcd.reduce(steps)) if len(steps) else math.nan


def sm_clock_mhz(before: NDArray[Any], after: NDArray[Any]) -> float:
    """SM clock between two stamps of every SM; NaN when no SM was stamped twice.

    Records with fields sm, clock (cycles) and timer_ns.  Cycles are subtracted within an SM only;
    the median over SMs is taken.
    """
    import numpy as np

    sms, one, two = np.intersect1d(before["sm"], after["sm"], return_indices=True)
    if not len(sms):
        return math.nan
    cycles = after["clock"][two].astype(np.int64) - before["clock"][one].astype(np.int64)
    elapsed = after["timer_ns"][two].astype(np.int64) - before["timer_ns"][one].astype(np.int64)
    good = (elapsed > 0) & (cycles > 0)
    return float(np.median(cycles[good] / elapsed[good]) * 1e3) if good.any() else math.nan


def timer_offsets_ns(rounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Per-SM offset of %globaltimer from the SMs' median, ns [sms], from stamps [rounds, sms].

    Each row holds stamps taken right after one barrier over all SMs; the median over rows removes
    the barrier's jitter; what is left bounds the offset (the barrier's release order is in it).
    """
    import numpy as np

    relative = rounds - np.median(rounds, axis=1, keepdims=True)
    return np.asarray(np.median(relative, axis=0), np.float64)


def by_sm(seen: NDArray[np.int64], offsets: NDArray[np.float64], sms: int) -> list[float | None]:
    """Offset of each SM, ns, by its number from 0; None for one that was not seen.  `seen` [n] are numbers, which may have gaps."""
    known = {int(sm): float(offset) for sm, offset in zip(seen, offsets, strict=True) if not math.isnan(offset)}
    return [known.get(number) for number in range(max(sms, int(max(seen)) + 1))]
