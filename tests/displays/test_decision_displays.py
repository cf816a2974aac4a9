"""Murphy diagrams and decision curves: the numbers by a loop, coverage, the picture."""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import check_refusals
from scipy.special import expit, logit

import skcalib as s
from skcalib.data.notions import Canonical
from skcalib.risk_models.decisions import net_benefit
from skcalib.stats.means import mean_interval

murphy = s.MurphyDisplay.from_predictions
benefit = s.DecisionCurveDisplay.from_predictions
BOTH = [murphy, benefit]
THRESHOLDS = np.arange(1, 20) / 20
BETWEEN = np.arange(0.5, 20) / 20


def tied(n):
    """Labels, probabilities in twentieths with 0, 1 and ties at the thresholds, and weights."""
    rng = np.random.default_rng(0)
    p = rng.integers(0, 21, n) / 20
    p[:2] = 0, 1
    y = (rng.random(n) < 0.2 + 0.6 * p).astype(int)
    assert 0 < y.mean() < 1 and len(np.unique(p)) > 10
    return y, p, rng.uniform(0.2, 3, n)


Y, P, WEIGHT = tied(60)
RATE = np.average(Y, weights=WEIGHT)
WEIGHTED = {"sample_weight": WEIGHT, "thresholds": THRESHOLDS}
#: Labels, the true probabilities, and over-confident ones.
RNG = np.random.default_rng(0)
TRUE = RNG.beta(0.8, 1.2, 400)
EVENTS, OVER = (RNG.random(400) < TRUE).astype(int), expit(2.2 * logit(TRUE))


def cost_of(y, p, t):
    """The elementary score of one sample."""
    return t * (1 - y) if p > t else (1 - t) * y


def benefit_of(y, p, t):
    """The term of one sample in the net benefit."""
    return y - (1 - y) * t / (1 - t) if p > t else 0.0


SAMPLES = {
    "ties": (Y, P),
    "no event": (np.zeros(5, int), np.array([0, 0.2, 0.5, 0.5, 1.0])),
    "events only": (np.ones(5, int), np.array([0, 0.2, 0.5, 0.5, 1.0])),
    "zeros and ones": (np.array([0, 1, 0, 1]), np.array([0.0, 0.0, 1.0, 1.0])),
    "one sample": (np.array([1]), np.array([0.3])),
    "two samples": (np.array([0, 1]), np.array([0.4, 0.3])),
}


@pytest.mark.parametrize("case", SAMPLES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("draw", "term"), [(murphy, cost_of), (benefit, benefit_of)])
def test_means_and_bands_by_a_loop(draw, term, weighted, case):
    y, p = SAMPLES[case]
    weight = np.random.default_rng(1).uniform(0.2, 3, len(y)) if weighted else None
    options = {"labels": [0, 1], "sample_weight": weight, "confidence_level": 0.9}
    display = draw(y, p, thresholds=THRESHOLDS, **options)
    (curve,) = display.curves
    assert_array_equal(curve.threshold, THRESHOLDS)
    assert (display.band_ is None) == (len(y) == 1)
    for k, t in enumerate(THRESHOLDS):
        values = [term(*pair, t) for pair in zip(y, p, strict=True)]
        interval = mean_interval(values, weight, 0.9)
        assert curve.estimate[k] == pytest.approx(interval.estimate, abs=1e-14)
        assert curve.low[k] == pytest.approx(interval.low, abs=1e-12)
        assert curve.high[k] == pytest.approx(interval.high, abs=1e-12)


def test_references_are_the_curves_of_constant_forecasts():
    (constant,) = murphy(Y, np.full(60, RATE), **WEIGHTED).curves
    assert_allclose(murphy(Y, P, **WEIGHTED).curves[0].reference, constant.estimate, atol=1e-14)
    (certain,) = benefit(Y, np.ones(60), **WEIGHTED).curves
    (never,) = benefit(Y, np.zeros(60), **WEIGHTED).curves
    assert_allclose(benefit(Y, P, **WEIGHTED).curves[0].reference, certain.estimate, atol=1e-12)
    assert_array_equal(never.estimate, 0)


