"""The worked case: one command draws the README's figure, every arm that was measured is told of, each rival has its answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attribution.claim.expectations import claims
from attribution.recording import open_recording
from attribution.verify import figures
from attribution.verify.markers import parse
from bench.worked_case_gpu import RECORDINGS, RELIEF, RIVALS, UNFUSED

ROOT = Path(__file__).parents[1]
FINDING = (ROOT / "docs/findings/0001-why-the-h20-design-loses-on-an-h200.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def claimed() -> dict[str, dict[str, object]]:
    found = claims([open_recording(ROOT / "traces" / "h200-h20-design")])
    return {row["arm"]: row for row in found.to_dict("records")}


def test_one_command_draws_the_figure_of_the_readme(attr, tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    command = re.search(r"^case:.*\n\t\$\(BIN\)/attr (.*) --plot case\.svg$", makefile, re.M)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    marked, figure = next(m.spec.split(" --plot ") for m in parse(readme).markers if figures.is_figure(m))
    assert command is not None
    assert command[1].split() == marked.split()
    assert "\n    make case " in readme
    drawn = attr(*command[1].split(), "--plot", tmp_path / "case.svg")
    assert drawn.code == 0, drawn.err
    assert figures.texts(tmp_path / "case.svg") == figures.texts(ROOT / figure)


def test_every_arm_that_was_measured_is_told_of() -> None:
    assert [arm for arm in RECORDINGS["design"].variants if f"`{arm}`" not in FINDING] == []


def test_every_intervention_was_expected_before_and_did_equal_work(claimed: dict[str, dict[str, object]]) -> None:
    for arm in (*RELIEF, *RIVALS, *UNFUSED):
        assert claimed[arm]["verdict"] != "void", arm
        looked = {check["check"]: check["passed"] for check in claimed[arm]["checks"]}  # type: ignore[attr-defined]
        assert looked["equal work"] is not False, arm
        assert looked["contrast"], arm


def test_the_mechanism_moves_the_time_and_no_rival_moves_it_as_far(claimed: dict[str, dict[str, object]]) -> None:
    """By intervals: f16 accumulators relieve, one warpgroup burdens, and what shows a rival stays nearer to 1 than either."""
    low, high = (float(claimed[arm][end]) for arm, end in (("h20_f16", "high"), ("h20_one_warpgroup", "low")))  # type: ignore[arg-type]
    assert low < 1 < high
    ends = [(arm, float(claimed[arm][end])) for arm in RIVALS for end in ("low", "high")]  # type: ignore[arg-type]
    outside = {arm for arm, end in ends if not low < end < high}
    # Math held up is the mechanism from the other side, and no rival.
    assert outside <= {"h20_delayed_math_400"}
