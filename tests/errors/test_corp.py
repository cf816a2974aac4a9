"""CORP: the decomposition by isotonic regression, its bands and its test."""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import pairs
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from scipy.stats import chi2, t
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss

from skcalib import ReliabilityDisplay, corp_decomposition
from skcalib.data.notions import TopK
from skcalib.datasets import make_tempered_simplex
from skcalib.errors import corp_bands, corp_test
from skcalib.scores import SCORES, LogLoss, expected_divergence
from skcalib.significance import consistency_test
from skcalib.smoothers import IsotonicSmoother

LOSSES = ["brier", "log", "spherical"]
NAMES = ("score", "miscalibration", "discrimination", "uncertainty")


@pytest.fixture
def binary():
    """Over-confident; rounded, so that there are ties; both classes."""
    sample = make_tempered_simplex(300, 2, random_state=0)
    p = sample.y_proba[:, 1].round(2).clip(0.01, 0.99)
    assert len(np.unique(p)) < 150 and set(sample.y) == {0, 1}
    return sample.y, p


def terms_of(decomposition):
    return np.array([getattr(decomposition, name) for name in NAMES])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["brier", "log"])
def test_terms_by_hand(binary, loss, weighted):
    y, p = binary
    weight = np.random.default_rng(0).integers(1, 5, len(y)) * 1.0 if weighted else np.ones(len(y))
    decomposition = corp_decomposition(y, p, loss=loss, sample_weight=weight)
    isotonic = IsotonicRegression().fit(p, y, weight)
    metric = brier_score_loss if loss == "brier" else log_loss
    forecasts = p, isotonic.predict(p), np.full(len(y), np.average(y, weights=weight))
    score, best, chance = (metric(y, q, sample_weight=weight) for q in forecasts)
    assert_allclose(
        terms_of(decomposition), [score, score - best, chance - best, chance], rtol=1e-12
    )
    (curve,) = decomposition.curves
    assert_array_equal(curve.forecast, np.unique(p))
    assert_allclose(curve.recalibrated, isotonic.predict(curve.forecast), atol=1e-14)
    steps = np.diff(curve.recalibrated) > 1e-12
    assert_array_equal(curve.block, np.append(0, np.cumsum(steps)))
    assert_allclose(curve.weight, [weight[p == s].sum() / weight.sum() for s in curve.forecast])
    assert curve.event == "class 1"


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_points_of_the_tower(binary, loss):
    """DSC = D(C, ybar), MCB >= D(C, S), C from `IsotonicSmoother`; nothing is left after it."""
    y, p = binary
    score = SCORES[loss]()
    curve = IsotonicSmoother().fit(pairs(p), pairs(y * 1.0)).smooth()
    decomposition = corp_decomposition(y, p, loss=loss)
    mean = np.broadcast_to(pairs(y * 1.0).mean(axis=0), curve.shape)
    assert_allclose(
        decomposition.discrimination, expected_divergence(score, curve, mean), rtol=1e-10
    )
    assert decomposition.miscalibration > expected_divergence(score, curve, pairs(p))
    assert_allclose(decomposition.uncertainty, score.entropy(mean[:1])[0])
    again = corp_decomposition(y, curve[:, 1], loss=loss)
    assert 0 <= again.miscalibration < 1e-15
    assert_allclose(again.discrimination, decomposition.discrimination, rtol=1e-12)
    assert_array_equal(again.curves[0].block, np.arange(len(again.curves[0].block)))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("map_", [np.sqrt, np.square, lambda p: expit(3 * logit(p) - 1)])
def test_increasing_maps_leave_discrimination(binary, loss, map_):
    y, p = binary
    before, after = (corp_decomposition(y, q, loss=loss) for q in (p, map_(p)))
    assert after.discrimination == before.discrimination
    assert after.uncertainty == before.uncertainty
    assert after.miscalibration != before.miscalibration
    assert_array_equal(after.curves[0].recalibrated, before.curves[0].recalibrated)


