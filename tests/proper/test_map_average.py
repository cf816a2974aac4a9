"""Errors from averaged maps without folds, and their intervals, against dense arrays."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from dense_directions import dense_directions, labels_from, problem_of, tangents, world
from grids import covering, rotated

import skcalib
from skcalib.data.notions import Classwise
from skcalib.datasets import make_tempered_simplex
from skcalib.error_intervals.proper import estimates_of_solved, upper_limit
from skcalib.proper.map_average import AveragedProblem, ErrorNorm, squared_norms
from skcalib.scores import Brier, LogLoss
from skcalib.smoothers import LogitSmoother, QuantileBins
from skcalib.stats.squared_norm import SquaredNorm, noise_cumulants

WORLDS = ["calibrated", "slope", "shift", "class_slopes", "curve"]
LOSSES = {"brier": Brier(), "log": LogLoss()}
NOTIONS = ["canonical", "top_label", "classwise"]


def solve_arrays(y, forecast, weight=None):
    return AveragedProblem.of(problem_of(y, forecast, weight))


def solve(kind, n_samples, n_classes, seed, *, clustered=False):
    """A problem of a world with uneven weights, perhaps in clusters of three."""
    y, forecast, _ = world(kind, n_samples, n_classes, seed)
    weight = np.random.default_rng(seed).uniform(0.5, 2, n_samples)
    cluster = np.arange(n_samples) // 3 if clustered else None
    return AveragedProblem.of(replace(problem_of(y, forecast, weight), cluster=cluster))


def factor(problem):
    return 0.5 if problem.forecast.shape[1] == 2 else 1.0


def several_blocks(set_sizes):
    """Blocks of a few samples, which are computed each time."""
    set_sizes(basis_entries=1000, stored_basis_entries=0)


def dense_terms(problem, model, loss):
    """The gain of one model and its optimism by sample, from dense arrays."""
    s, y, p = problem.forecast, problem.target, model.proba
    w, cluster = problem.average.weight, problem.cluster
    if cluster is None:
        w = problem.weight * problem.weight.sum() / (problem.weight @ problem.weight)
    g = dense_directions(problem.average.basis, s, model.groups)
    h = tangents(p, g)
    inverse = np.linalg.inv(np.einsum("i,ikj,ikl->jl", w, g, h) + np.eye(g.shape[2]))
    x = np.einsum("ikj,ik->ij", g, y - p)
    if cluster is None:
        leverage = w * np.einsum("ikj,jl,ikl->i", h, inverse, g) / (s.shape[1] - 1)
        step = (w / (1 - np.clip(leverage, 0, 0.5)))[:, None] * (x @ inverse)
    else:  # scores of clusters, and the information of each along its step
        same = cluster[:, None] == cluster
        score = same @ (w[:, None] * x)
        step = score @ inverse
        along = same @ (w * np.einsum("ikj,ikl,ij,il->i", g, h, step, step))
        leverage = np.clip(along / np.sum(score * step, axis=1), 0, 0.5)
        step = step / (1 - leverage)[:, None]
    if loss == "brier":
        c = factor(problem)
        gain = c * np.sum((y - s) * (p - s), axis=1)
        cross = np.einsum("ikj,ik->ij", h, y - p)
        return gain, c * np.sum(cross * step, axis=1)
    gain = np.sum(y * np.log(p / s), axis=1)
    return gain, 0.5 * np.sum(x * step, axis=1)


@pytest.mark.parametrize(
    ("kind", "n_classes", "clustered"),
    [
        ("slope", 3, True),
        ("slope", 2, True),
        *((*case, False) for case in covering(WORLDS, [2, 3, 5])),
        ("class_slopes", 3, True),
    ],
)
def test_terms_are_gains_minus_optimism(kind, n_classes, clustered, set_sizes):
    """Averaged over the models, as are paired differences; the identity has no term."""
    if kind in WORLDS[1:3]:
        several_blocks(set_sizes)
    problem = solve(kind, 240, n_classes, seed=1, clustered=clustered)
    for loss, score in LOSSES.items():
        errors, paired = np.zeros((2, 240))
        before = score.loss(problem.target, problem.forecast)
        for share, model in problem.average.weighted_models:
            gain, optimism = dense_terms(problem, model, loss)
            errors += share * (gain - optimism)
            paired += share * (before - score.loss(problem.target, model.proba))
        np.testing.assert_allclose(problem.errors(score), errors, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(problem.differences(score), paired, rtol=1e-9, atol=1e-12)
        assert np.abs(errors).max() > 0
        np.testing.assert_allclose(problem.refinement(score, before), before - errors, rtol=1e-6)
    if kind == "slope":
        (model,) = (model for model in problem.average.models if model.groups == ("slope",))
        gain, optimism = dense_terms(problem, model, "log")
        np.testing.assert_allclose(problem.gain("slope"), gain - optimism, rtol=1e-7, atol=1e-10)
    assert not problem.gain("class_slopes").any()  # never alone


@pytest.mark.slow
def test_mean_error_is_the_truth_where_the_gain_is_not(set_sizes, within_standard_errors):
    """A slope, a bias and six polynomials: within 4 standard errors of 200 data sets of 200."""
    set_sizes(evidence_reach=np.inf)
    wanted = {"slope", "bias", "curve", "curve_high"}
    debiased, plain = ({loss: [] for loss in LOSSES} for _ in range(2))
    for seed in range(200):
        sample = make_tempered_simplex(200, 2, random_state=seed)
        problem = solve_arrays(sample.y, sample.y_proba)
        names = [set(model.groups) for model in problem.average.models]
        at = names.index(wanted)
        problem.average.shares = np.eye(len(names) + 1)[at + 1]  # this model only
        model = problem.average.models[at]
        for loss, score in LOSSES.items():
            truth = score.divergence(sample.posterior, sample.y_proba).mean()
            debiased[loss].append(problem.errors(score).mean() - truth)
            plain[loss].append(dense_terms(problem, model, loss)[0].mean() - truth)
    for loss in LOSSES:
        within_standard_errors(debiased[loss], 0.0)
        assert np.mean(plain[loss]) > 8 * np.std(plain[loss]) / np.sqrt(200)


def found_by_both(y, forecast, loss, notion):
    """The estimator, and the interval of the function."""
    estimator = skcalib.CalibrationErrorEstimator(loss=loss, notion=notion).fit(forecast, y)
    return estimator, skcalib.calibration_error_interval(y, forecast, metric=loss, notion=notion)


def orthonormal(gram):
    """Columns R with R' gram R = 1, without directions that the others nearly contain."""
    size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    values, vectors = np.linalg.eigh(gram / np.outer(size, size))
    independent = values > 1e-6 * values.max()
    return vectors[:, independent] / np.sqrt(values[independent]) / size[:, None]


