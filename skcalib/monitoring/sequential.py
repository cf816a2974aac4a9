"""Sequential test of calibration, valid after every sample, and the base class of streams.

`StreamEstimator`, the base class of the test and of monitors, reads the samples of a stream, and
saves and restores its state as bytes.

An alternative calibration curve maps a forecast p to another probability q. It may depend on
earlier samples, but not on the label of the same sample. Products of the likelihood ratios, sample
by sample, are test martingales, see `SequentialCalibrationTest`. `ScoreAlternatives` are those of
one score at a time, `TemperatureAlternatives` and `KernelAlternatives` those of all classes.
`Streams` has those of all events of a notion, with the weights of their e-values, and describes
them by an `Evidence`.

Sums are taken in the order of the samples, so they do not depend on how these are divided into
batches, to the last bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import ndtr, xlogy
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skcalib import kernels
from skcalib._util.formatting import Record
from skcalib._util.messages import did_you_mean, is_finite, shown
from skcalib._util.packing import json_value, pack, refused, require, require_arrays, unpack
from skcalib._util.parameters import completes_docstrings
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike
from skcalib._util.validation import check_count
from skcalib.data.class_columns import NAMES_FORM, ColumnNames
from skcalib.data.labels import check_class_order, check_label_list, check_y, listed, unique_labels
from skcalib.data.notions import (
    NOTIONS,
    Auto,
    Canonical,
    Classwise,
    Cumulative,
    Notion,
    NotionLike,
    TopLabel,
    refuse_multilabel,
    resolve_notion,
)
from skcalib.data.problem import Problem, check_problem
from skcalib.kernels import Kernel
from skcalib.stats.pvalues import CalibrationTest, e_value_test

_MOST_POINTS = 2000  # of a path
_LEAST_BYTES = 200  # of the state of each class and feature
#: Kernels that a state can name.
_KERNELS = {
    kernel.__name__: kernel
    for kernel in (
        kernels.LaplacianKernel,
        kernels.GaussianKernel,
        kernels.Scaled,
        kernels.Sum,
        kernels.Product,
    )
}
_FORM = {"classes": [object], "n_samples": int, "step": int, "names": NAMES_FORM}


# --- What tests and monitors share ----------------------------------------------------------------


_P = ParamSpec("_P")
_T = TypeVar("_T")
_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_FINDING = threading.Lock()


def serialised(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """A method that waits while another one of them runs on the same object."""

    @wraps(method)
    def waits(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with _FINDING:  # the lock is no part of the state of an object
            lock = _LOCKS.setdefault(args[0], threading.RLock())
        with lock:
            return method(*args, **kwargs)

    return waits


@completes_docstrings
class StreamEstimator(BaseEstimator):
    """Base class of tests and monitors, which can be read from bytes.

    A subclass has ``_value``, the name of the attribute whose path is kept, ``_form``, the form of
    its own header, ``_own_state()``, which returns this header and its own arrays, and
    ``_restore(header, arrays)``, which sets attributes from them.
    """

    _form: dict[str, Any]
    _value: str
    labels: Any
    notion: Any
    features: Any
    alpha: float

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Say which method was probably meant by a name that does not exist."""
            if name.startswith("_") or name.endswith("_"):  # of the state
                return object.__getattribute__(self, name)  # raises
            methods = [method for method in dir(type(self)) if not method.startswith("_")]
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{message}.{did_you_mean(name, methods)}")

    @serialised
    def to_bytes(self) -> bytes:
        """The state as bytes, for `from_bytes`; contains no pickle.

        Returns
        -------
        bytes
            A NumPy archive of a header in JSON and arrays, which :ref:`formats` defines.
        """
        check_is_fitted(self, "classes_")
        header, arrays = self._own_state()
        parameters = self.get_params(deep=False)
        if parameters["labels"] is not None:
            labels = np.asarray(parameters["labels"])
            parameters["labels"] = [json_value(label, "labels") for label in labels]
        kind = type(resolve_notion(parameters["notion"]))
        parameters["notion"] = next(name for name, notion in NOTIONS.items() if notion is kind)
        parameters["features"] = _features(parameters["features"])
        parameters["alpha"] = float(parameters["alpha"])
        parameters = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in parameters.items()
        }
        at, path = (np.array(column) for column in zip(*self._points, strict=True))
        arrays |= {f"stream.{name}": array for name, array in self._streams.arrays().items()}
        header = {
            "parameters": parameters,
            "classes": [json_value(label, "labels") for label in self.classes_],
            "n_samples": self.n_samples_seen_,
            "step": self._step,
            "names": asdict(ColumnNames.known_of(self)),
            "own": header,
        }
        return pack(type(self).__name__, header, {"path_at": at, "path": path, **arrays})

    @classmethod
    def from_bytes(cls, data: bytes, *, features: Callable[..., np.ndarray] | None = None) -> Self:
        """The object that `to_bytes` wrote; it continues as if it had not been interrupted.

        Parameters
        ----------
        data : bytes
            What `to_bytes` returned, on any machine.
        features : callable or Kernel, default=None
            The parameter `features`, if it was a function or a kernel of your own: these are not
            written.

        Returns
        -------
        CalibrationMonitor or SequentialCalibrationTest
            A new object.

        Raises
        ------
        ValueError
            If the bytes are not such a state, are damaged or incomplete, or have another version of
            the format.
        """
        state = f"state of a {cls.__name__}"
        parameters = dict.fromkeys(cls().get_params(), object) | {"labels": (None, [object])}
        form = {**_FORM, "parameters": parameters, "own": cls._form}
        header, arrays = unpack(data, cls.__name__, form)
        arguments, classes = header["parameters"], header["classes"]
        with refused(state):
            size = max(1, arguments["features"] if type(arguments["features"]) is int else 1)
            several = {"canonical": len(classes), "classwise": len(classes)}
            several["cumulative"] = max(1, len(classes) - 1)
            size *= several.get(arguments["notion"], 1)
            require(_LEAST_BYTES * size <= len(data), "the number of alternatives")
            written = _kernel(arguments["features"])
        if written == {} and features is None:
            raise ValueError(
                "The features of this state are a function, which cannot be written: pass it "
                f"again, {cls.__name__}.from_bytes(data, features=function)."
            )
        if written != {} and features is not None:
            raise ValueError(f"The state has features={written!r}: leave out features.")
        estimator = cls(**arguments | {"features": features if written == {} else written})
        with refused(
            state, " A function for features must be the one with which the state was made."
        ):
            estimator._start(check_label_list(classes))
            require(arguments["labels"] in (None, classes), "labels")
            check_alpha(estimator.alpha)
            estimator._read_path(header, arrays.pop("path_at"), arrays.pop("path"))
            streams = select(arrays, "stream.")
            estimator._streams.restore(streams)
            seen = {stream.alternatives.n_seen for stream in estimator._streams.streams}
            require(seen == {estimator.n_samples_seen_}, "n_samples or step")
            own_arrays = {
                name: array for name, array in arrays.items() if not name.startswith("stream.")
            }
            estimator._restore(header["own"], own_arrays)
            ColumnNames(**header["names"]).store(estimator)
        return estimator

    def _start(self, classes: np.ndarray) -> None:
        json_value(tuple(classes), "labels")
        self._streams = Streams(self.notion, self.features, classes)
        self._fitted_parameters = self.get_params(deep=False)
        self.classes_, self.n_samples_seen_ = classes, 0
        self._step = 1
        self._points: list[tuple[int, float]] = []

    def _read_path(self, header, at, path):
        n_samples, step = header["n_samples"], header["step"]
        require(n_samples > 0 < step, "n_samples or step")
        rising = np.all(np.diff(at, prepend=0, append=n_samples + 1) > 0)
        require(rising and at.shape == path.shape and not np.isnan(path).any(), "the path")
        self.n_samples_seen_, self._step = n_samples, step
        self._points = list(zip(at.tolist(), path.tolist(), strict=True))

    def _read_samples(self, y_true, y_proba, sample_weight):
        """Samples -> `Problem`, weights of at most 1 or None, and the names of the columns."""
        check_alpha(self.alpha)
        refuse_multilabel(self.notion, type(self).__name__)
        classes = getattr(self, "classes_", None)
        if classes is None:
            classes = _known_labels(y_true, y_proba, self.labels)
        for name, before in getattr(self, "_fitted_parameters", {}).items():
            value = getattr(self, name)
            if value is not before and not np.array_equal(value, before):
                raise ValueError(
                    f"{name} has changed from {shown(before)} to {shown(value)} since the first "
                    f"sample: set it back, or make a new {type(self).__name__}."
                )
        problem = check_problem(y_true, y_proba, None, sample_weight, classes, remedy="labels")
        weight = None if sample_weight is None else problem.weight
        if weight is not None and weight.max() > 1:
            raise ValueError(
                f"Weights must be at most 1 here, got {weight.max():.3g}: divide all weights of "
                "the stream by the largest possible one."
            )
        names = ColumnNames.of(y_true, y_proba)
        return problem, weight, ColumnNames.known_of(self).joined(names, problem.classes)

    @contextmanager
    def _adding(self, classes: np.ndarray, names: ColumnNames) -> Iterator[None]:
        """Start with the first samples; an error restores the state before.

        No array is changed in place.
        """
        before = vars(self).copy()
        arrays = before["_streams"].arrays() if "_streams" in before else None
        try:
            if arrays is None:
                self._start(classes)
            names.store(self)
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            if arrays is not None:
                before["_streams"].restore(arrays)
            raise

    def _keep_points(self, first: int, path: np.ndarray) -> None:
        """Keep the points of a path at multiples of a step, which doubles when they are too many.

        `path` has the values at the numbers of samples from `first` on.
        """
        number = first + np.arange(len(path))
        is_kept = number % self._step == 0
        new = zip(number[is_kept].tolist(), path[is_kept].tolist(), strict=True)
        self._points = [*self._points, *new]
        while len(self._points) > _MOST_POINTS:
            self._step *= 2
            self._points = [point for point in self._points if point[0] % self._step == 0]

    def _path(self) -> list[tuple[int, float]]:
        """The points, of which the last is that of now."""
        check_is_fitted(self, "classes_")
        last = (self.n_samples_seen_, getattr(self, self._value))
        return self._points if self._points[-1:] == [last] else [*self._points, last]


