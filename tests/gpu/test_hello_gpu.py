"""hello on a real GPU, and launches that go wrong on it.  Skipped where there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attribution.analyze.contrast import contrast
from attribution.claim import answers
from attribution.declare import Kernel, Variant
from attribution.load import load_kernel, load_variants
from attribution.measure import ncu, start
from attribution.measure.probe import Gpu, find
from attribution.plan import Overrides, plan
from attribution.recording import Recording

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))
SMALL = {"rows": 264, "columns": 65536}

FAULTY = {
    "address": "if constexpr (flag::FAULT == 1) out = reinterpret_cast<float*>(64);",
    "hang": "if constexpr (flag::FAULT == 2) { while (true) __nanosleep(1000); }",
    "wrong": "if constexpr (flag::FAULT == 3) columns -= 512;",
    "tires": "if constexpr (flag::FAULT == 4) { if (blockIdx.x + threadIdx.x == 0) ++calls; if (calls > 60) columns -= 512; }",
}
COUNTER = "__device__ unsigned int calls;\n"
"""Launches so far, in the module of a build: a fault that shows only after a while."""


def measured(
    kernel: Kernel, variants: dict[str, Variant], names: list[str], path: Path, timeout_s: float = 60.0, **asked: object
) -> Recording:
    wanted = start.ask(
        kernel,
        "cuda",
        asked.get("scopes", ["event", "graph"]),
        str(asked.get("cache", "warm")),
        None,
        None,
        6,
        timeout_s,
    )
    shape = {"rows": asked.get("rows", SMALL["rows"]), "columns": SMALL["columns"]}
    over = Overrides(shape, {}, wanted.knobs(kernel, {}), rounds=asked.get("rounds", 6))  # type: ignore[arg-type]
    planned = plan(kernel, variants, names, over)
    return start.measure(wanted, planned, kernel, variants, path, lambda *_: None, False, False)


def host_bound(made: Recording, scope: str) -> float:
    """Share of the operator's samples in this scope that the card reached before the host had enqueued all of them."""
    times = made.table("times").astype({"scope": str, "stage": str, "flags": str})
    mine = times[(times["scope"] == scope) & (times["stage"] == "operator")]
    return float(mine["flags"].str.split(",").map(lambda marks: "host-bound" in marks).mean())


def test_a_recording_has_every_scope_a_trace_and_right_outputs(root: Path, tmp_path: Path) -> None:
    hello = load_kernel(root, "hello")
    made = measured(hello, load_variants(root, hello), ["scalar"], tmp_path / "a")
    runs, times = made.table("runs").astype({"arm": str}), made.table("times").astype({"scope": str})
    assert set(runs["status"]) == {"ok"}
    assert made.table("checks")["passed"].all()
    assert set(times["scope"]) == {"event", "graph", "trace"}
    assert (times["time_ns"] > 0).all()
    assert times.loc[times["scope"] != "trace", "clock_mhz"].between(200, 3000).all()
    assert host_bound(made, "event") < 0.1
    assert host_bound(made, "graph") < 0.1
    machine = made.manifest["machine"]
    assert machine["tick_ns"] > 0
    assert machine["sms_seen"] == machine["sms"]
    lanes = made.table("lanes")
    assert (lanes["attempts"] <= lanes["capacity"]).all()
    assert (made.table("rows").groupby("run")["rows"].sum() == SMALL["rows"]).all()
    found = contrast(
        made.table("runs"), made.table("times"), made.table("checks"), made.table("counters"),
        base="vector", arm="null", stage="main", scope="graph",
    )  # fmt: skip
    assert found.verdict != "void"


