"""Scales that show crowded scores: straight diagonals, plain ticks, one scale for all displays."""

import gc
import pickle
import weakref
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from grids import rotated
from numpy.testing import assert_allclose

from skcalib import PlattScaling, RecalibrationDisplay, ReliabilityDisplay
from skcalib.datasets import make_tempered_simplex
from skcalib.displays.base import (
    bin_edges,
    percent,
    places_on_axis,
    probabilities_at,
    scale_panels,
)

draw = ReliabilityDisplay.from_predictions
rng = np.random.default_rng(0)
RARE = rng.beta(1, 49, 2000)
WORLDS = {  # scores, the scale that suits them, and the end where they are crowded
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


@pytest.mark.parametrize("world", WORLDS)
def test_auto_is_linear_unless_scores_are_crowded(world):
    scores, kind, end = WORLDS[world]
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


@pytest.mark.parametrize(("world", "size"), rotated(WORLDS, [(5, 5.7), (3.4, 4), (2.8, 3.6)], 1))
def test_ticks_are_plain_and_apart(world, size):
    scores, kind, _ = WORLDS[world]
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
