"""The default proper calibration errors and their intervals from samples in chunks.

The first pass keeps a random part of the samples. If that is all of them, it is a `Problem` in
memory. Otherwise the maps are fitted to the part, and two more passes add up what
`skcalib.proper.many_samples` needs of all samples, and the noise of the interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._util.validation import check_indices, check_weight
from skcalib.data.chunks import Chunks, add, check_same_columns
from skcalib.data.class_columns import check_column_names
from skcalib.data.labels import check_y
from skcalib.data.problem import Problem, check_problem
from skcalib.links.basis import _ENTRIES
from skcalib.proper.many_samples import (
    TIMES,
    OneStepProblem,
    PartAverage,
    Step,
    part_size,
    sums_of_step,
)
from skcalib.proper.map_average import (
    TINY,
    AveragedProblem,
    ErrorNorm,
    ScoreProjection,
    error_norm,
    noise_of,
    projection_of,
    sums_of,
)
from skcalib.proper.proper import ScoreDecomposition, problems_of
from skcalib.scores import Brier, ProperScore

if TYPE_CHECKING:
    from skcalib.data.notions import Notion


IN_CHUNKS = (
    "the residuals of the maps are not noise in a part of the samples, so the error may exceed the "
    "upper limit: use fit, with all samples in memory"
)


@dataclass(frozen=True)
class FirstReading:
    """Results of the first pass: `part` has random rows, drawn by the random numbers `keys`.

    Weights are divided by a power of two.
    """

    n_columns: int
    n_samples: int
    exponent: int
    weight: float
    squares: float
    part: Problem
    keys: np.ndarray

    @property
    def complete(self) -> bool:
        """Whether the part has all samples."""
        return len(self.keys) == self.n_samples

    def scaled(self, exponent: int) -> FirstReading:
        """The same with another power of two."""
        down = self.exponent - exponent
        weight, squares = np.ldexp(self.weight, down), np.ldexp(self.squares, 2 * down)
        part = replace(self.part, weight=np.ldexp(self.part.weight, down))
        return replace(self, exponent=exponent, weight=weight, squares=squares, part=part)

    def lowest(self, n_kept: int) -> FirstReading:
        """The same with the rows of the lowest keys."""
        if len(self.keys) <= n_kept:
            return self
        rows = np.sort(np.argpartition(self.keys, n_kept)[:n_kept])
        return replace(self, part=self.part.take(rows), keys=self.keys[rows])


def read_part(source: Chunks, classes: np.ndarray) -> FirstReading:
    """The first pass over chunks; the part is complete for as many samples as a fit needs."""
    if (found := source.reduce(_first_reading, _combined, classes)) is None:
        raise ValueError("chunks has no sample of positive weight: at least one is needed.")
    return found


def solve_chunks(
    source: Chunks, first: FirstReading, *, score: ProperScore, notion: Notion
) -> tuple[ScoreDecomposition, ErrorNorm | None, dict[str, float], str]:
    """Terms of an error, norm of its interval, and evidence of the maps (Brier score or log loss).

    The norm is None where the error is infinite or every loss is zero. The last result is the
    reason why the error may exceed the upper limit: the chunks are not searched for jumps and
    confused classes, only the part is.
    """
    size = first.weight**2 / first.squares
    part = first.lowest(part_size(len(first.part.classes))).part
    averages, steps, suspect = [], [], False
    for one in problems_of(part, notion):
        fitted = AveragedProblem.of(one)
        suspect = suspect or fitted.extension is not None
        averages.append(PartAverage(fitted.average, size))
        steps.append(Step(fitted, averages[-1]))
    reader = _Pass(first.part.classes, notion, first.exponent, averages, first.weight)
    share = 1 / len(steps) if notion.reduce == "mean" else 1.0
    sums = _split(source.reduce(replace(reader, function=_Sums(score))), len(steps))
    loss, calibration, refinement, uncertainty = share * sum(
        _terms(average, step, score, own, first.weight)
        for average, step, own in zip(averages, steps, sums, strict=True)
    )
    found = ScoreDecomposition(
        loss=float(loss),
        calibration=float(calibration),
        refinement=float(refinement),
        sharpness=float(uncertainty - refinement),
        uncertainty=float(uncertainty),
    )
    evidence = [average.evidence for average in averages]
    means = {name: float(np.mean([one[name] for one in evidence])) for name in evidence[0]}
    if not np.isfinite(calibration) or loss == 0:
        return found, None, means, ""
    nothing = [_no_samples(average, first.weight) for average in averages]
    scores, projections = (
        [kind(problem, own[at]) for problem, own in zip(nothing, sums, strict=True)]
        for kind, at in ((ScoreProjection, _SCORES), (projection_of(score), _PROJECTION))
    )
    noise, of_scores = source.reduce(replace(reader, function=_Noises(projections, scores, share)))
    norm = error_norm(nothing, projections, noise, share, of_scores.norm)
    return found, norm, means, IN_CHUNKS if suspect else ""


def _terms(average, step, score, sums, total):
    """Loss, calibration, refinement and uncertainty of a problem; sets the odds of its models."""
    mass, loss, gains, (weight, finite_loss, finite_gain), instead, *of_step = sums[: _SCORES.start]
    gain = float(gains[0]) * average.size / total
    average.log_odds, changed, stepped = step(gain, *of_step)
    at = int(isinstance(score, Brier))
    factor = 0.5 * changed if at and len(mass) == 2 else changed
    calibration = factor * (gains[at] / total + stepped[at])
    finite = finite_loss - factor * (finite_gain + stepped[at] * weight)
    uncertainty = float(score.entropy(mass / total))
    return np.array([loss / total, calibration, (finite + instead) / total, uncertainty])


def _split(sums, n_parts):
    """A tuple divided into `n_parts` tuples of equal length."""
    size = len(sums) // n_parts
    return [sums[at : at + size] for at in range(0, len(sums), size)]


# --- What each pass adds up -----------------------------------------------------------------------


@dataclass(frozen=True)
class ChunkProblem(AveragedProblem):
    """An `AveragedProblem` of a part of the samples, whose weights sum to `total` in all."""

    total: float = 1.0
    corrected = OneStepProblem.corrected

    @property
    def share(self) -> np.ndarray:
        """Weights of the rows divided by that of all samples (n,)."""
        return self.weight / self.total


def _no_samples(average, total):
    """The problem without samples, with the attributes that all samples share."""
    none, label = np.empty((0, average.basis.n_classes)), np.empty(0, dtype=int)
    at = average.at(none, label, np.empty(0), total=total)
    return ChunkProblem(none, np.empty(0), at, total=total)


_SCORES, _PROJECTION = slice(8, 10), slice(10, None)  # of `_Sums`: those of two projections


@dataclass(frozen=True)
class _Sums:
    """Sums of a problem that the terms of the error, the step, and the projections need."""

    score: ProperScore

    def __call__(self, problems):
        return tuple(value for one in problems for value in self._of(one))

    def _of(self, problem):
        average, weight, score = problem.average, problem.weight, self.score
        gains, *of_step = sums_of_step(average.start, problem)
        loss = problem.loss(score)
        possible, instead = np.isfinite(loss), 0.0
        finite = [np.ones_like(loss), loss, gains[int(isinstance(score, Brier))]]
        finite = np.array([weight[possible] @ one[possible] for one in finite])
        if not possible.all():
            changed = average.map(problem.forecast[~possible])
            losses = score.loss(problem.targets(~possible), np.maximum(changed, TINY))
            instead = float(weight[~possible] @ losses)
        mass = np.bincount(average.label, weight, minlength=problem.forecast.shape[1])
        projections = sums_of([ScoreProjection, projection_of(score)], problem)
        parts = [value for one in projections for value in one]
        return mass, float(weight @ loss), gains @ weight, finite, instead, *of_step, *parts


@dataclass(frozen=True)
class _Noises:
    """Sums of the noise of all projections."""

    projections: list[Any]
    scores: list[Any]
    share: float

    def __call__(self, problems):
        found = [one.at(problem) for one, problem in zip(self.projections, problems, strict=True)]
        scores = [one.at(problem) for one, problem in zip(self.scores, problems, strict=True)]
        of_zero, (noise,) = noise_of(scores, [found], self.share)
        return noise, of_zero


@dataclass(frozen=True)
class _Pass:
    """Sums of a function of the problems of a notion over the rows of a chunk."""

    classes: np.ndarray
    notion: Notion
    exponent: int
    averages: list[PartAverage]
    total: float
    function: Callable[..., tuple[Any, ...]] = tuple

    def __call__(self, number, *chunk):
        if (problem := _read(number, self.classes, *chunk)) is None:
            return None
        pairs = list(self.notion.problems(problem.forecast, problem.target))
        return reduce(add, self._parts(pairs, np.ldexp(problem.weight, -self.exponent)))

    def _parts(self, pairs: Any, weight: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """Results of slices of the rows whose arrays have a limited size."""
        step = max(_ENTRIES // sum(one.basis.width for one in self.averages), 1)
        for start in range(0, len(weight), step):
            rows = slice(start, start + step)
            problems = []
            for (forecast, target), average in zip(pairs, self.averages, strict=True):
                part, own = forecast[rows], weight[rows]
                found = average.at(part, target[rows].argmax(axis=1), own, total=self.total)
                problems.append(ChunkProblem(part, own, found, total=self.total))
            yield self.function(problems)


# --- Reading chunks -------------------------------------------------------------------------------


def _read(number, classes, values, y, sample_weight=None):
    """A chunk as a `Problem`, without the rows of weight zero; None without any weight."""
    try:
        check_indices(y=y, y_proba=values, sample_weight=sample_weight)
        y = check_y(y, name="y")
        check_column_names(values, classes, "y_proba")
        problem = check_problem(y, values, labels=classes, remedy="labels")
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        if not weight.any():
            return None
        problem = replace(problem, weight=check_weight(weight, len(y)))
    except ValueError as error:
        raise ValueError(f"Chunk {number}: {error}") from error
    kept = np.flatnonzero(problem.weight > 0)
    return problem if len(kept) == len(y) else problem.take(kept)


def _first_reading(number, values, y, *rest):
    """The `FirstReading` of a chunk, with keys from its number."""
    *weight, classes = rest
    if (problem := _read(number, classes, values, y, *weight)) is None:
        return None
    exponent = int(np.frexp(problem.weight.max())[1])
    weight = np.ldexp(problem.weight, -exponent)
    found = FirstReading(
        n_columns=1 if np.ndim(values) == 1 else np.shape(values)[1],
        n_samples=len(weight),
        exponent=exponent,
        weight=float(weight.sum()),
        squares=float(weight @ weight),
        part=replace(problem.take(np.arange(len(weight))), weight=weight),  # without the chunk
        keys=np.random.RandomState(number).random_sample(len(weight)),
    )
    return found.lowest(TIMES * part_size(len(classes)))


def _combined(one, two):
    check_same_columns(one.n_columns, two.n_columns)
    exponent = max(one.exponent, two.exponent)
    one, two = one.scaled(exponent), two.scaled(exponent)
    a, b = one.part, two.part
    pairs = (a.forecast, b.forecast), (a.outcome, b.outcome), (a.weight, b.weight)
    found = FirstReading(
        n_columns=one.n_columns,
        n_samples=one.n_samples + two.n_samples,
        exponent=one.exponent,
        weight=one.weight + two.weight,
        squares=one.squares + two.squares,
        part=Problem(*map(np.concatenate, pairs), a.classes),
        keys=np.concatenate([one.keys, two.keys]),
    )
    return found.lowest(TIMES * part_size(len(a.classes)))
