"""Recordings: whole or not at all, unchanged or refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from attribution import recording
from attribution.errors import DataError, InputError, MeasureError
from attribution.recording import Partial, merge, open_recording, write_tables

MACHINE = {"machine": {"kind": "host", "name": "reference machine", "sms": 4}, "kernels": {}}


def rows(run: int = 0, failures: int = 1) -> dict[str, pd.DataFrame]:
    limit = pd.DataFrame({"run": [run], "limit": ["segment"], "failures": [failures], "of": [8]})
    return {"capacity": limit}


def runs(count: int) -> pd.DataFrame:
    text = dict.fromkeys(
        ("question", "predecessor", "arm", "kernel", "variant", "shape", "distribution", "flags"),
        "x",
    )
    text |= dict.fromkeys(("knobs", "build", "inputs", "status", "reason"), "x")
    return pd.DataFrame([{"run": i, "round": i, "position": 0, "seed": 1, "begin_ns": 5, **text} for i in range(count)])


def test_round_trip_keeps_values_and_types(tmp_path: Path) -> None:
    written = write_tables(tmp_path / "a", "run", rows(failures=7), MACHINE)
    read = open_recording(tmp_path / "a").table("capacity")
    assert read["failures"].tolist() == [7]
    assert read.dtypes.astype(str).to_dict()["run"] == "int32"
    assert written.manifest["machine"]["sms"] == 4


def test_a_table_that_was_not_recorded_is_empty_with_its_columns(tmp_path: Path) -> None:
    recorded = write_tables(tmp_path / "a", "run", rows(), MACHINE)
    assert list(recorded.table("times").columns)[:2] == ["run", "scope"]
    assert len(recorded.table("times")) == 0
    with pytest.raises(DataError, match="no table 'tims'"):
        recorded.table("tims")


@pytest.mark.parametrize("file", ["capacity.parquet", "manifest.json"])
def test_one_changed_byte_is_noticed(tmp_path: Path, file: str) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    target = tmp_path / "a" / file
    content = bytearray(target.read_bytes())
    where = content.index(b'"sms": 4') + 7 if file == "manifest.json" else len(content) // 2
    content[where] ^= 1
    target.write_bytes(content)
    with pytest.raises(DataError, match=f"{file}.* was changed"):
        open_recording(tmp_path / "a").verify()


def test_a_lost_table_is_noticed(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    (tmp_path / "a" / "capacity.parquet").unlink()
    with pytest.raises(DataError, match="is missing"):
        open_recording(tmp_path / "a").verify()


def test_a_damaged_manifest_is_a_sentence(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    for content in ("", "{", "[]", "null", '{"schema": 1}'):
        (tmp_path / "a" / "manifest.json").write_text(content)
        with pytest.raises(DataError, match="is damaged"):
            open_recording(tmp_path / "a")


def test_a_later_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(recording, "SCHEMA_VERSION", 2)
        write_tables(tmp_path / "a", "run", rows(), MACHINE)
    with pytest.raises(DataError, match="has schema 2; this version reads 1"):
        open_recording(tmp_path / "a")


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(failures=1), MACHINE)
    with pytest.raises(InputError, match="never overwritten"):
        write_tables(tmp_path / "a", "run", rows(failures=2), MACHINE)
    write_tables(tmp_path / "a", "run", rows(failures=2), MACHINE, overwrite=True)
    assert open_recording(tmp_path / "a").table("capacity")["failures"].tolist() == [2]
    (tmp_path / "home").mkdir()
    with pytest.raises(InputError, match="not a recording"):
        write_tables(tmp_path / "home", "run", rows(), MACHINE, overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "home"]


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> dict[str, object]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording, "_write_parquet", full)
    with pytest.raises(MeasureError, match="No space left"):
        write_tables(tmp_path / "a", "run", rows(), MACHINE)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(MeasureError, match="cannot write"):
        write_tables(tmp_path / "file" / "a", "run", rows(), MACHINE)


def test_undeclared_missing_and_null_columns_are_refused(tmp_path: Path) -> None:
    good = rows()["capacity"]
    for bad, why in [
        (good.assign(extra=1), "not declared"),
        (good.drop(columns="of"), "missing"),
        (good.assign(limit=None), "nulls"),
        (good.assign(run="x"), "is not int32"),
        (good.assign(run=2**40), "fit|int32"),
        (good.assign(run=1.5), "fit|int32"),
    ]:
        with pytest.raises(DataError, match=why):
            write_tables(tmp_path / "a", "run", {"capacity": bad}, MACHINE)
    assert list(tmp_path.iterdir()) == []


def test_unlike_recordings_do_not_merge_and_both_values_are_named(tmp_path: Path) -> None:
    tables = {"runs": runs(2), **rows()}
    a = write_tables(tmp_path / "a", "run", tables, MACHINE)
    other = {**MACHINE, "machine": {**MACHINE["machine"], "sms": 132}}
    b = write_tables(tmp_path / "b", "run", tables, other)
    with pytest.raises(DataError, match="machine.sms is 4 and 132"):
        merge([a, b], tmp_path / "c")
    both = merge([a, a], tmp_path / "c")
    assert both.table("runs")["run"].tolist() == [0, 1, 2, 3]
    assert both.table("runs")["round"].tolist() == [0, 1, 2, 3]
    assert both.table("capacity")["run"].tolist() == [0, 2]


def test_a_measurement_killed_between_runs_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """A child process is killed by SIGKILL in the middle of writing its third run."""
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
import test_recording as t
from attribution import recording
partial = recording.Partial(Path({str(tmp_path)!r}) / "a", {{"rounds": 4}}, False)
for run in range(4):
    if run == 2:
        write = recording._write_parquet
        recording._write_parquet = lambda *a: (write(*a), os.kill(os.getpid(), signal.SIGKILL))
    partial.add(run, t.rows(run, run))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ)
    assert done.returncode == -9, done.stderr
    assert not (tmp_path / "a").exists()
    with pytest.raises(InputError, match="--resume"):
        Partial(tmp_path / "a", {"rounds": 4}, False)
    with pytest.raises(InputError, match="unfinished"):
        open_recording(tmp_path / "a")
    with pytest.raises(DataError, match="rounds was 4 and is now 5"):
        Partial(tmp_path / "a", {"rounds": 5}, True)
    partial = Partial(tmp_path / "a", {"rounds": 4}, True)
    assert partial.done() == {0, 1}
    for run in (2, 3):
        partial.add(run, rows(run, run))
    whole = partial.publish(MACHINE, False)
    assert whole.table("capacity")["failures"].tolist() == [0, 1, 2, 3]
    assert not partial.folder.exists()


def test_no_pickle_in_what_a_recording_holds(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    assert {p.suffix for p in (tmp_path / "a").iterdir()} == {".json", ".parquet"}
    json.loads((tmp_path / "a" / "manifest.json").read_text())
