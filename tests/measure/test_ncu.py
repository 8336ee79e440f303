"""ncu's command line, which launch is which, and a report read without a GPU: cases 15 to 17."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attribution.errors import DataError, MeasureError
from attribution.measure import ncu, report
from attribution.measure.ncu import Expected, Seen, match

GRID = (132, 1, 1)
REPORT = Path(__file__).parents[2] / "traces" / "hello-h200.ncu-rep"


def test_the_command_line_states_every_policy() -> None:
    line = ncu.command(["python", "-m", "worker"], Path("r.ncu-rep"), ["a.sum", "b.sum", "a.sum"])
    text = " ".join(line)
    for part in (
        "--replay-mode kernel",
        "--cache-control none",
        "--clock-control none",
        "--set none",
        "--metrics a.sum,b.sum",
        "--nvtx-include attr/",
    ):
        assert part in text
    assert line[-3:] == ["python", "-m", "worker"]
    with pytest.raises(MeasureError, match="no metrics"):
        ncu.command(["x"], Path("r"), [])


def test_the_tool_says_its_version_or_it_is_unknown(tmp_path: Path) -> None:
    tool = tmp_path / "ncu"
    tool.write_text("#!/bin/sh\necho 'NVIDIA (R) Nsight Compute'; echo 'Version 2025.3.1.0 (build 36400806)'\n")
    tool.chmod(0o755)
    assert ncu.version(str(tool)) == "2025.3.1.0"
    tool.write_text("#!/bin/sh\necho hello\n")
    assert ncu.version(str(tool)) == ncu.version(str(tmp_path / "none")) == "unknown"


def test_what_ncu_needs_and_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ncu.missing().startswith("ncu is not on the PATH")
    (tmp_path / "ncu").write_text("#!/bin/sh\n")
    (tmp_path / "ncu").chmod(0o755)
    for there in (True, False):
        monkeypatch.setattr(ncu.importlib.util, "find_spec", lambda name, there=there: there or None)
        assert ncu.missing() == "" if there else "package nvtx" in ncu.missing()


def test_missing_permission_says_what_to_do() -> None:
    log = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    assert "NVreg_RestrictProfilingToAdminUsers=0" in ncu.explain(log)
    assert "not zero" in ncu.explain("==WARNING== No kernels were profiled.")
    assert "Failed to initialize" in ncu.explain("==ERROR== Failed to initialize the profiler: LibraryNotLoaded")
    assert "did not say why" in ncu.explain("")


def want(name: str, range_name: str, ordinal: int = 0, grid: Any = GRID) -> Expected:
    return Expected(range_name, name, grid, ordinal, 0, "main")


def seen(name: str, *ranges: str, grid: Any = GRID) -> Seen:
    return Seen(("attr", *ranges), name, grid)


def test_a_name_that_begins_another_is_one_match() -> None:
    """Asked for `topk_kernel` among `topk_kernel` and `topk_kernel_repair`."""
    launches = [seen("topk_kernel", "r0"), seen("topk_kernel_repair", "r1")]
    pairs = match([want("topk_kernel", "r0"), want("topk_kernel_repair", "r1")], launches)
    assert [got.kernel_name for _, got in pairs] == ["topk_kernel", "topk_kernel_repair"]
    with pytest.raises(DataError, match="expected topk_kernel$"):
        match([want("topk_kernel", "r1"), want("topk_kernel", "r0")], launches)


def test_two_ranges_over_one_launch_abstain() -> None:
    with pytest.raises(DataError, match="two of our ranges: a and b"):
        match([want("k", "a"), want("k", "b")], [seen("k", "a", "b")])


def test_lost_extra_and_unnamed_launches_are_errors() -> None:
    with pytest.raises(DataError, match="launch 0 is not in the report"):
        match([want("k", "a")], [])
    with pytest.raises(DataError, match="1 launches were made and 2 seen"):
        match([want("k", "a")], [seen("k", "a"), seen("k", "a")])
    with pytest.raises(DataError, match="in no range"):
        match([want("k", "a")], [seen("k", "a"), seen("other")])
    with pytest.raises(DataError, match="grid"):
        match([want("k", "a")], [seen("k", "a", grid=(64, 1, 1))])


def test_launches_of_others_outside_our_range_are_nobody_s_business() -> None:
    pairs = match([want("k", "a")], [Seen((), "fill", GRID), seen("k", "a")])
    assert len(pairs) == 1


def test_a_range_name_is_one_step_s_whatever_stages_are_called() -> None:
    assert len({ncu.range_name(a, s, "main") for a in range(3) for s in range(12)}) == 36


def arm(name: str, number: int, ranges: str, grid: int = 264) -> dict[str, Any]:
    step = {"range": ranges, "stage": "main", "kernel_name": "hello", "grid": [grid, 1, 1]}
    facts = {"question": "vector", "arm": name, "build": "b", "inputs": "i"}
    return {**facts, "steps": [step], "checks": [["sums", True, "0 differ"]]}


RANGES = ["vector", "scalar"]


@pytest.fixture(scope="module")
def launches() -> list[Seen]:
    pytest.importorskip("ncu_report")
    return report.read(REPORT)


def test_a_real_report_gives_counters_that_obey_arithmetic(launches: list[Seen]) -> None:
    """1024 rows of 65,536 floats: the two arms load the same bytes with 1 and 4 times as many instructions."""
    arms = [arm("vector", 0, RANGES[0]), arm("scalar", 1, RANGES[1])]
    metrics = {**ncu.METRICS, "not_collected": "sm__no_such_metric.sum"}
    found = {one["arm"]: tables for one, _, tables in report.frames(arms, launches, metrics, 100)}
    loads = {}
    for name, tables in found.items():
        counters = tables["counters"]
        assert set(counters["kernel_name"]) == {"hello"}
        assert set(counters["scope"]) == {"ncu"}
        opcodes = counters[counters["metric"] == "opcodes"]
        rollup = opcodes.loc[opcodes["instance"] == "", "value"].iloc[0]
        each = opcodes[opcodes["instance"] != ""].set_index("instance")["value"]
        assert each.sum() == rollup
        loads[name] = each["LDG"]
        absent = counters[counters["metric"] == "not_collected"]
        assert absent["state"].tolist() == ["absent"]
        assert math.isnan(absent["value"].iloc[0])
        assert (tables["times"]["time_ns"] > 0).all()
    floats = 1024 * 65536
    assert loads["scalar"] * 32 == floats
    assert loads["vector"] * 32 * 4 == floats


class Metric:
    """One value, as ncu_report gives it."""

    def __init__(self, value: float) -> None:
        self.value, self.unit = lambda: value, lambda: "byte"
        self.num_instances = lambda: 0


def test_a_value_keeps_the_pass_that_it_was_counted_in_where_the_report_tells(launches: list[Seen]) -> None:
    (_, _, tables), *_ = report.frames(
        [arm("vector", 0, RANGES[0]), arm("scalar", 1, RANGES[1])], launches, ncu.METRICS, 0
    )
    assert tables["counters"].set_index("metric").loc["passes", "value"] == 21
    assert set(tables["counters"]["pass_group"]) == {-1}
    want = Expected("r", "k", (1, 1, 1), 0, 0, "main")
    for passes, group in ((1.0, 0), (2.0, -1)):
        there = {ncu.PASSES: Metric(passes), "dram__bytes_read.sum": Metric(4.0)}
        seen = Seen(("r",), "k", (1, 1, 1), SimpleNamespace(metric_by_name=there.get))
        rows = list(report.counter_rows(want, seen, {"read": "dram__bytes_read.sum", "lost": "no_such"}, 7))
        head = ("main", "k", 7)
        assert rows[0] == (*head, "passes", "", "1", "value", passes, group)
        assert rows[1] == (*head, "read", "", "byte", "value", 4.0, group)
        assert rows[2][6] == "absent"


def test_an_arm_that_was_not_launched_as_it_says_is_refused(launches: list[Seen]) -> None:
    wrong_grid = [arm("vector", 0, RANGES[0], grid=132), arm("scalar", 1, RANGES[1])]
    with pytest.raises(DataError, match="grid"):
        list(report.frames(wrong_grid, launches, ncu.METRICS, 0))
    with pytest.raises(DataError, match="no range"):
        list(report.frames([arm("vector", 0, RANGES[0])], launches, ncu.METRICS, 0))


def test_a_missing_report_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="ncu made no report"):
        report.read(tmp_path / "none.ncu-rep")


def test_one_opcode_is_a_metric_of_its_own_and_one_that_never_ran_is_zero(launches: list[Seen]) -> None:
    opcode = "sass__inst_executed_per_opcode"
    metrics = {"all": opcode, "loads": f"{opcode}[LDG]", "matrix": f"{opcode}[QGMMA]", "lost": "sm__no_such[LDG]"}
    one = next(iter(report.frames([arm("vector", 0, RANGES[0]), arm("scalar", 1, RANGES[1])], launches, metrics, 0)))
    counters = one[2]["counters"].set_index(["metric", "instance"])
    assert counters.loc[("loads", ""), "value"] == counters.loc[("all", "LDG"), "value"] > 0
    assert counters.loc[("matrix", ""), ["state", "value"]].tolist() == ["zero", 0.0]
    assert counters.loc[("lost", ""), "state"] == "absent"
    assert ncu.command(["w"], Path("r"), list(metrics.values()))[-5] == f"{opcode},sm__no_such"
