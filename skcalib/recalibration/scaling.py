"""Matrix, Dirichlet and diagonal scaling: maps of all logits at once.

`LinkRecalibrator` is the base class, also of `VectorScaling`; `ShrinkageSearch` chooses the
shrinkage by cross-validation. The affine maps `MatrixScaling` and `DirichletCalibration` follow,
then `DiagonalOrderPreserving`.
"""

from __future__ import annotations

import warnings
from copy import copy
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from skcalib._labels import is_one_hot
from skcalib._values import shown
from skcalib.clusters import outside_level
from skcalib.inference import first_within_one_standard_error
from skcalib.links import (
    DirichletMap,
    LinkFit,
    MatrixMap,
    MonotoneNetwork,
    MonotonePieces,
    fit_link,
)
from skcalib.recalibration._base import LogitRecalibrator
from skcalib.recalibration.temperature import (
    fit_temperature,
    warn_at_the_ends,
)
from skcalib.smoothers._base import check_folds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

    from skcalib.links import Link
    from skcalib.scores import LossLike, ProperScore

LOOSE = 1e-9  # tolerance of the mean loss where strengths are compared: these differ far more
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
        if self.input == "logits":
            logits = logits - logits.max(axis=1, keepdims=True)
            logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logits

    def _fit_link(self, search, samples):
        """Fit the link of a `ShrinkageSearch`, with the strength that it finds."""
        score, target = samples.score, samples.target
        data = samples.forecast, target, samples.weight
        self.shrinkage_ = search.strength(self.shrinkage, *data)
        link, (beta, passes) = search.prepared(data[0]), fit_temperature(score, *data)
        start = link.tempered(target.shape[1], beta)
        if np.isinf(self.shrinkage_):
            fit = LinkFit(start, passes, True, "temperature scaling")
        else:
            fit = search.fit(link, *data, self.shrinkage_, start)
        self._take(link, fit, beta)
        hit = np.sum(target * self._apply_map(samples.forecast), axis=1)
        self._warn(fit, hit.min() if is_one_hot(target) else 0.0, target.sum(axis=0))

    def _take(self, link, fit, beta):
        """Set the attributes of a fit that started from the inverse temperature beta."""
        n_classes = len(self.classes_)
        self._fitted, self._theta, self.n_iter_ = link, fit.theta, fit.n_iter
        self.injective_ = link.injective(fit.theta, n_classes)
        self.preserves_order_ = link.preserves_order(fit.theta, n_classes)
        self.preserves_argmax_ = self.preserves_order_
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
        message = f"{found}. shrinkage={remedy} avoids it."
        warnings.warn(message, ConvergenceWarning, stacklevel=outside_level())

    def _apply_map(self, logits):
        return softmax(self._fitted.apply(self._theta, logits), axis=1)


