"""Figures show what they are given, are written whole, and refuse formats that they cannot write."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure
from planted import PLANTED_EVENTS, PLANTED_ROLES, traced

from attribution.analyze import overlap, spans, tails
from attribution.analyze.traced import Trace
from attribution.errors import InputError, MeasureError
from attribution.show import plot


def trace() -> Trace:
    tables = traced(ctas=7, sms=4)
    found = spans.spans(tables["events"], tables["lanes"], PLANTED_ROLES, PLANTED_EVENTS)
    left = spans.unpaired(tables["events"], PLANTED_ROLES, PLANTED_EVENTS)
    per_sm = tails.per_sm(found, tables["rows"], 5)
    return Trace("full", 0, 5, found, per_sm, overlap.roles(found), left)


def answer(arm: str, ratio: float, verdict: str, pairs: int = 20) -> dict[str, object]:
    return {
        "arm": arm, "base": "full", "stage": "operator", "pairs": pairs, "verdict": verdict,
        "time_ratio": ratio, "time_ratio_low": ratio - 0.01, "time_ratio_high": ratio + 0.01,
        "expected_ratio_low": 0.6, "expected_ratio_high": 0.95,
    }  # fmt: skip


ANSWERS = [answer("math_only", 0.8, "faster"), answer("null", 1.0, "same")]


def test_bars_of_an_sm_are_its_rows_those_of_idle_sms_too() -> None:
    axes = Figure().subplots()
    plot.draw_sms(axes, trace())
    assert [bar.get_height() for bar in axes.patches] == [4, 4, 4, 2, 0]


def test_ratios_and_verdicts_are_in_the_figure() -> None:
    axes = Figure().subplots()
    plot.draw_answers(axes, [*ANSWERS, answer("lost", 0.5, "void", pairs=0)])
    texts = [t.get_text() for t in axes.texts]
    assert texts == ["-20.00 %  faster", "+0.00 %  same"]
    assert axes.lines[0].get_xdata() == pytest.approx([-21, -19])


def test_a_timeline_has_a_bar_for_each_span_of_the_last_sm() -> None:
    one = trace()
    axes = Figure().subplots()
    plot.draw_timeline(axes, one)
    drawn = sum(len(c.get_paths()) for c in axes.collections)
    busiest = one.per_sm["sm"].iloc[int(one.per_sm["finish_ns"].to_numpy().argmax())]
    assert drawn == (one.spans["sm"] == busiest).sum()


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_figure_is_written_whole_and_alone(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"f.{ending}"
    plot.draw_recording(ANSWERS, trace(), path)
    head = path.read_bytes()[:200]
    assert (b"<?xml" in head) if ending == "svg" else head.startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_an_unknown_ending_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.svg and \.png"):
        plot.draw_recording(ANSWERS, None, tmp_path / "f.bmp")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MeasureError, match="cannot write"):
        plot.draw_recording(ANSWERS, None, tmp_path / "file" / "f.svg")
    (tmp_path / "f.svg").mkdir()
    with pytest.raises(MeasureError, match="cannot write"):
        plot.draw_recording(ANSWERS, None, tmp_path / "f.svg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.svg", "file"]


def test_no_pyplot_state_is_left() -> None:
    plot.recording_figure(ANSWERS, trace())
    assert "matplotlib.pyplot" not in matplotlib.sys.modules or not matplotlib.pyplot.get_fignums()
