"""Calibration errors over bins of the whole simplex (W19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import clone

from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, Label
from skcalib._util.validation import look_up
from skcalib.data.problem import check_problem
from skcalib.scores import Brier, Divergence, Lp, TotalVariation, expected_divergence
from skcalib.smoothers import MedianCells, UniformBins
from skcalib.smoothers.partition import PartitionSmoother

if TYPE_CHECKING:
    from skcalib.data.problem import Problem


class Euclidean(Divergence):
    """Root of `Lp` with p = 2; for two classes the difference of the probabilities."""

    def divergence(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        return np.sqrt(Lp(2).divergence(target, forecast))


DISTANCES = {
    "total_variation": TotalVariation,
    "squared_euclidean": Brier,
    "cityblock": lambda: Lp(1),
    "euclidean": Euclidean,
}
BINS = {"median": lambda: MedianCells(15), "uniform": lambda: UniformBins(10)}


@checks_parameters
def simplex_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    distance: Any = "total_variation",
    bins: Literal["median", "uniform"] | PartitionSmoother = "median",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Label = None,
) -> float:
    r"""Expected calibration error of all classes at once, over bins of the simplex (W19, eq. 5).

    :math:`\sum_b p_b\, d(\bar y_b, \bar s_b)`: the mean distance between the class frequencies and
    the mean forecast of each bin, where bins are cells of the simplex. It depends on every class,
    not only the predicted one. Most cells become empty as the number of classes grows: with many
    cells it is far above zero for calibrated forecasts too. :func:`kernel_calibration_error` has
    neither bins nor that bias.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of any type.
    y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of each class.
    distance : str or object with a method ``divergence``, default="total_variation"
        "total_variation" is half of the sum of absolute differences, "squared_euclidean" the
        divergence of `Brier`, "cityblock" the sum of absolute differences, and "euclidean" the root
        of the sum of squares. All but the first halve their sums for two classes, as `Brier` does.
        Or `TotalVariation`, `Lp`, a proper score, or anything with ``divergence(target,
        forecast)``.
    bins : {"median", "uniform"} or partition smoother, default="median"
        "median" is ``MedianCells(15)``: the data-dependent bins of W19, which cut the cell of the
        largest variance at the median of its most variable coordinate, at most 15 of them with at
        least 10 samples each. The published errors of networks on CIFAR-10 are those of
        ``MedianCells(min_samples=100)``. "uniform" cuts every coordinate into ten. For other
        numbers of cells pass `UniformBins`, `QuantileBins` or `LevelSets`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights. They do not affect the cells; if the cells do not depend on the data, as for
        "uniform", whole numbers mean repetition.

    Returns
    -------
    float
        In units of the distance, not negative. Cost: O(n K) for each level of cuts of "median".
        Probabilities of type float64 are not copied.

    See Also
    --------
    calibration_error : Bins of one score.

    Examples
    --------
    >>> from skcalib.errors import simplex_calibration_error
    >>> from skcalib.datasets import make_widmann
    >>> for model in ("M1", "M2"):
    ...     data = make_widmann(2000, model=model, random_state=0)
    ...     print(round(simplex_calibration_error(data.y, data.y_proba), 2))
    0.06
    0.45
    """
    cells = look_up(bins, BINS, "bins", kind=PartitionSmoother)
    # Cells of the library do not depend on the labels, so the target need not exist.
    own = type(cells) in (MedianCells, UniformBins)
    rest = None, sample_weight, labels, pos_label
    problem = check_problem(y_true, y_proba, *rest, copy=not own)
    cells = cells_for(problem, bins)
    if isinstance(distance, type) or not hasattr(distance, "divergence"):
        distance = look_up(distance, DISTANCES, "distance", kind=Divergence)
    measure: Any = distance
    if own:
        cells.fit(problem.forecast, problem.weight[:, None], problem.weight)
        target = cells.label_means(problem.outcome, problem.forecast.shape[1])
    else:
        target = cells.fit(problem.forecast, problem.target, problem.weight).cell_means()
    forecast = cells.cell_means(problem.forecast)
    return expected_divergence(measure, target, forecast, cells.mass_)


def cells_for(problem: Problem, bins: Any) -> PartitionSmoother:
    """The smoother of a public function; cells by default have enough independent samples."""
    cells = clone(look_up(bins, BINS, "bins", kind=PartitionSmoother))
    if isinstance(bins, str) and isinstance(cells, MedianCells) and problem.cluster is not None:
        size = cells.min_samples * problem.n_samples / problem.n_independent
        cells.set_params(min_samples=int(np.ceil(size)))
    return cells
