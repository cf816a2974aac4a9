"""Laws of displays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature

import numpy as np

from skcalib.testing.laws import accepted, checker, need, need_close, run_laws, simplex_points

__all__ = ["check_display"]


@checker
def check_display(
    constructor: Callable, *, n_classes: Sequence[int] = (2, 3), random_state: int = 0
) -> None:
    r"""Check that a display obeys the laws of displays.

    The laws, for each number of classes that is not refused with a ValueError:

    - the constructor draws: ``ax_`` holds the axes, ``figure_`` their figure, and the inputs are
      not modified;
    - given axes are drawn into, and no other figure is made;
    - ``plot`` draws the same again, and returns the display;
    - the same call draws the same, for lists as for arrays;
    - names of the classes do not matter;
    - zero-weight samples are dropped, where there is a parameter ``sample_weight``.

    Parameters
    ----------
    constructor : callable
        The constructor ``from_predictions`` of a display, with the parameters
        ``(y_true, y_proba, *, ax=None)`` and others that have defaults.

    See Also
    --------
    skcalib.ReliabilityDisplay : One of the displays.

    Examples
    --------
    >>> from skcalib import ReliabilityDisplay
    >>> from skcalib.testing import check_display
    >>> check_display(ReliabilityDisplay.from_predictions, n_classes=(2,))
    """
    import matplotlib.pyplot as plt  # here, not before: matplotlib is imported to draw only

    before = set(plt.get_fignums())

    def close():
        for number in set(plt.get_fignums()) - before:
            plt.close(number)

    worlds = {k: _world(constructor, k, random_state, close) for k in n_classes}
    try:
        with plt.rc_context({"figure.max_open_warning": 0}):  # of the caller's figures too
            for world in accepted(constructor, worlds, _drawing):
                run_laws(constructor, LAWS, world)
    finally:
        close()


@dataclass
class World:
    """Labels and forecasts, and a function that closes the figures drawn so far."""

    constructor: Callable
    y: np.ndarray
    P: np.ndarray
    close: Callable

    @cached_property
    def expected(self):
        """The numbers that are drawn of these data, and how many axes they are drawn into."""
        display = _drawing(self.constructor, self)
        drawing = _drawn(display), np.size(display.ax_)
        self.close()
        return drawing


def _drawing(constructor, world):
    return constructor(world.y.copy(), world.P.copy())


def _world(constructor, n_classes, random_state, close):
    rng = np.random.default_rng(random_state)
    P = simplex_points(rng, 60, n_classes)
    y = np.array([rng.choice(n_classes, p=row) for row in P])
    y[:n_classes] = np.arange(n_classes)
    return World(constructor, y, P, close)


def _drawn(display):
    """All numbers of the lines, areas and patches of a display, axes by axes."""
    numbers = []
    for ax in np.ravel(display.ax_):
        numbers += [line.get_xydata().ravel() for line in ax.lines]
        for area in ax.collections:
            numbers += [path.vertices.ravel() for path in area.get_paths()]
            numbers.append(np.ma.getdata(area.get_offsets()).ravel())
        numbers += [patch.get_path().vertices.ravel() for patch in ax.patches]
        numbers += [patch.get_patch_transform().get_matrix().ravel() for patch in ax.patches]
    # Equal gaps of a curve compare as equal numbers.
    return np.nan_to_num(np.concatenate([np.zeros(0), *numbers]).astype(np.float64), nan=-1.0)


def _need_expected(display, words, world):
    """A drawing is the expected one up to rounding; the figures are closed."""
    need_close(_drawn(display), world.expected[0], words, tolerance=1e-8)
    world.close()


def _draws(constructor, world):
    """The constructor draws, and modifies no input."""
    y, P = world.y.copy(), world.P.copy()
    display = constructor(y, P)
    axes = np.ravel(display.ax_)
    need([ax.figure is display.figure_ for ax in axes], "ax_ does not lie in figure_")
    need(len(_drawn(display)), "ax_ has no lines, areas or patches")
    need(np.array_equal(y, world.y) and np.array_equal(P, world.P), "an input was modified")
    world.close()


def _given_axes(constructor, world):
    """Given axes are drawn into, and no other figure is made."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, world.expected[1])
    before = plt.get_fignums()
    display = constructor(world.y, world.P, ax=axes)
    need(display.figure_ is figure, "figure_ is not the figure of the axes that were given")
    drawn, passed = np.ravel(display.ax_), np.ravel(axes)
    need(set(drawn) == set(passed), "ax_ holds other axes than were given")
    need(plt.get_fignums() == before, "another figure was made")
    world.close()


def _again(constructor, world):
    """The method plot draws the same again, and returns the display."""
    display = constructor(world.y, world.P)
    first = _drawn(display)
    need(display.plot() is display, "plot does not return the display")
    need_close(_drawn(display), first, "the second drawing", tolerance=1e-8)
    world.close()


def _repeats(constructor, world):
    """The same call draws the same, for lists as for arrays."""
    _need_expected(constructor(world.y.tolist(), world.P.tolist()), "the drawing of lists", world)


def _labels(constructor, world):
    """Names of the classes do not matter."""
    names = np.array([f"class {k}" for k in range(world.P.shape[1])])
    _need_expected(constructor(names[world.y], world.P), "the drawing of names", world)


def _weights(constructor, world):
    """Zero-weight samples are dropped."""
    if "sample_weight" not in signature(constructor).parameters:
        return
    rows = np.append(np.arange(len(world.y)), [0, 1])
    weight = np.append(np.ones(len(world.y)), [0.0, 0.0])
    display = constructor(world.y[rows], world.P[rows], sample_weight=weight)
    _need_expected(display, "the drawing with zero-weight samples", world)


LAWS = (_draws, _given_axes, _again, _repeats, _labels, _weights)
