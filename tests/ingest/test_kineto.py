"""Chrome traces: integer nanoseconds, every slice, kernels by correlation."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.errors import DataError, InputError
from attribution.ingest import kineto
from attribution.ingest.decimal_ns import to_ns
from attribution.tables import conform

DATA = Path(__file__).parents[1] / "data" / "ingest"


def trace(tmp_path: Path, events: object, name: str = "t.json") -> Path:
    path = tmp_path / name
    path.write_text(events if isinstance(events, str) else json.dumps(events))
    return path


def test_small_trace() -> None:
    one = kineto.load(DATA / "trace.json")
    kernels = one.table("kernels")
    assert list(kernels["dur_ns"]) == [200, 1003]
    assert list(kernels["begin_ns"]) == [1712195495505600700, 1712195495505700200]
    assert list(kernels["launch_begin_ns"]) == [1712195495505550001, 1712195495505560000]
    assert one.table("copies")["size_bytes"][0] == 4096
    assert one.table("files")["gpu"][0] == "Chip of this test"
    times = one.table("range_times").set_index("rule")
    assert list(times["time_ns"][["launched_by_thread", "launched_by_any_thread", "running_in"]]) == [200, 1203, 200]
    for table, frame in one.tables.items():
        assert conform(table, frame).dtypes.equals(frame.dtypes)


def test_gzip_gives_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "trace.json"  # the name says nothing
    packed.write_bytes(gzip.compress((DATA / "trace.json").read_bytes()))
    assert (
        kineto.load(packed)
        .table("slices")["begin_ns"]
        .equals(kineto.load(DATA / "trace.json").table("slices")["begin_ns"])
    )


def test_integer_time(tmp_path: Path) -> None:
    rows = [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 100.7, "dur": 0.2}]
    rows.append({"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 0.001, "dur": 1e-3})
    slices = kineto.load(trace(tmp_path, rows)).table("slices")
    assert list(slices["dur_ns"]) == [200, 1]
    assert list(slices["begin_ns"]) == [100_700, 1]


def test_overlapping_slices_survive(tmp_path: Path) -> None:
    rows = [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": t, "dur": d} for t, d in ((0, 10), (5, 8), (5, 8))]
    path = trace(tmp_path, {"traceEvents": rows})
    assert len(kineto.load(path).table("slices")) == 3
    kineto.check_counts(path, 3)
    with pytest.raises(DataError, match="4 slices were written and 3 are in it"):
        kineto.check_counts(path, 4)


def test_begin_end_pairs(tmp_path: Path) -> None:
    def at(ph: str, ts: float, name: str = "", tid: int = 1) -> dict[str, object]:
        return {"ph": ph, "name": name, "pid": "SM", "tid": tid, "ts": ts}

    rows = [
        at("B", 0, "out"),
        at("B", 2, "in"),
        at("E", 3.5),
        at("B", 1, "other", 2),
        at("E", 9),
        at("E", 20),
        at("B", 30, "open"),
    ]
    one = kineto.load(trace(tmp_path, rows))
    slices = one.table("slices").set_index("name")
    assert dict(slices["dur_ns"]) == {"in": 1500, "out": 9000}
    assert slices.loc["in", "lane"] == "SM/1"
    assert [n.count for n in one.notes if "begin" in n.text] == [2, 1]  # two begins without end, one end without begin


def test_dropped_is_said(tmp_path: Path) -> None:
    rows = ['{"ph":"X","ts":NaN,"dur":1}', '{"ph":"X","dur":1}', '{"ph":"X","ts":"soon","dur":1}', '{"ph":"X","ts":1,"dur":null}',
            '{"ph":"X","ts":1.0005,"dur":2}', '{"ph":"X","ts":5,"dur":-1}', "7", '{"ph":"X","ts":1e99,"dur":1}']  # fmt: skip
    one = kineto.load(trace(tmp_path, "[" + ",".join(rows) + "]"))
    assert len(one.table("slices")) == 2
    said = {note.text: note.count for note in one.notes}
    assert said["5 slices have no usable ts or dur and were dropped"] == 5
    assert said["1 entries that are no objects: no intervals, passed over"] == 1
    assert said["1 times had digits below 1 ns: rounded to even"] == 1
    assert said["1 slices end before they begin; kept as they are"] == 1


def test_other_unit_must_be_stated(tmp_path: Path) -> None:
    path = trace(tmp_path, {"displayTimeUnit": "ns", "traceEvents": [{"ph": "X", "name": "x", "ts": 4000, "dur": 32}]})
    one = kineto.load(path)
    assert list(one.table("slices")["dur_ns"]) == [32_000]
    assert any("time_unit='ns'" in note.text for note in one.notes)
    assert list(kineto.load(path, time_unit="ns").table("slices")["dur_ns"]) == [32]
    with pytest.raises(InputError, match="allowed are"):
        kineto.load(path, time_unit="cycles")


def test_graph_kernels_share_a_correlation(tmp_path: Path) -> None:
    def event(cat: str, ts: int, dur: int) -> dict[str, object]:
        return {
            "ph": "X",
            "cat": cat,
            "name": cat,
            "pid": 1,
            "tid": 1,
            "ts": ts,
            "dur": dur,
            "args": {"correlation": 5, "stream": 7},
        }

    rows = [
        event("cuda_runtime", 0, 2),
        event("cuda_driver", 1, 1),
        *(event("kernel", 10 + i, 20 - i) for i in range(3)),
    ]
    kernels = kineto.load(trace(tmp_path, rows)).table("kernels")
    assert list(kernels["launch_begin_ns"]) == [0, 0, 0]  # the outer of the two calls
    assert set(kernels["flags"]) == {""}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"traceEvents": [{"ph": "X"', "truncated"),
        ('{"traceEvents": [{"ph": "X"}], "a": ', "truncated"),
        ('{"traceEvents": []} tail', "text after the end"),
        ('{"traceEvents": [{}], "traceEvents": []}', "second traceEvents"),
        ('{"traceEvents": [{} {}]}', "expected , or ]"),
        ('{"other": 1}', "without a list `traceEvents`.*other"),
        ('{"traceEvents": {"a": 1}}', "without a list"),
        ("[" * 100_000, "deeper|truncated"),
        ('[{"ph": "X", "ts": ' + "1" * 5000 + "}]", "damaged"),
    ],
)
def test_damage_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        kineto.load(trace(tmp_path, text))


def test_windows_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a window ends, the events are the same."""
    whole = kineto.load(DATA / "trace.json").table("slices")
    for window in (1, 7, 64, 1000):
        monkeypatch.setattr("attribution.ingest.json_stream._WINDOW", window)
        assert kineto.load(DATA / "trace.json").table("slices").equals(whole)


