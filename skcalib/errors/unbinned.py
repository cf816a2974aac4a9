"""Errors of one score without bins: by cumulative sums, smoothed residuals, and kernel densities.

`cumulative_curve` adds up label - score in the order of the scores, and `ks_calibration_error` is
the largest of these differences. `smooth_calibration_error` smooths the residuals, by cosine
series, and finds the bandwidth that equals the error. `kde_calibration_error` compares the density
of the scores with that of the scores of events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.fft import dct, irfft, next_fast_len, rfft
from scipy.optimize import brentq

from skcalib._util.arithmetic import level_starts, top_class
from skcalib._util.formatting import Record
from skcalib._util.messages import is_finite, shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label
from skcalib.data.clusters import effective_size
from skcalib.data.notions import Classwise, NotionLike, resolve_notion, resolve_reduced
from skcalib.data.problem import SketchedSamples, read_samples
from skcalib.errors.binned import resolve_norm
from skcalib.scores import weighted_mean

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
    samples = read_samples(
        y_true, y_proba, resolve_notion(notion), sample_weight, labels, pos_label
    )
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


# --- Smoothed residuals ---------------------------------------------------------------------------


@checks_parameters
def smooth_calibration_error(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    bandwidth: float | None = None,
    notion: NotionLike = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Smooth ECE: the mean absolute kernel-smoothed residual (Błasiok and Nakkiran 2024).

    With the score s and the event y,

    .. math::

        \operatorname{smECE}_\sigma = \int_0^1 \Big| \frac1n \sum_i (y_i - s_i) K_\sigma(t, s_i)
        \Big|\, dt ,

    where :math:`K_\sigma` is the Gaussian kernel of standard deviation :math:`\sigma`, reflected at
    0 and 1 as often as needed, so that it integrates to 1. The integral decreases as :math:`\sigma`
    increases. By default the bandwidth is the one that equals the error,
    :math:`\operatorname{smECE}_\sigma = \sigma`. There are no bins and no parameters. The error is
    continuous in the forecasts: unlike the ECE, it changes little if the forecasts change little.
    It is within constant factors, up to squares, of the least mean distance to a calibrated
    forecast [1]_.

    **Biased upward** by noise: for a calibrated forecast it is about :math:`(0.42\, I)^{2/3}
    n^{-1/3}` with :math:`I = \int_0^1 \sqrt{t (1 - t) f(t)}\, dt` and the density f of the scores,
    which is :math:`.30\, n^{-1/3}` for uniform scores. Smoothing cancels errors of opposite sign
    that are less than about a bandwidth apart.

    Parameters
    ----------
    bandwidth : float, default=None
        The standard deviation :math:`\sigma` of the kernel, from .0001 to 1; None for the bandwidth
        that equals the error.
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"} or Notion, default="auto"
        As in :func:`~skcalib.calibration_error`: by default the probability of the positive class
        for two classes, the top label for more. For "classwise" each class has its own bandwidth.
    sample_weight : array-like of shape (n_samples,), optional
        Weights; whole numbers mean repetition.

    Returns
    -------
    float
        The error, in units of probability, and by default the bandwidth as well. Between 0 and 1,
        except for a notion that sums over classes.

    Raises
    ------
    ValueError
        For invalid input, a `bandwidth` outside [.0001, 1], and a notion with more than one score
        at a time.

    See Also
    --------
    skcalib.errors.kde_calibration_error : The mean absolute residual without cancellation.
    ks_calibration_error : The largest cumulative difference, also without a parameter.

    Notes
    -----
    One cosine transform of the residuals gives all bandwidths. Each score is divided linearly
    between the two nearest nodes of a grid of width :math:`2^{-17}`. Cost O(n) for each score, and
    about twenty transforms of at most 131,073 nodes. :ref:`smoothed_errors` has the numerical
    errors, and the differences from the package relplot [2]_.

    References
    ----------
    .. [1] J. Błasiok and P. Nakkiran. Smooth ECE: Principled reliability diagrams via kernel
       smoothing. ICLR 2024.
    .. [2] https://github.com/apple/ml-calibration

    Examples
    --------
    >>> from skcalib import smooth_calibration_error
    >>> from skcalib.datasets import make_logistic_scores
    >>> data = make_logistic_scores(5000, random_state=0)
    >>> round(smooth_calibration_error(data.y, data.y_proba), 3), round(data.truth["tce"], 3)
    (0.073, 0.074)
    """
    if bandwidth is not None and not (is_finite(bandwidth) and _LEAST_BANDWIDTH <= bandwidth <= 1):
        raise ValueError(
            f"bandwidth must be None or a number from {_LEAST_BANDWIDTH:g} to 1, got "
            f"{shown(bandwidth)}."
        )
    samples = read_samples(
        y_true, y_proba, resolve_notion(notion), sample_weight, labels, pos_label
    )
    errors = [_smooth_error(rows, bandwidth) for rows in samples.scored()]
    return float(sum(errors) / (len(errors) if samples.notion.reduce == "mean" else 1))


_LEAST_BANDWIDTH = 1e-4  # bandwidth that may be asked for


