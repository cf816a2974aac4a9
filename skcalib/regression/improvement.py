"""Improvement of forecast variances by a recalibration, on held-out data."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike
from skcalib.recalibration.held_out import CalibrationImprovement, improvement_of_losses
from skcalib.regression.reliability import check_moments, losses


@checks_parameters
def dawid_sebastiani_improvement(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike | BaseEstimator,
    *,
    confidence_level: float = 0.95,
    injective: bool | None = None,
    sample_weight: ArrayLike | None = None,
) -> CalibrationImprovement:
    r"""Improvement of the Dawid-Sebastiani score by a map of mean and variance, with an interval.

    The estimate is the mean paired difference on data that were used to fit neither the regressor
    nor the map,

    .. math:: \Delta = \frac1n \sum_i \Big( \frac{(y_i - \mu_i)^2}{v_i} + \log v_i
        - \frac{(y_i - \mu_i')^2}{v_i'} - \log v_i' \Big) ,

    with a Student interval and a two-sided p-value. For an injective map its expectation is the
    improvement of the calibration error of this score (G22, proposition 4.5). For any other map it
    is a lower bound, as in :func:`~skcalib.calibration_improvement`. It does not depend on the unit
    of y.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Outcomes of held-out data.
    before : array-like of shape (n_samples, 2)
        Forecast mean and variance without the map, in this order.
    after : array-like of shape (n_samples, 2), or fitted VarianceScaling
        Mean and variance with the map. Or the map itself: it is applied to `before`, and declares
        whether it is injective (``injective_``).
    injective : bool, default=None
        Whether different forecasts remain different. None uses the declaration of the map.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights; zero-weight samples are dropped.

    Returns
    -------
    CalibrationImprovement
        The improvement, in units of the score: twice the nats of a Gaussian log-likelihood.

    Raises
    ------
    ValueError
        For invalid input, variances that are not positive, and fewer than four samples.

    See Also
    --------
    skcalib.regression.VarianceScaling : The map.
    skcalib.regression.variance_reliability : Whether the variances are calibrated, by bins.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.regression import VarianceScaling, dawid_sebastiani_improvement
    >>> rng = np.random.default_rng(0)
    >>> variance = rng.uniform(1, 3, 4000)
    >>> y = np.sqrt(2 * variance) * rng.standard_normal(4000)  # the variance is twice as large
    >>> forecast = np.column_stack([np.zeros(4000), variance])
    >>> scaling = VarianceScaling().fit(forecast[:2000], y[:2000])
    >>> gain = dawid_sebastiani_improvement(y[2000:], forecast[2000:], scaling)
    >>> gain.low > 0, gain.injective  # 1 - log 2 = 0.307 is possible
    (True, True)
    """
    recalibrated: Any = after
    if hasattr(after, "transform"):
        injective = getattr(after, "injective_", None) if injective is None else injective
        recalibrated = after.transform(before)
    found = []
    for values, name in ((before, "before"), (recalibrated, "after")):
        mean, variance = _columns(values, name)
        var_name = f"the variance, second column of {name},"
        found.append(check_moments(y_true, mean, variance, sample_weight, var_name=var_name))
    first, second = (losses(moments) for moments in found)
    return improvement_of_losses(
        first,
        second,
        found[0].weight,
        confidence_level,
        injective,
        name="dawid_sebastiani_improvement",
    )


def _columns(values: ArrayLike, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(
            f"{name} must have the shape (n_samples, 2), mean and variance, got {values.shape}."
        )
    return values.T
