"""Reports and diagrams of samples in clusters."""

import warnings

import numpy as np
import pytest
from conftest import in_clusters
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from skcalib import CalibrationReport, ComparisonReport, ReliabilityDisplay
from skcalib.data.clusters import intraclass_correlation
from skcalib.data.features import encode_features
from skcalib.data.problem import check_problem
from skcalib.displays.reliability import make_curve
from skcalib.errors import corp_bands
from skcalib.grouping import differences_at_equal_scores
from skcalib.grouping.differences import compare_groups
from skcalib.smoothers import DirichletKernel, IsotonicSmoother, QuantileBins, SplineSmoother

make, compare = CalibrationReport.from_predictions, ComparisonReport.from_predictions
pytestmark = pytest.mark.usefixtures("few_maps")  # recalibration is not the subject


def test_the_report_names_the_clusters_and_all_intervals_are_those_of_clusters():
    _, y, proba, cluster = in_clusters(40, 1, alike=True)
    plain, robust = (make(y, proba, groups=groups) for groups in (None, cluster))
    assert robust.to_dict()["n_clusters"] == 40 and plain.findings.n_clusters is None
    text = " ".join(robust.to_text(details=True).split())
    assert f"{plain.findings.n_samples:,} samples in 40 clusters (effective size" in text
    assert "Intervals and tests use sums over clusters" in text
    assert "clusters" not in plain.to_text(details=True)
    plain, robust = plain.findings, robust.findings
    assert robust.effective_size < 0.5 * plain.effective_size
    for name in ("observed_rate", "accuracy", "observed_expected_ratio"):
        independent, clustered = getattr(plain, name), getattr(robust, name)
        assert clustered.estimate == pytest.approx(independent.estimate)
        assert clustered.high - clustered.low > 1.1 * (independent.high - independent.low)
    for independent, clustered in zip(plain.errors, robust.errors, strict=True):
        assert (
            clustered.expected_loss.standard_error > 1.2 * independent.expected_loss.standard_error
        )
        assert clustered.calibration.high > independent.calibration.high
    for independent, clustered in zip(plain.places, robust.places, strict=True):
        assert clustered.high - clustered.low >= 0.999 * (independent.high - independent.low)
    for name in ("test", "logistic"):
        assert getattr(robust, name).pvalue > getattr(plain, name).pvalue
    pairs = zip(plain.reported, robust.reported, strict=True)
    pairs = [
        (independent.value, clustered.value)
        for independent, clustered in pairs
        if independent.value is not None
    ]
    wider = [b.high - b.low > a.high - a.low for a, b in pairs if a.standard_error > 0]
    assert np.mean(wider) > 0.8


@pytest.mark.slow
def test_calibrated_forecasts_are_called_miscalibrated_only_without_groups():
    """Eight data sets of 30 clusters."""
    alarms = []
    for seed in range(8):
        _, y, proba, cluster = in_clusters(30, 100 + seed, spread=2.0, alike=True)
        both = [make(y, proba, groups=groups) for groups in (None, cluster)]
        alarms.append([report.miscalibrated for report in both])
    plain, robust = np.sum(alarms, axis=0)
    assert plain >= 4 and robust <= 2


def test_from_estimator_evaluates_whole_clusters():
    X, y, _, cluster = in_clusters(30, 2, alike=True, size=5)
    model, of_model = LogisticRegression(), CalibrationReport.from_estimator
    whole, split = (
        of_model(model, X, y, cv=cv, groups=cluster).findings for cv in (GroupKFold(5), 5)
    )
    assert whole.n_clusters == split.n_clusters == 30
    assert whole.errors[0].calibration != split.errors[0].calibration


def test_several_models():
    X, y, proba, cluster = in_clusters(20, 3, alike=True)
    models = {"one": proba, "two": np.clip(proba**2, 0, 1)}
    plain, robust = (compare(y, models, groups=groups) for groups in (None, cluster))
    for independent, clustered in zip(plain.differences, robust.differences, strict=True):
        if independent.quantity not in ("kernel", "refinement"):
            assert clustered.difference.standard_error > independent.difference.standard_error
    with pytest.raises(ValueError, match="not on the same samples: labels, weights, classes and g"):
        ComparisonReport([plain.reports["one"], robust.reports["two"]])
    fitted = {"logistic": LogisticRegression(), "flat": LogisticRegression(C=1e-4)}
    crossed = ComparisonReport.from_estimators(fitted, X, y, cv=3, groups=cluster)
    assert crossed.reports["flat"].findings.n_clusters == 20


