"""Laws of what maps arrays to arrays: proper scores, kernels, notions and links."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skcalib.data.notions import Notion
from skcalib.kernels import Kernel
from skcalib.links import Link
from skcalib.scores import ProperScore, expected_divergence
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

__all__ = ["check_kernel", "check_link", "check_notion", "check_score"]

# --- Proper scores --------------------------------------------------------------------------------


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
        run_laws(score, SCORE_LAWS, _score_world(score, k, np.random.default_rng(random_state)))


@dataclass(frozen=True)
class ScoreWorld:
    """Points of the domain of a score, and labels or outcomes in the format of the score."""

    target: np.ndarray
    forecast: np.ndarray
    corners: np.ndarray | None
    labels: np.ndarray
    rng: np.random.Generator


def _score_world(score, n_classes, rng, n_samples=60):
    if score.domain == "moments":
        mean, variance = rng.normal(size=(2, n_samples)), rng.exponential(size=(2, n_samples)) + 0.1
        target, forecast = np.stack([mean, mean**2 + variance], axis=-1)
        outcomes = score.statistic(rng.normal(size=n_samples))
        return ScoreWorld(target, forecast, None, outcomes, rng)
    target, forecast = (simplex_points(rng, n_samples, n_classes) for _ in range(2))
    corners = np.eye(n_classes)
    return ScoreWorld(
        target, forecast, corners, corners[rng.integers(n_classes, size=n_samples)], rng
    )


def _score_pairs(targets, forecasts):
    """All pairs of a target and a forecast, as two arrays of rows."""
    return np.repeat(targets, len(forecasts), axis=0), np.tile(forecasts, (len(targets), 1))


def _is_a_score(score):
    """It is a ProperScore that declares its domain and equals its copies."""
    need(isinstance(score, ProperScore), "an instance that derives from ProperScore is needed")
    need(score.domain in ("simplex", "moments"), f"domain is {score.domain!r}")
    need(duplicate(score) == score, "a copy, as made by pickle, is not equal to it")


def _score_inputs_and_shapes(score, world):
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


def _score_concave(score, world):
    """The entropy is concave."""
    middle = score.entropy((world.target + world.forecast) / 2)
    mean = (score.entropy(world.target) + score.entropy(world.forecast)) / 2
    need(middle >= mean - 1e-12 * (1 + np.abs(mean)), "H((q + s) / 2) < (H(q) + H(s)) / 2")


def _score_gradient(score, world):
    """The gradient is the gradient of the entropy."""
    centre = world.forecast.mean(axis=0)
    point = 0.5 * world.forecast + 0.5 * centre  # away from the border
    step = 1e-5 * (0.5 * world.target + 0.5 * centre - point)
    rise = score.entropy(point + step) - score.entropy(point - step)
    slope = 2 * np.sum(score.gradient(point) * step, axis=-1)
    scale = 1e-5 * (1 + np.abs(slope).max() / 1e-5)
    need_close(slope, rise, "slope against numerical slope", tolerance=1e-5, scale=scale)


def _score_affine(score, world):
    """The loss is affine in the target, and L(q, q) = H(q)."""
    mixed = score.loss(0.3 * world.target + 0.7 * world.labels, world.forecast)
    parts = 0.3 * score.loss(world.target, world.forecast)
    parts = parts + 0.7 * score.loss(world.labels, world.forecast)
    need_close(mixed, parts, "loss of a mixture", tolerance=1e-10, scale=1 + np.abs(parts).max())
    self_loss = score.loss(world.target, world.target)
    need_close(self_loss, score.entropy(world.target), "L(q, q) against H(q)", tolerance=1e-12)


def _score_proper(score, world):
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
        target, forecast = _score_pairs(targets, forecasts)
        best, loss = score.loss(target, target), score.loss(target, forecast)
        excess = loss - best
        need(excess >= -1e-12 * (1 + np.abs(best)), f"L(q, s) < L(q, q) by {-excess.min():.3g}")


def _score_divergence(score, world):
    """The divergence is L(q, s) - H(q), not negative, and zero if (and only if) q = s."""
    target, forecast = _score_pairs(world.target, world.forecast)
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


def _score_pythagoras(score, world):
    """Pythagoras: mean divergences over nested partitions add up."""
    rng, n_samples = world.rng, len(world.target)
    bottoms = [world.target] if world.corners is None else [world.target, world.labels]
    for bottom in bottoms * 3:
        fine = rng.integers(n_samples // 4, size=n_samples)
        coarse, weight = fine % 5, rng.uniform(0.5, 2, size=n_samples)
        middle, top = (_score_project(bottom, cells, weight) for cells in (fine, coarse))
        steps = (bottom, middle), (middle, top), (bottom, top)
        first, second, whole = (expected_divergence(score, *step, weight) for step in steps)
        scale = whole + np.abs(score.entropy(top)).mean()
        need_close(first + second, whole, "two steps against one", tolerance=1e-12, scale=scale)


def _score_project(values, cells, weight):
    mass = np.bincount(cells, weight)
    sums = np.stack([np.bincount(cells, weight * column) for column in values.T], axis=1)
    return sums[cells] / mass[cells, None]


def _score_exact_corners(score, world):
    """Probabilities of exactly 0 and 1 give neither NaN nor a warning."""
    if world.corners is None:
        return
    edges = np.vstack([world.corners, world.labels[:2] / 2 + world.labels[-2:] / 2])
    target, forecast = _score_pairs(edges, np.vstack([edges, world.forecast[:2]]))
    with warnings.catch_warnings(), np.errstate(divide="warn", invalid="warn", over="warn"):
        warnings.simplefilter("error")
        for name in ("loss", "divergence"):
            need(~np.isnan(getattr(score, name)(target, forecast)), f"{name} is NaN")
        need(np.isfinite(score.entropy(edges)), "the entropy is not finite")
        zero = score.divergence(edges, edges.copy())
    need_close(zero, np.zeros(len(edges)), "D(q, q) against zero", tolerance=1e-12)


def _score_infimum(score, world):
    """A declared infimum bounds the entropy from below and is attained at a corner."""
    if score.infimum is None or world.corners is None:
        return
    lowest = score.entropy(world.forecast).min()
    need(lowest >= score.infimum - 1e-12, f"an entropy of {lowest:.6g} is below it")
    attained = score.entropy(world.corners).min()
    need_close(attained, score.infimum, "lowest entropy of a corner", tolerance=1e-12)


def _score_separable(score, world):
    """If separable, the divergence is c times the squared distance."""
    if not score.separable:
        return
    target, forecast = _score_pairs(world.target, world.forecast)
    distance = np.sum((target - forecast) ** 2, axis=1)
    ratio = score.divergence(target, forecast)[distance > 1e-6] / distance[distance > 1e-6]
    need_close(ratio, np.full_like(ratio, ratio[0]), "D / |q - s|^2 varies", tolerance=1e-8)


def _score_jointly_convex(score, world):
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


SCORE_LAWS = (
    _score_inputs_and_shapes,
    _score_concave,
    _score_gradient,
    _score_affine,
    _score_proper,
    _score_divergence,
    _score_pythagoras,
    _score_exact_corners,
    _score_infimum,
    _score_separable,
    _score_jointly_convex,
)


# --- Kernels on the simplex -----------------------------------------------------------------------


@checker
def check_kernel(
    kernel: Kernel, *, n_classes: Sequence[int] = (2, 3, 5), random_state: int = 0
) -> None:
    r"""Check that an object satisfies the laws of kernels on the simplex.

    The laws, for forecasts that are spread out, tied, near corners and at corners:

    - it is a `Kernel` and equals its pickled copies;
    - ``for_data`` returns a kernel without parameters left to estimate, and does not change the
      kernel itself;
    - shapes: (n, K) and (m, K) go to (n, m); ``pairs`` has the same values for corresponding
      points; inputs are not modified;
    - symmetric: :math:`k(s, s') = k(s', s)^\top`;
    - positive semi-definite: the matrix of all values at any points, up to rounding;
    - bounded: no value, and no eigenvalue of a matrix value, exceeds ``bound()``.

    Parameters
    ----------
    kernel : Kernel
        Instance to check.
    n_classes : sequence of int, default=(2, 3, 5)
        Numbers of classes to try. A kernel with a fixed matrix has one.

    See Also
    --------
    skcalib.kernels.Kernel : The base class.

    Examples
    --------
    >>> from skcalib.kernels import GaussianKernel, LaplacianKernel
    >>> from skcalib.testing import check_kernel
    >>> check_kernel(2 * LaplacianKernel() + GaussianKernel(0.1))
    """
    run_laws(kernel, [_is_a_kernel])
    for k in n_classes:
        rng = np.random.default_rng(random_state)
        points = np.vstack([simplex_points(rng, 36, k), np.eye(k)])
        run_laws(kernel, KERNEL_LAWS, np.vstack([points, points[::5]]))


def _is_a_kernel(kernel):
    """It is a Kernel that equals its copies."""
    need(isinstance(kernel, Kernel), "an instance that derives from Kernel is needed")
    need(duplicate(kernel) == kernel, "a copy, as made by pickle, is not equal to it")
    bound = kernel.bound()
    need(isinstance(bound, float) and 0 <= bound < np.inf, f"bound() is {bound!r}")


def _kernel_learns_once(kernel, points):
    """for_data returns a kernel without parameters left to estimate, and changes nothing."""
    before = duplicate(kernel)
    copy = points.copy()
    learned = kernel.for_data(points)
    need(kernel == before, "the kernel was changed")
    need(np.array_equal(points, copy), "the forecasts were modified")
    need(isinstance(learned, Kernel), f"a Kernel is needed, got {learned!r}")
    need(learned.for_data(points[:3]) == learned, "what was learned changes with other forecasts")


def _kernel_values(kernel, points):
    """Matrices of all scalar terms at the points, each with its matrix."""
    n_columns = points.shape[1]
    terms = kernel.for_data(points).terms(n_columns)
    identity = np.eye(n_columns)
    return [(term, identity if matrix is None else matrix) for term, matrix in terms]


def _kernel_shapes(kernel, points):
    """Shapes are (n, m), pairs agree with them, and inputs are not modified."""
    x, y = points.copy(), points[3:10].copy()
    for term, matrix in _kernel_values(kernel, points):
        values = term(x, y)
        need(np.shape(values) == (len(x), 7), f"the shape is {np.shape(values)}")
        need(np.isfinite(values), "a value is not finite")
        pairs = term.pairs(x[:, None], y[None])
        need_close(pairs, values, "pairs(x, y) against k(x, y)", tolerance=1e-11)
        k = points.shape[1]
        need(np.shape(matrix) == (k, k), f"a matrix of shape {np.shape(matrix)} for {k} columns")
    need(np.array_equal(x, points) and np.array_equal(y, points[3:10]), "an input was modified")


def _kernel_symmetric(kernel, points):
    """Values are symmetric."""
    some = points[:9]
    for term, matrix in _kernel_values(kernel, points):
        need_close(term(some, points), term(points, some).T, "k(s, s')", tolerance=1e-12)
        need_close(matrix, matrix.T, "the matrix and its transpose", tolerance=1e-12)


def _kernel_positive(kernel, points):
    """The matrix of all values is positive semi-definite."""
    total = sum(
        np.kron(term(points, points), matrix) for term, matrix in _kernel_values(kernel, points)
    )
    values = np.linalg.eigvalsh((total + total.T) / 2)
    violation = f"an eigenvalue of {values[0]:.3g} next to {values[-1]:.3g}"
    need(values[0] >= -1e-9 * max(values[-1], 1e-300), violation)


def _kernel_bounded(kernel, points):
    """Values are bounded by bound()."""
    terms, bound = _kernel_values(kernel, points), kernel.bound()
    for x in points:
        here = sum(term(x[None], x[None])[0, 0] * matrix for term, matrix in terms)
        largest = np.linalg.norm(here, 2)
        need(largest <= bound * (1 + 1e-9), f"{largest:.6g} exceeds the bound {bound:.6g}")


KERNEL_LAWS = (
    _kernel_learns_once,
    _kernel_shapes,
    _kernel_symmetric,
    _kernel_positive,
    _kernel_bounded,
)


# --- Notions of calibration -----------------------------------------------------------------------


@checker
def check_notion(
    notion: Notion, *, n_classes: Sequence[int] = (2, 3, 10), random_state: int = 0
) -> None:
    """Check that an object satisfies the laws of notions of calibration.

    A notion maps forecasts and targets (n, K) to problems with their own columns. The laws, for
    each number of classes for which the notion does not raise a ValueError:

    - it is a `Notion` with ``reduce`` "mean" or "sum";
    - there is at least one problem, each with a forecast and a target of equal shape
      (n, columns), columns >= 2, and inputs are not modified;
    - no mass is lost: rows of both sides are probability vectors;
    - labels remain labels: one-hot targets give one-hot targets;
    - calibrated forecasts remain calibrated: equal forecasts and targets give equal images;
    - the image of the target is linear in the target, and that of the forecast does not depend
      on the target;
    - the image of a row depends on that row only.

    Parameters
    ----------
    notion : Notion
        Instance to check.

    See Also
    --------
    skcalib.data.notions.Notion : The base class.

    Examples
    --------
    >>> from skcalib.data.notions import TopK
    >>> from skcalib.testing import check_notion
    >>> check_notion(TopK(3))
    """
    run_laws(notion, [_is_a_notion])
    worlds = {k: _notion_world(k, np.random.default_rng(random_state)) for k in n_classes}
    for world in accepted(notion, worlds, lambda notion, world: _notion_images(notion, *world[:2])):
        run_laws(notion, NOTION_LAWS, *world)


def _notion_world(n_classes, rng, n_samples=40):
    """Forecasts with ties and corners, conditional expectations, and one-hot labels."""
    forecast = simplex_points(rng, n_samples, n_classes)
    forecast[:n_classes] = np.eye(n_classes)
    forecast[n_classes : n_classes + 2] = forecast[-2]
    forecast[-3, :2] = forecast[-3, :2].mean()  # two classes are equally likely
    labels = np.eye(n_classes)[rng.integers(n_classes, size=n_samples)]
    return forecast, rng.dirichlet(np.ones(n_classes), n_samples), labels


def _notion_images(notion, forecast, target):
    return list(notion.problems(forecast, target))


def _is_a_notion(notion):
    """It is a Notion that reduces by the mean or the sum."""
    need(isinstance(notion, Notion), "an instance that derives from Notion is needed")
    need(notion.reduce in ("mean", "sum"), f"reduce is {notion.reduce!r}")


def _notion_shapes(notion, forecast, target, labels):
    """There are problems of two columns or more, and inputs are not modified."""
    forecast_before, target_before = forecast.copy(), target.copy()
    images = _notion_images(notion, forecast, target)
    need(np.array_equal(forecast, forecast_before), "the forecast was modified")
    need(np.array_equal(target, target_before), "the target was modified")
    need(len(images) > 0, "there is no problem")
    for image, aim in images:
        need(image.shape == aim.shape, f"shapes {image.shape} and {aim.shape} in one problem")
        need(image.ndim == 2 and len(image) == len(forecast), f"shape {image.shape}")
        need(image.shape[1] >= 2, "a problem of a single column")


def _notion_mass(notion, forecast, target, labels):
    """No mass is lost: all rows are probability vectors."""
    for image, aim in _notion_images(notion, forecast, target):
        need_probabilities(image, "rows of the forecast")
        need_probabilities(aim, "rows of the target")


def _notion_labels(notion, forecast, target, labels):
    """Labels remain labels: one-hot targets give one-hot targets."""
    for _, aim in _notion_images(notion, forecast, labels):
        need((aim == 0) | (aim == 1), "an entry between 0 and 1")


def _notion_calibrated(notion, forecast, target, labels):
    """Calibrated forecasts remain calibrated."""
    for image, aim in _notion_images(notion, forecast, forecast.copy()):
        need_close(image, aim, "images of equal forecasts and targets", tolerance=1e-12)


def _notion_linear(notion, forecast, target, labels):
    """The image of the target is linear in it, that of the forecast does not depend on it."""
    triple = zip(
        _notion_images(notion, forecast, target),
        _notion_images(notion, forecast, labels),
        _notion_images(notion, forecast, 0.3 * target + 0.7 * labels),
        strict=True,
    )
    for (image, first), (again, second), (_, mixed) in triple:
        need(np.array_equal(image, again), "the image of the forecast changes with the target")
        need_close(mixed, 0.3 * first + 0.7 * second, "target of a mixture", tolerance=1e-12)


def _notion_row_wise(notion, forecast, target, labels):
    """The image of a row depends on that row only."""
    rows = np.arange(len(forecast))[::-3]
    parts = _notion_images(notion, forecast[rows], target[rows])
    for whole, part in zip(_notion_images(notion, forecast, target), parts, strict=True):
        for before, after in zip(whole, part, strict=True):
            need_close(after, before[rows], "image of some of the rows", tolerance=1e-12)


NOTION_LAWS = (
    _notion_shapes,
    _notion_mass,
    _notion_labels,
    _notion_calibrated,
    _notion_linear,
    _notion_row_wise,
)


# --- Links ----------------------------------------------------------------------------------------


#: Parameters to try: distance from `start`, and share of parameters that change.
MOVES = ((0.1, 1.0), (0.5, 1.0), (2.0, 1.0), (0.5, 0.5), (2.0, 0.2))


@checker
def check_link(link: Link, *, n_classes: Sequence[int] = (2, 3, 5), random_state: int = 0) -> None:
    r"""Check that an object satisfies the laws of links.

    Write :math:`f_\theta` for the map of logits. The laws, for each number of classes that
    ``start`` accepts, that is, for which it does not raise a ValueError:

    - it is a `Link`, ``prepare`` returns it, and pickled copies agree;
    - ``start`` returns finite parameters (P,), the same in every call and within ``bounds``, which
      give the identity map up to a shift of each row;
    - ``stiffness`` has shape (P,) and is not negative;
    - ``apply`` maps finite logits (n, K) to finite logits (n, K), row by row, and no input is
      modified;
    - ``vjp`` agrees with central differences to 1e-6;
    - if ``preserves_order`` is declared, no two classes of any forecast change their order, and
      ties remain ties;
    - if ``injective`` is declared, the Jacobian determinant of the map, in log-ratios, has the same
      sign at all forecasts: a smooth map that folds the simplex changes it.

    The last three are checked at random parameters within the bounds, some of which keep their
    start value. Properties that are not declared are not checked.

    Parameters
    ----------
    link : Link
        Instance to check. It is prepared with random logits.

    See Also
    --------
    skcalib.links.Link : The base class.

    Examples
    --------
    >>> from skcalib.links import VectorMap
    >>> from skcalib.testing import check_link
    >>> check_link(VectorMap())
    """
    run_laws(link, [_is_a_link])
    for k in accepted(link, {k: k for k in n_classes}, lambda link, k: link.start(k)):
        rng = np.random.default_rng(random_state)
        logits = np.log(simplex_points(rng, 40, k))
        run_laws(link, [_link_prepare, _link_start], logits)
        run_laws(link, LINK_LAWS, _link_world(link, logits, rng))


@dataclass(frozen=True)
class LinkWorld:
    """Logits for the preparation, other logits with a wider range, and parameters."""

    logits: np.ndarray
    new: np.ndarray
    thetas: list
    rng: np.random.Generator


def _link_world(link, logits, rng):
    n_classes = logits.shape[1]
    new = np.log(simplex_points(rng, 30, n_classes))
    new[:2] *= 3  # outside the range of the preparation
    new[2, :2] = new[2, :2].mean()  # two classes are equally likely
    new -= np.log(np.exp(new).sum(axis=1, keepdims=True))
    start = link.start(n_classes)
    thetas = [start.copy()]
    for scale, share in MOVES * 3:
        move = scale * rng.normal(size=len(start)) * (rng.random(len(start)) < share)
        thetas.append(_link_inside(start + move, link.bounds(n_classes)))
    return LinkWorld(logits, new, thetas, rng)


def _link_inside(theta, bounds):
    """Parameters moved into their bounds, with room for finite differences."""
    if bounds is None:
        return theta
    ends = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]
    low, high = np.array(ends).T
    gap = np.where(np.isfinite(high - low), 1e-3 * (high - low), 1e-3)
    return np.clip(theta, low + gap, high - gap)


def _is_a_link(link):
    """It is a Link."""
    need(isinstance(link, Link), "an instance that derives from Link is needed")


def _link_prepare(link, logits):
    """Prepare returns the link and does not modify the logits; copies agree."""
    before = logits.copy()
    need(link.prepare(logits) is link, "prepare does not return self")
    need(np.array_equal(before, logits), "prepare modified the logits")
    start = link.start(logits.shape[1])
    copy = duplicate(link).apply(start, logits)
    need_close(copy, link.apply(start, logits), "the map of a copy", tolerance=1e-12)


def _link_start(link, logits):
    """Start gives the identity map up to a shift of each row, and lies within the bounds."""
    n_classes = logits.shape[1]
    start = link.start(n_classes)
    need(isinstance(start, np.ndarray) and start.ndim == 1, "start is not an array of shape (P,)")
    need(np.isfinite(start), "start is not finite")
    need(np.array_equal(start, link.start(n_classes)), "start differs from call to call")
    shift = link.apply(start, logits) - logits
    shift = shift - shift.mean(axis=1, keepdims=True)
    need_close(shift, 0 * shift, "apply(start, logits) - logits in a row", tolerance=1e-8)
    bounds = link.bounds(n_classes)
    if bounds is not None:
        need(len(bounds) == len(start), f"{len(bounds)} bounds for {len(start)} parameters")
        for value, (low, high) in zip(start, bounds, strict=True):
            above, below = low is None or low <= value, high is None or value <= high
            need(above and below, f"the bounds ({low}, {high}) exclude {value:.6g}")


def _link_stiffness(link, world):
    """Stiffness has the shape of the parameters and is not negative."""
    stiffness = np.asarray(link.stiffness(world.logits.shape[1]))
    shape = world.thetas[0].shape
    need(stiffness.shape == shape, f"shape {stiffness.shape}, expected {shape}")
    need(np.isfinite(stiffness) & (stiffness >= 0), "it must be finite and not negative")


def _link_rows(link, world):
    """Apply keeps the shape, works row by row, and modifies nothing."""
    for theta in world.thetas:
        arguments = theta.copy(), world.new.copy(), world.rng.normal(size=world.new.shape)
        cotangent = arguments[2].copy()
        mapped = link.apply(*arguments[:2])
        link.vjp(*arguments)
        need(mapped.shape == world.new.shape, f"{world.new.shape} became {mapped.shape}")
        need(np.isfinite(mapped), "the logits are not finite")
        for name, now, then in zip(
            ("theta", "logits", "cotangent"), arguments, (theta, world.new, cotangent), strict=True
        ):
            need(np.array_equal(now, then), f"{name} was modified")
        scale = 1 + np.abs(mapped).max()
        some = link.apply(theta, world.new[::-3])
        need_close(some, mapped[::-3], "some of the rows", tolerance=1e-10, scale=scale)


def _link_vjp(link, world):
    """The vector-Jacobian product agrees with central differences."""
    for theta in world.thetas[:6]:
        for logits in (world.logits[:15], world.new[:15]):
            cotangent = world.rng.normal(size=logits.shape)
            product = link.vjp(theta, logits, cotangent)
            need(np.shape(product) == theta.shape, f"shape {np.shape(product)}, not {theta.shape}")
            expected = np.empty_like(theta)
            for p in range(len(theta)):
                step = np.zeros_like(theta)
                step[p] = 1e-5 * (1 + abs(theta[p]))
                rise = link.apply(theta + step, logits) - link.apply(theta - step, logits)
                expected[p] = np.sum(cotangent * rise) / (2 * step[p])
            scale = 1 + np.abs(expected).max()
            need_close(product, expected, "vjp against differences", tolerance=1e-6, scale=scale)


def _link_order(link, world):
    """If declared, the order of the classes is kept."""
    n_classes = world.new.shape[1]
    for theta in world.thetas:
        declared = link.preserves_order(theta, n_classes)
        need(isinstance(declared, bool), f"preserves_order gives {declared!r}, not a bool")
        if not declared:
            continue
        mapped = link.apply(theta, world.new)
        before = world.new[:, :, None] - world.new[:, None, :]
        after = mapped[:, :, None] - mapped[:, None, :]
        rounding = 1e-12 * (1 + np.abs(mapped).max())
        need(np.sign(before) * after >= -rounding, "two classes change places")
        need(np.abs(after[before == 0]) <= rounding, "two classes that were tied are not")


def _link_injective(link, world):
    """If declared, the map is injective: its Jacobian determinant keeps its sign."""
    n_classes = world.new.shape[1]
    for theta in world.thetas:
        declared = link.injective(theta, n_classes)
        need(isinstance(declared, bool), f"injective gives {declared!r}, not a bool")
        if not declared:
            continue
        jacobian, noise = _link_jacobian(lambda z, theta=theta: link.apply(theta, z), world.new)
        norms = np.linalg.norm(jacobian, axis=2)
        need(norms.max(axis=1) > noise, "the map is constant at a forecast")
        volume = np.linalg.det(jacobian / np.maximum(norms, noise)[:, :, None])
        clear = np.abs(volume) > 1e-6
        need(clear.any(), "the Jacobian determinant is zero everywhere")
        signs = np.unique(np.sign(volume[clear]))
        need(len(signs) == 1, "the Jacobian determinant changes its sign: the map folds")


def _link_jacobian(apply, logits):
    """Derivatives (n, K-1, K-1) of output by input log-ratios to the last class; their noise."""
    ratios, h = logits[:, :-1] - logits[:, -1:], 1e-4

    def mapped(ratios):
        z = np.hstack([ratios, np.zeros((len(ratios), 1))])
        out = apply(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))
        return out[:, :-1] - out[:, -1:]

    steps = h * np.eye(ratios.shape[1])
    columns = [(mapped(ratios + step) - mapped(ratios - step)) / (2 * h) for step in steps]
    return np.stack(columns, axis=2), 1e-14 * (1 + np.abs(mapped(ratios)).max()) / h


LINK_LAWS = (_link_stiffness, _link_rows, _link_vjp, _link_order, _link_injective)
