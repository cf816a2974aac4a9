"""Grouping diagrams: positions, colours, numbers, the doors, what is refused."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skcalib import ClassGroups, GroupingDisplay, GroupingLossEstimator
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.displays._region_drawing import COLORS
from skcalib.displays._regions import ABOVE, BELOW, HELD
from skcalib.intervals import clopper_pearson

draw = GroupingDisplay.from_predictions


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def problem():
    """A score that knows x0, labels that depend on x1 too, and a third of the scores tied."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3))
    score = np.clip(0.5 + 0.2 * X[:, 0], 0.05, 0.95)
    score[:400] = score[:400].round(1)
    y = (rng.random(1200) < np.clip(score + 0.2 * np.sign(X[:, 1]), 0, 1)).astype(int)
    assert len(np.unique(score)) < 1000 and 0 < y.mean() < 1
    return X, y, score


def stump(problem, **options):
    X, y, score = problem
    settings = dict(partitioner="stump", n_bins=10, region_ratio=24, random_state=0)
    return GroupingLossEstimator(**{**settings, **options}).fit(X, y, y_proba=score)


# The numbers


def test_points_are_the_means_of_the_regions_of_the_estimator(problem):
    X, y, score = problem
    display = draw(y, score, X)
    expected = sorted(stump(problem).regions_, key=lambda r: (r.level_set, r.region))
    points = [(region.mean_score, region.mean_outcome) for region in expected]
    assert_allclose(display.scatter_.get_offsets(), points)
    segments = np.array(display.interval_.get_segments())
    assert_allclose(segments[:, 0], [(r.mean_score, r.low) for r in expected])
    assert_allclose(segments[:, 1], [(r.mean_score, r.high) for r in expected])
    assert [r.rule for r in display.diagrams[0].regions] == [r.rule for r in expected]
    sizes = np.array([r.n_samples for r in expected])
    assert_allclose(display.scatter_.get_sizes(), 110 * sizes / sizes.max())


def test_intervals_are_clopper_pearson(problem):
    X, y, score = problem
    diagram = draw(y, score, X, confidence_level=0.8).diagrams[0]
    expected = clopper_pearson(diagram.outcome, diagram.n_samples, 0.8)
    assert_allclose((diagram.low, diagram.high), expected)


def test_the_curve_joins_the_level_sets(problem):
    X, y, score = problem
    region = np.where(X[:, 1] > 0, "right", "left")
    display = draw(y, score, regions=region, n_bins=6)  # given regions: all samples are drawn
    diagram = display.diagrams[0]
    level = np.array([r.level_set for r in diagram.regions])
    size = diagram.n_samples
    assert size.sum() == len(y)
    for k, (x, mean) in enumerate(display.line_.get_xydata()):
        here = level == k
        assert_allclose(x, np.average(diagram.score[here], weights=size[here]))
        assert_allclose(mean, np.average(diagram.outcome[here], weights=size[here]))
        assert_allclose(diagram.expected[here], mean)
        assert_allclose(diagram.center[here], x)
    assert {r.rule for r in diagram.regions} == {"region left", "region right"}
    mass = np.bincount(level, size)
    assert_allclose(np.average(display.line_.get_ydata(), weights=mass), y.mean())


def test_grey_exactly_where_the_interval_holds_the_level_set(problem):
    X, y, score = problem
    display = draw(y, score, X)
    diagram = display.diagrams[0]
    held = (diagram.low <= diagram.expected) & (diagram.expected <= diagram.high)
    above = diagram.low > diagram.expected
    assert 0 < held.sum() < len(held) and above.any() and (~held & ~above).any()
    expected = np.where(held, COLORS[HELD], np.where(above, COLORS[ABOVE], COLORS[BELOW]))
    assert [to_hex(color) for color in display.scatter_.get_facecolors()] == expected.tolist()
    assert [to_hex(color) for color in display.interval_.get_colors()] == expected.tolist()


def test_the_regions_that_are_really_different_are_coloured():
    data = make_grouping_problem(20_000, random_state=0)
    side = data.X[:, 0] > data.X[:, 1]
    diagram = draw(data.y, data.y_proba, regions=side, n_bins=8).diagrams[0]
    inner = (diagram.center > 0.2) & (diagram.center < 0.8)
    truth = np.where([r.rule == "region True" for r in diagram.regions], ABOVE, BELOW)
    assert inner.sum() >= 2
    assert_array_equal(diagram.side[inner], truth[inner])


