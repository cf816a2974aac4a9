"""Maps without some of the samples, by one Newton step, against fits to the other samples."""

from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from dense_directions import labels_from, world
from grids import rotated
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from skcalib import IdentityRecalibrator, VectorScaling
from skcalib.data.clusters import effective_size
from skcalib.links import DirichletMap, MatrixMap, VectorMap, newton
from skcalib.links.affine import affine_fit, affine_sums, fit_by_evidence, minimise_affine
from skcalib.links.averaging import AverageWithout, ModelAverage, Prior
from skcalib.links.basis import Directions, LogitBasis
from skcalib.links.newton import expansion_holds, is_usual
from skcalib.recalibration import MatrixScaling, ModelAverageScaling, held_out
from skcalib.scores import LogLoss


def average_of(y, forecast, weight):
    """The averaged maps of labels, or of label distributions."""
    target = np.eye(forecast.shape[1])[y] if y.ndim == 1 else y
    return ModelAverage().fit(forecast, target, weight)


def fit_in(basis, y, forecast, weight):
    """As `average_of`, in directions that were learned before."""

    def learned(empty, forecast, *_, **options):
        vars(empty).update(vars(basis))
        return Directions(basis, forecast)

    with patch.object(LogitBasis, "fit_directions", learned):
        return average_of(y, forecast, weight)


def without_a_fifth(y, forecast):
    """Maps of all samples; without every fifth by one step; fits to the others, as `average_of`."""
    whole, test = average_of(y, forecast, np.ones(6000)), np.arange(0, 6000, 5)
    remaining = np.setdiff1d(np.arange(6000), test)
    return whole, AverageWithout(whole, test), (y[remaining], forecast[remaining], np.ones(4800))


@pytest.mark.parametrize(
    ("kind", "n_classes", "weighted"),
    [("slope", 2, True), ("curve", 2, False), ("shift", 3, True), ("class_slopes", 4, False)],
)
def test_the_step_goes_nearly_all_of_the_way(kind, n_classes, weighted):
    """From the fit to all samples to that to the others, at the samples that are left out.

    The directions are the same; those of the other samples alone differ a little.
    """
    y, forecast, _ = world(kind, 6000, n_classes, 3)
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.5, 2, 6000) if weighted else np.full(6000, 1.7)
    whole = average_of(y, forecast, weight)
    far, left = [], []
    for test in np.array_split(rng.permutation(6000), 5):
        remaining = np.setdiff1d(np.arange(6000), test)
        exact = fit_in(whole.basis, y[remaining], forecast[remaining], weight[remaining]).map(
            forecast[test]
        )
        without = AverageWithout(whole, test)
        assert without.accurate
        far.append(np.log(whole.map(forecast[test]) / exact))
        left.append(np.log(without.map(forecast[test]) / exact))
        assert without.size == pytest.approx(
            weight[remaining].sum() ** 2 / np.sum(weight[remaining] ** 2)
        )
    assert np.linalg.norm(left) < 0.1 * np.linalg.norm(far)


