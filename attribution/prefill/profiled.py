"""The native stack under torch's profiler: which kernel was launched in which range, as our own reader sees the trace.

In: a `Stack` on a GPU, tokens, an indexer.  Out: tables `kernels`, `copies`, `ranges`, `files`, `notes` of the Chrome trace.
The trace itself is large and is read at once; its sha256 stays in table `files`.
Misuse: under the profiler the host is slower, so gaps between kernels are not those of a timed request; kernel times are.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution.prefill.indexers import Indexer
from attribution.prefill.rounds import request
from attribution.prefill.spans import Spans
from attribution.prefill.stack import Stack

if TYPE_CHECKING:
    import pandas as pd

REQUESTS = 3
"""Requests in one trace: their shares' spread is the share's interval."""
KEPT = ("kernels", "copies", "ranges", "files", "notes")
FILE = "native.json"


def profiled(stack: Stack, tokens: Any, indexer: Indexer) -> dict[str, pd.DataFrame]:
    """Tables of one trace of `REQUESTS` requests.  Raises DataError for a trace that cannot be read."""
    from torch.profiler import ProfilerActivity, profile

    from attribution.ingest import kineto

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        for _ in range(REQUESTS):
            request(stack, tokens, indexer, Spans(stack.device, annotate=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        recorded.export_chrome_trace(str(path))
        found = kineto.load(path)
    return {name: found.table(name) for name in KEPT if len(found.table(name))}
