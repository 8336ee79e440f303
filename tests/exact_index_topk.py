"""index_topk on a card, for tests: built under flags, run on inputs, and the rows whose selection is not exact.

Exact is: as many as there are, inside the bounds, no index twice, and bitwise the scores that torch.topk finds among those
that STORE_SCORES writes in the same arithmetic.  Rows that repair touched (status is not 0) are exact in f32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attribution.build import build
from attribution.declare import Kernel
from attribution.load import load_kernel, module_of
from attribution.measure.prepared import Module, Prepared
from bench.gpu import compiled

Items = tuple[tuple[str, Any], ...]
STORE = {"STORE_SCORES": True, "FILTER": False, "SELECT": False, "EMIT": False}
SAME_SCORES = ("BLOCK_Q", "MATH_WARPGROUPS", "KV_STAGES")
GUARD = -7


@dataclass(frozen=True)
class Solved:
    """wrong: rows that are not exact.  status: int32 [Q], why a row was repaired, or 0.  out: int32 [Q, K]."""

    wrong: list[int]
    status: Any
    out: Any


@dataclass(frozen=True)
class Built:
    """index_topk of one root under one set of flags, loaded."""

    kernel: Kernel
    flags: dict[str, Any]
    module: Module

    def operator(
        self, inputs: Mapping[str, Any], knobs: Mapping[str, int] | None = None, **more: Any
    ) -> tuple[Any, Prepared]:
        """What was made, and its steps ready to run."""
        made = module_of(self.kernel, "operator").make(inputs, self.flags, knobs or {}, **more)
        return made, Prepared(self.kernel, made.steps(), self.module, int(self.flags["TRACE"]))


@cache
def built(root: Path, items: Items) -> Built:
    kernel = load_kernel(root, "index_topk")
    flags = kernel.resolve_flags(dict(items))
    return Built(kernel, flags, Module(build(kernel, flags)))


def items(flags: Mapping[str, Any]) -> Items:
    return tuple(sorted(flags.items()))


def scorers(flags: Mapping[str, Any]) -> list[Items]:
    """The builds that score as these flags do: in their own arithmetic, and as repair does."""
    shared = {n: flags[n] for n in SAME_SCORES if n in flags}
    return [items({**STORE, **shared, "REDUCE_MATH": m}) for m in (flags.get("REDUCE_MATH", "f16"), "f32")]


def compile_all(root: Path, wanted: Iterable[Mapping[str, Any]]) -> None:
    """Put what tests will need into the cache, on all cores."""
    kernel = load_kernel(root, "index_topk")
    needed = {i for flags in wanted for i in (items(flags), *scorers(flags))}
    compiled(kernel, (kernel.resolve_flags(dict(i)) for i in needed))


def hot_warp(inputs: dict[str, Any]) -> dict[str, Any]:
    """16 of every 128 keys score far higher: with few CTAs, the segment of one Math warp must overflow."""
    import torch

    keys = torch.arange(len(inputs["k"]), device="cuda")
    return {**inputs, "w": inputs["w"].abs(), "k_scale": torch.where(keys % 128 < 16, 8.0, 1.0)}


def mixed_bounds(inputs: dict[str, Any]) -> dict[str, Any]:
    """In turn: short, empty, shifted, of exactly 2048 keys, whole, and one beyond 2048 keys."""
    import torch

    rows, keys = len(inputs["q"]), len(inputs["k"])
    row = torch.arange(rows, device="cuda")
    begin = row * 37 % (keys // 2)
    length = torch.stack(
        [row * 131 % 1500, row * 0, keys // 2 + row * 0, row * 0 + 2048, row * 0 + keys, row * 0 + 2049]
    )
    end = (begin + length[row % 6, row]).clamp(max=keys)
    return {**inputs, "k_start": torch.where(row % 6 == 4, 0, begin).int(), "k_end": end.int()}


def stored(root: Path, inputs: Mapping[str, Any], which: Items) -> Any:
    """The score matrix of a STORE_SCORES build: f32 [Q, N], -inf outside the bounds."""
    made, ready = built(root, which).operator(inputs)
    ready.run()
    return made.scores


def ordered(scores: Any) -> Any:
    """Float32 as int64 in the kernel's order: every NaN below all numbers."""
    import torch

    bits = scores.contiguous().view(torch.int32).long()
    keys = torch.where(bits < 0, ~bits & 0xFFFFFFFF, bits + 2**31)
    return torch.where(scores.isnan(), 0, keys)


def wrong_rows(inputs: Mapping[str, Any], out: Any, want: Any, k: int) -> list[int]:
    """Rows of `out` whose count, bounds, uniqueness or sorted scores are not those of the k best of `want`."""
    import torch

    begin, end, o = inputs["k_start"].long()[:, None], inputs["k_end"].long()[:, None], out.long()
    filled = o >= 0
    good = (filled.sum(1) == (end - begin)[:, 0].clamp(max=k)) & (((o >= begin) & (o < end)) | (o == -1)).all(1)
    order = o.sort(1).values
    good &= ~((order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)).any(1)
    place = torch.arange(want.shape[1], device="cuda")
    keys = torch.where((place >= begin) & (place < end), ordered(want), -1)
    best = keys.topk(min(k, want.shape[1]), 1).values
    got = torch.where(filled, keys.gather(1, o.clamp(0, want.shape[1] - 1)), -1).sort(1, descending=True).values
    good &= (got[:, : best.shape[1]] == best).all(1)
    return (~good).nonzero()[:, 0].tolist()


def solve(
    root: Path,
    inputs: Mapping[str, Any],
    knobs: Mapping[str, int] | None = None,
    z: float | None = None,
    under: Path | None = None,
    **flags: Any,
) -> Solved:
    """Run and compare.  `under`: the root that is run, where it is not the one that is compared with.

    Asserts that the memory around the output and the inputs stay as they were.
    """
    import torch

    mine = built(under or root, items(flags))
    rows, k = inputs["q"].shape[0], int(mine.flags["K"])
    guard = torch.full((rows + 2, k), GUARD, device="cuda", dtype=torch.int32)
    before = {n: t.view(torch.uint8).clone() for n, t in inputs.items()}
    more = {} if z is None else {"z": z}
    made, ready = mine.operator(inputs, knobs, output=guard[1:-1], **more)
    ready.poison()
    made.scratch.candidates.zero_()  # memory comes back from the run before, where what is missing now was right
    ready.run()
    own, repaired = (stored(root, inputs, i) for i in scorers(flags))
    want = torch.where((made.status != 0)[:, None], repaired, own)
    assert (guard[[0, -1]] == GUARD).all()
    assert all(torch.equal(before[n], t.view(torch.uint8)) for n, t in inputs.items())
    return Solved(wrong_rows(inputs, made.output, want, k), made.status, made.output)
