"""Intervals of errors: identities, edges, what they say of themselves, and their coverage.

Coverage is measured by ``doc/studies/interval_coverage.py``, whose targets come from the known
E[Y|S]; its Monte Carlo standard error at .95 is .011 for 400 data sets, .007 for 1,000.
"""

import re
from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from doc_studies import load
from grids import rotated
from scipy.special import expit, logit
from scipy.stats import norm as normal
from scipy.stats import t as student
from sklearn.metrics import brier_score_loss

import skcalib as s
from skcalib.data.notions import NOTIONS, Classwise, Multilabel
from skcalib.data.problem import check_problem
from skcalib.datasets import make_tempered_simplex, make_widmann
from skcalib.error_intervals import methods
from skcalib.error_intervals import request as request_module
from skcalib.error_intervals.interval import METRICS
from skcalib.error_intervals.request import all_options
from skcalib.errors.kernel import ResidualKernel, random_blocks, resolve_kernel
from skcalib.kernels import LaplacianKernel
from skcalib.smoothers import DirichletKernel, QuantileBins
from skcalib.stats.squared_norm import SquaredNorm, signal_slope

LOCATIONS = np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]])


def arguments(metric):
    extra = {"locations": LOCATIONS} if metric == "embedding" else {}
    return {"n_resamples": 39 if metric == "ici" else 200, **extra}


def some_data(n_samples=200, temperature=0.6, seed=0, n_classes=3):
    options = {"score_temperature": temperature, "random_state": seed}
    sample = make_tempered_simplex(n_samples, n_classes, **options)
    return sample.y, sample.y_proba


def gaps_of(y, proba, weight=None, *, notion="classwise", **options):
    samples = {"y_true": y, "y_proba": proba, "sample_weight": weight}
    every_option = all_options(s.calibration_error, samples, options)
    return methods.Gaps.of_scores({**every_option, "notion": NOTIONS[notion]()})


def residual_kernel(y, proba, weight=None, *, kernel, notion):
    problem = check_problem(y, proba, sample_weight=weight)
    return ResidualKernel.of_problem(problem, resolve_kernel(kernel), NOTIONS[notion]())


@pytest.mark.parametrize("metric", METRICS)
def test_what_a_record_says(metric):
    """With more confidence the interval is wider."""
    narrow, usual, wide = (
        s.calibration_error_interval(
            *some_data(), metric=metric, confidence_level=level, **arguments(metric)
        )
        for level in (0.8, 0.95, 0.99)
    )
    assert 0 <= usual.low < usual.high and 0 < usual.standard_error < 1
    assert usual.valid and usual.target and usual.confidence_level == 0.95
    assert usual.conservative == bool(usual.reason)
    assert wide.low <= narrow.low < narrow.high <= wide.high
    assert wide.estimate == usual.estimate == narrow.estimate


#: Metric, and what it needs beside the notion to have an interval of each class.
OF_CLASSES = [("brier", {}), ("log", {}), ("brier", {"smoother": "isotonic"})]
OF_CLASSES += [("ici", {"n_resamples": 39}), ("squared_l2", {"n_bins": 5, "strategy": "uniform"})]


@pytest.mark.parametrize(("metric", "options"), OF_CLASSES)
def test_intervals_of_sums_are_those_of_means_times_the_classes(metric, options):
    def interval(reduce):
        notion = {"notion": "classwise", "reduce": reduce} if metric == "squared_l2" else {}
        arguments = {"notion": Classwise(reduce), **options, **notion}
        return s.calibration_error_interval(*some_data(300), metric=metric, **arguments)

    mean, total = interval("mean"), interval("sum")
    assert 0 < mean.low < mean.estimate < mean.high < 1
    for name in ("estimate", "low", "high", "standard_error"):
        assert getattr(total, name) == pytest.approx(3 * getattr(mean, name), rel=1e-9), name
    if metric in ("brier", "log"):
        estimator = s.CalibrationErrorEstimator(loss=metric, notion=Classwise("sum"), **options)
        estimate = estimator.fit(*some_data(300)[::-1]).calibration_error_
        assert estimate == pytest.approx(total.estimate, rel=1e-9)
    if metric == "squared_l2":  # keywords reach the metric
        metric_options = {"norm": "l2", "squared": True, "debiased": True, "notion": "classwise"}
        assert mean.estimate == s.calibration_error(*some_data(300), **metric_options, **options)


@pytest.mark.parametrize("method", ["jackknife", "subsampling"])
def test_parts_of_three_samples_are_refused(method):
    with pytest.raises(ValueError, match="needs at least"):
        s.calibration_error_interval([0, 1, 1], [0.2, 0.5, 0.6], metric="l1", method=method)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("notion", ["classwise", "top_label"])
