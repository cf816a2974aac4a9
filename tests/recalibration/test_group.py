"""Correction by features or groups: what it removes, where it does nothing, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
from engines import polars as pl
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit, logit, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import skcalib as s
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.recalibration.group import FeatureReader, GroupEffects, pairs_of_columns


def grouped(n_samples=3000, *, effects=(-0.9, 0.0, 0.9), seed=0):
    """Forecasts, labels, groups and true probabilities; each group is off by a shift."""
    rng = np.random.default_rng(seed)
    p, group = rng.uniform(0.1, 0.7, n_samples), rng.integers(len(effects), size=n_samples)
    truth = expit(logit(p) + np.asarray(effects)[group])
    return p, (rng.random(n_samples) < truth).astype(int), group, truth


def three_classes(n_samples, seed=0):
    """Forecasts, labels, a feature and true probabilities."""
    rng = np.random.default_rng(seed)
    proba, x = rng.dirichlet(np.full(3, 2.0), n_samples), rng.normal(size=n_samples)
    logits = np.log(proba)
    logits[:, 0] += 1.2 * np.tanh(2 * x)
    truth = softmax(logits, axis=1)
    y = (truth.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    return proba, y, x[:, None], truth


def distance(proba, truth):
    return np.mean((proba - truth) ** 2)


def remaining(n_samples, link, seed, **options):
    """Distance E D(Q, S') from the truth, which exceeds the grouping loss of S', by that of S."""
    world = make_grouping_problem(n_samples, link=link, random_state=seed)
    new = make_grouping_problem(5000, link=link, random_state=1000 + seed)
    fitted = s.GroupRecalibrator(**options).fit(world.y_proba, world.y, features=world.X)
    assert fitted.chosen_ == "features" and not fitted.identity_ and any(fitted.weights_.values())
    assert not (fitted.injective_ or fitted.preserves_order_ or fitted.preserves_argmax_)
    corrected = fitted.predict_proba(new.y_proba, features=new.X)
    share = distance(corrected[:, 1], new.posterior[:, 1]) / world.truth["grouping_brier"]
    return share, fitted, world


def test_the_origin_of_features_does_not_matter():
    proba, y, x, _ = grouped(500)
    forecasts, x = [], x[:, None]
    for features in (x, x - x.max()):
        fitted = s.GroupRecalibrator().fit(proba, y, features=features)
        assert fitted.chosen_ == "features"
        forecasts.append(fitted.predict_proba(proba, features=features))
    np.testing.assert_allclose(*forecasts, atol=1e-6)


@pytest.mark.parametrize(
    ("n_samples", "link", "seed"),
    [(2000, "sigmoid", 0), *(pytest.param(5000, *world, marks=pytest.mark.slow)
                             for world in (("sigmoid", 0), ("step", 2)))],
)  # fmt: skip
def test_more_than_half_of_the_grouping_loss_is_removed(n_samples, link, seed):
    """Of 5,000 samples a fifth or less of it was left in each of 20 data sets."""
    share, fitted, world = remaining(n_samples, link, seed, loss="brier")
    assert share < 0.4
    assert 0 < fitted.gain_.low < world.truth["grouping_brier"] < 1.5 * fitted.gain_.high
    assert fitted.gain_.estimate == pytest.approx(fitted.feature_gain_.estimate, rel=0.05)


def test_groups_with_shifts_and_several_classes():
    p, y, group, truth = grouped()
    fitted = s.GroupRecalibrator().fit(p, y, features=group)
    corrected = fitted.predict_proba(p, features=group)[:, 1]
    assert fitted.spread_ > 0 and list(fitted.weights_) == ["groups"]
    assert distance(corrected, truth) < 0.05 * distance(p, truth)
    assert not fitted.injective_ and not fitted.preserves_argmax_
    proba, y, X, truth = three_classes(600)
    for features, options in ((np.where(X[:, 0] > 0, "right", "left"), {}), (X, {"cv": 3})):
        fitted = s.GroupRecalibrator(**options).fit(proba, y, features=features)
        corrected = fitted.predict_proba(proba, features=features)
        assert distance(corrected, truth) < 0.3 * distance(proba, truth)
        np.testing.assert_allclose(corrected.sum(axis=1), 1, rtol=1e-12)
        predicted = fitted.predict(proba, features=features)
        np.testing.assert_array_equal(predicted, corrected.argmax(axis=1))
    turned = [1, 0, 2]  # trees see the residuals of all classes, in any order
    fitted.fit(proba[:, turned], np.take(turned, y), features=X)
    permuted = fitted.predict_proba(proba[:, turned], features=X)
    np.testing.assert_allclose(permuted[:, turned], corrected, atol=0.05)


def test_small_groups_are_shrunk():
    """The rate is .8 in a large and in a small group, and .6 was predicted."""
    sizes, of_20 = (2000, 1980, 20), np.repeat([8, 16, 16], (2000, 1980, 20))
    y = np.arange(4000) % 20 < of_20
    group, p = np.repeat(["low", "large", "small"], sizes), np.full(4000, 0.6)
    p[::2] = 0.599  # not constant
    fitted = s.GroupRecalibrator(monotone=True).fit(p, y.astype(int), features=group)
    after = fitted.predict_proba([0.6, 0.6], features=["large", "small"])
    shifts = logit(after[:, 1]) - logit(0.6)
    assert shifts[0] == pytest.approx(logit(0.8) - logit(0.6), rel=0.1)
    assert 0 < shifts[1] < 0.85 * shifts[0]


def test_effects_of_groups_are_the_maximum_of_the_posterior():
    """Of the penalised likelihood, by another search."""
    p, y, group, _ = grouped(300, effects=(-0.5, 0.5, 0.1))
    start, target = np.log(np.column_stack([1 - p, p])), np.eye(2)[y]
    weight = np.random.default_rng(0).uniform(0.5, 2, 300)
    fitted = GroupEffects(3, slopes=True).fit(start, group, target, weight)
    spread = np.average((logit(p) - np.average(logit(p), weights=weight)) ** 2, weights=weight)
    assert fitted.scale == pytest.approx(np.sqrt(spread))  # of log odds, twice that of logits
    best = fitted.levels[3].copy()  # the spread 0.4
    fitted.effects = best
    some = np.append(group[:290], [-1] * 10)  # and ten samples of a group without labels
    step = fitted.apply(start, some) - start
    np.testing.assert_allclose(fitted.paths(start, some)[0][3], step, rtol=1e-12, atol=1e-15)

    def cost(effects):
        fitted.effects = effects.reshape(best.shape)
        log = np.log(softmax(fitted.apply(start, group), axis=1))
        return (fitted.effects**2 * [1, 1, 2]).sum() / 0.4**2 - weight @ (log * target).sum(axis=1)

    minimum = minimize(cost, 0 * best.ravel(), tol=1e-5).x
    np.testing.assert_allclose(best.ravel(), minimum, atol=2e-5)


@pytest.mark.parametrize(
    ("n_seeds", "n_samples"), [(2, 300), pytest.param(40, 1500, marks=pytest.mark.slow)]
)
def test_calibrated_forecasts_are_left_alone(n_seeds, n_samples):
    """One in 40 of 80 was changed; the mean Brier loss rises by .00001."""
    identity, moved = [], []
    for seed in range(n_seeds):
        world = make_grouping_problem(n_samples, random_state=seed)
        for features in (world.X, np.random.default_rng(seed).integers(8, size=n_samples)):
            fitted = s.GroupRecalibrator().fit(world.posterior, world.y, features=features)
            after = fitted.predict_proba(world.posterior, features=features)
            identity.append(fitted.identity_)
            moved.append(distance(after, world.posterior))
    assert np.mean(identity) >= (0.95 if n_seeds > 9 else 0.8)
    assert np.mean(moved) < 5e-5 or n_seeds < 9
    assert not np.array(moved)[identity].any()


@pytest.mark.parametrize("kind", ["features", "groups"])
def test_monotone_in_the_forecast(kind):
    """With equal features, on a grid of forecasts."""
    rng = np.random.default_rng(0)
    p, x = rng.uniform(0.02, 0.98, 800), rng.integers(4, size=800)
    bumpy = np.sin(4 * logit(p)) * np.where(x > 1, 1.5, -1.5)  # not increasing in p
    y = (rng.random(800) < expit(logit(p) + bumpy + 0.5 * (x - 1.5))).astype(int)
    grid = np.linspace(0.02, 0.98, 400)
    same = np.repeat(np.arange(4), 400)
    features, same = (x[:, None], same[:, None]) if kind == "features" else (x, same)
    falls = {}
    for monotone in (True, False):
        fitted = s.GroupRecalibrator(monotone=monotone).fit(p, y, features=features)
        assert fitted.chosen_ == "features"
        mapped = fitted.predict_proba(np.tile(grid, 4), features=same)[:, 1]
        falls[monotone] = np.diff(mapped.reshape(4, 400)).min()
    assert falls[True] > -1e-12
    assert kind == "groups" or falls[False] < -1e-3


def test_plain_recalibrators():
    """With `monotone` only increasing ones; calibration alone is corrected plainly."""
    p, y, group, _ = grouped(600)
    steps = s.GroupRecalibrator(s.IsotonicRecalibrator(), monotone=True).fit(p, y, features=group)
    assert isinstance(steps.plain_, s.IdentityRecalibrator) and steps.plain_gain_.estimate == 0
    strict = s.IsotonicRecalibrator(strict=True)
    fitted = s.GroupRecalibrator(strict, monotone=True).fit(p, y, features=group)
    assert isinstance(fitted.plain_, s.IsotonicRecalibrator)
    world = make_tempered_simplex(600, 2, score_temperature=0.5, random_state=0)
    X = np.random.default_rng(0).normal(size=(600, 1))
    fitted = s.GroupRecalibrator(s.TemperatureScaling()).fit(world.y_proba, world.y, features=X)
    assert fitted.chosen_ == "plain" and fitted.injective_ and fitted.preserves_argmax_
    expected = s.TemperatureScaling().fit(world.y_proba, world.y).predict_proba(world.y_proba)
    np.testing.assert_allclose(fitted.predict_proba(world.y_proba, features=X), expected, rtol=1e-9)
    assert fitted.gain_ == fitted.plain_gain_ and fitted.plain_gain_.low > 0
    assert fitted.feature_gain_.low <= 0
    silent = s.GroupRecalibrator(make_pipeline(s.TemperatureScaling()))  # declares nothing
    silent.fit(world.y_proba, world.y, features=X)
    assert silent.chosen_ == "plain" and not silent.injective_ | silent.preserves_argmax_


@pytest.mark.parametrize("n_components, n_classes", [(1, 2), (9, 10), (20, 100)])
def test_products_of_features_are_as_many_as_are_allowed(n_components, n_classes):
    """Those of the strongest features with each other, and with each component of the forecasts."""
    first, second = pairs_of_columns(np.arange(200.0), n_components, n_classes)
    n_used = 200 - min(first)
    counts = [n * (n + 1) // 2 + n * n_components for n in (n_used, n_used + 1)]
    most = max(4000 // n_classes, 50)
    assert len({*zip(first, second, strict=True)}) == counts[0] <= most < counts[1]


def test_unseen_groups_get_the_plain_correction_and_missing_ones_are_a_group():
    p, y, group, _ = grouped(900)
    names = np.array(["a", "b", None], dtype=object)[group]
    fitted = s.GroupRecalibrator().fit(p, y, features=names)
    mapped = fitted.predict_proba([0.4, 0.4], features=[None, float("nan")])[:, 1]
    assert mapped[0] == mapped[1] > 0.55
    p = expit(2 * logit(p))
    fitted = s.GroupRecalibrator(s.TemperatureScaling()).fit(p, y, features=group)
    assert fitted.chosen_ == "features"
    mapped = fitted.predict_proba(p[:50], features=["other"] * 50)
    np.testing.assert_array_equal(mapped, fitted.plain_.predict_proba(p[:50]))


@pytest.mark.parametrize("library", [pd, pl], ids=lambda one: one.__name__)
def test_categories_of_data_frames(library):
    p, y, group, truth = grouped(800)
    rng = np.random.default_rng(1)
    content = {"site": np.array(["a", "b", "c"])[group], "age": rng.normal(size=len(p))}
    frame = library.DataFrame(content)
    fitted = s.GroupRecalibrator().fit(p, y, features=frame)
    corrected = fitted.predict_proba(p, features=frame)[:, 1]
    assert any(fitted.weights_.values()) and distance(corrected, truth) < 0.15 * distance(p, truth)
    if library is pd:
        categories = frame.assign(site=frame["site"].astype("category"))
        of_categories = s.GroupRecalibrator().fit(p, y, features=categories)
        np.testing.assert_array_equal(
            of_categories.predict_proba(p, features=categories)[:, 1], corrected
        )
    unseen = library.DataFrame({"site": ["z"], "age": [None]})
    assert 0 < fitted.predict_proba([0.4], features=unseen)[0, 1] < 1
    with pytest.raises(ValueError, match="feature names of features should be those of fit"):
        fitted.predict_proba(p, features=frame[["age", "site"]])
    table = np.array([[1, "x"], [2, "y"], [3, None]] * 10, dtype=object)
    reader = FeatureReader().fit(table)
    expected = [[1, 1, 0, 0], [2, 0, 1, 0], [3, 0, 0, 1]]
    np.testing.assert_array_equal(reader.read(table)[:3], expected)
    read = reader.read([[None, "z"], [pd.NA, "z"]])
    assert np.isnan(read[:, 0]).all() and not read[:, 1:].any()


def test_forecasts_in_all_forms():
    p, y, group, _ = grouped(300)
    both = np.column_stack([1 - p, p])
    fitted = s.GroupRecalibrator().fit(p, y, features=group)
    expected = fitted.predict_proba(p, features=group)
    two = s.GroupRecalibrator().fit(both, np.array(["no", "yes"])[y], features=list(group))
    np.testing.assert_allclose(two.predict_proba(both, features=group), expected, rtol=1e-10)
    logits = s.GroupRecalibrator(input="logits").fit(logit(p), y, features=group)
    np.testing.assert_allclose(logits.predict_proba(logit(p), features=group), expected, rtol=1e-7)
    np.testing.assert_array_equal(fitted.transform(p, features=group), expected)


@pytest.mark.parametrize("kind", ["features", "groups"])
def test_weights(kind):
    """Zero weights drop samples, their groups included, and the scale does not matter."""
    p, y, group, _ = grouped(300)
    features = group[:, None] if kind == "features" else group
    weight = np.random.default_rng(0).uniform(0.5, 2, len(p))
    fitted = s.GroupRecalibrator().fit(p, y, weight, features=features)
    expected = fitted.predict_proba(p, features=features)
    scaled = s.GroupRecalibrator().fit(p, y, 1000 * weight, features=features)
    np.testing.assert_allclose(scaled.predict_proba(p, features=features), expected, rtol=1e-6)
    longer = np.append(features, np.full_like(features[:50], 7), axis=0)
    arrays = np.append(p, p[:50]), np.append(y, 1 - y[:50]), np.append(weight, np.zeros(50))
    dropped = s.GroupRecalibrator().fit(*arrays, features=longer)
    np.testing.assert_array_equal(dropped.predict_proba(p, features=features), expected)
    if kind == "groups":
        plain = s.GroupRecalibrator().fit(p, y, features=features)
        assert np.abs(plain.predict_proba(p, features=features) - expected).max() > 1e-4


def test_labels_of_probability_zero_and_few_samples():
    """The gain of the log loss is infinite, and the corrected forecasts are probabilities."""
    p, y, group, _ = grouped(300)
    p[:3], y[:3] = 0.0, 1
    fitted = s.GroupRecalibrator().fit(p, y, features=group)
    assert fitted.gain_.estimate == np.inf and np.isfinite(fitted.loss_after_)
    mapped = fitted.predict_proba(p, features=group)
    assert (mapped > 0).all() and np.isfinite(mapped).all()
    fitted = s.GroupRecalibrator().fit([0.2, 0.9, 0.4], [1, 0, 1], features=["a", "b", "a"])
    assert fitted.identity_ and fitted.gain_.estimate == 0
    np.testing.assert_array_equal(fitted.predict_proba([0.3], features=["a"]), [[0.7, 0.3]])


P, Y, GROUP, _ = grouped(200)
PROBA, OF_THREE, FEATURES, _ = three_classes(100)
VECTOR = "features is a vector of 200 {} that mostly differ"
COLUMN = "features is the group of each sample, but was a matrix of features in fit"


@pytest.mark.parametrize(
    ("options", "samples", "features", "message"),
    [
        ({}, (P, Y), GROUP[:-1], "features has 199 rows, but there are 200 forecasts"),
        ({}, (P, Y), csr_array(np.eye(200)), "features is sparse"),
        ({}, (P, Y), np.zeros((200, 2, 2)), r"features must have shape \(n_samples, n_features"),
        ({}, (P, Y), P, VECTOR.format("numbers") + ", but a vector holds the group"),
        ({}, (P, Y), np.arange(200).astype("M8[D]"), VECTOR.format("times")),
        ({}, (P, Y), np.empty((200, 0)), "features has no column that can be used. Pass"),
        ({"cv": 1}, (P, Y), GROUP, "cv must be a number of folds, at least 2, got 1"),
        (
            {"monotone": True},
            (PROBA, OF_THREE),
            FEATURES,
            "monotone=True needs two classes, but there are 3",
        ),
    ],
)
def test_refusals_of_fit(options, samples, features, message):
    with pytest.raises(ValueError, match=message):
        s.GroupRecalibrator(**options).fit(*samples, features=features)


def test_refusals_of_new_features():
    fitted = s.GroupRecalibrator(cv=2).fit(PROBA, OF_THREE, features=FEATURES)
    plain = s.GroupRecalibrator(cv=2).fit(PROBA, OF_THREE)
    for recalibrator, features, message in (
        (fitted, None, "features is None, but the recalibrator was fitted with features"),
        (fitted, FEATURES[:5], "features has 5 rows, but there are 100 forecasts"),
        (fitted, np.hstack([FEATURES] * 2), "features has 2 columns, but had 1 in fit"),
        (fitted, FEATURES[:, 0], COLUMN),
        (fitted, [["a"]] * 100, "had numbers in fit"),
        (plain, FEATURES, "features were given, but fit had none"),
    ):
        with pytest.raises(ValueError, match=message):
            recalibrator.predict_proba(PROBA, features=features)


@pytest.fixture(scope="module")
def blind():
    """Features, labels and true probabilities, of which a linear model misses a part."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    truth = expit(X[:, 0] + 2 * np.abs(X[:, 1]) - 1)
    return X, (rng.random(1000) < truth).astype(int), truth


@pytest.mark.parametrize("options", [{}, {"ensemble": True, "cv": 2}])
def test_a_recalibrated_classifier_passes_its_features(blind, options):
    X, y, truth = blind
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(1000)[::-1])
    before = LogisticRegression().fit(frame, y).predict_proba(frame)[:, 1]
    model = s.RecalibratedClassifierCV(LogisticRegression(), s.GroupRecalibrator(), **options)
    after = model.fit(frame, y).predict_proba(frame)[:, 1]
    assert all(recalibrator.chosen_ == "features" for recalibrator in model.recalibrators_)
    assert distance(after, truth) < 0.3 * distance(before, truth)
    if not options:
        proba = model.estimator_.predict_proba(frame)
        expected = model.recalibrator_.predict_proba(proba, features=frame)
        np.testing.assert_array_equal(after, expected[:, 1])


