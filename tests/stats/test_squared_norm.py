"""Laws of squared norms, and p-values of draws and of several tests, against their definitions."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2, pearson3

from skcalib.stats.pvalues import (
    CalibrationTest,
    at_least,
    benjamini_hochberg,
    bonferroni,
    drawn_pvalue,
    e_value_test,
    monte_carlo_pvalue,
)
from skcalib.stats.squared_norm import (
    SquaredNorm,
    chi_square_mixture_sf,
    noise_cumulants,
    signal_slope,
)

FORM = {"noise2": 0.04, "noise3": 0.01, "slope": 0.05, "between": 0.02}


def law(theta, noise2, noise3, slope, between):
    """Pearson's law of the third type with the three cumulants of the estimate."""
    second = noise2 + 4 * slope * theta + between * theta**2
    third = noise3 + 24 * slope**2 * theta
    return pearson3(third / second**1.5, loc=theta, scale=np.sqrt(second))


@pytest.mark.parametrize("skew", [1, -1, 0])
def test_pvalue_and_standard_error(skew):
    form = FORM | {"noise3": skew * 0.01}
    for estimate in (-0.1, 0.02, 0.7):
        squared_norm = SquaredNorm(estimate, **form)
        assert squared_norm.pvalue == pytest.approx(law(0.0, **form).sf(estimate), rel=1e-9)
        error = law(max(estimate, 0.0), **form).std()
        assert squared_norm.standard_error == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("level", [0.9, 0.99])
@pytest.mark.parametrize("skew", [1, -1, 0])
def test_interval_inverts_the_tests(level, skew):
    """Their error probability is on one side up to the limit h of an estimate at the median."""
    form = FORM | {"noise3": skew * 0.002}
    middle, spare = law(0.0, **form).median(), 1 - level
    reached = SquaredNorm(middle - 1, **form).interval(level)[1]
    assert law(reached, **form).cdf(middle) == pytest.approx(spare / 2, rel=1e-6)
    kinds = set()
    for estimate in (*np.arange(-0.3, 3.0, 0.1), 6.0):
        low, high = SquaredNorm(estimate, **form).interval(level)
        upper = max(estimate, middle)
        assert law(high, **form).cdf(upper) == pytest.approx(spare / 2, rel=1e-6)
        if low == 0:
            assert law(0.0, **form).sf(estimate) >= spare
        elif low < reached:
            assert law(low, **form).sf(estimate) == pytest.approx(spare, rel=1e-6)
        elif low == pytest.approx(reached, rel=1e-9):
            assert spare / 2 - 1e-9 <= law(low, **form).sf(estimate) <= spare + 1e-9
        else:
            assert law(low, **form).sf(estimate) == pytest.approx(spare / 2, rel=1e-6)
        kinds.add((low > 0) + (low > reached * (1 + 1e-6)))
    assert kinds == {0, 1, 2}


def test_the_slope_has_a_margin():
    """One standard error of the noise more, in the direction of the large eigenvalues."""
    signal, raw, estimate, noise2, noise3 = 0.3, 2.0, 1.5, 0.2, 0.5
    plain = max(signal / raw, min((signal - noise2 / 2) / estimate, np.sqrt(noise2 / 2)))
    deviation = np.sqrt(noise2 + 4 * plain * estimate)
    expected = (signal + deviation * noise3 / (4 * noise2)) / (raw + deviation)
    assert expected > plain
    assert signal_slope(signal, raw, estimate, noise2, noise3) == pytest.approx(expected)
    assert signal_slope(3.0, raw, estimate, noise2, noise3) == pytest.approx(1.5)
    less = signal_slope(1.0, raw, 1.9, noise2, 0.0)
    assert less == pytest.approx(max(0.5, min(0.9 / 1.9, np.sqrt(0.1))))
    more = signal_slope(0.5, raw, 1.0, 0.8, 0.0)
    assert more == pytest.approx(0.25)
    assert signal_slope(0.6, raw, 1.0, 0.2, 0.0) == pytest.approx(np.sqrt(0.1))
    assert signal_slope(0.1, raw, -0.5, noise2, 0.0) == pytest.approx(0.05)
    assert signal_slope(0.1, 0.5, -0.2, noise2, 0.0) == pytest.approx(0.2)
    assert signal_slope(0.1, 0.0, 1.0, noise2, 0.0) == signal_slope(0.1, 1.0, 1.0, 0.0, 0.0) == 0


