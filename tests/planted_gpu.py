"""Planted recordings as a GPU would leave them: scopes event, graph, ncu and trace, with known answers.

Out: dicts of frames in the tables of `attribution.tables`, the variants of a manifest, and the truth.  Nothing here is a
measurement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attribution.order import rounds as ordered_rounds
from attribution.recording import Recording, write_tables
from attribution.schedule import Link, Pipeline, Role, place
from attribution.tables import conform

LADDER = {
    "load_only": ("MMA", "REDUCE", "FILTER", "SELECT", "EMIT"),
    "math_only": ("REDUCE", "FILTER", "SELECT", "EMIT"),
    "score_only": ("FILTER", "SELECT", "EMIT"),
    "filter_only": ("SELECT", "EMIT"),
    "select_only": ("EMIT",),
}
SAME = {
    "load_only": ["tma_loads"],
    "math_only": ["tma_loads", "tensor_instructions"],
    "score_only": ["tma_loads", "tensor_instructions"],
    "filter_only": ["tma_loads", "tensor_instructions", "candidates"],
    "select_only": ["tma_loads", "tensor_instructions", "candidates"],
}
TIMES = {  # ns; the truth of the ladder
    "full": 1.00e6, "select_only": 0.98e6, "filter_only": 0.95e6,
    "score_only": 0.80e6, "math_only": 0.70e6, "load_only": 0.30e6,
}  # fmt: skip
GRAPH = ("graph", "warm", "as-found")
EVENT = ("event", "warm", "as-found")


def variant(base: str | None, flags: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A variant as a manifest has it."""
    return {"base": base, "asks": "planted?", "flags": dict(flags), "knobs": {}, "same": [], "expects": {},
            "factors": None, "stage": "main"} | more  # fmt: skip


def ladder_variants() -> dict[str, dict[str, Any]]:
    """`full`, its five rungs, and the factor pair OVERLAP x SELECT."""
    out = {"full": variant(None, {})}
    for name, off in LADDER.items():
        out[name] = variant("full", dict.fromkeys(off, False), same=SAME[name])
    out["serial"] = variant("full", {"OVERLAP": False}, same=SAME["filter_only"], factors=["OVERLAP", "SELECT"])
    off = dict.fromkeys(("OVERLAP", "SELECT", "EMIT"), False)
    out["serial_filter_only"] = variant("serial", off, same=SAME["filter_only"])
    return out


def measured(
    questions: Mapping[str, Mapping[str, float]],
    *,
    rounds: int = 20,
    sd: float = 0.003,
    seed: int = 0,
    scope: tuple[str, str, str] = GRAPH,
    stages: Mapping[str, float] | None = None,
    work: Mapping[str, Mapping[str, float]] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    knobs: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, pd.DataFrame]:
    """runs, times, checks, counters of questions (base -> arm -> planted ns of stage `main`).

    `stages` (stage -> ns) are further stages of every run, with `gaps` for what is between them; then `operator` is timed too.
    Clocks drift over rounds by a random walk of 0.5 % whose mean is 1; each stage's log time has noise `sd`.
    """
    rng = np.random.default_rng(seed)
    level = np.exp(np.cumsum(rng.normal(scale=0.005, size=rounds)))
    level /= level.mean()
    runs, times, counters = [], [], []
    for which, (base, arms) in enumerate(questions.items()):
        for index, order in enumerate(ordered_rounds(len(arms), rounds, seed + which)):
            names = [list(arms)[i] for i in order]
            for position, arm in enumerate(names):
                run, of = len(runs), base if arm == "null" else arm
                runs.append(
                    {
                        "run": run, "question": base, "round": index, "position": position,
                        "predecessor": names[position - 1] if position else "", "arm": arm, "kernel": "planted",
                        "variant": of, "shape": "q=64,n=8192", "distribution": "normal", "seed": index,
                        "flags": json.dumps((flags or {}).get(of, {"ARM": of}), sort_keys=True),
                        "knobs": json.dumps((knobs or {}).get(of, {}), sort_keys=True), "build": of,
                        "inputs": f"{index:016x}", "status": "ok", "reason": "", "begin_ns": run,
                    }
                )  # fmt: skip
                parts = {"main": arms[arm], **(stages or {})}
                seen = {s: ns * level[index] * np.exp(rng.normal(scale=sd)) for s, ns in parts.items()}
                if stages:
                    seen["operator"] = sum(seen.values())
                    del seen["gaps"]
                times += [(run, *scope, s, 0, ns, 1755.0, "") for s, ns in seen.items()]
                amounts = {"tma_loads": 512.0, "tensor_instructions": 4096.0, "candidates": 700.0}
                for metric, value in {**amounts, **(work or {}).get(arm, {})}.items():
                    counters.append((run, metric, value))
    columns = ["run", "scope", "cache", "clock", "stage", "sample", "time_ns", "clock_mhz", "flags"]
    checks = pd.DataFrame({"run": [r["run"] for r in runs]}).assign(
        when="after", check="exact top-k", passed=True, detail=""
    )
    return {
        "runs": conform("runs", pd.DataFrame(runs)),
        "times": conform("times", pd.DataFrame(times, columns=columns)),
        "checks": conform("checks", checks),
        "counters": counted(pd.DataFrame(counters, columns=["run", "metric", "value"])),
    }


