"""The public names, for type checkers; the table in ``__init__.py`` is the same."""

from skcalib import datasets as datasets
from skcalib.displays import (
    DecompositionDisplay as DecompositionDisplay,
)
from skcalib.displays import (
    EstimationDisplay as EstimationDisplay,
)
from skcalib.displays import (
    GroupingDisplay as GroupingDisplay,
)
from skcalib.displays import (
    RecalibrationDisplay as RecalibrationDisplay,
)
from skcalib.displays import (
    ReliabilityDisplay as ReliabilityDisplay,
)
from skcalib.error_intervals import (
    calibration_error_interval as calibration_error_interval,
)
from skcalib.errors import (
    calibration_error as calibration_error,
)
from skcalib.errors import (
    calibration_intercept_slope as calibration_intercept_slope,
)
from skcalib.errors import (
    calibration_upper_bound as calibration_upper_bound,
)
from skcalib.errors import (
    corp_bands as corp_bands,
)
from skcalib.errors import (
    corp_decomposition as corp_decomposition,
)
from skcalib.errors import (
    corp_test as corp_test,
)
from skcalib.errors import (
    cumulative_curve as cumulative_curve,
)
from skcalib.errors import (
    integrated_calibration_index as integrated_calibration_index,
)
from skcalib.errors import (
    kernel_calibration_error as kernel_calibration_error,
)
from skcalib.errors import (
    ks_calibration_error as ks_calibration_error,
)
from skcalib.errors import (
    proper_calibration_error as proper_calibration_error,
)
from skcalib.errors import (
    refinement_loss as refinement_loss,
)
from skcalib.errors import (
    reliability_bins as reliability_bins,
)
from skcalib.errors import (
    root_brier_score as root_brier_score,
)
from skcalib.errors import (
    score_decomposition as score_decomposition,
)
from skcalib.errors import (
    sharpness as sharpness,
)
from skcalib.errors import (
    simplex_calibration_error as simplex_calibration_error,
)
from skcalib.errors import (
    unconditional_mean_embedding_error as unconditional_mean_embedding_error,
)
from skcalib.estimators import (
    CalibrationErrorEstimator as CalibrationErrorEstimator,
)
from skcalib.estimators import (
    CrossFitProba as CrossFitProba,
)
from skcalib.estimators import (
    RecalibratedClassifierCV as RecalibratedClassifierCV,
)
from skcalib.estimators import (
    RecalibratorSelection as RecalibratorSelection,
)
from skcalib.grouping import (
    GroupingLossEstimator as GroupingLossEstimator,
)
from skcalib.recalibration import (
    BetaCalibration as BetaCalibration,
)
from skcalib.recalibration import (
    BiasCorrectedTemperatureScaling as BiasCorrectedTemperatureScaling,
)
from skcalib.recalibration import (
    DiagonalOrderPreserving as DiagonalOrderPreserving,
)
from skcalib.recalibration import (
    DirichletCalibration as DirichletCalibration,
)
from skcalib.recalibration import (
    EnsembleTemperatureScaling as EnsembleTemperatureScaling,
)
from skcalib.recalibration import (
    HistogramBinning as HistogramBinning,
)
from skcalib.recalibration import (
    IdentityRecalibrator as IdentityRecalibrator,
)
from skcalib.recalibration import (
    IsotonicRecalibrator as IsotonicRecalibrator,
)
from skcalib.recalibration import (
    KernelRecalibrator as KernelRecalibrator,
)
from skcalib.recalibration import (
    LabelFrequency as LabelFrequency,
)
from skcalib.recalibration import (
    MatrixScaling as MatrixScaling,
)
from skcalib.recalibration import (
    PlattScaling as PlattScaling,
)
from skcalib.recalibration import (
    QuadraticScaling as QuadraticScaling,
)
from skcalib.recalibration import (
    TemperatureScaling as TemperatureScaling,
)
from skcalib.recalibration import (
    VectorScaling as VectorScaling,
)
from skcalib.recalibration import (
    calibration_improvement as calibration_improvement,
)
from skcalib.regression import (
    RecalibratedRegressorCV as RecalibratedRegressorCV,
)
from skcalib.regression import (
    VarianceScaling as VarianceScaling,
)
from skcalib.regression import (
    dawid_sebastiani_score as dawid_sebastiani_score,
)
from skcalib.regression import (
    kernel_calibration_error_gaussian as kernel_calibration_error_gaussian,
)
from skcalib.regression import (
    kernel_calibration_test_gaussian as kernel_calibration_test_gaussian,
)
from skcalib.regression import (
    variance_reliability as variance_reliability,
)
from skcalib.report import (
    CalibrationReport as CalibrationReport,
)
from skcalib.report import (
    ComparisonReport as ComparisonReport,
)
from skcalib.scorers import (
    get_scorer as get_scorer,
)
from skcalib.scorers import (
    get_scorer_names as get_scorer_names,
)
from skcalib.scorers import (
    get_scorers as get_scorers,
)
from skcalib.significance import (
    compare_calibration as compare_calibration,
)
from skcalib.significance import (
    consistency_test as consistency_test,
)
from skcalib.significance import (
    cumulative_test as cumulative_test,
)
from skcalib.significance import (
    distribution_free_bound as distribution_free_bound,
)
from skcalib.significance import (
    hosmer_lemeshow_test as hosmer_lemeshow_test,
)
from skcalib.significance import (
    kernel_calibration_test as kernel_calibration_test,
)
from skcalib.significance import (
    spiegelhalter_test as spiegelhalter_test,
)
from skcalib.streaming import (
    IncrementalReliability as IncrementalReliability,
)
from skcalib.summary import (
    calibration_summary as calibration_summary,
)
from skcalib.theory import (
    ece_bias_bound as ece_bias_bound,
)
from skcalib.theory import (
    ece_generalization_bound as ece_generalization_bound,
)
from skcalib.theory import (
    evaluate_supersample as evaluate_supersample,
)
from skcalib.theory import (
    optimal_n_bins as optimal_n_bins,
)

__version__: str
GUESSES: dict[str, str]

__all__: list[str]
