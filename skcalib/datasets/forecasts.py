"""Simulated forecasts whose true calibration errors are known (P24, W19, F24)."""

from __future__ import annotations

from functools import cache, partial
from itertools import pairwise
from typing import Literal

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
    within = "a number from 0.01 to 100", 0.01, 100
    label_temperature = check_real(label_temperature, "label_temperature", *within)
    score_temperature = check_real(score_temperature, "score_temperature", *within)
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
        truth |= _classwise_truth(n_classes, label_temperature, score_temperature)
    y = draw_codes(posterior.cumsum(axis=1), rng)
    return Bunch(y=y, y_proba=y_proba, posterior=posterior, truth=truth)


@cache  # studies draw many data sets from one model
def _tempered_truth(label_temperature, score_temperature):
    """Integrals over u uniform on (0, 1)."""

    def pair(u, temperature):
        z = logit(u) / temperature
        return np.array([expit(-z), expit(z)])

    truth = {}
    for name, score in (("brier", Brier()), ("log", LogLoss())):

        def calibration(u, score=score):
            if isinstance(score, LogLoss):  # finite if the forecast underflows to 0
                z = logit(u) / label_temperature
                return _logit_divergence(z / score_temperature, z)
            q = pair(u, label_temperature)
            return score.divergence(q, pair(u, label_temperature * score_temperature))

        def refinement(u, score=score):
            return score.entropy(pair(u, label_temperature))

        # Symmetric in u and 1 - u: half of the interval avoids rounding near 1. `full_output`
        # suppresses the warning if the tolerance is not reached.
        integrate = partial(quad, a=0, b=0.5, epsabs=1e-13, epsrel=1e-12, full_output=1)
        truth[name] = 0.0 if score_temperature == 1 else 2 * integrate(calibration)[0]
        truth[f"refinement_{name}"] = 2 * integrate(refinement)[0]
        truth[f"uncertainty_{name}"] = float(score.entropy(np.array([0.5, 0.5])))
    return truth


@cache
def _classwise_truth(n_classes, label_temperature, score_temperature, *, seed=0):
    """Integrals over the logit of S_k, averaged over the ratios w of the other classes."""
    # u_k ~ Beta(1, K - 1) is independent of w ~ Dirichlet. With temperatures a and b,
    # A = sum w^(1 / a) and B = sum w^(1 / ab): logit S_k = logit(u_k) / ab - log B and
    # logit p_k = b logit S_k + b log B - log A. The largest w is drawn first: it matters most.
    a, b, rest = label_temperature, score_temperature, n_classes - 1
    uniform = 1 - qmc.Sobol(rest, seed=seed).random(1024)
    largest = np.cumsum(np.log(uniform) / np.arange(rest, 0, -1), axis=1)  # order statistics
    log_w = np.log(-np.log(-np.expm1(np.minimum(largest, -np.finfo(float).tiny))))
    log_w -= logsumexp(log_w, axis=1, keepdims=True)
    log_a, log_b = logsumexp(log_w / a, axis=1), logsumexp(log_w / (a * b), axis=1)
    middle = log_b.mean()

    def integrand(t):
        """Density of t = ab (logit S_k + middle), times both divergences of E[Y_k|S_k] from S_k."""
        z, u = t / (a * b) - middle, t + a * b * (log_b - middle)
        density = rest * np.exp(log_expit(u) + rest * log_expit(-u))
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
    least = "positive and finite", np.nextafter(0, 1)
    concentration = check_real(concentration, "concentration", *least)
    mixture = _check_mixture(mixture, model)
    rng = check_random_state(random_state)
    # Gamma(a) = Gamma(a + 1) U^(1/a) in distribution; logarithms do not underflow for small a.
    shape = (n_samples, n_classes)
    log_gamma = np.log(rng.standard_gamma(concentration + 1, size=shape))
    log_gamma += np.log(rng.uniform(size=shape)) / concentration
    y_proba = np.exp(log_softmax(log_gamma, axis=1))
    elsewhere = np.eye(n_classes)[0] if model == "M2" else np.full(n_classes, 1 / n_classes)
    posterior = (1 - mixture) * y_proba + mixture * elsewhere
    y = draw_codes(posterior.cumsum(axis=1), rng)
    truth = _widmann_truth(model, n_classes, concentration, mixture)
    return Bunch(y=y, y_proba=y_proba, posterior=posterior, truth=truth)


def _check_mixture(mixture, model):
    """The share of labels that do not depend on the forecast; by default that of the model."""
    if mixture is None:
        return MODELS[model]
    mixture = check_real(mixture, "mixture", "in [0, 1]", 0, 1)
    if model == "M1" and mixture > 0:
        raise ValueError(
            f"model='M1' is calibrated, so its mixture is 0, got {shown(mixture)}: use model='M2' "
            "or 'M3'."
        )
    return mixture


def _widmann_truth(model, n_classes, concentration, mixture):
    """One coordinate of S is Beta(a, b) with a the concentration and b = (K - 1) a."""
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
    return {"total_variation": float(mixture * variation), "brier": float(mixture**2 * brier)}


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
