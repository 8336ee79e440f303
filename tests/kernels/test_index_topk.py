"""index_topk on the reference machine: every rung and flag is right, and every wrong answer is caught."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attribution.declare import Inputs, Kernel
from attribution.errors import InputError
from attribution.load import module_of
from attribution.measure import host

SHAPE = {"q": 5, "n": 2048}
SMALL = {"K": 512, "SEGMENT_CAPACITY": 184}
LADDER = ("MMA", "REDUCE", "FILTER", "SELECT", "EMIT")


@pytest.fixture(scope="module")
def cases(index_topk: Kernel) -> dict[str, tuple[Inputs, Any]]:
    made = {d: index_topk.inputs(SHAPE, d, 3) for d in index_topk.distributions}
    with host.one_thread():
        return {d: (i, index_topk.reference(i, SHAPE)) for d, i in made.items()}


def run(
    kernel: Kernel,
    inputs: Inputs,
    overrides: dict[str, Any],
    shape: dict[str, int] = SHAPE,
    **knobs: int,
) -> tuple[dict[str, Any], host.Measured]:
    flags = kernel.resolve_flags({**SMALL, **overrides})
    with host.one_thread():
        return flags, host.measure(kernel, inputs, shape, flags, kernel.resolve_axes("knobs", knobs))


def failed(kernel: Kernel, case: tuple[Inputs, Any], output: Any, flags: dict[str, Any], shape=SHAPE) -> list[str]:
    return [c.name for c in kernel.check(case[0], output, case[1], shape, flags) if not c.passed]


RUNGS = [dict.fromkeys(LADDER[i:], False) for i in range(6)]
CHANGES: list[dict[str, Any]] = [
    {"OVERLAP": False},
    {"LAYOUT": "shared", "SEGMENT_CAPACITY": 1472},
    {"LAYOUT": "split", "SEGMENT_CAPACITY": 92},
    {"SCAN": "reserved"},
    {"SPILL": False},
    {"BLOCK_Q": 1, "KV_STAGES": 4},
    {"BLOCK_Q": 2},
    {"KV_STAGES": 2},
    {"MATH_WARPGROUPS": 1, "KV_STAGES": 1, "SEGMENT_CAPACITY": 368},
    {"TRACE": 2},
    {"STORE_SCORES": True, "FILTER": False, "SELECT": False, "EMIT": False},
    {"K": 1024, "SEGMENT_CAPACITY": 250},
]


@pytest.mark.parametrize("overrides", RUNGS + CHANGES, ids=str)
def test_every_rung_and_flag_agrees_with_the_reference(
    index_topk: Kernel, cases: dict[str, Any], overrides: dict[str, Any]
) -> None:
    flags, measured = run(index_topk, cases["normal"][0], overrides)
    assert failed(index_topk, cases["normal"], measured.output, flags) == []


@pytest.mark.parametrize("distribution", ["plus_100", "times_1e-8", "ties", "clustered", "overflow"])
@pytest.mark.parametrize("overrides", [{}, {"SPILL": False}, {"SELECT": False, "EMIT": False}], ids=str)
def test_every_distribution_is_exact(
    index_topk: Kernel, cases: dict[str, Any], distribution: str, overrides: dict[str, Any]
) -> None:
    flags, measured = run(index_topk, cases[distribution][0], overrides)
    assert failed(index_topk, cases[distribution], measured.output, flags) == []


def failures(measured: host.Measured) -> dict[str, int]:
    return dict(
        zip(
            measured.tables["capacity"]["limit"],
            measured.tables["capacity"]["failures"],
            strict=True,
        )
    )


def counter(measured: host.Measured, metric: str, stage: str = "main") -> float:
    rows = measured.tables["counters"]
    return float(rows[(rows["metric"] == metric) & (rows["stage"] == stage)]["value"].sum())


def test_a_full_segment_spills_or_has_its_row_computed_again(index_topk: Kernel, cases: dict[str, Any]) -> None:
    """The adversarial inputs overflow one segment; a segment of 100 with its spill holds what 184 alone does not."""
    _, kept = run(index_topk, cases["overflow"][0], {"SPILL": True})
    _, dropped = run(index_topk, cases["overflow"][0], {"SPILL": False})
    assert sum(failures(kept).values()) == 0
    assert failures(dropped)["segment"] == SHAPE["q"]
    assert counter(dropped, "repaired_rows", "repair") == SHAPE["q"]


def test_too_few_candidates_are_noticed_and_repaired(
    index_topk: Kernel, cases: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[index_topk.host.__module__]
    monkeypatch.setattr(module.Run, "_order_statistic", lambda self, scores, row: np.float32(scores.max()))
    flags, measured = run(index_topk, cases["normal"][0], {})
    assert failures(measured)["underflow"] == SHAPE["q"]
    assert failed(index_topk, cases["normal"], measured.output, flags) == []


@pytest.mark.parametrize("sample_seed", [1, 2, 3])
def test_any_sampling_seed_is_exact(index_topk: Kernel, cases: dict[str, Any], sample_seed: int) -> None:
    flags, measured = run(index_topk, cases["normal"][0], {}, sample_seed=sample_seed)
    assert failed(index_topk, cases["normal"], measured.output, flags) == []


def test_scores_do_not_depend_on_blocking(index_topk: Kernel, cases: dict[str, Any]) -> None:
    outputs = [
        run(
            index_topk,
            cases["normal"][0],
            {"FILTER": False, "SELECT": False, "EMIT": False, "BLOCK_Q": b, "KV_STAGES": 4},
        )[1]
        for b in (1, 2, 4)
    ]
    assert len({o.output["checksum"] for o in outputs}) == 1


@pytest.mark.parametrize(
    ("begin", "end"),
    [(100, 1500), (0, 300), (7, 8), (513, 513), (2047, 2048), (1300, 2048)],
    ids=["shifted", "short", "one key", "empty", "last key", "shifted to the end"],
)
def test_bounds_of_every_kind(index_topk: Kernel, cases: dict[str, Any], begin: int, end: int) -> None:
    inputs = dict(cases["normal"][0])
    inputs["k_start"] = np.full(SHAPE["q"], begin, np.int32)
    inputs["k_end"] = np.array([end, 2048, 2048, end, end], np.int32)
    with host.one_thread():
        case = inputs, index_topk.reference(inputs, SHAPE)
    for overrides in ({}, {"BLOCK_Q": 4, "SCAN": "reserved"}, *RUNGS[:5]):
        flags, measured = run(index_topk, inputs, overrides)
        assert failed(index_topk, case, measured.output, flags) == [], overrides


def test_the_reference_agrees_with_a_plain_product(index_topk: Kernel, cases: dict[str, Any]) -> None:
    """One score, by the definition, from the FP8 values themselves."""
    inputs, reference = cases["normal"]
    row, key = 3, 1234
    total = 0.0
    for head in range(64):
        dot = sum(float(a) * float(b) for a, b in zip(inputs["q"][row, head], inputs["k"][key], strict=True))
        total += max(dot, 0.0) * float(inputs["w"][row, head])
    assert reference.scores[row, key] == np.float32(total * float(inputs["k_scale"][key]))


def indices(index_topk: Kernel, cases: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    flags, measured = run(index_topk, cases["normal"][0], {})
    return flags, measured.output["indices"].copy()


def drop(x: np.ndarray) -> None:
    x[2, 10] = -1


def repeat(x: np.ndarray) -> None:
    x[1, 0] = x[1, 1]


def outside(x: np.ndarray) -> None:
    x[0, 0] = 2047


def negative(x: np.ndarray) -> None:
    x[4, 3] = -2


def lesser(x: np.ndarray) -> None:
    x[3, 5] = next(i for i in range(2000) if i not in set(x[3]))


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (drop, "selected_count"),
        (repeat, "unique"),
        (outside, "inside_bounds"),
        (negative, "selected_count"),
        (lesser, "top_k_scores"),
    ],
    ids=lambda f: getattr(f, "__name__", f),
)
def test_a_planted_wrong_selection_is_caught(index_topk: Kernel, cases: dict[str, Any], fault: Any, check: str) -> None:
    flags, chosen = indices(index_topk, cases)
    assert failed(index_topk, cases["normal"], {"indices": chosen}, flags) == []
    fault(chosen)
    assert check in failed(index_topk, cases["normal"], {"indices": chosen}, flags)


@pytest.mark.parametrize("rung", RUNGS[:5], ids=str)
def test_a_planted_wrong_checksum_is_caught(index_topk: Kernel, cases: dict[str, Any], rung: dict[str, Any]) -> None:
    flags, measured = run(index_topk, cases["normal"][0], rung)
    wrong = {**measured.output, "checksum": measured.output["checksum"] + 1}
    assert failed(index_topk, cases["normal"], wrong, flags) == ["checksum"]


def test_a_selection_that_loses_one_candidate_is_caught(
    index_topk: Kernel, cases: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault sits inside the algorithm: each row's best stored candidate disappears before selection."""
    rows = module_of(index_topk, "candidates").Row
    honest = rows.stored

    def lossy(self: Any, flags: Any) -> Any:
        keys, index = honest(self, flags)
        return np.delete(keys, keys.argmax()), np.delete(index, keys.argmax())

    monkeypatch.setattr(rows, "stored", lossy)
    flags, measured = run(index_topk, cases["normal"][0], {})
    assert "top_k_scores" in failed(index_topk, cases["normal"], measured.output, flags)


