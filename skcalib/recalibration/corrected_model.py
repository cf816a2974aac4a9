r"""Corrections of forecasts by features: the one model that bounds, decides and recalibrates.

Forecasts with logarithms f (n, K) become :math:`softmax(f + \sum_j a_j F_j)`; without any
correction they stay exactly as they are. `CorrectedModel` fits paths of the parts F: lists of
corrections from simple to complex, whose places are their levels.

1. *linear*: :math:`F = z^\top B` for standardised features z and indicators of categories, of few
   values and of missing values; a multinomial regression with the penalty
   :math:`\lambda \|B\|^2 / 2`.
2. *products*: the same for products of two features, or of a feature and a principal component of
   the logits. Features enter by their rank.
3. *trees*: boosting of the log loss. A tree has one structure for all classes. It is fitted to the
   three principal components of the residuals y - p (SketchBoost, Iosipoi and Vakhrushev, NeurIPS
   2022). A leaf adds :math:`\frac{K - 1}{K} \sum w (y - p) / (\sum w p (1 - p) + \lambda)` times
   the learning rate (Friedman, Hastie and Tibshirani, Annals of Statistics 28, 2000).

`GroupEffects` fits the path of a hierarchical logistic model instead: each named group has a shift
and a slope of its logits, with normal priors of standard deviation :math:`\tau` and of half of it.
:ref:`correction_by_features` has the formula.

`Mixing` chooses the level of each part and the weights :math:`a \ge 0` by held-out losses. The
weights are 0 unless the gain exceeds its standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn import config_context
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.extmath import randomized_svd

from skcalib._util.parallel import out_of_fold, threads_for
from skcalib.scores import weighted_mean
from skcalib.stats.means import first_within_one_standard_error, mean_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self, TypeAlias

    from skcalib._util.types import Fold, RowIndex

    #: Corrections (L, m, K) of some rows.
    PathsOfRows: TypeAlias = Callable[[np.ndarray], np.ndarray]

_PENALTIES = (300.0, 100.0, 30.0, 10.0, 3.0)
_ROUNDS = (5, 10, 20, 40)
_LEARNING_RATE, _LEAVES, _LEAST, _PRIOR = 0.2, 6, 20, 20.0
_SHARE, _MOST_TRIED = 0.4, 32  # features that a split tries
MOST_COMPONENTS, _FEW_COMPONENTS = 10, 3  # of logits and of residuals
_FEW_VALUES = 50  # that get an indicator each
_RARE = 0.05  # share of one of two values that is shrunk as a rare category, without products
_LEAST_KNOWN = 10  # values of a feature, or missing ones, to be of any use
_KNOTS = np.linspace(0, 1, 101)
_FAR = np.sqrt(3.0)  # ranks lie between -_FAR and _FAR, with variance 1
_MOST_PRODUCTS = 4000  # times classes
_MOST_COLUMNS, _RANK = 600, 300  # of a regression, before and after a reduction
_STEPS = 12  # of L-BFGS at each penalty
_LARGEST = 3.0  # weight of a part
_LEAST_CURVATURE = 1e-4
#: Standard deviations between groups, from simple to complex.
SPREADS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
_MOST_STEPS, _LARGEST_STEP, _CLOSE = 30, 2.0, 1e-8  # of Newton's method for groups


class CorrectedModel:
    """Paths of corrections of logits (n, K) by logits and features (n, d), which may be missing.

    Without ``by_score`` corrections depend on the features alone, so that the order of forecasts
    with equal features stays.
    """

    #: Names of the parts, in this order.
    names = ("linear", "products", "trees")

    def __init__(self, *, by_score: bool = True, seed: int = 0) -> None:
        self.by_score, self.seed = by_score, seed

    def fit(
        self, start: np.ndarray, table: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> Self:
        """Fit all parts to samples with logits `start`; weights have mean one."""
        # scikit-learn's checks of its parameters take a third of the time of a small tree
        with threads_for(table), config_context(skip_parameter_validation=True):
            self._columns = _Columns(table)
            self._components = Components(start, MOST_COMPONENTS if self.by_score else 0)
            inputs = self._columns.read(table, self._components.read(start))
            self._parts: list[_Regression | _Trees] = [
                _Regression(inputs, start, target, weight, products=False, seed=self.seed),
                _Regression(inputs, start, target, weight, products=True, seed=self.seed),
                _Trees(inputs, start, target, weight, seed=self.seed),
            ]
        return self

    def paths(self, start: np.ndarray, table: np.ndarray) -> list[np.ndarray]:
        """Corrections of the logits of samples, for each part and level: arrays (L, n, K)."""
        with threads_for(table):
            inputs = self._columns.read(table, self._components.read(start))
            return [part.path(inputs) for part in self._parts]


def held_out_paths(
    start: np.ndarray,
    table: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    folds: Sequence[Fold],
    *,
    seed: int,
    n_jobs: int | None = None,
    finish: Callable[[PathsOfRows, np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> list[np.ndarray]:
    """The paths of `CorrectedModel` at each sample, fitted to the other folds.

    ``finish(predict, train, test)`` can replace the paths of a fold, with ``predict(rows)`` (L, m,
    K) those of any rows.
    """
    predict = partial(_paths_of_fold, seed, finish, start, table, target, weight)
    with threads_for(table, n_jobs):
        paths, _ = out_of_fold(predict, folds, len(start), n_jobs=n_jobs)
    ends = np.cumsum([len(_PENALTIES), len(_PENALTIES), len(_ROUNDS)])[:-1]
    return np.split(np.moveaxis(paths, 1, 0), ends)


def _paths_of_fold(seed, finish, start, table, target, weight, train, test):
    model = CorrectedModel(seed=seed)
    model.fit(start[train], table[train], target[train], weight[train])

    def predict(rows):
        return np.concatenate(model.paths(start[rows], table[rows]))

    return np.moveaxis(predict(test) if finish is None else finish(predict, train, test), 0, 1)


@dataclass(frozen=True)
class _Inputs:
    """Features of samples: ``standard``, ``rank``, ``indicators`` and whether they are ``missing``.

    Missing values are 0, the mean. ``components`` are those of the logits.
    """

    standard: np.ndarray
    rank: np.ndarray
    indicators: np.ndarray
    missing: np.ndarray
    components: np.ndarray


class _Columns:
    """Learns the values of features, and reads them in the forms that the parts need."""

    def __init__(self, table):
        known = ~np.isnan(table)
        enough = known.sum(axis=0) >= _LEAST_KNOWN
        self.numbers, self.knots, self.scales, self.values = [], [], [], []
        for j in np.flatnonzero(enough):
            column = table[known[:, j], j].astype(np.float64)
            values, counts = np.unique(column, return_counts=True)
            if len(values) == 2 and counts.min() < _RARE * counts.sum():
                if counts.min() > 1:
                    self.values.append((j, values[counts.argmin()]))
                continue
            if len(values) > 1:
                self.numbers.append(j)
                self.knots.append(np.unique(np.quantile(column, _KNOTS)))
                unit = np.abs(column).max()  # squares of large values would overflow
                self.scales.append((unit, (column / unit).mean(), (column / unit).std() or 1.0))
            if 2 < len(values) <= min(_FEW_VALUES, len(column) / _LEAST_KNOWN):
                self.values += [(j, value) for value in values[counts >= 2]]
        hidden = (~known).sum(axis=0) >= _LEAST_KNOWN
        self.hidden = np.flatnonzero(enough & hidden)

    def read(self, table, components):
        """The `_Inputs` of features (n, d) and components of the logits (n, c)."""
        shape = len(table), len(self.numbers)
        standard, rank = np.zeros(shape), np.zeros(shape)
        missing = np.isnan(table)
        for k, (j, knots, (unit, mean, spread)) in enumerate(
            zip(self.numbers, self.knots, self.scales, strict=True)
        ):
            standard[:, k] = np.clip((table[:, j].astype(float) / unit - mean) / spread, -5, 5)
            rank[:, k] = np.interp(table[:, j], knots, np.linspace(-_FAR, _FAR, len(knots)))
        absent = missing[:, self.numbers]
        standard[absent] = rank[absent] = 0.0
        shown = [table[:, j] == value for j, value in self.values]
        shown += [missing[:, j] for j in self.hidden]
        indicators = np.column_stack(shown) if shown else np.empty((len(table), 0))
        return _Inputs(standard, rank, indicators.astype(np.float64), absent, components)


class Components:
    """The largest standardised principal components of centred rows (n, K), at most `most`.

    Of logits of two classes it is the log odds.
    """

    def __init__(self, values: np.ndarray, most: int) -> None:
        centred = values - values.mean(axis=1, keepdims=True)
        self.mean = centred.mean(axis=0)
        size, vectors = np.linalg.eigh(np.cov(centred.T, bias=True))
        keep = np.flatnonzero(size > 1e-8 * max(size[-1], 1e-300))[::-1][:most]
        sign = np.cos(np.arange(len(vectors))) @ vectors[:, keep]  # LAPACK may return either
        self.map = vectors[:, keep] / np.copysign(np.sqrt(size[keep]), sign)

    def read(self, values: np.ndarray) -> np.ndarray:
        """The components (n, c) of other rows."""
        return (values - values.mean(axis=1, keepdims=True) - self.mean) @ self.map


class _Regression:
    """Multinomial ridge regression from the logits, for each of several penalties."""

    def __init__(self, inputs, start, target, weight, *, products, seed):
        n_classes, self.pairs, proba = start.shape[1], None, softmax(start, axis=1)
        if products:
            pull = inputs.rank.T @ (weight[:, None] * (target - proba))
            strength = np.sum(pull**2, axis=1)
            self.pairs = pairs_of_columns(strength, inputs.components.shape[1], n_classes)
        basis = self._basis(inputs)
        self.centre = np.average(basis, axis=0, weights=weight)
        spread = np.sqrt(np.average((basis - self.centre) ** 2, axis=0, weights=weight))
        n_numbers = basis.shape[1] - (0 if products else inputs.indicators.shape[1])
        self.scale = np.where(spread > 1e-9, spread, np.inf)
        self.scale[n_numbers:] = 1.0  # rare categories are shrunk more
        basis = (basis - self.centre) / self.scale
        root = np.sqrt(weight)[:, None]
        self.turn, size = _directions(root * basis, seed)
        basis = basis @ self.turn
        curvature = np.maximum(weighted_mean(proba * (1 - proba), weight), _LEAST_CURVATURE)
        effects = np.zeros((len(size), n_classes))
        self.effects = []
        for penalty in _PENALTIES:
            unit = 1 / np.sqrt(size[:, None] * curvature + penalty)
            effects = _maximise(effects, unit, basis, start, target, weight, penalty)
            self.effects.append(effects)

    def path(self, inputs):
        """Corrections (L, n, K)."""
        basis = ((self._basis(inputs) - self.centre) / self.scale) @ self.turn
        return np.stack([basis @ effects for effects in self.effects])

    def _basis(self, inputs):
        if self.pairs is None:
            return np.hstack([inputs.standard, inputs.indicators])
        both = np.hstack([inputs.rank, inputs.components])
        return both[:, self.pairs[0]] * both[:, self.pairs[1]]


def pairs_of_columns(
    strength: np.ndarray, n_components: int, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Columns of features and components to multiply: those of the strongest features."""
    most, n_used = max(_MOST_PRODUCTS // n_classes, 50), len(strength)
    while n_used * (n_used + 1) / 2 + n_used * n_components > most:
        n_used -= 1
    used = np.sort(np.argsort(-strength, kind="stable")[:n_used])
    columns = np.append(used, len(strength) + np.arange(n_components))
    first, second = np.triu_indices(len(columns))
    with_feature = first < n_used
    return columns[first[with_feature]], columns[second[with_feature]]


def _directions(basis, seed):
    """Principal directions (p, q) of the columns of a basis (n, p), and their sums of squares."""
    if basis.shape[1] > _MOST_COLUMNS:
        rank = min(_RANK, *basis.shape)
        _, size, turn = randomized_svd(basis, rank, random_state=seed)
        size, turn = size**2, turn.T
    else:
        size, turn = np.linalg.eigh(basis.T @ basis)
    keep = size > 1e-8 * size.max(initial=1e-300)
    return turn[:, keep], size[keep]


def _maximise(effects, unit, basis, start, target, weight, penalty):
    """Effects of largest posterior density, from others; `unit` are their approximate errors."""
    if len(effects) == 0:
        return effects

    def loss_and_gradient(values):
        scaled = values.reshape(effects.shape) * unit
        logits = start + basis @ scaled
        logits -= logits.max(axis=1, keepdims=True)
        total = np.exp(logits)
        sums = total.sum(axis=1, keepdims=True)
        loss = -weight @ np.sum(target * (logits - np.log(sums)), axis=1)
        pull = weight[:, None] * (total / sums - target)
        gradient = (basis.T @ pull + penalty * scaled) * unit
        return loss + 0.5 * penalty * np.sum(scaled**2), gradient.ravel()

    options = {"maxiter": _STEPS, "ftol": 1e-6}
    begin = (effects / unit).ravel()
    minimum = minimize(loss_and_gradient, begin, jac=True, method="L-BFGS-B", options=options)
    return minimum.x.reshape(effects.shape) * unit


class _Trees:
    """Boosted trees of features and components of the logits, after several numbers of rounds."""

    def __init__(self, inputs, start, target, weight, *, seed):
        rng, columns = np.random.RandomState(seed), self._columns(inputs)
        n_classes, logits = start.shape[1], start
        weighted = {} if np.ptp(weight) == 0 else {"sample_weight": weight}
        tried = int(np.clip(np.ceil(_SHARE * columns.shape[1]), 2, _MOST_TRIED))
        self.trees, self.n_classes = [], n_classes
        for _ in range(_ROUNDS[-1] if columns.shape[1] else 0):
            proba = softmax(logits, axis=1)
            residual = target - proba
            # Sums on this grid are exact without weights: equal splits are equal on any processor.
            rounded = np.rint(_sketch(residual) * 2.0**30) / 2.0**30
            tree = DecisionTreeRegressor(
                max_leaf_nodes=_LEAVES,
                min_samples_leaf=_LEAST,
                max_features=min(tried, columns.shape[1]),
                random_state=rng,
            ).fit(columns, rounded, check_input=False, **weighted)
            leaf, n_nodes = tree.apply(columns, check_input=False), tree.tree_.node_count
            sums, information = (
                np.stack([np.bincount(leaf, weight * column, n_nodes) for column in values.T])
                for values in (residual, proba * (1 - proba))
            )
            share = _LEARNING_RATE * (n_classes - 1) / n_classes
            values = share * (sums / (information + _PRIOR)).T
            self.trees.append((tree, values))
            logits = logits + values[leaf]

    def path(self, inputs):
        """Corrections (L, n, K)."""
        columns, levels = self._columns(inputs), []
        total = np.zeros((len(columns), self.n_classes))
        for number, (tree, values) in enumerate(self.trees, start=1):
            total = total + values[tree.apply(columns, check_input=False)]
            if number in _ROUNDS:
                levels.append(total)
        return np.stack(levels) if levels else np.stack([total] * len(_ROUNDS))

    def _columns(self, inputs):
        rank = np.where(inputs.missing, -2 * _FAR, inputs.rank)
        components = inputs.components[:, :_FEW_COMPONENTS]
        return np.hstack((rank, inputs.indicators, components)).astype(np.float32)


def _sketch(residual):
    """The principal components of residuals (n, K) that vary most; the event of two classes."""
    if residual.shape[1] == 2:
        return residual[:, 1]
    if residual.shape[1] <= _FEW_COMPONENTS:
        return residual
    return residual @ np.linalg.eigh(residual.T @ residual)[1][:, -_FEW_COMPONENTS:]


# --- Named groups ---------------------------------------------------------------------------------


class GroupEffects:
    """Shifts and slopes of groups (n,); without slopes, the order of forecasts in a group is kept.

    Groups are numbered from 0; -1 stands for groups without effects.
    """

    names = ("groups",)

    def __init__(self, n_groups: int, *, slopes: bool) -> None:
        self.n_groups, self.slopes = n_groups, slopes

    def fit(
        self, start: np.ndarray, group: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> Self:
        """Estimate the effects at each spread, from samples with logits `start`."""
        n_classes = start.shape[1]
        self.effects, self.levels = np.zeros((self.n_groups, n_classes + 1)), []
        centred = start - start.mean(axis=1, keepdims=True)
        self.centre = np.average(centred, axis=0, weights=weight)
        variance = np.average((centred - self.centre) ** 2, axis=0, weights=weight).mean()
        self.scale = 2 * np.sqrt(variance) if variance > 0 else 1.0
        for spread in SPREADS:
            prior = np.append(np.full(n_classes, 2 / spread**2), 4 / spread**2)
            self._maximise(start, group, target, weight, prior)
            self.levels.append(self.effects)
        return self

    def paths(self, start: np.ndarray, group: np.ndarray) -> list[np.ndarray]:
        """Corrections of logits, of one part for each spread: a list of one array (L, n, K)."""
        directions = self._directions(start)
        padded = (np.vstack([effects, 0 * effects[:1]])[group] for effects in self.levels)
        return [np.stack([rows[:, :-1] + rows[:, -1:] * directions for rows in padded])]

    def apply(self, start: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Logits (n, K) with the effects; unchanged where the group is -1."""
        effects = np.vstack([self.effects, np.zeros(self.effects.shape[1])])[group]
        return start + effects[:, :-1] + effects[:, -1:] * self._directions(start)

    def _maximise(self, start, group, target, weight, prior):
        """Newton's method from the present effects, for all groups at once."""
        direction, diagonal = self._directions(start), np.arange(len(prior))
        for _ in range(_MOST_STEPS):
            proba = softmax(self.apply(start, group), axis=1)
            residual = weight[:, None] * (target - proba)
            along = np.einsum("nk,nk->n", residual, direction)
            gradient = self._sums(np.column_stack([residual, along]), group) - prior * self.effects
            curvature = self._curvature(proba, direction, group, weight)
            curvature[:, diagonal, diagonal] += prior
            step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
            self.effects = self.effects + np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
            if np.abs(step).max() < _CLOSE:
                break

    def _directions(self, start):
        """What slopes multiply, (n, K)."""
        if not self.slopes:
            return np.zeros_like(start)
        return (start - start.mean(axis=1, keepdims=True) - self.centre) / self.scale

    def _sums(self, values, group):
        """Sums (G, m) of the columns over groups."""
        columns = [np.bincount(group, column, self.n_groups) for column in values.T]
        return np.stack(columns, axis=1)

    def _curvature(self, proba, direction, group, weight):
        """Information (G, K + 1, K + 1) of each group."""
        n_classes = proba.shape[1]
        information = np.empty((self.n_groups, n_classes + 1, n_classes + 1))

        def enter(j, k, values):
            sums = np.bincount(group, values, self.n_groups)
            information[:, j, k] = information[:, k, j] = sums

        mean = np.einsum("nk,nk->n", proba, direction)
        for j in range(n_classes):
            mass = weight * proba[:, j]
            for k in range(j, n_classes):
                enter(j, k, mass * ((j == k) - proba[:, k]))
            enter(j, -1, mass * (direction[:, j] - mean))
        square = np.einsum("nk,nk->n", proba, direction**2)
        enter(-1, -1, weight * (square - mean**2))
        return information


# --- Weights by held-out losses -------------------------------------------------------------------


@dataclass(frozen=True)
class Mixture:
    """The level of each part, their ``weights``, and the ``direction``: weights of sum one.

    The direction is that of the best weights, also where the weights are 0.
    """

    levels: list[int]
    weights: np.ndarray
    direction: np.ndarray

    def of(
        self, paths: Sequence[np.ndarray], rows: RowIndex, *, direction: bool = False
    ) -> np.ndarray:
        """The mixture of the paths (L, n, K) at some rows, (m, K)."""
        weights = self.direction if direction else self.weights
        parts = zip(weights, paths, self.levels, strict=True)
        return sum(weight * path[level, rows] for weight, path, level in parts)


class Mixing:
    """Chooses mixtures of held-out paths (L, n, K): ``losses(step, rows)`` are those of a step.

    ``cautious``, for corrections that are applied: the simplest level and the smallest fifths of
    the weights within one standard error of the best, and weights of at most 1. Small groups are
    then shrunk as far as large ones allow.
    """

    def __init__(
        self,
        losses: Callable[[np.ndarray, np.ndarray], np.ndarray],
        paths: Sequence[np.ndarray],
        weight: np.ndarray,
        cluster: np.ndarray | None = None,
        *,
        cautious: bool = False,
    ) -> None:
        self.cautious = cautious
        self.losses, self.paths, self.weight, self.cluster = losses, paths, weight, cluster
        everything = np.arange(len(weight))
        self.before = losses(np.zeros(paths[0].shape[1:]), everything)
        self.levels = [np.stack([losses(step, everything) for step in path]) for path in paths]

    def of_other_folds(self, folds: Iterable[Fold]) -> Iterator[tuple[np.ndarray, Mixture]]:
        """The rows of each test fold, and the `Mixture` that all other rows choose."""
        for _, test in folds:
            yield test, self.choose(np.setdiff1d(np.arange(len(self.weight)), test))

    def choose(self, rows: np.ndarray) -> Mixture:
        """The `Mixture` of lowest mean loss of some rows."""
        finite = rows[np.isfinite(self.before[rows])]
        weight, before = self.weight[finite], self.before[finite]
        of_levels = [losses[:, finite] for losses in self.levels]
        n_parts = len(of_levels)
        none, equal = np.zeros(n_parts), np.full(n_parts, 1 / n_parts)
        if len(finite) == 0:
            return Mixture([0] * n_parts, none, equal)
        if self.cautious:
            best = [first_within_one_standard_error(rows, weight)[0] for rows in of_levels]
        else:
            best = [int(np.argmin(weighted_mean(rows.T, weight))) for rows in of_levels]
        steps = [path[level, finite] for path, level in zip(self.paths, best, strict=True)]

        def losses(shares):
            step = sum(share * step for share, step in zip(shares, steps, strict=True))
            return self.losses(step, finite)

        def mean_loss(shares):
            return float(weighted_mean(losses(shares), weight))

        bounds = [(0, 1 if self.cautious else _LARGEST)] * len(steps)
        # The step of derivatives is wide, and the result rounded: rounding errors change neither.
        options = {"maxiter": 15, "eps": 1e-5}
        minimum = minimize(mean_loss, equal, bounds=bounds, options=options).x
        shares = min((none, equal, np.round(minimum, 3)), key=mean_loss)
        if self.cautious:
            scales = np.linspace(0.2, 1, 5)
            scaled = [losses(scale * shares) for scale in scales]
            shares = scales[first_within_one_standard_error(scaled, weight)[0]] * shares
        cluster = None if self.cluster is None else self.cluster[finite]
        gain = mean_difference(before, losses(shares), weight, cluster=cluster)
        total = shares.sum()
        direction = shares / total if total > 0 else equal
        certain = gain.estimate > (1 + 1e-9) * gain.standard_error  # equal for a gain of one sample
        return Mixture(best, shares if certain else none, direction)
