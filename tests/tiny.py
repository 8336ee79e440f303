"""A kernel of a few lines, with source text given by the test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attribution.declare import Entry, Event, Flag, Kernel

FLAGS = {
    "TRACE": Flag(0, "trace", (0, 1, 2)),
    "WORK": Flag(True, "do it"),
    "LAYOUT": Flag("rows", "order", ("rows", "columns")),
}
PLAIN = """
#include "attr/config.cuh"
extern "C" __global__ void tiny(float* x) { x[threadIdx.x] += flag::WORK; }
"""


def tiny(folder: Path, source: str = PLAIN, **changes: Any) -> Kernel:
    """A Kernel `tiny` at `folder/kernels/tiny` with this source; `headers` maps name -> text."""
    home = folder / "kernels" / "tiny"
    home.mkdir(parents=True, exist_ok=True)
    headers: Mapping[str, str] = changes.pop("headers", {})
    for name, text in {"tiny.cu": source, **headers}.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    declared: dict[str, Any] = {
        "name": "tiny",
        "summary": "for tests",
        "flags": FLAGS,
        "shape": {},
        "knobs": {},
        "roles": ("load", "math"),
        "events": (
            Event("arrive", "load", waits_for="memory"),
            Event("score", "math"),
            Event("tile", "math", level=2),
        ),
        "distributions": ("none",),
        "same": {},
        "inputs": lambda shape, distribution, seed: {},
        "reference": lambda inputs, shape: None,
        "check": lambda inputs, output, reference, shape, flags: [],
        "source": "tiny.cu",
        "entries": (Entry("tiny", lambda flags: 128, lambda flags: 0),),
        "folder": home,
    }
    return Kernel(**{**declared, **changes})
