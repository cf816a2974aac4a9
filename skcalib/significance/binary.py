"""Tests of the calibration of binary forecasts: classical ones, and likelihood ratios.

Given the forecasts, the null hypothesis has no unknown parameters. So labels can be drawn from the
forecasts, which is the default where fewer than `FEW` labels are uncertain (`uncertain_labels`).

Each test is built from forecasts p (n,) and weights, and evaluates many labelings (..., n) at once.
``pvalue`` is computed from the survival function of the asymptotic distribution, so it is never
negative.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_expit, logit, ndtr
from scipy.stats import chi2
from scipy.stats import t as student
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.arithmetic import level_starts, merge_ties
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, BinCount, Label, RandomState, Strategy
from skcalib._util.validation import check_count, look_up
from skcalib.data.clusters import cluster_sums, effective_size, independent_size, inflation
from skcalib.data.notions import Canonical
from skcalib.data.problem import ForecastSummary, LabelsLike, Problem, check_problem, named_events
from skcalib.errors.corp import label_draws
from skcalib.smoothers import PartitionSmoother, QuantileBins, UniformBins
from skcalib.stats.means import FEW, refutation, uncertain_labels
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
    skcalib.calibration_test : For any number of classes.

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
    >>> from skcalib.significance import spiegelhalter_test
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
        As in :func:`~skcalib.significance.spiegelhalter_test`.
    n_bins : int, "auto" or "cube_root", default=10
        Number of bins, as in :func:`~skcalib.calibration_error`; 10 for the deciles of the
        published test. Ties are never split, so there may be fewer bins.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass ("deciles of risk") or of equal width.
    ddof : int, default=0
        0 for held-out samples, the usual case; 2 for a logistic regression on its own training
        samples.
    n_resamples, random_state, sample_weight, labels, pos_label, groups, n_jobs
        As in :func:`~skcalib.significance.spiegelhalter_test`. With weights the numerator uses the
        deviation :math:`\sum w (y - p)`. In the variance :math:`n_b` becomes :math:`\sum w^2`, and
        the mean forecast is weighted by :math:`w^2`. Labels are only drawn for ``ddof=0``.

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
        As :func:`~skcalib.significance.spiegelhalter_test`; if g is not larger than `ddof`.

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
        As in :func:`~skcalib.significance.spiegelhalter_test`.
    statistic : {"ks", "kuiper"}, default="ks"
        Largest absolute value, or range.
    n_resamples, random_state, sample_weight, labels, pos_label, groups, n_jobs
        As in :func:`~skcalib.significance.spiegelhalter_test`.

    Returns
    -------
    CalibrationTest
        ``statistic``, ``pvalue``, ``estimate`` (the statistic times :math:`\sigma`: for "ks" the
        Kolmogorov-Smirnov calibration error) and ``method``. A label that
        occurred at a forecast of exactly 0 makes the statistic infinite, with p = 0.

    Raises
    ------
    ValueError
        As :func:`~skcalib.significance.spiegelhalter_test`.

    See Also
    --------
    ks_calibration_error : The estimate alone.
    skcalib.calibration_test : For any number of classes.

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
    look_up(statistic, STATISTICS, "statistic")
    problem = check_binary(
        "cumulative_test",
        y_true,
        y_proba,
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
        groups=groups,
    )
    return run_test(Cumulative(problem, statistic), problem, n_resamples, random_state, n_jobs)


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
        As in :func:`~skcalib.significance.spiegelhalter_test`. For "slope" labels are drawn given
        the number of events: their distribution then does not depend on the unknown intercept. Few
        labels are those that are uncertain with the fitted intercept.
    sample_weight, labels, pos_label
        As in :func:`~skcalib.significance.spiegelhalter_test`.

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


# --- Statistics of the classical binary tests, and their laws under calibration -------------------


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
    sign = 0  # of extreme statistics; 0 if both are
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
        """How extreme statistics are: absolute values, or with the sign of the side."""
        return np.multiply(self.sign, statistic) if self.sign else np.abs(statistic)

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

    def pvalue(self, statistic: float) -> float:
        """Tail of the normal distribution, or of Student's for clusters."""
        z, tails = self.extreme(statistic), 1 if self.sign else 2
        if np.isfinite(self.units):
            return tails * student.sf(z, max(self.units - 1, 1.0))
        return tails * ndtr(-z)


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

    def __init__(self, problem: Problem, statistic: str) -> None:
        self.name, self.size, self.law = STATISTICS[statistic]
        self.options = (statistic,)
        p = self.p = problem.forecast[:, 1]
        self.weight = problem.weight
        self.order = np.argsort(p, kind="stable")
        ranked = p[self.order]
        self.ends = np.append(level_starts(ranked)[1:], len(ranked)) - 1
        self.deviation = np.sqrt(np.sum(problem.squares * p * (1 - p)))

    def excursion(self, y: np.ndarray) -> np.ndarray:
        """Largest excursion of the sums of weighted differences."""
        steps = (self.weight * (y - self.p))[..., self.order]
        return self.size(np.cumsum(steps, axis=-1)[..., self.ends])

    def statistic(self, y: np.ndarray) -> np.ndarray:
        return ratio(self.excursion(y), self.deviation)

    def estimate(self, y: np.ndarray) -> float:
        """Largest excursion of the mean cumulative difference."""
        return self.excursion(y) / self.weight.sum()

    def pvalue(self, statistic: float) -> float:
        """P-value of the largest excursion of Brownian motion."""
        return self.law(statistic)


