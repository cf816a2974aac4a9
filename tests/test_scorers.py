import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    cross_validate,
    permutation_test_score,
)
from sklearn.neighbors import NearestCentroid
from sklearn.tree import DecisionTreeClassifier

import skcalib as s
from skcalib import scorers
from skcalib.scorers import DecisionRegretScorer, DecompositionScorer, ProbaScorer, RefinementScorer

NAMES = np.array(["ape", "bee", "cat"])
EVERY = s.get_scorer_names()
CALIBRATION = [name for name in EVERY if name != "neg_grouping_loss"]


X, Y = make_classification(300, n_classes=3, n_informative=5, flip_y=0.1, random_state=0)
X2, Y2 = make_classification(240, n_informative=4, flip_y=0.2, random_state=0)
X2 = X2[:, :5]


def test_grouping_loss_reads_the_features():
    classifier = LogisticRegression().fit(X2, Y2)
    expected = s.GroupingLossEstimator(classifier, n_permutations=0, random_state=0).fit(X2, Y2)
    assert s.get_scorer("neg_grouping_loss")(classifier, X2, Y2) == -expected.grouping_loss_


def test_a_classifier_that_saw_one_class():
    """The class that it does not know has the probability 0."""
    same, y = np.zeros((50, 1)), np.arange(50) % 5 == 0
    alone, scorer = DummyClassifier().fit(same, y & False), s.get_scorer("neg_l1_calibration_error")
    assert scorer(alone, same, y) == pytest.approx(-0.2)
    with pytest.raises(ValueError, match="classifier and y have only one class, False"):
        scorer(alone, same, y & False)


class Fixed(ClassifierMixin, BaseEstimator):
    """Forecasts that are the only column of the features: nothing is learned."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])


def shifted(n_samples):
    """Labels whose probability is .3 less than the forecast, which is above .3."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.3, 1, n_samples)
    return p[:, None], (rng.random(n_samples) < p - 0.3).astype(int)


@pytest.mark.parametrize(
    "options",
    [{"threshold": 0.2}, {"threshold": 0.8, "pos_label": "ape"}, {"costs": [[0, 20], [80, 0]]}],
    ids=str,
)
def test_regret_is_that_of_the_function(options):
    p, y = shifted(2000)
    y, proba = NAMES[y], np.column_stack([1 - p, p])
    scorer, model = DecisionRegretScorer(**options), Fixed().fit(p, y)
    expected = s.decision_regret(y, proba, **options).calibration.estimate
    assert scorer(model, p, y) == pytest.approx(-expected, abs=1e-12)
    assert all(f"{name}=" in repr(scorer) for name in options)
    half = s.decision_regret(y, proba, threshold=0.5).calibration.estimate
    assert s.get_scorer("neg_decision_regret")(model, p, y) == pytest.approx(-half, abs=1e-12)


@pytest.mark.parametrize(("loss", "scaling"), [("log", None), ("brier", s.TemperatureScaling())])
def test_refinement_and_parts_are_those_of_the_function(loss, scaling):
    y, weight = NAMES[Y], np.random.default_rng(0).random(300)
    model, options = LogisticRegression().fit(X, y), {"loss": loss, "sample_weight": weight}
    proba = model.predict_proba(X)
    parts = s.score_decomposition(y, proba, method="risk", smoother=scaling, **options)
    scorer = DecompositionScorer(loss, scaling)
    scores = scorer(model, X, y, sample_weight=weight)
    # Forecasts beyond those of the other folds are mapped by the line that continues the map.
    assert scores == {name: pytest.approx(-getattr(parts, name), abs=1e-5) for name in scores}
    alone = RefinementScorer(loss, scaling)(model, X, y, sample_weight=weight)
    assert alone == pytest.approx(scores["refinement"], abs=1e-12)
    options = {"scoring": scorer, "refit": "refinement", "error_score": "raise", "cv": 2}
    search = GridSearchCV(LogisticRegression(), {"C": [1e-4, 1.0]}, **options).fit(X, y)
    assert search.best_score_ == max(search.cv_results_["mean_test_refinement"])
    assert search.score(X, y) == scorer(search, X, y)["refinement"]
    best = search.best_score_
    assert search.fit(X, y, sample_weight=weight).best_score_ != best  # without routing


def test_refinement_is_the_entropy_of_the_calibrated_forecasts():
    """P(Y = 1 | S) is uniform on [0, .7]; a loss has a standard deviation below .4."""
    p, y = shifted(10_000)
    q = np.linspace(0, 0.7, 9999)[1:-1]
    scores = DecompositionScorer()(Fixed().fit(p, y), p, y)
    truth = np.mean(q * np.log(q) + (1 - q) * np.log(1 - q))
    assert scores["refinement"] == pytest.approx(truth, abs=0.016) and scores["calibration"] < -0.1


