"""Coverage of the intervals of the default, of "risk" and of "cross", with known truth.

400 data sets of 2,000 samples for two classes, 30 for ten; the Monte Carlo standard error of a
coverage of .95 is .011 and .040, and of a false alarm rate of .025 it is .008 and .029. Seeds are
fixed, so a failure means that code changed.
"""

import numpy as np
import pytest

from skcalib import CalibrationErrorEstimator
from skcalib.datasets import make_tempered_simplex
from skcalib.scores import Brier, LogLoss
from skcalib.tower import expected_divergence

REPETITIONS, N_SAMPLES = {2: 400, 10: 30}, 2000
SCORES = {"brier": Brier(), "log": LogLoss()}
CASES = [
    pytest.param("brier", "auto", id="brier", marks=pytest.mark.slow),
    pytest.param("log", "auto", id="log", marks=pytest.mark.slow),
    pytest.param("brier", "cross", id="brier-cross", marks=pytest.mark.slow),
    pytest.param("log", "risk", id="log-risk", marks=pytest.mark.slow),
]
#: A "cross" estimate varies less than its interval, that of "risk", allows for. Upper limits are
#: at least Student's, so that the coverage lies above the level rather than below it.
LIMITS = {"auto": (0.93, 0.99), "risk": (0.92, 0.99), "cross": (0.92, 0.995)}
#: False alarms: .05 for the default, .025 for one-sided limits, and two standard errors.
ALARMS = {"auto": 0.072, "risk": 0.045, "cross": 0.045}
FEWER = {2: 0.0, 10: 0.058}  # wider limits for fewer data sets: two standard errors


def true_error(loss, n_classes, temperature):
    if n_classes == 2:
        return make_tempered_simplex(2, 2, score_temperature=temperature).truth[loss]
    # The mean divergence over a million forecasts: its standard error is 1/20 of an interval's.
    data = make_tempered_simplex(
        1_000_000, n_classes, score_temperature=temperature, random_state=12345
    )
    return expected_divergence(SCORES[loss], data.posterior, data.y_proba)


def intervals(loss, method, n_classes, temperature):
    found = []
    for seed in range(REPETITIONS[n_classes]):
        data = make_tempered_simplex(
            N_SAMPLES, n_classes, score_temperature=temperature, random_state=seed
        )
        labels = np.arange(n_classes)
        estimator = CalibrationErrorEstimator(loss=loss, method=method, labels=labels)
        found.append(estimator.fit(data.y_proba, data.y).confidence_interval_)
    return np.array(found).T


classes = pytest.mark.parametrize("n_classes", [2, pytest.param(10, marks=pytest.mark.slow)])


@pytest.mark.parametrize(("loss", "method"), CASES)
@classes
def test_interval_covers_where_the_smoother_contains_the_truth(loss, method, n_classes):
    low, high = intervals(loss, method, n_classes, temperature=0.6)
    truth = true_error(loss, n_classes, temperature=0.6)
    least, most = LIMITS[method]
    covered = np.mean((low <= truth) & (truth <= high))
    assert least - FEWER[n_classes] <= covered <= most + FEWER[n_classes]


@pytest.mark.parametrize(("loss", "method"), CASES)
@classes
def test_calibrated_forecasts_are_rarely_called_miscalibrated(loss, method, n_classes):
    low, high = intervals(loss, method, n_classes, temperature=1.0)
    assert np.mean(low > 0) <= ALARMS[method] + FEWER[n_classes]
    assert np.all(high > low)
