"""Estimators that the accuracy study compares: ours, those of other packages, published formulas.

Every estimator maps (labels, forecasts) to numbers for targets "<notion> <loss>". Packages enter
for the targets that they estimate, converted to our conventions: squared, halved for K = 2. They
are optional; what is not installed is left out.
"""

import importlib
import importlib.metadata
import warnings

import numpy as np

from skcalib import calibration_error
from skcalib.data.notions import NOTIONS, TopLabel
from skcalib.data.problem import Problem
from skcalib.error_intervals.proper import estimates_of_solved
from skcalib.proper.proper import solve_notion
from skcalib.scores import SCORES
from skcalib.smoothers import (
    DirichletKernel,
    IsotonicSmoother,
    LogitSmoother,
    NearestNeighborsSmoother,
    QuantileBins,
)

#: Smoothers, and the largest n K^2, times problems of the notion, that the study can afford.
SMOOTHERS = {
    "default": (None, np.inf),
    "out of fold": (LogitSmoother(), np.inf),
    "isotonic": (IsotonicSmoother(), np.inf),
    "quantile bins": (QuantileBins(15), np.inf),
    "neighbours": (NearestNeighborsSmoother(), 3e4),
    "kernel": (DirichletKernel("risk", "loss"), 4000),
}
METHODS = ("risk", "cross", "direct")
LOSSES = dict.fromkeys(("canonical", "classwise", "top_label"), ("brier", "log"))
MAPS = ("default", "out of fold")  # their log loss is finite


def ours(y, proba, notion, slow=True):
    """Yield (target, "smoother, method", estimate, low, high) for every smoother and method.

    The default has one method, "auto". Without ``slow`` there is only the default.
    """
    n_samples, n_classes = proba.shape
    problem = Problem(proba, np.eye(n_classes)[y], np.ones(n_samples), np.arange(n_classes))
    rule = NOTIONS[notion]()
    for name, (smoother, largest) in SMOOTHERS.items():
        if smoother is not None and not slow:
            continue
        columns = n_classes if notion == "canonical" else 2
        n_problems = n_classes if notion == "classwise" else 1
        if n_samples * columns**2 * n_problems > largest:
            continue
        if columns > 2 and name in ("quantile bins", "isotonic"):
            continue  # they are one-dimensional
        solved = solve_notion(problem, notion=rule, smoother=smoother)
        for loss in LOSSES[notion]:
            for method in ("auto",) if smoother is None else METHODS:
                if loss == "log" and (method == "cross" or name not in MAPS):
                    continue  # frequencies of 0 have an infinite log loss
                how = {"losses": [loss], "notion": rule, "method": method}
                (found,) = estimates_of_solved(solved, **how)
                estimate, low, high = found.terms.mean("calibration"), np.nan, np.nan
                if found.interval is not None:
                    low, high = found.interval.low, found.interval.high
                key = name if smoother is None else f"{name}, {method}"
                yield f"{notion} {loss}", key, estimate, low, high


def confidences(y, proba):
    """Confidence and correctness of the top label."""
    forecast, target = next(TopLabel().problems(proba, np.eye(proba.shape[1])[y]))
    return forecast[:, 1], target[:, 1]


# --- other packages and published formulas: {target: {name: function (y, proba) -> float}} -------


def _isotonic_in_sample(y, proba):
    """CORP (D21): mean loss minus mean loss of the isotonic fit to the same labels."""
    from sklearn.isotonic import IsotonicRegression

    curve = IsotonicRegression(y_min=0, y_max=1).fit(proba[:, 1], y).predict(proba[:, 1])
    return float(np.mean((y - proba[:, 1]) ** 2 - (y - curve) ** 2))


def _kernel_direct(loss):
    def estimate(y, proba):
        """Kernel estimate with the bandwidth by likelihood (P24, equations 9, 11 and 12)."""
        if len(y) * proba.shape[1] ** 2 > 1e5:
            return np.nan
        smoother = DirichletKernel("loo", random_state=0).fit(proba, np.eye(proba.shape[1])[y])
        conditional = smoother.smooth()
        return float(np.mean(SCORES[loss]().divergence(conditional, proba)))

    return estimate


def _kumar(y, proba, mode):
    """Debiased squared error of 15 equal mass bins (K19)."""
    from calibration import get_calibration_error

    values = proba[:, 1] if proba.shape[1] == 2 else proba
    return get_calibration_error(values, y, p=2, debias=True, mode=mode) ** 2


def _torch_binned(norm):
    def estimate(y, proba):
        import torch
        from torchmetrics.functional.classification import binary_calibration_error

        if proba.shape[1] == 2 and norm == "l2":
            p, hit = proba[:, 1], y
        else:
            p, hit = confidences(y, proba)
        p, hit = torch.tensor(p), torch.tensor(hit).long()
        value = float(binary_calibration_error(p, hit, n_bins=15, norm=norm))
        return value**2 if norm == "l2" else value

    return estimate


