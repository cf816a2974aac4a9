r"""Corrections of logits that depend on features: boosting on the residual of the forecast.

With logits f (n, K) and p = softmax(f), each round fits, for every class, trees to the working
response :math:`(y - p) / h` with weights :math:`w h` and :math:`h = p (1 - p)`: the Newton steps of
the log loss (Friedman, Hastie and Tibshirani, Annals of Statistics 28, 2000). A leaf adds
:math:`\sum w (y - p) / (\sum w h + \lambda)` times the learning rate. The trees of one round share
the weights.
"""

import numpy as np
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingRegressor

_BINS = (
    100  # of a number; trees that bin weighted samples themselves take most of their time for it
)
_TREES = 10  # of a round
_LEARNING_RATE = 0.1
_LEAVES = 8
_LEAST = 20  # samples of a leaf
_PENALTY = 10.0  # information of the prior of a leaf
_LEAST_CURVATURE = 1e-6
_LARGEST_STEP = 2.0  # of a logit in one round


class BoostedLogits:
    """Rounds of corrections of logits (n, K) by forecasts and features (n, d).

    ``is_category`` (d,) says which features are codes of categories. With `monotone`, for two
    classes, each correction of the log odds is a non-decreasing function of the log odds.
    """

    def __init__(self, is_category, most, *, monotone, seed):
        self.is_category, self.most, self.monotone, self.seed = is_category, most, monotone, seed
        self.cuts, self.rounds = None, []

    def advance(self, start, present, table, target, weight):
        """Fit one more round to samples; their logits before it -> after it."""
        n_classes = start.shape[1]
        n_scores = 1 if n_classes == 2 else n_classes
        mask = np.concatenate([np.zeros(n_scores, dtype=bool), self.is_category])
        if self.cuts is None:
            columns = zip(_inputs(start, table).T, mask, strict=True)
            self.cuts = [None if category else _cuts(column) for column, category in columns]
        proba, inputs = softmax(present, axis=1), self._binned(start, table)
        trees = []
        for k in [1] if n_classes == 2 else range(n_classes):
            curvature = np.maximum(proba[:, k] * (1 - proba[:, k]), _LEAST_CURVATURE)
            model = HistGradientBoostingRegressor(
                learning_rate=_LEARNING_RATE,
                max_iter=_TREES,
                max_leaf_nodes=_LEAVES,
                min_samples_leaf=_LEAST,
                l2_regularization=_PENALTY,
                categorical_features=mask if mask.any() else None,
                monotonic_cst=[1] + [0] * len(self.is_category) if self.monotone else None,
                early_stopping=False,
                random_state=self.seed,
            )
            response = (target[:, k] - proba[:, k]) / curvature
            trees.append(model.fit(inputs, response, sample_weight=weight * curvature))
        self.rounds.append(trees)
        return present + _correction(trees, inputs)

    def update(self, start, present, table):
        """Logits of other samples before the last round -> after it."""
        return present + _correction(self.rounds[-1], self._binned(start, table))

    def apply(self, start, table):
        """Logits (n, K) after all rounds."""
        inputs = self._binned(start, table)
        return sum((_correction(trees, inputs) for trees in self.rounds), start)

    def _binned(self, start, table):
        """The inputs of the trees, with numbers replaced by those of their bins."""
        inputs = _inputs(start, table)
        for column, cuts in zip(inputs.T, self.cuts, strict=True):
            if cuts is not None:
                known = ~np.isnan(column)
                column[known] = np.searchsorted(cuts, column[known])
        return inputs


def _cuts(column):
    """Bounds of bins of about equal numbers of samples."""
    known = column[~np.isnan(column)]
    shares = np.arange(1, _BINS) / _BINS
    return np.unique(np.quantile(known, shares, method="lower")) if len(known) else np.empty(0)


def _inputs(start, table):
    """The inputs of the trees: the log odds, or the centred logits, and the features (n, d)."""
    if start.shape[1] == 2:
        return np.column_stack([start[:, 1] - start[:, 0], table])
    return np.column_stack([start - start.mean(axis=1, keepdims=True), table])


def _correction(trees, inputs):
    """Corrections of the logits (n, K) by one round."""
    found = np.stack([one.predict(inputs) for one in trees], axis=1)
    found = np.clip(found, -_LARGEST_STEP, _LARGEST_STEP)
    if len(trees) == 1:
        return np.hstack([np.zeros_like(found), found])
    n_classes = len(trees)  # the curvatures of single classes exceed that of all together
    return (n_classes - 1) / n_classes * (found - found.mean(axis=1, keepdims=True))
