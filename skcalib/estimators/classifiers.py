"""Held-out probabilities of classifiers, and the base classes of estimators around another one.

Fitted classifiers predict directly, others out of fold. Columns always follow a given list of
classes. A class that is missing in a fold has probability 0 there, and a label that is unknown to
the classifier gets its own column. Decision values, which have any scale, become probabilities by
`ClassifierResponse` alone.

`MetaEstimator` decides which estimator is fitted, with which metadata and tags.
`ClassifierInspector` assesses a classifier.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.special import softmax
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, check_cv
from sklearn.utils import InputTags, Tags, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from skcalib._util.messages import shown
from skcalib._util.parallel import join_folds, run_each, threads_for
from skcalib._util.parameters import check_response_method
from skcalib._util.validation import (
    check_indices,
    check_proba,
    check_weight,
    error_sentence,
    take_rows,
    weighted_rows,
)
from skcalib.data.clusters import check_groups, folds_of_groups
from skcalib.data.labels import check_y, has_columns, unique_labels
from skcalib.data.notions import Multilabel, resolve_notion
from skcalib.data.problem import Problem, check_problem, problem_of
from skcalib.links.logits import LogitScale
from skcalib.recalibration.base import align_columns, warn_without_weight, weight_params

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skcalib._util.types import CV, ArrayLike, Fold, MatrixLike, ResponseMethod

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
    def of(
        cls,
        classifier: Any,
        X: MatrixLike,
        response_method: ResponseMethod = "auto",
        learn: Callable[[np.ndarray], LogitScale] = LogitScale.of,
    ) -> ClassifierResponse:
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
            softmax_values = softmax(_UNSCALED.logits(values), axis=1)
            if softmax_values.shape == proba.shape and np.abs(softmax_values - proba).max() < _SAME:
                return cls(method, is_logit=True)
        return cls(method, learn(values))

    def proba(self, classifier: Any, X: MatrixLike) -> np.ndarray:
        """Probabilities (n, K), columns in the order of the ``classes_`` of the classifier."""
        if self.method == "decision_function":
            return softmax(self.scale.logits(decision_values(classifier, X)), axis=1)
        with threads_for(X):
            response = classifier.predict_proba(X)
        if np.ndim(response) == 2 and np.shape(response)[1] == 1:  # a classifier of one class
            return np.ones((len(response), 1))
        return check_proba(response, name=f"{type(classifier).__name__}.predict_proba(X)")


def classifier_proba(
    estimator: Any,
    X: MatrixLike,
    *,
    response_method: ResponseMethod = "auto",
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Probabilities (n, K) of a fitted classifier, columns in the order of its ``classes_``.

    Decision values are scaled by their spread in the rows of X with positive weights.
    """
    check_response_method(response_method)
    response = ClassifierResponse.of(estimator, _weighted_rows(X, weight), response_method)
    return response.proba(estimator, X)


def method_to_recalibrate(
    classifier: Any, X: MatrixLike, response_method: ResponseMethod
) -> Literal["predict_proba", "decision_function"]:
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


def decision_values(classifier: Any, X: MatrixLike) -> np.ndarray:
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


def label_proba(
    estimator: Any, X: MatrixLike, *, response_method: ResponseMethod = "auto"
) -> ArrayLike:
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


def response_of(
    estimator: Any, response_method: ResponseMethod = "auto"
) -> Literal["predict_proba", "decision_function"]:
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


def name_with_response(estimator: Any, response_method: ResponseMethod = "auto") -> str:
    """The class of an estimator, and whether its scores are decision values."""
    alone = hasattr(estimator, "decision_function") and not hasattr(estimator, "predict_proba")
    values = response_method == "decision_function" or (response_method == "auto" and alone)
    return type(estimator).__name__ + ", decision values" * values


def classes_of(estimator: Any) -> np.ndarray:
    """Classes of a fitted classifier, in the order of its columns."""
    if not hasattr(estimator, "classes_"):  # outlier detectors have a decision_function too
        raise ValueError(
            f"{type(estimator).__name__} has no classes_: a fitted classifier is needed to know "
            "the class of each column of its probabilities."
        )
    return np.asarray(estimator.classes_)


