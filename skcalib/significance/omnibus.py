r"""A test of calibration that combines several score statistics, for any number of classes.

Under the null hypothesis the labels are independent draws from the forecasts, so the joint law of
any statistics of them is simulated by drawing labels. `BinaryScores` has the scores of one event,
`ClassScores` those of several classes. Both give the standardised scores of the observed and of
drawn labels, and `run_test` makes one p-value of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csc_matrix, csr_matrix
from scipy.special import log_ndtr, logsumexp, ndtri, stdtr
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.arithmetic import merge_forecasts, merge_ties, top_class
from skcalib._util.formatting import Record, pvalue_text
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib._util.validation import check_count
from skcalib.data.clusters import cluster_sums, effective_size_of_sums
from skcalib.data.labels import labels_or_shares, one_hot_rows
from skcalib.data.notions import Canonical, NotionLike, resolve_notion
from skcalib.data.problem import (
    ForecastSummary,
    LabelsLike,
    Problem,
    binary_events,
    check_problem,
    named_events,
)
from skcalib.errors.corp import label_draws
from skcalib.significance.binary import merged_rows
from skcalib.stats.pvalues import CalibrationTest

#: Labels that are mislabelled at random, in the score "noise".
NOISE = 0.05
#: Power of 1/p in the combination of the p-values of the components.
POWER = 0.7
#: Draws after which a test with a p-value above `UNDECIDED` ends.
FIRST_DRAWS, UNDECIDED = 199, 0.15
#: A bound of the p-value below which no more labels are drawn.
CERTAIN = 1e-4
#: Cells of equal variance of the probabilities of an event, and of the levels of all classes.
CELLS, LEVELS = 32, 8
#: Most pairs of predicted class and label, and forecasts that the kernel is evaluated at.
MOST_PAIRS, LANDMARKS = 2000, 16
#: Least variance of a count, relative to the largest squared weight, that is a score of its own.
LEAST_VARIANCE = 0.2
#: Sets of labels that are evaluated at a time.
BATCH = 64
_TINY = np.finfo(np.float64).tiny
_CERTAIN_VARIANCE = 1e-150  # of a sum of all labels, whose square is still a number
_IMPROBABLE = "Improbable labels occur"


@dataclass(frozen=True)
class CalibrationComponent(Record):
    """A component of :func:`~skcalib.calibration_test`: what it found, and how sure that is.

    Attributes
    ----------
    name : str
        The component, such as "log loss" or "pair of classes".
    pvalue : float
        Its p-value, corrected for all components.
    statement : str
        What its furthest score states, such as "Forecasts are too confident". It is a finding only
        if the p-value is small.

    See Also
    --------
    skcalib.significance.OmnibusTest : The test with its components.

    Examples
    --------
    >>> from skcalib.significance import CalibrationComponent
    >>> component = CalibrationComponent("log loss", 0.003, "Forecasts are too confident")
    >>> print(component)
    Forecasts are too confident (log loss, corrected p = 0.003)
    """

    name: str
    pvalue: float
    statement: str

    def __str__(self) -> str:
        return f"{self.statement} ({self.name}, corrected {pvalue_text(self.pvalue)})"


@dataclass(frozen=True)
class OmnibusTest(CalibrationTest):
    """Result of :func:`~skcalib.calibration_test`, with the components that it combines.

    `to_frame` has a row for each component: ``statement``, ``name`` and ``pvalue``.

    Attributes
    ----------
    statistic : float
        Minus the logarithm of the p-value, with an exponential tail beyond the draws.
    pvalue : float
        Probability, under the null, of a combination at least as extreme.
    estimate : float
        The score of the first component, in standard deviations: its sign is that of its statement.
    method : str
        How many components and sets of labels there were.
    e_value : None
        This test has none.
    components : tuple of CalibrationComponent
        The components, that with the smallest corrected p-value first.

    See Also
    --------
    skcalib.significance.CalibrationTest : The record of other tests.

    Examples
    --------
    >>> from skcalib import calibration_test
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, 10, random_state=0)
    >>> calibration_test(data.y, data.y_proba).components[0].statement
    'Forecasts are too confident'
    """

    components: tuple[CalibrationComponent, ...] = ()
    _beside = "statistic", "pvalue", "estimate", "method"

    def _columns(self) -> dict[str, list[Any]]:
        return {
            name: [getattr(component, name) for component in self.components]
            for name in ("statement", "name", "pvalue")
        }

    def __str__(self) -> str:
        if not self.rejects() or not self.components:
            return super().__str__()
        return (
            f"Miscalibrated at the 5 % level: {pvalue_text(self.pvalue)} ({self.method}). "
            f"{self.components[0]}."
        )


@checks_parameters
def calibration_test(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    notion: NotionLike = "canonical",
    n_resamples: int = 999,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> OmnibusTest:
    r"""Test of calibration with power against many kinds of error, for any number of classes.

    The null hypothesis is that the labels are independent draws from the forecasts S. The test
    combines several components. Each is the largest of several scores, or the sum of their squares,
    and each score is a weighted sum whose mean is zero under the null hypothesis,

    .. math::

        T_f = \sum_i w_i \Big( f(S_i, Y_i) - \sum_k S_{ik} f(S_i, k) \Big) ,

    divided by its exact standard deviation given the forecasts, and corrected for its skewness by
    the transform of Wilson and Hilferty.

    ======================================  =======================================================
    component, of three or more classes     f(S, Y)
    ======================================  =======================================================
    log loss                                :math:`\log S_Y`: all forecasts too confident, or not
    wrong labels                            :math:`\log(.95 + .05 / (K S_Y))`
    slope of the confidence                 the centred log odds of the confidence, where the
                                            predicted class is right
    window, Kuiper, bins of the confidence  1 where it is right, in windows of the confidence that
                                            are standardised, or not, and in 16 bins (squares)
    levels                                  1 for labels whose probability has a level, of any class
    mean, means of classes                  1 for the labels of a class: largest, and sum of squares
    slope, slopes of classes                the centred log odds of a class, for its labels
    pair of classes                         1 for one label where one class is predicted
    kernel                                  features of a Laplacian kernel at 16 forecasts, for the
                                            labels of each class
    ======================================  =======================================================

    For one event they are the mean, the slope (centred log odds), the log loss, the sum of squares
    of mean and slope, wrong labels, and windows, the Kuiper statistic and bins of the event's
    probability. Bins and the cells of windows have equal variances.

    **P-value.** Labels are drawn from the forecasts `n_resamples` times. With the p-values
    :math:`p_j` of the components within all sets of labels, and fixed shares :math:`s_j`, the
    combined statistic is :math:`\sum_j s_j\, p_j^{-0.7}`. The p-value is its rank among all sets.
    It is exact for every number of samples and classes, and for every forecast. After 199 sets, a
    test with p > .15 ends. Where no drawn set is as extreme, and Chernoff's bound of the furthest
    score, times the number of tails of all scores, is below 1e-4, the p-value is this bound. A
    label with a forecast of exactly 0 refutes calibration: p = 0. So does one with a tiny forecast,
    where the probability of any such label, times twice the numbers of samples and of classes, is
    below 1e-4.

    The corrected p-value of a component is the rank of its term among the largest terms of all sets
    (Westfall and Young): with probability .95 no component of calibrated forecasts is at or below
    .05. The p-value of the test may be smaller than all of them, where several components agree.

    **Several events** ("classwise", "cumulative", `Multilabel`). Each event is tested, and all of
    them together as one event whose clusters are the samples. The p-values are combined by Cauchy's
    distribution [2]_, with half of the weight for the last one, because the events depend on each
    other. Components are corrected by Bonferroni's method. A sketch has no test of all events
    together.

    **Dependent samples.** With `groups`, and for soft labels, only largest scores are combined.
    The variance of a score is then multiplied by its design effect, the ratio of the sum of squared
    residuals of clusters to that of samples, at least 1. The score has Student's t distribution,
    with the effective number of clusters minus 1 degrees of freedom. Its null distribution is that
    of drawn labels, which are independent. The level is then not exact: at .05 it was .00 to .03
    with 10 to 100 clusters, .02 to .05 for soft labels and .04 to .07 for six dependent labels.

    Levels and power beside those of other tests: :ref:`power_of_tests`.

    Parameters
    ----------
    y_true, y_proba, labels, pos_label
        As in :func:`~skcalib.calibration_error`. `y_true` may also be label distributions or counts
        of annotators (n, K), or a :class:`~skcalib.ForecastSketch` in place of both.
    notion : {"canonical", "top_label", "classwise", "cumulative"} or Notion, default="canonical"
        What is tested: all classes at once, the confidence, or several events.
    n_resamples : int, default=999
        Number of sets of labels that are drawn.
    random_state : int, RandomState instance or None, default=0
        Seed of the labels. The draws depend neither on the order of the samples nor on that of the
        classes.
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights: a weight of 2 is not two samples.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient.
    n_jobs : int, default=None
        Number of threads. The result does not depend on it.

    Returns
    -------
    OmnibusTest
        ``pvalue``, and ``components`` with a statement and a corrected p-value each. ``estimate``
        is the score of the first component in standard deviations, and ``statistic`` is minus the
        logarithm of the p-value, with an exponential tail beyond the draws.

    Raises
    ------
    ValueError
        For invalid input, and for notions with several problems of more than two columns.

    See Also
    --------
    kernel_calibration_test : The test of W19, with one statistic.
    skcalib.significance.calibration_e_value : Evidence that can be multiplied over batches.
    skcalib.significance.logistic_calibration_test : A test of intercept and slope alone.

    Notes
    -----
    The time is O(n K + n B) for B sets of labels, with about 60 numbers for each label drawn, and
    for one event O(B) beyond 1,000 samples of equal weight. The memory is that of the forecasts,
    twice, plus blocks.

    References
    ----------
    .. [1] P. H. Westfall and S. S. Young. Resampling-Based Multiple Testing. Wiley, 1993.
    .. [2] Y. Liu and J. Xie. Cauchy combination test. Journal of the American Statistical
       Association 115, 2020.

    Examples
    --------
    >>> from skcalib import calibration_test
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, 10, score_temperature=0.8, random_state=0)
    >>> test = calibration_test(data.y, data.y_proba)
    >>> test.rejects(), test.components[0].statement
    (True, 'Forecasts are too confident')
    >>> calibrated = make_tempered_simplex(500, 10, score_temperature=1, random_state=0)
    >>> calibration_test(calibrated.y, calibrated.y_proba).rejects()
    False
    """
    notion = resolve_notion(notion)
    n_resamples = check_count(n_resamples, "n_resamples")
    columns: dict[str, Any] = {"sample_weight": sample_weight, "labels": labels}
    columns |= {"pos_label": pos_label, "groups": groups}
    rng = check_random_state(random_state)
    if isinstance(y_true, ForecastSummary):
        events = named_events(y_true, y_proba, notion, **columns)
        return _test_of_events(events, None, n_resamples, rng, n_jobs)
    problem = check_problem(
        y_true, y_proba, notion, **columns, soft=True, copy=False, incomplete=True
    )
    if not problem.indicator and problem.outcome.ndim == 1:
        problem = replace(problem, labels_or_target=problem.outcome, votes=None)
    problem = replace(problem, forecast=merge_forecasts(problem.forecast))
    notion = notion.for_columns(len(problem.classes))
    if isinstance(notion, Canonical) and len(problem.classes) > 2:
        names = [f"class {label}" for label in problem.classes.tolist()]
        return _test_of_classes(problem, names, n_resamples, rng, n_jobs)
    if not problem.indicator:
        pairs = list(notion.problems(problem.forecast, problem.target))
        if len(pairs) == 1 and pairs[0][0].shape[1] > 2:
            forecast, target = pairs[0]
            names = next(iter(notion.column_names(problem.classes)))
            names = names or [f"column {k}" for k in range(forecast.shape[1])]
            target = labels_or_shares(target)
            problem = replace(problem, forecast=forecast, labels_or_target=target)
            return _test_of_classes(problem, names, n_resamples, rng, n_jobs)
    events = binary_events(problem, pos_label, notion)
    pooled = _pooled(problem, notion) if len(events) > 1 else None
    return _test_of_events(events, pooled, n_resamples, rng, n_jobs)


# --- Linear scores, and statistics of them --------------------------------------------------------


@dataclass(frozen=True)
class Cumulants:
    """Second and third cumulants (m,) of scores, whose mean is zero under the null hypothesis."""

    variance: np.ndarray
    third: np.ndarray

    def normal(self, score: np.ndarray, variance: np.ndarray | None = None) -> np.ndarray:
        """Scores (..., m) as standard normal variables, by the transform of Wilson and Hilferty.

        `variance` are other variances than those of independent samples.
        """
        variance = self.variance if variance is None else variance
        some = (self.variance > _TINY) & (variance > _TINY)
        deviation = np.sqrt(np.where(some, variance, 1.0))
        skew = np.where(some, self.third, 0.0) / np.where(some, self.variance, 1.0) ** 1.5
        skew = np.clip(skew, -8.0, 8.0)
        skew = np.where(np.abs(skew) < 1e-4, 1e-4, skew)
        inside = np.maximum(1 + skew * score / deviation / 2, 0.0)
        return np.where(some, 6 / skew * (np.cbrt(inside) - 1) + skew / 6, 0.0)


@dataclass(frozen=True)
class DependentUnits:
    """Variances of scores (m,) of units of dependent samples, such as clusters.

    They are those of independent samples, ``variance``, times the ratio of the sums of squares of
    units to those of samples, at least 1. Student's t has ``size`` - 1 degrees of freedom, with the
    effective number of units behind each score.
    """

    variance: np.ndarray
    size: np.ndarray

    @classmethod
    def of_sums(
        cls, variance: np.ndarray, sums: UnitSums, votes: np.ndarray | None
    ) -> DependentUnits:
        """From the sums of the scores, and the variances of independent labels.

        The variance of soft labels is that of their residuals. Without an event the squares of a
        single score are too small, so the ratio to the variance of labels is at least the mean one
        of all scores, and that of as many independent labels as there were `votes`.
        """
        size = effective_size_of_sums(sums.spread, sums.spread_squares)
        freedom = np.maximum(size - 1, 1.0)
        some = sums.sample_squares > 0
        ratio = np.divide(sums.squares, sums.sample_squares, out=np.ones(len(size)), where=some)
        if votes is not None:
            known = variance > 0
            least = max(1 / votes.max(), np.mean(sums.sample_squares[known] / variance[known]))
            variance = np.maximum(sums.sample_squares, least * variance)
        return cls(variance * np.maximum(ratio, 1.0) * (freedom + 1) / freedom, size)

    def normal(self, score: np.ndarray, cumulants: Cumulants) -> np.ndarray:
        """Scores (m,) as standard normal variables, by Student's t."""
        z = cumulants.normal(score, self.variance)
        tail = np.maximum(stdtr(np.maximum(self.size - 1, 1.0), -np.abs(z)), 1e-300)
        return np.where(self.size > 1e6, z, -np.sign(z) * ndtri(tail))


