"""Any text is parsed without an error, and what is not in a marker stays in sight."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from attribution.verify.markers import parse
from attribution.verify.numbers import unmarked

PIECES = st.sampled_from(
    ["<!-- attr show a -->", "<!-- end -->", "<!-- typed: b -->", "<!--", "-->", "`", "```", "\n", "\n\n", "    ", "|", "---",
     "1.8 ms", "22 %", "x", "](", ")", "![", " ", "[a](b)", "> ", "~~~\n"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=80)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_every_text_has_ordered_parts_inside_it(text: str) -> None:
    parsed = parse(text)
    ranges = sorted([*parsed.hidden, *parsed.code])
    assert all(0 <= a <= b <= len(text) for a, b in ranges)
    assert all(before[1] <= after[0] for before, after in zip(ranges, ranges[1:], strict=False))
    for marker in parsed.markers:
        assert text[marker.start : marker.end] == marker.body
    assert all(1 <= line <= text.count("\n") + 1 for line, _ in unmarked(text, parsed))


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_a_number_behind_any_text_is_seen_unless_it_is_a_comment_or_a_marker(text: str) -> None:
    whole = f"{text}\n\nIt takes 7.25 ms.\n"
    at = whole.rindex("7.25 ms")
    hidden = any(a <= at < b for a, b in parse(whole).hidden)
    assert hidden or any("7.25" in number for _, number in unmarked(whole, parse(whole)))
