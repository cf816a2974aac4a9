"""Proper calibration errors and their relatives: identities, invariances, refusals."""

from functools import partial

import numpy as np
import pytest
from conftest import Quartic
from grids import covering, rotated
from laws.planted import altered
from scipy.special import softmax
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

import skcalib as sk
from skcalib.data.notions import NOTIONS, Classwise, TopK
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.scores import SCORES, Brier, LogLoss, Lp, Spherical
from skcalib.smoothers import (
    CrossFitted,
    DirichletKernel,
    IsotonicSmoother,
    LevelSets,
    LogitSmoother,
    NearestNeighborsSmoother,
    QuantileBins,
    UniformBins,
)

METHODS = ["risk", "direct", "cross"]
#: Smoothers whose refinement is their loss on held-out labels.
BY_LOSS = [QuantileBins(5), UniformBins(4), LevelSets(), NearestNeighborsSmoother()]
BY_LOSS += [DirichletKernel(0.05, refinement="loss"), LogitSmoother()]
BY_LOSS += [CrossFitted(GaussianNB(), cv=3)]
SMOOTHERS = [*BY_LOSS, DirichletKernel(0.05), DirichletKernel()]
FINITE_LOG = [DirichletKernel(0.3, refinement="loss"), DirichletKernel(0.05), LogitSmoother()]
#: Notions for which a loss is the sum of its parts.
IDENTITY = ["canonical", "classwise", "top_label", TopK(2)]
ALL = [sk.proper_calibration_error, sk.refinement_loss, sk.sharpness, sk.score_decomposition]


@pytest.mark.parametrize(
    ("smoother", "loss", "notion"),
    [
        *covering([*SMOOTHERS, None], ["brier", "spherical", Quartic()], IDENTITY),
        *covering([*FINITE_LOG, None], ["log"], IDENTITY),
        (None, "brier", Classwise("sum")),
        (None, "log", Classwise("sum")),
    ],
    ids=str,
)
def test_loss_is_calibration_plus_refinement(smoother, loss, notion, multiclass):
    """Exactly, with the same smoother and method="risk", or with averaged maps."""
    y, proba = (array[:80] for array in multiclass)
    weight = np.random.default_rng(0).uniform(0.2, 2, len(y))
    for sample_weight in (None, weight):
        arguments = {
            "loss": loss,
            "notion": notion,
            "smoother": smoother,
            "sample_weight": sample_weight,
        }
        calibration = sk.proper_calibration_error(y, proba, **arguments)
        refinement = sk.refinement_loss(y, proba, **arguments)
        terms = sk.score_decomposition(y, proba, **arguments)
        assert calibration + refinement == pytest.approx(terms.loss, rel=1e-13)
        assert (terms.calibration, terms.refinement) == (calibration, refinement)
        assert terms.uncertainty - terms.sharpness == pytest.approx(refinement, rel=1e-13)
        assert terms.sharpness == sk.sharpness(y, proba, **arguments)


@pytest.mark.parametrize(("function", "smoother"), rotated(ALL, [None, "kernel"], 1))
def test_auto_is_cross_for_quadratic_scores_and_risk_for_others(function, smoother, multiclass):
    """By default the Brier score has averaged maps, without folds."""
    y, proba = (array[:60] for array in multiclass)
    # Quadratic by declaration, and none of ours.
    halved = altered(
        Brier, **dict.fromkeys(("entropy", "gradient"), lambda estimate: 0.5 * estimate)
    )()
    for loss, method in [("brier", "cross"), (halved, "cross"), ("spherical", "risk")]:
        options = {"loss": loss, "smoother": smoother}
        estimate = function(y, proba, **options)
        assert estimate == function(y, proba, **options, method="auto")
        same = estimate == function(y, proba, **options, method=method)
        assert same == (smoother is not None or loss != "brier")
        if method == "cross" and same:
            assert estimate != function(y, proba, **options, method="risk")


