"""Recalibrators: optima, declared guarantees, conventions, and what happens at the edges."""

from contextlib import nullcontext

import numpy as np
import pytest
from conftest import Quartic
from dense_directions import labels_from
from golden import golden_input, needs_golden
from public_estimators import RECALIBRATORS, quick
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix

import skcalib as s
from skcalib.datasets import make_tempered_simplex
from skcalib.links import BinaryMap
from skcalib.links.maps import optimal_inverse_temperature
from skcalib.recalibration import BinaryLinkRecalibrator
from skcalib.recalibration.scaling import STRENGTHS, lowest_inverse_temperature
from skcalib.scores import Brier, LogLoss, Spherical
from skcalib.testing import check_recalibrator

SCORES = {"log": LogLoss(), "brier": Brier(), "spherical": Spherical()}
VARIANTS = [
    s.TemperatureScaling(loss="brier"),
    s.recalibration.EnsembleTemperatureScaling(loss="log"),
    s.InterceptRecalibrator(loss="brier"),
    s.PlattScaling(smooth_targets=True),
    s.BetaCalibration(parameters="am"),
    s.BetaCalibration(parameters="ab", loss="brier"),
    s.VectorScaling(),
    s.VectorScaling(shrinkage=0, loss="brier"),
    s.recalibration.DiagonalOrderPreserving(variant="pieces"),
    s.IsotonicRecalibrator(centered=True),
    s.IsotonicRecalibrator(strict=True),
    s.recalibration.KernelRecalibrator(bandwidth=0.05),
    s.HistogramBinning(n_bins=5, strategy="uniform"),
]
SLOW = (
    s.StackedRecalibrator,
    s.GroupRecalibrator,
    s.recalibration.KernelRecalibrator,
    s.recalibration.ModelAverageScaling,
)
EVERY = [
    pytest.param(recalibrator, id=f"{i}-{type(recalibrator).__name__}")
    for i, recalibrator in enumerate(
        [*(quick(kind) for kind in RECALIBRATORS if kind not in SLOW), *VARIANTS]
    )
]
#: Maps that contain the identity, for two classes; one against the rest loses it beyond them.
WITH_IDENTITY = [
    s.TemperatureScaling,
    s.recalibration.EnsembleTemperatureScaling,
    s.InterceptRecalibrator,
    s.recalibration.LabelNoiseScaling,
    s.PlattScaling,
    s.BetaCalibration,
    s.recalibration.QuadraticScaling,
    s.VectorScaling,
    s.recalibration.MatrixScaling,
    s.DirichletCalibration,
    s.recalibration.DiagonalOrderPreserving,
]
UNCHANGED = s.IdentityRecalibrator, s.LabelShiftRecalibrator  # `fit` with labels gives the identity
every = pytest.mark.parametrize("recalibrator", EVERY)
sizes = pytest.mark.parametrize("n_classes", [2, 3, 5])


def draw(n_samples, n_classes, *, seed=0, temper=0.6):
    """Over-confident forecasts inside the simplex, labels of every class."""
    world = make_tempered_simplex(n_samples, n_classes, score_temperature=temper, random_state=seed)
    y = world.y.copy()
    y[:n_classes] = np.arange(n_classes)
    assert world.y_proba.min() > 0 and len(np.unique(y)) == n_classes
    return world.y_proba, y


