"""The accounts of a report: the ledger with its second witnesses, and the ladder with its interactions.

In: an opened recording.  Out: two `Section`s, one part a base.
Misuse: terms whose verdict is not firm are hatched; a figure without that would be another claim.
"""

from __future__ import annotations

from typing import Any

from attribution.errors import AttrError
from attribution.recording import Recording
from attribution.show import report_svg as svg
from attribution.show.cells import DASH, account_ms, interval_ms, interval_share, witness
from attribution.show.report_blocks import NUMBER, REASON, VERDICT, Block, Column, Figure, Section, Table, Text
from attribution.tables import records

LEDGER = (
    "Every microsecond with its owner. The remainder is measured apart, by the null arm: nothing makes it zero but agreement. "
    "Each term stands beside a second witness of another kind; witnesses that disagree are both shown."
)
LADDER = (
    "Rungs add one mechanism at a time, paired round by round. A step is what disappears when the mechanism is taken away: "
    "neither its cost nor a bound on what optimizing it could bring."
)


def bases(recording: Recording) -> list[str]:
    """The base of every question, in the plan's order."""
    return [str(question["base"]) for question in recording.manifest["plan"]["questions"]]


def ledger_section(recording: Recording) -> Section:
    """Both accounts and the witnesses of every base."""
    return Section("ledger", "Ledger", LEDGER, _each(recording, _ledger))


def ladder_section(recording: Recording) -> Section:
    """The steps of every base that has rungs."""
    return Section("ladder", "Ladder", LADDER, _each(recording, _ladder))


def _each(recording: Recording, part: Any) -> tuple[Block, ...]:
    """The blocks of `part` for every base; what the analysis refuses is shown as its sentence."""
    blocks: list[Block] = []
    for base in bases(recording):
        try:
            blocks += part(recording, base)
        except AttrError as error:
            blocks.append(Text(f"{base}: {error}", missing=True))
    return tuple(blocks)


def _ledger(recording: Recording, base: str) -> list[Block]:
    from attribution.analyze.book import book

    found = book(recording, base)
    operator, main = records(found.operator), records(found.main)
    blocks: list[Block] = []
    if operator:
        blocks.append(_account(f"Operator of {base} = stages + gaps", operator, str(operator[0]["scope"])))
    else:
        blocks.append(Text(f"{base}: no scope has both the operator and its stages.", missing=True))
    title = f"Main kernel of {base}: terms, their sum, and what the null arm took"
    blocks.append(Figure(title, _alt(main), svg.waterfall(f"ledger-{_id(base)}", title, _alt(main), _bars(found.main))))
    blocks.append(_account(f"Main kernel of {base}", main, found.scope))
    blocks.append(_witnesses(base, records(found.witnesses)))
    if len(found.beside):
        rows = tuple((r["item"], interval_share(r["share"], r["low"], r["high"])) for r in records(found.beside))
        note = "Shares of its own time in the traced build; tail = last minus mean finish = by rows + spread."
        columns = (Column("item"), Column("share [95 %]", NUMBER))
        blocks.append(Table(f"The SM of {base} that finishes last", columns, rows, note))
    return blocks


def _account(title: str, rows: list[dict[str, Any]], scope: str) -> Table:
    columns = (Column("item"), Column("ms [95 %]", NUMBER), Column("share", NUMBER), VERDICT, REASON)
    cells = tuple((r["item"], account_ms(r), interval_share(r["share"]), r["verdict"], r["reason"]) for r in rows)
    return Table(title, columns, cells, f"Scope {scope}.")


def _bars(account: Any) -> list[svg.Bar]:
    from attribution.show.waterfall import bars

    out = []
    for row in records(bars(account)):
        begin = row["bottom_ns"] / 1e6
        end, half = begin + row["height_ns"] / 1e6, (row["low_ns"], row["high_ns"])
        low, high = (begin + h / 1e6 for h in half)
        firm = row["verdict"] in ("measured", "arithmetic", "closes", "")
        value = f"{row['time_ns'] / 1e6:.3f} ms · {interval_share(row['share'])}"
        tip = f"{row['item']}: {account_ms(row)} ms" + (f", {row['verdict']}" if row["verdict"] else "")
        out.append(svg.Bar(row["item"], row["kind"], begin, end, low, high, value, tip, firm))
    return out


