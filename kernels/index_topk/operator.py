"""How index_topk runs on a GPU: buffers, tensor maps, and the list of launches of every stage.

In: torch tensors, flags, knobs and a cubin.  Out: `Operator`, whose `launches` run in order on torch's current
stream without host synchronization; inputs may change in place between runs.
Misuse: an Operator belongs to its tensors' addresses; never run one while another run of it is in flight.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attribution.launch import TRACE, Call, Launch
from attribution.launch import Operator as Steps

HEADS, DIM, ROW_SPILL = 64, 128, 2048
BINS, LIST, MERGE_THREADS, PLAN_THREADS = 512, 256, 256, 512
Z = 4.3
"""Deviations by which the expected candidates of a row stay above K: about one row in 10^5 falls below."""
LIMITS = {"underflow": 1, "segment": 2, "not_finite": 4}
"""Bits of `status`, as shape.cuh's `Why` has them."""
SCRATCH_BYTES = 32 << 20
"""Scores of failed rows that are held at a time."""


@dataclass
class Operator:
    """Everything that one shape and one set of flags needs; `run()` is one complete operator."""

    launches: list[Launch | Call]
    kernels: Mapping[str, Any]
    output: Any
    scores: Any
    status: Any
    control: Any
    checksum: Any
    info: Any
    scratch_bytes: int
    store: bool = False
    trace: Any = None
    keep: list[Any] = field(default_factory=list)

    def run(self, stages: tuple[str, ...] | None = None) -> None:
        """Enqueue the stages (all of them by default) on torch's current stream."""
        execute(self.launches, self.kernels, stages, self.trace)

    def steps(self) -> Steps:
        """The same launches as the GPU worker takes them, and what they leave behind."""
        output = {} if self.store else {"indices": self.output}
        output |= {"status": self.status, "checksum": self.checksum}
        counts = {("repair", "repaired_rows"): self.failed_rows}
        if self.store:
            return Steps(tuple(self.launches), output)
        limits = {name: functools.partial(self.failed_by, bit) for name, bit in LIMITS.items()}
        return Steps(tuple(self.launches), output, counts, limits)

    def failed_by(self, bit: int) -> tuple[int, int]:
        """Rows that failed by one of LIMITS in the last run, and all rows; synchronizes."""
        return int((self.status & bit != 0).sum().item()), self.status.numel()

    def failed_rows(self) -> int:
        """Rows that were repaired in the last run; synchronizes."""
        return int(self.control[0].item())


def tile_keys(flags: Mapping[str, Any]) -> int:
    """Keys of one stage of the ring."""
    return 256 // int(flags["BLOCK_Q"])


def segments(flags: Mapping[str, Any]) -> int:
    """Candidate segments of a row."""
    warps = 4 * int(flags["MATH_WARPGROUPS"])
    return {"shared": 1, "segments": warps, "split": 2 * warps}[str(flags["LAYOUT"])]


def row_room(flags: Mapping[str, Any]) -> int:
    """Candidate entries of a row's slot, spill included."""
    return segments(flags) * int(flags["SEGMENT_CAPACITY"]) + (ROW_SPILL if flags["SPILL"] else 0)


def threads(flags: Mapping[str, Any]) -> int:
    return 128 * int(flags["MATH_WARPGROUPS"]) + 32 * int(flags["TOPK_WARPS"]) + 32


def smem_bytes(flags: Mapping[str, Any]) -> int:
    """At least sizeof(shape::Smem); the kernel traps when it is less."""
    block_q, stages = int(flags["BLOCK_Q"]), int(flags["KV_STAGES"])
    keys, slots, seg = tile_keys(flags), 2 if flags["OVERLAP"] else 1, segments(flags)
    total = 2 * block_q * HEADS * DIM + stages * keys * DIM + stages * keys * 4 + 2 * block_q * HEADS * 4
    total += 2 * block_q * 32 + 32 + slots * 16 + slots * block_q * 32 + slots * block_q * seg * 4
    total += 8 * (2 * stages + 4 + 2 * slots) + int(flags["TOPK_WARPS"]) * (BINS * 4 + LIST * 8 + 32 * 4 + 8 * 4)
    return (total + 256 + 1023) // 1024 * 1024


