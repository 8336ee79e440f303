"""Ticks, clocks, flags: cases 5, 6 and 26, and a card that tells nothing."""

from __future__ import annotations

import math
import os
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attribution.measure import clocks
from attribution.measure.clocks import Nvml, Reading
from attribution.measure.stamp import FIELDS, STAMP_BYTES


def test_the_tick_is_measured() -> None:
    assert clocks.tick_ns([0, 1024, 1024, 3072, 4096]) == 1024
    assert clocks.tick_ns([0, 32, 64, 160]) == 32
    assert math.isnan(clocks.tick_ns([7, 7, 7]))


def stamps(sm: list[int], clock: list[int], timer: list[int]) -> np.ndarray:
    out = np.zeros(len(sm), np.dtype(FIELDS))
    out["sm"], out["clock"], out["timer_ns"] = sm, clock, timer
    return out


def test_stamps_are_as_long_as_the_kernel_writes_them() -> None:
    assert np.dtype(FIELDS).itemsize == STAMP_BYTES


def test_clocks_of_two_sms_are_never_subtracted() -> None:
    """Two SMs whose counters are 3.5 G cycles apart, in another order the second time; both at 1.755 GHz."""
    before = stamps([0, 1], [1_000_000, 3_540_000_000], [0, 0])
    after = stamps([1, 0], [3_540_001_755, 1_001_755], [1000, 1000])
    assert clocks.sm_clock_mhz(before, after) == pytest.approx(1755)
    assert math.isnan(clocks.sm_clock_mhz(before, stamps([7], [5], [5])))


def test_the_clock_is_the_median_of_the_sms_whose_stamps_can_be() -> None:
    """One SM runs slower, one was not stamped anew, and the counter of one went back."""
    before = stamps([0, 1, 2, 3, 4], [0] * 4 + [10**9], [0] * 5)
    after = stamps([0, 1, 2, 3, 4], [1755, 1755, 100, 0, 1], [1000, 1000, 1000, 1000, 1000])
    assert clocks.sm_clock_mhz(before, after) == pytest.approx(1755)
    after["timer_ns"][:3] = 0
    assert math.isnan(clocks.sm_clock_mhz(before, after))
    assert clocks.sm_clock_mhz(stamps([0], [0], [0]), stamps([0], [1], [1])) == 1000.0


def test_offsets_are_found_under_jitter() -> None:
    rng = np.random.default_rng(0)
    planted = np.array([0.0, 32.0, -64.0, 0.0, 0.0])
    rounds = (1000 * np.arange(64)[:, None] + planted + rng.choice([0, 32], (64, 5), p=[0.9, 0.1])).astype(np.int64)
    np.testing.assert_allclose(clocks.timer_offsets_ns(rounds), planted)


def test_offsets_belong_to_the_numbers_of_their_sms() -> None:
    """SM 3 is missing, and CTAs do not lie in the order of the SMs."""
    found = clocks.by_sm(np.array([4, 0, 2, 1]), np.array([64.0, 0.0, -32.0, 32.0]), 4)
    assert found == [0.0, 32.0, -32.0, None, 64.0]
    assert clocks.by_sm(np.array([1, 0]), np.array([np.nan, np.nan]), 2) == [None, None]


def reading(**values: Any) -> Reading:
    return Reading(**{"sm_clock_mhz": 1980.0, "highest_mhz": 1980.0, "reasons": (), "others": 0, **values})


def test_every_sample_at_59_percent_is_flagged_and_none_is_dropped() -> None:
    flagged = [clocks.flags(0.59 * 1980, reading()) for _ in range(20)]
    assert flagged == ["clock-limited"] * 20


def test_an_unknown_clock_is_unknown_not_fine() -> None:
    assert clocks.flags(math.nan, Reading()) == "clock-unknown"
    assert clocks.flags(1980.0, Reading()) == "clock-unknown"  # against what?
    assert clocks.flags(1980.0, reading()) == ""


def test_reasons_and_company_are_flags() -> None:
    assert clocks.flags(1700.0, reading(reasons=("power-cap",))) == "power-cap"
    assert clocks.flags(1900.0, reading(reasons=("hw-thermal",))) == "clock-limited"
    assert clocks.flags(1980.0, reading(others=1)) == "shared-gpu"
    assert (
        clocks.flags(1000.0, reading(reasons=("power-cap", "hw-thermal"), others=2))
        == "clock-limited,power-cap,shared-gpu"
    )


