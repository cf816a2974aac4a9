"""What may be passed to estimators, in which container, and what hostile forecasts come to."""

import re
import traceback
import warnings
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from engines import polars as pl
from grids import rotated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joblib import parallel_config
from public_estimators import RECALIBRATORS, answers, data_for, draw, instances, quick, variants
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, TimeSeriesSplit

import skcalib as s

pytestmark = pytest.mark.filterwarnings("ignore:The regions hold")  # of a hundred samples
NAMES = np.array(["ape", "bee", "cat"])
INSTANCES = instances()
# rounding of other containers and layouts moves an estimate a little, or a sample across a cut
CLOSE = {"rtol": 1e-6, "atol": 1e-8}
OURS = {np.dtype(kind) for kind in (np.float64, np.int64, bool)}  # whatever comes in


def label(value):
    return re.sub(r"\s+", "", repr(value))[:60]


def same(numbers, expected, **tolerance):
    assert numbers.keys() == expected.keys() and expected
    for name, value in expected.items():
        np.testing.assert_allclose(numbers[name], value, **(tolerance or CLOSE))


def fit(estimator, X, y, **weights):
    return clone(estimator).fit(X, y, **weights)


@cache
def baseline(which):
    """An instance, its X and y, and its answers after a plain fit."""
    estimator, kind = INSTANCES[which]
    X, y = data_for(kind)
    return estimator, kind, X, y, answers(fit(estimator, X, y), X)


NUMBERS, IDS = range(len(INSTANCES)), [label(estimator) for estimator, _ in INSTANCES]
every_instance = pytest.mark.parametrize("which", NUMBERS, ids=IDS)


def memory_map(array, folder):
    """A read-only map of a file."""
    np.save(folder / "values.npy", array)
    return np.load(folder / "values.npy", mmap_mode="r")


@every_instance
def test_containers_of_the_features(which, tmp_path):
    estimator, _, X, y, expected = baseline(which)
    others = [X.tolist(), np.asfortranarray(X), X[::-1].copy()[::-1], X.astype(object)]
    others += [memory_map(X, tmp_path), pd.DataFrame(X).add_prefix("x")]
    if not isinstance(estimator, s.regression.RecalibratedRegressorCV):
        others.append(pl.DataFrame(X))  # BayesianRidge.predict(X, return_std=True) refuses it
    # They are read at one door: three for each estimator, and each for many of them.
    for container in (others * 2)[which % len(others) :: 2][:3]:
        same(answers(fit(estimator, container, y), container), expected)


@pytest.mark.parametrize(("estimator", "kind"), INSTANCES, ids=label)
def test_precision_of_the_features(estimator, kind):
    """Lower precision is read as it is: the same numbers in float64 give the same answer."""
    X, y = data_for(kind)
    expected = fit(estimator, X, y)
    # half precision in the arithmetic of a wrapped classifier is not ours to answer for
    for precision in (np.float32, np.float16) if kind != "features" else (np.float32,):
        low = X.astype(precision)
        fitted = fit(estimator, low, y)
        said = answers(fitted, low)
        assert said and (kind == "features" or {v.dtype for v in said.values()} <= OURS)
        if hasattr(estimator, "predict_proba"):
            P = fitted.predict_proba(low)
            np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-2)
            change = np.median(np.abs(P - expected.predict_proba(X)))
            assert change < (1e-3 if precision is np.float32 else 0.1)
        if kind == "proba" and precision is np.float32:
            same(answers(fit(estimator, low.astype(np.float64), y), low.astype(np.float64)), said)