def test_gaps_agree_with_the_binned_errors(notion, weighted):
    y, proba = some_data(150)
    weight = np.random.RandomState(0).uniform(0.2, 2, 150) if weighted else None
    gaps = gaps_of(y, proba, weight, notion=notion, n_bins=6)
    options = {"notion": notion, "n_bins": 6, "sample_weight": weight}
    bins = s.reliability_bins(y, proba, **options)
    variances = np.diag(methods.covariance(gaps.contributions()))
    expected = np.concatenate([bins_of_class.gap_variance for bins_of_class in bins])
    norm = methods.squared_gaps(gaps, 100, np.random.RandomState(0))
    debiased = s.calibration_error(y, proba, norm="l2", squared=True, debiased=True, **options)
    assert np.isclose(variances.sum(), expected.sum(), rtol=0.1)
    assert np.isclose(norm.estimate, debiased, atol=0.1 * norm.standard_error)
    if not weighted:  # the variance of each sample counts by the square of its own weight
        assert np.allclose(variances, expected)
        assert np.isclose(norm.estimate, debiased, atol=1e-15)
    absolute = np.sum(gaps.share * gaps.mass() * np.abs(gaps.gap()))
    assert np.isclose(absolute, s.calibration_error(y, proba, **options))
    gaps = replace(gaps, cluster=np.arange(150) // 10)
    noise = gaps.contributions().toarray() * np.sqrt(gaps.share * gaps.mass())
    pairs = (noise @ noise.T)[~np.eye(15, dtype=bool)]  # of different clusters
    norm = methods.squared_gaps(gaps, 100, np.random.RandomState(0))
    assert norm.noise2 == pytest.approx(2 * pairs @ pairs)


@pytest.mark.parametrize(
    ("notion", "in_blocks"), [("canonical", True), ("canonical", False), ("classwise", False)]
)
def test_kernel_noise_is_that_of_its_spectrum_whatever_the_rows(notion, in_blocks, set_sizes):
    """The estimate is that of the function; its law at zero that of all rows, within a tenth."""
    if in_blocks:
        set_sizes(paired_samples=300, pair_block_samples=20)
    y, proba = some_data(1500, temperature=1)
    weight = np.random.RandomState(0).uniform(0.5, 1.5, 1500)
    options = {"kernel": LaplacianKernel(0.5), "notion": notion}
    h = residual_kernel(y, proba, weight, **options)
    norm = (methods.squared_block_norm if in_blocks else methods.squared_embedding_norm)(
        h, np.random.RandomState(0)
    )
    expected = s.kernel_calibration_error(y, proba, sample_weight=weight, **options)
    assert norm.estimate == pytest.approx(expected, rel=1e-9, abs=0)
    n_blocks, size = random_blocks(1500).shape if in_blocks else (1, 1500)
    assert (n_blocks == 25) == in_blocks
    eigenvalues = np.linalg.eigvalsh(h.matrix() - np.diag(h.diagonal())) / 1500
    noise2 = 2 * np.sum(eigenvalues**2) / (n_blocks * size**2)
    noise3 = 8 * np.sum(eigenvalues**3) / n_blocks**2 / size**3
    assert norm.noise2 == pytest.approx(noise2, rel=0.1, abs=0)
    assert norm.noise3 == pytest.approx(noise3, rel=0.3, abs=0)


@pytest.mark.parametrize("in_blocks", [True, False])
def test_laws_of_squared_kernel_norms_by_hand(in_blocks, set_sizes):
    """Signal, squared length and cumulants, from all pairs of centred samples."""
    if in_blocks:
        set_sizes(paired_samples=100, pair_block_samples=20)
    h = residual_kernel(*some_data(120, 0.4), kernel=LaplacianKernel(0.5), notion="canonical")
    blocks = random_blocks(120) if in_blocks else np.arange(120)[None]
    (n_blocks, size), matrix, along = blocks.shape, h.matrix(), []
    assert n_blocks > 1 or not in_blocks
    mean, raw = np.zeros(120), []
    for rows in blocks:
        mean[rows] = matrix[np.ix_(rows, rows)].mean(axis=1)
        raw.append(mean[rows].mean())
        along.append(np.sum((mean[rows] - raw[-1]) ** 2) / (size * (size - 1)))
    used, raw = blocks.ravel(), np.mean(raw)
    some, m = matrix[np.ix_(used, used)], len(used)
    noise = some - mean[used] - mean[used][:, None] + raw
    np.fill_diagonal(noise, 0)
    noise2 = 2 * np.sum(noise**2) / (m * (m - 1)) / size**2 / n_blocks
    noise3 = 8 * np.trace(noise @ noise @ noise) / (m * (m - 1) * (m - 2)) / size**3 / n_blocks**2
    build = methods.squared_block_norm if in_blocks else methods.squared_embedding_norm
    norm, signal = build(h, np.random.RandomState(0)), np.sum(along) / n_blocks**2
    expected = SquaredNorm.from_mean(signal, raw, norm.estimate, noise2, noise3)
    for name in ("noise2", "noise3", "slope", "padding"):
        assert getattr(norm, name) == pytest.approx(getattr(expected, name), rel=1e-9), name


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_limits_of_a_quantile_of_the_distance_by_hand(level):
    """Of six forecasts, a cell each: the median of simultaneous limits of the distances."""
    forecasts, hits = (
        np.array([0.1, 0.2, 0.3, 0.5, 0.7, 0.9]),
        np.array([90, 20, 20, 140, 100, 198]),
    )
    p, y = np.repeat(forecasts, 200), np.concatenate([np.arange(200) < k for k in hits])
    options = {"quantile": 0.5, "labels": [0, 1], "confidence_level": level}
    interval = s.calibration_error_interval(y.astype(int), p, metric="ici", **options)
    rate, smooth = hits / 200, (hits + 1) / 202
    variances = rate * (1 - rate) / 199, forecasts * (1 - forecasts) / 200
    variance = np.max([*variances, smooth * (1 - smooth) / 202], axis=0)
    reach = student.isf((1 - level ** (1 / 6)) / 2, 199) * np.sqrt(variance)
    size = np.abs(rate - forecasts)
    low, high = (np.sort(np.maximum(size + sign * reach, 0))[2] for sign in (-1, 1))
    assert 0 < low < high < 1 and "0.5 of the distances" in interval.target
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-9)
    expected = (high - low) / (2 * normal.ppf(0.5 + level / 2))
    assert interval.standard_error == pytest.approx(expected, rel=1e-9)


