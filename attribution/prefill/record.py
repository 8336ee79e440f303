"""One input length measured whole: checked, timed, checked again, profiled, and written as a recording.

In: a `Bench` (stack and indexers made once) and a length.  Out: `Measured`, then a Recording of kind `run`.
Tables: runs; times (stage `ttft` of scope wall, cpu without a GPU; `indexer_00`, ... of one chunk's calls); counters (calls and
fell_back_calls by chunk); checks; conditions; on a GPU also the native stack's kernels and ranges.
Misuse: recordings of two lengths answer two questions; `attr reconcile` takes them together, never their times.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution import __version__
from attribution.declare import Check
from attribution.errors import MeasureError
from attribution.measure import clocks
from attribution.plan import Plan, shape_text
from attribution.prefill import arms
from attribution.prefill.checks import Looked
from attribution.prefill.indexers import Given, Indexer, Kept, Native, WithFallback
from attribution.prefill.machine import knobs_of, machine_facts
from attribution.prefill.profiled import FILE, profiled
from attribution.prefill.rounds import Timed, request, timed_rounds
from attribution.prefill.sizes import Sizes
from attribution.prefill.spans import Spans
from attribution.prefill.stack import Stack
from attribution.recording import Recording, write_tables

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Bench:
    """What all lengths share.  `skipped`: what could not be used here, with its reason."""

    config: str
    sizes: Sizes
    stack: Stack
    native: Native
    fused: WithFallback
    fused_name: str
    skipped: dict[str, str]
    seed: int

    def tokens(self, length: int, seed: int) -> Any:
        """int64 [length] on the device; the same for the same seed."""
        import torch

        draw = torch.Generator().manual_seed(seed)
        return torch.randint(0, self.sizes.vocabulary, (length,), generator=draw).to(self.stack.device)

    def checked(self, tokens: Any) -> tuple[dict[str, list[Check]], dict[str, Any]]:
        """Every check of both indexers' selections on this input, and the logits, by arm."""
        found: dict[str, list[Check]] = {}
        logits: dict[str, Any] = {}
        for arm, indexer in ((arms.BASE, self.native), ("fused", self.fused)):
            looked = Looked(indexer, self.sizes.top_k)
            _, _, logits[arm] = request(self.stack, tokens, looked, Spans(self.stack.device))
            found[arm] = looked.checks
        return found, logits


@dataclass(frozen=True)
class Measured:
    """One input length, checked and timed: not yet profiled, not yet written."""

    plan: Plan
    tokens: Any
    tables: dict[str, pd.DataFrame]


def measure(bench: Bench, length: int, rounds: int, said: Callable[[str], None]) -> Measured:
    """Check, time, check again.  Raises MeasureError before timing when an indexer is wrong, InputError."""
    bench.sizes.check_length(length)
    said(f"{length} tokens: checking")
    tokens = bench.tokens(length, bench.seed)
    before, references = bench.checked(tokens)
    _refuse(before)
    kept = Kept(bench.native)
    _, _, references["given"] = request(bench.stack, tokens, kept, Spans(bench.stack.device))
    indexers: dict[str, Indexer] = {arms.BASE: bench.native, "fused": bench.fused, "given": Given(kept.selections)}
    request(bench.stack, tokens, indexers["given"], Spans(bench.stack.device))  # the others have run
    plan = arms.plan(length, bench.sizes.layers, rounds, bench.seed, knobs_of(bench.stack.device))
    timed = list(timed_rounds(bench.stack, tokens, indexers, plan, references, said))
    said(f"{length} tokens: checking again")
    after, _ = bench.checked(bench.tokens(length, bench.seed + 1))
    return Measured(plan, tokens, _tables(bench, plan, timed, tokens, before, after))


def record_all(
    bench: Bench, paths: Mapping[int, Path], rounds: int, said: Callable[[int, str], None], overwrite: bool = False
) -> list[Recording]:
    """A recording of every length (its path by length), each timed before the first is profiled.  Raises as `measure`.

    What was timed before something failed is written all the same, without a profile.  `said(step, text)`: two steps a length.
    """
    found: list[Measured] = []
    done: list[Recording] = []
    try:
        for step, length in enumerate(paths):
            found.append(measure(bench, length, rounds, partial(said, step)))
        for step, (one, path) in enumerate(zip(found, paths.values(), strict=True), len(paths)):
            done.append(record(bench, one, path, partial(said, step), overwrite))
    except BaseException:
        for one, path in [*zip(found, paths.values(), strict=False)][len(done) :]:
            record(bench, one, path, partial(said, len(paths)), overwrite, profile=False)
        raise
    return done


def record(
    bench: Bench,
    found: Measured,
    path: Path,
    said: Callable[[str], None],
    overwrite: bool = False,
    profile: bool = True,
) -> Recording:
    """Profile on a GPU, and write.  A profiler stays attached: what is timed after it is another measurement."""
    tables = dict(found.tables)
    if profile and bench.stack.device == "cuda":
        said(f"{len(found.tokens)} tokens: profiling")
        tables |= profiled(bench.stack, found.tokens, bench.native)
    return write_tables(path, "run", tables, _manifest(bench, found.plan, "kernels" in tables), overwrite)


