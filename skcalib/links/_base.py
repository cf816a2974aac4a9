r"""The link protocol: a parametric map of logits into logits, fitted under any proper score.

A link maps the logits :math:`z = \log s` of a forecast s to the forecast
:math:`softmax(f_\theta(z))`. It declares its starting point (the identity map), the map, and the
vector-Jacobian product that turns a cotangent of its output into a gradient in its parameters.
`Link` is the base class and `fit_link` the common optimiser; `detection_limit` and `log_forecast`
turn forecasts into logits.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

#: Logarithm of the smallest normal number of single precision, about -87.
_FAR = float(np.log(np.finfo(np.float32).tiny))


class Link:
    """Base class: implement `start`, `apply` and `vjp`; declare what the map preserves.

    See Also
    --------
    skcalib.testing.check_link : The laws that every link obeys.
    """

    def prepare(self, logits):
        """Learn from the logits what the map needs, such as knots; return self."""
        return self

    def start(self, n_classes):
        """Parameters of the identity map, shape (P,)."""
        raise NotImplementedError

    def apply(self, theta, logits):
        """Logits (n, K) -> logits (n, K)."""
        raise NotImplementedError

    def vjp(self, theta, logits, cotangent):
        """Gradient in theta of the sum of cotangent * apply(theta, logits), shape (P,)."""
        raise NotImplementedError

    def bounds(self, n_classes):
        """Pairs (low, high) for each parameter, or None."""
        return None

    def stiffness(self, n_classes):
        """Relative strength of the shrinkage of each parameter towards `start`, shape (P,).

        In units of the mean square of what the parameter does to a logit; 0 leaves it free.
        """
        return np.zeros(len(self.start(n_classes)))

    def injective(self, theta, n_classes):
        """Whether different forecasts stay different."""
        return False

    def preserves_order(self, theta, n_classes):
        """Whether the order of the classes in each row is kept."""
        return False


@dataclass(frozen=True)
class LinkFit:
    """Result of `fit_link`."""

    theta: np.ndarray
    n_iter: int
    converged: bool
    message: str


def fit_link(
    link,
    score,
    logits,
    target,
    weight,
    *,
    shrinkage=0.0,
    start=None,
    max_iter=1000,
    tolerance=1e-9,
    rounding=1e-13,
):
    r"""Minimise the mean loss plus :math:`\frac{\lambda}{2n} \sum_p c_p (\theta_p - start_p)^2`.

    Parameters
    ----------
    link : Link
        The map, prepared.
    score : ProperScore
        Its `logit_loss` is minimised.
    logits, target : array of shape (n, K)
        Calibration set.
    weight : array of shape (n,)
        Positive weights.
    shrinkage : float, default=0.0
        Strength lambda, in samples; c_p is the link's `stiffness`.
    start : array, default=None
        First parameters; the identity map by default.
    max_iter : int, default=1000
        Maximum number of iterations.
    tolerance : float, default=1e-9
        Stop where no component of the gradient is larger, with parameters in units of the inverse
        root of their stiffness.
    rounding : float, default=1e-13
        Stop where a step lowers the value by less than this share of it.

    Returns
    -------
    LinkFit
        The best parameters found, never worse than `start`.
    """
    n_classes = logits.shape[1]
    identity = link.start(n_classes)
    first = identity if start is None else np.asarray(start, dtype=np.float64)
    share = weight / weight.sum()
    stiffness = link.stiffness(n_classes)
    pull = shrinkage * stiffness / len(logits)
    # Stiffness measures the effect of a parameter on a logit: these units make effects comparable.
    free = np.max(stiffness, initial=0.0) or 1.0
    unit = 1 / np.sqrt(np.where(stiffness > 0, stiffness, free))
    bounds = link.bounds(n_classes)
    if bounds is not None:
        ends = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]
        bounds = np.array(ends) / unit[:, None]

    def objective(scaled):
        theta = scaled * unit
        loss, slope = score.logit_loss(target, link.apply(theta, logits))
        value = share @ loss + 0.5 * pull @ (theta - identity) ** 2
        gradient = link.vjp(theta, logits, share[:, None] * slope) + pull * (theta - identity)
        return value, gradient * unit

    found = minimize(
        objective,
        first / unit,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": tolerance, "ftol": rounding},
    )
    theta = found.x * unit if found.fun <= objective(first / unit)[0] else first

    # The line search also stops where rounding hides the last decrease: that counts as an optimum.
    converged = bool(found.success or np.abs(found.jac).max() < 1e-4)
    return LinkFit(theta, int(found.nit), converged, str(found.message))


def detection_limit(forecast):
    """Substitute for probabilities of exactly 0: half of the smallest positive one."""
    return float(max(0.5 * forecast[forecast > 0].min(), np.finfo(np.float64).tiny))


def log_forecast(forecast, limit):
    r"""Logarithms z of forecasts, as links take them; `limit` replaces forecasts of exactly 0.

    Below the smallest normal number of single precision, :math:`z_0 \approx -87`, z is replaced by
    :math:`z_0 - \log(1 + z_0 - z)`. The replacement is strictly increasing, so different forecasts
    stay different, and has slope one at :math:`z_0`. A softmax in single precision gives no such
    values. Products of densities, as in naive Bayes, do, and underflow soon after: a
    log-probability of -700 carries little more information than one of -100, but would dominate
    the fit of every slope.
    """
    log = np.log(np.where(forecast == 0, limit, forecast))
    far = log < _FAR
    if far.any():
        log[far] = _FAR - np.log1p(_FAR - log[far])
    return log
