r"""What the residuals of averaged maps show beyond them: jumps, and classes that are confused.

The directions of a `ModelAverage` are smooth. An `Extension` corrects its best map where the
residuals are not noise.

- **Nested cells.** The forecasts of two classes are divided into J = 16, 32, ... intervals, those
  of more by the one or two most likely classes, and into J = 1, 2, ... intervals of the largest
  forecast. At each J the mean residuals of the cells are tested. The finest J that is needed gives
  each cell shifts of the log probabilities, whose prior gives the log odds the variance one.
- **More classes: transitions.** A share :math:`\tau_{ab}` of the probability of a class a belongs
  to another class b, for all samples or where a is predicted with at least some probability:

  .. math:: C = S + \sum_{a, b} \tau_{ab}\, 1_{ab}(S)\, S_a (e_b - e_a) .

  A pair is kept if its gain of log likelihood exceeds :math:`\tfrac12 \log(n / 15) + \log(5 K (K -
  1))`: five sets of samples are tried for each pair. At most twelve are kept, and fitted together.
  The residuals that are left are tested in cells.

The test of a level is that of the squared norm of the mean residuals, whitened by their information
plus that of one sample. Its variance is that of labels from the map, not that of the residuals
seen: a single label of small probability would inflate the latter. The p-values of the levels are
combined as by Cauchy's distribution. If they reject, the coarsest level with a p-value near
the smallest is needed; if they clearly reject, the finest level that adds to the one before.

**Intervals.** The squared norm of `map_average` is that of the residuals on smooth directions V0.
Here it is that on V0 and on the indicators of cells, and of transitions between classes, with their
noise. The cells are orthogonal to each other. So only V0 is orthogonalised, within the cells: there
are no arrays of cells times samples. Directions that cells contain up to two per cent are left out.

The interval covers both, that of V0 alone and this one. So its coverage is at least that of either,
and a level that was chosen because its residuals are large by chance cannot raise the lower limit.

Cells enter where the residuals need them. For two classes they enter without being needed if the
variance that they add is small beside that of the error: at most a share of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack
from scipy.spatial import cKDTree
from scipy.special import expit, log_softmax, softmax

from skcalib.data.clusters import cluster_sums, independent_size, inflation
from skcalib.links.averaging import PRIOR, Model, identity_model
from skcalib.links.basis import CONFUSION, FEW_CLASSES
from skcalib.links.newton import row_blocks
from skcalib.scores import Brier, ProperScore
from skcalib.stats.means import ranked_above
from skcalib.stats.squared_norm import LEAST_NOISE, SquaredNorm, noise_cumulants

NO_CHANGE = 1e-12  # mean squared change below which a map is the identity
TINY = np.finfo(np.float64).tiny
_FLAT = 1e-6  # relative eigenvalues of directions that are left out
_LEAST_SAMPLES = 50  # for which an extension is sought
_COARSEST, _PER_CELL = 16, 8  # cells of two classes; least samples of a cell
_ROUNDING = 1e-9  # of the places of ties at the end of a cell
_PER_CLUSTER = 4  # least clusters for each cell
_INFORMATION = 4.0  # least information of a cell, in mean over cells
_LEVEL = 0.03  # of the combined test
_CLEAR, _FINER = 1e-4, 0.05  # p-values of a clear effect, and of what a finer level adds to it
_UNRESOLVED, _LARGE = 0.002, 0.5  # level, and share of the signal, of the finest cells
_RATES = np.array([0.01, 0.02, 0.04, 0.07, 0.12, 0.2, 0.35])  # at which gains are tried
_QUANTILES = (0.0, 0.25, 0.5, 0.75)  # of the forecast, from which on a transition may begin
_MOST_PAIRS, _FEWEST_SAMPLES = 12, 20
_LEAST_ODDS = 2.0  # log odds of transitions against the averaged maps
_LEAST_RATE = 0.003  # below it a transition is left out
_PRIOR_ODDS = 100.0  # against shifts in cells
_NEIGHBOURS, _MOST_ROWS = 50, 30_000  # of each forecast, at most a twentieth of the rows
_STEPS = 30  # of Newton's method
_PRICE = 0.12  # of the variance of the norm, that cells may add
_CONTAINED = 0.02  # share of a direction within cells, up to which they contain it


class Transition(NamedTuple):
    """A share `rate` of the probability of class `source` that belongs to class `target`.

    It holds where `source` is predicted with a probability of at least `above`, or everywhere
    (None).
    """

    source: int
    target: int
    above: float | None
    rate: float

    def predicted(self, forecast: np.ndarray) -> np.ndarray:
        """Where (m,) the source is the most likely class, with at least `above` if that is set."""
        likely = forecast.argmax(axis=1) == self.source
        return likely & (forecast[:, self.source] >= (self.above or 0.0))

    def mass(self, forecast: np.ndarray, proba: np.ndarray) -> np.ndarray:
        """Probability (m,) of the source where the transition holds."""
        whole = proba[:, self.source]
        return whole if self.above is None else whole * self.predicted(forecast)

    def change(self, forecast: np.ndarray, proba: np.ndarray) -> np.ndarray:
        """Change (m, K) of the probabilities for a rate of one."""
        change = np.zeros_like(proba)
        change[:, self.target] = self.mass(forecast, proba)
        change[:, self.source] = -change[:, self.target]
        return change


@dataclass(frozen=True)
class Extension:
    """The best of the averaged maps with what its residuals show.

    ``base`` is the model that is corrected, perhaps the identity, with the forecasts ``start`` (n,
    K). ``proba`` (n, K) are the corrected ones, ``leverage`` (n,) that of each sample in all fits.
    ``inverse`` (r, r) is the inverse information of the rates, ``shifts`` (M, K, K) that of the
    shifts in each cell, empty without any. ``share`` is the weight of the extension beside the
    averaged maps. ``test`` is that of the residuals: for several classes, of the map with the
    transitions.
    """

    base: Model
    start: np.ndarray
    proba: np.ndarray
    leverage: np.ndarray
    inverse: np.ndarray
    shifts: np.ndarray
    share: float
    transitions: tuple[Transition, ...]
    test: Any = None

    @property
    def found(self) -> bool:
        """Whether there is anything beyond the averaged maps."""
        return bool(self.test.needed or self.transitions)

    @classmethod
    def of(cls, problem: Any) -> Extension | None:
        """Test the residuals; None for few samples, one class, or more than twenty classes."""
        average, n_classes = problem.average, problem.forecast.shape[1]
        if not 1 < n_classes <= FEW_CLASSES or average.size < _LEAST_SAMPLES:
            return None
        kinds = [NestedCells(problem)]
        if n_classes > 2:
            kinds.append(NestedCells(problem, pairs=True))
        kinds = [cells for cells in kinds if cells.levels] or kinds[:1]
        base, start = average.best, average.best.proba
        if len(start) != len(problem.forecast):  # not kept
            start = np.empty_like(problem.forecast)
            for rows, block in average.directions:
                start[rows] = problem.corrected(base, rows, block)
        leverage, tangents = _fit_of_base(problem, base, start, kinds)
        fits = [[(sums, base.covariance)] for sums in tangents]
        extension = cls(
            base,
            start,
            proba=start,
            leverage=leverage,
            inverse=np.empty((0, 0)),
            shifts=np.empty((0, n_classes, n_classes)),
            share=0.0,
            transitions=(),
        )
        if n_classes > 2 and problem.cluster is None:
            fit = _best_transitions(problem, base, start)
            if fit is not None and fit.log_odds > _LEAST_ODDS:
                extension, changes = extension._with_transitions(problem, fit)
                along = problem.share[:, None, None] * changes
                fits = [
                    [*(fits_of_base if fit.base.groups else []), (cells.total(along), fit.inverse)]
                    for fits_of_base, cells in zip(fits, kinds, strict=True)
                ]
        sums = residual_sums(kinds, problem, extension.proba)
        tests = [
            ResidualTest(cells, problem, extension.proba, own_sums, own_fits, trials=len(kinds))
            for cells, own_sums, own_fits in zip(kinds, sums, fits, strict=True)
        ]
        extension = replace(extension, test=min(tests, key=lambda test: test.pvalue))
        if extension.test.needed and problem.cluster is None:
            extension = extension._with_shifts(problem)
        return replace(extension, leverage=np.clip(extension.leverage, 0.0, 0.5))

    def _with_transitions(self, problem, fit):
        """The extension by fitted transitions, and their changes (n, K, r) for rates of one."""
        changes = [transition.change(problem.forecast, fit.start) for transition in fit.transitions]
        changes = np.stack(changes, axis=2)
        score = changes / np.sqrt(np.maximum(fit.proba, TINY))[:, :, None]
        form = np.einsum("ikj,ikj->i", score @ fit.inverse, score)
        leverage = problem.average.unit * form / (fit.proba.shape[1] - 1)
        leverage = leverage + (self.leverage if fit.base.groups else 0.0)
        extension = replace(
            self,
            base=fit.base,
            start=fit.start,
            proba=fit.proba,
            leverage=leverage,
            inverse=fit.inverse,
            share=float(expit(fit.log_odds)),
            transitions=fit.transitions,
        )
        return extension, changes

    def _with_shifts(self, problem):
        """The extension by shifts in the cells that are needed, if these have more weight."""
        average, n_classes = problem.average, self.proba.shape[1]
        code = self.test.cells.at(self.test.needed)
        gain, proba, shifts = _fit_shifts(problem, self.proba, code)
        n_parameters = (n_classes - 1) * len(np.unique(code))
        prior = np.log(_PRIOR_ODDS) if n_classes > 2 else 0.0  # two kinds of cells were tried
        odds = gain - PRIOR.cost(gain, n_parameters, average.size) - prior
        # The largest probability of an effect with a p-value (Sellke et al., 2001).
        p, posterior = self.test.pvalue, 1.0
        if 0 < p < 1 / np.e:
            posterior = 1 / (1 - _PRIOR_ODDS * np.e * p * np.log(p))
        share = max(float(expit(odds)), (1 - float(average.shares[0])) * posterior)
        if share <= min(self.share, 0.5):
            return self
        q, of_cell = proba, shifts[code]
        form = np.einsum("ia,iaa->i", q, of_cell) - np.einsum("ia,iab,ib->i", q, of_cell, q)
        leverage = self.leverage + average.unit * form / (n_classes - 1)
        share = max(share, self.share)
        return replace(self, proba=proba, share=share, shifts=shifts, leverage=leverage)

    def optimism(self, problem: Any, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Optimism of the shifts or rates at some samples, beside that of the base.

        For the Brier score without its factor, and for the log loss, as those of the models.
        """
        p, unit = self.proba[rows], problem.average.unit[rows]
        residual = problem.residual(rows, p)
        brier = log = np.zeros(len(p))
        if len(self.shifts):
            of_cell = self.shifts[self.test.cells.at(self.test.needed)[rows]]
            image = np.einsum("iab,ib->ia", of_cell, residual)
            moved = p * (image - np.einsum("ia,ia->i", p, image)[:, None])
            brier, log = (np.einsum("ia,ia->i", residual, step) for step in (moved, image))
        if self.transitions:
            forecast, start = problem.forecast[rows], self.start[rows]
            target = problem.targets(rows) / np.maximum(p, TINY)
            changes = [transition.change(forecast, start) for transition in self.transitions]
            score = np.stack([np.einsum("ik,ik->i", target, d) for d in changes], axis=1)
            along = np.stack([np.einsum("ik,ik->i", residual, d) for d in changes], axis=1)
            image = score @ self.inverse
            brier = brier + np.einsum("ij,ij->i", along, image)
            log = log + np.einsum("ij,ij->i", score, image)
        factor = unit / (1 - self.leverage[rows])
        return factor * brier, 0.5 * factor * log

    def missing(self, problem: Any, level: float = _UNRESOLVED) -> float:
        """Squared norm that the map and its cells leave out of the error of several classes.

        The mean product of the residual of each forecast and those of its neighbours, after the
        means of the cells that are needed. It estimates the squared norm of the local means, so at
        most what is left out. It is 0 if labels from the map have as large a product at this level.
        """
        n_rows, n_classes = self.proba.shape
        rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _MOST_ROWS)).astype(int))
        size = min(_NEIGHBOURS, len(rows) // 20)
        if n_classes == 2 or problem.cluster is not None or size == 0:
            return 0.0
        p, share = self.test.proba, problem.share
        residual = problem.residual(slice(None), p)
        code = self.test.cells.at(self.test.needed) if self.test.needed else None
        square = problem.root**2 * problem.average.dispersion
        pulled = np.zeros(n_rows)  # variance that the means of the cells take from products
        if code is not None:
            inside = indicators(code, code.max() + 1).T
            spread = square * (1 - np.einsum("ik,ik->i", p, p))
            mass = inside @ share
            mass = np.where(mass > 0, mass, 1.0)
            residual = residual - (inside @ (share[:, None] * residual) / mass[:, None])[code]
            pulled = spread / share / mass[code] - (inside @ spread / mass**2 / 2)[code]
        forecast = problem.forecast[rows]
        tree, total, weight, variance = cKDTree(forecast), 0.0, 0.0, 0.0
        for some in row_blocks(forecast, n_classes * size):
            near = tree.query(forecast[some], size + 1)[1]
            i, j = np.repeat(rows[some], size + 1), rows[near.ravel()]
            i, j = i[i != j], j[i != j]
            h, q, r = share[i] * share[j], p[i], p[j]
            product = np.einsum("ik,ik->i", residual[i], residual[j])
            if code is not None:
                product += (code[i] == code[j]) * (pulled[i] + pulled[j])
            both = np.einsum("ik,ik,ik->i", q, r, 1 - q - r) + np.einsum("ik,ik->i", q, r) ** 2
            total, weight = total + float(h @ product), weight + float(h.sum())
            variance += 2 * float((square[i] * square[j]) @ both)
        law = SquaredNorm(total, max(variance, LEAST_NOISE), 0.0, 0.0)
        return total / weight if law.pvalue < level else 0.0


# --- Nested cells ---------------------------------------------------------------------------------


class NestedCells:
    """A partition of forecasts, and all coarser ones; forecasts that are equal share a cell.

    Two classes: intervals of equal measure, the mean of the distribution function of the samples
    and that of their information, so that cells reach into the tails. More: the most likely class,
    with ``pairs`` the two most likely ones, and intervals of equal mass of the largest forecast.
    ``levels`` are the numbers of intervals, each the double of the one before, of every one of the
    ``chains``.
    """

    def __init__(self, problem: Any, *, pairs: bool = False) -> None:
        forecast, share, size = problem.forecast, problem.share, problem.average.size
        n_samples, n_classes = forecast.shape
        self.n_classes, self.finest, intervals = n_classes, 0, np.inf
        if n_classes == 2:
            information = share * forecast[:, 0] * forecast[:, 1]
            most, self.chains, coarsest = size / _PER_CELL, 1, _COARSEST
            place = _place(forecast[:, 1], share)
            if information.any():
                place = (place + _place(forecast[:, 1], information)) / 2
            top = np.zeros(n_samples, dtype=int)
        else:
            top, coarsest, place = forecast.argmax(axis=1), 1, np.empty(n_samples)
            largest, self.chains = forecast[np.arange(n_samples), top], n_classes
            if pairs:
                others = forecast.copy()
                others[np.arange(n_samples), top] = -1.0
                top, self.chains = top * n_classes + others.argmax(axis=1), n_classes**2
            n_chains = n_classes * (n_classes - 1) if pairs else n_classes
            most = size ** (2 / 3) / (n_chains * (n_classes - 1))
            for k in np.unique(top):
                rows = np.flatnonzero(top == k)
                place[rows] = _place(largest[rows], share[rows])
            counts = size * np.bincount(top, share, minlength=self.chains) / _PER_CELL
            intervals = 2 ** np.floor(np.log2(np.maximum(counts, 1.0))).astype(int)[top]
        if most >= coarsest:
            self.finest = 2 ** int(np.log2(most))
        self.levels = [1 << k for k in range(31) if coarsest <= 1 << k <= self.finest]
        finest = max(self.finest, 1)
        intervals = np.minimum(intervals, finest).astype(int)
        interval = np.minimum((place * intervals + _ROUNDING).astype(int), intervals - 1)
        self._code = top * finest + interval * (finest // intervals)

    def at(self, level: int) -> np.ndarray:
        """The cell of each sample at a level, (n,)."""
        return self._code // (self.finest // level)

    def total(self, values: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        """Sums (M, ...) of values (n, ...) over the finest cells."""
        code, n_cells = self._code[rows], self.chains * self.finest
        if not n_cells:
            return np.zeros((0, *values.shape[1:]))
        if values.ndim == 1:
            return np.bincount(code, values, minlength=n_cells)
        flat = indicators(code, n_cells).T @ values.reshape(len(code), -1)
        return flat.reshape(n_cells, *values.shape[1:])

    def fold(self, sums: np.ndarray, level: int) -> np.ndarray:
        """Sums over the cells of a level, from those over the finest cells."""
        shape = self.chains * level, self.finest // level, *sums.shape[1:]
        return sums.reshape(shape).sum(axis=1)


def indicators(code: np.ndarray, n_cells: int) -> csr_array:
    """Sparse indicators (n, M) of the cell of each sample."""
    n_samples = len(code)
    parts = np.ones(n_samples), code, np.arange(n_samples + 1)
    return csr_array(parts, shape=(n_samples, n_cells))


def at_cells(values: np.ndarray, code: np.ndarray, n_columns: int) -> csr_array:
    """Sparse (n, M): values (n, c) at the c columns of the cell of each sample."""
    c = values.shape[1]
    columns = code[:, None] * c + np.arange(c)
    starts = c * np.arange(len(code) + 1)
    return csr_array((values.ravel(), columns.ravel(), starts), shape=(len(code), n_columns))


def _place(value, mass):
    """The distribution function at each value, in the middle of its jump."""
    _, rank = np.unique(value, return_inverse=True)
    return ranked_above(rank, rank, mass)


@dataclass
class ResidualSums:
    """Sums over the finest cells: of residuals, their law under the map, and shares.

    Residuals and their information are (M, c), squares of residuals too. Their noise is (M, c, c),
    ``noise_squares`` and the third moments ``skewed`` are those of single samples, and shares (M,).
    Of two classes there is the second one only.
    """

    residual: Any = 0.0
    information: Any = 0.0
    squares: Any = 0.0
    noise: Any = 0.0
    noise_squares: Any = 0.0
    skewed: Any = 0.0
    share: Any = 0.0

    def add(self, cells: NestedCells, rows: slice, values: dict[str, np.ndarray]) -> None:
        """Add values of some rows, by the names of the fields."""
        for name, value in values.items():
            setattr(self, name, getattr(self, name) + cells.total(value, rows))


def residual_sums(
    kinds: Sequence[NestedCells], problem: Any, proba: np.ndarray
) -> list[ResidualSums]:
    """The sums of each kind of cells, from one pass over the residuals of a map (n, K)."""
    binary = proba.shape[1] == 2
    sums = [ResidualSums() for _ in kinds]
    for rows in row_blocks(proba, proba.shape[1] ** 2) if kinds[0].levels else ():
        p, e = proba[rows], problem.residual(rows, proba[rows])
        share, square = problem.share[rows], problem.root[rows] ** 2
        if binary:
            e, information = e[:, 1:], (p[:, 0] * p[:, 1])[:, None]
            noise = information[:, :, None]
        else:
            information = p
            noise = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None])
        noise = problem.average.dispersion * square[:, None, None] * noise
        sample_share = problem.sample_share[rows, None]
        variance = np.einsum("iaa->ia", noise)
        values = {
            "residual": share[:, None] * e,
            "information": share[:, None] * information,
            "squares": square[:, None] * e**2,
            "noise": noise,
            "noise_squares": sample_share / share[:, None] * variance**2,
            "skewed": sample_share * variance * (1 - 2 * (p[:, 1:] if binary else p)),
            "share": share,
        }
        for own_sums, cells in zip(sums, kinds, strict=True):
            own_sums.add(cells, rows, values)
    return sums


class ResidualTest:
    """Tests of the residuals of a map in the cells of every level.

    `sums` are `residual_sums`. `fits` are pairs of sums of tangents over the finest cells, and the
    covariance of their parameters: residuals of a fit are smaller than those of the true map.
    """

    def __init__(
        self,
        cells: NestedCells,
        problem: Any,
        proba: np.ndarray,
        sums: ResidualSums,
        fits: Sequence[tuple[np.ndarray, np.ndarray]],
        trials: int = 1,
    ) -> None:
        self.cells, self.proba = cells, proba
        self._sums, self._fits, self._trials = sums, fits, trials
        self._size, self._clusters = problem.average.size, None
        if problem.cluster is not None and cells.levels:
            residual = problem.share[:, None] * problem.residual(slice(None), proba)
            self._clusters = residual[:, -sums.residual.shape[1] :], problem.cluster
        self.levels = [(level, self._norm(level)) for level in self.affordable(log=True)]

    def affordable(self, *, log: bool) -> list[int]:
        """Levels with enough clusters; of two classes, with enough information for the log loss."""
        levels, most = self.cells.levels, [np.inf]
        if not levels:
            return levels
        if self._clusters is not None:
            most.append((int(self._clusters[1].max()) + 1) / _PER_CLUSTER)
        if log and self.cells.n_classes == 2:
            information = float(self._sums.information.sum()) * self._size
            most += [self._size ** (2 / 3), information / _INFORMATION]
        return [level for level in levels if level <= min(most)]

    def _norm(self, level):
        """Law of the squared norm of the whitened mean residuals in the cells of a level."""
        fold, sums = self.cells.fold, self._sums
        whitened = fold(sums.information, level) + 1 / self._size
        if self._clusters is not None:
            residual, cluster = self._clusters
            code = self.cells.at(level)
            rows = at_cells(residual / np.sqrt(whitened[code]), code, whitened.size)
            rows = cluster_sums(rows, cluster).toarray()
            value = float(np.sum(rows.sum(axis=0) ** 2) - np.sum(rows**2))
            noise2, noise3 = noise_cumulants(rows)
            return SquaredNorm(value, max(noise2, LEAST_NOISE), noise3, 0.0)
        mean, squares = fold(sums.residual, level), fold(sums.squares, level)
        value = float(np.sum(mean**2 / whitened) - np.sum(squares / whitened))
        for tangents, covariance in self._fits:
            along = fold(tangents, level) / np.sqrt(whitened)[:, :, None]
            value += float(np.sum((along @ covariance) * along))
        root = 1 / np.sqrt(whitened)
        spread = fold(sums.noise, level) * root[:, :, None] * root[:, None]
        second = np.sum(spread**2) - np.sum(fold(sums.noise_squares, level) / whitened**2)
        skewed = np.sum(fold(sums.skewed, level) ** 2 / whitened**3)
        third = 8 * np.sum((spread @ spread) * spread) + 4 * skewed
        return SquaredNorm(value, max(2 * float(second), LEAST_NOISE), float(third), 0.0)

    @cached_property
    def pvalue(self) -> float:
        """Combined p-value of all levels; 1 without any."""
        if not self.levels:
            return 1.0
        pvalues = np.clip([norm.pvalue for _, norm in self.levels], 1e-300, 1 - 1e-12)
        combined = float(np.arctan2(1, np.mean(1 / np.tan(np.pi * pvalues))) / np.pi)
        return min(1.0, self._trials * combined)

    @cached_property
    def _increments(self):
        """P-values of what each level shows beyond the one before."""
        norms = [SquaredNorm(0.0, 0.0, 0.0, 0.0), *(norm for _, norm in self.levels)]
        added = [
            SquaredNorm(
                estimate=norm.estimate - before.estimate,
                noise2=max(norm.noise2 - before.noise2, LEAST_NOISE),
                noise3=norm.noise3 - before.noise3,
                slope=0.0,
            )
            for before, norm in pairwise(norms)
        ]
        return [norm.pvalue for norm in added]

    @cached_property
    def needed(self) -> int:
        """The finest level that the residuals need; 0 if they are noise."""
        if self.pvalue >= _LEVEL:
            return 0
        pairs = zip(self.levels, self._increments, strict=True)
        finer = [level for (level, _), p in pairs if p < _FINER]
        if finer and self.pvalue < _CLEAR:
            return int(finer[-1])
        least = min(norm.pvalue for _, norm in self.levels)
        near = np.sqrt(least * max(_LEVEL, least))
        return int(next(level for level, norm in self.levels if norm.pvalue <= near))

    @property
    def unresolved(self) -> bool:
        """Whether a large part of what the residuals show is in the finest cells only."""
        if len(self.levels) < 2 or self.pvalue >= _LEVEL or self._increments[-1] >= _UNRESOLVED:
            return False
        before, last = (norm.estimate for _, norm in self.levels[-2:])
        return last - before > _LARGE * last

    def price(self, level: int, *, log: bool) -> float:
        """Second cumulant that cells of a level add to the squared norm of an error."""
        noise = np.einsum("caa->ca", self.cells.fold(self._sums.noise, level))
        if log:
            gram = 2 * (self.cells.fold(self._sums.information, level) + 1 / self._size)
        else:
            gram = self.cells.fold(self._sums.share, level)[:, None]
        return 2 * float(np.sum(np.divide(noise, gram, where=gram > 0, out=0 * noise) ** 2))


# --- Corrections of a map -------------------------------------------------------------------------


def _fit_of_base(problem, model, proba, kinds):
    """Leverage (n,) of each sample in a fit, and sums (M, c, d) of its tangents over the cells."""
    leverage, tangents = np.empty(len(proba)), [0.0] * len(kinds)
    for rows, block in problem.average.directions.subset(model.groups):
        p = proba[rows]
        leverage[rows] = block.leverage(p, model.covariance) / (p.shape[1] - 1)
        if kinds[0].levels:
            h = problem.share[rows, None, None] * block.tangents(p)
            tangents = [
                sums + cells.total(h, rows) for sums, cells in zip(tangents, kinds, strict=True)
            ]
    return problem.average.unit * leverage, tangents


def _fit_shifts(problem, proba, code):
    """Shifts of the log probabilities in each cell, with normal priors of variance one half.

    So the log odds of two classes have the prior variance one. Returns the gain of log likelihood,
    the corrected forecasts and the inverse information (M, K, K).
    """
    weight, target, n_classes = problem.average.weight, problem.targets(slice(None)), proba.shape[1]
    log, prior = np.log(np.maximum(proba, TINY)), 2 * np.eye(n_classes)
    shift = np.zeros((code.max() + 1, n_classes))
    for _ in range(_STEPS):
        gradient, information = -2 * shift, np.tile(prior, (len(shift), 1, 1))
        for rows in row_blocks(proba, n_classes**2):
            q = softmax(log[rows] + shift[code[rows]], axis=1)
            inside, w = indicators(code[rows], len(shift)).T, weight[rows, None]
            gradient += inside @ (w * (target[rows] - q))
            outer = (w * q)[:, :, None] * (np.eye(n_classes) - q[:, None])
            information += (inside @ outer.reshape(len(q), -1)).reshape(information.shape)
        step = np.linalg.solve(information, gradient[:, :, None])[:, :, 0]
        shift += np.clip(step, -0.5, 0.5)
        if np.abs(step).max() < 1e-10:
            break
    moved = log_softmax(log + shift[code], axis=1)
    gain = float(weight @ np.sum(target * (moved - log), axis=1)) - float(np.sum(shift**2))
    return gain, np.exp(moved), np.linalg.inv(information)


class LabelledRows(NamedTuple):
    """Rows, labels and weights of samples; a label distribution gives several."""

    rows: np.ndarray
    label: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, average: Any) -> LabelledRows:
        """Those of a `ModelAverage`."""
        if average.label.ndim == 1:
            return cls(np.arange(len(average.weight)), average.label, average.weight)
        rows, label = np.nonzero(average.label)
        return cls(rows, label, average.weight[rows] * average.label[rows, label])

    def chance(self, proba: np.ndarray) -> np.ndarray:
        """The probability of each label, from probabilities (n, K)."""
        return np.maximum(proba[self.rows, self.label], TINY)

    def log_likelihood(self, proba: np.ndarray) -> float:
        """Weighted sum of the logarithms of probabilities (n, K)."""
        return self.weight @ np.log(self.chance(proba))


