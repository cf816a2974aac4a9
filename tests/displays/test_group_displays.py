"""Diagrams of groups: positions, colours, numbers, which groups, the doors, what is refused."""

import re
from dataclasses import replace
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal
from refusals import check_refusals
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skcalib import (
    ForecastSketch,
    GroupCalibrationDisplay,
    GroupingDisplay,
    GroupingLossEstimator,
    calibration_by_group,
)
from skcalib.data.notions import ClassGroups
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.displays.groups import ABOVE, BELOW, COLORS, NOT_SIGNIFICANT, title
from skcalib.stats.means import MeanInterval, clopper_pearson

draw = GroupingDisplay.from_predictions
make = GroupingDisplay.from_grouping_estimator
#: The score knows the first feature, labels depend on the second; a third of the scores is tied.
RNG = np.random.default_rng(0)
X = RNG.standard_normal((1200, 3))
SCORE = np.clip(0.5 + 0.2 * X[:, 0], 0.05, 0.95)
SCORE[:400] = SCORE[:400].round(1)
Y = (RNG.random(1200) < np.clip(SCORE + 0.2 * np.sign(X[:, 1]), 0, 1)).astype(int)
assert len(np.unique(SCORE)) < 1000 and 0 < Y.mean() < 1


def stump(n_samples=1200, **options):
    settings = dict(partitioner="stump", n_bins=10, region_ratio=24, random_state=0)
    settings["n_permutations"] = 0
    X_, y, score = (part[:n_samples] for part in (X, Y, SCORE))
    return GroupingLossEstimator(**{**settings, **options}).fit(X_, y, y_proba=score)


@pytest.fixture(scope="module")
def fitted():
    return stump()


@pytest.fixture(scope="module")
def diagrams():
    """What the tests of the picture draw again."""
    features = pd.DataFrame(X, columns=["age", "smoker", "height"])
    return draw(Y, SCORE, features, name="Model").diagrams


def test_points_are_the_regions_at_the_scores_of_their_level_set(fitted, diagrams):
    """And the title has the numbers of the estimator."""
    display = GroupingDisplay(diagrams).plot()
    (diagram,), (low, high) = diagrams, fitted.confidence_interval_
    bound, error = diagram.grouping_loss, fitted.calibration_error_corrected_
    assert (bound.estimate, bound.low, bound.high) == (fitted.grouping_loss_, low, high)
    assert diagram.calibration_error == error and low > 0
    said = f" {error:.3f}" if error >= 0.0005 else ": none detected"
    assert display.ax_.get_title().split("\n") == [
        f"Grouping loss ≥ {bound.estimate:.3f} [{low:.3f}, {high:.3f}]",
        f"Calibration error{said} (Brier score)",
    ]
    assert "(log loss in nats)" in draw(Y[:200], SCORE[:200], X[:200], loss="log").ax_.get_title()
    expected = sorted(fitted.regions_, key=lambda r: (r.level_set, r.region))
    columns = {"x0": "age", "x1": "smoker", "x2": "height"}
    rules = [re.sub(r"x\d", lambda name: columns[name[0]], r.rule) for r in expected]
    assert [r.rule for r in diagram.regions] == rules
    level = np.array([r.level_set for r in expected])
    share, outcome, mean_score, curve = (
        np.array([getattr(r, name) for r in expected])
        for name in ("share", "mean_outcome", "mean_score", "expected")
    )
    points = np.asarray(display.scatter_.get_offsets())
    segments = np.array(display.interval_.get_segments())
    for k in np.unique(level):
        here = level == k
        center, mean = (np.average(v[here], weights=share[here]) for v in (mean_score, outcome))
        height = np.clip(mean + outcome[here] - curve[here], 0, 1)
        assert_allclose(points[here, 1], height)
        assert_allclose(points[here, 0].mean(), center)  # beside each other
        assert 0 < np.ptp(points[here, 0]) < 0.03
        # What a region is off its level set is the difference at equal scores.
        assert_allclose(diagram.expected[here], mean)
    assert_allclose(segments[:, 0, 0], points[:, 0])
    assert_allclose(segments[:, 0, 1], diagram.low)
    assert_allclose(segments[:, 1, 1], diagram.high)
    sizes = np.array([r.n_samples for r in expected])
    assert_allclose(display.scatter_.get_sizes(), 110 * sizes / sizes.max())


def test_intervals_are_clopper_pearson_of_all_regions_at_once():
    diagram = draw(Y[:600], SCORE[:600], X[:600], confidence_level=0.8).diagrams[0]
    outcome, curve = np.array([(r.mean_outcome, r.expected) for r in diagram.regions]).T
    size = np.array([r.n_samples for r in diagram.regions])
    ends = clopper_pearson(outcome, size, 1 - 0.2 / len(size))
    expected = np.clip(ends + diagram.expected - curve, 0, 1)
    assert_allclose((diagram.low, diagram.high), expected)


