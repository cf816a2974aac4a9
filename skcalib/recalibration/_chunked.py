"""Recalibrators that are fitted to samples in chunks, by sums of losses and derivatives.

`FittedFromChunks` has the public method; a subclass implements `_fit_sums` from `ChunkedLogits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from skcalib._chunks import Chunks, check_chunk_labels, check_same_columns
from skcalib._labels import check_y, class_columns, one_hot_rows
from skcalib._validation import check_features, check_indices, check_weight
from skcalib.links._base import detection_limit
from skcalib.recalibration._base import LogitRecalibrator
from skcalib.scores import LogLoss, ProperScore, resolve_training_loss

MAX_PASSES = 18  # over the chunks, in all


class FittedFromChunks(LogitRecalibrator):
    """Adds `fit_chunks` to a recalibrator of logits."""

    _pilot = 2000  # samples from which a fit starts
    _needs_hessian = False
    labels: Any
    loss: Any

    def fit_chunks(self, chunks: Iterable[tuple[Any, ...]] | tuple[Any, ...]) -> Self:
        r"""Learn the map from samples in chunks, which are never in memory together.

        The parameters are those of `fit` on all samples at once, up to 1e-8. Each pass over the
        chunks adds up losses, gradients and second derivatives, :math:`\sum_i w_i L(y_i, s_i)` and
        its derivatives in the parameters. Sums of chunks are added in pairs, so that the number of
        chunks has no effect on them beyond rounding. The fit starts from the parameters for 2,000
        to 4,000 samples, which the first pass keeps. For vector scaling these are 20,000 to 40,000,
        from which cross-validation chooses the shrinkage.

        Returns
        -------
        Recalibrator
            The fitted recalibrator, with the further attribute ``n_passes_``, the number of passes.

        Raises
        ------
        ValueError
            For an iterator, such as a generator, because it can be read only once; for invalid
            samples, with the number of the chunk; if the constructor has no ``labels``, which must
            list the classes; for chunks with different numbers of columns; if a pass has a
            different number of samples than the first.

        Warns
        -----
        ConvergenceWarning
            As in `fit`, and if 18 passes are not sufficient. The parameters are then those of the
            last pass.

        Notes
        -----
        There are at most 18 passes, usually 3 to 13 (:ref:`chunks`), and the first chunk is read
        once more. The cost of a pass is O(n K) for one temperature, and O(n K^2) otherwise. Memory:
        one chunk, or about two for each job of joblib's context, its logits and their products,
        O(K^2) sums, and the samples from which the fit starts. Dask computes the sums of Dask
        arrays.
        """
        self._check_parameters()
        score, name = resolve_training_loss(self.loss), type(self).__name__
        classes = check_chunk_labels(self.labels, name)
        if self._needs_hessian and not isinstance(score, LogLoss):
            raise ValueError(
                f"{name} is fitted from chunks for loss='log' only, whose Hessian is known; got "
                f"{self.loss!r}. Use TemperatureScaling, or fit on a part of the samples."
            )
        source = Chunks(chunks)
        found = source.reduce(
            partial(_first_reading, self, classes), partial(_combined, self._pilot)
        )
        if found is None:
            raise ValueError("chunks has no sample of positive weight: at least one is needed.")
        if not np.isfinite(found.weight):
            raise ValueError("The sum of sample_weight is infinite: divide the weights by 1e100.")
        self.classes_, self.n_features_in_ = classes, found.n_columns
        first = source.first()
        if np.ndim(first) == 2:
            validate_data(self, first, reset=True, skip_check_array=True)
        del first
        if found.limit is not None:
            self.detection_limit_ = found.limit
        samples = ChunkedLogits(self, score, source, found)
        self._fit_sums(samples)
        self.loss_before_, self.loss_after_, _ = samples.losses()
        self.n_passes_ = source.passes
        return self

    def _fit_sums(self, samples):
        """Learn the map from `ChunkedLogits`."""
        raise NotImplementedError


class ChunkedLogits:
    """Samples in chunks, read as a recalibrator reads them.

    ``n_samples`` have positive weight, and ``counts`` (K,) are the weights of the labels of each
    class, whose sum is ``n_samples``. ``uniform`` says whether every forecast is uniform. ``pilot``
    has logits (m, K), columns of the labels (m,) and weights (m,) of a part of the samples.
    """

    def __init__(self, recalibrator: Any, score: ProperScore, source: Chunks, found: Any) -> None:
        self._recalibrator, self.score, self._source = recalibrator, score, source
        # A power of two first, as weights may be too large or too small to be multiplied.
        exponent = int(np.frexp(found.weight / found.n_samples)[1])
        self._scale = exponent, found.n_samples / np.ldexp(found.weight, -exponent)
        self.n_samples, self.uniform = found.n_samples, found.uniform
        self.counts = _scaled(found.counts, self._scale)
        values, columns, weight = found.pilot
        self.pilot = recalibrator._read(values), columns, _scaled(weight, self._scale)
        self._losses: tuple[float, float, float] | None = None

    @property
    def passes_left(self) -> int:
        """Passes before the last one, which measures the losses."""
        return max(MAX_PASSES - 1 - self._source.passes, 1)

    def total(self, function: Callable[..., tuple[Any, ...]], *args: Any) -> tuple[Any, ...]:
        """One pass: sums of ``function(logits, columns, weight, *args)``, elementwise.

        Weights are divided by their mean.
        """
        return self.reduce(function, None, *args)

    def mean(self, function: Callable[..., tuple[Any, ...]], *args: Any) -> tuple[Any, ...]:
        """`total` divided by the number of samples."""
        return tuple(value / self.n_samples for value in self.total(function, *args))

    def reduce(self, function: Callable[..., Any], combine: Any, *args: Any) -> Any:
        """One pass with another combination of the results."""
        read = partial(_of_chunk, self._recalibrator, self._scale, function, args)
        return self._source.reduce(read, combine)

    def losses(self) -> tuple[float, float, float]:
        """Mean losses without and with the fitted map, and the least probability of a label.

        The last pass over the chunks.
        """
        if self._losses is None:
            sums = self.reduce(_final_reading, _added, self._recalibrator, self.score)
            before, after, least = map(float, sums)
            self._losses = before / self.n_samples, after / self.n_samples, least
        return self._losses


def _of_chunk(recalibrator, scale, function, args, number, *chunk):
    """The function of the logits, columns and weights of a chunk."""
    read = read_chunk(recalibrator, recalibrator.classes_, number, *chunk)
    if read is None:
        return None
    values, columns, weight = read
    logits = np.asarray(recalibrator._read(values), dtype=np.float64)
    return function(logits, columns, _scaled(weight, scale), *args)


def _scaled(weight, scale):
    exponent, factor = scale
    return np.ldexp(weight, -exponent) * factor


@dataclass(frozen=True)
class _First:
    """Results of the first pass."""

    n_columns: int
    n_samples: int
    weight: float
    counts: np.ndarray
    limit: float | None
    uniform: bool
    pilot: tuple[np.ndarray, ...]


def read_chunk(recalibrator, classes, number, values, y, sample_weight=None):
    """Validated values (m, K), columns and weights (m,) of a chunk; None without any weight."""
    try:
        check_indices(y=y, y_proba=values, sample_weight=sample_weight)
        y = check_y(y, name="y")
        raw = check_features(values, name="y_proba", n_samples=len(y))
        recalibrator._check_columns(values, raw, y, recalibrator.labels)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        if not weight.any():
            return None
        weight = check_weight(weight, len(y))
        values, columns = recalibrator._validated(raw), class_columns(y, classes)
    except ValueError as error:
        raise ValueError(f"Chunk {number}: {error}") from error
    kept = weight > 0
    return (values, columns, weight) if kept.all() else (values[kept], columns[kept], weight[kept])


def _first_reading(recalibrator, classes, number, values, *rest):
    read = read_chunk(recalibrator, classes, number, values, *rest)
    if read is None:
        return None
    found, columns, weight = read
    with np.errstate(over="ignore"):  # an infinite sum is refused after the pass
        counts = np.bincount(columns, weight, minlength=len(classes))
        total = float(weight.sum())
    n_pilot = min(len(found), recalibrator._pilot)
    few = np.unique(np.linspace(0, len(found) - 1, n_pilot).astype(int))
    return _First(
        n_columns=1 if np.ndim(values) == 1 else np.shape(values)[1],
        n_samples=len(found),
        weight=total,
        counts=counts,
        limit=detection_limit(found) if recalibrator.input == "proba" else None,
        uniform=bool(np.array_equal(found.min(axis=1), found.max(axis=1))),
        pilot=(found[few], columns[few], weight[few]),
    )


def _combined(n_pilot, one, two):
    check_same_columns(one.n_columns, two.n_columns)
    pilot = tuple(np.concatenate(pair) for pair in zip(one.pilot, two.pilot, strict=True))
    if len(pilot[0]) > 2 * n_pilot:
        pilot = tuple(part[::2] for part in pilot)
    with np.errstate(over="ignore"):
        counts = one.counts + two.counts
    return replace(
        one,
        n_samples=one.n_samples + two.n_samples,
        weight=one.weight + two.weight,
        counts=counts,
        limit=None if one.limit is None else min(one.limit, two.limit),
        uniform=one.uniform and two.uniform,
        pilot=pilot,
    )


def _final_reading(logits, columns, weight, recalibrator, score):
    """Sums of losses without and with the map, and the smallest probability of a label."""
    before, after = recalibrator._as_proba(logits), recalibrator._apply_map(logits)
    target = one_hot_rows(columns, logits.shape[1])
    least = after[np.arange(len(logits)), columns].min()
    return weight @ score.loss(target, before), weight @ score.loss(target, after), least


def _added(one, two):
    return one[0] + two[0], one[1] + two[1], min(one[2], two[2])