def test_edges_of_few_samples_and_several_labels():
    """Four samples have a spread; the kernel takes several labels each."""
    y, p = [0, 1, 0, 1], [0.1, 0.4, 0.6, 0.8]
    for metric in ("embedding", "kernel"):
        options = {"locations": [0.2, 0.7]} if metric == "embedding" else {}
        for n, known in ((4, True), (3, False)):
            interval = s.calibration_error_interval(y[:n], p[:n], metric=metric, **options)
            assert np.isfinite(interval.standard_error) == known
    score = np.random.default_rng(0).random(300)
    label = (np.random.default_rng(1).random(300) < score).astype(int)
    score[label.argmax()] = 0  # impossible
    interval = s.calibration_error_interval(label, score, metric="log")
    assert interval.estimate == np.inf and not interval.valid
    score = np.random.default_rng(0).random((200, 2))
    matrix = (np.random.default_rng(1).random((200, 2)) < score).astype(int)
    options = {"notion": Multilabel(), "kernel": LaplacianKernel(0.5)}
    interval = s.calibration_error_interval(matrix, score, metric="kernel", **options)
    expected = s.kernel_calibration_error(matrix, score, **options)
    assert interval.estimate == expected and 0 == interval.low < interval.high < 0.01
    label = np.append(np.arange(500) < 200, False).astype(int)  # the last is alone in its bin
    score = np.append(np.full(500, 0.3), 0.7)
    interval = s.calibration_error_interval(label, score, metric="max", n_bins=[0, 0.5, 1])
    assert interval.standard_error == pytest.approx(0.5) and interval.high == 1


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_coverage_of_the_kernel_interval_with_random_blocks(set_sizes, temperature):
    """300 samples of nine blocks of 33; the truth is the mean of 400 unbiased estimates."""
    set_sizes(paired_samples=100, pair_block_samples=20)
    many = [some_data(300, seed=seed, temperature=temperature) for seed in range(400)]
    options = {"kernel": LaplacianKernel(0.5), "labels": range(3)}
    estimates = [
        s.kernel_calibration_error(y, proba, statistic="unbiased", **options) for y, proba in many
    ]
    truth = 0.0 if temperature == 1 else np.mean(estimates)
    every = [
        s.calibration_error_interval(y, proba, metric="kernel", **options) for y, proba in many
    ]
    covered = np.mean([interval.low <= truth <= interval.high for interval in every])
    assert covered > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 400)


def test_draws_have_the_covariance_by_either_route(set_sizes):
    gaps = gaps_of(*some_data(300), n_bins=3)
    rows, rng = gaps.rows(), np.random.RandomState(0)
    total = rows.toarray().sum(axis=0)
    centred = rows.toarray() - np.outer(gaps.weight, total)
    expected = centred.T @ centred
    dense = methods.normal_draws(rows, 20_000, rng, total=total, weight=gaps.weight)
    exact = methods.squared_gaps(gaps, 9, rng)
    set_sizes(dense_cells=0)
    streamed = methods.normal_draws(rows, 20_000, rng, total=total, weight=gaps.weight)
    for draws in (dense, streamed):
        assert np.abs(np.cov(draws.T) - expected).max() < 0.05 * expected.max()
    drawn = methods.squared_gaps(gaps, 20_000, rng)
    assert drawn.noise2 == pytest.approx(exact.noise2, rel=0.1)
    assert drawn.noise3 == pytest.approx(exact.noise3, rel=0.3)


