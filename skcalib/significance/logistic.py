"""Likelihood ratio tests of the calibration intercept and slope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_expit, logit
from scipy.stats import t as student

from skcalib._util.arithmetic import merge_ties
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib._util.validation import look_up
from skcalib.data.clusters import cluster_sums, effective_size, inflation
from skcalib.significance.binary import BinaryTest, check_binary, run_test
from skcalib.stats.pvalues import CalibrationTest

if TYPE_CHECKING:
    from skcalib.data.problem import LabelsLike, Problem


@checks_parameters
def logistic_calibration_test(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    hypothesis: Literal["joint", "intercept", "slope"] = "joint",
    n_resamples: int | None = None,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> CalibrationTest:
    r"""Likelihood ratio test of intercept 0 and slope 1 in the logistic recalibration (Cox 1958).

    In the model

    .. math::

        \operatorname{logit} P(Y = 1 | p) = a + b \operatorname{logit} p

    a calibrated forecast has a = 0 and b = 1. With the log likelihood :math:`\ell(a, b)` and its
    maximum :math:`(\hat a, \hat b)`, the statistics of Cox [1]_ and of Miller, Hui and Tierney [2]_
    are

    .. math::

        LR_{joint} = 2 \{\ell(\hat a, \hat b) - \ell(0, 1)\}, \quad
        LR_{intercept} = 2 \{\max_a \ell(a, 1) - \ell(0, 1)\}, \quad
        LR_{slope} = 2 \{\ell(\hat a, \hat b) - \max_a \ell(a, 1)\} .

    The first is the sum of the other two. Their distributions are chi-square with 2, 1 and 1
    degrees of freedom. With weights w the log likelihood of each sample is multiplied by w and
    divided by :math:`\sum w^2 / \sum w`, so equal weights have no effect. The distribution is then
    that of :math:`\sum_k \lambda_k Z_k^2` with independent standard normal Z and the eigenvalues of
    :math:`H^{-1} M`, where H is the information of the weighted likelihood and M the variance of
    its gradient. With clusters M is the sum of the squared gradients of the clusters. The normal
    variables are then divided by the root of a mean of G - 1 squares of normal variables, where G
    is the effective number of clusters. The test detects errors that are linear in the logit: a
    wrong mean and forecasts that are too extreme or too moderate. It has little power against other
    errors.

    The level of "joint" at .05 was .046 to .057 for 500 and 5,000 independent samples. Other
    levels: :ref:`binary_tests`, and with clusters :ref:`clusters`.

    Parameters
    ----------
    hypothesis : {"joint", "intercept", "slope"}, default="joint"
        "joint": intercept 0 and slope 1; "intercept": intercept 0, given that the slope is 1;
        "slope": slope 1, for any intercept.
    n_resamples, random_state, n_jobs
        As in :func:`~skcalib.spiegelhalter_test`. For "slope" labels are drawn given the number of
        events: their distribution then does not depend on the unknown intercept. Few labels are
        those that are uncertain with the fitted intercept.
    sample_weight, labels, pos_label
        As in :func:`~skcalib.spiegelhalter_test`.

    Returns
    -------
    CalibrationTest
        ``statistic`` LR, ``pvalue``, ``estimate`` and ``method``. The estimate is Harrell's
        unreliability index :math:`U = (LR - \sum_k \lambda_k) / m`, with :math:`\sum_k \lambda_k =
        2, 1, 1` for equal weights and the effective size :math:`m = (\sum w)^2 / \sum w^2`: the
        improvement by the recalibration, corrected for optimism, in units of twice the log loss.
        Its mean is nearly 0 for a calibrated forecast. If all forecasts are equal, "joint" is the
        same as "intercept". A forecast of 0 or 1 that was right does not count. One that was wrong
        makes the statistic infinite, with p = 0.

    Raises
    ------
    ValueError
        For more than two classes. For "slope" with a single class among the uncertain forecasts, or
        with equal forecasts; for `groups` with labels to be drawn.

    See Also
    --------
    calibration_intercept_slope : Estimates of the intercept and the slope, with intervals.
    spiegelhalter_test : Against forecasts that are too extreme or too moderate.
    skcalib.significance.cumulative_test : Against every kind of error.

    References
    ----------
    .. [1] D. R. Cox. Two further applications of a model for binary regression. Biometrika 45,
       1958.
    .. [2] M. E. Miller, S. L. Hui and W. M. Tierney. Validation techniques for logistic regression
       models. Statistics in Medicine 10, 1991.
    .. [3] J. T. Kent. Robust properties of likelihood ratio tests. Biometrika 69, 1982.

    Examples
    --------
    >>> from skcalib.significance import logistic_calibration_test
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, score_temperature=0.8, random_state=0)
    >>> for hypothesis in ("joint", "intercept", "slope"):
    ...     found = logistic_calibration_test(data.y, data.y_proba, hypothesis=hypothesis)
    ...     print(f"{hypothesis:<10}{found.statistic:.2f}  {found.pvalue:.2g}")
    joint     20.35  3.8e-05
    intercept 0.09  0.77
    slope     20.26  6.8e-06
    """
    law = look_up(hypothesis, HYPOTHESES, "hypothesis")
    problem = check_binary(
        "logistic_calibration_test",
        y_true,
        y_proba,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
        groups=groups,
    )
    if problem.cluster is not None and n_resamples:
        raise ValueError(
            "Labels that depend on each other within clusters cannot be drawn: leave out "
            "n_resamples, or groups."
        )
    return run_test(law(problem), problem, n_resamples, random_state, n_jobs)


# --- Statistics of labels, and their laws under calibration ---------------------------------------


class JointRatio(BinaryTest):
    """Likelihood ratio of intercept and slope against 0 and 1."""

    name = "Likelihood ratio of intercept and slope"
    robust = True
    cost = 100  # a statistic is the maximum of a likelihood

    def __init__(self, problem: Problem) -> None:
        p = self.p = problem.forecast[:, 1]
        mass = problem.weight.sum()
        unit = problem.squares.sum() / mass
        self.size = mass / unit
        uncertain = self.uncertain = (problem.forecast > 0).all(axis=1)
        forecast = problem.forecast[uncertain]
        self.log_odds = np.log(forecast[:, 1]) - np.log(forecast[:, 0])
        self.weight = problem.weight[uncertain] / unit
        self.squares = problem.squares[uncertain] / unit**2
        self.cluster, self.units = None, np.inf
        if problem.cluster is not None:
            self.cluster = problem.cluster[uncertain]
        information = self._information(self.log_odds)
        self.design = self._design(merge_ties(p[uncertain]), information[0])
        residual = problem.target[uncertain, 1] - p[uncertain]
        self.law = self._law(self.design, information, residual)

    def _information(self, log_odds):
        """Weight times variance (n,) relative to the largest, and the logarithm of that one."""
        logs = np.log(self.weight) + log_expit(log_odds) + log_expit(-log_odds)
        most = logs.max() if len(logs) else 0.0
        return np.exp(logs - most), most  # products of small numbers would be 0

    def _design(self, p, information):
        """Columns of the intercept and of the slope, orthogonal in the information."""
        intercept = np.ones((len(p), 1))
        if len(p) == 0 or np.ptp(p) == 0:
            return intercept[:, : len(p)]
        centre = np.average(self.log_odds, weights=information)
        slope = self.log_odds - centre
        spread = np.average(slope**2, weights=information)
        if spread < _LEAST_SPREAD:  # only forecasts that are equal have information
            return intercept
        return np.column_stack([intercept, slope / np.sqrt(spread)])

    def _law(self, columns, known, residual):
        """Eigenvalues of the information's inverse times the variance of the gradient."""
        information, most = known
        scaled = columns / np.sqrt(information @ columns**2)  # the columns are orthogonal
        if self.cluster is None:
            scale = np.where(self.squares > 0, self.squares / self.weight, self.weight)
            return np.linalg.eigvalsh((scaled.T * (scale * information)) @ scaled)
        leverage = cluster_sums((information[:, None] * scaled**2).mean(axis=1), self.cluster)
        self.units = effective_size(leverage)  # of shares that sum to 1
        residual = self.weight * residual * np.exp(-most / 2)
        gradient = cluster_sums(scaled * residual[:, None], self.cluster)
        gradient /= 1 - np.minimum(leverage, 0.5)[:, None]  # as without the cluster itself
        return np.linalg.eigvalsh(inflation(self.units) * gradient.T @ gradient)

    def statistic(self, y: np.ndarray) -> np.ndarray:
        certain = ~self.uncertain
        wrong = (y[..., certain] != (self.p[certain] > 0.5)).any(axis=-1)
        events = np.atleast_2d(self.weight * y[..., self.uncertain])
        ratio = 2 * np.maximum(self._gains(events), 0.0)
        return np.where(wrong, np.inf, ratio.reshape(y.shape[:-1]))

    def _gains(self, events):
        return _likelihood_gains(self.design, self.log_odds, self.weight, events)

    def least_loss(self, y: np.ndarray) -> float:
        """Negative log likelihood of the recalibrated forecast of uncertain labels (m,)."""
        events = self.weight * y
        loss = self.weight @ np.logaddexp(0, self.log_odds) - events @ self.log_odds
        (gain,) = _likelihood_gains(self.design, self.log_odds, self.weight, events[None])
        return float(loss - gain)

    def estimate(self, y: np.ndarray) -> float:
        """Unreliability index."""
        return (self.statistic(y) - self.law.sum()) / self.size

    def pvalue(self, statistic: float) -> float:
        """P-value of a sum of weighted squares of normal variables."""
        return weighted_squares_sf(statistic, self.law, max(self.units - 1, 1.0))


