"""Probabilities of classifiers: fitted ones predict directly, others out of fold.

Columns always follow a given list of classes. A class that is missing in a fold has probability 0
there, and a label that is unknown to the classifier gets its own column.
"""

from functools import partial
from numbers import Integral

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedGroupKFold, check_cv
from sklearn.utils import indexable
from sklearn.utils.validation import check_is_fitted

from skcalib._labels import unique_labels
from skcalib._parallel import out_of_fold, threads_for
from skcalib._parameters import check_response_method
from skcalib._validation import check_proba, in_words, take_rows
from skcalib._values import shown
from skcalib.clusters import check_groups
from skcalib.problem import problem_of
from skcalib.recalibration._base import align_columns


def classifier_proba(estimator, X, *, response_method="auto"):
    """Probabilities (n, K) of a fitted classifier, columns in the order of its ``classes_``.

    Decision values become probabilities through the logistic function or the softmax.
    """
    check_response_method(response_method)
    response_method = response_of(estimator, response_method)
    if not hasattr(estimator, response_method):
        raise ValueError(
            f"{type(estimator).__name__} has no {response_method}: a classifier with predict_proba "
            "or decision_function is needed."
        )
    with threads_for(X):
        response = getattr(estimator, response_method)(X)
    if response_method == "decision_function":
        values = np.asarray(response, dtype=np.float64)
        response = expit(values) if values.ndim == 1 else softmax(values, axis=1)
    if np.ndim(response) == 2 and np.shape(response)[1] == 1:  # a classifier of one class
        return np.ones((len(response), 1))
    return check_proba(response, name=f"{type(estimator).__name__}.{response_method}(X)")


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
    owner="This",
):
    """Probabilities for (X, y) from a model that was not fitted to them.

    With ``cv=None`` the fitted classifier (or `FrozenEstimator`) is used as it is, and (X, y) must
    be held-out data; otherwise it is cloned and predicts out of fold. With `groups`, the clusters
    of the samples, a number of folds means stratified folds of whole clusters; a splitter gets
    `split_groups`.

    Returns the probabilities (n, K), the mean of the predictions for samples that are tested in
    several folds; the class of each column, of those of the classifier and those of y; and whether
    each sample is tested, which the first block of a `TimeSeriesSplit` is not.
    """
    if cv is None or isinstance(estimator, FrozenEstimator):
        if not is_fitted(estimator):
            response_of(estimator)  # raises another message if it is not a classifier
            raise NotFittedError(
                f"{owner} with cv=None needs a fitted classifier: fit it on other data first, or "
                "pass cv= to evaluate it out of fold. If it was fitted, it has been cloned since "
                "(GridSearchCV and cross_validate do that): wrap it in "
                "sklearn.frozen.FrozenEstimator to keep it fitted."
            )
        proba = classifier_proba(estimator, X, response_method=response_method)
        proba, classes = align_classes(proba, classes_of(estimator), y)
        return proba, classes, np.ones(len(y), dtype=bool)
    classes = unique_labels(y)
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class, {classes.tolist()[0]!r}: a classifier cannot be cross-validated "
            "on it."
        )
    (X,) = indexable(X)
    folds = make_folds(cv, X, y, groups, split_groups)
    predict = partial(_fold_proba, estimator, X, y, classes, response_method, fit_params)
    proba, tested = out_of_fold(predict, folds, len(y), n_jobs=n_jobs)
    return proba, classes, tested


def make_folds(cv, X, y, groups=None, split_groups=None):
    """Folds of `cv`, which are of whole clusters if `groups` are given and `cv` is a number."""
    if groups is not None and isinstance(cv, Integral):
        cv, split_groups = StratifiedGroupKFold(cv), check_groups(groups, len(y))
    return list(check_cv(cv, y, classifier=True).split(X, y, split_groups))


def held_out_problem(estimator, X, y, weight, *, groups=None, **options):
    """`held_out_proba` as the `Problem` of the samples that can be assessed, and their rows."""
    codes = None if groups is None else check_groups(groups, len(y))
    proba, classes, tested = held_out_proba(estimator, X, y, groups=codes, **options)
    rows = np.flatnonzero(tested if weight is None else tested & (weight > 0))
    weight, codes = (None if one is None else one[rows] for one in (weight, codes))
    return problem_of(y[rows], proba[rows], classes, weight, codes), rows


def _fold_proba(estimator, X, y, classes, response_method, fit_params, train, test):
    fold = estimator, X, y, train, test, classes, response_method, fit_params
    return fit_fold(*fold)[1]  # do not return models that are not needed


def fit_fold(estimator, X, y, train, test, classes, response_method, fit_params):
    """A clone fitted on the rows `train`, and its probabilities for the rows `test`."""
    model = fit_rows(estimator, X, y, train, fit_params)
    return model, aligned_proba(model, take_rows(X, test), classes, response_method)


def aligned_proba(model, X, classes, response_method):
    """Probabilities of a fitted classifier, one column for each of `classes`."""
    proba = classifier_proba(model, X, response_method=response_method)
    return align_columns(proba, classes_of(model), classes)


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