def test_the_area_of_twice_the_cost_is_the_brier_score():
    """Exactly: between the probabilities the cost is linear, so the midpoint rule is exact."""
    display = murphy(Y, P, sample_weight=WEIGHT, thresholds=BETWEEN, name="A")
    (curve,) = display.curves
    brier = np.average((P - Y) ** 2, weights=WEIGHT)
    assert [2 * curve.estimate.mean(), curve.brier] == pytest.approx([brier] * 2, rel=1e-12)
    assert display.line_.get_label() == f"A\nBrier score\n{brier:.3f}"


def test_the_standardized_benefit_is_divided_by_the_event_rate():
    (plain,) = benefit(Y, P, **WEIGHTED).curves
    display = benefit(Y, P, standardized=True, **WEIGHTED)
    (curve,) = display.curves
    assert_allclose(curve.estimate, plain.estimate / RATE, rtol=1e-12)
    assert_allclose(curve.reference, plain.reference / RATE, rtol=1e-12)
    assert display.ax_.get_ylabel() == "Standardized net benefit"
    for k, t in enumerate(THRESHOLDS):
        terms = np.array([benefit_of(*pair, t) for pair in zip(Y, P, strict=True)])
        interval = mean_interval((terms - curve.estimate[k] * Y) / RATE, WEIGHT)
        assert curve.high[k] - curve.estimate[k] == pytest.approx(interval.high - interval.estimate)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_net_benefit_is_that_of_the_curve(weighted):
    weight = WEIGHT if weighted else np.ones(60)
    (curve,) = benefit(Y, P, thresholds=THRESHOLDS, sample_weight=weight).curves
    (cost,) = murphy(Y, P, thresholds=THRESHOLDS, sample_weight=weight).curves
    benefits = [net_benefit(Y, P, threshold=t, sample_weight=weight) for t in THRESHOLDS]
    assert_allclose(benefits, curve.estimate, atol=1e-14)
    rate = np.average(Y, weights=weight)
    assert_allclose(benefits, rate - cost.estimate / (1 - THRESHOLDS), atol=1e-14)


def test_the_default_thresholds_of_the_net_benefit_end_at_the_largest_probability():
    for curve in benefit(EVENTS, {"all": OVER, "small": OVER / 10}).curves:
        assert len(curve.threshold) == 200
        assert curve.threshold[-1] == pytest.approx(min(OVER.max(), 0.99))
    (curve,) = benefit(EVENTS, OVER / 10).curves
    assert curve.threshold[[0, -1]] == pytest.approx([OVER.max() / 2000, OVER.max() / 10])
    assert curve.estimate[-1] == 0
    assert benefit(EVENTS, np.zeros(400)).curves[0].threshold[-1] == 0.01


def test_the_parts_are_those_of_decision_regret():
    weight = np.random.default_rng(3).uniform(0.5, 2, 400)
    display = murphy(EVENTS, OVER, parts=True, thresholds=THRESHOLDS, sample_weight=weight)
    (curve,) = display.curves
    for k in (1, 9, 16):
        regret = s.decision_regret(EVENTS, OVER, threshold=THRESHOLDS[k], sample_weight=weight)
        assert curve.estimate[k] == pytest.approx(regret.expected_cost.estimate, rel=1e-12)
        assert curve.remaining[k] == pytest.approx(regret.rest.estimate, rel=1e-12)
        assert curve.regret[k] == pytest.approx(regret.calibration.estimate, rel=1e-9, abs=1e-12)
    assert_allclose(curve.remaining + curve.regret, curve.estimate, rtol=1e-14)
    assert_array_equal(display.remaining_.get_ydata(), curve.remaining)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert {"After recalibration", "Regret of miscalibration", "No model"} <= set(texts)
    plain = murphy(EVENTS, OVER)
    assert plain.remaining_ is plain.regret_ is plain.curves[0].regret is None
    (curve,) = murphy(np.zeros(30, int), np.linspace(0, 1, 30), labels=[0, 1], parts=True).curves
    assert np.isfinite(curve.remaining).all() and curve.remaining.min() >= 0
    assert curve.regret.max() > 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("draw", [s.MurphyDisplay, s.DecisionCurveDisplay])
def test_a_sketch_has_the_curves_of_tied_samples(draw, weighted):
    y, p, weight = tied(400)
    weight = weight if weighted else None
    sketch = s.ForecastSketch([0, 1]).fit(y, p, weight)
    display = draw.from_sketch(sketch, thresholds=BETWEEN, name="A")
    expected = draw.from_predictions(y, p, sample_weight=weight, thresholds=BETWEEN, name="A")
    for name in ("estimate", "low", "high", "reference"):
        values, wanted = (getattr(plotted.curves[0], name) for plotted in (display, expected))
        assert_allclose(values, wanted, rtol=1e-9, atol=1e-12)
    assert display.line_.get_label() == expected.line_.get_label()


