"""Reports as a browser shows them: plots are drawn, nothing is wider than the page, no request."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Final

import pytest

from orbitmq.demo.report import page as demo_page
from orbitmq.spark.jobs.archiving.page import archive_page
from orbitmq.spark.jobs.profiling.page import profile_page
from orbitmq.spark.jobs.reconciling.figures import reconciliation
from orbitmq.spark.jobs.reconciling.page import reconcile_page
from orbitmq.spark.jobs.redriving.page import dead_letters_page
from orbitmq.spark.jobs.tracing.page import trace_page
from tests.demo.measured import measured
from tests.interop.conftest import decline
from tests.spark.jobs.archiving.test_page import FOUND as ARCHIVED
from tests.spark.jobs.profiling.test_page import FOUND as PROFILED
from tests.spark.jobs.reconciling.test_figures import some_minutes
from tests.spark.jobs.redriving.test_page import FOUND as DEAD
from tests.spark.jobs.tracing.test_page import FOUND as TRACED

PAGES: Final[dict[str, Callable[[], str]]] = {
    "archive": lambda: archive_page(ARCHIVED, "orders", "./archive"),
    "dead letters": lambda: dead_letters_page(DEAD, "billing"),
    "demo": lambda: demo_page(measured()),
    "profile": lambda: profile_page(PROFILED, "/directory" * 9),  # that of a store, say
    "reconcile": lambda: reconcile_page(
        reconciliation(some_minutes(2), [], [], late_ms=5), "orders"
    ),
    "trace": lambda: trace_page(TRACED, "traces"),
}
# Says in the title what the browser made of the page. A plot is drawn if each of its shapes has a
# size; a text is readable if it is not smaller than 9 pixels, and a number if it is in one line. A
# section that scrolls has shadows at its sides, which its ends, as they scroll along, cover.
PROBE: Final = """
<script>addEventListener("load", () => {
  const plots = [...document.querySelectorAll("svg")];
  const drawn = plots.filter(plot => plot.getBoundingClientRect().height > 20 &&
    [...plot.querySelectorAll("rect, path, polyline, circle")].some(
      shape => shape.getBoundingClientRect().width > 0));
  const texts = [...document.querySelectorAll("svg text, td, p")];
  top.document.title = JSON.stringify({
    wider: document.documentElement.scrollWidth - window.innerWidth,
    plots: plots.length,
    drawn: drawn.length,
    unmarked: [...document.querySelectorAll("section")].filter(one =>
      one.scrollWidth > one.clientWidth &&
      !getComputedStyle(one).backgroundAttachment.includes("local")).length,
    small: texts.filter(text => text.getBoundingClientRect().height < 9).length,
    broken: [...document.querySelectorAll("td")].filter(cell => {
      const text = document.createRange();
      text.selectNodeContents(cell);
      return getComputedStyle(cell).textAlign === "right" && text.getClientRects().length > 1;
    }).length,
    requests: performance.getEntriesByType("resource").map(one => one.name),
  });
});</script>
"""


PHONE: Final = 390
LEAST: Final = 500  # no window of Chromium is narrower: a phone's is a frame within it


@pytest.mark.parametrize("width", [1280, 800, PHONE])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_a_browser(name: str, width: int, tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        decline("no chromium on the PATH")
    page = PAGES[name]() + PROBE
    if width < LEAST:
        page = f'<iframe width="{width}" height="800" srcdoc="{escape(page)}"></iframe>'
    (tmp_path / "page.html").write_text(page)
    shown = subprocess.run(
        [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *(f"--window-size={width},900", f"--user-data-dir={tmp_path}/profile"),
            *("--disable-background-networking", (tmp_path / "page.html").as_uri()),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    title = re.search(r"<title>(\{.*?\})</title>", shown)
    assert title, shown[:300]
    seen = json.loads(title[1].replace("&quot;", '"'))
    assert seen.pop("plots") == seen["drawn"] > 0
    assert seen["wider"] <= 0
    assert (seen["small"], seen["requests"]) == (0, [])
    assert seen["broken"] == 0, "a number goes on in the next line"
    assert seen["unmarked"] == 0, "what scrolls within its section looks cut off"
