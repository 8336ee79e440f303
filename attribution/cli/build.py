"""`attr build`: compile variants without a GPU, and say what their machine code already tells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attribution.cli.options import Json, Root, root_folder
from attribution.cli.output import print_json, print_rows, progress_bar
from attribution.errors import BuildError, InputError

if TYPE_CHECKING:
    from attribution.build import Build
    from attribution.build.many import Outcome
    from attribution.build.ptxas import EntryFacts

OPCODES = (
    *("QGMMA", "HGMMA", "HMMA", "UTMALDG", "SYNCS", "BAR", "SHFL", "VOTE", "FFMA"),
    *("FMNMX", "FADD", "FMUL", "LDG", "STG", "LDS", "STS", "ATOMS", "ATOMG"),
)
"""Shown in the table where any build has them; `--json` has all."""


def build(
    everything: Annotated[bool, typer.Option("--all", help="Every variant of every kernel.")] = False,
    kernel: Annotated[list[str] | None, typer.Option("--kernel", help="Only this kernel.")] = None,
    variant: Annotated[list[str] | None, typer.Option("--variant", help="Only this variant.")] = None,
    arch: Annotated[str, typer.Option("--arch", help="Architecture, such as sm_80.")] = "sm_90a",
    jobs: Annotated[int | None, typer.Option("--jobs", help="Builds at a time; all cores.")] = None,
    cache: Annotated[Path | None, typer.Option("--cache", help="Folder of the build cache.")] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Compile variants for a GPU that need not be there, and show what their machine code says."""
    from attribution.build.many import build_all, select

    if not (everything or kernel or variant):
        raise InputError("nothing to build: say --all, --kernel NAME or --variant NAME")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: allowed is an integer >= 1")
    chosen = select(root_folder(root), kernel or (), variant or ())
    if not chosen:
        raise InputError("nothing to build: no variant is declared; a kernel's own are in variants/NAME.toml")
    with progress_bar(quiet=json) as progress:
        outcomes = build_all(chosen, arch, cache, jobs, progress)
    rows = [row for outcome in outcomes for row in _rows(outcome, arch)]
    print_json(rows) if json else _print(rows)
    failed = [o for o in outcomes if o.error]
    if failed:
        reasons = "\n".join(f"- {o.kernel}/{o.variant}: {o.error}" for o in failed)
        raise BuildError(f"{len(failed)} of {len(outcomes)} builds failed:\n{reasons}")


def _rows(outcome: Outcome, arch: str) -> list[dict[str, Any]]:
    """One row an entry; one row without an entry for what was not built."""
    head = {"kernel": outcome.kernel, "variant": outcome.variant, "status": outcome.status}
    if outcome.build is None:
        reason = str(outcome.error) if outcome.error else "the kernel has no GPU source"
        return [{**head, "reason": reason, "arch": arch}]
    return [{**head, **_entry(outcome.build, entry)} for entry in outcome.build.entries]


def _entry(build: Build, entry: EntryFacts) -> dict[str, Any]:
    from attribution.build.residency import SMS, limits_of

    held = entry.residency(build.arch)
    limits = limits_of(build.arch)
    chips = {
        chip: held.ctas * sms
        for chip, (capability, sms) in SMS.items()
        if held and limits and limits.capability == capability
    }
    return {
        "entry": entry.name,
        "arch": build.arch,
        "identity": build.identity,
        "compiler": build.compiler,
        "registers": entry.registers,
        "spill_bytes": entry.spill_store_bytes + entry.spill_load_bytes,
        "threads": entry.threads,
        "smem_static_bytes": entry.smem_static_bytes,
        "smem_dynamic_bytes": entry.smem_dynamic_bytes,
        "ctas_per_sm": held.ctas if held else None,
        "capped_by": list(held.caps) if held else None,
        "next_step": [str(step) for step in held.next] if held else None,
        "resident_ctas": chips,
        "warnings": list(build.warnings),
        "compile_s": build.compile_s,
        "instructions": sum(entry.opcodes.values()),
        "opcodes": dict(entry.opcodes),
        "opcodes_by_role": {role: dict(counts) for role, counts in entry.opcodes_by_role.items()},
    }


def _print(rows: list[dict[str, Any]]) -> None:
    """Resources, residency and opcodes as tables; then what was not built, and every warning."""
    built = [row for row in rows if "entry" in row]
    names = {"kernel": "kernel", "variant": "variant", "entry": "entry"}
    resources = {
        "status": "status",
        "registers": "registers",
        "spill_bytes": "spill B",
        "threads": "threads",
        "smem_static_bytes": "static smem B",
        "smem_dynamic_bytes": "dynamic smem B",
    }
    print_rows(built, names | resources)
    held = [{**row, **row["resident_ctas"]} for row in built]
    chips = {chip: f"{chip} holds" for row in built for chip in row["resident_ctas"]}
    steps = {"ctas_per_sm": "CTAs/SM", "capped_by": "capped by", "next_step": "next step at"}
    print_rows(held, names | steps | chips)
    counted = [{**row, **{o: row["opcodes"].get(o, 0) for o in OPCODES}} for row in built]
    there = {o: o for o in OPCODES if any(row[o] for row in counted)}
    print_rows(counted, names | {"instructions": "all SASS"} | there)
    for kernel in dict.fromkeys(row["kernel"] for row in rows if row["status"] == "skipped"):
        print(f"{kernel}: skipped, it has no GPU source")
    for row in built:
        for warning in row["warnings"]:
            print(f"{row['kernel']}/{row['variant']}: warning: {warning}")
