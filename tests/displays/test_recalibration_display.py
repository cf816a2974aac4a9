"""Maps of recalibrators: the curves, the points, the doors, what is said and what is refused."""

import copy

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal
from refusals import check_refusals
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skcalib as s
from skcalib.datasets import make_tempered_simplex

draw = s.RecalibrationDisplay.from_recalibrator
overlay = s.RecalibrationDisplay.from_recalibrators
of_estimator = s.RecalibrationDisplay.from_estimator
#: The last bit of a map may depend on the size of the batch.
ROUNDING = {"rtol": 1e-12, "atol": 1e-15}


TWO = make_tempered_simplex(600, 2, random_state=0)
THREE = make_tempered_simplex(500, 3, random_state=1)
Y, P, Y3, P3 = TWO.y, TWO.y_proba, THREE.y, THREE.y_proba
CANCER = load_breast_cancer()
X, LABELS, NEW = CANCER.data[::2], CANCER.target[::2], CANCER.data[1::2]


def curve_of(recalibrator, p):
    return recalibrator.predict_proba(np.column_stack([1 - p, p]))[:, 1]


def texts(display):
    legend = display.figure_.legends[0] if display.figure_.legends else display.ax_.get_legend()
    return [text.get_text() for text in legend.get_texts()]


class Halfway:
    """A recalibrator that is not ours: half of the forecast, half of the base rate."""

    def fit(self, P, y):
        self.rate = np.bincount(y, minlength=np.shape(P)[1]) / len(y)
        return self

    def predict_proba(self, P):
        return (np.asarray(P) + self.rate) / 2


@pytest.mark.parametrize(
    "recalibrator",
    [
        s.IdentityRecalibrator(), s.TemperatureScaling(),
        s.recalibration.EnsembleTemperatureScaling(),
        s.PlattScaling(), s.BetaCalibration(), s.recalibration.QuadraticScaling(),
        s.SplineScaling(),
        s.VennAbersRecalibrator(), s.VectorScaling(shrinkage=1),
        s.recalibration.MatrixScaling(shrinkage=1),
        s.DirichletCalibration(shrinkage=1), s.recalibration.DiagonalOrderPreserving(),
        s.IsotonicRecalibrator(), s.IsotonicRecalibrator(strict=True),
        s.HistogramBinning(n_bins=7), s.recalibration.KernelRecalibrator(bandwidth=0.01),
        s.recalibration.LabelFrequency(),
        make_pipeline(s.TemperatureScaling(), "passthrough", s.IsotonicRecalibrator()), Halfway(),
    ],
    ids=lambda recalibrator: type(recalibrator).__name__,
)  # fmt: skip
def test_the_curve_is_the_map(recalibrator):
    fitted = copy.deepcopy(recalibrator).fit(P, Y)
    p, q = draw(fitted).line_.get_xydata().T
    assert p[0] == 0 and p[-1] == 1 and np.all(np.diff(p) >= 0) and np.diff(p).max() < 0.0021
    assert_allclose(q, curve_of(fitted, p), **ROUNDING)
    between = np.random.default_rng(0).random(200)
    assert_allclose(np.interp(between, p, q), curve_of(fitted, between), atol=0.01)


@pytest.mark.parametrize(
    "recalibrator", [s.TemperatureScaling, s.PlattScaling, s.VectorScaling, s.IsotonicRecalibrator]
)
@pytest.mark.parametrize("columns", [1, 2])
def test_logits_are_drawn_over_the_probability(recalibrator, columns):
    logits = np.log(P)
    logits = logits[:, 1:] - logits[:, :1] if columns == 1 else logits + 3.0
    fitted = recalibrator(input="logits").fit(logits, Y)
    line = draw(fitted, P).line_
    p, q = line.get_xydata()[1:-1].T
    z = np.log(p) - np.log1p(-p)
    scores = z[:, None] if columns == 1 else np.column_stack([np.zeros_like(z), z])
    assert_allclose(q, fitted.predict_proba(scores)[:, 1], atol=1e-9)
    assert np.isfinite(line.get_ydata()).all()  # at certainty too, which has no logit
    assert_allclose(q, curve_of(recalibrator().fit(P, Y), p), atol=2e-3)


def test_pipelines_and_single_columns_are_given_what_they_read():
    pipe = make_pipeline(s.TemperatureScaling(input="logits"), s.PlattScaling())
    pipe.fit(np.log(P), Y)
    display = draw(make_pipeline("passthrough", pipe).fit(np.log(P), Y))
    p, q = display.line_.get_xydata()[1:-1].T
    assert_allclose(q, pipe.predict_proba(np.log(np.column_stack([1 - p, p])))[:, 1])
    assert display.maps[0].name == "TemperatureScaling → PlattScaling"
    assert display.maps[0].declared == "injective, may change the predicted class"
    single = s.PlattScaling().fit(P[:, 1:], Y)
    assert single.n_features_in_ == 1
    p, q = draw(single, P).line_.get_xydata().T
    assert_allclose(q, single.predict_proba(p[:, None])[:, 1], **ROUNDING)
    assert_allclose(q, draw(s.PlattScaling().fit(P[:, 1], Y)).line_.get_ydata(), **ROUNDING)


