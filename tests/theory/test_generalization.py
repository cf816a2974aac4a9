"""Training error against test error: the bounds of F24, and the refits that show the gap."""

from dataclasses import fields
from math import log, sqrt

import numpy as np
import pandas as pd
import pytest
from engines import polars as pl
from joblib import parallel_config
from scipy.sparse import csr_matrix
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skcalib import optimal_n_bins
from skcalib.theory import ece_generalization_bound, evaluate_supersample


def test_bounds_are_the_formulas():
    n, B, L, e, f, d, c = 5000, 12, 1.4, 3.0, 7.0, 1 / 12, 2.5
    quantities = {"lipschitz": L, "ecmi": e, "fcmi": f, "radius": d, "log_covering_number": c}
    ece = sqrt(8 * (e + B * log(2)) / n)
    learned = sqrt(2 * (f + B * log(2)) / n)
    entropy = (2 + L) * d + sqrt(8 * B * log(2 * np.exp(c)) / n)
    cases = {
        ("ece", "uniform"): ece,
        ("ece", "quantile"): ece,
        ("tce", "uniform"): (1 + L) / B + ece,
        ("tce", "quantile"): (1 + L) / B + (1 + L) * learned + ece,
        ("recalibrated_fresh", "uniform"): sqrt(2 * B * log(2) / (n - B)) + 2 * B / (n - B),
        ("recalibrated_reused", "uniform"): 2 * learned,
        ("metric_entropy", "uniform"): (1 + L) / B + entropy,
    }
    for (bound, strategy), value in cases.items():
        estimate = ece_generalization_bound(n, B, bound=bound, strategy=strategy, **quantities)
        assert estimate == pytest.approx(value, rel=1e-13)
        if bound in ("ece", "tce"):  # the same formula with the information of residuals
            same = {**quantities, "ecmi": 0, "residual_cmi": e}
            of_residuals = ece_generalization_bound(n, B, bound=bound, strategy=strategy, **same)
            assert of_residuals == estimate
    estimate = ece_generalization_bound(100, 1, bound="metric_entropy", radius=1, lipschitz=0)
    assert estimate == pytest.approx(3 + sqrt(8 * log(2) / 100), rel=1e-13)


def test_bound_refusals():
    for name in ("ecmi", "residual_cmi"):
        with pytest.raises(ValueError, match=f"{name}=69.4 nats exceeds n ln 2 = 69.3147"):
            ece_generalization_bound(100, 10, **{name: 69.4})
    for radius in (None, 0, -1, 0.1001, 1, np.nan, np.inf, "0.1", True):
        with pytest.raises(ValueError, match=r"radius must lie in \(0, 1/n_bins\]"):
            ece_generalization_bound(100, 10, bound="metric_entropy", radius=radius)


@pytest.mark.slow
def test_fresh_histogram_binning_obeys_its_bound():
    """The calibration error of binned frequencies, with the cell probabilities known."""
    rng, n, B = np.random.default_rng(0), 100, 15
    bound, errors = ece_generalization_bound(n, B, bound="recalibrated_fresh"), []
    for _ in range(200):
        p = np.sort(rng.random(n))  # uniform forecasts, E[Y|f] = f^2
        y = rng.random(n) < p**2
        ranks = n * np.arange(B + 1) // B
        edges = np.concatenate([[0], p[ranks[1:-1] - 1], [1]])
        means = np.add.reduceat(y.astype(float), ranks[:-1]) / np.diff(ranks)
        truth = np.diff(edges**3) / 3 / np.diff(edges)
        errors.append(np.sum(np.diff(edges) * np.abs(means - truth)))
    assert 0.05 < np.mean(errors) < bound
    assert max(errors) < bound