def test_the_curve_joins_the_level_sets():
    region = np.where(X[:, 1] > 0, "right", "left")
    display = draw(Y, SCORE, regions=region, n_bins=6)  # given regions: all samples are drawn
    diagram = display.diagrams[0]
    level = np.array([r.level_set for r in diagram.regions])
    size = diagram.n_samples
    assert size.sum() == len(Y)
    for k, (x, mean) in enumerate(display.line_.get_xydata()):
        here = level == k
        regions = np.array([(r.mean_score, r.mean_outcome) for r in diagram.regions])[here]
        assert_allclose((x, mean), np.average(regions, axis=0, weights=size[here]))
        assert_allclose(diagram.expected[here], mean)
        assert_allclose(diagram.score[here], x)
    assert {r.rule for r in diagram.regions} == {"region left", "region right"}
    mass = np.bincount(level, size)
    assert_allclose(np.average(display.line_.get_ydata(), weights=mass), Y.mean())


def test_colours_markers_labels_and_histogram(diagrams):
    """Grey exactly where the interval holds the level set; without colours the markers differ."""
    display, (diagram,) = GroupingDisplay(diagrams).plot(), diagrams
    ax = display.ax_
    assert ax.get_aspect() == 1
    assert ax.get_xlabel() == "Predicted probability of class 1"
    assert ax.get_ylabel() == "Observed frequency of class 1"
    assert_array_equal(display.line_.get_xydata().T, (diagram.prob_pred, diagram.prob_true))
    texts = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert texts == [
        "Level sets",
        "Region above others with equal scores",
        "Region below others with equal scores",
        "Region without significant difference (95 %)",
        f"Largest region: {diagram.n_samples.max()} samples",
        "Perfectly calibrated",
    ]
    display.figure_.canvas.draw()
    boxes = [artist.get_window_extent() for artist in (ax, display.ax_hist_, ax.title)]
    assert boxes[0].y1 <= boxes[1].y0 < boxes[1].y1 <= boxes[2].y0
    assert boxes[2].y1 <= display.figure_.bbox.y1
    assert display.ax_hist_.get_xlim() == ax.get_xlim()
    held = (diagram.low <= diagram.expected) & (diagram.expected <= diagram.high)
    above = diagram.low > diagram.expected
    assert 0 < held.sum() < len(held) and above.any() and (~held & ~above).any()
    expected = np.where(
        held, COLORS[NOT_SIGNIFICANT], np.where(above, COLORS[ABOVE], COLORS[BELOW])
    )
    assert [to_hex(color) for color in display.scatter_.get_facecolors()] == expected.tolist()
    assert [to_hex(color) for color in display.interval_.get_colors()] == expected.tolist()
    markers = {}
    for path, region, side in zip(
        display.scatter_.get_paths(), diagram.regions, diagram.side, strict=True
    ):
        assert np.array_equal(path.vertices, markers.setdefault(side, path.vertices))
        if side != NOT_SIGNIFICANT:
            assert region.direction == ("too_low" if side == ABOVE else "too_high")
            assert np.sign(region.mean_outcome - region.expected) == side
    assert not np.array_equal(markers[ABOVE], markers[BELOW])


def test_a_bound_that_is_not_above_zero_is_none_detected():
    samples = make_grouping_problem(500, heterogeneity=0.0, random_state=0)
    display = draw(samples.y, samples.y_proba, samples.X)
    (diagram,) = display.diagrams
    assert diagram.grouping_loss.estimate <= 0
    assert display.ax_.get_title().startswith("Grouping loss: none detected\n")
    for change, words in (
        ({"grouping_loss": MeanInterval(0.002, -0.001, 0.005, 0.0015)}, "≥ 0.002 [0.000, 0.005]"),
        ({"calibration_error": -0.0004}, "Calibration error: none detected (Brier score)"),
    ):
        assert words in title(replace(diagram, **change), None, "Brier score")


def test_title_shows_the_calibration_error_corrected_for_binning():
    """Logits doubled: .0060 of the scores, .0030 of three bins of equal width (L23 prop. C.2)."""
    samples = make_grouping_problem(10_000, random_state=0)
    score = 1 / (1 + np.exp(-2 * samples.X.sum(axis=1)))
    options = dict(n_bins=3, strategy="uniform", regions=samples.X[:, 0] > 0)
    display = draw(samples.y, score, **options)
    diagram = display.diagrams[0]
    assert diagram.calibration_error == pytest.approx(0.0060, abs=0.0015)
    binned = np.average((diagram.prob_pred - diagram.prob_true) ** 2, weights=diagram.mass)
    assert binned < 0.7 * diagram.calibration_error
    assert f"Calibration error {diagram.calibration_error:.3f}" in display.ax_.get_title()
    assert f"{binned:.3f}" not in display.ax_.get_title().splitlines()[-1]


