"""Links: parametric maps of logits, their fits, and averages of maps."""

from skcalib.links.affine import DirichletMap, MatrixMap, VectorMap
from skcalib.links.maps import (
    BetaMap,
    BiasCorrectedTemperature,
    BinaryMap,
    Link,
    LinkFit,
    MonotoneNetwork,
    MonotonePieces,
    PlattMap,
    QuadraticMap,
    fit_bias_corrected,
    fit_link,
)

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