@pytest.mark.parametrize(
    ("signal", "eigenvalues"),
    rotated([0, 1, 4, 10, 30, 100, 400], [np.ones(10), 0.5 ** np.arange(10), np.ones(1)], 2),
    ids=str,
)
def test_squared_norms_of_normal_means_are_covered_at_any_distance(signal, eigenvalues):
    """400 draws in a random direction; standard error .011."""
    rng = np.random.RandomState(signal)
    direction = rng.standard_normal(len(eigenvalues))
    mean = np.sqrt(eigenvalues) * direction * np.sqrt(signal / np.sum(direction**2))
    noise2, noise3 = 2 * np.sum(eigenvalues**2), 8 * np.sum(eigenvalues**3)
    held = 0
    for _ in range(400):
        u = mean + np.sqrt(eigenvalues) * rng.standard_normal(len(eigenvalues))
        estimate = u @ u - eigenvalues.sum()
        slope = signal_slope(eigenvalues @ u**2, u @ u, estimate, noise2, noise3)
        low, high = SquaredNorm(estimate, noise2, noise3, slope).interval(0.95)
        assert low < high
        held += low <= mean @ mean <= high
    assert 0.91 - 0.01 <= held / 400 <= 0.98 + 0.01


def test_limits_grow_with_the_estimate():
    for skewness in (0.0, 0.3, -0.3):
        law = SquaredNorm(0.0, 1.0, skewness, 0.5, 0.01)
        grid = np.linspace(-4, 30, 60)
        limits = np.array([replace(law, estimate=t).interval(0.9) for t in grid])
        assert np.all(np.diff(limits, axis=0) >= -1e-9)
        assert limits[0, 0] == 0 and limits[-1, 0] > 0


def test_a_gap_that_is_clearly_the_largest_has_the_limits_of_one_gap():
    """With others that may be as large, the lower limit has Sidak's level, beside that of one."""
    p = np.repeat([0.5, 0.52, 0.54, 0.56], 500)
    rank = np.tile(np.arange(500) / 500, 4)
    for gaps, tail in (([0, 0.3, 0, 0], 0.025), ([0.1] * 4, (1 - 0.975 ** (1 / 4)) / 2)):
        y = (rank < p - np.repeat(gaps, 500)).astype(int)
        interval = s.calibration_error_interval(y, p, metric="max", n_bins=4, labels=[0, 1])
        assert interval.conservative == (tail < 0.025)
        reach = (interval.estimate - interval.low) / interval.standard_error
        assert reach == pytest.approx(student.isf(tail, 499), rel=1e-9)


def test_absolute_errors_of_calibrated_and_of_bad_forecasts():
    """Those of calibrated forecasts are conservative, and say so; the others next to normal."""
    interval = s.calibration_error_interval(*some_data(1000, temperature=1), metric="l1")
    assert interval.conservative and "standard errors" in interval.reason
    sample = make_widmann(5000, model="M3", random_state=0)
    for metric, options in (("l1", {"n_bins": 5}), ("ks", {})):
        options["n_resamples"] = 1000
        interval = s.calibration_error_interval(sample.y, sample.y_proba, metric=metric, **options)
        assert interval.valid
        # The largest of a curve is never alone: its neighbours are within their noise.
        assert (
            not interval.reason
            if metric == "l1"
            else "up to 0.2 standard errors" in interval.reason
        )
        middle = (interval.low + interval.high) / 2
        assert abs(middle - interval.estimate) < 0.2 * interval.standard_error


def test_absolute_errors_far_from_zero_by_hand():
    """Of two cells with gaps of known sign: the mean residual, with its standard error."""
    for weighted, level, clustered in ((0, 0.95, 0), (1, 0.8, 0), (0, 0.8, 1)):
        y, p = np.repeat([1, 0, 1, 0], [450, 50, 350, 150]), np.repeat([0.1, 0.6], 500)
        weight = np.resize([1.0, 3.0, 2.0], 1000) if weighted else np.ones(1000)
        share, residual = weight / weight.sum(), y - p
        mean = share @ residual
        groups = np.random.default_rng(0).integers(60, size=1000) if clustered else np.arange(1000)
        error = np.sqrt(np.sum(np.bincount(groups, share * (residual - mean)) ** 2))
        tail, clusters = normal.ppf((1 - level) / 2), {}
        if clustered:
            size = 1 / np.sum(np.bincount(groups, share) ** 2)
            error *= np.sqrt(size / (size - 1))
            tail, clusters = student.ppf((1 - level) / 2, size - 1), {"groups": groups}
        options = {"n_bins": [0, 0.5, 1], "n_resamples": 4000, "confidence_level": level}
        options |= clusters | ({"sample_weight": weight} if weighted else {})
        interval = s.calibration_error_interval(y, p, metric="l1", **options)
        reach = -tail * error
        assert interval.estimate == pytest.approx(mean, rel=1e-12)
        assert interval.standard_error == pytest.approx(error, rel=1e-9)
        assert interval.high == pytest.approx(mean + reach, rel=1e-9)
        assert interval.low == pytest.approx(mean - reach, abs=0.1 * reach)
        assert interval.valid and not interval.conservative


