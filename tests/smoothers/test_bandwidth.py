"""Bandwidths of kernels: the search, its criteria, and the warning where no bandwidth helps."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import dirichlet

from skcalib import proper_calibration_error, refinement_loss
from skcalib.datasets import make_tempered_simplex
from skcalib.links.logits import curve_of_ranks, log_positive
from skcalib.recalibration import KernelRecalibrator
from skcalib.scores import Brier, LogLoss
from skcalib.smoothers import DirichletKernel
from skcalib.smoothers.kernel import MOST_EVALUATIONS, search_bandwidth
from skcalib.smoothers.kernel_sums import log_likelihoods

GRID = np.r_[np.logspace(-5, -1, 50), np.linspace(0.2, 1, 5)]  # of the published code


def problem(n_samples, n_classes, seed=0):
    drawn = make_tempered_simplex(n_samples, n_classes, random_state=seed)
    return drawn.y_proba, np.eye(n_classes)[drawn.y]


class Counted:
    """A smooth cost of the log bandwidth that counts its evaluations."""

    def __init__(self, centre, skew=0.0):
        self.centre, self.skew, self.tried = centre, skew, []

    def __call__(self, bandwidths):
        self.tried.extend(bandwidths)
        x = np.log10(bandwidths) - self.centre
        return (1 + self.skew * np.tanh(x)) * x**2 / (1 + 0.1 * x**2)


@pytest.mark.parametrize("skew", [0, 0.5])
@pytest.mark.parametrize("centre", [-4.93, -3.21, -2.0, -0.61, -0.04])
@pytest.mark.parametrize("shift", [-0.7, -0.1, 0.0, 0.3, 0.8])
def test_few_full_evaluations_beat_a_grid(centre, shift, skew):
    """The subsample points `shift` decades beside the truth."""
    full, part = Counted(centre, skew), Counted(np.clip(centre + shift, -5, 0))
    search = search_bandwidth(full, criterion="risk", n_samples=10_000, subsample_cost=part)
    assert len(full.tried) <= MOST_EVALUATIONS
    assert full([search.bandwidth]) <= full(GRID).min() + 1e-4
    assert search.n_samples == 10_000
    assert search.bandwidth == search.bandwidths[np.argmin(search.costs)]
    assert np.all(np.diff(search.bandwidths) > 0)


def test_search_at_the_ends_and_with_infinite_costs():
    decreasing = search_bandwidth(lambda h: h, criterion="likelihood", n_samples=10)
    assert decreasing.bandwidth == pytest.approx(1e-5)
    nothing = search_bandwidth(lambda h: np.full(len(h), np.inf), criterion="risk", n_samples=10)
    assert nothing.bandwidth == 1
    steep = search_bandwidth(
        lambda h: np.where(h < 0.05, np.inf, np.log(h / 0.1) ** 2), criterion="risk", n_samples=10
    )
    assert steep.bandwidth == pytest.approx(0.1, rel=0.05)


def test_the_bandwidth_of_a_subsample_shrinks():
    """It is the first guess on all samples, or the answer."""
    run = {"criterion": "risk", "n_samples": 10, "shrink": 0.5}
    for centre, expected in ((-2.0, 0.005), (-5.0, 1e-5), (-0.3, 0.25)):
        part, full = Counted(centre), Counted(np.log10(expected))
        alone = search_bandwidth(full, subsample_cost=part, full=False, **run)
        assert alone.bandwidth == pytest.approx(expected, rel=0.02)
        assert not full.tried and 13 <= len(part.tried) <= 18
        search = search_bandwidth(full, subsample_cost=part, **run)
        assert search.bandwidth == pytest.approx(expected, rel=0.02)
        assert len(full.tried) <= 6


@pytest.mark.parametrize(("n_samples", "n_classes"), [(1040, 2), (2200, 3), (2200, 2)])
def test_likelihood_of_many_samples_in_ten_evaluations(n_samples, n_classes):
    """PERFORMANCE goal 5, of more samples than are in the first search."""
    forecast, target = problem(n_samples, n_classes)
    kernel = DirichletKernel().fit(forecast, target)
    search = kernel.bandwidth_search_
    assert search.criterion == "likelihood" and search.n_samples == n_samples
    assert len(search.bandwidths) <= MOST_EVALUATIONS
    likelihoods = log_likelihoods(forecast, np.ones(n_samples))(GRID[::2])
    assert kernel.log_likelihood() >= likelihoods.max()
    assert kernel.log_likelihood() == pytest.approx(-search.costs.min() * n_samples)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_another_subsample_leads_to_nearly_the_same(n_classes):
    forecast, target = problem(2200, n_classes)
    kernel = DirichletKernel().fit(forecast, target)
    reseeded = DirichletKernel(random_state=1).fit(forecast, target)
    assert reseeded.bandwidth_ == pytest.approx(kernel.bandwidth_, rel=0.1)


@pytest.mark.parametrize("loss", ["brier", "log"])
@pytest.mark.parametrize("n_samples", [400, 2300])
def test_the_risk_is_that_of_the_leave_one_out_estimate(loss, n_samples):
    forecast, target = problem(n_samples, 3)
    kernel = DirichletKernel("risk", "loss", loss).fit(forecast, target)
    score = {"brier": Brier(), "log": LogLoss()}[loss]
    risk = {h: score.loss(target, DirichletKernel(h).fit(forecast, target).smooth()).mean()
            for h in (*GRID[::6], kernel.bandwidth_)}  # fmt: skip
    assert kernel.bandwidth_search_.criterion == "risk"
    assert risk[kernel.bandwidth_] == pytest.approx(kernel.bandwidth_search_.costs.min())
    assert risk[kernel.bandwidth_] <= min(risk.values()) + 1e-4


def test_the_loss_in_use_chooses_the_bandwidth():
    """Of an error, and of the recalibrator."""
    forecast, target = problem(80, 2)
    y = target[:, 1].astype(int)
    asked = {}
    for loss in ("brier", "log"):
        value = refinement_loss(y, forecast, loss=loss, smoother=DirichletKernel("risk", "loss"))
        named = DirichletKernel("risk", "loss", loss=loss)
        assert value == refinement_loss(y, forecast, loss=loss, smoother=named)
        ranks = softmax(curve_of_ranks(forecast)(log_positive(forecast)), axis=1)
        kernel = DirichletKernel("risk", loss=loss).fit(ranks, target)
        recalibrated = KernelRecalibrator(loss=loss).fit(forecast, y).predict_proba(forecast)
        np.testing.assert_allclose(recalibrated, kernel.predict(ranks))
        asked[loss] = kernel.bandwidth_
    assert asked["brier"] != asked["log"]
    fixed = DirichletKernel(0.1).fit(forecast, target)
    assert fixed.for_loss(LogLoss()) is fixed
    recalibrated = KernelRecalibrator(bandwidth=0.1).fit(forecast, y).predict_proba(forecast)
    np.testing.assert_allclose(recalibrated, fixed.predict(forecast))
    assert DirichletKernel("risk").for_loss(LogLoss()).loss == LogLoss()


def test_a_class_of_one_sample_does_not_decide():
    """All others give it probability 0 whatever the bandwidth: its log loss is left out."""
    forecast, target = problem(100, 3)
    target[:] = np.eye(3)[np.arange(100) % 2]
    target[50] = [0, 0, 1]
    kernel = DirichletKernel("risk", "loss", loss="log").fit(forecast, target)
    assert np.isfinite(kernel.bandwidth_search_.costs[-1])


def test_rules():
    forecast, target = problem(500, 3)
    weight = np.random.default_rng(0).uniform(0.5, 2, 500)
    scott = DirichletKernel("scott").fit(forecast, target, weight)
    share = weight / weight.sum()
    spread = np.sum(share @ (forecast - share @ forecast) ** 2)
    expected = 500 ** (-1 / 3) * spread / np.sum(share @ (forecast * (1 - forecast)))
    assert scott.bandwidth_ == pytest.approx(expected) and scott.bandwidth_search_ is None
    for bandwidth in (0, -1, np.inf, "silverman", lambda *_: 0.0, dict):
        with pytest.raises(ValueError, match="bandwidth must be"):
            DirichletKernel(bandwidth).fit(forecast, target)
    by_function = DirichletKernel(lambda n_samples, n_columns: n_columns / n_samples)
    assert by_function.fit(forecast, target).bandwidth_ == pytest.approx(3 / 500)
    certain = np.eye(3)[np.arange(6) % 3]
    assert DirichletKernel("scott").fit(certain, certain).bandwidth_ == 1e-5
    assert DirichletKernel("scott").fit(forecast[:1], target[:1]).bandwidth_ == 1e-5


def test_kernels_of_many_classes_warn_where_neighbours_are_few():
    forecast, target = problem(600, 10)
    with pytest.warns(UserWarning, match=r"uses [23]\.\d* effective neighbours .* 10 columns"):
        DirichletKernel().fit(forecast, target)
    with pytest.warns(UserWarning, match="Use the default smoother, notion='classwise'"):
        proper_calibration_error(target.argmax(axis=1), forecast, smoother="kernel")
    rng = np.random.default_rng(0)  # a warning would be an error from here on
    DirichletKernel("scott").fit(*problem(300, 4))
    crowded, target = rng.dirichlet(np.full(6, 2000.0), 500), np.eye(6)[rng.integers(6, size=500)]
    DirichletKernel(0.05).fit(crowded, target)
    DirichletKernel(0.1).fit(crowded[:1], target[:1])


@pytest.mark.slow
def test_the_risk_comes_closer_to_the_truth_than_the_likelihood():
    """P24's simulation, K = 3, n = 1000: error of "risk" and "direct" against 200,000 samples."""
    reference, _ = problem(200_000, 3, seed=99)
    sharpened = softmax(0.6 * np.log(reference), axis=1)  # E[Y|S] of the simulation
    truth = np.mean(np.sum((sharpened - reference) ** 2, axis=1))
    miss = {(b, m): [] for b in ("loo", "risk") for m in ("risk", "direct")}
    for seed in range(10):
        forecast, target = problem(1000, 3, seed=seed)
        for bandwidth, method in miss:
            smoother = DirichletKernel(bandwidth, "loss")
            error = proper_calibration_error(
                target.argmax(axis=1), forecast, smoother=smoother, method=method
            )
            miss[bandwidth, method].append(error - truth)
    size = {key: np.sqrt(np.mean(np.square(values))) for key, values in miss.items()}
    for method in ("risk", "direct"):
        assert size["risk", method] < 0.35 * size["loo", method]


def test_effective_neighbours_by_hand():
    forecast, target = problem(40, 6)
    weight = np.linspace(0.5, 2, 40)
    density = [dirichlet.pdf(forecast.T, 1 + source / 0.2) for source in forecast]
    share = weight * np.transpose(density) * (1 - np.eye(40))
    share /= share.sum(axis=1, keepdims=True)
    square, uncertainty = np.sum(share**2, axis=1), 1 - np.sum(forecast**2, axis=1)
    moved = np.sum((share @ forecast - forecast) ** 2, axis=1)
    said = (
        f"uses {np.median(1 / square):.3g} eff.* about {np.mean(moved + uncertainty * square):.2g}"
    )
    with pytest.warns(UserWarning, match=said):
        DirichletKernel(0.2).fit(forecast, target, weight)
