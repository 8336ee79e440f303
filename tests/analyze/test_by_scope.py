"""One kernel in every scope: a row each, and no difference between two of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attribution.analyze.by_scope import by_scope, difference
from attribution.cli.run import remarks
from attribution.errors import DataError, InputError
from attribution.measure.jobfile import Options
from attribution.measure.start import DEFAULTS
from attribution.recording import Recording, open_recording

TRACES = Path(__file__).parents[2] / "traces"


@pytest.fixture(scope="module")
def recording() -> Recording:
    return open_recording(TRACES / "h200-scopes")


def test_the_same_kernel_was_read_by_event_graph_cupti_ncu_and_trace(recording: Recording) -> None:
    found = by_scope(recording, "full")
    main = found[found["stage"] == "main"]
    assert [s.split("/")[0] for s in main["scope"]] == ["event", "graph", "cupti", "ncu", "trace"]
    assert (main["time_ns"] > 0).all()
    assert (found["low_ns"] <= found["time_ns"]).all()
    assert (found["time_ns"] <= found["high_ns"]).all()
    assert main["includes"].str.len().min() > 20
    # A stage is less than all stages, within each scope that has both.
    both = found.pivot_table(index="scope", columns="stage", values="time_ns").dropna()
    assert len(both) == 3
    assert (both["main"] < both["operator"]).all()


def test_no_two_of_them_have_a_difference(recording: Recording) -> None:
    found = by_scope(recording, "full")
    scopes = found.loc[found["stage"] == "main", "scope"].tolist()
    for first in scopes:
        for second in scopes:
            if first == second:
                assert difference(found, first, second, "main").ns == 0
                continue
            with pytest.raises(DataError, match="two scopes"):
                difference(found, first, second, "main")


def test_what_is_not_there_is_named(recording: Recording) -> None:
    with pytest.raises(InputError, match="arm 'fill' has no finished run; there are: .*full"):
        by_scope(recording, "fill")
    with pytest.raises(InputError, match="scope 'nsys' of stage main is 0 rows; there are: event"):
        difference(by_scope(recording, "full"), "nsys", "event", "main")


def test_the_verb_prints_the_table_and_refuses_a_difference(attr: Any) -> None:
    done = attr("scopes", "h200-scopes")
    assert done.code == 0
    assert "never subtracted" in done.out
    assert "cupti/warm/as-found" in done.out
    done = attr("scopes", "h200-scopes", "--minus", "graph", "--minus", "cupti")
    assert done.code == 1
    assert "two scopes" in done.err
    done = attr("scopes", "h200-scopes", "--minus", "graph")
    assert done.code == 2
    assert "give it twice" in done.err


def test_all_instruments_together_took_less_than_90_s_and_it_says_what_was_not_measuring(recording: Recording) -> None:
    cost = recording.manifest["cost"]
    assert set(recording.manifest["measuring"]["scopes"]) == {"event", "graph", "cupti", "ncu"}
    assert 0 < cost["runs_s"] < cost["timed_worker_s"] < cost["wall_s"] < 90
    adds_up(recording)


def adds_up(recording: Recording) -> None:
    """The line of what a recording cost has its parts, and they are the whole."""
    (line,) = remarks(recording)
    said = re.fullmatch(
        r"([\d.]+) s in all: ([\d.]+) s in timed runs with their rests, ([\d.]+) s checking outputs, ([\d.]+) s under profilers; "
        r"(\d+) % was not measuring \(imports, builds, set-up\)",
        line,
    )
    assert said is not None, line
    wall_s, *parts_s, rest = map(float, said.groups())
    cost = recording.manifest["cost"]
    assert [wall_s, *parts_s[:2]] == pytest.approx([cost["wall_s"], cost["runs_s"], cost["checks_s"]], abs=0.05)
    assert sum(parts_s) + rest / 100 * wall_s == pytest.approx(wall_s, abs=0.2 + 0.005 * wall_s)
    assert min(parts_s) > 0 < rest < 50


def test_the_main_question_as_it_is_typed_took_less_than_90_s_on_a_card() -> None:
    """`attr run --variant math_only`: all defaults, traced rounds and counters of Nsight Compute included."""
    made = open_recording(TRACES / "h200-index-topk-math-only")
    plan, measuring = made.manifest["plan"], made.manifest["measuring"]
    assert [arm["name"] for arm in plan["questions"][0]["arms"]] == ["full", "null", "math_only", "score_only"]
    assert (plan["shape"], plan["rounds"]) == ({"q": 4096, "n": 131072}, 12)
    assert measuring["scopes"] == list(DEFAULTS)
    assert (measuring["traced_rounds"], measuring["lost"], measuring["skipped"]) == (Options().traced_rounds, [], [])
    assert set(made.table("times")["scope"].astype(str)) == {"event", "graph", "ncu", "trace"}
    assert set(made.table("runs")["status"].astype(str)) == {"ok"}
    cost = made.manifest["cost"]
    assert 0 < cost["runs_s"] < cost["timed_worker_s"] < cost["wall_s"] < 90
    adds_up(made)
    counts = (
        made.table("counters").merge(made.table("runs")[["run", "arm"]], on="run").astype({"metric": str, "arm": str})
    )
    for metric in ("tensor_instructions", "tma_loads"):
        mine = counts[(counts["metric"] == metric) & (counts["kernel_name"] == "index_main")]
        assert set(mine["arm"]) == {"full", "math_only", "score_only"}
        (count,) = set(mine["value"])
        assert count > 0
    static = counts[(counts["source"] == "sass") & (counts["instance"] == "QGMMA") & (counts["arm"] == "math_only")]
    assert (static.loc[static["kernel_name"] == "index_main", "value"] > 0).all()
    assert {"sass_static", "sass_static@math"} <= set(static["metric"])


def test_a_scope_that_the_void_list_names_says_so(attr: Any) -> None:
    done = attr("scopes", "h200-hello-cold-mislabelled")
    assert (
        "void: trace/warm/as-found: h200-hello-cold-mislabelled: its traced runs had a cold cache as well" in done.out
    )
    assert done.out.count("void: ") == 1
    assert "void: " not in attr("scopes", "h200-hello-warm").out


def test_cold_against_warm_differs_where_the_l2_holds_everything() -> None:
    medians, missed = {}, {}
    for cache in ("warm", "cold"):
        made = open_recording(TRACES / f"h200-hello-{cache}")
        found = by_scope(made, "vector").set_index(["scope", "stage"])
        medians[cache] = found.loc[(f"graph/{cache}/as-found", "main"), "time_ns"]
        counted = made.table("counters").astype({"metric": str}).groupby("metric")["value"].mean()
        missed[cache] = 1 - counted["l2_sectors_hit"] / counted["l2_sectors"]
    assert medians["cold"] > 1.3 * medians["warm"]
    assert missed["warm"] < 0.02 < 0.3 < missed["cold"]
    cold = by_scope(open_recording(TRACES / "h200-hello-cold"), "vector")
    both = pd.concat([cold, by_scope(open_recording(TRACES / "h200-hello-warm"), "vector")])
    with pytest.raises(DataError, match="two scopes: .*graph/cold.*graph/warm"):
        difference(both, "graph/cold/as-found", "graph/warm/as-found", "main")


@pytest.mark.parametrize("verb", ["ladder", "ledger", "roofline", "noise", "tails", "versus"])
def test_every_verb_that_reads_times_says_that_their_scope_is_void(attr: Any, verb: str) -> None:
    where = ["h200-hello"] if verb in ("noise", "tails") else ["h200-index-topk-32k"]
    where += ["full", "math_only"] if verb == "versus" else []
    assert "void: graph/warm/as-found: one graph was instantiated for all rounds" in attr(verb, *where).out
    if verb != "noise":
        assert "void: " not in attr(verb, *where, "--scope", "event").out
