"""Flexible maps and kernel errors of forecasts that are crowded, also at 0 and 1, or in clumps."""

from functools import partial

import numpy as np
import pytest
from scipy.special import expit

import skcalib as s
from skcalib.export import from_json, to_json
from skcalib.smoothers import DirichletKernel

#: Increasing functions of the log odds of the truth, over 2.
CROWDED = {
    "at 1/2": lambda z: 0.5 + 5e-4 * np.tanh(z),
    "closely at 1/2": lambda z: 0.5 + 1e-9 * np.tanh(z),
    "at 0.3": lambda z: 0.3 + 1e-5 * np.tanh(z),
    "at 0": lambda z: 1e-6 * expit(z),
    "at 1": lambda z: 1 - 1e-6 * expit(-z),
    "two clumps": lambda z: np.where(z > 0, 0.9, 0.1) + 5e-4 * np.tanh(z),
    "two clumps at the ends": lambda z: np.where(z > 0, 1 - 1e-6, 1e-6) + 5e-7 * np.tanh(z),
}
FLEXIBLE = {
    "kernel": s.recalibration.KernelRecalibrator,
    "spline": s.SplineScaling,
    "Venn-Abers": s.VennAbersRecalibrator,
    "isotonic": partial(s.IsotonicRecalibrator, strict=True),
    "histogram": s.HistogramBinning,
}


def world(seed=0, n_samples=3000):
    rng = np.random.default_rng(seed)
    z, new = rng.normal(size=n_samples), rng.normal(size=5000)
    return z, (rng.random(n_samples) < expit(2 * z)).astype(int), new


def excess(truth, proba):
    """Log loss beyond that of the truth."""
    return np.mean(truth * np.log(truth / proba) + (1 - truth) * np.log((1 - truth) / (1 - proba)))


@pytest.mark.parametrize("name", CROWDED)
def test_flexible_maps_come_close_to_the_truth(name):
    """The entropy of the labels is .693, and .2 less than this is in the forecasts."""
    z, y, new = world()
    for kind, make in FLEXIBLE.items():
        fitted = make().fit(CROWDED[name](z), y)
        mapped = fitted.predict_proba(CROWDED[name](new))[:, 1]
        assert excess(expit(2 * new), mapped) < 0.007, kind


@pytest.mark.parametrize("name", ["at 1/2", "two clumps"])
def test_exported_maps(name):
    z, y, new = world(n_samples=400)
    for kind in ("kernel", "spline"):
        fitted = FLEXIBLE[kind]().fit(CROWDED[name](z), y)
        P = CROWDED[name](np.append(new, [-40, 40]))
        mapped = from_json(to_json(fitted)).predict_proba(P)
        np.testing.assert_allclose(mapped, fitted.predict_proba(P), atol=1e-9)


@pytest.mark.parametrize("name", CROWDED)
@pytest.mark.parametrize("bandwidth", ["loo", "risk"])
def test_kernel_errors(name, bandwidth):
    """Near 0 for calibrated forecasts, and near the truth for others."""
    z, y, _ = world(n_samples=800)
    p = CROWDED[name](z)
    calibrated = (np.random.default_rng(1).random(len(p)) < p).astype(int)
    estimate = partial(
        s.proper_calibration_error, smoother=DirichletKernel(bandwidth, "loss"), method="cross"
    )
    if len(np.unique(calibrated)) == 2:
        assert abs(estimate(calibrated, p)) < 0.002
    assert estimate(y, p) == pytest.approx(np.mean((expit(2 * z) - p) ** 2), rel=0.15)


@pytest.mark.parametrize("kind", ["spline", "kernel", "Venn-Abers", "histogram", "stack"])
def test_the_scale_of_logits(kind):
    """The loss, which is .528 for the truth, is the same for logits in any unit."""
    z, y, new = world(1, 1500)
    make = {"stack": s.StackedRecalibrator, **FLEXIBLE}[kind]
    losses = []
    for scale in (0.01, 0.1, 1, 10):
        fitted = make(input="logits", labels=[0, 1]).fit(scale * z[:, None], y)
        mapped = fitted.predict_proba(scale * new[:, None])[:, 1].clip(1e-9, 1 - 1e-9)
        losses.append(0.528 + excess(expit(2 * new), mapped))
    assert max(losses) < 1.01 * min(losses), losses
