"""Laws of what is fitted to forecasts and labels: smoothers and recalibrators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold

from skcalib.smoothers import OutOfFoldSmoother, Smoother
from skcalib.testing.laws import (
    accepted,
    checker,
    duplicate,
    need,
    need_close,
    need_probabilities,
    run_laws,
    simplex_points,
)

__all__ = ["check_recalibrator", "check_smoother"]

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
    smoother = _smoother_seeded(smoother)
    worlds = {k: _smoother_world(k, np.random.default_rng(random_state)) for k in n_classes}
    laws = (
        SMOOTHER_LAWS if isinstance(smoother, OutOfFoldSmoother) else SMOOTHER_LAWS + OPERATOR_LAWS
    )
    for world in accepted(smoother, worlds, _smoother_fit):
        run_laws(smoother, laws, world)


@dataclass(frozen=True)
class SmootherWorld:
    """Forecasts with ties and corners, labels of every class, weights, and new forecasts."""

    forecast: np.ndarray
    labels: np.ndarray
    soft: np.ndarray  # conditional expectations, which cannot stratify folds
    weight: np.ndarray
    values: np.ndarray
    new: np.ndarray
    distinct: np.ndarray


def _smoother_world(n_classes, rng, n_samples=60):
    forecast = simplex_points(rng, n_samples, n_classes)
    corners = np.eye(n_classes)
    forecast[:n_classes] = corners
    forecast[n_classes : 2 * n_classes] = corners
    forecast[-8:-4] = forecast[-4:]
    labels = corners[np.arange(n_samples) % n_classes]
    labels[2 * n_classes : -12] = [rng.multinomial(1, p) for p in forecast[2 * n_classes : -12]]
    return SmootherWorld(
        forecast,
        labels,
        0.9 * rng.dirichlet(np.ones(n_classes), n_samples) + 0.1 * forecast,
        rng.uniform(0.5, 2, n_samples),
        rng.normal(size=(n_samples, 3)),
        np.vstack([corners, simplex_points(rng, 8, n_classes), forecast[20:22]]),
        rng.dirichlet(np.ones(n_classes), n_samples),
    )


def _smoother_fit(smoother, world, target=None, weight=None):
    return clone(smoother).fit(world.forecast, world.labels if target is None else target, weight)


def _smoother_seeded(smoother):
    """A clone whose unset seeds are fixed, including those of a wrapped estimator."""
    params = smoother.get_params(deep=True)
    open_seeds = [k for k, v in params.items() if k.endswith("random_state") and v is None]
    return clone(smoother).set_params(**dict.fromkeys(open_seeds, 0))


def _is_a_smoother(smoother):
    """It is a Smoother that scikit-learn can clone."""
    need(isinstance(smoother, Smoother), "an instance that derives from Smoother is needed")
    need(smoother.refinement in ("loss", "entropy"), f"refinement is {smoother.refinement!r}")
    clone(smoother)


def _smoother_fit_conventions(smoother, world):
    """Fit returns self, changes no parameter, and does not depend on earlier fits; copies agree."""
    fitted = clone(smoother)
    before = repr(fitted.get_params())
    fitted.fit(world.new, np.roll(np.eye(world.new.shape[1])[world.new.argmax(axis=1)], 1, axis=0))
    need(fitted.fit(world.forecast, world.labels) is fitted, "fit does not return self")
    need(repr(fitted.get_params()) == before, "fit changed a parameter")
    once = _smoother_fit(smoother, world)
    for name, smoothed in (("a second fit", fitted), ("a copy", duplicate(once))):
        need_close(smoothed.smooth(), once.smooth(), f"smooth after {name}", tolerance=TOLERANCE)
        new = (smoothed.predict(world.new), once.predict(world.new))
        need_close(*new, f"predict after {name}", tolerance=TOLERANCE)


def _smoother_inputs(smoother, world):
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


def _smoother_probabilities(smoother, world):
    """Smoothed one-hot labels are probability vectors."""
    for weight in (None, world.weight):
        fitted = _smoother_fit(smoother, world, weight=weight)
        for name in ("smooth", "smooth_held_out"):
            rows = getattr(fitted, name)()
            need(rows.shape == world.labels.shape, f"{name}() has shape {rows.shape}")
            need_probabilities(rows, f"rows of {name}()")
            again = getattr(fitted, name)(world.labels)
            need_close(rows, again, f"{name}() against {name}(target)", tolerance=TOLERANCE)
        rows = fitted.predict(world.new)
        need(rows.shape == world.new.shape, f"predict(new) has shape {rows.shape}")
        need_probabilities(rows, "rows of predict(new)")


def _smoother_own_label(smoother, world):
    """Held out: the label of a sample has no influence on its own row."""
    if isinstance(smoother, OutOfFoldSmoother):
        target, turned = world.labels, np.roll(world.labels, 1, axis=1)
        if "cv" in smoother.get_params():
            cv = KFold(4, shuffle=True, random_state=0)
            smoother = clone(smoother).set_params(cv=cv)
    else:
        target, turned = world.soft, world.soft[:, ::-1] ** 2
        turned = turned / turned.sum(axis=1, keepdims=True)
    before = _smoother_fit(smoother, world, target).smooth_held_out()
    moved = 0.0
    for i in range(1, len(target), 13):
        changed = target.copy()
        changed[i] = turned[i]
        after = _smoother_fit(smoother, world, changed).smooth_held_out()
        place = f"row {i} of smooth_held_out() when label {i} changes"
        need_close(after[i], before[i], place, tolerance=1e-9)
        moved = max(moved, np.abs(after - before).max())
    need(moved > 1e-9, "no label has any influence on any row")


def _smoother_weights(smoother, world):
    """Weights are averaging weights: None means equal weights, and their scale does not matter."""
    pairs = {
        "weights of one": (None, np.ones(len(world.forecast))),
        "weights times 8": (world.weight, 8 * world.weight),
        "weights times 0.003": (world.weight, 0.003 * world.weight),
    }
    for name, weights in pairs.items():
        first, second = (_smoother_fit(smoother, world, weight=weight) for weight in weights)
        for method in ("smooth", "smooth_held_out"):
            rows = (getattr(first, method)(), getattr(second, method)())
            need_close(*rows, f"{method}() with {name}", tolerance=1e-4)
        rows = (first.predict(world.new), second.predict(world.new))
        need_close(*rows, f"predict with {name}", tolerance=1e-4)


def _smoother_row_wise(smoother, world):
    """A row of predict depends on that forecast only."""
    fitted = _smoother_fit(smoother, world)
    rows, order = fitted.predict(world.new), np.arange(len(world.new))[::-1]
    turned = fitted.predict(world.new[order])
    need_close(turned, rows[order], "in another order", tolerance=TOLERANCE)
    need_close(fitted.predict(world.new[3:4]), rows[3:4], "a single row", tolerance=TOLERANCE)


def _smoother_columns(smoother, world):
    """Columns are smoothed one by one, and the shape is kept."""
    fitted, values = _smoother_fit(smoother, world), world.values
    whole = fitted.smooth(values)
    need(whole.shape == values.shape, f"values {values.shape} give {whole.shape}")
    for name, part in (("(n,)", values[:, 0]), ("(n, 1)", values[:, :1])):
        smoothed = fitted.smooth(part)
        need(smoothed.shape == part.shape, f"values {name} give {smoothed.shape}")
        gap = (smoothed.ravel(), whole[:, 0])
        need_close(*gap, f"values {name} against their column", tolerance=TOLERANCE)


def _smoother_linear(smoother, world):
    """Smoothing is linear, keeps constants, and stays between lowest and highest."""
    fitted = _smoother_fit(smoother, world, weight=world.weight)
    u, v = world.values[:, :1], world.values[:, 1:2]
    mixed, parts = fitted.smooth(2 * u - 3 * v), 2 * fitted.smooth(u) - 3 * fitted.smooth(v)
    need_close(mixed, parts, "2 u - 3 v against its parts", tolerance=TOLERANCE)
    for method in ("smooth", "smooth_held_out"):
        constant = getattr(fitted, method)(np.full_like(u, 1.7))
        need_close(constant, np.full_like(u, 1.7), f"{method} of a constant", tolerance=1e-9)
        smoothed = getattr(fitted, method)(u)
        inside = (smoothed >= u.min() - 1e-9) & (smoothed <= u.max() + 1e-9)
        need(inside, f"{method} leaves the range of the values")


def _smoother_own_value(smoother, world):
    """Held out: the value of a sample has no influence on its own row."""
    fitted, values = _smoother_fit(smoother, world), world.values[:, :1]
    before = fitted.smooth_held_out(values)
    need(before.shape == values.shape, f"values {values.shape} give {before.shape}")
    for i in range(0, len(values), 7):
        changed = values.copy()
        changed[i] += 2.0
        after = fitted.smooth_held_out(changed)[i]
        place = f"row {i} of smooth_held_out when value {i} changes"
        need_close(after, before[i], place, tolerance=1e-9)


def _smoother_permutation(smoother, world):
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


def _smoother_projection(smoother, world):
    """A projection is idempotent and symmetric in the weighted mean, which it keeps."""
    if not smoother.projection:
        return
    fitted, weight = _smoother_fit(smoother, world, weight=world.weight), world.weight
    once = fitted.smooth(world.values)
    need_close(fitted.smooth(once), once, "smoothing twice", tolerance=1e-9)
    means = (weight @ once / weight.sum(), weight @ world.values / weight.sum())
    need_close(*means, "weighted mean", tolerance=1e-9)
    cross = once.T @ (weight[:, None] * world.values) / weight.sum()
    need_close(cross, cross.T, "mean of u smooth(v) against smooth(u) v", tolerance=1e-9)


SMOOTHER_LAWS = (
    _smoother_fit_conventions,
    _smoother_inputs,
    _smoother_probabilities,
    _smoother_own_label,
    _smoother_weights,
    _smoother_row_wise,
)
OPERATOR_LAWS = (
    _smoother_columns,
    _smoother_linear,
    _smoother_own_value,
    _smoother_permutation,
    _smoother_projection,
)


# --- Recalibrators --------------------------------------------------------------------------------


DECLARATIONS = ("injective_", "preserves_argmax_", "preserves_order_")


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
    worlds = {k: _recalibrator_world(k, np.random.default_rng(random_state)) for k in n_classes}
    for world in accepted(recalibrator, worlds, _recalibrator_fitted):
        run_laws(recalibrator, RECALIBRATOR_LAWS, world)


@dataclass(frozen=True)
class RecalibratorWorld:
    """Miscalibrated forecasts with their labels, others to map, and other labels."""

    P: np.ndarray
    y: np.ndarray
    new: np.ndarray
    permuted: np.ndarray


def _recalibrator_world(n_classes, rng):
    forecast = simplex_points(rng, 120, n_classes)
    truth = np.sqrt(forecast) / np.sqrt(forecast).sum(axis=1, keepdims=True)  # too extreme
    y = np.array([rng.choice(n_classes, p=row) for row in truth])
    y[:n_classes] = np.arange(n_classes)
    forecast[:n_classes] = np.eye(n_classes)  # exactly 0 and 1, and correct
    permuted = y.copy()
    permuted[n_classes:] = rng.permutation(y[n_classes:])
    new = simplex_points(rng, 30, n_classes)
    new[:n_classes] = np.eye(n_classes)
    return RecalibratorWorld(forecast, y, new, permuted)


def _recalibrator_fitted(recalibrator, world):
    return clone(recalibrator).fit(world.P, world.y)


def _recalibrator_fits(recalibrator, world):
    """Fit returns the object, and changes neither parameters nor inputs."""
    fitted, P, y = clone(recalibrator), world.P.copy(), world.y.copy()
    before = {name: repr(value) for name, value in fitted.get_params().items()}
    need(fitted.fit(P, y) is fitted, "fit does not return self")
    after = {name: repr(value) for name, value in fitted.get_params().items()}
    need(before == after, "fit changed a parameter")
    need(np.array_equal(P, world.P) and np.array_equal(y, world.y), "fit modified its input")
    classes = np.unique(world.y)
    need(
        np.array_equal(fitted.classes_, classes),
        f"classes_ is {fitted.classes_!r}, not {classes!r}",
    )


def _recalibrator_forgets(recalibrator, world):
    """A second fit does not depend on the first; clones and copies agree."""
    fitted = _recalibrator_fitted(recalibrator, world)
    expected = fitted.predict_proba(world.new)
    copied = duplicate(fitted).predict_proba(world.new)
    need_close(copied, expected, "the map of a copy", tolerance=1e-12)
    again = clone(fitted).fit(world.P, world.permuted).fit(world.P, world.y)
    proba = again.predict_proba(world.new)
    need_close(proba, expected, "the map after a second fit", tolerance=1e-12)


def _recalibrator_maps(recalibrator, world):
    """Forecasts become probability vectors, row by row, and nothing is modified."""
    fitted, new = _recalibrator_fitted(recalibrator, world), world.new.copy()
    proba = fitted.predict_proba(new)
    need(np.array_equal(new, world.new), "predict_proba modified its input")
    need(np.shape(proba) == new.shape, f"{new.shape} became {np.shape(proba)}")
    need_probabilities(proba, "rows of predict_proba")
    need_close(fitted.predict_proba(new[::-3]), proba[::-3], "some of the rows", tolerance=1e-10)


def _recalibrator_agrees(recalibrator, world):
    """Transform is predict_proba, and predict is the class of the largest probability."""
    fitted = _recalibrator_fitted(recalibrator, world)
    proba = fitted.predict_proba(world.new)
    need(np.array_equal(fitted.transform(world.new), proba), "transform is not predict_proba")
    expected = fitted.classes_[proba.argmax(axis=1)]
    need(
        np.array_equal(fitted.predict(world.new), expected),
        "predict is not the largest probability",
    )


def _recalibrator_labels(recalibrator, world):
    """Names of the classes do not matter."""
    expected = _recalibrator_fitted(recalibrator, world).predict_proba(world.new)
    names = np.array([f"class {k}" for k in range(world.P.shape[1])])
    named = clone(recalibrator).fit(world.P, names[world.y])
    need(np.array_equal(named.classes_, names), f"classes_ is {named.classes_!r}, not {names!r}")
    need_close(named.predict_proba(world.new), expected, "the map of names", tolerance=1e-10)


def _recalibrator_weights(recalibrator, world):
    """Zero-weight samples are dropped."""
    expected = _recalibrator_fitted(recalibrator, world).predict_proba(world.new)
    P, y = np.vstack([world.P, world.new]), np.append(world.y, world.y[: len(world.new)])
    weight = np.append(np.ones(len(world.y)), np.zeros(len(world.new)))
    proba = clone(recalibrator).fit(P, y, sample_weight=weight).predict_proba(world.new)
    need_close(proba, expected, "the map with zero-weight samples", tolerance=1e-10)


def _recalibrator_declares(recalibrator, world):
    """The declared properties hold."""
    fitted = _recalibrator_fitted(recalibrator, world)
    for name in DECLARATIONS:
        need(hasattr(fitted, name), f"{name} is not declared")
        value = getattr(fitted, name)
        need(isinstance(value, bool | np.bool_), f"{name} is {value!r}, not a bool")
    inner = world.new[(world.new > 1e-3).all(axis=1)]  # away from corners, which may be clipped
    proba = fitted.predict_proba(inner)
    if fitted.injective_:
        moved = inner + 1e-3 * (inner[::-1] - inner)
        apart = np.abs(moved - inner).max(axis=1) > 1e-5
        same = np.abs(fitted.predict_proba(moved) - proba).max(axis=1) <= 1e-14
        need(~(same & apart), "injective_ is declared, and two forecasts have one image")
    if fitted.preserves_argmax_:
        top = np.take_along_axis(proba, inner.argmax(axis=1)[:, None], axis=1)[:, 0]
        need(top >= proba.max(axis=1) - 1e-12, "preserves_argmax_ is declared, and a class is lost")
    if fitted.preserves_order_:
        before = inner[:, :, None] - inner[:, None, :]
        after = proba[:, :, None] - proba[:, None, :]
        changed = np.sign(before) * after < -1e-12
        need(~changed, "preserves_order_ is declared, and two classes change places")


RECALIBRATOR_LAWS = (
    _recalibrator_fits,
    _recalibrator_forgets,
    _recalibrator_maps,
    _recalibrator_agrees,
    _recalibrator_labels,
    _recalibrator_weights,
    _recalibrator_declares,
)
