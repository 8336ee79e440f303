"""index_topk on a real Hopper GPU: every selection bitwise exact, whatever the shape, bounds, inputs, flags and knobs.

Skipped where there is none.  What exact means: tests/exact_index_topk.py.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import exact_index_topk as exact
import pytest

from attribution.load import load_kernel, module_of
from attribution.measure.probe import Gpu, find
from bench.gpu import normal

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))

SHAPES = [
    (1, 2048), (7, 2048), (37, 8192), (133, 8320), (96, 16384), (8, 131072), (5, 262144), (1100, 8192), (3, 128), (1, 262144),
    (3, 524288),
]  # fmt: skip
SPLIT, SHARED = {"LAYOUT": "split", "SEGMENT_CAPACITY": 368}, {"LAYOUT": "shared", "SEGMENT_CAPACITY": 5888}
DELAYS = [{"DELAY_ROLE": r, "DELAY_CYCLES": 3000} for r in ("tma", "math", "topk")]
FLAGS: list[dict[str, Any]] = [
    {},
    *({"REDUCE_MATH": m, "BLOCK_Q": q, "KV_STAGES": 4} for m in ("f32", "packed", "f16") for q in (1, 2, 4)),
    {"SCAN": "reserved"}, {"SPILL": False}, {"OVERLAP": False, "SCAN": "reserved", "SPILL": False},
    {**SPLIT, "OVERLAP": False}, {**SPLIT, "SCAN": "reserved", "SPILL": False}, {**SPLIT, "SPILL": False, "K": 512},
    {**SHARED, "SPILL": False}, {**SHARED, "SCAN": "reserved", "OVERLAP": False}, {**SHARED, "BLOCK_Q": 2, "K": 1024},
    *({"KV_STAGES": n} for n in (2, 6, 12)), {"KV_STAGES": 2, "BLOCK_Q": 1}, {"KV_STAGES": 6, "BLOCK_Q": 2},
    *({"MATH_WARPGROUPS": 1, "SEGMENT_CAPACITY": 1472, "KV_STAGES": n} for n in (1, 3)),
    {"SCHEDULE": "rows"}, {"SCHEDULE": "rows", "BLOCK_Q": 1, "KV_STAGES": 2}, {"SELECT_TILES": 1}, {"SELECT_TILES": 900},
    {"K": 512}, {"K": 1024}, {"K": 512, "BLOCK_Q": 1, "KV_STAGES": 4}, {"TOPK_WARPS": 7}, {"TOPK_WARPS": 7, "OVERLAP": False},
    {"REDUCE_MATH": "f32", "PINGPONG": False}, {"SEGMENT_CAPACITY": 256}, {"TRACE": 1}, {"TRACE": 2},
    *DELAYS, *({**d, "OVERLAP": False, "KV_STAGES": 2} for d in DELAYS),
]  # fmt: skip
RANDOM = [{}, {"K": 512}, {"BLOCK_Q": 1, "KV_STAGES": 4}, SHARED, {"REDUCE_MATH": "f32"}, {"SCHEDULE": "rows"}]
OVERFLOWING = [{"SPILL": False}, {}, SPLIT, {**SHARED, "SPILL": False, "SEGMENT_CAPACITY": 2048}]
LOADED = {"BLOCK_Q": 1, "KV_STAGES": 4, "TOPK_WARPS": 7}
CASES = 150
UNDERFLOW, SEGMENT, NOT_FINITE = 1, 2, 4


@pytest.fixture(scope="module", autouse=True)
def compiled(root: Path) -> None:
    exact.compile_all(root, [*FLAGS, *RANDOM, *OVERFLOWING, LOADED])


def reasons(solved: exact.Solved) -> set[int]:
    return {r for r in solved.status.unique().tolist() if r}


@pytest.mark.parametrize(("rows", "keys"), SHAPES)
def test_exact_on_shapes(root: Path, rows: int, keys: int) -> None:
    solved = exact.solve(root, normal(rows, keys, rows + keys))
    assert solved.wrong == []
    assert not solved.status.any()


@pytest.mark.parametrize("flags", FLAGS, ids=lambda f: ",".join(f"{n}={v}" for n, v in f.items()) or "declared")
def test_exact_under_flags(root: Path, flags: dict[str, Any]) -> None:
    """Many CTAs that share rows; few that use their slots again; bounds of every kind; segments that overflow."""
    few = normal(52, 16384, 10)
    assert exact.solve(root, normal(1100, 8192, 9), **flags).wrong == []
    assert exact.solve(root, exact.mixed_bounds(few), {"ctas": 3}, **flags).wrong == []
    assert exact.solve(root, exact.hot_warp(few), {"ctas": 2}, **flags).wrong == []


@pytest.mark.parametrize("flags", [{}, LOADED], ids=["declared", "one row a batch"])
@pytest.mark.parametrize("seed", range(5))
def test_exact_when_every_sm_is_loaded(root: Path, flags: dict[str, Any], seed: int) -> None:
    """Many rows a CTA: what only goes wrong beside other roles' traffic."""
    assert exact.solve(root, normal(2200, 8192, 40 + seed), **flags).wrong == []


