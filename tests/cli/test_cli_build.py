"""`attr build`: rows, failures and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attribution.scaffold import new_kernel

pytest.importorskip("cuda.core", reason='needs `pip install "attribution[cuda]"`')


def test_rows_are_the_same_as_json_and_as_tables(attr, tmp_path: Path) -> None:
    choice = ("build", "--kernel", "hello", "--cache", tmp_path)
    rows = json.loads(attr(*choice, "--json").out)
    assert [(r["variant"], r["entry"], r["status"]) for r in rows] == [
        ("vector", "hello", "built"),
        ("scalar", "hello", "built"),
    ]
    for row in rows:
        assert row["ctas_per_sm"] == 16
        assert row["resident_ctas"] == {"H20": 16 * 78, "H100": 16 * 132, "H200": 16 * 132}
        assert row["spill_bytes"] == 0
        assert row["instructions"] == sum(row["opcodes"].values())
        assert "17 CTAs at <= 24 registers" in row["next_step"][1]
    shown = attr(*choice).out
    for word in ("hello", "scalar", "cached", "registers", "H200", "SHFL", "FADD"):
        assert word in shown
    assert str(rows[0]["opcodes"]["FADD"]) in shown


def test_all_says_what_was_skipped(attr, tmp_path: Path) -> None:
    new_kernel(tmp_path, "mine")
    source = tmp_path / "kernels" / "mine" / "kernel.py"
    source.write_text(source.read_text().replace('    source="mine.cu",\n', ""))
    rows = json.loads(attr("build", "--all", "--root", tmp_path, "--json").out)
    assert {(r["status"], r["reason"]) for r in rows} == {("skipped", "the kernel has no GPU source")}
    assert "mine: skipped" in attr("build", "--all", "--root", tmp_path).out


def test_a_failed_variant_is_a_row_and_an_exit_code(attr, tmp_path: Path) -> None:
    new_kernel(tmp_path, "mine")
    source = tmp_path / "kernels" / "mine" / "mine.cu"
    source.write_text(source.read_text() + "static_assert(flag::VECTOR != 1);\n")
    done = attr("build", "--all", "--root", tmp_path, "--cache", tmp_path / "c", "--json")
    assert done.code == 1
    assert [r["status"] for r in json.loads(done.out)] == ["built", "failed"]
    assert "1 of 2 builds failed" in done.err
    assert "kernels/mine/mine.cu(" in done.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "say --all, --kernel NAME or --variant NAME"),
        (("--kernel", "helo"), "nearest: hello"),
        (("--variant", "scaler"), "nearest: scalar"),
        (("--all", "--arch", "hopper"), "sm_90a"),
        (("--all", "--jobs", "0"), "--jobs 0: allowed is an integer >= 1"),
    ],
)
def test_what_cannot_be_built_is_a_sentence(attr, arguments: tuple[str, ...], why: str) -> None:
    done = attr("build", *arguments)
    assert done.code == 2
    assert why in done.err