def spread(n_classes, n_samples=200, seed=1):
    """New forecasts: anywhere, near corners, at corners, at the centre, and tied."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(n_classes), n_samples)
    near = rng.dirichlet(np.full(n_classes, 0.1), n_samples // 4)
    tied = rows[:10].copy()
    tied[:, :2] = tied[:, :2].mean(axis=1, keepdims=True)
    return np.vstack([rows, near, np.eye(n_classes), np.full((1, n_classes), 1 / n_classes), tied])


def assert_almost_all_close(mapped, expected):
    """Rounding may carry a forecast over the edge of a bin, and an optimum is a tolerance wide."""
    assert np.mean(np.abs(mapped - expected).max(axis=1) < 2e-3) > 0.9


def warned(words, fit, *samples):
    """The result of a fit that warns of its convergence."""
    with pytest.warns(ConvergenceWarning, match=words):
        return fit(*samples)


def mean_loss(score, P, y, weight=None):
    return np.average(score.loss(np.eye(P.shape[1])[y], P), weights=weight)


@sizes
@pytest.mark.parametrize("loss", SCORES)
def test_temperature_is_optimal(loss, n_classes):
    P, y = draw(400, n_classes)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))

    def objective(beta):
        return mean_loss(SCORES[loss], softmax(beta * np.log(P), axis=1), y, weight)

    best = minimize_scalar(objective, bounds=(0.1, 3), method="bounded", options={"xatol": 1e-11})
    scaling = s.TemperatureScaling(loss=loss).fit(P, y, weight)
    assert 1 / scaling.temperature_ == pytest.approx(best.x, rel=1e-6)
    assert scaling.loss_after_ == pytest.approx(best.fun, rel=1e-12)
    assert scaling.loss_before_ == pytest.approx(objective(1), rel=1e-12)


@needs_golden
def test_golden_data():
    """The squared error of ensembles is a mean over columns; Brier is their sum, halved for two."""
    rows = [
        ("bin500", 1.6533929635241729, 1.6963944650170946, 0.19638757156952028, 0.5740162250631731),
        ("tri300", 1.7871186510762562, 1.8208102705137514, 0.1984094577266867, 0.9851393807757302),
    ]
    for (name, log, brier, squared, log_of_ensemble), factor in zip(rows, (1, 3), strict=True):
        y, P = golden_input(name)
        assert s.TemperatureScaling().fit(P, y).temperature_ == pytest.approx(log, rel=1e-9)
        scaling = s.TemperatureScaling(loss="brier").fit(P, y)
        assert scaling.temperature_ == pytest.approx(brier, rel=1e-6)
        ensembles = (
            s.recalibration.EnsembleTemperatureScaling(loss=loss).fit(P, y)
            for loss in ("brier", "log")
        )
        losses = [ensemble.loss_after_ for ensemble in ensembles]
        assert losses == pytest.approx([factor * squared, log_of_ensemble], abs=1e-8)
    y, P = golden_input("bin500")
    scaling = s.PlattScaling(smooth_targets=True).fit(P[:250], y[:250])
    assert scaling.coef_[0] == pytest.approx(0.565158468909948, abs=1e-5)
    assert scaling.intercept_[0] == pytest.approx(0.4854713831841712, abs=1e-5)


@pytest.mark.parametrize("loss", SCORES)
@sizes
def test_ensemble_weights_are_optimal(loss, n_classes):
    """Against a grid over the simplex of weights, at the temperature that was found."""
    P, y = draw(300, n_classes, seed=4)
    P = 0.5 * P + 0.5 * np.roll(P, 1, axis=0)  # noise: the uniform distribution gets weight
    scaling = s.recalibration.EnsembleTemperatureScaling(loss=loss).fit(P, y)
    tempered = softmax(np.log(P) / scaling.temperature_, axis=1)
    grid = [(a, b, 1 - a - b) for a in np.linspace(0, 1, 41) for b in np.linspace(0, 1 - a, 41)]
    values = [mean_loss(SCORES[loss], a * tempered + b * P + c / n_classes, y) for a, b, c in grid]
    assert scaling.loss_after_ <= min(values) + 1e-9
    assert scaling.weights_.min() >= 0 and scaling.weights_.sum() == pytest.approx(1, abs=1e-12)
    expected = np.tensordot(scaling.weights_, [tempered, P, np.full(P.shape, 1 / n_classes)], 1)
    np.testing.assert_allclose(scaling.predict_proba(P), expected, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_maps_of_one_logit_are_logistic_regressions(weighted):
    """Of the features of each map, without a penalty, as scikit-learn fits them."""
    P, y = draw(800, 2, seed=2)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else None
    z = logit(P[:, 1])
    for recalibrator, features, intercept in (
        (s.PlattScaling(), z[:, None], True),
        (s.recalibration.QuadraticScaling(), np.column_stack([z, z**2]), True),
        (s.BetaCalibration(), np.log(P[:, ::-1]) * [1, -1], True),
        (s.BetaCalibration(parameters="ab"), np.log(2 * P[:, ::-1]) * [1, -1], False),
        (s.BetaCalibration(parameters="am"), z[:, None], True),
    ):
        model = LogisticRegression(C=np.inf, fit_intercept=intercept, tol=1e-10, max_iter=10_000)
        model.fit(features, y, weight)
        fitted = recalibrator.fit(P, y, weight)
        coef = np.ravel(fitted.coef_)[: features.shape[1]]
        assert model.coef_.min() > 0 or isinstance(recalibrator, s.recalibration.QuadraticScaling)
        np.testing.assert_allclose(coef, model.coef_[0], atol=1e-5)
        values, expected = fitted.intercept_, model.intercept_
        if not intercept:  # the features are logarithms of twice the forecasts
            expected = np.log(2) * (coef[0] - coef[1])
            half = fitted.predict_proba(np.array([[0.5, 0.5]]))
            np.testing.assert_allclose(half, 0.5, atol=1e-12)
        np.testing.assert_allclose(values, expected, atol=1e-5)
        p = fitted.predict_proba(P)[:, 1]
        np.testing.assert_allclose(p, model.predict_proba(features)[:, 1], atol=1e-6)


def test_a_temperature_with_biases_of_two_classes_is_logistic_regression():
    """Up to a prior of a hundredth of a sample."""
    P, y = draw(400, 2)
    z = logit(P[:, 1:])
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(z, y)
    fitted = s.recalibration.BiasCorrectedTemperatureScaling().fit(P, y)
    assert 1 / fitted.temperature_ == pytest.approx(model.coef_[0, 0], rel=1e-3)
    assert np.diff(fitted.intercept_) == pytest.approx(model.intercept_, abs=1e-3)
    np.testing.assert_allclose(fitted.predict_proba(P), model.predict_proba(z), atol=1e-3)


def test_biases_come_where_the_classes_ask_for_them():
    """Constant forecasts keep the frequencies; those of several classes are shrunken."""
    P, bias = np.random.default_rng(0).dirichlet(np.ones(4), 5000), np.array([1, -0.5, -0.5, 0])
    y = labels_from(softmax(np.log(P) + bias, axis=1), np.random.default_rng(1))
    intercept = s.recalibration.BiasCorrectedTemperatureScaling().fit(P, y).intercept_
    np.testing.assert_allclose(intercept - intercept.mean(), bias - bias.mean(), atol=0.12)
    for n_classes in (2, 4):
        y = np.repeat(np.arange(n_classes), np.arange(1, n_classes + 1) * 100)
        P = np.full((len(y), n_classes), 1 / n_classes)
        rows = s.recalibration.BiasCorrectedTemperatureScaling().fit(P, y).predict_proba(P)
        np.testing.assert_allclose(rows, rows[:1] + 0 * rows, rtol=1e-12)
        np.testing.assert_allclose(rows[0], np.bincount(y) / len(y), atol=0.01)
    for excess, pvalue in ((20, 0.018), (22, 0.008)):  # Pearson's chi-square with 2 degrees
        P, y = np.full((300, 3), 1 / 3), np.repeat(range(3), [100 + excess, 100 - excess, 100])
        intercept = s.recalibration.BiasCorrectedTemperatureScaling().fit(P, y).intercept_
        assert (np.ptp(intercept) > 0) == (pvalue < 0.01)


def test_beta_keeps_its_slopes_from_falling_below_zero():
    p = np.linspace(0.05, 0.95, 200)
    y = (np.random.default_rng(0).random(200) < 1 - p).astype(int)
    fitted = s.BetaCalibration().fit(p, y)
    np.testing.assert_array_equal(fitted.coef_, 0)
    assert not fitted.injective_ and not fitted.preserves_order_
    np.testing.assert_allclose(fitted.predict_proba(p)[:, 1], y.mean(), atol=1e-6)


def test_one_against_the_rest_is_divided_by_the_sum():
    P, y = draw(500, 3)
    fitted = s.PlattScaling().fit(P, y)
    maps = [s.PlattScaling().fit(P[:, k], y == k) for k in range(3)]
    np.testing.assert_allclose([platt.coef_[0] for platt in maps], fitted.coef_, rtol=1e-6)
    p = np.stack([platt.predict_proba(P[:, k])[:, 1] for k, platt in enumerate(maps)], axis=1)
    np.testing.assert_allclose(fitted.predict_proba(P), p / p.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("cls", [s.recalibration.MatrixScaling, s.DirichletCalibration])
def test_matrix_scaling_without_shrinkage_is_multinomial_regression(cls):
    P, y = draw(600, 3, seed=5)
    fitted = cls(shrinkage=0, max_iter=5000, tol=1e-9).fit(P, y)
    model = LogisticRegression(C=np.inf, tol=1e-9, max_iter=10_000).fit(np.log(P), y)
    new = softmax(np.log(spread(3)[:200]), axis=1)
    expected = model.predict_proba(np.log(new))
    np.testing.assert_allclose(fitted.predict_proba(new), expected, atol=2e-4)
    assert fitted.coef_.shape == (3, 3) and fitted.intercept_.shape == (3,)
    image = softmax(np.log(new) @ fitted.coef_.T + fitted.intercept_, axis=1)
    np.testing.assert_allclose(fitted.predict_proba(new), image, atol=1e-12)
    vector = s.VectorScaling(shrinkage=0).fit(P, y)
    image = softmax(vector.coef_ * np.log(new) + vector.intercept_, axis=1)
    np.testing.assert_allclose(vector.predict_proba(new), image, atol=1e-12)
    shift = np.random.default_rng(0).normal(0, 3, (600, 1))  # cancels in logits
    logits = s.VectorScaling(shrinkage=0, input="logits").fit(np.log(P) + shift, y)
    np.testing.assert_allclose(logits.predict_proba(np.log(new) - 1), image, atol=1e-6)


@pytest.mark.parametrize("cls", WITH_IDENTITY)
@pytest.mark.parametrize("loss", [*SCORES, Quartic()], ids=str)
def test_the_loss_falls_where_the_map_contains_the_identity(cls, loss):
    for n_classes in (2,) if cls in WITH_IDENTITY[2:5] else (2, 4):
        P, y = draw(150, n_classes, seed=0)
        fitted = cls(loss=loss).fit(P, y)
        assert fitted.loss_after_ <= fitted.loss_before_ + 1e-12
        score = SCORES.get(loss, loss) if isinstance(loss, str) else loss
        after = mean_loss(score, fitted.predict_proba(P), y)
        assert fitted.loss_after_ == pytest.approx(after, rel=1e-9)
        assert fitted.loss_before_ == pytest.approx(mean_loss(score, P, y), rel=1e-9)
        if n_classes == 2 and not hasattr(fitted, "shrinkage"):  # the others minimise other losses
            others = (cls(loss=name).fit(P, y).predict_proba(P) for name in SCORES if name != loss)
            assert fitted.loss_after_ < min(mean_loss(score, Q, y) for Q in others)


@pytest.mark.parametrize("cls", [s.VectorScaling, s.recalibration.MatrixScaling])
def test_shrinkage_goes_from_temperature_scaling_to_the_whole_map(cls):
    P, y = draw(300, 4, seed=1)
    temperature = s.TemperatureScaling().fit(P, y)
    fits = [cls(shrinkage=strength).fit(P, y) for strength in (np.inf, 1e6, 100, 1, 0)]
    assert fits[0].n_iter_ > 0 and fits[0].preserves_order_ and fits[0].injective_
    np.testing.assert_allclose(fits[0].predict_proba(P), temperature.predict_proba(P), atol=1e-12)
    np.testing.assert_allclose(fits[1].predict_proba(P), temperature.predict_proba(P), atol=1e-3)
    losses = [fit.loss_after_ for fit in fits]
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1] + 1e-3
    off_diagonal = [np.abs(np.diff(np.ravel(fit.coef_))).max() for fit in fits[:2]]
    assert cls is s.recalibration.MatrixScaling or off_diagonal[0] == 0


def test_dirichlet_shrinks_all_but_the_diagonal():
    P, y = draw(400, 3, seed=2)
    y = np.where((y == 0) & (np.random.default_rng(0).random(400) < 0.5), 1, y)
    fitted = s.DirichletCalibration(shrinkage=1e7).fit(P, y)
    off = fitted.coef_[~np.eye(3, dtype=bool)]
    assert np.abs(off).max() < 1e-3 and np.abs(fitted.intercept_).max() < 1e-3
    assert np.ptp(np.diag(fitted.coef_)) > 0.05


def test_auto_shrinkage_is_strong_where_the_truth_is_a_temperature():
    strengths = []
    for seed in range(5):
        P, y = draw(200, 4, seed=seed)
        strengths.append(s.VectorScaling().fit(P, y).shrinkage_)
    assert s.VectorScaling(loss="brier").fit(P, y).shrinkage_ in STRENGTHS
    assert np.median(strengths) > 100 and np.inf in strengths


def test_auto_shrinkage_is_weak_where_classes_are_biased():
    P, y = draw(2000, 4)
    biased = softmax(np.log(P) + [1.0, -1.0, 0.0, 0.0], axis=1)
    y = labels_from(biased, np.random.default_rng(1))
    fitted = s.VectorScaling().fit(P, y)
    assert fitted.shrinkage_ <= 100
    centred = fitted.intercept_ - fitted.intercept_.mean()
    np.testing.assert_allclose(centred, [1, -1, 0, 0], atol=0.35)
    for loss in ("log", "brier"):  # too few to choose
        assert s.VectorScaling(loss=loss).fit(P[:8], y[:8]).shrinkage_ == np.inf


@pytest.mark.parametrize("variant", ["network", "pieces"])
@pytest.mark.parametrize("loss", SCORES)
def test_diag_is_never_above_temperature_in_training(variant, loss):
    for seed in range(6):
        n_classes = 2 + seed % 4
        P, y = draw(60 + 40 * seed, n_classes, seed=seed, temper=[0.5, 1.5][seed % 2])
        diag = s.recalibration.DiagonalOrderPreserving(variant=variant, loss=loss).fit(P, y)
        assert diag.loss_after_ <= s.TemperatureScaling(loss=loss).fit(P, y).loss_after_ + 1e-12
        new = spread(n_classes)
        assert np.array_equal(diag.predict(new), new.argmax(axis=1))


@pytest.mark.parametrize("variant", ["network", "pieces"])
def test_diag_learns_what_a_temperature_cannot(variant):
    """Labels that follow softmax(g(log s)), g with a bend."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), 1500)
    z = np.log(P)
    Q = softmax(np.where(z < -1.5, 0.1 * (z + 1.5), 2 * (z + 1.5)), axis=1)
    y = labels_from(Q, rng)
    diag = s.recalibration.DiagonalOrderPreserving(variant=variant).fit(P, y)
    temperature = s.TemperatureScaling().fit(P, y)
    divergence = [np.mean(LogLoss().divergence(Q, r.predict_proba(P))) for r in (diag, temperature)]
    assert divergence[0] < 0.2 * divergence[1]
    assert np.diff(diag.transform_logits(np.linspace(-12, 0, 500))).min() > 0
    assert diag.transform_logits(np.zeros((2, 3))).shape == (2, 3)