def test_rules_of_the_regions_that_add_most_are_written(diagrams):
    display, (diagram,) = GroupingDisplay(diagrams).plot(n_rules=2), diagrams
    told = np.flatnonzero(diagram.side != NOT_SIGNIFICANT)
    share = np.array([r.share for r in diagram.regions])
    adds = share * (diagram.outcome - diagram.expected) ** 2
    best = told[np.argsort(-adds[told])[:2]]
    *numbers, rules = [text.get_text() for text in display.ax_.texts]
    assert numbers == ["1", "2"]
    points = np.asarray(display.scatter_.get_offsets())[best]
    for text, (x, y_), index in zip(display.ax_.texts[:2], points, best, strict=True):
        end = diagram.high[index] if diagram.side[index] == ABOVE else diagram.low[index]
        assert_allclose(text.xy, (x, end))
        assert abs(end - y_) < 0.5
    for k, (line, index) in enumerate(zip(rules.split("\n"), best, strict=True), start=1):
        region = diagram.regions[index]
        assert line.startswith(f"{k}  {region.rule.replace('<=', '≤')}: ")
        assert "smoker" in line and f"{region.mean_outcome:.2f} observed" in line
        assert line.endswith(f"{region.expected:.2f} expected")
    display.figure_.canvas.draw()
    assert display.ax_.texts[-1].get_window_extent().y0 >= 0  # the figure has room for them


@pytest.mark.parametrize("n_rules", [0, 3])
def test_the_legend_lies_below_the_axes_and_the_rules(diagrams, n_rules):
    display = GroupingDisplay(diagrams).plot(n_rules=n_rules)
    display.figure_.canvas.draw()
    (legend,), texts = display.figure_.legends, display.ax_.texts[n_rules:]
    for artist in (display.ax_.xaxis.label, *texts):
        assert legend.get_window_extent().y1 < artist.get_window_extent().y0


def test_the_meaning_of_regions_follows_the_curve_on_axes_with_curves(diagrams):
    ax = plt.subplots()[1]
    ax.plot([0, 1], [0.2, 0.8], label="Mine")
    GroupingDisplay(diagrams).plot(ax=ax)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[:2] == ["Mine", "Level sets"] and texts[-1] == "Perfectly calibrated"
    assert all("egion" in text for text in texts[2:-1])


def test_many_regions_weights_and_small_samples():
    display = draw(Y, SCORE, regions=np.arange(1200) % 9)
    diagram = display.diagrams[0]
    assert len(diagram.regions) > 60
    alpha = display.scatter_.get_facecolors()[:, 3]
    assert_array_equal(alpha < 1, diagram.side == NOT_SIGNIFICANT)  # many are drawn finer
    heavy = draw(Y, SCORE, regions=X[:, 1] > 0, n_bins=1, sample_weight=1.0 + 9 * Y)
    assert_allclose(heavy.line_.get_ydata(), np.average(Y, weights=1.0 + 9 * Y))
    for regions in ({"X": X[:240]}, {"regions": np.arange(240) % 4}):  # level sets are large enough
        diagram = draw(Y[:240], SCORE[:240], **regions).diagrams[0]
        assert len(diagram.prob_pred) <= 5 and np.median(diagram.n_samples) >= 10


def test_from_grouping_estimator_draws_what_it_has(fitted, diagrams):
    display = make(fitted, name="Model")
    expected = GroupingDisplay(diagrams).plot()
    assert display.ax_hist_ is None
    assert display.ax_.get_title() == f"Model\n{expected.ax_.get_title()}"
    assert_array_equal(display.scatter_.get_offsets(), expected.scatter_.get_offsets())
    assert display.ax_.get_xlabel() == "Predicted probability of class 1"
    diagram = make(stump(swap=True)).diagrams[0]  # the regions of both halves
    assert diagram.n_samples.sum() == 1200 and diagram.contribution.sum() > 0
    assert len(diagram.prob_pred) == len({r.level_set for r in diagram.regions})
    model = LogisticRegression(C=0.01)
    estimator = GroupingLossEstimator(model, cv=3, notion="top_label", n_bins=3, n_permutations=0)
    assert make(estimator.fit(*load_iris(return_X_y=True))).name == "LogisticRegression"


