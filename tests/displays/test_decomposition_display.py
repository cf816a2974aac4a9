"""Bars of the decomposition: lengths, whiskers, texts, the doors, what is refused."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

from skcalib import CalibrationErrorEstimator, DecompositionDisplay, GroupingLossEstimator
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.displays.errors import LossTerms
from skcalib.stats.means import MeanInterval

draw = DecompositionDisplay.from_predictions
#: Two models: one is calibrated and grouped, the other is over-confident besides.
DATA = make_grouping_problem(700, random_state=0)
X, Y, P = DATA.X, DATA.y, DATA.y_proba[:, 1]
PROBA = {"calibrated": P, "confident": P**3 / (P**3 + (1 - P) ** 3)}


@pytest.fixture(scope="module")
def terms():
    """The numbers of the two models, for the tests of the picture."""
    return draw(Y, PROBA, X).terms


def around(part):
    return None if part is None else MeanInterval(part, part - 0.01, part + 0.01, 0.005)


def terms_by_hand(name, loss, calibration, grouping):
    return LossTerms(name, loss, around(calibration), around(grouping))


@pytest.mark.parametrize(
    ("loss", "name"), [("brier", "Brier score"), ("log", "Log loss in nats"), ("spherical", None)]
)
def test_lengths_are_the_estimates_and_sum_to_the_loss(loss, name):
    display = draw(Y, PROBA, X, loss=loss)
    assert name is None or display.ax_.get_xlabel() == name
    for k, p in enumerate(PROBA.values()):
        calibration = CalibrationErrorEstimator(loss=loss).fit(p, Y)
        grouping = GroupingLossEstimator(loss=loss, random_state=0).fit(X, Y, y_proba=p)
        lengths = {name: bars[k].get_width() for name, bars in display.bars_.items()}
        assert_allclose(lengths["calibration"], calibration.calibration_error_)
        assert_allclose(lengths["grouping"], grouping.grouping_loss_)
        assert_allclose(sum(lengths.values()), calibration.expected_loss_)
        assert_allclose(display.loss_.get_segments()[k][:, 0], calibration.expected_loss_)
        term = display.terms[k]
        for part, estimator in ((term.calibration, calibration), (term.grouping, grouping)):
            assert_allclose((part.low, part.high), estimator.confidence_interval_)


def test_without_features_the_rest_is_the_refinement():
    for display in (draw(Y, PROBA), draw(Y, PROBA, X, grouping=None, confidence_level=0.9)):
        assert list(display.bars_) == ["calibration", "rest"]
        refinement = CalibrationErrorEstimator().fit(PROBA["confident"], Y).refinement_
        assert_allclose(display.bars_["rest"][1].get_width(), refinement)
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        level = 90 if display.confidence_level == 0.9 else 95
        assert texts == ["Calibration", "Refinement", "Loss", f"{level} % interval"]
        assert "refinement" in str(display.terms[0]) and "grouping" not in str(display.terms[0])


@pytest.mark.parametrize(
    ("calibration", "grouping", "starts"),
    [
        (0.02, 0.03, (0, 0.02, 0.05)),
        (-0.02, 0.03, (0, 0, 0.03)),
        (0.02, -0.03, (0, 0, 0.02)),
        (-0.02, -0.03, (0, -0.02, 0)),
        (0.02, None, (0, 0.02)),
    ],
)
def test_negative_estimates_lie_to_the_left_of_zero(calibration, grouping, starts):
    display = DecompositionDisplay([terms_by_hand("m", 0.2, calibration, grouping)]).plot()
    bars = {name: bar[0] for name, bar in display.bars_.items()}
    drawn = {"calibration": calibration, "grouping": grouping or 0.0}
    drawn["rest"] = 0.2 - sum(drawn.values())
    for (name, bar), start in zip(bars.items(), starts, strict=True):
        assert_allclose(bar.get_width(), drawn[name])
        assert_allclose(bar.get_x(), start)
    assert_allclose(sum(bar.get_width() for bar in bars.values()), 0.2)
    for name, start in zip(display.whiskers_, starts, strict=False):
        point, _, (reach,) = display.whiskers_[name]
        # The interval lies where the part can be: at zero or above.
        end = start + drawn[name] if drawn[name] > 0 else 0
        first = end - 0.01 if drawn[name] > 0 else 0
        assert_allclose(point.get_xdata(), [end])
        assert_allclose(reach.get_segments()[0][:, 0], [first, end + 0.01])
    low, high = display.ax_.get_xlim()
    assert low <= min(0, calibration) and high > 0.2


def test_a_model_without_grouping_an_infinite_interval_and_texts():
    terms = [terms_by_hand("a", 0.2, 0.02, 0.05), terms_by_hand("b", 0.1, 0.01, None)]
    display = DecompositionDisplay(terms).plot()
    assert_allclose([bar.get_width() for bar in display.bars_["grouping"]], [0.05, 0])
    assert len(display.whiskers_["grouping"][0].get_xdata()) == 1
    term = LossTerms("m", 0.2, MeanInterval(0.02, -np.inf, np.inf, np.inf), None)
    assert np.isfinite(DecompositionDisplay([term]).plot().ax_.get_xlim()).all()
    assert str(term) == "calibration 0.020, refinement 0.180"
    term = terms_by_hand("m", 0.2, -0.02, 0.03)
    parts = "calibration none detected (upper limit 0.010), grouping ≥ 0.030 [0.020, 0.040]"
    assert str(term) == f"{parts}, rest ≤ 0.190"
    texts = [text.get_text() for text in DecompositionDisplay([term]).plot().ax_.texts]
    assert texts == ["0.200", str(term)]


@pytest.mark.parametrize("notion", ["canonical", "classwise", "top_label"])
def test_notions_of_three_classes(notion):
    samples = make_tempered_simplex(400, 3, random_state=0)
    options = dict(n_bins=4, region_ratio=20)
    settings = GroupingLossEstimator(**options)
    display = draw(samples.y, samples.y_proba, X[:400], notion=notion, grouping=settings)
    calibration = CalibrationErrorEstimator(notion=notion).fit(samples.y_proba, samples.y)
    grouping = GroupingLossEstimator(notion=notion, random_state=0, **options)
    grouping.fit(X[:400], samples.y, y_proba=samples.y_proba)
    assert_allclose(display.bars_["calibration"][0].get_width(), calibration.calibration_error_)
    assert_allclose(display.bars_["grouping"][0].get_width(), grouping.grouping_loss_)
    names = {"classwise": ", one class against the rest", "top_label": " of the top label"}
    assert display.ax_.get_xlabel() == "Brier score" + names.get(notion, "")


def test_grouping_by_risk_and_by_an_estimator():
    mine = GroupingLossEstimator(LogisticRegression(), n_bins=5, cv=3, random_state=7)
    for grouping, options in (("risk", {"method": "risk"}), (mine, {"n_bins": 5})):
        expected = GroupingLossEstimator(random_state=0, **options).fit(X, Y, y_proba=P)
        display = draw(Y, P, X, grouping=grouping)
        assert_allclose(display.bars_["grouping"][0].get_width(), expected.grouping_loss_)
    assert mine.get_params()["cv"] == 3 and not hasattr(mine, "grouping_loss_")


def test_all_models_have_the_same_halves_under_a_generator():
    rng = np.random.RandomState(3)
    first, second = draw(Y, {"a": P, "b": P}, X, random_state=rng).terms
    assert first.grouping == second.grouping and first.calibration == second.calibration


def test_rows_and_legend_inside_the_figure(terms):
    display = DecompositionDisplay(terms).plot()
    ax, figure = display.ax_, display.figure_
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(PROBA)
    assert ax.yaxis_inverted()  # the first model is on top
    names = ["Calibration", "Grouping (at least)", "Rest: irreducible (at most)", "Loss"]
    texts = ax.get_legend().get_texts()
    assert [text.get_text() for text in texts] == [*names, "95 % interval"]
    figure.canvas.draw()
    for artist in (*ax.texts, *ax.get_yticklabels(), *texts, ax.xaxis.label):
        box = artist.get_window_extent()
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1


def test_narrow_axes_parts_and_styles(terms):
    """Narrow axes have no room for the numbers."""
    figure, ax = plt.subplots(figsize=(3.4, 2.4), layout="constrained")
    display = DecompositionDisplay(terms).plot(ax=ax)
    figure.canvas.draw()
    assert display.ax_ is ax and len(ax.texts) == len(terms)  # the losses only
    assert ax.get_window_extent().width > 0.5 * figure.bbox.width
    legend = ax.get_legend().get_texts()
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in legend)
    assert len(display.plot(values=True).ax_.texts) == 2 * len(terms)
    bare = display.plot(legend=False, values=False)
    assert bare.ax_.get_legend() is None and len(bare.ax_.texts) == len(terms)
    styled = display.plot(bar_kwargs={"height": 0.3}, whisker_kwargs={"c": "red"})
    assert styled.bars_["rest"][0].get_height() == 0.3
    assert styled.whiskers_["calibration"][0].get_color() == "red"


def test_from_estimators_out_of_fold():
    flowers, y = load_iris(return_X_y=True, as_frame=True)
    models = {"Bayes": GaussianNB(), "Logistic": LogisticRegression(C=0.01)}
    few = GroupingLossEstimator(method="partition", n_bins=3, random_state=0)
    make = DecompositionDisplay.from_estimators
    display = make(models, flowers, y, cv=3, grouping=few)
    proba = {
        name: cross_val_predict(model, flowers, y, cv=3, method="predict_proba")
        for name, model in models.items()
    }
    assert display.terms == draw(y, proba, flowers, grouping=few).terms
    assert not hasattr(models["Bayes"], "classes_")
    with pytest.raises(ValueError, match="must be a dict of classifiers by name"):
        make([GaussianNB()], flowers, y)
    with pytest.raises(NotFittedError, match="needs a fitted classifier"):
        make(models, flowers, y)


def test_refusals():
    words = pd.DataFrame({"word": np.resize(["a", "b", "c"], len(Y))})
    y, sure = [0, 1, 1, 0] * 10, {"sure": [0.0, 1.0, 0.0, 1.0] * 10}
    for call, message in (
        (lambda: draw(Y, PROBA, X[:7]), "inconsistent numbers of samples|same number"),
        (lambda: draw(y, sure, loss="log"), "The loss of sure is infinite.*use loss='brier'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert draw(Y, PROBA, words, grouping=None).terms[0].grouping is None
    assert np.isfinite(draw(Y, PROBA, words).terms[0].grouping.estimate)  # categories are read
