"""How index_topk runs on a GPU: buffers, tensor maps, and the list of launches of every stage.

In: torch tensors, flags, knobs and a cubin.  Out: `Operator`, whose `launches` run in order on torch's current
stream without host synchronization; inputs may change in place between runs.
Misuse: an Operator belongs to its tensors' addresses; never run one while another run of it is in flight.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HEADS, DIM, ROW_SPILL, UNROLL = 64, 128, 2048, 4
BINS, LIST, MERGE_ROOM, MERGE_THREADS, PLAN_THREADS = 1024, 256, 8192, 256, 512
Z = 4.3
"""Deviations by which the expected candidates of a row stay above K: about one row in 10^5 falls below."""
SCRATCH_BYTES = 32 << 20
"""Scores of failed rows that are held at a time."""


@dataclass(frozen=True)
class Launch:
    """One kernel launch: which stage it belongs to, the entry, and what it is launched with."""

    stage: str
    entry: str
    grid: int
    threads: int
    smem_bytes: int
    args: tuple[Any, ...]
    cooperative: bool = False


@dataclass(frozen=True)
class Call:
    """A stage that is somebody else's code."""

    stage: str
    fn: Callable[[], None]


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
    keep: list[Any] = field(default_factory=list)

    def run(self, stages: tuple[str, ...] | None = None) -> None:
        """Enqueue the stages (all of them by default) on torch's current stream."""
        execute(self.launches, self.kernels, stages)

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
    total += 2 * block_q * 16 + 32 + slots * 16 + slots * block_q * 16 + slots * block_q * seg * 4
    total += 8 * (2 * stages + 4 + 2 * slots) + BINS * 4 + LIST * 8 + 32 * 4 + 7 * 4 + row_room(flags) * 8
    total += 32 * int(flags["TOPK_WARPS"]) * UNROLL * 8
    return (total + 256 + 1023) // 1024 * 1024


def merge_smem_bytes() -> int:
    return (BINS * 4 + LIST * 8 + 32 * 4 + 7 * 4 + 8 + (MERGE_ROOM + MERGE_THREADS * UNROLL) * 8 + 64 + 127) // 128 * 128


def sample_size(keys: int) -> int:
    """Sampled keys: 1/64 of long rows, at least 256; a multiple of every tile."""
    return min(max(256, keys // 64 // 256 * 256), 4096)


class _Stream:
    """torch's current stream, as cuda.core takes it."""

    def __cuda_stream__(self) -> tuple[int, int]:
        import torch

        return 0, torch.cuda.current_stream().cuda_stream


def execute(launches: list[Launch | Call], kernels: Mapping[str, Any], stages: tuple[str, ...] | None) -> None:
    """Enqueue in order; capturable in a CUDA graph."""
    from cuda.core import LaunchConfig, launch

    stream = _Stream()
    for item in launches:
        if stages is not None and item.stage not in stages:
            continue
        if isinstance(item, Call):
            item.fn()
            continue
        config = LaunchConfig(
            grid=item.grid, block=item.threads, shmem_size=item.smem_bytes, is_cooperative=item.cooperative
        )
        launch(stream, config, kernels[item.entry], *item.args)


ENTRIES = ("index_prepare", "index_sample", "index_threshold", "index_main", "index_merge", "index_repair")


def load(cubin: bytes) -> dict[str, Any]:
    """Kernels of a cubin by entry, on the current device."""
    from cuda.core import Device, ObjectCode

    device = Device()
    device.set_current()
    code = ObjectCode.from_cubin(cubin)
    kernels = {name: code.get_kernel(name) for name in ENTRIES}
    for name in ENTRIES[1:]:
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
    """Allocate scratch and list the launches.

    inputs: q [Q, 64, 128], k [N, 128] fp8 e4m3; k_scale [N], w [Q, 64] f32; k_start, k_end [Q] int32; all contiguous.
    knobs: ctas (0: one per SM), sample_seed, samples (0: by `sample_size`).  output: int32 [Q, K].
    """
    import torch

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
    info, sample_info = (empty((-(-rows // 4) * 4, 4), dtype=torch.int32) for _ in range(2))
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
    p = [t.data_ptr() for t in tail]
    trace_ptr = trace.data_ptr() if trace is not None else 0

    def score(stage: str, entry: str, keymap: Any, scale: Any, rinfo: Any, bat: Any, pl: Any, to: Any, n: int, stride: int,
              grid: int, coop: bool = False) -> Launch:
        args = (
            q_map, keymap, inputs["w"].data_ptr(), scale.data_ptr(), rinfo.data_ptr(), bat.data_ptr(), pl.data_ptr(),
            cand.data_ptr(), counts.data_ptr(), to.data_ptr(), out.data_ptr(), *p, trace_ptr,
            i32(rows), i32(n), i32(stride), i32(repair_rows),
        )
        return Launch(stage, entry, grid, block, smem, args, coop)

    prepare = Launch(
        "sample_gather", "index_prepare", 2 + sms, PLAN_THREADS, 0,
        (k.data_ptr(), inputs["k_scale"].data_ptr(), inputs["k_start"].data_ptr(), inputs["k_end"].data_ptr(),
         sample_k.data_ptr(), sample_scale.data_ptr(), info.data_ptr(), sample_info.data_ptr(), first.data_ptr(),
         sample_first.data_ptr(), plan.data_ptr(), sample_plan.data_ptr(), status.data_ptr(), counts.data_ptr(),
         control.data_ptr(), i32(rows), i32(keys), i32(samples), i32(ctas), i32(int(knobs.get("sample_seed", 0)))),
    )
    main = score("main", "index_main", k_map, inputs["k_scale"], info, first, plan, scores, keys, keys, ctas)
    launches: list[Launch | Call] = [prepare]
    if not store:
        launches += [
            score("sample_scores", "index_sample", s_map, sample_scale, sample_info, sample_first, sample_plan, scratch,
                  samples, samples, ctas),
            Launch("threshold", "index_threshold", -(-rows // 4), 128, 4 * samples * 4,
                   (scratch.data_ptr(), sample_info.data_ptr(), info.data_ptr(), i32(rows), i32(samples), np.float32(z))),
        ]
    launches.append(main)
    if flags["FILTER"] and flags["SELECT"] and not store:
        if flags["SCHEDULE"] == "shares" and ctas > 1:
            launches.append(
                Launch("merge", "index_merge", (ctas - 1) * block_q, MERGE_THREADS, merge_smem_bytes(),
                       (info.data_ptr(), plan.data_ptr(), cand.data_ptr(), counts.data_ptr(), out.data_ptr(), *p,
                        i32(rows), i32(ctas)))
            )
        if flags["EMIT"]:
            launches.append(
                score("repair", "index_repair", k_map, inputs["k_scale"], info, first, plan, scratch, keys, keys,
                      min(ctas, sms), True)
            )
    used = (sample_k, sample_scale, info, sample_info, plan, sample_plan, first, sample_first, counts, cand, scratch, *tail)
    size = sum(t.numel() * t.element_size() for t in used)
    return Operator(launches, kernels, out, scores, status, control, checksum, info, size,
                    [*used, q, k, inputs, trace])
