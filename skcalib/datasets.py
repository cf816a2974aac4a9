"""Simulators with the truth attached.

Each returns a `sklearn.utils.Bunch` with the labels ``y``, the forecasts ``y_proba`` of shape
(n, K), the ``posterior`` E[Y|S] or E[Y|X] that the labels were drawn from, features ``X`` where
there are any, and ``truth``, a dict of exact expected values under the conventions of skcalib
(natural logarithm; Brier halved for K = 2).
"""

from functools import partial

import numpy as np
from scipy.integrate import quad
from scipy.special import expit, log_softmax, logit
from scipy.stats import norm
from sklearn.utils import Bunch, check_random_state

from skcalib._simulators import (
    check_real,
    check_sizes,
    logit_divergence,
    make_logistic_scores,
    make_widmann,
)
from skcalib.bounds import look_up
from skcalib.scores import Brier, LogLoss

__all__ = [
    "make_grouping_problem",
    "make_logistic_scores",
    "make_tempered_simplex",
    "make_widmann",
]


def make_tempered_simplex(
    n_samples=1000,
    n_classes=2,
    *,
    label_temperature=0.9,
    score_temperature=0.6,
    random_state=None,
):
    r"""Over- or under-confident forecasts whose calibrated scores are known (P24, simulation).

    :math:`u \sim Dirichlet(1, \dots, 1)`, posterior :math:`p = softmax(\log u / t_{label})`,
    labels :math:`y \sim p`, forecasts :math:`S = softmax(\log p / t_{score})`. The map from p to
    S is injective, so E[Y|S] = p. Over-confident for ``score_temperature`` < 1, calibrated for 1.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of samples.
    n_classes : int, default=2
        Number of classes K.
    label_temperature, score_temperature : float, default=0.9 and 0.6
        The two temperatures, from 0.01 to 100.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``y`` (n,), ``y_proba`` (n, K), ``posterior`` (n, K) and ``truth``. For K = 2 the truth
        holds, for "brier" and "log", the calibration error under the name of the loss, and
        ``refinement_...`` and ``uncertainty_...``, by quadrature. For K > 2 it holds what is
        known: zeros if the forecasts are calibrated; else it is empty, and the mean divergence of
        `posterior` from `y_proba` is the truth given the forecasts.

    Examples
    --------
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(100, 2, random_state=0)
    >>> data.y_proba.shape, round(data.truth["log"], 7)
    ((100, 2), 0.036603)
    """
    n_samples, n_classes = check_sizes(n_samples, n_classes)
    # Beyond these the quadrature of the truth would miss where the forecasts differ.
    within = "a number from 0.01 to 100", 0.01, 100
    label_temperature = check_real(label_temperature, "label_temperature", *within)
    score_temperature = check_real(score_temperature, "score_temperature", *within)
    rng = check_random_state(random_state)
    # Logarithms of exponentials stay exact where a Dirichlet draw would underflow.
    log_u = np.log(rng.standard_exponential((n_samples, n_classes)))
    log_posterior = log_softmax(log_u / label_temperature, axis=1)
    y_proba = np.exp(log_softmax(log_posterior / score_temperature, axis=1))
    posterior = np.exp(log_posterior)
    truth = {}
    if n_classes == 2:
        truth = _tempered_truth(label_temperature, score_temperature)
    elif score_temperature == 1:
        truth = {"brier": 0.0, "log": 0.0}
    y = _draw(posterior, rng)
    return Bunch(y=y, y_proba=y_proba, posterior=posterior, truth=truth)


def _tempered_truth(label_temperature, score_temperature):
    """Integrals over u uniform on (0, 1)."""

    def pair(u, temperature):
        z = logit(u) / temperature
        return np.array([expit(-z), expit(z)])

    truth = {}
    for name, score in (("brier", Brier()), ("log", LogLoss())):

        def calibration(u, score=score):
            if isinstance(score, LogLoss):  # finite, although the forecast may be 0 for a float
                z = logit(u) / label_temperature
                return logit_divergence(z / score_temperature, z)
            q = pair(u, label_temperature)
            return score.divergence(q, pair(u, label_temperature * score_temperature))

        def refinement(u, score=score):
            return score.entropy(pair(u, label_temperature))

        # Symmetric in u and 1 - u: half of the interval keeps the quadrature away from 1.
        # With the full output it does not warn where the last digits are out of reach.
        integrate = partial(quad, a=0, b=0.5, epsabs=1e-13, epsrel=1e-12, full_output=1)
        truth[name] = 0.0 if score_temperature == 1 else 2 * integrate(calibration)[0]
        truth[f"refinement_{name}"] = 2 * integrate(refinement)[0]
        truth[f"uncertainty_{name}"] = float(score.entropy(np.array([0.5, 0.5])))
    return truth


