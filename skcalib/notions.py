"""Notions of calibration: one projection step from a problem to the problems that are studied.

A notion maps forecasts and targets of shape (n, K) to one or several problems with their own
columns. Targets may be labels or any conditional expectation of them: the maps are linear in the
target.
"""

import numpy as np


class Notion:
    """Base class of notions: implement `problems`.

    Attributes
    ----------
    reduce : {"mean", "sum"}
        How errors of several problems become one number.

    See Also
    --------
    skcalib.testing.check_notion : The laws that every notion obeys.
    """

    reduce = "mean"

    def problems(self, forecast, target):
        """Yield pairs (forecast, target) of arrays of equal shape (n, columns), columns >= 2."""
        raise NotImplementedError

    def __repr__(self):
        arguments = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({arguments})"


class Canonical(Notion):
    """All classes at once: the whole forecast against the whole label, one problem.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import Canonical
    >>> [forecast.shape for forecast, _ in Canonical().problems(np.eye(3), np.eye(3))]
    [(3, 3)]
    """

    def problems(self, forecast, target):
        yield forecast, target


class Classwise(Notion):
    """Each class against the rest: K problems of two columns (rest, class).

    Parameters
    ----------
    reduce : {"mean", "sum"}, default="mean"
        The mean over classes, each with the binary convention of the score, or their sum.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import Classwise
    >>> forecast = np.array([[0.5, 0.3, 0.2]])
    >>> [p.tolist() for p, _ in Classwise().problems(forecast, forecast)]
    [[[0.5, 0.5]], [[0.7, 0.3]], [[0.8, 0.2]]]
    """

    def __init__(self, reduce="mean"):
        if reduce not in ("mean", "sum"):
            raise ValueError(f"reduce must be 'mean' or 'sum', got {reduce!r}.")
        self.reduce = reduce

    def problems(self, forecast, target):
        rests = _rest(forecast), _rest(target)
        for k in range(forecast.shape[1]):
            yield tuple(
                np.column_stack([rest[:, k], array[:, k]])
                for rest, array in zip(rests, (forecast, target), strict=True)
            )


class TopLabel(Notion):
    """The confidence against being right: one problem of two columns (wrong, right).

    The predicted class is the first one of largest probability.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import TopLabel
    >>> forecast, target = np.array([[0.5, 0.3, 0.2]]), np.array([[0.0, 1.0, 0.0]])
    >>> next(TopLabel().problems(forecast, target))
    (array([[0.5, 0.5]]), array([[1., 0.]]))
    """

    def problems(self, forecast, target):
        top = forecast.argmax(axis=1)[:, None]
        yield tuple(
            np.hstack([np.take_along_axis(a, top, axis=1) for a in (_rest(array), array)])
            for array in (forecast, target)
        )


class TopK(Notion):
    """A calibration lens (W19): the k largest probabilities in decreasing order, and the rest.

    One problem whose columns are "the most likely class is right", "the second is", ..., "none of
    them is". ``TopK(1)`` is `TopLabel` with its columns swapped. With k = K there is no rest.

    Parameters
    ----------
    k : int, default=5
        Number of ranks, at least 1 and at most the number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import TopK
    >>> forecast, target = np.array([[0.1, 0.2, 0.4, 0.3]]), np.array([[0.0, 0.0, 0.0, 1.0]])
    >>> ranked, hit = next(TopK(2).problems(forecast, target))
    >>> ranked.round(6), hit
    (array([[0.4, 0.3, 0.3]]), array([[0., 1., 0.]]))
    """

    def __init__(self, k=5):
        if not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"k must be a whole number of at least 1, got {k!r}.")
        self.k = k

    def problems(self, forecast, target):
        if self.k > forecast.shape[1]:
            raise ValueError(
                f"TopK(k={self.k}) needs at least {self.k} classes, got {forecast.shape[1]}."
            )
        order = np.argsort(-forecast, axis=1, kind="stable")
        yield tuple(self._ranks(np.take_along_axis(a, order, axis=1)) for a in (forecast, target))

    def _ranks(self, ranked):
        if self.k == ranked.shape[1]:
            return ranked
        rest = ranked[:, self.k :].sum(axis=1, keepdims=True)
        return np.hstack([ranked[:, : self.k], rest])


class ClassGroups(Notion):
    """A calibration lens (W19): the probability of groups of classes.

    Parameters
    ----------
    groups : sequence of sequences of int
        Column numbers of each group, disjoint. Classes in no group form one last group.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import ClassGroups
    >>> forecast = np.array([[0.1, 0.2, 0.3, 0.4]])
    >>> next(ClassGroups([[0, 3], [1]]).problems(forecast, forecast))[0]
    array([[0.5, 0.2, 0.3]])
    """

    def __init__(self, groups):
        self.groups = tuple(tuple(int(k) for k in group) for group in groups)
        members = [k for group in self.groups for k in group]
        if not members or not all(self.groups) or len(set(members)) != len(members):
            raise ValueError(
                f"groups must be disjoint, non-empty lists of column numbers, got {groups!r}."
            )

    def problems(self, forecast, target):
        n_classes = forecast.shape[1]
        members = {k for group in self.groups for k in group}
        if min(members) < 0 or max(members) >= n_classes:
            raise ValueError(
                f"groups name columns {sorted(members)}, but the forecast has columns 0 to "
                f"{n_classes - 1}."
            )
        rest = tuple(k for k in range(n_classes) if k not in members)
        groups = [*self.groups, rest] if rest else list(self.groups)
        if len(groups) < 2:
            raise ValueError("groups put all classes into one group: nothing is left to predict.")
        yield tuple(
            np.stack([array[:, list(group)].sum(axis=1) for group in groups], axis=1)
            for array in (forecast, target)
        )


def _rest(array):
    """Sum of all other columns, for each column.

    Summed from both sides: 1 - p would lose a rest of 1e-20 beside a p of 1, and go below zero
    where rounding left a probability above one.
    """
    before, after = np.zeros_like(array), np.zeros_like(array)
    np.cumsum(array[:, :-1], axis=1, out=before[:, 1:])
    np.cumsum(array[:, :0:-1], axis=1, out=after[:, -2::-1])
    return before + after


#: Names at the door; objects inside.
NOTIONS = {"canonical": Canonical, "classwise": Classwise, "top_label": TopLabel}