def largest_absolute(curve: np.ndarray) -> np.ndarray:
    """Largest absolute value of each curve (..., m)."""
    return np.abs(curve).max(axis=-1)


def range_from_zero(curve: np.ndarray) -> np.ndarray:
    """Range of each curve (..., m), which starts at 0."""
    return np.maximum(curve.max(axis=-1), 0) - np.minimum(curve.min(axis=-1), 0)


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


#: Statistics of cumulative differences: name, size of a curve, and its upper tail if calibrated.
STATISTICS = {
    "ks": ("Kolmogorov-Smirnov", largest_absolute, brownian_maximum_sf),
    "kuiper": ("Kuiper", range_from_zero, brownian_range_sf),
}


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
            "calibration_test, or test each class c against the rest, "
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

    Where few labels are uncertain, 999 labelings are drawn unless `n_resamples` is given; 0
    stands for the asymptotic distribution. A label that the forecasts exclude refutes them.
    """
    y, clustered = problem.target[:, 1], problem.cluster is not None
    statistic, estimate = float(test.statistic(y)), float(test.estimate(y))
    if n_resamples is None:
        drawn = not test.robust if clustered else test.few(problem)
        n_resamples = SIZES.labelings if drawn else 0
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
    most = SIZES.drawn_levels
    if len(weight) <= 2 * most or weighted:
        return problem.take(np.lexsort((weight, p)))
    distinct, level = np.unique(p, return_inverse=True)
    # Levels of equal weight, divided where they have much of the uncertainty.
    sums = [np.cumsum(np.bincount(level, mass)) for mass in (weight, weight * p * (1 - p))]
    shares = [np.ceil(most * (total / max(total[-1], _TINY) - 1e-12)) for total in sums]
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


# --- Likelihood ratios of intercept and slope -----------------------------------------------------


class JointRatio(BinaryTest):
    """Likelihood ratio of intercept and slope against 0 and 1."""

    name = "Likelihood ratio of intercept and slope"
    robust = True
    tests_slope = True
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
        self.cluster = None if problem.cluster is None else problem.cluster[uncertain]
        self.units = np.inf
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
        if not self.tests_slope or len(p) == 0 or np.ptp(p) == 0:
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
        return float(loss - self._gains(events[None])[0])

    def estimate(self, y: np.ndarray) -> float:
        """Unreliability index."""
        return (self.statistic(y) - self.law.sum()) / self.size

    def pvalue(self, statistic: float) -> float:
        """P-value of a sum of weighted squares of normal variables."""
        return weighted_squares_sf(statistic, self.law, max(self.units - 1, 1.0))


class InterceptRatio(JointRatio):
    """Likelihood ratio of the intercept against 0, given that the slope is 1."""

    name = "Likelihood ratio of the intercept"
    tests_slope = False


class SlopeRatio(JointRatio):
    """Likelihood ratio of the slope against 1, with an unknown intercept."""

    name = "Likelihood ratio of the slope"
    drawn = "labels drawn given the number of events"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        y, why = problem.target[self.uncertain, 1], None
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
        square = 1.0 if problem.square is None else problem.weight**2 / problem.square
        size = np.broadcast_to(square, len(self.p))[self.uncertain]
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
