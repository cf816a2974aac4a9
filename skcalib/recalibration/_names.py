"""Recalibrators by name, for the estimators that take one."""

from skcalib.recalibration._base import require_recalibrator
from skcalib.recalibration.one_vs_rest import BetaCalibration, IsotonicRecalibrator, PlattScaling
from skcalib.recalibration.stacked import StackedRecalibrator
from skcalib.recalibration.temperature import TemperatureScaling

#: "sigmoid" is what scikit-learn calls Platt scaling.
RECALIBRATORS = {
    "auto": StackedRecalibrator,
    "temperature": TemperatureScaling,
    "isotonic": IsotonicRecalibrator,
    "platt": PlattScaling,
    "sigmoid": PlattScaling,
    "beta": BetaCalibration,
}


def resolve_recalibrator(recalibrator):
    """A recalibrator, by its name or as an object; raises for other values."""
    if isinstance(recalibrator, str) and recalibrator in RECALIBRATORS:
        return RECALIBRATORS[recalibrator]()
    require_recalibrator(recalibrator)
    return recalibrator
