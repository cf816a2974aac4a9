"""Recalibrators of all logits at once: by one temperature or rate, or with several parameters.

Temperatures and label noise have one number for all classes. `LinkRecalibrator` is the base class
of the others; `_ShrinkageSearch` chooses the shrinkage by cross-validation. `AffineRecalibrator` is
the base class of affine maps. Under the log loss `_AffineSearch` fits them by Newton's method, and
chooses the shrinkage by its evidence. The affine maps follow, then `DiagonalOrderPreserving`, and
`ModelAverageScaling`, the average of maps by their evidence.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from skcalib._util.parallel import fit_once
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike
from skcalib._util.validation import number_of_samples, weights_of_mean_one
from skcalib.data.clusters import effective_size, outside_level
from skcalib.data.labels import is_one_hot, one_hot_rows
from skcalib.links import (
    BiasCorrectedTemperature,
    DirichletMap,
    LinkFit,
    MatrixMap,
    MonotoneNetwork,
    MonotonePieces,
    VectorMap,
    fit_link,
)
from skcalib.links.affine import affine_fit, affine_sums, fit_by_evidence, minimise_affine
from skcalib.links.averaging import AverageWithout, ModelAverage, averaged_map
from skcalib.links.logits import Continuation, LogRows
from skcalib.links.maps import fit_bias_corrected, mean_log_loss, optimal_inverse_temperature
from skcalib.links.newton import one_step_is_enough
from skcalib.recalibration.base import (
    FittedFromParts,
    FittedFromSketch,
    LogitRecalibrator,
    check_seed,
    warn_if_slow,
)
from skcalib.scores import LogLoss, LossLike, ProperScore, weighted_mean
from skcalib.smoothers._base import check_folds
from skcalib.stats.means import first_within_one_standard_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from skcalib.links.affine import Affine

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
        large = self.input == "proba" and samples.values.size > SIZES.stored_logarithms
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
        parts, target = self._parts(logits), samples.target

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
        self.weights_ = min([*np.eye(3), inside / inside.sum()], key=mean_loss)
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
        warn_if_slow(
            "BiasCorrectedTemperatureScaling", logits.shape, SIZES.slow_biases, "TemperatureScaling"
        )
        fit = fit_bias_corrected(logits, samples.labels, samples.weight, samples.count)
        link, n_classes = BiasCorrectedTemperature(), len(self.classes_)
        self._theta, beta = fit.theta, float(fit.theta[0])
        self.temperature_ = self._unit / beta if beta else float("inf")
        self.intercept_ = fit.theta[1:]
        self.injective_ = link.injective(fit.theta, n_classes)
        self.preserves_order_ = self.preserves_argmax_ = link.preserves_order(fit.theta, n_classes)
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
        losses = []
        for rate in rates:
            self.noise_rate_ = rate
            losses.append(samples.mean_loss(self._apply_map(forecast)))
        best = int(np.argmin(losses))
        self.noise_rate_ = rates[best]
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = True
        return losses[0], losses[best]

    def _apply_map(self, forecast):
        return (1 - self.noise_rate_) * forecast + self.noise_rate_ / forecast.shape[1]

    def _write_map(self, add, x):
        rate = self.noise_rate_
        return add("scale", x, factor=1 - rate, shift=rate / len(self.classes_))


# --- Maps with several parameters, and their shrinkage --------------------------------------------


_MOST_VALUES = 20  # evaluations of Newton's method
_FEWEST = 10  # samples from which a strength is chosen
_LOOSE = 1e-9  # tolerance of the mean loss where strengths are compared: these differ far more
#: Strengths of "auto", in samples, from temperature scaling to very weak shrinkage.
STRENGTHS = (np.inf, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)


class LinkRecalibrator(LogitRecalibrator):
    """Base class: fits a link with shrinkage, starting from the optimal temperature.

    Logits are normalised to log-probabilities, so that the map is a function of forecasts.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds; logits are turned into log-probabilities first.
    shrinkage : "auto" or float, default="auto"
        Strength of the shrinkage, in samples. "auto": five-fold cross-validation over
        (infinity, 1000, 300, 100, 30, 10, 3, 1, 0.3, 0.1), the strongest within one standard error
        of the best; infinity, which is temperature scaling, below ten samples.
    max_iter : int, default=500
        Maximum number of iterations.
    tol : float, default=1e-6
        Stop where no component of the gradient is larger.

    Attributes
    ----------
    shrinkage_ : float
        The strength in use.
    n_iter_ : int
        Iterations of the last fit.
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        shrinkage: float | Literal["auto"] = "auto",
        max_iter: int = 500,
        tol: float = 1e-6,
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.shrinkage = shrinkage
        self.max_iter = max_iter
        self.tol = tol

    def _read(self, values):
        logits = super()._read(values).astype(np.float64)
        return log_softmax(logits, axis=1) if self.input == "logits" else logits

    def _fit_link(self, search, samples):
        """Fit the link of a `_ShrinkageSearch`, with the strength that it finds."""
        rows = _Rows(samples.forecast, samples.target, samples.weight)
        link, fit, beta = search.tempered(rows)
        self.shrinkage_, start = search.choose(self.shrinkage, link, fit.theta, rows)
        if not np.isinf(self.shrinkage_):
            fit = search.fit(link, rows, self.shrinkage_, start)
        self._take(link, fit, beta)
        self._warn(fit, samples)

    def _take(self, link, fit, beta):
        """Set the attributes of a fit that started from the inverse temperature beta."""
        n_classes = len(self.classes_)
        self._fitted, self._theta, self.n_iter_ = link, fit.theta, fit.n_iter
        self.injective_ = link.injective(fit.theta, n_classes)
        self.preserves_order_ = self.preserves_argmax_ = link.preserves_order(fit.theta, n_classes)
        if beta > 1 or self.preserves_order_:
            warn_at_the_ends(beta)  # other maps can leave an infinite temperature

    def _warn(self, fit, samples):
        """Warn if a parameter tends to infinity, or the fit did not converge."""
        if fit.converged and self.shrinkage_ != 0:
            return
        target, forecast = samples.target, samples.forecast
        name, end = type(self).__name__, "the parameters are where the fit stopped, and finite"
        if not fit.converged:
            problem = (
                f"{name} stopped after {fit.n_iter} iterations before its loss was minimal "
                f"({fit.message}): {end}, and no worse than temperature scaling on the "
                "calibration set. Raise max_iter, or shrinkage"
            )
        elif is_one_hot(target) and np.sum(target * self._apply_map(forecast), axis=1).min() > 0.99:
            problem = (
                f"The labels are separable, and the best map of {name} is infinitely steep: {end}"
            )
        elif target.sum(axis=0).min() == 0:
            problem = f"Some classes have no label, and {name} sends their bias to -infinity: {end}"
        else:
            return
        message = f"{problem}. shrinkage='auto' avoids it."
        warnings.warn(message, ConvergenceWarning, stacklevel=outside_level())

    def _apply_map(self, logits):
        return softmax(self._map_logits(logits), axis=1)

    def _map_logits(self, logits):
        return self._fitted.apply(self._theta, logits)

    def _write_map(self, add, x):
        logits = add("log_softmax", x) if self.input == "logits" else x
        return add("softmax", self._write_logits(add, logits))

    def _write_logits(self, add, x):
        return add.part(self._fitted, self._theta, x)


