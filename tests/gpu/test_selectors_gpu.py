"""Selectors on a GPU: each that is installed is exact on every distribution, also when its graph is replayed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

from attribution.declare import Kernel  # noqa: E402
from attribution.errors import InputError  # noqa: E402
from attribution.load import load_kernel, module_of  # noqa: E402
from attribution.measure.prepared import Prepared  # noqa: E402

SHAPES = [
    {"rows": 33, "columns": 8192, "k": 2048},
    {"rows": 7, "columns": 32768, "k": 512},
    {"rows": 3, "columns": 2048, "k": 2048},
]
SELECTORS = ["torch_topk", "our_topk", "our_histogram", "flashinfer", "deepselect", "vllm_per_row"]
DISTRIBUTIONS = ["normal", "normal_plus_100", "normal_times_1e-8", "ties", "clustered", "relu", "leaky_relu", "indexer"]


@pytest.fixture(scope="module")
def kernel(root: Path) -> Kernel:
    return load_kernel(root, "selectors")


def skip_missing(kernel: Kernel, selector: str) -> None:
    arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
    if reason := module_of(kernel, "known").missing(selector, arch):
        pytest.skip(reason)


def failed(gpu: Any, inputs: Any, output: Any, shape: dict[str, int]) -> list[str]:
    checks = gpu.check(inputs, output, gpu.reference(inputs, shape, {}), shape, {})
    return [f"{check.name}: {check.detail}" for check in checks if not check.passed]


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s.values())))
def test_exact_eagerly_and_in_a_graph(kernel: Kernel, selector: str, distribution: str, shape: dict[str, int]) -> None:
    skip_missing(kernel, selector)
    gpu = module_of(kernel, "gpu")
    inputs = gpu.inputs(shape, distribution, 1)
    prepared = Prepared(kernel, gpu.operator(inputs, shape, {"SELECTOR": selector}, {}), None, 0)
    prepared.poison()
    prepared.run()
    assert failed(gpu, inputs, prepared.operator.output, shape) == []
    replay = prepared.graph()
    inputs["scores"].copy_(gpu.inputs(shape, distribution, 2)["scores"])
    prepared.poison()
    replay()
    torch.cuda.synchronize()
    assert failed(gpu, inputs, prepared.operator.output, shape) == []


@pytest.mark.parametrize("selector", SELECTORS)
def test_random_shapes_and_bounds(kernel: Kernel, selector: str) -> None:
    """Rows that are empty, shorter than k, or begin anywhere; what is outside the bounds is -inf."""
    skip_missing(kernel, selector)
    gpu, dice, wrong = module_of(kernel, "gpu"), random.Random(8), []
    torch.manual_seed(8)
    for case in range(60):
        k = dice.choice([512, 1024, 2048])
        shape = {"rows": dice.randint(1, 300), "columns": max(k, 128 * dice.randint(1, 300)), "k": k}
        rows, columns = shape["rows"], shape["columns"]
        end = torch.randint(0, columns + 1, (rows,), device="cuda", dtype=torch.int32)
        start = torch.minimum(torch.randint_like(end, 0, columns), end) * dice.choice([0, 1])
        at, levels = torch.arange(columns, device="cuda"), dice.choice([0, 3, 300])
        scores = torch.randn(rows, columns, device="cuda")
        scores = (scores * levels).round() / levels if levels else scores
        scores[(at < start[:, None]) | (at >= end[:, None])] = -torch.inf
        inputs = {"scores": scores, "start": start, "end": end}
        try:
            made = gpu.operator(inputs, shape, {"SELECTOR": selector}, {})
        except InputError:  # some know rows that start at column zero only
            continue
        made.steps[0].function()
        wrong += [(case, shape, found) for found in failed(gpu, inputs, made.output, shape)]
    assert wrong == []


def test_the_scorer_on_the_card_agrees_with_float64(kernel: Kernel) -> None:
    scorer = module_of(kernel, "scorer")
    given = scorer.random_operands(8, 1024, torch.Generator("cuda").manual_seed(3))
    found = scorer.scored(dict(given))
    dots = torch.einsum("rhd,cd->rhc", given["q"].double(), given["k"].double()).relu()
    truth = torch.einsum("rh,rhc->rc", given["w"].double(), dots) * given["k_scale"].double()
    inside = torch.arange(1024, device="cuda") < given["k_end"][:, None]
    assert torch.isneginf(found["scores"][~inside]).all()
    apart = (found["scores"].double() - truth)[inside].abs().max() / truth[inside].abs().max()
    assert apart < 5e-3  # float16 sums, the tuned default: 1.2e-3 was seen


def test_a_planted_fault_on_the_card_is_caught(kernel: Kernel) -> None:
    gpu, shape = module_of(kernel, "gpu"), SHAPES[0]
    inputs = gpu.inputs(shape, "normal", 1)
    made = gpu.operator(inputs, shape, {"SELECTOR": "torch_topk"}, {})
    made.steps[0].function()
    best = made.output["values"][0].argmax()
    left = inputs["scores"][0].argmin()
    made.output["indices"][0, best] = left
    assert any(text.startswith("values") for text in failed(gpu, inputs, made.output, shape))