def test_squared_norms_say_where_the_growth_of_their_noise_is_not_known():
    options = {"kernel": LaplacianKernel(0.5), "notion": "classwise"}
    for n_classes, temperature, conservative in ((2, 0.3, False), (10, 0.6, True)):
        y, proba = some_data(1000, temperature, n_classes=n_classes)
        interval = s.calibration_error_interval(y, proba, metric="kernel", **options)
        assert interval.valid and interval.low > 0
        assert interval.conservative is conservative
        assert ("the growth of the noise" in interval.reason) is conservative


def test_the_delta_method_says_where_it_fails():
    for temperature, valid in ((1.0, False), (0.3, True)):
        y, proba = some_data(2000, temperature=temperature)
        interval = s.calibration_error_interval(y, proba, metric="squared_l2", method="delta")
        assert interval.valid is valid and bool(interval.reason) is not valid
        reach = 1.959964 * interval.standard_error
        assert np.isclose(interval.high - interval.estimate, reach)
    spherical = partial(s.proper_calibration_error, loss="spherical")
    far = s.calibration_error_interval(y, proba, metric=spherical)
    assert far.valid and not far.conservative and far.low > 4 * far.standard_error
    mean = s.calibration_error_interval(y, proba, metric="upper_bound", method="delta")
    assert mean == s.calibration_error_interval(y, proba, metric="upper_bound")


@pytest.mark.parametrize("method", ["bootstrap", "jackknife", "subsampling"])
def test_biased_metrics_are_told_by_their_parts(method):
    """The bootstrap is never valid and lies above the truth."""
    y, proba = some_data(1000, temperature=1)
    options = {"method": method, "n_resamples": 200}
    biased = s.calibration_error_interval(y, proba, metric="l1", n_bins=15, **options)
    why = "repeat" if method == "bootstrap" else r"biased by about \d"
    assert not biased.valid and re.search(why, biased.reason)
    if method == "bootstrap":
        assert biased.low > 0
        return
    fine = s.calibration_error_interval(y, proba, metric="root_brier_score", **options)
    exact = s.calibration_error_interval(y, proba, metric="root_brier_score")
    assert fine.valid and not fine.reason
    assert np.isclose(fine.standard_error, exact.standard_error, rtol=0.5)


def test_parts_of_a_problem_keep_its_weights():
    y, proba = some_data(80, n_classes=2)
    weight = {"sample_weight": np.linspace(0.1, 2, 80)}
    interval = partial(s.calibration_error_interval, metric="root_brier_score", method="jackknife")
    jackknife = interval(check_problem(y, proba, **weight))
    assert jackknife == interval(y, proba, **weight) != interval(y, proba)


