"""Two windows: level of the comparison, and of the test of equal curves.

Level .05, windows of 500 and 2,000 samples with different distributions of the scores, of
independent samples and of clusters of unequal size. The labels of a cluster depend on each other
through a normal copula, so that P(Y | S) is the curve that is given. The curves of both windows are
equal, calibrated or of slope .6. Shares of rejections with 500 samples (100 data sets of each of
four kinds, standard error of their mean .011): .02 to .07 for the curves, .05 to .08 for the slope
and the Brier score, .00 to .06 for the calibration error, .04 and .07 for observed minus expected.
With 2,000 samples (40 of each, .017) up to .10 for the slope, .15 for the Brier score, and .05 for
the rest. The Brier calibration error has conservative intervals near 0.
"""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm

from skcalib import calibration_curve_equality_test, compare_windows

LEVEL = 0.05
#: Windows of so many samples: data sets of each kind.
REPEATS = {500: 100, 2000: 40}


def draw(seed, n, slope, clustered, correlation=0.3):
    """Labels, forecasts, windows and clusters; the log odds are a slope times those forecast."""
    rng = np.random.default_rng([seed, n, clustered, round(10 * slope)])
    p = np.concatenate([rng.beta(2, 4, n), rng.beta(4, 2, n)])
    by = np.repeat([0, 1], n)
    chance = expit(slope * logit(p))
    noise, groups = rng.normal(size=2 * n), None
    if clustered:
        sizes = rng.geometric(1 / 8, 2 * n).clip(max=40)  # 1 to 40 samples, 8 on average
        own = [np.repeat(np.arange(2 * n), sizes)[:n] for _ in range(2)]
        groups = np.concatenate([own[0], own[1] + 2 * n])
        common = rng.normal(size=4 * n)[groups]
        noise = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * noise
    return norm.cdf(noise) < chance, p, by, groups


def pvalues(y, p, by, groups):
    """Of the test of equal curves, and of the quantities of the comparison."""
    found = {"curves": calibration_curve_equality_test(y, p, by, groups=groups).pvalue}
    comparison = compare_windows(y, p, by, groups=groups)
    for name in ("slope", "calibration_error", "observed_minus_expected", "brier"):
        found[name] = getattr(comparison, name).pvalue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True], ids=["independent", "clusters"])
@pytest.mark.parametrize("n", REPEATS)
def test_level(n, clustered):
    """At most .05 plus four standard errors of equal curves, calibrated or not."""
    kept = []
    for slope in (1.0, 0.6):
        drawn = [pvalues(*draw(seed, n, slope, clustered)) for seed in range(REPEATS[n])]
        found = {name: np.mean([one[name] <= LEVEL for one in drawn]) for name in drawn[0]}
        if slope != 1:  # other forecasts: these two differ although the curves are equal
            del found["observed_minus_expected"]
        kept.append(found)
    error = np.sqrt(LEVEL * (1 - LEVEL) / REPEATS[n])
    assert max(max(found.values()) for found in kept) <= LEVEL + 4 * error, kept
    for name in kept[1]:
        both = np.mean([found[name] for found in kept])
        assert both <= LEVEL + 4 * error / np.sqrt(2), (name, both)