def _known_labels(y_true, y_proba, labels):
    """The classes of all samples, of which the first ones may lack some."""
    if labels is not None:
        return check_label_list(labels)
    y, n_columns = check_y(y_true), 1 if np.ndim(y_proba) < 2 else np.shape(y_proba)[1]
    numbered = np.arange(max(n_columns, 2))
    if y.dtype.kind == "b" and len(numbered) == 2:
        return np.array([False, True])
    if y.dtype.kind not in "iuf" or not np.isin(y, numbered).all():
        raise ValueError(
            "labels must list the classes, because a batch may lack some; the labels here are "
            f"{listed(unique_labels(y).tolist())}. For a single column [negative, positive]."
        )
    return numbered


def check_alpha(alpha: float) -> None:
    """Raise for a level that is not between 0 and 1."""
    if not is_finite(alpha) or not 0 < alpha < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1, got {shown(alpha)}.")


# --- Parameters in JSON ---------------------------------------------------------------------------


def _features(features):
    """ "auto", a whole number, a kernel as a dict, or an empty dict for what must be passed."""
    if isinstance(features, Kernel) and type(features).__name__ in _KERNELS:
        parts: dict[str, Any] = {}
        for field in fields(features):
            part = getattr(features, field.name)
            is_kernel = isinstance(part, Kernel)
            parts[field.name] = _features(part) if is_kernel else json_value(part, field.name)
        return {} if {} in parts.values() else {"class": type(features).__name__, **parts}
    return {} if isinstance(features, Kernel) or callable(features) else features


