"""Calibration of groups that the user names: values and ranges of columns, or masks.

`calibration_by_group` reads what it takes as ``by`` with `named_groups`. Columns of many numbers
are cut into fifths of the samples, and columns of many times into years, quarters, months, days or
hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from skcalib._util.formatting import Record, printable
from skcalib._util.parameters import checks_parameters
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike, GroupsLike, Label
from skcalib._util.validation import (
    check_indices,
    take_rows,
    to_numpy,
    weighted_rows,
    weights_of_mean_one,
)
from skcalib.data.clusters import cluster_sums, effective_size, independent_size
from skcalib.data.features import (
    Column,
    is_frame,
    names_of_columns,
    read_column,
    read_columns,
    resolution,
    times_as_text,
)
from skcalib.data.labels import check_y
from skcalib.data.notions import Canonical, NotionLike, refuse_multilabel, resolve_notion
from skcalib.data.problem import (
    ForecastSummary,
    LabelsLike,
    Problem,
    binary_events,
    check_problem,
    named_events,
    refuse_data_of_summary,
)
from skcalib.error_intervals.proper import estimate_proper_error
from skcalib.grouping.equal_scores import EqualScores, compare, join, label_sum_pvalue
from skcalib.scores import weighted_mean
from skcalib.stats.means import MeanInterval, observed_expected_ratio, rate_interval
from skcalib.stats.pvalues import benjamini_hochberg

if TYPE_CHECKING:
    from pandas import DataFrame


_CERTAIN = 1e-9  # distance from 0 and 1 of probabilities in p-values
_FEWEST = 10  # samples of a group whose calibration error is estimated


@dataclass(frozen=True)
class GroupCalibration(Record):
    """Calibration of one group; see :func:`~skcalib.calibration_by_group`.

    Attributes
    ----------
    name : str
        The group.
    event : str
        The event, such as "class 1" or "top label"; empty where there is only one.
    n_samples : int
        Number of samples.
    share : float
        Share of the weight of all samples.
    mean_predicted, observed : float
        Mean predicted probability of the event, and its frequency.
    ratio : MeanInterval or None
        Observed over expected number of events; None if every prediction is 0.
    difference : MeanInterval
        ``observed - mean_predicted``: negative where predictions are too high.
    shrunk : float
        The difference, shrunk towards the mean of the groups according to its noise (empirical
        Bayes).
    pvalue : float
        p-value of the hypothesis that the mean prediction of the group is right.
    detected : bool
        Whether the difference is significant at the false discovery rate.
    equal_scores : MeanInterval or None
        Difference between the frequency in the group and that of all samples with equal scores. It
        remains after every recalibration that uses the score alone. None if the score determines
        the group, or if hardly any event is expected in it.
    equal_scores_pvalue : float or None
        p-value of this difference.
    equal_scores_detected : bool
        Whether it is significant at the false discovery rate.
    error : MeanInterval or None
        Brier calibration error within the group; None for fewer than 10 samples.

    See Also
    --------
    skcalib.grouping.GroupCalibrations : All groups.
    """

    name: str
    event: str
    n_samples: int
    share: float
    mean_predicted: float
    observed: float
    ratio: MeanInterval | None
    difference: MeanInterval
    shrunk: float
    pvalue: float
    detected: bool
    equal_scores: MeanInterval | None
    equal_scores_pvalue: float | None
    equal_scores_detected: bool
    error: MeanInterval | None

    _intervals = ("ratio", "difference", "equal_scores", "error")


@dataclass(frozen=True)
class GroupCalibrations(Record):
    """Calibration of several groups; see :func:`~skcalib.calibration_by_group`.

    `to_frame` has a row for each group and event, with the fields of `GroupCalibration`, and
    ``_low`` and ``_high`` after the name of an interval.

    Attributes
    ----------
    groups : tuple of GroupCalibration
        In the order of `by`, for each event.
    overlapping : bool
        Whether a sample may be in several groups.
    confidence_level : float
        Level of the intervals for all groups at once, and one minus the false discovery rate.
    note : str
        How columns were cut into ranges, which intersections were joined, and whether the groups
        are those of one column at a time; empty if there is nothing to say.

    See Also
    --------
    skcalib.calibration_by_group : Makes this record.
    skcalib.GroupCalibrationDisplay : Draws it as a forest plot.
    """

    groups: tuple[GroupCalibration, ...]
    overlapping: bool
    confidence_level: float
    note: str = ""

    _beside = ("overlapping", "confidence_level")
    _intervals = GroupCalibration._intervals

    def _columns(self):
        names = [field.name for field in fields(GroupCalibration)]
        return {name: [getattr(group, name) for group in self.groups] for name in names}

    def __str__(self) -> str:
        titles = [
            printable(f"{group.name}, {group.event}" if group.event else group.name)
            for group in self.groups
        ]
        width = max(map(len, titles))
        lines = [
            f"{title:<{width}}  n = {group.n_samples:>7,}  observed - predicted "
            f"{group.difference}{' *' if group.detected else ''}"
            for title, group in zip(titles, self.groups, strict=True)
        ]
        level = f"{self.confidence_level:.0%}"
        lines.append(f"{level} intervals for all groups at once; * found at the false discovery ")
        end = f"rate {1 - self.confidence_level:.2g}."
        return "\n".join(lines) + end + (f"\n{printable(self.note)}" if self.note else "")

    def _sentence(self):
        return (
            f"Intervals hold for all groups at once at the level {self.confidence_level:.0%}; "
            f"the false discovery rate is {1 - self.confidence_level:.2g}. {self.note}"
        ).strip()


@checks_parameters
def calibration_by_group(
    y_true: LabelsLike | Problem,
    y_proba: ArrayLike | None = None,
    by: ArrayLike | Mapping[str, ArrayLike] | DataFrame | None = None,
    *,
    notion: NotionLike = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
    groups: ArrayLike | None = None,
    intersections: bool = False,
    confidence_level: float = 0.95,
) -> GroupCalibrations:
    r"""Calibration of each of several given groups, with correction for multiple comparisons.

    For each group g with weights w, predictions p and labels y:

    - ``difference``: :math:`\sum_g w_i (y_i - p_i) / \sum_g w_i`, and ``ratio``: :math:`\sum_g w_i
      y_i / \sum_g w_i p_i`. Intervals are Clopper and Pearson's, at the level :math:`c^{1/m}`
      (Sidak) for m groups and the confidence level c. They hold for all groups at once, with any
      overlap.
    - ``pvalue``: the p-value of :math:`\sum_g w_i (y_i - p_i)` for labels drawn from the
      predictions (saddlepoint approximation). ``detected`` marks the groups that the procedure of
      Benjamini and Hochberg rejects at the false discovery rate ``1 - confidence_level``. Where
      groups overlap, it is the procedure of Benjamini and Yekutieli. A group may be detected
      although its interval contains 0, because the intervals control the probability of any error,
      and the rate controls the share of false discoveries.
    - ``shrunk``: the difference shrunk towards the mean of the groups by the factor :math:`\tau^2 /
      (\tau^2 + s_g^2)`, with the variance :math:`s_g^2` of the difference and the variance
      :math:`\tau^2` between groups of DerSimonian and Laird.
    - ``equal_scores``: the difference from all samples with equal scores, the statistic of
      :func:`~skcalib.grouping.differences_at_equal_scores`. If all groups are miscalibrated in the
      same way, each has a ``difference``, but none has one at equal scores. A function of the score
      alone can correct the first, but not the second.
    - ``error``: the Brier calibration error within the group, with its interval. It detects
      deviations that cancel in the mean. Its interval is for this group alone.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or ForecastSketch
        Labels, or a sketch with groups in place of all data. The argument ``by`` of
        :func:`~skcalib.summarize` or :meth:`~skcalib.ForecastSketch.partial_fit` makes such a
        sketch.
    by : array-like of shape (n_samples,), (n_samples, n_columns), data frame, or dict of masks
        The group of each sample; several columns, as a data frame or a dict of arrays; or a dict
        from names to boolean masks, which may overlap. Missing values form a group. A column of
        more than ten different numbers is cut into fifths of the samples, which are named by their
        limits; equal numbers stay together. A column of more than ten times is cut into the longest
        unit of the calendar (years, quarters, months, days or hours) of which there are 3 to 12,
        otherwise into fifths. Text, categories and truth values are not cut, so pass codes such as
        zip codes as text. Omitted with a sketch, whose groups are as they were summarized.
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"} or Notion, default="auto"
        The event. For two classes it is the positive class. For more classes it is whether the
        prediction is right ("auto" or "top_label"), each class ("classwise"), or that an ordered
        class is at most k ("cumulative").
    groups : array-like of shape (n_samples,), default=None
        The cluster of each sample, such as a patient, by any labels. Estimates of errors, intervals
        and p-values then allow for dependence within clusters. The groups to compare are given by
        `by`.
    intersections : bool, default=False
        With several columns, whether the groups are their intersections, such as "sex = F and site
        = north", instead of the groups of one column at a time. Each column may be calibrated
        while its intersections with others are not. Intersections of fewer than 20 samples form one
        group, "smaller intersections".
    confidence_level : float, default=0.95
        Level of the intervals, and one minus the false discovery rate.

    Returns
    -------
    GroupCalibrations
        A record for each group and event, `to_frame`, and a text.

    Raises
    ------
    ValueError
        For invalid input, groups that do not fit the samples, an empty group, more than 1,000
        groups, and intersections of masks or with a sketch.

    See Also
    --------
    compare_windows : Compares two groups of different samples, such as months, in more detail.
    skcalib.grouping.calibration_curve_equality_test : Are the curves of two groups equal?
    skcalib.grouping.differences_at_equal_scores : Finds groups from features.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import calibration_by_group
    >>> rng = np.random.default_rng(0)
    >>> site = rng.choice(["north", "south"], 4000)
    >>> p = rng.uniform(0.1, 0.5, 4000)
    >>> y = rng.random(4000) < p + 0.1 * (site == "south")
    >>> found = calibration_by_group(y, p, site)
    >>> [(one.name, one.detected) for one in found.groups]
    [('north', False), ('south', True)]
    """
    if isinstance(y_true, ForecastSummary):
        refuse_data_of_summary(
            y_true,
            y_proba,
            by=by,
            sample_weight=sample_weight,
            labels=labels,
            intersections=intersections or None,
            pos_label=pos_label,
            groups=groups,
        )
        overlapping, note = False, ""
        names, rows_of_events = _of_sketch(y_true, resolve_notion(notion))
    else:
        refuse_multilabel(notion, "calibration_by_group")
        check_indices(y_true=y_true, y_proba=y_proba, by=by, sample_weight=sample_weight)
        problem = check_problem(y_true, y_proba, None, sample_weight, labels, pos_label, groups)
        events = binary_events(problem, pos_label, resolve_notion(notion))
        if by is None:
            raise ValueError("by is missing: pass the group of each sample, or a dict of masks.")
        if not isinstance(y_true, Problem):
            n_samples = len(check_y(y_true))
            by = take_groups(by, weighted_rows(sample_weight, n_samples), n_samples)
        named = named_groups(by, len(problem.weight), intersections=intersections)
        empty = [k for k, inside in enumerate(named.members.T) if not inside.any()]
        if empty:
            raise ValueError(
                f"The group {named.names[empty[0]]!r} has no samples of positive weight: leave it "
                "out of by."
            )
        names, overlapping, note = named.names, named.overlapping, named.note
        rows_of_events = [_EventRows(name, event, named.members) for name, event in events]
    n_tests = len(names) * len(rows_of_events)
    level = confidence_level ** (1 / n_tests)
    calibrations: list[GroupCalibration] = []
    for rows in rows_of_events:
        calibrations += _calibrations(rows, names, confidence_level, level)
    rate = 1 - confidence_level
    if overlapping or len(rows_of_events) > 1:  # any dependence
        rate /= np.sum(1 / np.arange(1, n_tests + 1))
    detected = set(benjamini_hochberg([group.pvalue for group in calibrations], rate).tolist())
    tested = [k for k, group in enumerate(calibrations) if group.equal_scores_pvalue is not None]
    pvalues: list[Any] = [calibrations[k].equal_scores_pvalue for k in tested]
    unequal = {tested[k] for k in benjamini_hochberg(pvalues, rate)} if tested else set()
    judged = tuple(
        replace(
            group,
            event=group.event if len(rows_of_events) > 1 else "",
            detected=k in detected,
            equal_scores_detected=k in unequal,
        )
        for k, group in enumerate(calibrations)
    )
    return GroupCalibrations(judged, overlapping, confidence_level, note)


# --- Groups ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _EventRows:
    """The binary problem of an event, the members (n, m) of groups, and the folds of a sketch."""

    event: str
    problem: Problem
    members: np.ndarray
    folds: list | None = None


def _of_sketch(sketch, notion):
    """Names of the groups of a sketch, and the rows of its cells for each event."""
    keys = getattr(sketch, "groups_", [None])
    if keys == [None]:
        raise ValueError(
            f"This {type(sketch).__name__} has no groups: pass by= to partial_fit or summarize."
        )
    keys = sorted(keys, key=lambda key: place(str(key)))
    rows = []
    for named in zip(*(named_events(sketch.group(key), None, notion) for key in keys), strict=True):
        problem, group, folds = join([event for _, event in named])
        rows.append(_EventRows(named[0][0], problem, group[:, None] == np.arange(len(keys)), folds))
    return [str(key) for key in keys], rows


# --- Statistics -----------------------------------------------------------------------------------


def _calibrations(rows, names, confidence_level, level):
    """Records of all groups for one event; what depends on the others is filled in later."""
    equal, total = _at_equal_scores(rows, level), rows.problem.weight.sum()
    calibrations, noise = [], []
    for k, inside in enumerate(rows.members.T):
        part = rows.problem.take(inside)
        y, p, w, square = part.target[:, 1], part.forecast[:, 1], part.weight, part.squares
        expected, observed = float(weighted_mean(p, w)), float(weighted_mean(y, w))
        rates = rate_interval(y, w, level, square, part.cluster)
        ratio = None
        if expected > 0:
            ratio = observed_expected_ratio(y, p, w, level, square, part.cluster)
        error = None
        if part.n_samples >= _FEWEST:
            error = estimate_proper_error(
                part, loss="brier", notion=Canonical(), confidence_level=confidence_level
            ).interval
        size = effective_size(w, square)
        if part.cluster is not None and 0 < observed < 1:
            size = min(size, observed * (1 - observed) / rates.standard_error**2)
        # Half an event more of each kind, so that no variance is zero.
        rate = (observed * size + 0.5) / (size + 1)
        noise.append(rate * (1 - rate) / size)
        calibrations.append(
            GroupCalibration(
                name=names[k],
                event=rows.event,
                n_samples=part.n_samples,
                share=float(w.sum() / total),
                mean_predicted=expected,
                observed=observed,
                ratio=ratio,
                difference=MeanInterval(
                    observed - expected,
                    rates.low - expected,
                    rates.high - expected,
                    rates.standard_error,
                ),
                shrunk=np.nan,
                pvalue=_pvalue(part),
                detected=False,
                equal_scores=equal[k][0],
                equal_scores_pvalue=equal[k][1],
                equal_scores_detected=False,
                error=error,
            )
        )
    shrunk = shrink(
        np.array([calibration.difference.estimate for calibration in calibrations]), np.array(noise)
    )
    return [
        replace(calibration, shrunk=float(value))
        for calibration, value in zip(calibrations, shrunk, strict=True)
    ]


def _pvalue(part):
    """p-value of the sum of residuals, for labels drawn from the predictions."""
    proba = np.clip(part.forecast[:, 1], _CERTAIN, 1 - _CERTAIN)
    count = np.ones(len(proba)) if part.count is None else part.count
    weight = weights_of_mean_one(part.weight, count)
    square = part.squares * (weight.sum() / part.weight.sum()) ** 2
    residual, coefficients = part.target[:, 1] - proba, weight / count
    variance = square @ (proba * (1 - proba))
    if np.ptp(coefficients) > 1e-9 * coefficients.max():
        variance = max(variance, square @ residual**2)
    total = float(weight @ residual)
    pvalue = label_sum_pvalue(total, coefficients, proba, float(variance), count)
    if part.cluster is None:
        return pvalue
    sums = cluster_sums(weight * residual, part.cluster)
    units = independent_size(part.weight, cluster=part.cluster)
    spread = np.sqrt(max(float(sums @ sums), float(variance)))
    return max(pvalue, float(2 * student.sf(abs(sums.sum()) / spread, max(units - 1, 1.0))))


def _at_equal_scores(rows, level):
    """Interval and p-value of the difference at equal scores of each group, or (None, None)."""
    problem = rows.problem
    equal = EqualScores.of_problem(problem, folds=rows.folds)
    statistics, quantile = compare(equal, rows.members), norm.isf((1 - level) / 2)
    if problem.cluster is not None:
        units = independent_size(problem.weight, cluster=problem.cluster)
        quantile = student.isf((1 - level) / 2, max(units - 1, 1.0))
    differences = []
    for k, inside in enumerate(rows.members.T):
        if np.isnan(statistics.pvalue[k]):
            differences.append((None, None))
            continue
        mass = equal.weight[inside].sum()
        estimate = float(statistics.total[k] / mass)
        error = float(np.sqrt(statistics.variance[k]) / mass)
        low, high = np.clip([estimate - quantile * error, estimate + quantile * error], -1, 1)
        interval = MeanInterval(estimate, float(low), float(high), error)
        differences.append((interval, float(statistics.pvalue[k])))
    return differences


def shrink(estimates: np.ndarray, variances: np.ndarray) -> np.ndarray:
    r"""Estimates (m,) drawn towards their mean by their noise.

    The variance between them is DerSimonian and Laird's,
    :math:`\tau^2 = \max(0, (Q - m + 1) / (\sum a - \sum a^2 / \sum a))` with
    :math:`a = 1 / s^2` and :math:`Q = \sum a (d - \bar d)^2`.
    """
    precision = 1 / variances
    mean = precision @ estimates / precision.sum()
    if len(estimates) == 1:
        return estimates
    spread = precision @ (estimates - mean) ** 2
    scale = precision.sum() - (precision @ precision) / precision.sum()
    between = max(0.0, (spread - len(estimates) + 1) / scale)
    share = between / (between + variances)
    total = 1 / (between + variances)
    centre = total @ estimates / total.sum()
    return centre + share * (estimates - centre)


# --- Named groups ---------------------------------------------------------------------------------


#: Columns of more numbers or times than these are cut into ranges.
_FEW_VALUES = 10
#: Intersections of fewer samples than these form one group.
_SMALL = 20
#: Numbers of calendar units that are groups.
_FEWEST_UNITS, _MOST_UNITS = 3, 12
_MOST_SHOWN = 3
#: What is said of several columns without their intersections.
MARGINS = "Each group is of one column: intersections=True gives those of all columns together."


@dataclass(frozen=True)
class NamedGroups:
    """Names of the m groups, their members (n, m), whether they may overlap, and a note."""

    names: list[str]
    members: np.ndarray
    overlapping: bool
    note: str = ""


@dataclass(frozen=True)
class _ColumnGroups:
    """The number of the group of each sample, the names in order, and how a column is cut."""

    number: np.ndarray
    names: list[str]
    cut: str = ""

    @property
    def members(self):
        return self.number[:, None] == np.arange(len(self.names))


def named_groups(by: GroupsLike, n_samples: int, *, intersections: bool = False) -> NamedGroups:
    """Groups of masks, of each column, or of all columns together."""
    if isinstance(by, Mapping):
        masks = {name: _is_mask(values) for name, values in by.items()}
        if all(masks.values()):
            return _of_masks(by, n_samples, intersections)
        if any(masks.values()):
            name = next(name for name, is_mask in masks.items() if not is_mask)
            raise ValueError(
                f"by has masks, but by[{name!r}] must be a mask of {n_samples} booleans too, got "
                f"{np.asarray(by[name]).dtype}. For columns of groups pass a data frame."
            )
    columns = _columns(by, n_samples)
    parts = [_groups_of_column(column) for column in columns]
    cuts = [part.cut for part in parts if part.cut]
    uncut = "Values that are text or a category, such as codes, are not cut."
    notes = [f"Cut: {', '.join(cuts)}. {uncut}"] if cuts else []
    several = len(columns) > 1
    if intersections and several:
        return _intersections(parts, notes)
    for column, part in zip(columns, parts, strict=True):
        _check_number(len(part.names), column.name)
    names = [name for part in parts for name in part.names]
    note = " ".join([*notes, MARGINS] if several else notes)
    return NamedGroups(names, np.hstack([part.members for part in parts]), several, note)


def take_groups(by: GroupsLike, rows: np.ndarray, n_samples: int) -> GroupsLike:
    """The groups of some of the samples."""
    if len(rows) == n_samples or not hasattr(by, "__len__"):  # others are refused later
        return by
    if isinstance(by, Mapping):
        for name, values in by.items():
            _check_shape(np.shape(values), n_samples, f"by[{name!r}]")
        return {name: take_rows(values, rows) for name, values in by.items()}
    if len(by) != n_samples:
        raise ValueError(
            f"by must have the group of each of the {n_samples} samples, got {len(by)}."
        )
    return take_rows(by, rows)


def place(name: str) -> tuple[int, float, str]:
    """Sort key of names: numbers in their order, then texts in theirs."""
    try:
        number = float(name)
    except ValueError:
        return 1, 0.0, name
    return (0, number, "") if np.isfinite(number) else (1, 0.0, name)


# --- Columns --------------------------------------------------------------------------------------


def _columns(by, n_samples):
    """The columns of what the user passed, each with a value for each sample."""
    if isinstance(by, Mapping):
        cells = [to_numpy(values, name="by") for values in by.values()]
        columns = list(map(read_column, cells, names_of_columns(by, "by")))
    elif is_frame(by):
        columns = read_columns(by, owner="by")
    else:
        by = to_numpy(by, name="by")
        shape = np.shape(by)
        if len(shape) == 2:
            columns = read_columns(by, [f"column {k}" for k in range(shape[1])])
        else:
            _check_shape(shape, n_samples, "by")
            columns = [read_column(by)]
    for column in columns:
        _check_shape(column.cells.shape, n_samples, "by")
    if not columns:
        raise ValueError("by has no columns: pass the group of each sample.")
    return columns


def _check_shape(shape, n_samples, name):
    if shape != (n_samples,):
        raise ValueError(
            f"{name} must have the group of each of the {n_samples} samples, got shape {shape}: "
            "pass an array, a data frame, or a dict of masks."
        )


def _groups_of_column(column: Column):
    """Groups of a column, by name; missing values are the last one."""
    if column.kind not in ("time", "number", "duration"):
        return _of_texts(column)
    known, cut = ~column.missing, ""
    values = (column.cells if column.kind == "time" else column.numbers())[known]
    groups = _of_numbers(values, column.kind)
    names = [_titled(column.name, name, groups.cut) for name in groups.names]
    number = np.full(len(known), len(names))
    number[known] = groups.number
    if not known.all():
        names.append(_titled(column.name, "missing"))
    if groups.cut:
        kind = "times" if column.kind == "time" else "numbers"
        n_values = f"{len(np.unique(values)):,} {kind}"
        cut = f"{column.name} ({n_values})" if column.name else n_values
        cut += f" into {groups.cut}"
    return _ColumnGroups(number, names, cut)


def _of_texts(column):
    if column.kind == "other" and not all(isinstance(cell, tuple) for cell in column.cells):
        raise ValueError(
            f"{f'Column {column.name} of by' if column.name else 'by'} has {column.reason}: "
            "pass numbers, times, text or categories."
        )
    texts = column.texts()
    if column.missing.any():
        texts = np.where(texts == "missing", "'missing'", texts)
        texts[column.missing] = "missing"
    distinct, number = np.unique(texts.astype(str), return_inverse=True)
    order = sorted(range(len(distinct)), key=lambda k: place(str(distinct[k])))
    names = [_titled(column.name, str(distinct[k])) for k in order]
    return _ColumnGroups(np.argsort(order)[number.ravel()], names)


def _titled(column, name, cut=""):
    """The name of a group with its column, where that has a name."""
    return f"{column} {'' if cut else '= '}{name}" if column else name


#: Names of units of the calendar and their types in NumPy, from long to short.
_UNITS = {
    "years": "M8[Y]",
    "quarters": "M8[3M]",
    "months": "M8[M]",
    "days": "M8[D]",
    "hours": "M8[h]",
}
#: A day, a minute, a second and a microsecond, in microseconds.
_STEPS = (86_400_000_000, 60_000_000, 1_000_000, 1)


def _of_numbers(values, kind):
    """Groups of numbers or times: the values, units of the calendar, or fifths of the samples."""
    distinct, number = np.unique(values, return_inverse=True)
    number, group, cut = number.ravel(), np.arange(len(distinct)), ""
    if len(distinct) > _FEW_VALUES:
        units = _UNITS if kind == "time" else {}
        for unit, dtype in units.items():
            starts, group = np.unique(distinct.astype(dtype), return_inverse=True)
            if _FEWEST_UNITS <= len(starts) <= _MOST_UNITS:
                return _ColumnGroups(group.ravel()[number], _unit_names(starts, unit), unit)
        # Of each value the fifth of the samples in which its middle lies.
        counts = np.bincount(number)
        middle = np.cumsum(counts) - counts / 2
        _, group = np.unique(np.floor(5 * middle / counts.sum()), return_inverse=True)
        group, cut = group.ravel(), "fifths of the samples"
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    ends = np.append(starts[1:], len(distinct)) - 1
    if kind == "time":
        steps = _STEPS if cut else (resolution(distinct),)
        names = _time_ranges(distinct[starts], distinct[ends], steps)
    else:
        days = " days" if kind == "duration" else ""
        names = [name + days for name in _number_ranges(distinct, distinct[starts], distinct[ends])]
    return _ColumnGroups(group[number], names, cut)


def _unit_names(starts, unit):
    """Units of the calendar as text, from their starts."""
    if unit == "quarters":
        months = starts.astype("M8[M]").astype(int).tolist()
        return [f"{1970 + month // 12} Q{month % 12 // 3 + 1}" for month in months]
    end = ":00" if unit == "hours" else ""
    return [str(start).replace("T", " ") + end for start in starts]


def _time_ranges(low, high, steps):
    """Names of ranges of times, to the longest of the steps that tells them apart."""
    for step in steps:
        pairs = zip(times_as_text(low, step), times_as_text(high, step), strict=True)
        names = [start if start == end else f"{start} to {end}" for start, end in pairs]
        if len(set(names)) == len(names):
            break
    return names


def _number_ranges(values, low, high):
    """Names of ranges of sorted values, with as many digits as tell them apart."""
    single = low == high
    all_digits = range(15, 18, 2)
    if not np.array_equal(values, np.rint(values)):  # ranges meet between their values
        middle = high[:-1] / 2 + low[1:] / 2
        starts, ends = np.append(low[:1], middle), np.append(middle, high[-1:])
        low, high = np.where(single, low, starts), np.where(single, high, ends)
        all_digits = range(10 if single.all() else 4, 18)
    for digits in all_digits:
        names = [
            f"{start:.{digits}g}" if alone else f"{start:.{digits}g} to {end:.{digits}g}"
            for start, end, alone in zip(low, high, single, strict=True)
        ]
        if len(set(names)) == len(names):
            break
    return names


def _check_number(n_groups, column=""):
    if n_groups > SIZES.compared_groups:
        raise ValueError(
            f"{f'Column {column} of by' if column else 'by'} has {n_groups:,} groups, more than "
            f"{SIZES.compared_groups:,}: join some of them first."
        )


# --- Intersections --------------------------------------------------------------------------------


def _intersections(parts, notes):
    """The groups of all columns together; the small ones are one group, with a note on them."""
    table = np.column_stack([part.number for part in parts])
    cells, number, counts = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    names = [
        " and ".join(part.names[k] for part, k in zip(parts, cell, strict=True)) for cell in cells
    ]
    small, large = np.flatnonzero(counts < _SMALL), np.flatnonzero(counts >= _SMALL)
    group = np.arange(len(cells))
    if len(small) > 1:
        group = np.full(len(cells), len(large))
        group[large] = np.arange(len(large))
        first = [names[k] for k in small[:_MOST_SHOWN]]
        unshown = f" and {len(small) - _MOST_SHOWN} more" if len(small) > _MOST_SHOWN else ""
        pooled = (
            f"{len(small)} intersections of fewer than {_SMALL} samples form one group of "
            f"{counts[small].sum():,}: {'; '.join(first)}{unshown}."
        )
        notes = [*notes, pooled]
        names = [*(names[k] for k in large), "smaller intersections"]
    _check_number(len(names))
    intersections = _ColumnGroups(group[number.ravel()], names)
    return NamedGroups(names, intersections.members, False, " ".join(notes))


# --- Masks ----------------------------------------------------------------------------------------


def _is_mask(values):
    cells = np.asarray(values)
    if cells.dtype == object:
        return cells.size > 0 and all(isinstance(cell, (bool, np.bool_)) for cell in cells.flat)
    return cells.dtype == bool


def _of_masks(by, n_samples, intersections):
    if not by:
        raise ValueError("by is an empty dict: pass a mask for each group, by its name.")
    if intersections:
        raise ValueError(
            "intersections=True is for columns of groups, but by is a dict of masks: pass a data "
            "frame, in which each column has the group of each sample."
        )
    masks = {name: np.asarray(mask).astype(bool) for name, mask in by.items()}
    for name, mask in masks.items():
        if mask.shape != (n_samples,):
            raise ValueError(
                f"by[{name!r}] must be a mask of {n_samples} booleans, got shape {mask.shape}."
            )
    members = np.stack(list(masks.values()), axis=1)
    return NamedGroups(names_of_columns(by, "by"), members, bool((members.sum(1) > 1).any()))
