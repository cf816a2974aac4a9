"""Matrix, Dirichlet and diagonal scaling: maps of all logits at once.

`LinkRecalibrator` is the base class, also of `VectorScaling`; it chooses the shrinkage by
cross-validation. The affine maps `MatrixScaling` and `DirichletCalibration` follow, then
`DiagonalOrderPreserving`.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from skcalib._labels import is_one_hot
from skcalib._values import shown
from skcalib.inference import first_within_one_standard_error
from skcalib.links import (
    DirichletMap,
    LinkFit,
    MatrixMap,
    MonotoneNetwork,
    MonotonePieces,
    fit_link,
)
from skcalib.recalibration._base import LogitRecalibrator, softmax_of
from skcalib.recalibration.temperature import (
    fit_temperature,
    warn_at_the_ends,
)
from skcalib.scores import resolve_training_loss
from skcalib.smoothers._base import check_folds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from skcalib.links import Link
    from skcalib.scores import LossLike, ProperScore

LOOSE = 1e-9  # tolerance of the mean loss where strengths are compared: these differ far more
#: Strengths of "auto", in samples, from temperature scaling to very weak shrinkage.
STRENGTHS = (np.inf, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)


class LinkRecalibrator(LogitRecalibrator):
    """Base class: fits a link with shrinkage, starting from the optimal temperature.

    Subclasses implement ``_link()`` and have the parameters ``shrinkage``, ``max_iter``, ``tol``.
    Logits are normalised to log-probabilities, so that the map is a function of forecasts.
    """

    _rounding = 1e-13

    def _link(self):
        raise NotImplementedError

    def _read(self, values):
        logits = super()._read(values).astype(np.float64)
        if self.input == "logits":
            logits = logits - logits.max(axis=1, keepdims=True)
            logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logits

    def _fit_map(self, logits, target, weight):
        score, n_classes = resolve_training_loss(self.loss), target.shape[1]
        self.shrinkage_ = self._strength(score, logits, target, weight)
        self._fitted = self._link().prepare(logits)
        beta, passes = fit_temperature(score, logits, target, weight)
        first = self._tempered(self._fitted, n_classes, beta)
        if np.isinf(self.shrinkage_):
            fit = LinkFit(first, passes, True, "temperature scaling")
        else:
            options = {"max_iter": self.max_iter, "tolerance": self.tol}
            options["rounding"] = self._rounding
            data = logits, target, weight
            fit = self._fit_link(self._fitted, score, *data, self.shrinkage_, first, **options)
        self._take(fit, beta, n_classes)
        hit = np.sum(target * self._apply_map(logits), axis=1)
        self._warn(fit, hit.min() if is_one_hot(target) else 0.0, target.sum(axis=0))

    def _fit_link(self, link, score, logits, target, weight, shrinkage, start, **options):
        """`fit_link`, unless a subclass has a faster way."""
        data = link, score, logits, target, weight
        return fit_link(*data, shrinkage=shrinkage, start=start, **options)

    def _take(self, fit, beta, n_classes):
        """Set the attributes of a fit that started from the inverse temperature beta."""
        self._theta, self.n_iter_ = fit.theta, fit.n_iter
        self.injective_ = self._fitted.injective(self._theta, n_classes)
        self.preserves_order_ = self._fitted.preserves_order(self._theta, n_classes)
        self.preserves_argmax_ = self.preserves_order_
        self._publish(n_classes)
        if beta > 1 or self.preserves_order_:
            warn_at_the_ends(beta)  # other maps can leave an infinite temperature

    def _warn(self, fit, least, counts, remedy="'auto'"):
        """Warn if a parameter tends to infinity, or the fit did not converge."""
        name, kept = type(self).__name__, "the parameters are where the fit stopped, and finite"
        if not fit.converged:
            found = (
                f"{name} stopped after {fit.n_iter} iterations before its loss was minimal "
                f"({fit.message}): {kept}, and no worse than temperature scaling on the "
                "calibration set. Raise max_iter, or shrinkage"
            )
        elif self.shrinkage_ == 0 and least > 0.99:
            found = (
                f"The labels are separable, and the best map of {name} is infinitely steep: {kept}"
            )
        elif self.shrinkage_ == 0 and counts.min() == 0:
            found = f"Some classes have no label, and {name} sends their bias to -infinity: {kept}"
        else:
            return
        warnings.warn(f"{found}. shrinkage={remedy} avoids it.", ConvergenceWarning, stacklevel=5)

    def _tempered(self, link, n_classes, beta):
        """Parameters of temperature scaling."""
        start = link.start(n_classes)
        start[0] = beta
        return start

    def _strength(self, score, logits, target, weight):
        """Shrinkage: as given, or the strongest within one standard error of the best."""
        if not self._is_auto():
            return float(self.shrinkage)
        if len(target) < 10:
            return np.inf
        losses = self._held_out_losses(score, logits, target, weight)
        return STRENGTHS[first_within_one_standard_error(losses, weight)[0]]

    def _is_auto(self):
        return isinstance(self.shrinkage, str) and self.shrinkage == "auto"

    def _held_out_losses(self, score, logits, target, weight):
        """Losses (strengths, n) of five-fold cross-validation, in decreasing order of strength.

        The path ends after two values in a row above the minimum.
        """
        losses, means = [], []
        for held_out in self._losses_by_strength(score, logits, target, weight):
            losses.append(held_out)
            means.append(weight @ held_out)
            if past_minimum(means):
                break
        return np.array(losses)

    def _losses_by_strength(self, score, logits, target, weight):
        """Yield the held-out losses (n,) of each strength.

        Each fit starts from that of the next stronger shrinkage. Folds run in parallel under
        `joblib.parallel_config`.
        """

        def at(rows):
            return logits[rows], target[rows], weight[rows]

        folds = check_folds(5, target, random_state=0)
        paths = Parallel()(delayed(self._path)(score, *at(train)) for train, _ in folds)
        for strength in STRENGTHS:
            steps = Parallel()(
                delayed(self._step)(score, *path, strength, at(train), at(test))
                for path, (train, test) in zip(paths, folds, strict=True)
            )
            held_out = np.empty(len(target))
            for k, (reached, loss) in enumerate(steps):
                paths[k], held_out[folds[k][1]] = (paths[k][0], reached), loss
            yield held_out

    def _path(self, score, logits, target, weight):
        """The link of a fold, and its initial parameters."""
        link = self._link().prepare(logits)
        beta, _ = fit_temperature(score, logits, target, weight)
        return link, self._tempered(link, target.shape[1], beta)

    def _step(self, score, link, start, strength, train, test):
        """Where the next fit of a fold starts, and losses on the held-out samples of the fold."""
        if np.isfinite(strength):
            options = {"max_iter": min(self.max_iter, 100), "tolerance": max(self.tol, 1e-5)}
            found = self._fit_link(link, score, *train, strength, start, rounding=LOOSE, **options)
            start = found.theta
        return start, held_out_loss(score, link, start, test)

    def _publish(self, n_classes):
        """Set the public names of what was fitted."""

    def _apply_map(self, logits):
        return softmax_of(self._fitted.apply(self._theta, logits))


def past_minimum(means: Sequence[float]) -> bool:
    """Whether the last two mean losses are above the minimum."""
    return len(means) > 2 and min(means[-2:]) > min(means)


def held_out_loss(
    score: ProperScore, link: Link, theta: np.ndarray, test: tuple[np.ndarray, ...]
) -> np.ndarray:
    """Losses (m,) of a map on held-out logits, targets and weights."""
    logits, target, _ = test
    return score.logit_loss(target, link.apply(theta, logits))[0]


# --- Affine maps ----------------------------------------------------------------------------------


class MatrixScaling(LinkRecalibrator):
    r"""Matrix scaling: :math:`softmax(W \log s + b)`, with shrinkage towards temperature scaling.

    Written as :math:`W = \beta I + M`; the entries of M and b are shrunk towards zero, in units of
    their effect on a logit, those off the diagonal ten times as strongly. Without shrinkage the
    :math:`K^2` parameters overfit badly. The order of the classes may change; injective where
    :math:`W^{-1} 1` exists and has one sign.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds; logits are turned into log-probabilities first.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What is minimised.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
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
    coef_ : array of shape (n_classes, n_classes)
        The matrix W.
    intercept_ : array of shape (n_classes,)
        Biases b.
    shrinkage_ : float
        The strength in use.
    n_iter_ : int
        Iterations of the last fit.

    See Also
    --------
    VectorScaling : A diagonal matrix.
    DirichletCalibration : The same map, with another penalty.

    Examples
    --------
    >>> from skcalib import MatrixScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> MatrixScaling().fit(data.y_proba, data.y).coef_.shape
    (3, 3)
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

    def _link(self):
        return MatrixMap()

    def _publish(self, n_classes):
        self.coef_ = self._fitted.matrix(self._theta, n_classes)
        self.intercept_ = self._theta[1 + n_classes**2 :]


