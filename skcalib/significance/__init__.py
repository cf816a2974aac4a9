"""Tests of calibration: is a miscalibration statistically significant?"""

from skcalib.significance.binary import (
    cumulative_test,
    hosmer_lemeshow_test,
    logistic_calibration_test,
    spiegelhalter_test,
)
from skcalib.significance.comparison import (
    CalibrationComparison,
    WindowComparison,
    WindowDifference,
    compare_calibration,
    compare_windows,
)
from skcalib.significance.consistency import consistency_test
from skcalib.significance.e_value import calibration_e_value, combine_tests
from skcalib.significance.kernel import distribution_free_bound, kernel_calibration_test
from skcalib.significance.omnibus import (
    CalibrationComponent,
    OmnibusTest,
    calibration_test,
)
from skcalib.stats.pvalues import CalibrationTest

__all__ = [
    "CalibrationComparison",
    "CalibrationComponent",
    "CalibrationTest",
    "OmnibusTest",
    "WindowComparison",
    "WindowDifference",
    "calibration_e_value",
    "calibration_test",
    "combine_tests",
    "compare_calibration",
    "compare_windows",
    "consistency_test",
    "cumulative_test",
    "distribution_free_bound",
    "hosmer_lemeshow_test",
    "kernel_calibration_test",
    "logistic_calibration_test",
    "spiegelhalter_test",
]
