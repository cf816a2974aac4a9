"""Every public estimator keeps scikit-learn's conventions: the table is in public_estimators.py."""

import re
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import sklearn
from engines import polars as pl
from public_estimators import (
    CHECKED,
    CHECKED_SLOWLY,
    EXEMPT,
    NOT_CHECKED,
    RECALIBRATORS,
    answers,
    data_for,
    draw,
    exemptions,
    instances,
    other_instances,
    public_estimators,
)
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import skcalib as s

INSTANCES = instances()
TRANSFORMERS = [(e, kind) for e, kind in INSTANCES if hasattr(e, "transform")]
pytestmark = pytest.mark.filterwarnings("ignore:The regions hold")  # of a hundred samples


def label(value):
    return re.sub(r"\s+", "", repr(value)) if isinstance(value, BaseEstimator) else str(value)


def test_no_public_estimator_is_missing():
    assert set(CHECKED) | set(NOT_CHECKED) == set(public_estimators())
    assert not set(CHECKED) & set(NOT_CHECKED)
    shown = {type(e) for e, _ in INSTANCES} | {type(instance) for instance in other_instances()}
    assert shown == set(public_estimators())


def test_every_exemption_has_a_reason_and_is_needed():
    reasons = [reason for checks in EXEMPT.values() for reason in checks.values()]
    assert all(len(reason.split()) > 5 for reason in reasons)
    assert set(EXEMPT) <= set(CHECKED)
    # That each is needed is held by xfail_strict: a check that passes unexpectedly is a failure.


@parametrize_with_checks(
    [estimator for forms in CHECKED.values() for estimator in forms],
    expected_failed_checks=exemptions,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    # their labels follow no projection, or are separable: the answer is finite, and warns
    check(estimator)


@parametrize_with_checks(CHECKED_SLOWLY, expected_failed_checks=exemptions)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
def test_scikit_learn_checks_at_length(estimator, check):
    check(estimator)


def test_the_filter_of_warnings_hides_nothing_else():
    with pytest.warns(ConvergenceWarning, match="do not follow the scores"):
        s.TemperatureScaling().fit([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0])


@pytest.mark.parametrize(("estimator", "kind"), INSTANCES, ids=label)
def test_whether_labels_are_required_is_tagged(estimator, kind):
    try:
        clone(estimator).fit(data_for(kind)[0], None)
        required = False
    except ValueError as error:
        required = "y" in str(error).split()
    assert get_tags(estimator).target_tags.required == required


def test_what_other_tags_say():
    several = get_tags(s.MultilabelRecalibrator()).target_tags
    assert several.multi_output and several.required
    for kind in (s.TemperatureScaling, s.BetaCalibration):
        tags = [get_tags(kind(input=name)).input_tags for name in ("proba", "logits")]
        assert [input_tags.positive_only for input_tags in tags] == [True, False]


@pytest.mark.parametrize("estimator", [*(e for e, _ in INSTANCES), *other_instances()], ids=label)
def test_clone_parameters_and_repr(estimator):
    copy = clone(estimator)
    assert copy is not estimator and repr(copy) == repr(estimator)
    parameters = estimator.get_params(deep=False)
    for name, value in parameters.items():
        assert copy.set_params(**{name: value}) is copy
        assert getattr(copy, name) is value
    objects = {name: object() for name in parameters}  # a constructor keeps what it is given
    assert type(estimator)(**objects).get_params(deep=False) == objects
    assert {n for n in vars(estimator) if not n.startswith("_")} == set(parameters)
    with pytest.raises(ValueError, match="Invalid parameter"):
        copy.set_params(no_such_parameter=1)
    assert type(estimator).__name__ in estimator._repr_html_()
    with sklearn.config_context(print_changed_only=False):
        assert all(f"{name}=" in repr(estimator) for name in parameters)


@pytest.mark.parametrize(("estimator", "kind"), INSTANCES, ids=label)
def test_fitting_keeps_parameters_and_can_be_repeated(estimator, kind):
    X, y = data_for(kind)
    before = repr(estimator)
    fitted = clone(estimator)
    assert fitted.fit(X, y) is fitted and repr(fitted) == before
    assert type(estimator).__name__ in fitted._repr_html_()
    first, again = answers(fitted, X), answers(fitted.fit(X, y), X)
    unfitted = clone(fitted)
    assert not [name for name in vars(unfitted) if name.endswith("_") and name[0] != "_"]
    second = answers(unfitted.fit(X, y), X)
    assert first.keys() == again.keys() == second.keys() and first
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name])
        np.testing.assert_array_equal(value, second[name])


