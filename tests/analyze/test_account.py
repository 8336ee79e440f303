"""The account between share x saving and what was measured: planted terms are found, a missing one is left over."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import planted_prefill
from planted_prefill import TRUTH

from attribution.analyze.account import account, judged, over_rounds, terms_of
from attribution.analyze.prefill import adapter_cost, check_together, frame, prefill_account
from attribution.errors import DataError
from attribution.recording import open_recording

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
RULE = "launched_by_thread"


def test_planted_terms_add_up() -> None:
    found = terms_of(10 / 3, 0.9, 1000.0, 900.0, 880.0, 270.0, 300.0, 5.0)
    for name, value in found.items():
        assert value == pytest.approx(TRUTH[name.replace(" ", "_")]), name
    assert TRUTH["estimate"] - sum(found.values()) == pytest.approx(TRUTH["measured"])


def test_terms_that_were_not_measured_are_absent() -> None:
    assert set(terms_of(3.0, 0.9, 1000.0)) == {"fallback"}
    assert set(terms_of(3.0, 0.9, 1000.0, adapter=5.0)) == {"fallback", "adapter"}
    # Without kernels the share is of elapsed time, and the critical path starts from it.
    assert terms_of(3.0, 1.0, 1000.0, exposed=270.0, part=300.0)["critical path"] == pytest.approx(0.3)


def test_every_planted_term_comes_out_of_a_recording(tmp_path: Path) -> None:
    adapter = adapter_cost(planted_prefill.recording(tmp_path / "8k", chunks=1))
    assert adapter is not None
    assert adapter.request_ns[1] == pytest.approx(5e6, rel=0.01)
    found = prefill_account(planted_prefill.recording(tmp_path / "32k"), RULE, adapter)
    row = frame([found]).iloc[0]
    for name, value in TRUTH.items():
        assert row[f"{name}_low_pct"] - 0.005 <= value <= row[f"{name}_high_pct"] + 0.005, name
    assert found.verdict == "explained"


@pytest.mark.parametrize(
    ("lost_ms", "without", "adapter", "remainder"),
    [
        pytest.param(8.0, (), True, 0.8, id="an unknown loss"),
        pytest.param(-8.0, (), True, -0.8, id="an unknown gain"),
        pytest.param(0.0, (), False, 0.5, id="adapter not measured"),
        pytest.param(0.0, ("given",), True, 0.27, id="critical path not measured"),
    ],
)
def test_what_no_term_covers_is_left_over(
    tmp_path: Path, lost_ms: float, without: tuple[str, ...], adapter: bool, remainder: float
) -> None:
    cost = adapter_cost(planted_prefill.recording(tmp_path / "8k", chunks=1))
    made = planted_prefill.recording(tmp_path / "32k", lost_ms=lost_ms, without=without)
    found = prefill_account(made, RULE, cost if adapter else None)
    assert found.remainder[1] == pytest.approx(remainder, abs=0.01)
    assert found.verdict == "not explained"


def test_noise_as_wide_as_the_difference_explains_nothing(tmp_path: Path) -> None:
    cost = adapter_cost(planted_prefill.recording(tmp_path / "8k", chunks=1, sd=0.02))
    found = prefill_account(planted_prefill.recording(tmp_path / "32k", sd=0.02), RULE, cost)
    assert found.verdict == "undecided"
    assert judged(1.0, (-0.5, 0.0, 0.5)) == "explained"
    assert judged(0.4, (-0.5, 0.0, 0.5)) == "undecided"
    assert judged(1.0, (0.1, 0.2, 0.3)) == "not explained"
    assert judged(1.0, (float("nan"), 0.0, float("nan"))) == "undecided"


def test_the_share_may_come_from_the_ranges_own_timing(tmp_path: Path) -> None:
    made = planted_prefill.recording(tmp_path / "32k", traced=False)
    found = prefill_account(made, "timed", None)
    assert found.share[1] == pytest.approx(30.0, abs=0.01)
    assert {t.name for t in found.terms} == {"fallback", "critical path"}
    with pytest.raises(DataError, match="has no trace of kernels"):
        prefill_account(made, RULE, None)


def test_an_adapter_is_not_carried_to_another_configuration(tmp_path: Path) -> None:
    made = [planted_prefill.recording(tmp_path / n, chunks=c, sizes=s) for n, c, s in
            (("a", 1, {}), ("b", 4, {"layers": 4}), ("c", 4, {"top_k": 512}))]  # fmt: skip
    check_together(made[:2])
    with pytest.raises(DataError, match="differ in configuration"):
        check_together(made)
    assert adapter_cost(made[1]) is None
    with pytest.raises(DataError, match="no call used the fused indexer"):
        prefill_account(made[0], RULE)


def test_another_kind_of_recording_is_refused(root: Path) -> None:
    with pytest.raises(DataError, match="no recording of `attr prefill`"):
        prefill_account(open_recording(root / "traces" / "host-math-only"), RULE)


def test_outside_widths_widen_in_quadrature() -> None:
    rounds = np.array([1.0, 1.1, 0.9, 1.0])
    plain = account("x", (1, 1, 1), (1, 1, 1), rounds, rounds / 2, {"adapter": rounds / 10})
    wider = account("x", (1, 1, 1), (1, 1, 1), rounds, rounds / 2, {"adapter": rounds / 10}, {"remainder": 3.0})
    half = (plain.remainder[2] - plain.remainder[0]) / 2
    assert (wider.remainder[2] - wider.remainder[0]) / 2 == pytest.approx(np.hypot(half, 3.0))


def published() -> pd.DataFrame:
    """reconciliation.csv with the terms that the other published columns give: percent of the time to first token.

    Kernel time is the sum over 6 GPUs; the adapter's cost is that of the row in which the fused path is never used, once a
    request, since the same 122 calls fall back at every length.
    """
    share, ttft, table = (
        pd.read_csv(PUBLISHED / f"{n}.csv").set_index("input_length")
        for n in ("indexer_share", "ttft", "reconciliation")
    )
    rows = {}
    for length, row in table.iterrows():
        estimate = row["indexer_share_pct"] * row["saving_vs_native_pct"] / 100
        eligible = 1 - share.loc[8192, "indexer_gpu_ms"] / share.loc[length, "indexer_gpu_ms"]
        whole = 1000 * ttft.loc[length, "native_s"]
        kernels = share.loc[length, "noncomm_kernel_ms"] / 6
        adapter = 1000 * (ttft.loc[8192, "fused_s"] - ttft.loc[8192, "native_s"])
        terms = terms_of(estimate, eligible, whole, kernels, kernels, adapter=adapter)
        rows[length] = {"estimate": estimate, **terms, "measured": row["measured_ttft_reduction_pct"]}
    return pd.DataFrame(rows).T


def test_the_published_rows_are_explained_by_fallback_gaps_and_adapter_where_requests_are_long() -> None:
    found = published()
    left = found["estimate"] - found[["fallback", "gaps", "overlap", "adapter"]].sum(axis=1) - found["measured"]
    over = found["estimate"] - found["measured"]
    assert (over > 0.3).all()
    # Both seconds of the adapter's row are printed to 1 ms, so that term is good to 1 of 10 ms.
    assert (
        left.loc[[65536, 131072]].abs().max()
        < 0.1 * over.loc[[65536, 131072]].min() + 0.1 * found["adapter"].loc[65536]
    )
    # At 16K the same terms take away more than there is: the adapter costs less there than alone at 8K.
    assert left.loc[16384] < -0.2


def test_what_was_recorded_on_a_cpu_is_explained_by_what_fell_back(root: Path) -> None:
    made = {n: open_recording(root / "traces" / f"cpu-prefill-{n}") for n in ("256", "512", "1k")}
    check_together(list(made.values()))
    adapter = adapter_cost(made["256"])
    assert adapter is not None
    for name in ("512", "1k"):
        found = prefill_account(made[name], "timed", adapter)
        assert found.verdict == "explained"
        assert found.measured[0] > 0
        fallback = next(t for t in found.terms if t.name == "fallback")
        assert fallback.pct[1] > 0.5 * (found.estimate[1] - found.measured[1])
        with pytest.raises(DataError, match="no trace of kernels"):
            prefill_account(made[name], RULE, adapter)


def test_what_was_recorded_on_an_h200_leaves_nothing_over(root: Path) -> None:
    recordings = {n: open_recording(root / "traces" / f"h200-prefill-{n}") for n in ("8k", "16k", "32k", "64k", "128k")}
    check_together(list(recordings.values()))
    adapter = adapter_cost(recordings.pop("8k"))
    accounts = {n: prefill_account(r, RULE, adapter) for n, r in recordings.items()}
    for name, found in accounts.items():
        assert found.estimate[1] > found.measured[1] > 0, name
        assert found.remainder[0] < 0 < found.remainder[2], name
    assert accounts["64k"].verdict == "explained"


def test_what_is_the_same_in_every_round_has_no_width() -> None:
    assert over_rounds(np.zeros(8)) == (0, 0, 0)
    low, value, high = over_rounds(np.array([1.0]))
    assert (value, np.isnan(low), np.isnan(high)) == (1.0, True, True)
