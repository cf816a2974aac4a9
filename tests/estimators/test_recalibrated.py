"""Any recalibrator around any classifier, the choice among several, and pipelines of both."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.model_selection as ms
from grids import covering
from joblib import Memory
from scipy.sparse import csr_array
from scipy.special import logit
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

import skcalib as s
from skcalib.datasets import make_tempered_simplex
from skcalib.estimators.recalibrated import CrossFitProba, RecalibratedClassifierCV
from skcalib.recalibration import held_out

NAMES = np.array(["ape", "bee", "cat"])
TWICE = ms.RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)


class Halfway:
    """A third-party recalibrator: no base class, no get_params, no weights, fit returns None."""

    def __init__(self, share=0.5):
        self.share = share

    def fit(self, P, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.base_rates = counts / len(y)

    def predict_proba(self, P):
        P = np.asarray(P)[:, : len(self.classes_)]
        P = P / P.sum(axis=1, keepdims=True)
        return (1 - self.share) * P + self.share * self.base_rates


LOGS = FunctionTransformer(lambda P: np.log(np.maximum(P, 1e-12)))
OF_LOGS = make_pipeline(LOGS, LogisticRegression())  # scikit-learn's own parts as a recalibrator


def test_the_three_steps_by_hand(train_and_test):
    X, y, X_new, _ = train_and_test
    model = RecalibratedClassifierCV(GaussianNB(), "temperature", cv=4).fit(X, y)
    out_of_fold = ms.cross_val_predict(GaussianNB(), X, y, cv=4, method="predict_proba")
    expected = s.TemperatureScaling().fit(out_of_fold, y)
    assert model.recalibrator_.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    P = expected.predict_proba(GaussianNB().fit(X, y).predict_proba(X_new))
    np.testing.assert_allclose(model.predict_proba(X_new), P, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X_new), P.argmax(axis=1))
    assert model.selection_ is None and len(model.estimators_) == len(model.recalibrators_) == 1


def test_ensemble_by_hand(train_and_test):
    X, y, X_new, _ = train_and_test
    model = RecalibratedClassifierCV(GaussianNB(), s.HistogramBinning(n_bins=4), ensemble=True)
    model.fit(X, NAMES[y])
    answers = []
    for train, test in ms.StratifiedKFold(5).split(X, y):
        fold = GaussianNB().fit(X[train], y[train])
        binning = s.HistogramBinning(n_bins=4).fit(fold.predict_proba(X[test]), y[test])
        answers.append(binning.predict_proba(fold.predict_proba(X_new)))
    np.testing.assert_allclose(model.predict_proba(X_new), np.mean(answers, axis=0))
    assert len(model.recalibrators_) == 5 and model.recalibrator_ is model.estimator_ is None


ANY = [
    Halfway(),
    s.VectorScaling(shrinkage=10),
    s.recalibration.KernelRecalibrator(bandwidth=0.1),
    "auto",
    "select",
]
ANY += [OF_LOGS, make_pipeline("passthrough", s.PlattScaling())]
ANY += [make_pipeline(s.TemperatureScaling(), s.IsotonicRecalibrator())]
ANY += [
    ms.GridSearchCV(
        s.recalibration.MatrixScaling(), {"shrinkage": [1, 100]}, scoring="neg_log_loss", cv=3
    )
]


@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("recalibrator", ANY, ids=lambda recalibrator: type(recalibrator).__name__)
def test_any_recalibrator(train_and_test, recalibrator, ensemble):
    X, y, X_new, _ = train_and_test
    model = RecalibratedClassifierCV(GaussianNB(), recalibrator, cv=3, ensemble=ensemble)
    P = model.fit(X, NAMES[y]).predict_proba(X_new)
    assert P.shape == (len(X_new), 3) and P.min() >= 0
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert model.classes_.tolist() == NAMES.tolist()
    assert set(model.predict(X_new)) <= set(NAMES)


class OneClass(Halfway):
    """It has learned a single class, whatever it was fitted to."""

    def fit(self, P, y):
        self.classes_, self.base_rates = np.array([1]), np.ones(1)


class Sharper(s.TemperatureScaling):
    """A subclass with a `fit` of its own, which is called."""

    def fit(self, P, y, sample_weight=None):
        super().fit(P, y, sample_weight)
        self.temperature_ = 0.5
        return self


def test_a_recalibrator_is_fitted_by_its_own_method(train_and_test):
    """One that has learned a single class is certain of it."""
    X, y, X_new, _ = train_and_test
    P = RecalibratedClassifierCV(GaussianNB(), OneClass()).fit(X, y).predict_proba(X_new)
    np.testing.assert_array_equal(P, np.eye(3)[[1] * len(X_new)])
    model = RecalibratedClassifierCV(GaussianNB(), Sharper()).fit(X, y)
    assert model.recalibrators_[0].temperature_ == 0.5


def test_what_is_no_recalibrator_is_refused(train_and_test):
    X, y, X_new, _ = train_and_test
    make = RecalibratedClassifierCV
    for wrong in (StandardScaler(), "spline", s.TemperatureScaling, make_pipeline("passthrough")):
        with pytest.raises(ValueError, match=r"must have fit\(P, y\) and predict_proba\(P\)"):
            make(GaussianNB(), wrong).fit(X, y)
    broken = Halfway(share=0.5)
    broken.predict_proba = lambda P: 0.5 * np.asarray(P)
    with pytest.raises(ValueError, match=r"Each row of Halfway.predict_proba\(P\) must sum to 1"):
        make(GaussianNB(), broken).fit(X, y).predict_proba(X_new)
    with pytest.raises(ValueError, match="candidates must be a list"):
        make(GaussianNB(), "auto", candidates=[]).fit(X, y)
    with pytest.raises(ValueError, match=r"RecalibratedClassifierCV\(FrozenEstimator\(clf\)\)"):
        make(GaussianNB().fit(X, y), cv="prefit").fit(X, y)


def test_frozen_classifiers(train_and_test):
    X, y, X_new, y_new = train_and_test
    classifier = GaussianNB().fit(X, NAMES[y])
    model = RecalibratedClassifierCV(FrozenEstimator(classifier), "temperature", ensemble=True)
    model = clone(model).fit(X_new, NAMES[y_new])
    expected = s.TemperatureScaling().fit(classifier.predict_proba(X_new), y_new)
    assert model.recalibrator_.temperature_ == expected.temperature_
    assert model.estimator_.estimator is classifier


SOME = [s.BetaCalibration(labels=["will", "be", "replaced"]), s.HistogramBinning(n_bins=5), None]
SOME += [
    make_pipeline(
        s.TemperatureScaling(), make_pipeline(s.recalibration.MatrixScaling(shrinkage=10))
    )
]
SOME += [Halfway(), OF_LOGS]


@pytest.mark.parametrize("recalibrator", SOME, ids=lambda recalibrator: type(recalibrator).__name__)
def test_calibration_sets_that_lack_a_class(train_and_test, recalibrator):
    X, y, X_new, y_new = train_and_test
    there = y_new != 1
    model = RecalibratedClassifierCV(FrozenEstimator(GaussianNB().fit(X, NAMES[y])), recalibrator)
    P = model.fit(X_new[there], NAMES[y_new[there]]).predict_proba(X_new)
    assert P.shape == (len(X_new), 3) and model.classes_.tolist() == NAMES.tolist()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    if isinstance(recalibrator, Halfway):
        assert np.all(P[:, 1] == 0)  # it takes no labels and has never heard of this class


def test_folds_that_lack_a_class(train_and_test):
    X, y, X_new, _ = train_and_test
    order = np.argsort(y, kind="stable")
    X, y = X[order], NAMES[y[order]]
    for ensemble in (False, True):
        for cv, number in ((ms.KFold(3), r"\d of 3"), (ms.TimeSeriesSplit(6), r"\d of 6")):
            model = RecalibratedClassifierCV(GaussianNB(), cv=cv, ensemble=ensemble)
            words = rf"^The (training|test) samples of fold {number} .* the class '\w+'"
            with pytest.raises(ValueError, match=words):
                model.fit(X, y)
    rows = np.linspace(0, len(y) - 1, 30).astype(int)
    model = RecalibratedClassifierCV(GaussianNB(), cv=ms.LeaveOneOut(), ensemble=True)
    words = r"^The test samples of fold 1 of 30 have only the class '\w+', and with ensemble=True"
    with pytest.raises(ValueError, match=words):
        model.fit(X[rows], y[rows])
    # A class that a fold neither trains nor tests is no obstacle.
    two = np.random.RandomState(0).permutation(np.flatnonzero(y != NAMES[2]))
    folds = [(two[::2], two[1::2]), (np.arange(len(y))[::2], np.arange(len(y))[1::2])]
    model = RecalibratedClassifierCV(GaussianNB(), s.HistogramBinning(n_bins=5), cv=folds)
    assert model.fit(X, y).predict_proba(X_new).shape == (len(X_new), 3)


@pytest.mark.parametrize(
    ("cv", "ensemble", "recalibrator"),
    covering([TWICE, ms.TimeSeriesSplit(3)], [False, True], ["auto", "select"]),
)
def test_repeated_and_partial_splitters(train_and_test, cv, ensemble, recalibrator):
    X, y, X_new, _ = train_and_test
    options = {"ensemble": ensemble, "candidates": [s.TemperatureScaling(), s.VectorScaling()]}
    model, again = (
        RecalibratedClassifierCV(GaussianNB(), recalibrator, cv=folds, **options)
        for folds in (cv, cv.split(X, y))  # which can be read once
    )
    assert np.isfinite(model.fit(X, y).predict_proba(X_new)).all()
    assert len(model.estimators_) == (cv.get_n_splits() if ensemble else 1)
    np.testing.assert_array_equal(again.fit(X, y).predict_proba(X_new), model.predict_proba(X_new))


def test_data_frames_of_pipelines_and_sparse_features(train_and_test):
    X, y, X_new, y_new = train_and_test
    with sklearn.config_context(transform_output="pandas"):
        chain = make_pipeline(s.TemperatureScaling(), s.IsotonicRecalibrator())
        frame, new = (pd.DataFrame(features).add_prefix("feature") for features in (X, X_new))
        model = RecalibratedClassifierCV(GaussianNB(), chain, cv=2).fit(frame, NAMES[y])
        assert isinstance(model.predict_proba(new), np.ndarray)
    machine = RecalibratedClassifierCV(LinearSVC(random_state=0), "platt", cv=2).fit(
        csr_array(X), y
    )
    assert machine.score(csr_array(X_new), y_new) > 0.4


def test_weights_without_routing(train_and_test):
    X, y, X_new, _ = train_and_test
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    folds = list(ms.StratifiedKFold(3).split(X, y))
    chain = make_pipeline(s.TemperatureScaling(), "passthrough", s.PlattScaling())
    model = RecalibratedClassifierCV(GaussianNB(), chain, cv=folds)
    model.fit(X, y, sample_weight=weight)
    # the same, with repetition in place of weights
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    repeated = [[np.flatnonzero(np.isin(rows, part)) for part in fold] for fold in folds]
    again = clone(model).set_params(cv=repeated).fit(X[rows], y[rows])
    np.testing.assert_allclose(model.predict_proba(X_new), again.predict_proba(X_new), atol=1e-5)
    unweighted = clone(model).fit(X, y)
    assert np.abs(model.predict_proba(X_new) - unweighted.predict_proba(X_new)).max() > 0.01


@pytest.mark.parametrize("name", ["auto", "select", "temperature"])
def test_samples_of_weight_zero_are_as_if_dropped(train_and_test, name):
    X, y, X_new, _ = train_and_test
    counted = np.arange(len(y)) % 4 > 0
    folds, place = list(ms.StratifiedKFold(3).split(X, y)), np.cumsum(counted) - 1
    among = [tuple(place[rows[counted[rows]]] for rows in fold) for fold in folds]
    first, second = (RecalibratedClassifierCV(GaussianNB(), name, cv=cv) for cv in (folds, among))
    first.fit(X, y, sample_weight=1.0 * counted)
    second.fit(X[counted], y[counted])
    np.testing.assert_allclose(first.predict_proba(X_new), second.predict_proba(X_new), atol=1e-6)


def test_weights_go_where_they_are_taken(train_and_test):
    X, y, X_new, _ = train_and_test
    weight = np.random.default_rng(0).random(len(y))
    scaled = make_pipeline(StandardScaler(), GaussianNB())
    model = RecalibratedClassifierCV(scaled, s.IdentityRecalibrator())
    model.fit(X, y, sample_weight=weight)
    both = {f"{name}__sample_weight": weight for name in ("standardscaler", "gaussiannb")}
    expected = clone(scaled).fit(X, y, **both)
    np.testing.assert_allclose(model.predict_proba(X_new), expected.predict_proba(X_new))
    # parameters of the caller win
    model.fit(X, y, sample_weight=weight, gaussiannb__sample_weight=np.ones(len(y)))
    assert np.abs(model.predict_proba(X_new) - expected.predict_proba(X_new)).max() > 0.01
    search = ms.GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, cv=3)
    model = RecalibratedClassifierCV(search, s.IdentityRecalibrator(), ensemble=True)
    model.fit(X, y, sample_weight=weight)
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight.*recal"):
        neighbors = RecalibratedClassifierCV(KNeighborsClassifier(20), s.PlattScaling())
        neighbors.fit(X, y, sample_weight=weight)
    assert np.any(neighbors.recalibrator_.coef_ != clone(neighbors).fit(X, y).recalibrator_.coef_)
    with pytest.warns(UserWarning, match="Halfway takes no sample_weight.*classifier only"):
        RecalibratedClassifierCV(GaussianNB(), Halfway()).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        RecalibratedClassifierCV().fit(X, y, sample_weight=-weight)


def test_parameters_with_an_entry_for_each_sample_follow_the_folds(train_and_test):
    X, y, *_ = train_and_test
    seen = []

    class Reading(GaussianNB):
        def fit(self, X, y, **params):
            seen.append(params)
            return super().fit(X, y)

    whole = {"number": 3, "text": "x" * len(y), "table": dict.fromkeys(range(len(y)))}
    RecalibratedClassifierCV(Reading(), "temperature", cv=2).fit(
        X, y, rows=np.arange(len(y)), **whole
    )
    assert len(seen) == 3
    for params in seen:
        assert len(params.pop("rows")) in (len(y), len(y) // 2, (len(y) + 1) // 2)
        assert params == whole


def test_weights_that_the_classifier_refuses_go_to_the_recalibrator(train_and_test):
    X, y, *_ = train_and_test
    weight = np.random.default_rng(0).random(len(y))
    unweighted = RecalibratedClassifierCV(GaussianNB(), "temperature").fit(X, y)
    with sklearn.config_context(enable_metadata_routing=True):
        refused = GaussianNB().set_fit_request(sample_weight=False)
        only = RecalibratedClassifierCV(refused, "temperature").fit(X, y, sample_weight=weight)
        for classifier in (None, FrozenEstimator(GaussianNB().fit(X, y))):  # the default asks
            RecalibratedClassifierCV(classifier, "beta").fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(only.estimator_.theta_, GaussianNB().fit(X, y).theta_)
    assert only.recalibrator_.temperature_ != unweighted.recalibrator_.temperature_


# The selector


def chosen(P, y, candidates=None, n_folds=5, **options):
    folds = np.array_split(np.random.default_rng(0).permutation(len(y)), n_folds)
    classes = np.arange(P.shape[1])
    return held_out.select_recalibrator(candidates, P, y, classes=classes, folds=folds, **options)


@pytest.mark.parametrize(
    ("n_classes", "loss", "n_sets"),
    [
        (2, "brier", 1),
        *(
            pytest.param(k, loss, 3, marks=pytest.mark.slow)
            for k in (2, 3)
            for loss in ("log", "brier")
        ),
    ],
)
def test_leave_it_and_recalibrate_it(n_classes, loss, n_sets):
    """The true map is the simplest; another one is better by an error in a quarter."""
    left, names = [], []
    for seed in range(n_sets):
        good, bad = (
            make_tempered_simplex(n, n_classes, score_temperature=temperature, random_state=seed)
            for n, temperature in ((300, 0.9), (700, 0.4))
        )
        left.append(chosen(good.posterior, good.y)[0].chosen)
        record, recalibrator = chosen(bad.y_proba, bad.y, loss=loss)
        names.append(record.chosen)
        after = record.losses[record.names.index(record.chosen)]
        assert recalibrator.loss == loss and record.gain.low > 0
        assert record.gain.estimate == pytest.approx(record.losses[0] - after)
    assert left.count("IdentityRecalibrator") >= 0.6 * n_sets
    assert "TemperatureScaling" in names


@pytest.mark.slow
def test_complex_maps_are_chosen_where_they_earn_it():
    rng = np.random.default_rng(0)
    p = rng.random(3000)
    y = (rng.random(3000) < np.where(p < 0.5, 0.2, 0.9)).astype(int)
    record, _ = chosen(np.column_stack([1 - p, p]), y)
    assert record.chosen == "VennAbersRecalibrator"
    p = rng.random(20_000)
    y = rng.random(20_000) < np.array([0.5, 0.1, 0.9, 0.2, 0.8, 0.1, 0.9])[(7 * p).astype(int)]
    record, _ = chosen(np.column_stack([1 - p, p]), y.astype(int))
    assert record.chosen == "ModelAverageScaling"  # up and down: no monotone map is near
    y = rng.random(20_000) < np.array([0.1, 0.15, 0.6, 0.65, 0.95])[(5 * p).astype(int)]
    record, _ = chosen(np.column_stack([1 - p, p]), y.astype(int))
    assert record.chosen == record.best == "VennAbersRecalibrator"
    biased = make_tempered_simplex(3000, 3, random_state=0)
    P = biased.posterior * [1.0, 3.0, 9.0]
    record, _ = chosen(P / P.sum(axis=1, keepdims=True), biased.y)
    assert record.chosen == "InterceptRecalibrator"  # the odds are off by a factor for each class


def test_naive_bayes_with_exact_zeros_is_helped():
    """Half of the digits learns, the other judges; probabilities down to 1e-300, and zeros."""
    X, y = load_digits(return_X_y=True)
    model = RecalibratedClassifierCV(GaussianNB(), "select", cv=3).fit(X[::2], y[::2])
    raw, mapped = model.estimator_.predict_proba(X[1::2]), model.predict_proba(X[1::2])
    assert (raw == 0).any() and model.selection_.chosen != "IdentityRecalibrator"
    brier = [np.mean(np.sum((P - np.eye(10)[y[1::2]]) ** 2, axis=1)) for P in (raw, mapped)]
    floored = np.maximum(raw, 1e-30)  # the log loss as it is may be infinite
    assert log_loss(y[1::2], mapped) < 0.75 < log_loss(y[1::2], floored)
    assert brier[1] < brier[0] - 0.1


def test_the_short_lists_and_the_rule_of_one_standard_error():
    for n_classes in (2, 3):
        kinds = [type(candidate) for candidate in held_out.default_candidates(n_classes)]
        assert kinds[:2] == [s.IdentityRecalibrator, s.TemperatureScaling]
        assert kinds[-1] is s.IsotonicRecalibrator
    assert all(candidate.loss == "brier" for candidate in held_out.default_candidates(2, "brier"))

    def names(n_classes, n_samples=np.inf):
        candidates = held_out.default_candidates(n_classes, "log", n_samples)
        return {type(candidate).__name__ for candidate in candidates}

    assert names(20, 380) - names(20, 379) == names(20) - names(21) == {"MatrixScaling"}
    assert names(5) - names(6) == {"VennAbersRecalibrator"}
    assert names(200) - names(201) == {"ModelAverageScaling", "IsotonicRecalibrator"}
    rng = np.random.default_rng(0)
    best = rng.random(400)
    noise = rng.normal(size=400)
    noise -= noise.mean()
    error = np.sqrt(np.sum(noise**2) / 400 / 399)
    rows = np.array([best + noise + 1.01 * error, best + noise + 0.99 * error, best])
    record = held_out.one_standard_error(["a", "b", "c"], rows)
    assert (record.best, record.chosen) == ("c", "b")
    assert record.standard_errors == pytest.approx([error, error, 0])
    assert record.differences == pytest.approx([1.01 * error, 0.99 * error, 0])
    assert str(record).splitlines()[2].endswith("chosen")
    weight = rng.integers(1, 3, 400).astype(float)
    weighted = held_out.one_standard_error(["a", "b", "c"], rows, weight)
    assert weighted.losses[2] == pytest.approx(np.average(best, weights=weight))


def test_held_out_losses_are_held_out():
    """By hand: frequencies of the other folds."""
    sample = make_tempered_simplex(90, 2, random_state=0)
    candidates = [s.recalibration.LabelFrequency(), s.IdentityRecalibrator()]
    record, _ = chosen(sample.y_proba, sample.y, candidates, loss="brier")
    losses = np.empty(90)
    for test in np.array_split(np.random.default_rng(0).permutation(90), 5):
        train = np.setdiff1d(np.arange(90), test)
        fitted = s.recalibration.LabelFrequency().fit(sample.y_proba[train], sample.y[train])
        losses[test] = (fitted.predict_proba(sample.y_proba[test])[:, 1] - sample.y[test]) ** 2
    assert record.losses[0] == pytest.approx(losses.mean())
    assert record.losses[1] == pytest.approx(np.mean((sample.y_proba[:, 1] - sample.y) ** 2))


def test_infinite_losses_are_never_chosen():
    rng = np.random.default_rng(0)
    p = np.round(rng.random(200), 1)
    y = (rng.random(200) < 0.25 + 0.5 * p).astype(int)
    P = np.column_stack([1 - p, p])
    assert np.any(P[np.arange(200), y] == 0)
    record, _ = chosen(P, y)
    assert record.losses[0] == np.inf and record.chosen != "IdentityRecalibrator"
    assert record.gain.estimate == np.inf
    with pytest.raises(ValueError, match="Every candidate gives probability 0"):
        chosen(P, y, [s.IdentityRecalibrator()])
    assert chosen(P, y, [s.IdentityRecalibrator()], loss="brier")[0].chosen


def test_candidates_of_ones_own(train_and_test):
    X, y, X_new, _ = train_and_test
    chain = make_pipeline(s.TemperatureScaling(), s.PlattScaling())
    candidates = [s.IdentityRecalibrator(), Halfway(0.01), Halfway(0.5), chain]
    model = RecalibratedClassifierCV(GaussianNB(), "select", candidates=candidates).fit(X, y)
    names = ("IdentityRecalibrator", "Halfway-1", "Halfway-2", "Pipeline")
    assert model.selection_.names == names and model.selection_.chosen in names
    folds = list(ms.KFold(3).split(X))
    for ensemble in (False, True):
        model.set_params(ensemble=ensemble)
        once, twice = (clone(model).set_params(cv=cv).fit(X, y) for cv in (folds, 2 * folds))
        assert twice.selection_.losses == pytest.approx(once.selection_.losses, rel=1e-12)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    assert weighted.selection_.losses != model.selection_.losses
    assert np.isfinite(weighted.predict_proba(X_new)).all()
    classifier, weight = GaussianNB().fit(X[::2], y[::2]), 1.0 + weight
    few = {"candidates": [s.IdentityRecalibrator(), s.TemperatureScaling()], "loss": "brier"}
    model = RecalibratedClassifierCV(FrozenEstimator(classifier), "select", **few)
    model.fit(X, y, sample_weight=weight)
    losses = np.sum((classifier.predict_proba(X) - np.eye(3)[y]) ** 2, axis=1)
    assert model.selection_.losses[0] == pytest.approx(np.average(losses, weights=weight))


def test_select_follows_the_folds(train_and_test):
    X, y, *_ = train_and_test
    groups = np.arange(len(y)) % 4
    options = {"groups": groups, "cv": ms.LeaveOneGroupOut()}
    P = ms.cross_val_predict(GaussianNB(), X, y, method="predict_proba", **options)
    folds = [np.flatnonzero(groups == g) for g in range(4)]
    few = [s.IdentityRecalibrator(), s.TemperatureScaling()]
    expected, _ = held_out.select_recalibrator(few, P, y, classes=np.arange(3), folds=folds)
    select = {"recalibrator": "select", "candidates": few, "cv": ms.LeaveOneGroupOut()}
    model, frozen = (
        RecalibratedClassifierCV(classifier, **select).fit(X, y, groups=groups)
        for classifier in (GaussianNB(), FrozenEstimator(GaussianNB().fit(X, y)))
    )
    assert model.selection_.losses == pytest.approx(expected.losses)
    assert frozen.selection_ is not None
    one_fold = ms.PredefinedSplit(np.where(groups == 0, 0, -1))
    with pytest.raises(ValueError, match="needs at least two of them"):
        RecalibratedClassifierCV(GaussianNB(), "select", cv=one_fold).fit(X, y)


# --- A classifier as a transformer, and the pipelines that begin with it --------------------------


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


def test_folds_of_cross_fitting_that_lack_a_class(train_and_test):
    X, y, *_ = train_and_test
    order = np.argsort(y, kind="stable")
    X, y = X[order], NAMES[y[order]]
    P = CrossFitProba(GaussianNB(), cv=ms.KFold(4)).fit_transform(X, y)
    assert P.shape == (len(y), 3)
    assert (P[: len(y) // 4, 0] < 1).any()
    # The class of the left-out group is unknown to its classifier.
    with pytest.raises(ValueError, match=r"fold 1 of 3 lack the class 'ape', .* stratified"):
        CrossFitProba(GaussianNB(), cv=ms.LeaveOneGroupOut()).fit_transform(X, y, groups=y)


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
    platt = partial(RecalibratedClassifierCV, recalibrator="platt")
    for kind, fit in ((CrossFitProba, "fit_transform"), (platt, "fit")):
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