class ShrinkageSearch:
    """Fits a link with shrinkage, whose strength five-fold cross-validation may choose.

    Parameters
    ----------
    link : Link
        The map, not prepared, with the method ``tempered``.
    score : ProperScore
        What is minimised.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Stop where no component of the gradient is larger.
    rounding : float, default=1e-13
        Stop where a step lowers the loss by less than this share of it.
    """

    def __init__(
        self,
        link: Any,
        score: ProperScore,
        max_iter: int,
        tol: float,
        rounding: float = 1e-13,
    ) -> None:
        self.link, self.score, self.rounding = link, score, rounding
        self.max_iter, self.tol = max_iter, tol

    def prepared(self, logits: np.ndarray) -> Any:
        """A copy of the link, prepared for logits."""
        return copy(self.link).prepare(logits)

    def fit(
        self,
        link: Any,
        logits: np.ndarray,
        target: np.ndarray,
        weight: np.ndarray,
        strength: float,
        start: np.ndarray,
    ) -> LinkFit:
        """The `LinkFit` with a strength of the shrinkage, from the parameters `start`."""
        data = link, self.score, logits, target, weight
        options: dict[str, Any] = {"max_iter": self.max_iter, "tolerance": self.tol}
        options |= {"shrinkage": strength, "start": start, "rounding": self.rounding}
        return fit_link(*data, **options)

    def strength(
        self,
        shrinkage: float | str,
        logits: np.ndarray,
        target: np.ndarray,
        weight: np.ndarray,
    ) -> float:
        """Shrinkage: as given, or the strongest within one standard error of the best."""
        if not is_auto(shrinkage):
            return float(shrinkage)
        if len(target) < 10:
            return np.inf
        losses, means = [], []
        for held_out in self.losses_by_strength(logits, target, weight):
            losses.append(held_out)
            means.append(weight @ held_out)
            if past_minimum(means):
                break
        return STRENGTHS[first_within_one_standard_error(np.array(losses), weight)[0]]

    def losses_by_strength(
        self, logits: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Yield the held-out losses (n,) of each strength, in decreasing order.

        Each fit starts from that of the next stronger shrinkage. Folds run in parallel under
        `joblib.parallel_config`.
        """

        def at(rows):
            """Some rows of the data."""
            return logits[rows], target[rows], weight[rows]

        folds = check_folds(5, target, random_state=0)
        paths = Parallel()(delayed(self.path)(*at(train)) for train, _ in folds)
        for strength in STRENGTHS:
            steps = Parallel()(
                delayed(self.step)(*path, strength, at(train), at(test))
                for path, (train, test) in zip(paths, folds, strict=True)
            )
            held_out = np.empty(len(target))
            for k, (reached, loss) in enumerate(steps):
                paths[k], held_out[folds[k][1]] = (paths[k][0], reached), loss
            yield held_out

    def path(
        self, logits: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> tuple[Any, np.ndarray]:
        """The link of a fold, and its initial parameters."""
        link, (beta, _) = self.prepared(logits), fit_temperature(self.score, logits, target, weight)
        return link, link.tempered(target.shape[1], beta)

    def step(
        self,
        link: Any,
        start: Any,
        strength: float,
        train: tuple[np.ndarray, np.ndarray, np.ndarray],
        test: tuple[np.ndarray, ...],
    ) -> tuple[Any, np.ndarray]:
        """Where the next fit of a fold starts, and losses on the held-out samples of the fold."""
        if np.isfinite(strength):
            loose = copy(self)
            loose.max_iter, loose.tol = min(self.max_iter, 100), max(self.tol, 1e-5)
            loose.rounding = LOOSE
            start = loose.fit(link, *train, strength, start).theta
        return start, held_out_loss(self.score, link, start, test)


def is_auto(shrinkage: float | str) -> bool:
    """Whether the strength is chosen by cross-validation."""
    return isinstance(shrinkage, str) and shrinkage == "auto"


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

    def _fit_map(self, samples):
        self._fit_matrix(MatrixMap(), samples)

    def _fit_matrix(self, link, samples):
        self._fit_link(ShrinkageSearch(link, samples.score, self.max_iter, self.tol), samples)
        n_classes = len(self.classes_)
        self.coef_ = self._fitted.matrix(self._theta, n_classes)
        self.intercept_ = self._theta[1 + n_classes**2 :]


class DirichletCalibration(MatrixScaling):
    r"""Dirichlet calibration: :math:`softmax(W \log s + b)` with off-diagonal shrinkage (ODIR).

    The map of Kull and others (2019): that of `MatrixScaling` with a free diagonal; off-diagonal
    entries and biases are shrunk towards zero.

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

    def _fit_map(self, samples):
        self._fit_matrix(DirichletMap(), samples)


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
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                "random_state must be a whole number, from which the network is drawn again, got "
                f"{shown(self.random_state)}."
            )

    def _fit_map(self, samples):
        network = self.variant == "network"
        link = MonotoneNetwork(seed=self.random_state) if network else MonotonePieces()
        # Slow progress at the end of a fit has no benefit out of sample.
        search = ShrinkageSearch(link, samples.score, self.max_iter, self.tol, rounding=1e-9)
        self._fit_link(search, samples)

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
