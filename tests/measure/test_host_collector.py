"""The garbage collector does not run inside a timed task, and does again afterwards."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from attribution.declare import Kernel
from attribution.errors import MeasureError
from attribution.measure import host


@pytest.mark.parametrize("fails", [False, True], ids=["ends", "raises"])
def test_the_collector_waits_for_the_run(hello: Kernel, fails: bool) -> None:
    seen = []

    def algorithm(*arguments: Any) -> Any:
        seen.append(gc.isenabled())
        if fails:
            raise ValueError("planted")
        assert hello.host is not None
        return hello.host(*arguments)

    shape: Mapping[str, int] = hello.resolve_axes("shape", {})
    knobs = hello.resolve_axes("knobs", {})
    flags = hello.resolve_flags({})
    inputs = hello.inputs(shape, hello.distributions[0], 1)
    watched = replace(hello, host=algorithm)
    if fails:
        with pytest.raises(MeasureError, match="planted"):
            host.measure(watched, inputs, shape, flags, knobs)
    else:
        host.measure(watched, inputs, shape, flags, knobs)
    assert seen == [False]
    assert gc.isenabled()
