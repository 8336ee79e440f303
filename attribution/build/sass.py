"""What is in a cubin: machine code per entry as bytes, and its opcodes counted.

In: the bytes of a cubin.  Out: `.text` per entry (for "are these the same instructions"), and
static opcode counts by nvdisasm (from the wheel or the CUDA toolkit; no driver, no GPU).
Misuse: static counts say what is there, not what ran: a loop body counts once, however often it
runs, and unrolling changes the number.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from attribution.errors import BuildError

_FUNCTION = re.compile(r"^\.text\.(\S+):$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T0-9]+\s+)?([A-Z][A-Z0-9_]*)")


def text_sections(cubin: bytes) -> dict[str, bytes]:
    """Entry name -> bytes of its `.text` section.  Raises BuildError if this is no 64-bit ELF."""
    if cubin[:5] != b"\x7fELF\x02":
        raise BuildError(f"this is no cubin: it begins with {cubin[:5]!r}, not with a 64-bit ELF header")
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    names_at = headers[names_index][4]
    sections = {}
    for name_at, _, _, _, offset, length in headers:
        begin = names_at + name_at
        name = cubin[begin : cubin.index(b"\0", begin)].decode()
        if name.startswith(".text."):
            sections[name.removeprefix(".text.")] = cubin[offset : offset + length]
    return sections


def disassemble(cubin: bytes) -> str:
    """nvdisasm's listing of the machine code.  Raises BuildError."""
    tool = _nvdisasm()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{tool} failed on this cubin: {done.stderr.strip()[:300]}")
    return done.stdout


def opcode_counts(listing: str) -> dict[str, dict[str, int]]:
    """Entry -> opcode without suffixes -> how many such instructions, from `disassemble`.

    The padding behind the last branch (NOPs up to a multiple of the instruction cache line) counts.
    """
    counts: dict[str, Counter[str]] = {}
    current: Counter[str] | None = None
    for line in listing.splitlines():
        if match := _FUNCTION.match(line):
            current = counts.setdefault(match[1], Counter())
        elif current is not None and (match := _INSTRUCTION.match(line)):
            current[match[1]] += 1
    return {entry: dict(counter.most_common()) for entry, counter in counts.items()}


def _nvdisasm() -> str:
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        found = None
    else:
        found = find_nvidia_binary_utility("nvdisasm")
    if not found or not Path(found).is_file():
        raise BuildError('nvdisasm is not installed: `pip install "attribution[cuda]"`')
    return str(found)
