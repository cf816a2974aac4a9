"""The affine map of the variance with the lowest Dawid-Sebastiani score."""

import numpy as np
from scipy.optimize import brentq

from skcalib.regression._moments import centred
from skcalib.scores import DawidSebastiani
from skcalib.tower import weighted_mean

# Where to look for the optimum: points per factor ten of b / w, and how far beyond the variances.
POINTS_PER_DECADE, MARGIN = 5, 10.0
#: Maximum number of iterations of one bracketing.
MAX_ITER = 300


def fit_variance_map(squared, variance, weight, *, fit_intercept=True):
    """Slope and intercept that minimise the mean score, with w, b >= 0.

    Parameters
    ----------
    squared, variance, weight : array of shape (n,)
        Squared residuals, not all zero; positive variances; positive weights.
    fit_intercept : bool
        False: b = 0.

    Returns
    -------
    coefficients : tuple of float
        (w, b).
    n_iter : int
        Iterations of the bracketing.
    converged : bool
        Whether they sufficed.
    """
    unit, size = (float(weighted_mean(v, weight)) for v in (variance, squared))
    relative = variance / unit
    low, high = relative.min(), relative.max()
    profile = Profile(squared / size, relative, weight)
    share, n_iter, converged = 0.0, 0, True
    if fit_intercept and high - low > 1e-12:
        decades = np.log10(high / low) + 2 * np.log10(MARGIN)
        odds = np.geomspace(low / MARGIN, high * MARGIN, int(decades * POINTS_PER_DECADE) + 2)
        share, n_iter, converged = _lowest(profile, odds / (1 + odds))
    scale = profile.scale(share) * size
    return (float(scale * (1 - share) / unit), float(scale * share)), n_iter, converged


class Profile:
    """Mean score along the shapes u(t) = (1 - t) v + t, each with its best scale."""

    def __init__(self, squared, variance, weight):
        self.squared, self.variance, self.weight = squared, variance, weight
        self.target = centred(squared)  # the loss sees the second moment about the mean only
        self.score = DawidSebastiani()

    def shape(self, share):
        return (1 - share) * self.variance + share

    def scale(self, share):
        """The best scale of a shape: the mean of squared residual over shape."""
        return weighted_mean(self.squared / self.shape(share), self.weight)

    def value(self, share):
        forecast = centred(self.scale(share) * self.shape(share))
        return weighted_mean(self.score.loss(self.target, forecast), self.weight)

    def slope(self, share):
        """Derivative of `value`: the best scale moves too, but to first order that costs nothing.

        Along the variance v the gradient of the entropy is H' = 1 / v, so H'' = -(H')^2 and the
        derivative of the loss is (H')^2 (v - squared) = H' (1 - H' squared).
        """
        scale = self.scale(share)
        precision = self.score.gradient(centred(scale * self.shape(share)))[:, 1]
        slope = precision * (1 - precision * self.squared)
        return scale * weighted_mean(slope * (1 - self.variance), self.weight)


def _lowest(profile, inner):
    """The t in [0, 1] of the lowest profile, the iterations it took and whether they sufficed."""
    shares = np.concatenate([[0.0], inner, [1.0]])
    slopes = np.array([profile.slope(share) for share in shares])
    found = [
        brentq(
            profile.slope,
            *shares[i : i + 2],
            xtol=1e-300,
            maxiter=MAX_ITER,
            full_output=True,
            disp=False,
        )
        for i in np.flatnonzero((slopes[:-1] < 0) & (slopes[1:] >= 0))
    ]
    candidates = [root for root, _ in found]
    candidates += [0.0] if slopes[0] >= 0 else []
    candidates += [1.0] if slopes[-1] <= 0 else []
    best = min(candidates, key=profile.value)
    reports = [report for _, report in found]
    return best, sum(r.iterations for r in reports), all(r.converged for r in reports)
