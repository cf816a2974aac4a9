"""Sequential test of calibration, valid after every sample; what it shares with monitors.

`StreamEstimator` reads the samples of a stream, and saves and restores its state as bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import wraps
from typing import Any, Literal, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skcalib import kernels
from skcalib._util.messages import is_finite, shown
from skcalib._util.packing import pack, plain, refused, require, require_arrays, unpack
from skcalib._util.parameters import completes_docstrings
from skcalib._util.types import ArrayLike
from skcalib.data.class_columns import NAMES_FORM, ColumnNames
from skcalib.data.labels import check_label_list, check_y, listed, unique_labels
from skcalib.data.notions import NOTIONS, NotionLike, refuse_multilabel, resolve_notion
from skcalib.data.problem import check_problem
from skcalib.kernels import Kernel
from skcalib.monitoring.streams import Evidence, Streams, select
from skcalib.stats.pvalues import CalibrationTest, e_value_test

BLOCK = 4096  # samples at a time
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


def one_at_a_time(method: Callable[_P, _T]) -> Callable[_P, _T]:
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

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """The state as bytes, for `from_bytes`; contains no pickle.

        Returns
        -------
        bytes
            A NumPy archive of a header in JSON and arrays, which :ref:`formats` defines.
        """
        check_is_fitted(self, "classes_")
        header, arrays = self._own_state()
        at, path = (np.array(column) for column in zip(*self._points, strict=True))
        arrays |= {f"stream.{name}": array for name, array in self._streams.arrays().items()}
        header = {
            "parameters": _parameters(self),
            "classes": [plain(label, "labels") for label in self.classes_],
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
        estimator = cls(**arguments | {"features": _passed(written, features, cls.__name__)})
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
        plain(tuple(classes), "labels")
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
        else:
            self._refuse_changes()
        problem = check_problem(y_true, y_proba, None, sample_weight, classes, remedy="labels")
        weight = None if sample_weight is None else problem.weight
        if weight is not None and weight.max() > 1:
            raise ValueError(
                f"Weights must be at most 1 here, got {weight.max():.3g}: divide all weights of "
                "the stream by the largest possible one."
            )
        names = ColumnNames.of(y_true, y_proba)
        return problem, weight, ColumnNames.known_of(self).joined(names, problem.classes)

    def _refuse_changes(self):
        """Raise for parameters that have changed since the first sample."""
        for name, value in self.get_params(deep=False).items():
            before = self._fitted_parameters[name]
            if value is not before and not np.array_equal(value, before):
                raise ValueError(
                    f"{name} has changed from {shown(before)} to {shown(value)} since the first "
                    f"sample: set it back, or make a new {type(self).__name__}."
                )

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


def _parameters(estimator):
    """The parameters for JSON."""
    parameters = estimator.get_params(deep=False)
    if parameters["labels"] is not None:
        labels = np.asarray(parameters["labels"])
        parameters["labels"] = [plain(label, "labels") for label in labels]
    kind = type(resolve_notion(parameters["notion"]))
    parameters["notion"] = next(name for name, notion in NOTIONS.items() if notion is kind)
    parameters["features"] = _features(parameters["features"])
    parameters["alpha"] = float(parameters["alpha"])
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in parameters.items()
    }


def _features(features):
    """ "auto", a whole number, a kernel as a dict, or an empty dict for what must be passed."""
    if isinstance(features, Kernel) and type(features).__name__ in _KERNELS:
        parts: dict[str, Any] = {}
        for field in fields(features):
            part = getattr(features, field.name)
            is_kernel = isinstance(part, Kernel)
            parts[field.name] = _features(part) if is_kernel else plain(part, field.name)
        return {} if {} in parts.values() else {"class": type(features).__name__, **parts}
    return {} if isinstance(features, Kernel) or callable(features) else features


def _passed(written, features, owner):
    """The features from JSON, or a function or a kernel that could not be written."""
    needed = written == {}
    if needed and features is None:
        raise ValueError(
            "The features of this state are a function, which cannot be written: pass it again, "
            f"{owner}.from_bytes(data, features=function)."
        )
    if not needed and features is not None:
        raise ValueError(f"The state has features={written!r}: leave out features.")
    return features if needed else written


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
        problem, weight, names = self._read_samples(y_true, y_proba, sample_weight)
        with self._adding(problem.classes, names):
            for start in range(0, len(problem.weight), BLOCK):
                rows = slice(start, start + BLOCK)
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