def test_work_is_counted_where_it_is_done(index_topk: Kernel, cases: dict[str, Any]) -> None:
    """Equal matrix work up the ladder, none without MMA; across BLOCK_Q the FLOP agree and instructions do not."""
    full = run(index_topk, cases["normal"][0], {})[1]
    math_only = run(index_topk, cases["normal"][0], RUNGS[1])[1]
    load_only = run(index_topk, cases["normal"][0], RUNGS[0])[1]
    assert counter(full, "tensor_instructions") == counter(math_only, "tensor_instructions") > 0
    assert counter(load_only, "tensor_instructions") == 0
    assert counter(full, "tma_loads") == counter(load_only, "tma_loads") > 0
    assert counter(math_only, "candidates") == 0 < counter(full, "candidates")
    one = run(index_topk, cases["normal"][0], {"BLOCK_Q": 1, "KV_STAGES": 4})[1]
    assert counter(one, "mma_flop") == counter(full, "mma_flop")
    assert counter(one, "tensor_instructions") > counter(full, "tensor_instructions")
    reserved = run(index_topk, cases["normal"][0], {"SCAN": "reserved"})[1]
    assert counter(reserved, "scanned") > counter(full, "scanned")


def test_a_delayed_role_is_slower_by_the_delay(index_topk: Kernel, cases: dict[str, Any]) -> None:
    """Work spans of the delayed role grow by at least the delay; other roles do not get it."""
    delay_ns = 3_000_000
    _, measured = run(
        index_topk,
        cases["normal"][0],
        {"DELAY_ROLE": "topk", "DELAY_CYCLES": delay_ns, "BLOCK_Q": 1, "KV_STAGES": 4},
    )
    events = measured.tables["events"]
    select = [e.name for e in index_topk.events].index("select")
    mine = events[events["event"] == select]
    spans = mine[mine["edge"] == 1]["time_ns"].to_numpy() - mine[mine["edge"] == 0]["time_ns"].to_numpy()
    assert len(spans) == SHAPE["q"]
    assert (spans >= delay_ns).all()


