"""Costs of decisions: `decision_regret` and the scores behind it, against known truths."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import pairs
from numpy.testing import assert_allclose
from scipy.special import expit, logit
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

import skcalib
from skcalib.datasets import make_tempered_simplex
from skcalib.error_intervals.proper import regret_interval
from skcalib.proper.proper import SmoothedProblem
from skcalib.scores import DecisionCost, Elementary
from skcalib.stats.means import mean_interval, mean_loss_interval
from skcalib.testing import check_score

COSTS3 = [[0, 5, 2, 1], [4, 0, 3, 1], [1, 7, 0.5, 2]]


def world(n_samples, seed=0, groups=True):
    """Scores that are too extreme, and two groups: the trial of the formulas."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=n_samples), rng.integers(0, 2, n_samples)
    s, c = expit(1.6 * x), expit(x)
    q = np.clip(c + groups * (2 * g - 1) * 0.3 * np.minimum(c, 1 - c), 0, 1)
    return (rng.random(n_samples) < q).astype(int), s, c, q, np.column_stack([x, g])


Y, S, *_, X = world(3000)


@pytest.mark.parametrize("threshold", [0.02, 0.3, 0.5, 0.9])
def test_elementary_scores_obey_the_laws(threshold):
    check_score(Elementary(threshold), n_classes=(2,))
    p, t = np.array([0.0, 0.1, threshold, 0.95, 1.0]), threshold
    for label in (0, 1):
        expected = t * (1 - label) * (p > t) + (1 - t) * label * (p <= t)
        assert_allclose(Elementary(t).loss(np.eye(2)[[label] * 5], pairs(p)), expected, rtol=1e-15)
    assert_allclose(Elementary(t).entropy(pairs(p)), np.minimum(t * (1 - p), (1 - t) * p))
    assert Elementary(t).infimum == 0


def test_costs_of_several_classes_obey_the_laws():
    score, costs = DecisionCost(COSTS3), np.array(COSTS3)
    check_score(score, n_classes=(3,))
    check_score(DecisionCost([[0, 1], [9, 2]]), n_classes=(2,))
    proba, q = np.random.default_rng(0).dirichlet(np.ones(3), (2, 200))
    expected = (proba @ costs).argmin(axis=1)
    assert score.decisions(proba).tolist() == expected.tolist()
    assert_allclose(score.loss(q, proba), np.sum(q * costs[:, expected].T, axis=1))


def test_a_threshold_is_a_matrix_of_costs():
    p = np.random.default_rng(0).random((500, 1))
    forecast, target = pairs(p[:, 0]), pairs(p[::-1, 0])
    for t in (0.1, 0.37, 0.8):
        elementary, decision = Elementary(t), DecisionCost([[0, t], [1 - t, 0]])
        assert_allclose(elementary.loss(target, forecast), decision.loss(target, forecast))
        scaled = DecisionCost([[3, 3 + 7 * t], [2 + 7 * (1 - t), 2]])  # other units and constants
        shift = target @ np.array([3, 2])
        assert_allclose(
            scaled.loss(target, forecast), shift + 7 * elementary.loss(target, forecast)
        )


def test_refusals():
    words = "costs must be a matrix of finite numbers with a row"
    for costs in ([0, 1], [[0], [1]], [[0, 1]], [[0, np.inf], [1, 0]], "a", [[0, 1], [2]],
                  [[0, "1"], [1, 0]]):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            DecisionCost(costs)
    for large in (1e101, -1e101):
        with pytest.raises(ValueError, match=r"costs must be at most 1e\+100 in size"):
            DecisionCost([[0, large], [1, 0]])
    with pytest.raises(ValueError, match="so no map can be fitted by it: fit with loss='log'"):
        skcalib.PlattScaling(loss=Elementary(0.3)).fit([0.2, 0.7, 0.6], [0, 1, 1])
    either, both = "Pass either threshold= .a probability. or costs=", {"costs": [[0, 1], [1, 0]]}
    needs_costs = "for 2 classes, but the forecasts have 3: pass costs"
    threshold = {"threshold": 0.3}
    for arguments, words in (
        ({}, either),
        (threshold, needs_costs),
        ({**threshold, **both}, either),
    ):
        with pytest.raises(ValueError, match=words):
            skcalib.decision_regret([0, 1, 2], np.full((3, 3), 1 / 3), **arguments)


