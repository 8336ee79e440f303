import importlib.metadata
import subprocess
import sys

import pytest
from tiny import PLAIN, tiny

from attribution.build import many
from attribution.build.many import Outcome, build_all, select
from attribution.declare import Variant
from attribution.errors import BuildError, InputError
from attribution.load import shipped_root

pytest.importorskip("cuda.core", reason='needs `pip install "attribution[cuda]"`')

BREAKS = PLAIN + "static_assert(flag::TRACE != 2);\n"


def variant(name, **flags):
    return Variant("tiny", name, "?", flags=flags)


def test_every_variant_has_an_outcome_in_order_and_each_identity_is_compiled_once(tmp_path, monkeypatch):
    kernel = tiny(tmp_path, BREAKS)
    compiled = []
    real = many.compile_target

    def counting(wanted, cache):
        compiled.append(wanted.identity)
        return real(wanted, cache)

    monkeypatch.setattr(many, "compile_target", counting)
    chosen = [
        (kernel, variant("full")),
        (kernel, variant("broken", TRACE=2)),
        (tiny(tmp_path / "host", source=PLAIN, name="tiny"), variant("same_as_full")),
        (kernel, variant("idle", WORK=False)),
        (kernel, variant("illegal", TRACE=9)),
    ]
    seen = []
    outcomes = build_all(chosen, cache=tmp_path / "c", jobs=2, progress=lambda *a: seen.append(a))
    assert [o.variant for o in outcomes] == [v.name for _, v in chosen]
    assert [o.status for o in outcomes] == ["built", "failed", "built", "built", "failed"]
    assert "static assertion" in str(outcomes[1].error)
    assert "TRACE = 9" in str(outcomes[4].error)
    assert len(compiled) == len(set(compiled)) == 4
    assert seen[0][:2] == (1, 5)
    assert seen[-1][:2] == (5, 5)
    again = build_all(chosen, cache=tmp_path / "c")
    assert [o.status for o in again] == ["cached", "failed", "cached", "cached", "failed"]
    assert len(compiled) == 5


def test_variants_that_differ_in_knobs_only_share_one_build(tmp_path, monkeypatch):
    kernel = tiny(tmp_path)
    calls = []
    real = many.compile_target
    monkeypatch.setattr(many, "compile_target", lambda *a: calls.append(a) or real(*a))
    one, two = build_all([(kernel, variant("a")), (kernel, variant("b"))], cache=tmp_path / "c")
    assert len(calls) == 1
    assert one.build.identity == two.build.identity
    assert (one.variant, two.variant) == ("a", "b")


def test_two_threads_give_the_same_bytes_as_one(tmp_path):
    kernel = tiny(tmp_path)
    chosen = [(kernel, variant(f"v{t}", TRACE=t)) for t in (0, 1, 2)]
    serial = build_all(chosen, cache=tmp_path / "c1", jobs=1)
    parallel = build_all(chosen, cache=tmp_path / "c2", jobs=3)
    assert [o.build.cubin for o in serial] == [o.build.cubin for o in parallel]


def test_a_kernel_without_a_source_is_skipped_and_said(tmp_path):
    kernel = tiny(tmp_path, source=PLAIN)
    bare = kernel.__class__(**{**vars(kernel), "source": None, "entries": ()})
    assert build_all([(bare, variant("full"))])[0] == Outcome("tiny", "full")
    assert build_all([(bare, variant("full"))])[0].status == "skipped"


def test_an_impossible_architecture_is_one_error(tmp_path):
    with pytest.raises(InputError, match="'sm90'"):
        build_all([(tiny(tmp_path), variant("full"))], arch="sm90")


def test_selection_is_by_name_and_unknown_names_get_their_nearest():
    root = shipped_root()
    every = select(root)
    assert {kernel.name for kernel, _ in every} >= {"hello", "index_topk"}
    assert [v.name for _, v in select(root, ["hello"])] == ["vector", "scalar"]
    assert [v.name for _, v in select(root, ["hello"], ["scalar"])] == ["scalar"]
    with pytest.raises(InputError, match="nearest: scalar"):
        select(root, ["hello"], ["scaler"])
    with pytest.raises(InputError, match="no kernel 'helo'"):
        select(root, ["helo"])


def test_every_variant_of_hello_builds_for_every_architecture_it_promises(tmp_path):
    chosen = select(shipped_root(), ["hello"])
    for arch in ("sm_80", "sm_90a"):
        for outcome in build_all(chosen, arch, cache=tmp_path):
            assert outcome.status == "built", outcome.error
            assert outcome.build.warnings == ()
            held = outcome.build.entry("hello").residency(arch)
            assert held.ctas >= 8
    wide = {o.variant: o.build.entry("hello").opcodes for o in build_all(chosen, cache=tmp_path)}
    assert wide["vector"]["FADD"] > 2 * wide["scalar"]["FADD"]


def test_the_first_builds_of_a_process_may_be_parallel(tmp_path):
    """Two threads that import cuda.core at once find it half imported, unless they take turns."""
    code = f"""
from attribution.build.many import build_all, select
from attribution.load import shipped_root
chosen = select(shipped_root(), ["hello"])
print([str(o.error or o.status) for o in build_all(chosen, cache={str(tmp_path)!r}, jobs=2)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['built', 'built']"


def test_without_a_compiler_there_is_one_sentence(tmp_path, monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    with pytest.raises(BuildError, match=r'pip install "attribution\[cuda\]"'):
        build_all(select(shipped_root(), ["hello"]), cache=tmp_path)
