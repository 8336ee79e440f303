"""index_topk with one thing wrong: faults as replacements of text, planted into a copy of its folder.

Each text to replace must be there exactly once: a kernel that was changed under a fault is noticed, not passed over.
Waits are made too late rather than taken away: a role that runs ahead by two phases hangs, and a hang shows nothing.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attribution.declare import Kernel
from attribution.load import load_kernel

FOLDER = Path("kernels") / "index_topk"
MATH_ONLY: dict[str, Any] = dict.fromkeys(("REDUCE", "FILTER", "SELECT", "EMIT"), False)

INSIDE = "((at >= info.begin) & (at < info.end))"
FREE_WAIT = (
    "        ptx::wait(&s.slot_free[slot], slots.phase ^ 1u);  // waits for TopK: the batch that used this slot\n"
)
STOP_WAIT = "ptx::wait(&s.slot_free[slot], slots.phase ^ 1u);  // waits for TopK\n"
FULL_WAIT = "    ptx::wait(&s.full[at], keys.phase);  // waits for TMA\n"
GIVE_BACK = "__device__ __forceinline__ void give_back(int at) {\n"
EMPTY_WAIT = (
    "      ptx::wait(&s.empty[stage], keys.phase ^ 1u);  // waits for Math: the warpgroup that read this stage\n"
)
WHEN_READ = "    return at + static_cast<int>(loaded & threadIdx.y);  // blocks are flat: + 0\n"
KEY_LOAD = "      ptx::load_box(s.k[stage], k_map, key, &s.full[stage]);\n"
LAST_STEP = "  wgmma::step<N, First, 1>(d, keys + 3 * K, queries + 3 * K);\n"
BEHIND_LAST_STEP = "  if constexpr (Part + 1 == shape::SUBTILES) wgmma::commit();\n"
ROLES = "  const int warp = threadIdx.x / 32;\n  if (warp < shape::MATH_WARPS) {\n"


@dataclass(frozen=True)
class Fault:
    """edits: (file, old, new); flags: what it needs to show."""

    edits: tuple[tuple[str, str, str], ...]
    flags: dict[str, Any] = field(default_factory=dict)


EXACTNESS = {
    "candidate_of_a_full_segment_dropped": Fault(
        (("filter.cuh", "at < shape::SEGMENT_ROOM)", "at < shape::SEGMENT_ROOM && at != flag::SEGMENT_CAPACITY - 1)"),)
    ),
    "row_ends_a_key_early": Fault((("math.cuh", INSIDE, INSIDE.replace("at <", "at + 1 <")),)),
    "row_begins_a_key_late": Fault((("math.cuh", INSIDE, INSIDE.replace(">=", ">")),)),
    "failed_rows_not_repaired": Fault((("index_topk.cu", "    if (failed == 0) return;\n", "    return;\n"),)),
    "slot_filled_before_it_is_free": Fault(
        (("math.cuh", FREE_WAIT, ""), ("math.cuh", "    if (stage < 0) " + STOP_WAIT, "    " + STOP_WAIT)),
        {"DELAY_ROLE": "topk", "DELAY_CYCLES": 400_000},
    ),
    "keys_read_before_they_are_there": Fault(
        (
            ("steps.cuh", "  u32 fold = 0;\n", "  u32 fold = 0, late = 0;\n"),
            ("steps.cuh", FULL_WAIT, "    late = (late & ~(1u << at)) | keys.phase << at;\n"),
            ("steps.cuh", GIVE_BACK, GIVE_BACK + "    ptx::wait(&s.full[at], late >> at & 1u);\n"),
        ),
        {"DELAY_ROLE": "tma", "DELAY_CYCLES": 3000},
    ),
    "scales_given_back_before_they_are_read": Fault(
        (("steps.cuh", WHEN_READ, "    return at;\n"),), {"BLOCK_Q": 1, "KV_STAGES": 4, "TOPK_WARPS": 7}
    ),
    "keys_overwritten_before_they_are_read": Fault(
        (("tma.cuh", KEY_LOAD, ""), ("tma.cuh", EMPTY_WAIT, KEY_LOAD + EMPTY_WAIT)),
        {"DELAY_ROLE": "math", "DELAY_CYCLES": 3000},
    ),
}
"""Wrong selections, each with the delay that makes it show."""

WORK = Fault(
    (("steps.cuh", "part += 64 / shape::SUBTILES) fold += d[part];", "part += 64 / shape::SUBTILES);"),), MATH_ONLY
)
"""A control whose products nobody uses: the compiler removes them, although they are volatile assembly."""

SCORES = Fault((("steps.cuh", LAST_STEP + BEHIND_LAST_STEP, BEHIND_LAST_STEP),))
"""The last quarter of every product is left out, everywhere."""

LAUNCHES = Fault(
    (
        ("kernel.py", '    "TRACE": Flag(', '    "FAULT": Flag(0, "planted", (0, 1, 2)),\n    "TRACE": Flag('),
        (
            "index_topk.cu",
            ROLES,
            "  if constexpr (M == math::Mode::main && flag::FAULT == 1) *reinterpret_cast<volatile int*>(64) = 1;\n"
            "  if constexpr (M == math::Mode::main && flag::FAULT == 2) ptx::wait(&s.slot_ready[0], 0);\n" + ROLES,
        ),
    )
)
"""A flag FAULT: 1 writes to an illegal address; 2 waits for a barrier that nobody arrives at."""


SQUARE = "      if (threadIdx.x == 0) k_square[blockIdx.x - 2] = __uint_as_float(scratch[0]);\n"
CLEARED = "      if (threadIdx.x == 0) scratch[0] = 0;\n      __syncthreads();\n"
SANITIZER = {
    "memcheck": Fault((("stages.cuh", "    info[row].top = top;\n", "    info[row + (1 << 24)].top = top;\n"),)),
    "initcheck": Fault((("stages.cuh", SQUARE, ""),)),
    "synccheck": Fault((("stages.cuh", CLEARED, CLEARED.replace("__sync", "if (threadIdx.x < 480) __sync")),)),
    "racecheck": Fault(
        (
            (
                "stages.cuh",
                "if (team.rank == 0) s.held = s.lost = 0;\n    team.sync();\n",
                "s.held = s.lost = team.rank;\n",
            ),
        )
    ),
}
"""By the tool that must see it: a write outside of all memory, a read of what nobody wrote, a barrier that not all threads of
a block reach, a race in shared memory."""


def planted(root: Path, home: Path, fault: Fault) -> Kernel:
    """index_topk under `home` with the fault in it.  Fails when a text to replace is not there exactly once."""
    shutil.copytree(root / FOLDER, home / FOLDER, ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in fault.edits:
        path = home / FOLDER / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")
    return load_kernel(home, "index_topk")
