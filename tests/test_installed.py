"""After `pip install .` the shipped kernels, variants and recordings are found from any folder."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without isolation and unpacked: what site-packages would hold."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def attr(site: Path, cwd: Path, *arguments: str) -> str:
    """`python -m attribution` with only the unpacked wheel and the dependencies on its path."""
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import attribution; from attribution.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(site), *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_shipped_kernels_and_variants_are_found(installed: Path, tmp_path: Path) -> None:
    assert (installed / "attribution" / "py.typed").exists()
    listed = json.loads(attr(installed, tmp_path, "list", "--json"))
    assert {"hello", "index_topk"} <= {row["kernel"] for row in listed}


def test_shipped_recordings_are_found_by_name(installed: Path, tmp_path: Path) -> None:
    shown = json.loads(attr(installed, tmp_path, "show", "host-math-only", "--json"))
    assert {a["arm"] for a in shown["answers"]} == {"null", "math_only"}


def test_the_report_has_its_style(installed: Path, tmp_path: Path) -> None:
    attr(installed, tmp_path, "report", "host-math-only", "--out", "page.html")
    assert "prefers-color-scheme" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_small_measurement_runs(installed: Path, tmp_path: Path) -> None:
    small = ["--shape", "q=4,n=2048", "--flag", "K=512,SEGMENT_CAPACITY=184", "--knob", "sms=2", "--rounds", "2"]
    made = json.loads(attr(installed, tmp_path, "run", "--variant", "math_only", *small, "--json"))
    assert Path(tmp_path / made["recording"] / "manifest.json").exists()
