"""Reports, comparisons and diagrams of sketches, against those of the samples."""

import json
from functools import cache
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.special import expit, logit

from skcalib import CalibrationReport, ComparisonReport, ForecastSketch, ReliabilityDisplay
from skcalib.datasets import make_tempered_simplex

of_sketch, of_sketches = CalibrationReport.from_sketch, ComparisonReport.from_sketches
of_samples = CalibrationReport.from_predictions
diagram = ReliabilityDisplay.from_sketch

#: What distorts calibrated forecasts -> the direction of the report.
WORLDS = {
    "too_extreme": lambda t: 1.8 * t,
    "too_moderate": lambda t: 0.5 * t,
    "too_high": lambda t: t + 0.8,
    "too_low": lambda t: t - 0.8,
    None: lambda t: t,
}


def tied(n_samples, distort=WORLDS["too_extreme"], seed=0):
    """Labels and forecasts of two decimals, so that equal scores share a cell."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(1.5, 2, n_samples)
    score = np.clip(np.round(expit(distort(logit(truth))), 2), 0.01, 0.99)
    event = score if distort is WORLDS[None] else truth
    return (rng.random(n_samples) < event).astype(int), score


def sketch_of(y, score, weight=None):
    return ForecastSketch([0, 1]).fit(y, score, weight)


@cache
def reports(weighted=False):
    """The report of a sketch, and that of its 4,000 samples."""
    y, score = tied(4000)
    weight = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(y)) if weighted else None
    return of_sketch(sketch_of(y, score, weight)), of_samples(y, score, sample_weight=weight)


def numbers_of(value, path=()):
    """Path -> number, of nested dictionaries and lists."""
    if isinstance(value, (dict, list, tuple)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from numbers_of(part, (*path, key))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


#: Results that depend on how samples are drawn or divided into folds.
DRAWN = {
    "advice", "recommended", "recalibration_maps", "log_loss", "brier_score", "test",
    "verdict", "method", "versions",
}  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
def test_tied_scores_give_the_numbers_of_the_samples(weighted):
    numbers, expected = (
        dict(numbers_of({k: v for k, v in report.to_dict().items() if k not in DRAWN}))
        for report in reports(weighted)
    )
    assert numbers.keys() == expected.keys()
    assert len(numbers) > 150
    # Unequal weights of a cell have one leverage. Draws of intervals depend on rounding.
    loose = {k for k in numbers if "reported" in k}
    for path, value in numbers.items():
        rtol = 1e-3 if path in loose else 2e-3 if weighted else 1e-8
        assert value == pytest.approx(expected[path], rel=rtol, abs=1e-8), path


def test_held_out_losses_are_those_of_random_folds():
    """Two divisions of the same samples: the means differ by less than a standard error."""
    selection, expected = (report.findings.advice.selection for report in reports())
    assert selection.names == expected.names
    np.testing.assert_allclose(selection.losses, expected.losses, rtol=0.005)
    assert selection.losses[0] == pytest.approx(expected.losses[0], rel=1e-9)
    assert selection.gain.low > 0 and expected.gain.low > 0
    assert selection.gain.standard_error == pytest.approx(expected.gain.standard_error, rel=0.1)
    name = reports()[0].findings.advice.recommended
    assert f"{name}().fit_sketch(sketch).predict_proba(new_proba)" in reports()[0].to_text()


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_those_of_the_samples():
    """60 calibrated data sets; the decisions of the two reports differ by their draws only."""
    sets = [tied(400, WORLDS[None], seed) for seed in range(60)]
    pairs = [(of_sketch(sketch_of(y, score)), of_samples(y, score)) for y, score in sets]
    alarms = np.array([[report.miscalibrated for report in pair] for pair in pairs])
    assert (alarms[:, 0] != alarms[:, 1]).sum() <= 3
    assert alarms[:, 0].sum() <= 9  # .05 and four standard errors


def test_more_classes_by_their_top_label():
    samples = make_tempered_simplex(600, 3, random_state=0)
    report = of_sketch(ForecastSketch([0, 1, 2]).fit(samples.y, samples.y_proba))
    text = report.to_text(details=True)
    assert "of them a right prediction (the event)" in text and report.findings.n_classes == 2
    assert ".fit_sketch(" not in text  # a map of the confidence is no recalibrator of three classes
    assert "Sketch: the scores of a cell were replaced by their mean." in text
    right = samples.y_proba.argmax(axis=1) == samples.y
    assert report.findings.observed_rate.estimate == pytest.approx(right.mean(), rel=1e-12)
    assert report._repr_html_().count("<svg") >= 2
    json.dumps(report.to_dict(), default=str)


def test_suspicions_of_sketches(few_maps):
    y, score = tied(300)
    for kind, labels, scores in (
        ("other_class", 1 - y, score),
        ("percent_scale", y, score / 100),
        ("one_class", np.ones_like(y), score),
        ("constant", y, np.full(300, 0.4)),
        ("hard_predictions", y, y.astype(float)),
    ):
        assert of_sketch(sketch_of(labels, scores)).findings.suspicions[0].kind == kind


@pytest.mark.slow
def test_jobs_do_not_change_a_number():
    sketches = {"a": sketch_of(*tied(200)), "b": sketch_of(*tied(200, WORLDS["too_high"], 1))}
    report, comparison = of_sketch(sketches["a"], name="a", n_jobs=2), of_sketches(sketches)
    assert comparison.to_dict() == of_sketches(sketches, n_jobs=2).to_dict()
    assert report.to_dict() == comparison.reports["a"].to_dict()


def test_what_is_refused():
    samples = make_tempered_simplex(30, 3, random_state=0)
    classwise = ForecastSketch([0, 1, 2], notion="classwise").fit(samples.y, samples.y_proba)
    y, score = tied(30)
    plain, named = sketch_of(y, score), ForecastSketch([1, 2]).fit(1 + y, score)
    mixed = {"a": plain, "b": named}
    for call, words in (
        (lambda: of_sketch([0, 1]), "from_sketch needs a ForecastSketch, got list"),
        (lambda: of_sketch(classwise), "has 3 separate classes, and the dependence of their"),
        (lambda: diagram(plain, strategy="kernel"), "not a sketch: use strategy='"),
        (lambda: of_sketches(mixed), "different classes: only models of the same"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_differences_of_sketches_are_wider_and_have_the_same_estimates(few_maps):
    samples = make_tempered_simplex(400, 2, random_state=0)
    models = {"raw": np.round(samples.y_proba, 2), "truth": np.round(samples.posterior, 2)}
    models = {name: np.clip(proba, 0.01, 0.99) for name, proba in models.items()}
    sketches = {name: sketch_of(samples.y, proba) for name, proba in models.items()}
    apart = of_sketches(sketches)
    expected = ComparisonReport.from_predictions(samples.y, models)
    assert not apart.paired and expected.paired
    paired = {row.quantity: row.difference for row in expected.differences}
    assert {row.quantity for row in apart.differences} == paired.keys() - {"kernel"}
    for row in apart.differences:
        pair = paired[row.quantity]
        assert row.difference.estimate == pytest.approx(pair.estimate, rel=1e-7, abs=1e-12)
        assert row.difference.standard_error >= pair.standard_error * (1 - 1e-9)
    text = apart.to_text(details=True)
    assert "raw (400 samples), truth (400 samples), not paired." in text
    assert "whose length is the sum of those of both means" in " ".join(text.split())


@pytest.mark.parametrize(
    ("strategy", "band"),
    [*product(["isotonic", "quantile", "uniform", "smooth"], ["consistency", "confidence"])]
    + [("isotonic", None)],
)
def test_diagrams_of_tied_scores(strategy, band):
    y, score = tied(3000)
    options = {"strategy": strategy, "band": band, "n_resamples": 400}
    (curve,) = diagram(sketch_of(y, score), **options).curves
    (expected,) = ReliabilityDisplay.from_predictions(y, score, **options).curves
    np.testing.assert_allclose(curve.prob_pred, expected.prob_pred, rtol=1e-9)
    np.testing.assert_allclose(curve.prob_true, expected.prob_true, rtol=1e-6)
    assert curve.event == expected.event
    assert curve.error.high == pytest.approx(expected.error.high, rel=1e-8)
    if band == "confidence":
        np.testing.assert_allclose(curve.low, expected.low, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(curve.high, expected.high, rtol=1e-5)
    elif band == "consistency":  # drawn: ends differ by the error of order statistics
        width = expected.high - expected.low
        assert np.abs(curve.low - expected.low).max() < 0.35 * width.max()
        assert np.mean(curve.high - curve.low) == pytest.approx(np.mean(width), rel=0.05)
    plt.close("all")


@pytest.mark.slow
def test_the_consistency_band_of_a_sketch_holds_calibrated_curves():
    """200 data sets of level .8, with five points each: standard error .028."""
    inside = []
    for seed in range(200):
        sketch = sketch_of(*tied(500, WORLDS[None], seed))
        options = {"confidence_level": 0.8, "n_resamples": 49, "random_state": seed}
        (curve,) = diagram(sketch, **options).curves
        plt.close("all")
        at = np.linspace(0, len(curve.low) - 1, 5).astype(int)
        inside.append(((curve.low <= curve.prob_true) & (curve.prob_true <= curve.high))[at])
    assert np.mean(inside, axis=0).min() > 0.8 - 4 * 0.028
