"""Confidence intervals for all calibration errors of the library."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.stats import norm as normal
from sklearn.utils import check_random_state

from skcalib._formatting import record_text
from skcalib._parameters import checks_parameters
from skcalib._records import Record
from skcalib._validation import check_count, meant, weighted_rows
from skcalib._values import shown
from skcalib.clusters import independent_size, student_level
from skcalib.error_intervals.quantities import QUANTITIES, by
from skcalib.error_intervals.resampling import bootstrap, jackknife, subsampling
from skcalib.errors.density import kde_calibration_error
from skcalib.events import only_problem
from skcalib.notions import Multilabel
from skcalib.problem import ForecastSummary, Problem, check_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from skcalib._arguments import Label, LabelsLike, RandomState
    from skcalib.notions import Notion

#: Public names of metrics -> functions with their options.
METRICS = {name: one.metric for name, one in by("name").items()}
#: The method that "auto" selects for each function.
INTERVALS = {one.function: one.interval for one in QUANTITIES}
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

    Percentile bootstrap intervals fail for calibration errors. A resample repeats samples, which
    inflates binned errors and, for held-out estimates, reveals the held-out label through its copy.
    These errors are not normal either: near zero, squared errors have the distribution of a sum of
    squares, and absolute errors that of folded normals. So each error has its own method, selected
    by ``method="auto"``:

    - *test inversion* for squared errors ("squared_l2", "l2", "kernel", "embedding", "simplex" with
      "squared_euclidean"). They are squared norms of a mean. The debiased estimate T has the
      variance :math:`2\,tr\,S^2 + 4 \mu^\top S \mu`, where S is the covariance of the mean. The
      first term is the variance for :math:`\mu = 0`. The distribution of T for a value
      :math:`\theta = \|\mu\|^2` is approximated by a shifted gamma with three cumulants of T. The
      interval contains the values under which T is not rejected. Its coverage also equals the level
      if the error is zero, and the roots of its limits are limits of the root. If the growth of the
      variance with the error cannot be determined from the sample, its upper end is used, and the
      result is ``conservative``.
    - the same for "brier" and "log", which are :func:`proper_calibration_error` with its defaults.
      For "brier" T is the debiased squared length of Y - S, projected onto the directions of all
      maps that the estimate averages and onto the change by the affine map. For "log" T is the gain
      of the map of the highest evidence, plus half of the debiased squared score at this map in
      units of its information. T does not depend on the weights of the maps, so the interval allows
      for miscalibration to which these give too little weight. It is the interval of
      `CalibrationErrorEstimator`, whose notes describe the target. Its upper limit is at most that
      of the mean loss, of which the error is a part.
    - *limits with the largest bias and with none* for absolute values ("l1", "ece", "ks",
      "simplex"). Noise biases the estimate upward. The lower limit assumes the largest possible
      bias, and the upper limit assumes none.
    - *simultaneous limits* for "max": those of every bin that may have the largest gap.
    - *delta method*: Student intervals of means ("upper_bound", "root_brier_score", kernel blocks),
      and of proper errors with a smoother, an explicit method or another score. For these proper
      errors the spread is that of the paired differences :math:`L(y, S) - L(y, \hat C)`, and the
      lower limit is cut at 0. Close to zero the upper limit is larger: it uses the spread at the
      limit itself, as Wilson's interval of a rate does. The estimate "risk" is too small on
      average, so its upper limit is centred at the mean of "risk" and "direct".
    - *bounds from the squared distance*, for "ici" by default: between
      :math:`E x^2 / \max |x|` and :math:`\sqrt{E x^2}` with :math:`x = C - S`, and up to
      :math:`\sqrt{E x^2 / (1 - q)}` for a quantile (Chebyshev). Conservative.
    - *jackknife*, over twenty random groups, for "ici" with a smoother or all classes at once,
      where it is not valid, for ``method="direct"``, and for any other function. For errors of the
      library the lower limit is 0 unless the test of calibration (:func:`consistency_test`)
      rejects at half of 1 - level.
    - *exact limits* where fewer than 20 events (of either class) or wrong predictions are observed,
      or fewer than 40 and fewer than 20 are expected: binned and cumulative errors, "simplex",
      "brier", "log", "ici". They follow from Clopper and Pearson's limits of the mean of C, and are
      conservative (:ref:`error_intervals`).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or ForecastSketch
        Labels, or a sketch in place of labels, forecasts and weights. A sketch has intervals of
        "l1", "ece", "l2", "debiased_l2", "squared_l2", "max", "ks", "brier", "log", "ici",
        "upper_bound" and "root_brier_score", and needs one event: not ``notion="classwise"``.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), optional
        Probability of the positive class, or of each class; omitted with a sketch.
    metric : str or callable, default="brier"
        A name. "l1", "l2", "debiased_l2", "squared_l2" (debiased, without the root), "max" and
        "ece" ("l1" with fifteen bins of equal width) are errors of :func:`calibration_error`.
        "brier" and "log" are those of :func:`proper_calibration_error`. "ks", "simplex", "kernel",
        "embedding", "upper_bound", "root_brier_score" and "ici" have functions of their own. The
        function itself is also accepted, and so is a ``functools.partial`` of it. Any other
        function ``metric(y_true, y_proba, **kwargs)`` must return a number; `sample_weight`,
        `labels` and `pos_label` are passed to it if given.
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
    labels : array-like of shape (n_classes,), default=None
        The class of each column of `y_proba`.
    pos_label : label, default=None
        The class that a `y_proba` of shape (n_samples,) refers to.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient or a session, as labels of any type. Samples
        of a cluster may depend on each other, but clusters are independent; see the notes.
    random_state : int, RandomState instance or None, default=0
        Seed of groups and draws. The result does not depend on `n_jobs`.
    n_jobs : int, default=None
        Number of parallel evaluations of the metric.
    **kwargs
        Arguments of the metric, such as ``notion`` and ``n_bins``. Use a ``functools.partial`` for
        those that have the name of an argument above.

    Returns
    -------
    ErrorInterval
        Record with ``estimate, low, high, standard_error, confidence_level, method, target, valid,
        conservative, reason``. The interval covers ``target``. For binned errors this is the error
        of the *binned* forecast with the edges of this sample, which is at most the true error for
        any sample size. For "brier" and "log" it is the error as far as the maps represent it. For
        two classes these are all curves that some polynomials represent. For more classes they are
        a limited family, and the upper limit does not cover the whole error. Limits of nonnegative
        errors are cut at 0. If ``valid`` is False, the coverage is below the level; if
        ``conservative`` is True, it may be above. ``reason`` gives the reason in both cases.

    Raises
    ------
    ValueError
        For invalid input, ``method="delta"`` with an unknown function, too few samples for a method
        that uses parts of the data, and "auto" and "delta" with :func:`kde_calibration_error`,
        which has no such interval. Also where the metric raises it.

    See Also
    --------
    CalibrationErrorEstimator : All terms of a proper score, from an estimator.
    consistency_test : An exact test of calibration.
    calibration_improvement : Interval for the gain of a recalibration.

    Notes
    -----
    **Clusters.** With `groups`, the sum over a cluster replaces the single sample everywhere.
    Variances are those of sums over clusters (the sandwich), times G / (G - 1) for the effective
    number :math:`G = (\sum_g W_g)^2 / \sum_g W_g^2` of clusters with weights :math:`W_g`.
    Quantiles are Student's with G - 1 degrees of freedom. Squared errors are debiased by products
    of different clusters. Folds, jackknife groups, subsets and resamples contain whole clusters.
    The estimate remains the metric; held-out estimates of a smoother leave out whole clusters, so
    they differ from it. If every cluster is one sample, nothing changes. See :ref:`clusters`.

    Cost: for "l1" and "l2" that of the metric plus O(n K^2 + B^3) for B bins of all classes
    together. For "kernel" twice that of the metric, with random blocks beyond 20,000 samples. For
    "brier" and "log" O(n J^2) with J directions of all maps together, which is less than twice the
    cost of the error itself. For a jackknife twenty times that of the metric. Where the lower limit
    is above 0, the test of calibration adds up to `n_resamples` times the cost of the metric. The
    test ends when the remaining draws cannot change the answer. Coverages are measured in
    :ref:`error_intervals`.

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
    (0.072, 0.113, 'test inversion')
    >>> absolute = calibration_error_interval(data.y, data.y_proba, metric="l1", **options)
    >>> absolute.conservative
    True
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(
            f"method must be one of {', '.join(map(repr, METHODS))}, got {shown(method)}."
        )
    n_resamples = check_count(n_resamples, "n_resamples")
    function, keywords = unwrap(_check_metric(metric), kwargs)
    data: dict[str, Any] = {"y_true": y_true, "y_proba": y_proba, "sample_weight": sample_weight}
    data |= {"labels": labels, "pos_label": pos_label}
    known, problem = function in INTERVALS, None
    if groups is not None:
        problem = _check_clusters(data, groups)
        if known:
            data = dict.fromkeys(data) | {"y_true": problem, "y_proba": problem.forecast}
    options = all_options(function, data, keywords) if known else None
    question = Question(
        function,
        options,
        keywords,
        data,
        confidence_level,
        n_resamples,
        check_random_state(random_state),
        n_jobs,
        problem,
    )
    if method in RESAMPLING:
        return RESAMPLING[method](question)
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
        return jackknife(question)
    answer = INTERVALS[function](question)
    return answer if method == "auto" else _by_delta_method(answer, question.normal_level)


def _check_clusters(data, groups):
    """The `Problem` of the samples and their clusters."""
    if isinstance(data["y_true"], ForecastSummary):
        raise ValueError(
            "A sketch holds sums over samples, and not their clusters: omit groups, or pass labels "
            "and forecasts."
        )
    given = dict(data)
    return check_problem(given.pop("y_true"), given.pop("y_proba"), groups=groups, **given)


def _check_metric(metric):
    if callable(metric) and not isinstance(metric, type):
        return metric
    if isinstance(metric, str) and metric in METRICS:
        return METRICS[metric]
    names = ", ".join(map(repr, METRICS))
    raise ValueError(
        f"metric must be one of {names} or a function, got {shown(metric)}.{meant(metric, METRICS)}"
    )


def _by_delta_method(answer, level):
    """The normal interval, with a reason where it is not valid."""
    if answer.method == "delta method":
        return answer
    reach = float(normal.isf((1 - level) / 2)) * answer.standard_error
    low, high = answer.estimate - reach, answer.estimate + reach
    far = answer.estimate > 5 * answer.standard_error and not answer.conservative
    reason = "" if far else "the estimate is not normal this close to zero: use method='auto'"
    flags = {"conservative": False, "valid": far, "reason": reason}
    return replace(answer, low=low, high=high, method="delta method", **flags)


# --- The record of an interval --------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorInterval(Record):
    """An error with a confidence interval; see :func:`~skcalib.calibration_error_interval`.

    Attributes
    ----------
    estimate : float
        The value of the metric.
    low, high : float
        The interval for the target. It need not contain a biased estimate.
    standard_error : float
        Standard error of the estimate. For "brier" and "log" by default, that of the squared norm
        from which the limits are computed. For a root, the length of the interval divided by that
        of a standard normal interval.
    confidence_level : float
        Level of the two-sided interval.
    method : str
        How the interval was computed.
    target : str
        Description of the quantity that the interval covers. For "brier" and "log" by default it
        names the number of polynomials, or the maps, and says if those of single classes are left
        out because there are fewer than 20 samples per class.
    valid : bool
        Whether the coverage is at least the level.
    conservative : bool
        Whether the coverage may exceed the level.
    reason : str
        The reason why the interval is not valid or is conservative; else empty.

    See Also
    --------
    skcalib.calibration_error_interval : Makes this record.

    Examples
    --------
    >>> from skcalib.error_intervals import ErrorInterval
    >>> reason = "its bias is not known"
    >>> print(ErrorInterval(0.155, 0.125, 0.178, 0.013, 0.95, "m", "t", reason=reason))
    0.155 [0.125, 0.178] (95 %, its bias is not known)
    """

    estimate: float
    low: float
    high: float
    standard_error: float
    confidence_level: float
    method: str
    target: str
    valid: bool = True
    conservative: bool = False
    reason: str = ""

    def __str__(self) -> str:
        verdict = "conservative" if self.conservative else ""
        verdict = verdict if self.valid else "not valid"
        notes = f", {verdict}" if verdict else ""
        if self.reason:
            notes += f": {self.reason}" if verdict else f", {self.reason}"
        return f"{record_text(self)} ({100 * self.confidence_level:g} %{notes})"


# --- The request ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A metric of forecasts and the options of its interval.

    ``options`` are all arguments of a metric of the library, defaults included; None for other
    functions. ``keywords`` are the given ones. ``given`` is the validated data where there are
    clusters.
    """

    metric: Any
    options: Any
    keywords: dict
    data: dict
    confidence_level: float
    n_resamples: int
    rng: np.random.RandomState
    n_jobs: int | None
    given: Problem | None = None

    @property
    def clustered(self) -> bool:
        """Whether samples are in clusters."""
        known = self.data["y_true"] if self.given is None else self.given
        return isinstance(known, Problem) and known.cluster is not None

    @property
    def normal_level(self) -> float:
        """Level of normal intervals: with clusters they are as long as Student's."""
        if not self.clustered:
            return self.confidence_level
        problem = self.problem()
        size = independent_size(problem.weight, cluster=problem.cluster)
        return student_level(self.confidence_level, size)

    @cached_property
    def estimate(self) -> float:
        """The metric on all data; user-defined functions get only the given arguments."""
        given = self.options
        if given is None:
            given = {name: value for name, value in self.data.items() if value is not None}
            given |= self.keywords
        given = dict(given)
        return float(self.metric(given.pop("y_true"), given.pop("y_proba"), **given))

    def answer(
        self,
        low: float,
        high: float,
        error: float,
        *,
        method: str,
        target: str,
        floor: float = 0.0,
        ceiling: float = np.inf,
        estimate: float | None = None,
        **flags: Any,
    ) -> ErrorInterval:
        """An `ErrorInterval` within the possible values of the target.

        The estimate is the metric unless it was computed together with the limits.
        """
        estimate = self.estimate if estimate is None else float(estimate)
        low, high = (float(min(max(limit, floor), ceiling)) for limit in (low, high))
        if not np.isfinite(error):
            flags = {"conservative": True, "reason": "there is no spread to estimate it from"}
        return ErrorInterval(
            estimate, low, high, float(error), self.confidence_level, method, target, **flags
        )

    def nothing_varies(self, *, target: str, ceiling: float) -> ErrorInterval:
        """The result if all residuals of every bin are equal."""
        reason = "residuals do not vary in any bin, so its spread cannot be estimated"
        whole: dict[str, Any] = {"method": "none", "target": target, "ceiling": ceiling}
        return replace(self.answer(0.0, ceiling, np.inf, **whole), reason=reason)

    def problem(self) -> Problem:
        """The validated data."""
        if self.given is not None:
            return self.given
        data = dict(self.data)
        return check_problem(data.pop("y_true"), data.pop("y_proba"), **data)

    def problem_of(self, notion: Notion, *, soft: bool = False) -> tuple[Problem, Notion]:
        """The validated data and the notion; the only event of a sketch in place of samples.

        With `soft`, labels may be soft.
        """
        data = dict(self.data)
        return only_problem(data.pop("y_true"), data.pop("y_proba"), notion, soft=soft, **data)

    def sample(self) -> tuple[Problem, Callable[..., float]]:
        """The data by rows -> (`Problem`, function of rows and codes of labels, the metric).

        Metrics of the library get validated forecasts and the names of all classes, so a class may
        be missing among the rows. Other functions get the arguments as passed.
        """
        notion = (self.keywords if self.options is None else self.options).get("notion")
        if isinstance(notion, Multilabel):
            raise ValueError(
                "Intervals from parts of the samples are for one label per sample: leave out "
                "method=, or pass one column of notion=Multilabel() at a time."
            )
        problem = self.problem()
        codes = problem.target.argmax(axis=1)
        forecast, names = problem.forecast, {"labels": problem.classes}
        if self.options is None:
            forecast = _rows_that_count(self.data["y_proba"], self.data["sample_weight"])
            names = {k: self.data[k] for k in ("labels", "pos_label") if self.data[k] is not None}
        weighted = self.data["sample_weight"] is not None or (
            self.options is not None and problem.sample_weight is not None
        )
        metric = partial(self.metric, **self.keywords, **names)

        def value(rows, drawn=None):
            """The metric of some rows, with their own labels or drawn ones."""
            y = problem.classes[(codes if drawn is None else drawn)[rows]]
            weight = {"sample_weight": problem.weight[rows]} if weighted else {}
            return float(metric(y, forecast[rows], **weight))

        return problem, value


def unwrap(metric: Any, keywords: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Resolve functools.partial -> (function, keywords)."""
    while isinstance(metric, partial):
        if metric.args:
            raise ValueError("A functools.partial as metric may only have keyword arguments.")
        keywords = {**metric.keywords, **keywords}
        metric = metric.func
    return metric, keywords


def all_options(metric: Any, data: dict[str, Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """All arguments of a function of the library, with its own defaults."""
    bound = signature(metric).bind(**data, **keywords)
    bound.apply_defaults()
    return bound.arguments


def _rows_that_count(y_proba, sample_weight):
    array = np.asarray(y_proba)
    return array[weighted_rows(sample_weight, len(array))]
