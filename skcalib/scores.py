r"""Scores: distances between targets and forecasts, and proper scores.

`Divergence` is the base class of all scores; `TotalVariation` and `Lp` are distances only.
`ProperScore` is the base class of proper scores, which follow from a concave entropy and its
gradient. A proper score is written with its generalised entropy :math:`H`, a concave function of
the forecast :math:`s`. For a target :math:`q` (a label, or any conditional expectation of labels)

.. math::

    L(q, s) = H(s) + \langle \nabla H(s), q - s \rangle , \qquad
    D(q, s) = L(q, s) - H(q) \ge 0 .

:math:`L` is the expected loss when labels are drawn from :math:`q`, and :math:`D` is the Bregman
divergence of :math:`-H`. Both are losses: lower is better.

Nearly every quantity of the library is the mean divergence between two points of the tower of
conditional expectations. With the forecast S, the label Y, the features X, the calibrated scores
C = E[Y|S] and the binned forecast S_B, from fine to coarse::

    Y -- Q = E[Y|X] -- C = E[Y|S] ----------- C_B = E[Y|S_B] -- E[Y]
                 \____ R = E[Y|S_B, region] ____/

Along nested partitions the divergences of a proper score add exactly, in sample (Pythagoras).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import entr, softmax, xlogy

from skcalib._util.arithmetic import log_softmax, reach_of, row_sum
from skcalib._util.messages import is_finite, shown
from skcalib._util.types import ArrayLike
from skcalib._util.validation import check_count, look_up, to_numpy

__all__ = [
    "Brier",
    "ClasswiseLogLoss",
    "DawidSebastiani",
    "DecisionCost",
    "Divergence",
    "Elementary",
    "FDivergence",
    "LogLoss",
    "Lp",
    "ProperScore",
    "RankedProbability",
    "Spherical",
    "TotalVariation",
    "UScore",
]


class Divergence:
    """A distance between a target and a forecast; the base of every score.

    A distance that is not a proper score, such as `TotalVariation`, implements `divergence` only.
    """

    def divergence(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        """Distance of each forecast from its target, shape (n,)."""
        raise NotImplementedError

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(vars(self).items())))


class TotalVariation(Divergence):
    r"""Total variation, half of the L1 distance: :math:`\frac12 \sum_k |q_k - s_k|`, in [0, 1].

    For K = 2 it is :math:`|q_1 - s_1|`, the distance of the expected calibration error. It is a
    distance and not a proper score.

    See Also
    --------
    skcalib.scores.Lp : Other norms of the difference.
    skcalib.scores.Brier : A proper score.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import TotalVariation
    >>> TotalVariation().divergence(np.array([[0.5, 0.5]]), np.array([[0.2, 0.8]])).round(6)
    array([0.3])
    """

    def divergence(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        return 0.5 * np.sum(np.abs(np.asarray(target) - forecast), axis=-1)


class Lp(Divergence):
    r"""The p-th power of the Lp distance, :math:`c \sum_k |q_k - s_k|^p`.

    Halved for K = 2 (:math:`c = 1/2`, else 1), so that the binary distance is :math:`|q - s|^p`.
    ``Lp(2)`` agrees with the divergence of `Brier`. No root is taken.

    Parameters
    ----------
    p : float, default=2
        The power, at least 1.

    See Also
    --------
    skcalib.scores.TotalVariation : Half of the distance for p = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import Lp
    >>> Lp(p=1).divergence(np.array([[0.5, 0.5]]), np.array([[0.2, 0.8]])).round(6)
    array([0.3])
    """

    def __init__(self, p: float = 2) -> None:
        if not (is_finite(p) and p >= 1):
            raise ValueError(f"p must be a finite number of at least 1, got {shown(p)}.")
        self.p = p

    def divergence(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        distance = np.abs(np.asarray(target) - forecast)
        scale = 0.5 if distance.shape[-1] == 2 else 1.0
        return scale * np.sum(distance**self.p, axis=-1)


# --- Proper scores --------------------------------------------------------------------------------


class ProperScore(Divergence):
    r"""Base class of proper scores: implement `entropy` and `gradient`, inherit the rest.

    Attributes
    ----------
    infimum : float or None
        Lowest entropy over the domain, which is the loss of a perfect forecast. None if the entropy
        has no lower bound; then no upper bound of the calibration error exists.
    separable : bool
        True where the divergence is a fixed multiple of the squared distance,
        :math:`D(q, s) = c \|q - s\|^2`, so that ``method="cross"`` of
        :func:`~skcalib.proper_calibration_error` applies.
    jointly_convex : bool
        True where :math:`D(q, s)` is convex in the pair (q, s). By Jensen's inequality, binning can
        then only reduce the calibration error, so that the error of the binned score plus a lower
        bound of the grouping loss is a lower bound of :math:`E\,D(Q, S)` (L23 appendix C). True
        for `Brier` and `LogLoss`, False for `Spherical` and `DawidSebastiani`, and False unless a
        score declares it.
    strictly_proper : bool
        True where D(q, s) = 0 only if s = q. False for `DecisionCost` and `Elementary`: forecasts
        with the same decision have the same loss, so no map can be fitted with these scores.
    ordered : bool
        True where the score depends on the order of the classes, as `RankedProbability` does.
    domain : {"simplex", "moments"}
        Domain of the forecasts: probability vectors, or the pairs (E[y], E[y^2]).

    See Also
    --------
    skcalib.testing.check_score : Checks the laws of proper scores.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import ProperScore
    >>> class Quartic(ProperScore):
    ...     "Proper score of the entropy -sum p^4."
    ...     infimum = -1.0
    ...     def entropy(self, forecast):
    ...         return -(forecast**4).sum(axis=-1)
    ...     def gradient(self, forecast):
    ...         return -4 * forecast**3
    >>> Quartic().divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    np.float64(0.875)
    """

    infimum: float | None = None
    separable = False
    jointly_convex = False
    strictly_proper = True
    ordered = False
    domain = "simplex"

    def entropy(self, forecast: np.ndarray) -> np.ndarray:
        """Generalised entropy H of each forecast, concave, shape (n,)."""
        raise NotImplementedError

    def gradient(self, forecast: np.ndarray) -> np.ndarray:
        """Gradient of the entropy H at each forecast, shape (n, K)."""
        raise NotImplementedError

    def statistic(self, y: np.ndarray) -> np.ndarray:
        """The statistic whose mean is forecast: the one-hot label, unless overridden."""
        return y

    def loss(self, target: ArrayLike, forecast: ArrayLike) -> np.ndarray:
        """Expected loss of each forecast when labels have the mean `target`, shape (n,).

        Parameters
        ----------
        target : array of shape (n, K)
            One-hot labels, or conditional expectations of them.
        forecast : array of shape (n, K)
            Forecasts in the domain of the score.

        Returns
        -------
        array of shape (n,)
            H(forecast) + <grad H(forecast), target - forecast>; infinite where the score is.
        """
        target, forecast = _arrays(target, forecast)
        step = np.asarray(target) - forecast
        # 0 * infinity is 0 here, as in 0 log 0: the step along that coordinate is zero.
        slope = np.where(step == 0, 0.0, self.gradient(forecast))
        return self.entropy(forecast) + np.sum(slope * step, axis=-1)

    def loss_gradient(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        r"""Gradient of the loss in the forecast, shape (n, K).

        It is :math:`\nabla^2 H(s)\, (q - s)`, the change of the gradient along the step to the
        target. It is computed by differences inside the simplex, unless a score overrides this
        method with a closed form.
        """
        step = np.asarray(target) - forecast
        # A gradient may have a strong curvature near zero. For a small probability that grows, the
        # step is short relative to that probability; otherwise it is long relative to rounding.
        grows = (step > 0) & (forecast > 0) & (self.domain == "simplex")
        step_lengths = np.where(grows, 1e-3 * forecast / np.where(grows, step, 1.0), np.inf)
        short = np.clip(step_lengths.min(axis=-1, keepdims=True), np.finfo(np.float64).tiny, 1e-4)
        slopes = (self._gradient_change(forecast, step, h) for h in (short, 1e-4))
        return np.where(step_lengths < 1e-4, *slopes)

    def _gradient_change(self, forecast, step, h):
        """Derivative of the gradient along `step`, from its values at 0, h and 2 h."""
        here, near, far = (self.gradient(forecast + k * h * step) for k in (0, 1, 2))
        with np.errstate(invalid="ignore"):  # infinite slopes at 0, where the step is zero
            return np.where(step == 0, 0.0, 4 * near - far - 3 * here) / (2 * h)

    def logit_loss(self, target: np.ndarray, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Loss of the forecasts softmax(logits) and its gradient in the logits."""
        forecast = softmax(logits, axis=1)
        gradient = self.loss_gradient(target, forecast)
        gradient = gradient - np.sum(forecast * gradient, axis=1, keepdims=True)
        return self.loss(target, forecast), forecast * gradient

    def divergence(self, target: ArrayLike, forecast: ArrayLike) -> np.ndarray:
        """Bregman divergence D(target, forecast) = loss(target, forecast) - H(target), shape (n,).

        Zero if both agree. Negative values from rounding are set to zero.
        """
        target, forecast = _arrays(target, forecast)
        return np.maximum(self.loss(target, forecast) - self.entropy(target), 0.0)


