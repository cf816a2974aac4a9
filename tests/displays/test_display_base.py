"""Legends, labels, styles and scales of displays: what a reader sees, measured on the figure."""

import gc
import pickle
import weakref
from inspect import signature
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from grids import rotated
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose
from refusals import check_refusals
from scipy.special import expit, logit
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_validate
from sklearn.naive_bayes import GaussianNB

import skcalib as s
from skcalib import PlattScaling, RecalibrationDisplay
from skcalib.datasets import make_tempered_simplex
from skcalib.displays.base import (
    bin_edges,
    percent,
    places_on_axis,
    probabilities_at,
    scale_panels,
)

draw = s.ReliabilityDisplay.from_predictions
of_folds = s.ReliabilityDisplay.from_cv_results
of_map = s.RecalibrationDisplay.from_recalibrator
of_maps = s.RecalibrationDisplay.from_recalibrators
THREE = make_tempered_simplex(300, 3, random_state=0)


#: Scores, and the probabilities of events for these.
WORLDS = {
    "over-confident": (
        lambda rng: expit(2.5 * logit(rng.random(1500))),
        lambda p: expit(logit(p) / 2.5),
    ),
    "forest": (  # ties and exact zeros
        lambda rng: rng.binomial(50, rng.beta(0.3, 3, 1500)) / 50,
        lambda p: expit(0.8 * logit(p.clip(0.005, 0.99))),
    ),
}


def world(kind):
    """Labels and scores."""
    rng, (scores, chance) = np.random.default_rng(0), WORLDS[kind]
    p = scores(rng)
    return (rng.random(len(p)) < chance(p)).astype(int), p


def check(display):
    """Legends and labels of a new figure are inside of it."""
    figure = display.figure_
    figure.canvas.draw()
    for artist in (*np.ravel(display.ax_), *figure.legends):
        tight = artist.get_tightbbox()
        assert min(tight.x0, tight.y0) >= 0
        assert tight.x1 <= figure.bbox.x1 and tight.y1 <= figure.bbox.y1


@pytest.mark.parametrize("strategy", ["isotonic", "quantile", "smooth"])
def test_a_new_figure_holds_its_legend(strategy):
    display = draw(*world("forest"), strategy=strategy, n_resamples=39)
    check(display)
    assert not display.figure_.legends and display.ax_.get_legend().get_window_extent().width > 0


@pytest.mark.parametrize("with_axes", [False, True])
def test_legend_of_three_models(with_axes):
    y, p = world("over-confident")
    ax = plt.subplots(figsize=(6, 6))[1] if with_axes else None
    for k, power in enumerate((1, 0.6, 1.5)):
        options = {"name": f"Model {k}", "band": None if k else "consistency", "n_resamples": 39}
        display = draw(y, p**power, ax=ax, **options)
        ax = display.ax_
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    names = "Model 0", "95 % consistency band", "Model 1", "Model 2", "Perfectly calibrated"
    assert tuple(text.split("\n")[0] for text in texts) == names


@pytest.fixture(scope="module")
def folds():
    """Results of ten folds, features and labels."""
    X, y = make_classification(1500, 10, n_informative=5, random_state=0)
    y = np.array(["stay", "churn"])[y]
    options = {"cv": 10, "return_estimator": True, "return_indices": True}
    return cross_validate(GaussianNB(), X, y, **options), X, y


def test_legend_of_ten_folds_has_one_entry(folds):
    display = of_folds(*folds, strategy="quantile")
    check(display)
    assert len(display.line_) == 10
    assert len(display.ax_.get_legend().get_texts()) == 2  # of the folds, and of the diagonal


@pytest.mark.slow
def test_legends_of_ten_classes():
    samples = make_tempered_simplex(1000, 10, random_state=0)
    display = draw(samples.y, samples.y_proba, notion="classwise", n_resamples=39)
    check(display)
    draw(samples.y, samples.posterior, notion="classwise", n_resamples=39, ax=display.ax_, name="B")
    check(display)
    assert len(display.figure_.legends) == 1  # of what all panels share
    texts = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert texts == ["95 % consistency band", "Perfectly calibrated"]


