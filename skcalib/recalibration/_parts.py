"""Recalibrators that are fitted to samples that arrive in parts: one pass, one random part.

`FittedFromParts` has the public methods. What is kept of any number of samples is a random part of
a fixed size, whose map is that of `fit`; fewer samples than that are all kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from skcalib._util.types import ArrayLike
from skcalib._util.validation import check_indices, check_weight, drop_zero_weights
from skcalib.data.chunks import Chunks, check_chunk_labels
from skcalib.data.clusters import outside_level
from skcalib.data.labels import check_label_list, listed
from skcalib.recalibration._base import Recalibrator

_NO_WEIGHT = "has no sample of positive weight: at least one is needed."


class FittedFromParts(Recalibrator):
    """Adds `partial_fit` and `fit_chunks` to a recalibrator."""

    _most_samples, _most_values = 100_000, 10_000_000  # that are kept: rows, and probabilities
    n_samples_seen_: int

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the map from these samples and those of the calls before.

        The map is that of `fit` to all samples so far, up to 100,000 samples and ten million
        probabilities. Beyond that it is that of `fit` to a random part of this size, in which every
        sample is equally likely: a map of q parameters then has a log loss that is higher by about
        q / 200,000 on average. The sizes of the calls have no effect. Of a rare event too few may
        be in that part: a map of a sketch (``fit_sketch``) uses all samples.

        Cost: one `fit` in each call; memory for the samples that are kept, also in a pickle.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities or logits, as in `fit`.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            The class of each column. The first call needs it, or ``labels`` in the constructor,
            because the first samples may lack a class.

        Returns
        -------
        Recalibrator
            The fitted recalibrator, with the further attribute ``n_samples_seen_``, the number of
            samples of positive weight.

        Raises
        ------
        ValueError
            For invalid samples, which leave the recalibrator as it was; for other classes than in
            the first call.

        Warns
        -----
        UserWarning
            After `fit`, whose samples are not kept: the map then has the new samples only.
        ConvergenceWarning
            As `fit`; the first samples may be separable.
        """
        self._check_call(X, y)
        before = self.__dict__.get("_part")
        if before is None and hasattr(self, "classes_"):
            warnings.warn(
                f"This {type(self).__name__} was fitted by another method, whose samples are not "
                "kept: partial_fit begins again, with these samples.",
                UserWarning,
                stacklevel=outside_level(),
            )
        known = self._known_classes(classes, before is None)
        read = _read_samples(self, known, X, y, sample_weight)
        if before is None and read is None:
            raise ValueError(f"X {_NO_WEIGHT}")
        if np.ndim(X) == 2:
            validate_data(self, X, reset=before is None, skip_check_array=True)
        part, seen = before, 0 if before is None else self.n_samples_seen_
        if read is not None:
            # The key of a sample depends on its number, and not on the sizes of the calls.
            keys = np.random.Generator(np.random.PCG64(0).advance(seen)).random(len(read[0]))
            part, seen = (*read, keys), seen + len(keys)
            most = self._most(known)
            part = _smallest_keys(most, part) if before is None else _both(most, before, part)
        self.classes_ = known
        try:
            return self._learn_part(part)
        finally:  # a warning that is an error must not lose the samples
            self._part, self.n_samples_seen_ = part, seen

    def _known_classes(self, classes, first):
        """Classes of the columns, from the constructor, the argument or the first call."""
        if classes is None and hasattr(self, "classes_"):
            return self.classes_
        if classes is None:
            return check_chunk_labels(self.labels, type(self).__name__)
        found = check_label_list(classes)
        known = self.labels if first else self.classes_
        known = found if known is None else check_label_list(known)
        if known.tolist() != found.tolist():
            raise ValueError(
                f"classes is {listed(found)}, but "
                f"{'labels' if first else 'that of the first call'} is {listed(known)}: pass the "
                "same, or leave it out."
            )
        return found

    def fit_chunks(self, chunks: Iterable[tuple[Any, ...]] | tuple[Any, ...]) -> Self:
        """Learn the map from samples in chunks, in one pass; they are never in memory together.

        The map is that of `fit` to a random part of the samples, as for `partial_fit`, which fits
        in each call. The first chunk is read twice.

        Parameters
        ----------
        chunks : iterable of tuples, or tuple of Dask arrays
            Tuples ``(X, y)`` or ``(X, y, sample_weight)``, in an iterable that can be read several
            times, or one such tuple of Dask arrays. Joblib's context, or Dask, reads chunks in
            parallel.

        Returns
        -------
        Recalibrator
            The fitted recalibrator.

        Raises
        ------
        ValueError
            For an iterator, such as a generator; for invalid samples, with the number of the chunk;
            if the constructor has no ``labels``, which must list the classes.
        """
        self._check_parameters()
        classes = check_chunk_labels(self.labels, type(self).__name__)
        source, most = Chunks(chunks), self._most(classes)
        part = source.reduce(partial(_part_of_chunk, self, classes, most), partial(_both, most))
        if part is None:
            raise ValueError(f"chunks {_NO_WEIGHT}")
        self._set_columns(source.first(), classes)
        return self._learn_part(part)

    def _most(self, classes):
        """Number of samples that are kept."""
        return min(self._most_samples, self._most_values // len(classes))

    def _learn_part(self, part):
        """Learn the map from the samples that are kept."""
        weight, values, columns = drop_zero_weights(part[2], *part[:2])
        return self._learn(self._samples(values, columns, weight))

    def _learn(self, samples):
        for name in ("_part", "n_samples_seen_"):  # of earlier calls of partial_fit
            self.__dict__.pop(name, None)
        return super()._learn(samples)


def _read_samples(recalibrator, classes, values, y, sample_weight=None):
    """Validated values (m, K), columns and weights (m,); None without any weight."""
    check_indices(X=values, y=y, sample_weight=sample_weight)
    raw, columns, _ = recalibrator._check_labels(values, y, classes)
    weight = np.ones(len(raw)) if sample_weight is None else np.asarray(sample_weight)
    if not weight.any():
        return None
    weight, values = check_weight(weight, len(raw)), recalibrator._validated(raw)
    kept = weight > 0
    return (values, columns, weight) if kept.all() else (values[kept], columns[kept], weight[kept])


def _part_of_chunk(recalibrator, classes, most, number, *chunk):
    """Values, columns, weights and random keys of the samples of a chunk that are kept."""
    try:
        read = _read_samples(recalibrator, classes, *chunk)
    except ValueError as error:
        raise ValueError(f"Chunk {number}: {error}") from error
    if read is None:
        return None
    keys = np.random.default_rng([0, number]).random(len(read[0]))
    return _smallest_keys(most, (*read, keys))


def _both(most, one, two):
    """What is kept of two parts."""
    both = tuple(map(np.concatenate, zip(one, two, strict=True)))
    return both if len(both[3]) <= most else _smallest_keys(most, both)


def _smallest_keys(most, part):
    few = np.sort(np.argsort(part[3], kind="stable")[:most])
    return tuple(values[few] for values in part)