def test_a_clock_is_limited_below_three_quarters_and_a_readings_own_counts_where_no_sample_has_one() -> None:
    assert [clocks.flags(share * 2000, reading(highest_mhz=2000.0)) for share in (0.75, 0.7499)] == [
        "",
        "clock-limited",
    ]
    assert clocks.flags(math.nan, reading(sm_clock_mhz=1000.0)) == "clock-limited"
    assert clocks.flags(1980.0, reading(sm_clock_mhz=1000.0)) == ""
    assert clocks.flags(1980.0, Reading(highest_mhz=1980.0)) == ""  # nobody else is known to be there


def test_reason_bits_have_names_and_an_unknown_bit_is_kept() -> None:
    assert clocks.reason_names(0) == ()
    assert clocks.reason_names(0x4 | 0x40) == ("power-cap", "hw-thermal")
    assert clocks.reason_names(0x1000) == ("bit-0x1000",)


def card(**answers: Any) -> Any:
    """A stand-in for pynvml: answers by function name; what it does not know raises."""
    known = {"nvmlInit": lambda: None, "nvmlDeviceGetHandleByIndex": lambda i: "card"}
    known |= {name: (lambda *_, value=value: value) for name, value in answers.items()}
    return SimpleNamespace(**known)


def test_a_card_that_answers_is_read() -> None:
    ours, other = SimpleNamespace(pid=os.getpid()), SimpleNamespace(pid=1)
    read = Nvml(
        card(
            nvmlDeviceGetClockInfo=1700,
            nvmlDeviceGetMaxClockInfo=1980,
            nvmlDeviceGetTemperature=61,
            nvmlDeviceGetPowerUsage=698_500,
            nvmlDeviceGetCurrentClocksEventReasons=0x4,
            nvmlDeviceGetComputeRunningProcesses=[ours, other],
        )
    ).read()
    assert read == Reading(1700.0, 1980.0, 61.0, 698.5, ("power-cap",), 1)


def test_clocks_and_sensors_are_asked_for_by_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """In NVML clock 1 is that of the SMs, 2 the memory's, and sensor 0 the GPU's."""
    module = card(nvmlDeviceGetEnforcedPowerLimit=700_000)
    module.nvmlDeviceGetClockInfo = lambda _, kind: {1: 1700, 2: 2619}[kind]
    module.nvmlDeviceGetMaxClockInfo = lambda _, kind: {1: 1980}[kind]
    module.nvmlDeviceGetTemperature = lambda _, sensor: {0: 61}[sensor]
    monkeypatch.setitem(sys.modules, "pynvml", module)
    nvml = Nvml()
    read = nvml.read()
    assert (read.sm_clock_mhz, read.highest_mhz, read.temperature_c) == (1700.0, 1980.0, 61.0)
    assert nvml.facts() == {"nvml": "present", "power_limit_w": 700.0, "highest_sm_mhz": 1980, "memory_mhz": 2619}


def test_without_a_handle_nothing_is_asked() -> None:
    module = card(nvmlDeviceGetPowerUsage=698_500, nvmlSystemGetDriverVersion="580.1")
    assert (Nvml(module).read().power_w, Nvml(module).driver()) == (698.5, "580.1")
    module.nvmlDeviceGetHandleByIndex = None
    blind = Nvml(module)
    assert (math.isnan(blind.read().power_w), blind.driver()) == (True, "")
    assert blind.facts()["nvml"].startswith("TypeError: ")
    assert blind.facts()["power_limit_w"] is None
    assert all(math.isnan(blind.read().row()[name]) for name in ("sm_clock_mhz", "temperature_c", "power_w"))


def test_a_card_that_does_not_answer_is_unknown_in_every_value() -> None:
    for module in (card(), SimpleNamespace()):
        read = Nvml(module).read()
        assert math.isnan(read.sm_clock_mhz)
        assert math.isnan(read.power_w)
        assert read.reasons is None
        assert read.others == -1
        assert read.row()["throttle"] == "unknown"


def test_process_ids_of_another_namespace_count_this_one_once() -> None:
    listed = [SimpleNamespace(pid=999_999_999)]
    assert Nvml(card(nvmlDeviceGetComputeRunningProcesses=listed)).read().others == 0


def test_a_list_without_this_process_does_not_say_that_nobody_else_is_there() -> None:
    assert Nvml(card(nvmlDeviceGetComputeRunningProcesses=[])).read().others == -1
