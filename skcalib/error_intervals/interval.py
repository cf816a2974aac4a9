"""Confidence intervals for all calibration errors of the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.stats import norm as normal
from sklearn.utils import check_random_state

from skcalib._util.messages import number_of, refusal, shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label, RandomState
from skcalib._util.validation import check_count
from skcalib.data.notions import Multilabel
from skcalib.data.problem import ForecastSummary, LabelsLike, check_problem, reduced, refuse_groups
from skcalib.error_intervals.quantities import QUANTITIES, by
from skcalib.error_intervals.request import (
    ErrorInterval,
    IntervalRequest,
    all_options,
    bootstrap,
    jackknife,
    subsampling,
)
from skcalib.errors.binned import calibration_error, resolve_norm
from skcalib.errors.unbinned import kde_calibration_error

#: Public names of metrics -> functions with their options.
METRICS = {name: quantity.metric for name, quantity in by("name").items()}
#: The method that "auto" selects for each function.
INTERVALS = {quantity.function: quantity.interval for quantity in QUANTITIES}
RESAMPLING = {"jackknife": jackknife, "subsampling": subsampling, "bootstrap": bootstrap}
METHODS = ("auto", "delta", *RESAMPLING)


@checks_parameters
def calibration_error_interval(
    y_true: LabelsLike,
    y_proba: ArrayLike | None = None,
    *,
    metric: str | Callable[..., float] = "brier",
    confidence_level: float = 0.95,
    method: Literal["auto", "delta", "jackknife", "subsampling", "bootstrap"] = "auto",
    n_resamples: int = 500,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    **kwargs: Any,
) -> ErrorInterval:
    r"""Confidence interval for any calibration error, with a reason where it is not valid.

    Percentile bootstrap intervals fail for calibration errors: a resample repeats samples, which
    inflates binned errors and reveals held-out labels. These errors are not normal either. So each
    error has its own method, selected by ``method="auto"``:

    - *test inversion* for squared errors ("squared_l2", "l2", "kernel", "embedding", "simplex" with
      "squared_euclidean"). The debiased estimate T of the squared norm of a mean has the variance
      :math:`2\,tr\,S^2 + 4 \mu^\top S \mu`, where S is the covariance of the mean. The interval
      contains the values :math:`\theta = \|\mu\|^2` under which T is not rejected, by a gamma
      distribution with three cumulants.
    - the same for "brier" and "log", which are :func:`~skcalib.proper_calibration_error` with its
      defaults.
      T is the debiased squared length of Y - S on the directions of all maps, for "log" with the
      gain of the best map, and on what its residuals show. It is the interval of
      `CalibrationErrorEstimator`, whose notes describe the target.
    - *limits with the largest bias and with none* by noise for absolute values ("l1", "ece", "ks",
      "simplex").
    - *simultaneous limits* for "max", and of a curve in cells for the quantiles of "ici".
    - *delta method*: Student intervals of means ("upper_bound", "root_brier_score", kernel blocks),
      and of the paired differences :math:`L(y, S) - L(y, \hat C)` of proper errors with a smoother,
      an explicit method or another score, with a larger upper limit close to zero.
    - *bounds from the squared distance*, for "ici" by default: between :math:`E x^2 / \max |x|` and
      :math:`\sqrt{E x^2}` with :math:`x = C - S`. Conservative.
    - *jackknife*, over twenty random groups, for any other function, for ``method="direct"``, and,
      not valid, for "ici" and its quantiles with a smoother or all classes at once. For errors of
      the library the lower limit is 0 unless :func:`~skcalib.significance.consistency_test` rejects
      at half of 1 - level.
    - *exact limits* where fewer than 20 events (of either class) or wrong predictions are observed,
      or fewer than 40 and fewer than 20 are expected: binned and cumulative errors, "simplex",
      "brier", "log", "ici". They follow from Clopper and Pearson's limits of the mean of C.

    :doc:`/user_guide/interval_methods` explains each of them.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or ForecastSketch
        Labels, or a sketch in place of labels, forecasts and weights. A sketch has intervals of
        "l1", "ece", "l2", "debiased_l2", "squared_l2", "max", "ks", "brier", "log", "ici",
        "upper_bound" and "root_brier_score", and needs one event: not ``notion="classwise"``.
    metric : str or callable, default="brier"
        A name. "l1", "l2", "debiased_l2", "squared_l2" (debiased, without the root), "max" and
        "ece" ("l1" with fifteen bins of equal width) are errors of
        :func:`~skcalib.calibration_error`. "brier" and "log" are those of
        :func:`~skcalib.proper_calibration_error`. "ks", "simplex", "kernel", "embedding",
        "upper_bound", "root_brier_score" and "ici" have functions of their own. The function itself
        is also accepted, and so is a ``functools.partial`` of it. Any other function
        ``metric(y_true, y_proba, **kwargs)`` must return a number; `sample_weight`, `labels` and
        `pos_label` are passed to it if given.
    confidence_level : float, default=0.95
        Level of the two-sided interval.
    method : {"auto", "delta", "jackknife", "subsampling", "bootstrap"}, default="auto"
        "auto" is described above. "delta" is a normal interval based on the standard error. The
        other methods only evaluate the metric on parts of the data. "jackknife" leaves out groups.
        "subsampling" uses subsets of :math:`n^{2/3}` samples and rescales by roots of sizes.
        "bootstrap" is the percentile interval, which is never valid and included for comparison.
    n_resamples : int, default=500
        Number of draws of the noise, subsets, resamples, or draws of labels.
    sample_weight : array-like of shape (n_samples,), default=None
        Importance weights, not repetitions.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient or a session, as labels of any type. Samples
        of a cluster may depend on each other, but clusters are independent; see the notes.
    random_state : int, RandomState instance or None, default=0
        Seed of groups and draws. The result does not depend on `n_jobs`.
    **kwargs
        Arguments of the metric, such as ``notion`` and ``n_bins``. Use a ``functools.partial`` for
        those that have the name of an argument above.

    Returns
    -------
    ErrorInterval
        Record with ``estimate, low, high, standard_error, confidence_level, method, target, valid,
        conservative, reason``. The interval covers ``target``. For binned errors this is the error
        of the *binned* forecast with the edges of this sample, which is at most the true error. For
        "brier" and "log" it is the error as far as the maps represent it. Limits of nonnegative
        errors are cut at 0. If ``valid`` is False, the coverage is below the level; if
        ``conservative`` is True, it may be above. ``reason`` gives the reason in both cases.

    Raises
    ------
    ValueError
        For invalid input, ``method="delta"`` with an unknown function, too few samples for a method
        that uses parts of the data, and "auto" and "delta" with
        :func:`~skcalib.errors.kde_calibration_error`, which has no such interval. Also where the
        metric raises it.

    See Also
    --------
    calibration_improvement : Interval for the gain of a recalibration.

    Notes
    -----
    **Clusters.** With `groups`, the sum over a cluster replaces the single sample everywhere.
    Variances are those of sums over clusters (the sandwich), times G / (G - 1) for the effective
    number :math:`G = (\sum_g W_g)^2 / \sum_g W_g^2` of clusters with weights :math:`W_g`.
    Quantiles are Student's with G - 1 degrees of freedom. Squared errors are debiased by products
    of different clusters, and fits by the optimism of clusters: the estimate never multiplies
    residuals of one cluster with each other, so it differs from the metric without clusters. Maps,
    "auto" bins and cells count independent samples, by the design effect of the residuals. Folds,
    jackknife groups, subsets and resamples contain whole clusters. Only functions of the library
    get the clusters. If every cluster is one sample, nothing changes, nor do other names of the
    clusters change anything. See :ref:`clusters`.

    Cost: for "l1" and "l2" that of the metric plus O(n K^2 + B^3) for B bins of all classes
    together. For "kernel" twice that of the metric. For "brier" and "log" O(n J^2) with J
    directions of all maps together. For a jackknife twenty times that of the metric. Where the
    lower limit is above 0, the test of calibration adds up to `n_resamples` times the cost of the
    metric. Coverages: :ref:`error_intervals`.

    References
    ----------
    .. [1] A. W. van der Vaart. Asymptotic Statistics. Cambridge, 1998. Chapter 12.
    .. [2] D. N. Politis, J. P. Romano and M. Wolf. Subsampling. Springer, 1999.
    .. [3] J. Carpenter. Test inversion bootstrap confidence intervals. Journal of the Royal
       Statistical Society B 61, 1999.

    Examples
    --------
    >>> from skcalib import calibration_error_interval
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, random_state=0)
    >>> options = {"notion": "canonical", "n_bins": 15}
    >>> found = calibration_error_interval(data.y, data.y_proba, metric="l2", **options)
    >>> round(found.low, 3), round(found.high, 3), found.method
    (0.072, 0.114, 'test inversion')
    >>> absolute = calibration_error_interval(data.y, data.y_proba, metric="l1", **options)
    >>> absolute.conservative
    True
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(
            f"method must be one of {', '.join(map(repr, METHODS))}, got {shown(method)}."
        )
    n_resamples = check_count(n_resamples, "n_resamples")
    function, keywords = _resolve_metric(metric, kwargs)
    samples: dict[str, Any] = {
        "y_true": y_true,
        "y_proba": y_proba,
        "sample_weight": sample_weight,
        "labels": labels,
        "pos_label": pos_label,
    }
    if isinstance(keywords.get("notion"), Multilabel):
        matrix = check_problem(**samples, notion=keywords["notion"], groups=groups, incomplete=True)
        if matrix.is_incomplete:
            run: dict[str, Any] = {"confidence_level": confidence_level, "method": method}
            run |= {"n_resamples": n_resamples, "random_state": random_state, "n_jobs": n_jobs}
            return _over_labels(matrix, function, keywords, run)
    known, problem = function in INTERVALS, None
    if groups is not None:
        if isinstance(y_true, ForecastSummary):
            refuse_groups(groups)
        problem = check_problem(**samples, groups=groups)
        if known:
            samples = dict.fromkeys(samples) | {"y_true": problem, "y_proba": problem.forecast}
    request = IntervalRequest(
        metric=function,
        options=all_options(function, samples, keywords) if known else None,
        keywords=keywords,
        samples=samples,
        confidence_level=confidence_level,
        n_resamples=n_resamples,
        rng=check_random_state(random_state),
        n_jobs=n_jobs,
        validated=problem,
    )
    if method in RESAMPLING:
        return RESAMPLING[method](request)
    if not known:
        if function is kde_calibration_error:
            raise ValueError(
                "kde_calibration_error has no interval: noise and smoothing bias it, by an amount "
                "that is not known. Use metric='l1' for the error of binned forecasts, or "
                "metric='brier'."
            )
        if method == "delta":
            raise ValueError(
                "method='delta' needs a metric of the library, whose standard error is known: use "
                "'jackknife'."
            )
        return jackknife(request)
    answer = INTERVALS[function](request)
    if method == "auto" or answer.method == "delta method":
        return answer
    reach = float(normal.isf((1 - request.normal_level) / 2)) * answer.standard_error
    far = answer.estimate > 5 * answer.standard_error and not answer.conservative
    return replace(
        answer,
        low=answer.estimate - reach,
        high=answer.estimate + reach,
        method="delta method",
        valid=far,
        conservative=False,
        reason="" if far else "the estimate is not normal this close to zero: use method='auto'",
    )


