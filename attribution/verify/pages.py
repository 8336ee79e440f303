"""Reports as pages: an HTML file that `attr report` made, against the page that it makes of the same recording today.

In: the text of a page, whose first comment is its command.  Out: that page as it should be.
Misuse: a page is compared whole; one that was edited by hand is no report any more.
"""

from __future__ import annotations

import html
import re

from attribution.errors import InputError
from attribution.verify.sources import Sources

ENDINGS = (".html", ".htm")
_COMMAND = re.compile(r"<!--\s*attr (report \S+)\s*-->")


def command(text: str) -> str:
    """`report NAME` of a page, or '' where it does not say that it is a report."""
    match = _COMMAND.search(text)
    return html.unescape(match[1]) if match else ""


def page(text: str, sources: Sources) -> str:
    """The page as it is made today.  Raises AttrError when it is no report, or its recording is no source."""
    if not (source := command(text)):
        raise InputError("is no page of `attr report`: the first comment of such a page is its command")
    return sources.page(source)
