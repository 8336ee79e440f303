"""What the GPU worker does without a GPU: choosing a machine, reading modules, telling a lost context from an error."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from attribution.called import PACKAGE
from attribution.declare import Kernel
from attribution.errors import InputError, MeasureError
from attribution.ingest.trace import RawTrace
from attribution.launch import TRACE, Launch, Operator
from attribution.measure import cuda, facts, probe, stamp, start, timing
from attribution.measure.context import guarded
from attribution.measure.jobfile import Options
from attribution.measure.machine import MachineLost
from attribution.measure.points import gpu_module
from attribution.measure.prepared import _argument
from attribution.measure.traced import rows_of, trace_tables
from attribution.plan import Arm, json_text

LAUNCH = Launch("main", "k", (1, 1, 1), 32, 0, ())


def test_nothing_of_this_touches_a_driver_or_torch() -> None:
    heavy = {"torch", "cuda.core", "pynvml"}
    code = f"import sys, attribution.measure.cuda, attribution.measure.start; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def no_card(monkeypatch: pytest.MonkeyPatch, found: Any = "no CUDA device") -> None:
    monkeypatch.setattr(probe, "find", lambda: found)


def test_the_machine_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    card = probe.Gpu("NVIDIA F200", 4, "sm_90")
    no_card(monkeypatch, card)
    assert probe.choose("auto", "gpu", "k") == card
    assert probe.choose("host", "gpu", "k") is None
    assert probe.choose("auto", None, "k") is None
    with pytest.raises(InputError, match="names no GPU module"):
        probe.choose("cuda", None, "k")
    no_card(monkeypatch)
    assert probe.choose("auto", "gpu", "k") is None
    with pytest.raises(MeasureError, match="no CUDA device; --machine host"):
        probe.choose("cuda", "gpu", "k")
    with pytest.raises(InputError, match="allowed are auto, host and cuda"):
        probe.choose("gpu", "gpu", "k")


def test_a_driver_that_hangs_or_fails_is_a_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "has_card", lambda: True)
    monkeypatch.setattr(probe, "_missing", lambda module: False)
    monkeypatch.setattr(probe, "LIMIT_S", 0.5)
    monkeypatch.setattr(probe, "CHILD", (sys.executable, "-c", "import time; time.sleep(60)"))
    assert "did not answer within" in str(probe.find())
    monkeypatch.setattr(probe, "LIMIT_S", 30)
    monkeypatch.setattr(probe, "CHILD", (sys.executable, "-c", "raise RuntimeError('CUDA_ERROR_NO_DEVICE')"))
    assert "CUDA_ERROR_NO_DEVICE" in str(probe.find())
    text = '{"name": "NVIDIA F200", "sms": 4, "arch": "sm_90"}'
    monkeypatch.setattr(probe, "CHILD", (sys.executable, "-c", f"print('{text}')"))
    assert probe.find() == probe.Gpu("NVIDIA F200", 4, "sm_90")


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "has_card", lambda: True)
    monkeypatch.setattr(probe, "NEEDED", {"no_such_torch": "pip install x"})
    assert "not the package no_such_torch: `pip install x`" in str(probe.find())


def asked(kernel: Kernel, **changes: Any) -> start.Asked:
    given = {"scope": [], "cache": "warm", "precision": None, "budget": None, "rounds": None, "timeout_s": 9.0}
    return start.ask(kernel, **{"machine": "auto", **given, **changes})


def test_options_become_a_rule_scopes_and_the_number_of_sms(hello: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    no_card(monkeypatch, probe.Gpu("NVIDIA F200", 4, "sm_90"))
    monkeypatch.setattr(start.ncu, "missing", lambda: "ncu is not on the PATH")
    one = asked(hello, precision="0.2%", budget="90s")
    assert one.rule is not None
    assert (one.rule.precision, one.rule.seconds, one.rounds) == (0.002, 90.0, start.MOST_ROUNDS)
    assert one.options.scopes == ("event", "graph")
    assert [s.scope for s in one.skips] == ["ncu"]
    assert one.knobs(hello, {"ctas": 8}) == {"ctas": 8, "sms": 4}
    assert asked(hello, precision="1%", budget="24").rounds == 24
    with pytest.raises(InputError, match="has 4 SMs"):
        one.knobs(hello, {"sms": 16})
    with pytest.raises(MeasureError, match="scope ncu is not available"):
        asked(hello, scope=["ncu"])
    assert asked(hello, scope=["cupti"]).options.scopes == ("graph", "cupti")
    with pytest.raises(InputError, match="--budget 90s: is a limit for --precision"):
        asked(hello, budget="90s")
    with pytest.raises(InputError, match="--budget 2.5"):
        asked(hello, precision="1%", budget="2.5")
    with pytest.raises(InputError, match="--precision fine"):
        asked(hello, precision="fine")
    no_card(monkeypatch)
    with pytest.raises(InputError, match="host-virtual only"):
        asked(hello, scope=["graph"])
    with pytest.raises(InputError, match="no cache policy"):
        asked(hello, cache="cold")
    assert asked(hello).gpu is None


def test_an_argument_without_a_width_is_refused() -> None:
    with pytest.raises(MeasureError, match=r"argument 2 is the Python int 7.*numpy\.int32"):
        _argument(LAUNCH, 2, 7, 0)
    assert _argument(LAUNCH, 0, TRACE, 4096) == 4096
    assert _argument(LAUNCH, 0, np.int32(7), 0) == np.int32(7)
    assert _argument(LAUNCH, 0, SimpleNamespace(data_ptr=lambda: 64), 0) == 64


def test_a_launch_is_given_a_stream_of_cuda_core_and_no_foreign_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign one is deprecated, and converted again at every launch."""
    core = pytest.importorskip("cuda.core")
    at = SimpleNamespace(cuda_stream=4096)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda: at)))
    first = stamp.on_stream()
    assert isinstance(first, core.Stream)
    assert int(first.handle) == 4096
    assert stamp.on_stream() is first
    at.cuda_stream = 8192
    assert int(stamp.on_stream().handle) == 8192


