"""Simulators of data sets whose true calibration errors are known.

Each simulator returns a `sklearn.utils.Bunch` with the labels ``y`` and the forecasts ``y_proba``
of shape (n, K). It also has the ``posterior`` E[Y|S] or E[Y|X] that the labels were drawn from, and
features ``X`` where there are any. The dict ``truth`` has expected values by numerical integration,
under the conventions of skcalib: natural logarithm, and the Brier score halved for K = 2. The
classwise errors of `make_tempered_simplex` for K > 2 have a standard error below .2 %.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.integrate import quad, quad_vec
from scipy.special import expit, log_expit, log_softmax, logit, logsumexp, xlog1py, xlogy
from scipy.stats import beta, norm, qmc
from sklearn.utils import Bunch, check_random_state

from skcalib._util.messages import is_finite, shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import RandomState
from skcalib._util.validation import check_count, look_up
from skcalib.data.labels import draw_codes
from skcalib.scores import Brier, LogLoss

__all__ = [
    "make_grouping_curves",
    "make_grouping_problem",
    "make_logistic_scores",
    "make_tempered_simplex",
    "make_widmann",
]


@checks_parameters
def make_tempered_simplex(
    n_samples: int = 1000,
    n_classes: int = 2,
    *,
    label_temperature: float = 0.9,
    score_temperature: float = 0.6,
    random_state: RandomState = None,
) -> Bunch:
    r"""Simulate over- or under-confident forecasts with known calibrated scores (P24, simulation).

    :math:`u \sim Dirichlet(1, \dots, 1)`, posterior :math:`p = softmax(\log u / t_{label})`, labels
    :math:`y \sim p`, forecasts :math:`S = softmax(\log p / t_{score})`. The map from p to S is
    injective, so E[Y|S] = p. The forecasts are over-confident for ``score_temperature`` < 1 and
    calibrated for 1.

    Parameters
    ----------
    n_classes : int, default=2
        Number of classes K.
    label_temperature, score_temperature : float, default=0.9 and 0.6
        The two temperatures, from 0.01 to 100.

    Returns
    -------
    Bunch
        ``y`` (n,), ``y_proba`` (n, K), ``posterior`` (n, K) = E[Y|S], and ``truth``. For K = 2 the
        truth has, for "brier" and "log", the calibration error under the name of the loss, and
        ``refinement_...`` and ``uncertainty_...``, by quadrature. For K > 2 the calibration errors
        are 0 if the forecasts are calibrated. Otherwise these entries are missing, and the true
        error given the forecasts is the mean divergence of `posterior` from `y_proba`.

        "classwise_brier" and "classwise_log", for at most 1000 classes, are the errors of one class
        against the rest. They are equal for all classes. For K > 2 the calibrated score
        :math:`E[Y_k|S_k]` is not column k of `posterior`, whose mean divergence from the score is
        larger. The errors are computed by quadrature over :math:`S_k` and, for K > 2, 1024
        quasi-random draws of the other classes, with a standard error below .2 % for temperatures
        from .1 to 10.

    See Also
    --------
    skcalib.datasets.make_grouping_problem : Forecasts with features and a grouping loss.
    skcalib.datasets.make_logistic_scores : One score with a logistic curve.

    Examples
    --------
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(100, 2, random_state=0)
    >>> data.y_proba.shape, round(data.truth["log"], 7)
    ((100, 2), 0.036603)
    >>> round(make_tempered_simplex(100, 10, random_state=0).truth["classwise_log"], 4)
    0.0131
    """
    n_samples, n_classes = check_sizes(n_samples, n_classes)
    # Outside this range the quadrature of the truth would be inaccurate.
    within: dict[str, Any] = {"expected": "a number from 0.01 to 100", "low": 0.01, "high": 100}
    label_temperature = check_real(label_temperature, "label_temperature", **within)
    score_temperature = check_real(score_temperature, "score_temperature", **within)
    rng = check_random_state(random_state)
    # Logarithms of exponential draws are exact where a Dirichlet draw would underflow.
    log_u = np.log(rng.standard_exponential((n_samples, n_classes)))
    log_posterior = log_softmax(log_u / label_temperature, axis=1)
    y_proba = np.exp(log_softmax(log_posterior / score_temperature, axis=1))
    posterior = np.exp(log_posterior)
    truth = {}
    if n_classes == 2:
        truth = dict(_tempered_truth(label_temperature, score_temperature))
    elif score_temperature == 1:
        truth = {"brier": 0.0, "log": 0.0}
    if score_temperature == 1:
        truth |= {"classwise_brier": 0.0, "classwise_log": 0.0}
    elif n_classes == 2:
        truth |= {f"classwise_{name}": truth[name] for name in ("brier", "log")}
    elif n_classes <= 1000:
        truth |= classwise_truth(n_classes, label_temperature, score_temperature)
    y = draw_codes(posterior.cumsum(axis=1), rng)
    return Bunch(y=y, y_proba=y_proba, posterior=posterior, truth=truth)


@cache  # studies draw many data sets from one model
def _tempered_truth(label_temperature, score_temperature):
    """Integrals over u uniform on (0, 1)."""

    def pair(u, temperature):
        z = logit(u) / temperature
        return np.array([expit(-z), expit(z)])

    def calibration(u, score):
        if isinstance(score, LogLoss):  # finite if the forecast underflows to 0
            z = logit(u) / label_temperature
            return _logit_divergence(z / score_temperature, z)
        q = pair(u, label_temperature)
        return score.divergence(q, pair(u, label_temperature * score_temperature))

    def refinement(u, score):
        return score.entropy(pair(u, label_temperature))

    # Symmetric in u and 1 - u: half of the interval avoids rounding near 1. `full_output`
    # suppresses the warning if the tolerance is not reached.
    integrate = partial(quad, a=0, b=0.5, epsabs=1e-13, epsrel=1e-12, full_output=1)
    truth = {}
    for name, score in (("brier", Brier()), ("log", LogLoss())):
        error = 0.0 if score_temperature == 1 else 2 * integrate(calibration, args=(score,))[0]
        truth[name] = error
        truth[f"refinement_{name}"] = 2 * integrate(refinement, args=(score,))[0]
        truth[f"uncertainty_{name}"] = float(score.entropy(np.array([0.5, 0.5])))
    return truth


@cache
def classwise_truth(n_classes, label_temperature, score_temperature, *, seed=0):
    """Integrals over the logit of S_k, averaged over the ratios w of the other classes."""
    # u_k ~ Beta(1, K - 1) is independent of w ~ Dirichlet. With temperatures a and b,
    # A = sum w^(1 / a) and B = sum w^(1 / ab): logit S_k = logit(u_k) / ab - log B and
    # logit p_k = b logit S_k + b log B - log A. The largest w is drawn first: it matters most.
    a, b, n_others = label_temperature, score_temperature, n_classes - 1
    uniform = 1 - qmc.Sobol(n_others, seed=seed).random(1024)
    largest = np.cumsum(np.log(uniform) / np.arange(n_others, 0, -1), axis=1)  # order statistics
    log_w = np.log(-np.log(-np.expm1(np.minimum(largest, -np.finfo(float).tiny))))
    log_w -= logsumexp(log_w, axis=1, keepdims=True)
    log_a, log_b = logsumexp(log_w / a, axis=1), logsumexp(log_w / (a * b), axis=1)
    middle = log_b.mean()

    def integrand(t):
        """Density of t = ab (logit S_k + middle), times both divergences of E[Y_k|S_k] from S_k."""
        z, u = t / (a * b) - middle, t + a * b * (log_b - middle)
        density = n_others * np.exp(log_expit(u) + n_others * log_expit(-u))
        total, q = max(density.mean(), np.finfo(float).tiny), b * (z + log_b) - log_a
        c, d = (np.mean(density * expit(sign * q)) / total for sign in (1, -1))
        log = xlogy(c, c) - c * log_expit(z) + xlogy(d, d) - d * log_expit(-z)
        return total * np.array([(c - expit(z)) ** 2, log])

    ends = -45 - np.log(n_classes), 45
    brier, log = quad_vec(integrand, *ends, points=[a * b * middle], epsabs=1e-14, epsrel=1e-6)[0]
    return {"classwise_brier": float(brier), "classwise_log": float(log)}


#: The models of W19, section 7, and the share of labels that do not depend on the forecast.
MODELS = {"M1": 0.0, "M2": 0.5, "M3": 1.0}


@checks_parameters
def make_widmann(
    n_samples: int = 250,
    *,
    model: Literal["M1", "M2", "M3"] = "M1",
    n_classes: int = 10,
    concentration: float = 0.1,
    mixture: float | None = None,
    random_state: RandomState = None,
) -> Bunch:
    r"""Simulate the three models of the calibration tests of W19, section 7, or of its appendix.

    Forecasts :math:`S \sim Dirichlet(\alpha, \dots, \alpha)`. A share :math:`\pi` of the labels is
    drawn from a distribution :math:`\beta` that does not depend on S, and the others from S. So
    :math:`E[Y|S] = (1 - \pi) S + \pi \beta`. "M1" draws all labels from S, :math:`\pi = 0`:
    calibrated. "M2" has :math:`\beta = e_0`, class 0, and by default :math:`\pi = 1/2`. "M3" has
    the uniform :math:`\beta = 1/K`, and by default :math:`\pi = 1`.

    The appendix crosses K = 2, 10, 100, 1000 classes, :math:`\alpha` = .1 and 1,
    :math:`\pi` = 0, .25, .5, .75, 1 and both :math:`\beta`, with n = 250.

    Parameters
    ----------
    model : {"M1", "M2", "M3"}, default="M1"
        Which model.
    n_classes : int, default=10
        Number of classes K.
    concentration : float, default=0.1
        The parameter :math:`\alpha` of the Dirichlet distribution.
    mixture : float, default=None
        The share :math:`\pi` in [0, 1] of labels that do not depend on S; by default that of the
        model. For "M1" it must be 0.

    Returns
    -------
    Bunch
        ``y`` (n,), ``y_proba`` (n, K), ``posterior`` (n, K) = E[Y|S], and ``truth``:
        "total_variation", the mean total variation of E[Y|S] from S, and "brier". The first is
        proportional to the mixture, the second to its square.

    Raises
    ------
    ValueError
        If an argument is out of its range, or "M1" comes with a mixture.

    See Also
    --------
    skcalib.datasets.make_tempered_simplex : Forecasts whose temperature is wrong.
    skcalib.kernel_calibration_test : The test that the paper evaluates on this model.

    Examples
    --------
    >>> from skcalib.datasets import make_widmann
    >>> [round(make_widmann(10, model=m, random_state=0).truth["total_variation"], 7)
    ...  for m in ("M1", "M2", "M3")]
    [0.0, 0.45, 0.7106418]
    >>> data = make_widmann(10, model="M2", mixture=0.25, random_state=0)
    >>> round(data.truth["total_variation"], 7)
    0.225
    """
    look_up(model, MODELS, "model")
    n_samples, n_classes = check_sizes(n_samples, n_classes)
    concentration = check_real(
        concentration, "concentration", "positive and finite", low=np.nextafter(0, 1)
    )
    if mixture is None:
        mixture = MODELS[model]
    mixture = check_real(mixture, "mixture", "in [0, 1]", 0, 1)
    if model == "M1" and mixture > 0:
        raise ValueError(
            f"model='M1' is calibrated, so its mixture is 0, got {shown(mixture)}: use model='M2' "
            "or 'M3'."
        )
    rng = check_random_state(random_state)
    # Gamma(a) = Gamma(a + 1) U^(1/a) in distribution; logarithms do not underflow for small a.
    shape = (n_samples, n_classes)
    log_gamma = np.log(rng.standard_gamma(concentration + 1, size=shape))
    log_gamma += np.log(rng.uniform(size=shape)) / concentration
    y_proba = np.exp(log_softmax(log_gamma, axis=1))
    elsewhere = np.eye(n_classes)[0] if model == "M2" else np.full(n_classes, 1 / n_classes)
    posterior = (1 - mixture) * y_proba + mixture * elsewhere
    y = draw_codes(posterior.cumsum(axis=1), rng)
    # One coordinate of S is Beta(a, b) with a the concentration and b = (K - 1) a.
    a, b, mean = concentration, (n_classes - 1) * concentration, 1 / n_classes
    variance = mean * (1 - mean) / (a + b + 1)
    # E[Y|S] - S is the mixture times the difference of the other distribution from S.
    if model == "M2":
        square = 1 - 2 * mean + n_classes * (variance + mean**2)
        variation = 1 - mean
    else:
        # Mean absolute deviation of a beta distribution from its mean.
        log_density = beta.logpdf(mean, a, b)
        log_deviation = np.log(2 / (a + b)) + log_density + xlogy(1, mean) + xlog1py(1, -mean)
        variation, square = 0.5 * n_classes * np.exp(log_deviation), n_classes * variance
    brier = square / 2 if n_classes == 2 else square
    truth = {"total_variation": float(mixture * variation), "brier": float(mixture**2 * brier)}
    return Bunch(y=y, y_proba=y_proba, posterior=posterior, truth=truth)


@checks_parameters
def make_logistic_scores(
    n_samples: int = 1000,
    intercept: float = 0.5,
    slope: float = -1.5,
    *,
    random_state: RandomState = None,
) -> Bunch:
    r"""Simulate a logistic model of two normal classes (F24, section 6.1 and appendix G.1).

    Labels are 0 or 1 with equal probability, :math:`X|Y=1 \sim N(-1, 1)` and
    :math:`X|Y=0 \sim N(1, 1)`. The forecast of class 1 is :math:`f = \sigma(b_0 + b_1 X)`, and
    :math:`E[Y|f] = \sigma(-2X)`: calibrated for (0, -2).

    Parameters
    ----------
    intercept, slope : float, default=0.5 and -1.5
        The coefficients :math:`b_0` and :math:`b_1 \ne 0`.

    Returns
    -------
    Bunch
        ``X`` (n, 1), ``y`` (n,), ``y_proba`` (n, 2), ``posterior`` (n, 2), and ``truth``: "tce",
        the true calibration error E|E[Y|f] - f|, "brier", "log", and "lipschitz", the Lipschitz
        constant of E[Y|f = z] as a function of z, which the bounds of F24 require.

    See Also
    --------
    skcalib.datasets.make_tempered_simplex : Probabilities of several classes.

    Examples
    --------
    >>> from skcalib.datasets import make_logistic_scores
    >>> truth = make_logistic_scores(10, 0.5, -1.5, random_state=0).truth
    >>> round(truth["tce"], 5), round(truth["lipschitz"], 3)
    (0.07444, 1.522)
    """
    n_samples, _ = check_sizes(n_samples)
    intercept, slope = check_real(intercept, "intercept"), check_real(slope, "slope")
    if slope == 0:
        raise ValueError("slope must not be 0: all forecasts would be equal.")
    rng = check_random_state(random_state)
    y = rng.randint(2, size=n_samples)
    x = rng.standard_normal(n_samples) + 1 - 2 * y
    pairs = [np.column_stack([expit(-z), expit(z)]) for z in (intercept + slope * x, -2 * x)]
    truth = dict(_logistic_truth(intercept, slope))
    return Bunch(X=x[:, None], y=y, y_proba=pairs[0], posterior=pairs[1], truth=truth)


@cache
def _logistic_truth(intercept, slope):
    """Integrals over x, split where the forecast crosses the posterior."""

    def mean(value):
        crossing = -intercept / (slope + 2) if slope != -2 else 0.0
        points = sorted({-12.0, float(np.clip(crossing, -12, 12)), 0.0, 12.0})

        def integrand(x):
            density = 0.5 * (norm.pdf(x, 1) + norm.pdf(x, -1))
            return density * value(intercept + slope * x, -2 * x)

        pieces = pairwise(points)
        return sum(quad(integrand, low, high, epsabs=1e-13)[0] for low, high in pieces)

    # d sigma(q) / d sigma(f) along x, which has no closed form, on a fine grid.
    x = np.linspace(-20, 20, 400_001)
    f, q = intercept + slope * x, -2 * x
    with np.errstate(over="ignore"):  # it may overflow to infinity for steep forecasts
        ratio = np.abs(2 / slope) * np.exp(_log_slope(q) - _log_slope(f))
    return {
        "tce": mean(lambda f, q: abs(expit(q) - expit(f))),
        "brier": mean(lambda f, q: (expit(q) - expit(f)) ** 2),
        "log": mean(_logit_divergence),
        "lipschitz": float(ratio.max()),
    }


def _log_slope(z):
    """Log of the derivative of the logistic function."""
    return -np.logaddexp(0, z) - np.logaddexp(0, -z)


# --- Classifiers with a known grouping loss (L23) -------------------------------------------------


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
    logit_variance = check_real(
        logit_variance, "logit_variance", "a number from 0.01 to 1000", 0.01, 1000
    )
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


def _grouped(score, complement, shift, optimal_accuracy):
    largest = np.minimum(score, complement)
    if optimal_accuracy:
        largest = np.minimum(largest, np.abs(score - 0.5))
    shift = shift * largest
    # Rounding may leave [0, 1].
    return np.clip(np.stack([complement - shift, score + shift], axis=-1), 0, 1)


@cache
def _grouping_truth(heterogeneity, psi, optimal_accuracy, logit_variance):
    """Gauss-Legendre quadrature over the two independent normal directions."""
    # The score has kinks at 0 and where it is 3/4, and the links at -1, 0 and 1. By symmetry the
    # half line of the score is enough. The mass beyond 12 standard deviations is negligible.
    z, z_weight = _quadrature([0, np.log(3) / np.sqrt(logit_variance), 12], norm.pdf)
    t, t_weight = _quadrature([-12, -1, 0, 1, 12], norm.pdf)
    z, t = np.sqrt(logit_variance) * z[:, None], t[None, :]
    score, complement = expit(z), expit(-z)
    forecast = np.stack(np.broadcast_arrays(complement, score), axis=-1) + 0 * t[..., None]
    posterior = _grouped(score, complement, heterogeneity * psi(t), optimal_accuracy)
    mass = 2 * z_weight[:, None] * t_weight[None, :]
    return _grouping_means(posterior, forecast, mass)


def _grouping_means(posterior, forecast, mass):
    """Grouping loss and accuracy of a calibrated forecast, over nodes of a quadrature."""
    means = {
        f"grouping_{name}": float(np.sum(mass * divergence.divergence(posterior, forecast)))
        for name, divergence in (("brier", Brier()), ("log", LogLoss()))
    }
    return {**means, "accuracy": float(np.sum(mass * forecast.max(axis=-1)))}


def _quadrature(ends, density):
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
    of_size = _Curves(curve, size, steepness)
    positive = rng.random_sample(n_samples) < of_size.positive
    posterior = np.where(positive[:, None], of_size.above, of_size.below)
    X = np.where(positive, size, -size)[:, None]
    return _calibrated(X, of_size.forecast, posterior, _curves_truth(curve), rng)


class _Curves:
    """``forecast``, posteriors ``above`` of positive and ``below`` of negative X, and the share of
    ``positive`` X, by the size of X.
    """

    def __init__(self, curve, size, steepness):
        score = -np.expm1(-((steepness * size) ** 2))
        self.forecast = np.stack([np.exp(-((steepness * size) ** 2)), score], axis=-1)
        above = CURVES[curve](score)
        if curve == "constant":
            below, self.positive = (score > 0.5).astype(np.float64), 1 - np.abs(2 * score - 1)
        else:
            below, self.positive = np.clip(2 * score - above, 0, 1), np.full_like(score, 0.5)
        self.above, self.below = (np.stack([1 - q, q], axis=-1) for q in (above, below))


def _curves_truth(curve):
    """Gauss-Legendre quadrature over the size of X, and both signs."""
    steepness = 1.0 if curve == "constant" else 0.9
    # Kinks where the score is 1/4, 1/2 and 3/4.
    kinks = np.sqrt(-np.log([3 / 4, 1 / 2, 1 / 4])) / steepness
    if curve == "constant":
        size, weight = _quadrature([0, *kinks, 3], density=lambda x: np.full_like(x, 1 / 3))
    else:
        size, weight = _quadrature([0, *kinks, 12], density=lambda x: 2 * norm.pdf(x))
    of_size = _Curves(curve, size, steepness)
    mass = np.concatenate([weight * of_size.positive, weight * (1 - of_size.positive)])
    posterior = np.vstack([of_size.above, of_size.below])
    return _grouping_means(posterior, np.vstack([of_size.forecast] * 2), mass)


# --- Shared helpers -------------------------------------------------------------------------------


def _logit_divergence(f: float | np.ndarray, q: float | np.ndarray) -> np.ndarray:
    """Kullback-Leibler divergence of sigma(q) from sigma(f), finite where these underflow."""
    # log sigma(q) - log sigma(f), each as a difference of log(1 + e^.) terms.
    positive = np.logaddexp(0, -f) - np.logaddexp(0, -q)
    negative = np.logaddexp(0, f) - np.logaddexp(0, q)
    return expit(q) * positive + expit(-q) * negative


def check_sizes(n_samples: int, n_classes: int = 2) -> tuple[int, int]:
    """Validate the numbers of samples and classes: at least one and at least two."""
    if check_count(n_classes, "n_classes") < 2:
        raise ValueError(f"n_classes must be at least 2, got {shown(n_classes)}.")
    return check_count(n_samples, "n_samples"), int(n_classes)


def check_real(
    value: float, name: str, expected: str = "finite", low: float = -np.inf, high: float = np.inf
) -> float:
    """Validate a finite real number in the interval [low, high]."""
    if not is_finite(value) or not low <= value <= high:
        raise ValueError(f"{name} must be {expected}, got {shown(value)}.")
    return float(value)
