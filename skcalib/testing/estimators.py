"""Laws of what is made of forecasts and labels: smoothers, recalibrators and displays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold

from skcalib.smoothers import OutOfFoldSmoother, Smoother
from skcalib.testing.laws import (
    accepted,
    checker,
    duplicate,
    law,
    need,
    need_close,
    need_probabilities,
    simplex_points,
)

__all__ = ["check_display", "check_recalibrator", "check_smoother"]

# --- Smoothers ------------------------------------------------------------------------------------


# Larger than rounding errors of sums, smaller than the influence of a single sample.
TOLERANCE = 1e-6


@checker
def check_smoother(
    smoother: Smoother, *, n_classes: Sequence[int] = (2, 3), random_state: int = 0
) -> None:
    """Check that an object satisfies the laws of smoothers.

    The laws, for each number of classes for which `fit` does not raise a ValueError:

    - it is a `Smoother` that scikit-learn can clone; ``fit`` returns self, changes no parameter,
      does not depend on an earlier fit, and modifies no input; pickled copies agree;
    - shapes: ``smooth`` and ``smooth_held_out`` give one row per sample, ``predict`` one row per
      new forecast;
    - smoothed one-hot labels are probability vectors, also at ties and at exactly 0 and 1;
    - held out: the label of a sample has no influence on its own row of ``smooth_held_out``;
    - weights are averaging weights: they have an influence, None means equal weights, and their
      scale does not matter;
    - a row of ``predict`` depends on that forecast only.

    Smoothers are operators on any values (n,), (n, 1) or (n, C), unless they derive from
    `OutOfFoldSmoother`, which smooths one-hot labels only. For operators:

    - the columns of ``smooth`` are smoothed one by one, linearly; constants are kept; averages lie
      between the lowest and the highest value;
    - the value of a sample has no influence on its own row of ``smooth_held_out``;
    - reordering the samples reorders the result (not required with a ``random_state``);
    - if declared a ``projection``: idempotent and symmetric, as for cell means. That is, the
      weighted mean of u times smoothed v equals that of smoothed u times v. So the overall mean is
      kept, and integer weights act as repetitions within given cells.

    Seeds that are None are set, and a ``cv`` is replaced by fixed folds where a label is changed,
    because stratified folds follow the labels.

    Parameters
    ----------
    smoother : Smoother
        Instance to check. It is cloned, not fitted.

    See Also
    --------
    skcalib.smoothers.Smoother : The base class.

    Examples
    --------
    >>> from skcalib.smoothers import QuantileBins
    >>> from skcalib.testing import check_smoother
    >>> check_smoother(QuantileBins(4))
    """
    with law(smoother, "It is a Smoother that scikit-learn can clone."):
        need(isinstance(smoother, Smoother), "an instance that derives from Smoother is needed")
        need(smoother.refinement in ("loss", "entropy"), f"refinement is {smoother.refinement!r}")
        params = clone(smoother).get_params(deep=True)
    # Unset seeds are fixed, including those of a wrapped estimator.
    seeds = [name for name, v in params.items() if name.endswith("random_state") and v is None]
    smoother = clone(smoother).set_params(**dict.fromkeys(seeds, 0))
    laws_by_number = {
        k: SmootherLaws(smoother, k, np.random.default_rng(random_state)) for k in n_classes
    }
    for laws in accepted(smoother, laws_by_number, SmootherLaws.fit):
        laws.fit_laws()
        laws.held_out_law()
        laws.prediction_laws()
        if not isinstance(smoother, OutOfFoldSmoother):
            laws.operator_laws()
            laws.reordering_laws()


class SmootherLaws:
    """Forecasts with ties and corners, labels of every class, weights, new forecasts; the laws."""

    def __init__(self, smoother, n_classes, rng, n_samples=60):
        self.smoother = smoother
        corners, even = np.eye(n_classes), np.ones(n_classes)
        forecast = self.forecast = simplex_points(rng, n_samples, n_classes)
        forecast[:n_classes] = corners
        forecast[n_classes : 2 * n_classes] = corners
        forecast[-8:-4] = forecast[-4:]
        self.labels, drawn = corners[np.arange(n_samples) % n_classes], slice(2 * n_classes, -12)
        self.labels[drawn] = [rng.multinomial(1, p) for p in forecast[drawn]]
        # Conditional expectations cannot stratify folds.
        self.soft = 0.9 * rng.dirichlet(even, n_samples) + 0.1 * forecast
        self.weight = rng.uniform(0.5, 2, n_samples)
        self.values = rng.normal(size=(n_samples, 3))
        self.new = np.vstack([corners, simplex_points(rng, 8, n_classes), forecast[20:22]])
        self.distinct = rng.dirichlet(even, n_samples)

    def fit(self, target=None, weight=None):
        """A fitted clone."""
        target = self.labels if target is None else target
        return clone(self.smoother).fit(self.forecast, target, weight)

    def fit_laws(self):
        """Fits, inputs and smoothed labels."""
        smoother, new = self.smoother, self.new
        with law(
            smoother,
            "Fit returns self, changes no parameter, and does not depend on earlier fits; "
            "copies agree.",
        ):
            fitted, once = clone(smoother), self.fit()
            before = repr(fitted.get_params())
            fitted.fit(new, np.roll(np.eye(new.shape[1])[new.argmax(axis=1)], 1, axis=0))
            need(fitted.fit(self.forecast, self.labels) is fitted, "fit does not return self")
            need(repr(fitted.get_params()) == before, "fit changed a parameter")
            for name, again in (("a second fit", fitted), ("a copy", duplicate(once))):
                need_close(
                    again.smooth(), once.smooth(), f"smooth after {name}", tolerance=TOLERANCE
                )
                need_close(
                    again.predict(new),
                    once.predict(new),
                    f"predict after {name}",
                    tolerance=TOLERANCE,
                )
        with law(smoother, "Inputs are not modified."):
            before = self.forecast, self.labels, self.weight, new
            copies = [a.copy() for a in before]
            fitted = clone(smoother).fit(*copies[:3])
            for values in (None, copies[1]):
                fitted.smooth(values)
                fitted.smooth_held_out(values)
            fitted.predict(copies[3])
            for now, then in zip(copies, before, strict=True):
                need(np.array_equal(now, then), "forecasts, labels or weights have changed")
        with law(smoother, "Smoothed one-hot labels are probability vectors."):
            for fitted in (self.fit(), self.fit(weight=self.weight)):
                for name in ("smooth", "smooth_held_out"):
                    rows, again = getattr(fitted, name)(), getattr(fitted, name)(self.labels)
                    need(rows.shape == self.labels.shape, f"{name}() has shape {rows.shape}")
                    need_probabilities(rows, f"rows of {name}()")
                    need_close(rows, again, f"{name}() against {name}(target)", tolerance=TOLERANCE)
                rows = fitted.predict(new)
                need(rows.shape == new.shape, f"predict(new) has shape {rows.shape}")
                need_probabilities(rows, "rows of predict(new)")

    def held_out_law(self):
        """Labels and their own rows."""
        smoother = self.smoother
        with law(smoother, "Held out: the label of a sample has no influence on its own row."):
            if isinstance(smoother, OutOfFoldSmoother):
                target, turned = self.labels, np.roll(self.labels, 1, axis=1)
                if "cv" in smoother.get_params():
                    cv = KFold(4, shuffle=True, random_state=0)
                    smoother = clone(smoother).set_params(cv=cv)
            else:
                target, turned = self.soft, self.soft[:, ::-1] ** 2
                turned = turned / turned.sum(axis=1, keepdims=True)
            before, moved = clone(smoother).fit(self.forecast, target).smooth_held_out(), 0.0
            for i in range(1, len(target), 13):
                changed = target.copy()
                changed[i] = turned[i]
                after = clone(smoother).fit(self.forecast, changed).smooth_held_out()
                place = f"row {i} of smooth_held_out() when label {i} changes"
                need_close(after[i], before[i], place, tolerance=1e-9)
                moved = max(moved, np.abs(after - before).max())
            need(moved > 1e-9, "no label has any influence on any row")

    def prediction_laws(self):
        """Weights and new forecasts."""
        new = self.new
        with law(
            self.smoother,
            "Weights are averaging weights: None means equal weights, and their scale does not "
            "matter.",
        ):
            pairs = {
                "weights of one": (None, np.ones(len(self.forecast))),
                "weights times 8": (self.weight, 8 * self.weight),
                "weights times 0.003": (self.weight, 0.003 * self.weight),
            }
            for name, weights in pairs.items():
                first, second = (self.fit(weight=weight) for weight in weights)
                for method in ("smooth", "smooth_held_out"):
                    need_close(
                        getattr(first, method)(),
                        getattr(second, method)(),
                        f"{method}() with {name}",
                        tolerance=1e-4,
                    )
                need_close(
                    first.predict(new), second.predict(new), f"predict with {name}", tolerance=1e-4
                )
            change = np.abs(self.fit(weight=self.weight).smooth() - self.fit().smooth())
            need(change.max() > 1e-9, "no weight has any influence on any row")
        with law(self.smoother, "A row of predict depends on that forecast only."):
            fitted = self.fit()
            rows, turned = fitted.predict(new), fitted.predict(new[::-1].copy())
            need_close(turned, rows[::-1], "in another order", tolerance=TOLERANCE)
            need_close(fitted.predict(new[3:4]), rows[3:4], "a single row", tolerance=TOLERANCE)

    def operator_laws(self):
        """Smoothing of any values."""
        fitted, weighted = self.fit(), self.fit(weight=self.weight)
        u, v = self.values[:, :1], self.values[:, 1:2]
        with law(self.smoother, "Columns are smoothed one by one, and the shape is kept."):
            whole = fitted.smooth(self.values)
            need(whole.shape == self.values.shape, f"values {self.values.shape} give {whole.shape}")
            for name, part in (("(n,)", u[:, 0]), ("(n, 1)", u)):
                smoothed = fitted.smooth(part)
                need(smoothed.shape == part.shape, f"values {name} give {smoothed.shape}")
                need_close(
                    smoothed.ravel(),
                    whole[:, 0],
                    f"values {name} against their column",
                    tolerance=TOLERANCE,
                )
        with law(
            self.smoother,
            "Smoothing is linear, keeps constants, and stays between lowest and highest.",
        ):
            mixed = weighted.smooth(2 * u - 3 * v)
            parts = 2 * weighted.smooth(u) - 3 * weighted.smooth(v)
            need_close(mixed, parts, "2 u - 3 v against its parts", tolerance=TOLERANCE)
            for method in ("smooth", "smooth_held_out"):
                constant = getattr(weighted, method)(np.full_like(u, 1.7))
                need_close(
                    constant, np.full_like(u, 1.7), f"{method} of a constant", tolerance=1e-9
                )
                smoothed = getattr(weighted, method)(u)
                need(
                    (smoothed >= u.min() - 1e-9) & (smoothed <= u.max() + 1e-9),
                    f"{method} leaves the range of the values",
                )
        with law(self.smoother, "Held out: the value of a sample has no influence on its own row."):
            before = fitted.smooth_held_out(u)
            need(before.shape == u.shape, f"values {u.shape} give {before.shape}")
            for i in range(0, len(u), 7):
                changed = u.copy()
                changed[i] += 2.0
                after = fitted.smooth_held_out(changed)
                place = f"row {i} of smooth_held_out when value {i} changes"
                need_close(after[i], before[i], place, tolerance=1e-9)

    def reordering_laws(self):
        """Order of the samples, and projections."""
        smoother, weight, new = self.smoother, self.weight, self.new
        with law(smoother, "Reordering the samples reorders the result."):
            if not any(name.endswith("random_state") for name in smoother.get_params(deep=True)):
                fitted, turned = (
                    clone(smoother).fit(self.distinct[rows], self.labels[rows], weight[rows])
                    for rows in (slice(None), np.arange(len(weight))[::-1])
                )
                need_close(turned.smooth(), fitted.smooth()[::-1], "smooth()", tolerance=TOLERANCE)
                need_close(
                    turned.predict(new), fitted.predict(new), "predict(new)", tolerance=TOLERANCE
                )
        with law(
            smoother,
            "A projection is idempotent and symmetric in the weighted mean, which it keeps.",
        ):
            if smoother.projection:
                fitted, values = self.fit(weight=weight), self.values
                once = fitted.smooth(values)
                need_close(fitted.smooth(once), once, "smoothing twice", tolerance=1e-9)
                share = weight / weight.sum()
                need_close(share @ once, share @ values, "weighted mean", tolerance=1e-9)
                cross = once.T @ (share[:, None] * values)
                need_close(
                    cross, cross.T, "mean of u smooth(v) against smooth(u) v", tolerance=1e-9
                )


# --- Recalibrators --------------------------------------------------------------------------------


@checker
def check_recalibrator(
    recalibrator: BaseEstimator, *, n_classes: Sequence[int] = (2, 3), random_state: int = 0
) -> None:
    r"""Check that an object satisfies the laws of recalibrators.

    The laws, for each number of classes for which ``fit`` does not raise a ValueError:

    - ``fit`` returns the object, changes no parameter and no input, and a second `fit` does not
      depend on the first; clones and pickled copies agree;
    - ``predict_proba`` returns probability vectors, also for forecasts of exactly 0 and 1, works
      row by row, and modifies nothing;
    - ``transform`` is ``predict_proba``, and ``predict`` is the class of the largest probability;
    - names of the classes do not matter, and zero-weight samples are dropped;
    - ``injective_``, ``preserves_argmax_`` and ``preserves_order_`` are declared, and a declared
      property holds: different forecasts remain different, the most likely class is kept, and no
      two classes of any forecast change their order.

    Properties declared as False are not checked. A subclass of
    ``skcalib.recalibration.Recalibrator`` only needs to ensure the last law itself.

    Parameters
    ----------
    recalibrator : estimator
        Instance to check. Clones of it are fitted to miscalibrated random forecasts.

    See Also
    --------
    skcalib.recalibration.Recalibrator : The base class.

    Examples
    --------
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.testing import check_recalibrator
    >>> check_recalibrator(TemperatureScaling())
    """
    laws_by_number = {
        k: RecalibratorLaws(recalibrator, k, np.random.default_rng(random_state)) for k in n_classes
    }
    for laws in accepted(recalibrator, laws_by_number, RecalibratorLaws.fit):
        laws.fit_laws()
        laws.map_laws()
        laws.declaration_law()


class RecalibratorLaws:
    """Miscalibrated forecasts with their labels, others to map, and the laws."""

    def __init__(self, recalibrator, n_classes, rng):
        self.recalibrator = recalibrator
        P = self.P = simplex_points(rng, 120, n_classes)
        truth = np.sqrt(P) / np.sqrt(P).sum(axis=1, keepdims=True)  # too extreme
        self.y = np.array([rng.choice(n_classes, p=row) for row in truth])
        self.y[:n_classes] = np.arange(n_classes)
        P[:n_classes] = np.eye(n_classes)  # exactly 0 and 1, and correct
        self.permuted = np.append(self.y[:n_classes], rng.permutation(self.y[n_classes:]))
        self.new = simplex_points(rng, 30, n_classes)
        self.new[:n_classes] = np.eye(n_classes)

    def fit(self):
        """A fitted clone."""
        return clone(self.recalibrator).fit(self.P, self.y)

    def fit_laws(self):
        """Fits, clones and copies."""
        P, y, new, recalibrator = self.P, self.y, self.new, self.recalibrator
        with law(
            recalibrator, "Fit returns the object, and changes neither parameters nor inputs."
        ):
            fitted, copies = clone(recalibrator), (P.copy(), y.copy())
            before = {name: repr(value) for name, value in fitted.get_params().items()}
            need(fitted.fit(*copies) is fitted, "fit does not return self")
            after = {name: repr(value) for name, value in fitted.get_params().items()}
            need(before == after, "fit changed a parameter")
            need(
                np.array_equal(copies[0], P) and np.array_equal(copies[1], y),
                "fit modified its input",
            )
            classes = np.unique(y)
            need(
                np.array_equal(fitted.classes_, classes),
                f"classes_ is {fitted.classes_!r}, not {classes!r}",
            )
        with law(
            recalibrator, "A second fit does not depend on the first; clones and copies agree."
        ):
            expected = fitted.predict_proba(new)
            copied = duplicate(fitted).predict_proba(new)
            need_close(copied, expected, "the map of a copy", tolerance=1e-12)
            again = clone(fitted).fit(P, self.permuted).fit(P, y)
            proba = again.predict_proba(new)
            need_close(proba, expected, "the map after a second fit", tolerance=1e-12)

    def map_laws(self):
        """The fitted map, names of the classes, and weights."""
        P, y, new, recalibrator = self.P, self.y, self.new, self.recalibrator
        fitted = self.fit()
        with law(
            recalibrator,
            "Forecasts become probability vectors, row by row, and nothing is modified.",
        ):
            copy = new.copy()
            proba = fitted.predict_proba(copy)
            need(np.array_equal(new, copy), "predict_proba modified its input")
            need(np.shape(proba) == new.shape, f"{new.shape} became {np.shape(proba)}")
            need_probabilities(proba, "rows of predict_proba")
            some = fitted.predict_proba(new[::-3])
            need_close(some, proba[::-3], "some of the rows", tolerance=1e-10)
        with law(
            recalibrator,
            "Transform is predict_proba, and predict is the class of the largest probability.",
        ):
            need(np.array_equal(fitted.transform(new), proba), "transform is not predict_proba")
            need(
                np.array_equal(fitted.predict(new), fitted.classes_[proba.argmax(axis=1)]),
                "predict is not the largest probability",
            )
        with law(recalibrator, "Names of the classes do not matter."):
            names = np.array([f"class {k}" for k in range(P.shape[1])])
            named = clone(recalibrator).fit(P, names[y])
            need(
                np.array_equal(named.classes_, names),
                f"classes_ is {named.classes_!r}, not {names!r}",
            )
            need_close(named.predict_proba(new), proba, "the map of names", tolerance=1e-10)
        with law(recalibrator, "Zero-weight samples are dropped."):
            weight = np.append(np.ones(len(y)), np.zeros(len(new)))
            P, y = np.vstack([P, new]), np.append(y, y[: len(new)])
            weighted = clone(recalibrator).fit(P, y, sample_weight=weight).predict_proba(new)
            need_close(weighted, proba, "the map with zero-weight samples", tolerance=1e-10)

    def declaration_law(self):
        """What a recalibrator declares."""
        with law(self.recalibrator, "The declared properties hold."):
            fitted = self.fit()
            for name in ("injective_", "preserves_argmax_", "preserves_order_"):
                need(hasattr(fitted, name), f"{name} is not declared")
                value = getattr(fitted, name)
                need(isinstance(value, bool | np.bool_), f"{name} is {value!r}, not a bool")
            # Away from the corners, which may be clipped.
            inner = self.new[(self.new > 1e-3).all(axis=1)]
            proba = fitted.predict_proba(inner)
            if fitted.injective_:
                moved = inner + 1e-3 * (inner[::-1] - inner)
                apart = np.abs(moved - inner).max(axis=1) > 1e-5
                same = np.abs(fitted.predict_proba(moved) - proba).max(axis=1) <= 1e-14
                need(~(same & apart), "injective_ is declared, and two forecasts have one image")
            if fitted.preserves_argmax_:
                top = np.take_along_axis(proba, inner.argmax(axis=1)[:, None], axis=1)[:, 0]
                need(
                    top >= proba.max(axis=1) - 1e-12,
                    "preserves_argmax_ is declared, and a class is lost",
                )
            if fitted.preserves_order_:
                before = inner[:, :, None] - inner[:, None, :]
                after = proba[:, :, None] - proba[:, None, :]
                need(
                    np.sign(before) * after >= -1e-12,
                    "preserves_order_ is declared, and two classes change places",
                )


# --- Displays -------------------------------------------------------------------------------------


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

    samples = {}
    for k in n_classes:
        rng = np.random.default_rng(random_state)
        P = simplex_points(rng, 60, k)
        y = np.array([rng.choice(k, p=row) for row in P])
        y[:k] = np.arange(k)
        samples[k] = y, P
    before = set(plt.get_fignums())
    try:
        with plt.rc_context({"figure.max_open_warning": 0}):  # of the caller's figures too
            for y, P in accepted(
                constructor, samples, lambda arrays: constructor(*map(np.copy, arrays))
            ):
                display_laws(constructor, y, P)
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def display_laws(constructor, y, P):
    """The laws of a display for some labels and forecasts."""
    import matplotlib.pyplot as plt

    with law(constructor, "The constructor draws, and modifies no input."):
        copies = y.copy(), P.copy()
        display = constructor(*copies)
        axes, expected = np.ravel(display.ax_), drawn_numbers(display)
        need([ax.figure is display.figure_ for ax in axes], "ax_ does not lie in figure_")
        need(len(expected), "ax_ has no lines, areas or patches")
        need(
            np.array_equal(copies[0], y) and np.array_equal(copies[1], P),
            "an input was modified",
        )
    with law(constructor, "Given axes are drawn into, and no other figure is made."):
        figure, passed = plt.subplots(1, len(axes))
        before = plt.get_fignums()
        inside = constructor(y, P, ax=passed)
        need(inside.figure_ is figure, "figure_ is not the figure of the axes that were given")
        need(
            set(np.ravel(inside.ax_)) == set(np.ravel(passed)),
            "ax_ holds other axes than were given",
        )
        need(plt.get_fignums() == before, "another figure was made")
    with law(constructor, "The method plot draws the same again, and returns the display."):
        need(display.plot() is display, "plot does not return the display")
        need_close(drawn_numbers(display), expected, "the second drawing", tolerance=1e-8)
    with law(constructor, "The same call draws the same, for lists as for arrays."):
        numbers = drawn_numbers(constructor(y.tolist(), P.tolist()))
        need_close(numbers, expected, "the drawing of lists", tolerance=1e-8)
    with law(constructor, "Names of the classes do not matter."):
        names = np.array([f"class {k}" for k in range(P.shape[1])])
        numbers = drawn_numbers(constructor(names[y], P))
        need_close(numbers, expected, "the drawing of names", tolerance=1e-8)
    with law(constructor, "Zero-weight samples are dropped."):
        if "sample_weight" in signature(constructor).parameters:
            rows = np.append(np.arange(len(y)), [0, 1])
            weight = np.append(np.ones(len(y)), [0.0, 0.0])
            numbers = drawn_numbers(constructor(y[rows], P[rows], sample_weight=weight))
            need_close(numbers, expected, "the drawing with zero-weight samples", tolerance=1e-8)


def drawn_numbers(display):
    """All numbers of the lines, areas and patches of a display, axes by axes."""
    numbers = [np.zeros(0)]
    for ax in np.ravel(display.ax_):
        numbers += [line.get_xydata().ravel() for line in ax.lines]
        for area in ax.collections:
            numbers += [path.vertices.ravel() for path in area.get_paths()]
            numbers.append(np.ma.getdata(area.get_offsets()).ravel())
        numbers += [patch.get_path().vertices.ravel() for patch in ax.patches]
        numbers += [patch.get_patch_transform().get_matrix().ravel() for patch in ax.patches]
    # Equal gaps of a curve compare as equal numbers.
    return np.nan_to_num(np.concatenate(numbers).astype(np.float64), nan=-1.0)