def proba_and_classes(
    estimator: Any,
    X: MatrixLike,
    y: np.ndarray,
    *,
    response_method: ResponseMethod = "auto",
    weight: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """`classifier_proba`, and the class of each column, which are those of y too.

    A label of y that is unknown to the classifier has a column of zeros.
    """
    proba = classifier_proba(estimator, X, response_method=response_method, weight=weight)
    classes = classes_of(estimator)
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


def _is_fitted_classifier(estimator):
    """True for fitted classifiers; for a frozen one, True if the inner classifier is fitted."""
    if isinstance(estimator, FrozenEstimator):
        return _is_fitted_classifier(estimator.estimator)
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return hasattr(estimator, "classes_")


def refuse_unlabelled(estimator: Any, y: np.ndarray) -> None:
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
    for part in (estimator, *parameters.values()):
        modules = [kind.__module__ for kind in type(part).__mro__]
        if any(module.startswith("sklearn.semi_supervised") for module in modules):
            return type(part).__name__
        if isinstance(part, FrozenEstimator) and (name := _semi_supervised(part.estimator)):
            return name
    return ""


def held_out_problem(
    estimator: Any,
    X: MatrixLike,
    y: np.ndarray,
    weight: np.ndarray | None,
    *,
    cv: CV = None,
    response_method: ResponseMethod = "auto",
    n_jobs: int | None = None,
    fit_params: dict[str, Any] | None = None,
    groups: ArrayLike | None = None,
    split_groups: ArrayLike | None = None,
    owner: str = "This",
) -> tuple[Problem, np.ndarray]:
    """The `Problem` of the samples that can be assessed, and their rows.

    The probabilities are those of a model that was not fitted to these samples. With ``cv=None``
    the fitted classifier (or `FrozenEstimator`) is used as it is, and (X, y) must be held-out data;
    otherwise it is cloned and predicts out of fold. Predictions for samples that are tested in
    several folds are averaged; some may be tested in none, such as the first block of a
    `TimeSeriesSplit`. With `groups`, the clusters of the samples, a number of folds means
    stratified folds of whole clusters; a splitter gets `split_groups`. Rows without `weight` do not
    affect the scale of decision values. The classes are those of the classifier and those of y.
    """
    refuse_unlabelled(estimator, y)
    codes = None if groups is None else check_groups(groups, len(y))
    tested = np.ones(len(y), dtype=bool)
    if cv is None or isinstance(estimator, FrozenEstimator):
        if not _is_fitted_classifier(estimator):
            response_of(estimator)  # raises another message if it is not a classifier
            raise NotFittedError(
                f"{owner} with cv=None needs a fitted classifier: fit it on other data first, or "
                "pass cv= to evaluate it out of fold. If it was fitted, it has been cloned since "
                "(GridSearchCV and cross_validate do that): wrap it in "
                "sklearn.frozen.FrozenEstimator to keep it fitted."
            )
        proba, classes = proba_and_classes(
            estimator, X, y, response_method=response_method, weight=weight
        )
    else:
        (X,), classes = indexable(X), _several_classes(y)
        folds = make_folds(cv, X, y, codes, split_groups)
        check_fold_classes(y, folds, most_unknown=_MOST_UNKNOWN)
        proba, tested, _ = out_of_fold_proba(
            estimator, X, y, classes, folds, response_method, fit_params, weight, n_jobs=n_jobs
        )
    rows = np.flatnonzero(tested if weight is None else tested & (weight > 0))
    weight, codes = take_rows(weight, rows), take_rows(codes, rows)
    return problem_of(y[rows], proba[rows], classes, weight, codes), rows


def _several_classes(y):
    """The classes of labels that a classifier is cross-validated on."""
    classes = unique_labels(y)
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class, {classes.tolist()[0]!r}: a classifier cannot be cross-validated "
            "on it."
        )
    return classes


def make_folds(
    cv: CV,
    X: MatrixLike,
    y: np.ndarray,
    groups: ArrayLike | None = None,
    split_groups: ArrayLike | None = None,
) -> list[Fold]:
    """Folds of `cv`, which are of whole clusters if `groups` are given and `cv` is a number."""
    if groups is not None and isinstance(cv, Integral):
        cv, split_groups = StratifiedGroupKFold(cv), check_groups(groups, len(y))
    splitter = check_cv(cv, y, classifier=True)
    return folds_of_groups(splitter, X, y, groups=split_groups)


