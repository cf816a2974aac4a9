"""`LabelShiftRecalibrator`: other class frequencies, against known truths."""

import numpy as np
import pytest
from dense_directions import labels_from
from numpy.testing import assert_allclose
from scipy.special import expit, softmax
from scipy.stats import chi2
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from skcalib import InterceptRecalibrator, LabelShiftRecalibrator
from skcalib.datasets import make_tempered_simplex
from skcalib.recalibration import BiasCorrectedTemperatureScaling

RARE = pytest.mark.filterwarnings("ignore:The class frequencies of the target are uncertain")


def shifted(n_samples, target, seed=0, **options):
    """Forecasts and labels of a population with the class frequencies `target`."""
    n_classes = len(target)
    world = make_tempered_simplex(6 * n_samples, n_classes, random_state=seed, **options)
    share = np.asarray(target) / (np.bincount(world.y, minlength=n_classes) / len(world.y))
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(rng.random(len(world.y)) < share[world.y] / share.max())[:n_samples]
    assert len(rows) == n_samples
    return world.posterior[rows], world.y_proba[rows], world.y[rows]


def by_bayes(proba, source, target):
    product = proba * (np.asarray(target) / source)
    return product / product.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("target", [[0.8, 0.2], [0.05, 0.95], [0.6, 0.3, 0.1]])
def test_the_frequencies_are_found(target):
    """At n = 20,000: frequencies within .02, and the log loss within .002 of the best map's."""
    source = np.full(len(target), 1 / len(target))
    for seed in range(2):
        proba, _, y = shifted(20_000, target, seed)
        shift = LabelShiftRecalibrator(source_prior=source).fit(proba)
        assert_allclose(shift.target_prior_, target, atol=0.02)
        assert np.all(shift.standard_error_ < 0.02)
        best = log_loss(y, by_bayes(proba, source, target))
        assert log_loss(y, shift.predict_proba(proba)) < best + 0.002
        assert log_loss(y, proba) > best + 0.01


def test_the_maximum_of_the_posterior_density():
    """The mean of p'_k is the frequency, with half a sample of each class added to it."""
    proba, _, _ = shifted(3000, [0.5, 0.4, 0.1])
    weight = np.random.default_rng(0).exponential(size=3000)
    shift = LabelShiftRecalibrator(source_prior=[1 / 3] * 3).fit(proba, sample_weight=weight)
    mean = np.average(shift.predict_proba(proba), axis=0, weights=weight)
    size = weight.sum() ** 2 / (weight**2).sum()
    assert_allclose((size * mean + 0.5) / (size + 1.5), shift.target_prior_, atol=1e-8)


def classes_apart(rng, n_samples, source, target, distance=2.0):
    """Forecasts that are calibrated on the source, and labels, with the frequencies `target`."""
    y = rng.choice(len(target), n_samples, p=target)
    features = rng.normal(size=(n_samples, len(target))) + distance * np.eye(len(target))[y]
    return softmax(np.log(source) + distance * features, axis=1), y


def test_a_source_of_unequal_frequencies():
    source, target = [0.6, 0.3, 0.1], [0.2, 0.3, 0.5]
    proba, y = classes_apart(np.random.default_rng(0), 20_000, source, target)
    shift = LabelShiftRecalibrator(source).fit(proba)
    assert_allclose(shift.target_prior_, target, atol=0.015)
    after = shift.predict_proba(proba)
    assert_allclose(after, by_bayes(proba, shift.source_prior_, target), atol=0.02)
    assert log_loss(y, after) < log_loss(y, proba) - 0.1


@pytest.mark.slow
@RARE
@pytest.mark.filterwarnings("ignore:The scores of the target are no mixture")
def test_limits_of_a_rare_class_and_the_test_of_the_assumption():
    """100 targets: a rare class without the prior got the frequency 0 +- 0 in 40 of them."""
    source, target = np.full(10, 0.1), np.array([0.11] * 9 + [0.01])
    rng, distance, low, chance = np.random.default_rng(0), [], [], []
    shift = LabelShiftRecalibrator().fit(*classes_apart(rng, 20_000, source, source))
    for _ in range(100):
        shift.adapt(classes_apart(rng, 200, source, target)[0])
        distance.append(np.abs(shift.target_prior_ - target) / shift.standard_error_)
        low.append(shift.target_prior_.min())
        chance.append(shift.pvalue_)
    assert np.mean(np.array(distance)[:, -1] < 1.96) > 0.9 and np.mean(distance) < 1
    assert min(low) > 1e-3 and np.mean(np.array(chance) < 0.1) < 0.2