class DirichletCalibration(MatrixScaling):
    r"""Dirichlet calibration: :math:`softmax(W \log s + b)` with off-diagonal shrinkage (ODIR).

    The map of Kull and others (2019): that of `MatrixScaling` with a free diagonal; off-diagonal
    entries and biases are shrunk towards zero.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds; logits are turned into log-probabilities first.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What is minimised.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
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
    coef_, intercept_, shrinkage_, n_iter_
        As for `MatrixScaling`.

    See Also
    --------
    MatrixScaling : The same map, with another penalty.
    BetaCalibration : The same for two classes.

    Examples
    --------
    >>> from skcalib import DirichletCalibration
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> DirichletCalibration(shrinkage=10).fit(data.y_proba, data.y).shrinkage_
    10.0
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
        super().__init__(
            input=input, loss=loss, labels=labels, shrinkage=shrinkage, max_iter=max_iter, tol=tol
        )

    def _link(self):
        return DirichletMap()


# --- Diagonal maps --------------------------------------------------------------------------------


class DiagonalOrderPreserving(LinkRecalibrator):
    r"""Diagonal intra order-preserving map (DIAG; Rahimi and others 2020): one g for every logit.

    :math:`softmax(g(\log s_1), \dots, g(\log s_K))` with one increasing function g, the integral of
    a positive function. The fit starts at the optimal temperature, and its training loss is never
    larger. Injective; always keeps the order of the classes.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds; logits are turned into log-probabilities first.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What is minimised.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.
    variant : {"network", "pieces"}, default="network"
        g' is the exponential of a small network, or a step function between quantiles of the
        logits, whose fit is convex under the log loss.
    shrinkage : float or "auto", default=1.0
        Strength, in samples, of the shrinkage of the network's parameters towards temperature
        scaling. "auto" chooses it by cross-validation, as for `MatrixScaling`.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        Stop where no component of the gradient is larger.
    random_state : int, default=0
        Seed of the first layers of the network.

    Attributes
    ----------
    n_iter_ : int
        Iterations.

    See Also
    --------
    TemperatureScaling : A linear map that keeps the order, too.

    Examples
    --------
    >>> from skcalib import DiagonalOrderPreserving
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, 3, random_state=0)
    >>> scaling = DiagonalOrderPreserving().fit(data.y_proba, data.y)
    >>> bool((scaling.predict(data.y_proba) == data.y_proba.argmax(axis=1)).all())
    True
    """

    _rounding = 1e-9  # slow progress at the end of a fit has no benefit out of sample

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

    def _check_input(self):
        super()._check_input()
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                "random_state must be a whole number, from which the network is drawn again, got "
                f"{shown(self.random_state)}."
            )

    def _link(self):
        if self.variant == "network":
            return MonotoneNetwork(seed=self.random_state)
        return MonotonePieces()

    def _tempered(self, link, n_classes, beta):
        start = link.start(n_classes)
        return link.straight(start, beta) if self.variant == "network" else start * beta

    def transform_logits(self, logits: ArrayLike) -> np.ndarray:
        """The function g, at any logits.

        Parameters
        ----------
        logits : array-like of any shape
            Logits, or log-probabilities.

        Returns
        -------
        array
            g(logits), of the same shape.
        """
        logits = np.asarray(logits, dtype=np.float64)
        return self._fitted.apply(self._theta, logits.reshape(1, -1)).reshape(logits.shape)
