"""The worked case on a GPU: why the configuration that was tuned on an H20 loses on an H200 (docs/findings/0001).

    python -m bench.worked_case_gpu FOLDER [NAME...]  measure all, or those named, into FOLDER
    python -m bench.worked_case_gpu builds [NAME...]  only compile their arms; needs no GPU
In: a Hopper GPU with ncu, and DeepGEMM's wheel for the arm of its scorer.  Out: recordings `h200-h20-NAME`.
`design` has every arm that the question needs, with counters; `overlap` has the two configurations traced.
Misuse: nothing is tuned and nothing is concluded here; what was expected is in variants/index_topk.toml.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from attribution.declare import Kernel, Variant
from attribution.load import load_kernel, load_variants, shipped_root
from attribution.measure import probe, watch
from attribution.measure.jobfile import Options
from attribution.measure.runs import planned_runs
from attribution.plan import Overrides, Plan, plan
from bench.gpu import compiled

SHAPE = {"q": 4096, "n": 32768}
SMS = 132
"""Of the card that builds are made for when there is none."""


@dataclass(frozen=True)
class Asked:
    """One recording: variants, rounds, and how it is measured."""

    variants: tuple[str, ...]
    rounds: int
    traced_rounds: int = 0
    counters: bool = False

    def plan(self, kernel: Kernel, variants: Mapping[str, Variant], sms: int) -> Plan:
        knobs = {"sms": sms, "ctas": sms}
        return plan(kernel, variants, self.variants, Overrides(SHAPE, {}, knobs, rounds=self.rounds))

    def options(self) -> Options:
        """Counters of the main kernel only, once: all launches three times would take fifteen times as long for no answer more."""
        scopes = ("event", "ncu") if self.counters else ("event",)
        return Options(
            scopes, samples=4, traced_rounds=self.traced_rounds, timeout_s=60.0, profiled_stages=("main",), base_turns=1
        )


BOTH = ("h20_block_q_1", "h20_block_q_2")
RELIEF = ("h20_packed", "h20_f16", "h20_one_warpgroup")
RIVALS = (
    *("h20_store_scores", "h20_two_waves", "h20_shares", "h20_six_stages", "h20_block_q_4", "h20_pingpong"),
    *("h20_narrow_math_only", "h20_delayed_math_400", "h20_delayed_topk_75000"),
)
RUNGS = ("math_only", "score_only", "h20_math_only", "h20_score_only", "h20_filter_only")
UNFUSED = ("h20_unfused_topk", "h20_unfused_deep_gemm")
RECORDINGS = {
    "design": Asked((*BOTH, *RUNGS, *RELIEF, *RIVALS, *UNFUSED), rounds=6, counters=True),
    "overlap": Asked(BOTH, rounds=4, traced_rounds=2),
}
"""Counting takes most of the time, about two seconds an arm, so each arm here answers something that no other does."""


def builds(names: Iterable[str], kernel: Kernel, variants: Mapping[str, Variant], sms: int) -> int:
    """Compile what these recordings run, all cores at it, so that no worker compiles; returns how many builds there are."""
    all_asked = (RECORDINGS[name] for name in names)
    runs = (run for one in all_asked for run in planned_runs(one.plan(kernel, variants, sms), one.traced_rounds))
    return compiled(kernel, (run.arm.flags for run in runs))


def main(arguments: list[str]) -> None:
    kernel = load_kernel(shipped_root(), "index_topk")
    variants = load_variants(shipped_root(), kernel)
    names = arguments[1:] or list(RECORDINGS)
    began_s = time.monotonic()
    gpu = None if arguments[0] == "builds" else probe.find()
    if isinstance(gpu, str):
        raise SystemExit(f"worked_case_gpu: {gpu}")
    sms = gpu.sms if gpu else SMS
    print(f"{builds(names, kernel, variants, sms)} builds: {time.monotonic() - began_s:.0f} s", flush=True)
    for name in names if gpu else ():
        began_s, asked = time.monotonic(), RECORDINGS[name]
        path, planned = Path(arguments[0]) / f"h200-h20-{name}", asked.plan(kernel, variants, sms)
        watch.execute(planned, kernel, variants, path, lambda *_: None, asked.options())
        print(f"{name}: {time.monotonic() - began_s:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
