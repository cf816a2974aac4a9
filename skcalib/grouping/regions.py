"""Records of regions, and a permutation test of the grouping loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from skcalib._util.parallel import run_each
from skcalib._util.records import Record
from skcalib.grouping.partition import Cells, order_of
from skcalib.stats.means import clopper_pearson, mean_interval, rate_interval
from skcalib.stats.pvalues import drawn_pvalue

_SLOW = 16  # times as long as a sum over the samples: an order of them, and sums over regions
#: Samples, times permutations, of one batch of the permutation test.
_AT_ONCE = 65_536


@dataclass(frozen=True)
class Region(Record):
    """A region compared with the whole of its level set, on the measured samples.

    Attributes
    ----------
    event : str
        The event: a class, or "top label".
    level_set, region : int
        Numbers of the level set and of the region.
    rule : str
        Definition of the region.
    n_samples : int
        Measured samples.
    share : float
        Their weight, between 0 and 1.
    mean_score : float
        Mean predicted probability.
    expected : float
        Frequency of the event in the level set, moved along the calibration curve to the scores of
        the region: the mean calibrated score of its samples.
    mean_outcome : float
        Frequency of the event in the region.
    low, high : float
        Clopper-Pearson interval of `mean_outcome`, of this region alone.
    gap : float
        ``expected - mean_outcome``: positive where even the calibrated score is too high.
    harm : float
        Contribution of the region to the explained grouping loss: the share times the squared gap,
        minus the part that is due to the noise of the labels. It is unbiased, in the units of the
        Brier score, and negative where the noise explains more than the gap.
    effective_size : float
        Number of equally weighted samples with the same precision.

    See Also
    --------
    skcalib.GroupingLossEstimator : Finds the regions.
    skcalib.GroupingDisplay : Draws them.
    """

    event: str
    level_set: int
    region: int
    rule: str
    n_samples: int
    share: float
    mean_score: float
    expected: float
    mean_outcome: float
    low: float
    high: float
    gap: float
    harm: float
    effective_size: float

    @property
    def direction(self) -> Literal["too_high", "too_low", ""]:
        """ "too_high", "too_low", or "" if the interval contains the calibrated score."""
        if self.low <= self.expected <= self.high:
            return ""
        return "too_high" if self.gap > 0 else "too_low"


def region_table(
    events: Sequence[str],
    bins: np.ndarray,
    regions: np.ndarray,
    rules: Sequence[str],
    forecast: np.ndarray,
    target: np.ndarray,
    curve: np.ndarray,
    weight: np.ndarray,
    confidence_level: float,
    cluster: np.ndarray | None = None,
) -> list[Region]:
    """A `Region` for each number of a region, in order, for the column with the largest gap."""
    cells, levels = Cells(regions, weight), Cells(bins, weight)
    first = np.unique(cells.cells, return_index=True)[1]
    level = levels.cells[first]
    score, outcome = cells.mean(forecast)[first], cells.mean(target)[first]
    # The curve gives differences within the level set, the level set gives the mean frequency.
    expected = cells.mean(curve + levels.mean(target - curve))[first]
    spread = (cells.mean((target - curve) ** 2) - cells.mean(target - curve) ** 2)[first]
    column = np.full(len(first), 1)
    if forecast.shape[1] > 2:
        column = np.abs(expected - outcome).round(12).argmax(axis=1)  # the first of equal ones
    rows = np.arange(len(first))
    score, outcome, expected, spread = (
        part[rows, column] for part in (score, outcome, expected, spread)
    )
    gap, size = expected - outcome, cells.size
    low, high = clopper_pearson(outcome, size, confidence_level)
    share = cells.mass / cells.mass.sum()
    alone = spread / np.maximum(size - 1, 1)  # variance of the mean residual of each region
    if cluster is not None:
        for j in rows:
            here, k = cells.cells == j, column[j]
            own = weight[here], confidence_level
            alone[j] = (
                mean_interval((target - curve)[here, k], *own, cluster=cluster[here]).standard_error
                ** 2
            )
            found = rate_interval(target[here, k], *own, cluster=cluster[here])
            low[j], high[j] = found.low, found.high
    harm = share * (gap**2 - _noise(alone, cells.mass / levels.mass[level], level))
    expected = np.clip(expected, 0.0, 1.0)
    counts = np.bincount(cells.cells)
    return [
        Region(
            event=events[column[j]],
            level_set=int(bins[first[j]]),
            region=int(regions[first[j]]),
            rule=rule,
            n_samples=int(counts[j]),
            share=float(share[j]),
            mean_score=float(score[j]),
            expected=float(expected[j]),
            mean_outcome=float(outcome[j]),
            low=float(low[j]),
            high=float(high[j]),
            gap=float(expected[j] - outcome[j]),
            harm=float(harm[j]),
            effective_size=float(size[j]),
        )
        for j, rule in enumerate(rules)
    ]


def _noise(alone, part, level):
    """Variance of the difference of a region from its level set, of which it is a part itself."""
    together = np.bincount(level, part**2 * alone)
    return (1 - 2 * part) * alone + together[level]


# --- Permutation test -----------------------------------------------------------------------------


def sign_pvalue(
    bins: np.ndarray,
    regions: np.ndarray,
    residual: np.ndarray,
    weight: np.ndarray,
    cluster: np.ndarray,
    n_resamples: int,
    rng: np.random.RandomState,
) -> float:
    """As `permutation_pvalue`, for samples in clusters, which cannot be permuted one by one.

    The residuals, minus their mean in the level set, get a random sign for each cluster. The
    p-value is exact if the distribution of the residuals of a cluster is symmetric, and
    asymptotically valid for many clusters otherwise.
    """
    pull = weight[:, None] * (residual - Cells(bins, weight).mean(residual))
    cells = [np.unique(one, return_inverse=True)[1].ravel() for one in (regions, bins)]
    mass = [np.bincount(one, weight) for one in cells]

    def statistic(signs):
        between = 0.0
        for one, size, sign in zip(cells, mass, (1, -1), strict=True):
            sums = (np.bincount(one, signs * column) for column in pull.T)
            between += sign * sum(np.sum(s**2 / size) for s in sums)
        return between

    def draw(size):
        draws = rng.choice([-1.0, 1.0], size=(size, int(cluster.max()) + 1))
        return np.array([statistic(signs[cluster]) for signs in draws])

    observed = float(statistic(np.ones(len(bins))))
    return drawn_pvalue(draw, observed, n_resamples, size=_SLOW * len(bins))[0]


def permutation_pvalue(
    bins: np.ndarray,
    regions: np.ndarray,
    forecast: np.ndarray,
    residual: np.ndarray,
    weight: np.ndarray,
    n_permutations: int,
    rng: np.random.RandomState,
    width: int = 20,
    n_jobs: int | None = None,
) -> float:
    r"""p-value of the null hypothesis E[Y|X] = E[Y|S].

    The statistic is the variance between regions of the residual :math:`Y - \hat C(S)`, within
    level sets. Residuals are permuted among samples of one level set that are neighbours in the
    score, `width` at a time: there they are exchangeable under the null, up to the change of
    :math:`\hat C` over the band. The p-value is that of `drawn_pvalue`, never 0.
    """
    order = np.lexsort((rng.random_sample(len(bins)), order_of(forecast), bins))
    bins, regions, mass = bins[order], regions[order], weight[order]
    # Weight and residual are permuted together, so that level sets keep their sums.
    pull = mass[:, None] * residual[order]
    position = np.arange(len(bins)) - np.searchsorted(bins, bins)
    band = np.cumsum(position % width == 0)
    n_regions = int(regions.max()) + 1

    def statistics(rows):
        """The part of the statistic that permutations change, for each order of rows (draws, n)."""
        cells = regions + n_regions * np.arange(len(rows))[:, None]
        size = _sizes(cells, mass[rows])
        sums = (np.bincount(cells.ravel(), column[rows].ravel()) for column in pull.T)
        between = sum(one**2 / size for one in sums)
        return between.reshape(len(rows), n_regions).sum(axis=1)

    def shuffled(keys):
        return statistics(np.argsort(band + keys, axis=1))

    def keys(size):
        """Batches of keys, drawn in this order for any number of jobs."""
        most = max(1, _AT_ONCE // len(bins))
        for start in range(0, size, most):
            yield (rng.random_sample((min(most, size - start), len(bins))),)

    def draw(size):
        return np.concatenate(run_each(shuffled, keys(size), n_jobs=n_jobs, prefer="threads"))

    observed = float(statistics(np.arange(len(bins))[None])[0])
    return drawn_pvalue(draw, observed, n_permutations, size=_SLOW * len(bins))[0]


def _sizes(cells, mass):
    """Weight of each cell; 1 for numbers without samples, whose sums are 0."""
    size = np.bincount(cells.ravel(), mass.ravel())
    return np.where(size == 0, 1.0, size)
