"""Comparison of calibration: two models on the same samples, or two windows or sketches.

`two_windows` reads the samples for all functions that compare windows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from scipy.stats import t as student

from skcalib._util.formatting import Record, pvalue_text, record_text
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import check_indices, look_up, to_numpy, weighted_rows
from skcalib.data.clusters import effective_size, number_clusters
from skcalib.data.labels import check_y, draw_codes, listed, unique_labels
from skcalib.data.notions import Notion, NotionLike, resolve_notion
from skcalib.data.problem import (
    ForecastSummary,
    LabelsLike,
    Problem,
    ProblemSummary,
    check_problem,
    named_events,
)
from skcalib.error_intervals import calibration_error_interval
from skcalib.error_intervals.quantities import by
from skcalib.errors.kernel import (
    ResidualKernel,
    block_estimates,
    check_statistic,
    few_labels,
    resolve_kernel,
)
from skcalib.errors.logistic import (
    calibration_intercept_slope,
    coefficient_intervals,
    uncertain_logits,
)
from skcalib.scores import Brier, LogLoss, weighted_mean
from skcalib.stats.means import (
    MeanInterval,
    difference_interval,
    few_label_limits,
    has_few_labels,
    interval_pvalue,
    mean_interval,
    mean_loss_interval,
)

if TYPE_CHECKING:
    from skcalib.kernels import Kernel, KernelLike

MIN_BLOCKS = 5
_N_DRAWS, _MOST_DRAWN = 40, 20_000  # draws of labels, and of how many rows
PER_SAMPLE = ("forecast", "target", "weight")


@dataclass(frozen=True)
class CalibrationComparison(Record):
    """Difference of two kernel calibration errors, first minus second.

    `to_frame` has ``first_error`` and ``second_error`` in place of `errors`.

    Attributes
    ----------
    estimate : float
        The difference; negative where the first model is better calibrated.
    low, high : float
        Confidence interval of the difference.
    standard_error : float
        Standard error of the difference.
    pvalue : float
        Two-sided p-value of the hypothesis that both errors are equal.
    errors : tuple of two floats
        The error of each model, with the same blocks and the same kernel.
    n_blocks : int
        Number of blocks.

    See Also
    --------
    skcalib.compare_calibration : Makes this record.
    """

    estimate: float
    low: float
    high: float
    standard_error: float
    pvalue: float
    errors: tuple
    n_blocks: int

    def _columns(self):
        columns = {field.name: [getattr(self, field.name)] for field in fields(self)}
        ((first, second),) = columns.pop("errors")
        return {**columns, "first_error": [first], "second_error": [second]}

    def __str__(self) -> str:
        if self.pvalue > 0.05:
            return f"No significant difference in calibration: {pvalue_text(self.pvalue)}."
        better = "first" if self.estimate < 0 else "second"
        return f"The {better} model is better calibrated: {pvalue_text(self.pvalue)}."


@overload
def compare_calibration(  # numpydoc ignore=GL08
    y_true: ForecastSummary, first: ForecastSummary, *, confidence_level: float = 0.95
) -> WindowComparison: ...


@overload
def compare_calibration(  # numpydoc ignore=GL08
    y_true: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    *,
    kernel: KernelLike = None,
    notion: NotionLike = "canonical",
    block_size: int | None = None,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> CalibrationComparison: ...


@checks_parameters
def compare_calibration(
    y_true: LabelsLike,
    first: LabelsLike,
    second: ArrayLike | None = None,
    *,
    kernel: KernelLike = None,
    notion: NotionLike = "canonical",
    block_size: int | None = None,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> CalibrationComparison | WindowComparison:
    r"""Difference in calibration between two models on the same samples.

    Both forecasts are for the same samples. The samples are divided into B consecutive blocks. In
    each block the unbiased estimate of :func:`~skcalib.kernel_calibration_error` is computed for
    both models. Both use the same kernel, one for each problem of the notion, whose bandwidth is
    computed from the forecasts of both models together. The differences :math:`d_b =
    SKCE_b(\text{first}) - SKCE_b(\text{second})` of the blocks are independent, and their mean is
    unbiased. Its confidence interval is Student's, with B - 1 degrees of freedom. Samples must be
    in random order.

    A difference in calibration is not a difference in overall quality: a constant forecast can be
    calibrated. Compare a proper score as well: :class:`~skcalib.ComparisonReport` does, and with
    ``threshold=`` or ``costs=`` it has the differences in net benefit and in the cost of decisions.

    Two sketches, ``compare_calibration(sketch, other)``, are two windows of different samples. A
    sketch stores no pairs of samples, so it has no kernel error. The result is then that of
    :func:`~skcalib.compare_windows`: differences of the Brier calibration error, of the logistic
    recalibration, of means and of losses.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or ForecastSketch
        Labels of any type, or the sketch of the first window.
    first : array-like of shape (n_samples,) or (n_samples, n_classes), or ForecastSketch
        Probabilities of the first model, or the sketch of the second window.
    second : array-like of shape (n_samples,) or (n_samples, n_classes), optional
        Probabilities of the second model; omitted with sketches.
    kernel : Kernel, str or None, default=None
        As in :func:`~skcalib.kernel_calibration_error`.
    block_size : int, optional
        Samples per block; by default the square root of the number of samples, rounded down. Larger
        blocks detect smaller differences. At least five blocks are needed.
    sample_weight : array-like of shape (n_samples,), optional
        Weights; the weight of a pair is the product. Blocks count equally.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient, by any labels. A block then consists of whole
        clusters, and `block_size` is their number. The estimate uses only pairs from different
        clusters. Blocks are drawn at random; neither the names of the clusters nor the order of the
        samples within them matter. See :ref:`clusters`.

    Returns
    -------
    CalibrationComparison or WindowComparison
        Difference, interval, p-value; for two sketches a `WindowComparison`.

    Raises
    ------
    ValueError
        For invalid input, fewer than five blocks, and for sketches with any argument other than
        `confidence_level`.

    See Also
    --------
    skcalib.grouping.calibration_curve_equality_test : Is the calibration curve the same?
    kernel_calibration_test : Is one model calibrated?
    calibration_improvement : The improvement by an injective map, measured by a proper score.

    Examples
    --------
    >>> from skcalib import compare_calibration
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> comparison = compare_calibration(data.y, data.posterior, data.y_proba)
    >>> comparison.high < 0, comparison.pvalue < 0.001
    (True, True)
    """
    samples: dict[str, Any] = {
        "sample_weight": sample_weight,
        "labels": labels,
        "pos_label": pos_label,
    }
    if isinstance(y_true, ForecastSummary) or isinstance(first, ForecastSummary):
        for sketch in (y_true, first):
            if not isinstance(sketch, ForecastSummary):
                raise ValueError(
                    "Two sketches, or labels and the probabilities of two models, can be compared: "
                    f"got one sketch and a {type(sketch).__name__}."
                )
        arguments = {"second": second, "kernel": kernel, "block_size": block_size, **samples}
        arguments |= {"groups": groups, "notion": None if notion == "canonical" else notion}
        names = [name for name, value in arguments.items() if value is not None]
        if names:
            raise ValueError(
                f"Sketches of two windows are compared without {', '.join(names)}: leave it out, "
                "or pass labels and the probabilities of two models."
            )
        return compare_windows(y_true, first, confidence_level=confidence_level)
    if second is None:
        raise ValueError(
            "second is missing: pass labels and the probabilities of two models, or two sketches."
        )
    check_indices(first=first, second=second)
    first_problem = check_problem(y_true, first, groups=groups, name="first", **samples)
    second_problem = check_problem(y_true, second, name="second", **samples)
    if not np.array_equal(first_problem.classes, second_problem.classes):
        raise ValueError(
            "first and second are probabilities of different classes: pass pos_label= with the "
            "class of both."
        )
    rule = resolve_notion(notion)
    first_problem.require_order(rule)
    return compare_problems(
        first_problem,
        second_problem,
        kernel=resolve_kernel(kernel),
        notion=rule,
        block_size=block_size,
        confidence_level=confidence_level,
        n_jobs=n_jobs,
    )


def compare_problems(
    first: Problem,
    second: Problem,
    *,
    kernel: Kernel,
    notion: Notion,
    block_size: int | None = None,
    confidence_level: float = 0.95,
    n_jobs: int | None = None,
) -> CalibrationComparison:
    """`compare_calibration` of two problems with the same labels; clusters are those of `first`."""
    problems, n_rows = (first, second), len(first.weight)
    unit, n_samples = "samples", n_rows
    if first.cluster is not None:
        unit = "clusters"
        n_samples = min(len(np.unique(first.cluster)), SIZES.kernel_clusters)
    block_size = int(np.sqrt(n_samples)) if block_size is None else block_size
    check_statistic("block", block_size, n_samples)
    n_blocks = n_samples // block_size
    if n_blocks < MIN_BLOCKS:
        raise ValueError(
            f"A comparison needs at least {MIN_BLOCKS} blocks, but {n_samples} {unit} give "
            f"{n_blocks} of {block_size}: use smaller blocks or more {unit}."
        )
    run = {"kernel": kernel, "notion": notion, "block_size": block_size, "n_jobs": n_jobs}
    blocks = _block_errors(problems, **run)
    difference = blocks[0] - blocks[1]
    mean = float(difference.mean())
    error = float(difference.std(ddof=1) / np.sqrt(n_blocks))
    if any(few_labels(problem, notion) for problem in problems):
        error = max(error, _error_with_drawn_labels(problems, **run))
    reach = float(student.ppf(0.5 + confidence_level / 2, n_blocks - 1)) * error
    pvalue = 1.0
    if mean != 0:
        with np.errstate(divide="ignore"):
            pvalue = float(2 * student.sf(np.abs(np.divide(mean, error)), n_blocks - 1))
    pvalue = max(pvalue, float(np.finfo(np.float64).tiny))
    errors = tuple(float(values.mean()) for values in blocks)
    return CalibrationComparison(mean, mean - reach, mean + reach, error, pvalue, errors, n_blocks)


def _block_errors(problems, *, kernel, notion, block_size, n_jobs):
    """Squared kernel errors of blocks of samples or of clusters, for each of two problems."""
    n_rows, cluster = len(problems[0].weight), problems[0].cluster
    # Pool the samples of both models, so that each problem of the notion has one bandwidth.
    forecast, target, weight = (
        np.concatenate([getattr(p, name) for p in problems]) for name in PER_SAMPLE
    )
    both = Problem(forecast, target, weight, problems[0].classes)
    h = ResidualKernel.of_problem(both, kernel, notion, n_jobs)
    halves = slice(0, n_rows), slice(n_rows, None)
    parts = [h.take(half).of_clusters(cluster) for half in halves]
    if cluster is not None:  # their labels may be in an order
        order = np.random.RandomState(0).permutation(len(parts[0]))
        parts = [part.take(order) for part in parts]
    return [block_estimates(part, block_size)[0] for part in parts]


def _error_with_drawn_labels(problems, **run):
    """Standard error of the difference, with labels drawn from each of two forecasts: the larger.

    With few events the spread of the observed blocks is too small, as most have none.
    """
    n_rows = len(problems[0].weight)
    rows = np.arange(min(n_rows, max(_MOST_DRAWN, MIN_BLOCKS * run["block_size"])))
    errors = []
    for levels in (np.cumsum(problem.forecast[rows], axis=1) for problem in problems):
        rng, values = np.random.RandomState(0), []
        for _ in range(_N_DRAWS):
            label = draw_codes(levels, rng)
            drawn = [
                replace(problem.take(rows), labels_or_target=label, cluster=None)
                for problem in problems
            ]
            first, second = _block_errors(drawn, **run)
            values.append(first.mean() - second.mean())
        errors.append(np.std(values, ddof=1))
    return float(max(errors) * np.sqrt(len(rows) / n_rows))


# --- Two windows: independent sets of samples -----------------------------------------------------

#: Field -> its name in the table.
QUANTITIES = {
    "calibration_error": "Calibration error",
    "observed_minus_expected": "Observed - expected",
    "in_the_large": "Calibration in the large",
    "intercept": "Calibration intercept",
    "slope": "Calibration slope",
    "brier": "Brier score",
    "log_loss": "Log loss",
}
#: Labels of the rarer class that an intercept and a slope need.
FEWEST_LABELS = 15
TOO_FEW = f"A window has fewer than {FEWEST_LABELS} labels of the rarer class."
INFINITE = "Infinite: a class that occurred has the forecast 0."
MEANS = ("observed_minus_expected", "brier", "log_loss")
MISSING = MeanInterval(np.nan, np.nan, np.nan, np.nan)
LINES = ("in_the_large", "intercept", "slope")
#: Calibration errors of one event that have an interval.
METRICS = tuple(name for name, quantity in by("name").items() if quantity.binary)


@dataclass(frozen=True)
class WindowDifference(Record):
    """One quantity in two windows.

    Attributes
    ----------
    first, second : MeanInterval
        The quantity in each window.
    difference : MeanInterval
        First minus second.
    pvalue : float
        Two-sided p-value of the hypothesis that the quantity is the same in both windows.

    See Also
    --------
    skcalib.significance.WindowComparison : All quantities.
    """

    first: MeanInterval
    second: MeanInterval
    difference: MeanInterval
    pvalue: float

    _intervals = ("first", "second", "difference")


@dataclass(frozen=True)
class WindowComparison(Record):
    """Result of :func:`~skcalib.compare_windows`: quantities of two windows, and differences.

    A quantity that does not exist for the data is None, and `notes` gives the reason.

    `to_frame` has a row for each ``quantity`` that exists: ``first`` and ``second`` with their
    limits, and ``difference`` with ``low``, ``high``, ``standard_error`` and ``pvalue``.

    Attributes
    ----------
    windows : tuple of two str
        Names of the windows.
    n_samples : tuple of two int
        Samples of positive weight.
    metric : str
        The calibration error that is compared.
    confidence_level : float
        Level of all intervals.
    calibration_error : WindowDifference or None
        The calibration error.
    observed_minus_expected : WindowDifference
        Frequency of the event minus the mean forecast.
    in_the_large, intercept, slope : WindowDifference or None
        Coefficients of the logistic recalibration, as in
        :func:`~skcalib.calibration_intercept_slope`.
    brier, log_loss : WindowDifference or None
        Mean losses. They also differ where only the distribution of the forecasts does.
    notes : dict
        For the name of a quantity, the reason why it is missing.

    See Also
    --------
    skcalib.compare_windows : Makes this record.
    skcalib.significance.WindowDifference : One of its quantities.
    """

    windows: tuple[str, str]
    n_samples: tuple[int, int]
    metric: str
    confidence_level: float
    calibration_error: WindowDifference | None
    observed_minus_expected: WindowDifference
    in_the_large: WindowDifference | None
    intercept: WindowDifference | None
    slope: WindowDifference | None
    brier: WindowDifference
    log_loss: WindowDifference | None
    notes: dict = field(default_factory=dict)

    _intervals = ("first", "second")
    _beside = ("windows", "n_samples", "metric", "confidence_level", "notes")

    def _quantities(self):
        """The quantities that exist, by name."""
        quantities = {name: getattr(self, name) for name in QUANTITIES}
        return {name: quantity for name, quantity in quantities.items() if quantity is not None}

    def _columns(self):
        quantities = self._quantities()
        rows = quantities.values()
        return {
            "quantity": list(quantities),
            "first": [row.first for row in rows],
            "second": [row.second for row in rows],
            "difference": [row.difference.estimate for row in rows],
            "low": [row.difference.low for row in rows],
            "high": [row.difference.high for row in rows],
            "standard_error": [row.difference.standard_error for row in rows],
            "pvalue": [row.pvalue for row in rows],
        }

    def __str__(self) -> str:
        windows = " and ".join(
            f"{name} ({size:,} samples)"
            for name, size in zip(self.windows, self.n_samples, strict=True)
        )
        level = f"{100 * self.confidence_level:g} %"
        lines = [f"Windows {windows}; the difference is first minus second, intervals of {level}"]
        cells = [("", "first", "second", "difference", "")]
        for name, row in self._quantities().items():
            metric = f" ({self.metric})" if name == "calibration_error" else ""
            first, second = (
                record_text(part).partition(" ")[0] for part in (row.first, row.second)
            )
            difference, pvalue = record_text(row.difference), pvalue_text(row.pvalue)
            cells.append((QUANTITIES[name] + metric, first, second, difference, pvalue))
        width = [max(len(row[j]) for row in cells) for j in range(4)]
        for row in cells:
            parts = [row[0].ljust(width[0])] + [row[j].rjust(width[j]) for j in (1, 2, 3)]
            lines.append("  ".join([*parts, row[4]]).rstrip())
        for name, note in self.notes.items():
            lines += wrap(f"{QUANTITIES[name]}: {note}", 100)
        return "\n".join(lines)


@checks_parameters
def compare_windows(
    y_true: LabelsLike,
    y_proba: LabelsLike | None = None,
    by: ArrayLike | None = None,
    *,
    metric: str = "brier",
    notion: NotionLike = "auto",
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
) -> WindowComparison:
    r"""Differences in calibration between two windows, such as two months or two sites.

    The samples of the two windows are different and independent of each other. For each quantity,
    such as a calibration error or a slope, the function estimates the difference :math:`q_1 - q_2`
    between the values :math:`q_1` in the first and :math:`q_2` in the second window. Let
    :math:`[l_j, u_j]` be the confidence interval of :math:`q_j` around its estimate :math:`\hat
    q_j`. The limits of the difference are

    .. math::

        \hat q_1 - \hat q_2 - \sqrt{(\hat q_1 - l_1)^2 + (u_2 - \hat q_2)^2} , \qquad
        \hat q_1 - \hat q_2 + \sqrt{(u_1 - \hat q_1)^2 + (\hat q_2 - l_2)^2} ,

    as in the method of variance estimates recovery (Zou and Donner 2008). The estimates need not be
    normal: intervals of calibration errors are not symmetric near zero. For symmetric intervals the
    method is the usual one, with the root of the sum of the squared standard errors. The p-value is
    consistent with this interval. It is :math:`2 \bar\Phi(z_{1 - \alpha/2}\, |d| / r)` for the
    difference d and the distance r from d to the limit on the side of 0. It is below
    :math:`\alpha`, one minus the confidence level, if and only if the interval excludes 0.

    An estimate of a squared error may be below zero. It counts as zero in the formula, because the
    error is not negative.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or ForecastSketch
        Labels of both windows, or the sketch of the first window.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes), or ForecastSketch
        Probability of the positive class, or of each class; or the sketch of the second window.
    by : array-like of shape (n_samples,), optional
        The window of each sample, by two different values, such as months or the names of sites.
        The lower value is the first window. Omitted with sketches.
    metric : str, default="brier"
        The calibration error, by a name that :func:`~skcalib.calibration_error_interval` accepts
        for binary events: "brier", "log", "l1", "ece", "l2", "debiased_l2", "squared_l2", "max",
        "ks" or "ici".
    notion : {"auto", "top_label", "canonical"} or Notion, default="auto"
        The event: the positive class of two, or whether the prediction is right.
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient. A cluster must lie in one window.

    Returns
    -------
    WindowComparison
        The quantities, each with ``first``, ``second``, ``difference`` (intervals) and ``pvalue``.

    Raises
    ------
    ValueError
        For invalid input, for `by` with other than two values, for a cluster in both windows, and
        for sketches of different labels or of several events.

    See Also
    --------
    skcalib.grouping.calibration_curve_equality_test : Is the calibration curve the same in both?
    compare_calibration : Two models on the same samples.
    calibration_by_group : Each of several groups.
    CalibrationMonitor : Detects a change at an unknown time.
    expected_performance : A window whose labels are not known yet.

    Notes
    -----
    **Few events.** Where a window has fewer than 40 uncertain labels or labels of the rarer class,
    the limits of the means and of calibration in the large are those of score tests: their variance
    is that of the tested value, not of the few labels. Intercept and slope need 15 labels of the
    rarer class in each window, m, and have Student's quantile with m - 2 degrees of freedom.
    Coverages: :ref:`comparing_windows`.

    References
    ----------
    .. [1] G. Y. Zou and A. Donner. Construction of confidence limits about effect measures: a
       general approach. Statistics in Medicine 27, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import compare_windows
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=6000)
    >>> year = np.repeat([2024, 2025], 3000)
    >>> y = rng.random(6000) < np.where(year == 2025, p**1.3, p)
    >>> found = compare_windows(y, p, year)
    >>> found.windows, found.observed_minus_expected.difference.low > 0
    (('2024', '2025'), True)
    """
    windows, problems = two_windows(
        y_true,
        y_proba,
        by,
        resolve_notion(notion),
        sample_weight=sample_weight,
        labels=labels,
        pos_label=pos_label,
        groups=groups,
    )
    clusters = [window.cluster for window in problems if window.cluster is not None]
    if clusters:
        both = np.intersect1d(clusters[0], clusters[1])
        if len(both):
            raise ValueError(
                f"{len(both)} clusters have samples in both windows, {windows[0]} and "
                f"{windows[1]}, which are then not independent: leave out their samples in one "
                "window, or use calibration_curve_equality_test, which allows for that."
            )
        problems = [
            replace(window, cluster=number_clusters(cluster))
            for window, cluster in zip(problems, clusters, strict=True)
        ]
    look_up(metric, METRICS, "metric")
    whole = min(map(_rarer_labels, problems)) >= FEWEST_LABELS
    (first, reason), (second, reason_of_second) = (
        _window_intervals(window, metric, confidence_level, whole) for window in problems
    )
    differences: dict[str, Any] = {}
    notes: dict[str, str] = {}
    for name in (*MEANS, *LINES, "calibration_error"):
        differences[name] = None
        before, after = first.get(name, MISSING), second.get(name, MISSING)
        if np.isfinite([before.estimate, after.estimate]).all():
            floor = 0.0 if name == "calibration_error" else -np.inf
            difference = difference_interval(before, after, floor=floor)
            pvalue = interval_pvalue(difference, confidence_level)
            differences[name] = WindowDifference(before, after, difference, pvalue)
        else:
            notes[name] = (reason or reason_of_second or TOO_FEW) if name in LINES else INFINITE
    n_samples = problems[0].n_samples, problems[1].n_samples
    return WindowComparison(
        windows, n_samples, metric, confidence_level, **differences, notes=notes
    )


def _rarer_labels(problem):
    """Effective number of labels of the rarer class."""
    rate = weighted_mean(problem.target[:, 1], problem.weight)
    return float(effective_size(problem.weight, problem.square) * min(rate, 1 - rate))


def _window_intervals(problem, metric, level, whole):
    """Intervals of the quantities of a window, and the reason why those of the line are missing."""
    p, y, weight = problem.forecast[:, 1], problem.target[:, 1], problem.weight
    rows = {"square": problem.square, "cluster": problem.cluster}
    interval, shift = mean_interval(y - p, weight, level, **rows), None
    if has_few_labels(problem.forecast, problem.target, weight, problem.square):
        interval, shift = few_label_limits(
            p, y, y - p, np.ones(len(p)), weight, level, interval.estimate, **rows
        )
    intervals = {"observed_minus_expected": interval}
    for name, score in (("brier", Brier()), ("log_loss", LogLoss())):
        intervals[name] = mean_loss_interval(
            partial(score.loss, forecast=problem.forecast),
            problem.forecast,
            problem.target,
            level,
            estimate=problem.mean_loss(score),
            weight=weight,
            **rows,
        )
    # Functions of one event take the problem, or a summary, in place of labels.
    source, forecast = problem, problem.forecast
    if problem.count is not None:
        source, forecast = ProblemSummary(problem), None
    error = calibration_error_interval(
        source, forecast, metric=metric, confidence_level=level, notion="canonical"
    )
    intervals["calibration_error"] = MeanInterval(
        error.estimate, error.low, error.high, error.standard_error
    )
    try:
        return intervals | _line_intervals(problem, source, level, whole, shift), ""
    except ValueError as error:
        return intervals, str(error)


def _line_intervals(problem, source, level, whole, shift):
    """Intervals of the logistic recalibration; of the intercept alone unless `whole`.

    With few labels, they are at least those of Student's quantile and of the shift of the log odds.
    """
    uncertain, x = uncertain_logits(problem)
    y = uncertain.target[:, 1]
    if whole:
        line = calibration_intercept_slope(source, confidence_level=level)
        intervals = {name: getattr(line, name) for name in LINES}
        if shift is not None:
            quantile = float(student.ppf(0.5 + level / 2, _rarer_labels(problem) - 2))
            for name, interval in intervals.items():
                middle, reach = interval.estimate, quantile * interval.standard_error
                low, high = min(interval.low, middle - reach), max(interval.high, middle + reach)
                intervals[name] = replace(interval, low=low, high=high)
    elif y.size and y.min() < y.max():
        intercept = np.ones((len(x), 1))
        intervals = {LINES[0]: coefficient_intervals(intercept, x, uncertain, level)[0]}
    else:
        raise ValueError(
            "Calibration in the large, intercept and slope have no finite estimate: all labels of "
            "forecasts other than 0 and 1 are of one class in a window. More samples are needed."
        )
    if shift is not None:
        large = intervals[LINES[0]].estimate
        low, high = min(shift.low, large), max(shift.high, large)
        intervals[LINES[0]] = MeanInterval(large, low, high, shift.standard_error)
    return intervals


# --- Samples of two windows -----------------------------------------------------------------------


def two_windows(
    y_true: LabelsLike,
    y_proba: LabelsLike | None,
    by: ArrayLike | None,
    notion: Notion,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Label,
    groups: ArrayLike | None,
) -> tuple[tuple[str, str], list[Problem]]:
    """Names of the windows and the binary problem of each, from samples or from two sketches.

    The numbers of clusters are those of all samples.
    """
    samples: dict[str, Any] = {"sample_weight": sample_weight, "labels": labels}
    samples |= {"pos_label": pos_label, "groups": groups}
    if isinstance(y_true, ForecastSummary) or isinstance(y_proba, ForecastSummary):
        return ("first", "second"), _of_sketches(y_true, y_proba, notion, by=by, **samples)
    if by is None:
        raise ValueError(
            "by is missing: pass the window of each sample, or two sketches in place of labels "
            "and forecasts."
        )
    check_indices(y_true=y_true, y_proba=y_proba, by=by, sample_weight=sample_weight, groups=groups)
    problem = _only_event(named_events(y_true, y_proba, notion, **samples))
    n_samples = len(check_y(y_true))
    values = np.asarray(to_numpy(by, name="by"))
    if values.shape != (n_samples,):
        raise ValueError(
            f"by must have shape ({n_samples},), one window per sample; got shape {values.shape}."
        )
    values = values[weighted_rows(sample_weight, n_samples)]
    names = unique_labels(values, "by")
    if len(names) != 2:
        raise ValueError(
            f"by must have two different values, one for each window, got {len(names)}: "
            f"{listed(names)}. Select the samples of two windows, or use calibration_by_group."
        )
    members = [np.flatnonzero(values == name) for name in names]
    return (str(names[0]), str(names[1])), [problem.take(rows) for rows in members]


def _of_sketches(first, second, notion, **arguments):
    """The binary problem of each sketch; all other arguments must be left out."""
    names = [name for name, value in arguments.items() if value is not None]
    if names:
        raise ValueError(
            f"Sketches have labels, weights and windows already: leave out {', '.join(names)}."
        )
    for sketch in (first, second):
        if not isinstance(sketch, ForecastSummary):
            raise ValueError(
                "Two windows are two sketches, or labels, forecasts and by: got one sketch and "
                f"a {type(sketch).__name__}."
            )
    problems = [_only_event(named_events(sketch, None, notion)) for sketch in (first, second)]
    if problems[0].classes.tolist() != problems[1].classes.tolist():
        raise ValueError(
            f"The sketches have the labels {listed(problems[0].classes)} and "
            f"{listed(problems[1].classes)}: make both with the same labels."
        )
    return problems


def _only_event(events):
    if len(events) > 1:
        raise ValueError(
            f"Two windows are compared for one event, and there are {len(events)}: use "
            "notion='top_label', or one class against the rest."
        )
    ((_, problem),) = events
    return problem
