"""The garbage collector waits where it is told to, and is as it was afterwards."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest

from attribution import collector
from attribution.errors import DataError
from attribution.ingest import kineto


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector.paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("cut", [0, 3], ids=["whole", "damaged"])
def test_it_waits_while_a_trace_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    seen, honest = [], kineto.Events.take

    def take(self: Any, batch: Any) -> None:
        seen.append(gc.isenabled())
        honest(self, batch)

    monkeypatch.setattr(kineto.Events, "take", take)
    text = json.dumps([{"ph": "X", "name": "x", "ts": 1, "dur": 1}] * 8)
    (tmp_path / "a.json").write_text(text[: len(text) - cut])
    if cut:
        with pytest.raises(DataError):
            kineto.load(tmp_path / "a.json")
    else:
        kineto.load(tmp_path / "a.json")
    assert seen
    assert not any(seen)
    assert gc.isenabled()