@pytest.fixture(scope="module")
def caches(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """hello on a matrix that the L2 holds whole: warm and cold, with its counters where ncu is there."""
    hello, home = load_kernel(root, "hello"), tmp_path_factory.mktemp("caches")
    scopes = ["graph"] if ncu.missing() else ["graph", "ncu"]
    given = {"rows": 64, "scopes": scopes, "rounds": 12}
    variants = load_variants(root, hello)
    return {name: measured(hello, variants, ["vector"], home / name, cache=name, **given) for name in ("warm", "cold")}


def test_cold_is_slower_than_warm_where_everything_fits_the_cache(caches: dict[str, Recording]) -> None:
    medians = {}
    for cache, made in caches.items():
        times = made.table("times").astype({"scope": str, "cache": str})
        assert set(times.loc[times["scope"] == "graph", "cache"]) == {cache}
        medians[cache] = times.loc[times["scope"] == "graph", "time_ns"].median()
    assert medians["cold"] > 1.3 * medians["warm"]


@pytest.mark.skipif(bool(ncu.missing()), reason=ncu.missing())
def test_the_l2_hits_where_it_is_warm_and_misses_where_it_is_cold(caches: dict[str, Recording]) -> None:
    share, read = {}, {}
    for cache, made in caches.items():
        assert made.manifest["measuring"]["skipped"] == []
        assert set(made.table("runs")["status"]) == {"ok"}
        counted = made.table("counters").astype({"metric": str}).groupby("metric")["value"].mean()
        # A sector that missed is looked up again when it has come, and then hits: a cold share is not near zero.
        share[cache] = counted["l2_sectors_hit"] / counted["l2_sectors"]
        read[cache] = counted["dram_read_bytes"]
    matrix = 64 * SMALL["columns"] * 4
    assert share["cold"] < 0.8 < 0.98 < share["warm"]
    assert read["warm"] < 0.01 * matrix
    assert read["cold"] > 0.9 * matrix
    checks = caches["cold"].table("checks").astype({"check": str})
    assert checks.loc[checks["check"] == "cold", "passed"].all()
    assert (checks["check"] == "cold").any()


def test_another_process_on_the_card_is_noticed_and_recorded(root: Path, tmp_path: Path) -> None:
    hello = load_kernel(root, "hello")
    code = "import torch, sys; torch.zeros(1, device='cuda'); print('there', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        made = measured(hello, load_variants(root, hello), ["vector"], tmp_path / "a", scopes=["graph"])
        other.kill()
    assert made.manifest["machine"]["start_others"] == 1
    assert (made.table("conditions")["others"] == 1).all()
    times = made.table("times").astype({"scope": str, "flags": str})
    assert times.loc[times["scope"] == "graph", "flags"].str.contains("shared-gpu").all()
    assert "shared-gpu" in answers(made, "main", "graph").set_index("arm").loc["null", "flags"]


def test_samples_that_waited_for_the_host_are_flagged_and_those_of_a_graph_are_not(root: Path, tmp_path: Path) -> None:
    """Planted: behind its launch the host sleeps 1 ms, of which a graph knows nothing."""
    home = tmp_path / "kernels" / "hello"
    shutil.copytree(root / "kernels" / "hello", home, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(root / "variants", tmp_path / "variants")
    text, step = (home / "gpu.py").read_text(), "kernel.THREADS, 0, args),)"
    assert step in text
    text = text.replace(step, f'{step[:-1]} Call("pause", lambda: time.sleep(1e-3)))')
    (home / "gpu.py").write_text(
        text.replace("import numpy", "import time\n\nimport numpy", 1).replace("TRACE, Launch", "TRACE, Call, Launch")
    )
    hello = load_kernel(tmp_path, "hello")
    made = measured(hello, load_variants(tmp_path, hello), ["vector"], tmp_path / "a")
    assert set(made.table("runs")["status"]) == {"ok"}
    assert host_bound(made, "event") > 0.9
    assert host_bound(made, "graph") < 0.1
    times = made.table("times").astype({"scope": str, "stage": str})
    medians = times[times["stage"] == "operator"].groupby("scope")["time_ns"].median()
    assert medians["event"] > 1e6 > 5 * medians["graph"]
    found = answers(made, "operator").set_index(["scope", "arm"])
    null = found.loc[("event/warm/as-found", "null")]
    assert null["verdict"] == "undecided"
    assert "at best undecided: host-bound: " in null["reasons"]
    assert "host-bound" not in found.loc[("graph/warm/as-found", "null"), "flags"]


@pytest.fixture
def faulty(root: Path, tmp_path: Path) -> tuple[Kernel, dict[str, Variant]]:
    """hello with a flag that plants an illegal address, an endless loop or a wrong sum, in a root of its own."""
    home = tmp_path / "kernels" / "hello"
    shutil.copytree(root / "kernels" / "hello", home, ignore=shutil.ignore_patterns("__pycache__"))
    source, declared = home / "hello.cu", home / "kernel.py"
    text = source.read_text()
    opening = text.index("{", text.index("attr::Trace trace)")) + 1
    entry = text.index('extern "C" __global__')
    text, opening = text[:entry] + COUNTER + text[entry:], opening + len(COUNTER)
    source.write_text(text[:opening] + "".join(f"\n  {line}" for line in FAULTY.values()) + text[opening:])
    trace = '"TRACE": Flag('
    assert trace in declared.read_text()
    fault = '"FAULT": Flag(0, "planted", choices=(0, 1, 2, 3, 4)),'
    declared.write_text(declared.read_text().replace(trace, f"{fault}\n        {trace}", 1))
    (tmp_path / "variants").mkdir()
    (tmp_path / "variants" / "hello.toml").write_text(
        '[vector]\nasks = "?"\n'
        '[address]\nbase = "vector"\nasks = "?"\nflags = { FAULT = 1 }\n'
        '[hang]\nbase = "vector"\nasks = "?"\nflags = { FAULT = 2 }\n'
        '[wrong]\nbase = "vector"\nasks = "?"\nflags = { FAULT = 3 }\n'
        '[tires]\nbase = "vector"\nasks = "?"\nflags = { FAULT = 4 }\n'
    )
    kernel = load_kernel(tmp_path, "hello")
    return kernel, load_variants(tmp_path, kernel)


def test_an_illegal_address_and_a_hang_are_failed_rows_and_the_rest_runs(
    faulty: tuple[Kernel, dict[str, Variant]], tmp_path: Path
) -> None:
    made = measured(*faulty, ["address", "hang"], tmp_path / "a", timeout_s=6.0)
    runs = made.table("runs").astype({"arm": str, "status": str})
    failed = runs[runs["status"] == "failed"].set_index("arm")["reason"]
    assert {"address", "hang"} <= set(failed.index)
    assert "illegal memory access" in failed["address"]
    assert "hang: no progress" in failed["hang"]
    assert set(runs.loc[runs["arm"].isin(["vector", "null"]), "status"]) == {"ok"}


def test_wrong_outputs_before_and_after_timing_void_their_arms_only(
    faulty: tuple[Kernel, dict[str, Variant]], tmp_path: Path
) -> None:
    made = measured(*faulty, ["wrong", "tires"], tmp_path / "a")
    runs = made.table("runs").astype({"arm": str, "status": str})
    assert set(runs.loc[runs["arm"].isin(["vector", "null"]), "status"]) == {"ok"}
    wrong = runs[runs["arm"] == "wrong"]
    assert set(wrong["status"]) == {"skipped"}
    assert wrong["reason"].str.contains("wrong output on fresh inputs").all()
    assert "failed" in set(runs.loc[runs["arm"] == "tires", "status"])
    found = answers(made, "main", "graph").set_index("arm")["verdict"]
    assert found["wrong"] == found["tires"] == "void"
    assert found["null"] != "void"


def test_equal_arms_differ_by_little_and_ceilings_are_those_of_the_card(root: Path, tmp_path: Path) -> None:
    hello = load_kernel(root, "hello")
    made = measured(hello, load_variants(root, hello), ["vector"], tmp_path / "a", rows=2048)
    counters = made.table("counters")
    copied = counters[counters["metric"] == "copy_byte_per_s"]
    assert (copied["stage"] == "ceiling").all()
    assert copied["value"].between(1e12, made.manifest["machine"]["peak_memory_bytes_per_s"]).all()
    found = answers(made, "operator", "graph").set_index("arm").loc["null"]
    assert abs(found["time_ratio"] - 1) < 0.01
