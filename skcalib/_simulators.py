"""Simulators of W19 and F24, public through `skcalib.datasets`."""

from functools import cache
from itertools import pairwise
from numbers import Real

import numpy as np
from scipy.integrate import quad
from scipy.special import expit, log_softmax, xlog1py, xlogy
from scipy.stats import beta, norm
from sklearn.utils import Bunch, check_random_state

from skcalib.bounds import check_count, look_up

MODELS = dict.fromkeys(("M1", "M2", "M3"))


def check_sizes(n_samples, n_classes=2):
    """Whole numbers, of at least one sample and two classes."""
    if check_count(n_classes, "n_classes") < 2:
        raise ValueError(f"n_classes must be at least 2, got {n_classes!r}.")
    return check_count(n_samples, "n_samples"), int(n_classes)


def check_real(value, name, expected="finite", low=-np.inf, high=np.inf):
    """A finite real number between two others, these included."""
    real = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(value)
    if not real or not low <= value <= high:
        raise ValueError(f"{name} must be {expected}, got {value!r}.")
    return float(value)


def make_widmann(n_samples=250, *, model="M1", n_classes=10, concentration=0.1, random_state=None):
    r"""The three models of the calibration tests (W19, section 6).

    Forecasts :math:`S \sim Dirichlet(\alpha, \dots, \alpha)`. "M1" draws the labels from S:
    calibrated. "M2" draws half of them from S, and the rest are class 0:
    :math:`E[Y|S] = (S + e_0) / 2`. "M3" draws them uniformly: :math:`E[Y|S] = 1/K`.

    Parameters
    ----------
    n_samples : int, default=250
        Number of samples.
    model : {"M1", "M2", "M3"}, default="M1"
        Which model.
    n_classes : int, default=10
        Number of classes K.
    concentration : float, default=0.1
        The parameter :math:`\alpha` of the Dirichlet distribution.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``y`` (n,), ``y_proba`` (n, K), ``posterior`` (n, K) = E[Y|S], and ``truth``:
        "total_variation", the mean total variation of E[Y|S] from S, and "brier".

    Examples
    --------
    >>> from skcalib.datasets import make_widmann
    >>> [round(make_widmann(10, model=m, random_state=0).truth["total_variation"], 7)
    ...  for m in ("M1", "M2", "M3")]
    [0.0, 0.45, 0.7106418]
    """
    look_up(model, MODELS, "model")
    n_samples, n_classes = check_sizes(n_samples, n_classes)
    concentration = check_real(
        concentration, "concentration", "positive and finite", np.nextafter(0, 1)
    )
    rng = check_random_state(random_state)
    # Gamma(a) = Gamma(a + 1) U^(1/a): logarithms do not underflow for a small concentration.
    shape = (n_samples, n_classes)
    log_gamma = np.log(rng.standard_gamma(concentration + 1, size=shape))
    log_gamma += np.log(rng.uniform(size=shape)) / concentration
    y_proba = np.exp(log_softmax(log_gamma, axis=1))
    posterior = {
        "M1": y_proba,
        "M2": 0.5 * (y_proba + np.eye(n_classes)[0]),
        "M3": np.full(shape, 1 / n_classes),
    }[model]
    draw = rng.uniform(size=(n_samples, 1)) * posterior.sum(axis=1, keepdims=True)
    y = np.minimum(np.sum(posterior.cumsum(axis=1) <= draw, axis=1), n_classes - 1)
    truth = _widmann_truth(model, n_classes, concentration)
    return Bunch(y=y, y_proba=y_proba, posterior=posterior, truth=truth)


def _widmann_truth(model, n_classes, concentration):
    """One coordinate of S is Beta(a, b) with a the concentration and b = (K - 1) a."""
    a, b, mean = concentration, (n_classes - 1) * concentration, 1 / n_classes
    variance = mean * (1 - mean) / (a + b + 1)
    if model == "M1":
        variation, square = 0.0, 0.0
    elif model == "M2":
        square = 0.25 * (1 - 2 * mean + n_classes * (variance + mean**2))
        variation = 0.5 * (1 - mean)
    else:
        # Mean absolute deviation of a beta distribution from its mean.
        log_density = beta.logpdf(mean, a, b)
        log_deviation = np.log(2 / (a + b)) + log_density + xlogy(1, mean) + xlog1py(1, -mean)
        variation, square = 0.5 * n_classes * np.exp(log_deviation), n_classes * variance
    brier = square / 2 if n_classes == 2 else square
    return {"total_variation": float(variation), "brier": float(brier)}


def make_logistic_scores(n_samples=1000, intercept=0.5, slope=-1.5, *, random_state=None):
    r"""A logistic model of two normal classes (F24, section 5).

    Labels are 0 or 1 with equal probability, :math:`X|Y=1 \sim N(-1, 1)` and
    :math:`X|Y=0 \sim N(1, 1)`. The forecast of class 1 is :math:`f = \sigma(b_0 + b_1 X)`, and
    :math:`E[Y|f] = \sigma(-2X)`: calibrated for (0, -2).

    Parameters
    ----------
    n_samples : int, default=1000
        Number of samples.
    intercept, slope : float, default=0.5 and -1.5
        The coefficients :math:`b_0` and :math:`b_1 \ne 0`.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``X`` (n, 1), ``y`` (n,), ``y_proba`` (n, 2), ``posterior`` (n, 2), and ``truth``: "tce",
        the true calibration error E|E[Y|f] - f|, "brier", "log", and "lipschitz", the Lipschitz
        constant of E[Y|f = z] as a function of z, which the bounds of F24 ask for.

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
        raise ValueError("slope must not be 0: all forecasts would be the same.")
    rng = check_random_state(random_state)
    y = rng.randint(2, size=n_samples)
    x = rng.standard_normal(n_samples) + 1 - 2 * y
    pairs = [np.column_stack([expit(-z), expit(z)]) for z in (intercept + slope * x, -2 * x)]
    return Bunch(
        X=x[:, None],
        y=y,
        y_proba=pairs[0],
        posterior=pairs[1],
        truth=dict(_logistic_truth(intercept, slope)),
    )


@cache  # a study draws many data sets of one model
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

    # d sigma(q) / d sigma(f) along x, on a grid and refined: smooth and without a closed form.
    x = np.linspace(-20, 20, 400_001)
    f, q = intercept + slope * x, -2 * x
    with np.errstate(over="ignore"):  # of a steep forecast it is no float: infinite
        ratio = np.abs(2 / slope) * np.exp(_log_slope(q) - _log_slope(f))
    return {
        "tce": mean(lambda f, q: abs(expit(q) - expit(f))),
        "brier": mean(lambda f, q: (expit(q) - expit(f)) ** 2),
        "log": mean(logit_divergence),
        "lipschitz": float(ratio.max()),
    }


def logit_divergence(f, q):
    """Kullback-Leibler divergence of sigma(q) from sigma(f), where these may be 0 for a float."""
    # log sigma(q) - log sigma(f), each as a difference of log(1 + e^.) terms.
    positive = np.logaddexp(0, -f) - np.logaddexp(0, -q)
    negative = np.logaddexp(0, f) - np.logaddexp(0, q)
    return expit(q) * positive + expit(-q) * negative


def _log_slope(z):
    """Log of the derivative of the logistic function."""
    return -np.logaddexp(0, z) - np.logaddexp(0, -z)
