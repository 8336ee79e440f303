"""Instructions by region: the published shares, planted per instruction, come back; nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attribution.analyze.regions import Region, by_region, parse
from attribution.errors import DataError, InputError
from attribution.load import shipped_root
from attribution.recording import open_recording
from attribution.tables import conform

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
RECORDED = {
    "h200-index-topk-regions": ["reduce=reduce.cuh", "matrix@math=wgmma.cuh"],
    "h200-topk-regions": ["filter=filter.cuh"],
    "h200-topk-online-regions": ["least=lists.cuh:26-29", "slot=lists.cuh:24-25"],
}


def pcs(counts: dict[tuple[str, int], float]) -> pd.DataFrame:
    rows = [
        {
            "file": "planted.ncu-rep", "launch": 0, "kernel_name": "topk", "metric": "inst_executed", "pc": 16 * i,
            "offset_bytes": 16 * i, "source_file": file, "source_line": line, "sass": "IADD3", "unit": "inst", "value": value,
        }
        for i, ((file, line), value) in enumerate(counts.items())
    ]  # fmt: skip
    return conform("pcs", pd.DataFrame(rows))


def test_published_shares_of_instructions_are_one_command() -> None:
    table = pd.read_csv(PUBLISHED / "online_selection_profile.csv")
    of = table[table["variant"] == "register_lists"].set_index("quantity")["value"]
    total = of["executed_instructions"] * 1e9
    least, slots = (total * of[q] / 100 for q in ("recompute_minimum_share", "slot_replacement_share"))
    planted = {("/src/topk.cuh", 10): least / 2, ("/src/topk.cuh", 14): least / 2, ("/src/topk.cuh", 20): slots}
    found = by_region(
        pcs({**planted, ("/src/topk.cuh", 90): total - least - slots - 1e6, ("", -1): 1e6}),
        [parse("recompute minimum@topk=topk.cuh:10-19"), parse("slot replacement@topk=topk.cuh:20")],
    ).set_index("region")
    assert 100 * found.loc["recompute minimum", "share"] == pytest.approx(55.4, abs=0.01)
    assert 100 * found.loc["slot replacement", "share"] == pytest.approx(25.3, abs=0.01)
    assert found.loc["recompute minimum", "instructions"] == 2
    assert found["share"].sum() == pytest.approx(1)
    assert {"elsewhere in /src/topk.cuh", "no line information"} < set(found.index)


@pytest.mark.parametrize("name", RECORDED)
def test_on_a_card_regions_add_up_to_what_was_counted_by_opcode(name: str) -> None:
    """Two counts of one launch: by instruction of the machine code with its line, and by opcode."""
    recording = open_recording(shipped_root() / "traces" / name)
    table, opcodes = recording.table("pcs"), recording.table("opcodes").astype({"metric": str})
    counted = opcodes.loc[opcodes["metric"] == "sass__inst_executed_per_opcode", "value"].sum()
    regions = [parse(text) for text in RECORDED[name]]
    for asked in ([], regions):
        found = by_region(table, asked)
        assert found["value"].sum() == counted > 1e7
        assert found["share"].sum() == pytest.approx(1)
    assert set(found["region"]) > {region.name for region in regions}
    # Planted: one executed instruction whose line the report does not tell would be missing.
    executed = (table["metric"].astype(str) == "inst_executed") & (table["value"] > 0)
    assert by_region(table.drop(index=table.index[executed][0]), regions)["value"].sum() < counted


def test_on_a_card_a_third_of_the_instructions_look_for_the_least_key_again(attr: Any) -> None:
    asked = [word for text in RECORDED["h200-topk-online-regions"] for word in ("--region", text)]
    done = attr("explain", "inst_executed", shipped_root() / "traces" / "h200-topk-online-regions", *asked)
    assert done.code == 0, done.err
    least, slot = (next(line for line in done.out.splitlines() if line.startswith(name)) for name in ("least", "slot"))
    assert 0.32 < float(least.split()[1].strip("%")) / 100 < 0.36
    assert 0.30 < float(slot.split()[1].strip("%")) / 100 < 0.34
    assert "elsewhere in shape.cuh" in done.out, "the folder that all files share is left out"


def test_launches_are_added_or_chosen() -> None:
    table = pcs({("/a/tma.cuh", 1): 1.0})
    both = pd.concat([table, table.assign(launch=1, value=5.0)], ignore_index=True)
    assert by_region(both)["value"].tolist() == [6.0]
    assert by_region(both, launch=1)["value"].tolist() == [5.0]


def test_without_regions_every_file_is_one() -> None:
    found = by_region(pcs({("/a/tma.cuh", 1): 1.0, ("/a/math.cuh", 1): 3.0}))
    assert found[["region", "share"]].to_numpy().tolist() == [["/a/math.cuh", 0.75], ["/a/tma.cuh", 0.25]]


def test_what_cannot_be_attributed_is_an_error() -> None:
    table = pcs({("/a/tma.cuh", 1): 1.0})
    with pytest.raises(InputError, match="no counted instruction in math.cuh"):
        by_region(table, [Region("math", "math.cuh")])
    with pytest.raises(DataError, match="both have line 1"):
        by_region(table, [Region("one", "tma.cuh"), Region("two", "tma.cuh", 1, 5)])
    with pytest.raises(InputError, match="no counts per instruction; there are: inst_executed"):
        by_region(table, metric="zzz")
    with pytest.raises(DataError, match="2 kernels"):
        by_region(pd.concat([table, table.assign(kernel_name="other")], ignore_index=True))
    with pytest.raises(InputError, match="launch 3 of topk has no counts"):
        by_region(table, launch=3)
    both = pd.concat([table, table.assign(kernel_name="other")], ignore_index=True)
    with pytest.raises(
        InputError, match="launch 3 of other has no counts of inst_executed; kernels with counts: other, topk"
    ):
        by_region(both, kernel="other", launch=3)
    assert by_region(both, kernel="other")["value"].tolist() == [1.0]
    lines = pcs({("tma.cuh", 1): 1.0, ("tma.cuh", 2): 1.0, ("tma.cuh", 3): 1.0})
    with pytest.raises(DataError, match="regions one and two both have line 2 of tma.cuh"):
        by_region(lines, [Region("one", "tma.cuh", 1, 2), Region("two", "tma.cuh", 2, 3)])


@pytest.mark.parametrize("text", ["x=file:a-b", "x=file:1-b", "x=file:a", "=file", "@math=file", "x=", "x=:3", "file"])
def test_a_region_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="must be NAME"):
        parse(text)


def test_a_region_is_a_file_or_lines_of_it_and_ends_with_its_name() -> None:
    assert parse("sum@math=reduce.cuh:3-9") == Region("sum", "reduce.cuh", 3, 9, "math")
    assert parse("sum=reduce.cuh:3") == Region("sum", "reduce.cuh", 3, 3)
    assert parse("sum=reduce.cuh") == Region("sum", "reduce.cuh")
    table = pcs({("tma.cuh", 2): 1.0, ("/a/tma.cuh", 3): 2.0, ("/a/no_tma.cuh", 2): 4.0, ("tma.cuh", 4): 8.0})
    found = by_region(table, [parse("load@tma=tma.cuh:2-3")])
    assert found[["region", "role", "value"]].to_numpy().tolist() == [
        ["elsewhere in tma.cuh", "", 8.0],
        ["elsewhere in /a/no_tma.cuh", "", 4.0],
        ["load", "tma", 2.0],
        ["load", "tma", 1.0],
    ]
