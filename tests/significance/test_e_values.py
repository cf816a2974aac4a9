"""E-values of fixed samples: known values, validity, power, and how tests are combined."""

from itertools import product

import numpy as np
import pytest
from conftest import follow_a_power as several
from conftest import on_a_line
from dense_directions import labels_from
from scipy.integrate import quad
from scipy.stats import chi2, norm

from skcalib import kernel_calibration_test
from skcalib.data.notions import Multilabel
from skcalib.kernels import GaussianKernel, LaplacianKernel, MatrixKernel
from skcalib.significance import CalibrationTest, calibration_e_value, combine_tests


def binary(n, rng, *, slope=1.0, shift=0.0):
    """Forecasts, and labels whose log odds are a multiple of theirs plus a shift."""
    return on_a_line(n, shift, slope, rng)


def e_value(y, p, **options):
    n_classes = 2 if np.ndim(p) == 1 else p.shape[1]
    return calibration_e_value(y, p, labels=np.arange(n_classes), **options)


def record(pvalue=0.5, e=None, *, method="a test", estimate=0.0):
    return CalibrationTest(1.0, pvalue, estimate, method, e)


@pytest.mark.parametrize("ones", [4, 8])
def test_one_direction_by_quadrature(ones):
    """Forecasts of 1/2 and a wide kernel: the bets are a shift of the log odds, t sqrt(2)."""
    y, p, wide = np.repeat([1, 0], [ones, 10 - ones]), np.full(10, 0.5), LaplacianKernel(1e6)
    e_values = [calibration_e_value(y, p, kernel=wide, random_state=k).e_value for k in range(40)]

    def wealth(t):
        x = t / np.sqrt(2)
        return np.exp((2 * ones - 10) * x) / np.cosh(x) ** 10

    # the information about t is 1/2 for each sample
    sizes = [np.sqrt(variance / 5) for variance in (4, 30)]
    expected = np.mean([norm(scale=sd).expect(wealth, lb=-8 * sd, ub=8 * sd) for sd in sizes])
    assert abs(np.mean(e_values) - expected) < 4 * np.std(e_values) / np.sqrt(40) + 1e-12
    assert np.std(e_values) < 0.1 * expected


def test_a_kernel_that_is_zero_leaves_bets_on_the_slope_by_quadrature():
    p, y, zero = np.full((10, 2), [0.51, 0.49]), np.zeros(10, int), 0 * LaplacianKernel()
    e_values = [e_value(y, p, kernel=zero, random_state=k).e_value for k in range(40)]
    logs = np.log(p) - np.sum(p * np.log(p), axis=1, keepdims=True)
    unit = np.sum(p * logs**2)

    def wealth(slope):
        won = np.exp(slope * logs[0])
        return (won[0] / (p[0] @ won)) ** 10

    sizes = [np.sqrt(min(variance, 1000 * unit) / unit) for variance in (4, 30)]
    expected = np.mean([norm(scale=sd).expect(wealth, lb=-8 * sd, ub=8 * sd) for sd in sizes])
    assert abs(np.mean(e_values) - expected) < 4 * np.std(e_values) / np.sqrt(40) < 0.02 * expected


TINY = {
    "means": (np.array([0.3, 0.7] * 2), ("canonical",)),
    "rare": (np.full(4, 0.01), ("canonical",)),
    "mixed": (np.array([0.001, 0.2, 0.99, 0.6]), ("canonical",)),
    "three": (
        np.array([[0.9, 0.05, 0.05], [0.02, 0.97, 0.01], [0.5, 0.3, 0.2]]),
        ("canonical", "classwise", "top_label"),
    ),
}


def over_all_labels(p, statistic):
    """Probabilities of all labels, and a statistic of each."""
    columns = np.column_stack([1 - p, p]) if p.ndim == 1 else p
    every = [np.array(y) for y in product(range(columns.shape[1]), repeat=len(p))]
    chance = [columns[np.arange(len(p)), y].prod() for y in every]
    return np.array(chance), np.array([statistic(y) for y in every])


