"""Suspicions of the samples: named where they are true, silent for samples that are in order."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from skcalib import CalibrationReport
from skcalib.problem import check_problem
from skcalib.report.analysis import _find_errors
from skcalib.report.direction import gains_of, logistic_recalibration
from skcalib.report.suspicions import find_suspicions


def of(score, rng, **options):
    """Labels of calibrated scores."""
    return (rng.random(len(score)) < score).astype(int), score, options


def of_three(n, rng):
    score = softmax(1.5 * rng.standard_normal((n, 3)), axis=1)
    return (score.cumsum(axis=1)[:, :2] < rng.random((n, 1))).sum(axis=1), score, {}


def in_order(data, by):
    """The same samples, sorted."""
    y, score, options = data
    order = np.lexsort(by(y, score))
    return y[order], score[order], options


def logits(n, rng):
    return expit(1.3 * rng.standard_normal(n))


def integers(rng):
    X = rng.integers(0, 3, (1000, 4))
    return of(expit((X - 1) @ [1, 0.5, -1, 0.3]), rng, features=X)


def in_groups(rng):
    patient = rng.integers(0, 100, 1000)
    effect = rng.standard_normal(100)[patient]
    return of(expit(effect + rng.standard_normal(1000)), rng, groups=patient)


def patients(rng):
    """Ten equal rows of each patient, who is given as the group."""
    y, score, _ = of(logits(100, rng), rng)
    return np.repeat(y, 10), np.repeat(score, 10), {"groups": np.repeat(np.arange(100), 10)}


CLEAN = {
    "binary": lambda rng: of(logits(1000, rng), rng),
    "rare": lambda rng: of(expit(-4.5 + rng.standard_normal(1000)), rng),
    "K = 3": lambda rng: of_three(1000, rng),
    "K = 3, few": lambda rng: of_three(40, rng),
    "few": lambda rng: of(logits(30, rng), rng),
    "tenths": lambda rng: of(rng.integers(1, 10, 1000) / 10, rng),
    "leaves": lambda rng: of(rng.beta(0.3, 0.3, 200)[rng.integers(0, 200, 1000)], rng),
    "hundredths": lambda rng: of(logits(1000, rng).round(2), rng),
    "sorted forecasts": lambda rng: of(np.sort(logits(1000, rng)), rng),
    "sorted labels": lambda rng: in_order(of(logits(1000, rng), rng), lambda y, p: (y,)),
    "sorted ties": lambda rng: in_order(CLEAN["tenths"](rng), lambda y, p: (y, p)),
    "small integer features": integers,
    "groups": in_groups,
    "equal rows of a group": patients,
}


def kinds(y, score, *, features=None, groups=None, gains=False, **options):
    classes = range(3 if np.ndim(score) == 2 else 2)
    problem = check_problem(y, score, labels=[*classes], groups=groups)
    shapes = None, None
    if gains and len(classes) == 2:
        solved = _find_errors(problem, problem, 0.95)[1]
        shapes = logistic_recalibration(problem, 0.95), gains_of(solved)
    found = find_suspicions(problem, features, *shapes, **options)
    return [(one.kind, *one.names) for one in found]


@pytest.mark.parametrize("n_draws", [5, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CLEAN)
def test_silent_on_clean_samples(name, n_draws):
    for seed in range(n_draws):
        y, score, options = CLEAN[name](np.random.default_rng(seed))
        assert kinds(y, score, gains=True, **options) == []


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("times", [2, 10])
@pytest.mark.parametrize("name", ["binary", "rare", "K = 3", "few"])
def test_repeated_rows(name, times, rng):
    y, score, _ = CLEAN[name](rng)
    rows = rng.permutation(np.repeat(np.arange(len(y)), times))
    if name != "few" or times > 2:  # 30 rows twice may be by chance
        assert kinds(y[rows], score[rows]) == [("repeated_rows",)]
    assert kinds(y[rows], score[rows], groups=rows) == []


def test_repeated_rows_behind_tied_forecasts(rng):
    X = rng.standard_normal((300, 3))
    y, score, _ = of(expit(X @ [1, 1, 0]).round(1).clip(0.05, 0.95), rng)
    rows = np.repeat(np.arange(300), 3)
    table = X.astype(object)
    table[:, 2] = np.where(X[:, 2] > 0, "a", "b")
    for features in (X, table):
        assert kinds(y[rows], score[rows], features=features[rows]) == [("repeated_rows",)]
        assert kinds(y, score, features=features) == []
    assert kinds(y[rows], score[rows]) == []


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_in_another_order(n_classes, rng):
    y, score, _ = CLEAN["binary" if n_classes == 2 else "K = 3"](rng)
    what = "AUC" if n_classes == 2 else "accuracy"
    assert kinds(y[::-1], score) == [("label_order", "in reverse", what)]
    assert kinds(np.roll(y, -1), score) == [("label_order", "moved down by one row", what)]
    assert kinds(np.sort(y), score) == [("label_order", "labels", what)]
    shuffled = [kinds(rng.permutation(y), score) for _ in range(20)]
    assert sum(one == [("unrelated_labels", "", what)] for one in shuffled) >= 16  # of 20, at .95
    if n_classes == 2:
        assert kinds(y, np.sort(score)) == [("label_order", "forecasts", what)]


def test_forecasts_that_rank_a_little_are_not_unrelated(rng):
    """Stated confidences with an AUC of .567, which lies 4.2 standard errors above one half."""
    stated = np.array([0.9, 0.95, 0.98, 0.99])
    right = np.array([0.75, 0.78, 0.82, 0.85])
    found = []
    for _ in range(20):
        at = rng.integers(4, size=2000)
        found.append(kinds(of(right[at], rng)[0], stated[at]))
    assert found.count([]) >= 18


@pytest.mark.parametrize(("factor", "word"), [(10, "high"), (0.1, "low")])
def test_odds_of_balanced_training(factor, word, rng):
    risk = expit(-3 * np.sign(factor - 1) + rng.standard_normal(3000))
    y, _, _ = of(risk, rng)
    score = factor * risk / (1 - risk + factor * risk)
    assert kinds(y, score, gains=True) == [("balanced_training", word)]
    assert kinds(y, risk, gains=True) == []
    steep = expit(2 * np.log(score / (1 - score)))  # the odds are off by another factor each
    assert kinds(y, steep, gains=True) == []


def test_a_class_without_samples(rng):
    y, score, _ = of_three(600, rng)
    kept = y != 1
    assert kinds(y[kept], score[kept]) == [("absent_class", "1")]
    report = CalibrationReport.from_predictions(y[kept], score[kept], labels=[0, 1, 2])
    assert report.to_dict()["recommended"] is None and "class 1" in report.verdict
    assert "points" not in report.verdict and "up to" not in str(report)
    rare = score * [1, 1e-4, 1]  # hardly any sample is expected
    rare /= rare.sum(axis=1, keepdims=True)
    assert kinds(y[kept], rare[kept]) == []