@pytest.mark.parametrize("instance, dtype", rotated(INSTANCES, [int, np.uint8, bool], 1), ids=label)
def test_whole_numbers(instance, dtype):
    """Integers and booleans: hard forecasts, counted features, variances of one."""
    estimator, kind = instance
    X, y = data_for(kind)
    if kind == "proba":
        whole = np.eye(3)[(y + (np.arange(len(y)) % 4 == 0)) % 3]
    elif kind == "features":
        whole = (np.median(X, axis=0) < X).astype(float)
        whole[:, -1] = np.arange(len(X)) % (2 if dtype is bool else 7)
    else:
        whole = np.ones_like(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # certain forecasts are separable
        numbers = answers(fit(estimator, whole.astype(dtype), y), whole.astype(dtype))
        same(numbers, answers(fit(estimator, whole, y), whole))


def test_one_column_is_the_positive_class(tmp_path):
    _, y, P = draw(40, n_classes=2)
    p = P[:, 1]
    forms = [p, p[:, None], p.tolist(), pd.Series(p), pl.Series(p), memory_map(p, tmp_path)]
    forms += [pd.DataFrame({"yes": p}), np.asfortranarray(p[:, None]), p.astype(object)]
    plain = [v for v in variants() if v.input != "logits"]
    for which, recalibrator in enumerate([*map(quick, RECALIBRATORS), *plain]):
        expected = fit(recalibrator, P, y).predict_proba(P)
        # They are read at one door: two for each, and each for many.
        for form in (forms * 2)[which % 9 :: 3][:2]:
            proba = fit(recalibrator, form, y).predict_proba(form)
            np.testing.assert_allclose(proba, expected, **CLOSE)
    expected = s.CalibrationErrorEstimator().fit(P, y).calibration_error_
    for form in forms:
        estimate = s.CalibrationErrorEstimator().fit(form, y).calibration_error_
        assert estimate == pytest.approx(expected, rel=1e-9)


LABELS = {
    "list": lambda y: y.tolist(),
    "strings": lambda y: NAMES[y],
    "objects": lambda y: NAMES[y].astype(object),
    "pandas": lambda y: pd.Series(NAMES[y], index=np.arange(len(y))[::-1]),
    "categories": lambda y: pd.Series(pd.Categorical(NAMES[y], categories=NAMES[::-1])),
    "polars": lambda y: pl.Series(NAMES[y].tolist()),
    "polars categories": lambda y: pl.Series(NAMES[y].tolist()).cast(pl.Categorical),
    "floats": lambda y: y.astype(np.float32) - 1,
    "small integers": lambda y: y.astype(np.int8),
}


@every_instance
def test_kinds_of_labels(which):
    estimator, kind, X, y, expected = baseline(which)
    if kind == "moments" or isinstance(estimator, s.regression.RecalibratedRegressorCV):
        return  # it takes outcomes that are numbers
    expected = {n: value for n, value in expected.items() if n not in ("predict", "classes_")}
    for kind_of_label in (list(LABELS.values()) * 2)[which % len(LABELS) :: 3][:3]:
        fitted = fit(estimator, X, kind_of_label(y))
        numbers = answers(fitted, X)
        same({name: numbers[name] for name in expected}, expected)
        assert len(fitted.classes_) == 3
        if hasattr(fitted, "predict"):
            assert set(fitted.predict(X)) <= set(fitted.classes_)


def test_booleans_are_labels():
    """They are read at one door: a third of the estimators."""
    for estimator, kind in INSTANCES[::3]:
        if kind != "moments" and not isinstance(estimator, s.regression.RecalibratedRegressorCV):
            X, y, P = draw(60, n_classes=2)
            X = P if kind == "proba" else X
            fitted = fit(estimator, X, y.astype(bool))
            assert fitted.classes_.tolist() == [False, True]
            expected, numbers = answers(fit(estimator, X, y), X), answers(fitted, X)
            expected.pop("predict", None)
            same({name: numbers[name] for name in expected}, expected)


@every_instance
def test_columns_of_labels_and_weights(which, tmp_path):
    estimator, kind, X, y, _ = baseline(which)
    weight = np.random.default_rng(2).integers(1, 4, len(y)).astype(float)
    options = {} if isinstance(estimator, s.CrossFitProba) else {"sample_weight": weight}
    expected = answers(fit(estimator, X, y, **options), X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataConversionWarning)  # says that a column was taken
        same(answers(fit(estimator, X, y[:, None], **options), X), expected)
    if options:
        mapped = memory_map(weight, tmp_path)
        forms = [weight.tolist(), pd.Series(weight), pl.Series(weight), weight[:, None], mapped]
        forms += [weight.astype(np.float32), weight.astype(int)]
        # They are read at one door: three for each estimator, and each for many of them.
        few = 1 if kind == "features" else 3
        for form in (forms * 2)[which % 7 :: 3][:few]:
            same(answers(fit(estimator, X, y, sample_weight=form), X), expected)


@pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=lambda r: r.__name__)
def test_sparse_probabilities_are_refused(recalibrator):
    _, y, P = draw()
    fitted = quick(recalibrator).fit(P, y)
    for sparse in (csr_array(P), csr_matrix(P)):
        for call in (partial(recalibrator().fit, y=y), fitted.transform):
            with pytest.raises((TypeError, ValueError), match="sparse.*dense|dense.*sparse"):
                call(sparse)
    with pytest.raises(ValueError, match="one label per sample"):
        recalibrator().fit(P, csr_array(y[:, None]))


