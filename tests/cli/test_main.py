"""The command line as its user meets it: what it prints, what it refuses, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attribution.cli.output import fitted
from attribution.recording import open_recording, write_tables

SMALL = ("--shape", "q=6,n=2048", "--flag", "K=512,SEGMENT_CAPACITY=184", "--knob", "sms=2")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`attr run` as a process of its own, with the smallest sizes."""
    path = tmp_path_factory.mktemp("cli") / "rec"
    command = [
        sys.executable,
        "-m",
        "attribution",
        "run",
        "--variant",
        "math_only",
        *SMALL,
        "--rounds",
        "6",
    ]
    done = subprocess.run([*command, "--out", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "math_only" in done.stdout
    assert "virtual" in done.stdout
    assert "says nothing about a GPU's speed" in done.stdout
    assert f"recording: {path}" in done.stdout
    return path


def test_run_leaves_a_recording_and_json_rows_are_the_table(recorded: Path, attr) -> None:
    shown = attr("show", recorded, "--json")
    assert shown.code == 0
    answers = {a["arm"]: a for a in json.loads(shown.out)["answers"]}
    assert set(answers) == {"null", "math_only", "score_only"}
    assert answers["math_only"]["equal_work"] == "equal"
    assert answers["math_only"]["time_ratio"] < 1
    table = attr("show", recorded).out
    assert f"{answers['math_only']['time_ratio']:.4f}" in table


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "--variant", "math_onyl"], "no variant math_onyl; nearest: math_only"),
        (["run", "--variant", "math_only", "--shape", "n=1024"], "n = 1024 is below K = 2048"),
        (["run", "--variant", "math_only", "--shape", "n=8200"], "a multiple of 128"),
        (["run", "--variant", "math_only", "--shape", "q=0"], "q = 0: allowed is an integer >= 1"),
        (["run", "--variant", "math_only", "--shape", "q"], "must be NAME=VALUE"),
        (["run", "--variant", "math_only", "--shape", "q=x"], "must be an integer"),
        (
            ["run", "--variant", "math_only", "--knob", "ctas=0"],
            "ctas = 0: allowed is an integer >= 1",
        ),
        (["run", "--variant", "math_only", "--flag", "SEGMENT_CAPACITY=100"], "is below K = 2048"),
        (["run", "--variant", "math_only", "--flag", "SPIL=true"], "no such flag; nearest: SPILL"),
        (["run", "--variant", "math_only", "--flag", "SPILL=maybe"], "allowed are true and false"),
        (["run", "--variant", "math_only", "--flag", "BLOCK_Q=3"], "allowed are 1, 2, 4"),
        (["run", "--variant", "math_only", "--rounds", "0"], "--rounds 0: allowed is"),
        (["run", "--variant", "math_only", "--resume"], "--resume needs --out"),
        (["run", "--variant", "math_only", "--distribution", "norm"], "nearest: normal"),
        (["run", "--variant", "math_only", "--kernel", "index_topc"], "nearest: index_topk"),
        (["run", "--variant", "math_only", "--root", "/nowhere"], "has no folder kernels/"),
        (
            ["run", "--variant", "math_only", "--knob", "sms=99999999999"],
            "sms = 99999999999: allowed is an integer >= 1 and <= 65536",
        ),
        (
            ["run", "--kernel", "hello", "--variant", "scalar", "--flag", "VECTOR=1"],
            "variant scalar equals its base vector",
        ),
        (
            ["run", "--kernel", "hello", "--variant", "scalar", "--shape", "rows=99999999999999"],
            "rows = 99999999999999: allowed is",
        ),
        (["run", "--variant", "math_only", "--seed", "99999999999999999999999"], "seed"),
        (["predict", "--q", "99999999999999999999", "--sms", "10"], "allowed is an integer >= 1 and <= 1048576"),
        (
            ["predict", "--q", "8", "--sms", "8", "--resident", "99999999999999"],
            "allowed is an integer >= 1 and <= 1048576",
        ),
        (["show", "."], "is not a recording"),
        (["show", ""], "is not a recording"),
        (
            ["explain", "inst_executed", __file__],
            f"of a profiler's file `attr ingest {__file__} --out NAME` makes one\n",
        ),
        (["list", ""], "no kernel ''"),
        (["predict", "--q", "0", "--sms", "4"], "--q 0: allowed is an integer >= 1"),
        (
            ["predict", "--q", "4", "--sms", "4", "--ctas", "-1"],
            "--ctas -1: allowed is an integer >= 1",
        ),
        (["show", "/nowhere"], "is not a recording"),
        (["list", "indx_topk"], "nearest: index_topk"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(attr, arguments: list[str], sentence: str) -> None:
    done = attr(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(("attr: ", "Usage: "))
    assert sentence in done.err


def test_a_folder_that_exists_is_left_alone(attr, recorded: Path) -> None:
    before = {p.name: p.read_bytes() for p in recorded.iterdir()}
    done = attr("run", "--variant", "math_only", *SMALL, "--out", recorded)
    assert done.code == 2
    assert "never overwritten" in done.err
    assert {p.name: p.read_bytes() for p in recorded.iterdir()} == before


def test_predict_reproduces_the_published_tail(attr) -> None:
    assert "22 SMs with 8 rows" in attr("predict", "--q", 512, "--block-q", 2, "--ctas", 156, "--sms", 78).out
    assert "44 SMs with 7 rows" in attr("predict", "--q", 512, "--block-q", 1, "--ctas", 156, "--sms", 78).out
    rows = json.loads(attr("predict", "--q", 512, "--block-q", 2, "--sms", 78, "--json").out)
    assert rows["busiest_sm_rows"] == 8


def test_list_shows_every_kernel_and_its_variants(attr) -> None:
    rows = {r["kernel"]: r for r in json.loads(attr("list", "--json").out)}
    assert {"hello", "index_topk"} <= set(rows)
    ladder = {"load_only", "math_only", "score_only", "filter_only", "select_only", "full"}
    assert ladder <= set(rows["index_topk"]["variants"])
    one = json.loads(attr("list", "index_topk", "--json").out)
    asks = {v["variant"]: v["asks"] for v in one["variants"]}
    assert asks["math_only"] == "How much time is exposed outside the matrix work: epilogue and selection?"
    assert {v["variant"]: v["beside"] for v in one["variants"] if v["beside"]} == {"math_only": ["score_only"]}
    sizes = {a["axis"]: (a["default"], a["on_a_gpu"]) for a in one["axes"]}
    assert (sizes["q"], sizes["n"], sizes["sms"]) == (("144", 4096), ("8192", 131072), ("16", None))
    assert "math_only" in attr("list", "index_topk").out


def test_compare_says_whether_two_recordings_agree(attr, recorded: Path, tmp_path: Path) -> None:
    first = open_recording(recorded)
    tables = {name: first.table(name) for name in first.table_names}
    later = {**tables, "runs": tables["runs"].assign(begin_ns=tables["runs"]["begin_ns"] + 10**9)}
    facts = {k: v for k, v in first.manifest.items() if k not in ("schema", "protocol", "kind", "tables")}
    write_tables(tmp_path / "later", "run", later, facts)
    rows = json.loads(attr("compare", recorded, tmp_path / "later", "--json").out)
    assert {r["arm"]: r["agree"] for r in rows} == dict.fromkeys(("null", "math_only", "score_only"), "yes")
    done = attr("compare", recorded, recorded)
    assert (done.code, "again: its rounds would count twice" in done.err) == (2, True)


def test_compare_refuses_unlike_machines(attr, recorded: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    smaller = [a.replace("sms=2", "sms=3") for a in SMALL]
    assert attr("run", "--variant", "math_only", *smaller, "--rounds", "2", "--out", other).code == 0
    done = attr("compare", recorded, other)
    assert done.code == 1
    assert "machine.sms is 2 and 3" in done.err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (["--flag", "SPILL=false"], "flag SPILL is True and False"),
        (["--knob", "ctas=1"], "knob ctas is 2 and 1"),
        (["--seed", "2"], "inputs is "),
    ],
    ids=["flag", "knob", "inputs"],
)
def test_compare_refuses_arms_that_are_not_the_same(
    attr, recorded: Path, tmp_path: Path, change: list[str], sentence: str
) -> None:
    other = tmp_path / "other"
    assert attr("run", "--variant", "math_only", *SMALL, *change, "--rounds", "2", "--out", other).code == 0
    done = attr("compare", recorded, other)
    assert (done.code, sentence in done.err) == (1, True), done.err


@pytest.mark.parametrize(
    ("part", "key", "value", "sentence"),
    [
        ("machine", "compiler", "nvrtc 13.5", "machine.compiler is null and"),
        ("machine", "driver", "590", "machine.driver is null and"),
        ("measuring", "rest", 1, "measuring.rest is null and 1"),
    ],
)
def test_compare_refuses_another_compiler_driver_or_rest(
    attr, recorded: Path, tmp_path: Path, part: str, key: str, value: object, sentence: str
) -> None:
    first = open_recording(recorded)
    facts = {k: v for k, v in first.manifest.items() if k not in ("schema", "protocol", "kind", "tables")}
    facts[part] = {**facts.get(part, {}), key: value}
    write_tables(tmp_path / "other", "run", {name: first.table(name) for name in first.table_names}, facts)
    done = attr("compare", recorded, tmp_path / "other")
    assert (done.code, sentence in done.err) == (1, True), done.err


def test_compare_refuses_other_machine_code_of_equal_flags(attr, recorded: Path, tmp_path: Path) -> None:
    first = open_recording(recorded)
    tables = {name: first.table(name) for name in first.table_names}
    later = {**tables, "runs": tables["runs"].assign(build=["y" * 64] * len(tables["runs"]))}
    facts = {k: v for k, v in first.manifest.items() if k not in ("schema", "protocol", "kind", "tables")}
    write_tables(tmp_path / "other", "run", later, facts)
    done = attr("compare", recorded, tmp_path / "other")
    assert (done.code, f"build is none and {'y' * 16}; " in done.err) == (1, True), done.err


def test_help_and_version_need_nothing_heavy(attr) -> None:
    done = attr("--help")
    assert done.code == 0
    for verb in ("new", "list", "build", "run", "predict", "show", "compare", "export"):
        assert f"  {verb} " in done.out
    assert attr("--version").out.startswith("attribution ")
    assert attr().code == 2 or "Usage" in attr().out


def test_an_unknown_verb_and_option_exit_2(attr) -> None:
    assert attr("atribute").code == 2
    assert attr("run").code == 2
    assert attr("run", "--variannt", "x").code == 2


@pytest.mark.parametrize(
    ("redirection", "sentence"),
    [
        (">&-", "attr: standard output is closed"),
        (">/dev/full", "attr: No space left on device: standard output"),
    ],
)
@pytest.mark.parametrize("verb", ["list", "list --json", "predict --q 8 --sms 2"])
def test_an_output_that_cannot_be_written_is_one_sentence(verb: str, redirection: str, sentence: str) -> None:
    """Short outputs too, which would fail only while the interpreter ends."""
    command = f"{sys.executable} -m attribution {verb} {redirection}"
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, env=buffered)
    assert done.returncode == 1
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1