@dataclass(frozen=True)
class _Rows:
    """Logits and targets (n, K) and weights (n,) of the same samples."""

    logits: np.ndarray
    target: np.ndarray
    weight: np.ndarray

    def take(self, rows: np.ndarray) -> _Rows:
        return _Rows(self.logits[rows], self.target[rows], self.weight[rows])


class _ShrinkageSearch:
    """Fits a link with shrinkage, whose strength five-fold cross-validation may choose.

    `link` is not prepared, and has the method ``tempered``; `max_iter`, `tol` and `rounding` are
    those of `fit_link`.
    """

    def __init__(
        self, link: Any, score: ProperScore, max_iter: int, tol: float, rounding: float = 1e-13
    ) -> None:
        self.link, self.score, self.rounding = link, score, rounding
        self.max_iter, self.tol = max_iter, tol

    def tempered(self, rows):
        """The link prepared for rows, the `LinkFit` of temperature scaling, and its 1 / T."""
        link = copy(self.link).prepare(rows.logits)
        beta, n_iter = fit_temperature(self.score, rows.logits, rows.target, rows.weight)
        theta = link.tempered(rows.target.shape[1], beta)
        return link, LinkFit(theta, n_iter, True, "temperature scaling"), beta

    def fit(self, link, rows, strength, start):
        """The `LinkFit` with a strength of the shrinkage, from the parameters `start`."""
        return fit_link(
            link,
            self.score,
            rows.logits,
            rows.target,
            rows.weight,
            shrinkage=strength,
            start=start,
            max_iter=self.max_iter,
            tolerance=self.tol,
            rounding=self.rounding,
        )

    def choose(self, shrinkage, link, start, rows):
        """Strength, as given, or the strongest within one standard error of the best; and a start.

        `start` are the parameters of temperature scaling. The fit of a fold starts from that of the
        next stronger shrinkage. Folds run in parallel under `joblib.parallel_config`.
        """
        if shrinkage != "auto":
            return float(shrinkage), start
        if len(rows.target) < _FEWEST:
            return np.inf, start
        folds = check_folds(5, rows.target, random_state=0)
        fits = Parallel()(delayed(self.tempered)(rows.take(train)) for train, _ in folds)
        links, starts = [link for link, *_ in fits], [fit.theta for _, fit, _ in fits]
        losses, means = [], []
        for strength in STRENGTHS:
            steps = Parallel()(
                delayed(self.step)(link, theta, strength, rows.take(train), rows.take(test))
                for link, theta, (train, test) in zip(links, starts, folds, strict=True)
            )
            held_out = np.empty(len(rows.target))
            for k, (theta, loss) in enumerate(steps):
                starts[k], held_out[folds[k][1]] = theta, loss
            losses.append(held_out)
            means.append(rows.weight @ held_out)
            if len(means) > 2 and min(means[-2:]) > min(means):
                break
        number = first_within_one_standard_error(np.array(losses), rows.weight)[0]
        return STRENGTHS[number], start

    def step(self, link, start, strength, train, test):
        """Where the next fit of a fold starts, and losses on the held-out samples of the fold."""
        if np.isfinite(strength):
            loose = copy(self)
            loose.max_iter, loose.tol = min(self.max_iter, 100), max(self.tol, 1e-5)
            loose.rounding = _LOOSE
            start = loose.fit(link, train, strength, start).theta
        return start, self.score.logit_loss(test.target, link.apply(start, test.logits))[0]


