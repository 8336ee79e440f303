"""Events of a Chrome trace sorted into columns, as they stream by.

In: events as JSON gave them, in file order.  Out: `Events`: one entry a slice in each list, counts of everything else.
Begin/end pairs become slices when they close, by lane; what stays open is kept in `open` and never closed by us.
Misuse: values are as in the file: times are unchecked, `to_ns` decides which of them are usable.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

CALLS = frozenset({"cuda_runtime", "cuda_driver", "runtime", "driver"})
COPIES = {"gpu_memcpy": "memcpy", "gpu_memset": "memset"}
WITH_ARGS = CALLS | frozenset(COPIES) | {"kernel", "user_annotation"}


@dataclass
class Events:
    """Columns under construction: one entry a slice; `args` only where they are needed."""

    category: list[str] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    lane: list[str] = field(default_factory=list)
    begin: list[Any] = field(default_factory=list)
    duration: list[Any] = field(default_factory=list)
    args: dict[int, dict[str, Any]] = field(default_factory=dict)
    open: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ends: list[tuple[int, Any]] = field(default_factory=list)
    other: Counter[str] = field(default_factory=Counter)
    lanes: dict[tuple[Any, Any], str] = field(default_factory=dict)

    def take(self, events: list[Any]) -> None:
        """Sort events by their phase.  This loop is where a large trace spends its time."""
        others: list[Any] = []
        for event in events:
            try:
                if event["ph"] == "X":
                    self._add(event, event.get("dur"))
                    continue
            except (KeyError, TypeError):
                pass
            others.append(event)
        for event in others:
            self._other(event)

    def _other(self, event: Any) -> None:
        if not isinstance(event, dict):
            self.other["entries that are no objects"] += 1
            return
        phase = event.get("ph")
        if phase == "B":
            self.open.setdefault(self._lane(event), []).append(event)
        elif phase == "E":
            stack = self.open.get(self._lane(event))
            if not stack:
                self.other["ends without a begin"] += 1
                return
            self.ends.append((len(self.begin), event.get("ts")))
            self._add(stack.pop(), 0)
        else:
            self.other[f"events of phase {phase!r}"[:50]] += 1

    def _lane(self, event: dict[str, Any]) -> str:
        pid, tid = event.get("pid"), event.get("tid")
        try:
            return self.lanes[pid, tid]
        except KeyError:
            return self.lanes.setdefault((pid, tid), f"{pid}/{tid}")
        except TypeError:  # a list or object, which cannot be a key
            return f"{pid}/{tid}"

    def _add(self, event: dict[str, Any], duration: Any) -> None:
        get = event.get
        category = get("cat", "")
        if category.__class__ is not str:
            category = str(category)
        if category in WITH_ARGS:
            args = get("args")
            self.args[len(self.begin)] = args if isinstance(args, dict) else {}
        name = get("name", "")
        self.category.append(category)
        self.name.append(name if name.__class__ is str else str(name))
        try:
            lane = self.lanes[event["pid"], event["tid"]]
        except (KeyError, TypeError):
            lane = self._lane(event)
        self.lane.append(lane)
        self.begin.append(get("ts"))
        self.duration.append(duration)
