"""`attr reconcile`: does a part's saving times its share account for what the whole saved?"""

from __future__ import annotations

from typing import Annotated

import typer

from attribution.cli.options import Json
from attribution.cli.output import print_json
from attribution.errors import InputError


def reconcile(
    share: Annotated[str, typer.Option("--share", help="Share of the whole, %, with all its digits: 9.62")],
    saving: Annotated[str, typer.Option("--saving", help="Saving of the part, %.")],
    measured: Annotated[str, typer.Option("--measured", help="Saving of the whole that was measured, %.")],
    eligible: Annotated[
        float, typer.Option("--eligible", min=0, max=1, help="Fraction of the part that the saving applies to.")
    ] = 1.0,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="Scope of share, saving and measurement: three times.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare share x saving with the measured saving; printed digits say how far each may be off."""
    from attribution.analyze.reconcile import reconcile as account

    if scope and len(scope) != 3:
        raise InputError(f"--scope was given {len(scope)} times: give those of share, saving and measurement")
    scopes = (scope[0], scope[1], scope[2]) if scope else None
    values = [
        _printed(name, text) for name, text in (("--share", share), ("--saving", saving), ("--measured", measured))
    ]
    found = account(values[0], values[1], values[2], "whole", (eligible,) * 3, scopes)
    if json:
        print_json(vars(found))
        return
    print(found)


def _printed(option: str, text: str) -> tuple[float, float, float]:
    """A printed number with the interval of its rounding.  Raises InputError."""
    from attribution.analyze.reconcile import rounded

    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{option} {text!r}: must be a number of percent, such as 9.62") from None
    if value != value or value in (float("inf"), float("-inf")) or "e" in text.lower():
        raise InputError(f"{option} {text!r}: must be a number of percent, such as 9.62")
    return rounded(value, len(text.partition(".")[2]))
