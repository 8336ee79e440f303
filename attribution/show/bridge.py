"""The way from share x saving down to what was measured, one panel an account: each term takes a step off.

In: `Account`s.  Out: a matplotlib Figure or a file.
Misuse: the remainder is no term: its bar is what none of them covers, and it is drawn in another colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attribution.errors import InputError
from attribution.show.plot import COLOURS, GREY, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from attribution.analyze.account import Account
    from attribution.analyze.reconcile import Interval

HEADS = {"estimate": "share x saving", "remainder": "remainder", "measured": "measured"}


def steps(account: Account) -> list[tuple[str, str, Interval, float]]:
    """(kind, label, interval in %, where the bar begins): the estimate and the measurement stand on 0, terms hang from above."""
    out = [("estimate", HEADS["estimate"], account.estimate, 0.0)]
    at = account.estimate[1]
    for term in account.terms:
        at -= term.pct[1]
        out.append(("term", term.name, term.pct, at))
    out.append(("remainder", HEADS["remainder"], account.remainder, at - account.remainder[1]))
    out.append(("measured", HEADS["measured"], account.measured, 0.0))
    return out


def bridge_figure(accounts: Sequence[Account]) -> Figure:
    """Panels side by side; black lines are 95 % intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.0 + 3.2 * len(accounts), 3.6), layout="constrained")
    axes = figure.subplots(1, len(accounts), squeeze=False)[0]
    for place, account in zip(axes, accounts, strict=True):
        draw_account(place, account)
    axes[0].set_xlabel("% of the whole saved")
    return figure


def draw_account(axes: Axes, account: Account) -> None:
    """One account, from the top down."""
    colours = {"estimate": GREY, "term": COLOURS[0], "remainder": COLOURS[1], "measured": COLOURS[7]}
    shown = steps(account)
    for row, (kind, _, (low, value, high), begin) in enumerate(shown):
        axes.barh(row, value, left=begin, height=0.7, color=colours[kind])
        if low == low and high == high:
            axes.hlines(row, begin + low, begin + high, color="black", linewidth=1.2)
        text = f"{round(value, 2) + 0.0:.2f}"  # no -0.00
        right = max(begin, begin + value, begin + (high if high == high else value))
        axes.annotate(text, (right, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(shown)), [label for _, label, _, _ in shown], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.6)
    axes.margins(x=0.18)
    axes.set_title(f"{account.name}: {account.verdict}", fontsize=9)


def draw_bridge(accounts: Sequence[Account], path: Path) -> None:
    """Write the figure.  Raises InputError for another ending or no account, MeasureError when it cannot be written."""
    if not accounts:
        raise InputError(f"{path.name}: no account to draw; add the recording of a length that uses the fused indexer")
    save(bridge_figure(accounts), path)
