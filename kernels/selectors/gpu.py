"""selectors on a GPU: score matrices on the card, and one step that is somebody's selection.

In: shape, distribution, seed, flags.  Out: see attribution/launch.py.
The reference is torch.topk's sorted values; torch.topk itself is judged by them through another call, on fresh inputs too.
Misuse: what a selector allocates inside its call is part of its time when it runs eagerly, and not in a graph.
"""

from __future__ import annotations

import hashlib
from typing import Any

from attribution.declare import Check, Flags, Inputs, Knobs, Shape
from attribution.launch import Call, Operator

from . import captured, scorer
from .distributions import INDEXER, NAMES, RANDOM
from .exact import judge, torch_arrays
from .gpu_selectors import SELECTORS, Problem


def inputs(shape: Shape, distribution: str, seed: int) -> dict[str, Any]:
    """scores f32 [rows, columns], -inf outside the bounds; start, end int32 [rows]."""
    import torch

    if path := captured.FILES.get(distribution):
        operands = captured.operands(path, shape)
        if operands is None:
            return {name: torch.from_numpy(array).cuda() for name, array in captured.stored(path, shape).items()}
        return scorer.scored({name: scorer.on_card(array) for name, array in operands.items()})
    random = torch.Generator("cuda").manual_seed(seed * len(NAMES) + NAMES.index(distribution))
    rows, columns = shape["rows"], shape["columns"]
    if distribution == INDEXER:
        return scorer.scored(scorer.random_operands(rows, columns, random))
    scores = RANDOM[distribution](lambda r, c: torch.randn(r, c, generator=random, device="cuda"), rows, columns)
    end = torch.full((rows,), columns, dtype=torch.int32, device="cuda")
    return {"scores": scores, "start": torch.zeros_like(end), "end": end}


def fingerprint(inputs: Inputs) -> str:
    """16 hex digits of the inputs' bits, folded row by row on the card: the matrices are gigabytes."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(inputs):
        words = inputs[name].contiguous().view(torch.int32).reshape(len(inputs[name]), -1)
        weights = torch.arange(words.shape[1], device=words.device) * 2654435761 + 40503
        for row in words.split(256):
            digest.update((row * weights).sum(1).cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def operator(inputs: Inputs, shape: Shape, flags: Flags, knobs: Knobs) -> Operator:
    made = SELECTORS[str(flags["SELECTOR"])](Problem(inputs["scores"], inputs["start"], inputs["end"], shape["k"]))
    select = Call("select", made.run, touches=(inputs["scores"],))
    return Operator((select,), made.output, limits=made.limits)


def moved_bytes(inputs: Inputs, shape: Shape, flags: Flags) -> int:
    """Every score of a row that has more than k is read at least once."""
    widths = inputs["end"].long() - inputs["start"]
    return int(widths[widths > shape["k"]].sum()) * inputs["scores"].element_size()


def reference(inputs: Inputs, shape: Shape, flags: Flags) -> Any:
    """The k largest values of every row, largest first: f32 [rows, min(k, columns)]."""
    return inputs["scores"].topk(min(shape["k"], inputs["scores"].shape[1]), 1).values


def check(inputs: Inputs, output: Any, reference: Any, shape: Shape, flags: Flags) -> list[Check]:
    """Every row.  A selector that knows no bounds fills a short row with columns whose value is -inf: those count as -1."""
    import torch

    indices = output["indices"]
    if "values" in output:
        indices = torch.where(output["values"] == -torch.inf, -1, indices)
    return judge(torch_arrays(), inputs, indices, reference, shape["k"])
