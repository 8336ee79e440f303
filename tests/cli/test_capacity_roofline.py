"""`attr capacity` and `attr roofline`: text and JSON hold the same rows; what a recording lacks is a sentence."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import planted_gpu

from attribution.cli import capacity, roofline
from attribution.errors import InputError
from attribution.recording import Recording, open_recording, write_tables
from attribution.tables import conform

FLAGS = {
    "full": {"LAYOUT": "segments", "SEGMENT_CAPACITY": 736, "SPILL": True, "BLOCK_Q": 2, "K": 2048},
    "split": {"LAYOUT": "split", "SEGMENT_CAPACITY": 368, "SPILL": True, "BLOCK_Q": 2, "K": 2048},
}
LOST = {"full": 0, "null": 0, "split": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings `layouts` and `again`, whose split layout loses three rows a run, and `silent`, which counted none."""
    out = tmp_path_factory.mktemp("limits")
    tables = planted_gpu.measured(
        {"full": {"full": 1e6, "null": 1e6, "split": 1.1e6}}, flags=FLAGS, stages={"repair": 2e4, "gaps": 1e3}
    )
    runs = tables["runs"].astype({"arm": str})
    rows = [
        (run, limit, LOST[arm] if limit == "segment" else 0, 64)
        for run, arm in zip(runs["run"], runs["arm"], strict=True)
        for limit in ("segment", "underflow")
    ]
    variants = {a: planted_gpu.variant(None if a == "full" else "full", f) for a, f in FLAGS.items()}
    planted_gpu.recording(out / "silent", tables, variants)
    counted = conform("capacity", pd.DataFrame(rows, columns=["run", "limit", "failures", "of"]))
    planted_gpu.recording(out / "layouts", {**tables, "capacity": counted}, variants)
    later = {**tables, "runs": tables["runs"].assign(begin_ns=tables["runs"]["begin_ns"] + 10**9)}
    planted_gpu.recording(out / "again", {**later, "capacity": counted}, variants)
    return out


