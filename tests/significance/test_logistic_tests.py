"""Likelihood ratio tests of the calibration intercept and slope: peers, levels, powers, edges."""

from itertools import product

import numpy as np
import pytest
from conftest import forty
from conftest import on_a_line as draw
from dense_directions import problem_of
from levels import need_level
from scipy.special import expit, logit
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skcalib import calibration_intercept_slope
from skcalib.significance import binary, logistic_calibration_test

HYPOTHESES = ("joint", "intercept", "slope")


def test_products_of_small_scores_and_weights_are_not_zero():
    """The estimate was NaN, with a p-value of the least number of draws."""
    for p, weight, y in (
        ([0.1, 1e-300, 5e-324], [1e150, 1e-20, 1e-20], [0, 0, 0]),
        ([1e-310, 1e-320, 1e-320, 1e-310], [1e-310, 1e-20, 1.0, 1e150], [0, 0, 1, 1]),
        ([0.5, 1e-160, 1e-320, 1e-320], [5e-324, 5e-324, 1e-320, 5e-324], [1, 1, 0, 0]),
        ([0.3, 0.4, 0.6, 5e-324], [1e-170, 1e-170, 1e-170, 1.0], [1, 0, 1, 0]),
    ):
        for hypothesis in HYPOTHESES:
            options = {"hypothesis": hypothesis, "n_resamples": 19, "labels": [0, 1]}
            try:
                test = logistic_calibration_test(y, p, sample_weight=weight, **options)
            except ValueError as error:
                assert "There is no test of the slope" in str(error) and hypothesis == "slope"
                continue
            assert np.isfinite([test.statistic, test.estimate]).all() and 0 < test.pvalue <= 1


def test_numbers_of_r():
    """U, its chi-square and its p-value in val.prob of rms 6.5-0; deviances of glm in R 4.2."""
    test = logistic_calibration_test(*forty(), n_resamples=0)
    assert test.statistic == pytest.approx(0.5810371531247, rel=1e-9)
    assert test.pvalue == pytest.approx(0.7478756362247, rel=1e-9)
    assert test.estimate == pytest.approx(-0.0354740711719, rel=1e-9)
    for hypothesis, ratio in {"intercept": 0.1223357477, "slope": 0.4587014055}.items():
        test = logistic_calibration_test(*forty(), hypothesis=hypothesis, n_resamples=0)
        assert test.statistic == pytest.approx(ratio, abs=1e-9)
        assert test.pvalue == pytest.approx(chi2.sf(ratio, 1), rel=1e-7)
    # U of val.prob if all predictions are equal: one degree of freedom.
    y = np.repeat([0, 1], [13, 7])
    test = logistic_calibration_test(y, np.full(20, 0.2), n_resamples=0)
    ratio = 2 * 20 * (log_loss(y, np.full(20, 0.2)) - log_loss(y, np.full(20, 0.35)))
    expected = ratio, chi2.sf(ratio, 1), (ratio - 1) / 20
    assert (test.statistic, test.pvalue, test.estimate) == pytest.approx(expected, rel=1e-9)


