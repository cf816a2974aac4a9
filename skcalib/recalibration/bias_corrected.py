"""Bias-corrected temperature scaling."""

import warnings

from sklearn.exceptions import ConvergenceWarning

from skcalib.links import BiasCorrectedTemperature
from skcalib.recalibration._base import Recalibrator


class BiasCorrectedTemperatureScaling(Recalibrator):
    r"""Bias-corrected temperature scaling: :math:`softmax(\beta \log s + b)`.

    One temperature, and a bias for each class that stays at zero unless the class totals ask for it
    (chi-square test at the level .01); then the biases are shrunk by empirical Bayes. For two
    classes it is Platt scaling of the logit with a weak prior. Fitted by penalised maximum
    likelihood in a few Newton steps: the map of the default smoother, and the cheapest one that
    corrects a shift of the class frequencies. Injective; biases may change the predicted class.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in; the fit is by likelihood.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.

    Attributes
    ----------
    temperature_ : float
        1 / beta.
    intercept_ : array of shape (n_classes,)
        Biases b, which sum to zero.

    Examples
    --------
    >>> from skcalib import BiasCorrectedTemperatureScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 3, score_temperature=0.5, random_state=0)
    >>> scaling = BiasCorrectedTemperatureScaling().fit(data.y_proba, data.y)
    >>> round(scaling.temperature_, 1), scaling.intercept_
    (2.0, array([0., 0., 0.]))
    """

    def __init__(self, *, input="proba", loss="log", labels=None):
        self.input = input
        self.loss = loss
        self.labels = labels

    def _fit_map(self, forecast, target, weight):
        self._map = BiasCorrectedTemperature().fit(forecast, target, weight)
        beta, self.intercept_ = self._map.inverse_temperature_, self._map.bias_
        self.temperature_ = 1 / beta if beta else float("inf")
        # With a positive slope outputs only shift when all logits move one way, which forecasts
        # that sum to one cannot.
        self.injective_ = beta != 0
        self.preserves_order_ = bool(beta > 0 and not self.intercept_.any())
        self.preserves_argmax_ = self.preserves_order_
        if not self._map.converged_:
            warnings.warn(
                "BiasCorrectedTemperatureScaling did not converge: the forecasts may hold extreme "
                "values.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _apply_map(self, forecast):
        return self._map.apply(forecast)
