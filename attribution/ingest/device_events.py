"""Tables `kernels`, `copies` and `ranges` from columns in file order, whichever profiler they come from.

In: lists and int64 arrays, one entry a row.  Out: conforming frames, sorted by begin, with flags.
Misuse: flagged rows are kept; whoever sums durations looks at `flags` first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from attribution.ingest import frames
from attribution.ingest.ingested import Note
from attribution.ingest.timeline import impossible, same_stream_overlaps

_BIG = np.iinfo(np.int64).max


def kernel_table(
    file: str, notes: list[Note], *, name: list[str], begin: np.ndarray, end: np.ndarray, **columns: list[Any]
) -> pd.DataFrame:
    """Table `kernels`; adds a note for each kind of kernel that needs one."""
    order = np.lexsort((np.arange(len(begin)), begin))
    get = {key: [values[i] for i in order] for key, values in columns.items()}
    begin, end = begin[order], end[order]
    table = frames.table(
        "kernels", len(order), file=file, kernel=np.arange(len(order)), kernel_name=[name[i] for i in order],
        begin_ns=begin, end_ns=end, dur_ns=end - begin, device=get["device"], context=get["context"],
        stream=get["stream"], process=get["process"], correlation=get["correlation"],
        launch_begin_ns=get["launch_begin"], launch_thread=get["launch_thread"], launched=get["launched"],
        graph=get["graph"], grid=get["grid"], block=get["block"], flags="",
    )  # fmt: skip
    if not len(table):
        return table
    table["flags"] = _flags(table, notes)
    _launch_notes(table, notes)
    return table


def _flags(table: pd.DataFrame, notes: list[Note]) -> pd.Categorical:
    over, negative = impossible(table), (table["dur_ns"] < 0).to_numpy()
    names = ["", "negative-duration", "runs-over-successors", "negative-duration,runs-over-successors"]
    if over.any():
        worst = int(table["dur_ns"].to_numpy()[over].max())
        text = f"{int(over.sum())} kernels run over their successors on one stream (up to {worst:,} ns): impossible"
        notes.append(Note("kernels", int(over.sum()), text))
    if negative.any():
        notes.append(Note("kernels", int(negative.sum()), f"{int(negative.sum())} kernels end before they begin"))
    column: pd.Categorical = frames.table_column(
        "kernels", "flags", frames.Coded(negative + 2 * over, names), len(table)
    )
    return column


def _launch_notes(table: pd.DataFrame, notes: list[Note]) -> None:
    missing = int((~table["launched"]).sum())
    if missing:
        text = f"{missing} of {len(table)} kernels have no launching call in the file: in no range by launch"
        notes.append(Note("kernels", missing, text))
    pairs, overlap = same_stream_overlaps(table)
    if pairs:
        text = f"{pairs} kernels begin before their predecessor on the stream ends ({overlap:,} ns): sum exceeds union"
        notes.append(Note("kernels", pairs, text))


def copy_table(
    file: str, *, kind: list[str], name: list[str], begin: np.ndarray, end: np.ndarray, **columns: list[Any]
) -> pd.DataFrame:
    """Table `copies`."""
    order = np.lexsort((np.arange(len(begin)), begin))
    get = {key: [values[i] for i in order] for key, values in columns.items()}
    return frames.table(
        "copies", len(order), file=file, kind=[kind[i] for i in order], name=[name[i] for i in order],
        begin_ns=begin[order], end_ns=end[order], dur_ns=(end - begin)[order], **get,
    )  # fmt: skip


def range_table(
    file: str,
    *,
    name: list[str],
    begin: np.ndarray,
    end: np.ndarray,
    thread: list[str],
    kind: list[str],
    domain: list[str],
) -> pd.DataFrame:
    """Table `ranges`: by begin time, the longer one first; occurrences of a name numbered in that order."""
    order = np.lexsort((np.arange(len(begin)), _BIG - (end - begin), begin))
    seen: dict[str, int] = {}
    occurrence = []
    for i in order:
        occurrence.append(seen.get(name[i], 0))
        seen[name[i]] = occurrence[-1] + 1
    return frames.table(
        "ranges", len(order), file=file, range=np.arange(len(order)), range_name=[name[i] for i in order],
        occurrence=occurrence, domain=[domain[i] for i in order], kind=[kind[i] for i in order],
        thread=[thread[i] for i in order], begin_ns=begin[order], end_ns=end[order], dur_ns=(end - begin)[order],
    )  # fmt: skip
