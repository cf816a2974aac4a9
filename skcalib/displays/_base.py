"""Shared by the displays: held-out probabilities, units of losses, and legend texts."""

from skcalib._labels import check_y
from skcalib._validation import check_indices, check_weight, take_rows
from skcalib.estimators._response import held_out_problem
from skcalib.scores import Brier, LogLoss, Spherical, resolve_loss

UNCHANGED = "Unchanged"  # legend text for the diagonal of a map


def held_out(estimator, X, y, *, cv, response_method, sample_weight, owner, groups=None):
    """The `Problem` of the samples that can be assessed, their features, and their rows."""
    check_indices(X=X, y=y, sample_weight=sample_weight, groups=groups)
    y = check_y(y, name="y")
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    problem, rows = held_out_problem(
        estimator,
        X,
        y,
        weight,
        cv=cv,
        response_method=response_method,
        fit_params=None if cv is None or weight is None else {"sample_weight": weight},
        groups=groups,
        split_groups=groups,
        owner=owner,
    )
    features = X if len(rows) == len(y) else take_rows(X, rows)
    return problem, features, rows


_UNITS = {Brier: "Brier score", LogLoss: "log loss in nats", Spherical: "spherical score"}


def unit(loss):
    """Name and unit of a loss; the class name for a score from outside this library."""
    score = resolve_loss(loss)
    return _UNITS.get(type(score), type(score).__name__)
