"""`attr list [KERNEL]`: kernels, or one kernel's variants, flags, shape and knobs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attribution.cli.options import Json, Root, root_folder
from attribution.cli.output import print_json, print_rows
from attribution.declare import Kernel
from attribution.load import kernel_names, load_kernel, load_variants


def list_(
    kernel: Annotated[str | None, typer.Argument(help="Show this kernel's variants and flags.")] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show the kernels, or one kernel's variants, flags, shape and knobs."""
    folder = root_folder(root)
    if kernel is None:
        kernels = [load_kernel(folder, name) for name in kernel_names(folder)]
        rows = [
            {
                "kernel": k.name,
                "summary": k.summary,
                "variants": list(load_variants(folder, k)),
                "runs_on": [where for where, how in (("host", k.host), ("cuda", k.gpu)) if how],
            }
            for k in kernels
        ]
        print_json(rows) if json else print_rows(rows)
        return
    found = load_kernel(folder, kernel)
    tables = {"variants": _variants(folder, found), "flags": _flags(found), "axes": _axes(found)}
    if json:
        print_json(tables)
        return
    print(found)
    for rows in tables.values():
        print_rows(rows)


def _variants(folder: Any, kernel: Kernel) -> list[dict[str, Any]]:
    return [
        {
            "variant": v.name,
            "base": v.base,
            "beside": list(v.beside),
            "changes": [f"{k}={x}" for k, x in {**v.flags, **v.knobs}.items()],
            "asks": v.asks,
            "expects": [f"{m} {q} {lo:g}..{hi:g}" for m, e in v.expects.items() for q, (lo, hi) in e.items()],
        }
        for v in load_variants(folder, kernel).values()
    ]


def _flags(kernel: Kernel) -> list[dict[str, Any]]:
    return [
        {
            "flag": name,
            "default": str(f.default),
            "choices": list(f.choices) if f.choices else None,
            "meaning": f.doc,
        }
        for name, f in kernel.flags.items()
    ]


def _axes(kernel: Kernel) -> list[dict[str, Any]]:
    rows = []
    for what, axes in (("shape", kernel.shape), ("knob", kernel.knobs)):
        for name, axis in axes.items():
            default = f"{axis.default} x {axis.times}" if axis.times else str(axis.default)
            multiple = axis.multiple if axis.multiple > 1 else None
            rows.append(
                {
                    "axis": name,
                    "kind": what,
                    "default": default,
                    "on_a_gpu": None if what == "knob" else axis.gpu or axis.default,
                    "least": axis.least,
                    "multiple_of": multiple,
                    "meaning": axis.doc,
                }
            )
    return rows
