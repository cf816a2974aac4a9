"""What a run of a report depends on, what it was warned of, and how long its stages took."""

import sys
import warnings
from contextlib import contextmanager
from importlib.metadata import version
from time import perf_counter

import numpy as np
from sklearn.utils import check_random_state

from skcalib._version import __version__

#: Packages whose versions a report records.
PACKAGES = ("scikit-learn", "numpy", "scipy", "matplotlib")


def versions():
    """Versions of what the numbers depend on."""
    return {"skcalib": __version__, **{name: version(name) for name in PACKAGES}}


def check_seed(random_state):
    """A whole number, so that all stages and a later run can share it."""
    if isinstance(random_state, (int, np.integer)):
        check_random_state(random_state)  # refuses negative ones
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


@contextmanager
def noted():
    """A list of what was warned of inside, once each: a report tells it on its page."""
    notes = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield notes
    for one in caught:
        if not issubclass(one.category, UserWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        elif str(one.message) not in notes:
            notes.append(str(one.message))


@contextmanager
def stage(what, verbose, name):
    """Says how long a part of the report took, where somebody wants to know."""
    start = perf_counter()
    yield
    if verbose:
        said = f"[CalibrationReport] {name}: {what}, {perf_counter() - start:.1f} s"
        print(said, file=sys.stderr, flush=True)
