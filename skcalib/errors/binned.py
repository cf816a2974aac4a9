"""The binned calibration errors: ECE and its relatives."""

from dataclasses import dataclass

import numpy as np

from skcalib._arguments import check_notion
from skcalib.errors._bins import bin_sums, check_bins, quantile_edges, sum_chunks
from skcalib.notions import Classwise, check_events

NORMS = {"l1": 1, "l2": 2, "max": None}  # the power of a gap


@dataclass(frozen=True)
class ReliabilityBins:
    """What a reliability diagram draws, one entry per bin that holds samples.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Edges of all bins, empty ones included: bin i is (edges[i], edges[i + 1]], the first with 0.
        Two edges of 0 begin where zeros have a bin of their own.
    index : ndarray of shape (m,)
        Numbers of the bins that hold samples.
    mass : ndarray of shape (m,)
        Sum of the weights, the number of samples where there are none.
    mean_score, mean_label : ndarray of shape (m,)
        Mean forecast and frequency of the event.
    gap_variance : ndarray of shape (m,)
        Estimated variance of ``gap``; infinite for a sample that is alone.
    gap : ndarray of shape (m,)
        ``mean_label - mean_score``: positive where forecasts are too low.
    """

    edges: np.ndarray
    index: np.ndarray
    mass: np.ndarray
    mean_score: np.ndarray
    mean_label: np.ndarray
    gap_variance: np.ndarray

    @property
    def gap(self):
        """Signed miscalibration of each bin."""
        return self.mean_label - self.mean_score


def calibration_error(
    y_true,
    y_proba,
    *,
    norm="l1",
    squared=False,
    notion="top_label",
    n_bins="auto",
    strategy="quantile",
    debiased=False,
    reduce="mean",
    sample_weight=None,
    labels=None,
    pos_label=None,
):
    r"""Binned calibration error: the ECE and its relatives.

    With bins :math:`I_b` of the score s (the confidence, or the probability of a class), their
    share :math:`p_b` of the samples, mean score :math:`\bar s_b` and frequency of the event
    :math:`\bar y_b`,

    .. math::

        \Big( \sum_b p_b |\bar y_b - \bar s_b|^p \Big)^{1/p}

    with p = 1 ("l1"), 2 ("l2"), or the largest gap ("max"). It estimates the distance of
    :math:`E[Y|S_B]` from :math:`S_B = E[S|B]`, the forecast averaged in its bin, which is at most
    the true calibration error (TCE). **Biased upward**, most for calibrated forecasts and many
    bins; :func:`ece_bias_bound` bounds the bias, ``debiased=True`` removes it for squared errors,
    and :func:`proper_calibration_error` needs no bins.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of any type.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class.
    norm : {"l1", "l2", "max"}, default="l1"
        How gaps are averaged.
    squared : bool, default=False
        Leave the root of "l2" out. Refused for the other norms.
    notion : {"top_label", "classwise", "canonical"} or Notion, default="top_label"
        "top_label": confidence against being right. "classwise": each class against the rest;
        the power p is averaged over classes before the root is taken, and "max" is the largest gap
        of all. "canonical" is the probability of the positive class, for two classes only; F24 and
        scikit-learn's pending binary function mean this one.
    n_bins : "auto", int or array-like of edges, default="auto"
        "auto" is :func:`optimal_n_bins`, the number that minimises F24's bound of the bias. An
        array lists the edges from 0 to 1.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass, cut at order statistics so that ties stay together, or of equal width.
    debiased : bool, default=False
        Subtract from each squared gap the estimated variance of the mean *residual* in the bin,
        :math:`\widehat{var}_b(Y - S) / n_b` (K19 subtract the variance of the label, which is exact
        only where the forecast is constant in the bin). Only for "l2": for the other norms no
        unbiased correction is known. A sample that is alone in its bin has no variance: its bin
        counts as zero, in the gap and in the correction. The square may be negative, which keeps
        its mean right; the root of a negative estimate is 0, so average squares, not roots.
    reduce : {"mean", "sum"}, default="mean"
        Of the classes, for ``notion="classwise"``; a notion that is an object brings its own.
    sample_weight : array-like of shape (n_samples,), optional
        Weights, which average: their scale does not matter, and they move neither the edges of
        equal mass nor "auto". Between given or uniform edges whole numbers mean repetition, except
        in the debiasing.
    labels : array-like of shape (n_classes,), optional
        The class of each column.
    pos_label : optional
        The positive class of a one-dimensional `y_proba`.

    Returns
    -------
    float
        The error, in units of probability, or squared. Between 0 and 1, except for ``reduce="sum"``
        and a debiased square, which may be negative.

    Raises
    ------
    ValueError
        For invalid input; for `debiased` or `squared` without "l2", `reduce` without "classwise",
        "canonical" with more than two classes; if no bin holds the two samples that debiasing
        needs.

    See Also
    --------
    reliability_bins : The bins themselves.
    simplex_calibration_error : Bins of the whole simplex.
    proper_calibration_error : Without bins, with a truth that it converges to.

    Notes
    -----
    The names of the literature are recipes:

    =======  ===================================================================================
    ECE      ``strategy="uniform", n_bins=15``; of equal mass with ``strategy="quantile"``
    MCE      ``norm="max", strategy="uniform", n_bins=15``
    ACE      ``notion="classwise", strategy="quantile", n_bins=15``
    RMSCE    ``norm="l2", strategy="quantile"``
    TCE_p    ``norm="l1"`` or ``"l2"``, of the top label (G22, binned)
    CWCE_p   ``norm="l1"`` or ``"l2"``, ``notion="classwise"``; with ``reduce="sum"`` G22's
    F24      ``notion="canonical"``, the probability of the positive class
    =======  ===================================================================================

    For two classes "top_label" and "canonical" differ: the first folds the forecasts at 1/2.
    Bins are right-closed, ((i-1)/B, i/B]; zero belongs to the first and one to the last; empty
    bins count nothing. Of every C_B that bins can see, :math:`ECE \le RMSCE \le MCE`. Cost: O(n K)
    for uniform bins and given edges, which keep nothing in memory; a partition of the scores for
    quantile bins.

    Examples
    --------
    >>> from skcalib import calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> round(calibration_error(data.y, data.y_proba, strategy="uniform", n_bins=15), 3)
    0.115
    >>> round(calibration_error(data.y, data.y_proba, norm="l2", debiased=True), 3)
    0.121
    """
    check_options(norm, squared, debiased)
    events = check_events(
        y_true,
        y_proba,
        _check_reduced(notion, reduce),
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )
    sums = list_bins(events, n_bins, strategy, spread=debiased)
    return error_of_bins(sums, events.notion, norm=norm, squared=squared, debiased=debiased)


