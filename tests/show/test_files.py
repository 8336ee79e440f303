"""Figures of a profiler's file: shares of one named launch, and a refusal where there is nothing to draw."""

from pathlib import Path

import pandas as pd
import pytest

from attribution.errors import DataError, InputError
from attribution.ingest import frames
from attribution.ingest.read import read
from attribution.show import files

DATA = Path(__file__).parents[1] / "data" / "ingest"


def tables() -> dict[str, pd.DataFrame]:
    common = {"file": "r", "kernel_name": "k$1", "unit": "inst"}
    n = 15
    opcodes = frames.table("opcodes", n + 1, **common, launch=[0] * n + [1], metric=files._OPCODES,
                           opcode=[f"OP{i}" for i in range(n)] + ["OTHER"], value=[2.0] * (n - 1) + [72.0, 1.0])  # fmt: skip
    pcs = frames.table("pcs", 3, **common, launch=0, metric="inst_executed", pc=[16, 32, 48], offset_bytes=[0, 16, 32],
                       source_file="/a/b.cu", source_line=[4, 4, -1], sass="", value=[1.0, 2.0, 9.0])  # fmt: skip
    names = [f"{files._STALL}wait", f"{files._STALL}wait_not_issued", f"{files._STALL}barrier"]
    metrics = frames.table("metrics", 3, **common, launch=0, section="", metric=names, instance="", unit_stated="", state="value",
                           value=[30.0, 20.0, 10.0], text="", pass_group=-1, source="report")  # fmt: skip
    return {"opcodes": opcodes, "pcs": pcs, "metrics": metrics}


def test_shares_of_one_launch() -> None:
    rows = files.opcode_shares(tables())
    assert (rows["name"][0], rows["share"][0], rows.attrs["total"]) == ("OP14", 0.72, 100.0)
    assert list(files.opcode_shares(tables(), 1)["name"]) == ["OTHER"]
    assert dict(files.stall_shares(tables())[["name", "count"]].values) == {"wait": 30.0, "barrier": 10.0}
    lines = files.line_shares(tables())
    assert (list(lines["name"]), list(lines["count"])) == (["b.cu:4"], [3.0])
    assert files.opcode_shares(tables(), 7).empty


def test_figure_has_a_panel_for_each() -> None:
    figure = files.file_figure(tables())
    assert len(figure.axes) == 3
    texts = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert texts[-1] == "3 others"
    assert "launch 0" in figure.axes[0].get_title(loc="left")


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_written_whole(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"f{ending}"
    files.draw_file(read(DATA / "trace.json").tables, out)
    assert out.stat().st_size > 1000
    with pytest.raises(InputError):
        files.draw_file(tables(), tmp_path / "f.docx")


def test_nothing_to_draw() -> None:
    with pytest.raises(DataError, match="nothing to draw: the file has 1 files, 2 launches"):
        files.file_figure(read(DATA / "terminal.csv").tables)
