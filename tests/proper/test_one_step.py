"""Errors of very many samples: models of a part and one Newton step, against fits to all."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import peak_memory
from dense_directions import labels_from, problem_of, world

import skcalib as s
from skcalib.data.notions import Canonical
from skcalib.data.problem import Problem
from skcalib.links.averaging import AveragedMap
from skcalib.proper import map_average
from skcalib.proper.map_average import (
    AveragedProblem,
    OneStepProblem,
    is_large,
    n_fitted,
    squared_norms,
)
from skcalib.proper.proper import solve_notion
from skcalib.scores import Brier, LogLoss
from skcalib.smoothers import DirichletKernel

LOSSES = {"brier": Brier(), "log": LogLoss()}


@pytest.fixture
def small_parts(set_sizes):
    set_sizes(part_samples=3000)


def both(y, forecast, weight=None):
    """The same problem solved from a part, and from all samples."""
    problem = problem_of(y, forecast, weight)
    return OneStepProblem.of(problem), AveragedProblem.of(problem)


def solve(kind, n_samples, n_classes, seed):
    """A problem with uneven weights: from a part, and from all samples."""
    y, forecast, _ = world(kind, n_samples, n_classes, seed)
    return both(y, forecast, np.random.default_rng(seed).uniform(0.5, 2, n_samples))


def mean_and_error(solved, loss):
    """The estimate, and the standard error of the mean of the paired differences."""
    terms, difference = solved.errors(LOSSES[loss]), solved.differences(LOSSES[loss])
    return solved.share @ terms, np.sqrt(np.sum((solved.share * difference) ** 2))


@pytest.mark.parametrize("kind", ["class_slopes", "calibrated", "slope", "shift", "curve"])
def test_one_step_is_the_fit_to_all_samples(small_parts, kind):
    """With its limits within a tenth of the standard error, or 2e-5 without miscalibration.

    The part has a quarter of the samples: alone it has twice the standard error. The slopes of the
    classes are wrong by up to a factor of three, where terms of second order are a quarter of it.
    """
    ours, full = solve(kind, 12_000, 4, seed=0)
    share = 0.3 if kind == "class_slopes" else 0.1
    scores = list(LOSSES.values())
    norms, norms_of_all = (squared_norms([problem], scores) for problem in (ours, full))
    for loss, norm, norm_of_all in zip(LOSSES, norms, norms_of_all, strict=True):
        estimate, (expected, error) = mean_and_error(ours, loss)[0], mean_and_error(full, loss)
        numbers = [estimate, *norm.interval(0.95)]
        expected = [expected, *norm_of_all.interval(0.95)]
        np.testing.assert_allclose(numbers, expected, rtol=0, atol=max(share * error, 2e-5))
    if kind != "calibrated":
        assert ours.changed > 0.999


@pytest.mark.parametrize("loss", LOSSES)
def test_paired_differences_are_those_of_the_best_model_of_the_part(small_parts, loss):
    """The gain of one group is that of its model."""
    ours, full = solve("slope", 8000, 3, seed=1)
    start = ours.average.start
    (model,) = (candidate for candidate in ours.average.models if candidate.groups == start.groups)
    score = LOSSES[loss]
    before = score.loss(ours.target, ours.forecast)
    map_of_model = AveragedMap(ours.average.basis, 0.0, [(1.0, model.groups, model.theta)])
    expected = before - score.loss(ours.target, map_of_model(ours.forecast))
    np.testing.assert_allclose(ours.differences(score), expected, rtol=1e-8, atol=1e-12)
    means = [problem.share @ problem.gain("slope") for problem in (ours, full)]
    assert means[0] == pytest.approx(means[1], rel=0.02)


@pytest.mark.slow
def test_miscalibration_that_the_part_does_not_show_is_found(small_parts):
    """Constants by most likely class: a part of 3,000 samples has no model with them."""
    rng = np.random.default_rng(0)
    forecast = rng.dirichlet(np.ones(4), 60_000)
    moved = np.random.default_rng(1).normal(scale=0.12, size=(4, 4))
    moved -= moved.mean(axis=1, keepdims=True)
    chance = forecast * np.exp(moved[forecast.argmax(axis=1)])
    chance /= chance.sum(axis=1, keepdims=True)
    truth = np.mean(np.sum((chance - forecast) ** 2, axis=1))
    problem = problem_of(labels_from(chance, rng), forecast)
    ours = OneStepProblem.of(problem)
    assert ours.average.start.groups == ()
    error = ours.share @ ours.errors(Brier())
    in_part = AveragedProblem.of(problem.take(map_average._drawn(problem))).average
    alone = np.mean(np.sum((in_part.averaged - in_part.forecast) ** 2, axis=1))
    assert abs(error - truth) < 0.15 * truth
    assert abs(alone - truth) > 0.3 * truth


@pytest.mark.parametrize("kind", ["calibrated", "slope", "class_slopes"])
def test_clusters_count_once(small_parts, kind):
    """Four identical samples in each cluster; a part has whole clusters."""
    y, forecast, _ = world(kind, 3000, 4, 0)
    cluster = np.repeat(np.arange(3000), 4)
    problem = replace(problem_of(y[cluster], forecast[cluster]), cluster=cluster)
    assert is_large(problem)
    part = cluster[map_average._drawn(problem)]
    assert len(part) == 3000
    assert np.unique(part, return_counts=True)[1].min() == 4
    few, ours = AveragedProblem.of(problem_of(y, forecast)), OneStepProblem.of(problem)
    assert ours.average.size == pytest.approx(3000, rel=0.03)
    for loss in LOSSES:
        expected, error = mean_and_error(few, loss)
        assert mean_and_error(ours, loss)[0] == pytest.approx(expected, abs=0.2 * error + 2e-4)
    assert not is_large(replace(problem, cluster=cluster % 100))


def test_public_functions_take_the_step(small_parts, set_sizes):
    """Large problems of several classes only; the loss is that of all samples."""
    y, forecast, _ = world("slope", 7000, 3, 3)
    forecast.flags.writeable = False
    problem = problem_of(y, forecast)
    (solved,) = solve_notion(problem, notion=Canonical(), smoother=None)
    assert isinstance(solved, OneStepProblem)
    errors = {loss: s.proper_calibration_error(y, forecast, loss=loss) for loss in LOSSES}
    parts = s.score_decomposition(y, forecast)
    interval = s.calibration_error_interval(y, forecast)
    fitted = s.CalibrationErrorEstimator().fit(forecast, y)
    assert parts.loss == pytest.approx(problem.mean_loss(Brier()), rel=1e-12)
    assert parts.calibration == errors["brier"] == fitted.calibration_error_
    assert interval.low < errors["brier"] < interval.high
    assert set(fitted.evidence_) == {"shift", "slope", "class_slopes", "curve", "confusion"}
    set_sizes(part_samples=10**9)
    for loss, value in errors.items():
        assert s.proper_calibration_error(y, forecast, loss=loss) == pytest.approx(value, rel=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_calibrated_forecasts_of_zero_have_no_error(small_parts, seed):
    """The models start without zeros, and the identity is exact. Most forecasts are 0."""
    rng = np.random.default_rng(seed)
    forecast = np.exp(8 * rng.normal(size=(6100, 4)))
    forecast = np.round(forecast / forecast.sum(axis=1, keepdims=True), 1)
    forecast /= forecast.sum(axis=1, keepdims=True)
    y = labels_from(forecast, rng)
    assert np.mean(forecast == 0) > 0.5 and is_large(problem_of(y, forecast))
    ours, full = both(y, forecast)
    assert ours.average.log_odds < -20 and full.average.log_odds < -20
    for loss in LOSSES:
        assert abs(mean_and_error(ours, loss)[0]) < 1e-12


def test_certain_forecasts_have_the_error_of_a_fit_to_all(small_parts):
    """All are right but for some that are too certain; or all are right."""
    y = np.random.default_rng(0).integers(3, size=6100)
    forecast = np.eye(3)[y]
    assert abs(s.proper_calibration_error(y, forecast, loss="log")) < 1e-6
    forecast[:100] = [0.9, 0.05, 0.05]
    estimate, expected = (mean_and_error(problem, "log")[0] for problem in both(y, forecast))
    assert expected > 0.005
    assert estimate == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
def test_forecasts_are_not_copied(small_parts):
    """A quarter of the memory of a copy and a target for each further sample, at most."""
    y, forecast, _ = world("slope", 32_000, 20, 4)
    before = forecast.copy()
    forecast.flags.writeable = False
    _, few, many = (  # the first imports
        peak_memory(lambda n=n: s.proper_calibration_error(y[:n], forecast[:n]))[1]
        for n in (7000, 16_000, 32_000)
    )
    assert many - few < 16_000 * 20 * 8 * 0.5
    np.testing.assert_array_equal(forecast, before)


def test_a_smoother_a_score_or_a_notion_of_others_gets_a_copy():
    """What they do to it leaves the forecasts of the caller as they were."""
    y, forecast, _ = world("slope", 200, 3, 4)
    seen = []

    class Score(Brier):
        def loss(self, target, forecast):
            seen.append(forecast)
            return super().loss(target, forecast)

    class Notion(Canonical):
        def problems(self, forecast, target):
            seen.append(forecast)
            return super().problems(forecast, target)

    class Kernel(DirichletKernel):
        def fit(self, forecast, *arguments, **options):
            seen.append(forecast)
            return super().fit(forecast, *arguments, **options)

    for options in ({"loss": Score()}, {"notion": Notion()}, {"smoother": Kernel()}):
        seen.clear()
        s.proper_calibration_error(y, forecast, **options)
        assert seen and not any(np.shares_memory(array, forecast) for array in seen)


def test_labels_of_other_kinds(small_parts):
    """Labels and one-hot targets give the same; a label of probability zero an infinite loss."""
    y, forecast, _ = world("class_slopes", 7000, 3, 4)
    problems = (Problem(forecast, labels, np.ones(7000), None) for labels in (y, np.eye(3)[y]))
    solved = [OneStepProblem.of(problem) for problem in problems]
    for loss in LOSSES.values():
        np.testing.assert_array_equal(*(problem.errors(loss) for problem in solved))
        np.testing.assert_array_equal(*(problem.differences(loss) for problem in solved))
    np.testing.assert_array_equal(solved[0].mean_target, np.bincount(y) / 7000)
    forecast[:2] = np.eye(3)[(y[:2] + [0, 1]) % 3]
    ours = OneStepProblem.of(problem_of(y, forecast))
    assert ours.share @ ours.errors(LogLoss()) == np.inf
    assert (ours.changed, ours.average.log_odds) == (1.0, np.inf)
    assert 0 < ours.share @ ours.errors(Brier()) < 1


def test_soft_labels(small_parts):
    """Label distributions vary less than labels: the same error with a smaller variance."""
    y, forecast, chance = world("slope", 8000, 3, 6)
    soft = 0.8 * chance + 0.2 * np.eye(3)[y]
    ours, full = both(soft, forecast)
    assert ours.average.dispersion == pytest.approx(full.average.dispersion, rel=0.05)
    for loss in LOSSES:
        estimate, expected = mean_and_error(ours, loss)[0], mean_and_error(full, loss)[0]
        assert estimate == pytest.approx(expected, rel=0.01)


def test_which_problems_are_large(small_parts):
    y, forecast, _ = world("slope", 6001, 3, 7)
    assert is_large(problem_of(y, forecast))
    assert not is_large(problem_of(y[1:], forecast[1:]))
    weight = np.ones(6001)
    weight[:20] = 1000.0  # about as good as forty samples: a part would have too few of them
    assert not is_large(problem_of(y, forecast, weight))
    y, forecast, _ = world("slope", 6001, 2, 7)
    assert not is_large(problem_of(y, forecast))
    assert n_fitted(6001, 3) == 3000
    assert n_fitted(6001, 100) == 6001  # a part of 4,000 has 40 samples of each class
    assert n_fitted(1_000_000, 10) == 20_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["calibrated", "slope", "class_slopes", "curve"])
def test_mean_over_data_sets_is_the_truth(small_parts, kind, within_standard_errors):
    """30 data sets; fewer than 26 covered have a probability of 2 % at a coverage of 95 %."""
    errors, covered = {"brier": [], "log": []}, 0
    for seed in range(30):
        y, forecast, chance = world(kind, 10_000, 3, 100 + seed)
        ours = OneStepProblem.of(problem_of(y, forecast))
        for loss, score in LOSSES.items():
            truth = np.mean(score.divergence(chance, forecast))
            errors[loss].append(ours.share @ ours.errors(score) - truth)
        low, high = squared_norms([ours], [Brier()])[0].interval(0.95)
        covered += low <= np.mean(Brier().divergence(chance, forecast)) <= high
    for loss in LOSSES:
        if kind == "calibrated":  # never negative on average by more than rounding
            assert abs(np.mean(errors[loss])) < 1e-4
        else:
            within_standard_errors(errors[loss], 0.0, 4)
    assert covered >= 26
