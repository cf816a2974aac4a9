"""Jumps and confused classes beyond the averaged maps: tests of residuals, fits, intervals."""

import itertools
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from dense_directions import labels_from, problem_of
from scipy.special import expit
from scipy.stats import cauchy

from skcalib import CalibrationErrorEstimator, calibration_error_interval, score_decomposition
from skcalib.data.notions import Classwise
from skcalib.data.problem import check_problem
from skcalib.error_intervals.proper import estimates_of_solved
from skcalib.proper import map_average, residual_tests
from skcalib.proper.map_average import AveragedProblem, squared_norms
from skcalib.proper.residual_tests import extended_norms
from skcalib.scores import Brier, LogLoss
from skcalib.stats.squared_norm import SquaredNorm, noise_cumulants

LOSSES = {"brier": Brier(), "log": LogLoss()}
MASS = np.array([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.2, 0.7, 0.1]])


def stepped(n_samples, seed, size=0.4):
    """Labels, forecasts of an event, and its probability, with a jump at one half."""
    rng = np.random.default_rng(seed)
    s = expit(2 * rng.normal(size=n_samples))
    c = np.where(s < 0.5, (1 - size) * s, 1 - (1 - size) * (1 - s))
    return (rng.random(n_samples) < c).astype(int), s, c


def confused(n_samples, seed, rate=0.25, above=0.0, n_classes=4):
    """Labels, forecasts and posteriors: a share of class 0 is class 1."""
    rng = np.random.default_rng(seed)
    forecast = rng.dirichlet(np.full(n_classes, 0.4), n_samples)
    mass = rate * forecast[:, 0] * (forecast[:, 0] >= above)
    posterior = forecast.copy()
    posterior[:, 0] -= mass
    posterior[:, 1] += mass
    return labels_from(posterior, rng), forecast, posterior


def solved(y, forecast):
    return AveragedProblem.of(problem_of(y, forecast))


def cells_of(forecast, **options):
    n_samples = len(forecast)
    share, average = np.full(n_samples, 1 / n_samples), SimpleNamespace(size=float(n_samples))
    problem = SimpleNamespace(forecast=forecast, share=share, average=average)
    return residual_tests.NestedCells(problem, **options)


def test_the_sum_over_one_problem_is_its_mean():
    problem = solved(*stepped(4000, 0)[:2])
    mean, total = (
        estimates_of_solved([problem], losses=list(LOSSES), notion=Classwise(reduce))
        for reduce in ("mean", "sum")
    )
    assert problem.extension is not None and mean[0].norm.wider is not None
    assert [estimate.interval for estimate in mean] == [estimate.interval for estimate in total]


@pytest.mark.parametrize(("n_classes", "pairs"), [(2, False), (3, False), (3, True)])
def test_cells_are_nested_and_do_not_split_ties(n_classes, pairs):
    """They reach into the tails: half of an equal share of the samples, or of the information."""
    rng = np.random.default_rng(0)
    s = expit(rng.normal(-6, 2, 4000))
    cells = cells_of(np.column_stack([1 - s, s]))
    code = cells.at(16)
    mass = np.bincount(code) / 4000 + np.bincount(code, s * (1 - s)) / np.sum(s * (1 - s))
    np.testing.assert_allclose(mass, 2 / 16, atol=0.02)
    forecast = np.round(rng.dirichlet(np.ones(n_classes), 3000), 2)
    forecast[:, -1] = np.round(1 - forecast[:, :-1].sum(axis=1), 2)
    cells = cells_of(forecast, pairs=pairs)
    assert len(cells.levels) > 2 and all(b == 2 * a for a, b in itertools.pairwise(cells.levels))
    key = forecast[:, 1] if n_classes == 2 else forecast.max(axis=1) + 10 * forecast.argmax(axis=1)
    if pairs:  # of equal forecasts the first class counts
        key += 100 * np.argsort(-forecast, axis=1, kind="stable")[:, 1]
    values = rng.normal(size=(3000, 2))
    finest = cells.total(values)
    for level in cells.levels:
        code = cells.at(level)
        for value in np.unique(key):
            assert len(np.unique(code[key == value])) == 1
        sums = cells.fold(finest, level)
        for k in np.unique(code):
            np.testing.assert_allclose(sums[k], values[code == k].sum(axis=0), atol=1e-9)
        if n_classes == 2:  # a cell is an interval
            ends = [(key[code == k].min(), key[code == k].max()) for k in np.unique(code)]
            assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("n_classes", [3, 2])
