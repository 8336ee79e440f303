"""Inputs of one seed on a card, and the references that outputs on them are judged by.

In: a kernel's GPU module, a plan, a seed.  Out: `CudaCase`, a `Case` (see machine.py).
Misuse: a reference is a kernel's own; two sets of flags may have unlike ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from attribution.declare import Check
from attribution.measure.context import guarded
from attribution.measure.manifest import inputs_hash
from attribution.plan import Arm, Plan, json_text

KEPT_REFERENCES = 4
"""References held at once: for some kernels one is a score matrix of gigabytes."""


class CudaCase:
    """Inputs of one seed on the GPU, and references made when asked for."""

    def __init__(self, module: ModuleType, plan: Plan, seed: int) -> None:
        """Inputs as the kernel's GPU module makes them."""
        self.module, self.shape, self.seed = module, plan.shape, seed
        self.inputs = guarded(lambda: module.inputs(plan.shape, plan.distribution, seed))
        fingerprint = getattr(module, "fingerprint", _fingerprint)
        self.hash = str(guarded(lambda: fingerprint(self.inputs)))
        self._references: dict[str, Any] = {}

    def check(self, arm: Arm, output: Any) -> list[Check]:
        module, shape = self.module, self.shape
        key = json_text({k: v for k, v in arm.flags.items() if k != "TRACE"})
        if key not in self._references:
            while len(self._references) >= KEPT_REFERENCES:
                del self._references[next(iter(self._references))]
            self._references[key] = guarded(lambda: module.reference(self.inputs, shape, arm.flags))
        reference = self._references[key]
        return guarded(lambda: list(module.check(self.inputs, output, reference, shape, arm.flags)))


def _fingerprint(inputs: Mapping[str, Any]) -> str:
    import torch

    return inputs_hash({n: t.contiguous().view(torch.uint8).cpu().numpy().data for n, t in inputs.items()})
