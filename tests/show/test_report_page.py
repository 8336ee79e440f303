"""The page in a real Chromium, on a phone's and on a desk's width: it fits, it opens, it asks nobody, it runs nothing.

The browser is the one of this machine (`make test` installs Debian's where it may), else the one that CHROMIUM names.
Without one these tests are skipped, but never where CI is set: there a missing browser is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import planted_report

from attribution.show.report import report
from attribution.show.report_html import html

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-component-update"]
WIDTHS = [390, 1440]
CONTRAST = """() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = light(rgb(getComputedStyle(document.body).backgroundColor));
  const found = [];
  for (const one of document.querySelectorAll('p, td, th, dt, dd, h1, h2, h3, a, small, code, .badge, svg text')) {
    const style = getComputedStyle(one), ink = light(rgb(one.closest('svg') ? style.fill : style.color));
    found.push([one.className.baseVal ?? one.className, (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)]);
  }
  return found;
}"""


def chromium() -> str | None:
    """The browser to drive, or None."""
    return os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = chromium()
    if path is None:
        reason = "no Chromium here: install Debian's package chromium, or name one in CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a recording whose names are markup."""
    folder = tmp_path_factory.mktemp("page")
    path = folder / "page.html"
    path.write_text(html(report(planted_report.hostile(folder / "hostile"))), encoding="utf-8")
    return path


class Watched:
    """A page, opened from disk without a network, with everything that it did: other requests, dialogs, errors."""

    def __init__(self, browser: Any, file: Path, width: int, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion="reduce", offline=True
        )
        self.page = self.context.new_page()
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        self.errors: list[str] = []
        own = file.as_uri()
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda r: None if r.url in (own, "data:,") else self.requests.append(r.url))
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.goto(own)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_clicked_through_it_fits_and_neither_asks_nor_runs_anything(browser: Any, file: Path, width: int) -> None:
    with Watched(browser, file, width) as seen:
        page = seen.page
        assert seen.overflow() == 0
        for link in page.locator("nav a").all():
            link.click()
            anchor = link.get_attribute("href")
            top = page.evaluate(f"document.querySelector('{anchor}').getBoundingClientRect().top")
            assert 0 <= top < 844
            assert page.url.endswith(str(anchor))
        claims = page.locator("details.claim")
        assert claims.count() > 3
        for claim in claims.all():
            assert not claim.locator(".asks").is_visible()
            claim.locator("summary").click()
            assert claim.locator(".asks").is_visible()
            assert claim.locator(".checks dd").first.inner_text()
        assert seen.overflow() == 0
        assert page.evaluate("document.scripts.length") == 0
        assert (seen.dialogs, seen.requests, seen.errors) == ([], [], [])


@pytest.mark.parametrize("width", WIDTHS)
def test_names_from_files_are_read_as_they_are(browser: Any, file: Path, width: int) -> None:
    with Watched(browser, file, width) as seen:
        assert seen.page.locator("h1").inner_text() == planted_report.SCRIPT
        shown = seen.page.locator(".arm code").all_inner_texts()
        assert planted_report.ARM in shown
        assert planted_report.ROLE in seen.page.locator("td code").all_inner_texts()
        seen.page.locator("details.claim summary").last.click()
        assert planted_report.ASKS in seen.page.locator(".asks").all_inner_texts()


@pytest.mark.parametrize("width", WIDTHS)
def test_texts_of_figures_keep_their_size_and_stay_inside(browser: Any, file: Path, width: int) -> None:
    script = """() => [...document.querySelectorAll('figure svg text')].map(t => {
      const box = t.getBoundingClientRect(); return [box.height, box.left, box.right, innerWidth] })"""
    with Watched(browser, file, width) as seen:
        found = seen.page.evaluate(script)
        assert len(found) > 20
        assert min(height for height, *_ in found) >= 11
        assert all(left >= 0 and right <= most for _, left, right, most in found)


@pytest.mark.parametrize("width", WIDTHS)
def test_names_and_values_of_bars_do_not_touch(browser: Any, file: Path, width: int) -> None:
    script = """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
      const boxes = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
      return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
        a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom).map(() => svg.id)) })"""
    with Watched(browser, file, width) as seen:
        assert seen.page.evaluate(script) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_suits_light_and_dark(browser: Any, file: Path, scheme: str) -> None:
    with Watched(browser, file, 1440, scheme) as seen:
        red = int(re.findall(r"\d+", seen.page.evaluate("getComputedStyle(document.body).backgroundColor"))[0])
        assert (red > 200) == (scheme == "light")
        low = [(name, ratio) for name, ratio in seen.page.evaluate(CONTRAST) if ratio < 4.5]
        assert low == []


def test_what_must_not_happen_is_noticed(browser: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><script>alert(1)</script><img src='http://127.0.0.1:9/x.png'><div style='width:3000px'>wide</div>"
        "<script>throw new Error('planted')</script>",
        encoding="utf-8",
    )
    with Watched(browser, bad, 390) as seen:
        assert seen.dialogs == ["1"]
        assert seen.requests == ["http://127.0.0.1:9/x.png"]
        assert "planted" in " ".join(seen.errors)
        assert seen.overflow() > 2000
