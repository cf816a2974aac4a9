"""Loops through joblib."""

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
