"""Executed instructions by source region and role: which lines of the source the instructions of a launch come from.

In: table `pcs` of an ingested report (counts per instruction with line information), and regions as (name, role, file, lines).
Out: one row a region with its share; what has no region or no line is a row too, so that the shares add up to 1.
Misuse: executed instructions are not time; a count per PC belongs to one metric of one launch and is never mixed with another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attribution.declare import nearest
from attribution.errors import DataError, InputError

EXECUTED = "inst_executed"
"""Nsight's count of executed warp instructions per PC."""

ALL = 2**31 - 1
"""Behind the last line of any file."""


@dataclass(frozen=True)
class Region:
    """Lines `first` to `last` (both in it) of a source file, whose name is compared from its end: `topk.cu`."""

    name: str
    file: str
    first: int = 1
    last: int = ALL
    role: str = ""


def parse(text: str) -> Region:
    """`NAME[@ROLE]=FILE[:FIRST[-LAST]]` as a Region.  Raises InputError."""
    name, mark, place = text.partition("=")
    label, _, role = name.partition("@")
    file, _, lines = place.partition(":")
    first, _, last = lines.partition("-")
    if not mark or not label or not file or any(p and not p.isdigit() for p in (first, last)):
        raise InputError(f"--region {text!r}: must be NAME[@ROLE]=FILE[:FIRST[-LAST]]")
    if not first:
        return Region(label, file, role=role)
    return Region(label, file, int(first), int(last or first), role)


def by_region(
    pcs: pd.DataFrame,
    regions: Sequence[Region] = (),
    metric: str = EXECUTED,
    kernel: str | None = None,
    launch: int | None = None,
) -> pd.DataFrame:
    """Columns region, role, file, value, share, instructions (how many of the SASS), unit; the greatest first.

    Without `regions` every source file is one; without `launch` all launches of the kernel are added up.
    Raises InputError for a metric, kernel or region that is not there, DataError
    for several kernels, for two regions over one line, or when nothing was executed.
    """
    mine = pcs[pcs["metric"].astype(str) == metric]
    if mine.empty:
        known = sorted(set(pcs["metric"].astype(str)))
        hint = f"there are: {', '.join(known)}" if known else "a report of Nsight Compute with source counters has them"
        raise InputError(f"metric {metric!r} has no counts per instruction{nearest(metric, known)}; {hint}")
    names = sorted(set(mine["kernel_name"].astype(str)))
    if kernel is not None:
        mine = mine[mine["kernel_name"].astype(str) == kernel]
    elif len(names) > 1:
        raise DataError(f"counts of {len(names)} kernels ({', '.join(names[:4])}): choose one with --kernel-name")
    if launch is not None:
        mine = mine[mine["launch"] == launch]
    total = float(mine["value"].sum())
    if mine.empty or not total > 0:
        where = f"launch {launch} of {kernel or names[0]}" if launch is not None else f"kernel {kernel!r}"
        raise InputError(f"{where} has no counts of {metric}; kernels with counts: {', '.join(names)}")
    label, role = _labels(mine, regions)
    table = pd.DataFrame(
        {
            "region": label,
            "role": role,
            "file": mine["source_file"].astype(str).to_numpy(),
            "value": mine["value"].to_numpy(float),
        }
    )
    grouped = table.groupby(["region", "role", "file"], sort=False)["value"]
    out = grouped.agg(value="sum", instructions="count").reset_index()
    out["share"] = out["value"] / total
    out["unit"] = str(mine["unit"].iloc[0])
    return out.sort_values("value", ascending=False, ignore_index=True)


def _labels(pcs: pd.DataFrame, regions: Sequence[Region]) -> tuple[np.ndarray, np.ndarray]:
    """Region and role of each row."""
    file, line = pcs["source_file"].astype(str).to_numpy(), pcs["source_line"].to_numpy()
    rest = "elsewhere in " if regions else ""
    label = np.where(file == "", "no line information", np.char.add(rest, file.astype(str))).astype(object)
    role = np.full(len(pcs), "", dtype=object)
    taken = np.full(len(pcs), "", dtype=object)
    for region in regions:
        ends = np.array([f == region.file or f.endswith("/" + region.file) for f in file], dtype=bool)
        inside = ends & (line >= region.first) & (line <= region.last)
        if not inside.any():
            lines = "" if (region.first, region.last) == (1, ALL) else f" lines {region.first} to {region.last}"
            raise InputError(
                f"region {region.name}: no counted instruction in {region.file}{lines}; "
                f"files with lines: {', '.join(sorted(set(file) - {''})) or 'none (build with line information)'}"
            )
        if (both := inside & (taken != "")).any():
            raise DataError(
                f"regions {taken[both][0]} and {region.name} both have line {line[both][0]} of {region.file}"
            )
        label[inside], role[inside], taken[inside] = region.name, region.role, region.name
    return label, role
