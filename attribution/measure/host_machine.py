"""The reference machine in the form that a `Job` drives: inputs, references and runs on the CPU.

In: a Kernel that has a host algorithm, a Plan.  Out: `HostMachine`, a `Machine` (see machine.py).
Misuse: its times are virtual; see host.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attribution.called import called, described
from attribution.declare import Check, Kernel
from attribution.errors import InputError, MeasureError
from attribution.measure import host
from attribution.measure.machine import Measured
from attribution.measure.manifest import inputs_hash
from attribution.plan import Arm, Plan


class HostMachine:
    """The reference machine as a Machine."""

    primary = (host.SCOPE, "operator")
    traced_rounds = 0  # every run of it is traced, at no cost
    together = False  # a run takes seconds, and each is kept as soon as it is there

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        if kernel.host is None:
            raise InputError(f"kernel {kernel.name} has no host algorithm: it runs on a GPU only")
        self.kernel, self.plan, self.shape = kernel, plan, plan.shape
        self.sms = sorted({a.knobs["sms"] for q in plan.questions for a in q.arms})

    def facts(self) -> dict[str, Any]:
        import platform

        import numpy

        return {
            "kind": "host",
            "name": "reference machine",
            "expects": "host",
            "sms": self.sms[0] if len(self.sms) == 1 else self.sms,
            "tick_ns": time.get_clock_info("thread_time").resolution * 1e9,
            "cpu": _cpu_name(),
            "python": platform.python_version(),
            "numpy": numpy.__version__,
        }

    def case(self, seed: int) -> HostCase:
        return HostCase(self.kernel, self.plan, seed)

    def build(self, arm: Arm) -> str:
        return ""

    def builds(self) -> dict[str, str]:
        return {}

    def lost_work(self, base: Arm, arm: Arm, same: Sequence[str]) -> str:
        return ""

    def static(self, arm: Arm) -> Sequence[Mapping[str, Any]]:
        return ()

    def ceilings(self) -> Sequence[Mapping[str, Any]]:
        return ()

    def output(self, arm: Arm, case: Any) -> Any:
        return self._run(arm, case).output

    def measure(self, arms: Sequence[Arm], case: Any, began: Callable[[int], None]) -> list[Measured]:
        out = []
        for i, arm in enumerate(arms):
            began(i)
            out.append(self._run(arm, case))
        return out

    def _run(self, arm: Arm, case: Any) -> Measured:
        assert isinstance(case, HostCase)
        with host.one_thread():
            return host.measure(self.kernel, case.inputs, self.shape, arm.flags, arm.knobs)


class HostCase:
    """Inputs of one seed and their reference, made once."""

    def __init__(self, kernel: Kernel, plan: Plan, seed: int) -> None:
        self.kernel, self.shape, self.seed = kernel, plan.shape, seed
        try:
            self.inputs = kernel.inputs(plan.shape, plan.distribution, seed)
        except (ValueError, MemoryError, OverflowError) as error:
            sizes = ", ".join(f"{k} = {v}" for k, v in plan.shape.items())
            raise InputError(
                f"inputs of {sizes} cannot be made here: {described(error)}; choose smaller sizes"
            ) from error
        except Exception as error:
            raise MeasureError(f"kernel {kernel.name}: inputs failed: {described(error)}") from error
        if not isinstance(self.inputs, Mapping) or not all(hasattr(a, "tobytes") for a in self.inputs.values()):
            raise MeasureError(
                f"kernel {kernel.name}: inputs gave {self.inputs!r:.80}: must be {{name: array of numpy}}"
            )
        with host.one_thread():
            self.reference = called(
                kernel.name, "reference", kernel.reference, self.inputs, plan.shape, error=MeasureError
            )
        self.hash = inputs_hash({name: array.tobytes() for name, array in self.inputs.items()})

    def check(self, arm: Arm, output: Any) -> list[Check]:
        what = self.inputs, output, self.reference, self.shape, arm.flags
        checks = called(self.kernel.name, "check", self.kernel.check, *what, error=MeasureError)
        if not isinstance(checks, list) or not all(_is_check(check) for check in checks):
            seen = " ".join(repr(checks).split())
            raise MeasureError(
                f"kernel {self.kernel.name}: check gave {seen:.120}: must be a list of Check, each passed or not"
            )
        return checks


def _is_check(found: object) -> bool:
    import numpy

    return isinstance(found, Check) and isinstance(found.passed, bool | numpy.bool_)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        "unknown",
    )