def test_without_grouping_loss_about_one_region_in_twenty_is_coloured():
    told = []
    for seed in range(20):
        data = make_grouping_problem(2000, heterogeneity=0, random_state=seed)
        told.append(np.mean(draw(data.y, data.y_proba, data.X).diagrams[0].side != HELD))
        plt.close("all")
    assert np.mean(told) < 0.05


def test_title_has_the_numbers_of_the_estimator(problem):
    X, y, score = problem
    display, estimator = draw(y, score, X, name="Model"), stump(problem)
    diagram = display.diagrams[0]
    assert diagram.grouping_loss.estimate == estimator.grouping_loss_
    bound = diagram.grouping_loss
    assert (bound.low, bound.high) == estimator.confidence_interval_
    assert diagram.calibration_error == estimator.calibration_error_
    low, high = estimator.confidence_interval_
    lines = display.ax_.get_title().split("\n")
    assert lines[0] == "Model"
    assert lines[1] == f"Grouping loss ≥ {estimator.grouping_loss_:.3f} [{low:.3f}, {high:.3f}]"
    assert lines[2] == f"Calibration error {estimator.calibration_error_:z.3f} (Brier score)"
    assert "(log loss in nats)" in draw(y, score, X, loss="log").ax_.get_title()


def test_weights_of_zero_are_left_out_and_others_weigh(problem):
    X, y, score = problem
    weight = np.where(np.arange(len(y)) < 600, 1.0, 0.0)
    region = X[:, 1] > 0
    zero = draw(y, score, regions=region, n_bins=5, sample_weight=weight)
    half = draw(y[:600], score[:600], regions=region[:600], n_bins=5)
    assert_allclose(zero.scatter_.get_offsets(), half.scatter_.get_offsets())
    assert_allclose(zero.line_.get_xydata(), half.line_.get_xydata())
    heavy = draw(y, score, regions=region, n_bins=1, sample_weight=1.0 + 9 * y)
    assert_allclose(heavy.line_.get_ydata(), np.average(y, weights=1.0 + 9 * y))


# The picture


def test_attributes_labels_and_legend(problem):
    X, y, score = problem
    display = draw(y, score, X)
    assert display.figure_ is display.ax_.figure and display.ax_.get_aspect() == 1
    assert display.ax_.get_xlabel() == "Predicted probability of class 1"
    assert display.ax_.get_ylabel() == "Observed frequency"
    assert_array_equal(display.line_.get_xdata(), display.diagrams[0].prob_pred)
    assert_array_equal(display.line_.get_ydata(), display.diagrams[0].prob_true)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == [
        "Level sets",
        "Region above its level set",
        "Region below its level set",
        "Region not told apart (95 %)",
        f"Region of {display.diagrams[0].n_samples.max()} samples",
        "Perfectly calibrated",
    ]


def test_histogram_lies_above_and_the_title_above_it(problem):
    X, y, score = problem
    display = draw(y, score, X)
    display.figure_.canvas.draw()
    main, above = display.ax_.get_window_extent(), display.ax_hist_.get_window_extent()
    title = display.ax_.title.get_window_extent()
    assert main.y1 <= above.y0 < above.y1 <= title.y0
    assert title.y1 <= display.figure_.bbox.y1
    assert display.ax_hist_.get_xlim() == display.ax_.get_xlim()


def test_parts_can_be_left_out_and_styled(problem):
    X, y, score = problem
    plain = draw(y, score, X, ref_line=False, histogram=False, legend=False)
    assert plain.ref_line_ is plain.ax_hist_ is plain.ax_.get_legend() is None
    styled = plain.plot(
        name="again",
        curve_kwargs={"c": "red", "lw": 3},
        scatter_kwargs={"c": "green", "edgecolor": "k"},
        interval_kwargs={"lw": 4, "colors": "blue"},
        hist_kwargs={"color": "pink"},
        ref_line_kwargs={"ls": "--"},
    )
    assert styled.line_.get_color() == "red" and styled.line_.get_linewidth() == 3
    assert to_hex(styled.scatter_.get_facecolors()[0]) == "#008000"
    assert styled.interval_.get_linewidths()[0] == 4
    assert styled.ref_line_.get_linestyle() == "--"
    assert styled.ax_.get_title().startswith("again\n")


