"""The public names and where they stand, one line each: for type checkers and ``__init__.py``."""

from skcalib import datasets as datasets
from skcalib.displays import (
    DecisionCurveDisplay as DecisionCurveDisplay,
    DecompositionDisplay as DecompositionDisplay,
    EstimationDisplay as EstimationDisplay,
    GroupCalibrationDisplay as GroupCalibrationDisplay,
    GroupingDisplay as GroupingDisplay,
    MonitorDisplay as MonitorDisplay,
    MurphyDisplay as MurphyDisplay,
    RecalibrationDisplay as RecalibrationDisplay,
    ReliabilityDisplay as ReliabilityDisplay,
)
from skcalib.error_intervals import (
    calibration_error_interval as calibration_error_interval,
)
from skcalib.errors import (
    calibration_error as calibration_error,
    calibration_intercept_slope as calibration_intercept_slope,
    calibration_upper_bound as calibration_upper_bound,
    corp_bands as corp_bands,
    corp_decomposition as corp_decomposition,
    corp_test as corp_test,
    cumulative_curve as cumulative_curve,
    integrated_calibration_index as integrated_calibration_index,
    kde_calibration_error as kde_calibration_error,
    kernel_calibration_error as kernel_calibration_error,
    ks_calibration_error as ks_calibration_error,
    proper_calibration_error as proper_calibration_error,
    refinement_loss as refinement_loss,
    reliability_bins as reliability_bins,
    root_brier_score as root_brier_score,
    score_decomposition as score_decomposition,
    sharpness as sharpness,
    simplex_calibration_error as simplex_calibration_error,
    smooth_calibration_error as smooth_calibration_error,
    unconditional_mean_embedding_error as unconditional_mean_embedding_error,
)
from skcalib.estimators import (
    CalibrationErrorEstimator as CalibrationErrorEstimator,
    CrossFitProba as CrossFitProba,
    RecalibratedClassifierCV as RecalibratedClassifierCV,
)
from skcalib.grouping import (
    calibration_by_group as calibration_by_group,
    calibration_curve_equality_test as calibration_curve_equality_test,
    GroupingLossEstimator as GroupingLossEstimator,
    soft_label_decomposition as soft_label_decomposition,
)
from skcalib.monitoring import (
    CalibrationMonitor as CalibrationMonitor,
    SequentialCalibrationTest as SequentialCalibrationTest,
    expected_performance as expected_performance,
)
from skcalib.recalibration import (
    BetaCalibration as BetaCalibration,
    BiasCorrectedTemperatureScaling as BiasCorrectedTemperatureScaling,
    DiagonalOrderPreserving as DiagonalOrderPreserving,
    DirichletCalibration as DirichletCalibration,
    EnsembleTemperatureScaling as EnsembleTemperatureScaling,
    GroupRecalibrator as GroupRecalibrator,
    HistogramBinning as HistogramBinning,
    IdentityRecalibrator as IdentityRecalibrator,
    InterceptRecalibrator as InterceptRecalibrator,
    IsotonicRecalibrator as IsotonicRecalibrator,
    KernelRecalibrator as KernelRecalibrator,
    LabelFrequency as LabelFrequency,
    LabelNoiseScaling as LabelNoiseScaling,
    LabelShiftRecalibrator as LabelShiftRecalibrator,
    MatrixScaling as MatrixScaling,
    ModelAverageScaling as ModelAverageScaling,
    MultilabelRecalibrator as MultilabelRecalibrator,
    PlattScaling as PlattScaling,
    QuadraticScaling as QuadraticScaling,
    RecalibratorSelection as RecalibratorSelection,
    StackedRecalibrator as StackedRecalibrator,
    SplineScaling as SplineScaling,
    TemperatureScaling as TemperatureScaling,
    VectorScaling as VectorScaling,
    VennAbersRecalibrator as VennAbersRecalibrator,
    calibration_improvement as calibration_improvement,
)
from skcalib.regression import (
    RecalibratedRegressorCV as RecalibratedRegressorCV,
    VarianceScaling as VarianceScaling,
    dawid_sebastiani_score as dawid_sebastiani_score,
    kernel_calibration_error_gaussian as kernel_calibration_error_gaussian,
    kernel_calibration_test_gaussian as kernel_calibration_test_gaussian,
    variance_reliability as variance_reliability,
)
from skcalib.report import (
    CalibrationReport as CalibrationReport,
    ComparisonReport as ComparisonReport,
)
from skcalib.scorers import (
    get_scorer as get_scorer,
    get_scorer_names as get_scorer_names,
    get_scorers as get_scorers,
)
from skcalib.significance import (
    calibration_e_value as calibration_e_value,
    combine_tests as combine_tests,
    compare_calibration as compare_calibration,
    compare_windows as compare_windows,
    consistency_test as consistency_test,
    cumulative_test as cumulative_test,
    distribution_free_bound as distribution_free_bound,
    hosmer_lemeshow_test as hosmer_lemeshow_test,
    kernel_calibration_test as kernel_calibration_test,
    logistic_calibration_test as logistic_calibration_test,
    spiegelhalter_test as spiegelhalter_test,
)
from skcalib._util.progress import (
    show_progress as show_progress,
)
from skcalib.sketches.frames import (
    summarize as summarize,
)
from skcalib.sketches.sketch import (
    ForecastSketch as ForecastSketch,
)
from skcalib.risk_models import (
    calibration_summary as calibration_summary,
    decision_regret as decision_regret,
)
from skcalib.theory import (
    ece_bias_bound as ece_bias_bound,
    ece_generalization_bound as ece_generalization_bound,
    evaluate_supersample as evaluate_supersample,
    optimal_n_bins as optimal_n_bins,
)

__version__: str
GUESSES: dict[str, str]

__all__: list[str]
