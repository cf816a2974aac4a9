"""The grouping loss: golden values, worlds small enough to compute by hand, and the estimator."""

import json
import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import norm
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, TimeSeriesSplit
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_consistent_length

from skcalib import GroupingLossEstimator, proper_calibration_error
from skcalib.datasets import make_grouping_problem
from skcalib.datasets.grouping import LINKS
from skcalib.grouping import estimator as estimator_module
from skcalib.grouping.partition import (
    Cells,
    level_sets,
    partition_terms,
)
from skcalib.inference import clopper_pearson
from skcalib.notions import ClassGroups, Classwise, Notion, TopK
from skcalib.scores import Brier, ClasswiseLogLoss, LogLoss, Spherical
from skcalib.smoothers import LevelSets, LogitSmoother

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
needs_golden = pytest.mark.skipif(
    not (GOLDEN / "gl_sim_n2000.npz").exists(), reason=f"the golden values are not at {GOLDEN}"
)


def pairs(p):
    p = np.asarray(p, dtype=float)
    return np.column_stack([1 - p, p])


def fast(**parameters):
    """An estimator without the permutation test."""
    return GroupingLossEstimator(**{"n_permutations": 0, "random_state": 0, **parameters})


# --- the terms ------------------------------------------------------------------------------------


def terms_by_loops(bins, regions, y):
    """L23 prop. 4.3 as it is printed, for binary labels: plug-in and bias of the explained term."""
    n, plugin, bias = len(y), 0.0, 0.0
    for s in sorted(set(bins)):
        of_bin = [i for i in range(n) if bins[i] == s]
        n_s = len(of_bin)
        c = sum(y[i] for i in of_bin) / n_s
        for j in sorted({regions[i] for i in of_bin}):
            of_region = [i for i in of_bin if regions[i] == j]
            n_j = len(of_region)
            mu = sum(y[i] for i in of_region) / n_j
            plugin += n_s / n * n_j / n_s * (mu - c) ** 2
            if n_j > 1:
                bias += n_s / n * n_j / n_s * mu * (1 - mu) / (n_j - 1)
        bias -= n_s / n * c * (1 - c) / (n_s - 1)
    return plugin, bias


@pytest.fixture(scope="module")
def golden():
    rows = json.loads((GOLDEN / "golden.json").read_text(encoding="utf-8"))
    values = {row["quantity"]: row["value"] for row in rows if row["input"] == "gl_sim_n2000"}
    data = np.load(GOLDEN / "gl_sim_n2000.npz")
    return data, values


@needs_golden
def test_golden_rows(golden):
    data, values = golden
    assert len(values) == 4
    test = data["is_test"]
    bins, regions = data["bin"][test], 1000 * data["bin"][test] + data["region"][test]
    score, target = pairs(data["score"]), pairs(data["y"])
    parts = (bins, regions, score[test], target[test], score[test], np.ones(test.sum()))
    terms = partition_terms(Brier(), *parts)
    assert terms.plugin == pytest.approx(values["GL_plugin"], abs=1e-10)
    assert terms.bias == pytest.approx(values["GL_bias"], abs=1e-10)
    assert terms.explained == pytest.approx(values["GL_explained_debiased"], abs=1e-10)
    # The induced row is over both halves; the scores are calibrated, so they are the curve.
    whole = partition_terms(
        Brier(), data["bin"], data["bin"], score, target, score, np.ones(len(test))
    )
    assert whole.induced == pytest.approx(values["GL_induced_oracleC"], abs=1e-10)


@needs_golden
def test_golden_level_sets(golden):
    data, _ = golden
    np.testing.assert_array_equal(level_sets(pairs(data["score"]), 10, "uniform"), data["bin"])


@needs_golden
def test_golden_regions_through_the_estimator(golden):
    """Given regions of the measured half: plug-in and bias, with the curve of the scores' own."""
    data, values = golden
    test = data["is_test"]
    estimator = fast(n_bins=10, strategy="uniform").fit(
        data["X"][test],
        data["y"][test],
        y_proba=data["score"][test],
        regions=data["region"][test],
    )
    assert estimator.plugin_ == pytest.approx(values["GL_plugin"], abs=1e-10)
    assert estimator.bias_ == pytest.approx(values["GL_bias"], abs=1e-10)


