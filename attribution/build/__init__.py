"""From a kernel and flags to a cubin and its static facts, cached by content.

In: a Kernel, flags, an architecture.  Out: `Build`; its identity is a hash of everything that can
change the machine code, and a cache hit knows the same facts as a fresh build.
NVRTC through cuda.core: no CUDA toolkit, no GPU.  The driver is never touched: without one,
`ObjectCode.get_kernel` raises and `Device()` hangs for ever.
Misuse: do not load the cubin here (the GPU worker does), do not read a build's facts off its name.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attribution.build import cache as build_cache
from attribution.build import sass, source
from attribution.build.ptxas import EntryFacts, read_entries, read_warnings
from attribution.called import called
from attribution.declare import Entry, Flags, FlagValue, Kernel
from attribution.errors import BuildError, InputError

ARCH = "sm_90a"
OPTIONS: Mapping[str, Any] = {"std": "c++20", "lineinfo": True, "ptxas_options": ["-v"], "no_cache": True}
"""Without the compiler's own cache: the cache here keeps facts too, and what comes from there may lack ptxas' report."""
_IMPORT = threading.Lock()
"""cuda.core's first import swaps modules: two threads at once find it half there."""
INSTALL = 'the CUDA wheels are not installed: `pip install "attribution[cuda]"`'


@dataclass(frozen=True)
class Build:
    """A cubin and what is known of it without running it.

    `compile_s`: seconds that compiling and disassembling took when it was made.
    """

    kernel: str
    identity: str
    arch: str
    compiler: str
    flags: Mapping[str, FlagValue]
    roles: tuple[str, ...]
    events: tuple[str, ...]
    entries: tuple[EntryFacts, ...]
    warnings: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    compile_s: float
    folder: Path
    cached: bool = False

    def __str__(self) -> str:
        names = ", ".join(f"{e.name} {e.registers} registers" for e in self.entries)
        return f"{self.kernel} {self.identity[:12]} for {self.arch}: {names}"

    @property
    def cubin(self) -> bytes:
        return (self.folder / build_cache.CUBIN).read_bytes()

    @property
    def code_sha256(self) -> str:
        """Of the machine code of all entries in order of their names, first 16 digits: where the source lies does not count."""
        code = sass.text_sections(self.cubin)
        return hashlib.sha256(b"".join(name.encode() + code[name] for name in sorted(code))).hexdigest()[:16]

    def entry(self, name: str) -> EntryFacts:
        """The facts of entry `name`.  Raises BuildError."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        known = ", ".join(e.name for e in self.entries)
        raise BuildError(f"build of {self.kernel} has no entry {name}; there are: {known}")


@dataclass(frozen=True)
class Target:
    """A build that may be in the cache: its text, its identity, and what it is for."""

    kernel: Kernel
    flags: Mapping[str, FlagValue]
    arch: str
    unit: source.Unit
    compiler: str
    identity: str


def check_arch(arch: str) -> None:
    """Raises InputError for what is no architecture's name; the compiler knows which exist."""
    if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise InputError(f"arch {arch!r}: allowed is sm_ and a number, such as sm_90a or sm_80")


def target(kernel: Kernel, flags: Flags, arch: str = ARCH) -> Target:
    """Resolve `flags` and compute the identity; compiles nothing and imports no CUDA module.

    Raises InputError for illegal flags, BuildError for a source that cannot be put together.
    """
    check_arch(arch)
    resolved = kernel.resolve_flags(flags)
    unit = source.expand(kernel, resolved)
    compiler = compiler_version()
    launch = {e.name: _launch(kernel, e, resolved) for e in kernel.entries}
    everything = {
        "format": build_cache.FORMAT,
        "kernel": kernel.name,
        "text": unit.text,
        "flags": resolved,
        "roles": kernel.roles,
        "events": [asdict(event) for event in kernel.events],
        "launch": launch,
        "system": source.system_headers(unit.system, _include_folders()) if unit.system else {},
        "compiler": compiler,
        "arch": arch,
        "options": dict(OPTIONS),
    }
    text = json.dumps(everything, sort_keys=True)
    return Target(kernel, resolved, arch, unit, compiler, hashlib.sha256(text.encode()).hexdigest())


def _launch(kernel: Kernel, entry: Entry, flags: Flags) -> tuple[int, int]:
    """Threads and dynamic shared memory that are declared of an entry.  Raises BuildError."""
    threads, smem_bytes = (
        called(kernel.name, f"{what} of entry {entry.name}", function, flags, error=BuildError)
        for what, function in (("threads", entry.threads), ("smem_bytes", entry.smem_bytes))
    )
    for what, value, least in (("threads", threads, 1), ("smem_bytes", smem_bytes, 0)):
        if type(value) is not int or value < least:
            raise BuildError(
                f"kernel {kernel.name}: {what} of entry {entry.name} is {value!r}: must be an integer >= {least}"
            )
    return threads, smem_bytes


