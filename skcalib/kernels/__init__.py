"""Kernels on the simplex: small values that can be scaled, added and multiplied."""

from skcalib.kernels._base import Kernel
from skcalib.kernels.matrix import MatrixKernel
from skcalib.kernels.simplex import KERNELS, GaussianKernel, LaplacianKernel, median_distance

__all__ = [
    "KERNELS",
    "GaussianKernel",
    "Kernel",
    "LaplacianKernel",
    "MatrixKernel",
    "median_distance",
]
