r"""Bounds of binned calibration errors: number of bins, bias, and generalization (F24).

`optimal_n_bins` and `ece_bias_bound` are for held-out samples; `ece_generalization_bound` is for
training samples, on which a classifier appears calibrated. The ECE differs from the TCE for two
reasons: it averages over the samples in a bin (statistical bias, grows with B) and over the
forecasts in a bin (binning bias, falls with B).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from math import log, sqrt
from numbers import Real
from typing import Any, Literal

import numpy as np

from skcalib._util.messages import is_whole, shown
from skcalib._util.parameters import check_choice, checks_parameters
from skcalib._util.types import Strategy
from skcalib._util.validation import check_count, check_not_negative

LOG2 = log(2)


@checks_parameters
def optimal_n_bins(
    n_samples: int,
    *,
    lipschitz: float = 1.0,
    strategy: Strategy = "uniform",
    bound: Literal["bias", "tce"] = "bias",
) -> int:
    r"""Number of bins that minimises a bound on the error of the ECE (F24).

    "bias" minimises the total bound of :func:`~skcalib.theory.ece_bias_bound`, for held-out
    samples. For bins of equal width that is :math:`(1 + L) / B + \sqrt{2 B \ln 2 / n}`, with its
    minimum over real B at

    .. math::

        B^* = ( 2 n (1 + L)^2 / \ln 2 )^{1/3} .

    F24 rounds it down; here the whole number with the smallest bound is found by search, as for
    bins of equal mass, whose bound is larger.

    "tce" minimises ``ece_generalization_bound(bound="tce")`` without information, for the samples
    that the classifier was trained on.

    These numbers minimise a *bound* for every forecast with this L, not the error: for most
    forecasts fewer or more bins give a smaller error. The rate :math:`n^{1/3}` is correct. Cost:
    O(ln n).

    Parameters
    ----------
    n_samples : int
        Number of samples n on which the error is computed, at least 1.
    lipschitz : float, default=1.0
        Lipschitz constant L of the calibration curve :math:`f \mapsto E[Y|f]`, not negative: 1 for
        a calibrated forecast, more where the curve is steeper. That is usually in the middle for
        under-confident forecasts, and near 0 and 1 for over-confident ones.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width or of equal mass; equal width first, as in F24.
    bound : {"bias", "tce"}, default="bias"
        The bound to minimise: for held-out samples or for training samples.

    Returns
    -------
    int
        Number of bins, at least 1 and otherwise at most n / 2, for which the bounds hold.

    Raises
    ------
    ValueError
        If `n_samples` is not a whole number of at least 1, `lipschitz` is negative or not finite,
        or a name is unknown.

    See Also
    --------
    skcalib.theory.ece_generalization_bound : The bound for training samples.

    Examples
    --------
    >>> from skcalib import optimal_n_bins
    >>> [optimal_n_bins(n) for n in (100, 1000, 10_000)]
    [11, 23, 49]
    >>> [optimal_n_bins(n, strategy="quantile") for n in (1000, 10_000, 100_000)]
    [9, 21, 48]
    >>> [optimal_n_bins(n, bound="tce") for n in (1000, 10_000, 100_000)]
    [14, 31, 66]
    """
    n_samples, lipschitz = check_count(n_samples, "n_samples"), check_lipschitz(lipschitz)
    check_choice(strategy, "strategy", choices=STRATEGIES)
    check_choice(bound, "bound", choices=("bias", "tce"))

    def value(n_bins):
        if bound == "bias":
            return sum(_bias_terms(n_samples, n_bins, strategy, lipschitz))
        return _tce_gap(n_samples, n_bins, strategy, lipschitz)

    # The bounds fall and then rise with the number of bins: find the first that is not above its
    # successor.
    candidates = range(1, max(n_samples // 2, 1))
    return 1 + bisect_left(candidates, True, key=lambda b: value(b) <= value(b + 1))


def cube_root_bins(n_samples: int) -> int:
    r"""Number of bins :math:`n^{1/3}`, rounded, at least 1: the rate of F24 without a constant."""
    return max(1, round(n_samples ** (1 / 3)))


#: Numbers of bins that depend on the number of samples, by their names. For bins of equal width
#: "auto" is that of equal mass too: the bound of equal width is smallest at twice as many bins, but
#: the error is larger there (doc/user_guide/ece_bias.rst).
BIN_RULES: dict[str, Callable[[int], int]] = {
    "auto": partial(optimal_n_bins, strategy="quantile"),
    "cube_root": cube_root_bins,
}


#: More bins of equal width are refused: probabilities are seldom known to more than six decimals.
MOST_BINS = 10**6


def parse_bins(n_bins: Any, n_samples: int, strategy: Strategy) -> int | np.ndarray:
    """`n_bins` of a public function -> the number of bins, or edges that increase from 0 to 1.

    Bins of equal mass hold at least one sample each, so their number is limited to the number of
    samples. More than `MOST_BINS` bins of equal width raise an error.
    """
    if isinstance(n_bins, str) and n_bins in BIN_RULES:
        return BIN_RULES[n_bins](n_samples)
    message = "Edges given as n_bins must be numbers that increase strictly from 0 to 1."
    try:
        edges = None if np.ndim(n_bins) == 0 else np.array(n_bins, dtype=np.float64)
    except (TypeError, ValueError) as error:  # lists of unequal lengths have no ndim either
        raise ValueError(message) from error
    if edges is None:
        if is_whole(n_bins) and n_bins >= 1:
            if strategy == "quantile":
                return min(int(n_bins), max(n_samples, 1))
            if int(n_bins) > MOST_BINS:
                raise ValueError(
                    f"n_bins must be at most {MOST_BINS} for bins of equal width, got {n_bins!r}: "
                    "use fewer bins, or strategy='quantile'."
                )
            return int(n_bins)
        rules = ", ".join(map(repr, BIN_RULES))
        raise ValueError(
            f"n_bins must be a whole number of at least 1, {rules} or edges, got {shown(n_bins)}."
        )
    good = edges.ndim == 1 and len(edges) >= 2 and np.all(np.diff(edges) > 0)
    if not (good and edges[0] == 0 and edges[-1] == 1):
        raise ValueError(message)
    return edges


@checks_parameters
def ece_bias_bound(
    n_samples: int,
    n_bins: int,
    *,
    strategy: Strategy = "uniform",
    lipschitz: float = 1.0,
    term: Literal["total", "statistical", "binning"] = "total",
    confidence_level: float | None = None,
) -> float:
    r"""Bound on the bias of the binned calibration error of a binary forecast (F24).

    With :math:`TCE_B` the TCE of the forecast averaged in each bin and
    :math:`r = \sqrt{2 B \ln 2 / (n - B)} + 2 B / (n - B)`:

    - "statistical": :math:`E |ECE - TCE_B|` is at most :math:`\sqrt{2 B \ln 2 / n}` for uniform
      bins, r for quantile bins.
    - "binning": :math:`|TCE_B - TCE|` is at most :math:`(1 + L) / B` for uniform bins. For quantile
      bins, which are random, its expectation is at most :math:`(1 + L) (1/B + r)`.
    - "total": :math:`E |ECE - TCE|` is at most the sum, :math:`(1 + L)/B + \sqrt{2 B \ln 2 / n}`
      for uniform bins and :math:`(1 + L)/B + (2 + L) r` for quantile bins.

    Uniform bins must not depend on the samples. Quantile bins must be cut at fixed ranks, such as
    floor(n b / B), of forecasts without ties. The samples must be independent of the classifier.
    The bounds are worst cases over all forecasts: expect the bias to be several times smaller. A
    bound above 1 is not informative.

    With `confidence_level` :math:`1 - \delta` the same differences, without the expectation, stay
    below the returned value with at least that probability. For uniform bins :math:`|ECE - TCE_B|`
    is at most :math:`\sqrt{2 (B \ln 2 + \ln(1/\delta)) / n}`. F24's corollary 2 prints
    :math:`\ln(1/\delta)` without the factor 2. For quantile bins

    .. math::

        |ECE - TCE_B| \le \tfrac32 \sqrt{2 (B \ln 2 + \ln(2/\delta)) / n} + 2 B / n, \qquad
        |TCE_B - TCE| \le (1 + L) \big(1/B + 2/n + \sqrt{\ln(B/\delta) / (2 n)}\big),

    and "total" is their sum at :math:`\delta / 2` each. These bounds for quantile bins are ours,
    not F24's: :ref:`ece_bias` has the derivations.

    Parameters
    ----------
    n_samples, n_bins : int
        Number of samples n and of bins B, with n >= 2 B.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width or of equal mass; equal width first, as in F24.
    lipschitz : float, default=1.0
        Lipschitz constant L of the calibration curve :math:`f \mapsto E[Y|f]`, not negative.
    term : {"total", "statistical", "binning"}, default="total"
        The quantity to bound. "statistical" does not depend on L.
    confidence_level : float, default=None
        None for the bounds in expectation. A number in (0, 1) for bounds that hold with this
        probability.

    Returns
    -------
    float
        The bound, positive, in the units of the ECE; not cut at 1.

    Raises
    ------
    ValueError
        If n < 2 B, or an argument is out of its range.

    See Also
    --------
    optimal_n_bins : The number of bins with the smallest total bound.
    skcalib.theory.ece_generalization_bound : Bounds for training samples.

    Examples
    --------
    >>> from skcalib.theory import ece_bias_bound
    >>> round(ece_bias_bound(10_000, 15), 4), round(ece_bias_bound(10_000, 15, term="binning"), 4)
    (0.1789, 0.1333)
    >>> round(ece_bias_bound(10_000, 15, term="statistical", confidence_level=0.95), 4)
    0.0518
    """
    n_samples, n_bins = check_samples_per_bin(n_samples, n_bins)
    lipschitz = check_lipschitz(lipschitz)
    check_choice(strategy, "strategy", choices=STRATEGIES)
    check_choice(term, "term", choices=_TERMS)
    delta = None
    if confidence_level is not None:
        delta = 1 - float(confidence_level)
        # The width of uniform bins is not random, so only quantile bins share delta.
        delta /= 2 if (term, strategy) == ("total", "quantile") else 1
    statistical, binning = _bias_terms(n_samples, n_bins, strategy, lipschitz, delta)
    return {"statistical": statistical, "binning": binning, "total": statistical + binning}[term]


def sign_deviation(n_samples: int, n_bins: int, nats: float = 0.0) -> float:
    """sqrt(2 (B ln 2 + nats) / n): bound of the largest of 2^B signed means."""
    return sqrt(2 * (n_bins * LOG2 + nats) / n_samples)


def quantile_deviation(n_samples: int, n_bins: int) -> float:
    """The r of F24, for bins whose edges are B of the n samples."""
    other_samples = n_samples - n_bins
    return sign_deviation(other_samples, n_bins) + 2 * n_bins / other_samples


def _bias_terms(n_samples, n_bins, strategy, lipschitz, delta=None):
    """Bounds of the statistical and of the binning bias, in expectation without `delta`."""
    if strategy == "uniform":
        nats = 0.0 if delta is None else -log(delta)
        return sign_deviation(n_samples, n_bins, nats), (1 + lipschitz) / n_bins
    if delta is None:
        statistical = largest_excess = quantile_deviation(n_samples, n_bins)
    else:
        deviation = sign_deviation(n_samples, n_bins, log(2 / delta))
        statistical = 1.5 * deviation + 2 * n_bins / n_samples
        largest_excess = 2 / n_samples + sqrt(log(n_bins / delta) / (2 * n_samples))
    return statistical, (1 + lipschitz) * (1 / n_bins + largest_excess)


#: Strategies of bins, equal width first, as in F24.
STRATEGIES = ("uniform", "quantile")
_TERMS = ("total", "statistical", "binning")


def check_lipschitz(lipschitz: float) -> float:
    """A Lipschitz constant."""
    value = check_not_negative(lipschitz, "lipschitz", "the Lipschitz constant of E[Y|f]")
    if value > _LARGEST:
        raise ValueError(f"lipschitz must be at most {_LARGEST:g}, got {shown(lipschitz)}.")
    return value


_LARGEST = 1e100  # Lipschitz constant: its square is finite


def check_samples_per_bin(n_samples: int, n_bins: int) -> tuple[int, int]:
    """At least two samples per bin, as every bound needs."""
    n_samples, n_bins = check_count(n_samples, "n_samples"), check_count(n_bins, "n_bins")
    if n_samples < 2 * n_bins:
        raise ValueError(
            f"The bound needs two samples per bin, but n_samples={n_samples} is less than "
            f"2 * n_bins={2 * n_bins}: use at most {max(n_samples // 2, 1)} bins, or more samples."
        )
    return n_samples, n_bins


# --- Generalization bounds ------------------------------------------------------------------------


def _tce_gap(n_samples, n_bins, strategy, lipschitz, error_nats=0.0, fcmi=0.0):
    """The bound of "tce", with the information of the error or of the residuals, and fCMI."""
    width = (1 + lipschitz) / n_bins
    if strategy == "quantile":  # the edges depend on the samples too
        width += (1 + lipschitz) * sign_deviation(n_samples, n_bins, fcmi)
    return width + 2 * sign_deviation(n_samples, n_bins, error_nats)


_BOUNDS = ("ece", "tce", "recalibrated_fresh", "recalibrated_reused", "metric_entropy")


@checks_parameters
def ece_generalization_bound(
    n_samples: int,
    n_bins: int,
    *,
    bound: Literal[
        "ece", "tce", "recalibrated_fresh", "recalibrated_reused", "metric_entropy"
    ] = "ece",
    strategy: Strategy = "uniform",
    lipschitz: float = 1.0,
    ecmi: float = 0.0,
    residual_cmi: float = 0.0,
    fcmi: float = 0.0,
    radius: float | None = None,
    log_covering_number: float = 0.0,
) -> float:
    r"""Bound on the difference between binned calibration errors on training and new samples (F24).

    In expectation over the n training samples and, for "ece", n test samples, with the information
    I in nats:

    - "ece": :math:`|ECE(test) - ECE(train)| \le \sqrt{8 (I + B \ln 2) / n}`.
    - "tce": :math:`|TCE - ECE(train)|` is at most this plus :math:`(1 + L) / B`. For quantile bins,
      whose edges are learned, :math:`(1 + L) \sqrt{2 (fCMI + B \ln 2) / n}` is also added.
    - "recalibrated_fresh": the TCE after histogram binning (quantile bins) with n held-out samples
      is at most :math:`\sqrt{2 B \ln 2 / (n - B)} + 2 B / (n - B)` (corollary 5).
    - "recalibrated_reused": the same error, if the binning reuses the n training samples of the
      classifier, is at most :math:`2 \sqrt{2 (fCMI + B \ln 2) / n}` (theorem 7).
    - "metric_entropy": :math:`|TCE - ECE(train)|` with uniform bins is at most :math:`(1 + L) / B +
      (2 + L) \delta + \sqrt{8 B \ln(2 N(F, \delta / B)) / n}`, without information (theorem 6). N
      is the number of balls of radius :math:`\delta / B` that cover the class F of possible
      functions, and :math:`0 < \delta \le 1 / B`.

    The information I(. ; U | supersample) is that which the evaluated classifier has about the
    choice U of its training samples, given the supersample of n pairs. It is the information of one
    of

    - ``ecmi`` (eq. 15), the number :math:`\ell = |ECE(test) - ECE(train)|`;
    - ``residual_cmi``, the residuals y - f of all 2 n samples;
    - ``fcmi`` (eq. 17), the forecasts of all 2 n samples.

    Each lies between 0 and n ln 2. The residuals of a binary problem determine the forecasts, so
    the last two are then equal. **The bound is proven for residuals, and fails for the number
    alone.** A classifier that is always right on its training samples and always wrong on the other
    half has the constant :math:`\ell = 1`. So ``ecmi`` is 0, and the bound falls below 1 as n
    grows. Use `residual_cmi` where the bound must hold. `ecmi` is the literal statement of F24.

    The default information 0 describes a classifier that does *not depend* on its training samples,
    so the result is then the minimum of the bound (:ref:`ece_bias`).

    Parameters
    ----------
    n_samples, n_bins : int
        Number of samples n and of bins B, with n >= 2 B. For "recalibrated_fresh" n is the number
        of fresh samples.
    bound : str, default="ece"
        The quantity to bound: "ece", "tce", "recalibrated_fresh", "recalibrated_reused" or
        "metric_entropy".
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width or of equal mass; equal width first, as in F24. It matters only for
        "tce": histogram binning always has quantile bins, and the bound by metric entropy is for
        uniform bins.
    lipschitz : float, default=1.0
        Lipschitz constant L of the calibration curve, for "tce" and "metric_entropy".
    ecmi, residual_cmi : float, default=0.0
        Information in nats, for "ece" and "tce". Pass at most one of the two.
    fcmi : float, default=0.0
        fCMI in nats, for "tce" with quantile bins and for "recalibrated_reused".
    radius : float, default=None
        :math:`\delta` in (0, 1/B]; required for "metric_entropy".
    log_covering_number : float, default=0.0
        :math:`\ln N(F, \delta / B)`, for "metric_entropy". With the default 0 one ball covers F.
        For d parameters with the Lipschitz constant L' it is about :math:`d \ln(L' B / \delta)`.

    Returns
    -------
    float
        The bound, positive, in the units of the ECE. It is not cut at 1, and a value above 1 is not
        informative.

    Raises
    ------
    ValueError
        If n < 2 B, an argument is out of its range, the information exceeds n ln 2, both `ecmi`
        and `residual_cmi` are given, or ``bound="metric_entropy"`` comes with quantile bins or
        without a radius.

    See Also
    --------
    skcalib.theory.evaluate_supersample : Estimates the gap by refits.
    skcalib.theory.ece_bias_bound : Bounds for held-out samples.

    Examples
    --------
    >>> from skcalib.theory import ece_generalization_bound
    >>> round(ece_generalization_bound(100, 15, bound="recalibrated_fresh"), 4)
    0.8476
    >>> for nats in (0, 10, 100):
    ...     print(round(ece_generalization_bound(10_000, 20, residual_cmi=nats), 3))
    0.105
    0.138
    0.302
    """
    n_samples, n_bins = check_samples_per_bin(n_samples, n_bins)
    check_choice(bound, "bound", choices=_BOUNDS)
    check_choice(strategy, "strategy", choices=STRATEGIES)
    if bound == "metric_entropy" and strategy != "uniform":
        raise ValueError("bound='metric_entropy' holds for uniform bins: use bound='tce'.")
    information = {"ecmi": ecmi, "residual_cmi": residual_cmi, "fcmi": fcmi}
    for name, value in information.items():
        check_not_negative(value, name, "information in nats")
        if value > n_samples * LOG2 * (1 + 1e-12):
            raise ValueError(
                f"{name}={value:g} nats exceeds n ln 2 = {n_samples * LOG2:g}, the entropy of the "
                "choice of n training samples, which is the maximum."
            )
    if ecmi and residual_cmi:
        raise ValueError(
            f"ecmi={ecmi:g} and residual_cmi={residual_cmi:g} are two choices of the same "
            "information: give one of them."
        )
    lipschitz = check_lipschitz(lipschitz)
    log_covering_number = check_not_negative(
        log_covering_number, "log_covering_number", "a logarithm, ln N"
    )
    delta = 0.0
    if bound == "metric_entropy" or radius is not None:
        if not isinstance(radius, Real) or isinstance(radius, bool) or not 0 < radius <= 1 / n_bins:
            raise ValueError(
                f"radius must lie in (0, 1/n_bins] = (0, {1 / n_bins:.4g}] for "
                f"bound='metric_entropy', got {shown(radius)}."
            )
        delta = float(radius)
    if bound == "ece":
        return 2 * sign_deviation(n_samples, n_bins, float(ecmi or residual_cmi))
    if bound == "tce":
        error_nats = float(ecmi or residual_cmi)
        return _tce_gap(n_samples, n_bins, strategy, lipschitz, error_nats, float(fcmi))
    if bound == "recalibrated_fresh":
        return quantile_deviation(n_samples, n_bins)
    if bound == "recalibrated_reused":
        return 2 * sign_deviation(n_samples, n_bins, float(fcmi))
    # B ln(2 N) = B ln 2 + B ln N
    noise = 2 * sign_deviation(n_samples, n_bins, n_bins * log_covering_number)
    return (1 + lipschitz) / n_bins + (2 + lipschitz) * delta + noise
