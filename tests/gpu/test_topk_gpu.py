"""topk on a real GPU: every row bitwise exact against torch.topk, under every flag.  Skipped elsewhere."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from attribution.load import load_kernel, load_variants, module_of
from attribution.measure.probe import Gpu, find

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))
FLAGS: list[dict[str, Any]] = [
    {},
    {"THREADS": 256},
    {"K": 512},
    {"K": 1024, "UNROLL": 2},
    {"LOADS": "scalar"},
    {"RESERVE": "one"},
    {"RESERVE": "ballot"},
    {"STORAGE": "index"},
    {"RADIX": "bytes"},
    {"CANDIDATE_CAPACITY": 14080, "THREADS": 1024, "UNROLL": 2, "RADIX": "bytes"},
    {"CANDIDATE_CAPACITY": 16384, "THREADS": 1024, "UNROLL": 2},
    {"ALGORITHM": "online", "CANDIDATE_CAPACITY": 8192},
    {"ALGORITHM": "heap", "CANDIDATE_CAPACITY": 8192},
    {"ALGORITHM": "histogram"},
    {"ALGORITHM": "histogram", "STORAGE": "index", "RADIX": "bytes"},
]
CASES = 1000


def named(flags: dict[str, Any]) -> str:
    return ",".join(f"{n}={v}" for n, v in flags.items()) or "declared"


def modules(root: Path) -> tuple[ModuleType, ModuleType]:
    """topk's operator and GPU modules under `root`."""
    kernel = load_kernel(root, "topk")
    return module_of(kernel, "operator"), module_of(kernel, "gpu")


def failed(root: Path, inputs: dict[str, Any], out: Any, flags: dict[str, Any]) -> list[str]:
    kernel, (_, gpu) = load_kernel(root, "topk"), modules(root)
    shape = dict(zip(("q", "n"), inputs["scores"].shape, strict=True))
    resolved = kernel.resolve_flags(flags)
    checks = gpu.check(inputs, {"indices": out}, gpu.reference(inputs, shape, resolved), shape, resolved)
    return [f"{c.name}: {c.detail}" for c in checks if not c.passed]


def select(root: Path, inputs: dict[str, Any], flags: dict[str, Any]) -> Any:
    """The selection under these flags, into an output that holds nothing right before."""
    import torch

    op, _ = modules(root)
    k, others = int(flags.get("K", 2048)), {n: v for n, v in flags.items() if n != "K"}
    out = torch.full((len(inputs["scores"]), k), -7, dtype=torch.int32, device="cuda")
    return op.topk(inputs["scores"], inputs["start"], inputs["end"], k, out=out, flags=others)


@pytest.mark.parametrize("flags", FLAGS, ids=named)
def test_exact_on_every_distribution(root: Path, flags: dict[str, Any]) -> None:
    _, gpu = modules(root)
    for distribution in load_kernel(root, "topk").distributions:
        for rows, columns in ((64, 8192), (19, 20011), (5, 163840)):
            inputs = gpu.inputs({"q": rows, "n": columns}, distribution, 7)
            assert failed(root, inputs, select(root, inputs, flags), flags) == [], (distribution, rows, columns)


@pytest.mark.parametrize("columns", [1, 3, 2047, 2048, 2049, 4096, 4097, 4100])
def test_narrow_matrices(root: Path, columns: int) -> None:
    _, gpu = modules(root)
    inputs = gpu.inputs({"q": 1, "n": columns}, "normal", 1)
    assert failed(root, inputs, select(root, inputs, {}), {}) == []


def test_the_order_of_torch_is_the_documented_one(root: Path) -> None:
    """NaN is largest and -0 lies below +0, whatever the sign bit of a NaN."""
    import torch

    _, gpu = modules(root)
    values = torch.tensor([float("nan"), float("inf"), 1e-45, 0.0, -0.0, -1e-45, -float("inf")], device="cuda")
    shuffled = values[torch.tensor([3, 4, 0, 6, 1, 5, 2], device="cuda")]
    assert torch.equal(gpu.ordered(torch.topk(shuffled, 7).values), gpu.ordered(values))
    assert torch.equal(gpu.ordered(-values[:1]), gpu.ordered(values[:1]))


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_strided_rows_and_a_given_output(root: Path, offset: int) -> None:
    """Rows with any stride from any address; what lies around scores (NaN, the largest) and around the output is let alone."""
    import torch

    op, gpu = modules(root)
    rows, columns = 9, 9001
    wide = torch.full((rows + 2, columns + 24 + offset), torch.nan, device="cuda")
    inside = wide[1:-1, offset : offset + columns]
    inputs = gpu.inputs({"q": rows, "n": columns}, "normal", 3)
    inside.copy_(inputs["scores"])
    guard = torch.full((rows + 2, 2048), -7, device="cuda", dtype=torch.int32)
    out = op.topk(inside, inputs["start"], inputs["end"], 2048, out=guard[1:-1])
    assert out.data_ptr() == guard[1].data_ptr()
    assert failed(root, inputs, out, {}) == []
    assert (guard[[0, -1]] == -7).all()


def replay(root: Path) -> list[str]:
    """Scores and bounds change in place between two replays of one graph; what is wrong after the second."""
    import torch

    op, gpu = modules(root)
    inputs, later = (gpu.inputs({"q": 33, "n": 16384}, d, 5) for d in ("normal", "ragged"))
    out = op.topk(inputs["scores"], inputs["start"], inputs["end"], 2048)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        op.topk(inputs["scores"], inputs["start"], inputs["end"], 2048, out=out)
    graph.replay()
    assert failed(root, inputs, out, {}) == []
    for name, tensor in inputs.items():
        tensor.copy_(later[name])
    out.fill_(-7)
    graph.replay()
    return failed(root, inputs, out, {})