@pytest.mark.parametrize("case", TINY)
def test_the_expectation_over_all_labels_is_one(case):
    """Exactly for every seed, and for the product of two teams that share it."""
    p, notions = TINY[case]
    weight = np.linspace(0.2, 1, len(p))
    for notion, seed in zip(notions * 2, (0, 1, 2, 3), strict=False):
        options = {"notion": notion, "random_state": seed}
        chance, e_values = over_all_labels(p, lambda y, o=options: e_value(y, p, **o).e_value)
        assert chance @ e_values == pytest.approx(1, abs=1e-9)
        assert chance @ np.outer(e_values, e_values) @ chance == pytest.approx(1, abs=1e-9)
        assert e_values.std() > 0.1
    _, weighted = over_all_labels(p, lambda y: e_value(y, p, sample_weight=weight).e_value)
    assert 0.2 < chance @ weighted < 1


def test_the_record():
    y, p = several(300, np.random.default_rng(0), power=0.5)
    test = calibration_e_value(y, p)
    assert test.e_value == pytest.approx(np.exp(test.statistic)) and test.e_value > 100
    assert test.pvalue == 1 / test.e_value and test.method == "kernel bets, canonical"
    assert test.estimate == pytest.approx(test.statistic / 300)
    assert f"e-value {test.e_value:.3g}" in str(test) and test.rejects()
    quiet = calibration_e_value(*several(300, np.random.default_rng(0)))
    assert quiet.e_value < 1 and quiet.pvalue == 1
    assert kernel_calibration_test(y, p).e_value is None
    assert calibration_e_value(y, p, notion="auto").method == "kernel bets, top_label"


def test_classwise_is_the_average():
    y, p = several(200, np.random.default_rng(1), power=0.6)
    options = {"labels": [False, True], "random_state": np.random.RandomState(0)}
    single = [calibration_e_value(y == k, p[:, k], **options).e_value for k in range(3)]
    average = calibration_e_value(y, p, notion="classwise", random_state=0).e_value
    multilabel = calibration_e_value(np.eye(3, dtype=int)[y], p, notion=Multilabel()).e_value
    assert [np.mean(single), multilabel] == pytest.approx([average] * 2, rel=0.5)  # other draws


def test_labels_of_probability_zero_or_one():
    test = calibration_e_value([1, 0, 1], [0.0, 0.5, 0.5])
    assert (test.e_value, test.pvalue) == (np.inf, 0)
    certain = calibration_e_value([1, 0, 1], [1.0, 0.0, 1.0])
    assert (certain.e_value, certain.pvalue) == (1, 1)
    for tiny in (1e-9, 1e-200, 1e-320):
        assert calibration_e_value([1, 0] * 5, np.full(10, tiny)).e_value > 1e20
    largest = calibration_e_value([1, 0] * 5, np.full(10, 1e-320))
    assert largest.e_value == pytest.approx(np.finfo(float).max) and largest.pvalue > 0


def test_seeds_and_scales_of_kernels_decide_little():
    y, p = several(1500, np.random.default_rng(0), power=0.8)
    p = p.round(2) + 0.01
    p /= p.sum(axis=1, keepdims=True)
    weighted = {"sample_weight": np.random.default_rng(1).uniform(0, 1, 1500)}
    first, second = (
        calibration_e_value(y, p, random_state=k, **weighted).statistic for k in (0, 1)
    )
    assert 0 < abs(second - first) < 0.3
    y, p = several(300, np.random.default_rng(0), power=0.6)
    plain = calibration_e_value(y, p, kernel=LaplacianKernel(0.3)).statistic
    for same in (7 * LaplacianKernel(0.3), MatrixKernel(LaplacianKernel(0.3), np.eye(3))):
        assert calibration_e_value(y, p, kernel=same).statistic == pytest.approx(plain, abs=0.3)
    several_terms = LaplacianKernel(0.3) + MatrixKernel(GaussianKernel(0.5), np.diag([1, 2, 0]))
    assert calibration_e_value(y, p, kernel=several_terms).e_value > 20
    p = np.random.default_rng(0).dirichlet([2, 2, 2], 400)
    bumps = p * np.exp(np.sign(np.sin(28 * p[:, :1])) * [1, -1, 0])
    y = labels_from(bumps / bumps.sum(axis=1, keepdims=True), np.random.default_rng(0))
    statistics = [
        calibration_e_value(y, p, kernel=kernel).statistic
        for kernel in (LaplacianKernel(0.1), MatrixKernel(LaplacianKernel(0.1), np.eye(3)))
    ]
    assert statistics == pytest.approx(statistics[:1] * 2) and statistics[0] > 4


