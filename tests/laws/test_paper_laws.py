"""Identities and inequalities of the five papers in a world with known Q, by other formulas."""

import numpy as np
import pytest
from pytest import approx
from scipy.spatial.distance import jensenshannon
from scipy.stats import chi2_contingency

from skcalib import calibration_error, kernel_calibration_error
from skcalib.kernels import LaplacianKernel
from skcalib.scores import Brier, ClasswiseLogLoss, FDivergence, LogLoss, Spherical, UScore
from skcalib.smoothers import UniformBins

RNG, X = np.random.default_rng(0), np.arange(48)
MASS, Q = RNG.dirichlet(np.ones(48)), RNG.dirichlet(np.ones(3), 48)  # of each value of the features
LEVEL, REGION = X % 12, X // 16
S, BIN = RNG.dirichlet(np.ones(3), 12)[LEVEL], LEVEL // 3
#: Expected loss of forecasts s for labels drawn from q.
LOSSES = {
    Brier(): lambda q, s: 1 - 2 * (q * s).sum(1) + (s**2).sum(1),
    LogLoss(): lambda q, s: -(q * np.log(s)).sum(1),
    Spherical(): lambda q, s: 1 - (q * s).sum(1) / np.linalg.norm(s, axis=1),
}


def given(values, key):
    """Conditional mean of the rows of the values."""
    weight = (key[:, None] == key) * MASS
    return (weight @ values) / weight.sum(1, keepdims=True)


C, PRIOR = given(Q, LEVEL), given(Q, 0 * X)


@pytest.mark.parametrize(("score", "loss"), LOSSES.items(), ids=map(repr, LOSSES))
def test_decompositions(score, loss):
    """P24 2 to 5, 13, 53; G22 4.1, 4.3, D.1, E.2; L23 4.1 to 4.2, C.1 and C.5."""

    def error(target, forecast):
        return MASS @ score.divergence(target, forecast)

    def variance(values, key):  # the h-variance, from the losses alone
        return MASS @ (loss(given(values, key), given(values, key)) - loss(values, values))

    risk, entropy = MASS @ loss(Q, S), MASS @ loss(Q, Q)
    labels = sum((MASS * Q[:, k]) @ score.divergence(np.eye(3)[k], S) for k in range(3))
    assert labels == approx(risk) == approx(error(C, S) + error(Q, C) + entropy)
    assert MASS @ loss(Q, PRIOR) == approx(risk - error(C, S) + error(C, PRIOR))
    assert error(Q, S) == approx(risk - entropy) and risk - score.infimum > error(C, S)
    region = given(Q, 3 * LEVEL + REGION)
    assert error(Q, C) == approx(variance(Q, LEVEL)) == approx(error(region, C) + error(Q, region))
    induced = error(C, given(Q, BIN))
    assert variance(Q, BIN) == approx(error(Q, C) + induced) and induced == approx(variance(C, BIN))
    assert error(Q, C) > error(given(Q, 3 * BIN + REGION), given(Q, BIN)) - induced
    assert error(given(Q, BIN), given(S, BIN)) < error(C, S) or not score.jointly_convex
    assert error(Q, PRIOR) > error(C, PRIOR) > error(given(Q, BIN), PRIOR) > 0


@pytest.mark.parametrize("k", range(3))
@pytest.mark.parametrize("score", [Brier(), ClasswiseLogLoss()], ids=repr)
def test_one_class_after_the_other(score, k):
    """P24 37; L23 C.3, C.4 and theorem C.2."""
    q, c, s, region = (
        np.stack([1 - v[:, k], v[:, k]], axis=1) for v in (Q, C, S, given(Q, 3 * LEVEL + REGION))
    )

    def h(v):
        return v[:, 1] ** 2 if isinstance(score, Brier) else v[:, 1] * np.log(v[:, 1])

    grouping = MASS @ (h(q) - h(c))
    split = score.divergence(region, c) + score.divergence(q, region)
    assert MASS @ score.divergence(q, c) == approx(grouping) == approx(MASS @ split)
    excess = score.loss(q, s) - score.entropy(q)
    assert MASS @ excess == approx(MASS @ score.divergence(c, s) + grouping)


@pytest.mark.parametrize("n_bins", [1, 2, 5, 20])
@pytest.mark.parametrize("s", [(np.arange(8000) + 0.5) / 8000, RNG.beta(0.3, 0.3, 8000)])
def test_what_bins_induce(s, n_bins):
    """L23 lemma C.3, theorem and corollary C.1."""
    both = np.column_stack([s, np.clip(s + 0.2 * np.sin(7 * s), 0, 1)])
    bins = UniformBins(n_bins).fit(np.column_stack([1 - s, s]), both, np.ones(8000))
    inner = both - bins.cell_means()[bins.cells_]
    within = np.bincount(bins.cells_, inner[:, 0] ** 2) / np.bincount(bins.cells_)
    assert within.max() <= 1 / (4 * n_bins**2)
    assert s[0] != 0.5 / 8000 or within == approx(1 / (12 * n_bins**2), rel=1e-4)
    c = (both - inner)[:, 1]
    induced = np.mean(2 * inner[:, 0] * inner[:, 1] - inner[:, 0] ** 2)
    moved = np.mean(inner[:, 1] ** 2 - (inner[:, 0] - inner[:, 1]) ** 2)
    limit = np.mean(np.sqrt(c * (1 - c))) / n_bins
    assert induced == approx(moved) and -limit - 1 / (4 * n_bins**2) <= induced <= limit