@dataclass(frozen=True)
class TransitionFit:
    """Transitions from the forecasts ``start`` (n, K) of a model, fitted together.

    ``proba`` (n, K) are the corrected forecasts, ``inverse`` (r, r) is the inverse information of
    the rates, and ``log_odds`` are those against the averaged maps.
    """

    base: Model
    start: np.ndarray
    proba: np.ndarray
    transitions: tuple[Transition, ...]
    inverse: np.ndarray
    log_odds: float


def _best_transitions(problem, best, start):
    """`TransitionFit` from the forecasts or from the best model, whichever has more evidence."""
    average = problem.average
    identity = identity_model(np.exp(average.basis.log_proba(problem.forecast)))
    labelled = LabelledRows.of(average)
    fits, evidence = [_fit_transitions(problem, labelled, identity, identity.proba, 0.0)], 0.0
    if best.groups:
        gain = labelled.log_likelihood(start) - labelled.log_likelihood(identity.proba)
        evidence = gain - (best.gain - best.evidence)
        fits.append(_fit_transitions(problem, labelled, best, start, evidence))
    fit = max(filter(None, fits), key=attrgetter("log_odds"), default=None)
    if fit is None:
        return None
    return replace(fit, log_odds=float(fit.log_odds - max(evidence, 0.0)))


