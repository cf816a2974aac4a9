"""Top-label errors by predicted class: the recipe of the guide, which is read from its page."""

import doctest
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from skcalib import calibration_error

PAGE = Path(__file__).parents[2] / "doc" / "user_guide" / "binned_errors.rst"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")


@pytest.fixture(scope="module")
def recipe():
    """The function `top_label_errors` as the page has it."""
    examples = doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8"))
    (source,) = [one.source for one in examples if "def top_label_errors" in one.source]
    names = {"np": np}
    exec(source, names)
    return names["top_label_errors"]


def regular():
    """Labels and over-confident forecasts of three classes, without random numbers."""
    i = np.arange(1, 601)
    logits = 2.5 * np.column_stack([np.sin(i), np.sin(2.3 * i), np.cos(1.7 * i)])
    truth, proba = (softmax(scale * logits, axis=1) for scale in (0.5, 1.0))
    u = i * 0.4142135623730951 % 1
    return (u[:, None] > truth.cumsum(axis=1)[:, :2]).sum(axis=1), proba


@pytest.mark.parametrize(
    ("n_edges", "expected"),
    [(6, 0.1567280371011013), (11, 0.1633499457808152), (16, 0.16447921231640059)],
)
def test_mapie(recipe, n_edges, expected):
    """top_label_ece of MAPIE 1.6 with num_bins=n_edges and split_strategy="uniform"."""
    options = {"strategy": "uniform", "n_bins": n_edges - 1}
    found = recipe(*regular(), [0, 1, 2], calibration_error, **options)
    assert np.mean([error for _, error in found.values()]) == pytest.approx(expected, rel=1e-12)


def test_by_hand(recipe):
    """Class "a" is predicted with .8 and right in 2 of 4 cases, "b" with .6 and always right."""
    proba = np.array([[0.8, 0.2]] * 4 + [[0.4, 0.6]] * 2)
    y = np.array(["a", "a", "b", "b", "b", "b"])
    found = recipe(y, proba, ["a", "b"], calibration_error, n_bins=1)
    assert found["a"] == pytest.approx((4 / 6, 0.3))
    assert found["b"] == pytest.approx((2 / 6, 0.4))
    one = calibration_error(y, proba, notion="top_label", n_bins=1)  # the errors cancel
    assert one == pytest.approx(abs(4 * 0.3 - 2 * 0.4) / 6)


def test_threshold_and_missing_classes(recipe):
    y, proba = regular()
    kept = proba.max(axis=1) > 0.9
    found = recipe(y, proba, [0, 1, 2], calibration_error, n_bins=5, threshold=0.9)
    again = recipe(y[kept], proba[kept], [0, 1, 2], calibration_error, n_bins=5)
    for label, (share, error) in found.items():
        assert (share, error) == (pytest.approx(again[label][0] * kept.mean()), again[label][1])
    assert set(found) == {0, 1, 2}
    wide = np.column_stack([proba, np.zeros(600)])
    assert 3 not in recipe(y, wide, [0, 1, 2, 3], calibration_error)
