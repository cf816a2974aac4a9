"""Simulations of the grouping loss: what the bounds, tests and intervals do against known truths.

Seeds are fixed, so nothing here fails by chance. The windows are those of the issue; numbers found
are in the docstrings.
"""

import numpy as np
import pytest
from conftest import pairs
from scipy.special import expit
from scipy.stats import binom, kstest, ttest_1samp
from sklearn.isotonic import IsotonicRegression

from skcalib import GroupingLossEstimator, proper_calibration_error
from skcalib.datasets import LINKS, make_grouping_problem
from skcalib.grouping.bounds import Cells
from skcalib.scores import LogLoss


def as_they_are(y_proba):
    return y_proba


def bent(y_proba):
    """An injective map: over-confident, and shifted."""
    z = np.log(y_proba[:, 1] / y_proba[:, 0])
    return pairs(expit(1.7 * z - 0.5))


def wavy(y_proba):
    """A map whose calibration curve has waves that no default smoother is made for."""
    p = y_proba[:, 1]
    return pairs(np.clip(p + 0.32 * np.sin(14 * p) * p * (1 - p), 1e-9, 1 - 1e-9))


def simulate(n_draws, n_samples, *, link="sigmoid", heterogeneity=1.0, forecast=as_they_are, **kw):
    """Fitted estimators of many data sets, and the truth."""
    fits = []
    for seed in range(n_draws):
        problem = make_grouping_problem(
            n_samples, link=link, heterogeneity=heterogeneity, random_state=seed
        )
        options = {"method": "partition", "n_permutations": 0, "random_state": seed, **kw}
        estimator = GroupingLossEstimator(**options)
        fits.append(estimator.fit(problem.X, problem.y, y_proba=forecast(problem.y_proba)))
    return fits, problem.truth[f"grouping_{kw.get('loss', 'brier')}"]


def values(fits, name):
    return np.array([getattr(fit, name) for fit in fits])


@pytest.mark.slow
def test_bound_of_the_published_simulation():
    """n = 10,000, 15 bins, ratio 12: LB/GL .92 with a standard error of .03; plug-in 2.03."""
    fits, truth = simulate(40, 10_000)
    assert truth == pytest.approx(0.005862, abs=5e-7)
    bound = values(fits, "grouping_loss_")
    assert 0.80 < bound.mean() / truth < 1.02
    assert values(fits, "plugin_").mean() > 1.4 * truth
    assert abs(ttest_1samp(values(fits, "calibration_error_"), 0).statistic) < 3
    # The standard error is that of a single estimate; a little too large, and never too small.
    spread = bound.std(ddof=1)
    assert 0.8 * spread < values(fits, "standard_error_").mean() < 1.6 * spread


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["brier", "log"])
def test_nothing_is_found_where_nothing_is(loss):
    """The debiased term lies between 0 and the induced term; the bound is not above 0."""
    fits, truth = simulate(40, 4000, heterogeneity=0.0, loss=loss)
    assert truth == 0
    explained, induced = values(fits, "explained_"), values(fits, "induced_")
    assert ttest_1samp(explained, 0).statistic > -2
    assert ttest_1samp(explained - induced, 0).statistic < 2
    assert ttest_1samp(values(fits, "grouping_loss_"), 0).statistic < 2
    assert values(fits, "plugin_").mean() > 3 * abs(explained.mean())


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
def test_links(link):
    """n = 20,000, ratio 30: LB/GL .92, .90, .97, .94, .96, .97 (standard errors .01 to .03)."""
    fits, truth = simulate(15, 20_000, link=link, region_ratio=30)
    assert 0.85 < values(fits, "grouping_loss_").mean() / truth < 1.05


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("loss", ["brier", "log"])
def test_second_bound_stays_below_the_truth(link, loss):
    """n = 5000: never 2 standard errors above; most of the Brier grouping loss is found."""
    fits, truth = simulate(8, 5000, link=link, loss=loss, method="risk")
    bound = values(fits, "grouping_loss_")
    assert ttest_1samp(bound, truth).statistic < 2
    assert bound.mean() > 0.5 * truth


