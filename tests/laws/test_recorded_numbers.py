"""Numbers of the public functions and estimators on fixed data, as they were recorded.

Other tests say why a number is right; this one notices that a number has changed. After a change
that is meant to change numbers, `python tests/laws/test_recorded_numbers.py` records them again,
and the difference of the file shows which ones changed.
"""

import json
import sys
import warnings
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pytest
import scipy
import sklearn
from public_estimators import RECALIBRATORS, SMOOTHERS, answers, quick
from public_functions import FORECASTS, MOMENTS, numbers
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

import skcalib as s
from skcalib import kernels, links, scores
from skcalib.error_intervals.quantities import QUANTITIES
from skcalib.export import from_json, to_json
from skcalib.grouping import differences_at_equal_scores, grouping_improvement
from skcalib.notions import ClassGroups, Classwise, TopK
from skcalib.scorers import DecisionRegretScorer, DecompositionScorer

FILE = Path(__file__).with_suffix(".json")


def world(n_classes, n_samples, shift=0.0):
    """Labels, overconfident forecasts with ties, features and weights."""
    rng = np.random.default_rng(n_samples)
    X = rng.normal(size=(n_samples, 4))
    z = X[:, :1] * np.linspace(-1.5, 1.5, n_classes) + 0.4 * rng.normal(size=(n_samples, n_classes))
    z[:, -1] += 0.5 * (X[:, 1] > 0) + shift
    P = softmax(1.5 * z, axis=1)
    P[::3] = np.round(P[::3], 1) * 0.9 + 0.1 / n_classes
    P = np.round(P, 9)  # the same bits where exp is computed differently
    P /= P.sum(axis=1, keepdims=True)
    y = (softmax(z, axis=1).cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return y, P, X, rng.uniform(0.5, 2, n_samples)


WORLDS = {
    "two classes": world(2, 160),
    "clusters of a rare event": world(2, 260, -2.0),
    "three classes, weighted": world(3, 120),
    "six classes": world(6, 150),
}


def flat(P, power):
    """Other forecasts with the same order of classes."""
    return P**power / (P**power).sum(axis=1, keepdims=True)


def called(recipe, y, P, X, weight):
    if recipe.takes.startswith("moment"):
        return recipe(X[:, 0], X[:, 1] / 2, 0.5 + P[:, 0])
    arrays = {"two forecasts": (P, flat(P, 0.7)), "features": (P, X)}.get(recipe.takes, (P,))
    weighted = recipe.accepts("sample_weight") and len(y) == 120
    options = {"sample_weight": weight} if weighted else {}
    if recipe.accepts("groups") and len(y) == 260:
        options["groups"] = np.arange(len(y)) // 4 * 2 + np.arange(len(y)) % 2
    return recipe(y, *arrays, **options)


def mapped(recalibrator, y, P, X, weight):
    one = quick(recalibrator).fit(P, y, weight)
    return answers(one, P[:40]), one.loss_before_, one.loss_after_


def smoothed(smoother, y, P, X, weight):
    """Averages of labels; of losses, too, where a smoother averages any values."""
    options = {"estimator": LogisticRegression()} if smoother is s.smoothers.CrossFitted else {}
    target = np.eye(P.shape[1])[y]
    one = smoother(**options).fit(P, target, weight)
    found = one.smooth(), one.smooth_held_out(), one.predict(P[:20])
    only_labels = (s.smoothers.CrossFitted, s.smoothers.LogitSmoother, s.smoothers.SplineSmoother)
    if issubclass(smoother, only_labels):
        return found
    losses = scores.LogLoss().loss(target, P)
    return *found, one.smooth(losses), one.smooth_held_out(losses)


def grouped(options, y, P, X, weight):
    found = s.GroupingLossEstimator(n_permutations=20, random_state=0, **options)
    return answers(found.fit(X, y, weight, y_proba=P), None), found.regions_


def estimated(options, y, P, X, weight):
    return answers(s.CalibrationErrorEstimator(**options).fit(P, y, weight), None)


def report(y, P, X, weight):
    found = s.CalibrationReport.from_predictions(y, P, X, sample_weight=weight, random_state=0)
    return found.to_dict()


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
    one, other = (s.ForecastSketch(np.unique(y)) for _ in range(2))
    one.fit(y, P, weight, by=np.where(X[:, 1] > 0, "a", "b"))
    other.fit(y, flat(P, 0.7), weight)
    event = {"notion": "canonical" if P.shape[1] == 2 else "top_label"}
    errors = s.calibration_error, s.smooth_calibration_error, s.ks_calibration_error, s.corp_test
    errors += s.proper_calibration_error, s.score_decomposition, s.corp_decomposition
    found = [function(one, **event) for function in errors]
    found += [s.compare_windows(one, other), s.calibration_by_group(one)]
    if P.shape[1] == 2:
        found += [s.calibration_summary(one), s.cumulative_test(one)]
    return found, s.decision_regret(one, threshold=0.4, **event)


def features(y, P, X, weight):
    """Functions and maps that take features or votes."""
    draws = (y[:, None] + (X > 1.2)) % P.shape[1]
    votes = np.array([np.bincount(row, minlength=P.shape[1]) for row in draws])
    map_ = s.GroupRecalibrator(random_state=0).fit(P, y, features=X)
    moments = np.column_stack([X[:, 0], 1 + P[:, 0]])
    return [
        [s.soft_label_decomposition(votes, P, loss=loss) for loss in ("brier", "log")],
        map_.predict_proba(P[:30], features=X[:30]),
        differences_at_equal_scores(y, P, X, random_state=0),
        grouping_improvement(y, P, flat(P, 0.8), X),
        s.VarianceScaling().fit(moments, X[:, 1]).transform(moments[:9]),
    ]


def models(y, P, X, weight):
    """Meta-estimators and scorers of a classifier."""
    model = LogisticRegression().fit(X, y)
    named = s.get_scorers(s.get_scorer_names()).values()
    found = [scorer(model, X, y, sample_weight=weight) for scorer in named]
    found += [DecompositionScorer(cv=3)(model, X, y), DecisionRegretScorer(0.3)(model, X, y)]
    candidates = [s.TemperatureScaling(), s.IsotonicRecalibrator()]
    for chosen in ({"recalibrator": "platt"}, {"recalibrator": "select", "candidates": candidates}):
        fitted = s.RecalibratedClassifierCV(model, cv=3, ensemble=True, **chosen).fit(X, y, weight)
        found.append(fitted.predict_proba(X[:30]))
    several = s.MultilabelRecalibrator("platt").fit(P[:, :2], np.eye(P.shape[1])[y, :2], weight)
    regressor = s.RecalibratedRegressorCV(cv=3).fit(X[:, :3], X[:, 3])
    found += [several.predict_proba(P[:30, :2]), regressor.predict(X[:9, :3], return_std=True)]
    found.append(answers(s.CalibrationErrorEstimator(model, cv=3).fit(X, y, weight), None))
    options = {"n_supersamples": 2, "n_draws": 4, "n_bins": 4}
    return [*found, s.evaluate_supersample(model, X, y == 0, **options)]


def shifts(y, P, X, weight):
    """Class frequencies of a target, and maps from chunks and in JSON."""
    target = P ** [1.3, *[1.0] * (P.shape[1] - 1)]
    shift = s.LabelShiftRecalibrator().fit(P, y, weight)
    shift.adapt(target / target.sum(axis=1, keepdims=True))
    chunks, labels = [(P[::2], y[::2]), (P[1::2], y[1::2])], np.unique(y)
    in_parts = s.PlattScaling(labels=labels), s.VectorScaling(labels=labels)
    return [
        answers(shift, P[:20]),
        [one.fit_chunks(chunks).predict_proba(P[:9]) for one in in_parts],
        [from_json(to_json(quick(one).fit(P, y))).predict_proba(P[:20]) for one in EXPORTED],
    ]


def blocks(y, P, X, weight):
    """Scores, links, kernels and notions of the same forecasts, bounds, and combined tests."""
    target, n_classes, found = np.eye(P.shape[1])[y], P.shape[1], []
    for score in SCORES:
        found += [score.entropy(P), score.loss(target, P), score.divergence(flat(P, 2), P)]
        found += [score.loss_gradient(target, P), score.logit_loss(target, np.log(P))]
    for link in LINKS:
        link = link.prepare(np.log(P))
        theta = link.start(n_classes)
        theta = theta + 0.1 * np.cos(np.arange(len(theta)))
        found += [link.apply(theta, np.log(P)), link.vjp(theta, np.log(P), target)]
    for kernel in KERNELS:
        fitted = kernel.for_data(P)
        found += [fitted.bound(), fitted(P[:20], P[20:50]), fitted.pairs(P[:20], P[20:40])]
    for notion in (TopK(min(2, n_classes - 1)), ClassGroups([[0]]), Classwise()):
        found.append(list(notion.problems(P, target)))
    for norm, n_bins in ((1, 5), (2, 9)):
        found += [s.optimal_n_bins(len(y), lipschitz=norm), s.ece_bias_bound(len(y), n_bins)]
        found += [s.ece_generalization_bound(len(y), n_bins, ecmi=0.1 * norm)]
    tests = s.kernel_calibration_test(y, P), s.corp_test(y, P, notion="top_label", n_resamples=99)
    return found, [s.combine_tests(tests, method=one) for one in ("fisher", "calibrated")]


def intervals(metric, y, P, X, weight):
    """Each method of intervals that a metric has."""
    options = {"n_resamples": 9, "confidence_level": 0.5, "random_state": 0, "metric": metric}
    found = []
    for method in ("auto", "delta", "jackknife", "subsampling", "bootstrap"):
        try:
            found.append(s.calibration_error_interval(y, P, method=method, **options))
        except ValueError:
            found.append(len(method))
    return found


def large(y, P, X, weight):
    """Ways of computation for many samples."""
    rng = np.random.default_rng(len(y))
    rows = rng.integers(0, len(y), 3000)
    P = softmax(np.log(P[rows]) + 0.3 * rng.normal(size=(3000, P.shape[1])), axis=1)
    smoothers = s.smoothers.DirichletKernel("scott"), s.smoothers.NearestNeighborsSmoother()
    event = {"notion": "classwise"} if P.shape[1] > 2 else {}
    found = [s.proper_calibration_error(y[rows], P, smoother=one, **event) for one in smoothers]
    return found, s.corp_decomposition(y[rows], P, notion="top_label")


SCORES = [scores.Spherical(), scores.ClasswiseLogLoss(), scores.LogLoss(), scores.Brier()]
SCORES += [scores.FDivergence(None, one) for one in ("kl", "chi2", "jensen_shannon")]
LINKS = [links.VectorMap(), links.MatrixMap(), links.DirichletMap(), links.MonotonePieces(4)]
LINKS += [links.BiasCorrectedTemperature(), links.MonotoneNetwork(hidden=3, n_grid=20)]
KERNELS = [kernels.LaplacianKernel(), kernels.GaussianKernel(), 2 * kernels.LaplacianKernel(0.5)]
EXPORTED = [s.PlattScaling, s.BetaCalibration, s.IsotonicRecalibrator, s.VectorScaling]
EXPORTED += [s.KernelRecalibrator, s.SplineScaling, s.VennAbersRecalibrator, s.ModelAverageScaling]
METRICS = [one.name for one in QUANTITIES if one.name != "embedding"]  # needs locations
OPTIONS = ({}, {"loss": "log"}, {"notion": "classwise"})
OWN = (report, streams, sketches, features, models, shifts, blocks, large)
TABLE = {
    **{str(recipe): partial(called, recipe) for recipe in (*FORECASTS, *MOMENTS)},
    **{one.__name__: partial(mapped, one) for one in RECALIBRATORS},
    **{one.__name__: partial(smoothed, one) for one in SMOOTHERS},
    **{f"estimated {[*one.values()]}": partial(estimated, one)
       for one in (*OPTIONS, {"method": "direct"})},
    **{f"grouped {[*one.values()]}": partial(grouped, one)
       for one in (*OPTIONS, {"method": "partition"})},
    **{f"interval {one}": partial(intervals, one) for one in METRICS},
    **{one.__name__: one for one in OWN},
}  # fmt: skip
#: What draws from or fits models of other packages, whose numbers change with their versions.
OF_OTHERS = ("calibration_e_value", "decision_regret", "EnsembleTemp", "grouped", "report")
VERSIONS = [one.__version__.rpartition(".")[0] for one in (np, scipy, sklearn)]


def digest(result):
    """Numbers of a result: how many, how many are finite, and two weighted sums of these."""
    values = numbers(result)
    finite = values[np.isfinite(values)]
    place = np.arange(len(finite))
    sums = [float(f"{finite @ np.cos(k * place):.9g}") for k in (0.3, 1.1)]
    return [len(values), len(finite), *sums, float(f"{np.abs(finite).sum():.9g}")]


def found(name, where):
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
    return got[:2] != expected[:2] or not np.allclose(got[2:4], expected[2:4], 0, 1e-5 * got[4])


RECORDED = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("where", WORLDS)
def test_numbers_are_as_recorded(where, name):
    if name.startswith(OF_OTHERS) and RECORDED["versions"] != VERSIONS:
        pytest.skip("numbers of other packages were recorded with other versions of these")
    got, expected = found(name, where), RECORDED[where][name]
    assert not differs(got, expected), (got, expected)


def test_all_is_recorded():
    assert all(RECORDED[where].keys() == TABLE.keys() for where in WORLDS)


if __name__ == "__main__":
    rows = {where: {name: found(name, where) for name in TABLE} for where in WORLDS}
    text = json.dumps({"versions": VERSIONS, **rows}).replace(', "', ',\n"').replace("{", "{\n")
    FILE.write_text(text + "\n", encoding="utf-8")
