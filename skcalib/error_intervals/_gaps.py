"""Gaps of cells: mean residuals, their covariance, and what a sample contributes to them."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from skcalib.errors.binned import _any_bins, check_bins, quantile_edges
from skcalib.notions import check_events

_DENSE = 1200  # cells up to which their covariance is written down
_ROWS = 2000  # samples at a time


@dataclass(frozen=True)
class Gaps:
    """Mean residuals of the cells of one or several columns.

    Attributes
    ----------
    cell : ndarray of shape (P, n)
        For each column the cell of each sample; cells of all columns are numbered through.
    residual : ndarray of shape (P, n)
        Label - score.
    weight : ndarray of shape (n,)
        Weights that sum to one.
    share : ndarray of shape (M,)
        What the column of each cell counts.
    column : ndarray of shape (M,)
        Number of the column of each cell.
    """

    cell: np.ndarray
    residual: np.ndarray
    weight: np.ndarray
    share: np.ndarray
    column: np.ndarray

    @classmethod
    def of_columns(cls, cells, residual, weight, share):
        """Cells of each column, by any integers, (P, n); residuals (P, n); shares (P,)."""
        numbered, column = [], []
        for j, one in enumerate(cells):
            distinct, index = np.unique(one, return_inverse=True)
            numbered.append(index.ravel() + len(column))
            column += [j] * len(distinct)
        n_samples = np.shape(residual)[1]
        weight = np.full(n_samples, 1 / n_samples) if weight is None else weight / weight.sum()
        column = np.array(column)
        return cls(np.array(numbered), residual, weight, np.asarray(share)[column], column)

    @property
    def n_cells(self):
        """Number of cells of all columns."""
        return len(self.column)

    def sum(self, values):
        """Sums over the cells of values (P, n)."""
        return np.bincount(self.cell.ravel(), np.ravel(values), self.n_cells)

    def mass(self):
        """Share of the weight in each cell; one in every column."""
        return self.sum(np.broadcast_to(self.weight, self.cell.shape))

    def gap(self):
        """Mean residual of each cell."""
        return self.sum(self.weight * self.residual) / self.mass()

    def centred(self):
        """Residuals minus their mean in the cell, (P, n)."""
        return self.residual - self.gap()[self.cell]

    def inverse_size(self):
        """Sum of w^2 over the square of the sum of w in each cell."""
        return self.sum(np.broadcast_to(self.weight**2, self.cell.shape)) / self.mass() ** 2

    def contributions(self):
        """Sparse (n, M): what each sample adds to the error of each gap.

        The products of its columns are the covariance of the gaps, and its squares sum to their
        unbiased variance. A sample that is alone in its cell contributes nothing.
        """
        inverse = self.inverse_size()
        several = inverse < 1 - 1e-9
        factor = np.where(several, 1 / np.sqrt(np.where(several, 1 - inverse, 1.0)), 0.0)
        return self._sparse(self.weight * self.centred() * (factor / self.mass())[self.cell])

    def rows(self):
        """Sparse (n, M): weight times residual of each sample in its cells."""
        return self._sparse(self.weight * self.residual)

    def _sparse(self, values):
        n_columns, n_samples = self.cell.shape
        starts = n_columns * np.arange(n_samples + 1)
        shape = (n_samples, self.n_cells)
        return csr_matrix((values.T.ravel(), self.cell.T.ravel(), starts), shape=shape)

    def influence(self, slope, value):
        """Influence of each sample on sum_c share p f(gap), with slopes f' and values f, (n,)."""
        inside = (self.share * slope)[self.cell] * self.centred()
        between = np.sum((self.share * value)[self.cell], axis=0)
        total = np.sum(inside, axis=0) + between
        return self.weight * (total - self.weight @ total)


def score_gaps(options):
    """Gaps of the bins of `calibration_error`, from all its arguments -> (Gaps, Events)."""
    events = check_events(
        options["y_true"],
        options["y_proba"],
        options["notion"],
        sample_weight=options["sample_weight"],
        labels=options["labels"],
        pos_label=options["pos_label"],
    )
    bins = check_bins(options["n_bins"], options["strategy"], events.n_samples)
    score, event, weight = events.columns()
    edges = [quantile_edges(s, bins) if isinstance(bins, int) else bins for s in score]
    cells = [_any_bins(s, e) for s, e in zip(score, edges, strict=True)]
    share = np.full(len(score), 1 / len(score) if events.notion.reduce == "mean" else 1.0)
    return Gaps.of_columns(cells, event - score, weight, share)


def normal_draws(contributions, n_draws, rng, *, weight=None):
    """Normal vectors (n_draws, M) with the covariance of the columns of `contributions` (n, M).

    With weights, a column is centred first: its sum times them is subtracted.
    """
    n_samples, n_cells = contributions.shape
    total = np.asarray(contributions.sum(axis=0)).ravel()
    if n_cells <= _DENSE:
        matrix = covariance(contributions)
        if weight is not None:
            cross = np.outer(contributions.T @ weight, total)
            matrix += np.outer(total, total) * (weight @ weight) - cross - cross.T
        values, vectors = np.linalg.eigh(matrix)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return rng.standard_normal((n_draws, n_cells)) @ root.T
    draws = np.zeros((n_cells, n_draws))
    for start in range(0, n_samples, _ROWS):
        rows = contributions[start : start + _ROWS]
        noise = rng.standard_normal((rows.shape[0], n_draws))
        draws += rows.T @ noise
        if weight is not None:
            draws -= np.outer(total, weight[start : start + _ROWS] @ noise)
    return draws.T


def covariance(contributions):
    """The products of the columns of `contributions`, dense."""
    return (contributions.T @ contributions).toarray()
