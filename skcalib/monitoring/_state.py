"""The state of a test or a monitor as bytes, and back, to the last bit; their base class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from skcalib import kernels
from skcalib._util.packing import plain, read_arrays, refused, require, seal, unseal, write_arrays
from skcalib._util.parameters import completes_docstrings
from skcalib.data.class_columns import NAMES_FORM, ColumnNames
from skcalib.data.labels import check_label_list
from skcalib.data.notions import NOTIONS, resolve_notion
from skcalib.kernels import Kernel
from skcalib.monitoring._streams import Streams, check_alpha

_KERNELS = {
    one.__name__: one
    for one in (
        kernels.LaplacianKernel,
        kernels.GaussianKernel,
        kernels.Scaled,
        kernels.Sum,
        kernels.Product,
    )
}

_FORM = {
    "classes": [object],
    "n_samples": int,
    "step": int,
    "arrays": [[(str, [int])]],
    "blobs": [int],
}
_LEAST_BYTES = 200  # of the state of each class and feature


@completes_docstrings
class StreamEstimator(BaseEstimator):
    """Base class of tests and monitors, which can be read from bytes.

    A subclass has ``_version``, the number of the format, ``_form``, that of its own header, and
    ``_restore(own, arrays, blobs)``, which sets attributes from what it gave to `write_state`.
    """

    _version: int
    _form: dict[str, Any]
    notion: Any
    features: Any

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
            If the bytes are not such a state, are damaged or incomplete, or have a version of the
            format that cannot be read. The version before this one, which has no names of labels
            and scores, can be read.
        """
        return read_state(cls, data, features)

    def _start(self, classes: np.ndarray) -> None:
        plain(tuple(classes), "labels")
        self._streams = Streams(self.notion, self.features, classes)
        self._fitted_parameters = self.get_params(deep=False)
        self.classes_, self.n_samples_seen_ = classes, 0
        self._step = 1
        self._points: list[tuple[int, float]] = []


def write_state(
    estimator: Any, header: dict[str, Any], arrays: dict[str, np.ndarray], blobs: list[bytes]
) -> bytes:
    """Bytes of a fitted test or monitor.

    Written are its parameters, its classes, the number of samples, its path and its alternatives,
    and beside them a header, arrays and blobs (bytes) of its own.
    """
    points = estimator._points
    arrays = arrays | {f"stream.{name}": one for name, one in estimator._streams.arrays().items()}
    arrays["path_at"] = np.array([at for at, _ in points], dtype=np.int64)
    arrays["path"] = np.array([value for _, value in points], dtype=np.float64)
    listed, parts = write_arrays(arrays)
    whole = {
        "parameters": _parameters(estimator),
        "classes": [plain(label, "labels") for label in estimator.classes_],
        "n_samples": estimator.n_samples_seen_,
        "step": estimator._step,
        "names": asdict(ColumnNames.known_of(estimator)),
        "own": header,
        "arrays": listed,
        "blobs": [len(blob) for blob in blobs],
    }
    return seal(_mark(type(estimator)), estimator._version, whole, [*parts, *blobs])


def read_state(cls: Any, data: bytes, features: Any) -> Any:
    """The test or monitor that was written."""
    what = f"state of a {cls.__name__}"
    parameters = dict.fromkeys(cls().get_params(), object) | {"labels": (None, [object])}
    form = _FORM | {"own": cls._form, "parameters": parameters}
    forms = {cls._version: form | {"names": NAMES_FORM}, cls._version - 1: form}
    header, data, start = unseal(data, _mark(cls), forms, what)
    arguments, classes = header["parameters"], header["classes"]
    with refused(what):
        size = max(1, arguments["features"] if type(arguments["features"]) is int else 1)
        several = {"canonical": len(classes), "classwise": len(classes)}
        several["cumulative"] = max(1, len(classes) - 1)
        size *= several.get(arguments["notion"], 1)
        require(_LEAST_BYTES * size <= len(data), "the number of alternatives")
        written = _kernel(arguments["features"])
    estimator = cls(**arguments | {"features": _passed(written, features, cls.__name__)})
    with refused(what, " A function for features must be the one with which the state was made."):
        arrays, start = read_arrays(header["arrays"], data, start)
        estimator._start(check_label_list(classes))
        require(arguments["labels"] in (None, classes), "labels")
        check_alpha(estimator.alpha)
        own = {name: one for name, one in arrays.items() if not name.startswith("stream.")}
        stream = {name[7:]: one for name, one in arrays.items() if name.startswith("stream.")}
        estimator._streams.restore(stream)
        at, path = own.pop("path_at"), own.pop("path")
        n_samples, step = header["n_samples"], header["step"]
        estimator.n_samples_seen_, estimator._step = n_samples, step
        seen = {one.alternatives.n_seen for one in estimator._streams.streams}
        require(seen == {n_samples} and n_samples > 0 < step, "n_samples or step")
        rising = np.all(np.diff(at, prepend=0, append=n_samples + 1) > 0)
        require(rising and at.shape == path.shape and not np.isnan(path).any(), "the path")
        estimator._points = list(zip(at.tolist(), path.tolist(), strict=True))
        blobs = []
        for size in header["blobs"]:
            blobs.append(data[start : start + size])
            start += size
        require(start == len(data), "its length")
        estimator._restore(header["own"], own, blobs)
        ColumnNames(**header.get("names", {})).store(estimator)
    return estimator


def _mark(cls):
    return f"skcalib-{cls.__name__}".encode()


def _parameters(estimator):
    """The parameters for JSON."""
    given = estimator.get_params(deep=False)
    if given["labels"] is not None:
        given["labels"] = [plain(label, "labels") for label in np.asarray(given["labels"])]
    kind = type(resolve_notion(given["notion"]))
    given["notion"] = next(name for name, one in NOTIONS.items() if one is kind)
    given["features"], given["alpha"] = _features(given["features"]), float(given["alpha"])
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in given.items()
    }


def _features(features):
    """ "auto", a whole number, a kernel as a dict, or an empty dict for what must be passed."""
    if isinstance(features, Kernel) and type(features).__name__ in _KERNELS:
        found = {one.name: getattr(features, one.name) for one in fields(features)}
        parts = {name: _features(one) if isinstance(one, Kernel) else plain(one, name)
                 for name, one in found.items()}  # fmt: skip
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
    parts: dict[str, Any] = {name: _kernel(one) for name, one in written.items()}
    make: Callable[..., Kernel] = _KERNELS[parts.pop("class")]
    return make(**parts)
