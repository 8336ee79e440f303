"""CSV of ncu as terminals hold it: what surrounds the rows is passed over, what is damaged is refused with its line."""

from pathlib import Path

import pytest

from attribution.errors import DataError
from attribution.ingest import ncu_csv
from attribution.tables import conform

DATA = Path(__file__).parents[1] / "data" / "ingest"


def _value(one, metric, launch=0, section=None):
    rows = one.table("metrics")
    rows = rows[(rows["metric"] == metric) & (rows["launch"] == launch)]
    if section is not None:
        rows = rows[rows["section"] == section]
    assert len(rows) == 1
    return rows.iloc[0]


def _edited(tmp_path: Path, name: str, old: str, new: str) -> Path:
    text = (DATA / name).read_text()
    assert old in text
    out = tmp_path / name
    out.write_text(text.replace(old, new, 1))
    return out


def test_raw_page_of_a_terminal() -> None:
    one = ncu_csv.load(DATA / "terminal.csv")
    assert one.kind == "ncu-csv"
    launches = one.table("launches")
    assert list(launches["kernel_name"]) == ["k", "k"]
    assert launches["demangled_name"][0] == "k<(int)2>(float *, int)"
    assert (launches["grid"][0], launches["block"][0]) == ("64,2,1", "128,1,1")
    assert list(launches["time_ns"]) == [1_234_500, 2_000]
    read = _value(one, "dram__bytes_read.sum")
    assert (read["value"], read["unit"], read["unit_stated"]) == (1_500_000, "byte", "Mbyte")


def test_three_states_are_kept_apart() -> None:
    one = ncu_csv.load(DATA / "terminal.csv")
    states = [_value(one, m)["state"] for m in ("lts__t_sectors.sum", "dram__bytes_read.sum")]
    assert states == ["absent", "value"]
    assert _value(one, "lts__t_sectors.sum", 1)["state"] == "absent"  # an empty cell
    assert _value(one, "sm__throughput.avg.pct_of_peak_sustained_elapsed")["state"] == "zero"
    assert _value(one, "sm__throughput.avg.pct_of_peak_sustained_elapsed", 1)["value"] == 101.5
    assert _value(one, "launch__func_cache_config")["text"] == "CachePreferNone"


def test_lines_between_rows_are_counted() -> None:
    (skipped, absent) = ncu_csv.load(DATA / "terminal.csv").notes
    assert (skipped.count, absent.count) == (4, 2)


def test_details_page_with_rules() -> None:
    one = ncu_csv.load(DATA / "details.csv")
    assert _value(one, "Memory Throughput", section="Speed")["value"] == 61.84
    assert _value(one, "Memory Throughput", section="Memory")["value"] == 196.5e9
    rule = one.table("rules").iloc[0]
    assert (rule["rule"], rule["speedup_pct"], rule["speedup_type"]) == ("Bottleneck", 12.5, "global")
    assert rule["message"] == 'Two lines,\nand a "quote".'
    assert list(one.table("launches")["kernel_name"]) == ["topk_kernel", "topk_kernel_repair"]
    assert one.table("launches")["time_ns"][1] == 62_500


@pytest.mark.parametrize("name", ["terminal.csv", "details.csv"])
def test_tables_conform(name: str) -> None:
    for table, frame in ncu_csv.load(DATA / name).tables.items():
        assert conform(table, frame).dtypes.equals(frame.dtypes)


@pytest.mark.parametrize("mark", [("utf-8-sig", "\r\n"), ("utf-16", "\r\n"), ("utf-8", "\r")])
def test_encodings_and_line_ends(tmp_path: Path, mark: tuple[str, str]) -> None:
    text = (DATA / "terminal.csv").read_text()
    path = tmp_path / "t.csv"
    path.write_bytes(text.replace("\n", mark[1]).encode(mark[0]))
    assert (
        ncu_csv.load(path).table("metrics")["value"].sum()
        == ncu_csv.load(DATA / "terminal.csv").table("metrics")["value"].sum()
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("terminal.csv", '"0.25","",', '"0.25",', "line 7: 15 cells, allowed are 16"),
        ("terminal.csv", '"1,234.5"', '"1.234,5"', "line 5: .*decimal=','"),
        ("terminal.csv", '"usecond"', '"fortnight"', "line 5: unit 'fortnight'"),
        ("terminal.csv", '"2","0.25"', '"2","0,25"', "line 7: '0,25' is not a number"),
        ("terminal.csv", '"","","","","","","","","","",""', '"x"', "line 4: the row of units is missing"),
        ("terminal.csv", '"ID",', '"I D",', "no header line"),
        ("details.csv", '"Metric Value"', '"Metric Vlue"', "line 1: header without 'Metric Value'"),
        ("details.csv", '"Rule Name"', '"Rule Type"', "line 1: a column of the header appears twice"),
        ("details.csv", '"61.84",\n', '"61.84"x,\n', "line 2: not a CSV row"),
        ("details.csv", '"61.84",\n', '"61.84","a","b",\n', "line 2: 18 cells, allowed are 20 or 15"),
        ("details.csv", '"12.5"\n', '"12.5\n', "line 4: a quoted cell that begins here never ends"),
        ("details.csv", '"1","7","p","h","void ns::topk_kernel_repair', '"0","7","p","h","void other', "ID 0 is"),
        ("details.csv", '"0","7","p"', '"zero","7","p"', "ID 'zero' is not a number"),
    ],
)  # fmt: skip
def test_damage_is_refused_with_its_line(tmp_path: Path, name: str, old: str, new: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        ncu_csv.load(_edited(tmp_path, name, old, new))


def test_every_row_is_checked(tmp_path: Path) -> None:
    """A validator that passes when one row is finite would take this file."""
    text = (DATA / "details.csv").read_text()
    path = tmp_path / "rows.csv"
    path.write_text(text + text.splitlines()[1].replace("61.84", "1,2345") + "\n")
    with pytest.raises(DataError, match="line 7: '1,2345'"):
        ncu_csv.load(path)


def test_stated_choices(tmp_path: Path) -> None:
    odd = _edited(tmp_path, "terminal.csv", '"usecond"', '"fortnight"')
    one = ncu_csv.load(odd, keep_unknown_units=True)
    assert _value(one, "gpu__time_duration.sum")["unit"] == "fortnight"
    assert one.table("launches")["time_ns"].isna().all()  # a time of an unknown unit is no time in ns
    assert any("fortnight" in note.text for note in one.notes)
    with pytest.raises(DataError, match="more than 100 bytes"):
        ncu_csv.load(DATA / "terminal.csv", max_bytes=100)
