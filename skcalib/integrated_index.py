"""The integrated calibration index: the distance of forecasts from a smooth calibration curve."""

from numbers import Real

import numpy as np

from skcalib._arguments import check_notion, check_smoother
from skcalib.errors._terms import smooth_notion
from skcalib.problem import check_problem
from skcalib.scores import TotalVariation
from skcalib.tower import weighted_mean


def integrated_calibration_index(
    y_true,
    y_proba,
    *,
    quantile=None,
    notion="canonical",
    smoother=None,
    sample_weight=None,
    labels=None,
    pos_label=None,
):
    r"""Distance of the forecasts from a smooth calibration curve: mean, median, maximum.

    With a smoother's estimate :math:`\hat C` of the calibrated forecast, each without the sample's
    own label, the mean of :math:`|\hat C_i - S_i|` (the integrated calibration index ICI of Austin
    and Steyerberg), or a quantile of it: 0.5 is their E50, 0.9 their E90, 1 their Emax. For more
    than two classes :math:`|\cdot|` is the total variation, half of the L1 distance.

    It is the method "direct" in the L1 norm, so it is never negative and biased upward by the noise
    of :math:`\hat C`: a calibrated forecast has a positive index, and a more flexible smoother a
    larger one. The default smoother is a line in the logit (see :ref:`smoothers`), whose noise is
    small; the original used loess, in sample. ``smoother="kernel"`` is as flexible as that.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class.
    quantile : float, default=None
        None for the mean; a number in [0, 1] for that (lower) quantile of the distances.
    notion : {"canonical", "classwise", "top_label"} or Notion, default="canonical"
        All classes at once; the mean of the index over one-vs-rest problems; or the confidence.
    smoother : None, {"kernel", "isotonic", "binning"}, Smoother or classifier, default=None
        Estimates C, as in :func:`proper_calibration_error`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the mean or the quantile, and of the smoother.
    labels : array-like of shape (n_classes,), default=None
        The class of each column of `y_proba`; needed where `y_true` may lack a class.
    pos_label : label, default=None
        The class that a `y_proba` of shape (n_samples,) refers to; by default the last in order.

    Returns
    -------
    float
        In [0, 1], in units of probability.

    Raises
    ------
    ValueError
        For a single sample, which leaves a smoother nothing to learn from, or a `quantile` outside
        of [0, 1].

    See Also
    --------
    proper_calibration_error : The squared distance, and estimates of it with less bias.
    calibration_error : The same distance with bins.

    References
    ----------
    .. [1] P. C. Austin and E. W. Steyerberg. The Integrated Calibration Index (ICI) and related
       metrics for quantifying the calibration of logistic regression models. Statistics in
       Medicine 38, 2019.

    Examples
    --------
    >>> from skcalib import integrated_calibration_index
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, random_state=0)
    >>> [round(integrated_calibration_index(data.y, data.y_proba, quantile=q), 3)
    ...     for q in (None, 0.5, 0.9, 1)]
    [0.072, 0.079, 0.117, 0.129]
    """
    if quantile is not None and not (isinstance(quantile, Real) and 0 <= quantile <= 1):
        raise ValueError(f"quantile must be None or a number in [0, 1], got {quantile!r}.")
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    notion = check_notion(notion)
    indices = []
    for one in smooth_notion(problem, notion=notion, smoother=check_smoother(smoother)):
        distance = TotalVariation().divergence(one.conditional, one.forecast)
        if quantile is None:
            indices.append(weighted_mean(distance, one.weight))
        else:
            indices.append(_weighted_quantile(distance, one.weight, quantile))
    return float(np.mean(indices) if notion.reduce == "mean" else np.sum(indices))


def _weighted_quantile(values, weight, level):
    """The smallest value with at least the share `level` of the weight at or below it."""
    order = np.argsort(values)
    share = np.cumsum(weight[order])
    # A share that rounding left a hair below the level counts.
    rank = np.searchsorted(share, level * share[-1] * (1 - 1e-12))
    return values[order][min(rank, len(values) - 1)]
