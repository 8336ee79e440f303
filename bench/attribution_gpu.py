"""Recordings of index_topk on a GPU from which the attribution is computed; every one is a question of traces/README.md.

    python -m bench.attribution_gpu FOLDER [NAME...]          measure all, or those named, into FOLDER
    python -m bench.attribution_gpu FOLDER --pilot [NAME...]  one round of each on few keys: does all of it run?
    python -m bench.attribution_gpu builds [NAME...]          only compile their arms; needs no GPU
In: a Hopper GPU.  Out: recordings `h200-index-topk-NAME`.  Nothing is tuned and nothing is concluded here.
A recording that is there already is left alone, and one that fails is a sentence: the next one is measured all the same.
Misuse: rows of the same recording are paired; two of these recordings were measured at different times.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from attribution.declare import FlagValue, Kernel, Variant
from attribution.errors import AttrError
from attribution.load import load_kernel, load_variants, shipped_root
from attribution.measure import probe, sweep, watch
from attribution.measure.jobfile import REST, Options
from attribution.measure.runs import planned_runs
from attribution.plan import Overrides, Plan, plan
from bench.gpu import compiled

RUNGS = ("load_only", "math_only", "score_only", "filter_only", "select_only")
MECHANISMS = (
    "serial", "serial_filter_only", "scan_reserved", "shared", "split", "no_spill", "block_q_1", "block_q_2", "two_stages",
    "ctas_264", "packed", "unfused", "unfused_topk",
)  # fmt: skip
VERSIONS = ("version_serial", "version_overlapped", "version_counts", "version_spill", "version_final")
CTAS = ("ctas_66", "ctas_86", "ctas_103", "ctas_144", "ctas_160")
ROWS: Mapping[str, FlagValue] = {"SCHEDULE": "rows"}
"""Whole rows stay on one SM, so that a law of rows can be asked for."""
LONG: Mapping[str, int] = {"q": 4096, "n": 131072}
SMS = 132
"""Of the card that builds are made for when there is none."""


@dataclass(frozen=True)
class Asked:
    """One recording: variants by name or pattern (`ctas_*`), points, flags of every arm, and how it is measured.

    `profiled`: arms whose main kernel Nsight Compute counts, about a second each; empty: all.  `rest`: of the card after each
    turn, as a multiple of the turn's work; effects of some per cent need no longer one.  Scope graph times a stage alone, with a
    clock of its own; the clock of a stage in scope event is that of the whole operator's sample.
    """

    variants: tuple[str, ...]
    shapes: tuple[Mapping[str, int], ...]
    flags: Mapping[str, FlagValue] = field(default_factory=dict)
    rounds: int = 12
    traced_rounds: int = 2
    samples: int = 4
    scopes: tuple[str, ...] = ("event",)
    profiled: tuple[str, ...] = ()
    base_turns: int = 1
    rest: float = 1.0
    distributions: tuple[str, ...] = ("normal",)

    def pilot(self) -> Asked:
        """The same arms once, on as few keys as all of them take."""
        shape = {"q": min(shape["q"] for shape in self.shapes), "n": 8192}
        return replace(self, shapes=(shape,), rounds=1, traced_rounds=min(1, self.traced_rounds), samples=1)

    def plans(self, kernel: Kernel, variants: Mapping[str, Variant], sms: int) -> list[Plan]:
        """One plan a point, with one CTA on each SM.  Raises InputError."""
        names = [v for want in self.variants for v in variants if fnmatchcase(v, want)]
        knobs = {"sms": sms, "ctas": sms}
        return [
            plan(kernel, variants, names, Overrides(shape, self.flags, knobs, name, rounds=self.rounds))
            for shape in self.shapes
            for name in self.distributions
        ]

    def options(self) -> Options:
        return Options(
            scopes=self.scopes,
            samples=self.samples,
            traced_rounds=self.traced_rounds,
            timeout_s=60.0,
            profiled_stages=("main",),
            profiled_arms=self.profiled,
            base_turns=self.base_turns,
            rest=self.rest,
        )


SIX = (
    *({"q": 4096, "n": n} for n in (8192, 32768, 131072)),
    *({"q": q, "n": 131072} for q in (64, 512, 2048)),
)
RECORDINGS = {
    "ledger": Asked(
        (*RUNGS, "serial", "block_q_1", "block_q_2"),
        (LONG,),
        rounds=10,
        traced_rounds=3,
        scopes=("event", "graph", "cupti", "ncu"),
        base_turns=3,
        rest=REST,
    ),
    "rows": Asked(
        ("score_only", *CTAS), (LONG,), ROWS, rounds=8, scopes=("event", "graph", "ncu"), profiled=("full", *CTAS)
    ),
    "versions": Asked(VERSIONS, (LONG,), rounds=8, traced_rounds=0),
    "slack": Asked(
        ("delayed_tma_*", "delayed_math_*", "delayed_topk_*", "scan_reserved"),
        ({"q": 4096, "n": 12288},),
        rounds=8,
        traced_rounds=1,
        scopes=("event", "graph", "ncu"),
    ),
    "faster": Asked(
        ("reserved_*",), ({"q": 4096, "n": 12288},), rounds=8, traced_rounds=1, scopes=("event", "graph", "ncu")
    ),
    "tiles": Asked(("serial",), ({"q": 1056, "n": 32768},), {"TRACE": 2}, rounds=2, traced_rounds=0),
    "capacity": Asked(
        ("shared", "split", "no_spill", "sample_seed_*"),
        ({"q": 512, "n": 32768},),
        rounds=6,
        traced_rounds=0,
        scopes=("event", "ncu"),
        profiled=("full", "shared", "split", "no_spill"),
        distributions=("normal", "clustered", "ties", "overflow", "plus_100"),
    ),
    "shapes": Asked(
        (*RUNGS, *MECHANISMS),
        SIX,
        rounds=3,
        traced_rounds=1,
        scopes=("event", "graph", "ncu"),
        profiled=("full", *RUNGS, "serial", "block_q_1", "block_q_2"),
    ),
    "designs": Asked(
        ("unfused_deep_gemm*", "h20_*"), SIX, rounds=3, traced_rounds=0, samples=2, scopes=("event", "graph")
    ),
    "block-q": Asked(
        ("block_q_*",), ({"q": 660, "n": 131072},), ROWS, rounds=8, scopes=("event", "graph", "ncu"), base_turns=3
    ),
}


def builds(asked: Iterable[Asked], kernel: Kernel, variants: Mapping[str, Variant], sms: int) -> int:
    """Compile what these recordings run, all cores at it, so that no worker compiles; returns how many builds there are."""
    runs = (run for one in asked for run in planned_runs(one.plans(kernel, variants, sms)[0], one.traced_rounds))
    return compiled(kernel, (run.arm.flags for run in runs))


def record(name: str, asked: Asked, kernel: Kernel, variants: Mapping[str, Variant], sms: int, folder: Path) -> str:
    """Measure one recording into `folder`; returns what became of it, in a few words."""
    path = folder / f"h200-index-topk-{name}"
    if path.exists():
        return "is there already"
    began_s = time.monotonic()

    def progress(done: int, total: int, label: str) -> None:
        print(f"    {time.monotonic() - began_s:6.1f} s  {done} of {total}: {label}", flush=True)

    try:
        plans = asked.plans(kernel, variants, sms)
        if len(plans) == 1:
            watch.execute(plans[0], kernel, variants, path, progress, asked.options())
        else:
            sweep.on_gpu(plans, kernel, variants, path, progress, asked.options(), {}, {})
    except AttrError as error:
        return f"failed after {time.monotonic() - began_s:.0f} s: {error}"
    return f"{time.monotonic() - began_s:.0f} s"


def main(arguments: list[str]) -> None:
    kernel = load_kernel(shipped_root(), "index_topk")
    variants = load_variants(shipped_root(), kernel)
    pilot, names = "--pilot" in arguments, [name for name in arguments[1:] if name != "--pilot"]
    asked = {name: RECORDINGS[name].pilot() if pilot else RECORDINGS[name] for name in names or RECORDINGS}
    began_s = time.monotonic()
    gpu = None if arguments[0] == "builds" else probe.find()
    if isinstance(gpu, str):
        raise SystemExit(f"attribution_gpu: {gpu}")
    made = builds(asked.values(), kernel, variants, gpu.sms if gpu else SMS)
    print(f"{made} builds: {time.monotonic() - began_s:.0f} s", flush=True)
    for name, one in asked.items():
        if gpu is not None:
            print(f"{name}: {record(name, one, kernel, variants, gpu.sms, Path(arguments[0]))}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
