"""Who is affected: one record for each region."""

from dataclasses import dataclass

import numpy as np

from skcalib.grouping._terms import Cells
from skcalib.intervals import clopper_pearson


@dataclass(frozen=True)
class Region:
    """A region of a level set, on the samples that were measured.

    ``event`` is what is forecast (a class, or "top label"); ``low`` and ``high`` are the
    Clopper-Pearson interval of ``mean_outcome``; ``gap`` = mean score - mean outcome, positive
    where the score promises too much. ``harm`` is the share of the region times its squared gap
    without the bias by the variance of the labels, in the units of the Brier score: what the
    region contributes to the error of the score.
    """

    event: str
    level_set: int
    region: int
    rule: str
    n_samples: int
    share: float
    mean_score: float
    mean_outcome: float
    low: float
    high: float
    gap: float
    harm: float

    @property
    def direction(self):
        """ "over-confident", "under-confident", or "" where the interval holds the mean score."""
        if self.low <= self.mean_score <= self.high:
            return ""
        return "over-confident" if self.gap > 0 else "under-confident"


def region_table(events, bins, regions, rules, forecast, target, weight, confidence_level):
    """List of `Region`, the largest harm first.

    Of a vector of more than two columns, the column of the largest gap speaks for the region.
    """
    cells = Cells(regions, weight)
    first = np.unique(cells.cells, return_index=True)[1]
    score, outcome = cells.mean(forecast)[first], cells.mean(target)[first]
    column = np.full(len(first), 1)
    if forecast.shape[1] > 2:
        column = np.abs(score - outcome).argmax(axis=1)
    rows = np.arange(len(first))
    score, outcome, size = score[rows, column], outcome[rows, column], cells.size
    low, high = clopper_pearson(outcome, size, confidence_level)
    share = cells.mass / cells.mass.sum()
    noise = outcome * (1 - outcome) / np.maximum(size - 1, 1)
    harm = share * ((score - outcome) ** 2 - noise)
    counts = np.bincount(cells.cells)
    return [
        Region(
            event=events[column[j]],
            level_set=int(bins[first[j]]),
            region=int(regions[first[j]]),
            rule=rules[j],
            n_samples=int(counts[j]),
            share=float(share[j]),
            mean_score=float(score[j]),
            mean_outcome=float(outcome[j]),
            low=float(low[j]),
            high=float(high[j]),
            gap=float(score[j] - outcome[j]),
            harm=float(harm[j]),
        )
        for j in np.argsort(-harm, kind="stable")
    ]
