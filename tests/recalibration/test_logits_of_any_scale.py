"""Recalibrators of logits of any scale, and of the largest numbers."""

import warnings

import numpy as np
import pytest
from public_estimators import RECALIBRATORS
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning

import skcalib as s
from skcalib.scores import Brier

#: Maps that take the slope of logits as it is, so their loss depends on the scale.
WITHOUT_SLOPE = (
    s.IdentityRecalibrator,
    s.InterceptRecalibrator,
    s.recalibration.LabelNoiseScaling,
    s.LabelShiftRecalibrator,
    s.GroupRecalibrator,  # the identity where no gain is shown
)
SCALES = [1e-300, 1e-6, 1e-3, 1e3, 1e6, 1e9, 1e300]
LARGEST = 1.7e308


def samples(n_classes, n_samples=1200, seed=0):
    """Logits and labels, whose log odds are twice as far from 0; the second half is new."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n_samples, n_classes)) * (1 if n_classes > 2 else np.sqrt(0.5))
    chance = softmax(2 * logits, axis=1).cumsum(axis=1)
    y = np.minimum((rng.random((n_samples, 1)) > chance).sum(axis=1), n_classes - 1)
    return logits, y


def fitted(kind, logits, y):
    """Without cross-validation of a strength, and mixtures of two maps."""
    shrunken = s.VectorScaling, s.recalibration.MatrixScaling, s.DirichletCalibration
    options = {"shrinkage": 1.0} if kind in shrunken else {}
    if kind is s.StackedRecalibrator:
        options = {"candidates": [s.PlattScaling(), s.IsotonicRecalibrator(strict=True)]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="X is in")
        return kind(input="logits", labels=np.arange(logits.shape[1]), **options).fit(logits, y)


def loss(y, proba):
    """Log loss, or the Brier score where a map gives probability 0."""
    hit = proba[np.arange(len(y)), y]
    if hit.min() > 0:
        return -np.log(hit).mean()
    return Brier().loss(np.eye(proba.shape[1])[y], proba).mean()


#: With ten classes these two take long.
LONG = (s.GroupRecalibrator, s.recalibration.MatrixScaling)


@pytest.mark.parametrize(
    ("kind", "n_classes"),
    [(kind, n) for kind in RECALIBRATORS for n in (2, 3, 10) if n < 10 or kind not in LONG],
)
def test_every_scale(kind, n_classes):
    """All scales give the same forecasts, and with a slope no larger loss than at scale 1."""
    logits, y = samples(n_classes)
    known, new = slice(600), slice(600, None)
    scales = SCALES if n_classes == 2 and kind is not s.StackedRecalibrator else [1e-6, 1e9]
    maps = [fitted(kind, scale * logits[known], y[known]) for scale in scales]
    forecasts = [
        recalibrator.predict_proba(scale * logits[new])
        for recalibrator, scale in zip(maps, scales, strict=True)
    ]
    for forecast in forecasts[1:]:
        np.testing.assert_allclose(forecast, forecasts[0], rtol=0, atol=1e-6)
    if kind not in WITHOUT_SLOPE:
        recalibrator = fitted(kind, logits[known], y[known])
        assert recalibrator.logit_unit_ == 1
        plain = loss(y[new], recalibrator.predict_proba(logits[new]))
        assert loss(y[new], forecasts[0]) < 1.01 * plain


CASES = ["outliers", "all", "one forecast", "tiny", "equal", "mixed", "few", "far from 0"]


def strange(case, logits):
    """Logits with the largest numbers, or no ordinary spread."""
    rng, extreme = np.random.default_rng(1), logits.copy()
    zeros = [0] * (logits.shape[1] - 2)
    if case == "outliers":
        extreme[:3, :2] = [[LARGEST, 0], [0, -LARGEST], [LARGEST, -LARGEST]]
    elif case == "few":
        extreme[len(extreme) // 10 :] = 0
        extreme *= 1e5
    else:
        extreme = {
            "all": np.where(logits > 0, LARGEST, -LARGEST),
            "one forecast": np.tile([0, LARGEST, *zeros], (len(logits), 1)),
            "tiny": logits * 5e-322,
            "equal": 0 * logits,
            "mixed": logits * 10.0 ** rng.uniform(-300, 300, size=(len(logits), 1)),
            "far from 0": logits + [1e6, 0, *zeros],
        }[case]
    return extreme


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", RECALIBRATORS)
def test_the_largest_numbers(kind, case):
    logits, y = samples(3, 90)
    extreme = strange(case, logits)
    recalibrator = fitted(kind, extreme, y)
    assert 0 < recalibrator.logit_unit_ < np.inf
    for new in (extreme, logits, LARGEST * np.clip(logits, -1, 1)):
        proba = recalibrator.predict_proba(new)
        assert np.all(np.isfinite(proba)) and proba.min() >= 0
        np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_a_few_of_the_largest_numbers_change_little():
    logits, y = samples(2)
    outliers = logits.copy()
    outliers[:2] = [[LARGEST, -LARGEST], [-LARGEST, LARGEST]]
    y[:2] = 0, 1
    for kind in (
        s.TemperatureScaling,
        s.PlattScaling,
        s.recalibration.BiasCorrectedTemperatureScaling,
    ):
        maps = [fitted(kind, values, y) for values in (logits, outliers)]
        with_outliers, without = (map_.predict_proba(logits[2:]) for map_ in maps)
        np.testing.assert_allclose(with_outliers, without, atol=0.01)
        assert maps[1].logit_unit_ == 1


@pytest.mark.parametrize(
    "kind",
    [
        s.TemperatureScaling,
        s.recalibration.EnsembleTemperatureScaling,
        s.recalibration.BiasCorrectedTemperatureScaling,
    ],
)
def test_the_temperature_is_that_of_the_given_logits(kind):
    logits, y = samples(3)
    ordinary, large = (fitted(kind, scale * logits, y) for scale in (1, 1e6))
    assert large.temperature_ == pytest.approx(1e6 * ordinary.temperature_, rel=0.02)
    if kind is s.TemperatureScaling:
        close = softmax(1e6 * logits / large.temperature_, axis=1)
        np.testing.assert_allclose(large.predict_proba(1e6 * logits), close, atol=1e-12)


def test_parts_and_a_single_column():
    logits, y = samples(2)
    margin = 1e6 * np.diff(logits)
    whole = s.PlattScaling(input="logits").fit(margin, y)
    once = s.PlattScaling(input="logits", labels=[0, 1]).partial_fit(margin, y)
    assert once.logit_unit_ == whole.logit_unit_
    np.testing.assert_allclose(once.predict_proba(margin), whole.predict_proba(margin))
    truth = -np.mean(np.log(np.where(y == 1, *expit([2, -2] * np.diff(logits)).T)))
    assert loss(y, whole.predict_proba(margin)) == pytest.approx(truth, rel=0.02)
    shift = s.LabelShiftRecalibrator(
        input="logits", labels=[0, 1], source_prior=[0.5, 0.5], target_prior=[0.9, 0.1]
    )
    mapped = shift.fit(margin).predict_proba(margin)
    assert shift.logit_unit_ > 1e5 and 0 < mapped[:, 1].mean() < 0.3


def test_the_function_of_a_diagonal_map():
    logits, y = samples(3, 300)
    recalibrator = fitted(s.recalibration.DiagonalOrderPreserving, 1e6 * logits, y)
    mapped = recalibrator.transform_logits(1e6 * logits)
    assert np.all(np.diff(np.sort(mapped[:, 0])) >= 0) and np.abs(mapped).max() < 100
