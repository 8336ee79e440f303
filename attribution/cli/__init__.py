"""The command `attr`: one module a verb, each a plain function; `main` is where errors become a sentence and an exit code.

Nothing heavy is imported here or at the top of a verb's module: `attr --help` must start faster than `import pandas`.
"""

from __future__ import annotations

import contextlib
import os
import sys

import typer

from attribution import __version__
from attribution.cli import (
    build,
    capacity,
    claim,
    explain,
    export,
    finish,
    ingest,
    ladder,
    ledger,
    new,
    noise,
    overlap,
    predict,
    prefill,
    reconcile,
    report,
    roofline,
    run,
    scopes,
    selectors,
    show,
    slack,
    tails,
    verify,
    versus,
)
from attribution.cli import compare as compare_verb
from attribution.cli import list as list_verb
from attribution.errors import AttrError

app = typer.Typer(
    help="Which mechanism sets a GPU kernel's time? Controlled variants, paired measurement, traces from inside.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(new.new)
app.command("list")(list_verb.list_)
app.command()(build.build)
app.command()(run.run)
app.command()(finish.finish)
app.command()(predict.predict)
app.command()(ingest.ingest)
app.command()(show.show)
app.command()(scopes.scopes)
app.command()(noise.noise)
app.command("compare")(compare_verb.compare)
app.command()(claim.claim)
app.command()(verify.verify)
app.command()(export.export)
app.command()(ladder.ladder)
app.command()(ledger.ledger)
app.command()(tails.tails)
app.command()(overlap.overlap)
app.command()(explain.explain)
app.command()(slack.slack)
app.command()(capacity.capacity)
app.command()(roofline.roofline)
app.command()(prefill.prefill)
app.command()(reconcile.reconcile)
app.command()(selectors.selectors)
app.command()(report.report)
app.command()(versus.versus)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        print(f"attribution {__version__}")
        raise typer.Exit()


def main() -> None:
    """Entry point of `attr` and of `python -m attribution`."""
    if sys.stdout is None:
        print("attr: standard output is closed: nothing was done; open it, or send it to a file", file=sys.stderr)
        sys.exit(1)
    try:
        try:
            app()
        finally:
            # What is still buffered fails here, where it can be said, and not while the interpreter ends.
            sys.stdout.flush()
    except AttrError as error:
        print(f"attr: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`attr list | head`): say nothing, and keep exit from flushing into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        print(f"attr: {error.strerror or error}: {error.filename or 'standard output'}", file=sys.stderr)
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