def test_isotonic_maps():
    """That of scikit-learn, through the centres of its steps, and strictly increasing."""
    P, y = draw(300, 2)
    p, grid = P[:, 1], np.linspace(0, 1, 2001)
    everywhere = np.append(p, grid)
    for weight in (None, np.random.default_rng(0).uniform(0.5, 2, 300)):
        expected = IsotonicRegression(out_of_bounds="clip").fit(p, y, weight).predict(everywhere)
        mapped = s.IsotonicRecalibrator().fit(P, y, weight).predict_proba(everywhere)[:, 1]
        np.testing.assert_allclose(mapped, expected, atol=1e-12)
    centered = s.IsotonicRecalibrator(centered=True).fit(P, y)
    strict = s.IsotonicRecalibrator(strict=True).fit(P, y)
    curve = IsotonicRegression(out_of_bounds="clip").fit(p, y).predict(p)
    for level in np.unique(curve):
        centre = p[curve == level].mean()
        assert centered.predict_proba([centre])[0, 1] == pytest.approx(level, abs=1e-12)
    plain, mapped = (isotonic.predict_proba(grid)[:, 1] for isotonic in (centered, strict))
    assert (np.diff(plain) >= 0).all() and not centered.injective_
    assert (np.diff(mapped) > 0).all() and strict.injective_
    assert mapped[0] == 0 and mapped[-1] == 1 and mapped[1] > 0 and mapped[-2] < 1
    np.testing.assert_allclose(mapped, plain, atol=1.01 / 301)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("weighted", [False, True])
