"""The maps that `RecalibrationDisplay` draws, computed from fitted recalibrators."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skcalib._util.messages import shown
from skcalib._util.records import Record
from skcalib._util.validation import check_proba
from skcalib.displays._curves import MAX_PANELS
from skcalib.estimators.classifiers import aligned_proba
from skcalib.estimators.recalibrated import CrossFitProba, RecalibratedClassifierCV
from skcalib.recalibration.fitting import (
    check_fitted_recalibrator,
    fit_recalibrator,
    is_injective,
    recalibrated_proba,
    steps_of,
)
from skcalib.recalibration.stacked import resolve_recalibrator

_STEEP = 0.01  # grid neighbours that differ by more than this get a point between them


@dataclass(frozen=True, eq=False)
class RecalibrationMap(Record):
    """The map of one recalibrator for the probability of one class.

    ``before`` and ``after`` are a curve if ``joined``, else single forecasts. ``scores`` are all
    given forecasts of the class, or None, and ``weight`` their weights.
    ``declared`` is the text of the declared properties.
    """

    name: str
    event: str
    before: np.ndarray
    after: np.ndarray
    joined: bool
    scores: np.ndarray | None
    declared: str
    weight: np.ndarray | None = None

    _rows = ("before", "after")
    _beside = ("name", "event", "declared")


# What is drawn


def name_recalibrators(recalibrators):
    """A dict as it is, or a sequence with the names of the classes -> pairs (name, object)."""
    if isinstance(recalibrators, Mapping):
        pairs = list(recalibrators.items())
    elif isinstance(recalibrators, (list, tuple)):
        pairs, times = [], {}
        for recalibrator in recalibrators:
            name = default_name(recalibrator)
            times[name] = times.get(name, 0) + 1
            number = f" ({times[name]})" if times[name] > 1 else ""
            pairs.append((name + number, recalibrator))
    else:
        raise ValueError(
            "recalibrators must be a list of recalibrators, or a dict of them by name; for "
            "a single one use from_recalibrator."
        )
    if not pairs:
        raise ValueError("recalibrators is empty: there is no map to draw.")
    return pairs


def default_name(recalibrator):
    """Class of a recalibrator; the classes of the steps of a Pipeline."""
    steps = steps_of(recalibrator)
    return " → ".join(type(step).__name__ for step in steps) or type(recalibrator).__name__


def given_maps(pairs, y_proba, classes, max_points, pos_label=None):
    """Maps of recalibrators for the same forecasts, or for none."""
    proba = None if y_proba is None else check_proba(y_proba)
    known = [_known_classes(recalibrator, proba) for _, recalibrator in pairs]
    for other in known[1:]:
        if not np.array_equal(other, known[0]):
            raise ValueError(
                f"The recalibrators have different classes, {known[0].tolist()} and "
                f"{other.tolist()}: draw them one by one."
            )
    for _, recalibrator in pairs:
        _check_names(recalibrator, y_proba)
    positive = _positive(known[0], pos_label)
    if positive == 0 and proba is not None and np.size(y_proba) == len(proba):
        proba = proba[:, ::-1]  # the single column is the probability of the first class
    triples = [(name, recalibrator, proba) for name, recalibrator in pairs]
    return recalibration_maps(triples, known[0], classes, max_points, positive)


def fitted_map(problem, recalibrator, name, classes, max_points, pos_label):
    """Maps of a recalibrator that is fitted to a `Problem`."""
    recalibrator = resolve_recalibrator(recalibrator)
    if any(getattr(step, "input", "proba") == "logits" for step in steps_of(recalibrator)):
        raise ValueError(
            "recalibrator takes logits, but y_proba are probabilities: leave out input='logits', "
            "or fit it to logits and use from_recalibrator."
        )
    known, proba, weight = problem.classes, problem.forecast, problem.sample_weight
    fitted = fit_recalibrator(recalibrator, proba, problem.labels, weight, known, measure=False)
    triples = [(default_name(fitted) if name is None else name, fitted, proba)]
    return recalibration_maps(
        triples, known, classes, max_points, _positive(known, pos_label), weight
    )


def estimator_maps(estimator, X, name, classes, max_points, pos_label=None):
    """Maps inside a classifier, at the probabilities of its inner classifier."""
    pairs, known = _inner(estimator, X)
    name = default_name(pairs[0][0]) if name is None else name
    triples = [(name, recalibrator, proba) for recalibrator, proba in pairs]
    return recalibration_maps(triples, known, classes, max_points, _positive(known, pos_label))


def _positive(known, pos_label):
    """Position of the positive class; None where it is not given."""
    if pos_label is None:
        return None
    if len(known) > 2:
        raise ValueError(
            f"pos_label is for binary problems, but there are {len(known)} classes: choose some by "
            "classes=[...]."
        )
    found = [label == pos_label for label in known.tolist()]
    if not any(found):
        raise ValueError(
            f"pos_label={shown(pos_label)} is not one of the classes {known.tolist()}."
        )
    return found.index(True)


def _inner(estimator, X):
    """Pairs (recalibrator, its probabilities) of a classifier, and the classes of the columns."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    if isinstance(estimator, Pipeline):
        check_is_fitted(estimator)
        for last, (_, step) in enumerate(estimator.steps, start=1):
            if isinstance(step, CrossFitProba) and last < len(estimator.steps):
                proba = check_proba(estimator[:last].transform(X))
                return [(estimator[last:], proba)], step.classes_
        if len(estimator.steps) > 1 and isinstance(estimator[-1], RecalibratedClassifierCV):
            return _inner(estimator[-1], estimator[:-1].transform(X))
    if not isinstance(estimator, RecalibratedClassifierCV):
        raise ValueError(
            "from_estimator takes a fitted RecalibratedClassifierCV, or a Pipeline of a "
            f"CrossFitProba and recalibrators, got {type(estimator).__name__}: for a recalibrator "
            "itself use from_recalibrator."
        )
    check_is_fitted(estimator)
    parts = zip(estimator.estimators_, estimator.recalibrators_, estimator.responses_, strict=True)
    classes = estimator.classes_
    pairs = [(one, aligned_proba(model, X, classes, response)) for model, one, response in parts]
    return pairs, classes


