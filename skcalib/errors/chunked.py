"""The default proper calibration errors and their intervals from samples in chunks.

`solve_chunks` reads the chunks and returns a `ChunkedError`. Each pass adds up one kind of sums:
those that the directions need, log likelihoods and their derivatives for all models that are being
fitted, the terms of the error, or the noise of the interval.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skcalib._chunks import Chunks, add, check_same_columns
from skcalib._class_columns import check_column_names
from skcalib._labels import check_y
from skcalib._validation import check_indices, check_weight
from skcalib.errors.averaged import AveragedProblem
from skcalib.errors.averaged_interval import (
    ErrorNorm,
    ScoreProjection,
    error_norm,
    noise_of,
    projection_of,
    sums_of,
)
from skcalib.errors.proper import ScoreDecomposition
from skcalib.errors.terms import reduce_terms
from skcalib.links._base import detection_limit
from skcalib.links.basis import _ENTRIES, LogitBasis
from skcalib.links.chunked_averaging import ChunkedAverage, TreeFit
from skcalib.problem import check_problem
from skcalib.smoothers._base import check_at_least_two
from skcalib.smoothers.logit import warn_few_per_class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skcalib.notions import Notion
    from skcalib.scores import ProperScore

MAX_PASSES = 18  # over the chunks, in all
_LAST = 2  # passes after the fits: the terms, and the noise of the interval


@dataclass(frozen=True)
class ChunkedError:
    """A default proper calibration error of samples in chunks.

    The terms, the `ErrorNorm` of the interval (None where the error is infinite or every loss is
    zero), what it covers, the weights of the kinds of models, the columns of the forecasts, and the
    number of passes.
    """

    terms: ScoreDecomposition
    norm: ErrorNorm | None
    target: str
    evidence: dict[str, float]
    n_columns: int
    n_passes: int


def solve_chunks(
    chunks: Any, *, score: ProperScore, notion: Notion, classes: np.ndarray
) -> ChunkedError:
    """Estimate the error of samples in chunks, as `Chunks` takes them.

    Parameters
    ----------
    chunks : iterable of tuples, or tuple of Dask arrays
        The source.
    score : ProperScore
        Brier or log loss.
    notion : Notion
        The notion.
    classes : ndarray of shape (K,)
        The class of each column.

    Returns
    -------
    ChunkedError
        The estimate.
    """
    source, reader = Chunks(chunks), _Reader(classes, notion)
    first = source.reduce(_FirstPass(reader), _combined)
    if first is None:
        raise ValueError("chunks has no sample of positive weight: at least one is needed.")
    check_at_least_two(first.n_samples)
    for limit in first.limits:
        warn_few_per_class(first.n_samples, len(limit.mass))
    reader = replace(reader, exponent=first.exponent)
    fits = _begin(source, reader, first)
    _fit(source, reader, fits)
    averages = [fit.average for fit in fits]
    total, share = first.weight, 1 / len(fits) if notion.reduce == "mean" else 1.0
    terms, *sums = source.reduce(_Pass(reader, averages, total, _Terms(score, notion)))
    loss, calibration, refinement = map(float, terms / total)
    uncertainty = share * sum(float(score.entropy(one.mass / total)) for one in first.limits)
    nothing = [_no_samples(average, total) for average in averages]
    shares = [average.evidence for average in averages]
    found = ChunkedError(
        terms=ScoreDecomposition(
            loss=loss,
            calibration=calibration,
            refinement=refinement,
            sharpness=uncertainty - refinement,
            uncertainty=uncertainty,
        ),
        norm=None,
        target=nothing[0].target_text,
        evidence={name: float(np.mean([one[name] for one in shares])) for name in shares[0]},
        n_columns=first.n_columns,
        n_passes=source.passes,
    )
    if not np.isfinite(calibration) or loss == 0:
        return found
    projections = list(map(projection_of(score), nothing, _split(sums, len(fits))))
    scores = [_scores_of(fit, one) for fit, one in zip(fits, nothing, strict=True)]
    noise, of_scores = source.reduce(
        _Pass(reader, averages, total, _Noises(projections, scores, share))
    )
    norm = error_norm(nothing, projections, noise, share, of_scores.norm)
    return replace(found, norm=norm, n_passes=source.passes)


def _begin(source, reader, first):
    """Fits of all problems, after a pass at the identity; before it one more if there are zeros."""
    averages = [
        ChunkedAverage(len(one.mass), limit=one.limit, total=first.weight, squares=first.squares)
        for one in first.limits
    ]
    curves = [one.curves for one in first.limits]
    if any(one.zeros for one in first.limits):
        curves = source.reduce(_CurvePass(reader, tuple(averages)), _combined_curves)
    for average, sums in zip(averages, curves, strict=True):
        average.basis.learn_curves(sums)
    sums = source.reduce(_Pass(reader, averages, first.weight, _start_sums))
    fits = [TreeFit(average) for average in averages]
    for fit, one in zip(fits, _split(sums, len(fits)), strict=True):
        fit.begin(one)
    return fits


def _fit(source, reader, fits):
    """Passes until every fit has ended, or no pass is left."""
    while any(fit.requests for fit in fits) and source.passes < MAX_PASSES - _LAST:
        requests = [fit.requests for fit in fits]
        averages = [fit.average for fit in fits]
        sums = iter(source.reduce(_Pass(reader, averages, 1.0, _ModelSums(requests))))
        for fit, asked in zip(fits, requests, strict=True):
            if asked:
                fit.receive([(next(sums), next(sums), next(sums)) for _ in asked])
    for fit in fits:
        if fit.requests:
            fit.stop()
    unfinished = sorted({name for fit in fits for name in fit.unfinished})
    if unfinished:
        warnings.warn(
            f"The fit of {len(unfinished)} maps stopped after {MAX_PASSES} passes over the chunks, "
            f"before its tolerance was reached: {'; '.join(unfinished)}. The error may differ from "
            "that in memory: compare it with the error of a part of the samples in memory.",
            ConvergenceWarning,
            stacklevel=4,
        )


def _split(sums, n_parts):
    """A tuple divided into `n_parts` tuples of equal length."""
    size = len(sums) // n_parts
    return [sums[at : at + size] for at in range(0, len(sums), size)]


# --- What each pass adds up -----------------------------------------------------------------------


@dataclass(frozen=True)
class ChunkProblem(AveragedProblem):
    """An `AveragedProblem` of a part of the samples, whose weights sum to `total` in all."""

    total: float = 1.0

    @property
    def share(self) -> np.ndarray:
        """Weights of the rows divided by that of all samples (n,)."""
        return self.weight / self.total


def _no_samples(average, total):
    """The problem without samples, with the attributes that all samples share."""
    none = np.empty((0, average.basis.n_classes))
    return ChunkProblem(none, np.empty(0), average.at(none, none, np.empty(0)), total=total)


def _scores_of(fit, problem):
    """Projection of the scores at the forecasts, from the sums of the pass at the identity."""
    n_names = len(fit.average.basis.select(fit.average.names))
    return ScoreProjection(problem, (fit.information[:n_names, :n_names], fit.score[:n_names]))


def _start_sums(problems, averages):
    parts = [one.start_sums(p.average) for p, one in zip(problems, averages, strict=True)]
    return tuple(value for part in parts for value in part)


@dataclass(frozen=True)
class _ModelSums:
    """Sums that the fits request."""

    requests: list[Any]

    def __call__(self, problems, averages):
        return tuple(
            value
            for problem, average, asked in zip(problems, averages, self.requests, strict=True)
            for request in asked
            for value in average.model_sums(problem.average, request)
        )


@dataclass(frozen=True)
class _Terms:
    """Sums of the terms of the error, and of what the projections of the interval need."""

    score: ProperScore
    notion: Notion

    def __call__(self, problems, averages):
        terms = reduce_terms(problems, score=self.score, notion=self.notion, method="auto")
        names = ("loss", "calibration", "refinement")
        means = np.array([terms.weight @ getattr(terms, name) for name in names])
        parts = [sums_of([projection_of(self.score)], problem)[0] for problem in problems]
        return means, *(value for part in parts for value in part)


@dataclass(frozen=True)
class _Noises:
    """Sums of the noise of all projections."""

    projections: list[Any]
    scores: list[Any]
    share: float

    def __call__(self, problems, averages):
        found = [one.at(problem) for one, problem in zip(self.projections, problems, strict=True)]
        scores = [one.at(problem) for one, problem in zip(self.scores, problems, strict=True)]
        of_zero, (noise,) = noise_of(scores, [found], self.share)
        return noise, of_zero


@dataclass(frozen=True)
class _Pass:
    """Sums of a function of the problems of a notion over the rows of a chunk."""

    reader: _Reader
    averages: list[ChunkedAverage]
    total: float
    function: Callable[..., tuple[Any, ...]]

    def __call__(self, number, *chunk):
        read = self.reader(number, *chunk)
        return None if read is None else reduce(add, self._parts(*read))

    def _parts(self, pairs: Any, weight: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """Results of slices of the rows whose arrays have a limited size."""
        step = max(_ENTRIES // sum(one.basis.width for one in self.averages), 1)
        for start in range(0, len(weight), step):
            rows = slice(start, start + step)
            problems = []
            for (forecast, target), average in zip(pairs, self.averages, strict=True):
                part, own = forecast[rows], weight[rows]
                found = average.at(part, target[rows], own)
                problems.append(ChunkProblem(part, own, found, total=self.total))
            yield self.function(problems, self.averages)


# --- Reading chunks -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reader:
    """Validates a chunk: the problems of the notion, and weights divided by a power of two."""

    classes: np.ndarray
    notion: Notion
    exponent: int = 0

    def __call__(
        self, number: int, values: Any, y: Any, sample_weight: Any = None
    ) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray] | None:
        """Pairs (forecast, target) and weights (m,); None without any weight."""
        try:
            check_indices(y=y, y_proba=values, sample_weight=sample_weight)
            y = check_y(y, name="y")
            check_column_names(values, self.classes, "y_proba")
            problem = check_problem(y, values, labels=self.classes, remedy="labels")
            weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
            if not weight.any():
                return None
            weight = check_weight(weight, len(y))
        except ValueError as error:
            raise ValueError(f"Chunk {number}: {error}") from error
        kept = np.flatnonzero(weight > 0)
        if len(kept) < len(weight):
            problem, weight = problem.take(kept), weight[kept]
        pairs = list(self.notion.problems(problem.forecast, problem.target))
        return pairs, np.ldexp(weight, -self.exponent)


@dataclass(frozen=True)
class _FirstOfProblem:
    """Of one problem: weights of the labels, smallest positive forecast, zeros, `curve_sums`."""

    mass: np.ndarray
    limit: float
    zeros: bool
    curves: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class _First:
    """Results of the first pass; weights are divided by a power of two."""

    n_columns: int
    n_samples: int
    exponent: int
    weight: float
    squares: float
    limits: list[_FirstOfProblem]

    def scaled(self, exponent: int) -> _First:
        """The same with another power of two."""
        down = self.exponent - exponent
        if down == 0:
            return self
        limits = [
            replace(
                one,
                mass=np.ldexp(one.mass, down),
                curves=tuple(np.ldexp(part, down) for part in one.curves),
            )
            for one in self.limits
        ]
        weight, squares = np.ldexp(self.weight, down), np.ldexp(self.squares, 2 * down)
        return replace(self, exponent=exponent, weight=weight, squares=squares, limits=limits)


@dataclass(frozen=True)
class _FirstPass:
    """Sums that need no basis, and those of the curves as if no forecast were zero."""

    reader: _Reader

    def __call__(self, number, *chunk):
        read = self.reader(number, *chunk)
        if read is None:
            return None
        pairs, weight = read
        exponent = int(np.frexp(weight.max())[1])
        weight = np.ldexp(weight, -exponent)
        limits = []
        for forecast, target in pairs:
            basis = LogitBasis(forecast.shape[1])
            basis.limit = detection_limit(forecast)
            zeros, curves = bool((forecast == 0).any()), basis.curve_sums(forecast, weight)
            limits.append(_FirstOfProblem(weight @ target, basis.limit, zeros, curves))
        return _First(
            n_columns=1 if np.ndim(chunk[0]) == 1 else np.shape(chunk[0])[1],
            n_samples=len(weight),
            exponent=exponent,
            weight=float(weight.sum()),
            squares=float(weight @ weight),
            limits=limits,
        )


def _combined(one, two):
    check_same_columns(one.n_columns, two.n_columns)
    exponent = max(one.exponent, two.exponent)
    one, two = one.scaled(exponent), two.scaled(exponent)
    limits = [
        _FirstOfProblem(
            a.mass + b.mass, min(a.limit, b.limit), a.zeros or b.zeros, add(a.curves, b.curves)
        )
        for a, b in zip(one.limits, two.limits, strict=True)
    ]
    return replace(
        one,
        n_samples=one.n_samples + two.n_samples,
        weight=one.weight + two.weight,
        squares=one.squares + two.squares,
        limits=limits,
    )


@dataclass(frozen=True)
class _CurvePass:
    """The sums of the curves with the limit of all forecasts."""

    reader: _Reader
    averages: tuple[ChunkedAverage, ...]

    def __call__(self, number, *chunk):
        read = self.reader(number, *chunk)
        if read is None:
            return None
        pairs, weight = read
        return [
            average.basis.curve_sums(forecast, weight)
            for (forecast, _), average in zip(pairs, self.averages, strict=True)
        ]


def _combined_curves(one, two):
    return [add(a, b) for a, b in zip(one, two, strict=True)]
