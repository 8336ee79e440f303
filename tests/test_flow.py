"""The shape of the package: imports point one way, and importing does nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "attribution"
ORDER = [
    {"errors"},
    {"tables", "schedule", "order", "launch", "collector", "called"},
    {"declare"},
    {"declared"},
    {"load"},
    {"plan", "scaffold", "layout"},
    {"build"},
    {"manifest", "measured", "stored"},
    {"recording"},
    {"partial"},
    {"ingest"},
    {"measure"},
    {"kernels"},
    {"prefill"},
    {"analyze"},
    {"claim"},
    {"show"},
    {"verify"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


def stage_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_stages(source: str) -> set[str]:
    """Stages of `attribution` that this source imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            parts = node.module.split(".")
            if parts[0] == "attribution":
                names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("attribution.")}
    return names - {"__version__"} - {n for n in names if n[0].isupper()}


def backwards(stage: str, source: str) -> set[str]:
    return {s for s in imported_stages(source) if s != stage and RANK[s] >= RANK[stage]}


MODULES = sorted(f for f in PACKAGE.rglob("*.py") if f.name != "__init__.py" or f.parent != PACKAGE)


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_point_one_way(file: Path) -> None:
    assert backwards(stage_of(file), file.read_text(encoding="utf-8")) == set()


def test_an_import_backwards_is_noticed() -> None:
    assert backwards("recording", "from attribution.analyze import contrast\n") == {"analyze"}
    assert backwards("analyze", "def f():\n    import attribution.cli.run\n") == {"cli"}


@pytest.mark.parametrize(
    "module", ["attribution", "attribution.cli", "attribution.declare", "attribution.load", "attribution.recording"]
)
def test_importing_loads_nothing_heavy(module: str) -> None:
    heavy = {
        "pandas",
        "numpy.testing",
        "scipy",
        "matplotlib",
        "pyarrow",
        "torch",
        "cuda",
        "rich",
        "ncu_report",
    }
    code = f"import sys, {module}; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