def test_legend_of_maps_and_of_errors():
    y, p = world("over-confident")
    maps = s.TemperatureScaling(), s.PlattScaling(), s.BetaCalibration(), s.IsotonicRecalibrator()
    display = of_maps([recalibrator.fit(p, y) for recalibrator in maps], p)
    check(display)
    assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in display.line_}) == 4
    options = {"errors": ["ece", "rbs", "ks"], "n_repeats": 2, "truth": 0.1}
    display = s.displays.EstimationDisplay.from_predictions(y, p, **options)
    check(display)
    assert len({line.get_marker() for line in display.line_}) == 3


def test_curves_without_a_name_and_numbers_of_the_top_label():
    display = draw(*world("forest"))
    assert display.name is None
    assert display.line_.get_label().startswith("Calibration curve\nBrier calibration error\n")
    display = draw(THREE.y, THREE.y_proba, band=None)
    error = s.proper_calibration_error(THREE.y, THREE.y_proba, notion="top_label")
    assert f"Brier calibration error of the top label\n{error:.3f} [" in display.line_.get_label()


def test_no_interval_of_a_squared_error_is_negative():
    """Calibrated forecasts: half of the estimates lie below zero."""
    texts = []
    for seed in range(12):
        p, draws = np.random.default_rng(seed).random((2, 100))
        display = draw((draws < p) * 1, p, band=None, legend=False, histogram=False)
        texts.append(display.line_.get_label().split("\n")[-1])
        below = display.curves[0].error.estimate < -0.0005
        assert ("none detected (upper limit 0.0" in texts[-1]) == below and "-" not in texts[-1]
        plt.close("all")
    assert any("none" in text for text in texts) and any(" [0, 0.0" in text for text in texts)


def test_pos_label_of_every_constructor(folds):
    results, X, y = folds
    first = of_folds(results, X, y, pos_label="churn")
    assert first.ax_.get_xlabel() == "Predicted probability of churn"
    proba = results["estimator"][0].predict_proba(X)
    fitted, score = s.PlattScaling().fit(proba, y), proba[:, 0]
    for make, recalibrators in ((of_map, fitted), (of_maps, [fitted])):
        display = make(recalibrators, score, pos_label="churn")
        assert display.ax_.get_xlabel() == "Predicted probability of churn"
        np.testing.assert_allclose(display.maps[0].scores, score)
    several = s.TemperatureScaling().fit(THREE.y_proba, THREE.y)
    check_refusals(
        (lambda: of_map(fitted, pos_label="leave"), "pos_label='leave' is not one of the classes"),
        (
            lambda: of_map(several, THREE.y_proba, pos_label=1),
            "pos_label is for binary problems, but there are 3",
        ),
    )


LABELS, SCORES = (values[:300] for values in world("over-confident"))
WITHOUT_BAND = {"band": False, "ref_line": False}
WITHOUT_HISTOGRAM = {"ref_line": False, "histogram": False}
#: Displays with a line -> options, and those that leave parts out.
LINED = {
    "ReliabilityDisplay": ({"n_resamples": 39}, {"band": None, **WITHOUT_HISTOGRAM}),
    "RecalibrationDisplay": ({"recalibrator": s.PlattScaling()}, WITHOUT_HISTOGRAM),
    "EstimationDisplay": (
        {"errors": "ece", "n_repeats": 2},
        {"band": False, "prediction": False, "floor": False},
    ),
    "GroupingDisplay": ({"regions": LABELS}, WITHOUT_HISTOGRAM),
    "MurphyDisplay": ({}, WITHOUT_BAND),
    "DecisionCurveDisplay": ({}, WITHOUT_BAND),
}
PARTS = "band_", "ref_line_", "ax_hist_", "prediction_", "floor_", "truth_", "treat_all_"
#: Properties of the artists that have an argument of their own.
STYLES = {
    "band": ("alpha", 0.125),
    "hist": ("alpha", 0.125),
    "interval": ("linewidth", 4),
    "ref_line": ("linestyle", "-."),
    "scatter": ("linewidth", 3),
}


