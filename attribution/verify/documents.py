"""Documents with markers: Markdown files, the Markdown cells of notebooks, and pages that `attr report` made.

In: paths.  Out: their texts by place, and the files again after a text was changed.
Misuse: outputs of a notebook's cells are not read here; the tests execute the notebook and compare them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribution.errors import DataError, InputError
from attribution.show.whole import whole_file
from attribution.verify.pages import ENDINGS

PATTERNS = ("*.md", "docs/**/*.md", "docs/**/*.html", "traces/*.md", "bench/**/*.md", "notebooks/*.ipynb")
"""Where a checkout has documents."""


@dataclass
class Document:
    """`texts` are (place, text): one of place '' for a file of text, `cell N` for each Markdown cell, N from 0."""

    path: Path
    texts: list[tuple[str, str]]

    def __post_init__(self) -> None:
        self._read = list(self.texts)

    def write(self) -> None:
        """Put the texts back, the file written whole.  Raises MeasureError, and DataError when it was edited meanwhile."""
        if self.texts == self._read:
            return
        if read_document(self.path).texts != self._read:
            raise DataError(
                f"{self.path} was edited while its numbers were recomputed; nothing was written: run it again"
            )
        if self.path.suffix == ".ipynb":
            notebook = _notebook(self.path)
            for place, text in self.texts:
                notebook["cells"][int(place.removeprefix("cell "))]["source"] = text.splitlines(keepends=True)
            text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        else:
            text = self.texts[0][1]
        with whole_file(self.path) as draft:
            draft.write_text(text, encoding="utf-8")


def documents(root: Path, paths: Sequence[Path] = ()) -> list[Document]:
    """The documents at `paths` (folders: all in them), or those of a checkout at `root`.  Raises InputError, DataError."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} is not there; give Markdown files, notebooks, or folders with them")
        inside = (
            [p for ending in ("*.md", "*.html", "*.ipynb") for p in sorted(path.rglob(ending))]
            if path.is_dir()
            else [path]
        )
        found += inside
    if not paths:
        found = [path for pattern in PATTERNS for path in sorted(root.glob(pattern))]
    if not found:
        raise InputError(f"{root if not paths else paths[0]} has no documents: give Markdown files or notebooks")
    here = Path.cwd()
    shown = (path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path for path in found)
    return [read_document(path) for path in dict.fromkeys(shown)]


def read_document(path: Path) -> Document:
    """One document.  Raises InputError for another ending, DataError when it cannot be read."""
    if path.suffix == ".ipynb":
        cells = enumerate(_notebook(path)["cells"])
        return Document(path, [(f"cell {i}", "".join(c["source"])) for i, c in cells if c["cell_type"] == "markdown"])
    if path.suffix not in (".md", *ENDINGS):
        raise InputError(f"{path}: allowed are Markdown (.md), notebooks (.ipynb) and reports (.html)")
    try:
        return Document(path, [("", path.read_text(encoding="utf-8"))])
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as UTF-8 text: {error}") from error


def _notebook(path: Path) -> Any:
    """The notebook, after a look at what is read of it.  Raises DataError."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            if not isinstance(cell["cell_type"], str) or not isinstance(cell["source"], (str, list)):
                raise TypeError("a cell without cell_type or source")
            if not all(isinstance(line, str) for line in cell["source"]):
                raise TypeError("a cell whose source is no text")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a notebook: {type(error).__name__}: {error}") from error
    return notebook
