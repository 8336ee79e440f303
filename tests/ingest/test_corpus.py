"""Other people's files: every one reads to the values that were taken from it independently, or is refused.

The folder is named by ATTR_CORPUS, or lies beside the repository; without it these tests skip.
"""

import csv
import math
import os
from decimal import Decimal
from pathlib import Path

import pytest

from attribution.errors import DataError
from attribution.ingest import counters, timeline
from attribution.ingest.ingested import Ingested
from attribution.ingest.read import read
from attribution.tables import conform

CORPUS = Path(os.environ.get("ATTR_CORPUS") or Path(__file__).parents[2] / ".." / "shared" / "corpus").resolve()
HERE = CORPUS.is_dir()
pytestmark = pytest.mark.skipif(not HERE, reason="the corpus of other people's files is not on this machine")
REFUSED = {
    "silu-pytorch-ncu-report.txt": "--csv",
    "sumMatrix_Occp.csv": "table made from",
    "ikp_gemm_gemm_trace_summary.json": "without a list `traceEvents`",
}


def _rows(name: str) -> list[dict[str, str]]:
    if not HERE:
        return []
    with (CORPUS / name).open() as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def _files() -> list[str]:
    return [row["file"] for row in _rows("INDEX.tsv")]


def _read(name: str, **options: object) -> Ingested:
    return read(next(CORPUS.glob(f"*/{name}")), **options)


def _ns(us: str) -> int:
    value = Decimal(us) * 1000
    assert value == int(value)
    return int(value)


@pytest.mark.parametrize("file", _files())
def test_every_file_reads_or_is_refused(file: str) -> None:
    name = file.split("/")[-1]
    if name in REFUSED:
        with pytest.raises(DataError, match=REFUSED[name]):
            read(CORPUS / file)
        return
    for table, frame in read(CORPUS / file).tables.items():
        assert conform(table, frame).dtypes.equals(frame.dtypes)


def _ncu_rows() -> dict[str, list[dict[str, str]]]:
    out: dict[str, list[dict[str, str]]] = {}
    for row in _rows("truth_ncu.tsv"):
        out.setdefault(row["file"], []).append(row)
    return out


@pytest.mark.parametrize(("name", "truth"), _ncu_rows().items(), ids=list(_ncu_rows()))
def test_reports(name: str, truth: list[dict[str, str]]) -> None:
    one = _read(name)
    launches, metrics = one.table("launches"), one.table("metrics")
    assert len(launches) == len(truth)
    rollups = metrics[(metrics["instance"] == "").to_numpy()]
    for launch, row in enumerate(truth):
        assert launches["kernel_name"][launch] == row["name"]
        mine = rollups[(rollups["launch"] == launch).to_numpy()].set_index("metric")
        assert len(mine) == int(row["n_metrics"])
        assert _sums(one, launch) == (row["sum_over_pc(inst_executed)"], row["sum_over_opcode"], row["top_opcode"])
        assert one.table("samples").query("launch == @launch")["metric"].nunique() == int(row["n_pmsampling"])
        for metric in list(row)[5:-4]:
            if row[metric] == "":
                assert metric not in mine.index or mine.loc[metric, "state"] == "absent"
            else:
                assert mine.loc[metric, "value"] == float(row[metric])
                assert mine.loc[metric, "state"] == ("value" if float(row[metric]) else "zero")
        time = row["gpu__time_duration.sum"]
        assert math.isnan(launches["time_ns"][launch]) if time == "" else launches["time_ns"][launch] == float(time)


def _sums(one: Ingested, launch: int) -> tuple[str, str, str]:
    """Instructions by PC, by opcode, and the largest opcode, written as the truth file writes them."""
    pcs, opcodes = one.table("pcs").query("launch == @launch"), one.table("opcodes").query("launch == @launch")
    by_pc = pcs[(pcs["metric"] == "inst_executed").to_numpy()]["value"]
    by_opcode = opcodes[(opcodes["metric"] == "sass__inst_executed_per_opcode").to_numpy()]
    if by_opcode.empty:
        return (str(int(by_pc.sum())) if len(by_pc) else "", "", "")
    top = by_opcode.loc[by_opcode["value"].idxmax()]
    return str(int(by_pc.sum())), str(float(by_opcode["value"].sum())), f"{top['opcode']}={int(top['value'])}"


@pytest.mark.parametrize(
    "name", ["a100_silu.ncu-rep", "h100_rmsnorm_v1.ncu-rep", "t4_report.ncu-rep", "nvtraining_manual_nvtx.ncu-rep"]
)
def test_instructions_add_up(name: str) -> None:
    one = _read(name)
    metrics, opcodes, pcs = (one.table(t) for t in ("metrics", "opcodes", "pcs"))
    for launch in one.table("launches")["launch"]:
        total = metrics[((metrics["metric"] == "smsp__inst_executed.sum") & (metrics["launch"] == launch)).to_numpy()][
            "value"
        ]
        by_opcode = opcodes[
            ((opcodes["metric"] == "sass__inst_executed_per_opcode") & (opcodes["launch"] == launch)).to_numpy()
        ]
        by_pc = pcs[((pcs["metric"] == "inst_executed") & (pcs["launch"] == launch)).to_numpy()]
        assert by_opcode["value"].sum() == by_pc["value"].sum()
        assert len(total) == 0 or total.iloc[0] == by_pc["value"].sum()


