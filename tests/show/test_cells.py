"""Cells of tables: what a file's text may do to a terminal."""

from __future__ import annotations

import pytest

from attribution.show.cells import harmless, text


@pytest.mark.parametrize("code", [0x1B, 0x07, 0x08, 0x0D, 0x7F, 0x9B, 0x202E, 0x2066], ids=hex)
def test_what_moves_a_terminal_is_shown_as_a_code(code: int) -> None:
    assert text(f"refuted{chr(code)}[2K") == f"refuted\\x{code:02x}[2K"


def test_ordinary_text_stays() -> None:
    assert harmless("naïve κ = 3, 5 µs\n\tnext") == "naïve κ = 3, 5 µs\n\tnext"
