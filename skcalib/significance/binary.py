"""Classical tests of the calibration of binary forecasts, with and without bins.

Given the forecasts, the null hypothesis has no unknown parameters. So labels can be drawn from the
forecasts, which is the default where few labels are uncertain (`few_events`).

Each test is built from forecasts p (n,) and weights, and evaluates many labelings (..., n) at once.
``pvalue`` is computed from the survival function of the asymptotic distribution, so it is never
negative.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2
from scipy.stats import t as student
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.arithmetic import level_starts
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, BinCount, Label, RandomState, Strategy
from skcalib._util.validation import check_count, look_up
from skcalib.data.clusters import cluster_sums, independent_size
from skcalib.data.notions import Canonical
from skcalib.data.problem import ForecastSummary, LabelsLike, Problem, check_problem, named_events
from skcalib.errors.corp import label_draws
from skcalib.smoothers import PartitionSmoother, QuantileBins, UniformBins
from skcalib.stats.few_events import FEW, refutation, uncertain_labels
from skcalib.stats.pvalues import CalibrationTest, drawn_pvalue

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

    Levels of the asymptotic law: :ref:`binary_tests`.

    Parameters
    ----------
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        "two-sided": the p-value is :math:`2 \bar\Phi(|Z|)`; "greater": :math:`\bar\Phi(Z)`, for
        forecasts that may be over-confident; "less": :math:`\Phi(Z)`, for forecasts that may be
        under-confident. Choose it before you see the data.
    n_resamples : int, default=None
        Number R of labelings drawn from the forecasts. If m of them are at least as extreme as the
        data, the p-value is (1 + m) / (R + 1), which is valid for every n and every forecast. 0
        uses the asymptotic distribution. None draws 999 where fewer than 40 labels are uncertain,
        :math:`(\sum_i w_i v_i)^2 / \sum_i w_i^2 v_i < 40` with :math:`v_i = p_i (1 - p_i)`: about
        the expected number of events if these are rare. While no labeling is as extreme, R is
        doubled, up to 100,000 or fewer for many samples; the p-value remains valid. More than 1,000
        distinct forecasts of equal weight are merged into levels for the draws.
    random_state : int, RandomState instance or None, default=0
        Seed of the labelings.
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights: a weight of 2 is not two samples.

    Returns
    -------
    CalibrationTest
        ``statistic`` Z, ``pvalue``, ``estimate`` (the numerator over :math:`\sum w`: Brier score
        minus its expectation under calibration) and ``method``. A label that occurred at a forecast
        of exactly 0 refutes the forecasts: the statistic is infinite and p = 0, for every
        `alternative`. Otherwise the statistic is 0 with p = 1 if all forecasts are 0, 1/2 or 1.

    Raises
    ------
    ValueError
        For more than two classes.

    See Also
    --------
    skcalib.significance.cumulative_test : Detects every kind of miscalibration.
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
    asymptotically valid for many clusters otherwise (levels: :ref:`clusters`).

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
    look_up(alternative, SIDES, "alternative")
    problem = check_binary(
        "spiegelhalter_test",
        y_true,
        y_proba,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
        groups=groups,
    )
    return run_test(Spiegelhalter(problem, alternative), problem, n_resamples, random_state, n_jobs)


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
    the chi-square distribution is inaccurate: its level at .01 was up to .055
    (:ref:`binary_tests`). So labels are drawn by default also where some bin has fewer than 3
    uncertain labels. :func:`~skcalib.significance.cumulative_test` needs no bins.

    Parameters
    ----------
    y_true, y_proba
        As in :func:`~skcalib.spiegelhalter_test`.
    n_bins : int, "auto" or "cube_root", default=10
        Number of bins, as in :func:`~skcalib.calibration_error`; 10 for the deciles of the
        published test. Ties are never split, so there may be fewer bins.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass ("deciles of risk") or of equal width.
    ddof : int, default=0
        0 for held-out samples, the usual case; 2 for a logistic regression on its own training
        samples.
    n_resamples, random_state, sample_weight, labels, pos_label, groups, n_jobs
        As in :func:`~skcalib.spiegelhalter_test`. With weights the numerator uses the deviation
        :math:`\sum w (y - p)`. In the variance :math:`n_b` becomes :math:`\sum w^2`, and the mean
        forecast is weighted by :math:`w^2`. Labels are only drawn for ``ddof=0``.

    Returns
    -------
    CalibrationTest
        ``statistic`` H, ``pvalue``, ``estimate`` (the binned squared calibration error
        :math:`\sum_b \frac{n_b}{n} (\bar y_b - \bar p_b)^2`) and ``method``. Bins whose forecasts
        are all 0 or 1 have no variance and do not count in g. H is infinite and p = 0 if a label
        occurred at a forecast of exactly 0. ``method`` has H and its degrees of freedom, and says
        how the p-value was computed.

    Raises
    ------
    ValueError
        As :func:`~skcalib.spiegelhalter_test`; if g is not larger than `ddof`.

    See Also
    --------
    skcalib.significance.cumulative_test : Without bins.

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
    0.23
    0.26
    0.47
    """
    problem = check_binary(
        "hosmer_lemeshow_test",
        y_true,
        y_proba,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
        groups=groups,
    )
    if ddof and problem.cluster is not None:
        raise ValueError(
            "The null distribution is not known for forecasts that were fitted to labels in "
            "clusters: use ddof=0 with held-out samples, or omit groups."
        )
    if ddof and n_resamples:
        raise ValueError(
            "Labels drawn from the forecasts are not valid for forecasts that were fitted to the "
            "labels: use ddof=0 with held-out samples, or n_resamples=None."
        )
    bins = look_up(strategy, STRATEGIES, "strategy")(n_bins)
    statistic = HosmerLemeshow(problem, bins, ddof)
    return run_test(statistic, problem, n_resamples, random_state, n_jobs)


