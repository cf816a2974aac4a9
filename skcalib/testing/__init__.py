"""The laws of scores, smoothers, notions, links, kernels, recalibrators and displays.

Each public checker takes an instance. It raises an `AssertionError` that names the violated law and
what was found. A law is a short function, and the first line of its docstring is its name.
"""

from skcalib.testing.displays import check_display
from skcalib.testing.kernels import check_kernel
from skcalib.testing.links import check_link
from skcalib.testing.notions import check_notion
from skcalib.testing.recalibrators import check_recalibrator
from skcalib.testing.scores import check_score
from skcalib.testing.smoothers import check_smoother

__all__ = [
    "check_display",
    "check_kernel",
    "check_link",
    "check_notion",
    "check_recalibrator",
    "check_score",
    "check_smoother",
]
