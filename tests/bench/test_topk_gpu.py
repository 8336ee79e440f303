"""Which selectors `make bench-gpu` puts beside kernel topk, without a GPU."""

from __future__ import annotations

import pytest

from bench import topk_gpu

INPUTS = dict.fromkeys(("scores", "start", "end"))


def test_only_what_is_installed_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    known, made = (topk_gpu.module(name, "selectors") for name in ("known", "gpu_selectors"))
    monkeypatch.setattr(
        known, "missing", lambda name, arch: "" if name == "flashinfer" else f"{name} is not for {arch}"
    )
    monkeypatch.setattr(made, "SELECTORS", {"flashinfer": lambda problem: ("made", problem.k)})
    assert topk_gpu.others(INPUTS, "sm_90") == {"flashinfer": ("made", topk_gpu.K)}
    monkeypatch.setattr(known, "missing", lambda name, arch: "absent")
    assert topk_gpu.others(INPUTS, "sm_90") == {}