# --- Affine maps ----------------------------------------------------------------------------------


class AffineRecalibrator(FittedFromParts, LinkRecalibrator):
    """Base class of affine maps, continued beyond the fitted logits where some class would fall.

    A subclass has ``_map``, the class of its link, and `_set_coefficients`, which sets the public
    attributes from the parameters ``_theta``.
    """

    _map: type[Affine]

    def _fit_map(self, samples):
        self._fit_link(self._search(samples.score), samples)
        if not self._fitted.continues(self._theta, len(self.classes_)):
            self._ends = Continuation(self._apply_map, samples.forecast, samples.weight)
            self.injective_ = False

    def _take(self, link, fit, beta):
        super()._take(link, fit, beta)
        self._ends = None
        self._set_coefficients()

    def _map_logits(self, logits):
        mapped = super()._map_logits(logits)
        if self._ends is not None:
            rows, near, added = self._ends.beyond(logits)
            mapped[rows] = super()._map_logits(near) + added
        return mapped

    def _write_logits(self, add, x):
        write = partial(super()._write_logits, add)
        return write(x) if self._ends is None else self._ends.write_logits(add, write, x)

    def _search(self, score):
        return _AffineSearch(self._map(), score, self.max_iter, self.tol)

    def _fit_without_each(self, samples, average):
        """As of the base class. The strength of a fold is chosen without it, too."""
        if sum(map(len, samples.folds)) > len(samples.labels):
            return None
        rows = _Rows(samples.forecast, samples.target, samples.weight)
        fit = self._search(samples.score).of_parts(self.shrinkage, rows, samples.folds)
        if fit is None:
            return None
        maps, share = [copy(self) for _ in samples.folds], weights_of_mean_one(samples.weight)
        for k, (recalibrator, test) in enumerate(zip(maps, samples.folds, strict=True)):
            recalibrator.shrinkage_, theta = fit.without([k], chosen=self.shrinkage == "auto")
            logits = fit.link.apply(theta, samples.forecast[test])
            loss = samples.score.logit_loss(samples.target[test], logits)[0]
            if not (fit.is_usual(k) and fit.follows(theta, k, share[test] @ loss)):
                return None
            recalibrator._take(fit.link, LinkFit(theta, 1, True, "one step"), 1.0)
        return maps


