"""A kernel of the user's own that runs at once: the shipped `hello` under another name.

In: a root folder and a name.  Out: `kernels/NAME/{kernel.py, NAME.cu}` and `variants/NAME.toml`.
The text is hello's own, so the template is compiled and run by every test that hello has.
Misuse: nothing that exists is overwritten; rename or remove it first.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from attribution.declare import shipped_root
from attribution.errors import InputError

TEMPLATE = "hello"
_RESERVED = frozenset(
    ("attr", "flag", "role", "event", "include", "float", "int", "double", "char", "void", "main")
)


def files(name: str) -> dict[Path, str]:
    """Path below the root -> text, of kernel `name`.  Raises InputError for what is no name."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in _RESERVED:
        raise InputError(
            f"kernel name {name!r}: allowed are small letters, digits and _, a letter first, and "
            f"none of {', '.join(sorted(_RESERVED))} (it becomes a C++ function)"
        )
    shipped = shipped_root()
    paths = {
        f"kernels/{TEMPLATE}/kernel.py": f"kernels/{name}/kernel.py",
        f"kernels/{TEMPLATE}/{TEMPLATE}.cu": f"kernels/{name}/{name}.cu",
        f"variants/{TEMPLATE}.toml": f"variants/{name}.toml",
    }
    word = re.compile(rf"\b{TEMPLATE}\b")
    return {
        Path(mine): word.sub(name, (shipped / theirs).read_text(encoding="utf-8"))
        for theirs, mine in paths.items()
    }


def new(root: Path, name: str) -> list[Path]:
    """Write kernel `name` into `root` and return the files, whole or not at all.

    Raises InputError if any of them is there already, or the folder cannot be written.
    """
    texts = files(name)
    folder, variants = root / "kernels" / name, root / "variants" / f"{name}.toml"
    for path in (folder, variants):
        if path.exists():
            raise InputError(f"{path} exists: choose another name, or remove it first")
    try:
        for parent in (folder.parent, variants.parent):
            parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".new-") as scratch:
            for path, text in texts.items():
                (Path(scratch) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(scratch) / path).write_text(text, encoding="utf-8")
            (Path(scratch) / "kernels" / name).rename(folder)
            try:
                (Path(scratch) / "variants" / variants.name).rename(variants)
            except OSError:
                shutil.rmtree(folder)
                raise
    except OSError as error:
        raise InputError(f"{root} cannot be written: {error.strerror or error}") from error
    return [root / path for path in texts]
