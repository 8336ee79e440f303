"""`attr finish PATH`: a recording of what a stopped measurement on a GPU has finished."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import Root, root_folder


def finish(
    path: Annotated[Path, typer.Argument(help="The recording that was to be: PATH.partial is there.")],
    root: Root = None,
) -> None:
    """Make a recording of the whole rounds of a stopped measurement, where the card to go on with is gone."""
    from attribution.measure.finish import finish as publish

    print(publish(path, root_folder(root)))
