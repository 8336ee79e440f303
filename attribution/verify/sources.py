"""What a marker's source says today: a command over the recordings, a file beside them, or a constant of the program.

In: a marker, the folder of recordings, and how a command line is printed.  Out: the text that must stand between its comments.
Only verbs that read are run, only on what lies in that folder; no option that writes a file is allowed.
Misuse: a recording that the void list names is a source for `claim` and `show` alone, which say that it is void.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attribution.claim.void import void_reasons
from attribution.errors import AttrError, DataError, InputError
from attribution.recording import open_recording
from attribution.verify.markers import Marker
from attribution.verify.paths import written

READ = (
    "show", "claim", "ladder", "ledger", "tails", "overlap", "slack", "explain", "compare", "report", "capacity", "roofline",
    "selectors", "reconcile", "versus", "noise", "scopes",
)  # fmt: skip
"""Verbs that answer from recordings."""
DECLARED = ("list", "predict")
"""Verbs that answer from declarations and need no recording."""
HASH = "sha256"
"""A path that every file has."""
DIGITS = 16
"""Of a file's sha256: enough against accidents, short enough for a table."""
SAYING_VOID = ("claim", "show")
WRITING = ("--plot", "--out", "--perfetto", "--root", "--traces", "--json", "--overwrite")
_CONSTANT = re.compile(r"(?P<module>[a-z_]+(?:\.[a-z_]+)*)\.(?P<name>[A-Z][A-Z0-9_]*)")

Printed = Callable[[Sequence[str]], str]
"""Words of a command line -> what the command prints.  Raises AttrError."""


def is_hash(marker: Marker) -> bool:
    """Whether the marker states which file lies in the folder."""
    return marker.kind == "file" and HASH in marker.spec.split(" :: ")[1:2]


