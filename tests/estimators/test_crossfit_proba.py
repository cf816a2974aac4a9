"""A classifier as a transformer, and the pipelines that begin with it."""

import numpy as np
import pytest
import sklearn.model_selection as ms
from joblib import Memory
from scipy.sparse import csr_array
from scipy.special import logit
from sklearn.base import clone, is_classifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

import skcalib as s
from skcalib.estimators.recalibrated import CrossFitProba

NAMES = np.array(["ape", "bee", "cat"])


def test_fit_transform_is_out_of_fold_and_transform_is_not(train_and_test):
    X, y, X_new, _ = train_and_test
    crossfit = CrossFitProba(GaussianNB(), cv=4)
    expected = ms.cross_val_predict(GaussianNB(), X, y, cv=4, method="predict_proba")
    np.testing.assert_allclose(crossfit.fit_transform(X, y), expected, rtol=1e-12)
    on_all = GaussianNB().fit(X, y)
    np.testing.assert_array_equal(crossfit.transform(X_new), on_all.predict_proba(X_new))
    np.testing.assert_array_equal(crossfit.transform(X), clone(crossfit).fit(X, y).transform(X))
    assert crossfit.classes_.tolist() == [0, 1, 2] and crossfit.n_features_in_ == X.shape[1]


def test_a_pipeline_is_a_classifier_and_cross_fitting_pays(train_and_test):
    """A forest recalibrated on its own training data believes that it is always right."""
    X, y, X_new, y_new = train_and_test
    forest = RandomForestClassifier(25, min_samples_leaf=3, random_state=0)
    model = make_pipeline(CrossFitProba(forest), s.TemperatureScaling(), s.IdentityRecalibrator())
    assert is_classifier(model)
    P = model.fit(X, NAMES[y]).predict_proba(X_new)
    assert set(model.predict(X_new)) <= set(NAMES) and model.classes_.tolist() == NAMES.tolist()
    assert model.score(X_new, NAMES[y_new]) > 0.4  # chance is a third
    by_hand = s.TemperatureScaling().fit(CrossFitProba(forest).fit_transform(X, y), y)
    assert model[1].temperature_ == pytest.approx(by_hand.temperature_)
    fitted = forest.fit(X, y)
    in_sample = s.TemperatureScaling().fit(fitted.predict_proba(X), y)
    wrong = in_sample.predict_proba(fitted.predict_proba(X_new))
    assert log_loss(y_new, wrong) > 1.5 * log_loss(y_new, P)


