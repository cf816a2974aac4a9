"""False alarms at any time, delays, and the same number for any division into batches."""

from itertools import product

import numpy as np
import pytest
from conftest import follow_a_power as several
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

from skcalib import CalibrationMonitor, SequentialCalibrationTest
from skcalib.data.notions import TopK
from skcalib.kernels import Kernel, LaplacianKernel, MatrixKernel
from skcalib.monitoring.sequential import KernelAlternatives, ScoreAlternatives
from skcalib.significance import combine_tests

NOTIONS = ("top_label", "classwise", "canonical")


def binary(n, kind, rng):
    """Forecasts and labels that are calibrated, too extreme, too high, or wrong in waves."""
    z = rng.normal(0, 1.5, n)
    p = expit(z)
    true = {
        "calibrated": p,
        "slope": expit(z / 1.4),
        "shift": expit(z - 0.3),
        "wave": np.clip(p + 0.08 * np.sin(6 * np.pi * p), 0, 1),
    }[kind]
    return (rng.random(n) < true).astype(int), p


@pytest.mark.parametrize(("largest", "length"), [(1e-4, 1), (0.5, 1), (0, 0)])
def test_tilts_have_the_length_one_unless_all_residuals_are_zero(largest, length):
    p, kernel = np.linspace(0, largest, 50), LaplacianKernel(0.5)
    alternatives = KernelAlternatives(kernel, 2)
    alternatives.advance(np.column_stack([1 - p, p]), np.tile([1.0, 0.0], (50, 1)), None)
    tilts = kernel(alternatives.landmarks, alternatives.landmarks) @ alternatives.used
    assert np.sqrt(np.square(tilts).sum(axis=1)).max() == pytest.approx(length)


def test_without_alternatives_for_one_sample():
    """One label of 1 for a forecast of 1/2: the average of the likelihood ratios by hand."""
    test = SequentialCalibrationTest(features=lambda p: np.empty((len(p), 0)))
    test.partial_fit([1], [0.5])
    sizes = np.array([0.6, -0.6, 0.3, -0.3, 0.15, -0.15])
    shift = np.exp(sizes) / (1 + 0.5 * np.expm1(sizes))
    # the slope feature of the first sample is 0, and a uniform distribution forecasts 1/2, too
    expected = (shift.mean() + 1 + 0.25) / 2.25
    assert test.log_e_value_ == pytest.approx(np.log(expected), abs=1e-12)
    assert test.pvalue_ == pytest.approx(min(1, 1 / max(expected, 1)))


def ratios_of_an_event(p, y, harmonics=(4, 2)):
    """Likelihood ratios (n, A) of the alternatives of an event, and their prior: the definition."""
    logits, ratios = np.clip(logit(p), -15, 15), []
    sizes = np.array([0.6, -0.6, 0.3, -0.3, 0.15, -0.15])
    for k, (score, label) in enumerate(zip(p, y, strict=True)):
        mean = logits[:k].mean() if k else logits[0]
        variance = (np.sum(logits[:k] ** 2) + 16) / (k + 4) - mean**2 * k / (k + 4)
        position = np.clip((logits[k] - mean) / np.sqrt(max(variance, 0.05)), -4, 4)
        features = [1.0, position]
        for value, most in zip((score, norm.cdf(position)), harmonics, strict=True):
            angles = 2 * np.pi * np.arange(1, most + 1) * value
            features += [*np.sin(angles), *np.cos(angles)]
        tilt = np.outer(features, sizes).ravel()
        mixed = [1 + share * (0.5 / (score if label else 1 - score) - 1) for share in (0.1, 0.01)]
        ratios.append(np.append(np.exp(label * tilt) / (1 + score * np.expm1(tilt)), mixed))
    prior = np.repeat([1.0, 1.0] + [0.25] * (len(features) - 2), 6) / 6
    prior = np.append(prior, [0.125, 0.125])
    return np.array(ratios), prior / prior.sum()


def ratios_of_powers(p, y):
    """Those of powers of all probabilities, divided by their sum."""
    rows = np.arange(len(y))
    powers = [p**factor for factor in (0.5, 0.7, 0.85, 1.2, 1.4, 2.0)]
    ratios = [(q / q.sum(axis=1, keepdims=True))[rows, y] / p[rows, y] for q in powers]
    return np.column_stack(ratios), np.full(6, 1 / 6)


