r"""Maps of one logit, for problems of two columns (rest, class).

Logits enter as :math:`(\log s_0, \log s_1)` and leave as :math:`(0, \ell)`.
"""

import numpy as np

from skcalib.links._base import Link


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
