"""What a run of a report depends on, and how long its stages took."""

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
def stage(what, verbose, name):
    """Says how long a part of the report took, where somebody wants to know."""
    start = perf_counter()
    yield
    if verbose:
        print(f"[CalibrationReport] {name}: {what}, {perf_counter() - start:.1f} s", flush=True)
