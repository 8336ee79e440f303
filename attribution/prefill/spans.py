"""Named ranges around parts of the stack: NVTX for every profiler, annotations for torch's, and the time of chosen parts.

In: a torch device, the names to time.  Out: a callable for `with`, and after `finish()` the nanoseconds of every timed range.
On a GPU a range is timed by two CUDA events on the current stream (its kernels and the gaps between them); on a CPU by the
process's CPU time.
Misuse: a timed range inside another timed range is in both; one object serves one request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from attribution.errors import MeasureError


def clock(device: str) -> Callable[[], int]:
    """The clock of requests, ns: the host's where a GPU works, else the process's CPU time: another process must not count."""
    return time.perf_counter_ns if device == "cuda" else time.process_time_ns


class Spans:
    """`with spans("indexer", chunk): ...`.  `annotate` adds what torch.profiler shows as user annotations."""

    def __init__(self, device: str, timed: Sequence[str] = (), annotate: bool = False) -> None:
        """Raises MeasureError without package nvtx."""
        try:
            import nvtx
        except ImportError:
            raise MeasureError("package nvtx is missing: install it with `pip install 'attribution[gpu]'`") from None
        self._nvtx, self._device, self._cuda = nvtx, device, device == "cuda"
        self._timed, self._annotate = frozenset(timed), annotate
        self._open: list[tuple[str, int, Any, Any]] = []

    @contextmanager
    def __call__(self, name: str, chunk: int = -1) -> Iterator[None]:
        """A range; `chunk` says which part of the request a timed one belongs to."""
        self._nvtx.push_range(name)
        begin = self._mark() if name in self._timed else None
        try:
            with self._annotation(name):
                yield
        finally:
            if begin is not None:
                self._open.append((name, chunk, begin, self._mark()))
            self._nvtx.pop_range()

    def _annotation(self, name: str) -> Any:
        if not self._annotate:
            return nullcontext()
        import torch

        return torch.profiler.record_function(name)

    def _mark(self) -> Any:
        if not self._cuda:
            return clock(self._device)()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def finish(self) -> dict[tuple[str, int], float]:
        """(name, chunk) -> ns, summed over layers; waits for the device."""
        if self._cuda:
            import torch

            torch.cuda.synchronize()
        out: dict[tuple[str, int], float] = {}
        for name, chunk, begin, end in self._open:
            spent = begin.elapsed_time(end) * 1e6 if self._cuda else float(end - begin)
            out[name, chunk] = out.get((name, chunk), 0.0) + spent
        return out
