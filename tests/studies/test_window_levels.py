"""Two windows: level and power of the comparison, and of the test of equal curves.

Level .05, windows of 500 and 2,000 samples with different distributions of the scores, of
independent samples and of clusters of unequal size. The labels of a cluster depend on each other
through a normal copula, so that P(Y | S) is the curve that is given. The curves of both windows are
equal, calibrated or of slope .6. Measured shares of rejections (500 samples: 100 data sets of each
of four kinds, standard error of their mean .011; 2,000 samples: 40 of each, .017):

    quantity                   500 samples          2,000 samples
    curves                     .02 to .07           .00 to .05
    slope                      .05 to .08           .00 to .10
    calibration error          .00 to .06           .00 to .05
    observed minus expected    .04 and .07          .03 and .05
    Brier score                .05 to .08           .03 to .15

The Brier calibration error has conservative intervals near 0.
"""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm

from skcalib import compare_windows
from skcalib.grouping import calibration_curve_equality_test

LEVEL = 0.05
CURVES = {"calibrated": 1.0, "slope .6": 0.6}
#: Windows of so many samples: data sets of each kind.
REPEATS = {500: 100, 2000: 40}


def draw(seed, n, slopes, *, shift=0.0, clustered=False, correlation=0.3):
    """Labels, forecasts, windows and clusters; the log odds are a slope times those forecast."""
    rng = np.random.default_rng([seed, n, clustered, *(round(10 * slope) for slope in slopes)])
    p = np.concatenate([rng.beta(2, 4, n), rng.beta(4, 2, n)])
    by = np.repeat([0, 1], n)
    chance = expit(np.repeat(slopes, n) * logit(p) + shift * by)
    noise, groups = rng.normal(size=2 * n), None
    if clustered:
        sizes = rng.geometric(1 / 8, 2 * n).clip(max=40)  # 1 to 40 samples, 8 on average
        clusters = [np.repeat(np.arange(2 * n), sizes)[:n] for _ in range(2)]
        groups = np.concatenate([clusters[0], clusters[1] + 2 * n])
        common = rng.normal(size=4 * n)[groups]
        noise = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * noise
    return norm.cdf(noise) < chance, p, by, groups


def pvalues(y, p, by, groups):
    """Of the test of equal curves, and of the quantities of the comparison."""
    by_quantity = {"curves": calibration_curve_equality_test(y, p, by, groups=groups).pvalue}
    comparison = compare_windows(y, p, by, groups=groups)
    for name in ("slope", "calibration_error", "observed_minus_expected", "brier"):
        by_quantity[name] = getattr(comparison, name).pvalue
    return by_quantity


def shares(seeds, **world):
    by_seed = [pvalues(*draw(seed, **world)) for seed in seeds]
    return {
        name: np.mean([by_quantity[name] <= LEVEL for by_quantity in by_seed])
        for name in by_seed[0]
    }


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True], ids=["independent", "clusters"])
@pytest.mark.parametrize("n", REPEATS)
def test_level(n, clustered):
    """At most .05 plus four standard errors of equal curves, calibrated or not."""
    of_curves = []
    for slope in CURVES.values():
        rejected = shares(range(REPEATS[n]), n=n, slopes=[slope, slope], clustered=clustered)
        if slope != 1:  # other forecasts: these two differ although the curves are equal
            del rejected["observed_minus_expected"]
        of_curves.append(rejected)
    error = np.sqrt(LEVEL * (1 - LEVEL) / REPEATS[n])
    largest = max(max(rejected.values()) for rejected in of_curves)
    assert largest <= LEVEL + 4 * error, of_curves
    for name in of_curves[1]:
        both = np.mean([rejected[name] for rejected in of_curves])
        assert both <= LEVEL + 4 * error / np.sqrt(2), (name, both)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clustered", "least"), [(False, 0.85), (True, 0.55)], ids=["independent", "clusters"]
)
def test_power_against_a_shift(clustered, least):
    """By .7 in the log odds, 500 samples; measured .98 and .80 for the curves."""
    rejected = shares(range(40), n=500, slopes=[1, 1], shift=-0.7, clustered=clustered)
    assert rejected["curves"] > least, rejected
    assert rejected["observed_minus_expected"] > least - 0.1, rejected
