"""Kernel names: the function's own name inside a demangled signature, and exact matching.

In: names as profilers print them, templates, namespaces, arguments and all.
Out: `topk_kernel` from `void ns::topk_kernel<(int)2>(float *, int)`.
Misuse: never match by a substring: `topk_kernel` is part of `topk_kernel_repair`.
"""

from __future__ import annotations

import functools

_OPEN, _CLOSE = "([{<", ")]}>"


@functools.lru_cache(maxsize=4096)
def kernel_function(signature: str) -> str:
    """The function's name without return type, namespaces, template parameters and arguments.

    A name that lost its leading `<` (seen: `unnamed>::f(int)`) still gives `f`; where nothing is
    left, the whole text is returned.
    """
    depth = 0
    flat: list[str] = []
    text = signature.replace("->", "  ").replace("(anonymous namespace)::", "")
    for place, letter in enumerate(text):
        if letter in _OPEN:
            if letter == "(" and depth == 0 and flat:
                rest = text[place:]
                if not rest.startswith("()("):  # operator()(args): its own name holds brackets
                    break
            depth += 1
        elif letter in _CLOSE:
            depth = max(0, depth - 1)
            if depth == 0 and letter == ">" and text[place + 1 : place + 3] == "::":
                flat = []
        elif depth == 0:
            flat.append(letter)
    name = "".join(flat).strip().split("::")[-1].split(" ")[-1]
    return name or signature


def matches(name: str, wanted: str) -> bool:
    """Whether a kernel is the wanted one: the whole signature or the whole function name."""
    return name == wanted or kernel_function(name) == wanted
