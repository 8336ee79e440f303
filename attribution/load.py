"""Kernels and variants below a root folder, found and loaded.

In: a root folder with `kernels/NAME/kernel.py` (Python, names one `KERNEL`) and `variants/NAME.toml` (data).
Out: `Kernel` and `Variant` values that have been checked against each other.
Misuse: `kernel.py` is code of the root's owner and is executed; a recording never is.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from attribution.called import PACKAGE, described
from attribution.declare import EXPECTED, FlagValue, Kernel, Variant, nearest
from attribution.declared import check_declared
from attribution.errors import InputError


def shipped_root() -> Path:
    """The folder that holds the shipped `kernels/`, `variants/` and `traces/`: in the wheel, or the repository's root."""
    package = Path(__file__).resolve().parent
    installed = package / "_shipped"
    return installed if installed.is_dir() else package.parent


@functools.cache
def load_kernel(root: Path, name: str) -> Kernel:
    """The KERNEL of `root/kernels/name/kernel.py`.  Raises InputError."""
    folder = root / "kernels" / name
    path = folder / "kernel.py"
    if not path.is_file():
        known = kernel_names(root)
        raise InputError(
            f"no kernel {name!r} under {root / 'kernels'}{nearest(name, known)}; there are: {', '.join(known) or 'none'}"
        )
    module_name = _package(folder)
    # A package, so that kernel.py can split itself: `from . import host`.
    spec = importlib.util.spec_from_file_location(module_name, path, submodule_search_locations=[str(folder)])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{path} does not run: {described(error)}") from error
    kernel = getattr(module, "KERNEL", None)
    if not isinstance(kernel, Kernel):
        raise InputError(f"{path} has no KERNEL of type attribution.declare.Kernel")
    check_declared(kernel)
    if kernel.name != name:
        raise InputError(f"{path}: KERNEL.name is {kernel.name!r}: must be the folder's name, {name!r}")
    object.__setattr__(kernel, "folder", folder)
    return kernel


def module_of(kernel: Kernel, name: str) -> ModuleType:
    """Module `name` of the kernel's folder, as `kernel.py` itself imports it.  Raises ImportError."""
    return importlib.import_module(f"{_package(kernel.folder)}.{name}")


def _package(folder: Path) -> str:
    """The name under which a kernel's folder is imported."""
    return f"{PACKAGE}{abs(hash(folder.resolve()))}_{folder.name}"


def kernel_names(root: Path) -> list[str]:
    """Names of the kernels under `root`, sorted."""
    return sorted(p.parent.name for p in (root / "kernels").glob("*/kernel.py"))


_KEYS: Mapping[str, tuple[type, str]] = {
    "base": (str, "the name of another variant"),
    "asks": (str, "the question that this variant answers"),
    "flags": (dict, "{ FLAG = value }"),
    "knobs": (dict, "{ knob = integer }"),
    "same": (list, "[quantity, ...]"),
    "beside": (list, "[variant, ...]"),
    "expects": (dict, "{ machine = { time_ratio = [low, high] } }"),
    "factors": (list, "[flag, flag]"),
    "stage": (str, "the name of a stage, or operator"),
}
"""Key of a variant -> its type and what it is."""


def load_variants(root: Path, kernel: Kernel) -> dict[str, Variant]:
    """Variants of `kernel` by name from `root/variants/NAME.toml`, with flags inherited from their bases.

    Raises InputError for what is unknown, missing, circular, illegal or not TOML.
    """
    path = root / "variants" / f"{kernel.name}.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no variants of {kernel.name}: {path} does not exist") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    variants: dict[str, Variant] = {}
    for name in raw:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) or name == "null":
            raise InputError(
                f"{path.name} [{name}]: a variant's name has letters, digits, _ and -, and null is the null arm's"
            )
        _resolve(name, raw, kernel, path, variants, ())
    return {name: variants[name] for name in raw}


