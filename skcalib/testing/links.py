"""Laws of links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skcalib.links import Link
from skcalib.testing._laws import (
    accepted,
    checker,
    duplicate,
    need,
    need_close,
    run_laws,
    simplex_points,
)

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
        run_laws(link, [_prepare, _start], logits)
        run_laws(link, LAWS, _world(link, logits, rng))


@dataclass(frozen=True)
class World:
    """Logits for the preparation, other logits with a wider range, and parameters."""

    logits: np.ndarray
    new: np.ndarray
    thetas: list
    rng: np.random.Generator


def _world(link, logits, rng):
    n_classes = logits.shape[1]
    new = np.log(simplex_points(rng, 30, n_classes))
    new[:2] *= 3  # outside the range of the preparation
    new[2, :2] = new[2, :2].mean()  # two classes are equally likely
    new -= np.log(np.exp(new).sum(axis=1, keepdims=True))
    start = link.start(n_classes)
    thetas = [start.copy()]
    for scale, share in MOVES * 3:
        move = scale * rng.normal(size=len(start)) * (rng.random(len(start)) < share)
        thetas.append(_inside(start + move, link.bounds(n_classes)))
    return World(logits, new, thetas, rng)


def _inside(theta, bounds):
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


def _prepare(link, logits):
    """Prepare returns the link and does not modify the logits; copies agree."""
    before = logits.copy()
    need(link.prepare(logits) is link, "prepare does not return self")
    need(np.array_equal(before, logits), "prepare modified the logits")
    start = link.start(logits.shape[1])
    copy = duplicate(link).apply(start, logits)
    need_close(copy, link.apply(start, logits), "the map of a copy", tolerance=1e-12)


def _start(link, logits):
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


def _stiffness(link, world):
    """Stiffness has the shape of the parameters and is not negative."""
    stiffness = np.asarray(link.stiffness(world.logits.shape[1]))
    shape = world.thetas[0].shape
    need(stiffness.shape == shape, f"shape {stiffness.shape}, expected {shape}")
    need(np.isfinite(stiffness) & (stiffness >= 0), "it must be finite and not negative")


def _rows(link, world):
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


def _vjp(link, world):
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


def _order(link, world):
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


def _injective(link, world):
    """If declared, the map is injective: its Jacobian determinant keeps its sign."""
    n_classes = world.new.shape[1]
    for theta in world.thetas:
        declared = link.injective(theta, n_classes)
        need(isinstance(declared, bool), f"injective gives {declared!r}, not a bool")
        if not declared:
            continue
        jacobian, noise = _jacobian(lambda z, theta=theta: link.apply(theta, z), world.new)
        norms = np.linalg.norm(jacobian, axis=2)
        need(norms.max(axis=1) > noise, "the map is constant at a forecast")
        volume = np.linalg.det(jacobian / np.maximum(norms, noise)[:, :, None])
        clear = np.abs(volume) > 1e-6
        need(clear.any(), "the Jacobian determinant is zero everywhere")
        signs = np.unique(np.sign(volume[clear]))
        need(len(signs) == 1, "the Jacobian determinant changes its sign: the map folds")


def _jacobian(apply, logits):
    """Derivatives (n, K-1, K-1) of output by input log-ratios to the last class; their noise."""
    ratios, h = logits[:, :-1] - logits[:, -1:], 1e-4

    def mapped(ratios):
        z = np.hstack([ratios, np.zeros((len(ratios), 1))])
        out = apply(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))
        return out[:, :-1] - out[:, -1:]

    steps = h * np.eye(ratios.shape[1])
    columns = [(mapped(ratios + step) - mapped(ratios - step)) / (2 * h) for step in steps]
    return np.stack(columns, axis=2), 1e-14 * (1 + np.abs(mapped(ratios)).max()) / h


LAWS = (_stiffness, _rows, _vjp, _order, _injective)