@RARE
def test_a_shift_of_the_features_is_noticed():
    """P(Y|X) is the same and X is not: the frequencies of the classes do not describe this."""
    rng = np.random.default_rng(0)
    before, after = expit(2 * rng.normal(size=1000)), expit(2 * rng.normal(1.5, size=300))
    shift = LabelShiftRecalibrator().fit(before, rng.random(1000) < before)
    assert np.isnan(shift.pvalue_)
    words = r"no mixture of those of the classes of the source \(p = "
    with pytest.warns(UserWarning, match=words):
        shift.adapt(after)
    assert shift.pvalue_ < 0.001


def multinomial(share):
    return np.diag(share) - np.outer(share, share)


@RARE
@pytest.mark.filterwarnings("ignore:The scores of the target are no mixture")
@pytest.mark.parametrize("n_classes", [3, 2])
def test_standard_errors_and_the_test_by_their_formulas(n_classes):
    """Scores of samples, and of half a sample of each class, make the information."""
    rng = np.random.default_rng(0)
    before, proba = rng.dirichlet(np.full(n_classes, 0.4), (2, 100))
    y, weight = labels_from(before, rng), rng.uniform(0.5, 2, (2, 100))
    shift = LabelShiftRecalibrator().fit(before, y, weight[0]).adapt(proba, weight[1])
    of_source, share = weight / weight.sum(axis=1, keepdims=True)
    assert_allclose(shift.source_prior_, of_source @ before, rtol=1e-12)
    prior, after, size = shift.target_prior_, shift.predict_proba(proba), 1 / (share @ share)
    mean = share @ after
    centred, half = after - mean, np.eye(n_classes) - prior
    covariance = (centred.T * share) @ centred
    pull = size * np.outer(mean - prior, mean - prior) + 0.5 * half.T @ half
    slope = multinomial(prior) @ np.linalg.pinv(size * covariance + pull)
    log_frequency = of_source[:, None] * (before / shift.source_prior_ - 1)
    within = size * (multinomial(mean) - covariance)
    noise = size**2 * (centred.T * share**2) @ centred + pull
    noise += within @ log_frequency.T @ log_frequency @ within
    errors = np.sqrt(np.diag(slope @ noise @ slope.T))
    assert_allclose(shift.standard_error_, errors, rtol=1e-6)
    # Pearson's test of ten intervals of the score, with the noise of both samples.
    scores = [p[:, 1] if n_classes == 2 else p.max(axis=1) for p in (before, proba)]
    ends = np.sort(scores[0])
    ends = (ends[9:99:10] + ends[10::10]) / 2
    marks = [np.eye(10)[np.searchsorted(ends, score)] for score in scores]
    of_class = np.eye(n_classes)[y].T * of_source
    frequency = of_class @ marks[0] / of_class.sum(axis=1, keepdims=True)
    seen, expected = share @ marks[1], prior @ frequency
    residual = marks[1] - seen - size * centred @ slope.T @ frequency
    variance = (residual.T * share**2) @ residual
    variance += share @ share * (multinomial(expected) - multinomial(seen))
    for k in range(n_classes):
        n_effective = of_class[k].sum() ** 2 / np.sum(of_class[k] ** 2)
        variance += prior[k] ** 2 / n_effective * multinomial(frequency[k])
    inverse = np.linalg.pinv(variance, rcond=1e-9, hermitian=True)
    rank = np.linalg.matrix_rank(variance, rtol=1e-9, hermitian=True)
    statistic = (seen - expected) @ inverse @ (seen - expected)
    assert shift.pvalue_ == pytest.approx(chi2.sf(statistic, rank), rel=1e-5)


@pytest.mark.slow
def test_standard_errors_are_the_spread():
    """60 data sets: the spread has a relative error of .09."""
    targets = (shifted(800, [0.5, 0.3, 0.2], seed)[0] for seed in range(60))
    shifts = [LabelShiftRecalibrator(source_prior=[1 / 3] * 3).fit(shift) for shift in targets]
    stated = np.mean([shift.standard_error_ for shift in shifts], axis=0)
    assert_allclose(stated, np.std([shift.target_prior_ for shift in shifts], axis=0), rtol=0.3)


