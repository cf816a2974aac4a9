"""Recalibrators: maps of the simplex into itself that are transformers and classifiers.

`Recalibrator` and `LogitRecalibrator` are the base classes. The functions at the end fit and apply
any object with ``fit(P, y)`` and ``predict_proba(P)``, pipelines included; its columns follow a
given list of classes.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter, validate_data

from skcalib._class_columns import check_column_names, classes_of_columns
from skcalib._labels import check_label_list, check_soft_labels, check_y, class_columns, has_columns
from skcalib._parameters import check_parameters_of
from skcalib._validation import (
    HALF_TOLERANCE,
    check_features,
    check_indices,
    check_proba,
    drop_zero_weights,
)
from skcalib._values import shown
from skcalib.clusters import outside_level
from skcalib.links._base import detection_limit, log_forecast
from skcalib.problem import check_not_swapped, soft_classes
from skcalib.scores import resolve_training_loss
from skcalib.tower import weighted_mean

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.utils import Tags

    from skcalib.scores import LossLike


class Recalibrator(TransformerMixin, ClassifierMixin, BaseEstimator):
    """Base class of recalibrators: implement `_fit_map` and `_apply_map`.

    ``_fit_map(forecast, target, weight)`` learns from arrays (n, K), (n, K), (n,) and sets the
    declarations ``injective_``, ``preserves_argmax_`` and ``preserves_order_``;
    ``_apply_map(forecast)`` maps forecasts (m, K). Constructors have the parameters ``input``,
    ``loss`` and ``labels``; one with more of them sets all itself.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Classes, in the order of the columns.
    injective_ : bool
        Whether different forecasts remain different. Then no sharpness is lost, and the improvement
        of a proper score is the improvement of its calibration error (G22).
    preserves_argmax_ : bool
        Whether the predicted class of every forecast is kept.
    preserves_order_ : bool
        Whether the order of all classes is kept, for every forecast.
    loss_before_, loss_after_ : float
        Mean loss on the calibration set without and with the map. The second is optimistic.

    See Also
    --------
    skcalib.RecalibratedClassifierCV : A classifier with a recalibrator, cross-fitted.
    """

    #: Whether `fit` and `predict_proba` accept ``features=``, one row for each forecast.
    takes_features = False
    #: Whether `_fit_map` takes label distributions.
    _takes_soft = True
    #: Whether a fit computes ``loss_before_`` and ``loss_after_``.
    _measures = True

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
    ) -> None:
        self.input = input
        self.loss = loss
        self.labels = labels

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities of held-out samples, or logits with ``input="logits"``. A single column
            refers to the positive class, or to the class in its name.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels; or soft labels, which are label distributions or annotator counts.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        Recalibrator
            The fitted recalibrator.
        """
        check_indices(X=X, y=y, sample_weight=sample_weight)
        if has_columns(y):
            return self._fit_soft(self._check_call(X, y), X, y, sample_weight)
        score, raw, columns = self._check_samples(X, y)
        weight, raw, columns = drop_zero_weights(sample_weight, raw, columns)
        return self._learn_validated(score, self._validated(raw), columns, weight)

    def _check_samples(self, X, y):
        """`fit` up to weights: the loss, the values (n, K) and the columns of the labels (n,).

        Sets ``classes_``, and the number and names of the columns.
        """
        score = self._check_call(X, y)
        labels = check_y(y, name="y")
        if np.asarray(y).ndim == 2:
            column_or_1d(y, warn=True)  # accepts a column, with scikit-learn's warning
        y = labels
        raw = check_features(X, name="X", n_samples=len(y))
        self.classes_ = self._check_columns(X, raw, y, self.labels)
        if np.ndim(X) == 2:
            validate_data(self, X, reset=True, skip_check_array=True)
        columns = class_columns(y, self.classes_)
        return score, raw, columns

    def _check_call(self, X, y):
        """The loss; raises for invalid parameters and for arguments of other kinds."""
        score = resolve_training_loss(self.loss)
        self._check_input()
        if callable(getattr(X, "predict_proba", None)):
            raise ValueError(
                f"X is a classifier, {type(X).__name__}, but must be a matrix of probabilities: "
                f"{self._remedy()}."
            )
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        return score

    def _fit_soft(self, score, X, y, sample_weight):
        """`fit` to label distributions or annotator counts: losses are linear in them."""
        if not self._takes_soft:
            raise ValueError(
                f"{type(self).__name__} needs one label per sample, not soft labels of shape "
                f"{np.shape(y)}: pass y.argmax(axis=1), or use TemperatureScaling()."
            )
        target, votes = check_soft_labels(y, name="y")
        raw = check_features(X, name="X", n_samples=len(target))
        own = soft_classes(y, self.labels, target.shape[1], name="y")
        if max(raw.shape[1], 2) != len(own):
            raise ValueError(
                f"y has {len(own)} columns and X has {raw.shape[1]}: soft labels and forecasts "
                "need a column for each class."
            )
        check_not_swapped(raw, votes, "X", "y")
        self.classes_ = self._check_columns(X, raw, own, own)
        if self.labels is None and raw.shape[1] > 1:
            check_column_names(X, own, "X")
        if np.ndim(X) == 2:
            validate_data(self, X, reset=True, skip_check_array=True)
        order = [own.tolist().index(label) for label in self.classes_.tolist()]
        weight, raw, target = drop_zero_weights(sample_weight, raw, target[:, order])
        values = self._validated(raw)
        self._learn_reading(values)
        self._learn_target(score, self._read(values), target, weight)
        return self

    def _fit_validated(self, proba, columns, weight, classes):
        """`fit` for validated probabilities (n, K), columns of the labels, weights, and classes."""
        score = self._check_validated(proba, classes)
        weight, proba, columns = drop_zero_weights(weight, proba, columns)
        return self._learn_validated(score, proba, columns, weight)

    def _check_validated(self, proba, classes):
        """The loss; checks the parameters, and sets the classes and the number of columns."""
        score = resolve_training_loss(self.loss)
        self._check_input()
        self.classes_, self.n_features_in_ = classes, proba.shape[1]
        return score

    def _fit_without_each(self, proba, columns, weight, folds, whole=None):
        """Fits to the samples outside of each fold, where one fit to all samples gives them.

        None where each fold needs a fit of its own. The samples are those of `_fit_validated`, with
        positive weights; `whole` is a fit to all samples that is known.
        """

    def _learn_validated(self, score, values, columns, weight):
        """Learn how to read validated values, and the map, from samples of positive weight."""
        self._learn_reading(values)
        self._learn(score, self._read(values), columns, weight)
        return self

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Recalibrated probabilities, shape (n_samples, n_classes).

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities or logits, as in `fit`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to one.
        """
        return self._map_validated(self._check_forecasts(X))

    def _check_forecasts(self, X):
        """Validated values (n, K) of new samples, whose columns are those of `fit`."""
        check_is_fitted(self)
        is_table = np.ndim(X) == 2
        if is_table:
            validate_data(self, X, reset=False, skip_check_array=True)
        if not (is_table and hasattr(self, "feature_names_in_")):  # else the names are those of fit
            check_column_names(X, self.classes_, "X")
        values = self._validated(X)
        if values.shape[1] != len(self.classes_):
            raise ValueError(
                f"X has {values.shape[1]} columns, but {type(self).__name__} was fitted with "
                f"{len(self.classes_)} classes."
            )
        return values

    def _map_validated(self, values):
        """`predict_proba` for validated probabilities, or logits, of shape (n, K)."""
        return self._apply_map(self._read(values))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Class of largest recalibrated probability.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities or logits, as in `fit`.

        Returns
        -------
        array of shape (n_samples,)
            Labels.
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Recalibrated probabilities: the same as `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities or logits, as in `fit`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to one.
        """
        return self.predict_proba(X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the columns: the class in lower case and the label.

        Parameters
        ----------
        input_features : ignored
            Not used, present for API consistency.

        Returns
        -------
        array of str
            One name for each class.
        """
        check_is_fitted(self)
        prefix = type(self).__name__.lower()
        return np.asarray([f"{prefix}_{label}" for label in self.classes_], dtype=object)

    def _learn(self, score, forecast, columns, weight):
        """Fit the map to forecasts and the columns of their labels, and measure the losses."""
        self._learn_target(score, forecast, np.eye(len(self.classes_))[columns], weight)

    def _learn_target(self, score, forecast, target, weight):
        """As `_learn`, from label distributions (n, K)."""
        self._fit_map(forecast, target, weight)
        self._measure(score, forecast, target, weight)

    def _measure(self, score, forecast, target, weight):
        """Mean losses without and with the map, if they are wanted."""
        if not self._measures:
            return
        before, after = self._as_proba(forecast), self._apply_map(forecast)
        self.loss_before_ = float(weighted_mean(score.loss(target, before), weight))
        self.loss_after_ = float(weighted_mean(score.loss(target, after), weight))

    def _fit_map(self, forecast, target, weight):
        raise NotImplementedError

    def _apply_map(self, forecast):
        raise NotImplementedError

    def _check_input(self):
        check_parameters_of(self)
        if self.labels is not None:
            check_label_list(self.labels)

    def _check_columns(self, X, raw, y, labels):
        """The class of each column; raises if X has features or logits instead of probabilities."""
        if self.input == "proba" and (raw.min() < 0 or raw.max() > 1 + HALF_TOLERANCE):
            value = raw.min() if raw.min() < 0 else raw.max()
            raise ValueError(
                f"X has the value {value:.9g}, outside [0, 1]: probabilities are expected. For "
                f"logits set input='logits'; for features, {self._remedy()}."
            )
        if self.input == "logits" and _like_probabilities(raw):
            what = "in [0, 1]" + (", and its rows sum to 1" if raw.shape[1] > 1 else "")
            warnings.warn(
                f"X is {what}, but {type(self).__name__} reads it as logits: for probabilities "
                "leave out input='logits'.",
                UserWarning,
                stacklevel=outside_level(),
            )
        try:
            classes = classes_of_columns(
                y, X, raw.shape[1], labels=labels, name="X", remedy="labels"
            )
        except ValueError as error:
            sums = raw.sum(axis=1, dtype=np.float64)
            if self.input == "logits" or raw.shape[1] == 1 or np.allclose(sums, 1, atol=0.01):
                raise
            raise ValueError(
                f"X has {raw.shape[1]} columns whose rows do not sum to 1, but must be a matrix of "
                f"probabilities, one column for each class: {self._remedy()}."
            ) from error
        if None in classes.tolist():  # the column is named, but the other class is not
            only = np.asarray(y).tolist()[0]
            raise ValueError(
                f"y has only the class {only!r}, so the other class of X is unknown: pass "
                f"labels=[other, {only!r}]."
            )
        return classes

    def _remedy(self):
        """Advice for messages: what to pass instead of features or a classifier."""
        return (
            "fit(clf.predict_proba(X), y), or wrap the classifier: "
            f"RecalibratedClassifierCV(FrozenEstimator(clf), {type(self).__name__}())"
        )

    def _validated(self, X):
        """Probabilities (n, K), or logits; a single column is that of the positive class."""
        if self.input == "proba":
            return check_proba(X, name="X")
        logits = check_features(X, name="X")
        return np.hstack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits

    def _learn_reading(self, values):
        """Learn what `_read` needs from validated values."""

    def _read(self, values):
        """Input of the map: probabilities, unless a subclass uses logits."""
        return softmax_of(values) if self.input == "logits" else values

    def _as_proba(self, forecast):
        return forecast

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.positive_only = self.input == "proba"
        tags.transformer_tags.preserves_dtype = []
        return tags


def _like_probabilities(logits):
    """Whether the rows of logits (n, K), at least two, are probabilities."""
    if len(logits) < 2 or logits.min() < 0 or logits.max() > 1:
        return False
    sums = logits.sum(axis=1, dtype=np.float64)
    return logits.shape[1] == 1 or bool(np.all(np.abs(sums - 1) <= HALF_TOLERANCE))


def softmax_of(logits):
    """softmax over columns, float64."""
    z = np.asarray(logits, dtype=np.float64)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class LogitRecalibrator(Recalibrator):
    """Base class of maps of logits.

    The map takes the logarithms of probabilities. Half of the smallest positive probability of the
    calibration set (``detection_limit_``) replaces probabilities of exactly 0, as is usual for
    values below a limit of detection. Logarithms below -87, which single precision cannot
    represent, are compressed by a strictly increasing function
    (``skcalib.links._base.log_forecast``). Other values are unchanged. Both ``loss_before_`` and
    ``loss_after_`` are measured on the input of the map.

    See Also
    --------
    skcalib.TemperatureScaling : An example.
    skcalib.testing.check_recalibrator : Checks a new recalibrator.
    """

    def _learn_reading(self, values):
        limit = self._limit_of(values)
        if limit is not None:
            self.detection_limit_ = limit

    def _limit_of(self, values):
        """Detection limit of validated values; None for logits. That of a union is the least."""
        return detection_limit(values) if self.input == "proba" else None

    def _read(self, values):
        return values if self.input == "logits" else log_forecast(values, self.detection_limit_)

    def _as_proba(self, forecast):
        return softmax_of(forecast)


# --- Objects with fit and predict_proba -----------------------------------------------------------


def require_recalibrator(recalibrator):
    """Raise for objects without `fit` or `predict_proba`."""
    fits = hasattr(recalibrator, "fit") and hasattr(recalibrator, "predict_proba")
    if not fits or isinstance(recalibrator, type):
        raise ValueError(
            f"recalibrator must have fit(P, y) and predict_proba(P), unlike {shown(recalibrator)}: "
            "pass 'auto', a name such as 'isotonic', 'platt' or 'beta', an object such as "
            "TemperatureScaling(), or a Pipeline that ends in one (IdentityRecalibrator() "
            "where it would end in 'passthrough')."
        )


def takes_features(recalibrator):
    """Whether `fit` and `predict_proba` of a recalibrator also take the features of the samples."""
    return bool(getattr(recalibrator, "takes_features", False))


def fit_recalibrator(recalibrator, proba, y, weight, classes, features=None, *, measure=True):
    """Clone and fit a recalibrator, with the weights and features if it accepts them.

    Probabilities and weights are validated already, so recalibrators of the library do not validate
    them again.

    Every parameter ``labels`` and ``*__labels`` is set to `classes`, so that calibration data may
    lack a class. Without `measure` recalibrators of the library need not compute their losses.
    """
    fitted = _clone_for(recalibrator, classes)
    if _is_plain(fitted, "fit"):
        fitted._measures = measure
        return fitted._fit_validated(proba, class_columns(y, classes), weight, classes)
    # Weights are passed explicitly here, so metadata routing is disabled.
    with config_context(enable_metadata_routing=False):
        fitted.fit(proba, y, **weight_params(fitted, weight), **_feature_params(fitted, features))
    return fitted


def fit_without_each(recalibrator, proba, y, weight, classes, folds, whole=None):
    """`fit_recalibrator` to the samples outside of each fold, where a single fit gives them.

    A list with one recalibrator for each fold; None where each fold needs a fit of its own. `whole`
    is a fit to all samples that is known. Samples of weight zero are dropped.
    """
    weight = np.ones(len(y)) if weight is None else weight
    if not _is_plain(recalibrator, "fit"):
        return None
    fitted, kept = _clone_for(recalibrator, classes), weight > 0
    fitted._check_validated(proba, classes)
    if not kept.all():
        place = np.cumsum(kept) - 1
        folds = [place[test[kept[test]]] for test in folds]
        proba, y, weight = proba[kept], y[kept], weight[kept]
    if not all(map(len, folds)):
        return None
    return fitted._fit_without_each(proba, class_columns(y, classes), weight, folds, whole)


def _clone_for(recalibrator, classes):
    """A clone that knows the class of each column."""
    cloned = clone(recalibrator, safe=False)  # objects without get_params are copied
    if hasattr(cloned, "get_params"):
        names = [name for name in cloned.get_params() if name.split("__")[-1] == "labels"]
        cloned.set_params(**dict.fromkeys(names, classes))
    return cloned


def _feature_params(recalibrator, features):
    """Arguments of `fit` and `predict_proba` that pass features to a recalibrator that takes them.

    Empty if it does not, or without features.
    """
    return {"features": features} if takes_features(recalibrator) and features is not None else {}


def _is_plain(recalibrator, method):
    """Whether an object takes probabilities and has this method from `Recalibrator` unchanged."""
    kind = type(recalibrator)
    return (
        isinstance(recalibrator, Recalibrator)
        and getattr(kind, method) is getattr(Recalibrator, method)
        and recalibrator.input == "proba"
    )


def weight_params(estimator, weight):
    """Arguments of `fit` that pass weights to an estimator, or to the steps that accept them.

    Empty if none accepts weights.
    """
    if weight is None:
        return {}
    if isinstance(estimator, Pipeline):
        return {
            f"{name}__{key}": value
            for name, step in estimator.steps
            for key, value in weight_params(step, weight).items()
        }
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):  # they pass parameters on
        return weight_params(estimator.estimator, weight)
    takes = hasattr(estimator, "fit") and has_fit_parameter(estimator, "sample_weight")
    return {"sample_weight": weight} if takes else {}


def warn_without_weight(estimator, other):
    """Warn if an estimator and all of its steps take no weights."""
    if not weight_params(estimator, np.ones(1)):
        warnings.warn(
            f"{type(estimator).__name__} takes no sample_weight: the weights affect the {other} "
            "only.",
            UserWarning,
            stacklevel=4,  # the caller of the method that calls this
        )


def warn_if_slow(name, shape, most, others):
    """Warn before a fit to (samples, classes) takes ten seconds or more, from so many entries."""
    n_samples, n_classes = shape
    if n_samples * n_classes > most:
        warnings.warn(
            f"{name} on {n_samples:,} samples of {n_classes:,} classes takes about ten seconds for "
            f"every {most // 10**6} million probabilities: fit it to a random part of the samples, "
            f"or use {others}.",
            UserWarning,
            stacklevel=outside_level(),
        )


def recalibrated_proba(recalibrator, proba, classes, features=None):
    """Probabilities (n, K) of a fitted recalibrator, one column for each of `classes`."""
    known = getattr(recalibrator, "classes_", classes)
    if _is_plain(recalibrator, "predict_proba") and proba.shape[1] == len(known):
        return align_columns(recalibrator._map_validated(proba), known, classes)
    name = f"{type(recalibrator).__name__}.predict_proba(P)"
    response = recalibrator.predict_proba(proba, **_feature_params(recalibrator, features))
    if len(known) == 1:  # fitted to a single class
        response = np.ones((len(proba), 1))
    else:
        response = check_proba(response, name=name)
    if response.shape != (len(proba), len(known)):
        raise ValueError(
            f"{name} has shape {response.shape}, but {len(proba)} samples of {len(known)} classes "
            "were expected."
        )
    return align_columns(response, known, classes)


def align_columns(proba, known, classes):
    """Columns of the classes `known` -> columns of `classes`; 0 for classes not in `known`."""
    if np.array_equal(known, classes):
        return proba
    position = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
    extra = [label for label in np.asarray(known).tolist() if label not in position]
    if extra:
        raise ValueError(
            f"The fitted model predicts the class {extra[0]!r}, which y lacks (it holds "
            f"{np.asarray(classes).tolist()}): it was not fitted to this y. If it was fitted "
            "before, wrap the whole model in sklearn.frozen.FrozenEstimator."
        )
    aligned = np.zeros((len(proba), len(classes)))
    aligned[:, [position[label] for label in np.asarray(known).tolist()]] = proba
    return aligned


def is_injective(recalibrator):
    """The `injective_` of a fitted recalibrator, or None where it is not declared.

    A Pipeline is injective if all of its steps are.
    """
    if isinstance(recalibrator, Pipeline):
        declared = [is_injective(step) for _, step in recalibrator.steps if step != "passthrough"]
        if None in declared:
            return None
        return all(declared)
    declared = getattr(recalibrator, "injective_", None)
    return None if declared is None else bool(declared)
