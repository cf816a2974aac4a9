"""Smooth calibration error: the mean absolute kernel-smoothed residual.

`smooth_calibration_error` is the public function. The fixed point of the bandwidth and the smoothed
residuals by cosine series follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import dct
from scipy.optimize import brentq

from skcalib._util.messages import is_finite, shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label
from skcalib.data.notions import NotionLike, resolve_notion
from skcalib.data.samples import Samples

if TYPE_CHECKING:
    from skcalib.data.problem import LabelsLike, ScoredRows


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
        As in :func:`calibration_error`: by default the probability of the positive class for two
        classes, the top label for more. For "classwise" each class has its own bandwidth.
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
    if bandwidth is not None and not (is_finite(bandwidth) and _NARROWEST <= bandwidth <= 1):
        raise ValueError(
            f"bandwidth must be None or a number from {_NARROWEST:g} to 1, got {shown(bandwidth)}."
        )
    rule = resolve_notion(notion)
    samples = Samples.of(y_true, y_proba, rule, sample_weight, labels, pos_label)
    errors = [_smooth_error(one, bandwidth) for one in samples.scored()]
    return float(sum(errors) / (len(errors) if samples.notion.reduce == "mean" else 1))


_NARROWEST = 1e-4  # bandwidth that may be asked for


def _smooth_error(rows, bandwidth):
    """The error at a bandwidth, or the one that is equal to its bandwidth."""
    residuals = _SmoothResiduals(rows)
    if bandwidth is not None:
        return residuals.size(float(bandwidth))
    least, finest = 2.0 / _NODES, residuals.size(2.0 / _NODES)
    if finest <= least:
        return finest
    return brentq(lambda h: residuals.size(h) - h, least, 1.0, xtol=1e-8, rtol=1e-9)


_NODES = 1 << 17  # steps of the grid on [0, 1]
_STEPS, _FEWEST = 64, 4096  # of the integral per bandwidth, and at least
_TERMS = 2.8  # times 1 / bandwidth: later terms of the series are below 1e-16


class _SmoothResiduals:
    """Mean residuals on the nodes of a grid, as the coefficients of a cosine series."""

    def __init__(self, rows: ScoredRows) -> None:
        score = np.minimum(rows.score, 1.0)
        weight = np.ones(len(score)) if rows.weight is None else rows.weight
        residual = weight * (rows.event - score) / weight.sum()
        place = score * _NODES
        node = np.minimum(place.astype(np.intp), _NODES - 1)
        share = place - node
        nodes: Any = np.bincount(node, residual * (1 - share), _NODES + 1)
        nodes += np.bincount(node + 1, residual * share, _NODES + 1)
        nodes[1:-1] /= 2  # the transform counts inner nodes twice
        self.coefficients = dct(nodes, type=1)

    def size(self, bandwidth: float) -> float:
        """Integral of the absolute value of the smoothed residuals."""
        n_steps = min(max(1 << int(np.ceil(np.log2(_STEPS / bandwidth))), _FEWEST), _NODES)
        n_terms = min(int(_TERMS / bandwidth) + 2, n_steps)
        term = np.arange(n_terms)
        series = np.zeros(n_steps + 1)
        decay = np.exp(-0.5 * (np.pi * bandwidth * term) ** 2)
        series[:n_terms] = self.coefficients[:n_terms] * decay
        values = dct(series, type=1)
        left, right = values[:-1], values[1:]
        both = np.abs(left) + np.abs(right)
        # Between nodes of opposite sign the straight line has two triangles.
        crossing = left * right < 0
        area = both / 2
        area[crossing] = (left**2 + right**2)[crossing] / (2 * both[crossing])
        return float(area.mean())
