"""Planted recordings of `attr prefill` with known answers: nothing here is a measurement, and nothing needs torch.

One request of the native stack takes 1000 ms: its kernels sum to 900 ms and their union to 880; the indexer's sum to 300, of
which 30 in the first chunk, which falls back.  The fused indexer takes a tenth less where it is used.  Taking the indexer away
frees 270 ms of the 300.  The adapter costs 5 ms a request.  So the whole saves 270 * 0.1 * 270 / 300 - 5 = 19.3 ms.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attribution.order import rounds as ordered_rounds
from attribution.recording import Recording, write_tables
from attribution.tables import conform

MS = 1_000_000
CHUNKS, CALLS = 4, 2
ARMS = ("native", "null", "fused", "given")
TRUTH = {
    "share": 100 / 3, "saving": 10.0, "estimate": 10 / 3, "fallback": 1 / 3, "gaps": 0.36, "overlap": -0.06,
    "critical_path": 0.27, "adapter": 0.5, "measured": 1.93, "remainder": 0.0,
}  # fmt: skip
"""Percent of the whole."""


def ttft_ms(arm: str, chunks: int, adapter_ms: float, lost_ms: float) -> float:
    """Planted time to first token; a request of one chunk is a quarter of the longest one's."""
    whole = 1000 * chunks / CHUNKS
    if arm == "fused":
        saved = 0.1 * 270 * 270 / 300 if chunks > 1 else 0.0
        return whole - saved + adapter_ms + lost_ms
    return whole - 270 * chunks / CHUNKS if arm == "given" else whole


def part_ms(arm: str, chunks: int) -> list[float]:
    """Planted time in the indexer by chunk: 30 ms, then 90 ms each; a tenth less where the fused one is used."""
    native = [30.0, *[90.0] * (chunks - 1)]
    fused = [30.0, *[81.0] * (chunks - 1)]
    return {"fused": fused, "given": [0.001] * chunks}.get(arm, native)


def trace() -> dict[str, pd.DataFrame]:
    """kernels and ranges of three requests: indexer 300 ms, attention 580 ms, 20 ms beside it on another stream."""
    kernels: list[tuple[str, int, int, int]] = []
    ranges: list[tuple[str, int, int]] = []
    for request in range(3):
        start = request * 2000
        ranges.append(("request", start, start + 1000))
        at = start
        for part in part_ms("native", CHUNKS):
            ranges += [("indexer", at, at + int(part)), ("attention", at + int(part), at + int(part) + 145)]
            kernels += [("void score<64>(float *)", at, int(part), 7), ("void attend(float *)", at + int(part), 145, 7)]
            kernels.append(("void attend(float *)", at + int(part), 5, 13))
            # 30 ms without a kernel, then the next chunk.
            at += int(part) + 145 + 30
    made = pd.DataFrame(kernels, columns=["kernel_name", "begin", "length", "stream"])
    begin, length = made["begin"] * MS, made["length"] * MS
    facts = {
        "file": "native.json", "device": 0, "context": 1, "process": 1, "launched": True, "graph": -1, "grid": "1,1,1",
        "block": "32,1,1", "flags": "", "launch_thread": "1/1",
    }  # fmt: skip
    table = made[["kernel_name", "stream"]].assign(
        kernel=range(len(made)), begin_ns=begin, end_ns=begin + length, dur_ns=length, correlation=range(len(made)),
        launch_begin_ns=begin + 1, **facts,
    )  # fmt: skip
    spans = pd.DataFrame(ranges, columns=["range_name", "begin", "end"])
    spans = spans.assign(
        file="native.json", range=range(len(spans)), occurrence=spans.groupby("range_name").cumcount(), domain="",
        kind="user_annotation", thread="1/1", begin_ns=spans["begin"] * MS, end_ns=spans["end"] * MS,
        dur_ns=(spans["end"] - spans["begin"]) * MS,
    )  # fmt: skip
    return {
        "kernels": conform("kernels", table.sort_values("begin_ns").assign(kernel=range(len(table)))),
        "ranges": conform("ranges", spans.drop(columns=["begin", "end"])),
    }


