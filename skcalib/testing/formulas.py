"""Laws of what maps arrays to arrays: proper scores, kernels, notions and links."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from skcalib.data.notions import Notion
from skcalib.kernels import Kernel
from skcalib.links import Link
from skcalib.scores import ProperScore, expected_divergence
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
    with law(score, "It is a ProperScore that declares its domain and equals its copies."):
        need(isinstance(score, ProperScore), "an instance that derives from ProperScore is needed")
        need(score.domain in ("simplex", "moments"), f"domain is {score.domain!r}")
        need(duplicate(score) == score, "a copy, as made by pickle, is not equal to it")
    for k in n_classes if score.domain == "simplex" else (2,):
        laws = ScoreLaws(score, k, np.random.default_rng(random_state))
        laws.entropy_laws()
        laws.loss_laws()
        laws.divergence_laws()
        laws.declaration_laws()


class ScoreLaws:
    """Points of the domain of a score, labels or outcomes in its format, and the laws."""

    def __init__(self, score, n_classes, rng, n_samples=60):
        self.score, self.rng = score, rng
        if score.domain == "moments":
            mean = rng.normal(size=(2, n_samples))
            variance = rng.exponential(size=(2, n_samples)) + 0.1
            self.target, self.forecast = np.stack([mean, mean**2 + variance], axis=-1)
            self.corners, self.labels = None, score.statistic(rng.normal(size=n_samples))
        else:
            self.target = simplex_points(rng, n_samples, n_classes)
            self.forecast = simplex_points(rng, n_samples, n_classes)
            self.corners = np.eye(n_classes)
            self.labels = self.corners[rng.integers(n_classes, size=n_samples)]

    def entropy_laws(self):
        """Shapes, and the entropy with its gradient."""
        score, target, forecast = self.score, self.target.copy(), self.forecast.copy()
        with law(score, "Inputs are not modified, and arrays (..., K) give arrays (...)."):
            values = {
                "entropy": score.entropy(forecast),
                "loss": score.loss(target, forecast),
                "divergence": score.divergence(target, forecast),
                "gradient": score.gradient(forecast),
            }
            need(np.array_equal(target, self.target), "the target was modified")
            need(np.array_equal(forecast, self.forecast), "the forecast was modified")
            for name, value in values.items():
                shape = forecast.shape if name == "gradient" else forecast.shape[:-1]
                need(
                    np.shape(value) == shape,
                    f"{name} has shape {np.shape(value)}, expected {shape}",
                )
                need(np.isfinite(value), f"{name} is not finite inside the domain")
            blocks = (2, len(target) // 2, -1)
            loss = score.loss(target.reshape(blocks), forecast.reshape(blocks)).ravel()
            need_close(loss, values["loss"], "loss depends on leading axes", tolerance=1e-12)
        target, forecast = self.target, self.forecast
        with law(score, "The entropy is concave."):
            middle = score.entropy((target + forecast) / 2)
            mean = (score.entropy(target) + score.entropy(forecast)) / 2
            need(middle >= mean - 1e-12 * (1 + np.abs(mean)), "H((q + s) / 2) < (H(q) + H(s)) / 2")
        with law(score, "The gradient is the gradient of the entropy."):
            centre = forecast.mean(axis=0)
            point = 0.5 * forecast + 0.5 * centre  # away from the border
            step = 1e-5 * (0.5 * target + 0.5 * centre - point)
            rise = score.entropy(point + step) - score.entropy(point - step)
            slope = 2 * np.sum(score.gradient(point) * step, axis=-1)
            scale = 1e-5 * (1 + np.abs(slope).max() / 1e-5)
            need_close(slope, rise, "slope against numerical slope", tolerance=1e-5, scale=scale)

    def loss_laws(self):
        """The expected loss: affine, and proper."""
        score, target, forecast, corners = self.score, self.target, self.forecast, self.corners
        with law(score, "The loss is affine in the target, and L(q, q) = H(q)."):
            mixed = score.loss(0.3 * target + 0.7 * self.labels, forecast)
            parts = 0.3 * score.loss(target, forecast) + 0.7 * score.loss(self.labels, forecast)
            scale = 1 + np.abs(parts).max()
            need_close(mixed, parts, "loss of a mixture", tolerance=1e-10, scale=scale)
            need_close(
                score.loss(target, target),
                score.entropy(target),
                "L(q, q) against H(q)",
                tolerance=1e-12,
            )
        with law(score, "Propriety: no forecast has a lower expected loss than the truth."):
            sets = [(target, forecast)]
            if corners is not None:
                sets += [(target, corners), (corners, forecast)]
            if corners is not None and len(corners) == 2:
                p = np.linspace(0, 1, 41)
                grid = np.column_stack([1 - p, p])
                sets.append((grid, grid))
                for label, sign in ((0, 1), (1, -1)):
                    partial = score.loss(np.tile(corners[label], (41, 1)), grid)
                    rises = sign * np.diff(partial[np.isfinite(partial)])
                    name = f"the partial loss of class {label} is not"
                    if score.strictly_proper:
                        need(rises > 0, f"{name} strictly monotone")
                    need(rises >= 0, f"{name} monotone")
            for targets, forecasts in sets:
                q, s = all_pairs(targets, forecasts)
                best = score.loss(q, q)
                excess = score.loss(q, s) - best
                need(
                    excess >= -1e-12 * (1 + np.abs(best)),
                    f"L(q, s) < L(q, q) by {-excess.min():.3g}",
                )

    def divergence_laws(self):
        """The divergence and its sums over partitions."""
        score, target, rng = self.score, self.target, self.rng
        with law(
            score,
            "The divergence is L(q, s) - H(q), not negative, and zero if (and only if) q = s.",
        ):
            q, s = all_pairs(target, self.forecast)
            divergence, derived = score.divergence(q, s), score.loss(q, s) - score.entropy(q)
            need_close(
                divergence,
                derived,
                "D(q, s) against L(q, s) - H(q)",
                tolerance=1e-12,
                scale=1 + np.abs(derived).max(),
            )
            need(divergence >= 0, f"a divergence of {divergence.min():.3g}")
            if score.strictly_proper:
                need(
                    divergence[np.abs(q - s).sum(axis=1) > 0.1] > 1e-13,
                    "D(q, s) = 0 for q and s that differ: proper, but not strictly",
                )
            same = score.divergence(target, target.copy())
            need_close(same, np.zeros(len(same)), "D(q, q) against zero", tolerance=1e-12)
        with law(score, "Pythagoras: mean divergences over nested partitions add up."):
            for bottom in [target] * 3 if self.corners is None else [target, self.labels] * 3:
                fine = rng.integers(len(target) // 4, size=len(target))
                weight, tower = rng.uniform(0.5, 2, size=len(target)), [bottom]
                for cells in (fine, fine % 5):
                    share = np.equal.outer(cells, cells) * weight
                    tower.append(share @ bottom / share.sum(axis=1, keepdims=True))
                first, second, whole = (
                    expected_divergence(score, tower[low], tower[high], weight)
                    for low, high in ((0, 1), (1, 2), (0, 2))
                )
                need_close(
                    first + second,
                    whole,
                    "two steps against one",
                    tolerance=1e-12,
                    scale=whole + np.abs(score.entropy(tower[2])).mean(),
                )

    def declaration_laws(self):
        """Corners of the simplex, and what a score declares."""
        score, target, forecast, corners = self.score, self.target, self.forecast, self.corners
        with law(score, "Probabilities of exactly 0 and 1 give neither NaN nor a warning."):
            if corners is not None:
                self.exact_corners()
        with law(
            score, "A declared infimum bounds the entropy from below and is attained at a corner."
        ):
            if score.infimum is not None and corners is not None:
                lowest, attained = score.entropy(forecast).min(), score.entropy(corners).min()
                need(lowest >= score.infimum - 1e-12, f"an entropy of {lowest:.6g} is below it")
                need_close(attained, score.infimum, "lowest entropy of a corner", tolerance=1e-12)
        with law(score, "If separable, the divergence is c times the squared distance."):
            if score.separable:
                q, s = all_pairs(target, forecast)
                distance = np.sum((q - s) ** 2, axis=1)
                ratio = score.divergence(q, s)[distance > 1e-6] / distance[distance > 1e-6]
                need_close(
                    ratio, np.full_like(ratio, ratio[0]), "D / |q - s|^2 varies", tolerance=1e-8
                )
        with law(
            score,
            "If jointly convex, the divergence of a mean of pairs is at most their mean "
            "divergence.",
        ):
            if score.jointly_convex:
                self.joint_convexity()

    def exact_corners(self):
        """Losses, divergences and entropies of probabilities that are exactly 0 or 1."""
        edges = np.vstack([self.corners, self.labels[:2] / 2 + self.labels[-2:] / 2])
        target, forecast = all_pairs(edges, np.vstack([edges, self.forecast[:2]]))
        with warnings.catch_warnings(), np.errstate(divide="warn", invalid="warn", over="warn"):
            warnings.simplefilter("error")
            for name in ("loss", "divergence"):
                need(~np.isnan(getattr(self.score, name)(target, forecast)), f"{name} is NaN")
            need(np.isfinite(self.score.entropy(edges)), "the entropy is not finite")
            zero = self.score.divergence(edges, edges.copy())
        need_close(zero, np.zeros(len(edges)), "D(q, q) against zero", tolerance=1e-12)

    def joint_convexity(self):
        """Divergences of means of pairs against mean divergences."""
        score, rng, targets, forecasts = self.score, self.rng, self.target, self.forecast
        if self.corners is not None:
            targets = np.vstack([targets, self.corners])
        for _ in range(20):
            first, second = (targets[rng.integers(len(targets), size=400)] for _ in range(2))
            left, right = (forecasts[rng.integers(len(forecasts), size=400)] for _ in range(2))
            share = rng.uniform(size=(400, 1))
            mean = score.divergence(
                share * first + (1 - share) * second, share * left + (1 - share) * right
            )
            bound = share[:, 0] * score.divergence(first, left)
            bound = bound + (1 - share[:, 0]) * score.divergence(second, right)
            excess = mean - bound
            need(
                excess <= 1e-12 * (1 + np.abs(bound)),
                f"D of a mean of pairs exceeds the mean of D by {excess.max():.3g}",
            )


def all_pairs(targets, forecasts):
    """All pairs of a target and a forecast, as two arrays of rows."""
    return np.repeat(targets, len(forecasts), axis=0), np.tile(forecasts, (len(targets), 1))


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
    with law(kernel, "It is a Kernel that equals its copies."):
        need(isinstance(kernel, Kernel), "an instance that derives from Kernel is needed")
        need(duplicate(kernel) == kernel, "a copy, as made by pickle, is not equal to it")
        bound = kernel.bound()
        need(isinstance(bound, float) and 0 <= bound < np.inf, f"bound() is {bound!r}")
    for k in n_classes:
        points = np.vstack([simplex_points(np.random.default_rng(random_state), 36, k), np.eye(k)])
        kernel_laws(kernel, np.vstack([points, points[::5]]))


def kernel_laws(kernel, points):
    """The laws of a kernel at points of a simplex, some of them equal."""
    n_columns, before, x = points.shape[1], duplicate(kernel), points.copy()
    with law(
        kernel,
        "for_data returns a kernel without parameters left to estimate, and changes nothing.",
    ):
        learned = kernel.for_data(x)
        need(kernel == before, "the kernel was changed")
        need(np.array_equal(x, points), "the forecasts were modified")
        need(isinstance(learned, Kernel), f"a Kernel is needed, got {learned!r}")
        again = learned.for_data(points[:3])
        need(again == learned, "what was learned changes with other forecasts")
    y, identity = points[3:10].copy(), np.eye(n_columns)
    with law(kernel, "Shapes are (n, m), pairs agree with them, and inputs are not modified."):
        terms = [(k, identity if m is None else m) for k, m in learned.terms(n_columns)]
        for term, matrix in terms:
            values = term(x, y)
            need(np.shape(values) == (len(x), 7), f"the shape is {np.shape(values)}")
            need(np.isfinite(values), "a value is not finite")
            pairs = term.pairs(x[:, None], y[None])
            need_close(pairs, values, "pairs(x, y) against k(x, y)", tolerance=1e-11)
            need(
                np.shape(matrix) == identity.shape,
                f"a matrix of shape {np.shape(matrix)} for {n_columns} columns",
            )
        need(np.array_equal(x, points) and np.array_equal(y, points[3:10]), "an input was modified")
    with law(kernel, "Values are symmetric."):
        for term, matrix in terms:
            need_close(
                term(points[:9], points), term(points, points[:9]).T, "k(s, s')", tolerance=1e-12
            )
            need_close(matrix, matrix.T, "the matrix and its transpose", tolerance=1e-12)
    with law(kernel, "The matrix of all values is positive semi-definite."):
        total = sum(np.kron(term(points, points), matrix) for term, matrix in terms)
        values = np.linalg.eigvalsh((total + total.T) / 2)
        need(
            values[0] >= -1e-9 * max(values[-1], 1e-300),
            f"an eigenvalue of {values[0]:.3g} next to {values[-1]:.3g}",
        )
    with law(kernel, "Values are bounded by bound()."):
        for point in points[:, None]:
            here = sum(term(point, point)[0, 0] * matrix for term, matrix in terms)
            largest, bound = np.linalg.norm(here, 2), kernel.bound()
            need(largest <= bound * (1 + 1e-9), f"{largest:.6g} exceeds the bound {bound:.6g}")


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
    with law(notion, "It is a Notion that reduces by the mean or the sum."):
        need(isinstance(notion, Notion), "an instance that derives from Notion is needed")
        need(notion.reduce in ("mean", "sum"), f"reduce is {notion.reduce!r}")
    laws_by_number = {
        k: NotionLaws(notion, k, np.random.default_rng(random_state)) for k in n_classes
    }
    for laws in accepted(notion, laws_by_number, NotionLaws.images):
        laws.problem_laws()
        laws.target_laws()


class NotionLaws:
    """Forecasts with ties and corners, expectations and one-hot labels, and the laws of notions."""

    def __init__(self, notion, n_classes, rng, n_samples=40):
        self.notion = notion
        forecast = self.forecast = simplex_points(rng, n_samples, n_classes)
        forecast[:n_classes] = np.eye(n_classes)
        forecast[n_classes : n_classes + 2] = forecast[-2]
        forecast[-3, :2] = forecast[-3, :2].mean()  # two classes are equally likely
        self.labels = np.eye(n_classes)[rng.integers(n_classes, size=n_samples)]
        self.target = rng.dirichlet(np.ones(n_classes), n_samples)

    def images(self, target=None, rows=slice(None)):
        """Images of some of the rows of the forecasts and of a target."""
        target = self.target if target is None else target
        return list(self.notion.problems(self.forecast[rows], target[rows]))

    def problem_laws(self):
        """The problems and their rows."""
        forecast, target = self.forecast.copy(), self.target.copy()
        with law(
            self.notion, "There are problems of two columns or more, and inputs are not modified."
        ):
            images = self.images()
            need(np.array_equal(forecast, self.forecast), "the forecast was modified")
            need(np.array_equal(target, self.target), "the target was modified")
            need(len(images) > 0, "there is no problem")
            for image, aim in images:
                need(
                    image.shape == aim.shape, f"shapes {image.shape} and {aim.shape} in one problem"
                )
                need(image.ndim == 2 and len(image) == len(forecast), f"shape {image.shape}")
                need(image.shape[1] >= 2, "a problem of a single column")
        with law(self.notion, "No mass is lost: all rows are probability vectors."):
            for image, aim in images:
                need_probabilities(image, "rows of the forecast")
                need_probabilities(aim, "rows of the target")

    def target_laws(self):
        """How the images depend on targets, forecasts and rows."""
        with law(self.notion, "Labels remain labels: one-hot targets give one-hot targets."):
            for _, aim in self.images(self.labels):
                need((aim == 0) | (aim == 1), "an entry between 0 and 1")
        with law(self.notion, "Calibrated forecasts remain calibrated."):
            for image, aim in self.images(self.forecast.copy()):
                need_close(image, aim, "images of equal forecasts and targets", tolerance=1e-12)
        with law(
            self.notion,
            "The image of the target is linear in it, that of the forecast does not depend on it.",
        ):
            mixture = 0.3 * self.target + 0.7 * self.labels
            triple = (self.images(target) for target in (self.target, self.labels, mixture))
            for (image, first), (again, second), (_, mixed) in zip(*triple, strict=True):
                need(
                    np.array_equal(image, again),
                    "the image of the forecast changes with the target",
                )
                need_close(
                    mixed, 0.3 * first + 0.7 * second, "target of a mixture", tolerance=1e-12
                )
        with law(self.notion, "The image of a row depends on that row only."):
            rows = np.arange(len(self.forecast))[::-3]
            for whole, part in zip(self.images(), self.images(rows=rows), strict=True):
                for before, after in zip(whole, part, strict=True):
                    need_close(after, before[rows], "image of some of the rows", tolerance=1e-12)


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
    with law(link, "It is a Link."):
        need(isinstance(link, Link), "an instance that derives from Link is needed")
    for k in accepted(link, {k: k for k in n_classes}, link.start):
        laws = LinkLaws(link, k, np.random.default_rng(random_state))
        laws.start_laws()
        laws.draw_parameters()
        laws.map_laws()
        laws.declaration_laws()


class LinkLaws:
    """Logits for the preparation, other logits with a wider range, parameters, and the laws."""

    def __init__(self, link, n_classes, rng):
        self.link, self.n_classes, self.rng = link, n_classes, rng
        self.logits = np.log(simplex_points(rng, 40, n_classes))

    def start_laws(self):
        """Preparation and start values."""
        link, logits, n_classes = self.link, self.logits.copy(), self.n_classes
        with law(link, "Prepare returns the link and does not modify the logits; copies agree."):
            need(link.prepare(logits) is link, "prepare does not return self")
            need(np.array_equal(logits, self.logits), "prepare modified the logits")
            start = link.start(n_classes)
            mapped = link.apply(start, logits)
            copy = duplicate(link).apply(start, logits)
            need_close(copy, mapped, "the map of a copy", tolerance=1e-12)
        with law(
            link,
            "Start gives the identity map up to a shift of each row, and lies within the bounds.",
        ):
            need(
                isinstance(start, np.ndarray) and start.ndim == 1,
                "start is not an array of shape (P,)",
            )
            need(np.isfinite(start), "start is not finite")
            need(np.array_equal(start, link.start(n_classes)), "start differs from call to call")
            shift = mapped - logits
            shift = shift - shift.mean(axis=1, keepdims=True)
            need_close(shift, 0 * shift, "apply(start, logits) - logits in a row", tolerance=1e-8)
            bounds = link.bounds(n_classes)
            if bounds is not None:
                need(len(bounds) == len(start), f"{len(bounds)} bounds for {len(start)} parameters")
                for value, (low, high) in zip(start, bounds, strict=True):
                    above, below = low is None or low <= value, high is None or value <= high
                    need(above and below, f"the bounds ({low}, {high}) exclude {value:.6g}")

    def draw_parameters(self):
        """Parameters within their bounds, with room for finite differences, and further logits."""
        rng, n_classes = self.rng, self.n_classes
        new = self.new = np.log(simplex_points(rng, 30, n_classes))
        new[:2] *= 3  # outside the range of the preparation
        new[2, :2] = new[2, :2].mean()  # two classes are equally likely
        new -= np.log(np.exp(new).sum(axis=1, keepdims=True))
        start = self.link.start(n_classes)
        bounds = self.link.bounds(n_classes)
        bounds = [(None, None)] * len(start) if bounds is None else bounds
        ends = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]
        low, high = np.array(ends).reshape(-1, 2).T
        gap = np.where(np.isfinite(high - low), 1e-3 * (high - low), 1e-3)
        self.thetas = [start.copy()]
        for scale, share in MOVES * 3:
            move = scale * rng.normal(size=len(start)) * (rng.random(len(start)) < share)
            self.thetas.append(np.clip(start + move, low + gap, high - gap))

    def map_laws(self):
        """The map of logits and its derivative."""
        link, new = self.link, self.new
        with law(link, "Stiffness has the shape of the parameters and is not negative."):
            stiffness, shape = np.asarray(link.stiffness(self.n_classes)), self.thetas[0].shape
            need(stiffness.shape == shape, f"shape {stiffness.shape}, expected {shape}")
            need(np.isfinite(stiffness) & (stiffness >= 0), "it must be finite and not negative")
        with law(link, "Apply keeps the shape, works row by row, and modifies nothing."):
            for theta in self.thetas:
                inputs = {"theta": theta, "logits": new}
                inputs["cotangent"] = self.rng.normal(size=new.shape)
                copies = [values.copy() for values in inputs.values()]
                mapped = link.apply(*copies[:2])
                link.vjp(*copies)
                need(mapped.shape == new.shape, f"{new.shape} became {mapped.shape}")
                need(np.isfinite(mapped), "the logits are not finite")
                for (name, before), after in zip(inputs.items(), copies, strict=True):
                    need(np.array_equal(after, before), f"{name} was modified")
                scale, some = 1 + np.abs(mapped).max(), link.apply(theta, new[::-3])
                need_close(some, mapped[::-3], "some of the rows", tolerance=1e-10, scale=scale)
        with law(link, "The vector-Jacobian product agrees with central differences."):
            for theta in self.thetas[:6]:
                for logits in (self.logits[:15], new[:15]):
                    self.differences(theta, logits)

    def differences(self, theta, logits):
        """The vector-Jacobian product against central differences."""
        cotangent = self.rng.normal(size=logits.shape)
        product = self.link.vjp(theta, logits, cotangent)
        need(np.shape(product) == theta.shape, f"shape {np.shape(product)}, not {theta.shape}")
        lengths, expected = 1e-5 * (1 + np.abs(theta)), []
        for step in np.diag(lengths):
            rise = self.link.apply(theta + step, logits) - self.link.apply(theta - step, logits)
            expected.append(np.sum(cotangent * rise) / (2 * step.sum()))
        scale = 1 + np.abs(expected).max()
        need_close(product, expected, "vjp against differences", tolerance=1e-6, scale=scale)

    def declaration_laws(self):
        """Laws for the parameters for which they are declared."""
        link, new = self.link, self.new
        with law(link, "If declared, the order of the classes is kept."):
            for theta in self.declared("preserves_order"):
                mapped = link.apply(theta, new)
                before = new[:, :, None] - new[:, None, :]
                after = mapped[:, :, None] - mapped[:, None, :]
                rounding = 1e-12 * (1 + np.abs(mapped).max())
                need(np.sign(before) * after >= -rounding, "two classes change places")
                need(np.abs(after[before == 0]) <= rounding, "two classes that were tied are not")
        with law(
            link, "If declared, the map is injective: its Jacobian determinant keeps its sign."
        ):
            for theta in self.declared("injective"):
                jacobian, noise = self.jacobian(theta)
                norms = np.linalg.norm(jacobian, axis=2)
                need(norms.max(axis=1) > noise, "the map is constant at a forecast")
                volume = np.linalg.det(jacobian / np.maximum(norms, noise)[:, :, None])
                clear = np.abs(volume) > 1e-6
                need(clear.any(), "the Jacobian determinant is zero everywhere")
                signs = np.unique(np.sign(volume[clear]))
                need(len(signs) == 1, "the Jacobian determinant changes its sign: the map folds")

    def declared(self, name):
        """The parameters for which a property is declared."""
        for theta in self.thetas:
            declared = getattr(self.link, name)(theta, self.n_classes)
            need(isinstance(declared, bool), f"{name} gives {declared!r}, not a bool")
            if declared:
                yield theta

    def jacobian(self, theta):
        """Derivatives (n, K-1, K-1) of output by input log-ratios to the last class, and noise."""
        ratios, h = self.new[:, :-1] - self.new[:, -1:], 1e-4

        def mapped(ratios):
            z = np.hstack([ratios, np.zeros((len(ratios), 1))])
            z = self.link.apply(theta, z - np.log(np.exp(z).sum(axis=1, keepdims=True)))
            return z[:, :-1] - z[:, -1:]

        steps = h * np.eye(ratios.shape[1])
        columns = [(mapped(ratios + step) - mapped(ratios - step)) / (2 * h) for step in steps]
        return np.stack(columns, axis=2), 1e-14 * (1 + np.abs(mapped(ratios)).max()) / h
