"""Inputs that once gave a wrong number, a raw error or ran for minutes: refused, or right."""

import inspect
import threading
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import make_forecasts
from engines import polars as pl
from public_estimators import RECALIBRATORS, quick
from public_functions import DISPLAYS, FORECASTS, MOMENTS, package_names, public_name
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import skcalib
from skcalib.data.notions import Classwise
from skcalib.data.problem import check_problem
from skcalib.datasets import make_tempered_simplex
from skcalib.grouping import differences_at_equal_scores, grouping_improvement
from skcalib.smoothers import QuantileBins, UniformBins

Y, P = make_forecasts(60, 2)
Y3, P3 = make_forecasts(60, 3)

HUGE = 10**9
TOO_MANY = r"^n_bins must be at most 1000000 for bins of equal width, got 1000000000: use fewer "


def test_more_quantile_bins_than_samples_are_as_many_as_samples():
    for options in ({}, {"notion": "classwise"}, {"norm": "l2", "debiased": True}):
        many, full = (skcalib.calibration_error(Y, P, n_bins=b, **options) for b in (HUGE, len(Y)))
        assert many == full
    (many,) = skcalib.reliability_bins(Y, P, n_bins=HUGE)
    (full,) = skcalib.reliability_bins(Y, P, n_bins=len(Y))
    np.testing.assert_array_equal(many.edges, full.edges)
    pvalues = [skcalib.hosmer_lemeshow_test(Y, P, n_bins=b).pvalue for b in (HUGE, len(Y))]
    assert pvalues[0] == pvalues[1]
    bins = [skcalib.HistogramBinning(n_bins=b).fit(P, Y).predict_proba(P) for b in (HUGE, len(Y))]
    np.testing.assert_array_equal(bins[0], bins[1])
    cells = [QuantileBins(b).fit(P, P).n_cells_ for b in (HUGE, len(Y))]
    assert cells == [len(np.unique(P[:, 1]))] * 2
    estimators = [skcalib.GroupingLossEstimator(n_bins=b, random_state=0) for b in (HUGE, 1000)]
    losses = [estimator.fit(P, Y, y_proba=P).grouping_loss_ for estimator in estimators]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda b: skcalib.calibration_error(Y, P, strategy="uniform", n_bins=b),
        lambda b: skcalib.reliability_bins(Y, P, strategy="uniform", n_bins=b),
        lambda b: skcalib.hosmer_lemeshow_test(Y, P, strategy="uniform", n_bins=b),
        lambda b: UniformBins(b).fit(P, P),
        lambda b: skcalib.HistogramBinning(n_bins=b, strategy="uniform").fit(P, Y),
        lambda b: skcalib.ReliabilityDisplay.from_predictions(Y, P, strategy="uniform", n_bins=b),
    ],
)
def test_more_than_a_million_uniform_bins_are_refused(call):
    with pytest.raises(ValueError, match=TOO_MANY):
        call(HUGE)


def named(names, proba=P, make=pd.DataFrame):
    return make(dict(zip(names, proba.T, strict=True)))


WORDS = np.array(["a", "b"])
PREFIXES = ("{}", "proba_{}", "p_{}", "prob_{}", "P(Y={})", "score_{}")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("form", PREFIXES)
@pytest.mark.parametrize("classes", [np.array([0, 1]), WORDS])
def test_names_in_order_are_accepted_and_others_refused(classes, form, make):
    y = classes[Y]
    names = [form.format(class_) for class_ in classes]
    assert skcalib.calibration_error(y, named(names, make=make)) == skcalib.calibration_error(Y, P)
    skcalib.TemperatureScaling().fit(named(names, make=make), y)
    turned = named(names[::-1], make=make)
    words = r"are named .*, but columns follow the sorted classes"
    for call in (skcalib.calibration_error, skcalib.proper_calibration_error):
        with pytest.raises(ValueError, match=words):
            call(y, turned)
    with pytest.raises(ValueError, match=words):
        skcalib.TemperatureScaling().fit(turned, y)