def test_a_jump_is_vertical_and_where_it_happens():
    binning = s.HistogramBinning(n_bins=5, strategy="uniform").fit(P, Y)
    p, q = draw(binning).line_.get_xydata().T
    jumps = np.abs(np.diff(q)) > 0.01
    assert_allclose(p[:-1][jumps], [0.2, 0.4, 0.6, 0.8], atol=1e-12)
    assert np.diff(p)[jumps].max() < 1e-12 and np.abs(np.diff(q))[~jumps].max() == 0


def test_the_first_class_of_two_is_the_mirror_image():
    fitted = s.BetaCalibration().fit(P, np.where(Y == 1, "yes", "no"))
    first, last = draw(fitted, classes="no"), draw(fitted)
    labels = [display.ax_.get_xlabel() for display in (first, last)]
    assert labels == [f"Predicted probability of class {name}" for name in ("no", "yes")]
    p = np.linspace(0.01, 0.99, 50)
    mirrored = 1 - np.interp(1 - p, *last.line_.get_xydata().T)
    assert_allclose(np.interp(p, *first.line_.get_xydata().T), mirrored, atol=1e-4)
    both = draw(fitted, classes=["yes", "no"])
    assert [shown.event for shown in both.maps] == ["class yes", "class no"]


def test_the_histogram_shows_the_forecasts_before():
    fitted = s.TemperatureScaling().fit(P, Y)
    assert draw(fitted).ax_hist_ is draw(fitted, P, histogram=False).ax_hist_ is None
    inset = draw(fitted, P, hist_kwargs={"histtype": "bar"}).ax_hist_
    counts = np.histogram(P[:, 1], np.linspace(0, 1, 41))[0]
    assert_allclose([patch.get_height() for patch in inset.patches], counts / len(P))
    assert_array_equal(draw(fitted, P[:, 1]).maps[0].scores, P[:, 1])


def test_from_predictions_fits_the_map_that_it_draws():
    labels, weight = np.where(Y == 1, "yes", "no"), 1.0 + Y
    fit = s.RecalibrationDisplay.from_predictions
    display = fit(labels, P, s.PlattScaling(), sample_weight=weight, pos_label="no")
    fitted = s.PlattScaling().fit(P, labels, sample_weight=weight)
    assert_allclose(display.line_.get_xydata(), draw(fitted, pos_label="no").line_.get_xydata())
    counts = np.histogram(P[:, 0], np.linspace(0, 1, 41), weights=weight)[0]
    assert_allclose(display.ax_hist_.get_ylim()[1], 1.05 * counts.max() / weight.sum())
    assert fit(Y[:100], P[:100]).maps[0].name == "StackedRecalibrator"


def test_overlays_have_names_and_colours():
    kinds = s.TemperatureScaling, s.PlattScaling, s.HistogramBinning
    fitted = [kind().fit(P, Y) for kind in kinds]
    display = overlay(dict(zip("abc", fitted, strict=True)), P)
    assert len({to_hex(line.get_color()) for line in display.line_}) == 3
    for line, recalibrator in zip(display.line_, fitted, strict=True):
        assert_allclose(line.get_ydata(), curve_of(recalibrator, line.get_xdata()), **ROUNDING)
    assert texts(display) == [
        "a\ninjective, keeps the order of classes",
        "b\ninjective, may change the predicted class",
        "c\nnot injective, may change the predicted class",
        "Unchanged",
    ]
    assert display.ax_hist_ is not None and display.ref_line_ in display.ax_.lines
    # A list is named after its classes; what is not ours declares nothing.
    others = s.PlattScaling(loss="brier"), Halfway()
    display = overlay([fitted[1], *(recalibrator.fit(P, Y) for recalibrator in others)])
    assert [shown.name for shown in display.maps] == ["PlattScaling", "PlattScaling (2)", "Halfway"]
    assert texts(display)[2] == "Halfway"


def test_displays_on_the_same_axes():
    reliability = s.ReliabilityDisplay.from_predictions(Y, P, band=None)
    first = draw(s.TemperatureScaling().fit(P, Y), P, ax=reliability.ax_, ref_line=False)
    second = draw(s.PlattScaling().fit(P, Y), ax=reliability.ax_)
    third = draw(s.BetaCalibration().fit(P, Y), ax=reliability.ax_)
    assert second.ref_line_ is third.ref_line_ and first.ref_line_ is None
    lines = [reliability.line_, first.line_, second.line_, third.line_]
    assert len({to_hex(line.get_color()) for line in lines}) == 4
    assert first.ax_hist_ is reliability.ax_hist_