_NODES = 1 << 17  # steps of the grid on [0, 1]
_STEPS_OF_INTEGRAL, _FEWEST = 64, 4096  # of the integral per bandwidth, and at least
_TERMS = 2.8  # times 1 / bandwidth: later terms of the series are below 1e-16


def _smooth_error(rows, bandwidth):
    """The error at a bandwidth, or by default the one that is equal to its bandwidth."""
    score = np.minimum(rows.score, 1.0)
    weight = np.ones(len(score)) if rows.weight is None else rows.weight
    residual = weight * (rows.event - score) / weight.sum()
    (nodes,) = _on_nodes(score * _NODES, [residual], _NODES)
    nodes[1:-1] /= 2  # the transform counts inner nodes twice
    coefficients = dct(nodes, type=1)

    def error(h):
        """Integral of the absolute value of the residuals, smoothed with the bandwidth h."""
        n_steps = min(max(1 << int(np.ceil(np.log2(_STEPS_OF_INTEGRAL / h))), _FEWEST), _NODES)
        n_terms = min(int(_TERMS / h) + 2, n_steps)
        series = np.zeros(n_steps + 1)
        decay = np.exp(-0.5 * (np.pi * h * np.arange(n_terms)) ** 2)
        series[:n_terms] = coefficients[:n_terms] * decay
        values = dct(series, type=1)
        left, right = values[:-1], values[1:]
        both = np.abs(left) + np.abs(right)
        # Between nodes of opposite sign the straight line has two triangles.
        crossing = left * right < 0
        area = both / 2
        area[crossing] = (left**2 + right**2)[crossing] / (2 * both[crossing])
        return float(area.mean())

    if bandwidth is not None:
        return error(float(bandwidth))
    least = 2.0 / _NODES
    finest = error(least)
    if finest <= least:
        return finest
    return brentq(lambda h: error(h) - h, least, 1.0, xtol=1e-8, rtol=1e-9)


# --- Kernel density -------------------------------------------------------------------------------