def test_labels_must_not_contradict_names():
    y, turned = WORDS[Y], named(["p_b", "p_a"], P[:, ::-1])
    right = skcalib.calibration_error(y, P)
    reordered = skcalib.calibration_error(y, turned, labels=["b", "a"])
    assert reordered == pytest.approx(right, rel=1e-12)
    words = r"^The columns of y_proba are named \['p_b', 'p_a'\], but labels is \['a', 'b'\]"
    with pytest.raises(ValueError, match=words):
        skcalib.calibration_summary(y, turned, labels=["a", "b"])
    with pytest.raises(ValueError, match=r"columns of X are named .*, but labels is"):
        skcalib.PlattScaling(labels=["a", "b"]).fit(turned, y)
    # A library numbers columns by itself: such numbers are no names.
    for library in (pd, pl):
        assert skcalib.calibration_error(1 - Y, library.DataFrame(P), labels=[1, 0]) == right


def test_numbers_of_columns_must_be_those_of_the_classes():
    words = r"^The columns of y_proba are named \[0, 1\], but y_true has the classes \[0, 2\]"
    with pytest.raises(ValueError, match=words):
        skcalib.calibration_error(2 * Y, pd.DataFrame(P))
    with pytest.raises(ValueError, match=r"columns of X are named \['p_0', 'p_1'\], but y"):
        skcalib.PlattScaling().fit(named(["p_0", "p_1"]), 2 * Y)
    right = skcalib.calibration_error(Y, P)
    assert skcalib.calibration_error(2 * Y, pd.DataFrame(P), labels=[0, 2]) == right
    assert skcalib.calibration_error(2 * Y, P) == right
    for y in (Y + 1, 2 * Y - 1, WORDS[Y]):  # numbers that contradict nothing
        assert skcalib.calibration_error(y, pd.DataFrame(P)) == right


@pytest.mark.parametrize("form", PREFIXES)
@pytest.mark.parametrize(("classes", "absent"), [("abc", 1), ("abc", 2), (range(3), 0)])
def test_named_columns_tell_the_classes_without_samples(classes, absent, form):
    classes = np.array(list(classes))
    present = absent != Y3
    y, proba = classes[Y3[present]], P3[present]
    frame = named([form.format(class_) for class_ in classes], proba)
    problem = check_problem(y, frame)
    assert problem.classes.tolist() == classes.tolist()
    expected = skcalib.calibration_error(y, proba, labels=classes)
    assert skcalib.calibration_error(y, frame) == expected
    for unnamed in (proba, pd.DataFrame(proba)):  # the class of a column is not guessed
        with pytest.raises(ValueError, match="3 columns: pass labels="):
            skcalib.calibration_error(y, unnamed)


OTHER = r"have different indices, so their rows may belong to different samples: align them first"
N = len(Y)
ORDER = np.random.default_rng(0).permutation(N)
FIRST = {public_name(recipe.function): recipe for recipe in reversed([*FORECASTS, *DISPLAYS])}


def series(values, index):
    make = pd.Series if np.ndim(values) == 1 else pd.DataFrame
    return make(values).set_axis(index, axis=0)


