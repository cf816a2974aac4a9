"""Comparisons of groups and windows at equal scores.

`calibration_curve_equality_test` compares the calibration curves of two windows or models.

`EqualScores` regresses labels and groups on a basis of functions of the score. The statistic is the
covariance of the labels and the group at equal scores: see `differences_at_equal_scores`, and
doc/design.rst for its basis and bias. `compare` tests groups, and `label_sum_pvalue` computes the
p-values.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.polynomial.legendre import legvander
from scipy.linalg import solve_triangular
from scipy.special import expit
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.utils import check_random_state

from skcalib._util.arithmetic import merge_ties
from skcalib._util.formatting import pvalue_text
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib._util.validation import check_count, check_indices, weights_of_mean_one
from skcalib.data.clusters import (
    cluster_sums,
    design_effect,
    effective_size,
    effective_size_of_sums,
    number_clusters,
)
from skcalib.data.notions import NotionLike, resolve_notion
from skcalib.data.problem import ForecastSummary, LabelsLike, Problem, binary_events, check_problem
from skcalib.links.averaging import averaged_map
from skcalib.significance.comparison import two_windows
from skcalib.smoothers import IsotonicSmoother
from skcalib.smoothers._base import cross_predict, smooth_other_clusters
from skcalib.stats.pvalues import CalibrationTest, drawn_pvalue
from skcalib.stats.squared_norm import SMALLEST, chi_square_mixture_sf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skcalib._util.types import Fold

DEGREE = 7  # of the largest polynomial
#: Samples of each window, and clusters, at least.
FEWEST, FEWEST_CLUSTERS = 10, 6
#: Clusters up to which their signs are drawn.
MOST_SIGNS = 2_000
_OVERLAP = 1e-3  # share of the variance of the window that the score must leave
_DETERMINED = 1e-9  # relative size of a sum that the earlier ones determine
_FEWEST_INTERVALS, _MOST_INTERVALS = 3, 30  # of functions of the position
_RANK = 1e-8
_ISOTONIC = 20  # smallest number of samples for which jumps of the curve are estimated


@dataclass(frozen=True)
class CurveEqualityTest(CalibrationTest):
    """Result of :func:`~skcalib.grouping.calibration_curve_equality_test`.

    Attributes
    ----------
    statistic : float
        Weighted sum of squared standardised differences of the curves; at least 0.
    pvalue : float
        Probability, under equal curves, of a statistic at least as large. Never negative.
    estimate : float
        Mean difference of the frequencies of the event at equal scores, first minus second.
    method : str
        How the null distribution was computed.

    See Also
    --------
    skcalib.grouping.calibration_curve_equality_test : Makes this record.
    """

    def __str__(self) -> str:
        verdict = "The calibration curves differ" if self.rejects() else "No evidence of a change"
        return (
            f"{verdict} at the 5 % level: {pvalue_text(self.pvalue)} ({self.method}), mean "
            f"difference at equal scores {self.estimate:.3g}."
        )


@checks_parameters
def calibration_curve_equality_test(
    y_true: LabelsLike,
    y_proba: LabelsLike | None = None,
    by: ArrayLike | None = None,
    *,
    second: ArrayLike | None = None,
    notion: NotionLike = "auto",
    n_resamples: int = 999,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
) -> CurveEqualityTest:
    r"""Test that the calibration curve is the same in two windows, or for two models.

    The null hypothesis is that :math:`E[Y | S = s]` is the same function of the score s in both
    windows, wherever both have scores. The curve need not be the diagonal, and the distributions of
    the scores may differ. If the hypothesis is rejected, a map that was fitted in one window is
    wrong in the other. This is a test of the equality of two regression curves (Hall and Hart
    1990).

    With the pooled curve :math:`\hat C`, the window g (1 for the one with fewer samples or, of
    equal numbers, the lower mean of s (1 - s), whichever is the first; 0 for the other), the rank
    :math:`u \in [0, 1]` of the score, and Legendre polynomials :math:`\phi_0, \dots, \phi_7`,

    .. math::

        U_j = \sum_i w_i\, \tilde g_{ij}\, (y_i - \hat C(s_i)) , \qquad
        T = \sum_{j=0}^{7} \frac{z_j^2}{(j + 1)^2} , \qquad z = L^{-1} U ,

    where :math:`\tilde g_j` is the residual of :math:`g\, \phi_j(u)` after a regression on a
    flexible curve of the score, and L is the Cholesky factor of the covariance of U. The curve is a
    sum of a piecewise linear function of the rank, a constant for each frequent score, and a
    cross-fitted isotonic curve. So :math:`z_0` tests a shift of the log odds, :math:`z_1` a change
    of the slope beyond a shift, and so on. Smooth differences have most of the weight. An error of
    :math:`\hat C` enters only as a product with the error of the approximation, by the same curve,
    of the share of the window at each score.

    Under the null hypothesis T has the distribution of :math:`\sum_j Z_j^2 / (j + 1)^2` with
    independent standard normal Z, which is evaluated by numerical inversion. Labels are assumed
    independent given the scores, with the variance :math:`\hat C (1 - \hat C)`. With unequal
    weights the variance is estimated by squared residuals.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or ForecastSketch
        Labels of both windows, or the sketch of the first window.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), or ForecastSketch
        Probability of the positive class, or of each class; or the sketch of the second window.
    by : array-like of shape (n_samples,), optional
        The window of each sample, by two different values; the lower one is the first window.
        Omitted with sketches and with `second`.
    second : array-like of the shape of `y_proba`, optional
        Probabilities of a second model for the same samples, in place of two windows. The two rows
        of a sample are then one cluster.
    notion : {"auto", "top_label", "canonical"} or Notion, default="auto"
        The event: the positive class of two, or whether the prediction is right.
    n_resamples : int, default=999
        Number of draws of the signs of clusters. It is doubled while no statistic of a draw is as
        large as the observed one, up to 100,000 draws or fewer for many clusters.
    random_state : int, RandomState instance or None, default=0
        Seed of these draws.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient, which may have samples in both windows.

    Returns
    -------
    CurveEqualityTest
        ``statistic`` T, ``pvalue``, ``estimate`` (the mean difference of the curves at equal
        scores, first minus second, as a probability, weighted by how much the windows overlap at
        each score) and ``method``. If all labels are equal, T is 0 and p is 1.

    Raises
    ------
    ValueError
        For invalid input, fewer than 10 samples in a window, fewer than 6 clusters, windows whose
        scores do not overlap. Also unless exactly one of `by`, `second` and two sketches is given.

    See Also
    --------
    compare_windows : Differences of errors and of slopes, with intervals.
    compare_calibration : Difference of the kernel calibration errors of two models.
    calibration_by_group : The mean difference at equal scores of each of several groups.

    Notes
    -----
    **Clusters.** The covariance is that of sums over clusters. For up to 2,000 clusters the null
    distribution of T is simulated with random signs of these sums. It is exact if the distribution
    of the sum of a cluster is symmetric, and asymptotically valid for many clusters otherwise.

    The level at .05 was .025 to .068 in simulations of 50 to 1,000 samples per window. The power is
    low where the curves cross in the middle of the scores (:ref:`comparing_windows`).

    Cost: O(n) memory and time for some 40 functions of the score, and an isotonic regression. A
    sketch has one row for each cell and label.

    References
    ----------
    .. [1] P. Hall and J. D. Hart. Bootstrap test for difference between means in nonparametric
       regression. Journal of the American Statistical Association 85, 1990.
    .. [2] H. Neumeyer and H. Dette. Nonparametric comparison of regression curves: an empirical
       process approach. Annals of Statistics 31, 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.grouping import calibration_curve_equality_test
    >>> rng = np.random.default_rng(0)
    >>> p = np.concatenate([rng.beta(2, 4, 3000), rng.beta(4, 2, 3000)])
    >>> year = np.repeat([2024, 2025], 3000)
    >>> same = rng.random(6000) < p**1.3  # wrong, but in the same way
    >>> calibration_curve_equality_test(same, p, year).rejects()
    False
    >>> other = rng.random(6000) < np.where(year == 2024, p, p**1.3)
    >>> calibration_curve_equality_test(other, p, year).rejects()
    True
    """
    notion = resolve_notion(notion)
    n_resamples = check_count(n_resamples, "n_resamples")
    rng = check_random_state(random_state)
    if second is None:
        windows, problems = two_windows(
            y_true, y_proba, by, notion, sample_weight, labels, pos_label, groups
        )
    else:
        if by is not None or isinstance(y_true, ForecastSummary):
            raise ValueError(
                "second is the forecast of a second model for the same samples: leave out by, and "
                "pass labels and forecasts."
            )
        windows, problems = _two_models(
            y_true, y_proba, second, notion, sample_weight, labels, pos_label, groups
        )
    for name, problem in zip(windows, problems, strict=True):
        if problem.n_samples < FEWEST:
            raise ValueError(
                f"The window {name} has {problem.n_samples} samples of positive weight: the test "
                f"of equal curves needs at least {FEWEST} in each."
            )
    turned = _order_of(problems[0]) > _order_of(problems[1])
    test = _equality_test(problems[::-1] if turned else problems, n_resamples, rng)
    return replace(test, estimate=-test.estimate) if turned else test


def _two_models(y_true, y_proba, second, notion, sample_weight, labels, pos_label, groups):
    """As `two_windows`, of two models; both rows of a sample are in one cluster."""
    check_indices(y_true=y_true, y_proba=y_proba, second=second)
    problem = check_problem(y_true, y_proba, None, sample_weight, labels, pos_label, groups)
    second_problem = check_problem(
        y_true, second, None, sample_weight, labels, pos_label, name="second"
    )
    problem.require_order(notion)
    if not np.array_equal(problem.classes, second_problem.classes):
        raise ValueError(
            "y_proba and second are probabilities of different classes: pass pos_label= with the "
            "class of both."
        )
    cluster = np.arange(len(problem.weight)) if problem.cluster is None else problem.cluster
    events = []
    for model in (problem, second_problem):
        ((_, event),) = binary_events(replace(model, cluster=cluster), pos_label, notion)
        events.append(event)
    return ("first", "second"), events


def _order_of(problem):
    """Sort key of two windows, also of the opposite event: size, spread of scores, Brier score."""
    score, event = problem.forecast[:, 1], problem.target[:, 1]
    values = np.column_stack([score * (1 - score), (score - event) ** 2])
    means = np.average(values, 0, problem.weight)
    return problem.n_samples, *means.tolist()


def _equality_test(problems, n_resamples, rng):
    """`calibration_curve_equality_test` of two binary problems, with the clusters of both."""
    joined, which, folds = join(problems)
    cluster = None if joined.cluster is None else number_clusters(joined.cluster)
    if cluster is not None and cluster.max() + 1 < FEWEST_CLUSTERS:
        raise ValueError(
            f"There are {cluster.max() + 1} clusters: the test of equal curves needs at least "
            f"{FEWEST_CLUSTERS}, preferably forty."
        )
    equal = EqualScores.of_problem(replace(joined, cluster=cluster), folds)
    first = (which == 0).astype(np.float64)
    centred = equal.center(first[:, None] * legvander(2 * equal.position - 1, DEGREE))
    information = float(centred[:, 0] ** 2 @ equal.weight)
    share = first @ equal.weight / equal.weight.sum()
    if not information > _OVERLAP * share * (1 - share) * equal.weight.sum():
        raise ValueError(
            "The scores of the two windows do not overlap, so their calibration curves cannot be "
            "compared at equal scores."
        )
    terms = (equal.weight * equal.residual)[:, None] * centred
    total = terms.sum(axis=0)
    estimate = float(total[0] / information)
    if np.ptp(equal.hit) == 0:
        return CurveEqualityTest(0.0, 1.0, 0.0, "equal curves, all labels are equal")
    if cluster is not None:
        sums = cluster_sums(terms, cluster)
        covariance = equal.inflation * sums.T @ sums
    else:
        spread = equal.square * equal.variance
        if not equal.equal_weights:
            spread = equal.inflation * equal.square * equal.residual**2
        covariance = centred.T @ (spread[:, None] * centred)
    statistic_of, shares = _weighted_squares(covariance)
    statistic = float(statistic_of(total[None])[0])
    if cluster is None or len(sums) > MOST_SIGNS:
        law = "chi-square mixture"
        pvalue = chi_square_mixture_sf(statistic, shares)
    else:
        law = "random signs of clusters"

        def draw(size):
            """Statistics of the sums of clusters, each with a random sign."""
            totals, most = [], max(1, SIZES.drawn_entries // len(sums))
            for start in range(0, size, most):
                n_drawn = min(most, size - start)
                totals.append(rng.choice([-1.0, 1.0], size=(n_drawn, len(sums))) @ sums)
            return statistic_of(np.sqrt(equal.inflation) * np.concatenate(totals))

        pvalue, _ = drawn_pvalue(draw, statistic, n_resamples, size=sums.size)
    return CurveEqualityTest(
        statistic, max(float(pvalue), SMALLEST), estimate, f"equal curves, {law}"
    )


def _weighted_squares(covariance):
    """The function from sums (m, J) of mean zero to weighted sums of squares (m,), and the weights.

    Each sum is divided by its standard deviation given the earlier sums. A sum that the earlier
    ones determine is left out.
    """
    scale = np.sqrt(np.diag(covariance))
    large = np.flatnonzero(scale > _DETERMINED * scale.max()).tolist()
    scale = np.where(scale > 0, scale, 1.0)
    correlation = covariance / np.outer(scale, scale)
    independent: list[int] = []
    for j in large:
        some = [*independent, j]
        if np.linalg.eigvalsh(correlation[np.ix_(some, some)])[0] > _DETERMINED:
            independent = some
    root = np.linalg.cholesky(correlation[np.ix_(independent, independent)])
    shares = 1 / (1.0 + np.array(independent)) ** 2

    def weighted_squares(sums):
        z = solve_triangular(root, (sums / scale)[:, independent].T, lower=True)
        return shares @ z**2

    return weighted_squares, shares


# --- Rows of several problems ---------------------------------------------------------------------


_N_FOLDS = 5  # of the isotonic curve of a sketch


def join(problems: Sequence[Problem]) -> tuple[Problem, np.ndarray, list[Fold] | None]:
    """The rows of several problems of the same classes, and the number of the problem of each row.

    Samples of rows that stand for several are divided at random into folds (train, test) of rows,
    which are the third result, else None.
    """
    split = None
    if problems[0].count is not None:
        split = [problem.split(_N_FOLDS, seed) for seed, problem in enumerate(problems)]
        problems = [problem for problem, _ in split]
    names = ("forecast", "labels_or_target", "weight", "square", "count", "cluster")
    columns: dict[str, Any] = {}
    for name in names:
        parts = [getattr(problem, name) for problem in problems]
        columns[name] = None if parts[0] is None else np.concatenate(parts)
    joined = Problem(classes=problems[0].classes, **columns)
    sizes = [len(problem.weight) for problem in problems]
    which = np.repeat(np.arange(len(problems)), sizes)
    if split is None:
        return joined, which, None
    starts = np.cumsum([0, *sizes[:-1]])
    folds = []
    for k in range(_N_FOLDS):
        test = [start + parts[k] for start, (_, parts) in zip(starts, split, strict=True)]
        inside = np.isin(np.arange(len(which)), np.concatenate(test))
        folds.append((np.flatnonzero(~inside), np.flatnonzero(inside)))
    return joined, which, [fold for fold in folds if len(fold[0]) and len(fold[1])]


# --- Residuals and groups, adjusted for the score -------------------------------------------------


class EqualScores:
    """Residuals and groups, adjusted for the score; all arrays have shape (n,), as in `Problem`.

    `hit` is 1 where the event happened. `offset` is a parametric calibration curve at each score,
    fitted by default. `folds` are the rows (train, test) of the folds of the isotonic curve, drawn
    by default.

    ``curve`` is the fitted frequency of the event at each score. ``residual`` is the label minus
    the curve before it is clipped, orthogonal to the basis. ``position`` is the rank of the score
    between 0 and 1, by mass and information in equal parts.
    """

    def __init__(
        self,
        score: np.ndarray,
        hit: np.ndarray,
        weight: np.ndarray,
        offset: np.ndarray | None = None,
        *,
        square: np.ndarray | None = None,
        count: np.ndarray | None = None,
        folds: Sequence[Fold] | None = None,
        cluster: np.ndarray | None = None,
    ) -> None:
        self.score, self.hit, self.cluster = score, hit, cluster
        forecast, target = (np.column_stack([1 - column, column]) for column in (score, hit))
        self.weight = weights_of_mean_one(weight, count)
        self.count = np.ones(len(score)) if count is None else count
        fit_square = square
        if square is None:
            square = weight**2
            fit_square = square if np.ptp(weight) else None  # as in the default calibration error
        if offset is None and np.ptp(hit) == 0:
            offset = np.full(len(hit), float(hit[0]))
        elif offset is None:
            offset = averaged_map(forecast, target, weight, fit_square, cluster)(forecast)[:, 1]
        self.offset = offset
        self.square = square * (self.weight.sum() / weight.sum()) ** 2
        self.size = effective_size(weight, square)
        if cluster is not None:
            spread = np.sqrt(offset * (1 - offset))
            self.size /= design_effect(hit - offset, spread, weight, cluster)
        label_weight = weight / self.count
        self.equal_weights = np.ptp(label_weight) <= 1e-9 * label_weight.max()
        information = self.weight * offset * (1 - offset)
        total = max(information.sum(), 1e-300)
        mass = 0.5 * self.weight / self.weight.sum() + 0.5 * information / total
        n_intervals = intervals_for(self.size)
        basis, self.position = functions_of_position(score, mass, n_intervals)
        many = len(np.unique(self.position)) > n_intervals + 1 and len(score) > _ISOTONIC
        if many and np.ptp(hit):
            curve = _monotone_curve(forecast, target, self.weight, folds, cluster)
            basis = np.column_stack([basis, curve])
        self._directions = np.empty((len(score), 0))
        self.residual = hit - offset
        self._append(basis)
        room = 0.25 / self.count.sum()
        self.curve = np.clip(hit - self.residual, room, 1 - room)

    @classmethod
    def of_problem(cls, problem: Problem, folds: Sequence[Fold] | None = None) -> Self:
        """Of the samples of a binary problem; the rows of a sketch have folds."""
        return cls(
            merge_ties(np.clip(problem.forecast[:, 1], 0, 1)),
            problem.target[:, 1],
            problem.weight,
            square=problem.square,
            count=problem.count,
            folds=folds,
            cluster=problem.cluster,
        )

    @property
    def inflation(self) -> float:
        """Correction of squared residuals for the degrees of freedom of the fit."""
        return self.size / max(self.size - self._directions.shape[1], 1.0)

    @property
    def variance(self) -> np.ndarray:
        """Variance of each label given its score, corrected for the fit of the curve."""
        return self.curve * (1 - self.curve) * self.inflation

    def robust_variance(self, terms: np.ndarray) -> np.ndarray:
        """Variance of sums of terms (n, ...) of mean zero, by cluster if there are any."""
        return self.inflation * np.sum(cluster_sums(terms, self.cluster) ** 2, axis=0)

    def units(self, centred: np.ndarray) -> np.ndarray:
        """Effective number of clusters for the statistic of centred columns (n, m); or infinity."""
        if self.cluster is None:
            return np.full(centred.shape[1], np.inf)
        sums = cluster_sums(self.weight[:, None] * centred**2, self.cluster)
        return effective_size_of_sums(sums.sum(axis=0), np.sum(sums**2, axis=0))

    def with_columns(self, columns: np.ndarray) -> Self:
        """The same comparison, at equal values of further columns (n, m) too."""
        extended = copy(self)
        extended._append(columns)
        return extended

    def center(self, columns: np.ndarray) -> np.ndarray:
        """Residuals of columns (n, m) after regression on the basis."""
        if not self._directions.shape[1]:
            return columns
        inner = self._directions.T @ (self.weight[:, None] * columns)
        return columns - self._directions @ inner

    def variance_at_equal_scores(self, columns: np.ndarray) -> np.ndarray:
        """Variance of columns (n, m) among samples that are neighbours in the score.

        It is 0 for functions of the score: with equal scores there is nothing to compare.
        """
        number, here = np.bincount(self._cell), np.bincount(self._cell, self.weight)
        several = number > 1
        factor = np.where(several, number / np.maximum(number - 1, 1), 0.0)[self._cell]
        means = cluster_sums(self.weight[:, None] * columns, self._cell) / here[:, None]
        squares = (columns - means[self._cell]) ** 2
        known = self.weight * several[self._cell]
        return (factor * self.weight) @ squares / known.sum() if known.any() else 0 * squares[0]

    def _append(self, columns):
        columns = self.center(np.asarray(columns, dtype=np.float64))
        gram = columns.T @ (self.weight[:, None] * columns)
        scale = np.trace(gram)
        if not scale > 0:
            return
        values, vectors = np.linalg.eigh(gram)
        large = values > _RANK * scale
        added = columns @ (vectors[:, large] / np.sqrt(values[large]))
        self._directions = np.hstack([self._directions, added])
        inner = added.T @ (self.weight * self.residual)
        self.residual = self.residual - added @ inner

    @cached_property
    def _cell(self):
        """Cells (n,) of equal scores, with the next score where one sample has its own."""
        _, level, count = np.unique(self.score, return_inverse=True, return_counts=True)
        cell, number, filled = np.empty(len(count), dtype=int), 0, 0
        for k, size in enumerate(count.tolist()):
            cell[k], filled = number, filled + size
            if filled > 1:
                number, filled = number + 1, 0
        return cell[level]


def _monotone_curve(forecast, target, weight, folds, cluster):
    """Frequency of the event by cross-fitted isotonic regression, which can jump.

    No sample affects its own frequency, nor does any other of its cluster.
    """

    def fit(forecast, target, weight):
        return IsotonicSmoother().fit(forecast, target, weight).predict

    if folds is not None:
        curve = cross_predict(forecast, target, weight, fit, folds)
    elif cluster is not None:
        curve = smooth_other_clusters(IsotonicSmoother(), forecast, target, weight, cluster)
    else:
        curve = IsotonicSmoother().fit(forecast, target, weight).smooth_held_out()
    return curve[:, 1]


def intervals_for(size: float) -> int:
    """Number of intervals of the functions of the position for an effective number of samples."""
    return int(np.clip(round(size ** (1 / 3)), _FEWEST_INTERVALS, _MOST_INTERVALS))


def functions_of_position(
    score: np.ndarray, mass: np.ndarray, n_intervals: int
) -> tuple[np.ndarray, np.ndarray]:
    """Functions of scores (n,), and their positions, the shares of the mass (n,) below them.

    The functions are piecewise linear in the position, with an indicator of each frequent score; or
    there is an indicator of each score, if these are few.
    """
    values, which = np.unique(score, return_inverse=True)
    mass = np.bincount(which, mass)
    position = ((np.cumsum(mass) - mass / 2) / mass.sum())[which]
    often = np.arange(len(values))
    if len(values) > n_intervals + 1:
        often = np.flatnonzero(mass >= 0.5 * mass.sum() / n_intervals)
    columns = (which[:, None] == often).astype(np.float64)
    if len(values) > n_intervals + 1:
        knots = np.arange(n_intervals + 1)
        hats = np.clip(1 - np.abs(position[:, None] * n_intervals - knots), 0.0, None)
        columns = np.hstack([hats, columns])
    return columns, position


# --- Statistics of groups -------------------------------------------------------------------------


_LEAST_VARIANCE = 1.0  # sum of c (1 - c) in a group: about the events that are expected
_LEAST_SHARE = 0.1  # of the variance of a group: what the score does not explain
_LEAST_CLUSTERS = 5.0  # effective number for the statistic of a group


@dataclass(frozen=True)
class Statistics:
    """Arrays (m,) of the statistics of columns; the p-value of an untested one is nan."""

    total: np.ndarray
    variance: np.ndarray
    information: np.ndarray
    pvalue: np.ndarray


def compare(
    equal: EqualScores, member: np.ndarray, least_share: float = _LEAST_SHARE
) -> Statistics:
    """`Statistics` of columns (n, m) of 0 and 1.

    A column has no p-value if the basis, or the scores next to each sample, explain all but
    `least_share` of its variance, if hardly any event or hardly any non-event is expected in it, or
    if it has few clusters. With clusters
    the p-value is at least that of Student's t distribution for their effective number.
    """
    member = member.astype(np.float64)
    centred = equal.center(member)
    weight = equal.weight
    squares = centred**2
    total = member.T @ (weight * equal.residual)
    information = squares.T @ weight
    variance = squares.T @ (equal.square * equal.variance)
    if equal.cluster is not None:
        terms = (weight * equal.residual)[:, None] * centred
        variance = np.maximum(variance, equal.robust_variance(terms))
    elif not equal.equal_weights:
        robust = squares.T @ (equal.square * equal.residual**2)
        variance = np.maximum(variance, equal.inflation * robust)
    share = member.T @ weight / weight.sum()
    expected = member.T @ (weight * equal.curve * (1 - equal.curve))
    least = least_share * share * (1 - share)
    told = information > least * weight.sum()
    told &= equal.variance_at_equal_scores(member) > least
    pvalue, units = np.full(len(total), np.nan), equal.units(centred)
    for k in np.flatnonzero(told & (expected >= _LEAST_VARIANCE) & (units >= _LEAST_CLUSTERS)):
        coefficients = weight * centred[:, k] / equal.count
        pvalue[k] = label_sum_pvalue(total[k], coefficients, equal.curve, variance[k], equal.count)
        if equal.cluster is not None:
            z = np.abs(total[k]) / np.sqrt(variance[k])
            pvalue[k] = max(pvalue[k], 2 * student.sf(z, units[k] - 1))
    return Statistics(total, variance, information, pvalue)


# --- p-values of weighted sums of labels ----------------------------------------------------------


_ROUNDS = 50
_NEAR = 1e-3  # of z: the normal tail is exact enough, and the formula is 0 / 0
_ORDINARY = 1.2  # z below which the tail is not needed


def label_sum_pvalue(
    total: float,
    coefficients: np.ndarray,
    proba: np.ndarray,
    variance: float | None = None,
    count: np.ndarray | None = None,
) -> float:
    r"""Two-sided p-value of :math:`T = \sum_i a_i (y_i - p_i)` for independent labels.

    The tail is the saddlepoint approximation of Lugannani and Rice (1980), which is accurate far in
    the tails and for a few expected events; half of a typical step :math:`|a_i|` of the largest
    labels is subtracted from \|T\|, as a continuity correction. The probabilities p are strictly
    between 0 and 1. A `variance` of T that exceeds that of independent labels scales T down.
    `count` is the number of labels with the same a and p, by default one.
    """
    count = np.ones(len(proba)) if count is None else count
    label_variance = float(np.sum(count * coefficients**2 * proba * (1 - proba)))
    if not label_variance > 0:
        return 1.0
    step = np.sum(count * np.abs(coefficients) ** 3) / np.sum(count * coefficients**2)
    size = (
        abs(total)
        * np.sqrt(
            label_variance / max(label_variance, label_variance if variance is None else variance)
        )
        - step / 2
    )
    z = size / np.sqrt(label_variance)
    if z <= _ORDINARY:
        return float(min(1.0, 2 * norm.sf(max(z, 0.0))))
    a = np.sign(total) * coefficients
    most = np.sum(count * np.where(a > 0, a * (1 - proba), -a * proba))
    if size >= 0.999 * most:
        size = 0.999 * most
    logit = np.log(proba) - np.log1p(-proba)
    slope = _solve(size, a, count, logit, proba, z / np.sqrt(label_variance))
    bent = expit(logit + slope * a)
    log_mean = np.logaddexp(np.log1p(-proba), np.log(proba) + slope * a)
    cumulant = np.sum(count * (log_mean - slope * a * proba))
    w = np.sqrt(max(2 * (slope * size - cumulant), 0.0))
    u = slope * np.sqrt(np.sum(count * a**2 * bent * (1 - bent)))
    if not (w > _NEAR and u > _NEAR):
        return float(min(1.0, 2 * norm.sf(z)))
    tail = norm.sf(w) + norm.pdf(w) * (1 / u - 1 / w)
    return float(np.clip(2 * tail, 0.0, 1.0))


def _solve(size, a, count, logit, proba, start):
    """Slope at which the expected sum is `size`: Newton inside a bracket."""
    center = np.sum(count * a * proba)
    low, high, slope = 0.0, np.inf, start
    for _ in range(_ROUNDS):
        bent = expit(logit + slope * a)
        miss = np.sum(count * a * bent) - center - size
        low, high = (slope, high) if miss < 0 else (low, slope)
        if abs(miss) < 1e-9 * size:
            break
        step = slope - miss / max(np.sum(count * a**2 * bent * (1 - bent)), 1e-300)
        if not low < step < high:
            step = 2 * slope if np.isinf(high) else (low + high) / 2
        slope = step
    return slope