def host_inputs(root: Path, distribution: str, seed: int) -> dict[str, Any]:
    gpu = module_of(load_kernel(root, "index_topk"), "gpu")
    return dict(gpu.inputs({"q": 27, "n": 16384}, distribution, seed))


@pytest.mark.parametrize("bounds", ["causal", "mixed"])
@pytest.mark.parametrize("distribution", ["normal", "plus_100", "times_1e-8", "ties", "clustered", "overflow", "amax"])
def test_exact_on_every_distribution_of_the_host(root: Path, distribution: str, bounds: str) -> None:
    assert distribution in load_kernel(root, "index_topk").distributions
    inputs = host_inputs(root, distribution, 31)
    if bounds == "mixed":
        inputs = exact.mixed_bounds(inputs)
    for knobs in ({}, {"ctas": 2}):
        assert exact.solve(root, inputs, knobs).wrong == []


def test_no_distribution_of_the_host_is_left_out(root: Path) -> None:
    mark = next(m for m in test_exact_on_every_distribution_of_the_host.pytestmark if m.args[0] == "distribution")
    assert tuple(mark.args[1]) == load_kernel(root, "index_topk").distributions


@pytest.mark.parametrize("how", ["equal", "minus_zero", "mixed_zeros", "negative_scales", "too_large"])
def test_exact_on_inputs(root: Path, how: str) -> None:
    import torch

    x, n, fp8 = normal(24, 16384, 3), 16384, torch.float8_e4m3fn
    if how == "equal":
        x["k"] = x["k"].view(torch.uint8)[torch.zeros(n, device="cuda", dtype=torch.long)].view(fp8)
        x["k_scale"][:] = 1
    if how == "minus_zero":
        x["w"] *= -0.0
    if how == "mixed_zeros":  # most scores are zeros of either sign, fewer than K are above
        x["k_scale"] = torch.where(
            torch.arange(n, device="cuda") % 16 == 0,
            1.0,
            torch.where(torch.arange(n, device="cuda") % 2 == 0, 0.0, -0.0),
        )
    if how == "negative_scales":
        x["k_scale"][::3] *= -1
    if how == "too_large":
        x["q"], x["k"] = ((x[t].float() * 100).clamp(-448, 448).to(fp8) for t in ("q", "k"))
    for knobs in ({}, {"ctas": 2}):
        solved = exact.solve(root, x, knobs)
        assert solved.wrong == []
        assert not reasons(solved) & {NOT_FINITE}


