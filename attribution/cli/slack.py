"""`attr slack PATH --role ROLE`: how much longer a role may take unnoticed, and what making it faster would change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import Json, Point, Scope, open_point
from attribution.cli.output import print_json, print_rows
from attribution.tables import records


def slack(
    path: Annotated[Path, typer.Argument(help="A recording with arms that delay the role.")],
    role: Annotated[str, typer.Option("--role", help="Role that was delayed.")],
    base: Annotated[
        str | None, typer.Option("--base", help="Arm without a delay; the first question's base when not given.")
    ] = None,
    items: Annotated[
        int | None,
        typer.Option("--items", min=1, help="How often the role works on the busiest SM, where that is not known."),
    ] = None,
    faster: Annotated[
        float, typer.Option("--faster", min=0, max=1, help="Predict the whole when the role takes this much less.")
    ] = 0.1,
    test_arm: Annotated[
        str | None, typer.Option("--test-arm", help="Arm in which the role is faster or slower: tests the prediction.")
    ] = None,
    scope: Scope = None,
    point: Point = None,
    json: Json = False,
) -> None:
    """Fit the whole's time over the injected delay: knee = slack of the role, slope = how critical it is beyond."""
    from attribution.analyze import slack as hinge
    from attribution.analyze.clock import clock_sentence
    from attribution.analyze.injected import prediction_test, sweep
    from attribution.analyze.interventions import check_known, choose_scope
    from attribution.claim import scope_sentence

    recording = open_point(path, point)
    top = check_known(recording, base)
    label = choose_scope(recording.table("times"), scope)
    found = sweep(recording, top, role, scope=label, items=items)
    fitted = found.fit()
    share = found.processing_ns / fitted.base_ns
    change = hinge.speedup(fitted, found.processing_ns, fitted.base_ns, faster) if share == share else None
    tested = prediction_test(recording, top, test_arm, found, fitted) if test_arm else None
    if json:
        predicted = (
            {"faster": faster, "whole_change_low": change[0], "whole_change_high": change[1]} if change else None
        )
        print_json(
            {
                "scope": found.rounds.scope,
                "arms": records(found.table),
                "clock_mhz": found.clock_mhz,
                "slack": vars(fitted),
                "prediction": predicted,
                "test": tested,
            }
        )
        return
    rows = [{**r, "delay_ns": r["delay_ns"] / 1e6, "time_ns": r["time_ns"] / 1e6} for r in records(found.table)]
    print_rows(
        rows,
        {
            "arm": "arm",
            "cycles": "cycles an item",
            "delay_ns": "injected, ms",
            "time_ns": "whole, ms",
            "source": "from",
        },
    )
    if sentence := clock_sentence(top, found.clock_mhz, recording.manifest["machine"]["kind"], found.rounds.scope):
        print(sentence)
    print(f"\n{fitted}")
    slopes = f"slope {fitted.slope:.2f} [{fitted.slope_low:.2f}, {fitted.slope_high:.2f}]"
    if fitted.knee_ns:
        slopes = f"before it {fitted.before:.2f} [{fitted.before_low:.2f}, {fitted.before_high:.2f}], beyond {slopes}"
    print(
        f"knee {fitted.knee_ns / 1e6:.3f} ms [{fitted.knee_low_ns / 1e6:.3f}, {fitted.knee_high_ns / 1e6:.3f}], "
        f"{slopes} (95 %, {len(found.rounds.rounds)} rounds); the times lie up to {fitted.misfit:.1%} of the whole off that line"
    )
    if change:
        print(
            f"prediction: {role} taking {faster:.0%} less changes the whole by {100 * change[0]:.2f} to {100 * change[1]:.2f} %; "
            "a faster variant of it, measured against the base, is the test"
        )
    if tested:
        numbers = {k: f"{100 * float(str(v)):.2f}" for k, v in tested.items() if k not in ("arm", "verdict")}
        took = (
            f"{numbers['faster']} % less"
            if float(str(tested["faster"])) > 0
            else f"{numbers['faster'].lstrip('-')} % more"
        )
        print(
            f"test: {test_arm}, in which {role} takes {took}: predicted {numbers['predicted_low']} to "
            f"{numbers['predicted_high']} %, measured {numbers['measured']} % [{numbers['measured_low']}, "
            f"{numbers['measured_high']}]: {tested['verdict']}"
        )
    print(f"\n{scope_sentence(recording, label)}")
