"""What the GPU worker needs of topk: inputs on the card, the launch, torch.topk as reference, and the checks.

In: shape, distribution, seed, flags, knobs.  Out: see attribution/launch.py.
The reference is torch.topk of the matrix with -inf outside the bounds; sorted scores must agree bit for bit in every row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from attribution.declare import Check, Flags, Inputs, Knobs, Shape
from attribution.launch import Ceiling, Operator
from attribution.measure import ceilings as pure

from . import operator as op
from .host import LIMITS
from .inputs import DISTRIBUTIONS, SPECIAL, causal, ragged

METRICS = {
    "shared_loads": "sass__inst_executed_per_opcode[LDS]",
    "shared_stores": "sass__inst_executed_per_opcode[STS]",
    "shared_atomics": "sass__inst_executed_per_opcode[ATOMS]",
}
"""Shared-memory instructions: where published selectors differed by an order of magnitude."""


def inputs(shape: Shape, distribution: str, seed: int) -> dict[str, Any]:
    """scores f32 [Q, N], start and end int32 [Q] on the card; drawn there, because the host would take minutes."""
    import torch

    rows, columns = shape["q"], shape["n"]
    rng = torch.Generator("cuda").manual_seed(seed)
    scores = torch.randn((rows, columns), generator=rng, device="cuda")
    if distribution == "plus_100":
        scores += 100.0
    elif distribution == "times_1e-8":
        scores *= 1e-8
    elif distribution == "ties":
        scores = torch.randint(-32, 32, (rows, columns), generator=rng, device="cuda").float()
    elif distribution == "equal":
        scores.fill_(1.5)
    elif distribution == "clustered":
        level = torch.randn((rows, -(-columns // 512)), generator=rng, device="cuda")
        scores = level.repeat_interleave(512, 1)[:, :columns] + 0.25 * scores
    elif distribution == "ascending":
        scores = scores.sort(1).values
    elif distribution == "special":
        place = torch.randint(0, len(SPECIAL), (rows, columns), generator=rng, device="cuda")
        scores = torch.from_numpy(SPECIAL).cuda()[place]
    else:
        assert distribution in DISTRIBUTIONS, distribution
    bounds = ragged(rows, columns, np.random.default_rng(seed)) if distribution == "ragged" else causal(rows, columns)
    start, end = (torch.from_numpy(b).cuda() for b in bounds)
    return {"scores": scores.contiguous(), "start": start, "end": end}


def operator(inputs: Inputs, shape: Shape, flags: Flags, knobs: Knobs) -> Operator:
    """The one launch; what it reports of its rows becomes counts and limits."""
    made = op.make(inputs["scores"], inputs["start"], inputs["end"], flags, knobs["ctas"])
    counts = {
        ("main", "rows"): lambda: int((made.report[:, 0] >= 0).sum().item()),
        ("main", "keys"): lambda: keys_inside(inputs, shape),
        ("main", "candidates"): lambda: int(made.report[:, 0].sum().item()),
    }
    return Operator((made.launch,), {"indices": made.out, "report": made.report}, counts, limits(made.report))


def limits(report: Any) -> dict[str, Callable[[], tuple[int, int]]]:
    """For each of LIMITS what counts the rows that were selected again because of it: those, and all rows."""

    def failed_by(why: int) -> tuple[int, int]:
        return int((report[:, 1] == why).sum().item()), len(report)

    return {limit: functools.partial(failed_by, why) for why, limit in enumerate(LIMITS, 1)}


def keys_inside(inputs: Inputs, shape: Shape) -> int:
    """Keys inside the bounds of all rows."""
    return int((inputs["end"].clamp(max=shape["n"]).long() - inputs["start"].clamp(min=0)).clamp(min=0).sum().item())


def ceilings() -> tuple[Ceiling, ...]:
    """Reading and writing memory and nothing else."""
    return (pure.copy(),)


def moved_bytes(inputs: Inputs, shape: Shape, flags: Flags) -> int:
    """The least that must come from memory: each key inside the bounds of a row that has to choose, once."""
    length = inputs["end"].clamp(max=shape["n"]).long() - inputs["start"].clamp(min=0)
    return 4 * int(length[length > int(flags["K"])].sum().item())


def reference(inputs: Inputs, shape: Shape, flags: Flags) -> Any:
    """Ordered keys of torch.topk's values, descending, int64 [Q, min(K, N)]; its own sort takes -0 and +0 for equal."""
    import torch

    place = torch.arange(shape["n"], device="cuda", dtype=torch.int32)
    outside = (place < inputs["start"][:, None]) | (place >= inputs["end"][:, None])
    masked = inputs["scores"].masked_fill(outside, -torch.inf)
    best = torch.topk(masked, min(int(flags["K"]), shape["n"]), dim=1, sorted=False).values
    return ordered(best).sort(1, descending=True).values


def ordered(scores: Any) -> Any:
    """Float32 bits as int64 in the order of the numbers: -0 below +0, every NaN above +inf."""
    import torch

    bits = scores.contiguous().view(torch.int32).long()
    keys = torch.where(bits < 0, ~bits & 0xFFFFFFFF, bits + 2**31)
    return torch.where(scores.isnan(), 0xFFFFFFFF, keys)


def check(inputs: Inputs, output: Any, reference: Any, shape: Shape, flags: Flags) -> list[Check]:
    """Every row: right count, inside the bounds, no column twice, -1 after, and bitwise the scores of torch.topk."""
    import torch

    k, out = int(flags["K"]), output["indices"].long()
    begin, end = inputs["start"].long().clamp(min=0)[:, None], inputs["end"].long().clamp(max=shape["n"])[:, None]
    wanted = (end - begin).clamp(min=0, max=k)
    filled = torch.arange(k, device="cuda")[None] < wanted
    order = out.sort(1).values
    width = min(k, shape["n"])
    chosen = inputs["scores"].gather(1, out[:, :width].clamp(0, shape["n"] - 1))
    got = torch.where(filled[:, :width], ordered(chosen), -1).sort(1, descending=True).values
    best = torch.where(filled[:, :width], reference, -1)
    return [
        Check.of_rows("count", ((out == -1) != filled).all(1)),
        Check.of_rows("inside_bounds", (((out >= begin) & (out < end)) | ~filled).all(1)),
        Check.of_rows("unique", ~((order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)).any(1)),
        Check.of_rows("top_k_scores", (got == best).all(1)),
    ]
