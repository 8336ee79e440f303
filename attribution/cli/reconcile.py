"""`attr reconcile`: does a part's saving times its share account for what the whole saved, and if not, why not?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attribution.cli.options import Json, open_each
from attribution.cli.output import print_json, print_rows
from attribution.errors import DataError, InputError

if TYPE_CHECKING:
    from attribution.analyze.account import Account
    from attribution.analyze.prefill import AdapterCost
    from attribution.analyze.reconcile import Interval, Reconciled


def reconcile(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Recordings of `attr prefill`, or a .csv with columns share, saving, measured."),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option("--rule", help="Which kernels are a range's: launched_by_thread (the default), ..., or timed."),
    ] = None,
    share: Annotated[
        str | None, typer.Option("--share", help="Share of the whole, %, with all its digits: 9.62")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", help="In place of --share: a Chrome trace or nsys SQLite file.")
    ] = None,
    part: Annotated[str | None, typer.Option("--part", help="The range in --profile that is the part.")] = None,
    saving: Annotated[str | None, typer.Option("--saving", help="Saving of the part, %.")] = None,
    measured: Annotated[
        str | None, typer.Option("--measured", help="Saving of the whole that was measured, %.")
    ] = None,
    eligible: Annotated[
        float, typer.Option("--eligible", min=0, max=1, help="Fraction of the part that the saving applies to.")
    ] = 1.0,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="Scope of share, saving and measurement: three times.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the accounts of recordings: .svg or .png.")] = None,
    json: Json = False,
) -> None:
    """Compare share x saving with the measured saving of the whole, and name what lies between.

    Recordings give every term with its interval.  Printed numbers (a .csv, or --share, --saving and --measured) give what
    their digits leave open.
    """
    numbers = {"--share": share, "--profile": profile, "--part": part, "--saving": saving, "--measured": measured}
    given = [name for name, value in numbers.items() if value is not None]
    if paths and given:
        raise InputError(f"{given[0]} beside {paths[0]}: give recordings, or a .csv, or numbers")
    if plot is not None and (not paths or any(p.suffix == ".csv" for p in paths)):
        raise InputError(f"--plot {plot}: is for recordings of `attr prefill`, whose terms were measured")
    if not paths:
        _from_numbers(share, profile, part, rule, saving, measured, eligible, scope, json)
    elif any(p.suffix == ".csv" for p in paths):
        if len(paths) > 1 or rule is not None:
            raise InputError(f"{paths[0]}: one .csv at a time, without --rule; recordings are given without one")
        _from_table(paths[0], json)
    else:
        _from_recordings(paths, rule, plot, json)


def _from_recordings(paths: list[Path], rule: str | None, plot: Path | None, json: bool) -> None:
    from attribution.analyze.prefill import RULES, adapter_cost, check_together, prefill_account, requests

    rule = _rule(rule, RULES)
    recordings = open_each(paths)
    for recording in recordings:
        requests(recording)
    check_together(recordings)
    costs = [(r, adapter_cost(r)) for r in recordings]
    adapters = [cost for _, cost in costs if cost is not None]
    if len(adapters) > 1:
        raise InputError(f"{adapters[0].name} and {adapters[1].name} both measure the adapter: give one of them")
    adapter = adapters[0] if adapters else None
    accounts = [prefill_account(r, rule, adapter) for r, cost in costs if cost is None]
    if plot is not None:
        from attribution.show.bridge import draw_bridge

        draw_bridge(accounts, plot)
    if json:
        cost = (
            None
            if adapter is None
            else {"name": adapter.name, "calls": adapter.calls, "request_ns": adapter.request_ns}
        )
        print_json({"accounts": [a.row() for a in accounts], "adapter": cost})
        return
    _print_accounts(accounts, adapter)
    if plot is not None:
        print(f"figure: {plot}")


def _print_accounts(accounts: list[Account], adapter: AdapterCost | None) -> None:
    if accounts:
        print("Saving of the whole in % of native time to first token [95 %]; indented lines are subtracted\n")
        columns = {"line": ""} | {a.name: a.name for a in accounts}
        shown = {a.name: _lines(a) for a in accounts}
        lines = dict.fromkeys(line for mine in shown.values() for line in mine)
        print_rows([{"line": line, **{n: mine.get(line, "-") for n, mine in shown.items()}} for line in lines], columns)
        print()
        for one in accounts:
            print(f"{one.name}:")
            for line in one.notes:
                print(f"    {line}")
    if adapter is not None:
        print(adapter)


def _lines(one: Account) -> dict[str, str]:
    """From the share down to what was measured, one line each."""
    from attribution.analyze.account import NOTES

    terms = {t.name: _interval(t.pct) for t in one.terms}
    return {
        "share of the part": _interval(one.share),
        "saving of the part": _interval(one.saving),
        "share x saving": _interval(one.estimate),
        **{f"    {name}": terms.get(name, "not measured") for name in NOTES},
        "    remainder": _interval(one.remainder),
        "measured": _interval(one.measured),
        "the difference is": one.verdict,
    }


def _interval(values: Interval) -> str:
    low, value, high = (round(v, 3) + 0.0 for v in values)  # no -0.000
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _from_table(path: Path, json: bool) -> None:
    import csv

    from attribution.analyze.reconcile import reconcile_rows

    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except csv.Error as error:
        raise DataError(f"{path} is no table: {error}") from error
    found = reconcile_rows(rows, path.name)
    if json:
        print_json([_row(r) for r in found])
        return
    print("Saving of the whole, %; intervals are what the printed digits leave open\n")
    shown = [
        {
            "name": r.name,
            "estimate": _interval((r.estimate_low_pct, r.estimate_pct, r.estimate_high_pct)),
            "measured": f"{r.measured_pct:g}",
            "over": _interval(r.overestimate_pct),
            "times": f"{r.times_measured:.2f}",
            "verdict": r.verdict,
        }
        for r in found
    ]
    first = next(iter(rows[0]))
    named = rows[0][first] == found[0].name
    heads = {"name": first.replace("_", " ") if named else "line", "estimate": "share x saving", "measured": "measured"}
    print_rows(shown, heads | {"over": "overestimated by", "times": "times measured", "verdict": "measured is"})


def _row(found: Reconciled) -> dict[str, Any]:
    low, _, high = found.overestimate_pct
    return {
        **vars(found),
        "overestimate_low_pct": low,
        "overestimate_high_pct": high,
        "times_measured": found.times_measured,
    }


def _from_numbers(
    share: str | None,
    profile: Path | None,
    part: str | None,
    rule: str | None,
    saving: str | None,
    measured: str | None,
    eligible: float,
    scope: list[str] | None,
    json: bool,
) -> None:
    from attribution.analyze.reconcile import reconcile as account

    if (
        saving is None
        or measured is None
        or (share is None) == (profile is None)
        or (profile is None) != (part is None)
    ):
        raise InputError(
            "nothing to reconcile: give recordings of `attr prefill`, a .csv, or --saving, --measured and either --share or "
            "--profile FILE --part RANGE"
        )
    if scope and len(scope) != 3:
        raise InputError(f"--scope was given {len(scope)} times: give those of share, saving and measurement")
    if profile is None and rule is not None:
        raise InputError(f"--rule {rule}: is for a --profile or for recordings")
    scopes = (scope[0], scope[1], scope[2]) if scope else None
    said = ""
    if profile is not None:
        of_whole, said = _profiled(profile, str(part), rule)
    else:
        of_whole = _printed("--share", str(share))
    found = account(
        of_whole, _printed("--saving", saving), _printed("--measured", measured), "whole", (eligible,) * 3, scopes
    )
    if json:
        print_json(_row(found))
        return
    if said:
        print(said)
    print(found)


def _profiled(path: Path, part: str, rule: str | None) -> tuple[Interval, str]:
    """The share of a range of a profiler's file.  Raises InputError, DataError."""
    from attribution.analyze.shares import range_share
    from attribution.ingest.ranges import RULES
    from attribution.ingest.read import read

    rule = _rule(rule, RULES)
    file = read(path)
    found = range_share(file.table("kernels"), file.table("ranges"), part, rule)
    return (found.low_pct, found.share_pct, found.high_pct), str(found)


def _rule(rule: str | None, known: tuple[str, ...]) -> str:
    if rule is None:
        return known[0]
    if rule not in known:
        raise InputError(f"--rule {rule}: allowed are {', '.join(known)}")
    return rule


def _printed(option: str, text: str) -> Interval:
    """A printed number with the interval of its rounding.  Raises InputError."""
    from attribution.analyze.reconcile import printed

    try:
        return printed(text, option)
    except DataError as error:
        raise InputError(str(error)) from None
