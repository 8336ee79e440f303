"""The shipped kernels as functions on torch tensors, built for the GPU that the tensors are on.

    from attribution.kernels import index_topk, topk

In: CUDA tensors.  Out: CUDA tensors, filled on torch's current stream; nothing waits for it.
The first call with a K on a device builds and loads (seconds; builds stay on disk): make it before a capture in a CUDA Graph.
A captured call follows what changes in its tensors.
Misuse: scratch memory is taken from torch at each call: two calls on two streams do not share it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution.declare import FlagValue, Kernel
from attribution.errors import MeasureError
from attribution.load import load_kernel, module_of, shipped_root

if TYPE_CHECKING:
    from attribution.measure.prepared import Module

STORE_SCORES: Mapping[str, FlagValue] = {"STORE_SCORES": True, "FILTER": False, "SELECT": False, "EMIT": False}


def index_topk(
    q: Any,
    k: Any,
    k_scale: Any,
    w: Any,
    k_start: Any,
    k_end: Any,
    k_top: int = 2048,
    *,
    out: Any = None,
    check_bounds: bool = True,
) -> Any:
    """The k_top keys of each row with the best indexer scores, exact: k_scale * sum over heads of w * ReLU(q . k).

    q: fp8 e4m3 [Q, 64, 128].  k: fp8 e4m3 [N, 128], N a multiple of 128.  k_scale: f32 [N].  w: f32 [Q, 64].
    k_start, k_end: int32 [Q]; row t sees the keys [k_start, k_end).  k_top: 512, 1024 or 2048.
    Returns int32 [Q, k_top] (`out`, if given): keys in any order, then -1 in rows that have fewer.
    check_bounds: reads the bounds back, and so waits for the stream; without it, bounds are cut to [0, N].
    Raises ValueError naming the argument, MeasureError where the GPU is no Hopper, BuildError.
    """
    inputs = {"q": q, "k": k, "k_scale": k_scale, "w": w, "k_start": k_start, "k_end": k_end}
    kernel = load_kernel(shipped_root(), "index_topk")
    _check(kernel, inputs, k_top, out, check_bounds)
    return _run(kernel, inputs, {"K": k_top}, out).output


def index_scores(inputs: Mapping[str, Any]) -> Any:
    """The scores that index_topk selects from: f32 [Q, N], -inf outside the bounds.  inputs: as index_topk's, by name."""
    kernel = load_kernel(shipped_root(), "index_topk")
    _check(kernel, inputs, 2048, None, False)
    return _run(kernel, inputs, STORE_SCORES, None).scores


def topk(scores: Any, start: Any, end: Any, k: int, out: Any = None) -> Any:
    """The k largest of every row of scores f32 [Q, N] inside columns [start, end), exact; start, end: int32 [Q].

    Returns int32 [Q, k] (`out`, if given): columns in any order, then -1.  Raises ValueError naming the argument, BuildError.
    """
    _check_int("k", k)
    return module_of(load_kernel(shipped_root(), "topk"), "operator").topk(scores, start, end, k, out)


def _check(kernel: Kernel, inputs: Mapping[str, Any], k_top: int, out: Any, check_bounds: bool) -> None:
    """Raises ValueError, MeasureError."""
    for name in ("q", "k", "k_scale", "w", "k_start", "k_end"):
        if not hasattr(value := inputs.get(name), "data_ptr"):
            raise ValueError(f"{name} is of type {type(value).__name__}; allowed is a torch tensor on a CUDA device")
    _check_int("k_top", k_top)
    checks = module_of(kernel, "validate")
    checks.validate(inputs, k_top, out)
    import torch

    device = inputs["q"].device
    major, minor = torch.cuda.get_device_capability(device)
    if major != 9:
        raise MeasureError(
            f"index_topk needs a Hopper GPU (sm_90), and {device} is {torch.cuda.get_device_name(device)} (sm_{major}{minor}): "
            "`attr run --kernel index_topk --machine host` runs the same algorithm on the CPU"
        )
    if check_bounds:
        if torch.cuda.is_current_stream_capturing():
            raise ValueError(
                "check_bounds = True in a capture: allowed is False, because bounds cannot be read back there"
            )
        checks.validate_bounds(inputs["k_start"], inputs["k_end"], inputs["k"].shape[0])


def _check_int(name: str, value: object) -> None:
    """Raises ValueError for what only equals an integer: 512.0 names no build."""
    if type(value) is not int:
        raise ValueError(f"{name} = {value!r} is of type {type(value).__name__}; allowed is an int")


def _run(kernel: Kernel, inputs: Mapping[str, Any], overrides: Mapping[str, FlagValue], out: Any) -> Any:
    """Make and enqueue an operator of index_topk; returns it."""
    import torch

    from attribution.measure.prepared import Prepared

    with torch.cuda.device(inputs["q"].device):
        flags, module = loaded(kernel.folder, tuple(sorted(overrides.items())), torch.cuda.current_device())
        made = module_of(kernel, "operator").make(inputs, flags, {}, out)
        Prepared(kernel, made.steps(), module).run()
    return made


@functools.cache
def loaded(
    folder: Path, overrides: tuple[tuple[str, FlagValue], ...], device: int
) -> tuple[dict[str, FlagValue], Module]:
    """Resolved flags, and the kernel of `folder` built for and loaded on `device`, which is current.

    Raises InputError, BuildError.
    """
    from cuda.core import Device

    from attribution.build import build
    from attribution.measure.prepared import Module

    here = Device(device)
    here.set_current()
    major, minor = here.compute_capability.major, here.compute_capability.minor
    kernel = load_kernel(folder.parents[1], folder.name)
    flags = kernel.resolve_flags(dict(overrides))
    return flags, Module(build(kernel, flags, f"sm_{major}{minor}" + ("a" if major == 9 else "")))
