"""Recordings that support no claim: what a list says of them, by their content or by the way they were measured.

In: `VOID.toml` among the shipped recordings, and one in the folder that a recording lies in.  Out: the reasons.
An entry names one recording by the hash its manifest states (a copy under another name is void too), or one protocol and all
before it; with a scope it is about the times of that instrument only.
Misuse: never delete a recording to make its result go away; write here why it does not count.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution.errors import DataError
from attribution.load import shipped_root
from attribution.recording import PROTOCOL_VERSION, Recording

if TYPE_CHECKING:
    import pandas as pd

LIST = "VOID.toml"
KEYS = {"recording", "protocol", "scope", "reason"}


@dataclass(frozen=True)
class Void:
    """One entry: a recording's manifest hash, or a protocol that it and all earlier ones are void by."""

    reason: str
    recording: str = ""
    protocol: int = 0
    scope: str = ""

    def names(self, digest: str, protocol: int, scope: str) -> bool:
        """Whether times of `scope` in a recording of that hash and protocol are meant; scope '' asks for all of it."""
        meant = self.recording == digest if self.recording else protocol <= self.protocol
        return meant and self.scope in ("", scope)


def read_list(file: Path) -> tuple[Void, ...]:
    """The entries of a list; none where there is no file.  Raises DataError."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8")).get("void", [])
    except FileNotFoundError:
        return ()
    except (ValueError, OSError) as error:
        raise DataError(f"{file} cannot be read: {error}: correct it") from error
    if not isinstance(tables, list):
        raise DataError(f"{file}: void is {tables!r}; allowed are tables [[void]]: correct it")
    return tuple(_entry(f"{file}, entry {i}", table) for i, table in enumerate(tables, 1))


def _entry(where: str, table: Any) -> Void:
    if not isinstance(table, Mapping) or set(table) - KEYS or not str(table.get("reason", "")).strip():
        raise DataError(
            f"{where} is {table!r}; allowed are {', '.join(sorted(KEYS))}, and reason must say why: correct it"
        )
    entry = Void(**table)
    texts = all(isinstance(t, str) for t in (entry.reason, entry.recording, entry.scope))
    if not texts or type(entry.protocol) is not int or bool(entry.recording) == bool(entry.protocol):
        raise DataError(f"{where}: needs recording = HASH or protocol = NUMBER, one of the two: correct it")
    if entry.protocol and not entry.scope and entry.protocol >= PROTOCOL_VERSION:
        raise DataError(
            f"{where}: protocol {entry.protocol} is how this version measures: raise PROTOCOL_VERSION first"
        )
    return entry


def void_reasons(recording: Recording, scope: str = "") -> list[str]:
    """Why times of `scope` (an instrument; '' for all that is in it) in this recording support no claim.  Raises DataError."""
    stated = json.loads((recording.path / "manifest.json").read_text(encoding="utf-8"))["manifest_sha256"]
    folders = dict.fromkeys((shipped_root() / "traces", recording.path.resolve().parent))
    entries = [entry for folder in folders for entry in read_list(folder / LIST)]
    return [e.reason for e in entries if e.names(stated, recording.manifest["protocol"], scope)]


def void_lines(recording: Recording, scopes: Iterable[str]) -> list[str]:
    """A line for each of these scopes (instrument, or instrument/cache/clock) whose times support no claim.  Raises DataError."""
    reasons = {scope: "; ".join(void_reasons(recording, scope.split("/")[0])) for scope in scopes}
    return [f"void: {scope}: {reason}" for scope, reason in reasons.items() if reason]


def voided(found: pd.DataFrame, recording: Recording) -> pd.DataFrame:
    """Rows of contrasts with those that a list names made void, the list's reasons first.  Raises DataError."""
    reasons = {s: void_reasons(recording, str(s).split("/")[0]) for s in found["scope"].unique()}
    why = found["scope"].map(lambda scope: "; ".join(f"voided: {reason}" for reason in reasons[scope]))
    hit, out = why != "", found.copy()
    out.loc[hit, "reasons"] = why[hit] + "; " + out.loc[hit, "reasons"]
    out.loc[hit, "verdict"] = "void"
    out.loc[hit & (out["expected"] != ""), "expectation"] = "undecided"
    return out