@pytest.mark.slow
def test_recalibration_takes_the_calibration_error_and_leaves_the_grouping_loss():
    """Isotonic, fitted on other data: only what is injective about it is without any effect."""
    before, after = [], []
    for seed in range(12):
        problem = make_grouping_problem(20_000, random_state=seed)
        forecast = bent(problem.y_proba)[:, 1]
        fit, use = slice(0, 10_000), slice(10_000, None)
        isotonic = IsotonicRegression(out_of_bounds="clip").fit(forecast[fit], problem.y[fit])
        for estimates, p in ((before, forecast[use]), (after, isotonic.predict(forecast[use]))):
            options = {"method": "partition", "n_permutations": 0, "random_state": seed}
            estimator = GroupingLossEstimator(**options).fit(
                problem.X[use], problem.y[use], y_proba=p
            )
            # The proper error, which has no bins to hide in, says the same.
            proper = proper_calibration_error(problem.y[use], p)
            estimates.append((estimator.grouping_loss_, estimator.calibration_error_, proper))
    before, after = np.array(before), np.array(after)
    assert abs(ttest_1samp(after[:, 0] - before[:, 0], 0).statistic) < 3
    assert abs(after[:, 0].mean() - before[:, 0].mean()) < 0.15 * problem.truth["grouping_brier"]
    for column in (1, 2):
        assert before[:, column].mean() > 0.004
        assert after[:, column].mean() < 0.1 * before[:, column].mean()


def test_an_injective_map_changes_nothing_at_all():
    """L23 lemma C.5, sample by sample: level sets, halves and regions are the same."""
    plain, truth = simulate(2, 3000)
    mapped, _ = simulate(2, 3000, forecast=bent)
    np.testing.assert_allclose(values(mapped, "explained_"), values(plain, "explained_"), rtol=1e-9)
    np.testing.assert_allclose(
        values(mapped, "grouping_loss_"), values(plain, "grouping_loss_"), atol=0.05 * truth
    )
    assert values(mapped, "calibration_error_").min() > 0.002


def pvalues_are_not_too_small(pvalues):
    return kstest(pvalues, "uniform", alternative="greater").pvalue > 0.01


@pytest.mark.filterwarnings("ignore:The regions hold")
@pytest.mark.parametrize("method", ["partition", pytest.param("risk", marks=pytest.mark.slow)])
def test_pvalues_of_small_samples(method):
    fits, _ = simulate(25, 400, heterogeneity=0.0, method=method, n_permutations=59)
    assert pvalues_are_not_too_small(values(fits, "pvalue_"))
    # scaled by the other folds: the best scale of all folds was 3 standard errors above 0
    assert ttest_1samp(values(fits, "grouping_loss_"), 0).statistic < 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The regions hold")
@pytest.mark.parametrize("forecast", [as_they_are, bent, wavy])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"method": "risk"}, {"swap": True}, {"n_bins": 3}],
    ids=["partition", "risk", "swap", "three wide bins"],
)
def test_pvalues_are_uniform_or_conservative(parameters, forecast):
    """n = 600: 2 to 5 % at most .05, less for "risk" and for both halves together.

    120 data sets, of the slow "risk" 60: standard errors of .05 are .020 and .028.
    """
    n_draws = 60 if parameters.get("method") == "risk" else 120
    fits, _ = simulate(
        n_draws, 600, heterogeneity=0.0, forecast=forecast, n_permutations=99, **parameters
    )
    pvalues = values(fits, "pvalue_")
    assert pvalues_are_not_too_small(pvalues)
    assert np.mean(pvalues <= 0.05) < 0.1
    if not parameters:  # and not so conservative that nothing would ever be found
        assert np.mean(pvalues < 0.5) > 0.35


@pytest.mark.parametrize(
    ("method", "n_sets"),
    [
        ("partition", 2),
        *(pytest.param(m, 10, marks=pytest.mark.slow) for m in ("partition", "risk")),
    ],
)
def test_power(method, n_sets):
    fits, _ = simulate(n_sets, 2000, link="step", method=method, n_permutations=99)
    assert np.mean(values(fits, "pvalue_") <= 0.02) > 0.9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The regions hold")
@pytest.mark.parametrize("link", ["sigmoid", "step"])
@pytest.mark.parametrize("parameters", [{}, {"swap": True}, {"method": "risk"}], ids=repr)
def test_level_of_the_lower_end(link, parameters):
    """n = 1000: the lower end of a 95 % interval is above the truth in none of 60 draws.

    The bounds are .33 to .71 of the truth here. The window is that of an honest one-sided end:
    .025, whose standard error is .020.
    """
    fits, truth = simulate(60, 1000, link=link, **parameters)
    low = np.array([fit.confidence_interval_[0] for fit in fits])
    assert np.mean(low > truth) <= 0.04