def check_fold_classes(
    y: np.ndarray, folds: Sequence[Fold], *, most_unknown: float = 0.0, ensemble: bool = False
) -> None:
    """Raise for folds whose training samples lack classes that their test samples have.

    A share `most_unknown` of the test samples may be of such classes, whose probability is then 0,
    where a classifier is evaluated; none where a map is fitted to the probabilities. One class to
    train on is too few. With `ensemble`, a map is fitted to each fold, and needs all classes.
    """
    classes = unique_labels(y)
    tests, knowns = [test for _, test in folds], [unique_labels(y[train]) for train, _ in folds]
    absent = [np.setdiff1d(y[test], known) for test, known in zip(tests, knowns, strict=True)]
    n_unknown = sum(
        np.isin(y[test], lacking).sum() for test, lacking in zip(tests, absent, strict=True)
    )
    n_allowed = most_unknown * sum(map(len, tests))
    for number, (test, known, lacking) in enumerate(
        zip(tests, knowns, absent, strict=True), start=1
    ):
        fold = f"fold {number} of {len(folds)}"
        needs_all = ensemble or len(known) < 2
        if needs_all:
            lacking = np.setdiff1d(classes, known)
        if len(lacking) and (needs_all or n_unknown > n_allowed):
            raise ValueError(
                f"The training samples of {fold} lack the class {lacking.tolist()[0]!r}, so its "
                "classifier gives it no probability: use fewer folds, or folds that are shuffled "
                "and stratified, such as StratifiedKFold(shuffle=True)."
            )
        if not ensemble:
            continue
        tested = unique_labels(y[test])
        if len(tested) < 2:
            raise ValueError(
                f"The test samples of {fold} have only the class {tested.tolist()[0]!r}, and with "
                "ensemble=True a recalibrator is fitted to each fold: use fewer folds, or "
                "ensemble=False."
            )


def out_of_fold_proba(
    estimator: Any,
    X: MatrixLike,
    y: np.ndarray,
    classes: np.ndarray,
    folds: Sequence[Fold],
    response_method: ResponseMethod,
    fit_params: dict[str, Any] | None,
    weight: np.ndarray | None = None,
    *,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray, LogitScale]:
    """Out-of-fold probabilities (n, K), the rows that have them, and a `LogitScale`.

    Each model has its own scale. So its decision values are first standardised by their mean and
    spread in rows that all models share, and moved by the average of these means. Then the scale,
    which is that of the standardised values of another model, is learned from all rows together.
    """
    fit = partial(
        _fold_values,
        estimator,
        X,
        y,
        classes=classes,
        response_method=response_method,
        fit_params=fit_params,
        weight=weight,
    )
    values, responses = zip(*run_each(fit, folds, n_jobs=n_jobs), strict=True)
    tests = [test for _, test in folds]
    if responses[0].method == "predict_proba":
        return *join_folds(values, tests, len(y)), _UNSCALED
    scale, logits = _UNSCALED, [_UNSCALED.logits(v) for v in values]
    if not all(response.is_logit for response in responses):
        scales = [response.scale for response in responses]
        shifts = [of_fold.shift for of_fold in scales]  # NaN for classes unknown in a fold
        n_known = np.sum(~np.isnan(shifts), axis=0)
        offset = np.nansum(shifts, axis=0) / np.maximum(n_known, 1)
        logits = [
            replace(of_fold, shift=of_fold.shift - offset).logits(v)
            for of_fold, v in zip(scales, values, strict=True)
        ]
        known = [
            _weighted_rows(z, take_rows(weight, test))
            for z, test in zip(logits, tests, strict=True)
        ]
        common = LogitScale.of(np.concatenate(known), tails=False)
        logits = [common.logits(z) for z in logits]
        scale = common.after(LogitScale(shift=-offset))
    # A class that is missing in a fold has the probability 0.
    proba = [softmax(np.where(np.isnan(z), -np.inf, z), axis=1) for z in logits]
    return *join_folds(proba, tests, len(y)), scale


