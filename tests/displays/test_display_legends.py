"""Legends, labels and styles of displays: what a reader sees, measured on the drawn figure."""

from inspect import signature

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.special import expit, logit
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_validate
from sklearn.naive_bayes import GaussianNB

import skcalib as s
from skcalib.datasets import make_tempered_simplex

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
    with pytest.raises(ValueError, match="pos_label='leave' is not one of the classes"):
        of_map(fitted, pos_label="leave")
    several = s.TemperatureScaling().fit(THREE.y_proba, THREE.y)
    with pytest.raises(ValueError, match="pos_label is for binary problems, but there are 3"):
        of_map(several, THREE.y_proba, pos_label=1)


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
    with pytest.raises(TypeError, match="argument 'colour': it takes its own parameters and"):
        display.plot(colour="red")
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
    with pytest.raises(ValueError, match="ax must be an array of 3 Axes"):
        several.plot(ax=axes[0])
    if hasattr(cls, "from_sketch"):
        sketch = s.ForecastSketch(list(range(3)), notion="classwise")
        sketch.partial_fit(THREE.y, THREE.y_proba, by=options.get("by"))
        assert len(cls.from_sketch(sketch).ax_) == 3