def test_parts_of_the_trial():
    """The decomposition at t = .3: .00358 + .00603 + .12565 = .13526."""
    _, s, c, q, _ = world(100_000, seed=1)
    score = Elementary(0.3)
    truth = {
        "calibration": score.divergence(pairs(c), pairs(s)).mean(),
        "grouping": np.mean(score.entropy(pairs(c)) - score.entropy(pairs(q))),
        "rest": score.entropy(pairs(q)).mean(),
    }
    assert_allclose(list(truth.values()), [0.00358, 0.00603, 0.12565], rtol=0.06)
    y, s, *_, X = world(4000)
    regret = skcalib.decision_regret(y, s, threshold=0.3, X=X)
    for name, value in truth.items():
        part = getattr(regret, name)
        assert abs(part.estimate - value) < 3 * part.standard_error, name
    assert regret.grouping.low > 0
    assert 0.07 < regret.changed < 0.13
    text = str(replace(regret, calibration=regret.grouping))
    assert "recalibration would save" in text and "features would save at least" in text
    assert list(regret.to_frame()["part"]) == ["expected_cost", "calibration", "grouping", "rest"]


@pytest.mark.parametrize(("n_classes", "weighted"), [(2, False), (3, True)])
def test_parts_add_up(n_classes, weighted):
    sample = make_tempered_simplex(1500, n_classes, random_state=0)
    weight = np.random.default_rng(0).exponential(size=1500) if weighted else None
    costs = COSTS3 if n_classes == 3 else [[1, 4, 2], [9, 0, 4]]
    X = np.random.default_rng(1).normal(size=(1500, 2))
    regret = skcalib.decision_regret(
        sample.y, sample.y_proba, costs=costs, X=X, sample_weight=weight
    )
    parts = (regret.calibration, regret.grouping, regret.rest)
    assert abs(sum(part.estimate for part in parts) - regret.expected_cost.estimate) < 1e-12
    cost = np.array(costs)[sample.y, regret.score.decisions(sample.y_proba)]
    assert regret.expected_cost.estimate == pytest.approx(np.average(cost, weights=weight))
    for part in (*parts, regret.expected_cost):
        assert part.low <= part.estimate <= part.high


def test_a_model_gets_the_weights():
    """Which make the event the more frequent class: the model always decides for it."""
    weight = np.where(Y == 1, 9.0, 1.0)
    options = {"sample_weight": weight, "model": DummyClassifier()}
    regret = skcalib.decision_regret(Y, S, threshold=0.5, X=X, **options)
    loss = Elementary(0.5).loss(pairs(Y), pairs(np.ones(3000)))
    assert regret.rest.estimate == pytest.approx(np.average(loss, weights=weight))
    assert Y.mean() < 0.5


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_model_gets_the_features_and_the_logits_of_the_forecasts(n_classes, rng):
    seen = []

    class Model(DummyClassifier):
        def fit(self, X, y):
            seen.append(X)
            return super().fit(X, y)

    p, X, cluster = rng.dirichlet(np.ones(n_classes), 60), rng.normal(size=60), np.arange(60) // 3
    p[:2] = np.eye(n_classes)[:2]
    options = {"costs": 1 - np.eye(n_classes), "X": X, "model": Model(), "groups": cluster}
    skcalib.decision_regret(np.arange(60) % n_classes, p, **options)
    columns = np.clip(p[:, 1:] if n_classes == 2 else p, 1e-12, 1 - 1e-12)
    expected = np.column_stack([X, logit(columns)]).tolist()
    for rows in seen:
        numbers = [expected.index(row) for row in rows.tolist()]
        assert not set(cluster[numbers]) & set(np.delete(cluster, numbers))
    assert len(seen) == 5


