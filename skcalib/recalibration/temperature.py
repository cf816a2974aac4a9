"""Recalibrators with one temperature, or one rate of label noise, for all classes."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from skcalib._util.parallel import fit_once
from skcalib._util.types import ArrayLike
from skcalib._util.validation import number_of_samples
from skcalib.data.clusters import outside_level
from skcalib.data.labels import one_hot_rows
from skcalib.links import BiasCorrectedTemperature
from skcalib.links.logits import LogRows
from skcalib.links.maps import fit_bias_corrected, mean_log_loss, optimal_inverse_temperature
from skcalib.recalibration.base import LogitRecalibrator
from skcalib.recalibration.fitting import FittedFromParts, FittedFromSketch, warn_if_slow
from skcalib.scores import LogLoss, LossLike, ProperScore, weighted_mean

if TYPE_CHECKING:
    from collections.abc import Callable

_SLOW = 30_000_000  # probabilities from which the fit of biases takes long
_LARGE = 1 << 22  # probabilities whose logarithms are not stored
_LOW, _HIGH = 1e-4, 1e4  # range of the search for inverse temperatures
_NO_WEIGHT = 1e-7  # of the ensemble, which leaves the loss unchanged up to 1e-14
_GRID = 41  # inverse temperatures that bracket the minimum of a loss that is not convex
_STEPS = 11  # evaluations of its derivative after them


class TemperatureScaling(
    FittedFromSketch, FittedFromParts, LogitRecalibrator
):  # numpydoc ignore=PR02
    r"""Temperature scaling: :math:`s \mapsto softmax(\log s / T)`, one temperature for all classes.

    T minimises the loss over [1e-4, 1e4], times ``logit_unit_`` of logits, exact to about 1e-10.
    The search is Halley's method for the log loss, which is convex in 1/T, and a scalar search for
    other losses. The optimum is T = infinity if the labels do not depend on the scores, and T = 0
    if they are separable. In both cases the result is the end of the interval, with a
    `ConvergenceWarning`. The map is injective and keeps the order of the classes. Logarithms of
    probabilities below :math:`z_0 \approx -87`, the limit of single precision, are replaced by
    :math:`z_0 - \log(1 + z_0 - \log s)`. Logits are not, unless they differ by more than 700.

    Cost: for the log loss O(n K) time in two to four passes over the data, by blocks of rows. With
    more than four million probabilities their logarithms are computed in each pass, so that the fit
    needs only a sixth of the memory of the data.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds. A single column of logits is the logit of the positive class, so the
        temperature refers to the difference of the two logits.

    Attributes
    ----------
    temperature_ : float
        The temperature; above 1 for over-confident forecasts.
    n_iter_ : int
        Passes over the data, or evaluations of the loss.
    detection_limit_ : float
        Smaller probabilities, and 0, count as this one. Only with ``input="proba"``.

    See Also
    --------
    skcalib.recalibration.BiasCorrectedTemperatureScaling : The same with one bias per class.
    skcalib.recalibration.EnsembleTemperatureScaling : A mixture of three maps.
    PlattScaling : Scale and shift for two classes.
    RecalibratedClassifierCV : Cross-fits a map with a classifier.

    Examples
    --------
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 3, score_temperature=0.5, random_state=0)
    >>> round(TemperatureScaling().fit(data.y_proba, data.y).temperature_, 1)
    2.0
    """

    def _fit_map(self, samples):
        score, labels, weight = samples.score, samples.labels, samples.weight
        is_log_loss = isinstance(score, LogLoss)
        large = self.input == "proba" and samples.values.size > _LARGE
        if is_log_loss and large:  # without another array of n_samples x n_classes
            logits = LogRows(samples.values, self.detection_limit_)
        else:
            logits = samples.forecast
        self._beta, self.n_iter_ = fit_temperature(score, logits, labels, weight)
        self.temperature_ = self._unit / self._beta
        warn_at_the_ends(self._beta)
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = True
        if not (is_log_loss and self._measures):
            return None
        return tuple(mean_log_loss(logits, labels, weight, beta) for beta in (1.0, self._beta))

    def _apply_map(self, logits):
        return softmax(logits.astype(np.float64) * self._beta, axis=1)

    def _write_map(self, add, x):
        return add("softmax", add("scale", x, factor=self._beta))


def fit_temperature(
    score: ProperScore,
    logits: np.ndarray | LogRows,
    labels: np.ndarray,
    weight: np.ndarray,
    *,
    low: float = _LOW,
    high: float = _HIGH,
) -> tuple[float, int]:
    """Optimal inverse temperature in [low, high], and the number of passes over the data.

    `labels` are columns of labels (n,), or label distributions (n, K).
    """
    if isinstance(score, LogLoss):
        fit = _search if isinstance(logits, LogRows) else partial(fit_once, _search)
        return fit(logits, labels, weight, low, high)
    target = labels if labels.ndim == 2 else one_hot_rows(labels, logits.shape[1])
    logits = logits[:].astype(np.float64)
    if not np.ptp(logits, axis=1).any():
        return 1.0, 1  # every forecast is uniform: the loss does not depend on beta
    share = weight / weight.sum()

    def mean_losses(betas):
        """Mean losses at several inverse temperatures, and their derivatives in log(beta)."""
        losses, slopes = np.empty(len(betas)), np.empty(len(betas))
        for j, beta in enumerate(betas):
            loss, slope = score.logit_loss(target, beta * logits)
            losses[j] = share @ loss
            slopes[j] = beta * (share @ np.einsum("ik,ik->i", slope, logits))
        return losses, slopes

    return lowest_inverse_temperature(mean_losses, low, high)


def _search(logits, labels, weight, low, high):
    return optimal_inverse_temperature(logits, labels, weight, low=low, high=high)


def lowest_inverse_temperature(
    mean_losses: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], low: float, high: float
) -> tuple[float, int]:
    """Minimiser over beta in [low, high] of a loss that is not convex, and the evaluations.

    A grid brackets the lowest minimum; it is the root of the derivative between two neighbours.
    """
    grid, n_betas = np.linspace(np.log(low), np.log(high), _GRID), 0
    for depth in range(4):
        values, slopes = mean_losses(np.exp(grid))
        n_betas += len(grid)
        best = int(np.argmin(values))
        if depth == 0 and values[-1] <= values[best] + 1e-14:
            return float(high), n_betas  # decreasing up to the end: the end is the optimum
        left = best if slopes[best] < 0 else best - 1
        if left < 0:
            break
        if left + 1 < len(grid) and slopes[left] < 0 <= slopes[left + 1]:
            ends = slice(left, left + 2)
            root, n_steps = _root(mean_losses, grid[ends], slopes[ends])
            return float(np.exp(root)), n_betas + n_steps
        grid = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], _GRID)
    return float(np.exp(grid[best])), n_betas


def _root(mean_losses, ends, slopes):
    """Root of the derivative between two logarithms of beta, and the evaluations."""
    known = dict(zip(ends.tolist(), slopes.tolist(), strict=True))

    def slope(log_beta):
        if log_beta not in known:
            known[log_beta] = mean_losses(np.exp([log_beta]))[1][0]
        return known[log_beta]

    root, _ = brentq(
        slope, *ends.tolist(), xtol=1e-12, maxiter=_STEPS, full_output=True, disp=False
    )
    return root, len(known) - 2


def warn_at_the_ends(beta: float) -> None:
    """Warn if the optimal inverse temperature is an end of the search range."""
    if _LOW * 1.001 < beta < _HIGH / 1.001:
        return
    cause, optimum, end = (
        ("are separable by the scores", "0", "smallest")
        if beta > 1
        else ("do not follow the scores", "infinite", "largest")
    )
    warnings.warn(
        f"The labels {cause}, and the optimal temperature is {optimum}: the temperature is the "
        f"{end} of the search, {1 / beta:g}.",
        ConvergenceWarning,
        stacklevel=outside_level(),
    )


class EnsembleTemperatureScaling(LogitRecalibrator):
    r"""Ensemble temperature scaling: :math:`w_1\, softmax(\log s / T) + w_2\, s + w_3 / K`.

    The temperature is fitted first, on [0.05, 5], and then the weights on the simplex, both under
    the same loss (Zhang, Kailkhura and Han 2020; G22). The weights minimise it up to 1e-14.
    An end of the interval of temperatures is a valid result. Injective unless all weight is on the
    uniform distribution; keeps the order of the classes.

    Attributes
    ----------
    temperature_ : float
        The temperature.
    weights_ : array of shape (3,)
        Weights of the tempered forecast, the forecast and the uniform distribution.
    n_iter_ : int
        Evaluations of the loss for the temperature.

    See Also
    --------
    TemperatureScaling : One of the three components alone.

    Examples
    --------
    >>> from skcalib.recalibration import EnsembleTemperatureScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> scaling = EnsembleTemperatureScaling().fit(data.y_proba, data.y)
    >>> scaling.loss_after_ < scaling.loss_before_
    True
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "brier",
        labels: ArrayLike | None = None,
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)

    def _fit_map(self, samples):
        score, logits, weight = samples.score, samples.forecast, samples.weight
        self._beta, self.n_iter_ = fit_temperature(
            score, logits, samples.labels, weight, low=0.2, high=20.0
        )
        self.temperature_ = self._unit / self._beta
        self.weights_ = _convex_weights(score, self._parts(logits), samples.target, weight)
        varies = bool(self.weights_[:2].sum() > 1e-9)  # else all forecasts round to uniform
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = varies

    def _parts(self, logits):
        logits = logits.astype(np.float64)
        n_classes = logits.shape[1]
        tempered, raw = softmax(logits * self._beta, axis=1), softmax(logits, axis=1)
        return np.stack([tempered, raw, np.full(raw.shape, 1 / n_classes)])

    def _apply_map(self, logits):
        return np.tensordot(self.weights_, self._parts(logits), axes=1)

    def _write_map(self, add, x):
        first, second, third = self.weights_
        tempered = add("softmax", add("scale", x, factor=self._beta))
        raw = add("scale", add("softmax", x), factor=second, shift=third / len(self.classes_))
        return add("sum", add("scale", tempered, factor=first), raw)


