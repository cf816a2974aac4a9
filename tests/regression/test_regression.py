"""Regression: the score of a mean and a variance, the map of the variance, its reliability."""

import runpy
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from golden import GOLDEN, golden_rows, needs_golden
from scipy.optimize import minimize
from scipy.stats import norm, t
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline

from skcalib.regression import (
    RecalibratedRegressorCV,
    VarianceScaling,
    dawid_sebastiani_improvement,
    dawid_sebastiani_score,
    variance_reliability,
)
from skcalib.regression.scaling import Profile

ROOT = Path(__file__).parents[2]


def forecasts(n_samples, slope, intercept, *, seed=0, spread=1.0):
    """Outcomes, means and variances; the variance of the outcome is slope v + intercept."""
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(0, 3, n_samples), rng.lognormal(0, spread, n_samples)
    y = mean + np.sqrt(slope * variance + intercept) * rng.standard_normal(n_samples)
    assert min(np.ptp(mean), np.ptp(y), np.ptp(variance)) > 1 and variance.min() > 0
    return y, np.column_stack([mean, variance])


def standardised(y, moments, weight=None):
    return np.average((y - moments[:, 0]) ** 2 / moments[:, 1], weights=weight)


def test_score_is_twice_the_gaussian_log_likelihood():
    y, moments = forecasts(50, 2, 1)
    mean, variance = moments.T
    expected = np.mean(-2 * norm.logpdf(y, mean, np.sqrt(variance))) - np.log(2 * np.pi)
    assert dawid_sebastiani_score(y, mean, variance) == pytest.approx(expected, rel=1e-12)
    # With mean^2 + variance in float64 nothing of the variance would be left.
    far_score = dawid_sebastiani_score([1e9 + 0.25], [1e9], [0.0625])
    assert far_score == pytest.approx(1 + np.log(0.0625), rel=1e-12)
    weight = np.random.default_rng(0).integers(0, 3, 50)
    assert set(weight) == {0, 1, 2}
    both = weight, 7.0 * weight
    weighted, scaled = (dawid_sebastiani_score(y, mean, variance, sample_weight=w) for w in both)
    assert scaled == pytest.approx(weighted)
    rows = np.repeat(np.arange(50), weight)
    assert dawid_sebastiani_score(y[rows], *moments[rows].T) == pytest.approx(weighted, rel=1e-12)


@needs_golden
def test_golden_variance_map():
    """The published optimum has b < 0. Where all variances are moved down it lies inside ours.

    w v + b = w (v - d) + (b + w d): the maps are the same functions of the samples, and b + w d
    is positive for d = .01, while all v - d stay positive.
    """
    golden = {row["quantity"]: row["value"] for row in golden_rows("gauss200")}
    arrays = np.load(GOLDEN / "gauss200.npz")
    moments, y = np.column_stack([arrays["mu"], arrays["var"]]), arrays["y"]
    w, b = golden["platt_variance_[w,b]_unconstrained_sign"]
    assert b < 0 < b + 0.01 * w and moments[:, 1].min() > 0.01
    moved = VarianceScaling().fit(moments - [0, 0.01], y)
    assert moved.coef_ == pytest.approx(w, abs=1e-5)
    assert moved.intercept_ - 0.01 * moved.coef_ == pytest.approx(b, abs=1e-5)
    optimum = golden["platt_variance_dss_opt_unconstrained"]
    assert moved.loss_after_ == pytest.approx(optimum, abs=1e-9)
    # Here b is bound to 0, and the map of one parameter is the best.
    for scaling in (VarianceScaling(), VarianceScaling(fit_intercept=False)):
        scaling.fit(moments, y)
        assert scaling.coef_ == pytest.approx(golden["scale_only_w"], abs=1e-5)
        assert scaling.intercept_ == 0 and scaling.loss_after_ > optimum
        assert standardised(y, scaling.transform(moments)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("slope", "intercept"), [(2.0, 1.0), (0.3, 0.02), (1.0, 0.0), (0.0, 4.0), (5.0, -0.0), (0.1, 9)]
)
@pytest.mark.parametrize("seed", range(2))
def test_optimum(slope, intercept, seed):
    """No worse than an optimiser from ten starts; gradient zero or outward; the units cancel."""
    y, moments = forecasts(300, slope, intercept, seed=seed)
    squared, variance = (y - moments[:, 0]) ** 2, moments[:, 1]

    def loss(theta):
        v = theta[0] * variance + theta[1]
        slope = (v - squared) / v**2
        value = np.mean(squared / v + np.log(v))
        return value, np.array([np.mean(slope * variance), np.mean(slope)])

    scaling = VarianceScaling().fit(moments, y)
    optimum = np.array([scaling.coef_, scaling.intercept_])
    assert scaling.converged_ and np.all(optimum >= 0) and scaling.injective_ == (optimum[0] > 0)
    assert slope > 0 or optimum[0] == 0  # at least where the truth is constant, the end is reached
    value, gradient = loss(optimum)
    assert scaling.loss_after_ == pytest.approx(value, rel=1e-12)
    assert scaling.loss_before_ == pytest.approx(loss([1.0, 0.0])[0], rel=1e-12)
    assert scaling.loss_after_ <= scaling.loss_before_
    starts = np.random.default_rng(seed).lognormal(0, 2, (10, 2))
    bounds = [(1e-12, None)] * 2
    others = [minimize(loss, s, jac=True, bounds=bounds, method="L-BFGS-B").fun for s in starts]
    assert value <= min(others) + 1e-10
    assert np.all(
        np.where(optimum > 0, np.abs(gradient) * np.maximum(optimum, 1), -gradient) < 1e-8
    )
    assert standardised(y, scaling.transform(moments)) == pytest.approx(1, abs=1e-12)
    rescaled = VarianceScaling().fit(moments * [1e-3, 1e-6], 1e-3 * y)
    assert rescaled.coef_ == pytest.approx(scaling.coef_, rel=1e-7, abs=1e-12)
    assert 1e6 * rescaled.intercept_ == pytest.approx(scaling.intercept_, rel=1e-7, abs=1e-12)