def _over_labels(matrix, function, keywords, run):
    """The interval of an error of several labels, of which cells are missing.

    The labels have different samples. Their limits are combined as their errors are, which is valid
    for any dependence between the labels.
    """
    notion, of_label = keywords["notion"], keywords | {"notion": "canonical"}
    intervals = [
        calibration_error_interval(label, label.forecast, metric=function, **run, **of_label)
        for label in matrix.of_labels()
    ]
    power = 1.0
    if function is calibration_error and not keywords.get("squared", False):
        power = resolve_norm(keywords.get("norm", "l1"))

    def combined(name):
        values = np.array([getattr(interval, name) for interval in intervals])
        if power == np.inf:
            return float(values.max())
        return reduced(values**power, notion) ** (1 / power)

    values = {name: combined(name) for name in ("estimate", "low", "high", "standard_error")}
    if function in INTERVALS:
        values["estimate"] = number_of(function(matrix, matrix.forecast, **keywords), "metric")
    first = intervals[0]
    invalid = [interval.reason for interval in intervals if not interval.valid]
    reason = "labels have different known cells, so their limits are combined, for any dependence"
    return replace(
        first,
        **values,
        method=f"{first.method}, label by label",
        target=f"over the labels: {first.target}",
        valid=not invalid,
        conservative=True,
        reason=invalid[0] if invalid else reason,
    )


def _resolve_metric(metric, keywords):
    """A name, a function or a functools.partial of one -> the function and its keywords."""
    if isinstance(metric, str) and metric in METRICS:
        metric = METRICS[metric]
    if not callable(metric) or isinstance(metric, type):
        names = ", ".join(map(repr, METRICS))
        raise refusal("metric", f"one of {names} or a function", metric, METRICS)
    while isinstance(metric, partial):
        if metric.args:
            raise ValueError("A functools.partial as metric may only have keyword arguments.")
        metric, keywords = metric.func, {**metric.keywords, **keywords}
    return metric, keywords