def test_refusals_and_estimators_that_have_no_picture():
    samples = make_tempered_simplex(200, 3, random_state=0)
    several = GroupingLossEstimator(notion="classwise", n_bins=3, n_permutations=0)
    several.fit(X[:200], samples.y, y_proba=samples.y_proba)
    risk = stump(200, method="risk", partitioner=None)
    of_three, of_pairs = partial(draw, samples.y, samples.y_proba, X[:200]), ClassGroups([[0], [1]])
    columns = "3 columns: use notion='top_label' or 'classwise'"
    check_refusals(
        (lambda: draw(samples.y, samples.y_proba), "pass their features X, or regions="),
        (lambda: of_three(notion="canonical"), columns),
        (lambda: of_three(notion=of_pairs), columns),
        (lambda: of_three(regions=[1, 2]), "one region per sample"),
        (lambda: make(risk), "method='risk', which has no regions"),
        (lambda: make(several), "several events .*notion='classwise'"),
        (lambda: make(LogisticRegression()), "use GroupingDisplay.from_estimator"),
        (lambda: GroupingDisplay.from_estimator(several, X, Y), "from_grouping_estimator"),
    )
    check_refusals((lambda: make(GroupingLossEstimator()), "not fitted"), error=NotFittedError)


# --- Groups that the user names -------------------------------------------------------------------

forest = GroupCalibrationDisplay.from_predictions


def world(n_groups):
    """Predictions that are too low for the last group alone."""
    rng = np.random.default_rng(0)
    group, p = rng.integers(n_groups, size=3000), rng.uniform(0.1, 0.6, 3000)
    return (rng.random(3000) < p + 0.15 * (group == n_groups - 1)).astype(int), p, group


EVENT, RISK, GROUP = world(3)


def test_points_and_intervals():
    display = forest(EVENT, RISK, GROUP)
    groups = calibration_by_group(EVENT, RISK, GROUP).groups
    for container, field in ((display.differences_, "difference"),
                             (display.equal_scores_, "equal_scores")):  # fmt: skip
        numbers = [getattr(group, field) for group in groups]
        assert_allclose(container.lines[0].get_xdata(), [interval.estimate for interval in numbers])
        (bars,) = container.lines[2]
        ends = [segment[:, 0] for segment in bars.get_segments()]
        assert_allclose(ends, [[interval.low, interval.high] for interval in numbers])
    assert display.shrunk_ is None and len(display.ref_line_.get_xdata()) == 2
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["0", "1", "2"]
    low, high = display.ax_.get_ylim()
    assert low > high  # the first group is above


def test_filled_markers_are_the_groups_that_were_found():
    for rows, different in ((slice(None), [2]), (GROUP < 2, [])):
        display = forest(EVENT[rows], RISK[rows], GROUP[rows])
        lines = [line for line in display.ax_.lines if line.get_label().startswith("Filled")]
        filled = [x for line in lines for x in line.get_xdata()]
        assert_allclose(filled, [display.groups_[k].difference.estimate for k in different])
    assert display.ax_.get_xlabel().endswith("\n◇ Observed frequency - frequency at equal scores")


def test_the_smallest_pvalues_of_many_groups():
    y, p, group = world(12)
    group = group.astype(str)  # more numbers than ten would be cut
    display = forest(y, p, group, max_groups=3)
    results = calibration_by_group(y, p, group).groups
    pvalues = {result.name: result.pvalue for result in results}
    names = [result.name for result in display.groups_]
    assert set(names) == set(sorted(pvalues, key=pvalues.get)[:3]) and "11" in names
    assert names == sorted(names, key=int)
    assert display.ax_.get_title() == "3 of 12 groups: the smallest p-values"


def test_shrunken_differences_and_parts_left_out():
    display = forest(EVENT, RISK, GROUP, shrunk=True, equal_scores=False, legend=False)
    assert_allclose(display.shrunk_.get_xdata(), [group.shrunk for group in display.groups_])
    assert display.equal_scores_ is None and display.ax_.get_legend() is None
    assert display.ax_.get_xlabel() == "Observed frequency - mean prediction"


def test_a_sketch_and_long_names():
    sketch = ForecastSketch([0, 1]).partial_fit(EVENT, RISK, by=GROUP)
    both = forest(EVENT, RISK, GROUP), GroupCalibrationDisplay.from_sketch(sketch)
    exact, sketched = (display.differences_.lines[0].get_xdata() for display in both)
    assert_allclose(exact, sketched, atol=1e-6)
    names = np.array(["$a$", "a" * 60])[GROUP % 2]
    texts = [text.get_text() for text in forest(EVENT, RISK, names).ax_.get_yticklabels()]
    assert texts == [r"\$a\$", "a" * 31 + "…"]
