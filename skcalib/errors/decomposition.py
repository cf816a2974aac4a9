"""The decomposition of a mean loss: calibration, refinement, sharpness and uncertainty."""

from dataclasses import dataclass

from skcalib.errors._terms import proper_terms
from skcalib.problem import check_problem


@dataclass(frozen=True)
class ScoreDecomposition:
    """Terms of a mean loss; see :func:`score_decomposition`.

    ``loss = calibration + refinement`` and ``refinement = uncertainty - sharpness``.
    """

    loss: float
    calibration: float
    refinement: float
    sharpness: float
    uncertainty: float


def score_decomposition(
    y_true,
    y_proba,
    *,
    loss="brier",
    notion="canonical",
    smoother=None,
    method="auto",
    sample_weight=None,
    labels=None,
    pos_label=None,
):
    r"""Decompose the mean loss: calibration + uncertainty - sharpness.

    .. math::

        E\, L(Y, S) = \underbrace{E\, D(C, S)}_{calibration} + \underbrace{E\, H(C)}_{refinement},
        \qquad E\, H(C) = \underbrace{H(E[Y])}_{uncertainty}
        - \underbrace{E\, D(C, E[Y])}_{sharpness}

    with :math:`C = E[Y|S]` (P24 eq. 4-5, G22). The estimates satisfy both identities exactly.

    Parameters
    ----------
    y_true, y_proba, loss, notion, smoother, sample_weight, labels, pos_label
        As in :func:`proper_calibration_error`.
    method : {"auto", "risk", "cross"}, default="auto"
        As in :func:`proper_calibration_error`. "direct" is refused: its terms do not add up.

    Returns
    -------
    ScoreDecomposition
        Record with the floats ``loss, calibration, refinement, sharpness, uncertainty``, in the
        units of the loss.

    Raises
    ------
    ValueError
        As :func:`proper_calibration_error`; for ``method="direct"``.

    Examples
    --------
    >>> from skcalib import score_decomposition
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> terms = score_decomposition(data.y, data.y_proba)
    >>> round(terms.loss, 3), round(terms.calibration, 3), round(terms.sharpness, 3)
    (0.168, 0.007, 0.09)
    """
    if method == "direct":
        raise ValueError(
            "method='direct' estimates the calibration error alone, and does not add up with a "
            "refinement to the loss: use 'risk' or 'cross'."
        )
    problem = check_problem(
        y_true, y_proba, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    return decompose(
        proper_terms(problem, loss=loss, notion=notion, smoother=smoother, method=method)
    )


def decompose(terms):
    """`ProperTerms` -> `ScoreDecomposition`."""
    refinement = terms.mean("refinement")
    return ScoreDecomposition(
        loss=terms.mean("loss"),
        calibration=terms.mean("calibration"),
        refinement=refinement,
        sharpness=terms.uncertainty - refinement,
        uncertainty=terms.uncertainty,
    )