def recalibration_maps(triples, known, classes, max_points, positive=None, weight=None):
    """Maps of (name, recalibrator, forecasts or None), one for each recalibrator and class."""
    if len(known) < 2:
        raise ValueError(
            f"There is only one class, {known[0]!r}: its probability is always 1, so there "
            "is no map to draw."
        )
    columns = _columns(known, classes, positive)
    maps = []
    for name, recalibrator, proba in triples:
        apply = partial(_apply, recalibrator, known)
        words = ", ".join(_declared(recalibrator))
        if len(known) > 2:
            rows = _thinned(proba, len(known), max_points)
            forecast, answer = proba[rows], apply(proba[rows])
            if len(rows) < len(proba):
                words = f"{words}\n{len(rows):,} of {len(proba):,} forecasts".lstrip("\n")
        for k in columns:
            before, after = _trace(apply, k) if len(known) == 2 else (forecast[:, k], answer[:, k])
            scores = None if proba is None else proba[:, k]
            event = f"class {known[k]}"
            own = np.ones(len(scores)) if weight is None and scores is not None else weight
            drawn = before, after, len(known) == 2, scores, words, own
            maps.append(RecalibrationMap(name, event, *drawn))
    return maps


def _known_classes(recalibrator, proba):
    """Classes of a fitted recalibrator; raises if it is not one or does not match `proba`."""
    check_fitted_recalibrator(recalibrator, features="use from_estimator")
    known = getattr(recalibrator, "classes_", None)
    if known is None:  # a recalibrator from outside this library
        fitted_columns = getattr(recalibrator, "n_features_in_", None)
        columns = fitted_columns if proba is None else proba.shape[1]
        return np.arange(max(columns or 2, 2))
    if proba is not None and proba.shape[1] != len(known):
        raise ValueError(
            f"y_proba has {proba.shape[1]} columns, but {type(recalibrator).__name__} was fitted "
            f"with {len(known)} classes."
        )
    return np.asarray(known)