@pytest.mark.parametrize("name", LINED)
def test_parts_are_left_out_and_styled(name):
    options, off = LINED[name]
    display = getattr(s.displays, name).from_predictions(LABELS, SCORES, **options)
    style = {"color": "crimson", "linestyle": ":", "linewidth": 4, "marker": "x", "alpha": 0.5}
    line = display.plot(**style).line_
    assert {key: plt.getp(line, key) for key in style} == style
    if name in ("MurphyDisplay", "DecisionCurveDisplay"):  # the band has the colour of the line
        assert to_hex(display.band_.get_facecolor()[0]) == to_hex("crimson")
    assert display.plot(color="red", curve_kwargs={"c": "blue"}).line_.get_color() == "blue"
    for part, (key, value) in STYLES.items():
        if f"{part}_kwargs" in signature(display.plot).parameters:
            display.plot(name="again", **{f"{part}_kwargs": {key: value}})
            artist = display.ax_hist_.patches[0] if part == "hist" else None
            artist = artist or getattr(display, f"{part}_", None) or display.treat_all_
            assert np.ravel(plt.getp(artist, key))[0] == value, part
    assert "again" in display.line_.get_label() + display.ax_.get_title()
    words = "argument 'colour': it takes its own parameters and"
    check_refusals((lambda: display.plot(colour="red"), words), error=TypeError)
    bare = getattr(s.displays, name).from_predictions(
        LABELS, SCORES, legend=False, **options, **off
    )
    assert len(bare.ax_.lines) == 1 and bare.ax_.get_legend() is None
    assert [part for part in PARTS if getattr(bare, part, None) is not None] == []


def test_overlaid_curves_differ_without_colour_and_folds_do_not(folds):
    y, p = world("over-confident")
    ax, styles, markers = None, [], []
    for k in range(5):
        display = draw(y, p ** (1 + k / 4), strategy="quantile", band=None, ax=ax, color="black")
        ax = display.ax_
        styles.append(str(display.line_._unscaled_dash_pattern))
        markers.append(display.line_.get_marker())
    assert len(set(styles)) == len(set(markers)) == 5
    display = of_folds(*folds, legend=False)
    assert len({(line.get_color(), line.get_linestyle()) for line in display.line_}) == 1


#: Displays that have a panel for each class, and what they are made of beside the forecasts.
PANELS = {
    "ReliabilityDisplay": {"strategy": "quantile"},
    "GroupingDisplay": {"regions": np.arange(300) % 2},
    "MurphyDisplay": {},
    "DecisionCurveDisplay": {"thresholds": [0.2, 0.4]},
    "GroupCalibrationDisplay": {"by": np.arange(300) % 3},
}


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_for_each_class(name):
    """Each is that of the class against the rest; also from a sketch."""
    labels = np.array(["cat", "dog", "eel"])[THREE.y]
    cls, options = getattr(s.displays, name), PANELS[name]
    several = cls.from_predictions(labels, THREE.y_proba, notion="classwise", **options)
    for ax, label in zip(several.ax_, ["cat", "dog", "eel"], strict=True):
        assert label in (ax.get_xlabel().split()[-1], ax.get_title().split(" ")[-1])
    single = cls.from_predictions((THREE.y == 1).astype(int), THREE.y_proba[:, 1], **options)
    lines = several.ax_[1].lines, single.ax_.lines
    if name == "GroupCalibrationDisplay":  # intervals are those of all classes at once
        lines = [several.differences_[1].lines[:1], single.differences_.lines[:1]]
        low = min(group.difference.low for group in several.groups_)
        assert all(low > ax.get_xlim()[0] for ax in several.ax_)
    for line, expected in zip(*lines, strict=True):
        np.testing.assert_allclose(line.get_xydata(), expected.get_xydata(), atol=1e-12)
    assert len(several.figure_.legends) == 1  # of what all panels share
    axes = plt.subplots(1, 3)[1]
    assert several.plot(ax=axes).ax_ == list(axes) and not axes[0].figure.legends
    assert axes[0].get_legend() is not None
    if name.startswith("Group"):  # panels have no numbers of their own
        assert axes[1].get_legend() is axes[2].get_legend() is None
    check_refusals((lambda: several.plot(ax=axes[0]), "ax must be an array of 3 Axes"))
    if hasattr(cls, "from_sketch"):
        sketch = s.ForecastSketch(list(range(3)), notion="classwise")
        sketch.partial_fit(THREE.y, THREE.y_proba, by=options.get("by"))
        assert len(cls.from_sketch(sketch).ax_) == 3


# --- Scales that show crowded scores --------------------------------------------------------------