def _alt(rows: list[dict[str, Any]]) -> str:
    parts = (f"{r['item']} {account_ms(r)} ms{f' ({v})' if (v := r['verdict']) else ''}" for r in rows)
    return "Bars of " + "; ".join(parts) + "."


def _witnesses(base: str, rows: list[dict[str, Any]]) -> Table:
    columns = (
        Column("term"), Column("first witness", "prose"), Column("second witness", "prose"), Column("apart", NUMBER),
        Column("allowed", NUMBER), VERDICT, Column("note", "prose"),
    )  # fmt: skip
    cells = tuple(
        (r["term"], witness(r, "first"), witness(r, "second"), interval_share(r["difference"]), interval_share(r["tolerance"]),
         r["verdict"], r["note"])
        for r in rows
    )  # fmt: skip
    return Table(f"Second witnesses of {base}", columns, cells, "Each as a share of its own total.")


def _ladder(recording: Recording, base: str) -> list[Block]:
    from attribution.analyze.interactions import interactions
    from attribution.analyze.interventions import choose_scope
    from attribution.analyze.ladder import ladder

    tables = {name: recording.table(name) for name in ("runs", "times", "counters", "checks")}
    variants, tick = recording.manifest["variants"], float(recording.manifest["machine"]["tick_ns"])
    label = choose_scope(tables["times"], None)
    steps = records(ladder(tables, variants, base, "main", label, tick))
    title = f"Ladder below {base}"
    bars = [_step_bar(step) for step in steps]
    alt = "Bars of " + "; ".join(bar.tip for bar in bars) + "."
    blocks: list[Block] = [Figure(title, alt, svg.waterfall(f"ladder-{_id(base)}", title, alt, bars))]
    columns = (
        Column("rung", "code"), Column("adds"), Column("ms", NUMBER), Column("step, ms [95 %]", NUMBER),
        Column(f"of {base} [95 %]", NUMBER), VERDICT, Column("equal work, or the reason", "prose"),
    )  # fmt: skip
    cells = tuple(
        (s["rung"], s["adds"], f"{s['time_ns'] / 1e6:.3f}", interval_ms(s, "step"),
         interval_share(s["step_share"], s["step_share_low"], s["step_share_high"]), s["verdict"], s["reason"])
        for s in steps
    )  # fmt: skip
    blocks.append(Table(title, columns, cells, f"Scope {steps[0]['scope']}, {steps[0]['rounds']} paired rounds."))
    pairs = [p for p in records(interactions(tables, variants, "main", label, tick)) if _about(variants, p, base)]
    if pairs:
        blocks.append(_interactions(base, pairs))
    return blocks


def _about(variants: Any, pair: dict[str, Any], base: str) -> bool:
    return bool(variants[pair["variant"]]["base"] == base)


def _step_bar(step: dict[str, Any]) -> svg.Bar:
    begin, end = ((step["time_ns"] - step["step_ns"]) / 1e6, step["time_ns"] / 1e6)
    low, high = (begin + step[f"step_{end_of}_ns"] / 1e6 for end_of in ("low", "high"))
    tip = f"{step['adds']}: {interval_ms(step, 'step')} ms, {step['verdict']}"
    value = f"{step['step_ns'] / 1e6:.3f} ms · {interval_share(step['step_share'])}"
    return svg.Bar(step["adds"], "term", begin, end, low, high, value, tip, step["verdict"] == "measured")


def _interactions(base: str, pairs: list[dict[str, Any]]) -> Table:
    columns = (
        Column("factors"), Column("variant", "code"), Column("interaction, ms [95 %]", NUMBER), VERDICT, REASON,
    )  # fmt: skip
    cells = tuple((p["factors"], p["variant"], _term(p), p["verdict"], p["reason"]) for p in pairs)
    note = "What one mechanism costs more (or less) when the other is changed too; 0 inside the interval is not seen."
    return Table(f"Interactions of {base}", columns, cells, note)


def _term(pair: dict[str, Any]) -> str:
    if not pair["rounds"]:
        return DASH
    return interval_ms({"t_ns": pair["term_ns"], "t_low_ns": pair["low_ns"], "t_high_ns": pair["high_ns"]}, "t")


def _id(base: str) -> str:
    """A name that is safe in an id: names of variants are TOML keys and may hold anything."""
    return "".join(c if c.isascii() and c.isalnum() else f"-{ord(c):x}-" for c in base)
