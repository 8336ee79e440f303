"""The selectors of a GPU, each as a step that leaves its indices behind.

In: a `Problem` on the card.  Out: `Made`: what to run, and its output (`indices`; `values` from those that know no bounds).
A selector's libraries are imported here, when it is made; one that is absent or refuses the problem raises, and its runs
are then failed rows with the reason.
Misuse: what can be made before a run (outputs, lengths, scratch) is; what a library allocates itself is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from attribution.errors import InputError
from attribution.kernels import loaded
from attribution.launch import Operator
from attribution.load import load_kernel, module_of, shipped_root
from attribution.measure.prepared import Prepared


@dataclass(frozen=True)
class Problem:
    """scores f32 [rows, columns], start and end int32 [rows], all CUDA tensors; k."""

    scores: Any
    start: Any
    end: Any
    k: int

    def indices(self) -> Any:
        """An output for those that take one: int32 [rows, k]."""
        import torch

        return torch.empty((len(self.scores), self.k), dtype=torch.int32, device=self.scores.device)


@dataclass(frozen=True)
class Made:
    """One selection that is ready to run; limits: what counts the rows that had to be selected again, as `Operator` has it."""

    run: Callable[[], Any]
    output: Mapping[str, Any]
    limits: Mapping[str, Callable[[], tuple[int, int]]] = field(default_factory=dict)


def torch_topk(problem: Problem) -> Made:
    """It writes 64-bit indices and the values; turning them into what the others write is not timed."""
    import torch

    shape, device = (len(problem.scores), problem.k), problem.scores.device
    values = torch.empty(shape, device=device)
    places = torch.empty(shape, dtype=torch.int64, device=device)
    return Made(
        lambda: torch.topk(problem.scores, problem.k, dim=1, sorted=False, out=(values, places)),
        {"indices": places, "values": values},
    )


def flashinfer(problem: Problem) -> Made:
    """The two ways that `flashinfer.top_k_ragged_transform` takes on a Hopper card, by its own choice at each call.

    That function allocates its output; copying it would not be its time, so what it calls is called here.
    """
    import torch
    from flashinfer import topk as library

    module, scores, out = library.get_topk_module(), problem.scores, problem.indices()
    lengths, starts = problem.end - problem.start, problem.start.clone()
    states = torch.zeros(1 << 20, dtype=torch.uint8, device=out.device)
    starts_or_none = starts if bool(starts.any()) else None
    rows, columns = scores.shape
    room = None
    if library.can_use_cub_topk(None, scores, 0, False):
        needed = module.cub_topk_ragged_transform_workspace_size(
            scores, lengths, problem.k, 0, starts_or_none is not None
        )
        room = torch.empty(needed, dtype=torch.uint8, device=out.device)

    def run() -> None:
        way = library.is_cub_ragged_transform_beneficial  # asks whether a graph is being captured
        if room is not None and way(None, rows, columns, scores.dtype, 0, False, False):
            module.cub_topk_ragged_transform(scores, out, starts, lengths, room, problem.k, 0, starts_or_none)
        else:
            module.radix_topk_ragged_transform(
                scores, out, starts, lengths, states, problem.k, False, 0, False, row_starts=starts_or_none
            )

    return Made(run, {"indices": out})


def deepselect(problem: Problem) -> Made:
    import deep_select
    import torch

    if bool(problem.start.any()):
        raise InputError("deepselect selects from rows that start at column zero only: choose another selector")
    stride, needed = problem.scores.stride(0) * problem.scores.element_size(), deep_select.get_stride_requirement()[0]
    if stride % needed:
        raise InputError(f"deepselect: row stride of {stride} bytes; allowed is a multiple of {needed}")
    out = problem.indices()

    def run() -> None:
        deep_select.topk(
            problem.scores, problem.k, end=problem.end, indices_type=torch.int32, output_idx=out,
            idx_oob_fill_value=-1, return_value=False, abort_when_nan_found=False,
        )  # fmt: skip

    return Made(run, {"indices": out})


def vllm_per_row(problem: Problem) -> Made:
    """The prefill kernel of vLLM's sparse indexer; its indices are relative to a row's start."""
    import torch
    import vllm._custom_ops  # noqa: F401  registers torch.ops._C

    if bool(problem.start.any()):
        raise InputError("vllm_per_row: its indices count from a row's start: choose rows that start at column zero")
    out, scores = problem.indices(), problem.scores

    def run() -> None:
        torch.ops._C.top_k_per_row_prefill(
            scores, problem.start, problem.end, out, len(scores), scores.stride(0), scores.stride(1), problem.k
        )

    return Made(run, {"indices": out})


def _ours(**flags: str) -> Callable[[Problem], Made]:
    """kernels/topk as it is tuned for the width, or with these flags and otherwise as it is declared.

    Made once, as any kernel that is measured: checking its arguments at each call takes the host longer than the card.
    """

    def make(problem: Problem) -> Made:
        kernel, out = load_kernel(shipped_root(), "topk"), problem.indices()
        operator = module_of(kernel, "operator")
        overrides = {**(flags or operator.tuned(problem.scores.shape[1])), "K": problem.k}
        resolved, module = loaded(kernel.folder, tuple(sorted(overrides.items())), out.device.index)
        made = operator.make(problem.scores, problem.start, problem.end, resolved, out=out)
        prepared = Prepared(kernel, Operator((made.launch,), {"indices": out}), module)
        return Made(prepared.run, {"indices": out}, module_of(kernel, "gpu").limits(made.report))

    return make


SELECTORS: Mapping[str, Callable[[Problem], Made]] = {
    "torch_topk": torch_topk,
    "our_topk": _ours(),
    "our_histogram": _ours(ALGORITHM="histogram"),
    "flashinfer": flashinfer,
    "deepselect": deepselect,
    "vllm_per_row": vllm_per_row,
}
