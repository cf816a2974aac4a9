r"""The Dirichlet kernel estimate of the calibrated scores (P24).

Weights of forecast :math:`s_j` at the point :math:`x` (P24 eq. 12) are Dirichlet densities whose
*parameter* is the data point,

.. math::

    k(x, s_j) = \operatorname{Dir}(x;\, s_j / h + 1), \qquad
    \log k(x, s_j) = \langle \log x, s_j / h \rangle + c_j , \qquad
    c_j = \log \Gamma(K + \tfrac1h \textstyle\sum_k s_{jk})
          - \sum_k \log \Gamma(s_{jk} / h + 1),

so a block of rows costs one matrix product and one exponential. The kernel is not symmetric.
"""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skcalib.smoothers._base import Smoother

# Forecasts of exactly 0 stand for the smallest positive number: log 0 would turn weights that
# belong together (0 against 0) into indeterminate ones.
_TINY = np.finfo(np.float64).tiny
_ROWS = 64  # rows of a block; a block of 64 x n stays small and keeps the product efficient
_SUBSAMPLE = 2000  # rows that choose the bandwidth


class DirichletKernel(Smoother):
    r"""Leave-one-out kernel regression on the simplex with Dirichlet kernels (P24 eq. 11-12).

    :math:`\hat C(s_i) = \sum_{j \ne i} k(s_i, s_j) Y_j / \sum_{j \ne i} k(s_i, s_j)`, where
    :math:`k(\cdot, s_j)` is the Dirichlet density with parameter :math:`s_j / h + 1`. For two
    columns it is the Beta kernel. Computed in log space, exactly, by blocks of rows: time
    O(n^2 K), memory O(n). Consistent as h goes to 0 and :math:`n h^{(K-1)/2}` to infinity;
    beyond five classes or so no affordable n is large enough, prefer `LogitSmoother` or a
    classwise notion there.

    Parameters
    ----------
    bandwidth : "loo" or float, default="loo"
        The bandwidth h > 0. "loo" maximises the leave-one-out log likelihood of the forecasts on
        [1e-5, 1]; from more than 2,000 forecasts a random subsample of 2,000 chooses it, and
        the choice is rescaled by (n / 2000)^(-2 / (K + 3)).
    refinement : {"entropy", "loss"}, default="entropy"
        How refinement and the method "risk" of :func:`~skcalib.proper_calibration_error` read
        :math:`\hat C`: its mean entropy, as in P24 eq. 14-15, or its mean loss on the labels that
        it left out, which makes "risk" a lower bound in expectation.
    random_state : int, RandomState instance or None, default=0
        Draws the subsample.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth in use.

    Examples
    --------
    >>> from skcalib import DirichletKernel, proper_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> error = proper_calibration_error(
    ...     data.y, data.y_proba, loss="log", smoother=DirichletKernel(0.01), method="direct")
    >>> round(error, 3), round(data.truth["log"], 3)
    (0.033, 0.037)
    """

    def __init__(self, bandwidth="loo", refinement="entropy", random_state=0):
        self.bandwidth = bandwidth
        self.refinement = refinement
        self.random_state = random_state

    def fit(self, forecast, target, sample_weight=None):
        """Store the data points and choose the bandwidth."""
        self._store(forecast, target, sample_weight)
        if self.refinement not in ("entropy", "loss"):
            raise ValueError(f"refinement must be 'entropy' or 'loss', got {self.refinement!r}.")
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "loo":
                raise ValueError(
                    f"bandwidth must be 'loo' or a positive number, got {self.bandwidth!r}."
                )
            self.bandwidth_ = self._choose_bandwidth()
        else:
            self.bandwidth_ = float(self.bandwidth)
            if not 0 < self.bandwidth_ < np.inf:
                raise ValueError(f"bandwidth must be positive and finite, got {self.bandwidth!r}.")
        return self

    def smooth(self, values=None):
        """Weighted mean of `values` over all *other* samples."""
        check_is_fitted(self)
        self._need_two()
        values = self._values(values)
        flat = values.reshape(len(values), -1)
        return self._average(self.forecast_, flat, leave_out=True)[0].reshape(values.shape)

    def smooth_held_out(self, values=None):
        """Identical to `smooth`, which leaves each sample out."""
        return self.smooth(values)

    def predict(self, forecast):
        """Weighted mean of the fitted target at new forecasts."""
        check_is_fitted(self)
        target = self.target_.reshape(len(self.target_), -1)
        return self._average(np.asarray(forecast, dtype=np.float64), target)[0]

    def log_likelihood(self):
        """Leave-one-out log likelihood of the forecasts under their kernel density estimate.

        The sum over i of the log of the mean over j != i of k(s_i, s_j).
        """
        check_is_fitted(self)
        return self._log_likelihood(self.bandwidth_)

    def _log_likelihood(self, bandwidth):
        nothing = np.empty((len(self.forecast_), 0))
        log_mass = self._average(self.forecast_, nothing, True, bandwidth)[1]
        # The weight of all others, as a sum: a difference would cancel beside a heavy sample.
        before, after = np.cumsum(self.weight_), np.cumsum(self.weight_[::-1])[::-1]
        rest = np.append(0.0, before[:-1]) + np.append(after[1:], 0.0)
        return float(self.weight_ @ (log_mass - np.log(rest)))

    def _choose_bandwidth(self):
        self._need_two()
        n_samples, n_columns = self.forecast_.shape
        sample, factor = self, 1.0
        if n_samples > _SUBSAMPLE:
            rng = check_random_state(self.random_state)
            rows = rng.choice(n_samples, _SUBSAMPLE, replace=False)
            sample = DirichletKernel(1.0)
            sample._store(self.forecast_[rows], self.target_[rows], self.weight_[rows])
            factor = (n_samples / _SUBSAMPLE) ** (-2 / (n_columns + 3))

        def cost(log_bandwidth):
            return -sample._log_likelihood(10.0**log_bandwidth)

        # The likelihood was unimodal on every network tried; a coarse grid brackets its maximum.
        grid = np.linspace(-5, 0, 11)
        best = int(np.argmin([cost(g) for g in grid]))
        bracket = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
        found = minimize_scalar(cost, bounds=bracket, method="bounded", options={"xatol": 1e-3})
        log_bandwidth = found.x if found.fun <= cost(grid[best]) else grid[best]
        return float(max(10.0**log_bandwidth * factor, 1e-5))

    def _average(self, points, values, leave_out=False, bandwidth=None):
        """Kernel averages of `values` at `points`, and the log of the total kernel weight."""
        bandwidth = self.bandwidth_ if bandwidth is None else bandwidth
        scaled = self.forecast_ / bandwidth
        n_columns = scaled.shape[1]
        constant = gammaln(n_columns + scaled.sum(axis=1)) - gammaln(scaled + 1).sum(axis=1)
        constant += np.log(self.weight_)
        averages = np.empty((len(points), values.shape[1]))
        log_mass = np.empty(len(points))
        for start in range(0, len(points), _ROWS):
            rows = slice(start, start + _ROWS)
            log_kernel = np.log(np.maximum(points[rows], _TINY)) @ scaled.T + constant
            if leave_out:
                here = np.arange(len(log_kernel))
                log_kernel[here, start + here] = -np.inf
            peak = log_kernel.max(axis=1, keepdims=True)
            kernel = np.exp(log_kernel - peak)
            mass = kernel.sum(axis=1, keepdims=True)
            averages[rows] = kernel @ values / mass
            log_mass[rows] = (peak + np.log(mass))[:, 0]
        return averages, log_mass
