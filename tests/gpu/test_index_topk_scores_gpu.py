"""Scores of index_topk's math path on a Hopper GPU against float64, within a bound that follows from the arithmetic.

What each step may lose:
- a matrix instruction adds 32 products and the accumulator, each cut off 13 bits below the largest of them (Hopper's FP8
  tensor cores align before they add): 33 * 2^-13 of the largest;
- f16 accumulators round after each of a product's four instructions, packed ones once: 2^-11 of the sum;
- the sum over heads in f16: weights are rounded once and sums ten times, 2^-11 of the sum of absolute terms each, and what is
  below f16's normal range loses up to 2^-17 of the largest weight; in f32 18 roundings of 2^-24;
- queries that f16 could not hold are scaled down in e4m3, which loses up to 2^-10 of what a value was scaled by.
Every score must lie within the bound, and the largest error of a row within TOLERANCE, which the measurement's check uses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import exact_index_topk as exact
import planted_index_topk as planted
import pytest

from attribution.load import load_kernel, module_of
from attribution.measure.probe import Gpu, find
from bench.gpu import normal

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))
MATHS = ("f32", "packed", "f16")
CHUNK, ALIGNED, HALF = 32, 33 * 2.0**-13, 2.0**-11


def gpu_module(root: Path) -> Any:
    return module_of(load_kernel(root, "index_topk"), "gpu")


def scores_and_bounds(inputs: dict[str, Any], math: str) -> tuple[Any, Any]:
    """float64 [Q, N]: scores, and how far from them the kernel's may lie."""
    import torch

    q, k, w = inputs["q"].double(), inputs["k"].double(), inputs["w"].double()
    lost = torch.zeros((), dtype=torch.float64, device="cuda")
    if math == "f16":
        largest = (q.square().sum(2).amax() * k.square().sum(1).amax()).sqrt()
        times = 2.0 ** (largest / 60_000).log2().ceil().clamp(min=0)
        lost = torch.where(times > 1, 2 * times * 2.0**-10, 0.0) * k.abs().sum(1)
    scores, bounds = [], []
    for row in range(len(q)):
        dot = torch.zeros((64, len(k)), dtype=torch.float64, device="cuda")
        error = lost.expand(64, len(k)).clone() if lost.dim() else dot.clone()
        for first in range(0, 128, CHUNK):
            a, b = (t[..., first : first + CHUNK] for t in (q[row], k))
            largest = dot.abs()
            for i in range(CHUNK):
                largest = torch.maximum(largest, a[:, i : i + 1].abs() * b[:, i].abs())
            dot = dot + a @ b.T
            error += ALIGNED * largest + (HALF * dot.abs() if math == "f16" else 0)
        relu, weight = dot.clamp(min=0), w[row].abs()
        if math != "f32":
            error += (HALF if math == "packed" else 0) * relu
        summed = weight @ relu
        if math == "f32":
            rounding = 18 * 2.0**-24 * summed
        else:
            rounding = 11 * HALF * summed + 2.0**-17 * weight.max() * (relu.sum(0) + 11)
        scale = inputs["k_scale"].double()
        scores.append((w[row] @ relu) * scale)
        bounds.append((weight @ error * (1 + 12 * HALF) + rounding) * scale.abs() + 2.0**-22 * scores[-1].abs())
    return torch.stack(scores), torch.stack(bounds)


def errors(root: Path, honest: Path, distribution: str, math: str) -> tuple[float, float]:
    """The largest error as a part of its bound, and as a part of its row's largest score; of what runs under `root`."""
    inputs = dict(gpu_module(honest).inputs({"q": 6, "n": 4096}, distribution, 77))
    inputs["k_end"] = inputs["k_end"] * 0 + 4096
    found = exact.stored(root, inputs, exact.items({**exact.STORE, "REDUCE_MATH": math})).double()
    scores, bounds = scores_and_bounds(inputs, math)
    error = (found - scores).abs()
    return float((error / bounds).max()), float((error.amax(1) / scores.abs().amax(1)).max())


DISTRIBUTIONS = ("normal", "plus_100", "times_1e-8", "ties", "clustered", "overflow", "amax")
CASES = [(d, m) for d in DISTRIBUTIONS for m in MATHS if (d, m) != ("amax", "packed")]


@pytest.mark.parametrize(("distribution", "math"), CASES)
def test_scores_lie_within_the_bound(root: Path, distribution: str, math: str) -> None:
    of_bound, of_row = errors(root, root, distribution, math)
    print(f"{distribution} {math}: {of_bound:.3f} of the bound, {of_row:.2e} of the row's largest")
    assert of_bound <= 1
    assert of_row <= gpu_module(root).TOLERANCE[math]


def test_packed_sums_leave_the_range_of_f16_on_large_products(root: Path) -> None:
    """Only f16 accumulators have their queries scaled; such rows of a packed build are repaired in f32."""
    inputs = dict(gpu_module(root).inputs({"q": 6, "n": 4096}, "amax", 77))
    assert (
        not exact.stored(root, inputs, exact.items({**exact.STORE, "REDUCE_MATH": "packed"}))[:, :4000].isfinite().all()
    )
    solved = exact.solve(root, inputs, REDUCE_MATH="packed")
    assert solved.wrong == []
    assert solved.status.any()


@pytest.mark.parametrize("math", MATHS)
def test_the_checksum_of_score_only_is_the_sum_of_all_stored_scores(root: Path, math: str) -> None:
    """Bit by bit, as integers in the scores' order; one score less is another sum."""
    import torch

    inputs = exact.mixed_bounds(normal(37, 8192, 3))
    only = {"FILTER": False, "SELECT": False, "EMIT": False, "REDUCE_MATH": math}
    made, ready = exact.built(root, exact.items(only)).operator(inputs)
    ready.run()
    scores = exact.stored(root, inputs, exact.items({**exact.STORE, "REDUCE_MATH": math}))
    place = torch.arange(scores.shape[1], device="cuda")
    inside = (place >= inputs["k_start"][:, None]) & (place < inputs["k_end"][:, None])
    keys = exact.ordered(scores)[inside]
    assert int(made.checksum.item()) == int(keys.sum())
    assert int(made.checksum.item()) != int(keys[:-1].sum())


def test_a_product_that_lacks_a_quarter_is_caught(root: Path, tmp_path: Path) -> None:
    planted.planted(root, tmp_path, planted.SCORES)
    of_bound, of_row = errors(tmp_path, root, "normal", "f16")
    assert of_bound > 1
    assert of_row > gpu_module(root).TOLERANCE["f16"]
