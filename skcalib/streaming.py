"""Binned errors of forecasts that arrive in chunks or are stored on several machines.

`IncrementalReliability` is the public class. `RunningSums` holds its compensated sums.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skcalib._arguments import resolve_notion
from skcalib._values import shown
from skcalib.cells import add_pairs, check_known_labels, refuse_differences
from skcalib.errors.binned import (
    BinSums,
    check_bins,
    check_options,
    error_of_bins,
    list_bins,
    record_of_bins,
)
from skcalib.events import check_events
from skcalib.notions import Notion

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skcalib._arguments import NotionLike
    from skcalib.errors import ReliabilityBins


#: Held while a chunk is added to the sums, so that threads may share a stream.
ADDING = threading.Lock()


class IncrementalReliability(BaseEstimator):
    r"""Binned errors and reliability bins of a stream, by `partial_fit` and `merge`.

    Stores no samples, only the sums for each bin from which :func:`calibration_error` and
    :func:`reliability_bins` are computed. The results are those of these functions on all
    samples at once, up to rounding errors within chunks of less than 1e-15. Sums over chunks are
    compensated: the number of chunks, their order and the order of merging rarely change a sum, and
    never by more than its last bit.

    Bins must be known before the first sample: of equal width, or with given edges. Edges of equal
    mass depend on all scores: use `ForecastSketch`, which finds them afterwards, or take them from
    a pilot sample and pass them,
    ``n_bins=np.unique(reliability_bins(y0, p0, n_bins=15)[0].edges)``. The edges do not depend on
    labels, so the pilot may be part of the stream; the masses are nearly equal.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        The class of each column of `y_proba`; [negative, positive] for a single column. Needed
        because a chunk may lack a class.
    n_bins : int or array-like of edges, default=15
        Number of bins of equal width, or the edges from 0 to 1, as in
        :func:`calibration_error`.
    notion : {"auto", "top_label", "classwise", "canonical"} or Notion, default="auto"
        As in :func:`calibration_error`; ``Classwise("sum")`` for the sum over classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    edges_ : ndarray of shape (n_bins + 1,)
        Edges of the bins.
    n_samples_seen_ : int
        Number of samples of positive weight.

    See Also
    --------
    ForecastSketch : Bins chosen afterwards, other errors and tests; approximate.
    calibration_error : The same for samples that fit in memory, with bins of equal mass too.
    reliability_bins : The bins of such samples.

    Notes
    -----
    Cost: O(m K) for a chunk of m samples. Memory: ten numbers for each bin and problem, for any
    number of samples. The sums over a chunk are plain float64 sums of at most 2^16 terms at a time.
    As for all metrics, the order of arguments is (y_true, y_proba).

    Examples
    --------
    >>> from skcalib import IncrementalReliability, calibration_error
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(3000, 3, random_state=0)
    >>> one, two = (IncrementalReliability(labels=[0, 1, 2]) for _ in range(2))
    >>> for rows in (slice(0, 1000), slice(1000, 2000)):
    ...     _ = one.partial_fit(data.y[rows], data.y_proba[rows])
    >>> _ = two.partial_fit(data.y[2000:], data.y_proba[2000:])  # on another machine
    >>> stream = one.merge(two)
    >>> round(stream.calibration_error(), 4), stream.n_samples_seen_
    (0.1019, 3000)
    >>> round(calibration_error(data.y, data.y_proba, strategy="uniform", n_bins=15), 4)
    0.1019
    """

    # The arguments of a metric are data, not metadata that a meta-estimator could route.
    __metadata_request__fit = {"y_true": UNUSED, "y_proba": UNUSED}  # noqa: RUF012
    __metadata_request__partial_fit = {"y_true": UNUSED, "y_proba": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        labels: ArrayLike | None = None,
        *,
        n_bins: int | ArrayLike = 15,
        notion: NotionLike = "auto",
    ) -> None:
        self.labels = labels
        self.n_bins = n_bins
        self.notion = notion

    def fit(
        self, y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Reset, and add these samples.

        Parameters
        ----------
        y_true, y_proba, sample_weight
            As in `partial_fit`.

        Returns
        -------
        IncrementalReliability
            The object itself.
        """
        return self._become(self._read(self._plan(), y_true, y_proba, sample_weight))

    def partial_fit(
        self, y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a chunk of samples. Several threads may add chunks to one object.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probability of the positive class, or of each class.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, on one scale for all chunks; samples of a chunk without weights have weight 1.

        Returns
        -------
        IncrementalReliability
            The object itself.

        Raises
        ------
        ValueError
            For invalid input, an empty chunk, a chunk whose weights sum to zero, and parameters
            changed since the first chunk. Previous chunks are kept.
        """
        chunk = self._read(self._plan(), y_true, y_proba, sample_weight)
        with ADDING:
            return self._become(total(self._seen(), chunk))

    def merge(self, other: IncrementalReliability) -> Self:
        """Combine the samples of two objects.

        Parameters
        ----------
        other : IncrementalReliability
            An object with the same labels, edges and notion. An empty one adds nothing.

        Returns
        -------
        IncrementalReliability
            A new object; neither of the two is changed.

        Raises
        ------
        ValueError
            If labels, edges or notions differ.
        """
        if not isinstance(other, IncrementalReliability):
            raise ValueError(
                f"Only another IncrementalReliability can be merged, got {shown(other)}."
            )
        self._plan().refuse_other(other._plan())
        return clone(self)._become(total(self._seen(), other._seen()))

    def calibration_error(
        self,
        *,
        norm: Literal["l1", "l2", "max"] | float = "l1",
        squared: bool = False,
        debiased: bool = False,
    ) -> float:
        """Binned calibration error of all samples so far.

        Parameters
        ----------
        norm, squared, debiased
            As in :func:`~skcalib.calibration_error`.

        Returns
        -------
        float
            The error.

        Raises
        ------
        ValueError
            As in :func:`~skcalib.calibration_error`.
        NotFittedError
            Before the first chunk.
        """
        check_options(norm, squared, debiased)
        check_is_fitted(self)
        sums, notion = self._sums.bins(), self._sums.plan.notion
        return error_of_bins(sums, notion, norm=norm, squared=squared, debiased=debiased)

    def reliability_bins(self) -> list[ReliabilityBins]:
        """Mean score, frequency and mass of each bin, over all samples so far.

        Returns
        -------
        list of ReliabilityBins
            One record for one score at a time, one per class for "classwise".

        Raises
        ------
        NotFittedError
            Before the first chunk.
        """
        check_is_fitted(self)
        return [record_of_bins(one, self._sums.scale) for one in self._sums.bins()]

    def _plan(self):
        """The validated parameters."""
        labels = check_known_labels(self.labels)
        if isinstance(self.n_bins, str):
            raise ValueError(
                f"n_bins must be a whole number or edges, got {shown(self.n_bins)}: the bins of a "
                "stream are fixed before its first sample."
            )
        edges = check_bins(self.n_bins, "uniform", 1)
        return Plan(labels, edges, resolve_notion(self.notion).for_columns(len(labels)))

    def _read(self, plan, y_true, y_proba, sample_weight):
        """Sums over one chunk."""
        events = check_events(
            y_true,
            y_proba,
            plan.notion,
            sample_weight=sample_weight,
            labels=plan.labels,
            remedy="labels",
        )
        bins = list_bins(events, plan.n_bins, "uniform")
        high = np.array([[getattr(one, name) for name in FIELDS] for one in bins])
        return RunningSums(plan, events.n_samples, events.scale, high, np.zeros_like(high))

    def _seen(self):
        """Sums over all samples so far, or None; raises for changed parameters."""
        if hasattr(self, "_sums"):
            self._sums.plan.refuse_other(self._plan())
            return self._sums
        return None

    def _become(self, sums):
        if sums is not None:
            self._sums, self.n_samples_seen_ = sums, sums.n_samples
            self.classes_, self.edges_ = sums.plan.labels, sums.plan.n_bins
        return self


# --- Compensated sums over bins -------------------------------------------------------------------


FIELDS = ("mass", "score", "label", "square_mass", "square_gap")


@dataclass(frozen=True)
class Plan:
    """Parameters that must agree for sums to be added."""

    labels: np.ndarray
    n_bins: np.ndarray
    notion: Notion

    def refuse_other(self, other: Plan) -> None:
        """Raise if a parameter differs, and name it."""
        mine, theirs = self.notion, other.notion
        alike = {
            "labels": self.labels.tolist() == other.labels.tolist(),
            "n_bins": np.array_equal(self.n_bins, other.n_bins),
            "notion": type(mine) is type(theirs) and vars(mine) == vars(theirs),
        }
        refuse_differences(alike)


@dataclass(frozen=True)
class RunningSums:
    """Sums ``high + low`` of shape (problems, fields, bins), of weights divided by ``scale``.

    ``high`` is the sum rounded to float64, and ``low`` is its rounding error: the order of the
    additions rarely changes a sum, and never by more than its last bit, even for 10^9 parts.
    """

    plan: Plan
    n_samples: int
    scale: float
    high: np.ndarray
    low: np.ndarray

    def __add__(self, other: RunningSums) -> RunningSums:
        self.plan.refuse_other(other.plan)
        scale = max(self.scale, other.scale)
        total = add_pairs(self._at(scale), other._at(scale))
        return RunningSums(self.plan, self.n_samples + other.n_samples, scale, *total)

    def _at(self, scale):
        """Sums of weights divided by another power of two, which is exact."""
        factor = self.scale / scale
        powers = np.array([factor**2 if name == "square_mass" else factor for name in FIELDS])
        return self.high * powers[:, None], self.low * powers[:, None]

    def bins(self) -> list[BinSums]:
        """`BinSums` of each problem."""
        return [BinSums(self.plan.n_bins, *rows) for rows in self.high]


def total(one: RunningSums | None, two: RunningSums | None) -> RunningSums | None:
    """The sum of two `RunningSums`, where None is empty."""
    return (one or two) if one is None or two is None else one + two
