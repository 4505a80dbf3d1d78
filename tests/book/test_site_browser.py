"""The built site in a real browser, from file:// and with nothing to ask another host for."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpoint_tax.publish import pipeline
from checkpoint_tax.publish.chapters import find_project

CHECKOUT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium")
CHROMEDRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER),
    reason="no chromium and chromedriver here (Debian: apt-get install chromium chromium-driver)",
)

CHART_CODE = """
import altair
import pandas
from checkpoint_tax.report import charts

charts.enable()
frame = pandas.DataFrame({"k": [10, 30, 60], "goodput": [92.9, 91.1, 91.5]})
charts.described(
    altair.Chart(frame, width="container").mark_line(point=True).encode(x="k:Q", y="goodput:Q"),
    caption="Goodput is lowest </script> at 30 steps.",
    description="Goodput in percent against the interval in steps",
)
"""

TABLE_CODE = """
from checkpoint_tax.report import tables

display(
    tables.table(
        frame,
        {"k": tables.Column("interval", "steps", 0), "goodput": tables.Column("goodput", "%", 1)},
        name="sweep",
        caption="A sweep",
    )
)
tables.Download("sweep.csv", frame.to_csv(index=False))
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1200,900",
        f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(str(CHROMEDRIVER)))
    driver.set_script_timeout(20)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def checkout_site() -> Path:
    """The site of the committed book, built if it is not fresh."""
    return pipeline.build(find_project(CHECKOUT)).parent


@pytest.fixture(scope="module")
def small_site(small_book_factory) -> Path:
    """A site with one chart, one table, one download and one formula."""
    book = small_book_factory()
    (book.root / "book" / "index.md").write_text(
        "# Small book\n\nMade for {{ book_is_for }}.\n\n$$w = kt$$\n"
    )
    book.add("sweep", "n_gpus: int = 16384  # [1] GPUs of the job", CHART_CODE, TABLE_CODE)
    return pipeline.build(book.project, book.parameters("n_gpus: 512\n")).parent


def settle(browser) -> None:
    """Wait until charts and formulas of the page are drawn, or have had ten seconds."""
    browser.execute_async_script(
        """
        const done = arguments[0], end = Date.now() + 10000;
        (function look() {
          const charts = [...document.querySelectorAll('figure.study-chart')];
          const formulas = document.querySelectorAll('.math').length;
          const ready = charts.every((chart) => chart.dataset.drawn)
            && (!formulas || document.querySelector('mjx-container'));
          if (ready || Date.now() > end) done(); else setTimeout(look, 50);
        })();
        """
    )


def visit(browser, page: Path, query: str = "") -> list[str]:
    """Open a page; return everything wrong with it."""
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(page.as_uri() + query)
    settle(browser)
    problems = [
        f"{entry['level']}: {entry['message']}"
        for entry in browser.get_log("browser")
        if entry["level"] in ("SEVERE", "WARNING")
    ]
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:")):
                problems.append(f"asked for {url}")
    for image in browser.execute_script(
        "return [...document.images].filter((i) => i.complete && !i.naturalWidth).map((i) => i.src)"
    ):
        problems.append(f"image {image} does not load")
    return problems


def marks(browser) -> list[int]:
    """Number of drawn marks in each chart of the page."""
    return browser.execute_script(
        "return [...document.querySelectorAll('figure.study-chart')].map((chart) =>"
        " chart.querySelectorAll('svg .role-mark path, svg .role-mark line, svg .role-mark text')"
        ".length)"
    )


@pytest.mark.parametrize("site", ["checkout_site", "small_site"])
def test_every_page_loads_alone_and_draws_its_charts(browser, site, request):
    folder = request.getfixturevalue(site)
    pages = sorted(page for page in folder.rglob("*.html") if "_static" not in page.parts)
    assert len(pages) >= 4
    problems = {}
    for page in pages:
        found = visit(browser, page)
        if not browser.find_elements("css selector", "h1"):
            found.append("no heading")
        if browser.execute_script(
            "return document.querySelector('.math') && !document.querySelector('mjx-container')"
        ):
            found.append("formulas are not typeset")
        expected = page.read_text(encoding="utf-8").count('<figure class="study-chart"')
        drawn = marks(browser)
        if len(drawn) != expected or not all(drawn):
            found.append(f"{expected} charts, with marks: {drawn}")
        if found:
            problems[page.name] = found
    assert not problems


def test_a_chart_is_drawn_with_its_texts_and_follows_light_and_dark(browser, small_site):
    assert visit(browser, small_site / "sweep.html") == []
    figure = browser.find_element("css selector", "figure.study-chart")
    drawing = figure.find_element("css selector", ".study-chart-drawing")
    assert drawing.get_attribute("aria-label") == "Goodput in percent against the interval in steps"
    assert figure.find_element("css selector", "figcaption").text == (
        "Goodput is lowest </script> at 30 steps."
    )
    inks = {}
    for theme in ("dark", "light"):
        browser.execute_script(f"document.documentElement.dataset.theme = '{theme}'")
        browser.execute_async_script(
            """
            const [theme, done] = arguments, end = Date.now() + 5000;
            (function look() {
              const now = document.querySelector('figure.study-chart').dataset.drawn;
              if (now === theme || Date.now() > end) done(); else setTimeout(look, 30);
            })();
            """,
            theme,
        )
        assert figure.get_attribute("data-drawn") == theme
        inks[theme] = browser.execute_script(
            """
            const label = document.querySelector('figure svg .role-axis-label text');
            const cell = document.querySelector('table.study-table td');
            return [label.getAttribute('fill'), getComputedStyle(cell).color];
            """
        )
    assert inks["dark"][0] != inks["light"][0], "the chart's text"
    assert inks["dark"][1] != inks["light"][1], "the table's text"
    assert marks(browser) == [4], "one line and three points"


def test_a_reader_without_scripts_gets_a_drawing(small_site):
    page = (small_site / "sweep.html").read_text(encoding="utf-8")
    assert re.search(r"<noscript><svg .*</svg></noscript>", page, re.DOTALL)


def test_the_page_shows_the_values_that_were_used(browser, small_site):
    visit(browser, small_site / "sweep.html")
    text = browser.find_element("css selector", "main").text
    assert "n_gpus: int = 512  # [1] GPUs of the job" in text
    assert "16384" not in text
    visit(browser, small_site / "index.html")
    assert "Made for cluster.yaml." in browser.find_element("css selector", "main").text


def test_a_download_lies_beside_the_page(browser, small_site):
    visit(browser, small_site / "sweep.html")
    link = browser.find_element("css selector", ".text_html a[download]").get_attribute("href")
    assert link == (small_site / "sweep.csv").as_uri()
    assert (small_site / "sweep.csv").read_text() == "k,goodput\n10,92.9\n30,91.1\n60,91.5\n"


def test_search_answers_without_a_network(browser, checkout_site):
    assert visit(browser, checkout_site / "search.html", "?q=goodput") == []
    found = browser.execute_async_script(
        "const done = arguments[0], end = Date.now() + 10000;"
        "(function look() {"
        "  const hits = document.querySelectorAll('#search-results ul.search li').length;"
        "  if (hits || Date.now() > end) done(hits); else setTimeout(look, 50);"
        "})()"
    )
    assert found >= 1