# --- forced failures: each limit is met, counted and repaired ---------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_underflow_is_repaired(root: Path, seed: int) -> None:
    """With no margin (z = 0) about half of the rows have too few candidates, whatever keys were sampled."""
    solved = exact.solve(root, normal(64, 16384, 20), {"sample_seed": seed}, z=0.0)
    assert reasons(solved) == {UNDERFLOW}
    assert solved.wrong == []


@pytest.mark.parametrize("flags", OVERFLOWING, ids=str)
def test_overflow_of_segment_spill_and_row_is_repaired(root: Path, flags: dict[str, Any]) -> None:
    """A segment without spill; a segment and its spill; a half segment and its spill; the row's only list."""
    solved = exact.solve(root, exact.hot_warp(normal(16, 32768, 21)), {"ctas": 1}, **flags)
    assert reasons(solved) == {SEGMENT}
    assert solved.wrong == []


@pytest.mark.parametrize("flags", OVERFLOWING, ids=str)
def test_a_full_list_is_counted_under_its_layouts_name(root: Path, flags: dict[str, Any]) -> None:
    made, ready = exact.built(root, exact.items(flags)).operator(exact.hot_warp(normal(16, 32768, 21)), {"ctas": 1})
    ready.run()
    counted = {name: limit()[0] for name, limit in made.steps().limits.items()}
    full = "row" if flags.get("LAYOUT") == "shared" else "segment"
    assert set(counted) == {"underflow", full, "not_finite"}
    assert counted[full] == int((made.status != 0).sum()) > 0


def test_a_spill_keeps_what_a_segment_cannot(root: Path) -> None:
    """800 candidates in a segment of 736, of which its spill holds 256 more."""
    x = exact.hot_warp(normal(8, 6400, 22))
    kept, dropped = (exact.solve(root, x, {"ctas": 1}, SPILL=s) for s in (True, False))
    assert (kept.wrong, dropped.wrong) == ([], [])
    assert not kept.status.any()
    assert dropped.status.all()


def test_more_failed_rows_than_the_scratch_holds(root: Path) -> None:
    """Repair works in rounds: 32 MiB hold 32 rows of 262,144 scores."""
    x = exact.hot_warp(normal(77, 262144, 23))
    solved = exact.solve(root, x, {"ctas": 5}, SPILL=False)
    assert solved.status.all()
    assert solved.wrong == []


# --- what is not finite -----------------------------------------------------------------------------------------------


WHERE = [
    *((w, v) for w in ("k", "q", "every k") for v in ("nan", "-nan")),
    *((w, v) for w in ("w", "k_scale") for v in ("nan", "inf", "-inf")),
]


@pytest.mark.parametrize(("where", "what"), WHERE)
def test_rows_that_are_not_finite_are_scored_again_in_f32(root: Path, where: str, what: str) -> None:
    """ReLU(NaN) is 0; a score that is NaN even then ranks below all numbers; infinite ones are at the ends."""
    import torch

    x = normal(24, 16384, 5)
    if where in ("w", "k_scale"):
        x[where].view(-1)[::97] = float(what)
    else:  # e4m3 has no infinity, and two NaNs
        step = {"k": 97, "q": 3, "every k": 1}[where]
        x[where[-1]].view(torch.uint8)[::step] = 0xFF if what == "-nan" else 0x7F
    for knobs in ({}, {"ctas": 2}):
        solved = exact.solve(root, x, knobs)
        assert solved.wrong == []
    assert solved.status.any()
    if where == "q":
        assert not solved.status.view(-1, 3)[:, 1:].any(), "rows without a NaN need no repair"


# --- knobs, graphs, random cases --------------------------------------------------------------------------------------


KNOBS = [*({"ctas": n} for n in (1, 7, 264, 1000)), *({"sample_seed": s} for s in (1, 5, 2**31 - 1)), {"samples": 256}]


@pytest.mark.parametrize("knobs", KNOBS, ids=str)
def test_exact_under_knobs(root: Path, knobs: dict[str, int]) -> None:
    assert exact.solve(root, normal(64, 16384, 4), knobs).wrong == []
    assert exact.solve(root, exact.mixed_bounds(normal(65, 16384, 4)), knobs).wrong == []


