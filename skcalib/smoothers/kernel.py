r"""The Dirichlet kernel estimate of the calibrated scores (P24).

`DirichletKernel` is the smoother. After it come the search for its bandwidth and the warning about
too few neighbours. `kernel_sums` has the sums of kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from skcalib._util.messages import is_finite, shown
from skcalib._util.types import ArrayLike, Bandwidth, RandomState
from skcalib._util.validation import look_up
from skcalib.data.clusters import sample_of_each_cluster
from skcalib.links.logits import crowded, log_positive
from skcalib.scores import SCORES, Brier, LossLike, ProperScore
from skcalib.smoothers._base import Smoother, check_folds
from skcalib.smoothers.kernel_sums import (
    kernel_average,
    leave_one_out,
    log_constants,
    log_likelihoods,
)

CRITERIA = ("loo", "risk", "scott")
_MANY_CLASSES = 5  # from this number of classes on, the neighbours are counted
_SELECTION_FOLDS = 5


class DirichletKernel(Smoother):
    r"""Leave-one-out kernel regression on the simplex with Dirichlet kernels (P24 eq. 11-12).

    :math:`\hat C(s_i) = \sum_{j \ne i} k(s_i, s_j) Y_j / \sum_{j \ne i} k(s_i, s_j)`, where
    :math:`k(\cdot, s_j)` is the Dirichlet density with parameter :math:`s_j / h + 1`. For two
    columns it is the Beta kernel, whose sums take near-linear time. For more columns all pairs are
    summed by blocks, in O(n^2 K) time and O(n K) memory. It is consistent as h goes to 0 and
    :math:`n h^{(K-1)/2}` to infinity.

    With five or more classes, no affordable n is large enough to estimate :math:`E[Y|S]` this way.
    So `fit` counts the effective neighbours of an average, and warns if even calibrated forecasts
    would appear miscalibrated. In this case prefer `LogitSmoother`, or the classwise or top-label
    notion.

    Parameters
    ----------
    bandwidth : {"loo", "risk", "scott"}, float or callable, default="loo"
        The bandwidth h > 0.

        - "loo" maximises the leave-one-out log likelihood of the *forecasts* on [1e-5, 1], as in
          P24. It does not depend on the labels. With ties in the forecasts it tends to 0.
        - "risk" minimises the leave-one-out loss of :math:`\hat C`, cross-validated for the
          labels: the criterion that matters for an error. `smooth_held_out` then chooses it for
          each of five folds from the others, so that no label affects its own estimate.
        - "scott" is the rule :math:`n^{-2/(K+3)} \sum_k V[S_k] / \sum_k E[S_k (1 - S_k)]`: the
          spread of a kernel is that of the forecasts, shrunk at the optimal rate.
        - A callable gets (n_samples, n_columns) and returns a number.

        If forecasts are crowded, the three rules take the kernels in units of the ranks: the
        log-probabilities of the quantile of the rank p first become log(p / (1 - p)), by lines
        between knots, and then probabilities again. This loses nothing, as E[Y|S] depends on which
        forecasts are equal, and not on their distances. They are crowded if, in the median, a tenth
        of the different forecasts is closer together than 1.5 standard deviations of the kernel of
        bandwidth 1e-5, or than .2 % of the range of the logits.

        With more than m = 2,000 forecasts (1,000 for two columns), the first two rules begin on a
        random subsample of m forecasts. The bandwidth found there is multiplied by (n / m)^(-2 / (K
        + 3)), and at most ten evaluations on all rows follow.
    refinement : {"entropy", "loss"}, default="entropy"
        How refinement and the method "risk" of :func:`~skcalib.proper_calibration_error` use
        :math:`\hat C`: its mean entropy, as in P24 eq. 14-15, or its mean loss on the held-out
        labels, which makes "risk" a lower bound in expectation.
    loss : {"brier", "log", "spherical", "rps"}, ProperScore or None, default=None
        The loss of ``bandwidth="risk"``. None is the loss in use, or "brier" if there is none.
    random_state : int, RandomState instance or None, default=0
        Seed of the subsample and the folds.
    n_jobs : int or None, default=None
        Threads over blocks of rows where all pairs are summed: for more than two columns, and for
        at most 1.1 million pairs of two.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth in use; of the ranks, if these are the units.
    bandwidth_search_ : BandwidthSearch or None
        The curve of the criterion, if one was searched: ``bandwidths``, ``costs`` (minus the mean
        log likelihood, or the mean loss), ``bandwidth``, ``criterion``, ``n_samples``.

    See Also
    --------
    skcalib.smoothers.NearestNeighborsSmoother : Neighbours in place of a kernel.
    skcalib.recalibration.KernelRecalibrator : The same as a recalibrator.

    Examples
    --------
    >>> from skcalib import proper_calibration_error
    >>> from skcalib.smoothers import DirichletKernel
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> error = proper_calibration_error(
    ...     data.y, data.y_proba, loss="log", smoother=DirichletKernel(0.01), method="direct")
    >>> round(error, 3), round(data.truth["log"], 3)
    (0.033, 0.037)
    """

    def __init__(
        self,
        bandwidth: Bandwidth = "loo",
        refinement: Literal["loss", "entropy"] = "entropy",
        loss: LossLike | None = None,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.refinement = refinement
        self.loss = loss
        self.random_state = random_state
        self.n_jobs = n_jobs

    def for_loss(self, score: ProperScore) -> Smoother:
        """The same kernel; one that chooses its bandwidth by the risk takes this loss."""
        adapts = self._by_risk() and self.loss is None
        return clone(self).set_params(loss=score) if adapts else self

    def fit(
        self, forecast: np.ndarray, target: np.ndarray, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Store the data points and choose the bandwidth."""
        self._store(forecast, target, sample_weight)
        if self.loss is not None:
            look_up(self.loss, SCORES, "loss", kind=ProperScore)
        self.bandwidth_search_ = None
        by_rule = isinstance(self.bandwidth, str)
        self._spread_by(self._curve_of(self.forecast_) if by_rule else None)
        self.bandwidth_ = self._choose_bandwidth()
        if self.forecast_.shape[1] >= _MANY_CLASSES and len(self.forecast_) > 1:
            _warn_few_neighbours(self, check_random_state(self.random_state))
        return self

    def smooth(self, values: ArrayLike | None = None) -> np.ndarray:
        """Weighted mean of `values` over all *other* samples."""
        values = self._values(values)
        flat = values.reshape(len(values), -1)
        return self._leave_one_out(flat)(self.bandwidth_).reshape(values.shape)

    def smooth_held_out(self, values: ArrayLike | None = None) -> np.ndarray:
        """As `smooth`, with a bandwidth chosen without the label of the sample."""
        if not self._by_risk():
            return self.smooth(values)
        values = self._values(values)
        flat = values.reshape(len(values), -1)
        averages, average_others = np.empty_like(flat), self._leave_one_out(flat)
        # Folds are not stratified, as they must not depend on the labels.
        folds = check_folds(_SELECTION_FOLDS, flat[:, :1] * 0, random_state=self.random_state)
        parts = (self._part(train) for train, _ in folds)
        searches = Parallel()(delayed(part._search)(full=False) for part in parts)
        chosen = [search.bandwidth for search in searches]
        for bandwidth in set(chosen):  # folds with the same bandwidth share their sums
            smoothed = average_others(bandwidth)
            for (_, test), of_fold in zip(folds, chosen, strict=True):
                if of_fold == bandwidth:
                    averages[test] = smoothed[test]
        return averages.reshape(values.shape)

    def predict(self, forecast: np.ndarray) -> np.ndarray:
        """Weighted mean of the fitted target at new forecasts."""
        check_is_fitted(self)
        target = self.target_.reshape(len(self.target_), -1)
        points = self._spread(np.asarray(forecast, dtype=np.float64))
        return kernel_average(
            points, self._points, self.weight_, target, self.bandwidth_, self.n_jobs
        )

    def _write(self, add, x):
        shape = self._points / self._points.sum(axis=1, keepdims=True) / self.bandwidth_
        positive = {"least": np.log(np.finfo(float).tiny), "far": -1e300}
        log = add("log", add("normalise", x, x), **positive)
        if self._curve is not None:
            log = add("log", add("softmax", self._curve._write(add, log)), **positive)
        terms = add("matrix", log, coef=shape.T)
        terms = add("scale", terms, shift=log_constants(shape, self.weight_))
        return add("matrix", add("softmax", terms), coef=self.target_[:, 1:])

    def log_likelihood(self) -> float:
        """Leave-one-out log likelihood of the forecasts under their kernel density estimate.

        The sum over i of the log of the mean over j != i of k(s_i, s_j).
        """
        check_is_fitted(self)
        likelihoods = log_likelihoods(self._points, self.weight_, self.n_jobs)
        return float(likelihoods(np.array([self.bandwidth_]))[0])

    def _refit(self, forecast, values, weight, cluster=None):
        if cluster is None or is_finite(self.bandwidth):
            return super()._refit(forecast, values, weight)
        # Leaving out one sample of a cluster leaves the others, and the smallest bandwidth.
        rows = sample_of_each_cluster(cluster)
        chosen = clone(self).fit(forecast[rows], values[rows], weight[rows])
        kernel = chosen._with_samples(forecast, values, weight)
        kernel.bandwidth_ = chosen.bandwidth_
        return kernel.predict

    def _by_risk(self):
        return isinstance(self.bandwidth, str) and self.bandwidth == "risk"

    def _choose_bandwidth(self):
        bandwidth = self.bandwidth
        if isinstance(bandwidth, str) and bandwidth == "scott":
            n_samples, n_columns = self._points.shape
            share = self.weight_ / self.weight_.sum()
            spread = np.sum(share @ (self._points - share @ self._points) ** 2)
            scale = np.sum(share @ (self._points * (1 - self._points)))
            if scale == 0:  # every forecast is 0 or 1: any bandwidth separates them
                return 1e-5
            with np.errstate(over="ignore"):  # forecasts close to 0 or 1: the largest bandwidth
                wide = n_samples ** (-2 / (n_columns + 3)) * spread / scale
            return float(np.clip(wide, 1e-5, 1))
        if isinstance(bandwidth, str) and bandwidth in CRITERIA:
            self.bandwidth_search_ = self._search()
            return self.bandwidth_search_.bandwidth
        if callable(bandwidth) and not isinstance(bandwidth, type):
            bandwidth = bandwidth(*self.forecast_.shape)
            if not is_finite(bandwidth) or not bandwidth > 0:
                raise ValueError(f"bandwidth must be positive and finite, got {shown(bandwidth)}.")
        if not is_finite(bandwidth) or not bandwidth > 0:
            raise ValueError(
                "bandwidth must be 'loo', 'risk', 'scott', a positive number or a function of "
                f"(n_samples, n_columns), got {shown(bandwidth)}."
            )
        return float(bandwidth)

    def _curve_of(self, forecast):
        return crowded(forecast, 10.0**LOWEST)

    def _spread_by(self, curve):
        """Set the function that spreads crowded forecasts, and the points of the kernels."""
        self._curve = curve
        self._points = self._spread(self.forecast_)

    def _spread(self, forecast):
        if self._curve is None:
            return forecast
        return softmax(self._curve(log_positive(forecast)), axis=1)

    def _with_samples(self, forecast, target, weight):
        """The same kernel on other samples, before its bandwidth is chosen."""
        kernel = clone(self)
        kernel._store(forecast, target, weight)
        kernel._spread_by(self._curve)
        return kernel

    def _part(self, rows):
        return self._with_samples(self.forecast_[rows], self.target_[rows], self.weight_[rows])

    def _search(self, full=True):
        n_samples, n_columns = self.forecast_.shape
        n_subsample = 1000 if n_columns == 2 else 2000
        subsample_cost, shrink = None, 1.0
        if n_samples > n_subsample:
            rng = check_random_state(self.random_state)
            subsample_cost = self._part(rng.choice(n_samples, n_subsample, replace=False))._cost()
            shrink = (n_samples / n_subsample) ** (-2 / (n_columns + 3))
        return search_bandwidth(
            self._cost(),
            criterion="risk" if self._by_risk() else "likelihood",
            n_samples=n_samples,
            subsample_cost=subsample_cost,
            shrink=shrink,
            full=full,
        )

    def _cost(self):
        """The criterion as a function of bandwidths."""
        total = self.weight_.sum()
        if not self._by_risk():
            likelihoods = log_likelihoods(self._points, self.weight_, self.n_jobs)
            return lambda bandwidths: -likelihoods(bandwidths) / total
        score = look_up(
            Brier() if self.loss is None else self.loss, SCORES, name="loss", kind=ProperScore
        )
        target = self.target_.reshape(len(self.target_), -1)
        # A class with a single sample gets probability 0 there at any bandwidth: it is omitted.
        alone = np.sum(target > 0, axis=0) == 1
        weight = self.weight_ * ~(target[:, alone] > 0).any(axis=1)
        average_others = self._leave_one_out(target)

        def risk(bandwidth):
            losses = score.loss(target, average_others(bandwidth))
            return float(weight[weight > 0] @ losses[weight > 0] / total)

        return lambda bandwidths: np.array([risk(h) for h in bandwidths])

    def _leave_one_out(self, values):
        """The function of a bandwidth that averages values (n, C) over all other samples."""
        return leave_one_out(self._points, self.weight_, values, self.n_jobs)