def test_the_lowest_of_several_optima():
    """Data whose score has two local optima, asserted on a dense grid: the lower one is found."""
    odds = np.geomspace(1e-9, 1e9, 1000)
    for variance, squared in (
        ([100, 1, 1, 0.01, 100], [0.001, 0.01, 100, 1, 1000]),
        ([100, 1000, 1000, 1, 0.001], [0.01, 1, 1000, 10, 0.01]),
        ([1000, 1000, 0.001, 0.01], [100, 0.01, 0.001, 10]),
    ):
        variance, squared = np.array(variance, dtype=float), np.array(squared)
        profile = Profile(squared, variance / variance.mean(), np.ones(len(variance)))
        grid = np.array([profile.value(share) for share in (0, *odds / (1 + odds), 1)])
        assert np.sum(np.diff(np.sign(np.diff(grid, prepend=np.inf, append=np.inf))) > 0) == 2
        moments = np.column_stack([np.zeros_like(variance), variance])
        scaling = VarianceScaling().fit(moments, np.sqrt(squared))
        assert grid.min() - 1e-3 < scaling.loss_after_ <= grid.min() + 1e-12


def test_edges_of_the_map(set_sizes):
    fitted_map = attrgetter("coef_", "intercept_", "converged_")
    scaling = VarianceScaling().fit([[0.0, 0.1]] * 5, np.arange(5.0))
    assert fitted_map(scaling) == (pytest.approx(60), 0, True)
    single = VarianceScaling().fit([[0.0, 4.0]], [6.0])
    assert fitted_map(single) == (9, 0, True)
    with pytest.warns(ConvergenceWarning, match="all residuals are zero, so .* are not changed"):
        perfect = VarianceScaling().fit([[1.0, 4.0], [2.0, 5.0]], [1.0, 2.0])
    assert (*fitted_map(perfect), perfect.n_iter_) == (1, 0, False, 0)
    # A variance of zero has a score of infinity, so it is refused; but the map has a value there.
    np.testing.assert_array_equal(single.transform([[3.0, 0.0]]), [[3.0, 0.0]])
    with pytest.raises(ValueError, match="must not be negative, but row 0 holds -1"):
        single.transform([[0.0, -1.0]])
    y, moments = forecasts(50, 2, 1)
    mean, std = single.predict(moments, return_std=True)
    mapped = np.column_stack([mean, std**2])
    np.testing.assert_allclose(mapped, single.transform(moments), rtol=1e-12)
    np.testing.assert_array_equal(mean, single.predict(moments))
    set_sizes(bracket_iterations=1)
    with pytest.warns(ConvergenceWarning, match="no optimum was reached in 1 iterations"):
        short = VarianceScaling().fit(moments, y)
    assert not short.converged_
    assert short.loss_after_ < short.loss_before_


