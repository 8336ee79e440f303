"""Every notebook runs from the committed recordings, is short, and was committed with its figures and with what it prints."""

from __future__ import annotations

import copy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

MEASURES_HERE = "measures-here"
"""Tag of a cell whose output is measured while the notebook runs, and so differs each time."""


def printed(cell: nbformat.NotebookNode) -> str:
    """The text of a cell's outputs; figures are not compared."""
    parts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream" and output.name == "stdout":
            parts.append(output.text)
        elif "image/png" not in output.get("data", {}):
            parts.append(output.get("data", {}).get("text/plain", ""))
    return "".join(parts)


def stale(committed: nbformat.NotebookNode, executed: nbformat.NotebookNode) -> list[int]:
    """Numbers of the cells whose committed text is not what they print now."""
    pairs = enumerate(zip(committed.cells, executed.cells, strict=True))
    return [i for i, (a, b) in pairs if printed(a) != printed(b) and MEASURES_HERE not in b.metadata.get("tags", [])]


def test_a_changed_digit_is_noticed_unless_it_is_measured_anew() -> None:
    def notebook(first: str, second: str, **metadata: object) -> nbformat.NotebookNode:
        shown = nbformat.v4.new_output("execute_result", {"text/plain": second})
        outputs = [nbformat.v4.new_output("stream", name="stdout", text=first), shown]
        return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=outputs, metadata=metadata)])

    was = notebook("1.8 ms\n", "0.91")
    assert stale(was, was) == []
    assert stale(was, notebook("1.9 ms\n", "0.91")) == stale(was, notebook("1.8 ms\n", "0.92")) == [0]
    assert stale(was, notebook("1.9 ms\n", "0.91", tags=[MEASURES_HERE])) == []


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_runs_from_committed_recordings(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert len(notebook.cells) <= 15
    committed = copy.deepcopy(notebook)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
    figures = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert figures, "a notebook shows at least one figure"
    assert stale(committed, notebook) == [], "these cells print something else than what was committed: execute again"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_was_committed_with_its_figures_and_no_error(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert any("image/png" in o.get("data", {}) for o in outputs)
    assert not any(o.output_type == "error" for o in outputs)
    assert str(FOLDER.parent) not in path.read_text(encoding="utf-8")
