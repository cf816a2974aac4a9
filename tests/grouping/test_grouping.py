"""The grouping loss: golden values, worlds small enough to compute by hand, and the estimator."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import pairs
from golden import GOLDEN, golden_rows, needs_golden
from scipy.special import kl_div, softmax
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, TimeSeriesSplit
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

from skcalib import GroupingLossEstimator
from skcalib.data.notions import ClassGroups, Classwise, Notion, TopK
from skcalib.datasets import make_grouping_problem
from skcalib.grouping.bounds import partition_terms
from skcalib.grouping.partition import level_sets
from skcalib.scores import Brier, ClasswiseLogLoss, LogLoss, Spherical
from skcalib.smoothers import LevelSets, LogitSmoother
from skcalib.stats.means import clopper_pearson


def fast(**parameters):
    """An estimator without the permutation test."""
    return GroupingLossEstimator(**{"n_permutations": 0, "random_state": 0, **parameters})


@needs_golden
def test_golden_rows():
    """Also of given regions of the measured half, through the estimator."""
    values = {row["quantity"]: row["value"] for row in golden_rows("gl_sim_n2000")}
    assert len(values) == 4
    with np.load(GOLDEN / "gl_sim_n2000.npz") as file:
        arrays = dict(file)
    test, bins = arrays["is_test"], arrays["bin"]
    score, target = pairs(arrays["score"]), pairs(arrays["y"])
    np.testing.assert_array_equal(level_sets(score, 10, "uniform"), bins)
    parts = (bins, 1000 * bins + arrays["region"], score, target, score, np.ones(len(test)))
    terms = partition_terms(Brier(), *(part[test] for part in parts))
    estimator = fast(method="partition", n_bins=10, strategy="uniform").fit(
        arrays["X"][test],
        arrays["y"][test],
        y_proba=arrays["score"][test],
        regions=arrays["region"][test],
    )
    expected = [values[name] for name in ("GL_plugin", "GL_bias", "GL_explained_debiased")]
    assert [terms.plugin, terms.bias, terms.plugin - terms.bias] == pytest.approx(
        expected, abs=1e-10
    )
    fitted = [estimator.plugin_, estimator.bias_, estimator.explained_]
    assert fitted == pytest.approx(expected, abs=1e-10)
    # The induced row is over both halves; the scores are calibrated, so they are the curve.
    whole = partition_terms(Brier(), bins, bins, score, target, score, np.ones(len(test)))
    assert whole.induced == pytest.approx(values["GL_induced_oracleC"], abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.08])
def test_regions_of_ten_classes_against_the_curve(shift):
    """Two groups whose frequencies of two classes differ: 2 shift^2 is found, and 0 without."""
    auto, paper = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        proba = 0.8 * rng.dirichlet(np.ones(10), 1000) + 0.1 * (np.arange(10) < 2)
        group = rng.choice([-1, 1], 1000)
        truth = proba + np.outer(group, shift * np.r_[1, -1, np.zeros(8)])
        y = (truth.cumsum(axis=1) < rng.random((1000, 1))).sum(axis=1)
        run = dict(labels=range(10), confidence_level=0.9)
        for method, out in (("auto", auto), ("partition", paper)):
            estimator = fast(method=method, **run).fit(proba, y, y_proba=proba, regions=group)
            out.append((estimator.grouping_loss_, estimator.standard_error_))
    mean, error = np.mean(auto, axis=0)
    spread = np.std([loss for loss, _ in auto], ddof=1)
    assert abs(mean - 2 * shift**2) < 3 * spread / np.sqrt(6)
    assert 0.7 < error / spread < 2.5
    assert max(loss for loss, _ in paper) < -0.02  # level sets are wide


def test_two_pure_regions_explain_all_of_the_log_loss():
    """The plug-in is ln 2 and never NaN; the correction is that of a coin with n tosses."""
    for n in (4, 10, 100):
        y, bins = np.repeat([0, 1], n // 2), np.zeros(n, dtype=int)
        half, target = pairs(np.full(n, 0.5)), pairs(y)
        with np.errstate(all="raise"):
            terms = partition_terms(LogLoss(), bins, y, half, target, half, np.ones(n))
        assert terms.plugin == pytest.approx(np.log(2), abs=1e-15)
        assert terms.induced == 0
        assert np.isfinite(terms.bias) and np.isfinite(terms.variance)
        left = np.array([n // 2 - 1, n // 2]) / (n - 1)
        coin = (n - 1) * (np.log(2) + np.sum(left * np.log(left)))
        assert terms.bias == pytest.approx(-coin, rel=1e-9)
    y, half = np.repeat([0, 1], [7, 3]), pairs(np.full(10, 0.5))  # another frequency than 1/2
    terms = partition_terms(LogLoss(), np.zeros(10), y, half, pairs(y), half, np.ones(10))
    more, less, whole = -LogLoss().entropy(pairs([3 / 9, 2 / 9, 3 / 10]))
    assert terms.bias == pytest.approx(-9 * (0.7 * more + 0.3 * less - whole), rel=1e-9)


@pytest.mark.parametrize("loss", ["brier", "log", "spherical"])
@pytest.mark.parametrize("method", ["partition", "risk"])
def test_forecasts_of_exactly_zero(loss, method):
    """An infinite log loss is an answer; nothing is NaN, and no bound of what is left is lost."""
    sample = make_grouping_problem(1000, random_state=0)
    p = np.where(sample.y_proba[:, 1] < 0.2, 0.0, sample.y_proba[:, 1])
    estimator = fast(loss=loss, method=method).fit(sample.X, sample.y, y_proba=p)
    names = ["expected_loss_", "calibration_error_", "calibration_error_corrected_"]
    if loss != "spherical" or method == "risk":
        names.append("epistemic_bound_")
    assert {np.isinf(getattr(estimator, name)) for name in names} == {loss == "log"}
    assert not np.isnan(estimator.calibration_induced_)
    assert np.isfinite([estimator.grouping_loss_, estimator.standard_error_]).all()
    assert 0 < estimator.irreducible_bound_ < 0.5


def test_classwise_log_loss_of_the_paper():
    """L23 eq. 78: sums over classes of p log p, of labels, regions and level sets."""
    counts = np.array([[[30, 8, 2], [18, 12, 10]], [[4, 16, 20], [12, 4, 24]]])
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(12), counts.ravel()))
    level, region, y = np.unravel_index(rows, counts.shape)
    X = np.column_stack([region, level]).astype(float)
    y_proba = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])[level]
    log_loss = -np.mean(np.log(y_proba[np.arange(len(y)), y]))
    options = dict(n_bins=2, smoother=LevelSets(), notion=Classwise(reduce="sum"))
    options["method"] = "partition"
    arguments, scores = {"y_proba": y_proba, "regions": region}, (ClasswiseLogLoss(), LogLoss())
    paper, ours = (fast(loss=score, **options).fit(X, y, **arguments) for score in scores)
    explained, calibration = 0.0, 0.0
    for k in range(3):
        frame = pd.DataFrame({"event": y == k, "p": y_proba[:, k], "region": region})
        c, mu = (frame.groupby(by)["event"].transform("mean") for by in ("p", ["p", "region"]))
        calibration += kl_div(c, frame["p"]).mean()
        explained += kl_div(mu, c).mean()
    assert paper.plugin_ == pytest.approx(explained, rel=1e-10)
    # The debiased error is the plug-in one minus a jackknife bias of order 1 / n.
    assert paper.calibration_error_ == pytest.approx(calibration, abs=3 / len(y))
    assert paper.expected_loss_ == pytest.approx(log_loss, rel=1e-12)
    # One against rest has the terms of the rest too.
    assert ours.plugin_ > 1.2 * paper.plugin_ and ours.expected_loss_ > 1.2 * log_loss


@pytest.fixture(scope="module")
def sample():
    return make_grouping_problem(1500, random_state=0)


def test_records_by_hand(sample):
    """Regions of the table, from the samples of given regions; a badly calibrated score."""
    regions = np.where(sample.X[:, 0] > sample.X[:, 1], "north", "south")
    score = np.sqrt(sample.y_proba[:, 1])
    estimator = fast(n_bins=3, confidence_level=0.9)
    estimator.fit(sample.X, sample.y, y_proba=score, regions=regions)
    bins = level_sets(pairs(score), 3, "quantile")
    smoother = LogitSmoother().for_loss(Brier())
    curve = smoother.fit(pairs(score), pairs(sample.y)).smooth_held_out()[:, 1]
    harms = [record.harm for record in estimator.regions_]
    assert len(harms) == 6 and harms == sorted(harms, reverse=True)
    noise = {}
    for record in estimator.regions_:
        name = record.rule.removeprefix("region ")
        level = bins == record.level_set
        here = level & (regions == name)
        outcome, size, residual = sample.y[here].mean(), here.sum(), sample.y[here] - curve[here]
        expected = curve[here].mean() + sample.y[level].mean() - curve[level].mean()
        low, high = clopper_pearson(outcome, size, 0.9)
        numbers = {
            "n_samples": size,
            "effective_size": size,
            "share": size / 1500,
            "mean_score": score[here].mean(),
            "mean_outcome": outcome,
            "expected": expected,
            "gap": expected - outcome,
            "low": low,
            "high": high,
        }
        for field, number in numbers.items():
            assert getattr(record, field) == pytest.approx(number, rel=1e-7), field
        assert record.event == "class 1"
        noise[record.level_set, name] = size / level.sum(), residual.var() / (size - 1)
    for record in estimator.regions_:
        parts = [noise[record.level_set, name] for name in ("north", "south")]
        share, alone = noise[record.level_set, record.rule.removeprefix("region ")]
        variance = (1 - 2 * share) * alone
        variance += sum(part**2 * noise_of_part for part, noise_of_part in parts)
        assert record.harm == pytest.approx(record.share * (record.gap**2 - variance))
    most = estimator.regions_[0]
    south = most.rule == "region south"
    assert most.direction == ("too_high" if south else "too_low")
    assert replace(most, low=0.0, high=1.0).direction == ""  # its interval has the expected one


@pytest.mark.parametrize("method", ["auto", "partition"])
def test_terms_of_given_regions_by_hand(sample, method):
    """Of the squared error all terms are means and variances in level sets and regions."""
    score, smoother = np.sqrt(sample.y_proba[:, 1]), LogitSmoother()
    regions = sample.X[:, 0] > sample.X[:, 1]
    fitted = fast(method=method, n_bins=3, smoother=smoother)
    fitted.fit(sample.X, sample.y, y_proba=score, regions=regions)
    level = level_sets(pairs(score), 3, "quantile")
    smoother = smoother.for_loss(Brier()).fit(pairs(score), pairs(sample.y))
    frame = pd.DataFrame({"y": sample.y, "s": score, "c": smoother.smooth_held_out()[:, 1]})
    frame = frame.assign(level=level, region=2 * level + regions, gap=frame["y"] - frame["s"])
    frame["residual"] = frame["y"] - frame["c"]

    def mean(name, by):
        return frame.groupby(by)[name].transform("mean")

    def noise(name, by):
        cells = frame.groupby(by)[name]
        return np.mean(cells.transform("var") / cells.transform("size"))

    def loss(frequency, forecast):
        return frequency * (1 - forecast) ** 2 + (1 - frequency) * forecast**2

    def saved(frequency):
        before = loss(frequency, curve_in_region) - loss(frequency, curve_in_level)
        return before - loss(frequency, in_region) + loss(frequency, in_level)

    in_region, in_level, curve_in_region, curve_in_level = (
        mean(name, by) for name in ("y", "c") for by in ("region", "level")
    )
    if method == "partition":
        plugin = np.mean((in_region - in_level) ** 2)
        bias = noise("y", "region") - noise("y", "level")
        width = (frame["c"] - curve_in_level) ** 2
        induced = width.mean()
        influence = loss(frame["y"], in_level) - loss(frame["y"], in_region) - width
    else:
        plugin, bias = np.mean((in_region - curve_in_region) ** 2), noise("residual", "region")
        induced = np.mean((in_level - curve_in_level) ** 2) - noise("residual", "level")
        frame["saved"] = saved(frame["c"])
        influence = saved(frame["y"]) - frame["saved"] + mean("saved", "region")
    score_in_level, levels = mean("s", "level"), frame.groupby("level")
    calibration = np.mean((in_level - score_in_level) ** 2) - noise("gap", "level")
    hidden = (frame["c"] - score) ** 2 - (curve_in_level - score_in_level) ** 2
    covered = np.mean(levels["y"].transform("var") - levels["gap"].transform("var"))
    for name, value in {
        "plugin": plugin,
        "bias": bias,
        "induced": induced,
        "grouping_loss": plugin - bias - induced,
        "standard_error": np.std(influence) / np.sqrt(len(frame)),
        "calibration_error": calibration,
        "calibration_induced": hidden.mean(),
        "expected_loss": loss(frame["y"], score).mean(),
        "binned_epistemic_bound": calibration + plugin - bias - covered,
    }.items():
        assert getattr(fitted, f"{name}_") == pytest.approx(value, rel=1e-8), name


MODELS = None, Ridge(), LogisticRegression(), DecisionTreeClassifier(max_leaf_nodes=2)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_model_finds_a_known_grouping_loss(weighted):
    """The frequencies of two groups are .2 above and below the score: the loss is .04."""
    rng = np.random.default_rng(0)
    p, side = rng.uniform(0.3, 0.7, 800), rng.choice([-1, 1], 800)
    y = (rng.random(800) < p + 0.2 * side).astype(int)
    weight = rng.uniform(0.5, 2, 800) if weighted else None
    for model in MODELS:
        fitted = fast(method="risk", partitioner=model)
        fitted.fit(side[:, None], y, y_proba=p, sample_weight=weight)
        error = fitted.standard_error_
        assert 0.03 < fitted.grouping_loss_ < 0.04 + 2 * error and error < 0.01, model
        assert fitted.pvalue_ < 1e-9 and 0.5 < fitted.scale_ < 3, model


def test_a_region_of_one_sample_joins_the_largest_of_its_level_set():
    p, y = np.repeat([0.3, 0.6], 20), np.arange(40) % 2
    regions = np.tile(list(10 * "b" + 9 * "a" + "c"), 2)
    with pytest.warns(UserWarning, match="and 33 % of them a single one"):
        fitted = fast(n_bins=2).fit(p[:, None], y, y_proba=p, regions=regions)
    sizes = {(region.level_set, region.rule): region.n_samples for region in fitted.regions_}
    expected = {(k, f"region {name}"): n for k in (0, 1) for name, n in (("a", 9), ("b", 11))}
    assert sizes == expected and fitted.n_regions_ == 6


def test_regions_may_have_any_names(sample):
    number = np.arange(1500) % 4

    def fitted(regions):
        return fast(n_bins=5).fit(sample.X, sample.y, y_proba=sample.y_proba, regions=regions)

    expected = fitted(number).grouping_loss_
    category, mixed = pd.Series(number).astype("category"), np.array([None, "b", 3, 4.5], object)
    for regions in (np.array(list("abcd"))[number], mixed[number], category, number.tolist()):
        estimator = fitted(regions)
        assert estimator.grouping_loss_ == pytest.approx(expected, abs=1e-12)
        assert len(estimator.regions_) == 20


def test_a_fitted_partitioner_is_used_as_it_is(sample):
    X = sample.X @ [[1], [-1]]
    north = DecisionTreeClassifier(max_leaf_nodes=2).fit(X, X[:, 0] > 0)
    estimator = fast(method="partition", partitioner=FrozenEstimator(north), n_bins=5)
    estimator.fit(X, sample.y, y_proba=sample.y_proba)
    with_regions = fast(method="partition", n_bins=5)
    with_regions.fit(X, sample.y, y_proba=sample.y_proba, regions=X[:, 0] > 0)
    assert len(estimator.regions_) == len(with_regions.regions_) == 10
    assert estimator.grouping_loss_ == pytest.approx(with_regions.grouping_loss_, abs=0.004)


@pytest.mark.parametrize(("size", "warns"), [(3, True), (5, True), (6, False)])
def test_regions_of_few_samples_are_stated(size, warns):
    """Regions of equal size, in both level sets, by their mean number of samples."""
    p, y = np.linspace(0.1, 0.9, 40 * size), np.arange(40 * size) % 2
    words = (
        rf"^The regions hold {size}\.0 measured samples on average, and 0 % of them a single one"
    )
    with pytest.warns(UserWarning, match=words) if warns else nullcontext():
        fitted = fast(n_bins=2, method="partition").fit(
            p[:, None], y, y_proba=p, regions=np.arange(40 * size) % 20
        )
    assert len(fitted.regions_) == 40


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        *(({"partitioner": takes, "method": "partition"}, True) for takes in (None, "stump")),
        ({"partitioner": DecisionTreeClassifier(max_leaf_nodes=6), "method": "partition"}, True),
        ({"partitioner": "kmeans"}, False),
        ({"partitioner": KMeans(4, n_init=1)}, False),
        ({"partitioner": LinearRegression()}, False),
        ({"method": "risk"}, True),
        ({"method": "risk", "partitioner": Ridge()}, False),
        # The classifier has a say too.
        ({"estimator": LogisticRegression(), "cv": 2}, False),
        ({"estimator": HistGradientBoostingClassifier(max_iter=5), "cv": 2}, True),
    ],
    ids=repr,
)
def test_missing_values_follow_the_tags(sample, options, allowed):
    X, y, estimator = sample.X[:600].copy(), sample.y[:600], fast(**options)
    X[::7, 0] = np.nan
    assert get_tags(estimator).input_tags.allow_nan == allowed
    assert not get_tags(estimator).input_tags.sparse
    y_proba = None if "estimator" in options else sample.y_proba[:600]
    refusal = pytest.raises(ValueError, match="contains NaN")
    with nullcontext() if allowed else refusal:
        assert np.isfinite(estimator.fit(X, y, y_proba).grouping_loss_)


def test_arguments_of_fit_do_not_stay_on_the_estimator(sample):
    """Only parameters and fitted attributes are left, also after a fit that failed."""
    estimator = fast(region_ratio=6)
    parameters = set(estimator.get_params())
    assert set(vars(estimator)) == parameters
    with pytest.raises(ValueError, match="pass y_proba"):
        estimator.fit(sample.X, sample.y)
    assert set(vars(estimator)) == parameters
    estimator.fit(sample.X, sample.y, y_proba=sample.y_proba, regions=np.arange(len(sample.y)) % 2)
    fitted = set(vars(estimator)) - parameters
    assert fitted and all(name.endswith("_") and not name.startswith("_") for name in fitted)


def test_classifiers_fitted_frozen_and_cross_validated():
    X, y = make_classification(1200, n_informative=6, flip_y=0.1, random_state=0)
    classifier = LogisticRegression().fit(X[:400], y[:400])
    X_new, y_new = X[400:], y[400:]

    def fitted(X, y, proba=None, groups=None, **parameters):
        estimator = clone(fast(method="partition", **parameters))
        return estimator.fit(X, y, y_proba=proba, groups=groups)

    frozen = fitted(X_new, y_new, estimator=FrozenEstimator(classifier))
    direct = fitted(X_new, y_new, classifier.predict_proba(X_new))
    held_out = fast(method="partition", estimator=classifier).fit(X_new, y_new)
    assert held_out.grouping_loss_ == frozen.grouping_loss_ == direct.grouping_loss_
    crossed = fitted(X_new, y_new, estimator=classifier, cv=3)
    assert crossed.grouping_loss_ != direct.grouping_loss_
    assert crossed.n_features_in_ == 20 and crossed.classes_.tolist() == [0, 1]
    groups = np.arange(len(y)) % 30
    grouped = fitted(X, y, None, groups, estimator=LogisticRegression(), cv=GroupKFold(3))
    assert np.isfinite(grouped.grouping_loss_)
    later = fitted(X, y, estimator=LogisticRegression(), cv=TimeSeriesSplit(3))
    assert sum(region.n_samples for region in later.regions_) == 450  # half of three quarters


def test_names_are_told_and_small_regions_warned_about(sample):
    names = np.array(["ill", "well"])
    frame = pd.DataFrame(sample.X, columns=["age", "dose"])
    named = fast(estimator=LogisticRegression(), cv=3, method="partition")
    named.fit(frame, pd.Series(names[sample.y]))
    assert {region.event for region in named.regions_} == {"class well"}
    assert all("x0" not in r.rule and "x1" not in r.rule for r in named.regions_)
    assert any("age" in region.rule for region in named.regions_)
    with pytest.warns(UserWarning, match=r"single one.*larger region_ratio \(about 12\)") as record:
        fast(method="partition", region_ratio=3).fit(sample.X, sample.y, y_proba=sample.y_proba)
    assert record[0].filename == __file__
    fast(method="partition").fit(sample.X, sample.y, y_proba=sample.y_proba)  # no warning


@pytest.mark.parametrize("parameters", [{}, {"method": "risk"}, {"swap": True}], ids=repr)
def test_zero_weights_remove_samples(sample, parameters):
    """Bit by bit: bins, halves, trees, curve and permutations are those of the rows that count."""
    X, y, proba = sample.X[:400], sample.y[:400], sample.y_proba[:400]
    keep = np.arange(400) % 4 > 0
    estimator = GroupingLossEstimator(n_permutations=20, random_state=0, **parameters)
    weighted = clone(estimator).fit(X, y, sample_weight=2.0 * keep, y_proba=proba)
    removed = clone(estimator).fit(X[keep], y[keep], y_proba=proba[keep])
    for name in ("grouping_loss_", "standard_error_", "calibration_error_", "pvalue_"):
        assert getattr(weighted, name) == pytest.approx(getattr(removed, name), rel=1e-9), name
    assert len(weighted.regions_) == len(removed.regions_)


def test_attributes_add_up(sample):
    def fitted(regions=None, **parameters):
        return fast(**parameters).fit(sample.X, sample.y, y_proba=sample.y_proba, regions=regions)

    for parameters in ({}, {"loss": "log"}, {"notion": "classwise"}, {"swap": True}):
        e = fitted(method="partition", **parameters)
        low, high = e.confidence_interval_
        events = 2 if "notion" in parameters else 1
        assert sum(region.share for region in e.regions_) == pytest.approx(events)
        if "loss" not in parameters:  # the harm is that of the Brier score
            harm = sum(region.harm for region in e.regions_) / events
            assert harm == pytest.approx(e.explained_, rel=0.25)
        for value, expected in (
            (e.explained_, e.plugin_ - e.bias_),
            (e.grouping_loss_, e.explained_ - e.induced_),
            (e.epistemic_bound_, e.calibration_error_ + e.grouping_loss_),
            (e.irreducible_bound_, e.expected_loss_ - e.epistemic_bound_),
            (low + high, 2 * e.grouping_loss_),
            (high - low, 2 * 1.959964 * e.standard_error_),
        ):
            assert value == pytest.approx(expected)
        assert type(low) is type(high) is float
        assert np.isnan([e.scale_, e.pvalue_]).all()
        assert (e.valid_, e.reason_) == (True, "")
    wide = fitted(method="partition", swap=True, confidence_level=0.99)
    assert wide.confidence_interval_[0] < low and wide.grouping_loss_ == e.grouping_loss_
    risk = fitted(method="risk")  # what has no value, and what "auto" takes from each: tests/laws
    assert np.isnan(risk.explained_) and 0 <= risk.scale_ <= 3
    assert risk.irreducible_bound_ == pytest.approx(risk.expected_loss_ - risk.epistemic_bound_)
    assert risk.calibration_induced_ == 0  # no bins hide anything
    assert risk.calibration_error_corrected_ == risk.calibration_error_
    assert risk.pvalue_ < 0.01 and fitted().valid_
    with_regions = fitted(regions=sample.X[:, 0] > 0)
    assert np.isnan(with_regions.scale_) and with_regions.grouping_loss_ == (
        with_regions.explained_ - with_regions.induced_
    )


class Twice(Notion):
    """The whole problem, two times: a notion that the estimator has never heard of."""

    reduce = "sum"

    def problems(self, forecast, target):
        yield forecast, target
        yield forecast, target


def test_notions(sample):
    """Two classes are one problem however they are looked at; every problem of a notion counts."""

    def bound(notion):
        e = fast(notion=notion, smoother="isotonic", method="partition")
        e.fit(sample.X, sample.y, y_proba=sample.y_proba)
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
        ({"test_size": 1.0}, {}, "test_size must lie between 0 and 1"),
        ({"region_ratio": 1}, {}, "region_ratio must be a whole number of at least 2"),
        ({"estimator": LogisticRegression().fit([[0, 0], [1, 1]], [0, 1])}, {}, "both given"),
        ({}, {"regions": np.zeros(7)}, r"regions must have shape \(1500,\), one region per sample"),
        ({"method": "risk"}, {"regions": np.zeros(1500)}, "method='risk' has no regions"),
        ({"method": "risk", "partitioner": "stump"}, {}, "With method='risk' the partitioner must"),
        ({"method": "risk", "partitioner": Ridge}, {}, "With method='risk' the partitioner must"),
    ],
)
def test_refusals(sample, parameters, fit, words):
    with pytest.raises(ValueError, match=words):
        fast(**parameters).fit(sample.X, sample.y, **{"y_proba": sample.y_proba, **fit})


def test_a_handful_of_samples():
    """Small data get fewer level sets, a warning, and numbers."""
    sample = make_grouping_problem(40, random_state=0)
    assert np.isfinite(fast().fit(sample.X, sample.y, y_proba=sample.y_proba).grouping_loss_)
    with pytest.warns(UserWarning, match="unreliable"):
        small = fast(method="partition").fit(sample.X[:8], sample.y[:8], y_proba=sample.y_proba[:8])
    assert np.isfinite(small.grouping_loss_)
    with pytest.raises(ValueError, match="grouping loss needs at least 4 samples"):
        fast().fit(sample.X[:2], [0, 1], y_proba=sample.y_proba[:2])


def test_no_epistemic_bound_where_the_divergence_is_not_jointly_convex():
    """Spherical: the error .295 of the binned score exceeds that of the scores, .237."""
    score, rate = np.repeat([0.45, 0.95], 1000), np.repeat([0.05, 0.4], 1000)
    y = (np.tile(np.arange(1000), 2) < 1000 * rate).astype(int)
    truth = Spherical().divergence(pairs(rate), pairs(score)).mean()
    X, options = score[:, None], dict(n_bins=1, smoother=LevelSets())

    def fitted(loss):
        return fast(loss=loss, **options).fit(X, y, y_proba=score, regions=score)

    spherical = fitted("spherical")
    assert spherical.calibration_error_ + spherical.grouping_loss_ > truth + 0.05
    assert truth == pytest.approx(0.2373, abs=1e-4)
    assert spherical.calibration_error_ == pytest.approx(0.2949, abs=1e-3)
    assert spherical.calibration_error_corrected_ == pytest.approx(truth, abs=1e-3)
    assert spherical.calibration_induced_ < 0
    words = "^epistemic_bound_ is nan: the divergence of 'spherical' is not jointly convex, so"
    with pytest.warns(UserWarning, match=words):
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


@pytest.mark.slow
def test_bound_of_the_squared_error_without_a_curve():
    """Mean over 40 data sets against E (Q - S)^2 of an over-confident score, by the posterior."""
    bounds, truths = [], []
    for seed in range(40):
        sample = make_grouping_problem(4000, random_state=seed)
        proba = softmax(1.3 * np.log(sample.y_proba), axis=1)
        fitted = fast(method="partition", random_state=seed).fit(sample.X, sample.y, y_proba=proba)
        bounds.append(fitted.binned_epistemic_bound_)
        truths.append(np.mean((sample.posterior - proba)[:, 1] ** 2))
    bounds, truth = np.array(bounds), np.mean(truths)
    error = bounds.std(ddof=1) / np.sqrt(len(bounds))
    assert bounds.mean() <= truth + 2 * error
    assert bounds.mean() >= 0.6 * truth
    log = fast(method="partition", loss="log").fit(sample.X, sample.y, y_proba=proba)
    assert np.isnan(log.binned_epistemic_bound_)
