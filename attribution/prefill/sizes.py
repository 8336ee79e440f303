"""Sizes of a prefill stack, as data: how wide, how deep, how much of a request goes through at a time.

In: a name.  Out: a frozen `Sizes`.
`h200` has the widths of a 671-billion-parameter model of this kind as one of eight tensor- and expert-parallel ranks holds
them (16 of 128 attention heads, 32 of 256 experts, one expert a token instead of eight), and few layers: shares and savings
are those of such layers, without communication.  `cpu` takes a CPU part of a second a request, `tiny` is for tests.
Misuse: weights are random, so the text means nothing, and index scores are closer to normal ones than a model's are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from attribution.errors import InputError


@dataclass(frozen=True)
class Sizes:
    """Widths are elements, `chunk` and `attention_block` are tokens; `top_k` keys are attended to by a token."""

    layers: int
    hidden: int
    heads: int
    q_rank: int
    kv_rank: int
    rope: int
    index_heads: int
    index_dim: int
    top_k: int
    experts: int
    experts_per_token: int
    expert_width: int
    vocabulary: int
    chunk: int
    attention_block: int
    fp8_largest: float = 448.0
    """Index queries and keys are scaled so that their largest element is this; 448 is the largest finite e4m3 value."""

    def facts(self) -> dict[str, Any]:
        return asdict(self)

    def check_length(self, length: int) -> None:
        """Raises InputError for an input that is no whole number of chunks."""
        if length < self.chunk or length % self.chunk:
            raise InputError(f"input of {length} tokens: allowed are multiples of the chunk of {self.chunk} tokens")


CONFIGS = {
    "h200": Sizes(
        layers=2, hidden=7168, heads=16, q_rank=1536, kv_rank=512, rope=64, index_heads=64, index_dim=128, top_k=2048,
        experts=32, experts_per_token=1, expert_width=2048, vocabulary=16160, chunk=8192, attention_block=1024,
    ),
    "cpu": Sizes(
        layers=2, hidden=512, heads=4, q_rank=128, kv_rank=64, rope=16, index_heads=64, index_dim=64, top_k=64,
        experts=8, experts_per_token=2, expert_width=256, vocabulary=1021, chunk=256, attention_block=64,
    ),
    "tiny": Sizes(
        layers=2, hidden=64, heads=2, q_rank=32, kv_rank=16, rope=8, index_heads=4, index_dim=16, top_k=16,
        experts=4, experts_per_token=2, expert_width=32, vocabulary=97, chunk=32, attention_block=16,
    ),
}  # fmt: skip


def sizes(name: str) -> Sizes:
    """Raises InputError for a name that is not known."""
    if name not in CONFIGS:
        raise InputError(f"configuration {name!r} is not known; there are: {', '.join(CONFIGS)}")
    return CONFIGS[name]
