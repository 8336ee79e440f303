"""`attr predict`: rows on the busiest SM of a persistent grid, before anything is built or run."""

from __future__ import annotations

from typing import Annotated

import typer

from attribution.cli.options import Json
from attribution.cli.output import print_json, print_rows
from attribution.errors import InputError

MOST = 1 << 20
"""Of each number: a schedule of a million CTAs takes seconds, one of a billion does not end."""


def predict(
    q: Annotated[int, typer.Option("--q", help="Query rows.")],
    sms: Annotated[int, typer.Option("--sms", help="SMs of the device.")],
    block_q: Annotated[int, typer.Option("--block-q", help="Query rows of a batch.")] = 1,
    ctas: Annotated[int | None, typer.Option("--ctas", help="Persistent CTAs; 2 x SMs when not given.")] = None,
    resident: Annotated[int, typer.Option("--resident", help="CTAs that fit on one SM.")] = 1,
    json: Json = False,
) -> None:
    """Predict how many rows each SM works on, when every row takes the same time.

    A CTA of a later wave starts on whichever SM frees first.
    """
    from attribution.schedule import rows_per_sm

    ctas = 2 * sms if ctas is None else ctas
    for name, value in (
        ("--q", q),
        ("--sms", sms),
        ("--block-q", block_q),
        ("--ctas", ctas),
        ("--resident", resident),
    ):
        if not 1 <= value <= MOST:
            raise InputError(
                f"{name} {value}: allowed is an integer >= 1" + (f" and <= {MOST}" if value > MOST else "")
            )
    import numpy as np

    rows = rows_per_sm(q, block_q, ctas, sms, resident)
    counts = np.bincount(rows)
    table = [{"rows_on_sm": int(n), "sms": int(counts[n])} for n in np.flatnonzero(counts)[::-1]]
    busiest = int(rows.max())
    summary = {
        "busiest_sm_rows": busiest,
        "sms_with_it": int(counts[busiest]),
        "mean_rows": float(rows.mean()),
        "tail": float(busiest / rows.mean()),
    }
    if json:
        print_json({**summary, "rows": table})
        return
    print(
        f"{summary['sms_with_it']} SMs with {busiest} rows; mean {rows.mean():.3f} rows, "
        f"so the busiest SM has {summary['tail']:.3f} x the mean"
    )
    print_rows(table)
