"""Recalibrators: maps of the simplex into itself that are transformers and classifiers.

`Recalibrator` and `LogitRecalibrator` are the base classes. A subclass has `_fit_map` and
`_apply_map`, as `IdentityRecalibrator` at the end.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from skcalib._util.arithmetic import SINGLE
from skcalib._util.messages import shown
from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.types import ArrayLike
from skcalib._util.validation import (
    HALF_TOLERANCE,
    PROBABILITY_ROUNDING,
    check_features,
    check_indices,
    check_proba,
    drop_zero_weights,
    is_outside,
    refuse_frames_to_fetch,
)
from skcalib.data.class_columns import check_column_names, classes_of_columns
from skcalib.data.clusters import outside_level
from skcalib.data.labels import (
    check_class_order,
    check_label_list,
    check_soft_labels,
    check_y,
    class_columns,
    has_columns,
    labels_or_shares,
    one_hot_rows,
    ordered_categories,
    unique_labels,
)
from skcalib.data.notions import Classwise
from skcalib.data.problem import check_not_swapped, soft_classes
from skcalib.links.logits import detection_limit, in_units, log_forecast, logit_unit
from skcalib.scores import LogLoss, LossLike, ProperScore, resolve_training_loss, weighted_mean


@dataclass(eq=False)
class CalibrationSamples:
    """Validated samples, which a recalibrator is fitted to.

    `values` (n_rows, n_classes) are the probabilities, or logits with ``input="logits"``, of the
    user, which a fit must neither change nor keep; `read` makes the input of the map from them,
    ``forecast``, where they are not the input. `labels_or_target` are columns (n_rows,), or one-hot
    labels or label distributions (n_rows, n_classes): ``labels`` are the columns where there are
    any, and ``target`` (n_rows, n_classes) is one-hot or has the distributions. `weight` is
    positive. Where a row of a sketch stands for several samples, `count` is their number and
    `square` the sum of their squared weights. `folds`, test rows, are for recalibrators that
    compare maps, `features` for those that take them, and `cluster` has the numbers of the clusters
    of dependent samples. `score` is the loss of the recalibrator.
    """

    score: ProperScore
    values: np.ndarray
    labels_or_target: np.ndarray
    weight: np.ndarray
    read: Callable[[np.ndarray], np.ndarray] | None = None
    count: np.ndarray | None = None
    square: np.ndarray | None = None
    folds: list[np.ndarray] | None = None
    features: np.ndarray | None = None
    cluster: np.ndarray | None = None

    @cached_property
    def forecast(self) -> np.ndarray:
        """Probabilities (n, K), read at first use."""
        return self.values if self.read is None else self.read(self.values)

    @cached_property
    def labels(self) -> np.ndarray:
        """Numbers of classes (n,), or shares of classes (n, K)."""
        return labels_or_shares(self.labels_or_target)

    @cached_property
    def target(self) -> np.ndarray:
        """One-hot labels, or shares of classes (n, K)."""
        if self.labels_or_target.ndim == 2:
            return self.labels_or_target
        return one_hot_rows(self.labels_or_target, self.values.shape[1])

    def per_class(self) -> list[CalibrationSamples]:
        """Samples of two columns, rest and class: for each class, or the last one of two."""
        problems = [(self.forecast, self.target)]
        if self.forecast.shape[1] > 2:
            problems = [*Classwise().problems(self.forecast, self.target)]
        return [
            CalibrationSamples(
                self.score, forecast, target, self.weight, count=self.count, square=self.square
            )
            for forecast, target in problems
        ]

    def ranges(self, recalibrator: Recalibrator) -> np.ndarray:
        """Smallest and largest probability of each class (n_classes, 2)."""
        return forecast_range(recalibrator._probabilities(self.values, self))

    def mean_losses(self, recalibrator: Recalibrator) -> tuple[float, float]:
        """Mean losses without and with the map."""
        before = recalibrator._as_proba(self.forecast)
        after = recalibrator._apply_map(self.forecast)
        return self.mean_loss(before), self.mean_loss(after)

    def mean_loss(self, proba: np.ndarray) -> float:
        """Mean loss of forecasts (n_rows, n_classes)."""
        if not isinstance(self.score, LogLoss) or self.labels.ndim == 2:
            losses = self.score.loss(self.target, proba)
        else:
            with np.errstate(divide="ignore"):
                losses = -np.log(proba[np.arange(len(proba)), self.labels], dtype=np.float64)
        return float(weighted_mean(losses, self.weight))


class TransformerOfColumns(TransformerMixin):
    """Mixin of transformers with a column for each class or label."""

    #: The attribute that lists them.
    _labels_of_columns = "classes_"

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the columns: the class in lower case and the label.

        Parameters
        ----------
        input_features : ignored
            Not used, present for API consistency.

        Returns
        -------
        array of str
            One name for each class or label.
        """
        check_is_fitted(self)
        prefix = type(self).__name__.lower()
        labels = getattr(self, self._labels_of_columns)
        return np.asarray([f"{prefix}_{label}" for label in labels], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


@completes_docstrings
class Recalibrator(TransformerOfColumns, ClassifierMixin, BaseEstimator):
    r"""Base class of recalibrators: implement `_fit_map` and `_apply_map`.

    ``_fit_map(samples)`` learns from `samples`, which have the arrays ``forecast`` and ``target``
    of shape (n, K) and ``weight`` of shape (n,), and sets the declarations ``injective_``,
    ``preserves_argmax_`` and ``preserves_order_``. ``_apply_map(forecast)`` maps forecasts (m, K).
    Neither may change its arrays, and a fit must not keep them. Constructors have the parameters
    ``input``, ``loss`` and ``labels``; one with more of them sets all itself. The base class
    validates, sets ``classes_``, ``calibration_range_`` and the losses, and has the public methods.

    The docstring of a class need not repeat the entries of parameters that it inherits, nor that of
    a method what its base class says of the same parameters and of the result.

    More methods are optional. ``_check_parameters()`` raises for invalid parameters, before
    the data are read. ``_read(values)`` makes the input of the map from validated probabilities or
    logits. ``_fit_without_each(samples, average)`` returns a list of recalibrators fitted
    without each fold where one fit to all samples gives them, else None. ``_write_map(add, x)``
    adds the map to an ONNX graph.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds; logits, divided by ``logit_unit_``, are passed through the softmax.
    loss : {"log", "brier", "spherical", "rps"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in. It is also what is minimised,
        unless the map is defined by another criterion, such as least squares or the likelihood.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.

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
    calibration_range_ : array of shape (n_classes, 2)
        Smallest and largest probability of each class in the calibration set. `outside` finds
        forecasts beyond them.
    loss_before_, loss_after_ : float
        Mean loss on the calibration set without and with the map. The second is optimistic.
    logit_unit_ : float
        With ``input="logits"``, what logits are divided by: 1, unless the softmax of the
        calibration set would be flat or saturated. The margin of a class is its logit minus the
        mean of the others. The unit in which the margins, winsorised by a hundredth on each side,
        have the standard deviation :math:`\pi / \sqrt 3` of the standard logistic law is below
        0.005 for flat forecasts and above 10 for saturated ones. Such logits are divided by it,
        because they are decision values, whose scale has no meaning. The parameters of the map, and
        the losses, then refer to the quotients; `temperature_` refers to the logits that were
        passed. A logit that is more than 700 units below the largest of its row by z counts as
        :math:`700 + \log(1 + z)` units below it.
    logit_tails_ : RankCurve or None
        With ``input="logits"``, the increasing function of saturated or flat logits with heavy
        tails, which no unit makes ordinary logits (:ref:`decision_values`). Then the unit is 1, and
        the parameters of the map refer to the values of the function. None for other logits.

    See Also
    --------
    skcalib.RecalibratedClassifierCV : A classifier with a recalibrator, cross-fitted.
    """

    #: Whether `fit` and `predict_proba` accept ``features=``, one row for each forecast.
    takes_features = False
    #: Whether `_fit_map` compares maps on folds. Then `fit` also takes groups.
    _takes_folds = False
    #: Whether `_fit_map` takes label distributions.
    _takes_soft = True
    #: Whether a fit computes ``loss_before_`` and ``loss_after_``.
    _measures = True
    #: Whether the input of the map are logits.
    _of_logits = False

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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        completes_docstrings(cls)

    # --- What a subclass has ----------------------------------------------------------------------

    def _fit_map(self, samples):
        """Learn the map. May return the mean losses without and with it, if they are known."""
        raise NotImplementedError

    def _apply_map(self, forecast):
        """The map of forecasts (n, K)."""
        raise NotImplementedError

    def _fit_without_each(self, samples, average):
        """Fits to the samples outside of each of their folds, where one fit to all gives them.

        None where each fold needs a fit of its own. `average` is the `ModelAverage` of all samples,
        where it is known.
        """

    def _check_parameters(self):
        """Raise for invalid parameters, before data are read."""
        resolve_training_loss(self.loss)
        check_parameters_of(self)
        if self.labels is not None:
            check_label_list(self.labels)

    def _read(self, values):
        """Input of the map, from validated probabilities or logits."""
        if self.input == "logits":
            logits = in_units(values, self.logit_unit_, self.logit_tails_)
            # In single precision, steps of a map would be missed.
            return logits if self._of_logits else softmax(logits.astype(np.float64), axis=1)
        return log_forecast(values, self.detection_limit_) if self._of_logits else values

    # --- Fits and maps ----------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities of held-out samples, or logits with ``input="logits"``. A single column
            refers to the positive class, or to the class in its name. Rounding errors of up to 1e-9
            outside [0, 1] are taken as 0 and 1.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels; or soft labels, which are label distributions or annotator counts.
        """
        return self._learn(self._check_samples(X, y, sample_weight))

    def _samples(self, values, labels, weight, **attributes):
        """`CalibrationSamples` of validated values; learns what `_read` needs."""
        if self.input == "logits":
            self.logit_unit_, self.logit_tails_ = logit_unit(values)
        elif self._of_logits:
            self.detection_limit_ = detection_limit(values)
        score = resolve_training_loss(self.loss)
        return CalibrationSamples(score, values, labels, weight, read=self._read, **attributes)

    def _learn(self, samples):
        """Fit the map, and measure the losses where the fit has not done so."""
        losses = self._fit_map(samples)
        if losses is None and self._measures:
            losses = samples.mean_losses(self)
        if losses is not None:
            self.loss_before_, self.loss_after_ = losses
        self.calibration_range_ = samples.ranges(self)
        return self

    @property
    def _unit(self):
        """What the values that are passed are divided by."""
        return self.logit_unit_ if self.input == "logits" else 1.0

    def _probabilities(self, values, samples=None):
        """The probabilities in validated values, or in samples that have read them."""
        if self.input == "proba":
            return values
        return self._as_proba(self._read(values) if samples is None else samples.forecast)

    def _as_proba(self, forecast):
        """Probabilities of the input of the map."""
        return softmax(forecast, axis=1) if self._of_logits else forecast

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
        return self._mapped(self._check_forecasts(X))

    def _mapped(self, values, *features):
        """The map of validated values (n, K) as an array of its own."""
        proba = self._apply_map(self._read(values), *features)
        return proba.copy() if np.may_share_memory(proba, values) else proba

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Class of largest recalibrated probability.

        Returns
        -------
        array of shape (n_samples,)
            Labels.
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Recalibrated probabilities: the same as `predict_proba`."""
        return self.predict_proba(X)

    def outside(self, X: ArrayLike) -> np.ndarray:
        """Whether forecasts lie beyond those of the calibration set.

        There no label supports the map, which continues by its formula, or as its class says. If
        there are many such forecasts, fit the map to samples like them.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities or logits, as in `fit`.

        Returns
        -------
        array of bool of shape (n_samples,)
            True where the probability of a class is below or above its ``calibration_range_`` by
            more than the rounding errors of single precision. The sum is the number of such
            forecasts.

        Raises
        ------
        ValueError
            For a map without a calibration set, such as one that was read from a file.

        See Also
        --------
        skcalib.RecalibratedClassifierCV.outside : The same for rows of features.

        Examples
        --------
        >>> from skcalib import PlattScaling
        >>> scaling = PlattScaling().fit([0.3, 0.4, 0.6, 0.7], [0, 1, 0, 1])
        >>> scaling.outside([0.35, 0.999]).sum()
        np.int64(1)
        """
        proba = self._probabilities(self._check_forecasts(X))
        return np.any(outside_range(self, proba), axis=1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.positive_only = self.input == "proba"
        return tags

    # --- Validation -------------------------------------------------------------------------------

    def _check_samples(self, X, y, sample_weight):
        """Validated `CalibrationSamples`; sets the classes and names of columns of valid ones."""
        check_indices(X=X, y=y, sample_weight=sample_weight)
        self._check_call(X, y)
        if has_columns(y):
            raw, labels, classes = self._check_soft(X, y)
        else:
            raw, labels, classes = self._check_labels(X, y, self.labels)
            if np.asarray(y).ndim == 2:
                column_or_1d(y, warn=True)  # accepts a column, with scikit-learn's warning
        weight, raw, labels = drop_zero_weights(sample_weight, raw, labels)
        values = self._validated(raw)
        self._set_columns(X, classes, ordered_categories(y))
        return self._samples(values, labels, weight)

    def _check_call(self, X, y):
        """Raise for invalid parameters and for arguments of other kinds."""
        self._check_parameters()
        if callable(getattr(X, "predict_proba", None)):
            raise ValueError(
                f"X is a classifier, {type(X).__name__}, but must be a matrix of probabilities: "
                f"{self._remedy()}."
            )
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )

    def _check_labels(self, X, y, labels):
        """The values as given (n, K), the columns of the labels (n,), and the classes."""
        categories, y = ordered_categories(y), check_y(y, name="y")
        raw = check_features(X, name="X", n_samples=len(y))
        classes = self._check_columns(X, raw, y, labels, categories)
        return raw, class_columns(y, classes), classes

    def _check_soft(self, X, y):
        """As `_check_labels`, for label distributions (n, K); losses are linear in them."""
        if not self._takes_soft:
            raise ValueError(
                f"{type(self).__name__} needs one label per sample, not soft labels of shape "
                f"{np.shape(y)}: pass y.argmax(axis=1), or use TemperatureScaling()."
            )
        target, votes = check_soft_labels(y, name="y")
        raw = check_features(X, name="X", n_samples=len(target))
        columns = soft_classes(y, self.labels, target.shape[1], name="y")
        if max(raw.shape[1], 2) != len(columns):
            raise ValueError(
                f"y has {len(columns)} columns and X has {raw.shape[1]}: soft labels and forecasts "
                "need a column for each class."
            )
        check_not_swapped(raw, votes, "X", "y")
        if self.labels is None and raw.shape[1] > 1:
            check_column_names(X, columns, "X")
        classes = self._check_columns(X, raw, columns, columns)
        order = [columns.tolist().index(label) for label in classes.tolist()]
        return raw, target[:, order], classes

    def _set_columns(self, X, classes, categories=None):
        """Set the number, names and classes of columns: last, as X must be valid."""
        if resolve_training_loss(self.loss).ordered:
            check_class_order(classes, categories)
        if np.ndim(X) == 2:
            validate_data(self, X, reset=True, skip_check_array=True)
        self.classes_ = classes

    def _check_forecasts(self, X):
        """Validated values (n, K) of new samples, whose columns are those of `fit`."""
        check_is_fitted(self)
        refuse_frames_to_fetch(X, "X")
        is_table = np.ndim(X) == 2
        if is_table:
            validate_data(self, X, reset=False, skip_check_array=True)
        if not (is_table and hasattr(self, "feature_names_in_")):  # else the names are those of fit
            check_column_names(X, self.classes_, "X")
        return self._validated_columns(X)

    def _validated_columns(self, X):
        """`_validated`, with a column for each class of `fit`."""
        values = self._validated(X)
        if values.shape[1] != len(self.classes_):
            raise ValueError(
                f"X has {values.shape[1]} columns, but {type(self).__name__} was fitted with "
                f"{len(self.classes_)} classes."
            )
        return values

    def _validated(self, X):
        """Probabilities (n, K), or logits; a single column is that of the positive class."""
        if self.input == "proba":
            return check_proba(X, name="X", copy=False)
        logits = check_features(X, name="X")
        return np.hstack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits

    def _check_columns(self, X, raw, y, labels, categories=None):
        """The class of each column; raises if X has features or logits instead of probabilities."""
        if self.input == "proba" and is_outside(raw.min(), raw.max(), 1 + HALF_TOLERANCE):
            value = raw.min() if raw.min() < -PROBABILITY_ROUNDING else raw.max()
            raise ValueError(
                f"X has the value {value:.12g}, outside [0, 1]: probabilities are expected. For "
                f"logits set input='logits'; for features, {self._remedy()}."
            )
        if self.input == "logits" and _like_probabilities(raw):
            sums = ", and its rows sum to 1" if raw.shape[1] > 1 else ""
            warnings.warn(
                f"X is in [0, 1]{sums}, but {type(self).__name__} reads it as logits: for "
                "probabilities leave out input='logits'.",
                UserWarning,
                stacklevel=outside_level(),
            )
        try:
            classes = classes_of_columns(
                y,
                X,
                raw.shape[1],
                labels=labels,
                name="X",
                remedy="labels",
                categories=categories,
            )
        except ValueError as error:
            self._need_proba(raw, error)
            raise
        if labels is None and len(classes) > len(unique_labels(y)):  # one has no labels
            self._need_proba(raw)
        if None in classes.tolist():  # the column is named, but the other class is not
            only = np.asarray(y).tolist()[0]
            raise ValueError(
                f"y has only the class {only!r}, so the other class of X is unknown: pass "
                f"labels=[other, {only!r}]."
            )
        return classes

    def _need_proba(self, raw, error=None):
        """Raise for rows of features, which have another number of columns than classes."""
        sums = raw.sum(axis=1, dtype=np.float64)
        if self.input != "logits" and raw.shape[1] > 1 and not np.allclose(sums, 1, atol=0.01):
            raise ValueError(
                f"X has {raw.shape[1]} columns whose rows do not sum to 1, but must be a matrix of "
                f"probabilities, one column for each class: {self._remedy()}."
            ) from error

    def _remedy(self):
        """Advice for messages: what to pass instead of features or a classifier."""
        return (
            "fit(clf.predict_proba(X), y), or wrap the classifier: "
            f"RecalibratedClassifierCV(FrozenEstimator(clf), {type(self).__name__}())"
        )


def _like_probabilities(logits):
    """Whether the rows of logits (n, K), at least two, are probabilities."""
    if len(logits) < 2 or is_outside(logits.min(), logits.max()):
        return False
    sums = logits.sum(axis=1, dtype=np.float64)
    return logits.shape[1] == 1 or bool(np.all(np.abs(sums - 1) <= HALF_TOLERANCE))


class LogitRecalibrator(Recalibrator):  # numpydoc ignore=PR02
    """Base class of maps of logits.

    The map takes the logarithms of probabilities. Probabilities below ``detection_limit_``, and
    those of exactly 0, count as this limit. It is half of the smallest positive probability of the
    calibration set where that holds zeros. Otherwise it is half of the step of probabilities that
    are multiples of one, such as shares of votes, and at most .005; or else half of the smallest
    probability, and at most 2^-25, which single precision cannot tell from 0 beside 1. Logarithms
    below -87, which single precision cannot represent, are compressed by a strictly increasing
    function (``skcalib.links.logits.log_forecast``). Other values are unchanged. Both
    ``loss_before_`` and ``loss_after_`` are measured on the input of the map.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.

    See Also
    --------
    skcalib.TemperatureScaling : An example.
    skcalib.testing.check_recalibrator : Checks a new recalibrator.
    """

    _of_logits = True


def divided_by_sum(p: np.ndarray, forecast: np.ndarray) -> np.ndarray:
    """Rows of p (n, K) divided by their sum; the forecast where the sum is 0."""
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0), forecast)


