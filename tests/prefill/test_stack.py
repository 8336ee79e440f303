"""The stack in its tiny configuration on a CPU: chunks change nothing, indexers agree, wrong ones are noticed."""

from __future__ import annotations

import dataclasses
import sys
import types
from typing import Any

import pytest

from attribution.errors import InputError
from attribution.load import load_kernel, shipped_root
from attribution.prefill.bench import make_bench
from attribution.prefill.checks import Looked, check_logits, check_selection
from attribution.prefill.indexers import Given, Kept, Native, WithFallback, choose_native, probe, streamed
from attribution.prefill.scorers import scorer, torch_scores
from attribution.prefill.selectors import torch_topk
from attribution.prefill.sizes import CONFIGS, sizes
from attribution.prefill.spans import Spans
from attribution.prefill.stack import Stack, quantized

torch = pytest.importorskip("torch", reason="the prefill stack needs torch")
pytest.importorskip("nvtx", reason="the prefill stack needs nvtx")

TINY = sizes("tiny")
NATIVE = Native("torch_scores", "torch_topk", TINY.top_k)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def stack() -> Stack:
    return Stack(TINY, 128, 1, "cpu")


def tokens(length: int, seed: int = 3) -> Any:
    return torch.randint(0, TINY.vocabulary, (length,), generator=torch.Generator().manual_seed(seed))


def test_logits_are_finite_and_follow_the_tokens(stack: Stack) -> None:
    first = stack.prefill(tokens(96), NATIVE, Spans("cpu"))
    assert first.shape == (TINY.vocabulary,)
    assert torch.isfinite(first).all()
    assert torch.equal(first, stack.prefill(tokens(96), NATIVE, Spans("cpu")))
    assert not check_logits(stack.prefill(tokens(96, 4), NATIVE, Spans("cpu")), first).passed


def test_the_last_token_does_not_see_beyond_its_request(stack: Stack) -> None:
    before = stack.prefill(tokens(64), NATIVE, Spans("cpu"))
    stack.prefill(tokens(128, 9), NATIVE, Spans("cpu"))  # leaves longer caches behind
    assert torch.equal(stack.prefill(tokens(64), NATIVE, Spans("cpu")), before)


def test_attention_over_all_keys_is_plain_attention(stack: Stack) -> None:
    """With every key selected, in any order and with padding, the gathered attention is the dense one."""
    draw = torch.Generator().manual_seed(0)
    q = torch.randn(5, TINY.heads, TINY.kv_rank + TINY.rope, generator=draw)
    latent = torch.randn(9, TINY.kv_rank + TINY.rope, generator=draw)
    selected = torch.stack([torch.randperm(9, generator=draw) for _ in range(5)]).int()
    selected = torch.cat([selected, torch.full((5, 3), -1, dtype=torch.int32)], 1)
    weight = ((q @ latent.T) / q.shape[-1] ** 0.5).softmax(-1)
    wanted = (weight @ latent[:, : TINY.kv_rank]).flatten(1)
    assert torch.allclose(stack._attend(q, latent, selected), wanted, atol=1e-5)


def test_quantized_values_are_near_and_fill_the_range() -> None:
    x = torch.randn(4, 7, 16, generator=torch.Generator().manual_seed(0))
    small, scale = quantized(x, 448.0)
    assert (small.float().abs().amax(-1) == 448.0).all()
    assert torch.allclose(small.float() * scale, x, rtol=0.07, atol=float(scale.max()) * 2**-9)
    assert torch.isfinite(quantized(torch.zeros(2, 4), 448.0)[0].float()).all()


def test_scores_are_those_of_their_definition() -> None:
    call = probe(TINY, "cpu")
    found = torch_scores(call)
    for row in (0, TINY.top_k - 1):
        for key in (0, int(call.k_end[row]) - 1):
            dots = (call.q[row].double() @ call.k[key].double()).relu()
            wanted = float((call.w[row].double() * dots).sum() * call.k_scale[key])
            assert float(found[row, key]) == pytest.approx(wanted, rel=1e-5, abs=1e-5)
        assert torch.isneginf(found[row, int(call.k_end[row]) :]).all()


