"""Bars of the decomposition, and errors against the sample size: numbers, pictures, refusals."""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from grids import rotated
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from refusals import check_refusals
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

import skcalib as s
from skcalib import CalibrationErrorEstimator, DecompositionDisplay, GroupingLossEstimator
from skcalib.data.notions import Classwise
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.displays.errors import LossTerms
from skcalib.stats.means import MeanInterval

draw = DecompositionDisplay.from_predictions
#: Two models: one is calibrated and grouped, the other is over-confident besides.
DATA = make_grouping_problem(300, random_state=0)
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
        grouping = GroupingLossEstimator(loss=loss, random_state=0, n_permutations=0)
        grouping.fit(X, Y, y_proba=p)
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
    samples = make_tempered_simplex(300, 3, random_state=0)
    options = dict(n_bins=4, region_ratio=20, n_permutations=0)
    settings = GroupingLossEstimator(**options)
    display = draw(samples.y, samples.y_proba, X, notion=notion, grouping=settings)
    calibration = CalibrationErrorEstimator(notion=notion).fit(samples.y_proba, samples.y)
    grouping = GroupingLossEstimator(notion=notion, random_state=0, **options)
    grouping.fit(X, samples.y, y_proba=samples.y_proba)
    assert_allclose(display.bars_["calibration"][0].get_width(), calibration.calibration_error_)
    assert_allclose(display.bars_["grouping"][0].get_width(), grouping.grouping_loss_)
    names = {"classwise": ", one class against the rest", "top_label": " of the top label"}
    assert display.ax_.get_xlabel() == "Brier score" + names.get(notion, "")


def test_grouping_by_risk_and_by_an_estimator():
    mine = GroupingLossEstimator(LogisticRegression(), n_bins=5, cv=3, random_state=7)
    for grouping, options in (("risk", {"method": "risk"}), (mine, {"n_bins": 5})):
        expected = GroupingLossEstimator(random_state=0, n_permutations=0, **options)
        expected.fit(X, Y, y_proba=P)
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
    check_refusals(
        (lambda: make([GaussianNB()], flowers, y), "must be a dict of classifiers by name")
    )
    unfitted = partial(make, models, flowers, y)
    check_refusals((unfitted, "needs a fitted classifier"), error=NotFittedError)


def test_refusals():
    words = pd.DataFrame({"word": np.resize(["a", "b", "c"], len(Y))})
    y, sure = [0, 1, 1, 0] * 10, {"sure": [0.0, 1.0, 0.0, 1.0] * 10}
    check_refusals(
        (lambda: draw(Y, PROBA, X[:7]), "inconsistent numbers of samples|same number"),
        (lambda: draw(y, sure, loss="log"), "The loss of sure is infinite.*use loss='brier'"),
    )
    assert draw(Y, PROBA, words, grouping=None).terms[0].grouping is None
    assert np.isfinite(draw(Y, PROBA, words).terms[0].grouping.estimate)  # categories are read


# --- Errors against the sample size ---------------------------------------------------------------

estimate = s.displays.EstimationDisplay.from_predictions
ECE = {"strategy": "uniform", "n_bins": 15}
DEBIASED = {"norm": "l2", "squared": True, "debiased": True}
#: What the names stand for; all but the first and "ks" are squares, of which the root is drawn.
ERRORS = {
    "ece": partial(s.calibration_error, **ECE),
    "debiased": partial(s.calibration_error, **DEBIASED, **ECE),
    "ks": s.ks_calibration_error,
    "proper": s.proper_calibration_error,
    "kernel": s.kernel_calibration_error,
    "rbs": s.calibration_upper_bound,
}


#: Over-confident forecasts of three classes, and the posterior, which is calibrated.
WORLD = make_tempered_simplex(6000, 3, score_temperature=0.7, random_state=0)
Y3, P3, POSTERIOR = WORLD.y, WORLD.y_proba, WORLD.posterior


def test_subsamples_are_rows_without_replacement_and_shared_by_all_errors():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), 50)
    seen = []

    def spy(y_true, y_proba, *, labels):
        assert labels.tolist() == [0, 1, 2]
        rows = [np.flatnonzero((proba == row).all(axis=1))[0] for row in y_proba]
        assert len(set(rows)) == len(rows) and np.array_equal(y[rows], y_true)
        seen.append(tuple(rows))
        return float(len(rows))

    y = rng.integers(3, size=50)
    display = estimate(y, proba, errors={"a": spy, "b": spy}, sample_sizes=[7, 50, 20], n_repeats=4)
    assert seen[0::2] == seen[1::2] and len(seen) == 2 * (4 + 4 + 1)
    assert len(set(seen)) == 9 and sorted(map(len, seen[::2])) == [7] * 4 + [20] * 4 + [50]
    for curve in display.curves:
        assert_array_equal(curve.mean, [7, 20, 50])
        assert curve.prediction is None and curve.floor is None


