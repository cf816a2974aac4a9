"""Errors without bins that are read off one curve: cumulative sums of label - score."""

from dataclasses import dataclass

import numpy as np

from skcalib._checks import check_problem
from skcalib.errors._terms import check_notion


@dataclass(frozen=True)
class CumulativeCurve:
    """Signed cumulative differences, one entry per distinct score.

    Attributes
    ----------
    score : ndarray of shape (m,)
        Distinct scores in increasing order.
    share : ndarray of shape (m,)
        Share of the samples with at most this score.
    difference : ndarray of shape (m,)
        Sum of label - score over them, divided by the number of all samples. Rises where forecasts
        are too low, falls where they are too high; straight where they are right on average.
    """

    score: np.ndarray
    share: np.ndarray
    difference: np.ndarray


def ks_calibration_error(
    y_true, y_proba, *, notion="top_label", sample_weight=None, labels=None, pos_label=None
):
    r"""Kolmogorov-Smirnov calibration error: the largest cumulative difference.

    .. math::

        \max_t \Big| \frac1n \sum_i (y_i - s_i) 1\{s_i \le t\} \Big|

    over thresholds t of the score (Gupta et al. 2021; G22). No bins, no bandwidth. Samples of
    equal score enter together, so the order of ties does not matter. It estimates
    :math:`\max_t |E[(E[Y|S] - S) 1\{S \le t\}]|`, which is at most the TCE: errors of alternating
    sign cancel. Biased upward by about :math:`1 / \sqrt n` for calibrated forecasts; the test is
    :func:`cumulative_test`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of any type.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class.
    notion : {"top_label", "classwise", "canonical"} or Notion, default="top_label"
        As in :func:`calibration_error`; the mean over classes for "classwise".
    sample_weight : array-like of shape (n_samples,), optional
        Weights; whole numbers mean repetition.
    labels : array-like of shape (n_classes,), optional
        The class of each column.
    pos_label : optional
        The positive class of a one-dimensional `y_proba`.

    Returns
    -------
    float
        Between 0 and 1. Cost O(n log n).

    See Also
    --------
    cumulative_curve : The curve whose largest distance from zero this is.
    cumulative_test : Is it more than chance?

    Examples
    --------
    >>> from skcalib import ks_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> round(ks_calibration_error(data.y, data.y_proba), 3)
    0.112
    """
    curves = cumulative_curve(
        y_true,
        y_proba,
        notion=notion,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )
    largest = [float(np.abs(curve.difference).max()) for curve in curves]
    return sum(largest) / (len(largest) if check_notion(notion).reduce == "mean" else 1)


def cumulative_curve(
    y_true, y_proba, *, notion="top_label", sample_weight=None, labels=None, pos_label=None
):
    """Cumulative differences between labels and scores, for each problem of a notion.

    Parameters
    ----------
    y_true, y_proba, notion, sample_weight, labels, pos_label
        As in :func:`ks_calibration_error`.

    Returns
    -------
    list of CumulativeCurve
        One for "top_label" and "canonical", one per class for "classwise".

    See Also
    --------
    ks_calibration_error : The largest distance from zero.

    Examples
    --------
    >>> from skcalib import cumulative_curve
    >>> curve, = cumulative_curve([0, 1, 1], [0.25, 0.25, 0.5], notion="canonical")
    >>> curve.score.tolist(), curve.difference.round(3).tolist()
    ([0.25, 0.5], [0.167, 0.333])
    """
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    notion = check_notion(notion)
    curves = []
    for forecast, target in notion.problems(problem.forecast, problem.target):
        if forecast.shape[1] != 2:
            raise ValueError(
                f"A cumulative curve needs one score, and {notion!r} gives {forecast.shape[1]} "
                "columns: use notion='top_label' or 'classwise'."
            )
        score, first = np.unique(forecast[:, 1], return_inverse=True)
        mass = np.bincount(first, problem.weight)
        rise = np.bincount(first, problem.weight * (target[:, 1] - forecast[:, 1]))
        total = mass.sum()
        curves.append(CumulativeCurve(score, np.cumsum(mass) / total, np.cumsum(rise) / total))
    return curves
