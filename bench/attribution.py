"""Coverage of every 95 % interval of the accounts: of 500 planted recordings each, how many hold the planted answer.

The six planted recordings with known answers come first.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

TESTS = Path(__file__).parents[1] / "tests"
SEEDS, LEAST = 500, 465


def _cases() -> dict[str, Callable[[int], list[bool]]]:
    """Name -> seed -> whether each interval of one planted recording covers."""
    sys.path[:0] = [str(TESTS), str(TESTS / "analyze")]
    import planted_gpu
    import test_believable
    import test_contrast
    import test_denominators
    import test_ladder
    import test_law
    import test_ledger
    import test_modes
    import test_slack

    from attribution.analyze import capacity, ladder, ledger, slack
    from attribution.analyze.stats import intervals

    chain = [*test_ladder.ORDER, "null"]

    def steps(seed: int) -> list[bool]:
        """The steps and the remainder, as ladder and ledger take them; without their checks of equal work, which take longer."""
        tables = planted_gpu.full_ladder(seed=seed, rounds=14)
        found = ladder.paired(tables["runs"], tables["times"], "full", chain)
        bounds = [found.mean({u: 1.0, d: -1.0}) for d, u in itertools.pairwise(chain)]
        truth = [*test_ladder.STEPS[1:], 0.0]
        return [low <= t <= high for t, (low, _, high) in zip(truth, bounds, strict=True)]

    def interaction(seed: int) -> list[bool]:
        tables = test_ladder.serial(8e4, seed)
        pairs = (("full", "filter_only"), ("serial", "serial_filter_only"))
        sides = [ladder.paired(tables["runs"], tables["times"], q, [q, off]).time_ns @ [1.0, -1.0] for q, off in pairs]
        found = intervals(sides[1] - sides[0])
        return [bool(found.low[0] <= 8e4 <= found.high[0])]

    def gaps(seed: int) -> list[bool]:
        found = ledger.operator_account(
            planted_gpu.full_ladder(seed=seed, rounds=14, stages=test_ledger.STAGES), "full"
        )
        row = found.set_index("item").loc["gaps"]
        return [row["low_ns"] <= 3e4 <= row["high_ns"]]

    def drain(seed: int) -> list[bool]:
        found = slack.fit(test_slack.DELAYS, test_slack.swept(160e3, 1.0, seed, before=0.1))
        bounds = (
            (160e3, "knee_low_ns", "knee_high_ns"),
            (1.0, "slope_low", "slope_high"),
            (0.1, "before_low", "before_high"),
        )
        return [getattr(found, low) <= truth <= getattr(found, high) for truth, low, high in bounds]

    def critical(seed: int) -> list[bool]:
        found = slack.fit(test_slack.DELAYS, test_slack.swept(0.0, 1.0, seed))
        return [found.slope_low <= 1 <= found.slope_high, found.knee_ns == 0]

    def rate(seed: int) -> list[bool]:
        tables = planted_gpu.measured({"full": {"full": 1e6}}, rounds=20, seed=seed)
        failed = np.random.default_rng(seed).binomial(64, 0.03, 20)
        table = pd.DataFrame({"run": tables["runs"]["run"], "limit": "segment", "failures": failed, "of": 64})
        row = capacity.failures(tables["runs"], table).iloc[0]
        return [row["rate_low"] <= 0.03 <= row["rate_high"]]

    return {
        "steps of the ladder and remainder of the ledger": steps,
        "gaps of the operator": gaps,
        "interaction of a factor pair": interaction,
        "planted: a tail of 3 SMs, its share from the trace": lambda s: [test_ledger.tail_covers(s)],
        "planted: 20 % exposed consumer; by the control; by the trace": lambda s: list(test_ledger.exposed_covers(s)),
        "planted: a ratio whose denominator moved is told; factor of each part": test_denominators.covered,
        "planted: a delayed role; knee; slope": lambda s: list(test_slack.covered(s)),
        "planted: a mislabelled SM is refused": lambda s: [test_believable.refused(s)],
        "planted: two modes are told; median of each": test_modes.covered,
        "planted: faster in both modes is told; equal in one, or in both, is not called": test_contrast.told_by_modes,
        "slope of the row law": lambda s: [test_law.covered(s)],
        "knee and slopes with a drain that always shows": drain,
        "slope of a critical role; no knee invented": critical,
        "rate of capacity failures": rate,
    }


def ratios() -> list[tuple[str, float, str]]:
    """(what, intervals of 500 that cover, target); of several intervals the worst."""
    out = []
    for name, covers in _cases().items():
        hits = np.array([covers(seed) for seed in range(SEEDS)])
        out.append(
            (
                f"{name}: of {SEEDS} intervals, the worst of {hits.shape[1]}",
                float(hits.sum(axis=0).min()),
                f">= {LEAST}",
            )
        )
    return out
