"""The figure of an account: bars meet where one step ends and the next begins, and the last one is what was measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import planted_prefill

from attribution.analyze.account import Account
from attribution.analyze.prefill import adapter_cost, prefill_account
from attribution.errors import InputError
from attribution.show.bridge import bridge_figure, draw_bridge, steps


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Account:
    out = tmp_path_factory.mktemp("prefill")
    adapter = adapter_cost(planted_prefill.recording(out / "8k", chunks=1))
    return prefill_account(planted_prefill.recording(out / "32k", lost_ms=8.0), "launched_by_thread", adapter)


def test_steps_lead_from_the_estimate_to_the_measurement(account: Account) -> None:
    found = steps(account)
    assert [kind for kind, *_ in found] == ["estimate", *["term"] * 5, "remainder", "measured"]
    at = found[0][2][1]
    for _, label, (_, value, _), begin in found[1:-1]:
        assert begin + value == pytest.approx(at), label
        at = begin
    assert at == pytest.approx(account.measured[1])


def test_every_step_is_a_bar_with_its_width(account: Account) -> None:
    axes = bridge_figure([account, account]).axes
    assert len(axes) == 2
    widths = [bar.get_width() for bar in axes[0].patches]
    assert widths == pytest.approx([value for _, _, (_, value, _), _ in steps(account)])
    assert "not explained" in axes[0].get_title()


def test_written_whole_or_not_at_all(account: Account, tmp_path: Path) -> None:
    draw_bridge([account], tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<?xml")
    with pytest.raises(InputError, match=".gif"):
        draw_bridge([account], tmp_path / "a.gif")
    assert [p.name for p in tmp_path.iterdir()] == ["a.svg"]
