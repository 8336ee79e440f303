"""No file makes ingest raise anything but DataError.  Small here; `make fuzz` repeats it at large."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attribution.errors import DataError
from attribution.ingest.read import read
from bench.fuzz import mutate, seeds

SEEDS = seeds()


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_seeds_are_files_that_read_or_refuse(name: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(SEEDS[name])
    try:
        assert read(path).tables
    except DataError:
        assert name == "container"  # the hand-made report holds no real launch


@settings(max_examples=int(os.environ.get("ATTR_FUZZ", "150")), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(SEEDS)), st.integers(0, 2**32), st.integers(1, 40))
def test_mutated_files(name: str, seed: int, strength: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        path.write_bytes(mutate(SEEDS[name], seed, strength))
        try:
            read(path)
        except DataError as error:
            assert str(error)


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=400),
    st.sampled_from([b"", b"NVR\0", b"SQLite format 3\0", b"[", b'{"traceEvents":[', b'"ID",', b"\x1f\x8b"]),
)
def test_any_bytes(data: bytes, start: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        path.write_bytes(start + data)
        try:
            read(path)
        except DataError as error:
            assert str(error)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_KEYS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"]
_EVENT = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "X", "B", "E", "i"])}, optional=dict.fromkeys(_KEYS[1:], _JSON)
) | st.fixed_dictionaries({
    "ph": st.just("X"), "cat": st.sampled_from(["kernel", "cuda_runtime", "user_annotation", "gpu_memcpy"]),
    "ts": st.integers(-(2**66), 2**66), "dur": st.integers(-(2**66), 2**66), "args": _JSON | st.fixed_dictionaries(
        {"correlation": _JSON, "stream": _JSON, "device": _JSON, "grid": _JSON}),
})  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(_EVENT, max_size=6), st.dictionaries(st.text(max_size=6), _JSON, max_size=3))
def test_any_events(events: list, beside: dict) -> None:
    import json

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        path.write_text(json.dumps({**beside, "deviceProperties": beside, "traceEvents": events}))
        try:
            read(path)
        except DataError as error:
            assert str(error)