def test_the_test_of_residuals_is_that_of_dense_cells(n_classes, clustered):
    """Squared sums of whitened residuals, without single samples, and what fits have taken."""
    rng, n = np.random.default_rng(1), 1200
    forecast = rng.dirichlet(np.ones(n_classes), n)
    problem = problem_of(labels_from(forecast, rng), forecast, rng.uniform(0.5, 2, n))
    problem = replace(problem, cluster=np.arange(n) // 2 if clustered else None)
    problem = AveragedProblem.of(problem)
    cells, columns = residual_tests.NestedCells(problem), slice(n_classes == 2, None)
    (sums,) = residual_tests.residual_sums([cells], problem, forecast)
    tangents = rng.normal(size=(n, n_classes, 2))[:, columns] / n
    fits = [(cells.total(tangents), np.array([[2.0, 0.3], [0.3, 1.0]]))]
    test = residual_tests.ResidualTest(cells, problem, forecast, sums, fits)
    share, e = problem.share[:, None], (problem.target - forecast)[:, columns]
    law = np.einsum("ij,jk->ijk", forecast, np.eye(n_classes))
    law = (law - forecast[:, :, None] * forecast[:, None])[:, columns, columns]
    variance = np.einsum("ijj->ij", law)
    assert len(test.levels) > 1
    for level, norm in test.levels:
        inside = np.eye(cells.chains * level)[cells.at(level)].T
        information = variance if n_classes == 2 else forecast
        whitened = inside @ (share * information) + 1 / problem.average.size
        if clustered:
            rows = inside[:, :, None] * (share * e) / np.sqrt(whitened)[:, None]
            rows = rows[:, ::2] + rows[:, 1::2]
            rows = rows.transpose(1, 0, 2).reshape(n // 2, -1)
            value = np.sum(rows.sum(axis=0) ** 2) - np.sum(rows**2)
            moments = noise_cumulants(rows)
        else:
            value = np.sum(((inside @ (share * e)) ** 2 - inside @ (share * e) ** 2) / whitened)
            along = np.einsum("ci,ikj->ckj", inside, tangents) / np.sqrt(whitened)[:, :, None]
            value += np.einsum("ckj,jl,ckl->", along, fits[0][1], along)
            root = 1 / np.sqrt(whitened)
            spread = np.einsum("ci,ijk->cjk", inside, share[:, :, None] ** 2 * law)
            spread = spread * root[:, :, None] * root[:, None]
            alone = np.sum(inside @ (share**4 * variance**2) / whitened**2)
            skewed = inside @ (share**3 * variance * (1 - 2 * forecast[:, columns]))
            third = 8 * np.trace(spread @ spread @ spread, axis1=1, axis2=2).sum()
            third += 4 * np.sum(skewed**2 / whitened**3)
            moments = 2 * (np.sum(spread**2) - alone), third
        numbers = norm.estimate, norm.noise2, norm.noise3
        assert numbers == pytest.approx((value, *moments), rel=1e-9)
    pvalues = [norm.pvalue for _, norm in test.levels]
    assert test.pvalue == pytest.approx(cauchy.sf(np.mean(cauchy.isf(pvalues))), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "n_sets"), [(2, 150), (4, 90)])
def test_calibrated_residuals_are_noise(n_classes, n_sets):
    """The test of the level .03 rejects in 3 % and less, plus three standard errors."""
    rejected = named = 0
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        forecast = rng.dirichlet(np.full(n_classes, 0.5), 800)
        extension = residual_tests.Extension.of(solved(labels_from(forecast, rng), forecast))
        rejected += extension.test.pvalue < 0.03
        named += bool(extension.transitions)
    assert rejected <= n_sets * (0.03 + 3 * np.sqrt(0.03 * 0.97 / n_sets))
    assert named <= 0.02 * n_sets


def test_what_is_no_jump_and_what_is_one():
    """One event where 1e-4 were expected is a surprise, but not evidence of a curve."""
    s = np.full(400, 2.5e-7)
    s[200:] = np.linspace(0.3, 0.7, 200)
    y = (np.random.default_rng(0).random(400) < s).astype(int)
    y[5] = 1
    assert not residual_tests.Extension.of(solved(y, s)).test.unresolved
    extension = residual_tests.Extension.of(solved(*stepped(20_000, 0)[:2]))
    assert extension.test.pvalue < 1e-4 and extension.test.needed >= 16 and extension.share > 0.9
    assert not extension.transitions and not extension.test.unresolved
    few = solved(*stepped(40, 0)[:2])  # are not tested
    assert few.tested is None
    (estimate,) = estimates_of_solved([few], losses=["brier"], notion="canonical")
    assert estimate.residual_pvalue == 1.0 and not estimate.lower_bound


def test_what_only_the_finest_cells_show_is_unresolved():
    """Alternations that are finer than every cell but the finest."""
    rng = np.random.default_rng(0)
    s = np.sort(rng.uniform(0.3, 0.7, 4000))
    turns = np.arange(4000) * 128 // 4000 % 2
    y = (rng.random(4000) < s + 0.25 * (2 * turns - 1)).astype(int)
    interval = calibration_error_interval(y, s, metric="brier")
    assert not interval.valid
    assert float(re.search(r"\(p = (.+?)\)", interval.reason)[1]) < 0.002
    estimator = CalibrationErrorEstimator().fit(s, y)
    assert estimator.lower_bound_ == interval.reason


def test_transitions_are_those_of_the_simulation():
    """They move mass where they hold; their rates have a slope far below the standard errors."""
    y, forecast, posterior = confused(4000, 0, rate=0.2, above=0.8)
    problem = solved(y, forecast)
    extension = problem.extension
    first = extension.transitions[0]
    assert (first.source, first.target) == (0, 1) and 0.1 < first.rate < 0.3
    assert first.above > 0.6 and extension.share > 0.99
    first = solved(*confused(3000, 1, rate=0.4)[:2]).extension.transitions[0]
    assert (first.source, first.target, first.above) == (0, 1, None) and 0.3 < first.rate < 0.5
    change = residual_tests.Transition(0, 2, 0.6, 0.1).change(MASS, MASS)
    np.testing.assert_array_equal(change, [[-0.7, 0, 0.7], [0, 0, 0], [0, 0, 0]])
    everywhere = residual_tests.Transition(0, 2, None, 0.1).change(MASS, MASS)
    np.testing.assert_array_equal(everywhere[:, 2], MASS[:, 0])
    distance = [np.mean((p - posterior) ** 2) for p in (extension.proba, problem.average.averaged)]
    assert distance[0] < 0.2 * distance[1]
    np.testing.assert_allclose(extension.proba.sum(axis=1), 1.0, rtol=1e-12)
    rows = np.arange(4000)
    changes = np.stack([t.change(forecast, extension.start) for t in extension.transitions], axis=2)
    score = (changes[rows, y] / extension.proba[rows, y][:, None]).sum(axis=0)
    assert np.abs(score).max() < 1e-2 * np.sqrt(np.diag(np.linalg.inv(extension.inverse))).max()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("make", [stepped, confused])
def test_the_interval_holds_those_with_and_without_cells(make, loss):
    problem = solved(*make(3000, 3)[:2])
    (plain,) = squared_norms([problem], [LOSSES[loss]])
    (norm,) = extended_norms([problem], [LOSSES[loss]], [plain], 1.0)
    limits = plain.interval(0.95), SquaredNorm.interval(norm.wider, 0.95)
    assert norm.interval(0.95) == (min(x[0] for x in limits), max(x[1] for x in limits))
    assert norm.wider.noise2 > 0 and norm.wider.standard_error > 0


@pytest.mark.parametrize(
    ("make", "loss"), [(stepped, "log"), (confused, "brier"), (confused, "log")]
)
def test_all_functions_state_the_same_numbers(make, loss, set_sizes):
    """From blocks of any size, with equal weights of any size."""
    y, forecast, _ = make(3000, 6)
    interval = calibration_error_interval(y, forecast, metric=loss)
    estimator = CalibrationErrorEstimator(loss=loss).fit(forecast, y)
    terms = score_decomposition(y, forecast, loss=loss)
    for error in (estimator.calibration_error_, terms.calibration):
        assert error == pytest.approx(interval.estimate, rel=1e-12)
    assert estimator.confidence_interval_ == pytest.approx((interval.low, interval.high), rel=1e-12)
    assert estimator.evidence_["curve" if make is stepped else "confusion"] > 0.9
    set_sizes(basis_entries=20_000)
    parts = calibration_error_interval(y, forecast, metric=loss, sample_weight=np.full(3000, 7))
    assert parts.estimate == pytest.approx(interval.estimate, rel=1e-6)
    assert (parts.low, parts.high) == pytest.approx((interval.low, interval.high), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "n_samples", "size"), [(stepped, 10_000, 0.6), (confused, 2000, 0.25)]
)
def test_coverage_where_maps_fail(make, n_samples, size):
    """At least .95 less three standard errors; jumps are covered more often than by maps alone."""
    held, n_sets = np.zeros(2), 30
    for seed in range(n_sets):
        y, forecast, posterior = make(n_samples, seed + 100, size)
        best, issued = (
            np.column_stack([1 - p, p]) if p.ndim == 1 else p for p in (posterior, forecast)
        )
        truth = LogLoss().divergence(best, issued).mean()
        problem = solved(y, forecast)
        norms = squared_norms([problem], [LogLoss()])
        norms += extended_norms([problem], [LogLoss()], norms, 1.0)
        limits = np.array([norm.interval(0.95) for norm in norms])
        held += (limits[:, 0] <= truth) & (truth <= limits[:, 1])
    assert held[1] / n_sets >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / n_sets)
    assert held[0] < held[1] or make is confused


