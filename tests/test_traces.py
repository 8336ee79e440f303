"""Every recording under traces/ is whole, readable, described, small, and answers what it was made for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from attribution.analyze.contrast import contrast
from attribution.claim import answers
from attribution.claim.expectations import claims, overturned
from attribution.claim.void import void_reasons
from attribution.recording import Recording, open_recording
from bench.gpu import ratio
from bench.memory_gpu import apart, rows

TRACES = Path(__file__).parents[1] / "traces"
RECORDINGS = sorted(p.parent for p in TRACES.glob("*/manifest.json"))
RUNS = [path for path in RECORDINGS if open_recording(path).manifest["kind"] == "run"]


def test_everything_under_traces_is_a_recording_or_described() -> None:
    assert RECORDINGS
    text = (TRACES / "README.md").read_text(encoding="utf-8")
    for entry in TRACES.iterdir():
        if entry.name != "README.md":
            assert f"`{entry.name}`" in text, f"{entry.name} is not described in traces/README.md"
        # Recordings hash themselves; of anything else the description must have the hash, which is verified.
        if entry.is_file() and entry.name not in ("README.md", "VOID.toml"):
            assert f"<!-- file {entry.name} :: sha256 :: text -->" in text, (
                f"{entry.name} has no hash in traces/README.md"
            )
    size = sum(f.stat().st_size for f in TRACES.rglob("*") if f.is_file())
    assert size < 30e6


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.name)
def test_is_whole(path: Path) -> None:
    open_recording(path).verify()


@pytest.mark.parametrize("path", RUNS, ids=lambda p: p.name)
def test_loads_and_answers(path: Path) -> None:
    recording = open_recording(path)
    found = answers(recording)
    assert len(found)
    listed = [bool(void_reasons(recording, scope.split("/")[0])) for scope in found["scope"]]
    # An arm that was lost while measuring has no answer, and where it is the base, no other arm has one.
    lost = {(q, a) for q, a, _ in recording.manifest.get("measuring", {}).get("lost", [])}
    runs = recording.table("runs").astype({"question": str, "arm": str, "status": str})
    lost |= {pair for pair, mine in runs.groupby(["question", "arm"]) if not (mine["status"] == "ok").any()}
    gone = [{(q, q), (q, a)} & lost != set() for q, a in zip(found["question"], found["arm"], strict=True)]
    # Lists that overflow drop candidates which others keep: in main that is unequal work.
    drops = [row.distribution == "overflow" and "unequal work: candidates" in row.reasons for row in found.itertuples()]
    # A declaration that asked for what cannot be equal: the fused operator scores a sample besides (docs/findings/0014).
    sampled = [(path.name, row.arm) == ("h200-index-topk-unfused", "unfused_topk") for row in found.itertuples()]
    expected = [any(why) for why in zip(listed, gone, drops, sampled, strict=True)]
    assert (found["verdict"] == "void").tolist() == expected, found[["arm", "scope", "verdict", "reasons"]]


def unlike(recording: Recording) -> tuple[int, list[str]]:
    """How many counts that must be equal were taken several times of one arm, and those of which the launches differ."""
    same = {quantity for variant in recording.manifest["variants"].values() for quantity in variant["same"]}
    runs = recording.table("runs")[["run", "arm", "inputs"]].astype({"arm": str, "inputs": str})
    counters = recording.table("counters").astype({"metric": str, "scope": str, "stage": str, "instance": str})
    mine = counters[counters["metric"].isin(same) & (counters["scope"] == "ncu")].merge(runs, on="run")
    key = ["arm", "inputs", "stage", "metric", "instance"]
    found = mine.groupby([*key, "run"])["value"].sum().groupby(key).agg(["count", "nunique"])
    several = found[found["count"] > 1]
    return len(several), [str(name) for name in several.index[several["nunique"] > 1]]


def test_what_must_be_equal_is_equal_in_all_profiled_launches_of_one_arm() -> None:
    """Else one counted launch of an arm would say nothing of its other runs."""
    counted = 0
    for recording in map(open_recording, RUNS):
        count, differ = unlike(recording)
        assert differ == [], recording.path.name
        counted += count
    assert counted >= 12
    spoiled = open_recording(TRACES / "h200-index-topk-ledger").table("counters").astype({"metric": str, "scope": str})
    first = spoiled.index[
        (spoiled["metric"] == "tensor_instructions") & (spoiled["scope"] == "ncu") & (spoiled["value"] > 0)
    ][0]
    spoiled.loc[first, "value"] += 1
    real = open_recording(TRACES / "h200-index-topk-ledger")
    tables = {"runs": real.table("runs"), "counters": spoiled}
    assert len(unlike(SimpleNamespace(manifest=real.manifest, table=tables.__getitem__))[1]) == 1  # type: ignore[arg-type]


INTERVAL = re.compile(r"\[\s*([-\d.e]+)\s*,\s*([-\d.e]+)\s*\]")


def forgotten(judged: pd.DataFrame, texts: dict[str, str]) -> list[str]:
    """Judged expectations of variants that their file still declares without still stating that interval anywhere."""
    out = []
    for row in judged.to_dict("records"):
        text = texts.get(row["kernel"], "")
        stated = {(float(a), float(b)) for a, b in INTERVAL.findall(text)}
        if f"[{row['arm']}]" in text and (row["expected_low"], row["expected_high"]) not in stated:
            out.append(f"{row['recording']}: {row['arm']} [{row['expected_low']}, {row['expected_high']}]")
    return out


def test_an_expectation_that_was_judged_stays_in_its_file() -> None:
    """One that is moved afterwards would make the next recording look expected."""
    judged = claims([open_recording(path) for path in RUNS])
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (TRACES.parent / "variants").glob("*.toml")}
    assert forgotten(judged, texts) == []
    spoiled = {name: INTERVAL.sub("[0, 9]", text) for name, text in texts.items()}
    declared = [row for row in judged.to_dict("records") if f"[{row['arm']}]" in texts.get(row["kernel"], "")]
    assert len(forgotten(judged, spoiled)) == len(declared) > len(forgotten(overturned(judged), spoiled)) > 0


def test_on_a_card_the_broken_control_was_refused_before_it_ran_and_by_its_counters() -> None:
    """Where nobody asks for equal work it runs, and its time alone would look like a fine control's."""
    refused = open_recording(TRACES / "h200-refused-control").table("runs").astype({"arm": str, "reason": str})
    mine = refused[refused["arm"] == "broken"]
    assert len(mine) == 6
    assert mine["reason"].str.contains("index_main has no QGMMA in its machine code where its base has 20").all()
    counted = open_recording(TRACES / "h200-broken-control")
    tables = [counted.table(name) for name in ("runs", "times", "checks", "counters")]
    asked: dict[str, Any] = {"base": "full", "stage": "main", "scope": "graph"}
    same = ("tensor_instructions", "tma_loads")
    honest, broken = (contrast(*tables, arm=arm, same=same, **asked) for arm in ("math_only", "unwatched"))
    assert (honest.verdict, broken.verdict) == ("faster", "void")
    assert "unequal work: tensor_instructions: 65280 != 0" in broken.reasons
    assert contrast(*tables, arm="unwatched", same=(), **asked).verdict == "faster"


