"""Which tensors index_topk takes: a ValueError that names the argument, its value and what is allowed.

In: torch tensors, of which only attributes are read, never device memory (but for `validate_bounds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .sizes import DIM, HEADS, K_ALLOWED, KEYS_MOST

ALIGNED_BYTES = 16


def validate(inputs: Mapping[str, Any], k_top: int, out: Any = None) -> None:
    """q [Q, 64, 128], k [N, 128] fp8 e4m3; k_scale [N], w [Q, 64] f32; k_start, k_end [Q] int32; out int32 [Q, k_top] or None.

    All on one CUDA device, contiguous, aligned to 16 bytes.  Raises ValueError.
    """
    q, k = inputs["q"], inputs["k"]
    if len(q.shape) != 3 or q.shape[0] < 1 or tuple(q.shape[1:]) != (HEADS, DIM):
        raise ValueError(f"q has shape {tuple(q.shape)}: allowed is [Q, {HEADS}, {DIM}] with Q >= 1")
    if len(k.shape) != 2 or k.shape[1] != DIM or k.shape[0] % 128 or not 128 <= k.shape[0] <= KEYS_MOST:
        raise ValueError(f"k has shape {tuple(k.shape)}: allowed is [N, {DIM}], N a multiple of 128 up to {KEYS_MOST}")
    if k_top not in K_ALLOWED:
        raise ValueError(f"k_top = {k_top}: allowed are {', '.join(map(str, K_ALLOWED))}")
    rows, keys = q.shape[0], k.shape[0]
    wanted: dict[str, tuple[str, tuple[int, ...]]] = {
        "q": ("float8_e4m3fn", (rows, HEADS, DIM)),
        "k": ("float8_e4m3fn", (keys, DIM)),
        "k_scale": ("float32", (keys,)),
        "w": ("float32", (rows, HEADS)),
        "k_start": ("int32", (rows,)),
        "k_end": ("int32", (rows,)),
    }
    for name, (dtype, shape) in wanted.items():
        _one(name, inputs[name], dtype, shape, q.device)
    if out is not None:
        _one("out", out, "int32", (rows, k_top), q.device)


def _one(name: str, tensor: Any, dtype: str, shape: tuple[int, ...], device: Any) -> None:
    """Raises ValueError.  Types are compared by their names, which needs no torch."""
    if str(tensor.dtype) != f"torch.{dtype}":
        raise ValueError(f"{name} has dtype {tensor.dtype}: allowed is torch.{dtype}")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: allowed is {shape}")
    if tensor.device.type != "cuda":
        raise ValueError(
            f"{name} is on {tensor.device}: allowed is a CUDA device; without one, "
            "`attr run --kernel index_topk --machine host` runs the same algorithm on the CPU"
        )
    if tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}: allowed is the device of q, {device}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} has strides {tuple(tensor.stride())}: allowed is contiguous")
    if tensor.data_ptr() % ALIGNED_BYTES:
        raise ValueError(f"{name} begins at address {tensor.data_ptr():#x}: allowed are multiples of {ALIGNED_BYTES}")


def validate_bounds(k_start: Any, k_end: Any, keys: int) -> None:
    """Raises ValueError for reversed bounds or bounds outside [0, N].  Reads device memory: synchronizes."""
    wrong = (k_start < 0) | (k_end < k_start) | (k_end > keys)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0][0])
        pair = int(k_start[row]), int(k_end[row])
        raise ValueError(f"k_start, k_end of row {row} are {pair}: allowed is 0 <= k_start <= k_end <= {keys}")