def counted(frame: pd.DataFrame, **more: Any) -> pd.DataFrame:
    """Rows run, metric, value as a `counters` table; NaN is absent."""
    facts = {"scope": "ncu", "stage": "main", "kernel_name": "planted", "launch": 0, "instance": "", "unit": "",
             "pass_group": 0, "source": "planted"} | more  # fmt: skip
    state = np.where(frame["value"].isna(), "absent", np.where(frame["value"] == 0, "zero", "value"))
    return conform("counters", frame.assign(state=state, **{k: v for k, v in facts.items() if k not in frame}))


def full_ladder(**options: Any) -> dict[str, pd.DataFrame]:
    """The ladder of TIMES with its null arm."""
    return measured({"full": {**TIMES, "null": TIMES["full"]}}, **options)


ROLES = ["math", "topk"]
EVENTS = [
    {"name": "slot_free", "role": "math", "waits_for": "topk", "level": 1},
    {"name": "score", "role": "math", "waits_for": None, "level": 1},
    {"name": "slot_ready", "role": "topk", "waits_for": "math", "level": 1},
    {"name": "select", "role": "topk", "waits_for": None, "level": 1},
]


def trace(
    runs: Sequence[int], math_ns: float, topk_ns: float, *, batches: int = 4, ctas: int = 3, sms: int = 3, slots: int = 2,
    sd: float = 0.003, seed: int = 0, each: bool = False,
) -> dict[str, pd.DataFrame]:  # fmt: skip
    """events, lanes and rows of traced runs of a two-role kernel, one row a batch; a run's times of a role have noise `sd`.

    `each`: noise of every batch instead of the run, so that which SM finishes last is chance where they have equal work.

    With one slot the consumer is exposed wholly: topk / (math + topk) of the time.
    """
    rng = np.random.default_rng([seed, 7])
    pipeline = Pipeline(
        (Role("math", "score", wait_free="slot_free"), Role("topk", "select", wait_ready="slot_ready")),
        (Link(slots, "batch"),),
    )
    names = [e["name"] for e in EVENTS]
    out: dict[str, list[pd.DataFrame]] = {"events": [], "lanes": [], "rows": []}
    for run in runs:
        noise = np.exp(rng.normal(scale=sd, size=(2, batches if each else 1))) * np.ones((2, batches))
        times = [[[int(ns * f)] for f in factors] for ns, factors in zip((math_ns, topk_ns), noise, strict=True)]
        placed = place(pipeline, times, ctas, sms)
        spans = pd.DataFrame(
            {
                "run": run, "cta": placed.cta, "role": placed.role, "event": [names.index(e) for e in placed.event],
                "arg": placed.batch, "begin": placed.begin_ns, "end": placed.end_ns,
            }
        ).sort_values(["cta", "role", "begin"])  # fmt: skip
        edges = spans.loc[spans.index.repeat(2)].reset_index(drop=True)
        edges["edge"] = np.arange(len(edges)) % 2
        edges["time_ns"] = np.where(edges["edge"] == 0, edges["begin"], edges["end"])
        out["events"].append(edges.drop(columns=["begin", "end"]))
        lanes = pd.DataFrame({"run": run, "cta": np.repeat(np.arange(ctas), 2), "role": np.tile([0, 1], ctas)})
        lanes["sm_begin"] = lanes["sm_end"] = placed.cta_sm[lanes["cta"]]
        written = edges.groupby(["cta", "role"]).size().reindex(pd.MultiIndex.from_frame(lanes[["cta", "role"]]))
        out["lanes"].append(lanes.assign(attempts=written.fillna(0).to_numpy(), capacity=64))
        rows = np.bincount(np.arange(batches) % ctas, minlength=ctas)
        out["rows"].append(pd.DataFrame({"run": run, "cta": np.arange(ctas), "sm": placed.cta_sm, "rows": rows}))
    return {name: conform(name, pd.concat(frames, ignore_index=True)) for name, frames in out.items()}


def recording(path: Path, tables: Mapping[str, pd.DataFrame], variants: Mapping[str, Any], sms: int = 3) -> Recording:
    """The tables as a recording of a GPU that does not exist."""
    first = tables["runs"].astype({"arm": str}).drop_duplicates("arm").set_index("arm")
    ran = {arm: json.loads(str(flags)) for arm, flags in first["flags"].items()}
    questions = [
        {
            "base": str(base),
            "arms": [
                {"name": str(a), "variant": str(base) if a == "null" else str(a), "flags": ran[a], "knobs": {}}
                for a in sorted(arms, key=lambda a, base=base: a != base)
                if not str(a).endswith("+trace")
            ],
        }
        for base, arms in tables["runs"].groupby("question", observed=True, sort=False)["arm"].unique().items()
    ]
    rounds = int(tables["runs"]["round"].max()) + 1
    manifest = {
        "machine": {"kind": "cuda", "name": "planted", "expects": "planted", "sms": sms, "tick_ns": 32.0},
        "kernels": {"planted": {"roles": ROLES, "events": EVENTS, "same": {}, "source": ""}},
        "variants": dict(variants),
        "plan": {
            "kernel": "planted",
            "shape": {"q": 64, "n": 8192},
            "distribution": "normal",
            "rounds": rounds,
            "questions": questions,
        },
    }
    return write_tables(path, "run", tables, manifest)
