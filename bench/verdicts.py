"""How often verdicts are wrong: 400 seeds of noise like the host machine's, through the tables.

Every recording is built with a known answer, so the rates are of this code, not of a machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from attribution.analyze.contrast import Contrast, contrast

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from planted import measured

SEEDS, ROUNDS = 400, 20


def _contrasts(planted: float, sd: float, phi: float) -> list[Contrast]:
    """One contrast a seed, of an arm that takes `planted` times the base's time."""
    arms = {"full": 1.0, "math_only": planted, "null": 1.0}
    return [
        contrast(
            **measured(arms, rounds=ROUNDS, sd=sd, phi=phi, seed=seed),
            base="full",
            arm="math_only",
        )
        for seed in range(SEEDS)
    ]


def ratios() -> list[tuple[str, float, str]]:
    """(what, share of the seeds, target): false verdicts, findings and coverage."""
    out = []
    for sd, phi in ((0.012, 0.0), (0.012, 0.5)):
        null = _contrasts(1.0, sd, phi)
        noise = f"noise {sd:.1%}, AR(1) {phi:g}, {ROUNDS} rounds, {SEEDS} seeds"
        false = sum(c.verdict in ("faster", "slower") for c in null) / SEEDS
        out.append((f"faster or slower though equal: {noise}", false, "<= 0.07"))
        covered = sum(c.time_ratio_low <= 1 <= c.time_ratio_high for c in null) / SEEDS
        out.append((f"95 % intervals that hold the planted 1: {noise}", covered, ">= 0.92"))
    found = _contrasts(0.99, 0.003, 0.0)
    faster = sum(c.verdict == "faster" for c in found) / SEEDS
    out.append(("1 % less found as faster at 0.3 % noise", faster, ">= 0.95"))
    covered = sum(c.time_ratio_low <= 0.99 <= c.time_ratio_high for c in found) / SEEDS
    out.append(("95 % intervals that hold the planted 0.99", covered, ">= 0.92"))
    return out
