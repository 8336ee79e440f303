"""Roots and small kernels that several tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribution.declare import Kernel, Variant, load_kernel, load_variants, shipped_root

SMALL = {"q": 6, "n": 2048}
"""A shape of index_topk that one run takes some 20 ms for, with K = 512."""


@pytest.fixture(scope="session")
def root() -> Path:
    return shipped_root()


@pytest.fixture(scope="session")
def index_topk(root: Path) -> Kernel:
    return load_kernel(root, "index_topk")


@pytest.fixture(scope="session")
def index_topk_variants(root: Path, index_topk: Kernel) -> dict[str, Variant]:
    return load_variants(root, index_topk)
