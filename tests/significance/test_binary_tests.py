"""Classical binary tests: levels and powers by simulation, laws, edges, refusals."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from conftest import forty
from dense_directions import problem_of
from levels import need_level
from scipy.integrate import trapezoid
from scipy.special import expit, logit
from scipy.stats import chi2, norm

import skcalib
from skcalib.significance import binary
from skcalib.significance.binary import HosmerLemeshow, Spiegelhalter, merged_rows
from skcalib.smoothers import QuantileBins, UniformBins

ASYMPTOTIC = {"n_resamples": 0}
DRAWN = "labels drawn from the forecasts"
kuiper = partial(skcalib.significance.cumulative_test, statistic="kuiper")
TESTS = {
    "spiegelhalter": skcalib.significance.spiegelhalter_test,
    "hosmer_lemeshow": skcalib.hosmer_lemeshow_test,
    "ks": skcalib.significance.cumulative_test,
    "kuiper": kuiper,
}
#: The likelihood ratio of intercept and slope has the same edges and levels.
EVERY = TESTS | {"likelihood ratio": skcalib.significance.logistic_calibration_test}
every_test = pytest.mark.parametrize("test", EVERY.values(), ids=EVERY)


def made(p, weight):
    """Each test of forecasts and weights; a statistic is given the labels later."""
    rows = problem_of(np.zeros(len(p), dtype=int), p, weight)
    return {
        "spiegelhalter": Spiegelhalter(rows),
        "hosmer_lemeshow": HosmerLemeshow(rows, QuantileBins(10), 0),
        "ks": binary.Cumulative(rows, "ks"),
        "kuiper": binary.Cumulative(rows, "kuiper"),
    }


def draw(n_samples, seed=0, distort=None):
    rng = np.random.default_rng(seed)
    p = rng.random(n_samples)
    return (rng.random(n_samples) < (p if distort is None else distort(p))).astype(int), p


def test_hosmer_lemeshow_does_not_depend_on_the_scale_of_weights():
    """Squares of small weights times small variances were 0, and their bins did not count."""
    p = np.r_[np.full(9, 1e-120), np.linspace(0.1, 0.9, 27)]
    y = np.r_[np.zeros(9), np.tile([0, 1, 1], 9)]
    plain, *scaled_tests = (
        skcalib.hosmer_lemeshow_test(y, p, sample_weight=np.full(36, w), n_bins=4, n_resamples=0)
        for w in (1.0, 3e-30, 3e-60, 1e-160)
    )
    for scaled in scaled_tests:
        assert scaled.method == plain.method and "4 degrees of freedom" in plain.method
        assert (scaled.pvalue, scaled.estimate) == pytest.approx(
            (plain.pvalue, plain.estimate), rel=1e-9
        )


@pytest.mark.parametrize("ddof", [0, 2, 9])
def test_hosmer_lemeshow_by_hand(ddof):
    y, p = draw(203)
    order = np.argsort(p)
    edges = np.rint(20.3 * np.arange(11)).astype(int)
    edges[5] = 101 + (p[order[101]] > 0.5)  # of 101.5; the sample between goes towards 1/2
    h = square = 0.0
    for a, b in pairwise(edges):
        rows = order[a:b]
        mean = p[rows].mean()
        h += (y[rows].sum() - p[rows].sum()) ** 2 / (len(rows) * mean * (1 - mean))
        square += len(rows) / 203 * (y[rows].mean() - mean) ** 2
    result = skcalib.hosmer_lemeshow_test(y, p, ddof=ddof, n_resamples=0)
    assert result.statistic == pytest.approx(h)
    assert result.pvalue == pytest.approx(chi2.sf(h, 10 - ddof))
    assert result.estimate == pytest.approx(square)
    degrees = "1 degree" if ddof == 9 else f"{10 - ddof} degrees"
    law = f"chi-squared {h:.4g} with {degrees} of freedom; asymptotic"
    assert result.method == f"Hosmer-Lemeshow, QuantileBins(n_bins=10) ({law})"


def test_cumulative_by_hand():
    y, p = draw(60)
    order = np.argsort(p)
    curve = np.concatenate([[0], np.cumsum((y - p)[order])]) / 60
    sigma = np.sqrt(np.sum(p * (1 - p))) / 60
    for test, size, law in (
        (skcalib.significance.cumulative_test, np.abs(curve).max(), binary.brownian_maximum_sf),
        (kuiper, np.ptp(curve), binary.brownian_range_sf),
    ):
        result = test(y, p, n_resamples=0)
        assert (result.estimate, result.statistic) == pytest.approx((size, size / sigma))
        assert result.pvalue == pytest.approx(law(result.statistic))


def test_laws_of_brownian_motion():
    """Known quantiles, simulated frequencies, moments, and no negative tail."""
    maximum, width = binary.brownian_maximum_sf, binary.brownian_range_sf
    assert maximum(2.241402727604947) == pytest.approx(0.05, abs=1e-6)
    assert maximum(20.0) == pytest.approx(4 * norm.sf(20.0), abs=0)
    assert width(9.0) == pytest.approx(8 * norm.sf(9.0), abs=0)
    rng = np.random.default_rng(0)
    steps = 1000
    walk = rng.choice([-1.0, 1.0], size=(4000, steps)).cumsum(axis=1) / np.sqrt(steps)
    largest = np.abs(walk).max(axis=1)
    spread = np.maximum(walk.max(axis=1), 0) - np.minimum(walk.min(axis=1), 0)
    shift = 0.58 / np.sqrt(steps)  # a walk overshoots less than the motion
    for x in (0.7, 1.0, 1.5, 2.0):
        assert np.mean(largest > x - shift) == pytest.approx(maximum(x), abs=0.03)
        assert np.mean(spread > x + 0.3 - 2 * shift) == pytest.approx(width(x + 0.3), abs=0.03)
    x = np.linspace(0, 60, 6001)
    for law, mean in ((maximum, np.sqrt(np.pi / 2)), (width, 2 * np.sqrt(2 / np.pi))):
        assert max(map(law, np.linspace(0.15, 0.6, 200))) == 1  # never more by rounding
        tail = np.array([law(value) for value in x])
        assert tail[0] == 1 and np.all(tail >= 0) and np.all(np.diff(tail) <= 1e-12)
        assert trapezoid(tail, x) == pytest.approx(mean, rel=1e-4)


@every_test
def test_pvalues_are_never_negative(test):
    """1 - cdf would give -7e-12 here."""
    y, p = draw(100_000, distort=lambda p: p**3)
    assert 0 <= test(y, p).pvalue < 1e-12


def test_pvalues_of_other_packages():
    """MAPIE 1.6 (one-sided, and with noise of 1e-8), and S:z, S:p of val.prob in rms 6.5-0."""
    y, p = forty()
    one_sided = {"alternative": "greater", **ASYMPTOTIC}
    result = skcalib.significance.spiegelhalter_test(y, p, **ASYMPTOTIC)
    assert result.statistic == pytest.approx(-0.6352924291152, rel=1e-11)
    assert result.pvalue == pytest.approx(0.5252377104077, rel=1e-11)
    assert result.estimate == pytest.approx(np.mean((y - p) ** 2) - np.mean(p * (1 - p)))
    assert result.method == "Spiegelhalter (asymptotic)"
    pvalue_greater = skcalib.significance.spiegelhalter_test(y, p, **one_sided).pvalue
    assert pvalue_greater == pytest.approx(0.737381144796174, rel=1e-11)
    for test, pvalue in (
        (skcalib.significance.cumulative_test, 0.6377291711715),
        (kuiper, 0.6932049497373756),
    ):
        assert test(y, p, **ASYMPTOTIC).pvalue == pytest.approx(pvalue, rel=1e-7)
    y, p = [1, 0, 1, 0, 1, 0], [0.8, 0.3, 0.5, 0.5, 0.7, 0.1]  # of MAPIE's documentation
    assert round(skcalib.significance.spiegelhalter_test(y, p, **one_sided).pvalue, 4) == 0.8486


@pytest.mark.parametrize("temper", [0.8, 1.4])
def test_spiegelhalter_is_two_sided(temper):
    y, p = draw(300, seed=3, distort=lambda p: expit(temper * logit(p)))
    two, greater, less = (
        skcalib.significance.spiegelhalter_test(y, p, alternative=side)
        for side in ("two-sided", "greater", "less")
    )
    assert two.statistic == greater.statistic == less.statistic
    assert (two.statistic > 0) == (greater.pvalue < less.pvalue) == (temper < 1)
    assert greater.pvalue + less.pvalue == pytest.approx(1)
    assert two.pvalue == pytest.approx(2 * min(greater.pvalue, less.pvalue))
    assert greater.method == "Spiegelhalter, greater (asymptotic)"
    for side, exact in (("greater", greater), ("less", less)):
        options = {"alternative": side, "n_resamples": 2000, "random_state": 0}
        drawn = skcalib.significance.spiegelhalter_test(y, p, **options)
        assert drawn.pvalue == pytest.approx(exact.pvalue, abs=0.04)
        assert drawn.method == f"Spiegelhalter, {side} ({DRAWN})"


FORECASTS = {
    "uniform": lambda rng, n: rng.random(n),
    "beta(.5, .5)": lambda rng, n: rng.beta(0.5, 0.5, n),
    "near 0 and 1": lambda rng, n: rng.beta(0.1, 0.1, n),
    "rare": lambda rng, n: rng.beta(0.2, 10, n),
    "nine values": lambda rng, n: rng.integers(1, 10, n) / 10,
}
#: Where the chi-square law of Hosmer and Lemeshow is known to fail.
FAILS = {"beta(.5, .5)", "near 0 and 1", "rare"}


def rejections(test, labelings, level=0.05):
    return np.mean([test.pvalue(s) <= level for s in test.statistic(labelings)])


def mean_rejections(draw, n_sets, n_labelings, distort=lambda p: p):
    """Of each test, over labels of several sets of forecasts."""
    rates = []
    for _ in range(n_sets):
        rng, p = draw()
        labelings = (rng.random((n_labelings, len(p))) < distort(p)).astype(float)
        tests = made(p, np.ones(len(p)))
        rates.append([rejections(test, labelings) for test in tests.values()])
    return dict(zip(TESTS, np.mean(rates, axis=0), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("n_samples", [100, 1000])
@pytest.mark.parametrize("name", FORECASTS)
def test_level(name, n_samples):
    """2,000 data sets of calibrated forecasts: the standard error of the level .05 is .005."""
    rng = np.random.default_rng(5)
    level = mean_rejections(lambda: (rng, FORECASTS[name](rng, n_samples)), 20, 100)
    assert 0.025 < level["spiegelhalter"] < 0.07
    assert 0.01 < level["ks"] < 0.065 and 0.01 < level["kuiper"] < 0.065
    if name not in FAILS:
        assert 0.03 < level["hosmer_lemeshow"] < 0.075


@pytest.mark.slow
@pytest.mark.parametrize("n_samples", [3, 30, 100])
@every_test
def test_simulated_level_is_right_everywhere(test, n_samples):
    """Of 400 data sets of rare events with ties; p-values are valid, discrete at n = 3."""
    rng = np.random.default_rng(7)
    pvalues = []
    for seed in range(400):
        p = np.round(rng.beta(0.5, 2, n_samples), 1)
        y = (rng.random(n_samples) < p).astype(int)
        result = test(y, p, n_resamples=39, random_state=seed, labels=[0, 1])
        assert result.method.endswith(f"{DRAWN})") and 0 < result.pvalue <= 1
        pvalues.append(result.pvalue)
    need_level(pvalues)


def test_level_with_weights():
    rng = np.random.default_rng(8)
    weight = rng.exponential(size=500) ** 2
    p = rng.random(500)
    labelings = (rng.random((2000, 500)) < p).astype(float)
    for name, test in made(p, weight).items():
        assert rejections(test, labelings) == pytest.approx(0.045, abs=0.025), name


#: Power at n = 1000 and level .05, as in the user guide.
POWER = {
    "too high": (lambda p: expit(logit(p) - 0.3), [0.05, 0.74, 0.96, 0.96]),
    "over-confident": (lambda p: expit(0.7 * logit(p)), [1.0, 0.97, 0.62, 0.75]),
    "timid": (lambda p: expit(1.4 * logit(p)), [1.0, 0.89, 0.51, 0.63]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("distort", "expected"), POWER.values(), ids=POWER)
def test_power(distort, expected):
    """1,000 data sets of uniform forecasts: the standard error of a power is at most .016."""
    rng = np.random.default_rng(9)
    powers = mean_rejections(lambda: (rng, rng.random(1000)), 25, 40, distort)
    assert powers == pytest.approx(dict(zip(TESTS, expected, strict=True)), abs=0.06)


@pytest.mark.slow
@every_test
def test_level_of_rare_events(test, set_sizes):
    """By default, 400 calibrated data sets of 2 or 4 expected events; a standard error of .011."""
    set_sizes(labelings=99)
    rng, pvalues = np.random.default_rng(11), []
    for n_samples in (100, 200) * 200:
        p = rng.beta(0.5, 24.5, n_samples)
        y = (rng.random(n_samples) < p).astype(int)
        pvalues.append(test(y, p, labels=[0, 1]).pvalue)
    need_level(pvalues, [0.05])


@pytest.mark.parametrize(
    ("p", "reason"),
    [(0.0, "an event where the forecast said 0"), (1.0, "no event where the forecast said 1")],
)
@every_test
def test_an_impossible_label_refutes(test, p, reason):
    """Among 2,000 labels that fit the forecasts; in a sketch and in clusters as well."""
    y, forecast = draw(2000)
    y, forecast = np.append(y, int(p == 0)), np.append(forecast, p)
    sketch, clusters = skcalib.ForecastSketch([0, 1]).fit(y, forecast), np.arange(2001) // 3
    for refuted in (test(sketch), test(y, forecast, groups=clusters), test(y, forecast)):
        assert (refuted.statistic, refuted.pvalue) == (np.inf, 0)
        assert f"refuted by {reason}" in refuted.method
    assert (
        skcalib.significance.combine_tests([refuted, test(*draw(50))], method="fisher").pvalue == 0
    )
    if test is skcalib.significance.spiegelhalter_test:
        assert skcalib.errors.corp_test(y, forecast, n_resamples=9).pvalue == 0
        exact = {"metric": skcalib.ks_calibration_error, "n_resamples": 9}
        assert skcalib.significance.consistency_test(y, forecast, **exact).pvalue == 0


@every_test
def test_labels_are_drawn_for_sketches(test):
    p = np.random.default_rng(3).choice([0.01, 0.02, 0.05], 300)
    y = (np.random.default_rng(4).random(300) < p).astype(int)
    sketched = test(skcalib.ForecastSketch([0, 1]).fit(y, p), n_resamples=1999)
    assert sketched.method.endswith(f"{DRAWN})")
    assert sketched.pvalue == pytest.approx(test(y, p, n_resamples=1999).pvalue, abs=0.06)


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_whole_weights_are_repetitions_in_the_estimate(test):
    y, p = draw(300, distort=lambda p: p**1.2)
    options = dict(ASYMPTOTIC)
    if test is skcalib.hosmer_lemeshow_test:  # quantile bins count samples
        options["strategy"] = "uniform"
    weight = np.random.default_rng(1).integers(0, 3, 300)
    weighted = test(y, p, sample_weight=weight.astype(float), **options)
    repeated = test(np.repeat(y, weight), np.repeat(p, weight), **options)
    assert repeated.estimate == pytest.approx(weighted.estimate, rel=1e-9)


@every_test
def test_forecasts_of_exactly_zero_and_one(test):
    right, p = np.array([0, 0, 1, 1, 1]), np.array([0.0, 0.0, 1.0, 1.0, 1.0])
    result = test(right, p)
    assert (result.statistic, result.pvalue, result.estimate) == (0, 1, 0)
    assert test(right, p, n_resamples=19).pvalue == 1
    y, p = draw(100)
    mixed = test(np.append(y, [0, 1]), np.append(p, [0.0, 1.0]))
    assert 0 < mixed.pvalue <= 1 and np.isfinite(mixed.statistic)


@every_test
def test_one_sample_and_forecasts_of_one_half(test):
    """One sample with forecast .9: the label 0 is seen with probability .1."""
    result = test([0], [0.9], labels=[0, 1], n_resamples=4999, random_state=0)
    assert result.pvalue == pytest.approx(0.1, abs=0.02)
    result = test([1, 1, 1, 1, 1], [0.5] * 5, labels=[0, 1])
    if test is skcalib.significance.spiegelhalter_test:  # which is blind there
        assert (result.statistic, result.pvalue) == (0, 1)
    else:
        assert result.statistic > 2


@every_test
def test_many_forecasts_are_merged_for_the_draws(test):
    """20,000 forecasts in at most 1,000 levels: the same p-value up to the error of 4,000 draws."""
    rng = np.random.default_rng(2)
    p = rng.beta(0.5, 5, 20_000)
    y = (rng.random(20_000) < p).astype(int)
    asymptotic, drawn = test(y, p, n_resamples=0), test(y, p, n_resamples=3999)
    assert drawn.statistic == asymptotic.statistic
    assert drawn.pvalue == pytest.approx(asymptotic.pvalue, abs=0.04)
    merged = merged_rows(problem_of(y, np.append([0.0, 1.0], p[2:])))
    assert len(merged.weight) <= 1000 and (merged.forecast[[0, -1], 1] == [0, 1]).all()


def test_labels_are_drawn_where_a_bin_has_fewer_than_three_uncertain_ones():
    """Of variance .09 each, beside 200 of variance 1/4; whatever the scale of the weights."""
    for n, scale, drawn in ((33, 1, True), (34, 1, False), (33, 7, True), (34, 7, False)):
        p = np.repeat([0.1, 0.5], [n, 200])
        options = {"sample_weight": np.full(n + 200, scale), "strategy": "uniform", "n_bins": 4}
        test = skcalib.hosmer_lemeshow_test(np.arange(n + 200) % 2, p, **options)
        assert (DRAWN in test.method) == drawn


def test_degrees_of_freedom_of_hosmer_and_lemeshow():
    """Bins without variance are dropped, and one must be left."""
    with pytest.raises(ValueError, match="Only 2 bins hold forecasts"):
        skcalib.hosmer_lemeshow_test(*draw(40), n_bins=2, ddof=2)
    rows = problem_of(np.zeros(5, dtype=int), np.array([0.0, 0.0, 0.5, 0.7, 1.0]), np.ones(5))
    assert HosmerLemeshow(rows, UniformBins(4), 0).freedom == 2
