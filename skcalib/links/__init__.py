"""Links: parametric maps of logits, and the one routine that fits them."""

from skcalib.links._base import Link, LinkFit, fit_link
from skcalib.links.affine import DirichletMap, MatrixMap, VectorMap
from skcalib.links.bias_corrected import BiasCorrectedTemperature
from skcalib.links.binary import BetaMap, BinaryMap, PlattMap, QuadraticMap
from skcalib.links.diagonal import MonotoneNetwork, MonotonePieces
from skcalib.links.temperature import TemperatureMap

__all__ = [
    "BetaMap",
    "BiasCorrectedTemperature",
    "BinaryMap",
    "DirichletMap",
    "Link",
    "LinkFit",
    "MatrixMap",
    "MonotoneNetwork",
    "MonotonePieces",
    "PlattMap",
    "QuadraticMap",
    "TemperatureMap",
    "VectorMap",
    "fit_link",
]
