"""Displays obey their laws; the checker rejects planted defects, by name."""

from functools import partial
from inspect import signature

import matplotlib.pyplot as plt
import numpy as np
import pytest
from planted import altered, planted
from public_functions import DISPLAYS, only_own_warnings

import skcalib as s
from skcalib.testing import check_display

#: Of each display its defaults, and panels where it has them.
RECIPES = {(recipe.function, recipe.options.get("notion")): recipe for recipe in reversed(DISPLAYS)}
#: Options without which a drawing takes a second.
QUICK = {
    s.displays.EstimationDisplay.from_predictions: {"sample_sizes": [20, 60]},
    s.DecompositionDisplay.from_predictions: {"grouping": "partition", "smoother": "binning"},
    s.GroupingDisplay.from_predictions: {"smoother": "binning"},
}


def constructor_of(recipe):
    """The constructor of a recipe, with labels and forecasts alone as its arguments."""

    def constructor(y_true, y_proba, **arguments):
        return recipe(y_true, np.asarray(y_proba), **QUICK.get(recipe.function, {}), **arguments)

    constructor.__signature__ = signature(recipe.function)
    return constructor


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=str)
def test_laws(recipe):
    with only_own_warnings():
        check_display(constructor_of(recipe), n_classes=(2,) if recipe.binary else (3,))


class Good:
    """A line through the mean forecast of the last class, by sample."""

    def __init__(self, values):
        self.values = np.asarray(values, dtype=np.float64)

    @classmethod
    def from_predictions(cls, y_true, y_proba, *, sample_weight=None, ax=None):
        score = np.asarray(y_proba)[:, -1]
        weight = np.ones(len(score)) if sample_weight is None else np.asarray(sample_weight)
        display = cls(score[weight > 0])
        display.plot(ax)
        return display

    def plot(self, ax=None):
        self.ax_ = plt.subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        self.ax_.plot(self.values)
        return self


class ChangesForecasts(Good):
    @classmethod
    def from_predictions(cls, y_true, y_proba, *, ax=None):
        display = super().from_predictions(y_true, y_proba, ax=ax)
        if isinstance(y_proba, np.ndarray):
            y_proba[0] = y_proba[1]
        return display


class ReadsLabels(Good):
    @classmethod
    def from_predictions(cls, y_true, y_proba, *, ax=None):
        numbers = np.asarray(y_true).dtype.kind in "iu"
        return cls(np.asarray(y_proba)[:, -1 if numbers else 0]).plot(ax)


class CountsZeroWeights(Good):
    @classmethod
    def from_predictions(cls, y_true, y_proba, *, sample_weight=None, ax=None):
        return cls(np.sort(np.asarray(y_proba)[:, -1])[-10:] + len(y_proba)).plot(ax)


class TwoClassesOnly(Good):
    @classmethod
    def from_predictions(cls, y_true, y_proba, *, ax=None):
        if np.shape(y_proba)[1] > 2:
            raise ValueError("y_proba must have two columns.")
        return super().from_predictions(y_true, y_proba, ax=ax)


def without_lines(display):
    display.ax_.lines[0].remove()
    return display


def worn_out(display):
    display.values = display.values / 2
    return display


def with_another_figure(display):
    plt.figure()
    return display


def on_another_figure(display):
    display.figure_ = plt.figure()
    return display


NOISE = np.random.default_rng()
DEFECTS = [
    (altered(Good, plot=without_lines), "no lines, areas or patches"),
    (altered(Good, plot=on_another_figure), "does not lie in figure_"),
    (ChangesForecasts, "an input was modified"),
    (planted(Good, plot=lambda self, ax=None: Good.plot(self)), "not the figure of the axes that"),
    (altered(Good, plot=with_another_figure), "another figure was made"),
    (altered(Good, plot=lambda display: display.ax_), "plot does not return the display"),
    (altered(Good, plot=worn_out), "the second drawing"),
    (
        planted(Good, __init__=lambda self, v: Good.__init__(self, v + NOISE.normal(size=len(v)))),
        "the drawing of lists",
    ),
    (ReadsLabels, "the drawing of names"),
    (CountsZeroWeights, "the drawing with zero-weight samples"),
]


def test_accepts():
    """Figures are closed, and others are left open."""
    figure = plt.figure()
    for good in (Good, TwoClassesOnly):
        check_display(good.from_predictions)
        check_display(partial(good.from_predictions), n_classes=(2,))
    check_display(s.ReliabilityDisplay.from_predictions, n_classes=(2,))
    assert plt.get_fignums() == [figure.number]
    plt.close(figure)
    with pytest.raises(AssertionError, match="refuses every number of classes"):
        check_display(TwoClassesOnly.from_predictions, n_classes=(3,))


@pytest.mark.parametrize(
    ("defect", "words"), DEFECTS, ids=lambda case: getattr(case, "__name__", "")
)
def test_rejects_planted_defects(defect, words):
    with pytest.raises(AssertionError, match=words):
        check_display(defect.from_predictions)
    assert not plt.get_fignums()
