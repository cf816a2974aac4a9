"""The laws of scores, smoothers, notions, links, kernels, recalibrators and displays.

Each public checker takes an instance. It raises an `AssertionError` that names the violated law and
what was found. A law is a short function, and the first line of its docstring is its name.
"""

from skcalib.testing.displays import check_display
from skcalib.testing.estimators import check_recalibrator, check_smoother
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
