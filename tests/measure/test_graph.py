"""Whether nodes of a captured graph may run at once, by what a stand-in for the driver says of its nodes and edges."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from attribution.measure.graph import chain_length

Edge = tuple[int, int] | tuple[int, int, int]
"""Nodes before and after, and the kind of a dependency that is none of wholes."""


def length(monkeypatch: pytest.MonkeyPatch, nodes: int, edges: Sequence[Edge], error: int = 0) -> int | None:
    driver = pytest.importorskip("cuda.bindings.driver")

    def get_edges(graph: Any, room: int) -> tuple[Any, ...]:
        """As the driver: as many as there is room for, and empty places behind them."""
        held = [(*edge, 0)[:3] for edge in edges][:room]
        padded = held + [(0, 0, 9)] * (room - len(held))
        kinds = [SimpleNamespace(type=kind, from_port=0) for _, _, kind in padded]
        return error, [a for a, _, _ in padded], [b for _, b, _ in padded], kinds, len(held)

    monkeypatch.setattr(driver, "cuGraphGetNodes", lambda graph: (0, [], nodes))
    monkeypatch.setattr(driver, "cuGraphGetEdges", get_edges)
    return chain_length(SimpleNamespace(raw_cuda_graph=lambda: 0))


@pytest.mark.parametrize(
    ("nodes", "edges"), [(1, []), (2, [(1, 2)]), (4, [(2, 3), (1, 2), (3, 4)])], ids=["one", "two", "four"]
)
def test_a_chain_has_its_length(monkeypatch: pytest.MonkeyPatch, nodes: int, edges: list[Edge]) -> None:
    assert length(monkeypatch, nodes, edges) == nodes


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        (3, [(1, 2), (1, 3)]),
        (3, [(1, 3), (2, 3)]),
        (4, [(1, 2), (1, 3), (2, 4), (3, 4)]),
        (3, [(1, 2)]),
        (2, []),
        (3, [(1, 2), (2, 3, 1)]),
    ],
    ids=["fork", "join", "diamond", "one apart", "two apart", "begins before the one before has ended"],
)
def test_planted_what_is_no_chain_is_none(monkeypatch: pytest.MonkeyPatch, nodes: int, edges: list[Edge]) -> None:
    assert length(monkeypatch, nodes, edges) == 0


def test_planted_a_driver_that_does_not_say_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert length(monkeypatch, 2, [(1, 2)], error=801) is None