def _fold_values(estimator, X, y, train, test, classes, response_method, fit_params, weight):
    """Probabilities or decision values for the rows `test`, and the response of their model."""
    model = fit_rows(estimator, X, y, train, fit_params)  # not returned: it may be large
    known, rows = classes_of(model), take_rows(X, test)
    method = response_of(model, response_method)
    response = ClassifierResponse.of(model, some_rows(X, weight), method, LogitScale.standard)
    if response.method == "predict_proba":
        return align_columns(response.proba(model, rows), known, classes), response
    values, tails = decision_values(model, rows), response.scale.tails
    values = values if tails is None else tails(values)
    both = np.vstack([values, np.broadcast_to(response.scale.shift, len(known))])
    both = align_columns(both, known, classes)
    both[:, np.isin(classes, known, invert=True)] = np.nan
    scale = LogitScale(response.scale.unit, both[-1])
    return both[:-1], replace(response, scale=scale)


def _weighted_rows(X, weight):
    """The rows of positive weight."""
    return X if weight is None or (weight > 0).all() else take_rows(X, np.flatnonzero(weight > 0))


def some_rows(X: MatrixLike, weight: np.ndarray | None = None) -> MatrixLike:
    """At most 2,000 rows of positive weight, from which properties of models are learned."""
    n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
    rows = np.arange(n_samples) if weight is None else np.flatnonzero(weight > 0)
    few = np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).astype(int)
    return X if len(few) == n_samples else take_rows(X, rows[few])


def cross_fit(
    estimator: Any,
    X: MatrixLike,
    y: np.ndarray,
    folds: Sequence[Fold],
    params: dict[str, Any],
    *,
    response_method: ResponseMethod,
    n_jobs: int | None,
    weight: np.ndarray | None = None,
) -> HeldOut:
    """`HeldOut` of a clone fitted to all samples, with out-of-fold probabilities."""
    (X,), classes = indexable(X), _several_classes(y)
    with threads_for(X, n_jobs):
        model = clone_estimator(estimator).fit(X, y, **params)
        few = some_rows(X, weight)
        method = method_to_recalibrate(model, few, response_method)
        proba, tested, scale = out_of_fold_proba(
            estimator, X, y, classes, folds, method, params, weight, n_jobs=n_jobs
        )
    response = ClassifierResponse.of(model, few, method, LogitScale.standard)
    if not response.is_logit:
        response = replace(response, scale=scale.after(response.scale))
    rows = np.flatnonzero(tested)
    return HeldOut(model, response, proba[rows], rows)


def fit_fold(
    estimator: Any,
    X: MatrixLike,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    classes: np.ndarray,
    response_method: ResponseMethod,
    fit_params: dict[str, Any] | None,
    weight: np.ndarray | None = None,
) -> HeldOut:
    """`HeldOut` of a clone that is fitted on the rows `train`, for the rows `test`."""
    model = fit_rows(estimator, X, y, train, fit_params)
    weight = take_rows(weight, test)
    return use_fitted(model, take_rows(X, test), classes, response_method, weight, rows=test)


def use_fitted(
    model: Any,
    X: MatrixLike,
    classes: np.ndarray,
    response_method: ResponseMethod,
    weight: np.ndarray | None = None,
    *,
    rows: np.ndarray,
) -> HeldOut:
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


def aligned_proba(
    model: Any, X: MatrixLike, classes: np.ndarray, response: ClassifierResponse
) -> np.ndarray:
    """Probabilities of a fitted classifier by its response, one column for each of `classes`."""
    return align_columns(response.proba(model, X), classes_of(model), classes)


def fit_rows(
    estimator: Any,
    X: MatrixLike,
    y: np.ndarray,
    rows: np.ndarray,
    fit_params: dict[str, Any] | None,
) -> Any:
    """A clone fitted on some rows; parameters with one entry per sample are sliced."""
    params = {}
    for name, value in (fit_params or {}).items():
        sized = hasattr(value, "__len__") and not isinstance(value, (str, dict))
        params[name] = take_rows(value, rows) if sized and len(value) == len(y) else value
    X = take_rows(X, rows)
    with threads_for(X):
        return clone_estimator(estimator).fit(X, y[rows], **params)


