"""Bounds of p-values that hold for every number of samples and every kernel."""

from math import exp, sqrt

import numpy as np

from skcalib._arguments import check_notion
from skcalib.errors._residual_kernel import ResidualKernel
from skcalib.errors.kernel_error import check_estimator, check_kernel, estimate
from skcalib.hypothesis._record import CalibrationTest
from skcalib.notions import Canonical
from skcalib.problem import check_problem

ESTIMATORS = ("biased", "unbiased", "linear")


def distribution_free_bound(
    y_true,
    y_proba,
    *,
    kernel=None,
    estimator="unbiased",
    notion="canonical",
    sample_weight=None,
    labels=None,
    pos_label=None,
    n_jobs=None,
):
    r"""Upper bound of the p-value of a kernel calibration error, for every n (W19, lemma 2).

    With :math:`B = 2 \sup \|k\|`, the largest absolute value of h, an estimate t > 0 is exceeded
    by calibrated forecasts with probability at most

    - :math:`\exp(-\tfrac12 \max(0, \sqrt{n t / B} - 1)^2)` for "biased",
    - :math:`\exp(-\lfloor n/2 \rfloor t^2 / (2 B^2))` for "unbiased" and "linear".

    An estimate of at most 0 is no evidence at all, and has p = 1. The bounds need independent
    samples and nothing else. They hold given the forecasts, so bandwidths that depend on forecasts
    are covered.

    The price is power. Measured on W19's models (n = 250, ten classes, 400 data sets), rejections
    at .05 of (calibrated, half the labels replaced, labels at random): "biased" 0, .63 and 0;
    "unbiased" and "linear" 0, 0 and 0, where the default :func:`kernel_calibration_test` has .05, 1
    and 1.

    Parameters
    ----------
    y_true, y_proba, kernel, notion, labels, pos_label, n_jobs
        As in :func:`kernel_calibration_error`.
    estimator : {"unbiased", "biased", "linear"}, default="unbiased"
        The estimator.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of 0 leave samples out; otherwise all must be equal, as no bound is known.

    Returns
    -------
    CalibrationTest
        ``statistic`` and ``estimate`` are the estimate, ``pvalue`` is the bound.

    Raises
    ------
    ValueError
        For invalid input, unequal weights, and a single sample unless "biased".

    See Also
    --------
    kernel_calibration_test : Tests with far more power, for moderate n.

    References
    ----------
    .. [1] D. Widmann, F. Lindsten and D. Zachariah. Calibration tests in multi-class
       classification: a unifying framework. NeurIPS 2019.

    Examples
    --------
    >>> from skcalib import distribution_free_bound
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(4000, 2, score_temperature=0.2, random_state=0)
    >>> test = distribution_free_bound(data.y, data.y_proba, estimator="biased")
    >>> test.rejects(0.001)
    True
    """
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    kernel, notion = check_kernel(kernel), check_notion(notion)
    check_bounded(estimator, problem.weight)
    check_estimator(estimator, None, len(problem.weight))
    h = ResidualKernel.of_problem(problem, kernel, notion, n_jobs)
    return bound_test(h, kernel, notion, estimator)


def check_bounded(estimator, weight):
    """Refuse estimators and weights for which no bound is known."""
    if estimator not in ESTIMATORS:
        names = ", ".join(map(repr, ESTIMATORS))
        raise ValueError(f"Bounds are known for the estimators {names}, got {estimator!r}.")
    if np.ptp(weight) > 1e-12 * weight.max():
        raise ValueError(
            "The distribution-free bounds are for samples that count alike: leave out "
            "sample_weight, or use the method 'spectral' of kernel_calibration_test."
        )


def bound_test(h, kernel, notion, estimator):
    """The record of a bound, from the function h of a sample."""
    value = estimate(h, estimator)
    largest = 2 * kernel.bound()
    if not isinstance(notion, Canonical) and notion.reduce == "sum":
        largest *= h.n_problems
    pvalue = bound_pvalue(value, len(h), largest, estimator)
    return CalibrationTest(value, pvalue, value, f"distribution-free bound, {estimator}")


def bound_pvalue(value, n_samples, largest, estimator):
    """The bound for an estimate, where h is at most `largest` in absolute value."""
    if value <= 0:
        return 1.0
    if estimator == "biased":
        return exp(-0.5 * max(0.0, sqrt(n_samples * value / largest) - 1) ** 2)
    return exp(-(n_samples // 2) * value**2 / (2 * largest**2))