class UnitSums:
    """Scores (m,) of the labels, and sums of squares of their residuals over units and samples.

    ``spread`` and ``spread_squares`` are sums of the variances of units, and of their squares.
    """

    def __init__(self) -> None:
        self.score = self.squares = self.sample_squares = np.zeros(1)
        self.spread = self.spread_squares = np.zeros(1)

    def add(self, units: np.ndarray, samples: np.ndarray, variances: np.ndarray) -> None:
        """Add residual scores of units (G, m) and samples (n, m), and variances of units (G, m)."""
        self.score = self.score + units.sum(axis=0)
        self.squares = self.squares + np.sum(units**2, axis=0)
        self.sample_squares = self.sample_squares + np.sum(samples**2, axis=0)
        self.spread = self.spread + variances.sum(axis=0)
        self.spread_squares = self.spread_squares + np.sum(variances**2, axis=0)


@dataclass(frozen=True)
class Statistic:
    """A component: the largest of several scores, or the sum of their squares.

    ``columns`` are the numbers of the scores, with a ``weight`` each, ``share`` is that of the
    component in the combination, and ``statement`` says what a score states by its number and sign.
    """

    name: str
    columns: np.ndarray
    share: float
    statement: Callable[[int, bool], str]
    weight: np.ndarray | float = 1.0
    squares: bool = False

    def values(self, z: np.ndarray) -> np.ndarray:
        """Values (B,) of standardised scores (B, m); their tail is about exponential."""
        chosen = z[:, self.columns]
        if self.squares:
            return np.einsum("bm,bm->b", chosen, chosen)
        return -log_ndtr(-np.abs(self.weight * chosen).max(axis=1))

    def furthest(self, z: np.ndarray) -> int:
        """The number of the score furthest from zero, of standardised ones (m,)."""
        return int(self.columns[np.abs(self.weight * z[self.columns]).argmax()])