def test_many_classes_and_many_samples():
    """More unknowns than are solved for, and directions that are not stored."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(30), 200)
    y = rng.integers(0, 30, 200)
    assert calibration_e_value(y, p, labels=np.arange(30)).e_value > 1e6
    calibrated = (p.cumsum(axis=1) < rng.random(200)[:, None]).sum(axis=1).clip(0, 29)
    assert calibration_e_value(calibrated, p, labels=np.arange(30)).e_value < 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulate", "options"),
    [(binary, {}), (several, {"notion": "top_label"}), (several, {})],
    ids=["binary", "top_label", "three classes"],
)
def test_calibrated_forecasts(simulate, options):
    """A mean of at most 1 and P(e >= 20) at most .05, up to three standard errors."""
    sets = [simulate(60, np.random.default_rng([11, k])) for k in range(40)]
    e_values = np.array([e_value(y, p, **options).e_value for y, p in sets])
    assert e_values.mean() <= 1 + 3 * e_values.std() / np.sqrt(40)
    assert np.mean(e_values >= 20) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "by_e", "by_kernel"),
    [
        ({"slope": 1 / 1.4}, (0.73, 0.25), (0.71, 0.25)),
        ({"shift": -0.3}, (0.6, 0.27), (0.92, 0.15)),
    ],
)
def test_the_power_against_the_kernel_test(error, by_e, by_kernel):
    """30 sets of 800; shares of 200 sets."""
    sets = [binary(800, np.random.default_rng([13, k]), **error) for k in range(30)]
    for test, (power, reach) in ((calibration_e_value, by_e), (kernel_calibration_test, by_kernel)):
        assert np.mean([test(y, p).rejects() for y, p in sets]) == pytest.approx(power, abs=reach)


def test_combinations_by_hand():
    tests = [record(1 / 8, 8.0, estimate=0.1), record(1, 0.5, estimate=0.2), record(1 / 6, 6.0)]
    together = combine_tests(tests)
    assert (together.e_value, together.pvalue) == pytest.approx((24, 1 / 24))
    assert (together.statistic, together.estimate) == pytest.approx((np.log(24), 0.1))
    assert together.method == "product of 3 e-values: a test"
    mean = combine_tests(iter(tests), method="mean")
    assert mean.e_value == pytest.approx(14.5 / 3) and mean.method.startswith("mean of 3 e-values")
    five = combine_tests([record(0.5, method=name) for name in "edcba"], method="fisher")
    assert five.method.endswith(": a and b and c and d and e")
    fisher = combine_tests(tests, method="fisher")
    statistic = -2 * np.log(1 / 48)
    assert (fisher.statistic, fisher.pvalue) == pytest.approx((statistic, chi2.sf(statistic, 6)))
    assert fisher.method == "Fisher's method for 3 p-values: a test" and fisher.e_value is None
    assert combine_tests(tests[1:2]).pvalue == 1
    assert combine_tests(tests[:1]).e_value == pytest.approx(8)


def test_an_e_value_from_a_pvalue():
    """The average over kappa of kappa p^(kappa - 1), by quadrature; e-values are used as such."""
    for pvalue in (1e-300, 1e-8, 0.01, 0.4, 0.9, 0.99991, 0.9999999, 1.0):
        test = combine_tests([record(pvalue)], method="calibrated")
        x = -np.log(pvalue)
        points = [min(1, 3 / x), min(1, 30 / x)] if x else None
        expected = quad(lambda k, x=x: k * np.exp(-x * k), 0, 1, points=points)[0]
        assert test.statistic == pytest.approx(np.log(expected) + x, abs=1e-7)
        assert test.method == "product of 1 e-values, 1 of them from p-values: a test"
        both = combine_tests([record(0.1, 9.0), record(pvalue)], method="calibrated")
        assert both.statistic == pytest.approx(test.statistic + np.log(9))
        assert both.method == "product of 2 e-values, 1 of them from p-values: a test"


def test_kinds_and_notions_may_differ_and_extreme_tests():
    """An e-value has the p-value min(1, 1 / e), and a p-value becomes an e-value."""
    tests = [record(1 / 9, 9.0, method="kernel bets, canonical"), record(0.001, method="Brier")]
    converted = combine_tests(tests[1:], method="calibrated").e_value
    together = combine_tests(tests, method="calibrated")
    assert together.e_value == pytest.approx(9 * converted) and np.isnan(together.estimate)
    assert together.method.endswith("1 of them from p-values: Brier and kernel bets, canonical")
    fisher = combine_tests(tests, method="fisher")
    assert fisher.statistic == pytest.approx(-2 * np.log(0.001 / 9))
    largest = np.finfo(float).max
    assert combine_tests([record(0, 1e200), record(0, 1e200)]).e_value == pytest.approx(largest)
    assert combine_tests([record(0, np.inf), record(1, 0.0)]).e_value == np.inf
    assert combine_tests([record(1, 0.0)]).pvalue == 1
    for method in ("fisher", "calibrated"):
        assert combine_tests([record(0.0), record(1.0)], method=method).pvalue == 0
        assert combine_tests([record(1.0)], method=method).pvalue == 1


def test_refusals():
    for tests, method, words in (
        (record(0.5, 2.0), "product", "must be a list of CalibrationTest records, got a single"),
        (3, "mean", "must be a list of CalibrationTest records, got int"),
        ([0.5, 0.1], "fisher", "must hold CalibrationTest records, got float: run a test"),
        ([record()], "product", r"has no e-value \(a test\): use calibration_e_value, or"),
        ([record()], "mean", "has no e-value"),
        ([record(1.5)], "fisher", "p-value must be between 0 and 1, got 1.5"),
        ([record(np.nan)], "fisher", "p-value must be between 0 and 1, got nan"),
        ([record(0.5, -1.0)], "product", "e-value must not be negative or NaN, got -1.0"),
        ([record(0.5, np.nan)], "product", "e-value must not be negative or NaN, got nan"),
    ):
        with pytest.raises(ValueError, match=words):
            combine_tests(tests, method=method)


def test_the_level_of_combinations():
    """3,000 times four calibrated tests: Fisher's has the level (s.e. .004), e-values less."""
    drawn = np.random.default_rng(0).random((3000, 4))
    rejected = {}
    for method in ("fisher", "calibrated"):
        combined = [combine_tests(map(record, row), method=method) for row in drawn]
        rejected[method] = np.mean([test.rejects() for test in combined])
    assert abs(rejected["fisher"] - 0.05) < 0.012 and rejected["calibrated"] < 0.02


@pytest.mark.slow
def test_five_batches_have_more_power_than_one():
    """A shift of .3 in the log odds, batches of 400: .18 for one, .58 for the product (of 40)."""
    single, together = [], []
    for k in range(10):
        rng = np.random.default_rng([14, k])
        tests = [calibration_e_value(*binary(400, rng, shift=-0.3)) for _ in range(5)]
        single += [test.rejects() for test in tests]
        together.append(combine_tests(tests).rejects())
    assert np.mean(together) > np.mean(single) + 0.2