def test_errors_name_the_argument():
    score, fit, gain = dawid_sebastiani_score, VarianceScaling().fit, dawid_sebastiani_improvement
    for function, arguments, message in (
        (score, ([1, 2], [[0, 0], [0, 0]], [1, 1]), r"y_mean must have shape \(n,\)"),
        (score, ([1, 2], [0j, 1], [1, 1]), "y_mean must hold real numbers"),
        (fit, ([[0, 1], [0, -2]], [1, 2]), "y_var, the second column of mean_.* row 1 holds -2"),
        (fit, ([[0, 1], [0, 0]], [1, 2]), "y_var.* must be positive.*Give the regressor a noise"),
        (fit, ([[0, 1], [0, np.nan]], [1, 2]), "y_var contains NaN"),
        (fit, ([[np.inf, 1], [0, 1]], [1, 2]), "y_mean contains infinity"),
        (fit, ([[0, 1], [0, 1e-120]], [1, 2]), "variances between 1e-100 and 1e[+]100"),
        (fit, ([[0, 1], [0, 1]], [1, np.nan]), "y contains NaN"),
        (fit, ([[0, 1], [0, 1]], [1, 2, 3]), "same number of samples, got 3, 2 and 2"),
        (gain, ([1, 2], [[0, 1], [0, -2]], [[0, 1]] * 2), "variance, second column of before, "),
        (fit, ([1, 2], [1, 2]), r"must have two columns, the mean and the .* got shape \(2,\)"),
        (fit, ((np.zeros(3), np.ones(3)), np.ones(3)), r"got shape \(2, 3\): np.column_stack"),
        (fit, (pd.DataFrame({"var": [1.0], "mean": [0.0]}), [1]), "the mean comes first"),
    ):
        with pytest.raises(ValueError, match=message):
            function(*arguments)


def test_improvement_is_the_difference_of_two_scores():
    rng = np.random.default_rng(0)
    variance, weight = rng.uniform(0.5, 2, (2, 300))
    y = rng.normal(1, np.sqrt(3 * variance))
    before = np.column_stack([np.zeros(300), variance])
    scaling = VarianceScaling().fit(before, y, weight)
    after, improvement = scaling.transform(before), dawid_sebastiani_improvement
    losses = [dawid_sebastiani_score(y, *m.T, sample_weight=weight) for m in (before, after)]
    gain = improvement(y, before, scaling, sample_weight=weight)
    numbers = gain.loss_before, gain.loss_after, gain.estimate
    assert numbers == pytest.approx((*losses, losses[0] - losses[1]), rel=1e-12)
    by_arrays = improvement(y, before, after, sample_weight=weight)
    assert (gain.injective, by_arrays.injective) == (scaling.injective_, None)
    assert by_arrays.estimate == gain.estimate
    units = [1000, 1e6]
    rescaled = improvement(1000 * y, before * units, after * units, sample_weight=weight)
    assert rescaled.estimate == pytest.approx(gain.estimate, rel=1e-9)
    assert rescaled.pvalue == pytest.approx(gain.pvalue, rel=1e-6)


def test_reliability_by_hand():
    variance = np.array([1.0, 4.0, 2.0, 3.0, 2.0])
    y = np.array([1.0, 2.0, 2.0, 3.0, 0.0])
    reliability = variance_reliability(y, np.zeros(5), variance, n_bins=2, confidence_level=0.9)
    # floor(5 / 2) = 2 samples in the first bin, and a third that is tied with the second
    for name, expected in {
        "n_samples": [3, 2],
        "predicted_variance": [5 / 3, 7 / 2],
        "mean_squared_error": [5 / 3, 13 / 2],
        "ratio": [1, 13 / 7],
        "overall_ratio": 18 / 12,
        "instance_ratio": (1 + 1 + 2 + 3 + 0) / 5,  # G22 table 2
    }.items():
        np.testing.assert_allclose(getattr(reliability, name), expected)
    assert 0 < reliability.instance_low < reliability.instance_ratio < reliability.instance_high
    assert np.all((reliability.low < reliability.ratio) & (reliability.ratio < reliability.high))
    np.testing.assert_allclose(reliability.low * reliability.high, reliability.ratio**2)


