"""Intervals of errors: identities, edges, what they say of themselves, and their coverage.

Coverage is measured by ``doc/studies/interval_coverage.py``, whose targets come from the known
E[Y|S]; its Monte Carlo standard error at .95 is .011 for 400 data sets, .007 for 1,000.
"""

import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from doc_studies import load
from grids import rotated
from scipy.special import expit, logit
from scipy.stats import t as student
from sklearn.metrics import brier_score_loss

import skcalib as s
from skcalib.data.notions import NOTIONS, Classwise
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
    set_sizes(dense_cells=0)
    streamed = methods.normal_draws(rows, 20_000, rng, total=total, weight=gaps.weight)
    for draws in (dense, streamed):
        assert np.abs(np.cov(draws.T) - expected).max() < 0.05 * expected.max()


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
    score = rng.random(250)
    y = (rng.random(250) < score**power).astype(int)
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
    assert n_whole >= 200 and (n_early <= n_whole - 100 or power > 1)
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


@pytest.mark.parametrize("world", ["calibrated, binary", "miscalibrated, binary"])
@pytest.mark.parametrize(("metric", "n_repetitions"), [("squared_l2", 400), ("l1", 120)])
def test_coverage(coverage, world, metric, n_repetitions):
    assert_covers(coverage(world, metric, 300, n_repetitions), n_repetitions)


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


@pytest.mark.parametrize(
    ("world", "quantile", "n_sets"),
    [(world, None, 60) for world in CURVES if world != "wave"]
    + [(world, level, 25) for world in ("nearly calibrated", "wave") for level in (0.5, 0.9)],
)
def test_coverage_of_the_distance(world, quantile, n_sets):
    """Data sets of 500: at least .95 less three standard errors; jackknives had .70 to .33."""
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
    assert held >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / n_sets)
    positive = np.mean([interval.low > 0 for interval in intervals])
    assert positive > 0.5 or quantile or world == "nearly calibrated"
    p[:20] = y[:20]  # some are certain and right
    with_certain = s.calibration_error_interval(y, p, metric="ici", n_resamples=100, **options)
    assert with_certain.method == interval.method and with_certain.high < 0.5


@pytest.mark.parametrize("options", [{"smoother": "isotonic"}, {"notion": "canonical"}])
def test_distances_of_a_smoother_or_of_all_classes_at_once_have_the_jackknife(options):
    interval = s.calibration_error_interval(*some_data(300, 0.7), metric="ici", **options)
    assert interval.method.startswith("jackknife") and not interval.valid


def test_the_bootstrap_shows_held_out_estimates_the_label_in_its_double():
    smoother = DirichletKernel(0.003, refinement="loss")
    moved = []
    for seed in range(5):
        y, proba = some_data(300, temperature=1, seed=seed, n_classes=2)
        options = {"method": "bootstrap", "n_resamples": 40, "smoother": smoother}
        interval = s.calibration_error_interval(y, proba, metric="brier", **options)
        moved.append((interval.low + interval.high) / 2 - interval.estimate)
    assert min(moved) > 0.002  # of a resample the error is larger; the truth is 0


@pytest.mark.parametrize(("metric", "wrong"), [("simplex", "notion"), ("l1", "nbins")])
def test_unknown_options_of_a_metric(metric, wrong):
    with pytest.raises(TypeError, match=rf"_error got an .*'{wrong}': as a metric it takes \w+, "):
        s.calibration_error_interval([0, 1] * 50, [0.2, 0.7] * 50, metric=metric, **{wrong: 3})
