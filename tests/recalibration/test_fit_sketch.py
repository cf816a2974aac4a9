"""Fits to a sketch are those of `fit` to its samples: equal for ties, close for other scores."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import whole
from grids import covering, rotated
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

import skcalib as s
from skcalib.data.problem import ForecastSummary, ScoredRows
from skcalib.datasets import make_tempered_simplex
from skcalib.sketches.sketch import N_CELLS
from skcalib.sketches.sketch_sums import cells_of

#: Fits without an iterative tolerance, which are equal up to rounding.
EXACT = {
    "temperature": s.TemperatureScaling(),
    "temperature, brier": s.TemperatureScaling(loss="brier"),
    "temperature, biases": s.recalibration.BiasCorrectedTemperatureScaling(),
    "temperature, biases, brier": s.recalibration.BiasCorrectedTemperatureScaling(loss="brier"),
    "isotonic": s.IsotonicRecalibrator(),
    "isotonic, centered": s.IsotonicRecalibrator(centered=True),
    "isotonic, strict": s.IsotonicRecalibrator(strict=True),
    "spline": s.SplineScaling(),
    "venn-abers": s.VennAbersRecalibrator(),
    "noise": s.recalibration.LabelNoiseScaling(),
    "quantile bins": s.HistogramBinning(),
    "quantile bins, auto": s.HistogramBinning(n_bins="auto"),
    "uniform bins": s.HistogramBinning(strategy="uniform"),
    "uniform bins, cube root": s.HistogramBinning(strategy="uniform", n_bins="cube_root"),
}
#: Fits by a quasi-Newton method, which stops where the loss has 13 digits.
LINKS = {
    "shift": s.InterceptRecalibrator(),
    "shift, brier": s.InterceptRecalibrator(loss="brier"),
    "shift, shrunk": s.InterceptRecalibrator(shrinkage="auto"),
    "platt": s.PlattScaling(),
    "platt, brier": s.PlattScaling(loss="brier"),
    "platt, smooth": s.PlattScaling(smooth_targets=True),
    "beta": s.BetaCalibration(),
    "beta, am": s.BetaCalibration(parameters="am"),
    "beta, ab": s.BetaCalibration(parameters="ab"),
    "quadratic": s.recalibration.QuadraticScaling(),
}
FITS = {**EXACT, **LINKS}
CLASS_BY_CLASS = [name for name in FITS if not re.match("temperature|shift|noise", name)]


def make(name, **options):
    return clone(FITS[name]).set_params(**options)


def tied(n_samples, n_classes, *, weighted=False, seed=0):
    """Forecasts of three decimals that are off, labels, and weights or None."""
    world = make_tempered_simplex(n_samples, n_classes, score_temperature=0.6, random_state=seed)
    proba = np.floor(1000 * world.y_proba).astype(int)
    proba[:, 0] = 1000 - proba[:, 1:].sum(axis=1)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.3], n_samples)
    return proba / 1000, world.y, weight if weighted else None


def sketch_of(proba, y, weight=None, **options):
    labels = options.pop("labels", range(np.shape(proba)[1] if np.ndim(proba) == 2 else 2))
    options.setdefault("notion", "canonical" if len(labels) == 2 else "classwise")
    return s.ForecastSketch(labels, **options).fit(y, proba, weight)


def learned(recalibrator):
    """What a fit sets, without what depends on the number of rows."""
    attributes = {name: value for name, value in vars(recalibrator).items() if name.endswith("_")}
    return {name: value for name, value in attributes.items() if name != "n_iter_"}


def assert_same(fitted, expected, values, *, rtol, atol=0.0):
    maps = (recalibrator.predict_proba(values) for recalibrator in (fitted, expected))
    np.testing.assert_allclose(*maps, rtol=rtol, atol=atol)
    attributes, expected_attributes = learned(fitted), learned(expected)
    assert list(attributes) == list(expected_attributes)
    for name in attributes:
        if name in ("classes_", "n_features_in_", "injective_", "preserves_order_"):
            np.testing.assert_array_equal(attributes[name], expected_attributes[name])
        elif not name.startswith("loss_"):
            np.testing.assert_allclose(
                attributes[name], expected_attributes[name], rtol=rtol, atol=100 * atol
            )


def assert_same_losses(fitted, expected):
    assert fitted.loss_before_ == pytest.approx(expected.loss_before_, rel=1e-11)
    assert fitted.loss_after_ == pytest.approx(expected.loss_after_, rel=1e-11)


def tolerances(name):
    """For `assert_same`: exact fits have ten digits, others seven decimals of a probability.

    A constant that is added to both biases has no effect, and rounding determines it.
    """
    if "biases" in name:
        return {"rtol": 1e-10, "atol": 1e-9}
    return {"rtol": 1e-10} if name in EXACT else {"rtol": 1e-7, "atol": 1e-7}


@pytest.mark.parametrize("weighted", [False, True])
def test_averages_of_maps(weighted):
    """Unequal weights of a cell have one leverage, which the map does not depend on."""
    proba, y, weight = tied(6000, 2, weighted=weighted)
    fitted = s.recalibration.ModelAverageScaling().fit_sketch(sketch_of(proba, y, weight))
    expected = s.recalibration.ModelAverageScaling().fit(proba, y, weight)
    np.testing.assert_allclose(
        fitted.predict_proba(proba), expected.predict_proba(proba), rtol=1e-8
    )
    assert fitted.evidence_ == pytest.approx(expected.evidence_, rel=1e-8, abs=1e-10)
    assert_same_losses(fitted, expected)


@pytest.mark.parametrize("special", ["", "weights", "a class without labels"])
@pytest.mark.parametrize("name", CLASS_BY_CLASS)
def test_tied_scores_of_several_classes(name, special):
    """Without warnings, as with `labels` in `fit`; the map of a class without labels is shrunk."""
    proba, y, weight = tied(3000, 3, weighted=special == "weights")
    near = tolerances(name)
    if special == "a class without labels":
        proba, y, near = proba[y != 1], y[y != 1], {"rtol": 1e-4, "atol": 1e-6}  # a flat loss
    fitted = make(name).fit_sketch(sketch_of(proba, y, weight))
    assert_same(fitted, make(name, labels=[0, 1, 2]).fit(proba, y, weight), proba, **near)
    assert np.isnan([fitted.loss_before_, fitted.loss_after_]).all()


@pytest.mark.parametrize("name", ["temperature", "platt, smooth", "isotonic, strict", "beta"])
def test_names_and_order_of_the_classes(name):
    proba, y, _ = tied(1000, 2)
    names = np.array(["yes", "no"])
    sketch = sketch_of(proba, names[y], labels=names)
    for labels in (None, names):
        fitted = make(name, labels=labels).fit_sketch(sketch)
        expected = make(name, labels=names).fit(proba, names[y])
        assert_same(fitted, expected, proba, **tolerances(name))
    assert fitted.classes_.tolist() == ["yes", "no"]
    assert set(fitted.predict(proba)) == {"yes", "no"}
    class_by_class = sketch_of(proba, names[y], labels=names, notion="classwise")
    assert_same(make(name).fit_sketch(class_by_class), expected, proba, **tolerances(name))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FITS)
def test_scores_are_replaced_by_the_means_of_their_cells(name, weighted):
    """For any scores the fit is that of `fit` to such samples."""
    world = make_tempered_simplex(3000, 2, score_temperature=0.6, random_state=1)
    score, weight = world.y_proba[:, 1], np.linspace(0.5, 2, 3000) if weighted else None
    cell = cells_of(score, 512)
    mass = np.bincount(cell, weight)
    means = np.bincount(cell, score if weight is None else weight * score)[cell] / mass[cell]
    assert len(np.unique(cell)) < 1000 < len(np.unique(score))
    fitted = make(name).fit_sketch(sketch_of(score, world.y, weight, n_cells=512))
    expected = make(name, labels=[0, 1]).fit(np.column_stack([1 - means, means]), world.y, weight)
    near = tolerances(name) if name in EXACT else {"rtol": 1e-6, "atol": 1e-6}
    assert_same(fitted, expected, means, **near)
    assert_same_losses(fitted, expected)


def test_a_summary_whose_rows_are_samples():
    """Weights and numbers of samples are optional in the rows of a summary."""
    proba, y, _ = tied(500, 2)

    class Samples(ForecastSummary):
        def scored(self):
            return [ScoredRows(proba[:, 1], y == 1)]

        def summarised_notion(self):
            return "canonical", len(y), np.array([0, 1])

    for name in ("temperature", "platt, smooth", "isotonic, strict", "quantile bins, auto"):
        fitted, expected = make(name).fit_sketch(Samples()), make(name).fit(proba, y)
        assert_same(fitted, expected, proba, rtol=1e-12)


#: Temperature of the simulated scores, and the largest change of a probability of a smooth map.
SMOOTH = {"moderate": (0.6, 2e-6), "close to 0 and 1": (0.3, 1.5e-3)}


@pytest.mark.parametrize(
    ("fit", "scores"),
    rotated([*((name, 2) for name in FITS), *((name, 3) for name in CLASS_BY_CLASS)], SMOOTH, 1),
    ids=str,
)
def test_continuous_scores(fit, scores):
    """Within the bounds that the documentation states."""
    name, n_classes = fit
    temper, bound = SMOOTH[scores]
    world = make_tempered_simplex(5000, n_classes, score_temperature=temper, random_state=n_classes)
    fitted = make(name).fit_sketch(sketch_of(world.y_proba, world.y))
    expected = make(name).fit(world.y_proba, world.y)
    change = np.abs(fitted.predict_proba(world.y_proba) - expected.predict_proba(world.y_proba))
    if "temperature" in name or name in LINKS:
        assert change.max() < bound
    else:
        assert change.mean() < 2e-3
    if n_classes == 2:
        assert fitted.loss_before_ == pytest.approx(expected.loss_before_, rel=1e-4)


TENTHS = np.tile([0.3, 0.7, 0.2, 0.9, 0.5, 0.6], 10)
HOSTILE = {
    "zeros and ones": np.r_[0.0, 0.0, 1.0, 1.0, TENTHS],
    "1e-300": np.r_[1e-300, 1e-300, 1.0, 0.3, TENTHS],
    "1e-300 and zeros": np.r_[1e-300, 1e-300, 0.0, 0.0, TENTHS],
    "one score": np.full(64, 0.3),
    "uniform": np.full(64, 0.5),
    "only zeros": np.zeros(64),
    "only ones": np.ones(64),
    "one sample": np.array([0.3]),
}
LABELS = {
    "alternate": lambda score: np.arange(len(score)) % 2,
    "no event": lambda score: np.zeros(len(score), dtype=int),
    "only events": lambda score: np.ones(len(score), dtype=int),
    "separable": lambda score: (score > 0.4).astype(int),
}
SCALES = None, 1.0, 1e-300, 1e250


@pytest.mark.parametrize("scores, labels, scale, part", covering(HOSTILE, LABELS, SCALES, [0, 1]))
def test_hostile_samples_have_the_results_and_warnings_of_fit(scores, labels, scale, part):
    score = HOSTILE[scores]
    y = LABELS[labels](score)
    weight = None if scale is None else scale * np.resize([1.0, 2.0, 0.5], len(score))
    sketch = sketch_of(score, y, weight)
    for name in list(FITS)[part::2]:
        answers, messages = [], []
        for fit in (
            lambda recalibrator: recalibrator.fit(score, y, weight),
            lambda recalibrator: recalibrator.fit_sketch(sketch),
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fitted = fit(make(name, labels=[0, 1]))
            answers.append(fitted.predict_proba(np.r_[score, 0.0, 1.0, 0.412]))
            messages.append({str(recalibrator.message) for recalibrator in caught})
        # With one class the best parameters are infinite: the map, and whether it counts as
        # separable, depend on where the optimiser stops.
        determined = name in EXACT or len(set(y)) == 2
        if determined:
            assert messages[0] == messages[1], name
        np.testing.assert_allclose(*answers, atol=1e-7 if determined else 1e-3, err_msg=name)


def test_weights_of_extreme_scales():
    """Errors of such a sketch were a message of Python; weights of 1e-200 beside 1e200 were nan."""
    proba, y, _ = tied(400, 2)
    small = sketch_of(proba[:100], y[:100], np.full(100, 1e-200))
    large = sketch_of(proba[100:], y[100:], np.full(300, 1e200))
    bins = {"n_bins": 15, "strategy": "uniform"}
    expected = s.calibration_error(y[100:], proba[100:], **bins)
    for sketch in (large, small + large):
        assert s.calibration_error(sketch, **bins) == pytest.approx(expected, rel=1e-12)
    for name in ("temperature", "isotonic", "uniform bins"):
        of_sketch, fitted = (
            make(name).fit_sketch(small + large),
            make(name).fit(proba[100:], y[100:]),
        )
        assert_same(of_sketch, fitted, proba, **tolerances(name))


def test_warnings_name_the_line_of_the_user():
    with pytest.warns(ConvergenceWarning, match="PlattScaling: in 1 of 1 problems") as caught:
        s.PlattScaling().fit_sketch(sketch_of(np.array([0.2, 0.3, 0.7, 0.8]), [0, 0, 1, 1]))
    assert caught[0].filename == __file__
    # a kernel whose bandwidth is chosen leaves each sample out
    assert not hasattr(s.recalibration.KernelRecalibrator(), "fit_sketch")


def test_a_fit_forgets_the_one_before_and_does_not_change_the_sketch():
    proba, y, weight = tied(500, 2, weighted=True)
    three, labels, _ = tied(500, 3)
    sketch = sketch_of(proba, y, weight)
    before = sketch.to_bytes()
    again = s.PlattScaling().fit(pd.DataFrame(three, columns=["a", "b", "c"]), labels)
    again.fit_sketch(sketch)
    assert not hasattr(again, "feature_names_in_")
    assert_same(again, s.PlattScaling().fit(proba, y, weight), proba, rtol=1e-7, atol=1e-7)
    assert again.fit_sketch(sketch_of(three, labels)) is again
    assert np.isnan(again.loss_after_) and again.coef_.shape == (3,)
    for name in FITS:
        make(name).fit_sketch(sketch)
    assert sketch.to_bytes() == before and sketch.n_cells == N_CELLS


BINARY, THREE = tied(100, 2)[:2], tied(100, 3)[:2]
TWO, TOP_OF_TWO = sketch_of(*BINARY), sketch_of(*BINARY, notion="top_label")
TOP_OF_THREE = sketch_of(*THREE, notion="top_label")
BIASED = s.recalibration.BiasCorrectedTemperatureScaling()
ONE_CLASS = (
    "needs the probability of each class, but the sketch was made for notion='top_label': "
    "make one with notion="
)
REFUSED = [
    (s.PlattScaling(), BINARY[0], r"^sketch must be a ForecastSketch, got ndarray: make one by "),
    (s.IsotonicRecalibrator(), TOP_OF_THREE, f"^IsotonicRecalibrator {ONE_CLASS}'classwise'"),
    (s.TemperatureScaling(), TOP_OF_TWO, f"^TemperatureScaling {ONE_CLASS}'canonical'"),
    (
        s.TemperatureScaling(),
        sketch_of(*THREE),
        "^TemperatureScaling needs all probabilities of a sample, .* two classes only, got 3: use "
        "TemperatureScaling.partial_fit, or PlattScaling with",
    ),
    (BIASED, TOP_OF_THREE, "^BiasCorrectedTemperatureScaling needs all probabilities of a sample"),
    (s.BetaCalibration(input="logits"), TWO, "but BetaCalibration has input='log"),
    (
        s.HistogramBinning(labels=[1, 0]),
        TWO,
        r"^HistogramBinning has labels=\[1, 0\], but the classes of the sketch are \[0, 1\]: ",
    ),
    (s.PlattScaling(input="odds"), TWO, "^input must be 'proba' or 'logits', got"),
    (s.PlattScaling(loss="l1"), TWO, "^loss must be .*, got 'l1'"),
    (s.BetaCalibration(parameters="a"), TWO, "^parameters must be 'abm', 'am' or"),
    (s.PlattScaling(), s.ForecastSketch([0, 1]), "^This ForecastSketch instance is not fitted"),
]


@pytest.mark.parametrize(("recalibrator", "sketch", "words"), REFUSED)
def test_what_is_refused(recalibrator, sketch, words):
    with pytest.raises(ValueError, match=words):
        recalibrator.fit_sketch(sketch)
    with pytest.raises(NotFittedError):
        check_is_fitted(recalibrator)


@pytest.mark.parametrize("options", [{"strategy": "equal"}, {"n_bins": [0, 0.5, 1]}, {"n_bins": 0}])
def test_bins_are_checked_as_in_fit(options):
    with pytest.raises(ValueError) as expected:
        s.HistogramBinning(**options).fit(*BINARY)
    with pytest.raises(ValueError, match=whole(str(expected.value))):
        s.HistogramBinning(**options).fit_sketch(TWO)
