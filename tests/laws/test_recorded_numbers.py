"""Numbers of the public functions and estimators on fixed data, as they were recorded.

Other tests say why a number is right; this one notices that a number has changed. After a change
that is meant to change numbers, `python tests/laws/test_recorded_numbers.py` records them again,
and the difference of the file shows which ones changed.
"""

import json
import re
import sys
import warnings
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
import pytest
import scipy
import sklearn
from public_estimators import RECALIBRATORS, SMOOTHERS, answers, quick
from public_functions import FORECASTS, MOMENTS, numbers, other_values
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

import skcalib as s
from skcalib import kernels, links, scores
from skcalib._util.sizes import sizes
from skcalib.data.notions import ClassGroups, Classwise, TopK
from skcalib.error_intervals.quantities import QUANTITIES
from skcalib.errors.binned import expected_errors_of_subsamples
from skcalib.export import from_json, to_json
from skcalib.grouping import differences_at_equal_scores, grouping_improvement
from skcalib.scorers import DecisionRegretScorer, DecompositionScorer
from skcalib.significance import CalibrationTest
from skcalib.stats.means import concordance_interval, observed_expected_ratio

FILE = Path(__file__).with_suffix(".json")


def world(n_classes, n_samples, shift=0.0, unequal=0.0):
    """Labels, overconfident forecasts with ties, features and weights.

    Two groups of samples with equal forecasts have frequencies that differ by `unequal` logits.
    """
    rng = np.random.default_rng(n_samples)
    X = rng.normal(size=(n_samples, 4))
    z = X[:, :1] * np.linspace(-1.5, 1.5, n_classes) + 0.4 * rng.normal(size=(n_samples, n_classes))
    z[:, -1] += 0.5 * (X[:, 1] > 0) + shift
    P = softmax(1.5 * z, axis=1)
    P[::3] = np.round(P[::3], 1) * 0.9 + 0.1 / n_classes
    P = np.round(P, 9)  # the same bits where exp is computed differently
    P /= P.sum(axis=1, keepdims=True)
    z[:, -1] += unequal * np.sign(X[:, 2])
    y = (softmax(z, axis=1).cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return y, P, X, rng.uniform(0.5, 2, n_samples)


WORLDS = {
    "two classes": world(2, 160),
    "clusters of a rare event": world(2, 260, -2.0),
    "three classes, weighted": world(3, 120),
    "six classes": world(6, 150),
    "few samples": world(2, 14),
    "few samples of three classes, weighted": world(3, 22),
    "few clusters, unequal groups": world(2, 240, unequal=1.5),
    "unequal groups of four classes, weighted": world(4, 300, unequal=2.0),
}


def flat(P, power):
    """Other forecasts with the same order of classes."""
    return P**power / (P**power).sum(axis=1, keepdims=True)


def clusters(X):
    """Twenty clusters, whose labels depend on each other, in two of the worlds."""
    place = np.argsort(np.argsort(X[:, 1]))
    number = place // (len(X) // 10) * 2 + np.arange(len(X)) % 2
    return number if len(X) in (240, 260) else None


def called(recipe, others, y, P, X, weight):
    recipe = replace(recipe, options=recipe.options | others)
    if recipe.takes.startswith("moment"):
        return recipe(X[:, 0], X[:, 1] / 2, 0.5 + P[:, 0])
    arrays = {"two forecasts": (P, flat(P, 0.7)), "features": (P, X)}.get(recipe.takes, (P,))
    weighted = recipe.accepts("sample_weight") and len(y) in (22, 120, 300)
    options = {"sample_weight": weight} if weighted else {}
    unusual = {"confidence_level": 0.9, "random_state": 3}
    options |= {name: value for name, value in unusual.items() if recipe.accepts(name)}
    if recipe.accepts("groups"):
        options["groups"] = clusters(X)
    return recipe(y, *arrays, **options)


def mapped(recalibrator, options, y, P, X, weight):
    fitted = quick(recalibrator).set_params(**options).fit(P, y, weight)
    return learned(fitted, P[:40]), fitted.loss_before_, fitted.loss_after_


def learned(recalibrator, P):
    """Without the number of steps: another one where a search ends in rounding errors."""
    learned_values = answers(recalibrator, P)
    return {name: value for name, value in learned_values.items() if name != "n_iter_"}


def smoothed(smoother, options, y, P, X, weight):
    """Averages of labels; of losses, too, where a smoother averages any values."""
    needed = {"estimator": LogisticRegression()} if smoother is s.smoothers.CrossFitted else {}
    target = np.eye(P.shape[1])[y]
    fitted = smoother(**needed | options).fit(P, target, weight)
    averages = fitted.smooth(), fitted.smooth_held_out(), fitted.predict(P[:20])
    only_labels = (s.smoothers.CrossFitted, s.smoothers.LogitSmoother, s.smoothers.SplineSmoother)
    if issubclass(smoother, only_labels):
        return averages
    losses = scores.LogLoss().loss(target, P)
    return *averages, fitted.smooth(losses), fitted.smooth_held_out(losses)


def grouped(options, y, P, X, weight):
    estimator = s.GroupingLossEstimator(**{"n_permutations": 20, "random_state": 0} | options)
    return answers(estimator.fit(X, y, P, weight), None), estimator.regions_


def estimated(options, y, P, X, weight):
    return answers(s.CalibrationErrorEstimator(**options).fit(P, y, weight), None)


def report(options, y, P, X, weight):
    arguments = {"sample_weight": weight, "random_state": 0} | options
    return s.CalibrationReport.from_predictions(y, P, X, **arguments).to_dict()


def report_of_clusters(y, P, X, weight):
    groups = clusters(X)
    return [] if groups is None else report({"groups": groups}, y, P, X, weight)


def streams(y, P, X, weight):
    monitor = s.CalibrationMonitor(window=30, alpha=0.2)
    stream = s.SequentialCalibrationTest(notion="canonical")
    first, second = slice(0, len(y) // 2), slice(len(y) // 2, None)
    for half in (first, second):
        monitor.partial_fit(y[half], P[half], by=np.where(X[half, 1] > 0, "a", "b"))
        stream.partial_fit(y[half], P[half])
    labelled = y[first], P[first]
    expected = s.expected_performance(P[second], labelled=labelled)
    return monitor.summary(), monitor.path_, stream.path_, expected


def sketches(y, P, X, weight):
    """What is computed from one sketch, or of two."""
    sketch, second_sketch = (s.ForecastSketch(np.unique(y)) for _ in range(2))
    sketch.fit(y, P, weight, by=np.where(X[:, 1] > 0, "a", "b"))
    second_sketch.fit(y, flat(P, 0.7), weight)
    event = {"notion": "canonical" if P.shape[1] == 2 else "top_label"}
    errors = (
        s.calibration_error,
        s.smooth_calibration_error,
        s.ks_calibration_error,
        s.errors.corp_test,
        s.proper_calibration_error,
        s.score_decomposition,
        s.corp_decomposition,
    )
    of_events = (s.calibration_summary, s.significance.cumulative_test)
    return [
        *(function(sketch, **event) for function in errors),
        s.compare_windows(sketch, second_sketch),
        s.calibration_by_group(sketch),
        s.compare_calibration(sketch, second_sketch, confidence_level=0.7),
        *(function(sketch) for function in of_events if P.shape[1] == 2),
        s.decision_regret(sketch, threshold=0.4, **event),
    ]


def features(y, P, X, weight):
    """Functions and maps that take features or votes."""
    draws = (y[:, None] + (X > 1.2)) % P.shape[1]
    votes = np.array([np.bincount(row, minlength=P.shape[1]) for row in draws])
    map_ = s.GroupRecalibrator(random_state=0).fit(P, y, features=X)
    moments, costs = np.column_stack([X[:, 0], 1 + P[:, 0]]), 1 - np.eye(P.shape[1])
    return [
        [s.soft_label_decomposition(votes, P, loss=loss) for loss in ("brier", "log")],
        map_.predict_proba(P[:30], features=X[:30]),
        differences_at_equal_scores(y, P, X, random_state=0),
        grouping_improvement(y, P, flat(P, 0.8), X, random_state=3),
        s.decision_regret(y, P, costs=costs, X=X, model=LogisticRegression(), random_state=1),
        s.regression.VarianceScaling().fit(moments, X[:, 1]).transform(moments[:9]),
    ]


def models(y, P, X, weight):
    """Meta-estimators and scorers of a classifier."""
    model = LogisticRegression().fit(X, y)
    candidates = [s.TemperatureScaling(), s.IsotonicRecalibrator()]
    twice = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    select = {"recalibrator": "select", "candidates": candidates, "cv": twice}
    platt, selected_map = (
        s.RecalibratedClassifierCV(model, ensemble=True, **options).fit(X, y, weight)
        for options in ({"recalibrator": "platt", "cv": 3}, select)
    )
    several = s.MultilabelRecalibrator("platt").fit(P[:, :2], np.eye(P.shape[1])[y, :2], weight)
    regressor = s.regression.RecalibratedRegressorCV(cv=3).fit(X[:, :3], X[:, 3])
    options = {"n_supersamples": 2, "n_draws": 4, "n_bins": 4}
    return [
        *(
            scorer(model, X, y, sample_weight=weight)
            for scorer in s.get_scorers(s.get_scorer_names()).values()
        ),
        DecompositionScorer(cv=3)(model, X, y),
        DecisionRegretScorer(0.3)(model, X, y),
        platt.predict_proba(X[:30]),
        selected_map.predict_proba(X[:30]),
        selected_map.selection_,
        several.predict_proba(P[:30, :2]),
        regressor.predict(X[:9, :3], return_std=True),
        answers(s.CalibrationErrorEstimator(model, cv=3).fit(X, y, weight), None),
        s.theory.evaluate_supersample(model, X, y == 0, **options),
    ]


def shifts(y, P, X, weight):
    """Class frequencies of a target, and maps from chunks and in JSON."""
    target = P ** [1.3, *[1.0] * (P.shape[1] - 1)]
    shift = s.LabelShiftRecalibrator().fit(P, y, weight)
    shift.adapt(target / target.sum(axis=1, keepdims=True))
    in_parts = [kind(labels=np.unique(y)) for kind in (s.PlattScaling, s.VectorScaling)]
    for recalibrator in in_parts:
        recalibrator.partial_fit(P[::2], y[::2]).partial_fit(P[1::2], y[1::2])
    return [
        answers(shift, P[:20]),
        [recalibrator.predict_proba(P[:9]) for recalibrator in in_parts],
        [
            from_json(to_json(quick(recalibrator).fit(P, y))).predict_proba(P[:20])
            for recalibrator in EXPORTED
        ],
    ]


def blocks(y, P, X, weight):
    """Scores, links, kernels and notions of the same forecasts, bounds, and combined tests."""
    target, n_classes, values = np.eye(P.shape[1])[y], P.shape[1], []
    for score in SCORES:
        values += [score.entropy(P), score.loss(target, P), score.divergence(flat(P, 2), P)]
        values += [score.loss_gradient(target, P), score.logit_loss(target, np.log(P))]
    for link in LINKS if n_classes > 2 else (*LINKS, *BINARY_LINKS):
        link = link.prepare(np.log(P))
        theta = link.start(n_classes)
        theta = theta + 0.1 * np.cos(np.arange(len(theta)))
        values += [link.apply(theta, np.log(P)), link.vjp(theta, np.log(P), target)]
        for parameters in (theta, *np.outer([1, -1, 0], link.start(n_classes))):
            values.append(link.injective(parameters, n_classes))
            values.append(link.preserves_order(parameters, n_classes))
    for kernel in (kernel.for_data(P) for kernel in KERNELS):
        values += [kernel.bound(), kernel(P[:20], P[20:50]), kernel.pairs(P[:20], P[20:40])]
    for notion in (TopK(min(2, n_classes - 1)), ClassGroups([[0]]), Classwise()):
        values.append(list(notion.problems(P, target)))
    for norm, n_bins in ((1, 5), (2, 9)):
        values += [
            s.optimal_n_bins(len(y), lipschitz=norm),
            s.theory.ece_bias_bound(len(y), n_bins),
            s.theory.ece_generalization_bound(len(y), n_bins, ecmi=0.1 * norm),
        ]
    tests = (
        s.kernel_calibration_test(y, P),
        s.errors.corp_test(y, P, notion="top_label", n_resamples=99),
    )
    return values, [
        s.significance.combine_tests(tests, method=method) for method in ("fisher", "calibrated")
    ]


def interval(metric, y, P, method="auto"):
    """An interval, or a number where a metric has none by this method."""
    options = {"n_resamples": 9, "confidence_level": 0.5, "random_state": 0}
    try:
        return s.calibration_error_interval(y, P, metric=metric, method=method, **options)
    except ValueError:
        return len(method)


def intervals(metric, y, P, X, weight):
    """Each method of intervals that a metric has."""
    methods = ("auto", "delta", "jackknife", "subsampling", "bootstrap")
    return [interval(metric, y, P, method) for method in methods]


def few_events(y, P, X, weight):
    """Intervals, tests and summaries of three events among many samples."""
    p = 0.03 * P[:, -1] / P[:, -1].max()
    event = np.arange(len(y)) % (len(y) // 3) == 5
    proba = np.column_stack([1 - p, p])
    last, rare = y == y.max(), np.append(np.ones(P.shape[1] - 1), 0.1)
    few_y = np.where(last & (np.cumsum(last) > 3), 0, y)
    few_P = flat(P, 1) * rare / (P @ rare)[:, None]
    distance = partial(s.proper_calibration_error, loss=scores.TotalVariation())
    return [
        *(interval(metric, event, proba) for metric in METRICS),
        s.calibration_summary(event, p),
        s.calibration_by_group(event, p, X[:, 1] > 0),
        s.kernel_calibration_test(event, proba),
        s.significance.logistic_calibration_test(event, p),
        s.decision_regret(event, p, threshold=0.02),
        s.hosmer_lemeshow_test(event, p),
        *(interval(metric, few_y, few_P) for metric in ("brier", "log", distance)),
        s.ks_calibration_error(y, P, notion="classwise", reduce="predicted"),
        s.errors.corp_test(event, p),
        s.recalibration.ModelAverageScaling().fit(proba, event).predict_proba(proba[:9]),
    ]


def large(y, P, X, weight):
    """Ways of computation for many samples."""
    rng = np.random.default_rng(len(y))
    rows = rng.integers(0, len(y), 3000)
    P = softmax(np.log(P[rows]) + 0.3 * rng.normal(size=(3000, P.shape[1])), axis=1)
    smoothers = [s.smoothers.DirichletKernel("scott"), s.smoothers.NearestNeighborsSmoother()]
    smoothers += [s.smoothers.DirichletKernel()] if P.shape[1] == 2 else []
    event = {"notion": "classwise"} if P.shape[1] > 2 else {}
    return [
        *(
            s.proper_calibration_error(y[rows], P, smoother=smoother, **event)
            for smoother in smoothers
        ),
        s.corp_decomposition(y[rows], P, notion="top_label"),
    ]


def regions(y, P, X, weight):
    """Grouping losses with other partitions, features, clusters and given regions."""
    clusters, missing = np.arange(len(y)) // 3, np.where(X > 1.5, np.nan, X)
    words = np.array(["low", "middle", "high"])[np.digitize(X[:, 1], [-0.5, 0.5])]
    frame = pd.DataFrame({"number": X[:, 0], "word": words, "count": np.rint(4 * X[:, 2])})
    frame["word"] = frame["word"].astype("category")
    common = {"n_permutations": 20, "n_bins": 4, "random_state": 0, "confidence_level": 0.8}
    estimator = partial(s.GroupingLossEstimator, **common)
    estimates = [
        estimator(method="risk", partitioner=Ridge()).fit(X, y, y_proba=P),
        estimator(method="risk", partitioner=LogisticRegression()).fit(X, y, y_proba=P),
        estimator(method="partition", swap=True).fit(X, y, y_proba=P, groups=clusters),
        estimator(method="partition", partitioner="kmeans").fit(X, y, P, weight),
        estimator(method="partition", partitioner="stump").fit(missing, y, y_proba=P),
        estimator(strategy="uniform").fit(X, y, P, weight),
        estimator().fit(X, y, y_proba=P, regions=words),
        estimator(n_jobs=2).fit(frame[["number", "count"]], y, y_proba=P),
    ]
    by = pd.DataFrame({"word": words, "number": X[:, 2], "count": np.rint(3 * X[:, 3]).astype(int)})
    maps, table = [], frame[["number", "word"]]
    for monotone in (False, True)[: 1 + (P.shape[1] == 2)]:
        recalibrator = s.GroupRecalibrator(monotone=monotone, cv=3).fit(P, y, features=words)
        maps.append(recalibrator.predict_proba(P[:20], features=words[:20]))
        recalibrator.fit(P, y, weight, features=table)
        maps.append(recalibrator.predict_proba(P[:20], features=table[:20]))
    return [
        *((answers(fitted, None), fitted.regions_) for fitted in estimates),
        s.calibration_by_group(y, P, by),
        s.calibration_by_group(y == y.max(), P[:, -1], by),
        *maps,
    ]


def monitors(y, P, X, weight):
    """Streams with other features and notions, what they restore, and forecasts without labels."""
    values, first, last = [], slice(0, len(y) // 2), slice(len(y) // 2, None)
    for options in (
        {"features": kernels.LaplacianKernel(0.5), "notion": "canonical"},
        {"features": 2},
        {"features": lambda score: np.column_stack([score - 0.5, score**2])},
        {"notion": "classwise"},
    ):
        test = s.SequentialCalibrationTest(np.unique(y), alpha=0.2, **options)
        test.partial_fit(y[first], P[first])
        if not callable(options.get("features")):
            test = s.SequentialCalibrationTest.from_bytes(test.to_bytes())
        values += [test.partial_fit(y[last], P[last]).path_, test.evidence, test.pvalue_]
    monitor = s.CalibrationMonitor(np.unique(y), window=20, alpha=0.9)
    monitor.partial_fit(y[first], P[first], weight[first] / 2)
    monitor = s.CalibrationMonitor.from_bytes(monitor.to_bytes())
    monitor.partial_fit(1 - np.minimum(y[last], 1), P[last])
    error = s.calibration_error_interval(y, P, metric="brier", confidence_level=0.99)
    expected = s.expected_performance(P[last], error_interval=error, confidence_level=0.9)
    return [*values, monitor.path_, monitor.alarms_, monitor.summary(), expected]


def options_of_maps(y, P, X, weight):
    """Options of recalibrators, labels that a score separates, and labels of one class."""
    order = np.argsort(P[:, -1], kind="stable")
    parted = np.sort(y)[np.argsort(order, kind="stable")]
    prior = np.arange(1.0, 1 + P.shape[1]) / np.arange(1.0, 1 + P.shape[1]).sum()
    values = [
        learned(recalibrator.fit(P, labels, weight), P[:20])
        for labels in (y, parted)
        for recalibrator in (
            s.PlattScaling(smooth_targets=True),
            s.PlattScaling(),
            s.recalibration.QuadraticScaling(),
            s.InterceptRecalibrator(shrinkage="auto"),
            s.TemperatureScaling(loss="brier"),
            s.LabelShiftRecalibrator(target_prior=prior),
            s.HistogramBinning(n_bins=4, strategy="uniform"),
            s.recalibration.KernelRecalibrator(bandwidth=0.05),
            s.IsotonicRecalibrator(centered=True),
            s.VennAbersRecalibrator(),
        )
    ]
    values.append(s.VennAbersRecalibrator().fit(P, y).predict_interval(P[:20]))
    recalibrator = s.InterceptRecalibrator(labels=np.unique(y)).fit(P[:9], np.full(9, y[0]))
    uniform = np.full_like(P, 1 / P.shape[1])
    return [
        *values,
        answers(recalibrator, P[:9]),
        answers(s.TemperatureScaling().fit(uniform, y), P[:9]),
    ]


def theory(y, P, X, weight):
    """Bounds, scores and expectations that other entries do not need."""
    n, target, prior = len(y), np.eye(P.shape[1])[y], np.arange(1.0, 1 + P.shape[1])
    terms = product(("uniform", "quantile"), ("total", "statistical", "binning"), (None, 0.9))
    information = {
        "ece": {"ecmi": 0.3},
        "tce": {"ecmi": 0.3},
        "recalibrated_fresh": {"residual_cmi": 0.3},
        "recalibrated_reused": {"fcmi": 0.3},
        "metric_entropy": {"radius": 0.01, "log_covering_number": 2.0},
    }
    costs = np.outer(prior, prior[::-1])
    rules = (
        scores.FDivergence(prior / prior.sum(), "total_variation"),
        scores.DecisionCost(costs - np.diag(np.diag(costs))),
    )
    pairs = P[: n // 2 * 2].reshape(-1, 2, P.shape[1])[:9]
    rule = scores.UScore(lambda p, q, a, b: np.sum((p - a) * (q - b), axis=-1))
    event, size = (y == y.max()).astype(float), min(40, n)
    tests = [CalibrationTest(0.0, pvalue, 0.0, "a test") for pvalue in (1 - 1e-6, 0.99, 1e-9)]
    few, apart = slice(0, 40), np.arange(40) >= 30
    return [
        *(
            s.theory.ece_bias_bound(
                n, 7, strategy=strategy, lipschitz=1.5, term=term, confidence_level=level
            )
            for strategy, term, level in terms
        ),
        *(
            s.theory.ece_generalization_bound(n, 6, bound=bound, lipschitz=1.2, **options)
            for bound, options in information.items()
        ),
        s.optimal_n_bins(n, strategy="quantile", bound="tce"),
        s.optimal_n_bins(10**6),
        *(
            (score.loss(target, P), score.entropy(P), score.divergence(target, P))
            for score in rules
        ),
        *(score.divergence(target, P) for score in (scores.Lp(1.5), scores.TotalVariation())),
        rule.loss(pairs[::-1], pairs),
        rule.entropy(pairs),
        rule.divergence(pairs, pairs),
        *(
            expected_errors_of_subsamples(P[:, -1], event, weight, edges, size)
            for edges in (6, np.linspace(0, 1, 8))
        ),
        *(s.significance.combine_tests([test, test], method="calibrated") for test in tests),
        *(concordance_interval(apart, score, confidence_level=0.9) for score in (apart, P[few, 1])),
        observed_expected_ratio(y[few] == 1, P[few, 1], confidence_level=0.9),
    ]


def pairs(y, P, X, weight, n_samples=4000):
    """Groups of two features, or of one and a range of scores, with copies and missing values."""
    rng = np.random.default_rng(len(y))
    X = np.round(rng.normal(size=(n_samples, 6)), 2)
    X[:, 1] = np.where(rng.random(n_samples) < 0.85, X[:, 0], X[:, 1])
    X[:, 2:4] = rng.integers(0, [4, 2], (n_samples, 2))
    X[rng.random(n_samples) < 0.1, 4] = np.nan
    score = np.round(rng.uniform(0.05, 0.95, n_samples), 2)
    first_group, second_group, few = X[:, 2] == 1, X[:, 3] == 1, (X[:, 0] > 0.3) & (X[:, 2] == 2)
    z = 1.3 * few + 0.9 * (first_group & ~second_group) - 1.4 * (second_group & (score > 0.6))
    z += 1.5 * ((X[:, 5] < -0.6) & (X[:, 4] > 0)) + 0.4 * np.isnan(X[:, 4])
    y = rng.random(n_samples) < 1 / (1 + (1 / score - 1) * np.exp(-z))
    differences = [differences_at_equal_scores(y, score, X, confidence_level=0.5)]
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["c"] = np.array(list("pqrs"))[X[:, 2].astype(int)]
    frame["d"], frame["g"] = np.where(second_group, "u", "v"), rng.integers(0, 5, n_samples)
    return [*differences, differences_at_equal_scores(y, score, frame, random_state=3)]


def shown(y, P, X, weight):
    """Numbers in the texts of records, which are rounded."""
    event, p = y == y.max(), P[:, -1]
    by = np.where(X[:, 1] > 0, "a", "b")
    records = [
        s.calibration_summary(event, p), s.calibration_error_interval(y, P),
        s.compare_windows(y, P, by), s.compare_calibration(y, P, flat(P, 0.7)),
        s.decision_regret(event, p, threshold=0.3), s.calibration_by_group(y, P, by),
        s.calibration_improvement(y, P, flat(P, 0.7)), s.kernel_calibration_test(y, P),
        s.expected_performance(P, labelled=(y, P)),
    ]  # fmt: skip
    texts = " ".join(str(record) for record in records)
    return [float(number) for number in re.findall(r"\d+\.?\d*", texts)]


#: Sizes from which a way of computation for many samples is used, lowered.
LOW_SIZES = {
    "product_columns": 2, "product_rows": 10, "part_samples": 400, "part_class_samples": 10,
    "merged_samples": 1000, "merged_cells": 256, "paired_samples": 800, "band_groups": 300,
    "band_scores": 500, "panel_pairs": 1000, "dropping_samples": 500, "one_step_samples": 1000,
    "one_step_class_samples": 10, "looked_up_values": 100, "curve_cells": 512,
    "spectrum_rows": 300, "drawn_levels": 200, "cumulant_rows": 200, "dense_cells": 300,
    "stored_logarithms": 1000, "categories": 3, "searched_samples": 400,
}  # fmt: skip


def many(y, P, X, n_samples=2500):
    """Rows at random, with a jump of the frequencies and, of more classes, two that are mixed."""
    rng = np.random.default_rng(len(y))
    rows = rng.integers(0, len(y), n_samples)
    P = softmax(np.log(P[rows]) + 0.5 * rng.normal(size=(n_samples, P.shape[1])), axis=1)
    P, y = np.round(P, 9), (P.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    score = P[:, 1]
    jump = (score > np.quantile(score, 0.5)) & (score < np.quantile(score, 0.6))
    y[jump] = rng.random(jump.sum()) < 0.9
    if P.shape[1] > 2:
        mixed = (P.argmax(axis=1) == 2) & (rng.random(n_samples) < 0.4)
        y[mixed] = 1
    return y, P / P.sum(axis=1, keepdims=True), rng.uniform(0.5, 2, n_samples)


def with_low_sizes(compute):
    """An entry that computes from many samples, with the lowered sizes."""

    def entry(y, P, X, weight):
        with sizes(**LOW_SIZES):
            clusters = {"groups": np.arange(2500) // 4} if len(y) == 260 else {}
            return compute(*many(y, P, X), clusters)

    return entry


def errors_of_many(y, P, weight, clusters):
    weights = {"sample_weight": weight} if P.shape[1] == 3 else {}
    by_class = {"notion": "classwise", **clusters}
    return [
        *(
            s.calibration_error_interval(y, P, metric=loss, **options)
            for options in (weights | clusters, by_class)
            for loss in ("brier", "log")
        ),
        s.calibration_error_interval(y == 1, P[:, 1], metric="brier", **weights),
        *(s.score_decomposition(y, P, loss=loss) for loss in ("brier", "log")),
    ]


def kernels_of_many(y, P, weight, clusters):
    few_y, few_P = y[:900], P[:900]
    some = {name: values[:900] for name, values in clusters.items()}
    errors = partial(s.calibration_error_interval, metric=s.kernel_calibration_error)
    weights = np.eye(P.shape[1]), np.diag(np.arange(1.0, 1 + P.shape[1]))
    matrices = [kernels.MatrixKernel(kernels.GaussianKernel(0.5), matrix) for matrix in weights]
    return [
        s.kernel_calibration_error(y, P),
        s.kernel_calibration_test(few_y, few_P, **some),
        *(errors(few_y, few_P, statistic=statistic, **some) for statistic in ("biased", "auto")),
        s.calibration_error_interval(y, P, metric="embedding", locations=P[:5], **clusters),
        *(
            (s.kernel_calibration_error(y[:200], P[:200], kernel=kernel), kernel.bound())
            for kernel in matrices
        ),
        s.kernel_calibration_test(y[:203], P[:203], statistic="block", block_size=4),
        s.significance.distribution_free_bound(y[:99], P[:99], statistic="linear"),
        kernels.median_distance(P, max_samples=99),
    ]


def smoothers_of_many(y, P, weight, clusters):
    few, target = P[:600, :3] / P[:600, :3].sum(axis=1, keepdims=True), np.eye(P.shape[1])[y[:600]]
    wide = "loo" if P.shape[1] > 2 else 0.3  # the search takes long
    smoothers = [
        s.smoothers.DirichletKernel(wide, refinement=score) for score in ("loss", "entropy")
    ]
    smoothers += [s.smoothers.DirichletKernel(1e-5), s.smoothers.DirichletKernel("scott")]
    return [smoother.fit(few, target[:, :3]).smooth()[:50] for smoother in smoothers]


def hypotheses_of_many(y, P, weight, clusters):
    event, p, few = y == 1, P[:, 1], {"n_resamples": 19}
    cumulative, logistic = s.significance.cumulative_test, s.significance.logistic_calibration_test
    return [
        s.errors.corp_test(event, p, **few),
        s.hosmer_lemeshow_test(event, p, **few),
        *(cumulative(event, p, statistic=statistic, **clusters) for statistic in ("ks", "kuiper")),
        s.errors.corp_bands(event, p, confidence_level=0.8, **few),
        *(
            (
                logistic(event, p, hypothesis=hypothesis, **clusters),
                logistic(event[:300], p[:300], hypothesis=hypothesis, **few),
            )
            for hypothesis in ("joint", "slope", "intercept")
        ),
        *(
            s.calibration_error_interval(event, p, metric="ici", quantile=quantile, **clusters)
            for quantile in (None, 0.9)
        ),
    ]


def maps_of_many(y, P, weight, clusters):
    logits, labels = np.log(P + 1e-9), np.unique(y)
    maps = [
        s.recalibration.ModelAverageScaling(),
        s.VectorScaling(),
        s.recalibration.MatrixScaling(shrinkage=9.0),
    ]
    options = {"recalibrator": "select", "candidates": maps, "cv": StratifiedKFold(5)}
    chosen = s.RecalibratedClassifierCV(LogisticRegression(), **options).fit(logits, y)
    sketch = s.ForecastSketch(labels, notion="auto" if P.shape[1] == 2 else "classwise")
    sketch.fit(y, P)
    in_parts = (
        s.TemperatureScaling(),
        s.recalibration.BiasCorrectedTemperatureScaling(),
        s.PlattScaling(),
    )
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(len(y), 3)), columns=["a", "b", "c"])
    features["d"] = rng.choice(list("uvwxy"), len(y), p=[0.1, 0.3, 0.1, 0.2, 0.3])
    group = (features["a"] > 0.7) & (features["d"].isin(["v", "u"]))
    second_group = (features["b"] < -0.9).to_numpy() | (features["d"] == "x").to_numpy()
    grouped_y = np.where(second_group, y.min(), y)
    grouped_y = np.where(group & (np.arange(len(y)) % 2 == 0), y.max(), grouped_y)
    letters = features[["d"]]
    by_letter = s.GroupRecalibrator().fit(P[:900], grouped_y[:900], features=letters[:900])
    return [
        chosen.predict_proba(logits[:20]),
        numbers(chosen.selection_),
        *(recalibrator.fit_sketch(sketch).predict_proba(P[:20]) for recalibrator in OF_SKETCHES),
        *(
            recalibrator.partial_fit(P[:900], y[:900], labels)
            .partial_fit(P[900:], y[900:])
            .predict_proba(P[:20])
            for recalibrator in in_parts
        ),
        s.TemperatureScaling().fit(P, y, weight).temperature_,
        differences_at_equal_scores(grouped_y, P, features, confidence_level=0.9),
        by_letter.predict_proba(P[:40], features=letters[:40]),
        s.StackedRecalibrator().fit(P[:400], grouped_y[:400]).predict_proba(P[:20]),
    ]


def varied(function, compute, y, P, X, weight):
    """The answers for each value of each option but the default, one at a time."""
    numbers_of_options = []
    for name, value in other_values(function):
        try:
            numbers_of_options += [numbers(compute({name: value}, y, P, X, weight)), 1.0]
        except (ValueError, TypeError):
            numbers_of_options.append(-1.0)
    return numbers_of_options


def in_groups(options, y, P, X, weight):
    recalibrator = quick(s.GroupRecalibrator).set_params(**options).fit(P, y, weight, features=X)
    return recalibrator.predict_proba(P[:40], features=X[:40])


def watched(stream, options, y, P, X, weight):
    fitted = stream(np.unique(y), **options)
    fitted.partial_fit(y[:70], P[:70]).partial_fit(y[70:], P[70:])
    return fitted.path_, fitted.summary() if stream is s.CalibrationMonitor else fitted.evidence()


def selected(options, y, P, X, weight):
    arguments = {"recalibrator": "platt", "cv": 4} | options
    classifier = s.RecalibratedClassifierCV(LogisticRegression(), **arguments).fit(X, y, weight)
    return classifier.predict_proba(X[:30])


RECIPES = {recipe.function: recipe for recipe in (*MOMENTS[::-1], *FORECASTS[::-1])}
STREAMS = s.SequentialCalibrationTest, s.CalibrationMonitor
VARIED = {
    **{function: partial(called, recipe) for function, recipe in RECIPES.items()},
    **{kind: partial(mapped, kind) for kind in RECALIBRATORS},
    **{kind: partial(smoothed, kind) for kind in SMOOTHERS},
    **{kind: partial(watched, kind) for kind in STREAMS},
    s.RecalibratedClassifierCV: selected, s.GroupRecalibrator: in_groups,
    s.CalibrationErrorEstimator: estimated, s.GroupingLossEstimator: grouped,
    s.CalibrationReport.from_predictions: report,
}  # fmt: skip


SCORES = [scores.Spherical(), scores.ClasswiseLogLoss(), scores.LogLoss(), scores.Brier()]
SCORES += [scores.FDivergence(None, f) for f in ("kl", "chi2", "jensen_shannon")]
LINKS = [links.VectorMap(), links.MatrixMap(), links.DirichletMap(), links.MonotonePieces(4)]
LINKS += [links.BiasCorrectedTemperature(), links.MonotoneNetwork(hidden=3, n_grid=20)]
BINARY_LINKS = [links.PlattMap(), links.QuadraticMap(), *map(links.BetaMap, ("abm", "am", "ab"))]
KERNELS = [kernels.LaplacianKernel(), kernels.GaussianKernel(), 2 * kernels.LaplacianKernel(0.5)]
OF_SKETCHES = [s.PlattScaling(), s.BetaCalibration(), s.IsotonicRecalibrator(), s.SplineScaling()]
EXPORTED = [s.PlattScaling, s.BetaCalibration, s.IsotonicRecalibrator, s.VectorScaling]
EXPORTED += [
    s.recalibration.KernelRecalibrator,
    s.SplineScaling,
    s.VennAbersRecalibrator,
    s.recalibration.ModelAverageScaling,
]
METRICS = [error.name for error in QUANTITIES if error.name != "embedding"]  # needs locations
OPTIONS = ({}, {"loss": "log"}, {"notion": "classwise"})
ENTRIES = (few_events, regions, monitors, options_of_maps, theory, pairs, shown)
ENTRIES += (report_of_clusters, streams, sketches, features, models, shifts, blocks, large)
OF_MANY = (errors_of_many, kernels_of_many, smoothers_of_many, hypotheses_of_many, maps_of_many)
TABLE = {
    **{str(recipe): partial(called, recipe, {}) for recipe in (*FORECASTS, *MOMENTS)},
    **{kind.__name__: partial(mapped, kind, {}) for kind in RECALIBRATORS},
    **{kind.__name__: partial(smoothed, kind, {}) for kind in SMOOTHERS},
    **{f"estimated {[*options.values()]}": partial(estimated, options)
       for options in (*OPTIONS, {"method": "direct"})},
    **{f"grouped {[*options.values()]}": partial(grouped, options)
       for options in (*OPTIONS, {"method": "partition"}, {"cv": 3})},
    **{f"interval {metric}": partial(intervals, metric) for metric in METRICS},
    **{entry.__name__: entry for entry in ENTRIES}, "report": partial(report, {}),
    **{entry.__name__: with_low_sizes(entry) for entry in OF_MANY},
    **{f"options of {function.__name__}": partial(varied, function, compute)
       for function, compute in VARIED.items()},
}  # fmt: skip
#: Single options are tried in two of the worlds.
WITH_OPTIONS = ("two classes", "three classes, weighted")
#: Where entries that take long are computed first: a world in which they take less time.
QUICK = {
    "hypotheses_of_many": "few clusters, unequal groups", "maps_of_many": "two classes",
    "errors_of_many": "clusters of a rare event", "kernels_of_many": "clusters of a rare event",
    "few_events": "two classes", "models": "two classes", "features": "two classes",
    "report": "six classes", "large": "three classes, weighted",
    "streams": "three classes, weighted", "regions": "six classes",
    "interval log": "few clusters, unequal groups", "interval brier": "two classes",
    "grouped ['classwise']": "three classes, weighted",
}  # fmt: skip
#: What uses folds with groups, which scikit-learn draws in another way since some version, and a
#: grouping loss of a classifier that is fitted up to another rounding error.
OF_OTHERS = "decision_regret|report_of_clusters|few clusters, unequal groups: models"
VERSIONS = [module.__version__.rpartition(".")[0] for module in (np, scipy, sklearn)]


def digest(result):
    """Numbers of a result: how many, how many are finite, and a weighted sum of each 40 of them.

    The sums are those of log 1000 |x| with the sign of x, about, as far as x is above 1 / 1000: a
    change of any number by half a per cent is noticed.
    """
    values = numbers(result)
    finite = np.arcsinh(1000 * values[np.isfinite(values)])
    weighted = finite * (1 + np.arange(len(finite)) % 3)
    sums = np.add.reduceat(weighted, np.arange(0, len(finite), 40)) if len(finite) else []
    return [len(values), len(finite), *(float(f"{total:.5f}") for total in sums)]


def digest_of(name, where):
    """The digest of an entry in a world; None where it is refused, as more than two classes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return digest(TABLE[name](*WORLDS[where]))
        except ValueError:
            return None


def differs(got, expected):
    """Whether numbers differ by more than the ends of iterations do."""
    if got is None or expected is None:
        return got is not expected
    return got[:2] != expected[:2] or not np.allclose(got, expected, 0, 5e-3)


RECORDED = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def worlds_of(name):
    """The worlds in which an entry is computed."""
    return WITH_OPTIONS if name.startswith("options of ") else tuple(WORLDS)


def instances(recorded):
    """Pairs of a world and an entry. Every eighth has each entry that is no option once.

    That is in a world that does not refuse it, from one entry to the next another one.
    """
    first, others = [], []
    for number, name in enumerate(TABLE):
        worlds = [*worlds_of(name)]
        if len(worlds) == len(WORLDS):
            worlds = np.roll(worlds, -number).tolist()
            worlds.sort(key=lambda where: where != QUICK.get(name))
            worlds.sort(key=lambda where: recorded.get(where, {}).get(name) is None)
            first.append((worlds.pop(0), name))
        others += [(where, name) for where in worlds]
    assert len(others) > 7 * len(first)
    rows = [[pair, *others[7 * k : 7 * k + 7]] for k, pair in enumerate(first)]
    return [pair for row in (*rows, others[7 * len(first) :]) for pair in row]


INSTANCES = instances(RECORDED)


@pytest.mark.parametrize(("where", "name"), INSTANCES)
def test_numbers_are_as_recorded(where, name):
    if RECORDED["versions"] != VERSIONS and re.search(OF_OTHERS, f"{where}: {name}"):
        pytest.skip("recorded with another version of scikit-learn")
    got, expected = digest_of(name, where), RECORDED[where][name]
    assert not differs(got, expected), (got, expected)


def test_all_is_recorded():
    recorded = [(where, name) for where in WORLDS for name in RECORDED[where]]
    assert sorted(recorded) == sorted(INSTANCES)


if __name__ == "__main__":
    rows = {where: {} for where in WORLDS}
    for name in TABLE:
        for where in worlds_of(name):
            rows[where][name] = digest_of(name, where)
    text = json.dumps({"versions": VERSIONS, **rows}).replace(', "', ',\n"').replace("{", "{\n")
    FILE.write_text(text + "\n", encoding="utf-8")