def test_pos_label_turns_the_curve_and_no_term(binary, multiclass):
    y, p = binary
    names = np.array(["no", "yes"])[y]
    yes = corp_decomposition(names, p)
    no = corp_decomposition(names, 1 - p, pos_label="no")
    assert_allclose(terms_of(no), terms_of(yes), rtol=1e-12)
    assert (yes.curves[0].event, no.curves[0].event) == ("class yes", "class no")
    assert_allclose(no.curves[0].recalibrated, 1 - yes.curves[0].recalibrated[::-1], atol=1e-12)
    table = corp_decomposition(names, pairs(p), pos_label="no").curves[0]
    assert_allclose(table.forecast, no.curves[0].forecast)
    assert table.event == "class no"
    assert corp_decomposition(*multiclass, notion=TopK(1)).curves[0].event == ""


def test_infinite_log_loss_is_miscalibration():
    """A forecast of 0 for what happened: score and MCB infinite, the rest finite."""
    y, p = np.array([1, 0, 0, 1, 1]), np.array([0.0, 0.0, 0.3, 0.6, 1.0])
    decomposition = corp_decomposition(y, p, loss="log")
    assert decomposition.score == decomposition.miscalibration == np.inf
    mended = corp_decomposition(y, p.clip(0.01, 0.99), loss="log")
    assert decomposition.discrimination == mended.discrimination > 0
    assert (
        decomposition.uncertainty == mended.uncertainty == LogLoss().entropy(np.array([0.4, 0.6]))
    )
    test = corp_test(y, p, loss="log", n_resamples=19, random_state=0)
    assert test.statistic == test.estimate == np.inf and test.pvalue == 0


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_one_sample(p):
    classes = {"labels": [0, 1]}
    classes_of_draws = {"n_resamples": 39, "random_state": 0, **classes}
    (band,) = corp_bands([1], [p], **classes_of_draws)
    assert 0 <= band.low[0] <= band.high[0] <= 1
    if p in (0, 1):
        assert band.low[0] == band.high[0] == p  # only this label can be drawn
    (around,) = corp_bands([1], [p], band="confidence", **classes)
    assert 0 < around.low[0] < 0.2 and around.high[0] == 1
    test = corp_test([1], [p], **classes_of_draws)
    assert test.pvalue == 0 if p == 0 else 0 < test.pvalue <= 1


@pytest.mark.parametrize("band", ["consistency", "confidence"])
@pytest.mark.parametrize("notion", ["classwise", "top_label"])
def test_bands_are_those_of_the_display(multiclass, band, notion):
    """Their ends increase and stay in the unit interval."""
    y, proba = multiclass
    bands = corp_bands(y, proba, band=band, notion=notion, random_state=0)
    events = {"classwise": ["class 0", "class 1", "class 2"], "top_label": ["top label"]}
    assert [band_of_event.event for band_of_event in bands] == events[notion]
    display = ReliabilityDisplay.from_predictions(y, proba, band=band, notion=notion)
    plt.close(display.figure_)
    names = {"event": "event", "forecast": "prob_pred", "recalibrated": "prob_true"}
    for band_of_event, curve in zip(bands, display.curves, strict=True):
        for name, shown in {**names, "low": "low", "high": "high"}.items():
            assert_array_equal(getattr(band_of_event, name), getattr(curve, shown))
        for end in (band_of_event.low, band_of_event.high):
            assert np.all(np.diff(end) > -1e-9) and np.all((end >= 0) & (end <= 1))
        assert np.all(band_of_event.low <= band_of_event.high)
        if band == "confidence":
            assert np.all(
                (band_of_event.low <= band_of_event.recalibrated)
                & (band_of_event.recalibrated <= band_of_event.high)
            )


def test_jobs_and_chunks_do_not_change_the_draws(binary, set_sizes):
    y, proba = binary
    expected = corp_bands(y, proba, random_state=0)[0].low
    set_sizes(drawn_entries=60 * len(y))
    with parallel_config("threading"):
        assert_array_equal(corp_bands(y, proba, random_state=0, n_jobs=2)[0].low, expected)


#: Calibrated forecasts; the labels are drawn from them.
CALIBRATED = {
    "binary": lambda rng, n: pairs(rng.beta(0.7, 0.7, n)),
    "ties": lambda rng, n: pairs(rng.integers(0, 11, n) / 10),
    "top label": lambda rng, n: rng.dirichlet(np.full(5, 0.5), n),
    "weights": lambda rng, n: pairs(rng.beta(0.7, 0.7, n)),
}


