"""Simulated classifiers with features and a known grouping loss (L23)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from sklearn.utils import Bunch, check_random_state

from skcalib._util.parameters import checks_parameters
from skcalib._util.types import RandomState
from skcalib._util.validation import look_up
from skcalib.data.labels import draw_codes
from skcalib.datasets.forecasts import check_real, check_sizes
from skcalib.scores import Brier, LogLoss

#: Links of `make_grouping_problem`: odd functions bounded by 1.
LINKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda t: 2 * expit(t) - 1,
    "step": np.sign,
    "ramp": lambda t: np.clip(t, -1, 1),
    "sine": lambda t: np.sin(2 * t),
    "wavelet": lambda t: t * np.exp((1 - t**2) / 2),
    "steep": lambda t: 2 * expit(3 * t) - 1,
}


@checks_parameters
def make_grouping_problem(
    n_samples: int = 1000,
    *,
    heterogeneity: float = 1.0,
    link: Literal["sigmoid", "step", "ramp", "sine", "wavelet", "steep"] = "sigmoid",
    optimal_accuracy: bool = False,
    logit_variance: float = 20.0,
    random_state: RandomState = None,
) -> Bunch:
    r"""Simulate a calibrated classifier with a known grouping loss (L23, figures 4, 11 and 12).

    :math:`X \sim N(0, \Sigma)` with 5.5 on the diagonal of :math:`\Sigma` and 4.5 off the diagonal,
    :math:`S = \sigma(z)` with :math:`z = x_1 + x_2`, of variance 20, and :math:`Q = E[Y|X] = S +
    a\, \psi(t)\, \Delta(S)` with :math:`t = (x_1 - x_2) / \sqrt 2`, a link :math:`\psi` and the
    `heterogeneity` a. The largest shift is :math:`\Delta(S) = \min(S, 1 - S)`, or
    :math:`\min(S, 1 - S, |S - 1/2|)` with `optimal_accuracy`: then Q and S are on the same side of
    1/2, and no classifier is more accurate than S (figure 12). Because :math:`\psi` is odd and t is
    independent of S, S is calibrated. The grouping loss is the mean divergence of Q from S.

    Figures 11 and 12 (appendix B.2) have ``logit_variance=10`` and the links "steep" and "step".

    Parameters
    ----------
    heterogeneity : float, default=1.0
        Strength a in [0, 1]; with 0 there is no grouping loss.
    link : {"sigmoid", "step", "ramp", "sine", "wavelet", "steep"}, default="sigmoid"
        The function :math:`\psi`. Those of the paper are "sigmoid", :math:`2 \sigma(t) - 1`,
        "step", the sign of t, and "steep", :math:`2 \sigma(3t) - 1`. The others are odd functions
        bounded by 1: "ramp", t clipped to [-1, 1], "sine", sin(2t), and "wavelet", :math:`t\, e^{(1
        - t^2) / 2}`.
    optimal_accuracy : bool, default=False
        Whether the classifier predicts the most likely class of every sample.
    logit_variance : float, default=20.0
        Variance of the logit z of the score, from 0.01 to 1000. z is scaled to have this variance.

    Returns
    -------
    Bunch
        ``X`` (n, 2), ``y`` (n,), ``y_proba`` (n, 2), ``posterior`` (n, 2) = E[Y|X], and
        ``truth``: "brier" and "log" (calibration errors, 0), "grouping_brier" and "grouping_log",
        and "accuracy", :math:`E \max(S, 1 - S)`, that of the classifier, by quadrature.

    See Also
    --------
    make_grouping_curves : Calibrated classifiers of one feature.

    Examples
    --------
    >>> from skcalib.datasets import make_grouping_problem
    >>> data = make_grouping_problem(100, random_state=0)
    >>> data.X.shape, round(data.truth["grouping_brier"], 6)
    ((100, 2), 0.005862)
    >>> truth = make_grouping_problem(100, optimal_accuracy=True, random_state=0).truth
    >>> round(truth["grouping_brier"], 6), round(truth["accuracy"], 4)
    (0.001832, 0.8833)
    """
    n_samples, _ = check_sizes(n_samples)
    heterogeneity = check_real(heterogeneity, "heterogeneity", "in [0, 1]", 0, 1)
    within = "a number from 0.01 to 1000", 0.01, 1000
    logit_variance = check_real(logit_variance, "logit_variance", *within)
    look_up(link, LINKS, "link")
    rng = check_random_state(random_state)
    # Along (1, 1) / sqrt 2 the variance is 10, along (1, -1) / sqrt 2 it is 1.
    along, across = np.sqrt(10) * rng.standard_normal(n_samples), rng.standard_normal(n_samples)
    X = np.column_stack([along + across, along - across]) / np.sqrt(2)
    z = np.sqrt(logit_variance / 20) * X.sum(axis=1)
    shift = heterogeneity * LINKS[link](across)
    posterior = _grouped(expit(z), expit(-z), shift, optimal_accuracy)
    truth = _grouping_truth(heterogeneity, LINKS[link], optimal_accuracy, logit_variance)
    return _calibrated(X, np.column_stack([expit(-z), expit(z)]), posterior, truth, rng)


def _calibrated(X, y_proba, posterior, truth, rng):
    """Samples of a calibrated classifier, with labels drawn from the posterior."""
    y = draw_codes(posterior.cumsum(axis=1), rng)
    truth = {"brier": 0.0, "log": 0.0, **truth}
    return Bunch(X=X, y=y, y_proba=y_proba, posterior=posterior, truth=truth)


def _grouped(score, rest, shift, optimal_accuracy):
    largest = np.minimum(score, rest)
    if optimal_accuracy:
        largest = np.minimum(largest, np.abs(score - 0.5))
    shift = shift * largest
    # Rounding may leave [0, 1].
    return np.clip(np.stack([rest - shift, score + shift], axis=-1), 0, 1)


@cache
def _grouping_truth(heterogeneity, psi, optimal_accuracy, logit_variance):
    """Gauss-Legendre quadrature over the two independent normal directions."""
    # The score has kinks at 0 and where it is 3/4, and the links at -1, 0 and 1. By symmetry the
    # half line of the score is enough. The mass beyond 12 standard deviations is negligible.
    z, z_weight = _quadrature(0, np.log(3) / np.sqrt(logit_variance), 12, density=norm.pdf)
    t, t_weight = _quadrature(-12, -1, 0, 1, 12, density=norm.pdf)
    z, t = np.sqrt(logit_variance) * z[:, None], t[None, :]
    score, rest = expit(z), expit(-z)
    forecast = np.stack(np.broadcast_arrays(rest, score), axis=-1) + 0 * t[..., None]
    posterior = _grouped(score, rest, heterogeneity * psi(t), optimal_accuracy)
    mass = 2 * z_weight[:, None] * t_weight[None, :]
    return _grouping_means(posterior, forecast, mass)


def _grouping_means(posterior, forecast, mass):
    """Grouping loss and accuracy of a calibrated forecast, over nodes of a quadrature."""
    means = {
        f"grouping_{name}": float(np.sum(mass * divergence.divergence(posterior, forecast)))
        for name, divergence in (("brier", Brier()), ("log", LogLoss()))
    }
    return {**means, "accuracy": float(np.sum(mass * forecast.max(axis=-1)))}


def _quadrature(*ends, density):
    """Nodes, and their weights under a density, piece by piece."""
    node, weight = np.polynomial.legendre.leggauss(200)
    low, high = np.array(ends[:-1])[:, None], np.array(ends[1:])[:, None]
    nodes = ((low + high) / 2 + (high - low) / 2 * node).ravel()
    return nodes, ((high - low) / 2 * weight).ravel() * density(nodes)


#: Upper branch h(S) of the posterior of `make_grouping_curves`; the lower one is 2 S - h(S).
CURVES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "quadratic": lambda s: s * (2 - s),
    "double": lambda s: np.minimum(2 * s, 1),
    "step": lambda s: np.minimum(2 * s, np.maximum(0.5, 2 * s - 1)),
    "constant": lambda s: np.full_like(s, 0.5),
}


@checks_parameters
def make_grouping_curves(
    n_samples: int = 1000,
    *,
    curve: Literal["quadratic", "double", "step", "constant"] = "step",
    random_state: RandomState = None,
) -> Bunch:
    r"""Simulate a calibrated classifier with two posteriors for each score (L23, figures 9, 10).

    X is one feature. The score depends on its absolute value only, and the posterior Q = E[Y|X]
    also on its sign. For the first three curves :math:`X \sim N(0, 1)`, :math:`S = 1 - e^{-(0.9
    X)^2}`, and Q is h(S) for positive X and 2 S - h(S) for negative X:

    - "quadratic": :math:`h(s) = 2 s - s^2` (figure 9);
    - "double": :math:`h(s) = \min(2 s, 1)` (figure 9);
    - "step": h(s) is 2 s up to 1/4, 1/2 up to 3/4, and 2 s - 1 above (figure 10).

    "constant" (figure 10) has a size of X that is uniform on [0, 3], :math:`S = 1 - e^{-X^2}`, and
    Q = 1/2 for positive X. For negative X the outcome is certain, Q = 0 where S < 1/2 and Q = 1
    above. X is positive with probability :math:`1 - |2 S - 1|`, so that S is calibrated. (Appendix
    B.1. The paper's code draws X from a grid of 1000 points.)

    For "step" and "constant", Q and S are never on opposite sides of 1/2. So the classifier is
    calibrated and no other is more accurate, but its scores are not the posterior.

    Parameters
    ----------
    curve : {"quadratic", "double", "step", "constant"}, default="step"
        Which posterior.

    Returns
    -------
    Bunch
        ``X`` (n, 1), ``y`` (n,), ``y_proba`` (n, 2), ``posterior`` (n, 2) = E[Y|X], and ``truth``
        by quadrature: "brier" and "log" (calibration errors, 0), "grouping_brier", "grouping_log",
        and "accuracy", :math:`E \max(S, 1 - S)`, that of the classifier.

    Raises
    ------
    ValueError
        For an unknown curve, and for fewer than one sample.

    See Also
    --------
    make_grouping_problem : Two features, a logistic score.

    Examples
    --------
    >>> from skcalib.datasets import make_grouping_curves
    >>> data = make_grouping_curves(100, curve="constant", random_state=0)
    >>> data.X.shape, round(data.truth["grouping_brier"], 4), round(data.truth["accuracy"], 4)
    ((100, 1), 0.0249, 0.8767)
    """
    n_samples, _ = check_sizes(n_samples)
    look_up(curve, CURVES, "curve")
    rng = check_random_state(random_state)
    if curve == "constant":
        size, steepness = 3 * rng.random_sample(n_samples), 1.0
    else:
        size, steepness = np.abs(rng.standard_normal(n_samples)), 0.9
    y_proba, above, below, share = _curves(curve, size, steepness)
    positive = rng.random_sample(n_samples) < share
    posterior = np.where(positive[:, None], above, below)
    X = np.where(positive, size, -size)[:, None]
    return _calibrated(X, y_proba, posterior, _curves_truth(curve), rng)


def _curves(curve, size, steepness):
    """Forecast, posterior of positive and of negative X, share of positive X, by the size of X."""
    score, rest = -np.expm1(-((steepness * size) ** 2)), np.exp(-((steepness * size) ** 2))
    above = CURVES[curve](score)
    if curve == "constant":
        below, share = (score > 0.5).astype(np.float64), 1 - np.abs(2 * score - 1)
    else:
        below, share = np.clip(2 * score - above, 0, 1), np.full_like(score, 0.5)
    pairs = [np.stack([1 - q, q], axis=-1) for q in (above, below)]
    return np.stack([rest, score], axis=-1), *pairs, share


def _curves_truth(curve):
    """Gauss-Legendre quadrature over the size of X, and both signs."""
    steepness = 1.0 if curve == "constant" else 0.9
    # Kinks where the score is 1/4, 1/2 and 3/4.
    kinks = np.sqrt(-np.log([3 / 4, 1 / 2, 1 / 4])) / steepness
    if curve == "constant":
        size, weight = _quadrature(0, *kinks, 3, density=lambda x: np.full_like(x, 1 / 3))
    else:
        size, weight = _quadrature(0, *kinks, 12, density=lambda x: 2 * norm.pdf(x))
    forecast, above, below, share = _curves(curve, size, steepness)
    mass = np.concatenate([weight * share, weight * (1 - share)])
    return _grouping_means(np.vstack([above, below]), np.vstack([forecast] * 2), mass)
