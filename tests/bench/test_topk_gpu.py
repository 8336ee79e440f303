"""Which selectors `make bench-gpu` puts beside kernel topk, and what kept samples say, without a GPU."""

from __future__ import annotations

import json

import pytest

from attribution.load import shipped_root
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


def met(ratio: float, goal: str) -> bool:
    """`>= 1.2` and `> 1`; anything else is no goal."""
    sign, _, least = goal.partition(" ")
    return {">=": ratio >= float(least or 0), ">": ratio > float(least or 0)}.get(sign, True)


@pytest.mark.parametrize("name", ["h200-topk-goals.json", "h200-topk-goals-selectors.json"])
def test_the_kept_samples_meet_the_goals_and_spoiled_ones_do_not(name: str) -> None:
    kept = json.loads((shipped_root() / "traces" / name).read_text())["milliseconds"]

    def missed(slower: float) -> list[str]:
        spoiled = {key: times | {"topk": [slower * t for t in times["topk"]]} for key, times in kept.items()}
        rows = [r for key, times in spoiled.items() for r in topk_gpu.compared(*map(int, key.split("x")), times)]
        return [what for what, ratio, goal in rows if not met(ratio, goal)]

    assert missed(1.0) == []
    slow = " ".join(missed(4.0))
    assert all(words in slow for words in ("torch.topk", "of the copy bandwidth", "as shipped", "512 threads"))
    assert ("flashinfer" in slow) == ("selectors" in name)
