"""No slice is lost on the way to Perfetto, and one that is lost is noticed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from attribution.errors import DataError, MeasureError
from attribution.show import perfetto


def spans(*rows: tuple[int, str, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["cta", "role", "begin_ns", "end_ns"]).assign(sm=3, event="e", arg=1)


CASES = {
    "overlapping": spans((0, "math", 0, 10), (0, "math", 5, 13)),
    "nested": spans((0, "math", 0, 10), (0, "math", 2, 5), (0, "math", 5, 10)),
    "equal": spans((0, "math", 0, 10), (0, "math", 0, 10), (0, "math", 0, 10)),
    "touching": spans((0, "math", 0, 5), (0, "math", 5, 9), (1, "math", 0, 5)),
    "empty ones": spans((0, "math", 5, 5), (0, "math", 5, 9), (0, "math", 9, 9)),
    "woven": spans(*((0, "math", i, i + 7) for i in range(20))),
}


@pytest.mark.parametrize("name", CASES)
def test_every_slice_is_there_after_reading_back(tmp_path: Path, name: str) -> None:
    frame, path = CASES[name], tmp_path / "t.pftrace"
    assert perfetto.write_perfetto(frame, path) == len(frame)
    read = perfetto.read_slices(path)
    wanted = sorted((b, e, "e") for b, e in zip(frame["begin_ns"], frame["end_ns"], strict=True))
    assert sorted(read.elements()) == wanted
    assert [p.name for p in tmp_path.iterdir()] == ["t.pftrace"]


def test_a_writer_that_puts_overlapping_slices_on_one_track_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perfetto, "_layers", lambda lane: [lane])
    with pytest.raises(DataError, match="slices were lost"):
        perfetto.write_perfetto(CASES["overlapping"], tmp_path / "t.pftrace")
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    perfetto.write_perfetto(CASES["woven"], path)
    path.write_bytes(b"not a trace")
    with pytest.raises(DataError, match="not a Perfetto trace"):
        perfetto.read_slices(path)
    path.write_bytes(b"\x0a\xff")
    with pytest.raises(DataError, match="cut off"):
        perfetto.read_slices(path)


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="cannot write"):
        perfetto.write_perfetto(CASES["nested"], tmp_path / "no" / "t.pftrace")


def test_a_file_where_a_folder_should_be_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MeasureError, match="cannot write"):
        perfetto.write_perfetto(CASES["nested"], tmp_path / "file" / "t.pftrace")
