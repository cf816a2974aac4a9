r"""E-value of calibration for a fixed set of samples, and combinations of tests.

Tests are combined by their e-values or p-values. The test that is valid after every sample is in
`monitoring.sequential`.

Batch by batch, bets are drawn before the labels of the batch are used. They have a Gaussian prior
in a few directions that the forecasts determine: see `calibration_e_value`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.special import chdtrc, logsumexp
from sklearn.utils import check_random_state

from skcalib._util.messages import shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib._util.validation import look_up
from skcalib.data.notions import NOTIONS, NotionLike, resolve_notion
from skcalib.data.problem import check_problem
from skcalib.errors.kernel import resolve_kernel
from skcalib.kernels import Kernel, KernelLike, any_order
from skcalib.stats.pvalues import CalibrationTest, e_value_test

_VARIANCES = (4.0, 30.0)  # of the prior, in units of the most informative direction
_MOST_VARIANCE = 1000.0  # of the prior of a function at a point
_DRAWS = 200  # of bets, for each variance and batch
_BATCHES = 2.0 ** np.arange(-6, 0.5, 0.5)  # their ends, relative to the number of samples
_WIDER = 1.1  # variance of the draws, relative to the normal approximation of the integrand
_PRIOR_EVERY = 4  # draws, one is from the prior


@checks_parameters
def calibration_e_value(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kernel: KernelLike = None,
    notion: NotionLike = "canonical",
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> CalibrationTest:
    r"""E-value of calibration: evidence that can be multiplied over independent data.

    The null hypothesis is that, given all forecasts, the labels are independent and label
    :math:`Y_i` follows the forecast :math:`S_i`. An e-value is a nonnegative statistic whose
    expectation is at most 1 under the null, so by Markov's inequality

    .. math:: P(e \ge 1 / \alpha) \le \alpha

    for every number of samples, and ``min(1, 1 / e)`` is a p-value. The product of the e-values of
    independent data is an e-value: see :func:`~skcalib.significance.combine_tests`. In the terms of
    Shafer's testing by betting, e is the return per unit staked of bets on the labels, at the odds
    of the forecasts. A bet is a function f of the forecast with a value for each class. Here it has
    a prior distribution :math:`\pi`, and

    .. math::

        e = \int \prod_{i=1}^n \biggl( \frac{\exp f_{Y_i}(S_i)}
            {\sum_k S_{ik} \exp f_k(S_i)} \biggr)^{w_i} d\pi(f) .

    The denominator is the mean of the numerator over labels that follow the forecast. So the
    expectation of each factor is 1, or at most 1 for a weight below 1. The same holds for the
    average over a prior that depends only on the forecasts. The prior is Gaussian,

    .. math:: f_k(p) = g_k(p) + \theta \log p_k , \qquad \operatorname{Cov}(g(p), g(p')) = c\,
        k(p, p')\, I ,

    with the kernel of :func:`~skcalib.kernel_calibration_test`. The function g is restricted to the
    24 directions about which the labels have the most Fisher information, or to fewer if n K
    exceeds 1.4 million. The parameter :math:`\theta` is a change of the temperature, scaled to have
    as much information as the first direction. The prior is a mixture of two halves. In one c is 4
    times the squared standard error of the first direction, and in the other 30 times, but c k is
    at most 1000.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of any type; for notion ``Multilabel()`` an indicator matrix.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class. Forecasts must not depend on the labels
        of other samples, as they may in a stream: see :class:`~skcalib.SequentialCalibrationTest`.
    kernel : Kernel, str or None, default=None
        Covariance of the bets, as in :func:`~skcalib.kernel_calibration_error`.
    notion : str or Notion, default="canonical"
        "canonical", "auto", "classwise", "top_label" or "cumulative". The e-values of several
        problems are averaged, which is an e-value for any dependence. The e-value of a label of
        ``Multilabel()`` is that of its known cells, if which ones are missing does not depend on
        the labels, given the forecasts.
    random_state : int, RandomState instance or None, default=0
        Seed of the order of the batches, and of the draws of bets. The expectation under the null
        is exactly 1 for every seed, at most 1 with weights.
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights that do not depend on the labels. They are divided by the largest, so
        that :math:`w_i \le 1`: the e-value is then conservative, and a few large
        weights reduce its power.

    Returns
    -------
    CalibrationTest
        ``e_value``, at most 1.8e308; ``pvalue`` is min(1, 1 / e); ``statistic`` is log e;
        ``estimate`` is log e over the sum of the weights, in nats. Without weights, and for a
        notion with one problem, its mean is at most the calibration error of the log loss. If a
        label with probability 0 occurs, the forecasts are refuted: ``e_value`` is infinite and
        ``pvalue`` is 0.

    Raises
    ------
    ValueError
        For invalid input, as :func:`~skcalib.kernel_calibration_error`.

    See Also
    --------
    skcalib.significance.combine_tests : Product of the e-values of independent data.
    kernel_calibration_test : More powerful, for one analysis of one data set (:ref:`e_values`).
    SequentialCalibrationTest : An e-value at every time of a stream.

    Notes
    -----
    **What is random.** The integral is a product over 13 batches. The bets of a batch are drawn and
    weighted by the forecasts, the seed and the labels of earlier batches, not by those of their
    own. So the result is an e-value for every seed, and teams may use the same. Do not choose the
    largest of several seeds.

    **Order.** Batches come from the sorted forecasts. Another order of the columns, or of rows with
    equal forecasts, acts as another seed.

    **Dependent samples** (several rows of one patient) are not allowed: take one row of each. With
    every row given twice, 13 % of calibrated data sets of 400 are rejected.

    **Cost**: O(n K) for a fixed number of directions. Measured: .05 s for 400 binary forecasts,
    and 7 s for 100,000.

    References
    ----------
    .. [1] G. Shafer. Testing by betting. Journal of the Royal Statistical Society A 184, 2021.
    .. [2] V. Vovk and R. Wang. E-values: calibration, combination and applications. Annals of
       Statistics 49, 2021.
    .. [3] I. Waudby-Smith and A. Ramdas. Estimating means of bounded random variables by betting.
       Journal of the Royal Statistical Society B 86, 2024.

    Examples
    --------
    >>> from skcalib.significance import calibration_e_value
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, 3, random_state=0)
    >>> test = calibration_e_value(data.y, data.y_proba)
    >>> test.e_value > 20, test.rejects(0.05)
    (True, True)
    """
    notion = resolve_notion(notion)
    problem = check_problem(
        y_true, y_proba, notion, sample_weight, labels, pos_label, incomplete=True
    )
    kernel = resolve_kernel(kernel)
    rng = check_random_state(random_state)
    notion = notion.for_columns(len(problem.classes))
    weight, logs = problem.weight / problem.weight.max(), []
    for forecast, target in notion.problems(problem.forecast, problem.target):
        known = ~np.isnan(target[:, 0])  # of a label of an indicator matrix
        logs.append(_log_e_value(forecast[known], target[known], weight[known], kernel, rng))
    log_e = float(logsumexp(logs) - np.log(len(logs)))
    names = [name for name, known in NOTIONS.items() if known is type(notion)]
    name = names[0] if names else repr(notion)  # as callers pass the notion
    return e_value_test(log_e, log_e / float(weight.sum()), f"kernel bets, {name}")


def _log_e_value(forecast, target, weight, kernel, rng):
    hit = target.argmax(axis=1)
    forecast = np.clip(forecast, 0, 1)
    if (forecast[np.arange(len(hit)), hit] == 0).any():
        return np.inf
    directions = _Directions(forecast, float(weight.sum()), kernel)
    order = any_order(np.column_stack([forecast, weight]))  # without the labels
    order = order[rng.permutation(len(order))]
    bets = _Bets(directions, forecast[order], hit[order], weight[order])
    if not bets.directions.number:
        return 0.0  # certain forecasts that are right
    logs = [_log_average(bets, variance, rng) for variance in _VARIANCES]
    return logsumexp(logs) - np.log(len(logs))


# --- Directions of the bets, from the forecasts alone ---------------------------------------------


_ROWS = 1000  # from which directions are computed
_LANDMARKS = 40
_MOST_DIRECTIONS = 24
_MOST_FEATURES = 1 << 25  # numbers of samples, columns and directions together
_DENSE = 500  # unknowns up to which all directions are computed
_LEAST = 1e-3  # information of a direction, relative to the first
_LEAST_SPREAD = 1e-8
_LEAST_PROBABILITY = 1e-6  # in the logarithm


class _Directions:
    """Functions of a forecast (n, K) with K components.

    ``number`` is the number J of functions, ``unit`` the information about the first, and ``bound``
    that of the kernel.
    """

    def __init__(self, forecast: np.ndarray, total: float, kernel: Kernel) -> None:
        n_samples, n_classes = forecast.shape
        order = any_order(forecast)  # the same for any order of the samples
        some = forecast[order[_spaced(n_samples, _ROWS)]]
        self.landmarks = np.unique(some[_spaced(len(some), _LANDMARKS)], axis=0)
        self.parts = [
            (scalar, _inverse_root(scalar(self.landmarks, self.landmarks)), _root(matrix))
            for scalar, matrix in kernel.for_data(forecast).terms(n_classes)
        ]
        values = self._values(some)
        most = int(np.clip(_MOST_FEATURES // forecast.size, 1, _MOST_DIRECTIONS))
        information, directions = _most_informative(values, some, self._spread, most)
        size = total / len(some)
        informative = information > _LEAST * information.max(initial=0.0)
        self.maps = self._spread(directions[:, :, informative])
        fixed = np.cos(np.arange(some.size)).reshape(some.shape)  # LAPACK may return either sign
        self.maps *= np.copysign(1.0, np.tensordot(values.T @ fixed, self.maps, axes=2))
        self.unit = size * float(information.max(initial=0.0))
        logs = _centred_logs(some)
        of_slope = size * float(np.sum(some * logs**2))
        self.unit = self.unit or of_slope
        has_slope = of_slope > _LEAST_SPREAD * self.unit
        self.slope = np.sqrt(self.unit / of_slope) if has_slope else 0.0
        self.number = self.maps.shape[2] + (self.slope > 0)
        self.bound = kernel.bound() or 1.0

    def __call__(self, forecast: np.ndarray) -> np.ndarray:
        """Values (n, K, J), with the mean 0 over labels that follow the forecast."""
        values = np.tensordot(self._values(forecast), self.maps, axes=1)
        if self.slope > 0:
            values = np.concatenate([values, self.slope * _centred_logs(forecast)[:, :, None]], 2)
        values -= np.einsum("nk,nkj->nj", forecast, values)[:, None]
        values[forecast == 0] = 0.0
        return values

    def _values(self, forecast):
        """The landmarks' orthonormal functions of each scalar kernel, (n, R)."""
        return np.hstack(
            [scalar(forecast, self.landmarks) @ inverse for scalar, inverse, _ in self.parts]
        )

    def _spread(self, maps):
        """Maps (R, K, J) times the root of the matrix of each kernel."""
        parts, start = [], 0
        for _, inverse, root in self.parts:
            part = maps[start : start + inverse.shape[1]]
            parts.append(part if root is None else np.einsum("kl,rlj->rkj", root, part))
            start += inverse.shape[1]
        return np.concatenate(parts)


def _spaced(n_samples, most):
    """At most so many rows, at equal distances."""
    return np.linspace(0, n_samples - 1, min(n_samples, most)).round().astype(np.int64)


def _inverse_root(gram):
    """A matrix whose product with its transpose is the inverse, without directions of rounding."""
    values, vectors = np.linalg.eigh(gram)
    distinct = values > _LEAST_SPREAD * values[-1]
    return vectors[:, distinct] / np.sqrt(values[distinct])


def _root(matrix):
    """Symmetric root of a positive semi-definite matrix."""
    if matrix is None:
        return None
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def _most_informative(values, forecast, spread, most):
    """Information (J,) and maps (R, K, J) of the first eigenvectors of Fisher's information."""
    shape = values.shape[1], forecast.shape[1]
    size = shape[0] * shape[1]
    if size == 0:  # the kernel is zero
        return np.zeros(0), np.zeros((*shape, 0))

    def information(maps):
        bets = np.tensordot(values, spread(maps.reshape(*shape, -1)), axes=1)
        bets -= np.einsum("nk,nkj->nj", forecast, bets)[:, None]
        bets *= forecast[:, :, None]
        return spread(np.tensordot(values.T, bets, axes=1)).reshape(size, -1)

    if size <= _DENSE:
        eigenvalues, vectors = np.linalg.eigh(information(np.eye(size)))
    else:
        start = np.random.default_rng(0).standard_normal(size)
        operator = LinearOperator((size, size), matvec=information, dtype=np.float64)
        eigenvalues, vectors = eigsh(operator, k=most, v0=start, tol=1e-3)
    first = np.argsort(eigenvalues)[::-1][:most]
    return np.maximum(eigenvalues[first], 0.0), vectors[:, first].reshape(*shape, -1)


def _centred_logs(forecast):
    logs = np.log(np.maximum(forecast, _LEAST_PROBABILITY))
    return logs - np.sum(forecast * logs, axis=1, keepdims=True)


# --- The average over bets ------------------------------------------------------------------------


_BLOCK = 1 << 21  # numbers at a time
_STORED_VALUES = 36_000_000  # numbers up to which the values of the directions are stored
_STEPS, _ENOUGH = 50, 1e-3


class _Bets:
    """The log wealth of bets, coefficients of the directions, with its derivatives."""

    def __init__(self, directions, forecast, hit, weight) -> None:
        self.directions = directions
        self.forecast, self.hit, self.weight = forecast, hit, weight
        n_columns = forecast.shape[1]
        self.rows = max(1, _BLOCK // (n_columns * max(directions.number, _DRAWS)))
        self.stored: np.ndarray | None = None
        if forecast.size * directions.number <= _STORED_VALUES:
            self.stored = np.concatenate([block[-1] for block in self._blocks(0, len(weight))])

    def _blocks(
        self, start: int, stop: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Forecasts, labels, weights and values of the directions, for some rows at a time."""
        for first in range(start, stop, self.rows):
            rows = slice(first, min(first + self.rows, stop))
            p = self.forecast[rows]
            values = self.directions(p) if self.stored is None else self.stored[rows]
            yield p, self.hit[rows], self.weight[rows], values

    def log_wealth(self, bets: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Log wealth (M,) of bets (M, J) on the rows from `start` to `stop`."""
        wealth = np.zeros(len(bets))
        for p, hit, weight, values in self._blocks(start, stop):
            tilt = values @ bets.T
            won = tilt[np.arange(len(hit)), hit]
            most = tilt.max(axis=1, keepdims=True)
            tilt -= most
            np.exp(tilt, out=tilt)
            price = most[:, 0] + np.log(np.einsum("nk,nkm->nm", p, tilt))
            wealth += weight @ (won - price)
        return wealth

    def derivatives(
        self, bet: np.ndarray, variance: float, stop: int
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Log of wealth times prior of a bet (J,) on the first rows, gradient, minus Hessian."""
        value, slope = 0.0, np.zeros(len(bet))
        curvature = np.zeros((len(bet), len(bet)))
        for p, hit, weight, values in self._blocks(0, stop):
            tilt, row = values @ bet, np.arange(len(hit))
            most = tilt.max(axis=1, keepdims=True)
            share = p * np.exp(tilt - most)
            total = share.sum(axis=1, keepdims=True)
            value += float(weight @ (tilt[row, hit] - most[:, 0] - np.log(total[:, 0])))
            share /= total
            mean = np.einsum("nk,nkj->nj", share, values)
            slope += weight @ (values[row, hit] - mean)
            spread = np.sqrt(weight[:, None] * share)[:, :, None] * values
            spread = spread.reshape(-1, len(bet))
            mean *= np.sqrt(weight)[:, None]
            curvature += spread.T @ spread - mean.T @ mean
        value -= 0.5 * float(bet @ bet) / variance
        return value, slope - bet / variance, curvature + np.eye(len(bet)) / variance


def _log_average(bets, variance, rng):
    """Log of the average wealth over a normal prior, batch by batch.

    The bets of a batch are an average over the posterior of the earlier batches, by importance
    sampling. Draws and weights depend on earlier labels alone and the weights sum to one, so the
    expectation of the gain is exactly 1 for any draws. Three in four draws are from the normal
    approximation at the best bet so far. One in four is from the prior, which bounds the weights.
    """
    most = _MOST_VARIANCE / bets.directions.bound
    variance = min(variance, most * bets.directions.unit) / bets.directions.unit
    centre, some = np.zeros(bets.directions.number), np.arange(_DRAWS) % _PRIOR_EVERY == 0
    total, start = 0.0, 0
    for stop in np.unique(np.ceil(_BATCHES * len(bets.weight)).astype(int)).tolist():
        centre, curvature = _best(bets, variance, start, centre)
        root = np.linalg.cholesky(curvature)
        normal = rng.standard_normal((_DRAWS // 2, len(centre)))
        normal = np.concatenate([normal, -normal])
        drawn = centre + np.sqrt(_WIDER) * np.linalg.solve(root.T, normal.T).T
        drawn[some] = np.sqrt(variance) * normal[some]
        prior = -0.5 * np.sum(drawn**2, axis=1) / variance - 0.5 * len(centre) * np.log(variance)
        near = -0.5 * np.sum(((drawn - centre) @ root) ** 2, axis=1) / _WIDER
        near += np.log(np.diag(root)).sum() - 0.5 * len(centre) * np.log(_WIDER)
        proposal = np.logaddexp(np.log(1 - some.mean()) + near, np.log(some.mean()) + prior)
        known = bets.log_wealth(drawn, 0, start) + prior - proposal
        total += float(logsumexp(known + bets.log_wealth(drawn, start, stop)) - logsumexp(known))
        start = stop
    return total


def _best(bets, variance, stop, bet):
    """The bet of largest wealth times prior, and minus the second derivatives there (Newton)."""
    value, slope, curvature = bets.derivatives(bet, variance, stop)
    for _ in range(_STEPS):
        step = np.linalg.solve(curvature, slope)
        if slope @ step <= _ENOUGH:
            break
        size, new = 1.0, bets.derivatives(bet + step, variance, stop)
        while new[0] < value and size > _ENOUGH:
            size /= 2
            new = bets.derivatives(bet + size * step, variance, stop)
        bet = bet + size * step
        value, slope, curvature = new
    return bet, curvature


# --- Combination of several tests: products and averages of e-values, Fisher's method -------------


METHODS = ("product", "mean", "calibrated", "fisher")


@checks_parameters
def combine_tests(
    tests: Iterable[CalibrationTest],
    *,
    method: Literal["product", "mean", "calibrated", "fisher"] = "product",
) -> CalibrationTest:
    r"""Combine several calibration tests, such as those of several data sets, into one.

    The null hypothesis is that the forecasts of all sets are calibrated. With e-values
    :math:`e_j`, p-values :math:`p_j` and m tests:

    ``"product"``
       :math:`e = \prod_j e_j`, for tests of **independent** data, such as the data of several teams
       or of different years. The product can be significant where no single test is.
    ``"mean"``
       :math:`e = \frac1m \sum_j e_j`, for **any dependence**: tests of the same or of overlapping
       data, such as those of two models on the same samples.
    ``"calibrated"``
       as "product", with :math:`e_j = \int_0^1 \kappa p_j^{\kappa - 1} d\kappa = \frac{1 - p_j +
       p_j \log p_j}{p_j \log^2 p_j}` for tests that have a p-value only. The conversion loses
       power: an e-value of 20 needs p = .001.
    ``"fisher"``
       :math:`-2 \sum_j \log p_j` is compared with the chi-square distribution with 2 m degrees of
       freedom, for independent data. The number of tests must not depend on earlier results.

    For e-values the p-value is min(1, 1 / e). You may decide to add a batch to a product because of
    the result so far. The product stays an e-value if the new batch is independent given the
    earlier data.

    Parameters
    ----------
    tests : iterable of CalibrationTest
        The tests, of any kinds and notions: an e-value counts as the p-value min(1, 1 / e) in
        "fisher", and a p-value becomes an e-value in "calibrated". Data sets are independent if no
        sample is in two of them and no unit, such as a patient, has samples in two of them.
        Overlapping data sets, or two models on the same samples, are not independent.
    method : {"product", "mean", "calibrated", "fisher"}, default="product"
        How to combine. Choose the method before you see the results.

    Returns
    -------
    CalibrationTest
        ``e_value`` is e, at most 1.8e308 unless one is infinite, and None for "fisher";
        ``statistic`` is log e or Fisher's; ``estimate`` is the mean of the estimates, NaN for tests
        of different methods, whose units differ; ``method`` says what was combined.

    Raises
    ------
    ValueError
        If `tests` is empty or holds anything but `CalibrationTest` records, for p-values outside
        [0, 1], and for negative or missing e-values.

    See Also
    --------
    skcalib.significance.calibration_e_value : A test that has an e-value.

    Notes
    -----
    The result is only as valid as the tests. The p-values of
    :func:`~skcalib.kernel_calibration_test` and
    :func:`~skcalib.hosmer_lemeshow_test` are approximate, and the errors of these approximations
    add up in a product of many tests. E-values of :func:`~skcalib.significance.calibration_e_value`
    are exact for every number of samples. Do not combine a test that was selected because of its
    result, such as the smallest p-value of several.

    References
    ----------
    .. [1] R. A. Fisher. Statistical Methods for Research Workers, 4th edition. 1932.
    .. [2] V. Vovk and R. Wang. E-values: calibration, combination and applications. Annals of
       Statistics 49, 2021.
    .. [3] G. Shafer. Testing by betting. Journal of the Royal Statistical Society A 184, 2021.

    Examples
    --------
    >>> from skcalib.significance import calibration_e_value, combine_tests
    >>> from skcalib.datasets import make_tempered_simplex
    >>> teams = [make_tempered_simplex(80, 3, random_state=seed) for seed in range(4)]
    >>> tests = [calibration_e_value(team.y, team.y_proba) for team in teams]
    >>> [test.rejects(0.005) for test in tests], combine_tests(tests).rejects(0.005)
    ([False, False, False, False], True)
    >>> combine_tests(tests).method
    'product of 4 e-values: kernel bets, canonical'
    """
    look_up(method, METHODS, "method")
    if isinstance(tests, CalibrationTest):
        raise ValueError("tests must be a list of CalibrationTest records, got a single one.")
    try:
        records = list(tests)
    except TypeError:
        raise ValueError(
            f"tests must be a list of CalibrationTest records, got {type(tests).__name__}."
        ) from None
    if not records:
        raise ValueError("tests is empty: pass at least one CalibrationTest.")
    logs = [_log_of_test(test, method) for test in records]
    # The last parentheses of a method say how its null distribution is known.
    kinds = sorted({test.method.partition(" (")[0] for test in records})
    estimate = float(np.mean([test.estimate for test in records])) if len(kinds) == 1 else np.nan
    same = len({test.method for test in records}) == 1
    combined = records[0].method if same else " and ".join(kinds)
    if method == "fisher":
        statistic = -2 * float(np.sum(logs))
        pvalue = float(chdtrc(2 * len(logs), max(statistic, 0.0)))
        name = f"Fisher's method for {len(logs)} p-values: {combined}"
        return CalibrationTest(statistic, pvalue, estimate, name)
    if method == "mean":
        log_e = float(logsumexp(logs) - np.log(len(logs)))
    else:
        log_e = np.inf if np.isposinf(logs).any() else float(np.sum(logs))
    name = f"{'mean' if method == 'mean' else 'product'} of {len(logs)} e-values"
    from_pvalues = sum(test.e_value is None for test in records)
    if from_pvalues:
        name = f"{name}, {from_pvalues} of them from p-values"
    return e_value_test(log_e, estimate, f"{name}: {combined}")


def _log_of_test(test, method):
    """Logarithm of the p-value for Fisher's method, else of the e-value of a valid record.

    Where it has none, of the one computed from the p-value (Vovk and Wang, eq. 2).
    """
    if not isinstance(test, CalibrationTest):
        raise ValueError(
            f"tests must hold CalibrationTest records, got {type(test).__name__}: run a test, "
            "such as calibration_e_value, on each set of data."
        )
    if not 0 <= test.pvalue <= 1:
        raise ValueError(f"A p-value must be between 0 and 1, got {shown(test.pvalue)}.")
    if test.e_value is not None and not test.e_value >= 0:
        raise ValueError(f"An e-value must not be negative or NaN, got {shown(test.e_value)}.")
    if method == "fisher" or test.e_value is not None:
        with np.errstate(divide="ignore"):
            return np.log(test.pvalue if method == "fisher" else test.e_value)
    if method != "calibrated":
        raise ValueError(
            f"A test has no e-value ({test.method}): use calibration_e_value, or "
            "method='calibrated', which makes one from the p-value, or method='fisher'."
        )
    if test.pvalue == 0:
        return np.inf
    x = -np.log(test.pvalue)
    if x < _SERIES:
        return np.log(0.5 + x / 6 + x**2 / 24)
    return x + np.log1p(-np.exp(-x) * (1 + x)) - 2 * np.log(x)


_SERIES = 1e-4  # of -log p, below which the formula loses digits
