"""Modules and cubins of the kernels that ship, as the indexers need them.

In: a kernel's name.  Out: a module of its folder, or a cubin for this GPU with the flags it was built with.
Misuse: loading a cubin needs the GPU's context: torch must have made one.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from attribution.build import build
from attribution.declare import FlagValue, load_kernel, shipped_root


def module_of(kernel: str, name: str) -> ModuleType:
    """Module `name` of the kernel's folder.  Raises InputError for an unknown kernel, ImportError for the module."""
    declared = load_kernel(shipped_root(), kernel)
    return importlib.import_module(f"{declared.inputs.__module__.rsplit('.', 1)[0]}.{name}")


def cubin_of(kernel: str, overrides: Mapping[str, FlagValue]) -> tuple[dict[str, Any], bytes]:
    """All flags, resolved, and the cubin built with them.  Raises BuildError, InputError."""
    declared = load_kernel(shipped_root(), kernel)
    flags = declared.resolve_flags(overrides)
    return flags, build(declared, flags).cubin
