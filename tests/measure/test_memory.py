"""Which memory the n-th tensor of an arm gets; the tensors themselves are tests/gpu/test_memory_gpu.py's."""

from __future__ import annotations

from attribution.measure.memory import Rooms


class Block:
    """Some bytes that can be sliced, known by their number."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size = number, size

    def __getitem__(self, part: slice) -> tuple[int, int]:
        assert part.start is None
        assert part.stop <= self.size
        return self.number, part.stop


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
