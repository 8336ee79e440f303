"""Kernels and variants below a root: what is allowed is loaded, what is not is refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribution.errors import InputError
from attribution.load import kernel_names, load_kernel, load_variants

KERNEL_PY = """
from attribution.declare import Axis, Flag, Kernel
KERNEL = Kernel(
    name="toy", summary="a toy",
    flags={"FAST": Flag(True, "speed"), "WIDTH": Flag(4, "lanes", (1, 2, 4))},
    shape={"n": Axis(64, "elements", least=1, multiple=32)}, knobs={"sms": Axis(4, "SMs"), "ctas": Axis(2, "CTAs", times="sms")},
    roles=("math",), events=(), distributions=("normal",), same={"loads": "loads"},
    inputs=lambda *a: {}, reference=lambda *a: None, check=lambda *a: [],
    illegal=lambda f: "FAST needs WIDTH above 1" if f["FAST"] and f["WIDTH"] == 1 else None,
)
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "kernels" / "toy").mkdir(parents=True)
    (tmp_path / "variants").mkdir()
    (tmp_path / "kernels" / "toy" / "kernel.py").write_text(KERNEL_PY)
    return tmp_path


def variants(root: Path, text: str):
    (root / "variants" / "toy.toml").write_text(text)
    return load_variants(root, load_kernel(root, "toy"))


def test_flags_and_knobs_are_inherited_from_the_base(toy: Path) -> None:
    loaded = variants(
        toy,
        '[c]\nasks="?"\nbase="b"\nflags={FAST=false}\n[b]\nasks="?"\nbase="a"\nflags={WIDTH=2}\nknobs={ctas=3}\n[a]\nasks="?"\n',
    )
    assert list(loaded) == ["c", "b", "a"]
    assert dict(loaded["c"].flags) == {"WIDTH": 2, "FAST": False}
    assert dict(loaded["c"].knobs) == {"ctas": 3}


BASED = '[b]\nasks="?"\n[c2]\nasks="?"\nbase="d"\n[d]\nasks="?"\nbase="b"\n[a]\nasks="?"\nbase="b"\n'
"""Variants a and d of base b, c2 of base d; a is open at its end."""


def test_variants_of_the_same_base_can_stand_beside(toy: Path) -> None:
    loaded = variants(toy, f'{BASED}beside=["d"]')
    assert {name: v.beside for name, v in loaded.items() if v.beside} == {"a": ("d",)}


