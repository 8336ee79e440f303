"""Device memory that all arms of a measurement share, so that no two of them differ by where their memory lies.

In: what allocates an arm's tensors, called inside `arm()`.  Out: its `torch.empty` tensors, where those of every other arm are.
Seen on an H200: equal builds of one 380 us kernel, each with memory of its own, differ by up to 1 % in every replay; with the same
memory by nothing that could be measured (docs/findings/0018).
The n-th tensor of an arm begins where the n-th one of any other arm does, whatever their sizes; rooms are powers of two, and a
tensor that finds its room too small gets another one.  What is made with values in it (zeros, full) stays the arm's own.
Misuse: what an arm leaves in shared memory is there until another arm runs: check an output right behind its execution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Rooms:
    """For the n-th tensor of every arm one room, or several where a later arm needed a larger one."""

    def __init__(self, allocate: Callable[[int], Any]) -> None:
        """allocate(n): n bytes of memory that can be sliced."""
        self._allocate = allocate
        self._rooms: list[list[tuple[int, Any]]] = []
        self._next = 0

    def rewind(self) -> None:
        """The next tensor is the first one of another arm."""
        self._next = 0

    def take(self, size: int) -> Any:
        """The next tensor's memory, `size` bytes."""
        if self._next == len(self._rooms):
            self._rooms.append([])
        rooms = self._rooms[self._next]
        self._next += 1
        for room, memory in rooms:
            if room >= size:
                return memory[:size]
        room = 1 << max(size - 1, 0).bit_length()
        rooms.append((room, self._allocate(room)))
        return rooms[-1][1][:size]


class SharedMemory:
    """`Rooms` on the GPU that is current."""

    def __init__(self) -> None:
        self._rooms = Rooms(_bytes)

    @contextmanager
    def arm(self) -> Iterator[None]:
        """Inside, `torch.empty(shape, dtype=..., device=a CUDA device)` takes shared memory, from the first room on."""
        from torch.overrides import TorchFunctionMode

        take = self._rooms.take

        class Shared(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return _empty(take, args, kwargs) if _is_ours(func, kwargs) else func(*args, **(kwargs or {}))

        self._rooms.rewind()
        with Shared():
            yield


def _bytes(count: int) -> Any:
    import torch

    return torch.empty(count, dtype=torch.uint8, device="cuda")


def _is_ours(func: Any, kwargs: Any) -> bool:
    import torch

    if func is not torch.empty or not kwargs or not set(kwargs) <= {"dtype", "device"}:
        return False
    return str(torch.device(kwargs.get("device") or "cpu")).startswith("cuda")


def _empty(take: Callable[[int], Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """torch.empty(*args, **kwargs) in memory from `take`."""
    import torch

    shape = tuple(args[0]) if isinstance(args[0], (tuple, list)) else args
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    memory = take(math.prod(shape) * dtype.itemsize)
    return memory.view(dtype).view(shape) if memory.numel() else torch.empty(shape, dtype=dtype, device=memory.device)
