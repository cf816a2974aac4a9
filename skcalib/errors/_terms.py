r"""The terms of a proper calibration error, sample by sample.

Every function and estimator of proper errors reads the same record: the loss of the forecast, the
part of it that is miscalibration, the part that is refinement, each as an array over samples whose
weighted mean is the estimate. Written with the calibrated scores :math:`\hat C` that a smoother
estimates without a sample's own label:

=========  =====================================================  =============================
method     calibration                                            refinement
=========  =====================================================  =============================
"risk"     L(Y, S) - refinement                                   L(Y, Ĉ), or H(Ĉ) for P24
"direct"   D(Ĉ, S)                                                as for "risk"
"cross"    (D(Ĉ, S) + L(Y, S) - L(Y, Ĉ)) / 2 = c <Y - S, Ĉ - S>   L(Y, S) - calibration
=========  =====================================================  =============================

"auto" is "cross" for scores that are a quadratic form, and "risk" for the others.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from skcalib._arguments import check_loss, check_notion, check_smoother, choose_method
from skcalib._parallel import run_each
from skcalib.tower import weighted_mean


@dataclass(frozen=True)
class ProperTerms:
    """Arrays over samples, already reduced over the problems of the notion.

    ``influence`` is the paired difference whose spread gives the standard error of the
    calibration estimate; None where no standard error is known (method "direct").
    """

    loss: np.ndarray
    calibration: np.ndarray
    refinement: np.ndarray
    influence: np.ndarray | None
    uncertainty: float
    weight: np.ndarray

    def mean(self, name):
        """Weighted mean of a term."""
        return float(weighted_mean(getattr(self, name), self.weight))


@dataclass(frozen=True)
class SmoothedProblem:
    """One problem of a notion with its calibrated scores Ĉ, which depend on no score.

    ``by_entropy`` tells that the smoother reads the refinement as the entropy of Ĉ.
    """

    forecast: np.ndarray
    target: np.ndarray
    conditional: np.ndarray
    weight: np.ndarray
    by_entropy: bool

    def refinement(self, score):
        """Refinement sample by sample, as the smoother reads it."""
        if self.by_entropy:
            return score.entropy(self.conditional)
        return score.loss(self.target, self.conditional)


def smooth_held_out(forecast, target, weight, smoother):
    """Fit a clone of the smoother; no sample sees its own label."""
    fitted = clone(smoother).fit(forecast, target, weight)
    conditional = fitted.smooth_held_out()
    return SmoothedProblem(forecast, target, conditional, weight, fitted.refinement == "entropy")


def smooth_notion(problem, *, notion, smoother, n_jobs=None):
    """Smooth every problem of a notion -> list of `SmoothedProblem`."""
    tasks = (
        (forecast, target, problem.weight, smoother)
        for forecast, target in notion.problems(problem.forecast, problem.target)
    )
    return run_each(smooth_held_out, tasks, n_jobs=n_jobs)


def proper_terms(problem, *, loss, notion, smoother, method, n_jobs=None):
    """Arguments of a public function -> `ProperTerms`."""
    score = check_loss(loss)
    notion = check_notion(notion)
    method = choose_method(method, score)
    smoother = check_smoother(smoother).for_loss(score)
    smoothed = smooth_notion(problem, notion=notion, smoother=smoother, n_jobs=n_jobs)
    return reduce_terms(smoothed, score=score, notion=notion, method=method)


def reduce_terms(smoothed, *, score, notion, method):
    """Terms of the problems of a notion, reduced to one record."""
    terms = [_terms_of_one(one, score, method) for one in smoothed]
    share = 1 / len(terms) if notion.reduce == "mean" else 1.0

    def total(name):
        parts = [getattr(term, name) for term in terms]
        return None if parts[0] is None else share * sum(parts)

    names = ("loss", "calibration", "refinement", "influence", "uncertainty")
    return ProperTerms(*(total(name) for name in names), smoothed[0].weight)


def _terms_of_one(smoothed, score, method):
    target, forecast, conditional = smoothed.target, smoothed.forecast, smoothed.conditional
    loss, refinement = score.loss(target, forecast), smoothed.refinement(score)
    if method == "direct":
        calibration, influence = score.divergence(conditional, forecast), None
    elif method == "risk":
        refuse_infinite(refinement)
        calibration = influence = loss - refinement
    else:
        influence = loss - score.loss(target, conditional)
        calibration = 0.5 * (score.divergence(conditional, forecast) + influence)
        refinement = loss - calibration
    uncertainty = float(score.entropy(weighted_mean(target, smoothed.weight)))
    return ProperTerms(loss, calibration, refinement, influence, uncertainty, smoothed.weight)


def refuse_infinite(refinement):
    """An infinite loss of the *smoother* says nothing about the forecast."""
    infinite = np.sum(~np.isfinite(refinement))
    if infinite:
        raise ValueError(
            f"The smoother gives probability 0 to the label of {infinite} held-out samples, so "
            "its own log loss is infinite and nothing can be compared with it: use the default "
            "smoother, method='direct' or loss='brier'."
        )
