"""Base class of smoothers, and smoothers whose models are fitted on the other folds.

`Smoother` is the base class. `cross_predict` and `check_folds` compute out-of-fold predictions.
`OutOfFoldSmoother` smooths with models that are fitted on the other folds: any classifier
(`CrossFitted`), or an average of recalibration maps, the default of the errors (`LogitSmoother`).
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skcalib._util.arithmetic import merge_forecasts
from skcalib._util.messages import shown
from skcalib._util.parallel import out_of_fold
from skcalib._util.parameters import check_parameters_of
from skcalib._util.types import CV, ArrayLike, RandomState
from skcalib._util.validation import ROW_SUM_TOLERANCE, weights_of_mean_one
from skcalib.links.averaging import PER_CLASS, averaged_map

if TYPE_CHECKING:
    from skcalib.scores import ProperScore


class Smoother(BaseEstimator):
    r"""Base class: estimates :math:`E[\,\cdot \mid S]`, the conditional expectation given S.

    A smoother is an operator. Once fitted to forecasts, it averages *any* values of the same
    samples over similar forecasts. The averages of labels are the calibrated scores :math:`\hat C =
    \hat E[Y|S]`. Other values are forecasts, residuals and losses.

    To add one, implement `fit`, `smooth` and `predict`. If `smooth` uses the value of the sample
    itself, `smooth_held_out` is inherited: it refits on the other folds. Override it where leaving
    one sample out has a closed form.

    Attributes
    ----------
    projection : bool
        True where `smooth` replaces values by averages over cells: applying it twice changes
        nothing and the overall mean is kept.
    refinement : {"loss", "entropy"}
        How the refinement is computed from :math:`\hat C`: its mean loss on held-out labels, or its
        mean entropy (P24 eq. 15).

    See Also
    --------
    skcalib.testing.check_smoother : Checks the laws of smoothers.
    """

    projection = False
    refinement = "loss"

    def for_loss(self, score: ProperScore) -> Smoother:
        """The smoother for a score: itself, unless one of its options depends on the score."""
        return self

    def fit(
        self, forecast: np.ndarray, target: np.ndarray, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from forecasts (n, K) and target values (n, C); return self."""
        raise NotImplementedError

    def smooth(self, values: ArrayLike | None = None) -> np.ndarray:
        """Estimate of E[values | forecast] at the fitted forecasts, shape of `values`.

        Partitions are projections, kernels leave each sample out, cross-fitted smoothers are out
        of fold. None smooths the target given to `fit`.
        """
        raise NotImplementedError

    def predict(self, forecast: np.ndarray) -> np.ndarray:
        """Estimate of E[target | forecast] at new forecasts, shape (m, C)."""
        raise NotImplementedError

    def smooth_held_out(self, values: ArrayLike | None = None) -> np.ndarray:
        """As `smooth`, but each estimate leaves out the value of its own sample.

        The methods "risk" and "cross" of :func:`~skcalib.proper_calibration_error` use this
        estimate.
        """
        values = self._values(values)
        folds = check_folds(5, values, random_state=0)
        return cross_predict(self.forecast_, values, self.weight_, self._refit, folds)

    def _refit(self, forecast, values, weight, cluster=None):
        """The method `predict` of a clone that is fitted to other samples."""
        # Smoothers that choose anything by their number of samples count clusters (n,) instead.
        return clone(self).fit(forecast, values, weight).predict

    def _store(self, forecast, target, sample_weight):
        check_parameters_of(self)
        forecast = np.asarray(forecast, dtype=np.float64)
        self.forecast_ = merge_forecasts(forecast) if forecast.ndim == 2 else forecast
        self.target_ = np.asarray(target, dtype=np.float64)
        n_samples = len(self.forecast_)
        if self.target_.shape[:1] != (n_samples,) or self.forecast_.ndim != 2:
            raise ValueError(
                "forecast must have shape (n, K) and target as many rows; got "
                f"{self.forecast_.shape} and {self.target_.shape}."
            )
        weight = np.ones(n_samples) if sample_weight is None else sample_weight
        self.weight_ = np.asarray(weight, dtype=np.float64)
        if self.weight_.shape != (n_samples,) or not np.all(self.weight_ > 0):
            raise ValueError(
                f"sample_weight must be positive and have shape ({n_samples},): drop samples of "
                "weight zero."
            )

    def _values(self, values):
        check_is_fitted(self)
        if values is None:
            return self.target_
        values = np.asarray(values, dtype=np.float64)
        if len(values) != len(self.forecast_):
            raise ValueError(
                f"values must have one row per fitted forecast, {len(self.forecast_)}; got "
                f"{len(values)}."
            )
        return values


