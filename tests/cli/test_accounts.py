"""The verbs about accounts on a planted recording: the same rows as text and as JSON, and refusals in one sentence."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import planted_gpu

from attribution.analyze.interventions import choose_scope
from attribution.cli import explain, ladder, ledger, overlap, slack, tails
from attribution.errors import InputError
from attribution.show.cells import short_ratio, short_share

DELAYS = {"d1": 100, "d2": 200, "d3": 400, "d4": 600}
CTAS = {"full": 4, "ctas_3": 3, "ctas_2": 2, "ctas_1": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings `ladder` (with a trace of full), `slack` and `tails`."""
    out = tmp_path_factory.mktemp("accounts")
    variants = planted_gpu.ladder_variants()
    tables = planted_gpu.full_ladder(stages={"repair": 2e4, "gaps": 1e4})
    mine = list(tables["runs"].loc[tables["runs"]["arm"] == "full", "run"])
    ratio = pd.DataFrame(
        [
            (r, m, v)
            for r in tables["runs"]["run"]
            for m, v in (("busy", 700.0), ("cycles", 1000.0 + 500 * (r not in mine)))
        ]
    )
    counted = planted_gpu.counted(ratio.set_axis(["run", "metric", "value"], axis=1))
    tables["counters"] = pd.concat([tables["counters"].astype(object), counted.astype(object)], ignore_index=True)
    traced = planted_gpu.trace(mine, 8e4, 2e4, batches=12, ctas=6)
    planted_gpu.recording(out / "ladder", {**tables, **traced}, variants)
    flags = {"full": {"DELAY_ROLE": "none", "DELAY_CYCLES": 0}} | {
        a: {"DELAY_ROLE": "topk", "DELAY_CYCLES": c} for a, c in DELAYS.items()
    }
    # 500 items at 1755 MHz: 400 cycles are 114 us; beyond 57 us the whole follows.
    times = {a: 1e6 + max(0.0, DELAYS.get(a, 0) * 500 * 1e3 / 1755 - 57e3) for a in ("full", *DELAYS, "null")}
    slow = {a: planted_gpu.variant("full" if a != "full" else None, f) for a, f in flags.items()}
    planted_gpu.recording(out / "slack", planted_gpu.measured({"full": times}, flags=flags), slow)
    rows = {a: -(-64 // min(c, 3)) if c != 4 else 32 for a, c in CTAS.items()}
    knobs = {a: {"ctas": c} for a, c in CTAS.items()}
    blocks = {a: {"BLOCK_Q": 1} for a in CTAS}
    moved = planted_gpu.measured({"full": {a: 1e5 + 1e4 * r for a, r in rows.items()}}, knobs=knobs, flags=blocks)
    arms = {
        a: planted_gpu.variant("full" if a != "full" else None, {}, knobs=k if a != "full" else {})
        for a, k in knobs.items()
    }
    planted_gpu.recording(out / "tails", moved, arms)
    return out


def answer(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_ladder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ladder.ladder(folder / "ladder", json=True)
    found = answer(capsys)
    assert [s["rung"] for s in found["steps"]][-1] == "full"
    assert found["interactions"][0]["verdict"] == "not measured"
    ladder.ladder(folder / "ladder")
    text = capsys.readouterr().out
    assert "+ REDUCE" in text
    assert "OVERLAP x SELECT" in text
    with pytest.raises(InputError, match="questions about full"):
        ladder.ladder(folder / "ladder", base="zzz")


def test_a_ladder_of_a_sweep_has_all_points_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    name = Path("h200-index-topk-shapes")
    ladder.ladder(name, json=True)
    found = {each["point"]: each for each in answer(capsys)["points"]}
    assert len(found) == 6
    ladder.ladder(name, point="q=64,n=131072", json=True)
    alone = answer(capsys)
    one = found["q=64,n=131072"]
    assert (one["steps"], one["interactions"]) == (alone["steps"], alone["interactions"])
    rungs = {step["rung"] for step in one["steps"]}
    assert {row["shape"] for row in one["beside"]} == {"q=64,n=131072"}
    assert "shared" in {row["arm"] for row in one["beside"]}.difference(rungs)
    ladder.ladder(name)
    text = capsys.readouterr().out
    assert all(point in text for point in found)
    assert "(operator)" in text
    # A step that is void gives away no number, one that is not decided says so.
    cells = [
        short_share({"x": 0.1, "x_low": 0.05, "x_high": 0.2, "verdict": v}, "x")
        for v in ("measured", "undecided", "void")
    ]
    assert cells == ["10.0% [5.0, 20.0]", "10.0% [5.0, 20.0]?", "void"]
    ratio = {"time_ratio": 0.9, "time_ratio_low": math.nan, "time_ratio_high": math.nan, "verdict": "undecided"}
    assert [short_ratio(ratio), short_ratio({**ratio, "time_ratio": math.nan})] == ["0.900?", "-"]


def test_ledger(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ledger.ledger(folder / "ladder", practical_tflops=600.0, plot=tmp_path / "w.png", json=True)
    found = answer(capsys)
    assert [r["item"] for r in found["operator"]] == ["main", "repair", "gaps", "operator"]
    assert found["main"][-1]["verdict"] == "closes"
    assert {w["verdict"] for w in found["witnesses"]} <= {
        "agree",
        "witnesses disagree",
        "one witness",
        "no witness",
        "not confirmed",
    }
    assert (tmp_path / "w.png").stat().st_size > 1000
    ledger.ledger(folder / "ladder")
    text = capsys.readouterr().out
    assert "remainder" in text
    assert "graph/warm/as-found" in text


def test_tails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tails.tails(folder / "tails", json=True)
    found = answer(capsys)
    verdicts = {e["quantity"]: e["verdict"] for e in found["explanations"]}
    assert verdicts["busiest_sm_rows"] == "survives"
    assert verdicts["ctas"] == "refuted"
    assert verdicts["instructions"] == "not tested"
    assert {r["rows_from"] for r in found["interventions"]} == {"schedule"}
    # T = 1e5 + 1e4 rows was planted, with 32 rows in the base: what no row takes is what rows leave over.
    rows = {r["arm"]: r["busiest_sm_rows"] for r in found["interventions"]}
    assert len(found["tail_alone"]) == len(CTAS) - 1
    for one in found["tail_alone"]:
        assert one["predicted"] == rows[one["arm"]] / 32
        left = (1e5 + 1e4 * rows[one["arm"]]) / 4.2e5 / one["predicted"]
        assert one["unexplained_low"] < left < one["unexplained_high"]
        assert one["unexplained_high"] - one["unexplained_low"] < 0.02
    tails.tails(folder / "tails")
    text = capsys.readouterr().out
    assert "rows on the busiest SM" in text
    assert "The tail alone" in text
    tails.tails(folder / "ladder")
    text = capsys.readouterr().out
    assert "No law: 1 interventions" in text
    assert "The tail alone" not in text


def test_overlap(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overlap.overlap(folder / "ladder", json=True)
    found = answer(capsys)
    assert sum(s["share"] for s in found["critical_path"]) == pytest.approx(1)
    # Two batches a CTA: the first TopK is hidden behind the second Math, the last one is drain.
    assert found["hidden"]["without_last"] == pytest.approx(1.0)
    assert found["hidden"]["with_last"] == pytest.approx(0.5, abs=0.05)
    # Math is alone while TopK has not begun and in between; TopK's last batch has nothing left to hide behind.
    math_role, topk = found["roles"]
    for role in (math_role, topk):
        assert role["fill_ns"] + role["steady_ns"] + role["drain_ns"] == role["exposed_ns"]
    assert (topk["steady_ns"], math_role["drain_ns"]) == (0, 0)
    assert math_role["fill_ns"] == pytest.approx(8e4 * 6, rel=0.05)
    assert math_role["steady_ns"] == pytest.approx(6e4 * 6, rel=0.05)
    assert [(w["role"], w["waits_for"]) for w in found["waits"]] == [("topk", "math")]
    assert sum(w["time_ns"] for w in found["waits"]) == topk["wait_ready_ns"]
    overlap.overlap(folder / "ladder")
    text = capsys.readouterr().out
    assert "Critical path on SM" in text
    assert "waits, ms: topk for math" in text
    with pytest.raises(InputError, match="has no trace"):
        overlap.overlap(folder / "slack")


def test_slack(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slack.slack(folder / "slack", role="topk", items=500, json=True)
    found = answer(capsys)
    assert found["slack"]["verdict"] == "slack"
    assert found["slack"]["knee_low_ns"] < 57e3 < found["slack"]["knee_high_ns"]
    assert found["prediction"] is None
    slack.slack(folder / "slack", role="topk", items=500)
    assert "topk: slack" in capsys.readouterr().out
    with pytest.raises(InputError, match="give --items"):
        slack.slack(folder / "slack", role="topk")
    with pytest.raises(InputError, match="no arm of full delays 'math'; delayed are: topk"):
        slack.slack(folder / "slack", role="math", items=500)


def test_explain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explain.explain("share", folder / "ladder", arm="math_only", numerator="busy", denominator="cycles")
    assert "only the denominator moved" in capsys.readouterr().out
    with pytest.raises(InputError, match="give both or neither"):
        explain.explain("share", folder / "ladder", arm="math_only", numerator="busy")
    with pytest.raises(InputError, match="beside full"):
        explain.explain("share", folder / "ladder", arm="zzz", numerator="busy", denominator="cycles")


def test_the_scope_that_is_chosen() -> None:
    rows = [("event", "warm"), ("graph", "cold"), ("graph", "warm"), ("ncu", "cold")]
    times = pd.DataFrame(rows, columns=["scope", "cache"]).assign(clock="as-found", stage="main")
    assert choose_scope(times, None) == "graph/warm/as-found"
    assert choose_scope(times[times["scope"] == "event"], None) == "event/warm/as-found"
    assert choose_scope(times[times["scope"] == "ncu"], None) is None
    assert choose_scope(times, "event") == "event"