def make_data(n_samples, seed=0, n_features=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    y = (rng.random(n_samples) < expit(1.5 * X[:, 0])).astype(int)
    assert 0.3 < y.mean() < 0.7
    return X, y


def refits(X, y, estimator=None, **options):
    """The result for logistic regression, or another classifier, with a seed."""
    estimator = LogisticRegression() if estimator is None else estimator
    return evaluate_supersample(estimator, X, y, **{"random_state": 0, **options})


def test_arrays_belong_together():
    X, y = make_data(120)
    result = refits(X, y, n_supersamples=3, n_draws=4, n_pairs=50)
    assert result.n_bins == optimal_n_bins(50, strategy="quantile")
    assert np.array_equal(result.gap, result.test_error - result.train_error)
    assert [len(np.unique(rows)) for rows in result.rows] == [100] * 3
    for s, d in np.ndindex(3, 4):
        pairs, chosen = result.rows[s], result.selection[s, d]
        assert np.array_equal(result.target[s, d], y[pairs])
        train, test = (pairs[np.arange(50), column] for column in (chosen, 1 - chosen))
        model = LogisticRegression().fit(X[train], y[train])
        proba = model.predict_proba(X[pairs.ravel()])[:, 1].reshape(50, 2)
        np.testing.assert_allclose(result.forecast[s, d], proba, rtol=1e-9)
        for rows, error in ((train, result.train_error), (test, result.test_error)):
            p = model.predict_proba(X[rows])[:, 1]
            cells = np.searchsorted(np.arange(1, 3) / 3, p)
            expected = np.abs(np.bincount(cells, y[rows] - p, 3)).sum() / 50
            assert error[s, d] == pytest.approx(expected, rel=1e-9)
    assert not np.array_equal(result.selection[0, 0], result.selection[0, 1])
    assert 0.4 < result.selection.mean() < 0.6
    alone = refits(X, y, n_supersamples=1, n_draws=1, n_pairs=50)
    assert (alone.forecast.shape, alone.gap.shape) == ((1, 1, 50, 2), (1, 1))


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_the_result_does_not_depend_on_n_jobs(strategy):
    X, y = make_data(80)
    forest = DecisionTreeClassifier(splitter="random", max_features=1)  # its random_state is open
    arguments = {"n_supersamples": 2, "n_draws": 3, "strategy": strategy, "random_state": 3}
    changes = {}, {"n_jobs": 2}, {"random_state": 4}
    with parallel_config("threading"):
        alone, parallel, another_seed = (
            refits(X, y, forest, **arguments | change) for change in changes
        )
    assert forest.random_state is None and not hasattr(forest, "tree_")
    for entry in fields(alone):
        assert np.array_equal(getattr(alone, entry.name), getattr(parallel, entry.name)), entry.name
    assert not np.array_equal(alone.forecast, another_seed.forecast)


def test_open_seeds_differ_between_refits_and_fixed_ones_stay():
    """The same rows, the same choice: only the seed of the tree differs."""
    X, y = make_data(60)
    states = []

    class Spy(DecisionTreeClassifier):
        def fit(self, X, y):
            states.append(self.random_state)
            return super().fit(X, y)

    for state in (None, 7):
        spy = make_pipeline(StandardScaler(), Spy(random_state=state))
        refits(X, y, spy, n_supersamples=1, n_draws=3)
    assert len(set(states[:3])) == 3 and states[3:] == [7, 7, 7]


def test_a_tree_remembers_and_a_frozen_classifier_does_not():
    X, y = make_data(300)
    tree = refits(X, y, DecisionTreeClassifier(), n_draws=8, n_supersamples=3)
    assert tree.train_error.max() == 0 and tree.test_error.min() > 0.1
    assert tree.fcmi.estimate == pytest.approx(log(8))  # all draws differ: the ceiling
    same = refits(X, y, FrozenEstimator(LogisticRegression().fit(*make_data(300, 1))), n_draws=8)
    assert same.fcmi.estimate == same.residual_cmi.estimate == 0
    # The number |gap| depends on U even so: U says which rows are compared.
    assert same.ecmi.estimate == pytest.approx(log(8))
    assert abs(same.gap.mean()) < 4 * same.gap.std() / sqrt(same.gap.size)


def test_information_is_shown_with_its_limits():
    """One draw tells nothing."""
    X, y = make_data(100)
    result = refits(X, y, n_draws=6, n_supersamples=2)
    for information in (result.ecmi, result.residual_cmi, result.fcmi):
        assert information.ceiling == log(6)
        assert information.maximum == pytest.approx(50 * log(2))
        assert information.estimate <= information.ceiling + 1e-12
        assert "cannot exceed ln k" in information.note and "not an upper bound" in information.note
    assert result.residual_cmi == result.fcmi  # two classes: the label tells one from the other
    result = refits(X, y, n_draws=1, n_supersamples=2)
    assert len(repr(result)) < 350
    for information in (result.ecmi, result.residual_cmi, result.fcmi):
        assert information.estimate == information.ceiling == 0


def entropy_of(values):
    share = np.unique(values, return_counts=True)[1] / len(values)
    return pytest.approx(-np.sum(share * np.log(share)))


def test_information_of_a_known_channel():
    """The prior of one pair: a constant classifier that tells how many ones it was trained on."""
    X, y = np.zeros((80, 1)), np.repeat([0, 1], 40)
    prior, options = DummyClassifier(strategy="prior"), {"n_supersamples": 1, "n_draws": 40}
    result = refits(X, y, prior, **options)
    assert result.fcmi.estimate == entropy_of(result.forecast[0, :, 0, 0])
    assert result.fcmi.estimate < 0.6 * result.fcmi.ceiling
    # With one bin the gap is the difference of two shares of ones, which add up to a known number.
    one_bin = refits(X, y, prior, n_bins=1, **options)
    labels = y[one_bin.rows[0]]
    ones = np.array([labels[np.arange(40), u].sum() for u in one_bin.selection[0]])
    gap = np.abs(labels.sum() - 2 * ones)
    np.testing.assert_allclose(40 * np.abs(one_bin.gap[0]), gap, atol=1e-9)
    assert one_bin.ecmi.estimate == entropy_of(gap)
    assert 0 < one_bin.ecmi.estimate < one_bin.fcmi.estimate  # the sign of the difference is lost
    # A classifier that learns nothing: the other halves of all pairs give the opposite gap.
    constant = DummyClassifier(strategy="constant", constant=1)
    fixed = refits(X, y, constant, n_bins=1, n_pairs=12, **options)
    assert fixed.gap.min() < 0 < fixed.gap.max()
    assert fixed.ecmi.estimate == entropy_of(np.abs(fixed.gap[0]).round(9))


class Contrary(ClassifierMixin, BaseEstimator):
    """Right on the rows that it was trained on, wrong on all others, and always certain."""

    def fit(self, X, y):
        self.classes_, self.known_ = np.unique(y), {row.tobytes() for row in X}
        return self

    def predict_proba(self, X):
        known = np.array([row.tobytes() in self.known_ for row in X])
        positive = np.where(known, X[:, 0], 1 - X[:, 0])  # the first column is the label
        return np.column_stack([1 - positive, positive])


def test_the_number_alone_carries_no_bound():
    """F24's eq. 15 to the letter: no information about U, and a gap above the bound."""
    X, _ = make_data(1000)
    y = np.arange(1000) % 2
    X[:, 0] = y
    result = refits(X, y, Contrary(), n_supersamples=2, n_draws=6, n_bins=4)
    assert np.all(result.train_error == 0) and np.all(result.test_error == 1)
    assert result.ecmi.estimate == 0
    assert result.residual_cmi.estimate == pytest.approx(log(6))
    assert ece_generalization_bound(500, 4, ecmi=0.0) < 0.3 < np.abs(result.gap).mean()
    # The residuals give U away: all n ln 2 nats of it, and with these the bound holds.
    assert ece_generalization_bound(500, 4, residual_cmi=500 * log(2)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_the_gap_is_within_the_bound(strategy):
    """With the information of a deterministic classifier at its maximum, and as estimated."""
    result = refits(*make_data(4000), n_pairs=400, n_draws=5, strategy=strategy)
    gap = np.abs(result.gap).mean()
    assert 0 < gap < ece_generalization_bound(400, result.n_bins, strategy=strategy)


def test_more_than_two_classes_are_top_label():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.array(["a", "b", "c"])[X[:, :3].argmax(axis=1)]
    result = refits(X, y, n_draws=3)
    assert result.forecast.min() >= 1 / 3 and set(np.unique(result.target)) == {0.0, 1.0}
    assert result.target.mean(axis=(2, 3)).min() > 0.8  # the accuracy
    assert result.fcmi.estimate <= result.residual_cmi.estimate + 1e-12
    with pytest.raises(ValueError, match="pos_label is for binary problems"):
        refits(X, y, pos_label="a")


def test_inputs_of_many_kinds():
    X, y = make_data(60)
    names = np.array(["no", "yes"])[y]
    few = {"n_supersamples": 2, "n_draws": 2}
    plain, before = refits(X, y, **few), X.copy()
    frames = [(library.DataFrame(X), library.Series(names)) for library in (pd, pl)]
    others = (csr_matrix(X), y), (X.tolist(), names.tolist()), (X, y.astype(bool))
    for features, labels in (*frames, *others):
        refit = refits(features, labels, **few)
        np.testing.assert_allclose(refit.test_error, plain.test_error, rtol=1e-3)
    assert np.array_equal(before, X)
    swapped = refits(X, names, pos_label="no", **few)
    np.testing.assert_allclose(swapped.forecast, 1 - plain.forecast, rtol=1e-9)
    assert np.array_equal(swapped.target, 1 - plain.target)
    by_margin = refits(X, y, LinearSVC(), **few)
    assert by_margin.forecast.min() > 0 and by_margin.forecast.max() < 1


def test_a_class_missing_in_the_training_half():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.arange(60) % 2
    y[:2] = 2  # rare: most training halves see one of them or none
    result = refits(X, y, n_supersamples=2, n_draws=6)
    labels = y[result.rows][:, None].repeat(6, axis=1)
    trained = np.take_along_axis(labels, result.selection[..., None], axis=-1)
    assert not np.all((trained == 2).any(axis=(2, 3)))
    assert np.isfinite(result.test_error).all()


def test_supersample_refusals():
    X, y = make_data(40)
    for keywords, message in (
        ({"n_pairs": 21}, "n_pairs=21 pairs need 42 rows, but X has 40: use at most 20 pairs"),
        ({"y": np.zeros(40, dtype=int)}, "y holds one class, 0"),
        ({"y": np.arange(40) == 0, "n_draws": 20}, "has only the class False: use more pairs"),
        ({"y": np.zeros(39)}, "inconsistent numbers of samples"),
        ({"y": np.linspace(0, 1, 40)}, "continuous"),
    ):
        with pytest.raises(ValueError, match=message):
            refits(**{"X": X, "y": y, **keywords})
