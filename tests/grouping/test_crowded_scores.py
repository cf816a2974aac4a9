"""The grouping loss is that of the level sets: no strictly increasing map of the score changes it.

Such maps may put most scores into one cell of the log odds, where no curve of these tells them
apart.
"""

import numpy as np
import pytest
from scipy.special import expit, softmax

from skcalib import GroupingLossEstimator
from skcalib.grouping import differences_at_equal_scores


def standard(values):
    return values / values.std()


def clumps(z):
    return expit(np.where(z > 0, 3, -3) + 1e-3 * z)


MAPS = {
    "at 1/2": lambda z: expit(standard(np.sinh(5 * z))),
    "log odds": expit,
    "cubic": lambda z: expit(z**3),
    "ninth power": lambda z: expit(standard(z**9)),
    "at 0": lambda z: 1e-6 * expit(z) ** 8,
    "at 1": lambda z: 1 - 1e-6 * expit(-z) ** 8,
    "at .05": lambda z: expit(standard(np.exp(5 * z)) - 3),
    "two clumps": clumps,
    "equal up to 1e-9": lambda z: 0.5 + 1e-10 * z,
    "ties": lambda z: expit(standard(np.sinh(5 * np.round(z, 1)))),
    "single precision": lambda z: expit(standard(np.sinh(2 * z)).astype(np.float32)),
}
TRUTHS = {"steep": lambda z: expit(2 * z), "wave": lambda z: 0.5 + 0.4 * np.sin(2 * z)}


def sample(name, truth, seed, n_samples, hidden=0.0):
    """Features z and one more, labels of frequency truth(z) +- hidden, and scores map(z)."""
    rng = np.random.default_rng(seed)
    z, side = rng.normal(size=n_samples), rng.choice([-1.0, 1.0], n_samples)
    z = np.round(z, 1) if name == "ties" else z
    y = rng.random(n_samples) < TRUTHS[truth](z) + hidden * side
    return np.column_stack([z, side]), y.astype(int), MAPS[name](z)


def fits(name, truth, n_seeds, n_samples=1000, hidden=0.0, **options):
    """Mean bound, its standard error over the seeds, and the p-values."""
    estimators = []
    for seed in range(n_seeds):
        X, y, p = sample(name, truth, seed, n_samples, hidden)
        estimators.append(GroupingLossEstimator(random_state=0, **options).fit(X, y, y_proba=p))
    bounds = np.array([estimator.grouping_loss_ for estimator in estimators])
    error = bounds.std(ddof=1) / np.sqrt(n_seeds)
    return bounds.mean(), error, np.array([estimator.pvalue_ for estimator in estimators])


@pytest.mark.parametrize("name", MAPS)
def test_functions_of_the_score_are_no_grouping_loss(name):
    """Three data sets of 1,000: the mean bound is below .0005; the curve of log odds gave .009."""
    mean, _, pvalues = fits(name, "steep", 3, method="risk")
    assert mean < 5e-4 and pvalues.min() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("name", MAPS)
def test_the_mean_bound_is_zero_over_many_data_sets(name, truth):
    """30 data sets of 1,000: at most three standard errors of the mean, and 6 of p < .05.

    Of 30 p-values more than 6 are below .05 with a probability of .0005.
    """
    mean, error, pvalues = fits(name, truth, 30, method="risk")
    assert mean < 3 * error + 1e-5 and np.sum(pvalues < 0.05) <= 6


OPTIONS = {
    "partition": {"method": "partition"},
    "log": {"method": "risk", "loss": "log"},
    "smoother": {"method": "risk", "smoother": "smooth"},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_other_options_find_none_either(option):
    """The curve takes no more from the bound of regions than of scores that are not crowded."""
    options = {"n_samples": 2000, **OPTIONS[option]}
    mean, error, pvalues = fits("at 1/2", "steep", 3, **options)
    plain, _, _ = fits("log odds", "steep", 3, **options)
    assert abs(mean - plain) < 1e-3 and mean < 5e-4 + 3 * error and pvalues.min() > 1e-3


@pytest.mark.parametrize("name", ["at 1/2", "two clumps", "at 1", "ties"])
def test_grouping_loss_of_crowded_scores_is_found(name):
    """Labels are .1 more frequent on one side: the loss is .01 for any map (two data sets)."""
    mean, error, pvalues = fits(name, "wave", 2, n_samples=2000, hidden=0.1, method="risk")
    assert 0.006 < mean < 0.01 + 3 * max(error, 0.001) and pvalues.max() < 1e-6


@pytest.mark.slow
def test_scores_of_three_classes_that_are_crowded():
    """The mean bound of three data sets was .006 for logits that are crowded beside 0."""
    bounds = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(1500, 3))
        Z -= Z.mean(axis=1, keepdims=True)
        y = (rng.random((1500, 1)) > softmax(1.5 * Z, axis=1).cumsum(axis=1)[:, :2]).sum(axis=1)
        p = softmax(standard(np.sinh(3 * Z)) + [0, 1, 3], axis=1)
        estimator = GroupingLossEstimator(method="risk", random_state=0).fit(Z, y, y_proba=p)
        bounds.append(estimator.grouping_loss_)
    assert np.mean(bounds) < 1.5e-3


@pytest.mark.parametrize("name", MAPS)
def test_no_group_of_the_score_differs_at_equal_scores(name):
    for seed in range(3):
        X, y, p = sample(name, "steep", seed, 2000)
        assert differences_at_equal_scores(y, p, X).named == ()
