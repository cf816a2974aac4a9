"""Links: parametric maps of logits, and the one routine that fits them."""

from skcalib.links.affine import DirichletMap, MatrixMap, VectorMap
from skcalib.links.maps import (
    BetaMap,
    BinaryMap,
    Link,
    LinkFit,
    MonotoneNetwork,
    MonotonePieces,
    PlattMap,
    QuadraticMap,
    fit_link,
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