@checks_parameters
def cumulative_test(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    statistic: Literal["ks", "kuiper"] = "ks",
    n_resamples: int | None = None,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> CalibrationTest:
    r"""Kolmogorov-Smirnov or Kuiper test of calibration, two-sided and without bins.

    With samples in the order of their forecasts,

    .. math::

        C_k = \frac{\sum_{i \le k} w_i (y_i - p_i)}{\sum_i w_i}, \qquad
        \sigma^2 = \frac{\sum_i w_i^2 p_i (1 - p_i)}{(\sum_i w_i)^2},

    the statistic is :math:`\max_k |C_k| / \sigma` ("ks") or :math:`(\max_k C_k - \min_k C_k) /
    \sigma` ("kuiper", with :math:`C_0 = 0`). For calibrated forecasts :math:`C / \sigma` is
    asymptotically a Brownian motion W. The p-value is the upper tail of its largest absolute value,
    :math:`P(\max |W| > x) = 4 \sum_{k \ge 0} (-1)^k \bar\Phi((2k+1) x)`, or of its range, :math:`8
    \sum_{k \ge 1} (-1)^{k-1} k \bar\Phi(k x)`. No bins are needed, and every kind of miscalibration
    is detected if n is large enough. "ks" has slightly more power against errors of one sign, and
    "kuiper" against errors that change sign (:ref:`binary_tests`).

    **"ks" depends on which class is positive.** If the other class is positive, the sums begin at
    the other end: :math:`\max_k |C_k|` becomes :math:`\max_k |C_n - C_k|`. The two p-values can
    differ widely, so choose the class before you see the data. ``statistic="kuiper"`` does not
    depend on the class, because the range is the same from both ends.

    C is evaluated only after groups of equal forecasts, so the order of ties does not matter. For
    finite n, and more so with many ties, the maximum over few points is smaller than the maximum of
    the Brownian motion. The test is then conservative (levels: :ref:`binary_tests`). Labels that
    are drawn give the correct level.

    Parameters
    ----------
    y_true, y_proba
        As in :func:`~skcalib.spiegelhalter_test`.
    statistic : {"ks", "kuiper"}, default="ks"
        Largest absolute value, or range.
    n_resamples, random_state, sample_weight, labels, pos_label, groups, n_jobs
        As in :func:`~skcalib.spiegelhalter_test`.

    Returns
    -------
    CalibrationTest
        ``statistic``, ``pvalue``, ``estimate`` (the statistic times :math:`\sigma`: for "ks" the
        Kolmogorov-Smirnov calibration error) and ``method``. A label that
        occurred at a forecast of exactly 0 makes the statistic infinite, with p = 0.

    Raises
    ------
    ValueError
        As :func:`~skcalib.spiegelhalter_test`.

    See Also
    --------
    ks_calibration_error : The estimate alone.
    kernel_calibration_test : For any number of classes.

    References
    ----------
    .. [1] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu. Metrics of calibration for
       probabilistic predictions. Journal of Machine Learning Research 23, 2022.
    .. [2] W. Feller. The asymptotic distribution of the range of sums of independent random
       variables. Annals of Mathematical Statistics 22, 1951.

    Examples
    --------
    >>> from skcalib.significance import cumulative_test
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, score_temperature=0.6, random_state=0)
    >>> for statistic in ("ks", "kuiper"):
    ...     print(f"{cumulative_test(data.y, data.y_proba, statistic=statistic).pvalue:.2g}")
    0.00019
    0.00036
    """
    law = look_up(statistic, STATISTICS, "statistic")
    problem = check_binary(
        "cumulative_test",
        y_true,
        y_proba,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
        groups=groups,
    )
    return run_test(law(problem), problem, n_resamples, random_state, n_jobs)


# --- Statistics of the classical binary tests, and their laws under calibration -------------------


#: Labelings that are drawn where no asymptotic law holds.
N_DRAWS = 999
_LEVELS = 500  # half of the most levels of forecasts for which labels are drawn
_TINY = np.finfo(np.float64).tiny
_LEAST = np.finfo(np.float64).smallest_subnormal
#: Uncertain labels of a bin from which its squared deviation is nearly chi-square.
FEW_IN_BIN = 3.0


class BinaryTest:
    """A test statistic of given forecasts, as a function of the labels.

    Subclasses have a ``name`` and the forecasts ``p`` (n,), and implement ``statistic(y)`` of
    labels (..., n), ``estimate(y)`` and ``pvalue(statistic)``. ``robust`` is True if the p-value
    allows for clusters without drawing their signs. ``drawn`` says how labels are drawn, and
    ``cost`` how long a statistic takes.
    """

    robust = False
    cost = 1  # time of a statistic, in sums over the labels
    options: tuple = ()  # arguments of the constructor besides the problem
    drawn = "labels drawn from the forecasts"

    def few(self, problem: Problem) -> bool:
        """Whether there are too few uncertain labels for the asymptotic law."""
        return uncertain_labels(problem.forecast, problem.weight, problem.square) < FEW

    def draws(
        self, problem: Problem, n_resamples: int, rng: np.random.RandomState
    ) -> Iterable[np.ndarray]:
        """Labels under calibration, in chunks (..., n)."""
        return label_draws(problem, n_resamples, rng)

    def extreme(self, statistic: np.ndarray | float) -> np.ndarray | float:
        """How extreme statistics are, for the p-value of drawn labels."""
        return np.abs(statistic)

    def detail(self, statistic: float) -> str:
        """What the method says besides the law."""
        return ""


class Spiegelhalter(BinaryTest):
    """Z = sum w (y - p)(1 - 2p) / sd; over-confidence is the side "greater"."""

    robust = True

    def __init__(self, problem: Problem, side: str = "two-sided") -> None:
        self.sign, self.options = SIDES[side], (side,)
        self.name = f"Spiegelhalter, {side}" if self.sign else "Spiegelhalter"
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
        return ratio((y - self.p) @ self.tilt, self.deviation)

    def estimate(self, y: np.ndarray) -> float:
        """Weighted mean of the terms."""
        return (y - self.p) @ self.tilt / self.weight.sum()

    def extreme(self, statistic: np.ndarray | float) -> np.ndarray | float:
        """The absolute value, or the statistic with the sign of the side."""
        return np.multiply(self.sign, statistic) if self.sign else np.abs(statistic)

    def pvalue(self, statistic: float) -> float:
        """Tail of the normal distribution, or of Student's for clusters."""
        z, tails = self.extreme(statistic), 1 if self.sign else 2
        clustered = np.isfinite(self.units)
        return tails * (student.sf(z, max(self.units - 1, 1.0)) if clustered else ndtr(-z))


SIDES = {"two-sided": 0, "greater": 1, "less": -1}


class HosmerLemeshow(BinaryTest):
    """Sum over bins of (observed - expected)^2 / variance."""

    def __init__(self, problem: Problem, bins: PartitionSmoother, ddof: int) -> None:
        p = self.p = problem.forecast[:, 1]
        self.ddof, self.options = ddof, (bins, ddof)
        self.name = f"Hosmer-Lemeshow, {bins!r}"
        partition = bins.fit_rows(problem.forecast, problem.target, problem.weight, problem.count)
        cells = partition.cells_
        # After a stable sort by bin, reduceat sums the bins of many labelings at once.
        self.order = np.argsort(cells, kind="stable")
        self.starts = np.flatnonzero(np.diff(cells[self.order], prepend=-1))
        self.mass = self._sums(problem.weight)
        # The scale of the weights of a bin does not matter: squares of small ones would be 0.
        largest = np.maximum.reduceat(problem.weight[self.order], self.starts)
        scale = -np.frexp(largest)[1][np.unique(cells, return_inverse=True)[1]]
        self.weight = np.ldexp(problem.weight, scale)
        self.squares = np.ldexp(problem.squares, 2 * scale)
        squares = self._sums(self.squares)
        mean, complement = (
            np.maximum(self._sums(self.squares * v) / squares, _LEAST * (self._sums(v) > 0))
            for v in (p, 1 - p)
        )
        self.spread = np.sqrt(squares) * np.sqrt(mean) * np.sqrt(complement)
        self.freedom = np.sum(self.spread > 0) - ddof
        if self.freedom < 1 and (self.spread > 0).any():
            raise ValueError(
                f"Only {self.freedom + ddof} bins hold forecasts other than 0 and 1, and "
                f"ddof={ddof}: use more bins, or cumulative_test, which needs none."
            )

    def few(self, problem: Problem) -> bool:
        """Whether too few labels are uncertain, in all bins or in one; never for fitted ones."""
        variance = self.p * (1 - self.p)
        spread = self._sums(self.squares * variance)
        labels = ratio(self._sums(self.weight * variance) ** 2, spread)
        few = super().few(problem) or ((labels > 0) & (labels < FEW_IN_BIN)).any()
        return bool(few) and not self.ddof

    def detail(self, statistic: float) -> str:
        """Chi-squared and its degrees of freedom."""
        degrees = "degree" if self.freedom == 1 else "degrees"
        return f"chi-squared {statistic:.4g} with {self.freedom} {degrees} of freedom; "

    def _sums(self, values):
        return np.add.reduceat(values[..., self.order], self.starts, axis=-1)

    def statistic(self, y: np.ndarray) -> np.ndarray:
        deviations = self._sums(self.weight * (y - self.p))
        with np.errstate(over="ignore"):  # infinite for an event that was practically impossible
            return np.sum(ratio(deviations, self.spread) ** 2, axis=-1)

    def estimate(self, y: np.ndarray) -> float:
        """Mean squared gap of the bins."""
        gaps = self._sums(self.weight * (y - self.p)) / self._sums(self.weight)
        return np.sum(self.mass * gaps**2, axis=-1) / self.mass.sum()

    def pvalue(self, statistic: float) -> float:
        """P-value of the chi-square distribution."""
        if self.freedom < 1:  # every forecast is 0 or 1
            return float(statistic == 0)
        return chi2.sf(statistic, self.freedom)


class Cumulative(BinaryTest):
    """Largest excursion of the cumulative differences, in standard deviations of their end."""

    def __init__(self, problem: Problem) -> None:
        p = self.p = problem.forecast[:, 1]
        self.weight = problem.weight
        self.order = np.argsort(p, kind="stable")
        ranked = p[self.order]
        self.ends = np.append(level_starts(ranked)[1:], len(ranked)) - 1
        self.deviation = np.sqrt(np.sum(problem.squares * p * (1 - p)))

    def _size(self, curve):
        raise NotImplementedError

    def _curve(self, y):
        steps = (self.weight * (y - self.p))[..., self.order]
        return np.cumsum(steps, axis=-1)[..., self.ends]

    def statistic(self, y: np.ndarray) -> np.ndarray:
        return ratio(self._size(self._curve(y)), self.deviation)

    def estimate(self, y: np.ndarray) -> float:
        """Largest excursion of the mean cumulative difference."""
        return self._size(self._curve(y)) / self.weight.sum()


class KolmogorovSmirnov(Cumulative):
    """Largest absolute value of the cumulative differences."""

    name = "Kolmogorov-Smirnov"

    def _size(self, curve):
        return np.abs(curve).max(axis=-1)

    def pvalue(self, statistic: float) -> float:
        """P-value of the largest absolute value of Brownian motion."""
        return brownian_maximum_sf(statistic)


class Kuiper(Cumulative):
    """Range of the cumulative differences."""

    name = "Kuiper"

    def _size(self, curve):  # the curve starts at 0
        return np.maximum(curve.max(axis=-1), 0) - np.minimum(curve.min(axis=-1), 0)

    def pvalue(self, statistic: float) -> float:
        """P-value of the range of Brownian motion."""
        return brownian_range_sf(statistic)


def brownian_maximum_sf(x: float) -> float:
    """P(max |W(t)| > x) for Brownian motion on [0, 1], by reflection."""
    if x < 0.15:  # 1 up to 1e-23; the series would need many terms
        return 1.0
    k = np.arange(int(40 / x) + 2)
    return float(min(1.0, 4 * np.sum((-1.0) ** k * ndtr(-(2 * k + 1) * x))))


def brownian_range_sf(x: float) -> float:
    """P(max W - min W > x) for Brownian motion on [0, 1] (Feller 1951)."""
    if x < 0.25:
        return 1.0
    k = np.arange(1, int(40 / x) + 3)
    return float(min(1.0, 8 * np.sum((-1.0) ** (k - 1) * k * ndtr(-k * x))))


STATISTICS = {"ks": KolmogorovSmirnov, "kuiper": Kuiper}


def ratio(deviation: np.ndarray, spread: np.ndarray | float) -> np.ndarray:
    """Deviation / spread, where 0 / 0 is 0: forecasts of 0 and 1 that were right."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(deviation == 0, 0.0, deviation / spread)


def check_binary(
    name: str, y_true: LabelsLike, y_proba: ArrayLike | None, **samples: Any
) -> Problem:
    """Arguments of a binary test -> `Problem`; `samples` are weights, labels and clusters."""
    if isinstance(y_true, ForecastSummary):
        if len(y_true.summarised_notion()[2]) > 2:
            raise ValueError(
                f"{name} is for two classes, but the sketch has more: make a sketch of one class "
                "against the rest."
            )
        ((_, problem),) = named_events(y_true, y_proba, Canonical(), **samples)
        return problem
    problem = check_problem(y_true, y_proba, Canonical(), **samples)
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
    n_resamples: int | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> CalibrationTest:
    """A statistic made from forecasts -> `CalibrationTest` of their labels.

    Where few labels are uncertain, `N_DRAWS` labelings are drawn unless `n_resamples` is given; 0
    stands for the asymptotic distribution. A label that the forecasts exclude refutes them.
    """
    y, clustered = problem.target[:, 1], problem.cluster is not None
    statistic, estimate = float(test.statistic(y)), float(test.estimate(y))
    if n_resamples is None:
        drawn = not test.robust if clustered else test.few(problem)
        n_resamples = N_DRAWS if drawn else 0
    n_resamples = check_count(n_resamples, "n_resamples", least=0)
    if clustered and not (n_resamples or test.robust):
        raise ValueError("This test has no asymptotic law for clusters: omit n_resamples=0.")
    law = refutation(problem.forecast, problem.target)
    if law:
        statistic, pvalue = np.inf, 0.0
    elif n_resamples:
        pvalue = _drawn_pvalue(test, problem, n_resamples, check_random_state(random_state), n_jobs)
        law = "random signs of clusters" if clustered else test.drawn
    else:
        pvalue, law = float(test.pvalue(statistic)), "clusters" if clustered else "asymptotic"
    method = f"{test.name} ({test.detail(statistic)}{law})"
    return CalibrationTest(statistic, pvalue, estimate, method)


def _drawn_pvalue(test, problem, n_resamples, rng, n_jobs):
    """Share of labelings that are as extreme, the observed one included."""
    merged = merged_rows(problem)
    if merged is not problem:
        problem, test = merged, type(test)(merged, *test.options)

    def draw(size):
        """Drawn here in sequence: the p-value does not depend on parallel execution."""
        drawn = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(test.statistic)(labels) for labels in test.draws(problem, size, rng)
        )
        return test.extreme(np.concatenate(drawn))

    (observed,) = test.statistic(problem.target[:, 1][None])
    size = test.cost * len(problem.weight)
    return drawn_pvalue(draw, float(test.extreme(observed)), n_resamples, size=size)[0]


def merged_rows(problem: Problem) -> Problem:
    """The problem in the order of its forecasts; of many rows, nearly equal ones are merged."""
    p, weight = problem.forecast[:, 1], problem.weight
    if problem.cluster is not None:
        return problem
    weighted = problem.count is None and problem.sample_weight is not None
    if len(weight) <= 2 * _LEVELS or weighted:
        return problem.take(np.lexsort((weight, p)))
    distinct, level = np.unique(p, return_inverse=True)
    # Levels of equal weight, divided where they have much of the uncertainty.
    sums = [np.cumsum(np.bincount(level, mass)) for mass in (weight, weight * p * (1 - p))]
    shares = [np.ceil(_LEVELS * (total / max(total[-1], _TINY) - 1e-12)) for total in sums]
    edge = (distinct == 0) | (distinct == 1)
    steps = np.diff(np.stack([*shares, edge]), axis=1).any(axis=0)
    level = np.append(0, np.cumsum(steps))[level]
    mass = np.bincount(level, weight)
    forecast, target = (
        np.stack([np.bincount(level, weight * column) / mass for column in rows.T], axis=1)
        for rows in (problem.forecast, problem.target)
    )
    square = np.bincount(level, problem.squares)
    count = np.bincount(level, problem.count)
    return Problem(np.minimum(forecast, 1), target, mass, problem.classes, square, count)
