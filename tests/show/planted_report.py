"""Recordings for the tests of reports: a ladder with a trace, and the same under names that are markup.

Out: opened recordings.  Nothing here is a measurement.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import planted_gpu

from attribution.recording import Recording, write_tables
from attribution.tables import conform

SCRIPT = "<script>alert(1)</script>"
ARM = '"><img src=x onerror=alert(2)>'
ROLE = "math' onclick='alert(3)<b>"
ASKS = "is <i>this</i> a | question? <!-- end --> `code` & more"


def whole(path: Path) -> Recording:
    """Six rungs and the null arm, stages, counters, and two traced runs of `full`."""
    return planted_gpu.recording(path, _tables(), planted_gpu.ladder_variants())


def untraced(path: Path) -> Recording:
    """The same without its trace, and only `full` beside its null arm: no rung."""
    tables = planted_gpu.measured({"full": {"full": 1e6, "null": 1e6}}, stages={"repair": 2e4, "gaps": 1e4})
    return planted_gpu.recording(path, tables, {"full": planted_gpu.ladder_variants()["full"]})


def hostile(path: Path) -> Recording:
    """`whole` with a kernel, an arm, a role, a profiled launch and a question whose names are markup."""
    honest = whole(path.with_name("honest"))
    manifest = json.loads(
        json.dumps({k: v for k, v in honest.manifest.items() if k not in ("tables", "schema", "protocol", "kind")})
        .replace('"planted"', json.dumps(SCRIPT))
        .replace('"score_only"', json.dumps(ARM))
        .replace('"math"', json.dumps(ROLE))
        .replace('"planted?"', json.dumps(ASKS))
    )
    tables = {name: honest.table(name) for name in honest.table_names}
    tables["runs"] = _renamed("runs", tables["runs"], {"planted": SCRIPT, "score_only": ARM})
    tables["counters"] = _renamed("counters", tables["counters"], {"planted": SCRIPT})
    return write_tables(path, "run", tables, manifest)


def _renamed(name: str, table: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    texts = table.select_dtypes(["category", "string"]).columns
    return conform(name, table.assign(**{c: table[c].astype(str).replace(names) for c in texts}))


def _tables() -> dict[str, Any]:
    tables = planted_gpu.full_ladder(stages={"repair": 2e4, "gaps": 1e4})
    mine = list(tables["runs"].loc[tables["runs"]["arm"] == "full", "run"])[:2]
    return {**tables, **planted_gpu.trace(mine, 8e4, 2e4, batches=12, ctas=6)}
