"""Share x saving against the measured saving, with the intervals that rounding leaves."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from attribution.analyze.reconcile import reconcile, rounded, saving
from attribution.errors import DataError

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
TABLE = pd.read_csv(PUBLISHED / "reconciliation.csv").set_index("input_length")
SHARES = pd.read_csv(PUBLISHED / "indexer_share.csv").set_index("input_length")
TTFT = pd.read_csv(PUBLISHED / "ttft.csv").set_index("input_length")


ESTIMATES = {16384: (0.58, 0.39), 32768: (0.73, 0.37), 65536: (0.97, 0.35), 131072: (1.95, 0.31)}
"""Share times saving, and what that leaves of the measured reduction unexplained, in percent, worked out by hand."""


@pytest.mark.parametrize("length", TABLE.index)
def test_published_estimates_within_rounding(length: int) -> None:
    row, raw, seconds = TABLE.loc[length], SHARES.loc[length], TTFT.loc[length]
    share = rounded(row["indexer_share_pct"], 2)
    # The printed share is that of the raw kernel times.
    assert share[0] - 1e-9 <= 100 * raw["indexer_gpu_ms"] / raw["noncomm_kernel_ms"] <= share[2] + 1e-9
    measured = rounded(row["measured_ttft_reduction_pct"], 2)
    again = saving(rounded(seconds["native_s"], 3), rounded(seconds["fused_s"], 3))
    assert again[0] <= measured[2]
    assert measured[0] <= again[2]
    found = reconcile(share, rounded(row["saving_vs_native_pct"], 2), measured, scopes=("nsys", "events", "elapsed"))
    exact = raw["indexer_gpu_ms"] / raw["noncomm_kernel_ms"] * row["saving_vs_native_pct"]
    assert found.estimate_low_pct <= exact <= found.estimate_high_pct
    # The share is of summed kernel time: in every row it promises more than the whole delivered.
    assert found.verdict == "less than estimated"
    assert (round(found.estimate_pct, 2), round(found.unexplained_pct, 2)) == ESTIMATES[length]
    assert "unlike scopes" in str(found)


def test_the_fallback_of_the_first_chunk_explains_part_and_the_rest_is_printed() -> None:
    row = TABLE.loc[16384]
    first = float(SHARES.loc[8192, "indexer_gpu_ms"] / SHARES.loc[16384, "indexer_gpu_ms"])
    parts = (rounded(row["indexer_share_pct"], 2), rounded(row["saving_vs_native_pct"], 2), rounded(0.19, 2))
    whole = reconcile(*parts)
    eligible = reconcile(*parts, eligible=(1 - first,) * 3)
    assert whole.unexplained_pct > eligible.unexplained_pct > 0


def test_agreement_needs_one_scope() -> None:
    parts = (rounded(50.0, 0), rounded(10.0, 0), rounded(5.0, 1))
    assert reconcile(*parts).verdict == "agree"
    assert reconcile(*parts, scopes=("events",) * 3).verdict == "agree"
    assert reconcile(*parts, scopes=("nsys", "events", "events")).verdict == "within the intervals"
    assert reconcile(parts[0], parts[1], rounded(6.0, 1)).verdict == "more than estimated"


def test_an_impossible_share_is_refused() -> None:
    with pytest.raises(DataError, match="share 120 %"):
        reconcile(rounded(120.0, 0), rounded(10.0, 0), rounded(5.0, 0))
