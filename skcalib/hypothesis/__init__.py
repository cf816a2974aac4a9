"""Tests of calibration: is this miscalibration real?"""

from skcalib.hypothesis._record import CalibrationTest
from skcalib.hypothesis.binary import (
    cumulative_test,
    hosmer_lemeshow_test,
    spiegelhalter_test,
)

__all__ = [
    "CalibrationTest",
    "cumulative_test",
    "hosmer_lemeshow_test",
    "spiegelhalter_test",
]
