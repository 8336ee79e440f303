"""One value out of JSON: what a path leads to, how it is written, and what is said when it leads nowhere."""

from __future__ import annotations

import pytest

from attribution.errors import InputError
from attribution.verify.paths import written

VALUE = {
    "base": "full",
    "steps": [
        {"rung": "a", "scope": "event/warm", "shape": "q=1,n=2", "t_ns": 1.5e6, "t_low_ns": 1.4e6, "t_high_ns": 1.6e6, "r": 0.91},
        {"rung": "b", "scope": "event/warm", "shape": "q=1,n=4", "t_ns": 2.5e6, "t_low_ns": 2.4e6, "t_high_ns": None, "r": 1.25},
        {"rung": "b", "scope": "graph/warm", "shape": "q=1,n=4", "t_ns": 3e6, "t_high_ns": 0, "r": 12345.0, "ok": True},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "form", "text"),
    [
        ("base", "text", "full"),
        ("steps[rung=a].t_ns", "ms.2", "1.50 ms"),
        ("steps[rung=a].t_ns", "us.0", "1500 us"),
        ("steps[rung=a].t_ns,t_low_ns,t_high_ns", "ms.1", "1.5 ms [1.4, 1.6]"),
        ("steps[rung=a].t_low_ns,t_high_ns", "ms.1", "[1.4, 1.6] ms"),
        ("steps[rung=b;scope=graph/warm].r", "n.0", "12,345"),
        ("steps[shape=q=1,n=2].r", "%.1", "91.0 %"),
        ("steps[rung=a].r", "less%.1", "9.0 %"),
        ("steps[r=1.25].r", "more%.0", "25 %"),
        ("steps[r=1.25].r", "x.2", "1.25 x"),
        ("steps.#", "n.0", "3"),
        ("steps[rung=b].#", "n.0", "2"),
        ("steps[rung=c].#", "n.0", "0"),
        ("steps.max:t_ns", "s.3", "0.003 s"),
        ("steps[rung=a].min:r", "n.2", "0.91"),
        ("steps[ok=True].t_ns", "ms.0", "3 ms"),
    ],
)
def test_a_value_is_written(path: str, form: str, text: str) -> None:
    assert written(VALUE, path, form) == text


@pytest.mark.parametrize(
    ("key", "value", "form", "text"),
    [
        ("wall_s", 30.5, "s.1", "30.5 s"),
        ("t_us", 1500.0, "ms.1", "1.5 ms"),
        ("practical_flop_per_s", 1.25e15, "TFLOPS.0", "1250 TFLOPS"),
        ("tflops_low", 987.6, "TFLOPS.0", "988 TFLOPS"),
        ("copy_byte_per_s", 4.1e12, "TB/s.1", "4.1 TB/s"),
        ("peak_memory_bytes_per_s", 4.8e12, "GB/s.0", "4800 GB/s"),
        ("clock_mhz", 1755.0, "GHz.3", "1.755 GHz"),
        ("power_w", 650.0, "W.0", "650 W"),
        ("dram_bytes", 2.3e8, "MB.0", "230 MB"),
        ("written_byte", 5e8, "GB.1", "0.5 GB"),
        ("pairs", 1.25e8, "M.0", "125 M"),
    ],
)
def test_a_keys_name_says_its_unit(key: str, value: float, form: str, text: str) -> None:
    assert written({key: value}, key, form) == text
    with pytest.raises(InputError, match="cannot be written in"):
        written({key: value}, key, "%.1" if key != "pairs" else "s.1")


def test_less_turns_the_interval_round() -> None:
    assert written({"r": 0.9, "low": 0.8, "high": 0.95}, "r,low,high", "less%.0") == "10 % [5, 20]"


@pytest.mark.parametrize(
    ("path", "form", "reason"),
    [
        ("", "n.0", "there is no ''"),
        ("nothing", "n.0", "there is no 'nothing'; there are: base, steps"),
        ("base.more", "n.0", "has no parts"),
        ("steps.t_ns", "ms.1", "3 rows match"),
        ("steps[rung=c].t_ns", "ms.1", "0 rows match"),
        ("steps[rung=b].t_ns", "ms.1", "2 rows match"),
        ("steps.max:t_high_ns", "ms.1", "not all have a number"),
        ("steps[rung=c].max:r", "x.1", "0 rows"),
        ("steps[rung=a].t_ns", "%.1", "t_ns cannot be written in %; allowed are ns, us, ms, s"),
        ("steps[rung=a].r", "ms.1", "r cannot be written in ms; allowed are n, M, x, %"),
        ("steps[rung=a].t_ns", "ms", "allowed are text and UNIT.DECIMALS"),
        ("steps[rung=a].t_ns", "furlong.1", "allowed are text and UNIT.DECIMALS"),
        ("steps[rung=a].rung", "n.0", "which is no number"),
        ("steps[ok=True].ok", "n.0", "which is no number"),
        ("steps[rung=b;scope=event/warm].t_low_ns,t_high_ns", "ms.1", "None, which is no number"),
        ("steps[rung=a].r,r,r,r", "n.0", "ends in 4 keys"),
    ],
)
def test_what_leads_nowhere_is_said(path: str, form: str, reason: str) -> None:
    with pytest.raises(InputError) as error:
        written(VALUE, path, form)
    assert reason in str(error.value)
