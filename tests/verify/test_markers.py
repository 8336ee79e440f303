"""Where markers begin and end, what is code, and what is told when one is not well-formed."""

from __future__ import annotations

import pytest

from attribution.verify.markers import parse


def test_a_marker_has_kind_spec_body_and_line() -> None:
    text = "It takes\n<!-- attr show  a :: b.c\n :: ms.1 -->1.8 ms<!-- end -->, and so on"
    (one,) = parse(text).markers
    assert (one.kind, one.spec, one.body, one.line) == ("attr", "show a :: b.c :: ms.1", "1.8 ms", 2)
    assert text[one.start : one.end] == "1.8 ms"


def test_blocks_may_hold_code_and_two_may_follow_each_other() -> None:
    text = "<!-- attr show a -->\n```\n`1.8 ms <!-- x -->\n```\n<!-- end -->\n<!-- file b :: c :: n.0 -->3<!-- end -->"
    parsed = parse(text)
    assert [m.kind for m in parsed.markers] == ["attr", "file"]
    assert parsed.markers[0].body == "\n```\n`1.8 ms <!-- x -->\n```\n"
    assert not parsed.faults


@pytest.mark.parametrize(
    "text",
    [
        "```\n<!-- attr show a -->1<!-- end -->\n```",
        "> ~~~text\n> <!-- end -->\n> ~~~",
        "write `<!-- attr show a -->` and `` <!-- end --> ``",
        "like this:\n\n    <!-- attr show a -->1\n\n    <!-- end -->\n\nand so on",
    ],
    ids=["fence", "quoted fence", "spans", "indented"],
)
def test_in_code_a_marker_is_text(text: str) -> None:
    parsed = parse(text)
    assert (parsed.markers, parsed.faults) == ((), ())
    assert parsed.code


def test_a_name_stands_for_a_source_from_where_it_is_given() -> None:
    text = "<!-- let base = attr show\na --> <!-- base :: b.c :: ms.1 -->1.8 ms<!-- end --> <!-- base -->x<!-- end -->"
    parsed = parse(text)
    assert [(m.kind, m.spec, m.body) for m in parsed.markers] == [
        ("attr", "show a :: b.c :: ms.1", "1.8 ms"),
        ("attr", "show a", "x"),
    ]
    assert not parsed.faults
    early = parse("<!-- base :: b -->1<!-- end --> <!-- let base = attr show a -->")
    assert (early.markers, len(early.faults)) == ((), 1)


def test_other_comments_are_no_markers() -> None:
    parsed = parse("<!-- attribution --> 1 <!-- endless -->")
    assert (parsed.markers, parsed.faults) == ((), ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<!-- attr show a -->1.8 ms", "never ended"),
        ("<!-- atr show a -->1.8 ms<!-- end -->", "end without a beginning"),
        ("<!-- attr show a -->1 <!-- typed: no -->2<!-- end --><!-- end -->", "another marker begins"),
        ("<!-- attr -->1<!-- end -->", "says nothing more"),
        ("<!-- typed: -->1<!-- end -->", "says nothing more"),
        (
            "<!-- let b = attr show a --><!-- b :: c -->1 <!-- b :: d -->2<!-- end --><!-- end -->",
            "another marker begins",
        ),
        ("<!-- let b = rm -rf -->", "a name is given as"),
        ("<!-- let b = attr show a --><!-- let b = attr show c -->", "has a meaning already"),
        ("<!-- let code = attr show a -->", "has a meaning already"),
        ("<!-- typed: all of it -->1 ms\n\n2 ms<!-- end -->", "for one paragraph"),
    ],
    ids=[
        "no end",
        "misspelt",
        "nested",
        "nested name",
        "no command",
        "twice",
        "taken",
        "no source",
        "no reason",
        "over a paragraph",
    ],
)
def test_what_is_no_marker_is_a_fault_with_its_line(text: str, reason: str) -> None:
    (fault, *_) = parse("first\n" + text).faults
    assert reason in fault.reason
    assert fault.line >= 2
