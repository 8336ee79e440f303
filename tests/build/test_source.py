import pytest
from tiny import FLAGS, PLAIN, tiny

from attribution.build import source
from attribution.declare import Event, Flag
from attribution.errors import BuildError


def text_of(kernel, **flags):
    return source.expand(kernel, kernel.resolve_flags(flags)).text


def test_prelude_has_every_flag_role_and_event_with_its_type(tmp_path):
    kernel = tiny(tmp_path)
    text = source.prelude(kernel, kernel.resolve_flags({"TRACE": 2, "LAYOUT": "columns"}))
    assert "constexpr int TRACE = 2;" in text
    assert "constexpr bool WORK = true;" in text
    assert "enum class LAYOUT_t : int { rows, columns };" in text
    assert "constexpr LAYOUT_t LAYOUT = LAYOUT_t::columns;" in text
    assert "enum id : int { load, math };" in text
    assert "constexpr unsigned int count = 2;" in text
    assert "enum id : int { arrive, score, tile };" in text
    assert "of[] = {role::load, role::math, role::math}" in text
    assert "of[] = {1, 1, 2}" in text


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"flags": {"TOO-BIG": Flag(1, "x")}}, "TOO-BIG"),
        ({"flags": {"N": Flag(2**31, "x")}}, "2147483648"),
        ({"flags": {"L": Flag("a b", "x", ("a b",))}}, "a b"),
        ({"roles": ("count",), "events": ()}, "count"),
        ({"events": (Event("role_of", "math"),)}, "role_of"),
    ],
)
def test_names_that_cpp_cannot_have_are_refused(tmp_path, change, word):
    kernel = tiny(tmp_path, **change)
    with pytest.raises(BuildError, match=word):
        source.prelude(kernel, kernel.resolve_flags({}))


def test_headers_are_pasted_once_under_their_own_names(tmp_path):
    kernel = tiny(
        tmp_path,
        '#include "a.cuh"\n#include "part/b.cuh"\nint last;\n',
        headers={
            "a.cuh": '#pragma once\n#include "part/b.cuh"\nint a;\n',
            "part/b.cuh": "#pragma once\nint b;\n",
        },
    )
    unit = source.expand(kernel, kernel.resolve_flags({}))
    assert unit.text.count("int b;") == 1
    assert [name for name, _ in unit.files] == [
        "kernels/tiny/tiny.cu",
        "kernels/tiny/a.cuh",
        "kernels/tiny/part/b.cuh",
    ]
    lines = unit.text.splitlines()
    last = lines.index("int last;")
    assert lines[last - 1] == '#line 3 "kernels/tiny/tiny.cu"'
    assert str(tmp_path) not in unit.text


def test_includes_in_comments_are_comments_and_in_strings_are_not_looked_for(tmp_path):
    text = '// #include "no.cuh"\n/*\n#include "no.cuh"\n*/\nconst char* s = "/*";\n#include "a.cuh"\n'
    kernel = tiny(tmp_path, text, headers={"a.cuh": "int a;\n"})
    unit = source.expand(kernel, kernel.resolve_flags({}))
    assert "int a;" in unit.text
    assert len(unit.files) == 2


def test_a_header_beside_the_kernel_wins_over_the_shipped_one(tmp_path):
    kernel = tiny(tmp_path, '#include "attr/keep.cuh"\n')
    shipped = source.expand(kernel, kernel.resolve_flags({}))
    assert "class Fold" in shipped.text
    own = tmp_path / "kernels" / "include" / "attr"
    own.mkdir(parents=True)
    (own / "keep.cuh").write_text("int mine;\n")
    assert "int mine;" in text_of(kernel)
    assert "class Fold" not in text_of(kernel)


def test_a_missing_header_is_named_with_its_line_and_the_places(tmp_path):
    kernel = tiny(tmp_path, '\n#include "gone.cuh"\n')
    with pytest.raises(BuildError, match=r'kernels/tiny/tiny\.cu:2 includes "gone\.cuh"'):
        text_of(kernel)


def test_a_kernel_without_source_or_with_a_lost_one_is_refused(tmp_path):
    with pytest.raises(BuildError, match="no GPU source"):
        text_of(tiny(tmp_path, source=PLAIN).__class__(**{**vars(tiny(tmp_path)), "source": None}))
    with pytest.raises(BuildError, match=r"other\.cu does not exist"):
        text_of(tiny(tmp_path).__class__(**{**vars(tiny(tmp_path)), "source": "other.cu"}))


def test_system_headers_are_followed_whatever_their_conditions(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "top.h").write_text('#if 0\n#include <sub/low.h>\n#endif\n#include "sub/side.h"\n')
    (tmp_path / "sub" / "low.h").write_text("low\n")
    (tmp_path / "sub" / "side.h").write_text("#include <builtin>\n")
    found = source.system_headers(["top.h"], [tmp_path])
    assert list(found) == ["sub/low.h", "sub/side.h", "top.h"]
    (tmp_path / "sub" / "low.h").write_text("changed\n")
    assert source.system_headers(["top.h"], [tmp_path])["sub/low.h"] != found["sub/low.h"]


def test_flags_of_the_fixture_are_all_in_the_prelude(tmp_path):
    kernel = tiny(tmp_path)
    text = source.prelude(kernel, kernel.resolve_flags({}))
    assert all(f" {name} = " in text for name in FLAGS)
