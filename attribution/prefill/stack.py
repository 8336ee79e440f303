"""The stack: projections, index queries and keys in FP8, indexer, attention over the selected keys, experts; chunk by chunk.

In: `Sizes`, a seed for the weights, a device, an indexer (see indexers.py).  Out: logits of the last token, float32 [vocabulary].
What a model of this kind has beside that is left out: rotary embeddings, the Hadamard rotation, communication.  Tokens are
dealt to experts by their place: equally many each, no step waits for the host, and rounding cannot send a token elsewhere.
Misuse: one request at a time; a chunk reads what earlier chunks of the same request left in the caches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from attribution.prefill.sizes import Sizes
from attribution.prefill.spans import Spans


@dataclass(frozen=True)
class IndexCall:
    """One question to the indexer: which keys does each row attend to?

    q [rows, heads, dim] and k [keys, dim] FP8 e4m3; w [rows, heads] and k_scale [keys] float32; k_start, k_end [rows] int32.
    score[t, s] = k_scale[s] * sum over heads of w[t, h] * ReLU(q[t, h] . k[s]) for k_start[t] <= s < k_end[t].
    `start`: keys before the chunk's first row, so that row t has start + t + 1 keys.
    """

    layer: int
    chunk: int
    start: int
    q: Any
    k: Any
    k_scale: Any
    w: Any
    k_start: Any
    k_end: Any

    def named(self) -> dict[str, Any]:
        """The tensors under the names that kernel index_topk gives them."""
        return {n: getattr(self, n) for n in ("q", "k", "k_scale", "w", "k_start", "k_end")}


def quantized(x: Any, largest: float) -> tuple[Any, Any]:
    """FP8 of x [..., n], `largest` in each vector, and its scale [..., 1] float32, so that x is about FP8 * scale."""
    import torch

    scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-6) / largest
    return (x.float() / scale).to(torch.float8_e4m3fn), scale


def normalized(x: Any) -> Any:
    """Root-mean-square norm over the last axis, without a weight."""
    import torch

    return torch.nn.functional.rms_norm(x, x.shape[-1:])


class Stack:
    """Random weights and the caches of one request of at most `longest` tokens."""

    def __init__(self, sizes: Sizes, longest: int, seed: int, device: str) -> None:
        import torch

        sizes.check_length(longest)
        self.sizes, self.device = sizes, device
        self.dtype = torch.bfloat16 if device == "cuda" else torch.float32
        draw = torch.Generator(device).manual_seed(seed)

        def weight(*shape: int) -> Any:
            scale = 1 / math.sqrt(shape[-2])
            return torch.randn(*shape, generator=draw, device=device, dtype=self.dtype) * scale

        s, wide = sizes, sizes.kv_rank + sizes.rope
        shapes = {
            "q_down": (s.hidden, s.q_rank), "q_up": (s.q_rank, s.heads * wide), "kv": (s.hidden, wide),
            "index_q": (s.q_rank, s.index_heads * s.index_dim), "index_k": (s.hidden, s.index_dim),
            "index_w": (s.hidden, s.index_heads), "out": (s.heads * s.kv_rank, s.hidden), "route": (s.hidden, s.experts),
            "gate": (s.experts, s.hidden, s.expert_width), "up": (s.experts, s.hidden, s.expert_width),
            "down": (s.experts, s.expert_width, s.hidden),
        }  # fmt: skip
        self.layers = [{name: weight(*shape) for name, shape in shapes.items()} for _ in range(s.layers)]
        # A table is looked up, not multiplied with: its rows have the scale of the residual stream.
        self.embedding = torch.randn(s.vocabulary, s.hidden, generator=draw, device=device, dtype=self.dtype)
        self.head = weight(s.hidden, s.vocabulary)
        self._caches = [
            {
                "latent": torch.zeros(longest, wide, device=device, dtype=self.dtype),
                "k": torch.zeros(longest, s.index_dim, device=device).to(torch.float8_e4m3fn),
                "k_scale": torch.zeros(longest, device=device),
            }
            for _ in range(s.layers)
        ]
        self._ends = torch.arange(1, longest + 1, device=device, dtype=torch.int32)
        self._zeros = torch.zeros(s.chunk, device=device, dtype=torch.int32)

    def prefill(self, tokens: Any, indexer: Any, spans: Spans) -> Any:
        """Logits of the last of `tokens` int64 [length], float32 [vocabulary], on the device.  Raises InputError."""
        self.sizes.check_length(len(tokens))
        chunk = self.sizes.chunk
        x = None
        with spans("request"):
            for number, start in enumerate(range(0, len(tokens), chunk)):
                x = self.embedding[tokens[start : start + chunk]]
                for layer in range(self.sizes.layers):
                    x = self._layer(layer, number, start, x, indexer, spans)
            assert x is not None
            return (normalized(x[-1:]) @ self.head)[0].float()

    def _layer(self, layer: int, chunk: int, start: int, x: Any, indexer: Any, spans: Spans) -> Any:
        """x [rows, hidden] after one layer."""
        weights, cache, rows = self.layers[layer], self._caches[layer], x.shape[0]
        end = start + rows
        with spans("projections"):
            h = normalized(x)
            q_latent = normalized(h @ weights["q_down"])
            q = (q_latent @ weights["q_up"]).view(rows, self.sizes.heads, -1)
            cache["latent"][start:end] = h @ weights["kv"]
        with spans("index_projections"):
            call = self._index_call(layer, chunk, start, h, q_latent)
        with spans("indexer", chunk):
            selected = indexer.select(call)
        with spans("attention"):
            x = x + self._attend(q, cache["latent"][:end], selected) @ weights["out"]
        with spans("mlp"):
            return x + self._experts(weights, normalized(x))

    def _index_call(self, layer: int, chunk: int, start: int, h: Any, q_latent: Any) -> IndexCall:
        s, weights, cache = self.sizes, self.layers[layer], self._caches[layer]
        rows = h.shape[0]
        end = start + rows
        q, q_scale = quantized((q_latent @ weights["index_q"]).view(rows, s.index_heads, s.index_dim), s.fp8_largest)
        cache["k"][start:end], k_scale = quantized(normalized(h @ weights["index_k"]), s.fp8_largest)
        cache["k_scale"][start:end] = k_scale[:, 0]
        # The queries' scale and the usual 1 / sqrt(heads * dim) go into the weights.
        w = (h @ weights["index_w"]).float() * q_scale[..., 0] / math.sqrt(s.index_heads * s.index_dim)
        return IndexCall(
            layer,
            chunk,
            start,
            q,
            cache["k"][:end],
            cache["k_scale"][:end],
            w,
            self._zeros[:rows],
            self._ends[start:end],
        )

    def _attend(self, q: Any, latent: Any, selected: Any) -> Any:
        """[rows, heads * kv_rank]: attention of q [rows, heads, wide] over the selected rows of latent [keys, wide].

        selected: int32 [rows, top_k], -1 where a row has fewer keys.  Keys are gathered, `attention_block` rows at a time.
        """
        import torch

        s = self.sizes
        out = torch.empty(q.shape[0], s.heads, s.kv_rank, device=q.device, dtype=q.dtype)
        for first in range(0, q.shape[0], s.attention_block):
            rows = slice(first, first + s.attention_block)
            index = selected[rows].long()
            keys = latent[index.clamp(min=0)]
            scores = torch.matmul(q[rows], keys.transpose(1, 2)).float() / math.sqrt(q.shape[-1])
            weight = scores.masked_fill((index < 0)[:, None, :], -torch.inf).softmax(-1).to(q.dtype)
            out[rows] = torch.matmul(weight, keys[..., : s.kv_rank])
        return out.flatten(1)

    def _experts(self, weights: dict[str, Any], h: Any) -> Any:
        """[rows, hidden]: token t goes to experts t, t + 1, ... modulo their number, weighted by its gate for each."""
        import torch

        s, rows = self.sizes, h.shape[0]
        gain = (h @ weights["route"]).sigmoid()
        out = torch.zeros_like(h)
        dealt = torch.arange(rows, device=h.device).view(-1, s.experts).T
        for turn in range(s.experts_per_token):
            token = dealt.roll(turn, 0)  # [experts, rows / experts]; each token once
            taken = h[token]
            inner = torch.nn.functional.silu(torch.bmm(taken, weights["gate"])) * torch.bmm(taken, weights["up"])
            out[token] += torch.bmm(inner, weights["down"]) * gain.T.gather(1, token)[..., None]
        return out