def _opcode(one: Ingested, opcode: str, launch: int = 0) -> float:
    rows = one.table("opcodes")
    rows = rows[((rows["metric"] == "sass__inst_executed_per_opcode") & (rows["launch"] == launch)).to_numpy()]
    return float(rows[(rows["opcode"] == opcode).to_numpy()]["value"].iloc[0])


def _rollup(one: Ingested, metric: str, launch: int = 0) -> float:
    return float(counters.pick(one.table("metrics"), [metric], launch)["value"].iloc[0])


def _stalls(one: Ingested) -> dict[str, float]:
    from attribution.show.files import stall_shares

    rows = stall_shares(one.tables)
    return dict(zip(rows["name"], rows["count"], strict=True))


def test_report_facts() -> None:
    t4 = _read("t4_report.ncu-rep")
    assert _opcode(t4, "IMAD") == 189504
    assert _rollup(t4, "smsp__inst_executed.sum") == 632520
    assert _rollup(t4, "dram__bytes_read.sum") == 9612288
    assert _stalls(t4)["long_scoreboard"] == 866
    assert sum(_stalls(t4).values()) == 1143
    h100 = _read("h100_rmsnorm_v1.ncu-rep")
    assert (_stalls(h100)["long_scoreboard"], sum(_stalls(h100).values())) == (26358, 31903)
    samples = h100.table("samples")
    ctas = samples[((samples["metric"] == "pmsampling:sm__ctas_launched.sum") & (samples["launch"] == 0)).to_numpy()]
    assert (len(ctas), ctas["time_ns"].max()) == (554, 829_504)
    a100 = _read("a100_silu.ncu-rep")
    assert [_opcode(a100, "FFMA", k) for k in range(3)] == [20971520] * 3
    assert _rollup(a100, "pmsampling:sm__ctas_launched.sum") == 8192
    assert a100.table("samples").query("launch == 0")[["pass_group", "origin_ns"]].drop_duplicates().shape[0] == 4
    rtx = _read("rtx2070_2019.nsight-cuprof-report")
    assert [_rollup(rtx, "gpu__cycles_elapsed.avg", k) for k in (0, 1)] == [134856864, 242174857]
    shared = rtx.table("metrics").query("metric == 'launch__occupancy_limit_shared_mem' and instance == ''")
    assert list(shared["state"]) == ["absent", "value"] * 4
    assert set(shared["value"].dropna()) == {8.0}
    assert set(shared["text"]) == {"nan", ""}


def test_nvtx_and_source_of_a_report() -> None:
    one = _read("nvtraining_manual_nvtx.ncu-rep")
    assert list(one.table("launches")["nvtx"]) == [f"run_test > {n}" for n in ("init_data", "daxpy", "check_results")]
    first = one.table("pcs").query("launch == 0 and offset_bytes == 0").iloc[0]
    assert (first["source_file"].split("/")[-1], first["source_line"]) == ("manual_nvtx.cu", 54)


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("gemm_naive.csv", [9_589_248]),
        ("ncu_readWriteOffset_ca.csv", [203264, 213152, 227712]),
        ("nsightful_copy_blocked.csv", [21_058_944]),
        ("superbench_cublaslt_ncu.log", [406240]),
    ],
)
def test_csv_times(name: str, times: list[int]) -> None:
    assert list(_read(name).table("launches")["time_ns"]) == times


def test_csv_facts() -> None:
    gemm = _read("gemm_naive.csv").table("metrics")
    assert gemm[gemm["metric"].astype(str).str.contains("hit_rate").to_numpy()]["value"].iloc[0] == 100.39
    cached = _read("ncu_readWriteOffset_cg.csv").table("metrics")
    assert cached[(cached["state"] == "absent").to_numpy()].groupby("launch").size().to_dict() == dict.fromkeys(
        range(6), 1
    )
    reduce = _read("ncu_reduceInteger.csv")
    assert reduce.table("metrics").groupby("launch").size().to_dict() == dict.fromkeys(range(9), 19)
    assert list(reduce.table("launches")["time_ns"])[::8] == [814048, 123744]
    copy = _read("nsightful_copy_blocked.csv")
    twice = copy.table("metrics").query("metric == 'Memory Throughput'")
    assert dict(zip(twice["unit"], twice["value"], strict=True)) == {"%": 61.84, "byte/s": 196_456_177_859.63}
    assert (len(copy.table("metrics")), len(copy.table("rules"))) == (72, 11)
    bench = _read("superbench_cublaslt_ncu.log")
    assert (len(bench.table("metrics")), len(bench.table("rules"))) == (50, 8)
    assert bench.table("metrics").query("metric == 'Grid Size'")["value"].iloc[0] == 288