def log_pvalues(values: np.ndarray) -> np.ndarray:
    """Logarithms of the p-values (B,) of each of B values within all of them.

    The largest tenth has an exponential tail, so that values beyond all others differ.
    """
    ordered, size = np.sort(values), len(values)
    rounding = 1e-9 * max(1.0, abs(ordered[-1]))
    start = ordered[int(0.9 * size)] + rounding
    logs = np.log((size - np.searchsorted(ordered, values - rounding)) / size)
    tail = values > start
    if tail.any():
        excess = values[tail] - start
        logs[tail] = np.log(tail.mean()) - excess / excess.mean()
    return logs


@dataclass(frozen=True)
class Combination:
    """P-value of all components, and the corrected one of each (J,), within all sets of labels.

    ``order`` are the numbers of the components, that with the smallest p-value first.
    """

    pvalue: float
    log_pvalue: float
    corrected: np.ndarray
    order: np.ndarray


def combine(statistics: list[Statistic], z: np.ndarray) -> Combination:
    r"""Combine the components of the observed labels, the first row of z, and of drawn ones.

    The combined statistic is :math:`\sum_j s_j p_j^{-0.7}` with the shares s of the components and
    their p-values p within all sets of labels. Its p-value is its rank among all sets. The
    corrected p-value of a component is the rank of its term among the largest terms of all sets
    (Westfall and Young).
    """
    share = np.array([statistic.share for statistic in statistics])
    logs = np.array([log_pvalues(statistic.values(z)) for statistic in statistics])
    terms = np.log(share / share.sum())[:, None] - POWER * logs
    total, largest = logsumexp(terms, axis=0), terms.max(axis=0)
    corrected = np.mean(largest >= terms[:, :1] - 1e-9, axis=1)
    # Beyond all draws the corrected p-values are equal: then components that say where come first.
    vague = [statistic.squares for statistic in statistics]
    order = np.lexsort((-terms[:, 0], vague, corrected))
    pvalue = float(np.mean(total >= total[0] - 1e-9))
    return Combination(pvalue, float(log_pvalues(total)[0]), corrected, order)


class Scores:
    """Base class of linear scores of labels, with the statistics that the test combines.

    Subclasses set all attributes, and implement `drawn` and `log_mgf`. ``score`` (m,) are those of
    the observed labels, and ``units`` is None where samples are independent.
    """

    score: np.ndarray
    cumulants: Cumulants
    statistics: list[Statistic]
    units: DependentUnits | None = None

    def drawn(self, n_draws: int, rng: np.random.RandomState, n_jobs: int | None) -> np.ndarray:
        """Standardised scores (n_draws, m) of labels drawn from the forecasts."""
        raise NotImplementedError

    def log_mgf(self, column: int) -> Callable[[float], float]:
        """Logarithm of the moment generating function of a score."""
        raise NotImplementedError

    @property
    def observed(self) -> np.ndarray:
        """Standardised scores (m,) of the labels."""
        if self.units is None:
            return self.cumulants.normal(self.score)
        return self.units.normal(self.score, self.cumulants)

    def bound(self, column: int) -> float:
        """Chernoff's bound of the tail of a score, times the number of all tails."""
        score, deviation = self.score[column], np.sqrt(self.cumulants.variance[column])
        skew = self.cumulants.third[column] / deviation**3 * np.sign(score)
        z, log_mgf = abs(score) / deviation, self.log_mgf(column)
        start = np.log(z / (1 + max(skew, 0.0) * z / 2) / deviation)  # right for a gamma

        def exponent(log_theta):
            theta = np.sign(score) * np.exp(log_theta)
            return log_mgf(theta) - theta * score

        around = (start - 3, start + 3)
        least = minimize_scalar(exponent, bounds=around, method="bounded", options={"maxiter": 20})
        return float(np.exp(min(least.fun, 0.0)) * 2 * len(self.score))


def run_test(
    scores: Scores, n_resamples: int, rng: np.random.RandomState, n_jobs: int | None
) -> tuple[OmnibusTest, float]:
    """The test of all scores, and the logarithm of its p-value with a tail beyond the draws."""
    if not scores.statistics:
        return OmnibusTest(0.0, 1.0, 0.0, "every label was certain, and right"), 0.0
    statistics, bound = scores.statistics, 1.0
    z = scores.observed[None]
    for total in sorted({min(FIRST_DRAWS, n_resamples), n_resamples}):
        z = np.concatenate([z, scores.drawn(total + 1 - len(z), rng, n_jobs)])
        result = combine(statistics, z)
        first = statistics[result.order[0]]
        if scores.units is None and not first.squares and result.pvalue * len(z) < 1.5:
            bound = scores.bound(first.furthest(z[0]))
        # Of the two p-values the one with more draws is valid, and so is the bound: it is above
        # that of no draw, which is the only one that it replaces.
        if bound < CERTAIN or result.pvalue > UNDECIDED:
            break
    pvalues, log_pvalue = np.append(result.corrected, result.pvalue), result.log_pvalue
    method = f"{len(statistics)} components, labels drawn {len(z) - 1} times from the forecasts"
    if bound < CERTAIN:
        bound = max(bound, _TINY)
        pvalues[[result.order[0], -1]], log_pvalue = bound, np.log(bound)
        method = f"{method}, bound of the tail"
    if scores.units is not None:
        method = f"{method}, standard errors of dependent samples"
    components = []
    for k in result.order:
        at = statistics[k].furthest(z[0])
        statement = statistics[k].statement(at, bool(z[0, at] > 0))
        components.append(CalibrationComponent(statistics[k].name, float(pvalues[k]), statement))
    estimate = float(z[0, first.furthest(z[0])])
    test = OmnibusTest(-log_pvalue, float(pvalues[-1]), estimate, method, None, tuple(components))
    return test, log_pvalue


