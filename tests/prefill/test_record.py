"""A recording of the tiny stack, made here: orders, counts, checks, refusals; and what `attr` makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attribution.claim import answers
from attribution.errors import InputError, MeasureError
from attribution.order import imbalance
from attribution.prefill import indexers
from attribution.prefill import record as record_module
from attribution.prefill.bench import make_bench
from attribution.prefill.record import Bench, measure, record, record_all
from attribution.recording import Recording, open_recording

torch = pytest.importorskip("torch", reason="the prefill stack needs torch")
pytest.importorskip("nvtx", reason="the prefill stack needs nvtx")

ROUNDS = 4


def made_by(bench: Bench, length: int, path: Path, rounds: int = ROUNDS) -> Recording:
    return record(bench, measure(bench, length, rounds, lambda text: None), path, lambda text: None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Recording]:
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("prefill")
    bench = make_bench("tiny", 96, None, "cpu", 1)
    return {n: made_by(bench, n, out / f"tiny-{n}") for n in (32, 96)}


def test_every_arm_runs_in_every_round_in_williams_order(made: dict[int, Recording]) -> None:
    runs = made[96].table("runs").astype({"arm": str})
    names = list(runs["arm"].unique())
    orders = [[names.index(a) for a in here.sort_values("position")["arm"]] for _, here in runs.groupby("round")]
    assert sorted(names) == ["fused", "given", "native", "null"]
    assert (len(orders), imbalance(orders)) == (ROUNDS, "")


def test_calls_and_fallbacks_are_counted(made: dict[int, Recording]) -> None:
    runs = made[96].table("runs").astype({"arm": str}).set_index("run")["arm"]
    counters = made[96].table("counters")
    fell = counters[counters["metric"] == "fell_back_calls"]
    by_arm = fell.groupby([runs.reindex(fell["run"]).to_numpy(), fell["stage"].astype(str)])["value"].max().unstack()
    assert by_arm.loc["fused"].tolist() == [2, 0, 0]
    assert by_arm.drop("fused").to_numpy().sum() == 0


def test_outputs_were_checked_before_and_after(made: dict[int, Recording]) -> None:
    checks = made[96].table("checks")
    assert checks["passed"].all()
    assert set(checks.loc[checks["when"] == "before", "check"]) >= {"unique", "none_missing"}
    assert checks.loc[checks["when"] == "after", "run"].nunique() == 4 * ROUNDS
    assert not answers(made[96])["verdict"].isin(["void"]).any()


def test_a_cpu_is_called_a_cpu(attr: Callable[..., Any], made: dict[int, Recording]) -> None:
    text = attr("show", made[96].path).out
    assert "CPU time of torch on one thread" in text
    assert "irtual" not in text


def test_reconcile_reads_it(attr: Callable[..., Any], made: dict[int, Recording]) -> None:
    done = attr("reconcile", made[32].path, made[96].path, "--rule", "timed", "--json")
    found = json.loads(done.out)
    assert [a["name"] for a in found["accounts"]] == ["tiny-96"]
    assert found["adapter"]["calls"] == 2
    (row,) = found["accounts"]
    terms = sum(row[f"{t}_pct"] for t in ("fallback", "critical_path", "adapter"))
    assert row["estimate_pct"] - terms - row["remainder_pct"] == pytest.approx(row["measured_pct"])
    assert "has no trace of kernels" in attr("reconcile", made[96].path).err


def test_the_verb_measures_and_says_what_comes_next(attr: Callable[..., Any], tmp_path: Path) -> None:
    command = (
        "prefill",
        "--config",
        "tiny",
        "--device",
        "cpu",
        "--length",
        "32",
        "--rounds",
        "1",
        "--out",
        tmp_path / "a",
    )
    done = attr(*command)
    assert done.code == 0, done.err
    assert f"attr reconcile {tmp_path / 'a-32'}" in done.out
    assert open_recording(tmp_path / "a-32").manifest["prefill"]["config"] == "tiny"
    again = attr(*command)
    assert (again.code, "never overwritten unasked" in again.err) == (2, True)
    twice = attr("prefill", "--length", "32", "--length", "32", "--out", tmp_path / "b")
    assert (twice.code, "the same length twice" in twice.err) == (2, True)
    for nameless in ("", ".."):
        done = attr("prefill", "--config", "tiny", "--length", "32", "--out", nameless)
        assert (done.code, "start of a name" in done.err) == (2, True), done.err
    odd = attr("prefill", "--config", "tiny", "--length", "33", "--out", tmp_path / "c")
    assert (odd.code, "multiples of the chunk" in odd.err, list(tmp_path.glob("c*"))) == (2, True, [])


def test_nothing_is_timed_with_a_wrong_indexer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def reversed_bounds(call: Any, top_k: int) -> Any:
        return indexers.scorer("torch_scores")(call, True).topk(top_k, dim=1, largest=False).indices.int()

    monkeypatch.setattr("attribution.prefill.bench.choose_fused", lambda device: ("planted", reversed_bounds))
    bench = make_bench("tiny", 64, None, "cpu", 1)
    with pytest.raises(MeasureError, match="indexer fused is wrong, so nothing was timed"):
        made_by(bench, 64, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_what_was_timed_before_something_failed_is_kept(tmp_path: Path) -> None:
    bench = make_bench("tiny", 64, None, "cpu", 1)
    paths = {n: tmp_path / str(n) for n in (64, 33, 32)}
    with pytest.raises(InputError, match="input of 33 tokens"):
        record_all(bench, paths, 1, lambda step, text: None)
    assert [p.name for p in tmp_path.iterdir()] == ["64"]
    open_recording(paths[64]).verify()


def test_a_profile_that_is_stopped_loses_no_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = record_module.record

    def stopped(bench: Bench, found: Any, path: Path, *rest: Any, profile: bool = True) -> Recording:
        if profile and path.name == "64":
            raise KeyboardInterrupt
        return whole(bench, found, path, *rest, profile=profile)

    monkeypatch.setattr(record_module, "record", stopped)
    paths = {n: tmp_path / str(n) for n in (32, 64, 96)}
    with pytest.raises(KeyboardInterrupt):
        record_all(make_bench("tiny", 96, None, "cpu", 1), paths, 1, lambda step, text: None)
    for path in paths.values():
        open_recording(path).verify()


def test_an_indexer_that_goes_wrong_after_it_was_checked_is_void(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []

    def tires(call: Any, top_k: int) -> Any:
        seen.append(call)
        found = indexers.streamed(call, top_k)
        return found if len(seen) <= 4 else found.roll(1, 0)  # after the checked request each row has another's keys

    monkeypatch.setattr("attribution.prefill.bench.choose_fused", lambda device: ("planted", tires))
    made = made_by(make_bench("tiny", 96, None, "cpu", 1), 96, tmp_path / "x")
    found = answers(made).set_index("arm")
    assert found.loc["fused", "verdict"] == "void"
    checks = made.table("checks")
    failed = checks[~checks["passed"] & (checks["check"] == "first_token_logits")]
    arms = made.table("runs").astype({"arm": str}).set_index("run")["arm"]
    assert arms.reindex(failed["run"]).tolist() == ["fused"] * 4
    assert found.loc["null", "verdict"] != "void"
