"""Classical tests of the calibration of binary forecasts.

The null hypothesis is that labels are independent and y_i = 1 with probability p_i. Given the
forecasts, it has no unknown parameters. So the null distribution of any statistic can also be
simulated with ``n_resamples=``. That p-value is valid for every sample size, for ties and for
forecasts near 0 and 1.

Each test is built from forecasts p (n,) and weights, and evaluates many labelings (..., n) at once.
``pvalue`` is computed from the survival function of the asymptotic distribution, so it is never
negative.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2
from scipy.stats import t as student
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._parameters import checks_parameters
from skcalib._validation import check_count, look_up
from skcalib._values import shown
from skcalib.clusters import cluster_sums, independent_size
from skcalib.events import named_events
from skcalib.notions import Canonical
from skcalib.problem import ForecastSummary, Problem, check_problem
from skcalib.pvalues import CalibrationTest, monte_carlo_pvalue
from skcalib.smoothers import QuantileBins, UniformBins

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skcalib._arguments import BinCount, Label, LabelsLike, RandomState, Strategy
    from skcalib.smoothers import PartitionSmoother

STRATEGIES = {"uniform": UniformBins, "quantile": QuantileBins}


@checks_parameters
def spiegelhalter_test(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    alternative: Literal["two-sided", "greater", "less"] = "two-sided",
    n_resamples: int | None = None,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> CalibrationTest:
    r"""Test whether the Brier score differs from its expected value under calibration.

    .. math::

        Z = \frac{\sum_i w_i (y_i - p_i)(1 - 2 p_i)}
                 {\sqrt{\sum_i w_i^2 (1 - 2 p_i)^2 p_i (1 - p_i)}}

    is asymptotically standard normal for calibrated forecasts. It is positive for over-confident
    forecasts, whose Brier score is larger than expected, and negative for under-confident ones. The
    default test is two-sided. The test detects one direction of miscalibration only: it has no
    power against errors for which :math:`E (C - S)(1 - 2S) = 0`, such as a shift of forecasts that
    are symmetric about one half.

    Measured level at .05 (10,000 draws each; forecasts uniform, beta(.5, .5), beta(.1, .1), rare
    events, ties): .037 to .051 for n = 100, .047 to .057 for n = 1000.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or ForecastSketch
        Labels of two classes, or a sketch, which stands for labels, forecasts and weights.
    y_proba : array-like of shape (n_samples,) or (n_samples, 2), optional
        Probability of the positive class, or of both; omitted with a sketch.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        "two-sided": the p-value is :math:`2 \bar\Phi(|Z|)`; "greater": :math:`\bar\Phi(Z)`, for
        forecasts that may be over-confident; "less": :math:`\Phi(Z)`, for forecasts that may be
        under-confident. Choose it before you see the data.
    n_resamples : int, default=None
        Number R of labelings drawn from the forecasts. If m of them are at least as extreme as the
        data, the p-value is (1 + m) / (R + 1), which is valid for every n and every forecast. None
        uses the asymptotic distribution, which needs at least four samples. For a sketch only None
        is allowed.
    random_state : int, RandomState instance or None, default=0
        Seed of the labelings.
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights: a weight of 2 is not two samples.
    labels : array-like of shape (2,), default=None
        The class of each column of `y_proba`.
    pos_label : label, default=None
        The class that a `y_proba` of shape (n_samples,) refers to; by default the last in order.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient, by any labels. Labels of a cluster may then
        depend on each other in any way; see the notes.
    n_jobs : int, default=None
        Number of threads for the simulation. The result does not depend on it.

    Returns
    -------
    CalibrationTest
        ``statistic`` Z, ``pvalue``, ``estimate`` (the numerator over :math:`\sum w`: Brier score
        minus its expectation under calibration) and ``method``. The variance is 0 if all forecasts
        are 0, 1/2 or 1. The statistic is then 0 with p = 1 if no forecast of 0 or 1 was wrong.
        Otherwise it is infinite with p = 0, or p = 1 for ``alternative="less"``.

    Raises
    ------
    ValueError
        For more than two classes; for n < 4 without `n_resamples`.

    See Also
    --------
    cumulative_test : Detects every kind of miscalibration.
    kernel_calibration_test : For any number of classes.

    Notes
    -----
    **Clusters.** With `groups` the terms of the sum are added within each cluster, and the squared
    denominator is the sum of the squared cluster sums. Z then has Student's t distribution with G -
    1 degrees of freedom, where G is the effective number of clusters, :math:`(\sum_g W_g)^2 /
    \sum_g W_g^2` for sums :math:`W_g` of weights. Labels in clusters cannot be drawn from the
    forecasts. With `n_resamples`, the test draws the signs of the residuals y - p of whole clusters
    instead. The tests of bins and cumulative differences do so by default, with 999 draws. The
    p-value is exact if the distribution of the residuals of a cluster is symmetric, and
    asymptotically valid for many clusters otherwise. Measured level at .05 with 50 clusters of 1 to
    100 samples whose log odds have a random effect of standard deviation 1.3 (400 data sets): .02
    for Z, .04 ("ks") and .05 (Hosmer and Lemeshow); without `groups` .21, .51 and .41.

    References
    ----------
    .. [1] D. J. Spiegelhalter. Probabilistic prediction in patient management and clinical trials.
       Statistics in Medicine 5, 1986.

    Examples
    --------
    >>> from skcalib import spiegelhalter_test
    >>> from skcalib.datasets import make_tempered_simplex
    >>> calibrated = make_tempered_simplex(500, score_temperature=1, random_state=1)
    >>> sharp = make_tempered_simplex(500, score_temperature=0.6, random_state=1)
    >>> for data in (calibrated, sharp):
    ...     print(f"{spiegelhalter_test(data.y, data.y_proba).pvalue:.2g}")
    0.42
    7e-14
    """
    side = look_up(alternative, ALTERNATIVES, "alternative")
    given = y_true, y_proba, sample_weight, labels, pos_label, groups
    problem = check_binary(*given, "spiegelhalter_test")
    return run_test(side(problem), problem, n_resamples, random_state, n_jobs)


@checks_parameters
def hosmer_lemeshow_test(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: BinCount = 10,
    strategy: Strategy = "quantile",
    ddof: int = 0,
    n_resamples: int | None = None,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> CalibrationTest:
    r"""Hosmer-Lemeshow goodness-of-fit test of binary forecasts, which depends on the bins.

    Over g bins with :math:`n_b` samples, observed events :math:`O_b`, expected events
    :math:`E_b = n_b \bar p_b`,

    .. math::

        H = \sum_b \frac{(O_b - E_b)^2}{n_b \bar p_b (1 - \bar p_b)}

    is compared with the chi-square distribution with g - ddof degrees of freedom.

    The result depends on the bins: the same data may be significant with 9 bins and not with 10.
    Where the expected counts of a bin are below one, as in the extreme bins of confident forecasts,
    the chi-square distribution is inaccurate. The levels at .05 and .01 were measured with 10
    quantile bins (10,000 draws). They were .056 and .017 for uniform forecasts at n = 100, but .093
    and .045 for beta(.5, .5) forecasts, and .070 and .055 for rare events even at n = 1000. With
    `n_resamples` the level is correct everywhere. :func:`cumulative_test` needs no bins.

    Parameters
    ----------
    y_true, y_proba
        As in :func:`spiegelhalter_test`.
    n_bins : int, "auto" or "cube_root", default=10
        Number of bins, as in :func:`calibration_error`. Ties are never split, so there may be fewer
        bins.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass ("deciles of risk") or of equal width.
    ddof : int, default=0
        0 for held-out samples, the usual case; 2 for a logistic regression on its own training
        samples.
    n_resamples, random_state, sample_weight, labels, pos_label, groups, n_jobs
        As in :func:`spiegelhalter_test`. With weights the numerator uses the deviation :math:`\sum
        w (y - p)`. In the variance :math:`n_b` becomes :math:`\sum w^2`, and the mean forecast is
        weighted by :math:`w^2`. Simulation requires ``ddof=0``.

    Returns
    -------
    CalibrationTest
        ``statistic`` H, ``pvalue``, ``estimate`` (the binned squared calibration error
        :math:`\sum_b \frac{n_b}{n} (\bar y_b - \bar p_b)^2`) and ``method``. Bins whose forecasts
        are all 0 or 1 have no variance and do not count in g. H is infinite and p = 0 if one of
        these forecasts was wrong: an event at a forecast of 0, or a non-event at a forecast of 1.
        Such a case is impossible for calibrated forecasts. ``method`` says which case occurred.

    Raises
    ------
    ValueError
        As :func:`spiegelhalter_test`; if g is not larger than `ddof`.

    See Also
    --------
    cumulative_test : Without bins.

    References
    ----------
    .. [1] D. W. Hosmer and S. Lemeshow. A goodness-of-fit test for the multiple logistic regression
       model. Communications in Statistics 9, 1980.

    Examples
    --------
    >>> from skcalib import hosmer_lemeshow_test
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, score_temperature=1, random_state=0)
    >>> for n_bins in (8, 10, 12):
    ...     print(f"{hosmer_lemeshow_test(data.y, data.y_proba, n_bins=n_bins).pvalue:.2f}")
    0.22
    0.25
    0.48
    """
    given = y_true, y_proba, sample_weight, labels, pos_label, groups
    problem = check_binary(*given, "hosmer_lemeshow_test")
    if not isinstance(ddof, Integral) or isinstance(ddof, bool) or ddof < 0:
        raise ValueError(f"ddof must be a whole number of at least 0, got {shown(ddof)}.")
    if ddof and problem.cluster is not None:
        raise ValueError(
            "The null distribution is not known for forecasts that were fitted to labels in "
            "clusters: use ddof=0 with held-out samples, or omit groups."
        )
    if ddof and n_resamples is not None:
        raise ValueError(
            "Labels drawn from the forecasts are not valid for forecasts that were fitted to the "
            "labels: use ddof=0 with held-out samples, or n_resamples=None."
        )
    bins = look_up(strategy, STRATEGIES, "strategy")(n_bins)
    statistic = HosmerLemeshow(problem, bins, ddof)
    return run_test(statistic, problem, n_resamples, random_state, n_jobs)


# --- Statistics of the classical binary tests, and their laws under calibration -------------------


MIN_SAMPLES = 4
#: Draws of the signs of clusters where there is no asymptotic law.
N_SIGNS = 999
_BLOCK = 1 << 22  # simulated labels at a time


class BinaryTest:
    """A test statistic of given forecasts, as a function of the labels.

    Subclasses have a ``name`` and the forecasts ``p`` (n,), and implement ``statistic(y)`` of
    labels (..., n), ``estimate(y)`` and ``pvalue(statistic)``. ``robust`` is True if the p-value
    allows for clusters without drawing their signs.
    """

    robust = False

    def extreme(self, statistic: np.ndarray | float) -> np.ndarray | float:
        """How extreme statistics are, for the p-value of simulated labels."""
        return np.abs(statistic)


class Spiegelhalter(BinaryTest):
    """Z = sum w (y - p)(1 - 2p) / sd."""

    name = "Spiegelhalter"
    robust = True

    def __init__(self, problem: Problem) -> None:
        p = self.p = problem.forecast[:, 1]
        self.weight = problem.weight
        self.tilt = problem.weight * (1 - 2 * p)
        self.deviation = np.sqrt(np.sum(problem.squares * (1 - 2 * p) ** 2 * p * (1 - p)))
        self.units = np.inf
        if problem.cluster is not None:
            terms = cluster_sums((problem.target[:, 1] - p) * self.tilt, problem.cluster)
            self.deviation = np.sqrt(np.sum(terms**2))  # also with other signs of the clusters
            self.units = independent_size(problem.weight, cluster=problem.cluster)

    def statistic(self, y: np.ndarray) -> np.ndarray:
        """Statistic of labels (..., n)."""
        return ratio((y - self.p) @ self.tilt, self.deviation)

    def estimate(self, y: np.ndarray) -> float:
        """Weighted mean of the terms."""
        return (y - self.p) @ self.tilt / self.weight.sum()

    def pvalue(self, statistic: float) -> float:
        """Two-sided p-value."""
        return 2 * self.tail(abs(statistic))

    def tail(self, z: float) -> float:
        """Upper tail of the normal distribution, or of Student's for clusters."""
        return student.sf(z, max(self.units - 1, 1.0)) if np.isfinite(self.units) else ndtr(-z)