# --- Search for the bandwidth ---------------------------------------------------------------------


LOWEST, HIGHEST = -5.0, 0.0  # decimal logarithms of the smallest and largest bandwidth tried
MOST_EVALUATIONS = 10  # of the criterion on all rows, where a subsample has bracketed it
_COARSE = np.linspace(LOWEST, HIGHEST, 11)
_STEP = 0.15  # spacing, in decades, of the first three evaluations on all rows
# Spacing of a grid to which the centre is rounded: the searches for the classes of one problem then
# try the same bandwidths and share the preparation of each.
_GRID = 0.025
_CLOSE = 1e-3  # tolerance, in decades
_AT_END = 0.06  # the same where the best is the smallest or the largest bandwidth


@dataclass(frozen=True)
class BandwidthSearch:
    """Bandwidths tried, in increasing order, and their costs; lower is better.

    The cost is minus the mean leave-one-out log likelihood of the forecasts for the ``criterion``
    "likelihood", and the mean leave-one-out loss of the calibrated scores for "risk", on all
    ``n_samples`` rows.
    """

    criterion: str
    bandwidths: np.ndarray
    costs: np.ndarray
    bandwidth: float
    n_samples: int


class _Curve:
    """Costs by log bandwidth, in increasing order, evaluated on request."""

    def __init__(self, cost):
        self._cost, self.logs, self.costs = cost, np.empty(0), np.empty(0)

    def at(self, logs):
        """Evaluate several at once: the criterion shares terms across bandwidths."""
        new = np.setdiff1d(np.clip(logs, LOWEST, HIGHEST), self.logs)
        if len(new):
            logs, costs = np.append(self.logs, new), np.append(self.costs, self._cost(10.0**new))
            order = np.argsort(logs)
            self.logs, self.costs = logs[order], costs[order]

    def best(self):
        """The best point, and the points next to it, None beyond the ends."""
        i = int(np.argmin(self.costs))
        places = (i - 1 if i > 0 else None, i, i + 1 if i + 1 < len(self.logs) else None)
        return tuple(None if j is None else (self.logs[j], self.costs[j]) for j in places)