# --- Windows of cells ----------------------------------------------------------------------------


class Windows:
    """All intervals of neighbouring cells of scores that have equal shares of the variance.

    ``edges`` are the smallest score of each cell, ``spans`` (J, 2) the first cell of each window
    and the one after its last, ``sums`` (J, cells) add the cells of each window, and ``dyadic``
    are the numbers of windows of 1, 2, 4 ... cells, shifted by half of their size.
    """

    def __init__(self, score: np.ndarray, variance: np.ndarray) -> None:
        order = np.argsort(score, kind="stable")
        first = np.flatnonzero(np.diff(score[order], prepend=-1.0))
        mass = np.add.reduceat(variance[order], first)
        middle = (np.cumsum(mass) - mass / 2) / max(mass.sum(), _TINY)
        cell = np.minimum((CELLS * middle).astype(int), CELLS - 1)
        start = np.flatnonzero(np.diff(cell, prepend=-1))
        self.edges = score[order][first[start]]
        size = len(start)
        self.spans = np.array([(a, b) for a in range(size) for b in range(a + 1, size + 1)])
        cells = np.arange(size)
        self.sums = ((self.spans[:, :1] <= cells) & (cells < self.spans[:, 1:])).astype(np.float64)
        length = self.spans[:, 1] - self.spans[:, 0]
        step = np.maximum(length // 2, 1)
        power = (length & (length - 1)) == 0
        self.dyadic = np.flatnonzero(power & (self.spans[:, 0] % step == 0))

    def __len__(self) -> int:
        return len(self.spans)

    def cells(self, score: np.ndarray) -> np.ndarray:
        """The cell of each score (n,)."""
        return np.maximum(np.searchsorted(self.edges, score, side="right") - 1, 0)

    def limits(self, window: int, score: np.ndarray) -> tuple[float, float]:
        """Smallest and largest score (n,) within a window."""
        a, b = self.spans[window]
        cell = self.cells(score)
        inside = score[(a <= cell) & (cell < b)]
        return float(inside.min()), float(inside.max())

    def statistics(
        self, first: int, variance: np.ndarray, statement: Callable[[int, bool], str], of: str
    ) -> list[Statistic]:
        """The largest window, the Kuiper statistic and the bins of scores from number `first`."""
        if len(self.edges) < 2:
            return []
        dyadic = self.dyadic[variance[self.dyadic] >= LEAST_VARIANCE]
        weight = np.sqrt(variance / variance.max())
        length = self.spans[:, 1] - self.spans[:, 0]
        width = 2 if len(self.edges) >= CELLS // 2 else 1
        bins = np.flatnonzero((length == width) & (self.spans[:, 0] % width == 0))
        bins = bins[variance[bins] >= LEAST_VARIANCE]
        found = [Statistic(f"Kuiper{of}", first + np.arange(len(self)), 1.2, statement, weight)]
        if len(dyadic):
            found.append(Statistic(f"window{of}", first + dyadic, 1.2, statement))
        if len(bins) > 1:
            found.append(Statistic(f"bins{of}", first + bins, 1.0, statement, squares=True))
        return found


# --- Scores of one event --------------------------------------------------------------------------


class BinaryScores(Scores):
    r"""Scores :math:`\sum_i w_i (y_i - p_i) f(p_i)` of an event, for several functions f.

    They are the mean (f = 1), the slope (the centred logit), the log loss (the logit), labels that
    are wrong at random, and windows of the probabilities. Rows may stand for several samples.
    """

    def __init__(self, problem: Problem, event: str) -> None:
        self.flipped = _column_key(problem, 0) > _column_key(problem, 1)
        if self.flipped:  # which class is the event changes no draw
            problem = replace(
                problem,
                forecast=problem.forecast[:, ::-1],
                labels_or_target=problem.target[:, ::-1],
            )
        self.event, units = event, problem.cluster
        if units is None and problem.votes is not None:
            units = np.arange(len(problem.weight))
        forecast = np.minimum(merge_forecasts(problem.forecast), 1)
        problem = replace(problem, forecast=forecast, cluster=None)
        self.problem = merged_rows(problem)
        weight, p = self.problem.weight, self.problem.forecast[:, 1]
        self.size = weight**2 / self.problem.squares  # labels of equal weight, of each row
        largest = np.max(self.problem.squares / weight)
        self.weight = weight / largest
        variance, third = self._bernoulli(p, self.weight, self.size)
        self.windows = Windows(p, variance)
        log_odds = _log_odds(self.problem.forecast)
        self.centre = variance @ log_odds / max(variance.sum(), _TINY)
        features = self._features(self.problem.forecast)
        in_cells = self._in_cells(p)
        self.cumulants = Cumulants(
            self._all_scores(variance @ features**2, variance @ in_cells),
            self._all_scores(third @ features**3, third @ in_cells),
        )
        self.score = self._sums(self.problem.target[:, 1][None])[0]
        if units is not None:
            self._set_units(problem, problem.weight / largest, units)
        self.statistics = self._statistics()

    def _set_units(self, problem, weight, units):
        """The scores of dependent samples, and their variances."""
        p, sums = problem.forecast[:, 1], UnitSums()
        scores = self._all_scores(self._features(problem.forecast), self._in_cells(p).toarray())
        variance = (weight**2 * p * (1 - p))[:, None] * scores**2
        scores *= (weight * (problem.target[:, 1] - p))[:, None]
        sums.add(cluster_sums(scores, units), scores, cluster_sums(variance, units))
        self.score = sums.score
        self.units = DependentUnits.of_sums(self.cumulants.variance, sums, problem.votes)

    @staticmethod
    def _bernoulli(p, weight, size):
        """Second and third cumulants of the mean of `size` labels times a weight."""
        variance = weight**2 / size * p * (1 - p)
        return variance, variance * weight / size * (1 - 2 * p)

    def _features(self, forecast):
        """The functions f (n, 4) of mean, slope, log loss and wrong labels."""
        log_odds = _log_odds(forecast)
        wrong = _noise(forecast[:, 1], 2) - _noise(forecast[:, 0], 2)
        return np.column_stack([np.ones(len(log_odds)), log_odds - self.centre, log_odds, wrong])

    def _in_cells(self, p):
        """Matrix (n, cells) of ones where a row is in a cell."""
        rows = np.arange(len(p))
        shape = len(p), len(self.windows.edges)
        return csr_matrix((np.ones(len(p)), (rows, self.windows.cells(p))), shape)

    def _all_scores(self, features, cells):
        """Scores (..., m) from the sums of features (..., 4) and of cells (..., cells)."""
        return np.concatenate([features, cells @ self.windows.sums.T], axis=-1)

    def _sums(self, y):
        """Scores (B, m) of labels (B, n)."""
        residual = (y - self.problem.forecast[:, 1]) * self.weight
        features = self._features(self.problem.forecast)
        cells = (self._in_cells(self.problem.forecast[:, 1]).T @ residual.T).T
        return self._all_scores(residual @ features, cells)

    def drawn(self, n_draws: int, rng: np.random.RandomState, n_jobs: int | None) -> np.ndarray:
        """Standardised scores (n_draws, m) of labels drawn from the forecasts."""
        chunks = label_draws(self.problem, n_draws, rng)
        sums = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(self._sums)(y) for y in chunks)
        return self.cumulants.normal(np.concatenate(sums))

    def log_mgf(self, column: int) -> Callable[[float], float]:
        """Logarithm of the moment generating function of a score."""
        forecast = self.problem.forecast
        if column < 4:
            f = self._features(forecast)[:, column]
        else:
            f = self._in_cells(forecast[:, 1]) @ self.windows.sums[column - 4]
        return _bernoulli_log_mgf(forecast[:, 1], self.weight / self.size * f, self.size)

    def _statistics(self):
        event = self.event

        def mean(_, more):
            return f"{event} are too {'low' if more != self.flipped else 'high'} on average"

        def slope(_, more):
            return f"{event} are too {'moderate' if more else 'extreme'}"

        def wrong(_, more):
            return f"{_IMPROBABLE} {'more' if more else 'less'} often than forecast"

        def window(column, more):
            low, high = self.windows.limits(column - 4, self.problem.forecast[:, 1])
            if self.flipped:
                low, high = 1 - high, 1 - low
            kind = "low" if more != self.flipped else "high"
            return f"{event} from {low:.3g} to {high:.3g} are too {kind}"

        def both(_, more):
            return f"{event} are off in their mean and spread"

        statistics = [
            Statistic("mean", np.array([0]), 1.0, mean),
            Statistic("slope", np.array([1]), 1.0, slope),
            Statistic("log loss", np.array([2]), 1.0, slope),
            Statistic("wrong labels", np.array([3]), 1.0, wrong),
            Statistic("mean and slope", np.array([0, 1]), 1.0, both, squares=True),
        ]
        variance = self.cumulants.variance
        if not variance[0] > _CERTAIN_VARIANCE:
            return []
        statistics = [s for s in statistics if variance[s.columns].min() > 1e-12 * variance[0]]
        if self.units is not None:
            statistics = [s for s in statistics if not s.squares]
        return statistics + self.windows.statistics(4, variance[4:], window, "")


