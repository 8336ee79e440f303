"""What the function index_topk refuses, without a GPU and without torch: tensors are stood in for by their attributes."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from attribution.declare import Kernel
from attribution.errors import MeasureError
from attribution.kernels import index_scores, topk
from attribution.kernels import index_topk as function
from attribution.load import module_of

ROWS, KEYS = 5, 2048


@dataclass(frozen=True)
class Device:
    type: str = "cuda"
    index: int = 0

    def __str__(self) -> str:
        return f"{self.type}:{self.index}" if self.type == "cuda" else self.type


@dataclass(frozen=True)
class Tensor:
    """The attributes of a tensor that validation reads."""

    dtype: str
    shape: tuple[int, ...]
    device: Device = Device()
    contiguous: bool = True
    address: int = 4096

    def is_contiguous(self) -> bool:
        return self.contiguous

    def stride(self) -> tuple[int, ...]:
        return (1,) * len(self.shape)

    def data_ptr(self) -> int:
        return self.address


def good() -> dict[str, Any]:
    fp8, f32, i32 = "torch.float8_e4m3fn", "torch.float32", "torch.int32"
    return {
        "q": Tensor(fp8, (ROWS, 64, 128)),
        "k": Tensor(fp8, (KEYS, 128)),
        "k_scale": Tensor(f32, (KEYS,)),
        "w": Tensor(f32, (ROWS, 64)),
        "k_start": Tensor(i32, (ROWS,)),
        "k_end": Tensor(i32, (ROWS,)),
    }


NAMES = list(good())
REFUSED = [
    *((n, {"dtype": "torch.float64"}, f"{n} has dtype torch.float64: allowed is torch.") for n in NAMES),
    *((n, {"contiguous": False}, f"{n} has strides (1, 1") for n in ("q", "k", "w")),
    *((n, {"address": 4104}, f"{n} begins at address 0x1008: allowed are multiples of 16") for n in NAMES),
    *((n, {"device": Device("cpu")}, f"{n} is on cpu: allowed is a CUDA device") for n in NAMES),
    *((n, {"device": Device("cuda", 1)}, f"{n} is on cuda:1: allowed is the device of q, cuda:0") for n in NAMES[1:]),
    ("q", {"shape": (ROWS, 32, 128)}, "q has shape (5, 32, 128): allowed is [Q, 64, 128] with Q >= 1"),
    ("q", {"shape": (ROWS, 64, 64)}, "q has shape (5, 64, 64)"),
    ("q", {"shape": (0, 64, 128)}, "q has shape (0, 64, 128)"),
    ("q", {"shape": (64, 128)}, "q has shape (64, 128)"),
    ("k", {"shape": (2000, 128)}, "k has shape (2000, 128): allowed is [N, 128], N a multiple of 128 up to 524288"),
    ("k", {"shape": (0, 128)}, "k has shape (0, 128)"),
    ("k", {"shape": (1 << 20, 128)}, "k has shape (1048576, 128)"),
    ("k", {"shape": (KEYS, 64)}, "k has shape (2048, 64)"),
    ("k_scale", {"shape": (KEYS - 1,)}, "k_scale has shape (2047,): allowed is (2048,)"),
    ("w", {"shape": (ROWS, 32)}, "w has shape (5, 32): allowed is (5, 64)"),
    ("k_start", {"shape": (ROWS + 1,)}, "k_start has shape (6,): allowed is (5,)"),
    ("k_end", {"shape": (ROWS, 1)}, "k_end has shape (5, 1): allowed is (5,)"),
]


@pytest.mark.parametrize(("name", "change", "words"), REFUSED, ids=lambda v: v if isinstance(v, str) else "")
def test_a_tensor_that_is_refused_is_named_with_its_value(name: str, change: dict[str, Any], words: str) -> None:
    inputs = good()
    inputs[name] = replace(inputs[name], **change)
    with pytest.raises(ValueError) as caught:
        function(**inputs)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("k_top", [0, 100, 4096])
def test_a_k_that_is_refused(k_top: int) -> None:
    with pytest.raises(ValueError, match=f"k_top = {k_top}: allowed are 512, 1024, 2048"):
        function(**good(), k_top=k_top)


@pytest.mark.parametrize("k_top", [512.0, True, "512", None, np.int64(512)], ids=repr)
def test_a_k_that_is_no_int_is_refused_although_it_equals_one(k_top: object) -> None:
    with pytest.raises(ValueError, match=rf"k_top = .* is of type {type(k_top).__name__}; allowed is an int"):
        function(**good(), k_top=k_top)
    with pytest.raises(ValueError, match=r"^k = .* is of type"):
        topk(None, None, None, k_top)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (Tensor("torch.int64", (ROWS, 512)), "out has dtype torch.int64: allowed is torch.int32"),
        (Tensor("torch.int32", (ROWS, 2048)), "out has shape (5, 2048): allowed is (5, 512)"),
        (Tensor("torch.int32", (ROWS, 512), contiguous=False), "out has strides"),
    ],
    ids=["dtype", "shape", "strides"],
)
def test_an_output_that_is_refused(out: Tensor, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        function(**good(), k_top=512, out=out)
    assert str(caught.value).startswith(words)


def test_tensors_on_a_cpu_are_shown_the_reference_machine() -> None:
    inputs = {n: replace(t, device=Device("cpu")) for n, t in good().items()}
    with pytest.raises(ValueError, match="q is on cpu: .*`attr run --kernel index_topk --machine host`"):
        function(**inputs)


@pytest.mark.parametrize(
    ("row", "begin", "end"), [(3, 7, 6), (0, -1, 5), (4, 0, KEYS + 1)], ids=["reversed", "negative", "beyond"]
)
def test_bounds_that_are_refused(index_topk: Kernel, row: int, begin: int, end: int) -> None:
    start, stop = np.zeros(ROWS, np.int32), np.full(ROWS, KEYS, np.int32)
    check = module_of(index_topk, "validate").validate_bounds
    check(start, stop, KEYS)
    start[row], stop[row] = begin, end
    with pytest.raises(ValueError) as caught:
        check(start, stop, KEYS)
    said = f"k_start, k_end of row {row} are ({begin}, {end}): allowed is 0 <= k_start <= k_end <= {KEYS}"
    assert str(caught.value) == said


def a_torch(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], capturing: bool) -> None:
    cuda = types.SimpleNamespace(
        get_device_capability=lambda device: capability,
        get_device_name=lambda device: "NVIDIA A100",
        is_current_stream_capturing=lambda: capturing,
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))


def test_another_gpu_is_named_and_shown_the_reference_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    a_torch(monkeypatch, (8, 0), False)
    with pytest.raises(
        MeasureError, match=r"needs a Hopper GPU \(sm_90\), and cuda:0 is NVIDIA A100 \(sm_80\): .* host`"
    ):
        function(**good())


def test_bounds_cannot_be_read_back_in_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    a_torch(monkeypatch, (9, 0), True)
    with pytest.raises(ValueError, match="check_bounds = True in a capture: allowed is False"):
        function(**good())


@pytest.mark.parametrize("wrong", [None, [1, 2], np.zeros(3)], ids=["None", "list", "array"])
@pytest.mark.parametrize("name", ["q", "k_end"])
def test_what_is_no_tensor_is_named(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} is of type {type(wrong).__name__}; allowed is a torch tensor"):
        function(**{**good(), name: wrong})


def test_scores_of_inputs_that_are_not_there_name_the_first() -> None:
    with pytest.raises(ValueError, match="^q is of type NoneType"):
        index_scores({})