def test_the_estimate_is_the_gain_of_the_log_loss():
    y, p = draw(3000, 0.3, 0.7)
    x = logit(p)[:, None]
    fitted = LogisticRegression(C=np.inf, tol=1e-10).fit(x, y).predict_proba(x)[:, 1]
    gain = log_loss(y, p) - log_loss(y, fitted)
    joint = logistic_calibration_test(y, p)
    assert joint.estimate == pytest.approx(2 * gain - 2 / 3000, abs=1e-9)
    parts = [logistic_calibration_test(y, p, hypothesis=h) for h in ("intercept", "slope")]
    assert sum(part.statistic for part in parts) == pytest.approx(joint.statistic, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_level(weighted):
    """2,000 data sets of 100 calibrated forecasts: the standard error of the level .05 is .005."""
    rng, pvalues = np.random.default_rng(0), []
    for _ in range(20):
        p = rng.beta(0.7, 0.7, 100)
        weight = 0.05 / (0.02 + p * (1 - p)) if weighted else np.ones(100)
        for law in (binary.JointRatio, binary.InterceptRatio):
            test = law(problem_of(np.zeros(100, dtype=int), p, weight))
            y = (rng.random((100, 100)) < p).astype(float)
            pvalues.append([(test.pvalue(s), chi2.sf(s, len(test.law))) for s in test.statistic(y)])
    level, plain = (np.array(pvalues) <= 0.05).mean(axis=(0, 1))
    assert 0.03 < level < 0.07
    if weighted:  # the weight is on forecasts of little information: no chi-square law
        assert plain < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_level_of_the_slope(weighted):
    """250 data sets with a wrong intercept and the right slope; the standard error is .014."""
    rng, pvalues = np.random.default_rng(1), []
    for seed in range(250):
        y, p = draw(150, 0.6, 1.0, seed=seed)
        weight = rng.exponential(size=150) if weighted else None
        options = {"hypothesis": "slope", "sample_weight": weight, "n_resamples": 39}
        pvalues.append(logistic_calibration_test(y, p, **options).pvalue)
    assert np.mean(np.array(pvalues) <= 0.05) == pytest.approx(0.05, abs=0.042)


def test_draws_for_the_slope_are_those_given_the_number_of_events():
    """By all labels of nine forecasts; the p-value of 999 draws within four standard errors."""
    for labels in ([1, 0, 0, 1, 0, 0, 1, 0, 1], [0, 0, 1, 0, 0, 0, 0, 0, 0]):
        p = np.array([0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.7, 0.85, 0.95])
        y = np.array(labels)
        options = {"hypothesis": "slope", "labels": [0, 1]}
        every = np.array([x for x in product([0, 1], repeat=len(p)) if sum(x) == y.sum()])
        tests = [logistic_calibration_test(x, p, n_resamples=0, **options) for x in every]
        observed = logistic_calibration_test(y, p, n_resamples=999, **options)
        chance = np.where(every == 1, p, 1 - p).prod(axis=1)
        more = np.array([test.statistic for test in tests]) >= observed.statistic - 1e-8
        exact = chance @ more / chance.sum()
        assert 0.01 < exact < 0.99 and "given the number of events" in observed.method
        assert abs(observed.pvalue - exact) < 4 * np.sqrt(exact * (1 - exact) / 999) + 1e-3
        assert logistic_calibration_test(y, p, **options).pvalue == observed.pvalue  # by default


@pytest.mark.slow
def test_the_slope_is_tested_given_the_number_of_events():
    """150 data sets of 50 with a wrong intercept: the standard error of a level of .05 is .018."""
    sets = [draw(50, -2.5, 1.0, seed=seed) for seed in range(150)]
    options = {"hypothesis": "slope", "n_resamples": 39}
    tests = [logistic_calibration_test(y, p, **options) for y, p in sets if y.any()]
    assert len(tests) > 120 and "given the number of events" in tests[0].method
    need_level([test.pvalue for test in tests])


def test_law_of_weighted_squares():
    rng = np.random.default_rng(4)
    squares = rng.normal(size=(200_000, 2)) ** 2
    for law in ([1.0, 1.0], [0.3, 2.0], [1e-4, 1.0]):
        for x in (0.1, 1.0, 4.0):
            share = np.mean(squares @ law > x)
            assert binary.weighted_squares_sf(x, np.array(law)) == pytest.approx(share, abs=0.005)
    assert [binary.weighted_squares_sf(x, np.array([])) for x in (0.0, 1.0)] == [1, 0]
    assert binary.weighted_squares_sf(50, np.ones(2)) * np.exp(25) == pytest.approx(1, rel=1e-12)
    assert binary.weighted_squares_sf(3.0, np.array([2.0])) == pytest.approx(chi2.sf(1.5, 1))


@pytest.mark.parametrize("hypothesis", HYPOTHESES)
def test_twice_the_samples_have_twice_the_ratio(hypothesis):
    y, p = draw(200, 0.2, 0.8)
    options = {"hypothesis": hypothesis, "n_resamples": 0}
    once = logistic_calibration_test(y, p, **options)
    twice = logistic_calibration_test(np.repeat(y, 2), np.repeat(p, 2), **options)
    assert twice.statistic == pytest.approx(2 * once.statistic, rel=1e-8)


def test_separated_classes_have_a_ratio():
    """The likelihood has no maximum, but a supremum of 1."""
    y, p = np.array([0, 0, 0, 1, 1]), np.array([0.1, 0.3, 0.4, 0.6, 0.9])
    loss = 5 * log_loss(y, p)
    assert logistic_calibration_test(y, p).statistic == pytest.approx(2 * loss, abs=1e-6)
    events_only = logistic_calibration_test(np.ones(5), p, labels=[0, 1])
    assert events_only.statistic == pytest.approx(-2 * np.log(p).sum(), abs=1e-6)
    assert logistic_calibration_test(y, p, hypothesis="slope").statistic > 1
    for y, p, reason in (
        ([1, 1, 1, 1], [0.2, 0.4, 0.5, 0.7], "labels of forecasts"),
        ([0, 1, 0, 1], [0.3] * 4, "forecasts are equal"),
    ):
        with pytest.raises(ValueError, match=f"no test of the slope: all {reason}"):
            logistic_calibration_test(y, p, hypothesis="slope", labels=[0, 1])


def test_forecasts_of_exactly_zero_and_one_do_not_count_and_far_logits_do():
    y, p = draw(100)
    plain = logistic_calibration_test(y, p)
    certain = logistic_calibration_test(np.append(y, [0, 1]), np.append(p, [0.0, 1.0]))
    assert certain.statistic == pytest.approx(plain.statistic, rel=1e-9)
    far = np.append(p, [1e-300, 1e-12, 5e-324])
    for hypothesis in HYPOTHESES:
        distant = logistic_calibration_test(np.append(y, [0, 0, 0]), far, hypothesis=hypothesis)
        assert np.isfinite(distant.statistic) and 0 < distant.pvalue <= 1
    wrong = np.append(y, [1, 0, 0])
    assert 1e-6 < logistic_calibration_test(wrong, far).pvalue < 0.001
    assert logistic_calibration_test(wrong, far, n_resamples=0).pvalue < 1e-30


def test_the_law_of_the_slope_is_that_of_the_efficient_score():
    """With weights: the variance of the gradient over the information, both by hand."""
    y, p = draw(80, 0.4, 1.0)
    weight = np.random.default_rng(5).exponential(size=80)
    test = binary.SlopeRatio(problem_of(y, p, weight))
    x, unit = logit(p), np.sum(weight**2) / weight.sum()
    a = calibration_intercept_slope(y, p, sample_weight=weight).in_the_large.estimate
    q = expit(a + x)
    spread = x - np.average(x, weights=weight * q * (1 - q))
    information = np.sum(weight * q * (1 - q) * spread**2) * unit
    expected = np.sum(weight**2 * q * (1 - q) * spread**2) / information
    assert test.law == pytest.approx([expected], rel=1e-6)


@pytest.mark.slow
def test_level_with_clusters():
    """Half of the labels of a cluster share their randomness; a standard error of .022."""
    rejected = np.zeros((3, 2))
    for seed in range(100):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(60), rng.integers(5, 25, 60))
        n_samples = len(group)
        p = expit(rng.normal(0, 1, n_samples) + rng.normal(0, 0.5, 60)[group])
        independent, shared = rng.random(n_samples), rng.random(60)[group]
        y = (np.where(rng.random(n_samples) < 0.5, independent, shared) < p).astype(int)
        for k, hypothesis in enumerate(HYPOTHESES):
            for column, groups in enumerate((None, group)):
                test = logistic_calibration_test(y, p, hypothesis=hypothesis, groups=groups)
                rejected[k, column] += test.pvalue < 0.05
    assert np.all(rejected[:2, 0] >= 25)  # the plain tests of the mean are wrong
    assert np.all(rejected[:, 1] <= 5 + 2 * 2.2 + 1)
