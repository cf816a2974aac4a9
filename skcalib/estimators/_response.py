"""Probabilities of classifiers: fitted ones predict directly, others out of fold.

Columns always follow a given list of classes. A class that is missing in a fold has probability 0
there, and a label that is unknown to the classifier gets its own column. Decision values, which
have any scale, become probabilities by `ClassifierResponse` alone.
"""

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedGroupKFold, check_cv
from sklearn.utils import indexable
from sklearn.utils.validation import check_is_fitted

from skcalib._util.messages import shown
from skcalib._util.parallel import join_folds, run_each, threads_for
from skcalib._util.parameters import check_response_method
from skcalib._util.validation import check_proba, in_words, take_rows
from skcalib.data.clusters import check_groups, folds_of_groups
from skcalib.data.labels import unique_labels
from skcalib.data.problem import problem_of
from skcalib.links.logits import LogitScale
from skcalib.recalibration.fitting import align_columns

_UNSCALED = LogitScale()
_SAME = 1e-6  # difference of probabilities that are equal up to the rounding of single precision
_SATURATED = 0.01  # share of rows with a probability of 1
_MOST_UNKNOWN = 0.1  # share of test samples of classes that their training samples lack
_MOST_ROWS = 2000  # of training samples, from which the scale of decision values is learned


@dataclass(frozen=True)
class ClassifierResponse:
    """How the probabilities of a fitted classifier are obtained, as learned from some rows.

    ``method`` is "predict_proba" or "decision_function". Decision values become logits by ``scale``
    (see `LogitScale`), which does nothing if they are logits already (``is_logit``).
    """

    method: str
    scale: LogitScale = _UNSCALED
    is_logit: bool = False

    @classmethod
    def of(cls, classifier, X, response_method="auto", learn=LogitScale.of):
        """The response to X. Decision values whose softmax is predict_proba are logits."""
        method = response_of(classifier, response_method)
        if not hasattr(classifier, method):
            raise ValueError(
                f"{type(classifier).__name__} has no {method}: a classifier with predict_proba or "
                "decision_function is needed."
            )
        if method == "predict_proba":
            return cls(method)
        values = decision_values(classifier, X)
        if hasattr(classifier, "predict_proba"):
            proba = cls("predict_proba").proba(classifier, X)
            found = softmax(_UNSCALED.logits(values), axis=1)
            if found.shape == proba.shape and np.abs(found - proba).max() < _SAME:
                return cls(method, is_logit=True)
        return cls(method, learn(values))

    def proba(self, classifier, X):
        """Probabilities (n, K), columns in the order of the ``classes_`` of the classifier."""
        if self.method == "decision_function":
            return softmax(self.scale.logits(decision_values(classifier, X)), axis=1)
        with threads_for(X):
            response = classifier.predict_proba(X)
        if np.ndim(response) == 2 and np.shape(response)[1] == 1:  # a classifier of one class
            return np.ones((len(response), 1))
        return check_proba(response, name=f"{type(classifier).__name__}.predict_proba(X)")


def classifier_proba(estimator, X, *, response_method="auto", weight=None):
    """Probabilities (n, K) of a fitted classifier, columns in the order of its ``classes_``.

    Decision values are scaled by their spread in the rows of X with positive weights.
    """
    check_response_method(response_method)
    response = ClassifierResponse.of(estimator, _weighted_rows(X, weight), response_method)
    return response.proba(estimator, X)


def method_to_recalibrate(classifier, X, response_method):
    """The response method that a recalibrator takes, as learned from rows of X.

    With "auto" it is decision_function, if there is one, where predict_proba saturates: where it is
    exactly 1 in at least one of a hundred rows, and their decision values differ.
    """
    method = response_of(classifier, response_method)
    if response_method != "auto" or not hasattr(classifier, "decision_function"):
        return method
    X = some_rows(X)
    certain = ClassifierResponse(method).proba(classifier, X).max(axis=1) == 1
    if method == "predict_proba" and certain.mean() >= _SATURATED:
        values = decision_values(classifier, X)[certain]
        return "decision_function" if np.ptp(values, axis=0).any() else method
    return method


