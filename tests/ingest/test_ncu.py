"""The container of a report: whole or refused; and the project's own report of `hello`, where it is delivered."""

import builtins
import struct
from pathlib import Path

import pytest

from attribution.errors import DataError
from attribution.ingest import ncu
from attribution.ingest.ncu_container import announced_results

OWN = sorted((Path(__file__).parents[2] / "traces").glob("**/*.ncu-rep"))


def block(results: int, *messages: bytes) -> bytes:
    payload = b"".join(struct.pack("<I", len(m)) + m for m in messages)
    size = len(payload)
    varint = b""
    while size > 127:
        varint, size = varint + bytes([size & 127 | 128]), size >> 7
    header = bytes([0x08, 0, 0x10, results, 0x1A, 2, 9, 9, 0x28]) + varint + bytes([size])
    return struct.pack("<I", len(header)) + header + payload


WHOLE = b"NVR\0" + struct.pack("<I", 2) + b"\x08\x07" + block(0) + block(2, b"x" * 300, b"y") + block(1, b"")


def _file(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "r.ncu-rep"
    path.write_bytes(data)
    return path


def test_announced_results(tmp_path: Path) -> None:
    assert announced_results(_file(tmp_path, WHOLE)) == 3


def test_every_cut_is_seen(tmp_path: Path) -> None:
    """A cut between two blocks cannot be seen from the container; every other one is."""
    boundaries = {len(WHOLE), len(WHOLE) - len(block(1, b"")), 10, 10 + len(block(0))}
    for cut in range(len(WHOLE)):
        if cut in boundaries:
            continue
        with pytest.raises(DataError):
            announced_results(_file(tmp_path, WHOLE[:cut]))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"NVR\0" + b"\xff" * 8, "truncated or damaged"),
        (b"NVR\0" + struct.pack("<I", 0) + struct.pack("<I", 2) + b"\x0b\x00", "unknown field type"),
        (b"NVR\0" + struct.pack("<I", 0) + struct.pack("<I", 11) + b"\x28" + b"\xff" * 10, "does not end"),
        (b"NVR\0" + struct.pack("<I", 0) + struct.pack("<I", 2) + b"\x1a\x05", "crosses its end"),
        (b"text", "does not begin with NVR"),
        (b"", "empty"),
    ],
)
def test_damaged_containers(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(DataError, match=says):
        ncu.load(_file(tmp_path, data))


def test_announced_but_unreadable(tmp_path: Path) -> None:
    """The library opens this file without a word and finds nothing in it."""
    with pytest.raises(DataError, match="without a profiled launch|can be read|damaged"):
        ncu.load(_file(tmp_path, WHOLE))


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: object, **kwargs: object) -> object:
        if name == "ncu_report":
            raise ImportError("planted")
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match="pip install ncu-report"):
        ncu.load(_file(tmp_path, WHOLE))


@pytest.mark.parametrize("path", OWN, ids=lambda p: p.name)
def test_own_report(path: Path) -> None:
    """Sum over instructions, over opcodes and the hardware's own count agree."""
    one = ncu.load(path)
    metrics, opcodes, pcs = (one.table(t) for t in ("metrics", "opcodes", "pcs"))
    for launch in one.table("launches")["launch"]:
        total = metrics[(metrics["metric"] == "smsp__inst_executed.sum") & (metrics["launch"] == launch)]["value"]
        mine = opcodes[(opcodes["metric"] == "sass__inst_executed_per_opcode") & (opcodes["launch"] == launch)]
        by_pc = pcs[(pcs["metric"] == "inst_executed") & (pcs["launch"] == launch)]
        seen = [s["value"].sum() for s in (mine, by_pc) if len(s)]
        assert len(total) == 0 or all(s == total.iloc[0] for s in seen)
    assert not one.table("launches")["time_ns"].isna().any()
