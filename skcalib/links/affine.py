r"""Affine maps of the logits, and maps of one logit with few parameters.

Each is written as one common slope plus deviations, :math:`W = \beta I + M`, so that *structured*
shrinkage pulls the deviations and the biases to zero and leaves the temperature free: with few
samples the map is temperature scaling, with many it is itself. Stiffness is in units of what a
parameter does to a logit: that of a slope is the mean square of the logits that it multiplies.

Logits enter as :math:`(\log s_0, \log s_1)` and leave as :math:`(0, \ell)`.
"""

import numpy as np

from skcalib.links._base import Link


class _Affine(Link):
    #: Mean square of the logits of classes in play, weighted by s (1 - s), and of all logits.
    sizes_ = (1.0, 1.0)

    def prepare(self, logits):
        square = np.square(logits)
        forecast = np.exp(logits - logits.max(axis=1, keepdims=True))
        forecast /= forecast.sum(axis=1, keepdims=True)
        play = forecast * (1 - forecast)
        total = play.sum()
        in_play = np.sum(play * square) / total if total > 0 else 0.0
        self.sizes_ = tuple(float(size) if size > 0 else 1.0 for size in (in_play, square.mean()))
        return self


class VectorMap(_Affine):
    """z_k -> (beta + delta_k) z_k + b_k; theta = (beta, delta, b)."""

    def start(self, n_classes):
        return np.append(1.0, np.zeros(2 * n_classes))

    def apply(self, theta, logits):
        delta, bias = np.split(theta[1:], 2)
        return (theta[0] + delta) * logits + bias

    def vjp(self, theta, logits, cotangent):
        by_class = np.sum(cotangent * logits, axis=0)
        return np.concatenate([[by_class.sum()], by_class, cotangent.sum(axis=0)])

    def stiffness(self, n_classes):
        return np.repeat([0.0, self.sizes_[0], 1.0], [1, n_classes, n_classes])

    def injective(self, theta, n_classes):
        # Positive slopes: if the output only shifts, all logits moved one way, and then the
        # forecasts cannot both sum to one unless they are equal.
        slopes = theta[0] + theta[1 : 1 + n_classes]
        return bool(np.all(slopes > 0) or np.all(slopes < 0))

    def preserves_order(self, theta, n_classes):
        deviations = theta[1:].reshape(2, n_classes)
        return bool(theta[0] + deviations[0, 0] > 0 and np.all(np.ptp(deviations, axis=1) == 0))


class MatrixMap(_Affine):
    """z -> (beta I + M) z + b; theta = (beta, M by rows, b)."""

    #: Relative strength of the shrinkage of the diagonal, of the rest of the matrix, and of biases.
    strengths = (1.0, 10.0, 1.0)

    def start(self, n_classes):
        return np.append(1.0, np.zeros(n_classes * (n_classes + 1)))

    def matrix(self, theta, n_classes):
        """The whole matrix beta I + M."""
        deviation = theta[1 : 1 + n_classes**2].reshape(n_classes, n_classes)
        return theta[0] * np.eye(n_classes) + deviation

    def apply(self, theta, logits):
        n_classes = logits.shape[1]
        return logits @ self.matrix(theta, n_classes).T + theta[1 + n_classes**2 :]

    def vjp(self, theta, logits, cotangent):
        slopes = cotangent.T @ logits
        return np.concatenate([[np.trace(slopes)], slopes.ravel(), cotangent.sum(axis=0)])

    def stiffness(self, n_classes):
        diagonal, rest, bias = self.strengths
        matrix = np.full((n_classes, n_classes), rest * self.sizes_[1])
        np.fill_diagonal(matrix, diagonal * self.sizes_[0])
        return np.concatenate([[0.0], matrix.ravel(), np.full(n_classes, bias)])

    def injective(self, theta, n_classes):
        # The output only shifts when the logits move along W^-1 1. Two forecasts cannot differ by
        # such a step if all its components have one sign.
        matrix = self.matrix(theta, n_classes)
        if np.linalg.matrix_rank(matrix) < n_classes:
            return False
        direction = np.linalg.solve(matrix, np.ones(n_classes))
        return bool(np.all(direction > 0) or np.all(direction < 0))

    def preserves_order(self, theta, n_classes):
        deviation = theta[1 : 1 + n_classes**2].reshape(n_classes, n_classes)
        bias = theta[1 + n_classes**2 :]
        alike = np.ptp(bias) == 0 and np.all(deviation == np.diag(np.diag(deviation)))
        slopes = theta[0] + np.diag(deviation)
        return bool(alike and np.ptp(slopes) == 0 and slopes[0] > 0)


