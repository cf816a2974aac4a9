r"""The Dirichlet kernel estimate of the calibrated scores (P24).

Weights of forecast :math:`s_j` at the point :math:`x` (P24 eq. 12) are Dirichlet densities whose
*parameter* is the data point,

.. math::

    k(x, s_j) = \operatorname{Dir}(x;\, s_j / h + 1), \qquad
    \log k(x, s_j) = \langle \log x, s_j / h \rangle + c_j , \qquad
    c_j = \log \Gamma(K + \tfrac1h \textstyle\sum_k s_{jk})
          - \sum_k \log \Gamma(s_{jk} / h + 1).

The kernel is not symmetric. Two columns go through the near-linear `_beta` engine, more through
the blocked exact `_canonical` one.
"""

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from skcalib._checks import from_table
from skcalib.scores import SCORES, Brier, ProperScore
from skcalib.smoothers._bandwidth import search_bandwidth
from skcalib.smoothers._base import Smoother, check_folds
from skcalib.smoothers._beta import beta_average, beta_log_likelihoods
from skcalib.smoothers._canonical import canonical_average, canonical_log_likelihoods
from skcalib.smoothers._emptiness import warn_of_emptiness

CRITERIA = ("loo", "risk", "scott")
_MANY_CLASSES = 5  # from here on kernels on the simplex run out of neighbours
_SELECTION_FOLDS = 5