class OverConfidence(Spiegelhalter):
    """Z, large for over-confident forecasts."""

    name = "Spiegelhalter, greater"

    def extreme(self, statistic: np.ndarray | float) -> np.ndarray | float:
        """The statistic itself."""
        return statistic

    def pvalue(self, statistic: float) -> float:
        """Upper tail."""
        return self.tail(statistic)


class UnderConfidence(Spiegelhalter):
    """Z, small for under-confident forecasts."""

    name = "Spiegelhalter, less"

    def extreme(self, statistic: np.ndarray | float) -> np.ndarray | float:
        """Minus the statistic."""
        return np.negative(statistic)

    def pvalue(self, statistic: float) -> float:
        """Lower tail."""
        return self.tail(-statistic)


class HosmerLemeshow(BinaryTest):
    """Sum over bins of (observed - expected)^2 / variance."""

    def __init__(self, problem: Problem, bins: PartitionSmoother, ddof: int) -> None:
        p = self.p = problem.forecast[:, 1]
        self.weight, self.ddof = problem.weight, ddof
        self.name = f"Hosmer-Lemeshow, {bins!r}"
        rows = problem.forecast, problem.target, problem.weight, problem.count
        cells = bins.fit_rows(*rows).cells_
        # After a stable sort by bin, reduceat sums the bins of many labelings at once.
        self.order = np.argsort(cells, kind="stable")
        self.starts = np.flatnonzero(np.diff(cells[self.order], prepend=-1))
        self.mass = self._sums(self.weight)
        squares = self._sums(problem.squares)
        mean, rest = (self._sums(problem.squares * v) / squares for v in (p, 1 - p))
        self.variance = squares * mean * rest
        self.freedom = np.sum(self.variance > 0) - ddof
        if self.freedom < 1 and (self.variance > 0).any():
            raise ValueError(
                f"Only {self.freedom + ddof} bins hold forecasts other than 0 and 1, and "
                f"ddof={ddof}: use more bins, or cumulative_test, which needs none."
            )

    def _sums(self, values):
        return np.add.reduceat(values[..., self.order], self.starts, axis=-1)

    def statistic(self, y: np.ndarray) -> np.ndarray:
        """Statistic of labels (..., n)."""
        deviations = self._sums(self.weight * (y - self.p))
        with np.errstate(over="ignore"):  # infinite for an event that was practically impossible
            return np.sum(ratio(deviations, np.sqrt(self.variance)) ** 2, axis=-1)

    def estimate(self, y: np.ndarray) -> float:
        """Mean squared gap of the bins."""
        gaps = self._sums(self.weight * (y - self.p)) / self.mass
        return np.sum(self.mass * gaps**2, axis=-1) / self.mass.sum()

    def pvalue(self, statistic: float) -> float:
        """P-value of the chi-square distribution."""
        if self.freedom < 1:  # every forecast is 0 or 1
            return float(statistic == 0)
        return chi2.sf(statistic, self.freedom)