def sample_size(keys: int) -> int:
    """Sampled keys: 1/64 of long rows, at least 256; a multiple of every tile."""
    return min(max(256, keys // 64 // 256 * 256), 4096)


class _Stream:
    """torch's current stream, as cuda.core takes it."""

    def __cuda_stream__(self) -> tuple[int, int]:
        import torch

        return 0, torch.cuda.current_stream().cuda_stream


def execute(
    launches: list[Launch | Call], kernels: Mapping[str, Any], stages: tuple[str, ...] | None, trace: Any = None
) -> None:
    """Enqueue in order; capturable in a CUDA graph."""
    from cuda.core import LaunchConfig, launch

    stream = _Stream()
    for item in launches:
        if stages is not None and item.stage not in stages:
            continue
        if isinstance(item, Call):
            item.function()
            continue
        config = LaunchConfig(
            grid=item.grid,
            block=item.threads,
            shmem_size=item.smem_bytes,
            is_cooperative=item.cooperative,
        )
        launch(stream, config, kernels[item.entry], *(_argument(a, trace) for a in item.args))


def _argument(value: Any, trace: Any) -> Any:
    """Tensors travel as pointers, everything else as it is."""
    if value is TRACE:
        return 0 if trace is None else trace.data_ptr()
    return value.data_ptr() if hasattr(value, "data_ptr") else value


ENTRIES = ("index_prepare", "index_sample", "index_threshold", "index_main", "index_merge", "index_repair")


def load(cubin: bytes) -> dict[str, Any]:
    """Kernels of a cubin by entry, on the current device."""
    from cuda.core import Device, ObjectCode

    device = Device()
    device.set_current()
    code = ObjectCode.from_cubin(cubin)
    kernels = {name: code.get_kernel(name) for name in ENTRIES}
    for name in ("index_sample", "index_threshold", "index_main", "index_repair"):
        _allow_smem(kernels[name], SMEM_MOST_BYTES, device.device_id)
    return kernels


SMEM_MOST_BYTES = 232_448
"""Dynamic shared memory that a block of sm_90 may ask for."""


def _allow_smem(kernel: Any, size: int, device: int) -> None:
    """Raise the kernel's limit of dynamic shared memory; cuda.core shows it but does not set it."""
    from cuda.bindings import driver

    what = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    handle = driver.CUkernel(int(kernel.handle))
    (error,) = driver.cuKernelSetAttribute(what, size, handle, driver.CUdevice(device))
    if int(error) != 0:
        raise RuntimeError(f"cuKernelSetAttribute({size} bytes): {error}")


def _map(tensor: Any, box: int) -> Any:
    """Tensor map of rows of 128 bytes, `box` rows a load, 128-byte swizzle."""
    import torch
    from cuda.core._tensor_map import TensorMapL2Promotion, TensorMapSwizzle
    from cuda.core.utils import StridedMemoryView

    rows = tensor.view(torch.uint8).reshape(-1, DIM)
    view = StridedMemoryView.from_any_interface(rows, stream_ptr=-1)
    return view.as_tensor_map(
        box_dim=(box, DIM), swizzle=TensorMapSwizzle.SWIZZLE_128B, l2_promotion=TensorMapL2Promotion.L2_256B
    )


def launch(
    inputs: Mapping[str, Any],
    flags: Mapping[str, Any],
    knobs: Mapping[str, int],
    kernels: Mapping[str, Any],
    output: Any = None,
    trace: Any = None,
    z: float = Z,
) -> Operator:
    """Allocate scratch and list the launches.  Raises ValueError for inputs that `validate` refuses.

    inputs: q [Q, 64, 128], k [N, 128] fp8 e4m3; k_scale [N], w [Q, 64] f32; k_start, k_end [Q] int32; all contiguous.
    knobs: ctas (0: one per SM), sample_seed, samples (0: by `sample_size`).  output: int32 [Q, K].
    """
    import torch

    validate(inputs, int(flags["K"]))
    q, k = inputs["q"], inputs["k"]
    rows, keys, device = q.shape[0], k.shape[0], q.device
    block_q, top, tile, seg = int(flags["BLOCK_Q"]), int(flags["K"]), tile_keys(flags), segments(flags)
    sms = torch.cuda.get_device_properties(device).multi_processor_count
    ctas = int(knobs.get("ctas", 0)) or sms
    samples = int(knobs.get("samples", 0)) or sample_size(keys)
    slots, batches = (2 if flags["OVERLAP"] else 1) + 2, -(-rows // block_q)
    store = bool(flags["STORE_SCORES"])
    empty = functools.partial(torch.empty, device=device)
    zeros = functools.partial(torch.zeros, device=device)
    sample_k = empty((samples, DIM), dtype=torch.uint8)
    sample_scale = empty(samples, dtype=torch.float32)
    info, sample_info = (empty((-(-rows // 4) * 4, 8), dtype=torch.int32) for _ in range(2))
    k_square = empty(sms, dtype=torch.float32)
    plan, sample_plan = (empty((max(ctas, sms) + 1, 2), dtype=torch.int32) for _ in range(2))
    first, sample_first = (empty((batches, 4), dtype=torch.int32) for _ in range(2))
    status, failed = zeros(rows, dtype=torch.int32), zeros(rows, dtype=torch.int32)
    control, checksum = zeros(2, dtype=torch.int32), zeros(1, dtype=torch.int64)
    counts = zeros((ctas, 2, block_q, seg), dtype=torch.int32)
    cand = empty(0 if store else ctas * slots * block_q * row_room(flags), dtype=torch.int64)
    repair_rows = max(block_q, min(-(-rows // block_q) * block_q, SCRATCH_BYTES // (4 * keys) // block_q * block_q))
    # The scores of the sample are dead when repair needs the room.
    scratch = empty(0 if store and samples == 0 else max(rows * samples, repair_rows * keys), dtype=torch.float32)
    scores = torch.full((rows, keys), -torch.inf, device=device) if store else scratch
    out = empty((rows, top), dtype=torch.int32) if output is None else output
    i32 = np.int32
    smem, block = smem_bytes(flags), threads(flags)
    q_map, k_map, s_map = _map(q, HEADS), _map(k, tile), _map(sample_k, tile)
    tail = (status, failed, control, checksum)

    def score(
        stage: str,
        entry: str,
        keymap: Any,
        scale: Any,
        rows_of: Any,
        batch: Any,
        share: Any,
        to: Any,
        n: int,
        grid: int,
        cooperative: bool = False,
    ) -> Launch:
        args = (
            q_map,
            keymap,
            inputs["w"],
            scale,
            rows_of,
            batch,
            share,
            cand,
            counts,
            to,
            out,
            *tail,
            TRACE,
            i32(rows),
            i32(n),
            i32(n),
            i32(repair_rows),
            k_square,
            i32(sms),
        )
        return Launch(stage, entry, (grid, 1, 1), block, smem, args, None, cooperative)

    seed = i32(int(knobs.get("sample_seed", 0)))
    launches: list[Launch | Call] = [
        Launch(
            "sample_gather",
            "index_prepare",
            (2 + sms, 1, 1),
            PLAN_THREADS,
            0,
            (
                k,
                inputs["k_scale"],
                inputs["k_start"],
                inputs["k_end"],
                sample_k,
                sample_scale,
                info,
                sample_info,
                first,
                sample_first,
                plan,
                sample_plan,
                status,
                counts,
                control,
                checksum,
                i32(rows),
                i32(keys),
                i32(samples),
                i32(ctas),
                seed,
                q,
                k_square,
            ),
        )
    ]
    if not store:
        launches += [
            score(
                "sample_scores",
                "index_sample",
                s_map,
                sample_scale,
                sample_info,
                sample_first,
                sample_plan,
                scratch,
                samples,
                ctas,
            ),
            Launch(
                "threshold",
                "index_threshold",
                (-(-rows // 4), 1, 1),
                128,
                4 * samples * 4,
                (scratch, sample_info, info, i32(rows), i32(samples), np.float32(z)),
            ),
        ]
    launches.append(score("main", "index_main", k_map, inputs["k_scale"], info, first, plan, scores, keys, ctas))
    if flags["FILTER"] and flags["SELECT"] and not store:
        if flags["SCHEDULE"] == "shares" and ctas > 1:
            args = (info, plan, cand, counts, out, *tail, i32(rows), i32(ctas))
            grid = ((ctas - 1) * block_q, 1, 1)
            launches.append(Launch("merge", "index_merge", grid, MERGE_THREADS, 0, args))
        if flags["EMIT"]:
            launches.append(
                score(
                    "repair",
                    "index_repair",
                    k_map,
                    inputs["k_scale"],
                    info,
                    first,
                    plan,
                    scratch,
                    keys,
                    min(ctas, sms),
                    True,
                )
            )
    used = (
        sample_k,
        sample_scale,
        info,
        sample_info,
        plan,
        sample_plan,
        first,
        sample_first,
        k_square,
        counts,
        cand,
        scratch,
        *tail,
    )
    size = sum(t.numel() * t.element_size() for t in used)
    return Operator(
        launches, kernels, out, scores, status, control, checksum, info, size, store, trace, [*used, q, k, inputs]
    )


KEYS_MOST = 1 << 19
"""Products of a key's number and the size of the sample fit 32 bits (stages.cuh)."""


def validate(inputs: Mapping[str, Any], k_top: int) -> None:
    """Raises ValueError naming the argument, its value and what is allowed.  Does not read device memory."""
    import torch

    q, k = inputs["q"], inputs["k"]
    if q.dim() != 3 or q.shape[0] < 1 or tuple(q.shape[1:]) != (HEADS, DIM):
        raise ValueError(f"q has shape {tuple(q.shape)}: allowed is [Q, {HEADS}, {DIM}] with Q >= 1")
    if k.dim() != 2 or k.shape[1] != DIM or k.shape[0] % 128 or not 128 <= k.shape[0] <= KEYS_MOST:
        raise ValueError(f"k has shape {tuple(k.shape)}: allowed is [N, {DIM}], N a multiple of 128 up to {KEYS_MOST}")
    if k_top not in (512, 1024, 2048):
        raise ValueError(f"k_top = {k_top}: allowed are 512, 1024, 2048")
    rows, keys, fp8 = q.shape[0], k.shape[0], torch.float8_e4m3fn
    wanted = {
        "q": (fp8, (rows, HEADS, DIM)),
        "k": (fp8, (keys, DIM)),
        "k_scale": (torch.float32, (keys,)),
        "w": (torch.float32, (rows, HEADS)),
        "k_start": (torch.int32, (rows,)),
        "k_end": (torch.int32, (rows,)),
    }
    for name, (dtype, shape) in wanted.items():
        tensor = inputs[name]
        if tensor.dtype != dtype:
            raise ValueError(f"{name} has dtype {tensor.dtype}: allowed is {dtype}")
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}: allowed is {shape}")
        if tensor.device != q.device or tensor.device.type != "cuda":
            raise ValueError(f"{name} is on {tensor.device}: allowed is the CUDA device of q, {q.device}")
        if not tensor.is_contiguous() or tensor.data_ptr() % 16:
            raise ValueError(f"{name} has strides {tensor.stride()}: allowed is contiguous and aligned to 16 bytes")


def validate_bounds(k_start: Any, k_end: Any, keys: int) -> None:
    """Raises ValueError for reversed bounds or bounds outside [0, N].  Reads device memory: synchronizes."""
    import torch

    bad = torch.nonzero((k_start < 0) | (k_end < k_start) | (k_end > keys))
    if bad.numel():
        row = int(bad[0, 0])
        pair = int(k_start[row]), int(k_end[row])
        raise ValueError(f"k_start, k_end of row {row} are {pair}: allowed is 0 <= k_start <= k_end <= {keys}")


def illegal(flags: Mapping[str, Any]) -> str | None:
    """The reason why the GPU source cannot be built or launched with these flags, or None."""
    warpgroups, block_q = int(flags["MATH_WARPGROUPS"]), int(flags["BLOCK_Q"])
    if warpgroups not in (1, 2):
        return f"MATH_WARPGROUPS = {warpgroups}: 128 accumulators a thread leave room for 1 or 2"
    if int(flags["KV_STAGES"]) % warpgroups:
        return (
            f"KV_STAGES = {flags['KV_STAGES']} is no multiple of MATH_WARPGROUPS = {warpgroups}: "
            "a stage that two warpgroups read in turn can be taken before the other's tile has arrived"
        )
    if int(flags["SEGMENT_CAPACITY"]) % 2:
        return f"SEGMENT_CAPACITY = {flags['SEGMENT_CAPACITY']}: candidates are read in pairs, so it must be even"
    if smem_bytes(flags) > SMEM_MOST_BYTES:
        size = smem_bytes(flags)
        return f"{size} bytes of shared memory at BLOCK_Q {block_q}: at most {SMEM_MOST_BYTES}; lower KV_STAGES"
    return None


def index_topk(
    q: Any,
    k: Any,
    k_scale: Any,
    w: Any,
    k_start: Any,
    k_end: Any,
    *,
    k_top: int = 2048,
    out: Any = None,
    kernels: Mapping[str, Any],
    flags: Mapping[str, Any],
    check_bounds: bool = True,
) -> Any:
    """One run on torch's current stream; returns int32 [Q, k_top], unordered, padded with -1.

    `kernels`: `load` of a cubin built with `flags`, whose K is `k_top`.  `check_bounds` reads the bounds and so
    synchronizes: switch it off inside a capture.  Raises ValueError.
    """
    inputs = {"q": q, "k": k, "k_scale": k_scale, "w": w, "k_start": k_start, "k_end": k_end}
    validate(inputs, k_top)
    if int(flags["K"]) != k_top:
        raise ValueError(f"k_top = {k_top}: the kernels were built for K = {flags['K']}: build them for {k_top}")
    if check_bounds:
        validate_bounds(k_start, k_end, k.shape[0])
    made = launch(inputs, flags, {}, kernels, output=out)
    made.run()
    return made.output
