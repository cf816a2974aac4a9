"""Comparison of the calibration of two models on the same samples, or of two sketches."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from scipy.stats import t as student

from skcalib._util.formatting import Record, pvalue_text
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import check_indices
from skcalib.data.labels import draw_codes
from skcalib.data.notions import Notion, NotionLike, resolve_notion
from skcalib.data.problem import ForecastSummary, LabelsLike, Problem, check_problem
from skcalib.errors.drawn_labels import few_labels
from skcalib.errors.kernel import (
    ClusterKernel,
    ResidualKernel,
    block_estimates,
    check_statistic,
    resolve_kernel,
)
from skcalib.significance.windows import WindowComparison, compare_windows

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
    if isinstance(y_true, ForecastSummary) or isinstance(first, ForecastSummary):
        _check_sketches(
            y_true,
            first,
            second=second,
            kernel=kernel,
            block_size=block_size,
            sample_weight=sample_weight,
            labels=labels,
            pos_label=pos_label,
            groups=groups,
            notion=None if notion == "canonical" else notion,
        )
        return compare_windows(y_true, first, confidence_level=confidence_level)
    if second is None:
        raise ValueError(
            "second is missing: pass labels and the probabilities of two models, or two sketches."
        )
    check_indices(first=first, second=second)
    samples: dict[str, Any] = {"sample_weight": sample_weight, "labels": labels}
    samples |= {"pos_label": pos_label}
    problems = [
        check_problem(y_true, first, groups=groups, name="first", **samples),
        check_problem(y_true, second, name="second", **samples),
    ]
    if not np.array_equal(problems[0].classes, problems[1].classes):
        raise ValueError(
            "first and second are probabilities of different classes: pass pos_label= with the "
            "class of both."
        )
    rule = resolve_notion(notion)
    problems[0].require_order(rule)
    return compare_problems(
        *problems,
        kernel=resolve_kernel(kernel),
        notion=rule,
        block_size=block_size,
        confidence_level=confidence_level,
        n_jobs=n_jobs,
    )


def _check_sketches(*windows, **arguments):
    """Raise unless both windows are sketches and all other arguments are None."""
    for sketch in windows:
        if not isinstance(sketch, ForecastSummary):
            raise ValueError(
                "Two sketches, or labels and the probabilities of two models, can be compared: "
                f"got one sketch and a {type(sketch).__name__}."
            )
    names = [name for name, value in arguments.items() if value is not None]
    if names:
        raise ValueError(
            f"Sketches of two windows are compared without {', '.join(names)}: leave it out, or "
            "pass labels and the probabilities of two models."
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
        unit, n_samples = (
            "clusters",
            min(len(np.unique(first.cluster)), ClusterKernel.MOST_CLUSTERS),
        )
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