HELLINGER = (lambda t: (np.sqrt(t) - 1) ** 2, lambda t: 1 - 1 / np.sqrt(t))


@pytest.mark.parametrize("f", ["kl", "chi2", "total_variation", "jensen_shannon", "hellinger"])
def test_f_divergences(f):
    """P24 19 to 22 and 31, against the joint distribution of labels and cells."""
    prior, divergences = PRIOR[0], []
    score = FDivergence(prior, HELLINGER if f == "hellinger" else f)
    for key in (BIN, LEVEL, X):
        joint = (np.unique(key)[:, None] == key) @ (MASS[:, None] * Q)
        total = joint.sum(1)
        expected = {
            "kl": np.sum(joint * np.log(joint / np.outer(total, prior))),
            "chi2": chi2_contingency(joint, correction=False).statistic,
            "total_variation": np.abs(joint - np.outer(total, prior)).sum() / 2,
            "hellinger": np.sum((np.sqrt(joint) - np.sqrt(np.outer(total, prior))) ** 2),
            "jensen_shannon": prior @ jensenshannon(joint / prior, total[:, None]) ** 2,
        }
        divergences.append(total @ score.divergence(joint / total[:, None], prior))
        assert divergences[-1] == approx(expected[f])
    assert divergences == sorted(divergences)  # a layer only loses
    assert (
        -MASS @ score.loss(Q, Q) == approx(divergences[-1])
        and -MASS @ score.loss(Q, S) < divergences[-1]
    )
    with pytest.raises(ValueError, match="for 3 classes, but the forecasts have 2"):
        score.entropy(Q[:, :2])


M = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])  # ranked probability score
K = LaplacianKernel(bandwidth=0.7)
U_SCORES = {  # the rule, which is also the divergence of distributions, and the entropy
    "kernel score": (
        lambda p, y: np.einsum("ik,kl,il->i", p - y, M, p - y),
        lambda q: q @ np.diag(M) - np.einsum("ik,kl,il->i", q, M, q),
    ),
    "squared kernel error": (
        lambda p, r, y, z: K.pairs(p, r) * ((p - y) * (r - z)).sum(1),
        lambda q, s: np.zeros(len(q)),
    ),
    "not proper": (
        lambda p, r, t, x, y, z: (p - x)[:, 0] * r[:, 1] * y[:, 1] * (t - z)[:, 2],
        lambda x, y, z: np.zeros(len(x)),
    ),
}


@pytest.mark.parametrize("name", U_SCORES)
def test_u_scores(name):
    """G22 F.1 to F.5 and 52 to 61: entropy, divergence, decomposition, and the U-statistic."""
    rule, entropy = U_SCORES[name]
    size = rule.__code__.co_argcount // 2
    score, n = UScore(rule, size), 48 // 4 ** (size - 1)
    rows = np.indices((n,) * size).reshape(size, -1)
    p, c = S[:n], C[:n]
    tuples = [[forecast[i] for i in rows] for forecast in (p, c)]
    stacked = [np.stack(forecasts, axis=1) for forecasts in tuples]
    assert score.divergence(*stacked[::-1]) == approx(rule(*tuples[0], *tuples[1]), abs=1e-14)
    assert score.entropy(stacked[1]) == approx(entropy(*tuples[1]), abs=1e-14)
    parts = score.decomposition(c, p)
    assert parts[0] + parts[1] - parts[2] == approx(score.loss(*stacked[::-1]).mean())
    assert name == "not proper" or min(parts) > -1e-15
    mean = np.tile(c.mean(0), (len(rows[0]), 1))
    assert parts[2] == approx(np.mean(rule(*[mean] * size, *tuples[1])), abs=1e-14)
    different = [len(set(members)) == size for members in rows.T]
    y = np.eye(3)[Q[:n].argmax(1)]
    values = rule(*tuples[0], *(y[i] for i in rows))
    assert score.estimate(y, p) == approx(values[different].mean())


def test_the_known_u_scores():
    """The ranked probability score is a kernel score; G22 60 is the kernel calibration error."""
    score = UScore(U_SCORES["kernel score"][0], 1)
    at_most = np.cumsum(S - Q, axis=1)[:, :2]
    assert score.divergence(Q[:, None], S[:, None]) == approx((at_most**2).sum(1))
    y, kernel = Q.argmax(1), UScore(U_SCORES["squared kernel error"][0])
    assert kernel.estimate(np.eye(3)[y], S) == approx(kernel_calibration_error(y, S, kernel=K))
    with pytest.raises(ValueError, match=r"shape \(m, 2, n_classes\), got \(48, 3\) and \(48, 3\)"):
        kernel.loss(Q, S)
    with pytest.raises(
        ValueError, match="rule must be a function of forecasts and labels, got 'k'"
    ):
        UScore("k")


def test_the_accuracy_as_confidence():
    """G22 D.2: no error of the top label, and still miscalibrated."""
    top = RNG.integers(0, 3, 900)
    y = np.where(RNG.random(900) < 0.6, top, 0)
    accuracy = np.mean(y == top)
    forecast = np.where(np.eye(3)[top] == 1, accuracy, (1 - accuracy) / 2)
    assert calibration_error(y, forecast, notion="top_label") == approx(0, abs=1e-12)
    assert calibration_error(y, forecast, notion="classwise") > 0.05