@pytest.mark.parametrize("logits", [False, True])
def test_a_panel_of_points_for_each_class(logits):
    scores = np.log(P3) + 5.0 if logits else P3
    kind = (
        s.VectorScaling(input="logits", shrinkage=10)
        if logits
        else s.recalibration.MatrixScaling(shrinkage=1)
    )
    fitted = kind.fit(scores, np.array(["x", "y", "z"])[Y3])
    display, after = draw(fitted, P3), fitted.predict_proba(scores)
    assert [ax.get_xlabel()[-1] for ax in display.ax_] == ["x", "y", "z"]
    for k, line in enumerate(display.line_):
        assert_array_equal(line.get_xdata(), P3[:, k])
        assert_allclose(line.get_ydata(), after[:, k], rtol=1e-7 if logits else 0)
        assert line.get_linestyle() == "None"
    assert len(display.ax_hist_) == len(display.ref_line_) == 3
    said = f"{type(fitted).__name__}\ninjective, may change the predicted class"
    assert texts(display) == [said, "Unchanged"]


def test_panels_hold_several_recalibrators():
    fitted = [kind().fit(P3, Y3) for kind in (s.TemperatureScaling, s.IsotonicRecalibrator)]
    display = overlay(fitted, P3, classes=[2, 0])
    assert [shown.event for shown in display.maps] == ["class 2", "class 0"] * 2
    assert [ax.get_xlabel()[-1] for ax in display.ax_] == ["2", "0"]
    colors = [to_hex(line.get_color()) for line in display.line_]
    assert colors == ["#0072b2", "#d55e00"] * 2  # panel by panel, the same colours
    assert_array_equal(display.line_[1].get_ydata(), fitted[1].predict_proba(P3)[:, 2])


def test_thinning_is_said():
    fitted, halfway = s.TemperatureScaling().fit(P3, Y3), Halfway().fit(P3, Y3)
    display = draw(fitted, P3, max_points=100)
    assert texts(display)[0].endswith("\n100 of 500 forecasts")
    p = display.line_[1].get_xdata()
    assert len(p) == 100 and p[0] == P3[0, 1] and p[-1] == P3[-1, 1]
    assert set(p) <= set(P3[:, 1])
    assert len(display.maps[0].scores) == 500  # the histogram has all
    assert "forecasts" not in texts(draw(fitted, P3))[0]
    assert texts(draw(halfway, P3, max_points=1))[0] == "Halfway\n1 of 500 forecasts"


def test_axes_of_the_user_and_at_most_25_panels():
    fitted = s.TemperatureScaling().fit(P3, Y3)
    _, axes = plt.subplots(1, 3)
    display = draw(fitted, P3, ax=axes)
    assert display.ax_ == list(axes) and not display.figure_.legends
    assert axes[0].get_legend() is not None and axes[1].get_legend() is None
    proba = np.random.default_rng(0).dirichlet(np.ones(26), 300)
    y = np.where(np.arange(300) % 2, proba.argmax(axis=1), np.arange(300) % 26)
    fitted = s.TemperatureScaling().fit(proba, y)
    check_refusals((lambda: draw(fitted, proba), "26 exceed the limit of 25 .* classes="))
    assert len(draw(fitted, proba, classes=np.arange(0, 26, 6), legend=False).line_) == 5


@pytest.mark.parametrize("recalibrator", [s.BetaCalibration(), LogisticRegression()])
def test_from_estimator(recalibrator):
    model = s.RecalibratedClassifierCV(GaussianNB(), recalibrator).fit(X, LABELS)
    display = of_estimator(model, NEW, name="Bayes")
    assert_array_equal(display.maps[0].scores, model.estimator_.predict_proba(NEW)[:, 1])
    p, q = display.line_.get_xydata().T
    assert_allclose(q, curve_of(model.recalibrator_, p), **ROUNDING)
    assert texts(display)[0].split("\n")[0] == "Bayes"
    iris, kinds = load_iris(return_X_y=True)
    model = s.RecalibratedClassifierCV(GaussianNB(), s.TemperatureScaling())
    model.fit(iris, np.array(["a", "b", "c"])[kinds])
    points = [classifier.predict_proba(iris)[:, 1] for classifier in (model.estimator_, model)]
    assert_allclose(of_estimator(model, iris, classes=["b"]).line_.get_xydata().T, points)


