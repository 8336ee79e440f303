"""The unfused pipelines that index_topk is compared with: a scorer that writes the matrix, then a selector.

In: torch tensors by name, K.  Out: a function that runs one complete pipeline on torch's current stream.
The scorers write only inside their tiles: where a selector follows, the matrix is filled with -inf once.
Misuse: `deep_gemm` is somebody else's wheel and builds with nvcc at its first call; warm up before timing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def own_unfused(store: Any, k_top: int) -> Callable[[], Any]:
    """Our STORE_SCORES scorer (an Operator made with that flag), then torch.topk of its matrix."""
    import torch

    def run() -> Any:
        store.run()
        return torch.topk(store.scores, min(k_top, store.scores.shape[1]), dim=1, sorted=False)

    return run


def deep_gemm_scorer(inputs: Mapping[str, Any], clean: bool = False) -> Callable[[], Any]:
    """DeepGEMM's `fp8_mqa_logits` alone: writes the matrix, selects nothing.  Raises ImportError when it is absent.

    `clean`: also -inf outside each row's bounds, which a selector that knows no bounds needs.
    """
    import deep_gemm

    def run() -> Any:
        return deep_gemm.fp8_mqa_logits(
            inputs["q"],
            (inputs["k"], inputs["k_scale"]),
            inputs["w"],
            inputs["k_start"],
            inputs["k_end"],
            clean_logits=clean,
        )

    return run


def deep_gemm_unfused(inputs: Mapping[str, Any], k_top: int) -> Callable[[], Any]:
    """DeepGEMM's scorer with cleaned logits, then torch.topk.  Raises ImportError when it is absent."""
    import torch

    score = deep_gemm_scorer(inputs, clean=True)

    def run() -> Any:
        scores = score()
        return torch.topk(scores, min(k_top, scores.shape[1]), dim=1, sorted=False)

    return run
