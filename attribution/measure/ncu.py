"""Counters by Nsight Compute: its command line, which launch a value belongs to, and what they mean.

In: the worker's command; a report and the launches that the worker says it made.  Out: rows of the table `counters`.
A launch is matched by its NVTX range, full name, grid and ordinal in that range; two that fit are an error, never a choice.
Caches and clocks are left alone, so a value describes the launch as it would run, replayed once for each pass.
Misuse: a duration under ncu is a scope of its own; the counts are what is wanted here.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribution.errors import DataError, MeasureError

REPORT = "profile.ncu-rep"
LIMIT_S = 30
RANGE = "attr"
"""The outer NVTX range: only launches inside it are profiled."""

METRICS: Mapping[str, str] = {
    "duration": "gpu__time_duration.sum",
    "instructions": "smsp__inst_executed.sum",
    "thread_instructions": "smsp__thread_inst_executed.sum",
    "lanes_active": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "opcodes": "sass__inst_executed_per_opcode",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "l2_sectors_hit": "lts__t_sectors_lookup_hit.sum",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "issue_slots_used": "smsp__issue_active.sum",
    "issue_slots": "smsp__cycles_active.sum",
    "eligible_warps": "smsp__warps_eligible.sum",
    "active_warps": "smsp__warps_active.sum",
    "tensor_cycles_active": "sm__pipe_tensor_cycles_active.sum",
    "sm_cycles_active": "sm__cycles_active.sum",
    "sm_cycles_elapsed": "sm__cycles_elapsed.sum",
    "stalls": "group:smsp__pcsamp_warp_stall_reasons",
}
"""Meaning -> metric.  Percentages are kept as numerator and denominator.  A GPU module adds its own in METRICS.

`METRIC[INSTANCE]` is one instance of a metric, such as the executed instructions of one opcode.
"""

COLD = ("l2_sectors", "l2_sectors_hit", "dram_read_bytes")
"""What is counted of a launch whose cache was cold: as little as can be, since from the second pass on the cache is warm.

Seen on an H200: three passes, and all three values are those of the first.
"""
PASSES = "profiler__replayer_passes"
"""How often a launch was replayed; in every report, and not to be asked for."""

PERMISSION = (
    "ncu may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root, or let the driver allow everybody: "
    "`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d/, then reload the driver; "
    "or leave out --scope ncu"
)


@dataclass(frozen=True)
class Expected:
    """One launch that the worker made inside its own named range."""

    range: str
    kernel_name: str
    """Full name as the build has it; '' where it was made by a library."""
    grid: tuple[int, int, int]
    ordinal: int
    """Number of this launch among those of its range, from 0."""
    run: int
    stage: str


@dataclass(frozen=True)
class Seen:
    """One launch of a report, in the order in which they ran."""

    ranges: tuple[str, ...]
    """Open NVTX ranges, outermost first."""
    kernel_name: str
    grid: tuple[int, int, int]
    action: Any = None
    owner: Any = None
    """What must live as long as `action`."""


def range_name(arm: int, step: int, stage: str) -> str:
    """The NVTX range of one step: one name, one step, whatever arms and stages are called."""
    return f"{RANGE} arm={arm} step={step} stage={stage}"


def missing() -> str:
    """Why ncu cannot be used here, '' when it can be tried."""
    if not shutil.which("ncu"):
        return "ncu is not on the PATH: install Nsight Compute"
    if importlib.util.find_spec("nvtx") is None:
        return "package nvtx, which names the launches for ncu, is missing: `pip install 'attribution[gpu]'`"
    return ""


def version(ncu: str = "ncu") -> str:
    """What the tool says of itself, such as 2025.3.1.0; `unknown` where it does not say."""
    try:
        done = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = re.search(r"^Version (\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else "unknown"


def command(worker: Sequence[str], report: Path, metrics: Sequence[str], ncu: str = "ncu") -> list[str]:
    """The command line that runs `worker` under ncu, profiling what lies in range `attr` only.

    Every policy is stated, also where it is the default: a value must say how it was read.
    """
    if not metrics:
        raise MeasureError("no metrics are asked for: --set none would profile nothing")
    return [
        ncu,
        "--target-processes",
        "all",
        "--nvtx",
        "--nvtx-include",
        f"{RANGE}/",
        "--replay-mode",
        "kernel",
        "--cache-control",
        "none",
        "--clock-control",
        "none",
        "--set",
        "none",
        "--metrics",
        ",".join(dict.fromkeys(name.partition("[")[0] for name in metrics)),
        "--force-overwrite",
        "--export",
        str(report),
        *worker,
    ]


def explain(log: str) -> str:
    """A sentence for what ncu printed when it made no report."""
    if "ERR_NVGPUCTRPERM" in log or "permission" in log.lower():
        return PERMISSION
    if "No kernels were profiled" in log:
        return f"ncu profiled no launch: none lay inside the range {RANGE}; nothing is known, and that is not zero"
    errors = [line for line in log.splitlines() if line.startswith("==ERROR==")]
    return f"ncu made no report: {errors[0][9:].strip() if errors else 'it did not say why'}"


def match(expected: Sequence[Expected], seen: Sequence[Seen]) -> list[tuple[Expected, Seen]]:
    """Each expected launch with the one of the report that is it.

    Raises DataError for a launch that is missing or fits twice, for ranges that overlap over one launch, and for a
    launch inside our range that nobody expected.
    """
    names = [e.range for e in expected]
    found: dict[str, list[Seen]] = {name: [] for name in names}
    for launch in seen:
        mine = [r for r in launch.ranges if r in found]
        if len(mine) > 1:
            raise DataError(
                f"launch {launch.kernel_name} lies in two of our ranges: {mine[0]} and {mine[1]}: abstaining"
            )
        if not mine:
            if RANGE in launch.ranges:
                raise DataError(f"launch {launch.kernel_name} of the report lies in no range that the worker named")
            continue
        found[mine[0]].append(launch)
    out = []
    for want in expected:
        there = found[want.range]
        if want.ordinal >= len(there):
            raise DataError(
                f"range {want.range}: launch {want.ordinal} is not in the report: {names.count(want.range)} were made, "
                f"{len(there)} were seen; counters of the others are not taken either"
            )
        got = there[want.ordinal]
        if want.kernel_name and got.kernel_name != want.kernel_name:
            raise DataError(
                f"range {want.range}: launch {want.ordinal} is {got.kernel_name}, expected {want.kernel_name}"
            )
        if want.kernel_name and got.grid != want.grid:
            raise DataError(f"range {want.range}: {got.kernel_name} has grid {got.grid}, expected {want.grid}")
        out.append((want, got))
    for name, there in found.items():
        if len(there) != names.count(name):
            raise DataError(f"range {name}: {names.count(name)} launches were made and {len(there)} seen")
    return out
