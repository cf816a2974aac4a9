"""Improvement by a correction with features, and the grouping loss before and after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skcalib._util.formatting import nonnegative_text, pvalue_text
from skcalib._util.parameters import checks_parameters
from skcalib._util.records import Record
from skcalib._util.types import ArrayLike, Label, MatrixLike, RandomState
from skcalib._util.validation import check_indices, weighted_features
from skcalib.data.features import encode_features
from skcalib.data.notions import Canonical
from skcalib.data.problem import check_problem
from skcalib.grouping.estimator import GroupingLossEstimator
from skcalib.recalibration import CalibrationImprovement
from skcalib.recalibration.fitting import recalibrated_proba
from skcalib.recalibration.held_out import check_after, improvement_of_forecasts, is_fitted_map
from skcalib.scores import LossLike, resolve_loss
from skcalib.stats.means import MeanInterval


@dataclass(frozen=True)
class GroupingImprovement(Record):
    """Result of :func:`~skcalib.grouping.grouping_improvement`.

    `to_frame` has two rows, before and after, with the columns ``forecast`` ("before" or "after"),
    ``loss``, ``grouping_loss``, with ``_low`` and ``_high``, and ``pvalue``.

    Attributes
    ----------
    gain : CalibrationImprovement
        Mean loss before minus after, with interval and p-value.
    grouping_before, grouping_after : MeanInterval
        Lower bounds of the grouping loss.
    pvalue_before, pvalue_after : float
        p-values of the hypothesis that there is no grouping loss.

    See Also
    --------
    skcalib.grouping.grouping_improvement : Makes this record.
    """

    gain: CalibrationImprovement
    grouping_before: MeanInterval
    grouping_after: MeanInterval
    pvalue_before: float
    pvalue_after: float

    _beside = ("gain",)
    _intervals = ("grouping_loss",)

    def _columns(self):
        return {
            "forecast": ["before", "after"],
            "loss": [self.gain.loss_before, self.gain.loss_after],
            "grouping_loss": [self.grouping_before, self.grouping_after],
            "pvalue": [self.pvalue_before, self.pvalue_after],
        }

    def __str__(self) -> str:
        lines = [f"gain                  {self.gain}"]
        for name, bound, pvalue in (
            ("before", self.grouping_before, self.pvalue_before),
            ("after", self.grouping_after, self.pvalue_after),
        ):
            text = f"{nonnegative_text(bound)} ({pvalue_text(pvalue)})"
            lines.append(f"grouping loss {name:<7} {text}")
        return "\n".join(lines)


@checks_parameters
def grouping_improvement(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike | BaseEstimator,
    X: MatrixLike | ArrayLike,
    *,
    loss: LossLike = "brier",
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
) -> GroupingImprovement:
    r"""Improvement by a correction that uses features, and the grouping loss before and after it.

    The samples must be new: used for neither the classifier nor the correction. The gain is the
    mean paired difference of the losses, as in :func:`~skcalib.calibration_improvement`. For both
    forecasts the function also estimates the lower bound of the grouping loss of
    :class:`~skcalib.GroupingLossEstimator`, with its p-value.

    The gain is the total decrease of the calibration error and the grouping loss, because both
    forecasts have the same irreducible loss. It is :math:`E\,D(Q, S) - E\,D(Q, S')` with :math:`Q =
    E[Y|X]`, for any correction that depends on the score and X alone.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out samples.
    before : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probabilities without the correction.
    after : array-like of the same kind, or fitted recalibrator
        Probabilities with it; or the recalibrator, which is applied to `before` and, if it takes
        features, to X.
    X : array-like of shape (n_samples, n_features) or (n_samples,)
        Features (:ref:`features`), or the group of each sample. The regions are then the groups.
    random_state : int, RandomState instance or None, default=0
        Folds and models, or permutations of groups; an integer compares both forecasts on the same.

    Returns
    -------
    GroupingImprovement
        Record with ``gain, grouping_before, grouping_after, pvalue_before, pvalue_after``, a text
        and `to_frame`.

    Raises
    ------
    ValueError
        For invalid input, and for too few samples.
    NotFittedError
        If `after` is a recalibrator that is not fitted.

    See Also
    --------
    skcalib.GroupRecalibrator : The correction.
    skcalib.calibration_improvement : The same gain, for a recalibration that uses the score alone.

    Examples
    --------
    >>> from skcalib import GroupRecalibrator
    >>> from skcalib.datasets import make_grouping_problem
    >>> from skcalib.grouping import grouping_improvement
    >>> data = make_grouping_problem(10_000, random_state=0)
    >>> P, y, X = data.y_proba, data.y, data.X
    >>> correction = GroupRecalibrator().fit(P[:5000], y[:5000], features=X[:5000])
    >>> found = grouping_improvement(y[5000:], P[5000:], correction, X[5000:])
    >>> found.gain.low > 0, found.grouping_after.estimate < 0.5 * found.grouping_before.estimate
    (True, True)
    """
    rows = {"before": before, "X": X, "sample_weight": sample_weight}
    is_recalibrator = is_fitted_map(after)
    check_indices(y_true=y_true, **rows, after=after)
    score = resolve_loss(loss)
    names: dict[str, Any] = {"labels": labels, "pos_label": pos_label}
    problem = check_problem(y_true, before, sample_weight=sample_weight, name="before", **names)
    problem.require_order(Canonical(), score)
    groups = np.ndim(X) == 1
    X = weighted_features(X, sample_weight, np.shape(y_true)[0])
    if is_recalibrator:
        corrected = recalibrated_proba(after, problem.forecast, problem.classes, X)
    else:
        corrected = check_after(after, y_true, problem, sample_weight, names)
    gain = improvement_of_forecasts(
        score, problem, corrected, confidence_level, None, name="grouping_improvement"
    )
    features = np.zeros((len(X), 1)) if groups else encode_features(X)
    bounds, pvalues = [], []
    for forecast in (problem.forecast, corrected):
        found = GroupingLossEstimator(
            loss=score,
            labels=problem.classes,
            confidence_level=confidence_level,
            n_jobs=n_jobs,
            random_state=random_state,
        ).fit(
            features,
            problem.labels,
            problem.weight,
            y_proba=forecast,
            regions=X if groups else None,
        )
        low, high = found.confidence_interval_
        bounds.append(MeanInterval(found.grouping_loss_, low, high, found.standard_error_))
        pvalues.append(found.pvalue_)
    return GroupingImprovement(gain, bounds[0], bounds[1], pvalues[0], pvalues[1])