@pytest.mark.parametrize("recipe", FIRST.values(), ids=FIRST)
def test_rows_in_another_order_are_refused_by_every_function(recipe):
    y, proba = series(Y, np.arange(N)), series(P, ORDER)
    with pytest.raises(ValueError, match=OTHER):
        recipe(y, proba, **({"labels": [0, 1]} if recipe.accepts("labels") else {}))
    for name, values in (("sample_weight", P[:, 0]), ("groups", np.arange(N) // 2)):
        if recipe.accepts(name):
            with pytest.raises(ValueError, match=OTHER):
                recipe(y, P, **{name: series(values, ORDER)})


def _estimator_calls():
    X, y, w = series(P, ORDER), series(Y, np.arange(N)), series(P[:, 0], ORDER)
    logistic = LogisticRegression()
    fitted = LogisticRegression().fit(P, Y)
    in_order = series(P, np.arange(N))
    return [
        lambda: MOMENTS[0](X[0], series(P[:, 0], ORDER[::-1]), P[:, 1]),
        lambda: skcalib.TemperatureScaling().fit(X, y),
        lambda: skcalib.TemperatureScaling().fit(P, y, w),
        lambda: skcalib.TemperatureScaling(labels=[0, 1]).partial_fit(X, y),
        lambda: skcalib.TemperatureScaling(labels=[0, 1]).partial_fit(P, y, sample_weight=w),
        lambda: skcalib.GroupRecalibrator().fit(P, y, features=X),
        lambda: skcalib.GroupRecalibrator().fit(P, Y, w, features=series(P, np.arange(N))),
        lambda: skcalib.MultilabelRecalibrator().fit(X, series(np.eye(2)[Y], np.arange(N))),
        lambda: skcalib.MultilabelRecalibrator().fit(P, series(np.eye(2)[Y], np.arange(N)), w),
        lambda: skcalib.regression.VarianceScaling().fit(series(P + 1, ORDER), y),
        lambda: skcalib.regression.VarianceScaling().fit(P + 1, y, w),
        lambda: skcalib.CalibrationErrorEstimator().fit(X, y),
        lambda: skcalib.sharpness(y, P, transform="simplex", sample_weight=w),
        lambda: skcalib.CalibrationErrorEstimator(logistic, cv=2).fit(P, y, groups=w),
        lambda: skcalib.GroupingLossEstimator().fit(X, y, y_proba=P),
        lambda: skcalib.GroupingLossEstimator().fit(P, y, y_proba=X),
        lambda: skcalib.RecalibratedClassifierCV().fit(X, y),
        lambda: skcalib.RecalibratedClassifierCV().fit(P, y, w),
        lambda: skcalib.regression.RecalibratedRegressorCV().fit(P, y, w),
        lambda: skcalib.regression.RecalibratedRegressorCV().fit(X, y),
        lambda: skcalib.CrossFitProba().fit(X, y),
        lambda: skcalib.ForecastSketch([0, 1]).partial_fit(y, X),
        lambda: skcalib.ForecastSketch([0, 1]).partial_fit(y, P, by=w),
        lambda: skcalib.calibration_by_group(y, P, w),
        lambda: skcalib.compare_calibration(Y, series(P, np.arange(N)), X),
        lambda: skcalib.calibration_improvement(Y, series(P, np.arange(N)), X),
        lambda: skcalib.CalibrationReport.from_predictions(y, P, X=X),
        lambda: skcalib.CalibrationReport.from_estimator(logistic, X, y, cv=2),
        lambda: skcalib.ReliabilityDisplay.from_estimator(fitted, X, y),
        lambda: skcalib.GroupingDisplay.from_estimator(fitted, X, y),
        lambda: differences_at_equal_scores(y, P, X),
        lambda: differences_at_equal_scores(Y, P, in_order, sample_weight=w),
        lambda: grouping_improvement(y, P, P[::-1], X),
        lambda: grouping_improvement(y, P, X, P),
        lambda: skcalib.theory.evaluate_supersample(logistic, X, y),
        lambda: skcalib.get_scorer("neg_l1_calibration_error")(fitted, X, y),
    ]


@pytest.mark.parametrize("call", _estimator_calls())
def test_rows_in_another_order_are_refused_by_estimators(call):
    with pytest.raises(ValueError, match=OTHER):
        call()


@pytest.mark.parametrize("recalibrator", RECALIBRATORS)
def test_a_refused_fit_leaves_the_earlier_one(recalibrator):
    fitted, names = quick(recalibrator).fit(P, Y), np.array(["a", "b"])[Y]
    before = vars(fitted).copy()
    for X, weight in ((P[:-1], None), (P + 0.1, None), (P, -P[:, 0])):
        with pytest.raises(ValueError, match="number of samples|sum to|outside|negative"):
            fitted.fit(X, names, weight)
        assert vars(fitted).keys() == before.keys()
        assert all(vars(fitted)[name] is value for name, value in before.items())


def test_which_indices_are_different():
    right = skcalib.calibration_error(Y, P)
    y, proba = series(Y, ORDER + 500), series(P, ORDER + 500)
    assert skcalib.calibration_error(y, proba) == right
    assert skcalib.calibration_error(Y, proba) == right  # an array has no index
    # The index 0 to n - 1 that pandas makes itself says nothing beside that of a test set.
    assert skcalib.calibration_error(y, pd.DataFrame(P)) == right
    twice = ORDER.copy()
    twice[twice == 1] = 2  # rows drawn with replacement
    assert skcalib.calibration_error(series(Y, twice), pd.DataFrame(P)) == right
    for index in (ORDER, ORDER[::-1] + 500, [f"row {k}" for k in range(N)]):
        with pytest.raises(ValueError, match=r"^y_true and y_proba " + OTHER):
            skcalib.calibration_error(series(Y, np.sort(index)[::-1]), series(P, index))
    with pytest.raises(ValueError, match=OTHER):  # 1 to n is not the index that pandas makes
        skcalib.calibration_error(series(Y, pd.RangeIndex(1, N + 1)), proba)


MASKED = partial(np.ma.masked_array, mask=np.arange(N) == 3)
WIDE = np.ma.masked_array(P, mask=np.arange(N)[:, None] == [3, 3])
MASKS = [
    *(
        (name, partial(function, **{"y_true": Y, "y_proba": P, name: values}))
        for function in (skcalib.calibration_error, skcalib.proper_calibration_error)
        for name, values in (
            *(("y_true", MASKED(Y)), ("y_proba", WIDE), ("y_proba", MASKED(P[:, 1]))),
            ("sample_weight", MASKED(P[:, 1])),
        )
    ),
    ("X", partial(skcalib.TemperatureScaling().fit, MASKED(P[:, 1]), Y)),
    ("y", partial(skcalib.HistogramBinning().fit, P, MASKED(Y))),
    ("groups", partial(skcalib.calibration_summary, Y, P, groups=MASKED(np.arange(N) // 2))),
]


@pytest.mark.parametrize(("name", "call"), MASKS)
def test_masked_values_are_refused(name, call):
    with pytest.raises(ValueError, match=f"^{name} has [12] masked values, which are missing"):
        call()
    nothing = np.ma.masked_array(P, mask=False)
    assert skcalib.calibration_error(Y, nothing) == skcalib.calibration_error(Y, P)


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        (lambda a: a + 0j, "complex numbers"),
        (lambda a: (a + 0j).astype(object), "complex numbers"),
        (lambda a: a.astype(str), "text"),
        (lambda a: a.astype(str).astype(object), "text"),
        (lambda a: a.astype(str).tolist(), "text"),
        (lambda a: pd.Series(a.astype(str), dtype="string"), "text"),
        (lambda a: pl.Series(a.astype(str)), "text"),
        (lambda a: np.arange(len(a)).astype("M8[D]"), "dates"),
        (lambda a: np.arange(len(a)).astype("m8[D]"), "differences of times"),
    ],
)
def test_weights_and_forecasts_are_numbers(convert, words):
    values = convert(P[:, 1])
    scaling = skcalib.TemperatureScaling()
    for call in (partial(skcalib.calibration_error, Y, P), partial(scaling.fit, P, Y)):
        with pytest.raises(ValueError, match=f"^sample_weight must be .* numbers.* {words}"):
            call(sample_weight=values)
    for call in (partial(skcalib.calibration_error, Y), partial(scaling.fit, y=Y)):
        with pytest.raises(ValueError, match=f"must be a numeric array of .* {words}"):
            call(values)


WITH_LOGITS = [
    kind
    for kind in package_names().values()
    if isinstance(kind, type) and "input" in inspect.signature(kind).parameters
]


@pytest.mark.parametrize("recalibrator", WITH_LOGITS)
def test_probabilities_for_logits_are_warned_of(recalibrator):
    for values in (P, P[:, 1]):
        words = rf"^X is in \[0, 1\].*, but {recalibrator.__name__} reads it as logits: for prob"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            with pytest.warns(UserWarning, match=words) as caught:
                recalibrator(input="logits").fit(values, Y)
            assert any(warning.filename == __file__ for warning in caught)
        with warnings.catch_warnings():  # logits, and a single row, are no reason
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            recalibrator(input="logits").fit(5 * values - 2, Y)


PENDING = []


class Interrupting(Classwise):
    """Other fits of the same object, to other classes, come between two steps of a fit."""

    def problems(self, forecast, target):
        while PENDING:
            PENDING.pop().fit(P3, Y3, y_proba=P3)
        return super().problems(forecast, target)


def test_fits_of_one_grouping_estimator_do_not_meet():
    plain, interrupted = (
        skcalib.GroupingLossEstimator(notion=notion, region_ratio=6, method="partition")
        for notion in ("classwise", Interrupting())
    )
    PENDING.append(interrupted)
    for estimator in (plain, interrupted):
        estimator.fit(P, Y, y_proba=P)
    assert not PENDING
    assert interrupted.classes_.tolist() == [0, 1] and interrupted.n_features_in_ == 2
    assert (
        interrupted.grouping_loss_ == plain.grouping_loss_
        and interrupted.regions_ == plain.regions_
    )


def test_threads_may_share_a_sketch():
    """Between what a chunk is added to and the sum, another thread adds a chunk."""
    shared, begun = skcalib.ForecastSketch([0, 1]).partial_fit(Y, P), threading.Event()
    stored = shared._stored

    def slow(*arguments):
        before = stored(*arguments)
        begun.set()
        time.sleep(0.02)
        return before

    shared._stored = slow
    threads = [threading.Thread(target=shared.partial_fit, args=(Y, P)) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    for thread in threads:
        thread.join()
    assert shared.n_samples_seen_ == 4 * N


class Changed(ClassifierMixin, BaseEstimator):
    """A constructor that changes a parameter, as that of CatBoostClassifier."""

    def __init__(self, cat_features=None):
        self.cat_features = None if cat_features is None else list(cat_features)

    def fit(self, X, y, cat_features=None):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


def test_classifiers_without_clones_have_a_way_out():
    model, words = Changed([0]), r"^Changed cannot be cloned, and folds need clones: .* pass it to"
    for call in (
        skcalib.RecalibratedClassifierCV(model).fit,
        skcalib.RecalibratedClassifierCV(model, ensemble=True).fit,
        skcalib.CrossFitProba(model).fit,
        skcalib.CalibrationErrorEstimator(model, cv=2).fit,
        partial(skcalib.CalibrationReport.from_estimator, model, cv=2),
        partial(skcalib.theory.evaluate_supersample, model),
    ):
        with pytest.raises(ValueError, match=words):
            call(P, Y)
    skcalib.RecalibratedClassifierCV(Changed()).fit(P, Y, cat_features=[0])
    skcalib.RecalibratedClassifierCV(FrozenEstimator(model.fit(P, Y))).fit(P, Y)


def test_folds_of_arrays_of_the_standard():
    library = pytest.importorskip("array_api_strict")
    X, y = library.asarray(P), library.asarray(Y)
    logistic = LogisticRegression()
    fits = [
        lambda X, y: skcalib.RecalibratedClassifierCV(logistic).fit(X, y).predict_proba(X),
        lambda X, y: skcalib.CrossFitProba(logistic).fit_transform(X, y),
    ]
    for fit in fits:
        np.testing.assert_array_equal(fit(P, Y), fit(X, y))
    for masks in (2, [(np.arange(N) % 2 == k, np.arange(N) % 2 != k) for k in range(2)]):
        estimator = skcalib.CalibrationErrorEstimator(logistic, cv=masks)
        expected = clone(estimator).fit(P, Y).calibration_error_
        assert estimator.fit(X, y).calibration_error_ == expected


def test_kuiper_does_not_depend_on_the_positive_class():
    sample = make_tempered_simplex(500, score_temperature=0.6, random_state=4)
    first, second = (sample.y, sample.y_proba[:, 1]), (1 - sample.y, sample.y_proba[:, 0])
    ks = [skcalib.significance.cumulative_test(y, p).pvalue for y, p in (first, second)]
    assert [f"{pvalue:.2g}" for pvalue in ks] == ["0.39", "0.028"]  # as documented
    kuiper = [
        skcalib.significance.cumulative_test(y, p, statistic="kuiper").pvalue
        for y, p in (first, second)
    ]
    assert kuiper[0] == pytest.approx(kuiper[1], rel=1e-9)
    assert 'statistic="kuiper"``' in skcalib.significance.cumulative_test.__doc__
