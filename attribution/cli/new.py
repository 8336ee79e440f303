"""`attr new NAME`: start a kernel of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import Json
from attribution.cli.output import print_json


def new(
    name: Annotated[str, typer.Argument(help="Name of the kernel: lower-case letters, digits and _.")],
    root: Annotated[
        Path,
        typer.Option("--root", help="Your repository; its kernels/ and variants/ are written."),
    ] = Path(),
    json: Json = False,
) -> None:
    """Write a kernel of your own that runs at once: a folder under kernels/ and a file under variants/."""
    from attribution.load import load_kernel, load_variants
    from attribution.scaffold import new_kernel

    written = new_kernel(root, name)
    variants = load_variants(root, load_kernel(root, name))
    variant = next(v.name for v in variants.values() if v.base)
    if json:
        print_json({"files": [str(p) for p in written], "variants": list(variants)})
        return
    for path in written:
        print(path)
    print(f"\nIt runs already:  attr run --root {root} --kernel {name} --variant {variant}")