def test_the_prior_is_in_the_step(monkeypatch):
    """With a precision as large as the information, where it changes the step by half."""
    monkeypatch.setattr("skcalib.links.averaging.PRIOR", Prior(precision=5000.0))
    whole, without, remaining = without_a_fifth(*world("slope", 6000, 3, 3)[:2])
    for model in fit_in(whole.basis, *remaining).models:
        averages = whole, without
        start, stepped = ({m.groups: m for m in a.models}[model.groups] for a in averages)
        far, left = (np.linalg.norm(m.theta - model.theta) for m in (start, stepped))
        assert left < 0.1 * far
        near = 1e-3 * abs(model.gain)
        assert stepped.gain == pytest.approx(model.gain, abs=0.01 + near)
        assert stepped.evidence == pytest.approx(model.evidence, abs=0.02 + near)
        assert stepped.covariance == pytest.approx(model.covariance, rel=0.05, abs=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_held_out_losses_of_calibrated_forecasts_are_not_optimistic(n_classes):
    """Gains of models and the weight of the identity are those of separate fits."""
    y, forecast, _ = world("calibrated", 5000, n_classes, 1)
    weight, folds = np.ones(5000), np.array_split(np.random.default_rng(0).permutation(5000), 5)
    whole = average_of(y, forecast, weight)
    gains = np.zeros((2, 5000))
    for test in folds:
        remaining = np.setdiff1d(np.arange(5000), test)
        fitted = average_of(y[remaining], forecast[remaining], weight[remaining])
        without = AverageWithout(whole, test)
        assert fitted.shares[0] > 0.5
        assert without.shares[0] == pytest.approx(fitted.shares[0], abs=0.05)
        for k, average in enumerate((fitted, without)):
            gains[k, test] = gain_of(average, "slope", y[test], forecast[test])
    optimistic = gain_of(whole, "slope", y, forecast).mean()
    exact, stepped = gains.mean(axis=1)
    assert optimistic - exact > 5e-5  # about one parameter: two halves of 1 / n
    assert stepped == pytest.approx(exact, abs=0.05 * (optimistic - exact))


def test_labels_of_probability_zero_count_in_their_fold_only():
    """The identity has no likelihood where such a label is among the other samples."""
    y, forecast, _ = world("calibrated", 6000, 2, 1)
    forecast[7] = np.eye(2)[1 - y[7]]
    whole, without, _ = without_a_fifth(y, forecast)
    assert whole.shares[0] == without.shares[0] == 0 and np.isfinite(without.shares).all()
    assert AverageWithout(whole, np.arange(2, 6000, 5)).shares[0] > 0.5


def test_constants_by_most_likely_class_keep_their_cost():
    """Where a class leads, the others are too high and too low: no other constants help."""
    _, forecast, posterior = world("calibrated", 6000, 3, 1)
    rows, top, posterior = np.arange(6000), forecast.argmax(axis=1), posterior.copy()
    moved = 0.6 * np.minimum(forecast[rows, (top + 1) % 3], forecast[rows, (top + 2) % 3])
    posterior[rows, (top + 1) % 3] -= moved
    posterior[rows, (top + 2) % 3] += moved
    y = labels_from(posterior, np.random.default_rng(0))
    whole, without, remaining = without_a_fifth(y, forecast)
    models = [average.models[-1] for average in (fit_in(whole.basis, *remaining), without)]
    assert models[0].groups == models[1].groups == ("confusion",)
    assert models[1].evidence == pytest.approx(models[0].evidence, abs=0.5)
    assert without.shares[-1] > 0.99


def gain_of(average, group, y, forecast):
    """Gains of the log loss of samples by the model of one group."""
    (model,) = (model for model in average.models if model.groups == (group,))
    logits = average.basis(forecast, model.groups).logits(model.theta)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    rows = np.arange(len(y)), y
    return logits[rows] - np.log(forecast[rows])


def test_label_distributions_keep_their_dispersion():
    _, forecast, truth = world("slope", 6000, 3, 2)
    votes = np.random.default_rng(0).multinomial(10, truth) / 10
    whole, without, remaining = without_a_fifth(votes, forecast)
    exact, left_out = average_of(*remaining), forecast[::5]
    of_labels = np.mean(1 - np.sum(whole.averaged**2, axis=1))
    spread = np.mean(np.sum((votes - whole.averaged) ** 2, axis=1))
    assert whole.dispersion == pytest.approx(spread / of_labels, rel=0.01)
    assert without.size == pytest.approx(4800)
    far, left = (
        np.log(average.map(left_out) / exact.map(left_out)) for average in (whole, without)
    )
    assert np.linalg.norm(left) < 0.25 * np.linalg.norm(far)
    gains = [dict((m.groups, m.gain) for m in average.models) for average in (exact, without)]
    assert gains[1]["slope",] == pytest.approx(gains[0]["slope",], rel=0.01)


def test_a_selection_uses_the_step_and_agrees_with_separate_fits(set_sizes):
    y, forecast, _ = world("curve", 6000, 2, 5)
    folds = np.array_split(np.random.default_rng(1).permutation(6000), 5)
    options = {"classes": np.arange(2), "folds": folds, "scores": [LogLoss()]}
    candidates = [ModelAverageScaling()]
    run = {**options, "forecasts": True}
    (fast,), _, (proba,) = held_out.held_out_losses(candidates, forecast, y, **run)
    whole = average_of(y, forecast, np.ones(6000))
    (known,), *_ = held_out.held_out_losses(candidates, forecast, y, **options, average=whole)
    assert np.array_equal(known, fast)
    assert fast[0] == pytest.approx(-np.log(proba[np.arange(6000), y]))
    # Samples in no fold, and few samples, need separate fits.
    some = {**options, "folds": folds[:4]}
    (of_some,), *_ = held_out.held_out_losses(candidates, forecast, y, **some)
    set_sizes(one_step_samples=6001)
    (again,), *_ = held_out.held_out_losses(candidates, forecast, y, **some)
    (slow,), *_ = held_out.held_out_losses(candidates, forecast, y, **options)
    assert np.array_equal(of_some, again, equal_nan=True) and not np.array_equal(fast, slow)
    error = np.std(slow[0] + np.log(forecast[np.arange(6000), y])) / np.sqrt(6000)
    assert fast[0].mean() == pytest.approx(slow[0].mean(), abs=0.1 * error)


def overconfident(n_samples, n_classes, seed):
    """Logits whose classes need different slopes and biases, targets and weights."""
    rng = np.random.default_rng(seed)
    z = np.log(rng.dirichlet(np.ones(n_classes), n_samples))
    truth = z * rng.uniform(0.5, 1, n_classes) + rng.normal(0, 0.3, n_classes)
    y = labels_from(softmax(truth, axis=1), rng)
    return z, np.eye(n_classes)[y], rng.uniform(0.5, 2, n_samples)


@pytest.mark.parametrize("kind", [VectorMap, MatrixMap, DirichletMap])
def test_steps_of_affine_maps_go_nearly_all_of_the_way(kind):
    """With a given strength, and with that of the highest evidence without the folds."""
    z, target, weight = overconfident(6000, 4, seed=0)
    link, start = kind().prepare(z), kind().tempered(4, 0.7)
    folds = np.array_split(np.random.default_rng(0).permutation(6000), 5)
    parts = [(z[test], target[test], weight[test] / weight.mean()) for test in folds]

    def fitted(rows, strength):
        scaled = weight[rows] / weight[rows].mean()
        sums = partial(affine_sums, link, z[rows], target[rows], scaled)
        ratio = effective_size(scaled) / len(rows)
        if strength is None:
            strength, *_ = fit_by_evidence(link, sums, start, size=len(rows), share=ratio)
        run = {"shrinkage": strength, "size": len(rows), "max_values": 100}
        return strength, minimise_affine(link, sums, start, **run).refined

    for strength in (30.0, 1.0, None):
        fit = affine_fit(link, parts, start, strength)
        far, left = [], []
        for k, test in enumerate(folds):
            strength_without, theta = fit.without([k], chosen=strength is None)
            assert fit.is_usual(k) and fit.follows(theta, k, affine_sums(link, *parts[k], theta)[0])
            expected, exact = fitted(np.setdiff1d(np.arange(6000), test), strength)
            assert strength_without == pytest.approx(expected, rel=0.05)
            far.append(link.apply(fit.theta, z[test]) - link.apply(exact, z[test]))
            left.append(link.apply(theta, z[test]) - link.apply(exact, z[test]))
        assert np.linalg.norm(left) < 0.08 * np.linalg.norm(far)
    _, step = affine_fit(link, parts, start, np.inf).without([0])  # the slope alone
    slopes = [sum(affine_sums(link, *part, at)[1][0] for part in parts[1:]) for at in (start, step)]
    assert np.array_equal(step[1:], start[1:]) and abs(slopes[1]) < 0.1 * abs(slopes[0])


@pytest.mark.parametrize(
    ("scaling", "seed"),
    rotated([VectorScaling(), MatrixScaling(), MatrixScaling(shrinkage=3.0)], range(3), 1),
)
def test_affine_maps_without_each_fold_are_those_of_separate_fits(scaling, seed, set_sizes):
    """The held-out losses agree within a twentieth of the standard error of their gain."""
    z, target, weight = overconfident(6000, 4, seed)
    proba, y = softmax(z, axis=1), target.argmax(axis=1)
    folds = np.array_split(np.random.default_rng(seed).permutation(6000), 5)
    options = {"classes": np.arange(4), "folds": folds, "scores": [LogLoss()], "weight": weight}

    def losses():
        return held_out.held_out_losses([IdentityRecalibrator(), scaling], proba, y, **options)[0][
            0
        ]

    fast = losses()
    set_sizes(one_step_samples=np.inf)
    slow = losses()
    assert np.array_equal(fast[0], slow[0]) and not np.array_equal(fast[1], slow[1])
    gain, share = slow[0] - slow[1], weight / weight.sum()
    error = np.sqrt(share**2 @ (gain - share @ gain) ** 2)
    assert share @ gain > 5 * error
    assert abs(share @ (fast[1] - slow[1])) < 0.05 * error


def groups_of_samples(shift, seed):
    """Labels, forecasts and groups, each of which shifts the logits of the classes."""
    rng = np.random.default_rng(seed)
    group, z = rng.integers(10, size=6000), 1.5 * rng.normal(size=(6000, 5))
    chances = softmax(z + shift * rng.normal(size=(10, 5))[group], axis=1)
    return labels_from(chances, rng), softmax(z, axis=1), group


def fits_without(candidate, y, proba, folds, weight=None):
    """One fit without each fold, or None where one step is not enough."""
    return held_out.fit_without_each(candidate, proba, y, weight, np.arange(proba.shape[1]), folds)


FIFTHS = [np.arange(k, 6000, 5) for k in range(5)]


@pytest.mark.parametrize("shift, steps", [(0.0, True), (0.25, False), (1.0, False)])
@pytest.mark.parametrize("candidate", [VectorScaling(), ModelAverageScaling()])
def test_folds_of_groups_that_differ_have_fits_of_their_own(candidate, shift, steps):
    y, proba, group = groups_of_samples(shift, seed=0)
    folds = [np.flatnonzero(group % 5 == k) for k in range(5)]
    assert (fits_without(candidate, y, proba, folds) is not None) == steps


def test_overlapping_folds_and_other_losses_have_fits_of_their_own():
    """With repeated folds, a sample that is left out once is in the fits of other repetitions."""
    y, proba, _ = groups_of_samples(0.0, seed=1)
    again = FIFTHS + np.array_split(np.random.default_rng(0).permutation(6000), 5)
    assert len(fits_without(VectorScaling(), y, proba, FIFTHS)) == 5
    assert fits_without(VectorScaling(), y, proba, again) is None
    assert fits_without(VectorScaling(loss="brier"), y, proba, FIFTHS) is None
    assert len(fits_without(ModelAverageScaling(), y, proba, again)) == 10


@pytest.mark.parametrize("candidate", [VectorScaling(), ModelAverageScaling()])
def test_samples_of_weight_zero_are_as_if_dropped(candidate):
    y, proba, _ = groups_of_samples(0.0, seed=2)
    weight = np.random.default_rng(0).uniform(0.5, 2, 6000)
    weight[::60] = 0
    positive, place = weight > 0, np.cumsum(weight > 0) - 1
    folds = [place[test[positive[test]]] for test in FIFTHS]
    assert fits_without(candidate, y[positive], proba[positive], folds)
    options = {"classes": np.arange(5), "scores": [LogLoss()]}
    with_zeros, expected = (
        held_out.held_out_losses([candidate], proba[r], y[r], weight=weight[r], folds=f, **options)
        for r, f in ((slice(None), FIFTHS), (positive, folds))
    )
    assert np.array_equal(with_zeros[0], expected[0])


def test_parameters_are_checked_before_a_step():
    y, proba, _ = groups_of_samples(0.0, seed=3)
    wrong = VectorScaling(max_iter=-3), VectorScaling(tol=-1.0), ModelAverageScaling(loss="no")
    for candidate, name in zip(wrong, ("max_iter", "tol", "loss"), strict=True):
        with pytest.raises(ValueError, match=f"{name} must be"):
            fits_without(candidate, y, proba, FIFTHS)


def test_usual_scores_are_those_of_random_samples():
    """A chi-squared variable of three degrees of freedom; directions without information drop."""
    information = np.diag([4.0, 9.0, 1.0, 0.0])
    most = np.sqrt((3 + 4 * (np.sqrt(6) + 1)) * 0.25 * 9.0)
    for factor, expected in ((0.99, True), (1.01, False)):
        excess = np.array([0.0, factor * most, 0.0, 0.0])
        assert is_usual(excess, information, 0.5) == expected
        assert is_usual(excess, information, 0.5, 1.1)
    draws = np.random.default_rng(0).normal(size=(2000, 4)) * 0.4 * np.sqrt(np.diag(information))
    assert sum(is_usual(excess, information, 0.2) for excess in draws) >= 1985


def test_the_strength_without_a_fold_does_not_depend_on_its_labels():
    """Some labels of the first fold change: its own map remains, those of the others change."""
    z, target, weight = overconfident(6000, 3, seed=1)
    proba, y = softmax(z, axis=1), target.argmax(axis=1)
    relabelled = y.copy()
    changed = FIFTHS[0][:120]
    relabelled[changed] = (y[changed] + 1) % 3
    original, moved = (
        fits_without(VectorScaling(), o, proba, FIFTHS, weight) for o in (y, relabelled)
    )
    changes = (original[k].predict_proba(proba) - moved[k].predict_proba(proba) for k in (0, 1))
    near, far = (np.abs(change).mean() for change in changes)
    assert original[0].shrinkage_ == pytest.approx(moved[0].shrinkage_, rel=0.1)
    assert near < 0.1 * far


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("least", [0.0, 1e-200])
def test_certain_forecasts_that_are_right_have_no_step(n_classes, least):
    y = np.random.default_rng(0).integers(0, n_classes, 6000)
    forecast = np.full((6000, n_classes), least)
    forecast[np.arange(6000), y] = 1
    with pytest.warns(ConvergenceWarning, match="separable"):
        scaling = VectorScaling().fit(forecast, y)
    assert scaling.predict_proba(forecast) == pytest.approx(forecast, abs=1e-6)


HEAVY = np.repeat([2.0, 1.0], [2000, 8000])  # a third of the mass in the first fold


@pytest.mark.parametrize(
    ("counts", "weight", "n_folds", "enough"),
    [
        ([2500, 2500], None, 5, True),
        ([2499, 2500], None, 5, False),
        ([4980, 20], None, 5, True),
        ([4981, 19], None, 5, False),
        ([150] * 40, None, 5, True),
        ([149] * 40, None, 5, False),
        ([2500, 2500], None, 4, True),
        ([2500, 2500], None, 3, False),
        ([3000, 3000], np.linspace(0.01, 2, 6000), 5, False),
        ([5000, 5000], HEAVY, 5, False),
    ],
)
def test_few_samples_rare_classes_and_large_folds_need_separate_fits(
    counts, weight, n_folds, enough
):
    weight = np.ones(sum(counts)) if weight is None else weight
    folds = np.array_split(np.arange(sum(counts)), n_folds)
    assert newton.one_step_is_enough(np.array(counts), weight, folds) == enough


@pytest.mark.parametrize(
    ("actual", "half_square", "holds"),
    [(-100.019, 0.1, True), (-100.021, 0.1, False), (-98.991, 10, True), (-98.989, 10, False)],
)
def test_an_expansion_may_have_a_small_remainder(actual, half_square, holds):
    assert expansion_holds(actual, -100, half_square) == holds


def test_nearly_certain_forecasts_may_need_separate_fits():
    """A model overshoots without the first fold, whose likelihood shows it."""
    rng = np.random.default_rng(4)
    forecast = rng.dirichlet(np.full(10, 0.05), 5000)
    chances = np.maximum(forecast, 1e-12) ** 0.6
    y = labels_from(chances / chances.sum(axis=1, keepdims=True), rng)
    whole = average_of(y, forecast, np.ones(5000))
    accurate = [AverageWithout(whole, np.arange(k, 5000, 5)).accurate for k in (0, 1)]
    assert accurate == [False, True]
