"""The default of the grouping loss for several classes: known truths, bad input and threads."""

import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from grids import rotated
from scipy.special import softmax
from sklearn.linear_model import LinearRegression, LogisticRegression
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from skcalib import GroupingLossEstimator, GroupRecalibrator, decision_regret
from skcalib.estimators import CrossFitProba
from skcalib.grouping import grouping_improvement


def hidden(n_classes, n_samples, seed, size=1.0):
    """A score that is the mean of two posteriors, a feature that tells which; E D(Q, S) follows."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(n_classes)
    map_, tilt = fixed.normal(size=(5, n_classes)), fixed.normal(size=n_classes)
    x, side = rng.normal(size=(n_samples, 5)), rng.random(n_samples) < 0.5
    above, below = (softmax(0.6 * x @ map_ + s * size * tilt, axis=1) for s in (1, -1))
    score, posterior = (above + below) / 2, np.where(side[:, None], above, below)
    X = np.column_stack([x, side + 0.3 * rng.normal(size=n_samples)])
    y = (posterior.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    return X, y, score, np.mean(np.sum((posterior - score) ** 2, axis=1))


def fit(X, y, score, **options):
    parameters = {"labels": np.arange(score.shape[1]), "random_state": 0, **options}
    return GroupingLossEstimator(**parameters).fit(X, y, y_proba=score)


@pytest.mark.parametrize(
    ("n_classes", "n_sets"),
    [(3, 1), *(pytest.param(k, 2, marks=pytest.mark.slow) for k in (3, 10))],
)
def test_most_of_the_grouping_loss_of_several_classes_is_found(n_classes, n_sets):
    """n = 2000: .84 of the truth for 3 classes, .7 for 10; never above in the limit."""
    for seed in range(n_sets):
        X, y, score, truth = hidden(n_classes, 2000, seed, size=0.8)
        estimator = fit(X, y, score)
        assert 0.55 * truth < estimator.grouping_loss_ < truth + 2 * estimator.standard_error_
        assert 0 < estimator.confidence_interval_[0] < truth and estimator.pvalue_ < 1e-4
        assert estimator.valid_ and estimator.reason_ == "" and len(estimator.regions_) > 10


@pytest.mark.parametrize("n_sets", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_nothing_is_found_where_nothing_is(n_sets):
    """Also where the curve does not fit, because a matrix distorts the logits."""
    matrix = np.eye(3) + 0.3 * np.random.default_rng(5).normal(size=(3, 3))
    above = []
    for seed in range(n_sets):
        X, y, score, _ = hidden(3, 800, seed, size=0.0)
        for forecast in (score, softmax(np.log(score) @ matrix, axis=1)):
            estimator = fit(X, y, forecast, method="risk")
            assert estimator.confidence_interval_[0] <= 0 and estimator.pvalue_ > 0.001
            above.append(estimator.confidence_interval_[1] >= 0)
    assert sum(above) >= 4 / 3 * n_sets  # two forecasts of each data set


@pytest.mark.slow
def test_level_without_grouping_loss():
    """100 data sets: at most 10 of p < .05, binomially below 11 of 5 % in .99; no interval < 0."""
    estimators = [fit(*hidden(3, 800, seed, size=0.0)[:3], method="risk") for seed in range(100)]
    assert sum(estimator.pvalue_ < 0.05 for estimator in estimators) <= 10
    assert sum(estimator.confidence_interval_[1] < 0 for estimator in estimators) <= 5
    assert sum(estimator.confidence_interval_[0] > 0 for estimator in estimators) <= 5


def test_a_partition_of_many_classes_says_that_it_tells_nothing():
    X, y, score, _ = hidden(10, 1000, 0, size=0.0)
    with pytest.warns(UserWarning, match="unreliable"):
        tree = fit(X, y, score, method="partition", n_permutations=0)
    assert not tree.valid_
    assert tree.reason_.startswith(f"The bound {tree.grouping_loss_:.2g} of the regions tells")
    assert tree.reason_.endswith("use method='auto', more samples or fewer bins.")


def features(kind, n_samples=150):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 3))
    return {
        "missing": np.where(rng.random(X.shape) < 0.3, np.nan, X),
        "constant": np.ones_like(X),
        "wide": rng.normal(size=(n_samples, 200)),
        "huge": 1e300 * X,
        "strings": rng.choice(list("abc"), X.shape),
        "infinite": np.where(X > 1, np.inf, X),
        "frame": pd.DataFrame(X, columns=list("abc")),
    }[kind]


USERS = {
    "estimator": lambda X, y, p: fit(X, y, np.column_stack([1 - p, p])).grouping_loss_,
    "regret": lambda X, y, p: decision_regret(y, p, threshold=0.5, X=X).grouping.estimate,
    "improvement": lambda X, y, p: grouping_improvement(y, p, p, X).grouping_after.estimate,
    "recalibrator": lambda X, y, p: GroupRecalibrator().fit(p, y, features=X).gain_.estimate,
}


KINDS = ["missing", "constant", "wide", "huge", "frame", "strings"]


@pytest.mark.parametrize(("kind", "user"), rotated(KINDS, USERS, 2))
def test_features_of_all_kinds(user, kind):
    p = np.random.default_rng(1).uniform(0.1, 0.9, 150)
    y = (np.random.default_rng(2).random(150) < p).astype(int)
    assert abs(USERS[user](features(kind), y, p)) < 0.1


@pytest.mark.parametrize("user", USERS)
def test_features_that_are_refused(user):
    p = np.linspace(0.1, 0.9, 150)
    y = np.tile([0, 1, 1], 50)
    with pytest.raises(ValueError, match=r"(infinite|infinity)"):
        USERS[user](features("infinite"), y, p)


class Counting:
    """Keeps the largest number of threads that a fit and a prediction may use."""

    def fit(self, X, y):
        type(self).fitted = max(pool["num_threads"] for pool in threadpool_info())
        return super().fit(X, y)

    def predict_proba(self, X):
        type(self).predicted = max(pool["num_threads"] for pool in threadpool_info())
        return super().predict_proba(X)


class Threads(Counting, LogisticRegression): ...


class Watched(Counting, LinearRegression): ...


def test_small_fits_and_one_job_use_one_thread():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12_000, 10)), rng.integers(2, size=12_000)
    small, few = X[:200], y[:200]
    with threadpool_limits(2):
        assert CrossFitProba(Threads(), cv=2).fit(X, y).estimator_.fitted == 2
        assert CrossFitProba(Threads(), cv=2, n_jobs=1).fit(X, y).estimator_.fitted == 1
        assert CrossFitProba(Threads(), cv=2).fit(small, few).estimator_.fitted == 1
        assert GroupingLossEstimator(Threads().fit(small, few)).fit(small, few).valid_
        assert Threads.predicted == 1
        risk = GroupingLossEstimator(method="risk", partitioner=Watched(), n_jobs=1)
        risk.fit(X, y, y_proba=rng.random(12_000))
    assert Watched.fitted == 1


def test_libraries_of_later_imports_use_one_thread_too(monkeypatch):
    """The libraries are searched for once, and again when a module has been imported."""
    searches, search = [], ThreadpoolController.__init__

    def counted(controller):
        searches.append("searched")
        search(controller)

    X, y = np.arange(6.0)[:, None], np.tile([0, 1], 3)
    fit = partial(CrossFitProba(Threads(), cv=2).fit, X, y)
    monkeypatch.setattr(ThreadpoolController, "__init__", counted)
    fit()
    counts = []
    for library in ("some_library", None, "another_library"):
        if library is not None:
            monkeypatch.setitem(sys.modules, library, sys)
        searches.clear()
        assert fit().estimator_.fitted == 1
        counts.append(len(searches))
    assert counts[0] == counts[2] == counts[1] + 1
