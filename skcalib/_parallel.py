"""Loops through joblib: tasks, draws and folds."""

from itertools import chain, islice

import numpy as np
from sklearn.utils.parallel import Parallel, delayed


def run_each(function, tasks, **options):
    """The list of ``function(*task)``, in parallel as joblib's context and `options` say.

    A single task runs where it is: sent to a worker, its own loops would run there one after the
    other, because what is nested gets one job.
    """
    tasks = iter(tasks)
    first = list(islice(tasks, 2))
    if len(first) < 2:
        return [function(*task) for task in first]
    return Parallel(**options)(delayed(function)(*task) for task in chain(first, tasks))


def draw_each(draw, n_draws, rng, *, n_jobs=None):
    """Array of ``draw(own)`` for generators of their own, the same for any number of jobs."""
    seeds = rng.randint(np.iinfo(np.int32).max, size=n_draws)
    run = Parallel(n_jobs=n_jobs)
    return np.array(run(delayed(draw)(np.random.RandomState(seed)) for seed in seeds))


def out_of_fold(predict, folds, n_samples, *, n_jobs=None):
    """Out-of-fold predictions (n, ...), and which samples some fold tests (n,).

    ``predict(train, test)`` learns from the rows `train` and returns predictions of the rows
    `test`. Predictions of a sample that several folds test are averaged; they are 0 where none
    does.
    """
    run = Parallel(n_jobs=n_jobs)
    parts = run(delayed(predict)(train, test) for train, test in folds)
    total = np.zeros((n_samples, *np.shape(parts[0])[1:]))
    times = np.zeros(n_samples)
    for (_, test), part in zip(folds, parts, strict=True):
        total[test] += part
        times[test] += 1
    tested = times > 0
    total[tested] /= times[tested].reshape(-1, *[1] * (total.ndim - 1))
    return total, tested