def test_the_fused_indexer_selects_what_the_native_one_does_and_falls_back_first(stack: Stack) -> None:
    kept, fused = Kept(NATIVE), WithFallback(streamed, NATIVE, TINY.top_k)
    wanted = stack.prefill(tokens(128), kept, Spans("cpu"))
    looked = Looked(fused, TINY.top_k)
    stack.prefill(tokens(128), looked, Spans("cpu"))
    assert all(c.passed for c in looked.checks)
    assert len(looked.checks) == 5 * TINY.layers * 4
    assert fused.fell_back == {0: TINY.layers, 1: 0, 2: 0, 3: 0}
    assert fused.calls == dict.fromkeys(range(4), TINY.layers)
    assert torch.equal(stack.prefill(tokens(128), Given(kept.selections), Spans("cpu")), wanted)


def test_a_chunk_whose_first_row_has_just_enough_keys_does_not_fall_back() -> None:
    call = probe(TINY, "cpu")
    for start, back in ((TINY.top_k - 2, 1), (TINY.top_k - 1, 0)):
        here = dataclasses.replace(call, start=start, k_end=torch.arange(TINY.top_k, dtype=torch.int32) + start + 1)
        fused = WithFallback(streamed, NATIVE, TINY.top_k)
        assert all(c.passed for c in check_selection(here, fused.select(here), TINY.top_k))
        assert fused.fell_back == {0: back}


def drop_the_best(call: Any, top_k: int) -> Any:
    """The best key is missing, the one after the last is there."""
    return torch_scores(call).topk(top_k + 1, dim=1).indices[:, 1:].int()


def one_beyond(call: Any, top_k: int) -> Any:
    found = streamed(call, top_k).clone()
    found[3, 0] = call.k_end[3]
    return found


def twice(call: Any, top_k: int) -> Any:
    found = streamed(call, top_k).clone()
    found[3, 0] = found[3, 1]
    return found


def one_less(call: Any, top_k: int) -> Any:
    found = streamed(call, top_k).clone()
    found[3, 0] = -1
    return found


def one_too_low(call: Any, top_k: int) -> Any:
    """The last of the selected keys gives way to the next one in rank."""
    best = torch_scores(call).topk(top_k + 1, dim=1).indices.int()
    return torch.cat([best[:, : top_k - 1], best[:, -1:]], 1)


def the_first_keys(call: Any, top_k: int) -> Any:
    return torch.arange(top_k, dtype=torch.int32).expand(call.q.shape[0], top_k)


@pytest.mark.parametrize(
    ("wrong", "noticed"),
    [
        pytest.param(drop_the_best, "none_missing", id="drop-the-best"),
        pytest.param(one_beyond, "inside_bounds", id="one-beyond"),
        pytest.param(twice, "unique", id="twice"),
        pytest.param(one_less, "selected_count", id="one-less"),
        pytest.param(one_too_low, "among_the_best", id="one-too-low"),
        pytest.param(the_first_keys, "among_the_best", id="the-first-keys"),
    ],
)
def test_a_wrong_selection_is_noticed(wrong: Any, noticed: str) -> None:
    call = probe(TINY, "cpu")
    assert all(c.passed for c in check_selection(call, streamed(call, TINY.top_k), TINY.top_k))  # some rows are short
    spare = call.k_end + TINY.top_k // 2 + 2  # now none is, and each has keys to spare
    call = dataclasses.replace(call, k_end=spare.clamp(max=len(call.k)))
    assert all(c.passed for c in check_selection(call, streamed(call, TINY.top_k), TINY.top_k))
    failed = {c.name for c in check_selection(call, wrong(call, TINY.top_k), TINY.top_k) if not c.passed}
    assert noticed in failed


