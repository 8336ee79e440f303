"""The unfused pipelines' selection on the CPU, behind a scorer that is already there: any memory is theirs to write."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from attribution.load import load_kernel, module_of, shipped_root

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("rows", "keys", "k"), [(5, 1024, 512), (3, 128, 512), (2, 512, 512)])
def test_torch_topk_writes_all_of_its_output(rows: int, keys: int, k: int) -> None:
    """Behind a poisoned output: -1 where a row's keys end and where the matrix does."""
    kernel = load_kernel(shipped_root(), "index_topk")
    score = torch.randn(rows, keys, generator=torch.Generator().manual_seed(keys))
    score[0, 7:] = -torch.inf  # a short row
    out = torch.full((rows, k), -7, dtype=torch.int32)
    made = SimpleNamespace(scores=score, output=out, launches=())
    flags = {"SCORER": "own", "SELECTOR": "torch", "K": k}
    operator = module_of(kernel, "baselines").unfused(made, {}, flags)
    for _ in range(2):
        out.fill_(-7)
        for step in operator.steps:
            step.function()
        width = min(k, keys)
        chosen = torch.where(out[:, :width] >= 0, score.gather(1, out[:, :width].clamp(min=0).long()), -torch.inf)
        assert chosen.sort(1, descending=True).values.equal(score.topk(width, 1).values)
        assert (out[:, width:] == -1).all()
        assert out[0].sort().values[-7:].tolist() == list(range(7))
        assert (out[0] == -1).sum() == k - 7
