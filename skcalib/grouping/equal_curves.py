"""Test that the calibration curve is the same in two windows, or for two models."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial.legendre import legvander
from scipy.linalg import solve_triangular
from sklearn.utils import check_random_state

from skcalib._util.formatting import pvalue_text
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib._util.validation import check_count, check_indices
from skcalib.data.clusters import cluster_sums, number_clusters
from skcalib.data.notions import NotionLike, resolve_notion
from skcalib.data.problem import ForecastSummary, LabelsLike, Problem, binary_events, check_problem
from skcalib.grouping.by_group import N_FOLDS, join, split_and_join
from skcalib.grouping.equal_scores import EqualScores
from skcalib.significance.comparison import two_windows
from skcalib.stats.pvalues import CalibrationTest, drawn_pvalue
from skcalib.stats.squared_norm import SMALLEST, chi_square_mixture_sf

DEGREE = 7  # of the largest polynomial
#: Samples of each window, and clusters, at least.
FEWEST, FEWEST_CLUSTERS = 10, 6
#: Clusters up to which their signs are drawn.
MOST_SIGNS = 2_000
_OVERLAP = 1e-3  # share of the variance of the window that the score must leave
_RANK = 1e-9
_BLOCK = 1 << 22  # signs at a time


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
        windows = ("first", "second")
        problems = _of_two_models(
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


def _order_of(problem):
    """What orders two windows, also of the opposite event: size, spread of scores, Brier score."""
    score, event = problem.forecast[:, 1], problem.target[:, 1]
    values = np.column_stack([score * (1 - score), (score - event) ** 2])
    means = np.average(values, 0, problem.weight)
    return problem.n_samples, *means.tolist()


def _of_two_models(y_true, y_proba, second, notion, sample_weight, labels, pos_label, groups):
    """The problems of two models; both rows of a sample are in one cluster."""
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
    problems = []
    for model in (problem, second_problem):
        ((_, event),) = binary_events(model, pos_label, notion)
        problems.append(
            Problem(event.forecast, event.target, event.weight, event.classes, cluster=cluster)
        )
    return problems


def _equality_test(problems, n_resamples, rng):
    """`calibration_curve_equality_test` of two binary problems, with the clusters of both."""
    equal, window = _pooled(problems)
    columns = window[:, None] * legvander(2 * equal.position - 1, DEGREE)
    centred = equal.center(columns)
    information = float(centred[:, 0] ** 2 @ equal.weight)
    share = window @ equal.weight / equal.weight.sum()
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
    if equal.cluster is not None:
        sums = cluster_sums(terms, equal.cluster)
        covariance = equal.inflation * sums.T @ sums
    elif equal.equal_weights:
        covariance = centred.T @ ((equal.square * equal.variance)[:, None] * centred)
    else:
        spread = equal.inflation * equal.square * equal.residual**2
        covariance = centred.T @ (spread[:, None] * centred)
    weigh = _Standardised(covariance)
    statistic = float(weigh(total))
    if equal.cluster is None or len(sums) > MOST_SIGNS:
        law = "chi-square mixture"
        pvalue = chi_square_mixture_sf(statistic, weigh.share)
    else:
        law = "random signs of clusters"

        def draw(size):
            """Statistics of the sums of clusters, each with a random sign."""
            totals, most = [], max(1, _BLOCK // len(sums))
            for start in range(0, size, most):
                n_drawn = min(most, size - start)
                totals.append(rng.choice([-1.0, 1.0], size=(n_drawn, len(sums))) @ sums)
            return weigh(np.sqrt(equal.inflation) * np.concatenate(totals))

        pvalue, _ = drawn_pvalue(draw, statistic, n_resamples, size=sums.size)
    return CurveEqualityTest(
        statistic, max(float(pvalue), SMALLEST), estimate, f"equal curves, {law}"
    )


class _Standardised:
    """The weighted sum of squares of sums (..., J) of mean zero, from their covariance.

    Each sum is divided by its standard deviation given the earlier sums. A sum that the earlier
    ones determine is left out. ``share`` has the weights of the remaining sums.
    """

    def __init__(self, covariance: np.ndarray) -> None:
        scale = np.sqrt(np.diag(covariance))
        self.scale = np.where(scale > 0, scale, 1.0)
        correlation = covariance / np.outer(self.scale, self.scale)
        independent: list[int] = []
        for j in np.flatnonzero(scale > _RANK * scale.max()).tolist():
            some = [*independent, j]
            if np.linalg.eigvalsh(correlation[np.ix_(some, some)])[0] > _RANK:
                independent = some
        self.independent = independent
        self.root = np.linalg.cholesky(correlation[np.ix_(independent, independent)])
        self.share = 1 / (1.0 + np.array(independent)) ** 2

    def __call__(self, sums: np.ndarray) -> np.ndarray:
        """Statistics (...,) of sums (..., J)."""
        independent = (sums / self.scale)[..., self.independent]
        z = solve_triangular(self.root, np.atleast_2d(independent).T, lower=True)
        statistics = self.share @ z**2
        return statistics if np.ndim(sums) > 1 else statistics[0]


def _pooled(problems):
    """The rows of both as `EqualScores`, and which are of the first (n,)."""
    folds = None
    if problems[0].count is not None:
        joined, which, folds = split_and_join(problems, N_FOLDS)
    else:
        which = np.repeat([0, 1], [len(problem.weight) for problem in problems])
        joined = join(problems)
    cluster = None if joined.cluster is None else number_clusters(joined.cluster)
    if cluster is not None and cluster.max() + 1 < FEWEST_CLUSTERS:
        raise ValueError(
            f"There are {cluster.max() + 1} clusters: the test of equal curves needs at least "
            f"{FEWEST_CLUSTERS}, preferably forty."
        )
    equal = EqualScores.of_problem(replace(joined, cluster=cluster), folds)
    return equal, (which == 0).astype(np.float64)
