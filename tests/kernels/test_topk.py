"""topk on the reference machine: every flag is exact on every distribution, and every wrong answer is caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribution.declare import Inputs, Kernel
from attribution.errors import InputError
from attribution.load import load_kernel, load_variants, module_of, shipped_root
from attribution.measure import host

SHAPE = {"q": 6, "n": 9001}
FLAGS: list[dict[str, Any]] = [
    {},
    {"ALGORITHM": "online", "CANDIDATE_CAPACITY": 8192},
    {"ALGORITHM": "heap", "CANDIDATE_CAPACITY": 8192, "K": 512},
    {"ALGORITHM": "histogram"},
    {"ALGORITHM": "histogram", "RADIX": "bytes", "STORAGE": "index"},
    {"RADIX": "bytes", "CANDIDATE_CAPACITY": 14080},
    {"STORAGE": "index", "K": 1024},
    {"CANDIDATE_CAPACITY": 4096, "K": 512, "THREADS": 512},
    {"THREADS": 1024, "CANDIDATE_CAPACITY": 8192, "LOADS": "scalar", "RESERVE": "one"},
    {"THREADS": 256, "UNROLL": 1, "RESERVE": "ballot", "TRACE": 1},
]


def named(flags: dict[str, Any]) -> str:
    return ",".join(f"{n}={v}" for n, v in flags.items()) or "declared"


@pytest.fixture(scope="module")
def topk() -> Kernel:
    return load_kernel(shipped_root(), "topk")


def run(kernel: Kernel, inputs: Inputs, overrides: dict[str, Any]) -> tuple[dict[str, Any], host.Measured]:
    flags, shape = kernel.resolve_flags(overrides), shape_of(inputs)
    with host.one_thread():
        return flags, host.measure(kernel, inputs, shape, flags, kernel.resolve_axes("knobs", {}))


def shape_of(inputs: Inputs) -> dict[str, int]:
    return dict(zip(("q", "n"), inputs["scores"].shape, strict=True))


def failed(kernel: Kernel, inputs: Inputs, output: Any, flags: dict[str, Any]) -> list[str]:
    shape = shape_of(inputs)
    checks = kernel.check(inputs, output, kernel.reference(inputs, shape), shape, flags)
    return [c.name for c in checks if not c.passed]


@pytest.mark.parametrize("overrides", FLAGS, ids=named)
def test_every_distribution_is_exact(topk, overrides):
    for distribution in topk.distributions:
        inputs = topk.inputs(SHAPE, distribution, 3)
        flags, measured = run(topk, inputs, overrides)
        assert failed(topk, inputs, measured.output, flags) == [], distribution


@pytest.mark.parametrize("name", list(load_variants(shipped_root(), load_kernel(shipped_root(), "topk"))))
def test_every_variant_is_exact(topk, name):
    inputs = topk.inputs({"q": 3, "n": 8192}, "normal", 5)
    flags, measured = run(topk, inputs, dict(load_variants(shipped_root(), topk)[name].flags))
    assert failed(topk, inputs, measured.output, flags) == []


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    columns=st.integers(1, 12000),
    which=st.sampled_from(range(len(FLAGS))),
    bounds=st.lists(st.tuples(st.integers(-3, 12010), st.integers(-3, 12010)), min_size=1, max_size=3),
    levels=st.sampled_from([1, 2, 300, 10**6]),
)
def test_any_bounds_and_any_number_of_ties(seed, columns, which, bounds, levels):
    kernel = load_kernel(shipped_root(), "topk")
    rng = np.random.default_rng(seed)
    inputs = {
        "scores": rng.integers(-levels, levels, (len(bounds), columns)).astype(np.float32),
        "start": np.array([min(a, columns) for a, _ in bounds], np.int32),
        "end": np.array([b for _, b in bounds], np.int32),
    }
    flags, measured = run(kernel, inputs, FLAGS[which])
    inside = {**inputs, "start": np.maximum(inputs["start"], 0), "end": np.minimum(inputs["end"], columns)}
    assert failed(kernel, inside, measured.output, flags) == []


def test_the_order_is_total():
    kernel = load_kernel(shipped_root(), "topk")
    rising = np.array([-np.inf, -1, -1e-45, -0.0, 0.0, 1e-45, 1, np.inf, np.nan], np.float32)
    keys = module_of(kernel, "inputs").ordered_keys(rising).astype(np.int64)
    assert (np.diff(keys) > 0).all()
    assert module_of(kernel, "inputs").ordered_keys(-rising[-1:])[0] == keys[-1]


# --- planted faults ------------------------------------------------------------------------------


def test_a_dropped_candidate_is_caught(topk, monkeypatch):
    machine = module_of(topk, "host")
    right = machine.largest

    def without_the_best(keys, *rest):
        spoiled = keys.copy()
        spoiled[np.argmax(keys)] = 0
        return right(spoiled, *rest)

    inputs = topk.inputs(SHAPE, "normal", 3)
    monkeypatch.setattr(machine, "largest", without_the_best)
    flags, measured = run(topk, inputs, {})
    assert failed(topk, inputs, measured.output, flags) == ["top_k_scores"]


@pytest.mark.parametrize(("change", "distribution"), [(-1, "ascending"), (1, "ascending")], ids=["early", "late"])
def test_one_column_too_few_or_too_many_is_caught(topk, change, distribution):
    inputs = topk.inputs(SHAPE, distribution, 3)
    short = {**inputs, "end": inputs["end"] - 2}
    flags, measured = run(topk, {**short, "end": short["end"] + change}, {})
    assert "top_k_scores" in failed(topk, short, measured.output, flags)


def test_zeros_that_count_as_equal_are_caught(topk, monkeypatch):
    machine = module_of(topk, "host")
    right = machine.ordered_keys
    rng = np.random.default_rng(0)
    scores = np.where(rng.random((4, 9001)) < 0.9, np.float32(-0.0), np.float32(0.0))
    bounds = module_of(topk, "inputs").causal(4, 9001)
    inputs = {"scores": scores, "start": bounds[0], "end": bounds[1]}
    flags, measured = run(topk, inputs, {})
    assert failed(topk, inputs, measured.output, flags) == []
    monkeypatch.setattr(machine, "ordered_keys", lambda x: right(x + np.float32(0.0)))
    flags, measured = run(topk, inputs, {})
    assert failed(topk, inputs, measured.output, flags) == ["top_k_scores"]


def test_bounds_of_another_run_are_caught(topk):
    inputs = topk.inputs(SHAPE, "ragged", 3)
    stale = {**inputs, "start": np.roll(inputs["start"], 1), "end": np.roll(inputs["end"], 1)}
    flags, measured = run(topk, stale, {})
    assert {"count", "inside_bounds", "top_k_scores"} <= set(failed(topk, inputs, measured.output, flags))


@pytest.mark.parametrize("fault", ["twice", "padding", "outside"])
def test_a_wrong_output_is_caught(topk, fault):
    inputs = topk.inputs(SHAPE, "ragged" if fault == "padding" else "normal", 3)
    flags, measured = run(topk, inputs, {})
    out = {"indices": measured.output["indices"].copy()}
    if fault == "twice":
        out["indices"][0, 1] = out["indices"][0, 0]
    elif fault == "outside":
        out["indices"][0, 0] = SHAPE["n"]
    else:
        row = int(np.argmin(inputs["end"] - inputs["start"]))
        out["indices"][row, -1] = 7
    names = {"twice": "unique", "outside": "inside_bounds", "padding": "count"}
    assert names[fault] in failed(topk, inputs, out, flags)


# --- capacity --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "distribution", "limit"),
    [
        ({}, "equal", "row"),
        ({"ALGORITHM": "histogram", "CANDIDATE_CAPACITY": 4096, "RADIX": "bytes"}, "plus_100", "row"),
        ({"ALGORITHM": "online", "CANDIDATE_CAPACITY": 8192}, "stripe", "uncertain"),
        ({}, "misleading", "underflow"),
    ],
    ids=["ties-overflow", "half-precision-overflows", "a-list-loses", "sample-misleads"],
)
def test_what_cannot_be_certified_is_counted_and_repaired(topk, monkeypatch, overrides, distribution, limit):
    if distribution == "misleading":
        machine = module_of(topk, "host")
        monkeypatch.setattr(machine, "rank_of", lambda k, sampled, length: 1)
    if distribution == "stripe":  # the best columns all belong to one thread
        inputs = dict(topk.inputs({"q": 2, "n": 16384}, "normal", 3))
        inputs["scores"] = np.where(np.arange(16384) // 4 % 512 < 8, 100 + inputs["scores"], inputs["scores"])
    else:
        shown = distribution if distribution in topk.distributions else "normal"
        inputs = dict(topk.inputs({"q": 2, "n": 9001}, shown, 3))
    flags, measured = run(topk, inputs, overrides)
    assert failed(topk, inputs, measured.output, flags) == []
    table = measured.tables["capacity"].set_index("limit")["failures"]
    assert table[limit] == 2
    assert table.drop(limit).sum() == 0


@pytest.mark.parametrize(
    ("distribution", "again"),
    [("normal", ()), ("normal_plus_100", (32768, 65536)), ("normal_times_1e-8", (32768, 65536, 131072))],
)
def test_a_bin_of_half_precision_fits_at_some_widths_only(topk, distribution, again):
    """docs/findings/0017: the bin that holds the k-th best is what has to fit, and which one it is depends on the width."""
    selectors = load_kernel(shipped_root(), "selectors")
    for columns in (8192, 32768, 65536, 131072):
        scored = selectors.inputs({"rows": 2, "columns": columns, "k": 2048}, distribution, 1)
        flags, measured = run(topk, scored, {"ALGORITHM": "histogram"})
        table = measured.tables["capacity"].set_index("limit")["failures"]
        assert table.to_dict() == {"row": 2 * (columns in again), "underflow": 0, "uncertain": 0}, columns
        assert failed(topk, scored, measured.output, flags) == []


def test_a_sample_finds_few_candidates_and_enough(topk):
    """What the threshold is for: on independent keys no row fails, and about half of a short row is left out."""
    inputs = topk.inputs({"q": 24, "n": 16384}, "normal", 3)
    _, measured = run(topk, inputs, {})
    counters = measured.tables["counters"].set_index("metric")["value"]
    assert measured.tables["capacity"]["failures"].sum() == 0
    assert 24 * 2048 < counters["candidates"] < 24 * 4096
    assert counters["keys"] == (inputs["end"] - inputs["start"]).sum()


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"CANDIDATE_CAPACITY": 4000}, "allowed is a multiple of 4 from 4096"),
        ({"CANDIDATE_CAPACITY": 6145}, "multiple of 4"),
        ({"ALGORITHM": "online"}, "from 8192 on"),
        ({"ALGORITHM": "heap", "STORAGE": "index", "CANDIDATE_CAPACITY": 8192}, "its lists hold scores"),
        ({"CANDIDATE_CAPACITY": 40000}, "shared memory of .* lower CANDIDATE_CAPACITY"),
        ({"K": 100}, "allowed are 512, 1024, 2048"),
    ],
    ids=["capacity", "alignment", "lists", "storage", "smem", "k"],
)
def test_flags_that_exclude_each_other(topk, flags, words):
    with pytest.raises(InputError, match=words):
        topk.resolve_flags(flags)


def test_a_causal_matrix_is_not_taller_than_wide(topk):
    with pytest.raises(InputError, match="q = 9 is above n = 8"):
        topk.illegal_shape({"q": 9, "n": 8}, topk.resolve_flags({}), {})


@pytest.mark.parametrize(
    "overrides", [{}, {"RADIX": "bytes", "STORAGE": "index"}, {"CANDIDATE_CAPACITY": 14080}], ids=named
)
def test_python_knows_the_size_of_the_shared_memory(topk, overrides, tmp_path):
    """The compiler agrees that sizeof(Shared) is what is asked for at launch; with one word more it does not."""
    pytest.importorskip("cuda.core", reason='needs `pip install "attribution[cuda]"`')
    from dataclasses import replace

    from attribution.build import compile_target, target
    from attribution.errors import BuildError

    wanted = target(topk, overrides)
    size = module_of(topk, "operator").smem_bytes(topk.resolve_flags(overrides))
    for more, right in ((0, True), (4, False)):
        text = f"{wanted.unit.text}\nstatic_assert(sizeof(shape::Shared) == {size + more});\n"
        changed = replace(wanted, unit=replace(wanted.unit, text=text), identity=f"size-{more}")
        if right:
            compile_target(changed, tmp_path)
        else:
            with pytest.raises(BuildError, match="static assertion failed"):
                compile_target(changed, tmp_path)


@pytest.mark.parametrize(
    ("capacity", "threads", "ctas"),
    [(16384, 1024, 1), (14080, 1024, 2), (6144, 512, 3)],
    ids=["16384", "14080", "tuned"],
)
def test_capacity_decides_how_many_ctas_an_sm_holds(topk, capacity, threads, ctas, tmp_path):
    pytest.importorskip("cuda.core", reason='needs `pip install "attribution[cuda]"`')
    from attribution.build import build

    flags = {"CANDIDATE_CAPACITY": capacity, "THREADS": threads, "UNROLL": 4 if threads == 512 else 2}
    flags["RADIX"] = "range" if threads == 512 else "bytes"
    held = build(topk, flags, cache=tmp_path).entry("topk").residency("sm_90a")
    assert held is not None
    assert held.ctas == ctas


@pytest.mark.parametrize("algorithm", ["threshold", "histogram", "online", "heap"])
def test_it_compiles_for_an_older_gpu(topk, algorithm, tmp_path):
    pytest.importorskip("cuda.core", reason='needs `pip install "attribution[cuda]"`')
    from attribution.build import build

    flags = {"ALGORITHM": algorithm, "CANDIDATE_CAPACITY": 8192}
    assert build(topk, flags, "sm_80", cache=tmp_path).entry("topk").registers <= 128
