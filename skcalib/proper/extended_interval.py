r"""Intervals of the calibration errors with nested cells and transitions.

The squared norm of `averaged_interval` is that of the residuals on smooth directions V0. Here it is
that on V0 and on the indicators of cells, and of transitions between classes, with their noise. The
cells are orthogonal to each other. So only V0 is orthogonalised, within the cells: there are no
arrays of cells times samples. Directions that cells contain up to two per cent are left out.

The interval covers both, that of V0 alone and this one. So its coverage is at least that of either,
and a level that was chosen because its residuals are large by chance cannot raise the lower limit.

Cells enter where the residuals need them (`Extension`). For two classes they enter without being
needed if the variance that they add is small beside that of the error: at most a share of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, hstack

from skcalib.data.clusters import independent_size, inflation
from skcalib.links.basis import CONFUSION
from skcalib.proper.averaged_interval import _NO_CHANGE, _TINY, ErrorNorm, _orthonormal
from skcalib.proper.residual_tests import Extension, indicators
from skcalib.scores import Brier, ProperScore
from skcalib.stats.squared_norm import LEAST_NOISE, SquaredNorm, noise_cumulants

if TYPE_CHECKING:
    from skcalib.proper.map_average import AveragedProblem

_PRICE = 0.12  # of the variance of the norm, that cells may add
_CONTAINED = 0.02  # share of a direction within cells, up to which they contain it


def extended_norms(
    problems: Sequence[AveragedProblem],
    scores: Sequence[ProperScore],
    norms: Sequence[ErrorNorm],
    share: float,
) -> list[ErrorNorm]:
    """The norms with those of cells and transitions, where there are any."""
    extensions = [one for problem in problems if (one := problem.tested) is not None]
    if len(extensions) < len(problems):
        return list(norms)
    found = []
    for score, norm in zip(scores, norms, strict=True):
        levels = _levels(problems, extensions, norm, score, share)
        if not (any(levels) or any(one.found for one in extensions)):
            found.append(norm)
            continue
        wider = _wider(problems, extensions, levels, score, norm, share)
        if any(one.test.needed for one in extensions):  # a larger error allows more cells
            more = _levels(problems, extensions, wider, score, share)
            if more != levels:
                wider = _wider(problems, extensions, more, score, norm, share)
        found.append(replace(norm, wider=wider))
    return found


def _levels(problems, extensions, norm, score, share):
    """Levels of the cells of each problem: needed, or paid by the variance of the norm."""
    if problems[0].forecast.shape[1] > 2:  # where transitions are found, one cell for each class
        return [
            one.test.needed or int(bool(one.test.cells.levels) and one.found) for one in extensions
        ]
    log, paid = not isinstance(score, Brier), 0
    budget = _PRICE * (norm.noise2 + 4 * norm.slope * max(norm.estimate, 0.0))
    tests = [one.test for one in extensions]
    known = set.intersection(*(set(one.affordable(log=log)) for one in tests))
    for level in sorted(known):
        price = share**2 * sum(one.price(level, log=log) for one in tests)
        paid = level if price <= budget else paid
    return [max(one.test.needed, paid) for one in extensions]


def _wider(problems, extensions, levels, score, norm, share):
    kind = BrierDirections if isinstance(score, Brier) else LogDirections
    given = zip(problems, extensions, levels, strict=True)
    parts = [kind(*one) for one in given]
    gain = share * sum(one.gain for one in parts)
    mean = np.sqrt(share) * np.concatenate(
        [one.of_cells for one in parts] + [one.of_dense for one in parts]
    )
    noise = _Noise(problems[0], mean, sum(len(one.of_cells) for one in parts))
    for blocks in zip(*(one.blocks for one in parts), strict=True):
        rows = blocks[0][0]
        found = [one.noise(*at) for one, at in zip(parts, blocks, strict=True)]
        cells, dense, gains = zip(*found, strict=True)
        own = 0.5 * problems[0].root[rows] * (share * sum(gains) - gain)
        noise.add(
            rows,
            np.sqrt(share) * hstack(cells, format="csr"),
            np.sqrt(share) * np.hstack(dense),
            own,
        )
    first, second, third, signal = noise.moments
    squared = float(mean @ mean)
    estimate = gain + squared - first
    raw = max(gain + squared, first) if gain else squared
    between = norm.between if isinstance(score, Brier) else 0.0
    return SquaredNorm.from_mean(
        signal, raw, estimate, max(2 * second, LEAST_NOISE), 8 * third, between
    )


class _Noise:
    """Traces of powers of the covariance of the mean on cells (sparse) and dense directions."""

    def __init__(self, problem, mean, n_cells):
        self._problem, self._mean, self._n = problem, mean, n_cells
        n_dense = len(mean) - n_cells
        self._signal, self._own = 0.0, csr_array((n_cells, n_cells))
        self._cross, self._dense = np.zeros((n_cells, n_dense)), np.zeros((n_dense, n_dense))
        if problem.cluster is not None:
            n_clusters = int(problem.cluster.max()) + 1
            self._sums, self._gain = np.zeros((n_clusters, len(mean))), np.zeros(n_clusters)

    def add(self, rows, cells, dense, own):
        """Rows of noise on cells and on dense directions, and half the gains."""
        if self._problem.cluster is not None:
            chosen = indicators(self._problem.cluster[rows], len(self._sums)).T
            self._sums[:, : self._n] += (chosen @ cells).toarray()
            self._sums[:, self._n :] += chosen @ dense
            self._gain += chosen @ own
            return
        along = cells @ self._mean[: self._n] + dense @ self._mean[self._n :] + own
        self._signal += float(along @ along)
        self._own = self._own + cells.T @ cells
        self._cross += cells.T @ dense
        self._dense += dense.T @ dense

    @property
    def moments(self):
        """Traces of the covariance, its square and its cube, and the variance along the mean."""
        if self._problem.cluster is not None:
            size = independent_size(self._problem.weight, cluster=self._problem.cluster)
            factor = inflation(size)
            noise2, noise3 = noise_cumulants(self._sums)
            along = self._sums @ self._mean + self._gain
            first = factor * float(np.sum(self._sums**2))
            noise = factor**2 * noise2 / 2, factor**3 * noise3 / 8
            return first, *noise, factor * float(along @ along)
        a, b, d = self._own, self._cross, self._dense
        first = float(a.diagonal().sum() + np.trace(d))
        second = float(a.power(2).sum() + 2 * np.sum(b**2) + np.sum(d**2))
        third = float(((a @ a) * a).sum() + 3 * np.sum((a @ b) * b) + 3 * np.sum(d * (b.T @ b)))
        return first, second, third + float(np.sum((d @ d) * d)), self._signal


class BrierDirections:
    """Residuals Y - S on cells, tangents at S, changes by maps, and transitions.

    Rows are pairs of a sample and a class, only the second one of two classes. ``of_cells`` and
    ``of_dense`` are the coefficients of the mean residual on orthonormal directions.
    """

    scale, ridge, gain = 1.0, 0.0, 0.0

    def __init__(self, problem: AveragedProblem, extension: Extension, level: int) -> None:
        self.problem, self._extension, cells = problem, extension, extension.test.cells
        self._c = c = 1 if problem.forecast.shape[1] == 2 else problem.forecast.shape[1]
        self._code = cells.at(level) if level else np.zeros(len(problem.weight), dtype=int)
        self._maps, names = self._changed(), set(problem.average.directions.names)
        self.blocks = problem.average.directions.of(names - (CONFUSION if level else set()))
        n_cells, whole, along, totals = max(cells.chains * level, 1), 0.0, 0.0, 0.0
        for rows, block in self.blocks:
            x, e, omega = self._values(rows, block)
            share, flat = problem.share[rows, None], x.reshape(-1, x.shape[2])
            weighted, errors = (share * omega)[:, :, None] * x, share * e
            whole = whole + flat.T @ weighted.reshape(flat.shape)
            along = along + errors.ravel() @ flat
            star = extension.proba[rows]
            seen = share * self._columns(problem.residual(rows, star))
            parts = weighted.reshape(len(x), -1), share * omega, errors, seen
            rest = share * self._columns(star), share, problem.root[rows, None] ** 2
            own = indicators(self._code[rows], n_cells).T
            totals = totals + own @ np.hstack([*parts, *rest])
        ends = np.cumsum([c * x.shape[2], c, c, c, c, 1])
        crossed, gram, errors, seen, star, mass, square = np.split(totals, ends, axis=1)
        several = (square < (1 - 1e-9) * mass**2) & (level > 0)
        mass = np.where(mass > 0, mass, 1.0)
        self._factor = np.where(several, mass / np.sqrt(np.maximum(mass**2 - square, _TINY)), 0.0)
        self._centre = seen / mass
        whitened = self._between(gram, errors, star / mass, mass) + self.ridge
        self._root = self.scale * several / np.sqrt(np.where(whitened > 0, whitened, np.inf))
        self.of_cells = (errors * self._root).ravel()
        gram = np.where((level > 0) & (gram > 0), gram + self.ridge, np.inf)
        crossed = crossed.reshape(n_cells * c, -1)
        self._inside = crossed / gram.reshape(-1, 1)
        # Orthonormal directions of what the dense ones have within cells.
        root = _orthonormal(whole)
        values, vectors = np.linalg.eigh(root.T @ (whole - crossed.T @ self._inside) @ root)
        kept = values > _CONTAINED
        self._dense = self.scale * root @ (vectors[:, kept] / np.sqrt(values[kept]))
        self.of_dense = (along - errors.ravel() @ self._inside) @ self._dense

    def noise(self, rows: Any, block: Any) -> tuple[csr_array, np.ndarray, Any]:
        """Noise of some samples on the cells and the dense directions, and their gains."""
        problem, extension, code, c = self.problem, self._extension, self._code[rows], self._c
        residual = self._columns(problem.residual(rows, extension.proba[rows]))
        factor = self._factor[code]
        residual = np.where(factor > 0, (residual - self._centre[code]) * factor, residual)
        residual *= problem.root[rows, None] / np.sqrt(1 - extension.leverage[rows, None])
        at, starts = code[:, None] * c + np.arange(c), c * np.arange(len(code) + 1)

        def sparse(values):
            """Values (m, c) at the cells of their samples."""
            parts = values.ravel(), at.ravel(), starts
            return csr_array(parts, shape=(len(code), len(self._inside)))

        dense = np.einsum("icj,ic->ij", self._values(rows, block)[0], residual)
        dense -= sparse(residual) @ self._inside
        return sparse(residual * self._root[code]), dense @ self._dense, self._gains(rows)

    def _columns(self, values):
        """The columns (m, c) of values (m, K)."""
        return values[:, -self._c :]

    def _changed(self):
        """Forecasts (n, K) of maps that change anything."""
        average, s = self.problem.average, self.problem.forecast
        maps = [average.affine.proba, average.best.proba, self._extension.proba]
        maps = [
            p for k, p in enumerate(maps) if len(p) == len(s) and all(p is not q for q in maps[:k])
        ]
        return [p for p in maps if self.problem.share @ np.sum((p - s) ** 2, axis=1) > _NO_CHANGE]

    def _changes(self, rows):
        """Changes (m, K) by the transitions."""
        forecast, start = self.problem.forecast[rows], self._extension.start[rows]
        return [one.change(forecast, start) for one in self._extension.transitions]

    def _values(self, rows, block):
        """Directions (m, c, J), residuals (m, c) and their weights (m, c) in inner products."""
        s = self.problem.forecast[rows]
        more = [one[rows] - s for one in self._maps] + self._changes(rows)
        x = [block.tangents(np.exp(block.log)), *(self._columns(d)[:, :, None] for d in more)]
        e = self._columns(self.problem.residual(rows, s))
        return np.concatenate(x, axis=2), e, np.ones_like(e)

    def _between(self, gram, errors, star, mass):
        """Inner products of the cells with themselves."""
        return gram

    def _gains(self, rows):
        """Gains (m,) of the loss by the map at which the residuals are."""
        return 0.0


class LogDirections(BrierDirections):
    """Residuals of the corrected map, whitened by its information, and its gain of log loss.

    A cell whose mean differs from that of the map has the information in between: so half the
    squared norm is the Kullback-Leibler divergence up to third order.
    """

    scale = np.sqrt(0.5)

    def __init__(self, problem: AveragedProblem, extension: Extension, level: int) -> None:
        self.ridge = 1 / problem.average.size
        super().__init__(problem, extension, level)
        self.gain = float(problem.share @ self._gains(slice(None)))

    def _changed(self):
        return []

    def _values(self, rows, block):
        star, g = self._extension.proba[rows], block.values()
        e = self._columns(self.problem.residual(rows, star))
        if self._c == 1:
            return g, e, star[:, :1] * star[:, 1:]
        x = g - np.einsum("ik,ikj->ij", star, g)[:, None]
        changes = [(d / np.maximum(star, _TINY))[:, :, None] for d in self._changes(rows)]
        return np.concatenate([x, *changes], axis=2), e, star

    def _between(self, gram, errors, star, mass):
        move = errors / (gram + 2 * self.ridge) * gram / mass / 3
        between, star = np.clip(star + move, 1e-12, 1.0), np.maximum(star, 1e-12)
        ratio = between / star
        if self._c == 1:
            ratio *= np.maximum(1 - between, 1e-12) / np.maximum(1 - star, 1e-12)
        return gram * ratio

    def _gains(self, rows):
        return self.problem.log_gain(rows, self._extension.proba[rows])
