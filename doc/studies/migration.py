"""What other packages compute from one small data set: the numbers of the page on migration.

Prints `PRINTED` of `tests/documentation/test_migration.py`, which holds them against ours. Packages
that are not installed are left out. Those of R need Rscript with rms; rows of R and Julia packages
that are not run are computed here from their definitions, and are named so.

    pip install "skcalib[study]"
    python doc/studies/migration.py
"""

import importlib.metadata
import pprint
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np


def data():
    """Labels and forecasts without random numbers, of two and of three classes.

    No score is on the edge of a bin, and no two are equal.
    """
    i = np.arange(1, 201)
    p = (37 * i % 211) / 211
    y = (((13 * i**2 + 5 * i) % 197 + 0.5) / 197 < p**2 / (p**2 + (1 - p) ** 2)).astype(int)
    P = np.column_stack([p, (53 * i % 197 + 1) / 198, (71 * i % 193 + 1) / 194]) ** 2
    P /= P.sum(axis=1, keepdims=True)
    law = P**0.6 / (P**0.6).sum(axis=1, keepdims=True)
    u = ((29 * i**2 + 11 * i) % 199 + 0.5) / 199
    y3 = (u[:, None] > law.cumsum(axis=1)[:, :2]).sum(axis=1)
    return {"y": y, "p": p, "y3": y3, "P": P}


#: Calls by package, as the page writes them, after the lines that they need.
CALLS = {
    "scikit-learn": (
        """
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

class Given(ClassifierMixin, BaseEstimator):
    classes_ = np.array([0, 1])
    def fit(self, X, y):
        return self
    def __sklearn_is_fitted__(self):
        return True
    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0.5).astype(int)

class Probability(Given):
    def predict_proba(self, X):
        return np.column_stack([1 - np.asarray(X)[:, 0], np.asarray(X)[:, 0]])

class Score(Given):
    def decision_function(self, X):
        return np.log(np.asarray(X)[:, 0] / (1 - np.asarray(X)[:, 0]))

def calibrated(model, method):
    return CalibratedClassifierCV(FrozenEstimator(model), method=method).fit(p[:, None], y)

sigmoid = calibrated(Probability(), "sigmoid")
sigmoid_of_scores = calibrated(Score(), "sigmoid")
isotonic = calibrated(Probability(), "isotonic")
temperature = calibrated(Probability(), "temperature")
beta = temperature.calibrated_classifiers_[0].calibrators[0].beta_
beta_of_scores = calibrated(Score(), "temperature").calibrated_classifiers_[0].calibrators[0].beta_
""",
        (
            "sigmoid_of_scores.predict_proba([[0.8]])[0, 1]",
            "sigmoid.predict_proba([[0.8]])[0, 1]",
            "isotonic.predict_proba([[0.35]])[0, 1]",
            "temperature.predict_proba([[0.8]])[0, 1]",
            "beta",
            "beta_of_scores",
        ),
    ),
    "netcal": (
        """
from netcal.binning import HistogramBinning
from netcal.metrics import ACE, ECE, MCE
from netcal.scaling import BetaCalibration, LogisticCalibration, TemperatureScaling
""",
        (
            "ECE(15).measure(p, y)",
            "ECE(15).measure(P, y3)",
            "MCE(15).measure(p, y)",
            "ACE(15).measure(p, y)",
            "TemperatureScaling().fit(p, y).transform(np.array([0.8]))",
            "LogisticCalibration().fit(p, y).transform(np.array([0.8]))",
            "BetaCalibration().fit(p, y).transform(np.array([0.8]))",
            "HistogramBinning(10).fit(p, y).transform(np.array([0.8]))",
        ),
    ),
    "mapie": (
        "from mapie.metrics.calibration import *",
        (
            'expected_calibration_error(y, p, num_bins=16, split_strategy="uniform")',
            "spiegelhalter_p_value(y, p)",
            "kolmogorov_smirnov_p_value(y, p)",
            "kuiper_p_value(y, p)",
        ),
    ),
    "torchmetrics": (
        """
import torch
from torchmetrics.functional.classification import *
torch.set_num_threads(1)
p, y, P, y3 = map(torch.tensor, (p, y, P, y3))
edge = torch.tensor([0.95, 1.0]), torch.tensor([1, 0])
""",
        (
            "binary_calibration_error(p, y, n_bins=15)",
            'binary_calibration_error(p, y, n_bins=15, norm="l2")',
            'binary_calibration_error(p, y, n_bins=15, norm="max")',
            "multiclass_calibration_error(P, y3, num_classes=3, n_bins=15)",
            "binary_calibration_error(*edge, n_bins=10)",
        ),
    ),
    "uncertainty-calibration": (
        """
import calibration as cal
platt = cal.PlattCalibrator(200, num_bins=10)
platt.train_calibration(p, y)
""",
        (
            "cal.get_ece(p, y)",
            "cal.get_ece(P, y3)",
            "cal.get_calibration_error(P, y3)",
            "platt.calibrate([0.8])[0]",
        ),
    ),
    "relplot": (
        "from relplot import smECE, smECE_sigma",
        ("smECE(p, y)", "smECE_sigma(p, y, 0.1)"),
    ),
    "betacal": (
        """
from betacal import BetaCalibration

def fitted(kind):
    return BetaCalibration(parameters=kind).fit(p[:, None], y)
""",
        (
            'fitted("abm").predict([[0.8]])[0]',
            'fitted("am").predict([[0.8]])[0]',
            'fitted("ab").predict([[0.8]])[0]',
        ),
    ),
}