def test_every_pair_of_flag_values_runs_or_is_refused(index_topk: Kernel) -> None:
    """Legal combinations of two non-default values are right; the others say why."""
    shape = {"q": 3, "n": 2048}
    inputs = index_topk.inputs(shape, "normal", 4)
    with host.one_thread():
        case = inputs, index_topk.reference(inputs, shape)
    values = [
        (n, v)
        for n, f in index_topk.flags.items()
        for v in ((False, True) if isinstance(f.default, bool) else f.choices or ())
        if v != f.default
    ]
    rng = np.random.default_rng(5)
    all_pairs = [(a, b) for i, a in enumerate(values) for b in values[i + 1 :] if a[0] != b[0]]
    ran = 0
    for which in rng.permutation(len(all_pairs))[:110]:
        overrides = dict(all_pairs[which])
        try:
            index_topk.resolve_flags({**SMALL, **overrides})
        except InputError as error:
            assert "refused" in str(error)
            continue
        if {"SCORER", "SELECTOR"} & set(overrides):
            with pytest.raises(
                InputError, match="is another (project's )?kernel, which the reference machine does not"
            ):
                run(index_topk, inputs, overrides, shape)
            continue
        flags, measured = run(index_topk, inputs, overrides, shape)
        assert failed(index_topk, case, measured.output, flags, shape) == [], overrides
        ran += 1
    assert ran > 20


