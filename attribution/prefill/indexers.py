"""What may stand in the place of the indexer: the unfused pipeline, a fused operator with its fallback, or a stored answer.

In: `IndexCall`s.  Out: int32 [rows, top_k], -1 where a row has fewer keys; counts of calls and of those that fell back.
A fused operator is used as serving engines use one: a call whose first rows have fewer than top_k keys goes to the native
pipeline, so the first chunk of every request does.
Misuse: `Given` answers for one input only, the one whose selections it was given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from attribution import kernels
from attribution.prefill.scorers import SCORERS, scorer
from attribution.prefill.selectors import READ_ALL, SELECTORS, selector
from attribution.prefill.sizes import Sizes
from attribution.prefill.stack import IndexCall

Fused = Callable[[IndexCall, int], Any]
BLOCK_ROWS = 64
"""Rows that `streamed` answers at a time."""


class Indexer(Protocol):
    """`calls` and `fell_back` count by chunk since the last `reset()`."""

    calls: dict[int, int]
    fell_back: dict[int, int]

    def reset(self) -> None: ...

    def select(self, call: IndexCall) -> Any: ...


@dataclass
class Counted:
    """Counts by chunk, which every indexer keeps."""

    calls: dict[int, int] = field(default_factory=dict, init=False)
    fell_back: dict[int, int] = field(default_factory=dict, init=False)

    def reset(self) -> None:
        self.calls, self.fell_back = {}, {}

    def count(self, call: IndexCall, fell_back: bool = False) -> None:
        self.calls[call.chunk] = self.calls.get(call.chunk, 0) + 1
        self.fell_back[call.chunk] = self.fell_back.get(call.chunk, 0) + fell_back


@dataclass
class Native(Counted):
    """A scorer that writes the matrix, then a selector that reads it; both by name."""

    scorer: str
    selector: str
    top_k: int

    def select(self, call: IndexCall) -> Any:
        self.count(call)
        scores = scorer(self.scorer)(call, self.selector in READ_ALL)
        return selector(self.selector)(scores, call, self.top_k)


@dataclass
class WithFallback(Counted):
    """`fused` where every row has top_k keys, else `native`."""

    fused: Fused
    native: Native
    top_k: int

    def select(self, call: IndexCall) -> Any:
        falls_back = call.start + 1 < self.top_k
        self.count(call, falls_back)
        return self.native.select(call) if falls_back else self.fused(call, self.top_k)


@dataclass
class Given(Counted):
    """Selections by (layer, chunk), from another indexer on the same input: the stack without its indexer's work."""

    selections: Mapping[tuple[int, int], Any]

    def select(self, call: IndexCall) -> Any:
        self.count(call)
        return self.selections[call.layer, call.chunk]


@dataclass
class Kept(Counted):
    """Passes calls on to `inner` and keeps its selections."""

    inner: Indexer
    selections: dict[tuple[int, int], Any] = field(default_factory=dict)

    def select(self, call: IndexCall) -> Any:
        found = self.selections[call.layer, call.chunk] = self.inner.select(call)
        return found


def streamed(call: IndexCall, top_k: int) -> Any:
    """A fused indexer for any device: some rows at a time, scored against the keys that they have and selected at once."""
    out = call.k_end.new_empty((call.q.shape[0], top_k))
    for first in range(0, call.q.shape[0], BLOCK_ROWS):
        rows = slice(first, first + BLOCK_ROWS)
        keys = min(call.k.shape[0], call.start + first + BLOCK_ROWS)
        some = dataclasses.replace(
            call, start=call.start + first, q=call.q[rows], w=call.w[rows], k=call.k[:keys],
            k_scale=call.k_scale[:keys], k_start=call.k_start[rows], k_end=call.k_end[rows],
        )  # fmt: skip
        out[rows] = selector("torch_topk")(scorer("torch_scores")(some, True), some, top_k)
    return out


def index_topk(call: IndexCall, top_k: int) -> Any:
    """Kernel index_topk, the operator of the case study.  The bounds are the stack's own: reading them back would wait."""
    return kernels.index_topk(**call.named(), k_top=top_k, check_bounds=False)


def choose_native(device: str, sizes: Sizes, skipped: dict[str, str]) -> Native:
    """The first scorer and the first selector that run here and are right; what is not goes into `skipped` with its reason."""
    known = (SCORERS, SELECTORS) if device == "cuda" else ({}, {})
    call = probe(sizes, device)
    selecting = {name: Native("torch_scores", name, sizes.top_k) for name in known[1]}
    best = _first_right(selecting, call, skipped) or "torch_topk"
    scoring = {name: Native(name, best, sizes.top_k) for name in known[0]}
    return Native(_first_right(scoring, call, skipped) or "torch_scores", best, sizes.top_k)


def _first_right(candidates: Mapping[str, Native], call: IndexCall, skipped: dict[str, str]) -> str | None:
    """The first name whose pipeline answers `call`, and rightly."""
    from attribution.prefill.checks import check_selection

    for name, native in candidates.items():
        try:
            wrong = [c for c in check_selection(call, native.select(call), native.top_k) if not c.passed]
        except Exception as error:  # whatever another project's code raises is a reason to do without it
            skipped[name] = f"{type(error).__name__}: {error}"[:300]
            continue
        if not wrong:
            return name
        skipped[name] = f"wrong answer: {wrong[0].name}: {wrong[0].detail}"
    return None


def probe(sizes: Sizes, device: str) -> IndexCall:
    """A small random call with short rows: twice top_k keys, the second half of them as rows."""
    import torch

    from attribution.prefill.stack import quantized

    draw, rows = torch.Generator(device).manual_seed(0), sizes.top_k
    shapes = {"q": (rows, sizes.index_heads, sizes.index_dim), "k": (2 * rows, sizes.index_dim)}
    made = {n: quantized(torch.randn(*s, generator=draw, device=device), sizes.fp8_largest) for n, s in shapes.items()}
    w = torch.randn(rows, sizes.index_heads, generator=draw, device=device) * made["q"][1][..., 0]
    ends = torch.arange(1, rows + 1, device=device, dtype=torch.int32) + rows // 2
    zeros = torch.zeros(rows, device=device, dtype=torch.int32)
    return IndexCall(0, 0, rows // 2, made["q"][0], made["k"][0], made["k"][1][:, 0].contiguous(), w, zeros, ends)


def choose_fused(device: str) -> tuple[str, Fused]:
    """Name and function of the fused indexer of this device."""
    return ("index_topk", index_topk) if device == "cuda" else ("streamed", streamed)
