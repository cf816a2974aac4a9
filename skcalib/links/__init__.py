"""Links: parametric maps of logits, and the one routine that fits them."""

from skcalib.links._base import Link, LinkFit, fit_link
from skcalib.links.maps import (
    BetaMap,
    BinaryMap,
    DirichletMap,
    MatrixMap,
    MonotoneNetwork,
    MonotonePieces,
    PlattMap,
    QuadraticMap,
    VectorMap,
)
from skcalib.links.temperature import BiasCorrectedTemperature, fit_bias_corrected

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
    "VectorMap",
    "fit_bias_corrected",
    "fit_link",
]