def test_torch_topk_pads_short_rows_and_narrow_matrices() -> None:
    call = probe(TINY, "cpu")
    narrow = dataclasses.replace(call, k_end=torch.arange(TINY.top_k, dtype=torch.int32) % 5, start=0)
    found = torch_topk(torch_scores(narrow)[:, :6], narrow, TINY.top_k)
    assert found.shape == (TINY.top_k, TINY.top_k)
    assert ((found >= 0).sum(1) == torch.arange(TINY.top_k) % 5).all()


def absent() -> Any:
    raise ImportError("no module of that name")


def backwards() -> Any:
    return lambda call, clean: -torch_scores(call).masked_fill(torch.isneginf(torch_scores(call)), torch.inf)


def right() -> Any:
    return torch_scores


@pytest.mark.parametrize(
    ("known", "chosen", "reasons"),
    [
        pytest.param(
            {"absent": absent, "right": right}, "right", {"absent": "ImportError: no module of that name"}, id="absent"
        ),
        pytest.param({"backwards": backwards, "right": right}, "right", {"backwards": "wrong answer: "}, id="wrong"),
        pytest.param({"absent": absent}, "torch_scores", {"absent": "ImportError"}, id="none"),
        pytest.param({"right": right, "absent": absent}, "right", {}, id="first"),
    ],
)
def test_a_scorer_is_used_only_when_it_is_right(
    monkeypatch: pytest.MonkeyPatch, known: dict[str, Any], chosen: str, reasons: dict[str, str]
) -> None:
    monkeypatch.setattr("attribution.prefill.indexers.SCORERS", known)
    monkeypatch.setattr("attribution.prefill.scorers.SCORERS", known)
    monkeypatch.setattr("attribution.prefill.indexers.SELECTORS", {})
    monkeypatch.setattr("attribution.prefill.indexers.probe", lambda sizes, device: probe(sizes, "cpu"))
    scorer.cache_clear()
    skipped: dict[str, str] = {}
    assert choose_native("cuda", TINY, skipped).scorer == chosen
    assert set(skipped) == set(reasons)
    assert all(skipped[name].startswith(text) for name, text in reasons.items())
    scorer.cache_clear()


def test_deep_gemm_is_called_as_its_package_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in of that name: arguments arrive in its order, and cleaning is asked for where the selector needs it."""
    seen = []

    def fp8_mqa_logits(q: Any, kv: Any, weights: Any, start: Any, end: Any, clean_logits: bool) -> Any:
        seen.append(clean_logits)
        call = dataclasses.replace(probe(TINY, "cpu"), q=q, k=kv[0], k_scale=kv[1], w=weights, k_start=start, k_end=end)
        return torch_scores(call)

    monkeypatch.setitem(sys.modules, "deep_gemm", types.SimpleNamespace(fp8_mqa_logits=fp8_mqa_logits))
    scorer.cache_clear()
    call = probe(TINY, "cpu")
    native = Native("deep_gemm", "torch_topk", TINY.top_k)
    assert all(c.passed for c in check_selection(call, native.select(call), TINY.top_k))
    assert torch.equal(scorer("deep_gemm")(call, False), torch_scores(call))
    assert seen == [True, False]
    scorer.cache_clear()


def test_our_own_kernels_select_as_many_as_the_model_asks_for() -> None:
    assert load_kernel(shipped_root(), "index_topk").resolve_flags({})["K"] == CONFIGS["h200"].top_k


def test_native_on_a_cpu_and_sizes_that_are_refused() -> None:
    found = choose_native("cpu", TINY, {})
    assert (found.scorer, found.selector, found.top_k) == (NATIVE.scorer, NATIVE.selector, TINY.top_k)
    assert {s.top_k for s in CONFIGS.values()} == {2048, 64, 16}
    for length in (0, 31, 40):
        with pytest.raises(InputError, match="multiples of the chunk of 32"):
            TINY.check_length(length)
    with pytest.raises(InputError, match="'huge' is not known; there are: h200, cpu, tiny"):
        sizes("huge")
    with pytest.raises(InputError, match="--layers 0"):
        make_bench("tiny", 64, 0, "cpu", 1)
    with pytest.raises(InputError, match="--device gpu"):
        make_bench("tiny", 64, None, "gpu", 1)
