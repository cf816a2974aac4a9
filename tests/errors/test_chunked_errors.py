"""Default proper errors from chunks: in memory for few samples, one step from a part for many."""

import joblib
import numpy as np
import pytest
from conftest import cut
from grids import covering
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skcalib import CalibrationErrorEstimator, proper_calibration_error
from skcalib.datasets import make_tempered_simplex

NUMBERS = ["calibration_error_", "refinement_", "sharpness_", "uncertainty_", "expected_loss_"]
NUMBERS += ["standard_error_", "confidence_interval_"]


def samples(n_samples, n_classes, *, temperature=0.7, shift=0.3, seed=0):
    """Forecasts whose slopes and class frequencies are wrong."""
    data = make_tempered_simplex(
        n_samples, n_classes, score_temperature=temperature, random_state=seed
    )
    proba = data.y_proba * np.exp(np.linspace(-shift, shift, n_classes))
    return proba / proba.sum(axis=1, keepdims=True), data.y


def estimator(n_classes, **options):
    return CalibrationErrorEstimator(labels=np.arange(n_classes), **options)


def assert_same(found, expected, tolerance=1e-8):
    assert found.n_passes_ == 1
    for name in NUMBERS:
        pair = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(*pair, rtol=0, atol=tolerance, err_msg=name)
    assert found.evidence_ == pytest.approx(expected.evidence_, abs=tolerance)
    np.testing.assert_array_equal(found.classes_, expected.classes_)
    assert found.n_features_in_ == expected.n_features_in_


@pytest.mark.parametrize(
    ("n_classes", "loss", "weighted", "notion"),
    covering([2, 10], ["brier", "log"], [False, True], ["auto", "top_label", "classwise"]),
)
def test_the_same_as_in_memory(n_classes, loss, weighted, notion):
    arrays = samples(600, n_classes)
    if weighted:
        arrays += (np.random.default_rng(0).integers(0, 4, 600) * 0.7,)
    options = {"loss": loss, "notion": notion}
    expected = estimator(n_classes, **options).fit(*arrays)
    for size in (159, 40):
        assert_same(estimator(n_classes, **options).fit_chunks(cut(size, *arrays)), expected)


def test_processes_ties_single_columns_and_text_labels():
    rng = np.random.default_rng(0)
    p = rng.integers(1, 10, 800) / 10
    y = np.where(rng.uniform(size=800) < p**1.3, "yes", "no")
    with joblib.parallel_config("loky", n_jobs=2):
        found = CalibrationErrorEstimator(labels=["no", "yes"]).fit_chunks(cut(130, p, y))
    assert_same(found, CalibrationErrorEstimator(labels=["no", "yes"]).fit(p[:, None], y))