@pytest.mark.parametrize(
    ("method", "name", "smoother"),
    [
        *(("cross", "brier", DirichletKernel(0.05, refinement=r)) for r in ("entropy", "loss")),
        ("cross", "brier", LogitSmoother(cv=4)),
        *((m, s, LogitSmoother(cv=4)) for m in ("risk", "direct") for s in SCORES),
    ],
    ids=str,
)
def test_held_out_estimates_by_their_definition(method, name, smoother, multiclass):
    """The three formulas of DESIGN, written out with a smoother that is fitted here."""
    y, proba = multiclass
    target, score = np.eye(3)[y], SCORES[name]()
    conditional = clone(smoother).fit(proba, target).smooth_held_out()
    expected = {
        "direct": score.divergence(conditional, proba).mean(),
        "risk": (score.loss(target, proba) - score.loss(target, conditional)).mean(),
        "cross": np.sum((target - proba) * (conditional - proba), axis=1).mean(),
    }
    estimate = sk.proper_calibration_error(y, proba, loss=name, smoother=smoother, method=method)
    assert estimate == pytest.approx(expected[method], rel=1e-12)
    assert type(estimate) is float


NAMED = {"kernel": DirichletKernel(), "isotonic": IsotonicSmoother(), "binning": QuantileBins()}
NAMED |= {None: LogitSmoother(), GaussianNB(): CrossFitted(GaussianNB())}


@pytest.mark.parametrize(("name", "smoother"), NAMED.items(), ids=str)
def test_names_of_smoothers(name, smoother, binary):
    """Names and classifiers are short for objects, and objects stay unfitted."""
    y, proba = binary
    by_name, by_smoother = (
        sk.proper_calibration_error(y, proba, smoother=s, method="direct") for s in (name, smoother)
    )
    assert by_name == by_smoother and not hasattr(smoother, "forecast_")


def test_upper_bound_is_the_loss_above_its_infimum(multiclass, monkeypatch, set_sizes):
    """From blocks, without a copy or a one-hot target; to the last bit, however a block is cut."""
    y, proba = multiclass
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    summed = sk.calibration_upper_bound(y, proba, notion=Classwise("sum"))
    # the K binary Brier scores sum to the multiclass one
    assert summed == pytest.approx(sk.calibration_upper_bound(y, proba), rel=1e-12)
    for loss in (Brier(), LogLoss(), Spherical(), Quartic()):
        monkeypatch.undo()
        expected = loss.loss(np.eye(3)[y], proba).mean() - loss.infimum
        bound = sk.calibration_upper_bound(y, proba, loss=loss)
        assert bound == pytest.approx(expected, rel=1e-13)
        options = {"loss": loss, "sample_weight": weight}
        whole = sk.calibration_upper_bound(y, proba, **options)
        set_sizes(block_entries=60)
        assert sk.calibration_upper_bound(y, proba, **options) == whole


def test_slow_default_estimates_are_announced(set_sizes):
    """Of several classes only: slopes of single ones of 15 take 1 + (15 / 140)^2 = 1.011 times."""
    y, proba = np.arange(300) % 15, np.random.default_rng(0).dirichlet(np.ones(15), 300)
    set_sizes(slow_averages=1.02 * (300 + 300 / 20) * 15)
    expected = sk.proper_calibration_error(y, proba)  # a warning is an error
    set_sizes(slow_averages=1.01 * (300 + 300 / 20) * 15)
    words = "300 samples of 15 classes takes about ten sec"
    with pytest.warns(UserWarning, match=words) as caught:
        assert sk.proper_calibration_error(y, proba) == expected
    assert caught[0].filename == __file__
    sk.proper_calibration_error(y, proba, notion="classwise")


@pytest.mark.parametrize("smoother", [*SMOOTHERS, IsotonicSmoother()], ids=repr)
@pytest.mark.parametrize("method", METHODS)
def test_forecasts_of_exactly_zero_and_one(smoother, method):
    """Half right, half wrong: the true Brier error is 1/4, the estimate finite."""
    y, p = np.tile([0, 1, 0, 1], 30), np.tile([0.0, 0.0, 1.0, 1.0], 30)
    error = sk.proper_calibration_error(y, p, smoother=smoother, method=method)
    assert error == pytest.approx(0.25, abs=0.08)