def test_a_graph_follows_bounds_that_change_in_place(root: Path) -> None:
    assert replay(root) == []


def test_a_thousand_random_cases(root: Path) -> None:
    """Shapes, bounds, distributions, flags and alignment at random; bounds may lie outside the matrix or be reversed."""
    import torch

    dice, wrong = random.Random(2048), []
    torch.manual_seed(2048)
    for case in range(CASES):
        rows, columns = dice.randint(1, 40), int(2 ** dice.uniform(0, 17.3))
        flags = dice.choice(FLAGS)
        pad = dice.randint(0, 3)
        scores = torch.randn((rows, columns + pad), device="cuda")[:, pad:]
        levels = dice.choice([0, 0, 2, 50, 3000])
        scores = (scores * levels).round() / levels if levels else scores * 10.0 ** dice.randint(-30, 30)
        inputs = {"scores": scores}
        for name in ("start", "end"):
            far = torch.randint(-3, columns + 4, (rows,), device="cuda", dtype=torch.int32)
            whole = torch.full_like(far, 0 if name == "start" else columns)
            inputs[name] = torch.where(torch.rand(rows, device="cuda") < 0.5, far, whole)
        if found := failed(root, inputs, select(root, inputs, flags), flags):
            wrong.append((case, rows, columns, flags, found))
    assert wrong == []


def test_arguments_that_are_refused(root: Path) -> None:
    import torch

    op, gpu = modules(root)
    x = gpu.inputs({"q": 4, "n": 4096}, "normal", 1)
    scores, start, end = x["scores"], x["start"], x["end"]
    for arguments, words in (
        ((scores, start, end, 100), "k = 100: allowed are"),
        ((scores.half(), start, end, 512), "scores is torch.float16"),
        ((scores[0], start, end, 512), "allowed is float32"),
        ((scores.T, start, end, 512), "rows whose elements lie together"),
        ((scores.cpu(), start, end, 512), "allowed is a CUDA device"),
        ((scores, start.long(), end, 512), "start is torch.int64"),
        ((scores, start, end[:3], 512), "end is torch.int32 of shape"),
        ((scores, start, end, 512, torch.empty((4, 511), dtype=torch.int32, device="cuda")), "out is torch.int32"),
    ):
        with pytest.raises(ValueError, match=words):
            op.topk(*arguments)


# --- planted faults: the same source with one thing wrong ------------------------------------------

FAULTS = {
    "candidates-dropped": ("filter.cuh", "(low ? mask : ~0u) & there", "(low ? mask : ~0u) & there & ~1u", "normal"),
    "row-ends-early": (
        "topk.cu",
        "min(end[number], columns) - first",
        "min(end[number], columns) - first - 1",
        "ascending",
    ),
    "zeros-equal": ("shape.cuh", "(u32 bits) {", "(u32 bits) {\n  if (bits == 0x80000000u) bits = 0u;", "zeros"),
    "no-repair": ("topk.cu", "if (why != shape::none)", "if (false)", "equal"),
    "bins-not-cleared": ("narrow.cuh", "s.clear[i] = make_uint4(0, 0, 0, 0)", "s.clear[i].x = 0", "normal"),
}


def spoiled(root: Path, tmp_path: Path, file: str, old: str, new: str) -> Path:
    """A root whose topk has `new` where `file` had `old`."""
    folder = tmp_path / "kernels" / "topk"
    shutil.copytree(root / "kernels" / "topk", folder)
    text = (folder / file).read_text(encoding="utf-8")
    assert text.count(old) == 1, (file, old, text.count(old))
    (folder / file).write_text(text.replace(old, new), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_planted_fault_is_caught(root: Path, tmp_path: Path, fault: str) -> None:
    import torch

    file, old, new, distribution = FAULTS[fault]
    _, gpu = modules(root)
    inputs = gpu.inputs({"q": 16, "n": 20000}, "normal" if distribution == "zeros" else distribution, 9)
    if distribution == "zeros":
        inputs["scores"] = torch.where(inputs["scores"] > 1.5, 0.0, -0.0)
    assert failed(root, inputs, select(root, inputs, {}), {}) == []
    wrong = spoiled(root, tmp_path, file, old, new)
    assert failed(root, inputs, select(wrong, inputs, {}), {}) != []


def test_bounds_that_are_kept_from_the_first_call_are_caught(root: Path, tmp_path: Path) -> None:
    wrong = spoiled(
        root, tmp_path, "operator.py", "args = (scores, start, end,", "args = (scores, KEPT(start), KEPT(end),"
    )
    path = wrong / "kernels" / "topk" / "operator.py"
    kept = "\n\n_SEEN: dict = {}\n\n\ndef KEPT(x):\n    return _SEEN.setdefault(x.data_ptr(), x.clone())\n"
    path.write_text(path.read_text(encoding="utf-8") + kept, encoding="utf-8")
    assert replay(wrong) != []


def test_every_variant_runs(root: Path) -> None:
    kernel, (_, gpu) = load_kernel(root, "topk"), modules(root)
    inputs = gpu.inputs({"q": 40, "n": 32768}, "normal", 2)
    for name, variant in load_variants(root, kernel).items():
        assert failed(root, inputs, select(root, inputs, dict(variant.flags)), dict(variant.flags)) == [], name