@pytest.mark.parametrize(("estimator", "kind"), INSTANCES, ids=label)
def test_empty_data_are_refused(estimator, kind):
    X, y = data_for(kind)
    with pytest.raises(ValueError, match=r"empty|0 sample|at least one|minimum of 1"):
        fit(estimator, X[:0], y[:0])
    with pytest.raises(ValueError, match=r"(same number of|inconsistent numbers of) samples"):
        fit(estimator, X[:-1], y)
    if hasattr(estimator, "transform") and kind == "proba":
        with pytest.raises(ValueError, match="X is empty"):
            fit(estimator, X, y).transform(X[:0])


@pytest.mark.parametrize(("estimator", "kind"), INSTANCES, ids=label)
def test_nothing_passed_in_is_modified(estimator, kind):
    X, y = data_for(kind)
    weight = np.linspace(0.5, 2, len(y))
    weight[5] = 0  # this sample is dropped
    crossfit = isinstance(estimator, s.CrossFitProba)
    arguments = {"X": X, "y": y} | ({} if crossfit else {"sample_weight": weight})
    for order in "CF" if kind == "proba" else "C":
        copies = {name: np.array(values, order=order) for name, values in arguments.items()}
        fitted = fit(estimator, **copies)
        answers(fitted, copies["X"])
        if crossfit:
            fitted.fit_transform(**copies)
        for name, values in arguments.items():
            np.testing.assert_array_equal(copies[name], values)
    frame = pd.DataFrame(X).add_prefix("x")
    before = frame.copy()
    fit(estimator, frame, pd.Series(y))
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=lambda r: r.__name__)
def test_answers_can_be_written_to(recalibrator):
    """What comes back is the caller's own: writing to it changes no later answer."""
    _, y, P = draw()
    fitted = quick(recalibrator).fit(P, y)
    first = fitted.predict_proba(P)
    before = first.copy()
    first[:] = 0.0
    np.testing.assert_array_equal(fitted.predict_proba(P), before)
    assert P.max() == 1


def parallel_estimators(n_jobs):
    forest, folds = RandomForestClassifier(5, random_state=0), {"cv": 3, "n_jobs": n_jobs}
    regions, options = s.GroupingLossEstimator, {**folds, "random_state": 3}
    return [
        s.CalibrationErrorEstimator(forest, notion="classwise", **options),
        regions(forest, notion="classwise", n_permutations=9, **options),
        regions(forest, method="risk", partitioner=Ridge(), **options),
        s.CrossFitProba(forest, **folds),
        s.RecalibratedClassifierCV(forest, "select", **folds),
        s.RecalibratedClassifierCV(forest, "beta", ensemble=True, **folds),
        s.regression.RecalibratedRegressorCV(**folds),
    ]


@pytest.mark.parametrize("which", range(7))
def test_jobs_and_seeds(which):
    X, y, _ = draw()
    with parallel_config("threading"):  # tests/sketches/test_dask.py has processes
        fits = (parallel_estimators(jobs)[which].fit(X, y) for jobs in (1, 2, None))
        alone, parallel, again = (answers(fitted, X) for fitted in fits)
    assert alone
    for name, value in alone.items():
        np.testing.assert_array_equal(parallel[name], value)
        np.testing.assert_array_equal(again[name], value)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=lambda r: r.__name__)
def test_the_order_of_samples_does_not_matter(recalibrator, tied):
    _, y, P = draw(200)
    if tied:
        P = np.round(4 * P)
        P = 0.9 * P / P.sum(axis=1, keepdims=True) + 0.1 / P.shape[1]
        assert len(np.unique(P.round(12), axis=0)) < len(y) / 5
    model = quick(recalibrator)  # folds are drawn by position: another order means other folds
    if recalibrator is s.recalibration.DiagonalOrderPreserving:
        model.set_params(shrinkage=1.0)
    expected = model.fit(P, y).predict_proba(P)
    order = np.random.default_rng(0).permutation(len(y))
    proba = model.fit(P[order], y[order]).predict_proba(P)
    np.testing.assert_allclose(proba, expected, rtol=1e-4, atol=1e-5)