def projected_residuals(problem):
    """Coefficients of Y - S and of the residual by sample, in an orthonormal basis; changes."""
    s, y, m = problem.forecast, problem.target, problem.average.affine.proba
    share, k, c = problem.weight / problem.weight.sum(), s.shape[1], factor(problem)
    h = tangents(s, dense_directions(problem.average.basis, s, problem.average.directions.names))
    h = np.concatenate([h, (m - s)[:, :, None]], axis=2)
    if problem.average.best is not problem.average.affine:
        h = np.concatenate([h, (problem.average.best.proba - s)[:, :, None]], axis=2)
    h = h @ orthonormal(c * np.einsum("i,ikj,ikl->jl", share, h, h))
    x = c * np.einsum("ikj,ik->ij", h, y - s)
    leverage = np.clip(c * share * np.einsum("ikj,ikj->i", h, h) / (k - 1), 0, 0.5)
    noise = c * np.einsum("ikj,ik->ij", h, y - m) / np.sqrt(1 - leverage)[:, None]
    return x, noise, c * np.sum((m - s) ** 2, axis=1)


def whitened_scores(problem):
    """Scores at the best model in units of root nats, the same with leverage, and gains; dense."""
    s, y, m = problem.forecast, problem.target, problem.average.best.proba
    share, k = problem.weight / problem.weight.sum(), s.shape[1]
    g = dense_directions(problem.average.basis, s, problem.average.directions.names)
    h = tangents(m, g)
    root = orthonormal(np.einsum("i,ikj,ikl->jl", share, g, h)) / np.sqrt(2)
    g, h = g @ root, h @ root
    x = np.einsum("ikj,ik->ij", g, y - m)
    leverage = np.clip(2 * share * np.einsum("ikj,ikj->i", g, h) / (k - 1), 0, 0.5)
    return x, x / np.sqrt(1 - leverage)[:, None], np.sum(y * np.log(m / s), axis=1)