def _arrays(target, forecast):
    """Tensors of other libraries become NumPy arrays, as in every public function."""
    return to_numpy(target, name="target"), to_numpy(forecast, name="forecast")


class Brier(ProperScore):
    r"""Brier score, the squared distance to the label.

    :math:`L(y, s) = c \sum_k (s_k - y_k)^2` with :math:`c = 1` for K > 2 and :math:`c = 1/2` for
    K = 2, so that the binary score is :math:`(p - y)^2`, as in scikit-learn. Its entropy is
    :math:`H(s) = c (1 - \sum_k s_k^2)` and its divergence :math:`c \|q - s\|^2`. Range [0, 2], or
    [0, 1] for K = 2; units: squared probability.

    See Also
    --------
    skcalib.scores.LogLoss : Penalises confident errors more.
    skcalib.root_brier_score : The root of its mean.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import Brier
    >>> Brier().loss(np.array([[0.0, 1.0]]), np.array([[0.3, 0.7]])).round(6)
    array([0.09])
    """

    infimum = 0.0
    separable = True
    jointly_convex = True

    def entropy(self, forecast: np.ndarray) -> np.ndarray:
        return self._scale(forecast) * (1 - np.sum(np.square(forecast), axis=-1))

    def gradient(self, forecast: np.ndarray) -> np.ndarray:
        return -2 * self._scale(forecast) * np.asarray(forecast)

    def loss_gradient(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        return 2 * self._scale(forecast) * (forecast - np.asarray(target))

    @staticmethod
    def _scale(forecast):
        return 0.5 if np.shape(forecast)[-1] == 2 else 1.0


class LogLoss(ProperScore):
    r"""Logarithmic score, in nats: :math:`L(y, s) = -\log s_y`, Shannon entropy, KL divergence.

    Range [0, infinity]. The loss of a label of probability 0 is infinite; probabilities are not
    clipped.

    See Also
    --------
    skcalib.scores.Brier : Bounded.
    skcalib.scores.ClasswiseLogLoss : One class against the rest.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import LogLoss
    >>> LogLoss().loss(np.eye(2), np.array([[0.5, 0.5], [1.0, 0.0]])).round(4)
    array([0.6931,    inf])
    """

    infimum = 0.0
    jointly_convex = True

    def entropy(self, forecast: np.ndarray) -> np.ndarray:
        return np.sum(entr(forecast), axis=-1)

    def gradient(self, forecast: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return -np.log(forecast) - 1

    def loss_gradient(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.asarray(target) / forecast
        return 1 - np.where(np.asarray(target) == 0, 0.0, ratio)

    def logit_loss(self, target: np.ndarray, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # From the logarithm of the forecast: the loss is finite where the forecast underflows.
        # The gradient is that of this loss to the last digit: fits of extreme logits need it.
        log_forecast = log_softmax(logits)
        gradient = row_sum(target)[:, None] * np.exp(log_forecast) - target
        return -np.einsum("ik,ik->i", target, log_forecast), gradient


class ClasswiseLogLoss(ProperScore):
    r"""Log loss of the classwise decomposition of L23, eq. 78: one term p log p per class, in nats.

    For two columns, an event against the rest, only the event (the last column) counts: with its
    forecast s the entropy is :math:`H(s) = -s \log s`, the loss :math:`L(y, s) = -y \log s - y + s`
    and the divergence :math:`D(q, s) = q \log(q / s) - q + s`. `LogLoss` also has the terms of the
    rest, :math:`1 - q` and :math:`1 - s`. For more columns it is `LogLoss`.

    ``notion=Classwise(reduce="sum")`` gives the classwise terms of L23,

    .. math:: \sum_k E\,D(C_k, S_k), \quad \sum_k E\,D(Q_k, C_k), \qquad C_k = E[Y_k | S_k],

    which are parts of the log loss itself, because the losses of all classes sum to :math:`-\log
    s_y`. The one-against-rest errors of `LogLoss` are parts of a larger loss. Range [0, infinity];
    the loss of a label of probability 0 is infinite.

    See Also
    --------
    skcalib.scores.LogLoss : The log loss of all classes at once.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import ClasswiseLogLoss, LogLoss
    >>> q, s = np.array([[0.5, 0.3, 0.2]]), np.array([[0.2, 0.2, 0.6]])
    >>> events = [np.column_stack([1 - p, p]) for p in np.vstack([q, s]).T]
    >>> sum(ClasswiseLogLoss().divergence(e[:1], e[1:])[0] for e in events).round(4)
    np.float64(0.3601)
    >>> LogLoss().divergence(q, s).round(4)
    array([0.3601])
    """

    infimum = 0.0
    jointly_convex = True

    def entropy(self, forecast: np.ndarray) -> np.ndarray:
        counted = forecast[..., 1:] if np.shape(forecast)[-1] == 2 else forecast
        return np.sum(entr(counted), axis=-1)

    def gradient(self, forecast: np.ndarray) -> np.ndarray:
        return self._event(LogLoss().gradient(forecast))

    def loss_gradient(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        return self._event(LogLoss().loss_gradient(target, forecast))

    def logit_loss(self, target: np.ndarray, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if np.shape(logits)[1] > 2:
            return LogLoss().logit_loss(target, logits)
        log_forecast = log_softmax(logits)
        forecast, event = np.exp(log_forecast), np.asarray(target)[:, 1]
        slope = forecast[:, 0] * (forecast[:, 1] - event)
        loss = forecast[:, 1] - event - event * log_forecast[:, 1]
        return loss, np.stack([-slope, slope], axis=1)

    @staticmethod
    def _event(values):
        """The array without the first of two columns, which does not enter the loss."""
        return np.where([False, True], values, 0.0) if values.shape[-1] == 2 else values


class Spherical(ProperScore):
    r"""Spherical score: :math:`L(y, s) = 1 - s_y / \|s\|_2`, entropy :math:`1 - \|s\|_2`.

    Range [0, 1], without units. Its divergence is
    :math:`\|q\| - \langle q, s \rangle / \|s\|`, which is not jointly convex: binning may increase
    its calibration error.

    See Also
    --------
    skcalib.scores.Brier : Another bounded score.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import Spherical
    >>> Spherical().loss(np.array([[0.0, 1.0]]), np.array([[0.6, 0.4]])).round(4)
    array([0.4453])
    """

    infimum = 0.0

    def entropy(self, forecast: np.ndarray) -> np.ndarray:
        return 1 - np.linalg.norm(forecast, axis=-1)

    def gradient(self, forecast: np.ndarray) -> np.ndarray:
        return -np.asarray(forecast) / np.linalg.norm(forecast, axis=-1, keepdims=True)


class RankedProbability(ProperScore):
    r"""Ranked probability score of ordered classes: the Brier scores of all thresholds, added.

    With the cumulative probabilities :math:`F_k = s_1 + \dots + s_k`, in the order of the columns,

    .. math::

        L(y, s) = \sum_{k=1}^{K-1} (F_k - 1\{y \le k\})^2 , \qquad
        H(s) = \sum_{k=1}^{K-1} F_k (1 - F_k) .

    A forecast that is wrong by two classes costs more than one that is wrong by one. The divergence
    is the sum of the squared differences of the cumulative probabilities. It is not divided by
    :math:`K - 1`, as some packages do; so for two classes it is the Brier score
    :math:`(p - y)^2`. Range [0, K - 1]; units: squared probability. Functions refuse labels whose
    order is not known, as `Cumulative` does.

    See Also
    --------
    skcalib.scores.Brier : For classes without an order.
    skcalib.data.notions.Cumulative : The events that the sum is over.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import RankedProbability
    >>> forecast = np.array([[0.7, 0.2, 0.1]])
    >>> [RankedProbability().loss(label, forecast).round(2).tolist() for label in np.eye(3)]
    [[0.1], [0.5], [1.3]]
    """

    infimum = 0.0
    jointly_convex = True
    ordered = True

    def entropy(self, forecast: np.ndarray) -> np.ndarray:
        up_to = np.cumsum(forecast, axis=-1)[..., :-1]
        return np.sum(up_to * (1 - up_to), axis=-1)

    def gradient(self, forecast: np.ndarray) -> np.ndarray:
        return self._spread(1 - 2 * np.cumsum(forecast, axis=-1)[..., :-1])

    def loss_gradient(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        return self._spread(2 * np.cumsum(forecast - np.asarray(target), axis=-1)[..., :-1])

    @staticmethod
    def _spread(slope):
        """Derivatives in the classes from those in F_1, F_2, ...: class j enters F_j and later."""
        sums = np.cumsum(slope[..., ::-1], axis=-1)[..., ::-1]
        return np.concatenate([sums, np.zeros_like(sums[..., :1])], axis=-1)


class DawidSebastiani(ProperScore):
    r"""Dawid-Sebastiani score of a mean and a variance, for regression.

    The forecast is the pair of moments :math:`(m_1, m_2) = (\mu, \mu^2 + v)` and the target
    statistic of an outcome y is :math:`(y, y^2)`. With the entropy
    :math:`H = \log(m_2 - m_1^2) + 1` the loss is :math:`(y - \mu)^2 / v + \log v`. It is unbounded
    below (``infimum`` is None), so no upper bound of its calibration error exists. The divergence
    of a target needs a variance above zero.

    See Also
    --------
    skcalib.regression.dawid_sebastiani_score : Its mean, from means and variances.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import DawidSebastiani
    >>> score = DawidSebastiani()
    >>> score.loss(score.statistic(np.array([2.0])), np.array([[1.0, 1.0 + 4.0]])).round(4)
    array([1.6363])
    """

    domain = "moments"

    def statistic(self, y: np.ndarray) -> np.ndarray:
        return np.stack([y, np.square(y)], axis=-1)

    def entropy(self, forecast: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self._variance(forecast)) + 1

    def gradient(self, forecast: np.ndarray) -> np.ndarray:
        variance = self._variance(forecast)
        return np.stack([-2 * forecast[..., 0] / variance, 1 / variance], axis=-1)

    @staticmethod
    def _variance(moments):
        return moments[..., 1] - np.square(moments[..., 0])


def _numbers(values):
    """Values of a parameter as an array; an empty one if they are not numbers."""
    try:
        array = np.asarray(values)
        return np.array(array if array.dtype.kind not in "SU" else [], dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        return np.empty(0)


# --- Information ----------------------------------------------------------------------------------

_GENERATORS: dict[str, tuple[Callable, Callable]] = {
    "kl": (lambda t: xlogy(t, t), lambda t: np.log(t) + 1),
    "chi2": (lambda t: (t - 1) ** 2, lambda t: 2 * (t - 1)),
    "total_variation": (lambda t: np.abs(t - 1) / 2, lambda t: np.sign(t - 1) / 2),
    "jensen_shannon": (
        lambda t: (xlogy(t, t) - xlogy(1 + t, (1 + t) / 2)) / 2,
        lambda t: np.log(2 * t / (1 + t)) / 2,
    ),
}


class FDivergence(ProperScore):
    r"""Score whose sharpness is an f-divergence of the classes (P24 eq. 19, 21).

    For the class frequencies :math:`\pi` and a convex f with f(1) = 0 its entropy is
    :math:`H(s) = -\sum_k \pi_k f(s_k / \pi_k)`, with the maximum 0 at :math:`\pi`. So
    :func:`~skcalib.sharpness` is the mean f-divergence of the forecasts of a class,
    :math:`P_k`, from those of all classes, P:

    .. math:: E\,D(C, \pi) = \sum_k \pi_k \int f\Big(\frac{dP_k}{dP}\Big) dP .

    The loss of the forecast :math:`\pi` is 0. For *any* forecasts q of a model of X, the mean of
    :math:`-L(Y, q)` on new data is in expectation at most the statistical information
    :math:`SI_F(X; Y)` (P24 eq. 31). :func:`~skcalib.calibration_improvement` from :math:`\pi` to q
    has its interval.

    Parameters
    ----------
    prior : array-like of shape (n_classes,), default=None
        Class frequencies, positive, with the sum 1. None for equal ones.
    function : str or pair of functions, default="kl"
        "kl" is :math:`f(t) = t \log t` (mutual information, in nats), "chi2" :math:`(t - 1)^2`,
        "total_variation" :math:`|t - 1| / 2`, and "jensen_shannon" the mean divergence of both
        from their mixture, in nats. A tuple holds any convex f and its derivative, for arrays.

    See Also
    --------
    skcalib.sharpness : The f-divergence, from a sample.
    skcalib.scores.LogLoss : The same up to a constant of each label, for "kl".

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import calibration_improvement
    >>> from skcalib.datasets import make_grouping_problem
    >>> from skcalib.scores import FDivergence
    >>> data = make_grouping_problem(5000, random_state=0)
    >>> prior = np.full((5000, 2), 0.5)
    >>> for name in ("kl", "chi2"):
    ...     options = {"loss": FDivergence(prior[0], name), "injective": True}  # without a warning
    ...     found = calibration_improvement(data.y, prior, data.y_proba, **options)
    ...     print(f"{name} {found.estimate:.2f} [{found.low:.2f}, {found.high:.2f}]")
    kl 0.42 [0.40, 0.43]
    chi2 0.65 [0.63, 0.67]
    """

    def __init__(
        self, prior: ArrayLike | None = None, function: str | tuple[Callable, Callable] = "kl"
    ) -> None:
        shares = _numbers([1.0] if prior is None else prior)
        if shares.ndim != 1 or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-6:
            raise ValueError(
                f"prior must list positive class frequencies with the sum 1, got {shown(prior)}."
            )
        if not isinstance(function, tuple):
            look_up(function, _GENERATORS, "function")
        self.prior = None if prior is None else tuple(shares.tolist())
        self.function = function

    @property
    def strictly_proper(self) -> bool:  # type: ignore[override]
        """False for "total_variation", which is linear between its kinks."""
        return self.function != "total_variation"

    @property
    def infimum(self) -> float | None:  # type: ignore[override]
        """Entropy of a forecast that one class is certain, the lowest; None without a prior."""
        return None if self.prior is None else self.entropy(np.eye(len(self.prior))).min()

    def entropy(self, forecast: np.ndarray) -> np.ndarray:
        return -np.sum(self._prior_of(forecast) * self._apply(0, forecast), axis=-1)

    def gradient(self, forecast: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return -self._apply(1, forecast)

    def _apply(self, i, forecast):
        pair = self.function if isinstance(self.function, tuple) else _GENERATORS[self.function]
        return pair[i](np.asarray(forecast) / self._prior_of(forecast))

    def _prior_of(self, forecast):
        k = np.shape(forecast)[-1]
        if self.prior is not None and len(self.prior) != k:
            raise ValueError(
                f"{self!r} is for {len(self.prior)} classes, but the forecasts have {k}."
            )
        return np.full(k, 1 / k) if self.prior is None else np.array(self.prior)


# --- Several forecasts at a time ------------------------------------------------------------------


class UScore:
    r"""Score of r forecasts and labels at a time (G22 appendix F).

    For a rule S and independent labels of the distributions Q, the score is (eq. 52)

    .. math:: s(P, Q) = \sum_{y_1 \dots y_r} S(P_1, \dots, P_r, y_1, \dots, y_r) \prod_i Q_{i y_i} ,

    the entropy :math:`g(Q) = s(Q, Q)`, and the divergence :math:`d = s(P, Q) - g(Q)` (eq. 55). It
    is proper if :math:`E\,d \ge 0` for independent draws of the pairs (forecast, distribution of
    its label). For r = 1 that is a proper score, such as a kernel score :math:`(P - e_y)^\top M (P
    - e_y)`. For r = 2 the rule :math:`(P_1 - e_{y_1})^\top k(P_1, P_2) (P_2 - e_{y_2})` has the
    entropy 0, and the calibration error of :func:`~skcalib.kernel_calibration_error` (eq. 58 to
    61). All tuples of rows are evaluated, for all labels: :math:`O(n^r K^r)`.

    Parameters
    ----------
    rule : callable
        ``rule(*forecasts, *labels)`` -> values (m,), of r arrays of forecasts (m, K) and r of
        one-hot labels (m, K).
    size : int, default=2
        The number r.

    See Also
    --------
    skcalib.kernel_calibration_error : The error of the second rule, also for many samples.
    skcalib.scores.ProperScore : Scores of one forecast, from their entropy.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import kernel_calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> from skcalib.kernels import LaplacianKernel
    >>> from skcalib.scores import UScore
    >>> data = make_tempered_simplex(200, 3, random_state=0)
    >>> k = LaplacianKernel().for_data(data.y_proba)
    >>> score = UScore(lambda p, q, y, z: k.pairs(p, q) * ((p - y) * (q - z)).sum(axis=1))
    >>> estimate = score.estimate(np.eye(3)[data.y], data.y_proba)
    >>> print(f"{estimate:.6f} {kernel_calibration_error(data.y, data.y_proba):.6f}")
    0.004504 0.004504
    >>> print(f"{score.decomposition(data.posterior, data.y_proba)[1]:.6f}")
    0.002813
    """

    def __init__(self, rule: Callable[..., np.ndarray], size: int = 2) -> None:
        if not callable(rule) or isinstance(rule, type):
            raise ValueError(f"rule must be a function of forecasts and labels, got {shown(rule)}.")
        self.rule, self.size = rule, check_count(size, "size")

    def loss(self, target: ArrayLike, forecast: ArrayLike) -> np.ndarray:
        """Score s of forecasts and distributions of labels, both (m, r, K); shape (m,)."""
        target, forecast = (np.asarray(values, dtype=np.float64) for values in (target, forecast))
        shape = forecast.shape
        if len(shape) != 3 or shape[1] != self.size or target.shape != shape:
            raise ValueError(
                f"target and forecast must have the shape (m, {self.size}, n_classes), got "
                f"{target.shape} and {shape}."
            )
        losses, forecasts = np.zeros(len(forecast)), np.moveaxis(forecast, 1, 0)
        for labels in product(np.eye(shape[2]), repeat=self.size):
            chance = np.prod([target[:, i] @ y for i, y in enumerate(labels)], axis=0)
            rows = (np.tile(y, (len(forecast), 1)) for y in labels)
            losses += np.where(chance > 0, self.rule(*forecasts, *rows), 0) * chance
        return losses

    def entropy(self, forecast: ArrayLike) -> np.ndarray:
        """Entropy g of each r distributions (m, r, K), shape (m,)."""
        return self.loss(forecast, forecast)

    def divergence(self, target: ArrayLike, forecast: ArrayLike) -> np.ndarray:
        """Divergence d of each r forecasts from the targets, both (m, r, K); shape (m,)."""
        return self.loss(target, forecast) - self.entropy(target)

    def estimate(self, target: np.ndarray, forecast: np.ndarray) -> float:
        """U-statistic: the mean score of r different of n samples, with one-hot labels (n, K)."""
        rows = np.array(list(permutations(range(len(forecast)), self.size)))
        return float(self.loss(target[rows], forecast[rows]).mean())

    def decomposition(self, target: np.ndarray, forecast: np.ndarray) -> tuple[float, float, float]:
        """Entropy, calibration and sharpness (eq. 56) of n forecasts, with E[Y|P] as target (n, K).

        The mean score of r independent draws of rows is the first plus the second minus the third.
        """
        rows = np.array(list(product(range(len(forecast)), repeat=self.size)))
        q, p = target[rows], forecast[rows]
        mean = np.broadcast_to(target.mean(axis=0), q.shape)
        parts = self.entropy(mean[:1]), self.divergence(q, p), self.divergence(q, mean)
        entropy, calibration, sharpness = (float(values.mean()) for values in parts)
        return entropy, calibration, sharpness


# --- Costs of decisions ---------------------------------------------------------------------------


_LARGEST = 1e100  # cost: products of costs and their sums are finite
_TIE = 1e-12  # relative difference of expected costs that rounding can cause


class DecisionCost(ProperScore):
    r"""Cost of the decision that a forecast leads to, for a matrix of costs.

    :math:`C_{ka}` is the cost of the decision a if the label is k. A forecast s leads to the
    decision of least expected cost, :math:`a(s) = \operatorname{argmin}_a \sum_k s_k C_{ka}`, the
    first one if several are tied. The loss is its cost,

    .. math::

        L(y, s) = C_{y\,a(s)}, \qquad H(q) = \min_a \sum_k q_k C_{ka} .

    It is proper, but not strictly: forecasts with the same decision have the same loss. The
    divergence :math:`D(q, s) = \sum_k q_k (C_{k\,a(s)} - C_{k\,a(q)})` is the regret: the cost of
    the wrong decision minus that of the right one. So the calibration error is the cost that
    recalibration would save, and the grouping loss the cost that a better model of the same
    calibrated scores would save (Perez-Lebel and others, AISTATS 2025). The range and the units are
    those of the costs.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_decisions)
        The costs: a row for each class, a column for each decision. At most 1e100 in size.

    See Also
    --------
    Elementary : Two classes and two decisions, by their threshold.
    skcalib.decision_regret : The parts of the cost with intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import DecisionCost
    >>> score = DecisionCost([[0, 1], [10, 2]])  # healthy, ill; leave, treat
    >>> forecast = np.array([[0.95, 0.05], [0.8, 0.2]])
    >>> score.decisions(forecast)
    array([0, 1])
    >>> score.loss(np.eye(2)[[1, 1]], forecast)
    array([10.,  2.])
    """

    strictly_proper = False

    def __init__(self, costs: ArrayLike) -> None:
        matrix = _numbers(costs)
        if matrix.ndim != 2 or min(matrix.shape) < 2 or not np.isfinite(matrix).all():
            raise ValueError(
                "costs must be a matrix of finite numbers with a row for each class and a column "
                f"for each decision, at least two of each; got {shown(costs)}."
            )
        if np.abs(matrix).max() > _LARGEST:
            raise ValueError(
                f"costs must be at most {_LARGEST:g} in size, got {shown(costs)}: use a "
                "larger unit."
            )
        self.costs = tuple(map(tuple, matrix.tolist()))
        self.infimum = float(matrix.min())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(costs={[list(row) for row in self.costs]})"

    def decisions(self, forecast: np.ndarray) -> np.ndarray:
        """Number of the decision (column of the costs) for each forecast, shape (n,)."""
        return np.argmax(self._cheapest(forecast), axis=-1)

    def tied(self, forecast: np.ndarray) -> np.ndarray:
        """Whether several decisions have the least expected cost, for each forecast, shape (n,)."""
        return np.sum(self._cheapest(forecast), axis=-1) > 1

    def _cheapest(self, forecast):
        """Which decisions (n, m) have the least expected cost."""
        expected = self._checked(forecast) @ np.array(self.costs)
        least = expected.min(axis=-1, keepdims=True)
        return expected <= least + _TIE * np.abs(self.costs).max()

    def entropy(self, forecast: np.ndarray) -> np.ndarray:
        return np.sum(self.gradient(forecast) * np.asarray(forecast), axis=-1)

    def gradient(self, forecast: np.ndarray) -> np.ndarray:
        return np.array(self.costs).T[self.decisions(forecast)]

    def loss(self, target: ArrayLike, forecast: ArrayLike) -> np.ndarray:
        target, forecast = _arrays(target, forecast)
        return np.sum(self.gradient(forecast) * target, axis=-1)

    def loss_gradient(self, target: np.ndarray, forecast: np.ndarray) -> np.ndarray:
        return np.zeros(np.broadcast_shapes(np.shape(target), np.shape(forecast)))

    def _checked(self, forecast):
        forecast = np.asarray(forecast)
        if forecast.shape[-1] != len(self.costs):
            raise ValueError(
                f"{self!r} is for {len(self.costs)} classes, but the forecasts have "
                f"{forecast.shape[-1]}: pass costs with a row for each class, or for an event of "
                "several classes notion='top_label' or 'classwise'."
            )
        return forecast


class Elementary(DecisionCost):
    r"""Elementary score: the cost of acting where the probability exceeds a threshold t.

    With the probability p of the event, the last of two columns (Ehm, Gneiting, Jordan and Krueger,
    2016, doi:10.1111/rssb.12154),

    .. math::

        L_t(y, p) = t\,(1 - y)\,1[p > t] + (1 - t)\,y\,1[p \le t] , \qquad
        H_t(q) = \min(t (1 - q), (1 - t) q) .

    A false alarm costs t and a miss 1 - t. So t is the cost of a false alarm divided by the sum of
    both costs, and the score is in units of this sum. Every proper score of two classes is a
    mixture of elementary scores, by a measure of thresholds that may be infinite (log loss). The
    density 2 gives the Brier score. It is proper, but not strictly. Range [0, max(t, 1 - t)].

    Parameters
    ----------
    threshold : float
        The threshold, between 0 and 1.

    See Also
    --------
    DecisionCost : Any matrix of costs.
    skcalib.decision_regret : The parts of the cost with intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.scores import Elementary
    >>> forecast = np.array([[0.8, 0.2], [0.6, 0.4]])
    >>> Elementary(0.3).loss(np.eye(2)[[1, 0]], forecast)
    array([0.7, 0.3])
    """

    def __init__(self, threshold: float) -> None:
        if not (isinstance(threshold, Real) and 0 < threshold < 1) or isinstance(threshold, bool):
            raise ValueError(
                f"threshold must lie strictly between 0 and 1, got {shown(threshold)}."
            )
        self.threshold: float = float(threshold)
        super().__init__([[0.0, self.threshold], [1.0 - self.threshold, 0.0]])

    def __repr__(self) -> str:
        return f"Elementary(threshold={self.threshold})"

    def decisions(self, forecast: np.ndarray) -> np.ndarray:
        """1 where the probability of the event exceeds the threshold, else 0; shape (n,).

        A probability that equals the threshold up to rounding does not exceed it.
        """
        return (self._checked(forecast)[..., 1] > reach_of(np.array(self.threshold))).astype(
            np.intp
        )


#: Scores by the names that arguments accept.
SCORES = {"brier": Brier, "log": LogLoss, "spherical": Spherical, "rps": RankedProbability}


# --- Scores and methods by name -------------------------------------------------------------------

METHODS = ("auto", "risk", "direct", "cross")
LossLike: TypeAlias = Literal["brier", "log", "spherical", "rps"] | ProperScore


def resolve_loss(loss: LossLike) -> ProperScore:
    """A proper score for class probabilities."""
    score = look_up(loss, SCORES, "loss", kind=ProperScore)
    if score.domain != "simplex":
        raise ValueError(
            f"{score!r} scores means and variances, not class probabilities: use 'brier', 'log', "
            "'spherical', 'rps' or a ProperScore on the simplex."
        )
    return score


def resolve_training_loss(loss: LossLike) -> ProperScore:
    """A proper score by which a map can be fitted."""
    score = resolve_loss(loss)
    if not score.strictly_proper:
        raise ValueError(
            f"{score!r} is the same for all forecasts with the same decision, so no map can be "
            "fitted by it: fit with loss='log' or 'brier', and evaluate the decisions afterwards."
        )
    return score


def resolve_method(method, score):
    """The method with a smoother: "auto" is "cross" if the score supports it, else "risk"."""
    look_up(method, METHODS, "method")
    if method == "auto":
        return "cross" if score.separable else "risk"
    if method == "cross" and not score.separable:
        raise ValueError(
            "method='cross' needs a score that is a multiple of the squared distance, such as "
            f"'brier'; {score!r} is not: use method='risk'."
        )
    return method


def weighted_mean(values: np.ndarray, weight: np.ndarray | None = None) -> Any:
    """Mean of `values` along the first axis; infinite values give an infinite mean."""
    if weight is None:
        return np.mean(values, axis=0)
    return np.tensordot(weight / np.sum(weight), values, axes=1)


def expected_divergence(
    score: Divergence, target: np.ndarray, forecast: np.ndarray, weight: np.ndarray | None = None
) -> float:
    r"""Mean divergence of a forecast from its target, :math:`\sum_i w_i D(t_i, f_i) / \sum_i w_i`.

    Both are points of the tower (n, K). Infinite where the divergence is.
    """
    return float(weighted_mean(score.divergence(target, forecast), weight))


def weighted_quantile(values: np.ndarray, weight: np.ndarray, level: float) -> float:
    """The smallest value with at least the share `level` of the weight at or below it."""
    order = np.argsort(values)
    share = np.cumsum(weight[order])
    # The factor admits shares that are below the level by rounding only.
    rank = np.searchsorted(share, level * share[-1] * (1 - 1e-12))
    return values[order[rank]]
