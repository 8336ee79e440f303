"""The operator's account of the replays in `traces/h200-operator-timeline`, recomputed by what measures and by what accounts.

`h200-operator-timeline.json` states it beside what the driver said of each graph, which no profiler's file holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import planted_gpu
import pytest

from attribution.analyze.ledger import operator_account
from attribution.measure import cupti
from attribution.recording import Recording, open_recording
from attribution.tables import conform

TRACES = Path(__file__).parents[2] / "traces"
STAGES = ("sample_gather", "sample_scores", "threshold", "main", "merge", "repair")
"""Of `full`; `math_only` has the first four.  Each is one launch."""
STATED = json.loads((TRACES / "h200-operator-timeline.json").read_text(encoding="utf-8"))
TICK_NS = 32.0


@pytest.fixture(scope="module")
def recording() -> Recording:
    return open_recording(TRACES / "h200-operator-timeline")


def rows_of(recording: Recording, name: str, nodes: int, chain: int | None) -> list[cupti.Row]:
    """Rows of the replays in one of the files."""

    def table(which: str) -> pd.DataFrame:
        whole = recording.table(which)
        return whole[whole["file"] == f"{name}.json.gz"]

    steps = [cupti.Step(stage, True) for stage in STAGES[:nodes]]
    return cupti.rows(SimpleNamespace(table=table), STATED["replays"], steps, chain)  # type: ignore[arg-type]


def account(rows: list[cupti.Row]) -> pd.DataFrame:
    """The operator's account of these rows."""
    made = {name: conform(name, frame.assign(run=0)) for name, frame in cupti.tables(rows, "warm").items()}
    runs = planted_gpu.measured({"full": {"full": 1e6}}, rounds=1)["runs"]
    return operator_account({"runs": runs, **made}, "full", "cupti", TICK_NS)


def recomputed(recording: Recording, stated: dict[str, Any]) -> dict[str, Any]:
    """What the file may state of one arm at one shape; its graph is taken from there."""
    graph = stated["graph"]
    paths = graph["most_dependencies"] == graph["most_dependents"] == 1 and not any(graph["edge_types"])
    chain = graph["nodes"] if paths and graph["edges"] == graph["nodes"] - 1 else 0
    rows = rows_of(recording, stated["name"], graph["nodes"], chain)
    each = pd.DataFrame(rows).pivot_table(index="sample", columns="stage", values="time_ns")
    each["gaps"] = 2 * each["operator"] - each.sum(axis=1)
    columns = ["item", "time_ns", "low_ns", "high_ns", "verdict", "reason"]
    items = [
        {**row, "least_ns": each[row["item"]].min(), "median_ns": each[row["item"]].median(), "most_ns": each[row["item"]].max()}
        for row in account(rows)[columns].to_dict("records")
    ]  # fmt: skip
    overlaps = pd.DataFrame(rows).groupby("sample")["overlap_ns"].first()
    seen = {"stages_overlap_ns": overlaps.max(), "replays_above_stamps": int((overlaps > cupti.STAMPS_NS).sum())}
    return {"name": stated["name"], "graph": graph, **seen, "account": items}


@pytest.mark.parametrize("stated", STATED["timelines"], ids=lambda stated: stated["name"])
def test_the_account_that_is_stated_is_that_of_its_replays(recording: Recording, stated: dict[str, Any]) -> None:
    assert json.loads(json.dumps(recomputed(recording, stated))) == stated
    items = {row["item"]: row for row in stated["account"]}
    assert {row["verdict"] for row in stated["account"]} == {"measured"}
    assert sum(row["time_ns"] for name, row in items.items() if name != "operator") == pytest.approx(
        items["operator"]["time_ns"]
    )
    assert items["gaps"]["least_ns"] > 0


@pytest.mark.parametrize("chain", [0, None])
def test_planted_were_it_no_chain_or_not_known_nothing_would_be_decided_where_stamps_overlap(
    recording: Recording, chain: int | None
) -> None:
    for stated in STATED["timelines"]:
        verdicts = set(account(rows_of(recording, stated["name"], stated["graph"]["nodes"], chain))["verdict"])
        assert verdicts == {"undecided" if stated["stages_overlap_ns"] > cupti.STAMPS_NS else "measured"}


def test_stamps_overlap_at_the_shorter_shape_only(recording: Recording) -> None:
    most = {stated["name"]: stated["stages_overlap_ns"] for stated in STATED["timelines"]}
    assert most == {"full-32768": 192, "math_only-32768": 64, "full-131072": 0, "math_only-131072": 0}