def _convex_weights(score, parts, target, weight):
    def mean_loss(weights):
        forecast = np.tensordot(weights, parts, axes=1)
        return float(weighted_mean(score.loss(target, forecast), weight))

    def gradient(weights):
        slope = score.loss_gradient(target, np.tensordot(weights, parts, axes=1))
        return np.einsum("ink,nk,n->i", parts, slope, weight / weight.sum())

    minimum = minimize(
        mean_loss,
        np.array([0.8, 0.1, 0.1]),
        jac=gradient,
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(3)},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    inside = np.where(minimum.x < _NO_WEIGHT, 0.0, minimum.x)
    return min([*np.eye(3), inside / inside.sum()], key=mean_loss)


class BiasCorrectedTemperatureScaling(
    FittedFromSketch, FittedFromParts, LogitRecalibrator
):  # numpydoc ignore=PR02
    r"""Bias-corrected temperature scaling: :math:`softmax(\beta \log s + b)`.

    The map has one temperature, and a bias for each class. The biases stay at zero unless a
    chi-square test of the class totals rejects at the level .01. They are then shrunk by empirical
    Bayes. For two classes it is Platt scaling of the logit with a weak prior. It is fitted by
    penalised maximum likelihood in a few Newton steps. It is the cheapest map that corrects a shift
    of the class frequencies. Injective; biases may change the predicted class.

    Cost: O(n K) for each of some ten evaluations of the loss. More than thirty million
    probabilities take over ten seconds, and there is a warning before.

    Attributes
    ----------
    temperature_ : float
        1 / beta.
    intercept_ : array of shape (n_classes,)
        Biases b, which sum to zero.
    detection_limit_ : float
        Smaller probabilities, and 0, count as this one. Only with ``input="proba"``.

    See Also
    --------
    TemperatureScaling : Without biases.
    VectorScaling : With a scale for each class.
    LabelShiftRecalibrator : For new frequencies of the classes.

    Examples
    --------
    >>> from skcalib.recalibration import BiasCorrectedTemperatureScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 3, score_temperature=0.5, random_state=0)
    >>> scaling = BiasCorrectedTemperatureScaling().fit(data.y_proba, data.y)
    >>> round(scaling.temperature_, 1), scaling.intercept_
    (2.0, array([0., 0., 0.]))
    """

    def _fit_map(self, samples):
        logits = samples.forecast
        warn_if_slow("BiasCorrectedTemperatureScaling", logits.shape, _SLOW, "TemperatureScaling")
        fit = fit_bias_corrected(logits, samples.labels, samples.weight, samples.count)
        link, n_classes = BiasCorrectedTemperature(), len(self.classes_)
        self._theta, beta = fit.theta, float(fit.theta[0])
        self.temperature_ = self._unit / beta if beta else float("inf")
        self.intercept_ = fit.theta[1:]
        self.injective_ = link.injective(fit.theta, n_classes)
        self.preserves_order_ = link.preserves_order(fit.theta, n_classes)
        self.preserves_argmax_ = self.preserves_order_
        if not fit.converged:
            warnings.warn(
                "BiasCorrectedTemperatureScaling did not converge: the forecasts may hold extreme "
                "values.",
                ConvergenceWarning,
                stacklevel=outside_level(),
            )

    def _apply_map(self, logits):
        return softmax(BiasCorrectedTemperature().apply(self._theta, logits), axis=1)

    def _write_map(self, add, x):
        return add("softmax", add("scale", x, factor=self._theta[0], shift=self._theta[1:]))


