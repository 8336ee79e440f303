"""Every pair of flag values is refused with a reason or compiles: all are judged by the declaration, a few are compiled."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from attribution.declare import FlagValue, Kernel
from attribution.errors import InputError
from attribution.load import load_kernel
from bench import pairs


@pytest.mark.parametrize("name", ["index_topk", "topk", "hello"])
def test_every_pair_is_legal_or_refused_with_a_reason(root: Path, name: str) -> None:
    kernel = load_kernel(root, name)
    legal = 0
    for pair in pairs.pairs(kernel):
        try:
            kernel.resolve_flags(pair)
            legal += 1
        except InputError as error:
            assert "flags refused: " in str(error), pair
    assert legal > 0


@pytest.mark.parametrize(
    "one",
    [{"SCAN": "reserved", "BLOCK_Q": 1}, {"LAYOUT": "split", "REDUCE": False}, {"KV_STAGES": 3, "TRACE": 2}],
    ids=str,
)
def test_pairs_are_among_them_and_completed(index_topk: Kernel, one: dict[str, FlagValue]) -> None:
    found = [p for p in pairs.pairs(index_topk) if one.items() <= p.items()]
    assert found
    assert index_topk.resolve_flags(found[0])


def test_a_few_pairs_compile(index_topk: Kernel) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason='needs `pip install "attribution[cuda]"`')
    for pair in random.Random(8).sample(list(pairs.pairs(index_topk)), 4):
        assert pairs.judged("index_topk", pair) in ("compiles", "refused"), pair


def test_a_planted_error_is_said() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason='needs `pip install "attribution[cuda]"`')
    assert "static assertion failed" in pairs.errors("static_assert(1 == 2);")
    assert pairs.errors("static_assert(1 == 1);") == ""
    assert bytearray(b" ")[0] == 32  # a log of one byte was written over Python's only one-byte space


def test_progress_is_shown_and_what_is_wrong_stands_behind_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Planted: a pair that names no flag."""
    pytest.importorskip("cuda.bindings.nvrtc", reason='needs `pip install "attribution[cuda]"`')
    monkeypatch.setattr(pairs, "kernel_names", lambda root: ["hello"])
    assert pairs.main() == 0
    seen = capsys.readouterr()
    assert "2/2" in seen.err
    assert seen.out == "2 pairs of flag values: 2 compiles\n"
    monkeypatch.setattr(pairs, "pairs", lambda kernel: [{}, {"NOT_A_FLAG": 1}])
    assert pairs.main() == 1
    seen = capsys.readouterr()
    assert "hello, 1 wrong" in seen.err
    assert seen.out.startswith("hello NOT_A_FLAG = 1:\nrefused without a reason: ")
