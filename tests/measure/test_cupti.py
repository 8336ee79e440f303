"""Kernel records to stage times: by correlation and range, never by name; what is missing is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attribution.errors import DataError
from attribution.measure import cupti

STEPS = [("sample_scores", True), ("main", True), ("select", False)]


def written(path: Path, drop: int | None = None, stray: bool = False) -> Path:
    """Two samples of three steps.  `select` is two kernels that overlap by 1 us; kernels run long after their ranges."""
    events: list[dict[str, Any]] = []
    host, device, correlation = 1000.0, 9000.0, 100
    for sample in range(2):
        for step, kernels in enumerate(([2.0], [50.5], [4.0, 3.0])):
            name = cupti.range_name(sample, step)
            events.append(slice_of("user_annotation", name, host, 10.0, tid=7))
            # The device-side copy of the range must not be taken for the range.
            events.append(slice_of("gpu_user_annotation", name, device, 60.0, tid=3))
            for i, length in enumerate(kernels):
                correlation += 1
                begin = device if i == 0 else device - 1.0
                shared = {"correlation": correlation}
                events.append(slice_of("cuda_driver", "cuLaunchKernelEx", host + 1 + i, 0.5, tid=7, **shared))
                if correlation - 100 != drop:
                    place = {"device": 0, "stream": 7, "context": 1, **shared}
                    events.append(slice_of("kernel", "same_name", begin, length, tid=3, **place))
                device = begin + length
            host += 20.0
            if stray:
                correlation += 1
                events.append(
                    slice_of("cuda_runtime", "cudaLaunchKernel", host - 5, 0.5, tid=7, correlation=correlation)
                )
                place = {"device": 0, "stream": 7, "context": 1, "correlation": correlation}
                events.append(slice_of("kernel", "same_name", device, 500.0, tid=3, **place))
                device += 500.0
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def slice_of(category: str, name: str, ts: float, dur: float, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": args}


@pytest.mark.parametrize("stray", [False, True])
def test_stages_are_unions_of_their_own_kernels_whatever_runs_between(tmp_path: Path, stray: bool) -> None:
    rows = cupti.rows(written(tmp_path / "t.json", stray=stray), 2, STEPS)
    first = {stage: ns for _, stage, sample, ns, _ in rows if sample == 0}
    assert first == {"sample_scores": 2000.0, "main": 50500.0, "select": 6000.0, "operator": 58500.0}
    assert len(rows) == 8
    assert {row[0] for row in rows} == {"cupti"}


def test_a_launch_without_a_record_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sample=0 step=1 \(main\) holds 0 kernels, expected 1"):
        cupti.rows(written(tmp_path / "t.json", drop=2), 2, STEPS)


def test_two_kernels_where_one_was_launched_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds 2 kernels, expected 1"):
        cupti.rows(written(tmp_path / "t.json"), 2, [*STEPS[:2], ("select", True)])


def test_more_samples_than_were_seen_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="sample=2 step=0"):
        cupti.rows(written(tmp_path / "t.json"), 3, STEPS)
