"""Whatever ends a worker becomes a failed row with its reason, and the remaining runs still run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fake_ncu import REPORT, fake_ncu
from faked import ROUNDS, executed, measured, planned

from attribution.analyze.ledger import practical_ceiling
from attribution.claim import answers
from attribution.declare import Kernel, Variant
from attribution.errors import DataError, InputError, MeasureError
from attribution.measure import reading
from attribution.measure.job import CEILING_ROUNDS
from attribution.measure.jobfile import Options, Order
from attribution.measure.stopping import Rule
from attribution.plan import Plan, Question


def test_a_worker_without_faults_leaves_a_whole_recording(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measured(hello, variants, tmp_path / "a", monkeypatch, traced=2)
    runs = made.table("runs")
    assert set(runs["status"]) == {"ok"}
    # Three arms in every round, and the two with a name of their own once more, traced, in two of them.
    assert len(runs) == ROUNDS * 3 + 2 * 2
    assert runs["run"].tolist() == list(range(len(runs)))
    traced = runs[runs["arm"].astype(str).str.endswith("+trace")]
    assert set(traced["round"]) == {0, 1}
    assert traced["flags"].astype(str).str.contains('"TRACE": 1').all()
    assert made.manifest["machine"]["name"] == "NVIDIA F200"
    measuring = made.manifest["measuring"]
    assert (measuring["lost"], measuring["builds"], measuring["ncu"]) == ([], {"build": "code"}, "")
    assert measuring["warm_ups"]["most"] >= measuring["warm_ups"]["least"] == 1
    assert not (tmp_path / "a.partial").exists()
    found = answers(made, "operator").set_index("arm")
    assert found.loc["scalar", "time_ratio"] == pytest.approx(1.05, abs=1e-3)


def test_an_arm_says_once_in_each_question_what_it_is_made_of(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scalar` is an arm of one question and the base of another: equal work is looked for inside each."""
    asked = planned(hello, variants)
    _, null, scalar = asked.questions[0].arms
    own = Question("scalar", (scalar, replace(null, variant="scalar", flags=scalar.flags)))
    asked = replace(asked, questions=(*asked.questions, own))
    made = executed(hello, variants, asked, tmp_path / "a", monkeypatch)
    static = (
        made.table("counters").merge(made.table("runs"), on="run").astype({"source": str, "question": str, "arm": str})
    )
    static = static[static["source"] == "ptxas"]
    there = sorted(zip(static["question"], static["arm"], strict=True))
    assert there == [("scalar", "null"), ("scalar", "scalar")] + [("vector", a) for a in ("null", "scalar", "vector")]
    assert set(static["round"]) == {0}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("scalar:die", "died of SIGKILL: NVRM: Xid 13"),
        ("scalar:exit", "ended with code 9"),
        ("scalar:lost", "illegal memory access"),
    ],
)
def test_a_crash_is_a_failed_row_and_the_rest_runs_in_a_new_worker(
    fault: str,
    reason: str,
    hello: Kernel,
    variants: dict[str, Variant],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = measured(hello, variants, tmp_path / "a", monkeypatch, fault)
    runs = made.table("runs").astype({"arm": str, "status": str})
    assert len(runs) == ROUNDS * 3
    assert set(runs.loc[runs["arm"] != "scalar", "status"]) == {"ok"}
    mine = runs[runs["arm"] == "scalar"]
    failed = mine[mine["status"] == "failed"]
    assert len(failed) == 1
    assert reason in failed["reason"].iloc[0]
    # Runs before the crash are kept, those behind it are skipped with the reason.
    assert set(mine.loc[mine["run"] < failed["run"].iloc[0], "status"]) <= {"ok"}
    later = mine[mine["run"] > failed["run"].iloc[0]]
    assert set(later["status"]) == {"skipped"}
    assert later["reason"].str.contains("ended its worker").all()
    assert len(made.manifest["measuring"]["lost"]) == 1


def test_runs_that_waited_to_be_written_when_the_worker_died_are_measured_again(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measured(hello, variants, tmp_path / "a", monkeypatch, "scalar:die", keep_s=60.0)
    runs = made.table("runs").astype({"arm": str, "status": str})
    assert runs["run"].tolist() == list(range(ROUNDS * 3))
    assert set(runs.loc[runs["arm"] != "scalar", "status"]) == {"ok"}
    assert (runs.loc[runs["arm"] == "scalar", "status"] == "failed").sum() == 1
    made = measured(hello, variants, tmp_path / "b", monkeypatch, "scalar:lost", keep_s=60.0)
    mine = made.table("runs").astype({"arm": str, "status": str}).query("arm == 'scalar'")
    # A worker that can still speak writes what it has.
    assert mine["status"].tolist()[0] == "ok"


def test_a_hang_is_ended_by_the_watchdog(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measured(hello, variants, tmp_path / "a", monkeypatch, "scalar:hang", timeout_s=4.0)
    runs = made.table("runs").astype({"arm": str, "status": str})
    assert len(runs) == ROUNDS * 3
    failed = runs[runs["status"] == "failed"]
    assert failed["arm"].tolist() == ["scalar"]
    assert "hang: no progress for 4 s" in failed["reason"].iloc[0]
    assert set(runs.loc[runs["arm"] != "scalar", "status"]) == {"ok"}


def test_an_error_of_one_arm_and_a_wrong_output_need_no_new_worker(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, fault, reason in (("a", "scalar:raise", "no such entry"), ("b", "scalar:wrong", "it is wrong")):
        made = measured(hello, variants, tmp_path / name, monkeypatch, fault)
        runs = made.table("runs").astype({"arm": str, "status": str})
        bad = runs[runs["status"] == "failed"]
        assert set(bad["arm"]) == {"scalar"}
        assert bad["reason"].str.contains(reason).all()
        assert made.manifest["measuring"]["lost"] == []
        assert answers(made, "operator").set_index("arm").loc["scalar", "verdict"] in ("void", "undecided")


def test_an_arm_whose_machine_code_lost_its_work_is_not_run(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measured(hello, variants, tmp_path / "a", monkeypatch, "scalar:lost_work")
    runs = made.table("runs").astype({"arm": str, "status": str})
    mine = runs[runs["arm"] == "scalar"]
    assert set(mine["status"]) == {"skipped"}
    assert mine["reason"].str.contains("its work is lost: ['bytes', 'ctas']", regex=False).all()
    assert not made.table("times")["run"].isin(mine["run"]).any()
    assert answers(made, "operator").set_index("arm").loc["scalar", "verdict"] == "void"


def test_a_worker_that_cannot_start_is_one_sentence_and_nothing_is_published(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MeasureError, match="too old"):
        measured(hello, variants, tmp_path / "a", monkeypatch, ":refuse")
    with pytest.raises(MeasureError, match=r"before its first run.*SIGSEGV"):
        measured(hello, variants, tmp_path / "b", monkeypatch, ":early")
    assert not (tmp_path / "a").exists()
    with pytest.raises(InputError, match="unfinished"):
        measured(hello, variants, tmp_path / "a", monkeypatch)
    assert len(measured(hello, variants, tmp_path / "a", monkeypatch, resume=True).table("runs")) == ROUNDS * 3


def test_rounds_stop_when_the_interval_is_narrow_enough(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measured(hello, variants, tmp_path / "a", monkeypatch, rule=Rule(0.002), rounds=60)
    runs = made.table("runs")
    rounds = runs["round"].nunique()
    assert rounds < 60
    assert rounds % 6 == 0  # whole designs of three arms
    assert made.manifest["plan"]["rounds"] == rounds
    assert made.manifest["stopping"]["reached"]
    checks = made.table("checks").merge(runs[["run", "round", "arm"]], on="run")
    last = checks[(checks["round"] == rounds - 1) & (checks["when"] == "after")]
    assert (last.groupby("arm", observed=True).size() == 2).all()  # the timed output, and one on fresh inputs


def test_an_order_survives_its_file(hello: Kernel, variants: dict[str, Variant], tmp_path: Path) -> None:
    asked = planned(hello, variants)
    options, refused = Options(scopes=("event",), stages=("main",)), ((0, "q", "a", "why"),)
    order = Order(
        "/k", (asked.facts(),), {"a": 1}, options, Rule(0.01), {"captured": "/f"}, refused, {"scalar": ["bytes"]}
    )
    for one in (order, replace(order, rule=None, mode="alone", alone=(0, "q", "a"))):
        one.write(tmp_path / "job.json")
        assert Order.read(tmp_path / "job.json") == one
    assert Plan.from_facts(Order.read(tmp_path / "job.json").plans[0]) == asked
    assert order.refused_at(0) == {("q", "a"): "why"}
    assert order.refused_at(1) == {}
    for text in ("", "[]", '{"plans": []}', '{"options": {}}'):
        (tmp_path / "job.json").write_text(text)
        with pytest.raises(DataError, match="is no job file"):
            Order.read(tmp_path / "job.json")


def test_ceilings_stand_beside_the_times_of_the_first_rounds(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measured(hello, variants, tmp_path / "a", monkeypatch, rounds=CEILING_ROUNDS + 6)
    counters = made.table("counters")
    assert practical_ceiling(counters) == 1.5e15
    there = counters[counters["stage"] == "ceiling"].merge(made.table("runs")[["run", "round"]], on="run")
    assert there["round"].tolist() == list(range(CEILING_ROUNDS))


def test_a_worker_ends_soon_after_the_one_that_waited_for_it(tmp_path: Path) -> None:
    """The orchestrator is killed by SIGKILL while its worker hangs: nobody would ever end that worker."""
    code = f"""
from pathlib import Path
import faked
from attribution.load import load_kernel, load_variants, shipped_root
hello = load_kernel(shipped_root(), "hello")
variants = load_variants(shipped_root(), hello)
options = faked.Options(traced_rounds=0, timeout_s=600.0)
path = Path({str(tmp_path / "a")!r})
faked.watch.execute(faked.planned(hello, variants), hello, variants, path, print, options, command=faked.FAKE)
"""
    env = {**os.environ, "FAKE": "scalar:hang", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.DEVNULL) as other:
        progress, pid = tmp_path / "a.partial" / "progress.jsonl", 0
        until = time.monotonic() + 60
        while not pid and time.monotonic() < until:
            time.sleep(0.1)
            lines = [json.loads(x) for x in progress.read_text().splitlines()] if progress.is_file() else []
            pid = next((x["pid"] for x in lines if x["event"] == "alive"), 0) if len(lines) > 3 else 0
        assert pid
        os.kill(pid, 0)
        other.kill()
    while Path(f"/proc/{pid}").exists() and "zombie" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < until + 30, "the worker is still there"
        time.sleep(0.1)


def test_under_ncu_every_arm_runs_once_more_and_its_counters_stand_beside_the_times(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ncu_report")
    fake_ncu(tmp_path / "bin", monkeypatch, str(REPORT))
    made = measured(hello, variants, tmp_path / "a", monkeypatch, scopes=("graph", "ncu"))
    runs = made.table("runs").astype({"arm": str}).set_index("run")
    counters = made.table("counters").astype({"metric": str, "scope": str}).query("scope == 'ncu'")
    assert made.manifest["measuring"]["skipped"] == []
    profiled = runs.loc[sorted(counters["run"].unique())]
    assert profiled["arm"].tolist() == ["vector", "scalar"]
    assert len(runs) == ROUNDS * 3 + 2
    assert set(counters["kernel_name"]) == {"hello"}
    loads = counters[counters["instance"] == "LDG"].groupby("run")["value"].sum()
    assert loads.iloc[1] == 4 * loads.iloc[0]
    times = made.table("times").astype({"scope": str})
    assert set(times["scope"]) == {"graph", "ncu"}
    # The profiled runs stand beside the pairs and change nothing in them.
    found = answers(made, "main", "graph").set_index("arm")
    assert found.loc["scalar", "pairs"] == ROUNDS


def test_what_is_called_cold_and_did_not_come_from_memory_is_no_cold_run(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the report of a launch that had the least bytes, as the worker says them, in its cache."""
    pytest.importorskip("ncu_report")
    fake_ncu(tmp_path / "bin", monkeypatch, str(REPORT))
    made = measured(hello, variants, tmp_path / "a", monkeypatch, scopes=("graph", "ncu"), cache="cold")
    runs = made.table("runs").astype({"status": str, "reason": str})
    assert (runs["status"] == "failed").sum() == 2
    assert runs["reason"].str.contains("this was not cold: .* came from memory, .* sectors hit the L2").sum() == 2
    checks = made.table("checks").astype({"check": str})
    assert checks.loc[checks["check"] == "cold", "passed"].tolist() == [False, False]
    assert answers(made, "main", "graph").set_index("arm").loc["scalar", "verdict"] == "void"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - no permission to access counters", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("==WARNING== No kernels were profiled.", "ncu profiled no launch"),
    ],
)
def test_without_a_report_times_are_kept_and_the_skip_has_its_reason(
    words: str,
    reason: str,
    hello: Kernel,
    variants: dict[str, Variant],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_ncu(tmp_path / "bin", monkeypatch, "", words)
    made = measured(hello, variants, tmp_path / "a", monkeypatch, scopes=("graph", "ncu"))
    runs = made.table("runs").astype({"arm": str, "status": str})
    assert runs["status"].tolist() == ["ok"] * ROUNDS * 3 + ["failed"] * 2
    assert runs["reason"].str.contains(reason, regex=False).sum() == 2
    (skip,) = made.manifest["measuring"]["skipped"]
    assert skip["scope"] == "ncu"
    assert reason in skip["reason"]
    assert answers(made, "main", "graph").set_index("arm").loc["scalar", "pairs"] == ROUNDS


def test_a_reader_that_crashes_costs_no_time_and_its_report_is_kept(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(tmp_path / "bin", monkeypatch, str(REPORT))
    monkeypatch.setattr(reading.report, "readers", lambda: ["package"])
    crash = (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(reading.apart, "__defaults__", ("warm", crash))
    made = measured(hello, variants, tmp_path / "a", monkeypatch, scopes=("graph", "ncu"))
    runs = made.table("runs").astype({"status": str})
    assert runs["status"].tolist() == ["ok"] * ROUNDS * 3 + ["failed"] * 2
    failed = runs.loc[runs["status"] == "failed", "reason"]
    assert failed.str.contains(
        "ncu_report (package) died of SIGSEGV; the report is kept as a.ncu-rep", regex=False
    ).all()
    assert (tmp_path / "a.ncu-rep").read_bytes() == REPORT.read_bytes()
    found = answers(made, "main", "graph").set_index("arm").loc["scalar"]
    assert (found["pairs"], found["equal_work"]) == (ROUNDS, "not checked")


def test_the_next_reader_is_tried_when_one_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ncu_report")
    code = """
import json, os, runpy, signal, sys
if json.load(open(sys.argv[1]))["place"] != "package":
    os.kill(os.getpid(), signal.SIGSEGV)
runpy.run_module("attribution.measure.reading", run_name="__main__")
"""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setattr(reading.report, "readers", lambda: ["/opt/ncu/extras/python", "package"])
    step = {"stage": "main", "kernel_name": "hello", "grid": [264, 1, 1]}
    arms = [{"arm": name, "steps": [{"range": name, **step}], "checks": []} for name in ("vector", "scalar")]
    found = reading.apart(
        REPORT, arms, {"opcodes": "sass__inst_executed_per_opcode"}, 7, "cold", (sys.executable, "-c", code)
    )
    assert [(arm["arm"], run) for arm, run, _ in found] == [("vector", 7), ("scalar", 8)]
    assert all(tables["counters"]["value"].max() > 0 for _, _, tables in found)
    assert {cache for _, _, tables in found for cache in tables["times"]["cache"]} == {"cold"}
    wrong = [{**arms[0], "steps": [{"range": "vector", **step, "grid": [1, 1, 1]}]}, arms[1]]
    with pytest.raises(DataError, match="grid"):
        reading.apart(REPORT, wrong, {"a": "b"}, 7, "warm", (sys.executable, "-c", code))


def test_cupti_runs_in_a_worker_of_its_own_and_a_wrong_output_there_is_a_failed_row(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = measured(hello, variants, tmp_path / "a", monkeypatch, scopes=("graph", "cupti"))
    times = made.table("times").astype({"scope": str})
    runs = made.table("runs").astype({"arm": str, "status": str}).set_index("run")
    mine = runs.loc[sorted(times.loc[times["scope"] == "cupti", "run"].unique())]
    assert mine["arm"].tolist() == ["vector", "scalar"]
    assert mine["status"].tolist() == ["ok", "failed"]
    counters = made.table("counters").astype({"metric": str, "state": str, "scope": str})
    overlap = counters[counters["metric"] == "stages_overlap"].set_index("run").loc[mine.index]
    assert overlap[["scope", "state", "value"]].values.tolist() == [["cupti", "value", 32.0]] * 2
    chain = counters[counters["metric"] == "chain_nodes"].set_index("run").loc[mine.index]
    assert chain["state"].tolist() == ["zero"] * 2
    assert made.manifest["measuring"]["skipped"] == []