def test_intervals_of_ratios_are_those_of_their_logarithms():
    """Student's, of (r^2 - ratio v) / mean v over the ratio; of r^2 / v as it is."""
    y, moments = forecasts(40, 2, 0)
    weight = np.random.default_rng(1).uniform(0.2, 2, 40)
    options = {"n_bins": 1, "sample_weight": weight, "confidence_level": 0.8}
    reliability = variance_reliability(y, *moments.T, **options)
    squared, v, share = (y - moments[:, 0]) ** 2, moments[:, 1], weight / weight.sum()
    m, ratio, instance = 1 / (share @ share), share @ squared / (share @ v), share @ (squared / v)
    parts = (squared - ratio * v) / (share @ v) / ratio, squared / v - instance
    of_log, of_mean = (
        t.ppf(0.9, m - 1) * np.sqrt(share**2 @ part**2 * m / (m - 1)) for part in parts
    )
    limits = reliability.overall_low, reliability.overall_high
    assert limits == pytest.approx((ratio * np.exp(-of_log), ratio * np.exp(of_log)), rel=1e-10)
    assert (reliability.low[0], reliability.high[0]) == pytest.approx(limits, rel=1e-10)
    limits = reliability.instance_low, reliability.instance_high
    assert limits == pytest.approx((instance - of_mean, instance + of_mean), rel=1e-10)


def test_reliability_of_weights_ties_and_single_samples():
    y, moments = forecasts(200, 1, 0)
    weight = np.random.default_rng(0).integers(0, 2, 200)
    weighted = variance_reliability(y, *moments.T, sample_weight=3.0 * weight)
    dropped = variance_reliability(y[weight > 0], *moments[weight > 0].T)
    np.testing.assert_allclose([weighted.ratio, weighted.high], [dropped.ratio, dropped.high])
    overall = attrgetter("overall_ratio", "overall_low", "overall_high")
    for y, mean, variance, expected in (
        ([1.0], [0.0], [2.0], (0.5, 0, np.inf)),
        ([1.0, 1.0], [1.0, 1.0], [2.0, 2.0], (0, 0, 0)),
    ):
        reliability = variance_reliability(y, mean, variance)
        assert overall(reliability) == expected
        assert (reliability.ratio[0], reliability.low[0], reliability.high[0]) == expected
    tied = variance_reliability([1, 2, 3], [0, 0, 0], [1, 1, 1])
    assert tied.n_samples.tolist() == [3]
    assert overall(tied) == (tied.ratio[0], tied.low[0], tied.high[0])


@pytest.mark.slow
def test_coverage_of_the_intervals():
    """10 bins of 50 Gaussian errors, 300 draws: 94 % stated in the docstring, +- 1.5 %."""
    inside = []
    for seed in range(300):
        y, moments = forecasts(500, 1, 0, seed=seed, spread=0.3)
        reliability = variance_reliability(y, *moments.T)
        inside.append((reliability.low < 1) & (reliability.high > 1))
        assert reliability.n_samples.tolist() == [50] * 10
    assert 0.92 < np.mean(inside) < 0.96


