"""The name of the event does not matter: (1 - y, 1 - p) gives the numbers of (y, p), mirrored.

Forecasts have ties, on edges of bins and off them, beside others without ties. What has a direction
by its definition is listed with the reason.
"""

import warnings
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from grids import rotated
from public_functions import FORECASTS, numbers
from sklearn.base import clone

import skcalib as s
from skcalib import smoothers
from skcalib.report.findings import ranges_of_scores
from skcalib.risk_models.decisions import net_benefit

#: What has a direction by its definition.
DIRECTED = {
    "ks_calibration_error": "sums begin at the lowest score, and so depend on the end",
    "cumulative_test": "the same; the Kuiper statistic does not depend on it",
    "differences_at_equal_scores": "cuts of features at quantiles have a direction",
    "calibration_e_value": "bets in a random order of the rows",
    "consistency_test": "labels are drawn, and the metric is one of the others",
    "corp_bands": "labels are drawn",
    "calibration_error_interval": "draws of the noise of the bins, in their order",
    "calibration_improvement": "compares two forecasts, of which the second is in another order",
    "cumulative_curve": "sums begin at the lowest score",
}
#: Names of numbers that come from draws of labels, or of ratios of frequencies of the event.
UNMIRRORED = {"pvalue", "unreliability_pvalue", "observed_expected_ratio", "ratio", "n_events"}
SIGNED = {
    *("in_the_large", "intercept", "shrunk", "equal_scores", "observed_minus_expected"),
    *("group_difference", "curve_difference"),
}
#: The same name means a signed number here, and an error elsewhere.
RENAMED = {"calibration_by_group": ("difference", "group_difference")}
#: What does not depend on the event, of records whose other numbers do.
UNDIRECTED_PARTS = {
    "corp_decomposition": ("miscalibration", "discrimination", "uncertainty"),
    "calibration_curve_equality_test": ("statistic", "estimate"),
    "corp_test": ("statistic",),
}
COMPLEMENTS = {"mean_predicted", "observed", "mean_score", "mean_label"}


