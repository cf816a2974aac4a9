"""Consistency resampling and the comparison of two models."""

import numpy as np
import pytest
from levels import need_level
from scipy.stats import t as student

import skcalib
from skcalib.datasets import make_tempered_simplex, make_widmann
from skcalib.kernels import LaplacianKernel

METRICS = [
    skcalib.calibration_error, skcalib.ks_calibration_error, skcalib.kernel_calibration_error,
    skcalib.errors.simplex_calibration_error, skcalib.proper_calibration_error,
    skcalib.root_brier_score,
]  # fmt: skip


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("resample", [True, False])
def test_any_error_of_the_library(metric, resample):
    simulation = make_tempered_simplex(80, 3, random_state=0)
    names = np.array(["c", "a", "b"])
    y, proba = names[simulation.y], simulation.y_proba
    options = {"n_resamples": 15, "random_state": 0}
    options |= {"resample_forecasts": resample, "labels": names}
    test = skcalib.significance.consistency_test(y, proba, metric=metric, **options)
    assert test.estimate == metric(y, proba, labels=names)
    stages = 1 + 15 * 2.0 ** np.arange(4)  # more draws while none is as large
    multiples = test.pvalue * stages
    assert np.isclose(multiples, multiples.round(), rtol=0, atol=1e-9).any()
    assert 1 / 121 <= test.pvalue <= 1


@pytest.mark.parametrize("resample", [False, True])
def test_labels_are_drawn_from_the_forecasts(resample):
    """In 400 draws: their frequencies within five standard errors, with the weight of their row."""
    p, seen = np.repeat([0.1, 0.4, 0.5, 0.9], 10), []
    y, weight = np.resize([0, 1, 0], 40), np.tile([1.0, 2.0], 20)

    def metric(y_true, y_proba, labels, sample_weight):
        seen.append((y_true, y_proba[:, 1], sample_weight))
        return np.average(y_true, weights=sample_weight)

    options = {"n_resamples": 400, "resample_forecasts": resample, "sample_weight": weight}
    test = skcalib.significance.consistency_test(y, p, metric=metric, **options)
    label, forecast, drawn_weight = (np.array(values[1:]) for values in zip(*seen, strict=True))
    for value in (0.1, 0.4, 0.5, 0.9):
        rows = forecast == value
        error = np.sqrt(value * (1 - value) / rows.sum())
        assert abs(label[rows].mean() - value) < 5 * error
    assert ((forecast == p).all(), (drawn_weight == weight).all()) == (not resample,) * 2
    means = (label * drawn_weight).sum(axis=1) / drawn_weight.sum(axis=1)
    above = np.sum(means >= test.estimate - 1e-9)
    assert len(label) == 400 and above > 1 and test.pvalue == (1 + above) / 401


@pytest.mark.slow
def test_labels_at_the_given_forecasts_make_an_exact_test():
    """Level .1 over 150 calibrated data sets, an error with a discrete law, ties and all."""
    rng = np.random.default_rng(0)
    pvalues = []
    for seed in range(150):
        p = rng.choice([0.1, 0.5, 0.9], 30)
        y = (rng.random(30) < p).astype(int)
        test = skcalib.significance.consistency_test(
            y, p, metric=skcalib.calibration_error, notion="canonical", n_bins=3, labels=[0, 1],
            n_resamples=19, resample_forecasts=False, random_state=seed,
        )  # fmt: skip
        pvalues.append(test.pvalue)
    need_level(pvalues, (0.05, 0.1, 0.5), errors=3)


def test_power_and_sentences():
    wrong = make_widmann(250, model="M2", random_state=0)
    test = skcalib.significance.consistency_test(
        wrong.y, wrong.y_proba, n_resamples=9, random_state=0, resample_forecasts=False
    )
    assert test.pvalue == 1 / (1 + 9 * 8) and "labels drawn at the given forecasts" in str(test)
    default = skcalib.significance.consistency_test(wrong.y, wrong.y_proba, n_resamples=1)
    assert default.method == "consistency resampling"


def test_a_metric_that_is_nan_for_some_labels_is_refused():
    def metric(y, p, labels):
        return np.nan if y[0] == 1 else np.mean(y)

    p = np.full(20, 0.5)
    for y in (np.arange(20) % 2, np.arange(1, 21) % 2):
        with pytest.raises(ValueError, match="The metric returned NaN"):
            skcalib.significance.consistency_test(
                y, p, metric=metric, n_resamples=39, random_state=0
            )


