"""The proper calibration error of a problem with its interval: one recipe for all who report it."""

import numpy as np

from skcalib._arguments import check_loss, check_notion, check_smoother, choose_method
from skcalib.errors.proper import reduce_terms, smooth_notion
from skcalib.inference import MeanInterval, mean_interval


def proper_interval(
    problem, *, loss, notion, smoother=None, method="auto", confidence_level=0.95, n_jobs=None
):
    """`Problem` -> (`ProperTerms`, `MeanInterval`), see `interval_of_smoothed`."""
    score, notion = check_loss(loss), check_notion(notion)
    smoother = check_smoother(smoother).for_loss(score)
    smoothed = smooth_notion(problem, notion=notion, smoother=smoother, n_jobs=n_jobs)
    how = {"loss": score, "notion": notion, "method": method}
    return interval_of_smoothed(smoothed, confidence_level=confidence_level, **how)


def interval_of_smoothed(smoothed, *, loss, notion, method="auto", confidence_level=0.95):
    r"""Terms of smoothed problems, and the interval of their calibration error.

    The interval is Student's, with the spread of the paired differences
    :math:`L(y, S) - L(y, \hat C)` around the estimate, as in `CalibrationErrorEstimator`. What
    differs is what concerns zero, the lowest error there is:

    - Limits are cut at 0.
    - The upper limit t has the spread at t instead of that at the estimate, as Wilson's interval of
      a rate: the variance grows in proportion to a small error, so that an estimate that is too
      small by chance has too small a standard error as well.
    - The estimate "risk" is too small by the squared error of :math:`\hat C`, by which "direct" is
      too large. Its upper limit is around the mean of the two, which is what "cross" is for a
      quadratic form.

    It is never below Student's limit, and tends to that where the error is large.

    Parameters
    ----------
    smoothed : list of SmoothedProblem
        From `smooth_notion`; several losses may share it.
    loss, notion, method : as in `proper_calibration_error`
        Names or objects.
    confidence_level : float
        Level of the two-sided interval.

    Returns
    -------
    terms : ProperTerms
        ``terms.mean("calibration")`` is the estimate, ``terms.influence`` what the standard error
        comes from.
    interval : MeanInterval or None
        None for "direct", which has no standard error.
    """
    score, notion = check_loss(loss), check_notion(notion)
    method = choose_method(method, score)
    given = {"score": score, "notion": notion}
    terms = reduce_terms(smoothed, method=method, **given)
    if terms.influence is None:
        return terms, None
    estimate = terms.mean("calibration")
    found = mean_interval(terms.influence, terms.weight, confidence_level, estimate=estimate)
    if not np.isfinite(estimate):
        return terms, found
    direct = reduce_terms(smoothed, method="direct", **given).mean("calibration")
    centre = (estimate + direct) / 2 if method == "risk" else estimate
    high = max(found.high, _upper(max(centre, 0.0), direct, found.high - estimate))
    return terms, MeanInterval(estimate, max(found.low, 0.0), high, found.standard_error)


def _upper(centre, direct, reach):
    """The error t with t - centre = reach sqrt(t / direct): its own spread, not the estimate's."""
    if not (direct > 0 and np.isfinite(reach)):
        return centre + reach
    growth = reach**2 / direct
    return float(centre + growth / 2 + np.sqrt(growth * (centre + growth / 4)))