def search_bandwidth(
    cost: Callable[[np.ndarray], np.ndarray],
    *,
    criterion: str,
    n_samples: int,
    subsample_cost: Callable[[np.ndarray], np.ndarray] | None = None,
    shrink: float = 1.0,
    full: bool = True,
) -> BandwidthSearch:
    """Minimise a cost over bandwidths in [1e-5, 1] -> `BandwidthSearch`.

    ``cost(bandwidths)`` returns an array. With ``subsample_cost`` the bracket is found on the
    subsample and multiplied by ``shrink``; ``full=False`` stops there and takes its best bandwidth.
    """
    bracket = _Curve(subsample_cost or cost)
    bracket.at(_COARSE)
    for step in (0.25, 0.125):
        bracket.at(bracket.best()[1][0] + np.array([-step, step]))
    curve = bracket
    if subsample_cost is None:
        _refine(curve, len(curve.logs) + 4)
    elif not full:
        _refine(curve, len(curve.logs) + 2)
    else:
        curve = _Curve(cost)
        centre = _GRID * np.round((bracket.best()[1][0] + np.log10(shrink)) / _GRID)
        curve.at(centre + _STEP * np.array([-1, 0, 1]))
        step = 2 * _STEP
        while len(curve.logs) < MOST_EVALUATIONS - 3:  # at an end: go further
            left, (x, _), right = curve.best()
            if (left and right) or not LOWEST < x < HIGHEST:
                break
            curve.at([x - step if left is None else x + step])
            step *= 2
        _refine(curve, MOST_EVALUATIONS)
    bandwidths = np.clip(10.0**curve.logs, 10.0**LOWEST, 10.0**HIGHEST)
    # Where every cost is infinite, the widest kernel is taken.
    chosen = float(bandwidths[np.argmin(curve.costs) if np.isfinite(curve.costs).any() else -1])
    if subsample_cost is not None and not full:
        chosen = max(chosen * shrink, 10.0**LOWEST)
    return BandwidthSearch(criterion, bandwidths, curve.costs, chosen, n_samples)