@pytest.mark.slow
@RARE
def test_classes_that_are_hardly_separated():
    """100 sources of 500 labels, whose frequencies, as exact ones, cover in .2 of the cases."""
    rng, target, errors, stated = np.random.default_rng(0), np.array([0.7, 0.3]), [], []
    for _ in range(100):
        shift = LabelShiftRecalibrator().fit(*classes_apart(rng, 500, [0.5, 0.5], [0.5, 0.5], 0.5))
        shift.adapt(classes_apart(rng, 4000, [0.5, 0.5], target, 0.5)[0])
        errors.append(shift.target_prior_[0] - target[0])
        stated.append(shift.standard_error_[0])
    assert 0.9 <= np.mean(np.abs(errors) < 1.96 * np.array(stated)) <= 0.99
    assert_allclose(np.mean(stated), np.std(errors), rtol=0.2)
    assert np.std(errors) < 0.08  # by the frequencies of labels .17


def test_the_strength_of_a_shift_has_the_highest_evidence():
    """By Laplace's approximation, of eight strengths."""
    rng, chosen = np.random.default_rng(0), set()
    for n_samples, size in ((60, 0.0), (100, 0.2), (100, 0.5), (200, 1.0), (200, 2.0)):
        proba = rng.dirichlet(np.ones(4), n_samples)
        y = labels_from(softmax(np.log(proba) + size * np.arange(4), axis=1), rng)
        evidence = {}
        for strength in (1000, 300, 100, 30, 10, 3, 1, 0.3):
            shift = InterceptRecalibrator(shrinkage=strength, labels=range(4)).fit(proba, y)
            p, b = shift.predict_proba(proba), shift.intercept_
            assert_allclose(
                p.sum(axis=0) - np.bincount(y, minlength=4) + strength * b, 0, atol=1e-3
            )
            hessian = np.eye(4) + (np.diag(p.sum(axis=0)) - p.T @ p) / strength
            likelihood = np.log(p[np.arange(n_samples), y]).sum() - strength * b @ b / 2
            evidence[strength] = likelihood - np.linalg.slogdet(hessian)[1] / 2
        chosen.add(max(evidence, key=evidence.get))
        automatic = InterceptRecalibrator(shrinkage="auto", labels=range(4)).fit(proba, y)
        assert automatic.shrinkage_ == max(evidence, key=evidence.get)
    assert len(chosen) > 2


def test_known_frequencies_and_undersampling():
    p = np.random.default_rng(0).random(200)
    rate = 0.1  # of the negatives were kept
    sampled = p / (p + rate * (1 - p))
    for m in (0.02, 0.5):
        source = np.array([rate * (1 - m), m]) / (rate * (1 - m) + m)
        shift = LabelShiftRecalibrator(source_prior=source, target_prior=[1 - m, m])
        assert_allclose(shift.fit(sampled).predict_proba(sampled)[:, 1], p)
        assert_allclose(shift.standard_error_, 0)
    same = LabelShiftRecalibrator([0.3, 0.7], [0.3, 0.7]).fit(p)
    assert_allclose(same.predict_proba(p)[:, 1], p)
    assert same.injective_ and same.preserves_argmax_
    assert not shift.preserves_argmax_


def test_behind_a_recalibrator_in_a_pipeline():
    source = make_tempered_simplex(10_000, 2, score_temperature=0.5, random_state=7)
    posterior, proba, y = shifted(10_000, [0.85, 0.15], score_temperature=0.5)
    chain = make_pipeline(BiasCorrectedTemperatureScaling(), LabelShiftRecalibrator())
    chain.fit(source.y_proba, source.y)
    assert_allclose(chain[-1].source_prior_, np.bincount(source.y) / 10_000)
    assert_allclose(chain[-1].target_prior_, chain[-1].source_prior_)
    assert_allclose(chain.predict_proba(proba), chain[0].predict_proba(proba))
    chain[-1].adapt(chain[:-1].transform(proba))
    best = log_loss(y, by_bayes(posterior, [0.5, 0.5], [0.85, 0.15]))
    assert log_loss(y, chain.predict_proba(proba)) < best + 0.004
    alone = LabelShiftRecalibrator(chain[-1].source_prior_)
    frozen = make_pipeline(FrozenEstimator(chain[0]), alone)
    assert_allclose(frozen.fit(proba).predict_proba(proba), chain.predict_proba(proba))