def test_histogram_binning_is_the_equation_of_f24(strategy, weighted):
    P, y = draw(100, 2, seed=6)  # of which ten bins hold equally many
    if strategy == "uniform":
        P[:5] = [0.4, 0.6]  # a tie, on an edge of ten bins
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 4, 100).astype(float) if weighted else np.ones(100)
    b = np.arange(1, 10)
    edges = b / 10 if strategy == "uniform" else np.sort(P[:, 1])[10 * b - 1]
    bins = np.searchsorted(edges, P[:, 1])  # how many edges are below the score
    expected = (np.bincount(bins, weight * y) / np.bincount(bins, weight))[bins]
    fitted = s.HistogramBinning(n_bins=10, strategy=strategy).fit(P, y, weight)
    np.testing.assert_allclose(fitted.predict_proba(P)[:, 1], expected, atol=1e-12)


def test_label_frequency_by_counts():
    P, y = draw(200, 3)
    fitted = s.recalibration.LabelFrequency().fit(P, y)
    frequencies = confusion_matrix(P.argmax(axis=1), y, normalize="true")
    np.testing.assert_allclose(fitted.frequencies_, frequencies, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(np.eye(3)), frequencies)
    lone = s.recalibration.LabelFrequency(labels=[0, 1, 2]).fit(
        [[0.8, 0.1, 0.1], [0.6, 0.4, 0]], [0, 1]
    )
    np.testing.assert_array_equal(lone.frequencies_, np.tile([0.5, 0.5, 0], (3, 1)))
    assert not lone.preserves_argmax_


@pytest.mark.parametrize("recalibrator", VARIANTS)
def test_laws(recalibrator):
    """Of all variants, also for five classes; `tests/laws` has the defaults."""
    check_recalibrator(recalibrator, n_classes=(2, 3, 5))


def test_what_is_declared_may_depend_on_the_data():
    """What each family declares by default is in the recorded numbers of tests/laws."""
    P, y = draw(300, 2)
    assert not s.IsotonicRecalibrator(strict=True).fit(P, y).preserves_argmax_
    assert s.VectorScaling(shrinkage=10).fit(P, y).injective_
    P, y = draw(300, 3)
    assert not s.IsotonicRecalibrator(strict=True).fit(P, y).injective_
    assert s.recalibration.DiagonalOrderPreserving(variant="pieces").fit(P, y).preserves_order_
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 3000)
    y = labels_from(softmax(np.log(P) * [1.0, 1.0, -1.0], axis=1), rng)  # slopes of both signs
    fitted = s.VectorScaling(shrinkage=0).fit(P, y)
    assert fitted.coef_[0] > 0 > fitted.coef_[2] and not fitted.injective_
    assert not s.recalibration.MatrixScaling(shrinkage=0.1).fit(P, y).injective_
    average = s.recalibration.ModelAverageScaling().fit(P[:300], y[:300])
    assert not average.injective_ | average.preserves_order_ | average.preserves_argmax_


