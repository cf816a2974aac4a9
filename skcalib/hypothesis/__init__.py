"""Tests of calibration: is this miscalibration real?"""

from skcalib.hypothesis._record import CalibrationTest
from skcalib.hypothesis.binary import (
    cumulative_test,
    hosmer_lemeshow_test,
    spiegelhalter_test,
)
from skcalib.hypothesis.comparison import CalibrationComparison, compare_calibration
from skcalib.hypothesis.consistency import consistency_test
from skcalib.hypothesis.distribution_free import distribution_free_bound
from skcalib.hypothesis.kernel import kernel_calibration_test

__all__ = [
    "CalibrationComparison",
    "CalibrationTest",
    "compare_calibration",
    "consistency_test",
    "cumulative_test",
    "distribution_free_bound",
    "hosmer_lemeshow_test",
    "kernel_calibration_test",
    "spiegelhalter_test",
]
