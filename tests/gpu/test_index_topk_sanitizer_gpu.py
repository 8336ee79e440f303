"""compute-sanitizer on index_topk: clean on small inputs, and each tool finds what was planted for it.

Skipped where there is no GPU or no compute-sanitizer.  racecheck is blind to what tensor maps bring into shared memory, and does
not know the order that barriers in shared memory (mbarrier) make: in the scoring kernels it reports reads that are ordered and,
once, one that was not (docs/findings/0008).  So it judges the kernels that have neither; a missing wait in the others must be
caught by exactness under a delay (test_index_topk_faults_gpu.py).
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import planted_index_topk as planted
import pytest
import sanitized_index_topk

from attribution.load import load_kernel
from attribution.measure.probe import Gpu, find

GPU, TOOL = find(), shutil.which("compute-sanitizer")
pytestmark = [
    pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU)),
    pytest.mark.skipif(TOOL is None, reason="compute-sanitizer is not on the PATH"),
]
FOUND, LIMIT_S = 99, 150
PLAIN = ("index_prepare", "index_threshold", "index_merge")
"""Kernels whose threads meet at ordinary barriers only."""
Runs = dict[tuple[str, bool], "Future[subprocess.CompletedProcess[str]]"]


def sanitized(tool: str, kernels: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """Without torch's cache of memory, so that what lies beside a tensor is not allocated."""
    command = [str(TOOL), "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "application-only"]
    if tool == "memcheck":
        command += ["--report-api-errors", "no"]
    if tool == "racecheck":
        command += [part for name in PLAIN for part in (named(), f"kernel_substring={name}")]
    command += [sys.executable, str(Path(sanitized_index_topk.__file__)), str(kernels)]
    env = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": str(root)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@functools.cache
def named() -> str:
    """The option that chooses kernels by name; releases of the tool call it differently."""
    said = subprocess.run([str(TOOL), "--help"], capture_output=True, text=True, check=False).stdout
    return next(option for option in ("--kernel-name", "--kernel-regex", "--filter") if option in said)


@pytest.fixture(scope="module")
def runs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """All tools on the honest source and on that with their own fault, side by side: most of the time is torch's start."""
    from attribution.build import build

    def compiled(home: Path) -> Path:
        kernel = load_kernel(home, "index_topk")
        for flags in sanitized_index_topk.FLAGS:
            build(kernel, flags)
        return home

    def whole(tool: str, home: Path) -> subprocess.CompletedProcess[str]:
        return sanitized(tool, compiled(home), root)

    pool, made = ThreadPoolExecutor(8), {}
    for tool, fault in planted.SANITIZER.items():
        home = tmp_path_factory.mktemp(tool)
        planted.planted(root, home, fault)
        made[tool, False] = pool.submit(whole, tool, root)
        made[tool, True] = pool.submit(whole, tool, home)
    return made


def races(report: str) -> set[str]:
    """Places (file:line) that racecheck names."""
    return set(re.findall(r"access at .* in (\w+\.cuh?:\d+)", report))


def unread(root: Path) -> set[str]:
    """Where threads that have nothing to list write side by side, behind the last place of a list: nobody reads it."""
    file = root / planted.FOLDER / "select.cuh"
    lines = file.read_text(encoding="utf-8").splitlines()
    return {f"{file.name}:{n}" for n, line in enumerate(lines, 1) if ": shape::LIST] = " in line}


def said(run: subprocess.CompletedProcess[str]) -> str:
    return "\n".join(line for line in run.stdout.splitlines() if line.startswith("====="))[:3000] + run.stderr[-1000:]


TOOLS = [tool for tool in planted.SANITIZER if tool != "racecheck"]


@pytest.mark.parametrize("tool", TOOLS)
def test_small_inputs_are_clean(runs: Runs, tool: str) -> None:
    run = runs[tool, False].result()
    assert run.returncode == 0, said(run)
    assert "SUMMARY: 0 errors" in run.stdout, said(run)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_was_planted_is_found(runs: Runs, tool: str) -> None:
    run = runs[tool, True].result()
    assert (runs[tool, False].result().returncode, run.returncode) == (0, FOUND), said(run)
    assert "index_" in run.stdout


def test_no_race_but_at_the_place_that_nobody_reads(runs: Runs, root: Path) -> None:
    run = runs["racecheck", False].result()
    assert "RACECHECK SUMMARY" in run.stdout, said(run)
    assert races(run.stdout) <= unread(root), said(run)


def test_a_planted_race_is_found(runs: Runs, root: Path) -> None:
    found = races(runs["racecheck", True].result().stdout) - unread(root)
    assert any(place.startswith("stages.cuh:") for place in found), found
