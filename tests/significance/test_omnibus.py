"""The test of calibration that combines several scores: its level, scores, bounds and words."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import binom

from skcalib import ForecastSketch, calibration_test
from skcalib.data.notions import ClassGroups, Multilabel, TopK
from skcalib.data.problem import Problem
from skcalib.significance.omnibus import (
    BinaryScores,
    ClassScores,
    Windows,
    cauchy_combination,
    combine,
    draw_labels,
    log_pvalues,
)


def simplex(n, n_classes, seed, spread=1.5):
    return softmax(spread * np.random.default_rng(seed).normal(size=(n, n_classes)), axis=1)


def drawn(forecast, seed):
    """Labels drawn from forecasts (n, K)."""
    at = np.random.default_rng([seed, 1]).random((len(forecast), 1))
    return np.minimum((forecast.cumsum(axis=1) < at).sum(axis=1), forecast.shape[1] - 1)


def tempered(forecast, power):
    return softmax(power * np.log(forecast), axis=1)


def coded(n_classes, **options):
    return {"labels": range(n_classes), **options}


def rare(n, seed):
    """Forecasts of an event with probabilities between 1e-4 and .01."""
    p = 10 ** np.random.default_rng(seed).uniform(-4, -2, n)
    return np.c_[1 - p, p]


# --- Level and power ------------------------------------------------------------------------------

NULLS = {
    "two classes": lambda seed: simplex(50, 2, seed),
    "three classes": lambda seed: simplex(60, 3, seed),
    "more classes than samples": lambda seed: simplex(40, 60, seed),
    "confident": lambda seed: np.random.default_rng(seed).dirichlet([0.1] * 4, size=80),
    "rare": lambda seed: rare(150, seed),
    "constant": lambda seed: np.full((40, 3), [0.5, 0.3, 0.2]),
}


@pytest.mark.parametrize("world", NULLS)
def test_level_is_exact(world):
    """300 calibrated data sets: more rejections than an exact test has but with p = 1e-4."""
    pvalues = []
    for seed in range(300):
        forecast = NULLS[world](seed)
        y = drawn(forecast, seed)
        options = coded(forecast.shape[1], n_resamples=99, random_state=10_000 + seed)
        pvalues.append(calibration_test(y, forecast, **options).pvalue)
    for level in (0.02, 0.1):
        assert np.sum(np.array(pvalues) <= level) <= binom.isf(1e-4, 300, level)


def shares_of_clusters(forecast, n_clusters, seed):
    """Labels of which half share the random number of their cluster: dependent, but calibrated."""
    rng = np.random.default_rng([seed, 2])
    cluster = np.arange(len(forecast)) % n_clusters
    common = rng.random(len(forecast)) < 0.5
    at = np.where(common, rng.random(n_clusters)[cluster], rng.random(len(forecast)))
    return (forecast.cumsum(axis=1) < at[:, None]).sum(axis=1).clip(max=forecast.shape[1] - 1)


def clusters_of_classes(seed):
    forecast = simplex(200, 3, seed)
    groups = np.arange(200) % 40
    return calibration_test(
        shares_of_clusters(forecast, 40, seed),
        forecast,
        **coded(3, groups=groups, n_resamples=99, random_state=seed),
    )


def clusters_of_rare_events(seed):
    p = 10 ** np.random.default_rng(seed).uniform(-3, -1, 600)
    forecast, groups = np.c_[1 - p, p], np.arange(600) % 60
    return calibration_test(
        shares_of_clusters(forecast, 60, seed),
        forecast,
        **coded(2, groups=groups, n_resamples=99, random_state=seed),
    )


def votes(seed):
    """Counts of five annotators who agree more often than independent ones."""
    rng, forecast = np.random.default_rng([seed, 3]), simplex(150, 3, seed)
    truth = np.array([rng.dirichlet(4 * row) for row in forecast])
    counts = np.array([rng.multinomial(5, row) for row in truth])
    return calibration_test(counts, forecast, n_resamples=99, random_state=seed)


def dependent_labels(seed):
    rng = np.random.default_rng([seed, 4])
    p = rng.random((150, 4))
    at = np.where(rng.random((150, 1)) < 0.7, rng.random((150, 1)), rng.random(p.shape))
    event = (at < p).astype(float)
    return calibration_test(event, p, notion=Multilabel(), n_resamples=99, random_state=seed)


@pytest.mark.parametrize(
    "test", [clusters_of_classes, clusters_of_rare_events, votes, dependent_labels]
)
def test_level_of_dependent_samples(test):
    """100 calibrated data sets: .05 rejects at most 12 of them but with probability .001."""
    assert sum(test(seed).rejects() for seed in range(100)) <= binom.isf(1e-3, 100, 0.05)


ALTERNATIVES = {
    "all too confident": (lambda s: tempered(s, 0.6), "Forecasts are too confident"),
    "all too cautious": (lambda s: tempered(s, 1.8), "Forecasts are too cautious"),
    "class 1 too rarely": (
        lambda s: (q := s * [1, 3, 1]) / q.sum(axis=1, keepdims=True),
        "The probabilities of class 1 are too low on average",
    ),
    "0 is called 2": (
        lambda s: s + np.where(s.argmax(axis=1) == 2, 0.3 * s[:, 2], 0)[:, None] * [1, 0, -1],
        "Where class 2 is predicted, class",
    ),
}


@pytest.mark.parametrize("n_samples", [1000, 4000])
@pytest.mark.parametrize("world", ALTERNATIVES)
def test_the_first_component_says_what_is_wrong(world, n_samples):
    change, statement = ALTERNATIVES[world]
    forecast = simplex(n_samples, 3, 5)
    test = calibration_test(drawn(change(forecast), 6), forecast)
    assert test.pvalue < 0.01
    assert any(
        component.statement.startswith(statement) and component.pvalue < 0.05
        for component in test.components[:3]
    )


@pytest.mark.parametrize(
    ("truth", "statement"),
    [
        (lambda z: expit(z + 0.5), "The probabilities of class yes are too low on average"),
        (lambda z: expit(z - 0.5), "The probabilities of class yes are too high on average"),
        (lambda z: expit(2 * z), "The probabilities of class yes are too moderate"),
        (lambda z: expit(z / 2), "The probabilities of class yes are too extreme"),
        (lambda z: 0.1 + 0.8 * expit(z), "Improbable labels occur more often than forecast"),
        (
            lambda z: expit(z) - 0.25 * (np.abs(expit(z) - 0.55) < 0.1),
            "The probabilities of class yes from 0.4",
        ),
    ],
)
@pytest.mark.parametrize("mirrored", [False, True])
def test_words_of_two_classes_are_of_the_positive_class(truth, statement, mirrored):
    """Also if the test itself counts the other class, whose probabilities are the complement."""
    rng = np.random.default_rng(0)
    z = 1 + 1.5 * rng.normal(size=3000)
    if mirrored:
        z = -z
    y = np.array(["no", "yes"])[(rng.random(3000) < truth(z)).astype(int)]
    found = [c.statement for c in calibration_test(y, expit(z)).components if c.pvalue < 0.05]
    assert any(words.startswith(statement) for words in found)


def test_more_power_than_the_kernel_test_for_ten_classes():
    """One temperature for ten classes: at least 24 of 30 data sets, where the kernel finds few."""
    found = 0
    for seed in range(30):
        forecast = simplex(400, 10, seed)
        y = drawn(tempered(forecast, 0.8), seed)
        found += calibration_test(y, forecast, **coded(10, n_resamples=199)).rejects()
    assert found >= 24


# --- Laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 7, 30])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_samples_and_classes_changes_nothing(n_classes, weighted):
    rng = np.random.default_rng(n_classes)
    forecast = simplex(90, n_classes, 0)
    y, weight = drawn(tempered(forecast, 0.8), 1), rng.random(90) if weighted else None
    rows, columns = rng.permutation(90), rng.permutation(n_classes)
    plain = calibration_test(y, forecast, **coded(n_classes, sample_weight=weight))
    mixed = calibration_test(
        np.argsort(columns)[y[rows]],
        forecast[rows][:, columns],
        **coded(n_classes, sample_weight=None if weight is None else weight[rows]),
    )
    assert mixed.pvalue == plain.pvalue
    assert [c.pvalue for c in mixed.components] == [c.pvalue for c in plain.components]


@pytest.mark.parametrize("n_classes", [2, 4, 30])
def test_threads_and_the_scale_of_weights_change_nothing(n_classes):
    forecast = simplex(120, n_classes, 0)
    y, weight = drawn(forecast, 1), np.random.default_rng(0).random(120)
    plain = calibration_test(y, forecast, **coded(n_classes, sample_weight=weight))
    for factor in (2.0**-700, 2.0**60):
        scaled = coded(n_classes, sample_weight=factor * weight, n_jobs=2)
        assert calibration_test(y, forecast, **scaled) == plain


def test_a_sketch_and_a_singleton_cluster_give_the_test_of_the_samples():
    forecast = np.round(simplex(300, 2, 0), 2)
    y = drawn(tempered(forecast.clip(0.01, 0.99), 0.8), 1)
    plain = calibration_test(y, forecast[:, 1])
    sketch = ForecastSketch(labels=[0, 1]).partial_fit(y, forecast[:, 1])
    assert calibration_test(sketch).estimate == pytest.approx(plain.estimate, abs=0.02)
    alone = calibration_test(y, forecast[:, 1], groups=np.arange(300))
    assert alone.estimate == pytest.approx(plain.estimate, rel=0.2)


@pytest.mark.parametrize(
    ("notion", "n_events"),
    [("classwise", 3), ("cumulative", 2), ("top_label", 1), (TopK(2), 1), (ClassGroups([[0]]), 1)],
)
def test_notions_have_their_own_errors(notion, n_events):
    """A world where classes 1 and 2 are exchanged at times, which the group {1, 2} does not see."""
    forecast = simplex(1500, 3, 0)
    y = drawn(forecast, 1)
    plain = calibration_test(y, forecast, notion=notion)
    assert plain.pvalue > 0.05
    assert ("Cauchy" in plain.method) == (n_events > 1)
    wrong = np.where((y == 1) & (np.arange(1500) % 3 == 0), 2, y)
    found = calibration_test(wrong, forecast, notion=notion)
    assert found.rejects() != isinstance(notion, ClassGroups)


def test_missing_cells_leave_the_known_ones():
    rng = np.random.default_rng(0)
    p = rng.random((600, 3))
    y = (rng.random(p.shape) < p**1.5).astype(float)
    y[rng.random(p.shape) < 0.3] = np.nan
    test = calibration_test(y, p, notion=Multilabel())
    assert test.pvalue < 1e-3
    assert "too high" in test.components[0].statement
    known = ~np.isnan(y[:, 0])
    alone = calibration_test(y[:, :1], p[:, :1], notion=Multilabel())
    assert alone.pvalue == calibration_test(y[known, 0].astype(int), p[known, 0]).pvalue


def test_annotators_who_always_agree_give_labels():
    forecast = simplex(100, 3, 0)
    y = drawn(forecast, 1)
    assert calibration_test(2 * np.eye(3)[y], forecast) == calibration_test(y, forecast)


# --- Labels that are impossible, improbable or certain --------------------------------------------


@pytest.mark.parametrize("least", [0.0, 1e-300, 1e-12])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_improbable_label_refutes(least, n_classes):
    forecast = simplex(50, n_classes, 0)
    y = drawn(forecast, 1)
    forecast[7, :] = (1 - least) / (n_classes - 1)
    forecast[7, 0], y[7] = least, 0
    test = calibration_test(y, forecast, **coded(n_classes))
    assert test.pvalue == pytest.approx(2 * (50 + n_classes) * least, rel=1e-6)
    assert test.components[0].statement == f"A label occurred whose forecast was {least:.3g}"
    wrong = Multilabel()
    events = np.eye(n_classes)[y]
    assert calibration_test(events, forecast, notion=wrong).pvalue <= 1e-4


def test_certain_labels_that_are_right_have_no_evidence():
    for forecast in (np.eye(2)[[0, 1, 1]], np.eye(3)):
        test = calibration_test([0, 1, 1] if len(forecast[0]) == 2 else [0, 1, 2], forecast)
        assert test.pvalue == 1
        assert test.components == ()
    assert calibration_test([1], [0.3], labels=[0, 1]).pvalue >= 0.2


def test_messages():
    forecast = simplex(20, 3, 0)
    y = drawn(forecast, 1)
    with pytest.raises(ValueError, match="n_resamples must be a whole number of at least 1"):
        calibration_test(y, forecast, n_resamples=0)
    with pytest.raises(ValueError, match="y_proba is missing"):
        calibration_test(y)
    with pytest.raises(ValueError, match="NaN"):
        calibration_test(y, np.full((20, 3), np.nan))


# --- Scores, cumulants and bounds against all labels ----------------------------------------------


def all_labels(forecast):
    """Every labelling of a few samples (m, n), with its probability (m,)."""
    n, n_classes = forecast.shape
    labels = np.array(list(itertools.product(range(n_classes), repeat=n)))
    return labels, np.prod(forecast[np.arange(n), labels], axis=1)


def scores_of(kind, forecast, labels, weight, **fields):
    """Scores (m, J) of labellings (m, n)."""
    found = []
    for y in labels:
        problem = Problem(forecast, y, weight, np.arange(forecast.shape[1]), **fields)
        found.append(kind(problem))
    return found


def binary_scores(problem):
    return BinaryScores(problem, "p")


def class_scores(problem):
    return ClassScores(problem, [str(k) for k in range(problem.forecast.shape[1])])


CASES = [
    (binary_scores, np.array([0.1, 0.25, 0.4, 0.7, 0.8, 0.95])[:, None] * [[-1.0, 1]] + [[1, 0]]),
    (class_scores, simplex(5, 3, 3)),
]


@pytest.mark.parametrize(("kind", "forecast"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_cumulants_are_those_over_all_labels(kind, forecast, weighted):
    """Mean 0, variance and third moment of each score, by enumeration."""
    weight = np.linspace(1, 0.3, len(forecast)) if weighted else np.ones(len(forecast))
    labels, chance = all_labels(forecast)
    scores = scores_of(kind, forecast, labels, weight)
    values = np.array([each.score for each in scores])
    np.testing.assert_allclose(chance @ values, 0, atol=1e-12)
    cumulants = scores[0].cumulants
    np.testing.assert_allclose(chance @ values**2, cumulants.variance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(chance @ values**3, cumulants.third, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kind", "forecast"), CASES)
def test_bounds_are_above_the_tails_over_all_labels(kind, forecast):
    labels, chance = all_labels(forecast)
    scores = scores_of(kind, forecast, labels, np.ones(len(forecast)))
    values = np.array([each.score for each in scores])
    single = [s.columns for s in scores[0].statistics if not s.squares]
    column = np.unique(np.concatenate(single))
    column = column[scores[0].cumulants.variance[column] > 0.01]
    for at in range(0, len(scores), 7):
        score = scores[at].score
        for j in column[np.abs(score[column]) > 1e-6]:
            beyond = np.sign(score[j]) * values[:, j] >= abs(score[j]) - 1e-12
            tail = chance[beyond].sum() * 2 * len(score)
            assert scores[at].bound(j) >= min(tail, 1) - 1e-12


@pytest.mark.parametrize(("kind", "forecast"), CASES)
def test_clusters_of_one_sample_have_the_variances_of_labels(kind, forecast):
    forecast = np.repeat(forecast, 40, axis=0)
    y = drawn(forecast, 0)
    problem = Problem(forecast, y, np.ones(len(y)), np.arange(forecast.shape[1]))
    plain = kind(problem)
    alone = kind(Problem(forecast, y, problem.weight, problem.classes, cluster=np.arange(len(y))))
    used = np.unique(np.concatenate([s.columns for s in alone.statistics]))
    np.testing.assert_allclose(alone.score[used], plain.score[used], atol=1e-9)
    size = alone.units.size[used]
    expected = plain.cumulants.variance[used] * size / (size - 1)
    np.testing.assert_allclose(alone.units.variance[used], expected, rtol=1e-9)


def test_two_copies_of_each_sample_have_twice_the_variance():
    forecast = simplex(200, 3, 0)
    y = drawn(forecast, 1)
    twice = np.repeat(np.arange(200), 2)
    problem = Problem(forecast[twice], y[twice], np.ones(400), np.arange(3), cluster=twice)
    scores = class_scores(problem)
    used = np.unique(np.concatenate([s.columns for s in scores.statistics]))
    size = scores.units.size[used]
    expected = 2 * scores.cumulants.variance[used] * size / (size - 1)
    np.testing.assert_allclose(scores.units.variance[used], expected, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [3, 40])
def test_drawn_labels_have_the_forecasts_as_frequencies(n_classes):
    forecast = simplex(3, n_classes, 0)
    forecast[:, 1] = 0
    forecast /= forecast.sum(axis=1, keepdims=True)
    label = draw_labels(forecast, 40_000, np.random.RandomState(0))
    counts = np.stack([np.bincount(row, minlength=n_classes) for row in label]) / 40_000
    assert (counts[forecast == 0] == 0).all()
    error = np.sqrt(forecast * (1 - forecast) / 40_000)
    assert (np.abs(counts - forecast) <= 4.5 * error).all()


# --- Combination ----------------------------------------------------------------------------------


def test_p_values_within_all_sets_are_ranks_with_an_exponential_tail():
    values = np.arange(100.0)
    logs = log_pvalues(values)
    np.testing.assert_allclose(np.exp(logs[:91]), (100 - np.arange(91)) / 100)
    # The nine values above 90 exceed it by 5 on average.
    np.testing.assert_allclose(logs[91:], np.log(0.09) - np.arange(1, 10) / 5, rtol=1e-6)
    assert np.all(log_pvalues(np.ones(50)) == 0)


def test_the_combination_of_one_component_is_its_rank():
    rng = np.random.default_rng(0)
    forecast = np.full((30, 2), 0.5)
    scores = binary_scores(Problem(forecast, np.ones(30, int), np.ones(30), np.arange(2)))
    mean = [s for s in scores.statistics if s.name == "mean"]
    z = rng.normal(size=(200, len(scores.score)))
    rank = np.mean(np.abs(z[:, 0]) >= abs(z[0, 0]))
    result = combine(mean, z)
    assert result.pvalue == pytest.approx(rank)
    assert result.corrected[0] == pytest.approx(rank)


def test_cauchy_combination():
    share = np.array([0.5, 0.5])
    same = cauchy_combination(np.log([0.03, 0.03]), share)
    assert np.exp(same) == pytest.approx(0.03, rel=1e-9)
    assert cauchy_combination(np.log([1e-200, 0.4]), share) == pytest.approx(
        np.log(2) - 200 * np.log(10), rel=1e-9
    )
    below, above = (cauchy_combination(np.array([x, -0.1]), share) for x in (-30.1, -29.9))
    assert below == pytest.approx(above, abs=0.25)


def test_windows():
    score = np.repeat(np.arange(32) / 32, 2)
    windows = Windows(score, np.ones(64))
    size = len(windows.edges)
    assert len(windows) == size * (size + 1) // 2
    np.testing.assert_array_equal(windows.cells(windows.edges), np.arange(size))
    counts = np.bincount(windows.cells(score), minlength=size)
    lengths = windows.sums @ counts
    for window in (0, len(windows) - 1):
        low, high = windows.limits(window, score)
        assert ((low <= score) & (score <= high)).sum() == lengths[window]
    dyadic = np.diff(windows.spans[windows.dyadic], axis=1).ravel()
    assert set(dyadic) == {2**k for k in range(6) if 2**k <= size}