def test_an_expectation_may_say_which_sizes_it_speaks_of(toy: Path) -> None:
    loaded = variants(toy, '[a]\nasks="?"\nexpects={host={time_ratio=[0.5,1],n=[64,128]}}')
    assert loaded["a"].expects == {"host": {"time_ratio": (0.5, 1.0), "n": (64.0, 128.0)}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[a]\nasks="?"\nflags={FASTER=true}', r"no flag FASTER; nearest: FAST"),
        ('[a]\nasks="?"\nflags={WIDTH=3}', r"WIDTH = 3: allowed are 1, 2, 4"),
        ('[a]\nasks="?"\nflags={WIDTH=true}', r"WIDTH = True: allowed are 1, 2, 4"),
        ('[a]\nasks="?"\nflags={FAST=1}', r"FAST = 1: allowed are False, True"),
        ('[a]\nasks="?"\nflags={WIDTH=1}', r"flags refused: FAST needs WIDTH above 1"),
        ('[a]\nasks="?"\nbase="b"', r"base 'b' does not exist"),
        ('[a]\nasks="?"\nbase="b"\n[b]\nasks="?"\nbase="a"', r"cycle: a -> b -> a"),
        ('[a]\nasks="?"\nbase="a"', r"cycle: a -> a"),
        ("[a]\nflags={}", r"`asks` is missing"),
        ('[a]\nasks="?"\nflagz={}', r"unknown key flagz; nearest: flags"),
        ('[a]\nasks="?"\nsame=["load"]', r"not a quantity of kernel toy; nearest: loads"),
        ('[a]\nasks="?"\nexpects={host={time_ratio=[2,1]}}', r"must be \[low, high\]"),
        ('[a]\nasks="?"\nexpects={host={time_ratio=0.5}}', r"must be \[low, high\]"),
        ('[a]\nasks="?"\nexpects={host={time_ration=[0,1]}}', r"neither a quantity nor a size .*; nearest: time_ratio"),
        (
            '[a]\nasks="?"\nexpects={host={time_ratio=[0,1],m=[1,2]}}',
            r"expects.host.m is neither a quantity nor a size",
        ),
        ('[a]\nasks="?"\nexpects={host=[0,1]}', r"must be \{ time_ratio"),
        ('[a]\nasks="?"\nknobs={ctas=0}', r"ctas = 0: allowed is an integer >= 1"),
        ('[a]\nasks="?"\nknobs={cta=1}', r"no knob cta; nearest: ctas"),
        ('[a]\nasks="?"\nfactors=["FAST"]', r"must be two flags"),
        ('[a]\nasks="?"\nfactors=[["FAST"],["WIDTH"]]', r"must be two flags"),
        ('[a]\nasks="?"\nfactors="FW"', r"factors is 'FW': must be \[flag, flag\]"),
        ('[a]\nasks="?"\nflags=["FAST"]', r"flags is \['FAST'\]: must be \{ FLAG = value \}"),
        ('[a]\nasks="?"\nknobs="ctas"', r"knobs is 'ctas': must be \{ knob = integer \}"),
        ('[a]\nasks="?"\nknobs={ctas="2"}', r"ctas = '2': allowed is an integer >= 1"),
        ('[a]\nasks="?"\nknobs={ctas=true}', r"ctas = True: allowed is an integer >= 1"),
        ('[a]\nasks="?"\nsame="loads"', r"same is 'loads': must be \[quantity, ...\]"),
        ('[a]\nasks="?"\nsame=[["loads"]]', r"not a quantity of kernel toy"),
        ('[a]\nasks="?"\nbase=["b"]', r"base is \['b'\]: must be the name of another variant"),
        ('[a]\nasks="?"\nstage=3', r"stage is 3: must be the name of a stage"),
        ('[a]\nasks="?"\nexpects=3', r"expects is 3: must be \{ machine"),
        ('[a]\nasks="?"\nbeside="b"', r"beside is 'b': must be \[variant, ...\]"),
        (f'{BASED}beside=["c"]', r"\[a\]: beside = 'c' does not exist; nearest: c2"),
        (f"{BASED}beside=[3]", r"\[a\]: beside = 3 does not exist"),
        (f'{BASED}beside=["a"]', r"beside = 'a': allowed is another variant of the same base, which is b here"),
        (f'{BASED}beside=["b"]', r"beside = 'b': allowed is another variant of the same base, which is b here"),
        (f'{BASED}beside=["c2"]', r"beside = 'c2': allowed is another variant of the same base, which is b here"),
        ('[a]\nasks="?"\nbeside=["b"]\n[b]\nasks="?"', r"of the same base, which is none here"),
        ('[a]\nasks=" "', r"`asks` is missing"),
        ("a = 1", r"must be a table"),
        ("[a", r"is not TOML"),
    ],
)
def test_what_is_not_allowed_is_refused_with_a_sentence(toy: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        variants(toy, text)
    assert caught.value.exit_code == 2


def test_a_kernel_that_does_not_exist_names_the_nearest(toy: Path) -> None:
    with pytest.raises(InputError, match=r"no kernel 'tor' .*nearest: toy"):
        load_kernel(toy, "tor")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("raise RuntimeError('boom')", "does not run: kernel.py:1: RuntimeError: boom"),
        ("import sys; sys.exit(0)", "does not run: kernel.py:1: SystemExit: 0"),
        ("KERNEL = 3", "no KERNEL of type"),
        (KERNEL_PY.replace('name="toy"', 'name="tay"'), "must be the folder's name"),
    ],
)
def test_a_broken_kernel_file_is_a_sentence(tmp_path: Path, source: str, sentence: str) -> None:
    (tmp_path / "kernels" / "toy").mkdir(parents=True)
    (tmp_path / "kernels" / "toy" / "kernel.py").write_text(source)
    with pytest.raises(InputError, match=sentence):
        load_kernel(tmp_path, "toy")


def test_a_declaration_is_checked_when_it_is_loaded(toy: Path) -> None:
    wrong = KERNEL_PY.replace('roles=("math",)', 'roles="math"')
    assert wrong != KERNEL_PY
    (toy / "kernels" / "toy" / "kernel.py").write_text(wrong)
    with pytest.raises(InputError, match="kernel toy: roles is 'math': must be a tuple of str"):
        load_kernel(toy, "toy")


def test_every_shipped_variant_loads(root: Path) -> None:
    for name in kernel_names(root):
        assert load_variants(root, load_kernel(root, name))