def dense_norm(problems, loss):
    """`SquaredNorm` of the mean over problems, with the whole covariance."""
    parts = [(projected_residuals if loss == "brier" else whitened_scores)(p) for p in problems]
    share = problems[0].weight / problems[0].weight.sum()
    x, noise = (np.hstack([part[i] for part in parts]) / np.sqrt(len(parts)) for i in (0, 1))
    errors = sum(part[2] for part in parts) / len(parts)
    mean, cluster = share @ errors, problems[0].cluster
    u, rows, deviation = share @ x, share[:, None] * noise, share * (errors - mean)
    if cluster is not None:
        inside = np.eye(cluster.max() + 1)[cluster].T
        mass = inside @ share
        m = 1 / np.sum(mass**2)
        rows, deviation = np.sqrt(m / (m - 1)) * (inside @ rows), inside @ deviation
    cov = rows.T @ rows
    square, signal = u @ u, u @ cov @ u
    moments = 2 * np.trace(cov @ cov), 8 * np.trace(cov @ cov @ cov)
    if cluster is not None:
        moments = noise_cumulants(rows)
    variance = np.sum(deviation**2)
    if loss == "brier":
        between = min(variance / mean**2, 1)
        return SquaredNorm.from_mean(signal, square, square - np.trace(cov), *moments, between)
    raw = mean + square
    signal = variance / 4 + signal
    return SquaredNorm.from_mean(signal, max(raw, np.trace(cov)), raw - np.trace(cov), *moments)


def problems_of(notion, n_samples, n_classes, kind, seed=7):
    problem = solve(kind, n_samples, n_classes, seed)
    if notion == "canonical":
        return [problem]
    pairs = Classwise().problems(problem.forecast, problem.target)
    return [solve_arrays(target_of_class, s, problem.weight) for s, target_of_class in pairs]


def squared_norm(problems, score):
    return squared_norms(problems, [score])[0]


@pytest.mark.parametrize(
    ("notion", "n_classes", "kind"),
    [
        *product(["canonical"], [3, 2], ["slope", "clusters", *WORLDS[2:], "calibrated"]),
        *product(["classwise"], [3], WORLDS[:2]),
    ],
)
def test_squared_norm_is_that_of_dense_projections(notion, n_classes, kind, set_sizes):
    """Columns of several problems are stacked, so that their correlations count."""
    if kind in WORLDS[1:3]:
        several_blocks(set_sizes)
    if kind == "clusters":
        problems = [solve("slope", 260, n_classes, 7, clustered=True)]
    else:
        problems = problems_of(notion, 260, n_classes, kind)
    norms = squared_norms(problems, list(LOSSES.values()))
    for loss, norm in zip(LOSSES, norms, strict=True):
        expected = dense_norm(problems, loss)
        names = ["estimate", "noise2", "noise3", "slope"]
        # Where the change is not certain, its relative variance is that of noise.
        names += ["between", "padding"] if expected.between < 0.1 else []
        for name in names:
            value = getattr(expected, name)
            assert getattr(norm, name) == pytest.approx(value, rel=1e-5, abs=1e-12), (loss, name)
        assert (norm.odds == 0) == (kind == "clusters")


