"""Two windows: differences with known truth, and the test of equal calibration curves."""

import numpy as np
import pytest

from skcalib import (
    ForecastSketch,
    calibration_curve_equality_test,
    compare_calibration,
    compare_windows,
)
from skcalib.inference import MeanInterval, difference_interval, interval_pvalue


def windows(seed, n=1500, change=1.0):
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.beta(2, 4, n), rng.beta(4, 2, n)])
    by = np.repeat(["a", "b"], n)
    return rng.random(2 * n) < np.where(by == "a", p, p**change), p, by


def sketches(y, p, by):
    return [ForecastSketch([False, True]).fit(y[by == k], p[by == k]) for k in ("a", "b")]


def test_limits_of_a_difference_by_hand():
    first, second = MeanInterval(5.0, 2.0, 9.0, 1.5), MeanInterval(1.0, -2.0, 5.0, 2.0)
    found = difference_interval(first, second)
    assert (found.low, found.high, found.standard_error) == (-1.0, 9.0, 2.5)
    negative = MeanInterval(-1.0, 0.0, 3.0, 1.0)  # counts as zero
    found = difference_interval(negative, MeanInterval(4.0, 0.0, 8.0, 1.0), floor=0.0)
    assert (found.estimate, found.low, found.high) == (-5.0, -8.0, 1.0)


@pytest.mark.parametrize("low", [-0.001, 0.001])
def test_the_pvalue_agrees_with_the_interval(low):
    interval = MeanInterval(1.0, low, 2.0, 0.5)
    assert (interval_pvalue(interval, 0.95) < 0.05) == (low > 0)


def test_the_change_is_found_and_sketches_agree():
    data = windows(0, change=1.4)
    found, sketched = compare_windows(*data), compare_calibration(*sketches(*data))
    assert found.windows == ("a", "b")
    assert found.observed_minus_expected.difference.low > 0
    assert found.calibration_error.pvalue < 0.01
    for name in ("calibration_error", "slope", "brier", "observed_minus_expected"):
        one, two = (getattr(record, name).difference for record in (found, sketched))
        assert one.estimate == pytest.approx(two.estimate, abs=0.02 * one.standard_error)
    assert len(found.to_frame()) == 7
    assert "p = " in str(found)


def test_observed_minus_expected_by_hand():
    y, p, by = windows(1, 200)
    residual = y - p
    expected = residual[by == "a"].mean() - residual[by == "b"].mean()
    found = compare_windows(y, p, by).observed_minus_expected.difference
    assert found.estimate == pytest.approx(expected, abs=1e-12)


def test_equal_curves_are_kept_and_others_found():
    kept = [calibration_curve_equality_test(*windows(seed, 300)).pvalue for seed in range(40)]
    assert np.mean(np.array(kept) <= 0.05) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 40)
    assert np.mean(kept) > 0.3
    data = windows(2, change=1.4)
    found = calibration_curve_equality_test(*data)
    assert found.pvalue < 1e-3
    assert found.estimate > 0
    assert calibration_curve_equality_test(*sketches(*data)).pvalue < 1e-3
    assert "curves differ" in str(found)


def test_zero_weights_are_dropped():
    y, p, by = windows(3, 200)
    weight = np.where(np.arange(400) % 3, 1.0, 0.0)
    rows = weight > 0
    one = calibration_curve_equality_test(y, p, by, sample_weight=weight)
    two = calibration_curve_equality_test(y[rows], p[rows], by[rows])
    assert one.statistic == pytest.approx(two.statistic, rel=1e-9)


def test_two_models_and_clusters():
    y, p, by = windows(4, 300)
    right = calibration_curve_equality_test(y, p, second=p)
    assert right.pvalue > 0.05
    assert calibration_curve_equality_test(y, p, second=p**2).pvalue < 0.01
    clusters = np.arange(600) % 60
    found = calibration_curve_equality_test(y, p, by, groups=clusters)
    assert "signs of clusters" in found.method
    with pytest.raises(ValueError, match="60 clusters have samples in both windows"):
        compare_windows(y, p, by, groups=clusters)


def test_refusals():
    y, p, by = windows(5, 50)
    with pytest.raises(ValueError, match="by is missing"):
        compare_windows(y, p)
    with pytest.raises(ValueError, match="two different values"):
        compare_windows(y, p, np.zeros(100))
    with pytest.raises(ValueError, match="got one sketch"):
        compare_calibration(sketches(y, p, by)[0], p)
    with pytest.raises(ValueError, match="second is missing"):
        compare_calibration(y, p)
    with pytest.raises(ValueError, match="do not overlap"):
        calibration_curve_equality_test(y, np.where(by == "a", 0.2, 0.8), by)
    with pytest.raises(ValueError, match="at least 10 in each"):
        calibration_curve_equality_test(y[:55], p[:55], by[:55])
