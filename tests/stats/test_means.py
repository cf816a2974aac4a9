import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm, ttest_1samp
from sklearn.metrics import roc_auc_score

from skcalib.stats.means import (
    clopper_pearson,
    concordance_interval,
    first_within_one_standard_error,
    mean_difference,
    mean_interval,
    observed_expected_ratio,
    rate_interval,
)


def test_agrees_with_students_interval_and_edges():
    values = np.random.default_rng(0).normal(size=20)
    expected = ttest_1samp(values, 0).confidence_interval(0.9)
    interval = mean_interval(values, confidence_level=0.9)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    for values, low, high in (
        ([2.0], -np.inf, np.inf), ([np.inf, 1.0], np.inf, np.inf), ([1.0, 1.0], 1.0, 1.0),
    ):  # fmt: skip
        computed = mean_interval(values)
        assert (computed.low, computed.high) == (low, high)


def test_standard_error_of_a_weighted_mean():
    """Over many draws the stated standard error has the size of the true one, within 3 %."""
    rng = np.random.default_rng(0)
    weight = rng.random(200) + 0.1
    draws = rng.normal(size=(4000, 200))
    means = draws @ weight / weight.sum()
    stated = np.mean([mean_interval(draw, weight).standard_error for draw in draws])
    assert stated == pytest.approx(means.std(), rel=0.03)


@pytest.mark.parametrize("hits", [0, 1, 7, 29, 30])
def test_rates_are_those_of_scipy(hits):
    label = np.arange(30) < hits
    for level in (0.9, 0.95):
        exact = binomtest(hits, 30).proportion_ci(level, method="exact")
        interval = rate_interval(label, confidence_level=level)
        assert (interval.low, interval.high) == pytest.approx((exact.low, exact.high))
        assert interval.standard_error > 0
    tiny = clopper_pearson(np.array([1e-300, 1 - 1e-16]), np.array([2.5, 2.5]), 0.95)
    assert np.isfinite(tiny).all()


def test_infinite_losses_are_compared_in_pairs():
    """Equal infinite losses cancel; the rule chooses the simplest candidate if all are infinite."""
    losses = np.array([[np.inf, 1.0, 2.0], [np.inf, 2.0, 3.0], [0.0, np.inf, 2.0]])
    assert mean_difference(losses[1], losses[0]).estimate == pytest.approx(2 / 3)
    assert mean_difference(losses[2], losses[0]).low == -np.inf
    assert first_within_one_standard_error(losses)[:2] == (0, 0)


def test_ratio_covers_at_least_its_level_whatever_the_spread_of_the_risks():
    """1,000 draws, standard error .007; the risks spread, so that the interval is conservative."""
    rng = np.random.default_rng(0)
    for concentration in (0.3, 3.0, 300.0):
        risk = rng.beta(concentration, 9 * concentration, 60)
        forecast = np.minimum(2 * risk + 0.01, 1)
        truth = risk.sum() / forecast.sum()
        held = 0
        for _ in range(1000):
            interval = observed_expected_ratio(rng.random(60) < risk, forecast)
            held += interval.low <= truth <= interval.high
        assert held >= 0.935 * 1000
    # Equal risks have exactly the level of the binomial; the true rate is .1.
    held = [observed_expected_ratio(np.arange(40) < hits, np.full(40, 0.2)) for hits in range(41)]
    inside = [limits.low <= 0.5 <= limits.high for limits in held]
    assert binom.pmf(np.arange(41), 40, 0.1) @ inside >= 0.95


def test_ratio_at_the_edges():
    none = observed_expected_ratio([0] * 10, [0.1] * 10)
    assert none.estimate == none.low == 0 and 0 < none.high < np.inf
    every = observed_expected_ratio([1] * 10, [0.5] * 10)
    assert every.estimate == every.high == 2 and 1 < every.low < 2
    single = observed_expected_ratio([1], [0.5])
    assert 0 < single.low < single.estimate == single.high == 2
    weighted = observed_expected_ratio([1, 0], [0.5, 0.5], [1.0, 1e-300])
    assert np.isfinite([weighted.low, weighted.high, weighted.standard_error]).all()
    for forecast in ([0.0, 0.0], [5e-324, 5e-324]):
        with pytest.raises(ValueError, match="ratio of observed to expected events does not exist"):
            observed_expected_ratio([0, 1], forecast)


def test_concordance_is_that_of_scikit_learn_with_ties_and_weights():
    """Its standard error is DeLong's, with structural components written out over all pairs."""
    rng = np.random.default_rng(0)
    label, score = rng.integers(0, 2, 80), rng.integers(0, 6, 80) / 5
    weight = rng.uniform(0.1, 3, 80)
    for weights in (weight, None):
        interval = concordance_interval(label, score, weights)
        assert interval.estimate == pytest.approx(
            roc_auc_score(label, score, sample_weight=weights)
        )
        turned = concordance_interval(1 - label, 1 - score, weights)
        assert turned.estimate == pytest.approx(interval.estimate)
        assert turned.standard_error == pytest.approx(interval.standard_error)
    pairs = score[label == 1][:, None] - score[label == 0][None, :]
    psi = (pairs > 0) + 0.5 * (pairs == 0)
    variance = sum(np.var(psi.mean(axis=a), ddof=1) / psi.shape[1 - a] for a in (0, 1))
    assert interval.standard_error == pytest.approx(np.sqrt(variance))


@pytest.mark.parametrize(
    ("shift", "n_samples", "n_events"),
    [(0.0, 60, 12), (1.5, 60, 12), (2.5, 300, 60), (1.5, 500, 2), (1.5, 500, 5), (2.7, 500, 10)],
)
def test_concordance_is_covered(shift, n_samples, n_events):
    """300 draws, standard error .013; DeLong's interval alone holds .65 for two events."""
    rng = np.random.default_rng(n_samples)
    truth, held = norm.cdf(shift / np.sqrt(2)), 0
    for _ in range(300):
        label = np.arange(n_samples) < n_events
        interval = concordance_interval(label, rng.normal(shift * label))
        held += interval.low <= truth <= interval.high
    assert held >= 0.91 * 300
    assert held <= 0.99 * 300 or n_events < 12


def test_concordance_of_separated_classes_has_a_lower_limit():
    for sign, end in ((1, 1.0), (-1, 0.0)):
        interval = concordance_interval([0] * 10 + [1] * 5, sign * np.arange(15))
        assert interval.estimate == end
        assert 0 <= interval.low < interval.high <= 1 and interval.standard_error > 0
    few = concordance_interval([0] * 10 + [1] * 5, np.arange(15))
    many = concordance_interval([0] * 100 + [1] * 50, np.arange(150))
    assert few.low < many.low < 1
    single = concordance_interval([0, 1], [0.2, 0.4])
    assert 0 < single.low < 0.5 and single.high == 1
    with pytest.raises(ValueError, match="all labels are of one class"):
        concordance_interval([1, 1], [0.2, 0.4])
