"""What the numbers of a loss are called on a figure."""

from skcalib._arguments import check_loss
from skcalib.scores import Brier, LogLoss, Spherical

_UNITS = {Brier: "Brier score", LogLoss: "log loss in nats", Spherical: "spherical score"}


def unit(loss):
    """Name and unit of a loss; the class of a score that is not one of ours."""
    score = check_loss(loss)
    return _UNITS.get(type(score), type(score).__name__)