def _resolve(
    name: str,
    raw: dict[str, Any],
    kernel: Kernel,
    path: Path,
    done: dict[str, Variant],
    chain: tuple[str, ...],
) -> Variant:
    """The variant `name`, after its base.  Raises InputError."""
    if name in done:
        return done[name]
    where = f"{path.name} [{name}]"
    if name in chain:
        raise InputError(f"{where}: bases form a cycle: {' -> '.join((*chain, name))}")
    table = _table(where, raw[name])
    base_name = table.get("base")
    flags: dict[str, FlagValue] = {}
    knobs: dict[str, int] = {}
    if base_name is not None:
        if base_name not in raw:
            raise InputError(f"{where}: base {base_name!r} does not exist{nearest(str(base_name), raw)}")
        base = _resolve(base_name, raw, kernel, path, done, (*chain, name))
        flags.update(base.flags)
        knobs.update(base.knobs)
    flags.update(table.get("flags", {}))
    knobs.update(table.get("knobs", {}))
    try:
        kernel.resolve_flags(flags)
        kernel.resolve_axes("knobs", knobs)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    done[name] = Variant(
        kernel=kernel.name,
        name=name,
        asks=table["asks"],
        base=base_name,
        flags=MappingProxyType(flags),
        knobs=MappingProxyType(knobs),
        same=_same(where, table.get("same", ()), kernel),
        expects=_expectations(where, table.get("expects", {}), kernel),
        factors=_factors(where, table.get("factors"), kernel),
        beside=_beside(where, name, raw),
        stage=str(table.get("stage", "main")),
    )
    return done[name]


def _table(where: str, raw: Any) -> dict[str, Any]:
    """The table of one variant with known keys and a question.  Raises InputError."""
    if not isinstance(raw, dict):
        raise InputError(f"{where} is {raw!r}: must be a table with at least `asks`")
    if unknown := sorted(set(raw) - set(_KEYS)):
        raise InputError(f"{where}: unknown key {unknown[0]}{nearest(unknown[0], _KEYS)}")
    for key, value in raw.items():
        if not isinstance(value, _KEYS[key][0]):
            raise InputError(f"{where}: {key} is {value!r}: must be {_KEYS[key][1]}")
    if not raw.get("asks", "").strip():
        raise InputError(f"{where}: `asks` is missing: write the question that this variant answers")
    return raw


def _same(where: str, raw: Sequence[Any], kernel: Kernel) -> tuple[str, ...]:
    """Quantities that the kernel declares.  Raises InputError."""
    for quantity in raw:
        if not isinstance(quantity, str) or quantity not in kernel.same:
            raise InputError(
                f"{where}: same = {quantity!r} is not a quantity of kernel {kernel.name}{nearest(str(quantity), kernel.same)}; "
                f"there are: {', '.join(kernel.same)}"
            )
    return tuple(raw)


def _beside(where: str, name: str, raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Other variants of the same base.  Raises InputError."""
    base, others = raw[name].get("base"), raw[name].get("beside", [])
    for other in others:
        if not isinstance(other, str) or other not in raw:
            raise InputError(f"{where}: beside = {other!r} does not exist{nearest(str(other), raw)}")
        theirs = raw[other].get("base") if isinstance(raw[other], dict) else None
        if other == name or base is None or theirs != base:
            raise InputError(
                f"{where}: beside = {other!r}: allowed is another variant of the same base, which is {base or 'none'} here"
            )
    return tuple(others)


def _expectations(where: str, raw: Mapping[str, Any], kernel: Kernel) -> dict[str, dict[str, tuple[float, float]]]:
    """Machine -> quantity or size -> (low, high).  Raises InputError."""
    known = (*EXPECTED, *kernel.shape)
    out: dict[str, dict[str, tuple[float, float]]] = {}
    for machine, quantities in raw.items():
        if not isinstance(quantities, dict):
            raise InputError(f"{where}: expects.{machine} is {quantities!r}: must be {{ time_ratio = [low, high] }}")
        for quantity, bounds in quantities.items():
            if quantity not in known:
                raise InputError(
                    f"{where}: expects.{machine}.{quantity} is neither a quantity nor a size of kernel {kernel.name}"
                    f"{nearest(quantity, known)}; there are: {', '.join(known)}"
                )
            pair = bounds if isinstance(bounds, list) else []
            if len(pair) != 2 or not all(type(b) in (int, float) for b in pair) or not pair[0] <= pair[1]:
                raise InputError(
                    f"{where}: expects.{machine}.{quantity} is {bounds!r}: must be [low, high], low <= high"
                )
            out.setdefault(machine, {})[quantity] = (float(pair[0]), float(pair[1]))
        if not set(quantities) & set(EXPECTED):
            raise InputError(
                f"{where}: expects.{machine} names no quantity, so nothing is expected: add {' or '.join(EXPECTED)}"
            )
    return out


def _factors(where: str, raw: list[Any] | None, kernel: Kernel) -> tuple[str, str] | None:
    if raw is None:
        return None
    if len(raw) != 2 or any(not isinstance(f, str) or f not in kernel.flags for f in raw):
        raise InputError(f"{where}: factors is {raw!r}: must be two flags of kernel {kernel.name}")
    return (raw[0], raw[1])
