"""Recordings of index_topk on the reference machine for the notebooks on layouts and on slack.

    python -m bench.attribution_host FOLDER [NAME...]
In: nothing but a CPU.  Out: recordings `host-NAME`: virtual time, whose mechanisms are the kernel's and whose speed is nobody's.
The reference machine's tasks are milliseconds, so delays are other ones than in variants/index_topk.toml.
Misuse: what they show of a GPU is that the questions can be answered, not the answers: bench/attribution_gpu.py asks a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from attribution.declare import FlagValue, Kernel, Variant
from attribution.load import load_kernel, load_variants, shipped_root
from attribution.measure import job, sweep
from attribution.plan import Overrides, Plan, plan

DELAYS_NS = {
    "tma": (2_500_000, 5_000_000, 10_000_000, 15_000_000, 20_000_000),
    "math": (500_000, 1_000_000, 2_000_000, 3_000_000, 4_000_000),
    "topk": (10_000_000, 25_000_000, 50_000_000, 80_000_000, 120_000_000),
}
"""Of one item of the role's work; the virtual clock runs at 1 GHz."""
DISTRIBUTIONS = ("normal", "clustered", "ties", "overflow", "plus_100")


@dataclass(frozen=True)
class Asked:
    """One recording: variants, shape, flags and knobs of every arm, rounds, distributions."""

    variants: Mapping[str, Variant]
    shape: Mapping[str, int]
    flags: Mapping[str, FlagValue]
    knobs: Mapping[str, int]
    rounds: int
    distributions: tuple[str, ...] = ("normal",)

    def plans(self, kernel: Kernel) -> list[Plan]:
        names = [name for name in self.variants if name != "full"]
        return [
            plan(kernel, self.variants, names, Overrides(self.shape, self.flags, self.knobs, d, rounds=self.rounds))
            for d in self.distributions
        ]


def slack(known: Mapping[str, Variant]) -> Asked:
    """Delays of each role, and a selection that walks the reserved capacity to test the prediction on."""
    out = {"full": known["full"], "scan_reserved": known["scan_reserved"]}
    for role, delays in DELAYS_NS.items():
        for delay in delays:
            name = f"delayed_{role}_{delay}"
            flags: Mapping[str, FlagValue] = {"DELAY_ROLE": role, "DELAY_CYCLES": delay}
            asks = f"Slack of {role}: do {delay} ns more an item show in the whole?"
            out[name] = replace(known["delayed_topk"], name=name, asks=asks, flags=flags, expects={})
    return Asked(out, {"q": 24, "n": 8192}, {}, {"sms": 2, "ctas": 2}, rounds=8)


def capacity(known: Mapping[str, Variant]) -> Asked:
    """Layouts of the candidate lists and sampling seeds, on five distributions."""
    names = ("full", "shared", "split", "no_spill", "sample_seed_1", "sample_seed_2", "sample_seed_3")
    return Asked(
        {n: known[n] for n in names}, {"q": 32, "n": 8192}, {}, {"sms": 8, "ctas": 8}, 4, DISTRIBUTIONS
    )  # fmt: skip


RECORDINGS = {"slack": slack, "capacity": capacity}


def main(folder: Path, names: list[str]) -> None:
    kernel = load_kernel(shipped_root(), "index_topk")
    known = load_variants(shipped_root(), kernel)
    for name in names or RECORDINGS:
        asked = RECORDINGS[name](known)
        plans, path = asked.plans(kernel), folder / f"host-{name}"
        if len(plans) == 1:
            print(job.execute(plans[0], kernel, asked.variants, path, lambda *_: None))
        else:
            print(sweep.on_host(plans, kernel, asked.variants, path, lambda *_: None, {}, {}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
