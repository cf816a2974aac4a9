"""The upper bound of a proper calibration error: no smoother needed."""

import numpy as np

from skcalib._arguments import check_loss, check_notion
from skcalib.problem import check_problem
from skcalib.tower import weighted_mean


def calibration_upper_bound(
    y_true,
    y_proba,
    *,
    loss="brier",
    notion="canonical",
    sample_weight=None,
    labels=None,
    pos_label=None,
):
    r"""Upper bound of the proper calibration error: mean loss minus its infimum (G22).

    :math:`U = E\, L(Y, S) - \inf H \ge CE`. An unbiased mean that needs no smoother, no bins and
    no bandwidth, and hardly moves with the sample size. An injective recalibration changes U and
    the calibration error by the same amount, so differences of U measure what was gained.

    Parameters
    ----------
    y_true, y_proba, notion, sample_weight, labels, pos_label
        As in :func:`~skcalib.proper_calibration_error`.
    loss : {"brier", "log", "spherical"} or ProperScore, default="brier"
        A proper score whose entropy has an infimum.

    Returns
    -------
    float
        Not negative, in the units of the loss, not rooted.

    Raises
    ------
    ValueError
        For invalid input, and for scores without an infimum, which bound nothing.

    Examples
    --------
    >>> from skcalib import calibration_upper_bound
    >>> round(calibration_upper_bound([0, 1], [0.2, 0.6]), 3)
    0.1
    """
    # Domain and infimum are asked of the score before anything is computed.
    score = check_loss(loss)
    if score.infimum is None:
        raise ValueError(
            f"{score!r} has no lowest entropy, so its mean loss bounds nothing: use 'brier', "
            "'log', 'spherical' or a ProperScore that declares its infimum."
        )
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    notion = check_notion(notion)
    bounds = [
        weighted_mean(score.loss(target, forecast), problem.weight) - score.infimum
        for forecast, target in notion.problems(problem.forecast, problem.target)
    ]
    return float(np.mean(bounds) if notion.reduce == "mean" else np.sum(bounds))


def root_brier_score(y_true, y_proba, *, sample_weight=None, labels=None, pos_label=None):
    r"""Root Brier score: :math:`RBS = \sqrt{U_{Brier}}`, an upper bound of the rooted error (G22).

    The root of the mean squared distance to the label, halved for K = 2 before the root as in
    scikit-learn (G22 sums both columns: their binary value is :math:`\sqrt 2` times ours). At
    least the root of the Brier calibration error, and nearly constant in the sample size, where
    binned errors are not.

    Parameters
    ----------
    y_true, y_proba, sample_weight, labels, pos_label
        As in :func:`~skcalib.proper_calibration_error`.

    Returns
    -------
    float
        In [0, sqrt 2], for K = 2 in [0, 1]; units of probability.

    Raises
    ------
    ValueError
        For invalid input.

    Examples
    --------
    >>> from skcalib import root_brier_score
    >>> round(root_brier_score([0, 1], [0.2, 0.6]), 3)
    0.316
    """
    bound = calibration_upper_bound(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    return float(np.sqrt(bound))
