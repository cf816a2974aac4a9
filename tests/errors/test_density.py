"""The error by kernel density estimates: by loops, the truth, its bias, ties and weights."""

from itertools import product

import numpy as np
import pytest
from grids import covering
from scipy.fft import next_fast_len

from skcalib import calibration_error_interval
from skcalib.data.notions import Classwise
from skcalib.errors import kde_calibration_error


def scott(score, weight=None):
    """The bandwidth by the formula."""
    weight = np.ones(len(score)) if weight is None else weight
    spread = np.sqrt(np.cov(score, ddof=0, aweights=weight))
    return min(spread * (2 * weight.sum() ** 2 / np.sum(weight**2)) ** -0.2, 1 / 3)


def error_of(places, mass, events, z, power, h):
    """The mean over z of the distance of two densities, of mass and of events at the places."""
    density, joint = np.zeros((2, len(z)))
    for place, of_all, of_events in zip(places, mass, events, strict=True):
        distances = z - place, z + place, z + place - 2
        kernel = sum(np.maximum(1 - (u / (3 * h)) ** 2, 0) ** 3 for u in distances)
        density += of_all * kernel
        joint += of_events * kernel
    density[[0, -1]], joint[[0, -1]] = density[[0, -1]] / 2, joint[[0, -1]] / 2
    some = density > 0
    return np.average(np.abs(joint[some] / density[some] - z[some]) ** power, weights=density[some])


def on_a_grid(event, score, power, h, weight, n_steps):
    """The same grid: each score is shared by two nodes, and each node sums over all of them."""
    left, right = max(min(score) - 3 * h, 0), min(max(score) + 3 * h, 1)
    z = np.linspace(left, right, n_steps + 1)
    share = np.maximum(1 - np.abs(z[:, None] - score) * n_steps / (right - left), 0)
    return error_of(z, share @ weight, share @ np.multiply(event, weight), z, power, h)


def exactly(event, score, power, h, weight):
    """Kernels at the scores themselves, integrated over 4000 intervals."""
    events = np.multiply(event, weight)
    return error_of(score, weight, events, np.linspace(0, 1, 4001), power, h)


def n_steps_of(score, h):
    """The number of intervals of the grid, from its definition in the notes."""
    left, right = max(min(score) - 3 * h, 0), min(max(score) + 3 * h, 1)
    return next_fast_len(int(np.ceil((right - left) / h * 64)), real=True)


def problems_of(y, proba, notion):
    if notion == "top_label":
        return [(y == proba.argmax(axis=1), proba.max(axis=1))]
    return [(y == k, proba[:, k]) for k in range(notion == "canonical", proba.shape[1])]


def test_by_loops(binary, multiclass):
    for notion, power, weighted in covering(
        ["top_label", "classwise", "canonical"], [1, 1.5, 2], [False, True]
    ):
        y, proba = (array[:40] for array in (binary if notion == "canonical" else multiclass))
        weight = np.random.default_rng(0).uniform(0.2, 3, len(y)) if weighted else np.ones(len(y))
        means, close = [], []
        for event, score in problems_of(y, proba, notion):
            h = scott(score, weight)
            arguments = {"event": event, "score": score, "power": power, "h": h, "weight": weight}
            means.append(on_a_grid(**arguments, n_steps=n_steps_of(score, h)))
            close.append(exactly(**arguments))
        options = {"notion": notion, "norm": power, "labels": range(proba.shape[1])}
        given = weight if weighted else None
        error = kde_calibration_error(y, proba, sample_weight=given, **options)
        assert error == pytest.approx(np.mean(means) ** (1 / power), rel=1e-10)
        assert error == pytest.approx(np.mean(close) ** (1 / power), rel=1e-3)
        assert type(error) is float
        if notion == "classwise":
            total = kde_calibration_error(y, proba, **options | {"notion": Classwise("sum")})
            mean = kde_calibration_error(y, proba, **options)
            assert total == pytest.approx(3 ** (1 / power) * mean)


def test_given_bandwidths_by_loops():
    """Kernels that reach one end, both ends or neither."""
    rng = np.random.default_rng(0)
    scores = rng.beta(0.3, 0.3, 50), 0.4 + 0.01 * rng.random(50), np.r_[0.0, rng.random(9)]
    for h, score in product([0.003, 0.05, 1 / 3], scores):
        y = rng.random(len(score)) < score**2
        arguments = {"event": y, "score": score, "power": 1, "h": h, "weight": np.ones(len(score))}
        error = kde_calibration_error(y, score, bandwidth=h)
        if n_steps_of(score, h) < 5000:
            on_grid = on_a_grid(**arguments, n_steps=n_steps_of(score, h))
            assert error == pytest.approx(on_grid, rel=1e-10)
        assert error == pytest.approx(exactly(**arguments), rel=2e-3)


def test_smoothing_moves_few_distinct_scores():
    """By 105 / 128 h, the mean of |u|: two values, zeros and ones."""
    score = np.repeat([0.3, 0.7], 1000)
    y = np.tile(np.arange(10), 200) < np.round(10 * score)
    for h in (0.01, 0.05):
        error = kde_calibration_error(y, score, bandwidth=h)
        assert error == pytest.approx(105 / 128 * h, rel=1e-3)
    y = np.repeat([0, 1], 500)
    right, wrong = y.astype(float), 1.0 - y
    moved = 105 / 128 * scott(right)
    assert kde_calibration_error(y, right) == pytest.approx(moved, rel=1e-3)
    assert kde_calibration_error(y, wrong) == pytest.approx(1 - moved, rel=1e-3)


@pytest.mark.slow
def test_a_grid_of_very_many_nodes_is_limited():
    y = np.repeat([0, 1], 500)
    assert kde_calibration_error(y, 1.0 - y, bandwidth=1e-9) == pytest.approx(1, abs=1e-3)
    score = np.r_[np.repeat(0.5 + 1e-8 * np.random.default_rng(0).random(50), 2), 0.9]
    y, weight = np.r_[np.tile([0, 1], 50), 1], np.r_[np.ones(100), 1e-20]
    error = kde_calibration_error(y, score, sample_weight=weight)
    assert error == pytest.approx(105 / 128 * 0.4 * 2**-14, rel=0.01)


def test_equal_scores():
    """No spread: the distance of the frequency from the score."""
    y = [0, 0, 1, 1, 1, 0]
    for norm, score in product(["l1", "l2", 7.5], [0.0, 1e-300, 0.3, 1.0]):
        error = kde_calibration_error([0, 0, 1, 1, 1], [score] * 5, norm=norm)
        assert error == pytest.approx(abs(0.6 - score), rel=1e-12)
        narrow = kde_calibration_error([0, 0, 1, 1, 1], [score] * 5, norm=norm, bandwidth=1e-300)
        assert narrow == error
        one = kde_calibration_error([1], [0.75], labels=[0, 1], norm=norm)
        assert one == pytest.approx(0.25)
        error = kde_calibration_error(y, 0.3 + 1e-16 * np.arange(6), norm=norm)
        assert error == pytest.approx(0.2, rel=1e-9)
        weighted = kde_calibration_error(y, [0.3] * 6, norm=norm, sample_weight=[1, 1, 4, 4, 4, 6])
        assert weighted == pytest.approx(0.3, rel=1e-12)


def test_its_only_interval_is_a_bootstrap_that_is_not_valid(binary):
    y, proba = binary
    options = {"method": "bootstrap", "n_resamples": 20, "norm": "l2"}
    bootstrap = calibration_error_interval(y, proba, metric=kde_calibration_error, **options)
    assert not bootstrap.valid
