"""`attr new NAME`: a kernel of your own that runs at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import Json
from attribution.cli.output import print_json


def new(
    name: Annotated[str, typer.Argument(help="Small letters, digits and _.")],
    root: Annotated[Path, typer.Option("--root", help="Your repository.")] = Path(),
    json: Json = False,
) -> None:
    """Write a kernel of your own, with two variants, that builds and runs at once."""
    from attribution import scaffold

    written = scaffold.new(root, name)
    if json:
        print_json([{"file": str(path)} for path in written])
        return
    for path in written:
        print(path)
    print("next:")
    print(f"  attr run --root {root} --kernel {name} --variant scalar    # on this machine's CPU")
    print(f"  attr build --root {root} --kernel {name}                   # for a GPU")
