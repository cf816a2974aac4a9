"""Reliability diagrams: the curve, the two bands, the picture, the doors."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from conftest import pairs
from grids import covering
from matplotlib.text import Text
from numpy.testing import assert_allclose, assert_array_equal
from refusals import check_refusals
from scipy.optimize import minimize
from scipy.special import expit, logit, xlogy
from scipy.stats import chi2
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_iris
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate

from skcalib import calibration_summary, proper_calibration_error
from skcalib.data.notions import Canonical, ClassGroups, TopLabel
from skcalib.data.problem import Problem
from skcalib.datasets import make_tempered_simplex
from skcalib.displays import ReliabilityDisplay
from skcalib.displays.reliability import make_curve
from skcalib.errors.corp import consistency_band, isotonic_interval
from skcalib.smoothers import (
    DirichletKernel,
    IsotonicSmoother,
    LevelSets,
    NearestNeighborsSmoother,
    QuantileBins,
    UniformBins,
)

STRATEGIES = ("isotonic", "quantile", "uniform", "kernel", "smooth")
SMOOTHERS = (LevelSets(), NearestNeighborsSmoother(), UniformBins(3))
draw = ReliabilityDisplay.from_predictions
BINARY, THREE = (make_tempered_simplex(n, k, random_state=0) for n, k in ((400, 2), (200, 3)))
Y, P = BINARY.y, BINARY.y_proba[:, 1].round(2)  # rounded: there are ties


def test_isotonic_and_kernel_curves_are_those_of_the_smoother():
    """The isotonic curve of many scores keeps every knot."""
    samples = make_tempered_simplex(5000, 2, random_state=0)
    p = samples.y_proba[:, 1]
    curve = draw(samples.y, p, band=None).curves[0]
    assert len(curve.prob_pred) < 1000
    at_all = np.interp(p, curve.prob_pred, curve.prob_true)
    assert_allclose(at_all, IsotonicRegression().fit(p, samples.y).predict(p), atol=1e-12)
    curve = draw(Y, P, strategy=DirichletKernel(0.02), band=None).curves[0]
    kernel = DirichletKernel(0.02).fit(pairs(P), pairs(Y.astype(float)))
    assert_allclose(curve.prob_true, kernel.predict(pairs(curve.prob_pred))[:, 1])
    assert curve.prob_pred[0] == P.min() and curve.prob_pred[-1] == P.max()


def inside_at_five_points(smoother, n_samples, n_sets, world, band):
    """Shares of data sets in which the band of a curve holds what it should, at five scores."""
    rng, inside = np.random.RandomState(0), []
    for _ in range(n_sets):
        score, truth = world(rng, n_samples)
        target = pairs((rng.random_sample(n_samples) < truth) * 1.0)
        problem = Problem(pairs(score), target, np.ones(n_samples), np.arange(2))
        curve = make_curve(smoother, problem)
        low, high, held = band(curve, problem, truth, rng)
        at = np.linspace(0, len(low) - 1, 5).astype(int)
        inside.append(((low <= held) & (held <= high))[at])
    return np.mean(inside, axis=0)


@pytest.mark.parametrize(
    "smoother", [IsotonicSmoother(), QuantileBins(5), UniformBins(5), DirichletKernel(0.05)]
)
def test_consistency_band_holds_calibrated_curves_as_often_as_it_says(smoother):
    """At least .8 at each of five points, within four standard errors, and not far above."""

    def calibrated(rng, n):
        return (rng.beta(0.7, 0.7, n),) * 2

    def band(curve, problem, truth, rng):
        return *consistency_band(curve, problem, 0.8, 49, rng), curve.prob_true

    frequency = inside_at_five_points(smoother, 150, 200, calibrated, band)
    assert np.all(frequency > 0.8 - 4 * np.sqrt(0.8 * 0.2 / 200))
    assert frequency[1:-1].mean() < 0.9


@pytest.mark.parametrize("smoother", [QuantileBins(5), UniformBins(5), DirichletKernel(0.02)])
def test_binomial_confidence_band_covers_the_average_of_the_curve(smoother):
    def tempered(rng, n):
        posterior = rng.random_sample(n)
        return expit(logit(posterior) / 0.6), posterior

    def band(curve, problem, truth, rng):
        low, high = curve.confidence(0.95, 100, np.random.RandomState(0))
        return low, high, curve.refit(truth[:, None])[:, 0]

    covered = inside_at_five_points(smoother, 300, 150, tempered, band)
    assert np.all(covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 150))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_miscalibrated_curve_leaves_the_consistency_band(strategy):
    samples = make_tempered_simplex(2000, 2, score_temperature=0.4, random_state=0)
    curve = draw(samples.y, samples.y_proba, strategy=strategy, band="consistency").curves[0]
    outside = (curve.prob_true < curve.low) | (curve.prob_true > curve.high)
    diagonal = (curve.low <= curve.prob_pred) & (curve.prob_pred <= curve.high)
    assert outside.mean() > 0.4 and diagonal.mean() > 0.9
    assert curve.error.low > 0


def test_isotonic_interval_ends_where_the_deviance_says():
    """Against a general optimiser, which knows neither pools nor profiles."""
    mean, mass = np.array([0.1, 0.4, 0.3, 0.6, 0.9]), np.array([20.0, 10, 10, 20, 10])
    start = IsotonicRegression().fit(np.arange(5), mean, mass).predict(np.arange(5))

    def cost(curve):
        return -np.sum(mass * (xlogy(mean, curve) + xlogy(1 - mean, 1 - curve)))

    for point in range(5):
        before = np.arange(5) <= point
        for end in np.ravel(isotonic_interval(mean, mass, np.array([point]), 0.95)):
            rises = {"type": "ineq", "fun": np.diff}
            passes = {"type": "eq", "fun": lambda curve, end=end, k=point: curve[k] - end}
            best = minimize(
                cost,
                np.where(before, np.minimum(start, end), np.maximum(start, end)),
                bounds=[(1e-6, 1 - 1e-6)] * 5,
                constraints=[rises, passes],
                method="SLSQP",
                options={"ftol": 1e-12, "maxiter": 500},
            )
            assert_allclose(2 * (best.fun - cost(start)), chi2.ppf(0.95, 1), rtol=1e-3)


def test_isotonic_interval_does_not_depend_on_the_other_points():
    score, rank = np.unique(P, return_inverse=True)
    mass = np.bincount(rank).astype(float)
    mean = np.bincount(rank, Y) / mass
    every = isotonic_interval(mean, mass, np.arange(len(score)), 0.95)
    some = isotonic_interval(mean, mass, np.array([3, 40]), 0.95)
    assert_allclose(np.array(some), np.array(every)[:, [3, 40]], atol=1e-9)
    assert np.all(np.diff(every, axis=1) > -1e-9)  # as the curve, the ends increase


@pytest.mark.parametrize("strategy", ["isotonic", "quantile", "uniform", DirichletKernel(0.02)])
def test_unequal_weights_widen_the_confidence_band(strategy):
    def band(y, p, weight=None):
        options = {"strategy": strategy, "band": "confidence", "sample_weight": weight}
        (curve,) = draw(y, p, **options).curves
        return curve.low, np.mean(curve.high - curve.low)

    low, full = band(Y, P)
    half = band(Y[1::2], P[1::2])[1]
    weighted = band(Y, P, np.where(np.arange(len(Y)) % 2, 1.0, 1e-6))[1]  # half hardly counts
    assert weighted > 1.15 * full
    assert_allclose(weighted, half, rtol=0.15)
    assert_allclose(band(Y, P, np.full(len(Y), 7.0))[0], low, atol=1e-9)


def test_attributes_labels_and_histogram():
    display = draw(Y, P, name="Model")
    curve, ax = display.curves[0], display.ax_
    assert not np.array_equal(curve.low, draw(Y, P, random_state=1).curves[0].low)
    assert_array_equal(display.line_.get_xydata().T, [curve.prob_pred, curve.prob_true])
    assert ax.get_aspect() == 1
    assert ax.get_xlabel() == "Predicted probability of class 1"
    assert ax.get_ylabel() == "Observed frequency of class 1"
    assert display.ref_line_.get_label() == "Perfectly calibrated"
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    error = proper_calibration_error(Y, P)
    assert_allclose(curve.error.estimate, error)
    assert texts[0].startswith(f"Model\nBrier calibration error\n{error:.3f} [")
    assert texts[1:] == ["95 % consistency band", "Perfectly calibrated"]
    display.figure_.canvas.draw()
    above, main = display.ax_hist_.get_position(), ax.get_position()
    assert above.y0 >= main.y1  # the histogram hides nothing, and shares x
    assert_allclose([above.x0, above.x1], [main.x0, main.x1])
    assert display.ax_hist_.get_xlim() == ax.get_xlim()


def test_the_simple_style():
    """It draws what scikit-learn draws."""
    display = draw(Y, P**3, style="simple", name="Model")
    expected = CalibrationDisplay.from_predictions(Y, P**3).line_
    assert_allclose(display.line_.get_xydata(), expected.get_xydata())
    assert display.band_ is display.ax_hist_ is None and display.line_.get_label() == "Model"
    assert display.ax_.get_xscale() == "linear"
    isotonic = draw(Y, P, style="simple", strategy="isotonic", band="confidence", histogram=True)
    assert len(isotonic.curves[0].prob_pred) > 40 and isotonic.band_ and isotonic.ax_hist_


def test_summary_is_written_to_the_right_of_the_axes():
    display = draw(Y, P, summary=True, band=None)
    display.figure_.canvas.draw()
    expected = calibration_summary(Y, P)
    texts = [cell.get_text() for cell in display.table_]
    assert texts == [text for column in zip(*expected.lines(), strict=True) for text in column]
    assert {str(expected.brier), "Ratio O/E", "95 %"} < set(texts)
    boxes = [cell.get_window_extent() for cell in display.table_]
    assert all(not a.overlaps(b) for a, b in combinations(boxes, 2))
    assert min(box.x0 for box in boxes) > display.ax_.get_window_extent().x1
    assert all(box.x1 < display.figure_.bbox.x1 and box.y0 > 0 for box in boxes)
    call = partial(draw, Y, P, summary=True)
    check_refusals(
        (partial(call, notion=TopLabel()), "the top label: pass one class against the rest"),
        (partial(call, notion="classwise"), "2 events: pass one class against the rest"),
    )


def test_panels_of_classes_and_a_group_of_classes():
    display = draw(THREE.y, THREE.y_proba, notion="classwise", strategy="quantile")
    assert len(display.line_) == len(display.band_) == len(display.ax_hist_) == 3
    assert len({inset.get_ylim() for inset in display.ax_hist_}) == 1
    assert min(text.get_fontsize() for text in display.figure_.findobj(Text)) >= 6
    display = draw(THREE.y, THREE.y_proba, notion=ClassGroups([[0]]))  # a group is a binary event
    assert display.ax_.get_xlabel() == "Predicted probability"
    assert_allclose(display.curves[0].scores, THREE.y_proba[:, 1:].sum(axis=1))


@pytest.mark.parametrize("notion", ["auto", "classwise"])
def test_from_cv_results_draws_the_folds(notion):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = LogisticRegression(C=0.01)
    results = cross_validate(model, X, y, cv=3, return_estimator=True, return_indices=True)
    options = dict(notion=notion, strategy="quantile", n_bins=3)
    display = ReliabilityDisplay.from_cv_results(results, X, y, **options)
    n_panels = 3 if notion == "classwise" else 1
    assert len(display.line_) == len(display.curves) == 3 * n_panels
    assert np.size(display.ax_) == n_panels and display.band_ is None
    test = results["indices"]["test"][1]
    proba = results["estimator"][1].predict_proba(X.iloc[test])
    fold = draw(y.iloc[test], proba, band=None, **options)
    assert_array_equal(display.curves[n_panels].prob_true, fold.curves[0].prob_true)
    first = np.ravel(display.ax_)[0]
    texts = [text.get_text() for text in first.get_legend().get_texts()]
    # What all panels share is explained once, below them.
    assert len(texts) == (1 if notion == "classwise" else 2)
    assert len(display.figure_.legends) == (notion == "classwise")
    assert "(mean of 3 folds, sd 0.0" in texts[0]
    of_folds, without = ReliabilityDisplay.from_cv_results, cross_validate(model, X, y, cv=2)
    check_refusals(
        (lambda: of_folds(results, X[:60], y[:60]), "the X and y of the cross-validation"),
        (lambda: of_folds(without, X, y), "return_estimator=True and return_indices=True"),
    )


HARD = {
    "one sample": dict(y_true=[1], y_proba=[0.7]),
    "certain": dict(y_true=[0, 1, 1], y_proba=[0.0, 1.0, 0.0]),
    "constant": dict(y_true=["x"] * 4, y_proba=[[0.3, 0.7]] * 4, labels=["x", "y"]),
    "ties": dict(y_true=[1, 1, 0, 1], y_proba=[0.2, 0.2, 0.4, 0.4], sample_weight=[1, 2, 3, 0]),
    "many": dict(y_true=Y, y_proba=P),
}


@pytest.mark.parametrize(
    ("case", "strategy", "band"),
    covering(HARD, [*STRATEGIES, *SMOOTHERS], ["consistency", "confidence"]),
)
def test_hard_input_gives_a_picture(case, strategy, band):
    if case == "one sample" and strategy == "kernel":
        with pytest.raises(ValueError, match="At least 2 samples"):
            draw(**HARD[case], strategy=strategy, band=band)
        return
    display = draw(**HARD[case], strategy=strategy, band=band, n_resamples=49)
    display.figure_.canvas.draw()
    curve = display.curves[0]
    for values in (curve.prob_pred, curve.prob_true, curve.low, curve.high):
        assert np.all((values >= 0) & (values <= 1))
    assert np.all(np.diff(curve.prob_pred) > 0) and np.all(curve.low <= curve.high)
    assert (curve.error is None) == (case == "one sample")


def test_refusals():
    refused = [
        ({"n_resamples": 38}, "at least 39 for a band of level 0.95"),
        (
            {"n_bins": 10},
            "^n_bins=10 is for strategy='quantile' or 'uniform', but strategy is 'isotonic': "
            r"choose one of these two, or leave n_bins out\.$",
        ),
        ({"strategy": "kernel", "n_bins": 5}, "but strategy is 'kernel'"),
        ({"strategy": QuantileBins(4), "n_bins": 4}, r"but strategy is QuantileBins\(n_bins=4\)"),
        ({"notion": Canonical()}, "3 columns: use notion='top_label' or 'classwise'"),
    ]
    call = partial(draw, THREE.y, THREE.y_proba)
    check_refusals(*((partial(call, **options), words) for options, words in refused))


def test_bins_are_ten_by_default():
    """With as many resamples as a band needs, or fewer where there is none."""
    for options in (
        {"strategy": "quantile", "n_resamples": 39},
        {"strategy": "uniform", "n_resamples": 1, "band": None},
    ):
        curves = [draw(Y, P, n_bins=n, **options).curves[0] for n in (None, 10)]
        assert_array_equal(curves[0].prob_pred, curves[1].prob_pred)
        centre = options["strategy"] == "uniform" and (P == 0.5).any()  # a bin of its own
        assert len(curves[0].prob_pred) == 10 + centre
