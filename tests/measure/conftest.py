"""What tests of measuring share: the smallest kernel that ships, and its variants."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribution.declare import Kernel, Variant
from attribution.load import load_kernel, load_variants


@pytest.fixture(scope="session")
def hello(root: Path) -> Kernel:
    return load_kernel(root, "hello")


@pytest.fixture(scope="session")
def variants(root: Path, hello: Kernel) -> dict[str, Variant]:
    return load_variants(root, hello)