def _weighted_rows(X, weight):
    return X if weight is None or (weight > 0).all() else take_rows(X, np.flatnonzero(weight > 0))


def decision_values(classifier, X):
    """Decision values (n, K) of a fitted classifier; those of two classes are -d/2 and d/2."""
    name, n_classes = type(classifier).__name__, len(classes_of(classifier))
    parameters = classifier.get_params() if hasattr(classifier, "get_params") else {}
    shapes = [v for key, v in parameters.items() if key.endswith("decision_function_shape")]
    if "ovo" in shapes and n_classes > 2:
        raise ValueError(
            f"{name} has decision values of pairs of classes: set decision_function_shape='ovr' "
            "for one of each class."
        )
    with threads_for(X):
        values = np.asarray(classifier.decision_function(X), dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(
            f"{name}.decision_function(X) has values that are NaN or infinite: calibration needs "
            "finite ones."
        )
    if n_classes == 2 and values.size == len(values):
        values = values.reshape(-1, 1) / 2 * [-1, 1]
    if values.ndim != 2 or values.shape[1] != n_classes:
        raise ValueError(
            f"{name}.decision_function(X) has shape {values.shape}, but there are {n_classes} "
            "classes: a value of each class is needed, or a single one of two classes."
        )
    return values


def label_proba(estimator, X, *, response_method="auto"):
    """Probabilities (n, L) of the labels of a fitted classifier of indicator matrices.

    A list of arrays, one for each label, becomes a matrix; a label without variation in the
    training data has the probability 0 or 1.
    """
    if response_method not in ("auto", "predict_proba") or not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"notion=Multilabel() needs the predict_proba of {type(estimator).__name__}: decision "
            "values of several labels have no common map to probabilities."
        )
    response = estimator.predict_proba(X)
    if not isinstance(response, list):
        return response
    parts = []
    for k, part in enumerate(response):
        known = np.asarray(estimator.classes_[k]).tolist()
        parts.append(part[:, known.index(1)] if 1 in known else np.zeros(len(part)))
    return np.column_stack(parts)


def response_of(estimator, response_method="auto"):
    """The response method of a classifier; raises for regressors and other objects."""
    if isinstance(estimator, type):
        raise ValueError(f"A fitted classifier is needed, got {shown(estimator)}.")
    if response_method != "auto":
        return response_method
    for method in ("predict_proba", "decision_function"):
        if hasattr(estimator, method):
            return method
    raise ValueError(
        f"{type(estimator).__name__} has neither predict_proba nor decision_function: a classifier "
        "with predict_proba or decision_function is needed."
    )


def name_with_response(estimator, response_method="auto"):
    """The class of an estimator, and whether its scores are decision values."""
    alone = hasattr(estimator, "decision_function") and not hasattr(estimator, "predict_proba")
    values = response_method == "decision_function" or (response_method == "auto" and alone)
    return type(estimator).__name__ + ", decision values" * values


def classes_of(estimator):
    """Classes of a fitted classifier, in the order of its columns."""
    if not hasattr(estimator, "classes_"):  # outlier detectors have a decision_function too
        raise ValueError(
            f"{type(estimator).__name__} has no classes_: a fitted classifier is needed to know "
            "the class of each column of its probabilities."
        )
    return np.asarray(estimator.classes_)