@pytest.mark.parametrize("options", [{}, {"recalibrator": "isotonic", "cv": KFold(9)}], ids=str)
def test_refinement_of_a_rare_class_and_of_maps_that_exclude_a_label(options):
    y = np.where(np.arange(300) < 3, 2, Y % 2)
    scores = DecompositionScorer(**options)(LogisticRegression().fit(X, y), X, y)
    assert np.isfinite(scores["loss"]) and np.isinf(scores["refinement"]) == bool(options)
    assert scores["calibration"] == (np.inf if options else scores["loss"] - scores["refinement"])
    if options:
        certain = DecisionTreeClassifier(random_state=0).fit(X[10:], y[10:])
        scores = DecompositionScorer(**options)(certain, X, y)
        assert scores == {"loss": -np.inf, "calibration": 0, "refinement": -np.inf}


def test_refused_parameters():
    regret, refinement, parts = DecisionRegretScorer, RefinementScorer, DecompositionScorer
    for kind, options, message in (
        (regret, {}, "Pass either threshold= .* or costs="),
        (regret, {"threshold": 0.2, "costs": [[0, 1], [1, 0]]}, "Pass either threshold"),
        (regret, {"threshold": 20}, "strictly between 0 and 1, got 20"),
        (regret, {"costs": [1, 2]}, "costs"),
        (refinement, {"loss": 3.5}, "loss must (be|have) .* 3.5"),
        (refinement, {"recalibrator": 3.5}, "recalibrator must (be|have) .* 3.5"),
        (parts, {"cv": -1}, "cv must be .* -1"),
        (parts, {"random_state": -1}, "random_state must be .* -1"),
    ):
        with pytest.raises(ValueError, match=message):
            kind(**options)


def every_scorer():
    """All of them; of the grouping loss its quickest estimate, with few regions."""
    return {name: s.get_scorer(name) for name in EVERY if name != "neg_grouping_loss"} | {
        "neg_grouping_loss": scorers.GroupingScorer(method="partition", n_bins=1, region_ratio=20)
    }


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True]], ids=str)
def test_every_search_takes_every_scorer(labels):
    y, scoring, model = np.array(labels)[Y2], every_scorer(), LogisticRegression()
    options = {"cv": 2, "error_score": "raise"}
    in_one_job, in_two_jobs = (
        cross_validate(model, X2, y, scoring=scoring, n_jobs=jobs, **options) for jobs in (1, 2)
    )
    for name, scorer in scoring.items():
        assert np.isfinite(in_one_job[f"test_{name}"]).all()
        np.testing.assert_array_equal(in_two_jobs[f"test_{name}"], in_one_job[f"test_{name}"])
        search = GridSearchCV(model, {"C": [0.01, 1.0]}, scoring=scorer, **options).fit(X2, y)
        assert np.isfinite(search.best_score_)
        assert search.best_score_ == search.cv_results_["mean_test_score"].max()
        assert search.score(X2, y) == scorer(search, X2, y)


@pytest.mark.parametrize("name", EVERY)
def test_halving_and_permutations(name):
    model, options = LogisticRegression(), {"scoring": every_scorer()[name], "cv": 2}
    options |= {"random_state": 0}
    search = HalvingGridSearchCV(
        model, {"C": [0.01, 0.1, 1.0]}, min_resources=80, error_score="raise", **options
    ).fit(X2, NAMES[Y2])
    assert search.n_iterations_ == 2 and np.isfinite(search.best_score_)
    score, permuted, pvalue = permutation_test_score(model, X2, Y2, n_permutations=2, **options)
    assert np.isfinite([score, *permuted]).all() and 0.3 <= pvalue <= 1


def test_multimetric_lists():
    """A list of names goes through get_scorers: scikit-learn looks names up in its own register."""
    names = ["neg_log_loss", *CALIBRATION[:2]]
    scoring = s.get_scorers(names)
    assert list(scoring) == names
    search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, scoring=scoring, refit=names[0])
    assert {f"mean_test_{name}" for name in names} <= search.fit(X2, Y2).cv_results_.keys()
    for refused in (names, [s.get_scorer(name) for name in CALIBRATION[:2]]):
        with pytest.raises(ValueError, match="scor"):
            cross_validate(LogisticRegression(), X2, Y2, scoring=refused)
    first, second = s.get_scorers(CALIBRATION), s.get_scorers(CALIBRATION)
    assert all(first[name] is not second[name] for name in CALIBRATION)
    for request, words in (
        (2 * names[:1], "named twice"),
        ([first[names[1]]], "names must be a list"),
    ):
        with pytest.raises(ValueError, match=words):
            s.get_scorers(request)


