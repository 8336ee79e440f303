"""hello measured by workers whose machine is faked: see measure/fake_worker.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from attribution.declare import Kernel, Variant
from attribution.measure import watch
from attribution.measure.jobfile import Options
from attribution.measure.stopping import Rule
from attribution.plan import Overrides, Plan, plan
from attribution.recording import Recording

FAKE = (sys.executable, str(Path(__file__).parent / "measure" / "fake_worker.py"))
ROUNDS = 4


def planned(hello: Kernel, variants: dict[str, Variant], rounds: int = ROUNDS) -> Plan:
    return plan(hello, variants, ["scalar"], Overrides({"rows": 8, "columns": 512}, {}, {}, rounds=rounds))


def measured(
    hello: Kernel,
    variants: dict[str, Variant],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str = ":",
    timeout_s: float = 30.0,
    resume: bool = False,
    rule: Rule | None = None,
    rounds: int = ROUNDS,
    traced: int = 0,
    scopes: tuple[str, ...] = ("event", "graph"),
    keep_s: float = 0.0,
    cache: str = "warm",
) -> Recording:
    options = Options(scopes=scopes, cache=cache, traced_rounds=traced, timeout_s=timeout_s, keep_s=keep_s)
    asked = planned(hello, variants, rounds)
    return executed(hello, variants, asked, path, monkeypatch, fault, options, resume, rule)


def executed(
    hello: Kernel,
    variants: dict[str, Variant],
    asked: Plan,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str = ":",
    options: Options | None = None,
    resume: bool = False,
    rule: Rule | None = None,
) -> Recording:
    monkeypatch.setenv("FAKE", fault)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    given = options or Options(traced_rounds=0)
    return watch.execute(asked, hello, variants, path, lambda *_: None, given, resume=resume, rule=rule, command=FAKE)