def error_of_bins(sums, notion, *, norm, squared, debiased):
    """The error that `BinSums` of each problem of a notion hold."""
    powers = [_power(one, norm, debiased) for one in sums]
    if norm == "max":
        return max(powers)
    power = sum(powers) / (len(powers) if notion.reduce == "mean" else 1)
    return power if norm == "l1" or squared else float(np.sqrt(max(power, 0.0)))


def _power(sums, norm, debiased):
    """Mean power of the gaps of one problem, or the largest gap."""
    occupied = sums.mass > 0
    mass = sums.mass[occupied]
    gap = np.abs(sums.label - sums.score)[occupied] / mass
    if norm == "max":
        return float(gap.max())
    power = gap ** NORMS[norm]
    if debiased:
        variance = sums.mean_variance()[occupied]
        several = np.isfinite(variance)
        if not several.any():
            raise ValueError("debiased=True needs bins of at least two samples: use fewer bins.")
        power = np.where(several, power - np.where(several, variance, 0.0), 0.0)
    return float(mass @ power / mass.sum())


def reliability_bins(
    y_true,
    y_proba,
    *,
    notion="top_label",
    n_bins="auto",
    strategy="quantile",
    sample_weight=None,
    labels=None,
    pos_label=None,
):
    """Mean score, frequency and mass of each bin, for each problem of a notion.

    Parameters
    ----------
    y_true, y_proba, notion, n_bins, strategy, sample_weight, labels, pos_label
        As in :func:`calibration_error`.

    Returns
    -------
    list of ReliabilityBins
        One record for "top_label" and "canonical", one per class for "classwise".

    See Also
    --------
    calibration_error : The mean gap.

    Examples
    --------
    >>> from skcalib import reliability_bins
    >>> bins, = reliability_bins([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.9], n_bins=2, notion="canonical")
    >>> bins.edges.tolist(), bins.mean_score.round(2).tolist(), bins.mean_label.tolist()
    ([0.0, 0.4, 1.0], [0.3, 0.75], [0.5, 1.0])
    """
    events = check_events(
        y_true,
        y_proba,
        check_notion(notion),
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
    )
    return [record_of_bins(one, events.scale) for one in list_bins(events, n_bins, strategy)]


def record_of_bins(sums, scale):
    """The occupied bins of `BinSums` of weights that were divided by `scale`."""
    index = np.flatnonzero(sums.mass > 0)
    mass = sums.mass[index]
    means = (sums.score[index] / mass, sums.label[index] / mass, sums.mean_variance()[index])
    return ReliabilityBins(sums.edges, index, scale * mass, *means)


def list_bins(events, n_bins, strategy, *, spread=True):
    """`BinSums` of each problem of `Events`, of weights divided by their scale."""
    edges = check_bins(n_bins, strategy, events.n_samples)
    if not isinstance(edges, int):  # known beforehand: one pass, and nothing is kept
        return sum_chunks(events.chunks(4 * len(edges) * events.n_classes), edges, spread=spread)
    score, event, weight = events.columns()
    return [
        bin_sums(s, e, weight, quantile_edges(s, edges), spread=spread)
        for s, e in zip(score, event, strict=True)
    ]


def _check_reduced(notion, reduce):
    """A notion that knows how its problems become one number."""
    if isinstance(notion, str) and notion == "classwise":
        return Classwise(reduce)
    if reduce != "mean":
        raise ValueError(
            f"reduce is for notion='classwise', where it is 'mean' or 'sum'; got reduce={reduce!r} "
            f"with notion={notion!r}."
        )
    return check_notion(notion)


def check_options(norm, squared, debiased):
    """Refuse what no norm, root or debiasing can do."""
    if not isinstance(norm, str) or norm not in NORMS:
        raise ValueError(f"norm must be 'l1', 'l2' or 'max', got {norm!r}.")
    if squared and norm != "l2":
        raise ValueError(f"squared=True leaves out the root of norm='l2'; {norm!r} has none.")
    if debiased and norm != "l2":
        raise ValueError(
            f"debiased=True needs norm='l2': for {norm!r} no unbiased correction is known, because "
            "the absolute value bends at zero. Use norm='l2', or proper_calibration_error."
        )