rng = np.random.default_rng(0)
RARE = rng.beta(1, 49, 2000)
CROWDS = {  # scores, the scale that suits them, and the end where they are crowded
    "uniform": (rng.random(500), "linear", 0),
    "base rate .2": (rng.beta(1.5, 6, 2000), "linear", 0),
    "both ends": (rng.beta(0.1, 0.1, 2000), "linear", 0),
    "strong model of a rare event": (np.r_[rng.beta(1, 99, 900), rng.beta(9, 1, 100)], "linear", 0),
    "base rate .05": (rng.beta(1, 17, 2000), "sqrt", 0),
    "base rate .02": (RARE, "sqrt", 0),
    "base rate .001": (rng.beta(1, 999, 5000), "logit", 0),
    "base rate .0001": (rng.beta(2, 20_000, 5000), "logit", 0),
    "base rate .001, and zeros": (np.r_[0.0, rng.beta(1, 999, 5000)], "sqrt", 0),
    "confidences of a language model": (1 - rng.beta(1, 20, 2000), "sqrt", 1),
    "no event": (np.zeros(50), "sqrt", 0),
}


def labels_of(p, seed=0):
    y = (np.random.default_rng(seed).random(len(p)) < p) * 1
    y[:2] = [0, 1]
    return y


def scaled(scores, weight=None, scale="auto", ax=None):
    """Axes with the scale of some scores."""
    ax = plt.figure().add_subplot() if ax is None else ax
    scale_panels([ax], [(scores, np.ones(len(scores)) if weight is None else weight)], scale)
    return ax


@pytest.mark.parametrize("scores", [RARE, 1 - RARE], ids=["rare", "frequent"])
@pytest.mark.parametrize("scale", ["linear", "sqrt", "logit"])
def test_places_on_the_axis_increase_and_have_an_inverse(scale, scores):
    ax = scaled(scores, scale=scale)
    p = bin_edges(ax)
    assert_allclose(np.diff(places_on_axis(ax, p)), 1 / 40, atol=1e-9)
    assert_allclose(probabilities_at(ax, places_on_axis(ax, p)), p, atol=1e-9)
    if scale != "logit":  # 0 and 1 are inside of the axes
        assert_allclose(p[[0, -1]], [0, 1], atol=1e-12)
        assert ax.get_xlim()[0] < 0 and ax.get_xlim()[1] > 1


@pytest.mark.parametrize("world", CROWDS)
def test_auto_is_linear_unless_scores_are_crowded(world):
    scores, kind, end = CROWDS[world]
    ax = scaled(scores)
    assert ax.skcalib_scale == kind
    if kind == "sqrt":  # it stretches the end
        low, high = places_on_axis(ax, [0.1, 0.9])
        assert (low > 0.3) == (end == 0) and (high < 0.7) == (end == 1)
    if kind != "linear" and scores.min() > 0:  # the scores fill a good part of the axis
        low, high = np.quantile(places_on_axis(ax, scores), [0.05, 0.95])
        assert high - low > 0.15


@pytest.mark.parametrize("scale", ["auto", "linear", "sqrt", "logit"])
def test_the_diagonal_is_straight_and_the_axes_agree(scale):
    display = draw(labels_of(RARE), RARE, scale=scale, band=None)
    display.figure_.canvas.draw()
    p = np.linspace(*np.clip(display.ax_.get_xlim(), 0, 1), 50)
    x, y = display.ax_.transData.transform(np.column_stack([p, p])).T
    slope = (y[-1] - y[0]) / (x[-1] - x[0])
    assert_allclose(y - y[0], slope * (x - x[0]), atol=1e-6)
    assert_allclose(slope, 1, atol=1e-6)
    assert display.ax_.get_xlim() == display.ax_.get_ylim() == display.ax_hist_.get_xlim()


def test_a_logit_scale_shows_no_zeros_and_ones():
    """Heights of 0 lie on the lower end of the axis."""
    p = np.r_[0.0, RARE]
    with pytest.raises(ValueError, match="exactly 0 or 1, which occur: use scale='sqrt'"):
        draw(labels_of(p), p, scale="logit", band=None)
    display = draw(labels_of(RARE), RARE, scale="logit", strategy="quantile", n_bins=100)
    assert display.curves[0].prob_true.min() == 0
    assert display.line_.get_ydata().min() == display.ax_.get_ylim()[0] > 0


