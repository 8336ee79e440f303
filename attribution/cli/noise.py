"""`attr noise RECORDING...`: how often equal arms are called unequal, and what the rounds could tell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from attribution.cli.options import Json, open_each
from attribution.cli.output import print_json, print_rows
from attribution.tables import records

POINT_HEADS = {"shape": "shape", "distribution": "distribution"}
HEADS = {
    "scope": "scope",
    "stage": "stage",
    "rounds": "rounds",
    "blocks": "blocks",
    "called": "called",
    "slower": "slower",
    "holding": "hold it",
    "detectable": "detectable",
    "detectable_all": "by all",
    "called_at_third": "at a third",
}
ORDER_HEADS = {
    "recording": "recording",
    "scope": "scope",
    "stage": "stage",
    "by": "by",
    "level": "level",
    "ratio": "takes",
    "low": "95 %, low",
    "high": "high",
    "p_value": "p, all levels",
}
MEANING = """rounds of a block; blocks called faster or slower; estimates above 0; 95 % intervals that hold the effect;
detectable effect of a block and of all rounds; blocks called when the effect is a third of what is detectable in them"""


def noise(
    paths: Annotated[list[Path], typer.Argument(help="Recordings.")],
    arm: Annotated[str, typer.Option("--arm", help="Arm that is compared with its base.")] = "null",
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=2, help="Rounds of a block; the fewest that balance places otherwise.")
    ] = None,
    planted: Annotated[
        str | None, typer.Option("--planted", help="Flag by which every CTA of the arm is held up, in cycles.")
    ] = None,
    order: Annotated[
        bool, typer.Option("--order", help="Also what an arm's place and its predecessor do to its time.")
    ] = False,
    equal_clock: Annotated[
        bool, typer.Option("--equal-clock", help="Times brought to one SM clock, as a scope of its own.")
    ] = False,
    json: Json = False,
) -> None:
    """Cut the rounds into disjoint blocks, judge each as a measurement of its own, and count."""
    import pandas as pd

    from attribution.analyze import noise as blocks
    from attribution.analyze.carry_over import carry_over, unbalanced
    from attribution.claim.void import void_lines

    recordings = open_each(paths)
    effects = [carry_over(one).assign(recording=one.path.name) for one in recordings] if order else []
    placed = [row for frame in effects for row in records(frame)]
    found = pd.concat([blocks.noise(one, arm, rounds, planted, equal_clock) for one in recordings], ignore_index=True)
    total, called = int(found["blocks"].sum()), int(found["called"].sum())
    if json:
        print_json({"scopes": records(found), "blocks": total, "called": called, "order": placed})
        return
    shown = records(found)
    for row in shown:
        row["scope"] = str(row["scope"]).removesuffix("/as-found")
        row |= {key: f"{row[key]:.2%}" for key in ("detectable", "detectable_all")}
    # A recording of one point is told by its name.
    points = found[["recording", *POINT_HEADS]].drop_duplicates()
    several = len(points) > points["recording"].nunique()
    heads = {"recording": "recording", **(POINT_HEADS if several else {})}
    # Of several questions each has its own null arm.
    if len(found[["recording", "question"]].drop_duplicates()) > found["recording"].nunique():
        heads["question"] = "base"
    print_rows(shown, {**heads, **HEADS})
    print(MEANING)
    planted_effects = sorted(set(found["effect"]))
    print(
        f"{called} of {total} blocks called faster or slower; effect: {', '.join(f'{e:.2%}' for e in planted_effects)}"
    )
    for one in recordings:
        for line in void_lines(one, dict.fromkeys(found.loc[found["recording"] == one.path.name, "scope"])):
            print(f"{one.path.name}: {line}")
    for row in shown if planted else []:
        print(_whole(row))
    for row in placed:
        row |= {key: f"{row[key] - 1:+.3%}" for key in ("ratio", "low", "high")} | {"p_value": f"{row['p_value']:.3f}"}
    print_rows(placed, ORDER_HEADS)
    for one in recordings if order else []:
        for text in unbalanced(one):
            print(f"{one.path.name}: {text}")


def _whole(row: Mapping[str, Any]) -> str:
    """What all rounds together say of a planted effect: the wide intervals of blocks may hold what theirs leaves out."""
    center, low, high = (row[key] - 1 for key in ("ratio", "ratio_low", "ratio_high"))
    word = "holds" if low <= row["effect"] <= high else "leaves out"
    return (
        f"{row['recording']}, {row['scope']}, all {row['all_rounds']} rounds: {center:+.2%} [{low:+.2%}, {high:+.2%}], "
        f"which {word} {row['effect']:.2%}"
    )
