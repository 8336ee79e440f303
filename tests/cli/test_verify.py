"""`attr verify` passes on what is true and fails on each planted fault: digits, recordings, markers, numbers without one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import planted_gpu as planted
import pytest

from attribution.cli.verify import printed
from attribution.errors import DataError
from attribution.recording import open_recording, write_tables
from attribution.verify import figures, update
from attribution.verify.documents import read_document
from attribution.verify.markers import parse
from attribution.verify.sources import Sources

ROOT = Path(__file__).parents[2]
NAME = "planted"
TEXT = f"""# A document

The control takes
<!-- attr claim {NAME} :: claims[arm=score_only].value,low,high :: n.3 -->?<!-- end --> of the time, of
<!-- attr show {NAME} :: answers[arm=score_only].base_ns :: ms.1 -->?<!-- end -->.

<!-- attr claim {NAME} -->
<!-- end -->

The margin is <!-- code analyze.verdict.MARGIN :: %.0 -->?<!-- end -->, the file has
<!-- file facts.json :: rows[name=b].share :: %.1 -->?<!-- end -->, and Python is
<!-- typed: a version -->3.11<!-- end -->.
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recordings and a document that was filled in from them."""
    folder = tmp_path_factory.mktemp("filled")
    arms = {name: planted.TIMES[name] for name in ("full", "score_only")} | {"null": planted.TIMES["full"]}
    work = {arm: {"tma_loads": 64.0, "tensor_instructions": 9.0} for arm in arms}
    variants = planted.ladder_variants()
    variants["score_only"]["expects"] = {"planted": {"time_ratio": [0.7, 0.9]}}
    planted.recording(folder / "traces" / NAME, planted.measured({"full": arms}, work=work), variants)
    rows = [{"name": "a", "share": 0.5}, {"name": "b", "share": 0.25}]
    (folder / "traces" / "facts.json").write_text(json.dumps({"rows": rows}))
    (folder / "document.md").write_text(TEXT)
    assert update(read_document(folder / "document.md"), Sources(folder / "traces", printed)) == 5
    return folder


@pytest.fixture
def traces(filled: Path, tmp_path: Path) -> Path:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return tmp_path / "traces"


@pytest.fixture
def document(traces: Path) -> Path:
    return traces.parent / "document.md"


def test_what_update_wrote_is_true_and_stays(document: Path, traces: Path, attr: Callable[..., Any]) -> None:
    before = document.read_text()
    done = attr("verify", document, "--traces", traces, "--typed")
    assert (done.code, done.err) == (0, "")
    assert "5 markers say what their source says, 1 typed" in done.out
    assert "a version: '3.11'" in done.out
    assert "rewritten" not in attr("verify", document, "--update", "--traces", traces).out
    assert document.read_text() == before
    assert "The margin is <!-- code analyze.verdict.MARGIN :: %.0 -->1 %<!-- end -->, the file has" in before
    assert re.search(r"-->0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]<!-- end --> of the time", before)


def test_json_has_every_marker(document: Path, traces: Path, attr: Callable[..., Any]) -> None:
    found = json.loads(attr("verify", document, "--traces", traces, "--json").out)
    assert (found["same"], found["typed"], len(found["found"])) == (5, 1, 6)


def test_an_edit_in_the_meantime_is_not_overwritten(document: Path, traces: Path) -> None:
    document.write_text(TEXT)
    opened = read_document(document)
    document.write_text(TEXT + "More.\n")
    with pytest.raises(DataError, match="was edited while"):
        update(opened, Sources(traces, printed))
    assert document.read_text() == TEXT + "More.\n"


def fails(done: Any, *words: str) -> None:
    assert done.code == 1, done.out
    for word in words:
        assert word in done.out + done.err
    assert "Traceback" not in done.out + done.err


def test_one_digit_changed_is_noticed_in_every_marker(document: Path, traces: Path, attr: Callable[..., Any]) -> None:
    text = document.read_text()

    def changed(marker: re.Match[str]) -> str:
        at = re.search(r"\d(?!.*\d)", marker[1], re.S).start()
        return f"-->{marker[1][:at]}{(int(marker[1][at]) + 1) % 10}{marker[1][at + 1 :]}<!-- end -->"

    spoiled, count = re.subn(r"(?<!version )-->([^<]*\d[^<]*)<!-- end -->", changed, text)
    document.write_text(spoiled)
    fails(attr("verify", document, "--traces", traces), f"{count} differs", "recomputed is")
    done = attr("verify", document, "--traces", traces, "--update")
    assert (done.code, f"{count} markers rewritten" in done.out, count) == (0, True, 5)
    assert document.read_text() == text


@pytest.mark.parametrize("document_name", ["README.md", "docs/findings/0002-selection-is-still-exposed.md"])
def test_one_digit_changed_in_a_committed_document_is_noticed(
    tmp_path: Path, attr: Callable[..., Any], document_name: str
) -> None:
    text = (ROOT / document_name).read_text(encoding="utf-8")
    first = next(m for m in parse(text).markers if m.kind == "attr" and not figures.is_figure(m))
    text = text[: first.end] + "<!-- end -->\n"
    digit = re.compile(r"\d").search(text, first.start)
    changed = text[: digit.start()] + str((int(digit.group()) + 1) % 10) + text[digit.end() :]
    shutil.copytree(ROOT / "docs/figures", tmp_path / "docs/figures")
    (tmp_path / "changed.md").write_text(changed, encoding="utf-8")
    fails(attr("verify", tmp_path / "changed.md"), "1 differs")


def test_a_recording_with_one_byte_changed_is_noticed(document: Path, traces: Path, attr: Callable[..., Any]) -> None:
    file = traces / NAME / "counters.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    fails(attr("verify", document, "--traces", traces), "damaged", "was changed after it was written")


def test_a_recording_with_one_value_changed_and_hashed_again_is_noticed(
    document: Path, traces: Path, attr: Callable[..., Any]
) -> None:
    old = open_recording(traces / NAME)
    tables = {name: old.table(name) for name in old.table_names}
    main = tables["times"].index[tables["times"]["stage"] == "main"]
    tables["times"].loc[main[0], "time_ns"] *= 1.5
    extra = {k: v for k, v in old.manifest.items() if k not in ("schema", "protocol", "kind", "tables")}
    write_tables(traces / NAME, "run", tables, extra, overwrite=True)
    fails(attr("verify", document, "--traces", traces), "differs")


def test_a_file_with_one_value_changed_is_noticed(document: Path, traces: Path, attr: Callable[..., Any]) -> None:
    (traces / "facts.json").write_text('{"rows": [{"name": "b", "share": 0.251}]}')
    fails(attr("verify", document, "--traces", traces), "1 differs", "recomputed is '25.1 %'")


def test_a_measured_number_outside_markers_is_noticed(document: Path, traces: Path, attr: Callable[..., Any]) -> None:
    document.write_text(document.read_text() + "\nThat is 1.8 ms, or 22 % less.\n")
    fails(attr("verify", document, "--traces", traces), "2 unmarked", "1.8 ms is in no marker", "22 % is in no marker")


@pytest.mark.parametrize(
    ("marker", "reason"),
    [
        ("attr claim h300-nowhere", "is not a recording"),
        ("attr ladder h300-nowhere", "names no recording of traces/"),
        ("attr show {name} ../other", "is not in traces/"),
        ("attr show {name} :: nothing :: n.0", "there is no 'nothing'"),
        ("attr show {name} :: answers[arm=none].base_ns :: ms.1", "0 rows match"),
        ("attr show {name} :: answers", "needs its source and then :: PATH :: FORMAT"),
        ("attr run --variant math_only", "a marker may ask"),
        ("attr show {name} --plot=x.svg", "has no place in a marker"),
        ("attr report {name}", "needs --markdown"),
        ("attr show {name} --frobnicate", "frobnicate"),
        ("file nowhere.json :: a :: n.0", "there is no such file"),
        ("file facts.json :: b :: n.0", "there is no 'b'"),
        ("code analyze.verdict.NOTHING :: n.0", "is no number"),
        ("code os.path.SEP :: n.0", "is no number"),
        ("code analyze.verdict.VERDICTS :: text", "is no number"),
    ],
)
def test_a_marker_without_a_source_is_noticed(
    document: Path, traces: Path, attr: Callable[..., Any], marker: str, reason: str
) -> None:
    document.write_text(f"<!-- {marker.format(name=NAME)} -->1<!-- end -->\n")
    fails(attr("verify", document, "--traces", traces, "--update"), "1 no source", reason)
    assert "-->1<!--" in document.read_text()


def test_a_recording_elsewhere_is_no_source(
    document: Path, traces: Path, attr: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (traces / NAME).rename(traces.parent / NAME)
    monkeypatch.chdir(traces.parent)
    fails(attr("verify", document, "--traces", traces), "no source", "is not in traces/")


def test_a_marker_that_is_not_ended_is_noticed(document: Path, traces: Path, attr: Callable[..., Any]) -> None:
    document.write_text("<!-- attr show a -->1 is not ended")
    fails(attr("verify", document, "--traces", traces), "1 malformed", "never ended")


def test_a_voided_recording_may_be_shown_as_void_only(document: Path, traces: Path, attr: Callable[..., Any]) -> None:
    stated = json.loads((traces / NAME / "manifest.json").read_text())["manifest_sha256"]
    (traces / "VOID.toml").write_text(f'[[void]]\nrecording = "{stated}"\nreason = "the timer was read twice"\n')
    fails(attr("verify", document, "--traces", traces), "differs")
    document.write_text(f"<!-- attr ladder {NAME} :: steps.# :: n.0 -->2<!-- end -->\n")
    fails(attr("verify", document, "--traces", traces), "no source", "is void: the timer was read twice")
    document.write_text(f"<!-- attr claim {NAME} :: claims[arm=score_only].claim :: text -->undecided<!-- end -->\n")
    assert attr("verify", document, "--traces", traces).code == 0


@pytest.mark.parametrize(
    "value",
    [
        "ladder NAME :: steps[rung=full].time_ns :: ms.1",
        "ledger NAME :: main[item=remainder].time_ns :: ms.1",
        "scopes NAME :: scopes[stage=main].time_ns :: ms.1",
    ],
)
def test_a_value_of_a_voided_scope_is_no_source(
    document: Path, traces: Path, attr: Callable[..., Any], value: str
) -> None:
    document.write_text(f"<!-- attr {value.replace('NAME', NAME)} -->0<!-- end -->\n")
    fails(attr("verify", document, "--traces", traces), "differs")
    stated = json.loads((traces / NAME / "manifest.json").read_text())["manifest_sha256"]
    entry = f'[[void]]\nrecording = "{stated}"\nscope = "SCOPE"\nreason = "its clock stood still"\n'
    for scope, outcome in (("cupti", "differs"), ("graph", "the row is void")):
        (traces / "VOID.toml").write_text(entry.replace("SCOPE", scope))
        fails(attr("verify", document, "--traces", traces), outcome)


def test_a_report_in_markdown_is_a_document_of_its_own(tmp_path: Path, attr: Callable[..., Any]) -> None:
    text = attr("report", "h200-hello", "--markdown").out
    (tmp_path / "report.md").write_text(f"# A report\n\n{text}", encoding="utf-8")
    done = attr("verify", tmp_path / "report.md")
    assert (done.code, "1 markers say" in done.out) == (0, True), done.out + done.err
    (tmp_path / "report.md").write_text(re.sub(r"1\.02", "1.01", text, count=1), encoding="utf-8")
    fails(attr("verify", tmp_path / "report.md"), "1 differs")


def test_a_report_as_a_page_is_compared_whole(document: Path, traces: Path, attr: Callable[..., Any]) -> None:
    page = document.with_name("page.html")
    assert attr("report", traces / NAME, "--out", page).code == 0
    assert attr("verify", page, "--traces", traces).code == 0
    text = page.read_text(encoding="utf-8")
    ratio = re.search(r"0\.79\d(\d)", text) or re.search(r"0\.80\d(\d)", text)
    page.write_text(text[: ratio.start(1)] + str((int(ratio[1]) + 1) % 10) + text[ratio.end(1) :], encoding="utf-8")
    fails(attr("verify", page, "--traces", traces), "1 differs", "recomputed is")
    assert attr("verify", page, "--traces", traces, "--update").code == 0
    assert page.read_text(encoding="utf-8") == text
    page.write_text("<p>1.8 ms</p>")
    fails(attr("verify", page, "--traces", traces), "1 no source", "is no page of `attr report`")
    page.write_text("<!-- attr report h300-nowhere --><p>1.8 ms</p>")
    fails(attr("verify", page, "--traces", traces), "1 no source", "names no recording")


def test_cells_of_a_notebook_are_documents(tmp_path: Path, traces: Path, attr: Callable[..., Any]) -> None:
    path = tmp_path / "a.ipynb"
    notebook = json.loads((ROOT / "notebooks" / "02_math_only_control.ipynb").read_text(encoding="utf-8"))
    marked = f"Steps × rungs:\n<!-- attr ladder {NAME} :: steps.# :: n.0 -->2<!-- end -->\n".splitlines(keepends=True)
    notebook["cells"] = [{**notebook["cells"][0], "source": marked}, *notebook["cells"][1:3]]
    path.write_text(text := json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert attr("verify", path, "--traces", traces).code == 0
    path.write_text(text.replace("-->2<!--", "-->3<!--"), encoding="utf-8")
    fails(attr("verify", path, "--traces", traces), "cell 0, line 2", "1 differs")
    assert attr("verify", path, "--traces", traces, "--update").code == 0
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("name", "content", "code", "reason"),
    [
        ("nowhere.md", None, 2, "is not there"),
        ("a.txt", b"1.8 ms", 2, "allowed are Markdown"),
        ("a.md", b"\xff\xfe", 1, "cannot be read as UTF-8"),
        ("a.ipynb", b"{}", 1, "is not a notebook"),
        ("a.ipynb", b"[", 1, "is not a notebook"),
        ("a.ipynb", b'{"cells": [{"cell_type": "markdown", "source": [1, 2]}]}', 1, "whose source is no text"),
    ],
    ids=["missing", "another ending", "not text", "no cells", "no JSON", "no text in a cell"],
)
def test_what_is_no_document_is_a_sentence(
    tmp_path: Path, attr: Callable[..., Any], name: str, content: bytes | None, code: int, reason: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = attr("verify", tmp_path / name)
    assert (done.code, reason in done.err) == (code, True), done.err


def test_an_empty_folder_has_no_documents(tmp_path: Path, attr: Callable[..., Any]) -> None:
    done = attr("verify", tmp_path)
    assert (done.code, "has no documents" in done.err) == (2, True)
    assert attr("verify", "--traces", tmp_path / "none").code == 2


def test_update_fills_in_a_hash_and_never_rewrites_one(traces: Path, attr: Callable[..., Any]) -> None:
    """Planted: another file in the place of one that was described.  Numbers may follow a recording; evidence may not change."""
    document = traces.parent / "facts.md"
    document.write_text("The file <!-- file facts.json :: sha256 :: text --><!-- end -->.\n")
    assert "1 markers rewritten" in attr("verify", document, "--update", "--traces", traces).out
    before = document.read_text()
    (traces / "facts.json").write_text(json.dumps({"rows": []}))
    fails(attr("verify", document, "--update", "--traces", traces), "differs", "another file; put the old one back")
    assert document.read_text() == before


@pytest.mark.parametrize("verb", ["claim", "show"])
def test_no_single_number_comes_from_a_void_row(traces: Path, attr: Callable[..., Any], verb: str) -> None:
    """Planted: an arm with unequal work.  Its ratio alone would look like any other."""
    arms = {name: planted.TIMES[name] for name in ("full", "score_only")} | {"null": planted.TIMES["full"]}
    work = {arm: {"tma_loads": 64.0 + (arm == "score_only"), "tensor_instructions": 9.0} for arm in arms}
    variants = planted.ladder_variants()
    variants["score_only"]["expects"] = {"planted": {"time_ratio": [0.7, 0.9]}}
    planted.recording(traces / "void", planted.measured({"full": arms}, work=work), variants)
    rows, key = ("claims", "value,low,high") if verb == "claim" else ("answers", "time_ratio")
    document = traces.parent / "void.md"
    document.write_text(f"<!-- attr {verb} void :: {rows}[arm=score_only].{key} :: n.3 -->0.800<!-- end -->\n")
    fails(attr("verify", document, "--traces", traces), "no source", "the row is void")
    document.write_text(f"<!-- attr {verb} void -->\n<!-- end -->\n")
    assert attr("verify", document, "--update", "--traces", traces).code == 0


def test_how_far_it_is_is_shown_while_commands_print_elsewhere(
    document: Path, traces: Path, attr: Callable[..., Any]
) -> None:
    shutil.copy(document, document.with_name("other.md"))
    done = attr("verify", document, document.with_name("other.md"), "--traces", traces)
    assert (done.code, done.out) == (0, "2 documents: 10 markers say what their source says, 2 typed\n")
    assert "2/2" in done.err
    assert attr("verify", document, document.with_name("other.md"), "--traces", traces, "--json").err == ""