def test_rules_of_the_regions_that_add_most_are_written(problem):
    X, y, score = problem
    frame = pd.DataFrame(X, columns=["age", "smoker", "height"])
    display = draw(y, score, frame, n_rules=3)
    diagram = display.diagrams[0]
    told = np.flatnonzero(diagram.side != HELD)
    share = np.array([r.share for r in diagram.regions])
    adds = share * (diagram.outcome - diagram.expected) ** 2
    best = told[np.argsort(-adds[told])[:3]]
    *numbers, rules = [text.get_text() for text in display.ax_.texts]
    assert numbers == ["1", "2", "3"]
    assert_allclose([text.xy for text in display.ax_.texts[:3]], diagram_points(diagram)[best])
    for k, (line, index) in enumerate(zip(rules.split("\n"), best, strict=True), start=1):
        region = diagram.regions[index]
        assert line.startswith(f"{k}  {region.rule.replace('<=', '≤')}: ")
        assert "smoker" in line and f"outcome {region.mean_outcome:.2f}" in line
        assert line.endswith(f"(level set {diagram.expected[index]:.2f})")
    display.figure_.canvas.draw()
    assert display.ax_.texts[-1].get_window_extent().y0 >= 0  # the figure has room for them


def diagram_points(diagram):
    return np.column_stack([diagram.score, diagram.outcome])


def test_many_regions_are_drawn_finer(problem):
    _, y, score = problem
    display = draw(y, score, regions=np.arange(len(y)) % 9)
    diagram = display.diagrams[0]
    assert len(diagram.regions) > 60
    alpha = display.scatter_.get_facecolors()[:, 3]
    assert_array_equal(alpha < 1, diagram.side == HELD)


# Notions


def test_top_label_of_three_classes():
    data = make_tempered_simplex(600, 3, random_state=0)
    X = np.random.default_rng(0).standard_normal((600, 2))
    display = draw(data.y, data.y_proba, X)
    assert display.ax_.get_xlabel() == "Confidence" and display.ax_.get_ylabel() == "Accuracy"
    estimator = GroupingLossEstimator(
        notion="top_label", partitioner="stump", n_bins=10, region_ratio=24, random_state=0
    ).fit(X, data.y, y_proba=data.y_proba)
    assert_allclose(display.diagrams[0].grouping_loss.estimate, estimator.grouping_loss_)
    assert_allclose(display.diagrams[0].scores, data.y_proba.max(axis=1))


def test_classwise_draws_a_panel_for_each_class():
    data = make_tempered_simplex(600, 3, random_state=0)
    X = np.random.default_rng(0).standard_normal((600, 2))
    y = np.array(["cat", "dog", "eel"])[data.y]
    display = draw(y, data.y_proba, X, notion="classwise", n_rules=1)
    assert [ax.get_xlabel().split()[-1] for ax in display.ax_] == ["cat", "dog", "eel"]
    one = draw((data.y == 1).astype(int), data.y_proba[:, 1], X)
    assert_allclose(display.diagrams[1].prob_true, one.diagrams[0].prob_true, atol=0.25)
    region = X[:, 0] > 0
    several = draw(y, data.y_proba, regions=region, notion="classwise")
    one = draw((data.y == 1).astype(int), data.y_proba[:, 1], regions=region)
    assert_allclose(several.scatter_[1].get_offsets(), one.scatter_.get_offsets())
    assert len(several.line_) == len(several.interval_) == len(several.ax_hist_) == 3
    assert len(several.figure_.legends) == 1
    given = plt.subplots(1, 3)[1]
    again = several.plot(ax=given)
    assert again.ax_ == list(given)
    assert [ax.get_legend() is None for ax in given] == [False, True, True]


def test_level_sets_are_large_enough_for_their_regions(problem):
    X, y, score = problem
    few = slice(0, 240)
    many = np.arange(240) % 4
    for diagram in (
        draw(y[few], score[few], X[few]).diagrams[0],
        draw(y[few], score[few], regions=many).diagrams[0],
    ):
        assert len(diagram.prob_pred) <= 5
        assert np.median(diagram.n_samples) >= 10