def test_labels_of_classes_and_logits():
    proba, _, y = shifted(2000, [0.7, 0.3])
    names = np.array(["no", "yes"])
    of_proba = LabelShiftRecalibrator([0.5, 0.5], labels=names).fit(proba)
    logits = LabelShiftRecalibrator([0.5, 0.5], input="logits").fit(np.log(proba))
    assert_allclose(logits.target_prior_, of_proba.target_prior_, atol=1e-6)
    with_labels = LabelShiftRecalibrator(target_prior=[0.9, 0.1]).fit(proba, names[y])
    assert with_labels.classes_.tolist() == ["no", "yes"]
    assert_allclose(with_labels.source_prior_, proba.mean(axis=0))


def test_classes_that_may_be_absent_and_frequencies_that_are_uncertain():
    """A class that neither population has is not changed."""
    proba, y = np.random.default_rng(0).dirichlet(np.ones(3), 40), np.arange(40) % 2
    shift = LabelShiftRecalibrator(labels=[0, 1, 2]).fit(proba, y)
    np.testing.assert_array_equal(shift.predict_proba(proba), proba)
    proba, _, _ = shifted(5000, [0.5, 0.49999, 0.00001])
    with pytest.warns(UserWarning, match=r"to 0\.01\d, and the classes \[2\] may be absent"):
        fitted = LabelShiftRecalibrator([1 / 3] * 3).fit(proba)
    assert fitted.target_prior_[2] < 0.01 and fitted.target_prior_.min() > 0
    assert_allclose(fitted.predict_proba(np.eye(3)), np.eye(3))
    near = 0.5 + 0.01 * np.random.default_rng(0).normal(size=50)
    for p, words in (
        (near, "target are uncertain: their standard errors are up to"),
        (np.full(20, 0.5), r"standard errors are up to 0\.5, and the classes \[0, 1\]"),
    ):
        with pytest.warns(UserWarning, match=words):
            fitted = LabelShiftRecalibrator([0.5, 0.5]).fit(p)
        assert not np.isnan(fitted.predict_proba([0.1, 0.5])).any()
    last = np.where(np.arange(60) % 4 == 0, 0.999, 0.001)  # the last of three classes is clear
    first, second = (np.linspace(*ends, 60) * (1 - last) for ends in ((0.2, 0.8), (0.8, 0.2)))
    with pytest.warns(UserWarning, match=r"standard errors are up to 0\.1\d\. The forecasts"):
        LabelShiftRecalibrator([1 / 3] * 3).fit(np.column_stack([first, second, last]))


FREQUENCY = "source_prior must have a positive frequency for each of the 2"
HALVES = {"source_prior": [0.5, 0.5]}


def test_what_is_refused():
    for parameters, message in (
        ({}, "requires y to be passed, but the target y is None: pass labels, or as"),
        ({"source_prior": [0.5, 0.6]}, FREQUENCY),
        ({"source_prior": [0.5, 0.25, 0.25]}, FREQUENCY),
        ({"source_prior": [1.0, 0.0]}, FREQUENCY),
        ({**HALVES, "target_prior": "auto"}, "target_prior must be 'em' or the"),
        ({**HALVES, "target_prior": [np.nan, 1]}, "target_prior must have a positive"),
        ({**HALVES, "labels": [0, 1, 2]}, "labels lists 3 classes, but X has 2"),
    ):
        with pytest.raises(ValueError, match=message):
            LabelShiftRecalibrator(**parameters).fit([0.2, 0.7, 0.4])
    lacking = LabelShiftRecalibrator(labels=[0, 1, 2]).fit(np.full((4, 3), 1 / 3), [0, 1, 1, 0])
    assert_allclose(lacking.predict_proba(np.eye(3)), np.eye(3))
    known = LabelShiftRecalibrator([0.5, 0.5], [0.4, 0.6]).fit([0.2, 0.3])
    unfitted = LabelShiftRecalibrator([0.5, 0.5])
    absent = r"The source has no samples of the classes \[2\], or"
    of_two = "X has 3 columns, but LabelShiftRecalibrator was fitted"
    impossible = r"Every forecast gives probability 0 to the classes \[1"
    for call, proba, error, message in (
        (lacking.adapt, np.full((4, 3), 1 / 3), ValueError, absent),
        (unfitted.adapt, [0.3, 0.4], NotFittedError, "not fitted yet"),
        (unfitted.fit, [0.0, 0.0], ValueError, impossible),
        (known.adapt, np.eye(3), ValueError, of_two),
    ):
        with pytest.raises(error, match=message):
            call(proba)
