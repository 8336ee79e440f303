"""What counts as a measured number, and that nothing which does can hide."""

from __future__ import annotations

import pytest

from attribution.verify.markers import parse
from attribution.verify.numbers import unmarked


def found(text: str) -> list[str]:
    return [number for _, number in unmarked(text, parse(text))]


@pytest.mark.parametrize(
    "number",
    [
        "1.807 ms", "12 us", "12 µs", "3 s", "32 ns", "1,234 ns", "5 seconds", "8.9%", "22 %", "1.4x", "2x", "1.4 x", "3 ×", "0.91",
        "-0.3 %", "± 2 %", "1750 TFLOPS", "4.8 TB/s", "1980 MHz", "700 W", "10-fold", "5 percent", "2 times faster", "1.2e-3 s",
        "18&nbsp;ms", ".5 ms", "18\u202fms", "180 usec", "3 sec", "20 msec", "3X", "3 X", "4 min",
    ],
)  # fmt: skip
def test_a_measurement_is_seen(number: str) -> None:
    bare = number.removesuffix(" faster").replace("times", "times ").strip() if "times" in number else number
    for text in (
        f"It takes {number}, they say.",
        f"- {number}",
        f"({number})",
        f"**{number}**",
        f"## {number} and more",
    ):
        assert ["".join(f.split()) for f in found(text)] == ["".join(bare.split())], text


@pytest.mark.parametrize(
    "text",
    [
        "4096 queries against 32,768 keys", "an H200 with 132 SMs", "2 x 3 tiles", "Q 4096 x N 131072", "share x saving", "128x64",
        "64 KiB of shared memory", "16 bytes", "[finding 0001](docs/0001-1.5-ms.md)", "see https://host/v1.25/5%25",
        "top-2048", "version 1.2.3", "sm_90a", "two modes", "`t[0.975]`", "FP8 e4m3", "the 3 steps",
    ],
)  # fmt: skip
def test_what_is_not_measured_is_left_alone(text: str) -> None:
    assert found(text) == []


def test_code_counts_with_a_unit_or_where_it_was_printed() -> None:
    assert found("```\nratio = 0.91\ntime 1.8 ms\n```\n`0.5` and `7 %`") == ["1.8 ms", "7 %"]
    assert found("an example:\n\n    expects = [0.50, 0.99]\n    took 5 ms\n") == ["5 ms"]
    assert found("an example:\n\n    attr reconcile --saving 5.99 -s 0.2   # not 0.19\n") == ["0.19"]


@pytest.mark.parametrize("fence", ["```", "~~~", "```text"])
def test_a_pasted_table_is_measured(fence: str) -> None:
    """What a terminal printed, put into a block by hand, is as bad as a number in the sentence above it."""
    text = f"{fence}\nfull  0.873 [0.85, 0.90]\n1024   17\n{fence[:3]}\n"
    assert found(text) == ["0.873", "0.85", "0.90"]
    assert found(f"<!-- attr claim a -->\n{text}<!-- end -->") == []


@pytest.mark.parametrize("unit", ["5 us/row", "3 ms/tile"])
def test_a_time_for_each_item_is_a_time(unit: str) -> None:
    assert found(f"It takes {unit}.") == [unit.partition("/")[0]]


@pytest.mark.parametrize(
    "heading",
    [
        "time [ms]",
        "time (usec)",
        "time/ms",
        "ms",
        "time, ms [low, high]",
        "TFLOP/s",
        "speedup",
        "speed-up",
        "ratio",
        "x",
        "clock, MHz",
    ],
)
def test_bare_cells_under_a_unit_count(heading: str) -> None:
    assert found(f"| Q | {heading} |\n|---|---|\n| 512 | 17 |\n") == ["17"]