def draw(world, rng, n):
    """Labels, forecasts and options of a calibrated world."""
    p = CALIBRATED[world](rng, n)
    y = (p.cumsum(axis=1)[:, :-1] < rng.random((n, 1))).sum(axis=1)
    options = {"notion": "top_label" if world == "top label" else "canonical"}
    if world == "weights":
        options["sample_weight"] = rng.exponential(size=n)
    return y, p, options | {"labels": np.arange(p.shape[1])}


def share_inside(draw, repetitions, truth=None, **options):
    """How often a band holds the curve (or the truth), at quantiles of the forecasts."""
    rng, inside = np.random.default_rng(0), []
    for seed in range(repetitions):
        y, p, options_of_draw = draw(rng, 100)
        (band,) = corp_bands(y, p, random_state=seed, **options_of_draw, **options)
        score = p.max(axis=1) if p.shape[1] > 2 else p[:, 1]
        levels = np.quantile(score, [0.05, 0.25, 0.5, 0.75, 0.95])
        at = np.searchsorted(band.forecast, levels).clip(0, len(band.forecast) - 1)
        held = band.recalibrated if truth is None else truth(band.forecast)
        inside.append(((band.low <= held) & (held <= band.high))[at])
    return np.mean(inside, axis=0)


def test_bands_of_equal_forecasts_are_binomial_quantiles():
    """20 fair coins: P(mean <= .3) is .058, P(mean <= .25) is .021; standard error .004."""
    y = np.arange(20) % 3 == 0
    (band,) = corp_bands(y, np.full(20, 0.5), confidence_level=0.92, n_resamples=1999)
    assert (band.low, band.high) == (pytest.approx([0.3]), pytest.approx([0.7]))
    corp_bands(y, np.full(20, 0.5), confidence_level=0.9, n_resamples=19)
    with pytest.raises(ValueError, match=r"at least 19 for a band of level 0\.9, got 18"):
        corp_bands(y, np.full(20, 0.5), confidence_level=0.9, n_resamples=18)


@pytest.mark.parametrize("clustered", [True, False])
def test_confidence_limits_are_those_of_the_likelihood_ratio(clustered):
    """The best increasing curve through a limit is less likely by half the chi-squared quantile.

    For clusters labels count less where many of a block are together, and the quantile is the
    square of Student's.
    """
    rng = np.random.default_rng(0)
    p, cluster = rng.integers(1, 10, 80) / 10, np.arange(80) // 4
    y, weight = rng.random(80)[4 * cluster] < p, rng.uniform(0.5, 2, 80)
    groups = cluster if clustered else None
    options = {"sample_weight": weight, "confidence_level": 0.9, "band": "confidence"}
    (band,) = corp_bands(y, p, groups=groups, **options)
    count, quantile = weight * weight.sum() / np.sum(weight**2), chi2.ppf(0.9, 1)
    if clustered:
        level = IsotonicRegression().fit(p, y, weight).predict(p)
        same = cluster[:, None] == cluster
        pairs_of = weight[:, None] * weight * (same & ~np.eye(80, dtype=bool))
        units, spread = weight.sum() ** 2 / (weight @ same @ weight), np.sqrt(level * (1 - level))
        rho = (y - level) @ pairs_of @ (y - level) / (spread @ pairs_of @ spread)
        rho = np.clip(rho * units / (units - 1), 0, 1)
        assert rho > 0.1
        block = np.abs(level[:, None] - level) < 1e-12
        together = [w @ same[np.ix_(b, b)] @ w / (w @ w) for b in block for w in [weight[b]]]
        count, quantile = count / (1 + rho * (np.array(together) - 1)), t.ppf(0.95, units - 1) ** 2

    def fit(part):
        return IsotonicRegression().fit(p[part], y[part], count[part]).predict(p[part])

    def cost(curve):
        return log_loss(y, curve, sample_weight=count, normalize=False)

    best, inside = cost(fit(p > 0).clip(1e-15, 1 - 1e-15)), 0
    for at, *ends in zip(band.forecast, band.low, band.high, strict=True):
        for height in ends:
            curve = np.full(80, height)
            for part, limits in ((p < at, (0, height)), (p > at, (height, 1))):
                if part.any():
                    curve[part] = fit(part).clip(*limits)
            if 1e-6 < height < 1 - 1e-6:
                excess = cost(curve.clip(1e-15, 1 - 1e-15)) - best
                assert excess == pytest.approx(quantile / 2, rel=1e-5)
                inside += 1
    assert inside > 12