def test_scores_at_the_forecasts_have_at_least_the_noise_of_calibrated_ones():
    """Labels that are the likeliest class have less."""
    _, s, _ = world("calibrated", 100, 3, 0)
    problem = solve_arrays(s.argmax(axis=1), s, np.linspace(0.5, 2, 100))
    g = dense_directions(problem.average.basis, s, problem.average.directions.names)
    root = orthonormal(np.einsum("i,ikj,ikl->jl", problem.share, g, tangents(s, g)))
    x = np.einsum("ikj,ik->ij", g @ root, problem.target - s)
    least = problem.share**2 @ np.einsum("ikj,ikj->i", g @ root, tangents(s, g) @ root)
    assert least > 1.2 * (problem.share**2 @ x**2).sum()
    estimate = np.sum((problem.share @ x) ** 2) - least
    assert squared_norm([problem], Brier()).calibrated.estimate == pytest.approx(estimate, rel=1e-6)


def test_odds_are_the_mean_over_the_models():
    """Shares are in the ratio of the evidence; odds are those of a model against the identity."""
    average = solve("calibrated", 260, 3, 7).average
    identity_share, *others = average.shares
    assert average.log_odds == pytest.approx(np.log(np.mean(others) / identity_share), rel=1e-3)


def test_padding_is_the_ratio_of_standard_errors():
    """That with the slope, which is not too small, and that with the plain estimate of it."""
    norm = SquaredNorm.from_mean(0.3, 2.0, 1.5, 0.2, 0.05, 0.01)
    plain = 0.2 + 0.01 * 1.5**2 + 4 * 1.5 * (0.3 - 0.2 / 2) / 1.5
    assert norm.padding == pytest.approx(norm.standard_error / np.sqrt(plain), rel=1e-12)


@pytest.mark.parametrize(("centre", "direct", "reach"), [(0.0, 0.1, 0.2), (0.3, 0.2, 0.5)])
def test_the_upper_limit_of_a_quadratic_form_has_its_own_spread(centre, direct, reach):
    limit = upper_limit(centre, direct, reach)
    assert limit - centre == pytest.approx(reach * np.sqrt(limit / direct), rel=1e-12)
    assert upper_limit(centre, 0.0, reach) == centre + reach
    assert upper_limit(centre, 1.0, np.inf) == np.inf


def test_cumulants_of_many_rows_need_no_products_of_all_pairs(set_sizes):
    """The second one exactly; of the third one the squares of rows with themselves are left."""
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    few = noise_cumulants(rows)
    set_sizes(product_rows=999)
    many = noise_cumulants(rows)
    assert many[0] == pytest.approx(few[0], rel=1e-9)
    assert few[1] < many[1] < 1.02 * few[1]


@pytest.mark.parametrize(("notion", "n_classes"), [("canonical", 3), ("classwise", 3)])
def test_several_losses_share_their_work(notion, n_classes):
    """The same numbers as one loss at a time, also beside an infinite log loss."""
    problems, names = problems_of(notion, 260, n_classes, "slope"), list(LOSSES)
    alone = [squared_norm(problems, score) for score in LOSSES.values()]
    assert squared_norms(problems, list(LOSSES.values())) == alone
    assert alone[0].calibrated == alone[1].calibrated
    estimates = estimates_of_solved(problems, losses=names, notion=notion)
    for name, estimate in zip(names, estimates, strict=True):
        (expected,) = estimates_of_solved(problems, losses=[name], notion=notion)
        assert (estimate.norm, estimate.interval) == (expected.norm, expected.interval)
    impossible = problems[0].forecast.copy()
    impossible[np.arange(3), problems[0].target[:3].argmax(axis=1)] = 0.0
    impossible /= impossible.sum(axis=1, keepdims=True)
    worse = [solve_arrays(problems[0].target, impossible, problems[0].weight)]
    estimates = estimates_of_solved(worse, losses=names[::-1], notion="canonical")
    assert estimates[0].interval.estimate == np.inf and estimates[0].norm is None
    assert replace(estimates[1].norm, wider=None) == squared_norm(worse, LOSSES["brier"])
    assert squared_norm(worse, LOSSES["log"]).interval(0.95) == (np.inf, np.inf)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("notion", "n_classes"), [("canonical", 2), ("classwise", 10)])
