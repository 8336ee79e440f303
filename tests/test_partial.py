"""What a measurement under way keeps: killed, resumed, held by one process, published whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_recording import MACHINE, rows

from attribution import partial
from attribution.errors import DataError, InputError
from attribution.partial import PLAN, Partial
from attribution.recording import PROTOCOL_VERSION, open_recording


def test_a_measurement_killed_between_runs_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """A child process is killed by SIGKILL in the middle of writing its third run."""
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
import test_recording as t
from attribution import partial as module
partial = module.Partial(Path({str(tmp_path)!r}) / "a", {{"rounds": 4}}, False)
for run in range(4):
    if run == 2:
        write = module.write_parquet
        module.write_parquet = lambda *a: (write(*a), os.kill(os.getpid(), signal.SIGKILL))
    partial.add([run], t.rows(run, run))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ)
    assert done.returncode == -9, done.stderr
    assert not (tmp_path / "a").exists()
    with pytest.raises(InputError, match="--resume"):
        Partial(tmp_path / "a", {"rounds": 4}, False)
    with pytest.raises(InputError, match="unfinished"):
        open_recording(tmp_path / "a")
    with pytest.raises(DataError, match="rounds was 4 and is now 5"):
        Partial(tmp_path / "a", {"rounds": 5}, True)
    partial = Partial(tmp_path / "a", {"rounds": 4}, True)
    assert partial.done() == {0, 1}
    for run in (2, 3):
        partial.add([run], rows(run, run))
    whole = partial.publish(MACHINE, False)
    assert whole.table("capacity")["failures"].tolist() == [0, 1, 2, 3]
    assert not partial.folder.exists()


def test_a_plan_is_the_same_however_it_is_spelled_and_one_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    Partial(tmp_path / "a", {"rounds": 4, "seed": 1}, False).add([0], rows(0, 0))
    file = tmp_path / "a.partial" / PLAN
    file.write_text(f'{{"seed":1,"protocol":{PROTOCOL_VERSION},"rounds":4}}')
    assert Partial(tmp_path / "a", {"rounds": 4, "seed": 1}, True).done() == {0}
    with pytest.raises(DataError, match="was started with another plan: seed was 1 and is now null"):
        Partial(tmp_path / "a", {"rounds": 4}, True)
    for text in ("", "[1]", '"rounds"', "3"):
        file.write_text(text)
        with pytest.raises(DataError, match="has no plan that can be read"):
            Partial(tmp_path / "a", {"rounds": 4, "seed": 1}, True)
    file.unlink()
    with pytest.raises(DataError, match="has no plan that can be read"):
        Partial(tmp_path / "a", {"rounds": 4, "seed": 1}, True)


def test_what_another_protocol_began_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs would be published as measured the new way."""
    Partial(tmp_path / "a", {"rounds": 4}, False).add([0], rows(0, 0))
    monkeypatch.setattr(partial, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    said = f"protocol was {PROTOCOL_VERSION} and is now {PROTOCOL_VERSION + 1}"
    with pytest.raises(DataError, match=said):
        Partial(tmp_path / "a", {"rounds": 4}, True)


def test_two_processes_do_not_measure_into_one_folder(tmp_path: Path) -> None:
    """The other process holds the folder until it dies, by SIGKILL here; a worker of the holder is let in."""
    code = f"""
import sys, time
from pathlib import Path
from attribution.partial import Partial
partial = Partial(Path({str(tmp_path)!r}) / "a", {{"rounds": 4}}, False)
print("held", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(InputError, match="another process is measuring into .*a.partial: wait"):
                Partial(tmp_path / "a", {"rounds": 4}, True)
            # Whoever follows the other advice, to delete the folder, would ruin what is being measured.
            with pytest.raises(InputError, match="another process is measuring into .*a.partial: wait"):
                Partial(tmp_path / "a", {"rounds": 4}, False)
            assert Partial(tmp_path / "a", {"rounds": 4}, True, lock=False).done() == set()
        finally:
            other.kill()
    mine = Partial(tmp_path / "a", {"rounds": 4}, True)
    with pytest.raises(InputError, match="another process"):
        Partial(tmp_path / "a", {"rounds": 4}, True)
    del mine
    Partial(tmp_path / "a", {"rounds": 4}, True)


@pytest.mark.parametrize("more", [[], ["--resume"], ["--overwrite"]], ids=["plain", "resume", "overwrite"])
def test_attr_run_into_a_folder_that_another_one_measures_into_is_a_sentence(
    attr: Any, tmp_path: Path, more: list[str]
) -> None:
    mine = Partial(tmp_path / "a", {"rounds": 4}, False)
    mine.add([0], rows(0, 0))
    asked = ["--kernel", "hello", "--variant", "scalar", "--machine", "host", "--shape", "rows=8"]
    done = attr("run", *asked, "--out", tmp_path / "a", *more)
    assert done.code == 2
    assert "another process is measuring into" in done.err
    assert mine.done() == {0}
    assert not (tmp_path / "a").exists()


def test_runs_that_were_measured_together_are_kept_together_and_come_out_in_order(tmp_path: Path) -> None:
    partial = Partial(tmp_path / "a", {"rounds": 4}, False)
    both = {"capacity": pd.concat([rows(2, 2)["capacity"], rows(3, 3)["capacity"]])}
    partial.add([2, 3], both)
    partial.add([0], rows(0, 0))
    partial.add([1], {})
    assert partial.done() == {0, 1, 2, 3}
    assert partial.table("times").empty
    whole = partial.publish(MACHINE, False)
    assert whole.table("capacity")["failures"].tolist() == [0, 2, 3]
