r"""Terms of the grouping loss, from level sets and regions that are given.

With the label frequencies :math:`R_j` of the regions, :math:`C_b` of the level sets, and a
calibration curve :math:`\hat C(S)`,

.. math::

    \text{explained (plug-in)} = \sum_j \tfrac{n_j}{n} D(R_j, C_{b(j)}), \qquad
    \text{induced} = \tfrac1n \sum_i D(\hat C(S_i), \bar C_{b(i)}) .

**Bias.** A Bregman leg between nested partitions is a difference of two means of :math:`-H` at
averages, and at an average of n labels :math:`-H` is too large, in expectation by
:math:`\frac{1}{2n} \operatorname{tr}(\nabla^2(-H)\, \Sigma)` to first order. The jackknife
estimates this bias for every score: with :math:`g` a function of the averages of a cell, here
:math:`-H(\bar Y)` or :math:`D(\bar Y, \bar S)`,

.. math:: \text{bias} = \tfrac{1}{n} \sum_{i \in cell} (n - 1) \bigl( g_{-i} - g \bigr) .

For Brier this is prop. 4.3 of L23 to the letter, and exact. For other scores it removes the term of
order 1/n and leaves 1/n^2, as long as regions hold several labels of each class that matters there;
where a class is rare (n p < 1) no estimator sees it, and the log loss stays explained in excess.

**Spread.** To first order the bound is the mean of :math:`L(Y_i, C_b) - L(Y_i, R_j) - induced_i`.
The noise of small regions enters their sample variance with twice its weight, so the standard
error is conservative where there is little to find.
"""

from dataclasses import dataclass

import numpy as np

from skcalib.tower import weighted_mean


@dataclass(frozen=True)
class PartitionTerms:
    """Terms over the measured samples of one problem; ``variance`` is that of the bound."""

    plugin: float
    bias: float
    induced: float
    variance: float
    calibration: float
    correction: float

    @property
    def explained(self):
        """Debiased explained grouping loss; may be negative."""
        return self.plugin - self.bias

    @property
    def lower_bound(self):
        """Lower bound of the grouping loss (L23 prop. 4.2)."""
        return self.explained - self.induced


def partition_terms(score, bins, regions, forecast, target, curve, weight):
    """Terms for level sets `bins` and the regions nested in them.

    Parameters
    ----------
    score : ProperScore
        Any score on the simplex.
    bins, regions : array of int of shape (n,)
        Level set of each sample, and a number of its region that is unique over all level sets.
        Regions of a single sample have no variance, and must not be passed.
    forecast, target, curve : array of shape (n, C)
        Forecasts, one-hot labels, and the calibration curve at each forecast.
    weight : array of shape (n,)
        Positive weights.

    Returns
    -------
    PartitionTerms
        In the units of the score.
    """
    fine, coarse = Cells(regions, weight), Cells(bins, weight)
    region_mean, bin_mean = fine.mean(target), coarse.mean(target)

    def peak(mean):
        return -score.entropy(mean)

    def error(means):
        return score.divergence(means[:, :n_columns], means[:, n_columns:])

    n_columns = target.shape[1]
    induced = score.divergence(curve, coarse.mean(curve))
    influence = score.loss(target, bin_mean) - score.loss(target, region_mean) - induced
    share = weight / weight.sum()
    pairs = np.hstack([target, forecast])
    return PartitionTerms(
        plugin=float(weighted_mean(score.divergence(region_mean, bin_mean), weight)),
        bias=fine.jackknife_bias(peak, target) - coarse.jackknife_bias(peak, target),
        induced=float(weighted_mean(induced, weight)),
        variance=float(np.sum((share * (influence - share @ influence)) ** 2)),
        calibration=float(weighted_mean(error(coarse.mean(pairs)), weight))
        - coarse.jackknife_bias(error, pairs),
        correction=_binning_correction(score, coarse, forecast, target),
    )


def _binning_correction(score, coarse, forecast, target):
    r"""What binning adds to :math:`E\,D(Q, S)`, for quadratic scores; nan for others.

    :math:`E\|Q - S\|^2 = CE(S_B) + GL(S_B) - E[2 cov(C, S | S_B) - var(S | S_B)]` exactly, and
    cov(C, S | S_B) = cov(Y, S | S_B) needs no calibration curve (L23 theorem C.1, corollary C.2).
    """
    if not score.separable:
        return np.nan
    corners = np.eye(target.shape[1])
    scale = score.divergence(corners[:1], corners[1:2])[0] / 2
    of_score = forecast - coarse.mean(forecast)
    of_label = target - coarse.mean(target)
    size = coarse.size[coarse.cells]
    unbiased = np.divide(size, size - 1, out=np.zeros_like(size), where=size > 1 + 1e-9)
    moments = np.sum(2 * of_label * of_score - of_score**2, axis=1)
    return float(scale * weighted_mean(unbiased * moments, coarse.weight))


class Cells:
    """Weighted cells: their means, and the bias of functions of the means."""

    def __init__(self, cells, weight):
        self.cells = np.unique(cells, return_inverse=True)[1].ravel()
        self.weight = weight
        self.mass = np.bincount(self.cells, weight)
        largest = np.zeros(len(self.mass))
        np.maximum.at(largest, self.cells, weight)
        # Relative to the largest of the cell: tiny weights times tiny values would vanish.
        self._relative = weight / largest[self.cells]
        self._mass = np.bincount(self.cells, self._relative)
        self.size = self._mass**2 / np.bincount(self.cells, self._relative**2)

    def mean(self, values):
        """Mean over the cell of each sample, shape of `values`."""
        sums = [np.bincount(self.cells, self._relative * column) for column in values.T]
        return (np.stack(sums, axis=1) / self._mass[:, None])[self.cells]

    def jackknife_bias(self, function, values):
        """Bias of the mean over samples of a function of the cell means.

        Weights enter so that the changes of the means cancel in each cell, and each cell is scaled
        so that squares are corrected exactly; with equal weights it is the formula of the module.
        Cells of a single sample contribute nothing, or of one beside which the others weigh
        nothing; nor does a sample without which the function is infinite: a divergence from a
        forecast of zero.
        """
        mean, mass, weight = self.mean(values), self.mass[self.cells], self.weight
        rest = mass - weight
        # Without the heavy sample of a cell the changes by the light ones would not cancel.
        several = np.bincount(self.cells, rest <= 1e-9 * mass)[self.cells] == 0
        scale = self._jackknife_scale(several)[several]
        mean, rest, weight = mean[several], rest[several, None], weight[several, None]
        others = mean - weight / rest * (values[several] - mean)
        others = np.clip(others, 0.0, 1.0)  # rounding can leave the simplex by one unit
        before, after = function(mean), function(others)
        finite = np.isfinite(before) & np.isfinite(after)
        change = np.where(finite, after, 0.0) - np.where(finite, before, 0.0)
        return float(np.sum(scale * rest[:, 0] * change) / self.mass.sum())

    def _jackknife_scale(self, several):
        """Variance of a weighted mean of labels of variance 1, over what the jackknife expects."""
        share = self.weight / self.mass[self.cells]
        squares = np.bincount(self.cells, share**2)
        spread = share**2 / np.where(several, 1 - share, 1.0)
        spread *= 1 - 2 * share + squares[self.cells]
        expected = np.bincount(self.cells, np.where(several, spread, 0.0))
        return (squares / np.where(expected > 0, expected, 1.0))[self.cells]