# --- hostile forecasts ----------------------------------------------------------------------------

SPECIAL = [0.0, 1.0, 5e-324, 1e-310, 2.3e-308, 1e-300, 1e-17, 1e-16, 1 - 1e-16, 0.5, 0.3, 1e-7]
WEIGHTS = [0, 1, 0.5, 1e-12, 1e12]


@st.composite
def forecasts(draw, n_classes=None, rows=None):
    """Rows of a simplex with zeros, ones, subnormals and ties; some miss a sum of one."""
    n_classes = draw(st.integers(2, 4)) if n_classes is None else n_classes
    n_samples = draw(st.sampled_from([1, 2, 3, 5, 8, 20, 40])) if rows is None else rows
    value = st.one_of(st.sampled_from(SPECIAL), st.floats(0, 1, width=32))
    row = st.lists(value, min_size=n_classes, max_size=n_classes).filter(lambda r: sum(r) > 0)
    pool = draw(st.lists(row, min_size=1, max_size=6))
    kinds = np.array(pool) / np.sum(pool, axis=1, keepdims=True)
    which = draw(st.lists(st.integers(0, 5), min_size=n_samples, max_size=n_samples))
    P = kinds[np.array(which) % len(kinds)]
    return P * (1 + draw(st.sampled_from([0.0, 0.0, 1e-7, -1e-7, 1e-3])))


@st.composite
def problems(draw):
    """Forecasts, labels of one or all classes, and weights of any scale or none."""
    P = draw(forecasts())
    n_samples, n_classes = P.shape
    top = draw(st.sampled_from([0, n_classes - 1]))
    y = np.array(draw(st.lists(st.integers(0, top), min_size=n_samples, max_size=n_samples)))
    if draw(st.booleans()):
        y = np.minimum(P.argmax(axis=1), top)
    weight = None
    if draw(st.booleans()):
        weights = st.lists(st.sampled_from(WEIGHTS), min_size=n_samples, max_size=n_samples)
        weight = np.array(draw(weights)) * draw(st.sampled_from([1.0, 1e-290, 1e290]))
    return P, y, weight