def test_squares_are_averaged_before_the_root_is_taken():
    (curve,), (squared,) = (
        estimate(Y3, POSTERIOR, errors=errors, sample_sizes=[150]).curves
        for errors in ("debiased", {"x": ERRORS["debiased"]})
    )
    assert curve.mean == pytest.approx(np.sign(squared.mean) * np.sqrt(np.abs(squared.mean)))
    assert squared.low < 0 and curve.low == pytest.approx(-np.sqrt(-squared.low))


def test_a_notion_is_for_the_errors_of_the_table():
    for notion in ("classwise", Classwise()):
        display = estimate(Y3[:120], P3[:120], errors=list(ERRORS), notion=notion, n_repeats=1)
        for curve, (name, error) in zip(display.curves, ERRORS.items(), strict=True):
            value = error(Y3[:120], P3[:120], notion="classwise")
            if name not in ("ece", "ks"):  # the root of a square, with its sign
                value = np.sign(value) * np.sqrt(np.abs(value))
            assert curve.mean[-1] == pytest.approx(value, rel=1e-12)
    root = estimate(Y3[:120], P3[:120], errors=s.root_brier_score, n_repeats=1).curves[0]
    assert root.mean[-1] == pytest.approx(s.root_brier_score(Y3[:120], P3[:120]), rel=1e-12)


def test_the_ece_of_calibrated_forecasts_falls_and_the_root_brier_score_does_not():
    """G22."""
    options = {"errors": ["ece", "rbs"], "sample_sizes": [100, 600, 6000]}
    ece, rbs = estimate(Y3, POSTERIOR, **options).curves
    assert np.all(np.diff(ece.mean) < 0) and ece.mean[0] > 4 * ece.mean[-1]
    assert_allclose(rbs.mean / rbs.mean[-1], 1, rtol=0.02)


OPTIONS = [
    ECE,
    {},
    {"n_bins": 10},
    {"notion": "classwise", **ECE},
    {"notion": Classwise("sum"), "n_bins": 8},
    {"notion": "classwise", "reduce": "sum", "n_bins": (0, 0.1, 0.5, 1)},
]


@pytest.mark.parametrize(("options", "weighted"), rotated(OPTIONS, [False, True], 1), ids=str)
def test_the_prediction_explains_the_mean(options, weighted):
    """Within 4 %, G22's accuracy, and three standard errors of the mean of subsamples."""
    error = partial(s.calibration_error, **options)
    weight = np.random.default_rng(1).uniform(0.2, 2, 6000) if weighted else None
    (curve,) = estimate(
        Y3, POSTERIOR, errors=error, sample_sizes=[464, 1500, 6000],
        n_repeats=120, sample_weight=weight, confidence_level=0.68,
    ).curves  # fmt: skip
    noise = 3 * (curve.high - curve.low) / 2 / np.sqrt(120)
    assert np.all(np.abs(curve.mean - curve.prediction) < 0.04 * curve.prediction + noise)
    assert np.all(noise[:2] < 0.1 * curve.mean[:2]) and curve.name == "calibration_error"
    if options.get("n_bins") and "reduce" not in options:  # the bins are those of all samples
        assert curve.prediction[-1] == pytest.approx(curve.mean[-1], rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_floor_is_the_error_of_calibrated_labels(weighted):
    """Labels are drawn from over-confident forecasts; the floor depends on no label."""
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.2, 2, 6000) if weighted else np.ones(6000)
    error = partial(s.calibration_error, notion="canonical", **ECE)
    options = {"n_repeats": 1, "sample_weight": weight if weighted else None}
    score = P3[:, 1]
    (curve,) = estimate(Y3 == 1, score, errors=error, sample_sizes=[600], **options).curves
    draws = []
    for _ in range(300):
        rows = rng.choice(6000, 600)
        y = (rng.random(600) < score[rows]).astype(int)
        draws.append(error(y, score[rows], labels=[0, 1], sample_weight=weight[rows]))
    assert curve.floor[0] == pytest.approx(np.mean(draws), rel=0.04)
    assert curve.mean[0] > 1.2 * curve.floor[0]


