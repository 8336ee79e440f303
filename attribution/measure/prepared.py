"""One arm made ready on a card: its launches bound to its build, run eagerly, as a graph, or traced.

In: an `Operator`, the `Build` of its flags, torch's current stream.  Out: executions; nothing is timed here.
Misuse: make one for each arm and each set of inputs, and keep it: capturing and loading are not measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from attribution.declare import Kernel
from attribution.errors import MeasureError
from attribution.launch import TRACE, Call, Launch, Operator
from attribution.measure.graph import Graph
from attribution.measure.stamp import on_stream

if TYPE_CHECKING:
    from attribution.build import Build
    from attribution.ingest.trace import RawTrace

LEVEL_TWO_CTAS = 8
"""CTAs whose lanes record at TRACE 2; the others record nothing."""
POISON = 0xA5
"""Byte that outputs hold before they are written: an element that was not written is then wrong."""


class Module:
    """The loaded cubin of one build, and its entries with their dynamic shared memory allowed."""

    def __init__(self, build: Build) -> None:
        from cuda.core import ObjectCode

        self.build = build
        self._code = ObjectCode.from_cubin(build.cubin)
        self._entries: dict[str, Any] = {}

    def entry(self, name: str, smem_bytes: int) -> Any:
        """The kernel `name`, allowed `smem_bytes` of dynamic shared memory.  Raises BuildError."""
        if name not in self._entries:
            self.build.entry(name)
            self._entries[name] = self._code.get_kernel(name)
        if smem_bytes > 48 * 1024:
            _allow_smem(self._entries[name], smem_bytes)
        return self._entries[name]


def _allow_smem(kernel: Any, smem_bytes: int) -> None:
    """Above 48 KiB a kernel must ask, on the current device.  cuda.core has no setter for it."""
    from cuda.bindings import driver
    from cuda.core import Device

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    handle = driver.CUkernel(int(kernel.handle))
    (error,) = driver.cuKernelSetAttribute(attribute, smem_bytes, handle, driver.CUdevice(Device().device_id))
    if error != driver.CUresult.CUDA_SUCCESS:
        raise MeasureError(f"{smem_bytes} bytes of dynamic shared memory are refused: {error.name}")


class Prepared:
    """Steps of one operator, ready to run on the current stream.

    `level`: the build's TRACE.  Above 0 every launch that takes TRACE has a buffer of its own, and
    that of stage `main` records; such a build must not be given a null pointer.
    """

    def __init__(self, kernel: Kernel, operator: Operator, module: Module | None, level: int = 0) -> None:
        if not operator.steps:
            raise MeasureError(f"kernel {kernel.name}: operator() has no steps: there is nothing to run")
        self.kernel, self.operator, self.module = kernel, operator, module
        self.level, self._traced = level, -1
        self._buffers: dict[int, Any] = {}
        self._graphs: dict[str, Graph] = {}
        self._steps: list[tuple[str, Callable[[], Any]]] = [
            (step.stage, self._bound(i, step)) for i, step in enumerate(operator.steps)
        ]
        if level:
            self._make_room()

    @property
    def stages(self) -> tuple[str, ...]:
        return self.operator.stages

    def _bound(self, place: int, step: Launch | Call, capacity: int = 0) -> Callable[[], Any]:
        """The step as a function of nothing, with a trace buffer of `capacity` records a lane where it needs one."""
        if isinstance(step, Call):
            return step.function
        trace = 0
        if self.level and any(a is TRACE for a in step.args):
            trace = self._buffer(place, step, capacity)
        from cuda.core import LaunchConfig, launch

        if self.module is None:
            raise MeasureError(
                f"kernel {self.kernel.name} has no source, and its step {step.entry} is a launch of a build"
            )
        entry = self.module.entry(step.entry, step.smem_bytes)
        grid, extra = step.grid, {}
        if step.cluster is not None:
            if any(g % c for g, c in zip(grid, step.cluster, strict=True)):
                raise MeasureError(f"{step.entry}: a grid of {grid} CTAs is no multiple of cluster {step.cluster}")
            # cuda.core counts the grid in clusters.
            grid = tuple(g // c for g, c in zip(grid, step.cluster, strict=True))  # type: ignore[assignment]
            extra = {"cluster": step.cluster}
        config = LaunchConfig(
            grid=grid, block=step.threads, shmem_size=step.smem_bytes, is_cooperative=step.cooperative, **extra
        )
        arguments = [_argument(step, i, a, trace) for i, a in enumerate(step.args)]
        return lambda: launch(on_stream(), config, entry, *arguments)

    def run(self, stage: str = "operator", between: Callable[[int], None] | None = None) -> None:
        """Enqueue all steps, or those of one stage; `between(i)` is called before step i."""
        for i, (name, function) in enumerate(self._steps):
            if between is not None:
                between(i)
            if stage in ("operator", name):
                function()

    def run_step(self, place: int) -> None:
        """Enqueue one step."""
        self._steps[place][1]()

    def stage_bounds(self) -> list[tuple[str, int, int]]:
        """(stage, first step, past the last) for every run of neighbouring steps of one stage."""
        bounds: list[tuple[str, int, int]] = []
        for i, (name, _) in enumerate(self._steps):
            if bounds and bounds[-1][0] == name:
                bounds[-1] = (name, bounds[-1][1], i + 1)
            else:
                bounds.append((name, i, i + 1))
        return bounds

    def graph(self, stage: str = "operator") -> Callable[[], None]:
        """Replays the CUDA Graph of the steps; captured once."""
        import torch

        if stage not in self._graphs:
            self.run()  # lazy loading and library set-up happen here, not in the capture
            torch.cuda.synchronize()
            self._graphs[stage] = Graph(lambda: self.run(stage))
        return self._graphs[stage].replay

    def again(self) -> None:
        """Enqueue the operator once more: a replay where its graph was captured."""
        if "operator" in self._graphs:
            self._graphs["operator"].replay()
        else:
            self.run()

    def renew_graphs(self) -> None:
        """Other instances of the graphs that were captured."""
        for graph in self._graphs.values():
            graph.renew()

    def poison(self) -> None:
        """Fill every output with a pattern that no right answer has throughout."""
        import torch

        for tensor in self.operator.output.values():
            tensor.view(torch.uint8).fill_(POISON)

    def tensors(self) -> Iterator[Any]:
        """Every distinct tensor that a step is given or that the operator leaves behind."""
        seen = set()
        given = [a for s in self.operator.steps for a in (s.args if isinstance(s, Launch) else s.touches)]
        for value in (*given, *self.operator.output.values()):
            if hasattr(value, "data_ptr") and value.data_ptr() not in seen:
                seen.add(value.data_ptr())
                yield value

    def _buffer(self, place: int, step: Launch, capacity: int) -> int:
        """Address of a fresh trace buffer for the step; the first one of stage main records."""
        import torch

        from attribution.ingest import trace

        if self._traced < 0 and step.stage == "main":
            self._traced = place
        mine = place == self._traced
        # Every tile of every CTA would be tens of millions of records.
        traced = LEVEL_TWO_CTAS if self.level > 1 else None
        host = trace.allocate(_ctas(step), len(self.kernel.roles), capacity, self.level if mine else 0, traced)
        self._buffers[place] = torch.from_numpy(host).cuda()
        return int(self._buffers[place].data_ptr())

    def _make_room(self) -> None:
        """Run once without room, where every attempt is only counted, then hold as much as the busiest lane wants.

        Raises MeasureError when no launch of stage main takes TRACE.
        """
        if self._traced < 0:
            raise MeasureError(f"kernel {self.kernel.name}: no launch of stage main takes TRACE: nothing can be traced")
        self.run()
        lanes = self.trace().lanes
        most = int(lanes["attempts"].max()) if len(lanes) else 0
        step = self.operator.steps[self._traced]
        # The work may vary from run to run; what goes beyond is counted as lost.
        self._steps[self._traced] = (step.stage, self._bound(self._traced, step, most + most // 16 + 8))

    def trace(self) -> RawTrace:
        """What the last execution left in the buffer of stage main.  Raises DataError."""
        import torch

        from attribution.ingest import trace

        step = self.operator.steps[self._traced]
        assert isinstance(step, Launch)
        torch.cuda.synchronize()
        buffer = self._buffers[self._traced].cpu().numpy()
        return trace.decode(buffer, _ctas(step), len(self.kernel.roles), len(self.kernel.events))


def _ctas(step: Launch) -> int:
    return step.grid[0] * step.grid[1] * step.grid[2]


def _argument(step: Launch, place: int, value: Any, trace: int) -> Any:
    """What cuda.core passes for one argument.  Raises MeasureError for what has no width."""
    if value is TRACE:
        return trace
    if hasattr(value, "data_ptr"):
        return value.data_ptr()
    if isinstance(value, (bool, int, float)) and not hasattr(value, "dtype"):
        raise MeasureError(
            f"{step.entry}: argument {place} is the Python {type(value).__name__} {value!r}, whose width the kernel "
            "cannot know: pass numpy.int32(...), numpy.float32(...) or the like"
        )
    return value
