"""`attr verify [PATHS...]`: every number of a document against the recordings it comes from."""

from __future__ import annotations

import contextlib
import functools
import io
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from attribution.cli.options import Json, Traces, traces_folder
from attribution.cli.output import print_json, progress_bar
from attribution.errors import DataError, InputError
from attribution.load import shipped_root


def verify(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Markdown files, notebooks or folders; this checkout's when none is given."),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="First write what the recordings say between the markers.")
    ] = False,
    typed: Annotated[bool, typer.Option("--typed", help="List what was typed with a reason.")] = False,
    traces: Traces = None,
    json: Json = False,
) -> None:
    """Recompute every number between markers; fail on each that differs, has no source, or stands outside markers.

    docs/numbers.md says what counts as a measured number and how markers are written.
    """
    from attribution import verify as checks
    from attribution.verify.documents import documents
    from attribution.verify.sources import Sources

    found_documents = documents(shipped_root(), paths or ())
    sources = Sources(traces_folder(traces), printed)
    found: list[checks.Found] = []
    rewritten = {}
    with progress_bar(quiet=json or len(found_documents) == 1) as progress:
        for done, document in enumerate(found_documents):
            progress(done, len(found_documents), str(document.path))
            rewritten[document.path] = checks.update(document, sources) if update else 0
            found += checks.verify(document, sources)
        progress(len(found_documents), len(found_documents), str(sources.traces))
        found += checks.damaged(sources)
    failures = [f for f in found if f.state in checks.FAILURES]
    counts = Counter(f.state for f in found)
    if json:
        print_json({"found": [vars(f) for f in found], **counts})
    else:
        for path, count in rewritten.items():
            if count:
                print(f"{path}: {count} markers rewritten")
        for one in failures:
            print(one)
        for one in found if typed else ():
            if one.state == "typed":
                print(f"{one}: {one.stated!r}")
        print(
            f"{len(found_documents)} documents: {counts['same']} markers say what their source says, {counts['typed']} typed"
        )
    if failures:
        told = ", ".join(f"{counts[state]} {state}" for state in checks.FAILURES if counts[state])
        raise DataError(f"verify: {told}; `attr verify --update` rewrites what differs, the rest is yours to correct")


def printed(words: Sequence[str]) -> str:
    """What the command prints, in this process, on a terminal of 160 columns.  Raises AttrError."""
    out, columns = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "160"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            _program().main(list(words), prog_name="attr", standalone_mode=False)
    except Exception as error:
        # A usage error of the command line; its class is not the same one in every version of typer.
        if not hasattr(error, "format_message"):
            raise
        raise InputError(f"attr {' '.join(words)}: {error}") from error
    finally:
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    return out.getvalue()


@functools.cache
def _program() -> Any:
    """The command line, made once."""
    from typer.main import get_command

    from attribution.cli import app

    return get_command(app)
