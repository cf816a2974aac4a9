"""Write the picture of the start page, ``doc/_static/report.png``: the first screen of a report.

Needs Chromium, chromedriver and selenium (extra ``browser``).
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from selenium import webdriver
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skcalib import CalibrationReport

PICTURE = Path(__file__).resolve().parents[1] / "_static" / "report.png"
WIDTH, HEIGHT = 1040, 900


def report():
    """The report that the start page and README print."""
    X, y = make_classification(
        6000, 5, n_informative=4, n_redundant=0, weights=[0.9], random_state=1
    )
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    model = LogisticRegression(class_weight="balanced").fit(X_train, y_train)
    return CalibrationReport.from_estimator(model, X_test, y_test)


def write():
    """Save a screenshot of the page."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options)
    with TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        report().to_html(page)
        driver.set_window_size(WIDTH, HEIGHT)
        driver.get(page.as_uri())
        end = driver.execute_script(
            "return document.querySelector('details').getBoundingClientRect().top"
        )
        frame = HEIGHT - driver.execute_script("return innerHeight")
        driver.set_window_size(WIDTH, int(end) + frame)
        driver.save_screenshot(str(PICTURE))
    driver.quit()


if __name__ == "__main__":
    write()
