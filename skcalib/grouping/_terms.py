r"""Terms of the grouping loss, from level sets and regions that are given.

With the label frequencies :math:`R_j` of the regions, :math:`C_b` of the level sets, and a
calibration curve :math:`\hat C(S)`,

.. math::

    \text{explained (plug-in)} = \sum_j \tfrac{n_j}{n} D(R_j, C_{b(j)}), \qquad
    \text{induced} = \tfrac1n \sum_i D(\hat C(S_i), \bar C_{b(i)}) .

**Bias.** A Bregman leg between nested partitions is a difference of two means of :math:`-H` at
averages. At the average of n labels with frequencies p, :math:`-H` exceeds its value at the true
mean by :math:`\frac12 \operatorname{tr}(\nabla^2(-H)\, \Sigma) / n` with
:math:`\Sigma = diag(p) - p p^T`: exactly for Brier (L23 prop. 4.3), to second order for the log
loss, where it is (K_+ - 1) / (2 n) for K_+ classes that occur; what is left is of order 1 / n^2.

**Spread.** To first order the plug-in is the mean of the paired differences
:math:`\psi_i = L(Y_i, C_b) - L(Y_i, R_j)`. Regions are small, so the noise of :math:`R_j` itself
counts: it adds :math:`V_2 = \frac{1}{2 n^2} \sum_j \operatorname{tr}((\nabla^2(-H) \Sigma_j)^2)`
to the variance, and twice that to the sample variance of :math:`\psi`.
"""

from dataclasses import dataclass

import numpy as np

from skcalib.tower import weighted_mean


@dataclass(frozen=True)
class PartitionTerms:
    """Terms over the measured samples of one problem; ``variance`` is that of ``explained``."""

    plugin: float
    bias: float
    induced: float
    variance: float
    calibration_plugin: float
    calibration_bias: float
    mean_loss: float

    @property
    def explained(self):
        """Debiased explained grouping loss; may be negative."""
        return self.plugin - self.bias

    @property
    def lower_bound(self):
        """Lower bound of the grouping loss (L23 prop. 4.2)."""
        return self.explained - self.induced

    @property
    def calibration(self):
        """Debiased calibration error of the binned forecast."""
        return self.calibration_plugin - self.calibration_bias


def partition_terms(score, bins, regions, forecast, target, curve, weight):
    """Terms for level sets `bins` and the regions nested in them.

    Parameters
    ----------
    score : ProperScore
        With a declared `curvature`.
    bins, regions : array of int of shape (n,)
        Level set of each sample, and a number of its region that is unique over all level sets.
    forecast, target, curve : array of shape (n, C)
        Forecasts, one-hot labels, and the calibration curve at each forecast.
    weight : array of shape (n,)
        Positive weights.

    Returns
    -------
    PartitionTerms
        Regions of a single sample have no variance, and must not be passed.
    """
    fine, coarse = Cells(regions, weight), Cells(bins, weight)
    region_mean, bin_mean = fine.mean(target), coarse.mean(target)
    plugin = weighted_mean(score.divergence(region_mean, bin_mean), weight)
    fine_bias, noise = _bias_and_noise(score, fine, region_mean)
    coarse_bias, _ = _bias_and_noise(score, coarse, bin_mean)
    induced = score.divergence(curve, coarse.mean(curve))
    influence = score.loss(target, bin_mean) - score.loss(target, region_mean) - induced
    share = weight / weight.sum()
    spread = np.sum((share * (influence - share @ influence)) ** 2)
    forecast_mean = coarse.mean(forecast)
    return PartitionTerms(
        plugin=float(plugin),
        bias=float(fine_bias - coarse_bias),
        induced=float(weighted_mean(induced, weight)),
        variance=float(max(spread - noise, noise)),
        calibration_plugin=float(
            weighted_mean(score.divergence(bin_mean, forecast_mean), weight)
        ),
        calibration_bias=_residual_bias(score, coarse, bin_mean, target - forecast),
        mean_loss=float(weighted_mean(score.loss(target, forecast), weight)),
    )


class Cells:
    """Weighted cells: means, and the effective number of samples in each sample's cell."""

    def __init__(self, cells, weight):
        self.cells = np.unique(cells, return_inverse=True)[1].ravel()
        self.weight = weight
        self.mass = np.bincount(self.cells, weight)
        self.size = self.mass**2 / np.bincount(self.cells, weight**2)

    def mean(self, values):
        """Mean over the cell of each sample, shape of `values`."""
        sums = [np.bincount(self.cells, self.weight * column) for column in values.T]
        return (np.stack(sums, axis=1) / self.mass[:, None])[self.cells]


def _bias_and_noise(score, cells, mean):
    """Bias of the plug-in by the variance of the cell means, and V_2 of the module's docstring."""
    first = np.unique(cells.cells, return_index=True)[1]
    p, size, share = mean[first], cells.size, cells.mass / cells.mass.sum()
    several = size > 1 + 1e-9
    inflate = np.divide(size, size - 1, out=np.zeros_like(size), where=several)
    # Curvature times the variance of labels; a class that does not occur contributes nothing.
    curvature = np.where(p > 0, score.curvature(np.where(p > 0, p, 1.0)), 0.0)
    trace = np.sum(curvature * p * (1 - p), axis=1) * inflate
    # tr((D (diag p - p p^T))^2) in closed form.
    square = np.sum((curvature * p) ** 2 * (1 - 2 * p), axis=1)
    square += np.sum(curvature * p**2, axis=1) ** 2
    bias = np.sum(share * 0.5 * trace / size)
    noise = np.sum(share**2 * 0.5 * np.maximum(square, 0) * inflate**2 / size**2)
    return float(bias), float(noise)


def _residual_bias(score, cells, mean, residual):
    """Bias of D(C_b, S_b), by the variance of the residual: forecasts vary in a level set."""
    spread = cells.mean((residual - cells.mean(residual)) ** 2)
    curvature = np.where(mean > 0, score.curvature(np.where(mean > 0, mean, 1.0)), 0.0)
    size = cells.size[cells.cells]
    inverse = np.divide(1.0, size - 1, out=np.zeros_like(size), where=size > 1 + 1e-9)
    return float(weighted_mean(0.5 * np.sum(curvature * spread, axis=1) * inverse, cells.weight))