@pytest.mark.slow
def test_clusters_widen_what_repeated_rows_would_narrow():
    y, s, c = stepped(1500, 7, size=0.6)
    plain = CalibrationErrorEstimator().fit(s, y)
    groups = np.repeat(np.arange(1500), 4)
    repeated = CalibrationErrorEstimator().fit(np.repeat(s, 4), np.repeat(y, 4), groups=groups)
    truth = np.mean((c - s) ** 2)
    assert repeated.confidence_interval_[0] <= truth <= repeated.confidence_interval_[1]
    widths = [np.diff(fitted.confidence_interval_)[0] for fitted in (plain, repeated)]
    assert 0.7 < widths[1] / widths[0] < 2


def test_very_many_samples_are_tested_where_a_part_is_suspect(set_sizes):
    set_sizes(part_samples=1500)
    y, forecast, posterior = confused(12_000, 8)
    problem = map_average.OneStepProblem.of(check_problem(y, forecast))
    assert problem.suspect and problem.extension.transitions[0][:2] == (0, 1)
    truth = Brier().divergence(posterior, forecast).mean()
    assert problem.errors(Brier()).mean() == pytest.approx(truth, rel=0.15)
    assert CalibrationErrorEstimator().fit(forecast, y).lower_bound_ == ""
    calibrated_problem = check_problem(labels_from(forecast, np.random.default_rng(9)), forecast)
    calibrated = map_average.OneStepProblem.of(calibrated_problem)
    assert not calibrated.suspect and calibrated.tested is None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shifts_are_those_of_normal_priors(n_classes):
    """In each cell the score is twice the shift of the log probability."""
    y, forecast, _ = stepped(20_000, 11) if n_classes == 2 else cyclic(20_000, 11)
    extension = solved(y, forecast).extension
    assert len(extension.shifts) and not extension.transitions
    code = extension.test.cells.at(extension.test.needed)
    shift = np.log(extension.proba) - np.log(extension.start)
    shift -= shift.mean(axis=1, keepdims=True)  # the shifts of a cell add up to zero
    inside = np.eye(code.max() + 1)[code]
    score = inside.T @ (np.eye(n_classes)[y] - extension.proba)
    mass = np.maximum(inside.sum(axis=0), 1)[:, None]
    np.testing.assert_allclose(score, 2 * (inside.T @ shift) / mass, atol=1e-4)