def _refine(curve, most):
    """Vertices of parabolas through the best and its neighbours; halves where one is missing."""
    while len(curve.logs) < most:
        left, (b, fb), right = curve.best()
        if left is None and right is None:  # the first three points are the same end
            x = b + (_STEP if b == LOWEST else -_STEP)
        elif left is None or right is None:
            x = 0.5 * (b + (left or right)[0])
            if abs(x - b) < _AT_END:
                return
        else:
            (a, fa), (c, fc) = left, right
            if not np.isfinite([fa, fb, fc]).all():
                return
            rise, fall = (b - a) * (fb - fc), (b - c) * (fb - fa)
            if rise == fall:  # the points lie on a line
                return
            x = b - 0.5 * ((b - a) * rise - (b - c) * fall) / (rise - fall)
        if abs(x - b) < _CLOSE:
            return
        curve.at([x])


# --- Number of effective neighbours ---------------------------------------------------------------


_PROBES = 200  # number of forecasts whose neighbours are counted
_TOO_FAR = 0.01  # largest error of a calibrated forecast, as a share of the uncertainty


def _warn_few_neighbours(kernel, rng):
    """Warn where the kernel estimate of a calibrated forecast would be far from zero."""
    # With the shares a_ij of the others in the average at s_i, the effective number of neighbours
    # is 1 / sum_j a_ij^2 (Kish). The error is the direct Brier error of a calibrated forecast,
    # |sum_j a_ij s_j - s_i|^2 + sum_j a_ij^2 (1 - |s_i|^2): the squared bias of averaging plus the
    # variance of the labels.
    (n_samples, n_columns), bandwidth = kernel.forecast_.shape, kernel.bandwidth_
    rows = rng.choice(n_samples, min(_PROBES, n_samples), replace=False)
    points, scaled = kernel.forecast_[rows], kernel._points / bandwidth
    log_kernel = log_positive(kernel._points[rows]) @ scaled.T
    log_kernel += log_constants(scaled, kernel.weight_)
    log_kernel[np.arange(len(rows)), rows] = -np.inf
    share = softmax(log_kernel, axis=1)
    square = np.sum(share**2, axis=1)
    moved = np.sum((share @ kernel.forecast_ - points) ** 2, axis=1)
    uncertainty = 1 - np.sum(points**2, axis=1)
    error = float(np.mean(moved + uncertainty * square))
    if error > _TOO_FAR * float(np.mean(uncertainty)):
        warnings.warn(
            f"A kernel average here uses {np.median(1 / square):.3g} effective neighbours (median; "
            f"{n_samples} samples of {n_columns} columns, bandwidth {bandwidth:.2g}): even a "
            f"calibrated forecast would have a Brier calibration error of about {error:.2g}."
            " Use the default smoother, notion='classwise' or 'top_label', or, where the bandwidth "
            "was not chosen by it, DirichletKernel('risk').",
            UserWarning,
            stacklevel=3,
        )
