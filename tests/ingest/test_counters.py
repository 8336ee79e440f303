"""Questions to counters: absent is not zero, ratios need one pass, a launch is named exactly, scopes do not mix."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attribution.errors import DataError, InputError
from attribution.ingest import counters, ncu_csv
from attribution.ingest.names import kernel_function, matches

DATA = Path(__file__).parents[1] / "data" / "ingest"


def _metrics(rows: dict[str, tuple[float, str, int]]) -> pd.DataFrame:
    return pd.DataFrame(
        [(0, name, "", "%", state, value, group) for name, (value, state, group) in rows.items()],
        columns=["launch", "metric", "instance", "unit", "state", "value", "pass_group"],
    )


def test_absent_is_not_zero() -> None:
    have = _metrics({"L2": (72, "value", -1)})
    answer = counters.largest(counters.pick(have, ["L2", "L1", "DRAM", "SM"], 0))
    assert (answer.verdict, bool(answer)) == ("incomplete, 3 of 4 absent", False)
    whole = _metrics({"L2": (72, "value", -1), "L1": (0, "zero", -1), "DRAM": (80, "value", -1)})
    assert counters.largest(counters.pick(whole, ["L2", "L1", "DRAM"], 0)).verdict == "DRAM"
    assert "1 of 1 absent" in counters.largest(counters.pick(have, ["L2"], 5)).verdict


def test_absent_in_a_file_stays_absent() -> None:
    metrics = ncu_csv.load(DATA / "terminal.csv").table("metrics")
    picked = counters.pick(metrics, ["lts__t_sectors.sum", "never_asked", "dram__bytes_read.sum"], 0)
    assert list(picked["state"]) == ["absent", "absent", "value"]


def test_all_zeros_have_no_deviation() -> None:
    for values in ([0, 0, 0], [-1, 1], [], [1.0, float("nan")]):
        assert counters.relative_range(values).verdict.startswith("undefined")
    assert counters.relative_range([9, 10, 11]).value == pytest.approx(0.2)


def test_ratio_across_passes() -> None:
    picked = counters.pick(
        _metrics({"a": (207, "value", 3), "b": (100, "value", 1), "c": (0, "zero", 1)}), list("abcd"), 0
    )
    answer = counters.ratio(picked, "a", "b", same_work_in_every_pass=False)
    assert (answer.verdict, bool(answer)) == ("inconsistent passes: 3 and 1", False)
    assert counters.ratio(picked, "a", "b", same_work_in_every_pass=True).value == 2.07
    assert counters.ratio(picked, "b", "c", same_work_in_every_pass=True).verdict == "undefined: c is zero"
    assert counters.ratio(picked, "b", "d", same_work_in_every_pass=True).verdict == "d is absent"
    unknown = counters.pick(_metrics({"a": (2, "value", -1), "b": (1, "value", -1)}), ["a", "b"], 0)
    assert not counters.ratio(unknown, "a", "b", same_work_in_every_pass=False)


def test_ratio_over_instances() -> None:
    assert counters.ratio_over_instances([90, 10], [100, 1000]).value == pytest.approx(100 / 1100)
    assert counters.ratio_over_instances([1, 1], [1, 3]).value == 0.5
    assert counters.ratio_over_instances([1], [0]).verdict.startswith("undefined")
    with pytest.raises(InputError):
        counters.ratio_over_instances([1], [1, 2])


def test_scopes_are_never_subtracted() -> None:
    def at(replay: str, cache: str, time: float) -> dict[str, object]:
        return {"file": replay, "replay": replay, "cache_control": cache, "clock_control": "base", "time_ns": time}

    four = [at("kernel", "all", 1.00), at("kernel", "none", 0.80), at("application", "all", 0.90)]
    four.append({"instrument": "timeline", "time_ns": 0.91, "file": "t"})
    for one in four:
        for other in four:
            if one is not other:
                with pytest.raises(DataError, match="two scopes"):
                    counters.difference_ns(one, other)
    assert counters.difference_ns(at("kernel", "all", 3.0), at("kernel", "all", 1.0)) == 2.0
    unknown = [{"file": f, "time_ns": 1.0} for f in "ab"]
    with pytest.raises(DataError, match="not recorded"):
        counters.difference_ns(*unknown)


def test_which_launch_it_was() -> None:
    launches = ncu_csv.load(DATA / "details.csv").table("launches")
    assert counters.find_launch(launches, "topk_kernel")["launch"] == 0
    assert counters.find_launch(launches, "topk_kernel_repair")["launch"] == 1
    assert counters.find_launch(launches, "void ns::topk_kernel<int>(Args<1, 2>)")["launch"] == 0
    with pytest.raises(DataError, match="0 launches match"):
        counters.find_launch(launches, "topk")
    with pytest.raises(DataError, match="2 launches match"):
        counters.find_launch(ncu_csv.load(DATA / "terminal.csv").table("launches"), "k")


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("k<(int)2>(float *, int)", "k"),
        ("void ns::topk_kernel<int, Args<1, 2>>(Args<1, 2>)", "topk_kernel"),
        ("unnamed>::gemm(const float *)", "gemm"),
        ("void (anonymous namespace)::f<4>(int)", "f"),
        ("copy[v1,cw5](Array<long long, 1>, long long)", "copy"),
        ("plain", "plain"),
        ("<>", "<>"),
    ],
)  # fmt: skip
def test_names(signature: str, name: str) -> None:
    assert kernel_function(signature) == name
    assert matches(signature, name)
    assert matches(signature, signature)
    assert not matches(signature, name[:-1] or "x")


def test_answer_is_false_without_a_number() -> None:
    assert not counters.Answer(np.nan, "why")
    assert counters.Answer(0.0, "")