def cyclic(n_samples, seed):
    """Where the confidence is between .5 and .7, a third of each class is the next one."""
    rng = np.random.default_rng(seed)
    forecast = rng.dirichlet(np.full(3, 0.6), n_samples)
    confidence = forecast.max(axis=1, keepdims=True)
    mass = forecast * ((confidence > 0.5) & (confidence < 0.7)) / 3
    posterior = forecast - mass + np.roll(mass, 1, axis=1)
    return labels_from(posterior, rng), forecast, posterior


def tied(n_samples, seed):
    """Classes 0 and 1, 2 and 3, 4 and 5 are equally likely where both have at least .05."""
    rng = np.random.default_rng(seed)
    forecast = rng.dirichlet(np.full(6, 0.4), n_samples)
    posterior = forecast.copy()
    for pair in (slice(0, 2), slice(2, 4), slice(4, 6)):
        both = forecast[:, pair].min(axis=1) >= 0.05
        posterior[both, pair] = forecast[both, pair].mean(axis=1, keepdims=True)
    return labels_from(posterior, rng), forecast, posterior


@pytest.mark.slow
def test_shifts_find_what_no_map_has():
    """Squared error of the estimate, over three samples, less than half of that of the maps."""
    squared = np.zeros(2)
    for seed in range(3):
        y, forecast, posterior = cyclic(10_000, seed)
        problem, truth = solved(y, forecast), Brier().divergence(posterior, forecast).mean()
        errors = problem.errors(Brier()).mean(), problem.map_terms(Brier(), "errors").mean()
        squared += (np.array(errors) - truth) ** 2
    assert squared[0] < squared[1] / 2


