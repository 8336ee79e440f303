"""Building every variant: cold against the sum of its compile times, and cached against cold."""

from __future__ import annotations

import tempfile
import time

from attribution.build.many import build_all, select
from attribution.errors import BuildError
from attribution.load import shipped_root


def ratios() -> list[tuple[str, float, str]]:
    """(what, ratio, target), with an empty cache of its own, in a process that built nothing yet.

    Raises the error of a build that failed: what was not built has no time.
    """
    chosen = [(k, v) for k, v in select(shipped_root()) if k.source]
    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        built = build_all(chosen, cache=cache)
        cold = time.perf_counter() - begin
        begin = time.perf_counter()
        again = build_all(chosen, cache=cache)
        cached = time.perf_counter() - begin
    each: dict[str, float] = {}
    for first, second in zip(built, again, strict=True):
        if first.build is None or second.build is None or not second.build.cached:
            raise first.error or second.error or BuildError(f"{second} where it should be cached")
        each[first.build.identity] = first.build.compile_s
    return [
        (
            f"cold `attr build --all` ({len(each)} builds) / sum of its compile times",
            cold / sum(each.values()),
            "<= 0.7 on 2 cores",
        ),
        ("cached `attr build --all` / cold", cached / cold, "<= 0.05"),
    ]
