"""Sizes that decide by the amount of data how something is computed, all in one record.

Code reads ``SIZES.block_entries`` once for a call. Tests lower sizes, so that a few samples take
the way of very many::

    with sizes(paired_samples=100, pair_block_samples=20):
        kernel_calibration_error(y, proba)

The values hold in all threads of the process; other processes have the defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Sizes:
    """A number of what the second half of a name counts, and its default."""

    # Blocks: they bound the memory, and hardly change the time. The results are the same, or differ
    # by the rounding of sums.
    block_entries: int = 1 << 16  # of arrays that fit into the cache: samples times columns
    basis_entries: int = 1 << 19  # of the polynomials of log odds, for a block of samples
    stored_basis_entries: int = 1 << 25  # of all blocks, up to which they are kept between passes
    drawn_entries: int = 1 << 22  # samples times draws of labels or signs, evaluated at a time
    table_entries: int = 2_000_000  # of counts by sample and feature, or by sample and class
    kernel_rows: int = 256  # and columns, of a block of a kernel: half a megabyte, for the cache
    feature_rows: int = 4096  # samples whose features are computed at a time
    task_rows: int = 1024  # of sums of kernels, for a task of a thread
    text_rows: int = 500  # Python searches for garbage after 700 new lists, which takes time
    parquet_rows: int = 1 << 16  # that are read at a time
    part_entries: int = 1 << 22  # numbers of a part of a table that is read in parts
    line_characters: int = 1 << 24  # that are read at once
    batch_draws: int = 10  # of labels, after which their test is decided or goes on

    # Kernels of pairs of samples.
    paired_samples: int = 20_000  # up to which "auto" takes all pairs, of more as many pairs
    pair_block_samples: int = 400  # of a random block, at least
    kernel_clusters: int = 2000  # whose sums of a kernel are kept; of more, so many are drawn
    spectrum_rows: int = 1000  # of the spectrum of a kernel, drawn from more
    cumulant_rows: int = 600  # of the cumulants of the noise of a kernel, drawn from more
    product_columns: int = 8  # from which distances are computed by a product of matrices
    panel_pairs: int = 1_100_000  # of scores of two classes, above which panels replace the sum
    dropping_samples: int = 6000  # from which sums of kernels may drop sources
    interval_neighbors: int = 64  # above which intervals of scores replace a tree

    # Averaged maps, and their intervals.
    merged_samples: int = 200_000  # of two classes, above which those of a cell are merged
    merged_cells: int = 1 << 14  # of log odds, on either side of zero
    curve_cells: int = 1 << 13  # of the distribution function of log odds, on either side of zero
    curve_knots: int = 128  # of this function
    looked_up_values: int = 1000  # from which a table of the knots is used
    confused_samples: int = 10  # for each pair of classes, from which there are these constants
    part_samples: int = 20_000  # of a part to which maps of several classes are fitted, at least
    part_class_samples: int = 40  # the same, for each class
    one_step_samples: int = 5000  # from which a step of Newton's method is enough for a fold
    one_step_class_samples: int = 150  # the same, for each class
    product_rows: int = 2000  # of contributions, whose products are computed
    exact_directions: int = 2000  # of all problems; traces of more are estimated
    dense_cells: int = 1200  # whose covariance is computed as a dense matrix

    evidence_reach: float = 7.0  # log evidence below the best model from which one is not fitted
    least_share: float = 1e-4  # of a model, less is set to zero

    # Recalibrators.
    bracket_iterations: int = 300  # of a bracketing of the map of variances
    hessian_parameters: int = 1001  # of an affine map, up to which the Hessian is computed
    stored_logarithms: int = 1 << 22  # of probabilities, up to which they are kept
    subsample_samples: int = 100_000  # that `partial_fit` keeps
    subsample_entries: int = 10_000_000  # probabilities that it keeps
    slow_averages: int = 3_300_000  # probabilities whose averaged maps take about ten seconds
    slow_biases: int = 30_000_000  # probabilities whose fit of biases takes as long
    slow_slopes: int = 5_000_000  # probabilities whose fit of vector scaling takes as long

    # Bands, tests, features and reports.
    band_scores: int = 10_000  # distinct scores of a consistency band without groups
    band_groups: int = 2500  # of neighbouring scores, if there are more
    labelings: int = 999  # that are drawn where a test has no asymptotic law
    drawn_numbers: int = 1 << 26  # that all draws of a p-value take, about a second
    drawn_levels: int = 500  # half of the most levels of forecasts for which labels are drawn
    categories: int = 250  # of a column that are encoded, the most frequent ones
    compared_samples: int = 50_000  # at equal scores, by groups
    compared_groups: int = 1000  # of samples; more are left out, or are an error
    searched_samples: int = (
        20_000  # in which a report seeks groups, and pairs of features are searched
    )
    tested_entries: int = 2_000_000  # probabilities in the calibration test of a report
    report_entries: int = 300_000  # probabilities above which a report omits steps of minutes
    subsampled_entries: int = 5_000_000  # above which it takes a part, and no errors by class
    many_classes: int = 200  # above which maps with many parameters for each class are not compared
    sketched_rows: int = 10_000_000  # of a file, above which the report is that of a sketch


SIZES = Sizes()


@contextmanager
def sizes(**values: float) -> Iterator[None]:
    """Set some of the sizes, by name, for the length of a block."""
    before = {name: getattr(SIZES, name) for name in values}
    try:
        for name, value in values.items():
            setattr(SIZES, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(SIZES, name, value)