@checks_parameters
def kde_calibration_error(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    norm: Literal["l1", "l2"] | float = "l1",
    notion: NotionLike = "auto",
    bandwidth: Literal["scott"] | float = "scott",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Calibration error by kernel density estimates: the TCE without bins (Zhang et al. 2020).

    With the score s (the confidence, or the probability of a class) and the event y,

    .. math::

        \Big( \int_0^1 |\hat\pi(z) - z|^p \hat f(z)\, dz \Big)^{1/p}, \qquad
        \hat f(z) = \frac1n \sum_i K_h(z, s_i), \qquad
        \hat\pi(z) = \frac{\sum_i y_i K_h(z, s_i)}{\sum_i K_h(z, s_i)} .

    It estimates :math:`(E |E[Y|S] - S|^p)^{1/p}`, the true calibration error :math:`TCE_p`. The
    kernel is the triweight :math:`k_h(u) \propto (1 - (u / 3h)^2)^3` on :math:`|u| < 3h`, of
    standard deviation h, mirrored at both ends:
    :math:`K_h(z, s) = k_h(z - s) + k_h(z + s) + k_h(z + s - 2)`.

    **Biased upward** for a calibrated forecast, as the ECE is: for p = 1 the noise of
    :math:`\hat\pi` contributes about :math:`\sqrt{0.173 / (n h)} \int_0^1 \sqrt{z (1 - z) f(z)}\,
    dz`, which decreases like :math:`n^{-2/5}` with the default bandwidth. Smoothing biases it in
    either direction: :math:`\hat\pi` averages the curve over the kernel, but is compared with z
    itself. So calibrated forecasts with few distinct scores, whose kernels do not overlap, have an
    error of about .82 h for any number of samples at this h. The estimate is consistent if :math:`h
    \to 0` and :math:`n h \to \infty`.

    Parameters
    ----------
    norm : {"l1", "l2"} or float, default="l1"
        The power p: 1, 2, or any finite number of at least 1.
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"} or Notion, default="auto"
        As in :func:`~skcalib.calibration_error`: by default the probability of the positive class
        for two classes, the top label for more. For "classwise" each class has its own bandwidth,
        and the power p is averaged over classes before the root is taken.
    bandwidth : "scott" or float, default="scott"
        The standard deviation h of the kernel. "scott" is :math:`\hat\sigma (2 n)^{-1/5}`, with the
        standard deviation :math:`\hat\sigma` of the scores, and at most 1/3. A number must be in
        (0, 1/3]. At least :math:`2^{-14}` of the range of the scores is used. A bandwidth below
        :math:`10^{-12}`, in particular where all scores are equal, is treated as 0: the error is
        then :math:`|\bar y - \bar s|`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights for averages: their scale does not matter. The n of "scott" is then the effective
        size :math:`(\sum w)^2 / \sum w^2`; with a given bandwidth whole numbers mean repetition.

    Returns
    -------
    float
        The error, in units of probability. Between 0 and 1, except for a notion that sums over
        classes.

    Raises
    ------
    ValueError
        For invalid input, an infinite `norm` or "max", a `bandwidth` outside (0, 1/3], and a notion
        with more than one score at a time.

    See Also
    --------
    integrated_calibration_index : The distance from a curve of recalibration maps.
    proper_calibration_error : Squared, for all classes, with less bias.

    Notes
    -----
    A Fourier transform evaluates the densities on a grid of 64 nodes per bandwidth, in O(n) for
    each score, and O(m log m) for m nodes, at most a million.

    The published code [1]_ differs in details, which :ref:`smoothed_errors` lists. To reproduce its
    bandwidth, pass ``np.std(score[event]) * (2 * n) ** -0.2``.

    References
    ----------
    .. [1] J. Zhang, B. Kailkhura and T. Y.-J. Han. Mix-n-Match: Ensemble and compositional methods
       for uncertainty calibration in deep learning. ICML 2020.

    Examples
    --------
    >>> from skcalib.errors import kde_calibration_error
    >>> from skcalib.datasets import make_logistic_scores
    >>> data = make_logistic_scores(5000, random_state=0)
    >>> round(kde_calibration_error(data.y, data.y_proba), 3), round(data.truth["tce"], 3)
    (0.074, 0.074)
    """
    power = resolve_norm(norm)
    if power == np.inf:
        raise ValueError(
            f"norm must be 'l1', 'l2' or a finite number of at least 1, got {shown(norm)}: the "
            "largest gap is where the density is lowest and nothing is known. Use "
            "calibration_error for the largest gap of bins."
        )
    by_scott = isinstance(bandwidth, str) and bandwidth == "scott"
    if not (by_scott or (is_finite(bandwidth) and 0 < float(bandwidth) <= _WIDEST)):
        raise ValueError(
            f"bandwidth must be 'scott' or a number in (0, 1/3], got {shown(bandwidth)}."
        )
    samples = read_samples(
        y_true, y_proba, resolve_notion(notion), sample_weight, labels, pos_label
    )
    means = [_mean_power(rows, bandwidth, power) for rows in samples.scored()]
    mean = sum(means) / (len(means) if samples.notion.reduce == "mean" else 1)
    return float(mean ** (1 / power))


_WIDEST = 1 / 3  # the kernel of half width 3 h reaches one unit to each side
_EQUAL_SCORES = 1e-12  # below, scores are equal
_RANGE = 2.0**-14  # smallest bandwidth in units of the range, which limits the grid


_STEPS_OF_GRID = 64  # of the grid per bandwidth


def _mean_power(rows, bandwidth, power):
    """Mean of |frequency of the event - z|^power over the density of the scores."""
    score, event, weight = np.minimum(rows.score, 1.0), rows.event, rows.weight
    if isinstance(bandwidth, str):
        size = len(score) if weight is None else effective_size(weight, rows.square)
        centred = score - weighted_mean(score, weight)
        spread = np.sqrt(weighted_mean(centred**2, weight))
        bandwidth = min(spread * (2 * size) ** -0.2, _WIDEST)
    h = max(float(bandwidth), _RANGE * np.ptp(score))
    if h < _EQUAL_SCORES:
        return float(np.abs(weighted_mean(event - score, weight)) ** power)
    grid, density, joint = _densities(score, event, weight, h)
    frequency = np.divide(joint, density, out=grid.copy(), where=density > 0)
    density[[0, -1]] *= 0.5  # trapezoidal rule
    return float(density @ np.abs(frequency - grid) ** power / density.sum())


def _densities(score, event, weight, h):
    """Grid (m,), density of the scores and of the scores of events, up to a common factor."""
    left, right = max(score.min() - 3 * h, 0.0), min(score.max() + 3 * h, 1.0)
    n_steps = next_fast_len(int(np.ceil((right - left) / h * _STEPS_OF_GRID)), real=True)
    step = (right - left) / n_steps
    mass = np.ones(len(score)) if weight is None else weight
    place = np.clip((score - left) / step, 0, n_steps)
    # The grid and its mirror image are one period: no kernel reaches beyond an end that is not 0
    # or 1, so both ends may be mirrors.
    mirrored = np.empty((2, 2 * n_steps))
    for row, nodes in zip(mirrored, _on_nodes(place, [mass, mass * event], n_steps), strict=True):
        nodes[[0, -1]] *= 2  # these meet their image
        row[: n_steps + 1], row[n_steps + 1 :] = nodes, nodes[-2:0:-1]
    distance = step * np.minimum(np.arange(2 * n_steps), np.arange(2 * n_steps, 0, -1))
    kernel = np.maximum(1 - (distance / (3 * h)) ** 2, 0) ** 3
    smooth = irfft(rfft(mirrored) * rfft(kernel), 2 * n_steps)[:, : n_steps + 1]
    density = np.maximum(smooth[0], 0)
    return left + step * np.arange(n_steps + 1), density, np.clip(smooth[1], 0, density)


def _on_nodes(place, columns, n_steps):
    """Columns (n,) divided linearly between the two nodes next to each place, from 0 to n_steps."""
    node = np.minimum(place.astype(np.intp), n_steps - 1)
    share = place - node
    for column in columns:
        nodes = np.bincount(node, column * (1 - share), n_steps + 1)
        yield nodes + np.bincount(node + 1, column * share, n_steps + 1)
