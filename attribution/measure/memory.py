"""Device memory that all arms of a measurement share, so that no two of them differ by where their memory lies.

In: what allocates an arm's tensors, called inside `arm()`.  Out: its `torch.empty` tensors, where those of every other arm are.
Seen on an H200: equal builds of one 380 us kernel, each with memory of its own, differ by up to 1 % in every replay; with the same
memory by nothing that could be measured (docs/findings/0018).
The n-th tensor of an arm begins where the n-th one of any other arm does, whatever their sizes; rooms are powers of two, and a
tensor that finds its room too small gets another one.  What is made with values in it (zeros, full) stays the arm's own.
What set-up put into shared memory is not there any more when another arm has run: `poison` before a checked execution shows an
operator that relies on it, also where it is the only arm.
Misuse: what an arm leaves in shared memory is there until another arm runs: check an output right behind its execution, and run
the whole operator before one of its stages runs alone (docs/findings/0020).
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

    def fill(self, byte: int) -> None:
        """Overwrite all of them."""
        for _, memory in (room for rooms in self._rooms for room in rooms):
            memory.fill_(byte)

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
    """`Rooms` on one kind of device: the GPU that is current, or for tests the host."""

    def __init__(self, kind: str = "cuda") -> None:
        self._kind = kind
        self._rooms = Rooms(self._bytes)

    @contextmanager
    def arm(self) -> Iterator[None]:
        """Inside, `torch.empty(shape, dtype=..., device=...)` on such a device takes shared memory, from the first room on."""
        from torch.overrides import TorchFunctionMode

        ours, empty = self._is_ours, self._empty

        class Shared(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return empty(args, kwargs) if ours(func, kwargs) else func(*args, **(kwargs or {}))

        self._rooms.rewind()
        with Shared():
            yield

    def poison(self, byte: int) -> None:
        """Enqueue that all of it holds this byte: what an operator needs of it, its steps have to write."""
        self._rooms.fill(byte)

    def _bytes(self, count: int) -> Any:
        import torch

        return torch.empty(count, dtype=torch.uint8, device=self._kind)

    def _is_ours(self, func: Any, kwargs: Any) -> bool:
        import torch

        if func is not torch.empty or not kwargs or not set(kwargs) <= {"dtype", "device"}:
            return False
        return str(torch.device(kwargs.get("device") or "cpu")).startswith(self._kind)

    def _empty(self, args: Any, kwargs: dict[str, Any]) -> Any:
        """torch.empty(*args, **kwargs) in the next room."""
        import torch

        shape = tuple(args[0]) if isinstance(args[0], (tuple, list)) else args
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        memory = self._rooms.take(math.prod(shape) * dtype.itemsize)
        if not memory.numel():
            return torch.empty(shape, dtype=dtype, device=memory.device)
        return memory.view(dtype).view(shape)