def _column_key(problem, column):
    """Numbers that order columns by their values: equal for other orders of rows and columns."""
    scores = np.sort(problem.forecast[:, column])
    events = problem.target[:, column] @ problem.weight
    return (*scores[np.linspace(0, len(scores) - 1, 9).astype(int)].tolist(), float(events))


def _log_odds(forecast):
    """Log odds (n,) of the second of two columns, 0 where a forecast is 0."""
    some = (forecast > 0).all(axis=1)
    first, second = np.where(some[:, None], forecast, 0.5).T
    return np.log(second) - np.log(first)


def _noise(p, n_classes):
    """Log ratio of forecasts with some labels at random to p; 0 where p is 0."""
    known = np.where(p > 0, p, 1.0)
    return np.where(p > 0, np.log1p(NOISE * (1 / n_classes / known - 1)), 0.0)


def _bernoulli_log_mgf(p, f, size=1.0):
    """Logarithm of E exp(theta sum size (mean - p) f), for means of `size` labels."""
    certain = np.log1p(-np.minimum(p, 1 - 1e-16)), np.log(np.maximum(p, 1e-300))

    def log_mgf(theta):
        return float(
            np.sum(size * (np.logaddexp(certain[0], certain[1] + theta * f) - theta * f * p))
        )

    return log_mgf


# --- Scores of several classes --------------------------------------------------------------------


@dataclass(frozen=True)
class _Block:
    """What the sums over some samples need, for any labels.

    Forecasts, weights, log odds and levels of all classes, and of the predicted class its number,
    cell of the confidence and centred log odds; features of the kernel; and expected sums.
    """

    forecast: np.ndarray
    weight: np.ndarray
    log_odds: np.ndarray
    level: np.ndarray
    top: np.ndarray
    cell: np.ndarray
    tilt: np.ndarray
    features: np.ndarray
    of_confidence: np.ndarray
    of_tilt: float
    of_features: np.ndarray


