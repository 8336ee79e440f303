"""What a recording states beside its tables: versions, the plan, declarations as they were before measuring.

In: a Plan, its Kernel and variants, facts of the machine.  Out: JSON values; hashes of sources and inputs.
Misuse: the plan given here is the one that was run: with the rounds that there were.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from attribution import __version__
from attribution.declare import Kernel, Variant
from attribution.plan import Plan


def manifest(plan: Plan, kernel: Kernel, variants: Mapping[str, Variant], machine: Mapping[str, Any]) -> dict[str, Any]:
    """What a recording states beside its tables; `plan` with the rounds that were run."""
    return {
        "attribution": __version__,
        "created_ns": time.time_ns(),
        "machine": dict(machine),
        "kernels": {kernel.name: kernel_facts(kernel)},
        "variants": declared(plan, variants),
        "plan": plan.facts(),
    }


def declared(plan: Plan, variants: Mapping[str, Variant]) -> dict[str, Any]:
    """Variant -> what it declares now: a measurement that goes on later must still find its expectations as they were."""
    named = {a.variant for q in plan.questions for a in q.arms}
    return {name: _variant_facts(variants[name]) for name in sorted(named)}


def kernel_facts(kernel: Kernel) -> dict[str, Any]:
    """What reading a recording needs to know of its kernel, as JSON values."""
    return {
        "roles": list(kernel.roles),
        "events": [asdict(e) for e in kernel.events],
        "same": dict(kernel.same),
        "source": source_hash(kernel),
    }


def _variant_facts(variant: Variant) -> dict[str, Any]:
    return {
        "base": variant.base,
        "asks": variant.asks,
        "flags": dict(variant.flags),
        "knobs": dict(variant.knobs),
        "same": list(variant.same),
        "expects": {m: {q: list(b) for q, b in e.items()} for m, e in variant.expects.items()},
        "factors": list(variant.factors) if variant.factors else None,
        "stage": variant.stage,
    }


def source_hash(kernel: Kernel) -> str:
    """sha256 over the kernel's folder: names and contents of all its source files, first 16 digits."""
    digest = hashlib.sha256()
    for file in sorted(kernel.folder.rglob("*")):
        if file.suffix in (".py", ".cu", ".cuh"):
            digest.update(f"{file.relative_to(kernel.folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def inputs_hash(contents: Mapping[str, Any]) -> str:
    """sha256 over the inputs' bytes in the order of their names, first 16 digits."""
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(contents[name])
    return digest.hexdigest()[:16]
