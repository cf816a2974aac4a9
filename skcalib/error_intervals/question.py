"""The request for an interval, with its data and options, and the record of the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any

import numpy as np

from skcalib._util.formatting import record_text
from skcalib._util.messages import number_of
from skcalib._util.records import Record
from skcalib._util.validation import weighted_rows
from skcalib.data.clusters import independent_size, student_level
from skcalib.data.notions import Multilabel, Notion
from skcalib.data.problem import Problem, check_problem
from skcalib.data.samples import only_problem

# --- The record of an interval --------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorInterval(Record):
    """An error with a confidence interval; see :func:`~skcalib.calibration_error_interval`.

    Attributes
    ----------
    estimate : float
        The value of the metric; with clusters, without products of residuals of one cluster.
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
        Whether the coverage of ``target`` is at least the level.
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
        found = self.metric(given.pop("y_true"), given.pop("y_proba"), **given)
        return number_of(found, "metric")

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
        """The data by rows -> (`Problem`, the metric of rows, codes of labels, and clusters).

        Metrics of the library get validated forecasts and the names of all classes, so a class may
        be missing among the rows, and the clusters. Other functions get the arguments as passed.
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
            forecast = np.asarray(self.data["y_proba"])
            forecast = forecast[weighted_rows(self.data["sample_weight"], len(forecast))]
            names = {k: self.data[k] for k in ("labels", "pos_label") if self.data[k] is not None}
        weighted = self.data["sample_weight"] is not None or (
            self.options is not None and problem.sample_weight is not None
        )
        metric = partial(self.metric, **self.keywords, **names)

        def value(rows, drawn=None, cluster=None):
            """The metric of some rows, with their own labels or drawn ones, and their clusters."""
            if cluster is not None and self.options is not None:
                part = replace(problem.take(rows), cluster=cluster)
                return number_of(self.metric(part, part.forecast, **self.keywords), "metric")
            y = problem.classes[(codes if drawn is None else drawn)[rows]]
            weight = {"sample_weight": problem.weight[rows]} if weighted else {}
            return number_of(metric(y, forecast[rows], **weight), "metric")

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
    try:
        bound = signature(metric).bind(**data, **keywords)
    except TypeError as error:
        taken = ", ".join(name for name in signature(metric).parameters if name not in data)
        raise TypeError(f"{metric.__name__} {error}: as a metric it takes {taken}.") from None
    bound.apply_defaults()
    return bound.arguments