def test_the_pvalue_is_the_share_of_all_labels():
    """Of 32 sets of labels, by their probability: within four standard errors of 1,999 draws."""
    p, y = np.array([0.1, 0.3, 0.35, 0.6, 0.8]), np.array([0, 1, 1, 0, 1])
    labels = np.array([*np.ndindex(*[2] * 5)])
    share = np.where(labels > 0, p, 1 - p).prod(axis=1)
    errors = [corp_decomposition(row, p, labels=[0, 1]).miscalibration for row in labels]
    test = corp_test(y, p, n_resamples=1999, random_state=0)
    exact = share[np.array(errors) >= test.statistic - 1e-12].sum()
    assert abs(test.pvalue - exact) < 4 * np.sqrt(exact * (1 - exact) / 2000)
    spread = np.sqrt(share @ np.square(errors) - (share @ errors) ** 2)
    assert abs(test.statistic - test.estimate - share @ errors) < 4 * spread / np.sqrt(1999)


@pytest.mark.slow
@pytest.mark.parametrize("world", CALIBRATED)
def test_consistency_bands_hold_their_level(world):
    """200 calibrated data sets: .9 or more at each of five forecasts (standard error .021)."""
    options = {"confidence_level": 0.9, "n_resamples": 39}
    share = share_inside(partial(draw, world), 200, **options)
    assert np.all(share > 0.9 - 4 * np.sqrt(0.9 * 0.1 / 200))
    assert share[1:-1].mean() < 0.96  # and not by being useless: steps of the curve make ties


@pytest.mark.slow
def test_confidence_bands_cover_a_smooth_increasing_truth():
    """95 % or more where the truth increases, standard error .022 at the level."""

    def truth(p):
        return expit(0.6 * logit(p))

    def overconfident(rng, n):
        p = rng.random(n)
        return (rng.random(n) < truth(p)).astype(int), pairs(p), {"notion": "canonical"}

    share = share_inside(overconfident, 100, truth=truth, band="confidence")
    assert np.all(share > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 100))


def test_it_is_the_consistency_test_of_the_miscalibration(multiclass):
    """The same seeds draw the same labels, here and there."""

    def metric(y, proba, labels):
        return corp_decomposition(y, proba, notion="classwise", labels=labels).miscalibration

    y, proba = multiclass
    options = {"n_resamples": 19, "random_state": 0}
    slow = consistency_test(y, proba, metric=metric, resample_forecasts=False, **options)
    fast = corp_test(y, proba, notion="classwise", **options)
    assert fast.pvalue == slow.pvalue
    assert_allclose(fast.statistic, slow.statistic, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["binary", "ties", "top label"])
def test_the_test_is_exact_and_the_excess_centred(world):
    """p is uniform, and the excess of MCB zero on average, within 4 errors of 120 data sets."""
    rng, tests = np.random.default_rng(0), []
    for seed in range(120):
        y, p, options_of_draw = draw(world, rng, 60)
        tests.append(corp_test(y, p, n_resamples=19, random_state=seed, **options_of_draw))
    pvalues, excess = np.array([(test.pvalue, test.estimate) for test in tests]).T
    for level in (0.05, 0.1, 0.25, 0.5):
        rejected = np.mean(pvalues <= level + 1e-12)
        assert abs(rejected - level) < 4 * np.sqrt(level * (1 - level) / 120), level
    assert abs(np.mean(excess)) < 4 * np.std(excess) / np.sqrt(120)


def test_blocks_do_not_split_by_rounding():
    """Five copies of a pattern whose level is 1/3, with weights whose sums round."""
    y, p = np.tile([1, 0, 0], 5), np.linspace(0.1, 0.8, 15)
    for weight in (0.1, 1 / 3, 1e30, 7e-5):
        (curve,) = corp_decomposition(y, p, sample_weight=np.full(15, weight)).curves
        assert_array_equal(curve.block, np.zeros(15))
        assert len(set(curve.recalibrated.tolist())) == 1
