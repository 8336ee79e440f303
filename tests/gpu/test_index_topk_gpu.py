"""index_topk on a real Hopper GPU: selections bitwise exact against torch.topk of its own STORE_SCORES.  Skipped elsewhere.

A row that repair touched (status is not 0) is exact in f32: it is compared with the f32 scorer's row.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from attribution.declare import load_kernel
from attribution.measure.probe import Gpu, find

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))
STORE = {"STORE_SCORES": True, "FILTER": False, "SELECT": False, "EMIT": False}
SHARED = ("BLOCK_Q", "MATH_WARPGROUPS", "KV_STAGES", "K")


@cache
def built(root: Path, items: tuple[tuple[str, Any], ...]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The operator module, resolved flags, loaded kernels."""
    from attribution.build import build

    kernel = load_kernel(root, "index_topk")
    package = kernel.inputs.__module__.rsplit(".", 1)[0]
    module = importlib.import_module(f"{package}.operator")
    flags = kernel.resolve_flags(dict(items))
    return module, flags, module.load(build(kernel, flags).cubin)


def normal(rows: int, keys: int, seed: int = 0) -> dict[str, Any]:
    import torch

    g = torch.Generator("cuda").manual_seed(seed)
    fp8 = torch.float8_e4m3fn
    return {
        "q": torch.randn(rows, 64, 128, device="cuda", generator=g).to(fp8),
        "k": torch.randn(keys, 128, device="cuda", generator=g).to(fp8),
        "k_scale": torch.rand(keys, device="cuda", generator=g) + 0.5,
        "w": torch.randn(rows, 64, device="cuda", generator=g) / 8,
        "k_start": torch.zeros(rows, device="cuda", dtype=torch.int32),
        "k_end": (torch.arange(rows, device="cuda") + keys - rows + 1).int(),
    }


def scores(root: Path, inputs: dict[str, Any], math: str, flags: dict[str, Any]) -> Any:
    shared = {n: flags[n] for n in SHARED if n in flags}
    module, resolved, kernels = built(root, tuple(sorted({**STORE, **shared, "REDUCE_MATH": math}.items())))
    made = module.launch(inputs, resolved, {}, kernels)
    made.run()
    return made.scores


def wrong_rows(inputs: dict[str, Any], out: Any, want: Any, k: int) -> list[int]:
    """Rows whose count, bounds, uniqueness or sorted scores (bitwise) are not those of torch.topk."""
    import torch

    begin, end, o = inputs["k_start"].long()[:, None], inputs["k_end"].long()[:, None], out.long()
    filled = o >= 0
    good = (filled.sum(1) == (end - begin)[:, 0].clamp(max=k)) & (((o >= begin) & (o < end)) | (o == -1)).all(1)
    order = o.sort(1).values
    good &= ~((order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)).any(1)
    width = min(k, want.shape[1])
    got = torch.where(filled, want.gather(1, o.clamp(min=0)), -torch.inf).sort(1, descending=True).values[:, :width]
    best = want.topk(width, 1).values
    good &= (got.contiguous().view(torch.int32) == best.contiguous().view(torch.int32)).all(1)
    return (~good).nonzero()[:, 0].tolist()


def solve(
    root: Path, inputs: dict[str, Any], knobs: dict[str, int] | None = None, **flags: Any
) -> tuple[list[int], Any]:
    """Wrong rows and status; the memory around the output must stay as it was."""
    import torch

    module, resolved, kernels = built(root, tuple(sorted(flags.items())))
    rows, k = inputs["q"].shape[0], int(resolved["K"])
    guard = torch.full((rows + 2, k), -7, device="cuda", dtype=torch.int32)
    made = module.launch(inputs, resolved, knobs or {}, kernels, output=guard[1:-1])
    made.run()
    want = scores(root, inputs, str(resolved["REDUCE_MATH"]), resolved)
    again = scores(root, inputs, "f32", resolved)
    want = torch.where((made.status != 0)[:, None], again, want)
    assert (guard[0] == -7).all()
    assert (guard[-1] == -7).all()
    return wrong_rows(inputs, made.output, want, k), made.status


SHAPES = [(1, 2048), (7, 2048), (37, 8192), (133, 8320), (96, 16384), (8, 131072), (5, 262144), (1100, 8192)]


@pytest.mark.parametrize(("rows", "keys"), SHAPES)
def test_exact_on_shapes(root: Path, rows: int, keys: int) -> None:
    bad, status = solve(root, normal(rows, keys, rows + keys))
    assert bad == []
    assert not status.any()


