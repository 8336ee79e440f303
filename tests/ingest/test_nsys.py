"""Exports of nsys: tables that may be missing, texts by id, one process at a time."""

import sqlite3
from pathlib import Path

import pytest

from attribution.errors import DataError
from attribution.ingest import nsys
from attribution.tables import conform

DATA = Path(__file__).parents[1] / "data" / "ingest"


def session(tmp_path: Path, *more: str) -> Path:
    path = tmp_path / "session.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript((DATA / "session.sql").read_text())
        for statement in more:
            connection.execute(statement)
    connection.close()
    return path


def test_session(tmp_path: Path) -> None:
    one = nsys.load(session(tmp_path))
    kernels = one.table("kernels")
    assert list(kernels["kernel_name"]) == ["vectorized_FillFunctor", "work(int)", "back(int)", "late"]
    assert list(kernels["dur_ns"]) == [58, 4, 60, 10]
    assert list(kernels["launched"]) == [True, True, True, False]
    assert (kernels["grid"][1], kernels["block"][1]) == ("4,2,1", "128,1,1")
    assert one.table("files")["gpu"][0] == "Chip of this test"
    assert one.table("files")["tool"][0] == "Nsight Systems 2025.1.1"
    for table, frame in one.tables.items():
        assert conform(table, frame).dtypes.equals(frame.dtypes)


def test_ranges_and_rules(tmp_path: Path) -> None:
    one = nsys.load(session(tmp_path))
    ranges = one.table("ranges").set_index("range_name")
    assert list(ranges.index) == ["step", "inner"]  # `open` has no end
    assert (ranges.loc["inner", "domain"], ranges.loc["step", "domain"]) == ("Library", "")
    times = one.table("range_times").query("range_name == 'step'").set_index("rule")
    assert list(times["time_ns"][["launched_by_thread", "launched_by_any_thread", "running_in"]]) == [4, 64, 62]
    assert [n.count for n in one.notes if n.subject == "ranges"] == [1]


def test_correlations_belong_to_a_process(tmp_path: Path) -> None:
    """Another process used the same correlation ids, earlier: it launched nothing here."""
    other = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 33554433, 11, 6), (1, 2, 33554433, 99, 6)"
    kernels = nsys.load(session(tmp_path, other)).table("kernels")
    assert list(kernels["launch_begin_ns"]) == [90, 110, 120, -1]


def test_what_is_missing_is_missing(tmp_path: Path) -> None:
    one = nsys.load(session(tmp_path, "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL", "DROP TABLE NVTX_EVENTS"))
    assert "kernels" not in one.tables
    assert any("no kernel table" in note.text for note in one.notes)
    (tmp_path / "old").mkdir()
    old = nsys.load(session(tmp_path / "old", "ALTER TABLE META_DATA_EXPORT RENAME TO EXPORT_META_DATA"))
    assert old.table("files")["tool"][0] == "Nsight Systems 2025.1.1"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DROP TABLE StringIds", "not an export of Nsight Systems"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 'soon'", "not an integer"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 5000000000", "device is 5000000000"),
    ],
)
def test_damage_is_refused(tmp_path: Path, statement: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        nsys.load(session(tmp_path, statement))


def test_limits(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="more than 2 rows"):
        nsys.load(session(tmp_path), max_rows=2)
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes((tmp_path / "session.sqlite").read_bytes()[:6000])
    with pytest.raises(DataError):
        nsys.load(cut)
    cut.write_text("SQLite is not what this is")
    with pytest.raises(DataError, match="not SQLite"):
        nsys.load(cut)
