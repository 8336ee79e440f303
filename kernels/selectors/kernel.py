"""selectors: exact top-k of every row of a score matrix, one selector against another.

In: a matrix, bounds per row [start, end), k.  Out: k column numbers a row, unordered, -1 behind the last of a short row.
The flag SELECTOR names who selects; nothing is built here: a selector is somebody's library, or kernels/topk.
Misuse: a selector's time on one distribution says little about another one; that is what this plug-in is for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.declare import Axis, Check, Event, Flag, Flags, Inputs, Kernel, Knobs, Shape
from attribution.errors import InputError
from attribution.measure.host import HostRun, Stage
from attribution.schedule import Pipeline, Role

from . import captured, host_selectors
from .distributions import NAMES, host_inputs
from .exact import NUMPY, judge
from .known import GPU, HOST


def inputs(shape: Shape, distribution: str, seed: int) -> Inputs:
    """scores f32 [rows, columns], -inf outside the bounds; start, end int32 [rows]."""
    path = captured.FILES.get(distribution)
    found = captured.matrix(path, shape) if path else host_inputs(shape, distribution, seed)
    for array in found.values():
        array.setflags(write=False)
    return found


def reference(inputs: Inputs, shape: Shape) -> Any:
    """The k largest values of every row, largest first: f32 [rows, min(k, columns)]."""
    return -np.sort(-inputs["scores"], axis=1)[:, : shape["k"]]


def check(inputs: Inputs, output: Any, reference: Any, shape: Shape, flags: Flags) -> list[Check]:
    return judge(NUMPY, inputs, output["indices"], reference, shape["k"])


def host(inputs: Inputs, shape: Shape, flags: Flags, knobs: Knobs, clock: Any) -> HostRun:
    """One task a row."""
    select = host_selectors.SELECTORS.get(str(flags["SELECTOR"]))
    if select is None:
        raise InputError(
            f"selector {flags['SELECTOR']} runs on a GPU only; on the host machine there are: {', '.join(HOST)}"
        )
    out = np.full((shape["rows"], shape["k"]), -1, np.int32)
    for row, scores in enumerate(inputs["scores"]):
        start, end = int(inputs["start"][row]), int(inputs["end"][row])
        with clock.task("main", "select", row):
            places = select(scores[start:end], min(shape["k"], end - start))
            out[row, : len(places)] = places + start
        clock.count("main", "columns_read", end - start)
    pipeline, rows = Pipeline((Role("select", work="select"),)), [1] * shape["rows"]
    stage = Stage("main", pipeline, rows, knobs["ctas"])
    return HostRun({"indices": out}, (stage,), units={"columns_read": "1"})


def illegal_shape(shape: Shape, flags: Flags, knobs: Knobs) -> None:
    """Raises InputError."""
    if shape["k"] > shape["columns"]:
        raise InputError(f"k = {shape['k']} of columns = {shape['columns']}: allowed is k <= columns")


KERNEL = Kernel(
    name="selectors",
    summary="exact top-k of a score matrix, selectors side by side",
    flags={"SELECTOR": Flag("torch_topk", "who selects", (*GPU, *HOST))},
    shape={
        "rows": Axis(64, "rows", gpu=1024),
        "columns": Axis(8192, "columns", least=128, multiple=128, gpu=65536),
        "k": Axis(2048, "entries that are selected", most=4096),
    },
    knobs={"sms": Axis(16, "SMs", most=1 << 16), "ctas": Axis(2, "CTAs", times="sms", most=1 << 20)},
    roles=("select",),
    events=(Event("select", "select"),),
    distributions=NAMES,
    same={"columns_read": "columns inside the bounds that were read", "ctas": "CTAs"},
    inputs=inputs,
    reference=reference,
    check=check,
    host=host,
    gpu="gpu",
    illegal_shape=illegal_shape,
)
