"""Options that several verbs share, and how their text becomes values."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribution.declare import FlagValue, Kernel, Variant, nearest
from attribution.errors import InputError
from attribution.load import kernel_names, load_kernel, load_variants, shipped_root

if TYPE_CHECKING:
    from attribution.recording import Recording

Root = Annotated[
    Path | None,
    typer.Option("--root", help="Take kernels/ and variants/ from this folder instead of the shipped ones."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the same rows as JSON.")]
Point = Annotated[
    str | None, typer.Option("--point", help="Of a sweep: the shape or distribution, as `attr show` names it.")
]
Traces = Annotated[
    Path | None,
    typer.Option("--traces", help="Folder of recordings; the shipped ones when not given."),
]
Scope = Annotated[str | None, typer.Option("--scope", help="Instrument, or instrument/cache/clock.")]
Out = Annotated[Path | None, typer.Option("--out", help="Where the recording goes.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the recording that is there.")]


def root_folder(root: Path | None) -> Path:
    """The root to read declarations from.  Raises InputError when it has no kernels/."""
    folder = shipped_root() if root is None else root
    if not (folder / "kernels").is_dir():
        raise InputError(f"--root {folder}: has no folder kernels/; `attr new NAME --root {folder}` makes one")
    return folder


def open_named(path: Path, traces: Path | None = None) -> Recording:
    """The recording at `path`, or the one of that name in `traces` (the shipped ones when None) where nothing is there.

    Raises InputError, DataError.
    """
    import threading

    from attribution.recording import open_recording

    if sys.stderr.isatty():
        # Most recordings answer at once; one that does not should not look hung.
        patience = threading.Timer(1.0, lambda: print(f"attr: computing what {path} says ...", file=sys.stderr))
        patience.daemon = True
        patience.start()
    here = path.exists() or len(path.parts) != 1
    folder = path.parent if here else traces_folder(traces)
    named = folder / path.name
    try:
        return open_recording(path if here or not named.is_dir() else named)
    except InputError as error:
        known = [] if path.is_file() else [manifest.parent.name for manifest in folder.glob("*/manifest.json")]
        raise InputError(f"{error}{nearest(path.name, known)}") from error


def open_each(paths: Sequence[Path], traces: Path | None = None) -> list[Recording]:
    """As `open_named`, of several measured recordings, none of them twice.  Raises InputError, DataError."""
    from attribution.recording import each_once

    recordings = [open_named(path, traces) for path in paths]
    for one in recordings:
        if one.manifest["kind"] != "run":
            raise InputError(f"{one.path} holds ingested files, not measured arms: use `attr show`")
    each_once(recordings)
    return recordings


def open_point(path: Path, point: str | None) -> Recording:
    """As `open_named`, of a sweep one point.  Raises InputError, DataError."""
    from attribution.analyze.point import at

    return at(open_named(path), point)


def traces_folder(traces: Path | None) -> Path:
    """The folder of recordings.  Raises InputError when it is none."""
    folder = shipped_root() / "traces" if traces is None else traces
    if not folder.is_dir():
        raise InputError(f"--traces {folder}: is no folder; give one that holds recordings")
    return folder


def recordings_in(traces: Path | None) -> list[Recording]:
    """Every recording of runs in the folder, by name, none of them twice.  Raises InputError, DataError."""
    from attribution.recording import each_once, open_recording

    folder = traces_folder(traces)
    found = [open_recording(path.parent) for path in sorted(folder.glob("*/manifest.json"))]
    if not (measured := [r for r in found if r.manifest["kind"] == "run"]):
        raise InputError(f"{folder} holds no measured recording; `attr run` makes one")
    each_once(measured)
    return measured


def find_kernel(root: Path, kernel: str | None, variants: Sequence[str]) -> tuple[Kernel, dict[str, Variant]]:
    """The kernel named, or the only one that has all these variants.  Raises InputError."""
    if kernel is not None:
        found = load_kernel(root, kernel)
        return found, load_variants(root, found)
    declared = {name: load_variants(root, load_kernel(root, name)) for name in kernel_names(root)}
    having = [name for name, known in declared.items() if all(v in known for v in variants)]
    if len(having) == 1:
        return load_kernel(root, having[0]), declared[having[0]]
    if having:
        raise InputError(f"variants {', '.join(variants)}: kernels {', '.join(having)} have them; add --kernel NAME")
    everything = sorted({v for known in declared.values() for v in known})
    missing = next((v for v in variants if v not in everything), None)
    if missing is None:
        raise InputError(f"no single kernel has all of: {', '.join(variants)}; add --kernel NAME")
    raise InputError(f"no variant {missing}{nearest(missing, everything)}; `attr list` shows every kernel's variants")


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """`["q=8,n=4096", "k=2"]` -> {"q": "8", "n": "4096", "k": "2"}.  Raises InputError."""
    out: dict[str, str] = {}
    for text in texts:
        for part in text.split(","):
            name, mark, value = part.partition("=")
            if not mark or not name.strip() or not value.strip():
                raise InputError(f"{option} {text!r}: must be NAME=VALUE[,NAME=VALUE...]")
            out[name.strip()] = value.strip()
    return out


def integers(option: str, texts: Sequence[str]) -> dict[str, int]:
    """As `pairs`, with integer values.  Raises InputError."""
    out = {}
    for name, value in pairs(option, texts).items():
        try:
            out[name] = int(value)
        except ValueError:
            raise InputError(f"{option} {name}={value}: must be an integer") from None
    return out


def flag_values(kernel: Kernel, texts: Sequence[str]) -> Mapping[str, FlagValue]:
    """As `pairs`, with values of the type that the kernel's flag has.  Raises InputError."""
    out: dict[str, FlagValue] = {}
    for name, text in pairs("--flag", texts).items():
        flag = kernel.flags.get(name)
        if flag is None:
            raise InputError(
                f"--flag {name}: {kernel.name} has no such flag{nearest(name, kernel.flags)}; there are: {', '.join(kernel.flags)}"
            )
        out[name] = flag.check(name, _typed(name, text, flag.default))
    return out


def _typed(name: str, text: str, like: FlagValue) -> FlagValue:
    if isinstance(like, bool):
        known = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
        if text.lower() not in known:
            raise InputError(f"--flag {name}={text}: allowed are true and false")
        return known[text.lower()]
    if isinstance(like, int):
        try:
            return int(text)
        except ValueError:
            raise InputError(f"--flag {name}={text}: must be an integer") from None
    return text