@given(st.lists(st.decimals(-(10**15), 10**15, places=3), max_size=20))
def test_microseconds_are_exact(values: list) -> None:
    ns, usable, rounded = to_ns([f"{v:f}" for v in values])
    assert list(ns) == [int(v * 1000) for v in values]
    assert usable.all()
    assert rounded == 0


@given(st.lists(st.one_of(st.integers(), st.text(max_size=8), st.floats(), st.none(), st.booleans()), max_size=6))
def test_any_value_gives_a_time_or_none(values: list) -> None:
    ns, usable, _ = to_ns(values)
    assert len(ns) == len(usable) == len(values)
    assert not ns[~usable].any()


def test_odd_texts_survive(tmp_path: Path) -> None:
    rows = [{"ph": "X", "cat": ["a"], "name": {"b": 1}, "pid": [1], "tid": None, "ts": 1, "dur": 1}]
    slices = kineto.load(
        trace(tmp_path, json.dumps(rows)[:-1] + ',{"ph":"X","name":"\\ud800x","ts":2,"dur":1}]')
    ).table("slices")
    assert list(slices["name"]) == ["{'b': 1}", "?x"]
    assert list(slices["lane"]) == ["[1]/None", "None/None"]


def test_far_times_are_dropped_not_wrapped(tmp_path: Path) -> None:
    one = kineto.load(
        trace(tmp_path, [{"ph": "X", "name": "x", "ts": 2**62, "dur": 1}, {"ph": "X", "ts": 1, "dur": 1}])
    )
    assert list(one.table("slices")["begin_ns"]) == [1000]
