"""Building every variant: cold against the sum of its compile times, and cached against cold."""

from __future__ import annotations

import tempfile
import time

from attribution.build_all import build_all, select
from attribution.declare import shipped_root


def ratios() -> list[tuple[str, float, str]]:
    """(what, ratio, target), with an empty cache of its own."""
    chosen = [(k, v) for k, v in select(shipped_root()) if k.source]
    with tempfile.TemporaryDirectory() as cache:
        build_all(chosen[:1], cache=None)  # loads the compiler; its own cache entry is elsewhere
        begin = time.perf_counter()
        built = build_all(chosen, cache=cache)
        cold = time.perf_counter() - begin
        build_all(chosen, cache=cache)
        cached = time.perf_counter() - begin - cold
    each = {o.build.identity: o.build.compile_s for o in built if o.build}
    return [
        ("cold `attr build --all` / sum of its compile times", cold / sum(each.values()), "<= 0.7 on 2 cores"),
        ("cached `attr build --all` / cold", cached / cold, "<= 0.05"),
    ]
