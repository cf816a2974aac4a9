"""The page of Venn-Abers intervals: its recipe against the package, and what it says of limits."""

import doctest
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "doc" / "user_guide" / "venn_abers.rst"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")


@pytest.fixture(scope="module")
def page():
    """The functions `venn_abers` and `merge` as the page has them."""
    examples = doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8"))
    names = {}
    for one in examples:
        if one.source.startswith(("import numpy", "from sklearn.isotonic", "def ")):
            exec(one.source, names)
    return names


def regular(n_samples):
    """Labels and forecasts without random numbers."""
    i = np.arange(1, n_samples + 1)
    p = i * 0.6180339887498949 % 1
    return (i * 0.4142135623730951 % 1 < p**2).astype(int), p


NEW = np.array([0.05, 0.3, 0.5, 0.52, 0.95])


def test_numbers_of_the_package(page):
    """predict_proba of venn-abers 1.5.4, calibrated by the 200 rows of `regular`."""
    y, p = regular(200)
    limits = page["venn_abers"](p, y, NEW)
    expected = [
        [0.0, 0.03333333],
        [0.02941176, 0.09090909],
        [0.1875, 0.3],
        [0.26315789, 0.31578947],
        [0.83333333, 1.0],
    ]
    np.testing.assert_allclose(limits, expected, atol=1e-8)
    merged = [0.03225806, 0.08564232, 0.26966292, 0.3, 0.85714286]
    np.testing.assert_allclose(page["merge"](limits), merged, atol=1e-8)


def test_limits_are_valid(page):
    """The limit of the label that occurs is calibrated, and the others are on either side.

    150 data sets of 30 calibration rows and 10 new ones. The mean of Y - p_Y has mean 0 and, as
    the rows of a data set depend on each other, a standard error from the data sets.
    """
    rng = np.random.default_rng(1)
    residual, below, above = [], [], []
    for _ in range(150):
        score = rng.random(40)
        y = (rng.random(40) < score**2).astype(int)
        limits = page["venn_abers"](score[:30], y[:30], score[30:])
        low, high = limits.T
        assert np.all(low <= high)
        merged = page["merge"](limits)
        assert np.all((low - 1e-12 <= merged) & (merged <= high + 1e-12))
        new = y[30:]
        residual.append(np.mean(new - np.where(new == 1, high, low)))
        below.append(np.mean(new - low))
        above.append(np.mean(high - new))
    error = np.std(residual) / np.sqrt(150)
    assert error < 0.015 and abs(np.mean(residual)) < 4 * error
    assert np.mean(below) > 4 * error and np.mean(above) > 4 * error


def test_the_merged_probability_has_the_smallest_regret(page):
    limits = np.array([[0.2, 0.5], [0.0, 0.1], [0.6, 1.0]])
    low, high = limits.T
    merged = page["merge"](limits)
    with np.errstate(divide="ignore"):
        regrets = np.log(high / merged), np.log((1 - low) / (1 - merged))
    np.testing.assert_allclose(regrets[0], regrets[1], rtol=1e-12)  # equal, so the larger is least