def clone_estimator(estimator: Any) -> Any:
    """`clone`, with a way out for estimators whose constructor changes its parameters."""
    try:
        return clone(estimator)
    except RuntimeError as error:
        kind = type(estimator).__name__
        raise ValueError(
            f"{kind} cannot be cloned, and folds need clones: {error_sentence(error)} Leave the "
            "parameter out of the constructor and pass it to fit, which hands it on "
            "(cat_features=... for CatBoostClassifier), or fit the model on other data and wrap it "
            "in sklearn.frozen.FrozenEstimator."
        ) from error


# --- Estimators around another estimator ----------------------------------------------------------


class MetaEstimator(MetaEstimatorMixin, BaseEstimator):
    """Base class: which estimator is fitted, and with which metadata and tags.

    A `FrozenEstimator` is used as it is, and the data are held out. Everything else is cloned.
    Subclasses have the parameters ``estimator`` and ``cv``.
    """

    estimator: Any  # a classifier or regressor, or None for the default
    #: Methods that take metadata.
    _fitting_methods: tuple[str, ...] = ("fit",)
    #: Whether the object itself requests ``sample_weight``.
    _requests_weight = False
    #: Whether a splitter, which may take metadata, is used where no clone is fitted too.
    _splits = True
    #: What uses the weights if the wrapped estimator cannot, for the warning.
    _weighted = "recalibrator"

    def _default(self):
        """What ``estimator=None`` stands for."""
        return LogisticRegression()

    def _wrapped(self):
        """The given estimator, or the default one."""
        if self.estimator is not None:
            return self.estimator
        default = self._default()
        if get_config()["enable_metadata_routing"]:
            default.set_fit_request(sample_weight=True)
        return default

    def _is_frozen(self):
        return isinstance(self.estimator, FrozenEstimator)

    def _trains(self):
        """Whether clones of the estimator are fitted."""
        return not self._is_frozen()

    def _is_fitted(self):
        return _is_fitted_classifier(self.estimator)

    def _check_wrapped(self):
        """A frozen estimator must be fitted; any other is refitted, with a warning."""
        if self._is_frozen():
            if not self._is_fitted():
                kind = type(self.estimator.estimator).__name__
                raise NotFittedError(
                    f"{type(self).__name__} was given a FrozenEstimator of {kind}, which is not "
                    "fitted: fit it on other data before freezing it."
                )
        elif self.estimator is not None and self._is_fitted():
            warnings.warn(
                f"The fitted {type(self.estimator).__name__} is cloned and fitted again, out of "
                "fold. To use it as it is, with (X, y) as held-out data, wrap it in "
                "sklearn.frozen.FrozenEstimator.",
                UserWarning,
                stacklevel=4,  # the caller of fit
            )

    def _check_passed(self, y):
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        return y

    def _route(self, caller, params, weight=None):
        """Metadata -> (parameters of the estimator's fit, parameters of the splitter).

        Without metadata routing `weight` goes wherever the estimator takes weights.
        """
        if get_config()["enable_metadata_routing"]:
            metadata = params if weight is None else {"sample_weight": weight, **params}
            routed = process_routing(self, caller, **metadata)
            return routed.estimator.fit if self._trains() else {}, routed.splitter.split
        params = dict(params)
        groups = params.pop("groups", None)
        if weight is not None and self._trains():
            warn_without_weight(self._wrapped(), self._weighted)
            params = {**weight_params(self._wrapped(), weight), **params}
        return params, {} if groups is None else {"groups": groups}

    def get_metadata_routing(self) -> MetadataRouter:
        """Routing: metadata of `fit` go to the `fit` of the estimator and to the splitter.

        Returns
        -------
        MetadataRouter
            The routing information.
        """
        router = MetadataRouter(owner=self)
        if self._requests_weight:
            router.add_self_request(self)
        to_fit, to_split = MethodMapping(), MethodMapping()
        for method in self._fitting_methods:
            to_fit.add(caller=method, callee="fit")
            to_split.add(caller=method, callee="split")
        if self._splits or self._trains():
            router.add(splitter=self.cv, method_mapping=to_split)
        if self._trains():
            router.add(estimator=self._wrapped(), method_mapping=to_fit)
        return router

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        wrapped = get_tags(self._wrapped()).input_tags
        tags.input_tags.sparse = wrapped.sparse
        tags.input_tags.allow_nan = wrapped.allow_nan
        tags.input_tags.positive_only = wrapped.positive_only
        return tags


