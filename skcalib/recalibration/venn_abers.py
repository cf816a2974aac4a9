"""Venn-Abers predictors: isotonic regression with the new sample among the calibration samples."""

from __future__ import annotations

import numpy as np

from skcalib._util.ties import reach_in_single_precision
from skcalib._util.types import ArrayLike
from skcalib._util.validation import mean_one
from skcalib.data.notions import rests_and_classes
from skcalib.recalibration._sketched import FittedFromSketch
from skcalib.recalibration.one_vs_rest import OneVsRestRecalibrator
from skcalib.smoothers.partition import TiedScores


class VennAbersRecalibrator(OneVsRestRecalibrator, FittedFromSketch):  # numpydoc ignore=PR02
    r"""Inductive Venn-Abers predictor: two isotonic regressions for each forecast, merged.

    A new forecast s is added to the calibration samples, once with the label 0 and once with the
    label 1. The values :math:`p_0 \le p_1` of the two isotonic regressions at s are an imprecise
    probability: if the samples are exchangeable, the one that belongs to the true label is
    calibrated, for any number of samples [1]_. `predict_interval` returns both. The probability is

    .. math:: p = \frac{p_1}{1 - p_0 + p_1},

    which minimises the largest regret under the log loss [2]_. It is never 0 or 1. The map
    increases but is constant between neighbouring scores and within most isotonic cells, so it is
    not injective. For more than two classes, each class is one problem against the rest, and
    rows are divided by their sum.

    A new sample has the weight 1, and the weights of the calibration samples are divided by their
    mean. Forecasts of the calibration set that differ by rounding only are tied. A new forecast is
    tied to one of them up to the rounding errors of single precision, but at most up to a quarter
    of the distance to the next.

    See Also
    --------
    IsotonicRecalibrator : One isotonic regression; its ends are often exactly 0 or 1.
    HistogramBinning : Frequencies of bins.

    Notes
    -----
    The fit computes :math:`p_0` and :math:`p_1` at all distinct scores and between them from the
    diagram of cumulative sums, without an isotonic regression for each. Cost: O(n log n), about
    .2 s for 100,000 and 2 s for a million samples; a prediction is a binary search.

    References
    ----------
    .. [1] Vovk and Petej (2014), Venn-Abers predictors, UAI.
    .. [2] Vovk, Petej and Fedorova (2015), Large-scale probabilistic predictors with and without
       guarantees of validity, NeurIPS.

    Examples
    --------
    >>> from skcalib import VennAbersRecalibrator
    >>> venn_abers = VennAbersRecalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1])
    >>> venn_abers.predict_interval([0.5, 0.95])
    array([[0.        , 1.        ],
           [0.66666667, 1.        ]])
    >>> venn_abers.predict_proba([0.5, 0.95])
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """

    def _fit_map(self, samples):
        self._fit_each(_VennAbersMap, samples)

    def predict_interval(self, X: ArrayLike) -> np.ndarray:
        r"""The two probabilities :math:`p_0 \le p_1` of each forecast.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities or logits, as in `fit`.

        Returns
        -------
        array of shape (n_samples, 2) or (n_samples, n_classes, 2)
            For two classes those of the last class. For more, those of each class against the rest.
        """
        forecast = self._read(self._check_forecasts(X))
        problems = [*rests_and_classes(forecast)][-len(self._maps) :]
        pairs = [one.interval(rows) for one, rows in zip(self._maps, problems, strict=True)]
        return pairs[0] if len(pairs) == 1 else np.stack(pairs, axis=1)


class _VennAbersMap:
    """Tables of p0 and p1 at the distinct scores (m,) of samples with two columns."""

    injective = preserves_order = False
    continues = True

    def __init__(self, samples):
        weight = mean_one(samples.weight, samples.count)
        ties = TiedScores(samples.forecast[:, 1], weight)
        means = np.clip(ties.means(samples.target[:, 1]), 0.0, 1.0)
        mass = np.maximum(ties.mass, 1e-15 * ties.mass.sum())  # less is lost in sums
        self.lower, self.upper = reach_in_single_precision(ties.score)
        # A label of 1 between two scores is pooled with the samples above it, as if tied to them.
        self.high = np.append(_with_one_more(mass, means), 1.0)
        mirrored = _with_one_more(mass[::-1], 1 - means[::-1])
        self.low = np.append(0.0, 1 - mirrored[::-1])

    def interval(self, forecast):
        score = forecast[:, 1]
        place = np.searchsorted(self.lower, score, side="right")
        own = (place > 0) & (score <= self.upper[place - 1])
        return np.column_stack([self.low[place], self.high[place - own]])

    def __call__(self, forecast):
        low, high = self.interval(forecast).T
        return high / (1 - low + high)

    def _write(self, add, x):
        upper = np.nextafter(self.upper, 2)  # from there on a new score is not tied
        low, high = np.repeat(self.low, 2)[1:], np.repeat(self.high, 2)[:-1]
        return add.stairs(x, np.column_stack([self.lower, upper]).ravel(), high / (1 - low + high))


def _with_one_more(mass, means):
    r"""Isotonic regression at each of m ordered groups after a label of 1 is added to the group.

    In the diagram of cumulative mass and sums, the value at a group is the slope of the lower
    common tangent of the points left of the group, moved by (-1, -1), and of the points right of
    it. From group to group one point passes from the right to the left, down by 1 minus the slope.
    The tangent changes only where that point lies below it, and then starts there (Vovk, Petej and
    Fedorova 2015, algorithms 1 and 2). Both of its ends move to the right only.
    """
    n_groups = len(mass)
    x = np.append(0.0, np.cumsum(mass)).tolist()
    y = np.append(0.0, np.cumsum(mass * means)).tolist()
    # The vertex after each point of the convex hull of this point and those right of it.
    following = [n_groups] * (n_groups + 1)

    def lowest(left, below, end):
        """The end of the lowest line from a point to the hull from `end` on, and its slope."""
        slope = (y[end] - below) / (x[end] - left)
        while end < n_groups:
            after = following[end]
            new = (y[after] - below) / (x[after] - left)
            if new > slope:
                break
            end, slope = after, new
        return end, slope

    for start in range(n_groups - 1, -1, -1):
        following[start] = lowest(x[start], y[start], start + 1)[0]
    found, end, slope, left, below = [], 0, np.inf, -2.0, 0.0
    for start in range(n_groups):
        if y[start] - 1 - below < slope * (x[start] - 1 - left):
            left, below = x[start] - 1, y[start] - 1
            end, slope = lowest(left, below, max(end, start + 1))
        found.append(slope)
    return np.clip(found, 0.0, 1.0)
