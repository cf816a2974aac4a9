"""Laws of smoothers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from skcalib.smoothers import OutOfFoldSmoother, Smoother
from skcalib.testing._laws import (
    accepted,
    checker,
    duplicate,
    need,
    need_close,
    need_probabilities,
    run_laws,
    simplex_points,
)

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
    - weights are averaging weights: None means equal weights, and their scale does not matter;
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
    run_laws(smoother, [_is_a_smoother])
    smoother = _seeded(smoother)
    worlds = {k: _world(k, np.random.default_rng(random_state)) for k in n_classes}
    laws = LAWS if isinstance(smoother, OutOfFoldSmoother) else LAWS + OPERATOR_LAWS
    for world in accepted(smoother, worlds, _fit):
        run_laws(smoother, laws, world)


@dataclass(frozen=True)
class World:
    """Forecasts with ties and corners, labels of every class, weights, and new forecasts."""

    forecast: np.ndarray
    labels: np.ndarray
    soft: np.ndarray  # conditional expectations, which cannot stratify folds
    weight: np.ndarray
    values: np.ndarray
    new: np.ndarray
    distinct: np.ndarray


def _world(n_classes, rng, n_samples=60):
    forecast = simplex_points(rng, n_samples, n_classes)
    corners = np.eye(n_classes)
    forecast[:n_classes] = corners
    forecast[n_classes : 2 * n_classes] = corners
    forecast[-8:-4] = forecast[-4:]
    labels = corners[np.arange(n_samples) % n_classes]
    labels[2 * n_classes : -12] = [rng.multinomial(1, p) for p in forecast[2 * n_classes : -12]]
    return World(
        forecast,
        labels,
        0.9 * rng.dirichlet(np.ones(n_classes), n_samples) + 0.1 * forecast,
        rng.uniform(0.5, 2, n_samples),
        rng.normal(size=(n_samples, 3)),
        np.vstack([corners, simplex_points(rng, 8, n_classes), forecast[20:22]]),
        rng.dirichlet(np.ones(n_classes), n_samples),
    )


def _fit(smoother, world, target=None, weight=None):
    return clone(smoother).fit(world.forecast, world.labels if target is None else target, weight)


def _seeded(smoother):
    """A clone whose unset seeds are fixed, including those of a wrapped estimator."""
    params = smoother.get_params(deep=True)
    open_seeds = [k for k, v in params.items() if k.endswith("random_state") and v is None]
    return clone(smoother).set_params(**dict.fromkeys(open_seeds, 0))


def _is_a_smoother(smoother):
    """It is a Smoother that scikit-learn can clone."""
    need(isinstance(smoother, Smoother), "an instance that derives from Smoother is needed")
    need(smoother.refinement in ("loss", "entropy"), f"refinement is {smoother.refinement!r}")
    clone(smoother)


def _fit_conventions(smoother, world):
    """Fit returns self, changes no parameter, and does not depend on earlier fits; copies agree."""
    fitted = clone(smoother)
    before = repr(fitted.get_params())
    fitted.fit(world.new, np.roll(np.eye(world.new.shape[1])[world.new.argmax(axis=1)], 1, axis=0))
    need(fitted.fit(world.forecast, world.labels) is fitted, "fit does not return self")
    need(repr(fitted.get_params()) == before, "fit changed a parameter")
    once = _fit(smoother, world)
    for name, smoothed in (("a second fit", fitted), ("a copy", duplicate(once))):
        need_close(smoothed.smooth(), once.smooth(), f"smooth after {name}", tolerance=TOLERANCE)
        new = (smoothed.predict(world.new), once.predict(world.new))
        need_close(*new, f"predict after {name}", tolerance=TOLERANCE)


def _inputs(smoother, world):
    """Inputs are not modified."""
    before = world.forecast, world.labels, world.weight, world.new
    copies = [a.copy() for a in before]
    fitted = clone(smoother).fit(*copies[:3])
    for values in (None, copies[1]):
        fitted.smooth(values)
        fitted.smooth_held_out(values)
    fitted.predict(copies[3])
    for now, then in zip(copies, before, strict=True):
        need(np.array_equal(now, then), "forecasts, labels or weights have changed")


def _probabilities(smoother, world):
    """Smoothed one-hot labels are probability vectors."""
    for weight in (None, world.weight):
        fitted = _fit(smoother, world, weight=weight)
        for name in ("smooth", "smooth_held_out"):
            rows = getattr(fitted, name)()
            need(rows.shape == world.labels.shape, f"{name}() has shape {rows.shape}")
            need_probabilities(rows, f"rows of {name}()")
            again = getattr(fitted, name)(world.labels)
            need_close(rows, again, f"{name}() against {name}(target)", tolerance=TOLERANCE)
        rows = fitted.predict(world.new)
        need(rows.shape == world.new.shape, f"predict(new) has shape {rows.shape}")
        need_probabilities(rows, "rows of predict(new)")


def _own_label(smoother, world):
    """Held out: the label of a sample has no influence on its own row."""
    if isinstance(smoother, OutOfFoldSmoother):
        target, turned = world.labels, np.roll(world.labels, 1, axis=1)
        if "cv" in smoother.get_params():
            cv = KFold(4, shuffle=True, random_state=0)
            smoother = clone(smoother).set_params(cv=cv)
    else:
        target, turned = world.soft, world.soft[:, ::-1] ** 2
        turned = turned / turned.sum(axis=1, keepdims=True)
    before = _fit(smoother, world, target).smooth_held_out()
    moved = 0.0
    for i in range(1, len(target), 13):
        changed = target.copy()
        changed[i] = turned[i]
        after = _fit(smoother, world, changed).smooth_held_out()
        place = f"row {i} of smooth_held_out() when label {i} changes"
        need_close(after[i], before[i], place, tolerance=1e-9)
        moved = max(moved, np.abs(after - before).max())
    need(moved > 1e-9, "no label has any influence on any row")


def _weights(smoother, world):
    """Weights are averaging weights: None means equal weights, and their scale does not matter."""
    pairs = {
        "weights of one": (None, np.ones(len(world.forecast))),
        "weights times 8": (world.weight, 8 * world.weight),
        "weights times 0.003": (world.weight, 0.003 * world.weight),
    }
    for name, weights in pairs.items():
        first, second = (_fit(smoother, world, weight=weight) for weight in weights)
        for method in ("smooth", "smooth_held_out"):
            rows = (getattr(first, method)(), getattr(second, method)())
            need_close(*rows, f"{method}() with {name}", tolerance=1e-4)
        rows = (first.predict(world.new), second.predict(world.new))
        need_close(*rows, f"predict with {name}", tolerance=1e-4)


def _row_wise(smoother, world):
    """A row of predict depends on that forecast only."""
    fitted = _fit(smoother, world)
    rows, order = fitted.predict(world.new), np.arange(len(world.new))[::-1]
    turned = fitted.predict(world.new[order])
    need_close(turned, rows[order], "in another order", tolerance=TOLERANCE)
    need_close(fitted.predict(world.new[3:4]), rows[3:4], "a single row", tolerance=TOLERANCE)


def _columns(smoother, world):
    """Columns are smoothed one by one, and the shape is kept."""
    fitted, values = _fit(smoother, world), world.values
    whole = fitted.smooth(values)
    need(whole.shape == values.shape, f"values {values.shape} give {whole.shape}")
    for name, part in (("(n,)", values[:, 0]), ("(n, 1)", values[:, :1])):
        smoothed = fitted.smooth(part)
        need(smoothed.shape == part.shape, f"values {name} give {smoothed.shape}")
        gap = (smoothed.ravel(), whole[:, 0])
        need_close(*gap, f"values {name} against their column", tolerance=TOLERANCE)


def _linear(smoother, world):
    """Smoothing is linear, keeps constants, and stays between lowest and highest."""
    fitted = _fit(smoother, world, weight=world.weight)
    u, v = world.values[:, :1], world.values[:, 1:2]
    mixed, parts = fitted.smooth(2 * u - 3 * v), 2 * fitted.smooth(u) - 3 * fitted.smooth(v)
    need_close(mixed, parts, "2 u - 3 v against its parts", tolerance=TOLERANCE)
    for method in ("smooth", "smooth_held_out"):
        constant = getattr(fitted, method)(np.full_like(u, 1.7))
        need_close(constant, np.full_like(u, 1.7), f"{method} of a constant", tolerance=1e-9)
        smoothed = getattr(fitted, method)(u)
        inside = (smoothed >= u.min() - 1e-9) & (smoothed <= u.max() + 1e-9)
        need(inside, f"{method} leaves the range of the values")


def _own_value(smoother, world):
    """Held out: the value of a sample has no influence on its own row."""
    fitted, values = _fit(smoother, world), world.values[:, :1]
    before = fitted.smooth_held_out(values)
    need(before.shape == values.shape, f"values {values.shape} give {before.shape}")
    for i in range(0, len(values), 7):
        changed = values.copy()
        changed[i] += 2.0
        after = fitted.smooth_held_out(changed)[i]
        place = f"row {i} of smooth_held_out when value {i} changes"
        need_close(after, before[i], place, tolerance=1e-9)


def _permutation(smoother, world):
    """Reordering the samples reorders the result."""
    if any(name.endswith("random_state") for name in smoother.get_params(deep=True)):
        return
    order = np.arange(len(world.distinct))[::-1]
    arrays = (world.distinct, world.labels, world.weight)
    fitted = clone(smoother).fit(*arrays)
    permuted = clone(smoother).fit(*(a[order] for a in arrays))
    need_close(permuted.smooth(), fitted.smooth()[order], "smooth()", tolerance=TOLERANCE)
    new = (permuted.predict(world.new), fitted.predict(world.new))
    need_close(*new, "predict(new)", tolerance=TOLERANCE)


def _projection(smoother, world):
    """A projection is idempotent and symmetric in the weighted mean, which it keeps."""
    if not smoother.projection:
        return
    fitted, weight = _fit(smoother, world, weight=world.weight), world.weight
    once = fitted.smooth(world.values)
    need_close(fitted.smooth(once), once, "smoothing twice", tolerance=1e-9)
    means = (weight @ once / weight.sum(), weight @ world.values / weight.sum())
    need_close(*means, "weighted mean", tolerance=1e-9)
    cross = once.T @ (weight[:, None] * world.values) / weight.sum()
    need_close(cross, cross.T, "mean of u smooth(v) against smooth(u) v", tolerance=1e-9)


LAWS = (_fit_conventions, _inputs, _probabilities, _own_label, _weights, _row_wise)
OPERATOR_LAWS = (_columns, _linear, _own_value, _permutation, _projection)
