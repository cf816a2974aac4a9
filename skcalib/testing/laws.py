"""What all laws need: the name of a broken law, comparisons, random forecasts."""

import pickle
import sys
from contextlib import contextmanager
from copy import deepcopy

import numpy as np

from skcalib._util.parameters import Function, add_parameters, by_name, docstring_of, sections_of

__all__: list[str] = []  # the laws use these, and users the checkers

_ENTRIES = by_name("""\
n_classes : sequence of int, default=(2, 3)
    Numbers of classes to try. The object may refuse some of them, but not all.
random_state : int, default=0
    Seed of the random forecasts, labels and parameters.
""")


def checker(function: Function) -> Function:
    """Add to the docstring of a public checker what it has in common with the others."""
    sections = sections_of(function.__doc__)
    add_parameters(function, sections, _ENTRIES)
    raises = "AssertionError\n    Names the first violated law and what was found."
    function.__doc__ = docstring_of(sections | {"Raises": raises})
    return function


@contextmanager
def law(subject, sentence):
    """Whatever fails in the block becomes an AssertionError that names the broken law."""
    try:
        yield
    except Exception as error:  # name the law for any kind of error
        violation = str(error) if type(error) is AssertionError else repr(error)
        raise AssertionError(f"{subject!r} breaks the law {sentence!r}: {violation}") from error


def need(holds, violation):
    """Raise AssertionError(violation) unless everything in `holds` is true."""
    if not np.all(holds):
        raise AssertionError(violation)


def need_close(left, right, difference, *, tolerance, scale=1.0):
    """Equal up to `tolerance` in units of `scale`; shapes must agree, and NaN equals nothing."""
    left, right = np.asarray(left), np.asarray(right)
    need(left.shape == right.shape, f"{difference}: shapes {left.shape} and {right.shape}")
    with np.errstate(invalid="ignore"):  # equal infinities
        gap = np.where(left == right, 0.0, np.abs(left - right))
    need(gap <= tolerance * scale, f"{difference}, off by {np.max(gap, initial=0.0):.3g}")


def need_probabilities(rows, rows_name):
    """Every row is a probability vector."""
    need(np.isfinite(rows), f"{rows_name} must be finite")
    need(rows >= -1e-9, f"{rows_name} must not be negative, lowest is {np.min(rows):.3g}")
    sums = rows.sum(axis=1)
    need_close(sums, np.ones(len(rows)), f"{rows_name} must sum to one", tolerance=1e-9)


def accepted(subject, settings, attempt):
    """The settings, by number of classes, that ``attempt`` does not refuse, or an error."""
    settings_accepted = []
    for setting in settings.values():
        try:
            attempt(setting)
        except Exception as error:  # of another kind: the laws will raise it again and name it
            words = str(error) if isinstance(error, ValueError) else ""
            if "class" in words or "column" in words:
                continue
        settings_accepted.append(setting)
    if not settings_accepted:
        raise AssertionError(f"{subject!r} refuses every number of classes in {tuple(settings)}.")
    return settings_accepted


def duplicate(thing):
    """Copy by pickling; by deepcopy for classes that cannot be pickled, such as local ones."""
    named = sys.modules.get(type(thing).__module__)
    for part in type(thing).__qualname__.split("."):
        named = getattr(named, part, None)
    return pickle.loads(pickle.dumps(thing)) if named is type(thing) else deepcopy(thing)


def simplex_points(rng, n_samples, n_classes):
    """Random probability vectors: spread out, near a corner, and at the centre."""
    spread = rng.dirichlet(np.ones(n_classes), n_samples)
    spread[: n_samples // 4] = rng.dirichlet(np.full(n_classes, 0.2), n_samples // 4)
    spread[-1] = 1 / n_classes
    return spread
