r"""Affine maps of the logits: vector, matrix and Dirichlet scaling.

Each is written as one common slope plus deviations, :math:`W = \beta I + M`, so that *structured*
shrinkage pulls the deviations and the biases to zero and leaves the temperature free: with few
samples the map is temperature scaling, with many it is itself. Stiffness is in units of what a
parameter does to a logit: that of a slope is the mean square of the logits that it multiplies.
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