#: Links of `make_grouping_problem`: odd functions bounded by 1.
LINKS = {
    "sigmoid": lambda t: 2 * expit(t) - 1,
    "step": np.sign,
    "ramp": lambda t: np.clip(t, -1, 1),
    "sine": lambda t: np.sin(2 * t),
    "wavelet": lambda t: t * np.exp((1 - t**2) / 2),
}


def make_grouping_problem(n_samples=1000, *, heterogeneity=1.0, link="sigmoid", random_state=None):
    r"""A calibrated classifier that is wrong for everybody (L23, figure 4).

    :math:`X \sim N(0, \Sigma)` with 5.5 on the diagonal of :math:`\Sigma` and 4.5 beside it,
    :math:`S = \sigma(x_1 + x_2)` and
    :math:`Q = E[Y|X] = S + a\, \psi(t) \min(S, 1 - S)` with :math:`t = (x_1 - x_2) / \sqrt 2`,
    a link :math:`\psi` and the `heterogeneity` a. As :math:`\psi` is odd and t is independent of S,
    S is calibrated; the grouping loss is the mean divergence of Q from S.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of samples.
    heterogeneity : float, default=1.0
        Strength a in [0, 1]; with 0 there is no grouping loss.
    link : {"sigmoid", "step", "ramp", "sine", "wavelet"}, default="sigmoid"
        The paper's :math:`\psi(t) = 2 \sigma(t) - 1`, or another odd function bounded by 1, chosen
        here: the sign of t, t clipped to [-1, 1], sin(2t), :math:`t\, e^{(1 - t^2) / 2}`.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``X`` (n, 2), ``y`` (n,), ``y_proba`` (n, 2), ``posterior`` (n, 2) = E[Y|X], and
        ``truth``: "brier" and "log" (calibration errors, 0), "grouping_brier" and "grouping_log".

    Examples
    --------
    >>> from skcalib.datasets import make_grouping_problem
    >>> data = make_grouping_problem(100, random_state=0)
    >>> data.X.shape, round(data.truth["grouping_brier"], 6)
    ((100, 2), 0.005862)
    """
    n_samples, _ = check_sizes(n_samples)
    heterogeneity = check_real(heterogeneity, "heterogeneity", "in [0, 1]", 0, 1)
    look_up(link, LINKS, "link")
    rng = check_random_state(random_state)
    # Along (1, 1) / sqrt 2 the variance is 10, along (1, -1) / sqrt 2 it is 1.
    along, across = np.sqrt(10) * rng.standard_normal(n_samples), rng.standard_normal(n_samples)
    X = np.column_stack([along + across, along - across]) / np.sqrt(2)
    score = expit(X.sum(axis=1))
    shift = heterogeneity * LINKS[link](across)
    posterior = _grouped(score, expit(-X.sum(axis=1)), shift)
    y_proba = np.column_stack([expit(-X.sum(axis=1)), score])
    return Bunch(
        X=X,
        y=_draw(posterior, rng),
        y_proba=y_proba,
        posterior=posterior,
        truth={"brier": 0.0, "log": 0.0, **_grouping_truth(heterogeneity, LINKS[link])},
    )


def _grouped(score, rest, shift):
    shift = shift * np.minimum(score, rest)
    # Two probabilities of one sum to more than one by rounding.
    return np.clip(np.stack([rest - shift, score + shift], axis=-1), 0, 1)


def _grouping_truth(heterogeneity, psi):
    """Gauss-Legendre quadrature over the two independent normal directions."""
    # The score has a kink at 0, and the links at -1, 0 and 1. Symmetry leaves the half line of the
    # score, and 12 deviations hold all mass.
    z, z_weight = _normal_quadrature(0, 12)
    t, t_weight = _normal_quadrature(-12, -1, 0, 1, 12)
    z, t = np.sqrt(20) * z[:, None], t[None, :]
    score, rest = expit(z), expit(-z)
    forecast = np.stack(np.broadcast_arrays(rest, score), axis=-1) + 0 * t[..., None]
    posterior = _grouped(score, rest, heterogeneity * psi(t))
    mass = 2 * z_weight[:, None] * t_weight[None, :]
    return {
        f"grouping_{name}": float(np.sum(mass * divergence.divergence(posterior, forecast)))
        for name, divergence in (("brier", Brier()), ("log", LogLoss()))
    }


def _normal_quadrature(*ends):
    """Nodes, and weights of the standard normal density, piece by piece."""
    node, weight = np.polynomial.legendre.leggauss(200)
    low, high = np.array(ends[:-1])[:, None], np.array(ends[1:])[:, None]
    nodes = ((low + high) / 2 + (high - low) / 2 * node).ravel()
    return nodes, ((high - low) / 2 * weight).ravel() * norm.pdf(nodes)


def _draw(posterior, rng):
    """One label per row of `posterior`."""
    level = rng.random_sample(len(posterior))[:, None] * posterior.sum(axis=1, keepdims=True)
    return (posterior.cumsum(axis=1)[:, :-1] < level).sum(axis=1)
