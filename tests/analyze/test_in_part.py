"""Only some CTAs were traced: nothing is said of the others, in a recording of an H200 and in one where it was planted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from planted import traced as planted

from attribution.analyze.confirm import accounts
from attribution.analyze.in_part import in_part, rows_of_whole_traces
from attribution.analyze.traced import traced
from attribution.claim import busiest_rows
from attribution.load import shipped_root
from attribution.recording import Recording, open_recording

TILES = shipped_root() / "traces" / "h200-index-topk-tiles"
WHOLE = shipped_root() / "traces" / "h200-index-topk-rows"


class Launched(Recording):
    """Two runs of one arm with a trace of 4 CTAs; the launch was counted in the first."""

    def __init__(self, ctas: int) -> None:
        one = planted()
        self.held = {name: pd.concat([frame.assign(run=n) for n in (0, 1)]) for name, frame in one.items()}
        runs = [{"run": n, "question": "full", "arm": "full", "shape": "q=8"} for n in (0, 1)]
        counted = {"run": 0, "stage": "main", "metric": "grid_ctas", "value": float(ctas)}
        self.held |= {"runs": pd.DataFrame(runs), "counters": pd.DataFrame([counted])}

    def table(self, name: str) -> pd.DataFrame:
        return self.held[name]


@pytest.mark.parametrize(("ctas", "known"), [(4, [0, 1]), (5, [])])
def test_rows_are_known_where_every_cta_that_was_launched_was_traced(ctas: int, known: list[int]) -> None:
    recording = Launched(ctas)
    assert sorted(set(rows_of_whole_traces(recording)["run"])) == known
    assert in_part(recording).to_numpy().tolist() == ([] if known else [[4, 5], [4, 5]])


def test_of_eight_ctas_nobody_says_how_many_rows_the_busiest_sm_has() -> None:
    recording = open_recording(TILES)
    assert in_part(recording).drop_duplicates().to_numpy().tolist() == [[8, 132]]
    trace = traced(recording)
    assert trace is not None
    assert trace.per_sm.empty
    assert "Only 8 of 132 CTAs" in trace.left_out
    assert busiest_rows(recording) == {}
    assert all(table.empty for table in accounts(recording, "full", "full"))
    whole = traced(open_recording(WHOLE))
    assert whole is not None
    assert (whole.left_out, len(whole.per_sm)) == ("", 132)


def test_every_verb_says_that_the_others_were_not_traced(attr: Callable[..., Any], tmp_path: Path) -> None:
    page, figure = tmp_path / "page.html", tmp_path / "figure.svg"
    shown = [attr(verb, TILES) for verb in ("show", "tails", "overlap")]
    for done in (*shown, attr("report", TILES, "--out", page), attr("show", TILES, "--plot", figure)):
        assert done.code == 0
    for text in (*(done.out for done in shown), page.read_text()):
        assert "Only 8 of 132 CTAs were traced" in text
        assert not any(wrong in text for wrong in ("SMs without rows", "1000 rows", "SMs have none"))
    assert "of every SM" not in figure.read_text()