def test_intervals_of_the_cost(rng):
    """Few events of two classes have limits of their own; several classes have Student's."""
    p = rng.uniform(0.01, 0.1, 300)
    y, loss, weight = np.arange(300) % 30 == 0, Elementary(0.05), rng.uniform(1, 2, 300)
    options = {"sample_weight": weight, "confidence_level": 0.8}
    cost = skcalib.decision_regret(y, p, threshold=0.05, **options).expected_cost
    lost = partial(loss.loss, forecast=pairs(p))
    assert cost == mean_loss_interval(lost, pairs(p), pairs(1.0 * y), 0.8, weight=weight)
    sample = make_tempered_simplex(300, 3, random_state=0)
    events = [np.eye(2)[(sample.y == k).astype(int)] for k in range(3)]
    losses = [loss.loss(event, pairs(q)) for event, q in zip(events, sample.y_proba.T, strict=True)]
    cost = skcalib.decision_regret(
        sample.y, sample.y_proba, threshold=0.05, notion="classwise", **options
    ).expected_cost
    expected = mean_interval(np.mean(losses, axis=0), weight, 0.8)
    assert (cost.low, cost.high) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_the_same_as_the_error_of_the_score():
    regret, loss = skcalib.decision_regret(Y, S, threshold=0.3), Elementary(0.3)
    assert regret.calibration.estimate == skcalib.proper_calibration_error(Y, S, loss=loss)
    terms = skcalib.score_decomposition(Y, S, loss=loss)
    assert regret.rest.estimate == pytest.approx(terms.refinement)
    interval = skcalib.calibration_error_interval(Y, S, loss=loss)
    limits = max(regret.calibration.low, 0), regret.calibration.high
    assert limits == pytest.approx((interval.low, interval.high))
    after = expit(logit(S) / 1.6)
    gain = skcalib.calibration_improvement(Y, S, after, loss=loss, injective=True)
    assert gain.low <= regret.calibration.estimate <= gain.high


@pytest.mark.parametrize("method", ["partition", "risk"])
def test_the_grouping_loss_of_the_score(method):
    y, s, c, q, X = world(8000)
    score = Elementary(0.3)
    truth = np.mean(score.entropy(pairs(c)) - score.entropy(pairs(q)))
    estimator = skcalib.GroupingLossEstimator(loss=score, method=method, n_permutations=0)
    estimator.fit(X, y, y_proba=pairs(s))
    low, high = estimator.confidence_interval_
    assert low <= truth and 0.4 * truth < estimator.grouping_loss_ < high


def test_a_sketch_in_place_of_samples():
    y, s, *_ = world(10_000)
    sketch = skcalib.ForecastSketch([0, 1]).fit(y, s)
    of_sketch = skcalib.decision_regret(sketch, threshold=0.3)
    expected = skcalib.decision_regret(y, s, threshold=0.3)
    error = expected.calibration.standard_error
    assert of_sketch.expected_cost.estimate == pytest.approx(
        expected.expected_cost.estimate, abs=1e-4
    )
    assert abs(of_sketch.calibration.estimate - expected.calibration.estimate) < 0.5 * error
    assert of_sketch.calibration.high == pytest.approx(expected.calibration.high, abs=0.5 * error)
    assert of_sketch.rest.standard_error == pytest.approx(expected.rest.standard_error, rel=0.05)
    with pytest.raises(ValueError, match="A sketch has no features: leave out X"):
        skcalib.decision_regret(sketch, threshold=0.3, X=np.ones((5, 1)))


def test_features_of_any_kind():
    frame = pd.DataFrame({"x": X[:, 0], "group": pd.Categorical(np.where(X[:, 1], "b", "a"))})
    frame.loc[::7, "x"] = np.nan
    regret = skcalib.decision_regret(Y, S, threshold=0.3, X=frame)
    assert regret.grouping is not None and frame.shape == (3000, 2)
    linear = skcalib.decision_regret(Y, S, threshold=0.3, X=X, model=LogisticRegression())
    assert linear.grouping.estimate > 0
    with pytest.raises(ValueError, match="X and y_true must have the same number of samples"):
        skcalib.decision_regret(Y, S, threshold=0.3, X=X[:-1])
    with pytest.raises(ValueError, match="y_true and X have different indices"):
        skcalib.decision_regret(pd.Series(Y, index=frame.index[::-1]), S, threshold=0.3, X=frame)