class ClassifierInspector(MetaEstimator):
    """Base class: obtains held-out forecasts from (estimator, X, y) in all forms of use.

    Subclasses have the parameters ``estimator, cv, response_method, n_jobs``. They never train, so
    none has a method `score`.
    """

    #: In a pipeline with metadata routing, clusters need no request, as those of a splitter.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}
    _requests_weight = True
    _splits = False
    _weighted = "estimate"
    #: Whether cells of an indicator matrix may be missing.
    _takes_incomplete = False

    def _forecasts(self, X, y, sample_weight, fit_params, *, groups=None, **forecasts):
        """The `Problem` of the samples that can be assessed, and their rows.

        Sets ``classes_``, the class of each column. Without a classifier, `_given_forecasts` gets
        the other `forecasts`. A `Problem` in place of y is validated already; X has its rows. The
        clusters of the samples are `groups`; a splitter gets them too.
        """
        if isinstance(y, Problem):
            notion, incomplete = resolve_notion(self.notion), self._takes_incomplete
            check_problem(y, None, notion, soft=True, incomplete=incomplete)  # checks its kind
            self.classes_ = y.classes
            validate_data(self, X, skip_check_array=True)
            return y, np.arange(len(y.weight))
        check_indices(X=X, y=y, sample_weight=sample_weight, groups=groups, **forecasts)
        several = has_columns(y)
        if not several:
            y = check_y(self._check_passed(y), name="y")
        elif self._trains():
            raise ValueError(
                f"{type(self).__name__} cannot fit a classifier to labels of shape {np.shape(y)}: "
                "pass cv=None and a classifier that is fitted, or its probabilities."
            )
        if fit_params and (self.estimator is None or self.cv is None):
            raise ValueError(
                f"{type(self).__name__}.fit got {', '.join(sorted(fit_params))}, but only a "
                "classifier that is cross-validated uses it: pass estimator and cv, or "
                "drop it."
            )
        if self.estimator is None:
            problem = self._given_forecasts(
                X, y, sample_weight=sample_weight, groups=groups, **forecasts
            )
            self.classes_ = problem.classes
            return problem, weighted_rows(sample_weight, len(y))
        check_consistent_length(X, y)
        weight = None if sample_weight is None else check_weight(sample_weight, len(y))
        if several:
            problem = self._soft_problem(X, y, weight, groups)
            rows = weighted_rows(weight, len(y))
        else:
            params, split_params = {}, {}
            if self._trains():
                metadata = fit_params if groups is None else {"groups": groups, **fit_params}
                params, split_params = self._route("fit", metadata, weight)
            problem, rows = held_out_problem(
                self.estimator,
                X,
                y,
                weight,
                cv=self.cv,
                response_method=self.response_method,
                n_jobs=self.n_jobs,
                fit_params=params,
                groups=groups,
                split_groups=split_params.get("groups"),
                owner=type(self).__name__,
            )
        validate_data(self, X, skip_check_array=True)  # stores the number and names of the features
        self.classes_ = problem.classes
        return problem, rows

    def _soft_problem(self, X, y, weight, groups):
        """The `Problem` of soft labels, whose columns are the classes of a fitted classifier."""
        if not self._is_fitted():
            raise NotFittedError(
                f"{type(self).__name__} needs a fitted classifier for soft labels: fit it on other "
                "data first."
            )
        notion, method = resolve_notion(self.notion), self.response_method
        if isinstance(notion, Multilabel):
            proba, labels = label_proba(self.estimator, X, response_method=method), None
        else:
            proba = classifier_proba(self.estimator, X, response_method=method, weight=weight)
            labels = classes_of(self.estimator)
        return check_problem(
            y,
            proba,
            notion,
            weight,
            labels,
            groups=groups,
            soft=True,
            remedy="labels",
            incomplete=self._takes_incomplete,
        )

    def _given_forecasts(self, X, y, *, sample_weight, groups, **forecasts):
        """The `Problem` without a classifier; `forecasts` are further arguments of `fit`."""
        raise NotImplementedError

    def _trains(self):
        return self.estimator is not None and self.cv is not None and not self._is_frozen()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.estimator is None:  # then X holds probabilities
            tags.input_tags = InputTags()
        return tags
