"""Validate once at the door: outcomes, forecast means and variances become plain arrays."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from skcalib._checks import check_weight


@dataclass(frozen=True)
class Moments:
    """Residuals y - mean, forecast variances and positive weights, each of shape (n,).

    The score of a mean and a variance does not change when outcome and mean are moved together.
    Moments are therefore taken about the forecast mean: mean^2 + variance would lose the variance
    to rounding where the mean is large.
    """

    residual: np.ndarray
    variance: np.ndarray
    weight: np.ndarray

    @property
    def forecast(self):
        """First and second moment of the forecast about its mean, (0, v), shape (n, 2)."""
        return centred(self.variance)


def centred(variance):
    """Variances (n,) -> moments (0, v) about the mean, shape (n, 2)."""
    return np.stack([np.zeros_like(variance), variance], axis=-1)


def check_moments(y_true, y_mean, y_var, sample_weight=None, *, name="y_true", var_name="y_var"):
    """Arguments of a public function -> `Moments`; samples of weight zero are not there."""
    y, mean = check_numbers(y_true, name), check_numbers(y_mean, "y_mean")
    variance = check_numbers(y_var, var_name)
    if not len(y) == len(mean) == len(variance):
        raise ValueError(
            f"{name}, y_mean and y_var must have the same number of samples, got {len(y)}, "
            f"{len(mean)} and {len(variance)}."
        )
    if variance.min() <= 0:
        row = int(variance.argmin())
        raise ValueError(
            f"{var_name} must be positive, but row {row} holds {variance[row]:g}: the score of a "
            "forecast without variance is infinite. Give the regressor a noise term, or leave "
            "these rows out."
        )
    weight = check_weight(sample_weight, len(y))
    counts = weight > 0
    return Moments((y - mean)[counts], variance[counts], weight[counts])


def check_numbers(values, name):
    """Finite real numbers of shape (n,) or (n, 1) -> float64 array (n,)."""
    if issparse(values):
        raise ValueError(f"{name} is sparse: pass a dense array, for example {name}.toarray().")
    array = np.asarray(values)
    if array.dtype.kind in "cSUV":
        raise ValueError(f"{name} must hold real numbers, got an array of type {array.dtype}.")
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers: {error}") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), one number per sample; got {array.shape}.")
    if len(array) == 0:
        raise ValueError(f"{name} is empty: at least one sample is needed.")
    if not np.isfinite(array).all():
        what = "NaN" if np.isnan(array).any() else "infinity"
        raise ValueError(f"{name} contains {what}: remove or repair these rows first.")
    return array
