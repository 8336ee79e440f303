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

from attribution.declare import Kernel, load_kernel, load_variants, nearest
from attribution.errors import InputError
from attribution.measure import probe, scopes, sweep
from attribution.measure.job import Progress
from attribution.measure.worker import Options
from attribution.plan import Overrides, Plan, plan
from attribution.recording import Recording

KERNEL = "selectors"
BASES = {"cuda": "torch_topk", "host": "numpy_partition"}
ROUNDS = 12


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
    """What will be measured where: plans, the kernel, and what is said of each selector that is known."""

    gpu: probe.Gpu | None
    kernel: Kernel
    plans: tuple[Plan, ...]
    files: Mapping[str, Path]
    selectors: tuple[Mapping[str, Any], ...]

    @property
    def absent(self) -> tuple[Mapping[str, Any], ...]:
        """Selectors that are left out, each with its reason."""
        return tuple(facts for facts in self.selectors if facts["missing"])


def known(root: Path, machine: str) -> list[dict[str, Any]]:
    """A mapping each selector of a machine ("cuda" or "host"): name, version, needs, and why it cannot be used ('')."""
    module = sweep.part(load_kernel(root, KERNEL), "known")
    table = module.GPU if machine == "cuda" else module.HOST
    return [
        {"name": name, "version": one.version(), "needs": list(one.needs), "missing": module.missing(name)}
        for name, one in table.items()
    ]


def ask(root: Path, machine: str, axes: Axes) -> Sweep:
    """Check what was asked for, look for a GPU, and plan every point.  Raises InputError, MeasureError, DataError."""
    kernel = load_kernel(root, KERNEL)
    gpu = probe.choose(machine, kernel.gpu, kernel.name)
    where = "host" if gpu is None else "cuda"
    table = _chosen(known(root, where), axes.selectors, BASES[where])
    names = [facts["name"] for facts in table if not facts["missing"]]
    files = _files(kernel, axes.files)
    planning = replace(kernel, distributions=(*kernel.distributions, *files))
    variants = load_variants(root, kernel)
    plans = []
    for distribution in axes.distributions or (*kernel.distributions, *files):
        sizes = itertools.product(*(getattr(axes, n) or (kernel.shape[n].default,) for n in ("rows", "columns", "k")))
        for rows, columns, k in sizes:
            shape = {"rows": rows, "columns": columns, "k": k}
            if distribution in files:
                sweep.part(kernel, "captured").fits(files[distribution], shape)
            asked = Overrides(shape, {}, {}, distribution, axes.seed, axes.rounds or ROUNDS, 0)
            if gpu is not None:
                asked = replace(asked, knobs={"sms": gpu.sms})
            plans.append(plan(planning, variants, names, asked))
    return Sweep(gpu, kernel, tuple(plans), files, tuple(table))


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


def measure(
    asked: Sweep, path: Path, progress: Progress, options: Options, resume: bool = False, overwrite: bool = False
) -> Recording:
    """Measure all points.  Raises InputError, MeasureError, DataError."""
    for name in options.scopes:
        scopes.Scope(name, options.cache)
    variants = load_variants(asked.kernel.folder.parent.parent, asked.kernel)
    captured = sweep.part(asked.kernel, "captured")
    files = {
        name: {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "label": captured.label(file)}
        for name, file in asked.files.items()
    }
    extra = {"selectors": [dict(facts) for facts in asked.selectors], "files": files}
    given = {name: str(file) for name, file in asked.files.items()}
    if asked.gpu is None:
        return sweep.on_host(asked.plans, asked.kernel, variants, path, progress, given, extra, resume, overwrite)
    return sweep.on_gpu(asked.plans, asked.kernel, variants, path, progress, options, given, extra, resume, overwrite)