@every
def test_the_order_of_classes_does_not_matter(recalibrator):
    P, y = draw(150, 3)
    plain = clone(recalibrator).fit(P, y)
    names, order = np.array(["ash", "birch", "oak"]), np.array([2, 0, 1])
    turned = clone(recalibrator).set_params(labels=names[order])
    turned.fit(P[:, order], names[y])
    assert list(turned.classes_) == ["oak", "ash", "birch"]
    assert turned.get_feature_names_out()[2].endswith("_birch")
    mapped = turned.predict_proba(P[:, order])
    np.testing.assert_allclose(mapped, plain.predict_proba(P)[:, order], atol=2e-3)


@every
def test_a_class_that_y_lacks(recalibrator):
    P, y = draw(150, 4)
    keep = y != 2
    fitted = clone(recalibrator).set_params(labels=[0, 1, 2, 3])
    steep = getattr(fitted, "shrinkage", 1) == 0 and not isinstance(fitted, s.InterceptRecalibrator)
    stated = pytest.warns(ConvergenceWarning, match="Some classes have no label")
    with stated if steep else nullcontext():
        fitted.fit(P[keep], y[keep])
    rows = fitted.predict_proba(P)
    assert rows.shape == (150, 4) and np.isfinite(rows).all()
    with pytest.raises(ValueError, match=r"pass labels=range\(4\) if labels are the numbers of c"):
        clone(recalibrator).fit(P[y % 3 > 0], y[y % 3 > 0])
    with pytest.raises(ValueError, match="pass labels= with the class of each column of"):
        clone(recalibrator).fit(P[y % 3 > 0], np.array(list("abcd"))[y[y % 3 > 0]])


@every
@sizes
def test_logits_are_another_way_to_write_forecasts(recalibrator, n_classes):
    """Whatever is added to a row of logits; one column is the logit of the positive class."""
    P, y = draw(150, n_classes)
    rows = clone(recalibrator).fit(P, y).predict_proba(P)
    shift = np.random.default_rng(0).normal(size=(150, 1)) * 3
    fitted = clone(recalibrator).set_params(input="logits").fit(np.log(P) + shift, y)
    assert_almost_all_close(fitted.predict_proba(np.log(P) - shift), rows)
    if n_classes == 2:
        z = logit(P[:, 1])
        for column in (z, z[:, None]):
            fitted = clone(recalibrator).set_params(input="logits").fit(column, y)
            assert_almost_all_close(fitted.predict_proba(column), rows)


#: Beside those of which scikit-learn's checks say it.
REPEATED = [
    s.TemperatureScaling(loss="brier"),
    s.PlattScaling(),
    s.VectorScaling(shrinkage=0),
    s.PlattScaling(smooth_targets=True),
    s.recalibration.QuadraticScaling(loss="spherical"),
    s.recalibration.MatrixScaling(shrinkage=0, max_iter=3000),
    s.IsotonicRecalibrator(centered=True),
    s.HistogramBinning(n_bins=4, strategy="uniform"),
    s.recalibration.KernelRecalibrator(bandwidth=0.05),
    s.recalibration.BiasCorrectedTemperatureScaling(),
]