def test_few_clusters_warn_once_for_all_models():
    _, y, proba, cluster = in_clusters(30, 4, alike=True, size=3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        compare(y, {"one": proba, "two": proba**2}, groups=cluster % 5)
    assert sum("groups has only 5 clusters" in str(warning.message) for warning in said) == 1


def named_of(X, y, proba, groups):
    """Rules of the groups that are named."""
    problem = check_problem(y, proba, groups=groups)
    comparison, _, _ = compare_groups(problem, encode_features(X), confidence_level=0.95)
    return [group.rule for group in comparison.named]


def test_groups_that_only_clusters_explain_are_not_named(rng):
    """A feature that is constant in a cluster: 10 data sets."""
    sets = [in_clusters(40, 200 + seed, alike=True) for seed in range(10)]
    assert sum(bool(named_of(X, y, proba, None)) for X, y, proba, _ in sets) >= 4
    assert sum(bool(named_of(X, y, proba, groups)) for X, y, proba, groups in sets) <= 1
    X, _, _, cluster = in_clusters(100, 5, alike=True)  # where a group differs, it is named
    X[:, 1] = rng.normal(size=len(X))
    y = (rng.random(len(X)) < expit(X[:, 0] + 1.5 * (X[:, 1] > 0) - 0.75)).astype(int)
    assert any("x1" in rule for rule in named_of(X, y, expit(X[:, 0]), cluster))
    assert differences_at_equal_scores(y, expit(X[:, 0]), X).named


@pytest.mark.parametrize("band", ["consistency", "confidence"])
@pytest.mark.parametrize("strategy", ["isotonic", "quantile", "kernel", "smooth"])
def test_bands_are_wider(strategy, band):
    _, y, proba, cluster = in_clusters(40, 6, alike=True)
    width = []
    options = {"strategy": strategy, "band": band, "n_resamples": 99}
    for groups in (None, cluster):
        display = ReliabilityDisplay.from_predictions(y, proba, groups=groups, **options)
        (curve,) = display.curves
        width.append(np.mean(curve.high - curve.low))
    assert width[1] > 1.2 * width[0]


@pytest.mark.parametrize(
    "smoother",
    [
        pytest.param(IsotonicSmoother(), marks=pytest.mark.slow),
        QuantileBins(5),
        SplineSmoother(),
        DirichletKernel(0.02),
    ],
)
def test_confidence_bands_cover(smoother):
    """At five scores, in 60 data sets of 50 clusters; without groups they do not."""
    held = []
    for seed in range(60):
        _, y, proba, cluster = in_clusters(50, 300 + seed, alike=True)
        for groups in (None, cluster):
            curve = make_curve(smoother, check_problem(y, proba, groups=groups))
            low, high = curve.confidence(0.95, 50, np.random.RandomState(0))
            places = np.array([0.25, 0.4, 0.5, 0.6, 0.75])
            if isinstance(smoother, QuantileBins):
                places = curve.prob_pred
            low, high = (np.interp(places, curve.prob_pred, limit) for limit in (low, high))
            held.append(np.mean((low <= places) & (places <= high)))
    assert np.mean(held[::2]) < 0.88
    assert 0.91 <= np.mean(held[1::2]) <= 0.995


def test_consistency_band_of_clusters_holds_the_curve_of_calibrated_forecasts():
    inside = []
    for seed in range(30):
        _, y, proba, cluster = in_clusters(50, 400 + seed, alike=True)
        for groups in (None, cluster):
            (band,) = corp_bands(y, proba, n_resamples=99, groups=groups)
            holds = (band.recalibrated >= band.low) & (band.recalibrated <= band.high)
            inside.append(np.mean(holds[(band.forecast > 0.2) & (band.forecast < 0.8)]))
    assert np.mean(inside[::2]) < 0.85 and np.mean(inside[1::2]) > 0.9


def test_correlation_of_the_residuals_of_a_cluster():
    residual, cluster = np.array([1.0, 1.0, -1.0, -1.0] * 500), np.repeat(np.arange(1000), 2)
    ones = np.ones(2000)
    assert intraclass_correlation(residual, ones, ones, cluster) == pytest.approx(1, abs=1e-9)
    assert intraclass_correlation(0 * ones, 0 * ones, ones, cluster) == 1  # by convention
    independent = np.random.default_rng(0).choice([-1.0, 1.0], 2000)
    assert intraclass_correlation(independent, ones, ones, cluster) < 0.1
