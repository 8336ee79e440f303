"""Files damaged in many ways, to find one that makes ingest raise anything but DataError, hang, or eat memory.

    python -m bench.fuzz SECONDS [FILE ...]

In: the test data and any files named.  Out: counts of read and refused; the first failing input is kept and named.
Each try runs in a process of its own with a limit on time and memory: a crash of a library would be found too.
"""

from __future__ import annotations

import contextlib
import random
import resource
import sqlite3
import struct
import sys
import tempfile
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

DATA = Path(__file__).parents[1] / "tests" / "data" / "ingest"
_MEMORY_BYTES = 6 << 30
_LIMIT_S = 60
_TOKENS = (
    b'"',
    b",",
    b"\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b"n/a",
    b"1e999",
    b"NaN",
    b"-1",
    b"\xff\xff\xff\xff",
    b"\0" * 8,
    b"9" * 30,
)


def seeds() -> dict[str, bytes]:
    """Sound files of every kind, small."""
    out = {path.name: path.read_bytes() for path in sorted(DATA.iterdir()) if path.suffix in (".csv", ".json")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "s.sqlite"
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.executescript((DATA / "session.sql").read_text())
        out["session"] = file.read_bytes()
    header = b"\x08\x00\x10\x01\x28\x06"
    out["container"] = b"NVR\0" + struct.pack("<I", 2) + b"\x08\x07" + struct.pack("<I", len(header)) + header
    out["container"] += struct.pack("<I", 2) + b"\x0a\x00"
    return out


def mutate(data: bytes, seed: int, strength: int) -> bytes:
    """The same bytes with `strength` damages: flips, cuts, repeats, tokens."""
    rng = random.Random(seed)
    out = bytearray(data)
    for _ in range(strength):
        at = rng.randrange(len(out) + 1)
        what = rng.randrange(5)
        if what == 0 and at < len(out):
            out[at] = rng.randrange(256)
        elif what == 1:
            out[at:at] = rng.choice(_TOKENS)
        elif what == 2:
            del out[at : at + rng.choice((1, 4, 100))]
        elif what == 3:
            out[at:at] = out[at : at + rng.choice((1, 8, 60))]
        elif rng.random() < 0.1:
            del out[at:]
    return bytes(out)


def _try(path: str, answer: object) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    from attribution.errors import DataError
    from attribution.ingest.read import read

    try:
        read(path)
        said = "read"
    except DataError:
        said = "refused"
    except BaseException as error:
        said = f"FAILED: {type(error).__name__}: {error}"
    answer.put(said)  # type: ignore[attr-defined]


def main(seconds: float, files: list[str]) -> int:
    """Fuzz for so long; the exit code says whether something was found."""
    sound = seeds() | {Path(name).name: Path(name).read_bytes() for name in files}
    context = get_context("forkserver")
    context.set_forkserver_preload(["attribution.ingest.read", "attribution.ingest.ncu", "attribution.ingest.ncu_csv",
                                    "attribution.ingest.nsys", "attribution.ingest.kineto"])  # fmt: skip
    seen: Counter[str] = Counter()
    began, seed = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        seed += 1
        name = sorted(sound)[seed % len(sound)]
        path = Path(tempfile.gettempdir()) / f"attr-fuzz-{seed}"
        path.write_bytes(mutate(sound[name], seed, 2 ** (seed // len(sound) % 6)))
        answer = context.Queue()
        process = context.Process(target=_try, args=(str(path), answer))
        process.start()
        process.join(_LIMIT_S)
        if process.is_alive():
            process.kill()
            said = f"FAILED: no end in {_LIMIT_S} s"
        else:
            said = answer.get() if process.exitcode == 0 else f"FAILED: the process died with {process.exitcode}"
        seen[said.split(":")[0]] += 1
        if said.startswith("FAILED"):
            print(f"{name}, seed {seed}: {said}; kept: {path}")
            return 1
        path.unlink()
    print(f"{seed} files in {seconds:.0f} s: {dict(seen)}; none raised anything but DataError, hung or died")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, sys.argv[2:]))
