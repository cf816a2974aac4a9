"""Consistency resampling and the comparison of two models."""

import numpy as np
import pytest
from levels import need_level

import skcalib
from skcalib.datasets import make_tempered_simplex, make_widmann

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
        wrong.y, wrong.y_proba, n_resamples=99, random_state=0, resample_forecasts=False
    )
    assert 1 / 793 <= test.pvalue <= 0.01 and "labels drawn at the given forecasts" in str(test)
    assert (
        "consistency resampling"
        in skcalib.significance.consistency_test(wrong.y, wrong.y_proba).method
    )


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
def test_level_and_power_of_the_comparison(notion):
    """Equal models are told apart in 5 % of 200 data sets; a calibrated one from M2 always."""
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
    wrong = make_widmann(500, model="M2", random_state=0)
    right = wrong.posterior
    assert skcalib.compare_calibration(wrong.y, right, wrong.y_proba, notion=notion).pvalue < 1e-3


def test_coverage_of_the_comparison():
    """The interval holds the difference of two known errors: the mean over 200 data sets."""
    sets = [make_tempered_simplex(400, 3, random_state=seed) for seed in range(200)]
    options = {"kernel": "laplacian", "block_size": 20}
    results = [skcalib.compare_calibration(d.y, d.posterior, d.y_proba, **options) for d in sets]
    truth = np.mean([r.estimate for r in results])
    covered = np.mean([r.low <= truth <= r.high for r in results])
    assert 0.90 < covered < 0.99  # about three standard errors of .015