@pytest.mark.slow
def test_products_of_neighbours_are_noise_where_labels_are_those_of_the_map():
    """Their mean is zero, within four standard errors, also after means of cells."""
    missing = np.zeros((40, 2))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        forecast = rng.dirichlet(np.ones(3), 600)
        problem = solved(labels_from(forecast, rng), forecast)
        cells = residual_tests.NestedCells(problem, pairs=True)
        for k, needed in enumerate((0, 4)):
            (sums,) = residual_tests.residual_sums([cells], problem, forecast)
            test = residual_tests.ResidualTest(cells, problem, forecast, sums, [])
            test.needed = needed
            extension = replace(problem.tested, proba=forecast, test=test)
            missing[seed, k] = extension.missing(problem, np.inf)
    error = missing.std(axis=0) / np.sqrt(len(missing))
    assert np.all(np.abs(missing.mean(axis=0)) < 4 * error)
    assert 2 / 3 < error[1] / error[0] < 1


def test_evidence_and_forecasts_of_an_extension_are_mixed_with_those_of_the_maps():
    """By its weight: w + (1 - w) share for the weight w of its kind of maps."""
    for sample, name in ((stepped(4000, 0), "curve"), (confused(1500, 0, 0.1), "confusion")):
        problem = solved(*sample[:2])
        extension, average = problem.extension, problem.average
        before, share = average.evidence[name], extension.share
        expected = before + share - before * share
        assert problem.evidence[name] == pytest.approx(expected, rel=1e-13)
        assert before > 0 or name == "confusion"
        mixed = (1 - share) * average.averaged + share * extension.proba
        np.testing.assert_allclose(problem.conditional, mixed, rtol=1e-9)
        others = average.evidence.keys() - {name}
        assert all(problem.evidence[kind] == average.evidence[kind] for kind in others)


def test_similar_residuals_of_similar_forecasts_are_stated():
    """The squared error that is left out is the mean product of neighbours."""
    y, forecast, posterior = tied(12_000, 0)
    problem = solved(y, forecast)
    (estimate,) = estimates_of_solved([problem], losses=["brier"], notion="canonical")
    assert estimate.interval.high < Brier().divergence(posterior, forecast).mean()
    assert f"{problem.left_out:.0%}" in estimate.lower_bound
    missing, change = problem.tested.missing(problem), problem.tested.proba - forecast
    share = missing / (missing + np.mean(np.sum(change**2, axis=1)))
    assert problem.left_out == pytest.approx(share) and share > 0.05


@pytest.mark.slow
def test_seldom_is_anything_left_out_where_there_is_nothing():
    problems = (solved(*confused(1500, seed, rate)[:2]) for seed in range(8) for rate in (0, 0.25))
    assert sum(problem.left_out > 0 for problem in problems) <= 1
