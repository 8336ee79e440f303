"""The first section of a report: what the recording answers, each claim with its interval, checks and expectation.

In: an opened recording.  Out: a `Section` with one list of claims a base.
Misuse: a claim belongs to one stage and one scope; the list shows both and never joins two.
"""

from __future__ import annotations

from typing import Any

from attribution.errors import AttrError
from attribution.recording import Recording
from attribution.show import report_svg as svg
from attribution.show.cells import DASH, interval_ms, interval_ratio, interval_share, point_names
from attribution.show.report_blocks import Claim, Claims, Section, Text
from attribution.tables import records

LEAD = (
    "Each arm is compared with its base, paired round by round: below 1 it is faster. The line is the 95 % interval, the band "
    "what was expected before measuring. Open a claim for its question, its checks and the reasons of its verdict."
)


def claims_section(recording: Recording) -> Section:
    """Every answer of the recording, by base; where it has none, the sentence why."""
    from attribution.claim import answers

    try:
        rows = records(answers(recording))
    except AttrError as error:
        return Section("claims", "Claims", LEAD, (Text(f"No claims: {error}", missing=True),))
    rows = [{**row, "point": point} for row, point in zip(rows, point_names(rows), strict=True)]
    bases = dict.fromkeys(str(row["base"]) for row in rows)
    blocks = tuple(_claims(base, [row for row in rows if row["base"] == base]) for base in bases)
    return Section("claims", "Claims", LEAD, blocks)


def _claims(base: str, rows: list[dict[str, Any]]) -> Claims:
    fields = ("time_ratio_low", "time_ratio", "time_ratio_high", "expected_ratio_low", "expected_ratio_high")
    scale = svg.ratio_scale(float(row[field]) for row in rows for field in fields)
    return Claims(base, svg.ratio_axis(scale), tuple(_claim(row, scale) for row in rows))


def _claim(row: dict[str, Any], scale: svg.Scale) -> Claim:
    ratio = interval_ratio(row) if row["pairs"] else DASH
    bounds = (float(row["time_ratio_low"]), float(row["time_ratio"]), float(row["time_ratio_high"]))
    expected = (float(row["expected_ratio_low"]), float(row["expected_ratio_high"]))
    text = str(row["expected"]).replace("time_ratio in ", "")
    tip = f"{row['arm']} / {row['base']}: {ratio}, {row['verdict']}" + (f", expected {text}" if text else "")
    return Claim(
        arm=str(row["arm"]),
        where=" · ".join(str(row[key]) for key in ("point", "stage", "scope") if row[key]),
        asks=str(row["asks"]),
        ratio=ratio,
        verdict=str(row["verdict"]),
        expected=text,
        expectation=str(row["expectation"] or ""),
        svg=svg.interval(scale, bounds, expected, tip),
        checks=tuple((name, value) for name, value in _checks(row) if value),
    )


def _checks(row: dict[str, Any]) -> list[tuple[str, str]]:
    known = bool(row["pairs"])
    rows = row["busiest_sm_rows"]
    return [
        ("verdict", f"{row['verdict']}: {row['reasons']}" if row["reasons"] else str(row["verdict"])),
        ("exposed, ms [95 %]", interval_ms(row, "exposed") if known else ""),
        ("detectable effect", interval_share(row["detectable"], float("nan"), float("nan")) if known else ""),
        ("paired rounds", str(row["pairs"])),
        ("equal work", f"{row['equal_work']}: {row['work']}" if row["work"] else str(row["equal_work"])),
        ("two modes", str(row["modes"])),
        ("marks", str(row["flags"]).replace(",", ", ")),
        ("rows on the busiest SM", f"{rows:.0f}" if rows == rows else ""),
    ]
