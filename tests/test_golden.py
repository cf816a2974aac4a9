"""Golden values: naive loops on a dozen samples always, the published files where they are.

Conventions of the files (those of P24) against ours: their Brier terms sum both columns of a
binary problem, ours halve them; their Brier refinement is -mean ||C||^2, ours 1 - mean ||C||^2.
"""

import math

import golden
import numpy as np
import pytest
from golden import golden_input, golden_rows, needs_golden

from skcalib import (
    proper_calibration_error,
    refinement_loss,
    root_brier_score,
    score_decomposition,
    sharpness,
)
from skcalib.notions import NOTIONS
from skcalib.smoothers import DirichletKernel

P3, Y3 = golden.P3[:12].tolist(), golden.Y3[:12].tolist()
P2 = [(1 - p[0], p[0]) for p in P3]
Y2 = [int(y == 0) for y in Y3]


def leave_one_out(forecast, target, h):
    """P24 eq. 11-12 with the density of the Dirichlet distribution written out, pair by pair."""
    rows = []
    for i, x in enumerate(forecast):
        total, mass = [0.0] * len(x), 0.0
        for j, s in enumerate(forecast):
            if i == j:
                continue
            a = [v / h + 1 for v in s]
            log_k = math.lgamma(sum(a)) - sum(map(math.lgamma, a))
            k = math.exp(log_k + sum((ak - 1) * math.log(xk) for ak, xk in zip(a, x, strict=True)))
            mass += k
            total = [t + k * y for t, y in zip(total, target[j], strict=True)]
        rows.append([t / mass for t in total])
    return rows


def terms_by_loops(forecast, target, h, loss):
    """Direct and risk calibration errors, refinement and uncertainty of one problem."""
    n, columns = len(forecast), len(forecast[0])
    scale = 0.5 if columns == 2 else 1.0

    def entropy(q):
        if loss == "brier":
            return scale * (1 - sum(v * v for v in q))
        return -sum(v * math.log(v) for v in q if v > 0)

    def divergence(q, s):
        if loss == "brier":
            return scale * sum((a - b) ** 2 for a, b in zip(q, s, strict=True))
        return sum(a * math.log(a / b) for a, b in zip(q, s, strict=True) if a > 0)

    conditional = leave_one_out(forecast, target, h)
    mean_loss = sum(map(divergence, target, forecast)) / n
    refinement = sum(map(entropy, conditional)) / n
    frequency = [sum(row[k] for row in target) / n for k in range(columns)]
    return {
        "direct": sum(map(divergence, conditional, forecast)) / n,
        "risk": mean_loss - refinement,
        "refinement": refinement,
        "sharpness": entropy(frequency) - refinement,
        "loss": mean_loss,
        "uncertainty": entropy(frequency),
    }


def problems_by_loops(forecast, y, notion):
    n_classes = len(forecast[0])
    if notion == "canonical":
        return [(forecast, [[float(k == label) for k in range(n_classes)] for label in y])]
    if notion == "top_label":
        top = [row.index(max(row)) for row in forecast]
        hits = [(float(t != label), float(t == label)) for t, label in zip(top, y, strict=True)]
        return [([(1 - max(row), max(row)) for row in forecast], hits)]
    return [
        ([(1 - row[k], row[k]) for row in forecast], [(float(v != k), float(v == k)) for v in y])
        for k in range(n_classes)
    ]


@pytest.mark.parametrize(("y", "proba"), [(Y2, P2), (Y3, P3)], ids=["K=2", "K=3"])
@pytest.mark.parametrize("notion", ["canonical", "classwise", "top_label"])
@pytest.mark.parametrize("loss", ["brier", "log"])
@pytest.mark.parametrize("h", [0.01, 0.05, 0.3])
def test_twelve_samples_by_loops(y, proba, notion, loss, h):
    found = [terms_by_loops(f, t, h, loss) for f, t in problems_by_loops(proba, y, notion)]
    expected = {name: sum(terms[name] for terms in found) / len(found) for name in found[0]}
    arguments = {"loss": loss, "notion": notion, "smoother": DirichletKernel(h)}
    for method in ("direct", "risk"):
        error = proper_calibration_error(y, proba, method=method, **arguments)
        assert error == pytest.approx(expected[method], rel=1e-9, abs=1e-14)
    arguments["method"] = "risk"
    assert refinement_loss(y, proba, **arguments) == pytest.approx(expected["refinement"], rel=1e-9)
    assert sharpness(y, proba, **arguments) == pytest.approx(expected["sharpness"], rel=1e-9)
    terms = score_decomposition(y, proba, **arguments)
    assert terms.loss == pytest.approx(expected["loss"], rel=1e-12)
    assert terms.uncertainty == pytest.approx(expected["uncertainty"], rel=1e-12)