def test_only_l1_binned_errors_have_folded_normal_curves():
    errors = {norm: partial(s.calibration_error, norm=norm) for norm in ("l1", "l2", "max")}
    errors |= {"plain": s.calibration_error, "ks": "ks"}
    for curve in estimate(Y3[:500], P3[:500], errors=errors, n_repeats=2).curves:
        assert (curve.prediction is not None) == (curve.name in ("l1", "plain"))
        if curve.prediction is not None:  # more bins for more samples, and still the noise falls
            assert np.all(np.diff(curve.floor) < 0) and np.all(curve.floor > 0)


def test_the_result_depends_on_the_seed_and_not_on_n_jobs():
    with parallel_config("threading"):  # processes would take longer to start than to estimate
        means = [
            estimate(Y3[:300], P3[:300], errors="ece", n_repeats=3, random_state=seed, n_jobs=jobs)
            .curves[0]
            .mean
            for seed, jobs in ((0, None), (0, 2), (1, None))
        ]
    assert_array_equal(means[0], means[1])
    assert not np.array_equal(means[0], means[2]) and means[0][-1] == means[2][-1]


def test_artists():
    display = estimate(Y3, P3, errors=["ece", "rbs"], n_repeats=2, truth=0.1, name="A")
    (ece, rbs), first = display.line_, display.curves[0]
    for line, curve in zip(display.line_, display.curves, strict=True):
        assert_array_equal(line.get_xydata(), np.column_stack([curve.size, curve.mean]))
    assert_array_equal(display.prediction_.get_ydata(), first.prediction)
    assert_array_equal(display.floor_.get_ydata(), first.floor)
    assert display.prediction_.get_color() == ece.get_color() != rbs.get_color()
    assert len(display.band_) == len(display.truth_) == 2 and display.ax_.get_xscale() == "log"
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts[:2] == ["A: ECE", "A: Root Brier score"] and len(texts) == 6
    assert {"95 % of the subsamples", "truth"} < set(texts)
    second = estimate(Y3, POSTERIOR, errors="ece", n_repeats=2, ax=display.ax_, name="B")
    assert second.ax_ is display.ax_
    assert second.line_.get_color() not in (ece.get_color(), rbs.get_color())
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts[:3] == ["A: ECE", "A: Root Brier score", "B: ECE"]


def test_few_samples_missing_classes_and_errors_of_every_form():
    (curve,) = estimate([1], [0.7], errors="ece", labels=[0, 1]).curves
    assert (curve.size, curve.mean) == ([1], pytest.approx([0.3]))
    assert curve.prediction == pytest.approx([0.3])  # nothing is left to chance
    y, proba = [0, 0, 0, 2], [[0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [1, 0, 0], [0, 0, 1]]
    for curve in estimate(y, proba, errors=["ece", "rbs", "ks"], labels=[0, 1, 2]).curves:
        assert curve.size.tolist() == [2, 3, 4] and np.isfinite(curve.mean).all()
    log = partial(s.proper_calibration_error, loss="log", notion="top_label")
    errors = {"ECE": "ece", **{f.__name__: f for f in (s.root_brier_score, s.ks_calibration_error)}}
    errors["proper_calibration_error"] = log
    for weight in (None, np.ones(200)):
        options = {"errors": list(errors.values()), "n_repeats": 1, "sample_weight": weight}
        display = estimate(Y3[:200], P3[:200], **options)
        assert [curve.name for curve in display.curves] == list(errors)


def test_refusals_of_errors_and_sizes():
    refused = [
        ({"errors": "brier"}, "errors must be among 'proper', 'ece'.*got 'brier'"),
        ({"errors": ["ece", 3]}, "errors must be among .* got 3"),
        ({"errors": []}, "at least one error"),
        ({"errors": [s.calibration_error, s.calibration_error]}, "with distinct names"),
        ({"errors": lambda y, p, labels: np.nan}, "returned NaN"),
        ({"sample_sizes": [10, 201]}, "from 1 to the number of samples, 200"),
        ({"sample_sizes": [0]}, "sample_sizes must be a list of whole numbers"),
        ({"sample_sizes": [10.5]}, "sample_sizes must be"),
        ({"truth": {"TCE": 0.1}}, "truth must be a number, or a dict"),
        ({"errors": "debiased", "sample_sizes": [1]}, "bins of at least two samples"),
    ]
    quick = partial(estimate, Y3[:200], P3[:200])
    options = {"n_repeats": 1, "errors": "ece"}
    check_refusals(*((partial(quick, **{**options, **wrong}), words) for wrong, words in refused))