def answer(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_capacity(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capacity.capacity([folder / "layouts"], json=True)
    found = answer(capsys)
    failed = {r["arm"]: (r["layout"], r["segment"], r["failures"], r["of"]) for r in found["failures"]}
    assert failed == {"full": ("segments", 0, 0, 1280), "split": ("split", 60, 60, 1280)}
    assert {r["arm"] for r in found["exception_path"]} == {"full", "split"}
    (against,) = found["against_base"]
    assert against["arm"] == "split"
    assert against["time_ratio_low"] < 1.1 < against["time_ratio_high"]
    capacity.capacity([folder / "layouts", folder / "again"])
    text = capsys.readouterr().out
    assert text.count("4.69% [3.") == 2
    assert "Measured on planted" in text
    with pytest.raises(InputError, match="silent counted no failing rows"):
        capacity.capacity([folder / "silent"])


def test_roofline(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roofline.roofline([folder / "layouts"], practical_tflops=1400.0, json=True)
    rows = answer(capsys)
    assert [r["arm"] for r in rows] == ["full", "split"]
    assert rows[0]["step"] is None
    assert rows[1]["step_low"] < 1.1 < rows[1]["step_high"]
    roofline.roofline([folder / "layouts"], practical_tflops=1400.0)
    text = capsys.readouterr().out
    assert f"{rows[0]['tflops']:.1f} [" in text
    assert "of practical" in text
    with pytest.raises(InputError, match="no time of stage 'threshold'; it has: main, operator, repair"):
        roofline.roofline([folder / "layouts"], stage="threshold")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        *(
            pytest.param(
                [*words.split(), "--scope", "nope"], "in scope 'nope'; there are: host-virtual/none/none", id=words
            )
            for words in (
                "capacity host-math-only",
                "roofline host-math-only",
                "ladder host-math-only",
                "ledger host-math-only",
                "tails host-math-only",
                "slack host-slack --role math",
                "versus host-math-only full",
                "selectors host-selectors",
            )
        ),
        pytest.param(["ladder", "host-math-only", "--stage", "nope"], "it has: main, operator", id="ladder-stage"),
        pytest.param(["capacity", "host-math-only", "--stage", "nope"], "it has: main, operator", id="capacity-stage"),
        pytest.param(["scopes", "host-math-only", "--stage", "nope"], "has here operator, main", id="scopes-stage"),
        pytest.param(["explain", "instructions", "h200-topk-counters"], "--arm is missing", id="explain-arm"),
        pytest.param(
            ["explain", "inst_executed", "h200-topk-counters", "--regions"],
            "with source counters has them",
            id="no-pcs",
        ),
        pytest.param(
            ["noise", "h200-precision-8k", "--arm", "nul"], "no arm nul; nearest: null; there are: null", id="noise-arm"
        ),
        pytest.param(["noise", "h200-h20-design-one-round"], "--rounds makes other blocks", id="noise-blocks"),
        *(
            pytest.param([*words.split(), "h200-topk-regions"], "holds ingested files", id=f"ingested-{words}")
            for words in (
                *(
                    "noise",
                    "noise --order",
                    "noise --planted PLANT",
                    "scopes",
                    "ladder",
                    "ledger",
                    "ledger --point q=8",
                    "tails",
                ),
                *("overlap --point q=8", "slack --role topk", "capacity", "roofline", "roofline --point q=8", "claim"),
                *("compare h200-precision-8k", "reconcile", "explain a --arm b --point q=8"),
            )
        ),
        pytest.param(["roofline", "cpu-prefill-512"], "no time of stage 'main'; it has: indexer", id="roofline-stage"),
        pytest.param(
            ["roofline", "h200-index-topk-ledger", "--practical-tflops", "900"], "holds a measured", id="ceiling-there"
        ),
        *(
            pytest.param(["roofline", "host-math-only", "--practical-tflops", value], "allowed is above 0", id=value)
            for value in ("0", "inf", "1e308")
        ),
    ],
)
def test_what_there_is_is_named(attr: Any, arguments: list[str], reason: str) -> None:
    done = attr(*arguments)
    assert (done.code, done.out, reason in done.err) == (2, "", True), done.err


def test_scopes_mix_no_points_of_a_sweep(attr: Any) -> None:
    done = attr("scopes", "host-capacity")
    assert (done.code, "choose one with --point" in done.err) == (2, True)
    one, other = (
        json.loads(attr("scopes", "host-capacity", "--point", name, "--json").out)["scopes"]
        for name in ("normal", "overflow")
    )
    assert {row["samples"] for row in (*one, *other)} == {4}
    assert [row["time_ns"] for row in one] != [row["time_ns"] for row in other]


def test_a_recording_made_of_a_stopped_measurement_has_its_rates(attr: Any) -> None:
    found = json.loads(attr("roofline", "h200-h20-overlap", "--json").out)
    assert {"full", "h20_block_q_2"} <= {row["arm"] for row in found}


@pytest.mark.parametrize(("verb", "value"), [("capacity", "1.6832"), ("claim", "1.6832"), ("roofline", "1446.0")])
def test_one_round_has_a_value_and_no_interval(attr: Any, verb: str, value: str) -> None:
    shown = attr(verb, "h200-h20-design-one-round").out
    assert value in shown
    assert "nan" not in shown.split()
    assert "[nan" not in shown


def test_a_launch_without_a_steady_state_says_so(attr: Any) -> None:
    shown = attr("overlap", "h200-hello-cold-mislabelled").out
    assert "of 64 intervals, none of them is in steady state" in shown
    assert "nan" not in shown


def test_scopes_of_one_stage(attr: Any) -> None:
    found = json.loads(attr("scopes", "host-math-only", "--stage", "main", "--json").out)
    assert {row["stage"] for row in found["scopes"]} == {"main"}


def test_an_exception_path_that_was_not_timed_is_said_unasked(attr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Recording.table
    without = {"times": lambda frame: frame[frame["stage"] != "repair"]}
    monkeypatch.setattr(Recording, "table", lambda self, name: without.get(name, lambda f: f)(whole(self, name)))
    done = attr("capacity", "host-math-only")
    assert (done.code, "no time of stage repair" in done.out) == (0, True), done.err


def test_a_stage_without_a_time_is_named_without_a_scope_that_nobody_gave(attr: Any) -> None:
    done = attr("versus", "h200-selectors", "our_topk", "--point", "rows=1024,columns=8192,k=2048 normal")
    assert done.code == 1
    assert done.err.strip().endswith("arm our_topk has no time of stage 'main'")


def test_rows_of_a_sweep_say_which_point_they_are_of(attr: Any) -> None:
    shown = attr("show", "h200-selectors").out
    assert "selectors, 4 shapes, normal" in shown
    assert "\nnull (rows=1024,columns=131072,k=2048 ties, graph/warm/as-found): How far" in shown
    page = attr("report", "host-capacity", "--markdown").out
    assert "| overflow · main · host-virtual" in page
    assert "shape 4 shapes" in attr("report", "h200-selectors", "--markdown").out
    assert "point " not in attr("show", "host-math-only").out


def test_show_tells_one_point_of_a_sweep_and_the_bases_apart(attr: Any) -> None:
    told = json.loads(attr("show", "h200-index-topk-designs", "--point", "q=64,n=131072", "--json").out)["answers"]
    assert {row["shape"] for row in told} == {"q=64,n=131072"}
    table = attr("show", "h200-index-topk-designs", "--point", "n=131072,q=64").out
    heads = next(line.split() for line in table.splitlines() if line.startswith("arm "))
    assert heads[:3] == ["arm", "base", "stage"]
    nulls = [line.split()[1] for line in table.splitlines() if line.startswith("null ") and " graph " in line]
    assert {"full", "h20_block_q_2", "h20_math_only"} <= set(nulls)
    assert "base" not in attr("show", "host-math-only").out.split("verdict")[0]
    assert "has q=4096,n=8192" in attr("show", "h200-index-topk-designs", "--point", "q=3").err


def test_a_recording_of_failed_runs_is_a_sentence(tmp_path: Path, root: Path, attr) -> None:
    made = open_recording(root / "traces" / "host-math-only")
    tables = {name: made.table(name) for name in made.table_names}
    tables["runs"] = tables["runs"].assign(status="failed", reason="planted")
    facts = {k: v for k, v in made.manifest.items() if k not in ("schema", "protocol", "kind", "tables")}
    write_tables(tmp_path / "failed", "run", tables, facts)
    for verb in ("capacity", "scopes", "noise", "ladder", "roofline"):
        done = attr(verb, tmp_path / "failed")
        assert done.code in (1, 2), verb
        assert done.err.startswith("attr: "), verb
    assert "failed has no run that ended well" in attr("capacity", tmp_path / "failed").err
