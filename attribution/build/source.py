"""One translation unit out of a kernel's source: generated headers, local includes, readable names.

In: a Kernel and its resolved flags.  Out: `Unit`, the text that is compiled, and what went into it.
`attr/config.cuh` (flags, roles, events as constexpr) and `attr/layout.cuh` exist only as text made
here; other local headers are found beside the kernel, then under its root's `kernels/include`, then
under the shipped one.  Each is pasted once, under `#line`, so that errors and -lineinfo name
`kernels/hello/hello.cu`, and the same source gives the same bytes in any folder of any machine.
Misuse: a header that wants to be included twice; `#include MACRO`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from attribution import layout
from attribution.declare import Flags, FlagValue, Kernel
from attribution.errors import BuildError
from attribution.load import shipped_root

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Unit:
    """The text to compile, its name, the local files in it (name, sha256), and `<...>` includes."""

    name: str
    text: str
    files: tuple[tuple[str, str], ...]
    system: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {len(self.files)} files, {self.text.count(chr(10))} lines"


def prelude(kernel: Kernel, flags: Flags) -> str:
    """Text of `attr/config.cuh`: namespaces `flag`, `role` and `event`.

    Raises BuildError for a name or value that C++ cannot have.
    """
    lines = ["#pragma once", f"// Generated from the declaration of kernel {kernel.name}."]
    lines.append("namespace flag {")
    for name, value in flags.items():
        lines += _constant(kernel, name, value)
    lines.append("}  // namespace flag")
    roles = ", ".join(_names(kernel, "role", kernel.roles, {"id", "count"}))
    lines += ["namespace role {", f"enum id : int {{ {roles} }};"]
    lines += [f"constexpr unsigned int count = {len(kernel.roles)};", "}  // namespace role"]
    names = [event.name for event in kernel.events]
    events = ", ".join(_names(kernel, "event", names, {"id", "role_of", "level_of"}))
    lines += ["namespace event {", f"enum id : int {{ {events} }};"]
    if kernel.events:
        of = ", ".join(f"role::{event.role}" for event in kernel.events)
        levels = ", ".join(str(event.level) for event in kernel.events)
        lines += [
            f"__device__ constexpr role::id role_of(id e) {{ constexpr role::id of[] = {{{of}}}; return of[e]; }}",
            f"__device__ constexpr int level_of(id e) {{ constexpr int of[] = {{{levels}}}; return of[e]; }}",
        ]
    return "\n".join([*lines, "}  // namespace event", ""])


def _constant(kernel: Kernel, name: str, value: FlagValue) -> list[str]:
    """The lines that define flag `name`: bool, int, or a scoped enum of its choices."""
    _names(kernel, "flag", [name], set())
    if isinstance(value, bool):
        return [f"constexpr bool {name} = {str(value).lower()};"]
    if isinstance(value, int):
        if value >= 2**31:
            raise BuildError(f"kernel {kernel.name}: flag {name} = {value} is no int: at most 2^31-1")
        return [f"constexpr int {name} = {value};"]
    choices = kernel.flags[name].choices or (value,)
    labels = _names(kernel, f"flag {name}", [str(c) for c in choices], set())
    return [
        f"enum class {name}_t : int {{ {', '.join(labels)} }};",
        f"constexpr {name}_t {name} = {name}_t::{value};",
    ]


def _names(kernel: Kernel, what: str, names: Iterable[str], taken: set[str]) -> list[str]:
    """`names` if C++ can have them.  Raises BuildError."""
    names = list(names)
    for name in names:
        if not _NAME.fullmatch(name):
            raise BuildError(f"kernel {kernel.name}: {what} {name!r} is no C++ name: use letters, digits and _")
        if name in taken:
            raise BuildError(
                f"kernel {kernel.name}: {what} {name!r} is taken by the generated header: choose another name"
            )
    return names


def expand(kernel: Kernel, flags: Flags) -> Unit:
    """The translation unit of `kernel` under resolved `flags`.  Raises BuildError."""
    if kernel.source is None:
        raise BuildError(
            f"kernel {kernel.name} has no GPU source: it runs on the host machine only "
            "(set `source` in its kernel.py to build it)"
        )
    path = kernel.folder / kernel.source
    if not path.is_file():
        raise BuildError(
            f"kernel {kernel.name}: source {path} does not exist: "
            "`source` in kernel.py names a file of the kernel's own folder"
        )
    unit = _Paste(kernel, {"attr/config.cuh": prelude(kernel, flags), "attr/layout.cuh": layout.header()})
    name = f"kernels/{kernel.name}/{kernel.source}"
    unit.paste(name, _text(path), path.parent)
    return Unit(name, "\n".join([*unit.out, ""]), tuple(unit.files), tuple(unit.system))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BuildError(f"{path} is no UTF-8 text: {error}") from None


@dataclass
class _Paste:
    """The unit while it is put together."""

    kernel: Kernel
    generated: dict[str, str]
    out: list[str] = field(default_factory=list)
    files: list[tuple[str, str]] = field(default_factory=list)
    system: list[str] = field(default_factory=list)
    done: set[str] = field(default_factory=set)

    def paste(self, name: str, text: str, folder: Path) -> None:
        """Append `text`, with each local include replaced by that file's text."""
        self.done.add(name)
        self.files.append((name, hashlib.sha256(text.encode()).hexdigest()))
        visible = _without_comments(text).split("\n")
        self.out.append(f'#line 1 "{name}"')
        for number, (line, shown) in enumerate(zip(text.split("\n"), visible, strict=True), 1):
            match = _INCLUDE.match(shown)
            if match and match[1]:
                self._include(match[1], folder, f"{name}:{number}")
                self.out.append(f'#line {number + 1} "{name}"')
                continue
            if match and match[2] not in self.system:
                self.system.append(match[2])
            # Each file is pasted once anyway; the compiler warns of the pragma in a main file.
            self.out.append("" if shown.split() == ["#pragma", "once"] else line)

    def _include(self, wanted: str, folder: Path, where: str) -> None:
        if wanted in self.generated:
            if wanted not in self.done:
                self.paste(wanted, self.generated[wanted], folder)
            return
        own = self.kernel.folder
        includes = own.parent / "include", shipped_root() / "kernels" / "include"
        for base in (folder, own, *includes):
            path = base / wanted
            if path.is_file():
                inside = path.resolve().is_relative_to(own.resolve())
                name = f"kernels/{self.kernel.name}/{wanted}" if inside else wanted
                if name not in self.done:
                    self.paste(name, _text(path), path.parent)
                return
        places = ", ".join(dict.fromkeys(str(b) for b in (own, *includes)))
        raise BuildError(f'{where} includes "{wanted}", which is not in {places}')