class Sources:
    """The recordings in `traces`, and what commands said of them; each command runs once."""

    def __init__(self, traces: Path, printed: Printed) -> None:
        self.traces, self._printed = traces, printed
        self._said: dict[tuple[str, ...], str] = {}
        self._void: dict[tuple[str, str], bool] = {}
        self._scratch = tempfile.TemporaryDirectory(prefix="attr-figures-")

    def text(self, marker: Marker) -> str:
        """What must stand in the marker.  Raises AttrError when there is no such source."""
        source, *rest = [part.strip() for part in marker.spec.split(" :: ")]
        if marker.kind == "code":
            return _constant(source, *_exactly(rest, 1, marker))
        if marker.kind == "file":
            return self._file(source, *_exactly(rest, 2, marker))
        words = self._words(source)
        if words[0] == "report" and "--markdown" not in words:
            raise InputError("attr report: writes a page; in a marker it needs --markdown")
        if not rest:
            return _block(self._say(words))
        path, form = _exactly(rest, 2, marker)
        said = json.loads(self._say([*words, "--json"]))
        return written(said if words[0] in SAYING_VOID else self._with_void(said, words), path, form)

    def _with_void(self, said: Any, words: Sequence[str], inside: str = "") -> Any:
        """What a verb said, with verdict `void` on every row of a scope that is void in a recording it was asked of."""
        if isinstance(said, list):
            return [self._with_void(part, words, inside) for part in said]
        if not isinstance(said, dict):
            return said
        scope = str(said.get("scope", inside)).split("/")[0]
        parts = {key: self._with_void(part, words, scope) for key, part in said.items()}
        return parts | {"verdict": "void"} if scope and self._is_void(scope, words) else parts

    def _is_void(self, scope: str, words: Sequence[str]) -> bool:
        named = [word for word in words if Path(word).parent == self.traces and Path(word).is_dir()]
        for word in named:
            if (word, scope) not in self._void:
                self._void[word, scope] = bool(void_reasons(open_recording(Path(word)), scope))
        return any(self._void[word, scope] for word in named)

    def drawn(self, command: str) -> Path:
        """The figure of a command, drawn today.  Raises AttrError."""
        words = self._words(command)
        name = hashlib.sha256("\0".join(words).encode()).hexdigest()[:DIGITS]
        figure = Path(self._scratch.name) / f"{name}.svg"
        self._say([*words, "--plot", str(figure)])
        return figure

    def page(self, command: str) -> str:
        """The page that `report NAME` writes.  Raises AttrError."""
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch) / "page.html"
            self._printed([*self._words(command), "--out", str(target)])
            return target.read_text(encoding="utf-8")

    def damaged(self) -> list[tuple[str, str]]:
        """(recording, reason) of each one in the folder that is not what was written."""
        out = []
        for manifest in sorted(self.traces.glob("*/manifest.json")):
            try:
                open_recording(manifest.parent).verify()
            except AttrError as error:
                out.append((manifest.parent.name, str(error)))
        return out

    def _say(self, words: Sequence[str]) -> str:
        key = tuple(words)
        if key not in self._said:
            self._said[key] = self._printed(words)
        return self._said[key]

    def _words(self, command: str) -> list[str]:
        """The command line with the folder's entries in place of their names.  Raises InputError, DataError."""
        verb, *words = command.split()
        if verb not in READ + DECLARED:
            raise InputError(f"attr {verb}: a marker may ask {', '.join(READ + DECLARED)} only")
        if option := next((w for w in words if w.split("=")[0] in WRITING), None):
            raise InputError(f"{option} has no place in a marker: what is shown comes from the recordings as they are")
        names = [w for w in words if not w.startswith("-") and (self.traces / w).exists() and "/" not in w]
        if verb in READ and verb != "claim" and not names:
            raise InputError(f"attr {command}: names no recording of {self.traces.name}/")
        if other := next((w for w in words if w not in names and ("/" in w or Path(w).exists())), None):
            raise InputError(f"{other} is not in {self.traces.name}/: sources are its recordings only")
        for name in names if verb not in SAYING_VOID else ():
            self._refuse_void(name)
        found = [str(self.traces / w) if w in names else w for w in words]
        return [verb, *found, *(["--traces", str(self.traces)] if verb == "claim" else [])]

    def _refuse_void(self, name: str) -> None:
        folder = self.traces / name
        if (folder / "manifest.json").is_file() and (reasons := void_reasons(open_recording(folder))):
            raise DataError(f"{name} is void: {'; '.join(reasons)}; only `attr claim` and `attr show` may stand here")

    def _file(self, name: str, path: str, form: str) -> str:
        """A value of a JSON file in the folder; path HASH is the start of its bytes' hash.  Raises InputError, DataError."""
        file = self.traces / name
        if "/" in name or not file.is_file():
            raise InputError(f"file {name}: there is no such file in {self.traces.name}/")
        content = file.read_bytes()
        if path == HASH:
            return hashlib.sha256(content).hexdigest()[:DIGITS]
        try:
            value: Any = json.loads(content)
        except ValueError as error:
            raise DataError(f"file {name} is not JSON: {error}; only its {HASH} can be asked for") from error
        return written(value, path, form)


def _block(said: str) -> str:
    """What a command printed, as it stands between two markers: code, or Markdown that brings its markers with it."""
    lines = [line.rstrip() for line in said.rstrip("\n").splitlines()]
    if lines and lines[0].startswith("<!-- attr ") and lines[-1] == "<!-- end -->":
        return "\n".join(["", *lines[1:-1], ""])
    return "\n".join(["", "```", *lines, "```", ""])


def _exactly(rest: list[str], count: int, marker: Marker) -> list[str]:
    if len(rest) != count:
        wanted = " :: PATH :: FORMAT" if count == 2 else " :: FORMAT"
        raise InputError(f"{marker.kind} {marker.spec}: needs its source and then{wanted}")
    return rest


def _constant(source: str, form: str) -> str:
    """A number of this package that is written in capitals.  Raises InputError."""
    match = _CONSTANT.fullmatch(source)
    try:
        value = getattr(importlib.import_module(f"attribution.{match['module']}"), match["name"]) if match else None
    except (ImportError, AttributeError):
        value = None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"code {source}: is no number that the package names in capitals, like analyze.verdict.MARGIN")
    key = source.rpartition(".")[2].lower()
    return written({key: value}, key, form)
