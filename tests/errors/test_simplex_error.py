"""Errors over cells of the simplex (W19): distances, cells, weights, truths."""

import numpy as np
import pytest
from grids import covering
from sklearn.base import clone

from skcalib.datasets import make_widmann
from skcalib.errors import simplex_calibration_error
from skcalib.scores import Brier, LogLoss, Lp, TotalVariation
from skcalib.smoothers import LevelSets, MedianCells, QuantileBins, UniformBins

DISTANCES = {
    "total_variation": lambda d: np.abs(d).sum() / 2,
    "cityblock": lambda d: np.abs(d).sum(),
    "squared_euclidean": lambda d: np.sum(d**2),
    "euclidean": lambda d: np.sqrt(np.sum(d**2)),
}
OBJECTS = {"total_variation": TotalVariation(), "cityblock": Lp(1), "squared_euclidean": Brier()}
BINS = [MedianCells(4), MedianCells(30, min_samples=1), MedianCells()]
BINS += [UniformBins(3), QuantileBins(3), LevelSets()]


@pytest.mark.parametrize(
    ("name", "bins", "weighted"), covering(DISTANCES, BINS, [False, True]), ids=str
)
def test_by_loops(name, bins, weighted, multiclass):
    """sum_b p_b d(mean label, mean forecast), cell by cell."""
    y, proba = multiclass
    weight = np.random.default_rng(0).random(len(y)) if weighted else np.ones(len(y))
    options = {"bins": bins, "sample_weight": weight if weighted else None}
    error = simplex_calibration_error(y, proba, distance=name, **options)
    assert not hasattr(bins, "cells_")  # a smoother that is passed in stays unfitted
    cells, expected = clone(bins).fit(proba, np.eye(3)[y]).cells_, 0.0
    for rows in cells == np.unique(cells)[:, None]:
        gap = np.average((np.eye(3)[y] - proba)[rows], axis=0, weights=weight[rows])
        expected += weight[rows].sum() / weight.sum() * DISTANCES[name](gap)
    assert error == pytest.approx(expected, rel=1e-10) and type(error) is float
    if name in OBJECTS:
        assert simplex_calibration_error(y, proba, distance=OBJECTS[name], **options) == error


def test_names_of_bins_and_other_distances(multiclass):
    y, proba = multiclass
    for name, bins in (("median", MedianCells(15)), ("uniform", UniformBins(10))):
        errors = [simplex_calibration_error(y, proba, bins=b) for b in (name, bins)]
        assert errors[0] == errors[1]

    class Largest:
        def divergence(self, target, forecast):
            return np.abs(target - forecast).max(axis=-1)

    largest = simplex_calibration_error(y, proba, distance=Largest())
    assert 0 < largest <= simplex_calibration_error(y, proba, distance="cityblock")
    assert simplex_calibration_error(y, proba, distance=LogLoss()) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("model", "truth"), [("M1", 0.0), ("M2", 0.45), ("M3", 0.7106418)])
def test_models_of_w19(model, truth):
    """Total variation errors of three models of ten classes, with 20,000 samples each."""
    sample = make_widmann(20_000, model=model, random_state=0)
    bins = MedianCells(10), MedianCells(1000)
    coarse, fine = (
        simplex_calibration_error(sample.y, sample.y_proba, bins=cells) for cells in bins
    )
    assert coarse <= truth + 0.03  # averages in a cell: below the truth but for noise
    if model == "M1":
        assert fine > 0.1  # cells of few samples: far above zero for calibrated forecasts
    if model == "M2":  # the same direction everywhere: nothing cancels in a cell
        assert coarse == pytest.approx(truth, abs=0.01)
    if model == "M3":  # cells that join the certain forecasts of several classes
        assert coarse < truth / 2 and fine > 0.9 * truth


@pytest.mark.parametrize("bins", [MedianCells, UniformBins])
def test_forecasts_without_a_copy_have_the_same_error(bins, multiclass):
    """Without a one-hot target; weights of zero and labels that lack a class; to the last bit."""
    y, proba = multiclass
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    arguments = {"sample_weight": weight, "labels": np.arange(3)}
    y = np.where(y == 2, 1, y)
    others = type("Others", (bins,), {})  # not of the library: fitted to a copy and a target
    expected = simplex_calibration_error(y, proba, bins=others(), **arguments)
    assert simplex_calibration_error(y, proba, bins=bins(), **arguments) == expected