class DirichletMap(MatrixMap):
    """As `MatrixMap`; off-diagonal entries and biases alone are shrunk (ODIR)."""

    strengths = (0.0, 1.0, 1.0)


# --- Maps of one logit, for problems of two columns (rest, class) ---------------------------------


class BinaryMap(Link):
    """Base class: linear in its parameters, l = features(logits) @ theta."""

    #: Parameters of the identity map.
    identity = ()

    def features(self, logits):
        """Features (n, P) of logits (n, 2)."""
        raise NotImplementedError

    def start(self, n_classes):
        if n_classes != 2:
            raise ValueError(
                f"{type(self).__name__} maps problems of two columns, got {n_classes} classes."
            )
        return np.array(self.identity)

    def apply(self, theta, logits):
        value = self.features(logits) @ theta
        return np.column_stack([np.zeros(len(value)), value])

    def vjp(self, theta, logits, cotangent):
        return self.features(logits).T @ cotangent[:, 1]


class PlattMap(BinaryMap):
    """l -> slope l + intercept; theta = (slope, intercept)."""

    identity = (1.0, 0.0)

    def features(self, logits):
        return np.column_stack([logits[:, 1] - logits[:, 0], np.ones(len(logits))])

    def injective(self, theta, n_classes):
        return bool(theta[0] != 0)

    def preserves_order(self, theta, n_classes):
        return bool(theta[0] > 0 and theta[1] == 0)


class BetaMap(BinaryMap):
    """l -> a log s_1 - b log s_0 + c with a, b >= 0 (Kull, Silva Filho and Flach 2017).

    `parameters`: "abm" all three; "am" with b = a; "ab" with c = 0.
    """

    def __init__(self, parameters="abm"):
        self.parameters = parameters

    def features(self, logits):
        first, second, one = logits[:, 1], -logits[:, 0], np.ones(len(logits))
        return {
            "abm": np.column_stack([first, second, one]),
            "am": np.column_stack([first + second, one]),
            "ab": np.column_stack([first, second]),
        }[self.parameters]

    @property
    def identity(self):
        return {"abm": (1.0, 1.0, 0.0), "am": (1.0, 0.0), "ab": (1.0, 1.0)}[self.parameters]

    def bounds(self, n_classes):
        slopes = 1 if self.parameters == "am" else 2
        return [(0.0, None)] * slopes + [(None, None)] * self.parameters.count("m")

    def slopes(self, theta):
        """(a, b) in full."""
        return (theta[0], theta[0]) if self.parameters == "am" else (theta[0], theta[1])

    def injective(self, theta, n_classes):
        return bool(max(self.slopes(theta)) > 0)

    def preserves_order(self, theta, n_classes):
        a, b = self.slopes(theta)
        return bool(a == b > 0 and (self.parameters == "ab" or theta[-1] == 0))


class QuadraticMap(BinaryMap):
    """l -> curvature l^2 + slope l + intercept; theta = (slope, intercept, curvature)."""

    identity = (1.0, 0.0, 0.0)

    def features(self, logits):
        value = logits[:, 1] - logits[:, 0]
        return np.column_stack([value, np.ones(len(value)), value**2])

    def stiffness(self, n_classes):
        return np.array([0.0, 0.0, 1.0])

    def injective(self, theta, n_classes):
        # A parabola turns at one point; only a straight line never does.
        return bool(theta[2] == 0 and theta[0] != 0)
