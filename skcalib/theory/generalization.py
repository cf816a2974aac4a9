"""The binned error on the training samples against the error on new ones (F24).

Training samples make a classifier look calibrated. How far the ECE on them can be from the ECE on
new samples is bounded by the information that the evaluated classifier carries about which
samples it was trained on: conditional mutual information, given a *supersample* of n pairs of
which U in {0, 1}^n chooses one for training and leaves the other for testing.
"""

from dataclasses import dataclass

from skcalib._validation import check_not_negative, look_up
from skcalib.theory.bounds import (
    LOG2,
    STRATEGIES,
    check_lipschitz,
    check_samples_per_bin,
    quantile_deviation,
    sign_deviation,
)


@dataclass(frozen=True)
class _Setting:
    """Checked arguments of `ece_generalization_bound`."""

    n: int
    n_bins: int
    strategy: str
    lipschitz: float
    ecmi: float
    fcmi: float
    radius: float
    log_covering_number: float


def _ece_gap(s):
    return 2 * sign_deviation(s.n, s.n_bins, s.ecmi)


def _tce_gap(s):
    width = (1 + s.lipschitz) / s.n_bins
    if s.strategy == "quantile":  # the edges were learned too
        width += (1 + s.lipschitz) * sign_deviation(s.n, s.n_bins, s.fcmi)
    return width + _ece_gap(s)


def _recalibrated_fresh(s):
    return quantile_deviation(s.n, s.n_bins)


def _recalibrated_reused(s):
    return 2 * sign_deviation(s.n, s.n_bins, s.fcmi)


def _metric_entropy(s):
    # B ln(2 N) = B ln 2 + B ln N
    noise = 2 * sign_deviation(s.n, s.n_bins, s.n_bins * s.log_covering_number)
    return (1 + s.lipschitz) / s.n_bins + (2 + s.lipschitz) * s.radius + noise


BOUNDS = {
    "ece": _ece_gap,
    "tce": _tce_gap,
    "recalibrated_fresh": _recalibrated_fresh,
    "recalibrated_reused": _recalibrated_reused,
    "metric_entropy": _metric_entropy,
}


def ece_generalization_bound(
    n_samples,
    n_bins,
    *,
    bound="ece",
    strategy="uniform",
    lipschitz=1.0,
    ecmi=0.0,
    fcmi=0.0,
    radius=0.0,
    log_covering_number=0.0,
):
    r"""Bound on how far binned calibration errors on training samples are from the truth (F24).

    In expectation over the n training samples and, for "ece", n test samples:

    - "ece": :math:`|ECE(test) - ECE(train)| \le \sqrt{8 (eCMI + B \ln 2) / n}`.
    - "tce": :math:`|TCE - ECE(train)|` is at most this plus :math:`(1 + L) / B`, and for quantile
      bins, whose edges are learned, plus :math:`(1 + L) \sqrt{2 (fCMI + B \ln 2) / n}` as well.
    - "recalibrated_fresh": the TCE after histogram binning (quantile bins) with n held-out
      samples, at most :math:`\sqrt{2 B \ln 2 / (n - B)} + 2 B / (n - B)`.
    - "recalibrated_reused": the same error where the binning reuses the n training samples of the
      classifier, at most :math:`2 \sqrt{2 (fCMI + B \ln 2) / n}`.
    - "metric_entropy": :math:`|TCE - ECE(train)|` with uniform bins, without information: at most
      :math:`(1 + L) / B + (2 + L) \delta + \sqrt{8 B \ln(2 N(F, \delta / B)) / n}` with the number
      N of balls of radius :math:`\delta / B` that cover the class F of functions learned from.

    Information is that of the classifier about the choice U of its training samples, given the
    supersample of n pairs: eCMI that of its residuals on all 2 n samples, fCMI that of its
    forecasts there; :math:`0 \le eCMI \le fCMI \le n \ln 2` nats. The default 0 describes a
    classifier that does *not depend* on its training samples, so the result is then a floor of
    the bound and no statement about your classifier. For most classifiers the information is
    unknown; estimates from refits (:func:`evaluate_supersample`) are no upper bounds.

    Parameters
    ----------
    n_samples, n_bins : int
        Number of samples n and of bins B, with n >= 2 B. For "recalibrated_fresh" n is the number
        of fresh samples.
    bound : str, default="ece"
        What is bounded: "ece", "tce", "recalibrated_fresh", "recalibrated_reused" or
        "metric_entropy".
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins; makes a difference for "tce". Histogram binning has quantile bins always, the bound
        by metric entropy is for uniform ones.
    lipschitz : float, default=1.0
        Lipschitz constant L of the calibration curve, for "tce" and "metric_entropy".
    ecmi : float, default=0.0
        eCMI in nats, for "ece" and "tce".
    fcmi : float, default=0.0
        fCMI in nats, for "tce" with quantile bins and for "recalibrated_reused".
    radius, log_covering_number : float, default=0.0
        :math:`\delta` and :math:`\ln N(F, \delta / B)`, for "metric_entropy". With the default 0
        the class F is one single function.

    Returns
    -------
    float
        The bound, positive, in the units of the ECE; not cut at 1, above which it is vacuous.

    Raises
    ------
    ValueError
        If n < 2 B, an argument is out of its range, the information exceeds n ln 2, or
        ``bound="metric_entropy"`` comes with quantile bins.

    See Also
    --------
    evaluate_supersample : Refits that show the gap itself.
    ece_bias_bound : Bounds for held-out samples.

    Examples
    --------
    >>> from skcalib import ece_generalization_bound
    >>> round(ece_generalization_bound(100, 15, bound="recalibrated_fresh"), 4)
    0.8476
    >>> [round(ece_generalization_bound(10_000, 20, ecmi=nats), 3) for nats in (0, 10, 100)]
    [0.105, 0.138, 0.302]
    """
    n_samples, n_bins = check_samples_per_bin(n_samples, n_bins)
    formula = look_up(bound, BOUNDS, "bound")
    look_up(strategy, STRATEGIES, "strategy")
    if bound == "metric_entropy" and strategy != "uniform":
        raise ValueError("bound='metric_entropy' holds for uniform bins: use bound='tce'.")
    for name, value in (("ecmi", ecmi), ("fcmi", fcmi)):
        check_not_negative(value, name, "information in nats")
        if value > n_samples * LOG2 * (1 + 1e-12):
            raise ValueError(
                f"{name}={value:g} nats exceeds n ln 2 = {n_samples * LOG2:g}, the entropy of the "
                "choice of n training samples: no classifier knows more."
            )
    return formula(
        _Setting(
            n_samples,
            n_bins,
            strategy,
            check_lipschitz(lipschitz),
            float(ecmi),
            float(fcmi),
            check_not_negative(radius, "radius", "the radius of a cover"),
            check_not_negative(log_covering_number, "log_covering_number", "a logarithm, ln N"),
        )
    )
