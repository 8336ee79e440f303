"""What the traces of a report show: who finishes last and why, and what the roles did there.

In: an opened recording.  Out: two `Section`s.
Misuse: durations of a traced build locate; they stand here as places in time, never as the time of the plain build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attribution.errors import AttrError
from attribution.recording import Recording
from attribution.show import report_svg as svg
from attribution.show.cells import DASH, interval_share, text
from attribution.show.report_accounts import bases
from attribution.show.report_blocks import NUMBER, REASON, VERDICT, Block, Column, Figure, Section, Table, Text
from attribution.tables import records

if TYPE_CHECKING:
    from attribution.analyze.traced import Trace

TAILS = (
    "Rows and finish of every SM of the device, and which quantity explains the time of the last one: each explanation is "
    "fitted on some interventions and must predict the others."
)
TIMELINE = (
    "The roles of the CTAs on the SM that finishes last: work is filled, waits are outlines. Hidden work that is made faster "
    "turns into waiting."
)
CTAS, STRETCHES = 4, 2500
"""Most CTAs and spans that a timeline draws: more would be a heavier page and no clearer one."""


def _trace(recording: Recording, base: str) -> Trace | Text:
    """The first traced run of a base, or the sentence why there is none."""
    from attribution.analyze.traced import traced

    if recording.table("events").empty:
        skipped = recording.manifest.get("measuring", {}).get("skipped", [])
        reason = "".join(f" ({s['reason']})" for s in skipped if s["scope"] == "trace")
        return Text(f"Scope trace was not recorded{reason}: no rows, finish or roles of single SMs.", missing=True)
    try:
        found = traced(recording, base)
    except AttrError as error:
        return Text(f"{base}: {error}", missing=True)
    return found or Text(f"{base}: scope trace was not recorded for this arm.", missing=True)


def tails_section(recording: Recording) -> Section:
    """Per-SM figure and the row law of every base."""
    blocks: list[Block] = []
    for base in bases(recording):
        trace = _trace(recording, base)
        blocks += [trace] if isinstance(trace, Text) else _sms(base, trace)
        blocks.append(_law(recording, base))
    return Section("tails", "Tails", TAILS, _once(blocks))


def _once(blocks: list[Block]) -> tuple[Block, ...]:
    """The same sentence of several bases is said once."""
    return tuple(b for i, b in enumerate(blocks) if not isinstance(b, Text) or b not in blocks[:i])


def _sms(base: str, trace: Trace) -> list[Block]:
    from attribution.analyze.tails import summary

    if trace.left_out:
        return [Text(f"{trace.arm}, run {trace.run}: {trace.left_out}", missing=True)]
    whole = records(summary(trace.per_sm))[0]
    sentence = (
        f"{trace.arm}, run {trace.run}: the busiest SM has {whole['busiest_sm_rows']} rows ({whole['sms_with_it']} SMs have as "
        f"many), the mean is {whole['mean_rows']:.3f}, {whole['idle_sms']} SMs have none; the fullest SM has {whole['waves']} "
        f"CTAs; last finish {whole['finish_ns'] / 1e6:.3f} ms, mean {whole['mean_finish_ns'] / 1e6:.3f} ms."
    )
    sms = [(int(r["sm"]), int(r["rows"]), r["finish_ns"] / 1e6) for r in trace.sm_rows()]
    title = f"Rows (bars) and finish (points) of every SM, {trace.arm}"
    return [Figure(title, sentence, svg.per_sm(f"sms-{trace.run}", title, sentence, sms)), Text(sentence)]


def _law(recording: Recording, base: str) -> Block:
    from attribution.analyze.interventions import choose_scope, interventions

    try:
        found = interventions(recording, base, scope=choose_scope(recording.table("times"), None))
        rivals = records(found.compare())
    except AttrError as error:
        return Text(f"No row law for {base}: {error}", missing=True)
    columns = (
        Column("explanation x"), Column("a, ms", NUMBER), Column("b, ms [95 %]", NUMBER), Column("largest error", NUMBER),
        VERDICT, REASON,
    )  # fmt: skip
    cells = tuple(
        (r["explanation"], text(r["intercept_ns"] / 1e6), _slope(r), interval_share(r["error_max"]),
         r["verdict"], r["reason"])
        for r in rivals
    )  # fmt: skip
    arms = ", ".join(str(arm) for arm in found.table["arm"])
    note = (
        f"T = a + b x, tested on interventions that were held out. Interventions: {arms}. Scope {found.rounds.scope}."
    )
    if len(found.apart):
        missed = ", ".join(f"{r['arm']} by {interval_share(r['error'])}" for r in records(found.apart))
        note += f" Launches in waves have no one clock and stand apart: the law of rows misses {missed}."
    return Table(f"What explains the time of {base}", columns, cells, note)


def _slope(row: dict[str, Any]) -> str:
    parts = [text(row[f"slope{end}_ns"] / 1e6) for end in ("", "_low", "_high")]
    return parts[0] if parts[1] == DASH else f"{parts[0]} [{parts[1]}, {parts[2]}]"


def timeline_section(recording: Recording) -> Section:
    """Timeline, roles and critical path of every base."""
    blocks: list[Block] = []
    for base in bases(recording):
        trace = _trace(recording, base)
        blocks += [trace] if isinstance(trace, Text) else _timeline(trace)
    return Section("timeline", "Timeline", TIMELINE, _once(blocks))


def _timeline(trace: Trace) -> list[Block]:
    from attribution.analyze import critical

    blocks: list[Block] = [Text(trace.left_out, missing=True)] if trace.left_out else []
    blocks.append(_lanes(trace))
    rows = [{k: v / 1e6 if k.endswith("_ns") else v for k, v in row.items()} for row in trace.role_rows()]
    heads = list(rows[0]) if rows else []
    columns = tuple(
        Column(f"{h.removesuffix('_ns').replace('_', ' ')}{', ms' if h.endswith('_ns') else ''}", "code" if h == "role" else NUMBER)
        for h in heads
    )  # fmt: skip
    note = "Sums over all CTAs. Fill is until the role's first work, drain after the last work of the role before it."
    blocks.append(
        Table(
            f"Roles of {trace.arm}, run {trace.run}", columns, tuple(tuple(map(text, r.values())) for r in rows), note
        )
    )
    try:
        sums = records(critical.summary(critical.path(trace.spans)))
    except AttrError as error:
        return [*blocks, Text(f"No critical path: {error}", missing=True)]
    columns = (Column("role", "code"), Column("kind"), Column("ms", NUMBER), Column("share", NUMBER))
    cells = tuple(
        (s["role"] or DASH, s["kind"], f"{s['time_ns'] / 1e6:.3f}", interval_share(s["share"])) for s in sums
    )  # fmt: skip
    note = "Walked back from the last stamp: at the end of a wait it goes to the role that was waited for."
    blocks.append(Table(f"Critical path of {trace.arm}", columns, cells, note))
    if len(trace.unpaired):
        blocks.append(Text(f"{len(trace.unpaired)} events have no partner and are in no sum.", missing=True))
    return blocks


def _lanes(trace: Trace) -> Figure:
    from attribution.analyze.lastsm import on_last_sm

    mine = on_last_sm(trace.spans)
    sm = int(mine["sm"].iloc[0])
    chosen = mine.groupby("cta")["begin_ns"].min().sort_values(kind="stable").index[:CTAS]
    drawn = mine[mine["cta"].isin(chosen)].sort_values("begin_ns", kind="stable").head(STRETCHES)
    roles = list(drawn["role"].cat.categories)
    lanes = []
    for cta in chosen:
        for colour, role in enumerate(roles):
            part = records(drawn[(drawn["cta"] == cta) & (drawn["role"] == role)])
            lanes.append((f"CTA {cta}, {role}", colour, [_stretch(span) for span in part]))
    left_out = len(mine) - len(drawn)
    cut = f" {left_out} later spans of this SM are not drawn." if left_out else ""
    title = f"SM {sm}, which finishes last{' of those traced' if trace.left_out else ''}, {trace.arm}, run {trace.run}"
    alt = f"Work and waits of {', '.join(map(str, roles))} of {len(chosen)} CTAs on SM {sm}: {len(drawn)} spans.{cut}"
    return Figure(title, alt, svg.timeline(f"timeline-{trace.run}", title, alt, lanes))


def _stretch(span: dict[str, Any]) -> svg.Stretch:
    begin, end = span["begin_ns"] / 1e6, span["end_ns"] / 1e6
    tip = f"{span['event']} {span['arg']}: {begin:.3f} to {end:.3f} ms"
    return svg.Stretch(begin, end, bool(span["wait"]), tip)
