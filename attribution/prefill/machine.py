"""What a prefill recording states of the machine it was made on.

In: the torch device.  Out: JSON values for the manifest's `machine`, launch knobs of every arm.
Misuse: a CPU's times say nothing about a GPU; its recordings are for trying the stack out.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

from attribution.measure.clocks import Nvml
from attribution.prefill.spans import clock


def machine_facts(device: str) -> dict[str, Any]:
    """Identity, software versions, and the step of the clock that times a request."""
    import torch

    versions = {name: importlib.metadata.version(name) for name in ("torch", "nvtx")}
    now = clock(device)
    tick_ns = float(min(_step(now) for _ in range(1000)))
    if device != "cuda":
        return {"kind": "host", "name": "CPU", "expects": "cpu", "sms": 1, "tick_ns": tick_ns, **versions}
    has = torch.cuda.get_device_properties(0)
    nvml = Nvml()
    return {
        "kind": "cuda",
        "name": has.name,
        "expects": has.name.split()[-1].lower(),
        "sms": has.multi_processor_count,
        "tick_ns": tick_ns,
        "driver": nvml.driver() or "unknown",
        "cuda": torch.version.cuda,
        "l2_bytes": getattr(has, "L2_cache_size", 0),
        "memory_bytes": has.total_memory,
        **versions,
        **nvml.facts(),
    }


def _step(now: Callable[[], int]) -> int:
    """The next step of the clock, ns."""
    first = last = now()
    while last == first:
        last = now()
    return last - first


def knobs_of(device: str) -> dict[str, int]:
    """A recording of a host states the SMs of its one processor in every run."""
    return {} if device == "cuda" else {"sms": 1}
