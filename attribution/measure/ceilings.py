"""What the card can do at best, measured beside the kernel: rates of pure work, as counters of stage `ceiling`.

In: the ceilings that a kernel's GPU module names (`ceilings()`, see launch.py); ready ones are below.
Out: rows of the table `counters`, one a sample; a ceiling that could not be measured is `absent`, with the reason.
Misuse: a ceiling is a measurement of this card in this hour, not of its data sheet; take it from the same recording.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attribution.launch import Ceiling
from attribution.measure import timing

if TYPE_CHECKING:
    from attribution.measure.stamp import Stamps

STAGE = "ceiling"
SAMPLES = 3


def matrix_product_fp8(size: int = 8192) -> Ceiling:
    """torch._scaled_mm of size^3 in FP8 with fast accumulation and random values: `practical_flop_per_s`."""
    import torch

    left, right = (torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")

    def product() -> Any:
        return torch._scaled_mm(left, right.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    return Ceiling("practical_flop_per_s", "flop/s", 2.0 * size**3, product)


def copy(size_bytes: int = 1 << 30) -> Ceiling:
    """A copy within the card's memory, bytes read plus bytes written: `copy_byte_per_s`."""
    import torch

    source = torch.randint(0, 255, (size_bytes,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return Ceiling("copy_byte_per_s", "byte/s", 2.0 * size_bytes, lambda: target.copy_(source))


def counters(ceilings: Sequence[Ceiling], stamps: Stamps) -> list[dict[str, Any]]:
    """SAMPLES rates of each ceiling now, as rows of `counters` without `run`."""
    rows: list[dict[str, Any]] = []
    for one in ceilings:
        try:
            samples = timing.call_samples(one.function, stamps, SAMPLES)
        except Exception as error:  # torch's errors have many types; none of them may cost the kernel its times
            words = str(error).strip().splitlines() or [""]
            rows.append(row(one, "", math.nan, f"{type(error).__name__}: {words[0][:200]}"))
            continue
        for i, sample in enumerate(samples):
            known = (
                (math.nan, timing.HOST_BOUND) if sample.host_bound else (one.work / sample.spans_ns[0] * 1e9, "events")
            )
            rows.append(row(one, str(i), *known))
    return rows


def row(ceiling: Ceiling, sample: str, rate: float, source: str) -> dict[str, Any]:
    """A row of `counters` without `run`; a rate of NaN is absent."""
    named = {"metric": ceiling.metric, "instance": sample, "unit": ceiling.unit, "value": rate, "source": source}
    state = "absent" if math.isnan(rate) else "value"
    return {
        **named,
        "stage": STAGE,
        "scope": "event",
        "kernel_name": "",
        "launch": -1,
        "state": state,
        "pass_group": -1,
    }