def ratio(deviation: np.ndarray, spread: np.ndarray | float) -> np.ndarray:
    """Deviation / spread, where 0 / 0 is 0: forecasts of 0 and 1 that were right."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(deviation == 0, 0.0, deviation / spread)


def check_binary(
    y_true: LabelsLike,
    y_proba: ArrayLike | None,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Label,
    groups: ArrayLike | None,
    name: str,
) -> Problem:
    """Arguments of a binary test -> `Problem`."""
    columns: dict[str, Any] = {"sample_weight": sample_weight, "labels": labels}
    columns["pos_label"] = pos_label
    if groups is not None:
        columns["groups"] = groups
    if isinstance(y_true, ForecastSummary):
        if len(y_true.summarised_notion()[2]) > 2:
            raise ValueError(
                f"{name} is for two classes, but the sketch has more: make a sketch of one class "
                "against the rest."
            )
        ((_, problem),) = named_events(y_true, y_proba, Canonical(), **columns)
        return problem
    problem = check_problem(y_true, y_proba, **columns)
    n_classes = problem.forecast.shape[1]
    if n_classes > 2:
        raise ValueError(
            f"{name} is for two classes, but y_proba has {n_classes} columns: use "
            "kernel_calibration_test, or test each class c against the rest, "
            f"{name}(y_true == c, y_proba[:, c]), and multiply the p-values by {n_classes}."
        )
    # Rounding may leave forecasts above 1, which would have a negative variance: they are cut at 1.
    return replace(problem, forecast=np.minimum(problem.forecast, 1))


def run_test(
    test: Any,
    problem: Problem,
    n_resamples: int | None,
    random_state: RandomState,
    n_jobs: int | None,
) -> CalibrationTest:
    """A statistic made from forecasts -> `CalibrationTest` of their labels."""
    y = problem.target[:, 1]
    statistic = float(test.statistic(y))
    clustered = problem.cluster is not None
    if clustered and n_resamples is None and not test.robust:
        n_resamples = N_SIGNS
    if np.isinf(statistic) and clustered:
        pvalue, law = 0.0, "clusters"
    elif n_resamples is not None:
        if problem.count is not None:
            raise ValueError(
                "Labels cannot be drawn sample by sample for a sketch: omit n_resamples."
            )
        n_resamples = check_count(n_resamples, "n_resamples")
        rng = check_random_state(random_state)
        pvalue = _simulated_pvalue(test, problem, statistic, n_resamples, rng, n_jobs)
        law = "random signs of clusters" if clustered else "simulated"
    elif problem.n_samples < MIN_SAMPLES:
        raise ValueError(
            f"An asymptotic test needs at least {MIN_SAMPLES} samples, got {problem.n_samples}: "
            "pass n_resamples=999 to simulate the null distribution instead."
        )
    else:
        pvalue = float(test.pvalue(statistic))
        law = "clusters" if clustered else "asymptotic"
    if np.isinf(statistic):
        law += _excluded(problem)
    return CalibrationTest(statistic, pvalue, float(test.estimate(y)), f"{test.name} ({law})")


def _excluded(problem):
    """The reason for an infinite statistic as text: labels that the forecasts excluded."""
    words = ("; no event where the forecast said 1", "; an event where the forecast said 0")
    p, y = problem.forecast[:, 1], problem.target[:, 1]
    wrong = np.any((p == 1) & (y == 0)), np.any((p == 0) & (y == 1))
    return "".join(word for word, found in zip(words, wrong, strict=True) if found)


def _simulated_pvalue(test, problem, statistic, n_resamples, rng, n_jobs):
    """Share of labelings that are as extreme, the observed one included.

    For clusters the labels are replaced by forecasts plus residuals with the sign of the cluster.
    """
    n_samples = len(test.p)
    draw = partial(_labels, rng, test.p)
    if problem.cluster is not None:
        draw = partial(_residuals_of_any_sign, rng, test.p, problem)
    rows = max(1, _BLOCK // n_samples)
    sizes = (min(rows, n_resamples - start) for start in range(0, n_resamples, rows))
    # Drawn here in sequence: the p-value does not depend on parallel execution.
    drawn = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(test.statistic)(draw(size)) for size in sizes
    )
    return monte_carlo_pvalue(test.extreme(statistic), test.extreme(np.concatenate(drawn)))


ALTERNATIVES = {"two-sided": Spiegelhalter, "greater": OverConfidence, "less": UnderConfidence}


def _labels(rng, p, size):
    return rng.random_sample((size, len(p))) < p


def _residuals_of_any_sign(rng, p, problem, size):
    signs = rng.choice([-1.0, 1.0], size=(size, int(problem.cluster.max()) + 1))
    return p + signs[:, problem.cluster] * (problem.target[:, 1] - p)
