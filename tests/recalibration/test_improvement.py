"""The paired difference of a proper score, and when it speaks of calibration."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import skcalib as s
from skcalib.datasets import make_tempered_simplex
from skcalib.recalibration.held_out import calibration_improvement
from skcalib.scores import Brier, LogLoss

LOSSES = {"brier": Brier(), "log": LogLoss()}


@pytest.fixture(scope="module")
def world():
    return make_tempered_simplex(1000, 2, random_state=0)


@pytest.mark.parametrize("loss", LOSSES)
def test_it_is_the_one_sample_t_test(world, loss):
    arrays, options = (world.y, world.y_proba, world.posterior), {"injective": True}
    gain = calibration_improvement(*arrays, loss=loss, **options)
    target = np.eye(2)[world.y]
    before, after = (LOSSES[loss].loss(target, p) for p in (world.y_proba, world.posterior))
    expected = ttest_1samp(before - after, 0)
    assert gain.estimate == pytest.approx(np.mean(before - after))
    assert gain.pvalue == pytest.approx(expected.pvalue, rel=1e-9)
    assert (gain.low, gain.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert gain.loss_before == pytest.approx(before.mean())
    assert gain.loss_after == pytest.approx(after.mean())
    assert gain.injective is True
    assert calibration_improvement(*arrays, loss=LOSSES[loss], **options) == gain
    narrow = calibration_improvement(*arrays, loss=loss, confidence_level=0.5, **options)
    assert gain.low < narrow.low < narrow.high < gain.high
    for same in (world.y_proba, s.IdentityRecalibrator().fit(world.y_proba, world.y)):
        none = calibration_improvement(world.y, world.y_proba, same, loss=loss, **options)
        assert (none.estimate, none.low, none.high, none.pvalue) == (0, 0, 0, 1)


@pytest.mark.parametrize("loss", LOSSES)
def test_an_injective_map_gains_its_calibration_error(loss, within_standard_errors):
    """G22: the map from forecast to posterior is injective and removes the whole error."""
    draws = []
    for seed in range(60):
        world = make_tempered_simplex(500, 2, random_state=seed)
        arrays = world.y, world.y_proba, world.posterior
        draws.append(calibration_improvement(*arrays, loss=loss, injective=True).estimate)
    within_standard_errors(draws, world.truth[loss])


def test_a_map_that_is_not_injective_gains_less(within_standard_errors):
    """The label frequency is calibrated too; what is missing is the sharpness that it lost."""
    world = make_tempered_simplex(100_000, 2, random_state=0)
    half = len(world.y) // 2
    lossy = s.recalibration.LabelFrequency().fit(world.y_proba[:half], world.y[:half])
    with pytest.warns(UserWarning, match=r"is not injective.*lower bound"):
        gain = calibration_improvement(world.y[half:], world.y_proba[half:], lossy)
    assert gain.injective is False
    assert gain.high < world.truth["brier"]
    frequencies = lossy.predict_proba(world.y_proba)[:, 1]
    top = world.y_proba[:, 1] > 0.5
    assert world.y[top].mean() == pytest.approx(frequencies[top].mean(), abs=0.01)  # calibrated


def test_declarations_decide_about_the_warning(world):
    P, y = world.y_proba, world.y
    chain = make_pipeline(s.TemperatureScaling(), "passthrough", s.PlattScaling()).fit(P, y)
    for known in (s.TemperatureScaling().fit(P, y), chain):
        gain = calibration_improvement(y, P, known)
        assert gain.injective is True
        assert gain == calibration_improvement(y, P, known.predict_proba(P), injective=True)
    lossy_chain = make_pipeline(s.TemperatureScaling(), s.HistogramBinning()).fit(P, y)
    for lossy in (s.HistogramBinning().fit(P, y), lossy_chain):
        with pytest.warns(UserWarning, match="from before to after is not injective") as caught:
            assert calibration_improvement(y, P, lossy).injective is False
        assert caught[0].filename == __file__
        assert calibration_improvement(y, P, lossy, injective=True).injective is True
    third_party = LogisticRegression().fit(P, y)
    for unknown in (third_party, third_party.predict_proba(P), make_pipeline(third_party)):
        with pytest.warns(UserWarning, match="may not be injective.*Pass the fitted recalibrator"):
            assert calibration_improvement(y, P, unknown).injective is None
    with pytest.warns(UserWarning, match="is not injective"):
        calibration_improvement(y, P, world.posterior, injective=False)


def test_weights_average(world):
    arrays = world.y, world.y_proba, world.posterior

    def gain(weight):
        return calibration_improvement(*arrays, injective=True, sample_weight=weight)

    weight = np.random.default_rng(0).integers(0, 3, len(world.y)).astype(float)
    rows = np.repeat(np.arange(len(world.y)), weight.astype(int))
    repeated = calibration_improvement(*(a[rows] for a in arrays), injective=True)
    assert gain(weight).estimate == pytest.approx(repeated.estimate)
    assert gain(weight).pvalue > repeated.pvalue  # a weight of 2 is not two samples
    assert gain(np.ones(len(world.y))) == gain(None)
    # all weight on one sample: no spread is known, and nothing is significant
    single = gain(np.where(np.arange(len(world.y)) == 5, 1.0, 1e-300))
    assert (single.low, single.high, single.pvalue) == (-np.inf, np.inf, 1.0)


def test_labels_and_shapes(world):
    names = np.array(["no", "yes"])[world.y]
    expected = calibration_improvement(world.y, world.y_proba, world.posterior, injective=True)
    p, q = world.y_proba[:, 1], world.posterior[:, 1]
    for before, after, options in (
        (world.y_proba, q, {}),
        (1 - p, 1 - q, {"pos_label": "no"}),
        (1 - p, world.posterior, {"pos_label": "no"}),
        (pd.DataFrame(world.y_proba, columns=["no", "yes"]), world.posterior, {}),
    ):
        gain = calibration_improvement(names, before, after, injective=True, **options)
        assert gain.estimate == pytest.approx(expected.estimate, rel=1e-9)
    named = s.TemperatureScaling().fit(world.y_proba, names)
    positive = names == "yes"  # the recalibrator knows the class that is missing here
    gain = calibration_improvement(names[positive], world.y_proba[positive], named)
    assert np.isfinite(gain.estimate)
    with pytest.raises(ValueError, match=r"fitted to columns of the classes \['no', 'yes'\]"):
        calibration_improvement(world.y, world.y_proba, named, labels=[0, 1])


def test_infinite_losses():
    y = np.array([0, 1, 0, 1, 0])
    certain = np.array([1.0, 0.5, 0.5, 0.5, 0.0])  # the first label was impossible
    wrong, open_minded = np.array([0.5, 0.5, 1.0, 0.5, 0.5]), np.full(5, 0.5)

    def gain(before, after, loss="log"):
        return calibration_improvement(y, before, after, loss=loss, injective=True)

    helped, harmed = gain(certain, open_minded), gain(open_minded, certain)
    assert (helped.estimate, helped.low, helped.high, helped.pvalue) == (np.inf,) * 3 + (0,)
    assert helped.loss_before == np.inf and np.isfinite(helped.loss_after)
    assert (harmed.estimate, harmed.low, harmed.high, harmed.pvalue) == (-np.inf,) * 3 + (0,)
    with pytest.raises(ValueError, match=r"infinite for 1 samples before and 1 after.*brier"):
        gain(certain, wrong)
    assert np.isfinite(gain(certain, wrong, "brier").estimate)
