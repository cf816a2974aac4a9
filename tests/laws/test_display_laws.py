"""Displays obey their laws; the checker rejects planted defects, by name."""

from functools import partial
from inspect import signature

import matplotlib.pyplot as plt
import numpy as np
import pytest
from public_functions import DISPLAYS, only_own_warnings

from skcalib import ReliabilityDisplay
from skcalib.testing import check_display

#: Of each display its defaults, and panels where it has them.
RECIPES = {(recipe.function, recipe.options.get("notion")): recipe for recipe in reversed(DISPLAYS)}


def constructor_of(recipe):
    """The constructor of a recipe, with labels and forecasts alone as its arguments."""

    def constructor(y_true, y_proba, **arguments):
        return recipe(y_true, np.asarray(y_proba), **arguments)

    constructor.__signature__ = signature(recipe.function)
    return constructor


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=str)
def test_laws(recipe):
    with only_own_warnings():
        check_display(constructor_of(recipe), n_classes=(2,) if recipe.binary else (3,))


def test_figures_are_closed_and_others_are_left_open():
    figure = plt.figure()
    check_display(ReliabilityDisplay.from_predictions, n_classes=(2,))
    assert plt.get_fignums() == [figure.number]
    plt.close(figure)


class Good:
    """A line through the mean forecast of the last class, by sample."""

    def __init__(self, values):
        self.values = np.asarray(values, dtype=np.float64)

    @classmethod
    def from_predictions(cls, y_true, y_proba, *, sample_weight=None, ax=None):
        score = np.asarray(y_proba)[:, -1]
        weight = np.ones(len(score)) if sample_weight is None else np.asarray(sample_weight)
        return cls(score[weight > 0]).plot(ax)

    def plot(self, ax=None):
        self.ax_ = plt.subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        self.ax_.plot(self.values)
        return self


class DrawsNothing(Good):
    def plot(self, ax=None):
        self.ax_ = plt.subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        return self


class AnotherFigure(Good):
    def plot(self, ax=None):
        super().plot(ax).figure_ = plt.figure()
        return self


class ChangesForecasts(Good):
    @classmethod
    def from_predictions(cls, y_true, y_proba, *, ax=None):
        display = super().from_predictions(y_true, y_proba, ax=ax)
        if isinstance(y_proba, np.ndarray):
            y_proba[0] = y_proba[1]
        return display


class IgnoresAxes(Good):
    def plot(self, ax=None):
        return super().plot()


class OneMoreFigure(Good):
    def plot(self, ax=None):
        plt.figure()
        return super().plot(ax)


class ReturnsAxes(Good):
    @classmethod
    def from_predictions(cls, y_true, y_proba, *, ax=None):
        display = cls(np.asarray(y_proba)[:, -1])
        display.plot(ax)
        return display

    def plot(self, ax=None):
        return super().plot(ax).ax_


class WearsOut(Good):
    def plot(self, ax=None):
        super().plot(ax)
        self.values = self.values / 2
        return self


class Random(Good):
    def __init__(self, values):
        super().__init__(values + np.random.default_rng().normal(size=len(values)))


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


DEFECTS = [
    (DrawsNothing, "no lines, areas or patches"),
    (AnotherFigure, "does not lie in figure_"),
    (ChangesForecasts, "an input was modified"),
    (IgnoresAxes, "not the figure of the axes that were given"),
    (OneMoreFigure, "another figure was made"),
    (ReturnsAxes, "plot does not return the display"),
    (WearsOut, "the second drawing"),
    (Random, "the drawing of lists"),
    (ReadsLabels, "the drawing of names"),
    (CountsZeroWeights, "the drawing with zero-weight samples"),
]


@pytest.mark.parametrize("good", [Good, TwoClassesOnly], ids=lambda one: one.__name__)
def test_accepts(good):
    check_display(good.from_predictions)
    check_display(partial(good.from_predictions), n_classes=(2,))


@pytest.mark.parametrize(("defect", "words"), DEFECTS, ids=lambda one: getattr(one, "__name__", ""))
def test_rejects_planted_defects(defect, words):
    with pytest.raises(AssertionError, match=words):
        check_display(defect.from_predictions)
    assert not plt.get_fignums()


def test_some_number_of_classes_must_be_accepted():
    with pytest.raises(AssertionError, match="refuses every number of classes"):
        check_display(TwoClassesOnly.from_predictions, n_classes=(3,))
