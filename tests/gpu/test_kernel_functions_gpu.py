"""index_topk and index_scores as functions on a real Hopper GPU: they build themselves, and can be captured.

Skipped where there is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import exact_index_topk as exact
import pytest

from attribution.kernels import index_scores, index_topk
from attribution.measure.probe import Gpu, find
from bench.gpu import normal

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))


def wrong(inputs: dict[str, Any], out: Any) -> list[int]:
    return exact.wrong_rows(inputs, out, index_scores(inputs), out.shape[1])


@pytest.mark.parametrize("k_top", [512, 1024, 2048])
def test_the_function_selects_exactly(root: Path, k_top: int) -> None:
    x = exact.mixed_bounds(normal(67, 8192, k_top))
    out = index_topk(**x, k_top=k_top)
    assert out.shape == (67, k_top)
    assert wrong(x, out) == []


def test_an_output_that_is_given_is_used(root: Path) -> None:
    import torch

    x, out = normal(9, 4096), torch.empty((9, 2048), dtype=torch.int32, device="cuda")
    assert index_topk(**x, out=out) is out
    assert wrong(x, out) == []


def test_it_works_on_the_stream_that_is_current(root: Path) -> None:
    """Inputs are still being made on that stream when it is called."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x = normal(40, 8192, 3)
        out = index_topk(**x, check_bounds=False)
    stream.synchronize()
    assert wrong(x, out) == []


def test_it_is_captured_in_a_graph_and_follows_its_inputs(root: Path) -> None:
    import torch

    x = normal(64, 8192, 1)
    index_topk(**x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = index_topk(**x, check_bounds=False)
    for fresh in (normal(64, 8192, 2), exact.mixed_bounds(exact.hot_warp(normal(64, 8192, 3)))):
        for name, tensor in fresh.items():
            x[name].view(torch.uint8).copy_(tensor.view(torch.uint8))
        graph.replay()
        assert wrong(x, out) == []


def test_bounds_are_read_back_and_refused_by_row(root: Path) -> None:
    x = normal(8, 2048)
    x["k_start"][5] = 2048
    with pytest.raises(ValueError, match=r"k_start, k_end of row 5 are \(2048, 2046\): allowed is"):
        index_topk(**x)


def test_real_tensors_are_refused_as_their_stand_ins_are(root: Path) -> None:
    x = normal(8, 2048)
    for name, changed, words in (
        ("w", x["w"].double(), "w has dtype torch.float64"),
        ("k", x["k"].cpu(), "k is on cpu: allowed is a CUDA device"),
        ("q", x["q"].transpose(0, 1).contiguous().transpose(0, 1), "q has strides"),
        ("k_scale", normal(1, 2176)["k_scale"][1:2049], "k_scale begins at address"),
    ):
        with pytest.raises(ValueError, match=words):
            index_topk(**{**x, name: changed})
