"""Roots, kernels and the command line as a function, for all tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from attribution.cli import main
from attribution.declare import Kernel, Variant
from attribution.load import load_kernel, load_variants, shipped_root


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of one width, whatever the terminal of who runs the tests."""
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture(scope="session")
def root() -> Path:
    return shipped_root()


@pytest.fixture(scope="session")
def index_topk(root: Path) -> Kernel:
    return load_kernel(root, "index_topk")


@pytest.fixture(scope="session")
def index_topk_variants(root: Path, index_topk: Kernel) -> dict[str, Variant]:
    return load_variants(root, index_topk)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def attr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    def call(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["attr", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        seen = capsys.readouterr()
        assert "Traceback" not in seen.err + seen.out
        return Done(code, seen.out, seen.err)

    return call