def align_classes(proba, classes, y):
    """Add a column of zeros for each label of y that is unknown to the classifier, and sort."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown) == 0 and len(classes) > 1:
        return proba, classes
    if len(classes) + len(unknown) < 2:
        raise ValueError(
            f"The classifier and y have only one class, {classes.tolist()[0]!r}: its "
            "probability is always 1, and there is nothing to evaluate."
        )
    every = np.concatenate([classes, unknown])
    order = np.argsort(every)
    padded = np.hstack([proba, np.zeros((len(proba), len(unknown)))])
    return padded[:, order], every[order]


def is_fitted(estimator):
    """True for fitted classifiers; for a frozen one, True if the inner classifier is fitted."""
    if isinstance(estimator, FrozenEstimator):
        return is_fitted(estimator.estimator)
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return hasattr(estimator, "classes_")


def refuse_unlabelled(estimator, y):
    """Raise for labels -1 of a semi-supervised classifier, which are no class."""
    n_unlabelled = int(np.sum(np.asarray(y) == -1))
    name = _semi_supervised(estimator) if n_unlabelled else ""
    if name:
        raise ValueError(
            f"y is -1 in {n_unlabelled} of {len(y)} samples, which are unlabelled for {name}: pass "
            "labelled samples only. To train on unlabelled ones, fit the classifier to other "
            "samples first, and pass it in a sklearn.frozen.FrozenEstimator."
        )


def _semi_supervised(estimator):
    """Name of a semi-supervised classifier of scikit-learn, or of one inside; or ""."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for one in (estimator, *parameters.values()):
        modules = [kind.__module__ for kind in type(one).__mro__]
        if any(module.startswith("sklearn.semi_supervised") for module in modules):
            return type(one).__name__
        if isinstance(one, FrozenEstimator) and (name := _semi_supervised(one.estimator)):
            return name
    return ""


def held_out_proba(
    estimator,
    X,
    y,
    *,
    cv=None,
    response_method="auto",
    n_jobs=None,
    fit_params=None,
    groups=None,
    split_groups=None,
    weight=None,
    owner="This",
):
    """Probabilities for (X, y) from a model that was not fitted to them.

    With ``cv=None`` the fitted classifier (or `FrozenEstimator`) is used as it is, and (X, y) must
    be held-out data; otherwise it is cloned and predicts out of fold. With `groups`, the clusters
    of the samples, a number of folds means stratified folds of whole clusters; a splitter gets
    `split_groups`. Rows without `weight` do not affect the scale of decision values.

    Returns the probabilities (n, K), the mean of the predictions for samples that are tested in
    several folds; the class of each column, of those of the classifier and those of y; and whether
    each sample is tested, which the first block of a `TimeSeriesSplit` is not. Raises for folds
    whose training samples have one class, or lack the classes of a tenth of the test samples.
    """
    refuse_unlabelled(estimator, y)
    if cv is None or isinstance(estimator, FrozenEstimator):
        if not is_fitted(estimator):
            response_of(estimator)  # raises another message if it is not a classifier
            raise NotFittedError(
                f"{owner} with cv=None needs a fitted classifier: fit it on other data first, or "
                "pass cv= to evaluate it out of fold. If it was fitted, it has been cloned since "
                "(GridSearchCV and cross_validate do that): wrap it in "
                "sklearn.frozen.FrozenEstimator to keep it fitted."
            )
        proba = classifier_proba(estimator, X, response_method=response_method, weight=weight)
        proba, classes = align_classes(proba, classes_of(estimator), y)
        return proba, classes, np.ones(len(y), dtype=bool)
    classes = _several_classes(y)
    (X,) = indexable(X)
    folds = make_folds(cv, X, y, groups, split_groups)
    _check_known_classes(y, classes, folds)
    how = response_method, fit_params, weight
    proba, tested, _ = out_of_fold_proba(estimator, X, y, classes, folds, *how, n_jobs=n_jobs)
    return proba, classes, tested


def _several_classes(y):
    """The classes of labels that a classifier is cross-validated on."""
    classes = unique_labels(y)
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class, {classes.tolist()[0]!r}: a classifier cannot be cross-validated "
            "on it."
        )
    return classes


def check_fold_classes(y, folds, *, ensemble):
    """Raise for folds whose held-out probabilities have no information about a class."""
    for number, (train, test) in enumerate(folds, start=1):
        tested = unique_labels(y[test])
        absent = np.setdiff1d(unique_labels(y) if ensemble else tested, y[train])
        if len(absent):
            raise _absent_class(absent, number, len(folds))
        if ensemble and len(tested) < 2:
            raise ValueError(
                f"The test samples of fold {number} of {len(folds)} have only the class "
                f"{tested.tolist()[0]!r}, and with ensemble=True a recalibrator is fitted to each "
                "fold: use fewer folds, or ensemble=False."
            )