def test_the_published_answer_of_the_host_recording_still_holds() -> None:
    found = answers(open_recording(TRACES / "host-math-only")).set_index("arm")
    assert found.loc["math_only", ["verdict", "equal_work", "expectation"]].tolist() == ["faster", "equal", "supported"]
    assert found.loc["null", "verdict"] in ("same", "undecided")


ARMS = {"null pair": ("again", "full"), "TRACE = 1 / TRACE = 0, main": ("traced", "main")}
"""What a row of goals is called behind its shape, and the arms whose ratio it is."""


@pytest.mark.parametrize("name", ["goals", "goals-registers"])
def test_ratios_among_the_goals_are_those_of_their_samples(name: str) -> None:
    facts = json.loads((TRACES / f"h200-index-topk-{name}.json").read_text(encoding="utf-8"))
    told = 0
    for row in facts["rows"]:
        if not (shape := re.match(r"Q (\d+) N (\d+)[^:]*: ", row["what"])):
            continue
        said = row["what"][shape.end() :]
        pipeline = re.fullmatch(r"operator / (\w+) scorer and kernel topk", said)
        arms = ("full", f"unfused_{pipeline[1]}") if pipeline else ARMS.get(said)
        arms = ("full", "scorer") if said.startswith("operator / scorer") else arms
        if arms:
            times = facts["milliseconds"][f"{shape[1]}x{shape[2]}"]
            assert row["measured"] == f"{ratio(times, *arms):.3f}", row["what"]
            told += 1
    assert told >= 4 * len(facts["milliseconds"])


def test_ratios_of_what_a_trace_costs_are_those_of_their_samples() -> None:
    facts = json.loads((TRACES / "h200-index-topk-trace-cost.json").read_text(encoding="utf-8"))
    assert facts["rows"]
    for row in facts["rows"]:
        run, shape, top, _, bottom = row["what"].replace(":", "").split()
        assert row["measured"] == f"{ratio(facts['runs'][run]['milliseconds'][shape], top, bottom):.3f}", row["what"]


def test_how_far_equal_builds_lie_apart_is_what_their_samples_say() -> None:
    facts = json.loads((TRACES / "h200-memory-place.json").read_text(encoding="utf-8"))
    assert facts["rows"] == rows(facts["milliseconds"])
    short = facts["milliseconds"]["4096x8192"]["main"]
    assert apart(short, "own") > 20 * apart(short, "shared")
    halves = [{name: values[part::2] for name, values in short.items()} for part in (0, 1)]
    assert all(apart(half, "own") > 10 * apart(half, "shared") for half in halves)
