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
from skcalib.grouping import differences_at_equal_scores, grouping_improvement
from skcalib.scores import LogLoss

FILE = Path(__file__).with_suffix(".json")


def world(n_classes, n_samples, shift=0.0):
    """Labels, overconfident forecasts with ties, features and weights."""
    rng = np.random.default_rng(n_samples)
    X = rng.normal(size=(n_samples, 4))
    z = X[:, :1] * np.linspace(-1.5, 1.5, n_classes) + 0.4 * rng.normal(size=(n_samples, n_classes))
    z[:, -1] += 0.5 * (X[:, 1] > 0) + shift
    P = softmax(1.5 * z, axis=1)
    P[::3] = np.round(P[::3], 1) * 0.9 + 0.1 / n_classes
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
    losses = LogLoss().loss(target, P)
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


def others(y, P, X, weight):
    """Functions and maps that take features, votes or target samples."""
    draws = (y[:, None] + (X > 1.2)) % P.shape[1]
    votes = np.array([np.bincount(row, minlength=P.shape[1]) for row in draws])
    map_ = s.GroupRecalibrator(random_state=0).fit(P, y, features=X)
    return [
        s.soft_label_decomposition(votes, P),
        map_.predict_proba(P[:30], features=X[:30]),
        differences_at_equal_scores(y, P, X, random_state=0),
        grouping_improvement(y, P, flat(P, 0.8), X),
        s.VarianceScaling()
        .fit(np.column_stack([X[:, 0], 1 + P[:, 0]]), X[:, 1])
        .transform(np.column_stack([X[:9, 2], 1 + P[:9, 1]])),
    ]


OPTIONS = ({}, {"loss": "log"}, {"notion": "classwise"})
TABLE = {
    **{str(recipe): partial(called, recipe) for recipe in (*FORECASTS, *MOMENTS)},
    **{one.__name__: partial(mapped, one) for one in RECALIBRATORS},
    **{one.__name__: partial(smoothed, one) for one in SMOOTHERS},
    **{
        f"estimated {[*one.values()]}": partial(estimated, one)
        for one in (*OPTIONS, {"method": "direct"})
    },
    **{
        f"grouped {[*one.values()]}": partial(grouped, one)
        for one in (*OPTIONS, {"method": "partition"})
    },
    **{one.__name__: one for one in (report, streams, sketches, others)},
}


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


@pytest.mark.parametrize("where", WORLDS)
def test_numbers_are_as_recorded(where):
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    assert recorded[where].keys() == TABLE.keys()
    same = recorded["versions"] == VERSIONS
    wrong = {}
    for name, expected in recorded[where].items():
        if same or not name.startswith(OF_OTHERS):
            got = found(name, where)
            if differs(got, expected):
                wrong[name] = got, expected
    assert not wrong


if __name__ == "__main__":
    rows = {where: {name: found(name, where) for name in TABLE} for where in WORLDS}
    text = json.dumps({"versions": VERSIONS, **rows}).replace(', "', ',\n"').replace("{", "{\n")
    FILE.write_text(text + "\n", encoding="utf-8")
