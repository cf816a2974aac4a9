"""Recalibrators of one probability, class by class: maps of the logit, and smoothers.

`OneVsRestRecalibrator` is the base class. `PlattScaling`, `BetaCalibration` and `QuadraticScaling`
fit a parametric map of the logit; `IsotonicRecalibrator`, `HistogramBinning` and
`KernelRecalibrator` apply a smoother out of sample.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from skcalib._validation import mean_one, number_of_samples
from skcalib._values import shown
from skcalib.links import BetaMap, PlattMap, QuadraticMap, fit_link
from skcalib.links._base import detection_limit, log_forecast
from skcalib.notions import Classwise, rests_and_classes
from skcalib.recalibration._base import Recalibrator, softmax_of
from skcalib.recalibration._sketched import FittedFromSketch
from skcalib.scores import resolve_training_loss
from skcalib.smoothers import DirichletKernel, IsotonicSmoother, QuantileBins, UniformBins
from skcalib.smoothers.partition import interpolate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skcalib._types import Bandwidth, Bins, Strategy
    from skcalib.scores import LossLike


class OneVsRestRecalibrator(Recalibrator):
    """Base class: one map for each class against the rest, and rows divided by their sum.

    For two classes one map of the second column serves both. Subclasses implement
    ``_fit_one(forecast, target, weight)``, which returns a map from forecasts of two columns
    (rest, class) to the probability of the class, and declare for that map ``_one_injective`` and
    ``_one_keeps_order``. Those with `fit_sketch` have a fourth argument, the number of samples in
    each row.
    """

    def _fit_map(self, forecast, target, weight):
        problems = [(f, t, weight) for f, t in Classwise().problems(forecast, target)]
        if len(problems) == 2:
            problems = problems[1:]
        self._fit_problems(problems, stacklevel=5)

    def _learn_rows(self, score, problems):
        rows = [(one.forecast, one.target, one.weight, one.count) for one in problems]
        self._fit_problems(rows, stacklevel=4)
        self.loss_before_ = self.loss_after_ = float("nan")
        if len(rows) == 1:
            self._measure(score, *rows[0][:3])

    def _fit_problems(self, problems, stacklevel):
        """Fit the map of each problem, the arguments of `_fit_one`."""
        self._maps = Parallel()(delayed(self._fit_one)(*one) for one in problems)
        binary = len(self._maps) == 1
        # Beyond two classes the division by the sum mixes the maps: nothing is guaranteed.
        self.injective_ = binary and self._one_injective(self._maps[0])
        self.preserves_order_ = binary and self._one_keeps_order(self._maps[0])
        self.preserves_argmax_ = self.preserves_order_

    def _apply_map(self, forecast):
        problems = [*rests_and_classes(forecast)]
        if len(problems) == 2:
            p = np.clip(self._maps[0](problems[1]), 0.0, 1.0)
            return np.column_stack([1 - p, p])
        maps = zip(self._maps, problems, strict=True)
        answers = Parallel(prefer="threads")(delayed(one)(f) for one, f in maps)
        p = np.clip(np.stack(answers, axis=1), 0.0, 1.0)
        total = p.sum(axis=1, keepdims=True)
        # If every class gets probability 0, the forecast is unchanged.
        return np.where(total > 0, p / np.where(total > 0, total, 1.0), forecast)

    def _fit_one(self, forecast, target, weight):
        raise NotImplementedError

    def _one_injective(self, one):
        return False

    def _one_keeps_order(self, one):
        return False


class BinaryLinkRecalibrator(OneVsRestRecalibrator, FittedFromSketch):
    """Base class: a `BinaryMap` of the logit from ``_link()``, fitted under the loss.

    If the labels are separable, or all the same, the best parameters are infinite. The map is then
    shrunk towards the identity with the weight of a hundredth of a sample. A `ConvergenceWarning`
    is raised, unless it is the map of a class without labels among several classes.

    See Also
    --------
    skcalib.PlattScaling : An example.
    skcalib.testing.check_recalibrator : Checks a new recalibrator.
    """

    #: Weak shrinkage towards the identity, in samples: keeps separable fits finite.
    _weak = 1e-2

    def _link(self):
        raise NotImplementedError

    def _fit_one(self, forecast, target, weight, count=None):
        limit, n_samples = detection_limit(forecast), number_of_samples(weight, count)
        link, score = self._link(), resolve_training_loss(self.loss)
        logits, target = log_forecast(forecast, limit), self._targets(target, weight, count)
        fit = fit_link(link, score, logits, target, weight, tolerance=1e-10)
        separable = not fit.converged or _weakly_determined(link, fit.theta, logits, weight, count)
        if separable:
            softened = _Softened(link, self._weak)
            fit = fit_link(
                softened, score, logits, target, weight, shrinkage=1.0, n_samples=n_samples
            )
        return _LinkMap(link, fit.theta, limit, fit.n_iter, separable)

    def _targets(self, target, weight, count):
        return target

    def _fit_problems(self, problems, stacklevel):
        super()._fit_problems(problems, stacklevel)
        labelled = np.array([target[:, 1].any() for _, target, *_ in problems])
        if len(self._maps) == 1 or labelled.sum() == 1:
            labelled[:] = True
        # No warning for a class without labels among several classes.
        pairs = zip(self._maps, labelled, strict=True)
        separable = sum(one.separable and there for one, there in pairs)
        if separable:
            warnings.warn(
                f"{type(self).__name__}: in {separable} of {len(self._maps)} problems the labels "
                "are separable by the score, or all the same, and the best parameters are "
                f"infinite. The map was shrunk towards the identity with the weight of "
                f"{self._weak:g} samples, which keeps them finite.",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        self.n_iter_ = max(one.n_iter for one in self._maps)
        self._publish(np.array([one.theta for one in self._maps]))

    def _publish(self, theta):
        """Set the public names of what was fitted from parameters (n_maps, P)."""

    def _one_injective(self, one):
        return one.link.injective(one.theta, 2)

    def _one_keeps_order(self, one):
        return one.link.preserves_order(one.theta, 2)


class _LinkMap:
    """A fitted map of two columns to the probability of the second."""

    def __init__(self, link, theta, limit, n_iter, separable):
        self.link, self.theta, self.limit = link, theta, limit
        self.n_iter, self.separable = n_iter, separable

    def __call__(self, forecast):
        return softmax_of(self.link.apply(self.theta, log_forecast(forecast, self.limit)))[:, 1]


class _Softened:
    """A link with weak shrinkage of all parameters towards the identity."""

    def __init__(self, link, strength):
        self._link, self._strength = link, strength

    def stiffness(self, n_classes):
        return np.full(len(self._link.start(n_classes)), self._strength)

    def __getattr__(self, name):
        return getattr(self._link, name)


def _weakly_determined(link, theta, logits, weight, count=None):
    """Whether some direction of the parameters has less information than a weak prior.

    This happens where a linear combination of the features separates the labels, apart from ties:
    the parameters then grow until the fitted probabilities are close to 0 or 1. Directions in
    which the features do not vary are ignored.
    """
    each = np.ones((len(logits), 1)) if count is None else count[:, None]
    features = np.sqrt(each) * link.features(logits)
    basis, sizes, _ = np.linalg.svd(features, full_matrices=False)
    basis = basis[:, sizes > 1e-10 * sizes[0]] * np.sqrt(each.sum() / each)
    p = softmax_of(link.apply(theta, logits))[:, 1]
    spread = p * (1 - p) * mean_one(weight, count)
    information = np.linalg.eigvalsh(basis.T @ (spread[:, None] * basis))
    return bool(information.min(initial=np.inf) < 1e-3)  # no direction for forecasts of 1/2


class PlattScaling(BinaryLinkRecalibrator):
    r"""Platt scaling on logits: :math:`\sigma(a\, logit(s) + b)`, for each class against the rest.

    The map is applied to the *logit*: Platt's map of the probability itself fits worse on most
    tasks. For two classes it is injective if a is not 0. An intercept b that is not 0 may change
    the predicted class.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What is minimised.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
    smooth_targets : bool, default=False
        Platt's targets :math:`(n_+ + 1) / (n_+ + 2)` and :math:`1 / (n_- + 2)` for 1 and 0.

    Attributes
    ----------
    coef_ : array of shape (n_maps,)
        Slopes a; one map for two classes, else one for each class.
    intercept_ : array of shape (n_maps,)
        Intercepts b.
    n_iter_ : int
        Iterations of the longest fit.

    See Also
    --------
    BetaCalibration : One parameter more, for curves that are not logistic.
    TemperatureScaling : One parameter fewer: no shift.

    Examples
    --------
    >>> from skcalib import PlattScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 2, random_state=0)
    >>> PlattScaling().fit(data.y_proba, data.y).coef_.round(1)
    array([0.6])
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        smooth_targets: bool = False,
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.smooth_targets = smooth_targets

    def _link(self):
        return PlattMap()

    def _targets(self, target, weight, count):
        if not self.smooth_targets:
            return target
        counts = mean_one(weight, count) @ target
        high, low = (counts + 1) / (counts + 2), 1 / (counts + 2)
        right = np.where(target[:, 1] == 1, high[1], low[0])
        return np.column_stack([1 - right, right])

    def _publish(self, theta):
        self.coef_, self.intercept_ = theta.T


