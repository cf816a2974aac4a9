"""Errors of random subsamples, and their expected values (G22). No drawing code."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.messages import is_whole, shown
from skcalib._util.records import Record
from skcalib.data.notions import Classwise, Cumulative, resolve_notion
from skcalib.data.samples import Samples
from skcalib.error_intervals.quantities import DEBIASED, QUANTITIES, by
from skcalib.errors import calibration_error
from skcalib.errors.binned import check_bins, expected_errors_of_subsamples

_POINTS = 9  # sample sizes, by default
_FIRST = 100  # the smallest size, if the data are at least ten times larger


@dataclass(frozen=True)
class NamedError:
    """An error ``function(y_true, y_proba, *, labels, sample_weight)`` and its name.

    ``squared`` errors are averaged as squares and shown as the root, in units of probability.
    """

    name: str
    function: object
    squared: bool = False

    def units(self, value):
        """Signed root of a squared error; other errors are returned unchanged."""
        return np.sign(value) * np.sqrt(np.abs(value)) if self.squared else value


#: Names of errors for `EstimationDisplay`.
ERRORS = {
    name: NamedError(one.label, one.metric, one.squared)
    for name, one in by("curve", (*QUANTITIES, DEBIASED)).items()
}


@dataclass(frozen=True)
class EstimationCurve(Record):
    """One error against the sample size; arrays of shape (m,).

    ``mean`` is that over subsamples, for a squared error the signed root of the mean; the central
    share of the subsamples lies between ``low`` and ``high``. For l1 binned errors ``prediction``
    is the expected value by the folded-normal distribution, and ``floor`` the expected error at
    this size if the same forecasts were calibrated; None for others.
    """

    name: str
    size: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    prediction: np.ndarray | None = None
    floor: np.ndarray | None = None

    _rows = ("size", "mean", "low", "high", "prediction", "floor")
    _beside = ("name",)


def check_errors(errors, notion):
    """Names for the notion, functions, or a dict of them by label -> list of `NamedError`."""
    options = {"notion": resolve_notion(notion)}
    if isinstance(errors, Mapping):
        named = [_check_error(error, options, str(name)) for name, error in errors.items()]
    else:
        several = isinstance(errors, (list, tuple))
        named = [_check_error(error, options) for error in (errors if several else [errors])]
    labels = [error.name for error in named]
    if not named or len(set(labels)) < len(labels):
        raise ValueError(
            f"errors must contain at least one error, with distinct names, got {labels}: pass a "
            "dict of errors by name."
        )
    return named


def _check_error(error, options, name=None):
    if isinstance(error, str) and error in ERRORS:
        known = ERRORS[error]
        return NamedError(name or known.name, partial(known.function, **options), known.squared)
    if not callable(error) or isinstance(error, type):
        names = ", ".join(map(repr, ERRORS))
        raise ValueError(
            f"errors must be among {names}, or functions of (y_true, y_proba, labels=...); got "
            f"{shown(error)}."
        )
    inner = getattr(error, "func", error)  # of functools.partial
    return NamedError(name or getattr(inner, "__name__", repr(error)), error)


def check_sizes(sample_sizes, n_samples):
    """Increasing sample sizes; by default nine from about 100 to all samples."""
    if sample_sizes is None:
        first = min(_FIRST, max(n_samples // 10, 2), n_samples)
        return np.unique(np.rint(np.geomspace(first, n_samples, _POINTS)).astype(int))
    sizes = list(sample_sizes) if np.ndim(sample_sizes) == 1 else []
    if not sizes or not all(map(is_whole, sizes)) or min(sizes) < 1 or max(sizes) > n_samples:
        raise ValueError(
            f"sample_sizes must be a list of whole numbers from 1 to the number of samples, "
            f"{n_samples}; got {shown(sample_sizes)}."
        )
    return np.unique(sizes)


def estimation_curves(
    problem, errors, sizes, *, weighted, n_repeats, confidence_level, rng, n_jobs
):
    """Curves of several errors on the same random subsamples of a `Problem`."""
    n_samples = len(problem.forecast)
    repeats = [1 if size == n_samples else n_repeats for size in sizes]
    tasks = [size for size, times in zip(sizes, repeats, strict=True) for _ in range(times)]
    seeds = rng.randint(np.iinfo(np.int32).max, size=len(tasks))
    found = Parallel(n_jobs=n_jobs)(
        delayed(_subsample_errors)(problem, errors, size, seed, weighted)
        for size, seed in zip(tasks, seeds, strict=True)
    )
    ends = np.cumsum(repeats)[:-1]
    tail = 50 * (1 - confidence_level)
    curves = []
    for error, values in zip(errors, np.array(found).T, strict=True):
        if np.isnan(values).any():
            raise ValueError(
                f"{error.name} returned NaN: pass an error that is defined on subsamples."
            )
        parts = np.split(values, ends)
        mean = np.array([part.mean() for part in parts])
        low, high = np.array([np.percentile(part, [tail, 100 - tail]) for part in parts]).T
        expected = _expected(problem, error.function, sizes, weighted)
        drawn = (error.units(value) for value in (mean, low, high))
        curves.append(EstimationCurve(error.name, sizes, *drawn, *expected))
    return curves


def _subsample_errors(problem, errors, size, seed, weighted):
    """Every error on one subsample, drawn without replacement and kept in the original order."""
    n_samples = len(problem.forecast)
    rows = slice(None)
    if size < n_samples:
        rows = np.random.default_rng(seed).choice(n_samples, size, replace=False)
    y, labels = problem.target[rows].argmax(axis=1), np.arange(len(problem.classes))
    options = {"sample_weight": problem.weight[rows]} if weighted else {}
    forecast = problem.forecast[rows]
    return [float(one.function(y, forecast, labels=labels, **options)) for one in errors]


def _expected(problem, function, sizes, weighted):
    """Folded-normal prediction and floor of an l1 `calibration_error`; None for other errors."""
    options = dict(function.keywords) if isinstance(function, partial) else {}
    plain = function.func if isinstance(function, partial) else function
    if plain is not calibration_error or options.pop("norm", "l1") != "l1":
        return None, None
    reduce = options.pop("reduce", "mean")
    notion = resolve_notion(options.pop("notion", "auto"))
    if type(notion) in (Classwise, Cumulative) and reduce == "sum":
        notion = type(notion)(reduce)
    n_bins, strategy = options.pop("n_bins", "auto"), options.pop("strategy", "quantile")
    y, weight = problem.target.argmax(axis=1), problem.weight if weighted else None
    labels = np.arange(len(problem.classes))
    events = Samples.of(y, problem.forecast, notion, weight, labels)
    score, event, weight = events.columns()
    weight = np.ones(score.shape[1]) if weight is None else weight
    share = 1 / len(score) if notion.reduce == "mean" else 1.0
    rows = []
    for size in sizes:
        bins = check_bins(n_bins, strategy, int(size))
        problems = zip(score, event, strict=True)
        rows.append(
            share
            * sum(expected_errors_of_subsamples(s, e, weight, bins, size) for s, e in problems)
        )
    return tuple(np.array(rows).T)
