"""Ctrl-C at any moment ends the command without a traceback: also before the command line is there to catch it."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, sys

class Planted:
    def find_spec(self, name, *_):
        if name == {at!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Planted())
sys.argv = ["attr", "list"]
from attribution.__main__ import main
main()
"""


@pytest.mark.parametrize("at", ["attribution.cli", "typer", "attribution.cli.versus", "attribution.load"])
def test_an_interrupt_while_modules_are_loaded_ends_without_a_traceback(at: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(at=at)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
