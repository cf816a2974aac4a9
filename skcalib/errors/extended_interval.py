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

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, hstack

from skcalib.clusters import independent_size, inflation
from skcalib.errors.averaged_interval import ErrorNorm, _orthonormal
from skcalib.errors.extension import Extension, indicators
from skcalib.links.basis import CONFUSION
from skcalib.scores import Brier
from skcalib.squared_norm import SquaredNorm, noise_cumulants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skcalib.errors.averaged import AveragedProblem
    from skcalib.scores import ProperScore

_PRICE = 0.12  # of the variance of the norm, that cells may add
_CONTAINED = 0.02  # share of a direction within cells, up to which they contain it
_NO_CHANGE = 1e-12  # mean squared change below which a map is the identity
_TINY, _LEAST = np.finfo(np.float64).tiny, 1e-60


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
    return SquaredNorm.from_mean(signal, raw, estimate, max(2 * second, _LEAST), 8 * third, between)


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

    Rows are pairs of a sample and a class, only the second one of two classes.
    """

    scale, gain = 1.0, 0.0

    def __init__(self, problem: AveragedProblem, extension: Extension, level: int) -> None:
        self.problem, self._extension = problem, extension
        self._n_columns = 1 if problem.forecast.shape[1] == 2 else problem.forecast.shape[1]
        self._code = extension.test.cells.at(level) if level else None
        n_cells = extension.test.cells.chains * level
        self._maps = self._kept_maps()
        names = set(problem.average.directions.names)
        self.blocks = problem.average.directions.of(names - (CONFUSION if level else set()))
        whole: Any = 0.0
        along: Any = 0.0
        totals: Any = 0.0
        for rows, block in self.blocks:
            x, e, omega = self._values(rows, block)
            weighted = (problem.share[rows, None] * omega)[:, :, None] * x
            size = x.shape[2]
            flat, errors = x.reshape(-1, size), problem.share[rows, None] * e
            whole = whole + flat.T @ weighted.reshape(-1, size)
            along = along + errors.ravel() @ flat
            if self._code is not None:
                star = problem.share[rows, None] * self._columns(extension.proba[rows])
                seen = problem.share[rows, None] * self._columns(
                    problem.residual(rows, extension.proba[rows])
                )
                one = problem.share[rows], problem.root[rows] ** 2
                given = [weighted, omega * one[0][:, None], errors, seen, star]
                given = [part.reshape(len(part), -1) for part in given]
                found = indicators(self._code[rows], n_cells).T @ np.column_stack([*given, *one])
                totals = totals + found
        self._set_cells(totals, n_cells, len(along))
        self._set_dense(whole, along)

    def _set_cells(self, totals, n_cells, size):
        c = self._n_columns
        if self._code is None:
            self.of_cells, self._between, self._errors = np.empty(0), None, None
            return
        ends = np.cumsum([c * size, c, c, c, c, 1, 1])
        crossed, gram, errors, seen, star, mass, square = (
            part.reshape(n_cells * c, -1) if k == 0 else part
            for k, part in enumerate(np.split(totals, ends[:-1], axis=1))
        )
        several = square < (1 - 1e-9) * mass**2
        self._factor = np.zeros_like(mass)
        np.divide(
            mass, np.sqrt(np.maximum(mass**2 - square, _TINY)), where=several, out=self._factor
        )
        filled = np.where(mass > 0, mass, 1.0)
        self._centre = seen / filled
        plain = gram + self._ridge
        whitened = self._moved(plain, errors, star / filled, filled)
        self._root = np.where(
            several & (whitened > 0), 1 / np.sqrt(np.maximum(whitened, _TINY)), 0.0
        )
        self.of_cells = self.scale * (errors * self._root).ravel()
        self._between = crossed / np.where(plain > 0, plain, 1.0).reshape(-1, 1)
        self._crossed, self._errors = crossed, errors.ravel()

    def _set_dense(self, whole, along):
        """Orthonormal directions of what the dense ones have within cells."""
        root = _orthonormal(whole)
        if self._between is not None:
            left = whole - self._crossed.T @ self._between
            along = along - self._errors @ self._between
            values, vectors = np.linalg.eigh(root.T @ left @ root)
            kept = values > _CONTAINED
            root = root @ (vectors[:, kept] / np.sqrt(values[kept]))
        self._dense = self.scale * root
        self.of_dense = along @ self._dense

    def noise(self, rows: Any, block: Any) -> tuple[csr_array, np.ndarray, np.ndarray]:
        """Noise of some samples on the cells and the dense directions, and their gains."""
        problem, extension, c = self.problem, self._extension, self._n_columns
        x, _, _ = self._values(rows, block)
        root = problem.root[rows, None]
        residual = self._columns(problem.residual(rows, extension.proba[rows]))
        spread = root / np.sqrt(1 - extension.leverage[rows, None])
        if self._code is None:
            dense = np.einsum("icj,ic->ij", x, spread * residual) @ self._dense
            return csr_array((len(dense), 0)), dense, self._gains(rows)
        code = self._code[rows]
        several = self._factor[code] > 0
        centred = np.where(several, (residual - self._centre[code]) * self._factor[code], residual)
        centred = spread * centred
        at = code[:, None] * c + np.arange(c)
        dense = np.einsum("icj,ic->ij", x, centred)
        dense -= (
            csr_array(
                (centred.ravel(), at.ravel(), c * np.arange(len(at) + 1)),
                shape=(len(at), len(self._between)),
            )
            @ self._between
        )
        values = self.scale * centred * self._root[code]
        shape = len(at), self.of_cells.size
        cells = csr_array((values.ravel(), at.ravel(), c * np.arange(len(at) + 1)), shape=shape)
        return cells, dense @ self._dense, self._gains(rows)

    _ridge = 0.0

    def _columns(self, values):
        """The columns (m, c) of values (m, K)."""
        return values[:, 1:] if self._n_columns == 1 else values

    def _kept_maps(self):
        problem, extension = self.problem, self._extension
        average = problem.average
        models = [average.affine] + [average.best] * (average.best is not average.affine)
        self._models = [one for one in models if len(one.proba)]
        maps = [one.proba for one in self._models]
        if extension.proba is not average.best.proba:
            maps.append(extension.proba)
        return [
            one
            for one in maps
            if problem.share @ np.sum((one - problem.forecast) ** 2, axis=1) > _NO_CHANGE
        ]

    def _moved(self, gram, errors, star, mass):
        return gram

    def _gains(self, rows):
        return 0.0

    def _changes(self, rows):
        start = self._extension.start[rows]
        return [
            one.change(self.problem.forecast[rows], start) for one in self._extension.transitions
        ]

    def _values(self, rows, block):
        """Directions (m, c, J), residuals (m, c) and their weights (m, c) in inner products."""
        problem, s = self.problem, self.problem.forecast[rows]
        g, p = block.values(), np.exp(block.log)
        if self._n_columns == 1:
            x = (p[:, 0] * p[:, 1])[:, None, None] * g
        else:
            x = p[:, :, None] * (g - np.einsum("ik,ikj->ij", p, g)[:, None])
        more = [one[rows] - s for one in self._maps] + self._changes(rows)
        x = np.concatenate([x, *(self._columns(d)[:, :, None] for d in more)], axis=2)
        e = self._columns(problem.residual(rows, s))
        return x, e, np.ones_like(e)


class LogDirections(BrierDirections):
    """Residuals of the corrected map, whitened by its information, and its gain of log loss.

    A cell whose mean differs from that of the map has the information in between: so half the
    squared norm is the Kullback-Leibler divergence up to third order.
    """

    scale = np.sqrt(0.5)

    def __init__(self, problem: AveragedProblem, extension: Extension, level: int) -> None:
        self._ridge = 1 / problem.average.size
        super().__init__(problem, extension, level)
        self.gain = float(problem.share @ self._gains(slice(None)))

    def _kept_maps(self):
        return []

    def _moved(self, gram, errors, star, mass):
        move = errors / (gram + self._ridge) * (gram - self._ridge) / mass / 3
        between, star = np.clip(star + move, 1e-12, 1.0), np.maximum(star, 1e-12)
        ratio = between / star
        if self._n_columns == 1:
            ratio *= (1 - np.minimum(between, 1 - 1e-12)) / np.maximum(1 - star, 1e-12)
        return (gram - self._ridge) * ratio + self._ridge

    def _gains(self, rows):
        return self.problem.log_gain(rows, self._extension.proba[rows])

    def _values(self, rows, block):
        star, g = self._extension.proba[rows], block.values()
        e = self._columns(self.problem.residual(rows, star))
        if self._n_columns == 1:
            return g, e, star[:, :1] * star[:, 1:]
        x = g - np.einsum("ik,ikj->ij", star, g)[:, None]
        changes = [(d / np.maximum(star, _TINY))[:, :, None] for d in self._changes(rows)]
        return np.concatenate([x, *changes], axis=2), e, star