class DirichletKernel(Smoother):
    r"""Leave-one-out kernel regression on the simplex with Dirichlet kernels (P24 eq. 11-12).

    :math:`\hat C(s_i) = \sum_{j \ne i} k(s_i, s_j) Y_j / \sum_{j \ne i} k(s_i, s_j)`, where
    :math:`k(\cdot, s_j)` is the Dirichlet density with parameter :math:`s_j / h + 1`. For two
    columns it is the Beta kernel, summed in near-linear time; for more columns all pairs are summed
    by blocks, O(n^2 K) time and O(n K) memory. Consistent as h goes to 0 and
    :math:`n h^{(K-1)/2}` to infinity.

    From five classes on no affordable n is large enough to estimate :math:`E[Y|S]` this way:
    `fit` counts the neighbours that an average rests on and warns where even a calibrated forecast
    would look miscalibrated. Prefer `LogitSmoother`, or the classwise or top-label notion, there.

    Parameters
    ----------
    bandwidth : {"loo", "risk", "scott"}, float or callable, default="loo"
        The bandwidth h > 0.

        - "loo" maximises the leave-one-out log likelihood of the *forecasts* on [1e-5, 1], as in
          P24. Labels play no part; ties in the forecasts pull it towards 0.
        - "risk" minimises the leave-one-out loss of :math:`\hat C`, cross-validated for the
          labels: the criterion that matters for an error. `smooth_held_out` then chooses it for
          each of five folds from the others, so that no label takes part in its own estimate.
        - "scott" is a rule, :math:`n^{-2/(K+3)} \sum_k V[S_k] / \sum_k E[S_k (1 - S_k)]`: the
          spread of a kernel is that of the forecasts, shrunk at the optimal rate.
        - A callable gets (n_samples, n_columns) and returns a number.

        From more than 2,000 forecasts (1,000 of two columns) a random subsample of so many, m,
        brackets the choice of the first two, rescaled by (n / m)^(-2 / (K + 3)), and at most ten
        evaluations on all rows follow.
    refinement : {"entropy", "loss"}, default="entropy"
        How refinement and the method "risk" of :func:`~skcalib.proper_calibration_error` read
        :math:`\hat C`: its mean entropy, as in P24 eq. 14-15, or its mean loss on the labels that
        it left out, which makes "risk" a lower bound in expectation.
    loss : {"brier", "log", "spherical"}, ProperScore or None, default=None
        The loss of ``bandwidth="risk"``. None is the loss in use, or "brier" where there is none.
    random_state : int, RandomState instance or None, default=0
        Draws the subsample and the folds.
    n_jobs : int or None, default=None
        Threads over blocks of rows, for more than two columns.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth in use.
    bandwidth_search_ : BandwidthSearch or None
        The curve of the criterion, if one was searched: ``bandwidths``, ``costs`` (minus the mean
        log likelihood, or the mean loss), ``bandwidth``, ``criterion``, ``n_samples``.

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

    def __init__(
        self, bandwidth="loo", refinement="entropy", loss=None, random_state=0, n_jobs=None
    ):
        self.bandwidth = bandwidth
        self.refinement = refinement
        self.loss = loss
        self.random_state = random_state
        self.n_jobs = n_jobs

    def for_loss(self, score):
        """The same kernel; one that chooses its bandwidth by the risk takes this loss."""
        adapts = isinstance(self.bandwidth, str) and self.bandwidth == "risk" and self.loss is None
        return clone(self).set_params(loss=score) if adapts else self

    def fit(self, forecast, target, sample_weight=None):
        """Store the data points and choose the bandwidth."""
        self._store(forecast, target, sample_weight)
        if self.refinement not in ("entropy", "loss"):
            raise ValueError(f"refinement must be 'entropy' or 'loss', got {self.refinement!r}.")
        self.bandwidth_search_ = None
        self.bandwidth_ = self._choose_bandwidth()
        if self.forecast_.shape[1] >= _MANY_CLASSES and len(self.forecast_) > 1:
            rng = check_random_state(self.random_state)
            warn_of_emptiness(self.forecast_, self.weight_, self.bandwidth_, rng)
        return self

    def smooth(self, values=None):
        """Weighted mean of `values` over all *other* samples."""
        check_is_fitted(self)
        self._need_two()
        values = self._values(values)
        flat = values.reshape(len(values), -1)
        return self._leave_one_out(flat, self.bandwidth_).reshape(values.shape)

    def smooth_held_out(self, values=None):
        """As `smooth`, with a bandwidth that the sample's own label had no part in."""
        if not self._by_risk():
            return self.smooth(values)
        check_is_fitted(self)
        self._need_two()
        values = self._values(values)
        flat = values.reshape(len(values), -1)
        averages = np.empty_like(flat)
        # Folds must not be stratified: labels would take part in who goes where.
        folds = check_folds(_SELECTION_FOLDS, flat[:, :1] * 0, random_state=self.random_state)
        chosen = Parallel()(delayed(self._chosen_from)(train) for train, _ in folds)
        for bandwidth in set(chosen):  # folds that agree share their sums
            smoothed = self._leave_one_out(flat, bandwidth)
            for (_, test), own in zip(folds, chosen, strict=True):
                if own == bandwidth:
                    averages[test] = smoothed[test]
        return averages.reshape(values.shape)

    def predict(self, forecast):
        """Weighted mean of the fitted target at new forecasts."""
        check_is_fitted(self)
        target = self.target_.reshape(len(self.target_), -1)
        points = np.asarray(forecast, dtype=np.float64)
        return self._average(points, target, self.bandwidth_)

    def log_likelihood(self):
        """Leave-one-out log likelihood of the forecasts under their kernel density estimate.

        The sum over i of the log of the mean over j != i of k(s_i, s_j).
        """
        check_is_fitted(self)
        return float(self._log_likelihoods([self.bandwidth_])[0])

    def _by_risk(self):
        return isinstance(self.bandwidth, str) and self.bandwidth == "risk"

    def _choose_bandwidth(self):
        if isinstance(self.bandwidth, str):
            if self.bandwidth not in CRITERIA:
                raise ValueError(
                    "bandwidth must be 'loo', 'risk', 'scott', a positive number or a function of "
                    f"(n_samples, n_columns), got {self.bandwidth!r}."
                )
            if self.bandwidth == "scott":
                return self._scott()
            self._need_two()
            self.bandwidth_search_ = self._search()
            return self.bandwidth_search_.bandwidth
        given = self.bandwidth
        bandwidth = float(given(*self.forecast_.shape) if callable(given) else given)
        if not 0 < bandwidth < np.inf:
            raise ValueError(f"bandwidth must be positive and finite, got {bandwidth!r}.")
        return bandwidth

    def _scott(self):
        n_samples, n_columns = self.forecast_.shape
        share = self.weight_ / self.weight_.sum()
        mean = share @ self.forecast_
        spread = np.sum(share @ (self.forecast_ - mean) ** 2)
        scale = np.sum(share @ (self.forecast_ * (1 - self.forecast_)))
        if scale == 0:  # every forecast is certain: any bandwidth separates them
            return 1e-5
        with np.errstate(over="ignore"):  # next to certain: the largest bandwidth
            wide = n_samples ** (-2 / (n_columns + 3)) * spread / scale
        return float(np.clip(wide, 1e-5, 1))

    def _part(self, rows):
        """The same kernel on some of its samples, its bandwidth not chosen yet."""
        part = clone(self)
        part._store(self.forecast_[rows], self.target_[rows], self.weight_[rows])
        return part

    def _chosen_from(self, rows):
        """The bandwidth that some of the samples would choose."""
        return self._part(rows)._search(full=False).bandwidth

    def _search(self, full=True):
        n_samples, n_columns = self.forecast_.shape
        n_subsample = 1000 if n_columns == 2 else 2000
        subsample_cost, shrink = None, 1.0
        if n_samples > n_subsample:
            rng = check_random_state(self.random_state)
            few = self._part(rng.choice(n_samples, n_subsample, replace=False))
            subsample_cost = few._cost()
            shrink = (n_samples / n_subsample) ** (-2 / (n_columns + 3))
        return search_bandwidth(
            self._cost(),
            criterion="risk" if self._by_risk() else "likelihood",
            n_samples=n_samples,
            subsample_cost=subsample_cost,
            n_subsample=n_subsample,
            shrink=shrink,
            full=full,
        )

    def _cost(self):
        """A function from bandwidths to what is minimised."""
        total = self.weight_.sum()
        if not self._by_risk():
            return lambda bandwidths: -self._log_likelihoods(bandwidths) / total
        score = from_table(
            Brier() if self.loss is None else self.loss, SCORES, name="loss", kind=ProperScore
        )
        target = self.target_.reshape(len(self.target_), -1)
        # The only sample of its class is given probability 0 by all others at any bandwidth.
        weight = self.weight_ * (np.sum(target > 0, axis=0) > 1)[np.argmax(target, axis=1)]

        def risk(bandwidth):
            losses = score.loss(target, self._leave_one_out(target, bandwidth))
            return float(weight[weight > 0] @ losses[weight > 0] / total)

        return lambda bandwidths: np.array([risk(h) for h in bandwidths])

    def _average(self, points, values, bandwidth):
        data = (points, self.forecast_, self.weight_, values, bandwidth)
        if self.forecast_.shape[1] == 2:
            return beta_average(*data)
        return canonical_average(*data, n_jobs=self.n_jobs)[0]

    def _leave_one_out(self, values, bandwidth):
        data = (self.forecast_, self.forecast_, self.weight_, values, bandwidth)
        if self.forecast_.shape[1] == 2:
            return beta_average(*data, leave_out=True)
        return canonical_average(*data, leave_out=True, n_jobs=self.n_jobs)[0]

    def _log_likelihoods(self, bandwidths):
        data = (self.forecast_, self.weight_, bandwidths)
        if self.forecast_.shape[1] == 2:
            return beta_log_likelihoods(*data)
        return canonical_log_likelihoods(*data, n_jobs=self.n_jobs)
