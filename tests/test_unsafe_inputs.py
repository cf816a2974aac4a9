"""Inputs that once gave a wrong number, a raw error or ran for minutes: refused, or right."""

import numpy as np
import pytest
from conftest import make_forecasts

from skcalib import (
    GroupingLossEstimator,
    HistogramBinning,
    ReliabilityDisplay,
    calibration_error,
    hosmer_lemeshow_test,
    reliability_bins,
)
from skcalib.smoothers import QuantileBins, UniformBins

Y, P = make_forecasts(60, 2)

# --- Numbers of bins ------------------------------------------------------------------------------

HUGE = 10**9
TOO_MANY = r"^n_bins must be at most 1000000 for bins of equal width, got 1000000000: use fewer "


def test_more_quantile_bins_than_samples_are_as_many_as_samples():
    for options in ({}, {"notion": "classwise"}, {"norm": "l2", "debiased": True}):
        many, full = (calibration_error(Y, P, n_bins=b, **options) for b in (HUGE, len(Y)))
        assert many == full
    (many,) = reliability_bins(Y, P, n_bins=HUGE)
    (full,) = reliability_bins(Y, P, n_bins=len(Y))
    np.testing.assert_array_equal(many.edges, full.edges)
    pvalues = [hosmer_lemeshow_test(Y, P, n_bins=b).pvalue for b in (HUGE, len(Y))]
    assert pvalues[0] == pvalues[1]
    bins = [HistogramBinning(n_bins=b).fit(P, Y).predict_proba(P) for b in (HUGE, len(Y))]
    np.testing.assert_array_equal(*bins)
    cells = [QuantileBins(b).fit(P, P).n_cells_ for b in (HUGE, len(Y))]
    assert cells == [len(np.unique(P[:, 1]))] * 2
    estimators = [GroupingLossEstimator(n_bins=b, random_state=0) for b in (HUGE, 1000)]
    losses = [one.fit(P, Y, y_proba=P).grouping_loss_ for one in estimators]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda b: calibration_error(Y, P, strategy="uniform", n_bins=b),
        lambda b: reliability_bins(Y, P, strategy="uniform", n_bins=b),
        lambda b: hosmer_lemeshow_test(Y, P, strategy="uniform", n_bins=b),
        lambda b: UniformBins(b).fit(P, P),
        lambda b: HistogramBinning(n_bins=b, strategy="uniform").fit(P, Y),
        lambda b: ReliabilityDisplay.from_predictions(Y, P, strategy="uniform", n_bins=b),
    ],
)
def test_more_than_a_million_uniform_bins_are_refused(call):
    with pytest.raises(ValueError, match=TOO_MANY):
        call(HUGE)
