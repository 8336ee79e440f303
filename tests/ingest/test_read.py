"""What a file is, is read from its content; what is not a profiler's file is refused with a sentence."""

import gzip
from pathlib import Path

import pytest

from attribution.errors import DataError, InputError
from attribution.ingest.read import kind_of, read
from tests.ingest.test_nsys import session

DATA = Path(__file__).parents[1] / "data" / "ingest"


def test_names_do_not_matter(tmp_path: Path) -> None:
    for source, kind in (("terminal.csv", "ncu-csv"), ("trace.json", "chrome-json")):
        path = tmp_path / "report.ncu-rep"
        path.write_bytes((DATA / source).read_bytes())
        assert read(path).kind == kind == kind_of(path)
        path.write_bytes(gzip.compress((DATA / source).read_bytes()))
        assert read(path).kind == kind
    assert read(session(tmp_path).rename(tmp_path / "x.csv")).kind == "nsys-sqlite"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty, 0 bytes"),
        (b" \n\t ", "white space"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        (b"NVR\0", "truncated"),
        (b"\x00\x01\x02\x03" * 50, "nsys export --type sqlite"),
        (b"PAR1" + bytes(40), "attr show"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"\x1f\x8b\x08", "damaged or truncated gzip"),
        (b"\x1f\x8bnot gzip at all", "damaged or truncated gzip"),
        (gzip.compress(b"NVR\0" + bytes(99), mtime=0), "gunzip"),
        (gzip.compress(b'[{"ph": "X"}]' * 9000, mtime=0)[:-9], "damaged or truncated gzip|truncated|text after"),
        (b"just words\n", "no header line"),
        (b"a__b,c__d\nmsecond,-\n1,2\n", "table made from"),
        (b"==PROF== Connected to process 1\n  f (1, 1, 1)x(1, 1, 1)\n    Section: GPU Speed\n", "--csv"),
        (b"ID,Kernel\n1,2\n", "without 'Kernel Name'"),
        (b'"ID","Kernel Name"\n', "no row under it"),
        (b"\xef\xbb\xbf\xff\xfe\xfa", "not utf-8"),
        (b"SQLite format 3\0", "damaged SQLite"),
        (b"{}", "without a list `traceEvents`"),
        (b"{", "truncated"),
    ],
)
def test_refused_with_a_sentence(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "given.bin"
    path.write_bytes(data)
    with pytest.raises(DataError, match=says) as caught:
        read(path)
    assert "given.bin" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="folder"):
        read(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        read(tmp_path / "none")
    with pytest.raises(DataError, match="cannot be read|does not exist"):
        read("a\0b")


def test_bombs_are_bounded(tmp_path: Path) -> None:
    """40 MB of one event, or of blanks, from 40 kB."""
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b'[{"a": "' + b"x" * 40_000_000, 9, mtime=0))
    with pytest.raises(DataError, match="more than 1,000,000 bytes after decompression"):
        read(bomb, max_bytes=1_000_000)
    bomb.write_bytes(gzip.compress(b" " * 40_000_000, 9, mtime=0))
    with pytest.raises(DataError):
        read(bomb)


def test_one_endless_value_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attribution.ingest.kineto.EventStream.__init__.__defaults__", (1 << 20,))
    path = tmp_path / "t.json"
    path.write_bytes(b"[{" + b'"a": [' * 10 + b"[]," * 20_000_000)
    with pytest.raises(DataError, match="longer than 1,048,576 characters"):
        read(path)


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no option 'decimal'; it has max_bytes, time_unit"):
        read(DATA / "trace.json", decimal=",")
    with pytest.raises(InputError, match="allowed are ncu-rep"):
        read(DATA / "trace.json", kind="perf")
    with pytest.raises(DataError):
        read(DATA / "trace.json", kind="ncu-csv")
    with pytest.raises(InputError, match="max_bytes is 0"):
        read(DATA / "trace.json", kind="chrome-json", max_bytes=0)


def test_endless_entries_beside_the_events_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b"{" + b'"a":1,' * 20_000 + b'"traceEvents":[]}')
    with pytest.raises(DataError, match="more than 10,000 entries beside"):
        read(path)


def test_a_quote_that_never_ends_is_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'"ID","Kernel Name"\n"\n' + b"x\n" * 50_000)
    with pytest.raises(DataError, match="line 2: a quoted cell that begins here never ends"):
        read(path)
