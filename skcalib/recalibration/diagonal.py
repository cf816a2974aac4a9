"""Diagonal order-preserving scaling: one increasing function of every log-probability."""

import numpy as np

from skcalib.links import MonotoneNetwork, MonotonePieces
from skcalib.recalibration._linked import LinkRecalibrator


class DiagonalOrderPreserving(LinkRecalibrator):
    r"""Diagonal intra order-preserving map (DIAG; Rahimi and others 2020): one g for every logit.

    :math:`softmax(g(\log s_1), \dots, g(\log s_K))` with one increasing function g, the integral of
    a positive function. The fit starts at the optimal temperature and never ends above its training
    loss. Injective; keeps the order of the classes, always.

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
        Strength, in samples, of the pull of the network's parameters towards temperature scaling.
        "auto" chooses it by cross-validation, as for `VectorScaling`.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        Stop where no component of the gradient is larger.
    random_state : int, default=0
        Draws the first layers of the network.

    Attributes
    ----------
    n_iter_ : int
        Iterations.

    Examples
    --------
    >>> from skcalib import DiagonalOrderPreserving
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(500, 3, random_state=0)
    >>> scaling = DiagonalOrderPreserving().fit(data.y_proba, data.y)
    >>> bool((scaling.predict(data.y_proba) == data.y_proba.argmax(axis=1)).all())
    True
    """

    _rounding = 1e-9  # a network has long valleys, which are worth nothing out of sample

    def __init__(
        self,
        *,
        input="proba",
        loss="log",
        labels=None,
        variant="network",
        shrinkage=1.0,
        max_iter=1000,
        tol=1e-5,
        random_state=0,
    ):
        self.input = input
        self.loss = loss
        self.labels = labels
        self.variant = variant
        self.shrinkage = shrinkage
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _link(self):
        if self.variant == "network":
            return MonotoneNetwork(seed=self.random_state)
        if self.variant == "pieces":
            return MonotonePieces()
        raise ValueError(f"variant must be 'network' or 'pieces', got {self.variant!r}.")

    def _tempered(self, link, n_classes, beta):
        start = link.start(n_classes)
        return link.straight(start, beta) if self.variant == "network" else start * beta

    def transform_logits(self, logits):
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