@pytest.mark.parametrize("heading", ["rows", "K", "SMs", "axis", "minimum", "keys [N]", "misses"])
def test_bare_cells_under_a_count_do_not(heading: str) -> None:
    assert found(f"| Q | {heading} |\n|---|---|\n| 512 | 17 |\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "3-5 ms", "3–5 ms", "took:5 ms", "1/5 ms", "**18** ms", "a-5 %", "[0.3,0.5]", "18\nms", "~18 ms", "v1.5 ms",
        "18&#8239;ms", "18&thinsp;ms", "<td>18 ms</td>",
    ],
)  # fmt: skip
def test_punctuation_hides_no_measurement(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize("text", ["several percent less", "a few per cent", "three in a thousand", "5 per cent"])
def test_a_share_in_words_is_one(text: str) -> None:
    assert len(found(f"It was {text} then.")) == 1


def test_columns_with_a_unit_in_their_heading_count() -> None:
    text = "| Q | time, ms | rows |\n|---|---|---|\n| 512 | 17 | 4 |\n| 1024 | <!-- typed: no -->18<!-- end --> | 8 |\n\n17"
    assert unmarked(text, parse(text)) == [(3, "17")]


def test_markers_cover_and_do_not_join() -> None:
    assert found("<!-- attr show a -->1.8 ms<!-- end -->") == []
    assert found("<!-- attr show a -->1.8<!-- end -->7 ms") == ["7 ms"]
    assert found("9<!-- attr show a -->1.8 ms<!-- end --> and 1<!-- c -->.5 ms") == [".5 ms"]
    assert found("a comment <!-- 1.8 ms --> shows nothing") == []


def test_an_open_marker_covers_nothing() -> None:
    assert found("<!-- attr show a -->1.8 ms") == ["1.8 ms"]


def test_lines_are_those_of_the_text() -> None:
    text = "a\n<!-- attr show a -->\n```\n1\n```\n<!-- end -->\nthen 3 ms\n"
    assert unmarked(text, parse(text)) == [(7, "3 ms")]
    assert unmarked("\n3 ms", parse("\n3 ms")) == [(2, "3 ms")]


def test_lines_of_cells_are_those_of_the_text_too() -> None:
    wide = "| a " * 12 + "| ms |\n" + "|---" * 13 + "|\n" + "| 1 " * 12 + "|" + " " * 40 + "17|\n"
    assert unmarked(wide, parse(wide)) == [(3, "17")]
    late = "a\n" * 40 + "| ms |\n|---|\n| 17 |\n| 18 |\n"
    assert unmarked(late, parse(late)) == [(43, "17"), (44, "18")]


def test_a_heading_is_what_stands_above_a_rule_and_holds_for_its_own_table() -> None:
    assert found("| time, ms | Q |\n|---|---|\n| 17 | 4 |\n") == ["17"]
    assert found("| a | time, ms |\n| x-y | 17 |\n") == []
    assert found("| time, ms |\n|---|\n| 17 |\n\ntext\n\n| keys |\n|---|\n| 18 |\n") == ["17"]
    assert found("| keys |\n|---|\n| 17 |\n\ntext\n\n| time, ms |\n|:-:|\n| 18 |\n") == ["18"]


@pytest.mark.parametrize("bar", ["|", ""])
def test_a_number_with_its_unit_in_a_column_with_one_is_told_once(bar: str) -> None:
    """A table's rows need not begin with a bar, or end with one."""
    rows = ("Q | time, ms", "---|---", "512 | 17 ms", "512 | 18", "19 | 4")
    assert found("\n".join(bar + row + bar for row in rows)) == ["17 ms", "18", "4"]


def test_neighbours_are_told_each_and_declared_is_what_is_on_one_line() -> None:
    assert found("5%7%") == ["5%", "7%"]
    assert found("```\nx = 3\n0.5\n```\n") == ["0.5"]
    assert found("<!-- attr claim a -->\n```\ntook 5 ms\n```\n<!-- end -->\n") == []


def test_a_span_is_no_block_whatever_follows() -> None:
    assert found("`0.5` is typed\nand so is `0.7`\n") == []