def test_limits_from_the_metric_of_parts_by_hand():
    """Every value that the metric returned enters: of groups, of subsets, or of resamples."""
    for method, (n_samples, level) in product(
        ("jackknife", "subsampling", "bootstrap"), ((100, 0.95), (30, 0.8))
    ):
        y, p = np.resize([0, 1, 1], n_samples), np.linspace(0.1, 0.9, n_samples)
        seen = []

        def metric(y_true, y_proba, seen=seen):
            seen.append((len(y_true), float(np.mean(y_true - y_proba) ** 2)))
            return seen[-1][1]

        options = {"method": method, "confidence_level": level, "n_resamples": 50}
        interval = s.calibration_error_interval(y, p, metric=metric, **options)
        estimate, tail = np.mean(y - p) ** 2, (1 - level) / 2
        n_groups, size = min(20, n_samples // 2), round(n_samples ** (2 / 3))
        sizes, values = np.array([part for part in seen if part[1] != estimate]).T
        scale = np.sqrt(size / (n_samples - size))
        law = scale * (values - estimate)
        error = {"jackknife": np.sqrt(n_groups - 1) * values.std(), "bootstrap": values.std()}
        error = error.get(method, law.std())
        if method == "jackknife":
            reach = student.ppf(1 - tail, n_groups - 1) * error
            limits = estimate - reach, estimate + reach
            assert sorted(n_samples - sizes) == sorted(np.bincount(np.arange(n_samples) % n_groups))
            bias = (n_groups - 1) * (values.mean() - estimate)
        elif method == "subsampling":
            limits = estimate - np.quantile(law, [1 - tail, tail])
            assert set(sizes) == {size} and len(sizes) == 50
            bias = law.mean()
        else:
            limits = np.quantile(values, [tail, 1 - tail])
        expected = (estimate, error, *limits)
        names = ("estimate", "standard_error", "low", "high")
        assert [getattr(interval, name) for name in names] == pytest.approx(expected, rel=1e-9)
        if method != "bootstrap":
            assert interval.valid == (abs(bias) <= 0.5 * error)
            assert interval.valid or f"{abs(bias) / error:.1f} standard errors" in interval.reason


def test_limits_of_labels_with_missing_cells_are_combined_as_their_errors_are():
    rng = np.random.default_rng(0)
    powers = {"l1": 1, "l2": 2, "squared_l2": 1, "max": np.inf}
    for (metric, power), reduce in product(powers.items(), ("mean", "sum")):
        p = rng.random((300, 2))
        y = (rng.random((300, 2)) < p**2).astype(float)
        y[:50, 0] = y[250:, 1] = np.nan
        options = {"metric": metric, "n_bins": 5, "n_resamples": 100}
        interval = s.calibration_error_interval(y, p, notion=Multilabel(reduce), **options)
        labels = [
            s.calibration_error_interval(y[rows, k], p[rows, k], labels=[0, 1], **options)
            for k, rows in enumerate((slice(50, None), slice(250)))
        ]
        for name in ("estimate", "low", "high", "standard_error"):
            values = np.array([getattr(label, name) for label in labels])
            if power == np.inf:
                expected = values.max()
            else:
                expected = getattr(np, reduce)(values**power) ** (1 / power)
            assert getattr(interval, name) == pytest.approx(expected, rel=1e-9), name
        assert interval.valid and interval.conservative


def test_any_function_is_a_metric():
    y, proba = some_data(400, n_classes=2)
    options = {"metric": brier_score_loss, "pos_label": "yes", "n_jobs": 1}
    interval = s.calibration_error_interval(np.array(["no", "yes"])[y], proba[:, 1], **options)
    exact = s.calibration_error_interval(y, proba[:, 1], metric="upper_bound")
    assert np.isclose(interval.estimate, exact.estimate)
    assert interval.method == "jackknife" and interval.valid
    assert np.isclose(interval.standard_error, exact.standard_error, rtol=0.5)

    def negative_bias(y_true, y_proba, sample_weight=None, factor=1.0):
        return factor * float(np.average(y_proba - y_true, weights=sample_weight))

    signed = s.calibration_error_interval(y, proba[:, 1], metric=negative_bias, factor=-1.0)
    assert signed.low < signed.estimate < signed.high


def test_the_upper_limit_of_the_held_out_risk_is_centred_at_the_mean_with_direct():
    y, proba = some_data(300, temperature=0.6, n_classes=2)
    risk, direct = (
        s.CalibrationErrorEstimator(method=method, smoother=QuantileBins(4)).fit(proba, y)
        for method in ("risk", "direct")
    )
    reach = risk.standard_error_ * student.ppf(0.975, 299)
    centre = (risk.calibration_error_ + direct.calibration_error_) / 2
    growth = reach**2 / direct.calibration_error_
    high = centre + growth / 2 + np.sqrt(growth * (centre + growth / 4))
    assert risk.confidence_interval_[1] == pytest.approx(high, rel=1e-9)
    assert high > risk.calibration_error_ + reach


def test_a_proper_error_far_below_zero_still_has_an_upper_limit():
    """A small bandwidth makes "risk" very negative, and both of Student's limits with it."""
    y, proba = some_data(300, temperature=1, n_classes=2)
    smoother = DirichletKernel(0.003, refinement="loss")
    for method in ("risk", "cross"):
        metric = partial(s.proper_calibration_error, method=method, smoother=smoother)
        interval = s.calibration_error_interval(y, proba, metric=metric)
        assert interval.low == 0 < interval.high and interval.conservative
    delta = s.calibration_error_interval(y, proba, metric=metric, method="delta")
    assert delta.estimate == interval.estimate


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("case", ["one class", "ties", "zeros and ones"])
def test_degenerate_data(metric, case):
    rng = np.random.RandomState(0)
    proba, y = rng.uniform(size=60), rng.randint(2, size=60)
    y, proba = {
        "one class": (np.ones(60, dtype=int), proba),
        "ties": (y, np.full(60, 0.3)),
        "zeros and ones": (y, np.where(np.arange(60) < 30, y, proba)),
    }[case]
    options = {**arguments(metric), "labels": [0, 1]}
    if metric == "embedding":
        options["locations"] = [0.2, 0.7]
    interval = s.calibration_error_interval(y, proba, metric=metric, **options)
    assert not np.isnan(
        [interval.estimate, interval.low, interval.high, interval.standard_error]
    ).any()
    assert interval.low <= interval.high


def test_one_sample_and_perfect_forecasts():
    """They have no spread, and say so; and infinity is an answer."""
    for metric in ("l1", "ece", "l2", "max", "ks", "simplex", "upper_bound", "root_brier_score"):
        interval = s.calibration_error_interval([1], [0.7], metric=metric, labels=[0, 1])
        assert np.isfinite(interval.estimate) and interval.low == 0 and interval.high >= 0
        assert interval.reason or metric == "max"  # whose limits are those of one degree of freedom
    y = np.arange(40) % 2
    reasons = dict.fromkeys(("l1", "l2", "ks"), "few events")
    reasons |= {"kernel": "residuals do not vary", "root_brier_score": "the same loss"}
    for metric, reason in reasons.items():
        interval = s.calibration_error_interval(y, y.astype(float), metric=metric)
        assert interval.estimate == 0 and interval.low == 0 and reason in interval.reason
    for n in (3, 4):
        interval = s.calibration_error_interval([0, 1, 1, 0][:n], [0.6] * n, metric="kernel")
        assert (interval.method == "none") == (n == 3)
    options = {"metric": "upper_bound", "loss": "log"}
    interval = s.calibration_error_interval([0, 1, 1], [1.0, 0.5, 0.5], **options)
    assert interval.estimate == interval.high == np.inf and not interval.valid


@pytest.mark.parametrize(
    ("distance", "method"),
    [
        ("total_variation", "limits for all bias and none"),
        ("cityblock", "limits for all bias and none"),
        ("squared_euclidean", "test inversion"),
        ("euclidean", "jackknife, test of calibration"),
    ],
)
def test_distances_over_the_simplex(distance, method):
    y, proba = some_data(400)
    options = {"distance": distance, "n_resamples": 60}
    interval = s.calibration_error_interval(y, proba, metric="simplex", **options)
    assert interval.estimate == s.errors.simplex_calibration_error(y, proba, distance=distance)
    assert interval.low <= interval.estimate and interval.low < interval.high
    assert interval.method == method


def test_statistics_of_the_kernel_error():
    y, proba = some_data(300)
    unbiased = s.calibration_error_interval(y, proba, metric="kernel")
    interval = s.calibration_error_interval(y, proba, metric="kernel", statistic="biased")
    assert (interval.low, interval.high) == (unbiased.low, unbiased.high)
    for options in ({"statistic": "linear"}, {"statistic": "block", "block_size": 10}):
        interval = s.calibration_error_interval(y, proba, metric="kernel", **options)
        assert interval.method == "delta method" and interval.high > unbiased.low


@pytest.mark.parametrize(("n_above", "rejects"), [(0, True), (4, True), (5, False)])
def test_an_estimate_is_told_from_draws_of_labels_at_half_of_the_level(n_above, rejects):
    """Four of 199 draws as large as the estimate: a p-value of .025."""
    question = SimpleNamespace(estimate=1.0, options=None, confidence_level=0.95, n_resamples=199)
    question.rng, question.n_jobs, drawn = np.random.RandomState(0), None, []

    def value(rows, labels):
        drawn.append(float(len(drawn) < n_above))
        return drawn[-1]

    problem = check_problem([0, 1, 1], [0.2, 0.5, 0.6])
    parts = SimpleNamespace(problem=problem, value=value)
    assert request_module._rejects_calibration(question, parts) == rejects
    assert len(drawn) == (199 if rejects else 10)


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_draws_of_labels_end_when_the_answer_is_known(power, set_sizes):
    """The interval is that of all 200 draws; calibrated forecasts need less than half of them."""
    rng = np.random.default_rng(1)
    score = rng.random(120)
    y = (rng.random(120) < score**power).astype(int)
    calls = []

    class Counted:
        def divergence(self, first, second):
            calls.append(1)
            return np.linalg.norm(first - second, axis=-1)

    def run(size):
        calls.clear()
        set_sizes(batch_draws=size)
        options = {"distance": Counted(), "n_resamples": 200}
        interval = s.calibration_error_interval(y, score, metric="simplex", **options)
        return interval, len(calls)

    (early, n_early), (whole, n_whole) = run(10), run(200)
    assert early == whole
    assert n_whole >= 200 and n_whole - n_early == (140 if power == 1 else 0)
    assert (early.low > 0) == (power > 1)


@pytest.fixture(scope="module")
def coverage():
    module, worlds = load("interval_coverage"), {}
    if module is None:
        pytest.skip("needs the folder doc")

    def measure(world, metric, n_samples, n_repetitions=400, **options):
        if world not in worlds:
            worlds.clear()  # one large sample at a time
            worlds[world] = module.World(world)
        options = {"n_resamples": 200, **options}
        return module.coverage(worlds[world], metric, n_samples, n_repetitions, **options)

    return measure


def assert_covers(row, n_repetitions):
    """.95 up to .03, or up to three standard errors where fewer data sets were drawn."""
    slack = max(0.03, 3 * np.sqrt(0.95 * 0.05 / n_repetitions))
    assert row["valid"] == 1
    assert row["coverage"] >= 0.95 - slack
    if row["conservative"] < 0.5:
        assert row["coverage"] <= 0.95 + slack


@pytest.mark.slow
@pytest.mark.parametrize("world", ["calibrated, binary", "miscalibrated, binary"])
@pytest.mark.parametrize(("metric", "n_repetitions"), [("squared_l2", 400), ("l1", 120)])
def test_coverage(coverage, world, metric, n_repetitions):
    assert_covers(coverage(world, metric, 300, n_repetitions), n_repetitions)


@pytest.mark.slow
def test_coverage_of_proper_errors_close_to_zero(coverage):
    """At least .95 less two standard errors of 120 data sets."""
    assert coverage("nearly calibrated, binary", "log", 300, 120)["coverage"] >= 0.91


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "metrics"),
    [
        ("nearly calibrated, binary", ("brier",)),
        ("miscalibrated, binary", ("brier", "log")),
        ("miscalibrated, K = 10, top label", ("brier", "log")),
        ("calibrated, binary", ("kernel", "ks")),
        ("miscalibrated, binary", ("kernel", "embedding", "max")),
        # Ten problems with few thresholds each: what the curves reach in between must not count.
        ("calibrated, K = 10, classwise", ("ks", "squared_l2")),
        ("miscalibrated, K = 10, top label", ("squared_l2", "upper_bound", "ks")),
    ],
    ids=str,
)
def test_coverage_of_the_others(coverage, world, metrics):
    """200 data sets: the standard error of a coverage of .95 is .015."""
    for metric in metrics:
        assert_covers(coverage(world, metric, 300, 200), 200)


