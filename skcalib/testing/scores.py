"""Laws of proper scores."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skcalib.scores import ProperScore, expected_divergence
from skcalib.testing._laws import checker, duplicate, need, need_close, run_laws, simplex_points


@checker
def check_score(
    score: ProperScore, *, n_classes: Sequence[int] = (2, 3, 5), random_state: int = 0
) -> None:
    r"""Check that an object satisfies the laws of proper scores.

    Write :math:`H` for the entropy, :math:`L(q, s)` for the loss and :math:`D(q, s)` for the
    divergence, q for targets and s for forecasts. The laws:

    - it is a `ProperScore` that declares its domain, can be copied and pickled, and equals its
      copy;
    - shapes: (..., K) goes to (...), and inputs are not modified;
    - H is concave: :math:`H((q + s) / 2) \ge (H(q) + H(s)) / 2`;
    - ``gradient`` is the gradient of ``entropy`` along every direction within the domain;
    - L is affine in the target, and :math:`L(q, q) = H(q)`;
    - propriety: :math:`L(q, s) \ge L(q, q)` for random pairs, the corners and, for two classes,
      over a grid of forecasts (Schervish: every pair of grid points is a threshold-weighted
      zero-one loss with a weight that is not negative); the partial losses are monotone, strictly
      so for a score that declares ``strictly_proper``;
    - :math:`D(q, s) = L(q, s) - H(q) \ge 0`, zero if q = s, and for a strictly proper score only
      then;
    - Pythagoras: over nested partitions the mean divergences add up, to 1e-12 of their magnitude;
    - probabilities of exactly 0 and 1 give neither NaN nor a warning;
    - a declared ``infimum`` bounds H from below and is attained at a corner;
    - if ``separable``, D is :math:`c \|q - s\|^2` with one c for each number of classes;
    - if ``jointly_convex``, the divergence of the mean of two pairs (q, s) is at most the mean of
      their divergences, for random pairs and corners. The opposite is not checked: a score that
      declares nothing is only treated with more caution.

    Scores with ``domain="moments"`` are checked on pairs (E[y], E[y^2]) of positive variance.

    Parameters
    ----------
    score : ProperScore
        Instance to check.
    n_classes : sequence of int, default=(2, 3, 5)
        Numbers of classes to try; not used for moments.

    See Also
    --------
    skcalib.scores.ProperScore : The base class.

    Examples
    --------
    >>> from skcalib.scores import Spherical
    >>> from skcalib.testing import check_score
    >>> check_score(Spherical())
    """
    run_laws(score, [_is_a_score])
    for k in n_classes if score.domain == "simplex" else (2,):
        run_laws(score, LAWS, _world(score, k, np.random.default_rng(random_state)))


@dataclass(frozen=True)
class World:
    """Points of the domain of a score, and labels or outcomes in the format of the score."""

    target: np.ndarray
    forecast: np.ndarray
    corners: np.ndarray | None
    labels: np.ndarray
    rng: np.random.Generator


def _world(score, n_classes, rng, n_samples=60):
    if score.domain == "moments":
        mean, variance = rng.normal(size=(2, n_samples)), rng.exponential(size=(2, n_samples)) + 0.1
        target, forecast = np.stack([mean, mean**2 + variance], axis=-1)
        outcomes = score.statistic(rng.normal(size=n_samples))
        return World(target, forecast, None, outcomes, rng)
    target, forecast = (simplex_points(rng, n_samples, n_classes) for _ in range(2))
    corners = np.eye(n_classes)
    return World(target, forecast, corners, corners[rng.integers(n_classes, size=n_samples)], rng)


def _pairs(targets, forecasts):
    """All pairs of a target and a forecast, as two arrays of rows."""
    return np.repeat(targets, len(forecasts), axis=0), np.tile(forecasts, (len(targets), 1))


def _is_a_score(score):
    """It is a ProperScore that declares its domain and equals its copies."""
    need(isinstance(score, ProperScore), "an instance that derives from ProperScore is needed")
    need(score.domain in ("simplex", "moments"), f"domain is {score.domain!r}")
    need(duplicate(score) == score, "a copy, as made by pickle, is not equal to it")


def _inputs_and_shapes(score, world):
    """Inputs are not modified, and arrays (..., K) give arrays (...)."""
    target, forecast = world.target.copy(), world.forecast.copy()
    values = {
        "entropy": score.entropy(forecast),
        "loss": score.loss(target, forecast),
        "divergence": score.divergence(target, forecast),
        "gradient": score.gradient(forecast),
    }
    need(np.array_equal(target, world.target), "the target was modified")
    need(np.array_equal(forecast, world.forecast), "the forecast was modified")
    for name, value in values.items():
        shape = forecast.shape if name == "gradient" else forecast.shape[:-1]
        need(np.shape(value) == shape, f"{name} has shape {np.shape(value)}, expected {shape}")
        need(np.isfinite(value), f"{name} is not finite inside the domain")
    blocks = (2, len(target) // 2, -1)
    blocked = score.loss(target.reshape(blocks), forecast.reshape(blocks))
    need_close(blocked.ravel(), values["loss"], "loss depends on leading axes", tolerance=1e-12)


def _concave(score, world):
    """The entropy is concave."""
    middle = score.entropy((world.target + world.forecast) / 2)
    mean = (score.entropy(world.target) + score.entropy(world.forecast)) / 2
    need(middle >= mean - 1e-12 * (1 + np.abs(mean)), "H((q + s) / 2) < (H(q) + H(s)) / 2")


def _gradient(score, world):
    """The gradient is the gradient of the entropy."""
    centre = world.forecast.mean(axis=0)
    point = 0.5 * world.forecast + 0.5 * centre  # away from the border
    step = 1e-5 * (0.5 * world.target + 0.5 * centre - point)
    rise = score.entropy(point + step) - score.entropy(point - step)
    slope = 2 * np.sum(score.gradient(point) * step, axis=-1)
    scale = 1e-5 * (1 + np.abs(slope).max() / 1e-5)
    need_close(slope, rise, "slope against numerical slope", tolerance=1e-5, scale=scale)


def _affine(score, world):
    """The loss is affine in the target, and L(q, q) = H(q)."""
    mixed = score.loss(0.3 * world.target + 0.7 * world.labels, world.forecast)
    parts = 0.3 * score.loss(world.target, world.forecast)
    parts = parts + 0.7 * score.loss(world.labels, world.forecast)
    need_close(mixed, parts, "loss of a mixture", tolerance=1e-10, scale=1 + np.abs(parts).max())
    self_loss = score.loss(world.target, world.target)
    need_close(self_loss, score.entropy(world.target), "L(q, q) against H(q)", tolerance=1e-12)


def _proper(score, world):
    """Propriety: no forecast has a lower expected loss than the truth."""
    sets = [(world.target, world.forecast)]
    if world.corners is not None:
        sets += [(world.target, world.corners), (world.corners, world.forecast)]
        if world.target.shape[1] == 2:
            p = np.linspace(0, 1, 41)
            grid = np.column_stack([1 - p, p])
            sets.append((grid, grid))
            for label, sign in ((0, 1), (1, -1)):
                partial = score.loss(np.tile(np.eye(2)[label], (41, 1)), grid)
                rises = sign * np.diff(partial[np.isfinite(partial)])
                name = f"the partial loss of class {label} is not "
                if score.strictly_proper:
                    need(rises > 0, name + "strictly monotone")
                need(rises >= 0, name + "monotone")
    for targets, forecasts in sets:
        target, forecast = _pairs(targets, forecasts)
        best, loss = score.loss(target, target), score.loss(target, forecast)
        excess = loss - best
        need(excess >= -1e-12 * (1 + np.abs(best)), f"L(q, s) < L(q, q) by {-excess.min():.3g}")


def _divergence(score, world):
    """The divergence is L(q, s) - H(q), not negative, and zero if (and only if) q = s."""
    target, forecast = _pairs(world.target, world.forecast)
    divergence = score.divergence(target, forecast)
    derived = score.loss(target, forecast) - score.entropy(target)
    scale = 1 + np.abs(derived).max()
    need_close(divergence, derived, "D(q, s) against L(q, s) - H(q)", tolerance=1e-12, scale=scale)
    need(divergence >= 0, f"a divergence of {divergence.min():.3g}")
    far = np.abs(target - forecast).sum(axis=1) > 0.1
    if score.strictly_proper:
        need(
            divergence[far] > 1e-13, "D(q, s) = 0 for q and s that differ: proper, but not strictly"
        )
    same = score.divergence(world.target, world.target.copy())
    need_close(same, np.zeros(len(same)), "D(q, q) against zero", tolerance=1e-12)


def _pythagoras(score, world):
    """Pythagoras: mean divergences over nested partitions add up."""
    rng, n_samples = world.rng, len(world.target)
    bottoms = [world.target] if world.corners is None else [world.target, world.labels]
    for bottom in bottoms * 3:
        fine = rng.integers(n_samples // 4, size=n_samples)
        coarse, weight = fine % 5, rng.uniform(0.5, 2, size=n_samples)
        middle, top = (_project(bottom, cells, weight) for cells in (fine, coarse))
        steps = (bottom, middle), (middle, top), (bottom, top)
        first, second, whole = (expected_divergence(score, *step, weight) for step in steps)
        scale = whole + np.abs(score.entropy(top)).mean()
        need_close(first + second, whole, "two steps against one", tolerance=1e-12, scale=scale)


def _project(values, cells, weight):
    mass = np.bincount(cells, weight)
    sums = np.stack([np.bincount(cells, weight * column) for column in values.T], axis=1)
    return sums[cells] / mass[cells, None]


def _exact_corners(score, world):
    """Probabilities of exactly 0 and 1 give neither NaN nor a warning."""
    if world.corners is None:
        return
    edges = np.vstack([world.corners, world.labels[:2] / 2 + world.labels[-2:] / 2])
    target, forecast = _pairs(edges, np.vstack([edges, world.forecast[:2]]))
    with warnings.catch_warnings(), np.errstate(divide="warn", invalid="warn", over="warn"):
        warnings.simplefilter("error")
        for name in ("loss", "divergence"):
            need(~np.isnan(getattr(score, name)(target, forecast)), f"{name} is NaN")
        need(np.isfinite(score.entropy(edges)), "the entropy is not finite")
        zero = score.divergence(edges, edges.copy())
    need_close(zero, np.zeros(len(edges)), "D(q, q) against zero", tolerance=1e-12)


def _infimum(score, world):
    """A declared infimum bounds the entropy from below and is attained at a corner."""
    if score.infimum is None or world.corners is None:
        return
    lowest = score.entropy(world.forecast).min()
    need(lowest >= score.infimum - 1e-12, f"an entropy of {lowest:.6g} is below it")
    attained = score.entropy(world.corners).min()
    need_close(attained, score.infimum, "lowest entropy of a corner", tolerance=1e-12)


def _separable(score, world):
    """If separable, the divergence is c times the squared distance."""
    if not score.separable:
        return
    target, forecast = _pairs(world.target, world.forecast)
    distance = np.sum((target - forecast) ** 2, axis=1)
    ratio = score.divergence(target, forecast)[distance > 1e-6] / distance[distance > 1e-6]
    need_close(ratio, np.full_like(ratio, ratio[0]), "D / |q - s|^2 varies", tolerance=1e-8)


def _jointly_convex(score, world):
    """If jointly convex, the divergence of a mean of pairs is at most their mean divergence."""
    if not score.jointly_convex:
        return
    targets, forecasts = world.target, world.forecast
    if world.corners is not None:
        targets = np.vstack([targets, world.corners])
    rng = world.rng
    for _ in range(20):
        first, second = (rng.integers(len(targets), size=400) for _ in range(2))
        left, right = (rng.integers(len(forecasts), size=400) for _ in range(2))
        share = rng.uniform(size=(400, 1))
        mean = score.divergence(
            share * targets[first] + (1 - share) * targets[second],
            share * forecasts[left] + (1 - share) * forecasts[right],
        )
        parts = [
            score.divergence(targets[a], forecasts[b]) for a, b in ((first, left), (second, right))
        ]
        bound = share[:, 0] * parts[0] + (1 - share[:, 0]) * parts[1]
        excess = mean - bound
        violation = f"D of a mean of pairs exceeds the mean of D by {excess.max():.3g}"
        need(excess <= 1e-12 * (1 + np.abs(bound)), violation)


LAWS = (
    _inputs_and_shapes,
    _concave,
    _gradient,
    _affine,
    _proper,
    _divergence,
    _pythagoras,
    _exact_corners,
    _infimum,
    _separable,
    _jointly_convex,
)
