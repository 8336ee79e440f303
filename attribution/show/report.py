"""The report of a recording: claims first, then ledger, ladder, tails, timeline and provenance.

In: an opened recording.  Out: a `Report` of plain texts, for `report_html` and `report_markdown`.
All numbers come from `claim` and `analyze`; here they are put into sentences, cells and marks.
What a recording lacks is a sentence that names the scope that was not recorded; what the analysis refuses is its sentence.
Misuse: a report is a reading aid; `attr verify` and the recording's hashes say whether it is still true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attribution import __version__
from attribution.recording import Recording
from attribution.show.report_accounts import ladder_section, ledger_section
from attribution.show.report_blocks import Report
from attribution.show.report_claims import claims_section
from attribution.show.report_files import file_sections
from attribution.show.report_provenance import provenance_section
from attribution.show.report_trace import tails_section, timeline_section

if TYPE_CHECKING:
    import pandas as pd

SECTIONS = (
    claims_section,
    ledger_section,
    ladder_section,
    tails_section,
    timeline_section,
    provenance_section,
)
"""In the order in which a reader needs them."""


@dataclass(frozen=True)
class Held(Recording):
    """A recording whose tables are read and verified once: every section asks for the same ones."""

    held: dict[str, pd.DataFrame] = field(default_factory=dict)

    def table(self, name: str) -> pd.DataFrame:
        if name not in self.held:
            self.held[name] = super().table(name)
        return self.held[name]


def report(opened: Recording) -> Report:
    """The whole report.  Raises DataError for a recording that was changed, InputError for one of another kind."""
    recording = Held(opened.path, opened.manifest)
    recording.verify()
    name = recording.path.resolve().name
    command, stamp = f"attr report {name}", f"attribution {__version__}"
    if recording.manifest["kind"] != "run":
        sentence = "Files of profilers, read as tables: nothing here was measured by attribution itself, so nothing is claimed."
        return Report(name, sentence, (), file_sections(recording), command, stamp)
    from attribution.claim import scope_sentence

    plan = recording.manifest["plan"]
    shape = ", ".join(f"{axis} = {size}" for axis, size in plan["shape"].items())
    shapes = recording.table("runs")["shape"].astype(str).nunique()
    facts = (
        ("recording", name),
        ("shape", shape if shapes == 1 else f"{shapes} shapes"),
        ("inputs", str(plan["distribution"])),
        ("rounds", str(plan["rounds"])),
    )
    sections = tuple(section(recording) for section in SECTIONS)
    return Report(str(plan["kernel"]), scope_sentence(recording), facts, sections, command, stamp)
