"""Golden values: plain sums over a dozen samples always, the published files where they are.

Conventions of the files (those of P24) against ours: their Brier terms sum both columns of a
binary problem, ours halve them; their Brier refinement is -mean ||C||^2, ours 1 - mean ||C||^2.
"""

import golden
import numpy as np
import pytest
from golden import golden_input, golden_rows, needs_golden
from scipy.special import entr, rel_entr
from scipy.stats import dirichlet

from skcalib import (
    proper_calibration_error,
    refinement_loss,
    root_brier_score,
    score_decomposition,
    sharpness,
)
from skcalib.data.notions import NOTIONS
from skcalib.smoothers import DirichletKernel

P3, Y3 = golden.P3[:12], golden.Y3[:12]
P2, Y2 = np.column_stack([1 - P3[:, 0], P3[:, 0]]), (Y3 == 0).astype(int)


def leave_one_out(forecast, target, h):
    """P24 eq. 11-12: averages of labels by the density of the Dirichlet distribution."""
    k = np.array([[dirichlet.pdf(x, s / h + 1) for s in forecast] for x in forecast])
    np.fill_diagonal(k, 0)
    return k @ target / k.sum(axis=1, keepdims=True)


def terms_by_hand(forecast, target, h, loss):
    """Direct and risk calibration errors, refinement and uncertainty of one problem."""
    scale = 0.5 if len(forecast.T) == 2 else 1.0

    def entropy(q):
        brier = scale * (1 - np.sum(q**2, axis=-1))
        return np.mean(brier if loss == "brier" else np.sum(entr(q), axis=-1))

    def divergence(q, s):
        brier = scale * np.sum((q - s) ** 2, axis=1)
        return np.mean(brier if loss == "brier" else np.sum(rel_entr(q, s), axis=1))

    conditional = leave_one_out(forecast, target, h)
    mean_loss, refinement = divergence(target, forecast), entropy(conditional)
    uncertainty = entropy(target.mean(axis=0))
    return {
        "direct": divergence(conditional, forecast),
        "risk": mean_loss - refinement,
        "refinement": refinement,
        "sharpness": uncertainty - refinement,
        "loss": mean_loss,
        "uncertainty": uncertainty,
    }


def problems_by_hand(forecast, y, notion):
    target = np.eye(len(forecast.T))[y]
    if notion == "canonical":
        return [(forecast, target)]
    columns = [*zip(forecast.T, target.T, strict=True)]
    if notion == "top_label":
        top = forecast.argmax(axis=1)
        columns = [(forecast.max(axis=1), target[np.arange(len(y)), top])]
    return [tuple(np.column_stack([1 - column, column]) for column in pair) for pair in columns]


@pytest.mark.parametrize(("y", "proba"), [(Y2, P2), (Y3, P3)], ids=["K=2", "K=3"])
@pytest.mark.parametrize("notion", ["canonical", "classwise", "top_label"])
@pytest.mark.parametrize("loss", ["brier", "log"])
@pytest.mark.parametrize("h", [0.01, 0.05, 0.3])
def test_twelve_samples_by_loops(y, proba, notion, loss, h):
    terms_of_problems = [
        terms_by_hand(f, t, h, loss) for f, t in problems_by_hand(proba, y, notion)
    ]
    expected = {
        name: sum(terms[name] for terms in terms_of_problems) / len(terms_of_problems)
        for name in terms_of_problems[0]
    }
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
    kind, loss, *methods = [*quantity.split("_"), None]
    arguments = {"loss": LOSSES.get(loss), "notion": notion, "smoother": DirichletKernel(h)}
    if quantity == "cwce_l2_scalarF":
        return proper_calibration_error(y, proba, **{**arguments, "loss": "brier"}, method="direct")
    if quantity == "loo_loglik":
        problems = NOTIONS[notion]().problems(proba, np.eye(proba.shape[1])[y])
        return np.mean([DirichletKernel(h).fit(f, t).log_likelihood() for f, t in problems])
    if loss not in LOSSES:
        return None
    if kind == "ce" and methods[0] in ("direct", "risk"):
        return proper_calibration_error(y, proba, **arguments, method=methods[0])
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
        value = ours(row["quantity"], y, proba, SPACES[space], row["params"]["h"])
        if value is not None:
            expected = in_our_convention(row, proba.shape[1])
            assert value == pytest.approx(expected, rel=1e-9), row
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