def test_cumulants_are_sums_over_different_rows():
    rows = np.random.default_rng(0).normal(size=(6, 2))
    products = rows @ rows.T
    second = sum(products[i, j] ** 2 for i, j in permutations(range(6), 2))
    triples = permutations(range(6), 3)
    third = sum(products[i, j] * products[j, k] * products[k, i] for i, j, k in triples)
    assert noise_cumulants(rows) == pytest.approx((2 * second, 8 * third))


@pytest.mark.parametrize("x", [1e-3, 0.5, 3.0, 30.0, 600.0])
def test_tails_of_mixtures_of_chi_squares(x):
    """Equal weights are a chi-square; two pairs of equal weights a mixture of exponentials."""
    for copies in (1, 3):
        tail = chi_square_mixture_sf(2 * x, [2.0, 2.0, 1e-16], copies=copies)
        assert tail == pytest.approx(chi2.sf(x, 2 * copies), rel=1e-9)
    pairs = (3 * np.exp(-x / 6) - np.exp(-x / 2)) / 2
    assert chi_square_mixture_sf(x, [3.0, 3.0, 1.0, 1.0]) == pytest.approx(pairs, rel=1e-9)
    # The difference of two exponential variables of the means 6 and 2.
    above, below = 0.75 * np.exp(-x / 6), 0.25 * np.exp(-x / 2)
    both = [3.0, 3.0, -1.0, -1.0]
    assert chi_square_mixture_sf(x, both) == pytest.approx(above, rel=1e-9)
    assert chi_square_mixture_sf(-x, both) == pytest.approx(1 - below, rel=1e-9)
    assert chi_square_mixture_sf(x, [-1.0, -2.0]) == chi_square_mixture_sf(1e308, [1e-300]) == 0
    assert chi_square_mixture_sf(1e-101, [1.0, 2.0]) == 1
    assert (chi_square_mixture_sf(0.0, [0.0]), chi_square_mixture_sf(x, [0.0])) == (1, 0)


def test_pvalues_of_draws_count_the_observed_one():
    assert monte_carlo_pvalue(2.0, np.array([1.0, 2.0, 3.0, 0.0])) == 3 / 5
    assert at_least([1 - 1e-10, 1 - 1e-8, np.inf], 1.0).tolist() == [True, False, True]
    assert at_least([np.inf, 1e300], np.inf).tolist() == [True, False]
    asked = []

    def draw(m, largest=-1.0, stage=2):
        asked.append(m)
        return np.full(m, largest if len(asked) == stage else -1.0)

    assert drawn_pvalue(draw, 0.0, 9, size=1, most=50)[0] == 1 / 51
    assert asked == [9, 9, 18, 14]
    asked.clear()
    pvalue, draws = drawn_pvalue(lambda m: draw(m, 5.0), 0.0, 9, size=1)
    assert (pvalue, len(draws), asked) == (10 / 19, 18, [9, 9])
    asked.clear()
    assert drawn_pvalue(draw, 0.0, 9, size=1, level=0.1)[0] == 1 / 10 and asked == [9]
    asked.clear()
    assert drawn_pvalue(draw, 0.0, 9, size=1 << 24, most=100)[0] == 1 / 10  # few numbers in all


def test_several_pvalues():
    pvalues = [0.04, 0.001, 0.9, 0.012, 0.03]
    assert benjamini_hochberg(pvalues, 0.05).tolist() == [1, 3, 4, 0]
    assert benjamini_hochberg(pvalues, 0.02).tolist() == [1]
    for none in ([0.5, 0.6], []):
        assert benjamini_hochberg(none, 0.05).tolist() == []
    assert bonferroni([0.3, 0.02, 0.9]) == pytest.approx(0.06) and bonferroni([0.6, 0.7]) == 1


def test_e_values_and_levels():
    test = e_value_test(np.log(50.0), 0.1, "product")
    assert (test.e_value, test.pvalue) == pytest.approx((50.0, 0.02)) and test.statistic < 4
    assert e_value_test(-1.0, 0.1, "").pvalue == 1
    assert e_value_test(1e4, 0.1, "").e_value == np.finfo(float).max
    infinite = e_value_test(np.inf, 0.1, "")
    assert (infinite.e_value, infinite.pvalue) == (np.inf, 0)
    test = CalibrationTest(statistic=2.0, pvalue=0.05, estimate=0.1, method="normal")
    assert test.rejects() and not test.rejects(0.049)
    for level in (0.0, 1.0):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            test.rejects(level)