def test_a_group_of_classes_is_a_binary_event():
    data = make_tempered_simplex(300, 4, random_state=0)
    display = draw(data.y, data.y_proba, regions=np.arange(300) % 2, notion=ClassGroups([[0, 1]]))
    assert display.ax_.get_xlabel() == "Predicted probability"
    assert_allclose(display.diagrams[0].scores, data.y_proba[:, 2:].sum(axis=1))


def test_pos_label_turns_a_binary_problem_round(problem):
    X, y, score = problem
    label = np.array(["no", "yes"])[y]
    proba = np.column_stack([1 - score, score])
    no = draw(label, proba, regions=X[:, 1] > 0, pos_label="no")
    expected = draw(1 - y, 1 - score, regions=X[:, 1] > 0)
    assert no.ax_.get_xlabel() == "Predicted probability of class no"
    assert_allclose(no.scatter_.get_offsets(), expected.scatter_.get_offsets())


# The doors


def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, y.map({0: "a", 1: "b", 2: "c"})


def test_from_estimator_is_from_predictions():
    X, y = iris()
    model = LogisticRegression(C=0.01).fit(X, y)
    display = GroupingDisplay.from_estimator(model, X, y)
    expected = draw(y, pd.DataFrame(model.predict_proba(X)), X)
    assert display.name == "LogisticRegression"
    assert_array_equal(display.scatter_.get_offsets(), expected.scatter_.get_offsets())
    assert any("petal" in r.rule or "sepal" in r.rule for r in display.diagrams[0].regions)


def test_from_estimator_out_of_fold_with_weights_and_regions():
    X, y = iris()
    group = np.arange(150) % 2
    options = dict(cv=3, sample_weight=1.0 + group, n_bins=3)
    display = GroupingDisplay.from_estimator(LogisticRegression(), X, y, regions=group, **options)
    assert display.diagrams[0].n_samples.sum() == 150
    found = GroupingDisplay.from_estimator(LogisticRegression(), X, y, **options)
    assert found.diagrams[0].n_samples.sum() == 75  # the other half finds the regions


def test_from_grouping_estimator_draws_what_it_has(problem):
    X, y, score = problem
    estimator = stump(problem)
    display = GroupingDisplay.from_grouping_estimator(estimator, name="mine")
    expected = draw(y, score, X, name="mine")
    assert display.ax_hist_ is None
    assert display.ax_.get_title() == expected.ax_.get_title()
    assert_array_equal(display.scatter_.get_offsets(), expected.scatter_.get_offsets())
    assert display.ax_.get_xlabel() == "Predicted probability of class 1"


def test_swapped_halves_give_the_regions_of_both(problem):
    estimator = stump(problem, swap=True)
    diagram = GroupingDisplay.from_grouping_estimator(estimator).diagrams[0]
    assert diagram.n_samples.sum() == 1200
    assert_allclose(diagram.contribution.sum() > 0, True)
    assert len(diagram.prob_pred) == len({r.level_set for r in diagram.regions})


def test_the_name_of_a_wrapped_classifier():
    X, y = iris()
    estimator = GroupingLossEstimator(
        LogisticRegression(C=0.01),
        cv=3,
        notion="top_label",
        n_bins=3,
        partitioner="stump",
        random_state=0,
    )
    display = GroupingDisplay.from_grouping_estimator(estimator.fit(X, y))
    assert display.name == "LogisticRegression"


# What is hard, and what is refused

