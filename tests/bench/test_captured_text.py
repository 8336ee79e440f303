"""The maker of captured inputs: its tokens, its arithmetic, and its file, without the model."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from attribution.load import load_kernel, module_of
from bench import captured_text as maker

VOCABULARY = {
    name: i for i, name in enumerate(["[UNK]", "[CLS]", "[SEP]", "def", "##ault", "de", ".", "_", "caf", "##e", "a"])
}


def test_words_are_lower_case_without_accents_and_split_at_punctuation() -> None:
    assert list(maker.words("Café __init__  a.b")) == ["cafe", "_", "_", "init", "_", "_", "a", ".", "b"]


def test_pieces_are_the_longest_that_are_known() -> None:
    names = {i: name for name, i in VOCABULARY.items()}
    assert [names[i] for i in maker.pieces("default", VOCABULARY)] == ["def", "##ault"]
    assert [names[i] for i in maker.pieces("cafe", VOCABULARY)] == ["caf", "##e"]
    assert [names[i] for i in maker.pieces("defx", VOCABULARY)] == ["[UNK]"]


def test_a_layer_is_attention_and_a_network_with_residuals() -> None:
    rng, width = np.random.default_rng(0), maker.HEADS * maker.WIDTH
    weights, name = {}, "encoder.layer.0"
    for part_, rows, columns in [
        *((f"attention.self.{p}", width, width) for p in ("query", "key", "value")),
        ("attention.output.dense", width, width), ("intermediate.dense", 2 * width, width), ("output.dense", width, 2 * width),
    ]:  # fmt: skip
        weights[f"{name}.{part_}.weight"] = rng.standard_normal((rows, columns)).astype(np.float32) / 20
        weights[f"{name}.{part_}.bias"] = rng.standard_normal(rows).astype(np.float32)
    for part_ in ("attention.output.LayerNorm", "output.LayerNorm"):
        weights[f"{name}.{part_}.weight"] = np.ones(width, np.float32)
        weights[f"{name}.{part_}.bias"] = np.zeros(width, np.float32)
    x = rng.standard_normal((5, width)).astype(np.float32)
    found = maker.Encoder(weights).block(name, x)
    w = {key.removeprefix(f"{name}."): value.astype(np.float64) for key, value in weights.items()}

    def linear(part_: str, a: np.ndarray) -> np.ndarray:
        return a @ w[f"{part_}.weight"].T + w[f"{part_}.bias"]

    def norm(a: np.ndarray) -> np.ndarray:
        return (a - a.mean(1, keepdims=True)) / a.std(1, keepdims=True)

    q, k, v = (linear(f"attention.self.{p}", x.astype(np.float64)) for p in ("query", "key", "value"))
    seen = np.empty_like(q)
    for head in range(maker.HEADS):
        at = slice(head * maker.WIDTH, (head + 1) * maker.WIDTH)
        for row in range(5):
            weight = np.exp(k[:, at] @ q[row, at] / np.sqrt(maker.WIDTH))
            seen[row, at] = weight @ v[:, at] / weight.sum()
    middle = norm(x + linear("attention.output.dense", seen))
    wide = linear("intermediate.dense", middle)
    from math import erf

    gelu = wide * (np.vectorize(erf)(wide / np.sqrt(2)) + 1) / 2
    assert found == pytest.approx(norm(middle + linear("output.dense", gelu)), abs=1e-4)


def test_fp8_keeps_each_vector_up_to_its_scale() -> None:
    x = np.random.default_rng(1).standard_normal((4, 128)).astype(np.float32) * np.array(
        [[1e-3], [1], [50], [0]], np.float32
    )
    values, scale = maker._fp8(x)
    assert values.dtype == ml_dtypes.float8_e4m3fn
    back = values.astype(np.float32) * scale[:, None]
    # Three bits behind the point: half a step is a sixteenth; below 2^-6 of the vector's size steps are even.
    assert (np.abs(back - x) <= np.abs(x) / 16 + scale[:, None] * 2.0**-9).all()
    assert not back[3].any()


def test_the_file_reads_back(root: Path, tmp_path: Path) -> None:
    arrays = {"scores": np.arange(12, dtype=np.float32).reshape(3, 4)}
    maker.write(tmp_path / "a.safetensors", arrays, "mine")
    captured = module_of(load_kernel(root, "selectors"), "captured")
    assert captured.label(tmp_path / "a.safetensors") == "mine"
    assert (captured.read(tmp_path / "a.safetensors")["scores"] == arrays["scores"]).all()
    assert json.loads((tmp_path / "a.safetensors").read_bytes()[8:].split(b"}}")[0] + b"}}")["scores"]["shape"] == [
        3,
        4,
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_text_that_is_too_short_says_so() -> None:
    with pytest.raises(SystemExit, match="choose fewer --columns"):
        maker.tokens({**VOCABULARY, **{chr(c): c for c in range(97, 123)}}, 10**9)