CURVES = {
    "nearly calibrated": lambda p: expit(0.9 * logit(p)),
    "too extreme": lambda p: expit(0.6 * logit(p)),
    "bump": lambda p: p - 0.25 * (1 - np.clip((p - 0.7) / 0.15, -1, 1) ** 2) ** 2,
    "wave": lambda p: p + 0.1 * np.sin(6 * np.pi * p) * np.minimum(1, 4 * np.minimum(p, 1 - p)),
}


DISTANCES = [(world, None, 60) for world in CURVES if world != "wave"]
DISTANCES += [(world, level, 25) for world in ("nearly calibrated", "wave") for level in (0.5, 0.9)]


@pytest.mark.parametrize(
    ("world", "quantile", "n_sets"),
    [("too extreme", None, 4), ("wave", 0.5, 4), ("wave", 0.9, 4)]
    + [pytest.param(*case, marks=pytest.mark.slow) for case in DISTANCES],
)
def test_coverage_of_the_distance(world, quantile, n_sets):
    """Data sets of 500: at least .95 less three standard errors; jackknives had .70 to .33.

    Each of four data sets.
    """
    grid = (np.arange(100_000) + 0.5) / 100_000
    distance = np.abs(CURVES[world](grid) - grid)
    truth = distance.mean() if quantile is None else np.quantile(distance, quantile)
    options, intervals = {"quantile": quantile, "labels": [0, 1]}, []
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        p = rng.uniform(size=500)
        y = (rng.uniform(size=500) < CURVES[world](p)).astype(int)
        interval = s.calibration_error_interval(y, p, metric="ici", n_resamples=100, **options)
        assert interval.estimate == s.integrated_calibration_index(y, p, **options)
        assert interval.conservative and interval.valid
        assert interval.method == ("simultaneous limits" if quantile else "test inversion")
        intervals.append(interval)
    held = np.mean([interval.low <= truth <= interval.high for interval in intervals])
    assert held >= (1 if n_sets == 4 else 0.95 - 3 * np.sqrt(0.95 * 0.05 / n_sets))
    positive = np.mean([interval.low > 0 for interval in intervals])
    assert positive > 0.5 or quantile or world == "nearly calibrated"
    p[:20] = y[:20]  # some are certain and right
    with_certain = s.calibration_error_interval(y, p, metric="ici", n_resamples=100, **options)
    assert with_certain.method == interval.method and with_certain.high < 0.5