def _fit_transitions(problem, labelled, base, proba, evidence):
    """`TransitionFit` against a log evidence of zero, from a model with its evidence, or None."""
    size, n_classes = problem.average.size, proba.shape[1]
    price = PRIOR.cost(0.0, 1, size) + np.log(5 * n_classes * (n_classes - 1))
    transitions = _search_transitions(problem, labelled, proba, price)
    if not transitions:
        return None
    rate, moved, information = _fit_rates(problem.forecast, labelled, proba, transitions)
    chosen = np.flatnonzero(rate > _LEAST_RATE)
    if not len(chosen):
        return None
    gain = labelled.log_likelihood(moved) - labelled.log_likelihood(proba) - price * len(chosen)
    inverse = np.linalg.inv(information[np.ix_(chosen, chosen)])
    transitions = tuple(transitions[j]._replace(rate=float(rate[j])) for j in chosen)
    return TransitionFit(base, proba, moved, transitions, inverse, evidence + float(gain))


def _search_transitions(problem, labelled, proba, price):
    """Pairs whose gain of log likelihood exceeds their cost, with the best of the rates tried."""
    rows, label, weight = labelled
    chance = labelled.chance(proba)
    counts, n_classes = problem.average.size * problem.share, proba.shape[1]
    best = dict[tuple[int, int], tuple[float, Transition]]()
    for source, above, chosen in _beginnings(problem.forecast, counts):
        inside = chosen[rows]
        label_inside, w = label[inside], weight[inside]
        ratio = proba[rows[inside], source] / chance[inside]
        ratio[label_inside == source] = -1.0
        slope = np.bincount(label_inside, w * ratio, n_classes) - w[label_inside == source].sum()
        hopeful = np.flatnonzero(_RATES[-1] * slope > price)
        for target in hopeful[hopeful != source].tolist():
            part = (label_inside == target) | (label_inside == source)
            gains = w[part] @ np.log1p(ratio[part, None] * _RATES)
            k = int(np.argmax(gains))
            known = best[source, target][0] if (source, target) in best else 0.0
            if gains[k] > max(price, known):
                transition = Transition(source, target, above, float(_RATES[k]))
                best[source, target] = gains[k], transition
    pairs = sorted(best.values(), reverse=True, key=lambda pair: pair[0])
    return [transition for _, transition in pairs[:_MOST_PAIRS]]


