"""What identifies a GPU and what was measured of its timers once; static facts of what was launched.

In: a CUDA context that torch has made current.  Out: JSON values for the manifest, rows of the table `counters`.
Misuse: only the worker may call this: every function touches the driver.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from types import ModuleType
from typing import Any

from attribution import build
from attribution.declare import Kernel
from attribution.errors import MeasureError
from attribution.launch import Launch
from attribution.measure import clocks
from attribution.measure.prepared import Prepared
from attribution.measure.stamp import Stamps
from attribution.plan import Arm


def properties() -> Any:
    """cuda.core's properties of the device."""
    from cuda.core import Device

    return Device(0).properties


def pci_bus_id() -> str:
    from cuda.core import Device

    return str(Device(0).pci_bus_id)


def arch_for(module: ModuleType, kernel: Kernel) -> str:
    """What to compile for on this GPU: sm_90a on Hopper.  Raises MeasureError for a GPU that the kernel does not run on.

    A GPU module that needs one architecture says so: `ARCH = "sm_90a"`.
    """
    from cuda.core import Device

    capability = Device(0).compute_capability
    here = f"sm_{capability.major}{capability.minor}"
    needed = getattr(module, "ARCH", None)
    if needed is not None and needed.rstrip("af") != here:
        raise MeasureError(
            f"kernel {kernel.name} needs a GPU of {needed}, and {Device(0).name} is {here}: "
            "--machine host runs the same variants on the reference machine"
        )
    return build.ARCH if build.ARCH.rstrip("a") == here else here


def measured(stamps: Stamps, nvml: clocks.Nvml, arch: str) -> dict[str, Any]:
    """The manifest's `machine`: identity, limits, versions, and the timers as they were found now."""
    import torch
    from cuda.core import Device

    device, has = Device(0), properties()
    start = nvml.read()
    name = str(device.name)
    driver = nvml.driver()
    first = stamps.put()
    stamps.hold(2_000_000)
    last = stamps.put()
    read = stamps.read()
    return {
        "kind": "cuda",
        "name": name,
        "expects": name.split()[-1].lower(),
        "sms": has.multiprocessor_count,
        "arch": arch,
        "uuid_hash": hashlib.sha256(str(device.uuid).encode()).hexdigest()[:16],
        "driver": driver or "unknown",
        **{p: _version(p) for p in ("torch", "cuda-core", "cuda-bindings", "nvidia-ml-py")},
        "cuda": torch.version.cuda,
        "compiler": build.compiler_version(),
        "l2_bytes": has.l2_cache_size,
        "memory_bytes": torch.cuda.get_device_properties(0).total_memory,
        "peak_memory_bytes_per_s": has.memory_clock_rate * 1e3 * 2 * has.global_memory_bus_width / 8,
        "sm_clock_mhz": clocks.sm_clock_mhz(read[first], read[last]),
        "start_temperature_c": start.temperature_c if start.temperature_c == start.temperature_c else None,
        "start_power_w": start.power_w if start.power_w == start.power_w else None,
        "start_others": start.others,
        **stamps.timer(),
        **nvml.facts(),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def static(prepared: Prepared, arm: Arm) -> list[dict[str, Any]]:
    """What was launched and what it is made of: launch sizes and knobs, registers, static opcodes.

    `source` says which: launch, ptxas or sass.  Static opcode counts are named `sass_static` (`sass_static@math` those of role
    math, where line information tells), their opcode is the instance: a loop's body counts once, so they are no dynamic counts.
    """
    rows: list[tuple[str, str, str, str, str, float, str]] = []
    for knob, value in arm.knobs.items():
        rows.append(("main", "", knob, "", "1", value, "launch"))
    for step in prepared.operator.steps:
        if not isinstance(step, Launch) or prepared.module is None:
            continue
        entry = prepared.module.build.entry(step.entry)
        grid = step.grid[0] * step.grid[1] * step.grid[2]
        held = entry.residency(prepared.module.build.arch)
        sizes = {
            "grid_ctas": (grid, "1", "launch"),
            "threads": (step.threads, "1", "launch"),
            "smem_bytes": (entry.smem_static_bytes + step.smem_bytes, "byte", "launch"),
            "registers": (entry.registers, "register", "ptxas"),
            "spill_bytes": (entry.spill_store_bytes + entry.spill_load_bytes, "byte", "ptxas"),
            "barriers": (entry.barriers, "1", "ptxas"),
        }
        if held is not None:
            sizes["residency"] = (held.ctas, "1", "ptxas")
        rows += [(step.stage, step.entry, m, "", u, v, s) for m, (v, u, s) in sizes.items()]
        rows += [(step.stage, step.entry, "sass_static", op, "inst", n, "sass") for op, n in entry.opcodes.items()]
        for role, counts in entry.opcodes_by_role.items():
            rows += [(step.stage, step.entry, f"sass_static@{role}", op, "inst", n, "sass") for op, n in counts.items()]
    return _counters(rows)


def counted(prepared: Prepared) -> list[dict[str, Any]]:
    """What the kernel itself counted in its last run (source `kernel`); synchronizes."""
    counts = prepared.operator.counts.items()
    return _counters([(stage, "", metric, "", "1", float(read()), "kernel") for (stage, metric), read in counts])


def _counters(rows: list[tuple[str, str, str, str, str, float, str]]) -> list[dict[str, Any]]:
    """(stage, kernel_name, metric, instance, unit, value, source) as rows of `counters` without `run`."""
    columns = ("stage", "kernel_name", "metric", "instance", "unit", "value", "source")
    rest = {"scope": "launch", "launch": -1, "pass_group": -1}
    return [
        {**dict(zip(columns, r, strict=True)), **rest, "value": float(r[5]), "state": "value" if r[5] else "zero"}
        for r in rows
    ]


def capacity(prepared: Prepared) -> list[dict[str, Any]]:
    """limit, failures, of: what the last run says of each limit that its operator names; synchronizes."""
    columns = ("limit", "failures", "of")
    return [dict(zip(columns, (limit, *read()), strict=True)) for limit, read in prepared.operator.limits.items()]
