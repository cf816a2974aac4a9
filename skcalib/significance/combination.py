"""Combination of several calibration tests: products and averages of e-values, Fisher's method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import chdtrc, logsumexp

from skcalib._util.messages import shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.validation import look_up
from skcalib.stats.pvalues import CalibrationTest, e_value_test

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
    The result is only as valid as the tests. The p-values of :func:`kernel_calibration_test` and
    :func:`hosmer_lemeshow_test` are approximate, and the errors of these approximations add up in a
    product of many tests. E-values of :func:`calibration_e_value` are exact for every number of
    samples. Do not combine a test that was selected because of its result, such as the smallest
    p-value of several.

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
    look_up(method, dict.fromkeys(METHODS), "method")
    found = _checked(tests)
    # The last parentheses of a method say how its null distribution is known.
    kinds = sorted({test.method.partition(" (")[0] for test in found})
    estimate = float(np.mean([test.estimate for test in found])) if len(kinds) == 1 else np.nan
    same = len({test.method for test in found}) == 1
    what = found[0].method if same else " and ".join(kinds)
    if method == "fisher":
        with np.errstate(divide="ignore"):
            statistic = -2 * float(np.log([test.pvalue for test in found]).sum())
        pvalue = float(chdtrc(2 * len(found), max(statistic, 0.0)))
        said = f"Fisher's method for {len(found)} p-values: {what}"
        return CalibrationTest(statistic, pvalue, estimate, said)
    logs = np.array([_log_e_value(test, method) for test in found])
    if method == "mean":
        log_e = float(logsumexp(logs) - np.log(len(logs)))
    else:
        log_e = np.inf if np.isposinf(logs).any() else float(logs.sum())
    said = f"{'mean' if method == 'mean' else 'product'} of {len(found)} e-values"
    from_pvalues = sum(test.e_value is None for test in found)
    if from_pvalues:
        said = f"{said}, {from_pvalues} of them from p-values"
    return e_value_test(log_e, estimate, f"{said}: {what}")


def _checked(tests: Any) -> Sequence[CalibrationTest]:
    """The tests as a list; raises unless all are records with valid numbers."""
    if isinstance(tests, CalibrationTest):
        raise ValueError("tests must be a list of CalibrationTest records, got a single one.")
    try:
        found = list(tests)
    except TypeError:
        raise ValueError(
            f"tests must be a list of CalibrationTest records, got {type(tests).__name__}."
        ) from None
    if not found:
        raise ValueError("tests is empty: pass at least one CalibrationTest.")
    for test in found:
        if not isinstance(test, CalibrationTest):
            raise ValueError(
                f"tests must hold CalibrationTest records, got {type(test).__name__}: run a test, "
                "such as calibration_e_value, on each set of data."
            )
        if not 0 <= test.pvalue <= 1:
            raise ValueError(f"A p-value must be between 0 and 1, got {shown(test.pvalue)}.")
        if test.e_value is not None and not test.e_value >= 0:
            raise ValueError(f"An e-value must not be negative or NaN, got {shown(test.e_value)}.")
    return found


def _log_e_value(test, method):
    """Logarithm of the e-value, or of the one computed from the p-value (Vovk and Wang, eq. 2)."""
    if test.e_value is not None:
        with np.errstate(divide="ignore"):
            return np.log(test.e_value)
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