def _check_known_classes(y, classes, folds):
    """Raise for folds that cannot evaluate a classifier: most of all, those of sorted labels.

    A class that a few folds lack has the probability 0 there, unless only one class is left.
    """
    absent = [np.setdiff1d(y[test], y[train]) for train, test in folds]
    pairs = list(zip(folds, absent, strict=True))
    n_unknown = sum(np.isin(y[test], lacking).sum() for (_, test), lacking in pairs)
    n_tested = sum(len(test) for _, test in folds)
    for number, ((train, _), lacking) in enumerate(pairs, start=1):
        known = unique_labels(y[train])
        if len(known) < 2:
            raise _absent_class(np.setdiff1d(classes, known), number, len(folds))
        if len(lacking) and n_unknown > _MOST_UNKNOWN * n_tested:
            raise _absent_class(lacking, number, len(folds))


def _absent_class(absent, number, n_folds):
    return ValueError(
        f"The training samples of fold {number} of {n_folds} lack the class "
        f"{absent.tolist()[0]!r}, so its classifier gives it no probability: use fewer folds, or "
        "folds that are shuffled and stratified, such as StratifiedKFold(shuffle=True)."
    )


def make_folds(cv, X, y, groups=None, split_groups=None):
    """Folds of `cv`, which are of whole clusters if `groups` are given and `cv` is a number."""
    if groups is not None and isinstance(cv, Integral):
        cv, split_groups = StratifiedGroupKFold(cv), check_groups(groups, len(y))
    splitter = check_cv(cv, y, classifier=True)
    return folds_of_groups(splitter, X, y, groups=split_groups)


def held_out_problem(estimator, X, y, weight, *, groups=None, **options):
    """`held_out_proba` as the `Problem` of the samples that can be assessed, and their rows."""
    codes = None if groups is None else check_groups(groups, len(y))
    options |= {"groups": codes, "weight": weight}
    proba, classes, tested = held_out_proba(estimator, X, y, **options)
    rows = np.flatnonzero(tested if weight is None else tested & (weight > 0))
    weight, codes = (None if one is None else one[rows] for one in (weight, codes))
    return problem_of(y[rows], proba[rows], classes, weight, codes), rows


def out_of_fold_proba(
    estimator, X, y, classes, folds, response_method, fit_params, weight=None, *, n_jobs=None
):
    """Out-of-fold probabilities (n, K), the rows that have them, and a `LogitScale`.

    Each model has its own scale. So its decision values are first standardised by their mean and
    spread in rows that all models share, and moved by the average of these means. Then the scale,
    which is that of the standardised values of another model, is learned from all rows together.
    """
    how = classes, response_method, fit_params, weight
    tasks = ((estimator, X, y, *fold, *how) for fold in folds)
    values, responses = zip(*run_each(_fold_values, tasks, n_jobs=n_jobs), strict=True)
    tests = [test for _, test in folds]
    if responses[0].method == "predict_proba":
        return *join_folds(values, tests, len(y)), _UNSCALED
    scale, logits = _UNSCALED, [_UNSCALED.logits(v) for v in values]
    if not all(response.is_logit for response in responses):
        scales = [response.scale for response in responses]
        offset = _mean([one.shift for one in scales])
        pairs = zip(scales, values, strict=True)
        logits = [replace(one, shift=one.shift - offset).logits(v) for one, v in pairs]
        known = map(_weighted_rows, logits, (take_rows(weight, test) for test in tests))
        common = LogitScale.of(np.concatenate([*known]), tails=False)
        logits = [common.logits(z) for z in logits]
        scale = common.after(LogitScale(shift=-offset))
    # A class that is missing in a fold has the probability 0.
    proba = [softmax(np.where(np.isnan(z), -np.inf, z), axis=1) for z in logits]
    return *join_folds(proba, tests, len(y)), scale


def _mean(shifts):
    """Mean of shifts (K,) of folds, which are NaN for unknown classes."""
    total = np.nansum(shifts, axis=0)
    return total / np.maximum(np.sum(~np.isnan(shifts), axis=0), 1)


