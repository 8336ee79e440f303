"""How index_topk runs on a GPU: scratch memory, tensor maps, and the launches of every stage as values.

In: torch tensors, flags, knobs.  Out: `Made`, whose steps run in order on one stream without host synchronization; inputs may
change in place between runs.
Misuse: steps belong to their tensors' addresses; never run them while another run of them is in flight.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attribution.declare import Flags, Knobs
from attribution.launch import TRACE, Launch
from attribution.launch import Operator as Steps

from . import sizes
from .validate import validate

Z = 4.3
"""Deviations by which the expected candidates of a row stay above K: about one row in 10^5 falls below."""
LIMITS = {"underflow": 1, "segment": 2, "not_finite": 4}
"""Bits of `status`, as shape.cuh's `Why` has them.  With LAYOUT = shared the list that is full is the row's only one: `row`."""
SCRATCH_BYTES = 32 << 20
"""Scores of failed rows that are held at a time."""
Tensor = Any


@dataclass(frozen=True)
class Scratch:
    """Device memory beyond inputs and output; sizes in elements.  `_allocate` says which stage shares what."""

    sample_k: Tensor  # fp8 [samples, 128]
    sample_scale: Tensor  # f32 [samples]
    info: Tensor  # [Q rounded up to 4] of shape.cuh's Info
    sample_info: Tensor
    plan: Tensor  # int32 [ctas + 1, 2]: first batch of a CTA and tile inside it
    sample_plan: Tensor
    batches: Tensor  # int32 [batches, 4]: cost before it, first key, tiles, cost
    sample_batches: Tensor
    k_square: Tensor  # f32 [sms]: the largest squares of keys' norms, of parts of the keys
    status: Tensor  # int32 [Q]: 0, or why the row failed
    failed: Tensor  # int32 [Q]: rows to repair
    control: Tensor  # int32 [2]: number of failed rows; grid barrier
    checksum: Tensor  # int64 [1]
    counts: Tensor  # int32 [ctas, 2, BLOCK_Q, segments]: of batches that a CTA shares with a neighbour
    candidates: Tensor  # int64 [ctas, slots + 2, BLOCK_Q, row_room]: score bits, key
    scores: Tensor  # f32: of the sample, then of the rows that repair holds at a time


@dataclass(frozen=True)
class Made:
    """One operator: its launches, and what they leave behind.

    output: int32 [Q, K].  scores: f32 [Q, N] with STORE_SCORES, -inf outside the bounds.  status: int32 [Q], bits of LIMITS.
    """

    launches: tuple[Launch, ...]
    output: Tensor
    scores: Tensor
    scratch: Scratch
    store: bool
    shared: bool
    """Whether all candidates of a row share one list."""

    @property
    def status(self) -> Tensor:
        return self.scratch.status

    @property
    def checksum(self) -> Tensor:
        return self.scratch.checksum

    def steps(self) -> Steps:
        """The launches as the GPU worker takes them, and what may be read after a run."""
        output = {"status": self.status, "checksum": self.checksum}
        if self.store:
            return Steps(self.launches, output)
        counts = {("repair", "repaired_rows"): self.failed_rows}
        full = "row" if self.shared else "segment"
        named = {full if name == "segment" else name: bit for name, bit in LIMITS.items()}
        limits = {name: functools.partial(self.failed_by, bit) for name, bit in named.items()}
        return Steps(self.launches, {"indices": self.output, **output}, counts, limits)

    def failed_by(self, bit: int) -> tuple[int, int]:
        """Rows that failed by one of LIMITS in the last run, and all rows; synchronizes."""
        return int((self.status & bit != 0).sum().item()), self.status.numel()

    def failed_rows(self) -> int:
        """Rows that were repaired in the last run; synchronizes."""
        return int(self.scratch.control[0].item())


def _map(tensor: Tensor, box: int) -> Any:
    """Tensor map of rows of 128 bytes, `box` rows a load, 128-byte swizzle."""
    import torch
    from cuda.core._tensor_map import TensorMapL2Promotion, TensorMapSwizzle
    from cuda.core.utils import StridedMemoryView

    rows = tensor.view(torch.uint8).reshape(-1, sizes.DIM)
    view = StridedMemoryView.from_any_interface(rows, stream_ptr=-1)
    return view.as_tensor_map(
        box_dim=(box, sizes.DIM), swizzle=TensorMapSwizzle.SWIZZLE_128B, l2_promotion=TensorMapL2Promotion.L2_256B
    )


@dataclass(frozen=True)
class _Case:
    """What the stages share: inputs, flags, and numbers that follow from them and the device."""

    inputs: Mapping[str, Tensor]
    flags: Flags
    rows: int
    keys: int
    samples: int
    ctas: int
    sms: int
    seed: int

    @property
    def block_q(self) -> int:
        return int(self.flags["BLOCK_Q"])

    @property
    def repair_rows(self) -> int:
        """Rows whose scores repair holds at a time: whole batches."""
        fit = SCRATCH_BYTES // (4 * self.keys) // self.block_q * self.block_q
        return max(self.block_q, min(-(-self.rows // self.block_q) * self.block_q, fit))


def _allocate(case: _Case) -> Scratch:
    import torch

    flags, rows, block_q, device = case.flags, case.rows, case.block_q, case.inputs["q"].device
    store, batches, shares = bool(flags["STORE_SCORES"]), -(-rows // block_q), max(case.ctas, case.sms) + 1
    seg = sizes.segments(flags)
    candidates = 0 if store else case.ctas * (sizes.slots(flags) + 2) * block_q * sizes.row_room(flags) + sizes.WALK
    # The scores of the sample are dead when repair needs the room.
    held = 0 if store else max(rows * case.samples, case.repair_rows * case.keys)
    f32 = functools.partial(torch.empty, device=device, dtype=torch.float32)
    i32 = functools.partial(torch.empty, device=device, dtype=torch.int32)
    i64 = functools.partial(torch.empty, device=device, dtype=torch.int64)
    zeros = functools.partial(torch.zeros, device=device, dtype=torch.int32)
    info, sample_info = (i32((-(-rows // 4) * 4, sizes.INFO_BYTES // 4)) for _ in range(2))
    plan, sample_plan = (i32((shares, 2)) for _ in range(2))
    first, sample_first = (i32((batches, 4)) for _ in range(2))
    return Scratch(
        sample_k=torch.empty((case.samples, sizes.DIM), device=device, dtype=torch.uint8),
        sample_scale=f32(case.samples),
        info=info,
        sample_info=sample_info,
        plan=plan,
        sample_plan=sample_plan,
        batches=first,
        sample_batches=sample_first,
        k_square=f32(case.sms),
        status=zeros(rows),
        failed=zeros(rows),
        control=zeros(2),
        checksum=i64(1).zero_(),
        counts=zeros((case.ctas, 2, block_q, seg)),
        candidates=i64(candidates),
        scores=f32(held),
    )


def make(inputs: Mapping[str, Tensor], flags: Flags, knobs: Knobs, output: Tensor = None, z: float = Z) -> Made:
    """Allocate scratch and list the launches.  Raises ValueError for inputs that `validate` refuses.

    inputs: q, k, k_scale, w, k_start, k_end, see validate.py.  output: int32 [Q, K], or None for a new one.
    knobs: ctas (0: one per SM), sample_seed, samples (0: by `sample_size`).
    """
    import torch

    k_top, store = int(flags["K"]), bool(flags["STORE_SCORES"])
    validate(inputs, k_top, output)
    (rows, *_), (keys, _), device = inputs["q"].shape, inputs["k"].shape, inputs["q"].device
    sms = torch.cuda.get_device_properties(device).multi_processor_count
    samples = int(knobs.get("samples", 0)) or sizes.sample_size(keys)
    seed, ctas = int(knobs.get("sample_seed", 0)), int(knobs.get("ctas", 0)) or sms
    case = _Case(inputs, flags, rows, keys, samples, ctas, sms, seed)
    scratch = _allocate(case)
    scores = torch.full((rows, keys), -torch.inf, device=device) if store else scratch.scores
    out = torch.empty((rows, k_top), device=device, dtype=torch.int32) if output is None else output
    return Made(
        tuple(_launches(case, scratch, scores, out, z)), out, scores, scratch, store, flags["LAYOUT"] == "shared"
    )


def _launches(case: _Case, scratch: Scratch, scores: Tensor, out: Tensor, z: float) -> list[Launch]:
    """Stages in order; what a rung of the ladder has not, is not launched."""
    flags, i32, score = case.flags, np.int32, _scorer(case, scratch, out)
    key_map = _map(case.inputs["k"], sizes.tile_keys(flags))
    whole = (key_map, case.inputs["k_scale"], scratch.info, scratch.batches, scratch.plan)
    launches = [_prepare(case, scratch)]
    if not flags["STORE_SCORES"]:
        sample_map = _map(scratch.sample_k, sizes.tile_keys(flags))
        of = (sample_map, scratch.sample_scale, scratch.sample_info, scratch.sample_batches, scratch.sample_plan)
        launches.append(score("sample_scores", "index_sample", of, scratch.scores, case.samples, case.ctas))
        args = (scratch.scores, scratch.sample_info, scratch.info, i32(case.rows), i32(case.samples), np.float32(z))
        blocks, held = -(-case.rows // sizes.THRESHOLD_ROWS), sizes.THRESHOLD_ROWS * case.samples * 4
        launches.append(Launch("threshold", "index_threshold", (blocks, 1, 1), sizes.THRESHOLD_THREADS, held, args))
    launches.append(score("main", "index_main", whole, scores, case.keys, case.ctas))
    if not flags["SELECT"] or flags["STORE_SCORES"]:
        return launches
    if flags["SCHEDULE"] == "shares" and case.ctas > 1:
        tail = (scratch.status, scratch.failed, scratch.control, scratch.checksum, i32(case.rows), i32(case.ctas))
        args = (scratch.info, scratch.plan, scratch.candidates, scratch.counts, out, *tail)
        grid = ((case.ctas - 1) * case.block_q, 1, 1)
        launches.append(Launch("merge", "index_merge", grid, sizes.MERGE_THREADS, 0, args))
    if flags["EMIT"]:
        launches.append(score("repair", "index_repair", whole, scores, case.keys, min(case.ctas, case.sms), True))
    return launches


def _prepare(case: _Case, s: Scratch) -> Launch:
    """Gathers the sample, bounds and shares, and resets what a run before has left."""
    x, i32 = case.inputs, np.int32
    of = (s.sample_k, s.sample_scale, s.info, s.sample_info, s.batches, s.sample_batches, s.plan, s.sample_plan)
    numbers = (i32(case.rows), i32(case.keys), i32(case.samples), i32(case.ctas), i32(case.seed))
    reset = (s.status, s.counts, s.control, s.checksum)
    args = (x["k"], x["k_scale"], x["k_start"], x["k_end"], *of, *reset, *numbers, x["q"], s.k_square)
    return Launch("sample_gather", "index_prepare", (2 + case.sms, 1, 1), sizes.PLAN_THREADS, 0, args)


def _scorer(case: _Case, s: Scratch, out: Tensor) -> Callable[..., Launch]:
    """Makes a launch of one of the three scoring kernels: they take the same arguments, of other keys."""
    threads, smem, query_map = (
        sizes.threads(case.flags),
        sizes.smem_bytes(case.flags),
        _map(case.inputs["q"], sizes.HEADS),
    )
    tail = (s.status, s.failed, s.control, s.checksum, TRACE, np.int32(case.rows))

    def score(
        stage: str, entry: str, of: tuple[Any, ...], scores: Tensor, keys: int, ctas: int, cooperative: bool = False
    ) -> Launch:
        key_map, *rest = of
        numbers = (np.int32(keys), np.int32(keys), np.int32(case.repair_rows), s.k_square, np.int32(case.sms))
        between = (s.candidates, s.counts, scores, out)
        args = (query_map, key_map, case.inputs["w"], *rest, *between, *tail, *numbers)
        return Launch(stage, entry, (ctas, 1, 1), threads, smem, args, None, cooperative)

    return score
