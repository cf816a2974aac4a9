import numpy as np
import pytest
from scipy.stats import ttest_1samp

from skcalib.intervals import mean_interval


def test_agrees_with_students_interval():
    values = np.random.default_rng(0).normal(size=20)
    expected = ttest_1samp(values, 0).confidence_interval(0.9)
    interval = mean_interval(values, confidence_level=0.9)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_weights_only_count_relative_to_each_other():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=30), rng.random(30)
    one, two = mean_interval(values, weight), mean_interval(values, 1e-3 * weight)
    assert one.standard_error == pytest.approx(two.standard_error)
    assert (one.low, one.high) == pytest.approx((two.low, two.high))


def test_standard_error_of_a_weighted_mean():
    """Over many draws the stated standard error has the size of the true one, within 3 %."""
    rng = np.random.default_rng(0)
    weight = rng.random(200) + 0.1
    draws = rng.normal(size=(4000, 200))
    means = draws @ weight / weight.sum()
    stated = np.mean([mean_interval(draw, weight).standard_error for draw in draws])
    assert stated == pytest.approx(means.std(), rel=0.03)


def test_centre_can_be_another_estimate():
    plain, moved = mean_interval([0.0, 1.0]), mean_interval([0.0, 1.0], estimate=3.0)
    assert moved.estimate == 3.0
    assert moved.high - moved.low == pytest.approx(plain.high - plain.low)


def test_edges():
    one = mean_interval([2.0])
    assert (one.low, one.high) == (-np.inf, np.inf)
    infinite = mean_interval([np.inf, 1.0])
    assert infinite.low == infinite.high == np.inf
    constant = mean_interval([1.0, 1.0])
    assert constant.low == constant.high == 1.0
    for level in (0, 1, 95, "0.95"):
        with pytest.raises(ValueError, match="confidence_level must lie strictly between 0 and 1"):
            mean_interval([0.0, 1.0], confidence_level=level)