def recording(
    path: Path,
    *,
    chunks: int = CHUNKS,
    adapter_ms: float = 5.0,
    lost_ms: float = 0.0,
    rounds: int = 8,
    sd: float = 1e-5,
    traced: bool = True,
    without: tuple[str, ...] = (),
    sizes: dict[str, Any] | None = None,
) -> Recording:
    """`lost_ms`: what the fused arm loses for no reason that is known.  `sd`: relative noise of each time."""
    rng = np.random.default_rng(chunks)
    arms = [a for a in ARMS if a not in without]
    runs, times, counters = [], [], []
    shape = f"input={chunks * 8192},layers=2"
    for number, order in enumerate(ordered_rounds(len(arms), rounds, 0)):
        for position, which in enumerate(order):
            run, arm = len(runs), arms[which]
            of = "native" if arm == "null" else arm
            runs.append({
                "run": run, "question": "native", "round": number, "position": position,
                "predecessor": arms[order[position - 1]] if position else "", "arm": arm, "kernel": "dsa_prefill",
                "variant": of, "shape": shape, "distribution": "random", "seed": 1, "flags": json.dumps({"INDEXER": of}),
                "knobs": "{}", "build": "", "inputs": "0" * 16, "status": "ok", "reason": "", "begin_ns": run,
            })  # fmt: skip
            seen = [("wall", "ttft", ttft_ms(arm, chunks, adapter_ms, lost_ms))]
            seen += [("event", f"indexer_{c:02d}", ms) for c, ms in enumerate(part_ms(arm, chunks))]
            noise = np.exp(rng.normal(scale=sd, size=len(seen)))
            times += [(run, s, st, ms * MS * f) for (s, st, ms), f in zip(seen, noise, strict=True)]
            for chunk in range(chunks):
                back = CALLS * (arm == "fused" and chunk == 0)
                counters += [
                    (run, f"indexer_{chunk:02d}", m, v) for m, v in (("calls", CALLS), ("fell_back_calls", back))
                ]
    timed = pd.DataFrame(times, columns=["run", "scope", "stage", "time_ns"])
    counted = pd.DataFrame(counters, columns=["run", "stage", "metric", "value"])
    tables = {
        "runs": pd.DataFrame(runs),
        "times": timed.assign(cache="warm", clock="as-found", sample=0, clock_mhz=1755.0, flags=""),
        "counters": counted.assign(
            scope="launch", kernel_name="", launch=-1, instance="", unit="1", pass_group=-1, source="adapter",
            state=np.where(counted["value"] == 0, "zero", "value"),
        ),
        "checks": pd.DataFrame({"run": [r["run"] for r in runs]}).assign(
            when="after", check="unique", passed=True, detail=""
        ),
    }  # fmt: skip
    return write_tables(path, "run", tables | (trace() if traced else {}), manifest(arms, chunks, rounds, sizes or {}))


def manifest(arms: list[str], chunks: int, rounds: int, sizes: dict[str, Any]) -> dict[str, Any]:
    variants = {
        a: {"base": None if a == "native" else "native", "asks": "planted?", "flags": {"INDEXER": a}, "knobs": {},
            "same": [], "expects": {}, "factors": None, "stage": "ttft"}
        for a in arms if a != "null"
    }  # fmt: skip
    listed = [
        {
            "name": a,
            "variant": "native" if a == "null" else a,
            "flags": {"INDEXER": "native" if a == "null" else a},
            "knobs": {},
        }
        for a in arms
    ]
    return {
        "machine": {"kind": "cuda", "name": "Planted", "expects": "planted", "sms": 4, "tick_ns": 1.0},
        "kernels": {"dsa_prefill": {"roles": [], "events": [], "same": {}, "source": "0"}},
        "variants": variants,
        "plan": {
            "kernel": "dsa_prefill", "shape": {"input": chunks * 8192, "layers": 2}, "distribution": "random", "seed": 1,
            "rounds": rounds, "questions": [{"base": "native", "arms": listed}],
        },
        "prefill": {
            "config": "planted", "sizes": {"layers": 2, "top_k": 2048, **sizes}, "part": "indexer", "profile": "native.json",
            "native": {"scorer": "a", "selector": "b"}, "fused": "c", "not_used": {}, "falls_back": "planted",
        },
    }  # fmt: skip
