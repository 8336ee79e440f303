"""A report holds what the analysis says, in its order; what is missing is said; names from files stay text."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import planted_report

from attribution.claim import answers
from attribution.errors import AttrError, DataError
from attribution.recording import Recording, open_recording
from attribution.show import report_html, report_markdown
from attribution.show.cells import DASH, interval_ms, interval_ratio, interval_share, text
from attribution.show.report import report
from attribution.show.report_blocks import Report
from attribution.tables import records

ORDER = ["claims", "ledger", "ladder", "tails", "timeline", "provenance"]
TAGS = set(
    re.findall(
        r"\w+",
        "html head meta link title style body header nav main footer section div p span small h1 h2 h3 dl dt dd a code "
        "details summary figure figcaption table thead tbody tr th td svg g desc text rect line circle",
    )
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def whole(folder: Path) -> Recording:
    return planted_report.whole(folder / "whole")


@pytest.fixture(scope="module")
def made(whole: Recording) -> Report:
    return report(whole)


@pytest.fixture(scope="module")
def page(made: Report) -> str:
    return report_html.html(made)


@pytest.fixture(scope="module")
def markup_names(folder: Path) -> Recording:
    return planted_report.hostile(folder / "hostile")


@pytest.fixture(scope="module")
def hostile(markup_names: Recording) -> Report:
    return report(markup_names)


class Seen(HTMLParser):
    """Tags, attributes and ids of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def problems(page: str) -> list[str]:
    """What a page must not hold: unknown elements, handlers, addresses that leave the page."""
    seen = Seen(page)
    found = [f"element {tag}" for tag in seen.tags if tag not in TAGS]
    found += [f"handler {name}" for name, _ in seen.attributes if name.startswith("on")]
    leaves = [v for n, v in seen.attributes if n in ("href", "src", "srcset", "action", "xlink:href")]
    found += [f"address {v}" for v in leaves if not (v.startswith("#") or v == "data:,")]
    return found + re.findall(r"(?:https?:)?//[a-z][^\s<]*|url\([^)]*\)|@import", page)


def test_the_sections_stand_in_order_and_are_linked(page: str) -> None:
    assert re.findall(r'<section id="(\w+)">', page) == ORDER
    assert re.findall(r'<a href="#(\w+)">', page) == ORDER


def test_every_answer_of_the_claims_is_in_the_page(whole: Recording, page: str) -> None:
    rows = records(answers(whole))
    assert len(rows) == page.count('<details class="claim">') > 3
    for row in rows:
        assert interval_ratio(row) in page
    found = re.findall(r'<code>([\w+]+)</code><small>.*?<span class="says"><span class="badge \w+">(\w+)', page, re.S)
    assert found == [(row["arm"], row["verdict"]) for row in rows]


def test_terms_of_the_accounts_are_those_of_the_analysis(whole: Recording, page: str) -> None:
    from attribution.analyze.book import book
    from attribution.analyze.ladder import ladder

    found = book(whole, "full")
    for row in [*records(found.operator), *records(found.main)]:
        cell = interval_ms({"t_ns": row["time_ns"], "t_low_ns": row["low_ns"], "t_high_ns": row["high_ns"]}, "t")
        assert f">{cell}</td>" in page, row["item"]
    tables = {name: whole.table(name) for name in ("runs", "times", "counters", "checks")}
    for step in records(ladder(tables, whole.manifest["variants"], "full", tick_ns=32.0)):
        assert f">{interval_ms(step, 'step')}</td>" in page, step["rung"]


def test_a_trace_gives_figures_and_without_one_the_missing_scope_is_named(page: str, folder: Path) -> None:
    assert 'id="sms-' in page
    assert 'id="timeline-' in page
    assert "not recorded:" not in page
    bare = report_html.html(report(planted_report.untraced(folder / "untraced")))
    for anchor in ("tails", "timeline"):
        part = bare.split(f'<section id="{anchor}">')[1].split("</section>")[0]
        assert "Scope trace was not recorded" in part
        assert "<svg" not in part
    ladder = bare.split('<section id="ladder">')[1].split("</section>")[0]
    assert "no ladder below" in ladder
    assert re.search(r"<code>graph</code></td><td class=\"text\">\d+ runs", bare)
    assert '<code>event</code></td><td class="text">not recorded' in bare


