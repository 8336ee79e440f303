"""Whether an indexer's answers are right: counted, inside the bounds, each key once, none too low, none of the best missing.

In: calls and selections; the reference is `torch_scores`, float32, of some rows of a call.  Out: `Check` values.
Scorers round differently, so keys nearer to the top_k-th best than two scores of one key may differ (TOLERANCE of the row's
largest score on either side) may be selected or not; all above must be, none below may be.
Misuse: only some rows have a reference; count, bounds and uniqueness are looked at in every row.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from attribution.declare import Check
from attribution.prefill.indexers import Counted, Indexer
from attribution.prefill.scorers import scorer
from attribution.prefill.stack import IndexCall

ROWS = 32
"""Rows of a call that are compared with the reference."""
TOLERANCE = 4e-3
"""Of a row's largest score; kernel index_topk declares 3e-3 for its f16 sums over heads."""
LOGITS_TOLERANCE = 0.05
"""Norm of the difference over norm, of two requests of one arm.  An operator may give keys in another order each time, sums
then round differently, and keys that tie within rounding change places: this notices a broken request, not a wrong key."""


def check_selection(call: IndexCall, selected: Any, top_k: int) -> list[Check]:
    """Five checks of int32 [rows, top_k]; each says how many rows failed and which is the first."""
    import torch

    index = selected.long()
    filled, begin, end = index >= 0, call.k_start.long()[:, None], call.k_end.long()[:, None]
    count = filled.sum(1) == (end - begin)[:, 0].clamp(max=top_k)
    inside = (((index >= begin) & (index < end)) | (index == -1)).all(1)
    order = index.sort(1).values
    unique = ~((order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)).any(1)
    rows = torch.unique(torch.linspace(0, call.q.shape[0] - 1, ROWS, device=index.device).round().long())
    some = dataclasses.replace(call, q=call.q[rows], w=call.w[rows], k_start=call.k_start[rows], k_end=call.k_end[rows])
    scores = scorer("torch_scores")(some, True)
    mine = scores.gather(1, index[rows].clamp(0, scores.shape[1] - 1)).masked_fill(~filled[rows], torch.inf)
    kth = scores.topk(min(top_k, scores.shape[1]), 1).values[:, -1:]
    room = 2 * TOLERANCE * scores.masked_fill(scores == -torch.inf, 0).abs().amax(1, True)
    best = ((mine >= kth - room) | (kth == -torch.inf)).all(1)
    # One column more, for the places that hold no key or one that does not exist.
    keys = scores.shape[1]
    place = index[rows].masked_fill(~filled[rows] | (index[rows] >= keys), keys)
    taken = torch.zeros(len(rows), keys + 1, dtype=torch.bool, device=index.device).scatter_(1, place, True)[:, :keys]
    none_missing = ~((scores > kth + room) & ~taken).any(1)
    where = f"layer {call.layer}, chunk {call.chunk}"
    named = {
        "selected_count": count, "inside_bounds": inside, "unique": unique, "among_the_best": best, "none_missing": none_missing,
    }  # fmt: skip
    checks = (Check.of_rows(name, good) for name, good in named.items())
    return [dataclasses.replace(check, detail=f"{where}: {check.detail}") for check in checks]


@dataclass
class Looked(Counted):
    """An indexer that passes calls on to `inner` and checks every answer."""

    inner: Indexer
    top_k: int
    checks: list[Check] = field(default_factory=list)

    def select(self, call: IndexCall) -> Any:
        found = self.inner.select(call)
        self.checks += check_selection(call, found, self.top_k)
        return found


def check_logits(logits: Any, reference: Any) -> Check:
    """The logits of a request against those of the same arm on the same input, whose selections were checked."""
    far = float((logits - reference).norm() / reference.norm())
    return Check(
        "first_token_logits", far <= LOGITS_TOLERANCE, f"{far:.2e} of the norm from those of the checked request"
    )
