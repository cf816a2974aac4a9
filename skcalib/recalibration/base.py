"""Recalibrators: maps of the simplex into itself that are transformers and classifiers.

`Recalibrator` and `LogitRecalibrator` are the base classes. A subclass has `_fit_map` and
`_apply_map`, as `IdentityRecalibrator`. `FittedFromParts` and `FittedFromSketch` add other ways to
fit a map. The functions at the end fit and apply any object with ``fit(P, y)`` and
``predict_proba(P)``, pipelines included; its columns follow a given list of classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter, validate_data

from skcalib._util.arithmetic import SINGLE
from skcalib._util.messages import shown
from skcalib._util.parameters import check_parameters_of, completes_docstrings
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, MatrixLike
from skcalib._util.validation import (
    HALF_TOLERANCE,
    PROBABILITY_ROUNDING,
    check_finite_columns,
    check_indices,
    check_proba,
    check_weight,
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
    column_of_labels,
    has_columns,
    labels_or_shares,
    listed,
    one_hot_rows,
    ordered_categories,
    unique_labels,
)
from skcalib.data.notions import Classwise
from skcalib.data.problem import ForecastSummary, check_not_swapped, soft_classes
from skcalib.links.logits import detection_limit, in_units, log_forecast, logit_unit
from skcalib.scores import LogLoss, LossLike, ProperScore, resolve_training_loss, weighted_mean

if TYPE_CHECKING:
    from skcalib.links.averaging import ModelAverage


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
        raw = check_finite_columns(X, name="X", n_samples=len(y))
        classes = self._check_columns(X, raw, y, labels, categories)
        return raw, column_of_labels(y, classes), classes

    def _check_soft(self, X, y):
        """As `_check_labels`, for label distributions (n, K); losses are linear in them."""
        if not self._takes_soft:
            raise ValueError(
                f"{type(self).__name__} needs one label per sample, not soft labels of shape "
                f"{np.shape(y)}: pass y.argmax(axis=1), or use TemperatureScaling()."
            )
        target, votes = check_soft_labels(y, name="y")
        raw = check_finite_columns(X, name="X", n_samples=len(target))
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
        logits = check_finite_columns(X, name="X")
        return np.hstack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits

    def _check_columns(self, X, raw, y, labels, categories=None):
        """The class of each column; raises if X has features or logits instead of probabilities."""
        if self.input == "proba" and is_outside(raw.min(), raw.max(), 1 + HALF_TOLERANCE):
            value = raw.min() if raw.min() < -PROBABILITY_ROUNDING else raw.max()
            raise ValueError(
                f"X has the value {value:.12g}, outside [0, 1]: probabilities are expected. For "
                f"logits set input='logits'; for features, {self._remedy()}."
            )
        if self.input == "logits" and len(raw) > 1 and not is_outside(raw.min(), raw.max()):
            sums, single = raw.sum(axis=1, dtype=np.float64), raw.shape[1] == 1
            if single or np.all(np.abs(sums - 1) <= HALF_TOLERANCE):
                warnings.warn(
                    f"X is in [0, 1]{'' if single else ', and its rows sum to 1'}, but "
                    f"{type(self).__name__} reads it as logits: for probabilities leave out "
                    "input='logits'.",
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


# --- Samples in parts -----------------------------------------------------------------------------


class FittedFromParts(Recalibrator):
    """Adds `partial_fit` to a recalibrator."""

    n_samples_seen_: int

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the map from these samples and those of the calls before.

        The map is that of `fit` to all samples so far, up to 100,000 samples and ten million
        probabilities. Beyond that it is that of `fit` to a random part of this size, in which every
        sample is equally likely: a map of q parameters then has a log loss that is higher by about
        q / 200,000 on average. The sizes of the calls have no effect. Of a rare event too few may
        be in that part: a map of a sketch (``fit_sketch``) uses all samples.

        Cost: one `fit` in each call, so large parts are faster; memory for the samples that are
        kept, also in a pickle.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities or logits, as in `fit`.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            The class of each column. The first call needs it, or ``labels`` in the constructor,
            because the first samples may lack a class.

        Returns
        -------
        Recalibrator
            The fitted recalibrator, with the further attribute ``n_samples_seen_``, the number of
            samples of positive weight.

        Raises
        ------
        ValueError
            For invalid samples, which leave the recalibrator as it was; for other classes than in
            the first call.

        Warns
        -----
        UserWarning
            After `fit`, whose samples are not kept: the map then has the new samples only.
        ConvergenceWarning
            As `fit`; the first samples may be separable.
        """
        self._check_call(X, y)
        before = self.__dict__.get("_subsample")
        if before is None and hasattr(self, "classes_"):
            warnings.warn(
                f"This {type(self).__name__} was fitted by another method, whose samples are not "
                "kept: partial_fit begins again, with these samples.",
                UserWarning,
                stacklevel=outside_level(),
            )
        known = self._known_classes(classes, before is None)
        check_indices(X=X, y=y, sample_weight=sample_weight)
        raw, labels, _ = self._check_labels(X, y, known)
        weight = np.ones(len(raw)) if sample_weight is None else np.asarray(sample_weight)
        seen, subsample = (0, None) if before is None else (self.n_samples_seen_, before)
        if weight.any():
            weight, values = check_weight(weight, len(raw)), self._validated(raw)
            rows = weight > 0
            if not rows.all():
                values, labels, weight = values[rows], labels[rows], weight[rows]
            # The key of a sample depends on its number, and not on the sizes of the calls.
            keys = np.random.Generator(np.random.PCG64(0).advance(seen)).random(len(weight))
            seen += len(weight)
            columns = {"values": values, "labels": labels, "weight": weight, "key": keys}
            if before is not None:
                columns = {name: np.append(before[name], columns[name], axis=0) for name in before}
            # Those of the smallest keys are kept, so every sample is as likely to be.
            most = min(SIZES.subsample_samples, SIZES.subsample_entries // len(known))
            smallest = np.sort(np.argsort(columns["key"], kind="stable")[:most])
            subsample = {name: column[smallest] for name, column in columns.items()}
        if subsample is None:
            raise ValueError("X has no sample of positive weight: at least one is needed.")
        if np.ndim(X) == 2:
            validate_data(self, X, reset=before is None, skip_check_array=True)
        self.classes_ = known
        try:
            weight, values, labels = drop_zero_weights(
                subsample["weight"], subsample["values"], subsample["labels"]
            )
            return self._learn(self._samples(values, labels, weight))
        finally:  # a warning that is an error must not lose the samples
            self._subsample, self.n_samples_seen_ = subsample, seen

    def _known_classes(self, classes, first):
        """Classes of the columns, from the constructor, the argument or the first call."""
        if classes is None and hasattr(self, "classes_"):
            return self.classes_
        if classes is None and self.labels is None:
            raise ValueError(
                "labels must list the classes in the order of the columns, because a chunk may "
                f"lack some: {type(self).__name__}(labels=[...])."
            )
        classes = check_label_list(self.labels if classes is None else classes)
        known = self.labels if first else self.classes_
        if known is not None and check_label_list(known).tolist() != classes.tolist():
            raise ValueError(
                f"classes is {listed(classes)}, but "
                f"{'labels' if first else 'that of the first call'} is "
                f"{listed(check_label_list(known))}: pass the same, or leave it out."
            )
        return classes

    def _learn(self, samples):
        for name in ("_subsample", "n_samples_seen_"):  # of earlier calls of partial_fit
            self.__dict__.pop(name, None)
        return super()._learn(samples)


# --- Sketches -------------------------------------------------------------------------------------


class FittedFromSketch(Recalibrator):
    """Adds `fit_sketch` to a recalibrator."""

    #: Whether the map takes one probability at a time; else a sketch can only have two classes.
    _takes_columns = False

    def fit_sketch(self, sketch: ForecastSummary) -> Self:
        r"""Learn the map from a sketch: sums over cells of any number of forecasts.

        For two classes, the sketch holds the probability of the last class. For more, it holds the
        probability of each class (``notion="classwise"``). The groups of a sketch are combined.

        Parameters
        ----------
        sketch : ForecastSketch
            The labels and forecasts. Its classes, in the order of its columns, become ``classes_``.

        Returns
        -------
        Recalibrator
            The fitted recalibrator, with the attributes that `fit` sets for one column per class.
            For more than two classes ``loss_before_`` and ``loss_after_`` are nan: they need all
            probabilities of a sample at once.

        Raises
        ------
        ValueError
            For an object that is not a sketch, or is empty; for a sketch of another notion, or of
            classes other than ``labels``; for ``input="logits"``, because a sketch has
            probabilities.

        Warns
        -----
        ConvergenceWarning
            As `fit`.

        Notes
        -----
        The rows of the fit are the cells of the sketch, each with the number and the weight of its
        samples. The result is that of `fit` on samples whose scores are replaced by the mean score
        of their cell. :ref:`sketch_accuracy` has the measured differences: below 2e-6 for
        parametric maps and scores from 1e-10 to 1 - 1e-10, and on average below .002 for step
        functions.

        Scores of exactly 0 and 1 have their own cells. The sketch has one probability p of each
        event; the complement has the probability 1 - p. Where an array has the columns (1e-20, 1),
        the first therefore counts as 0. ``detection_limit_`` follows from the smallest mean score
        of a cell.
        """
        self._check_parameters()
        name = type(self).__name__
        if not isinstance(sketch, ForecastSummary):
            raise ValueError(
                f"sketch must be a ForecastSketch, got {type(sketch).__name__}: make one by "
                f"ForecastSketch(labels).partial_fit(y, y_proba), or use {name}.fit(y_proba, y)."
            )
        notion, _, classes = sketch.summarised_notion()
        if self.input != "proba":
            raise ValueError(
                f"A sketch has probabilities, but {name} has input={self.input!r}: use "
                "input='proba', and pass the softmax of the logits to predict_proba."
            )
        if self.labels is not None:
            labels = check_label_list(self.labels)
            if labels.tolist() != classes.tolist():
                raise ValueError(
                    f"{name} has labels={listed(labels)}, but the classes of the sketch are "
                    f"{listed(classes)}: leave labels= out, or make the sketch with the same."
                )
        if len(classes) > 2 and not self._takes_columns:
            raise ValueError(
                f"{name} needs all probabilities of a sample, and a sketch has one at a time, "
                f"which is sufficient for two classes only, got {len(classes)}: use "
                "TemperatureScaling.partial_fit, or PlattScaling with a sketch of "
                "notion='classwise'."
            )
        notions = ("canonical", "classwise") if len(classes) == 2 else ("classwise",)
        if notion not in notions:
            raise ValueError(
                f"{name} needs the probability of each class, but the sketch was made for "
                f"notion={notion!r}: make one with notion={notions[0]!r}."
            )
        problems = [rows.problem(classes) for rows in sketch.scored()]
        self.n_features_in_, self.classes_ = len(classes), classes
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        samples = [
            self._samples(
                rows.forecast, rows.target, rows.weight, count=rows.count, square=rows.square
            )
            for rows in (problems[-1:] if len(classes) == 2 else problems)
        ]
        return self._learn(samples[0] if len(samples) == 1 else ClasswiseSamples(samples))


@dataclass(frozen=True, eq=False)
class ClasswiseSamples:
    """Samples of each class against the rest, from sketches that have their own rows.

    It has those methods of `CalibrationSamples` that need one class at a time.
    """

    of_classes: list[CalibrationSamples]

    def per_class(self) -> list[CalibrationSamples]:
        """The samples of each class against the rest."""
        return self.of_classes

    def ranges(self, recalibrator: Recalibrator) -> np.ndarray:
        """The lowest and the highest probability of each class."""
        return np.array([samples.ranges(recalibrator)[1] for samples in self.of_classes])

    def mean_losses(self, recalibrator: Recalibrator) -> tuple[float, float]:
        """Not known: losses need all probabilities of a sample."""
        return float("nan"), float("nan")


# --- Objects with fit and predict_proba -----------------------------------------------------------


def require_recalibrator(recalibrator: object) -> None:
    """Raise for objects without `fit` or `predict_proba`."""
    fits = hasattr(recalibrator, "fit") and hasattr(recalibrator, "predict_proba")
    if not fits or isinstance(recalibrator, type):
        raise ValueError(
            f"recalibrator must have fit(P, y) and predict_proba(P), unlike {shown(recalibrator)}: "
            "pass 'auto', a name such as 'isotonic', 'platt' or 'beta', an object such as "
            "TemperatureScaling(), or a Pipeline that ends in one (IdentityRecalibrator() "
            "where it would end in 'passthrough')."
        )


def check_fitted_recalibrator(recalibrator: object, *, features: str, unfitted: str = "") -> None:
    """Raise for objects that are not fitted maps of probabilities.

    `features` says what to do with a classifier of features, and `unfitted` what else to do than to
    fit the map.
    """
    name = type(recalibrator).__name__
    if any(getattr(step, "_of_features", False) for step in steps_of(recalibrator)):
        raise ValueError(
            f"This {name} is a classifier of features, not a recalibrator: {features}."
        )
    if isinstance(recalibrator, type) or not hasattr(recalibrator, "predict_proba"):
        raise ValueError(
            f"A fitted recalibrator is needed, an object with predict_proba(P), got "
            f"{shown(recalibrator)}; a Pipeline may end in IdentityRecalibrator(), not in "
            "'passthrough', and IsotonicRecalibrator() replaces IsotonicRegression()."
        )
    if isinstance(recalibrator, BaseEstimator):
        check_is_fitted(
            recalibrator,
            msg="This %(name)s is not fitted: fit it to held-out probabilities and labels first"
            f"{unfitted}.",
        )
    columns, classes = (getattr(recalibrator, key, None) for key in ("n_features_in_", "classes_"))
    if columns is None or classes is None:  # it is from outside this library
        return
    if columns != len(classes) and (columns, len(classes)) != (1, 2):
        raise ValueError(
            f"{name} was fitted to {columns} columns, which are not probabilities of "
            f"{len(classes)} classes: a recalibrator maps probabilities."
        )


def steps_of(recalibrator: Any) -> list[Any]:
    """A recalibrator alone, or the steps of a Pipeline that are not the identity."""
    recalibrator = getattr(recalibrator, "best_estimator_", recalibrator)
    if not isinstance(recalibrator, Pipeline):
        return [recalibrator]
    steps = [step for _, step in recalibrator.steps if step not in ("passthrough", None)]
    return [inner for step in steps for inner in steps_of(step)]


def takes_features(recalibrator: object) -> bool:
    """Whether `fit` and `predict_proba` of a recalibrator also take the features of the samples."""
    return bool(getattr(recalibrator, "takes_features", False))


def fit_recalibrator(
    recalibrator: Any,
    proba: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    classes: np.ndarray,
    features: MatrixLike | ArrayLike | None = None,
    *,
    folds: Sequence[np.ndarray] | None = None,
    measure: bool = True,
) -> Any:
    """Clone and fit a recalibrator, with the weights, features and folds if it accepts them.

    Probabilities and weights are validated already, so recalibrators of the library do not validate
    them again. `y` are labels, or label distributions with a column for each of `classes`. `folds`
    are test rows.

    Every parameter ``labels`` and ``*__labels`` is set to `classes`, so that calibration data may
    lack a class. Without `measure` recalibrators of the library need not compute their losses.
    """
    if _takes_probabilities(recalibrator, "fit"):
        fitted, samples = _clone_with_samples(recalibrator, proba, y, weight, classes, folds)
        fitted._measures = measure
        return fitted._learn(samples)
    fitted = _clone_for(recalibrator, classes)
    # Weights are passed explicitly here, so metadata routing is disabled.
    with config_context(enable_metadata_routing=False):
        fitted.fit(proba, y, **weight_params(fitted, weight), **_feature_params(fitted, features))
    return fitted


def fit_without_each(
    recalibrator: Any,
    proba: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    classes: np.ndarray,
    folds: Sequence[np.ndarray],
    average: ModelAverage | None = None,
) -> list[Recalibrator] | None:
    """`fit_recalibrator` to the samples outside of each fold, where a single fit gives them.

    A list with one recalibrator for each fold; None where each fold needs a fit of its own.
    `average` is the `ModelAverage` of all samples, where it is known. Samples of weight zero are
    dropped.
    """
    if not _takes_probabilities(recalibrator, "fit"):
        return None
    fitted, samples = _clone_with_samples(recalibrator, proba, y, weight, classes, folds)
    return fitted._fit_without_each(samples, average) if all(map(len, samples.folds)) else None


def folds_among(rows: np.ndarray, folds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Test rows of folds as rows of those samples that `rows` selects."""
    place = np.cumsum(rows) - 1
    return [place[test[rows[test]]] for test in folds]


def _clone_with_samples(recalibrator, proba, y, weight, classes, folds):
    """A clone of a recalibrator of the library, and its samples of positive weight."""
    fitted = _clone_for(recalibrator, classes)
    fitted._check_parameters()
    fitted.classes_, fitted.n_features_in_ = classes, proba.shape[1]
    if folds is not None and weight is not None:
        folds = folds_among(weight > 0, folds)
    weight, proba, y = drop_zero_weights(weight, proba, y)
    labels = y if np.ndim(y) == 2 else column_of_labels(y, classes)
    return fitted, fitted._samples(proba, labels, weight, folds=folds)


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


def _takes_probabilities(recalibrator, method):
    """Whether an object takes probabilities and has this method from `Recalibrator` unchanged."""
    if not isinstance(recalibrator, Recalibrator) or recalibrator.input != "proba":
        return False
    inherited = getattr(type(recalibrator), method) is getattr(Recalibrator, method)
    return inherited or (method == "fit" and recalibrator._takes_folds)


def weight_params(estimator: Any, weight: np.ndarray | None) -> dict[str, np.ndarray]:
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


def warn_without_weight(estimator: Any, affected: str) -> None:
    """Warn if an estimator and all of its steps take no weights."""
    if not weight_params(estimator, np.ones(1)):
        warnings.warn(
            f"{type(estimator).__name__} takes no sample_weight: the weights affect the {affected} "
            "only.",
            UserWarning,
            stacklevel=4,  # the caller of the method that calls this
        )


def warn_if_slow(name: str, shape: tuple[int, ...], most: int, others: str) -> None:
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


def recalibrated_proba(
    recalibrator: Any,
    proba: np.ndarray,
    classes: np.ndarray,
    features: MatrixLike | ArrayLike | None = None,
) -> np.ndarray:
    """Probabilities (n, K) of a fitted recalibrator, one column for each of `classes`."""
    known = getattr(recalibrator, "classes_", classes)
    if _takes_probabilities(recalibrator, "predict_proba") and proba.shape[1] == len(known):
        return align_columns(recalibrator._apply_map(recalibrator._read(proba)), known, classes)
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


def align_columns(proba: np.ndarray, known: np.ndarray, classes: np.ndarray) -> np.ndarray:
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


def is_injective(recalibrator: Any) -> bool | None:
    """The `injective_` of a fitted recalibrator, or None where it is not declared.

    A Pipeline is injective if all of its steps are, and a search if its best estimator is.
    """
    recalibrator = getattr(recalibrator, "best_estimator_", recalibrator)
    if isinstance(recalibrator, Pipeline):
        declared = [is_injective(step) for _, step in recalibrator.steps if step != "passthrough"]
        return None if None in declared else all(declared)
    declared = getattr(recalibrator, "injective_", None)
    return None if declared is None else bool(declared)


def is_increasing(recalibrator: Any, classes: np.ndarray) -> bool:
    """Whether a fitted map of two classes is known to be strictly increasing."""
    low, high = recalibrated_proba(recalibrator, np.array([[0.75, 0.25], [0.25, 0.75]]), classes)
    return bool(is_injective(recalibrator) and low[1] < high[1])