def _beginnings(forecast, counts) -> Iterator[tuple[int, float | None, np.ndarray]]:
    """A class, the forecast from which on a transition holds, and which samples (n,) these are."""
    top = forecast.argmax(axis=1)
    for source in range(forecast.shape[1]):
        yield source, None, np.ones(len(forecast), dtype=bool)
        mine = np.flatnonzero(top == source)
        mine = mine[np.argsort(forecast[mine, source], kind="stable")]
        below = np.cumsum(counts[mine])
        for q in _QUANTILES if len(mine) else ():
            first = np.searchsorted(below, q * below[-1] * (1 - 1e-9), side="right")
            above = float(forecast[mine[first], source])
            chosen = np.zeros(len(forecast), dtype=bool)
            chosen[mine[forecast[mine, source] >= above]] = True
            if counts[chosen].sum() >= _FEWEST_SAMPLES:
                yield source, above if q else 0.0, chosen


def _fit_rates(forecast, labelled, proba, transitions):
    """Rates, forecasts (n, K) that they correct, and their information, by damped Newton steps.

    The log likelihood is concave in the rates.
    """
    rows, label, weight = labelled
    chance = labelled.chance(proba)
    masses = [transition.mass(forecast, proba) for transition in transitions]
    columns = [
        mass[rows] * ((label == transition.target) * 1.0 - (label == transition.source))
        for mass, transition in zip(masses, transitions, strict=True)
    ]
    change = np.column_stack(columns)

    def moved_by(rate):
        moved = proba.copy()
        for mass, transition, r in zip(masses, transitions, rate, strict=True):
            moved[:, transition.source] -= r * mass
            moved[:, transition.target] += r * mass
        return moved

    rate = np.array([transition.rate for transition in transitions]) / 2
    moved = moved_by(rate)
    while moved.min() < 0:
        rate = rate / 2
        moved = moved_by(rate)
    information = np.eye(len(rate))
    for _ in range(_STEPS):
        score = change / (chance + change @ rate)[:, None]
        information = (score * weight[:, None]).T @ score + 1e-6 * np.eye(len(rate))
        gradient, length = weight @ score, 1.0
        free = np.flatnonzero((rate > 0) | (gradient > 0))
        step = np.zeros_like(rate)
        step[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
        likelihood = weight @ np.log(chance + change @ rate)
        while length > 1e-4:
            trial = np.clip(rate + length * step, 0.0, 0.9)
            trial_moved = moved_by(trial)
            possible = trial_moved.min() >= 0
            if possible and weight @ np.log(chance + change @ trial) >= likelihood:
                break
            length /= 2
        else:
            break
        done, rate, moved = np.abs(trial - rate).max() < 1e-5, trial, trial_moved
        if done:
            break
    return rate, moved, information


# --- Intervals with cells and transitions ---------------------------------------------------------


def extended_norms(
    problems: Sequence[Any], scores: Sequence[ProperScore], norms: Sequence[Any], share: float
) -> list[Any]:
    """The norms with those of cells and transitions, where there are any.

    They are `ErrorNorm` of `AveragedProblem`, each of which has the `share` in the error.
    """
    extended = list(norms)
    if any(problem.tested is None for problem in problems):
        return extended
    for k, (score, norm) in enumerate(zip(scores, norms, strict=True)):
        levels = _levels(problems, norm, score, share)
        if not (any(levels) or any(problem.tested.found for problem in problems)):
            continue
        wider = _wider_norm(problems, levels, score, norm, share)
        if any(problem.tested.test.needed for problem in problems):
            finer = _levels(problems, wider, score, share)  # a larger error allows more cells
            if finer != levels:
                wider = _wider_norm(problems, finer, score, norm, share)
        extended[k] = replace(norm, wider=wider)
    return extended


def _levels(problems, norm, score, share):
    """Levels of the cells of each problem: needed, or paid by the variance of the norm."""
    extensions = [problem.tested for problem in problems]
    tests = [extension.test for extension in extensions]
    if problems[0].forecast.shape[1] > 2:  # where transitions are found, one cell for each class
        return [
            extension.test.needed or int(bool(extension.test.cells.levels) and extension.found)
            for extension in extensions
        ]
    log, paid = not isinstance(score, Brier), 0
    budget = _PRICE * (norm.noise2 + 4 * norm.slope * max(norm.estimate, 0.0))
    known = set.intersection(*(set(test.affordable(log=log)) for test in tests))
    for level in sorted(known):
        price = share**2 * sum(test.price(level, log=log) for test in tests)
        paid = level if price <= budget else paid
    return [max(test.needed, paid) for test in tests]


def _wider_norm(problems, levels, score, norm, share):
    """The squared norm with cells and transitions."""
    kind = BrierDirections if isinstance(score, Brier) else LogDirections
    parts = [kind(problem, level) for problem, level in zip(problems, levels, strict=True)]
    gain = share * sum(part.gain for part in parts)
    of_cells, of_dense = [part.of_cells for part in parts], [part.of_dense for part in parts]
    mean = np.sqrt(share) * np.concatenate(of_cells + of_dense)
    traces = _CellTraces(problems[0], mean, sum(map(len, of_cells)))
    for blocks in zip(*(part.blocks for part in parts), strict=True):
        rows = blocks[0][0]
        noises = [part.noise(rows, block) for part, (_, block) in zip(parts, blocks, strict=True)]
        cells, dense, gains = zip(*noises, strict=True)
        traces.add(
            rows,
            np.sqrt(share) * hstack(cells, format="csr"),
            np.sqrt(share) * np.hstack(dense),
            0.5 * problems[0].root[rows] * (share * sum(gains) - gain),
        )
    return traces.norm(gain, norm.between if isinstance(score, Brier) else 0.0)


class _CellTraces:
    """Traces of powers of the covariance of the mean on cells (sparse) and dense directions."""

    def __init__(self, problem, mean, n_cells):
        self._problem, self._mean, self._n_cells = problem, mean, n_cells
        n_dense = len(mean) - n_cells
        self._signal, self._cells = 0.0, csr_array((n_cells, n_cells))
        self._cross, self._dense = np.zeros((n_cells, n_dense)), np.zeros((n_dense, n_dense))
        if problem.cluster is not None:
            n_clusters = int(problem.cluster.max()) + 1
            self._sums, self._gain = np.zeros((n_clusters, len(mean))), np.zeros(n_clusters)

    def add(self, rows, cells, dense, gain):
        """Rows of noise on cells and on dense directions, and half the gains."""
        if self._problem.cluster is not None:
            chosen = indicators(self._problem.cluster[rows], len(self._sums)).T
            self._sums[:, : self._n_cells] += (chosen @ cells).toarray()
            self._sums[:, self._n_cells :] += chosen @ dense
            self._gain += chosen @ gain
            return
        along = cells @ self._mean[: self._n_cells] + dense @ self._mean[self._n_cells :] + gain
        self._signal += float(along @ along)
        self._cells = self._cells + cells.T @ cells
        self._cross += cells.T @ dense
        self._dense += dense.T @ dense

    def norm(self, gain, between):
        """The squared norm of the mean, with the gain of the loss."""
        if self._problem.cluster is not None:
            size = independent_size(self._problem.weight, cluster=self._problem.cluster)
            factor = inflation(size)
            noise2, noise3 = noise_cumulants(self._sums)
            along = self._sums @ self._mean + self._gain
            first = factor * float(np.sum(self._sums**2))
            second, third = factor**2 * noise2 / 2, factor**3 * noise3 / 8
            signal = factor * float(along @ along)
        else:
            a, b, d = self._cells, self._cross, self._dense
            first, signal = float(a.diagonal().sum() + np.trace(d)), self._signal
            second = float(a.power(2).sum() + 2 * np.sum(b**2) + np.sum(d**2))
            third = float(((a @ a) * a).sum() + 3 * np.sum((a @ b) * b) + 3 * np.sum(d * (b.T @ b)))
            third = third + float(np.sum((d @ d) * d))
        squared = float(self._mean @ self._mean)
        estimate = gain + squared - first
        raw = max(gain + squared, first) if gain else squared
        noise2 = max(2 * second, LEAST_NOISE)
        return SquaredNorm.from_mean(signal, raw, estimate, noise2, 8 * third, between)


class BrierDirections:
    """Residuals Y - S on cells, tangents at S, changes by maps, and transitions.

    Rows are pairs of a sample and a class, only the second one of two classes. ``of_cells`` and
    ``of_dense`` are the coefficients of the mean residual on orthonormal directions.
    """

    scale, ridge, gain = 1.0, 0.0, 0.0

    def __init__(self, problem: Any, level: int) -> None:
        extension = problem.tested
        self.problem, self._extension, cells = problem, extension, extension.test.cells
        self._c = c = 1 if problem.forecast.shape[1] == 2 else problem.forecast.shape[1]
        self._code = cells.at(level) if level else np.zeros(len(problem.weight), dtype=int)
        self._maps, names = self._changed(), set(problem.average.directions.names)
        self.blocks = problem.average.directions.subset(names - (CONFUSION if level else set()))
        n_cells, along, totals = max(cells.chains * level, 1), 0.0, 0.0
        whole: Any = 0.0
        for rows, block in self.blocks:
            x, e, omega = self._values(rows, block)
            share, flat = problem.share[rows, None], x.reshape(-1, x.shape[2])
            weighted, errors = (share * omega)[:, :, None] * x, share * e
            whole = whole + flat.T @ weighted.reshape(flat.shape)
            along = along + errors.ravel() @ flat
            star = extension.proba[rows]
            values = [
                weighted.reshape(len(x), -1),
                share * omega,
                errors,
                share * self._columns(problem.residual(rows, star)),
                share * self._columns(star),
                share,
                problem.root[rows, None] ** 2,
            ]
            totals = totals + indicators(self._code[rows], n_cells).T @ np.hstack(values)
        ends = np.cumsum([c * x.shape[2], c, c, c, c, 1])
        crossed, gram, errors, residual, star, mass, square = np.split(totals, ends, axis=1)
        several = (square < (1 - 1e-9) * mass**2) & (level > 0)
        mass = np.where(mass > 0, mass, 1.0)
        self._factor = np.where(several, mass / np.sqrt(np.maximum(mass**2 - square, TINY)), 0.0)
        self._centre = residual / mass
        whitened = self._between(gram, errors, star / mass, mass) + self.ridge
        self._root = self.scale * several / np.sqrt(np.where(whitened > 0, whitened, np.inf))
        self.of_cells = (errors * self._root).ravel()
        gram = np.where((level > 0) & (gram > 0), gram + self.ridge, np.inf)
        crossed = crossed.reshape(n_cells * c, -1)
        self._inside = crossed / gram.reshape(-1, 1)
        # Orthonormal directions of what the dense ones have within cells.
        root = orthonormal(whole)
        eigenvalues, vectors = np.linalg.eigh(root.T @ (whole - crossed.T @ self._inside) @ root)
        within = eigenvalues > _CONTAINED
        self._dense = self.scale * root @ (vectors[:, within] / np.sqrt(eigenvalues[within]))
        self.of_dense = (along - errors.ravel() @ self._inside) @ self._dense

    def noise(self, rows: Any, block: Any) -> tuple[csr_array, np.ndarray, Any]:
        """Noise of some samples on the cells and the dense directions, and their gains."""
        problem, extension, code = self.problem, self._extension, self._code[rows]
        residual = self._columns(problem.residual(rows, extension.proba[rows]))
        factor = self._factor[code]
        residual = np.where(factor > 0, (residual - self._centre[code]) * factor, residual)
        residual *= problem.root[rows, None] / np.sqrt(1 - extension.leverage[rows, None])
        dense = np.einsum("icj,ic->ij", self._values(rows, block)[0], residual)
        dense -= at_cells(residual, code, len(self._inside)) @ self._inside
        of_cells = at_cells(residual * self._root[code], code, len(self._inside))
        return of_cells, dense @ self._dense, self._gains(rows)

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
        return [p for p in maps if self.problem.share @ np.sum((p - s) ** 2, axis=1) > NO_CHANGE]

    def _changes(self, rows):
        """Changes (m, K) by the transitions."""
        forecast, start = self.problem.forecast[rows], self._extension.start[rows]
        return [transition.change(forecast, start) for transition in self._extension.transitions]

    def _values(self, rows, block):
        """Directions (m, c, J), residuals (m, c) and their weights (m, c) in inner products."""
        s = self.problem.forecast[rows]
        changes = [proba[rows] - s for proba in self._maps] + self._changes(rows)
        x = [block.tangents(np.exp(block.log)), *(self._columns(d)[:, :, None] for d in changes)]
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

    def __init__(self, problem: Any, level: int) -> None:
        self.ridge = 1 / problem.average.size
        super().__init__(problem, level)
        self.gain = float(problem.share @ self._gains(slice(None)))

    def _changed(self):
        return []

    def _values(self, rows, block):
        star, g = self._extension.proba[rows], block.values()
        e = self._columns(self.problem.residual(rows, star))
        if self._c == 1:
            return g, e, star[:, :1] * star[:, 1:]
        x = g - np.einsum("ik,ikj->ij", star, g)[:, None]
        changes = [(d / np.maximum(star, TINY))[:, :, None] for d in self._changes(rows)]
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


def orthonormal(gram: np.ndarray) -> np.ndarray:
    """Columns R with R' gram R = 1; directions that the others nearly contain are left out."""
    size = np.sqrt(np.maximum(np.diag(gram), 0.0))
    size[size == 0] = 1.0
    values, vectors = np.linalg.eigh(gram / np.outer(size, size))
    new = values > _FLAT * max(values.max(), TINY)
    return vectors[:, new] / np.sqrt(values[new]) / size[:, None]