def test_every_figure_has_a_text_alternative_with_numbers_and_ids_are_unique(page: str) -> None:
    figures = re.findall(r'<svg role="img" aria-labelledby="(\S+) (\S+)".*?</svg>', page, re.S)
    assert len(figures) >= 4
    for title, desc in figures:
        assert re.search(rf'<title id="{title}">\S.+?</title>', page)
        assert re.search(rf'<desc id="{desc}">[^<]*\d[^<]*</desc>', page)
    ids = [value for name, value in Seen(page).attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_a_page_holds_nothing_but_text_tables_and_figures(page: str, hostile: Report) -> None:
    assert problems(page) == []
    assert problems(report_html.html(hostile)) == []


def test_names_that_are_markup_are_text(hostile: Report) -> None:
    page = report_html.html(hostile)
    seen = Seen(page)
    for name in (planted_report.SCRIPT, planted_report.ARM, planted_report.ROLE, planted_report.ASKS):
        assert name not in page
        assert name in seen.text + " ".join(value for _, value in seen.attributes)


@pytest.mark.parametrize("module", ["report_html", "report_svg"])
def test_a_forgotten_escape_is_noticed(markup_names: Recording, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setattr(f"attribution.show.{module}.escape", lambda text, quote=True: text)
    assert problems(report_html.html(report(markup_names))) != []


@pytest.mark.parametrize(
    "fault", ['<img src="x.png">', '<a href="https://example.org">', "<p onclick=f()>", "<style>@import 'x'</style>"]
)
def test_what_a_page_must_not_hold_is_noticed(page: str, fault: str) -> None:
    assert problems(page.replace("<main>", f"<main>{fault}")) != []


def test_a_recording_that_was_changed_gives_no_report(whole: Recording, tmp_path: Path, attr: Callable) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole.path, copy)
    file = copy / "times.parquet"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match="was changed"):
        report(open_recording(copy))
    done = attr("report", copy, "--out", tmp_path / "page.html")
    assert (done.code, done.out) == (1, "")
    assert [p.name for p in tmp_path.iterdir()] == ["copy"]


def unescaped_pipes(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line))


@pytest.mark.parametrize("which", ["whole", "hostile"])
def test_markdown_stands_between_its_markers_and_tables_keep_their_columns(
    made: Report, hostile: Report, which: str
) -> None:
    written = report_markdown.markdown({"whole": made, "hostile": hostile}[which])
    lines = written.rstrip("\n").split("\n")
    assert lines[0] == f"<!-- attr report {which} --markdown -->"
    assert lines[-1] == "<!-- end -->"
    assert written.count("<!--") == written.count("-->") == 2
    assert "<" not in written.replace("<!--", "")
    assert [line[3:].lower() for line in lines if line.startswith("## ")] == ORDER
    width = 0
    for before, line in zip(lines, lines[1:], strict=False):
        if line.startswith("|"):
            width = width if before.startswith("|") else unescaped_pipes(line)
            assert unescaped_pipes(line) == width, line
    assert width


def test_tables_are_read_once_and_left_as_they_are(
    whole: Recording, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    own = Recording.table

    def counting(recording: Recording, name: str) -> object:
        read.append(name)
        return own(recording, name)

    monkeypatch.setattr(Recording, "table", counting)
    report(whole)
    # Times are checked against runs, which the recording reads for itself.
    assert all(read.count(name) == 1 for name in set(read) - {"runs"})
    monkeypatch.setattr("attribution.show.report.Held.table", lambda held, name: own(held, name))
    assert report_html.html(report(whole)) == page


def test_markdown_says_the_numbers_of_the_page(whole: Recording, made: Report) -> None:
    written = report_markdown.markdown(made).replace("\\", "")
    for row in records(answers(whole)):
        assert f"| {interval_ratio(row)} | {row['verdict']} |" in written


def test_the_verb_writes_a_page_of_the_recordings_name(
    whole: Recording, made: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attr: Callable, page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert attr("report", whole.path).out == "report: whole.html\n"
    assert (tmp_path / "whole.html").read_text(encoding="utf-8") == page
    monkeypatch.setattr("attribution.show.report.report", lambda recording: made)
    assert attr("report", whole.path).code == 0  # Its own page is replaced.
    printed = attr("report", whole.path, "--markdown").out
    assert printed == report_markdown.markdown(made)
    assert attr("report", whole.path, "--markdown", "--out", "new.md").code == 0
    assert (tmp_path / "new.md").read_text(encoding="utf-8") == printed
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.md", "whole.html"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--out", "page.txt"], "allowed is .html or .htm"),
        (["--out", "page.html", "--markdown"], "allowed is .md"),
        (["--out", "README.md", "--markdown"], "never replaced"),
        (["--out", "no/such/folder/page.html"], "cannot write"),
        (["--out", "mine.html"], "only such a page is replaced"),
        (["--out", "link.html"], "only such a page is replaced"),
    ],
    ids=["ending", "markdown-ending", "text-in-the-way", "no-folder", "foreign-page", "link"],
)
def test_what_cannot_be_written_is_one_sentence(
    made: Report,
    whole: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    attr: Callable,
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("attribution.show.report.report", lambda recording: made)
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "mine.html").write_text("mine")
    (tmp_path / "link.html").symlink_to("gone.html")
    done = attr("report", whole.path, *arguments)
    assert done.code in (1, 2)
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["README.md", "link.html", "mine.html"]
    assert {(tmp_path / name).read_text() for name in ("README.md", "mine.html")} == {"mine"}
    assert (tmp_path / "link.html").is_symlink()


