r"""Corrections of logits that depend on a named group: a hierarchical logistic model.

Each group has a shift and a slope of its logits, with normal priors of standard deviation
:math:`\tau` and of half of it. :ref:`correction_by_features` has the formula.
"""

import numpy as np
from scipy.special import softmax

#: Standard deviations between groups, from simple to complex.
SPREADS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
_MOST_STEPS = 30
_LARGEST_STEP = 2.0
_CLOSE = 1e-8


class GroupEffects:
    """Shifts and slopes of groups (n,); without slopes, the order of forecasts in a group is kept.

    Groups are numbered from 0; -1 stands for groups without effects.
    """

    def __init__(self, n_groups, *, slopes):
        self.n_groups, self.slopes = n_groups, slopes

    def fit(self, start, group, target, weight):
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

    def paths(self, start, group):
        """Corrections of logits, of one part for each spread: a list of one array (L, n, K)."""
        directions = self._directions(start)
        padded = (np.vstack([effects, 0 * effects[:1]])[group] for effects in self.levels)
        return [np.stack([own[:, :-1] + own[:, -1:] * directions for own in padded])]

    def apply(self, start, group):
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
        found = np.empty((self.n_groups, n_classes + 1, n_classes + 1))
        mean = np.einsum("nk,nk->n", proba, direction)
        for j in range(n_classes):
            own = weight * proba[:, j]
            for k in range(j, n_classes):
                product = own * ((j == k) - proba[:, k])
                found[:, j, k] = found[:, k, j] = np.bincount(group, product, self.n_groups)
            product = own * (direction[:, j] - mean)
            found[:, j, -1] = found[:, -1, j] = np.bincount(group, product, self.n_groups)
        square = np.einsum("nk,nk->n", proba, direction**2)
        found[:, -1, -1] = np.bincount(group, weight * (square - mean**2), self.n_groups)
        return found
