"""What a stopping rule left open: arms whose ratio was not known as well as was asked when the budget ended.

In: rows of contrasts, the recording that they are of.  Out: the same rows, those arms' verdicts at best undecided.
The rule looked at one scope and stage; what rode along in the others was stopped with it, and is left open as well.
Misuse: an arm whose own interval was narrow enough is not held back by the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attribution.analyze.verdict import AT_BEST
from attribution.recording import Recording

if TYPE_CHECKING:
    import pandas as pd


def unreached(found: pd.DataFrame, recording: Recording) -> pd.DataFrame:
    """Rows of contrasts with each arm blocked that the budget left wider than `--precision` asked for, that reason first."""
    facts = recording.manifest.get("stopping")
    if facts is None or facts["reached"]:
        return found
    arms = found["question"].astype(str) + "/" + found["arm"].astype(str)
    why, out = arms.map(lambda arm: _why(facts, arm)), found.copy()
    hit = (why != "") & (found["verdict"] != "void")
    out.loc[hit, "reasons"] = AT_BEST + why[hit] + "; " + out.loc[hit, "reasons"]
    out.loc[hit, "blocked"] = True
    out.loc[hit, "verdict"] = "undecided"
    out.loc[hit & (out["expected"] != ""), "expectation"] = "undecided"
    return out


def _why(facts: Mapping[str, Any], arm: str) -> str:
    """Why the rule leaves this arm open, '' where its own interval was narrow enough."""
    asked, width = facts["precision"], facts["half_widths"].get(arm)
    if width is not None and width <= asked:
        return ""
    known = "not known" if width is None else f"known to +-{100 * width:.3g} %"
    return f"+-{100 * asked:g} % was asked, and when the budget ended the ratio was {known} ({facts['scope']})"
