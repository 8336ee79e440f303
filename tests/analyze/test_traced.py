"""Every traced run is looked at before an answer is given: each planted contradiction is refused, in any run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from planted import FLAGS, PLANTED_EVENTS, PLANTED_ROLES, measured, traced

from attribution.analyze import traced as tr
from attribution.claim import answers
from attribution.errors import DataError, InputError
from attribution.recording import Recording, write_tables

Tables = dict[str, pd.DataFrame]
MAKESPAN_NS = 52.0
"""Two waves of 26 ns."""


def tables() -> Tables:
    """Six runs of three arms on a reference machine of 3 SMs, every one with the trace of 4 CTAs and 8 rows."""
    out = measured(rounds=2)
    out["runs"] = out["runs"].assign(shape="q=8,n=8192", knobs='{"sms": 3}')
    numbers = out["runs"]["run"].tolist()
    main = out["times"].assign(stage="main", time_ns=MAKESPAN_NS)
    out["times"] = pd.concat([out["times"].astype({"stage": str}), main], ignore_index=True)
    one = traced()
    for name, frame in one.items():
        out[name] = pd.concat([frame.assign(run=n) for n in numbers], ignore_index=True)
    return out


def recording(path: Path, held: Tables, kind: str = "host") -> Recording:
    of = {"full": "full", "math_only": "math_only", "null": "full"}
    arms = [{"name": a, "variant": v, "flags": FLAGS[v], "knobs": {"sms": 3}} for a, v in of.items()]
    variant = {
        "base": None, "asks": "?", "flags": {}, "knobs": {}, "same": [], "expects": {}, "factors": None,
        "stage": "operator",
    }  # fmt: skip
    facts = {"roles": list(PLANTED_ROLES), "events": [asdict(e) for e in PLANTED_EVENTS], "same": {}, "source": ""}
    manifest = {
        "machine": {"kind": kind, "name": "planted", "expects": "host", "sms": 3, "tick_ns": 1.0},
        "kernels": {"planted": facts},
        "variants": {"full": variant, "math_only": {**variant, "base": "full"}},
        "plan": {
            "kernel": "planted", "shape": {"q": 8, "n": 8192}, "distribution": "normal", "rounds": 2,
            "questions": [{"base": "full", "arms": arms}],
        },
    }  # fmt: skip
    return write_tables(path, "run", held, manifest)


def test_whole_traces_are_answered_from(tmp_path: Path) -> None:
    recorded = recording(tmp_path / "a", tables())
    assert len(answers(recorded)) == 2
    assert tr.traced(recorded) is not None


def late(frame: pd.DataFrame, ns: int, cta: int | None = None) -> pd.DataFrame:
    """Run 2 `ns` later, or one of its CTAs."""
    where = (frame["run"] == 2) & ((frame["cta"] == cta) if cta is not None else True)
    return frame.assign(time_ns=frame["time_ns"] + ns * where)


def one_value(column: str, value: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        copy = frame.copy()
        copy.loc[copy.index[copy["run"] == 2][0], column] = value
        return copy

    return change


def first_gone(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(index=frame.index[frame["run"] == 2][0])


def run_gone(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["run"] != 2]


FAULTS: list[tuple[str, Callable[[pd.DataFrame], pd.DataFrame], str]] = [
    ("events", first_gone, r"CTA 0, role math: 7 of 8, run 2"),
    ("events", run_gone, r"CTA 0, role math: 0 of 8, run 2"),
    ("events", lambda f: f.iloc[:0], r"0 of 8, run 0"),
    ("lanes", first_gone, r"1 lanes have records and no header, first run 2, CTA 0, role math"),
    ("lanes", run_gone, r"8 lanes have records and no header, first run 2"),
    ("lanes", one_value("role", 2), r"role 2 is not declared"),
    ("events", lambda f: late(f, 10**9), r"last stamp of run 2 is at 1000000052 ns and its stage took 52 ns"),
    ("events", lambda f: late(f, 10**9, 1), r"last stamp of run 2 is at 1000000026 ns"),
    ("events", lambda f: late(f, 2**62), r"last stamp of run 2"),
    ("events", lambda f: late(f, -1, 0), r"run 2 has a stamp of -1 ns"),
    ("times", lambda f: f.assign(time_ns=f["time_ns"] + 9 * (f["stage"] == "main")), r"at 52 ns and its stage took 61"),
    ("events", lambda f: f.assign(edge=2), r"edge 2 is not declared"),
    ("events", one_value("edge", 2), r"edge 2 is not declared"),
    ("events", one_value("event", -1), r"event -1 is not declared"),
    ("rows", lambda f: f.assign(rows=f["rows"] * 2), r"CTAs of run 0 worked on 16 rows, its shape has 8"),
    ("rows", lambda f: f.assign(rows=-f["rows"]), r"run 0, CTA 0 has -2 rows"),
    ("rows", first_gone, r"run 2, CTA 0 is in its trace 1 times and in rows 0 times"),
    ("rows", lambda f: f.iloc[:0], r"run 0, CTA 0 is in its trace 1 times and in rows 0 times"),
    ("rows", lambda f: pd.concat([f, f.tail(1)]), r"run 5, CTA 3 is in its trace 1 times and in rows 2 times"),
    ("rows", one_value("run", 77), r"table rows: run 77 is not in table runs"),
    ("rows", one_value("sm", 2), r"CTA 0 \(run 2\) is on SM 0 in its trace and on SM 2"),
]


@pytest.mark.parametrize(("table", "fault", "sentence"), FAULTS, ids=[f"{t}: {s[:40]}" for t, _, s in FAULTS])
def test_a_fault_in_any_run_is_refused_by_every_answer(
    tmp_path: Path, table: str, fault: Callable[[pd.DataFrame], pd.DataFrame], sentence: str
) -> None:
    held = tables()
    held[table] = fault(held[table])
    recorded = recording(tmp_path / "a", held)
    for ask in (answers, tr.traced):
        with pytest.raises(DataError, match=sentence):
            ask(recorded)


def test_a_gpu_keeps_lanes_and_rows_of_runs_whose_events_were_dropped(tmp_path: Path) -> None:
    held = tables()
    held["events"] = run_gone(held["events"])
    tr.check_traces(recording(tmp_path / "a", held, "cuda"))
    held["events"] = first_gone(tables()["events"])
    with pytest.raises(DataError, match="7 of 8, run 2"):
        tr.check_traces(recording(tmp_path / "b", held, "cuda"))


def test_a_gpu_trace_may_end_before_its_launch_does_and_not_after(tmp_path: Path) -> None:
    held = tables()
    for name, ns in (("a", 53.0), ("b", 51.0)):
        mine = held["times"]["stage"] == "main"
        times = held["times"].astype({"scope": str})
        times.loc[mine, "scope"] = "trace"
        times.loc[mine, "time_ns"] = ns
        recorded = recording(tmp_path / name, {**held, "times": times}, "cuda")
        if ns > MAKESPAN_NS:
            tr.check_traces(recorded)
        else:
            with pytest.raises(DataError, match="last stamp of run 0 is at 52 ns and its stage took 51"):
                tr.check_traces(recorded)


def test_an_arm_and_a_run_of_another_arm_contradict_each_other(tmp_path: Path) -> None:
    recorded = recording(tmp_path / "a", tables())
    arms: dict[int, Any] = recorded.table("runs").set_index("run")["arm"].astype(str).to_dict()
    for run, arm in arms.items():
        assert tr.traced(recorded, arm, run).arm == arm  # type: ignore[union-attr]
        other = next(a for a in arms.values() if a != arm)
        with pytest.raises(InputError, match=f"run {run} of a is of arm {arm}, not {other}"):
            tr.traced(recorded, other, run)


def test_a_run_of_the_traced_build_is_a_run_of_its_arm(tmp_path: Path) -> None:
    held = tables()
    held["runs"] = held["runs"].assign(arm=held["runs"]["arm"].astype(str) + "+trace")
    recorded = recording(tmp_path / "a", held, "cuda")
    arm = str(recorded.table("runs")["arm"].iloc[0]).removesuffix("+trace")
    found = tr.traced(recorded, arm, 0)
    assert found is not None
    assert found.arm == f"{arm}+trace"


@pytest.mark.parametrize("how", ["empty", "dropped", "one arm"])
def test_without_checks_nothing_is_decided(tmp_path: Path, how: str) -> None:
    held = {n: f for n, f in measured(rounds=20).items() if n not in ("events", "lanes", "rows")}
    held["runs"] = held["runs"].assign(knobs='{"sms": 3}')
    sure = answers(recording(tmp_path / "sure", held)).set_index("arm")
    assert sure.loc["math_only", "verdict"] == "faster"
    if how == "empty":
        held["checks"] = held["checks"].iloc[:0]
    elif how == "dropped":
        del held["checks"]
    else:
        mine = held["runs"].loc[held["runs"]["arm"] == "math_only", "run"]
        held["checks"] = held["checks"][~held["checks"]["run"].isin(mine)]
    found = answers(recording(tmp_path / "a", held)).set_index("arm")
    assert found.loc["math_only", "verdict"] == "undecided"
    assert "output of math_only was not checked after its timing" in found.loc["math_only", "reasons"]