@pytest.mark.parametrize("name", EVERY)
def test_every_scorer_routes_weights(name):
    weight = np.random.default_rng(0).random(300) + 0.1
    classifier = LogisticRegression().fit(X, Y)
    expected = every_scorer()[name](classifier, X, Y, sample_weight=weight)
    if name != "neg_max_calibration_error":
        assert expected != every_scorer()[name](classifier, X, Y)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = every_scorer()[name].set_score_request(sample_weight="importance")
        options = {"cv": [(np.arange(300), np.arange(300))], "error_score": "raise"}
        options |= {"scoring": asked, "params": {"importance": weight}}
        results = cross_validate(FrozenEstimator(classifier), X, Y, **options)
        assert results["test_score"].tolist() == [expected]
        # Requests are in the copy: the next one asked for has none.
        options = {"scoring": s.get_scorer(name), "params": {"sample_weight": weight}}
        unweighted = LogisticRegression().set_fit_request(sample_weight=False)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            cross_validate(unweighted, X, Y, **options)
        with pytest.raises(ValueError, match="alias"):
            asked.set_score_request(sample_weight=1.5)


def test_scorers_of_one_search_route_each_their_own():
    """Beside one of scikit-learn: one with weights, one without, and one in a nested search."""
    weight = np.random.default_rng(0).random(240) + 0.1
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = LogisticRegression().set_fit_request(sample_weight=True)
        scoring = s.get_scorers([*CALIBRATION[:2], "neg_log_loss"])
        for asks, scorer in zip((True, False, True), scoring.values(), strict=True):
            scorer.set_score_request(sample_weight=asks)
        options = {"cv": 3, "params": {"sample_weight": weight}, "error_score": "raise"}
        results = cross_validate(classifier, X2, Y2, scoring=scoring, n_jobs=2, **options)
        for name, scorer in scoring.items():
            alone = cross_validate(classifier, X2, Y2, scoring=scorer, **options)["test_score"]
            np.testing.assert_array_equal(results[f"test_{name}"], alone)
        both = {"scoring": scoring, "refit": "neg_log_loss", "cv": 2}
        search = GridSearchCV(classifier, {"C": [0.1, 1]}, **both).fit(X2, Y2, sample_weight=weight)
        assert np.isfinite(search.score(X2, Y2, sample_weight=weight))
        calibration_scorer = scoring[CALIBRATION[0]]
        nested = GridSearchCV(classifier, {"C": [0.1, 1]}, scoring=calibration_scorer, cv=2)
        scores = cross_validate(nested, X2, Y2, scoring=calibration_scorer, **options)["test_score"]
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", EVERY)
def test_what_is_no_classifier_is_refused(name):
    scorer = every_scorer()[name]
    with pytest.raises(ValueError, match="LinearRegression has neither predict_proba nor decision"):
        scorer(LinearRegression().fit(X, Y), X, Y)
    with pytest.raises((ValueError, NotFittedError), match=r"IsolationForest|fitted classifier"):
        scorer(IsolationForest(n_estimators=5, random_state=0).fit(X), X, Y)
    with pytest.raises(NotFittedError):
        scorer(LogisticRegression(), X, Y)
    proba = {"response_method": "predict_proba"}
    regret = DecisionRegretScorer(costs=1 - np.eye(3), **proba)
    for strict in (ProbaScorer(s.proper_calibration_error, **proba), regret):
        with pytest.raises(ValueError, match="RidgeClassifier has no predict_proba"):
            strict(RidgeClassifier().fit(X, Y), X, Y)
    hard = RidgeClassifier().fit(X, Y)  # margins, and they stand for logits
    assert np.isfinite(scorer(hard, X, Y))
    votes = NearestCentroid().fit(X, Y)
    if not hasattr(votes, "predict_proba"):
        with pytest.raises(ValueError, match="NearestCentroid has neither predict_proba nor"):
            scorer(votes, X, Y)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("n_folds", [3, 4])
def test_every_scorer_takes_folds_that_lack_a_class(name, n_folds):
    """Sorted labels: of three folds, every test class is new to the classifier."""
    order = np.argsort(Y, kind="stable")
    options = {"scoring": every_scorer()[name], "cv": KFold(n_folds), "error_score": "raise"}
    scores = cross_validate(LogisticRegression(), X[order], NAMES[Y[order]], **options)[
        "test_score"
    ]
    impossible = name == "neg_log_calibration_error" and n_folds == 3  # and it happened
    assert np.isfinite(scores).all() != impossible and not np.isnan(scores).any()
    if name == "neg_brier_calibration_error" and n_folds == 3:
        assert np.all(scores < -0.5)  # wrong for all, and often certain
