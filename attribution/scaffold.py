"""`attr new NAME`: a kernel of the user's own that runs at once, made from the shipped `hello`.

In: a root folder and a name.  Out: kernels/NAME/{kernel.py, NAME.cu} and variants/NAME.toml below the root.
The text is hello's with another name, so what is written here is what the tests build and run.
Misuse: nothing that exists is touched; a name that is taken is refused.
"""

from __future__ import annotations

import contextlib
import keyword
import os
import re
import shutil
from pathlib import Path

from attribution.declare import shipped_root
from attribution.errors import InputError, MeasureError

TEMPLATE = "hello"
RESERVED = {"main", "attr", "flag", "role", "event", "threads", "include"} | {
    *("float", "float4", "int", "double", "char", "void", "bool", "struct", "const", "static")
}
"""Names that the template uses itself, and C++ words that are no Python keywords."""


def new_kernel(root: Path, name: str) -> list[Path]:
    """Write the kernel's files and return their paths.  Raises InputError for the name, MeasureError for the disk."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", name) or keyword.iskeyword(name) or name in RESERVED:
        raise InputError(
            f"kernel name {name!r}: allowed are lower-case letters, digits and _, a letter first, and no reserved word"
        )
    folder, toml = root / "kernels" / name, root / "variants" / f"{name}.toml"
    for path in (folder, toml):
        if path.exists():
            raise InputError(f"{path} exists: choose another name; nothing was written")
    shipped = shipped_root()
    sources = {
        folder / file.name.replace(TEMPLATE, name): file
        for file in sorted((shipped / "kernels" / TEMPLATE).iterdir())
        if file.suffix in (".py", ".cu", ".cuh")
    } | {toml: shipped / "variants" / f"{TEMPLATE}.toml"}
    texts = {path: re.sub(rf"\b{TEMPLATE}\b", name, file.read_text("utf-8")) for path, file in sources.items()}
    draft = root / "kernels" / f".{name}.{os.getpid()}"
    try:
        draft.mkdir(parents=True)
        toml.parent.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            (draft / path.name).write_text(text, encoding="utf-8")
        (draft / toml.name).rename(toml)
        draft.rename(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            toml.unlink(missing_ok=True)
        raise MeasureError(f"cannot write {folder}: {error.strerror}; nothing was left behind") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return list(texts)
