"""Matrices that were captured elsewhere, from a .npy or .safetensors file.

In: a file with `scores` [rows, columns] (a .npy is just that), or FP8 `q` [rows, 64, 128], `k` [columns, 128] and `w`
[rows, 64] of an indexer; `k_scale` [columns], `k_start` and `k_end` [rows] when they are there.
Out: arrays cut to the shape that was asked for; `FILES` says which distribution of this process is which file.
Misuse: a cut matrix keeps its first columns and its last rows; nothing is repeated to fill a larger shape.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from attribution.declare import Shape
from attribution.errors import DataError, InputError

FILES: dict[str, Path] = {}
"""Distribution -> file.  Set by who runs the selectors, before inputs are made."""
DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "I64": np.int64, "I32": np.int32,
}  # fmt: skip
LONGEST_HEADER = 1 << 20
HEADS, DIM = 64, 128


def read(path: Path) -> dict[str, Any]:
    """The arrays of the file, mapped, not loaded.  Raises InputError when it is not there, DataError when it is damaged."""
    if path.suffix not in (".npy", ".safetensors"):
        raise InputError(f"{path} is no captured matrix: allowed are .npy and .safetensors")
    if not path.is_file():
        raise InputError(
            f"{path} is not there: give a .npy or .safetensors file with `scores`, or with `q`, `k` and `w`"
        )
    if path.suffix == ".npy":
        try:
            return {"scores": np.load(path, mmap_mode="r", allow_pickle=False)}
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path} is no .npy file of numbers: {error}") from error
    return {name: _mapped(path, name, *place) for name, place in _header(path).items()}


def _header(path: Path) -> dict[str, tuple[str, tuple[int, ...], int, int]]:
    """Name -> type, shape, first byte and the byte behind the last.  Raises DataError."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(LONGEST_HEADER, size - 8):
            raise DataError(
                f"{path} is no .safetensors file: its header of {length} bytes does not fit its {size} bytes"
            )
        raw = file.read(length)
    try:
        facts = json.loads(raw)
        facts.pop("__metadata__", None)
        places = {
            str(n): (
                str(f["dtype"]),
                tuple(int(s) for s in f["shape"]),
                *(8 + length + int(o) for o in f["data_offsets"]),
            )
            for n, f in facts.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} has a damaged .safetensors header: {type(error).__name__}: {error}") from error
    for name, (dtype, shape, *ends) in places.items():
        if dtype not in DTYPES:
            raise DataError(f"{path}: {name} has type {dtype}; allowed are {', '.join(DTYPES)}")
        room = math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
        if (
            len(ends) != 2
            or min(shape, default=0) < 0
            or not 0 <= ends[0] <= ends[1] <= size
            or ends[1] - ends[0] != room
        ):
            raise DataError(f"{path}: {name} of shape {list(shape)} does not fit its place in the file of {size} bytes")
    return places  # type: ignore[return-value]


def _mapped(path: Path, name: str, dtype: str, shape: tuple[int, ...], begin: int, end: int) -> Any:
    if begin == end:
        raise DataError(f"{path}: {name} is empty")
    return np.memmap(path, np.uint8, "r", begin, (end - begin,)).view(DTYPES[dtype]).reshape(shape)


def too_small(path: Path, shape: Shape) -> str:
    """Why the file cannot be cut to the shape, '' when it can.  Raises InputError, DataError."""
    found = read(path)
    size = found["scores"].shape if "scores" in found else [len(found.get(name, ())) for name in "qk"]
    for name, has in zip(("rows", "columns"), size, strict=False):
        if shape[name] > has:
            return f"{path.name} has {has} {name} and {shape[name]} were asked for: choose at most {has}"
    return ""


def label(path: Path) -> str:
    """What the file says it is (`label` in a .safetensors header's metadata), '' when it says nothing."""
    if path.suffix != ".safetensors":
        return ""
    _header(path)
    with path.open("rb") as file:
        facts = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return str((facts.get("__metadata__") or {}).get("label", ""))


def operands(path: Path, shape: Shape) -> dict[str, Any] | None:
    """index_topk's inputs, cut to the shape, or None when the file holds scores.  Raises InputError, DataError."""
    found = read(path)
    if "scores" in found:
        return None
    if absent := [name for name in ("q", "k", "w") if name not in found]:
        raise DataError(f"{path} has neither `scores` nor `{absent[0]}`; it has: {', '.join(found) or 'nothing'}")
    rows, columns = len(found["q"]), len(found["k"])
    for name, wanted in {"q": (rows, HEADS, DIM), "k": (columns, DIM), "w": (rows, HEADS)}.items():
        if found[name].shape != wanted:
            raise DataError(f"{path}: {name} has shape {list(found[name].shape)}; allowed is {list(wanted)}")
    last, first = _cut(path, (rows, columns), shape)
    fp8 = ml_dtypes.float8_e4m3fn
    ends = found.get("k_end", np.full(rows, columns, np.int32))
    return {
        "q": np.array(found["q"][last], fp8),
        "k": np.array(found["k"][first], fp8),
        "k_scale": np.array(found.get("k_scale", np.ones(columns, np.float32))[first], np.float32),
        "w": np.array(found["w"][last], np.float32),
        "k_start": np.array(found.get("k_start", np.zeros(rows, np.int32))[last], np.int32),
        "k_end": np.minimum(ends[last], shape["columns"]).astype(np.int32),
    }


def matrix(path: Path, shape: Shape) -> dict[str, Any]:
    """scores, start, end as numpy arrays; scores of operands are computed here, in float32.  Raises InputError, DataError."""
    given = operands(path, shape)
    if given is None:
        return stored(path, shape)
    scores = np.empty((shape["rows"], shape["columns"]), np.float32)
    keys = given["k"].astype(np.float32).T
    for row in range(shape["rows"]):
        dots = np.maximum(given["q"][row].astype(np.float32) @ keys, 0)
        scores[row] = (given["w"][row] @ dots) * given["k_scale"]
    return bounded(scores, given["k_start"], given["k_end"])


def stored(path: Path, shape: Shape) -> dict[str, Any]:
    """The matrix of a file that holds scores.  Raises InputError, DataError."""
    scores = read(path)["scores"]
    if scores.ndim != 2 or scores.dtype.kind not in "fV" or scores.dtype.itemsize > 8:
        raise DataError(
            f"{path}: scores are {scores.dtype} of shape {list(scores.shape)}; allowed are floats [rows, columns]"
        )
    last, first = _cut(path, scores.shape, shape)
    cut = np.array(scores[last, first], np.float32)
    if np.isnan(cut).any():
        raise DataError(
            f"{path}: {int(np.isnan(cut).sum())} scores are NaN, which no selector orders: capture them again"
        )
    ends = np.full(len(cut), cut.shape[1], np.int32)
    return {"scores": cut, "start": np.zeros_like(ends), "end": ends}


def bounded(scores: Any, start: Any, end: Any) -> dict[str, Any]:
    """-inf outside the bounds."""
    at = np.arange(scores.shape[1])
    scores[(at < start[:, None]) | (at >= end[:, None])] = -np.inf
    return {"scores": scores, "start": start, "end": end}


def _cut(path: Path, there: tuple[int, int], shape: Mapping[str, int]) -> tuple[slice, slice]:
    """The last rows and the first columns.  Raises InputError when the file has too few."""
    if reason := too_small(path, shape):
        raise InputError(reason)
    return slice(there[0] - shape["rows"], there[0]), slice(0, shape["columns"])
