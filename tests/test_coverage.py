"""Coverage of the interval of the "risk" method, by simulation with known truth.

400 data sets of 2,000 samples; the Monte Carlo standard error of a coverage of .95 is .011, and
of a false alarm rate of .025 it is .008. Seeds are fixed, so a failure means that code changed.
"""

import numpy as np
import pytest

from skcalib import Brier, CalibrationErrorEstimator, LogLoss
from skcalib.datasets import make_tempered_simplex
from skcalib.tower import expected_divergence

REPETITIONS, N_SAMPLES = 400, 2000
SCORES = {"brier": Brier(), "log": LogLoss()}
LOSSES = [
    pytest.param("brier", id="brier"),
    pytest.param("log", id="log", marks=pytest.mark.slow),
]


def true_error(loss, n_classes, temperature):
    if n_classes == 2:
        return make_tempered_simplex(2, 2, score_temperature=temperature).truth[loss]
    # The mean divergence over a million forecasts: its standard error is 1/20 of an interval's.
    data = make_tempered_simplex(
        1_000_000, n_classes, score_temperature=temperature, random_state=12345
    )
    return expected_divergence(SCORES[loss], data.posterior, data.y_proba)


def intervals(loss, n_classes, temperature):
    found = []
    for seed in range(REPETITIONS):
        data = make_tempered_simplex(
            N_SAMPLES, n_classes, score_temperature=temperature, random_state=seed
        )
        estimator = CalibrationErrorEstimator(loss=loss, labels=np.arange(n_classes))
        found.append(estimator.fit(data.y_proba, data.y).confidence_interval_)
    return np.array(found).T


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 10])
def test_interval_covers_where_the_smoother_contains_the_truth(loss, n_classes):
    low, high = intervals(loss, n_classes, temperature=0.6)
    truth = true_error(loss, n_classes, temperature=0.6)
    assert 0.93 <= np.mean((low <= truth) & (truth <= high)) <= 0.97


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 10])
def test_calibrated_forecasts_are_rarely_called_miscalibrated(loss, n_classes):
    low, high = intervals(loss, n_classes, temperature=1.0)
    assert np.mean(low > 0) <= 0.025
    assert np.all(high > low)