def _without_comments(text: str) -> str:
    """`text` with comments blanked and every line kept; strings stay."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    return _COMMENT_OR_STRING.sub(blank, text)


def system_headers(names: Iterable[str], folders: Iterable[Path]) -> dict[str, str]:
    """sha256 of every header that `<names>` reach, by name; those not in `folders` are left out.

    Conditions are not evaluated: this is every header that could be included, which is what an
    identity needs.  Headers that are built into the compiler are covered by its version.
    """
    folders = [folder.resolve() for folder in folders]
    found: dict[str, str] = {}
    todo = [(name, Path()) for name in names]
    seen: set[tuple[str, Path]] = set()
    while todo:
        name, beside = todo.pop()
        if (name, beside) in seen:
            continue
        seen.add((name, beside))
        for base in (beside, *folders):
            path = Path(os.path.normpath(base / name))
            if base != Path() and path.is_file():
                key = _relative(path, folders)
                if key not in found:
                    status = path.stat()
                    digest, includes = _header(path, status.st_mtime_ns, status.st_size)
                    found[key] = digest
                    todo += [(include, path.parent) for include in includes]
                break
    return dict(sorted(found.items()))


@functools.lru_cache(maxsize=8192)
def _header(path: Path, mtime_ns: int, size: int) -> tuple[str, tuple[str, ...]]:
    """sha256 and includes of a header; read once a process while its time and size stay."""
    text = path.read_text(encoding="utf-8", errors="replace")
    includes = tuple(match[1] or match[2] for match in _INCLUDE.finditer(text))
    return hashlib.sha256(text.encode()).hexdigest(), includes


def _relative(path: Path, folders: list[Path]) -> str:
    """The name of `path` as the same header has it on any machine."""
    for folder in folders:
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return path.name