def ratios_of_a_kernel(p, y, kernel):
    """Those of tilts along sums of residuals, which are taken after 50, 55, 60, 66, 72, ..."""
    residual, used, next_use, ratios = np.eye(p.shape[1])[y] - p, 0.0, 50, []
    for k in range(len(y)):
        tilt = np.zeros((3, p.shape[1]))
        if k >= 50:
            tilt = np.outer([0.6, 0.3, 0.15], kernel(p[k : k + 1], p[:50]) @ used)
        ratios.append(np.exp(tilt[:, y[k]]) / (np.exp(tilt) @ p[k]))
        if k + 1 == next_use:
            sums = kernel(p[:50], p[: k + 1]) @ residual[: k + 1]
            length = np.sqrt(np.square(kernel(p[:50], p[:50]) @ sums).sum(axis=1).max())
            used, next_use = sums / length, int(1.1 * (k + 1))
    return np.array(ratios), np.full(3, 1 / 3)


def test_the_statistics_by_hand():
    """The e-value of fixed time, and the sum over starts of a monitor, of all alternatives."""
    for notion in ("top_label", "classwise", "cumulative", "canonical", "kernel"):
        rng, kernel = np.random.default_rng(4), LaplacianKernel(0.5)
        n = 80 if notion == "kernel" else 12
        y, p = several(n, rng, power=0.3)
        p[3] = [1e-7, 1 - 2e-7, 1e-7]  # a logit that is cut
        weight = np.linspace(0.2, 1, n)
        top = p.max(axis=1), y == p.argmax(axis=1)
        columns = [(p[:, k], y == k) for k in range(3)]
        if notion == "kernel":
            options, streams = {"features": kernel}, [(1, ratios_of_a_kernel(p, y, kernel))]
        elif notion == "canonical":
            streams = [(1 / 3, ratios_of_an_event(*top)), (1 / 3, ratios_of_powers(p, y))]
            streams += [
                (1 / 9, ratios_of_an_event(*column, harmonics=(0, 0))) for column in columns
            ]
            options = {"notion": notion}
        else:
            events = {"top_label": [top], "classwise": columns}
            sums = p.cumsum(axis=1)
            events["cumulative"] = [(sums[:, k], y <= k) for k in range(2)]
            streams = [(1 / len(events[notion]), ratios_of_an_event(*e)) for e in events[notion]]
            options = {"notion": notion}
        path = [
            sum(share * np.cumprod(ratios**w, axis=0) @ prior for share, (ratios, prior) in streams)
            for w in (1.0, weight[:, None])
        ]
        for e_values, w in zip(path, (None, weight), strict=True):
            test = SequentialCalibrationTest([0, 1, 2], **options).partial_fit(y, p, w)
            assert test.log_e_value_ == pytest.approx(np.log(e_values[-1]), abs=1e-9)
            assert test.pvalue_ == pytest.approx(min(1, 1 / e_values.max()), rel=1e-9)
            assert test.path_[1:, 1] == pytest.approx(np.log(e_values), abs=1e-9)
        statistic = 0.0
        for share, (ratios, prior) in streams:
            total = np.zeros(len(prior))
            for ratio in ratios:
                total = (total + 1) * ratio
            statistic += share * prior @ total
        monitor = CalibrationMonitor([0, 1, 2], alpha=1e-9, **options).partial_fit(y, p)
        assert monitor.log_statistic_ == pytest.approx(np.log(statistic), abs=1e-9)


@pytest.mark.parametrize("notion", NOTIONS)
def test_a_label_of_probability_zero_is_a_proof(notion):
    """Certain forecasts that are right are no evidence; an infinite e-value comes back."""
    test = SequentialCalibrationTest(notion=notion)
    test.partial_fit([0, 1, 1], [[0.5, 0.5], [1, 0], [0.4, 0.6]])
    assert (test.log_e_value_, test.pvalue_) == (np.inf, 0)
    assert test.rejected_at_ == 2 and str(test.evidence())
    copy = SequentialCalibrationTest.from_bytes(test.to_bytes())
    assert copy.pvalue_ == test.pvalue_ < 1
    assert (copy.log_e_value_, copy.rejected_at_) == (np.inf, 2)
    copy.partial_fit([0, 1], [[0.3, 0.7], [0.4, 0.6]])
    assert (copy.log_e_value_, copy.n_samples_seen_) == (np.inf, 5)
    test = SequentialCalibrationTest(notion=notion).partial_fit([0, 1, 0], [0.0, 1.0, 0.0])
    assert test.log_e_value_ <= 0 and test.pvalue_ == 1
    assert test.evidence() is None and not test.rejected_


@pytest.mark.parametrize(
    ("kind", "direction"), [("slope", "too_extreme"), ("shift", "too_high"), ("wave", "uneven")]
)
def test_the_direction(kind, direction):
    rng = np.random.default_rng(1)
    test = SequentialCalibrationTest().partial_fit(*binary(5000, kind, rng))
    assert test.rejected_ and test.evidence().direction == direction


