"""What a binned error is worth on average: the folded-normal prediction (G22)."""

import numpy as np
from scipy.special import erf


def folded_normal_mean(mean, variance):
    r"""Mean of :math:`|X|` for normal X; :math:`|mean|` where the variance is 0.

    :math:`\sigma \sqrt{2 / \pi}\, e^{-\mu^2 / 2 \sigma^2} + \mu\, erf(\mu / \sqrt 2 \sigma)`.

    Parameters
    ----------
    mean, variance : array-like
        Mean and variance of X, of shapes that broadcast.

    Returns
    -------
    ndarray
        At least :math:`|mean|`.

    Examples
    --------
    >>> from skcalib.errors._folded import folded_normal_mean
    >>> folded_normal_mean([0.0, 3.0], [1.0, 0.0]).round(4)
    array([0.7979, 3.    ])
    """
    mean, variance = np.broadcast_arrays(np.abs(mean), np.asarray(variance, dtype=np.float64))
    spread = np.sqrt(variance)
    ratio = np.divide(mean, spread, out=np.full(mean.shape, np.inf), where=spread > 0)
    return spread * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2) + mean * erf(ratio / np.sqrt(2))


def expected_binned_error(share, gap, variance, n_samples):
    r"""Mean of the l1 binned error over data sets of `n_samples`, bins fixed (G22).

    :math:`E\, ECE_n \approx \sum_b p_b\, E|N(g_b, v_b / (n p_b))|`: in every bin the mean residual
    is nearly normal around the true gap. Falls with n to :math:`\sum_b p_b |g_b|`, the binned error
    itself. Bins of few samples (n p_b below about 5) are not normal.

    Parameters
    ----------
    share : array of shape (B,)
        Probability :math:`p_b` of each bin, positive.
    gap : array of shape (B,)
        True mean of label - score in each bin.
    variance : array of shape (B,)
        Variance :math:`v_b` of label - score in each bin. G22 take the variance of the score plus
        that of the label, which leaves their covariance out; the two agree for narrow bins.
    n_samples : int or array of int of shape (m,)
        Sample sizes.

    Returns
    -------
    float or ndarray of shape (m,)
        In units of probability.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.errors._folded import expected_binned_error
    >>> share, quarter = np.full(10, 0.1), np.full(10, 0.25)
    >>> expected_binned_error(share, np.zeros(10), quarter, np.array([100, 10_000])).round(4)
    array([0.1262, 0.0126])
    """
    share, variance = np.asarray(share, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    size = np.asarray(n_samples, dtype=np.float64)[..., None] * share
    expected = folded_normal_mean(gap, variance / size) @ share
    return float(expected) if expected.ndim == 0 else expected
