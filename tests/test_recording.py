"""Recordings: whole or not at all, unchanged or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attribution import recording
from attribution.errors import DataError, InputError, MeasureError
from attribution.recording import PROTOCOL_VERSION, Recording, check_alike, merge, open_recording, write_tables

VARIANT = {
    "base": None, "asks": "?", "flags": {}, "knobs": {}, "same": [], "expects": {}, "factors": None, "stage": "main",
}  # fmt: skip
EVENT = {"name": "e", "role": "r", "waits_for": None, "level": 1}
MACHINE: dict[str, Any] = {
    "machine": {"kind": "host", "name": "reference machine", "expects": "host", "sms": 4, "tick_ns": 1.0},
    "kernels": {"x": {"roles": ["r"], "events": [EVENT], "same": {}, "source": ""}},
    "variants": {"x": VARIANT},
    "plan": {
        "kernel": "x", "shape": {"q": 8}, "distribution": "x", "rounds": 1,
        "questions": [{"base": "x", "arms": [{"name": "x", "variant": "x", "flags": {}, "knobs": {"sms": 4}}]}],
    },
}  # fmt: skip


def rows(run: int = 0, failures: int = 1) -> dict[str, pd.DataFrame]:
    limit = pd.DataFrame({"run": [run], "limit": ["segment"], "failures": [failures], "of": [8]})
    return {"capacity": limit}


def runs(count: int) -> pd.DataFrame:
    text = dict.fromkeys(
        ("question", "predecessor", "arm", "kernel", "variant", "distribution", "build", "inputs"),
        "x",
    )
    text |= {"shape": "q=8", "flags": "{}", "knobs": '{"sms": 4}', "status": "ok", "reason": ""}
    return pd.DataFrame([{"run": i, "round": i, "position": 0, "seed": 1, "begin_ns": 5, **text} for i in range(count)])


def test_round_trip_keeps_values_and_types(tmp_path: Path) -> None:
    written = write_tables(tmp_path / "a", "run", rows(failures=7), MACHINE)
    read = open_recording(tmp_path / "a").table("capacity")
    assert read["failures"].tolist() == [7]
    assert read.dtypes.astype(str).to_dict()["run"] == "int32"
    assert written.manifest["machine"]["sms"] == 4


def test_a_table_that_was_not_recorded_is_empty_with_its_columns(tmp_path: Path) -> None:
    recorded = write_tables(tmp_path / "a", "run", rows(), MACHINE)
    assert list(recorded.table("times").columns)[:2] == ["run", "scope"]
    assert len(recorded.table("times")) == 0
    with pytest.raises(DataError, match="no table 'tims'"):
        recorded.table("tims")


@pytest.mark.parametrize("file", ["capacity.parquet", "manifest.json"])
def test_one_changed_byte_is_noticed(tmp_path: Path, file: str) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    target = tmp_path / "a" / file
    content = bytearray(target.read_bytes())
    where = content.index(b'"sms": 4') + 7 if file == "manifest.json" else len(content) // 2
    content[where] ^= 1
    target.write_bytes(content)
    with pytest.raises(DataError, match=f"{file}.* was changed"):
        open_recording(tmp_path / "a").verify()


def test_a_lost_table_is_noticed(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    (tmp_path / "a" / "capacity.parquet").unlink()
    with pytest.raises(DataError, match="is missing"):
        open_recording(tmp_path / "a").verify()


def test_a_damaged_manifest_is_a_sentence(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    for content in ("", "{", "[]", "null", '{"schema": 1}'):
        (tmp_path / "a" / "manifest.json").write_text(content)
        with pytest.raises(DataError, match="is damaged"):
            open_recording(tmp_path / "a")


def test_a_later_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(recording, "SCHEMA_VERSION", 2)
        write_tables(tmp_path / "a", "run", rows(), MACHINE)
    with pytest.raises(DataError, match="has schema 2; this version reads 1"):
        open_recording(tmp_path / "a")


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(failures=1), MACHINE)
    with pytest.raises(InputError, match="never overwritten"):
        write_tables(tmp_path / "a", "run", rows(failures=2), MACHINE)
    write_tables(tmp_path / "a", "run", rows(failures=2), MACHINE, overwrite=True)
    assert open_recording(tmp_path / "a").table("capacity")["failures"].tolist() == [2]
    with pytest.raises(InputError, match="lies inside the recording .*a, which"):
        write_tables(tmp_path / "a" / "b" / "c", "run", rows(), MACHINE)
    (tmp_path / "home").mkdir()
    with pytest.raises(InputError, match="not a recording"):
        write_tables(tmp_path / "home", "run", rows(), MACHINE, overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "home"]


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> dict[str, object]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording, "write_parquet", full)
    with pytest.raises(MeasureError, match="No space left"):
        write_tables(tmp_path / "a", "run", rows(), MACHINE)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(MeasureError, match="cannot write"):
        write_tables(tmp_path / "file" / "a", "run", rows(), MACHINE)


def test_undeclared_missing_and_null_columns_are_refused(tmp_path: Path) -> None:
    good = rows()["capacity"]
    for bad, why in [
        (good.assign(extra=1), "not declared"),
        (good.drop(columns="of"), "missing"),
        (good.assign(limit=None), "nulls"),
        (good.assign(run="x"), "is not int32"),
        (good.assign(run=2**40), "fit|int32"),
        (good.assign(run=1.5), "fit|int32"),
    ]:
        with pytest.raises(DataError, match=why):
            write_tables(tmp_path / "a", "run", {"capacity": bad}, MACHINE)
    assert list(tmp_path.iterdir()) == []


def test_unlike_recordings_do_not_merge_and_both_values_are_named(tmp_path: Path) -> None:
    tables = {"runs": runs(2), **rows()}
    a = write_tables(tmp_path / "a", "run", tables, MACHINE)
    other = {**MACHINE, "machine": {**MACHINE["machine"], "sms": [4, 132]}}
    b = write_tables(tmp_path / "b", "run", tables, other)
    with pytest.raises(DataError, match=r"machine.sms is 4 and \[4, 132\]"):
        merge([a, b], tmp_path / "c")
    both = merge([a, a], tmp_path / "c")
    assert both.table("runs")["run"].tolist() == [0, 1, 2, 3]
    assert both.table("runs")["round"].tolist() == [0, 1, 2, 3]
    assert both.table("capacity")["run"].tolist() == [0, 2]


def test_recordings_of_two_protocols_are_unlike_whatever_scopes_they_have(tmp_path: Path) -> None:
    """Protocol 3 moved the memory of all arms: what was measured before it carries a bias that later times have not."""

    def made(name: str, protocol: int, *scopes: str) -> Recording:
        extra = {**MACHINE, "protocol": protocol, "measuring": {"scopes": list(scopes)}}
        return write_tables(tmp_path / name, "run", {"runs": runs(2), **rows()}, extra)

    before, after = made("before", 2, "event", "graph"), made("after", PROTOCOL_VERSION, "graph", "ncu")
    for number, one in enumerate((after, made("with", 3, "graph", "cupti"), made("old", 1, "graph"))):
        with pytest.raises(DataError, match=r"unlike: protocol is 2 and [134]; compare"):
            check_alike(before, one)
        with pytest.raises(DataError, match="unlike: protocol"):
            merge([one, before], tmp_path / f"mixed{number}")
    check_alike(made("other", 3, "cupti"), made("like", 3, "cupti"))
    both = merge([before, made("again", 2, "graph")], tmp_path / "both")
    assert both.manifest["protocol"] == 2  # what voids the older way of measuring voids them merged


def test_no_pickle_in_what_a_recording_holds(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    assert {p.suffix for p in (tmp_path / "a").iterdir()} == {".json", ".parquet"}
    json.loads((tmp_path / "a" / "manifest.json").read_text())


def test_the_old_recording_is_back_when_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tables(tmp_path / "a", "run", rows(failures=1), MACHINE)
    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if target == tmp_path / "a" and (self / "manifest.json").exists() and ".old." not in str(self):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", full)
        with pytest.raises(MeasureError, match="No space left"):
            write_tables(tmp_path / "a", "run", rows(failures=2), MACHINE, overwrite=True)
    assert open_recording(tmp_path / "a").table("capacity")["failures"].tolist() == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_kill_between_the_two_renames_is_said_where_the_old_one_is(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    (tmp_path / ".a.old.x").mkdir()
    (tmp_path / "a").rename(tmp_path / ".a.old.x" / "a")
    with pytest.raises(InputError, match=r"being replaced.*\.a\.old\.x/a: move it back"):
        open_recording(tmp_path / "a")


@pytest.mark.parametrize("how", ["folder", "loop"])
def test_a_table_that_is_no_file_is_a_sentence(tmp_path: Path, how: str) -> None:
    recorded = write_tables(tmp_path / "a", "run", rows(), MACHINE)
    file = tmp_path / "a" / "capacity.parquet"
    file.unlink()
    if how == "folder":
        file.mkdir()
    else:
        file.symlink_to(file)
    with pytest.raises(DataError, match=r"capacity\.parquet cannot be read"):
        recorded.table("capacity")


def rewritten(path: Path, manifest: Any) -> None:
    """Write another manifest whose hash is right."""
    stated = {**manifest, "manifest_sha256": recording._manifest_hash(manifest)}
    (path / "manifest.json").write_text(json.dumps(stated))


def changed(manifest: Any, key: str, value: Any) -> Any:
    """A copy with the value at `a/b/0` replaced, or left out when `value` is ...."""
    copy = json.loads(json.dumps(manifest))
    *way, last = key.split("/")
    place = copy
    for step in way:
        place = place[int(step) if isinstance(place, list) else step]
    if value is ...:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return copy


def every_key(value: Any, way: str = "") -> list[str]:
    """All keys of a manifest that reading needs, as `changed` takes them."""
    out = []
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        key = f"{way}/{name}" if way else str(name)
        out += [key, *(every_key(inner, key) if isinstance(inner, dict | list) else [])]
    return out


def test_a_manifest_without_any_one_key_or_with_null_there_is_refused(tmp_path: Path) -> None:
    manifest = dict(write_tables(tmp_path / "a", "run", rows(), MACHINE).manifest)
    nullable = ("base", "factors", "waits_for")
    tried = 0
    for key in every_key(manifest):
        losses = [None] if key.split("/")[-1].isdigit() or key in ("tables/capacity",) else [None, ...]
        for value in losses:
            last = key.split("/")[-1]
            if value is None and last in nullable and not key.startswith("plan"):
                continue
            rewritten(tmp_path / "a", changed(manifest, key, value))
            if value is ... and "knobs/" in key:
                continue
            with pytest.raises(DataError, match=r"manifest\.json"):
                open_recording(tmp_path / "a")
            tried += 1
    assert tried > 60
    rewritten(tmp_path / "a", manifest)
    open_recording(tmp_path / "a").verify()


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("schema", True, r"schema is true; allowed is an integer"),
        ("protocol", 99, rf"protocol is 99; this version knows 1 to {PROTOCOL_VERSION}"),
        ("protocol", 0, r"protocol is 0"),
        ("kind", "other", r'kind is "other"; allowed is run or ingest'),
        ("machine/tick_ns", "abc", r'machine.tick_ns is "abc"; allowed is a finite number above 0'),
        ("machine/tick_ns", -1.0, r"machine.tick_ns is -1.0"),
        ("machine/tick_ns", float("nan"), r"machine.tick_ns is NaN"),
        ("machine/tick_ns", 10**400, r"machine.tick_ns is 1000"),
        ("machine/sms", 0, r"machine.sms is 0"),
        ("machine/sms", [], r"machine.sms is \[\]"),
        ("machine/kind", "tpu", r"machine.kind"),
        ("plan/questions", [], r"plan.questions is \[\]; allowed is at least 1"),
        ("plan/questions/0/base", "y", r"names 'y', which is not among variants: x"),
        ("plan/questions/0/arms/0/variant", "y", r"names 'y', which is not among variants: x"),
        ("plan/kernel", "y", r"plan.kernel names 'y', which is not among kernels: x"),
        ("kernels/x/events/0/role", "y", r"names 'y', which is not among its roles: r"),
        ("kernels/x/events/0/level", "1", r"kernels.x.events\[0\].level is \"1\""),
        ("variants/x/expects", {"host": {"time_ratio": [1]}}, r"expects.host.time_ratio is \[1\]; allowed is two"),
        ("variants/x/expects", {"host": {"time_ratio": [2, 1]}}, r"expects.host.time_ratio is \[2, 1\]"),
        ("machine/name", "H200\x1b[2K", r"machine.name is .*u001b.*text without control characters"),
        ("variants/x/asks", "why\u202e?", r"variants.x.asks is .*202e"),
        ("measuring", {"skipped": [{"reason": "\x07"}]}, r"measuring.skipped\[0\].reason"),
        ("variants/x\x1b", {}, r"a key of variants"),
        ("tables/capacity/sha256", "x", r"tables.capacity.sha256"),
        ("tables/capacity/rows", -1, r"tables.capacity.rows is -1"),
        ("tables/..", {"rows": 1, "sha256": "0" * 64}, r"'..', which is no table"),
    ],
)
def test_an_implausible_value_of_a_manifest_is_named(tmp_path: Path, key: str, value: Any, sentence: str) -> None:
    manifest = write_tables(tmp_path / "a", "run", rows(), MACHINE).manifest
    rewritten(tmp_path / "a", changed(manifest, key, value))
    with pytest.raises(DataError, match=sentence):
        open_recording(tmp_path / "a")


def test_a_gpu_has_one_number_of_sms(tmp_path: Path) -> None:
    manifest = write_tables(tmp_path / "a", "run", rows(), MACHINE).manifest
    for kind, fine in (("host", True), ("cuda", False)):
        rewritten(tmp_path / "a", {**manifest, "machine": {**manifest["machine"], "kind": kind, "sms": [4, 8]}})
        if fine:
            open_recording(tmp_path / "a")
        else:
            with pytest.raises(DataError, match=r"machine.sms is \[4, 8\]; allowed is an integer"):
                open_recording(tmp_path / "a")


def test_deep_json_is_a_sentence(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    (tmp_path / "a" / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="is damaged: RecursionError"):
        open_recording(tmp_path / "a")


def timed(**changes: Any) -> pd.DataFrame:
    row = {"run": 0, "scope": "host-virtual", "stage": "main", "cache": "none", "clock": "none", "sample": 0}
    return pd.DataFrame([{**row, "time_ns": 5.0, "clock_mhz": 1000.0, "flags": "", **changes}])


@pytest.mark.parametrize("ns", [float("inf"), float("nan"), 1e308, 0.0, -5.0, 1e-300])
def test_a_time_that_cannot_be_is_refused(tmp_path: Path, ns: float) -> None:
    recorded = write_tables(tmp_path / "a", "run", {"runs": runs(1), "times": timed(time_ns=ns)}, MACHINE)
    with pytest.raises(DataError, match=r"times: run 0, stage main.*time_ns is.*allowed is 0.001 to 1e\+15"):
        recorded.table("times")


def test_times_of_a_run_that_is_not_there_are_refused_and_a_run_without_times_is_not(tmp_path: Path) -> None:
    good = {"runs": runs(2), "times": timed(time_ns=0.5)}
    assert len(write_tables(tmp_path / "a", "run", good, MACHINE).table("times")) == 1
    bad = write_tables(tmp_path / "b", "run", {"runs": runs(2), "times": timed(run=2)}, MACHINE)
    with pytest.raises(DataError, match="1 rows are of no run in table runs, the first of run 2"):
        bad.table("times")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"question": "y"}, r"run 0: arm 'x' of question 'y' is not in the manifest's plan"),
        ({"arm": "y"}, r"arm 'y' of question 'x' is not in"),
        ({"kernel": "y"}, r"kernel 'y' is not in the manifest: x"),
        ({"status": "great"}, r"status 'great'; allowed are ok, failed, skipped"),
        ({"flags": "{"}, r"flags is '\{'; allowed is a JSON object"),
        ({"flags": "[]"}, r"flags is '\[\]'"),
        ({"knobs": '{"sms": 5}'}, r"knob sms is 5 and the manifest's machine.sms is 4"),
        ({"knobs": "{}"}, r"knob sms is None"),
        ({"shape": "q=many"}, r"shape is 'q=many'"),
        ({"run": -1}, r"run -1 is negative or there twice"),
        ({"run": 1}, r"run 1 is negative or there twice"),
    ],
)
def test_a_run_that_was_not_planned_or_cannot_be_read_is_named(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    two = runs(2)
    two.loc[0, list(changes)] = list(changes.values())
    with pytest.raises(DataError, match=sentence):
        write_tables(tmp_path / "a", "run", {"runs": two}, MACHINE).table("runs")


def test_a_measured_recording_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="table runs is empty"):
        write_tables(tmp_path / "a", "run", rows(), MACHINE).table("runs")
    with pytest.raises(DataError, match="table runs is empty"):
        write_tables(tmp_path / "b", "run", {"times": timed()}, MACHINE).table("times")


def test_a_time_that_is_there_twice_is_named(tmp_path: Path) -> None:
    good = timed()
    for name, other in {"rows": timed(time_ns=7.0), "sample": timed(sample=1), "scope": timed(scope="cpu")}.items():
        both = {"runs": runs(1), "times": pd.concat([good, other])}
        recorded = write_tables(tmp_path / name, "run", both, MACHINE)
        if name != "rows":
            assert len(recorded.table("times")) == 2
            continue
        with pytest.raises(
            DataError, match=r"times: question x, arm x.*round 0.*sample 0 is there twice \(1 such rows\)"
        ):
            recorded.table("times")


def test_two_runs_of_one_place_with_the_same_sample_are_named(tmp_path: Path) -> None:
    """Under another number, too, the rounds of a recording would count twice."""
    both = {"runs": runs(2).assign(round=0), "times": pd.concat([timed(), timed(run=1)])}
    with pytest.raises(DataError, match="sample 0 is there twice"):
        write_tables(tmp_path / "a", "run", both, MACHINE).table("times")


def test_what_was_counted_is_there_once(tmp_path: Path) -> None:
    limit = rows()["capacity"]
    recorded = write_tables(tmp_path / "a", "run", {"capacity": pd.concat([limit, limit])}, MACHINE)
    with pytest.raises(DataError, match="table capacity: run 0, limit segment is there twice"):
        recorded.table("capacity")


def test_a_path_may_be_a_text(tmp_path: Path) -> None:
    write_tables(tmp_path / "a", "run", rows(), MACHINE)
    assert open_recording(str(tmp_path / "a")) is open_recording(tmp_path / "a")


def test_no_thread_of_arrow_calls_into_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ended while one did so was aborted: what is read is memory, and not a Python file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = write_tables(tmp_path / "a", "run", {"runs": runs(2), **rows()}, MACHINE)
    honest, given = pq.read_table, []
    monkeypatch.setattr(pq, "read_table", lambda source: given.append(source) or honest(source))
    assert len(open_recording(made.path).table("runs")) == 2
    assert [type(one) for one in given] == [pa.BufferReader]
