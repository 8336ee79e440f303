import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import PLAIN, tiny
from untraced import untraced

from attribution import build as building
from attribution.build import build, cached, compile_target, source, target
from attribution.build import cache as build_cache
from attribution.build.sass import disassemble, opcode_counts, role_counts, text_sections
from attribution.declare import Entry
from attribution.errors import BuildError, InputError
from attribution.load import kernel_names, load_kernel, shipped_root

pytest.importorskip("cuda.core", reason='needs `pip install "attribution[cuda]"`')

TRACED = """
#include "attr/config.cuh"
#include "attr/trace.cuh"
extern "C" __global__ void tiny(float* x, attr::Trace trace) {
  attr::Lane<role::math> lane(trace, threadIdx.x == 0);
  lane.begin<event::score>(7);
  lane.begin<event::tile>(8);
  x[threadIdx.x] += 1.0f;
  lane.end<event::tile>(8);
  lane.end<event::score>(7);
  lane.close();
}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("builds")


def sources():
    kernels = [load_kernel(shipped_root(), name) for name in kernel_names(shipped_root())]
    return [kernel for kernel in kernels if kernel.source]


# --- identity ------------------------------------------------------------------------------------


def test_a_key_has_everything_in_it_and_a_hit_knows_its_event_names(tmp_path):
    kernel = tiny(tmp_path, TRACED + '#include "part.cuh"\n', headers={"part.cuh": "constexpr int a = 1;\n"})
    plain = build(kernel, {"TRACE": 0}, cache=tmp_path / "c")
    traced = build(kernel, {"TRACE": 1}, cache=tmp_path / "c")
    (kernel.folder / "part.cuh").write_text("constexpr int a = 1;  // new\n")
    changed = build(kernel, {"TRACE": 1}, cache=tmp_path / "c")
    assert len({plain.identity, traced.identity, changed.identity}) == 3
    again = build(kernel, {"TRACE": 1}, cache=tmp_path / "c")
    assert again.cached
    assert not changed.cached
    assert again == replace(changed, cached=True)
    assert again.events == ("arrive", "score", "tile")
    assert again.roles == ("load", "math")
    assert again.flags == {"TRACE": 1, "WORK": True, "LAYOUT": "rows"}


def test_compiler_arch_options_and_declared_launch_are_in_the_key(tmp_path, monkeypatch):
    kernel = tiny(tmp_path)
    keys = [target(kernel, {}).identity, target(kernel, {}, "sm_80").identity]
    bigger = Entry("tiny", lambda flags: 256, lambda flags: 0)
    keys.append(target(tiny(tmp_path, entries=(bigger,)), {}).identity)
    monkeypatch.setattr(building, "OPTIONS", {**building.OPTIONS, "use_fast_math": True})
    keys.append(target(kernel, {}).identity)
    monkeypatch.setattr(building, "compiler_version", lambda: "nvidia-cuda-nvrtc 99.0")
    keys.append(target(kernel, {}).identity)
    assert len(set(keys)) == len(keys)


def test_a_system_header_is_in_the_key(tmp_path, monkeypatch):
    kernel = tiny(tmp_path, "#include <mine.h>\n" + PLAIN)
    (tmp_path / "mine.h").write_text("#define MINE 1\n")
    monkeypatch.setattr(building, "_include_folders", lambda: [tmp_path])
    first = target(kernel, {}).identity
    assert first == target(kernel, {}).identity
    (tmp_path / "mine.h").write_text("#define MINE 2\n")
    assert target(kernel, {}).identity != first


def test_the_same_source_elsewhere_is_the_same_build_byte_for_byte(tmp_path, cache):
    here, there = tiny(tmp_path / "here", TRACED), tiny(tmp_path / "there", TRACED)
    one = build(here, {"TRACE": 1}, cache=tmp_path / "c1")
    two = build(there, {"TRACE": 1}, cache=tmp_path / "c2")
    assert one.identity == two.identity
    assert one.cubin == two.cubin
    assert str(tmp_path).encode() not in one.cubin


# --- the cache on disk ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [build_cache.CUBIN, build_cache.FACTS])
def test_one_changed_byte_is_noticed_and_built_again(tmp_path, name):
    kernel = tiny(tmp_path)
    first = build(kernel, {}, cache=tmp_path / "c")
    path = first.folder / name
    if name == build_cache.FACTS:
        text = path.read_text()
        assert f'"registers": {first.entries[0].registers}' in text
        path.write_text(text.replace('"registers": ', '"registers": 1', 1))
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    wanted = target(kernel, {})
    assert cached(wanted, tmp_path / "c") is None
    second = build(kernel, {}, cache=tmp_path / "c")
    assert not second.cached
    assert second.cubin == first.cubin
    assert second.entries == first.entries
    assert [p.name for p in (tmp_path / "c").iterdir()] == [first.identity]


def test_a_lost_file_is_built_again_and_a_foreign_entry_is_not_taken(tmp_path):
    kernel = tiny(tmp_path)
    first = build(kernel, {}, cache=tmp_path / "c")
    other = target(kernel, {"WORK": False})
    shutil.copytree(first.folder, tmp_path / "c" / other.identity)
    assert cached(other, tmp_path / "c") is None
    (first.folder / build_cache.FACTS).unlink()
    assert not build(kernel, {}, cache=tmp_path / "c").cached


def test_a_cache_that_cannot_be_written_is_a_sentence_and_leaves_nothing(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(BuildError, match=r"build cache .* cannot be written.*--cache"):
        build(tiny(tmp_path), {}, cache=blocked / "c")


def test_a_kill_while_publishing_leaves_no_entry(tmp_path, monkeypatch):
    kernel = tiny(tmp_path)

    def die(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", die)
    with pytest.raises(KeyboardInterrupt):
        build(kernel, {}, cache=tmp_path / "c")
    monkeypatch.undo()
    assert cached(target(kernel, {}), tmp_path / "c") is None
    assert not build(kernel, {}, cache=tmp_path / "c").cached


def test_the_cache_is_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build_cache.root() == tmp_path / "attribution" / "builds"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build_cache.root() == tmp_path / ".cache" / "attribution" / "builds"


# --- what does not compile -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x[0] = flag::WROK;", 'namespace "flag" has no member "WROK"'),
        ("x[0] = flag::LAYOUT == flag::LAYOUT_t::diagonal;", "diagonal"),
        ("attr::Lane<role::maths> other(trace, true);", "maths"),
        ("lane.begin<event::scroe>(1);", "scroe"),
        ("lane.begin<event::arrive>(1);", "this event belongs to another role"),
    ],
)
@pytest.mark.parametrize("trace", [0, 1])
def test_what_is_not_declared_does_not_compile(tmp_path, cache, line, words, trace):
    text = TRACED.replace("x[threadIdx.x] += 1.0f;", line)
    with pytest.raises(BuildError, match=r"(kernels/tiny/tiny\.cu|attr/trace\.cuh)\(\d+\)") as error:
        build(tiny(tmp_path, text), {"TRACE": trace}, cache=cache)
    assert words in str(error.value)
    assert str(tmp_path) not in str(error.value)


def test_an_error_names_the_line_of_the_users_own_file(tmp_path, cache):
    text = TRACED.replace("+= 1.0f", "+= nonsense")
    number = text.splitlines().index("  x[threadIdx.x] += nonsense;") + 1
    with pytest.raises(BuildError, match=rf"kernels/tiny/tiny\.cu\({number}\).*\n?.*nonsense"):
        build(tiny(tmp_path, text), {}, cache=cache)


def test_illegal_flags_are_refused_before_anything_is_compiled(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(building, "_nvrtc", lambda wanted: pytest.fail("compiled"))
    with pytest.raises(InputError, match="flag TRACE = 3"):
        build(tiny(tmp_path), {"TRACE": 3}, cache=cache)
    with pytest.raises(InputError, match="no flag WROK"):
        build(tiny(tmp_path), {"WROK": True}, cache=cache)
    kernel = tiny(tmp_path, illegal=lambda flags: None if flags["WORK"] else "nothing to do")
    with pytest.raises(InputError, match="nothing to do"):
        build(kernel, {"WORK": False}, cache=cache)
    with pytest.raises(InputError, match="'hopper'"):
        build(tiny(tmp_path), {}, arch="hopper", cache=cache)


def test_an_architecture_that_the_compiler_does_not_have(tmp_path, cache):
    with pytest.raises(BuildError, match=r"does not compile for sm_77:\n.*gpu-architecture"):
        build(tiny(tmp_path), {}, arch="sm_77", cache=cache)


def test_without_the_wheels_it_says_what_to_install(tmp_path, monkeypatch):
    wanted = target(tiny(tmp_path), {})
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(BuildError, match=r'pip install "attribution\[cuda\]"'):
        compile_target(wanted, tmp_path / "c")
    assert not (tmp_path / "c").exists()


# --- facts that fail or are reported -------------------------------------------------------------


def test_setmaxnreg_that_is_ignored_fails_the_build(tmp_path, cache):
    text = """extern "C" __global__ void tiny(float* x) {
      if (threadIdx.x < 128) { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); x[0] = 1; }
      else { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); x[1] = 2; } }"""
    with pytest.raises(BuildError, match=r"C7508.*__launch_bounds__"):
        build(tiny(tmp_path, text), {}, cache=cache)
    kept = text.replace("void tiny", "void __launch_bounds__(256, 1) tiny")
    assert build(tiny(tmp_path, kept), {}, cache=cache).warnings == ()


def test_a_wait_that_the_assembler_injected_fails_the_build(tmp_path, cache):
    text = """extern "C" __global__ void tiny(float* x) {
      float d[4] = {};
      for (int t = 0; t < 4; t++) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"
          " {%0,%1,%2,%3}, %4, %4, 1, 1, 1;"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(1ull));
        d[0] += x[t];
      }
      x[threadIdx.x] = d[0] + d[1] + d[2] + d[3]; }"""
    with pytest.raises(BuildError, match="C7517"):
        build(tiny(tmp_path, text), {}, cache=cache)


def test_spills_are_reported(tmp_path, cache):
    text = """extern "C" __global__ void __launch_bounds__(1024, 1) tiny(float* x) {
      float a[128];
      for (int i = 0; i < 128; i++) a[i] = x[i * 1024 + threadIdx.x];
      __syncthreads();
      for (int i = 0; i < 128; i++) x[i * 1024 + threadIdx.x] = a[i] * a[127 - i]; }"""
    made = build(tiny(tmp_path, text), {}, cache=cache)
    assert made.entry("tiny").spill_store_bytes > 0
    assert any("tiny spills registers" in warning for warning in made.warnings)
    assert build(tiny(tmp_path), {}, cache=cache).warnings == ()


def test_entries_and_declarations_must_meet(tmp_path, cache):
    text = PLAIN + 'extern "C" __global__ void other(int* x) { x[0] = 1; }\n'
    made = build(tiny(tmp_path, text), {}, cache=cache)
    assert {entry.name for entry in made.entries} == {"tiny", "other"}
    assert made.entry("other").residency("sm_90a") is None
    assert any("other has no declare.Entry" in warning for warning in made.warnings)
    with pytest.raises(BuildError, match="no entry third; there are: "):
        made.entry("third")
    entries = (Entry("gone", lambda flags: 32, lambda flags: 0),)
    with pytest.raises(BuildError, match=r"entry gone is declared .* there are: tiny"):
        build(tiny(tmp_path, entries=entries), {}, cache=cache)


def test_what_no_sm_can_hold_is_refused(tmp_path, cache):
    entries = (Entry("tiny", lambda flags: 128, lambda flags: 227 * 1024 + 1),)
    with pytest.raises(BuildError, match="needs 232449 B of shared memory"):
        build(tiny(tmp_path, entries=entries), {}, cache=cache)


def test_static_and_dynamic_shared_memory_count_together(tmp_path, cache):
    text = 'extern "C" __global__ void tiny(float* x) { __shared__ float s[1024];\n'
    text += "s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[threadIdx.x ^ 1]; }"
    entries = (Entry("tiny", lambda flags: 1024, lambda flags: 100_000),)
    entry = build(tiny(tmp_path, text, entries=entries), {}, cache=cache).entry("tiny")
    assert (entry.smem_static_bytes, entry.smem_bytes, entry.barriers) == (4096, 104_096, 1)


# --- machine code --------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", sources(), ids=lambda kernel: kernel.name)
def test_without_trace_the_machine_code_is_that_of_the_source_without_trace_calls(kernel, cache):
    wanted = target(kernel, {"TRACE": 0})
    bare = replace(wanted, unit=replace(wanted.unit, text=untraced(wanted.unit.text)), identity=f"bare-{kernel.name}")
    assert bare.unit.text != wanted.unit.text
    assert "attr::Lane<role" not in bare.unit.text
    mine = text_sections(compile_target(wanted, cache).cubin)
    theirs = text_sections(compile_target(bare, cache).cubin)
    assert mine
    assert mine == theirs
    traced = target(kernel, {"TRACE": 1})
    assert text_sections(compile_target(traced, cache).cubin) != theirs


def test_a_probe_that_stays_is_noticed(tmp_path, cache):
    text = TRACED.replace("lane.close();", "lane.close(); x[1] = attr::timer_ns();")
    wanted = target(tiny(tmp_path, text), {"TRACE": 0})
    bare_text = untraced(wanted.unit.text).replace("x[1] = attr::timer_ns();", "")
    bare = replace(wanted, unit=replace(wanted.unit, text=bare_text), identity="bare-probe")
    assert text_sections(compile_target(wanted, cache).cubin) != text_sections(compile_target(bare, cache).cubin)


def test_level_2_events_cost_nothing_at_level_1(tmp_path, cache):
    counts = []
    for trace in (0, 1, 2):
        made = build(tiny(tmp_path, TRACED), {"TRACE": trace}, cache=cache)
        counts.append(made.entry("tiny").opcodes["STG"])
    assert counts[0] == 1
    assert counts[2] - counts[1] == 2
    assert counts[1] > counts[0]


def test_a_fold_keeps_the_work_and_only_when_it_is_written(tmp_path, cache):
    text = """
