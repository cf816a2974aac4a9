"""Errors without bins, computed from one curve: cumulative sums of label - score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from skcalib._util.arithmetic import level_starts, top_class
from skcalib._util.formatting import Record
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label
from skcalib.data.notions import Classwise, NotionLike, resolve_notion, resolve_reduced
from skcalib.data.problem import SketchedSamples, read_samples

if TYPE_CHECKING:
    from skcalib.data.problem import LabelsLike

#: How the errors of classes are combined.
KS_REDUCTIONS = ("mean", "sum", "predicted")


@dataclass(frozen=True)
class CumulativeCurve(Record):
    """Signed cumulative differences, one entry per distinct score.

    Attributes
    ----------
    score : ndarray of shape (m,)
        Distinct scores in increasing order.
    share : ndarray of shape (m,)
        Share of the samples with at most this score.
    difference : ndarray of shape (m,)
        Sum of label - score over them, divided by the number of all samples. Increases where
        forecasts are too low, decreases where they are too high, and is constant where they are
        right on average.

    See Also
    --------
    skcalib.errors.cumulative_curve : Makes this record.
    skcalib.ks_calibration_error : The largest absolute difference.
    """

    score: np.ndarray
    share: np.ndarray
    difference: np.ndarray

    _rows = ("score", "share", "difference")


@checks_parameters
def ks_calibration_error(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    notion: NotionLike = "auto",
    reduce: Literal["mean", "sum", "predicted"] = "mean",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Kolmogorov-Smirnov calibration error: the largest cumulative difference.

    .. math::

        \max_t \Big| \frac1n \sum_i (y_i - s_i) 1\{s_i \le t\} \Big|

    over thresholds t of the score (Gupta et al. 2021). It needs neither bins nor a bandwidth.
    Samples with equal scores enter together, so the order of ties does not matter. It estimates
    :math:`\max_t |E[(E[Y|S] - S) 1\{S \le t\}]|`, which is at most the TCE: errors of alternating
    sign cancel. The estimate is biased upward. For calibrated forecasts the bias is nearly
    :math:`\sqrt{\pi / 2}\, \sqrt{E[S (1 - S)] / n}`, the mean of the largest distance of a Brownian
    motion from zero. The test is :func:`~skcalib.significance.cumulative_test`. For two classes the
    error depends on which one is positive, because the sums begin at the lowest score of that
    class.

    Parameters
    ----------
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"} or Notion, default="auto"
        As in :func:`~skcalib.calibration_error`.
    reduce : {"mean", "sum", "predicted"}, default="mean"
        For ``notion="classwise"``: the mean over classes, their sum, or that of the *predicted*
        class; for "cumulative" the mean or the sum over thresholds. "predicted" is :math:`\sum_k
        p_k\, KS_k` (G22, definition C.2), with the share :math:`p_k` of the samples for which class
        k is predicted and the error :math:`KS_k` of class k among these samples. It is at most the
        TCE of the predicted class with its confidence. G22 proves this with the condition C = k,
        which its definition leaves out; errors :math:`KS_k` of all samples may exceed the TCE.
    sample_weight : array-like of shape (n_samples,), optional
        Weights; whole numbers mean repetition.

    Returns
    -------
    float
        Between 0 and 1; a sum over classes may exceed 1. Cost O(n log n).

    Raises
    ------
    ValueError
        For invalid input, and for `reduce` without ``notion="classwise"``.

    See Also
    --------
    skcalib.errors.cumulative_curve : The curve of cumulative differences.

    Examples
    --------
    >>> from skcalib import ks_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> round(ks_calibration_error(data.y, data.y_proba), 3)
    0.112
    """
    rule = resolve_reduced(notion, reduce, KS_REDUCTIONS)
    samples = read_samples(y_true, y_proba, rule, sample_weight, labels, pos_label)
    if reduce == "predicted":
        if isinstance(samples, SketchedSamples):
            raise ValueError("A sketch has no predicted classes: pass labels and forecasts.")
        samples = samples.per(PredictedClass())
    largest = [float(np.abs(_curve(rows).difference).max()) for rows in samples.scored()]
    return sum(largest) / (len(largest) if samples.notion.reduce == "mean" else 1)


class PredictedClass(Classwise):
    """Each class, with score and label 0 where another class is predicted: no difference there."""

    def __init__(self) -> None:
        super().__init__("sum")

    def problems(
        self, forecast: np.ndarray, target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        top = top_class(forecast)[:, None] == np.arange(forecast.shape[1])
        for score, event in zip((forecast * top).T, (target * top).T, strict=True):
            yield np.column_stack([1 - score, score]), np.column_stack([1 - event, event])


@checks_parameters
def cumulative_curve(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    notion: NotionLike = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> list[CumulativeCurve]:
    """Cumulative differences between labels and scores, for each problem of a notion.

    Parameters
    ----------
    y_true, y_proba, notion, sample_weight, labels, pos_label
        As in :func:`~skcalib.ks_calibration_error`.

    Returns
    -------
    list of CumulativeCurve
        One curve for "auto", "top_label" and "canonical", one per class for "classwise" and one per
        threshold for "cumulative".

    See Also
    --------
    ks_calibration_error : The largest distance from zero.

    Examples
    --------
    >>> from skcalib.errors import cumulative_curve
    >>> curve, = cumulative_curve([0, 1, 1], [0.25, 0.25, 0.5], notion="canonical")
    >>> curve.score.tolist(), curve.difference.round(3).tolist()
    ([0.25, 0.5], [0.167, 0.333])
    """
    rule = resolve_notion(notion)
    samples = read_samples(y_true, y_proba, rule, sample_weight, labels, pos_label)
    return [_curve(rows) for rows in samples.scored()]


def _curve(rows):
    order = np.argsort(rows.score)
    score = rows.score[order]
    rise = rows.event[order] - score
    weight = None if rows.weight is None else rows.weight[order]
    if weight is not None:
        rise *= weight
    last = np.append(level_starts(score)[1:], len(score)) - 1  # ends of the ties
    reached = last + 1.0 if weight is None else np.cumsum(weight)[last]
    difference = np.cumsum(rise, out=rise)[last]
    return CumulativeCurve(score[last], reached / reached[-1], difference / reached[-1])
