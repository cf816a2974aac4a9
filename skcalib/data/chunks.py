"""Passes over samples that arrive in chunks, for fits of recalibrators.

A source is any iterable of tuples ``(y_proba, y)`` or ``(y_proba, y, sample_weight)`` that can be
read several times, or one such tuple of Dask arrays, whose chunks are their blocks of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.validation import is_lazy, refuse_frames_to_fetch
from skcalib.data.labels import check_label_list

_FORM = "a tuple (y_proba, y) or (y_proba, y, sample_weight)"


class Chunks:
    """A source of chunks, which can be read several times."""

    def __init__(self, source: Any) -> None:
        self._source, self._blocks = source, None
        if is_lazy(source):
            raise ValueError(f"chunks is a single Dask collection: pass {_FORM} of Dask arrays.")
        if isinstance(source, tuple) and any(map(is_lazy, source)):
            self._blocks = _blocks(source)
            return
        try:
            iterator = iter(source)
        except TypeError as error:
            raise ValueError(
                f"chunks must be an iterable of tuples (y_proba, y), or such a tuple of Dask "
                f"arrays; got {type(source).__name__}."
            ) from error
        if iterator is source:
            raise ValueError(
                f"chunks is an iterator ({type(source).__name__}), which can be read only once, "
                "but several passes are needed: pass a list, or an object whose __iter__ starts "
                "again at the first chunk."
            )

    def first(self) -> Any:
        """Forecasts of the first chunk, or all forecasts as a Dask array that is not computed."""
        if self._blocks is not None:
            return self._source[0]
        for chunk in self._source:
            return _checked(0, chunk)[0]
        raise ValueError(
            "chunks gave no chunk when it was read again: every pass must give the same chunks, "
            "from the first to the last."
        )

    def reduce(self, read: Callable[..., Any], combine: Callable[[Any, Any], Any]) -> Any:
        """One pass: combine ``read(number, *chunk)`` of all chunks, in pairs of equal length.

        `read` may return None for a chunk without samples.
        """
        read, combine = partial(_read_chunk, read), partial(_combine_known, combine)
        if self._blocks is None:  # by joblib, with the number of jobs and progress of its context
            run = Parallel(return_as="generator", pre_dispatch="n_jobs")
            combined = _in_pairs(run(self._tasks(delayed(read))), combine)
        else:  # by Dask: one task for each block, and a tree of combinations
            from dask.delayed import delayed as task

            read, combine = task(read, pure=False), task(combine, pure=False)
            parts = [read(number, block) for number, block in enumerate(self._blocks)]
            combined = _in_pairs(parts, combine).compute()
        if combined is None:
            raise ValueError("chunks has no sample of positive weight: at least one is needed.")
        return combined

    def _tasks(self, read):
        """Tasks whose lists have the only reference to a chunk, which ends when it is read."""
        number = count()  # enumerate would keep the last chunk
        for chunk in self._source:
            task = read(at := next(number), [_checked(at, chunk)])
            del chunk
            yield task


def _read_chunk(read, number, chunk):
    """What is read of a chunk, the only one of a list; None without rows."""
    if isinstance(chunk, list):
        chunk = chunk.pop()
    return read(number, *chunk) if len(chunk[0]) else None


def _combine_known(combine, left, right):
    """The combination of two results, of which each may be None."""
    if left is None or right is None:
        return right if left is None else left
    return combine(left, right)


def _in_pairs(parts, combine):
    """Combination of all parts, of which at most one for each power of two is kept."""
    waiting = []
    for part in parts:
        level = 0
        while waiting and waiting[-1][0] == level:
            part, level = combine(waiting.pop()[1], part), level + 1
        waiting.append((level, part))
    if not waiting:
        return None
    _, combined = waiting.pop()
    while waiting:
        combined = combine(waiting.pop()[1], combined)
    return combined


def _checked(number, chunk):
    """A chunk as a tuple of two or three."""
    if not isinstance(chunk, (tuple, list)) or len(chunk) not in (2, 3):
        got = type(chunk).__name__
        got += f" of {len(chunk)}" if isinstance(chunk, (tuple, list)) else ""
        raise ValueError(
            f"Chunk {number} must be {_FORM}, but is a {got}: a single chunk is [(y_proba, y)]."
        )
    for name, column in zip(("y_proba", "y", "sample_weight"), chunk, strict=False):
        refuse_frames_to_fetch(column, f"{name} of chunk {number}")
    return tuple(chunk)


def _blocks(arrays):
    """Tuples of delayed blocks of the same rows."""
    if len(arrays) not in (2, 3) or not all(hasattr(array, "to_delayed") for array in arrays):
        raise ValueError(
            f"chunks must be {_FORM} with Dask arrays only: turn the others into Dask arrays by "
            "dask.array.from_array."
        )
    if not all(hasattr(array, "chunks") for array in arrays):
        raise ValueError(
            "chunks has a Dask data frame: turn it into an array by .to_dask_array(lengths=True)."
        )
    forecast = arrays[0]
    if forecast.ndim == 2:
        forecast = forecast.rechunk({1: -1})
    rows, blocks = forecast.chunks[0], [forecast.to_delayed().ravel()]
    for array, name in zip(arrays[1:], ("y", "sample_weight"), strict=False):
        known = not np.isnan([*rows, *array.chunks[0]]).any()
        if known and sum(rows) != array.shape[0]:
            raise ValueError(
                f"y_proba and {name} must have the same number of samples: y_proba has "
                f"{sum(rows)}, {name} has {array.shape[0]}."
            )
        if not known and len(rows) != len(array.chunks[0]):
            raise ValueError(
                f"y_proba and {name} have blocks of different rows whose numbers are unknown: call "
                ".compute_chunk_sizes() on both first."
            )
        array = array.rechunk({0: rows}) if known else array
        blocks.append(array.to_delayed().ravel())
    return list(zip(*blocks, strict=True))


def check_chunk_labels(labels: Any, owner: str) -> np.ndarray:
    """Classes of the columns, which a chunk alone does not tell; `owner` is the class to name."""
    if labels is None:
        raise ValueError(
            "labels must list the classes in the order of the columns, because a chunk may lack "
            f"some: {owner}(labels=[...])."
        )
    return check_label_list(labels)