def test_a_measurement_that_is_stopped_says_how_to_go_on(attr, tmp_path: Path, monkeypatch) -> None:
    from attribution.measure.job import Job

    def stop(self: Job, *_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "execute", stop)
    out = tmp_path / "rec"
    done = attr("run", "--variant", "math_only", *SMALL, "--rounds", "1", "--out", out)
    assert done.code == 130
    assert f"attr: stopped; finished runs are kept: go on with --out {out} --resume" in done.err
    assert (tmp_path / "rec.partial" / "plan.json").is_file()


def test_a_name_that_is_too_long_is_one_sentence(attr, tmp_path: Path) -> None:
    done = attr("run", "--variant", "math_only", *SMALL, "--rounds", "1", "--out", tmp_path / ("x" * 250), "--json")
    assert done.code == 1
    assert done.err.startswith("attr: File name too long")
    assert list(tmp_path.iterdir()) == []


def test_a_figure_makes_no_folder(attr, recorded: Path, tmp_path: Path) -> None:
    done = attr("show", recorded, "--plot", tmp_path / "no" / "x.svg")
    assert (done.code, done.out) == (1, "")
    assert "cannot write" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_of_no_width_still_gets_words(attr, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    words = attr("list").out.split()
    assert {"hello", "matrix", "unfused_deep_gemm_topk,"} <= set(words)


def test_a_verb_that_takes_long_says_so_on_a_terminal(attr, recorded: Path, monkeypatch) -> None:
    """The wait is set to nothing, so that the remark comes before the answer does."""
    import threading

    from attribution.cli import options

    timer = threading.Timer

    def at_once(wait_s: float, action) -> threading.Timer:
        made = timer(0, action)
        monkeypatch.setattr(made, "start", made.run)
        return made

    monkeypatch.setattr(threading, "Timer", at_once)
    assert attr("show", recorded).err == ""
    monkeypatch.setattr(options.sys.stderr, "isatty", lambda: True, raising=False)
    assert f"computing what {recorded} says" in attr("show", recorded).err


def test_a_table_breaks_no_name_where_there_is_room() -> None:
    assert fitted([24, 40, 8], [24, 10, 8], 60) == [24, 28, 8]
    assert fitted([24, 10], [24, 10], 60) == [None, None], "nothing to fit"
    assert fitted([24, 40], [24, 30], 50) == [None, None], "no room for all words"
    assert fitted([4, 40, 40], [4, 10, 30], 64) == [4, 30, 30]


def test_points_and_bases_of_a_sweep_are_told_apart(attr) -> None:
    claims = attr("claim", "h200-index-topk-designs").out.splitlines()
    assert "point" in claims[0]
    rows = [line for line in claims if line.startswith("h200-index-topk-designs")]
    assert len(set(rows)) == len(rows)
    assert {word for line in rows for word in line.split() if word.startswith("q=")} >= {
        "q=64,n=131072",
        "q=4096,n=8192",
    }
    assert "base" in "".join(attr("noise", "h200-index-topk-designs").out.splitlines()[:2])
    one_base = attr("ladder", "h200-index-topk-designs")
    assert "other bases, for --base: h20_block_q_2" in one_base.err
