"""The selectors that are known: where each runs, what must be installed, and what it asks of its inputs.

In: nothing.  Out: `GPU` and `HOST` by name; `missing` says why one cannot be used here.
Nothing is imported to find out: what is installed may still not work, and that shows when its output is checked.
Misuse: `needs` is what a caller must make sure of before it may dispatch to a selector; the sweep's inputs fulfil it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass

COLUMN_ZERO = "rows start at column zero (one request in the chunk, no context parallelism)"


@dataclass(frozen=True)
class Known:
    """A selector: the module it comes in, its distribution on PyPI, and its conditions in words.

    capabilities: those that the distribution's wheel has machine code for, () for any; a build of one's own has no such wheel.
    """

    module: str
    package: str
    needs: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()

    def version(self) -> str:
        """`package version`, or what the module is when it has no distribution."""
        try:
            return f"{self.package} {importlib.metadata.version(self.package)}"
        except importlib.metadata.PackageNotFoundError:
            return self.package


GPU: Mapping[str, Known] = {
    "torch_topk": Known("torch", "torch", ("the matrix holds -inf outside the bounds",)),
    "our_topk": Known("", "kernels/topk"),
    "our_histogram": Known("", "kernels/topk"),
    "flashinfer": Known("flashinfer", "flashinfer-python"),
    "deepselect": Known(
        "deep_select",
        "tokenspeed-deepselect",
        (COLUMN_ZERO, "row stride a multiple of what deep_select.get_stride_requirement() says", "no NaN"),
        # cuobjdump on 1.0.0.post20260910: sm_100a and sm_103a, and PTX for these alone.
        ("sm_100", "sm_103"),
    ),
    "vllm_per_row": Known("vllm", "vllm", (COLUMN_ZERO,)),
}
HOST: Mapping[str, Known] = {
    "numpy_partition": Known("numpy", "numpy"),
    "numpy_sort": Known("numpy", "numpy"),
    "numpy_threshold": Known("numpy", "numpy"),
    "numpy_histogram": Known("numpy", "numpy"),
}


def missing(name: str, arch: str = "") -> str:
    """Why the selector cannot be used on this GPU (`sm_90`; '' for any), '' when it is installed and has code for it."""
    known = {**GPU, **HOST}[name]
    if known.module and importlib.util.find_spec(known.module) is None:
        return f"{known.package} is not installed"
    if arch and known.capabilities and arch not in known.capabilities and " " in known.version():
        return f"{known.version()} has machine code for {' and '.join(known.capabilities)} only, and this GPU is {arch}"
    return ""
