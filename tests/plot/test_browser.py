"""The page in a real Chromium: nothing is blocked or loaded, marks, filters, zoom, sorting, slider and theme work, names are inert."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roofline.report.html.diff_page import diff_page
from roofline.report.html.report_page import report_page
from tests.plot.box import estimate, measured, report, row
from tests.plot.test_html import HOSTILE, big

selenium = pytest.importorskip("selenium", reason="pip install selenium: it drives the browser")
BROWSER = next((found for name in ("chromium", "google-chrome", "chromium-browser") if (found := shutil.which(name))), None)
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium and chromedriver on this machine"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PAGE = report(
    row("gemm", 1e14, 1e11, measured=measured(2.0)),
    row("norm", 1e10, 1e10, measured=measured(0.02), estimate=estimate(0.015)),
    row("copy", 0, 1e9, measured=measured(0.001)),
    measured=measured(2.5),
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1000,1400"):
        options.add_argument(word)
    options.binary_location = str(BROWSER)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()


class Page:
    """One page that is open."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def all(self, selector: str) -> list[Any]:
        """Elements by selector."""
        return self.driver.find_elements("css selector", selector)  # type: ignore[no-any-return]

    def one(self, selector: str) -> Any:
        """The element."""
        return self.driver.find_element("css selector", selector)

    def run(self, script: str, *values: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *values)

    def seen(self, selector: str) -> list[Any]:
        """Those that are shown."""
        return [e for e in self.all(selector) if e.is_displayed()]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens a page; at the end nothing may have been complained of, a blocked script least of all."""

    def open_page(text: str) -> Page:
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        browser.get((tmp_path / "page.html").as_uri())
        return Page(browser)

    browser.get("about:blank")
    browser.get_log("browser")
    yield open_page
    assert browser.get_log("browser") == []


def test_the_page_runs_under_its_policy_and_loads_nothing(opened: Any) -> None:
    page = opened(report_page(PAGE))
    assert page.seen("#controls"), "the script ran"
    assert page.run("return getComputedStyle(document.querySelector('#detail')).borderTopStyle") == "solid", "the style took effect"
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")


def test_a_script_that_is_not_its_own_does_not_run(browser: Any, opened: Any) -> None:
    page = opened(report_page(PAGE).replace("</body>", "<script>document.title = 'owned'</script></body>"))
    assert "owned" not in page.driver.title
    assert any("Content Security Policy" in entry["message"] for entry in browser.get_log("browser"))


def test_hostile_names_are_text(opened: Any) -> None:
    rows = [row(name, 1e12 * (i + 1), 1e10, measured=measured(1.0)) for i, name in enumerate(HOSTILE)]
    page = opened(report_page(report(*rows, workload=HOSTILE[3], measured=measured(99.0))))
    page.run("window.alert = () => { document.title = 'owned' }")
    assert "owned" not in page.driver.title
    assert not page.all("img, iframe, #steps b")
    page.one("#plot svg").send_keys("\ue014")
    assert page.one("#detail").text.split(":")[0] in " ".join(
        page.run("return [...document.querySelectorAll('#steps tbody th')].map(e => e.textContent)")
    )
    assert page.run("return document.querySelectorAll('script').length") == 2


def test_pointing_at_a_mark_tells_its_figures(opened: Any) -> None:
    from selenium.webdriver import ActionChains

    page = opened(report_page(PAGE))
    mark = page.seen("path.mark.k-measured[data-i='1']")[0]
    ActionChains(page.driver).move_to_element(mark).perform()
    said = page.one("#detail").text
    assert said.startswith("norm: hbm binds")
    assert "measured 20 ms (500 GFLOP/s)" in said, "1e10 FLOP in 0.02 s"
    assert page.one("#steps tr.pick th").text == "norm"


def test_the_keyboard_walks_zooms_and_resets(opened: Any) -> None:
    page = opened(report_page(PAGE))
    plot = page.one("#plot svg")
    plot.send_keys("\ue014")
    assert page.one("#detail").text.startswith("norm"), "the least intensity is first"
    plot.send_keys("\ue014")
    assert page.one("#detail").text.startswith("gemm")

    def slope() -> float:
        return float(
            page.run("const l = document.querySelector('line[data-roof=hbm]'); return l.getAttribute('x2') - l.getAttribute('x1')")
        )

    before = slope()
    plot.send_keys("+")
    assert slope() == pytest.approx(1.5 * before, rel=0.01)
    plot.send_keys("0")
    assert slope() == pytest.approx(before, abs=0.2)
    plot.send_keys("\ue00c")
    assert page.one("#detail").text.startswith("Point at a mark")


def test_filters_hide_marks_rows_and_roofs(opened: Any) -> None:
    page = opened(report_page(PAGE))
    assert len(page.seen("path.mark[data-i='1']")) == 3
    page.one("input[data-key=hbm]").click()
    assert not page.seen("#plot path.mark[data-i='1']")
    assert [e.text for e in page.seen("#steps tbody th")] == ["gemm"], "copy and norm are bound by HBM"
    page.one("input[data-key=hbm]").click()
    page.one("input[data-key=estimate]").click()
    assert len(page.seen("#plot path.mark[data-i='1']")) == 2
    page.one("fieldset input[data-key=smem]").click()
    assert page.run("return document.querySelector('line[data-roof=smem]').classList.contains('off')")


def test_headings_sort(opened: Any) -> None:
    page = opened(report_page(PAGE))
    names = lambda: [e.text for e in page.all("#steps tbody th")]  # noqa: E731
    bound = next(b for b in page.all("#steps thead button") if b.text == "bound")
    bound.click()
    assert names() == ["copy", "norm", "gemm"]
    assert bound.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    bound.click()
    assert names() == ["gemm", "norm", "copy"]


def test_the_slider_gives_amdahls_law(opened: Any) -> None:
    """80 % of 2.5 s twice as fast: 1 / (0.2 + 0.4) = 1.67 times, 1.5 s; at most 5 times."""
    page = opened(report_page(PAGE))
    assert "gemm 2x faster: the whole 1.67x faster, 2.5 s becomes 1.5 s (measured); at most 5x were it free." in page.one("#answer").text
    slider = page.one("#slider input[type=range]")
    page.run("arguments[0].value = 1; arguments[0].dispatchEvent(new Event('input'))", slider)
    assert "gemm 10x faster: the whole 3.57x faster" in page.one("#answer").text
    assert slider.get_attribute("aria-valuetext") == "10x"


def test_the_waterfall_of_a_step(opened: Any) -> None:
    from selenium.webdriver.support.ui import Select

    page = opened(report_page(PAGE))
    Select(page.one("#fall-step")).select_by_visible_text("norm")
    said = page.one("#fall svg").get_attribute("aria-label")
    assert said.startswith("ideal 10 ms; ")
    assert said.endswith("estimate 15 ms; unexplained +5 ms; measured 20 ms")


def test_the_theme_can_be_chosen(opened: Any) -> None:
    page = opened(report_page(PAGE))
    shade = "return getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector('.tx')).fill"
    light = page.run(shade)
    page.one("#theme").click()
    assert page.one("#theme").text == "theme: light"
    assert page.run(shade) == light
    page.one("#theme").click()
    dark = page.run(shade)
    assert dark == "rgb(13, 17, 23)rgb(230, 237, 243)"
    assert dark != light


@pytest.mark.parametrize("width", [390, 1000])
def test_a_hundred_rows_at_any_width_have_labels_apart(opened: Any, width: int) -> None:
    page = opened(report_page(big(100)))
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        page.run("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.run("return document.documentElement.scrollWidth") <= width
        boxes = page.run(
            "return [...document.querySelectorAll('#plot text')].filter(e => e.getClientRects().length && e.textContent)"
            ".map(e => { const b = e.getBBox(); return [b.x, b.y + 3, b.x + b.width, b.y + b.height - 3, e.textContent]; })"
        )
        assert len(boxes) > 8
        for i, a in enumerate(boxes):
            for b in boxes[i + 1 :]:
                assert a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] or b[3] <= a[1], (a, b)
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_two_reports(opened: Any) -> None:
    head = report(row("gemm", 1e14, 1e11, measured=measured(1.2)), row("norm", 1e10, 5e9, measured=measured(0.01)), measured=measured(1.3))
    page = opened(diff_page(PAGE, head, "base.json", "head.json"))
    assert "compared 2" in page.one(".summary").text
    assert len(page.seen("#plot .base")) == 2
    assert page.seen("#changed")