class BetaCalibration(BinaryLinkRecalibrator):
    r"""Beta calibration: :math:`\sigma(a \log s - b \log(1 - s) + c)` with a, b >= 0 (Kull 2017).

    One map for each class against the rest. The family contains the identity. For two classes the
    map is injective unless a = b = 0.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What is minimised.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
    parameters : {"abm", "am", "ab"}, default="abm"
        All three parameters; b = a; or :math:`c = (a - b) \log 2`, which leaves forecasts of 1/2
        unchanged (m = 1/2 in the paper).

    Attributes
    ----------
    coef_ : array of shape (n_maps, 2)
        a and b of each map.
    intercept_ : array of shape (n_maps,)
        c of each map.
    n_iter_ : int
        Iterations of the longest fit.

    See Also
    --------
    PlattScaling : One parameter fewer.
    QuadraticScaling : Another map of three parameters.

    Examples
    --------
    >>> from skcalib import BetaCalibration
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 2, random_state=0)
    >>> BetaCalibration(parameters="am").fit(data.y_proba, data.y).coef_.round(1)
    array([[0.6, 0.6]])
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        parameters: Literal["abm", "am", "ab"] = "abm",
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.parameters = parameters

    def _link(self):
        return BetaMap(self.parameters)

    def _publish(self, theta):
        link = self._link()
        self.coef_ = np.array([link.slopes(one) for one in theta])
        self.intercept_ = np.array([link.intercept(one) for one in theta])


class QuadraticScaling(BinaryLinkRecalibrator):  # numpydoc ignore=PR02
    r"""Quadratic scaling: :math:`\sigma(a\, l^2 + b\, l + c)` of the logit l, class by class.

    One parameter more than `PlattScaling`, for curved maps. A parabola is not monotone, so the map
    is not injective unless a = 0.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What is minimised.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.

    Attributes
    ----------
    coef_ : array of shape (n_maps, 2)
        b and a of each map: the linear and the quadratic coefficient.
    intercept_ : array of shape (n_maps,)
        c of each map.
    n_iter_ : int
        Iterations of the longest fit.

    See Also
    --------
    PlattScaling : Without the square.
    BetaCalibration : Another map of three parameters.

    Examples
    --------
    >>> from skcalib import QuadraticScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> QuadraticScaling().fit(data.y_proba, data.y).coef_.shape
    (1, 2)
    """

    def _link(self):
        return QuadraticMap()

    def _publish(self, theta):
        self.coef_, self.intercept_ = theta[:, [0, 2]], theta[:, 1]


# --- Smoothers as recalibrators -------------------------------------------------------------------


class SmootherRecalibrator(OneVsRestRecalibrator):
    """Base class: the smoother from ``_smoother()`` for each class against the rest."""

    def _smoother(self):
        raise NotImplementedError

    def _fit_one(self, forecast, target, weight):
        fitted = clone(self._smoother()).fit(forecast, target, weight)
        return _SmootherMap(fitted)


class _SmootherMap:
    """The second column of a smoother's prediction."""

    def __init__(self, smoother):
        self.smoother = smoother

    def __call__(self, forecast):
        return self.smoother.predict(forecast)[:, 1]