SPACES = {"canonical": "canonical", "classwise": "classwise", "toplabel": "top_label"}
LOSSES = {"l2": "brier", "kl": "log"}


def ours(quantity, y, proba, notion, h):
    """The same quantity by our functions, or None if it is not a proper error."""
    kind, loss, *rest = [*quantity.split("_"), None]
    arguments = {"loss": LOSSES.get(loss), "notion": notion, "smoother": DirichletKernel(h)}
    if quantity == "cwce_l2_scalarF":
        return proper_calibration_error(y, proba, **{**arguments, "loss": "brier"}, method="direct")
    if quantity == "loo_loglik":
        problems = NOTIONS[notion]().problems(proba, np.eye(proba.shape[1])[y])
        return np.mean([DirichletKernel(h).fit(f, t).log_likelihood() for f, t in problems])
    if loss not in LOSSES:
        return None
    if kind == "ce" and rest[0] in ("direct", "risk"):
        return proper_calibration_error(y, proba, **arguments, method=rest[0])
    if kind.startswith("ref"):
        return refinement_loss(y, proba, **arguments, method="risk")
    if kind.startswith("sharp"):
        return sharpness(y, proba, **arguments, method="risk")
    return score_decomposition(y, proba, **arguments).loss if kind == "risk" else None


def in_our_convention(row, n_classes):
    """Their Brier terms of binary problems are twice ours; their refinement lacks the 1."""
    quantity, value, space = row["quantity"], row["value"], row["params"]["space"]
    half = 0.5 if "_l2" in quantity and (space != "canonical" or n_classes == 2) else 1.0
    if quantity == "cwce_l2_scalarF":
        return value
    return half * (1 + value) if quantity.startswith("ref") and "_l2" in quantity else half * value


@needs_golden
@pytest.mark.parametrize("name", ["bin500", "tri300"])
@pytest.mark.parametrize("space", SPACES)
def test_published_values(name, space):
    """Relative 1e-9 for every bandwidth: direct, risk, refinement, sharpness, likelihood."""
    y, proba = golden_input(name)
    seen = set()
    for row in golden_rows(name):
        if row["params"].get("space") != space:
            continue
        found = ours(row["quantity"], y, proba, SPACES[space], row["params"]["h"])
        if found is not None:
            expected = in_our_convention(row, proba.shape[1])
            assert found == pytest.approx(expected, rel=1e-9), row
            seen.add((row["quantity"], row["params"]["h"]))
    assert len({quantity for quantity, _ in seen}) >= 8
    assert len(seen) >= 40


@needs_golden
@pytest.mark.parametrize("name", ["bin500", "tri300"])
def test_published_bandwidths_and_root_brier_scores(name):
    """Their bandwidth is the best of 55; ours is at least as likely, and beside it."""
    y, proba = golden_input(name)
    values = {row["quantity"]: row["value"] for row in golden_rows(name)}
    target = np.eye(proba.shape[1])[y]
    chosen = DirichletKernel().fit(proba, target)
    theirs = DirichletKernel(values["bandwidth_auto"]).fit(proba, target)
    assert chosen.log_likelihood() >= theirs.log_likelihood() - 1e-6
    assert chosen.bandwidth_ == pytest.approx(values["bandwidth_auto"], rel=0.21)
    convention = np.sqrt(2) if proba.shape[1] == 2 else 1.0
    assert root_brier_score(y, proba) * convention == pytest.approx(values["rbs"], rel=1e-12)
