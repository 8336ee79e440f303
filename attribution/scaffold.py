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

from attribution.errors import InputError, MeasureError
from attribution.load import shipped_root

TEMPLATE = "hello"
RESERVED = {"main", "attr", "flag", "role", "event", "threads", "include", "float4"}
"""Names that the template uses itself, or its build."""
CPP = (
    "alignas alignof and_eq asm auto bitand bitor bool catch char char8_t char16_t char32_t compl concept const consteval "
    "constexpr constinit const_cast co_await co_return co_yield decltype default delete do double dynamic_cast enum "
    "explicit export extern float friend goto inline int long mutable namespace new noexcept not_eq nullptr operator "
    "or_eq private protected public register reinterpret_cast requires short signed sizeof static static_assert "
    "static_cast struct switch template this thread_local throw true false try typedef typeid typename union unsigned "
    "using virtual void volatile wchar_t xor xor_eq"
)
"""Words of C++20 that are lower-case and no words of Python."""
DECLARED = (
    "std size_t ptrdiff_t clock_t dim3 printf malloc free memcpy memset assert clock clock64 abs labs llabs min max umin "
    "umax llmin llmax ullmin ullmax fabs sqrt rsqrt sin cos tan exp exp2 exp10 expm1 log log2 log10 log1p logb pow fmin "
    "fmax floor ceil round rint trunc fma fmod modf frexp ldexp hypot rhypot cbrt rcbrt erf erfc erfinv erfcinv erfcx "
    "tgamma lgamma j0 j1 jn y0 y1 yn sinh cosh tanh asin acos atan atan2 asinh acosh atanh sinpi cospi sincos sincospi "
    "normcdf normcdfinv norm norm3d norm4d rnorm rnorm3d rnorm4d copysign nextafter nan fdim remainder remquo ilogb scalbn "
    "scalbln nearbyint lround lrint llround llrint"
)
"""Names of the device library: a kernel of most of them does not compile, of the others it hides them.  NAMEf too."""


def new_kernel(root: Path, name: str) -> list[Path]:
    """Write the kernel's files and return their paths.  Raises InputError for the name, MeasureError for the disk."""
    taken = keyword.iskeyword(name) or bool(
        {name, name.removesuffix("f")} & {*RESERVED, *CPP.split(), *DECLARED.split()}
    )
    if taken or not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", name):
        raise InputError(
            f"kernel name {name!r}: allowed are lower-case letters, digits and _, a letter first, and no word of Python, "
            "C++ or CUDA"
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