class _AffineSearch(_ShrinkageSearch):
    """Newton's method under the log loss, and the strength of the highest evidence."""

    def newton(self, n_classes):
        """Whether the Hessian is known, and not too large."""
        few = len(self.link.start(n_classes)) <= SIZES.hessian_parameters
        return few and isinstance(self.score, LogLoss)

    def fit(self, link, rows, strength, start):
        """As of the base class; a quasi-Newton method where Newton's does not converge."""
        if self.newton(rows.target.shape[1]):
            minimum = minimise_affine(
                link,
                _sums_of(link, rows),
                start,
                shrinkage=strength,
                size=len(rows.target),
                max_values=min(_MOST_VALUES, self.max_iter),
            )
            if minimum.converged:
                return LinkFit(minimum.refined, minimum.n_iter, True, "Newton's method")
        return super().fit(link, rows, strength, start)

    def choose(self, shrinkage, link, start, rows):
        """As of the base class; by the evidence where Newton's method is in use."""
        size = len(rows.target)
        if shrinkage != "auto" or size < _FEWEST or not self.newton(rows.target.shape[1]):
            return super().choose(shrinkage, link, start, rows)
        share = effective_size(rows.weight) / size
        return fit_by_evidence(link, _sums_of(link, rows), start, size=size, share=share)[:2]

    def of_parts(self, shrinkage, rows, folds):
        """The `AffineFit` of samples in folds; None where one step is not enough to leave one out.

        Samples outside of the folds are a part of their own.
        """
        few = self.newton(rows.target.shape[1])
        if not few or not one_step_is_enough(rows.target.sum(axis=0), rows.weight, folds):
            return None
        outside = np.setdiff1d(np.arange(len(rows.target)), np.concatenate(folds))
        share = weights_of_mean_one(rows.weight)
        parts = [
            (rows.logits[part], rows.target[part], share[part])
            for part in ([*folds, outside] if len(outside) else folds)
        ]
        link, fit, _ = self.tempered(rows)
        strength = None if shrinkage == "auto" else float(shrinkage)
        return affine_fit(link, parts, fit.theta, strength)


def _sums_of(link, rows):
    """The `affine_sums` of all samples, as a function of the parameters."""
    return partial(affine_sums, link, rows.logits, rows.target, weights_of_mean_one(rows.weight))


class VectorScaling(AffineRecalibrator):  # numpydoc ignore=PR02
    r"""Vector scaling: :math:`softmax(w \odot \log s + b)`, a slope and a bias for each class.

    Written as :math:`w = \beta + \delta`, with :math:`\delta` and b shrunk towards zero (structured
    shrinkage), so that few samples give temperature scaling. Injective where all slopes are of one
    sign; the order of the classes may change. If slopes have different signs, a class becomes less
    likely as its own score rises. Beyond the forecasts of the calibration set a line that does not
    fall then replaces the map (:ref:`beyond_the_scores`).

    Cost: about ten evaluations of the log loss with its Hessian, O(n K^2) each; with other losses,
    or more than 500 classes, hundreds of evaluations in O(n K). More than five million
    probabilities may take over ten seconds, and there is a warning before.

    Parameters
    ----------
    shrinkage : "auto" or float, default="auto"
        Strength of the shrinkage, in samples. "auto": that of the highest evidence under the log
        loss, else by cross-validation, as for `MatrixScaling`; infinity is temperature scaling.

    Attributes
    ----------
    coef_ : array of shape (n_classes,)
        Slopes w.
    intercept_ : array of shape (n_classes,)
        Biases b.

    See Also
    --------
    skcalib.recalibration.BiasCorrectedTemperatureScaling : One scale for all classes.

    Examples
    --------
    >>> from skcalib import VectorScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> scaling = VectorScaling().fit(data.y_proba, data.y)
    >>> scaling.coef_.shape, scaling.injective_
    ((3,), True)
    """

    _map = VectorMap

    def _fit_map(self, samples):
        others = "TemperatureScaling or BiasCorrectedTemperatureScaling"
        warn_if_slow("VectorScaling", samples.values.shape, SIZES.slow_slopes, others)
        super()._fit_map(samples)

    def _set_coefficients(self):
        deviation, self.intercept_ = np.split(self._theta[1:], 2)
        self.coef_ = self._theta[0] + deviation