@pytest.mark.parametrize(("estimator", "kind"), INSTANCES, ids=label)
def test_features_are_counted_and_named(estimator, kind):
    X, y = data_for(kind)
    names = [f"column{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    plain, named = clone(estimator).fit(X, y), clone(estimator).fit(frame, pd.Series(y))
    assert plain.n_features_in_ == named.n_features_in_ == X.shape[1]
    assert not hasattr(plain, "feature_names_in_")
    assert named.feature_names_in_.tolist() == names
    for method in ("predict_proba", "predict", "transform"):
        if hasattr(estimator, method):
            with pytest.raises(ValueError, match="feature names"):
                getattr(named, method)(frame.iloc[:, ::-1])
            with pytest.raises(ValueError, match="features|columns"):
                getattr(plain, method)(X[:, :1] if kind != "proba" else X[:, :2])
            np.testing.assert_allclose(
                getattr(plain, method)(X), getattr(named, method)(frame), rtol=1e-12
            )


@pytest.mark.parametrize(("estimator", "kind"), TRANSFORMERS, ids=label)
def test_output_frames(estimator, kind):
    X, y = data_for(kind)
    plain = clone(estimator).fit(X, y)
    names = plain.get_feature_names_out()
    expected = plain.transform(X)
    assert isinstance(expected, np.ndarray) and names.shape == (expected.shape[1],)
    assert names.dtype == object and all(isinstance(name, str) for name in names)
    frames = {"pandas": pd.DataFrame} | ({"polars": pl.DataFrame} if find_spec("polars") else {})
    for container, frame in frames.items():
        out = clone(estimator).set_output(transform=container).fit(X, y).transform(X)
        assert isinstance(out, frame) and list(out.columns) == names.tolist()
        np.testing.assert_array_equal(out.to_numpy(), expected)
        with sklearn.config_context(transform_output=container):
            assert isinstance(clone(estimator).fit_transform(X, y), frame)


@pytest.mark.parametrize(("estimator", "kind"), INSTANCES, ids=label)
def test_tags_are_true(estimator, kind):
    X, y = data_for(kind)
    tags = get_tags(estimator)
    regressor = isinstance(estimator, s.regression.RecalibratedRegressorCV)
    assert is_regressor(estimator) == regressor
    assert is_classifier(estimator) == (hasattr(estimator, "predict_proba"))
    assert (tags.transformer_tags is not None) == hasattr(estimator, "transform")
    assert tags.target_tags.required
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        clone(estimator).fit(X, None)
    missing = X.copy()
    missing[3, -1] = np.nan
    for accepted, bad in (
        (tags.input_tags.sparse, csr_array(X)),
        (tags.input_tags.allow_nan, missing),
        (not tags.input_tags.positive_only, np.where(X[3, -1] == X, -1.0, X)),
    ):
        if accepted and kind != "moments":
            clone(estimator).fit(bad, y)
        else:
            with pytest.raises((TypeError, ValueError), match=r"[Ss]parse|NaN|outside|negat|posit"):
                clone(estimator).fit(bad, y)
    if tags.transformer_tags is not None:
        single = clone(estimator).fit(X.astype(np.float32), y).transform(X.astype(np.float32))
        assert tags.transformer_tags.preserves_dtype == [] and single.dtype == np.float64
        with pytest.raises(NotFittedError):
            clone(estimator).transform(X)


def test_tags_follow_the_wrapped_estimator():
    trees = HistGradientBoostingClassifier
    for outer in (s.CalibrationErrorEstimator, s.CrossFitProba, s.RecalibratedClassifierCV):
        for inner in (trees(), LogisticRegression(), GaussianNB()):
            ours, theirs = get_tags(outer(inner)).input_tags, get_tags(inner).input_tags
            assert (ours.sparse, ours.allow_nan) == (theirs.sparse, theirs.allow_nan)
    assert not get_tags(s.GroupingLossEstimator(LogisticRegression())).input_tags.sparse
    assert not hasattr(s.CalibrationErrorEstimator(), "score")
    assert not hasattr(s.GroupingLossEstimator(), "score")


class Recorder(ClassifierMixin, BaseEstimator):
    """A classifier that keeps what its `fit` was given, in a list that clones share."""

    def __init__(self, log=None):
        self.log = log

    def __sklearn_clone__(self):
        copy = type(self)(self.log)
        if hasattr(self, "_metadata_request"):
            copy._metadata_request = self._metadata_request
        return copy

    def fit(self, X, y, sample_weight=None, mark=None):
        self.log.append((len(y), sample_weight, mark))
        self.classes_ = np.unique(y)
        self.frequency_ = np.bincount(np.searchsorted(self.classes_, y)) / len(y)
        return self

    def predict_proba(self, X):
        tilt = 1 + 0.5 * np.tanh(np.asarray(X)[:, :1] * np.arange(len(self.classes_)))
        P = self.frequency_ * tilt
        return P / P.sum(axis=1, keepdims=True)


def composites(estimator, cv):
    return [
        s.CalibrationErrorEstimator(estimator, cv=cv),
        s.GroupingLossEstimator(estimator, cv=cv, method="partition", n_permutations=0),
        s.CrossFitProba(estimator, cv=cv),
        s.RecalibratedClassifierCV(estimator, s.IdentityRecalibrator(), cv=cv),
        s.RecalibratedClassifierCV(estimator, s.IdentityRecalibrator(), cv=cv, ensemble=True),
    ]


def fit(composite, X, y, **metadata):
    """Fit out of fold: that is `fit_transform` of CrossFitProba."""
    method = "fit_transform" if isinstance(composite, s.CrossFitProba) else "fit"
    return getattr(composite, method)(X, y, **metadata)


@pytest.fixture
def metadata():
    X, y, _ = draw()
    rng = np.random.default_rng(1)
    return X, y, rng.random(len(y)) + 0.5, rng.integers(12, size=len(y))


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("which", range(5))
def test_metadata_goes_to_classifier_and_splitter(metadata, which, routing):
    X, y, weight, groups = metadata
    log = []
    folds = list(GroupKFold(3).split(X, y, groups))
    with sklearn.config_context(enable_metadata_routing=routing):
        inner = Recorder(log)
        if routing:
            inner.set_fit_request(sample_weight=True, mark=True)
        composite = composites(inner, GroupKFold(3))[which]
        fit(composite, X, y, sample_weight=weight, groups=groups, mark="here")
        of_folds = [entry for entry in log if entry[0] < len(y)]  # others are fits to all samples
        for (n, seen, mark), (train, _) in zip(of_folds, folds, strict=True):
            assert (n, mark) == (len(train), "here")
            np.testing.assert_array_equal(seen, weight[train])
        with pytest.raises(ValueError, match="groups"):
            fit(composite, X, y)


@pytest.mark.parametrize("which", range(5))
def test_metadata_goes_nowhere_without_a_request(metadata, which):
    X, y, weight, _ = metadata
    log = []
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            fit(composites(Recorder(log), 3)[which], X, y, sample_weight=weight)
        refused = composites(Recorder(log).set_fit_request(sample_weight=False), 3)[which]
        if isinstance(refused, s.CrossFitProba):  # it has no use for weights of its own
            with pytest.raises(TypeError, match="not routed to any object"):
                fit(refused, X, y, sample_weight=weight)
            return
        fit(refused, X, y, sample_weight=weight)
    assert log and all(seen is None for _, seen, _ in log)


@pytest.mark.parametrize("which", range(5))
def test_metadata_arrives_from_outside(metadata, which):
    """A pipeline hands weights and groups to the composite, which hands them on."""
    X, y, weight, groups = metadata
    with sklearn.config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        composite = composites(inner, GroupKFold(3))[which]
        alone = clone(composite)
        if hasattr(composite, "set_fit_request"):
            composite.set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        steps = [scaler, composite]
        if isinstance(composite, s.CrossFitProba):
            steps.append(s.IdentityRecalibrator().set_fit_request(sample_weight=False))
        chain = make_pipeline(*steps).fit(X, y, sample_weight=weight, groups=groups)
        X_scaled = StandardScaler().fit_transform(X)
        alone.fit(X_scaled, y, sample_weight=weight, groups=groups)
        expected, answer = answers(alone, X_scaled), answers(chain[1], X_scaled)
        for name, value in expected.items():
            np.testing.assert_array_equal(answer[name], value)


def test_searches_hand_groups_to_both_splitters(metadata):
    X, y, weight, groups = metadata
    with sklearn.config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        model = s.RecalibratedClassifierCV(inner, cv=GroupKFold(2))
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        grid = {"estimator__var_smoothing": [0.1]}
        search = GridSearchCV(model, grid, cv=GroupKFold(2), error_score="raise")
        search.fit(X, y, sample_weight=weight, groups=groups)
        assert search.best_estimator_.predict_proba(X).shape == (len(y), 3)
        ridge = BayesianRidge().set_fit_request(sample_weight=True)
        variance = s.regression.RecalibratedRegressorCV(ridge, cv=GroupKFold(2))
        variance.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        options = {"cv": GroupKFold(2), "params": {"sample_weight": weight, "groups": groups}}
        for estimator, features, target in ((model, X, y), (variance, X[:, 1:], X[:, 0])):
            results = cross_validate(estimator, features, target, error_score="raise", **options)
            assert np.isfinite(results["test_score"]).all()


@pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=lambda r: r.__name__)
def test_recalibrators_in_pipelines_get_their_weights(recalibrator, metadata):
    _, _, weight, _ = metadata
    _, y, P = draw()
    expected = recalibrator().fit(P, y, weight).predict_proba(P)
    plain = Pipeline([("first", s.IdentityRecalibrator()), ("last", recalibrator())])
    plain.fit(P, y, last__sample_weight=weight)
    np.testing.assert_array_equal(plain.predict_proba(P), expected)
    with sklearn.config_context(enable_metadata_routing=True):
        first = s.IdentityRecalibrator().set_fit_request(sample_weight=False)
        routed = make_pipeline(first, recalibrator().set_fit_request(sample_weight=True))
        routed.fit(P, y, sample_weight=weight)
    np.testing.assert_array_equal(routed.predict_proba(P), expected)


@pytest.mark.parametrize("estimator", [s.CalibrationErrorEstimator(), s.GroupingLossEstimator()])
def test_metadata_that_nobody_uses_is_refused(estimator):
    X, y, P = draw()
    plain = (P, {}) if isinstance(estimator, s.CalibrationErrorEstimator) else (X, {"y_proba": P})
    fitted = clone(estimator).set_params(estimator=GaussianNB().fit(X, y))
    for evaluator, features, forecasts in ((estimator, *plain), (fitted, X, {})):
        with pytest.raises(ValueError, match="got mark, but only a classifier that is cross-valid"):
            evaluator.fit(features, y, mark=y, **forecasts)
