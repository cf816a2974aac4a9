"""Binned errors: the door that reads chunks, means with known truth, an order of all errors."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import peak_memory
from doc_studies import load, needs_studies
from scipy.special import softmax

from skcalib import calibration_error, ks_calibration_error, root_brier_score
from skcalib.data.notions import ClassGroups, Classwise, Notion, TopK, TopLabel
from skcalib.data.problem import check_problem
from skcalib.errors import simplex_calibration_error
from skcalib.errors.binned import expected_binned_error, folded_normal_mean, uniform_edges
from skcalib.smoothers import LevelSets

study = load("published_numbers")


class Reversed(Notion):
    """A notion that the door does not know."""

    def problems(self, forecast, target):
        yield forecast[:, ::-1][:, :2], target[:, ::-1][:, :2]


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "notion", [TopLabel(), Classwise(), ClassGroups([[0]]), TopK(1), Reversed()], ids=str
)
@pytest.mark.parametrize("weighted", [False, True])
def test_events_are_the_second_columns_of_the_problems(
    n_classes, notion, weighted, forecasts, set_sizes
):
    """In chunks of any size, for bins with known edges and for those of equal mass."""
    y, proba = forecasts(500, n_classes)
    weight = np.random.default_rng(0).integers(3, size=500) if weighted else None
    problems = [(t[:, 1], s[:, 1]) for s, t in notion.problems(proba, np.eye(n_classes)[y])]
    options = {"sample_weight": weight, "norm": "l2", "squared": True, "debiased": True}
    for n_bins, size in product((5, (0, 0.2, 0.4, 1)), (1 << 16, 256, 1)):
        set_sizes(block_entries=size)
        errors = [calibration_error(t, s, n_bins=n_bins, **options) for t, s in problems]
        error = calibration_error(y, proba, notion=notion, n_bins=n_bins, **options)
        assert error == pytest.approx(np.mean(errors), rel=1e-9)


def test_messages_name_the_row_of_any_chunk(binary):
    """Those of `check_problem`, with the number of the row."""
    y, proba = (np.repeat(array, 2000, axis=0) for array in binary)  # more than a chunk
    wrong = proba.copy()
    wrong[200_001] = 0.3, 0.3
    named = pd.DataFrame(binary[1], columns=[1, 0])
    for labels, forecast in ((y, wrong), (y, -proba), (binary[0], named)):
        with pytest.raises(ValueError) as ours:
            calibration_error(labels, forecast)
        with pytest.raises(ValueError) as theirs:
            check_problem(labels, forecast)
        assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_memory_stays_near_the_scores(strategy):
    """Ten million samples fit: no one-hot target, no index of eight bytes beside the input."""
    rng = np.random.default_rng(0)
    score = rng.random(400_000)
    y = (rng.random(400_000) < score).astype(int)
    calibration_error(y[:1000], score[:1000], strategy=strategy)
    _, peak = peak_memory(lambda: calibration_error(y, score, strategy=strategy))
    assert peak < 3 * score.nbytes


@pytest.fixture(scope="module")
def g22():
    """Logits of the simulation of G22, and how often the predicted class is right."""
    logits, right = study.gruber_logits()
    assert 0.8 < right.mean() < 0.9 and np.ptp(right) > 0.8
    return logits, right


@pytest.mark.slow
@needs_studies
@pytest.mark.parametrize(
    ("scale", "error"),
    [(1.0, 0.0), (1.5, 0.046), (2.5, 0.0816)],
    ids=["calibrated", "mediocre", "bad"],
)
def test_the_simulation_of_g22(g22, scale, error):
    """The ECE falls with n, most for calibrated forecasts; as predicted within 4 % for n >= 464.

    The published truth belongs to other matrices: twelve draws of ours had a true error of .079 to
    .091 for the bad model, and this one is like theirs. Standard errors of the means are below
    1.4 %. The published means are in doc/studies/published_numbers.py.
    """
    logits, right = g22
    score = softmax(scale * logits, axis=1).max(axis=1)
    cells = np.searchsorted(uniform_edges(15)[1:-1], score)
    mass = np.bincount(cells, minlength=15)
    full = mass > 0
    gap = np.bincount(cells, right - score, 15)[full] / mass[full]
    square = np.bincount(cells, right - 2 * right * score + score**2, 15)[full] / mass[full]
    share = mass[full] / len(score)
    assert np.mean(np.abs(right - score)) == pytest.approx(error, rel=0.02, abs=1e-12)

    rng = np.random.default_rng(0)
    options = {"strategy": "uniform", "n_bins": 15, "notion": "canonical", "labels": [0, 1]}
    mean_errors = {}
    for n_samples, n_draws in ((100, 1000), (464, 700), (1000, 600), (2154, 500), (10_000, 400)):
        errors = []
        for _ in range(n_draws):
            rows = rng.integers(len(score), size=n_samples)
            y = (rng.random(n_samples) < right[rows]).astype(int)
            errors.append(calibration_error(y, score[rows], **options))
        mean_errors[n_samples] = np.mean(errors)
        assert np.std(errors) / np.sqrt(n_draws) < 0.014 * mean_errors[n_samples]
        expected = expected_binned_error(share, gap, square - gap**2, n_samples)
        if n_samples >= 464:
            assert mean_errors[n_samples] == pytest.approx(expected, rel=0.04)
    sizes = np.array(sorted(mean_errors))
    prediction = expected_binned_error(share, gap, square - gap**2, sizes)
    assert np.all(np.diff(prediction) < 0) and prediction[-1] > share @ np.abs(gap)
    assert np.all(np.diff([mean_errors[n] for n in sizes]) < 0)


def test_folded_normal_mean():
    rng = np.random.default_rng(0)
    for mean, spread in ((0.0, 1.0), (0.3, 0.5), (-2.0, 0.7), (1.0, 1e-12)):
        draws = np.abs(mean + spread * rng.standard_normal(200_000))
        assert folded_normal_mean(mean, spread**2) == pytest.approx(draws.mean(), rel=0.01)
    np.testing.assert_array_equal(folded_normal_mean([-0.5, 0.0], 0.0), [0.5, 0.0])
    assert isinstance(expected_binned_error([1.0], [0.0], [0.25], 100), float)


def level_error(y, score, norm, **options):
    """The error over level sets: every distinct score has a bin of its own."""
    edges = np.unique(np.concatenate([[0.0, 1.0], np.unique(score)]))
    return calibration_error(y, score, n_bins=edges, notion="canonical", norm=norm, **options)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_taxonomy(seed, n_classes):
    """RBS >= CE_2 >= CWCE_2 and TCE_p >= TCE_1 >= KS, ECE, exactly, by level sets."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(6, np.full(n_classes, 1 / n_classes), size=150)
    proba, y = counts / 6, rng.integers(n_classes, size=150)
    labels = np.arange(n_classes)
    proba[0], proba[1] = np.eye(n_classes)[:2]
    halved = 2 if n_classes == 2 else 1
    rbs = root_brier_score(y, proba, labels=labels) * np.sqrt(halved)
    ce = np.sqrt(
        halved
        * simplex_calibration_error(
            y, proba, distance="squared_euclidean", bins=LevelSets(), labels=labels
        )
    )
    squares = [level_error(y == k, p, "l2", squared=True) for k, p in enumerate(proba.T)]
    assert rbs >= ce - 1e-12 and ce >= np.sqrt(sum(squares)) - 1e-12
    score, right = proba.max(axis=1), y == proba.argmax(axis=1)
    tce = [level_error(right, score, norm, labels=[False, True]) for norm in ("l1", "l2", "max")]
    assert tce == sorted(tce)
    top = {"notion": "top_label", "labels": labels}
    ks = ks_calibration_error(y, proba, **top)
    assert ks <= tce[0] + 1e-12
    for strategy in ("uniform", "quantile"):
        for n_bins in (1, 4, 15, "auto"):
            options = {"strategy": strategy, "n_bins": n_bins, **top}
            assert calibration_error(y, proba, **options) <= tce[0] + 1e-12
    coarse, fine = (0, 0.4, 1), (0, 0.2, 0.4, 0.7, 1)  # nested
    for norm in ("l1", "l2", "max"):
        errors = [
            calibration_error(y, proba, n_bins=edges, norm=norm, **top) for edges in (coarse, fine)
        ]
        assert errors[0] <= errors[1] + 1e-12
