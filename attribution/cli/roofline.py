"""`attr roofline PATH...`: versions side by side: effective TFLOPS, both ceilings, intensity against DRAM and L2."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from attribution.cli.options import Json, Point, Scope, open_each
from attribution.cli.output import print_json, print_rows
from attribution.cli.timed import check_timed
from attribution.errors import InputError
from attribution.tables import records

MOST_TFLOPS = 1e6
"""Far above any GPU: what is more is a slip of the unit."""


def roofline(
    paths: Annotated[list[Path], typer.Argument(help="Recordings; one or more.")],
    stage: Annotated[str, typer.Option("--stage", help="main, or operator for all stages.")] = "main",
    scope: Scope = None,
    practical_tflops: Annotated[
        float | None,
        typer.Option("--practical-tflops", min=0, help="Measured ceiling, where a recording holds none."),
    ] = None,
    point: Point = None,
    json: Json = False,
) -> None:
    """Show every arm that computes everything: rate, shares of the ceilings, intensities, and the step from the arm before.

    Only (query, key) pairs inside the causal bounds count.
    """
    from attribution.analyze import point as points
    from attribution.analyze.interventions import check_known
    from attribution.analyze.ledger import practical_ceiling
    from attribution.analyze.versions import versions
    from attribution.claim import scope_sentence

    named = open_each(paths)
    opened = [points.at(one, name) for one in named for name in ([point] if point else points.names(one))]
    if practical_tflops is not None:
        if not 0 < practical_tflops <= MOST_TFLOPS:
            raise InputError(f"--practical-tflops {practical_tflops:g}: allowed is above 0 and up to {MOST_TFLOPS:g}")
        if not any(math.isnan(practical_ceiling(recording.table("counters"))) for recording in opened):
            names = ", ".join(recording.path.name for recording in opened)
            raise InputError(f"--practical-tflops {practical_tflops:g}: {names} holds a measured ceiling; leave it out")
    rows = []
    for recording in opened:
        check_known(recording, None)
        check_timed(recording, stage)
        ceiling = float("nan") if practical_tflops is None else practical_tflops * 1e12
        found = records(versions(recording, stage, scope, ceiling))
        rows += [{"recording": recording.path.name, **row} for row in found]
    if json:
        print_json(rows)
        return
    print(f"Versions, stage {stage}, {', '.join(dict.fromkeys(r['scope'] for r in rows))}\n")
    heads = {"recording": "recording"} if len(named) > 1 else {}
    # An arm of two questions is measured in each.
    heads |= {"question": "base"} if len({(r["recording"], r["question"]) for r in rows}) > len(named) else {}
    heads |= {"arm": "version", "shape": "shape", "block_q": "rows a batch", "ms": "ms", "rate": "TFLOPS [95 %]"}
    heads |= {"practical": "of practical", "spec": "of data sheet", "l2": "FLOP/B of L2", "dram": "FLOP/B of DRAM"}
    print_rows([_shown(r) for r in rows], {**heads, "executed": "executed / useful", "step": "time / row above [95 %]"})
    print(
        "\nFLOP/B: useful FLOP over what the algorithm must move, then over what Nsight counted.  Practical: a pure matrix product"
        "\nmeasured in the same recording."
    )
    if (ridge := rows[0]["dram_ridge"]) == ridge:
        print(f"By the data sheet, memory binds below {ridge:.0f} FLOP/B of DRAM.")
    used = dict.fromkeys(str(row["scope"]) for row in rows)
    for sentence in dict.fromkeys(scope_sentence(recording, *used) for recording in opened):
        print(sentence)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    def share(value: float) -> str:
        return "-" if value != value else f"{value:.1%}"

    def both(name: str) -> str:
        counted = row[f"{name}_intensity_counted"]
        return f"{row[f'{name}_intensity']:.0f}; " + ("-" if counted != counted else f"{counted:.0f}")

    def interval(name: str, digits: int) -> str:
        value, low, high = (f"{row[name + end]:.{digits}f}" for end in ("", "_low", "_high"))
        return value if low == "nan" else f"{value} [{low}, {high}]"

    return {
        **row, "ms": f"{row['time_ns'] / 1e6:.3f}",
        "rate": interval("tflops", 1),
        "practical": share(row["practical_share"]), "spec": share(row["spec_share"]),
        "l2": both("l2"), "dram": both("dram"),
        "executed": "-" if row["matrix_overhead"] != row["matrix_overhead"] else f"{row['matrix_overhead']:.3f}",
        "step": "-" if row["step"] != row["step"] else interval("step", 4),
    }  # fmt: skip