def test_csv_and_report_agree() -> None:
    """The same program under the same profiler, as report and as CSV: names, geometry and units are the same words."""
    report, text = _read("rtx4090_readWriteOffset_ca.ncu-rep"), _read("ncu_readWriteOffset_ca.csv")
    assert report.table("launches")["kernel_name"][0] == text.table("launches")["kernel_name"][0] == "readOffset"
    for column in ("grid", "block"):
        assert report.table("launches")[column][0] == text.table("launches")[column][0]
    units = [
        t.table("metrics").query("instance == ''").drop_duplicates("metric").set_index("metric")["unit"]
        for t in (report, text)
    ]
    shared = sorted(set(units[0].index) & set(units[1].index))
    assert "gpu__time_duration.sum" in shared
    assert [str(units[0][m]) for m in shared] == [str(units[1][m]) for m in shared]


@pytest.mark.parametrize("row", _rows("truth_kineto.tsv"), ids=lambda r: r["file"])
def test_kineto(row: dict[str, str]) -> None:
    one = _read(row["file"])
    kernels, copies = one.table("kernels"), one.table("copies")
    begin, end = kernels["begin_ns"].to_numpy(), kernels["end_ns"].to_numpy()
    shared = kernels[(kernels["correlation"] >= 0).to_numpy()].groupby("correlation").size()
    assert len(kernels) == int(row["kernels"])
    assert kernels["dur_ns"].sum() == _ns(row["kernel_sum_us"])
    assert timeline.union_ns(begin, end) == _ns(row["kernel_union_us"])
    assert kernels["kernel_name"].nunique() == int(row["distinct_names"])
    assert [(copies["kind"] == k).sum() for k in ("memcpy", "memset")] == [int(row["memcpy"]), int(row["memset"])]
    assert (~kernels["launched"]).sum() == int(row["kernels_without_launch_event"])
    assert (int(shared.max()) if len(shared) else 0) == int(row["max_kernels_per_correlation"])
    assert timeline.same_stream_overlaps(kernels)[0] == int(row["same_track_overlaps"])
    assert set(kernels["flags"]) <= {""}  # dependent launch is no impossible duration


def _annotations() -> dict[str, list[dict[str, str]]]:
    out: dict[str, list[dict[str, str]]] = {}
    for row in _rows("truth_kineto_annotations.tsv"):
        out.setdefault(row["file"], []).append(row)
    return out


@pytest.mark.parametrize(("name", "truth"), _annotations().items(), ids=list(_annotations()))
def test_kineto_annotations(name: str, truth: list[dict[str, str]]) -> None:
    one = _read(name)
    times = one.table("range_times").set_index(["range_name", "occurrence", "rule"])
    ranges = one.table("ranges").set_index(["range_name", "occurrence"])
    for row in truth:
        key = (row["annotation"], int(row["occurrence"]))
        assert ranges.loc[key, "dur_ns"] == _ns(row["cpu_dur_us"])
        for rule, suffix in (("launched_by_thread", "same_thread"), ("launched_by_any_thread", "any_thread")):
            seen = times.loc[(*key, rule)]
            assert (seen["kernels"], seen["time_ns"]) == (
                int(row[f"kernels_launched_{suffix}"]),
                _ns(row[f"sum_us_{suffix}"]),
            )


def test_nanoseconds_that_doubles_lose() -> None:
    """In this file a double of microseconds moves 68396 of 68692 stamps by more than 0.5 ns."""
    begin = _read("hta_ns_resolution_rank-0.pt.trace.json.gz").table("slices")["begin_ns"].to_numpy()
    import numpy as np

    through_double = (begin / 1000).astype(np.float64)
    lost = sum(
        abs(Decimal(float(us)) * 1000 - int(ns)) > Decimal("0.5") for us, ns in zip(through_double, begin, strict=True)
    )
    assert lost > 0.99 * len(begin)
    assert (begin % 1000 != 0).any()


def test_nsys_facts() -> None:
    simple = _read("streamSimple.sqlite").table("kernels")
    assert (len(simple), simple["dur_ns"].sum(), simple["stream"].nunique()) == (16, 66721, 4)
    assert "kernels" not in _read("memTransfer.sqlite").tables
    one = _read("nsightful_power_iteration__baseline.sqlite")
    assert (len(one.table("kernels")), one.table("kernels")["dur_ns"].sum()) == (3689, 1131742684)
    times = one.table("range_times").set_index(["range_name", "occurrence", "rule"])[["kernels", "time_ns"]]
    assert tuple(times.loc[("Loop", 0, "launched_by_thread")]) == (3677, 1129090520)
    assert tuple(times.loc[("Step 0 to 10", 0, "launched_by_thread")]) == (85, 25545949)
    assert tuple(times.loc[("Step 0 to 10", 0, "running_in")]) == (22, 2584613)


def test_in_kernel_trace_in_nanoseconds() -> None:
    slices = _read("ikp_gemm_gemm_trace.json", time_unit="ns").table("slices")
    total = slices[(slices["name"] == "total").to_numpy()]["dur_ns"]
    assert (len(total), total.mean(), total.min(), total.max()) == (32, 256824, 256576, 257056)
