"""What is in a cubin: machine code per entry as bytes, and its opcodes counted.

In: the bytes of a cubin.  Out: `.text` per entry (for "are these the same instructions"), and
static opcode counts by nvdisasm (from the wheel or the CUDA toolkit; no driver, no GPU), also by role.
Misuse: static counts say what is there, not what ran: a loop body counts once, however often it
runs, and unrolling changes the number.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from attribution.errors import BuildError

_PLACE = re.compile(r'^\s*//## File "([^"]+)", line \d+')
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
    """nvdisasm's listing of the machine code, with the source line of each instruction and where that was inlined, inner
    first, where the cubin has line information.  Raises BuildError."""
    tool = _nvdisasm()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-c", "-gi", file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{tool} failed on this cubin: {done.stderr.strip()[:300]}")
    return done.stdout


def opcode_counts(listing: str) -> dict[str, dict[str, int]]:
    """Entry -> opcode without suffixes -> how many such instructions, from `disassemble`.

    The padding behind the last branch (NOPs up to a multiple of the instruction cache line) counts.
    """
    counts: dict[str, Counter[str]] = {}
    for entry, opcode, _ in _instructions(listing):
        counts.setdefault(entry, Counter())[opcode] += 1
    return {entry: dict(counter.most_common()) for entry, counter in counts.items()}


def role_counts(listing: str, roles: Sequence[str]) -> dict[str, dict[str, dict[str, int]]]:
    """Entry -> role -> opcode -> count, of the instructions of which line information tells the role.

    A role's code is what comes from a file of its name (`math.cuh` of role math), or was inlined into one; a kernel of one role
    has no other code.  Instructions of no role are left out.
    """
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for entry, opcode, files in _instructions(listing):
        found = [Path(file).stem for file in reversed(files) if Path(file).stem in roles]
        if role := roles[0] if len(roles) == 1 else next(iter(found), ""):
            counts[entry][role][opcode] += 1
    return {e: {r: dict(c.most_common()) for r, c in sorted(by_role.items())} for e, by_role in counts.items()}


def _instructions(listing: str) -> Iterator[tuple[str, str, list[str]]]:
    """Entry, opcode, and the files that the instruction comes from, the innermost of what was inlined first."""
    entry, files, told = "", list[str](), False
    for line in listing.splitlines():
        if match := _FUNCTION.match(line):
            entry, files = match[1], []
        elif match := _PLACE.match(line):
            # A group of such lines holds until the next one.
            files = [*files, match[1]] if told else [match[1]]
            told = True
        elif entry and (match := _INSTRUCTION.match(line)):
            yield entry, match[1], files
            told = False


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
