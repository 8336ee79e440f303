"""From axes to a recording of selectors side by side: which selectors can be used here, and every point of the axes.

In: sizes, distributions, files, names of selectors.  Out: `Sweep`, and the Recording that `measure` makes of it.
A selector that is not installed is left out, with its reason in the manifest's `selectors`; one that is installed but does
not work has failed or skipped runs with theirs.
Misuse: every point has the same selectors, and torch.topk (on the host machine numpy's introselect) among them: the base.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attribution.declare import Kernel, nearest
from attribution.errors import InputError
from attribution.load import load_kernel, load_variants, module_of
from attribution.measure import probe, scopes, sweep
from attribution.measure.jobfile import Options
from attribution.measure.machine import Progress
from attribution.plan import Overrides, Plan, plan
from attribution.recording import Recording

KERNEL = "selectors"
BASES = {"cuda": "torch_topk", "host": "numpy_partition"}


@dataclass(frozen=True)
class Axes:
    """What to sweep over; empty means the kernel's own.  `files`: distribution -> .npy or .safetensors."""

    columns: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    k: tuple[int, ...] = ()
    distributions: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    selectors: tuple[str, ...] = ()
    rounds: int = 0
    seed: int = 1


@dataclass(frozen=True)
class Sweep:
    """What will be measured where; `skipped`: points of a file that has fewer rows or columns, with the reason."""

    gpu: probe.Gpu | None
    kernel: Kernel
    plans: tuple[Plan, ...]
    files: Mapping[str, Path]
    selectors: tuple[Mapping[str, Any], ...]
    skipped: tuple[Mapping[str, Any], ...] = ()


def known(root: Path, machine: str, arch: str = "") -> list[dict[str, Any]]:
    """A mapping each selector of a machine ("cuda" or "host"): name, version, needs, and why it cannot be used ('').

    `arch`: of the GPU, such as `sm_90`; '' when there is none to ask about.
    """
    module = module_of(load_kernel(root, KERNEL), "known")
    table = module.GPU if machine == "cuda" else module.HOST
    return [
        {"name": name, "version": one.version(), "needs": list(one.needs), "missing": module.missing(name, arch)}
        for name, one in table.items()
    ]


def ask(root: Path, machine: str, axes: Axes) -> Sweep:
    """Check what was asked for, look for a GPU, and plan every point.  Raises InputError, MeasureError, DataError."""
    kernel = load_kernel(root, KERNEL)
    gpu = probe.choose(machine, kernel.gpu, kernel.name)
    where = "host" if gpu is None else "cuda"
    table = _chosen(known(root, where, gpu.arch if gpu else ""), axes.selectors, BASES[where])
    names = [facts["name"] for facts in table if not facts["missing"]]
    files = _files(kernel, axes.files)
    planning = replace(kernel, distributions=(*kernel.distributions, *files))
    variants = load_variants(root, kernel)
    wanted = axes.distributions or (*kernel.distributions, *files)
    knobs = {} if gpu is None else {"sms": gpu.sms}
    plans, skipped = [], []
    for distribution, shape in itertools.product(wanted, _shapes(kernel, axes, gpu is not None)):
        if reason := _too_small(kernel, files.get(distribution), shape):
            skipped.append({"distribution": distribution, "shape": shape, "reason": reason})
            continue
        asked = Overrides(shape, {}, knobs, distribution, axes.seed, axes.rounds, 0)
        plans.append(plan(planning, variants, names, asked))
    for name in files:
        if name in wanted and name not in {p.distribution for p in plans}:
            raise InputError(next(s["reason"] for s in skipped if s["distribution"] == name))
    return Sweep(gpu, kernel, tuple(plans), files, tuple(table), tuple(skipped))


def _shapes(kernel: Kernel, axes: Axes, on_gpu: bool) -> list[dict[str, int]]:
    """Every combination of the sizes."""
    names = ("rows", "columns", "k")
    defaults = kernel.resolve_axes("shape", kernel.gpu_shape() if on_gpu else {})
    sizes = (getattr(axes, name) or (defaults[name],) for name in names)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*sizes)]


def _too_small(kernel: Kernel, file: Path | None, shape: Mapping[str, int]) -> str:
    """Why the file cannot be cut to the shape, '' when it can or there is no file.  Raises InputError, DataError."""
    return "" if file is None else str(module_of(kernel, "captured").too_small(file, shape))


def _chosen(table: list[dict[str, Any]], asked: Sequence[str], base: str) -> list[dict[str, Any]]:
    """The selectors that were asked for, base first; all when none was.  Raises InputError."""
    names = [facts["name"] for facts in table]
    for name in asked:
        if name not in names:
            raise InputError(f"--selector {name}{nearest(name, names)}; here there are: {', '.join(names)}")
    chosen = [facts for facts in table if not asked or facts["name"] in (base, *asked)]
    if missing := next(facts["missing"] for facts in table if facts["name"] == base):
        raise InputError(f"{base} is what the others are compared with, and {missing}")
    return sorted(chosen, key=lambda facts: facts["name"] != base)


def _files(kernel: Kernel, files: Mapping[str, Path]) -> dict[str, Path]:
    """Raises InputError for a file whose name a distribution has already."""
    for name in files:
        if name in kernel.distributions:
            raise InputError(f"--file {name}=...: {name} is a distribution already; choose another name")
    return {name: path.resolve() for name, path in files.items()}


def options(asked: Sweep, scope: str | None, cache: str, timeout_s: float) -> Options:
    """How to measure it: one scope, so that the output that is checked is the one that was timed.  Raises InputError."""
    name = scope or "graph"
    scopes.Scope(name, cache)
    if name not in ("graph", "event"):
        raise InputError(f"--scope {name}: a sweep of selectors is measured in graph or event")
    if asked.gpu is None and scope:
        raise InputError(f"--scope {scope}: the host machine has scope host-virtual only; --machine cuda needs a GPU")
    if asked.gpu is None and cache != "warm":
        raise InputError(f"--cache {cache}: the host machine has no cache policy; --machine cuda needs a GPU")
    return Options((name,), cache, traced_rounds=0, timeout_s=timeout_s)


def measure(
    asked: Sweep, path: Path, progress: Progress, options: Options, resume: bool = False, overwrite: bool = False
) -> Recording:
    """Measure all points.  Raises InputError, MeasureError, DataError."""
    variants = load_variants(asked.kernel.folder.parent.parent, asked.kernel)
    captured = module_of(asked.kernel, "captured")
    files = {
        name: {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "label": captured.label(file)}
        for name, file in asked.files.items()
    }
    extra = {
        "selectors": [dict(facts) for facts in asked.selectors],
        "files": files,
        "skipped": [dict(facts) for facts in asked.skipped],
    }
    given = {name: str(file) for name, file in asked.files.items()}
    if asked.gpu is None:
        return sweep.on_host(asked.plans, asked.kernel, variants, path, progress, given, extra, resume, overwrite)
    return sweep.on_gpu(asked.plans, asked.kernel, variants, path, progress, options, given, extra, resume, overwrite)