def test_traces_by_random_signs(notion, n_classes, loss, set_sizes):
    """Of very many directions; here of few, where the exact traces are known: within a quarter."""
    problems = problems_of(notion, 400, n_classes, "slope")
    exact = squared_norm(problems, LOSSES[loss])
    set_sizes(exact_directions=0)
    rough = squared_norm(problems, LOSSES[loss])
    assert rough.estimate == pytest.approx(exact.estimate, rel=1e-9)
    assert rough.noise2 == pytest.approx(exact.noise2, rel=0.25) and rough.noise2 != exact.noise2
    assert rough.noise3 == pytest.approx(exact.noise3, rel=0.25)
    assert rough.interval(0.95) == pytest.approx(exact.interval(0.95), rel=0.1, abs=1e-4)
    again = squared_norm(problems, LOSSES[loss])
    assert again == rough  # its signs are fixed


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("notion", NOTIONS)
def test_an_infinite_log_loss(n_classes, notion):
    """One label that was impossible: the error is infinite, the refinement is not."""
    y, forecast, _ = world("calibrated", 200, n_classes, seed=10)
    forecast[0] = np.eye(n_classes)[(y[0] + 1) % n_classes]
    estimator, interval = found_by_both(y, forecast, "log", notion)
    terms = skcalib.score_decomposition(y, forecast, loss="log", notion=notion)
    assert terms.loss == terms.calibration == estimator.calibration_error_ == np.inf
    assert interval.estimate == interval.high == np.inf and not interval.valid
    assert estimator.confidence_interval_ == (interval.low, interval.high) == (np.inf, np.inf)
    assert 0 < terms.refinement < 2 and np.isfinite([terms.sharpness, terms.uncertainty]).all()
    brier, _ = found_by_both(y, forecast, "brier", notion)
    assert np.isfinite(brier.confidence_interval_).all()


def hard_cases(n_classes, n_samples=300):
    """Labels, forecasts and weights at the edge of what floats and sums allow."""
    rng = np.random.default_rng(n_classes)
    even = np.full((n_samples, n_classes), 1 / n_classes)
    random = rng.dirichlet(np.ones(n_classes), n_samples)
    y = labels_from(random, rng)
    corner = np.eye(n_classes)[y]
    sure = np.where(corner > 0, 1 - 1e-9, 1e-9 / (n_classes - 1))
    tiny = np.where(corner > 0, 1.0, 1e-300)
    tiny[0] = np.roll(tiny[0], 1)
    sparse = rng.dirichlet(np.full(n_classes, 0.02), n_samples)
    rare = np.full((n_samples, n_classes), 0.003 / (n_classes - 1))
    rare[:, 0] = 0.997
    two = even.copy()
    two[::2] = 0.5 * two[::2] + 0.5 * np.eye(n_classes)[0]
    none = np.ones(n_samples)
    return {
        "constant": (y, even, none),
        "two values": (y, two, none),
        "one sample twice as sure": (y, np.vstack([random[:1], even[1:]]), none),
        "almost sure and right": (y, sure, none),
        "almost sure and wrong": ((y + 1) % n_classes, sure, none),
        "underflowing": (y, tiny, none),
        "sparse": (labels_from(sparse, rng), sparse, none),
        "rare": ((rng.random(n_samples) < 0.01).astype(int), rare, none),
        "never": (np.zeros(n_samples, dtype=int), rare, none),
        "uneven weights": (y, random, np.exp(5 * rng.normal(size=n_samples))),
        "one weight": (y, random, np.append(1e12, none[1:])),
    }