def build(kernel: Kernel, flags: Flags, arch: str = ARCH, cache: Path | str | None = None) -> Build:
    """The build of `kernel` under `flags`, from the cache or compiled and put there.

    `cache` defaults to `$XDG_CACHE_HOME/attribution`, then `~/.cache/attribution`.
    Raises InputError for illegal flags, BuildError with the compiler's words or the fact at fault.
    """
    wanted = target(kernel, flags, arch)
    return cached(wanted, cache) or compile_target(wanted, cache)


def cached(wanted: Target, cache: Path | str | None = None) -> Build | None:
    """The build from the cache; None if it is not there or its files are damaged."""
    found = build_cache.load(build_cache.root(cache), wanted.identity)
    if found is None:
        return None
    folder, facts = found
    entries = tuple(EntryFacts(**entry) for entry in facts.pop("entries"))
    facts["files"] = tuple((name, digest) for name, digest in facts["files"])
    for name in ("roles", "events", "warnings"):
        facts[name] = tuple(facts[name])
    return Build(**facts, entries=entries, folder=folder, cached=True)


def compile_target(wanted: Target, cache: Path | str | None = None) -> Build:
    """Compile, judge and publish.  Raises BuildError."""
    cubin, log, begin = _nvrtc(wanted)
    kernel = wanted.kernel
    listing = sass.disassemble(cubin)
    compile_s = time.perf_counter() - begin
    entries = read_entries(kernel, wanted.flags, log, listing)
    result = Build(
        kernel=kernel.name,
        identity=wanted.identity,
        arch=wanted.arch,
        compiler=wanted.compiler,
        flags=wanted.flags,
        roles=kernel.roles,
        events=tuple(event.name for event in kernel.events),
        entries=entries,
        warnings=tuple(read_warnings(kernel, wanted.arch, log, entries)),
        files=wanted.unit.files,
        compile_s=compile_s,
        folder=Path(),
    )
    facts = asdict(result)
    for name in ("folder", "cached"):
        del facts[name]
    folder = build_cache.publish(build_cache.root(cache), wanted.identity, cubin, facts)
    return Build(**{**result.__dict__, "folder": folder})


def _nvrtc(wanted: Target) -> tuple[bytes, str, float]:
    """cubin, log, and when it began.  Raises BuildError with the compiler's own lines."""
    with _IMPORT:
        try:
            from cuda.core import Program, ProgramOptions
        except ImportError as error:
            raise BuildError(f"{INSTALL} ({error})") from error
    begin = time.perf_counter()  # behind the import, which only the first build of a process pays
    log = io.StringIO()
    folders = [str(folder) for folder in _include_folders()] if wanted.unit.system else None
    # Without a name, -lineinfo embeds a random path, and the bytes differ from run to run.
    options = ProgramOptions(name=wanted.unit.name, arch=wanted.arch, include_path=folders, **OPTIONS)
    program, failed = None, ""
    try:
        program = Program(wanted.unit.text, "c++", options)
        code = bytes(program.compile("cubin", logs=log).code)
    except Exception as error:  # cuda.core raises its own NVRTCError, which is not public
        failed = str(error)
    finally:
        # A Program that only the cycle collector frees (a traceback holds it) complains on stderr.
        del program
    if failed:
        lines = failed.split("compilation log:", 1)[-1].strip().splitlines()
        if len(lines) > 40:
            lines[40:] = [f"... and {len(lines) - 40} more lines"]
        raise BuildError(f"kernel {wanted.kernel.name} does not compile for {wanted.arch}:\n" + "\n".join(lines))
    return code, log.getvalue(), begin


def compiler_version() -> str:
    """Name and version of the NVRTC that will compile.  Raises BuildError.

    From the wheel's metadata, so that a cache hit need not load the compiler (0.4 s).
    """
    for wheel in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            return f"{wheel} {importlib.metadata.version(wheel)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    # A CUDA toolkit: its file's own name ends in the full version.
    return f"toolkit {_library().name}"


def _library() -> Path:
    """The NVRTC library that is loaded, links resolved.  Raises BuildError."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return Path(load_nvidia_dynamic_lib("nvrtc").abs_path).resolve()
    except (ImportError, RuntimeError) as error:
        raise BuildError(f"{INSTALL} ({error})") from error


def _include_folders() -> list[Path]:
    """Folders of CUDA's own headers: `<cuda_fp8.h>`, `<cuda/std/...>`; wheels or a toolkit."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError as error:
        raise BuildError(f"{INSTALL} ({error})") from error
    found = (find_nvidia_header_directory(name) for name in ("cudart", "cccl"))
    return [Path(folder) for folder in dict.fromkeys(found) if folder]
