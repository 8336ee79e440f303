"""Which indexers are compared, what each asks, and what was expected of it before measuring.

Out: variants as a manifest has them, and the `Plan` of one input length.
  native  the unfused pipeline: what the share and the saving are of
  fused   the operator, with fallback where early rows have fewer than top_k keys
  given   selections from a table: what is left when the indexer's work is taken away
Misuse: an expectation is written before its measurement and kept when it is refuted.
"""

from __future__ import annotations

from typing import Any

from attribution.plan import NULL, Arm, Plan, Question

KERNEL, BASE, STAGE, PART = "dsa_prefill", "native", "ttft", "indexer"
ROUNDS, ORDER_SEED = 8, 0
"""Four arms: two whole Williams designs."""
ASKS = {
    "native": "How long does the unfused indexer let the first token wait?",
    "fused": "How much of the time to first token does the fused indexer save?",
    "given": "How much of the time to first token is the indexer's own work?",
}
EXPECTED: dict[str, dict[int, dict[str, tuple[float, float]]]] = {
    "h200": {
        8192: {"fused": (0.995, 1.01), "given": (0.92, 0.99)},
        16384: {"fused": (0.98, 1.0), "given": (0.90, 0.97)},
        32768: {"fused": (0.975, 0.998), "given": (0.85, 0.94)},
        65536: {"fused": (0.96, 0.99), "given": (0.76, 0.89)},
        131072: {"fused": (0.94, 0.985), "given": (0.62, 0.80)},
    },
    "cpu": {
        256: {"fused": (0.97, 1.03), "given": (0.45, 0.80)},
        512: {"fused": (0.90, 0.98), "given": (0.35, 0.70)},
        1024: {"fused": (0.88, 0.97), "given": (0.25, 0.55)},
    },
}
"""Machine -> input length -> arm -> closed interval of time_ratio.  From arithmetic, before anything ran: scores at 1000 TFLOPS, a
selector that reads them at half the copy bandwidth, keys gathered by attention at 3.5 TB/s; a fused operator as fast as that
scorer alone.  On a CPU the fused indexer leaves out most keys beyond a row's bounds: a fifth of the second chunk's scores,
a tenth of the fourth's."""


def variants(length: int) -> dict[str, dict[str, Any]]:
    """The arms' declarations for an input of `length` tokens, as JSON values."""
    out: dict[str, dict[str, Any]] = {}
    for name, asks in ASKS.items():
        bounds = {m: lengths.get(length, {}).get(name) for m, lengths in EXPECTED.items()}
        out[name] = {
            "base": None if name == BASE else BASE, "asks": asks, "flags": {"INDEXER": name}, "knobs": {}, "same": [],
            "expects": {m: {"time_ratio": list(b)} for m, b in bounds.items() if b}, "factors": None, "stage": STAGE,
        }  # fmt: skip
    return out


def plan(length: int, layers: int, rounds: int, seed: int, knobs: dict[str, int]) -> Plan:
    """Every arm and the null arm in each of `rounds` rounds, in Williams order."""
    names = {BASE: BASE, NULL: BASE, "fused": "fused", "given": "given"}
    arms = tuple(Arm(name, of, {"INDEXER": of}, knobs) for name, of in names.items())
    shape = {"input": length, "layers": layers}
    return Plan(KERNEL, shape, "random", seed, rounds, ORDER_SEED, (Question(BASE, arms),))
