"""Pages in a real browser: sections, narrow screens, dark and print styles, accessibility.

Needs Chromium, its driver and selenium (``pip install ".[browser]"``); skipped where they are
missing.
"""

import base64
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from skcalib import CalibrationReport, ComparisonReport, ForecastSketch
from skcalib.datasets import make_tempered_simplex

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="Chromium or chromedriver is not installed"
)

HERE = Path(__file__).parent
RULES = (HERE / "rules.js").read_text(encoding="utf-8")
#: Width, dark or not, and the medium; 673 pixels are A4 without margins.
VIEWS = [(1280, 0, ""), (1280, 1, ""), (390, 0, ""), (390, 1, ""), (673, 1, "print")]


def rare_event():
    rng = np.random.default_rng(0)
    risk = rng.beta(1, 17, 3000)
    y = (rng.random(3000) < risk).astype(int)
    return CalibrationReport.from_predictions(y, 13 * risk / (1 - risk + 13 * risk), name="rare")


def near_one():
    rng = np.random.default_rng(0)
    p = 1 - rng.beta(1, 200, 4000)
    return CalibrationReport.from_sketch(ForecastSketch([0, 1]).fit(rng.binomial(1, p), p**0.2))


def calibrated():
    samples = make_tempered_simplex(150, 2, score_temperature=1.0, random_state=0)
    return CalibrationReport.from_predictions(samples.y, samples.y_proba)


def ten_classes():
    samples = make_tempered_simplex(1000, 10, random_state=0)
    names = np.array([f"species {k} of a long list of species" for k in range(10)])
    return CalibrationReport.from_predictions(names[samples.y], samples.y_proba, labels=names)


def groups():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 2000))
    y = np.where(rng.random(2000) < expit(-2 + x + 2 * z), "churn", "stay")
    frame = pd.DataFrame({"x": x, "z": z, "region": rng.choice(["north", "south"], 2000)})
    return CalibrationReport.from_predictions(y, expit(-1 + x), frame, pos_label="churn")


def comparison():
    samples = make_tempered_simplex(600, 2, random_state=0)
    models = {
        "raw": samples.y_proba,
        "truth": samples.posterior,
        "a model of a long name": samples.y_proba,
    }
    return ComparisonReport.from_predictions(samples.y, models)


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


REPORTS = [rare_event, near_one, calibrated, ten_classes, groups, comparison]


@pytest.fixture(scope="module", params=REPORTS, ids=lambda make: make.__name__)
def page(request, tmp_path_factory):
    report = request.param()
    path = report.to_html(tmp_path_factory.mktemp("page") / f"{request.param.__name__}.html")
    return report, path


def show(browser, path, *, width=1280, dark=False, media="", details=False):
    """Open a page in a window of that width, with all details open or not, and wait for it."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False,
    })  # fmt: skip
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
    browser.get("about:blank")
    browser.get(f"file://{path}")
    from selenium.webdriver.support.ui import WebDriverWait

    loaded = "return location.protocol === 'file:' && document.readyState === 'complete'"
    WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(loaded))
    every = "document.querySelectorAll('details').forEach(d => d.open = arguments[0])"
    browser.execute_script(every, details)


def test_sections_open_and_close(browser, page):
    report, path = page
    show(browser, path)
    details = browser.find_elements("tag name", "details")
    assert len(details) == len(report._document().sections)
    for section in details:
        summary = section.find_element("tag name", "summary")
        closed = section.size["height"]
        summary.click()
        assert section.get_attribute("open") and section.size["height"] > closed
        summary.click()
        assert not section.get_attribute("open") and section.size["height"] == closed


@pytest.mark.parametrize("width", [390, 1280])
def test_the_first_screen_holds_the_verdict(browser, page, width):
    """Headline, sentences and numbers are visible without scrolling, also on a phone."""
    _, path = page
    show(browser, path, width=width)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    place = "return document.querySelector('.verdict').getBoundingClientRect().bottom"
    assert browser.execute_script(place) < 900
    show(browser, path, width=width, details=True)  # nothing scrolls sideways
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "dark", "media"), VIEWS)
def test_a_page_can_be_read(browser, page, width, dark, media):
    _, path = page
    show(browser, path, width=width, dark=dark, media=media, details=True)
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is (not dark or media == "print")
    assert browser.execute_script(RULES) == []


def test_rules_find_defects(browser):
    show(browser, HERE / "defects.html")
    rules = {rule for rule, *_ in browser.execute_script(RULES)}
    assert rules == {
        "language of the page", "no name", "no label", "heading out of order", "overlap",
        "table without caption", "th without scope", "id twice", "scrolls without focus",
        "contrast", "small letters", "cut",
    }  # fmt: skip


@pytest.fixture(scope="module")
def documentation(tmp_path_factory):
    """A guide page and the reference of a function, built as the documentation is."""
    build = pytest.importorskip("sphinx.cmd.build", reason="Sphinx is not installed").build_main
    source, doc = tmp_path_factory.mktemp("doc"), HERE.parents[1] / "doc"
    for name in ("_ext", "_static", "_templates"):
        shutil.copytree(doc / name, source / name)
    settings = (doc / "conf.py").read_text(encoding="utf-8").replace("html_extra_path", "unused")
    (source / "conf.py").write_text(settings.replace('"sphinx_gallery.gen_gallery",', ""), "utf-8")
    shutil.copy(doc / "user_guide/migration.rst", source)
    shutil.copy(HERE / "documentation.rst", source / "index.rst")
    build(["-Q", str(source), str(source / "out")])
    return source / "out"


@pytest.mark.parametrize(("width", "dark", "media"), VIEWS)
@pytest.mark.parametrize("name", ["migration", "api/skcalib.calibration_error"])
def test_documentation_can_be_read(browser, documentation, name, width, dark, media):
    show(browser, documentation / f"{name}.html", width=width, dark=dark, media=media)
    assert browser.execute_script(RULES) == []
    if width == 390 and "api" in name:
        texts = "[...document.querySelectorAll('dl.field-list dl > dd')].map(e => e.clientWidth)"
        assert min(browser.execute_script(f"return {texts}")) > 0.8 * width


def test_print_shows_all_sections(browser, page):
    _, path = page
    show(browser, path, media="print", dark=True, width=673)
    heights = browser.execute_script(
        "return [...document.querySelectorAll('details')].map(e => e.getBoundingClientRect().height"
        " / e.querySelector('summary').getBoundingClientRect().height)"
    )
    assert min(heights) > 1.5
    code = "return document.querySelector('pre')?.getBoundingClientRect().bottom || 0"
    assert browser.execute_script(code) < 1001  # the height of A4
    tops = "[...document.querySelectorAll('.pair svg')].map(e => e.getBoundingClientRect().top)"
    assert len(set(browser.execute_script(f"return {tops}"))) <= 1
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF") and len(printed) > 20_000
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_notebook_keeps_the_page_in_its_frame(browser, page, tmp_path):
    """The fragment neither leaves the output cell nor restyles what stands around it."""
    report, _ = page
    path = tmp_path / "notebook.html"
    body = report._repr_html_()
    around = '<p id="outside" style="font: 13px serif">text <b>bold</b></p>'
    path.write_text(
        f'<!DOCTYPE html><html><body>{around}<div id="cell" style="width: 620px">{body}</div>'
        "</body></html>",
        encoding="utf-8",
    )
    show(browser, path, details=True)
    inside = browser.execute_script(
        "const cell = document.getElementById('cell');"
        "return [cell.scrollWidth, getComputedStyle(document.getElementById('outside')).fontSize]"
    )
    assert inside[0] <= 620 and inside[1] == "13px"