def test_the_change_and_the_range_are_found():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=6000)
    wrong = (p > 0.7) & (np.arange(6000) >= 2000)
    y = rng.random(6000) < np.where(wrong, p - 0.2, p)
    test = SequentialCalibrationTest().partial_fit(y[2000:2010], p[2000:2010])
    assert test.log_e_value_ > 0 and not test.rejected_ and test.evidence() is None
    evidence = SequentialCalibrationTest().partial_fit(y, p).evidence()
    assert abs(evidence.since - 2000) < 500
    assert abs(evidence.low - 0.7) < 0.06 and evidence.high > 0.95 and evidence.difference < -0.08
    assert f"too high for scores from {evidence.low:.2g} to 1" in str(evidence)
    assert f"{evidence.since + 1:,}" in str(evidence)


def test_records_of_two_streams():
    tests = streams(2, 800, "slope", 0)
    records = [test.to_test() for test in tests]
    assert records[0].e_value == pytest.approx(np.exp(tests[0].log_e_value_))
    assert records[0].pvalue >= tests[0].pvalue_ and records[0].method == "stream, auto"
    assert records[0].estimate == pytest.approx(tests[0].log_e_value_ / 800)
    together = combine_tests(records)
    assert together.statistic == pytest.approx(sum(test.log_e_value_ for test in tests))
    proof = SequentialCalibrationTest().partial_fit([1], [0.0]).to_test()
    assert (proof.e_value, proof.pvalue) == (np.inf, 0)


class Own(Kernel):
    def __call__(self, x, y):
        return np.ones((len(x), len(y)))


def test_functions_and_kernels_of_users_are_passed_again():
    read, kernel = SequentialCalibrationTest.from_bytes, Own()
    functions, kernels, plain = (
        SequentialCalibrationTest(features=features).partial_fit([0, 1], [0.2, 0.7]).to_bytes()
        for features in (np.sin, kernel, "auto")
    )
    for state, options, words in (
        (functions, {}, "pass it again, SequentialCalibrationTest.from_bytes"),
        (functions, {"features": lambda p: np.outer(p, [1, 2])}, "does not fit its parameters"),
        (kernels, {}, "cannot be written: pass it again"),
        (plain, {"features": np.sin}, "features='auto': leave out features"),
    ):
        with pytest.raises(ValueError, match=words):
            read(state, **options)
    assert read(kernels, features=kernel).to_bytes() == kernels


@pytest.mark.parametrize("kind", [SequentialCalibrationTest, CalibrationMonitor])
def test_an_error_in_the_middle_changes_nothing(kind):
    def fails(score):
        if np.any(score == 0.9):
            raise RuntimeError("no features")
        return score

    test = kind(features=fails).partial_fit([0, 1], [0.2, 0.7])
    before, y = test.to_bytes(), np.tile([0, 1], 3000)
    p = np.full(6000, 0.5)
    p[5000] = 0.9  # in the second block
    with pytest.raises(RuntimeError, match="no features"):
        test.partial_fit(y, p)
    assert test.to_bytes() == before and test.n_samples_seen_ == 2
    again = kind.from_bytes(before, features=fails).partial_fit(y[:5000], p[:5000])
    assert again.to_bytes() == test.partial_fit(y[:5000], p[:5000]).to_bytes()
    new = kind(features=fails)
    with pytest.raises(RuntimeError):
        new.partial_fit(y, p)
    assert not hasattr(new, "classes_")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"notion": TopK(2)}, "notion must be 'auto', 'top_label', 'classwise', 'cumulative' or"),
        ({"features": LaplacianKernel()}, "depends on data"),
        ({"features": MatrixKernel(LaplacianKernel(0.3))}, "whose values are numbers"),
        ({"features": lambda p: np.full((len(p), 1), np.nan)}, "numbers between -10 and 10"),
        ({"features": lambda p: np.ones(7)}, r"shape \(2, J\) for 2 scores, got shape \(7,\)"),
        ({"features": lambda p: np.ones((len(p), len(p)))}, "always return 1 columns, got 2"),
        ({"labels": [0]}, "label"),
        ({"alpha": 1.5}, "alpha must lie strictly between 0 and 1, got 1.5"),
    ],
)
def test_bad_parameters(parameters, words):
    with pytest.raises(ValueError, match=words):
        SequentialCalibrationTest(**parameters).partial_fit([0, 1], [0.2, 0.7])