def free_columns(forecast):
    """The second of two columns, where the first is redundant; else all."""
    return forecast[:, 1:] if forecast.shape[1] == 2 else forecast


def sums_by_cell(cells, values):
    """Sums (G, C) of values (n, C) over the cells that are numbered (n,)."""
    return np.stack([np.bincount(cells, column) for column in values.T], axis=1)


def check_at_least_two(n_samples):
    """Raise for a single sample: leaving it out would leave none."""
    if n_samples < 2:
        raise ValueError(
            "At least 2 samples are needed: an estimate that leaves samples out has no data to "
            "learn from. Functions of the loss alone, such as root_brier_score and "
            "calibration_upper_bound, accept one sample."
        )


def cross_predict(forecast, values, weight, fit_one, folds, cluster=None):
    """Out-of-fold predictions by functions ``fit_one(forecast, values, weight)``, averaged.

    Where there are clusters (n,), these are the fourth argument.
    """
    flat = values.reshape(len(values), -1)
    rows = (flat, weight) if cluster is None else (flat, weight, cluster)
    predict = partial(_fit_predict, fit_one, forecast, rows)
    predicted, tested = out_of_fold(predict, folds, len(flat))
    if not tested.all():
        raise ValueError(
            f"cv leaves {int(np.sum(~tested))} samples without an out-of-fold prediction: use "
            "a splitter that tests every sample at least once, such as KFold."
        )
    return predicted.reshape(values.shape)


def _fit_predict(fit_one, forecast, rows, train, test):
    return fit_one(forecast[train], *(array[train] for array in rows))(forecast[test])


def smooth_other_clusters(smoother, forecast, values, weight, cluster):
    """Values (n, C) smoothed by clones that are fitted to other clusters, out of fold.

    Clusters are numbered (n,). The number of folds is that of the smoother, or five. Folds are not
    stratified: with labels in equal shares the other folds would tell the labels of a cluster.
    """
    cv = getattr(smoother, "cv", None)
    folds = check_folds(cv, 0 * values[:, :1], random_state=0, cluster=cluster)
    return cross_predict(forecast, values, weight, smoother._refit, folds, cluster)


def check_folds(cv, values, *, random_state, cluster=None):
    """`cv` -> list of (train, test); shuffled, and stratified by one-hot rows where possible.

    With numbers of clusters (n,), folds hold whole clusters; a splitter gets them as groups.
    """
    n_samples = len(values)
    check_at_least_two(n_samples)
    flat = values.reshape(n_samples, -1)
    labels = flat.argmax(axis=1)
    one_hot = flat.shape[1] > 1 and np.array_equal(flat, np.eye(flat.shape[1])[labels])
    placeholder = np.zeros(n_samples)
    cv = 5 if cv is None else cv
    if not isinstance(cv, (int, np.integer)):
        groups = () if cluster is None else (cluster,)
        return list(check_cv(cv).split(placeholder, labels if one_hot else None, *groups))
    if cv < 2:
        raise ValueError(f"cv must be at least 2 folds or a splitter, got {shown(cv)}.")
    counts = np.bincount(labels)
    if cluster is None:
        folds = min(int(cv), n_samples)
        kind = StratifiedKFold if one_hot and counts[counts > 0].min() >= folds else KFold
    else:
        folds = min(int(cv), len(np.unique(cluster)))
        kind = StratifiedGroupKFold if one_hot and counts.max() < n_samples else GroupKFold
    splitter = kind(folds, shuffle=True, random_state=random_state)
    with warnings.catch_warnings():  # a class may be in fewer clusters than there are folds
        warnings.filterwarnings("ignore", "The least populated class")
        return list(splitter.split(placeholder, labels, cluster))