class IsotonicRecalibrator(SmootherRecalibrator, FittedFromSketch):
    r"""Isotonic regression of the label on the probability, class by class.

    Plain isotonic regression is constant within its cells, so it is not injective and loses
    sharpness. Its ends are often exactly 0 or 1, so a wrong forecast there has an infinite log
    loss. ``centered=True`` places each level at the mean probability of its cell and interpolates
    (centered isotonic regression). ``strict=True`` also adds a small share of the identity. The map
    is then strictly increasing, injective for two classes, and 0 or 1 only if the forecast is.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in; the fit is least squares.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
    centered : bool, default=False
        Interpolate between the centres of the cells.
    strict : bool, default=False
        Strictly increasing; implies `centered`.

    See Also
    --------
    PlattScaling : Two parameters, for few samples.
    HistogramBinning : A map that is constant in bins.

    Examples
    --------
    >>> from skcalib import IsotonicRecalibrator
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> IsotonicRecalibrator(strict=True).fit(data.y_proba, data.y).injective_
    True
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        centered: bool = False,
        strict: bool = False,
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.centered = centered
        self.strict = strict

    def _fit_one(self, forecast, target, weight, count=None):
        fitted = IsotonicSmoother().fit(forecast, target, weight)
        if not (self.centered or self.strict):
            return _SmootherMap(fitted)
        centres = fitted.cell_means(fitted.forecast_)[:, 1]
        # The identity has the weight of one sample among n + 1.
        blend = 1 / (number_of_samples(weight, count) + 1) if self.strict else 0.0
        return _CentredMap(centres, fitted.level_, blend)

    def _one_injective(self, one):
        return bool(self.strict)


class _CentredMap:
    """Linear interpolation between the centres of isotonic cells, blended with the identity."""

    def __init__(self, centres, levels, blend):
        self.centres, self.levels, self.blend = centres, levels, blend

    def __call__(self, forecast):
        p = forecast[:, 1]
        return (1 - self.blend) * interpolate(p, self.centres, self.levels) + self.blend * p


class HistogramBinning(SmootherRecalibrator, FittedFromSketch):
    r"""Histogram binning: the frequency of the class in the bin of its probability (F24).

    :math:`h(s) = \sum_b \bar y_b 1\{s \in I_b\}`, class by class. Not injective: it depends
    on the forecast only through its bin. A new forecast in a bin without samples gets the
    value of the nearest bin.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
    n_bins : int, "auto" or "cube_root", default=15
        Bins of each probability; for ``strategy="uniform"`` also edges from 0 to 1. As in
        :func:`~skcalib.calibration_error`.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass or equal width.

    See Also
    --------
    IsotonicRecalibrator : An increasing map that finds its own bins.
    skcalib.reliability_bins : The bins as numbers.

    Examples
    --------
    >>> from skcalib import HistogramBinning
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> binning = HistogramBinning(n_bins=5).fit(data.y_proba, data.y)
    >>> len(set(binning.predict_proba(data.y_proba)[:, 1]))
    5
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        n_bins: Bins = 15,
        strategy: Strategy = "quantile",
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.n_bins = n_bins
        self.strategy = strategy

    def _smoother(self):
        bins = {"quantile": QuantileBins, "uniform": UniformBins}
        if not isinstance(self.strategy, str) or self.strategy not in bins:
            raise ValueError(
                f"strategy must be 'quantile' or 'uniform', got {shown(self.strategy)}."
            )
        return bins[self.strategy](self.n_bins)

    def _fit_one(self, forecast, target, weight, count=None):
        return _SmootherMap(clone(self._smoother()).fit_rows(forecast, target, weight, count))


class KernelRecalibrator(SmootherRecalibrator):
    r"""Kernel regression of the label on the probability with a Beta kernel, class by class.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
    bandwidth : {"risk", "loo", "scott"}, float or callable, default="risk"
        As in `DirichletKernel`. "risk" minimises the leave-one-out `loss` of the map.

    See Also
    --------
    HistogramBinning : Bins in place of the kernel.
    skcalib.smoothers.DirichletKernel : The smoother behind it.

    Examples
    --------
    >>> from skcalib import KernelRecalibrator
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(1000, 2, random_state=0)
    >>> kernel = KernelRecalibrator(bandwidth=0.01).fit(data.y_proba, data.y)
    >>> kernel.loss_after_ < kernel.loss_before_
    True
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        bandwidth: Bandwidth = "risk",
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.bandwidth = bandwidth

    def _smoother(self):
        return DirichletKernel(self.bandwidth, loss=self.loss)