def _fold_values(estimator, X, y, train, test, classes, response_method, fit_params, weight):
    """Probabilities or decision values for the rows `test`, and the response of their model."""
    model = fit_rows(estimator, X, y, train, fit_params)  # not returned: it may be large
    known, rows = classes_of(model), take_rows(X, test)
    how = response_of(model, response_method), LogitScale.standard
    response = ClassifierResponse.of(model, some_rows(X, weight), *how)
    if response.method == "predict_proba":
        return align_columns(response.proba(model, rows), known, classes), response
    values, tails = decision_values(model, rows), response.scale.tails
    values = values if tails is None else tails(values)
    both = np.vstack([values, np.broadcast_to(response.scale.shift, len(known))])
    both = align_columns(both, known, classes)
    both[:, np.isin(classes, known, invert=True)] = np.nan
    scale = LogitScale(response.scale.unit, both[-1])
    return both[:-1], replace(response, scale=scale)


def some_rows(X, weight=None):
    """At most 2,000 rows of positive weight, from which properties of models are learned."""
    n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
    rows = np.arange(n_samples) if weight is None else np.flatnonzero(weight > 0)
    few = np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).astype(int)
    return X if len(few) == n_samples else take_rows(X, rows[few])


def cross_fit(estimator, X, y, folds, params, *, response_method, n_jobs, weight=None):
    """`HeldOut` of a clone fitted to all samples, with out-of-fold probabilities."""
    (X,), classes = indexable(X), _several_classes(y)
    with threads_for(X, n_jobs):
        model = clone_estimator(estimator).fit(X, y, **params)
        few = some_rows(X, weight)
        method = method_to_recalibrate(model, few, response_method)
        how = classes, folds, method, params, weight
        proba, tested, scale = out_of_fold_proba(estimator, X, y, *how, n_jobs=n_jobs)
    response = ClassifierResponse.of(model, few, method, LogitScale.standard)
    if not response.is_logit:
        response = replace(response, scale=scale.after(response.scale))
    rows = np.flatnonzero(tested)
    return HeldOut(model, response, proba[rows], rows)


def fit_fold(estimator, X, y, train, test, classes, response_method, fit_params, weight=None):
    """`HeldOut` of a clone that is fitted on the rows `train`, for the rows `test`."""
    model = fit_rows(estimator, X, y, train, fit_params)
    how = classes, response_method, take_rows(weight, test)
    return use_fitted(model, take_rows(X, test), *how, rows=test)


def use_fitted(model, X, classes, response_method, weight=None, *, rows):
    """`HeldOut` of a fitted classifier, for the samples X, which are the rows `rows`."""
    known = _weighted_rows(X, weight)
    method = method_to_recalibrate(model, known, response_method)
    response = ClassifierResponse.of(model, known, method)
    return HeldOut(model, response, aligned_proba(model, X, classes, response), rows)


@dataclass(frozen=True)
class HeldOut:
    """A fitted classifier, its response, and held-out probabilities for some rows.

    The response, learned with these probabilities, is that of the classifier to new samples.
    """

    model: Any
    response: ClassifierResponse
    proba: np.ndarray
    rows: np.ndarray


def aligned_proba(model, X, classes, response):
    """Probabilities of a fitted classifier by its response, one column for each of `classes`."""
    return align_columns(response.proba(model, X), classes_of(model), classes)


def fit_rows(estimator, X, y, rows, fit_params):
    """A clone fitted on some rows; parameters with one entry per sample are sliced."""
    params = {
        name: take_rows(value, rows) if _per_sample(value, len(y)) else value
        for name, value in (fit_params or {}).items()
    }
    X = take_rows(X, rows)
    with threads_for(X):
        return clone_estimator(estimator).fit(X, y[rows], **params)


def clone_estimator(estimator):
    """`clone`, with a way out for estimators whose constructor changes its parameters."""
    try:
        return clone(estimator)
    except RuntimeError as error:
        kind = type(estimator).__name__
        raise ValueError(
            f"{kind} cannot be cloned, and folds need clones: {in_words(error)} Leave the "
            "parameter out of the constructor and pass it to fit, which hands it on "
            "(cat_features=... for CatBoostClassifier), or fit the model on other data and wrap it "
            "in sklearn.frozen.FrozenEstimator."
        ) from error


def _per_sample(value, n_samples):
    sized = hasattr(value, "__len__") and not isinstance(value, (str, dict))
    return sized and len(value) == n_samples
