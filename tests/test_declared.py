"""Every field of a declaration that is no such thing is refused by its name, with what was seen and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny import FLAGS, tiny

from attribution.declare import Axis, Entry, Event, Flag, Kernel
from attribution.declared import check_declared
from attribution.errors import InputError

N = Axis(64, "elements")
PLANTED: list[tuple[dict[str, Any], str]] = [
    ({"summary": None}, "summary is None: must be a text"),
    ({"check": 3}, "check is 3: must be a function"),
    ({"host": "host"}, "host is 'host': must be a function"),
    ({"flags": ["WORK"]}, "flags is .* must be a mapping of names to Flag"),
    ({"flags": {"WORK": 4}}, r"flags\['WORK'\] is 4: must be of type Flag"),
    ({"flags": {"WO-RK": Flag(True, "do it")}}, "a name of flags is 'WO-RK'"),
    ({"flags": {"WIDTH": Flag(3, "lanes", (1, 2))}}, "flag WIDTH of kernel tiny, default = 3: allowed are 1, 2"),
    ({"flags": {"WIDTH": Flag(8, "lanes", 8)}}, "choices of flag WIDTH is 8: must be a tuple"),  # type: ignore[arg-type]
    ({"flags": {"WIDTH": Flag(1, "lanes", (1, 2.5))}}, "a value of flag WIDTH is 2.5"),  # type: ignore[arg-type]
    ({"roles": "math"}, "roles is 'math': must be a tuple"),
    ({"events": Event("score", "math")}, "events is Event.* must be a tuple"),
    ({"distributions": ()}, r"distributions is \(\): must be one name at least"),
    ({"shape": {"n": 64}}, r"shape\['n'\] is 64: must be of type Axis"),
    ({"shape": {"n": Axis("64", "elements")}}, "default of n is '64': must be an integer"),  # type: ignore[arg-type]
    ({"knobs": {"sms": N, "ctas": Axis(2, "CTAs", times="sm")}}, "times of ctas is 'sm': must be one of: sms, ctas"),
    ({"host": lambda *given: None}, "knobs is .* must be with sms"),
    ({"same": ["bytes"]}, "same is .* must be a mapping"),
    ({"entries": (Entry("tiny", 128, lambda flags: 0),)}, "threads of entry tiny is 128: must be a function"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("changes", "sentence"), PLANTED, ids=[sentence for _, sentence in PLANTED])
def test_a_planted_mistake_is_named(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_declared(tiny(tmp_path, **changes))


def test_what_is_declared_well_passes(tmp_path: Path, index_topk: Kernel) -> None:
    check_declared(index_topk)
    check_declared(tiny(tmp_path, flags=FLAGS, shape={"n": N}, knobs={"sms": N, "ctas": Axis(2, "CTAs", times="sms")}))
