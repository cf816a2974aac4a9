"""Recalibration of two real networks: 5,000 or 1,000 samples learn, others judge.

The predictions are those of ../shared/data/README.md. Splits are seeded; the first and the second
half of the LeNet's file give the numbers of the literature.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import skcalib as s
from skcalib.scores import LogLoss

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"the predictions are not at {DATA}")


@cache
def network(name):
    with np.load(DATA / f"{name}.npz") as file:
        P, y = file["predictions"].astype(np.float64), file["ground_truth"].ravel().astype(int)
    P /= P.sum(axis=1, keepdims=True)
    assert len(P) == 10_000 and np.array_equal(np.unique(y), np.arange(P.shape[1]))
    P.setflags(write=False)
    return P, y


def log_loss(P, y):
    return float(np.mean(LogLoss().loss(np.eye(P.shape[1])[y], P)))


def held_out(recalibrator, P, y, train, test):
    """Log loss on the rows that judge."""
    recalibrator.set_params(labels=np.arange(P.shape[1])).fit(P[train], y[train])
    return log_loss(recalibrator.predict_proba(P[test]), y[test])


def test_temperature_of_the_lenet():
    """1.37 and 1.390 -> 1.326, the first half of the file against the second."""
    P, y = network("cifar10_lenet5")
    train, test = np.arange(5000), np.arange(5000, 10_000)
    scaling = s.TemperatureScaling()
    assert log_loss(P[test], y[test]) == pytest.approx(1.390, abs=5e-4)
    assert held_out(scaling, P, y, train, test) == pytest.approx(1.326, abs=5e-4)
    assert scaling.temperature_ == pytest.approx(1.37, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [s.VectorScaling, s.recalibration.MatrixScaling])
def test_structured_shrinkage_wins_at_small_n_and_none_overfits(cls):
    """1,000 samples of 100 classes: not worse than temperature on at least 4 of 5 splits."""
    P, y = network("cifar100_wideresnet16x4")
    shrunk = []
    for seed in range(5):
        order = np.random.RandomState(seed).permutation(10_000)
        train, test = order[:1000], order[5000:]
        temperature = held_out(s.TemperatureScaling(), P, y, train, test)
        shrunk.append(held_out(cls(), P, y, train, test) - temperature)
        if seed == 0:
            raw = cls(shrinkage=0, max_iter=200)
            with pytest.warns(ConvergenceWarning):
                assert held_out(raw, P, y, train, test) - temperature > 0.05
    assert np.sum(np.array(shrunk) <= 1e-9) >= 4 and np.mean(shrunk) < 0


@pytest.mark.parametrize(
    "recalibrator",
    [
        s.recalibration.EnsembleTemperatureScaling(loss="log"), s.PlattScaling(),
        s.BetaCalibration(),
        s.recalibration.QuadraticScaling(), s.VectorScaling(), s.recalibration.MatrixScaling(),
        s.DirichletCalibration(),
        s.recalibration.DiagonalOrderPreserving(),
        pytest.param(
            s.recalibration.DiagonalOrderPreserving(variant="pieces"), marks=pytest.mark.slow
        ),
        s.IsotonicRecalibrator(strict=True),
    ],
    ids=lambda r: type(r).__name__,
)  # fmt: skip
def test_every_map_helps_the_lenet(recalibrator):
    """Held out, from 1.390; and none is far from temperature's 1.326."""
    P, y = network("cifar10_lenet5")
    after = held_out(recalibrator, P, y, np.arange(5000), np.arange(5000, 10_000))
    assert after < 1.340