def _kernel(written):
    if not isinstance(written, dict) or not written:
        return written
    parts: dict[str, Any] = {name: _kernel(part) for name, part in written.items()}
    make: Callable[..., Kernel] = _KERNELS[parts.pop("class")]
    return make(**parts)


# --- The test -------------------------------------------------------------------------------------


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
    calibration_test : More powerful for one fixed number of samples.
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

    _value = "log_e_value_"
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

    @serialised
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

    @serialised
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
        problem, weight, names = self._read_samples(y_true, y_proba, sample_weight)
        with self._adding(problem.classes, names):
            for start in range(0, len(problem.weight), SIZES.feature_rows):
                rows = slice(start, start + SIZES.feature_rows)
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

    @serialised
    def to_test(self) -> CalibrationTest:
        r"""The e-value now as a record, for `combine_tests` with those of other streams.

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

    def _start(self, classes: np.ndarray) -> None:
        super()._start(classes)
        self.log_e_value_ = self.largest_log_e_value_ = 0.0
        self.rejected_ = False
        self.rejected_at_: int | None = None

    def _own_state(self):
        values = np.array([self.log_e_value_, self.largest_log_e_value_])
        return {"rejected_at": self.rejected_at_}, {"values": values}

    def _restore(self, header, arrays):
        require_arrays(arrays, {"values": np.zeros(2)})
        self.log_e_value_, self.largest_log_e_value_ = arrays["values"].tolist()
        self.pvalue_ = float(np.exp(-self.largest_log_e_value_))
        self.rejected_at_ = header["rejected_at"]
        self.rejected_ = self.rejected_at_ is not None

    def _add(self, problem, weight):
        path = self._streams.average(self._streams.advance(problem, weight))
        first = self.n_samples_seen_ + 1
        self.n_samples_seen_ += len(path)
        self._keep_points(first, path)
        self.log_e_value_ = float(path[-1])
        self.largest_log_e_value_ = max(self.largest_log_e_value_, float(path.max()))
        self.pvalue_ = float(np.exp(-self.largest_log_e_value_))
        above = np.flatnonzero(path >= -np.log(float(self.alpha)))
        if len(above) and not self.rejected_:
            self.rejected_, self.rejected_at_ = True, int(first + above[0])

    @property
    def path_(self) -> np.ndarray:
        """Number of samples and log e-value, at no more than about 2,000 times."""
        return np.array([(0, 0.0), *self._path()])


# --- Streams --------------------------------------------------------------------------------------


#: Sizes of the changes of the log odds.
CHANGES = (0.6, 0.3, 0.15)
SIGNED = np.array([sign * size for size in CHANGES for sign in (1.0, -1.0)])
#: Shares of a uniform distribution that is mixed with the forecast.
UNIFORM = (0.1, 0.01)
#: Factors of the logits of all classes.
FACTORS = (0.5, 0.7, 0.85, 1.2, 1.4, 2.0)
HARMONICS = 4  # of the score; half as many of its rank
_TINY = np.finfo(np.float64).tiny
_MOST_LOGIT, _MOST_POSITION = 15.0, 4.0
_HARMONIC_PRIOR = 0.25
N_CELLS = 24  # of the scores, for the range of the largest difference
_MOST_FEATURE = 10  # size of the features of a function
_FIRST, _GROWTH = 50, 1.1


class Alternatives:
    """State shared by all kinds: log likelihood ratios, and where each was lowest.

    ``log_ratio``, ``prior``, ``lowest`` and ``lowest_at`` have shape (A,): the ratios so far, the
    weights of the alternatives, which sum to 1, and the smallest log ratio with the number of
    samples at which it occurred. ``_state`` has the names of all attributes that change.
    """

    _state: tuple[str, ...] = ("log_ratio", "lowest", "lowest_at", "n_seen")
    log_ratio: np.ndarray
    lowest: np.ndarray
    lowest_at: np.ndarray

    def __init__(self, prior: np.ndarray) -> None:
        self.prior = prior / prior.sum()
        self.n_seen = 0
        self.forget()

    def advance(
        self, forecast: np.ndarray, event: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray:
        """Log ratios (n, A) after each of the samples, added to those before."""
        step = self._steps(forecast, event)
        if weight is not None:
            step = weight[:, None] * step
        path = np.cumsum(np.concatenate([self.log_ratio[None], step]), axis=0)[1:]
        smallest = path.min(axis=0)
        lower = smallest < self.lowest
        at = self.n_seen + 1 + path.argmin(axis=0)
        self.lowest = np.where(lower, smallest, self.lowest)
        self.lowest_at = np.where(lower, at, self.lowest_at)
        self.log_ratio = path[-1].copy()
        self.n_seen += len(path)
        return path

    def _steps(self, forecast, event):
        raise NotImplementedError

    def forget(self) -> None:
        """Start again, at a ratio of one."""
        self.log_ratio = np.zeros(len(self.prior))
        self.lowest = np.zeros(len(self.prior))
        self.lowest_at = np.full(len(self.prior), self.n_seen, dtype=np.int64)

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, by name."""
        return {name: np.asarray(getattr(self, name)) for name in self._state}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the state that `arrays` returned; raises for one of other alternatives."""
        known, n_seen = self.arrays(), int(arrays["n_seen"])
        shape = (min(n_seen, _FIRST), *np.shape(known.get("landmarks", 0))[1:])
        known |= {name: np.empty(shape) for name in ("landmarks", "residuals") if name in known}
        require_arrays(arrays, known)
        sums = [array for name, array in arrays.items() if name != "log_ratio"]
        at = arrays["lowest_at"]
        finite = all(np.isfinite(array).all() for array in sums)
        require(finite and ((at >= 0) & (at <= n_seen)).all(), "a sum of a stream")
        require(arrays.get("next_use", n_seen + 1) > n_seen >= 0, "next_use")
        for name, array in arrays.items():
            setattr(self, name, array if array.ndim else int(array))


class ScoreAlternatives(Alternatives):
    r"""Alternatives of the probability of one event.

    The log odds change by :math:`\eta \phi(p)` with the sizes :math:`\eta` of `SIGNED`: a shift
    (:math:`\phi = 1`), a slope (:math:`\phi` is the logit, standardised by the mean and standard
    deviation of the earlier ones), and `harmonics` sines and cosines of p and of its rank. Another
    alternative is a mixture of the forecast with a uniform distribution, which detects forecasts
    close to 0 or 1 that are wrong. `function` returns other features, shape (n, J), in place of
    sines and cosines.
    """

    _state = (*Alternatives._state, "sums", "cells", "lowest_cells")
    cells: np.ndarray
    lowest_cells: np.ndarray

    def __init__(
        self, harmonics: int = HARMONICS, function: Callable[..., np.ndarray] | None = None
    ) -> None:
        self.harmonics, self.function = harmonics, function
        n_features = 2 * (harmonics + harmonics // 2)
        self.kinds = ["shift", "slope"]
        if function is not None:
            n_features = np.asarray(function(np.array([0.5]))).size
        self.kinds += ["curve"] * n_features
        share = np.array([1.0, 1.0] + [_HARMONIC_PRIOR] * n_features)
        prior = np.repeat(share / len(SIGNED), len(SIGNED))
        mixed = np.full(len(UNIFORM), _HARMONIC_PRIOR / len(UNIFORM))
        super().__init__(np.concatenate([prior, mixed]))
        self.sums = np.zeros(2)  # of logits and of their squares

    def advance(
        self, forecast: np.ndarray, event: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray:
        """Log ratios (n, A) after each of the samples, added to those before."""
        path = super().advance(forecast, event, weight)
        place = np.minimum((position_of(forecast) * N_CELLS).astype(np.int64), N_CELLS - 1)
        terms = np.stack([np.ones(len(forecast)), event - forecast, forecast])
        sums, lowest, start = self.cells.copy(), self.lowest_cells.copy(), 0
        number = self.lowest_at - (self.n_seen - len(path))
        for stop in sorted({*number[number > 0].tolist(), len(path)}):
            for row in range(3):  # one by one: the same for all batches
                np.add.at(sums[row], place[start:stop], terms[row, start:stop])
            lowest[number == stop] = sums
            start = stop
        self.cells, self.lowest_cells = sums, lowest
        return path

    def forget(self) -> None:
        """Start again, at a ratio of one."""
        super().forget()
        self.cells = np.zeros((3, N_CELLS))  # of samples, residuals and forecasts
        self.lowest_cells = np.zeros((len(self.prior), 3, N_CELLS))  # at each lowest ratio

    def _steps(self, forecast, event):
        mean, spread = self._moments(forecast)
        features = self.features(forecast, mean, spread)
        tilt = (features[:, :, None] * SIGNED).reshape(len(forecast), -1)
        steps = event[:, None] * tilt - np.log1p(forecast[:, None] * np.expm1(tilt))
        chance = np.where(event, forecast, 1 - forecast)  # of the label
        chance = np.where(chance > 0, np.maximum(chance, _TINY), 0.0)  # 1 / chance is finite
        with np.errstate(divide="ignore"):
            mixed = [np.log1p(share * ((0.5 - chance) / chance)) for share in UNIFORM]
        return np.column_stack([steps, *mixed])

    def _moments(self, forecast):
        """Mean and standard deviation of the earlier logits, at each sample."""
        logit = _logit(forecast)
        sums = np.cumsum(np.vstack([self.sums, np.column_stack([logit, logit**2])]), axis=0)
        earlier, self.sums = sums[:-1], sums[-1]
        count = self.n_seen + np.arange(len(forecast), dtype=np.float64)
        mean = np.where(count > 0, earlier[:, 0] / np.maximum(count, 1), logit)
        # The standard deviation is shrunken towards 2 by four samples.
        variance = (earlier[:, 1] + 16.0) / (count + 4) - mean**2 * (count / (count + 4))
        return mean, np.sqrt(np.maximum(variance, 0.05))

    def features(self, forecast: np.ndarray, mean: Any, spread: Any) -> np.ndarray:
        """Features (n, J) of scores, given the moments of the earlier logits."""
        position = (_logit(forecast) - mean) / spread
        position = np.clip(position, -_MOST_POSITION, _MOST_POSITION)
        columns = [np.ones(len(forecast)), position]
        if self.function is not None:
            return np.column_stack([*columns, self._function_values(forecast)])
        for values, most in ((forecast, self.harmonics), (ndtr(position), self.harmonics // 2)):
            for k in range(1, most + 1):
                columns += [np.sin(2 * np.pi * k * values), np.cos(2 * np.pi * k * values)]
        return np.column_stack(columns)

    def _function_values(self, forecast):
        """Values (n, J) of the function of the user."""
        values = np.asarray(self.function(forecast), dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != len(forecast):
            raise ValueError(
                f"features(score) must return an array of shape ({len(forecast)}, J) for "
                f"{len(forecast)} scores, got shape {values.shape}."
            )
        if not (np.abs(values) <= _MOST_FEATURE).all():
            raise ValueError(
                f"features(score) must return numbers between -{_MOST_FEATURE} and "
                f"{_MOST_FEATURE}, best between -1 and 1."
            )
        values = values.reshape(len(forecast), -1)
        known = (len(self.prior) - len(UNIFORM)) // len(SIGNED) - 2
        if values.shape[1] != known:
            raise ValueError(
                f"features(score) must always return {known} columns, got {values.shape[1]}."
            )
        return values

    def cells_since(self, number: int) -> np.ndarray:
        """Sums (3, N_CELLS) of the samples after an alternative had its lowest ratio."""
        if self.lowest_at[number] == self.n_seen:  # now: of all samples
            return self.cells
        return self.cells - self.lowest_cells[number]

    def worst_range(self, cells: np.ndarray) -> tuple[float, float, float]:
        """The range of scores of the largest deviance: its ends, and the mean residual.

        The deviance is that of the frequency of the event from the mean forecast, in all samples of
        the range whose sums are `cells` (3, N_CELLS).
        """
        largest, worst = -1.0, (0.0, 1.0, 0.0)
        edges = score_of(np.arange(N_CELLS + 1) / N_CELLS)
        for first in range(N_CELLS):
            count, residual, expected = np.cumsum(cells[:, first:], axis=1)
            observed = np.clip(expected + residual, 0, count)
            tiny = 1e-12 * np.maximum(count, 1)  # of an event that was impossible
            deviance = xlogy(observed, observed / np.maximum(expected, tiny)) + xlogy(
                count - observed, (count - observed) / np.maximum(count - expected, tiny)
            )
            last = int(deviance.argmax())
            if deviance[last] > largest:
                largest = float(deviance[last])
                ends = float(edges[first]), float(edges[first + last + 1])
                worst = (*ends, float(residual[last] / max(count[last], 1.0)))
        return worst

    def common_direction(self, cells: np.ndarray) -> str | None:
        """Direction in which low and high scores both err by a standard error; None otherwise."""
        count, residual, expected = cells
        variance = expected * (1 - expected / np.maximum(count, 1))
        below = np.cumsum(count) <= count.sum() / 2
        sides = np.array([[residual[half].sum(), variance[half].sum()] for half in (below, ~below)])
        ratio = sides[:, 0] / np.sqrt(np.maximum(sides[:, 1], _TINY))
        return "too_low" if ratio.min() > 1 else "too_high" if ratio.max() < -1 else None

    def kind_of(self, number: int) -> tuple[str, float]:
        """Kind of an alternative, and the change of the log odds per unit of its feature."""
        place, size = divmod(number, len(SIGNED))
        if place >= len(self.kinds):
            return "uniform", -1.0
        return self.kinds[place], float(SIGNED[size])


class TemperatureAlternatives(Alternatives):
    """Powers of all probabilities, divided by their sum, with the exponents `FACTORS`.

    Forecasts and events have shape (n, K).
    """

    def __init__(self) -> None:
        super().__init__(np.ones(len(FACTORS)))

    def _steps(self, forecast, event):
        with np.errstate(divide="ignore"):
            logs = np.log(forecast)
        log_chance = logs[event]  # of the label
        steps = []
        for factor in FACTORS:
            total = np.log(np.exp(factor * logs).sum(axis=1))
            with np.errstate(invalid="ignore"):
                step = (factor - 1) * log_chance - total
            steps.append(np.where(np.isinf(log_chance), np.inf, step))
        return np.column_stack(steps)


class KernelAlternatives(Alternatives):
    r"""Tilts along the residuals of earlier samples with similar forecasts.

    :math:`q_k \propto p_k \exp(\eta h_k(p))` with :math:`h(p) = \sum_j k(p, z_j) R_j`,
    :math:`R_j = \sum_s k(z_j, p_s) (y_s - p_s)` over earlier samples s and the first 50 forecasts
    z, divided by the largest length at z. Sums are used from fixed numbers of samples on: 50, and
    then ten percent more each time. Forecasts and events have shape (n, K).
    """

    _state = (*Alternatives._state, "landmarks", "residuals", "used", "next_use")

    def __init__(self, kernel: Kernel, n_classes: int) -> None:
        super().__init__(np.ones(len(CHANGES)))
        middle = np.full((1, n_classes), 1 / n_classes)
        try:
            kernel(middle, middle)
        except TypeError:
            raise ValueError(
                f"features must be a kernel whose values are numbers, got {kernel!r}."
            ) from None
        self.kernel = kernel
        self.landmarks = np.empty((0, n_classes))
        self.residuals = np.empty((0, n_classes))  # of the landmarks; then sums around each
        self.used = np.zeros((_FIRST, n_classes))
        self.next_use = _FIRST

    def _steps(self, forecast, event):
        steps, start, at = [], 0, self.n_seen
        while start < len(forecast):
            stop = min(len(forecast), start + self.next_use - at)
            p, hit = forecast[start:stop], event[start:stop]
            step = np.zeros((len(p), len(CHANGES)))
            if at >= _FIRST:
                witness = self.kernel(p, self.landmarks) @ self.used
                for k, size in enumerate(CHANGES):
                    tilt = size * witness
                    mass = (p * np.exp(tilt)).sum(axis=1)
                    step[:, k] = (hit * tilt).sum(axis=1) - np.log(mass)
            steps.append(step)
            self._add(p, hit - p)
            at, start = at + len(p), stop
            if at == self.next_use:
                self._use(at)
        return np.concatenate(steps)

    def _add(self, p, residual):
        if len(self.landmarks) < _FIRST:
            self.landmarks = np.concatenate([self.landmarks, p])
            self.residuals = np.concatenate([self.residuals, residual])
        else:
            self.residuals = self.residuals + self.kernel(self.landmarks, p) @ residual

    def _use(self, at):
        gram = self.kernel(self.landmarks, self.landmarks)
        if at == _FIRST:
            self.residuals = gram @ self.residuals
        length = np.sqrt(np.square(gram @ self.residuals).sum(axis=1).max())
        if length > 0:
            self.used = self.residuals / length
        self.next_use = int(at * _GROWTH)


def position_of(score: np.ndarray) -> np.ndarray:
    """Scores on a scale that is finer near 0 and 1, from 0 to 1."""
    return (1 + np.sqrt(score) - np.sqrt(1 - score)) / 2


def score_of(position: np.ndarray) -> np.ndarray:
    """The score at a position."""
    s = 2 * position - 1
    return (1 + s * np.sqrt(2 - s**2)) / 2


def _logit(forecast):
    with np.errstate(divide="ignore"):
        logit = np.log(forecast) - np.log1p(-forecast)
    return np.clip(logit, -_MOST_LOGIT, _MOST_LOGIT)


# --- All events of a notion -----------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence(Record):
    """Description of the evidence of miscalibration: direction, range of scores, and start.

    Attributes
    ----------
    event : str
        The event: "" for the positive class and the top label, or a class.
    direction : {"too_high", "too_low", "too_extreme", "too_moderate", "uneven"}
        Direction of the miscalibration of the forecasts.
    low, high : float
        Range of scores in which the frequency of the event has the largest deviance from the mean
        forecast, in the samples after `since`.
    difference : float
        Observed frequency minus mean forecast in this range, in the samples after `since`.
    since : int
        Number of samples after which the evidence for the leading alternative began to grow: an
        estimate of where the miscalibration begins.

    See Also
    --------
    skcalib.SequentialCalibrationTest : Makes this record.
    skcalib.monitoring.Alarm : An alarm that has it.
    """

    event: str
    direction: str
    low: float
    high: float
    difference: float
    since: int

    def __str__(self) -> str:
        words = {
            "too_high": "too high",
            "too_low": "too low",
            "too_extreme": "too extreme",
            "too_moderate": "too moderate",
            "uneven": "miscalibrated",
        }
        event = f" for {self.event}" if self.event else ""
        sign = "too low" if self.difference > 0 else "too high"
        where = f"{sign} for scores from {self.low:.2g} to {self.high:.2g}"
        first = words[self.direction]
        said = where if first == sign else f"{first}, most of all {where}"
        return f"Forecasts{event} are {said}, since sample {self.since + 1:,}."


class Streams:
    """The alternatives of all events of a notion, and the weights of their e-values.

    ``streams`` are the single ones and ``prior`` (S,) their weights, which sum to 1.
    """

    def __init__(
        self,
        notion: NotionLike,
        features: Literal["auto"] | int | Callable[..., np.ndarray] | Kernel,
        classes: np.ndarray,
    ) -> None:
        resolved = resolve_notion(notion)
        if not isinstance(resolved, tuple(NOTIONS.values())):
            raise ValueError(
                "notion must be 'auto', 'top_label', 'classwise', 'cumulative' or 'canonical' for "
                f"a stream, got {notion!r}."
            )
        notion = resolved.for_columns(len(classes))
        if notion.ordered:
            check_class_order(classes)
        self.streams = _streams(notion, features, classes)
        self.prior = np.array([stream.prior for stream in self.streams])

    def advance(self, problem: Problem, weight: np.ndarray | None) -> list[np.ndarray]:
        """Log ratios (n, A) of each stream after each of the samples."""
        ratios = []
        for stream in self.streams:
            forecast, event = stream.read(problem)
            ratios.append(stream.alternatives.advance(forecast, event, weight))
        return ratios

    def average(self, values: list[np.ndarray]) -> np.ndarray:
        """Logarithm (n,) of the average of values (n, A) of each stream, given by logarithms."""
        return log_mean(np.column_stack(self._averages(values)), self.prior)

    def evidence(
        self, values: list[np.ndarray] | None = None, leading: tuple[int, int] | None = None
    ) -> Evidence | None:
        """Description of the evidence for the event with the most evidence; None with a kernel.

        `values` are logarithms (A,) for each stream, by default the log ratios. `leading` are the
        numbers of a stream, which is described, and of its alternative, which tells where the
        samples begin. For a temperature the top label is described.
        """
        if values is None:
            values = [stream.alternatives.log_ratio for stream in self.streams]
        scores = [
            k
            for k, stream in enumerate(self.streams)
            if isinstance(stream.alternatives, ScoreAlternatives)
        ]
        if not scores:
            return None
        place, number = (None, None) if leading is None else leading
        if place is None:
            averages = self._averages(values)
            place = max(scores, key=lambda k: averages[k])
        elif place not in scores:
            place, number = scores[0], None
        stream = self.streams[place]
        return _evidence(stream.event, stream.alternatives, values[place], number)

    def leading(self, values: list[np.ndarray]) -> tuple[int, int]:
        """Numbers of the stream with the most evidence and of its largest alternative."""
        place = int(np.argmax(self._averages(values)))
        return place, int(np.argmax(values[place]))

    def _averages(self, values):
        """Logarithm of the average of values (..., A) of each stream."""
        pairs = zip(self.streams, values, strict=True)
        return [log_mean(logs, stream.alternatives.prior) for stream, logs in pairs]

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, by number of the stream and name."""
        return {
            f"{k}.{name}": array
            for k, stream in enumerate(self.streams)
            for name, array in stream.alternatives.arrays().items()
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the state that `arrays` returned."""
        for k, stream in enumerate(self.streams):
            stream.alternatives.restore(select(arrays, f"{k}."))


def select(arrays: dict[str, np.ndarray], start: str) -> dict[str, np.ndarray]:
    """Arrays whose names begin so, under the rest of their names."""
    return {
        name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
    }


@dataclass
class _Stream:
    """Alternatives of one event or of all classes, with the weight of their e-value."""

    prior: float
    event: str
    alternatives: Alternatives
    notion: Any = None  # of one event; None for all columns
    number: int = 0

    def read(self, problem):
        """Scores and events of a score, or forecasts and events of all classes."""
        if self.notion is None:
            return np.clip(np.ascontiguousarray(problem.forecast), 0, 1), problem.target == 1
        pairs = list(self.notion.problems(problem.forecast, problem.target))
        forecast, target = pairs[self.number]
        return np.clip(np.ascontiguousarray(forecast[:, 1]), 0, 1), target[:, 1] == 1

    def terms(self, part, weight):
        """Weights, weighted forecasts and weighted events (n, 3); of all columns the top label."""
        return event_terms(part, weight, self.notion or Auto(), self.number)


def event_terms(
    part: Problem, weight: np.ndarray | None, notion: Notion, number: int = 0
) -> np.ndarray:
    """Weights, weighted forecasts and weighted events (n, 3) of samples, for an event."""
    forecast, target = next(islice(notion.problems(part.forecast, part.target), number, None))
    each = np.ones(len(forecast)) if weight is None else weight
    return np.column_stack([each, each * forecast[:, 1], each * target[:, 1]])


def _streams(notion, features, classes):
    n_classes = len(classes)
    if isinstance(features, Kernel):
        return [_Stream(1.0, "", KernelAlternatives(features, n_classes))]
    options: dict[str, Any] = {"harmonics": HARMONICS}
    if callable(features):
        options = {"harmonics": 0, "function": features}
    elif not isinstance(features, str):
        options = {"harmonics": check_count(features, "features")}
    elif features != "auto":
        raise ValueError(
            "features must be 'auto', a whole number, a function or a Kernel, got "
            f"{shown(features)}."
        )
    if isinstance(notion, Canonical) and n_classes > 2:
        streams = [
            _Stream(1 / 3, "", ScoreAlternatives(**options), TopLabel()),
            _Stream(1 / 3, "", TemperatureAlternatives()),
        ]
        for k, label in enumerate(classes.tolist()):
            alternatives = ScoreAlternatives(harmonics=0)
            streams.append(
                _Stream(1 / (3 * n_classes), f"class {label}", alternatives, Classwise(), k)
            )
        return streams
    if isinstance(notion, (Classwise, Cumulative)):
        events = [columns[-1] for columns in notion.column_names(classes)]
        return [
            _Stream(1 / len(events), event, ScoreAlternatives(**options), notion, k)
            for k, event in enumerate(events)
        ]
    return [_Stream(1.0, "", ScoreAlternatives(**options), notion)]


def log_mean(log_values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Logarithm of the weighted mean of values (..., A) given by their logarithms."""
    largest = log_values.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        scaled = np.exp(log_values - largest)
    mean = largest[..., 0] + np.log((scaled * weight).sum(axis=-1))
    return np.where(np.isinf(largest[..., 0]), largest[..., 0], mean)


def _evidence(event, alternatives, log_values, number):
    """Direction and range of the alternatives, by their posterior weights."""
    log_weight = log_values + np.log(alternatives.prior)
    if np.isfinite(log_weight.max()):
        posterior = np.exp(log_weight - log_weight.max())
    else:  # a label of probability 0
        posterior = (log_weight == np.inf).astype(np.float64)
    posterior /= posterior.sum()
    kinds: dict[str, float] = {}
    names = {"shift": ("too_low", "too_high"), "slope": ("too_moderate", "too_extreme")}
    for k, share in enumerate(posterior):
        kind, size = alternatives.kind_of(k)
        pair = names.get(kind, ("uneven", "uneven") if kind == "curve" else ("", "too_extreme"))
        name = pair[0] if size > 0 else pair[1]
        kinds[name] = kinds.get(name, 0.0) + float(share)
    best = max(kinds, key=lambda name: kinds[name])
    best = best if kinds[best] >= 0.5 else "uneven"
    number = int(log_weight.argmax()) if number is None else number
    cells = alternatives.cells_since(number)
    if best in ("too_extreme", "too_moderate"):
        best = alternatives.common_direction(cells) or best
    low, high, difference = alternatives.worst_range(cells)
    return Evidence(
        event=event,
        direction=best,
        low=low,
        high=high,
        difference=difference,
        since=int(alternatives.lowest_at[number]),
    )