def check_seed(random_state: object) -> None:
    """Raise unless the parameter gives the same random numbers in each fit."""
    if not isinstance(random_state, Integral):
        raise ValueError(
            "random_state must be a whole number, which gives the same map in each fit, got "
            f"{shown(random_state)}."
        )


def forecast_range(proba: np.ndarray) -> np.ndarray:
    """Smallest and largest probability of each column (n_columns, 2) of forecasts."""
    return np.column_stack([proba.min(axis=0), proba.max(axis=0)]).astype(np.float64)


def outside_range(fitted: BaseEstimator, proba: np.ndarray) -> np.ndarray:
    """Whether each probability (n, n_columns) is outside the ``calibration_range_`` of a map."""
    if not hasattr(fitted, "calibration_range_"):
        raise ValueError(
            f"This {type(fitted).__name__} does not know its calibration set: ask the map that was "
            "fitted, before it is exported."
        )
    low, high = fitted.calibration_range_.T
    low, high = low - np.minimum(SINGLE, low / 4), high + np.minimum(SINGLE, (1 - high) / 4)
    return (proba < low) | (proba > high)


class IdentityRecalibrator(Recalibrator):  # numpydoc ignore=PR02
    """Leave probabilities unchanged: a baseline, or the last step of a pipeline.

    See Also
    --------
    TemperatureScaling : The simplest map that changes probabilities.

    Examples
    --------
    >>> from skcalib import IdentityRecalibrator
    >>> IdentityRecalibrator().fit([0.2, 0.7], [0, 1]).predict_proba([0.4])
    array([[0.6, 0.4]])
    """

    def _fit_map(self, samples):
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = True

    def _apply_map(self, forecast):
        return forecast

    def _write_map(self, add, x):
        return x