@pytest.mark.parametrize(
    "how", ["ties", "equal", "minus_zero", "hot_warp", "negative_scales", "too_large", "nan", "short", "shifted"]
)
def test_exact_on_inputs(root: Path, how: str) -> None:
    import torch

    x = normal(24, 16384, 3)
    fp8, n = torch.float8_e4m3fn, 16384
    if how == "ties":
        x["k"] = x["k"].view(torch.uint8)[torch.arange(n, device="cuda") % 64].view(fp8)
        x["k_scale"][:] = 1
    if how == "equal":
        x["k"] = x["k"].view(torch.uint8)[torch.zeros(n, device="cuda", dtype=torch.long)].view(fp8)
        x["k_scale"][:] = 1
    if how == "minus_zero":
        x["w"] *= -0.0
    if how == "hot_warp":
        x["w"] = x["w"].abs()
        x["k_scale"] = torch.where(torch.arange(n, device="cuda") % 128 < 16, 8.0, 1.0).contiguous()
    if how == "negative_scales":
        x["k_scale"][::3] *= -1
    if how == "too_large":
        x["q"], x["k"] = ((x[t].float() * 100).clamp(-448, 448).to(fp8) for t in ("q", "k"))
    if how == "nan":
        x["k"].view(torch.uint8)[::97] = 0x7F
    row = torch.arange(24, device="cuda", dtype=torch.int32)
    if how == "short":
        x["k_start"], x["k_end"] = row * 70, row * 70 + row * 137 % 1500
    if how == "shifted":
        x["k_start"], x["k_end"] = row * 37, n - row * 300
    bad, status = solve(root, x)
    assert bad == []
    assert bool(status.any()) == (how == "nan")


FLAGS: list[dict[str, Any]] = [
    {"REDUCE_MATH": "f32"}, {"REDUCE_MATH": "packed"}, {"OVERLAP": False}, {"SPILL": False},
    {"SCAN": "reserved"}, {"LAYOUT": "split", "SEGMENT_CAPACITY": 368}, {"LAYOUT": "shared", "SEGMENT_CAPACITY": 5888},
    {"BLOCK_Q": 1, "KV_STAGES": 2}, {"BLOCK_Q": 2, "KV_STAGES": 4}, {"MATH_WARPGROUPS": 1, "SEGMENT_CAPACITY": 1472},
    {"SCHEDULE": "rows"}, {"K": 512}, {"K": 1024}, {"TOPK_WARPS": 3}, {"REDUCE_MATH": "f32", "PINGPONG": False},
    *({"DELAY_ROLE": r, "DELAY_CYCLES": 3000} for r in ("tma", "math", "topk")),
]  # fmt: skip


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_exact_under_flags(root: Path, flags: dict[str, Any]) -> None:
    assert solve(root, normal(1100, 8192, 9), **flags)[0] == []


def test_short_rows_do_not_lengthen_the_shared_list_of_later_ones(root: Path) -> None:
    """One CTA, so that slots are used again: every third batch of four rows is short."""
    x = normal(48, 8192, 5)
    x["k_end"][:] = 8192
    x["k_end"].view(-1, 4)[::3] = 700
    assert solve(root, x, {"ctas": 1}, LAYOUT="shared", SEGMENT_CAPACITY=5888)[0] == []


@pytest.mark.parametrize("knobs", [{"ctas": 1}, {"ctas": 7}, {"ctas": 264}, {"sample_seed": 5}], ids=str)
def test_exact_under_knobs(root: Path, knobs: dict[str, int]) -> None:
    assert solve(root, normal(64, 16384, 4), knobs)[0] == []


def test_a_graph_follows_inputs_that_change_in_place(root: Path) -> None:
    import torch

    module, flags, kernels = built(root, ())
    x = normal(256, 16384)
    made = module.launch(x, flags, {}, kernels)
    made.run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made.run()
    for seed in (6, 7):
        for name, fresh in normal(256, 16384, seed).items():
            x[name].view(torch.uint8).copy_(fresh.view(torch.uint8))
        x["k_end"].sub_(seed * 100)
        made.output.fill_(-7)
        graph.replay()
        want = scores(root, x, str(flags["REDUCE_MATH"]), flags)
        assert wrong_rows(x, made.output, want, 2048) == []


def test_a_wrong_selection_is_noticed(root: Path) -> None:
    """The comparison itself: one index replaced by one that was not selected."""
    import torch

    module, flags, kernels = built(root, ())
    x = normal(8, 16384)
    made = module.launch(x, flags, {}, kernels)
    made.run()
    out = made.output.clone()
    chosen = set(out[3].tolist())
    out[3, 100] = next(i for i in range(16384 - 8) if i not in chosen)
    want = scores(root, x, str(flags["REDUCE_MATH"]), flags)
    assert wrong_rows(x, out, want, 2048) == [3]
    torch.cuda.synchronize()


@pytest.mark.parametrize("name", ["q", "k", "k_scale", "w", "k_start", "k_end"])
def test_bad_tensors_are_refused_by_name(root: Path, name: str) -> None:
    module, _, _ = built(root, ())
    x = normal(8, 2048)
    x[name] = x[name].double() if x[name].element_size() > 1 else x[name].float()
    with pytest.raises(ValueError, match=f"^{name} has dtype"):
        module.validate(x, 2048)


def test_reversed_bounds_are_refused_by_row(root: Path) -> None:
    module, _, _ = built(root, ())
    x = normal(8, 2048)
    x["k_start"][5] = 2048
    with pytest.raises(ValueError, match=r"row 5 are \(2048, "):
        module.validate_bounds(x["k_start"], x["k_end"], 2048)
