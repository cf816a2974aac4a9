"""Coverage of the intervals of the default, of "risk" and of "cross", with known truth.

400 data sets of 2,000 samples for two classes, 30 for ten; the Monte Carlo standard error of a
coverage of .95 is .011 and .040, and of a false alarm rate of .025 it is .008 and .029. Seeds are
fixed, so a failure means that code changed.
"""

import numpy as np
import pytest

from skcalib import CalibrationErrorEstimator
from skcalib.datasets import make_tempered_simplex
from skcalib.scores import expected_divergence, resolve_loss

pytestmark = pytest.mark.slow
REPETITIONS, N_SAMPLES = {2: 400, 10: 30}, 2000
#: A "cross" estimate varies less than its interval, that of "risk", allows for. Upper limits are
#: at least Student's, so that the coverage lies above the level rather than below it. False alarms:
#: .05 for the default, .025 for one-sided limits, and two standard errors.
CASES = [
    ("brier", "auto", 0.93, 0.99, 0.072),
    ("log", "auto", 0.93, 0.99, 0.072),
    ("brier", "cross", 0.92, 0.995, 0.045),
    ("log", "risk", 0.92, 0.99, 0.045),
]
FEWER = {2: 0.0, 10: 0.058}  # wider limits for fewer data sets: two standard errors


def true_error(loss, n_classes, temperature):
    if n_classes == 2:
        return make_tempered_simplex(2, 2, score_temperature=temperature).truth[loss]
    # The mean divergence over a million forecasts: its standard error is 1/20 of an interval's.
    options = {"score_temperature": temperature, "random_state": 12345}
    world = make_tempered_simplex(1_000_000, n_classes, **options)
    return expected_divergence(resolve_loss(loss), world.posterior, world.y_proba)


def intervals(loss, method, n_classes, temperature):
    options, limits = {"loss": loss, "method": method, "labels": np.arange(n_classes)}, []
    for seed in range(REPETITIONS[n_classes]):
        world = make_tempered_simplex(
            N_SAMPLES, n_classes, score_temperature=temperature, random_state=seed
        )
        estimator = CalibrationErrorEstimator(**options).fit(world.y_proba, world.y)
        limits.append(estimator.confidence_interval_)
    return np.array(limits).T


@pytest.mark.parametrize(("loss", "method", "least", "most", "alarms"), CASES)
@pytest.mark.parametrize("n_classes", REPETITIONS)
def test_intervals_cover_and_seldom_call_calibrated_forecasts_miscalibrated(
    loss, method, least, most, alarms, n_classes
):
    low, high = intervals(loss, method, n_classes, temperature=0.6)
    truth = true_error(loss, n_classes, temperature=0.6)
    covered = np.mean((low <= truth) & (truth <= high))
    assert least - FEWER[n_classes] <= covered <= most + FEWER[n_classes]
    low, high = intervals(loss, method, n_classes, temperature=1.0)
    assert np.mean(low > 0) <= alarms + FEWER[n_classes]
    assert np.all(high > low)
