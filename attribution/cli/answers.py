"""The table of answers that `run`, `show` and `compare` print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attribution.analyze.verdict import AT_BEST, MARGIN
from attribution.cli.output import print_rows
from attribution.show.cells import DASH, harmless, interval_ms, interval_ratio, interval_share, point_names
from attribution.tables import records

if TYPE_CHECKING:
    from attribution.recording import Recording

COLUMNS = {
    "arm": "arm",
    "stage": "stage",
    "scope": "scope",
    "ratio": "time ratio [95 %]",
    "exposed": "exposed, ms [95 %]",
    "detectable": "detectable",
    "rows": "busiest SM",
    "work": "equal work",
    "verdict": "verdict",
    "expected": "expected",
    "expectation": "so it is",
}


def answer_rows(recording: Recording, stage: str | None, margin: float = MARGIN) -> list[dict[str, Any]]:
    """One mapping an arm, all fields of the answers."""
    from attribution.claim import answers

    return records(answers(recording, stage, margin=margin))


def print_answers(recording: Recording, rows: list[dict[str, Any]]) -> None:
    """The table, the reasons behind every verdict, and the sentence on what kind of time this is."""
    from attribution.claim import scope_sentence

    plan = recording.manifest["plan"]
    shape = ", ".join(f"{k} = {v}" for k, v in plan["shape"].items())
    bases = ", ".join(q["base"] for q in plan["questions"])
    shapes = {str(row["shape"]) for row in rows}
    shape = shape if len(shapes) <= 1 else f"{len(shapes)} shapes"
    print(f"{plan['kernel']}, {shape}, {plan['distribution']}, {plan['rounds']} rounds; ratios are arm / {bases}\n")
    points = point_names(rows)
    of = {"base": "base"} if len({row["base"] for row in rows}) > 1 else {}
    heads = ({"point": "point"} if any(points) else {}) | {"arm": "arm"} | of | COLUMNS
    print_rows([{"point": point, **_shown(r)} for r, point in zip(rows, points, strict=True)], heads)
    print()
    for row, point in zip(rows, points, strict=True):
        where = ", ".join(part for part in (f"base {row['base']}" if of else "", point, row["scope"]) if part)
        print(harmless(f"{row['arm']} ({where}): {row['asks']}"))
        print(harmless(f"    {row['verdict']}: {_why(row)}"))
    print(f"\n{scope_sentence(recording)}")


def _why(row: dict[str, Any]) -> str:
    """The reasons, then what was compared or seen and is not among them already: counts of work, modes."""
    reasons = row["reasons"].replace(AT_BEST, "")
    seen = [part for field in ("work", "modes") for part in row[field].split("; ") if part not in reasons]
    return "; ".join(filter(None, [reasons, *seen]))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    known = row["pairs"] > 0
    return {
        "arm": row["arm"],
        "base": row["base"],
        "stage": row["stage"],
        "scope": row["scope"].split("/")[0],
        "ratio": interval_ratio(row) if known else DASH,
        "exposed": interval_ms(row, "exposed") if known else DASH,
        "detectable": interval_share(row["detectable"]) if known else DASH,
        "rows": f"{row['busiest_sm_rows']:.0f} rows" if row["busiest_sm_rows"] == row["busiest_sm_rows"] else DASH,
        "work": row["equal_work"],
        "verdict": row["verdict"],
        "expected": row["expected"].replace("time_ratio in ", "") or DASH,
        "expectation": row["expectation"] or DASH,
    }
