"""`attr reconcile`: numbers, tables and recordings give the same arithmetic; what cannot be reconciled is a sentence."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import planted_prefill

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
INGEST = Path(__file__).parents[1] / "data" / "ingest"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prefill")
    planted_prefill.recording(out / "8k", chunks=1)
    planted_prefill.recording(out / "8k-later", chunks=1, lost_ms=1.0)
    planted_prefill.recording(out / "32k")
    planted_prefill.recording(out / "lost", lost_ms=8.0)
    planted_prefill.recording(out / "other", sizes={"top_k": 512})
    return out


def test_recordings_are_accounted_for(attr: Callable[..., Any], folder: Path) -> None:
    done = attr("reconcile", folder / "8k", folder / "32k", "--json")
    assert done.code == 0
    found = json.loads(done.out)
    (row,) = found["accounts"]
    for name, value in planted_prefill.TRUTH.items():
        assert row[f"{name}_pct"] == pytest.approx(value, abs=0.01), name
    assert row["verdict"] == "explained"
    assert found["adapter"]["calls"] == planted_prefill.CALLS
    text = attr("reconcile", folder / "8k", folder / "32k", "--plot", folder / "bridge.svg").out
    assert (folder / "bridge.svg").stat().st_size > 1000
    assert "critical path" in text
    assert "2 of 8 indexer calls of a request fell back" in text


def test_an_unexplained_loss_is_not_explained(attr: Callable[..., Any], folder: Path) -> None:
    row = json.loads(attr("reconcile", folder / "8k", folder / "lost", "--json").out)["accounts"][0]
    assert row["verdict"] == "not explained"
    assert row["remainder_pct"] == pytest.approx(0.8, abs=0.01)


def test_the_published_table_says_which_rows_are_overestimated(attr: Callable[..., Any]) -> None:
    rows = json.loads(attr("reconcile", PUBLISHED / "reconciliation.csv", "--json").out)
    assert {r["name"]: r["verdict"] for r in rows} == dict.fromkeys(
        ("16384", "32768", "65536", "131072"), "less than estimated"
    )
    assert all(r["overestimate_low_pct"] > 0 for r in rows)
    text = attr("reconcile", PUBLISHED / "reconciliation.csv").out
    assert "16384          0.576 [0.575, 0.577]   0.19       0.386 [0.380, 0.392]   3.03" in text


def test_numbers_give_the_same_as_the_table(attr: Callable[..., Any]) -> None:
    rows = json.loads(attr("reconcile", PUBLISHED / "reconciliation.csv", "--json").out)
    done = attr("reconcile", "--share", "9.62", "--saving", "5.99", "--measured", "0.19", "--json")
    assert json.loads(done.out) == {**rows[0], "name": "whole"}


@pytest.fixture(params=["chrome", "nsys"])
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Range `step` launches 200 ns of 1203, or 4 ns of 132; one nsys kernel, of 10 ns, has no launching call."""
    if request.param == "chrome":
        return INGEST / "trace.json"
    path = tmp_path / "session.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript((INGEST / "session.sql").read_text(encoding="utf-8"))
    connection.close()
    return path


