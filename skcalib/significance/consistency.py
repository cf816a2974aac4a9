"""Consistency resampling: a test of calibration with any error function.

The consistency band of diagrams is in `errors.corp`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skcalib._util.messages import number_of, shown
from skcalib._util.parallel import draw_each
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib._util.validation import check_count
from skcalib.data.labels import draw_codes
from skcalib.data.problem import check_problem
from skcalib.errors import calibration_error
from skcalib.stats.means import FEW, refutation, uncertain_labels
from skcalib.stats.pvalues import MOST_TIMES, CalibrationTest, drawn_pvalue


@checks_parameters
def consistency_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    metric: Callable[..., float] | None = None,
    n_resamples: int = 500,
    resample_forecasts: bool | None = None,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    n_jobs: int | None = None,
    **kwargs: Any,
) -> CalibrationTest:
    r"""Test of calibration with any error function, by consistency resampling.

    Consistency resampling was proposed by Bröcker and Smith (2007) and Vaicenavicius et al. (2019).
    If the forecasts are calibrated, labels drawn from them have the same distribution as the true
    ones. The test draws labels from the forecasts `n_resamples` times, computes the error each
    time, and counts how often it is at least the observed one: :math:`p = (1 + \#\{b: E_b \ge E\})
    / (1 + B)`.

    **What is resampled matters.** With ``resample_forecasts=False`` only the labels are drawn, for
    the given forecasts, and the test is exact: under the null hypothesis the observed error and the
    drawn ones are exchangeable, so :math:`P(p \le \alpha) \le \alpha` for every n, every metric and
    every number of resamples. With ``resample_forecasts=True``, the published procedure, every draw
    first resamples the forecasts with replacement, and the test is not exact: with uniform bins of
    the simplex it nearly always rejects calibrated forecasts (W19; :ref:`kernel_errors`). By
    default forecasts are resampled, unless they leave fewer than 40 labels uncertain, the effective
    number of :math:`(1 - \|S_i\|^2) / 2`, which is the expected number of rare events.

    A label with a forecast of exactly 0 refutes calibration: p = 0 for any metric.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of any type.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class.
    metric : callable, default=None
        Any error of this library, or a function ``metric(y_true, y_proba, labels=..., **kwargs)``
        that returns a number, larger for worse forecasts. None is
        :func:`~skcalib.calibration_error`.
    n_resamples : int, default=500
        Number of draws B. While no error of a draw is as large, B is doubled, up to eight times
        `n_resamples`; the p-value remains valid. The smallest one is 1 / (1 + B).
    resample_forecasts : bool, default=None
        Resample the forecasts with replacement, as published; False for the exact test. None
        resamples them where at least 40 labels are uncertain.
    sample_weight : array-like of shape (n_samples,), optional
        Weights, which stay with their samples.
    **kwargs
        Arguments of the metric.

    Returns
    -------
    CalibrationTest
        The observed error is both statistic and estimate. A label that occurred at a forecast of
        exactly 0 refutes the forecasts: p = 0.

    Raises
    ------
    ValueError
        For invalid input, and for a metric that returns NaN. For ``groups``, because labels in a
        cluster cannot be drawn one by one.

    See Also
    --------
    calibration_test : For all classes at once.

    Examples
    --------
    >>> from skcalib import ks_calibration_error
    >>> from skcalib.significance import consistency_test
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(300, 3, random_state=0)
    >>> test = consistency_test(data.y, data.y_proba, metric=ks_calibration_error,
    ...                         resample_forecasts=False, random_state=0)
    >>> test.rejects()
    True
    """
    if "groups" in kwargs:
        raise ValueError(
            "consistency_test draws labels independently, which is wrong for clusters: use "
            "kernel_calibration_test, cumulative_test or calibration_error_interval with groups."
        )
    metric = calibration_error if metric is None else metric
    if not callable(metric) or isinstance(metric, type):
        raise ValueError(
            f"metric must be a function of (y_true, y_proba, labels=...), got {shown(metric)}."
        )
    n_resamples = check_count(n_resamples, "n_resamples")
    problem = check_problem(y_true, y_proba, None, sample_weight, labels, pos_label)
    rng = check_random_state(random_state)
    if resample_forecasts is None:
        resample_forecasts = uncertain_labels(problem.forecast, problem.weight) >= FEW
    y, codes = problem.outcome, np.arange(len(problem.classes))
    weighted = sample_weight is not None

    def error(y, rows):
        options = {"sample_weight": problem.weight[rows]} if weighted else {}
        value = metric(y, problem.forecast[rows], labels=codes, **options, **kwargs)
        return number_of(value, "metric")

    def draw(rng):
        rows = np.arange(len(y))
        if resample_forecasts:
            rows = rng.randint(len(y), size=len(y))
        return error(draw_codes(problem.forecast[rows].cumsum(axis=1), rng), rows)

    observed, most = error(y, slice(None)), MOST_TIMES * n_resamples
    pvalue, drawn = drawn_pvalue(
        lambda size: draw_each(draw, size, rng, n_jobs=n_jobs),
        observed,
        n_resamples,
        size=len(y),
        most=most,
    )
    if np.isnan([observed, *drawn]).any():
        raise ValueError(
            "The metric returned NaN, which cannot be compared with other errors: pass a "
            "metric that is defined for all labels with positive probability."
        )
    method = (
        "consistency resampling" if resample_forecasts else "labels drawn at the given forecasts"
    )
    if refuted := refutation(problem.forecast, problem.target):
        pvalue, method = 0.0, refuted
    return CalibrationTest(observed, pvalue, observed, method)
