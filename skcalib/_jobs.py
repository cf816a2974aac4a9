"""Loops through joblib."""

from itertools import chain, islice

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
