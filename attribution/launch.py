"""How a kernel says what to run on a GPU: steps in order, as values; nothing here touches a GPU.

In: nothing.  Out: the types that a kernel's GPU module returns and `measure/cuda.py` executes on torch's current stream.
A GPU module (named by `Kernel.gpu`, a file in the kernel's folder, imported by the worker only) has the functions
  inputs(shape, distribution, seed) -> {name: CUDA tensor}
  operator(inputs, shape, flags, knobs) -> Operator; allocates once, so that its steps can be captured in a CUDA Graph
  reference(inputs, shape, flags) -> anything; another way to the answer
  check(inputs, output, reference, shape, flags) -> list[Check]
and may have
  moved_bytes(inputs, shape, flags) -> the least bytes that must come from memory: a time that beats it is refused
  fingerprint(inputs) -> text that is another one for other inputs, where copying them to the host takes too long
  ceilings() -> tuple of Ceiling: pure work whose rate bounds the kernel's (ready ones: attribution/measure/ceilings.py)
  METRICS, {meaning: ncu metric} beside the ones of every kernel; ARCH, such as "sm_90a", when it runs on that only
The trace is read from the first launch of stage `main` that takes TRACE; `main` must be able to run again after itself.
While it is measured, what `operator` takes from torch.empty is memory that other arms use as well (measure/memory.py): it holds
what the steps of this execution wrote there and nothing else; what must keep its values is made with torch.zeros or torch.full.
Misuse: a step that synchronizes with the host, or allocates, cannot be captured and is not a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Launch:
    """One launch of an entry of the kernel's build.

    args: CUDA tensors (passed as pointers), numpy scalars (by value), and what cuda.core's launch takes (tensor maps).
    The argument `TRACE` is replaced by the pointer to the trace buffer, or null where the launch is not traced.
    """

    stage: str
    entry: str
    grid: tuple[int, int, int]
    threads: int
    smem_bytes: int
    args: tuple[Any, ...]
    cluster: tuple[int, int, int] | None = None
    cooperative: bool = False
    """All CTAs must be resident together: the kernel has a barrier across the grid."""


@dataclass(frozen=True)
class Call:
    """One step that is a torch call on the current stream, such as the selection of an unfused baseline.

    touches: CUDA tensors that it reads or writes, as far as a cold cache has to know of them.
    """

    stage: str
    function: Callable[[], Any]
    touches: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Ceiling:
    """Work of one kind and nothing else: its rate is what the same card can do at best, measured in the same recording.

    metric names the rate (practical_flop_per_s, copy_byte_per_s); `function` does `work` of `unit` on the current stream.
    """

    metric: str
    unit: str
    work: float
    function: Callable[[], Any]


class _TraceArgument:
    def __repr__(self) -> str:
        return "TRACE"


TRACE = _TraceArgument()
"""Stands for the trace buffer among a Launch's args."""


@dataclass(frozen=True)
class Operator:
    """The steps of one execution, the output they leave behind, and what was written about the work on the way.

    counts: (stage, metric) -> a function that reads the number after a run, for quantities that only the kernel knows.
    limits: limit of a capacity -> a function that reads (rows that failed by it, rows) after a run.
    """

    steps: tuple[Launch | Call, ...]
    output: Mapping[str, Any]
    counts: Mapping[tuple[str, str], Callable[[], int]] = field(default_factory=dict)
    limits: Mapping[str, Callable[[], tuple[int, int]]] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages in order, each once."""
        return tuple(dict.fromkeys(step.stage for step in self.steps))