def test_folds_that_lack_a_class(train_and_test):
    X, y, *_ = train_and_test
    order = np.argsort(y, kind="stable")
    X, y = X[order], NAMES[y[order]]
    P = CrossFitProba(GaussianNB(), cv=ms.KFold(4)).fit_transform(X, y)
    assert P.shape == (len(y), 3)
    assert (P[: len(y) // 4, 0] < 1).any()
    # The class of the left-out group is unknown to its classifier.
    with pytest.raises(ValueError, match=r"fold 1 of 3 lack the class 'ape', .* stratified"):
        CrossFitProba(GaussianNB(), cv=ms.LeaveOneGroupOut()).fit_transform(X, y, groups=y)
    with pytest.raises(ValueError, match=r"fold 1 of 2 lack the class 'cat'"):
        CrossFitProba(GaussianNB(), cv=ms.KFold(2)).fit_transform(X[::-1], y[::-1])


class CountingNB(GaussianNB):
    """Counts its fits."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("kind", ["path", "str", "Memory"])
def test_memory_keeps_the_fits_of_a_search(train_and_test, tmp_path, kind):
    """Three maps, four outer folds and the final fit: one cross-fit of 5 + 1 for each data set."""
    X, y, X_new, _ = train_and_test
    memory = {"path": tmp_path, "str": str(tmp_path), "Memory": Memory(tmp_path, verbose=0)}[kind]
    maps = [s.TemperatureScaling(), s.PlattScaling(), s.IdentityRecalibrator()]
    results = []
    for cache in (None, memory):
        CountingNB.fits = 0
        chain = Pipeline([("proba", CrossFitProba(CountingNB(), memory=cache)), ("map", maps[0])])
        search = ms.GridSearchCV(chain, {"map": maps}, cv=4, scoring="neg_log_loss").fit(X, y)
        results.append((search.cv_results_["mean_test_score"], search.predict_proba(X_new)))
        assert CountingNB.fits == ((3 * 4 + 1) * 6 if cache is None else (4 + 1) * 6)
    for plain, cached in zip(*results, strict=True):
        np.testing.assert_array_equal(plain, cached)


def test_memory_depends_on_all_that_is_fitted(train_and_test, tmp_path):
    X, y, *_ = train_and_test
    CountingNB.fits = 0

    def proba(classifier=None, cv=2, rows=200, **params):
        classifier = CountingNB() if classifier is None else classifier
        crossfit = CrossFitProba(classifier, cv=cv, memory=tmp_path)
        return crossfit.fit_transform(X[:rows], y[:rows], **params)

    first = proba()
    np.testing.assert_array_equal(proba(), first)
    assert CountingNB.fits == 3
    others = {"classifier": CountingNB(var_smoothing=0.1)}, {"cv": 3}, {"rows": 190}
    for options in (*others, {"sample_weight": np.linspace(1, 2, 200)}):
        before = CountingNB.fits
        proba(**options)
        assert CountingNB.fits > before, options
    np.testing.assert_array_equal(proba(), first)
    with pytest.raises(ValueError, match="memory"):
        CrossFitProba(CountingNB(), memory=3).fit_transform(X, y)


def test_frozen_classifiers_are_used_as_they_are_and_fitted_ones_cloned(train_and_test):
    X, y, X_new, y_new = train_and_test
    classifier = GaussianNB().fit(X, y)
    crossfit = clone(CrossFitProba(FrozenEstimator(classifier), cv=3))
    expected = classifier.predict_proba(X_new)
    np.testing.assert_array_equal(crossfit.fit_transform(X_new, y_new), expected)
    np.testing.assert_array_equal(crossfit.fit(X_new, y_new).transform(X_new), expected)
    # a calibration set that lacks a class, as long as the recalibrator knows the classes
    two = y_new < 2
    model = make_pipeline(crossfit, s.TemperatureScaling(labels=[0, 1, 2]))
    assert model.fit(X_new[two], y_new[two]).predict_proba(X_new).shape == expected.shape
    for kind, fit in ((CrossFitProba, "fit_transform"), (s.RecalibratedClassifierCV, "fit")):
        short = kind(FrozenEstimator(GaussianNB().fit(X[y < 2], NAMES[y[y < 2]])))
        with pytest.raises(ValueError, match="y contains 'cat', but the classes of the frozen cla"):
            getattr(short, fit)(X_new, NAMES[y_new])
        with pytest.raises(NotFittedError, match="not fitted: fit it on other data before"):
            getattr(kind(FrozenEstimator(GaussianNB())), fit)(X, y)
        with pytest.warns(UserWarning, match="The fitted GaussianNB is cloned.*FrozenEstimator"):
            getattr(kind(classifier), fit)(X_new, y_new)
    with pytest.raises(NotFittedError, match="not fitted: fit it on other data"):
        CrossFitProba(FrozenEstimator(GaussianNB())).fit(X, y)
    with pytest.warns(UserWarning, match="The fitted Pipeline is cloned"):
        CrossFitProba(make_pipeline(GaussianNB()).fit(X, y)).fit(X_new, y_new)


def test_decision_values_and_sparse_features(train_and_test):
    X, y, *_ = train_and_test
    X, y = X[y < 2], y[y < 2]
    P = CrossFitProba(LinearSVC(random_state=0)).fit_transform(csr_array(X), y)
    margin = ms.cross_val_predict(LinearSVC(random_state=0), X, y, method="decision_function")
    correlation = np.corrcoef(margin, logit(P[:, 1]))[0, 1]
    assert correlation > 0.99  # a scale for each fold
    assert np.std(logit(P[:, 1])) == pytest.approx(np.pi / np.sqrt(3), rel=0.05)
    with pytest.raises(ValueError, match="has no predict_proba"):
        CrossFitProba(LinearSVC(), response_method="predict_proba").fit_transform(X, y)


def test_splitters(train_and_test):
    X, y, *_ = train_and_test
    repeated = ms.RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    folds = list(repeated.split(X, y))
    crossfits = (CrossFitProba(GaussianNB(), cv=cv) for cv in (repeated, folds[:3], folds[3:]))
    P, *halves = (crossfit.fit_transform(X, y) for crossfit in crossfits)
    np.testing.assert_allclose(P, np.mean(halves, axis=0))
    for crossfit, labels, words in (
        (CrossFitProba(cv=ms.TimeSeriesSplit(3)), y, "leave 69 of 270 samples untested"),
        (CrossFitProba(), None, "y to be passed"),
        (CrossFitProba(GaussianNB()), 0 * y, "one class"),
        (CrossFitProba(LinearRegression()), y, "classifier with predict_proba"),
    ):
        with pytest.raises(ValueError, match=words):
            crossfit.fit_transform(X, labels)
