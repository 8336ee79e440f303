"""The plug-in selectors: every distribution is selected exactly, and the check catches each planted fault."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.declare import Kernel
from attribution.errors import DataError, InputError
from attribution.load import load_kernel, module_of
from attribution.measure.host import Clock

SHAPE = {"rows": 3, "columns": 1024, "k": 128}
KNOBS = {"sms": 2, "ctas": 4}
HOST = ["numpy_partition", "numpy_sort", "numpy_threshold", "numpy_histogram"]


@pytest.fixture(scope="module")
def kernel(root: Path) -> Kernel:
    return load_kernel(root, "selectors")


@pytest.fixture(scope="module")
def captured(kernel: Kernel) -> Any:
    return module_of(kernel, "captured")


def selected(kernel: Kernel, inputs: Any, name: str, shape: dict[str, int] = SHAPE) -> Any:
    return kernel.host(inputs, shape, {"SELECTOR": name}, KNOBS, Clock()).output  # type: ignore[misc]


def failed(kernel: Kernel, inputs: Any, output: Any, shape: dict[str, int] = SHAPE) -> set[str]:
    checks = kernel.check(inputs, output, kernel.reference(inputs, shape), shape, {})
    return {check.name for check in checks if not check.passed}


@pytest.mark.parametrize("selector", HOST)
@pytest.mark.parametrize(
    "distribution",
    ["normal", "normal_plus_100", "normal_times_1e-8", "ties", "clustered", "relu", "leaky_relu", "indexer"],
)
def test_every_distribution_is_selected_exactly(kernel: Kernel, distribution: str, selector: str) -> None:
    inputs = kernel.inputs(SHAPE, distribution, 1)
    assert inputs["scores"].dtype == np.float32
    assert failed(kernel, inputs, selected(kernel, inputs, selector)) == set()
    again, other = kernel.inputs(SHAPE, distribution, 1), kernel.inputs(SHAPE, distribution, 2)
    assert (again["scores"] == inputs["scores"]).all()
    assert (other["scores"] != inputs["scores"]).any()


def test_distributions_are_what_they_say(kernel: Kernel) -> None:
    shape = {"rows": 8, "columns": 4096, "k": 128}
    scores = {name: kernel.inputs(shape, name, 1)["scores"] for name in kernel.distributions}
    half = {name: len(np.unique(s.astype(np.float16))) / len(np.unique(s)) for name, s in scores.items()}
    # What a first pass over half precision can tell apart.
    assert half["normal_plus_100"] < 0.1 * half["normal"]
    assert half["normal_times_1e-8"] < 0.1 * half["normal"]
    assert len(np.unique(scores["ties"])) < 100
    top = [np.sort(np.argsort(-row)[:128]) for row in scores["clustered"]]
    assert np.mean([np.mean(np.diff(t) == 1) for t in top]) > 0.2
    assert np.mean(scores["relu"] == 0) == pytest.approx(0.75, abs=0.02)
    assert len(np.unique(scores["leaky_relu"])) > 0.99 * scores["leaky_relu"].size
    bounds = kernel.inputs(shape, "indexer", 1)
    assert bounds["end"].tolist() == list(range(4096 - 7, 4097))
    assert np.isneginf(scores["indexer"][0, -7:]).all()


def bounded(kernel: Kernel) -> Any:
    """Bounds of every kind: full, shorter than k, empty, beginning inside."""
    inputs = {name: array.copy() for name, array in kernel.inputs({**SHAPE, "rows": 5}, "normal", 3).items()}
    inputs["start"][:] = [0, 0, 7, 500, 0]
    inputs["end"][:] = [1024, 100, 7, 1000, 128]
    at = np.arange(1024)
    inputs["scores"][(at < inputs["start"][:, None]) | (at >= inputs["end"][:, None])] = -np.inf
    return inputs


@pytest.mark.parametrize("selector", HOST)
def test_short_and_empty_rows_are_padded(kernel: Kernel, selector: str) -> None:
    inputs, shape = bounded(kernel), {**SHAPE, "rows": 5}
    output = selected(kernel, inputs, selector, shape)
    assert failed(kernel, inputs, output, shape) == set()
    assert (output["indices"] == -1).sum(axis=1).tolist() == [0, 28, 128, 0, 0]


def dropped(indices: Any, scores: Any) -> None:
    """The best of row 0 gives way to one that was not selected."""
    row = indices[0].tolist()
    best = row.index(max(row, key=lambda column: scores[0, column]))
    indices[0, best] = next(c for c in range(1024) if c not in row)


def twice(indices: Any, scores: Any) -> None:
    indices[0, 0] = indices[0, 1]


def behind_the_end(indices: Any, scores: Any) -> None:
    indices[1, 0] = 100


def one_too_few(indices: Any, scores: Any) -> None:
    indices[3, 5] = -1


def one_too_many(indices: Any, scores: Any) -> None:
    indices[2, 0] = 7


def left_as_it_was(indices: Any, scores: Any) -> None:
    indices[4, 3] = -1515870811


@pytest.mark.parametrize(
    ("fault", "caught"),
    [
        (dropped, "values"),
        (twice, "unique"),
        (behind_the_end, "inside_bounds"),
        (one_too_few, "selected_count"),
        (one_too_many, "inside_bounds"),
        (left_as_it_was, "inside_bounds"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_planted_faults_are_caught(kernel: Kernel, fault: Any, caught: str, arrays: str) -> None:
    inputs, shape = bounded(kernel), {**SHAPE, "rows": 5}
    output = selected(kernel, inputs, "numpy_partition", shape)
    fault(output["indices"], inputs["scores"])
    if arrays == "numpy":
        assert caught in failed(kernel, inputs, output, shape)
        return
    torch = pytest.importorskip("torch")
    gpu = module_of(kernel, "gpu")
    there = {name: torch.from_numpy(np.array(array)) for name, array in inputs.items()}
    reference = gpu.reference(there, shape, {})
    given = {"indices": torch.from_numpy(output["indices"])}
    checks = gpu.check(there, given, reference, shape, {})
    assert caught in {check.name for check in checks if not check.passed}


def test_torch_selects_exactly_on_a_cpu_too(kernel: Kernel) -> None:
    torch = pytest.importorskip("torch")
    gpu, inputs, shape = module_of(kernel, "gpu"), bounded(kernel), {**SHAPE, "rows": 5}
    there = {name: torch.from_numpy(array) for name, array in inputs.items()}
    made = gpu.operator(there, shape, {"SELECTOR": "torch_topk"}, {})
    for tensor in made.output.values():
        tensor.view(torch.uint8).fill_(0xA5)
    made.steps[0].function()
    checks = gpu.check(there, made.output, gpu.reference(there, shape, {}), shape, {})
    assert [check.name for check in checks if not check.passed] == []
    assert gpu.moved_bytes(there, shape, {}) == 4 * (1024 + 500)
    other = {**there, "scores": there["scores"].clone()}
    other["scores"][0, 3] += 1
    assert gpu.fingerprint(there) != gpu.fingerprint(other)
    swapped = {**there, "scores": there["scores"][:, [1, 0, *range(2, 1024)]]}
    assert gpu.fingerprint(there) != gpu.fingerprint(swapped)


@given(
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=300),
    st.sampled_from([1, 7, 40]),
    st.integers(0, 2**31),
    st.sampled_from(HOST),
)
def test_any_row_is_selected_exactly(values: list[float], repeats: int, pick: int, selector: str) -> None:
    kernel = load_kernel(Path(__file__).parents[2], "selectors")
    scores = np.array(values * repeats, np.float32)
    count = pick % (len(scores) + 1)
    places = module_of(kernel, "host_selectors").SELECTORS[selector](scores, count)
    assert len(set(places.tolist())) == len(places) == count
    assert (np.sort(scores[places]) == np.sort(scores)[len(scores) - count :]).all()


def test_a_threshold_that_misses_is_given_up(kernel: Kernel) -> None:
    found = module_of(kernel, "host_selectors")
    # Every sampled column is low, and then every one is high: too many candidates, and too few.
    scores = np.arange(8192, dtype=np.float32)
    for sampled in (-1.0, 1e6):
        scores[::16] = sampled
        places = found.threshold(scores, 512)
        assert (np.sort(scores[places]) == np.sort(scores)[-512:]).all()


def test_a_gpus_selector_says_so_on_the_host(kernel: Kernel) -> None:
    with pytest.raises(InputError, match="selector deepselect runs on a GPU only"):
        selected(kernel, kernel.inputs(SHAPE, "normal", 1), "deepselect")


def test_what_is_not_installed_is_missing(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    known = module_of(kernel, "known")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert known.missing("deepselect") == "tokenspeed-deepselect is not installed"
    assert known.missing("our_topk") == ""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    # A build of one's own has no distribution, and may have code for any GPU.
    assert known.missing("deepselect", "sm_90") == ""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0.0")
    reason = "tokenspeed-deepselect 1.0.0 has machine code for sm_100 and sm_103 only, and this GPU is sm_90"
    assert known.missing("deepselect", "sm_90") == reason
    assert known.missing("deepselect", "sm_100") == ""
    assert known.missing("deepselect") == ""


# --- captured matrices -------------------------------------------------------------------------------------------


def safetensors(path: Path, arrays: dict[str, Any], label: str = "") -> Path:
    names = {"float8_e4m3fn": "F8_E4M3", "float32": "F32", "int32": "I32", "int64": "I64"}
    header: dict[str, Any] = {"__metadata__": {"label": label}}
    at = 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": names[array.dtype.name], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]
        }  # fmt: skip
        at += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(a.tobytes() for a in arrays.values()))
    return path


def operands(rows: int = 6, columns: int = 512) -> dict[str, Any]:
    rng, fp8 = np.random.default_rng(0), ml_dtypes.float8_e4m3fn
    return {
        "q": rng.standard_normal((rows, 64, 128), np.float32).astype(fp8),
        "k": rng.standard_normal((columns, 128), np.float32).astype(fp8),
        "w": rng.standard_normal((rows, 64), np.float32),
        "k_scale": rng.uniform(0.5, 1.5, columns).astype(np.float32),
        "k_end": np.arange(columns - rows + 1, columns + 1, dtype=np.int32),
    }


def test_captured_operands_become_the_indexers_scores(captured: Any, tmp_path: Path) -> None:
    given = operands()
    path = safetensors(tmp_path / "real.safetensors", given, "who made it")
    found = captured.matrix(path, {"rows": 2, "columns": 512, "k": 8})
    assert found["end"].tolist() == [511, 512]
    assert captured.label(path) == "who made it"
    q, k = given["q"][4].astype(np.float64), given["k"].astype(np.float64)
    truth = given["w"][4].astype(np.float64) @ np.maximum(q @ k.T, 0) * given["k_scale"]
    assert found["scores"][0, :511] == pytest.approx(truth[:511], rel=1e-3, abs=1e-3)
    assert np.isneginf(found["scores"][0, 511])
    cut = captured.matrix(path, {"rows": 2, "columns": 256, "k": 8})
    assert cut["end"].tolist() == [256, 256]


def test_captured_scores_keep_their_last_rows_and_first_columns(captured: Any, tmp_path: Path) -> None:
    scores = np.arange(40, dtype=np.float32).reshape(4, 10)
    np.save(tmp_path / "m.npy", scores)
    both = [tmp_path / "m.npy", safetensors(tmp_path / "m.safetensors", {"scores": scores})]
    for path in both:
        found = captured.matrix(path, {"rows": 2, "columns": 3, "k": 1})
        assert found["scores"].tolist() == scores[2:, :3].tolist()


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[:100]), DataError, "does not fit"),
        (lambda p: p.write_bytes(b"\xff" * 64), DataError, "no .safetensors file"),
        (lambda p: p.write_bytes(b""), DataError, "no .safetensors file"),
        (lambda p: p.write_bytes((16).to_bytes(8, "little") + b"[" * 16), DataError, "damaged .safetensors header"),
        (lambda p: safetensors(p, {"q": operands()["q"]}), DataError, "neither `scores` nor `k`"),
        (lambda p: safetensors(p, {**operands(), "w": operands()["w"][:, :8]}), DataError, r"w has shape \[6, 8\]"),
        (lambda p: safetensors(p, {"scores": np.arange(6)}), DataError, "allowed are floats"),
        (lambda p: safetensors(p, {"scores": np.full((4, 512), np.nan, np.float32)}), DataError, "are NaN"),
        (lambda p: safetensors(p, operands(rows=1)), InputError, "has 1 rows and 2 were asked for"),
        (lambda p: safetensors(p, operands(columns=128)), InputError, "has 128 columns and 256 were asked for"),
    ],
    ids=["cut", "noise", "empty", "header", "no-keys", "shape", "type", "nan", "rows", "columns"],
)
def test_bad_files_are_sentences(captured: Any, tmp_path: Path, spoil: Any, error: type[Exception], words: str) -> None:
    path = safetensors(tmp_path / "bad.safetensors", operands())
    spoil(path)
    with pytest.raises(error, match=words):
        captured.matrix(path, {"rows": 2, "columns": 256, "k": 8})


def test_files_of_another_kind_or_absent_are_sentences(captured: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"allowed are .npy and .safetensors"):
        captured.read(tmp_path / "scores.pt")
    with pytest.raises(InputError, match="is not there"):
        captured.read(tmp_path / "scores.npy")
    (tmp_path / "scores.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': '|O'}")
    with pytest.raises(DataError, match="no .npy file of numbers"):
        captured.read(tmp_path / "scores.npy")


def test_the_committed_captured_input_is_real_text_and_selected_exactly(
    kernel: Kernel, captured: Any, root: Path
) -> None:
    path, shape = root / "traces" / "pydoc_minilm_8k.safetensors", {"rows": 2, "columns": 8192, "k": 512}
    assert "not a trained indexer" in captured.label(path)
    inputs = captured.matrix(path, shape)
    assert failed(kernel, inputs, selected(kernel, inputs, "numpy_partition", shape), shape) == set()
    # Queries of neighbouring tokens choose alike; those of random matrices share 512 of 8192 columns by chance alone.
    first, second = (set(np.argsort(-row)[:512]) for row in inputs["scores"])
    assert len(first & second) > 3 * 512 * 512 / 8192