@pytest.mark.parametrize("recalibrator", REPEATED, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_integer_weights_are_repetitions(recalibrator, n_classes):
    """Where nothing counts samples: no shrinkage, no ranks, no folds."""
    P, y = draw(150, n_classes)
    times = np.random.default_rng(0).integers(1, 4, 150)
    if recalibrator.get_params().get("smooth_targets"):
        times[:] = 1  # Platt's targets count samples, so weights only average
    weighted = clone(recalibrator).fit(P, y, times + 2 * (times.max() == 1)).predict_proba(P)
    P_more, y_more = np.repeat(P, times, axis=0), np.repeat(y, times)
    repeated = clone(recalibrator).fit(P_more, y_more).predict_proba(P)
    np.testing.assert_allclose(weighted, repeated, atol=2e-4)
    once = clone(recalibrator).fit(P, y).predict_proba(P)
    assert times.max() == 1 or np.abs(weighted - once).max() > 1e-3


def separable(n_classes, seed=0):
    P = np.random.default_rng(seed).dirichlet(np.ones(n_classes), 120)
    return P, P.argmax(axis=1)


@pytest.mark.parametrize("loss", SCORES)
@sizes
def test_temperatures_at_the_ends_of_the_search(loss, n_classes):
    """Separable labels, and labels against the scores; uniform forecasts leave it alone."""
    P, y = separable(n_classes)
    words = "separable.*the smallest of the search, 0.0001"
    scaling = warned(words, s.TemperatureScaling(loss=loss).fit, P, y)
    assert scaling.temperature_ == pytest.approx(1e-4) and scaling.loss_after_ < 1e-6
    assert np.isfinite(scaling.predict_proba(P)).all()
    warned("do not follow.*the largest of the search, 10000", scaling.fit, P, P.argmin(axis=1))
    assert scaling.temperature_ == pytest.approx(1e4, rel=1e-6)
    np.testing.assert_allclose(scaling.predict_proba(P), 1 / n_classes, atol=1e-3)
    assert scaling.fit(np.full(P.shape, 1 / n_classes), y).temperature_ == 1
    # With a wide margin.
    warned("separable by the scores", scaling.fit, [0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    assert scaling.temperature_ == pytest.approx(1e-4)


@pytest.mark.parametrize(("period", "phase", "centre"), [(10, 2, -6.3), (26, 3.6, -9.2)])
def test_the_lowest_of_many_optima_between_the_nodes_of_a_grid(period, phase, centre):
    """Waves are shorter than the steps, so that the slopes of neighbours enclose no minimum."""

    def losses(beta):
        t = np.log(beta)
        values = (t - centre) ** 2 + np.sin(period * t + phase)
        return values, 2 * (t - centre) + period * np.cos(period * t + phase)

    best, n_betas = lowest_inverse_temperature(losses, 1e-4, 1e4)
    dense = losses(np.geomspace(1e-4, 1e4, 200_001))[0]
    assert losses(best)[0] == pytest.approx(dense.min(), abs=1e-6) and 2 * 41 < n_betas < 3 * 41


def test_separable_labels_with_a_narrow_margin():
    """The slope shrinks like an exponential there: the search must not stop on its way."""
    p = np.linspace(0.1, 0.9, 20)
    for dtype in (np.float64, np.float32):
        scaling = s.TemperatureScaling(input="logits")
        warned("separable", scaling.fit, logit(p).astype(dtype), p > 0.5)
        assert scaling.temperature_ == pytest.approx(1e-4) and scaling.n_iter_ < 40


def test_labels_without_any_relation_to_the_scores():
    """Every label once for each forecast: the optimum is T = infinity, exactly."""
    P, y = np.repeat(separable(3)[0], 3, axis=0), np.tile(np.arange(3), 120)
    warned("do not follow", s.TemperatureScaling().fit, P, y)
    ensemble = s.recalibration.EnsembleTemperatureScaling().fit(P, y)
    assert not ensemble.injective_ or ensemble.weights_[2] < 1 - 1e-9
    assert ensemble.temperature_ == pytest.approx(5)  # the ends of its search
    certain = s.recalibration.EnsembleTemperatureScaling().fit(P, P.argmax(axis=1))
    assert certain.temperature_ == pytest.approx(0.05)
    # affine maps have an interior optimum: nothing to warn of
    affine = [
        kind(shrinkage=1).fit(P, y) for kind in (s.VectorScaling, s.recalibration.MatrixScaling)
    ]
    for fitted in (ensemble, *affine):
        np.testing.assert_allclose(fitted.predict_proba(P), 1 / 3, atol=1e-3)


@pytest.mark.parametrize(
    "cls", [s.PlattScaling, s.BetaCalibration, s.recalibration.QuadraticScaling]
)
@pytest.mark.parametrize("loss", SCORES)
def test_perfect_separation_of_maps_of_one_logit(cls, loss):
    p = np.linspace(0.1, 0.9, 40)
    for y in (p > 0.5, p > 0.12, np.round(p, 8) >= np.round(p[7], 8)):
        fitted = warned("1 of 1 problems .* separable .* finite", cls(loss=loss).fit, p, y)
        assert np.isfinite(fitted.predict_proba(p)).all() and np.abs(fitted.coef_).max() < 1e5
        assert np.mean(fitted.predict(p) == y) > 0.97 and fitted.loss_after_ < fitted.loss_before_


def test_what_is_separable():
    """Up to a tie, and for a parabola an interval; one label on the other side is not."""
    p, y = np.array([0.2, 0.3, 0.5, 0.5, 0.6, 0.8] * 5), np.array([0, 0, 0, 1, 1, 1] * 5)
    assert np.isfinite(warned("separable", s.PlattScaling().fit, p, y).coef_).all()
    y[0] = 1
    assert 0 < s.PlattScaling().fit(p, y).coef_[0] < 50
    p = np.linspace(0.05, 0.95, 61)
    y = (np.abs(p - 0.5) < 0.2).astype(int)
    warned("separable", s.recalibration.QuadraticScaling().fit, p, y)
    s.PlattScaling().fit(p, y)
    s.BetaCalibration().fit(p, y)


class CubicMap(BinaryMap):
    identity = (1.0, 0.0)

    def features(self, logits):
        value = logits[:, 1] - logits[:, 0]
        return np.column_stack([value, value**3])


class CubicScaling(BinaryLinkRecalibrator):
    """l -> a l + b l^3."""

    def _fit_map(self, samples):
        self.coef_ = self._fit_links(CubicMap(), samples)


@pytest.mark.parametrize("scale", [8, 14])
def test_labels_that_overlap_are_not_called_separable(scale):
    """The cube varies most where labels are certain: its information was called too little."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, scale, 300)
    y = (rng.random(300) < expit(0.06 * z**3)).astype(int)
    assert z[y == 0].max() > z[y == 1].min()
    assert np.isfinite(CubicScaling(input="logits").fit(z[:, None], y).coef_).all()
    warned("separable", CubicScaling(input="logits").fit, z[:, None], (z > 0).astype(int))


@pytest.mark.parametrize(
    "cls", [s.VectorScaling, s.recalibration.MatrixScaling, s.DirichletCalibration]
)
def test_perfect_separation_of_affine_maps(cls):
    P = separable(3)[0]
    y = (np.log(P) + [0.5, 0.0, -0.5]).argmax(axis=1)  # separable, but not by a temperature
    words = "(separable|stopped).*shrinkage='auto' avoids it"
    fitted = warned(words, cls(shrinkage=0).fit, P, y)
    assert np.isfinite(fitted.coef_).all() and np.isfinite(fitted.intercept_).all()
    assert fitted.loss_after_ < 0.05
    fitted = cls().fit(P, y)
    assert np.isfinite(fitted.predict_proba(P)).all() and np.abs(fitted.coef_).max() < 1e3
    warned("separable", cls().fit, P, P.argmax(axis=1))


def test_separation_of_diag_one_class_and_one_sample():
    for variant in ("network", "pieces"):
        P, y = separable(3)
        diag = s.recalibration.DiagonalOrderPreserving(variant=variant)
        assert np.isfinite(warned("separable", diag.fit, P, y).predict_proba(P)).all()
    for cls in (s.PlattScaling, s.BetaCalibration, s.recalibration.QuadraticScaling):
        warned("or all the same", cls().fit, [0.2, 0.3, 0.9], [1, 1, 1])
    with pytest.raises(ValueError, match="At least 2 samples"):
        s.recalibration.KernelRecalibrator().fit([0.3], [1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@every
def test_corners_only(recalibrator):
    """Every probability is 0 or 1; a third of the labels are elsewhere."""
    rng = np.random.default_rng(0)
    top = rng.integers(3, size=300)
    y = np.where(rng.random(300) < 0.3, (top + rng.integers(1, 3, size=300)) % 3, top)
    fitted = clone(recalibrator).fit(np.eye(3)[top], y)
    rows = fitted.predict_proba(np.vstack([np.eye(3), np.full((1, 3), 1 / 3)]))
    assert np.isfinite(rows).all()
    if not isinstance(recalibrator, UNCHANGED):
        assert np.array_equal(rows[:3].argmax(axis=1), np.arange(3))
    if not isinstance(recalibrator, (*UNCHANGED, s.InterceptRecalibrator)):  # which has no slope
        np.testing.assert_allclose(rows[:3].max(axis=1), 0.7, atol=0.12)


def test_a_shift_gives_each_class_its_frequency_and_inverts_undersampling():
    P, y = draw(2000, 3)
    weight = np.random.default_rng(0).random(2000)
    fitted = s.InterceptRecalibrator().fit(P, y, weight)
    mean, frequency = np.average([fitted.predict_proba(P), np.eye(3)[y]], axis=1, weights=weight)
    np.testing.assert_allclose(mean, frequency, atol=1e-6)
    np.testing.assert_allclose(fitted.intercept_.sum(), 0, atol=1e-12)
    shifted = P * [8, 1, 0.5]
    again = s.InterceptRecalibrator().fit(shifted / shifted.sum(axis=1, keepdims=True), y, weight)
    difference = again.intercept_ - fitted.intercept_ + np.log([8, 1, 0.5])
    np.testing.assert_allclose(difference, difference.mean(), atol=1e-5)


def test_a_shrunken_shift_ignores_noise_and_keeps_a_clear_shift():
    world = make_tempered_simplex(100, 5, score_temperature=0.9, random_state=0)
    P, y = world.posterior, world.y
    shifted = P * [8, 1, 1, 1, 0.5] / (P * [8, 1, 1, 1, 0.5]).sum(axis=1, keepdims=True)
    free, shrunk = s.InterceptRecalibrator(), s.InterceptRecalibrator(shrinkage="auto")
    small, large = (scaling.fit(P, y).intercept_.std() for scaling in (shrunk, free))
    assert small < 0.5 * large
    assert shrunk.fit(shifted, y).intercept_.std() > 0.7 * free.fit(shifted, y).intercept_.std()
    one_class = [0] * 20
    words = "labels are all the same.*weight of 0.01 samples"
    warned(words, s.InterceptRecalibrator(labels=range(5)).fit, P[:20], one_class)
    s.InterceptRecalibrator(labels=range(5), shrinkage=1.0).fit(P[:20], one_class)


def test_the_limit_of_detection():
    P = np.array([[0.0, 1.0], [0.2, 0.8], [0.04, 0.96], [0.9, 0.1]])
    scaling = s.TemperatureScaling().fit(P, [1, 0, 1, 0])
    assert scaling.detection_limit_ == 0.02
    longer = np.vstack([P, [[1e-9, 1 - 1e-9]]])  # a sample of weight zero is not there
    scaling.fit(longer, [1, 0, 1, 0, 1], [1, 1, 1, 1, 0])
    assert scaling.detection_limit_ == 0.02
    expected = softmax(np.log([[0.02, 1.0]]) / scaling.temperature_, axis=1)
    np.testing.assert_allclose(scaling.predict_proba([[0.0, 1.0]]), expected)


def test_forecasts_of_naive_bayes_do_not_settle_the_temperature():
    """Logits of -700, here of pure noise, among forecasts that need no map."""
    world = make_tempered_simplex(2000, 3, random_state=0)
    P = np.vstack([world.posterior, np.eye(3)[world.y[:200]] * (1 - 2e-300) + 1e-300])
    y = np.append(world.y, np.append(world.y[:190], (world.y[190:200] + 1) % 3))  # 5 % are wrong
    before = optimal_inverse_temperature(np.log(P), y, np.ones(len(y)))[0]
    assert s.TemperatureScaling().fit(P, y).temperature_ < 0.4 / before
    logits = s.TemperatureScaling(input="logits").fit(np.log(P), y)
    assert logits.temperature_ == pytest.approx(1 / before)  # logits are taken as they are


P3, Y3 = draw(60, 3)
FEATURES = np.random.default_rng(0).random((60, 5))
VALUE = r"outside \[0, 1\]: probabilities are expected\. For logits set input='logits'; for "
REMEDY = r"fit\(clf\.predict_proba\(X\), y\), or wrap"
REFUSED = [
    ((P3, np.where(Y3 == 0, np.nan, Y3)), "y contains NaN"),
    ((P3, Y3, -np.ones(60)), "not negative"),
    ((P3, Y3, np.zeros(60)), "sums to zero"),
    ((P3, Y3, np.ones(59)), "one weight per sample"),
    ((P3, np.eye(3)[Y3], None), "one label per sample"),
    ((P3[Y3 > 0], Y3[Y3 > 0]), "^y_true has 2 classes but X has 3 columns"),
    (
        (LogisticRegression().fit(FEATURES, Y3), FEATURES, Y3),
        f"^X is a classifier, LogisticRegression, but must be a matrix of .*{REMEDY}",
    ),
    (
        (FEATURES, Y3),
        f"^X has 5 columns whose rows do not sum to 1, but must be a matrix of .*{REMEDY}",
    ),
    (
        (np.where(FEATURES > 0.5, 16.0, 0.0), Y3),
        f"^X has the value 16, {VALUE}features, .*{REMEDY}",
    ),
    ((np.where(P3 > 0.5, P3, -2.5), Y3), rf"^X has the value -2\.5, {VALUE}features, .*{REMEDY}"),
]


@pytest.mark.parametrize(("samples", "words"), REFUSED)
@pytest.mark.parametrize("kind", [s.TemperatureScaling, s.IsotonicRecalibrator])
def test_samples_that_are_refused(kind, samples, words):
    with pytest.raises(ValueError, match=words):
        kind().fit(*samples)


def test_forecasts_of_another_number_of_classes_are_refused():
    fitted = s.TemperatureScaling().fit(P3, Y3)
    with pytest.raises(ValueError, match="X has 2 columns, but .* fitted with 3 classes"):
        fitted.predict_proba(P3[:, 0])


def test_losses_of_blocks_are_those_of_one_softmax():
    """Also of logits in single precision."""
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(9000, 40)) * 3, rng.integers(40, size=9000)
    logits[np.arange(9000), y] += 4
    weight = rng.uniform(0.5, 2, 9000)
    wide = s.TemperatureScaling(input="logits").fit(logits, y, weight)
    for beta, loss in ((1, wide.loss_before_), (1 / wide.temperature_, wide.loss_after_)):
        log = log_softmax(beta * logits, axis=1)[np.arange(9000), y]
        assert loss == pytest.approx(-np.average(log, weights=weight), rel=1e-12)
    narrow = s.TemperatureScaling(input="logits").fit(logits.astype(np.float32), y, weight)
    assert narrow.temperature_ == pytest.approx(wide.temperature_, rel=1e-7)


def test_temperature_of_large_forecasts_without_their_logarithms(set_sizes):
    """Logarithms in each pass, or once: the same temperature and losses, zeros included."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(5, 0.3), 600)
    proba[:20, 0] = 0.0
    proba /= proba.sum(axis=1, keepdims=True)
    y = labels_from(proba, rng)
    weight, before = rng.uniform(0.2, 2, 600), proba.copy()
    stored = s.TemperatureScaling().fit(proba, y, sample_weight=weight)
    set_sizes(stored_logarithms=10)
    fitted = s.TemperatureScaling().fit(proba, y, sample_weight=weight)
    for name in ("temperature_", "loss_before_", "loss_after_", "detection_limit_"):
        assert getattr(fitted, name) == pytest.approx(getattr(stored, name), rel=1e-13, abs=0)
    np.testing.assert_array_equal(proba, before)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (s.VectorScaling, "slow_slopes"),
        (s.recalibration.BiasCorrectedTemperatureScaling, "slow_biases"),
    ],
)
def test_slow_fits_are_announced(kind, size, multiclass, set_sizes):
    y, proba = multiclass
    expected = kind().fit(proba, y).predict_proba(proba)
    set_sizes(**{size: 100})
    message = f"{kind.__name__} on 150 samples of 3 classes takes about ten seconds"
    with pytest.warns(UserWarning, match=message) as caught:
        fitted = kind().fit(proba, y)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(fitted.predict_proba(proba), expected)


@pytest.mark.parametrize(
    "kind", [s.VectorScaling, s.recalibration.MatrixScaling, s.DirichletCalibration]
)
@pytest.mark.parametrize(("shrinkage", "temperature"), [("auto", 0.5), (3.0, 1.5), (0.0, 0.7)])
def test_affine_maps_by_newton_and_by_quasi_newton_agree(kind, shrinkage, temperature, set_sizes):
    """The coefficients without the part that has no effect, and the losses agree."""
    world = make_tempered_simplex(600, 4, score_temperature=temperature, random_state=2)
    newton = kind(shrinkage=shrinkage).fit(world.y_proba, world.y)
    set_sizes(hessian_parameters=0)
    quasi_newton = kind(shrinkage=newton.shrinkage_, max_iter=5000, tol=1e-9).fit(
        world.y_proba, world.y
    )
    assert newton.n_iter_ < quasi_newton.n_iter_ or np.isinf(newton.shrinkage_)
    proba = newton.predict_proba(world.y_proba)
    np.testing.assert_allclose(proba, quasi_newton.predict_proba(world.y_proba), atol=1e-5)
    assert newton.shrinkage_ == 0 or newton.coef_ == pytest.approx(quasi_newton.coef_, abs=1e-4)
    assert abs(newton.loss_after_ - quasi_newton.loss_after_) < 1e-7


@pytest.mark.parametrize("near", [1.2, 1.002, 1.0005])
def test_only_the_end_of_the_search_is_called_an_end(near):
    """Labels are distributions with this temperature."""
    logits = 2 * np.random.default_rng(0).normal(size=(300, 2))
    scaling, shares = s.TemperatureScaling(input="logits"), softmax(near * 1e-4 * logits, axis=1)
    stated = pytest.warns(ConvergenceWarning, match="do not follow")
    with stated if near < 1.001 else nullcontext():
        assert scaling.fit(logits, shares).temperature_ == pytest.approx(1e4 / near)


@pytest.mark.parametrize("rare", range(3))
def test_vector_scaling_of_a_rare_class_is_injective(rare):
    """All slopes are positive; the intercepts do not matter."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), 2000)
    mass = proba * np.where(np.arange(3) == rare, 0.1, 1)
    y = labels_from(mass / mass.sum(axis=1, keepdims=True), rng)
    fitted = s.VectorScaling(shrinkage=0.01).fit(proba, y)
    assert fitted.injective_ and fitted.intercept_.min() < -fitted.coef_.max()


@pytest.mark.parametrize(("shrinkage", "in_order"), [("auto", True), (1.0, False)])
def test_an_optimal_temperature_of_zero_or_infinity_is_stated(shrinkage, in_order):
    """An infinite one where the order is kept: other maps can leave it."""
    proba = np.random.default_rng(0).dirichlet(np.full(3, 0.5), 300)
    vector = s.VectorScaling(shrinkage=shrinkage)
    fitted = warned("separable by the scores", vector.fit, proba, proba.argmax(axis=1))
    assert fitted.preserves_order_ == in_order
    stated = pytest.warns(ConvergenceWarning, match="do not follow")
    with stated if in_order else nullcontext():
        assert vector.fit(proba, proba.argmin(axis=1)).preserves_order_ == in_order
