"""One point of a sweep as a recording of its own: for what compares arms of one shape and distribution.

In: an opened recording, and what the user calls the point.  Out: a `Recording` that has this point's runs only.
Misuse: two points were measured one after another and are never paired; a difference between them is no contrast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attribution.errors import InputError
from attribution.plan import shape_text
from attribution.recording import Recording

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Point(Recording):
    """What a `whole` recording holds of one shape and distribution."""

    whole: Recording
    shape: str
    distribution: str
    _cut: dict[str, pd.DataFrame] = field(default_factory=dict, init=False, repr=False, compare=False)

    def table(self, name: str) -> pd.DataFrame:
        """The rows of the table `name` that are of this point's runs."""
        if name not in self._cut:
            whole = self.whole.table(name)
            if name == "runs":
                # A manifest that was made of a stopped measurement names the sizes in another order than its runs.
                shapes = whole["shape"].astype(str).map(_sizes)
                here = (shapes == _sizes(self.shape)) & (whole["distribution"].astype(str) == self.distribution)
                self._cut[name] = whole[here]
            else:
                self._cut[name] = whole[whole["run"].isin(self.table("runs")["run"])] if "run" in whole else whole
        return self._cut[name].copy(deep=False)


def names(recording: Recording) -> list[str]:
    """What a user may call its points: shapes and distributions, each where it differs; one name where there is one point."""
    points = _points(recording)
    shapes, distributions = (len({str(p[key]) for p in points}) > 1 for key in ("shape", "distribution"))
    parts = [(shape_text(p["shape"]) if shapes or not distributions else "", p["distribution"]) for p in points]
    return [" ".join(part for part in (shape, name if distributions else "") if part) for shape, name in parts]


def at(recording: Recording, name: str | None) -> Recording:
    """The point of that name, or the recording itself where it has one point.  Raises InputError."""
    known = names(recording)
    if name is None:
        if len(known) == 1:
            return recording
        raise InputError(
            f"{recording.path.name} holds {len(known)} points; choose one with --point: {'; '.join(known)}"
        )
    if recording.manifest["kind"] != "run":
        raise InputError(f"--point {name}: {recording.path.name} holds ingested files, which have no points")
    asked = [_sizes(one) for one in known]
    if _sizes(name) not in asked:
        raise InputError(f"--point {name}: {recording.path.name} has {'; '.join(known)}")
    point = _points(recording)[asked.index(_sizes(name))]
    plan = {**recording.manifest["plan"], **point}
    facts = {**recording.manifest, "plan": plan}
    return Point(recording.path, facts, recording, shape_text(point["shape"]), point["distribution"])


def _sizes(name: str) -> tuple[str, ...]:
    """`q=64,n=8192` and `n=8192,q=64` are the same sizes; a distribution behind them stays where it is."""
    shape, *rest = name.split(" ")
    return (*sorted(shape.split(",")), *rest)


def _points(recording: Recording) -> list[Mapping[str, Any]]:
    manifest = recording.manifest
    plan = manifest.get("plan", {})
    alone = {"shape": plan.get("shape", {}), "distribution": plan.get("distribution", "")}
    return list(manifest.get("points") or [alone])
