"""p-values of weighted sums of independent labels."""

import numpy as np
from scipy.special import expit
from scipy.stats import norm

_ROUNDS = 50
_NEAR = 1e-3  # of z: the normal tail is exact enough, and the formula is 0 / 0
_ORDINARY = 1.2  # z below which nobody needs the tail


def label_sum_pvalue(total, coefficients, proba, variance=None):
    r"""Two-sided p-value of :math:`T = \sum_i a_i (y_i - p_i)` for independent labels.

    The tail is the saddlepoint approximation of Lugannani and Rice (1980), which holds far out
    and for a few expected events; half of a typical step :math:`|a_i|` of the largest labels is
    taken off \|T\|, as a correction for continuity.

    Parameters
    ----------
    total : float
        Observed T.
    coefficients, proba : array of shape (n,)
        a and the probability of each label, strictly between 0 and 1.
    variance : float, default=None
        Variance of T where it is known to exceed that of independent labels; T is scaled down.

    Returns
    -------
    float
        Between 0 and 1.
    """
    own = float(np.sum(coefficients**2 * proba * (1 - proba)))
    if not own > 0:
        return 1.0
    step = np.sum(np.abs(coefficients) ** 3) / np.sum(coefficients**2)
    size = abs(total) * np.sqrt(own / max(own, own if variance is None else variance)) - step / 2
    z = size / np.sqrt(own)
    if z <= _ORDINARY:
        return float(min(1.0, 2 * norm.sf(max(z, 0.0))))
    a = np.sign(total) * coefficients
    most = np.sum(np.where(a > 0, a * (1 - proba), -a * proba))
    if size >= 0.999 * most:
        size = 0.999 * most
    logit = np.log(proba) - np.log1p(-proba)
    slope = _solve(size, a, logit, proba, z / np.sqrt(own))
    bent = expit(logit + slope * a)
    cumulant = np.sum(np.logaddexp(np.log1p(-proba), np.log(proba) + slope * a) - slope * a * proba)
    w = np.sqrt(max(2 * (slope * size - cumulant), 0.0))
    u = slope * np.sqrt(np.sum(a**2 * bent * (1 - bent)))
    if not (w > _NEAR and u > _NEAR):
        return float(min(1.0, 2 * norm.sf(z)))
    tail = norm.sf(w) + norm.pdf(w) * (1 / u - 1 / w)
    return float(np.clip(2 * tail, 0.0, 1.0))


def _solve(size, a, logit, proba, start):
    """Slope at which the expected sum is `size`: Newton inside of a bracket."""
    center = np.sum(a * proba)
    low, high, slope = 0.0, np.inf, start
    for _ in range(_ROUNDS):
        bent = expit(logit + slope * a)
        miss = np.sum(a * bent) - center - size
        low, high = (slope, high) if miss < 0 else (low, slope)
        if abs(miss) < 1e-9 * size:
            break
        step = slope - miss / max(np.sum(a**2 * bent * (1 - bent)), 1e-300)
        if not low < step < high:
            step = 2 * slope if np.isinf(high) else (low + high) / 2
        slope = step
    return slope
