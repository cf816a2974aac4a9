"""Laws of recalibrators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, clone

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
    worlds = {k: _world(k, np.random.default_rng(random_state)) for k in n_classes}
    for world in accepted(recalibrator, worlds, _fitted):
        run_laws(recalibrator, LAWS, world)


@dataclass(frozen=True)
class World:
    """Miscalibrated forecasts with their labels, others to map, and other labels."""

    P: np.ndarray
    y: np.ndarray
    new: np.ndarray
    permuted: np.ndarray


def _world(n_classes, rng):
    forecast = simplex_points(rng, 120, n_classes)
    truth = np.sqrt(forecast) / np.sqrt(forecast).sum(axis=1, keepdims=True)  # too extreme
    y = np.array([rng.choice(n_classes, p=row) for row in truth])
    y[:n_classes] = np.arange(n_classes)
    forecast[:n_classes] = np.eye(n_classes)  # exactly 0 and 1, and correct
    permuted = y.copy()
    permuted[n_classes:] = rng.permutation(y[n_classes:])
    new = simplex_points(rng, 30, n_classes)
    new[:n_classes] = np.eye(n_classes)
    return World(forecast, y, new, permuted)


def _fitted(recalibrator, world):
    return clone(recalibrator).fit(world.P, world.y)


def _fits(recalibrator, world):
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


def _forgets(recalibrator, world):
    """A second fit does not depend on the first; clones and copies agree."""
    fitted = _fitted(recalibrator, world)
    expected = fitted.predict_proba(world.new)
    copied = duplicate(fitted).predict_proba(world.new)
    need_close(copied, expected, "the map of a copy", tolerance=1e-12)
    again = clone(fitted).fit(world.P, world.permuted).fit(world.P, world.y)
    proba = again.predict_proba(world.new)
    need_close(proba, expected, "the map after a second fit", tolerance=1e-12)


def _maps(recalibrator, world):
    """Forecasts become probability vectors, row by row, and nothing is modified."""
    fitted, new = _fitted(recalibrator, world), world.new.copy()
    proba = fitted.predict_proba(new)
    need(np.array_equal(new, world.new), "predict_proba modified its input")
    need(np.shape(proba) == new.shape, f"{new.shape} became {np.shape(proba)}")
    need_probabilities(proba, "rows of predict_proba")
    need_close(fitted.predict_proba(new[::-3]), proba[::-3], "some of the rows", tolerance=1e-10)


def _agrees(recalibrator, world):
    """Transform is predict_proba, and predict is the class of the largest probability."""
    fitted = _fitted(recalibrator, world)
    proba = fitted.predict_proba(world.new)
    need(np.array_equal(fitted.transform(world.new), proba), "transform is not predict_proba")
    expected = fitted.classes_[proba.argmax(axis=1)]
    need(
        np.array_equal(fitted.predict(world.new), expected),
        "predict is not the largest probability",
    )


def _labels(recalibrator, world):
    """Names of the classes do not matter."""
    expected = _fitted(recalibrator, world).predict_proba(world.new)
    names = np.array([f"class {k}" for k in range(world.P.shape[1])])
    named = clone(recalibrator).fit(world.P, names[world.y])
    need(np.array_equal(named.classes_, names), f"classes_ is {named.classes_!r}, not {names!r}")
    need_close(named.predict_proba(world.new), expected, "the map of names", tolerance=1e-10)


def _weights(recalibrator, world):
    """Zero-weight samples are dropped."""
    expected = _fitted(recalibrator, world).predict_proba(world.new)
    P, y = np.vstack([world.P, world.new]), np.append(world.y, world.y[: len(world.new)])
    weight = np.append(np.ones(len(world.y)), np.zeros(len(world.new)))
    proba = clone(recalibrator).fit(P, y, sample_weight=weight).predict_proba(world.new)
    need_close(proba, expected, "the map with zero-weight samples", tolerance=1e-10)


def _declares(recalibrator, world):
    """The declared properties hold."""
    fitted = _fitted(recalibrator, world)
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


LAWS = (_fits, _forgets, _maps, _agrees, _labels, _weights, _declares)