@pytest.fixture(scope="module")
def wave():
    """Noise of variance .25 that a process with alpha=.05 does not expect."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (300, 1))
    y = np.sin(X[:, 0]) + 0.5 * rng.standard_normal(300)
    return X[:150], y[:150], X[150:], y[150:]


def test_frozen_and_fitted_regressors(wave):
    X, y, X_new, y_new = wave
    ridge = BayesianRidge().fit(X, y)
    model = clone(RecalibratedRegressorCV(FrozenEstimator(ridge))).fit(X_new, y_new)
    mean, std = ridge.predict(X_new, return_std=True)
    expected = VarianceScaling().fit(np.column_stack([mean, std**2]), y_new)
    assert model.recalibrator_.coef_ == expected.coef_
    np.testing.assert_array_equal(model.predict(X_new), mean)
    with pytest.raises(NotFittedError, match="of BayesianRidge, which is not fitted"):
        RecalibratedRegressorCV(FrozenEstimator(BayesianRidge())).fit(X, y)
    with pytest.warns(UserWarning, match="is cloned and fitted again.*FrozenEstim"):
        RecalibratedRegressorCV(ridge).fit(X, y)


def test_folds_weights_and_groups(wave):
    """The recalibrator sees what folds fitted by hand forecast for the rows that they left out."""
    X, y, *_ = wave
    rng = np.random.default_rng(0)
    weight, groups = rng.random(len(y)), rng.integers(6, size=len(y))

    def loss(estimator=None, cv=3, **options):
        model = RecalibratedRegressorCV(estimator, cv=cv).fit(X, y, **options)
        return model.recalibrator_.loss_after_

    by_weight, unweighted = {"sample_weight": weight}, loss()
    plain, grouped = loss(**by_weight), loss(cv=GroupKFold(3), groups=groups)
    for cv in (TimeSeriesSplit(3), RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)):
        assert np.isfinite(loss(cv=cv, **by_weight))  # partial folds, and repeated ones
    for cv, weights in ((KFold(4, shuffle=True, random_state=0), None), (KFold(3), weight)):
        moments = np.empty((len(y), 2))
        for train, test in cv.split(X):
            of_fold = None if weights is None else weights[train]
            ridge = BayesianRidge().fit(X[train], y[train], of_fold)
            mean, std = ridge.predict(X[test], return_std=True)
            moments[test] = np.column_stack([mean, std**2])
        by_hand = VarianceScaling().fit(moments, y, weights)
        last = loss(cv=cv, sample_weight=weights)
        assert last == pytest.approx(by_hand.loss_after_, rel=1e-12)
    assert plain == last
    assert plain != unweighted != grouped
    with sklearn.config_context(enable_metadata_routing=True):
        asked = BayesianRidge().set_fit_request(sample_weight=True)
        assert loss(asked, **by_weight) == loss(**by_weight) == plain
        assert loss(cv=GroupKFold(3), groups=groups) == grouped
    process = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.1), optimizer=None)
    with pytest.warns(UserWarning, match="takes no sample_weight: .* recalibrator only"):
        weighted = loss(process, **by_weight)
    assert weighted != loss(process)


class Doubling(BaseEstimator):
    """A recalibrator of a third party: no weights, and it moves the mean."""

    def fit(self, mean_and_var, y):
        self.bias_ = np.mean(y - mean_and_var[:, 0])
        return self

    def transform(self, mean_and_var):
        return mean_and_var * [1, 2] + [self.bias_, 0]


def test_other_recalibrators(wave):
    """The mean and the score are those of the regressor where the recalibrator moves no mean."""
    X, y, X_new, y_new = wave
    model = RecalibratedRegressorCV(BayesianRidge(), Doubling()).fit(X, y)
    mean, std = model.estimator_.predict(X_new, return_std=True)
    predicted = model.predict(X_new, return_std=True)
    np.testing.assert_allclose(predicted[0], mean + model.recalibrator_.bias_)
    np.testing.assert_allclose(predicted[1], np.sqrt(2) * std)
    np.testing.assert_array_equal(model.predict(X_new), predicted[0])
    scale_only = VarianceScaling(fit_intercept=False)
    model = RecalibratedRegressorCV(recalibrator=scale_only).fit(X, y)
    assert model.recalibrator_.intercept_ == 0 and model.recalibrator_.preserves_mean_
    assert not hasattr(scale_only, "coef_")
    fills = RecalibratedRegressorCV(make_pipeline(SimpleImputer(), BayesianRidge()))
    assert np.isfinite(fills.fit(np.where(X > 1, np.nan, X), y).predict(X)).all()
    # Noise that the process does not expect: out of sample its variance is repaired.
    process = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.05), optimizer=None)
    model = RecalibratedRegressorCV(process).fit(X, y)
    raw, after = (np.array(m.predict(X_new, return_std=True)) for m in (model.estimator_, model))
    np.testing.assert_array_equal(raw[0], after[0])
    assert standardised(y_new, np.column_stack([raw[0], raw[1] ** 2])) > 3
    moments = np.column_stack([after[0], after[1] ** 2])
    assert standardised(y_new, moments) == pytest.approx(1, abs=0.3)
    assert model.score(X_new, y_new) == model.estimator_.score(X_new, y_new)


def test_errors_of_the_regressor(wave):
    X, y, *_ = wave
    with pytest.raises(ValueError, match=r"needs a regressor with predict\(X, return_std=True\)"):
        RecalibratedRegressorCV(LinearRegression()).fit(X, y)
    for wrong in (LinearRegression(), VarianceScaling):  # without transform; a class
        with pytest.raises(ValueError, match="recalibrator must have fit.* such as Vari.*, unlike"):
            RecalibratedRegressorCV(recalibrator=wrong).fit(X, y)


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "doc").exists(), reason="the studies are not here")
def test_friedman():
    """G22's test bed, as the study runs it: mean of eight seeds at 1,000 iterations."""
    study = runpy.run_path(str(ROOT / "doc" / "studies" / "friedman.py"))
    study["plt"].close("all")
    assert study["STAGES"][-1] == 1000 and study["ratio"].shape == (2, 8, 8)
    before, after = study["ratio"][:, -1].mean(axis=1)
    assert before < 0.65
    assert 1.0 <= after <= 1.4
