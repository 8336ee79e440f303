"""An `ncu` that profiles nothing: it runs the worker and leaves a recorded report, or none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

REPORT = Path(__file__).parents[1] / "traces" / "hello-h200.ncu-rep"
FAKE_NCU = """#!{python}
import shutil, subprocess, sys
at = sys.argv.index("--export")
code = subprocess.run(sys.argv[at + 2:]).returncode
print("{words}")
if "{report}":
    shutil.copyfile("{report}", sys.argv[at + 1])
sys.exit(code)
"""


def fake_ncu(folder: Path, monkeypatch: pytest.MonkeyPatch, report: str, words: str = "==PROF== Disconnected") -> None:
    """An `ncu` on the PATH that runs the worker and leaves a recorded report, or none."""
    folder.mkdir()
    tool = folder / "ncu"
    tool.write_text(FAKE_NCU.format(python=sys.executable, report=report, words=words))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
