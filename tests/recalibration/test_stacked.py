"""The mixture of maps: weights, caution with few samples, and what it is worth."""

import numpy as np
import pytest
from dense_directions import labels_from
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

import skcalib as s
from skcalib.data.problem import Problem
from skcalib.recalibration.held_out import HeldOutMixture, one_standard_error, short_name
from skcalib.scores import Brier, LogLoss

FEW = {"candidates": [s.PlattScaling(), s.IsotonicRecalibrator()]}  # quicker than all maps


def world(kind, n_samples, seed=0):
    """Forecasts, labels and posteriors."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.3, 1.7, n_samples)
    score = expit(z)
    steps = np.where(score < 0.3, 0.1, np.where(score < 0.7, 0.45, 0.85))
    curves = {"calibrated": score, "overconfident": expit(0.5 * z), "steps": steps}
    if kind == "slopes":
        Z = rng.normal(size=(n_samples, 5)) * 1.5
        S, C = softmax(Z, axis=1), softmax(Z * np.array([0.4, 0.7, 1.0, 1.5, 2.0]), axis=1)
    else:
        S, C = (np.column_stack([1 - p, p]) for p in (score, curves[kind]))
    return S, labels_from(C, rng), C


def excess(forecast, posterior):
    """Mean Kullback-Leibler divergence."""
    return np.mean(np.sum(posterior * (np.log(posterior) - np.log(forecast)), axis=1))


@pytest.mark.parametrize(
    ("kind", "best", "share"),
    [
        ("overconfident", s.TemperatureScaling(), 0.2),
        ("steps", s.IsotonicRecalibrator(strict=True), 0.2),
        ("slopes", s.VectorScaling(), 0.4),
    ],
)
def test_nearly_the_best_map_without_knowing_it(kind, best, share):
    S, y, _ = world(kind, 2000)
    T, _, C = world(kind, 20_000, seed=1)
    maps, raw = (s.StackedRecalibrator(), best), excess(T, C)
    stack, alone = (excess(recalibrator.fit(S, y).predict_proba(T), C) for recalibrator in maps)
    assert stack < alone + 0.05 * raw and stack < share * raw


@pytest.mark.parametrize("options", [FEW, pytest.param({}, marks=pytest.mark.slow)])
def test_calibrated_forecasts_are_left_alone(options):
    T, _, C = world("calibrated", 5000, 1000)
    lost, identity = [], []
    for seed in range(6):
        S, y, _ = world("calibrated", 150, seed)
        stack = s.StackedRecalibrator(random_state=seed, **options).fit(S, y)
        platt = s.PlattScaling().fit(S, y)
        lost.append([excess(fitted.predict_proba(T), C) for fitted in (stack, platt)])
        identity.append(stack.weights_["IdentityRecalibrator"])
    of_stack, of_platt = np.mean(lost, axis=0)
    assert np.mean(identity) > 0.7 and of_stack < 0.5 * of_platt


def test_repeated_samples_are_no_more_evidence():
    """Four copies of each sample, as clusters: the identity nearly keeps its weight."""
    S, y, _ = world("calibrated", 150, 1)
    S = np.column_stack([1 - S[:, 1] ** 1.3, S[:, 1] ** 1.3])
    four = np.repeat(np.arange(150), 4)
    fits = (
        s.StackedRecalibrator(**FEW).fit(S[four], y[four], groups=groups) for groups in (None, four)
    )
    weights = [groups.weights_["IdentityRecalibrator"] for groups in fits]
    once = s.StackedRecalibrator(**FEW).fit(S, y).weights_["IdentityRecalibrator"]
    assert weights[0] < 0.1 * once < 0.6 * once < weights[1]


def mixture_of(sharp):
    """The mixture of four random forecasts that have a share of the labels."""
    rng = np.random.default_rng(0)
    target = np.eye(3)[rng.integers(0, 3, 300)]
    forecasts = [(1 - sharp) * rng.dirichlet(np.ones(3), 300) + sharp * target for _ in range(4)]
    kinds = s.IdentityRecalibrator, s.TemperatureScaling, s.PlattScaling, s.VectorScaling
    weight, folds = rng.uniform(0.5, 2, 300), [np.arange(300)[k::5] for k in range(5)]
    problem = Problem(np.full((300, 3), 1 / 3), target, weight, np.arange(3))
    mixture = HeldOutMixture([kind() for kind in kinds], [forecasts], [folds], problem)
    return mixture, forecasts, target, weight


def test_the_weights_minimise_the_criterion():
    mixture, _, _, weight = mixture_of(0.3)

    def value(free):
        w = softmax(np.append(free, 0.0))
        mixed = np.tensordot(w, mixture.forecasts, axes=1)
        return mixture.weight @ mixture._criterion(mixed) - np.log(w) @ [0.3, 0.3, 0.5, 0.5]

    best = softmax(np.append(minimize(value, np.zeros(3), tol=1e-12).x, 0.0))
    assert mixture.weight.sum() == pytest.approx(weight.sum() ** 2 / (weight @ weight))
    np.testing.assert_allclose(mixture.weights, best, atol=1e-3)  # the gain is large


@pytest.mark.parametrize("sharp", [0.3, 0.97])
def test_the_brier_score_counts_as_the_log_loss_of_the_lowest(sharp):
    mixture, forecasts, target, weight = mixture_of(sharp)
    log, brier = (score.loss(target, np.array(forecasts)) for score in (LogLoss(), Brier()))
    ratio = np.min(log @ weight) / np.min(brier @ weight)
    criteria = [mixture._criterion(forecast) for forecast in forecasts]
    np.testing.assert_allclose(criteria, 0.5 * (log + ratio * brier), rtol=1e-6)


def test_a_mixture_is_chosen_for_half_a_per_cent():
    """For less the best of the others is chosen, where one of them has an infinite loss as well."""
    loss = np.linspace(0.5, 1, 100)
    for gain, chosen in ((0.004, "b"), (0.006, "mixture")):
        losses = np.array([np.where(loss < 1, loss, np.inf), loss, (1 - gain) * loss])
        assert one_standard_error(["a", "b", "mixture"], losses, mixture=True).chosen == chosen


def test_a_map_that_falls_is_chosen_where_the_others_are_clearly_worse():
    """By more than a hundredth and significantly, or worse than the identity."""
    for identity, rising, noise, chosen in (
        (1.0, 0.807, 0.0, "rising"),
        (1.0, 0.809, 0.1, "rising"),
        (1.0, 0.809, 0.0, "falling"),
        (0.805, 0.807, 0.0, "falling"),
        (1.0, 0.7, 0.0, "rising"),
        (0.79, 0.9, 0.0, "identity"),
    ):
        means = {"identity": identity, "falling": 0.8, "rising": rising}
        losses = np.tile(np.array(list(means.values()))[:, None], 100)
        losses[2] += noise * np.tile([1, -1], 50)
        selection = one_standard_error(list(means), losses, falling={"falling"})
        assert selection.chosen == chosen
        assert selection.gain.estimate == pytest.approx(identity - means[chosen], abs=1e-12)


def test_what_it_holds_is_stated():
    S, y, _ = world("overconfident", 1000)
    stack = s.StackedRecalibrator().fit(S, y)
    mixture, text = stack.mixture_, str(stack.mixture_)
    assert sum(stack.weights_.values()) == pytest.approx(1)
    assert set(stack.maps_) == set(stack.weights_)
    assert mixture.gain.low > 0 and "temperature 0." in text and f"gain {mixture.gain}" in text
    first = text.splitlines()[0]  # all weights of 5 % and more
    assert first.count(", ") >= sum(weight >= 0.05 for weight in mixture.weights) >= 2
    assert dict(zip(mixture.names, mixture.weights, strict=True)).items() >= stack.weights_.items()
    assert text.endswith("; monotone" if stack.monotone_ else "; not monotone")
    assert short_name("BiasCorrectedTemperatureScaling") == "bias corrected temperature"
    # the gain is that of the held-out samples: new ones agree
    T, _, C = world("overconfident", 50_000, seed=1)
    assert mixture.gain.low < excess(T, C) - excess(stack.predict_proba(T), C) < mixture.gain.high


def test_monotone_maps_are_called_so():
    S, y, _ = world("overconfident", 1000)
    maps = [s.TemperatureScaling(), s.IsotonicRecalibrator()]
    stack = s.StackedRecalibrator(candidates=maps).fit(S, y)
    assert stack.monotone_ and stack.injective_ and "IdentityRecalibrator" in stack.mixture_.names
    flat = s.StackedRecalibrator(candidates=[Reversed()]).fit(S, 1 - y)
    assert flat.weights_["Reversed"] > 0.5 and not flat.monotone_ and not flat.injective_


class Reversed(s.PlattScaling):
    """The other class."""

    def _apply_map(self, forecast):
        return forecast[:, ::-1]


def test_groups_and_given_folds():
    S, y, _ = world("steps", 150)
    groups = np.repeat(np.arange(30), 5)
    split = list(GroupKFold(5).split(S, y, groups))
    independent = s.StackedRecalibrator(cv=split, **FEW).fit(S, y)
    grouped = s.StackedRecalibrator(cv=GroupKFold(5), **FEW).fit(S, y, groups=groups)
    assert independent.mixture_.losses == grouped.mixture_.losses
    assert independent.mixture_.gain.standard_error != grouped.mixture_.gain.standard_error
    # Around a fitted classifier a splitter divides the samples of the mixture.
    frozen = FrozenEstimator(LogisticRegression(C=1e6).fit(S[:, 1:], y))
    for cv, rule in ((GroupKFold(5), split), (4, None)):
        model = s.RecalibratedClassifierCV(frozen, cv=cv).fit(S[:, 1:], y, groups=groups)
        alone = s.StackedRecalibrator(cv=rule).fit(frozen.predict_proba(S[:, 1:]), y)
        assert model.recalibrator_.mixture_.losses == alone.mixture_.losses
    # Rows of weight zero are dropped with their groups.
    part = s.StackedRecalibrator(**FEW).fit(S, y, np.repeat([1.0, 0.0], 75), groups)
    alone = s.StackedRecalibrator(**FEW).fit(S[:75], y[:75], groups=groups[:75])
    assert part.weights_ == alone.weights_


def test_soft_labels_and_zeros():
    S, y, C = world("overconfident", 400)
    hard, exact = (s.StackedRecalibrator(**FEW).fit(S, labels) for labels in (y, C))
    assert excess(exact.predict_proba(S), C) < excess(hard.predict_proba(S), C)
    rng = np.random.default_rng(0)
    p = rng.integers(0, 6, 200) / 5  # votes of five neighbours
    y = (rng.random(200) < 0.2 + 0.6 * p).astype(int)
    stack = s.StackedRecalibrator(**FEW).fit(p, y)
    assert np.isfinite(stack.loss_after_) and stack.loss_before_ == np.inf
    assert stack.predict_proba([0.0, 1.0]).min() > 0.05


def test_few_samples_of_a_class_and_few_samples():
    S, y, _ = world("slopes", 200)
    rows = (y != 4) | (np.cumsum(y == 4) <= 2)
    words = "1 of 5 classes, such as 4, have fewer samples than the 5"
    with pytest.warns(UserWarning, match=words):
        proba = s.StackedRecalibrator(**FEW).fit(S[rows], y[rows]).predict_proba(S)
    assert np.isfinite(np.log(proba)).all()
    few = s.StackedRecalibrator(labels=range(5)).fit(S[:9], y[:9])
    sketch = s.ForecastSketch([0, 1]).partial_fit(y[:9] > 2, S[:9, 0])
    for stack in (few, s.StackedRecalibrator().fit_sketch(sketch)):
        assert stack.weights_ == {"IdentityRecalibrator": 1.0}
        gain = stack.mixture_.gain
        assert (gain.estimate, gain.low, gain.high) == (0, -np.inf, np.inf)
    np.testing.assert_array_equal(few.predict_proba(S), S)


def test_sketches_have_nearly_the_same_mixture():
    S, y, _ = world("steps", 4000)
    S = np.column_stack([1 - S[:, 1].round(2), S[:, 1].round(2)])
    sketch = s.ForecastSketch([0, 1]).partial_fit(y, S)
    of_sketch = s.StackedRecalibrator(**FEW).fit_sketch(sketch)
    whole = s.StackedRecalibrator(**FEW).fit(S, y)
    T, _, C = world("steps", 20_000, seed=1)
    few, all_ = (excess(stack.predict_proba(T), C) for stack in (of_sketch, whole))
    assert of_sketch.mixture_.gain.low > 0 and few == pytest.approx(all_, abs=0.03 * excess(T, C))