@pytest.mark.parametrize("options", [{"smoother": "isotonic"}, {"notion": "canonical"}])
def test_distances_of_a_smoother_or_of_all_classes_at_once_have_the_jackknife(options):
    options = {"n_resamples": 39, **options}
    interval = s.calibration_error_interval(*some_data(100, 0.7), metric="ici", **options)
    assert interval.method.startswith("jackknife") and not interval.valid


def test_the_bootstrap_shows_held_out_estimates_the_label_in_its_double():
    smoother = DirichletKernel(0.003, refinement="loss")
    moved = []
    for seed in range(2):
        y, proba = some_data(300, temperature=1, seed=seed, n_classes=2)
        options = {"method": "bootstrap", "n_resamples": 40, "smoother": smoother}
        interval = s.calibration_error_interval(y, proba, metric="brier", **options)
        moved.append((interval.low + interval.high) / 2 - interval.estimate)
    assert min(moved) > 0.002  # of a resample the error is larger; the truth is 0


@pytest.mark.parametrize(("metric", "wrong"), [("simplex", "notion"), ("l1", "nbins")])
def test_unknown_options_of_a_metric(metric, wrong):
    with pytest.raises(TypeError, match=rf"_error got an .*'{wrong}': as a metric it takes \w+, "):
        s.calibration_error_interval([0, 1] * 50, [0.2, 0.7] * 50, metric=metric, **{wrong: 3})