#include "attr/keep.cuh"
extern "C" __global__ void tiny(const float* x, unsigned int* out) {
  float a = x[threadIdx.x];
  for (int i = 0; i < 8; ++i) a = a * x[i] + x[i + 8];
  attr::Fold fold;
  fold.add(a);
  WRITE
}
"""
    kept = build(
        tiny(tmp_path / "1", text.replace("WRITE", "fold.write(out, threadIdx.x);")),
        {},
        cache=cache,
    )
    lost = build(tiny(tmp_path / "2", text.replace("WRITE", "")), {}, cache=cache)
    assert kept.entry("tiny").opcodes["FFMA"] == 8
    assert "FFMA" not in lost.entry("tiny").opcodes


def test_opcodes_are_counted_without_predicates_and_suffixes():
    listing = """
.text.one:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P1 STG.E.EF.128 desc[UR4][R16.64], R4 ;
        /*0020*/              @UP0 UIADD3 UR4, UR4, 0x1, URZ ;
.L_x_1:
        /*0030*/               @P0 QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24, gsb0 ;
.text.two:
        /*0000*/                   EXIT ;
"""
    assert opcode_counts(listing) == {
        "one": {"LDC": 1, "STG": 1, "UIADD3": 1, "QGMMA": 1},
        "two": {"EXIT": 1},
    }


LISTING = """
.text.one:
	//## File "/k/k.cu", line 9
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File "/k/ptx.cuh", line 4 inlined at "/k/load.cuh", line 7
	//## File "/k/load.cuh", line 7 inlined at "/k/k.cu", line 12
	//## File "/k/k.cu", line 12
        /*0010*/                   UTMALDG.2D [UR8], [UR4] ;
        /*0020*/                   UMOV UR4, 0x1 ;
	//## File "/k/load.cuh", line 3 inlined at "/k/math.cuh", line 8
	//## File "/k/math.cuh", line 8 inlined at "/k/k.cu", line 14
	//## File "/k/k.cu", line 14
        /*0030*/                   QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24, gsb0 ;