#: val.prob of rms, then R's own functions as the other packages call them.
R = """
suppressMessages(library(rms))
d <- read.csv("FILE")
v <- val.prob(d$p, d$y, pl = FALSE)
rows <- list()
for (name in c("C (ROC)", "U", "U:p", "D", "Q", "Brier", "Intercept", "Slope", "Eavg", "S:z",
               "S:p")) rows[[paste0("rms ", packageVersion("rms"), "|", name)]] <- v[[name]]
R <- paste0("R ", getRversion(), "|")
smooth <- fitted(loess(y ~ p, data = d))
rows[[paste0(R, "mean(abs(fitted(loess(y ~ p)) - p))")]] <- mean(abs(smooth - d$p))
rows[[paste0(R, "100 * mean((fitted(loess(y ~ p)) - p)^2)")]] <- 100 * mean((smooth - d$p)^2)
rows[[paste0(R, "coef(glm(y ~ offset(qlogis(p)), binomial))")]] <-
    coef(glm(y ~ offset(qlogis(p)), binomial, d))
rows[[paste0(R, "predict(glm(y ~ p, binomial), p = 0.8)")]] <-
    predict(glm(y ~ p, binomial, d), data.frame(p = 0.8), type = "response")
o <- order(d$p)
pav <- isoreg(d$p[o], d$y[o])$yf
score <- mean((d$p - d$y)^2)
rest <- mean((pav - d$y[o])^2)
rows[[paste0(R, "miscalibration by isoreg(p, y)")]] <- score - rest
rows[[paste0(R, "discrimination by isoreg(p, y)")]] <- mean((mean(d$y) - d$y)^2) - rest
for (name in names(rows)) cat(name, "|", format(rows[[name]], digits = 12), "\\n", sep = "")
"""


def definitions():
    """The errors of CalibrationErrors.jl in plain loops."""
    y3, P = data()["y3"], data()["P"]
    target = np.eye(3)[y3]
    cell = np.minimum(np.floor(P * 5), 4)
    variation, square = 0.0, 0.0
    for one in np.unique(cell, axis=0):
        rows = (cell == one).all(axis=1)
        gap = P[rows].mean(axis=0) - target[rows].mean(axis=0)
        variation += rows.mean() * np.abs(gap).sum() / 2
        square += rows.mean() * np.sum(gap**2)
    residual = target - P
    terms = np.array(
        [
            [
                np.exp(-np.sqrt(np.sum((a - b) ** 2))) * (r @ s)
                for b, s in zip(P, residual, strict=True)
            ]
            for a, r in zip(P, residual, strict=True)
        ]
    )
    pairs = terms.sum() - np.trace(terms)
    return {
        "ECE(UniformBinning(5), TotalVariation())(P, y3)": float(variation),
        "ECE(UniformBinning(5), SqEuclidean())(P, y3)": float(square),
        "BiasedSKCE(ExponentialKernel() ⊗ WhiteKernel())(P, y3)": float(terms.mean()),
        "UnbiasedSKCE(ExponentialKernel() ⊗ WhiteKernel())(P, y3)": float(pairs / (200 * 199)),
    }


def of_r():
    """{package and version: {expression: number}} of R, where it is installed."""
    if shutil.which("Rscript") is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "data.csv")
        rows = np.column_stack([data()["p"], data()["y"]])
        np.savetxt(file, rows, delimiter=",", header="p,y", comments="", fmt="%.17g")
        script = R.replace("FILE", str(file))
        done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        package, expression, value = line.split("|")
        found.setdefault(package, {})[expression] = float(value)
    return found


def printed(only=None):
    """{package and version: {call: number}}, of all packages or of the versions in `only`."""
    found = {}
    for package, (lines, calls) in CALLS.items():
        names = {"np": np, **data()}
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        if only is not None and f"{package} {version}" not in only:
            continue
        exec(lines, names)
        found[f"{package} {version}"] = {
            call: float(np.squeeze(np.asarray(eval(call, names)))) for call in calls
        }
    r = {name: rows for name, rows in of_r().items() if only is None or name in only}
    return found | r | {"CalibrationErrors.jl, by definition": definitions()}


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pprint.pprint(printed(), width=100, sort_dicts=False)
