"""Records that are tables: `to_frame` has one row per entry, with the values of the record."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_breast_cancer
from sklearn.naive_bayes import GaussianNB

import skcalib as s
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.estimators.selection import RecalibratorSelection
from skcalib.grouping import differences_at_equal_scores
from skcalib.inference import MeanInterval


@pytest.fixture(scope="module")
def data():
    world = make_tempered_simplex(300, 3, random_state=0)
    return world.y, world.y_proba


def assert_same(frame, record, names):
    for name in names:
        assert_array_equal(frame[name], getattr(record, name))


def test_bins():
    y, p = [0, 1, 1, 1], [0.1, 0.4, 0.6, 0.6]
    (bins,) = s.reliability_bins(y, p, n_bins=[0, 0.2, 0.3, 0.5, 1])
    frame = bins.to_frame()
    assert list(frame) == [
        "bin", "left", "right", "mass", "mean_score", "mean_label", "gap", "gap_variance",
    ]  # fmt: skip
    assert frame["bin"].tolist() == [0, 2, 3]
    assert frame["left"].tolist() == [0, 0.3, 0.5] and frame["right"].tolist() == [0.2, 0.5, 1]
    assert_same(frame, bins, ["mass", "mean_score", "mean_label", "gap", "gap_variance"])


def test_cumulative_curve(data):
    (curve,) = s.cumulative_curve(*data)
    frame = curve.to_frame()
    assert list(frame) == ["score", "share", "difference"]
    assert_same(frame, curve, frame)


def test_corp(data):
    found = s.corp_decomposition(*data, notion="classwise")
    frame = found.to_frame()
    assert list(frame) == ["event", "score", "miscalibration", "discrimination", "uncertainty"]
    assert frame["event"].tolist() == ["class 0", "class 1", "class 2"]
    for name in list(frame)[1:]:
        assert frame[name].mean() == pytest.approx(getattr(found, name))
    curve, (band,) = found.curves[1], s.corp_bands(*data, n_resamples=39)
    assert list(curve.to_frame()) == ["forecast", "recalibrated", "weight", "block"]
    assert list(band.to_frame()) == ["forecast", "recalibrated", "low", "high"]
    for record in (curve, band):
        assert_same(record.to_frame(), record, record.to_frame())


def test_score_decomposition(data):
    terms = s.score_decomposition(*data)
    frame = terms.to_frame()
    assert len(frame) == 1 and frame.iloc[0].to_dict() == vars(terms)


def test_intercept_and_slope():
    world = make_tempered_simplex(300, 2, random_state=0)
    found = s.calibration_intercept_slope(world.y, world.y_proba)
    frame = found.to_frame().set_index("quantity")
    assert list(frame) == ["estimate", "low", "high", "standard_error"]
    for name in ("in_the_large", "intercept", "slope"):
        assert frame.loc[name].to_dict() == vars(getattr(found, name))


def test_variance_reliability():
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.5, 2, 200)
    found = s.variance_reliability(rng.standard_normal(200), np.zeros(200), variance, n_bins=4)
    frame = found.to_frame()
    assert list(frame) == [
        "predicted_variance", "mean_squared_error", "ratio", "low", "high", "n_samples",
    ]  # fmt: skip
    assert_same(frame, found, frame)


def test_group_comparison():
    world = make_grouping_problem(4000, random_state=0)
    found = differences_at_equal_scores(world.y, world.y_proba, world.X)
    frame = found.to_frame()
    assert len(frame) == len(found.named) > 0
    for name in ("rule", "estimate", "low", "high", "standard_error", "direction"):
        assert frame[name].tolist() == [getattr(one, name) for one in found.named]
    for one in found.named:
        assert one.low < one.estimate < one.high
        assert 0 < one.standard_error < (one.high - one.low) / 2
    no_group = type(found)((), 0, 10).to_frame()
    assert len(no_group) == 0 and list(no_group) == list(frame)


def test_supersample():
    X, y = load_breast_cancer(return_X_y=True)
    found = s.evaluate_supersample(GaussianNB(), X, y, n_supersamples=2, n_draws=3, n_pairs=40)
    frame = found.to_frame()
    assert list(frame) == ["supersample", "draw", "train_error", "test_error", "gap"]
    assert len(frame) == 6
    row = frame[(frame["supersample"] == 1) & (frame["draw"] == 2)].iloc[0]
    assert row["train_error"] == found.train_error[1, 2] and row["gap"] == found.gap[1, 2]


def test_selection():
    gain = MeanInterval(0.1, 0.0, 0.2, 0.05)
    found = RecalibratorSelection(("a", "b"), (0.3, 0.2), (0.1, 0.0), (0.05, 0.0), "b", "b", gain)
    frame = found.to_frame()
    assert list(frame) == ["name", "loss", "difference", "standard_error", "chosen"]
    assert frame["name"].tolist() == ["a", "b"] and frame["chosen"].tolist() == [False, True]
    assert frame["loss"].tolist() == [0.3, 0.2]
