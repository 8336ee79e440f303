"""How long does `attr --help` take, against `import pandas`?"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def _seconds(*command: str) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begin


def ratios() -> list[tuple[str, float, str]]:
    """(what, ratio, target): medians of 11 alternating pairs of fresh processes."""
    ours, pandas = [], []
    for _ in range(11):
        ours.append(_seconds(sys.executable, "-m", "attribution", "--help"))
        pandas.append(_seconds(sys.executable, "-c", "import pandas"))
    return [
        (
            "attr --help / import pandas",
            statistics.median(ours) / statistics.median(pandas),
            "<= 0.5",
        )
    ]