# --- Label noise ----------------------------------------------------------------------------------


_LEAST = 1e-12  # noise rate at which the slope of the loss is that at 0


class LabelNoiseScaling(FittedFromSketch):
    r"""Mixture with the uniform distribution: :math:`s \mapsto (1 - t)\, s + t / K`.

    This is the map of symmetric label noise: if a label is replaced, with probability t, by one
    drawn uniformly from all K classes, forecasts that were calibrated for the original labels need
    this map. It moves certain forecasts most, where a temperature hardly changes them: the
    probability of a class is at least t / K, and at most 1 - t (K - 1) / K. It is injective and
    keeps the order of the classes.

    The rate t minimises the loss on [0, n / (n + 1)], so the forecast keeps the weight of at least
    one of n + 1 samples. The log loss and the Brier score are convex in t. A rate below 0 would
    give negative probabilities to forecasts close to 0, so forecasts that are not certain enough
    are left unchanged: use `TemperatureScaling`.

    Cost: O(n K) for each of about ten evaluations of the loss.

    Attributes
    ----------
    noise_rate_ : float
        Share t of labels that are replaced. A share t (K - 1) / K of all labels is then wrong.

    See Also
    --------
    skcalib.recalibration.EnsembleTemperatureScaling : A tempered forecast is a third part.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.recalibration import LabelNoiseScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 4, random_state=0)
    >>> rng = np.random.default_rng(0)
    >>> noisy = rng.random(20_000) < 0.2
    >>> y = np.where(noisy, rng.integers(0, 4, 20_000), data.y)
    >>> round(LabelNoiseScaling().fit(data.posterior, y).noise_rate_, 1)
    0.2
    """

    def _fit_map(self, samples):
        score, target, forecast = samples.score, samples.target, samples.forecast
        share = samples.weight / samples.weight.sum()
        step = 1 / forecast.shape[1] - forecast

        def slope(rate):
            gradient = score.loss_gradient(target, forecast + rate * step)
            return float(share @ np.einsum("ik,ik->i", gradient, step))

        n_samples = number_of_samples(samples.weight, samples.count)
        rates = [0.0, n_samples / (n_samples + 1)]
        slopes = slope(_LEAST), slope(rates[1])
        if slopes[0] < 0 < slopes[1]:
            rates.append(brentq(slope, _LEAST, rates[1], xtol=1e-14))
        losses = [samples.mean_loss(_mixed(forecast, rate)) for rate in rates]
        best = int(np.argmin(losses))
        self.noise_rate_ = rates[best]
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = True
        return losses[0], losses[best]

    def _apply_map(self, forecast):
        return _mixed(forecast, self.noise_rate_)

    def _write_map(self, add, x):
        rate = self.noise_rate_
        return add("scale", x, factor=1 - rate, shift=rate / len(self.classes_))


def _mixed(forecast, rate):
    return (1 - rate) * forecast + rate / forecast.shape[1]