HARD = {
    "few": dict(y_true=[0, 1] * 5, y_proba=np.linspace(0.1, 0.9, 10)),
    "certain and right": dict(y_true=[0, 1] * 20, y_proba=[0.0, 1.0] * 20),
    "certain and wrong": dict(y_true=[1, 0] * 20, y_proba=[0.0, 1.0] * 20),
    "constant": dict(y_true=[0, 1, 1, 0] * 20, y_proba=[0.5] * 80),
    "one class of two": dict(y_true=["x"] * 60, y_proba=[[0.3, 0.7]] * 60, labels=["x", "y"]),
    "pandas": dict(
        y_true=pd.Series(["a", "b", "b"] * 20),
        y_proba=pd.DataFrame({"a": [0.9, 0, 0.4] * 20, "b": [0.1, 1, 0.6] * 20}),
    ),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("given", [False, True])
def test_hard_input_gives_a_picture(case, given):
    n = len(HARD[case]["y_true"])
    X = np.random.default_rng(0).standard_normal((n, 2))
    where = {"regions": np.arange(n) // 2 % 2} if given else {"X": X}
    if case == "few":
        with pytest.warns(UserWarning, match="the bound of the grouping loss is unreliable"):
            display = draw(**HARD[case], **where, n_rules=2)
    else:
        display = draw(**HARD[case], **where, n_rules=2)
    display.figure_.canvas.draw()
    diagram = display.diagrams[0]
    for values in (diagram.score, diagram.outcome, diagram.low, diagram.high, diagram.prob_true):
        assert np.all((values >= 0) & (values <= 1 + 1e-12))
    assert np.isfinite(diagram.grouping_loss.estimate)
    alone = [r.n_samples for r in diagram.regions if r.rule == "all"]
    assert len(alone) <= np.sum(diagram.side == HELD)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"X": None}, "pass their features X, or regions="),
        ({"notion": "canonical"}, "notion must be one of 'auto', 'top_label', 'classwise'"),
        ({"notion": ClassGroups([[0], [1]])}, "3 columns: use notion='top_label' or 'classwise'"),
        ({"partitioner": "tree"}, "partitioner must be None, 'stump', 'kmeans'"),
        ({"confidence_level": 95}, "confidence_level must lie strictly between 0 and 1"),
        ({"n_bins": 0}, "n_bins must be a whole number"),
        ({"loss": "hinge"}, "loss must be one of 'brier', 'log', 'spherical'"),
        ({"notion": "classwise", "ax": "axes"}, "ax must be an array of 3 Axes"),
        ({"pos_label": 1}, "pos_label is for binary problems"),
        ({"regions": [1, 2]}, "one region per sample"),
        ({"X": np.zeros((7, 2))}, "inconsistent numbers of samples|same number"),
    ],
)
def test_refusals(options, words):
    data = make_tempered_simplex(200, 3, random_state=0)
    arguments = {"X": np.random.default_rng(0).standard_normal((200, 2)), **options}
    with pytest.raises(ValueError, match=words):
        draw(data.y, data.y_proba, **arguments)


def test_estimators_that_have_no_picture(problem):
    X, y, _ = problem
    make = GroupingDisplay.from_grouping_estimator
    with pytest.raises(ValueError, match="method='risk', which has no regions"):
        make(stump(problem, method="risk", partitioner=None))
    data = make_tempered_simplex(200, 3, random_state=0)
    several = GroupingLossEstimator(notion="classwise", n_bins=3, random_state=0)
    with pytest.raises(ValueError, match="several events .*notion='classwise'"):
        make(several.fit(X[:200], data.y, y_proba=data.y_proba))
    with pytest.raises(NotFittedError):
        make(GroupingLossEstimator())
    with pytest.raises(ValueError, match="use GroupingDisplay.from_estimator"):
        make(LogisticRegression())
    with pytest.raises(ValueError, match="from_grouping_estimator"):
        GroupingDisplay.from_estimator(GroupingLossEstimator(), X, y)
    with pytest.raises(NotFittedError, match="from_estimator with cv=None needs a fitted"):
        GroupingDisplay.from_estimator(LogisticRegression(), X, y)


def test_nothing_passed_in_is_modified(problem):
    X, y, score = (array.copy() for array in problem)
    weight, region, style = np.ones(len(y)), np.arange(len(y)) % 3, {"lw": 2}
    draw(y, score, X, sample_weight=weight, curve_kwargs=style)
    draw(y, score, regions=region)
    estimator = stump(problem)
    before = dict(vars(estimator))
    GroupingDisplay.from_grouping_estimator(estimator)
    for now, was in zip((X, y, score), problem, strict=True):
        assert_array_equal(now, was)
    assert style == {"lw": 2} and np.all(weight == 1) and vars(estimator) == before
    assert_array_equal(region, np.arange(len(y)) % 3)