class ClassScores(Scores):
    r"""Scores :math:`\sum_i w_i (f(S_i, Y_i) - E f)` of labels of three or more classes.

    In this order: the log loss (:math:`\log S_Y`), labels that are wrong at random, the slope of
    the confidence (the centred logit, of the event that the predicted class is right), windows of
    the confidence, levels of the probability of the label, the mean and the slope of each class,
    pairs of a predicted class and a label, and the squared norm of a kernel, which is not linear.
    """

    def __init__(self, problem: Problem, names: list[str]) -> None:
        columns = sorted(
            range(problem.forecast.shape[1]), key=lambda column: _class_key(problem, column)
        )
        self.names = [names[column] for column in columns]
        self.forecast = np.ascontiguousarray(problem.forecast[:, columns])
        self.weight = problem.weight / problem.weight.max()
        target = problem.labels_or_target
        self.target = np.argsort(columns)[target] if target.ndim == 1 else target[:, columns]
        self.cluster = problem.cluster
        if self.cluster is None and target.ndim == 2:
            self.cluster = np.arange(len(self.weight))
        self._sort_rows()
        n_samples, self.n_classes = self.forecast.shape
        self.top = top_class(self.forecast)
        self.confidence = merge_ties(self.forecast[np.arange(n_samples), self.top]).clip(max=1)
        variance = self.weight**2 * self.confidence * (1 - self.confidence)
        self.windows = Windows(self.confidence, variance)
        log_odds = self._log_odds(self.confidence)
        self.centre = variance @ log_odds / max(variance.sum(), _TINY)
        self.levels = self._level_edges()
        self._set_cumulants()
        self._set_landmarks()
        self._set_observed(problem.votes)
        self.statistics = self._statistics()

    def _sort_rows(self):
        """Put the samples of a cluster together, else all in an order that their values decide."""
        direction = np.random.RandomState(0).random_sample(self.forecast.shape[1])
        key = np.concatenate(
            [(self.forecast[rows] * direction).sum(axis=1) for rows in self._slices()]
        )
        order = np.lexsort((self.weight, key))
        if self.cluster is not None:
            least = np.full(self.cluster.max() + 1, np.inf)
            np.minimum.at(least, self.cluster, key)
            order = np.lexsort((self.weight, key, self.cluster, least[self.cluster]))
            self.cluster = self.cluster[order]
        self.forecast, self.target = self.forecast[order], self.target[order]
        self.weight = self.weight[order]

    def _slices(self) -> list[slice]:
        """Slices of rows of bounded size."""
        n_samples, n_classes = self.forecast.shape
        size = max(1, min(SIZES.drawn_entries // BATCH, SIZES.drawn_entries // n_classes))
        starts = list(range(0, n_samples, size))
        return [slice(a, b) for a, b in zip(starts, [*starts[1:], n_samples], strict=True)]

    @staticmethod
    def _log_odds(p):
        """Log odds within +-30."""
        p = np.clip(p, 1e-13, 1 - 1e-13)
        return np.log(p) - np.log1p(-p)

    def _level_edges(self):
        """Log odds between levels of the probabilities of all classes, with equal variances."""
        grid, mass = np.linspace(-30, 30, 601), np.zeros(602)
        for rows in self._slices():
            p = self.forecast[rows]
            variance = self.weight[rows, None] ** 2 * p * (1 - p)
            mass += np.bincount(
                np.searchsorted(grid, self._log_odds(p).ravel()), variance.ravel(), len(mass)
            )
        share = np.cumsum(mass)[:-1] / max(mass.sum(), _TINY)
        if mass.sum() == 0:
            return grid[:0]
        return np.unique(grid[np.searchsorted(share, np.arange(1, LEVELS) / LEVELS)])

    def _set_cumulants(self):
        """Expected sums of the cells, pairs and cumulants, in one pass over the samples."""
        K, n_levels = self.n_classes, len(self.levels) + 1
        dense, levels, moments = np.zeros((3, 2)), np.zeros((3, n_levels)), np.zeros((9, K))
        pairs = np.zeros((3, K * K if SIZES.table_entries >= K * K else 0))
        for rows in self._slices():
            p, w = self.forecast[rows], self.weight[rows, None]
            p = np.minimum(p, 1)
            for j, f in enumerate((np.log(np.maximum(p, _TINY)), _noise(p, K))):
                mean = np.einsum("ik,ik->i", p, f)
                f = np.where(p > 0, f - mean[:, None], 0.0)
                dense[:, j] += w[:, 0] @ mean, np.sum(w**2 * p * f**2), np.sum(w**3 * p * f**3)
            x = self._log_odds(p)
            at = np.arange(len(p))[:, None] * n_levels + np.searchsorted(self.levels, x)
            share = np.bincount(at.ravel(), p.ravel(), len(p) * n_levels).reshape(len(p), n_levels)
            levels += _count_cumulants(share, w).sum(axis=1)
            mean, variance, third = _count_cumulants(p, w)
            moments += np.stack(
                [
                    array.sum(axis=0)
                    for array in (
                        *(mean, mean * x),
                        *(variance, variance * x, variance * x**2),
                        *(third, third * x, third * x**2, third * x**3),
                    )
                ]
            )
            if pairs.size:
                top = csr_matrix(
                    (np.ones(len(p)), (self.top[rows], np.arange(len(p)))), (K, len(p))
                )
                pairs += np.stack([(top @ part).ravel() for part in (mean, variance, third)])
        mean, mean_x, v, vx, vxx, t, tx, txx, txxx = moments
        self.centres = c = vx / np.maximum(v, _TINY)
        slope = vxx - 2 * c * vx + c**2 * v, txxx - 3 * c * txx + 3 * c**2 * tx - c**3 * t
        chosen = np.argsort(-pairs[1], kind="stable")[:MOST_PAIRS]
        self.pairs = chosen[pairs[1, chosen] >= LEAST_VARIANCE]
        pairs = pairs[:, self.pairs]
        self.places = np.full(K * K if len(self.pairs) else 0, len(self.pairs))
        self.places[self.pairs] = np.arange(len(self.pairs))
        p, w = self.confidence, self.weight
        _, variance, third = _count_cumulants(p, w)
        cell = self.windows.cells(p)
        x = self._log_odds(p) - self.centre
        windows = [
            self.windows.sums @ np.bincount(cell, part, len(self.windows.edges))
            for part in (variance, third)
        ]
        self.expected = np.concatenate(
            [dense[0], np.zeros(1 + len(self.windows.edges)), levels[0], mean, mean_x, pairs[0]]
        )
        self.cumulants = Cumulants(
            *(
                np.concatenate(
                    [dense[j], [of_x], windows[j - 1], levels[j], moments[a], of_s, pairs[j]]
                )
                for j, a, of_x, of_s in (
                    (1, 2, variance @ x**2, slope[0]),
                    (2, 5, third @ x**3, slope[1]),
                )
            )
        )

    def _set_landmarks(self):
        """Features of a Laplacian kernel at some of the forecasts (Nystroem)."""
        entries = (self.n_classes * BATCH) * 1.0
        n_marks = int(min(LANDMARKS, SIZES.drawn_entries * 4 // max(entries, 1)))
        rows = np.linspace(0, len(self.forecast) - 1, n_marks).astype(int)
        self.marks = np.unique(self.forecast[rows], axis=0)
        apart = _distances(self.marks, self.marks)
        self.scale = np.median(apart[apart > 0]) if (apart > 0).any() else 1.0
        values, vectors = np.linalg.eigh(np.exp(-apart / self.scale))
        some = values > 1e-8 * values[-1]
        self.basis = vectors[:, some] / np.sqrt(values[some])

    def _block(self, rows):
        """What the sums over a slice of rows need, for any labels."""
        p, w = np.minimum(self.forecast[rows], 1), self.weight[rows]
        confidence, log_odds = self.confidence[rows], self._log_odds(p)
        features = np.exp(-_distances(p, self.marks) / self.scale) @ self.basis
        cell, tilt = self.windows.cells(confidence), self._log_odds(confidence) - self.centre
        return _Block(
            forecast=p,
            weight=w,
            log_odds=log_odds,
            level=np.searchsorted(self.levels, log_odds).astype(np.uint8),
            top=self.top[rows],
            cell=cell,
            tilt=tilt,
            features=features,
            of_confidence=np.bincount(cell, w * confidence, len(self.windows.edges)),
            of_tilt=(w * confidence) @ tilt,
            of_features=(w[:, None] * p).T @ features,
        )

    def _sums(self, block, label):
        """Sums of cells (B, C) and of kernel features (B, K, M), of labels (n, B) of a block."""
        K, (n_samples, n_draws) = self.n_classes, label.shape
        row, draw = (part.ravel() for part in np.indices(label.shape))
        label, mass = label.ravel(), np.repeat(block.weight, n_draws)
        flat = row * K + label
        p, log_odds = block.forecast.ravel()[flat], block.log_odds.ravel()[flat]

        def counted(code, size, weight):
            return np.bincount(draw * size + code, weight, n_draws * size).reshape(n_draws, size)

        def total(weight):
            return weight.reshape(n_samples, n_draws).sum(axis=0)[:, None]

        right = mass * (label == np.repeat(block.top, n_draws))
        parts = [
            total(mass * np.log(np.maximum(p, _TINY))),
            total(mass * _noise(p, K)),
            total(right * np.repeat(block.tilt, n_draws)) - block.of_tilt,
            counted(np.repeat(block.cell, n_draws), len(block.of_confidence), right)
            - block.of_confidence,
            counted(block.level.ravel()[flat], len(self.levels) + 1, mass),
            counted(label, K, mass),
            counted(label, K, mass * log_odds),
        ]
        if len(self.pairs):
            code = self.places[np.repeat(block.top * K, n_draws) + label]
            parts.append(counted(code, len(self.pairs) + 1, mass)[:, :-1])
        ends = np.arange(0, n_samples * n_draws + 1, n_draws)
        hits = csc_matrix((mass, draw * K + label, ends), (n_draws * K, n_samples))
        kernel = (hits @ block.features).reshape(n_draws, K, -1) - block.of_features
        return np.concatenate(parts, axis=1), kernel

    def _scores(self, cells):
        """Scores (..., m) from the residual sums of cells (..., C)."""
        a = 3 + len(self.windows.edges)
        b = a + len(self.levels) + 1
        c, d = b + self.n_classes, b + 2 * self.n_classes
        mean, slope = cells[..., b:c], cells[..., c:d] - self.centres * cells[..., b:c]
        windows = cells[..., 3:a] @ self.windows.sums.T
        return np.concatenate(
            [cells[..., :3], windows, cells[..., a:b], mean, slope, cells[..., d:]], axis=-1
        )

    def _standardised(self, cells, kernel):
        z = self.cumulants.normal(self._scores(cells - self.expected))
        return np.column_stack([z, np.einsum("bkm,bkm->b", kernel, kernel)])

    def drawn(self, n_draws: int, rng: np.random.RandomState, n_jobs: int | None) -> np.ndarray:
        """Standardised scores (n_draws, m) of labels drawn from the forecasts."""
        sizes = [min(BATCH, n_draws - start) for start in range(0, n_draws, BATCH)]
        rngs = [np.random.RandomState(seed) for seed in rng.randint(2**31 - 1, size=len(sizes))]

        def sums_of_batch(block, size, rng):
            return self._sums(block, draw_labels(block.forecast, size, rng))

        cells: list[Any] = [0.0] * len(sizes)
        kernel: list[Any] = [0.0] * len(sizes)
        for rows in self._slices():
            block = self._block(rows)
            batches = Parallel(n_jobs=n_jobs, prefer="threads")(
                delayed(sums_of_batch)(block, *batch) for batch in zip(sizes, rngs, strict=True)
            )
            for k, (of_cells, of_kernel) in enumerate(batches):
                cells[k], kernel[k] = cells[k] + of_cells, kernel[k] + of_kernel
        parts = [self._standardised(*sums) for sums in zip(cells, kernel, strict=True)]
        return np.concatenate(parts)

    @property
    def observed(self) -> np.ndarray:
        """Standardised scores (m,) of the labels, and the norm of the kernel."""
        z = super().observed
        return np.append(z, self.norm)

    def _set_observed(self, votes):
        """The scores of the labels, and their standard errors if samples are dependent."""
        if self.cluster is not None:
            self._set_units(votes)
            return
        cells, kernel = 0.0, 0.0
        for rows in self._slices():
            sums = self._sums(self._block(rows), self.target[rows, None])
            cells, kernel = cells + sums[0][0], kernel + sums[1][0]
        self.score, self.norm = self._scores(cells - self.expected), float(np.sum(kernel**2))

    def _set_units(self, votes):
        """Scores, and sums of squares over clusters, in slices that do not divide clusters."""
        first = np.flatnonzero(np.diff(self.cluster, prepend=-1))
        starts = [rows.start for rows in self._slices()]
        starts = np.unique(first[np.searchsorted(first, starts, side="right") - 1])
        sums = UnitSums()
        for start, stop in zip(starts, [*starts[1:], len(self.weight)], strict=True):
            rows, target = slice(start, stop), self.target[start:stop]
            target = one_hot_rows(target, self.n_classes) if target.ndim == 1 else target
            p, w = np.minimum(self.forecast[rows], 1), self.weight[rows, None]
            unit = np.cumsum(np.diff(self.cluster[rows], prepend=self.cluster[start]) != 0)
            residual, variance = w * (target - p), w**2 * p * (1 - p)
            sums.add(
                self._unit_sums(rows, unit, residual, 1),
                self._unit_sums(rows, np.arange(len(p)), residual, 1),
                self._unit_sums(rows, unit, variance, 2),
            )
        self.score, self.norm = sums.score, 0.0
        self.units = DependentUnits.of_sums(self.cumulants.variance, sums, votes)

    def _unit_sums(self, rows, unit, values, power):
        """Sums over clusters (G, m) of values (n, K) of labels, times powers of the functions f."""
        K, p = self.n_classes, np.minimum(self.forecast[rows], 1)
        each, top, confidence = np.arange(len(p)), self.top[rows], self.confidence[rows]
        of_top = values[each, top]
        cell = csr_matrix(
            (of_top, (unit, self.windows.cells(confidence))),
            (unit[-1] + 1, len(self.windows.edges)),
        )
        dense = [
            np.einsum("ik,ik->i", values, f**power)
            for f in (np.where(p > 0, np.log(np.maximum(p, _TINY)), 0.0), _noise(p, K))
        ]
        dense.append(of_top * (self._log_odds(confidence) - self.centre) ** power)
        pairs = np.zeros((unit[-1] + 1, 1))
        if len(self.pairs):
            code = self.places[(top[:, None] * K + np.arange(K)).ravel()]
            shape = unit[-1] + 1, len(self.pairs) + 1
            pairs = csr_matrix((values.ravel(), (np.repeat(unit, K), code)), shape).toarray()
        means = cluster_sums(values, unit)
        parts = [
            cluster_sums(np.stack(dense, axis=1), unit),
            cell.toarray() @ self.windows.sums.T,
            np.zeros((len(means), len(self.levels) + 1)),
            means,
            cluster_sums(values * (self._log_odds(p) - self.centres) ** power, unit),
            pairs[:, :-1],
        ]
        return np.concatenate(parts, axis=1)

    def log_mgf(self, column: int) -> Callable[[float], float]:
        """Logarithm of the moment generating function of a score."""
        K, n_windows, n_levels = self.n_classes, len(self.windows), len(self.levels) + 1
        p, w = np.minimum(self.forecast, 1), self.weight
        starts = np.cumsum([0, 2, 1, n_windows, n_levels, K, K])
        part = int(np.searchsorted(starts, column, side="right")) - 1
        at = column - starts[part]
        if part == 0:
            f = (np.log(np.maximum(p, _TINY)), _noise(p, K))[at]
            f = w[:, None] * (f - np.einsum("ik,ik->i", p, f)[:, None])
            logs = np.log(np.maximum(p, _TINY) / p.sum(axis=1, keepdims=True))

            def log_mgf(theta):
                return float(np.sum(logsumexp(logs + theta * f, axis=1)))

            return log_mgf
        if part == 1:
            return _bernoulli_log_mgf(
                self.confidence, w * (self._log_odds(self.confidence) - self.centre)
            )
        if part == 2:
            a, b = self.windows.spans[at]
            cell = self.windows.cells(self.confidence)
            return _bernoulli_log_mgf(self.confidence, w * ((a <= cell) & (cell < b)))
        if part == 4:
            return _bernoulli_log_mgf(p[:, at], w)
        if part == 5:
            return _bernoulli_log_mgf(p[:, at], w * (self._log_odds(p[:, at]) - self.centres[at]))
        predicted, label = divmod(int(self.pairs[at]), K)
        return _bernoulli_log_mgf(p[:, label], w * (self.top == predicted))

    def _statistics(self):
        K, n_windows, n_levels = self.n_classes, len(self.windows), len(self.levels) + 1
        starts = np.cumsum([0, 2, 1, n_windows, n_levels, K, K, len(self.pairs)])
        variance, names = self.cumulants.variance, self.names
        if not variance[starts[4] : starts[5]].max() > _CERTAIN_VARIANCE:
            return []

        def loss(_, more):
            return f"Forecasts are too {'cautious' if more else 'confident'}"

        def wrong(_, more):
            return f"{_IMPROBABLE} {'more' if more else 'less'} often than forecast"

        def confidence(_, more):
            return f"High confidences are too {'low' if more else 'high'} compared with low ones"

        def window(column, more):
            low, high = self.windows.limits(column - starts[2], self.confidence)
            return f"Confidences from {low:.3g} to {high:.3g} are too {'low' if more else 'high'}"

        def level(_, more):
            return "Probabilities of some levels, of all classes, are too high or too low"

        def mean(column, more):
            name = names[column - starts[4]]
            return f"The probabilities of {name} are too {'low' if more else 'high'} on average"

        def means(_, more):
            return "The probabilities of several classes are too high or too low on average"

        def slope(column, more):
            name = names[column - starts[5]]
            return f"The probabilities of {name} are too {'moderate' if more else 'extreme'}"

        def slopes(_, more):
            return "The probabilities of several classes are too extreme or too moderate"

        def pair(column, more):
            predicted, label = divmod(int(self.pairs[column - starts[6]]), K)
            often = "more" if more else "less"
            return (
                f"Where {names[predicted]} is predicted, {names[label]} occurs {often} "
                "often than forecast"
            )

        def kernel(_, more):
            return "Labels of samples with similar forecasts differ from these forecasts"

        def some(part):
            columns = np.arange(starts[part], starts[part + 1])
            return columns[variance[columns] >= LEAST_VARIANCE]

        of_all = np.arange(2)
        statistics = [
            Statistic("log loss", of_all[:1], 3.0, loss),
            Statistic("wrong labels", of_all[1:], 1.0, wrong),
            Statistic("slope of the confidence", np.array([2]), 0.7, confidence),
            Statistic("levels", some(3), 0.5, level, squares=True),
            Statistic("mean of a class", some(4), 1.0, mean),
            Statistic("means of classes", some(4), 2.0, means, squares=True),
            Statistic("slope of a class", some(5), 0.3, slope),
            Statistic("slopes of classes", some(5), 0.7, slopes, squares=True),
            Statistic("pair of classes", some(6), 1.3, pair),
            Statistic("kernel", np.array([len(variance)]), 1.2, kernel, squares=True),
            *self.windows.statistics(3, variance[3 : starts[3]], window, " of the confidence"),
        ]
        statistics = [s for s in statistics if len(s.columns)]
        if self.units is not None:
            statistics = [s for s in statistics if not s.squares]
        least = 1e-12 * variance[starts[4] : starts[5]].max()
        return [s for s in statistics if s.name == "kernel" or variance[s.columns].max() > least]


def _class_key(problem, column):
    """Numbers that order columns by their values: equal for other orders of rows and columns."""
    scores = problem.forecast[:, column]
    places = np.unique(np.linspace(0, len(scores) - 1, 5).astype(int))
    scores = np.partition(scores, places)[places]
    target = problem.labels_or_target
    events = (target == column) if target.ndim == 1 else target[:, column]
    return (*scores.tolist(), float(np.sum(events)))


def _count_cumulants(p, weight):
    """Cumulants 1 to 3 of weighted Bernoulli variables, stacked."""
    variance = weight**2 * p * (1 - p)
    return np.stack([weight * p, variance, weight * variance * (1 - 2 * p)])


def _distances(first, second):
    """Euclidean distances (n, m) of rows."""
    squares = np.einsum("ik,ik->i", first, first)[:, None] + np.einsum("ik,ik->i", second, second)
    return np.sqrt(np.maximum(squares - 2 * first @ second.T, 0.0))


def draw_labels(forecast: np.ndarray, n_draws: int, rng: np.random.RandomState) -> np.ndarray:
    """Classes (n, n_draws) drawn from forecasts (n, K), never one whose forecast is 0."""
    levels = forecast.cumsum(axis=1)
    at = rng.random_sample((len(levels), n_draws)) * levels[:, -1:]
    if levels.shape[1] <= 24:
        label = np.zeros(at.shape, dtype=np.intp)
        for level in levels[:, :-1].T:
            label += at >= level[:, None]
        return label
    row = np.arange(len(levels))[:, None]
    levels = levels / levels[:, -1:] + row  # one search in all rows, whose numbers are apart
    place = np.searchsorted(levels.ravel(), at / forecast.sum(axis=1, keepdims=True) + row, "right")
    last = forecast.shape[1] - 1 - np.argmax(forecast[:, ::-1] > 0, axis=1)
    return np.minimum(place - row * forecast.shape[1], last[:, None])


# --- From arguments to a test ---------------------------------------------------------------------


def _refuted(problem):
    """The test of forecasts that an impossible or very improbable label refutes, else None.

    The probability that any label occurs whose forecast is at most q is at most the sum of these
    forecasts. For soft labels only forecasts of 0 are considered.
    """
    forecast, target = problem.forecast, problem.labels_or_target
    if target.ndim == 1:
        least = forecast[np.arange(len(target)), target].min()
    else:
        least = forecast[target > 0].min()
    size = problem.weight**2 / problem.squares
    bound = np.einsum("ik,ik,i->", forecast, forecast <= least, size)
    bound *= 2 * sum(forecast.shape)
    if least > 0 and (bound >= CERTAIN or problem.votes is not None):
        return None
    reason = f"a label occurred whose forecast was {least:.3g}"
    component = CalibrationComponent("improbable label", float(bound), _sentence(reason))
    with np.errstate(divide="ignore"):
        statistic = float(-np.log(bound))
    return OmnibusTest(statistic, float(bound), statistic, reason, None, (component,))


def _sentence(words):
    return words[:1].upper() + words[1:]


def _test_of_classes(problem, names, n_resamples, rng, n_jobs):
    """The test of three or more classes."""
    refuted = _refuted(problem)
    if refuted:
        return refuted
    return run_test(ClassScores(problem, names), n_resamples, rng, n_jobs)[0]


def _test_of_events(events, pooled, n_resamples, rng, n_jobs):
    """The test of one event, or of several by the Cauchy combination of their p-values.

    `events` are problems by name, and `pooled` is one of all of them, whose units are the samples.
    """
    for name, problem in events:
        refuted = _refuted(problem)
        if refuted and len(events) == 1:
            return refuted
        if refuted:
            words = f"{refuted.components[0].statement} ({name})"
            pvalue = min(1.0, refuted.pvalue * len(events))
            component = replace(refuted.components[0], statement=words, pvalue=pvalue)
            return replace(refuted, pvalue=pvalue, components=(component,))
    tests = [
        run_test(BinaryScores(problem, _phrase(name)), n_resamples, rng, n_jobs)
        for name, problem in events
    ]
    if len(tests) == 1:
        return tests[0][0]
    share = np.full(len(tests), 1 / len(tests))
    if pooled is not None:
        scores = BinaryScores(pooled, "The probabilities of all events")
        tests.append(run_test(scores, n_resamples, rng, n_jobs))
        share = np.append(share / 2, 0.5)
    log_pvalue = cauchy_combination(np.array([log for _, log in tests]), share)
    components = [
        replace(component, pvalue=min(1.0, component.pvalue / part))
        for (test, _), part in zip(tests, share, strict=True)
        for component in test.components
    ]
    components.sort(key=lambda component: component.pvalue)
    method = f"Cauchy combination of {len(tests)} tests of labels drawn from the forecasts"
    furthest = max((test.estimate for test, _ in tests), key=abs)
    return OmnibusTest(
        -log_pvalue, float(np.exp(log_pvalue)), furthest, method, None, tuple(components)
    )


def cauchy_combination(log_pvalues: np.ndarray, share: np.ndarray) -> float:
    r"""Logarithm of the p-value of :math:`\sum_j s_j \tan((1/2 - p_j) \pi)` (Liu and Xie 2020)."""
    least = log_pvalues.min()
    if least < -30:  # the tail is that of the sum of s / p
        return float(min(-logsumexp(-log_pvalues, b=share), 0.0))
    pvalues = np.clip(np.exp(log_pvalues), 1e-14, 1 - 1e-3)
    return float(np.log(0.5 - np.arctan(share @ np.tan((0.5 - pvalues) * np.pi)) / np.pi))


def _pooled(problem, notion):
    """One event of all labels, whose dependent units are the samples or their clusters."""
    if notion is None or problem.indicator:
        score, event = problem.forecast, problem.labels_or_target
    else:
        pairs = list(notion.problems(problem.forecast, problem.target))
        score = np.column_stack([forecast[:, 1] for forecast, _ in pairs])
        event = np.column_stack([target[:, 1] for _, target in pairs])
    row, column = np.nonzero(~np.isnan(event))
    score, event = score[row, column], event[row, column]
    unit = np.arange(len(problem.weight)) if problem.cluster is None else problem.cluster
    return Problem(
        np.column_stack([1 - score, score]),
        np.column_stack([1 - event, event]),
        problem.weight[row],
        np.arange(2),
        votes=None if problem.votes is None else problem.votes[row],
        cluster=unit[row],
    )


def _phrase(name):
    """What an event's probabilities are called in a statement."""
    return "Confidences" if name == "top label" else f"The probabilities of {name or 'the event'}"