def test_a_gpu_module_without_its_functions_is_a_sentence(hello: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    package = next(name for name, m in sys.modules.items() if getattr(m, "KERNEL", None) is hello)
    empty = ModuleType(f"{package}.gpu")
    empty.inputs = lambda *a: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, f"{package}.gpu", empty)
    with pytest.raises(InputError, match="gpu has no function operator"):
        gpu_module(hello)


class Lost(RuntimeError):
    pass


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A CudaMachine without a card: torch is a stand-in whose context can be poisoned."""
    state = SimpleNamespace(poisoned=False)

    def synchronize() -> None:
        if state.poisoned:
            raise Lost("CUDA error: an illegal memory access was encountered\nmore words")

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(synchronize=synchronize)))
    machine = object.__new__(cuda.CudaMachine)
    machine.options = Options()
    return machine, state


def test_an_error_with_a_healthy_context_fails_the_arm_only(bare: Any) -> None:
    with pytest.raises(MeasureError, match="KeyError: 'scores'"):
        guarded(lambda: {}["scores"])
    assert guarded(lambda: 3) == 3


def test_an_error_in_a_kernels_own_code_has_its_line(bare: Any) -> None:
    own = {"__name__": f"{PACKAGE}mine"}
    exec(compile("def breaks():\n    raise ValueError('x')", "/kernels/mine/gpu.py", "exec"), own)
    with pytest.raises(MeasureError, match=r"^gpu\.py:2: ValueError: x$"):
        guarded(own["breaks"])


def test_a_poisoned_context_is_lost_whoever_notices_it(bare: Any) -> None:
    _, state = bare
    state.poisoned = True
    with pytest.raises(MachineLost, match="illegal memory access"):
        guarded(lambda: 3)  # the launch went well, its execution did not
    with pytest.raises(MachineLost, match="seen after MeasureError"):
        guarded(lambda: (_ for _ in ()).throw(MeasureError("x")))


def test_a_gpu_of_another_architecture_is_a_sentence(hello: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(name="NVIDIA A100", compute_capability=SimpleNamespace(major=8, minor=0))
    monkeypatch.setitem(sys.modules, "cuda.core", SimpleNamespace(Device=lambda i: device))
    module = ModuleType("gpu")
    assert facts.arch_for(module, hello) == "sm_80"
    module.ARCH = "sm_90a"  # type: ignore[attr-defined]
    with pytest.raises(MeasureError, match=r"needs a GPU of sm_90a, and NVIDIA A100 is sm_80: --machine host"):
        facts.arch_for(module, hello)
    device.compute_capability = SimpleNamespace(major=9, minor=0)
    assert facts.arch_for(module, hello) == "sm_90a"


def test_rows_of_a_trace_are_the_rows_of_the_problem(hello: Kernel) -> None:
    """Batches begin at rows 0, 2, 4, 6 of 7; CTA 2 had nothing to do."""
    reduce = [e.name for e in hello.events].index("reduce")
    events = pd.DataFrame({"cta": [0, 1, 0, 1], "event": reduce, "edge": 0, "arg": [0, 2, 4, 6]})
    lanes = pd.DataFrame({"cta": [0, 1, 2], "sm_begin": [5, 3, 9]})
    rows = rows_of(hello, RawTrace(events, lanes, pd.DataFrame()), 7)
    assert rows["rows"].tolist() == [4, 3, 0]
    assert rows["sm"].tolist() == [5, 3, 9]


@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_a_traced_time_has_the_cache_policy_that_it_was_measured_under(hello: Kernel, cache: str) -> None:
    lanes = pd.DataFrame({"cta": [0, 1], "sm_begin": [5, 3], "attempts": [2, 2], "capacity": [8, 8]})
    events = pd.DataFrame({"cta": [0, 1], "event": 1, "edge": 0, "arg": [0, 1]})
    anchors = pd.DataFrame({"begin_ns": [0, 32], "end_ns": [960, 1024], "clock_begin": 0, "clock_end": [1824, 1884]})
    times = trace_tables(hello, RawTrace(events, lanes, anchors), 2, cache)["times"]
    assert times[["scope", "cache", "time_ns", "flags"]].to_numpy().tolist() == [["trace", cache, 1024.0, ""]]
    assert times["clock_mhz"].iloc[0] == pytest.approx(1900.0, rel=1e-3)


def test_null_arms_of_two_bases_that_differ_in_knobs_are_made_ready_apart(
    bare: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are called null and have one build; a launch of the other's CTAs would be no null."""
    machine, _ = bare
    machine._prepared, machine._took_ns, machine.stamps = {}, {}, None
    machine.options = Options(scopes=("event",))
    machine.copies = lambda arm, inputs: [SimpleNamespace(run=None, ctas=arm.knobs["ctas"])]
    monkeypatch.setattr(cuda.timing, "call_samples", lambda run, stamps, n: [timing.Sample([1e6], 1500.0, False)])
    case: Any = SimpleNamespace(inputs={})
    arms = [Arm("null", base, {"TRACE": 0}, {"ctas": ctas}) for base, ctas in (("one", 1), ("two", 2), ("one", 1))]
    first, second, again = (machine._copies(arm, case) for arm in arms)
    assert [first[0].ctas, second[0].ctas] == [1, 2]
    assert again is first


