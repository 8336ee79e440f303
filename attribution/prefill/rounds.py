"""Timed requests: time to first token of every arm in every round, with the time of each of its indexer calls.

In: a `Stack`, token ids, indexers by arm, a `Plan`.  Out: `Timed`, one a run.
Time to first token is from the tokens on the device to the first token's id on the host: by the host's clock, or where a CPU
does the work its CPU time.
Misuse: arms must have run once on this input before, so that nothing is compiled, allocated or tuned inside a timed request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from attribution.declare import Check
from attribution.measure.clocks import Nvml, Reading
from attribution.plan import Plan, PlannedRun
from attribution.prefill.arms import PART
from attribution.prefill.checks import check_logits
from attribution.prefill.indexers import Indexer
from attribution.prefill.spans import Spans, clock
from attribution.prefill.stack import Stack


@dataclass(frozen=True)
class Timed:
    """One request.  `part_ns`: time in the indexer by chunk; `calls` and `fell_back`: indexer calls by chunk."""

    planned: PlannedRun
    begin_ns: int
    ttft_ns: float
    part_ns: Mapping[int, float]
    calls: Mapping[int, int]
    fell_back: Mapping[int, int]
    check: Check
    before: Reading
    after: Reading


def request(stack: Stack, tokens: Any, indexer: Indexer, spans: Spans) -> tuple[int, float, Any]:
    """Wall clock at the start in ns since the epoch, time to first token in ns, and the logits."""
    if stack.device == "cuda":
        import torch

        torch.cuda.synchronize()
    now = clock(stack.device)
    began, start = time.time_ns(), now()
    logits = stack.prefill(tokens, indexer, spans)
    int(logits.argmax())
    return began, float(now() - start), logits


def timed_rounds(
    stack: Stack,
    tokens: Any,
    indexers: Mapping[str, Indexer],
    plan: Plan,
    references: Mapping[str, Any],
    said: Callable[[str], None],
) -> Iterator[Timed]:
    """Every run of the plan in its order; `references` holds the logits of each variant's checked request on `tokens`."""
    nvml = Nvml()
    for planned in plan.runs():
        said(f"{plan.shape['input']} tokens, round {planned.round}, {planned.arm.name}")
        indexer = indexers[planned.arm.variant]
        indexer.reset()
        spans = Spans(stack.device, (PART,))
        before = nvml.read()
        began, ttft_ns, logits = request(stack, tokens, indexer, spans)
        after = nvml.read()
        part = {chunk: ns for (_, chunk), ns in spans.finish().items()}
        check = check_logits(logits, references[planned.arm.variant])
        yield Timed(planned, began, ttft_ns, part, dict(indexer.calls), dict(indexer.fell_back), check, before, after)
