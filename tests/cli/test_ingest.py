"""`attr ingest`: the same rows printed, as JSON and kept; a damaged file leaves nothing behind."""

import json
from pathlib import Path

import pytest

from attribution.cli import explain
from attribution.cli import ingest as verb
from attribution.errors import DataError, InputError
from attribution.recording import open_recording

DATA = Path(__file__).parents[1] / "data" / "ingest"
REPORT = Path(__file__).parents[2] / "traces" / "hello-h200.ncu-rep"


def test_json_rows(capsys: pytest.CaptureFixture[str]) -> None:
    verb.ingest([DATA / "terminal.csv", DATA / "trace.json"], json=True)
    text, trace = json.loads(capsys.readouterr().out)
    assert [row["time_ns"] for row in text["launches"]] == [1_234_500, 2_000]
    assert (trace["kernels"][0]["kernels"], trace["kernels"][0]["time_ns"]) == (2, 1203)
    assert {row["rule"] for row in trace["range_times"]} == {
        "launched_by_thread",
        "launched_by_any_thread",
        "running_in",
    }
    assert all(note["note"] for note in text["notes"])


def test_printed(capsys: pytest.CaptureFixture[str]) -> None:
    verb.ingest([DATA / "terminal.csv"])
    said = capsys.readouterr().out
    assert "1234500" in said
    assert "note: 2 metric cells hold no value: absent, not zero" in said


def test_recording_holds_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rec"
    verb.ingest([DATA / "terminal.csv", DATA / "details.csv", DATA / "trace.json"], out=out)
    recording = open_recording(out)
    recording.verify()
    assert sorted(recording.table("files")["file"]) == ["details.csv", "terminal.csv", "trace.json"]
    assert len(recording.table("launches")) == 4
    assert recording.table("kernels")["begin_ns"][0] == 1712195495505600700
    verb.show_ingested(recording, tmp_path / "f.svg", False)
    assert (tmp_path / "f.svg").exists()
    capsys.readouterr()
    verb.show_ingested(recording, None, True)
    assert len(json.loads(capsys.readouterr().out)["launches"]) == 4
    with pytest.raises(InputError, match="exists"):
        verb.ingest([DATA / "terminal.csv"], out=out)


def test_a_damaged_file_leaves_nothing(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text((DATA / "terminal.csv").read_text().replace('"2","0.25"', '"2"'))
    with pytest.raises(DataError, match=r"bad\.csv: line 7"):
        verb.ingest([DATA / "trace.json", bad], out=tmp_path / "rec")
    assert not (tmp_path / "rec").exists()
    with pytest.raises(InputError, match="same name"):
        verb.ingest([DATA / "trace.json", DATA / "trace.json"])


def test_options_reach_their_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    german = tmp_path / "de.csv"
    german.write_text((DATA / "terminal.csv").read_text().replace('"1,234.5","1.5"', '"1.234,5","1,5"').replace("0.25", "0,25")
                      .replace("101.5", "101,5"))  # fmt: skip
    verb.ingest([german, DATA / "trace.json"], decimal=",", time_unit="us", json=True)
    assert json.loads(capsys.readouterr().out)[0]["launches"][0]["time_ns"] == 1_234_500


def test_show_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb.show_file(DATA / "trace.json", tmp_path / "f.png", False)
    assert "figure:" in capsys.readouterr().out
    verb.show_file(DATA / "trace.json", None, True)
    assert json.loads(capsys.readouterr().out)["kind"] == "chrome-json"


def test_executed_instructions_by_region_and_role_are_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a real report: nothing is lost against the counts by opcode, another counter of the same launch."""
    verb.ingest([REPORT], out=tmp_path / "rec")
    opcodes = open_recording(tmp_path / "rec").table("opcodes").astype({"metric": str})
    of = opcodes[(opcodes["launch"] == 0) & (opcodes["metric"] == "sass__inst_executed_per_opcode")]
    capsys.readouterr()
    regions = ["sum over a row@sum=hello.cu:18-20", "reduce@sum=hello.cu:23-31"]
    explain.explain("inst_executed", tmp_path / "rec", region=regions, launch=[0], json=True)
    rows = {row["region"]: row for row in json.loads(capsys.readouterr().out)}
    assert sum(row["value"] for row in rows.values()) == of["value"].sum() > 0
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    assert rows["sum over a row"]["share"] > 0.9 > rows["reduce"]["share"] > 0
    assert {rows[name.split("@")[0]]["role"] for name in regions} == {"sum"}
    assert len(rows) == 3  # the rest of the file is a row too
    explain.explain("inst_executed", tmp_path / "rec", region=regions, launch=[0])
    kept = capsys.readouterr().out
    assert "inst_executed by source region, launch 0" in kept
    explain.explain("inst_executed", REPORT, region=regions, launch=[0])
    assert capsys.readouterr().out == kept  # of the report itself, without a recording of it
    with pytest.raises(InputError, match="--point q=1: hello-h200.ncu-rep is a profiler's file"):
        explain.explain("inst_executed", REPORT, region=regions, point="q=1")
    with pytest.raises(InputError, match="no counted instruction in other.cu"):
        explain.explain("inst_executed", tmp_path / "rec", region=["x=other.cu"])
    with pytest.raises(DataError, match="both have line 18"):
        explain.explain("inst_executed", tmp_path / "rec", region=[*regions, "twice=hello.cu:18"])
