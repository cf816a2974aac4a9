"""Problems of very many samples are estimated from sums over cells of the log odds."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import pairs
from dense_directions import problem_of
from scipy.special import expit

from skcalib import CalibrationErrorEstimator, proper_calibration_error
from skcalib.errors.corp import IsotonicCurve, consistency_band
from skcalib.proper.map_average import compress_rows


def make(n_samples, spread, slope=0.6, seed=0):
    rng = np.random.default_rng(seed)
    odds = spread * rng.standard_normal(n_samples)
    y = (rng.random(n_samples) < expit(slope * odds)).astype(int)
    return y, expit(odds), rng.random(n_samples) + 0.1


@pytest.mark.parametrize("spread", [1.0, 8.0, 40.0])
@pytest.mark.parametrize("loss", ["brier", "log"])
def test_estimates_are_those_of_the_samples(set_sizes, spread, loss):
    set_sizes(merged_cells=1 << 10)  # so that cells hold several samples
    y, p, weight = make(20_000, spread)
    p[:20], y[:20] = 0.0, 0
    assert len(compress_rows(problem_of(y, p)).weight) == len(y)  # too few
    estimates = []
    for many in (10**9, 10_000):
        set_sizes(merged_samples=many)
        fitted = CalibrationErrorEstimator(loss=loss).fit(p, y, sample_weight=weight)
        estimates.append(
            [fitted.calibration_error_, *fitted.confidence_interval_, fitted.refinement_]
        )
    assert len(compress_rows(problem_of(y, p, weight)).weight) < 0.5 * len(y)
    tolerances = 2e-2, 0.05, 0.05, 2e-2  # limits have other cells
    for expected, estimate, tolerance in zip(*estimates, tolerances, strict=True):
        assert estimate == pytest.approx(expected, rel=tolerance)
    assert estimates[0] != estimates[1]


def test_sums_of_the_samples_are_kept(set_sizes):
    set_sizes(merged_samples=100)
    y, p, weight = make(3000, 30.0)
    p[:3], p[3:6] = 0.0, 1.0
    samples = problem_of(y, p, weight)
    few = compress_rows(samples)
    assert few.n_samples == 3000
    assert few.square.sum() == pytest.approx((weight**2).sum(), rel=1e-12)
    for name in ("forecast", "target"):
        sums = [problem.weight @ getattr(problem, name) for problem in (samples, few)]
        np.testing.assert_allclose(*sums, rtol=1e-12)
    for value in (0.0, 1.0):  # forecasts that are certain are not mixed with others
        here = few.forecast[:, 1] == value
        assert few.count[here].sum() == np.sum(p == value)
    reverse = compress_rows(problem_of(y[::-1], p[::-1], weight[::-1]))
    np.testing.assert_allclose(reverse.forecast, few.forecast, rtol=1e-12)


def test_problems_that_stay_as_they_are(set_sizes):
    """Also several problems: the terms of several classes are added by sample."""
    y, p, _ = make(2000, 2.0)
    before = proper_calibration_error(y, p, notion="classwise")
    set_sizes(merged_samples=100)
    assert proper_calibration_error(y, p, notion="classwise") == before
    assert proper_calibration_error(y, p, notion="top_label") > 0
    samples = problem_of(y, p)
    soft = replace(samples, labels_or_target=pairs(p))
    clusters = replace(samples, cluster=np.arange(2000) // 2)
    for problem in (soft, clusters, compress_rows(samples)):
        assert compress_rows(problem) is problem


def test_groups_of_scores_keep_their_order_and_weight():
    y, p, _ = make(20_000, 2.0)
    curve, samples = IsotonicCurve.of(problem_of(y, p)), problem_of(y, p)
    grouped, few = curve.grouped(samples)
    assert 1000 < len(few.weight) <= 2500 and few.weight.sum() == 20_000
    assert np.all(np.diff(grouped.tied.score) > 0)


@pytest.mark.slow
def test_band_of_groups_is_that_of_single_scores(set_sizes):
    """Two bands differ by their random numbers only, about 3 % of the width for 500 resamples."""
    y, p, _ = make(20_000, 2.0)
    curve, samples = IsotonicCurve.of(problem_of(y, p)), problem_of(y, p)
    band = consistency_band(curve, samples, 0.9, 500, np.random.RandomState(0))
    set_sizes(band_scores=10**9)
    exact = consistency_band(curve, samples, 0.9, 500, np.random.RandomState(1))
    assert curve.grouped(samples) == (curve, samples)
    inner = (curve.prob_pred > 0.02) & (curve.prob_pred < 0.98)
    width = (exact[1] - exact[0])[inner]
    for limit_of_groups, limit_of_scores in zip(band, exact, strict=True):
        difference = (limit_of_groups - limit_of_scores)[inner] / width
        assert abs(difference.mean()) < 0.03
        assert np.sqrt(np.mean(difference**2)) < 0.08
