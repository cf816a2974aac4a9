"""Distances between a target and a forecast; those that are no proper score."""

import numpy as np


class Divergence:
    """A distance between a target and a forecast; the base of every score.

    A distance that is no proper score, such as `TotalVariation`, implements `divergence` alone.
    """

    def divergence(self, target, forecast):
        """Distance of each forecast from its target, shape (n,)."""
        raise NotImplementedError

    def __repr__(self):
        arguments = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self):
        return hash((type(self), tuple(vars(self).items())))


class TotalVariation(Divergence):
    r"""Total variation, half of the L1 distance: :math:`\frac12 \sum_k |q_k - s_k|`, in [0, 1].

    For K = 2 it is :math:`|q_1 - s_1|`, the distance of the expected calibration error. It is a
    distance and no proper score.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import TotalVariation
    >>> TotalVariation().divergence(np.array([[0.5, 0.5]]), np.array([[0.2, 0.8]])).round(6)
    array([0.3])
    """

    def divergence(self, target, forecast):
        return 0.5 * np.sum(np.abs(np.asarray(target) - forecast), axis=-1)


class Lp(Divergence):
    r"""The p-th power of the Lp distance, :math:`c \sum_k |q_k - s_k|^p`.

    Halved for K = 2 (:math:`c = 1/2`, else 1), so that the binary distance is :math:`|q - s|^p`.
    ``Lp(2)`` agrees with the divergence of `Brier`. No root is taken.

    Parameters
    ----------
    p : float, default=2
        The power, at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import Lp
    >>> Lp(p=1).divergence(np.array([[0.5, 0.5]]), np.array([[0.2, 0.8]])).round(6)
    array([0.3])
    """

    def __init__(self, p=2):
        if not p >= 1:
            raise ValueError(f"p must be at least 1, got {p!r}.")
        self.p = p

    def divergence(self, target, forecast):
        distance = np.abs(np.asarray(target) - forecast)
        scale = 0.5 if distance.shape[-1] == 2 else 1.0
        return scale * np.sum(distance**self.p, axis=-1)
