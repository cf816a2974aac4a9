"""Models of recalibration and their evidence, against independent code."""

import pickle

import numpy as np
import pytest
from dense_directions import dense_directions, labels_from, tangents, world
from grids import covering
from scipy.optimize import approx_fprime
from scipy.special import log_softmax, logsumexp, softmax

from skcalib.links.averaging import PRIOR, Model, ModelAverage, two_chances

WORLDS = ["calibrated", "slope", "shift", "class_slopes", "curve"]
#: Models of two classes, each below the model that it is compared with.
PARENTS = {
    "": ["slope", "bias", "curve", "curve curve_high"],
    "slope": ["slope bias"],
    "slope bias": ["slope bias class_slopes", "slope bias curve", "slope bias curve curve_high"],
}
#: The same for more classes.
PARENTS_OF_MORE = {
    "": ["slope", "bias", "common", "top", "top top_high", "shared", "shared shared_high"],
    "slope": ["slope bias", "slope common", "slope top top_high", "slope shared shared_high"],
    "slope bias": [
        "slope bias class_slopes",
        "slope common bias",
        "slope bias top",
        "slope bias top top_high",
        "slope shared shared_high bias",
    ],
    "slope bias class_slopes": ["slope shared shared_high bias class_slopes top top_high"],
}


def fit(y, forecast, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    return ModelAverage().fit(forecast, np.eye(forecast.shape[1])[y], weight)


@pytest.fixture
def every_model(set_sizes):
    """Fit all models of the tree, and keep the smallest weights."""
    set_sizes(evidence_reach=np.inf, least_share=0.0)


def weighted_world(kind, n_samples, n_classes, seed):
    """Labels, forecasts and uneven weights."""
    y, forecast, _ = world(kind, n_samples, n_classes, seed)
    return y, forecast, np.random.default_rng(seed).uniform(0.5, 2, n_samples)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", WORLDS)
def test_fits_reach_the_optimum(kind, n_classes, every_model):
    """A step by the gradient, from finite differences, would gain less than 1e-5 of likelihood.

    The penalty is half of the squared parameters; weights sum to the effective number of samples.
    Forecasts are the softmax of corrected logits, the covariance is the inverse Hessian.
    """
    y, forecast, weight = weighted_world(kind, 300, n_classes, seed=1)
    average, rows, log = fit(y, forecast, weight), np.arange(300), np.log(forecast)
    size = weight.sum() ** 2 / (weight @ weight)
    weight = weight * size / weight.sum()
    assert average.size == pytest.approx(size, rel=1e-12)
    np.testing.assert_allclose(average.weight, weight, rtol=1e-12)
    for model in average.models:
        g = dense_directions(average.basis, forecast, model.groups)

        def loss(theta, g=g):
            return 0.5 * theta @ theta - weight @ log_softmax(log + g @ theta, axis=1)[rows, y]

        gradient = approx_fprime(model.theta, loss, 1e-6)
        assert gradient @ model.covariance @ gradient < 1e-5
        assert loss(model.theta) <= loss(np.zeros(len(model.theta)))
        p = softmax(log + g @ model.theta, axis=1)
        np.testing.assert_allclose(model.proba, p, rtol=1e-8)
        gain = weight @ np.log(p[rows, y] / forecast[rows, y])
        assert model.gain == pytest.approx(gain, abs=1e-8)
        hessian = np.einsum("i,ikj,ikl->jl", weight, g, tangents(p, g)) + np.eye(g.shape[2])
        product = model.covariance @ hessian
        np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", WORLDS)
def test_evidence_and_shares_by_their_formulas(kind, n_classes, every_model):
    """That of the parent plus the gain minus the cost; shares are the softmax."""
    y, forecast, weight = weighted_world(kind, 400, n_classes, seed=4)
    average = fit(y, forecast, weight)
    tree = PARENTS if n_classes == 2 else PARENTS_OF_MORE
    parents = {
        frozenset(a.split()): frozenset(b.split()) for b, children in tree.items() for a in children
    }
    models = {frozenset(model.groups): model for model in average.models}
    for added in [groups for groups in models if "confusion" in groups]:
        parents[added] = added - {"confusion"}
    assert set(models) == set(parents)
    models[frozenset()] = Model((), np.empty(0), 0.0, 0.0, forecast, np.empty((0, 0)))
    size = weight.sum() ** 2 / (weight @ weight)
    for groups, name in parents.items():
        model, parent = models[groups], models[name]
        gain, n_added = model.gain - parent.gain, len(model.theta) - len(parent.theta)
        price = max(0.5 * np.log(size / 15), 0.25)
        if n_added > 1:
            price += 1.5 + 0.5 * n_added * (1 + np.log(max(2 * gain / n_added, 1)))
        price += 3 * ("confusion" in groups)
        assert model.evidence == pytest.approx(parent.evidence + gain - price, abs=1e-9)
    assert PRIOR.cost(3.0, 1, 10) == PRIOR.cost(3.0, 1, 15) == 0.25  # of few samples
    assert PRIOR.cost(10.0, 2, 5) == pytest.approx(0.25 + 1.5 + 1 + np.log(10), rel=1e-12)
    evidence = np.array([0.0, *(model.evidence for model in average.models)])
    shares = np.exp(evidence - logsumexp(evidence))
    np.testing.assert_allclose(average.shares, shares, rtol=1e-9, atol=1e-12)
    mean = sum(a * m.proba for a, m in zip(shares[1:], average.models, strict=True))
    np.testing.assert_allclose(average.averaged, mean + shares[0] * forecast, rtol=1e-9)


def test_rows_that_stand_for_several_samples():
    """Twice the weight, and twice its square."""
    y, forecast, weight = weighted_world("slope", 200, 3, seed=0)
    twice = fit(np.repeat(y, 2), np.repeat(forecast, 2, axis=0), np.repeat(weight, 2))
    merged = ModelAverage().fit(forecast, np.eye(3)[y], 2 * weight, 2 * weight**2)
    assert merged.size == pytest.approx(twice.size)
    np.testing.assert_allclose(merged.shares, twice.shares, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(merged.weight, 2 * twice.weight[::2])
    np.testing.assert_allclose(merged.unit, twice.unit[::2])


@pytest.mark.parametrize("kind", ["slope", "calibrated"])
def test_the_log_evidence_of_the_best_model_and_whether_maps_go_on(kind):
    """In units of the samples, also of label distributions; curves of reversed forecasts fall."""
    y, forecast, posterior = world(kind, 400, 2, seed=0)
    votes = np.random.default_rng(0).multinomial(5, posterior) / 5
    for target in (np.eye(2)[y], votes):
        average = ModelAverage().fit(forecast, target, np.ones(400))
        best = max(0.0, *(model.evidence for model in average.models))
        expected = np.sum(target * np.log(forecast)) + average.dispersion * best
        assert average.log_evidence == average.map.log_evidence == pytest.approx(expected)
        assert (best > 0) == (kind == "slope") and average.map.continues
    assert not fit(y, forecast[:, ::-1]).map.continues


@pytest.mark.parametrize(
    ("kind", "n_samples", "n_classes", "seed", "limit"),
    [
        *((*case, 6, 2e-3) for case in covering(WORLDS, [150, 1500], [2, 3, 6])),
        # The score is that given the parameters of the parent: without it change is above 7e-4.
        ("class_slopes", 1000, 2, 5, 3e-4),
        ("slope", 300, 3, 0, 3e-4),
    ],
)
def test_models_out_of_reach_do_not_matter(kind, n_samples, n_classes, seed, limit, request):
    """Averaged forecasts change by less than 2e-3 of how far they moved, plus noise.

    Distances are root mean squares; the noise is the standard error of a frequency.
    """
    y, forecast, _ = world(kind, n_samples, n_classes, seed)
    screened = fit(y, forecast)
    request.getfixturevalue("every_model")
    whole = fit(y, forecast)
    strong = kind == "curve" and n_samples == 1500  # with which a shift cannot compete
    assert len(screened.models) <= len(whole.models) - strong
    change = np.sqrt(np.mean((screened.averaged - whole.averaged) ** 2))
    moved = np.sqrt(np.mean((whole.averaged - forecast) ** 2))
    noise = np.sqrt(np.mean(forecast * (1 - forecast)) / n_samples)
    assert change / (moved + noise) < limit
    for name, share in whole.evidence.items():
        assert screened.evidence[name] == pytest.approx(share, abs=2e-3)


@pytest.mark.slow
def test_directions_by_most_likely_class_have_a_score_test():
    """A sixth of 30 calibrated data sets pass it."""
    passed = 0
    for seed in range(30):
        average = fit(*world("calibrated", 400, 3, seed)[:2])
        passed += "confusion" in average.directions.names
        assert average.evidence["confusion"] < 0.5
    assert passed / 30 < 0.16 + 3 * 0.067


def test_directions_by_most_likely_class_need_support():
    """Label noise is found."""
    assert fit(*world("calibrated", 400, 3, 0)[:2]).evidence["confusion"] < 0.5
    assert "confusion" not in fit(*world("calibrated", 89, 3, 0)[:2]).basis.groups
    noise = np.array([[0.8, 0.2, 0, 0], [0, 1, 0, 0], [0, 0, 0.8, 0.2], [0, 0, 0, 1.0]])
    rng = np.random.default_rng(0)
    forecast = softmax(1.5 * rng.normal(size=(6000, 4)), axis=1)
    average = fit(labels_from(forecast @ noise, rng), forecast)
    assert "confusion" in average.directions.names
    assert average.evidence["confusion"] > 0.9


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", WORLDS[1:])
def test_evidence_finds_what_is_there(name, n_classes):
    """Weight above .9 in at least 9 of 10 data sets, and the identity has less than .01 in all.

    What is not there has a median weight below .2: models may have a shift with unlike slopes.
    """
    weights = []
    for seed in range(10):
        average = fit(*world(name, 2000, n_classes, seed)[:2])
        weights.append([*average.evidence.values(), average.shares[0]])
    weights = dict(zip([*average.evidence, "identity"], np.transpose(weights), strict=True))
    assert np.sum(weights[name] > 0.9) >= 9
    assert weights["identity"].max() < 0.01
    absent = set(WORLDS[1:]) - {name}
    absent -= {"slope", "shift"} if name == "class_slopes" else set()
    assert all(np.median(weights[kind]) < 0.2 for kind in absent)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_calibrated_forecasts_mostly_stay_as_they_are(n_classes):
    """Over 16 data sets the median weight of the identity is above .6, the mean above .5."""
    shares = [fit(*world("calibrated", 1000, n_classes, seed)[:2]).shares[0] for seed in range(16)]
    assert np.median(shares) > 0.6 and np.mean(shares) > 0.5


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kind", WORLDS)
def test_averaged_forecasts_are_closer_to_the_truth(kind, n_classes):
    """Less than half of the squared distance is left; for calibrated forecasts less than 1e-3."""
    y, forecast, posterior = world(kind, 5000, n_classes, seed=11)
    averaged = fit(y, forecast).averaged
    left, before = (np.mean(np.sum((p - posterior) ** 2, axis=1)) for p in (averaged, forecast))
    assert left < (1e-3 if kind == "calibrated" else 0.5 * before)


@pytest.mark.parametrize(("n_classes", "zeros"), [(2, True), (3, False), (7, True)])
def test_the_map_gives_the_averaged_forecasts(n_classes, zeros, forecasts, set_sizes):
    """At the forecasts of the fit, in one block and in many, and after pickling."""
    y, forecast = forecasts(200, n_classes) if zeros else world("slope", 200, n_classes, 12)[:2]
    average = fit(y, forecast)
    mapped = average.map
    np.testing.assert_allclose(mapped(forecast), average.averaged, rtol=1e-9, atol=1e-12)
    copy = pickle.loads(pickle.dumps(mapped))
    np.testing.assert_array_equal(copy(forecast), mapped(forecast))
    set_sizes(basis_entries=1)
    np.testing.assert_allclose(copy(forecast), average.averaged, rtol=1e-9, atol=1e-12)


def check_average(average, forecast):
    """Finite numbers, probabilities, and a map that agrees."""
    assert np.isfinite(average.shares).all() and average.shares.sum() == pytest.approx(1)
    averaged = average.averaged
    assert np.isfinite(averaged).all() and (averaged >= 0).all()
    np.testing.assert_allclose(averaged.sum(axis=1), 1, rtol=1e-9)
    np.testing.assert_allclose(average.map(forecast), averaged, rtol=1e-8, atol=1e-12)
    assert average.affine in average.models and average.best in average.models
    for model in average.models:
        assert np.isfinite(model.theta).all() and np.isfinite(model.covariance).all()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_forecasts_of_exactly_zero_and_one(n_classes):
    """Right in 80 %: averages come close to .8, and the identity has no weight; right in all."""
    label = np.arange(600) % n_classes
    forecast = np.eye(n_classes)[label]
    wrong = (label + np.random.default_rng(0).integers(1, n_classes, 600)) % n_classes
    y = np.where(np.arange(600) // n_classes % 5 == 0, wrong, label)
    average = fit(y, forecast)
    check_average(average, forecast)
    assert average.shares[0] == 0
    np.testing.assert_allclose(average.averaged.max(axis=1), 0.8, atol=0.05)
    right = fit(label, forecast)
    check_average(right, forecast)
    np.testing.assert_allclose(right.averaged[np.arange(600), label], 1, atol=0.01)
    forecast = world("calibrated", 300, n_classes, seed=0)[1]
    single = fit(np.zeros(300, dtype=int), forecast)
    check_average(single, forecast)
    assert single.shares[0] < 1e-3 and single.averaged[:, 0].mean() > 0.95


def test_the_identity_keeps_forecasts_of_zero(every_model):
    """Models start from half of the smallest forecast; the identity has what that costs."""
    rng = np.random.default_rng(1)
    p = rng.uniform(0.1, 0.9, 300)
    y = (rng.random(300) < p).astype(int)
    p[:30] = y[:30]  # certain and right
    forecast = np.column_stack([1 - p, p])
    average = fit(y, forecast)
    start = np.where(forecast == 0, forecast[forecast > 0].min() / 2, forecast)
    start /= start.sum(axis=1, keepdims=True)
    gained = np.sum(np.log(forecast[np.arange(300), y] / start[np.arange(300), y]))
    assert gained > 1
    evidence = np.array([gained, *(model.evidence for model in average.models)])
    np.testing.assert_allclose(average.shares, softmax(evidence), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("value", ["equal", "unequal"])
def test_constant_forecasts_go_to_the_frequencies(n_classes, value):
    share = np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    y = np.repeat(np.arange(n_classes), np.round(600 * share).astype(int))
    constant = share[::-1] if value == "unequal" else np.full(n_classes, 1 / n_classes)
    forecast = np.tile(constant, (len(y), 1))
    average = fit(y, forecast)
    check_average(average, forecast)
    np.testing.assert_allclose(average.averaged, average.averaged[:1] + 0 * forecast, atol=1e-12)
    np.testing.assert_allclose(average.averaged[0], share, atol=0.02)


@pytest.mark.parametrize("n_samples", range(2, 21))
@pytest.mark.parametrize("n_classes", [2, 3])
def test_very_few_samples(n_samples, n_classes):
    """Also with one label, and with forecasts of 0 and 1 among them."""
    rng = np.random.default_rng(n_samples)
    forecast = rng.dirichlet(np.ones(n_classes), n_samples)
    y = labels_from(forecast, rng)
    certain = np.vstack([np.eye(n_classes)[y[0]], forecast[1:]])
    for labels, rows in ((y, forecast), (np.zeros_like(y), forecast), (y, certain)):
        check_average(fit(labels, rows), rows)


def test_many_classes_with_few_samples_have_no_directions_by_class():
    """20 effective samples per class are needed, 240 of 12 classes."""
    rng = np.random.default_rng(0)
    for n_samples, weight, by_class in (
        (160, np.ones(160), False),
        (239, np.ones(239), False),
        (240, np.ones(240), True),
        (280, rng.choice([0.1, 2.0], 280), False),
    ):
        forecast = rng.dirichlet(np.ones(12), n_samples)
        y = labels_from(forecast, rng)
        average = fit(y, forecast, weight)
        assert average.basis.by_class is by_class
        groups = {group for model in average.models for group in model.groups}
        assert {"bias", "class_slopes"} <= groups if by_class else "bias" not in groups
        affine = {"slope", "bias", "class_slopes"} if by_class else {"slope"}
        assert set(average.affine.groups) == affine
        check_average(average, forecast)
    assert fit(y, softmax(3 * np.log(forecast), axis=1)).evidence["slope"] > 0.9


def test_one_class_only_has_no_models():
    """And two probabilities are those of softmax, up to relative rounding, for odds of any size."""
    average = ModelAverage().fit(np.ones((3, 1)), np.ones((3, 1)), np.ones(3))
    assert average.models == [] and average.shares.tolist() == [1.0]
    np.testing.assert_array_equal(average.map(np.ones((2, 1))), np.ones((2, 1)))
    assert not any(average.evidence.values())
    odds = np.concatenate([np.linspace(-700, 700, 57), np.random.default_rng(0).normal(size=50)])
    expected = softmax(np.column_stack([0 * odds, odds]), axis=1)
    np.testing.assert_allclose(two_chances(odds), expected, rtol=1e-14)


def test_maps_of_forecasts_of_all_sizes():
    """A map may move tiny forecasts, whose information was small: no matrix is singular."""
    sizes = [0, 1, 0.5, 1e-300, 1e-12, 1 - 1e-12, 0.3, 5e-324, 1e-16]
    for seed in range(15):
        rng = np.random.default_rng(seed)
        score, label = rng.choice(sizes, 7), rng.integers(0, 2, 7)
        average = ModelAverage().fit(np.column_stack([1 - score, score]), label, np.ones(7))
        answer = average.map(np.column_stack([1 - score, score]))
        assert np.isfinite(answer).all() and answer.min() >= 0
