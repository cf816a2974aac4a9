r"""Maps of forecasts beyond those that they were fitted to.

A curve is known at the forecasts of the calibration set only. Beyond them a parabola turns round, a
cubic polynomial explodes, and a kernel has no neighbours. `Continuation` replaces a map there by a
line in the logits, whose slope is that of the map at this end, and not negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.special import log_softmax, softmax

from skcalib._util.validation import mean_one
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.scores import weighted_quantile

_ROWS = 1 << 14  # that give the slopes
_OUTER = 0.8  # quantile of the distances from the centre from which forecasts give a slope
_WHOLE, _END = 1.0, 4.0  # prior precisions: of the slope of the whole map, and of that at an end
_LEAST = 1e-12  # probability of the map below which its logarithm has no weight
_SMALLEST = float(np.log(np.finfo(np.float64).tiny))


class Continuation:
    r"""Line in the logits z (n, K), from the last fitted logits on.

    With rows of mean zero, ``centre`` c (K,) is the middle of the range of each fitted logit, and
    ``reach`` r the largest spread :math:`\max_k - \min_k` of a row of z - c. For two classes these
    give the ends of the log odds. A row of a larger spread is moved towards the centre until it has
    the spread r, :math:`z' = c + \tau (z - c)`, and the logits of the map are there

    .. math:: \log g(z') + \beta_k (1 - \tau)(z - c) ,

    where k is the class with the largest z - c, so for two classes the upper or the lower end. The
    slopes :math:`\beta` (K,) are regressions of the logits of the map on z - c, weighted by the
    information about a slope, over the outer fifth of the calibration set. They have a normal prior
    around the slope of the whole map, which itself has one around 1. Negative slopes become 0.

    Forecasts become logits by `log_forecast` with ``limit``.
    """

    limit: float

    def __init__(
        self,
        apply: Callable[[np.ndarray], np.ndarray],
        logits: np.ndarray,
        weight: np.ndarray,
        count: np.ndarray | None = None,
    ) -> None:
        """Learn from logits (n, K) and weights (n,), where `apply` maps logits to forecasts."""
        centred = logits - logits.mean(axis=1, keepdims=True)
        self.centre = (centred.min(axis=0) + centred.max(axis=0)).astype(np.float64) / 2
        self.centre -= self.centre.mean()
        self.reach = float(np.ptp(centred - self.centre, axis=1).max())
        rows = np.linspace(0, len(logits) - 1, min(len(logits), _ROWS)).astype(int)
        distance, proba = centred[rows] - self.centre, apply(logits[rows])
        log = np.log(np.maximum(proba, _LEAST))
        share = mean_one(weight, count)[rows] * (1 - np.sum(proba**2, axis=1)).clip(0)
        log -= log.mean(axis=1, keepdims=True)
        whole = max(_slope(distance, log, share, prior=1.0, precision=_WHOLE), 0.0)
        spread, top = np.ptp(distance, axis=1), distance.argmax(axis=1)
        self.slopes = np.full(logits.shape[1], whole)
        for k in np.unique(top):
            in_class = top == k
            outer = in_class & (
                spread >= weighted_quantile(spread[in_class], weight[rows][in_class], _OUTER)
            )
            slope = _slope(distance[outer], log[outer], share[outer], prior=whole, precision=_END)
            self.slopes[k] = max(slope, 0.0)

    @classmethod
    def of_forecasts(
        cls,
        apply: Callable[[np.ndarray], np.ndarray],
        forecast: np.ndarray,
        weight: np.ndarray,
        count: np.ndarray | None = None,
    ) -> Self:
        """Learn from forecasts (n, K) and weights (n,), where `apply` maps forecasts."""
        limit = detection_limit(forecast)
        logits = log_forecast(forecast, limit)
        continuation = cls(lambda z: apply(softmax(z, axis=1)), logits, weight, count)
        continuation.limit = limit
        return continuation

    def __call__(
        self, apply: Callable[[np.ndarray], np.ndarray], forecast: np.ndarray
    ) -> np.ndarray:
        """The map `apply` of forecasts (n, K), continued."""
        mapped = apply(forecast)
        rows, near, added = self.beyond(log_forecast(forecast, self.limit))
        if len(rows):
            with np.errstate(divide="ignore"):
                mapped[rows] = softmax(np.log(apply(softmax(near, axis=1))) + added, axis=1)
        return mapped

    def beyond(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of the rows beyond the reach, their z', and what is added to the logits there."""
        distance = logits - logits.mean(axis=1, keepdims=True) - self.centre
        spread = np.ptp(distance, axis=1)
        rows = np.flatnonzero(spread > self.reach)
        distance = distance[rows].astype(np.float64)
        share = self.reach / spread[rows, None]
        slope = self.slopes[distance.argmax(axis=1), None]
        near = log_softmax(self.centre + share * distance, axis=1)
        return rows, near, slope * (1 - share) * distance

    def write_logits(self, add: Any, write: Callable[[int], int], x: int) -> int:
        """Add the logits of the map of logits x, continued, where `write` adds those of the map."""
        near, added, inside = self._write(add, x)
        return add("sum", write(_either(add, inside, x, add("log_softmax", near))), added)

    def write_forecasts(self, add: Any, write: Callable[[int], int], x: int) -> int:
        """Add the map of the forecasts x, continued, where `write` adds the map."""
        near, added, inside = self._write(add, add.log(x, self.limit))
        mapped = write(_either(add, inside, x, add("softmax", near)))
        log = add("log", mapped, least=_SMALLEST, far=-1e300)
        return add("softmax", add("sum", log, added))

    def _write(self, add, x):
        """Add z', what is added to the logits of the map, and 1 up to the reach, else 0."""
        n_classes = len(self.centre)
        if n_classes == 2:
            odds, (low, high) = add.logit(x), np.diff(self.centre) + [-self.reach, self.reach]
            near = add("curve", odds, breaks=[low, high], coef=[[low, 0], [low, 1], [high, 0]])
            beyond = [[0, self.slopes[0]], [0, 0], [0, self.slopes[1]]]
            ends = {"breaks": [low, np.nextafter(high, np.inf)]}
            inside = add("curve", odds, **ends, coef=[[0], [1], [0]])
            both = {"coef": [[0, 1]]}
            added = add("curve", odds, breaks=[low, high], coef=beyond)
            return add("matrix", near, **both), add("matrix", added, **both), inside
        mean = np.full((n_classes, n_classes), 1 / n_classes)
        distance = add("scale", add("matrix", x, coef=np.eye(n_classes) - mean), shift=-self.centre)
        ends = []
        for sign in (1.0, -1.0):
            side = add("scale", distance, factor=sign)
            largest = add("product", add("top", side, tolerance=0.0), side)
            ends.append(add("matrix", largest, coef=np.ones((n_classes, 1))))
        spread = add("sum", *ends)
        over = add("curve", spread, breaks=[self.reach], coef=[[0, 0], [0, 1]])
        inside = add("curve", spread, breaks=[np.nextafter(self.reach, np.inf)], coef=[[1], [0]])
        both = add("columns", add("scale", over, factor=0.0, shift=self.reach), over)
        whole = add("scale", both, factor=0.0, shift=[1.0, 0.0])
        parts = add("normalise", both, whole)
        share, excess = (add("matrix", parts, coef=[[1 - k], [k]]) for k in (0, 1))
        near = add("scale", add("product", share, distance), shift=self.centre)
        slopes = add("matrix", add("top", distance, tolerance=0.0), coef=self.slopes[:, None])
        return near, add("product", add("product", excess, slopes), distance), inside


def _either(add, inside, x, otherwise):
    """Add x where `inside` is 1, and otherwise other values."""
    outside = add("scale", inside, factor=-1.0, shift=1.0)
    return add("sum", add("product", inside, x), add("product", outside, otherwise))


def _slope(distance, log, weight, *, prior, precision):
    """Weighted regression of the logits of the map (n, K) on distances, with a normal prior."""
    total = max(weight.sum(), np.finfo(np.float64).tiny)
    x, y = distance - weight @ distance / total, log - weight @ log / total
    product = weight @ np.einsum("ik,ik->i", x, y)
    square = weight @ np.einsum("ik,ik->i", x, x)
    return float((product + precision * prior) / (square + precision))
