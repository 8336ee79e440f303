"""The unfused pipelines that index_topk is compared with: a scorer that writes the matrix, then a selector.

In: an operator made with STORE_SCORES, torch tensors by name, flags.  Out: steps for torch's current stream.
The scorers write only inside their tiles: where a selector follows, the matrix is filled with -inf once.
Misuse: `deep_gemm` is somebody else's wheel and builds with nvcc at its first call; warm up before timing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attribution.declare import Flags
from attribution.errors import InputError
from attribution.launch import Call, Operator

from .operator import Made


def unfused(made: Made, inputs: Mapping[str, Any], flags: Flags) -> Operator:
    """SCORER, then SELECTOR.  Output: indices int32 [Q, K], -1 where a row has fewer keys.

    Raises InputError without DeepGEMM's wheel.
    """
    out = made.output
    held = [made.scores]  # DeepGEMM makes a matrix of its own at each call
    with_torch = flags["SELECTOR"] == "torch"
    own = flags["SCORER"] == "own"
    score = made.launches if own else (Call("main", _deep_gemm(held, inputs, clean=with_torch)),)
    select = _torch_topk(held, out, made.scores.shape[1]) if with_torch else _kernel_topk(held, inputs, out)
    return Operator((*score, Call("select", select)), {"indices": out})


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


def _deep_gemm(held: list[Any], inputs: Mapping[str, Any], clean: bool) -> Callable[[], None]:
    try:
        score = deep_gemm_scorer(inputs, clean)
    except ImportError as error:
        raise InputError(f"SCORER = deep_gemm: {error}: install DeepGEMM's wheel, or choose SCORER = own") from error

    def run() -> None:
        held[0] = score()

    return run


def _torch_topk(held: list[Any], out: Any, keys: int) -> Callable[[], None]:
    """torch.topk of the matrix of so many keys, with -1 where it ran out of them."""
    import torch

    chosen, beyond = out[:, :keys], out[:, keys:]
    values = torch.empty(chosen.shape, device=out.device)
    places = torch.empty(chosen.shape, dtype=torch.int64, device=out.device)

    def select() -> None:
        torch.topk(held[0], chosen.shape[1], dim=1, sorted=False, out=(values, places))
        places.masked_fill_(values == -torch.inf, -1)
        chosen.copy_(places)
        if beyond.shape[1]:
            beyond.fill_(-1)

    return select


def _kernel_topk(held: list[Any], inputs: Mapping[str, Any], out: Any) -> Callable[[], None]:
    """Our own selector: reads of each row what its bounds need."""
    from attribution.kernels import topk

    return lambda: topk(held[0], inputs["k_start"], inputs["k_end"], out.shape[1], out=out)