class InterceptRatio(JointRatio):
    """Likelihood ratio of the intercept against 0, given that the slope is 1."""

    name = "Likelihood ratio of the intercept"

    def _design(self, p, information):
        return np.ones((len(p), min(1, len(p))))


class SlopeRatio(JointRatio):
    """Likelihood ratio of the slope against 1, with an unknown intercept."""

    name = "Likelihood ratio of the slope"
    drawn = "labels drawn given the number of events"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        y = problem.target[self.uncertain, 1]
        why = None
        if len(y) == 0 or np.average(y, weights=self.weight) in (0, 1):  # also by rounding
            why = "all labels of forecasts other than 0 and 1 are of one class"
        else:
            shifted = self._shifted(self.weight, y)
            information = self._information(shifted)
            design = self._design(self.log_odds, information[0])
            if min(design.shape[1], self.design.shape[1]) == 1:
                why = "all forecasts are equal"
        if why:
            raise ValueError(
                f"There is no test of the slope: {why}. Use hypothesis='intercept', or more "
                "samples."
            )
        self.law = self._law(design[:, 1:], information, y - expit(shifted))
        # Given their number, the events have the same law for every intercept.
        size = np.ones(len(self.p))
        if problem.square is not None:
            size = problem.weight**2 / problem.square
        size = size[self.uncertain]
        event = self.p.copy()
        event[self.uncertain] = expit(self._shifted(size, y))
        self.null = replace(problem, forecast=np.column_stack([1 - event, event]))
        self.number = size @ y, size

    def _shifted(self, weight, y):
        """Log odds with the intercept that gives the sum of the labels."""
        mean = np.average(y, weights=weight)
        low, high = logit(mean) - self.log_odds.max() - 1, logit(mean) - self.log_odds.min() + 1
        shift = brentq(lambda d: weight @ (expit(self.log_odds + d) - mean), low, high)
        return self.log_odds + shift

    def _gains(self, events):
        intercept = self.design[:, :1]
        return super()._gains(events) - _likelihood_gains(
            intercept, self.log_odds, self.weight, events
        )

    def few(self, problem: Problem) -> bool:
        """Whether few labels are uncertain with the fitted intercept."""
        return super().few(self.null)

    def draws(
        self, problem: Problem, n_resamples: int, rng: np.random.RandomState
    ) -> Iterable[np.ndarray]:
        """Labels given the number of events: those labelings that have it are kept."""
        observed, size = self.number
        while n_resamples > 0:
            for labels in super().draws(self.null, 8 * n_resamples, rng):
                number = labels[:, self.uncertain] @ size
                accepted = labels[np.abs(number - observed) <= 0.5][: max(n_resamples, 0)]
                n_resamples -= len(accepted)
                yield accepted