def bias_of_the_entropy(p, n):
    """Expected -H of a frequency of n labels minus -H(p): plug-in and corrected, exactly.

    All n + 1 counts are tried and weighted with their binomial chances: no simulation.
    """
    score, expected = LogLoss(), np.zeros(2)
    for hits, chance in enumerate(binom.pmf(np.arange(n + 1), n, p)):
        labels = pairs((np.arange(n) < hits).astype(float))
        cell = Cells(np.zeros(n, dtype=int), np.ones(n))
        plugin = -score.entropy(np.array([1 - hits / n, hits / n]))
        bias = cell.jackknife_bias(lambda mean: -score.entropy(mean), labels)
        expected += chance * np.array([plugin, plugin - bias])
    return expected + score.entropy(np.array([1 - p, p]))


@pytest.mark.parametrize(("p", "start", "left"), [(0.5, 12, 0.27), (0.3, 24, 0.36), (0.1, 96, 1.1)])
def test_correction_of_the_log_loss_is_of_second_order(p, start, left):
    """The plug-in is too large by 1/(2n), the corrected one too small by `left` / n^2.

    Found for n doubled from `start`: n * plug-in bias .52 to .50; n^2 * what is left -.39, -.30,
    -.27 (p = .5), -.44, -.36, -.33 (p = .3), -1.1, -.94, -.89 (p = .1). So 6 % of the bias is left
    in regions of 12 with even odds, and 2.4 % in regions of 24.
    """
    plugin, corrected = np.array([bias_of_the_entropy(p, n) for n in (start, 2 * start)]).T
    n = np.array([start, 2 * start])
    np.testing.assert_allclose(n * plugin, 0.5, atol=0.03)
    assert 1.9 < plugin[0] / plugin[1] < 2.15  # as 1 / n
    assert 3.6 < corrected[0] / corrected[1] < 6.5  # as 1 / n^2, from above
    assert (corrected < 0).all()  # conservative: too little is explained
    assert -1.6 * left < n[1] ** 2 * corrected[1] < -0.8 * left


@pytest.mark.slow
def test_explained_brier_is_unbiased_given_the_regions():
    """Prop. 4.3 through the estimator: given regions, one level set, 500 draws.

    Regions are drawn too: with fixed sizes the mean of the level set would vary less.
    """
    rng, estimates = np.random.default_rng(0), []
    p = np.array([0.2, 0.4, 0.5, 0.8])
    for _ in range(500):
        regions = rng.integers(0, 4, 60)
        y = (rng.random(60) < p[regions]).astype(int)
        estimator = GroupingLossEstimator(
            method="partition", n_bins=1, n_permutations=0, random_state=0, labels=[0, 1]
        )
        estimator.fit(regions[:, None], y, y_proba=np.full(60, 0.5), regions=regions)
        estimates.append((estimator.explained_, estimator.calibration_error_))
    explained, calibration = np.array(estimates).T
    assert abs(ttest_1samp(explained, np.var(p)).statistic) < 4
    assert abs(ttest_1samp(calibration, (p.mean() - 0.5) ** 2).statistic) < 4


def smooth_world(n_samples, seed, n_features=10):
    """Heterogeneity along a direction in which all features have a part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    sign = np.where(np.arange(n_features) % 2, 1, -1)
    score = expit(1.5 * X.sum(axis=1) / np.sqrt(n_features))
    shift = 2 * expit(2 * X @ sign / np.sqrt(n_features)) - 1
    posterior = score + shift * np.minimum(score, 1 - score)
    return X, (rng.random(n_samples) < posterior).astype(int), score, posterior


@pytest.mark.slow
def test_second_bound_gains_where_heterogeneity_is_smooth_in_many_features():
    """n = 5000, ten features: .70 of the truth, the partition bound .21 (standard errors .02)."""
    _, _, score, posterior = smooth_world(500_000, 99)
    truth = np.mean((score - posterior) ** 2)
    bounds_by_method = {"partition": [], "risk": []}
    for seed in range(8):
        X, y, score, _ = smooth_world(5000, seed)
        for method, bounds in bounds_by_method.items():
            estimator = GroupingLossEstimator(method=method, n_permutations=0, random_state=seed)
            bounds.append(estimator.fit(X, y, y_proba=score).grouping_loss_)
    assert np.mean(bounds_by_method["risk"]) > 1.5 * np.mean(bounds_by_method["partition"])
    assert np.mean(bounds_by_method["partition"]) > 0
    for bounds in bounds_by_method.values():
        assert ttest_1samp(bounds, truth).statistic < 2