def test_the_reference_machine_says_that_it_has_no_scorer_or_selector_of_others(index_topk: Kernel) -> None:
    inputs = index_topk.inputs(SHAPE, "normal", 4)
    unfused = {"STORE_SCORES": True, "FILTER": False, "SELECT": False, "EMIT": False}
    with pytest.raises(InputError, match="SCORER = deep_gemm is another project's kernel"):
        run(index_topk, inputs, {**unfused, "SCORER": "deep_gemm"})
    with pytest.raises(InputError, match="SELECTOR = topk is another kernel, .* or set SELECTOR = torch"):
        run(index_topk, inputs, {**unfused, "SELECTOR": "topk"})
    run(index_topk, inputs, {**unfused, "SCORER": "own", "SELECTOR": "torch"})


@pytest.mark.parametrize(("stages", "warpgroups", "legal"), [(3, 2, False), (1, 2, False), (4, 2, True), (3, 1, True)])
def test_a_stage_of_the_ring_has_one_reader(index_topk: Kernel, stages: int, warpgroups: int, legal: bool) -> None:
    overrides = {"KV_STAGES": stages, "MATH_WARPGROUPS": warpgroups, "SEGMENT_CAPACITY": 736 * 2 // warpgroups}
    if legal:
        assert index_topk.resolve_flags(overrides)["KV_STAGES"] == stages
    else:
        with pytest.raises(InputError, match=f"KV_STAGES = {stages} is no multiple of MATH_WARPGROUPS = 2"):
            index_topk.resolve_flags(overrides)


def test_inputs_are_what_their_names_say(index_topk: Kernel) -> None:
    shape = {"q": 2, "n": 2048}
    scores = {}
    for distribution in index_topk.distributions:
        inputs = index_topk.inputs(shape, distribution, 7)
        again = index_topk.inputs(shape, distribution, 7)
        other = index_topk.inputs(shape, distribution, 8)
        assert all((inputs[n].tobytes() == again[n].tobytes()) for n in inputs)
        assert inputs["q"].tobytes() != other["q"].tobytes()
        found = index_topk.reference(inputs, shape).scores
        scores[distribution] = found[np.isfinite(found)]
    assert abs(scores["plus_100"].mean() - 100) < 5
    assert np.abs(scores["times_1e-8"]).max() < 1e-6
    assert len(np.unique(scores["ties"])) <= 128
    spread = replace(index_topk, name="x").distributions
    assert spread[0] == "normal"


def test_ctas_and_sms_are_counted_where_they_were_placed(index_topk: Kernel, cases: dict[str, Any]) -> None:
    """Three CTAs on eight SMs use three of them; the counter is no copy of the knob `sms`."""
    _, measured = run(index_topk, cases["normal"][0], {"BLOCK_Q": 1, "KV_STAGES": 4}, ctas=3, sms=8)
    assert (counter(measured, "ctas"), counter(measured, "sms")) == (3, 3)


def placed(kernel: Kernel, inputs: Inputs, overrides: dict[str, Any], waits: str) -> int:
    """How often a role waited for `waits`, with one CTA that has all batches."""
    _, measured = run(kernel, inputs, {"BLOCK_Q": 1, "KV_STAGES": 4, **overrides}, ctas=1, sms=1)
    code = [e.name for e in kernel.events].index(waits)
    return int((measured.tables["events"]["event"] == code).sum()) // 2


def test_one_slot_makes_math_wait_and_two_do_not(index_topk: Kernel, cases: dict[str, Any]) -> None:
    """With one slot every batch but the first waits for TopK; with two, a selection shorter than Math never holds it up."""
    assert placed(index_topk, cases["normal"][0], {"OVERLAP": False}, "slot_free") == SHAPE["q"] - 1
    assert placed(index_topk, cases["normal"][0], {"OVERLAP": True}, "slot_free") == 0


def test_fewer_stages_make_the_loads_wait_more_often(index_topk: Kernel, cases: dict[str, Any]) -> None:
    """Two tiles a row and five rows: ten loads, of which all but the first KV_STAGES wait for Math."""
    one = {"MATH_WARPGROUPS": 1, "SEGMENT_CAPACITY": 368}
    for stages in (1, 3):
        waits = placed(index_topk, cases["normal"][0], {**one, "KV_STAGES": stages}, "stage_free")
        assert waits == 2 * SHAPE["q"] - stages


def test_a_segment_is_filled_before_it_spills(index_topk: Kernel) -> None:
    """Candidates of one warp in its segment: exactly its capacity inside, the rest behind it."""
    flags = index_topk.resolve_flags({"K": 512, "SEGMENT_CAPACITY": 100})
    slot = module_of(index_topk, "candidates").Row.empty(flags)
    index = np.array([i for i in range(2048) if i // 16 % 8 == 0][:130], dtype=np.int32)
    slot.append(np.arange(1, 131, dtype=np.uint32), index, flags)
    assert (slot.keys[0] > 0).sum() == 100
    assert slot.counts[0] == 130
    assert sum(len(keys) for keys, _ in slot.spilled) == 30
    assert not slot.lost


def test_a_checksum_wraps_at_64_bits(
    index_topk: Kernel, cases: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum starts one turn and 7 above nothing: only a fold of 64 bits comes out 7 higher."""
    module = sys.modules[index_topk.host.__module__]
    rung = RUNGS[0]
    _, plain = run(index_topk, cases["normal"][0], rung)
    made = module.Run.__init__

    def started(self: Any, *arguments: Any) -> None:
        made(self, *arguments)
        self.fold_int += 2**64 + 7

    monkeypatch.setattr(module.Run, "__init__", started)
    _, turned = run(index_topk, cases["normal"][0], rung)
    assert turned.output["checksum"] == plain.output["checksum"] + 7


@pytest.mark.parametrize(
    ("rung", "output", "passed"),
    [
        ({"FILTER": False, "SELECT": False, "EMIT": False}, {"checksum": np.array([-3])}, True),
        ({"FILTER": False, "SELECT": False, "EMIT": False}, {"checksum": np.array([0])}, False),
        ({"EMIT": False}, {"checksum": np.array([0])}, False),
        ({"SELECT": False, "EMIT": False}, {"checksum": np.array([0]), "status": np.array([0, 0])}, True),
        ({"SELECT": False, "EMIT": False}, {"checksum": np.array([0]), "status": np.array([0, 2])}, False),
    ],
)
def test_a_rung_whose_work_came_to_nothing_on_a_card_is_caught(
    index_topk: Kernel, rung: dict[str, bool], output: dict[str, Any], passed: bool
) -> None:
    check = module_of(index_topk, "gpu").check
    found = check({}, output, None, SHAPE, index_topk.resolve_flags(rung))
    assert [c.passed for c in found] == [passed]