.text.two:
        /*0000*/                   EXIT ;
"""


def test_opcodes_belong_to_the_role_whose_file_they_were_inlined_into_last():
    assert role_counts(LISTING, ("load", "math")) == {
        "one": {"load": {"UTMALDG": 1, "UMOV": 1}, "math": {"QGMMA": 1}},
    }
    assert opcode_counts(LISTING)["one"] == {"LDC": 1, "UTMALDG": 1, "UMOV": 1, "QGMMA": 1}
    assert role_counts(LISTING, ("sum",)) == {
        "one": {"sum": {"LDC": 1, "UTMALDG": 1, "UMOV": 1, "QGMMA": 1}},
        "two": {"sum": {"EXIT": 1}},
    }


def test_a_real_build_knows_which_role_an_instruction_is_of(tmp_path, cache):
    headers = {
        "load.cuh": "__device__ inline float loaded(const float* x) { return __ldg(x + threadIdx.x); }\n",
        "math.cuh": '#include "load.cuh"\n__device__ inline float twice(float x) { return __fmaf_rn(x, x, 2.0f * x); }\n',
    }
    text = """
#include "load.cuh"
#include "math.cuh"
extern "C" __global__ void tiny(const float* x, float* y) { y[threadIdx.x] = twice(loaded(x)); }
"""
    made = build(tiny(tmp_path, text, headers=headers), {}, cache=cache)
    by_role = made.entry("tiny").opcodes_by_role
    assert by_role["load"]["LDG"] == 1
    assert by_role["math"]["FFMA"] == 1
    assert "LDG" not in by_role["math"]
    assert "STG" not in by_role["load"] | by_role["math"]
    assert cached(target(tiny(tmp_path, text, headers=headers), {}), cache).entry("tiny").opcodes_by_role == by_role


def test_the_hash_of_machine_code_is_that_of_the_code_wherever_its_source_lies(tmp_path, cache):
    one, two = (build(tiny(tmp_path / place, PLAIN), {}, cache=tmp_path / place / "c") for place in ("1", "2"))
    other = build(tiny(tmp_path / "3", PLAIN), {"WORK": False}, cache=cache)
    assert one.code_sha256 == two.code_sha256 != other.code_sha256


def test_opcode_counts_add_up_to_the_size_of_the_code(tmp_path, cache):
    made = build(tiny(tmp_path, TRACED), {"TRACE": 2}, cache=cache)
    code = text_sections(made.cubin)["tiny"]
    assert sum(made.entry("tiny").opcodes.values()) == len(code) / 16


def test_what_is_no_cubin_is_refused():
    with pytest.raises(BuildError, match="no cubin"):
        text_sections(b"text")
    with pytest.raises(BuildError, match="nvdisasm failed"):
        disassemble(b"text")


def test_a_build_touches_no_driver_and_a_hit_loads_no_compiler(tmp_path):
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from tiny import tiny
from attribution.build import build
made = build(tiny(Path({str(tmp_path)!r})), {{}}, cache={str(tmp_path / "c")!r})
maps = Path("/proc/self/maps").read_text()
print(made.cached, "cuda.core" in sys.modules, "libcuda.so" in maps, "libnvrtc" in maps)
"""
    run = [sys.executable, "-c", code]
    done = [subprocess.run(run, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [d.stdout.split() for d in done] == [
        ["False", "True", "False", "True"],
        ["True", "False", "False", "False"],
    ]


def test_facts_on_disk_are_plain_json(tmp_path):
    made = build(tiny(tmp_path), {}, cache=tmp_path / "c")
    stored = json.loads((made.folder / build_cache.FACTS).read_text())
    assert stored["facts"]["identity"] == made.identity
    assert stored["facts"]["compiler"].startswith("nvidia-cuda-nvrtc")
    assert source.expand(tiny(tmp_path), made.flags).files == made.files


def test_the_compilers_own_headers_are_found_and_in_the_key(tmp_path, cache):
    text = "#include <cuda_fp8.h>\n#include <cuda/std/cstdint>\n" + PLAIN
    wanted = target(tiny(tmp_path, text), {})
    assert wanted.identity != target(tiny(tmp_path), {}).identity
    assert compile_target(wanted, cache).entry("tiny").registers > 0
    folders = building._include_folders()
    found = source.system_headers(["cuda_fp8.h", "cuda/std/cstdint"], folders)
    assert {"cuda_fp8.h", "cuda_fp8.hpp", "cuda_fp16.h"} <= set(found)
    assert not any(Path(name).is_absolute() for name in found)


def test_lanes_as_members_parameters_and_temporaries_vanish_too(tmp_path, cache):
    text = """
#include "attr/config.cuh"
#include "attr/trace.cuh"
struct Role {
  float* x;
  attr::Lane<role::math> trace;
  int rows;
  __device__ __forceinline__ void run() {
    for (int row = 0; row < rows; ++row) {
      if (row > 2) trace.template begin<event::score>(row);
      x[row] += 1.0f;
      trace.template end<event::score>(row);
    }
    trace.close();
  }
};
__device__ __forceinline__ void load(float* x, attr::Lane<role::load>& lane) {
  lane.begin<event::arrive>(1);
  x[threadIdx.x] *= 2.0f;
  lane.end<event::arrive>(1);
}
extern "C" __global__ void tiny(float* x, int rows, attr::Trace trace) {
  attr::Lane<role::load> lane(trace, threadIdx.x == 32);
  load(x, lane);
  lane.close();
  Role{x, attr::Lane<role::math>(trace, (threadIdx.x == 0)), rows}.run();
}
"""
    wanted = target(tiny(tmp_path, text), {"TRACE": 0})
    bare = replace(wanted, unit=replace(wanted.unit, text=untraced(wanted.unit.text)), identity="members")
    own = bare.unit.text[bare.unit.text.index("struct Role") :]
    assert not any(word in own for word in ("Lane", ".close", "event::"))
    made = [text_sections(compile_target(t, cache).cubin) for t in (wanted, bare)]
    assert made[0] == made[1]
