"""What the attribution's recordings ask can be asked: every variant is there, arms differ, a pilot has the same arms."""

from __future__ import annotations

import pytest

from attribution.load import load_kernel, load_variants, shipped_root
from bench import attribution_gpu


@pytest.mark.parametrize("name", attribution_gpu.RECORDINGS)
def test_every_recording_can_be_planned_and_piloted(name: str) -> None:
    kernel = load_kernel(shipped_root(), "index_topk")
    variants = load_variants(shipped_root(), kernel)
    asked = attribution_gpu.RECORDINGS[name]
    plans = asked.plans(kernel, variants, attribution_gpu.SMS)
    assert len(plans) == len(asked.shapes) * len(asked.distributions)
    there = {arm.name for question in plans[0].questions for arm in question.arms}
    assert all(want in there or any(arm.startswith(want[:-1]) for arm in there) for want in asked.variants)
    assert set(asked.profiled) <= there
    pilot = asked.pilot().plans(kernel, variants, attribution_gpu.SMS)
    assert [q.base for q in pilot[0].questions] == [q.base for q in plans[0].questions]
    assert {(p.rounds, p.shape["n"]) for p in pilot} == {(1, 8192)}


def test_every_shipped_variant_is_measured_somewhere() -> None:
    """But for those that are made for the reference machine's sizes, or leave a card's SMs with unlike parts of a batch."""
    kernel = load_kernel(shipped_root(), "index_topk")
    variants = load_variants(shipped_root(), kernel)
    plans = [asked.plans(kernel, variants, attribution_gpu.SMS)[0] for asked in attribution_gpu.RECORDINGS.values()]
    there = {arm.name for one in plans for question in one.questions for arm in question.arms}
    assert set(variants) - there == {"two_waves", "delayed_topk", "ctas_52", "ctas_74"}


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution_gpu.probe, "find", lambda: "no CUDA device: planted")
    with pytest.raises(SystemExit, match="attribution_gpu: no CUDA device: planted"):
        attribution_gpu.main(["out", "ledger"])
