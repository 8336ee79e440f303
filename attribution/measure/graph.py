"""A captured CUDA Graph, and instances of it that are replaced.

In: a function that enqueues launches on torch's current stream.  Out: replays.
An instance has a bias of its own (seen: 0.2 % between two instances of one 240 us kernel, the same in every replay); only
another instance averages it out.  A replaced one lives on until the next is there, so that places are exchanged.
Misuse: a graph does not keep its tensors alive: who made them does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attribution.errors import MeasureError


class Graph:
    """One captured graph and its instance of the moment."""

    def __init__(self, enqueue: Callable[[], None]) -> None:
        import torch

        self._captured = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(self._captured):
            enqueue()
        self._instances: list[Any] = []
        self.renew()

    def renew(self) -> None:
        """Replay another instance from now on.  Raises MeasureError."""
        from cuda.bindings import driver

        graph = driver.CUgraph(int(self._captured.raw_cuda_graph()))
        self._instances.insert(0, _checked(driver.cuGraphInstantiate(graph, 0)))
        for old in self._instances[2:]:
            _checked(driver.cuGraphExecDestroy(old))
        del self._instances[2:]

    def replay(self) -> None:
        """Enqueue it on torch's current stream."""
        import torch
        from cuda.bindings import driver

        _checked(driver.cuGraphLaunch(self._instances[0], driver.CUstream(torch.cuda.current_stream().cuda_stream)))


def chain_length(captured: Any) -> int | None:
    """Nodes of a captured graph in which each waits for the whole one before it, so that no two may run at once; 0: it is none.

    None where the driver does not say.
    """
    from cuda.bindings import driver

    graph = driver.CUgraph(int(captured.raw_cuda_graph()))
    try:
        error, _, nodes = driver.cuGraphGetNodes(graph)
        unknown, before, after, kinds, edges = driver.cuGraphGetEdges(graph, nodes)
    except RuntimeError:  # a driver without that call
        return None
    if int(error) or int(unknown):
        return None
    # Of as many edges as a chain has no two begin, and no two end, in the same node.  Other kinds than 0 let work overlap.
    ends = [{int(node) for node in side[:edges]} for side in (before, after)]
    plain = not any(kind.type or kind.from_port for kind in kinds[:edges])
    return int(nodes) if plain and edges == len(ends[0]) == len(ends[1]) == nodes - 1 else 0


def _checked(result: Any) -> Any:
    """The value of a driver call.  Raises MeasureError."""
    error, *values = result
    if int(error):
        raise MeasureError(f"CUDA graph: {error.name}")
    return values[0] if values else None