@pytest.mark.parametrize("draw", BOTH)
def test_events_of_several_classes(draw):
    rng = np.random.default_rng(0)
    proba, weight = rng.dirichlet(np.ones(3), 300), rng.uniform(0.5, 2, 300)
    y = np.array([rng.choice(3, p=row) for row in proba])
    right, confidence = (proba.argmax(axis=1) == y).astype(int), proba.max(axis=1)
    options = {"sample_weight": weight, "thresholds": THRESHOLDS}
    top = draw(y, proba, **options)
    (expected,) = draw(right, confidence, **options).curves
    assert_allclose(top.curves[0].estimate, expected.estimate, atol=1e-13)
    assert top.ax_.get_xlabel() == "Threshold of the confidence"
    classwise = draw(y, proba, notion="classwise", **options)
    assert len(classwise.ax_) == len(classwise.line_) == 3
    for k, curve in enumerate(classwise.curves):
        (expected,) = draw((y == k).astype(int), proba[:, k], **options).curves
        assert_allclose(curve.estimate, expected.estimate, atol=1e-12)
        assert classwise.ax_[k].get_xlabel() == f"Threshold probability of class {k}"
    calls = (partial(draw, y, proba, notion=notion) for notion in ("canonical", Canonical()))
    check_refusals(*((call, "use notion='top_label' or 'classwise'") for call in calls))


@pytest.mark.parametrize("draw", BOTH)
def test_several_models(draw):
    display = draw(EVENTS, {"A": OVER, "B": TRUE, 3: np.column_stack([1 - TRUE, TRUE])})
    assert [curve.name for curve in display.curves] == ["A", "B", "3"]
    assert len(display.line_) == len(display.band_) == 3
    styles = {(line.get_color(), str(line.get_linestyle())) for line in display.line_}
    assert len({line.get_color() for line in display.line_}) == len(styles) == 3
    for line, curve in zip(display.line_, display.curves, strict=True):
        assert_array_equal(line.get_ydata(), curve.estimate)
        assert_array_equal(line.get_xdata(), curve.threshold)
    reference = display.ref_line_ if draw is murphy else display.treat_all_
    assert_array_equal(reference.get_ydata(), display.curves[0].reference)  # one line for all
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sum("confidence band" in label for label in labels) == 1


@pytest.mark.parametrize("draw", BOTH)
def test_displays_on_the_same_axes(draw):
    """They share references, and no curve is cut off."""
    first = draw(EVENTS, OVER / 3, name="A", thresholds=[0.1, 0.2, 0.3])
    second = draw(EVENTS, TRUE, name="B", ax=first.ax_, thresholds=[0.1, 0.2, 0.3])
    assert second.figure_ is first.figure_
    assert first.line_.get_color() != second.line_.get_color()
    third = draw(1 - EVENTS, OVER, name="C", ax=first.ax_)  # of another event rate
    if draw is murphy:
        assert first.ref_line_ is second.ref_line_ is not third.ref_line_
    else:
        assert first.treat_all_ is second.treat_all_ is not third.treat_all_
        assert first.treat_none_ is second.treat_none_
    low, high = third.ax_.get_xlim()
    assert low == 0 and high >= third.curves[0].threshold[-1]
    tops = [curve.estimate.max() for display in (first, second, third) for curve in display.curves]
    assert third.ax_.get_ylim()[1] > max(tops)
    texts = [text.get_text().split("\n")[0] for text in third.ax_.get_legend().get_texts()]
    assert len(set(texts)) == len(texts) and {"A", "B", "C"} <= {t.split(":")[0] for t in texts}


def test_treat_all_is_one_line_for_one_event_rate():
    first = benefit(EVENTS, OVER / 3, name="A")
    end = first.treat_all_.get_xdata()[-1]
    second = benefit(EVENTS, TRUE, name="B", ax=first.ax_)
    points, height = second.treat_all_.get_xydata().T
    assert second.treat_all_ is first.treat_all_
    assert end < points[-1] == second.curves[0].threshold[-1]
    assert np.all(np.diff(points) > 0) and len(points) > 300
    rate = EVENTS.mean()
    assert_allclose(height, rate - (1 - rate) * points / (1 - points), atol=1e-9)
    proba = np.random.default_rng(0).dirichlet(np.ones(3), (2, 300))
    display = benefit(proba[0].argmax(axis=1), {"right": proba[0], "random": proba[1]})
    colors = [line.get_color() for line in display.line_]
    assert [line.get_color() for line in display.treat_all_] == colors


