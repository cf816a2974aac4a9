"""Sequential test of calibration, valid after every sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skcalib._util.packing import require_arrays
from skcalib._util.parameters import completes_docstrings
from skcalib._util.types import ArrayLike
from skcalib.data.class_columns import ColumnNames
from skcalib.data.notions import refuse_multilabel
from skcalib.kernels import Kernel
from skcalib.monitoring._state import StreamEstimator, write_state
from skcalib.monitoring._streams import (
    Evidence,
    check_alpha,
    check_stream,
    check_unchanged,
    keep_points,
    kept_on_error,
    one_at_a_time,
)
from skcalib.stats.pvalues import CalibrationTest, e_value_test

if TYPE_CHECKING:
    from skcalib.data.notions import NotionLike

_BLOCK = 4096  # samples at a time


@completes_docstrings
class SequentialCalibrationTest(StreamEstimator):
    r"""Sequential test of calibration, whose p-value is valid however often it is inspected.

    If a test for a fixed number of samples is repeated as samples arrive, it rejects calibrated
    forecasts sooner or later. This test controls the probability of a false rejection over all
    times.

    Forecasts :math:`p_t` are made before the labels :math:`y_t`. Under calibration, the label has
    the probability :math:`p_t` given the past. Let :math:`q_{a,t}` be an alternative probability
    that depends on the forecast and on earlier samples. The expectation of its likelihood ratio is
    then 1. So the average over alternatives a with weights :math:`\pi_a`,

    .. math:: e_T = \sum_a \pi_a \prod_{t \le T} \frac{q_{a,t}(y_t)}{p_t(y_t)} ,

    is a test martingale, the *e-value*, and by Ville's inequality

    .. math:: P\bigl(\sup_T e_T \ge 1 / \alpha\bigr) \le \alpha .

    Methods that read the state raise `NotFittedError` before the first sample.

    Parameters
    ----------
    labels : array-like of shape (n_classes,), default=None
        The class of each column of `y_proba`; [negative, positive] for a single column. None is for
        labels 0, 1, ... or False, True.
    notion : {"auto", "top_label", "classwise", "canonical", "cumulative"}, default="auto"
        What is tested. "auto": the positive class of two, else whether the prediction is right.
        "classwise": the average of the e-values of the classes. "cumulative": that of the events
        that an ordered class is at most k. "canonical": all classes at once;
        the average of the e-values of the top label, of powers of all probabilities, and of the
        classes.
    features : "auto", int, callable or Kernel, default="auto"
        The alternatives. Each score always has a shift of the log odds, a slope of the standardised
        logit, and a mixture with a uniform distribution. "auto" adds four sines and cosines of the
        score and two of its rank. A whole number m adds m and half as many. A function
        ``features(score)`` of scores (n,) returns other features of shape (n, J), preferably
        between -1 and 1. A :class:`~skcalib.kernels.Kernel` with a given bandwidth, such as
        ``LaplacianKernel(0.3)``, is for the residuals of earlier samples with similar forecasts, of
        all classes at once.
    alpha : float, default=0.05
        Level: largest probability that calibrated forecasts are ever rejected, at any number of
        samples. It is not the level of an interval, which is ``confidence_level`` elsewhere.

    Attributes
    ----------
    log_e_value_ : float
        Logarithm of the e-value now.
    largest_log_e_value_ : float
        Its maximum over all times.
    pvalue_ : float
        Anytime-valid p-value: one over the largest e-value, at most 1.
    rejected_ : bool
        Whether the e-value has reached :math:`1 / \alpha` at any time.
    rejected_at_ : int or None
        The number of samples at which the e-value first reached it.
    n_samples_seen_ : int
        Number of samples of positive weight.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    label_name_, score_name_ : str or None
        Names of the labels and of a single column of forecasts, if a batch was a named Series or a
        data frame. Batches with other names are refused.
    path_ : ndarray of shape (n_points, 2)
        Number of samples and log e-value, at no more than 2,000 times.

    See Also
    --------
    CalibrationMonitor : Alarms for a change at an unknown time.
    skcalib.displays.MonitorDisplay : The e-value over time as a figure.
    kernel_calibration_test : More powerful for one fixed number of samples.
    skcalib.significance.calibration_e_value : An e-value of samples without an order.

    Notes
    -----
    **Order, delayed labels and batches**: see :ref:`monitoring`. The result is the same for any
    division into batches to the last bit, or up to rounding with a kernel. Two tests cannot be
    merged, but the e-values of *independent* streams may be multiplied: see `to_test`.

    **Duplicated rows** count twice: with every row given twice, half of calibrated streams reject.

    **Weights** are powers of the ratios and must be at most 1: the result is then conservative.

    **Forecasts of 0 and 1.** A label whose forecast was 0 refutes the forecasts, and the e-value is
    then infinite. With a kernel it is not, because its alternatives have probability 0 there, too.

    **Threads** may share one object. Batches are added one at a time, in the order in which the
    threads arrive. Attributes that are read during a `partial_fit` may refer to a part of the
    batch.

    Cost: about 80 alternatives for each score. No samples are stored, except for 50 forecasts with
    a kernel. A million binary forecasts take some seconds.

    References
    ----------
    .. [1] J. Ville. Etude critique de la notion de collectif. 1939.
    .. [2] G. Shafer. Testing by betting. Journal of the Royal Statistical Society A 184, 2021.
    .. [3] A. Ramdas, P. Gruenwald, V. Vovk and G. Shafer. Game-theoretic statistics and safe
       anytime-valid inference. Statistical Science 38, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.monitoring import SequentialCalibrationTest
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=3000)
    >>> y = rng.random(3000) < p**1.3
    >>> test = SequentialCalibrationTest()
    >>> for week in np.split(np.arange(3000), 30):
    ...     _ = test.partial_fit(y[week], p[week])
    >>> test.rejected_, test.evidence().direction
    (True, 'too_high')
    """

    _version = 3
    _form = {"rejected_at": (None, int)}  # noqa: RUF012
    # The arguments of a metric are data, not metadata that a meta-estimator could route.
    __metadata_request__fit = {"y_true": UNUSED, "y_proba": UNUSED}  # noqa: RUF012
    __metadata_request__partial_fit = {"y_true": UNUSED, "y_proba": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        labels: ArrayLike | None = None,
        *,
        notion: NotionLike = "auto",
        features: Literal["auto"] | int | Callable[..., np.ndarray] | Kernel = "auto",
        alpha: float = 0.05,
    ) -> None:
        self.labels = labels
        self.notion = notion
        self.features = features
        self.alpha = alpha

    @one_at_a_time
    def fit(
        self, y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Start again, with these samples.

        Parameters
        ----------
        y_true, y_proba, sample_weight
            As in `partial_fit`.
        """
        fresh = type(self)(**self.get_params(deep=False))
        fresh.partial_fit(y_true, y_proba, sample_weight)
        self.__dict__ = fresh.__dict__
        return self

    @one_at_a_time
    def partial_fit(
        self, y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add samples, in the order in which their labels became known.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probability of the positive class, or of each class, forecast before the labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of at most 1.

        Raises
        ------
        ValueError
            For invalid input or parameters, labels that are unknown or cannot be saved, such as
            dates, weights above 1, labels or a single column of forecasts of another name than
            before, and parameters changed since the first sample. Then none of the samples is
            added.
        """
        check_alpha(self.alpha)
        refuse_multilabel(self.notion, type(self).__name__)
        known = getattr(self, "classes_", None)
        if known is not None:
            check_unchanged(self, self._fitted_parameters)
        problem, weight = check_stream(y_true, y_proba, sample_weight, self.labels, known)
        names = ColumnNames.known_of(self).joined(ColumnNames.of(y_true, y_proba), problem.classes)
        with kept_on_error(self):
            if known is None:
                self._start(problem.classes)
            names.store(self)
            for start in range(0, len(problem.weight), _BLOCK):
                rows = slice(start, start + _BLOCK)
                self._add(problem.take(rows), None if weight is None else weight[rows])
        return self

    def evidence(self) -> Evidence | None:
        """Direction and range of the miscalibration; None with a kernel or before a rejection.

        Returns
        -------
        Evidence or None
            The direction, the range of scores, and the number of samples before the miscalibration
            began.
        """
        check_is_fitted(self)
        return self._streams.evidence() if self.rejected_ else None

    @one_at_a_time
    def to_test(self) -> CalibrationTest:
        r"""The e-value now as a record, for :func:`combine_tests` with those of other streams.

        Returns
        -------
        CalibrationTest
            ``e_value`` is that of the samples so far, at most 1.8e308 unless it is infinite.
            ``pvalue`` is min(1, 1 / e), which is also valid at a time that was chosen because of
            the samples so far. The maximum over time, from which `pvalue_` is computed, is not an
            e-value. ``statistic`` is log e, and ``estimate`` log e over the number of samples, in
            nats.
        """
        check_is_fitted(self)
        log_e_value = self.log_e_value_
        return e_value_test(
            log_e_value, log_e_value / self.n_samples_seen_, f"stream, {self.notion}"
        )

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """The state as bytes, for `from_bytes`; contains no pickle.

        Returns
        -------
        bytes
            The text ``skcalib-SequentialCalibrationTest``, a header in JSON, arrays and a check
            sum; :ref:`formats` defines all of them.
        """
        check_is_fitted(self)
        values = np.array([self.log_e_value_, self.largest_log_e_value_])
        own = {"rejected_at": self.rejected_at_}
        return write_state(self, own, {"values": values}, [])

    def _start(self, classes: np.ndarray) -> None:
        super()._start(classes)
        self.log_e_value_ = self.largest_log_e_value_ = 0.0
        self.rejected_ = False
        self.rejected_at_: int | None = None

    def _restore(self, own, arrays, blobs):
        require_arrays(arrays, {"values": np.zeros(2)})
        self.log_e_value_, self.largest_log_e_value_ = arrays["values"].tolist()
        self.pvalue_ = float(np.exp(-self.largest_log_e_value_))
        self.rejected_at_ = own["rejected_at"]
        self.rejected_ = self.rejected_at_ is not None

    def _add(self, problem, weight):
        path = self._streams.average(self._streams.advance(problem, weight))
        first = self.n_samples_seen_ + 1
        self.n_samples_seen_ += len(path)
        self._step, self._points = keep_points(self._step, self._points, first, path)
        self.log_e_value_ = float(path[-1])
        self.largest_log_e_value_ = max(self.largest_log_e_value_, float(path.max()))
        self.pvalue_ = float(np.exp(-self.largest_log_e_value_))
        above = np.flatnonzero(path >= -np.log(float(self.alpha)))
        if len(above) and not self.rejected_:
            self.rejected_, self.rejected_at_ = True, int(first + above[0])

    @property
    def path_(self) -> np.ndarray:
        """Number of samples and log e-value, at no more than about 2,000 times."""
        check_is_fitted(self, "classes_")
        last = (self.n_samples_seen_, self.log_e_value_)
        points = self._points if self._points[-1:] == [last] else [*self._points, last]
        return np.array([(0, 0.0), *points])