class MatrixScaling(AffineRecalibrator):  # numpydoc ignore=PR02
    r"""Matrix scaling: :math:`softmax(W \log s + b)`, with shrinkage towards temperature scaling.

    Written as :math:`W = \beta I + M`; the entries of M and b are shrunk towards zero, in units of
    their effect on a logit, those off the diagonal ten times as strongly. Without shrinkage the
    :math:`K^2` parameters overfit badly. The order of the classes may change; injective where
    :math:`W^{-1} 1` exists and has one sign. If an entry off the diagonal exceeds the diagonal of
    its column, one class gains on another as the score of the other rises. Beyond the forecasts of
    the calibration set a line that does not fall then replaces the map (:ref:`beyond_the_scores`),
    and the map is not declared injective.

    Cost: about ten evaluations of the log loss with its Hessian, O(n K^4) each, up to 31 classes;
    else thousands of evaluations in O(n K^2), or hundreds with a given strength.

    Parameters
    ----------
    shrinkage : "auto" or float, default="auto"
        Strength :math:`\lambda` of the shrinkage, in samples: the inverse variance of a normal
        prior of the deviations. "auto": under the log loss the strength of the highest evidence,
        which is the likelihood of the labels averaged over this prior (MacKay 1992), by Laplace's
        method; infinity, which is temperature scaling, where that has a higher one, and below ten
        samples. With other losses, or more than 31 classes: five-fold cross-validation over
        (infinity, 1000, 300, 100, 30, 10, 3, 1, 0.3, 0.1), the strongest within one standard error
        of the best.

    Attributes
    ----------
    coef_ : array of shape (n_classes, n_classes)
        The matrix W.
    intercept_ : array of shape (n_classes,)
        Biases b.

    See Also
    --------
    VectorScaling : A diagonal matrix.
    DirichletCalibration : The same map, with another penalty.

    Examples
    --------
    >>> from skcalib.recalibration import MatrixScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> MatrixScaling().fit(data.y_proba, data.y).coef_.shape
    (3, 3)
    """

    _map = MatrixMap

    def _set_coefficients(self):
        n_classes = len(self.classes_)
        self.coef_ = self._fitted.matrix(self._theta, n_classes)
        self.intercept_ = self._theta[1 + n_classes**2 :]


class DirichletCalibration(MatrixScaling):
    r"""Dirichlet calibration: :math:`softmax(W \log s + b)` with off-diagonal shrinkage (ODIR).

    The map of Kull and others (2019): that of `MatrixScaling` with a free diagonal; off-diagonal
    entries and biases are shrunk towards zero. With ``shrinkage="auto"`` temperature scaling
    remains where the free diagonal does not lower the Bayesian information criterion.

    See Also
    --------
    BetaCalibration : The same for two classes.

    Examples
    --------
    >>> from skcalib import DirichletCalibration
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> DirichletCalibration(shrinkage=10).fit(data.y_proba, data.y).shrinkage_
    10.0
    """

    _map = DirichletMap


# --- Diagonal maps --------------------------------------------------------------------------------