def test_folds_share_a_colour_and_an_entry():
    model = s.RecalibratedClassifierCV(GaussianNB(), "temperature", cv=3, ensemble=True)
    display = of_estimator(model.fit(X, LABELS), NEW)
    assert len({line.get_color() for line in display.line_}) == 1
    for line, recalibrator in zip(display.line_, model.recalibrators_, strict=True):
        assert_allclose(line.get_ydata(), curve_of(recalibrator, line.get_xdata()), **ROUNDING)
    said = "TemperatureScaling (3 folds)\ninjective, keeps the order of classes"
    assert texts(display) == [said, "Unchanged"]


def test_recalibrators_after_cross_fitting():
    pipe = make_pipeline(StandardScaler(), s.CrossFitProba(GaussianNB()), s.PlattScaling())
    display = of_estimator(pipe.fit(X, LABELS), NEW)
    p, q = display.line_.get_xydata().T
    assert_allclose(q, curve_of(pipe[-1], p), **ROUNDING)
    assert_array_equal(display.maps[0].scores, pipe[:2].transform(NEW)[:, 1])
    search = GridSearchCV(pipe, {"plattscaling": [s.PlattScaling()]}, cv=2).fit(X, LABELS)
    assert_array_equal(of_estimator(search, NEW).line_.get_ydata(), q)
    ended = make_pipeline(StandardScaler(), s.RecalibratedClassifierCV(GaussianNB(), "platt"))
    inner = ended.fit(X, LABELS)[-1].estimator_.predict_proba(ended[0].transform(NEW))
    assert_array_equal(of_estimator(ended, NEW).maps[0].scores, inner[:, 1])


def test_frames_and_a_map_that_only_keeps_the_prediction():
    frame = pd.DataFrame(P3, columns=["a", "b", "c"])
    fitted = s.TemperatureScaling().fit(frame, Y3)
    for forecast in (frame, P3):
        assert_allclose(draw(fitted, forecast).line_[0].get_xdata(), P3[:, 0])
    check_refusals((lambda: draw(fitted, frame[["b", "a", "c"]]), "columns of y_proba are named"))
    frequency = s.recalibration.LabelFrequency().fit([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    assert frequency.preserves_argmax_
    assert draw(frequency).maps[0].declared == "not injective, keeps the predicted class"


def test_refusals():
    platt = s.PlattScaling().fit(P, Y)
    vector = s.VectorScaling(shrinkage=10).fit(P3, Y3)
    bayes = GaussianNB().fit(X, LABELS)
    check_refusals(
        (lambda: draw(vector), "The map of 3 classes is not a single curve.*pass y_proba"),
        (lambda: draw(vector, P), "y_proba has 2 columns, but VectorScaling was fitted with 3"),
        (lambda: draw(platt, P3), "y_proba has 3 columns, but PlattScaling was fitted with 2"),
        (lambda: draw(vector, np.log(P3)), "probabilities are expected"),
        (lambda: draw(vector, P3, classes=[0, 7]), r"classes contains 7: the classes are \[0"),
        (lambda: draw(vector, P3, classes=[]), "classes must list classes"),
        (lambda: overlay([]), "recalibrators is empty"),
        (lambda: overlay(platt), "must be a list of recalibrators, or a dict"),
        (lambda: overlay([platt, vector]), r"different classes, \[0, 1\] and \[0, 1, 2\]"),
        (lambda: draw(s.PlattScaling), "A fitted recalibrator is needed"),
        (lambda: draw("platt"), "A fitted recalibrator is needed"),
        (
            lambda: of_estimator(bayes, NEW),
            "from_estimator takes a fitted RecalibratedClassifierCV",
        ),
        (lambda: draw(bayes), "GaussianNB was fitted to 30 columns"),
        (lambda: draw(vector, P3, ax=plt.subplots()[1]), "ax must be an array of 3 Axes"),
        (
            lambda: s.RecalibrationDisplay.from_predictions(Y, P, s.PlattScaling(input="logits")),
            "recalibrator takes logits.*leave out input='logits'",
        ),
    )


def test_what_is_not_fitted_or_at_the_wrong_door():
    chain = make_pipeline(s.TemperatureScaling(), s.PlattScaling())
    crossed = make_pipeline(s.CrossFitProba(GaussianNB()), s.PlattScaling())
    classifier = s.RecalibratedClassifierCV(GaussianNB(), "temperature")
    check_refusals(
        (lambda: draw(s.PlattScaling()), "is not fitted: fit it to held-out"),
        (lambda: draw(chain), "is not fitted: fit it to held-out"),
        (lambda: of_estimator(classifier, NEW), "not fitted"),
        (lambda: of_estimator(crossed, NEW), "not fitted"),
        error=NotFittedError,
    )
    words = "classifier of features.*use from_estimator"
    check_refusals(
        (lambda: draw(classifier.fit(X, LABELS)), words),
        (lambda: draw(crossed.fit(X, LABELS)), words),
    )
