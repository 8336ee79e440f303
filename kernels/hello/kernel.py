"""hello: the sum of every row of a matrix; the smallest kernel to ask a question about."""

from __future__ import annotations

import numpy as np

from attribution.declare import Axis, Check, Entry, Event, Flag, Kernel
from attribution.measure.host import HostRun, Stage
from attribution.schedule import Pipeline, Role

THREADS = 128


def inputs(shape, distribution, seed):
    """x, float32 [rows, columns], of whole numbers: float32 adds them exactly in any order."""
    size = (shape["rows"], shape["columns"])
    return {"x": np.random.default_rng(seed).integers(-8, 9, size).astype(np.float32)}


def reference(inputs, shape):
    return inputs["x"].sum(axis=1, dtype=np.float64)


def check(inputs, output, reference, shape, flags):
    wrong = np.flatnonzero(np.asarray(output) != reference)
    return [Check("sums", not wrong.size, f"{wrong.size} rows differ, the first: {wrong[:3]}")]


def host(inputs, shape, flags, knobs, clock):
    """One task a row.  Threads of the GPU are columns here, added up in the GPU's order."""
    vector, out = flags["VECTOR"], np.empty(shape["rows"], np.float32)
    for row, x in enumerate(inputs["x"]):
        with clock.task("main", "sum", row):
            sums = x.reshape(-1, THREADS * vector).sum(axis=0)
            out[row] = sums.reshape(THREADS, vector).sum(axis=1).sum()
        clock.count("main", "loads", x.size // vector)
        clock.count("main", "bytes", x.nbytes)
    pipeline, rows = Pipeline((Role("sum", work="reduce"),)), [1] * shape["rows"]
    stage = Stage("main", pipeline, rows, knobs["ctas"], traced=bool(flags["TRACE"]))
    return HostRun(out, (stage,), units={"loads": "inst", "bytes": "byte"})


KERNEL = Kernel(
    name="hello",
    summary="sum of every row of a matrix",
    flags={"VECTOR": Flag(4, "floats of one load", (1, 2, 4)), "TRACE": Flag(0, "0 none, 1 per row", (0, 1))},
    shape={"rows": Axis(256, "rows", gpu=4096), "columns": Axis(65536, "columns", least=512, multiple=512)},
    knobs={"sms": Axis(16, "SMs", most=1 << 16), "ctas": Axis(2, "CTAs", times="sms", most=1 << 20)},
    roles=("sum",),
    events=(Event("load", "sum", waits_for="memory"), Event("reduce", "sum")),
    distributions=("integers",),
    same={"bytes": "bytes that were loaded", "ctas": "CTAs"},
    inputs=inputs,
    reference=reference,
    check=check,
    host=host,
    gpu="gpu",
    source="hello.cu",
    entries=(Entry("hello", threads=lambda flags: THREADS, smem_bytes=lambda flags: 0),),
)
