"""The tower of conditional expectations: legs add, and the square commutes."""

from itertools import product

import numpy as np
import pytest

from skcalib.scores import Brier, LogLoss, Lp, Spherical, TotalVariation
from skcalib.tower import expected_divergence

SCORES = [Brier(), LogLoss(), Spherical()]


def cell_means(values, cells, weight):
    means = np.empty_like(values)
    for cell in np.unique(cells):
        rows = cells == cell
        means[rows] = np.average(values[rows], axis=0, weights=weight[rows])
    return means


@pytest.mark.parametrize("score", [*SCORES, TotalVariation(), Lp(3)], ids=repr)
def test_expected_divergence_by_loops(score):
    rng = np.random.default_rng(0)
    q, s, weight = *rng.dirichlet(np.ones(3), (2, 20)), rng.uniform(size=20)
    found = expected_divergence(score, q, s, weight)
    each = [score.divergence(q[i : i + 1], s[i : i + 1])[0] for i in range(20)]
    assert isinstance(found, float)
    assert found == pytest.approx(np.average(each, weights=weight), rel=1e-13)
    assert expected_divergence(score, q, s, 7 * weight) == pytest.approx(found, rel=1e-13)


class DiscreteWorld:
    """Atoms x with masses and posteriors; S, its bins and regions are functions of x."""

    def __init__(self, n_classes, seed):
        rng = np.random.default_rng(seed)
        levels, people = 12, 8  # scores, and kinds of samples that share a score
        self.level, self.kind = np.array(list(product(range(levels), range(people)))).T
        self.mass = rng.dirichlet(np.ones(len(self.level)))
        self.Q = rng.dirichlet(np.ones(n_classes), len(self.level))
        self.S = rng.dirichlet(np.ones(n_classes), levels)[self.level]
        bins = self.level % 4
        self.C = self.mean(self.Q, self.level)
        self.R = self.mean(self.Q, 2 * bins + (self.kind % 2))
        self.C_B, self.S_B = self.mean(self.Q, bins), self.mean(self.S, bins)
        self.ybar = self.mean(self.Q, 0 * bins)

    def mean(self, values, cells):
        return cell_means(values, cells, self.mass)

    def leg(self, score, target, forecast):
        return expected_divergence(score, target, forecast, self.mass)


@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_square_commutes(score, n_classes, seed):
    """From Q to C_B, by way of the score or by way of the regions, the way is equally long."""
    world = DiscreteWorld(n_classes, seed)
    leg = lambda a, b: world.leg(score, a, b)  # noqa: E731
    grouping, binning = leg(world.Q, world.C), leg(world.C, world.C_B)
    within, explained = leg(world.Q, world.R), leg(world.R, world.C_B)
    assert min(grouping, binning, within, explained) > 1e-4
    assert grouping + binning == pytest.approx(within + explained, rel=1e-12)
    assert grouping + binning == pytest.approx(leg(world.Q, world.C_B), rel=1e-12)
    # the theorem that the lower bound of the grouping loss rests on (L23, prop. 4.2)
    assert grouping >= explained - binning


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_the_errors_of_the_tower_add_up(score):
    """Loss = calibration + refinement, and the refinement is the sum of what it consists of."""
    world = DiscreteWorld(3, 0)
    loss = float(world.mass @ score.loss(world.Q, world.S))
    calibration = world.leg(score, world.C, world.S)
    irreducible = float(world.mass @ score.entropy(world.Q))
    refinement = float(world.mass @ score.entropy(world.C))
    assert loss == pytest.approx(calibration + refinement, rel=1e-12)
    assert refinement == pytest.approx(world.leg(score, world.Q, world.C) + irreducible, rel=1e-12)
    uncertainty, sharpness = score.entropy(world.ybar[0]), world.leg(score, world.C, world.ybar)
    assert refinement == pytest.approx(uncertainty - sharpness, rel=1e-12)
    # binning hides calibration error (Jensen; theorem C.1 of L23)
    assert world.leg(score, world.C_B, world.S_B) <= calibration + 1e-15 or score != Brier()
