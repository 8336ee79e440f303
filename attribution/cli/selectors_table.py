"""What a recording of selectors answers, as one value, and how it is printed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from attribution.cli.output import print_rows
from attribution.errors import DataError, InputError
from attribution.tables import records

if TYPE_CHECKING:
    import pandas as pd

    from attribution.analyze.dispatch import Rule
    from attribution.recording import Recording

POINT = {"distribution": "distribution", "rows": "rows", "columns": "columns", "k": "k"}


@dataclass(frozen=True)
class Answer:
    """Everything that `attr selectors` says of one recording in one scope."""

    recording: Recording
    scope: str
    cells: pd.DataFrame
    crossovers: pd.DataFrame
    sensitivity: pd.DataFrame
    two_modes: pd.DataFrame
    selected_again: pd.DataFrame
    rules: list[Rule]
    pair: tuple[str, str]
    claims: list[str]

    def json(self) -> dict[str, Any]:
        names = ("cells", "crossovers", "sensitivity", "two_modes", "selected_again")
        frames = {name: records(getattr(self, name)) for name in names}
        return {
            "recording": self.recording.path.name,
            "scope": self.scope,
            "selectors": self.recording.manifest["selectors"],
            **frames,
            "rules": [asdict(rule) | {"lines": rule.lines()} for rule in self.rules],
            "pair": self.pair,
            "claims": self.claims,
        }


def answer(recording: Recording, scope: str | None, first: str | None, second: str | None, random: str) -> Answer:
    """Raises InputError, DataError."""
    from attribution.analyze import dispatch, selectors
    from attribution.analyze.interventions import choose_scope

    if "selectors" not in recording.manifest:
        raise InputError(f"{recording.path.name} is no sweep of selectors: `attr show {recording.path.name}` prints it")
    if (first is None) != (second is None):
        raise InputError("--first and --second belong together: give both, or none")
    runs, times, checks = (recording.table(name) for name in ("runs", "times", "checks"))
    tick = float(recording.manifest["machine"]["tick_ns"])
    label = choose_scope(times, scope, selectors.STAGE)
    if label is None:
        raise DataError(f"{recording.path.name} has no time of a whole selection: every run failed or was skipped")
    found = selectors.cells(runs, times, checks, label, tick)
    if random not in set(found["distribution"]):
        raise InputError(f"--random {random}: there are: {', '.join(dict.fromkeys(found['distribution']))}")
    needs = {facts["name"]: facts["needs"] for facts in recording.manifest["selectors"]}
    names = list(dict.fromkeys(found["distribution"]))
    captured = [name for name in names if name in recording.manifest["files"]]
    pair = (first, second) if first and second else dispatch.most_sensitive(found)
    return Answer(
        recording, label, found, selectors.crossovers(found), selectors.sensitivity(found, random),
        selectors.in_two_modes(runs, times, label, tick), selectors.selected_again(runs, recording.table("capacity")),
        [dispatch.rule(found, over, needs) for over in (names, captured) if over], pair,
        dispatch.claims(found, *pair, [random]),
    )  # fmt: skip


def show(found: Answer) -> None:
    """Table, crossovers, sensitivity, rule, and the sentences."""
    from attribution.analyze.selectors import relative
    from attribution.claim import scope_sentence

    manifest = found.recording.manifest
    base = found.cells["first"].iloc[0]
    print(
        f"Exact top-k, {found.scope}, {manifest['plan']['rounds']} paired rounds a point; ratios are selector / {base} [95 %]\n"
    )
    times = relative(found.cells)
    names = [name for name in dict.fromkeys(times["selector"]) if name != base]
    rows = [_row(found.cells, mine, str(base)) for _, mine in times.groupby([*POINT], sort=False)]
    print_rows(rows, {**POINT, "ms": f"{base}, ms", **{name: name for name in names}, "fastest": "fastest"})
    for facts in manifest["selectors"]:
        if facts["missing"]:
            print(f"{facts['name']}: not measured: {facts['missing']}")
    for point in manifest["skipped"]:
        print(f"{point['distribution']}: not measured: {point['reason']}")
    for reason in dict.fromkeys(found.cells.loc[found.cells["verdict"] == "void", "reason"]):
        print(f"void: {reason}")
    changing = found.crossovers[found.crossovers["changes"] > 0]
    print(
        f"\nWhere the faster of two changes with the width ({len(changing)} of {len(found.crossovers)}; `--json` has all)"
    )
    print_rows([_crossover(row) for row in records(changing)])
    print("\nTime on another distribution over that on the random one, same shape (unpaired)")
    print_rows([{**row, **{n: f"{row[n]:.2f} x" for n in ("least", "most")}} for row in records(found.sensitivity)])
    for row in records(found.two_modes):
        modes = ", ".join(f"{row[which]} samples at {row[which + '_ns'] / 1e6:.3f} ms" for which in ("lower", "upper"))
        print(f"{_at(row)}: two modes: {modes}")
    for row in records(found.selected_again):
        print(f"{_at(row)}: {row['failures']} of {row['of']} rows were selected again: {row['limit']}")
    print("\nA dispatch rule, by the best worst case")
    for rule in found.rules:
        print("\n".join(rule.lines()))
    print("\n" + "\n".join([*found.claims, "", scope_sentence(found.recording)]))


def _at(row: dict[str, Any]) -> str:
    return f"{row['selector']} on {row['distribution']}, rows={row['rows']}, columns={row['columns']}, k={row['k']}"


def _row(cells: pd.DataFrame, mine: pd.DataFrame, base: str) -> dict[str, Any]:
    """One point: the base's time, each selector's ratio to it, and those that nobody is known to beat there."""
    from attribution.analyze.selectors import unbeaten

    out = records(mine[[*POINT]])[0] | {"ms": "-"}
    for one in records(mine):
        if one["selector"] == base:
            out["ms"] = f"{one['time_ns'] / 1e6:.3f}"
        else:
            out[one["selector"]] = f"{one['ratio']:.3f} [{one['ratio_low']:.3f}, {one['ratio_high']:.3f}]"
    here = cells[(cells[[*POINT]] == mine[[*POINT]].iloc[0]).all(axis=1)]
    return out | {"fastest": ", ".join(unbeaten(here))}


def _crossover(row: dict[str, Any]) -> dict[str, Any]:
    place = {name: row[name] for name in ("distribution", "rows", "k")}
    return place | {"pair": f"{row['second']} / {row['first']}", "faster": row["words"]}