def test_errors_that_are_infinite_or_zero():
    proba, y = samples(300, 2)
    proba[0] = np.eye(2)[1 - y[0]]
    infinite = estimator(2, loss="log").fit_chunks(cut(90, proba, y))
    assert infinite.confidence_interval_ == (np.inf, np.inf)
    assert_same(infinite, estimator(2, loss="log").fit(proba, y))
    perfect = np.eye(2)[y]
    found = estimator(2).fit_chunks(cut(90, perfect, y))
    expected = estimator(2).fit(perfect, y)
    assert found.expected_loss_ == expected.expected_loss_ == 0
    assert found.calibration_error_ == pytest.approx(expected.calibration_error_, abs=1e-8)
    assert found.confidence_interval_ == expected.confidence_interval_
    assert found.confidence_interval_ == (0, pytest.approx((1 - 0.025 ** (1 / 300)) ** 2, rel=0.01))


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 1,000 samples."""
    monkeypatch.setattr("skcalib.proper.many_samples._PART", 1000)


def differences(found, expected):
    """Differences of the errors and of the limits, in standard errors."""
    low, high = np.subtract(found.confidence_interval_, expected.confidence_interval_)
    error = found.calibration_error_ - expected.calibration_error_
    return np.array([error, low, high]) / expected.standard_error_


@pytest.mark.parametrize(
    ("n_classes", "loss", "notion", "weighted"),
    covering([2, 3, 10], ["brier", "log"], ["canonical", "top_label", "classwise"], [False, True]),
)
def test_one_step_from_a_part(small_parts, n_classes, loss, notion, weighted):
    """Errors from an eighth of the samples differ by less than a standard error."""
    proba, y = samples(8000, n_classes)
    weight = np.linspace(1, 2, 8000) if weighted else None
    arrays = (proba, y, weight) if weighted else (proba, y)
    chunks, readings = cut(900, *arrays), []
    read = {"__iter__": lambda self: iter(readings.append(1) or chunks)}
    options = {"loss": loss, "notion": notion}
    found = estimator(n_classes, **options).fit_chunks(type("Source", (), read)())
    assert len(readings) - 1 == found.n_passes_ == 3  # one reading is a check
    whole = estimator(n_classes, **options).fit_chunks([arrays])  # another part
    assert (np.abs(differences(found, whole)) < [0.3, 0.6, 0.6]).all()
    in_memory = proper_calibration_error(y, proba, sample_weight=weight, **options)
    assert abs(found.calibration_error_ - in_memory) < 0.3 * found.standard_error_
    terms = found.calibration_error_ + found.refinement_
    assert terms == pytest.approx(found.expected_loss_, rel=1e-12)
    assert found.expected_loss_ == pytest.approx(whole.expected_loss_, rel=1e-12)
    assert found.uncertainty_ == pytest.approx(whole.uncertainty_, rel=1e-12)


def test_chunks_are_read_in_slices_of_limited_size(small_parts, monkeypatch):
    proba, y = samples(2900, 3)
    whole = estimator(3).fit_chunks([(proba, y)])
    monkeypatch.setattr("skcalib.errors.chunked._ENTRIES", 5000)
    found = estimator(3).fit_chunks([(proba, y)])
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=0, atol=1e-10)


def test_zeros_in_many_samples(small_parts):
    """Forecasts of 0; with the label 1 the log loss is infinite, and its refinement is not."""
    proba, y = samples(3000, 3)
    proba[np.arange(0, 3000, 9), (y[::9] + 1) % 3] = 0
    proba /= proba.sum(axis=1, keepdims=True)
    for loss in ("brier", "log"):
        found = estimator(3, loss=loss).fit_chunks(cut(400, proba, y))
        expected = estimator(3, loss=loss).fit(proba, y)
        assert np.abs(differences(found, expected)).max() < 1
    proba[:30] = np.eye(3)[(y[:30] + 1) % 3]
    found = estimator(3, loss="log").fit_chunks(cut(400, proba, y))
    assert found.calibration_error_ == np.inf and found.confidence_interval_ == (np.inf, np.inf)
    whole = estimator(3, loss="log").fit(proba, y)
    assert found.refinement_ == pytest.approx(whole.refinement_, rel=0.01)


@pytest.mark.parametrize(
    ("cut_to", "times", "options", "match"),
    [
        (100, 2, {"labels": range(3)}, "Chunk 1: "),
        (1, 1, {"labels": range(3)}, "At least 2 samples are needed"),
        (100, 1, {}, "labels must list the classes"),
        (100, 1, {"labels": range(3), "loss": "spherical"}, "smoother=None with method='auto'"),
        (100, 1, {"labels": range(3), "method": "risk"}, "smoother=None with method='auto'"),
        (100, 1, {"labels": range(3), "smoother": "isotonic"}, "smoother=None with method='auto'"),
        (100, 1, {"labels": range(3), "cv": 5}, "estimator=None and cv=None"),
    ],
)
def test_what_is_refused(cut_to, times, options, match):
    """The rest is refused by the reader that recalibrators share; nothing is fitted."""
    proba, y = samples(100, 3)
    chunks = [(proba[:cut_to], y[:cut_to])] + [(2 * proba, y)] * (times - 1)
    work = CalibrationErrorEstimator(**options)
    with pytest.raises(ValueError, match=match):
        work.fit_chunks(chunks)
    with pytest.raises(NotFittedError):
        check_is_fitted(work, "calibration_error_")
