"""Improvement of a proper score by a recalibration, on held-out data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import BaseEstimator

from skcalib._util.formatting import pvalue_text, record_text
from skcalib._util.parameters import checks_parameters
from skcalib._util.records import Record
from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import check_indices
from skcalib.data.clusters import independent_size, outside_level
from skcalib.data.notions import Canonical
from skcalib.data.problem import Problem, check_problem
from skcalib.recalibration._base import (
    check_fitted_recalibrator,
    is_injective,
    recalibrated_proba,
    steps_of,
    takes_features,
)
from skcalib.scores import LossLike, ProperScore, resolve_loss, weighted_mean
from skcalib.stats.means import (
    between_forecasts,
    has_few_labels,
    interval_pvalue,
    mean_interval,
    mean_loss_interval,
)


@dataclass(frozen=True)
class CalibrationImprovement(Record):
    """Result of :func:`~skcalib.calibration_improvement`.

    Attributes
    ----------
    estimate : float
        Mean loss before minus mean loss after; positive if the map helps.
    low, high : float
        Confidence interval.
    standard_error : float
        Standard error of the estimate.
    pvalue : float
        Two-sided p-value of no improvement.
    loss_before, loss_after : float
        The two mean losses.
    injective : bool or None
        Whether the map is injective, as far as it is known.

    See Also
    --------
    skcalib.calibration_improvement : Makes this record.
    """

    estimate: float
    low: float
    high: float
    standard_error: float
    pvalue: float
    loss_before: float
    loss_after: float
    injective: bool | None

    def __str__(self) -> str:
        losses = f"loss {self.loss_before:.3g} before, {self.loss_after:.3g} after"
        return f"{record_text(self)} ({pvalue_text(self.pvalue)}; {losses})"


@checks_parameters
def calibration_improvement(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike | BaseEstimator,
    *,
    loss: LossLike = "brier",
    confidence_level: float = 0.95,
    injective: bool | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
) -> CalibrationImprovement:
    r"""Improvement of a proper score by a recalibration, with interval and p-value.

    On data that were used to fit neither the classifier nor the map, the mean paired difference

    .. math:: \Delta = \frac{\sum_i w_i d_i}{\sum_i w_i} , \qquad
        d_i = L(y_i, s_i) - L(y_i, g(s_i)) ,

    has a Student interval, and a two-sided p-value of :math:`E\,d = 0`,
    :math:`2 P(t_{m-1} > |\Delta| / se)`, where m is the effective number of samples: below 0.05
    exactly where the 95 % interval excludes 0.

    For an *injective* map, which keeps all information in s, the improvement of the proper score
    **is** the improvement of the calibration error (G22), so no calibration error has to be
    estimated (:ref:`recalibration`). For every other map it is a lower bound of it.

    The interval accounts for the sampling of the held-out data, not for the training of the map.
    On the data that the map was fitted to, the estimate is optimistic.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out data.
    before : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probabilities without the map.
    after : array-like of the same kind, or fitted recalibrator
        Probabilities with the map. Or the map itself, or a Pipeline of maps: it is applied to
        `before`, and declares whether it is injective (``injective_``).
    injective : bool, default=None
        Whether different forecasts remain different. None uses the recalibrator's declaration.
    labels : array-like of shape (n_classes,), default=None
        The class of each column; needed where `y_true` may lack a class. By default those of the
        recalibrator, if `after` is one.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient, by any labels: differences
        are added by cluster before they are squared, and m is the effective number of clusters
        (:ref:`clusters`).

    Returns
    -------
    CalibrationImprovement
        The improvement. Under the log loss, a label may have probability 0 before the map and not
        after it: estimate and interval are then infinite, and the p-value is 0. The reverse case
        gives minus infinity.

    Raises
    ------
    ValueError
        For invalid input, for fewer than four samples, and if there are infinite losses both before
        and after, whose difference is undefined.
    NotFittedError
        If `after` is a recalibrator that is not fitted.

    Warns
    -----
    UserWarning
        Unless the map is known to be injective: then the estimate is a lower bound of the
        improvement of the calibration error.

    See Also
    --------
    RecalibratedClassifierCV : Train the map, with an option to choose it automatically.
    proper_calibration_error : What further recalibration could gain at most.

    Examples
    --------
    >>> from skcalib import TemperatureScaling, calibration_improvement
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(4000, 3, random_state=0)
    >>> P, y = data.y_proba, data.y
    >>> temperature = TemperatureScaling().fit(P[:2000], y[:2000])
    >>> gain = calibration_improvement(y[2000:], P[2000:], temperature, loss="log")
    >>> gain.low > 0 and gain.injective
    True
    """
    score = resolve_loss(loss)
    is_recalibrator = is_fitted_map(after)
    if is_recalibrator:
        labels = getattr(after, "classes_", None) if labels is None else labels
        injective = is_injective(after) if injective is None else injective
    names: dict[str, Any] = {"labels": labels, "pos_label": pos_label}
    rows: dict[str, Any] = {"sample_weight": sample_weight, "groups": groups}
    problem = check_problem(y_true, before, name="before", **rows, **names)
    problem.require_order(Canonical(), score)
    if is_recalibrator:
        recalibrated = _apply(after, problem)
    else:
        check_indices(before=before, after=after)
        recalibrated = check_after(after, y_true, problem, sample_weight, names)
    found = improvement_of_forecasts(
        score, problem, recalibrated, confidence_level, injective, name="calibration_improvement"
    )
    if injective is not True:
        _warn(injective)
    return found


def improvement_of_forecasts(
    score: ProperScore,
    problem: Problem,
    after: np.ndarray,
    confidence_level: float,
    injective: bool | None,
    *,
    name: str,
) -> CalibrationImprovement:
    """The record of forecasts `after` (n, K) in place of those of a problem."""
    before, weight, cluster = problem.forecast, problem.weight, problem.cluster
    found = improvement_of_losses(
        score.loss(problem.target, before),
        score.loss(problem.target, after),
        weight,
        confidence_level,
        injective,
        name=name,
        cluster=cluster,
    )
    between = between_forecasts(before, after)
    few = has_few_labels(between, problem.target, weight)
    if not (few and np.isfinite([found.estimate, found.standard_error]).all()):
        return found
    interval = mean_loss_interval(
        lambda target: score.loss(target, before) - score.loss(target, after),
        between,
        problem.target,
        confidence_level,
        weight=weight,
        cluster=cluster,
    )
    if interval.standard_error == 0:  # the same difference for every label
        return found
    pvalue = interval_pvalue(interval, confidence_level)
    return replace(found, **vars(interval), pvalue=pvalue)


def improvement_of_losses(
    before: np.ndarray,
    after: np.ndarray,
    weight: np.ndarray,
    confidence_level: float,
    injective: bool | None,
    *,
    name: str,
    cluster: np.ndarray | None = None,
) -> CalibrationImprovement:
    """The record of paired losses (n,) with positive weights; `name` is the caller's name.

    `cluster` (n,) are the numbers of the clusters of dependent samples.
    """
    if len(weight) < 4:
        raise ValueError(
            f"{name} needs at least 4 samples of positive weight, got {len(weight)}: fewer give "
            "no usable standard error."
        )
    difference = _difference(before, after)
    interval = mean_interval(difference, weight, confidence_level, cluster=cluster)
    return CalibrationImprovement(
        **vars(interval),
        pvalue=_pvalue(interval, independent_size(weight, cluster=cluster) - 1),
        loss_before=float(weighted_mean(before, weight)),
        loss_after=float(weighted_mean(after, weight)),
        injective=injective,
    )


def is_fitted_map(after: Any) -> bool:
    """Whether `after` is a recalibrator and no array; raises if it cannot be applied."""
    if not (isinstance(after, type) or hasattr(after, "fit") or hasattr(after, "predict_proba")):
        return False
    crossed = (
        ", or pass its out-of-fold probabilities as after, "
        "cross_val_predict(recalibrator, before, y_true, cv=5, method='predict_proba')"
    )
    check_fitted_recalibrator(
        after,
        features="pass its probabilities as after, model.predict_proba(X)",
        unfitted="" if takes_features(after) else crossed,
    )
    name = type(after).__name__
    if getattr(steps_of(after)[0], "input", "proba") == "logits":
        raise ValueError(
            f"This {name} takes logits, but before are probabilities: pass its probabilities as "
            "after, recalibrator.predict_proba(logits)."
        )
    if getattr(after, "_labels_of_columns", "classes_") != "classes_":
        raise ValueError(
            f"This {name} maps the probabilities of several labels, and before are those of "
            "classes: pass each label and its map, recalibrator.recalibrators_[k], on its own."
        )
    return True


def _apply(recalibrator, problem):
    known = getattr(recalibrator, "classes_", problem.classes)
    if not np.array_equal(known, problem.classes):
        raise ValueError(
            f"The recalibrator was fitted to columns of the classes {np.asarray(known).tolist()}, "
            f"but those of before are {problem.classes.tolist()}."
        )
    return recalibrated_proba(recalibrator, problem.forecast, problem.classes)


def check_after(
    after: ArrayLike,
    y_true: ArrayLike,
    problem: Problem,
    sample_weight: ArrayLike | None,
    names: dict[str, Any],
) -> np.ndarray:
    """Validated probabilities `after`, one column for each class of the `problem` before."""
    other = check_problem(y_true, after, sample_weight=sample_weight, name="after", **names)
    if other.forecast.shape != problem.forecast.shape:
        raise ValueError(
            f"before and after must be of the same classes, but have {len(problem.classes)} and "
            f"{len(other.classes)} columns."
        )
    if not np.array_equal(other.classes, problem.classes):  # one column and two columns
        return other.forecast[:, ::-1]
    return other.forecast


def _difference(before, after):
    """Paired differences; infinite in one direction at most."""
    lost, gained = np.isinf(after), np.isinf(before)
    if lost.any() and gained.any():
        raise ValueError(
            f"The losses are infinite for {np.sum(gained)} samples before and {np.sum(lost)} "
            "after, because labels of probability 0 occurred, and inf - inf is undefined: use "
            "loss='brier', or probabilities that are all positive."
        )
    return before - after


def _warn(injective):
    what, advice = "is not", ""
    if injective is None:
        what = "may not be"
        advice = " Pass the fitted recalibrator as after, or injective=True if you know that it is."
    warnings.warn(
        f"The map from before to after {what} injective, so the improvement of the score is a "
        f"lower bound of the improvement of the calibration error.{advice}",
        UserWarning,
        stacklevel=outside_level(),
    )


def _pvalue(interval, degrees):
    """Two-sided, consistent with the interval."""
    if interval.estimate == 0 or np.isinf(interval.standard_error):
        return 1.0
    if interval.standard_error == 0:  # the same difference everywhere, or an infinite one
        return 0.0
    return float(2 * student.sf(abs(interval.estimate) / interval.standard_error, degrees))
