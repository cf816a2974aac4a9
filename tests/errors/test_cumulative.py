"""The Kolmogorov-Smirnov error and its curve: by loops, ties, weights, bias."""

import numpy as np
import pytest

import skcalib as s


def test_by_sums(binary):
    """Of an event; notions of the error are in test_error_laws.py."""
    y, score = binary[0], np.round(20 * binary[1][:, 1]) / 20  # ties
    for given in (None, np.random.default_rng(0).integers(4, size=len(y))):
        weight = np.ones(len(y)) if given is None else given
        present, total = np.unique(score[weight > 0]), weight.sum()
        below = score <= present[:, None]
        expected = below @ (weight * (y - score)) / total
        (curve,) = s.errors.cumulative_curve(y, score, sample_weight=given)
        np.testing.assert_array_equal(curve.score, present)
        assert len(present) < len(score)
        np.testing.assert_allclose(curve.difference, expected, atol=1e-14)
        np.testing.assert_allclose(curve.share, below @ weight / total, rtol=1e-13)
        error = s.ks_calibration_error(y, score, sample_weight=given)
        assert error == pytest.approx(np.abs(expected).max(), rel=1e-12) and type(error) is float


def test_curves_of_classes_and_of_the_positive_class(multiclass, binary):
    y, proba = multiclass
    curves = s.errors.cumulative_curve(y, proba, notion="classwise", labels=[0, 1, 2])
    errors = [np.abs(curve.difference).max() for curve in curves]
    for k, curve in enumerate(curves):
        (alone,) = s.errors.cumulative_curve(y == k, proba[:, k])
        np.testing.assert_array_equal(curve.difference, alone.difference)
    for reduce, total in (("mean", np.mean(errors)), ("sum", np.sum(errors))):
        error = s.ks_calibration_error(y, proba, notion="classwise", reduce=reduce)
        assert error == pytest.approx(total, rel=1e-12)
    y, score = binary[0], binary[1][:, 0]
    (turned,) = s.errors.cumulative_curve(y, score, pos_label=0)
    (curve,) = s.errors.cumulative_curve(1 - y, score)
    np.testing.assert_array_equal(turned.difference, curve.difference)


def test_errors_of_the_predicted_class(multiclass):
    """G22, definition C.2: the error of each class where it is predicted."""
    y, proba = multiclass
    weight, top = np.random.default_rng(1).uniform(0.5, 2, len(y)), proba.argmax(axis=1)
    total = 0
    for k in np.unique(top):
        predicted = top == k
        options = {"labels": [0, 1], "sample_weight": weight[predicted]}
        share = weight[predicted].sum() / weight.sum()
        total += share * s.ks_calibration_error(y[predicted] == k, proba[predicted, k], **options)
    options = {"notion": "classwise", "sample_weight": weight, "reduce": "predicted"}
    error = s.ks_calibration_error(y, proba, **options)
    assert error == pytest.approx(total, rel=1e-12)
    wide = np.column_stack([proba, np.zeros(len(y))])  # the last class is never predicted
    for columns in (proba, wide):
        options["labels"] = range(columns.shape[1])
        interval = s.calibration_error_interval(y, columns, metric="ks", n_resamples=100, **options)
        assert interval.estimate == pytest.approx(error) and interval.low <= error <= interval.high
        assert interval.target.endswith("for each class where it is predicted")
    # Class 0 is wrong only where class 1 is predicted: over all samples its error is .2.
    proba = np.repeat([[0.6, 0.4, 0.0], [0.4, 0.6, 0.0]], 5, axis=0)
    y = np.array([0, 0, 0, 2, 2, 1, 1, 1, 2, 2])
    assert s.ks_calibration_error(y, proba, notion="classwise", reduce="sum") > 0.5
    error = s.ks_calibration_error(y, proba, notion="classwise", reduce="predicted")
    assert error == pytest.approx(0) == s.calibration_error(y, proba, notion="top_label", n_bins=2)