def test_what_is_no_recording_is_refused(tmp_path: Path, attr: Callable) -> None:
    done = attr("report", tmp_path / "nothing")
    assert done.code == 2
    assert "not a recording" in done.err


def test_ingested_files_have_a_report_of_their_own(tmp_path: Path, attr: Callable) -> None:
    name = "<script>alert(1)</script>"
    file = tmp_path / "counters.csv"
    terminal = (Path(__file__).parents[1] / "data" / "ingest" / "terminal.csv").read_text(encoding="utf-8")
    file.write_text(re.sub(r'"k<[^"]*"', f'"{name}"', terminal), encoding="utf-8")
    assert attr("ingest", file, "--out", tmp_path / "held").code == 0
    assert attr("report", tmp_path / "held", "--out", tmp_path / "held.html").code == 0
    page = (tmp_path / "held.html").read_text(encoding="utf-8")
    assert problems(page) == []
    assert name in Seen(page).text
    assert "nothing is claimed" in page


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (interval_ms({"t_ns": 1.5e6, "t_low_ns": 1e6, "t_high_ns": 2e6}, "t"), "1.500 [1.000, 2.000]"),
        (interval_ms({"t_ns": 1.5e6, "t_low_ns": float("nan"), "t_high_ns": float("nan")}, "t"), "1.500"),
        (interval_ms({"t_ns": 1e4, "t_low_ns": -2e3, "t_high_ns": 2e4}, "t"), "0.010 [-0.002, 0.020]"),
        (interval_ms({"t_ns": -8.9e3, "t_low_ns": -9.2e3, "t_high_ns": -8.6e3}, "t"), "-0.0089 [-0.0092, -0.0086]"),
        (interval_ms({"t_ns": 109.0, "t_low_ns": 12.0, "t_high_ns": 201.0}, "t"), "0.00011 [0.00001, 0.00020]"),
        (interval_ms({"t_ns": 0.0, "t_low_ns": 0.0, "t_high_ns": 0.0}, "t"), "0.000 [0.000, 0.000]"),
        (interval_ms(dict.fromkeys(("t_ns", "t_low_ns", "t_high_ns"), float("nan")), "t"), DASH),
        (interval_share(0.123, 0.12, 0.13), "12.30 % [12.00, 13.00]"),
        (interval_share(float("nan"), 0.0, 0.0), DASH),
        (interval_ratio({"time_ratio": 0.5, "time_ratio_low": 0.4, "time_ratio_high": 0.6}), "0.5000 [0.4000, 0.6000]"),
        (text(None), DASH),
        (text(True), "yes"),
        (text([1.0, 2]), "1, 2"),
    ],
    ids=[
        "ms",
        "ms-alone",
        "ms-10us",
        "ms-short",
        "ms-shorter",
        "ms-zero",
        "ms-unknown",
        "share",
        "share-unknown",
        "ratio",
        "none",
        "bool",
        "list",
    ],
)
def test_cells(cell: str, shown: str) -> None:
    assert cell == shown


def test_refusals_of_the_analysis_are_sentences_in_the_page(whole: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AttrError("planted refusal")

    monkeypatch.setattr("attribution.claim.answers", refuse)
    monkeypatch.setattr("attribution.analyze.book.book", refuse)
    monkeypatch.setattr("attribution.analyze.critical.path", refuse)
    page = report_html.html(report(whole))
    assert "No claims: planted refusal" in page
    assert "full: planted refusal" in page
    assert "No critical path: planted refusal" in page