# --- Out-of-fold smoothing ------------------------------------------------------------------------


class OutOfFoldSmoother(Smoother):
    """Base class: `smooth` predicts each sample with a model that was fitted on the other folds.

    To add one, implement ``_fit_one(forecast, target, weight)``, which returns a function from
    forecasts to estimates of the target. Constructors have the parameters ``cv`` and
    ``random_state``.
    """

    def fit(
        self, forecast: np.ndarray, target: np.ndarray, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Store forecasts (n, K) and target (n, C); models are fitted when they are needed."""
        self._store(forecast, target, sample_weight)
        self._check_target(self.target_)
        self._model: Any = None
        return self

    def smooth(self, values: ArrayLike | None = None) -> np.ndarray:
        """Out-of-fold predictions of `values`."""
        values = self._values(values)
        self._check_target(values)
        folds = check_folds(self.cv, values, random_state=self.random_state)
        return cross_predict(self.forecast_, values, self.weight_, self._fit_one, folds)

    def smooth_held_out(self, values: ArrayLike | None = None) -> np.ndarray:
        """Identical to `smooth`, which is out of fold."""
        return self.smooth(values)

    def predict(self, forecast: np.ndarray) -> np.ndarray:
        """Predictions of one model fitted on all samples."""
        check_is_fitted(self)
        if self._model is None:
            self._model = self._fit_one(self.forecast_, self.target_, self.weight_)
        return self._model(np.asarray(forecast, dtype=np.float64))

    def _fit_one(self, forecast, target, weight):
        raise NotImplementedError

    def _check_target(self, values):
        """Raise for targets that the model cannot learn; classifiers learn one-hot rows."""
        rows_are_labels = values.ndim == 2 and values.shape[1] >= 2
        if not (
            rows_are_labels
            and np.isin(values, (0.0, 1.0)).all()
            and np.array_equal(values.sum(axis=1), np.ones(len(values)))
        ):
            raise ValueError(
                f"{type(self).__name__} smooths one-hot labels of shape (n, C) only, because a "
                "classifier cannot be fitted to other values: use a partition or a kernel."
            )


class CrossFitted(OutOfFoldSmoother):
    """Out-of-fold probabilities of any scikit-learn classifier fitted on the forecasts.

    The classifier is fitted to the labels with the forecasts as features, so that its out-of-fold
    probabilities estimate E[Y|S]. Any classifier gives a valid lower bound with ``method="risk"``
    (Berta and others, arXiv:2602.24230, 2026), and a better classifier gives a tighter bound.

    Parameters
    ----------
    estimator : classifier with predict_proba
        Cloned for every fold, never fitted in place.
    cv : None, int or splitter, default=None
        Folds. None means five. A whole number gives shuffled folds, stratified by label if every
        class is frequent enough. The predictions of a repeated splitter are averaged.
    random_state : int, RandomState instance or None, default=0
        Seed of the folds of an integer `cv`.

    See Also
    --------
    skcalib.smoothers.LogitSmoother : The default of the errors.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from skcalib import proper_calibration_error
    >>> from skcalib.smoothers import CrossFitted
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> smoother = CrossFitted(HistGradientBoostingClassifier(max_depth=2, max_iter=30))
    >>> error = proper_calibration_error(data.y, data.y_proba, smoother=smoother, method="cross")
    >>> round(error, 3), round(data.truth["brier"], 3)
    (0.01, 0.006)
    """

    def __init__(
        self, estimator: BaseEstimator, cv: CV = None, random_state: RandomState = 0
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.random_state = random_state

    def _fit_one(self, forecast, target, weight):
        labels = target.argmax(axis=1)
        present = np.unique(labels)
        if len(present) == 1:  # nothing to learn; many classifiers do not accept a single class
            constant = np.eye(target.shape[1])[present[0]]
            return lambda new: np.tile(constant, (len(new), 1))
        model = clone(self.estimator)
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                f"CrossFitted needs a classifier with predict_proba, got {shown(self.estimator)}."
            )
        weighted = np.ptp(weight) > 0
        if weighted and not has_fit_parameter(model, "sample_weight"):
            raise ValueError(
                f"{type(model).__name__} does not take sample_weight, but the samples have "
                "different weights: choose another smoother or leave the weights out."
            )
        # Weights of mean 1: their scale must not change the effect of a penalty.
        weight = weights_of_mean_one(weight)
        model.fit(forecast, labels, **({"sample_weight": weight} if weighted else {}))

        def predict(new):
            proba = np.zeros((len(new), target.shape[1]))
            proba[:, model.classes_] = model.predict_proba(new)
            return proba

        return predict


_MANY_CLASSES = 20  # from which few samples per class give a warning


class LogitSmoother(OutOfFoldSmoother):
    r"""Cross-fitted average of recalibration maps, weighted by their evidence.

    Estimates :math:`E[Y|S] = \sum_m a_m\, softmax(\log S + \sum_j \theta_{mj} g_j(S))`. The maps m
    change slopes, shifts, slopes of single classes and curves of the logits; the identity is one of
    them. The weights a follow from the log evidence of each map (:ref:`averaged_maps`). The default
    of the proper calibration errors fits the same maps to all samples, and this smoother fits them
    on the other folds. :ref:`smoothers` states where it is used. In the method "risk" its estimates
    are a lower bound in expectation; the default is not.

    Half of the smallest positive probability of the training fold replaces forecasts of exactly 0.
    Logarithms below -87, the end of single precision, are compressed, as in `TemperatureScaling`.
    This affects the fitted maps only, not the forecasts under evaluation.

    With more than two classes and fewer than 20 samples for each, there are no maps of single
    classes. With 20 or more classes, `fit` then gives a warning.

    Parameters
    ----------
    cv : None, int or splitter, default=None
        Folds, as in `CrossFitted`; five by default.
    random_state : int, RandomState instance or None, default=0
        Shuffles the folds of an integer `cv`.

    See Also
    --------
    skcalib.recalibration.ModelAverageScaling : The same maps as a recalibrator.

    Examples
    --------
    >>> from skcalib import proper_calibration_error
    >>> from skcalib.smoothers import LogitSmoother
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> error = proper_calibration_error(data.y, data.y_proba, smoother=LogitSmoother())
    >>> round(error, 3), round(data.truth["brier"], 3)
    (0.007, 0.006)
    """

    def __init__(self, cv: CV = None, random_state: RandomState = 0) -> None:
        self.cv = cv
        self.random_state = random_state

    def fit(
        self, forecast: np.ndarray, target: np.ndarray, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Store forecasts (n, K) and target (n, C); models are fitted when they are needed."""
        super().fit(forecast, target, sample_weight)
        warn_few_per_class(*self.forecast_.shape)
        return self

    def _fit_one(self, forecast, target, weight, cluster=None):
        return averaged_map(forecast, target, weight, None, cluster)

    def _refit(self, forecast, values, weight, cluster=None):
        predict = super()._refit(forecast, values, weight)
        return predict if cluster is None else self._fit_one(forecast, values, weight, cluster)

    def _check_target(self, values):
        shares = values.ndim == 2 and values.shape[1] > 1 and values.min() >= 0
        if not (shares and np.allclose(values.sum(axis=1), 1, atol=ROW_SUM_TOLERANCE)):
            super()._check_target(values)
        if values.shape != self.forecast_.shape:
            raise ValueError(
                "LogitSmoother needs one forecast column per class; got forecasts of shape "
                f"{self.forecast_.shape} and a target of shape {values.shape}. For other "
                "representations use DirichletKernel or CrossFitted."
            )


def warn_few_per_class(n_samples: int, n_classes: int) -> None:
    """Warn if there are many classes and too few samples for maps of each."""
    if n_classes >= _MANY_CLASSES and n_samples < PER_CLASS * n_classes:
        warnings.warn(
            f"{n_samples} samples of {n_classes} classes are fewer than {PER_CLASS} per class: "
            "miscalibration that is common to all classes is detected, but not that of single "
            "classes. The error may be larger than the estimate: use more samples, or "
            "notion='top_label'.",
            UserWarning,
            stacklevel=3,
        )
