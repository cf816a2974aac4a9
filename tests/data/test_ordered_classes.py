"""Ordered classes: the events that the class is at most k, and the ranked probability score."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score

import skcalib as s
from skcalib.data.notions import Canonical, Cumulative
from skcalib.grouping import grouping_improvement
from skcalib.scorers import ProbaScorer, RefinementScorer
from skcalib.scores import Brier, RankedProbability, UScore

K = 4
RNG = np.random.default_rng(0)
TRUTH = RNG.dirichlet(2 * np.ones(K), 400)
P = TRUTH**3 / (TRUTH**3).sum(axis=1, keepdims=True)  # over-confident
Y = (RNG.random((400, 1)) > TRUTH.cumsum(axis=1)[:, :-1]).sum(axis=1)
UP_TO, EVENTS = P.cumsum(axis=1)[:, :-1], Y[:, None] <= np.arange(K - 1)

#: Functions that average binary values over the problems of a notion.
MEANS = [
    (s.calibration_error, {}),
    (s.calibration_error, {"strategy": "uniform", "n_bins": 10}),
    (s.ks_calibration_error, {}),
    (s.kernel_calibration_error, {}),
    (s.proper_calibration_error, {}),
    (s.proper_calibration_error, {"loss": "log", "smoother": "isotonic", "method": "direct"}),
    (s.refinement_loss, {}),
    (s.sharpness, {}),
    (s.calibration_upper_bound, {"loss": "log"}),
    (s.integrated_calibration_index, {}),
    (s.errors.kde_calibration_error, {}),
    (s.smooth_calibration_error, {}),
]


@pytest.mark.parametrize(("function", "options"), MEANS)
def test_the_error_is_the_mean_over_thresholds(function, options):
    for weight in (None, 1.0 + np.arange(len(Y)) % 3):
        run = {"sample_weight": weight, **options}
        alone = [
            function(event.astype(int), score, notion="canonical", **run)
            for event, score in zip(EVENTS.T, UP_TO.T, strict=True)
        ]
        assert len(set(alone)) == K - 1  # the thresholds differ
        for notion, expected in (
            ("cumulative", np.mean(alone)),
            (Cumulative(reduce="sum"), np.sum(alone)),
        ):
            assert function(Y, P, notion=notion, **run) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("function", "options"), MEANS)
def test_two_classes_are_the_binary_problem(function, options):
    for y, p in ((Y < 2, UP_TO[:, 1]), (Y < 2, np.column_stack([1 - UP_TO[:, 1], UP_TO[:, 1]]))):
        binary = function(y, p, notion="canonical", **options)
        assert function(y, p, notion="cumulative", **options) == binary


def test_tests_reject_forecasts_that_are_over_confident():
    assert s.kernel_calibration_test(Y, P, notion="cumulative").rejects()
    assert s.errors.corp_test(Y, P, notion="cumulative", n_resamples=99, random_state=0).rejects()


def test_records_name_their_thresholds():
    names = ["class <= 0", "class <= 1", "class <= 2"]
    bands = s.errors.corp_bands(Y, P, notion="cumulative", n_resamples=39, random_state=0)
    assert [band.event for band in bands] == names
    groups = s.calibration_by_group(Y, P, Y % 2, notion="cumulative")
    assert {group.event for group in groups.groups} == set(names)
    display = s.ReliabilityDisplay.from_predictions(Y, P, notion="cumulative", band=None)
    assert [curve.event for curve in display.curves] == names
    assert_allclose(display.curves[1].scores, UP_TO[:, 1])
    plt.close("all")
    for function in (s.reliability_bins, s.errors.cumulative_curve):
        assert len(function(Y, P, notion="cumulative")) == K - 1
    grades = np.array(["G1", "G2", "G3", "G4"])
    bands = s.errors.corp_bands(grades[Y], P, notion="cumulative", n_resamples=39, random_state=0)
    assert [band.event for band in bands] == ["class <= G1", "class <= G2", "class <= G3"]
    with pytest.raises(ValueError, match="one panel per threshold, and 29 thresholds exceed"):
        s.MurphyDisplay.from_predictions(
            np.arange(30), np.full((30, 30), 1 / 30), notion="cumulative"
        )


@pytest.mark.parametrize("metric", ["brier", "log", "l1", "l2", "max", "ks", "kernel", "ici"])
def test_intervals_contain_the_estimate(metric):
    interval = s.calibration_error_interval(Y, P, metric=metric, notion="cumulative")
    assert 0 <= interval.low <= interval.estimate <= interval.high


@pytest.mark.slow
def test_intervals_cover_and_tests_keep_their_level():
    """40 calibrated samples; 34 or more cover 0; of the 10 % tests 4 +- 1.9 reject."""
    covered = rejected = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        truth = rng.dirichlet(2 * np.ones(3), 150)
        y = (rng.random((150, 1)) > truth.cumsum(axis=1)[:, :-1]).sum(axis=1)
        interval = s.calibration_error_interval(y, truth, metric="brier", notion="cumulative")
        covered += interval.low <= 0
        rejected += s.kernel_calibration_test(y, truth, notion="cumulative").pvalue < 0.1
    assert covered >= 34 and rejected <= 9


def test_sketches_and_streams_and_their_states():
    sketch = s.ForecastSketch(range(K), notion="cumulative").fit(Y, P)
    again = s.ForecastSketch.from_bytes(sketch.to_bytes())
    whole = s.calibration_error(Y, P, notion="cumulative")
    assert s.calibration_error(again) == pytest.approx(whole, abs=1e-12)
    assert s.proper_calibration_error(again, notion="cumulative") == pytest.approx(
        s.proper_calibration_error(Y, P, notion="cumulative"), abs=1e-6
    )
    assert set(sketch.to_frame()["problem"]) == {"<= 0", "<= 1", "<= 2"}
    frame = pd.DataFrame(P, columns=list("abcd")).assign(y=Y)
    names = {"y_true": "y", "y_proba": list("abcd"), "labels": range(K)}
    summed = s.summarize(frame, **names, notion="cumulative")
    assert s.calibration_error(summed) == pytest.approx(whole, abs=1e-9)
    two = s.ForecastSketch([0, 1], notion="cumulative").fit(Y > 1, 1 - UP_TO[:, 1])
    assert s.calibration_error(two) == pytest.approx(s.calibration_error(Y > 1, 1 - UP_TO[:, 1]))
    test = s.SequentialCalibrationTest(notion="cumulative", labels=range(K)).partial_fit(Y, P)
    assert len(test._streams.streams) == K - 1
    loaded = s.SequentialCalibrationTest.from_bytes(test.to_bytes())
    assert loaded.notion == "cumulative" and loaded.n_samples_seen_ == len(Y)
    with pytest.raises(ValueError, match="alphabetical order"):
        s.ForecastSketch(["high", "low", "medium"], notion="cumulative").fit(Y, P)


# --- The ranked probability score -----------------------------------------------------------------


def test_the_score_is_the_sum_over_thresholds():
    labels, score = np.eye(K)[Y], RankedProbability()
    expected = ((UP_TO - EVENTS) ** 2).sum(axis=1)
    assert_allclose(score.loss(labels, P), expected, atol=1e-14)
    assert_allclose(
        score.entropy(TRUTH), (TRUTH.cumsum(axis=1) * (1 - TRUTH.cumsum(axis=1))).sum(1)
    )
    squares = (TRUTH.cumsum(axis=1) - P.cumsum(axis=1)) ** 2
    assert_allclose(score.divergence(TRUTH, P), squares.sum(axis=1), atol=1e-14)
    rule = UScore(lambda p, y: (np.cumsum(p - y, axis=1)[:, :-1] ** 2).sum(axis=1), size=1)
    assert rule.estimate(labels, P) == pytest.approx(expected.mean())
    pairs = Cumulative().problems(P, labels)
    assert_allclose(sum(Brier().loss(target, p) for p, target in pairs), expected, atol=1e-14)
    assert score.loss(np.eye(3)[:1], np.eye(3)[2:]) == 2  # K - 1, not divided by it
    two = np.column_stack([UP_TO[:, 0], 1 - UP_TO[:, 0]])
    hits = np.eye(2)[(Y > 0).astype(int)]
    assert_allclose(score.loss(hits, two), Brier().loss(hits, two), atol=1e-14)


def test_the_closed_gradient_is_a_difference():
    score, q, p = RankedProbability(), TRUTH[:20], P[:20]
    step = np.array([1.0, -2.0, 0.5, 0.5])
    ahead, behind = (score.loss(q, p + h * step) for h in (1e-6, -1e-6))
    assert_allclose(score.loss_gradient(q, p) @ step, (ahead - behind) / 2e-6, rtol=1e-6)


def test_every_function_of_a_loss_takes_it():
    terms = s.score_decomposition(Y, P, loss="rps")
    mean = ((UP_TO - EVENTS) ** 2).sum(axis=1).mean()
    gain = s.calibration_improvement(Y, P, TRUTH, loss="rps", injective=True)
    sharper = s.TemperatureScaling(loss="rps").fit(P, Y)
    for loss in (
        terms.loss,
        terms.calibration + terms.uncertainty - terms.sharpness,
        s.calibration_upper_bound(Y, P, loss="rps"),
        gain.loss_before,
        s.CalibrationErrorEstimator(loss="rps").fit(P, Y).expected_loss_,
        sharper.loss_before_,
    ):
        assert loss == pytest.approx(mean)
    assert s.proper_calibration_error(Y, P, loss="rps") == pytest.approx(terms.calibration)
    interval = s.calibration_error_interval(
        Y, P, metric=s.proper_calibration_error, loss="rps", smoother=None
    )
    for error in (terms.calibration, np.mean(RankedProbability().divergence(TRUTH, P))):
        assert interval.low <= error <= interval.high
    assert min(terms.calibration, gain.low) > 0
    few = [s.TemperatureScaling(loss="rps"), s.PlattScaling()]
    by_rps, by_brier, by_stack = (
        s.calibration_upper_bound(Y, scaling.fit(P, Y).predict_proba(P), loss="rps")
        for scaling in (
            sharper,
            s.TemperatureScaling(loss="brier"),
            s.StackedRecalibrator(candidates=few, loss="rps"),
        )
    )
    assert by_rps < by_brier
    assert max(sharper.loss_after_, by_stack) < mean
    y, before, after = Y[:100], P[:100], TRUTH[:100]
    change = grouping_improvement(y, before, after, np.arange(100)[:, None] % 7, loss="rps")
    gain = s.calibration_improvement(y, before, after, loss="rps", injective=True)
    assert change.gain.estimate == gain.estimate and np.isfinite(change.grouping_after.estimate)
    rps = ProbaScorer(s.calibration_upper_bound, loss="rps")
    theirs = make_scorer(
        s.calibration_upper_bound,
        loss="rps", response_method="predict_proba", greater_is_better=False,
    )  # fmt: skip
    assert_allclose(
        cross_val_score(LogisticRegression(), P, Y, scoring=rps, cv=3),
        cross_val_score(LogisticRegression(), P, Y, scoring=theirs, cv=3),
    )


# --- The order of the classes ---------------------------------------------------------------------


STAGES = np.array(["low", "medium", "high", "top"])
ORDERED = [
    lambda y, **options: s.calibration_error(y, P, notion="cumulative", **options),
    lambda y, **options: s.ks_calibration_error(y, P, notion="cumulative", **options),
    lambda y, **options: s.proper_calibration_error(y, P, notion="cumulative", **options),
    lambda y, **options: s.proper_calibration_error(y, P, loss="rps", **options),
    lambda y, **options: s.refinement_loss(y, P, loss="rps", **options),
    lambda y, **options: s.calibration_upper_bound(y, P, loss="rps", **options),
    lambda y, **options: s.calibration_improvement(
        y, P, TRUTH, loss="rps", injective=True, **options
    ).estimate,
    lambda y, **options: s.calibration_error_interval(
        y, P, metric="brier", notion="cumulative", **options
    ).high,
    lambda y, **options: s.kernel_calibration_error(y, P, notion="cumulative", **options),
    lambda y, **options: s.significance.distribution_free_bound(y, P, notion="cumulative",
    **options).statistic,
    lambda y, **options: s.corp_decomposition(y, P, notion="cumulative", **options).miscalibration,
    lambda y, **options: s.decision_regret(y, P, threshold=0.3, notion="cumulative",
                                        **options).expected_cost.estimate,
    lambda y, **options: s.compare_calibration(y, P, TRUTH, notion="cumulative", **options).pvalue,
    lambda y, **options: s.TemperatureScaling(loss="rps", **options).fit(P, y).loss_after_,
    lambda y, **options: s.CalibrationErrorEstimator(
        loss="rps", **options
    ).fit(P, y).calibration_error_,
]  # fmt: skip


@pytest.mark.parametrize("function", ORDERED)
def test_names_are_in_order_or_are_refused(function):
    expected = function(Y)
    assert function(STAGES[Y], labels=STAGES) == expected  # from the lowest to the highest
    with pytest.raises(ValueError, match=r"alphabetical order.* pass labels="):
        function(np.sort(STAGES)[Y])
    for numbered in (["-1", "0", "1", "2"], ["G1", "G2", "G3", "G4"], ["I", "II", "III", "IV"],
                     list("ABCD"), [2, 5, 6, 9],
                     ["1 mild", "2 medium", "3 bad", "4 worst"]):  # fmt: skip
        assert function(np.array(numbered)[Y]) == expected
    with pytest.raises(ValueError, match="alphabetical order"):
        function(np.array(["G1", "G10", "G2", "G3"])[Y])
    with pytest.raises(ValueError, match="do not rise"):
        function(Y, labels=[3, 0, 1, 2])


@pytest.mark.parametrize("function", [*ORDERED[:12], ORDERED[13]])
def test_ordered_categories_are_known(function):
    expected = function(Y)
    good = ["bad", "fair", "good", "great"]  # the alphabet is right
    assert function(pd.Series(pd.Categorical.from_codes(Y, good, ordered=True))) == expected
    stages = pd.Series(pd.Categorical.from_codes(Y, STAGES, ordered=True))
    assert function(stages, labels=STAGES) == expected
    order = r"ordered categories \['low', 'medium', 'high', 'top'\]"
    with pytest.warns(UserWarning, match=order), pytest.raises(ValueError, match=order):
        function(stages)


def test_other_orders_of_categories_are_mentioned():
    """Columns without names are those of the sorted classes, as in scikit-learn."""
    stages = pd.Series(pd.Categorical.from_codes(Y, STAGES, ordered=True))
    pair = pd.Series(pd.Categorical.from_codes(Y % 2, ["mild", "fair"], ordered=True))
    rows = np.clip(P[:, :2], 0.1, None) / np.clip(P[:, :2], 0.1, None).sum(axis=1, keepdims=True)
    functions = (s.calibration_error, s.proper_calibration_error, s.kernel_calibration_error)
    fits = (lambda y, X, **labels: s.PlattScaling(**labels).fit(X, y),)
    for function in (*functions, *fits):
        for y, forecast, names in (
            (stages, P, STAGES),
            (pair, rows, ["mild", "fair"]),
            (pair, rows[:, 1], ["mild", "fair"]),
        ):
            with pytest.warns(UserWarning, match="the sorted classes, as in scikit-learn: pass"):
                function(y, forecast)
            function(y, forecast, labels=names)
        in_order = pd.DataFrame(P[:, [2, 0, 1, 3]], columns=sorted(STAGES))
        function(stages, in_order)  # their names say which columns they are


def test_classes_of_a_classifier_are_refused_in_alphabetical_order():
    X, y = P[:, :3], np.sort(STAGES)[Y]
    model = LogisticRegression().fit(X, y)
    for refused in (
        lambda: RefinementScorer(loss="rps")(model, X, y),
        lambda: s.RecalibratedClassifierCV(LogisticRegression(), loss="rps").fit(X, y),
        lambda: s.ReliabilityDisplay.from_estimator(model, X, y, notion="cumulative"),
        lambda: s.CalibrationErrorEstimator(model, notion="cumulative").fit(X, y),
        lambda: s.GroupingLossEstimator(model, loss="rps").fit(X, y),
        lambda: s.DecompositionDisplay.from_predictions(y, P, loss="rps"),
        lambda: s.calibration_by_group(y, P, Y % 2, notion="cumulative"),
        lambda: s.CalibrationMonitor(labels=np.sort(STAGES), notion="cumulative").partial_fit(y, P),
    ):
        with pytest.raises(ValueError, match="alphabetical order, which is hardly their own"):
            refused()
    few = {"candidates": [s.TemperatureScaling()], "recalibrator": "select"}
    s.RecalibratedClassifierCV(LogisticRegression(), loss="rps", cv=3, **few).fit(X, Y)


def test_an_order_is_not_asked_for_where_it_plays_no_part():
    y = np.sort(STAGES)[Y]
    for options in ({"notion": "classwise"}, {"notion": "top_label"}, {"loss": "log"}):
        assert np.isfinite(s.proper_calibration_error(y, P, **{"loss": "rps", **options}))
    two = np.array(["alive", "dead"])[(Y > 1).astype(int)]
    assert np.isfinite(s.proper_calibration_error(two, 1 - UP_TO[:, 1], loss="rps"))
    assert isinstance(Cumulative().for_columns(2), Canonical)


def test_advice():
    of_predicted = "reduce='predicted' is for notion='classwise', got"
    for options, message in (
        ({"notion": "ordinal"}, "use notion='cumulative'"),
        ({"notion": "ordered"}, "use notion='cumulative'"),
        ({"notion": "cumulative", "reduce": "predicted"}, of_predicted),
    ):
        with pytest.raises(ValueError, match=message):
            s.ks_calibration_error(Y, P, **options)
