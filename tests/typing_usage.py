"""What users write, for a type checker: ``python -m mypy`` reads this file, nothing runs it."""

from __future__ import annotations

from typing import assert_type

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import skcalib as s
from skcalib.data.notions import Classwise, TopK
from skcalib.error_intervals import ErrorInterval
from skcalib.errors import ReliabilityBins
from skcalib.kernels import GaussianKernel, Kernel, LaplacianKernel
from skcalib.scores import Brier, ProperScore
from skcalib.significance import CalibrationTest
from skcalib.smoothers import DirichletKernel, QuantileBins


class Quartic(ProperScore):
    """A score of one's own, as examples/extend/add_a_score.py shows."""

    infimum = -1.0

    def entropy(self, forecast: np.ndarray) -> np.ndarray:
        return -(forecast**4).sum(axis=-1)

    def gradient(self, forecast: np.ndarray) -> np.ndarray:
        return -4 * forecast**3


def functions(y: np.ndarray, proba: np.ndarray, frame: pd.DataFrame) -> None:
    """Arrays, lists and frames; names and objects."""
    assert_type(s.calibration_error(y, proba), float)
    assert_type(s.calibration_error([0, 1], [0.2, 0.7], n_bins=2, strategy="uniform"), float)
    assert_type(s.calibration_error(y, frame, notion=TopK(2), n_bins=[0.0, 0.5, 1.0]), float)
    assert_type(s.proper_calibration_error(y, proba, loss="log", smoother="isotonic"), float)
    s.proper_calibration_error(y, proba, loss=Quartic(), smoother=LogisticRegression())
    s.proper_calibration_error(y, proba, smoother=DirichletKernel(bandwidth=0.1), method="cross")
    kernel: Kernel = 0.5 * LaplacianKernel(1.0) + GaussianKernel(0.2)
    assert_type(s.kernel_calibration_error(y, proba, kernel=kernel, notion=Classwise("sum")), float)
    assert_type(s.score_decomposition(y, proba, loss=Brier()).calibration, float)
    assert_type(s.corp_decomposition(y, proba).miscalibration, float)
    assert_type(s.reliability_bins(y, proba), list[ReliabilityBins])
    assert_type(
        s.kernel_calibration_test(y, proba, n_resamples=100, random_state=0), CalibrationTest
    )
    assert_type(s.significance.consistency_test(y, proba).pvalue, float)
    assert_type(s.calibration_error_interval(y, proba, metric="brier").low, float)
    interval: ErrorInterval = s.calibration_error_interval(y, proba, metric=s.calibration_error)
    assert interval.low <= interval.high
    assert s.compare_calibration(y, proba, proba).pvalue > 0
    assert s.optimal_n_bins(1000, strategy="quantile", bound="tce") > 0
    print(
        s.calibration_summary(y, proba, pos_label="yes"), s.regression.variance_reliability(y, y, y)
    )


def estimators(X: np.ndarray, y: np.ndarray, proba: np.ndarray) -> None:
    """``fit`` returns the object of its own class."""
    assert_type(s.PlattScaling(loss="brier").fit(proba, y), s.PlattScaling)
    assert_type(s.TemperatureScaling().fit(proba, y).predict_proba(proba), np.ndarray)
    model = s.RecalibratedClassifierCV(LogisticRegression(), s.PlattScaling(), cv=5).fit(X, y)
    assert_type(model, s.RecalibratedClassifierCV)
    assert_type(model.predict_proba(X), np.ndarray)
    assert_type(s.CrossFitProba(LogisticRegression()).fit_transform(X, y), np.ndarray)
    error = s.CalibrationErrorEstimator(loss="log", smoother=QuantileBins(10)).fit(proba, y)
    assert_type(error, s.CalibrationErrorEstimator)
    print(s.GroupingLossEstimator(n_bins=10).fit(X, y, y_proba=proba))
    print(s.calibration_improvement(y, proba, s.TemperatureScaling().fit(proba, y)).estimate)
    print(s.regression.VarianceScaling(fit_intercept=False).fit(proba, y))
    print(s.calibration_error(s.ForecastSketch(labels=[0, 1]).partial_fit(y, proba)))
    print(s.theory.evaluate_supersample(LogisticRegression(), X, y, n_draws=2).gap.mean())
    print(s.get_scorer("neg_log_calibration_error")(model, X, y))


def figures_and_reports(X: np.ndarray, y: np.ndarray, proba: np.ndarray) -> None:
    """Displays and reports."""
    display = s.ReliabilityDisplay.from_predictions(y, proba, strategy="quantile", n_bins=10)
    assert_type(display, s.ReliabilityDisplay)
    assert_type(display.plot(scale="logit"), s.ReliabilityDisplay)
    s.RecalibrationDisplay.from_recalibrator(s.PlattScaling().fit(proba, y), proba)
    report = s.CalibrationReport.from_predictions(y, proba, X=X, name="model", random_state=0)
    assert_type(report.verdict, str)
    report.to_html("report.html")
    s.ComparisonReport.from_predictions(y, {"first": proba, "second": proba}).to_text()
    print(s.datasets.make_tempered_simplex(100, random_state=0).y_proba)