class DiagonalOrderPreserving(LinkRecalibrator):
    r"""Diagonal intra order-preserving map (DIAG; Rahimi and others 2020): one g for every logit.

    :math:`softmax(g(\log s_1), \dots, g(\log s_K))` with one increasing function g, the integral of
    a positive function. The fit starts at the optimal temperature, and its training loss is never
    larger. Injective; always keeps the order of the classes.

    Parameters
    ----------
    variant : {"network", "pieces"}, default="network"
        g' is the exponential of a small network, or a step function between quantiles of the
        logits, whose fit is convex under the log loss.
    shrinkage : float or "auto", default=1.0
        Strength, in samples, of the shrinkage of the network's parameters towards temperature
        scaling. "auto" chooses it by cross-validation, as for `MatrixScaling`.
    random_state : int, default=0
        Seed of the first layers of the network.

    See Also
    --------
    TemperatureScaling : A linear map that keeps the order, too.

    Examples
    --------
    >>> from skcalib.recalibration import DiagonalOrderPreserving
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, 3, random_state=0)
    >>> scaling = DiagonalOrderPreserving().fit(data.y_proba, data.y)
    >>> bool((scaling.predict(data.y_proba) == data.y_proba.argmax(axis=1)).all())
    True
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        variant: Literal["network", "pieces"] = "network",
        shrinkage: float | Literal["auto"] = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-5,
        random_state: int = 0,
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.variant = variant
        self.shrinkage = shrinkage
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _check_parameters(self):
        super()._check_parameters()
        check_seed(self.random_state)

    def _fit_map(self, samples):
        network = self.variant == "network"
        link = MonotoneNetwork(seed=self.random_state) if network else MonotonePieces()
        # Slow progress at the end of a fit has no benefit out of sample.
        search = _ShrinkageSearch(link, samples.score, self.max_iter, self.tol, rounding=1e-9)
        self._fit_link(search, samples)

    def transform_logits(self, logits: ArrayLike) -> np.ndarray:
        """The function g, at any logits.

        Parameters
        ----------
        logits : array-like of any shape
            Logits, or log-probabilities. If the map was fitted to logits, they are divided by
            ``logit_unit_`` first, and those with heavy tails mapped by ``logit_tails_``; of two
            classes as the logit of the second, beside its negative for the first.

        Returns
        -------
        array
            g(logits), of the same shape.
        """
        check_is_fitted(self)
        logits = np.asarray(logits, dtype=np.float64)
        if self.input == "logits" and self.logit_tails_ is not None:
            logits = self.logit_tails_.each(logits)
        logits = logits / self._unit
        return self._fitted.apply(self._theta, logits.reshape(1, -1)).reshape(logits.shape)


# --- Averages of maps -----------------------------------------------------------------------------


class ModelAverageScaling(FittedFromSketch):  # numpydoc ignore=PR02
    r"""Average of recalibration maps, weighted by their evidence.

    This is the map of the default calibration error (:func:`~skcalib.proper_calibration_error`).
    Nested models of slopes, shifts, slopes of single classes and curves of the logits are fitted by
    penalised maximum likelihood. The map is :math:`s \mapsto \sum_m a_m\, m(s)` with weights a from
    the log evidence of each model m; :ref:`averaged_maps` has the formulas. The identity is one of
    the models, so the map is close to it where the data show no miscalibration. There are no folds
    and no parameters to choose.

    With more than two classes and fewer than 20 samples for each, there are no maps of single
    classes.

    The map may fall within the forecasts that it was fitted to. Beyond them curves are constant. If
    a model has a cubic curve there, or a negative slope, the logits continue as a line that does
    not fall (:ref:`beyond_the_scores`).

    Attributes
    ----------
    evidence_ : dict
        Weight of the models with a "shift", a "slope", "class_slopes" (different slopes of the
        classes), a "curve" and "confusion" (shifts that depend on the predicted class), each in
        [0, 1]. A model may have several of them.
    identity_weight_ : float
        Weight of the identity.

    See Also
    --------
    TemperatureScaling : The simplest of the averaged maps.
    RecalibratorSelection : Chooses one map in place of an average.

    Examples
    --------
    >>> from skcalib.recalibration import ModelAverageScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(5000, 3, random_state=0)
    >>> scaling = ModelAverageScaling().fit(data.y_proba, data.y)
    >>> {name: round(weight, 1) for name, weight in scaling.evidence_.items()}
    {'shift': 0.0, 'slope': 1.0, 'class_slopes': 0.0, 'curve': 0.0, 'confusion': 0.0}
    """

    def _fit_map(self, samples):
        self._take(averaged_map(samples.forecast, samples.target, samples.weight, samples.square))
        if not self._map.continues:
            self._ends = Continuation.of_forecasts(
                self._map, samples.forecast, samples.weight, samples.count
            )

    def _fit_without_each(self, samples, average):
        if samples.labels.ndim == 2:  # label distributions vary less than the step assumes
            return None
        counts = np.bincount(samples.labels, minlength=len(self.classes_))
        if not one_step_is_enough(counts, samples.weight, samples.folds):
            return None
        if average is None:
            average = ModelAverage().fit(samples.forecast, samples.target, samples.weight)
        maps = []
        for test in samples.folds:
            without = AverageWithout(average, test)
            if not without.accurate:
                return None
            maps.append(copy(self))
            maps[-1]._take(without.map)
        return maps

    def _take(self, averaged):
        """Set the attributes of a fit."""
        self._map, self._ends = averaged, None
        self.evidence_, self.identity_weight_ = averaged.evidence, averaged.identity
        # Every mean has curves, which may fall.
        self.injective_ = self.preserves_order_ = self.preserves_argmax_ = False

    def _apply_map(self, forecast):
        return self._map(forecast) if self._ends is None else self._ends(self._map, forecast)

    def _write_map(self, add, x):
        def write(x):
            models = [add("scale", x, factor=self._map.identity)]
            for share, groups, theta in self._map.parts:
                model = add.part(self._map.basis, x, groups, theta)
                models.append(add("scale", model, factor=share))
            return add("sum", *models)

        return write(x) if self._ends is None else self._ends.write_forecasts(add, write, x)
