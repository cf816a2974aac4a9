"""Vector, matrix and Dirichlet scaling: affine maps of the log-probabilities."""

import numpy as np

from skcalib.links import DirichletMap, MatrixMap, VectorMap
from skcalib.recalibration._linked import LinkRecalibrator


class VectorScaling(LinkRecalibrator):
    r"""Vector scaling: :math:`softmax(w \odot \log s + b)`, a slope and a bias for each class.

    Written as :math:`w = \beta + \delta`, with :math:`\delta` and b shrunk towards zero (structured
    shrinkage), so that few samples give temperature scaling. Injective where all slopes are of one
    sign; the order of the classes may change.

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
    coef_ : array of shape (n_classes,)
        Slopes w.
    intercept_ : array of shape (n_classes,)
        Biases b.
    shrinkage_ : float
        The strength in use.
    n_iter_ : int
        Iterations of the last fit.

    Examples
    --------
    >>> from skcalib import VectorScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 3, random_state=0)
    >>> scaling = VectorScaling().fit(data.y_proba, data.y)
    >>> scaling.coef_.shape, scaling.injective_
    ((3,), True)
    """

    def __init__(
        self,
        *,
        input="proba",
        loss="log",
        labels=None,
        shrinkage="auto",
        max_iter=500,
        tol=1e-6,
    ):
        self.input = input
        self.loss = loss
        self.labels = labels
        self.shrinkage = shrinkage
        self.max_iter = max_iter
        self.tol = tol

    def _link(self):
        return VectorMap()

    def _publish(self, n_classes):
        deviation, self.intercept_ = np.split(self._theta[1:], 2)
        self.coef_ = self._theta[0] + deviation


class MatrixScaling(LinkRecalibrator):
    r"""Matrix scaling: :math:`softmax(W \log s + b)`, with shrinkage towards temperature scaling.

    Written as :math:`W = \beta I + M`; the entries of M and b are shrunk towards zero, in units of
    what they do to a logit, those off the diagonal ten times as much. Without shrinkage the
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
        As for `VectorScaling`.
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
        input="proba",
        loss="log",
        labels=None,
        shrinkage="auto",
        max_iter=500,
        tol=1e-6,
    ):
        self.input = input
        self.loss = loss
        self.labels = labels
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
        As for `VectorScaling`.
    max_iter : int, default=500
        Maximum number of iterations.
    tol : float, default=1e-6
        Stop where no component of the gradient is larger.

    Attributes
    ----------
    coef_, intercept_, shrinkage_, n_iter_
        As for `MatrixScaling`.

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
        input="proba",
        loss="log",
        labels=None,
        shrinkage="auto",
        max_iter=500,
        tol=1e-6,
    ):
        super().__init__(
            input=input, loss=loss, labels=labels, shrinkage=shrinkage, max_iter=max_iter, tol=tol
        )

    def _link(self):
        return DirichletMap()