@pytest.mark.parametrize("method", METHODS)
def test_perfect_forecasts(method, binary):
    """No loss, no error, no uncertainty; by the direct formula zeros are infinitely far."""
    y = np.tile([0, 1, 2], 20)
    for smoother in (LevelSets(), "kernel", NearestNeighborsSmoother(5)):
        error = sk.proper_calibration_error(y, np.eye(3)[y], smoother=smoother, method=method)
        assert error == pytest.approx(0, abs=1e-12)
    terms = sk.score_decomposition(y, np.eye(3)[y], loss="log", smoother="kernel")
    assert terms.sharpness == pytest.approx(terms.uncertainty) and terms.loss == 0
    assert sk.calibration_error(range(257), np.eye(257)) == 0  # one byte is not enough
    if method != "cross":
        error = sk.proper_calibration_error(*binary, loss="log", method=method)
        assert (error == np.inf) == (method == "direct")


@pytest.mark.parametrize(
    "smoother", [None, "kernel", "isotonic", "binning", LevelSets(), GaussianNB()]
)
@pytest.mark.parametrize("method", METHODS)
def test_one_class_only(smoother, method):
    """The calibrated score is 1, so the error is the whole loss; averaged maps have priors."""
    y, p = np.ones(60, int), np.linspace(0.1, 0.9, 60)
    error = sk.proper_calibration_error(y, p, smoother=smoother, method=method)
    near = {"abs": 0.025 if smoother is None else 1e-3}
    assert error == pytest.approx(np.mean((1 - p) ** 2), **near)
    assert sk.sharpness(y, p, smoother=smoother) == pytest.approx(0, **near)


def test_sharpness_of_features():
    """Its definition; a constant column tells nothing, whatever its value; one class has none."""
    sample = make_grouping_problem(100, random_state=0)
    y, X, target = sample.y, sample.X, np.eye(2)[sample.y]
    assert np.ptp(X, axis=0).min() > 1 and set(y) == {0, 1}
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    forecast = softmax(np.column_stack([np.zeros(100), z]), axis=1)
    conditional = DirichletKernel("risk", "loss").fit(forecast, target).smooth_held_out()
    expected = Brier().entropy(target.mean(axis=0)) - Brier().loss(target, conditional).mean()
    for features in (X, 1e200 * (X - X.max(axis=0)), 1e-200 * X):
        assert sk.sharpness(y, features, transform="simplex") == pytest.approx(expected, rel=1e-9)
    constant = [np.column_stack([X, np.full(100, value)]) for value in (0.0, 1e6)]
    sharpnesses = [sk.sharpness(y, features, transform="simplex") for features in constant]
    assert sharpnesses[0] == pytest.approx(sharpnesses[1])
    assert sk.sharpness(np.zeros(100, int), X, transform="simplex") == 0.0


@pytest.mark.parametrize("notion", ["classwise", "canonical", "top_label"])
def test_distances_by_the_direct_formula(notion):
    """The Lp errors of P24: the mean distance of the held-out scores from the forecasts."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), 200)
    y = rng.integers(3, size=200)
    options = {"notion": notion, "smoother": DirichletKernel(0.1)}
    error = partial(sk.proper_calibration_error, y, proba, method="direct", **options)
    errors, brier = {p: error(loss=Lp(p)) for p in (1, 2, 3)}, error()
    assert errors[2] == pytest.approx(brier, rel=1e-12)
    by_hand = []
    for forecast, target in NOTIONS[notion]().problems(proba, np.eye(3)[y]):
        curve = DirichletKernel(0.1).fit(forecast, target).smooth_held_out()
        half = 0.5 if forecast.shape[1] == 2 else 1
        by_hand.append(half * np.mean(np.sum(np.abs(curve - forecast) ** 3, axis=1)))
    assert errors[3] == pytest.approx(np.mean(by_hand), rel=1e-12)
    if notion == "classwise":
        summed = {**options, "notion": Classwise("sum"), "loss": Lp(1), "method": "direct"}
        total = sk.proper_calibration_error(y, proba, **summed)
        assert total == pytest.approx(3 * errors[1], rel=1e-12)
    if notion != "canonical":
        index = sk.integrated_calibration_index(y, proba, **options)
        assert errors[1] == pytest.approx(index, rel=1e-9)


def test_a_distance_has_an_interval():
    sample = make_tempered_simplex(60, 2, random_state=0)
    options = {"loss": Lp(1), "method": "direct", "smoother": QuantileBins(5)}
    metric = partial(sk.proper_calibration_error, **options)
    interval = sk.calibration_error_interval(
        sample.y, sample.y_proba, metric=metric, n_resamples=39
    )
    assert interval.method.startswith("jackknife")
    assert interval.low <= interval.estimate <= interval.high
