"""Tests of the kernel calibration error: all classes at once, without bins."""

import numpy as np
from scipy.special import ndtr
from sklearn.utils import check_random_state

from skcalib._arguments import check_notion
from skcalib._validation import check_count, draw_codes
from skcalib.errors._residual_kernel import ResidualKernel
from skcalib.errors.embedding_error import Embedding, check_locations, one_problem
from skcalib.errors.kernel_error import (
    block_estimates,
    check_estimator,
    check_kernel,
    check_pairs,
)
from skcalib.hypothesis._mixture import chi_square_mixture_sf
from skcalib.hypothesis._null_laws import NULL_LAWS, SMALLEST
from skcalib.hypothesis._record import CalibrationTest
from skcalib.hypothesis.distribution_free import bound_test, check_bounded
from skcalib.problem import check_problem

MIN_SAMPLES = 4
ROUNDING = 1e-12  # of a sum over all pairs, beside its diagonal
#: The methods of each estimator; the first is the default.
METHODS = {
    "unbiased": (*NULL_LAWS, "bound", "embedding"),
    "biased": ("bound",),
    "linear": ("asymptotic", "bound"),
    "block": ("asymptotic",),
}


def kernel_calibration_test(
    y_true,
    y_proba,
    *,
    kernel=None,
    estimator="unbiased",
    notion="canonical",
    method="auto",
    block_size=None,
    n_resamples=1000,
    locations=10,
    random_state=None,
    sample_weight=None,
    labels=None,
    pos_label=None,
    n_jobs=None,
):
    r"""Test of calibration by the kernel calibration error: whether miscalibration is real.

    The hypothesis is that E[Y|S] = S: all classes at once (or what the notion says), every kind of
    error. Large estimates of :func:`kernel_calibration_error` count against it. The law of the
    estimate under the hypothesis is found by one of

    ``"spectral"`` (unbiased; the default)
       :math:`(n - 1)\, SKCE \approx \frac1m \sum_{i \ne j} h_{ij} Z_i Z_j` with independent
       standard normal Z and m = min(n, 1000) samples, drawn at random if there are more. That is a
       mixture of chi-square variables weighted by eigenvalues; its tail is found by numerical
       inversion, not by simulation.
    ``"multipliers"`` (unbiased)
       the same law with all samples, by `n_resamples` draws of Z.
    ``"bootstrap"`` (unbiased)
       the bootstrap of W19, `n_resamples` draws with replacement of the samples.
    ``"asymptotic"`` (linear, block; their default)
       blocks are independent, so their mean over its standard error (standard deviation with one
       degree of freedom less than blocks) is normal. For many blocks: twenty, say.
    ``"bound"`` (unbiased, biased, linear; the default of "biased")
       :func:`distribution_free_bound`: no approximation, little power.
    ``"embedding"`` (unbiased)
       linear time: n times :func:`unconditional_mean_embedding_error` against the mixture
       :math:`\sum_l \lambda_l Z_l^2` with the eigenvalues of the covariance of the means, which
       calibration determines from the forecasts. (Hotelling's test, which estimates it from the
       residuals, rejected calibrated forecasts in 6 to 100 % of W19's data sets.)

    Level and power: rejections at .05 of W19's models (n = 250, ten classes, 400 data sets, so that
    a level of .05 has the standard error .011; 3,000 for the level of "spectral").

    ============================  ===============  =================  ==============
    test                          M1 (calibrated)  M2 (half class 0)  M3 (at random)
    ============================  ===============  =================  ==============
    spectral                      .051             1                  1
    multipliers                   .055             1                  1
    bootstrap                     .043             1                  1
    embedding, 10 locations       .045             1                  1
    block of 25, asymptotic       .033             1                  1
    block of 10, asymptotic       .050             1                  .82
    linear, asymptotic            .033             1                  .18
    bound, biased                 0                .62                0
    bound, unbiased or linear     0                0                  0
    ============================  ===============  =================  ==============

    For 2, 3 and 10 classes with uniform forecasts the level of "spectral" was .042 to .058 for
    n = 100 and 1000. The worst case found was .063, for n = 100 binary forecasts from
    Beta(.1, .1), of which few are uncertain; :func:`consistency_test` with
    ``resample_forecasts=False`` is exact there.

    Parameters
    ----------
    y_true, y_proba, kernel, notion, block_size, labels, pos_label, n_jobs
        As in :func:`kernel_calibration_error`. With "classwise" the test is on the mean of the
        errors of all classes: one p-value, nothing to correct.
    estimator : {"unbiased", "biased", "linear", "block"}, default="unbiased"
        The estimator of the squared kernel calibration error.
    method : str, default="auto"
        One of the names above; "auto" is the default of the estimator.
    n_resamples : int, default=1000
        Draws R of "multipliers" and "bootstrap"; the p-value is (1 + m) / (R + 1) for m draws that
        are as large.
    locations : int or array-like of shape (n_locations, n_columns), default=10
        Of "embedding": how many of the forecasts to draw, each with a class drawn from it, whose
        component counts; or points whose components all count.
    random_state : int, RandomState instance or None, default=None
        Draws samples, resamples and locations. "spectral" uses it for n > 1000 only.
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights :math:`w_i w_j` of pairs; refused by "bound".

    Returns
    -------
    CalibrationTest
        ``estimate`` is the squared kernel calibration error (of the mean embeddings for
        "embedding"); ``statistic`` is (n - 1) estimate for "spectral" and "multipliers", W19's for
        "bootstrap", z for "asymptotic", the estimate for "bound", n estimate for "embedding". The
        p-value is at least 2e-308; far below 1e-3 read its order of magnitude only.

    Raises
    ------
    ValueError
        For fewer than 4 samples, a method that does not go with the estimator, and what
        :func:`kernel_calibration_error` refuses.

    See Also
    --------
    kernel_calibration_error : The estimate alone.
    distribution_free_bound : For very small samples.

    Notes
    -----
    "spectral" costs the estimate and the eigenvalues of a matrix of 1,000 rows (a tenth of a
    second); "multipliers" and "bootstrap" take O(n^2 R).

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah. Calibration tests in multi-class
       classification: a unifying framework. NeurIPS 2019.
    .. [2] M. A. Arcones and E. Gine. On the bootstrap of U and V statistics. Annals of Statistics
       20, 1992.
    .. [3] A. Gretton, K. Fukumizu, Z. Harchaoui and B. Sriperumbudur. A fast, consistent kernel
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
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    n_samples = len(problem.weight)
    check_estimator(estimator, block_size, n_samples)
    method = _check_method(method, estimator)
    _check_enough(n_samples, estimator, block_size)
    n_resamples = check_count(n_resamples, "n_resamples")
    kernel, notion = check_kernel(kernel), check_notion(notion)
    rng = check_random_state(random_state)
    if method == "embedding":
        return _embedding_test(problem, kernel, notion, locations, rng)
    if method == "bound":
        check_bounded(estimator, problem.weight)
    h = ResidualKernel.of_problem(problem, kernel, notion, n_jobs)
    if method == "bound":
        return bound_test(h, kernel, notion, estimator)
    return run_test(h, estimator, method, block_size, n_resamples, rng)


def run_test(h, estimator, method, block_size, n_resamples, rng):
    """Test of a function h by a law that needs nothing but h."""
    check_estimator(estimator, block_size, len(h))
    method = _check_method(method, estimator)
    _check_enough(len(h), estimator, block_size)
    if method == "asymptotic":
        return _normal_test(h, estimator, block_size)
    return _degenerate_test(h, method, n_resamples, rng)


def _check_method(method, estimator):
    if method == "auto":
        return METHODS[estimator][0]
    if method not in METHODS[estimator]:
        names = ", ".join(map(repr, METHODS[estimator]))
        raise ValueError(
            f"method must be 'auto' or one of {names} for estimator={estimator!r}, got {method!r}."
        )
    return method


def _check_enough(n_samples, estimator, block_size):
    if n_samples < MIN_SAMPLES:
        raise ValueError(
            f"A test needs at least {MIN_SAMPLES} samples that count, got {n_samples}: use more "
            "or, for probabilities of classes, distribution_free_bound, which holds for any number."
        )
    if estimator == "block" and n_samples < 2 * block_size:
        raise ValueError(
            f"A test needs at least two blocks, but {n_samples} samples hold one of {block_size}."
        )


def _degenerate_test(h, method, n_resamples, rng):
    pairs = check_pairs(h.weight)
    total, diagonal = h.total(), h.diagonal()
    if abs(total - diagonal.sum()) <= ROUNDING * diagonal.sum():
        # One uncertain sample among certain ones: what is left is rounding, and no evidence.
        total = diagonal.sum()
    statistic, pvalue = NULL_LAWS[method](h, total, diagonal, n_resamples, rng)
    value = (total - diagonal.sum()) / pairs
    return _record(statistic, pvalue, value, f"kernel, {method}")


def _normal_test(h, estimator, block_size):
    values, weight = block_estimates(h, 2 if estimator == "linear" else block_size)
    share = weight / weight.sum()
    mean, size = share @ values, 1 / np.sum(share**2)
    if size - 1 < 1e-9:
        raise ValueError(
            "A test needs at least two blocks that count, but sample_weight gives nearly all of "
            "the weight to one: use more even weights, or the estimator 'unbiased'."
        )
    error = np.sqrt(np.sum((share * (values - mean)) ** 2) * size / (size - 1))
    if mean == 0:
        z = 0.0
    else:
        with np.errstate(divide="ignore", over="ignore"):  # equal blocks: no doubt of their sign
            z = mean / error
    return _record(z, ndtr(-z), mean, f"kernel, {estimator}, asymptotic")


def _embedding_test(problem, kernel, notion, locations, rng):
    where = _locations(one_problem(problem, notion)[0], locations, rng)
    embedding = Embedding(problem, kernel, notion, *where)
    value, n_locations = embedding.error(), len(embedding.points)
    statistic = len(problem.weight) * value
    weights = np.linalg.eigvalsh(embedding.null_covariance()) / n_locations
    pvalue = chi_square_mixture_sf(statistic, weights)
    return _record(statistic, pvalue, value, f"mean embedding at {n_locations} locations")


def _locations(forecast, locations, rng):
    """Points, and for drawn ones, which are forecasts, a class drawn from each."""
    if np.ndim(locations):
        return check_locations(locations, forecast.shape[1]), None
    number = check_count(locations, "locations")
    points = forecast[rng.randint(len(forecast), size=number)]
    return points, draw_codes(points.cumsum(axis=1), rng)


def _record(statistic, pvalue, value, method):
    return CalibrationTest(float(statistic), max(float(pvalue), SMALLEST), float(value), method)