@pytest.mark.slow
def test_resampled_forecasts_reject_calibrated_ones():
    """W19: nearly always, for bins of the simplex; with the forecasts kept, at the level."""
    rejected = {True: 0, False: 0}
    for seed in range(30):
        samples = make_widmann(250, model="M1", random_state=seed)
        for resample in rejected:
            test = skcalib.significance.consistency_test(
                samples.y, samples.y_proba, metric=skcalib.errors.simplex_calibration_error,
                bins="uniform", labels=range(10), n_resamples=39, resample_forecasts=resample,
                random_state=seed,
            )  # fmt: skip
            rejected[resample] += test.rejects()
    assert rejected[True] >= 27
    assert rejected[False] <= 6


def test_comparison_says_which_model_is_better_and_uses_all_blocks():
    samples = make_tempered_simplex(900, 3, random_state=0)
    comparison = skcalib.compare_calibration(samples.y, samples.posterior, samples.y_proba)
    swapped = skcalib.compare_calibration(samples.y, samples.y_proba, samples.posterior)
    assert comparison.n_blocks == 30 and comparison.errors == pytest.approx(swapped.errors[::-1])
    assert comparison.estimate == pytest.approx(comparison.errors[0] - comparison.errors[1])
    assert comparison.estimate < 0 and "first model is better" in str(comparison)
    assert "second model is better" in str(swapped)
    same = skcalib.compare_calibration(samples.y, samples.y_proba, samples.y_proba)
    assert (same.estimate, same.pvalue, same.low, same.high) == (0, 1, 0, 0)
    assert "No significant difference" in str(same)


@pytest.mark.parametrize("notion", ["canonical", "top_label", "classwise"])
def test_comparison_by_hand(notion):
    """The unbiased errors of blocks of sixty, as pairs, with Student's law; M2 is much worse."""
    samples = make_tempered_simplex(1205, 3, random_state=0)
    options = {"notion": notion, "kernel": LaplacianKernel(0.4)}
    comparison = skcalib.compare_calibration(
        samples.y,
        samples.posterior,
        samples.y_proba,
        block_size=60,
        confidence_level=0.9,
        **options,
    )
    errors = np.array(
        [
            [
                skcalib.kernel_calibration_error(
                    samples.y[rows], p[rows], statistic="unbiased", labels=[0, 1, 2], **options
                )
                for rows in np.arange(1200).reshape(20, 60)
            ]
            for p in (samples.posterior, samples.y_proba)
        ]
    )
    difference = errors[0] - errors[1]
    error = difference.std(ddof=1) / np.sqrt(20)
    reach = student.ppf(0.95, 19) * error
    pvalue = 2 * student.sf(abs(difference.mean()) / error, 19)
    expected = [difference.mean(), error, pvalue, difference.mean() - reach]
    names = ("estimate", "standard_error", "pvalue", "low")
    assert [getattr(comparison, name) for name in names] == pytest.approx(expected, rel=1e-9)
    assert comparison.high == pytest.approx(difference.mean() + reach, rel=1e-9)
    assert comparison.errors == pytest.approx(errors.mean(axis=1), rel=1e-9)
    wrong = make_widmann(300, model="M2", random_state=0)
    pair = wrong.posterior, wrong.y_proba
    assert skcalib.compare_calibration(wrong.y, *pair, notion=notion).pvalue < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("notion", ["canonical", "top_label", "classwise"])
def test_level_of_the_comparison(notion):
    """Equal models are told apart in 5 % of 200 data sets."""
    pvalues = []
    for seed in range(200):
        samples = make_tempered_simplex(200, 3, random_state=seed)
        # Two models that are equally wrong: each knows half of the classes' temperatures.
        rng = np.random.default_rng(seed)
        swap = rng.random(200) < 0.5
        first = np.where(swap[:, None], samples.y_proba, samples.posterior)
        second = np.where(swap[:, None], samples.posterior, samples.y_proba)
        comparison = skcalib.compare_calibration(samples.y, first, second, notion=notion)
        pvalues.append(comparison.pvalue)
    need_level(pvalues, [0.05], errors=3)


@pytest.mark.slow
def test_coverage_of_the_comparison():
    """The interval holds the difference of two known errors: the mean over 200 data sets."""
    sets = [make_tempered_simplex(400, 3, random_state=seed) for seed in range(200)]
    options = {"kernel": "laplacian", "block_size": 20}
    results = [skcalib.compare_calibration(d.y, d.posterior, d.y_proba, **options) for d in sets]
    truth = np.mean([r.estimate for r in results])
    covered = np.mean([r.low <= truth <= r.high for r in results])
    assert 0.90 < covered < 0.99  # about three standard errors of .015
