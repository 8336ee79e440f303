"""Many builds at once: every variant of every kernel, each identity compiled once, the rest cached.

In: a root, names of kernels and variants, an architecture.  Out: one `Outcome` a variant: a build,
a failure with its reason, or skipped because the kernel has no GPU source.
Misuse: an outcome that failed is a row like the others; look at `error`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from attribution.build import (
    ARCH,
    Build,
    Target,
    cached,
    check_arch,
    compile_target,
    compiler_version,
    target,
)
from attribution.declare import Kernel, Variant, nearest
from attribution.errors import AttrError, BuildError, InputError
from attribution.load import kernel_names, load_kernel, load_variants

Progress = Callable[[int, int, str], None]
"""Called with builds done, builds in all, and the name of the last one."""


@dataclass(frozen=True)
class Outcome:
    """What became of one variant: `build`, or `error` with the reason; neither means skipped."""

    kernel: str
    variant: str
    build: Build | None = None
    error: AttrError | None = None

    @property
    def status(self) -> str:
        if self.build:
            return "cached" if self.build.cached else "built"
        return "failed" if self.error else "skipped"

    def __str__(self) -> str:
        return f"{self.kernel}/{self.variant}: {self.status}"


def select(root: Path, kernels: Sequence[str] = (), variants: Sequence[str] = ()) -> list[tuple[Kernel, Variant]]:
    """The variants to build, all where no name is given, in declared order.  Raises InputError."""
    loaded = [load_kernel(root, name) for name in kernels or kernel_names(root)]
    every = [(kernel, v) for kernel in loaded for v in load_variants(root, kernel).values()]
    known = [variant.name for _, variant in every]
    for name in variants:
        if name not in known:
            raise InputError(f"no variant {name}{nearest(name, known)}; `attr list` shows them")
    return [(k, v) for k, v in every if not variants or v.name in variants]


def build_all(
    chosen: Sequence[tuple[Kernel, Variant]],
    arch: str = ARCH,
    cache: Path | str | None = None,
    jobs: int | None = None,
    progress: Progress = lambda done, total, label: None,
) -> list[Outcome]:
    """Build `chosen` with `jobs` threads (all cores when None), in their order.

    Threads, because NVRTC and nvdisasm run without the interpreter's lock (4 compiles of 1.0 s took
    4.1 s in one thread and 2.1 s in two, on 2 cores): processes would import cuda.core once each.
    A failed build does not stop the others.
    Raises InputError for an impossible `arch`, BuildError where there is no compiler at all.
    """
    check_arch(arch)
    if any(kernel.source for kernel, _ in chosen):
        compiler_version()
    results: dict[int, Outcome] = {}
    todo: dict[str, tuple[Target, list[int]]] = {}
    for index, (kernel, variant) in enumerate(chosen):
        outcome = _look(kernel, variant, arch, cache, index, todo)
        if outcome:
            results[index] = outcome
    progress(len(results), len(chosen), "from the cache")
    with ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0))) as pool:
        running: dict[Future[Build], list[int]] = {
            pool.submit(compile_target, wanted, cache): indices for wanted, indices in todo.values()
        }
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                for index in running.pop(future):
                    results[index] = _finish(chosen[index], future)
                    progress(len(results), len(chosen), str(results[index]))
    return [results[index] for index in range(len(chosen))]


def _look(
    kernel: Kernel,
    variant: Variant,
    arch: str,
    cache: Path | str | None,
    index: int,
    todo: dict[str, tuple[Target, list[int]]],
) -> Outcome | None:
    """What is known without compiling; otherwise None, and the target is in `todo`."""
    if kernel.source is None:
        return Outcome(kernel.name, variant.name)
    try:
        wanted = target(kernel, variant.flags, arch)
    except (BuildError, InputError) as error:
        return Outcome(kernel.name, variant.name, error=error)
    if found := cached(wanted, cache):
        return Outcome(kernel.name, variant.name, build=found)
    todo.setdefault(wanted.identity, (wanted, []))[1].append(index)
    return None


def _finish(chosen: tuple[Kernel, Variant], future: Future[Build]) -> Outcome:
    kernel, variant = chosen
    try:
        return Outcome(kernel.name, variant.name, build=future.result())
    except (BuildError, InputError) as error:
        return Outcome(kernel.name, variant.name, error=error)