def test_labels_that_need_a_list_and_the_path():
    with pytest.raises(ValueError, match="labels must list the classes"):
        SequentialCalibrationTest().partial_fit(["no", "yes"], [0.2, 0.7])
    test = SequentialCalibrationTest(["no", "yes"]).partial_fit(["no"], [0.2])
    assert test.classes_.tolist() == ["no", "yes"]
    assert SequentialCalibrationTest().partial_fit([True], [0.2]).classes_.tolist() == [False, True]
    assert SequentialCalibrationTest().partial_fit([1], [0.2]).n_samples_seen_ == 1
    y, p = binary(9001, "calibrated", np.random.default_rng(0))
    test = SequentialCalibrationTest().partial_fit(y, p)
    path = test.path_
    assert len(path) <= 2002 and path[0].tolist() == [0, 0]
    assert path[-1].tolist() == [9001, test.log_e_value_] and (np.diff(path[:, 0]) > 0).all()


@pytest.mark.parametrize("kind", [SequentialCalibrationTest, CalibrationMonitor])
def test_before_the_first_sample_and_fit(kind):
    stream = kind()
    told = [stream.summary] if kind is CalibrationMonitor else [stream.evidence, stream.to_test]
    for call in (*told, stream.to_bytes, lambda: stream.path_):
        with pytest.raises(NotFittedError):
            call()
    stream.partial_fit([0, 1], [0.2, 0.7])
    assert stream.fit([0], [0.5]).n_samples_seen_ == 1


@pytest.mark.parametrize("notion", NOTIONS)
def test_the_expectation_over_all_labels_is_one(notion):
    """At a fixed time, exactly, and at most 1 with weights."""
    p = np.array([[0.9, 0.05, 0.05], [0.02, 0.97, 0.01], [0.5, 0.3, 0.2], [0.3, 0.3, 0.4]])
    if notion == "top_label":
        p = np.column_stack([1 - p[:, 0], p[:, 0]])
    for weight in (None, np.linspace(0.2, 1, 4)):
        total = 0.0
        for y in product(range(p.shape[1]), repeat=4):
            test = SequentialCalibrationTest(notion=notion).partial_fit(np.array(y), p, weight)
            total += p[np.arange(4), list(y)].prod() * test.to_test().e_value
        assert total == pytest.approx(1, abs=1e-12) if weight is None else total <= 1


def streams(n_streams, n, kind, seed):
    """Tests of so many streams."""
    draws = (binary(n, kind, np.random.default_rng([seed, k])) for k in range(n_streams))
    return [SequentialCalibrationTest().partial_fit(y, p) for y, p in draws]


@pytest.mark.slow
def test_false_alarms_of_short_streams():
    """120 streams of 1,000: at most alpha + 3 standard errors at any time."""
    rejected = np.mean([stream.rejected_ for stream in streams(120, 1000, "calibrated", 0)])
    assert rejected <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 120)


STREAMS = dict(binary=500, adversarial=200, kernel=200, top_label=120, classwise=70, canonical=70)


@pytest.mark.slow
@pytest.mark.parametrize(("notion", "n_streams"), STREAMS.items())
def test_false_alarms_over_all_times(notion, n_streams):
    """Streams of 5,000: at most alpha + 2 standard errors; also true of 500 streams of each."""
    rejected = []
    for k in range(n_streams):
        rng = np.random.default_rng([7, k])
        parameters = {"features": LaplacianKernel(0.3)} if notion == "kernel" else {}
        if notion in NOTIONS:
            parameters["notion"] = notion
        y, p = several(5000, rng) if notion in NOTIONS else binary(5000, "calibrated", rng)
        if notion == "adversarial":  # the next forecast follows the last residual
            p = np.empty(5000)
            y, last = np.empty(5000, dtype=int), 0.5
            for t, (uniform, draw) in enumerate(rng.random((5000, 2)).tolist()):
                score = 0.02 + 0.96 * (uniform**4 if last > 0 else 1 - uniform**4)
                p[t], y[t] = score, draw < score
                last = float(draw < score) - score
        test = SequentialCalibrationTest(**parameters)
        for rows in np.split(np.arange(5000), 10):  # the fastest; any size is the same
            test.partial_fit(y[rows], p[rows])
        rejected.append(test.rejected_)
    assert np.mean(rejected) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n_streams)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "most"), [("slope", 892), ("shift", 975), ("wave", 2000)])
def test_delays(kind, most):
    """Median number of samples to a rejection, of 100 streams."""
    at = [stream.rejected_at_ or np.inf for stream in streams(100, 4000, kind, 1)]
    assert np.median(at) <= most


def test_a_common_direction_is_that_of_both_halves_of_the_samples():
    alternatives = ScoreAlternatives()
    for residual, expected in (
        ([3, -2.9, 3, 3], None), ([2, 0, 1, 1], "too_low"), ([-2, 0, -1, -1], "too_high"),
    ):  # fmt: skip
        alternatives.cells = np.array([[4.0] * 4, residual, [2.0] * 4])
        assert alternatives.common_direction(alternatives.cells) == expected