def test_short_rows_do_not_lengthen_the_shared_list_of_later_ones(root: Path) -> None:
    """One CTA, so that slots are used again: every third batch of four rows is short."""
    x = normal(48, 8192, 5)
    x["k_end"][:] = 8192
    x["k_end"].view(-1, 4)[::3] = 700
    assert exact.solve(root, x, {"ctas": 1}, **SHARED).wrong == []


def replayed(root: Path, deaf: str = "") -> list[list[int]]:
    """Wrong rows after each of four replays of one graph, inputs and bounds changed in place before each.

    deaf: an input that the captured run does not see change.
    """
    import torch

    rows, keys = 130, 16384
    x = normal(rows, keys)
    made, ready = exact.built(root, ()).operator({**x, deaf: x[deaf].clone()} if deaf else x)
    ready.run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ready.run()
    wrong = []
    for fresh in (
        normal(rows, keys, 6),
        exact.mixed_bounds(normal(rows, keys, 7)),
        exact.hot_warp(normal(rows, keys, 8)),
        normal(rows, keys, 9),
    ):
        for name, tensor in fresh.items():
            x[name].view(torch.uint8).copy_(tensor.view(torch.uint8))
        made.output.fill_(exact.GUARD)
        graph.replay()
        own, repaired = (exact.stored(root, x, i) for i in exact.scorers({}))
        wrong.append(exact.wrong_rows(x, made.output, torch.where((made.status != 0)[:, None], repaired, own), 2048))
    return wrong


def test_a_graph_follows_inputs_and_bounds_that_change_in_place(root: Path) -> None:
    assert replayed(root) == [[], [], [], []]


@pytest.mark.parametrize("deaf", ["q", "k", "k_scale", "w", "k_start", "k_end"])
def test_a_graph_that_misses_a_change_is_caught(root: Path, deaf: str) -> None:
    assert any(replayed(root, deaf))


def test_random_cases(root: Path) -> None:
    """Shapes, bounds, inputs, flags and knobs at random."""
    import torch

    dice, wrong = random.Random(31), []
    for case in range(CASES):
        rows, keys = dice.choice([1, 2, 3, 5, dice.randint(6, 90)]), 128 * int(2 ** dice.uniform(0, 7.6))
        x = normal(rows, keys, case)
        if dice.random() < 0.3:
            x = exact.hot_warp(x)
        if dice.random() < 0.2:
            x["k"] = (
                x["k"].view(torch.uint8)[torch.arange(keys, device="cuda") % dice.choice([1, 3, 64])].view(x["k"].dtype)
            )
        if dice.random() < 0.7:
            ends = torch.randint(0, keys + 1, (2, rows), device="cuda").sort(0).values.int()
            x["k_start"], x["k_end"] = ends[0].clone(), ends[1].clone()
        flags = dice.choice(RANDOM)
        knobs = {"ctas": dice.choice([0, 0, 1, 3, 40, 300]), "sample_seed": dice.randint(0, 9)}
        z = dice.choice([None, None, 0.0, 1.0])
        if bad := exact.solve(root, x, knobs, z, **flags).wrong:
            wrong.append((case, rows, keys, flags, knobs, z, bad))
    assert wrong == []


def test_a_wrong_selection_is_noticed(root: Path) -> None:
    """The comparison itself: one index replaced by one that was not selected, dropped, doubled, and out of bounds."""
    x = normal(8, 16384)
    out = exact.solve(root, x).out
    want = exact.stored(root, x, exact.scorers({})[0])
    chosen = set(out[3].tolist())
    for wrong in (next(i for i in range(16384 - 8) if i not in chosen), -1, int(out[3, 101]), 16383, -2):
        changed = out.clone()
        changed[3, 100] = wrong
        assert exact.wrong_rows(x, changed, want, 2048) == [3]
