"""The laws of scores, smoothers, notions, links, kernels, recalibrators and displays.

Each public checker takes an instance. It raises an `AssertionError` that names the violated law and
what was found. A law is a block below its sentence. An object of class `ScoreLaws`, `LinkLaws`
and so on has the random data for which it checks the laws of a kind.
"""

from skcalib.testing.estimators import check_display, check_recalibrator, check_smoother
from skcalib.testing.formulas import check_kernel, check_link, check_notion, check_score

__all__ = [
    "check_display",
    "check_kernel",
    "check_link",
    "check_notion",
    "check_recalibrator",
    "check_score",
    "check_smoother",
]