def _check_names(recalibrator, y_proba):
    """The columns of a data frame must be in the order of the recalibrator's fit."""
    given = list(getattr(y_proba, "columns", ()))
    fitted = list(getattr(recalibrator, "feature_names_in_", ()))
    if len(given) == len(fitted) and given != fitted:
        raise ValueError(
            f"The columns of y_proba are named {given}, but {type(recalibrator).__name__} was "
            f"fitted to {fitted}."
        )


def _columns(known, classes, positive):
    """Positions of the classes to draw; by default the positive class, or all of three or more."""
    if classes is None:
        last = 1 if positive is None else positive
        columns = [last] if len(known) == 2 else list(range(len(known)))
    else:
        position = {label: k for k, label in enumerate(known.tolist())}
        asked = [] if isinstance(classes, (dict, set)) else np.ravel(classes).tolist()
        asked = [label for k, label in enumerate(asked) if label not in asked[:k]]
        unknown = [label for label in asked if label not in position]
        if unknown or not asked:
            what = f"contains {shown(unknown[0])}" if unknown else "must list classes"
            raise ValueError(f"classes {what}: the classes are {known.tolist()}.")
        columns = [position[label] for label in asked]
    if len(columns) > MAX_PANELS:
        raise ValueError(
            f"There is one panel per class, and {len(columns)} exceed the limit of {MAX_PANELS} "
            "panels: choose some with classes=[...]."
        )
    return columns


def _thinned(proba, n_classes, max_points):
    """Rows of the forecasts to draw, evenly spaced in the given order."""
    if proba is None:
        raise ValueError(
            f"The map of {n_classes} classes is not a single curve and is drawn at forecasts: pass "
            "y_proba."
        )
    n_points = min(len(proba), max_points)
    return np.linspace(0, len(proba) - 1, n_points).round().astype(int)


def _apply(recalibrator, known, proba):
    """Recalibrated probabilities, columns in the order of the classes."""
    columns = getattr(recalibrator, "n_features_in_", len(known))
    first = next(iter(steps_of(recalibrator)), None)
    if getattr(first, "input", "proba") == "logits":
        # 0 and 1 have no logit: they are replaced by the nearest value with a finite one.
        given = np.log(np.maximum(proba, np.finfo(np.float64).tiny))
        given = given[:, 1:] - given[:, :1] if columns == 1 else given
    else:
        given = proba[:, 1:] if columns == 1 else proba
    with warnings.catch_warnings():  # fitted to a data frame; names are checked above
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return recalibrated_proba(recalibrator, given, known)


def _declared(recalibrator):
    """Declared properties of a map as text, if any. For a Pipeline: those of all its steps."""
    injective = is_injective(recalibrator)
    if injective is not None:
        yield "injective" if injective else "not injective"
    steps = steps_of(recalibrator)
    if all(getattr(step, "preserves_order_", False) for step in steps):
        yield "keeps the order of classes"
    elif all(getattr(step, "preserves_argmax_", False) for step in steps):
        yield "keeps the predicted class"
    elif all(hasattr(step, "preserves_argmax_") for step in steps):
        yield "may change the predicted class"


def _trace(apply, k):
    """The map of the probability of class k of two, on a grid that is fine at the ends and jumps.

    Neighbours differ by at most 0.01, unless they lie on the two sides of a jump.
    """

    def curve(p):
        return apply(np.column_stack([p, 1 - p] if k == 0 else [1 - p, p]))[:, k]

    ends = np.geomspace(1e-6, 0.01, 81)
    before = np.unique(np.concatenate([np.linspace(0, 1, 501), ends, 1 - ends]))
    after = curve(before)
    for _ in range(50):
        steep = np.flatnonzero(np.abs(np.diff(after)) > _STEEP)
        middle = (before[steep] + before[steep + 1]) / 2
        inside = (middle > before[steep]) & (middle < before[steep + 1])
        if not inside.any():
            break
        place, middle = steep[inside] + 1, middle[inside]
        before, after = np.insert(before, place, middle), np.insert(after, place, curve(middle))
    return before, after
