"""What a prefill measurement needs, made once for all input lengths: the stack, the native indexer, the fused one.

In: a configuration's name, the longest input, a device (`auto`, `cpu`, `cuda`).  Out: a `Bench`.
Misuse: one at a time on a GPU: the caches of the longest input and the weights fill a good part of it.
"""

from __future__ import annotations

from dataclasses import replace

from attribution.errors import InputError, MeasureError
from attribution.prefill.indexers import WithFallback, choose_fused, choose_native
from attribution.prefill.record import Bench
from attribution.prefill.sizes import sizes
from attribution.prefill.stack import Stack

WEIGHTS_SEED = 7


def make_bench(config: str, longest: int, layers: int | None, device: str, seed: int) -> Bench:
    """`layers` None takes the configuration's.  Raises InputError, MeasureError when torch, nvtx or a GPU is missing."""
    found = sizes(config)
    if layers is not None:
        if not 1 <= layers <= 64:
            raise InputError(f"--layers {layers}: allowed are 1 to 64")
        found = replace(found, layers=layers)
    found.check_length(longest)
    device = _device(device)
    if device == "cpu":
        import torch

        # CPU time of several threads is more than the time that passes.
        torch.set_num_threads(1)
    stack = Stack(found, longest, WEIGHTS_SEED, device)
    skipped: dict[str, str] = {}
    native = choose_native(device, found, skipped)
    name, fused = choose_fused(device)
    return Bench(config, found, stack, native, WithFallback(fused, native, found.top_k), name, skipped, seed)


def _device(asked: str) -> str:
    try:
        import torch
    except ImportError:
        raise MeasureError("torch is missing: install it with `pip install 'attribution[gpu]'`") from None
    if asked not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {asked}: allowed are auto, cpu and cuda")
    if asked == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no GPU; choose --device cpu")
    return "cuda" if asked != "cpu" and torch.cuda.is_available() else "cpu"
