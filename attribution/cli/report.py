"""`attr report RECORDING`: everything a recording says, as one page to read and to pass on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import open_named
from attribution.errors import InputError


def report(
    path: Annotated[Path, typer.Argument(help="A recording (yours, or the name of a shipped one).")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The page; NAME.html here when not given. With --markdown a new file.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Markdown between markers, to the terminal when --out is not given.")
    ] = False,
) -> None:
    """Write one self-contained HTML page: claims, ledger, ladder, tails, timeline and provenance.

    It opens from disk, asks no network for anything, and holds no script.
    """
    target = None if markdown and out is None else _target(path, out, markdown)
    recording = open_named(path)
    from attribution.show.report import report as made

    whole = made(recording)
    if markdown:
        from attribution.show.report_markdown import markdown as written
    else:
        from attribution.show.report_html import html as written
    text = written(whole)
    if target is None:
        print(text, end="")
        return
    from attribution.show.whole import whole_file

    with whole_file(target) as draft:
        draft.write_text(text, encoding="utf-8")
    print(f"report: {target}")


def _target(path: Path, out: Path | None, markdown: bool) -> Path:
    """Where the report goes.  Raises InputError for another ending, or for what is there already and is not replaced."""
    target = out or Path(f"{path.resolve().name}.html")
    allowed = (".md",) if markdown else (".html", ".htm")
    if target.suffix.lower() not in allowed:
        raise InputError(f"--out {target}: the ending says the format; allowed is {' or '.join(allowed)}")
    if not markdown and (target.is_symlink() or (target.is_file() and not _is_report(target))):
        raise InputError(
            f"--out {target} exists and is no page of `attr report`, and only such a page is replaced: choose a new file"
        )
    if markdown and target.exists():
        raise InputError(
            f"--out {target} exists, and a text is never replaced: print to the terminal, or choose a new file"
        )
    return target


def _is_report(file: Path) -> bool:
    """Whether a file begins as the pages do that this verb writes."""
    try:
        with file.open("rb") as opened:
            return opened.read(64).startswith(b"<!doctype html>\n<!-- attr report ")
    except OSError:
        return False
