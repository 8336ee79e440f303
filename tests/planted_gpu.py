"""Planted recordings as a GPU would leave them: scopes event, graph, ncu and trace, with known answers.

Out: dicts of frames in the tables of `attribution.tables`, the variants of a manifest, and the truth.  Nothing here is a
measurement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from attribution.order import rounds as ordered_rounds
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
