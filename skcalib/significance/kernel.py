r"""Tests of the kernel calibration error: all classes at once, without bins.

The null distribution is a mixture of chi-square variables, see `kernel_calibration_test`. Its
variance is that of the statistic, because the matrix h has no diagonal here; with the diagonal, as
in the textbook formula, the distribution is too wide.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtr
from sklearn.utils import check_random_state

from skcalib._util.messages import refusal
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib._util.validation import check_count, check_proba
from skcalib.data.clusters import effective_size
from skcalib.data.labels import draw_codes
from skcalib.data.notions import Canonical, NotionLike, resolve_notion
from skcalib.data.problem import check_problem
from skcalib.errors.kernel import (
    ROUNDING,
    Embedding,
    ResidualKernel,
    any_impossible,
    block_estimates,
    check_locations,
    check_pairs,
    check_statistic,
    drawn_embedding_pvalue,
    drawn_kernel_pvalue,
    estimate,
    few_labels,
    one_problem,
    random_block_estimates,
    random_blocks,
    resolve_kernel,
    takes_blocks,
)
from skcalib.stats.pvalues import CalibrationTest, drawn_pvalue
from skcalib.stats.squared_norm import SMALLEST, chi_square_mixture_sf

if TYPE_CHECKING:
    from skcalib.kernels import KernelLike

MIN_SAMPLES = 4
DRAWN = "labels drawn from the forecasts"


@checks_parameters
def kernel_calibration_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kernel: KernelLike = None,
    statistic: Literal["auto", "unbiased", "biased", "linear", "block"] = "auto",
    notion: NotionLike = "canonical",
    method: Literal[
        "auto", "spectral", "multipliers", "bootstrap", "asymptotic", "embedding"
    ] = "auto",
    block_size: int | None = None,
    n_resamples: int = 999,
    locations: int | ArrayLike = 10,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> CalibrationTest:
    r"""Test of calibration by the kernel calibration error.

    The null hypothesis is E[Y|S] = S for all classes at once, or as defined by the notion. The
    alternative is any kind of miscalibration. Large estimates of
    :func:`~skcalib.kernel_calibration_error` are evidence against the null hypothesis. For more
    than 20,000 samples the default estimate is that of random blocks. ``method`` of the result
    states it, and ``statistic="unbiased"`` uses all pairs. The null distribution of the estimate is
    computed by one of these methods, each for the statistics in parentheses:

    ``"spectral"`` (unbiased; the default)
       :math:`(n - 1)\, SKCE \approx \frac1m \sum_{i \ne j} h_{ij} Z_i Z_j` with independent
       standard normal Z and m = min(n, 1000) samples, drawn with probabilities proportional to
       :math:`h_{ii}` if there are more. This is a
       mixture of chi-square variables weighted by eigenvalues. Its tail is computed by numerical
       inversion, not by simulation. The sum over random blocks has this distribution as well, with
       each weight once per block, so it needs no minimum number of blocks.
    ``"multipliers"`` (unbiased)
       The same distribution with all samples, by `n_resamples` draws of Z.
    ``"bootstrap"`` (unbiased)
       The bootstrap of W19: `n_resamples` draws of the samples with replacement.
    ``"asymptotic"`` (linear, block; their default)
       Blocks are independent, so their mean divided by its standard error is normal. The standard
       deviation has one degree of freedom less than there are blocks. The method needs many blocks,
       for example twenty.
    ``"bound"`` (unbiased, biased, linear; the default of "biased")
       :func:`~skcalib.significance.distribution_free_bound`: no approximation, but little power.
    ``"embedding"`` (unbiased)
       Linear time: n times :func:`~skcalib.errors.unconditional_mean_embedding_error` is compared
       with the mixture
       :math:`\sum_l \lambda_l Z_l^2`. Its weights are the eigenvalues of the covariance of the
       means, which calibration determines from the forecasts.

    :ref:`kernel_errors` has a table of level and power.

    **Few uncertain labels.** These laws fail for rare events and confident forecasts. Where the
    effective number of uncertain labels, :math:`(\sum_i w_i v_i)^2 / \sum_i w_i^2 v_i` with
    :math:`v_i = (1 - \|S_i\|^2) / 2`, is below 40, `n_resamples` sets of labels are drawn from the
    forecasts. With equal weights it is about the expected number of rare events.

    By default the p-value is that of the same statistic for drawn labels: exact for every n, given
    the forecasts of all classes. If `method` is named, it is the larger one of its own and that of
    drawn labels, and "bound" holds as it is. The larger one is also taken with `groups` and
    `Multilabel`: their labels are drawn independently, because their dependence is not known.
    A label with a forecast of exactly 0 refutes calibration: p = 0 for every method.

    **Missing cells** of the labels of `Multilabel`. With the pairs :math:`P_l` of different samples
    whose label l is known in both, the unbiased estimate is that of
    :func:`~skcalib.kernel_calibration_error`,

    .. math::

        \frac1L \sum_l \frac{\sum_{(i, j) \in P_l} h^l_{ij}}{\sum_{(i, j) \in P_l} w_i w_j}
        = \frac{\sum_{i \ne j} h_{ij}}{\sum_{i \ne j} w_i w_j} ,

    where the last h is the sum over the labels that both samples have, each with a factor that is
    constant. So it is a degenerate U-statistic of the samples as before, with the same laws. The
    other statistics take the pairs of their blocks. The p-value is valid if which cells are missing
    does not depend on the labels, given the forecasts. "bound" needs all cells.

    Parameters
    ----------
    y_true, y_proba, kernel, notion, block_size, labels, pos_label, n_jobs
        As in :func:`~skcalib.kernel_calibration_error`. With "classwise" the test uses the mean of
        the errors of all classes. There is one p-value, so no correction for multiple tests is
        needed.
    statistic : {"auto", "unbiased", "biased", "linear", "block"}, default="auto"
        The U- or V-statistic that estimates the squared kernel calibration error. "auto" is
        "unbiased" for at most 20,000 samples and for the methods "multipliers", "bootstrap" and
        "embedding"; otherwise it uses random blocks.
    method : str, default="auto"
        One of the names above; "auto" is the default of the statistic.
    n_resamples : int, default=999
        Number R of draws of "multipliers", "bootstrap" and labels. If m draws are at least as large
        as the statistic, the p-value is (1 + m) / (R + 1). While m is 0, R is doubled, up to
        100,000 or fewer for many samples.
    locations : int or array-like of shape (n_locations,) or (n_locations, n_columns), default=10
        For "embedding". If a number, that many forecasts are drawn, and a class for each of them,
        whose component is used. If an array, these points are used, with all components; it has
        the columns of the problem of the notion, or shape (n_locations,) for two columns, as of
        "top_label".
    random_state : int, RandomState instance or None, default=0
        Seed of samples, resamples, labels and locations.
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights; a pair has weight :math:`w_i w_j`. Not allowed with "bound".
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient, by any labels. A cluster is then one unit,
        whose feature is the sum of the features of its samples. The estimate is over pairs of
        different clusters, and G clusters replace n samples. With "auto" at most 20,000 samples,
        drawn at random, enter the sums. Only for ``statistic="unbiased"`` or "auto" with
        "spectral", "multipliers", "bootstrap" and "embedding"; the last draws `n_resamples` signs
        of the clusters.

    Returns
    -------
    CalibrationTest
        ``estimate`` is the squared kernel calibration error, for "embedding" that of the mean
        embeddings. ``statistic`` is (n - 1) times the estimate for "spectral" and "multipliers",
        summed over the blocks for random blocks. It is that of W19 for "bootstrap", z for
        "asymptotic", the estimate for "bound", and n times the estimate for "embedding". The
        p-value is at least 2e-308 unless a label is impossible. Far below 1e-3 only its order of
        magnitude is reliable.

    Raises
    ------
    ValueError
        For fewer than 4 samples, for a method that does not match the statistic, and as in
        :func:`~skcalib.kernel_calibration_error`.

    See Also
    --------
    skcalib.significance.distribution_free_bound : A p-value without approximation.
    skcalib.significance.calibration_e_value : Evidence that can be multiplied over data sets.

    Notes
    -----
    "spectral" takes the time of the estimate plus a tenth of a second. With the default statistic a
    million samples take at most the time of 20,000 samples, and beyond that the time is O(n K).
    "multipliers" and "bootstrap" take O(n^2 R). Drawn labels take twice the time of the estimate,
    and little for each draw.

    References
    ----------
    .. [1] M. A. Arcones and E. Gine. On the bootstrap of U and V statistics. Annals of Statistics
       20, 1992.
    .. [2] A. Gretton, K. Fukumizu, Z. Harchaoui and B. Sriperumbudur. A fast, consistent kernel
       two-sample test. NeurIPS 2009.

    Examples
    --------
    >>> from skcalib import kernel_calibration_test
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, 10, random_state=0)
    >>> kernel_calibration_test(data.y, data.y_proba, random_state=0).rejects()
    True
    >>> calibrated = make_tempered_simplex(500, 10, score_temperature=1, random_state=0)
    >>> kernel_calibration_test(calibrated.y, calibrated.y_proba, random_state=0).rejects()
    False
    """
    notion = resolve_notion(notion)
    problem = check_problem(
        y_true,
        y_proba,
        notion,
        sample_weight,
        labels,
        pos_label,
        groups,
        incomplete=True,
    )
    if problem.is_incomplete and len(problem.classes) == 1:
        (problem,), notion = problem.of_labels(), Canonical()
    by_default = isinstance(method, str) and method == "auto"
    method = _check_design(statistic, method, block_size, len(problem.weight))
    _check_units(problem, statistic, method)
    n_resamples = check_count(n_resamples, "n_resamples")
    kernel = resolve_kernel(kernel)
    rng = check_random_state(random_state)
    if np.ndim(locations):
        check_proba(locations, name="locations")
    else:
        check_count(locations, "locations")
    if method == "embedding":
        points, codes = _locations(one_problem(problem, notion)[0], locations, rng)
        embedding = Embedding(problem, kernel, notion, points, codes)
        test = _embedding_test(problem, embedding, n_resamples, rng)
    else:
        if method == "bound":
            check_bounded(statistic, problem.weight)
        h: Any = ResidualKernel.of_problem(problem, kernel, notion, n_jobs)
        if method == "bound":
            test = _bound_test(h, kernel, notion, statistic)
        elif problem.cluster is not None:
            h = h.of_clusters(problem.cluster, statistic)
            test = _degenerate_test(h, method, n_resamples, rng)
        else:
            test = run_test(h, statistic, method, block_size, n_resamples, rng)
    test = _refuted(test, problem, notion)
    if test.pvalue == 0 or method == "bound" or not few_labels(problem, notion):
        return test
    if method == "embedding":
        drawn = drawn_embedding_pvalue(problem, embedding, notion, n_draws=n_resamples, rng=rng)
    else:
        taken = statistic if method == "spectral" or statistic != "auto" else "unbiased"
        drawn = drawn_kernel_pvalue(
            problem,
            kernel,
            notion,
            statistic=taken,
            block_size=block_size,
            n_draws=n_resamples,
            rng=rng,
        )
    if by_default and problem.cluster is None and not problem.indicator:
        return replace(test, pvalue=drawn, method=test.method.replace(method, DRAWN, 1))
    method = f"{test.method}, but at least the p-value of {DRAWN}"
    return replace(test, pvalue=max(test.pvalue, drawn), method=method)


def _refuted(test, problem, notion):
    """A test of h or of features; p = 0 where a label had a forecast of exactly 0."""
    if not any_impossible(problem, notion):
        return test
    return replace(test, pvalue=0.0, method=f"{test.method}; a label has a forecast of 0")


def run_test(
    h: ResidualKernel,
    statistic: str,
    method: str,
    block_size: int | None,
    n_resamples: int,
    rng: np.random.RandomState,
) -> CalibrationTest:
    """Test of a function h by a law that depends on h only."""
    method = _check_design(statistic, method, block_size, len(h))
    if method == "asymptotic":
        return _normal_test(h, statistic, block_size)
    if method != "spectral" or not takes_blocks(statistic, len(h)):
        return _degenerate_test(h, method, n_resamples, rng)
    values, weight = random_block_estimates(h)
    n_blocks, size = random_blocks(len(h)).shape
    pooled = float(values @ weight) / size
    pvalue = chi_square_mixture_sf(pooled, null_weights(h, rng), copies=n_blocks)
    method = f"kernel, spectral, {blocks_text(n_blocks, size)}"
    return _record(pooled, pvalue, pooled * size / weight.sum(), method)


def _check_design(statistic, method, block_size, n_samples):
    """The method of a statistic; raises for unknown ones, and for too few samples."""
    check_statistic(statistic, block_size, n_samples)
    methods = METHODS[statistic]
    if not isinstance(method, str) or method not in ("auto", *methods):
        names = ", ".join(map(repr, methods))
        expected = f"'auto' or one of {names} for statistic={statistic!r}"
        raise refusal("method", expected, method, ("auto", *methods))
    if n_samples < MIN_SAMPLES:
        raise ValueError(
            f"A test needs at least {MIN_SAMPLES} samples of positive weight, got {n_samples}: use "
            "more or, for class probabilities, distribution_free_bound, which is valid for any "
            "number."
        )
    if statistic == "block" and n_samples < 2 * block_size:
        raise ValueError(
            f"A test needs at least two blocks, but {n_samples} samples give one of {block_size}."
        )
    return methods[0] if method == "auto" else method


def _check_units(problem, statistic, method):
    """Raise for too few clusters or known cells, and for methods that do not allow for them."""
    if problem.cluster is not None and method in ("bound", "asymptotic"):
        raise ValueError(
            f"statistic={statistic!r} with method={method!r} assumes independent samples: use "
            "statistic='unbiased' and method='spectral' with groups."
        )
    if problem.cluster is not None and problem.n_clusters < MIN_SAMPLES:
        raise ValueError(
            f"A test needs at least {MIN_SAMPLES} clusters of positive weight, got "
            f"{problem.n_clusters}."
        )
    if not problem.is_incomplete:
        return
    if method == "bound":
        raise ValueError(
            "method='bound' is for labels that are all known, and y_true has missing cells (NaN): "
            "use 'spectral', or pass one label at a time, as its known cells."
        )
    for label, event in zip(problem.classes.tolist(), problem.of_labels(), strict=True):
        units = len(event.weight) if event.cluster is None else event.n_clusters
        if units < MIN_SAMPLES:
            raise ValueError(
                f"The label {label!r} of y_true has known cells of {units} samples or clusters of "
                f"positive weight: a test needs at least {MIN_SAMPLES}."
            )


def _degenerate_test(h, method, n_resamples, rng):
    pairs = check_pairs(h.weight)
    total, diagonal = h.total(), h.diagonal()
    if abs(total - diagonal.sum()) <= ROUNDING * diagonal.sum():
        # One uncertain sample among certain ones: the remainder is rounding error, not evidence.
        total = diagonal.sum()
    statistic, pvalue = NULL_LAWS[method](h, total, diagonal, n_resamples, rng)
    value = (total - diagonal.sum()) / pairs
    return _record(statistic, pvalue, value, f"kernel, {method}")


def blocks_text(n_blocks: int, size: int) -> str:
    """The description of an estimate by random blocks."""
    return (
        f"{n_blocks:,} random blocks of {size:,} samples; "
        "statistic='unbiased' takes all pairs of samples"
    )


def _normal_test(h, statistic, block_size):
    values, weight = block_estimates(h, 2 if statistic == "linear" else block_size)
    share = weight / weight.sum()
    mean, size = share @ values, effective_size(weight)
    if size - 1 < 1e-9:
        raise ValueError(
            "A test needs at least two effective blocks, but sample_weight gives nearly all of "
            "the weight to one: use more even weights, or statistic='unbiased'."
        )
    error = np.sqrt(np.sum((share * (values - mean)) ** 2) * size / (size - 1))
    z = 0.0
    if mean != 0:
        with np.errstate(divide="ignore", over="ignore"):  # equal blocks: the sign is certain
            z = mean / error
    return _record(z, ndtr(-z), mean, f"kernel, {statistic}, asymptotic")


def _embedding_test(problem, embedding, n_resamples, rng):
    value, n_locations = embedding.error(), len(embedding.points)
    statistic = len(problem.weight) * value
    method = f"mean embedding at {n_locations} locations"
    if problem.cluster is not None:
        sums = embedding.sums(problem.cluster)
        scale = len(problem.weight) * n_locations

        def draw(size):
            signs = rng.choice([-1.0, 1.0], size=(size, len(sums)))
            return ((signs @ sums) ** 2).sum(axis=1) / scale

        pvalue, _ = drawn_pvalue(draw, statistic, n_resamples, size=sums.size)
        return _record(statistic, pvalue, value, f"{method}, random signs of clusters")
    weights = np.linalg.eigvalsh(embedding.null_covariance()) / n_locations
    pvalue = chi_square_mixture_sf(statistic, weights)
    return _record(statistic, pvalue, value, method)


def _locations(forecast, locations, rng):
    """Points; if they are drawn from the forecasts, also a class drawn from each."""
    if np.ndim(locations):
        return check_locations(locations, forecast.shape[1]), None
    points = forecast[rng.randint(len(forecast), size=locations)]
    return points, draw_codes(points.cumsum(axis=1), rng)


def _record(statistic, pvalue, value, method):
    return CalibrationTest(float(statistic), max(float(pvalue), SMALLEST), float(value), method)


# --- Upper bounds of p-values, valid for every number of samples and every kernel -----------------


STATISTICS = ("auto", "biased", "unbiased", "linear")


@checks_parameters
def distribution_free_bound(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kernel: KernelLike = None,
    statistic: Literal["auto", "unbiased", "biased", "linear"] = "auto",
    notion: NotionLike = "canonical",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
) -> CalibrationTest:
    r"""Upper bound of the p-value of a kernel calibration error, for every n (W19, lemma 2).

    Let :math:`B = 2 \sup \|k\|`, so that :math:`|h| \le B`. Calibrated forecasts reach an estimate
    t > 0 with probability at most

    - :math:`\exp(-\tfrac12 \max(0, \sqrt{n t / B} - 1)^2)` for "biased",
    - :math:`\exp(-\lfloor n/2 \rfloor t^2 / (2 B^2))` for "unbiased" and "linear",
      for random blocks with the number of independent pairs in place of
      :math:`\lfloor n/2 \rfloor`.

    An estimate of at most 0 is no evidence, and has p = 1. The bounds assume only independent
    samples. They hold conditionally on the forecasts, and therefore also for bandwidths that depend
    on the forecasts.

    The norm of a matrix is its largest eigenvalue: B is the constant :math:`B_{2;2}` of the lemma.
    For scalar kernels no other pair of norms has a smaller one (W19, example H.1). A label with a
    forecast of exactly 0 has p = 0.

    The bounds have little power: see the table in :ref:`kernel_errors`.

    Parameters
    ----------
    y_true, y_proba, kernel, notion, labels, pos_label, n_jobs
        As in :func:`~skcalib.kernel_calibration_error`.
    statistic : {"auto", "unbiased", "biased", "linear"}, default="auto"
        The U- or V-statistic, as in :func:`~skcalib.kernel_calibration_error`: "auto" uses random
        blocks for more than 20,000 samples.
    sample_weight : array-like of shape (n_samples,), default=None
        Samples of weight zero are dropped. All other weights must be equal, because no bound is
        known for unequal weights.

    Returns
    -------
    CalibrationTest
        ``statistic`` and ``estimate`` are the estimate, ``pvalue`` is the bound.

    Raises
    ------
    ValueError
        For invalid input, unequal weights, and a single sample unless `statistic` is "biased".

    See Also
    --------
    kernel_calibration_test : A test with much more power, for moderate n.

    Examples
    --------
    >>> from skcalib.significance import distribution_free_bound
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(4000, 2, score_temperature=0.2, random_state=0)
    >>> test = distribution_free_bound(data.y, data.y_proba, statistic="biased")
    >>> test.rejects(0.001)
    True
    """
    problem = check_problem(y_true, y_proba, None, sample_weight, labels, pos_label)
    kernel, notion = resolve_kernel(kernel), resolve_notion(notion)
    problem.require_order(notion)
    check_bounded(statistic, problem.weight)
    check_statistic(statistic, None, len(problem.weight))
    h = ResidualKernel.of_problem(problem, kernel, notion, n_jobs)
    return _refuted(_bound_test(h, kernel, notion, statistic), problem, notion)


def check_bounded(statistic: str, weight: np.ndarray) -> None:
    """Raise for statistics and weights for which no bound is known."""
    if not isinstance(statistic, str) or statistic not in STATISTICS:
        names = ", ".join(map(repr, STATISTICS))
        expected = f"one of {names}, for which bounds are known"
        raise refusal("statistic", expected, statistic, STATISTICS)
    if np.ptp(weight) > 1e-12 * weight.max():
        raise ValueError(
            "The distribution-free bounds require equal weights: leave out "
            "sample_weight, or use the method 'spectral' of kernel_calibration_test."
        )


def _bound_test(h, kernel, notion, statistic):
    """The record of a bound, from `n_pairs` independent pairs of an h of at most +-`largest`."""
    value = estimate(h, statistic)
    largest = 2 * kernel.bound()
    if not isinstance(notion, Canonical) and notion.reduce == "sum":
        largest *= h.n_problems
    n_pairs = len(h) // 2
    if takes_blocks(statistic, len(h)):
        n_blocks, size = random_blocks(len(h)).shape
        n_pairs, statistic = n_blocks * (size // 2), blocks_text(n_blocks, size)
    elif statistic == "auto":
        statistic = "unbiased"
    pvalue = 1.0
    if value > 0 and statistic == "biased":
        pvalue = exp(-0.5 * max(0.0, sqrt(len(h) * value / largest) - 1) ** 2)
    elif value > 0:
        pvalue = exp(-n_pairs * value**2 / (2 * largest**2))
    return CalibrationTest(value, pvalue, value, f"distribution-free bound, {statistic}")


# --- P-values of the unbiased estimate under calibration ------------------------------------------


def spectral(
    h: ResidualKernel, total: float, diagonal: np.ndarray, n_draws: int, rng: np.random.RandomState
) -> tuple[float, float]:
    """Eigenvalues of at most 1,000 rows; the tail of the mixture by numerical inversion."""
    statistic = (total - diagonal.sum()) / len(h)
    return statistic, chi_square_mixture_sf(statistic, null_weights(h, rng))


def null_weights(h: Any, rng: np.random.RandomState) -> np.ndarray:
    """Eigenvalues of h over its size, without the diagonal, from at most 1,000 rows.

    They are drawn in proportion to h(i, i), to which their products are relative: rare events and
    large weights dominate the sums, and a part of all samples would have too few of them.
    """
    n_samples, rows, scale = len(h), np.arange(len(h)), 1.0
    diagonal = h.diagonal()
    rows = rows[: SIZES.spectrum_rows]
    if n_samples > SIZES.spectrum_rows and diagonal.any():
        share = diagonal / diagonal.sum()
        rows = rng.choice(n_samples, SIZES.spectrum_rows, p=share)
        scale = np.sqrt(n_samples * share[rows])
    matrix = h.take(rows).matrix() / np.multiply.outer(scale, scale)
    matrix[rows[:, None] == rows] = 0
    return np.linalg.eigvalsh(matrix) / len(rows)


def multipliers(
    h: ResidualKernel, total: float, diagonal: np.ndarray, n_draws: int, rng: np.random.RandomState
) -> tuple[float, float]:
    """The same law from all rows, by simulation."""
    n_samples = len(h)
    statistic = (total - diagonal.sum()) / n_samples

    def draw(size):
        forms = _quadratic_forms(h, size, rng.standard_normal)
        return np.concatenate([(form - diagonal @ z**2) / n_samples for z, form in forms])

    return statistic, drawn_pvalue(draw, statistic, n_draws, size=n_samples**2)[0]


def bootstrap(
    h: ResidualKernel, total: float, diagonal: np.ndarray, n_draws: int, rng: np.random.RandomState
) -> tuple[float, float]:
    r"""Bootstrap of a degenerate U-statistic (Arcones and Gine), as used by W19.

    The statistic is n / (n - 1) SKCE - V, where V is the mean of h over all pairs. A draw is
    :math:`\frac2{n (n - 1)} \sum_{i < j} h^*_{ij} - \frac2n \sum_i \bar h^*_i`, where :math:`\bar
    h_i` is the mean of h(i, j) over j. It is computed from the number of times that each sample was
    drawn.
    """
    n_samples = len(h)
    statistic = (total - diagonal.sum()) / (n_samples - 1) ** 2 - total / n_samples**2
    mean = h.multiply(np.ones((n_samples, 1)))[:, 0] / n_samples
    even = np.full(n_samples, 1 / n_samples)

    def counts(size):
        return np.ascontiguousarray(rng.multinomial(n_samples, even, size[1]).T, dtype=np.float64)

    def draw(size):
        return np.concatenate(
            [
                (form - diagonal @ c) / (n_samples * (n_samples - 1)) - 2 / n_samples * (mean @ c)
                for c, form in _quadratic_forms(h, size, counts)
            ]
        )

    return statistic, drawn_pvalue(draw, statistic, n_draws, size=n_samples**2)[0]


def _quadratic_forms(h, n_resamples, draw):
    """Arrays (n, R) of draws z, of bounded size, each with the forms z' h z (R,)."""
    together = max(1, SIZES.drawn_entries // len(h))
    for start in range(0, n_resamples, together):
        z = draw((len(h), min(together, n_resamples - start)))
        yield z, np.einsum("ib,ib->b", z, h.multiply(z))


NULL_LAWS = {"spectral": spectral, "multipliers": multipliers, "bootstrap": bootstrap}


#: The methods of each statistic; the first is the default.
METHODS = {
    "auto": (*NULL_LAWS, "bound", "embedding"),
    "unbiased": (*NULL_LAWS, "bound", "embedding"),
    "biased": ("bound",),
    "linear": ("asymptotic", "bound"),
    "block": ("asymptotic",),
}