def random_cells(seed, n_classes=2, n_samples=200):
    rng = np.random.default_rng(seed)
    bins = np.sort(rng.integers(0, 3, n_samples))
    regions = 4 * bins + rng.integers(0, 4, n_samples)
    mean = rng.dirichlet(np.ones(n_classes), 12)[regions]
    y = (mean.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    forecast = rng.dirichlet(np.ones(n_classes), n_samples)
    assert np.bincount(regions).min() > 1 and len(set(y)) == n_classes
    return bins, regions, forecast, np.eye(n_classes)[y]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_brier_jackknife_is_the_exact_correction(n_classes):
    """The jackknife and prop. 4.3 are the same number."""
    bins, regions, forecast, target = random_cells(0, n_classes)
    terms = partition_terms(Brier(), bins, regions, forecast, target, forecast, np.ones(len(bins)))
    # Each class is a binary problem; two classes are one, or twice a half.
    loops = [terms_by_loops(bins, regions, column) for column in target.T]
    scale = 0.5 if n_classes == 2 else 1.0
    assert terms.plugin == pytest.approx(scale * sum(a for a, _ in loops), abs=1e-14)
    assert terms.bias == pytest.approx(scale * sum(b for _, b in loops), abs=1e-14)


def test_weighted_correction_is_exact_in_expectation():
    """All 2^6 labels of one cell with fixed weights: the mean squared frequency, corrected."""
    weight = np.array([0.2, 0.5, 1, 2, 3, 0.7])
    labels = np.indices((2,) * 6).reshape(6, -1).T
    for q in (0.1, 0.4, 0.5):
        chance = np.prod(np.where(labels == 1, q, 1 - q), axis=1)
        cells = Cells(np.zeros(6, dtype=int), weight)
        corrected = [
            cells.mean(pairs(y))[0, 1] ** 2 - cells.jackknife_bias(lambda m: m[:, 1] ** 2, pairs(y))
            for y in labels
        ]
        assert chance @ corrected == pytest.approx(q**2, abs=1e-14)


def test_two_pure_regions_explain_all_of_the_log_loss():
    """The plug-in is ln 2 and never NaN; the correction is that of a coin with n tosses."""
    for n in (4, 10, 100):
        y, bins = np.repeat([0, 1], n // 2), np.zeros(n, dtype=int)
        half = np.full(n, 0.5)
        with np.errstate(all="raise"):
            terms = partition_terms(
                LogLoss(), bins, y, pairs(half), pairs(y), pairs(half), np.ones(n)
            )
        assert terms.plugin == pytest.approx(np.log(2), abs=1e-15)
        assert terms.induced == 0
        assert np.isfinite(terms.bias) and np.isfinite(terms.variance)
        left = np.array([n // 2 - 1, n // 2]) / (n - 1)
        coin = (n - 1) * (np.log(2) + np.sum(left * np.log(left)))
        assert terms.bias == pytest.approx(-coin, rel=1e-9)


@pytest.mark.parametrize("loss", ["brier", "log", "spherical"])
@pytest.mark.parametrize("method", ["partition", "risk"])
def test_forecasts_of_exactly_zero(loss, method):
    """An infinite log loss is an answer; nothing is NaN, and no bound of what is left is lost."""
    data = make_grouping_problem(2000, random_state=0)
    p = np.where(data.y_proba[:, 1] < 0.2, 0.0, data.y_proba[:, 1])
    estimator = fast(loss=loss, method=method).fit(data.X, data.y, y_proba=p)
    infinite = loss == "log"
    assert np.isinf(estimator.expected_loss_) == infinite
    assert np.isinf(estimator.calibration_error_) == infinite
    assert np.isinf(estimator.calibration_error_corrected_) == infinite
    assert not np.isnan(estimator.calibration_induced_)
    if loss != "spherical" or method == "risk":
        assert np.isinf(estimator.epistemic_bound_) == infinite
    for name in ("grouping_loss_", "standard_error_", "irreducible_bound_"):
        assert np.isfinite(getattr(estimator, name)), name
    assert 0 < estimator.irreducible_bound_ < 0.5


# --- worlds that are computed by hand -------------------------------------------------------------


class World:
    """Three classes, two forecasts, two regions behind each; frequencies are exactly the posterior.

    Counts of each class in each cell are fixed, so that nothing is random.
    """

    forecast = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    counts = np.array([[[30, 8, 2], [18, 12, 10]], [[4, 16, 20], [12, 4, 24]]])

    def __init__(self):
        level, region, label = (a.ravel() for a in np.indices(self.counts.shape))
        each = self.counts.ravel()
        order = np.random.default_rng(0).permutation(each.sum())
        self.level, self.region, self.y = (
            np.repeat(a, each)[order] for a in (level, region, label)
        )
        self.X = np.column_stack([self.region, self.level]).astype(float)
        self.y_proba = self.forecast[self.level]

    def problems(self, notion):
        """(forecast (2, C), counts (2, 2, C)) of each problem of a notion."""
        if notion == "canonical":
            return [(self.forecast, self.counts)]
        if notion == "classwise":
            columns = [(self.forecast[:, k], self.counts[..., k]) for k in range(3)]
        else:
            top = self.forecast.argmax(axis=1)
            hits = np.stack([self.counts[b, :, top[b]] for b in (0, 1)])
            columns = [(self.forecast.max(axis=1), hits)]
        size = self.counts.sum(axis=2)
        found = [(pairs(p), np.stack([size - c, c], axis=-1)) for p, c in columns]
        # Class 1 has one forecast at both levels: one level set.
        merged = [(p[:1], c.sum(axis=0, keepdims=True)) for p, c in found]
        return [m if np.ptp(f[0][:, 1]) == 0 else f for f, m in zip(found, merged, strict=True)]


def exact_terms(score, forecast, counts):
    """Terms of the world, cell by cell: plug-in, bias, induced and calibration."""
    n = counts.sum()
    plugin = bias = induced = calibration = 0.0
    for s, of_level in zip(forecast, counts, strict=True):
        level = of_level.sum(axis=0)
        c = level / level.sum()
        for j in of_level:
            plugin += j.sum() / n * score.divergence(j / j.sum(), c)
            bias += leave_one_out(lambda q: -score.entropy(q), j) / n
        bias -= leave_one_out(lambda q: -score.entropy(q), level) / n
        calibration += level.sum() / n * score.divergence(c, s)
        calibration -= leave_one_out(lambda q, s=s: score.divergence(q, s), level) / n
        # The held-out curve of exact level sets: the frequencies of the others.
        for k, times in enumerate(level):
            others = (level - np.eye(len(level))[k]) / (level.sum() - 1)
            induced += times / n * score.divergence(others, c)
    return plugin, bias, induced, calibration


def leave_one_out(function, counts):
    size = counts.sum()
    total = 0.0
    for k, times in enumerate(counts):
        if times:
            others = (counts - np.eye(len(counts))[k]) / (size - 1)
            total += times * (function(others) - function(counts / size))
    return (size - 1) * total


@pytest.mark.parametrize("score", [Brier(), LogLoss(), Spherical()], ids=repr)
@pytest.mark.parametrize("notion", ["canonical", "classwise", "top_label"])
def test_discrete_world(notion, score):
    """Given regions: every number of every notion, computed cell by cell."""
    world = World()
    estimator = fast(loss=score, notion=notion, n_bins=2, smoother=LevelSets())
    estimator.fit(world.X, world.y, y_proba=world.y_proba, regions=world.region)
    problems = world.problems(notion)
    expected = np.mean([exact_terms(score, *problem) for problem in problems], axis=0)
    found = [
        getattr(estimator, name) for name in ("plugin_", "bias_", "induced_", "calibration_error_")
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)
    plugin, bias, induced, calibration = expected
    assert estimator.explained_ == pytest.approx(plugin - bias)
    assert estimator.grouping_loss_ == pytest.approx(plugin - bias - induced)
    loss = np.mean(
        [
            sum(
                counts[b, :, k].sum() * score.loss(np.eye(counts.shape[2])[k], forecast[b])
                for b in range(len(forecast))
                for k in range(counts.shape[2])
            )
            for forecast, counts in problems
        ]
    ) / len(world.y)
    assert estimator.expected_loss_ == pytest.approx(loss)
    if score.jointly_convex:
        assert estimator.epistemic_bound_ == pytest.approx(calibration + estimator.grouping_loss_)
        assert estimator.irreducible_bound_ == pytest.approx(loss - estimator.epistemic_bound_)


def test_classwise_log_loss_of_the_paper():
    """L23 eq. 78: sums over classes of p log p, of labels, regions and level sets, directly."""
    world = World()
    log_loss = -np.mean(np.log(world.y_proba[np.arange(len(world.y)), world.y]))
    options = dict(n_bins=2, smoother=LevelSets(), notion=Classwise(reduce="sum"))
    fitted = {
        score: fast(loss=score, **options).fit(
            world.X, world.y, y_proba=world.y_proba, regions=world.region
        )
        for score in (ClasswiseLogLoss(), LogLoss())
    }
    explained, calibration = 0.0, 0.0
    for k in range(3):
        event, forecast = world.y == k, world.y_proba[:, k]
        for level in np.unique(forecast):
            c = event[forecast == level].mean()
            own = c * np.log(c / level) - c + level
            calibration += np.mean(forecast == level) * own
            for region in np.unique(world.region):
                here = (forecast == level) & (np.asarray(world.region) == region)
                mu = event[here].mean()
                explained += np.mean(here) * (mu * np.log(mu / c) - mu + c)
    paper, ours = fitted[ClasswiseLogLoss()], fitted[LogLoss()]
    assert paper.plugin_ == pytest.approx(explained, rel=1e-10)
    # The debiased error is the plug-in one minus a jackknife bias of order 1 / n.
    assert paper.calibration_error_ == pytest.approx(calibration, abs=3 / len(world.y))
    assert paper.expected_loss_ == pytest.approx(log_loss, rel=1e-12)
    # One against rest has the terms of the rest too.
    assert ours.plugin_ > 1.2 * paper.plugin_ and ours.expected_loss_ > 1.2 * log_loss


def test_classwise_log_error_of_simulated_forecasts():
    """Through `proper_calibration_error`: the sum over classes of E D(C_k, S_k). With a label that
    depends on the event of interest only through its own forecast, C_k is known."""
    rng = np.random.default_rng(0)
    forecast = rng.dirichlet(np.ones(3), 20_000)
    posterior = 0.5 * forecast + 0.5 / 3  # of each class, a function of its own forecast
    y = (posterior.cumsum(axis=1) < rng.random((20_000, 1))).sum(axis=1)
    options = dict(loss=ClasswiseLogLoss(), notion=Classwise(reduce="sum"))
    found = proper_calibration_error(y, forecast, **options)
    terms = posterior * np.log(posterior / forecast) - posterior + forecast
    truth = terms.sum(axis=1)
    error = truth.std() / np.sqrt(len(truth))
    assert found == pytest.approx(truth.mean(), abs=4 * error + 0.03 * truth.mean())
    np.testing.assert_allclose(truth, LogLoss().divergence(posterior, forecast), rtol=1e-9)


# --- regions --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return make_grouping_problem(3000, random_state=0)


def test_records_by_hand(data):
    """Regions of the table, from the samples of given regions; a badly calibrated score."""
    regions = np.where(data.X[:, 0] > data.X[:, 1], "north", "south")
    score = np.sqrt(data.y_proba[:, 1])
    estimator = fast(n_bins=3, confidence_level=0.9).fit(
        data.X, data.y, y_proba=score, regions=regions
    )
    bins = level_sets(pairs(score), 3, "quantile")
    smoother = LogitSmoother().for_loss(Brier())
    curve = smoother.fit(pairs(score), pairs(data.y)).smooth_held_out()[:, 1]
    harms = [record.harm for record in estimator.regions_]
    assert len(harms) == 6 and harms == sorted(harms, reverse=True)
    noise = {}
    for record in estimator.regions_:
        name = record.rule.removeprefix("region ")
        level = bins == record.level_set
        here = level & (regions == name)
        outcome, size = data.y[here].mean(), here.sum()
        assert record.n_samples == size == record.effective_size and record.event == "class 1"
        assert record.share == pytest.approx(size / 3000)
        assert record.mean_score == pytest.approx(score[here].mean())
        assert record.mean_outcome == pytest.approx(outcome)
        expected = curve[here].mean() + data.y[level].mean() - curve[level].mean()
        assert record.expected == pytest.approx(expected)
        assert record.gap == pytest.approx(expected - outcome)
        interval = np.array(clopper_pearson(outcome, size, 0.9))
        np.testing.assert_allclose((record.low, record.high), interval)
        residual = data.y[here] - curve[here]
        noise[record.level_set, name] = size / level.sum(), residual.var() / (size - 1)
    for record in estimator.regions_:
        parts = [noise[record.level_set, name] for name in ("north", "south")]
        share, alone = noise[record.level_set, record.rule.removeprefix("region ")]
        variance = (1 - 2 * share) * alone + sum(part**2 * one for part, one in parts)
        assert record.harm == pytest.approx(record.share * (record.gap**2 - variance))
    most = estimator.regions_[0]
    south = most.rule == "region south"
    assert most.direction == ("too_high" if south else "too_low")


def test_noise_is_taken_off_the_harm():
    """Coin-tossed regions of a score that is wrong for everybody: harms with a mean of zero."""
    rng = np.random.default_rng(0)
    harms, gaps, quiet = [], [], []
    for seed in range(60):
        p = rng.random(300)
        y = (rng.random(300) < p**2).astype(int)
        regions = rng.integers(0, 3, 300)
        estimator = fast(n_bins=2, random_state=seed)
        table = estimator.fit(p[:, None], y, y_proba=p, regions=regions).regions_
        harms.append(sum(region.harm for region in table))
        gaps.append(sum(region.share * region.gap for region in table))
        quiet += [region.direction == "" for region in table]
    harms = np.array(harms)
    assert abs(harms.mean()) < 3 * harms.std() / np.sqrt(60)
    np.testing.assert_allclose(gaps, 0, atol=1e-9)  # level by level the regions balance
    assert np.mean(quiet) > 0.9  # intervals of 95 %


@pytest.mark.parametrize(
    "regions",
    [
        np.arange(3000) % 4,
        np.array(["a", "b", "c", "d"])[np.arange(3000) % 4],
        np.array([None, "b", 3, 4.5], dtype=object)[np.arange(3000) % 4],
        pd.Series(np.arange(3000) % 4).astype("category"),
        (np.arange(3000) % 4).tolist(),
    ],
    ids=["int", "str", "mixed", "categorical", "list"],
)
def test_regions_may_have_any_names(data, regions):
    expected = fast(n_bins=5).fit(data.X, data.y, y_proba=data.y_proba, regions=np.arange(3000) % 4)
    found = fast(n_bins=5).fit(data.X, data.y, y_proba=data.y_proba, regions=regions)
    assert found.grouping_loss_ == pytest.approx(expected.grouping_loss_, abs=1e-12)
    assert len(found.regions_) == 20


# --- partitioners ---------------------------------------------------------------------------------


def test_a_fitted_partitioner_is_used_as_it_is(data):
    north = DecisionTreeClassifier(max_leaf_nodes=2).fit(
        data.X @ [[1], [-1]], data.X[:, 0] > data.X[:, 1]
    )
    X = data.X @ [[1], [-1]]
    estimator = fast(partitioner=FrozenEstimator(north), n_bins=5)
    estimator.fit(X, data.y, y_proba=data.y_proba)
    given = fast(n_bins=5).fit(X, data.y, y_proba=data.y_proba, regions=X[:, 0] > 0)
    assert len(estimator.regions_) == len(given.regions_) == 10
    assert estimator.grouping_loss_ == pytest.approx(given.grouping_loss_, abs=0.004)


def test_small_regions_are_warned_about(data):
    with pytest.warns(UserWarning, match=r"single one.*larger region_ratio \(about 12\)") as record:
        fast(region_ratio=3).fit(data.X, data.y, y_proba=data.y_proba)
    assert record[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast().fit(data.X, data.y, y_proba=data.y_proba)


# --- features -------------------------------------------------------------------------------------


def test_missing_values_follow_the_tags(data):
    X = data.X.copy()
    X[::7, 0] = np.nan
    proba = {"y_proba": data.y_proba}
    tree = DecisionTreeClassifier(max_leaf_nodes=6, min_samples_leaf=10)
    for takes in (None, "stump", tree):
        estimator = fast(partitioner=takes)
        assert get_tags(estimator).input_tags.allow_nan
        assert np.isfinite(estimator.fit(X, data.y, **proba).grouping_loss_)
    for refuses in ("kmeans", KMeans(4, n_init=1), LinearRegression()):
        estimator = fast(partitioner=refuses)
        assert not get_tags(estimator).input_tags.allow_nan
        with pytest.raises(ValueError, match="contains NaN"):
            estimator.fit(X, data.y, **proba)
    assert np.isfinite(fast(method="risk").fit(X, data.y, **proba).grouping_loss_)
    with pytest.raises(ValueError, match="contains NaN"):
        fast(method="risk", partitioner=Ridge()).fit(X, data.y, **proba)
    # The classifier has a say too.
    for inner, allowed in ((LogisticRegression(), False), (HistGradientBoostingClassifier(), True)):
        assert get_tags(fast(estimator=inner)).input_tags.allow_nan == allowed
        assert not get_tags(fast(estimator=inner)).input_tags.sparse


# --- the estimator --------------------------------------------------------------------------------


def test_arguments_of_fit_do_not_stay_on_the_estimator(data):
    """Only parameters and fitted attributes are left, also after a fit that failed."""
    estimator = fast(region_ratio=6)
    parameters = set(estimator.get_params())
    assert set(vars(estimator)) == parameters
    with pytest.raises(ValueError, match="pass y_proba"):
        estimator.fit(data.X, data.y)
    assert set(vars(estimator)) == parameters
    estimator.fit(data.X, data.y, y_proba=data.y_proba, regions=np.arange(len(data.y)) % 2)
    fitted = set(vars(estimator)) - parameters
    assert fitted and all(name.endswith("_") and not name.startswith("_") for name in fitted)


def test_two_fits_at_once_do_not_mix_their_arguments(data, monkeypatch):
    """Two threads fit one object to different probabilities; they meet in the middle of `fit`."""
    estimator, other = fast(), np.sqrt(data.y_proba[:, 1])
    expected = [
        fast().fit(data.X, data.y, y_proba=proba).expected_loss_ for proba in (data.y_proba, other)
    ]
    meeting, found = threading.Barrier(2, timeout=60), {}

    def meet(*arrays):
        meeting.wait()
        check_consistent_length(*arrays)

    def remember(_, fits, notion):
        found[threading.get_ident()] = fits[0].mean_loss

    def fit(proba):
        estimator.fit(data.X, data.y, y_proba=proba)
        return found[threading.get_ident()]

    monkeypatch.setattr(estimator_module, "check_consistent_length", meet)
    monkeypatch.setattr(estimator_module, "collect", remember)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(fit, (data.y_proba, other))) == expected
    assert expected[0] != expected[1]


def test_classifiers_fitted_frozen_and_cross_validated():
    X, y = make_classification(1200, n_informative=6, flip_y=0.1, random_state=0)
    classifier = LogisticRegression().fit(X[:400], y[:400])
    X_new, y_new = X[400:], y[400:]
    held_out = fast(estimator=classifier).fit(X_new, y_new)
    frozen = clone(fast(estimator=FrozenEstimator(classifier))).fit(X_new, y_new)
    direct = fast().fit(X_new, y_new, y_proba=classifier.predict_proba(X_new))
    assert held_out.grouping_loss_ == frozen.grouping_loss_ == direct.grouping_loss_
    crossed = fast(estimator=classifier, cv=3).fit(X_new, y_new)
    assert crossed.grouping_loss_ != direct.grouping_loss_
    assert crossed.n_features_in_ == 20 and crossed.classes_.tolist() == [0, 1]
    groups = np.arange(len(y)) % 30
    grouped = fast(estimator=LogisticRegression(), cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert np.isfinite(grouped.grouping_loss_)
    later = fast(estimator=LogisticRegression(), cv=TimeSeriesSplit(3)).fit(X, y)
    assert sum(region.n_samples for region in later.regions_) == 450  # half of three quarters


def test_names_of_labels_and_features_are_told(data):
    names = np.array(["ill", "well"])
    frame = pd.DataFrame(data.X, columns=["age", "dose"])
    named = fast(estimator=LogisticRegression(), cv=3).fit(frame, pd.Series(names[data.y]))
    assert {region.event for region in named.regions_} == {"class well"}
    assert all("x0" not in r.rule and "x1" not in r.rule for r in named.regions_)
    assert any("age" in region.rule for region in named.regions_)


@pytest.mark.parametrize("parameters", [{}, {"method": "risk"}, {"swap": True}], ids=repr)
def test_zero_weights_remove_samples(data, parameters):
    """Bit by bit: bins, halves, trees, curve and permutations are those of the rows that count."""
    keep = np.arange(3000) % 4 > 0
    estimator = GroupingLossEstimator(n_permutations=20, random_state=0, **parameters)
    weighted = clone(estimator).fit(data.X, data.y, sample_weight=2.0 * keep, y_proba=data.y_proba)
    removed = clone(estimator).fit(data.X[keep], data.y[keep], y_proba=data.y_proba[keep])
    for name in ("grouping_loss_", "standard_error_", "calibration_error_", "pvalue_"):
        assert getattr(weighted, name) == pytest.approx(getattr(removed, name), rel=1e-9), name
    assert len(weighted.regions_) == len(removed.regions_)


def test_attributes_add_up(data):
    for parameters in ({}, {"loss": "log"}, {"notion": "classwise"}, {"swap": True}):
        e = fast(**parameters).fit(data.X, data.y, y_proba=data.y_proba)
        assert e.explained_ == pytest.approx(e.plugin_ - e.bias_)
        assert e.grouping_loss_ == pytest.approx(e.explained_ - e.induced_)
        assert e.epistemic_bound_ == pytest.approx(e.calibration_error_ + e.grouping_loss_)
        assert e.irreducible_bound_ == pytest.approx(e.expected_loss_ - e.epistemic_bound_)
        low, high = e.confidence_interval_
        assert type(low) is type(high) is float
        assert low + high == pytest.approx(2 * e.grouping_loss_)
        assert high - low == pytest.approx(2 * 1.959964 * e.standard_error_)
        wide = clone(e).set_params(confidence_level=0.99).fit(data.X, data.y, y_proba=data.y_proba)
        assert wide.confidence_interval_[0] < low and wide.grouping_loss_ == e.grouping_loss_
        assert np.isnan(e.pvalue_)
    risk = fast(method="risk").fit(data.X, data.y, y_proba=data.y_proba)
    assert np.isnan([risk.plugin_, risk.bias_, risk.explained_, risk.induced_]).all()
    assert risk.regions_ == [] and risk.n_regions_ == 0 and 0 <= risk.scale_ <= 3
    assert risk.irreducible_bound_ == pytest.approx(risk.expected_loss_ - risk.epistemic_bound_)


class Twice(Notion):
    """The whole problem, two times: a notion that the estimator has never heard of."""

    reduce = "sum"

    def problems(self, forecast, target):
        yield forecast, target
        yield forecast, target


def test_notions(data):
    """Two classes are one problem however they are looked at; every problem of a notion counts."""

    def bound(notion):
        e = fast(notion=notion, smoother="isotonic").fit(data.X, data.y, y_proba=data.y_proba)
        return e.explained_, e.regions_

    canonical, regions = bound("canonical")
    assert bound(TopK(2))[0] != canonical
    swapped, _ = bound(ClassGroups([[0]]))
    assert swapped == pytest.approx(canonical, rel=1e-9)
    assert bound(Classwise())[0] == pytest.approx(bound(Classwise("sum"))[0] / 2)
    total, twice = bound(Twice())
    assert len(twice) == pytest.approx(2 * len(regions), rel=0.1)
    assert total == pytest.approx(2 * canonical, rel=0.7) and total != canonical
    assert {region.event for region in twice} == {"column 1"}


@pytest.mark.parametrize(
    ("parameters", "fit", "words"),
    [
        ({}, {"y_proba": None}, "without an estimator needs the probabilities: pass y_proba"),
        ({"method": "exact"}, {}, "method must be 'partition' or 'risk'"),
        ({"strategy": "kmeans"}, {}, "strategy must be one of 'quantile', 'uniform'"),
        ({"test_size": 1.0}, {}, "test_size must lie between 0 and 1"),
        ({"test_size": "half"}, {}, "test_size must lie between 0 and 1"),
        ({"region_ratio": 1}, {}, "region_ratio must be a whole number of at least 2"),
        ({"n_permutations": -1}, {}, "n_permutations must be a whole number of at least 0"),
        ({"smoother": "spline"}, {}, "smoother"),
        ({"estimator": LogisticRegression().fit([[0, 0], [1, 1]], [0, 1])}, {}, "both given"),
        ({}, {"regions": np.zeros(7)}, r"regions must have shape \(3000,\), one region per sample"),
        ({"method": "risk"}, {"regions": np.zeros(3000)}, "method='risk' has no regions"),
        ({"method": "risk", "partitioner": "stump"}, {}, "With method='risk' the partitioner must"),
        ({"method": "risk", "partitioner": Ridge}, {}, "With method='risk' the partitioner must"),
    ],
)
def test_refusals(data, parameters, fit, words):
    with pytest.raises(ValueError, match=words):
        fast(**parameters).fit(data.X, data.y, **{"y_proba": data.y_proba, **fit})


def test_a_handful_of_samples():
    """Small data get fewer level sets, a warning, and numbers."""
    data = make_grouping_problem(40, random_state=0)
    assert np.isfinite(fast().fit(data.X, data.y, y_proba=data.y_proba).grouping_loss_)
    with pytest.warns(UserWarning, match="unreliable"):
        small = fast().fit(data.X[:8], data.y[:8], y_proba=data.y_proba[:8])
    assert np.isfinite(small.grouping_loss_)
    with pytest.raises(ValueError, match="Every region has a single sample"):
        fast().fit(data.X[:2], [0, 1], y_proba=data.y_proba[:2])


# --- the second bound -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        None,
        DecisionTreeRegressor(max_leaf_nodes=8),
        HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=4, learning_rate=0.1),
    ],
    ids=lambda p: repr(p)[:24],
)
@pytest.mark.parametrize("loss", ["brier", "log"])
def test_models_of_the_second_bound(loss, model):
    data = make_grouping_problem(4000, link="step", random_state=0)
    estimator = fast(method="risk", loss=loss, partitioner=model)
    estimator.fit(data.X, data.y, y_proba=data.y_proba)
    truth = data.truth[f"grouping_{loss}"]
    assert 0.5 * truth < estimator.grouping_loss_ < 1.15 * truth
    assert estimator.pvalue_ < 1e-6


def test_second_bound_of_many_classes():
    world = World()
    rows = np.tile(np.arange(len(world.y)), 20)
    for notion in ("canonical", "classwise", "top_label"):
        estimator = fast(method="risk", notion=notion, smoother=LevelSets())
        estimator.fit(world.X[rows], world.y[rows], y_proba=world.y_proba[rows])
        exact = np.mean([exact_terms(Brier(), *p)[0] for p in world.problems(notion)])
        if notion == "classwise":  # class 1 has one forecast for both levels, all four cells differ
            exact += (np.mean((np.array([0.2, 0.3, 0.4, 0.1]) - 0.25) ** 2) - 0.05**2) / 3
        assert estimator.grouping_loss_ == pytest.approx(exact, rel=0.1)


# --- what it stands on ----------------------------------------------------------------------------


@pytest.mark.parametrize("link", LINKS)
def test_links_are_odd_and_bounded_and_their_truth_is_right(link, within_standard_errors):
    t = np.linspace(-8, 8, 1601)
    psi = LINKS[link](t)
    np.testing.assert_allclose(psi, -psi[::-1], atol=1e-12)
    assert 0.9 < np.abs(psi).max() <= 1
    data = make_grouping_problem(100_000, link=link, random_state=0)
    for name, score in (("brier", Brier()), ("log", LogLoss())):
        draws = score.divergence(data.posterior, data.y_proba)
        within_standard_errors(draws, data.truth[f"grouping_{name}"])
    within_standard_errors(data.y - data.y_proba[:, 1], 0)
    assert data.posterior.min() >= 0 and data.posterior.max() <= 1


# --- calibration error hidden by binning (L23 prop. C.2) ------------------------------------------


def overconfident(n_samples, seed):
    """Logits doubled: S = sigmoid(2 z), C = sigmoid(z) with z normal of variance 20."""
    data = make_grouping_problem(n_samples, random_state=seed)
    return data, expit(2 * data.X.sum(axis=1))


def true_errors(n_bins):
    """CL(S) and CL(S_B) for bins of equal width, by the midpoint rule over quantiles of z."""
    size = 400_001
    z = np.sqrt(20) * norm.ppf((np.arange(size) + 0.5) / size)
    score, difference = expit(2 * z), expit(2 * z) - expit(z)
    bins = np.minimum((n_bins * score).astype(int), n_bins - 1)
    count = np.bincount(bins, minlength=n_bins)
    means = np.bincount(bins, difference, n_bins) / np.maximum(count, 1)
    return np.mean(difference**2), np.sum(count / size * means**2)


@pytest.mark.parametrize(("n_bins", "hidden"), [(15, 0.0044), (3, 0.0030)])
def test_what_binning_hides_of_the_calibration_error(n_bins, hidden):
    """Mean of 20 data sets of 4000: the binned error is too small, the corrected one is not."""
    whole, binned = true_errors(n_bins)
    assert whole == pytest.approx(0.0060, abs=5e-5) and binned == pytest.approx(hidden, abs=5e-5)
    found = []
    for seed in range(20):
        data, score = overconfident(4000, seed)
        e = fast(n_bins=n_bins, strategy="uniform", random_state=seed)
        e.fit(data.X, data.y, y_proba=score)
        assert e.calibration_error_corrected_ == e.calibration_error_ + e.calibration_induced_
        assert e.calibration_induced_ >= 0
        found.append((e.calibration_error_, e.calibration_error_corrected_, e.calibration_induced_))
    mean = np.mean(found, axis=0)
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert mean[0] == pytest.approx(binned, abs=3 * error[0])
    assert mean[1] == pytest.approx(whole, abs=3 * error[1])
    assert mean[0] < whole - 3 * error[0]
    # The error of the curve is small beside what is hidden.
    assert mean[2] == pytest.approx(whole - binned, rel=0.1)


def test_risk_has_no_bins_that_hide_anything(data):
    risk = fast(method="risk", partitioner=Ridge()).fit(data.X, data.y, y_proba=data.y_proba)
    assert risk.calibration_induced_ == 0
    assert risk.calibration_error_corrected_ == risk.calibration_error_


def test_no_epistemic_bound_where_the_divergence_is_not_jointly_convex():
    """Spherical: forecasts of .45 and .95 for outcomes of .05 and .4, in one level set. The error
    of the binned score, .295, exceeds that of the scores, .237, and nothing is grouped."""
    score, rate = np.repeat([0.45, 0.95], 1000), np.repeat([0.05, 0.4], 1000)
    y = (np.tile(np.arange(1000), 2) < 1000 * rate).astype(int)
    truth = Spherical().divergence(pairs(rate), pairs(score)).mean()
    X = score[:, None]
    options = dict(n_bins=1, smoother=LevelSets())

    def fitted(loss):
        return fast(loss=loss, **options).fit(X, y, y_proba=score, regions=score)

    spherical = fitted("spherical")
    assert spherical.calibration_error_ + spherical.grouping_loss_ > truth + 0.05
    assert truth == pytest.approx(0.2373, abs=1e-4)
    assert spherical.calibration_error_ == pytest.approx(0.2949, abs=1e-3)
    assert spherical.calibration_error_corrected_ == pytest.approx(truth, abs=1e-3)
    assert spherical.calibration_induced_ < 0
    message = (
        "epistemic_bound_ is nan: the divergence of 'spherical' is not jointly convex, so binning "
        "may increase its calibration error and the sum may exceed E D(Q, S); use loss='brier' or "
        "'log', or method='risk'."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        assert np.isnan(spherical.epistemic_bound_)
    # The loss that is left is bounded by the curve, which needs no convexity.
    left = Spherical().entropy(pairs(rate)).mean()
    assert spherical.irreducible_bound_ == pytest.approx(left, abs=1e-3)
    for loss, divergence in (("brier", Brier()), ("log", LogLoss())):
        bound = fitted(loss).epistemic_bound_
        assert bound <= divergence.divergence(pairs(rate), pairs(score)).mean() + 1e-3
    risk = fast(loss="spherical", method="risk", partitioner=Ridge()).fit(X, y, y_proba=score)
    assert risk.epistemic_bound_ == risk.calibration_error_ + risk.grouping_loss_
    assert not hasattr(fast(), "epistemic_bound_")


def test_bound_of_the_squared_error_without_a_curve():
    """Mean over 40 data sets against E (Q - S)^2 = GL, known, for a score that is calibrated; and
    an over-confident one, whose error is known from the posterior."""
    bounds, truths = [], []
    for seed in range(40):
        data = make_grouping_problem(4000, random_state=seed)
        logits = np.log(data.y_proba) * 1.3
        proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        fitted = GroupingLossEstimator(random_state=seed, n_permutations=0).fit(
            data.X, data.y, y_proba=proba
        )
        bounds.append(fitted.binned_epistemic_bound_)
        truths.append(np.mean((data.posterior - proba)[:, 1] ** 2))
    bounds, truth = np.array(bounds), np.mean(truths)
    error = bounds.std(ddof=1) / np.sqrt(len(bounds))
    assert bounds.mean() <= truth + 2 * error
    assert bounds.mean() >= 0.6 * truth
    log = GroupingLossEstimator(loss="log", n_permutations=0, random_state=0).fit(
        data.X, data.y, y_proba=proba
    )
    assert np.isnan(log.binned_epistemic_bound_)
