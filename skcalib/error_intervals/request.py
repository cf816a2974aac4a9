"""The request for an interval, the record that answers it, and answers for any metric.

The latter evaluate the metric on parts of the data: jackknife, subsampling and bootstrap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.formatting import Record, record_text
from skcalib._util.messages import number_of
from skcalib._util.parallel import draw_batches, draw_each
from skcalib._util.sizes import SIZES
from skcalib._util.validation import weighted_rows
from skcalib.data.clusters import independent_size, numbers_by_appearance, student_level
from skcalib.data.labels import draw_codes
from skcalib.data.notions import Multilabel, Notion
from skcalib.data.problem import Problem, check_problem, only_problem
from skcalib.error_intervals.proper import estimate_proper_error
from skcalib.stats.pvalues import monte_carlo_pvalue

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
class IntervalRequest:
    """A metric of forecasts and the options of its interval.

    ``options`` are all arguments of a metric of the library, defaults included; None for other
    functions. ``keywords`` are those that were passed. ``samples`` are labels, forecasts, weights,
    classes and the positive class as passed, and ``validated`` their `Problem` where there are
    clusters.
    """

    metric: Any
    options: Any
    keywords: dict
    samples: dict
    confidence_level: float
    n_resamples: int
    rng: np.random.RandomState
    n_jobs: int | None
    validated: Problem | None = None

    @property
    def clustered(self) -> bool:
        """Whether samples are in clusters."""
        problem = self.samples["y_true"] if self.validated is None else self.validated
        return isinstance(problem, Problem) and problem.cluster is not None

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
        """The metric on all data; user-defined functions get only what is not None."""
        arguments = self.options
        if arguments is None:
            arguments = {name: value for name, value in self.samples.items() if value is not None}
            arguments |= self.keywords
        arguments = dict(arguments)
        value = self.metric(arguments.pop("y_true"), arguments.pop("y_proba"), **arguments)
        return number_of(value, "metric")

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
        whole = self.answer(0.0, ceiling, np.inf, method="none", target=target, ceiling=ceiling)
        return replace(whole, reason=reason)

    def problem(self) -> Problem:
        """The validated data."""
        return check_problem(**self.samples) if self.validated is None else self.validated

    def problem_of(self, notion: Notion, *, soft: bool = False) -> tuple[Problem, Notion]:
        """The validated data and the notion; the only event of a sketch in place of samples.

        With `soft`, labels may be soft.
        """
        return only_problem(**self.samples, notion=notion, soft=soft)


def all_options(metric: Any, samples: dict[str, Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """All arguments of a function of the library, with its own defaults."""
    try:
        bound = signature(metric).bind(**samples, **keywords)
    except TypeError as error:
        taken = ", ".join(name for name in signature(metric).parameters if name not in samples)
        raise TypeError(f"{metric.__name__} {error}: as a metric it takes {taken}.") from None
    bound.apply_defaults()
    return bound.arguments


# --- Answers for any metric -----------------------------------------------------------------------

GROUPS = 20  # of the jackknife, at most
#: Biases of more standard errors than this affect coverage.
_LARGEST_BIAS = 0.5
_BIASED = (
    "the metric is biased by about {:.1f} standard errors at this sample size, like all metrics "
    "with a kink or a square near a calibrated forecast, so {} does not reach its level"
)
_NAIVE = (
    "resamples repeat samples, which inflates binned errors and reveals the held-out label to "
    "held-out estimates: the interval is for comparison only"
)
METRIC = "the value of the metric for large samples"


def jackknife(
    request: IntervalRequest, *, at_zero: bool = False, target: str = METRIC
) -> ErrorInterval:
    """Leave out each of at most twenty random groups; Student's limits with their number.

    With ``at_zero``, for metrics that are 0 for calibrated forecasts and positive for others, the
    lower limit is 0 unless the exact test with labels drawn from the forecasts rejects. Labels in
    clusters are not drawn; there it is 0 unless the interval of the Brier calibration error lies
    above 0.
    """
    parts = _Parts(request)
    n_groups = min(GROUPS, parts.n_units // 2)
    if n_groups < 2:
        raise ValueError(
            f"A jackknife needs at least 4 {parts.unit} of positive weight, got {parts.n_units}."
        )
    groups = parts.without_groups(n_groups, request.rng)
    tasks = (delayed(parts.value_of_rest)(rows) for rows in groups)
    left = np.array(Parallel(n_jobs=request.n_jobs)(tasks))
    error = float(np.sqrt((n_groups - 1) * left.var()))
    bias = (n_groups - 1) * (left.mean() - request.estimate)
    reach = float(student.isf((1 - request.confidence_level) / 2, n_groups - 1)) * error
    low, high = request.estimate - reach, request.estimate + reach
    flags: dict[str, Any] = {"method": "jackknife", "target": target}
    if at_zero:
        if low > 0 and not _rejects_calibration(request, parts):
            low = 0.0
        flags["method"] = "jackknife, test of calibration"
        return request.answer(low, high, error, **flags)
    return request.answer(low, high, error, floor=-np.inf, **flags, **_bias(bias, error, "it"))


def subsampling(request: IntervalRequest) -> ErrorInterval:
    """Politis and Romano: the rescaled distribution of the metric over subsets of n^(2/3)."""
    parts = _Parts(request)
    number = parts.n_units
    size = round(number ** (2 / 3))
    if number < 8:
        raise ValueError(
            f"Subsampling needs at least 8 {parts.unit} of positive weight, got {number}."
        )

    def draw(rng):
        return parts.value_of_units(rng.choice(number, size, replace=False))

    draws = draw_each(draw, request.n_resamples, request.rng, n_jobs=request.n_jobs)
    # Without replacement: a subset is correlated with the full sample.
    scale = np.sqrt(size / number / (1 - size / number))
    law = scale * (draws - request.estimate)
    tail = (1 - request.confidence_level) / 2
    low, high = request.estimate - np.quantile(law, [1 - tail, tail])
    error = float(law.std())
    flags: dict[str, Any] = {"method": "subsampling", "target": METRIC, "floor": -np.inf}
    return request.answer(low, high, error, **flags, **_bias(law.mean(), error, "subsampling"))


def bootstrap(request: IntervalRequest) -> ErrorInterval:
    """The percentile interval of resamples: never valid, for comparison."""
    parts = _Parts(request)

    def draw(rng):
        return parts.value_of_units(rng.randint(parts.n_units, size=parts.n_units))

    draws = draw_each(draw, request.n_resamples, request.rng, n_jobs=request.n_jobs)
    tail = (1 - request.confidence_level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    flags: dict[str, Any] = {"method": "bootstrap", "target": METRIC, "floor": -np.inf}
    return request.answer(low, high, draws.std(), **flags, valid=False, reason=_NAIVE)


class _Parts:
    """The metric of parts of the data.

    They consist of units: samples or, where these depend on each other, clusters. Metrics of the
    library get validated forecasts and the names of all classes, so a class may be missing among
    the rows, and the clusters. Other functions get the arguments as passed.
    """

    def __init__(self, request: IntervalRequest) -> None:
        notion = (request.keywords if request.options is None else request.options).get("notion")
        if isinstance(notion, Multilabel):
            raise ValueError(
                "Intervals from parts of the samples are for one label per sample: leave out "
                "method=, or pass one column of notion=Multilabel() at a time."
            )
        self._request, samples = request, request.samples
        self.problem = problem = request.problem()
        self._codes = problem.target.argmax(axis=1)
        self._forecast, names = problem.forecast, {"labels": problem.classes}
        weighted = samples["sample_weight"] is not None
        if request.options is None:
            forecast = np.asarray(samples["y_proba"])
            self._forecast = forecast[weighted_rows(samples["sample_weight"], len(forecast))]
            names = {name: samples[name] for name in ("labels", "pos_label")}
            names = {name: value for name, value in names.items() if value is not None}
        else:
            weighted = weighted or problem.sample_weight is not None
        self._weight = problem.weight if weighted else None
        self._metric = partial(request.metric, **request.keywords, **names)
        self.unit, self.n_units = "samples", len(problem.weight)
        if problem.cluster is not None:
            distinct, self._cluster = np.unique(problem.cluster, return_inverse=True)
            self.unit, self.n_units = "clusters", len(distinct)
            ends = np.cumsum(np.bincount(self._cluster))[:-1]
            self._rows = np.split(np.argsort(self._cluster, kind="stable"), ends)

    def value(self, rows, labels=None, cluster=None):
        """The metric of rows, with their labels or codes (n,) of drawn ones, and their clusters."""
        request = self._request
        if cluster is not None and request.options is not None:
            part = replace(self.problem.take(rows), cluster=cluster)
            return number_of(request.metric(part, part.forecast, **request.keywords), "metric")
        y = self.problem.classes[(self._codes if labels is None else labels)[rows]]
        weight = {} if self._weight is None else {"sample_weight": self._weight[rows]}
        return number_of(self._metric(y, self._forecast[rows], **weight), "metric")

    def without_groups(self, n_groups, rng):
        """The rows (m,) without each of random groups of units."""
        place = np.argsort(rng.permutation(self.n_units))
        place = place if self.problem.cluster is None else place[self._cluster]
        return [np.flatnonzero(place % n_groups != j) for j in range(n_groups)]

    def value_of_rest(self, rows):
        """The metric of the rows that are left."""
        cluster = (
            None if self.problem.cluster is None else numbers_by_appearance(self._cluster[rows])
        )
        return self.value(rows, cluster=cluster)

    def value_of_units(self, units):
        """The metric of drawn units; clusters that are drawn twice are two."""
        if self.problem.cluster is None:
            return self.value(units)
        parts = [self._rows[k] for k in units]
        cluster = np.repeat(np.arange(len(parts)), [len(rows) for rows in parts])
        return self.value(np.concatenate(parts), cluster=cluster)


def _bias(bias, error, name):
    if abs(bias) <= _LARGEST_BIAS * error:
        return {}
    size = abs(bias) / error if error > 0 else np.inf
    return {"valid": False, "reason": _BIASED.format(size, name)}


def _rejects_calibration(request, parts):
    """Whether the metric is significantly larger than with labels drawn from the forecasts.

    Draws end as soon as those to come cannot change the answer.
    """
    problem = parts.problem
    if problem.cluster is not None:
        notion = (request.options or {}).get("notion", "canonical")
        level = request.confidence_level
        brier = estimate_proper_error(
            problem, loss="brier", notion=notion, confidence_level=level, n_jobs=request.n_jobs
        )
        return brier.interval is not None and brier.interval.low > 0
    levels, tail = problem.forecast.cumsum(axis=1), (1 - request.confidence_level) / 2

    def draw(rng):
        return parts.value(slice(None), draw_codes(levels, rng))

    drawn, total = np.empty(0), request.n_resamples
    batches = draw_batches(draw, total, request.rng, size=SIZES.batch_draws, n_jobs=request.n_jobs)
    for batch in batches:
        drawn = np.append(drawn, batch)
        n_left = total - len(drawn)
        # The p-value of all draws, if those to come are as small or as large as possible.
        least, most = (
            monte_carlo_pvalue(request.estimate, np.append(drawn, np.full(n_left, end)))
            for end in (-np.inf, np.inf)
        )
        if least > tail or most <= tail:
            break
    return most <= tail
