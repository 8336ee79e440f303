"""Small recordings whose answers are known: built from a seed, with one thing planted in each.

Out: dicts of frames in the tables of `attribution.tables`. Nothing here is a measurement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pandas as pd

from attribution.declare import Event
from attribution.order import rounds as ordered_rounds
from attribution.tables import conform

FLAGS = {
    "full": {"REDUCE": True, "SELECT": True},
    "math_only": {"REDUCE": False, "SELECT": False},
    "score_only": {"REDUCE": True, "SELECT": False},
}
"""Declared flags, resolved, of the planted variants."""


def noise(rng: np.random.Generator, shape: tuple[int, int], phi: float) -> np.ndarray:
    """Unit-variance normal noise [k, n], AR(1) along the last axis with coefficient `phi`."""
    out = rng.normal(size=shape)
    out[:, 1:] *= np.sqrt(1 - phi**2)
    for i in range(1, shape[1]):
        out[:, i] += phi * out[:, i - 1]
    return out


def measured(
    ratios: Mapping[str, float] | None = None,
    *,
    rounds: int = 20,
    sd: float = 0.003,
    phi: float = 0.0,
    samples: int = 1,
    seed: int = 0,
    base_ns: float = 1e6,
    scope: tuple[str, str, str] = ("host-virtual", "none", "none"),
    work: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, pd.DataFrame]:
    """runs, times, checks and counters of `ratios` (arm -> planted time over the base's).

    The base is the first arm. A random walk of 0.5 % a round drifts under all arms alike; `sd` is
    the noise of each run's log time, AR(1) over the runs of one arm with `phi`. Counter `mma` is
    1000 and `rows` 64 in every arm, unless `work` (arm -> metric -> value) says otherwise.
    """
    ratios = dict(ratios or {"full": 1.0, "math_only": 0.8, "null": 1.0})
    arms, base = list(ratios), next(iter(ratios))
    rng = np.random.default_rng(seed)
    drift = np.cumsum(rng.normal(scale=0.005, size=rounds))
    error = sd * noise(rng, (len(arms), rounds), phi)
    runs, times, checks, counters = [], [], [], []
    for index, order in enumerate(ordered_rounds(len(arms), rounds, seed)):
        for position, number in enumerate(order):
            arm, run = arms[number], len(runs)
            variant = base if arm == "null" else arm
            runs.append(_run(run, index, position, [arms[n] for n in order], variant, base))
            level = base_ns * ratios[arm] * np.exp(drift[index] + error[number, index])
            for sample in range(samples):
                jitter = np.exp(rng.normal(scale=sd / 10)) if samples > 1 else 1.0
                times.append((run, *scope, "operator", sample, level * jitter, np.nan, ""))
            checks += [(run, when, "exact top-k", True, "64 rows") for when in ("before", "after")]
            for metric, value in {"mma": 1000.0, "rows": 64.0, **(work or {}).get(arm, {})}.items():
                counters.append((run, metric, value))
    return {
        "runs": conform("runs", pd.DataFrame(runs)),
        "times": conform("times", _times(times)),
        "checks": conform("checks", pd.DataFrame(checks, columns=["run", "when", "check", "passed", "detail"])),
        "counters": conform("counters", _counters(counters)),
    }


def _run(run: int, index: int, position: int, order: list[str], variant: str, base: str) -> dict[str, object]:
    return {
        "run": run,
        "question": base,
        "round": index,
        "position": position,
        "predecessor": order[position - 1] if position else "",
        "arm": order[position],
        "kernel": "planted",
        "variant": variant,
        "shape": "q=64,n=8192",
        "distribution": "normal",
        "seed": index,
        "flags": json.dumps(FLAGS.get(variant, {}), sort_keys=True),
        "knobs": "{}",
        "build": "",
        "inputs": f"{index:016x}",
        "status": "ok",
        "reason": "",
        "begin_ns": run,
    }


def _times(times: list[tuple[object, ...]]) -> pd.DataFrame:
    columns = ["run", "scope", "cache", "clock", "stage", "sample", "time_ns", "clock_mhz", "flags"]
    return pd.DataFrame(times, columns=columns)


def _counters(counters: list[tuple[int, str, float]]) -> pd.DataFrame:
    frame = pd.DataFrame(counters, columns=["run", "metric", "value"])
    return frame.assign(
        scope="host-virtual",
        stage="operator",
        kernel_name="",
        launch=-1,
        instance="",
        unit="",
        state=np.where(frame["value"].isna(), "absent", "value"),
        pass_group=-1,
        source="host",
    )


PLANTED_ROLES = ("math", "topk")
PLANTED_EVENTS = (
    Event("score", "math"),
    Event("free", "math", waits_for="topk"),
    Event("select", "topk"),
    Event("ready", "topk", waits_for="math"),
)


def traced(ctas: int = 4, sms: int = 3, batches: int = 2) -> dict[str, pd.DataFrame]:
    """events, lanes and rows of CTAs with roles math (0) and topk (1): each batch is 10 ns of math, then 6 of topk.

    CTA c is on SM c modulo `sms`, a later wave starts when the earlier one ends. Events: 0 score and 1 free (math),
    2 select and 3 ready (topk); each lane alternates one wait and one work span a batch.
    """
    events, length = [], 10 * batches + 6
    for cta in range(ctas):
        start = cta // sms * length
        for batch in range(batches):
            at = start + 10 * batch
            events += [(cta, 0, 1, edge, batch, at) for edge in (0, 1)]
            events += [(cta, 0, 0, edge, batch, at + 10 * edge) for edge in (0, 1)]
        last = start
        for batch in range(batches):
            ready = start + 10 * batch + 10
            stamps = ((3, 0, last), (3, 1, ready), (2, 0, ready), (2, 1, ready + 6))
            events += [(cta, 1, event, edge, batch, time) for event, edge, time in stamps]
            last = ready + 6
    columns = ["cta", "role", "event", "edge", "arg", "time_ns"]
    lanes = pd.DataFrame([(c, r, c % sms) for c in range(ctas) for r in (0, 1)], columns=["cta", "role", "sm_begin"])
    lanes = lanes.assign(run=0, sm_end=lanes["sm_begin"], attempts=4 * batches, capacity=4 * batches)
    rows = pd.DataFrame({"run": 0, "cta": range(ctas), "sm": np.arange(ctas) % sms, "rows": batches})
    return {
        "events": conform("events", pd.DataFrame(events, columns=columns).assign(run=0)),
        "lanes": conform("lanes", lanes),
        "rows": conform("rows", rows),
    }