def _refuse(found: dict[str, list[Check]]) -> None:
    for arm, checks in found.items():
        for check in checks:
            if not check.passed:
                raise MeasureError(
                    f"indexer {arm} is wrong, so nothing was timed: {check.name}: {check.detail}; "
                    "run the kernel's own tests"
                )


def _tables(
    bench: Bench,
    plan: Plan,
    timed: list[Timed],
    tokens: Any,
    before: dict[str, list[Check]],
    after: dict[str, list[Check]],
) -> dict[str, pd.DataFrame]:
    """Frames by name, as `attribution.tables` has them."""
    import pandas as pd

    inputs = hashlib.sha256(tokens.cpu().numpy().tobytes()).hexdigest()[:16]
    shape = shape_text(plan.shape)
    runs, times, counters, checks, conditions = [], [], [], [], []
    for one in timed:
        run, arm = one.planned.run, one.planned.arm
        runs.append({
            "run": run, "question": one.planned.question, "round": one.planned.round, "position": one.planned.position,
            "predecessor": one.planned.predecessor, "arm": arm.name, "kernel": plan.kernel, "variant": arm.variant,
            "shape": shape, "distribution": plan.distribution, "seed": plan.seed, "build": "", "inputs": inputs,
            "flags": json.dumps(dict(arm.flags), sort_keys=True), "knobs": json.dumps(dict(arm.knobs), sort_keys=True),
            "status": "ok", "reason": "", "begin_ns": one.begin_ns,
        })  # fmt: skip
        times += _times(bench.stack.device, one)
        for chunk, calls in one.calls.items():
            for metric, value in (("calls", calls), ("fell_back_calls", one.fell_back[chunk])):
                counters.append((run, stage_of(chunk), metric, float(value)))
        mine: Iterable[tuple[str, Check]] = [("after", one.check)]
        if one.planned.round == 0 and arm.name in before:
            mine = [*(("before", c) for c in before[arm.name]), *(("after", c) for c in after[arm.name]), *mine]
        checks += [(run, when, c.name, c.passed, c.detail) for when, c in mine]
        conditions += [{"run": run, "when": w, **r.row()} for w, r in (("before", one.before), ("after", one.after))]
    counted = pd.DataFrame(counters, columns=["run", "stage", "metric", "value"]).assign(
        scope="launch", kernel_name="", launch=-1, instance="", unit="1", pass_group=-1, source="adapter"
    )
    counted["state"] = ["value" if v else "zero" for v in counted["value"]]
    return {
        "runs": pd.DataFrame(runs),
        "times": pd.DataFrame(times),
        "counters": counted,
        "checks": pd.DataFrame(checks, columns=["run", "when", "check", "passed", "detail"]),
        "conditions": pd.DataFrame(conditions),
    }


def stage_of(chunk: int) -> str:
    """Name of the stage that a chunk's indexer calls are."""
    return f"{arms.PART}_{chunk:02d}"


def _times(device: str, one: Timed) -> list[dict[str, Any]]:
    whole, part = ("wall", "event") if device == "cuda" else ("cpu", "cpu")
    clock = one.after.sm_clock_mhz
    shared = {
        "run": one.planned.run, "cache": "warm", "clock": "as-found" if device == "cuda" else "none", "sample": 0,
        "clock_mhz": clock, "flags": clocks.flags(clock, one.after) if device == "cuda" else "",
    }  # fmt: skip
    parts = [(part, stage_of(chunk), ns) for chunk, ns in one.part_ns.items()]
    return [
        {**shared, "scope": s, "stage": stage, "time_ns": ns}
        for s, stage, ns in [(whole, arms.STAGE, one.ttft_ns), *parts]
        if ns > 0  # two events with nothing between may have one stamp: then nothing was timed
    ]


def _manifest(bench: Bench, plan: Plan, was_profiled: bool) -> dict[str, Any]:
    """What the recording states beside its tables."""
    return {
        "attribution": __version__,
        "created_ns": time.time_ns(),
        "machine": machine_facts(bench.stack.device),
        "kernels": {arms.KERNEL: {"roles": [], "events": [], "same": {}, "source": _source_hash()}},
        "variants": arms.variants(plan.shape["input"]),
        "plan": plan.facts(),
        "prefill": {
            "config": bench.config,
            "sizes": bench.sizes.facts(),
            "native": {"scorer": bench.native.scorer, "selector": bench.native.selector},
            "fused": bench.fused_name,
            "not_used": bench.skipped,
            "falls_back": "calls whose first row has fewer than top_k keys",
            "part": arms.PART,
            "profile": FILE if was_profiled else None,
        },
    }


def _source_hash() -> str:
    """sha256 over this package's files, first 16 digits."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]
