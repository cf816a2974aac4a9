"""Gain and grouping loss before and after a correction by features, against known truths."""

import numpy as np
import pandas as pd
import pytest

from skcalib import GroupingLossEstimator, GroupRecalibrator, calibration_improvement
from skcalib.datasets import make_grouping_problem
from skcalib.grouping import grouping_improvement


@pytest.fixture(scope="module")
def sample():
    return make_grouping_problem(3000, link="step", random_state=0)


def test_the_truth_removes_all_grouping_loss(sample):
    """The gain is that of the simulation, and none is detected afterwards."""
    improvement = grouping_improvement(sample.y, sample.y_proba, sample.posterior, sample.X)
    truth = sample.truth["grouping_brier"]
    assert improvement.gain.low < truth < improvement.gain.high
    assert improvement.grouping_before.low < truth and improvement.pvalue_before < 0.01
    assert improvement.grouping_after.low <= 0 and improvement.pvalue_after > 0.01
    assert improvement.grouping_before.estimate > 0.5 * truth


def test_numbers_are_those_of_the_parts(sample):
    X, y, before, after = (
        a[:300] for a in (sample.X, sample.y, sample.y_proba, sample.posterior[:, 1])
    )
    weight = np.random.default_rng(0).uniform(0, 2, 300).round()
    improvement = grouping_improvement(y, before, after, X, sample_weight=weight)
    gain = calibration_improvement(y, before, after, injective=True, sample_weight=weight)
    assert (improvement.gain.estimate, improvement.gain.pvalue) == (gain.estimate, gain.pvalue)
    counted = weight > 0
    bound = GroupingLossEstimator(swap=True)
    bound.fit(X[counted], y[counted], after[counted], weight[counted])
    assert improvement.grouping_after.estimate == bound.grouping_loss_
    assert improvement.pvalue_after == bound.pvalue_


def test_jobs_change_no_number(sample):
    arrays = [a[:200] for a in (sample.y, sample.y_proba, sample.posterior, sample.X)]
    alone, parallel = (grouping_improvement(*arrays, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert alone == parallel


def test_a_recalibrator_gets_the_features(sample):
    P, y, X = sample.y_proba, sample.y, sample.X
    correction = GroupRecalibrator(cv=3).fit(P[:1000], y[:1000], features=X[:1000])
    new = slice(1000, 1400)
    improvement = grouping_improvement(y[new], P[new], correction, X[new])
    after = correction.predict_proba(P[new], features=X[new])
    assert improvement == grouping_improvement(y[new], P[new], after, X[new])
    assert improvement.gain.low > 0
    assert improvement.grouping_after.estimate < 0.4 * improvement.grouping_before.estimate


def test_refusals(sample):
    P, y, X, Q = sample.y_proba, sample.y, sample.X, sample.posterior
    shifted = pd.DataFrame(Q, index=range(len(y))[::-1])
    for arguments, words in (
        ((y, P, Q, X[1:]), "X and y_true must have the same number of samples"),
        ((pd.Series(y), P, shifted, X), "y_true and after have different indices"),
        (
            ([0, 1], [0.2, 0.7], [0.1, 0.8], [[1], [2]]),
            "grouping_improvement needs at least 4 samples",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            grouping_improvement(*arguments)


def test_groups_are_the_regions():
    rng = np.random.default_rng(0)
    group, p = rng.choice(["a", "b"], 1000), rng.uniform(0.2, 0.6, 1000)
    truth = p + np.where(group == "a", 0.15, -0.15)
    y = (rng.random(1000) < truth).astype(int)
    improvement = grouping_improvement(y, p, truth, group.tolist())
    assert improvement.grouping_before.low < 0.15**2 < improvement.grouping_before.high
    assert improvement.pvalue_before < 0.01 < improvement.pvalue_after
    wide = grouping_improvement(y, p, truth, group.tolist(), confidence_level=0.99)
    for name in ("gain", "grouping_before", "grouping_after"):
        assert getattr(wide, name).high > getattr(improvement, name).high
