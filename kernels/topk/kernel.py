"""topk: exact top-k of a score matrix in memory, each row inside its own bounds.

One source, five ways to come by few candidates before the exact selection: lists in registers, heaps in shared memory, a
sampled threshold, a histogram of half-precision keys.  Whatever a way cannot certify is selected again from memory.
The declaration only: arithmetic is in host.py, answers in reference.py, launches in operator.py.
"""

from __future__ import annotations

from attribution.declare import Axis, Entry, Event, Flag, Flags, Kernel, Knobs, Shape
from attribution.errors import InputError

from . import operator
from .host import host
from .inputs import DISTRIBUTIONS, make
from .reference import check, reference

FLAGS = {
    "ALGORITHM": Flag(
        "threshold",
        "where candidates come from: lists of each thread, heaps of each thread, a sampled threshold, a histogram",
        ("online", "heap", "threshold", "histogram"),
    ),
    "CANDIDATE_CAPACITY": Flag(6144, "candidates that a CTA holds; 16384 leave room for one CTA an SM, 14080 for two"),
    "STORAGE": Flag("both", "a candidate is score and index, or the index alone", ("both", "index")),
    "RESERVE": Flag(
        "scan",
        "slots are reserved key by key, by ballots of a warp, or by a scan of the lanes' counts (GPU)",
        ("one", "ballot", "scan"),
    ),
    "LOADS": Flag("vector", "float by float, or 16 bytes at a time (GPU)", ("scalar", "vector")),
    "UNROLL": Flag(4, "16-byte loads in flight a thread; `online` and `heap` have one (GPU)", (1, 2, 4)),
    "RADIX": Flag(
        "range",
        "four passes of 8 bits over the float's bits, or as few as it takes over the candidates' own range",
        ("bytes", "range"),
    ),
    "THREADS": Flag(512, "threads of a CTA", (256, 512, 1024)),
    "K": Flag(2048, "keys to select per row", (512, 1024, 2048)),
    "TRACE": Flag(0, "0 none, 1 per row", (0, 1)),
}


def illegal(flags: Flags) -> str | None:
    """The reason why these flags exclude each other, or None."""
    capacity, least = int(flags["CANDIDATE_CAPACITY"]), operator.least_capacity(flags)
    if capacity < least or capacity % 4:
        return f"CANDIDATE_CAPACITY = {capacity}: allowed is a multiple of 4 from {least} on with these flags"
    if flags["STORAGE"] == "index" and flags["ALGORITHM"] in ("online", "heap"):
        return f"STORAGE = index does not go with ALGORITHM = {flags['ALGORITHM']}: its lists hold scores; set STORAGE = both"
    if (size := operator.smem_bytes(flags)) > operator.SMEM_MOST_BYTES:
        return f"shared memory of {size} bytes: allowed are {operator.SMEM_MOST_BYTES}; lower CANDIDATE_CAPACITY"
    return None


def illegal_shape(shape: Shape, flags: Flags, knobs: Knobs) -> None:
    """Raises InputError for sizes that the axes alone do not exclude."""
    if shape["q"] > shape["n"]:
        raise InputError(f"q = {shape['q']} is above n = {shape['n']}: causal rows need q <= n")


KERNEL = Kernel(
    name="topk",
    summary="exact top-k of every row of a score matrix",
    flags=FLAGS,
    shape={
        "q": Axis(144, "rows", gpu=4096),
        "n": Axis(8192, "columns", most=operator.COLUMNS_MOST, gpu=131072),
    },
    knobs={
        "sms": Axis(16, "SMs; on a GPU the device's own number", most=1 << 16),
        "ctas": Axis(64, "persistent CTAs; never more than rows", times="sms", most=1 << 20),
    },
    roles=("cta",),
    events=(Event("sample", "cta"), Event("read", "cta"), Event("select", "cta"), Event("repair", "cta")),
    distributions=DISTRIBUTIONS,
    same={
        "rows": "rows that were selected from",
        "keys": "keys inside the bounds",
        "candidates": "entries that were left to select from",
        "ctas": "CTAs",
        "sms": "SMs",
    },
    inputs=make,
    reference=reference,
    check=check,
    host=host,
    gpu="gpu",
    source="topk.cu",
    entries=(Entry("topk", lambda flags: int(flags["THREADS"]), operator.smem_bytes),),
    illegal=illegal,
    illegal_shape=illegal_shape,
)
