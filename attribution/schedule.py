"""The placement engine: given task times, when and on which SM does each role of each persistent CTA work or wait?

In: a `Pipeline` (roles of a CTA and the buffers between them), integer times per role, query batch and tile, and the
numbers of CTAs and SMs.  Out: a `Placement`: spans as arrays, one entry a span.
Protocol: CTA c takes batches c, c + ctas, ...; CTAs fill the SMs in order, and a CTA of a later wave starts on whichever SM
frees first (ties: the lower SM id).  Within a CTA, a role works on one item at a time, in order.
Misuse: CTAs that share an SM (`resident` > 1) do not slow each other down here; times are taken as given.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Role:
    """One role: its name and the names of its work event and of its waits (upstream data, downstream room)."""

    name: str
    work: str
    wait_ready: str = ""
    wait_free: str = ""


@dataclass(frozen=True)
class Link:
    """The buffer from one role to the next: `slots` units, handed over tile by tile or once a batch."""

    slots: int
    by: str

    def __post_init__(self) -> None:
        assert self.by in ("tile", "batch"), self.by
        assert self.slots >= 1, self.slots


@dataclass(frozen=True)
class Pipeline:
    """The roles of one CTA in the order data flows, and the links between neighbours."""

    roles: tuple[Role, ...]
    links: tuple[Link, ...] = ()
    resident: int = 1

    def __post_init__(self) -> None:
        assert len(self.links) == len(self.roles) - 1


@dataclass(frozen=True)
class Placement:
    """Where and when: per CTA its SM, begin and end; per span its CTA, role, event, batch, begin and end (all ns)."""

    cta_sm: Int64s
    cta_begin_ns: Int64s
    cta_end_ns: Int64s
    cta: Int64s
    role: Int64s
    event: NDArray[np.str_]
    batch: Int64s
    begin_ns: Int64s
    end_ns: Int64s

    @property
    def makespan_ns(self) -> int:
        """Time from the first begin to the last end, ns."""
        return int(self.cta_end_ns.max(initial=0))


BatchTimes = Sequence[Sequence[int]]
"""Of one role: per batch, the times of its items in ns (one item a tile, or a single one for the batch)."""

_Span = tuple[int, str, int, int, int]  # role, event, batch, begin, end


class _Cta:
    """One CTA's timeline from its own zero: when each role is free, and the ends its neighbours wait for."""

    def __init__(self, pipeline: Pipeline, per_tile: bool) -> None:
        count = len(pipeline.roles)
        self.pipeline = pipeline
        self.per_tile = per_tile
        self.free = [0] * count
        self.item_ends: list[list[int]] = [[] for _ in range(count)]
        self.batch_ends: list[list[int]] = [[] for _ in range(count)]
        self.spans: list[_Span] = []

    def run_batch(self, batch: int, items: Sequence[Sequence[int]]) -> None:
        """Append the batch's spans; `items[role]` are the role's item times."""
        first = 0
        links = self.pipeline.links
        for role in range(len(self.pipeline.roles)):
            if role == len(links) or links[role].by == "batch":
                self._run_coupled(batch, range(first, role + 1), items)
                first = role + 1

    def _run_coupled(self, batch: int, roles: range, items: Sequence[Sequence[int]]) -> None:
        """Roles coupled tile by tile advance together; the last one hands the whole batch on."""
        counts = {len(items[r]) for r in roles}
        assert len(counts) == 1, f"roles coupled by tiles have different numbers of tiles: {counts}"
        begins: dict[int, int] = {}
        for tile in range(counts.pop()):
            for role in roles:
                begin = self._start(batch, role, tile, role > roles.start)
                end = begin + items[role][tile]
                begins.setdefault(role, begin)
                if self.per_tile:
                    self.spans.append((role, self.pipeline.roles[role].work, batch, begin, end))
                self.free[role] = end
                self.item_ends[role].append(end)
        for role in roles:
            self.batch_ends[role].append(self.free[role])
            if not self.per_tile and role in begins:
                work = self.pipeline.roles[role].work
                self.spans.append((role, work, batch, begins[role], self.free[role]))

    def _start(self, batch: int, role: int, tile: int, tile_input: bool) -> int:
        """When the role can begin this item; records the waits, room first, then data."""
        now = self.free[role]
        names = self.pipeline.roles[role]
        if role < len(self.pipeline.links):
            link = self.pipeline.links[role]
            ends = self.item_ends[role + 1] if link.by == "tile" else self.batch_ends[role + 1]
            mine = self.item_ends[role] if link.by == "tile" else self.batch_ends[role]
            index = len(mine) - link.slots
            if index >= 0 and (link.by == "tile" or tile == 0):
                now = self._wait(role, names.wait_free, batch, now, ends[index])
        if role > 0 and (tile_input or tile == 0):
            ready = self.item_ends[role - 1][-1] if tile_input else self.batch_ends[role - 1][-1]
            now = self._wait(role, names.wait_ready, batch, now, ready)
        return now

    def _wait(self, role: int, event: str, batch: int, now: int, until: int) -> int:
        if until > now:
            self.spans.append((role, event, batch, now, until))
            return until
        return now


def place(pipeline: Pipeline, times: Sequence[BatchTimes], ctas: int, sms: int, per_tile: bool = False) -> Placement:
    """Place every batch.

    times: [roles][batches][items] integer ns.  With `per_tile`, work spans are per item, else per batch with the waits inside.
    """
    batches = len(times[0])
    assert all(len(t) == batches for t in times)
    # No more places than CTAs that can take one.
    idle = [(0, place % sms) for place in range(min(pipeline.resident * sms, ctas))]
    heapq.heapify(idle)
    where, spans, owners = [], [], []
    for cta in range(ctas):
        lane = _Cta(pipeline, per_tile)
        for batch in range(cta, batches, ctas):
            lane.run_batch(batch, [t[batch] for t in times])
        origin, sm = heapq.heappop(idle)
        end = origin + max(lane.free)
        heapq.heappush(idle, (end, sm))
        where.append((sm, origin, end))
        # Longer spans first at one begin, so that a wait nests inside the work that contains it.
        for role, event, batch, begin, stop in sorted(lane.spans, key=lambda s: (s[0], s[3], -s[4])):
            spans.append((role, batch, begin + origin, stop + origin))
            owners.append((cta, event))
    cta_sm, begins, ends = (np.array(c, dtype=np.int64) for c in zip(*where, strict=True))
    table = np.array(spans, dtype=np.int64).reshape(-1, 4)
    return Placement(
        cta_sm=cta_sm,
        cta_begin_ns=begins,
        cta_end_ns=ends,
        cta=np.array([o[0] for o in owners], dtype=np.int64),
        role=table[:, 0],
        event=np.array([o[1] for o in owners], dtype=np.str_),
        batch=table[:, 1],
        begin_ns=table[:, 2],
        end_ns=table[:, 3],
    )


def rows_per_sm(q: int, block_q: int, ctas: int, sms: int, resident: int = 1) -> Int64s:
    """Rows of output that each SM works on when every row takes one unit of time; shape [sms].

    Reproduces the published row counts of a 78-SM part, with CTAs of later waves placed on the SM that frees first.
    """
    rows = [min(block_q, q - first) for first in range(0, q, block_q)]
    pipeline = Pipeline((Role("math", "score"),), resident=resident)
    placed = place(pipeline, [[[r] for r in rows]], ctas, sms)
    cta_rows = np.bincount(np.arange(len(rows)) % ctas, weights=rows, minlength=ctas)
    return np.bincount(placed.cta_sm, weights=cta_rows, minlength=sms).astype(np.int64)