def _recalibrated(loss, recalibrator, notion="canonical"):
    measure = {"brier": "brier", "log": "logloss"}[loss]

    def estimate(y, proba):
        """Loss minus loss after cross-validated recalibration (Berta and others, 2026)."""
        if recalibrator.startswith("isotonic") and proba.size > 1e5 and proba.shape[1] == 100:
            return np.nan  # several seconds each, and far from the others before that
        target = np.eye(proba.shape[1])[y]
        values = []
        for forecast, label in NOTIONS[notion]().problems(proba, target):
            if label.sum(axis=0).min() < (5 if label.shape[1] == 2 else 1):
                return np.nan  # the package needs every class, and an event in each of five folds
            losses = _both_losses(label.argmax(axis=1), forecast, recalibrator)
            value = losses[f"calib-err_{measure}_{recalibrator}_cv-5"]
            values.append(value / (2 if loss == "brier" and forecast.shape[1] == 2 else 1))
        return float(np.mean(values))

    return estimate


_LAST = {}


def _both_losses(y, proba, recalibrator):
    """One recalibration serves both losses: keep the last ones."""
    import torch
    from probmetrics.metrics import Metrics

    key = (recalibrator, proba.shape, float(proba[:, 0] @ np.sin(y + np.arange(len(y)))))
    if key not in _LAST:
        names = [f"calib-err_{loss}_{recalibrator}_cv-5" for loss in ("brier", "logloss")]
        found = Metrics.from_names(names).compute_all_from_labels_probs(
            torch.tensor(y), torch.tensor(proba)
        )
        while len(_LAST) > 40:
            _LAST.pop(next(iter(_LAST)))
        _LAST[key] = {name: float(value) for name, value in found.items()}
    return _LAST[key]


def _smooth_ece(y, proba):
    from relplot import smECE

    return float(smECE(*confidences(y, proba)))


def _netcal_ece(y, proba):
    from netcal.metrics import ECE

    confidence, hit = confidences(y, proba)
    return float(ECE(15).measure(confidence, hit.astype(int)))


def _ours_l1(**options):
    return lambda y, proba: calibration_error(y, proba, labels=range(proba.shape[1]), **options)


PEERS = {
    "canonical brier": {
        "uncertainty-calibration": lambda y, p: (
            _kumar(y, p, "marginal") if p.shape[1] == 2 else np.nan
        ),
        "torchmetrics l2": lambda y, p: _torch_binned("l2")(y, p) if p.shape[1] == 2 else np.nan,
        "probmetrics temperature": _recalibrated("brier", "ts-mix"),
        "probmetrics isotonic": _recalibrated("brier", "isotonic-mix"),
        "formula: P24 kernel": _kernel_direct("brier"),
        "formula: CORP": lambda y, p: _isotonic_in_sample(y, p) if p.shape[1] == 2 else np.nan,
    },
    "canonical log": {
        "probmetrics temperature": _recalibrated("log", "ts-mix"),
        "probmetrics isotonic": _recalibrated("log", "isotonic-mix"),
        "formula: P24 kernel": _kernel_direct("log"),
    },
    "classwise brier": {
        "uncertainty-calibration": lambda y, p: _kumar(y, p, "marginal"),
        "probmetrics temperature": _recalibrated("brier", "ts-mix", "classwise"),
        "probmetrics isotonic": _recalibrated("brier", "isotonic-mix", "classwise"),
    },
    "classwise log": {
        "probmetrics temperature": _recalibrated("log", "ts-mix", "classwise"),
        "probmetrics isotonic": _recalibrated("log", "isotonic-mix", "classwise"),
    },
    "top_label log": {
        "probmetrics temperature": _recalibrated("log", "ts-mix", "top_label"),
        "probmetrics isotonic": _recalibrated("log", "isotonic-mix", "top_label"),
    },
    "top_label brier": {
        "uncertainty-calibration": lambda y, p: _kumar(y, p, "top-label"),
        "torchmetrics l2": _torch_binned("l2"),
        "probmetrics temperature": _recalibrated("brier", "ts-mix", "top_label"),
        "probmetrics isotonic": _recalibrated("brier", "isotonic-mix", "top_label"),
    },
    "top_label l1": {
        "netcal ECE": _netcal_ece,
        "torchmetrics l1": _torch_binned("l1"),
        "relplot smECE": _smooth_ece,
        "calibration_error": _ours_l1(),
        "calibration_error, 15 uniform": _ours_l1(n_bins=15, strategy="uniform"),
    },
}
PACKAGES = {  # the module behind the first word of a name
    "uncertainty-calibration": "calibration",
    "torchmetrics": "torchmetrics",
    "probmetrics": "probmetrics",
    "netcal": "netcal",
    "relplot": "relplot",
}


def installed():
    """{package: version} of the peers that can be imported."""
    found = {}
    for package, module in PACKAGES.items():
        try:
            importlib.import_module(module)
        except ImportError:
            continue
        found[package] = importlib.metadata.version(package)
    if "torchmetrics" in found or "probmetrics" in found:
        import torch

        torch.set_num_threads(1)
    return found


def peers(y, proba, target, available, slow=True):
    """Yield (name, estimate) of the peers of a target that are there and apply."""
    for name, function in PEERS.get(target, {}).items():
        if not slow and "kernel" in name:
            continue
        package = name.split()[0]
        if package in PACKAGES and package not in available:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = function(y, proba)
        if not np.isnan(value):
            yield name, value