def test_classes_one_by_one_the_top_label_and_the_positive_class():
    regret = skcalib.decision_regret
    sample = make_tempered_simplex(1500, 3, random_state=0)
    top = regret(sample.y, sample.y_proba, threshold=0.6, notion="top_label")
    confidence, right = sample.y_proba.max(axis=1), sample.y_proba.argmax(axis=1) == sample.y
    by_hand = regret(right.astype(int), confidence, threshold=0.6)
    assert top.calibration.estimate == pytest.approx(by_hand.calibration.estimate)
    regrets = [
        regret((sample.y == k).astype(int), sample.y_proba[:, k], threshold=0.3) for k in range(3)
    ]
    classwise = regret(sample.y, sample.y_proba, threshold=0.3, notion="classwise")
    costs = [regret_of_class.expected_cost.estimate for regret_of_class in regrets]
    assert classwise.expected_cost.estimate == pytest.approx(np.mean(costs))
    labels = np.array(["no", "yes"])[Y]
    plain = regret(Y, S, threshold=0.2)
    assert regret(labels, S, threshold=0.2, pos_label="yes").calibration == plain.calibration
    turned = regret(labels, pairs(S), threshold=0.8, pos_label="no")
    assert turned.expected_cost.estimate == pytest.approx(plain.expected_cost.estimate)
    by_class = regret(labels, pairs(S), costs=[[0, 1], [3, 0]], pos_label="no").expected_cost
    assert by_class == regret(labels, pairs(S), costs=[[0, 1], [3, 0]]).expected_cost


def test_no_sample_changes_its_decision():
    y = np.random.default_rng(0).integers(0, 2, 200)
    regret = skcalib.decision_regret(y, np.full(200, 0.5), threshold=0.1)
    assert regret.changed == 0
    p, y = np.repeat([0.4, 0.1], 400), np.repeat([1, 0, 1, 0], [320, 80, 40, 360])
    for weight, share in (([1, 1], 0.5), ([3, 1], 0.75)):  # all of .4 change theirs, none of .1
        weights = {"sample_weight": np.repeat(weight, 400)}
        assert skcalib.decision_regret(y, p, threshold=0.5, **weights).changed == pytest.approx(
            share
        )
    assert (regret.calibration.estimate, regret.calibration.low) == (0, 0)
    of_one_class = skcalib.decision_regret(
        [1, 1, 1], [0.9, 0.8, 0.99], threshold=0.5, labels=[0, 1]
    )
    assert of_one_class.expected_cost.estimate == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threshold", "bend", "least"),
    [(0.1, 0.0, 0.92), (0.3, 0.08, 0.87)],
)
def test_the_regret_is_covered(threshold, bend, least):
    """60 data sets: the standard error of a coverage of .95 is .028."""
    x = np.random.default_rng(99).normal(-0.5, 1.3, 400_000)

    def curve(s):
        slope = 0.6 if bend == 0 else 1.0
        return np.clip(expit(slope * np.log(s / (1 - s))) + bend * np.sin(6 * s), 0.001, 0.999)

    s = expit(x)
    truth = Elementary(threshold).divergence(pairs(curve(s)), pairs(s)).mean()
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        s = expit(rng.normal(-0.5, 1.3, 1000))
        y = (rng.random(1000) < curve(s)).astype(int)
        interval = skcalib.decision_regret(y, s, threshold=threshold).calibration
        covered.append(interval.low <= truth <= interval.high)
    assert np.mean(covered) >= least


def dip(s):
    """The curve is below the threshold .2 from .2 to .3, which maps of few parameters miss."""
    return np.where((s > 0.15) & (s < 0.3), 0.55 * s, s)


def steps(values, edges):
    """A curve that is on both sides of the threshold, below and above it."""
    return lambda s: np.array(values)[np.searchsorted(edges, s)]