def forecasts(kind, n_samples=160, seed=0):
    """Labels, and whole numbers k of which forecasts are k / m; 0 and 1 are right."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-rng.normal(-0.7, 2.5, n_samples)))
    p[1:3] = 0.9999, 0.0001
    m = {"tenths": 10, "twentieths": 20, "votes": 7, "mixed": 10, "quarters": 4}[kind]
    k = (m * p).round()
    if kind == "mixed":
        k = np.where(np.arange(n_samples) % 3, k, m * p)
    y = np.where(k % m == 0, k == m, rng.random(n_samples) < p).astype(int)
    assert len(np.unique(k)) < 0.8 * n_samples and {0, m} <= set(k) and 0.1 < y.mean() < 0.5
    return y, k, m


KINDS = ["tenths", "twentieths", "votes", "mixed", "quarters"]


def without_halves(y, k, m):
    """The predicted class of a forecast of 1/2 is the first one, whatever its name."""
    rows = 2 * k != m
    return y[rows], k[rows], m


def need_mirror(value, mirrored_value, name="", path="", renamed=("", "")):
    """All numbers of two results are the same, or mirrored where the name says so."""
    if name in UNMIRRORED or value is None:
        return
    if is_dataclass(value):
        both = [
            {f.name: getattr(record, f.name) for f in fields(record)}
            for record in (value, mirrored_value)
        ]
        mirrored = name in SIGNED or name in COMPLEMENTS
        if mirrored and "low" in both[0]:  # an interval, whose ends change places
            turn = np.negative if name in SIGNED else lambda x: 1 - np.asarray(x)
            ends = {"low": "high", "high": "low", "estimate": "estimate"}
            both[1] |= {key: turn(both[1][source]) for key, source in ends.items()}
            name = ""
        for key in both[0]:
            inner = renamed[1] if key == renamed[0] else key
            if name in SIGNED and key in ("first", "second", "difference"):
                inner = name
            need_mirror(both[0][key], both[1][key], inner, f"{path}.{key}", renamed)
    elif isinstance(value, (list, tuple)):
        assert len(value) == len(mirrored_value), path
        for i, pair in enumerate(zip(value, mirrored_value, strict=True)):
            need_mirror(*pair, name, f"{path}[{i}]", renamed)
    elif isinstance(value, (int, float, np.ndarray)) and np.asarray(value).dtype.kind in "iuf":
        if name in SIGNED:
            mirrored_value = -mirrored_value
        elif name in COMPLEMENTS:
            mirrored_value = 1 - mirrored_value
        close = {"rtol": 1e-8, "atol": 1e-10, "equal_nan": True, "err_msg": path or name}
        np.testing.assert_allclose(value, mirrored_value, **close)


def mirrored_bins(bins):
    """`ReliabilityBins` of the other event."""
    last = len(bins.edges) - 2
    return s.errors.binned.ReliabilityBins(
        edges=1 - bins.edges[::-1],
        index=last - bins.index[::-1],
        mass=bins.mass[::-1],
        mean_score=bins.mean_score[::-1],
        mean_label=bins.mean_label[::-1],
        gap_variance=bins.gap_variance[::-1],
    )


def directed(recipe):
    """Whether a function has a direction, or costs or a long path, which are tested below."""
    name = recipe.function.__name__
    return name in ("net_benefit", "decision_regret", "CalibrationMonitor") or (
        name in DIRECTED and recipe.options.get("statistic") != "kuiper"
    )


def test_the_forecasts_have_ties_on_edges():
    for kind in KINDS:
        _, k, m = forecasts(kind)
        assert np.abs((m - k) / m - (1 - k / m)).max() < 2e-16
    assert any((1 - k / 10 != (10 - k) / 10).any() for k in [np.arange(11)])  # in the last digit


@pytest.mark.parametrize(
    ("recipe", "kind"),
    rotated([r for r in FORECASTS if r.takes == "forecast" and not directed(r)], KINDS, 2),
    ids=str,
)
def test_functions(recipe, kind):
    name, options = recipe.function.__name__, dict(recipe.options)
    y, k, m = forecasts(kind)
    if options.get("notion") == "top_label" or name == "expected_performance":
        y, k, m = without_halves(y, k, m)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few samples
        record, mirrored = recipe(y, k / m), recipe(1 - y, (m - k) / m)
        rounded = recipe(1 - y, 1 - k / m)  # differs in the last digit
        inside = np.flatnonzero((k > 0) & (k < m))
        other_y, other_k = y.copy(), k.copy()
        other_y[inside[:9]], other_k[inside] = 1 - y[inside[:9]], np.roll(k[inside], 1)
        changed_records = [recipe(other_y, k / m), recipe(y, other_k / m)]
    for changed in changed_records:  # labels and forecasts matter
        finite = np.isfinite(numbers(record))
        assert not finite.all() or not np.array_equal(numbers(changed), numbers(record))
    results = [record, mirrored, rounded]
    if options.get("notion") == "classwise" and name in (
        "reliability_bins",
        "calibration_by_group",
    ):
        results = [
            result if isinstance(result, list) else list(result.groups) for result in results
        ]
        half = len(results[0]) // 2  # the classes change places, and nothing else
        results[1:] = [result[half:] + result[:half] for result in results[1:]]
        for result in results[1:]:
            np.testing.assert_allclose(numbers(results[0]), numbers(result), rtol=1e-8, atol=1e-10)
        return
    if name == "reliability_bins":
        results[1:] = [[mirrored_bins(bins) for bins in result] for result in results[1:]]
    if name in UNDIRECTED_PARTS:
        parts = UNDIRECTED_PARTS[name]
        results = [[abs(getattr(result, part)) for part in parts] for result in results]
    for result in results[1:]:
        need_mirror(results[0], result, renamed=RENAMED.get(name, ("", "")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "n_bins", [2, 3, 4, 5, 7, 10, 15, 20, [0, 0.1, 0.35, 0.5, 0.7, 1]], ids=str
)
@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_every_number_of_bins(kind, n_bins, strategy):
    """Also if 1/2 is an edge, and if as many samples lie on both sides of a cut."""
    for seed in range(4):
        y, k, m = forecasts(kind, n_samples=90 + seed, seed=seed)
        options = {"n_bins": n_bins, "strategy": strategy, "notion": "canonical"}
        turned = options | ({"n_bins": 1 - np.array(n_bins[::-1])} if np.size(n_bins) > 1 else {})
        (bins,) = s.reliability_bins(y, k / m, **options)
        error = s.calibration_error(y, k / m, **options)
        for p in ((m - k) / m, 1 - k / m):
            (mirrored,) = s.reliability_bins(1 - y, p, **turned)
            need_mirror(bins, mirrored_bins(mirrored), "bins")
            assert s.calibration_error(1 - y, p, **turned) == pytest.approx(error, rel=1e-9)
        with_centre = (np.diff(bins.edges) == 0).any()
        edges = np.unique(bins.edges)
        if strategy == "uniform" and isinstance(n_bins, int):
            assert with_centre == (n_bins % 2 == 0 and (2 * k == m).any())
            np.testing.assert_allclose(edges, np.linspace(0, 1, n_bins + 1), atol=1e-12)
        elif not isinstance(n_bins, int):
            np.testing.assert_array_equal(edges, n_bins)
        else:
            assert len(edges) <= n_bins + 1


@pytest.mark.parametrize("kind", KINDS)
def test_costs_and_thresholds(kind):
    """At reflected costs; no forecast is on the threshold, where a decision has a direction."""
    y, k, m = forecasts(kind)
    t = 0.23
    odds, share = t / (1 - t), y.mean()
    regret, mirrored = (
        net_benefit(y, k / m, threshold=t),
        net_benefit(1 - y, (m - k) / m, threshold=1 - t),
    )
    assert regret == pytest.approx(share - (1 - share) * odds + odds * mirrored, abs=1e-12)
    for chosen, turned in (
        ({"costs": [[0, 1], [3.3, 0]]}, {"costs": [[0, 3.3], [1, 0]]}),
        ({"threshold": t}, {"threshold": 1 - t}),
    ):
        regret, mirrored, elsewhere = (
            s.decision_regret(y, k / m, **chosen), s.decision_regret(1 - y, (m - k) / m, **turned),
            s.decision_regret(y, k / m, threshold=0.6),
        )  # fmt: skip
        need_mirror(regret, mirrored)
        assert regret.expected_cost != elsewhere.expected_cost


@pytest.mark.parametrize("kind", KINDS)
def test_streams(kind):
    y, k, m = forecasts(kind)
    monitors = [
        s.CalibrationMonitor([0, 1], window=40, alpha=0.05).partial_fit(labels, p)
        for labels, p in ((y, k / m), (1 - y, (m - k) / m))
    ]
    np.testing.assert_allclose(monitors[0].path_, monitors[1].path_, rtol=1e-9, atol=1e-12)
    windows = [[(w.mean_predicted, w.observed) for w in stream.windows_] for stream in monitors]
    np.testing.assert_allclose(windows[0], 1 - np.array(windows[1]), rtol=1e-9)


SMOOTHERS = [
    *(smoothers.UniformBins(n) for n in (4, 5, 10)),
    *(smoothers.QuantileBins(n) for n in (2, 5, 6, "auto")),
    *(smoothers.LevelSets(), smoothers.MedianCells(), smoothers.IsotonicSmoother()),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("smoother", SMOOTHERS, ids=repr)
def test_partitions(smoother, kind):
    y, k, m = forecasts(kind)
    T, P = np.column_stack([1 - y, y]), np.column_stack([m - k, k]) / m
    fitted, mirrored = (clone(smoother).fit(p, t) for p, t in ((P, T), (P[:, ::-1], T[:, ::-1])))
    np.testing.assert_allclose(fitted.smooth(), mirrored.smooth()[:, ::-1], rtol=1e-9, atol=1e-12)
    if not isinstance(smoother, smoothers.IsotonicSmoother):
        held_out = [fitted_smoother.smooth_held_out() for fitted_smoother in (fitted, mirrored)]
        np.testing.assert_allclose(held_out[0], held_out[1][:, ::-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fitted.predict(P), mirrored.predict(P[:, ::-1])[:, ::-1], atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["HistogramBinning", "IsotonicRecalibrator", "VennAbersRecalibrator"]
)
def test_recalibrators(name, kind):
    y, k, m = forecasts(kind)
    fitted, mirrored = (getattr(s, name)().fit(p, t) for p, t in ((k / m, y), ((m - k) / m, 1 - y)))
    new = np.append(k, [0.013 * m, 0.401 * m, 0.777 * m])
    proba, turned = fitted.predict_proba(new / m), mirrored.predict_proba((m - new) / m)
    np.testing.assert_allclose(proba, turned[:, ::-1], atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["quantile", "uniform", "isotonic"])
def test_diagrams(strategy, kind):
    y, k, m = forecasts(kind)
    options = {"strategy": strategy, "band": None, "n_bins": 6 if strategy != "isotonic" else None}
    draw = s.ReliabilityDisplay.from_predictions
    (curve,), (mirrored,) = (
        draw(labels, p, **options).curves for labels, p in ((y, k / m), (1 - y, (m - k) / m))
    )
    np.testing.assert_allclose(curve.prob_pred, 1 - mirrored.prob_pred[::-1], atol=1e-9)
    np.testing.assert_allclose(curve.prob_true, 1 - mirrored.prob_true[::-1], atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_of_the_report(kind):
    _, k, m = forecasts(kind, n_samples=900)
    weight = np.ones(900)
    ranges, mirrored = (
        {frozenset(part) for part, *_ in ranges_of_scores(p, weight)} for p in (k / m, (m - k) / m)
    )
    assert len(ranges) > 2 and ranges == mirrored


@pytest.mark.parametrize("kind", ["tenths", "votes", "mixed"])
def test_a_shift_of_the_labels(kind):
    """The test of its assumption counts forecasts between cuts."""
    y, k, m = forecasts(kind, n_samples=400)
    source, target = np.arange(400) < 250, np.arange(400) >= 250
    p = np.clip(k / m, 0.01, 0.99)
    pvalues = []
    for labels, scores in ((y, p), (1 - y, 1 - p)):
        shift = s.LabelShiftRecalibrator().fit(scores[source], labels[source])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pvalues.append(shift.adapt(scores[target]).pvalue_)
    assert 0 < pvalues[0] < 1 and pvalues[0] == pytest.approx(pvalues[1], rel=1e-5)
