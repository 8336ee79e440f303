"""What is told of main behind other operators: a ratio to main behind its own, or how the process ended."""

from __future__ import annotations

from bench import stage_gpu


def test_a_pair_is_told_against_main_behind_its_own_operator() -> None:
    times = {"milliseconds": [1.0, 2.0, 9.0]}
    ended = {"ended": "[W1] Warning: CUDA warning: an illegal access (function x)\n"}
    pairs = {"a": {"a": times, "b": {"milliseconds": [1.0, 1.0, 8.0]}, "c": ended}}
    assert stage_gpu.rows(pairs) == [
        {"what": "main of a behind a", "measured": "1.000"},
        {"what": "main of a behind b", "measured": "0.500"},
        {"what": "main of a behind c", "measured": "an illegal access"},
    ]


def test_without_its_own_time_there_is_no_ratio() -> None:
    pairs = {"a": {"a": {"ended": "no end"}, "b": {"milliseconds": [1.0]}}}
    assert [row["measured"] for row in stage_gpu.rows(pairs)] == ["no end", "no time of its own to compare with"]


def test_the_arms_are_those_of_the_plan() -> None:
    assert set(stage_gpu.arms(132)) == set(stage_gpu.ARMS)
