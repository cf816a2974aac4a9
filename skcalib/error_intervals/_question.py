"""What is asked: a metric with all its arguments, and the data that it is computed from."""

from dataclasses import dataclass, replace
from functools import partial
from inspect import signature

import numpy as np

from skcalib.error_intervals._record import ErrorInterval
from skcalib.problem import check_problem


@dataclass(frozen=True)
class Question:
    """A metric of forecasts, its value, and how an interval of it is wanted.

    ``options`` are all arguments of a metric of the library, defaults included; None for other
    functions. ``keywords`` are those that were given.
    """

    metric: object
    options: dict | None
    keywords: dict
    data: dict
    estimate: float
    level: float
    n_resamples: int
    rng: np.random.RandomState
    n_jobs: int | None

    def answer(self, low, high, error, *, method, target, floor=0.0, ceiling=np.inf, **flags):
        """An `ErrorInterval` inside of the values that the target can have."""
        low, high = (float(min(max(limit, floor), ceiling)) for limit in (low, high))
        if not np.isfinite(error):
            flags = {"conservative": True, "reason": "there is no spread to judge it by"}
        return ErrorInterval(
            self.estimate, low, high, float(error), self.level, method, target, **flags
        )

    def nothing_varies(self, *, target, ceiling):
        """The answer where every residual is like the others, or alone."""
        reason = "residuals do not vary in any bin, so that there is no spread to judge it by"
        whole = {"method": "none", "target": target, "ceiling": ceiling}
        return replace(self.answer(0.0, ceiling, np.inf, **whole), reason=reason)

    def problem(self):
        """The validated data."""
        data = dict(self.data)
        return check_problem(data.pop("y_true"), data.pop("y_proba"), **data)

    def sample(self):
        """The data by rows -> (`Problem`, function of rows and codes of labels, the metric).

        Metrics of the library get validated forecasts of all classes and the names of these, so
        that a class may be missing among the rows. Other functions get what was passed.
        """
        problem = self.problem()
        codes = problem.target.argmax(axis=1)
        forecast, names = problem.forecast, {"labels": problem.classes}
        if self.options is None:
            forecast = _rows_that_count(self.data["y_proba"], self.data["sample_weight"])
            names = {k: self.data[k] for k in ("labels", "pos_label") if self.data[k] is not None}
        weighted = self.data["sample_weight"] is not None
        metric = partial(self.metric, **self.keywords, **names)

        def value(rows, drawn=None):
            y = problem.classes[(codes if drawn is None else drawn)[rows]]
            weight = {"sample_weight": problem.weight[rows]} if weighted else {}
            return float(metric(y, forecast[rows], **weight))

        return problem, value


def unwrap(metric, keywords):
    """Take functools.partial apart -> (function, keywords)."""
    while isinstance(metric, partial):
        if metric.args:
            raise ValueError("A functools.partial as metric may hold keywords only.")
        metric, keywords = metric.func, {**metric.keywords, **keywords}
    return metric, keywords


def all_options(metric, data, keywords):
    """All arguments of a function of the library, with its own defaults."""
    bound = signature(metric).bind(**data, **keywords)
    bound.apply_defaults()
    return bound.arguments


def _rows_that_count(y_proba, sample_weight):
    array = np.asarray(y_proba)
    return array if sample_weight is None else array[np.asarray(sample_weight).ravel() > 0]
