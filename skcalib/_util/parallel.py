"""Loops through joblib: tasks, draws and folds; the threads of a fit, and fits that are shared."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from itertools import chain, islice
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController

#: Numbers in the data of a fit below which threads wait for each other longer than they work.
FEW_VALUES = 100_000


def threads_for(X, n_jobs=None):
    """A context in which BLAS and OpenMP use one thread, for one job or few numbers in X.

    Boosting of small data with as many threads as cores takes many times as long beside other work;
    "few" is below `FEW_VALUES`. ``n_jobs=1`` means one core.
    """
    size = prod(X.shape) if hasattr(X, "shape") else np.asarray(X, dtype=object).size
    return one_thread() if size < FEW_VALUES or n_jobs == 1 else nullcontext()


def one_thread(user_api=None):
    """A context in which BLAS and OpenMP use one thread, or only one of them."""
    return _libraries(len(sys.modules)).limit(limits=1, user_api=user_api)


@lru_cache(maxsize=1)
def _libraries(n_modules):
    """The libraries with threads, which are searched for again when a module has been imported."""
    return ThreadpoolController()


def run_each(function, tasks, **options):
    """The list of ``function(*task)``, in parallel according to joblib's context and `options`.

    A single task runs in the calling process. In a worker its own loops would run sequentially,
    because nested loops get one job.
    """
    tasks = iter(tasks)
    first = list(islice(tasks, 2))
    if len(first) < 2:
        return [function(*task) for task in first]
    return Parallel(**options)(delayed(function)(*task) for task in chain(first, tasks))


def seed_of(random_state):
    """The seed as a whole number, which several steps and a later run can use."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def draw_each(draw, n_draws, rng, *, n_jobs=None):
    """Array of ``draw(own)``, each with its own generator, the same for any number of jobs."""
    return next(draw_batches(draw, n_draws, rng, size=n_draws, n_jobs=n_jobs))


def draw_batches(draw, n_draws, rng, *, size, n_jobs=None):
    """The draws of `draw_each` in arrays of at most `size`, for a caller that may stop early."""
    seeds = rng.randint(np.iinfo(np.int32).max, size=n_draws)
    run = Parallel(n_jobs=n_jobs)
    for start in range(0, n_draws, size):
        batch = seeds[start : start + size]
        yield np.array(run(delayed(draw)(np.random.RandomState(seed)) for seed in batch))


def out_of_fold(predict, folds, n_samples, *, n_jobs=None):
    """Out-of-fold predictions (n, ...), and a mask (n,) of the samples in a test fold.

    ``predict(train, test)`` learns from the rows `train` and returns predictions for the rows
    `test`. Predictions of a sample in several test folds are averaged; they are 0 for samples in
    none.
    """
    parts = Parallel(n_jobs=n_jobs)(delayed(predict)(*fold) for fold in folds)
    return join_folds(parts, [test for _, test in folds], n_samples)


def join_folds(parts, folds, n_samples):
    """Predictions for each test fold -> their means by sample, and the samples that have one."""
    total = np.zeros((n_samples, *np.shape(parts[0])[1:]))
    times = np.zeros(n_samples)
    for test, part in zip(folds, parts, strict=True):
        total[test] += part
        times[test] += 1
    tested = times > 0
    total[tested] /= times[tested].reshape(-1, *[1] * (total.ndim - 1))
    return total, tested


# --- Fits that are computed once ------------------------------------------------------------------


_KNOWN: ContextVar[dict[tuple[Any, ...], Any] | None] = ContextVar("known", default=None)


@contextmanager
def shared_fits() -> Iterator[None]:
    """Inside, equal inputs of `fit_once` are fitted once; in this thread and process only."""
    known = _KNOWN.get()
    token = _KNOWN.set({} if known is None else known)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def fit_once(fit: Callable[..., Any], *inputs: Any) -> Any:
    """The result of ``fit(*inputs)`` for arrays and numbers; `shared_fits` keep it."""
    known = _KNOWN.get()
    if known is None:
        return fit(*inputs)
    key = fit.__qualname__, *map(_digest, inputs)
    if key not in known:
        known[key] = fit(*inputs)
    return known[key]


def add_fit(result: Any, fit: Callable[..., Any], *inputs: Any) -> None:
    """Add the known result of ``fit(*inputs)``."""
    known = _KNOWN.get()
    if known is not None:
        known[fit.__qualname__, *map(_digest, inputs)] = result


def _digest(value):
    """The value, or for an array its shape, type and the hash of its values."""
    if not isinstance(value, np.ndarray):
        return value
    values = np.ascontiguousarray(value)
    return value.shape, value.dtype.str, hashlib.sha256(values).digest()