def test_the_limits_of_the_axes():
    """The net benefit is cut off below, and the cost starts at zero."""
    rng = np.random.default_rng(0)
    q = rng.beta(0.6, 29.4, 4000)
    y = (rng.random(4000) < q).astype(int)
    display = benefit(y, expit(logit(q) + 1), thresholds=np.arange(1, 100) / 100)
    (low, high), (curve,) = display.ax_.get_ylim(), display.curves
    top = curve.high[curve.estimate.argmax()]
    assert curve.reference.min() < -50 and -0.2 * top < low < 0 and top < high < 1.2 * top
    low, high = benefit(np.zeros(4, int), np.arange(1, 5) / 10, labels=[0, 1]).ax_.get_ylim()
    assert low < 0 < high
    display = murphy(Y, P)
    assert_allclose(display.curves[0].threshold, np.arange(1, 200) / 200, rtol=0)
    assert display.ax_.get_ylim()[0] == 0 and display.ax_.get_xlim() == (0, 1)
    part = murphy(Y, P, thresholds=[0.3, 0.4, 0.5])
    assert part.ax_.get_xlim() == (0.3, 0.5) and part.line_.get_marker() == "o"


@pytest.mark.parametrize("draw", BOTH)
@pytest.mark.parametrize("size", [(12.8, 8), (3.9, 3.6)])
def test_nothing_is_cut_off(draw, size):
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    draw(EVENTS, {"Over-confident": OVER, "Truth": TRUE, "Other": (OVER + TRUE) / 2}, ax=ax)
    figure.canvas.draw()
    for artist in (ax.xaxis.label, ax.yaxis.label, ax.get_legend()):
        (x0, y0), (x1, y1) = artist.get_window_extent().get_points()
        assert min(x0, y0) >= 0 and x1 <= figure.bbox.x1 and y1 <= figure.bbox.y1, artist


@pytest.mark.parametrize("draw", BOTH)
def test_invalid_thresholds(draw):
    lists = [], [0.0, 0.5], [0.5, 1.0], [np.nan], [[0.1, 0.2]], ["a"], [-1], [0.1, [0.2]]
    words = "thresholds must be a list of numbers strictly between"
    check_refusals(
        *((partial(draw, Y, P, thresholds=wrong), words) for wrong in (*lists, 0.5, "0.5"))
    )
    assert not plt.get_fignums()
    assert_array_equal(draw(Y, P, thresholds=[0.5, 0.2, 0.5]).curves[0].threshold, [0.2, 0.5])


@pytest.mark.parametrize("draw", BOTH)
def test_invalid_input(draw):
    bad = np.where(np.arange(60) == 3, np.nan, P)
    both, single = {"A": P, "B": P}, "name='C' is for a single model: leave it out, as "
    check_refusals(
        (lambda: draw(Y, {"A": P, "B": bad}), r"y_proba\['B'\] contains NaN"),
        (lambda: draw(Y, {}), "y_proba is an empty dict: pass the probabilities"),
        (lambda: draw(Y, {"A": P}, name="C"), f"{single}the k"),
        (lambda: draw(Y, both).plot(name="C"), f"{single}sever"),
        (lambda: draw(np.arange(30), np.eye(30), notion="classwise"), "the limit of 25 panels"),
        (lambda: murphy(Y, both, parts=True), "parts=True is for a single model, as the areas"),
        (
            lambda: benefit([0, 0, 0], [0.1, 0.2, 0.3], labels=[0, 1], standardized=True),
            "standardized=True divides by the prevalence, which is",
        ),
    )


def test_the_scorer_of_the_net_benefit_is_a_gain():
    scorer, model = s.get_scorer("net_benefit"), s.IdentityRecalibrator().fit(P, Y)
    assert scorer(model, P, Y) == s.get_scorer("neg_net_benefit")(model, P, Y)
    assert scorer(model, P, Y) == net_benefit(Y, P) > 0
    assert scorer(model, 1 - P, Y) < 0 < scorer(model, Y, Y) == pytest.approx(Y.mean())