def test_a_profile_gives_the_share(attr: Callable[..., Any], profile: Path) -> None:
    options = ("--saving", "10", "--measured", "1.0")
    done = attr("reconcile", "--profile", profile, "--part", "step", *options, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    low, high = (100 * 0.2 / 1.203,) * 2 if profile.suffix == ".json" else (100 * 4 / 132, 100 * 14 / 132)
    assert found["estimate_pct"] == pytest.approx(low * 0.1)
    assert found["estimate_low_pct"] == pytest.approx(low * 0.095)
    assert found["estimate_high_pct"] == pytest.approx(high * 0.105)
    text = attr("reconcile", "--profile", profile, "--part", "step", "--rule", "launched_by_any_thread", *options).out
    assert "rule launched_by_any_thread" in text
    done = attr("reconcile", "--profile", profile, "--part", "nowhere", *options)
    assert (done.code, "no range 'nowhere'; the file has:" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "nothing to reconcile", id="nothing"),
        pytest.param(["--share", "1", "--saving", "1"], "nothing to reconcile", id="one-missing"),
        pytest.param(["--share", "1e3", "--saving", "1", "--measured", "1"], "number of percent", id="exponent"),
        pytest.param(["--share", "nan", "--saving", "1", "--measured", "1"], "number of percent", id="nan"),
        pytest.param(
            ["--share", "1", "--saving", "1", "--measured", "1", "--scope", "a"], "was given 1 times", id="scope"
        ),
        pytest.param(
            ["--share", "1", "--saving", "1", "--measured", "1", "--rule", "timed"], "is for a --profile", id="rule"
        ),
        pytest.param(["FOLDER/32k", "--share", "1"], "--share beside", id="both"),
        pytest.param(["FOLDER/32k", "--rule", "by_name"], "--rule by_name: allowed are", id="rule-unknown"),
        pytest.param(["FOLDER/nowhere"], "is not a recording", id="no-recording"),
        pytest.param(["FOLDER/nowhere.csv"], "cannot be read", id="no-table"),
        pytest.param(["FOLDER/8k", "--plot", "FOLDER/x.svg"], "no account to draw", id="plot-of-nothing"),
        pytest.param(
            ["--share", "1", "--saving", "1", "--measured", "1", "--plot", "x.svg"], "--plot x.svg", id="plot"
        ),
        pytest.param(["FOLDER/8k", "FOLDER/8k-later"], "both measure the adapter", id="two-adapters"),
        pytest.param(["FOLDER/8k", "FOLDER/8k"], "8k again: its rounds would count twice", id="twice"),
        pytest.param(["FOLDER/8k", "FOLDER/other"], "differ in configuration", id="unlike"),
        pytest.param(["host-math-only"], "no recording of `attr prefill`", id="other-kind"),
    ],
)
def test_what_cannot_be_reconciled(attr: Callable[..., Any], folder: Path, arguments: list[str], said: str) -> None:
    done = attr("reconcile", *(a.replace("FOLDER", str(folder)) for a in arguments))
    assert done.code in (1, 2)
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "has no rows", id="empty"),
        pytest.param("n,share_pct,saving_pct\n1,2,3\n", "0 columns have the word measured", id="no-measured"),
        pytest.param(
            "n,a_share,b_share,saving,measured\n1,2,3,4,5\n", "2 columns have the word share", id="two-shares"
        ),
        pytest.param("n,share,saving,measured\n1,9.62,x,0.2\n", "line 2, saving 'x'", id="text"),
        pytest.param("n,share,saving,measured\n1,120,3,0.2\n", "share 120 %", id="above-100"),
        pytest.param("n,share,saving,measured\n1,12\n", "line 2, saving ''", id="short-row"),
    ],
)
def test_a_table_that_is_none(attr: Callable[..., Any], tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    done = attr("reconcile", path)
    assert done.code == 1
    assert said in done.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("share,saving,measured\n1,abc,\n", "line 2, saving 'abc'", id="word"),
        pytest.param("share,saving,measured\n1,2,\n", "line 2, measured ''", id="empty"),
        pytest.param("share,saving,measured\n1,2,1,4\n", "line 2: it has more cells", id="too-many"),
        pytest.param("a,b\n1,2\n", "0 columns have the word share", id="no-columns"),
        pytest.param("of,share,saving,measured\nx,1,500,1\n", "x: saving of the part 500 %", id="above-all"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(attr: Callable[..., Any], tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    done = attr("reconcile", tmp_path / "t.csv")
    assert (done.code, done.out, reason in done.err) == (1, "", True), done.err


def test_a_table_without_names_is_named_by_line(attr: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("share,saving,measured\n9.62,5.99,0.19\n")
    (row,) = json.loads(attr("reconcile", tmp_path / "t.csv", "--json").out)
    assert (row["name"], row["verdict"]) == ("line 2", "less than estimated")
    assert attr("reconcile", tmp_path / "t.csv").out.splitlines()[2].startswith("line ")


def test_a_mark_of_byte_order_is_no_part_of_the_first_name(attr: Callable[..., Any], tmp_path: Path) -> None:
    """Spreadsheets put one before a table that they save as UTF-8."""
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfshare,saving,measured\n9.62,5.99,0.19\n")
    (row,) = json.loads(attr("reconcile", tmp_path / "t.csv", "--json").out)
    assert (row["name"], row["verdict"]) == ("line 2", "less than estimated")


@pytest.mark.parametrize(("saving", "measured"), [("500", "1"), ("5", "101")], ids=["part", "whole"])
def test_nothing_saves_more_than_all(attr: Callable[..., Any], saving: str, measured: str) -> None:
    done = attr("reconcile", "--share", "9.62", "--saving", saving, "--measured", measured)
    assert (done.code, "nothing saves more than all" in done.err) == (1, True), done.err