HYPOTHESES = {"joint": JointRatio, "intercept": InterceptRatio, "slope": SlopeRatio}
_LEAST_SPREAD = 1e-60  # of log odds: forecasts that are not tied differ by more than 1e-9
_LEAST_CURVATURE = 1e-200  # of a log likelihood whose terms underflow
_FARTHEST = 2000.0  # change of log odds in a step: those of forecasts are in (-745, 745)
_ANGLE = (np.arange(2048) + 0.5) / 2048 * np.pi  # the trapezoidal rule of a periodic function


def _likelihood_gains(columns, offset, weight, events):
    r"""Maxima of the log likelihoods of many labelings, above those of the forecasts themselves.

    In the model :math:`logit P(Y = 1) = o + X \theta` with columns (n, k), an offset (n,), weights
    (n,) and weights of the events (m, n), by Newton's method for all labelings at once.
    """
    totals, base = events @ columns, np.logaddexp(0, offset)
    gains, theta = np.zeros(len(totals)), np.zeros(totals.shape)
    products = np.einsum("ij,ik->ijk", columns, columns).reshape(
        len(columns), columns.shape[1] ** 2
    )
    ridge, widest = 1e-12 * np.eye(columns.shape[1]), np.abs(columns).max(axis=0, initial=0.0)
    left = np.arange(len(totals) if columns.size else 0)  # labelings without a maximum yet
    for _ in range(100):
        linear = offset + theta[left] @ columns.T
        chance = expit(linear)
        gradient = totals[left] - (weight * chance) @ columns
        hessian = (weight * chance * expit(-linear)) @ products
        hessian = hessian.reshape(len(left), *ridge.shape)
        trace = np.trace(hessian, axis1=1, axis2=2)[:, None, None]
        hessian += np.maximum(ridge * trace, _LEAST_CURVATURE * (ridge > 0))
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        rise = np.einsum("rk,rk->r", gradient, step)
        done = rise <= 1e-10 * np.maximum(1.0, 1e-4 * gains[left])
        gains[left[done]] += rise[done] / 2
        left, step, rise = left[~done], step[~done], rise[~done]
        if len(left) == 0:
            break
        scale = np.minimum(1.0, _FARTHEST / (np.abs(step) @ widest))
        step, rise = scale[:, None] * step, scale * rise
        scale, short = np.ones(len(left)), np.arange(len(left))
        while len(short):
            rows = left[short]
            new = theta[rows] + scale[short, None] * step[short]
            value = np.einsum("rk,rk->r", totals[rows], new)
            value -= (np.logaddexp(0, offset + new @ columns.T) - base) @ weight
            enough = value >= gains[rows] + 1e-4 * scale[short] * rise[short]
            enough |= scale[short] < 1e-6  # rounding: no step raises the likelihood
            better = rows[enough]
            theta[better], gains[better] = new[enough], np.maximum(value, gains[rows])[enough]
            short = short[~enough]
            scale[short] /= 2
    return gains


def weighted_squares_sf(x: float, law: np.ndarray, freedom: float = np.inf) -> float:
    r"""P(sum of :math:`\lambda_k Z_k^2` > x) for at most two weights lambda.

    With finite degrees of freedom the squares are divided by the mean of as many independent ones.

    In polar coordinates :math:`Z_1^2 + Z_2^2` is chi-square with 2 degrees of freedom, for any
    angle, over which the tail is averaged.
    """
    if len(law) == 0:  # every forecast is 0 or 1
        return float(x == 0)
    if len(law) == 1:
        return float(2 * student.sf(np.sqrt(x / law[0]), freedom))
    spread = law[0] * np.cos(_ANGLE) ** 2 + law[1] * np.sin(_ANGLE) ** 2
    if np.isfinite(freedom):
        return float(np.mean((1 + x / (freedom * spread)) ** (-freedom / 2)))
    return float(np.mean(np.exp(-x / (2 * spread))))