def test_limits_of_an_operator_become_rows_of_capacity() -> None:
    limits = {"segment": lambda: (3, 64), "underflow": lambda: (0, 64)}
    prepared: Any = SimpleNamespace(operator=Operator((LAUNCH,), {}, limits=limits))
    found = facts.capacity(prepared)
    assert [tuple(row.values()) for row in found] == [("segment", 3, 64), ("underflow", 0, 64)]
    prepared.operator = Operator((LAUNCH,), {})
    assert facts.capacity(prepared) == []


def test_the_first_round_of_arms_that_were_just_set_up_does_not_count(bare: Any) -> None:
    machine, _ = bare
    passes, flags = [], {"TRACE": 0}
    prepared = SimpleNamespace(level=0, poison=lambda: passes.append("poison"), renew_graphs=lambda: None)
    prepared.again = lambda: passes.append("again")
    prepared.operator = SimpleNamespace(output="last", counts={}, limits={})
    arm = Arm("full", "full", flags, {})
    machine._prepared, machine._took_ns = {}, {json_text(arm.facts()): 1e6}
    machine._copies = lambda arm, case: machine._prepared.setdefault(arm.name, [prepared])
    machine._rows = lambda sets, timed: passes.append("turns") or [[] for _ in sets]
    machine._check_rates = lambda *_: None
    machine._tables = lambda *_: {}
    machine.nvml = SimpleNamespace(read=lambda: None)
    for _ in range(2):
        (found,) = machine._left(machine._measure([arm], None, lambda i: None))
        assert found.output == "last"
    assert passes == ["turns", "turns", "poison", "again", "turns", "poison", "again"]
    passes.clear()
    machine._prepared, prepared.level = {}, 1  # a traced build's durations are no times
    machine._measure([arm], None, lambda i: None)
    assert passes == ["turns"]


def test_what_an_arm_left_is_read_before_another_one_runs_in_its_memory(bare: Any) -> None:
    machine, _ = bare
    memory: list[str] = []

    def prepared(name: str) -> Any:
        counts = {("main", "rows"): lambda: float(memory == [name])}
        operator = SimpleNamespace(output=memory, counts=counts, limits={})
        return SimpleNamespace(operator=operator, poison=memory.clear, again=lambda: memory.append(name))

    seen = []
    for measured in machine._left([(prepared("full"), {"times": 1}), (prepared("null"), {"times": 2})]):
        seen.append((list(measured.output), measured.tables["counters"][0]["value"], measured.tables["times"]))
    assert seen == [(["full"], 1.0, 1), (["null"], 1.0, 2)]


@pytest.mark.parametrize("relies", [False, True])
def test_an_arm_is_checked_in_memory_that_holds_nothing_its_set_up_put_there(bare: Any, relies: bool) -> None:
    """Planted: a table that set-up fills and no step writes.  Alone, and beside arms that fill it alike, it looks right."""
    machine, _ = bare
    memory = {"table": "", "out": ""}

    def prepare(arm: Arm, inputs: Any) -> Any:
        def run() -> None:
            if not relies:
                memory["table"] = "filled"
            memory["out"] = memory["table"]

        memory["table"] = "filled"
        operator = SimpleNamespace(output=memory)
        return SimpleNamespace(operator=operator, poison=lambda: memory.update(out="poison"), run=run)

    machine.prepare = prepare
    machine.memory = SimpleNamespace(poison=lambda byte: memory.update(dict.fromkeys(memory, hex(byte))))
    case = object.__new__(cuda.CudaCase)
    case.inputs = {}
    found = machine.output(Arm("full", "full", {}, {}), case)
    assert found["out"] == ("0xa5" if relies else "filled")
