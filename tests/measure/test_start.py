"""From the command line to a plan: which machine, and the sizes that it has by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribution.declare import Kernel
from attribution.errors import InputError
from attribution.measure import ncu, probe, selectors
from attribution.measure.start import Asked, ask

GPU = probe.Gpu("NVIDIA F200", 4, "sm_90")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says it has a GPU; nothing is launched on it."""
    monkeypatch.setattr(probe, "find", lambda: GPU)
    monkeypatch.setattr(ncu, "missing", lambda: "")


def asked(kernel: Kernel, machine: str) -> Asked:
    return ask(kernel, machine, [], "warm", None, None, None, 60.0)


def test_a_gpu_has_real_sizes_by_default_and_what_is_given_wins(card: None, index_topk: Kernel) -> None:
    on_gpu, on_host = asked(index_topk, "auto"), asked(index_topk, "host")
    assert (on_gpu.gpu, on_host.gpu) == (GPU, None)
    assert on_gpu.shape(index_topk, {}) == {"q": 4096, "n": 131072}
    assert on_gpu.shape(index_topk, {"q": 8}) == {"q": 8, "n": 131072}
    assert on_host.shape(index_topk, {}) == {}
    assert on_host.shape(index_topk, {"q": 8}) == {"q": 8}
    assert (on_gpu.knobs(index_topk, {}), on_host.knobs(index_topk, {})) == ({"sms": 4}, {})
    with pytest.raises(InputError, match="NVIDIA F200 has 4 SMs"):
        on_gpu.knobs(index_topk, {"sms": 5})


def test_a_misspelt_size_is_still_refused(card: None, index_topk: Kernel) -> None:
    with pytest.raises(InputError, match="kernel index_topk has no shape m"):
        index_topk.resolve_axes("shape", asked(index_topk, "cuda").shape(index_topk, {"m": 8}))


def test_a_sweep_of_selectors_starts_from_the_sizes_of_its_machine(
    card: None, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [{"name": name, "version": "", "needs": [], "missing": ""} for name in selectors.BASES.values()]
    monkeypatch.setattr(selectors, "known", lambda root, where, arch="": facts)
    small = selectors.Axes(distributions=("normal",), k=(64,))
    for machine, rows, columns in (("cuda", 1024, 65536), ("host", 64, 8192)):
        (plan,) = selectors.ask(root, machine, small).plans
        assert plan.shape == {"rows": rows, "columns": columns, "k": 64}
