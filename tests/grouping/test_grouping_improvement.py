"""Gain and grouping loss before and after a correction by features, against known truths."""

import numpy as np
import pandas as pd
import pytest

from skcalib import GroupingLossEstimator, GroupRecalibrator, calibration_improvement
from skcalib.datasets import make_grouping_problem
from skcalib.grouping import grouping_improvement


@pytest.fixture(scope="module")
def data():
    return make_grouping_problem(6000, link="step", random_state=0)


def test_the_truth_removes_all_grouping_loss(data):
    """The gain is that of the simulation, and none is detected afterwards."""
    found = grouping_improvement(*(a[::2] for a in (data.y, data.y_proba, data.posterior, data.X)))
    truth = data.truth["grouping_brier"]
    assert found.gain.low < truth < found.gain.high
    assert found.grouping_before.low < truth and found.pvalue_before < 0.01
    assert found.grouping_after.low <= 0 and found.pvalue_after > 0.01
    assert found.grouping_before.estimate > 0.5 * truth


def test_numbers_are_those_of_the_parts(data):
    X, y, before, after = (a[:1500] for a in (data.X, data.y, data.y_proba, data.posterior[:, 1]))
    weight = np.random.default_rng(0).uniform(0, 2, 1500).round()
    found = grouping_improvement(y, before, after, X, sample_weight=weight)
    gain = calibration_improvement(y, before, after, injective=True, sample_weight=weight)
    assert (found.gain.estimate, found.gain.pvalue) == (gain.estimate, gain.pvalue)
    kept = weight > 0
    bound = GroupingLossEstimator(swap=True)
    bound.fit(X[kept], y[kept], after[kept], weight[kept])
    assert found.grouping_after.estimate == bound.grouping_loss_
    assert found.pvalue_after == bound.pvalue_


def test_jobs_change_no_number(data):
    arrays = [a[:1500] for a in (data.y, data.y_proba, data.posterior, data.X)]
    alone, parallel = (grouping_improvement(*arrays, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert alone == parallel


def test_a_recalibrator_gets_the_features(data):
    P, y, X = data.y_proba, data.y, data.X
    correction = GroupRecalibrator(cv=3).fit(P[:2000], y[:2000], features=X[:2000])
    new = slice(2000, 3000)
    found = grouping_improvement(y[new], P[new], correction, X[new])
    after = correction.predict_proba(P[new], features=X[new])
    assert found == grouping_improvement(y[new], P[new], after, X[new])
    assert found.gain.low > 0
    assert found.grouping_after.estimate < 0.4 * found.grouping_before.estimate
    with pytest.raises(ValueError, match="X and y_true must have the same number of samples"):
        grouping_improvement(y, P, data.posterior, X[1:])
    with pytest.raises(ValueError, match="y_true and after have different indices"):
        shifted = pd.DataFrame(data.posterior, index=range(len(y))[::-1])
        grouping_improvement(pd.Series(y), P, shifted, X)
    with pytest.raises(ValueError, match="grouping_improvement needs at least 4 samples"):
        grouping_improvement([0, 1], [0.2, 0.7], [0.1, 0.8], [[1], [2]])


def test_groups_are_the_regions():
    rng = np.random.default_rng(0)
    group, p = rng.choice(["a", "b"], 4000), rng.uniform(0.2, 0.6, 4000)
    truth = p + np.where(group == "a", 0.15, -0.15)
    y = (rng.random(4000) < truth).astype(int)
    found = grouping_improvement(y, p, truth, group.tolist())
    assert found.grouping_before.low < 0.15**2 < found.grouping_before.high
    assert found.pvalue_before < 0.01 < found.pvalue_after
    wide = grouping_improvement(y, p, truth, group.tolist(), confidence_level=0.99)
    for name in ("gain", "grouping_before", "grouping_after"):
        assert getattr(wide, name).high > getattr(found, name).high
