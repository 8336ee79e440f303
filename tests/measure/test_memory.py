"""Which memory the n-th tensor of an arm gets; with torch also the tensors, on the host (a GPU: tests/gpu/test_memory_gpu.py)."""

from __future__ import annotations

import functools

import pytest

from attribution.measure.memory import Rooms, SharedMemory


class Block:
    """Some bytes that can be sliced, known by their number."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size, self.byte = number, size, 0

    def fill_(self, byte: int) -> None:
        self.byte = byte

    def __getitem__(self, part: slice) -> tuple[int, int]:
        assert part.start is None
        assert part.stop <= self.size
        return self.number, part.stop


def test_all_rooms_are_filled_those_that_were_too_small_as_well() -> None:
    blocks: list[Block] = []

    def allocate(size: int) -> Block:
        blocks.append(Block(len(blocks), size))
        return blocks[-1]

    shared = Rooms(allocate)
    for size in (100, 1000):
        shared.rewind()
        for _ in range(2):
            shared.take(size)
    shared.fill(0xA5)
    assert [block.byte for block in blocks] == [0xA5] * 4


def rooms() -> tuple[Rooms, list[int]]:
    made: list[int] = []

    def allocate(size: int) -> Block:
        made.append(size)
        return Block(len(made) - 1, size)

    return Rooms(allocate), made


def test_the_nth_tensor_of_every_arm_begins_at_one_place() -> None:
    shared, made = rooms()
    first = [shared.take(size) for size in (100, 3000, 0, 129)]
    shared.rewind()
    second = [shared.take(size) for size in (128, 2000, 1, 256)]
    assert [place for place, _ in first] == [place for place, _ in second] == [0, 1, 2, 3]
    assert [size for _, size in second] == [128, 2000, 1, 256]
    assert made == [128, 4096, 1, 256]


def test_tensors_of_one_arm_never_share() -> None:
    shared, _ = rooms()
    assert len({shared.take(64)[0] for _ in range(5)}) == 5


def test_what_finds_its_room_too_small_gets_another_one_and_leaves_the_first_to_its_arms() -> None:
    shared, made = rooms()
    places = []
    for size in (100, 1000, 100, 600):
        shared.rewind()
        places.append(shared.take(size)[0])
    assert places == [0, 1, 0, 1]
    assert made == [128, 1024]


def test_torch_empty_on_the_device_shares_and_nothing_else_does() -> None:
    torch = pytest.importorskip("torch")
    memory, made = SharedMemory("cpu"), []
    for fill in (1, 2):
        with memory.arm():
            empty = functools.partial(torch.empty, device="cpu", dtype=torch.int32)
            some = [
                empty((3, 5)),
                empty(7),
                torch.empty([2, 2], device=torch.device("cpu")),
                torch.empty(4, 2, dtype=torch.float16),
            ]
            own = [
                torch.zeros(4, device="cpu"),
                torch.full((2,), 3.0, device="cpu"),
                torch.empty(4, pin_memory=False),
                torch.empty_like(some[0]),
            ]
            nothing = empty((0, 3))
        assert [tuple(t.shape) for t in some] == [(3, 5), (7,), (2, 2), (4, 2)]
        assert [t.dtype for t in some] == [torch.int32, torch.int32, torch.float32, torch.float16]
        assert (nothing.shape, nothing.dtype) == ((0, 3), torch.int32)
        assert (own[0].tolist(), own[1].tolist()) == ([0.0] * 4, [3.0] * 2)
        some[1].fill_(fill)
        made.append((some, own))
    (first, mine), (second, others) = made
    assert [t.data_ptr() for t in first] == [t.data_ptr() for t in second]
    assert len({t.data_ptr() for t in (*first, *mine, *others)}) == 12
    assert first[1].tolist() == [2] * 7  # the first arm's tensor holds what the second one left
    assert torch.empty(7, dtype=torch.int32, device="cpu").data_ptr() != first[1].data_ptr()


def test_an_operator_that_relies_on_what_set_up_put_there_is_shown_where_it_is_the_only_arm() -> None:
    """Planted: a table that is filled once, and never by a step.  Made with its values it is the arm's own."""
    torch = pytest.importorskip("torch")
    memory = SharedMemory("cpu")
    with memory.arm():
        once, own = torch.empty(4, device="cpu").fill_(7.0), torch.full((4,), 7.0, device="cpu")
        written = torch.empty(4, device="cpu")
    memory.poison(0xA5)
    written.fill_(7.0)  # by a step
    assert own.tolist() == written.tolist() == [7.0] * 4
    assert 7.0 not in once.tolist()


def test_a_kind_of_device_leaves_the_others_alone() -> None:
    torch = pytest.importorskip("torch")
    with SharedMemory("cuda").arm():
        one, two = (torch.empty(64, device="cpu") for _ in range(2))
    assert one.data_ptr() != two.data_ptr()