@pytest.mark.parametrize(
    ("case", "n_classes"), [*product(hard_cases(2), [2]), *rotated(hard_cases(2), [3, 4, 10], 1)]
)
def test_hard_cases(case, n_classes):
    """Finite estimates and limits in order, and no warning; the last ones also of the estimator."""
    y, forecast, weight = hard_cases(n_classes)[case]
    options = {"labels": np.arange(n_classes)}
    for metric, notion in product(LOSSES, NOTIONS):
        options_of_metric = {"notion": notion, "sample_weight": weight, **options}
        interval = skcalib.calibration_error_interval(
            y, forecast, metric=metric, **options_of_metric
        )
        assert np.isfinite(interval.estimate)
        assert 0 <= interval.low < interval.high < np.inf
    estimator = skcalib.CalibrationErrorEstimator(loss=metric, notion=notion, **options)
    limits = estimator.fit(forecast, y, weight).confidence_interval_
    assert limits == pytest.approx((interval.low, interval.high), rel=1e-12)
    assert estimator.standard_error_ == pytest.approx(interval.standard_error, rel=1e-12)
    terms = skcalib.score_decomposition(y, forecast, loss=metric, **options_of_metric)
    for error in (terms.calibration, estimator.calibration_error_):
        assert error == pytest.approx(interval.estimate, rel=1e-12, abs=1e-15)


def test_evidence_names_what_is_wrong():
    """Weights of a shift, a slope, unlike slopes and a curve; the mean over problems."""
    names = {"shift", "slope", "class_slopes", "curve", "confusion"}

    def evidence_of(forecast, y, **options):
        evidence = skcalib.CalibrationErrorEstimator(**options).fit(forecast, y).evidence_
        assert set(evidence) == names and all(0 <= share <= 1 for share in evidence.values())
        return evidence

    for kind in ("slope", "shift", "curve"):
        y, forecast, _ = world(kind, 2000, 2, seed=15)
        assert evidence_of(forecast, y)[kind] > 0.9
    y, forecast, _ = world("slope", 400, 3, seed=15)
    classwise = evidence_of(forecast, y, notion="classwise")
    of_classes = [evidence_of(forecast[:, [k]] * [-1, 1] + [1, 0], y == k) for k in range(3)]
    for name in names:
        mean = np.mean([shares[name] for shares in of_classes])
        assert classwise[name] == pytest.approx(mean, abs=1e-9)


AS_BEFORE = [{"smoother": smoother} for smoother in (QuantileBins(5), "kernel", LogitSmoother())]
AS_BEFORE += [{"method": method} for method in ("risk", "cross", "direct")] + [
    {"loss": "spherical"}
]


@pytest.mark.parametrize("options", AS_BEFORE, ids=str)
def test_a_smoother_or_a_method_is_used_as_before(options):
    """Without averaged maps there is no evidence; the default smoother is the one out of fold."""
    y, forecast, _ = world("slope", 300, 3, seed=16)
    estimator = skcalib.CalibrationErrorEstimator(**options).fit(forecast, y)
    assert estimator.evidence_ is None
    assert estimator.calibration_error_ == skcalib.proper_calibration_error(y, forecast, **options)
    smoother = {"smoother": LogitSmoother()} | options
    assert estimator.calibration_error_ == skcalib.proper_calibration_error(y, forecast, **smoother)


@pytest.mark.parametrize(
    ("n_samples", "n_classes", "metric", "words"),
    [
        (1000, 2, "brier", "10 polynomials of the log odds"),
        (300, 3, "log", "a bias and a slope of each class"),
        (150, 10, "brier", "too few samples for maps by class"),
    ],
)
def test_the_target_says_what_is_covered(n_samples, n_classes, metric, words):
    y, forecast, _ = world("slope", n_samples, n_classes, seed=18)
    assert words in skcalib.calibration_error_interval(y, forecast, metric=metric).target


def test_a_lower_limit_above_zero_needs_a_second_test():
    """That of the scores at the forecasts, or the evidence of the models."""
    numbers = {"estimate": 0.02, "noise2": 1e-6, "noise3": 1e-10, "slope": 0.0}
    norm, unclear = SquaredNorm(**numbers), SquaredNorm(**numbers | {"estimate": 0.0})
    low, high = norm.interval(0.95)
    cases = (None, 0, low), (norm, 0, low), (unclear, 19, 0), (unclear, 21, low)
    for second, odds, expected in cases:
        error_norm = ErrorNorm(**numbers, calibrated=second, odds=odds)
        assert error_norm.interval(0.95) == (expected, high)
