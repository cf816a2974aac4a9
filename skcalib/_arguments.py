"""Losses, notions, smoothers and methods: the names and objects that callers pass."""

from skcalib._validation import look_up
from skcalib.notions import NOTIONS, Notion
from skcalib.scores import SCORES, ProperScore
from skcalib.smoothers import (
    CrossFitted,
    DirichletKernel,
    IsotonicSmoother,
    LogitSmoother,
    QuantileBins,
    Smoother,
    SplineSmoother,
    UniformBins,
)

METHODS = ("auto", "risk", "direct", "cross")
#: Smoothers by name, for the errors and for the curves of diagrams; "binning" is "quantile".
SMOOTHERS = {
    "isotonic": IsotonicSmoother,
    "quantile": QuantileBins,
    "uniform": UniformBins,
    "smooth": SplineSmoother,
    "kernel": DirichletKernel,
    "binning": QuantileBins,
}


def resolve_loss(loss):
    """A proper score for class probabilities."""
    score = look_up(loss, SCORES, "loss", kind=ProperScore)
    if score.domain != "simplex":
        raise ValueError(
            f"{score!r} scores means and variances, not class probabilities: use 'brier', 'log', "
            "'spherical' or a ProperScore on the simplex."
        )
    return score


def resolve_notion(notion):
    """A notion, by its name or as an object."""
    return look_up(notion, NOTIONS, "notion", kind=Notion)


def resolve_method(method, score):
    """The method for a score: "auto" is "cross" where there is one, else "risk"."""
    look_up(method, dict.fromkeys(METHODS), "method")
    if method == "auto":
        return "cross" if score.separable else "risk"
    if method == "cross" and not score.separable:
        raise ValueError(
            f"method='cross' needs a score that is a fixed quadratic form, such as 'brier'; "
            f"{score!r} is none: use method='risk'."
        )
    return method


def resolve_smoother(smoother):
    """None is the default; strings, smoothers and scikit-learn classifiers pass."""
    if smoother is None:
        return LogitSmoother()
    if hasattr(smoother, "predict_proba") and not isinstance(smoother, (Smoother, type)):
        return CrossFitted(smoother)
    return look_up(smoother, SMOOTHERS, "smoother", kind=Smoother)
