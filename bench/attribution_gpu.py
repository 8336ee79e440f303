"""Recordings of index_topk on a GPU from which the attribution is computed; every one is a question of traces/README.md.

    python -m bench.attribution_gpu FOLDER [NAME...]  measure all, or those named, into FOLDER
    python -m bench.attribution_gpu builds [NAME...]  only compile their arms; needs no GPU
In: a Hopper GPU.  Out: recordings `h200-index-topk-NAME`.  Nothing is tuned and nothing is concluded here.
Misuse: rows of the same recording are paired; two of these recordings were measured at different times.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from attribution.build import build
from attribution.declare import FlagValue, Kernel, Variant, load_kernel, load_variants, shipped_root
from attribution.measure import probe, sweep, watch
from attribution.measure.runs import planned_runs
from attribution.measure.worker import Options
from attribution.plan import Overrides, Plan, json_text, plan

RUNGS = ("load_only", "math_only", "score_only", "filter_only", "select_only")
ROWS: Mapping[str, FlagValue] = {"SCHEDULE": "rows"}
"""Whole rows stay on one SM, so that a law of rows can be asked for."""
SMS = 132
"""Of the card that builds are made for when there is none."""


@dataclass(frozen=True)
class Asked:
    """One recording: variants by name or by prefix (`ctas_*`), shape, flags of every arm, and how it is measured."""

    variants: tuple[str, ...]
    shape: Mapping[str, int]
    flags: Mapping[str, FlagValue] = field(default_factory=dict)
    rounds: int = 12
    traced_rounds: int = 4
    samples: int = 6
    counters: bool = False
    distributions: tuple[str, ...] = ("normal",)

    def plans(self, kernel: Kernel, variants: Mapping[str, Variant], sms: int) -> list[Plan]:
        """One plan a distribution, with one CTA on each SM.  Raises InputError."""
        names = [v for want in self.variants for v in variants if v == want or want == _prefix(v)]
        knobs = {"sms": sms, "ctas": sms}
        return [
            plan(kernel, variants, names, Overrides(self.shape, self.flags, knobs, name, rounds=self.rounds))
            for name in self.distributions
        ]

    def options(self) -> Options:
        scopes = ("event", "ncu") if self.counters else ("event",)
        return Options(scopes=scopes, samples=self.samples, traced_rounds=self.traced_rounds, timeout_s=60.0)


def _prefix(variant: str) -> str:
    """`ctas_*` of `ctas_66`."""
    return variant.rsplit("_", 1)[0] + "_*"


RECORDINGS = {
    "ledger": Asked(RUNGS, {"q": 4096, "n": 131072}, samples=4, counters=True),
    "rows": Asked(("score_only", "ctas_66", "ctas_103", "ctas_144"), {"q": 4096, "n": 131072}, ROWS, samples=4),
    "ctas": Asked(("ctas_*",), {"q": 4096, "n": 32768}, ROWS, rounds=8, traced_rounds=2),
    "slack": Asked(
        ("delayed_tma_*", "delayed_math_*", "delayed_topk_*", "scan_reserved"), {"q": 4096, "n": 32768}, rounds=8
    ),
    "block-q": Asked(("block_q_*",), {"q": 512, "n": 131072}, rounds=8, traced_rounds=2, counters=True),
    "capacity": Asked(
        ("shared", "split", "no_spill", "sample_seed_*"),
        {"q": 512, "n": 32768},
        rounds=6,
        traced_rounds=0,
        distributions=("normal", "clustered", "ties", "overflow", "plus_100"),
    ),
}


def builds(names: Iterable[str], kernel: Kernel, variants: Mapping[str, Variant], sms: int) -> int:
    """Compile what these recordings run, all cores at it, so that no worker compiles; returns how many builds there are."""
    flags = {}
    for asked in (RECORDINGS[name] for name in names):
        for run in planned_runs(asked.plans(kernel, variants, sms)[0], asked.traced_rounds):
            flags[json_text(run.arm.flags)] = run.arm.flags
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return len({made.identity for made in pool.map(lambda one: build(kernel, one), flags.values())})


def record(
    name: str, asked: Asked, kernel: Kernel, variants: Mapping[str, Variant], gpu: probe.Gpu, folder: Path
) -> None:
    """Measure one recording into `folder`.  Raises InputError, MeasureError, DataError."""
    path, plans = folder / f"h200-index-topk-{name}", asked.plans(kernel, variants, gpu.sms)
    if len(plans) == 1:
        watch.execute(plans[0], kernel, variants, path, lambda *_: None, asked.options())
    else:
        sweep.on_gpu(plans, kernel, variants, path, lambda *_: None, asked.options(), {}, {})


def main(arguments: list[str]) -> None:
    kernel = load_kernel(shipped_root(), "index_topk")
    variants = load_variants(shipped_root(), kernel)
    names = arguments[1:] or list(RECORDINGS)
    began_s = time.monotonic()
    gpu = None if arguments[0] == "builds" else probe.find()
    if isinstance(gpu, str):
        raise SystemExit(f"attribution_gpu: {gpu}")
    made = builds(names, kernel, variants, gpu.sms if gpu else SMS)
    print(f"{made} builds: {time.monotonic() - began_s:.0f} s", flush=True)
    for name in names:
        if gpu is None:
            break
        began_s = time.monotonic()
        record(name, RECORDINGS[name], kernel, variants, gpu, Path(arguments[0]))
        print(f"{name}: {time.monotonic() - began_s:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
