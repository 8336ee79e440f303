"""`attr selectors`: exact top-k selectors side by side: measure a sweep, or read one again."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import Json, Out, Overwrite, Root, open_named, root_folder
from attribution.cli.output import print_json, print_rows, progress_bar
from attribution.errors import InputError

Sizes = Annotated[list[str] | None, typer.Option(help="Sizes, separated by commas; may be repeated.")]


def selectors(
    path: Annotated[
        Path | None, typer.Argument(help="A recording of a sweep to read; without one, the sweep is measured.")
    ] = None,
    columns: Sizes = None,
    rows: Sizes = None,
    k: Annotated[list[str] | None, typer.Option("--k", help="Entries to select; as --columns.")] = None,
    distribution: Annotated[
        list[str] | None, typer.Option("--distribution", help="Distribution of the scores; all and every --file.")
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", help="[NAME=]FILE: captured scores, or an indexer's q, k and w (.npy, .safetensors)."),
    ] = None,
    selector: Annotated[
        list[str] | None, typer.Option("--selector", help="Only these, and the base; may be repeated.")
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Which selectors are known, and which can be used here.")
    ] = False,
    machine: Annotated[
        str, typer.Option("--machine", help="auto, host (numpy's selectors, virtual time), or cuda.")
    ] = "auto",
    scope: Annotated[str | None, typer.Option("--scope", help="graph or event: to measure in, or to read.")] = None,
    cache: Annotated[str, typer.Option("--cache", help="warm, or cold: rotate over more than the L2.")] = "warm",
    rounds: Annotated[int, typer.Option("--rounds", min=0, help="Rounds at each point.")] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**62, help="Seed of the inputs.")] = 1,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds of silence that count as a hang.")
    ] = 120.0,
    first: Annotated[str | None, typer.Option("--first", help="Selector that --second is compared with.")] = None,
    second: Annotated[
        str | None, typer.Option("--second", help="The other one; both: where inputs matter most.")
    ] = None,
    random: Annotated[str, typer.Option("--random", help="Distribution that a benchmark would have used.")] = "normal",
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished sweep at --out.")] = False,
    overwrite: Overwrite = False,
    root: Root = None,
    json: Json = False,
) -> None:
    """Compare top-k selectors over widths and distributions: table, crossovers, dispatch rule, and what random inputs claim.

    Each is checked exact before it is timed, in every run, and after.
    """
    from attribution.cli.selectors_table import answer, show
    from attribution.measure import selectors as sides

    if listed:
        _list(root_folder(root), json)
        return
    if resume and path is None and out is None:
        raise InputError("--resume needs --out: the recording whose .partial folder is to go on")
    if path is not None:
        measuring = {"--columns": columns, "--rows": rows, "--k": k, "--distribution": distribution, "--file": file,
                     "--selector": selector, "--rounds": rounds, "--out": out, "--resume": resume,
                     "--overwrite": overwrite, "--root": root, "--machine": machine != "auto", "--cache": cache != "warm",
                     "--seed": seed != 1}  # fmt: skip
        if given := [n for n, v in measuring.items() if v]:
            raise InputError(f"{given[0]} belongs to measuring, and {path} is read: leave out one of them")
        recording = open_named(path)
    else:
        axes = sides.Axes(
            sizes("--columns", columns), sizes("--rows", rows), sizes("--k", k), tuple(distribution or ()),
            files(file or ()), tuple(selector or ()), rounds, seed,
        )  # fmt: skip
        asked = sides.ask(root_folder(root), machine, axes)
        to = out or Path("recordings") / f"selectors-{time.strftime('%Y%m%d-%H%M%S')}"
        options = sides.options(asked, scope, cache, timeout)
        try:
            with progress_bar(quiet=json) as progress:
                recording = sides.measure(asked, to, progress, options, resume, overwrite)
        except KeyboardInterrupt:
            print(f"attr: stopped; finished runs are kept: go on with --out {to} --resume", file=sys.stderr)
            raise typer.Exit(130) from None
        scope = None
    found = answer(recording, scope, first, second, random)
    print_json(found.json()) if json else show(found)


def _list(root: Path, json: bool) -> None:
    from attribution.measure import selectors as sides

    rows = [
        {"selector": facts["name"], "machine": where, "version": facts["version"],
         "usable": facts["missing"] or "installed", "needs": "; ".join(facts["needs"]) or "-"}
        for where in ("cuda", "host")
        for facts in sides.known(root, where)
    ]  # fmt: skip
    print_json(rows) if json else print_rows(rows)


def sizes(option: str, texts: Sequence[str] | None) -> tuple[int, ...]:
    """`["8192,16384", "32768"]` -> three sizes.  Raises InputError."""
    out = []
    for text in [part for given in texts or () for part in given.split(",")]:
        if not (text.strip().isascii() and text.strip().isdigit() and 0 < int(text) < 2**31):
            raise InputError(f"{option} {text!r}: allowed are whole numbers above 0, separated by commas: 8192,16384")
        out.append(int(text))
    return tuple(dict.fromkeys(out))


def files(texts: Sequence[str]) -> dict[str, Path]:
    """`NAME=FILE`, or FILE whose name is then its own.  Raises InputError."""
    out: dict[str, Path] = {}
    for text in texts:
        name, mark, rest = text.partition("=")
        file = Path(rest if mark else text)
        name = name if mark else file.stem
        if not name or name in out:
            raise InputError(
                f"--file {text!r}: the name {name!r} is {'used twice' if name else 'empty'}; say NAME={file}"
            )
        out[name] = file
    return out
