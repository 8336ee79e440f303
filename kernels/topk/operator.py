"""How topk runs on a GPU: its one launch as a value, and `topk`, a function on torch tensors.

In: torch tensors; flags.  Out: int32 [Q, K], columns in any order, then -1 where a row has fewer than K keys.
Order: float32 by its bits, -0 below +0, and NaN above +inf, as torch.topk has it on a GPU.  Bounds are read on the device,
so a captured launch follows bounds that change in place; what lies outside of [0, columns) is left out.
Misuse: `scores` need not be contiguous, but the elements of a row must be; nothing is checked that would need a
synchronization.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attribution.launch import TRACE, Launch, Operator

LIST_SLOTS = 16
"""Candidates that a thread keeps in `online` and `heap`."""
SMEM_MOST_BYTES = 232_448
"""Dynamic shared memory that a block of sm_90 may ask for; less elsewhere, which the launch then says."""
SHORT_COLUMNS = 32768
COLUMNS_MOST = 1 << 24
K_ALLOWED = (512, 1024, 2048)


def bins(flags: Mapping[str, Any]) -> int:
    """Bins of one radix pass."""
    if flags["RADIX"] == "bytes":
        return 256
    return 512 if int(flags["CANDIDATE_CAPACITY"]) > 8192 else 4 * int(flags["THREADS"])


def smem_bytes(flags: Mapping[str, Any]) -> int:
    """sizeof(shape::Shared): bins, 40 words of scratch, an index and perhaps the bits of each candidate."""
    capacity = int(flags["CANDIDATE_CAPACITY"])
    return 4 * bins(flags) + 160 + 4 * capacity + (16 if flags["STORAGE"] == "index" else 4 * capacity)


def least_capacity(flags: Mapping[str, Any]) -> int:
    """Candidates that a CTA must be able to hold: the lists of all threads, or a row that is too short to be sampled."""
    threads, k = int(flags["THREADS"]), int(flags["K"])
    if flags["ALGORITHM"] in ("online", "heap"):
        return max(threads * LIST_SLOTS, k)
    return 2 * max(4 * threads, k)


@dataclass(frozen=True)
class Made:
    """One launch and what it writes: out int32 [Q, K]; report int32 [Q, 2], candidates and why a row was selected again."""

    launch: Launch
    out: Any
    report: Any


def make(scores: Any, start: Any, end: Any, flags: Mapping[str, Any], ctas: int = 0, out: Any = None) -> Made:
    """The launch for these tensors.  ctas: persistent CTAs; 0 is one a row.  Raises ValueError, see `validate`."""
    import torch

    k = int(flags["K"])
    validate(scores, start, end, k, out)
    rows, columns = scores.shape
    if out is None:
        out = torch.empty((rows, k), dtype=torch.int32, device=scores.device)
    report = torch.empty((rows, 2), dtype=torch.int32, device=scores.device)
    args = (scores, start, end, out, report, np.int32(rows), np.int32(columns), np.int64(scores.stride(0)), TRACE)
    grid = (max(1, min(rows, ctas or rows)), 1, 1)
    return Made(Launch("main", "topk", grid, int(flags["THREADS"]), smem_bytes(flags), args), out, report)


def validate(scores: Any, start: Any, end: Any, k: int, out: Any = None) -> None:
    """Raises ValueError naming the argument, its value and what is allowed.  Does not read device memory."""
    import torch

    if k not in K_ALLOWED:
        raise ValueError(f"k = {k}: allowed are {', '.join(map(str, K_ALLOWED))}")
    if scores.dim() != 2 or scores.dtype != torch.float32:
        raise ValueError(f"scores is {scores.dtype} of shape {tuple(scores.shape)}: allowed is float32 [Q, N]")
    rows, columns = scores.shape
    if scores.device.type != "cuda":
        raise ValueError(f"scores is on {scores.device}: allowed is a CUDA device")
    if not 1 <= columns <= COLUMNS_MOST or rows < 1:
        raise ValueError(f"scores has shape {tuple(scores.shape)}: allowed are Q >= 1 and 1 <= N <= {COLUMNS_MOST}")
    if (columns > 1 and scores.stride(1) != 1) or (rows > 1 and scores.stride(0) < columns):
        raise ValueError(
            f"scores has strides {scores.stride()}: allowed are rows whose elements lie together and that do not overlap"
        )
    wanted: dict[str, tuple[Any, tuple[int, ...]]] = {"start": (start, (rows,)), "end": (end, (rows,))}
    if out is not None:
        wanted["out"] = (out, (rows, k))
    for name, (tensor, shape) in wanted.items():
        if tensor.dtype != torch.int32 or tuple(tensor.shape) != shape or not tensor.is_contiguous():
            raise ValueError(
                f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}, strides {tensor.stride()}: "
                f"allowed is contiguous int32 {list(shape)}"
            )
        if tensor.device != scores.device:
            raise ValueError(f"{name} is on {tensor.device}: allowed is the device of scores, {scores.device}")


def tuned(columns: int) -> dict[str, Any]:
    """Overrides of the declared flags that are best for rows of this width on an H200: short rows like small CTAs."""
    return {"THREADS": 256} if columns <= SHORT_COLUMNS else {}


def topk(scores: Any, start: Any, end: Any, k: int, out: Any = None, flags: Mapping[str, Any] | None = None) -> Any:
    """The k largest of every row of scores [Q, N] inside columns [start, end), exact, on torch's current stream.

    start, end: int32 [Q].  out: int32 [Q, k], or None for a new one.  flags: instead of `tuned`.
    Returns out: columns in any order, then -1 in rows with fewer than k.  Can be captured in a CUDA Graph after one call.
    Raises ValueError for arguments that are not allowed, BuildError when the kernel does not compile for this GPU.
    """
    import torch

    from attribution.kernels import loaded
    from attribution.measure.prepared import Prepared

    from . import KERNEL

    validate(scores, start, end, k, out)
    with torch.cuda.device(scores.device):
        chosen = tuned(scores.shape[1]) if flags is None else flags
        overrides = tuple(sorted({**chosen, "K": k}.items()))
        resolved, module = loaded(KERNEL.folder, overrides, torch.cuda.current_device())
        made = make(scores, start, end, resolved, out=out)
        Prepared(KERNEL, Operator((made.launch,), {"indices": made.out}), module).run()
    return made.out
