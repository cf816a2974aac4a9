"""The public names and where they stand: the table of ``__init__.py`` for type checkers."""

import skcalib.data
import skcalib.displays
import skcalib.error_intervals
import skcalib.errors
import skcalib.estimators
import skcalib.export
import skcalib.grouping
import skcalib.io
import skcalib.kernels
import skcalib.links
import skcalib.monitoring
import skcalib.proper
import skcalib.recalibration
import skcalib.regression
import skcalib.report
import skcalib.risk_models
import skcalib.scorers
import skcalib.scores
import skcalib.significance
import skcalib.sketches
import skcalib.smoothers
import skcalib.stats
import skcalib.testing
import skcalib.theory
from skcalib import datasets as datasets
from skcalib.displays import (
    DecisionCurveDisplay as DecisionCurveDisplay,
    DecompositionDisplay as DecompositionDisplay,
    GroupCalibrationDisplay as GroupCalibrationDisplay,
    GroupingDisplay as GroupingDisplay,
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
    corp_decomposition as corp_decomposition,
    integrated_calibration_index as integrated_calibration_index,
    kernel_calibration_error as kernel_calibration_error,
    ks_calibration_error as ks_calibration_error,
    proper_calibration_error as proper_calibration_error,
    refinement_loss as refinement_loss,
    reliability_bins as reliability_bins,
    root_brier_score as root_brier_score,
    score_decomposition as score_decomposition,
    sharpness as sharpness,
    smooth_calibration_error as smooth_calibration_error,
)
from skcalib.estimators import (
    CalibrationErrorEstimator as CalibrationErrorEstimator,
    CrossFitProba as CrossFitProba,
    RecalibratedClassifierCV as RecalibratedClassifierCV,
)
from skcalib.grouping import (
    calibration_by_group as calibration_by_group,
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
    DirichletCalibration as DirichletCalibration,
    GroupRecalibrator as GroupRecalibrator,
    HistogramBinning as HistogramBinning,
    IdentityRecalibrator as IdentityRecalibrator,
    InterceptRecalibrator as InterceptRecalibrator,
    IsotonicRecalibrator as IsotonicRecalibrator,
    LabelShiftRecalibrator as LabelShiftRecalibrator,
    MultilabelRecalibrator as MultilabelRecalibrator,
    PlattScaling as PlattScaling,
    RecalibratorSelection as RecalibratorSelection,
    StackedRecalibrator as StackedRecalibrator,
    SplineScaling as SplineScaling,
    TemperatureScaling as TemperatureScaling,
    VectorScaling as VectorScaling,
    VennAbersRecalibrator as VennAbersRecalibrator,
    calibration_improvement as calibration_improvement,
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
    calibration_test as calibration_test,
    compare_calibration as compare_calibration,
    compare_windows as compare_windows,
    hosmer_lemeshow_test as hosmer_lemeshow_test,
    kernel_calibration_test as kernel_calibration_test,
)
from skcalib._util.progress import (
    show_progress as show_progress,
)
from skcalib.sketches.sketch import (
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
    optimal_n_bins as optimal_n_bins,
)

__version__: str
GUESSES: dict[str, str]

__all__: list[str]
