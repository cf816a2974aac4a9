"""Is there any grouping loss? A permutation test within narrow bands of the score."""

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from skcalib.grouping._regions import order_of


def bonferroni(pvalues):
    """One p-value of several, whatever their dependence; nan where there was no test."""
    return float(np.minimum(1.0, len(pvalues) * np.min(pvalues)))


def permutation_pvalue(
    bins, regions, forecast, residual, weight, n_permutations, rng, width=20, n_jobs=None
):
    r"""p-value of the null hypothesis E[Y|X] = E[Y|S].

    The statistic is the variance between regions of the residual :math:`Y - \hat C(S)`, within
    level sets. Residuals are permuted among samples of one level set that are neighbours in the
    score, `width` at a time: there they are exchangeable under the null, up to the change of
    :math:`\hat C` over the band. p = (1 + number of permutations that reach the observed value) /
    (1 + n_permutations), never 0.
    """
    order = np.lexsort((rng.random_sample(len(bins)), order_of(forecast), bins))
    bins, regions, weight = bins[order], regions[order], weight[order]
    # A unit of weight and residual travels together, so that level sets keep their sums.
    mass, pull = weight, weight[:, None] * residual[order]
    position = np.arange(len(bins)) - np.searchsorted(bins, bins)
    band = np.cumsum(position % width == 0)

    def statistic(rows):
        between = 0.0
        for cells, sign in ((regions, 1), (bins, -1)):
            size = np.bincount(cells, mass[rows])
            size[size == 0] = 1.0
            sums = (np.bincount(cells, column[rows]) for column in pull.T)
            between += sign * sum(np.sum(s**2 / size) for s in sums)
        return between

    def shuffled(keys):
        return statistic(np.argsort(band + keys))

    observed = statistic(np.arange(len(bins))) * (1 - 1e-12)
    # Keys are drawn here, one after the other: the p-value does not depend on n_jobs.
    drawn = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(shuffled)(rng.random_sample(len(bins))) for _ in range(n_permutations)
    )
    return (1 + sum(value >= observed for value in drawn)) / (1 + n_permutations)