@pytest.mark.parametrize("kind", ["plain", "weights", "clusters"])
@pytest.mark.parametrize(
    ("curve", "threshold", "shape"),
    [
        (dip, 0.2, (1.5, 4)),
        (steps([0.02, 0.3, 0.1, 0.6], [0.1, 0.2, 0.4]), 0.2, (1.5, 4)),
        (steps([0.005, 0.1, 0.02, 0.2], [0.02, 0.05, 0.1]), 0.05, (0.5, 24.5)),
        (lambda s: s, 0.05, (0.5, 24.5)),
    ],
)
def test_the_upper_limit_of_the_regret_needs_no_map(curve, threshold, shape, kind):
    """30 data sets: at .975 four or more misses have probability .007, and it shrinks with n."""
    s = np.random.default_rng(99).beta(*shape, 400_000)
    score, mean = Elementary(threshold), []
    truth = score.divergence(pairs(curve(s)), pairs(s)).mean()
    for size in (300, 3000):
        limits = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            s, u = np.clip(rng.beta(*shape, size), 1e-9, 1), rng.random(size)
            weight = rng.exponential(size=size) if kind == "weights" else np.ones(size)
            cluster = np.arange(size) // 3 if kind == "clusters" else None
            u = u[cluster * 3] if kind == "clusters" else u  # labels of a cluster depend strongly
            target = np.eye(2)[(u < curve(s)).astype(int)]
            problem = SmoothedProblem(pairs(s), target, pairs(s), weight, False, cluster=cluster)
            limits.append(regret_interval(score, [problem], 1.0, 0.95).high)
        assert np.sum(np.array(limits) < truth) < 4
        mean.append(np.mean(limits) - truth)
    assert mean[1] < mean[0] / 2


def test_sentences_where_no_saving_is_found(rng):
    """No negative saving is stated, and a maximum only where the limit holds for all maps."""
    p, X = rng.beta(1.5, 4, 800), rng.normal(size=(800, 2))
    regret = skcalib.decision_regret((rng.random(800) < p).astype(int), p, threshold=0.2, X=X)
    lines = str(regret).splitlines()
    assert regret.calibration.low <= 0 and regret.grouping.low <= 0
    assert lines[1].startswith("  With these samples no saving by recalibration can be shown; it")
    assert f"would save at most {regret.calibration.high:.3g}." in lines[1]
    assert lines[2].startswith("  No saving by a model of the features was found: the one that was")
    assert "-" not in str(regret)
    proba = rng.dirichlet(np.ones(3), 300)
    several = skcalib.decision_regret([rng.choice(3, p=q) for q in proba], proba, costs=COSTS3)
    assert several.calibration.low <= 0 and "at most" not in str(several)


def test_clusters(rng):
    """The spread of whole clusters."""
    cluster = np.repeat(np.arange(60), 20)
    p = rng.uniform(0.05, 0.6, 1200)
    y = (rng.random(60) < 0.3).astype(int)[cluster]
    plain = skcalib.decision_regret(y, p, threshold=0.3)
    clustered = skcalib.decision_regret(y, p, threshold=0.3, groups=cluster)
    assert clustered.expected_cost.estimate == pytest.approx(plain.expected_cost.estimate)
    cost = np.where(p > 0.3, 0.3 * (1 - y), 0.7 * y)
    sums = (cost - cost.mean()).reshape(60, 20).sum(axis=1)
    error = np.sqrt(np.sum(sums**2) * 60 / 59) / 1200
    assert clustered.expected_cost.standard_error == pytest.approx(error)


def test_a_model_needs_two_classes_in_each_fold(rng):
    """One event is in no training sample of the fold that tests it."""
    options = {"threshold": 0.5, "X": rng.normal(size=(300, 2))}
    p, y = rng.uniform(0.01, 0.1, 300), np.eye(300, dtype=int)[7]
    with pytest.raises(ValueError, match=r"fold have one class: the other has 1 of 300 samples"):
        skcalib.decision_regret(y, p, model=LogisticRegression(), **options)
    skcalib.decision_regret(y, p, **options)