def test_a_frozen_classifier_and_pipelines(blind):
    X, y, truth = blind
    linear = LogisticRegression().fit(X[:400], y[:400])
    model = s.RecalibratedClassifierCV(FrozenEstimator(linear), s.GroupRecalibrator())
    model.fit(X[400:], y[400:])
    before = distance(linear.predict_proba(X)[:, 1], truth)
    assert distance(model.predict_proba(X)[:, 1], truth) < 0.3 * before
    hidden = make_pipeline(s.TemperatureScaling(), s.GroupRecalibrator())
    with pytest.raises(ValueError, match="Pipeline of recalibrators has a GroupRecalibrator, but"):
        s.RecalibratedClassifierCV(LogisticRegression(), hidden).fit(X, y)


@pytest.mark.slow
def test_the_gain_is_that_of_new_samples():
    """Mean of held-out gains against that on new samples; four standard errors."""
    differences, errors = [], []
    for seed in range(4):
        _, fitted, _ = remaining(2000, "step", seed, loss="brier")
        new = make_grouping_problem(20_000, link="step", random_state=seed + 50)
        after = fitted.predict_proba(new.y_proba, features=new.X)
        gain = s.calibration_improvement(new.y, new.y_proba, after, injective=True)
        differences.append(fitted.gain_.estimate - gain.estimate)
        errors.append(np.hypot(fitted.gain_.standard_error, gain.standard_error))
    error = np.sqrt(np.sum(np.square(errors))) / 4
    assert -4 * error - 0.003 < np.mean(differences) < 4 * error  # folds learn from 4 of 5