def finite_or_refused(call):
    """The result, or None for an error of ours; no other exception, and no warning but ours."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except ValueError as error:
            place = traceback.extract_tb(error.__traceback__)[-1].filename
            # too few samples for the folds that were asked for: the splitter says it well
            ours = "skcalib" in place or place.endswith("_split.py")
            assert ours and len(str(error).split()) > 5, error
            result = None
    for warning in caught:
        text = str(warning.message)
        ours = issubclass(warning.category, ConvergenceWarning) or text.startswith("The regions ho")
        rare = text.startswith("The least populated class in y") or "classes, such as" in text
        rare |= "of X are left out: " in text or "of X is left out: " in text
        assert ours or rare, text
    return result


HOSTILE = [*(r() for r in RECALIBRATORS), *(v for v in variants() if v.input != "logits")]
HOSTILE += [s.VectorScaling(shrinkage=0), s.recalibration.MatrixScaling(shrinkage=0, loss="brier")]
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@pytest.mark.parametrize("recalibrator", HOSTILE, ids=label)
@settings(max_examples=6, **QUIET)
@given(problem=problems(), draws=st.data())
def test_hostile_forecasts_to_recalibrators(recalibrator, problem, draws):
    P, y, weight = problem
    model = clone(recalibrator).set_params(labels=list(range(P.shape[1])))
    new = draws.draw(forecasts(P.shape[1], 7))
    if finite_or_refused(lambda: model.fit(P, y, weight)) is None:
        return
    assert np.abs(P.sum(axis=1) - 1).max() < 2e-5  # anything else was refused
    assert not np.isnan(model.loss_before_) and not np.isnan(model.loss_after_)
    for forecast in (P, new):
        answer = finite_or_refused(lambda f=forecast: model.predict_proba(f))
        if answer is not None:
            assert np.isfinite(answer).all() and answer.min() >= 0
            np.testing.assert_allclose(answer.sum(axis=1), 1, atol=2e-5)
            assert model.predict(forecast).shape == (len(forecast),)


@pytest.mark.parametrize("loss", ["brier", "log", "spherical"])
@pytest.mark.parametrize("notion", ["canonical", "classwise", "top_label"])
@settings(max_examples=12, **QUIET)
@given(
    problem=problems(),
    method=st.sampled_from(["risk", "direct", "cross"]),
    smoother=st.sampled_from([None, "kernel", "isotonic", "binning"]),
)
def test_hostile_forecasts_to_the_calibration_error(loss, notion, problem, method, smoother):
    P, y, weight = problem
    options = {"loss": loss, "notion": notion, "method": method, "smoother": smoother}
    estimator = s.CalibrationErrorEstimator(**options, labels=range(P.shape[1]))
    if finite_or_refused(lambda: estimator.fit(P, y, weight)) is not None:
        numbers = answers(estimator, None)
        assert len(numbers) > 6 and not any(np.isnan(value).any() for value in numbers.values())


@pytest.mark.parametrize("loss", ["brier", "log"])
@pytest.mark.parametrize("partitioner", [None, "stump"])
@settings(max_examples=6, **QUIET)
@given(
    problem=problems(),
    notion=st.sampled_from(["canonical", "classwise", "top_label"]),
    seed=st.integers(0, 99),
    swap=st.booleans(),
)
def test_hostile_forecasts_to_the_grouping_loss(loss, partitioner, problem, notion, seed, swap):
    P, y, weight = problem
    values = [0, 1, 1e300, -1e300, 1e-300, 5e-324, 2, np.nan]
    X = np.random.default_rng(seed).choice(values, size=(len(y), 3))
    options = {"loss": loss, "notion": notion, "partitioner": partitioner, "swap": swap}
    estimator = s.GroupingLossEstimator(labels=range(P.shape[1]), n_permutations=5, **options)
    if finite_or_refused(lambda: estimator.fit(X, y, P, weight)) is not None:
        numbers = answers(estimator, None)
        assert np.isnan(numbers.pop("binned_epistemic_bound_"))  # documented: of "partition" only
        assert not any(np.isnan(value).any() for value in numbers.values()), numbers


class Oracle(ClassifierMixin, BaseEstimator):
    """Its probabilities are its features, with the columns of the classes that it was shown."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        P = np.asarray(X)[:, self.classes_]
        total = P.sum(axis=1, keepdims=True)
        return np.where(total > 0, P / np.where(total > 0, total, 1), 1 / len(self.classes_))


@pytest.mark.parametrize("recalibrator", [None, "select", s.PlattScaling()])
@settings(max_examples=12, **QUIET)
@given(problem=problems(), ensemble=st.booleans())
def test_hostile_classifiers(recalibrator, problem, ensemble):
    P, y, _ = problem
    model = s.RecalibratedClassifierCV(Oracle(), recalibrator, cv=KFold(2), ensemble=ensemble)
    if finite_or_refused(lambda: model.fit(P, y)) is not None:
        answer = finite_or_refused(lambda: model.predict_proba(P))
        assert np.isfinite(answer).all()
        np.testing.assert_allclose(answer.sum(axis=1), 1, atol=2e-5)
    crossed = finite_or_refused(lambda: s.CrossFitProba(Oracle(), cv=KFold(2)).fit_transform(P, y))
    assert crossed is None or np.isfinite(crossed).all()


MOMENT = st.sampled_from([0.0, 1.0, -3.0, 1e-8, 1e8, -1e40, 1e60, 1e-200, 5e-324, 1e300, np.inf])
MOMENTS = st.tuples(MOMENT, MOMENT, MOMENT, st.sampled_from(WEIGHTS))


@settings(max_examples=100, **QUIET)
@given(rows=st.lists(MOMENTS, min_size=1, max_size=9), fit_intercept=st.booleans())
def test_hostile_moments(rows, fit_intercept):
    y, mean, variance, weight = np.array(rows, dtype=float).reshape(-1, 4).T
    scaling = s.regression.VarianceScaling(fit_intercept=fit_intercept)
    moments = np.column_stack([mean, np.abs(variance)])
    if finite_or_refused(lambda: scaling.fit(moments, y, weight)) is not None:
        assert all(np.isfinite(value).all() for value in answers(scaling, moments).values())