@pytest.mark.parametrize(("world", "size"), rotated(CROWDS, [(5, 5.7), (3.4, 4), (2.8, 3.6)], 1))
def test_ticks_are_plain_and_apart(world, size):
    scores, kind, _ = CROWDS[world]
    ax = plt.subplots(figsize=size, layout="constrained")[1]
    draw(labels_of(scores), scores, ax=ax, band=None)
    ax.figure.canvas.draw()
    labels = [label for label in ax.get_xticklabels() if label.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    if kind == "sqrt":
        texts = [label.get_text() for label in labels]
        assert texts[0] == "0 %" and texts[-1] == "100 %" and len(texts) >= 3
        assert texts == [label.get_text() for label in ax.get_yticklabels()]


def test_overlaid_displays_agree_whatever_their_order():
    wide = np.linspace(0.01, 0.99, 500)
    kinds = []
    for first, second in ((RARE, wide), (wide, RARE)):
        ax = draw(labels_of(first), first, band=None).ax_
        display = draw(labels_of(second), second, band=None, ax=ax)
        kinds.append(ax.xaxis.get_transform().transform([0.1, 0.5]))
        assert ax.get_xscale() == "function"
        # Both histograms have the bins of this scale, and hold all samples.
        for patch in display.ax_hist_.patches:
            place = np.unique(np.sqrt(patch.get_xy()[:, 0]).round(6))
            assert_allclose(place * 40, (place * 40).round(), atol=1e-4)
        assert len(display.ax_hist_.patches) == 2
    assert_allclose(kinds[0], kinds[1])


def test_names_panels_and_weights_choose_the_scale():
    ax = draw(labels_of(RARE), RARE, band=None, scale="linear").ax_
    draw(labels_of(RARE), RARE, band=None, ax=ax)
    assert ax.get_xscale() == "linear"  # a scale by name is kept
    assert scaled(1 - RARE, ax=scaled(RARE)).skcalib_scale == "logit"
    samples = make_tempered_simplex(500, 3, random_state=0)
    proba = samples.y_proba * [1, 1, 0.02]
    proba /= proba.sum(axis=1, keepdims=True)
    display = draw(samples.y, proba, notion="classwise", band=None)
    assert len({ax.get_xscale() for ax in display.ax_}) == 1  # panels share one
    scores = np.r_[np.full(100, 0.01), np.full(100, 0.6)]
    weight = np.r_[np.ones(100), np.full(100, 1e-6)]
    ax = scaled(scores)
    assert ax.skcalib_scale == "linear"
    assert scaled(scores, weight, ax=ax).skcalib_scale == "logit"
    with pytest.raises(ValueError, match="scale must be 'auto', 'linear', 'logit' or 'sqrt', got"):
        draw(labels_of(RARE), RARE, scale="log")


def test_maps_of_recalibrators_have_the_scale_of_their_forecasts():
    draw_map = RecalibrationDisplay.from_recalibrator
    fitted = PlattScaling().fit(RARE, labels_of(RARE))
    assert draw_map(fitted, RARE).ax_.get_xscale() == "function"
    assert draw_map(fitted).ax_.get_xscale() == "linear"
    assert draw_map(fitted, scale="logit").ax_.get_xscale() == "logit"
    values = (0, 0.00001, 0.001, 0.25, 0.999, 1)
    assert " ".join(map(percent, values)) == "0 % 0.001 % 0.1 % 25 % 99.9 % 100 %"


def test_figures_can_be_pickled_and_are_freed():
    display = draw(labels_of(RARE), RARE, name="A")
    copy = pickle.loads(pickle.dumps(display.figure_))
    copy.canvas.draw()
    assert copy.axes[0].get_xscale() == "function"
    figure = weakref.ref(display.figure_)
    draw(labels_of(RARE), RARE, name="B", ax=display.ax_)
    plt.close("all")
    del display
    gc.collect()
    assert figure() is None


def test_histogram_with_a_spike_has_a_root_scale_that_is_named():
    rng = np.random.default_rng(0)
    p = np.r_[np.zeros(3000), rng.random(300)]
    spiked, even = draw(labels_of(p), p, band=None), draw(labels_of(p), rng.random(3300), band=None)
    assert spiked.ax_hist_.get_ylabel() == "√ share" and even.ax_hist_.get_ylabel() == "Share"
    spiked.figure_.canvas.draw()
    corners = spiked.ax_hist_.patches[0].get_xy()
    heights = spiked.ax_hist_.transAxes.inverted().transform(
        spiked.ax_hist_.transData.transform(corners)
    )[:, 1]
    assert np.median(heights[heights > 1e-6]) > 0.03  # of the height of the histogram