def test_what_was_found_by_hostile_data():
    """Each of these was a raw warning, a NaN or somebody else's exception once."""
    tiny = np.array([0.0, 1e-323, 5e-324, 0.5, 1.0, 0.7])  # a slope that is no float
    for options in ({}, {"centered": True}, {"strict": True}):
        fitted = s.IsotonicRecalibrator(**options).fit(tiny, [0, 0, 1, 0, 1, 1])
        assert np.isfinite(fitted.predict_proba([5e-324, 1e-323, 1e-300, 3e-309])).all()
    _, y, P = draw(n_classes=2)
    X = np.column_stack([np.full(len(y), np.nan), np.arange(len(y))])
    risk = s.GroupingLossEstimator(method="risk", random_state=0)
    with pytest.warns(UserWarning, match=r"^A column of X is left out: x0 \(no value\)\.$"):
        risk.fit(X, y, y_proba=P)
    assert np.isfinite(risk.grouping_loss_)  # a feature without any value
    close = np.repeat([0.0, 5e-324, 1e-310, 0.3, 1.0], [18, 2, 18, 1, 1])
    some = s.GroupingLossEstimator(labels=[0, 1]).fit(close[:, None], [0, 1] * 20, y_proba=close)
    assert np.isfinite(some.grouping_loss_)  # slopes between these are no floats
    weight = np.random.default_rng(0).choice([1e-302, 1e-278, 1], 40)  # which vanish beside others
    for recalibrator in map(quick, RECALIBRATORS):
        assert np.isfinite(
            fit(recalibrator, P[:40], y[:40], sample_weight=weight).predict_proba(P)
        ).all()
    same = [[3.2e-308, 0, 1, 0], [3.1e-30, 0, 1e-323, 1], [1, 4.9e-317, 2.3e-301, 0]]
    curves = s.SplineScaling(labels=[0, 1, 2, 3]).fit(same, [3, 2, 1], [0, 1e-278, 5e-291])
    assert np.isfinite(curves.predict_proba(same)).all()  # knots with equal logits
    for method, words in (("partition", "of a single sample"), ("risk", "at least 4 samples")):
        with pytest.raises(ValueError, match=words):
            s.GroupingLossEstimator(method=method, labels=[0, 1]).fit([[1.0]], [1], y_proba=[0.5])
    with pytest.raises(ValueError, match="y_var.* holds 1e-120 in row 1.*Choose another unit"):
        s.regression.VarianceScaling().fit([[0, 1], [0, 1e-120]], [1, 2])
    with pytest.raises(ValueError, match="y_var.* holds 1e[+]120 in row 0"):
        s.regression.VarianceScaling().fit([[0, 1e120], [0, 1]], [1, 2])
    with pytest.raises(ValueError, match="predicts the class 2, which y lacks"):
        s.CrossFitProba(KnowsThree(), cv=3).fit_transform(np.ones((len(y), 3)), y)


class KnowsThree(Oracle):
    """A classifier whose classes do not come from y."""

    def fit(self, X, y):
        return super().fit(X, np.arange(3))


def test_weights_of_any_scale():
    _, y, P = draw(40)
    weight = np.linspace(1, 2, len(y))
    for recalibrator in map(quick, RECALIBRATORS):
        first, *others = (
            fit(recalibrator, P, y, sample_weight=scale * weight).predict_proba(P)
            for scale in (1, 1e-300, 1e300)
        )
        np.testing.assert_allclose(others, [first, first], atol=1e-4)


@pytest.mark.parametrize("size", [5, 7], ids=["whole", "divided"])
@pytest.mark.parametrize("cv", [TimeSeriesSplit(3), KFold(4)], ids=lambda cv: type(cv).__name__)
def test_groups_of_a_splitter_that_ignores_them(cv, size):
    """A warning tells how many groups are in both sets of a fold; none if there are none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y, groups = (X[:, 0] + rng.normal(size=300) > 0).astype(int), np.arange(300) // size
    model = LogisticRegression()
    fits = [
        lambda: s.RecalibratedClassifierCV(model, cv=cv).fit(X, y, groups=groups),
        lambda: s.CalibrationErrorEstimator(model, cv=cv).fit(X, y, groups=groups),
        lambda: s.ReliabilityDisplay.from_estimator(model, X, y, cv=cv, groups=groups),
    ]
    for fit in fits:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit()
        said = [str(warning.message) for warning in caught if "groups" in str(warning.message)]
        assert len(said) == (size == 7)
        assert all("takes no groups: 3 groups have samples in both the training" in sentence
                   for sentence in said)  # fmt: skip
